/* Elementwise ops on the device: which formula, in which type, over which geometry. */
#include "cuda/ops/cuda_elementwise.h"

#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_move.h"
#include "policy/promotion.h"
#include "steps/argument_rules.h"
#include "steps/constants.h"
#include "steps/whole_numbers.h"

/* ---- Formulas ---------------------------------------------------------------------------------------------------- */
typedef struct formula_row {
    const char *kernel_f32, *types;
} formula_row;

static const formula_row rows[] = {
#define F(name, inputs, types, expression) {#name "_f32", #types},
#include "cuda/args/formulas.def"
#undef F
};

static bool has_type(amp_formula formula, amp_dtype compute) {
    const char *types = rows[formula].types;
    return compute == AMP_I64 ? strchr(types, 'w') != NULL : compute == AMP_C128 ? strchr(types, 'c') != NULL : true;
}

/* Kernels for stretches of one dtype, of the formulas that these take (flat.def); and for casts. */
enum { FLAT_DTYPES = 3 };
typedef struct flat_row {
    const char *kernels[FLAT_DTYPES];
    bool question, masked; /* the result, or the first operand, is bool */
} flat_row;
static const flat_row flat_rows[] = {
#define FLAT_KERNELS(name)                                                                                             \
    { #name "_flat_f32", #name "_flat_f16", #name "_flat_bf16" }
#define FLAT(name, inputs) [AMP_FORMULA_##name] = {FLAT_KERNELS(name), false, false},
#define QUESTION(name, inputs) [AMP_FORMULA_##name] = {FLAT_KERNELS(name), true, false},
#define MASKED(name, inputs) [AMP_FORMULA_##name] = {FLAT_KERNELS(name), false, true},
#include "cuda/args/flat.def"
#undef FLAT
#undef QUESTION
#undef MASKED
#undef FLAT_KERNELS
};
static const char *const cast_kernels[FLAT_DTYPES][FLAT_DTYPES] = {
    {"same_flat_f32", "cast_f32_f16", "cast_f32_bf16"},
    {"cast_f16_f32", "same_flat_f16", "cast_f16_bf16"},
    {"cast_bf16_f32", "cast_bf16_f16", "same_flat_bf16"},
};

/* Its number among those; -1: none of them. */
static int flat_dtype(amp_dtype dtype) {
    return dtype == AMP_F32 ? 0 : dtype == AMP_F16 ? 1 : dtype == AMP_BF16 ? 2 : -1;
}

/* The number of the dtype that operands from `first` on have, constants aside; -1: they have not one. */
static int flat_dtype_of(const amp_cuda_elementwise *a, int first) {
    int dtype = -1;
    for (int k = first; k < AMP_CUDA_INPUTS; k++) {
        const amp_cuda_operand *o = &a->in[k];
        if (!o->data) continue;
        const int own = o->spread ? -1 : flat_dtype(o->dtype);
        if (own < 0 || (dtype >= 0 && own != dtype)) return -1;
        dtype = own;
    }
    return dtype;
}

/* One dimension in units of 16 bytes of results (8 of bools), and operands of one dtype, or constants; NULL: there is
 * no such kernel. */
static const char *flat_kernel_of(amp_formula formula, const amp_cuda_elementwise *a) {
    const bool known = (size_t)formula < sizeof flat_rows / sizeof *flat_rows;
    const flat_row row = known ? flat_rows[formula] : (flat_row){{NULL}, false, false};
    const int to = flat_dtype(a->out.dtype), from = flat_dtype_of(a, row.masked);
    if (a->rank != 1 || a->width != (to == 0 ? 4 : 8) || from < 0) return NULL;
    if (formula == AMP_FORMULA_same) return to < 0 ? NULL : cast_kernels[from][to];
    if (row.masked && (!a->in[0].data || a->in[0].spread || a->in[0].dtype != AMP_BOOL)) return NULL;
    return row.question ? (a->out.dtype == AMP_BOOL ? row.kernels[from] : NULL) : from == to ? row.kernels[to] : NULL;
}

static const char *kernel_of(amp_formula formula, amp_dtype compute) {
    switch (compute) {
    case AMP_F32: return rows[formula].kernel_f32;
    case AMP_F64: return "elementwise_f64";
    case AMP_I64: return "elementwise_i64";
    default: return "elementwise_c128";
    }
}

/* ---- Geometry ---------------------------------------------------------------------------------------------------- */
static amp_status set_operand(const char *op, const amp_operand *value, const amp_tensor *out, amp_cuda_operand *o) {
    const amp_tensor *t = value->tensor;
    if (!t) {
        const amp_constant real = amp_constant_of(&value->number, AMP_C128);
        o->constant = real.c128[0];
        o->imaginary = real.c128[1];
        o->whole = amp_constant_of(&value->number, AMP_I64).i64;
        return AMP_OK;
    }
    o->dtype = t->dtype;
    o->data = amp_cuda_address(op, t);
    for (int d = 0; d < out->rank; d++) {
        const int own = d - (out->rank - t->rank);
        o->strides[d] = own < 0 || t->shape[own] == 1 ? 0 : t->strides[own];
    }
    return o->data ? AMP_OK : amp_pending_error();
}

static bool steps_on(const amp_cuda_operand *o, int outer, int inner, int64_t extent) {
    return o->strides[outer] == o->strides[inner] * extent;
}

static void swap_dimensions(amp_cuda_elementwise *a, int d, int e) {
    amp_cuda_operand *operands[] = {&a->out, &a->in[0], &a->in[1], &a->in[2]};
    const amp_cuda_divisor extent = a->shape[d];
    a->shape[d] = a->shape[e];
    a->shape[e] = extent;
    for (int k = 0; k < 4; k++) {
        const int64_t stride = operands[k]->strides[d];
        operands[k]->strides[d] = operands[k]->strides[e];
        operands[k]->strides[e] = stride;
    }
}

/* The result is written in the order of its memory: a channels-last one too. */
static void sort_dimensions(amp_cuda_elementwise *a) {
    for (int d = 1; d < a->rank; d++) {
        for (int e = d; e > 0 && a->out.strides[e - 1] < a->out.strides[e]; e--) swap_dimensions(a, e - 1, e);
    }
}

/* Dimensions of extent 1 go; two that every operand steps through evenly become one. */
static void merge_dimensions(amp_cuda_elementwise *a) {
    amp_cuda_operand *operands[] = {&a->out, &a->in[0], &a->in[1], &a->in[2]};
    int rank = 0;
    for (int d = 0; d < a->rank; d++) {
        const int64_t extent = a->shape[d].extent;
        if (extent == 1) continue;
        bool merge = rank > 0;
        for (int k = 0; k < 4 && merge; k++) merge = steps_on(operands[k], rank - 1, d, extent);
        if (!merge) rank++;
        a->shape[rank - 1].extent = merge ? a->shape[rank - 1].extent * extent : extent;
        for (int k = 0; k < 4; k++) operands[k]->strides[rank - 1] = operands[k]->strides[d];
    }
    a->rank = rank;
}

static bool has_units(amp_dtype dtype) {
    return dtype == AMP_F32 || dtype == AMP_F16 || dtype == AMP_BF16 || dtype == AMP_BOOL;
}

/* Whether every row of an operand begins where `width` elements can be read, or written, at once. */
static bool fits(const amp_cuda_elementwise *a, const amp_cuda_operand *o, int width) {
    const int last = a->rank - 1;
    const int64_t element = (int64_t)amp_dtype_size(o->dtype), unit = width * element < 16 ? width * element : 16;
    if (!o->data) return true;
    if (!has_units(o->dtype) || o->strides[last] > 1 || o->strides[last] < 0) return false;
    if (o->strides[last] == 0) return o != &a->out;
    bool even = (uintptr_t)o->data % (uintptr_t)unit == 0;
    for (int d = 0; d < last; d++) even = even && o->strides[d] * element % unit == 0;
    return even;
}

/* How many neighbours a thread takes at a time: of f32 results 4, of smaller ones 8, or where rows have not that 4;
 * else 1. */
static int width_of(const amp_cuda_elementwise *a) {
    if (a->rank == 0) return 1;
    const int64_t extent = a->shape[a->rank - 1].extent;
    for (int width = a->out.dtype == AMP_F32 ? 4 : 8; width >= 4; width /= 2) {
        bool all = (a->rank == 1 || extent % width == 0) && fits(a, &a->out, width);
        for (int k = 0; k < AMP_CUDA_INPUTS; k++) all = all && fits(a, &a->in[k], width);
        if (all) return width;
    }
    return 1;
}

static void in_units(amp_cuda_elementwise *a, int width) {
    amp_cuda_operand *operands[] = {&a->out, &a->in[0], &a->in[1], &a->in[2]};
    a->width = width;
    if (width > 1) {
        const int last = a->rank - 1;
        a->rest = a->rank == 1 ? a->count % width : 0;
        a->count /= width;
        a->shape[last].extent /= width;
        for (int k = 0; k < 4; k++) {
            operands[k]->spread = operands[k]->data && operands[k]->strides[last] == 0;
            operands[k]->strides[last] *= width;
        }
    }
    for (int d = 0; d < a->rank; d++) a->shape[d] = amp_cuda_divide_by(a->shape[d].extent);
}

amp_status amp_cuda_lay_out(const char *op, const amp_operand *values, int count, const amp_tensor *out,
                            amp_cuda_elementwise *a) {
    for (int d = 0; d < out->rank; d++) a->shape[d].extent = out->shape[d];
    AMP_TRY(set_operand(op, &(const amp_operand){.tensor = (amp_tensor *)(uintptr_t)out}, out, &a->out));
    for (int i = 0; i < count; i++) AMP_TRY(set_operand(op, &values[i], out, &a->in[i]));
    sort_dimensions(a);
    merge_dimensions(a);
    return AMP_OK;
}

static void go_on(amp_cuda_operand *o, int64_t steps) {
    if (o->data) o->data = (char *)o->data + steps * (int64_t)amp_dtype_size(o->dtype);
}

/* Kernels count several dimensions in 32 bits: of more, halves of the longest dimension. */
static amp_status launch(const char *op, const char *kernel, amp_cuda_elementwise a) {
    amp_cuda_operand *operands[] = {&a.out, &a.in[0], &a.in[1], &a.in[2]};
    while (a.rank > 1 && a.count > INT32_MAX) {
        const int d = amp_cuda_longest(a.rank, a.shape);
        const int64_t half = a.shape[d].extent / 2, others = a.count / a.shape[d].extent;
        amp_cuda_elementwise first = a;
        first.count = half * others;
        first.shape[d] = amp_cuda_divide_by(half);
        AMP_TRY(launch(op, kernel, first));
        for (int k = 0; k < 4; k++) go_on(operands[k], half * operands[k]->strides[d]);
        a.count -= first.count;
        a.shape[d] = amp_cuda_divide_by(a.shape[d].extent - half);
    }
    return amp_cuda_launch_over(op, kernel, &a, amp_cuda_unit_blocks(a.count + a.rest));
}

amp_status amp_cuda_compute(const amp_call *call, amp_formula formula, const amp_operand *values, int count,
                            amp_dtype compute, amp_formula_numbers numbers, amp_tensor *out) {
    const char *op = call ? call->op->name : "copy";
    amp_cuda_elementwise a = {.count = amp_tensor_elements(out),
                              .rank = out->rank,
                              .formula = (int)formula,
                              .p = numbers.p,
                              .q = numbers.q,
                              .r = numbers.r,
                              .whole = numbers.whole};
    if (!has_type(formula, compute)) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on cuda for %s yet", op,
                        compute == AMP_C128 ? "complex numbers" : "integers");
    }
    if (a.count == 0) return AMP_OK;
    AMP_TRY(amp_cuda_lay_out(op, values, count, out, &a));
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    in_units(&a, compute == AMP_F32 ? width_of(&a) : 1);
    const char *flat = compute == AMP_F32 ? flat_kernel_of(formula, &a) : NULL;
    return launch(op, flat ? flat : kernel_of(formula, compute), a);
}

