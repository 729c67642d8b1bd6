/* The last step that all losses share: reduction "none", "mean" or "sum" of one loss for each sample or element. */
#ifndef AMP_CPU_LOSS_REDUCTION_H
#define AMP_CPU_LOSS_REDUCTION_H

#include "steps/operands.h"

typedef enum amp_loss_reduction {
    AMP_LOSS_NONE,
    AMP_LOSS_MEAN,
    AMP_LOSS_SUM,
    AMP_LOSS_BATCHMEAN /* the sum over the extent of dimension 0; kl_div only */
} amp_loss_reduction;

/* Reads the argument 'reduction'; AMP_ERROR_INVALID for anything else. */
amp_status amp_loss_reduction_of(const amp_call *call, const char *text, bool batchmean, amp_loss_reduction *reduction);

/* The dtype that a loss of these tensors has before it is judged, as PyTorch's formulas give it: that of ordinary
 * promotion, of promotion once all are broadcast, or, where it is floating, that of one of them. */
amp_dtype amp_loss_dtype(const amp_call *call, const amp_operand *v, int count);

/* What losses of `dtype` over that many elements of input are computed in: its compute type, or f64 where they are so
 * few that it costs nothing, so that the result is rounded once. */
amp_dtype amp_loss_compute(amp_dtype dtype, int64_t elements);

/* Where an implementation writes its losses: the output itself for "none", else a tensor of the call's of dtype
 * `compute`, so that nothing is rounded before the sum. NULL with an error. */
amp_tensor *amp_loss_target(amp_call *call, amp_loss_reduction reduction, amp_dtype dtype, amp_dtype compute, int rank,
                            const int64_t *shape);

/* Makes the output in `dtype` from losses: Σ losses · scale; for "none" the losses themselves, unless they are already
 * in it. */
amp_status amp_loss_finish(amp_call *call, amp_loss_reduction reduction, const amp_tensor *losses, amp_dtype dtype,
                           double scale);

/* Makes the 0-dim output from a number. */
amp_status amp_loss_number(amp_call *call, amp_dtype dtype, double value);

/* Σ of a tensor of f32 or f64. */
amp_status amp_loss_sum(const amp_call *call, const amp_tensor *losses, double *sum);

#endif /* AMP_CPU_LOSS_REDUCTION_H */
