/* The CUDA driver as one table of function pointers, filled by dlopen: the module links nothing of CUDA, so it loads on
 * a machine without a driver and can say that there is none. */
#ifndef AMP_CUDA_DRIVER_H
#define AMP_CUDA_DRIVER_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#include "cuda/args/cuda_module.h"
#include "cuda/args/matrix_args.h"

/* cuda.h makes cuMemFree_v2 and the like of some names; the pointers keep the plain ones. */
#define AMP_CUDA_DRIVER_FUNCTIONS(X)                                                                                   \
    X(init, cuInit)                                                                                                    \
    X(error_string, cuGetErrorString)                                                                                  \
    X(device_count, cuDeviceGetCount)                                                                                  \
    X(device_get, cuDeviceGet)                                                                                         \
    X(device_name, cuDeviceGetName)                                                                                    \
    X(device_memory, cuDeviceTotalMem)                                                                                 \
    X(device_attribute, cuDeviceGetAttribute)                                                                          \
    X(driver_version, cuDriverGetVersion)                                                                              \
    X(retain_context, cuDevicePrimaryCtxRetain)                                                                        \
    X(get_context, cuCtxGetCurrent)                                                                                    \
    X(set_context, cuCtxSetCurrent)                                                                                    \
    X(stream_create, cuStreamCreate)                                                                                   \
    X(stream_synchronize, cuStreamSynchronize)                                                                         \
    X(stream_context, cuStreamGetCtx)                                                                                  \
    X(stream_captures, cuStreamIsCapturing)                                                                            \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode)                                                        \
    X(context_synchronize, cuCtxSynchronize)                                                                           \
    X(stream_wait_event, cuStreamWaitEvent)                                                                            \
    X(event_create, cuEventCreate)                                                                                     \
    X(event_record, cuEventRecord)                                                                                     \
    X(event_query, cuEventQuery)                                                                                       \
    X(event_synchronize, cuEventSynchronize)                                                                           \
    X(event_destroy, cuEventDestroy)                                                                                   \
    X(memory_info, cuMemGetInfo)                                                                                       \
    X(pool_create, cuMemPoolCreate)                                                                                    \
    X(pool_set, cuMemPoolSetAttribute)                                                                                 \
    X(pool_trim, cuMemPoolTrimTo)                                                                                      \
    X(allocate, cuMemAllocFromPoolAsync)                                                                               \
    X(release, cuMemFreeAsync)                                                                                         \
    X(allocate_now, cuMemAlloc)                                                                                        \
    X(release_now, cuMemFree)                                                                                          \
    X(host_allocate, cuMemHostAlloc)                                                                                   \
    X(copy_to_device, cuMemcpyHtoDAsync)                                                                               \
    X(copy_to_host, cuMemcpyDtoHAsync)                                                                                 \
    X(copy_on_device, cuMemcpyDtoDAsync)                                                                               \
    X(copy_between, cuMemcpyPeerAsync)                                                                                 \
    X(module_load, cuModuleLoadData)                                                                                   \
    X(module_function, cuModuleGetFunction)                                                                            \
    X(function_set, cuFuncSetAttribute)                                                                                \
    X(launch, cuLaunchKernel)

typedef struct amp_cuda_driver {
#define X(name, function) __typeof__(function) *name;
    AMP_CUDA_DRIVER_FUNCTIONS(X)
#undef X
    __typeof__(cuEventElapsedTime) *event_elapsed;
} amp_cuda_driver;

extern amp_cuda_driver cuda;

/* Fills the table from libcuda.so.1; false with a clause in `why`. */
bool amp_cuda_driver_load(char *why, size_t why_size);
/* A function of a loaded library, whatever its type, at `pointer`; false if there is none of that name. */
bool amp_cuda_symbol(void *library, const char *name, void *pointer);

/* ---- NVIDIA's libraries ------------------------------------------------------------------------------------------ */
/* libraries.c. The file of a library's major version, a macro of its header. */
#define AMP_CUDA_SONAME(library, major) AMP_CUDA_SONAME_(library, major)
#define AMP_CUDA_SONAME_(library, major) library ".so." #major