amp_status amp_cuda_elementwise_op(amp_call *call, amp_formula formula, const amp_operand *values, int count,
                                   amp_dtype dtype, amp_formula_numbers numbers) {
    amp_tensor *out = amp_operands_output(call, values, count, dtype);
    if (!out) return amp_pending_error();
    return amp_cuda_compute(call, formula, values, count, amp_compute_dtype(dtype), numbers, out);
}

/* ---- Copies and constants ---------------------------------------------------------------------------------------- */
static amp_status copy_dense(amp_tensor *destination, const amp_tensor *source) {
    void *to = amp_cuda_address("copy", destination);
    const void *from = to ? amp_cuda_address("copy", source) : NULL;
    if (!from) return amp_pending_error();
    const size_t bytes = (size_t)amp_tensor_elements(source) * amp_dtype_size(source->dtype);
    return bytes ? amp_cuda_status("copy", amp_cuda_loaded()->copy(to, from, bytes)) : AMP_OK;
}

amp_status amp_cuda_copy_tensor(amp_tensor *destination, const amp_tensor *source) {
    amp_tensor to = *destination, from = *source;
    amp_dtype compute = amp_compute_dtype(source->dtype);
    if (to.dtype == from.dtype) {
        if (amp_same_shape(&to, &from) && amp_tensor_is_dense(&to) && amp_tensor_is_dense(&from)) {
            return copy_dense(destination, source);
        }
        return amp_cuda_move_tensor(destination, source);
    }
    if (amp_dtype_is_complex(to.dtype) || to.dtype == AMP_F64) {
        compute = compute == AMP_F32 ? AMP_F64 : compute;
    }
    const amp_operand v = amp_tensor_operand("source", &from);
    return amp_cuda_compute(NULL, AMP_FORMULA_same, &v, 1, compute, (amp_formula_numbers){0}, &to);
}

