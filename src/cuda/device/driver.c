/* The driver's table, the devices, the threads' streams, and what is said when something fails. */
#include "cuda/device/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

amp_cuda_driver cuda;
amp_cuda_counters amp_cuda_count;

/* ---- Loading ------------------------------------------------------------------------------------------------------ */
bool amp_cuda_symbol(void *library, const char *name, void *pointer) {
    void *symbol = dlsym(library, name);
    memcpy(pointer, &symbol, sizeof symbol); /* ISO C has no cast from an object to a function pointer */
    return symbol != NULL;
}

bool amp_cuda_driver_load(char *why, size_t why_size) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, why_size, "the CUDA driver (libcuda.so.1) is not installed");
        return false;
    }
#define NAME_(function) #function
#define NAME(function) NAME_(function) /* after cuda.h has put the version behind it */
#define X(name, function)                                                                                              \
    if (!amp_cuda_symbol(library, NAME(function), &cuda.name)) {                                                       \
        snprintf(why, why_size, "the CUDA driver is too old: it has no %s", NAME(function));                           \
        return false;                                                                                                  \
    }
    AMP_CUDA_DRIVER_FUNCTIONS(X)
#undef X
    return true;
}

/* ---- Devices and threads ------------------------------------------------------------------------------------------ */
enum { MAX_STREAMS = 256, RECENT = 12 };

typedef struct device_state {
    CUdevice handle;
    CUcontext context; /* the primary one, shared with whatever else the program uses; NULL until the first use */
    CUstream streams[MAX_STREAMS];
    int stream_count;
    CUstream idle[MAX_STREAMS]; /* of threads that ended */
    int idle_count;
    _Atomic bool lost;
    char lost_sentence[512];
} device_state;

static device_state devices[AMP_CUDA_MAX_DEVICES];
static int device_total;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct thread_state {
    int selected;
    CUstream streams[AMP_CUDA_MAX_DEVICES];
    const char *op;
    const char *recent[RECENT]; /* ops since the stream was last waited for, the newest last */
    int recent_count;
    char error[1024];
} thread_state;

static pthread_key_t thread_key;

/* A thread's streams outlive it: memory that it used is released on them. The next thread takes them over. */
static void end_thread(void *ended) {
    thread_state *t = ended;
    pthread_mutex_lock(&lock);
    for (int d = 0; d < device_total; d++) {
        if (t->streams[d]) devices[d].idle[devices[d].idle_count++] = t->streams[d];
    }
    pthread_mutex_unlock(&lock);
    free(t);
}

static thread_state *this_thread(void) {
    static thread_state without; /* memory for a thread's state is not to be had: say so from here */
    thread_state *t = pthread_getspecific(thread_key);
    if (t) return t;
    t = calloc(1, sizeof *t);
    if (!t) return &without;
    (void)pthread_setspecific(thread_key, t);
    return t;
}

amp_cuda_result amp_cuda_say(amp_cuda_result result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(this_thread()->error, sizeof this_thread()->error, format, arguments);
    va_end(arguments);
    return result;
}

static const char *last_error(void) {
    return this_thread()->error;
}

/* After these the context is of no more use. */
static bool loses_device(CUresult result) {
    return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
           (result >= CUDA_ERROR_ASSERT && result <= CUDA_ERROR_LAUNCH_FAILED) ||
           result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_HARDWARE_STACK_ERROR;
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
    thread_state *t = this_thread();
    if (!loses_device(result)) return amp_cuda_say(AMP_CUDA_FAILED, "%s: %s (CUDA error %d)", what, text, (int)result);
    device_state *d = &devices[t->selected];
    pthread_mutex_lock(&lock);
    if (!d->lost) describe_loss(t, text, result, d->lost_sentence, sizeof d->lost_sentence);
    d->lost = true;
    pthread_mutex_unlock(&lock);
    return amp_cuda_say(AMP_CUDA_FAILED, "%s", d->lost_sentence);
}

static void begin(const char *op) {
    thread_state *t = this_thread();
    t->op = op;
    if (t->recent_count == RECENT) {
        memmove(&t->recent[0], &t->recent[1], (RECENT - 1) * sizeof t->recent[0]);
        t->recent_count--;
    }
    t->recent[t->recent_count++] = op;
}

int amp_cuda_selected(void) {
    return this_thread()->selected;
}

amp_cuda_result amp_cuda_select(int device) {
    if (device < 0 || device >= device_total) {
        return amp_cuda_say(AMP_CUDA_INVALID, "there is no CUDA device %d; this machine has %d, counted from 0", device,
                            device_total);
    }
    this_thread()->selected = device;
    return AMP_CUDA_OK;
}

/* Makes the device's context this thread's, and finds a stream for it. The lock is let go before the driver's answer is
 * looked at: an error that loses the device is written down under it. */
