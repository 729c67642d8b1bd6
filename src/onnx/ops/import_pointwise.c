/* Ops that compute every element of the result from those at its place. */
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/compose.h"

/* libamp's op of the same meaning, its arguments the node's inputs in their order. */
amp_status onnx_same(amp_onnx_step *s) {
    enum { MOST = 4 }; /* of such ops */
    amp_tensor *inputs[MOST];
    const int count = s->node->input_count < MOST ? s->node->input_count : MOST;
    if (!amp_onnx_operands(s, inputs, count)) return amp_pending_error();
    return amp_onnx_set(s, 0, amp_onnx_call(s->node->op->to, inputs, count));
}

/* ---- Arithmetic ------------------------------------------------------------------------------------------------ */

/* Integers are divided towards zero. */
amp_status onnx_div(amp_onnx_step *s) {
    amp_tensor *x[2];
    if (!amp_onnx_operands(s, x, 2)) return amp_pending_error();
    const bool integers = amp_onnx_is_integer(x[0]);
    return amp_onnx_set(s, 0, integers ? amp_div(x[0], x[1], .rounding_mode = "trunc") : amp_div(x[0], x[1]));
}

amp_status onnx_mod(amp_onnx_step *s) {
    amp_tensor *x[2];
    if (!amp_onnx_operands(s, x, 2)) return amp_pending_error();
    const bool fmod = amp_onnx_int(s, "fmod", 0) != 0;
    if (!fmod && !amp_onnx_is_integer(x[0]))
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s with fmod 0, which is for integers", amp_describe(x[0]));
    return amp_onnx_set(s, 0, fmod ? amp_fmod(x[0], x[1]) : amp_remainder(x[0], x[1]));
}

/* The result has the base's type. Of integers to a floating power only f64 holds all that they may be. */
amp_status onnx_pow(amp_onnx_step *s) {
    amp_tensor *x[2];
    if (!amp_onnx_operands(s, x, 2)) return amp_pending_error();
    amp_tensor *base = x[0], *exponent = x[1];
    if (base->dtype == exponent->dtype) return amp_onnx_set(s, 0, amp_pow(base, exponent));
    const bool wide = amp_onnx_is_integer(base) && !amp_onnx_is_integer(exponent);
    amp_tensor *power = amp_pow(wide ? amp_to(base, AMP_F64) : base, exponent);
    return amp_onnx_set(s, 0, amp_onnx_as(power, base->dtype));
}

/* All inputs, one after another. */
static amp_tensor *fold(amp_onnx_step *s, const char *op) {
    amp_tensor *inputs[AMP_ONNX_MOST_PLACES];
    if (!amp_onnx_operands(s, inputs, s->node->input_count)) return NULL;
    amp_tensor *all = inputs[0];
    for (int i = 1; i < s->node->input_count; i++) all = AMP_ONNX_CALL(op, all, inputs[i]);
    return all;
}

amp_status onnx_fold(amp_onnx_step *s) {
    return amp_onnx_set(s, 0, fold(s, s->node->op->to));
}

amp_status onnx_mean(amp_onnx_step *s) {
    return amp_onnx_set(s, 0, amp_div_scalar(fold(s, "add"), amp_int(s->node->input_count)));
}

amp_status onnx_bit_shift(amp_onnx_step *s) {
    amp_tensor *x[2];
    const char *direction = amp_onnx_text(s, "direction", "");
    const bool left = strcmp(direction, "LEFT") == 0;
    if (!amp_onnx_operands(s, x, 2)) return amp_pending_error();
    if (!left && strcmp(direction, "RIGHT") != 0)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "direction '%.40s'; expected LEFT or RIGHT", direction);
    return amp_onnx_set(s, 0, left ? amp_bitwise_left_shift(x[0], x[1]) : amp_bitwise_right_shift(x[0], x[1]));
}

amp_status onnx_isinf(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const bool negative = amp_onnx_int(s, "detect_negative", 1) != 0;
    const bool positive = amp_onnx_int(s, "detect_positive", 1) != 0;
    amp_tensor *any = amp_isinf(x);
    if (negative && positive) return amp_onnx_set(s, 0, any);
    if (!negative && !positive) return amp_onnx_set(s, 0, amp_zeros_like(any));
    amp_tensor *side = negative ? amp_lt_scalar(x, amp_int(0)) : amp_gt_scalar(x, amp_int(0));
    return amp_onnx_set(s, 0, amp_logical_and(any, side));
}

/* ---- Bounds ---------------------------------------------------------------------------------------------------- */

amp_status onnx_clip_attributes(amp_onnx_step *s) {
    amp_clamp_args args = {.struct_size = sizeof args, .input = amp_onnx_required(s, 0)};
    if (amp_onnx_has(s, "min")) args.min = amp_float(amp_onnx_float(s, "min", 0));
    if (amp_onnx_has(s, "max")) args.max = amp_float(amp_onnx_float(s, "max", 0));
    const bool bounded = args.min.kind != AMP_SCALAR_NONE || args.max.kind != AMP_SCALAR_NONE;
    return amp_onnx_set(s, 0, bounded ? amp_clamp_call(&args) : args.input);
}

/* A bound is one number, in files also of shape [1]: as a tensor without dimensions it changes neither the shape nor,
 * in a region, the dtype. */
static amp_tensor *bound(const amp_onnx_step *s, int i) {
    amp_tensor *t = amp_onnx_input(s, i);
    return t && t->rank > 0 ? amp_reshape(t, AMP_NO_DIMS) : t;
}