amp_status amp_cuda_fill(amp_tensor *tensor, const amp_scalar *value) {
    const amp_dtype compute = amp_compute_dtype(tensor->dtype);
    const amp_operand v = amp_number_operand("value", *value);
    return amp_cuda_compute(NULL, AMP_FORMULA_same, &v, 1, compute, (amp_formula_numbers){0}, tensor);
}

amp_status amp_cuda_write_range(amp_tensor *out, const amp_scalar *start, const amp_scalar *step) {
    const int64_t count = amp_tensor_elements(out);
    if (count == 0) return AMP_OK;
    const amp_cuda_range a = {.out = amp_cuda_address("arange", out),
                              .dtype = out->dtype,
                              .integers = amp_compute_dtype(out->dtype) == AMP_I64,
                              .count = count,
                              .whole_start = amp_constant_of(start, AMP_I64).i64,
                              .whole_step = amp_constant_of(step, AMP_I64).i64,
                              .start = amp_constant_of(start, AMP_F64).f64,
                              .step = amp_constant_of(step, AMP_F64).f64};
    return a.out ? amp_cuda_launch_over("arange", "range", &a, amp_cuda_blocks(count)) : amp_pending_error();
}

/* ---- One element ------------------------------------------------------------------------------------------------- */
/* Integers stay integers where the formula has them, or where it changes none (`keep`); else they become f32. */
static amp_status unary(amp_call *call, amp_formula formula, amp_tensor *input, bool keep,
                        amp_formula_numbers numbers) {
    const amp_operand v = amp_tensor_operand("input", input);
    const bool whole = amp_compute_dtype(input->dtype) == AMP_I64;
    if (whole && keep) formula = AMP_FORMULA_same;
    const amp_dtype dtype = has_type(formula, AMP_I64) ? input->dtype : amp_floating_result(input->dtype);
    return amp_cuda_elementwise_op(call, formula, &v, 1, dtype, numbers);
}

