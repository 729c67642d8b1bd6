/* Losses of pairs and triples of vectors: cosine_embedding_loss, triplet_margin_loss. */
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "ops/pair_sums.h"
#include "steps/loss_reduction.h"
#include "steps/steps.h"

/* The result dtype, and where the losses go: one for each element of the broadcast of f64 sums. */
static amp_status finish(amp_call *call, amp_loss_reduction reduction, const amp_operand *sums, int count,
                         amp_dtype dtype, amp_pair_losses *step, double margin) {
    int64_t shape[AMP_MAX_RANK];
    int rank;
    AMP_TRY(amp_operands_shape(call, sums, count, &rank, shape));
    amp_tensor *losses = amp_loss_target(call, reduction, dtype, AMP_F64, rank, shape);
    if (!losses) return amp_pending_error();
    AMP_TRY(step(call, sums, count, margin, losses));
    const double scale = reduction == AMP_LOSS_MEAN ? 1.0 / (double)amp_tensor_elements(losses) : 1.0;
    return amp_loss_finish(call, reduction, losses, dtype, scale);
}

/* The dtype that the inputs have in common, and that of the losses: f32 of integers, and real. The CUDA backend has
 * floating dtypes only. */
static amp_status read_dtypes(const amp_call *call, const amp_operand *v, int count, bool others, amp_dtype *dtype,
                              amp_dtype *result) {
    *dtype = amp_operands_dtype(v, count);
    *result = *dtype == AMP_C128 ? AMP_F64 : amp_dtype_is_floating(*dtype) ? *dtype : AMP_F32;
    if (amp_dtype_is_floating(*dtype) || (others && call->device == AMP_DEVICE_CPU)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s, '%s' is %s; expected a floating dtype", amp_call_name(call),
                    v[0].name, amp_describe(v[0].tensor), v[1].name, amp_describe(v[1].tensor));
}

/* The same sums of integers, whose products wrap as in PyTorch. */
static amp_status integer_sums(amp_tensor *a, amp_tensor *b, int64_t dim, amp_cosine_sums *s) {
    s->product = amp_sum(amp_mul(a, b), AMP_DIMS(dim));
    s->first = s->product ? amp_sum(amp_mul(a, a), AMP_DIMS(dim)) : NULL;
    s->second = s->first ? amp_sum(amp_mul(b, b), AMP_DIMS(dim)) : NULL;
    return s->second ? AMP_OK : amp_pending_error();
}

amp_status cpu_cosine_embedding_loss(amp_call *call) {
    const amp_cosine_embedding_loss_args *a = call->args;
    const amp_operand v[2] = {amp_tensor_operand("input1", a->input1), amp_tensor_operand("input2", a->input2)};
    const int target_rank = a->target->rank;
    amp_loss_reduction reduction;
    amp_cosine_sums s;
    amp_dtype dtype, result;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(read_dtypes(call, v, 2, !amp_dtype_is_complex(amp_operands_dtype(v, 2)), &dtype, &result));
    if (target_rank > 1 || a->input1->rank != target_rank + 1 || a->input2->rank != target_rank + 1) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: 'input1' is %s, 'input2' is %s, 'target' is %s; expected [N, D], [N, D] and [N], or [D], [D] and []",
            amp_call_name(call), amp_describe(a->input1), amp_describe(a->input2), amp_describe(a->target));
    }
    if (amp_dtype_is_floating(dtype)) {
        const amp_dtype compute = amp_loss_compute(dtype, amp_tensor_elements(a->input1));
        AMP_TRY(amp_cosine_sums_of(call, v, compute, target_rank, &s));
    } else {
        AMP_TRY(integer_sums(a->input1, a->input2, target_rank, &s));
    }
    const amp_operand sums[4] = {amp_tensor_operand("input1", s.product), amp_tensor_operand("input1", s.first),
                                 amp_tensor_operand("input2", s.second), amp_tensor_operand("target", a->target)};
    return finish(call, reduction, sums, 4, result, amp_steps_of(call)->cosine_losses, a->margin);
}

/* Distances of two. Differences of integers wrap, as in PyTorch. */
static amp_tensor *distances_of(const amp_call *call, amp_operand x, amp_operand y, amp_dtype dtype, double eps,
                                double p) {
    if (amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype)) {
        const amp_operand pair[2] = {x, y};
        return amp_difference_norms(call, pair, amp_compute_dtype(dtype), eps, p, false);
    }
    amp_tensor *apart = amp_sub(x.tensor, y.tensor);
    const amp_operand pair[2] = {amp_tensor_operand(x.name, apart), amp_number_operand(y.name, amp_int(0))};
    return apart ? amp_difference_norms(call, pair, AMP_F64, eps, p, false) : NULL;
}

amp_status cpu_triplet_margin_loss(amp_call *call) {
    const amp_triplet_margin_loss_args *a = call->args;
    const amp_operand v[3] = {amp_tensor_operand("anchor", a->anchor), amp_tensor_operand("positive", a->positive),
                              amp_tensor_operand("negative", a->negative)};
    const int pairs[3][2] = {{0, 1}, {0, 2}, {1, 2}}, count = a->swap ? 3 : 2;
    amp_operand distances[3];
    amp_loss_reduction reduction;
    amp_dtype dtype, result;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(read_dtypes(call, v, 3, amp_operands_dtype(v, 3) != AMP_BOOL, &dtype, &result));
    if (!(a->margin.value > 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'margin' is %g; expected more than 0", amp_call_name(call),
                        a->margin.value);
    }
    if (a->anchor->rank != a->positive->rank || a->anchor->rank != a->negative->rank) {
        return amp_fail(
            AMP_ERROR_INVALID, "%s: 'anchor' is %s, 'positive' is %s, 'negative' is %s; expected as many dimensions",
            amp_call_name(call), amp_describe(a->anchor), amp_describe(a->positive), amp_describe(a->negative));
    }
    for (int i = 0; i < count; i++) {
        const amp_operand x = v[pairs[i][0]], y = v[pairs[i][1]];
        amp_tensor *norms = distances_of(call, x, y, dtype, a->eps.value, a->p.value);
        if (!norms) return amp_pending_error();
        distances[i] = amp_tensor_operand(x.name, norms);
    }
    return finish(call, reduction, distances, count, result, amp_steps_of(call)->triplet_losses, a->margin.value);
}
