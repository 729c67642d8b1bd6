/* Losses of pairs and triples of vectors: cosine_embedding_loss, triplet_margin_loss. */
#include <math.h>

#include "amp/ops.h"
#include "cpu/convert/element.h"
#include "cpu/loss/loss_reduction.h"
#include "cpu/distance/pair_sums.h"
#include "cuda/ops/cuda_elementwise.h"

/* The losses, as the dense function has them. */
typedef amp_status cuda_losses(const amp_call *call, const amp_operand *sums, int count, const void *context,
                               amp_tensor *losses);

/* The result dtype, and where the losses go: one for each element of the broadcast of f64 sums. */
static amp_status finish(amp_call *call, amp_loss_reduction reduction, const amp_operand *sums, int count,
                         amp_dtype dtype, amp_dense_function *function, void *context, cuda_losses *on_cuda) {
    int64_t shape[AMP_MAX_RANK];
    int rank;
    AMP_TRY(amp_operands_shape(call, sums, count, &rank, shape));
    amp_tensor *losses = amp_loss_target(call, reduction, dtype, AMP_F64, rank, shape);
    if (!losses) return amp_pending_error();
    if (call->device == AMP_DEVICE_CUDA)
        AMP_TRY(on_cuda(call, sums, count, context, losses));
    else
        amp_operands_run(sums, count, AMP_F64, AMP_F64, function, context, 8, losses);
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

/* ---- cosine_embedding_loss --------------------------------------------------------------------------------------- */

static const double cosine_epsilon = 1e-12; /* PyTorch's */

static void cosine_losses(void *context, void *out, const void *const *in, int64_t n) {
    const double margin = *(const double *)context;
    const double *product = in[0], *first = in[1], *second = in[2], *target = in[3];
    for (int64_t i = 0; i < n; i++) {
        const double c = product[i] / sqrt((first[i] + cosine_epsilon) * (second[i] + cosine_epsilon));
        const double apart = c - margin < 0.0 ? 0.0 : c - margin;
        ((double *)out)[i] = target[i] == 1.0 ? 1.0 - c : target[i] == -1.0 ? apart : 0.0;
    }
}

static amp_status cosine_losses_cuda(const amp_call *call, const amp_operand *sums, int count, const void *context,
                                     amp_tensor *losses) {
    amp_tensor *cosines = amp_backend_tensor(call->device, call->op->name, AMP_F64, losses->rank, losses->shape);
    if (!cosines) return amp_pending_error();
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_cosine_of_squares, sums, 3, AMP_F64,
                             (amp_formula_numbers){.p = cosine_epsilon}, cosines));
    const amp_operand v[2] = {amp_tensor_operand("cosine", cosines), sums[count - 1]};
    return amp_cuda_compute(call, AMP_FORMULA_cosine_loss, v, 2, AMP_F64,
                            (amp_formula_numbers){.p = *(const double *)context}, losses);
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
    double margin = a->margin;
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
    return finish(call, reduction, sums, 4, result, cosine_losses, &margin, cosine_losses_cuda);
}

/* ---- triplet_margin_loss ----------------------------------------------------------------------------------------- */

/* in[2], where there is one, is the distance of the positive from the negative. */
typedef struct triplet {
    double margin;
    bool swap;
} triplet;

static void triplet_losses(void *context, void *out, const void *const *in, int64_t n) {
    const triplet *t = context;
    const double *positive = in[0], *negative = in[1], *between = t->swap ? in[2] : in[1];
    for (int64_t i = 0; i < n; i++) {
        const double far = between[i] < negative[i] || between[i] != between[i] ? between[i] : negative[i];
        const double loss = t->margin + positive[i] - far;
        ((double *)out)[i] = loss < 0.0 ? 0.0 : loss;
    }
}

static amp_status triplet_losses_cuda(const amp_call *call, const amp_operand *sums, int count, const void *context,
                                      amp_tensor *losses) {
    const triplet *t = context;
    const amp_operand v[3] = {sums[0], sums[1], sums[count - 1]};
    return amp_cuda_compute(call, AMP_FORMULA_triplet, v, 3, AMP_F64, (amp_formula_numbers){.p = t->margin}, losses);
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
    triplet t = {a->margin.value, a->swap};
    amp_operand distances[3];
    amp_loss_reduction reduction;
    amp_dtype dtype, result;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(read_dtypes(call, v, 3, amp_operands_dtype(v, 3) != AMP_BOOL, &dtype, &result));
    if (!(t.margin > 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'margin' is %g; expected more than 0", amp_call_name(call), t.margin);
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
    return finish(call, reduction, distances, count, result, triplet_losses, &t, triplet_losses_cuda);
}
