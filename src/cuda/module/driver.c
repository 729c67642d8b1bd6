/* The driver's table, the devices, the threads' streams, and what is said when something fails. */
#include "cuda/module/driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

amp_cuda_driver cuda;
amp_cuda_counters amp_cuda_count;

/* ---- Loading ----------------------------------------------------------------------------------------------------- */
bool amp_cuda_driver_load(char *why, size_t why_size) {
    void *library = amp_cuda_open_library("libcuda.so.1", "the CUDA driver (libcuda.so.1)", why, why_size);
    if (!library) return false;
#define NAME_(function) #function
#define NAME(function) NAME_(function) /* after cuda.h has put the version behind it */
#define X(name, function)                                                                                              \
    if (!amp_cuda_symbol(library, NAME(function), &cuda.name)) {                                                       \
        snprintf(why, why_size, "the CUDA driver is too old: it has no %s", NAME(function));                           \
        return false;                                                                                                  \
    }
    AMP_CUDA_DRIVER_FUNCTIONS(X)
#undef X
    /* By cuda.h of CUDA 13 this is _v2, which older drivers lack; the first one takes the same arguments. */
    if (amp_cuda_symbol(library, "cuEventElapsedTime", &cuda.event_elapsed)) return true;
    snprintf(why, why_size, "the CUDA driver is too old: it has no cuEventElapsedTime");
    return false;
}

/* ---- Devices and threads ----------------------------------------------------------------------------------------- */
enum { MAX_STREAMS = 256, RECENT = 12 };

typedef struct device_state {
    CUdevice handle;
    int capability;    /* 10 · major + minor */
    CUcontext context; /* the primary one, shared with whatever else the program uses; NULL until the first use */
    amp_cuda_matrix_faults *faults; /* of all lanes, pinned */
    amp_cuda_lane lanes[MAX_STREAMS];
    int lane_count;
    amp_cuda_lane *idle[MAX_STREAMS]; /* of threads that ended */
    int idle_count;
    _Atomic bool lost;
    char lost_sentence[512];
} device_state;

static device_state devices[AMP_CUDA_MAX_DEVICES];
static int device_total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t amp_cuda_order = PTHREAD_MUTEX_INITIALIZER;

typedef struct thread_state {
    int selected;
    amp_cuda_lane *lanes[AMP_CUDA_MAX_DEVICES];
    const char *op;
    const char *recent[RECENT]; /* ops since the stream was last waited for, the newest last */
    int recent_count;
    /* What was current when a function of the table was called, if it is another one: it is again then. */
    CUcontext callers;
    bool relaxed; /* … and `mode` was the thread's own */
    CUstreamCaptureMode mode;
    char error[1024];
} thread_state;

static pthread_key_t thread_key;
static bool has_key;
static volatile bool forked;

static void note_fork(void) {
    forked = has_key;
}

bool amp_cuda_is_forked(void) {
    return forked;
}

/* What is enqueued on the lane's own stream next comes after what is on the caller's, which is the caller's again.
 * CUDA_ERROR_INVALID_HANDLE: that is destroyed, and all is over. */
static CUresult give_back(amp_cuda_lane *lane) {
    CUevent event = NULL;
    CUresult result = cuda.event_create(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) result = cuda.event_record(event, lane->lent);
    if (result == CUDA_SUCCESS) result = cuda.stream_wait_event(lane->own, event, 0);
    if (event) (void)cuda.event_destroy(event);
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED) result = CUDA_ERROR_INVALID_HANDLE; /* the stream's, not ours */
    if (result != CUDA_SUCCESS) { /* whatever it is: what the stream did must be over all the same */
        amp_cuda_count.synchronizations++;
        const CUresult waited = cuda.context_synchronize();
        if (waited != CUDA_SUCCESS) result = waited;
    }
    amp_cuda_count.stream_waits++;
    lane->lent = NULL;
    return result;
}

