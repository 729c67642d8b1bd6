/* Device memory from the driver's stream-ordered pools, and the order of work on it across threads.
 *
 * A block remembers the lane that used it last. A thread that uses it next makes its own stream wait for that one's, so
 * there is one order of all work on a block, without the host waiting for anything. A block that several lanes used
 * is released behind all of them. A caller's stream is not remembered: it may be destroyed once the lane has it no
 * more. */
#include <pthread.h>
#include <stdlib.h>

#include "cuda/module/driver.h"

struct amp_cuda_block {
    CUdeviceptr address;
    size_t bytes;
    int device;
    amp_cuda_lane *lane; /* of the last use */
    bool shared;         /* more than one lane used it */
    void (*deleter)(void *);
    void *context;
    amp_cuda_block *next; /* of those that are held */
};

/* Released while a stream that used them was captured for a graph, whose part they must not become. Under the order's
 * lock. */
static amp_cuda_block *held;

static CUmemoryPool pools[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A pool of libamp's own, which keeps what is freed: the driver's default pool gives it back at every
 * synchronisation. */
static amp_cuda_result pool_of(int device, CUmemoryPool *pool) {
    CUresult made = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!pools[device]) {
        CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
        cuuint64_t keep = UINT64_MAX;
        made = cuda.pool_create(&pools[device], &properties);
        if (made == CUDA_SUCCESS) made = cuda.pool_set(pools[device], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
    }
    *pool = pools[device];
    pthread_mutex_unlock(&lock);
    return amp_cuda_check(made, "a memory pool cannot be made");
}

/* What other streams have freed may not have come back yet, and the pool may keep pieces that are too small. */
static CUresult allocate_again(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    amp_cuda_count.synchronizations++;
    CUresult result = cuda.context_synchronize();
    if (result == CUDA_SUCCESS) result = cuda.pool_trim(pool, 0);
    return result == CUDA_SUCCESS ? cuda.allocate(address, bytes, pool, stream) : result;
}

amp_cuda_result amp_cuda_allocate(size_t bytes, amp_cuda_block **block, void **address) {
    CUmemoryPool pool;
    amp_cuda_result entered;
    amp_cuda_lane *lane = amp_cuda_enter_lane(&entered);
    if (!lane) return entered;
    CUstream stream = amp_cuda_stream_of(lane);
    AMP_CUDA_TRY(pool_of(amp_cuda_selected(), &pool));
    amp_cuda_block *b = calloc(1, sizeof *b);
    if (!b) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for a block");
    CUresult got = cuda.allocate(&b->address, bytes ? bytes : 1, pool, stream);
    if (got == CUDA_ERROR_OUT_OF_MEMORY) got = allocate_again(&b->address, bytes ? bytes : 1, pool, stream);
    if (got != CUDA_SUCCESS) {
        free(b);
        return amp_cuda_check(got, "device memory cannot be had");
    }
    b->bytes = bytes;
    b->device = amp_cuda_selected();
    b->lane = lane;
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
    *b = (amp_cuda_block){
        .address = (CUdeviceptr)address, .device = device, .lane = lane, .deleter = deleter, .context = context};
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

/* Of a lost device too. A caller's stream that was destroyed cannot free it, but ours can once all is over. */
static void free_on(const amp_cuda_block *block, CUstream stream) {
    if (cuda.release(block->address, stream) == CUDA_SUCCESS || stream == block->lane->own) return;
    amp_cuda_count.synchronizations++;
    (void)cuda.context_synchronize();
    (void)cuda.release(block->address, block->lane->own);
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
    if (!block->deleter) free_on(block, last);
    pthread_mutex_unlock(&amp_cuda_order);
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

amp_cuda_result amp_cuda_trim(void) {
    CUmemoryPool pool;
    release_held();
    const amp_cuda_result finished = amp_cuda_finish();
    if (finished != AMP_CUDA_OK && finished != AMP_CUDA_INVALID) return finished;
    AMP_CUDA_TRY(pool_of(amp_cuda_selected(), &pool));
    AMP_CUDA_TRY(amp_cuda_check(cuda.pool_trim(pool, 0), "memory cannot be given back"));
    return finished;
}
