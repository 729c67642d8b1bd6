/* Numbers of the program as elements. */
#ifndef AMP_STEPS_CONSTANTS_H
#define AMP_STEPS_CONSTANTS_H

#include "call/call.h"

/* Room for one element of any compute type. */
typedef union amp_constant {
    float f32;
    double f64;
    int64_t i64;
    double c128[2];
    uint16_t half; /* f16 or bf16 */
    uint8_t boolean;
} amp_constant;

/* A number as a constant of a compute type (core/compute_dtype.h), or of f16 or bf16. */
amp_constant amp_constant_of(const amp_scalar *number, amp_dtype compute);

/* Refuses a number that cannot become an element: complex for a real dtype, finite but infinite in the dtype, beyond an
 * integer type. `argument` is its name. */
amp_status amp_check_element(const amp_call *call, const char *argument, const amp_scalar *number, amp_dtype dtype);

/* The number, or its real part, as a double; its integer, or the nearest below it that i64 has room for. */
double amp_real_part(const amp_scalar *number);
int64_t amp_whole_part(const amp_scalar *number);

#endif /* AMP_STEPS_CONSTANTS_H */
