/* Losses that are a formula of one element of each input, computed in f32 (f64) and reduced from there. */
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cuda/ops/cuda_elementwise.h"
#include "steps/loss_reduction.h"

enum { MOST_INPUTS = 4 };

typedef struct loss {
    amp_formula formula;
    amp_formula_numbers numbers;
    amp_operand v[MOST_INPUTS]; /* of the formula, and, behind them, 'weight' */
    int count;
    bool weighted;
    bool integers; /* become f32 */
    amp_loss_reduction reduction;
} loss;

static amp_status result_dtype(const amp_call *call, const loss *l, amp_dtype *dtype) {
    *dtype = amp_loss_dtype(call, l->v, l->count);
    if (amp_dtype_is_floating(*dtype)) return AMP_OK;
    if (l->integers && !amp_dtype_is_complex(*dtype)) {
        *dtype = AMP_F32;
        return AMP_OK;
    }
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s, '%s' is %s; expected a floating dtype", amp_call_name(call),
                    l->v[0].name, amp_describe(l->v[0].tensor), l->v[1].name, amp_describe(l->v[1].tensor));
}

static double scale_of(amp_loss_reduction reduction, const amp_tensor *losses, const amp_tensor *input) {
    switch (reduction) {
    case AMP_LOSS_MEAN: return 1.0 / (double)amp_tensor_elements(losses);
    case AMP_LOSS_BATCHMEAN: return 1.0 / (double)(input->rank ? input->shape[0] : 1);
    default: return 1.0;
    }
}

static amp_status run(amp_call *call, const loss *l) {
    const int inputs = l->count - l->weighted;
    int64_t shape[AMP_MAX_RANK];
    int rank;
    amp_dtype dtype;
    AMP_TRY(result_dtype(call, l, &dtype));
    AMP_TRY(amp_operands_shape(call, l->v, l->count, &rank, shape));
    const amp_dtype compute = amp_compute_dtype(dtype);
    const bool direct = l->reduction == AMP_LOSS_NONE && !l->weighted;
    amp_tensor *losses =
        direct ? amp_call_output(call, 0, dtype, rank, shape) : amp_cuda_temporary(call, compute, rank, shape);
    if (!losses) return amp_pending_error();
    AMP_TRY(amp_cuda_compute(call, l->formula, l->v, inputs, compute, l->numbers, losses));
    if (l->weighted) {
        const amp_operand factors[2] = {amp_tensor_operand("losses", losses), l->v[inputs]};
        AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_mul, factors, 2, compute, (amp_formula_numbers){0}, losses));
    }
    if (l->reduction == AMP_LOSS_NONE) {
        if (direct) return AMP_OK;
        amp_tensor *out = amp_call_output(call, 0, dtype, rank, shape);
        return out ? amp_cuda_copy_tensor(out, losses) : amp_pending_error();
    }
    return amp_loss_finish(call, l->reduction, losses, dtype, scale_of(l->reduction, losses, l->v[0].tensor));
}

/* Two tensors. */
static amp_status run_pair(amp_call *call, amp_formula formula, amp_tensor *input, amp_tensor *target,
                           const char *reduction, bool integers, amp_formula_numbers numbers) {
    loss l = {.formula = formula,
              .numbers = numbers,
              .v = {amp_tensor_operand("input", input), amp_tensor_operand("target", target)},
              .count = 2,
              .integers = integers};
    AMP_TRY(amp_loss_reduction_of(call, reduction, false, &l.reduction));
    return run(call, &l);
}

#define DEFINE(op, formula, integers, ...)                                                                             \
    amp_status cuda_##op(amp_call *call) {                                                                             \
        const amp_##op##_args *a = call->args;                                                                         \
        return run_pair(call, formula, a->input, a->target, a->reduction, integers,                                    \
                        (amp_formula_numbers){__VA_ARGS__});                                                           \
    }
DEFINE(mse_loss, AMP_FORMULA_mse, false, 0)
DEFINE(l1_loss, AMP_FORMULA_l1, false, 0)
DEFINE(soft_margin_loss, AMP_FORMULA_soft_margin, false, 0)
DEFINE(hinge_embedding_loss, AMP_FORMULA_hinge_embedding, true, .p = a->margin.value)
DEFINE(poisson_nll_loss, a->log_input.value ? AMP_FORMULA_poisson : AMP_FORMULA_poisson_plain, true, .p = a->eps.value,
       .q = a->full)

amp_status cuda_smooth_l1_loss(amp_call *call) {
    const amp_smooth_l1_loss_args *a = call->args;
    if (!(a->beta.value >= 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'beta' is %g; expected 0 or more", amp_call_name(call), a->beta.value);
    }
    return run_pair(call, a->beta.value == 0.0 ? AMP_FORMULA_l1 : AMP_FORMULA_smooth_l1, a->input, a->target,
                    a->reduction, false, (amp_formula_numbers){.p = a->beta.value});
}

amp_status cuda_huber_loss(amp_call *call) {
    const amp_huber_loss_args *a = call->args;
    if (!(a->delta.value > 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'delta' is %g; expected more than 0", amp_call_name(call),
                        a->delta.value);
    }
    return run_pair(call, AMP_FORMULA_huber, a->input, a->target, a->reduction, false,
                    (amp_formula_numbers){.p = a->delta.value});
}

amp_status cuda_kl_div(amp_call *call) {
    const amp_kl_div_args *a = call->args;
    loss l = {.formula = a->log_target ? AMP_FORMULA_kl_div_log : AMP_FORMULA_kl_div,
              .v = {amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target)},
              .count = 2};
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, true, &l.reduction));
    return run(call, &l);
}

amp_status cuda_margin_ranking_loss(amp_call *call) {
    const amp_margin_ranking_loss_args *a = call->args;
    loss l = {.formula = AMP_FORMULA_margin_ranking,
              .numbers = {.p = a->margin},
              .v = {amp_tensor_operand("input1", a->input1), amp_tensor_operand("input2", a->input2),
                    amp_tensor_operand("target", a->target)},
              .count = 3,
              .integers = true};
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &l.reduction));
    return run(call, &l);
}

/* Cross entropies of probabilities: every element has its target, so these do not broadcast. */
static amp_status run_entropy(amp_call *call, loss l, amp_tensor *input, amp_tensor *target, amp_tensor *weight,
                              const char *reduction) {
    AMP_TRY(amp_loss_reduction_of(call, reduction, false, &l.reduction));
    if (!amp_same_shape(input, target)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'target' is %s, input is %s; expected equal shapes",
                        amp_call_name(call), amp_describe(target), amp_describe(input));
    }
    l.v[0] = amp_tensor_operand("input", input);
    l.v[1] = amp_tensor_operand("target", target);
    l.weighted = weight != NULL;
    if (weight) l.v[l.count++] = amp_tensor_operand("weight", weight);
    return run(call, &l);
}

amp_status cuda_binary_cross_entropy(amp_call *call) {
    const amp_binary_cross_entropy_args *a = call->args;
    const loss l = {.formula = AMP_FORMULA_entropy, .count = 2};
    return run_entropy(call, l, a->input, a->target, a->weight, a->reduction);
}

amp_status cuda_binary_cross_entropy_with_logits(amp_call *call) {
    const amp_binary_cross_entropy_with_logits_args *a = call->args;
    loss l = {.formula = AMP_FORMULA_logits, .count = 3};
    l.v[2] = a->pos_weight ? amp_tensor_operand("pos_weight", a->pos_weight)
                           : amp_number_operand("pos_weight", amp_float(1.0));
    return run_entropy(call, l, a->input, a->target, a->weight, a->reduction);
}
