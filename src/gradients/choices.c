/* Gradients of what takes one of several numbers, or takes one's sign: whoever was taken gets the gradient. */
#include "gradients/pieces.h"

static amp_tensor *zero_where(amp_tensor *mask, amp_tensor *t) {
    return amp_masked_fill(t, mask, amp_float(0));
}

/* ---- The larger, the smaller ------------------------------------------------------------------------------------- */

/* Equal ones take half each, and a NaN hands it to both. */
static void share(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *other, bool larger) {
    amp_tensor *const d = g->of[0], *x = *input, *y = *other;
    amp_tensor *halved = amp_where(amp_eq(x, y), amp_mul_scalar(d, amp_float(0.5)), d);
    if (amp_gradient_wants(g, input))
        amp_gradient_give(g, input, zero_where(larger ? amp_lt(x, y) : amp_gt(x, y), halved));
    if (amp_gradient_wants(g, other))
        amp_gradient_give(g, other, zero_where(larger ? amp_lt(y, x) : amp_gt(y, x), halved));
}

void amp_gradient_maximum(amp_gradient *g) {
    const amp_maximum_args *a = g->args;
    share(g, &a->input, &a->other, true);
}

void amp_gradient_minimum(amp_gradient *g) {
    const amp_minimum_args *a = g->args;
    share(g, &a->input, &a->other, false);
}

/* The first of equal ones takes it, and who is not NaN. */
static void hand(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *other, amp_tensor *is_first) {
    amp_tensor *first = amp_logical_or(is_first, amp_isnan(*other));
    if (amp_gradient_wants(g, input)) amp_gradient_give(g, input, zero_where(amp_logical_not(first), g->of[0]));
    if (amp_gradient_wants(g, other)) amp_gradient_give(g, other, zero_where(first, g->of[0]));
}

void amp_gradient_fmax(amp_gradient *g) {
    const amp_fmax_args *a = g->args;
    hand(g, &a->input, &a->other, amp_ge(a->input, a->other));
}

void amp_gradient_fmin(amp_gradient *g) {
    const amp_fmin_args *a = g->args;
    hand(g, &a->input, &a->other, amp_le(a->input, a->other));
}

/* ---- Bounds ------------------------------------------------------------------------------------------------------ */

/* At a bound the element itself still counts. A NaN is within none. */
void amp_gradient_clamp(amp_gradient *g) {
    const amp_clamp_args *a = g->args;
    amp_tensor *low = a->min.kind != AMP_SCALAR_NONE ? amp_ge_scalar(a->input, a->min) : NULL;
    amp_tensor *high = a->max.kind != AMP_SCALAR_NONE ? amp_le_scalar(a->input, a->max) : NULL;
    amp_tensor *inside = low && high ? amp_logical_and(low, high) : low ? low : high;
    amp_gradient_give(g, &a->input, zero_where(amp_logical_not(inside), g->of[0]));
}

static amp_tensor *within(const amp_clamp_tensor_args *a) {
    amp_tensor *low = a->min ? amp_ge(a->input, a->min) : NULL, *high = a->max ? amp_le(a->input, a->max) : NULL;
    return low && high ? amp_logical_and(low, high) : low ? low : high;
}

/* Bounds that are the wrong way round: the upper one counts. */
void amp_gradient_clamp_tensor(amp_gradient *g) {
    const amp_clamp_tensor_args *a = g->args;
    amp_tensor *d = g->of[0];
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, zero_where(amp_logical_not(within(a)), d));
    if (amp_gradient_wants(g, &a->min)) {
        amp_tensor *taken = amp_lt(a->input, a->min);
        if (a->max) taken = amp_logical_and(taken, amp_lt(a->min, a->max));
        amp_gradient_give(g, &a->min, zero_where(amp_logical_not(taken), d));
    }
    if (amp_gradient_wants(g, &a->max)) {
        amp_tensor *taken = amp_gt(a->input, a->max);
        if (a->min) taken = amp_logical_or(taken, amp_gt(a->min, a->max));
        amp_gradient_give(g, &a->max, zero_where(amp_logical_not(taken), d));
    }
}

/* ---- Signs ------------------------------------------------------------------------------------------------------- */

/* ±1 as the sign was kept or turned; 0 at zero, as PyTorch has it. */
static amp_tensor *kept_sign(const amp_gradient *g, amp_tensor *input) {
    amp_tensor *turned = amp_ne(amp_sign(input), amp_sign(g->results[0]));
    amp_tensor *d = amp_where(turned, amp_neg(g->of[0]), g->of[0]);
    return zero_where(amp_eq_scalar(input, amp_float(0)), d);
}

void amp_gradient_copysign(amp_gradient *g) {
    const amp_copysign_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, kept_sign(g, a->input));
    amp_gradient_give(g, &a->other, amp_zero_gradient(g));
}

void amp_gradient_copysign_scalar(amp_gradient *g) {
    const amp_copysign_scalar_args *a = g->args;
    amp_gradient_give(g, &a->input, kept_sign(g, a->input));
}