static double number_of(amp_scalar number) {
    return amp_constant_of(&number, AMP_F64).f64;
}

#define UNARY_WITH(op, formula, keep, ...)                                                                             \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_##op##_args *a = call->args;                                                                         \
        return unary(call, AMP_FORMULA_##formula, a->input, keep, (amp_formula_numbers){__VA_ARGS__});                 \
    }
#define UNARY(op) UNARY_WITH(op, op, false, 0)
UNARY(neg)
UNARY(sign)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(reciprocal)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log2)
UNARY(log10)
UNARY(log1p)
UNARY(sin)
UNARY(cos)
UNARY(tan)
UNARY(asin)
UNARY(acos)
UNARY(atan)
UNARY(sinh)
UNARY(cosh)
UNARY(tanh)
UNARY(sinc)
UNARY(erf)
UNARY(erfinv)
UNARY(sigmoid)
UNARY(relu)
UNARY(relu6)
UNARY(selu)
UNARY(silu)
UNARY(mish)
UNARY(softsign)
UNARY(logsigmoid)
UNARY(hardsigmoid)
UNARY(hardswish)
UNARY(exp2)
UNARY(asinh)
UNARY(acosh)
UNARY(atanh)
UNARY(erfc)
UNARY(lgamma)
UNARY(digamma)
UNARY(tanhshrink)
UNARY_WITH(ceil, ceil, true, 0)
UNARY_WITH(floor, floor, true, 0)
UNARY_WITH(trunc, trunc, true, 0)
UNARY_WITH(round, round, true, .p = pow(10.0, (double)a->decimals))
UNARY_WITH(leaky_relu, leaky_relu, false, .p = a->negative_slope.value)
UNARY_WITH(elu, elu, false, .p = a->alpha.value)
UNARY_WITH(celu, celu, false, .p = a->alpha.value)
UNARY_WITH(softplus, softplus, false, .p = number_of(a->beta), .q = number_of(a->threshold))

