/* Ops that are made of other ops on the device. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_elementwise.h"
#include "steps/constants.h"
#include "steps/product_rules.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

static amp_status return_tensor(amp_call *call, amp_tensor *t) {
    call->outputs[0] = t;
    return t ? AMP_OK : amp_pending_error();
}

/* f32 for 16-bit floats, so that what is between is rounded once, at the end. */
static amp_tensor *widened(amp_tensor *t) {
    return t->dtype == AMP_F16 || t->dtype == AMP_BF16 ? amp_to(t, AMP_F32) : t;
}
static amp_tensor *narrowed(amp_tensor *t, amp_dtype dtype) {
    return t && t->dtype != dtype ? amp_to(t, dtype) : t;
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */
amp_status cuda_dot(amp_call *call) {
    const amp_dot_args *a = call->args;
    AMP_TRY(amp_call_check_same_dtype(call, "input", a->input, "tensor", a->tensor));
    if (a->input->rank != 1 || a->tensor->rank != 1 || a->input->shape[0] != a->tensor->shape[0]) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, 'tensor' is %s; expected two vectors of one length",
                        amp_call_name(call), amp_describe(a->input), amp_describe(a->tensor));
    }
    return return_tensor(call, amp_matmul(a->input, a->tensor));
}

amp_status cuda_outer(amp_call *call) {
    const amp_outer_args *a = call->args;
    if (a->input->rank != 1 || a->vec2->rank != 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s, 'vec2' is %s; expected two vectors", amp_call_name(call),
                        amp_describe(a->input), amp_describe(a->vec2));
    }
    return return_tensor(call, amp_mul(amp_unsqueeze(a->input, 1), amp_unsqueeze(a->vec2, 0)));
}

/* For what addmm does not take, integers and mixed dtypes: in f32 at least, and in i64. */
static amp_tensor *scaled_sum(const amp_addr_args *a, amp_tensor *column, amp_tensor *row, amp_dtype dtype) {
    const bool whole = !amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype);
    const amp_dtype wide = whole ? AMP_I64 : dtype == AMP_F16 || dtype == AMP_BF16 ? AMP_F32 : dtype;
    column = narrowed(column, wide);
    row = column ? narrowed(row, wide) : NULL;
    amp_tensor *product = row ? amp_mul(column, row) : NULL;
    product = product ? amp_mul_scalar(product, a->alpha) : NULL;
    const amp_constant beta = amp_constant_of(&a->beta, AMP_C128);
    if (!product || (beta.c128[0] == 0 && beta.c128[1] == 0)) return product; /* the input is not looked at */
    amp_tensor *input = narrowed(a->input, wide);
    input = input ? amp_mul_scalar(input, a->beta) : NULL;
    return input ? amp_add(input, product) : NULL;
}

amp_status cuda_addr(amp_call *call) {
    const amp_addr_args *a = call->args;
    AMP_TRY(amp_check_addr(call, a));
    amp_tensor *column = amp_unsqueeze(a->vec1, 1), *row = amp_unsqueeze(a->vec2, 0);
    if (!column || !row) return amp_pending_error();
    const amp_operand v[3] = {amp_tensor_operand("input", a->input), amp_tensor_operand("vec1", column),
                              amp_tensor_operand("vec2", row)};
    const amp_dtype dtype = amp_operands_expanded_dtype(v, 3);
    const bool same = a->input->dtype == dtype && a->vec1->dtype == dtype && a->vec2->dtype == dtype;
    if (same && (amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype)))
        return return_tensor(call, amp_addmm(a->input, column, row, .beta = a->beta, .alpha = a->alpha));
    return return_tensor(call, narrowed(scaled_sum(a, column, row, dtype), dtype));
}

/* ---- Activations ------------------------------------------------------------------------------------------------- */
amp_status cuda_glu(amp_call *call) {
    const amp_glu_args *a = call->args;
    int d;
    AMP_TRY(amp_read_glu(call, a, &d));
    const int64_t half = a->input->shape[d] / 2;
    amp_tensor *wide = widened(a->input), *first = wide ? amp_narrow(wide, d, 0, half) : NULL;
    amp_tensor *second = first ? amp_narrow(wide, d, half, half) : NULL, *gate = second ? amp_sigmoid(second) : NULL;
    return return_tensor(call, gate ? narrowed(amp_mul(first, gate), a->input->dtype) : NULL);
}

