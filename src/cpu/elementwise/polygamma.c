/* polygamma: the n-th derivative of digamma, (-1)^(n+1)·n!·ζ(n + 1, x) with the zeta function of Hurwitz, in f64. */
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/elementwise/elementwise.h"
#include "policy/promotion.h"

/* Σ (q + k)^-s over k ≥ 0 for whole s ≥ 2 and q > 0: terms up to q + k ≥ 12, and Euler's and Maclaurin's formula for
 * the rest. */
static double zeta_above(double s, double q) {
    /* (2j)!/B_2j: Abramowitz and Stegun 23.1.3 */
    static const double divisors[] = {12.0,          -720.0,
                                      30240.0,       -1209600.0,
                                      47900160,      -1307674368.0 * 1000 / 691,
                                      74724249600.0, -10670622842880000.0 / 3617};
    double sum = 0.0;
    for (; q < 12.0; q += 1.0) sum += pow(q, -s);
    double power = pow(q, -s), factor = s, rest = power * q / (s - 1.0) + 0.5 * power;
    power /= q;
    for (int j = 0; j < 8; j++) {
        rest += factor * power / divisors[j];
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2);
        power /= q * q;
    }
    return sum + rest;
}

/* Of q < 0 the terms below zero are those of two others: with f = q - ⌊q⌋, ζ(f) + (-1)^s·(ζ(1 - f) - ζ(1 - q)). */
static double zeta(double s, double q) {
    if (isnan(q)) return q;
    if (q > 0.0) return q == INFINITY ? 0.0 : zeta_above(s, q);
    const double f = q - floor(q), sign = fmod(s, 2.0) == 0.0 ? 1.0 : -1.0;
    if (!(f > 0.0)) return isinf(q) ? NAN : INFINITY;
    return zeta_above(s, f) + sign * (zeta_above(s, 1.0 - f) - zeta_above(s, 1.0 - q));
}

static void polygamma_loop(void *context, void *out, const void *const *in, int64_t n) {
    const double order = *(const double *)context, scale = (fmod(order, 2.0) == 0.0 ? -1.0 : 1.0) * tgamma(order + 1.0);
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = scale * zeta(order + 1.0, ((const double *)in[0])[i]);
}

amp_status cpu_polygamma(amp_call *call) {
    const amp_polygamma_args *a = call->args;
    const amp_operand v = amp_tensor_operand("input", a->input);
    double order = (double)a->n;
    if (a->n < 0 || amp_dtype_is_complex(a->input->dtype)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'n' is %lld and input is %s; expected n ≥ 0 and real numbers",
                        amp_call_name(call), (long long)a->n, amp_describe(a->input));
    }
    if (a->n == 0) {
        call->outputs[0] = amp_digamma(a->input);
        return call->outputs[0] ? AMP_OK : amp_pending_error();
    }
    amp_tensor *out = amp_operands_output(call, &v, 1, amp_floating_result(a->input->dtype));
    if (!out) return amp_pending_error();
    amp_operands_run(&v, 1, AMP_F64, AMP_F64, polygamma_loop, &order, 256, out);
    return AMP_OK;
}
