/* A device behind the dispatcher: its op table and its copies. */
#ifndef AMP_DISPATCH_BACKEND_H
#define AMP_DISPATCH_BACKEND_H

#include "call/call.h"

/* Which arguments of an op may lie unaligned in a file (core/tensor_impl.h): the implementation packs them, copies them
 * as bytes, views them, or aligns them. */
typedef enum amp_unaligned_arguments {
    AMP_UNALIGNED_NONE,
    AMP_UNALIGNED_WEIGHTS, /* what is in a weight position */
    AMP_UNALIGNED_ALL
} amp_unaligned_arguments;

/* What a device table has for an op. */
typedef struct amp_backend_op {
    amp_op_function run;      /* NULL: not implemented */
    bool takes_pending_casts; /* sees tensors with `source` set, and converts on the way */
    amp_unaligned_arguments takes_unaligned;
} amp_backend_op;

typedef enum amp_timing { AMP_TIMING_AHEAD, AMP_TIMING_READ, AMP_TIMING_FAILED } amp_timing;

typedef struct amp_backend {
    const char *name;
    amp_backend_op (*find)(const amp_op_info *op);
    /* Copies element by element, converting the dtype; shapes are equal, strides are any. */
    amp_status (*copy)(amp_tensor *destination, const amp_tensor *source);
    /* Sets every element. */
    amp_status (*fill)(amp_tensor *tensor, const amp_scalar *value);
    /* Memory of the device, 64-byte aligned, and in *block what `release` takes; NULL with an error. Not used on the
     * CPU, whose tensors have their memory behind the storage. */
    void *(*allocate)(const char *op, size_t bytes, void **block);
    void (*release)(void *block);
    /* The rest may be NULL. Before an op runs: all arguments are on this device, and have memory or are pending
     * casts. */
    amp_status (*begin)(const amp_call *call);
    void (*end)(void); /* after the op that the program called; not after those inside of it */
    /* Between dense memory of the host and a dense tensor of the device. What comes back is there on return. */
    amp_status (*send)(const char *op, amp_tensor *destination, const void *source);
    amp_status (*fetch)(const char *op, void *destination, const amp_tensor *source);
    /* For explain, where ops return before the device is done: marks before a call and behind it. NULL: no such mark
     * can be made. What is read, with AMP_TIMING_READ or AMP_TIMING_FAILED, is freed; with `wait` that is sure. */
    void *(*begin_timing)(const amp_call *call);
    void (*end_timing)(void *timing);
    amp_timing (*read_timing)(void *timing, bool wait, uint64_t *nanoseconds);
} amp_backend;

/* On the device of the destination, which is the source's: as amp_backend.copy, but the source may broadcast; and one
 * value for every element. */
amp_status amp_copy_tensor(amp_tensor *destination, const amp_tensor *source);
amp_status amp_fill_tensor_with(amp_tensor *tensor, const amp_scalar *value);

/* The backend of a device; an error that says what is missing if there is none. `op` is for the message. */
amp_status amp_backend_for(amp_device device, const char *op, const amp_backend **backend);

/* Puts a backend in the place of a device's own, while nothing runs there: tests do, with a double. NULL takes it
 * away. */
void amp_backend_install(amp_device device, const amp_backend *backend);

/* A fresh contiguous tensor in the device's memory, in the innermost scope; NULL with an error. */
amp_tensor *amp_backend_tensor(amp_device device, const char *op, amp_dtype dtype, int rank, const int64_t *shape);

/* Gives arguments that lie unaligned in a file memory of their own, but for those that the row takes so. */
amp_status amp_call_align(const amp_call *call, const amp_backend_op *row);

extern const amp_backend amp_cpu_backend;
/* Loads libamp_cuda.so on the first call. */
amp_status amp_cuda_backend(const char *op, const amp_backend **backend);
/* Why there is no CUDA backend; "" where there is one. */
const char *amp_cuda_reason(void);

/* Runs `visit` on every tensor among the call's arguments, those of lists included. */
typedef amp_status (*amp_tensor_visitor)(const amp_call *call, const amp_arg_info *arg, amp_tensor *tensor);
amp_status amp_call_each_tensor(const amp_call *call, amp_tensor_visitor visit);

#endif /* AMP_DISPATCH_BACKEND_H */
