/* What the arguments of elementwise ops may be, with their error messages: the same on every device. */
#ifndef AMP_OPS_ARGUMENT_RULES_H
#define AMP_OPS_ARGUMENT_RULES_H

#include "steps/operands.h"

/* add and sub (`sign` −1) of v[0] and v[1]: alpha suits a result of `dtype`, and there is no difference with a bool. */
amp_status amp_check_sum(const amp_call *call, const amp_operand *v, const amp_scalar *alpha, int sign,
                         amp_dtype dtype);

/* div's rounding_mode: 0 for none, 't' or 'f'. */
amp_status amp_read_rounding(const amp_call *call, const char *mode, char *rounding);

/* gelu's 'approximate': "tanh", or "none". */
amp_status amp_read_gelu_form(const amp_call *call, const char *approximate, bool *by_tanh);

/* A divisor that is a number, and 0, where integers are divided. Of tensors the kernel finds it: the sentence for
 * that. */
amp_status amp_check_divisor(const amp_call *call, const amp_operand *divisor, amp_dtype dtype, const amp_tensor *out);
amp_status amp_fail_zero_divisor(const amp_call *call, const amp_operand *divisor);

/* Integers have no negative powers. */
amp_status amp_check_power(const amp_call *call, const amp_tensor *input, const amp_scalar *exponent);

/* bitwise ops of v[0] and v[1], whose result is of `dtype`: integers, or bools, but not where they are shifted. */
amp_status amp_check_bits(const amp_call *call, const amp_operand *v, amp_dtype dtype, bool shifted);

/* softshrink: lambd is not below 0. */
amp_status amp_check_lambda(const amp_call *call, const amp_scalar *lambda);

/* where and masked_fill: the condition is bool. */
amp_status amp_check_condition(const amp_call *call, const amp_operand *condition);
amp_status amp_check_masked_fill(const amp_call *call);

/* lerp: the tensors have one floating or complex dtype; weight too if it is one, but a 0-dim one may have another. */
amp_status amp_check_lerp(const amp_call *call, const amp_operand *v);
/* addcmul, and addcdiv, which has no integers; `number` is their value. */
amp_status amp_check_product_added(const amp_call *call, const amp_operand *v, amp_dtype dtype,
                                   const amp_scalar *number, bool integers);

#endif /* AMP_OPS_ARGUMENT_RULES_H */
