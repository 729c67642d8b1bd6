/* Numbers of the program as elements. */
#include "steps/constants.h"

#include <math.h>

#include "cpu/convert/convert.h"

double amp_real_part(const amp_scalar *s) {
    return s->kind == AMP_SCALAR_INT || s->kind == AMP_SCALAR_BOOL ? (double)s->i : s->re;
}

int64_t amp_whole_part(const amp_scalar *s) {
    if (s->kind == AMP_SCALAR_INT || s->kind == AMP_SCALAR_BOOL) return s->i;
    return s->re >= -0x1p63 && s->re < 0x1p63 ? (int64_t)s->re : INT64_MIN;
}

amp_constant amp_constant_of(const amp_scalar *number, amp_dtype compute) {
    amp_constant c = {.c128 = {0.0, 0.0}};
    switch (compute) {
    case AMP_F32: c.f32 = (float)amp_real_part(number); break;
    case AMP_F64: c.f64 = amp_real_part(number); break;
    case AMP_BF16: c.half = amp_bf16_from_f32((float)amp_real_part(number)); break;
    case AMP_F16: c.half = amp_f16_from_f32((float)amp_real_part(number)); break;
    case AMP_BOOL: c.boolean = amp_real_part(number) != 0.0 || number->im != 0.0; break;
    case AMP_C128:
        c.c128[0] = amp_real_part(number);
        c.c128[1] = number->kind == AMP_SCALAR_COMPLEX ? number->im : 0.0;
        break;
    default: c.i64 = amp_whole_part(number); break;
    }
    return c;
}

/* Finite numbers that would become infinite, and numbers beyond an integer type. Of an unsigned type, what is below 0
 * counts from its end, as in PyTorch. */
static bool fits(const amp_scalar *number, amp_dtype dtype) {
    const double most_of_float = amp_dtype_largest(dtype);
    static const int64_t most_of_int[AMP_DTYPE_COUNT] = {
        [AMP_I32] = INT32_MAX, [AMP_I16] = INT16_MAX, [AMP_I8] = INT8_MAX, [AMP_U8] = UINT8_MAX};
    const bool is_whole = number->kind == AMP_SCALAR_INT || number->kind == AMP_SCALAR_BOOL;
    const double x = amp_real_part(number);
    if (most_of_float != 0.0) {
        const double y = number->kind == AMP_SCALAR_COMPLEX ? fabs(number->im) : 0.0;
        return !(fabs(x) > most_of_float && !isinf(x)) && !(y > most_of_float && !isinf(y));
    }
    if (dtype == AMP_I64) return is_whole || (x >= -0x1p63 && x < 0x1p63);
    if (most_of_int[dtype] == 0) return true;
    const double most = (double)most_of_int[dtype], least = dtype == AMP_U8 ? -most : -most - 1.0;
    return trunc(x) >= least && trunc(x) <= most;
}

amp_status amp_check_element(const amp_call *call, const char *argument, const amp_scalar *number, amp_dtype dtype) {
    if (number->kind == AMP_SCALAR_COMPLEX && !amp_dtype_is_complex(dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is a complex number, and cannot be an element of a tensor of %s",
                        amp_call_name(call), argument, amp_dtype_name(dtype));
    }
    if (fits(number, dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %.9g, which %s cannot hold", amp_call_name(call), argument,
                    amp_real_part(number), amp_dtype_name(dtype));
}