amp_status onnx_clip(amp_onnx_step *s) {
    amp_tensor *x[] = {amp_onnx_required(s, 0), bound(s, 1), bound(s, 2)};
    amp_onnx_meet(x, 3);
    return amp_onnx_set(s, 0, x[1] || x[2] ? amp_clamp_tensor(x[0], x[1], x[2]) : x[0]);
}

amp_status onnx_shrink(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const double lambda = amp_onnx_float(s, "lambd", 0.5), bias = amp_onnx_float(s, "bias", 0);
    if (!x) return amp_pending_error();
    amp_tensor *above =
        amp_where_scalar_other(amp_gt_scalar(x, amp_float(lambda)), amp_sub_scalar(x, amp_float(bias)), amp_int(0));
    amp_tensor *y = amp_where(amp_lt_scalar(x, amp_float(-lambda)), amp_add_scalar(x, amp_float(bias)), above);
    return amp_onnx_set(s, 0, amp_onnx_as(y, x->dtype));
}

/* ---- Activations ----------------------------------------------------------------------------------------------- */

amp_status onnx_leaky_relu(amp_onnx_step *s) {
    const double slope = amp_onnx_float(s, "alpha", 0.01);
    return amp_onnx_set(s, 0, amp_leaky_relu(amp_onnx_required(s, 0), .negative_slope = AMP_SET(slope)));
}

amp_status onnx_elu(amp_onnx_step *s) {
    const double alpha = amp_onnx_float(s, "alpha", 1);
    return amp_onnx_set(s, 0, amp_elu(amp_onnx_required(s, 0), .alpha = AMP_SET(alpha)));
}

amp_status onnx_celu(amp_onnx_step *s) {
    const double alpha = amp_onnx_float(s, "alpha", 1);
    return amp_onnx_set(s, 0, amp_celu(amp_onnx_required(s, 0), .alpha = AMP_SET(alpha)));
}

/* libamp's selu has the usual numbers. */
amp_status onnx_selu(amp_onnx_step *s) {
    const double usual_alpha = 1.67326319217681884765625, usual_gamma = 1.05070102214813232421875;
    const double alpha = amp_onnx_float(s, "alpha", usual_alpha), gamma = amp_onnx_float(s, "gamma", usual_gamma);
    amp_tensor *x = amp_onnx_required(s, 0);
    if (alpha == usual_alpha && gamma == usual_gamma) return amp_onnx_set(s, 0, amp_selu(x));
    return amp_onnx_set(s, 0, amp_mul_scalar(amp_elu(x, .alpha = AMP_SET(alpha)), amp_float(gamma)));
}

amp_status onnx_thresholded_relu(amp_onnx_step *s) {
    const double alpha = amp_onnx_float(s, "alpha", 1);
    return amp_onnx_set(s, 0, amp_threshold(amp_onnx_required(s, 0), amp_float(alpha), amp_int(0)));
}

/* libamp's hardsigmoid has the slope 1/6. */
amp_status onnx_hard_sigmoid(amp_onnx_step *s) {
    const double alpha = amp_onnx_float(s, "alpha", 0.2), beta = amp_onnx_float(s, "beta", 0.5);
    amp_tensor *x = amp_onnx_required(s, 0);
    if ((float)alpha == 1.0f / 6 && beta == 0.5) return amp_onnx_set(s, 0, amp_hardsigmoid(x));
    amp_tensor *line = amp_add_scalar(amp_mul_scalar(x, amp_float(alpha)), amp_float(beta));
    return amp_onnx_set(s, 0, amp_clamp(line, amp_int(0), amp_int(1)));
}

amp_status onnx_gelu(amp_onnx_step *s) {
    const char *approximate = amp_onnx_text(s, "approximate", "none");
    return amp_onnx_set(s, 0, amp_gelu(amp_onnx_required(s, 0), .approximate = approximate));
}

amp_status onnx_swish(amp_onnx_step *s) {
    const double alpha = amp_onnx_float(s, "alpha", 1);
    amp_tensor *x = amp_onnx_required(s, 0);
    if (alpha == 1) return amp_onnx_set(s, 0, amp_silu(x));
    return amp_onnx_set(s, 0, amp_mul(x, amp_sigmoid(amp_mul_scalar(x, amp_float(alpha)))));
}

/* One slope, or one for each channel, which is dimension 1 of x: what libamp's prelu takes. A vector that broadcasts to
 * nothing but is as long as there are channels is from before opset 7, which converters of models have let pass. */
static bool is_by_channel(const amp_tensor *x, const amp_tensor *slope) {
    const int64_t slopes = amp_tensor_numel(slope);
    const int channels = slope->rank - x->rank + 1; /* the slope's dimension that meets dimension 1 */
    if (slope->rank > x->rank || !amp_dtype_is_floating(x->dtype)) return false;
    if (slopes == 1) return true;
    if (x->rank < 2 || slopes != x->shape[1]) return false;
    return channels >= 0 ? slope->shape[channels] == slopes : slope->rank == 1 && slopes != x->shape[x->rank - 1];
}

amp_status onnx_prelu(amp_onnx_step *s) {
    amp_tensor *operands[2];
    if (!amp_onnx_operands(s, operands, 2)) return amp_pending_error();
    amp_tensor *x = operands[0], *slope = operands[1];
    if (is_by_channel(x, slope)) return amp_onnx_set(s, 0, amp_prelu(x, amp_reshape(slope, AMP_DIMS(-1))));
    return amp_onnx_set(s, 0, amp_where(amp_lt_scalar(x, amp_int(0)), amp_mul(x, slope), x));
}
