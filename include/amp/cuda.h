/* CUDA devices: which there are, which one a thread uses, waiting, and what was done there. Ops run on the device of
 * their arguments; amp_to_device moves a tensor. Each thread has a stream of its own on each device: ops return when
 * their work is enqueued. amp_to_device(x, AMP_DEVICE_CPU), amp_cuda_synchronize and amp_cuda_trim_memory wait for it;
 * so does an op when memory runs out, giving back memory that another library lent, and amp_to_device(x,
 * AMP_DEVICE_CUDA) while four pieces of 4 MiB are on their way. So do ops whose result has a size, or a check, that
 * the elements decide: nonzero, masked_select, masked_scatter, unique, index with a mask, repeat_interleave and
 * tensor_split by a tensor, cov with weights, gaussian_nll_loss, linalg_lu, matrix_exp, multinomial. */
#ifndef AMP_CUDA_H
#define AMP_CUDA_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Devices that this process can use; 0 where CUDA cannot be used (amp_device_is_usable says why). */
AMP_API int amp_cuda_device_count(void);
/* The device on which this thread's amp_to_device puts tensors, those of another CUDA device too: 0 until this is
 * called. AMP_ERROR_INVALID if there is no such device. */
AMP_API amp_status amp_cuda_set_device(int index);
AMP_API int amp_cuda_get_device(void);
/* The device of a CUDA tensor; -1 with an error for another one. */
AMP_API int amp_cuda_device_of(const amp_tensor *tensor);

/* Waits until everything that this thread has enqueued on its device is done. An error that a kernel made is found here
 * at the latest; it names the ops that may have caused it, and the device is lost. So is an element that a kernel could
 * do nothing with (an index out of range, a zero among integers that are divisors, a probability beyond 1):
 * AMP_ERROR_INVALID names the op, whose results are not to be used, and the device goes on. */
AMP_API amp_status amp_cuda_synchronize(void);
/* What this thread does on its device (amp_cuda_get_device) goes to a stream of the caller's from now on: a
 * cudaStream_t or CUstream of the device's primary context, cudaStreamLegacy too; NULL or 0: to the thread's own again.
 * The new one waits, on the device, for what libamp has enqueued on the other; ops and amp_cuda_synchronize go on as
 * they are documented, with the caller's stream in the place of ours. Tensors may be used by other threads and on other
 * streams of libamp at any time: these wait for the stream. What others enqueue on the stream is ordered by the stream
 * itself.
 *
 * The stream stays the caller's, who may destroy it once it is no longer set (which waits for nothing), whatever
 * tensors it worked on. Destroyed while it is set, which is a mistake, ops fail where the driver notices
 * (AMP_ERROR_DEVICE), and the next amp_cuda_set_stream says so (AMP_ERROR_INVALID), once, having waited for the device.
 * AMP_ERROR_INVALID, and nothing changes, for what is no stream, one of another device, or cudaStreamPerThread. */
AMP_API amp_status amp_cuda_set_stream(void *stream);

/* A point in the order of a device's work (torch.cuda.Event): of the device that the thread had chosen when it was
 * made. Any thread may use it; NULL is an error everywhere, AMP_ERROR_INVALID, but for amp_cuda_event_free. */
typedef struct amp_cuda_event amp_cuda_event;
/* The caller frees it; NULL with an error. `enable_timing`: for amp_cuda_event_elapsed_time. */
AMP_API amp_cuda_event *amp_cuda_event_create(bool enable_timing);
/* What was recorded, and waits for it, go on. */
AMP_API void amp_cuda_event_free(amp_cuda_event *event);
/* Now it means: after all that this thread has enqueued so far on the event's device (on the stream that was set). */
AMP_API amp_status amp_cuda_event_record(amp_cuda_event *event);
/* What this thread enqueues on its device from now on comes after it; the host does not wait. Without effect where it
 * was never recorded. */
AMP_API amp_status amp_cuda_event_wait(amp_cuda_event *event);
/* Whether it has happened, true where it was never recorded; false with an error. */
AMP_API bool amp_cuda_event_query(amp_cuda_event *event);
/* Waits until it has happened. Errors of kernels are found as by amp_cuda_synchronize, but for wrong elements. */
AMP_API amp_status amp_cuda_event_synchronize(amp_cuda_event *event);
/* Milliseconds on the device between two events, which have both happened, of one device and made with timing; NaN with
 * an error where they are not so. */
AMP_API double amp_cuda_event_elapsed_time(amp_cuda_event *start, amp_cuda_event *end);

/* torch.cuda.get_device_properties. */
typedef struct amp_cuda_device_properties {
    char name[128];
    int major, minor; /* compute capability */
    int multiprocessors, reserved;
    size_t total_memory; /* bytes */
} amp_cuda_device_properties;
/* Fills the first `bytes` of *properties, which is sizeof(amp_cuda_device_properties); all zero with an error.
 * AMP_ERROR_INVALID if there is no such device. */
AMP_API amp_status amp_cuda_read_device_properties(int index, amp_cuda_device_properties *properties, size_t bytes);
/* Bytes of this thread's device that nobody has, and all of it (torch.cuda.mem_get_info). What libamp keeps for reuse
 * (amp_cuda_trim_memory) and what other processes have is not free. Zeros with an error. */
AMP_API amp_status amp_cuda_mem_get_info(size_t *free_bytes, size_t *total_bytes);

/* Whether products and convolutions of f32 may be computed in TF32, which keeps 11 of 24 bits of each factor: faster,
 * and not exact. Off until it is allowed; for the whole process. PyTorch: torch.backends.cuda.matmul.allow_tf32. */
AMP_API void amp_cuda_matmul_set_allow_tf32(bool allow);
AMP_API bool amp_cuda_matmul_allow_tf32(void);

/* Gives memory of the thread's device that is kept for reuse back to the driver, once the device has done all its work,
 * other threads' too. Errors are found as by amp_cuda_synchronize; a wrong element keeps nothing from being given
 * back. */
AMP_API amp_status amp_cuda_trim_memory(void);

/* Since the start of the process, over all devices and threads. */
typedef struct amp_cuda_counts {
    uint64_t launches, products; /* kernels of libamp, and matrix products of cuBLAS */
    uint64_t uploads, downloads;
    uint64_t synchronizations; /* times that the host waited for a device, for whatever reason */
    uint64_t stream_waits;     /* times that a stream was made to wait for another: a tensor changed threads */
    uint64_t allocations;
    size_t live_blocks, live_bytes; /* of device memory, now */
} amp_cuda_counts;

/* Fills the first `bytes` of *counts, which is sizeof(amp_cuda_counts): what this libamp does not know of them is 0. */
AMP_API amp_status amp_cuda_get_counters(amp_cuda_counts *counts, size_t bytes);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* The two of the size that the program was compiled with. */
static inline amp_status amp_cuda_get_device_properties(int index, amp_cuda_device_properties *properties) {
    return amp_cuda_read_device_properties(index, properties, sizeof *properties);
}
static inline amp_cuda_counts amp_cuda_counters(void) {
    amp_cuda_counts counts;
    (void)amp_cuda_get_counters(&counts, sizeof counts);
    return counts;
}

#endif /* AMP_CUDA_H */
