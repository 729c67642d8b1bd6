/* Device memory, and the order of work on it across threads. It comes from the driver's stream-ordered pools, or where
 * the driver has none from its allocator; what is released a lane keeps for itself, so that an op's temporaries need no
 * call of the driver's.
 *
 * A block remembers the lane that used it last. A thread that uses it next makes its own stream wait for that one's, so
 * there is one order of all work on a block, without the host waiting for anything. A block that several lanes used
 * is released behind all of them. A caller's stream is not remembered: it may be destroyed once the lane has it no
 * more. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/module/driver.h"

struct amp_cuda_block {
    CUdeviceptr address;
    size_t bytes; /* that were asked for */
    size_t room;  /* of the driver's memory */
    int size;     /* of those that are kept, or -1: it has its own */
    int device;
    amp_cuda_lane *lane; /* of the last use */
    bool shared;         /* more than one lane used it */
    void (*deleter)(void *);
    void *context;
    amp_cuda_block *next; /* of those that are held, or kept */
};

/* Released while a stream that used them was captured for a graph, whose part they must not become. Under the order's
 * lock. */
static amp_cuda_block *held;

/* ---- The driver's ------------------------------------------------------------------------------------------------ */
/* pool: NULL where the driver has none for the device, as on some virtual GPUs. */
static struct {
    bool asked;
    CUmemoryPool pool;
} sources[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A pool of libamp's own, which keeps what is freed: the driver's default pool gives it back at every
 * synchronisation. */
static CUresult make_pool(int device, CUmemoryPool *pool) {
    CUdevice handle;
    int supported = 0;
    CUresult made = cuda.device_get(&handle, device);
    if (made == CUDA_SUCCESS)
        made = cuda.device_attribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, handle);
    if (made != CUDA_SUCCESS || !supported) return made;
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    cuuint64_t keep = UINT64_MAX;
    made = cuda.pool_create(pool, &properties);
    if (made == CUDA_SUCCESS) made = cuda.pool_set(*pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    return made;
}

static amp_cuda_result open_source(int device) {
    CUresult made = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!sources[device].asked) made = make_pool(device, &sources[device].pool);
    if (made == CUDA_SUCCESS) sources[device].asked = true;
    pthread_mutex_unlock(&lock);
    return amp_cuda_check(made, "a memory pool cannot be made");
}

static CUresult take_from_driver(CUdeviceptr *address, size_t bytes, int device, CUstream stream) {
    CUmemoryPool pool = sources[device].pool;
    return pool ? cuda.allocate(address, bytes, pool, stream) : cuda.allocate_now(address, bytes);
}

/* Under the order's lock, behind what the lane's stream does; false: only a wait can free it. */
static bool free_behind(const amp_cuda_block *block) {
    amp_cuda_relax();
    if (!sources[block->device].pool) return false;
    return cuda.release(block->address, amp_cuda_stream_of(block->lane)) == CUDA_SUCCESS;
}

/* After all that the device does, and so without the lock. Without a pool the driver itself waits; with one a caller's
 * stream was destroyed, but ours can free the block once all is over. */
static void free_after_all(const amp_cuda_block *block) {
    amp_cuda_relax();
    if (!sources[block->device].pool) {
        (void)cuda.release_now(block->address);
        return;
    }
    amp_cuda_count.synchronizations++;
    (void)cuda.context_synchronize();
    (void)cuda.release(block->address, block->lane->own);
}

/* ---- What lanes keep --------------------------------------------------------------------------------------------- */
/* Larger blocks are worth a call, and are worth more to other sizes. */
enum { UNIT = 512, LARGEST_KEPT = 4 << 20 };
static const size_t most_kept = (size_t)64 << 20; /* of a lane */

/* AMP_DEBUG=1: every block is the driver's own and of its size, for tools that look at what kernels read and write. */
static bool keeps_nothing;
static pthread_once_t debug_once = PTHREAD_ONCE_INIT;

static void read_debug(void) {
    const char *debug = getenv("AMP_DEBUG");
    keeps_nothing = debug && strcmp(debug, "1") == 0;
}

/* Sizes are the units from 1 to 4, and then four to a power of two: less than a fifth is left unused. -1, and the bytes
 * themselves: none of them. */
static int size_of(size_t bytes, size_t *rounded) {
    const size_t units = (bytes + UNIT - 1) / UNIT;
    int shift = 0;
    *rounded = bytes ? bytes : 1;
    pthread_once(&debug_once, read_debug);
    if (bytes > LARGEST_KEPT || keeps_nothing) return -1;
    if (units <= 1) return *rounded = UNIT, 0;
    while ((units - 1) >> shift > 7) shift++; /* as many steps as 5 to 8 of 2^shift units */
    const size_t steps = ((units - 1) >> shift) + 1;
    *rounded = (steps << shift) * UNIT;
    return 4 * shift + (int)steps - 1;
}