UNARY_WITH(logit, logit, false, .p = a->eps.value, .q = a->eps.set != 0)
UNARY_WITH(hardshrink, hardshrink, false, .p = number_of(a->lambd))

amp_status cuda_softshrink(amp_call *call) {
    const amp_softshrink_args *a = call->args;
    AMP_TRY(amp_check_lambda(call, &a->lambd));
    return unary(call, AMP_FORMULA_softshrink, a->input, false, (amp_formula_numbers){.p = number_of(a->lambd)});
}

amp_status cuda_bitwise_not(amp_call *call) {
    const amp_bitwise_not_args *a = call->args;
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("input", a->input)};
    AMP_TRY(amp_check_bits(call, v, a->input->dtype, false));
    const amp_formula formula = a->input->dtype == AMP_BOOL ? AMP_FORMULA_logical_not : AMP_FORMULA_bitwise_not;
    return unary(call, formula, a->input, false, (amp_formula_numbers){0});
}

amp_status cuda_angle(amp_call *call) {
    const amp_angle_args *a = call->args;
    if (amp_dtype_is_complex(a->input->dtype)) {
        call->outputs[0] = amp_atan2(amp_imag(a->input), amp_real(a->input));
        return call->outputs[0] ? AMP_OK : amp_pending_error();
    }
    return unary(call, AMP_FORMULA_angle, a->input, false, (amp_formula_numbers){0});
}

amp_status cuda_hardtanh(amp_call *call) {
    const amp_hardtanh_args *a = call->args;
    if (amp_holds_whole_numbers(a->input)) return amp_whole_hardtanh(call);
    return unary(call, AMP_FORMULA_hardtanh, a->input, false,
                 (amp_formula_numbers){.p = number_of(a->min_val), .q = number_of(a->max_val)});
}

amp_status cuda_threshold(amp_call *call) {
    const amp_threshold_args *a = call->args;
    if (amp_holds_whole_numbers(a->input)) return amp_whole_threshold(call);
    return unary(call, AMP_FORMULA_threshold, a->input, false,
                 (amp_formula_numbers){.p = number_of(a->threshold), .q = number_of(a->value)});
}

/* The square of a bool is an integer, as is PyTorch's power 2 of one. */
amp_status cuda_square(amp_call *call) {
    const amp_square_args *a = call->args;
    amp_tensor *x = a->input->dtype == AMP_BOOL ? amp_to(a->input, AMP_I64) : a->input;
    return x ? unary(call, AMP_FORMULA_square, x, false, (amp_formula_numbers){0}) : amp_pending_error();
}

UNARY_WITH(nan_to_num, nan_to_num, true, .p = a->nan,
           .q = a->posinf.set ? a->posinf.value : amp_dtype_largest(a->input->dtype),
           .r = a->neginf.set ? a->neginf.value : -amp_dtype_largest(a->input->dtype))

amp_status cuda_abs(amp_call *call) {
    const amp_abs_args *a = call->args;
    const amp_dtype dtype = a->input->dtype;
    const amp_operand v = amp_tensor_operand("input", a->input);
    if (!amp_dtype_is_complex(dtype)) return unary(call, AMP_FORMULA_abs, a->input, false, (amp_formula_numbers){0});
    amp_tensor *out = amp_operands_output(call, &v, 1, dtype == AMP_C64 ? AMP_F32 : AMP_F64);
    return out ? amp_cuda_compute(call, AMP_FORMULA_abs, &v, 1, AMP_C128, (amp_formula_numbers){0}, out)
               : amp_pending_error();
}

amp_status cuda_gelu(amp_call *call) {
    const amp_gelu_args *a = call->args;
    bool by_tanh;
    AMP_TRY(amp_read_gelu_form(call, a->approximate, &by_tanh));
    return unary(call, by_tanh ? AMP_FORMULA_gelu_tanh : AMP_FORMULA_gelu, a->input, false, (amp_formula_numbers){0});
}

