/* ldexp, float_power, isposinf, isneginf: made of pow, mul and eq. */
#include <math.h>

#include "ops/math/compose.h"

amp_status amp_op_ldexp(amp_call *call) {
    const amp_ldexp_args *a = call->args;
    amp_tensor *power = amp_pow_scalar_base(amp_float(2.0), a->other);
    return amp_return(call, power ? amp_mul(a->input, power) : NULL);
}

/* ---- float_power ------------------------------------------------------------------------------------------------ */

static amp_tensor *widened(amp_tensor *t, amp_dtype dtype) {
    return t->dtype == dtype ? t : amp_to(t, dtype);
}

static amp_dtype widest(bool is_complex) {
    return is_complex ? AMP_C128 : AMP_F64;
}

static bool is_complex_number(const amp_scalar *number) {
    return number->kind == AMP_SCALAR_COMPLEX;
}

amp_status amp_op_float_power(amp_call *call) {
    const amp_float_power_args *a = call->args;
    const amp_dtype dtype = widest(amp_dtype_is_complex(a->input->dtype) || amp_dtype_is_complex(a->exponent->dtype));
    AMP_TRY(amp_call_check_target_dtype(call, dtype));
    amp_tensor *input = widened(a->input, dtype), *exponent = input ? widened(a->exponent, dtype) : NULL;
    return amp_return(call, exponent ? amp_pow(input, exponent) : NULL);
}

amp_status amp_op_float_power_scalar(amp_call *call) {
    const amp_float_power_scalar_args *a = call->args;
    const amp_dtype dtype = widest(amp_dtype_is_complex(a->input->dtype) || is_complex_number(&a->exponent));
    AMP_TRY(amp_call_check_target_dtype(call, dtype));
    amp_tensor *input = widened(a->input, dtype);
    return amp_return(call, input ? amp_pow_scalar(input, a->exponent) : NULL);
}

amp_status amp_op_float_power_scalar_base(amp_call *call) {
    const amp_float_power_scalar_base_args *a = call->args;
    const amp_dtype dtype = widest(amp_dtype_is_complex(a->exponent->dtype) || is_complex_number(&a->input));
    AMP_TRY(amp_call_check_target_dtype(call, dtype));
    amp_tensor *exponent = widened(a->exponent, dtype);
    return amp_return(call, exponent ? amp_pow_scalar_base(a->input, exponent) : NULL);
}

/* ---- isposinf, isneginf ----------------------------------------------------------------------------------------- */

static amp_status is_infinity(amp_call *call, amp_tensor *input, double which) {
    if (amp_dtype_is_complex(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(input));
    }
    if (amp_is_whole(input->dtype)) return amp_return(call, amp_zeros_like(input, .dtype = AMP_BOOL));
    return amp_return(call, amp_eq_scalar(input, amp_float(which)));
}

amp_status amp_op_isposinf(amp_call *call) {
    return is_infinity(call, ((const amp_isposinf_args *)call->args)->input, INFINITY);
}
amp_status amp_op_isneginf(amp_call *call) {
    return is_infinity(call, ((const amp_isneginf_args *)call->args)->input, -INFINITY);
}