amp_status cuda_prelu(amp_call *call) {
    const amp_prelu_args *a = call->args;
    amp_tensor slope;
    AMP_TRY(amp_read_slopes(call, a, &slope));
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("weight", &slope)};
    return amp_cuda_elementwise_op(call, AMP_FORMULA_prelu, v, 2, a->input->dtype, (amp_formula_numbers){0});
}

/* ---- logsumexp --------------------------------------------------------------------------------------------------- */
static amp_dims dims_of(unsigned mask) {
    amp_dims dims = {.set = AMP_PRESENT};
    for (int d = 0; d < AMP_MAX_RANK; d++) {
        if (mask >> d & 1u) dims.values[dims.count++] = d;
    }
    return dims;
}

/* log Σ exp(x − m) + m, m the largest, or 0 where that is infinite. */
static amp_tensor *shifted_sum(amp_tensor *x, amp_dims dims) {
    amp_tensor *high = amp_amax(x, dims, .keepdim = true), *finite = high ? amp_isfinite(high) : NULL;
    high = finite ? amp_where_scalar_other(finite, high, amp_float(0.0)) : NULL;
    amp_tensor *shifted = high ? amp_sub(x, high) : NULL, *powers = shifted ? amp_exp(shifted) : NULL;
    amp_tensor *sum = powers ? amp_sum(powers, dims, .keepdim = true) : NULL, *log = sum ? amp_log(sum) : NULL;
    return log ? amp_add(log, high) : NULL;
}

amp_status cuda_logsumexp(amp_call *call) {
    const amp_logsumexp_args *a = call->args;
    const amp_dtype dtype = amp_dtype_is_floating(a->input->dtype) ? a->input->dtype : AMP_F32;
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dim", &a->dim, true, a->input->rank, &mask));
    amp_tensor *x = narrowed(a->input, dtype == AMP_F64 ? AMP_F64 : AMP_F32), *result;
    if (!x) return amp_pending_error();
    if (mask == 0) {
        result = x;
    } else if (amp_reduced_elements(x, mask) == 0) {
        result = amp_log(amp_sum(x, dims_of(mask), .keepdim = a->keepdim));
    } else {
        result = shifted_sum(x, dims_of(mask));
        if (result && !a->keepdim) result = amp_sum(result, dims_of(mask)); /* of one element each */
    }
    return return_tensor(call, narrowed(result, dtype));
}

/* ---- Norms of differences, and of vectors ------------------------------------------------------------------------ */
amp_status cuda_dist(amp_call *call) {
    const amp_dist_args *a = call->args;
    const amp_operand pair[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("other", a->other)};
    const amp_dtype dtype = amp_operands_dtype(pair, 2);
    if (!amp_dtype_is_floating(dtype)) {
        return amp_fail(amp_dtype_is_complex(dtype) ? AMP_ERROR_NOT_IMPLEMENTED : AMP_ERROR_DTYPE,
                        "%s: input is %s, 'other' is %s; expected a floating dtype, on cuda", amp_call_name(call),
                        amp_describe(a->input), amp_describe(a->other));
    }
    amp_tensor *x = widened(a->input), *y = x ? widened(a->other) : NULL, *difference = y ? amp_sub(x, y) : NULL;
    amp_tensor *norm = difference ? amp_linalg_vector_norm(difference, amp_float(a->p.value)) : NULL;
    return return_tensor(call, norm ? narrowed(norm, dtype) : NULL);
}

amp_status cuda_normalize(amp_call *call) {
    const amp_normalize_args *a = call->args;
    AMP_TRY(amp_check_floating(call, a->input));
    amp_tensor *wide = widened(a->input);
    amp_tensor *norm = wide ? amp_linalg_vector_norm(wide, amp_float(a->p.value), AMP_DIMS(a->dim.value), true) : NULL;
    if (!norm) return amp_pending_error();
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("norm", norm)};
    return amp_cuda_elementwise_op(call, AMP_FORMULA_at_least, v, 2, a->input->dtype,
                                   (amp_formula_numbers){.p = a->eps.value});
}

