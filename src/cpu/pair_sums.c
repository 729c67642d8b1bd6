/* dist, cosine_similarity, and the sums that other ops on pairs share. */
#include "cpu/pair_sums.h"

#include <complex.h>
#include <math.h>

#include "amp/ops.h"
#include "cpu/element.h"
#include "cpu/kernels.h"
#include "cpu/reduce.h"
#include "cuda/cuda_elementwise.h"
#include "ops/shape_rules.h"
#include "policy/promotion.h"

typedef double _Complex complex128;

/* ---- Differences ------------------------------------------------------------------------------------------------- */

typedef struct modulus {
    amp_loss_function *f32;
    double eps;
} modulus;

static void modulus_f32(void *context, void *out, const void *const *in, int64_t n) {
    const modulus *m = context;
    m->f32(out, in[0], in[1], NULL, n, (float)m->eps);
}

#define MODULUS_LOOP(suffix, type, modulus_of)                                                                         \
    static void modulus_##suffix(void *context, void *out, const void *const *in, int64_t n) {                         \
        const type *a = in[0], *b = in[1];                                                                             \
        const modulus *m = context;                                                                                    \
        for (int64_t i = 0; i < n; i++) ((double *)out)[i] = modulus_of(a[i] - b[i] + m->eps);                         \
    }
MODULUS_LOOP(f64, double, fabs)
MODULUS_LOOP(c128, complex128, cabs)

static amp_status fill_moduli(const amp_call *call, const amp_operand pair[2], amp_dtype compute, amp_dtype real,
                              double eps, amp_tensor *moduli) {
    if (call->device == AMP_DEVICE_CUDA) {
        return amp_cuda_compute(call, AMP_FORMULA_distance, pair, 2, compute, (amp_formula_numbers){.p = eps}, moduli);
    }
    modulus m = {(amp_loss_function *)amp_kernel_get(AMP_KERNEL_LOSS_L1, AMP_F32, AMP_F32), eps};
    if (!m.f32) return amp_pending_error();
    amp_operands_run(pair, 2, compute, real,
                     compute == AMP_F32   ? modulus_f32
                     : compute == AMP_F64 ? modulus_f64
                                          : modulus_c128,
                     &m, 2, moduli);
    return AMP_OK;
}

amp_tensor *amp_difference_norms(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                                 double p, bool all) {
    int64_t shape[AMP_MAX_RANK];
    int rank;
    const amp_dtype real = compute == AMP_F32 ? AMP_F32 : AMP_F64;
    if (amp_operands_shape(call, pair, 2, &rank, shape) != AMP_OK) return NULL;
    amp_tensor *moduli = amp_backend_tensor(call->device, call->op->name, real, rank, shape);
    if (!moduli || fill_moduli(call, pair, compute, real, eps, moduli) != AMP_OK) return NULL;
    const amp_reduce_work work = {.kind = amp_norm_reduction(p),
                                  .input = moduli,
                                  .mask = all    ? (1u << rank) - 1
                                          : rank ? 1u << (rank - 1)
                                                 : 0,
                                  .compute = real,
                                  .power = p,
                                  .scale = 1.0,
                                  .root = p == 0.0 || isinf(p) ? 1.0 : 1.0 / p};
    const int left = amp_reduced_shape(moduli, work.mask, false, shape);
    amp_tensor *norms = amp_backend_tensor(call->device, call->op->name, AMP_F64, left, shape);
    return norms && amp_cpu_reduce(&work, norms) == AMP_OK ? norms : NULL;
}

amp_status cpu_dist(amp_call *call) {
    const amp_dist_args *a = call->args;
    const amp_operand pair[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("other", a->other)};
    const amp_dtype dtype = amp_operands_dtype(pair, 2), compute = amp_compute_dtype(dtype);
    if (compute == AMP_I64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s, 'other' is %s; expected a floating or complex dtype",
                        amp_call_name(call), amp_describe(a->input), amp_describe(a->other));
    }
    const amp_tensor *norm = amp_difference_norms(call, pair, compute, 0.0, a->p.value, true);
    amp_tensor *out = norm ? amp_call_output(call, 0,
                                             dtype == AMP_C64    ? AMP_F32
                                             : dtype == AMP_C128 ? AMP_F64
                                                                 : dtype,
                                             0, NULL)
                           : NULL;
    return out ? amp_cpu_copy(out, norm) : amp_pending_error();
}

/* ---- Cosines ----------------------------------------------------------------------------------------------------- */

static void multiply_f32(void *context, void *out, const void *const *in, int64_t n) {
    (*(amp_binary_function **)context)(out, in[0], in[1], n, 0.0F);
}
static void multiply_f64(void *context, void *out, const void *const *in, int64_t n) {
    const double *a = in[0], *b = in[1];
    (void)context;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = a[i] * b[i];
}

/* The sum over dimension d, which is kept with extent 1 … */
static amp_tensor *sum_over(const amp_call *call, amp_reduction kind, const amp_tensor *input, amp_dtype compute,
                            int d) {
    const amp_reduce_work work = {
        .kind = kind, .input = input, .mask = d < 0 ? 0 : 1u << d, .compute = compute, .scale = 1.0, .root = 1.0};
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, work.mask, true, shape);
    amp_tensor *sum = amp_backend_tensor(call->device, call->op->name, AMP_F64, rank, shape);
    return sum && amp_cpu_reduce(&work, sum) == AMP_OK ? sum : NULL;
}

/* … and goes here. */
static amp_tensor *without(const amp_call *call, amp_tensor *t, int d) {
    if (d < 0) return t;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (i == d) continue;
        shape[rank] = t->shape[i];
        strides[rank++] = t->strides[i];
    }
    return amp_tensor_view(call->op->name, t, rank, shape, strides, t->offset);
}

