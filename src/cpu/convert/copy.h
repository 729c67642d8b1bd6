/* Copies between tensors of any strides and dtypes, and constants. */
#ifndef AMP_CPU_COPY_H
#define AMP_CPU_COPY_H

#include "core/tensor_impl.h"
#include "dispatch/call.h"

/* Copies `source`, which broadcasts to the shape of `destination`, converting the dtype. */
amp_status amp_cpu_copy(amp_tensor *destination, const amp_tensor *source);

/* The tensor itself if it has the dtype, and its dimensions from `first` on are dense, row-major; else a dense copy,
 * which belongs to the call. NULL with an error. `op` names the op in messages. */
const amp_tensor *amp_cpu_dense(const char *op, const amp_tensor *tensor, amp_dtype dtype, int first);

/* Room for one element of any compute type. */
typedef union amp_constant {
    float f32;
    double f64;
    int64_t i64;
    double c128[2];
    uint16_t half; /* f16 or bf16 */
    uint8_t boolean;
} amp_constant;

/* A number as a constant of a compute type (cpu/convert/element.h), or of f16 or bf16. */
amp_constant amp_constant_of(const amp_scalar *number, amp_dtype compute);

/* Refuses a number that cannot become an element: complex for a real dtype, finite but infinite in the dtype, beyond an
 * integer type. `argument` is its name. */
amp_status amp_check_element(const amp_call *call, const char *argument, const amp_scalar *number, amp_dtype dtype);

/* Sets every element. */
void amp_cpu_fill(amp_tensor *tensor, const amp_scalar *value);

#endif /* AMP_CPU_COPY_H */