static amp_cuda_result open_stream(device_state *d, CUstream *stream) {
    CUcontext context = NULL;
    CUstream found = NULL;
    pthread_mutex_lock(&lock);
    CUresult made = d->context ? CUDA_SUCCESS : cuda.retain_context(&context, d->handle);
    if (made == CUDA_SUCCESS && !d->context) d->context = context;
    if (made == CUDA_SUCCESS) made = cuda.set_context(d->context);
    const bool full = d->idle_count == 0 && d->stream_count == MAX_STREAMS;
    if (made == CUDA_SUCCESS && d->idle_count > 0) {
        found = d->idle[--d->idle_count];
    } else if (made == CUDA_SUCCESS && !full) {
        made = cuda.stream_create(&found, CU_STREAM_NON_BLOCKING);
        if (made == CUDA_SUCCESS) d->streams[d->stream_count++] = found;
    }
    pthread_mutex_unlock(&lock);
    AMP_CUDA_TRY(amp_cuda_check(made, "the device cannot be opened"));
    *stream = found;
    if (found) return AMP_CUDA_OK;
    return amp_cuda_say(AMP_CUDA_FAILED, "more than %d threads use device %d at once", (int)MAX_STREAMS,
                        (int)(d - devices));
}

amp_cuda_result amp_cuda_enter(CUstream *stream) {
    thread_state *t = this_thread();
    device_state *d = &devices[t->selected];
    if (d->lost) return amp_cuda_say(AMP_CUDA_FAILED, "%s", d->lost_sentence);
    if (t->streams[t->selected]) {
        AMP_CUDA_TRY(amp_cuda_check(cuda.set_context(d->context), "the device cannot be used"));
    } else {
        AMP_CUDA_TRY(open_stream(d, &t->streams[t->selected]));
    }
    *stream = t->streams[t->selected];
    return AMP_CUDA_OK;
}

int amp_cuda_streams(int device, CUstream *streams, int room) {
    pthread_mutex_lock(&lock);
    const int count = devices[device].stream_count < room ? devices[device].stream_count : room;
    memcpy(streams, devices[device].streams, (size_t)count * sizeof *streams);
    pthread_mutex_unlock(&lock);
    return count;
}

amp_cuda_result amp_cuda_wait(CUstream stream) {
    amp_cuda_count.synchronizations++;
    AMP_CUDA_TRY(amp_cuda_check(cuda.stream_synchronize(stream), "waiting for the device"));
    this_thread()->recent_count = 0;
    return AMP_CUDA_OK;
}

amp_cuda_result amp_cuda_synchronize(void) {
    CUstream stream;
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    return amp_cuda_wait(stream);
}

/* ---- The table ---------------------------------------------------------------------------------------------------- */
static int device_count(void) {
    return device_total;
}

static amp_cuda_result describe(int device, amp_cuda_device_info *info) {
    memset(info, 0, sizeof *info);
    if (device < 0 || device >= device_total) return amp_cuda_select(device);
    const CUdevice handle = devices[device].handle;
    const char *what = "the device cannot be asked";
    AMP_CUDA_TRY(amp_cuda_check(cuda.device_name(info->name, sizeof info->name, handle), what));
    AMP_CUDA_TRY(amp_cuda_check(cuda.device_memory(&info->memory_bytes, handle), what));
    const struct {
        int *value;
        CUdevice_attribute attribute;
    } numbers[] = {{&info->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
                   {&info->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
                   {&info->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        AMP_CUDA_TRY(amp_cuda_check(cuda.device_attribute(numbers[i].value, numbers[i].attribute, handle), what));
    }
    return AMP_CUDA_OK;
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

static const amp_cuda_module table = {
    .abi = AMP_CUDA_ABI,
    .error = last_error,
    .device_count = device_count,
    .describe = describe,
    .select = amp_cuda_select,
    .selected = amp_cuda_selected,
    .begin = begin,
    .allocate = amp_cuda_allocate,
    .adopt = amp_cuda_adopt,
    .forget = amp_cuda_forget,
    .release = amp_cuda_release,
    .device_of = amp_cuda_device_of,
    .use = amp_cuda_use,
    .upload = amp_cuda_upload,
    .download = amp_cuda_download,
    .copy = amp_cuda_copy,
    .launch = amp_cuda_launch_kernel,
    .multiply = amp_cuda_multiply,
    .synchronize = amp_cuda_synchronize,
    .statistics = statistics,
    .trim = amp_cuda_trim,
};

static bool find_devices(char *why, size_t why_size) {
    const CUresult started = cuda.init(0);
    if (started == CUDA_ERROR_NO_DEVICE || (started == CUDA_SUCCESS && cuda.device_count(&device_total)) ||
        (started == CUDA_SUCCESS && device_total == 0)) {
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
    return true;
}

__attribute__((visibility("default"))) amp_cuda_module_entry amp_cuda_module_entry_point;

const amp_cuda_module *amp_cuda_module_entry_point(char *why, size_t why_size) {
    if (!amp_cuda_driver_load(why, why_size) || !find_devices(why, why_size)) return NULL;
    if (pthread_key_create(&thread_key, end_thread)) {
        snprintf(why, why_size, "the process has no thread key left");
        return NULL;
    }
    return &table;
}
