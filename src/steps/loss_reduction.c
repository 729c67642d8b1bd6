/* Reductions of losses. */
#include "steps/loss_reduction.h"

#include <string.h>

#include "call/backend.h"
#include "core/compute_dtype.h"
#include "generated/op_ids.h"
#include "steps/steps.h"

amp_status amp_loss_reduction_of(const amp_call *call, const char *text, bool batchmean,
                                 amp_loss_reduction *reduction) {
    static const char *const names[] = {
        [AMP_LOSS_NONE] = "none",
        [AMP_LOSS_MEAN] = "mean",
        [AMP_LOSS_SUM] = "sum",
        [AMP_LOSS_BATCHMEAN] = "batchmean",
    };
    for (int i = 0; i <= (batchmean ? AMP_LOSS_BATCHMEAN : AMP_LOSS_SUM); i++) {
        if (strcmp(text, names[i])) continue;
        *reduction = (amp_loss_reduction)i;
        return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'reduction' is \"%s\"; expected \"none\", \"mean\"%s", amp_call_name(call),
                    text, batchmean ? ", \"sum\" or \"batchmean\"" : " or \"sum\"");
}

typedef enum dtype_rule { PROMOTED, BROADCAST, OF_INPUT, OF_TARGET } dtype_rule;

static dtype_rule rule_of(int op) {
    static const struct {
        int op;
        dtype_rule rule;
    } rules[] = {
        {AMP_OP_ID_mse_loss, BROADCAST},
        {AMP_OP_ID_l1_loss, BROADCAST},
        {AMP_OP_ID_smooth_l1_loss, BROADCAST},
        {AMP_OP_ID_huber_loss, OF_INPUT},
        {AMP_OP_ID_soft_margin_loss, OF_INPUT},
        {AMP_OP_ID_hinge_embedding_loss, OF_INPUT},
        {AMP_OP_ID_binary_cross_entropy, OF_INPUT},
        {AMP_OP_ID_binary_cross_entropy_with_logits, OF_TARGET}, /* which is multiplied in place */
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].op == op) return rules[i].rule;
    }
    return PROMOTED;
}

amp_dtype amp_loss_dtype(const amp_call *call, const amp_operand *v, int count) {
    const dtype_rule rule = rule_of(call->op->id);
    if (rule == BROADCAST) return amp_operands_expanded_dtype(v, count);
    const amp_dtype own = rule == PROMOTED ? AMP_DTYPE_NONE : v[rule == OF_TARGET].tensor->dtype;
    return amp_dtype_is_floating(own) ? own : amp_operands_dtype(v, count);
}

enum { FEW = 1024 };

amp_dtype amp_loss_compute(amp_dtype dtype, int64_t elements) {
    const amp_dtype compute = amp_compute_dtype(dtype);
    return compute == AMP_F32 && elements <= FEW ? AMP_F64 : compute;
}

amp_tensor *amp_loss_target(amp_call *call, amp_loss_reduction reduction, amp_dtype dtype, amp_dtype compute, int rank,
                            const int64_t *shape) {
    if (reduction == AMP_LOSS_NONE) return amp_call_output(call, 0, dtype, rank, shape);
    return amp_backend_tensor(call->device, call->op->name, compute, rank, shape);
}

static amp_status reduce(const amp_tensor *losses, double scale, amp_tensor *out) {
    const amp_reduce_work work = {.kind = AMP_REDUCE_SUM,
                                  .input = losses,
                                  .mask = (1u << losses->rank) - 1,
                                  .compute = amp_compute_dtype(losses->dtype),
                                  .scale = scale,
                                  .root = 1.0};
    return amp_reduce(&work, out);
}

amp_status amp_loss_finish(amp_call *call, amp_loss_reduction reduction, const amp_tensor *losses, amp_dtype dtype,
                           double scale) {
    if (reduction == AMP_LOSS_NONE) {
        if (losses == call->outputs[0]) return AMP_OK;
        amp_tensor *each = amp_call_output(call, 0, dtype, losses->rank, losses->shape);
        return each ? amp_copy_tensor(each, losses) : amp_pending_error();
    }
    amp_tensor *out = amp_call_output(call, 0, dtype, 0, NULL);
    return out ? reduce(losses, scale, out) : amp_pending_error();
}

amp_status amp_loss_number(amp_call *call, amp_dtype dtype, double value) {
    amp_tensor *out = amp_call_output(call, 0, dtype, 0, NULL);
    if (!out) return amp_pending_error();
    const amp_scalar number = amp_float(value);
    return amp_fill_tensor_with(out, &number);
}

amp_status amp_loss_sum(const amp_call *call, const amp_tensor *losses, double *sum) {
    amp_tensor *total = amp_tensor_new(call->op->name, AMP_F64, 0, NULL);
    if (!total) return amp_pending_error();
    AMP_TRY(reduce(losses, 1.0, total));
    *sum = *(const double *)amp_tensor_pointer(total);
    return AMP_OK;
}