/* A function's name, and where the pointer to it goes. */
typedef struct amp_cuda_function {
    const char *name;
    void *pointer;
} amp_cuda_function;

/* Opens a library for the rest of the process: the handlers that it registers point into it. NULL with a clause in
 * `why`, which begins with `subject`: it is not installed, or cannot be loaded. */
void *amp_cuda_open_library(const char *file, const char *subject, char *why, size_t why_size);
/* The same, and fills the table; NULL also where the library lacks one of its functions. */
void *amp_cuda_load_library(const char *file, const char *subject, const amp_cuda_function *functions, size_t count,
                            char *why, size_t why_size);

/* ---- What the module's files share of devices and threads -------------------------------------------------------- */
enum { AMP_CUDA_MAX_DEVICES = 64, AMP_CUDA_KEPT_SIZES = 48 };

/* What a thread has on a device; never destroyed, and another thread's once this one has ended. Work on it is in one
 * order: the caller's stream waits for ours when it is lent, and ours for it when it is given back. */
typedef struct amp_cuda_lane {
    CUstream own, lent; /* lent: the caller's, or NULL. Other threads read it under amp_cuda_order */
    amp_cuda_faults *faults;
    /* Memory that was released behind its last use here, by size, for what the lane allocates next: memory.c's, under
     * amp_cuda_order. */
    amp_cuda_block *kept[AMP_CUDA_KEPT_SIZES];
    size_t kept_bytes;
} amp_cuda_lane;

static inline CUstream amp_cuda_stream_of(const amp_cuda_lane *lane) {
    return lane->lent ? lane->lent : lane->own;
}
/* Held while a thread uses the stream of another one's lane. */
extern pthread_mutex_t amp_cuda_order;

/* This thread's lane of the selected device; makes the device's context current, until the table's function returns.
 * NULL where *result is an error. */
amp_cuda_lane *amp_cuda_enter_lane(amp_cuda_result *result);
/* The stream of that lane. */
amp_cuda_result amp_cuda_enter(CUstream *stream);
/* Lends the lane a stream of the selected device; NULL takes it back. */
amp_cuda_result amp_cuda_lend(void *stream);
/* Of a device that a thread has entered. */
CUcontext amp_cuda_context(int device);
/* Whether the caller's stream that it was lent is being captured for a graph. Under the order's lock, or the thread's
 * own. */
bool amp_cuda_is_captured(const amp_cuda_lane *lane);
/* What is enqueued on `stream` next comes after all that is on `other`, a stream of the entered device. */
amp_cuda_result amp_cuda_follow(CUstream stream, CUstream other);
/* Until the table's function returns, this thread does what the driver forbids every thread while another one captures
 * a stream in its global mode: asks for memory, loads kernels, asks whether an event has happened. None of it goes into
 * a graph. */
