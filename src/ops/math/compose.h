/* What ops that are made of other ops need again and again. */
#ifndef AMP_OPS_COMPOSE_H
#define AMP_OPS_COMPOSE_H

#include "amp/ops.h"
#include "call/call.h"

/* Result 0, and of an op with two results both; NULL: with the error of what was to make it. */
static inline amp_status amp_return(amp_call *call, amp_tensor *t) {
    call->outputs[0] = t;
    return t ? AMP_OK : amp_pending_error();
}
static inline amp_status amp_return_both(amp_call *call, amp_tensor *first, amp_tensor *second) {
    call->outputs[0] = first;
    call->outputs[1] = second;
    return first && second ? AMP_OK : amp_pending_error();
}

static inline amp_dims amp_dims_of(int rank, const int64_t *shape) {
    amp_dims dims = {.count = rank, .set = AMP_PRESENT};
    for (int d = 0; d < rank; d++) dims.values[d] = shape[d];
    return dims;
}
/* The tensor's shape as an argument. */
static inline amp_dims amp_shape_of(const amp_tensor *t) {
    return amp_dims_of(t->rank, t->shape);
}

/* 16-bit numbers as f32, in which several steps are computed; any other tensor itself. */
static inline amp_tensor *amp_wide(amp_tensor *t) {
    return t && (t->dtype == AMP_BF16 || t->dtype == AMP_F16) ? amp_to(t, AMP_F32) : t;
}

/* Every element in row-major order; a view where strides allow it. */
static inline amp_tensor *amp_flattened(amp_tensor *t) {
    return t ? amp_reshape(t, AMP_DIMS(amp_tensor_elements(t))) : NULL;
}

/* One number that the host has to know; 0 with an error. It waits for the device. */
static inline double amp_number_of(amp_tensor *t) {
    amp_tensor *host = t ? amp_to_device(t, AMP_DEVICE_CPU) : NULL;
    return host ? amp_item(host) : 0.0;
}

static inline bool amp_is_whole(amp_dtype dtype) {
    return !amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype);
}

#endif /* AMP_OPS_COMPOSE_H */
