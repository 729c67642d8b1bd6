/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, and products of integers: exact, in i32. */
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

/* ---- Scales and zero points --------------------------------------------------------------------------------------- */

/* One number for each block of `size` elements along the axis, as one for each element of x. */
static amp_tensor *spread_blocks(const amp_onnx_step *s, amp_tensor *t, const amp_tensor *x, int axis, int64_t size) {
    int64_t shape[AMP_MAX_RANK];
    if (t->rank != x->rank || x->rank == AMP_MAX_RANK || size > INT32_MAX || t->shape[axis] * size < x->shape[axis]) {
        amp_onnx_fail(s, AMP_ERROR_INVALID, "%s for blocks of %lld of %s along dimension %d", amp_describe(t),
                      (long long)size, amp_describe(x), axis);
        return NULL;
    }
    amp_tensor *columns = amp_unsqueeze(t, axis + 1);
    for (int d = 0; d <= t->rank; d++) shape[d] = d == axis + 1 ? size : t->shape[d <= axis ? d : d - 1];
    columns = amp_expand(columns, amp_onnx_dims(t->rank + 1, shape));
    columns = amp_flatten(columns, .start_dim = axis, .end_dim = AMP_SET(axis + 1));
    return amp_narrow(columns, axis, 0, x->shape[axis]);
}

/* A scale or zero point so that it broadcasts against x. */
static amp_tensor *spread(const amp_onnx_step *s, amp_tensor *t, const amp_tensor *x) {
    const int64_t block = amp_onnx_int(s, "block_size", 0);
    if (!t || amp_tensor_elements(t) == 1) return amp_onnx_along(t, 0, 0);
    const int64_t axis = amp_onnx_axis(s, amp_onnx_int(s, "axis", 1), x->rank);
    if (axis < 0) return NULL;
    if (block > 0) return spread_blocks(s, t, x, (int)axis, block);
    if (t->rank == 1 && t->shape[0] == x->shape[axis]) return amp_onnx_along(t, (int)axis, x->rank);
    amp_onnx_fail(s, AMP_ERROR_INVALID, "%s for dimension %lld of %s", amp_describe(t), (long long)axis,
                  amp_describe(x));
    return NULL;
}

/* The smallest and largest of a dtype that numbers are quantised to. */
static amp_status quantized_range(const amp_onnx_step *s, amp_dtype dtype, amp_scalar *least, amp_scalar *most) {
    const int bits = 8 * (int)amp_dtype_size(dtype);
    const bool known = dtype == AMP_U8 || dtype == AMP_I8 || dtype == AMP_I16 || dtype == AMP_I32;
    if (!known) {
        return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "quantising to %s; u8, i8, i16 are done",
                             amp_dtype_name(dtype));
    }
    *least = amp_float(dtype == AMP_U8 ? 0 : -(double)(INT64_C(1) << (bits - 1)));
    *most = amp_float((double)((INT64_C(1) << (dtype == AMP_U8 ? bits : bits - 1)) - 1));
    return AMP_OK;
}

/* round(x / scale) + zero, kept in the range of `dtype`; zero of floats, or NULL. */
static amp_tensor *quantize(const amp_onnx_step *s, amp_tensor *quotient, amp_tensor *zero, amp_dtype dtype) {
    amp_scalar least, most;
    if (quantized_range(s, dtype, &least, &most) != AMP_OK) return NULL;
    amp_tensor *whole = amp_round(quotient);
    if (zero) whole = amp_add(whole, zero);
    return amp_to(amp_clamp(whole, .min = least, .max = most), dtype);
}

amp_status onnx_quantize_linear(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1), *zero = amp_onnx_input(s, 2);
    if (!x || !scale) return amp_pending_error();
    const int64_t named = amp_onnx_int(s, "output_dtype", 0);
    const amp_dtype dtype = zero ? zero->dtype : named ? amp_onnx_dtype(s, named) : AMP_U8;
    if (dtype == AMP_DTYPE_NONE) return amp_pending_error();
    scale = spread(s, amp_to(scale, AMP_F32), x);
    zero = zero ? spread(s, amp_to(zero, AMP_F32), x) : NULL;
    return amp_onnx_set(s, 0, quantize(s, amp_div(amp_to(x, AMP_F32), scale), zero, dtype));
}

amp_status onnx_dequantize_linear(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1), *zero = amp_onnx_input(s, 2);
    if (!x || !scale) return amp_pending_error();
    const int64_t named = amp_onnx_int(s, "output_dtype", 0);
    const amp_dtype dtype = named ? amp_onnx_dtype(s, named) : scale->dtype;
    if (dtype == AMP_DTYPE_NONE) return amp_pending_error();
    amp_tensor *whole = amp_to(x, AMP_I32);
    if (zero) whole = amp_sub(whole, spread(s, amp_to(zero, AMP_I32), x));
    return amp_onnx_set(s, 0, amp_to(amp_mul(amp_to(whole, AMP_F32), spread(s, amp_to(scale, AMP_F32), x)), dtype));
}

