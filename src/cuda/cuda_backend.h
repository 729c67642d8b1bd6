/* CUDA as a backend of the dispatcher, on top of the module's table of functions. */
#ifndef AMP_CUDA_BACKEND_H
#define AMP_CUDA_BACKEND_H

#include "call/backend.h"
#include "cuda/args/cuda_module.h"

extern const amp_backend amp_cuda_backend_table;

/* The module, loaded at the first call; NULL where there is none. Inside an op of the device it is never NULL. */
const amp_cuda_module *amp_cuda_loaded(void);

/* AMP_OK, or the error that the module's clause makes for `op`. */
amp_status amp_cuda_status(const char *op, amp_cuda_result result);

/* Address of element [0, …, 0] in device memory, after which what this thread enqueues comes after all earlier work on
 * the tensor. NULL with an error. */
void *amp_cuda_address(const char *op, const amp_tensor *tensor);

/* Whether kernels can read 16 bytes at a time from there on. */
static inline bool amp_cuda_is_aligned(const void *data) {
    return (uintptr_t)data % 16 == 0;
}

/* Enqueues a kernel over `count` elements or rows; none for 0. `name` is static, `arguments` are copied. */
amp_status amp_cuda_launch_over(const char *op, const char *kernel, const void *arguments, int64_t blocks);
/* Where a kernel of `op`, a static name, reports elements that have no result. */
amp_status amp_cuda_report_of(const char *op, amp_cuda_report *report);
/* Blocks for a grid-strided loop over so many elements. */
int64_t amp_cuda_blocks(int64_t elements);
/* The same over units of up to 16 bytes, where memory is all that a kernel waits for. */
int64_t amp_cuda_unit_blocks(int64_t units);
enum { AMP_CUDA_THREADS = 256 };

/* A dense tensor of the call's device that belongs to the call; NULL with an error. */
amp_tensor *amp_cuda_temporary(const amp_call *call, amp_dtype dtype, int rank, const int64_t *shape);
/* The tensor itself where it is dense, else a dense copy; NULL with an error. */
amp_tensor *amp_cuda_dense(amp_tensor *tensor);

/* Copies element by element, converting; `source` broadcasts to `destination`. */
amp_status amp_cuda_copy_tensor(amp_tensor *destination, const amp_tensor *source);
amp_status amp_cuda_fill(amp_tensor *tensor, const amp_scalar *value);

#endif /* AMP_CUDA_BACKEND_H */
