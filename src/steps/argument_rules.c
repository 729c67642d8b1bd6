/* Rules of elementwise ops' arguments. */
#include "steps/argument_rules.h"

#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "generated/op_ids.h"
#include "steps/constants.h"

static bool is_bool(const amp_operand *v) {
    return v->tensor ? v->tensor->dtype == AMP_BOOL : v->number.kind == AMP_SCALAR_BOOL;
}

amp_status amp_check_sum(const amp_call *call, const amp_operand *v, const amp_scalar *alpha, int sign,
                         amp_dtype dtype) {
    const bool whole = amp_compute_dtype(dtype) == AMP_I64;
    if ((whole && alpha->kind == AMP_SCALAR_FLOAT) ||
        (alpha->kind == AMP_SCALAR_COMPLEX && !amp_dtype_is_complex(dtype))) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'alpha' must be %s number, for the result is %s", amp_call_name(call),
                        whole ? "a whole" : "a real", amp_dtype_name(dtype));
    }
    if (sign > 0 || !(is_bool(&v[0]) || is_bool(&v[1]))) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE,
                    "%s: '%s' is bool, and there is no difference with one; logical_xor is what differs",
                    amp_call_name(call), v[is_bool(&v[0]) ? 0 : 1].name);
}

amp_status amp_check_bits(const amp_call *call, const amp_operand *v, amp_dtype dtype, bool shifted) {
    const bool is_bool_result = dtype == AMP_BOOL;
    if (amp_compute_dtype(dtype) == AMP_I64 && !(shifted && is_bool_result)) return AMP_OK;
    const amp_operand *culprit = v;
    for (int i = 0; i < 2; i++) {
        if (v[i].tensor && (is_bool_result || amp_compute_dtype(v[i].tensor->dtype) != AMP_I64)) culprit = &v[i];
    }
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected integers%s", amp_call_name(call), culprit->name,
                    culprit->tensor ? amp_describe(culprit->tensor) : "a number", shifted ? "" : " or bools");
}

amp_status amp_check_lambda(const amp_call *call, const amp_scalar *lambda) {
    const double value = amp_real_part(lambda);
    if (value >= 0.0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'lambd' is %g; expected a number from 0 up", amp_call_name(call), value);
}

amp_status amp_read_rounding(const amp_call *call, const char *mode, char *rounding) {
    *rounding = mode ? *mode : '\0';
    if (!mode || !strcmp(mode, "trunc") || !strcmp(mode, "floor")) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'rounding_mode' is \"%s\"; expected \"trunc\", \"floor\" or none",
                    amp_call_name(call), mode);
}

amp_status amp_read_gelu_form(const amp_call *call, const char *approximate, bool *by_tanh) {
    *by_tanh = !strcmp(approximate, "tanh");
    if (*by_tanh || !strcmp(approximate, "none")) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'approximate' is \"%s\"; expected \"none\" or \"tanh\"",
                    amp_call_name(call), approximate);
}

amp_status amp_fail_zero_divisor(const amp_call *call, const amp_operand *divisor) {
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has a zero, and integers cannot be divided by it", amp_call_name(call),
                    divisor->name);
}

amp_status amp_check_divisor(const amp_call *call, const amp_operand *divisor, amp_dtype dtype, const amp_tensor *out) {
    if (divisor->tensor || amp_compute_dtype(dtype) != AMP_I64 || amp_tensor_elements(out) == 0) return AMP_OK;
    return amp_constant_of(&divisor->number, AMP_I64).i64 ? AMP_OK : amp_fail_zero_divisor(call, divisor);
}

amp_status amp_check_power(const amp_call *call, const amp_tensor *input, const amp_scalar *exponent) {
    const bool whole =
        exponent->kind == AMP_SCALAR_INT && !amp_dtype_is_floating(input->dtype) && !amp_dtype_is_complex(input->dtype);
    if (!whole || exponent->i >= 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s and the exponent %lld; a negative power of integers is none",
                    amp_call_name(call), amp_describe(input), (long long)exponent->i);
}

amp_status amp_check_condition(const amp_call *call, const amp_operand *condition) {
    if (condition->tensor->dtype == AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected bool", amp_call_name(call), condition->name,
                    amp_describe(condition->tensor));
}

amp_status amp_check_masked_fill(const amp_call *call) {
    if (call->op->id == AMP_OP_ID_masked_fill) {
        const amp_masked_fill_args *a = call->args;
        return amp_check_element(call, "value", &a->value, a->input->dtype);
    }
    const amp_masked_fill_tensor_args *a = call->args;
    if (a->value->rank == 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'value' is %s; expected a 0-dim tensor", amp_call_name(call),
                    amp_describe(a->value));
}

static amp_status check_has_products(const amp_call *call, const amp_tensor *input, amp_dtype dtype, bool integers) {
    if (dtype != AMP_BOOL && (integers || amp_compute_dtype(dtype) != AMP_I64)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; %s", amp_call_name(call), amp_describe(input),
                    integers ? "bool has no products" : "expected a floating or complex dtype");
}

amp_status amp_check_lerp(const amp_call *call, const amp_operand *v) {
    const amp_tensor *input = v[0].tensor;
    for (int i = 1; i < 3; i++) {
        const amp_tensor *t = v[i].tensor;
        const bool as_number = t && i == 2 && t->rank == 0 && amp_dtype_is_floating(t->dtype);
        if (t && !as_number) AMP_TRY(amp_call_check_same_dtype(call, v[0].name, input, v[i].name, t));
    }
    if (!v[2].tensor && v[2].number.kind == AMP_SCALAR_COMPLEX && !amp_dtype_is_complex(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'weight' is a complex number, input is %s", amp_call_name(call),
                        amp_describe(input));
    }
    return check_has_products(call, input, input->dtype, false);
}

amp_status amp_check_product_added(const amp_call *call, const amp_operand *v, amp_dtype dtype,
                                   const amp_scalar *number, bool integers) {
    const amp_dtype compute = amp_compute_dtype(dtype);
    AMP_TRY(check_has_products(call, v[0].tensor, dtype, integers));
    if (compute != AMP_C128 && number->kind == AMP_SCALAR_COMPLEX) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'value' is a complex number, the result %s", amp_call_name(call),
                        amp_dtype_name(dtype));
    }
    if (compute != AMP_I64 || number->kind != AMP_SCALAR_FLOAT) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'value' is %g, the result %s; expected an integer", amp_call_name(call),
                    number->re, amp_dtype_name(dtype));
}
