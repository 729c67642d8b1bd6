/* A device behind the dispatcher: its op table and its copies. */
#ifndef AMP_DISPATCH_BACKEND_H
#define AMP_DISPATCH_BACKEND_H

#include "dispatch/call.h"

/* What a device table has for an op. */
typedef struct amp_backend_op {
    amp_op_function run;      /* NULL: not implemented */
    bool takes_pending_casts; /* sees tensors with `source` set, and converts on the way */
} amp_backend_op;

enum { AMP_BACKEND_ABI = 1 };

typedef struct amp_backend {
    unsigned abi; /* AMP_BACKEND_ABI of the libamp that it was built with */
    const char *name;
    amp_backend_op (*find)(const amp_op_info *op);
    /* Copies element by element, converting the dtype; shapes are equal, strides are any. */
    amp_status (*copy)(amp_tensor *destination, const amp_tensor *source);
    /* Memory of the device, 64-byte aligned; NULL when there is none left (the caller makes the sentence). */
    void *(*allocate)(size_t bytes);
    void (*release)(void *memory);
} amp_backend;

/* The backend of a device; an error that says what is missing if there is none. `op` is for the message. */
amp_status amp_backend_for(amp_device device, const char *op, const amp_backend **backend);

/* Puts a backend in the place of a device's own, while nothing runs there: tests do, with a double. NULL takes it away. */
void amp_backend_install(amp_device device, const amp_backend *backend);

/* A fresh contiguous tensor in the device's memory, in the innermost scope; NULL with an error. */
amp_tensor *amp_backend_tensor(amp_device device, const char *op, amp_dtype dtype, int rank, const int64_t *shape);

extern const amp_backend amp_cpu_backend;
/* Loads libamp_cuda.so on the first call. */
amp_status amp_cuda_backend(const char *op, const amp_backend **backend);
/* Why there is no CUDA backend; "" where there is one. */
const char *amp_cuda_reason(void);

#endif /* AMP_DISPATCH_BACKEND_H */
