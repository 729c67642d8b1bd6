/* A GPU's own clock, for benches with --device cuda: events before and after what is enqueued on one stream, which
 * is libamp's too (amp_cuda_set_stream), and what the memory of the device could do. The driver is opened by name;
 * nothing of libamp's inside is used. Without the toolkit, when libamp has no CUDA module either, there is nothing
 * here. */
#ifndef AMP_BENCH_CUDA_H
#define AMP_BENCH_CUDA_H

#ifdef AMP_BENCH_CUDA
#include <cuda.h>
#include <dlfcn.h>
#include <math.h>

#include "amp/cuda.h"
#include "amp/dlpack.h"
#include "amp/io.h"
#include "bench_common.h"

#define GPU_FUNCTIONS(X)                                                                                               \
    X(error_string, cuGetErrorString)                                                                                  \
    X(device, cuDeviceGet)                                                                                             \
    X(device_name, cuDeviceGetName)                                                                                    \
    X(attribute, cuDeviceGetAttribute)                                                                                 \
    X(memory_size, cuDeviceTotalMem)                                                                                   \
    X(retain_context, cuDevicePrimaryCtxRetain)                                                                        \
    X(set_context, cuCtxSetCurrent)                                                                                    \
    X(create_stream, cuStreamCreate)                                                                                   \
    X(create_event, cuEventCreate)                                                                                     \
    X(record, cuEventRecord)                                                                                           \
    X(query, cuEventQuery)                                                                                             \
    X(wait, cuEventSynchronize)                                                                                        \
    X(copy, cuMemcpyDtoDAsync)

enum { GPU_MOST_COPIES = 16, GPU_MOST_CALLS = 50 };

static struct {
#define X(name, function) __typeof__(function) *name;
    GPU_FUNCTIONS(X)
#undef X
    CUresult(CUDAAPI *elapsed)(float *milliseconds, CUevent start, CUevent end);
    char model[128];
    double peak;   /* bytes a second of its memory, from clock and width of the bus; 0: not told */
    double memory; /* bytes */
    CUstream stream;
    CUevent start, end;
    amp_tensor *copied; /* what the stream copies while calls are enqueued: from one half to the other */
    CUdeviceptr from, to;
    size_t bytes;
    int copies;
    int turns, late; /* turns in all, and those in which the device did not wait for the host's work to be done */
} gpu;

static inline void gpu_require(CUresult result, const char *what) {
    const char *text = "";
    if (result == CUDA_SUCCESS) return;
    (void)gpu.error_string(result, &text);
    fprintf(stderr, BENCH_NAME ": %s failed: %s (CUDA error %d)\n", what, text, (int)result);
    exit(1);
}

static inline void gpu_load(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "cuEventElapsedTime") : NULL; /* every driver has the first version */
    memcpy(&gpu.elapsed, &symbol, sizeof symbol);
    bench_require(symbol != NULL, "finding cuEventElapsedTime in libcuda.so.1");
#define NAME_(function) #function
#define NAME(function) NAME_(function) /* after cuda.h has put the version behind it */
#define X(name, function)                                                                                              \
    symbol = library ? dlsym(library, NAME(function)) : NULL;                                                          \
    memcpy(&gpu.name, &symbol, sizeof symbol);                                                                         \
    bench_require(symbol != NULL, "finding " NAME(function) " in libcuda.so.1");
    GPU_FUNCTIONS(X)
#undef X
#undef NAME
#undef NAME_
}

/* Where a tensor lies on the device, as long as the bench keeps it. */
static inline void *gpu_address(amp_tensor *t) {
    struct DLManagedTensorVersioned *managed = amp_to_dlpack(t);
    bench_require(managed != NULL, "an address");
    void *address = (char *)managed->dl_tensor.data + managed->dl_tensor.byte_offset;
    managed->deleter(managed);
    return address;
}

/* HBM and GDDR bring two bits for each wire and clock. */
static inline double gpu_memory_peak(CUdevice device) {
    int kilohertz = 0, bits = 0;
    if (gpu.attribute(&kilohertz, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, device) != CUDA_SUCCESS) return 0;
    if (gpu.attribute(&bits, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device) != CUDA_SUCCESS) return 0;
    return 2.0 * kilohertz * 1e3 * bits / 8.0;
}