/* NULL: there is none. What the lane enqueues next comes after all that was done with it. */
static amp_cuda_block *take_kept(amp_cuda_lane *lane, int size) {
    if (size < 0) return NULL;
    pthread_mutex_lock(&amp_cuda_order);
    amp_cuda_block *block = lane->kept[size];
    if (block) {
        lane->kept[size] = block->next;
        lane->kept_bytes -= block->room;
    }
    pthread_mutex_unlock(&amp_cuda_order);
    return block;
}

/* Under the order's lock, behind all that was done with the block; false: the driver shall have it. */
static bool keep(amp_cuda_block *block) {
    amp_cuda_lane *lane = block->lane;
    if (block->size < 0 || lane->kept_bytes + block->room > most_kept) return false;
    block->next = lane->kept[block->size];
    lane->kept[block->size] = block;
    lane->kept_bytes += block->room;
    return true;
}

/* Onto *left what only a wait can free. */
static void give_kept_back(amp_cuda_lane *lane, amp_cuda_block **left) {
    for (int i = 0; i < AMP_CUDA_KEPT_SIZES; i++) {
        while (lane->kept[i]) {
            amp_cuda_block *block = lane->kept[i];
            lane->kept[i] = block->next;
            if (free_behind(block)) {
                free(block);
                continue;
            }
            block->next = *left;
            *left = block;
        }
    }
    lane->kept_bytes = 0;
}

/* Of all lanes; a stream that is being captured must not get what would become a part of the graph. */
static void give_all_kept_back(int device) {
    amp_cuda_lane *lanes[256];
    amp_cuda_block *left = NULL;
    const int count = amp_cuda_lanes(device, lanes, (int)(sizeof lanes / sizeof *lanes));
    pthread_mutex_lock(&amp_cuda_order);
    for (int i = 0; i < count; i++) {
        if (!amp_cuda_is_captured(lanes[i])) give_kept_back(lanes[i], &left);
    }
    pthread_mutex_unlock(&amp_cuda_order);
    while (left) {
        amp_cuda_block *next = left->next;
        free_after_all(left);
        free(left);
        left = next;
    }
}