/* A thread's streams outlive it: memory that it used is released on them. The next thread takes them over. */
static void end_thread(void *ended) {
    thread_state *t = ended;
    pthread_mutex_lock(&amp_cuda_order);
    for (int d = 0; d < device_total; d++) {
        if (t->lanes[d] && t->lanes[d]->lent && cuda.set_context(devices[d].context) == CUDA_SUCCESS) {
            (void)give_back(t->lanes[d]);
        }
    }
    pthread_mutex_unlock(&amp_cuda_order);
    pthread_mutex_lock(&lock);
    for (int d = 0; d < device_total; d++) {
        if (t->lanes[d]) devices[d].idle[devices[d].idle_count++] = t->lanes[d];
    }
    pthread_mutex_unlock(&lock);
    free(t);
}

/* NULL: there is no memory for it. */
static thread_state *this_thread(void) {
    thread_state *t = pthread_getspecific(thread_key);
    if (t) return t;
    t = calloc(1, sizeof *t);
    if (!t || pthread_setspecific(thread_key, t) == 0) return t;
    free(t);
    return NULL;
}

amp_cuda_result amp_cuda_say(amp_cuda_result result, const char *format, ...) {
    thread_state *t = this_thread();
    if (!t) return AMP_CUDA_NO_MEMORY;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->error, sizeof t->error, format, arguments);
    va_end(arguments);
    return result;
}

static const char *last_error(void) {
    const thread_state *t = this_thread();
    return t ? t->error : "the host has no memory for what a thread must remember";
}

/* After these the context is of no more use. */
static bool loses_device(CUresult result) {
    static const CUresult losses[] = {
        CUDA_ERROR_ECC_UNCORRECTABLE,     CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS,
        CUDA_ERROR_LAUNCH_TIMEOUT,        CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_ASSERT,
        CUDA_ERROR_HARDWARE_STACK_ERROR,  CUDA_ERROR_ILLEGAL_INSTRUCTION,  CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC,           CUDA_ERROR_LAUNCH_FAILED};
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (result == losses[i]) return true;
    }
    return false;
}

static void describe_loss(const thread_state *t, const char *text, CUresult result, char *sentence, size_t size) {
    size_t used = (size_t)snprintf(sentence, size, "device %d is lost: %s (CUDA error %d), noticed in %s", t->selected,
                                   text, (int)result, t->op ? t->op : "a copy");
    const int shown = t->recent_count < RECENT ? t->recent_count : RECENT;
    if (shown > 0 && used < size) {
        used += (size_t)snprintf(sentence + used, size - used, shown == 1 ? "; caused by " : "; caused by one of ");
    }
    for (int i = 0; i < shown && used < size; i++) {
        used += (size_t)snprintf(sentence + used, size - used, i ? ", %s" : "%s", t->recent[i]);
    }
}

amp_cuda_result amp_cuda_check(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return AMP_CUDA_OK;
    const char *text = NULL;
    if (cuda.error_string(result, &text) != CUDA_SUCCESS || !text) text = "unknown error";
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "%s: %s", what, text);
    const thread_state *t = this_thread();
    if (!t) return AMP_CUDA_NO_MEMORY;
    if (!loses_device(result)) return amp_cuda_say(AMP_CUDA_FAILED, "%s: %s (CUDA error %d)", what, text, (int)result);
    device_state *d = &devices[t->selected];
    pthread_mutex_lock(&lock);
    if (!d->lost) describe_loss(t, text, result, d->lost_sentence, sizeof d->lost_sentence);
    d->lost = true;
    pthread_mutex_unlock(&lock);
    return amp_cuda_say(AMP_CUDA_FAILED, "%s", d->lost_sentence);
}

