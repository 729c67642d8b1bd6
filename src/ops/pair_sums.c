/* dist, cosine_similarity, pairwise_distance, and the sums over pairs that they share with losses. */
#include "ops/pair_sums.h"

#include <complex.h>
#include <math.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/compute_dtype.h"
#include "policy/promotion.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

/* The sum over dimension d, which is kept with extent 1 … */
static amp_tensor *sum_over(const amp_call *call, amp_reduction kind, const amp_tensor *input, amp_dtype compute,
                            int d) {
    const amp_reduce_work work = {
        .kind = kind, .input = input, .mask = d < 0 ? 0 : 1u << d, .compute = compute, .scale = 1.0, .root = 1.0};
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, work.mask, true, shape);
    amp_tensor *sum = amp_backend_tensor(call->device, call->op->name, AMP_F64, rank, shape);
    return sum && amp_reduce(&work, sum) == AMP_OK ? sum : NULL;
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

amp_tensor *amp_difference_norms(const amp_call *call, const amp_operand pair[2], amp_dtype compute, double eps,
                                 double p, bool all) {
    int64_t shape[AMP_MAX_RANK];
    int rank;
    const amp_dtype real = compute == AMP_F32 ? AMP_F32 : AMP_F64;
    if (amp_operands_shape(call, pair, 2, &rank, shape) != AMP_OK) return NULL;
    amp_tensor *moduli = amp_backend_tensor(call->device, call->op->name, real, rank, shape);
    if (!moduli || amp_steps_of(call)->moduli(call, pair, compute, eps, moduli) != AMP_OK) return NULL;
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
    return norms && amp_reduce(&work, norms) == AMP_OK ? norms : NULL;
}

amp_status amp_op_dist(amp_call *call) {
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
    return out ? amp_copy_tensor(out, norm) : amp_pending_error();
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
    AMP_TRY(amp_steps_of(call)->products(call, pair, compute, products));
    const int64_t extent = d < 0 ? 1 : shape[d];
    amp_tensor *product = sum_over(call, AMP_REDUCE_SUM, products, compute, d);
    sums->product = product ? without(call, product, d) : NULL;
    sums->first = sums->product ? squares_over(call, pair[0].tensor, compute, rank, extent, d) : NULL;
    sums->second = sums->first ? squares_over(call, pair[1].tensor, compute, rank, extent, d) : NULL;
    return sums->second ? AMP_OK : amp_pending_error();
}

amp_status amp_op_cosine_similarity(amp_call *call) {
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
    return amp_steps_of(call)->cosines(call, sums, eps, out);
}

/* In f32 at least, rounded once; of integers an f32. Distances of complex numbers are real. */
amp_status amp_op_pairwise_distance(amp_call *call) {
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