/* Questions: the answer is bool, whatever is computed in. */
static amp_status question(amp_call *call, amp_formula formula, const amp_operand *values, int count,
                           amp_dtype compute) {
    amp_tensor *out = amp_operands_output(call, values, count, AMP_BOOL);
    return out ? amp_cuda_compute(call, formula, values, count, compute, (amp_formula_numbers){0}, out)
               : amp_pending_error();
}

#define ASK(op)                                                                                                        \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_operand v = amp_tensor_operand("input", ((const amp_##op##_args *)call->args)->input);               \
        const amp_dtype compute = amp_compute_dtype(v.tensor->dtype);                                                  \
        const bool whole = compute == AMP_I64 && !has_type(AMP_FORMULA_##op, AMP_I64);                                 \
        return question(call, AMP_FORMULA_##op, &v, 1, whole ? AMP_F64 : compute);                                     \
    }
ASK(isnan)
ASK(isinf)
ASK(isfinite)
ASK(logical_not)

/* ---- Two elements ------------------------------------------------------------------------------------------------ */
static amp_status plain(amp_call *call, amp_formula formula, amp_operand x, amp_operand y) {
    const amp_operand v[2] = {x, y};
    return amp_cuda_elementwise_op(call, formula, v, 2, amp_operands_dtype(v, 2), (amp_formula_numbers){0});
}

/* Of integers there is none by 0. */
static amp_status quotient(amp_call *call, amp_formula formula, amp_operand x, amp_operand y) {
    const amp_operand v[2] = {x, y};
    const amp_dtype dtype = amp_operands_dtype(v, 2);
    amp_tensor *out = amp_operands_output(call, v, 2, dtype);
    if (!out) return amp_pending_error();
    AMP_TRY(amp_check_divisor(call, &y, dtype, out));
    return amp_cuda_compute(call, formula, v, 2, amp_compute_dtype(dtype), (amp_formula_numbers){0}, out);
}

static amp_status floating(amp_call *call, amp_formula formula, amp_operand x, amp_operand y) {
    const amp_operand v[2] = {x, y};
    const amp_dtype dtype = amp_floating_result(amp_operands_dtype(v, 2));
    return amp_cuda_elementwise_op(call, formula, v, 2, dtype, (amp_formula_numbers){0});
}

static amp_status compare(amp_call *call, amp_formula formula, amp_operand x, amp_operand y) {
    const amp_operand v[2] = {x, y};
    return question(call, formula, v, 2, amp_compute_dtype(amp_operands_dtype(v, 2)));
}

static amp_status sum(amp_call *call, amp_operand x, amp_operand y, const amp_scalar *alpha, int sign) {
    const amp_operand v[2] = {x, y};
    const amp_dtype dtype = amp_operands_dtype(v, 2);
    AMP_TRY(amp_check_sum(call, v, alpha, sign, dtype));
    if (alpha->kind == AMP_SCALAR_COMPLEX) {
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on cuda for a complex 'alpha' yet",
                        amp_call_name(call));
    }
    return amp_cuda_elementwise_op(
        call, AMP_FORMULA_add, v, 2, dtype,
        (amp_formula_numbers){.p = sign * number_of(*alpha), .whole = sign * amp_constant_of(alpha, AMP_I64).i64});
}

static amp_status divide(amp_call *call, amp_operand x, amp_operand y, const char *rounding_mode) {
    char rounding;
    AMP_TRY(amp_read_rounding(call, rounding_mode, &rounding));
    if (!rounding) return floating(call, AMP_FORMULA_div, x, y);
    return quotient(call, rounding == 't' ? AMP_FORMULA_div_trunc : AMP_FORMULA_div_floor, x, y);
}

static amp_status power(amp_call *call, amp_operand x, amp_operand y) {
    if (x.tensor && !y.tensor) AMP_TRY(amp_check_power(call, x.tensor, &y.number));
    return plain(call, AMP_FORMULA_pow, x, y);
}

/* Of integers and bools; `shifted`: by how many places the width says. */
static amp_status bitwise(amp_call *call, amp_formula formula, amp_operand x, amp_operand y, bool shifted) {
    const amp_operand v[2] = {x, y};
    const amp_dtype dtype = amp_operands_dtype(v, 2);
    AMP_TRY(amp_check_bits(call, v, dtype, shifted));
    return amp_cuda_elementwise_op(call, formula, v, 2, dtype,
                                   (amp_formula_numbers){.whole = 8 * (int64_t)amp_dtype_size(dtype)});
}