/* An op is there once, at its last use. */
static void begin(const char *op) {
    thread_state *t = this_thread();
    if (!t) return;
    int gone = 0;
    while (gone < t->recent_count && t->recent[gone] != op) gone++;
    if (gone == RECENT) gone = 0;
    if (gone < t->recent_count) {
        memmove(&t->recent[gone], &t->recent[gone + 1], (size_t)(t->recent_count - gone - 1) * sizeof t->recent[0]);
        t->recent_count--;
    }
    t->op = op;
    t->recent[t->recent_count++] = op;
}

int amp_cuda_selected(void) {
    const thread_state *t = this_thread();
    return t ? t->selected : 0;
}

int amp_cuda_capability(void) {
    return devices[amp_cuda_selected()].capability;
}

amp_cuda_result amp_cuda_select(int device) {
    thread_state *t = this_thread();
    if (!t) return AMP_CUDA_NO_MEMORY;
    if (device < 0 || device >= device_total) {
        return amp_cuda_say(AMP_CUDA_INVALID, "there is no CUDA device %d; this machine has %d, counted from 0", device,
                            device_total);
    }
    t->selected = device;
    return AMP_CUDA_OK;
}

/* Without one a thread keeps ours, as it would keep cudaSetDevice's. */
static CUresult make_current(CUcontext context) {
    CUcontext now = NULL;
    const CUresult result = cuda.get_context(&now);
    if (result != CUDA_SUCCESS || now == context) return result;
    thread_state *t = this_thread();
    if (t && !t->callers) t->callers = now;
    return cuda.set_context(context);
}

void amp_cuda_relax(void) {
    thread_state *t = this_thread();
    if (!t || t->relaxed) return;
    t->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    t->relaxed = cuda.exchange_capture_mode(&t->mode) == CUDA_SUCCESS;
}

static void leave(void) {
    thread_state *t = this_thread();
    if (!t) return;
    if (t->relaxed) (void)cuda.exchange_capture_mode(&t->mode);
    t->relaxed = false;
    if (t->callers) (void)cuda.set_context(t->callers);
    t->callers = NULL;
}

/* A stream, and its place among the device's faults. Under the lock. */
static CUresult make_lane(device_state *d, amp_cuda_lane **made) {
    amp_cuda_lane *lane = &d->lanes[d->lane_count];
    CUresult result = CUDA_SUCCESS;
    if (!d->faults) {
        void *faults = NULL;
        result = cuda.host_allocate(&faults, MAX_STREAMS * sizeof *d->faults, 0);
        if (result != CUDA_SUCCESS) return result;
        d->faults = memset(faults, 0, MAX_STREAMS * sizeof *d->faults);
    }
    result = cuda.stream_create(&lane->own, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS) return result;
    lane->faults = &d->faults[d->lane_count++].others;
    *made = lane;
    return CUDA_SUCCESS;
}

/* Makes the device's context this thread's, and finds a lane for it. The lock is let go before the driver's answer is
 * looked at: an error that loses the device is written down under it. */
static amp_cuda_result open_lane(device_state *d, amp_cuda_lane **opened) {
    CUcontext context = NULL;
    amp_cuda_lane *found = NULL;
    amp_cuda_relax();
    pthread_mutex_lock(&lock);
    CUresult made = d->context ? CUDA_SUCCESS : cuda.retain_context(&context, d->handle);
    if (made == CUDA_SUCCESS && !d->context) d->context = context;
    if (made == CUDA_SUCCESS) made = make_current(d->context);
    if (made == CUDA_SUCCESS && d->idle_count > 0) {
        found = d->idle[--d->idle_count];
    } else if (made == CUDA_SUCCESS && d->lane_count < MAX_STREAMS) {
        made = make_lane(d, &found);
    }
    pthread_mutex_unlock(&lock);
    AMP_CUDA_TRY(amp_cuda_check(made, "the device cannot be opened"));
    *opened = found;
    if (found) return AMP_CUDA_OK;
    return amp_cuda_say(AMP_CUDA_FAILED, "more than %d threads use device %d at once", (int)MAX_STREAMS,
                        (int)(d - devices));
}