/* To u8, by the range of the input's elements and 0. Nothing is read on the host: where this runs nobody waits. */
amp_status onnx_dynamic_quantize_linear(amp_onnx_step *s) {
    amp_tensor *given = amp_onnx_required(s, 0), *x = given ? amp_to(given, AMP_F32) : NULL;
    if (!x) return amp_pending_error();
    amp_tensor *least = amp_clamp(amp_min(x), .max = amp_float(0)), *most = amp_clamp(amp_max(x), .min = amp_float(0));
    amp_tensor *range = amp_sub(most, least);
    range = amp_masked_fill(range, amp_eq_scalar(range, amp_float(0)), amp_float(1));
    amp_tensor *scale = amp_div_scalar(range, amp_float(255));
    amp_tensor *zero = amp_neg(amp_div(least, scale));
    zero = amp_round(amp_clamp(zero, .min = amp_float(0), .max = amp_float(255)));
    AMP_TRY(amp_onnx_set(s, 0, quantize(s, amp_div(x, scale), zero, AMP_U8)));
    AMP_TRY(amp_onnx_set(s, 1, scale));
    return amp_onnx_set(s, 2, amp_to(zero, AMP_U8));
}

/* ---- Products ----------------------------------------------------------------------------------------------------- */

/* What products of 8-bit integers are exact in: i32 on the CPU. Elsewhere there are none of integers, but f64 holds the
 * sum of any number of them that fits into i32, and no region casts it. */
static amp_dtype exact_dtype(const amp_tensor *t) {
    return amp_tensor_device(t) == AMP_DEVICE_CPU ? AMP_I32 : AMP_F64;
}

/* The operand of a product less its zero point. A point for each row (axis -2) or column (axis -1), or one. */
static amp_tensor *centred(amp_tensor *t, amp_tensor *zero, int axis) {
    if (!t) return NULL;
    const amp_dtype dtype = exact_dtype(t);
    amp_tensor *whole = amp_to(t, dtype);
    if (!zero) return whole;
    const int d = axis < 0 ? axis + t->rank : axis;
    if (zero->rank > 1) return amp_sub(whole, amp_to(zero, dtype)); /* laid out so that it broadcasts */
    return amp_sub(whole, amp_onnx_along(amp_to(zero, dtype), d > 0 ? d : 0, t->rank));
}

amp_status onnx_matmul_integer(amp_onnx_step *s) {
    amp_tensor *a = centred(amp_onnx_required(s, 0), amp_onnx_input(s, 2), -2);
    amp_tensor *b = centred(amp_onnx_required(s, 1), amp_onnx_input(s, 3), -1);
    return amp_onnx_set(s, 0, amp_to(amp_matmul(a, b), AMP_I32));
}

amp_status onnx_conv_integer(amp_onnx_step *s) {
    amp_tensor *x = centred(amp_onnx_required(s, 0), amp_onnx_input(s, 2), 0);
    amp_tensor *weight = centred(amp_onnx_required(s, 1), amp_onnx_input(s, 3), 0);
    return amp_onnx_set(s, 0, amp_to(amp_onnx_convolution(s, x, weight, NULL), AMP_I32));
}

/* The f32 product of two scales over a third, so that it broadcasts against `sum`: the second may be one number for
 * each element of dimension `axis`. */
static amp_tensor *rescale(amp_tensor *sum, amp_tensor *first, amp_tensor *second, amp_tensor *last, int axis,
                           int row_axis) {
    if (!sum) return NULL;
    first = amp_onnx_along(amp_to(first, AMP_F32), row_axis, sum->rank);
    second = amp_onnx_along(amp_to(second, AMP_F32), axis, sum->rank);
    amp_tensor *factor = amp_div(amp_mul(first, second), amp_onnx_along(amp_to(last, AMP_F32), 0, 0));
    return amp_mul(amp_to(sum, AMP_F32), factor);
}

amp_status onnx_qlinear_matmul(amp_onnx_step *s) {
    amp_tensor *in[8];
    for (int i = 0; i < 8; i++) {
        if (!(in[i] = amp_onnx_required(s, i))) return amp_pending_error();
    }
    amp_tensor *sum = amp_matmul(centred(in[0], in[2], -2), centred(in[3], in[5], -1));
    if (!sum) return amp_pending_error();
    if (sum->rank < 2) return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "a product of vectors");
    amp_tensor *scaled = rescale(sum, in[1], in[4], in[6], sum->rank - 1, sum->rank - 2);
    return amp_onnx_set(s, 0, quantize(s, scaled, amp_onnx_along(amp_to(in[7], AMP_F32), 0, 0), in[7]->dtype));
}

/* A bias is of i32, in units of x_scale · w_scale. */
amp_status onnx_qlinear_conv(amp_onnx_step *s) {
    amp_tensor *in[8], *bias = amp_onnx_input(s, 8);
    for (int i = 0; i < 8; i++) {
        if (!(in[i] = amp_onnx_required(s, i))) return amp_pending_error();
    }
    amp_tensor *sum = amp_onnx_convolution(s, centred(in[0], in[2], 0), centred(in[3], in[5], 0),
                                           bias ? amp_to(bias, exact_dtype(bias)) : NULL);
    amp_tensor *scaled = rescale(sum, in[1], in[4], in[6], 1, 0);
    return amp_onnx_set(s, 0, quantize(s, scaled, amp_onnx_along(amp_to(in[7], AMP_F32), 0, 0), in[7]->dtype));
}
