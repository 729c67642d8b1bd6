/* gaussian_nll_loss, multilabel_soft_margin_loss: made of ops, at which autocast looks in their place. */
#include <math.h>
#include <string.h>

#include "ops/math/compose.h"
#include "steps/loss_reduction.h"

static amp_status finish(amp_call *call, amp_tensor *losses, amp_loss_reduction reduction) {
    if (!losses || reduction == AMP_LOSS_NONE) return amp_return(call, losses);
    return amp_return(call, reduction == AMP_LOSS_MEAN ? amp_mean(losses) : amp_sum(losses));
}

/* ---- gaussian_nll_loss ------------------------------------------------------------------------------------------ */

/* A variance for each element, or for each row, which then is a column. */
static amp_status read_variances(const amp_call *call, const amp_gaussian_nll_loss_args *a, amp_tensor **var) {
    const amp_tensor *input = a->input;
    const int rows = input->rank - 1;
    *var = a->var;
    if (amp_same_shape(a->var, input)) return AMP_OK;
    const bool has_rows = rows >= 0 && amp_has_shape(a->var, rows, input->shape);
    if (has_rows) *var = amp_unsqueeze(a->var, -1);
    if (!*var) return amp_pending_error();
    const bool is_column =
        a->var->rank == input->rank && rows >= 0 && a->var->shape[rows] == 1 && amp_same_leading(a->var, input, rows);
    if (has_rows || is_column) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'var' is %s, input is %s; expected a variance for each element or row",
                    amp_call_name(call), amp_describe(a->var), amp_describe(input));
}

static amp_status check_variances(const amp_call *call, amp_tensor *var) {
    if (!amp_dtype_is_floating(var->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'var' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(var));
    }
    const double least = amp_tensor_elements(var) ? amp_number_of(amp_amin(var)) : 0.0;
    if (amp_failed()) return amp_pending_error();
    if (!(least < 0.0)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'var' holds %g; expected numbers from 0 up", amp_call_name(call), least);
}

/* (log var + (input − target)²/var)/2 */
amp_status amp_op_gaussian_nll_loss(amp_call *call) {
    const amp_gaussian_nll_loss_args *a = call->args;
    amp_loss_reduction reduction;
    amp_tensor *var;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(read_variances(call, a, &var));
    AMP_TRY(check_variances(call, a->var));
    var = amp_clamp(var, amp_float(a->eps.value));
    amp_tensor *logarithm = var ? amp_log(var) : NULL, *error = logarithm ? amp_sub(a->input, a->target) : NULL;
    amp_tensor *square = error ? amp_pow_scalar(error, amp_int(2)) : NULL,
               *share = square ? amp_div(square, var) : NULL;
    amp_tensor *sum = share ? amp_add(logarithm, share) : NULL;
    amp_tensor *losses = sum ? amp_mul_scalar(sum, amp_float(0.5)) : NULL;
    if (losses && a->full) losses = amp_add_scalar(losses, amp_float(0.5 * log(2.0 * M_PI)));
    return finish(call, losses, reduction);
}

/* ---- multilabel_soft_margin_loss -------------------------------------------------------------------------------- */

/* −(target · log σ(input) + (1 − target) · log σ(−input)), averaged over the classes. */
amp_status amp_op_multilabel_soft_margin_loss(amp_call *call) {
    const amp_multilabel_soft_margin_loss_args *a = call->args;
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    if (a->input->rank == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected a last dimension of classes", amp_call_name(call),
                        amp_describe(a->input));
    }
    const int64_t classes = a->input->shape[a->input->rank - 1];
    amp_tensor *yes = amp_logsigmoid(a->input), *no = yes ? amp_logsigmoid(amp_neg(a->input)) : NULL;
    amp_tensor *others = no ? amp_add_scalar(amp_neg(a->target), amp_int(1)) : NULL;
    amp_tensor *is = others ? amp_mul(a->target, yes) : NULL, *is_not = is ? amp_mul(others, no) : NULL;
    amp_tensor *losses = is_not ? amp_neg(amp_add(is, is_not)) : NULL;
    if (losses && a->weight) losses = amp_mul(losses, a->weight);
    losses = losses ? amp_sum(losses, AMP_DIMS(-1)) : NULL;
    return finish(call, losses ? amp_div_scalar(losses, amp_int(classes)) : NULL, reduction);
}