static amp_cuda_result may_enter(const device_state *d) {
    if (forked) return amp_cuda_say(AMP_CUDA_FAILED, "CUDA cannot be used in a process forked from one that used it");
    return d->lost ? amp_cuda_say(AMP_CUDA_FAILED, "%s", d->lost_sentence) : AMP_CUDA_OK;
}

static bool is_captured(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = cuda.stream_captures(stream, &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE; /* others tell of errors */
}

bool amp_cuda_is_captured(const amp_cuda_lane *lane) {
    return lane->lent && is_captured(lane->lent);
}

/* Memory of our pools must not become a graph's, nor may a thread wait for what only a graph will run. */
static amp_cuda_result expect_no_capture(CUstream stream) {
    if (!is_captured(stream)) return AMP_CUDA_OK;
    return amp_cuda_say(AMP_CUDA_INVALID, "the stream is being captured for a graph, of which libamp's work can be no "
                                          "part");
}

amp_cuda_lane *amp_cuda_enter_lane(amp_cuda_result *result) {
    thread_state *t = this_thread();
    *result = AMP_CUDA_NO_MEMORY;
    if (!t) return NULL;
    device_state *d = &devices[t->selected];
    amp_cuda_lane **own = &t->lanes[t->selected];
    *result = may_enter(d);
    if (*result != AMP_CUDA_OK) return NULL;
    *result = *own ? amp_cuda_check(make_current(d->context), "the device cannot be used") : open_lane(d, own);
    if (*own && (*own)->lent && *result == AMP_CUDA_OK) *result = expect_no_capture((*own)->lent);
    return *result == AMP_CUDA_OK ? *own : NULL;
}

amp_cuda_result amp_cuda_enter(CUstream *stream) {
    amp_cuda_result result;
    const amp_cuda_lane *own = amp_cuda_enter_lane(&result);
    if (own) *stream = amp_cuda_stream_of(own);
    return result;
}

amp_cuda_result amp_cuda_thread_faults(amp_cuda_faults **faults) {
    amp_cuda_result result;
    const amp_cuda_lane *own = amp_cuda_enter_lane(&result);
    if (own) *faults = own->faults;
    return result;
}

/* Under the order's lock: no other thread looks at a stream that is given back meanwhile. */
static amp_cuda_result exchange(amp_cuda_lane *lane, CUstream stream, const device_state *d) {
    CUcontext context = NULL;
    if (stream == CU_STREAM_PER_THREAD) /* other threads, which wait for it, would mean their own */
        return amp_cuda_say(AMP_CUDA_INVALID, "cudaStreamPerThread is another stream in every thread");
    if (stream && cuda.stream_context(stream, &context) != CUDA_SUCCESS)
        return amp_cuda_say(AMP_CUDA_INVALID, "there is no such stream");
    if (stream && context != d->context)
        return amp_cuda_say(AMP_CUDA_INVALID, "the stream is not of device %d's primary context", (int)(d - devices));
    if (stream) AMP_CUDA_TRY(expect_no_capture(stream));
    const CUresult returned = lane->lent ? give_back(lane) : CUDA_SUCCESS;
    if (returned != CUDA_ERROR_INVALID_HANDLE)
        AMP_CUDA_TRY(amp_cuda_check(returned, "the stream of before cannot be waited for"));
    if (stream) AMP_CUDA_TRY(amp_cuda_follow(stream, lane->own));
    lane->lent = stream;
    if (returned == CUDA_SUCCESS) return AMP_CUDA_OK;
    return amp_cuda_say(AMP_CUDA_INVALID,
                        "the stream of before was destroyed while it was lent (its work has been waited for)");
}

amp_cuda_result amp_cuda_lend(void *stream) {
    amp_cuda_result result;
    amp_cuda_lane *own = amp_cuda_enter_lane(&result);
    if (!own || (!stream && !own->lent)) return result;
    pthread_mutex_lock(&amp_cuda_order); /* for the same handle too: it may be another stream by now */
    result = exchange(own, stream, &devices[amp_cuda_selected()]);
    pthread_mutex_unlock(&amp_cuda_order);
    return result;
}

CUcontext amp_cuda_context(int device) {
    return devices[device].context;
}

int amp_cuda_lanes(int device, amp_cuda_lane **lanes, int room) {
    pthread_mutex_lock(&lock);
    const int count = devices[device].lane_count < room ? devices[device].lane_count : room;
    for (int i = 0; i < count; i++) lanes[i] = &devices[device].lanes[i];
    pthread_mutex_unlock(&lock);
    return count;
}

amp_cuda_result amp_cuda_wait(CUstream stream) {
    amp_cuda_count.synchronizations++;
    return amp_cuda_check(cuda.stream_synchronize(stream), "waiting for the device");
}

static amp_cuda_result tell_faults(amp_cuda_faults *own) {
    amp_cuda_matrix_faults *all = (amp_cuda_matrix_faults *)(void *)own;
    const amp_cuda_faults *faults = &all->others;
    const struct {
        const char *op, *format;
    } seen[] = {{faults->index, "an index of %s was out of range"},
                {faults->zero_divisor, "a divisor of %s was zero, and integers cannot be divided by it"},
                {faults->probability, "an input of %s was not between 0 and 1"},
                {all->matrix, "a matrix of %s was singular, not positive-definite, or held NaN"}};
    *all = (amp_cuda_matrix_faults){0};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        if (seen[i].op) return amp_cuda_say(AMP_CUDA_INVALID, seen[i].format, seen[i].op);
    }
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_finished(void) {
    amp_cuda_result result;
    const amp_cuda_lane *own = amp_cuda_enter_lane(&result);
    if (!own) return result;
    this_thread()->recent_count = 0;
    return tell_faults(own->faults);
}

amp_cuda_result amp_cuda_finish(void) {
    amp_cuda_result result;
    const amp_cuda_lane *own = amp_cuda_enter_lane(&result);
    if (!own) return result;
    AMP_CUDA_TRY(amp_cuda_wait(amp_cuda_stream_of(own)));
    return amp_cuda_finished();
}

/* ---- The table --------------------------------------------------------------------------------------------------- */
static int device_count(void) {
    return device_total;
}

static void statistics(amp_cuda_statistics *s) {
    const amp_cuda_counters *c = &amp_cuda_count;
    *s = (amp_cuda_statistics){.launches = c->launches,
                               .products = c->products,
                               .uploads = c->uploads,
                               .downloads = c->downloads,
                               .synchronizations = c->synchronizations,
                               .stream_waits = c->stream_waits,
                               .allocations = c->allocations,
                               .live_blocks = c->live_blocks,
                               .live_bytes = c->live_bytes};
}

/* Each leaves the context current that was. */
#define LEAVES(name, parameters, arguments)                                                                            \
    static amp_cuda_result name##_and_leave parameters {                                                               \
        const amp_cuda_result result = amp_cuda_##name arguments;                                                      \
        leave();                                                                                                       \
        return result;                                                                                                 \
    }