#define WITH_TENSOR(op, first, second, run)                                                                            \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_operand x = amp_tensor_operand(#first, a->first), y = amp_tensor_operand(#second, a->second);        \
        return run;                                                                                                    \
    }
#define WITH_NUMBER(op, first, second, run)                                                                            \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_operand x = amp_tensor_operand(#first, a->first), y = amp_number_operand(#second, a->second);        \
        return run;                                                                                                    \
    }
#define WITH_BOTH(op, first, second, run)                                                                              \
    WITH_TENSOR(op, first, second, run) WITH_NUMBER(op##_scalar, first, second, run)
WITH_BOTH(add, input, other, sum(call, x, y, &a->alpha, 1))
WITH_BOTH(sub, input, other, sum(call, x, y, &a->alpha, -1))
WITH_BOTH(mul, input, other, plain(call, AMP_FORMULA_mul, x, y))
WITH_BOTH(div, input, other, divide(call, x, y, a->rounding_mode))
WITH_BOTH(floor_divide, input, other, quotient(call, AMP_FORMULA_div_floor, x, y))
WITH_BOTH(remainder, input, other, quotient(call, AMP_FORMULA_remainder, x, y))
WITH_BOTH(fmod, input, other, quotient(call, AMP_FORMULA_fmod, x, y))
WITH_BOTH(pow, input, exponent, power(call, x, y))
WITH_BOTH(eq, input, other, compare(call, AMP_FORMULA_eq, x, y))
WITH_BOTH(ne, input, other, compare(call, AMP_FORMULA_ne, x, y))
WITH_BOTH(lt, input, other, compare(call, AMP_FORMULA_lt, x, y))
WITH_BOTH(le, input, other, compare(call, AMP_FORMULA_le, x, y))
WITH_BOTH(gt, input, other, compare(call, AMP_FORMULA_gt, x, y))
WITH_BOTH(ge, input, other, compare(call, AMP_FORMULA_ge, x, y))
WITH_TENSOR(logical_and, input, other, compare(call, AMP_FORMULA_logical_and, x, y))
WITH_TENSOR(logical_or, input, other, compare(call, AMP_FORMULA_logical_or, x, y))
WITH_TENSOR(logical_xor, input, other, compare(call, AMP_FORMULA_logical_xor, x, y))
WITH_TENSOR(atan2, input, other, floating(call, AMP_FORMULA_atan2, x, y))
WITH_TENSOR(logaddexp, input, other, plain(call, AMP_FORMULA_logaddexp, x, y))
WITH_TENSOR(maximum, input, other, plain(call, AMP_FORMULA_maximum, x, y))
WITH_TENSOR(minimum, input, other, plain(call, AMP_FORMULA_minimum, x, y))
WITH_TENSOR(max_other, input, other, plain(call, AMP_FORMULA_maximum, x, y))
WITH_TENSOR(min_other, input, other, plain(call, AMP_FORMULA_minimum, x, y))

WITH_TENSOR(logaddexp2, input, other, plain(call, AMP_FORMULA_logaddexp2, x, y))
WITH_TENSOR(fmax, input, other, plain(call, AMP_FORMULA_fmax, x, y))
WITH_TENSOR(fmin, input, other, plain(call, AMP_FORMULA_fmin, x, y))
WITH_TENSOR(hypot, input, other, plain(call, AMP_FORMULA_hypot, x, y))
WITH_BOTH(copysign, input, other, floating(call, AMP_FORMULA_copysign, x, y))
WITH_TENSOR(xlogy, input, other, floating(call, AMP_FORMULA_xlogy, x, y))
WITH_NUMBER(xlogy_scalar_other, input, other, floating(call, AMP_FORMULA_xlogy, x, y))
WITH_BOTH(bitwise_and, input, other, bitwise(call, AMP_FORMULA_bitwise_and, x, y, false))
WITH_BOTH(bitwise_or, input, other, bitwise(call, AMP_FORMULA_bitwise_or, x, y, false))
WITH_BOTH(bitwise_xor, input, other, bitwise(call, AMP_FORMULA_bitwise_xor, x, y, false))
WITH_BOTH(bitwise_left_shift, input, other, bitwise(call, AMP_FORMULA_left_shift, x, y, true))
WITH_BOTH(bitwise_right_shift, input, other, bitwise(call, AMP_FORMULA_right_shift, x, y, true))

amp_status cuda_xlogy_scalar_self(amp_call *call) {
    const amp_xlogy_scalar_self_args *a = call->args;
    return floating(call, AMP_FORMULA_xlogy, amp_number_operand("input", a->input),
                    amp_tensor_operand("other", a->other));
}

amp_status cuda_pow_scalar_base(amp_call *call) {
    const amp_pow_scalar_base_args *a = call->args;
    return power(call, amp_number_operand("input", a->input), amp_tensor_operand("exponent", a->exponent));
}

/* ---- Three elements ---------------------------------------------------------------------------------------------- */
static amp_status choose(amp_call *call, amp_operand condition, amp_operand x, amp_operand y, amp_dtype dtype) {
    const amp_operand v[3] = {condition, x, y};
    AMP_TRY(amp_check_condition(call, &condition));
    return amp_cuda_elementwise_op(call, AMP_FORMULA_where, v, 3, dtype, (amp_formula_numbers){0});
}

#define WHERE(op, first, second)                                                                                       \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_operand v[2] = {first("input", a->input), second("other", a->other)};                                \
        return choose(call, amp_tensor_operand("condition", a->condition), v[0], v[1], amp_operands_dtype(v, 2));      \
    }