/* ---- Triangles --------------------------------------------------------------------------------------------------- */
static amp_tensor *counting(int64_t count) {
    return amp_arange(amp_int(count), .device = AMP_DEVICE_CUDA);
}

static amp_status triangle(amp_call *call, amp_tensor *input, int64_t diagonal, bool lower) {
    if (input->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected a matrix, or a batch of them",
                        amp_call_name(call), amp_describe(input));
    }
    amp_tensor *rows = counting(input->shape[input->rank - 2]);
    amp_tensor *columns = rows ? counting(input->shape[input->rank - 1]) : NULL;
    amp_tensor *right = columns ? amp_sub(columns, amp_unsqueeze(rows, 1)) : NULL; /* of the diagonal: how far */
    amp_tensor *inside = !right  ? NULL
                         : lower ? amp_le_scalar(right, amp_int(diagonal))
                                 : amp_ge_scalar(right, amp_int(diagonal));
    if (!inside) return amp_pending_error();
    const amp_operand v[3] = {amp_tensor_operand("inside", inside), amp_tensor_operand("input", input),
                              amp_number_operand("zero", amp_int(0))};
    return amp_cuda_elementwise_op(call, AMP_FORMULA_where, v, 3, input->dtype, (amp_formula_numbers){0});
}
amp_status cuda_tril(amp_call *call) {
    const amp_tril_args *a = call->args;
    return triangle(call, a->input, a->diagonal, true);
}
amp_status cuda_triu(amp_call *call) {
    const amp_triu_args *a = call->args;
    return triangle(call, a->input, a->diagonal, false);
}

/* ---- Complex numbers from moduli and angles ---------------------------------------------------------------------- */
amp_status amp_cuda_polar(const amp_call *call, const amp_polar_args *args, amp_tensor *out) {
    const amp_dtype real = args->abs->dtype;
    for (int part = 0; part < 2; part++) {
        amp_tensor *factor = part ? amp_sin(args->angle) : amp_cos(args->angle);
        if (!factor) return amp_pending_error();
        const amp_operand v[2] = {amp_tensor_operand("abs", args->abs), amp_tensor_operand("angle", factor)};
        amp_tensor half = *out; /* its real parts, or its imaginary ones */
        half.dtype = real;
        half.offset = 2 * out->offset + part;
        for (int d = 0; d < out->rank; d++) half.strides[d] = 2 * out->strides[d];
        AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_mul, v, 2, real, (amp_formula_numbers){0}, &half));
    }
    return AMP_OK;
}

/* ---- Fake quantisation ------------------------------------------------------------------------------------------- */
/* round(x / scale) + zero within [low, high]; a NaN goes to the low end. */
static amp_tensor *quantized(amp_tensor *x, amp_tensor *scale, amp_tensor *zero, int64_t low, int64_t high) {
    amp_tensor *inverse = amp_reciprocal(scale), *steps = inverse ? amp_mul(x, inverse) : NULL;
    amp_tensor *q = steps ? amp_round(steps) : NULL;
    q = q ? amp_add(q, zero) : NULL;
    q = q ? amp_nan_to_num(q, (double)low, .posinf = AMP_SET((double)high), .neginf = AMP_SET((double)low)) : NULL;
    return q ? amp_clamp(q, amp_int(low), amp_int(high)) : NULL;
}

/* The scale and the results are f32 numbers, for f64 too: that is PyTorch's arithmetic. */
amp_status amp_cuda_fake_quantize(amp_call *call, amp_tensor *input, amp_tensor *scale, amp_tensor *zero_point,
                                  int64_t low, int64_t high) {
    amp_tensor *x = widened(input), *steps = x ? amp_reshape(amp_to(scale, AMP_F32), AMP_NO_DIMS) : NULL;
    amp_tensor *zero = steps ? amp_reshape(amp_to(zero_point, x->dtype), AMP_NO_DIMS) : NULL;
    amp_tensor *q = zero ? quantized(x, steps, zero, low, high) : NULL, *kept = q ? amp_sub(q, zero) : NULL;
    amp_tensor *result = kept ? amp_mul(amp_to(kept, AMP_F32), steps) : NULL;
    return return_tensor(call, narrowed(result, input->dtype));
}