/* … and tries once more where there was no memory: what a library, or the driver for a kernel, takes by itself is not
 * our pools'. */
#define LEAVES_WITH_ROOM(name, request)                                                                                \
    static amp_cuda_result name##_and_leave(const request *r) {                                                        \
        amp_cuda_result result = amp_cuda_##name(r);                                                                   \
        if (result == AMP_CUDA_NO_MEMORY && amp_cuda_make_room() == AMP_CUDA_OK) result = amp_cuda_##name(r);          \
        leave();                                                                                                       \
        return result;                                                                                                 \
    }
LEAVES_WITH_ROOM(launch_kernel, amp_cuda_launch)
LEAVES_WITH_ROOM(multiply, amp_cuda_product)
LEAVES_WITH_ROOM(convolve, amp_cuda_convolution)
LEAVES_WITH_ROOM(run_transform, amp_cuda_transform)
LEAVES_WITH_ROOM(factorise, amp_cuda_factor)
LEAVES(lend, (void *stream), (stream))
LEAVES(allocate, (size_t bytes, amp_cuda_block **block, void **address), (bytes, block, address))
LEAVES(adopt, (void *address, int device, void (*deleter)(void *), void *context, amp_cuda_block **block),
       (address, device, deleter, context, block))
LEAVES(use, (amp_cuda_block * block), (block))
LEAVES(upload, (void *to, const void *host, size_t bytes), (to, host, bytes))
LEAVES(download, (void *host, const void *from, size_t bytes), (host, from, bytes))
LEAVES(copy, (void *to, const void *from, size_t bytes), (to, from, bytes))
LEAVES(copy_between, (void *to, int to_device, const void *from, int from_device, size_t bytes),
       (to, to_device, from, from_device, bytes))