/* Two pieces of a 512th of the device's memory: a copy of one takes about 0.1 ms where there are 80 GB of HBM. */
static inline void gpu_make_copies(void) {
    const int64_t elements = (int64_t)(gpu.memory / 512 / sizeof(float));
    gpu.copied = amp_zeros(AMP_DIMS(2 * elements), .device = AMP_DEVICE_CUDA);
    bench_require(gpu.copied != NULL, "memory to copy");
    gpu.bytes = (size_t)elements * sizeof(float);
    gpu.from = (CUdeviceptr)(uintptr_t)gpu_address(amp_keep(gpu.copied));
    gpu.to = gpu.from + gpu.bytes;
    gpu.copies = 1;
}

/* Before anything else of a bench that uses this: libamp and the bench then share one stream of the device. */
static inline void gpu_open(void) {
    CUdevice device;
    CUcontext context;
    size_t bytes;
    gpu_load();
    gpu_require(gpu.device(&device, amp_cuda_get_device()), "the device");
    gpu_require(gpu.device_name(gpu.model, (int)sizeof gpu.model, device), "the device's name");
    gpu_require(gpu.memory_size(&bytes, device), "the size of the device's memory");
    gpu_require(gpu.retain_context(&context, device), "the device's context");
    gpu_require(gpu.set_context(context), "the device's context");
    gpu_require(gpu.create_stream(&gpu.stream, CU_STREAM_NON_BLOCKING), "a stream");
    gpu_require(gpu.create_event(&gpu.start, CU_EVENT_DEFAULT), "an event");
    gpu_require(gpu.create_event(&gpu.end, CU_EVENT_DEFAULT), "an event");
    gpu.peak = gpu_memory_peak(device);
    gpu.memory = (double)bytes;
    bench_require(amp_cuda_set_stream(gpu.stream) == AMP_OK, "setting the stream");
    gpu_make_copies();
}

static inline void gpu_close(void) {
    bench_require(amp_cuda_set_stream(NULL) == AMP_OK, "giving the stream back");
    amp_release(gpu.copied);
}

/* The members of a JSON object that say which GPU it was; a comma has to follow. */
static inline void gpu_print(FILE *json) {
    fprintf(json, "\"gpu\": \"%s\", \"turns\": %d, \"late_turns\": %d", gpu.model, gpu.turns, gpu.late);
}

/* One turn: seconds of each of `calls` calls that `enqueue` makes, one after the other, by the device's clock. */
static inline double gpu_turn(void (*enqueue)(void *context), void *context, int calls, bool *late) {
    float ms = 0.0f;
    for (int i = 0; i < gpu.copies; i++) gpu_require(gpu.copy(gpu.to, gpu.from, gpu.bytes, gpu.stream), "a copy");
    gpu_require(gpu.record(gpu.start, gpu.stream), "an event");
    for (int i = 0; i < calls; i++) enqueue(context);
    gpu_require(gpu.record(gpu.end, gpu.stream), "an event");
    *late = gpu.query(gpu.start) != CUDA_ERROR_NOT_READY;
    gpu_require(gpu.wait(gpu.end), "waiting for the device");
    gpu_require(gpu.elapsed(&ms, gpu.start, gpu.end), "the time between two events");
    return fmax(ms, 0.5e-3) * 1e-3 / calls; /* events tell no less than half a microsecond */
}

/* The same, with so many copies before it that the host has enqueued all calls when the device comes to the first:
 * the figure is the device's time, and the host's speed no part of it. Where even the most copies do not reach, the
 * turn counts as late. */
static inline double gpu_time(void (*enqueue)(void *context), void *context, int calls) {
    bool late;
    double seconds = gpu_turn(enqueue, context, calls, &late);
    for (; late && gpu.copies < GPU_MOST_COPIES; seconds = gpu_turn(enqueue, context, calls, &late)) gpu.copies *= 2;
    gpu.turns++;
    gpu.late += late;
    return seconds;
}

/* How many calls take about a millisecond, from 2 to GPU_MOST_CALLS; warms up, too. */
static inline int gpu_calls(void (*enqueue)(void *context), void *context) {
    (void)gpu_time(enqueue, context, 2);
    const double seconds = gpu_time(enqueue, context, 2);
    if (seconds * GPU_MOST_CALLS < 1e-3) return GPU_MOST_CALLS;
    return seconds > 0.5e-3 ? 2 : (int)(1e-3 / seconds);
}

#endif /* AMP_BENCH_CUDA */
#endif /* AMP_BENCH_CUDA_H */