void amp_cuda_relax(void);
/* This process was forked after the driver had started: it may not be called any more. */
bool amp_cuda_is_forked(void);
int amp_cuda_selected(void);
/* Of the selected device: 10 · major + minor. */
int amp_cuda_capability(void);
amp_cuda_result amp_cuda_select(int device);
/* Makes the clause that error() gives; returns `result`. */
amp_cuda_result amp_cuda_say(amp_cuda_result result, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* AMP_CUDA_OK, or the clause for a driver's error; one after which the device is lost is remembered. */
amp_cuda_result amp_cuda_check(CUresult result, const char *what);

typedef struct amp_cuda_counters {
    _Atomic uint64_t launches, products, uploads, downloads, synchronizations, stream_waits, allocations;
    _Atomic size_t live_blocks, live_bytes;
} amp_cuda_counters;
extern amp_cuda_counters amp_cuda_count;

#define AMP_CUDA_TRY(expression)                                                                                       \
    do {                                                                                                               \
        const amp_cuda_result result_ = (expression);                                                                  \
        if (result_ != AMP_CUDA_OK) return result_;                                                                    \
    } while (0)

/* The parts of the table. memory.c, transfer.c, launch.c, product.c, convolution.c, transform.c, solver.c, triangle.c,
 * event.c, group.c, properties.c */
amp_cuda_result amp_cuda_allocate(size_t bytes, amp_cuda_block **block, void **address);
amp_cuda_result amp_cuda_adopt(void *address, int device, void (*deleter)(void *), void *context,
                               amp_cuda_block **block);
void amp_cuda_release(amp_cuda_block *block);
void amp_cuda_forget(amp_cuda_block *block);
int amp_cuda_device_of(const amp_cuda_block *block);
amp_cuda_result amp_cuda_use(amp_cuda_block *block);
amp_cuda_result amp_cuda_trim(void);
/* Gives what is kept of the selected device back to the driver, once the device has done all: for whoever had no
 * memory and tries again. */
amp_cuda_result amp_cuda_make_room(void);
amp_cuda_result amp_cuda_upload(void *to, const void *host, size_t bytes);
amp_cuda_result amp_cuda_download(void *host, const void *from, size_t bytes);
amp_cuda_result amp_cuda_copy(void *to, const void *from, size_t bytes);
amp_cuda_result amp_cuda_copy_between(void *to, int to_device, const void *from, int from_device, size_t bytes);
amp_cuda_result amp_cuda_launch_kernel(const amp_cuda_launch *launch);
amp_cuda_result amp_cuda_multiply(const amp_cuda_product *product);
amp_cuda_result amp_cuda_convolve(const amp_cuda_convolution *convolution);
amp_cuda_result amp_cuda_run_transform(const amp_cuda_transform *transform);
amp_cuda_result amp_cuda_factorise(const amp_cuda_factor *factor);
const char *amp_cuda_routine_missing(amp_cuda_routine routine);
/* Of solver.c's for triangle.c: one thread at a time. */
amp_cuda_result amp_cuda_solve_triangle(const amp_cuda_factor *factor, int device, CUstream stream);
const char *amp_cuda_triangle_missing(void);

amp_cuda_result amp_cuda_make_event(bool timed, amp_cuda_event **made);
void amp_cuda_free_event(amp_cuda_event *event);
amp_cuda_result amp_cuda_record_event(amp_cuda_event *event);
amp_cuda_result amp_cuda_wait_event(const amp_cuda_event *event);
amp_cuda_result amp_cuda_query_event(const amp_cuda_event *event, bool *done);
amp_cuda_result amp_cuda_finish_event(const amp_cuda_event *event);
amp_cuda_result amp_cuda_elapsed(const amp_cuda_event *start, const amp_cuda_event *end, float *milliseconds);
const char *amp_cuda_group_missing(void);
amp_cuda_result amp_cuda_group_name(struct amp_cuda_group_id *made);
amp_cuda_result amp_cuda_group_join(const struct amp_cuda_group_id *of, int rank, int size, amp_cuda_group **made);
void amp_cuda_group_leave(amp_cuda_group *group, bool aborts);
amp_cuda_result amp_cuda_group_check(const amp_cuda_group *group);
amp_cuda_result amp_cuda_group_exchange(const amp_cuda_group *group, const void *from, void *to, size_t chunk_bytes);
amp_cuda_result amp_cuda_group_gather(const amp_cuda_group *group, const void *from, void *to, size_t chunk_bytes);
amp_cuda_result amp_cuda_group_broadcast(const amp_cuda_group *group, void *bytes, size_t count, int root);
amp_cuda_result amp_cuda_describe_device(int index, amp_cuda_facts *facts);
amp_cuda_result amp_cuda_memory_info(size_t *free_bytes, size_t *total_bytes);
bool amp_cuda_describe_library(int index, const char **name, char *text, size_t size);

/* Waits for everything on a stream; counted. */
amp_cuda_result amp_cuda_wait(CUstream stream);
/* The same for the thread's own stream, of the selected device; an error if a kernel on it had a fault. */
amp_cuda_result amp_cuda_finish(void);
/* The same, of a stream that has been waited for already. */
amp_cuda_result amp_cuda_finished(void);
amp_cuda_result amp_cuda_thread_faults(amp_cuda_faults **faults);
/* Every lane that any thread has ever had of the device. */
int amp_cuda_lanes(int device, amp_cuda_lane **lanes, int room);

#endif /* AMP_CUDA_DRIVER_H */