LEAVES(make_event, (bool timed, amp_cuda_event **made), (timed, made))
LEAVES(record_event, (amp_cuda_event * event), (event))
LEAVES(wait_event, (const amp_cuda_event *event), (event))
LEAVES(query_event, (const amp_cuda_event *event, bool *done), (event, done))
LEAVES(finish_event, (const amp_cuda_event *event), (event))
LEAVES(elapsed, (const amp_cuda_event *start, const amp_cuda_event *end, float *milliseconds),
       (start, end, milliseconds))
LEAVES(group_name, (struct amp_cuda_group_id * made), (made))
LEAVES(group_join, (const struct amp_cuda_group_id *of, int rank, int size, amp_cuda_group **made),
       (of, rank, size, made))
LEAVES(group_check, (const amp_cuda_group *group), (group))
LEAVES(group_exchange, (const amp_cuda_group *group, const void *from, void *to, size_t chunk),
       (group, from, to, chunk))
LEAVES(group_gather, (const amp_cuda_group *group, const void *from, void *to, size_t chunk), (group, from, to, chunk))
LEAVES(group_broadcast, (const amp_cuda_group *group, void *bytes, size_t count, int root), (group, bytes, count, root))
LEAVES(memory_info, (size_t * free_bytes, size_t *total_bytes), (free_bytes, total_bytes))
LEAVES(thread_faults, (amp_cuda_faults * *faults), (faults))
LEAVES(finish, (void), ())
LEAVES(trim, (void), ())
static void release_and_leave(amp_cuda_block *block) {
    amp_cuda_release(block);
    leave();
}

static void group_leave_and_leave(amp_cuda_group *group, bool aborts) {
    amp_cuda_group_leave(group, aborts);
    leave();
}

static const amp_cuda_module table = {
    .abi = AMP_CUDA_ABI,
    .error = last_error,
    .device_count = device_count,
    .select = amp_cuda_select,
    .selected = amp_cuda_selected,
    .capability = amp_cuda_capability,
    .begin = begin,
    .lend = lend_and_leave,
    .allocate = allocate_and_leave,
    .adopt = adopt_and_leave,
    .forget = amp_cuda_forget,
    .release = release_and_leave,
    .device_of = amp_cuda_device_of,
    .use = use_and_leave,
    .upload = upload_and_leave,
    .download = download_and_leave,
    .copy = copy_and_leave,
    .copy_between = copy_between_and_leave,
    .launch = launch_kernel_and_leave,
    .multiply = multiply_and_leave,
    .convolve = convolve_and_leave,
    .transform = run_transform_and_leave,
    .factorise = factorise_and_leave,
    .routine_missing = amp_cuda_routine_missing,
    .event_make = make_event_and_leave,
    .event_free = amp_cuda_free_event,
    .event_record = record_event_and_leave,
    .event_wait = wait_event_and_leave,
    .event_query = query_event_and_leave,
    .event_finish = finish_event_and_leave,
    .elapsed = elapsed_and_leave,
    .group_missing = amp_cuda_group_missing,
    .group_name = group_name_and_leave,
    .group_join = group_join_and_leave,
    .group_leave = group_leave_and_leave,
    .group_check = group_check_and_leave,
    .group_exchange = group_exchange_and_leave,
    .group_gather = group_gather_and_leave,
    .group_broadcast = group_broadcast_and_leave,
    .describe_device = amp_cuda_describe_device,
    .memory_info = memory_info_and_leave,
    .describe_library = amp_cuda_describe_library,
    .faults = thread_faults_and_leave,
    .synchronize = finish_and_leave,
    .statistics = statistics,
    .trim = trim_and_leave,
};