/* What other streams have freed may not have come back yet, and the pool may keep pieces that are too small. */
amp_cuda_result amp_cuda_make_room(void) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    const int device = amp_cuda_selected();
    amp_cuda_relax();
    give_all_kept_back(device);
    amp_cuda_count.synchronizations++;
    CUresult result = cuda.context_synchronize();
    if (result == CUDA_SUCCESS && sources[device].pool) result = cuda.pool_trim(sources[device].pool, 0);
    return amp_cuda_check(result, "memory cannot be given back");
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------ */
/* Of the size that would be kept, so that it can be. */
static amp_cuda_result make_block(amp_cuda_lane *lane, int size, size_t rounded, amp_cuda_block **made) {
    const int device = amp_cuda_selected();
    CUstream stream = amp_cuda_stream_of(lane);
    AMP_CUDA_TRY(open_source(device));
    amp_cuda_block *b = calloc(1, sizeof *b);
    if (!b) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for a block");
    amp_cuda_relax();
    CUresult got = take_from_driver(&b->address, rounded, device, stream);
    if (got == CUDA_ERROR_OUT_OF_MEMORY && amp_cuda_make_room() == AMP_CUDA_OK)
        got = take_from_driver(&b->address, rounded, device, stream);
    if (got != CUDA_SUCCESS) {
        free(b);
        return amp_cuda_check(got, "device memory cannot be had");
    }
    b->room = rounded;
    b->size = size;
    b->device = device;
    b->lane = lane;
    *made = b;
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_allocate(size_t bytes, amp_cuda_block **block, void **address) {
    amp_cuda_result result;
    amp_cuda_lane *lane = amp_cuda_enter_lane(&result);
    if (!lane) return result;
    size_t rounded;
    const int size = size_of(bytes, &rounded);
    amp_cuda_block *b = take_kept(lane, size);
    if (!b) AMP_CUDA_TRY(make_block(lane, size, rounded, &b));
    b->bytes = bytes;
    b->shared = false;
    amp_cuda_count.allocations++;
    amp_cuda_count.live_blocks++;
    amp_cuda_count.live_bytes += bytes;
    *block = b;
    *address = (void *)b->address;
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_follow(CUstream stream, CUstream other) {
    CUevent event;
    AMP_CUDA_TRY(amp_cuda_check(cuda.event_create(&event, CU_EVENT_DISABLE_TIMING), "an event cannot be made"));
    CUresult result = cuda.event_record(event, other);
    if (result == CUDA_SUCCESS) result = cuda.stream_wait_event(stream, event, 0);
    (void)cuda.event_destroy(event); /* the driver keeps it until the wait is over */
    amp_cuda_count.stream_waits++;
    return amp_cuda_check(result, "a stream cannot wait for another");
}

amp_cuda_result amp_cuda_adopt(void *address, int device, void (*deleter)(void *), void *context,
                               amp_cuda_block **block) {
    amp_cuda_result entered;
    amp_cuda_lane *lane = amp_cuda_enter_lane(&entered);
    if (!lane) return entered;
    amp_cuda_block *b = calloc(1, sizeof *b);
    if (!b) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for a block");
    *b = (amp_cuda_block){.address = (CUdeviceptr)address,
                          .size = -1,
                          .device = device,
                          .lane = lane,
                          .deleter = deleter,
                          .context = context};
    const amp_cuda_result result = amp_cuda_follow(amp_cuda_stream_of(lane), CU_STREAM_LEGACY);
    if (result != AMP_CUDA_OK) {
        free(b);
        return result;
    }
    amp_cuda_count.live_blocks++;
    *block = b;
    return AMP_CUDA_OK;
}

void amp_cuda_forget(amp_cuda_block *block) {
    amp_cuda_count.live_blocks--;
    free(block);
}

int amp_cuda_device_of(const amp_cuda_block *block) {
    return block->device;
}

/* Under the lock, so that a third thread sees the block either before or after this thread's wait. */
amp_cuda_result amp_cuda_use(amp_cuda_block *block) {
    amp_cuda_result result;
    amp_cuda_lane *lane = amp_cuda_enter_lane(&result);
    if (!lane) return result;
    pthread_mutex_lock(&amp_cuda_order);
    if (block->lane != lane && amp_cuda_is_captured(block->lane)) {
        result = amp_cuda_say(AMP_CUDA_INVALID, "the stream of the thread that used it last is being captured");
    } else if (block->lane != lane) {
        result = amp_cuda_follow(amp_cuda_stream_of(lane), amp_cuda_stream_of(block->lane));
        if (result == AMP_CUDA_OK) {
            block->lane = lane;
            block->shared = true;
        }
    }
    pthread_mutex_unlock(&amp_cuda_order);
    return result;
}

/* Behind all lanes of the device: one that used the block may have work left that the last one did not wait for. */
static void wait_for_all(int device, const amp_cuda_lane *last) {
    amp_cuda_lane *lanes[256];
    const int count = amp_cuda_lanes(device, lanes, (int)(sizeof lanes / sizeof *lanes));
    for (int i = 0; i < count; i++) {
        if (lanes[i] != last) (void)amp_cuda_follow(amp_cuda_stream_of(last), amp_cuda_stream_of(lanes[i]));
    }
}

/* Whether a stream that must come to the block's end first cannot be asked to. */
static bool is_captured(const amp_cuda_block *block) {
    amp_cuda_lane *lanes[256];
    if (amp_cuda_is_captured(block->lane)) return true;
    const int count = block->shared ? amp_cuda_lanes(block->device, lanes, (int)(sizeof lanes / sizeof *lanes)) : 0;
    for (int i = 0; i < count; i++) {
        if (amp_cuda_is_captured(lanes[i])) return true;
    }
    return false;
}

/* An error here says that the device is lost: there is nobody to tell, the next op will find it. */
static void release_on_device(amp_cuda_block *block) {
    CUstream stream;
    const amp_cuda_result entered = amp_cuda_enter(&stream);
    const bool usable = entered == AMP_CUDA_OK;
    pthread_mutex_lock(&amp_cuda_order);
    const bool holds = entered == AMP_CUDA_INVALID || (usable && is_captured(block)); /* INVALID: our own is captured */
    if (holds) {
        block->next = held;
        held = block;
        pthread_mutex_unlock(&amp_cuda_order);
        return;
    }
    if (usable && block->shared) wait_for_all(block->device, block->lane);
    CUstream last = amp_cuda_stream_of(block->lane);
    if (usable && block->deleter && last != stream) (void)amp_cuda_follow(stream, last);
    const bool kept = usable && !block->deleter && keep(block);
    const bool over = kept || block->deleter || free_behind(block);
    pthread_mutex_unlock(&amp_cuda_order);
    if (kept) return;
    if (!over) free_after_all(block);
    if (usable && block->deleter) (void)amp_cuda_wait(stream); /* its owner knows nothing of our streams */
    if (block->deleter) block->deleter(block->context);
    free(block);
}

static void release_selected(amp_cuda_block *block) {
    const int before = amp_cuda_selected(), device = block->device;
    if (before != device) (void)amp_cuda_select(device);
    release_on_device(block);
    if (before != device) (void)amp_cuda_select(before);
}

/* Those that are still not to be released are held again. */
static void release_held(void) {
    pthread_mutex_lock(&amp_cuda_order);
    amp_cuda_block *block = held;
    held = NULL;
    pthread_mutex_unlock(&amp_cuda_order);
    while (block) {
        amp_cuda_block *next = block->next;
        release_selected(block);
        block = next;
    }
}

void amp_cuda_release(amp_cuda_block *block) {
    amp_cuda_count.live_blocks--;
    amp_cuda_count.live_bytes -= block->bytes;
    if (amp_cuda_is_forked()) { /* the memory is the parent's, and locks may be held for ever */
        free(block);
        return;
    }
    release_selected(block);
    release_held();
}

/* What is kept goes back even where a kernel had a fault, of which the caller is told here. */
amp_cuda_result amp_cuda_trim(void) {
    release_held();
    AMP_CUDA_TRY(amp_cuda_make_room());
    return amp_cuda_finished();
}