WHERE(where, amp_tensor_operand, amp_tensor_operand)
WHERE(where_scalar, amp_number_operand, amp_number_operand)
WHERE(where_scalar_self, amp_number_operand, amp_tensor_operand)
WHERE(where_scalar_other, amp_tensor_operand, amp_number_operand)

static amp_status fill(amp_call *call, amp_tensor *input, amp_tensor *mask, amp_operand value) {
    AMP_TRY(amp_check_masked_fill(call));
    return choose(call, amp_tensor_operand("mask", mask), value, amp_tensor_operand("input", input), input->dtype);
}

amp_status cuda_masked_fill(amp_call *call) {
    const amp_masked_fill_args *a = call->args;
    return fill(call, a->input, a->mask, amp_number_operand("value", a->value));
}

amp_status cuda_masked_fill_tensor(amp_call *call) {
    const amp_masked_fill_tensor_args *a = call->args;
    return fill(call, a->input, a->mask, amp_tensor_operand("value", a->value));
}

amp_status cuda_clamp(amp_call *call) {
    amp_clamp c;
    AMP_TRY(amp_clamp_read(call, &c));
    const amp_formula formula = c.count == 3 ? AMP_FORMULA_clamp : c.low ? AMP_FORMULA_maximum : AMP_FORMULA_minimum;
    return amp_cuda_elementwise_op(call, formula, c.v, c.count, c.dtype, (amp_formula_numbers){0});
}

static amp_status lerp(amp_call *call, amp_tensor *input, amp_tensor *end, amp_operand weight) {
    const amp_operand v[3] = {amp_tensor_operand("input", input), amp_tensor_operand("end", end), weight};
    AMP_TRY(amp_check_lerp(call, v));
    return amp_cuda_elementwise_op(call, AMP_FORMULA_lerp, v, 3, input->dtype, (amp_formula_numbers){0});
}
amp_status cuda_lerp(amp_call *call) {
    const amp_lerp_args *a = call->args;
    return lerp(call, a->input, a->end, amp_tensor_operand("weight", a->weight));
}
amp_status cuda_lerp_scalar(amp_call *call) {
    const amp_lerp_scalar_args *a = call->args;
    return lerp(call, a->input, a->end, amp_number_operand("weight", a->weight));
}

#define PRODUCT_ADDED(op, integers)                                                                                    \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_operand v[3] = {amp_tensor_operand("input", a->input), amp_tensor_operand("tensor1", a->tensor1),    \
                                  amp_tensor_operand("tensor2", a->tensor2)};                                          \
        const amp_dtype dtype = amp_operands_dtype(v, 3);                                                              \
        AMP_TRY(amp_check_product_added(call, v, dtype, &a->value, integers));                                         \
        return amp_cuda_elementwise_op(                                                                                \
            call, AMP_FORMULA_##op, v, 3, dtype,                                                                       \
            (amp_formula_numbers){.p = number_of(a->value), .whole = amp_constant_of(&a->value, AMP_I64).i64});        \
    }
PRODUCT_ADDED(addcmul, true)
PRODUCT_ADDED(addcdiv, false)