/* The greatest that the module has code for and the GPU runs: kernels are compiled by it. */
static int code_for(int capability) {
    static const int built[] = {AMP_CUDA_BUILT_FOR};
    int best = 0;
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        if (built[i] <= capability && built[i] > best) best = built[i];
    }
    return best;
}

/* 0 where the driver does not tell: kernels for every GPU will do. */
static int capability_of(CUdevice device) {
    int major = 0, minor = 0;
    const bool told =
        cuda.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS &&
        cuda.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) == CUDA_SUCCESS;
    return told ? code_for(10 * major + minor) : 0;
}

/* To a driver of an older major version kernels are no images at all; of a minor one they are. */
static bool knows_our_version(char *why, size_t why_size) {
    int version = 0;
    if (cuda.driver_version(&version) != CUDA_SUCCESS || version / 1000 >= CUDA_VERSION / 1000) return true;
    snprintf(
        why, why_size,
        "the CUDA driver is for CUDA up to %d.%d; libamp_cuda.so was built with CUDA %d.%d, and needs one for %d.0 "
        "or later",
        version / 1000, version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, CUDA_VERSION / 1000);
    return false;
}

static bool find_devices(char *why, size_t why_size) {
    CUresult started = cuda.init(0);
    if (started == CUDA_SUCCESS) started = cuda.device_count(&device_total);
    if (started == CUDA_ERROR_NO_DEVICE || (started == CUDA_SUCCESS && device_total == 0)) {
        snprintf(why, why_size, "there is a CUDA driver, but no CUDA device");
        return false;
    }
    if (started != CUDA_SUCCESS) {
        const char *text = NULL;
        (void)cuda.error_string(started, &text);
        snprintf(why, why_size, "the CUDA driver does not start: %s (CUDA error %d)", text ? text : "unknown error",
                 (int)started);
        return false;
    }
    if (device_total > AMP_CUDA_MAX_DEVICES) device_total = AMP_CUDA_MAX_DEVICES;
    for (int i = 0; i < device_total; i++) {
        if (cuda.device_get(&devices[i].handle, i) != CUDA_SUCCESS) device_total = i;
    }
    for (int i = 0; i < device_total; i++) devices[i].capability = capability_of(devices[i].handle);
    return true;
}

__attribute__((visibility("default"))) amp_cuda_module_entry amp_cuda_module_entry_point;

/* Once more where libamp was closed and opened again: this module stays, and what it has. */
const amp_cuda_module *amp_cuda_module_entry_point(char *why, size_t why_size) {
    if (has_key) return &table;
    if (!amp_cuda_driver_load(why, why_size) || !knows_our_version(why, why_size) || !find_devices(why, why_size))
        return NULL;
    if (pthread_key_create(&thread_key, end_thread)) {
        snprintf(why, why_size, "the process has no thread key left");
        return NULL;
    }
    has_key = true;
    (void)pthread_atfork(NULL, NULL, note_fork); /* without it the driver's own error must do */
    return &table;
}