/* Σ x² of one of the pair. Where it does not have dimension d, or broadcasts along it, all terms are the same. */
static amp_tensor *squares_over(const amp_call *call, amp_tensor *x, amp_dtype compute, int rank, int64_t extent,
                                int d) {
    amp_tensor view = *x;
    view.rank = rank;
    for (int i = 0; i < rank; i++) {
        const int from = i - (rank - x->rank);
        const int64_t own = from < 0 ? 1 : x->shape[from];
        view.shape[i] = i == d ? extent : own;
        view.strides[i] = own == 1 ? 0 : x->strides[from];
    }
    amp_tensor *sum = sum_over(call, AMP_REDUCE_SUM_SQUARES, &view, compute, d);
    return sum ? without(call, sum, d) : NULL;
}

static amp_status fill_products(const amp_call *call, const amp_operand pair[2], amp_dtype compute,
                                amp_tensor *products) {
    if (call->device == AMP_DEVICE_CUDA) {
        return amp_cuda_compute(call, AMP_FORMULA_mul, pair, 2, compute, (amp_formula_numbers){0}, products);
    }
    amp_binary_function *mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!mul) return amp_pending_error();
    amp_operands_run(pair, 2, compute, compute, compute == AMP_F32 ? multiply_f32 : multiply_f64, &mul, 2, products);
    return AMP_OK;
}

amp_status amp_cosine_sums_of(const amp_call *call, const amp_operand pair[2], amp_dtype compute, int64_t dim,
                              amp_cosine_sums *sums) {
    int64_t shape[AMP_MAX_RANK];
    int rank, d;
    AMP_TRY(amp_operands_shape(call, pair, 2, &rank, shape));
    AMP_TRY(amp_wrap_dim(call, "dim", dim, rank, &d));
    if (rank == 0) d = -1;
    amp_tensor *products = amp_backend_tensor(call->device, call->op->name, compute, rank, shape);
    if (!products) return amp_pending_error();
    AMP_TRY(fill_products(call, pair, compute, products));
    const int64_t extent = d < 0 ? 1 : shape[d];
    amp_tensor *product = sum_over(call, AMP_REDUCE_SUM, products, compute, d);
    sums->product = product ? without(call, product, d) : NULL;
    sums->first = sums->product ? squares_over(call, pair[0].tensor, compute, rank, extent, d) : NULL;
    sums->second = sums->first ? squares_over(call, pair[1].tensor, compute, rank, extent, d) : NULL;
    return sums->second ? AMP_OK : amp_pending_error();
}

static void cosine(void *context, void *out, const void *const *in, int64_t n) {
    const double eps = *(const double *)context, *product = in[0], *first = in[1], *second = in[2];
    for (int64_t i = 0; i < n; i++) {
        const double a = sqrt(first[i]), b = sqrt(second[i]);
        ((double *)out)[i] = product[i] / ((a < eps ? eps : a) * (b < eps ? eps : b));
    }
}

amp_status cpu_cosine_similarity(amp_call *call) {
    const amp_cosine_similarity_args *a = call->args;
    const amp_operand pair[2] = {amp_tensor_operand("x1", a->x1), amp_tensor_operand("x2", a->x2)};
    const amp_dtype dtype = amp_operands_expanded_dtype(pair, 2);
    double eps = a->eps.value;
    amp_cosine_sums s;
    if (!amp_dtype_is_floating(dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'x1' is %s, 'x2' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(a->x1), amp_describe(a->x2));
    }
    AMP_TRY(amp_cosine_sums_of(call, pair, amp_compute_dtype(dtype), a->dim.value, &s));
    const amp_operand sums[3] = {amp_tensor_operand("x1", s.product), amp_tensor_operand("x1", s.first),
                                 amp_tensor_operand("x2", s.second)};
    amp_tensor *out = amp_call_output(call, 0, dtype, s.product->rank, s.product->shape);
    if (!out) return amp_pending_error();
    if (call->device == AMP_DEVICE_CUDA) {
        return amp_cuda_compute(call, AMP_FORMULA_cosine, sums, 3, AMP_F64, (amp_formula_numbers){.p = eps}, out);
    }
    amp_operands_run(sums, 3, AMP_F64, AMP_F64, cosine, &eps, 8, out);
    return AMP_OK;
}

/* In f32 at least, rounded once; of integers an f32. Distances of complex numbers are real. */
amp_status cpu_pairwise_distance(amp_call *call) {
    const amp_pairwise_distance_args *a = call->args;
    const amp_operand pair[2] = {amp_tensor_operand("x1", a->x1), amp_tensor_operand("x2", a->x2)};
    const amp_dtype dtype = amp_floating_result(amp_operands_dtype(pair, 2));
    const amp_dtype wide = dtype == AMP_BF16 || dtype == AMP_F16 ? AMP_F32 : dtype;
    if (a->x1->dtype == AMP_BOOL || a->x2->dtype == AMP_BOOL) { /* of which PyTorch takes no difference */
        return amp_fail(AMP_ERROR_DTYPE, "pairwise_distance: 'x1' is %s, 'x2' is %s; expected numbers, not bool",
                        amp_describe(a->x1), amp_describe(a->x2));
    }
    amp_tensor *apart = amp_add_scalar(amp_sub(amp_to(a->x1, wide), amp_to(a->x2, wide)), amp_float(a->eps.value));
    amp_tensor *lengths = amp_norm(apart, amp_float(a->p.value), AMP_DIMS(-1), .keepdim = a->keepdim);
    call->outputs[0] = amp_dtype_is_complex(dtype) ? lengths : amp_to(lengths, dtype);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
