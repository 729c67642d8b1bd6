/* What the arguments of losses over classes may be, with their error messages: the same on every device. What the
 * indices are, whoever reads them finds. */
#ifndef AMP_OPS_CLASS_RULES_H
#define AMP_OPS_CLASS_RULES_H

#include "amp/ops.h"
#include "call/call.h"

/* [C], [N, C] or [N, C, d1, …], with a weight for each class or NULL. The samples' shape is that without the classes;
 * returns its rank. */
int amp_sample_shape(const amp_tensor *input, int64_t *shape);
amp_status amp_check_classes(const amp_call *call, const amp_tensor *input, const amp_tensor *weight);
/* The target as an index for each sample, or as a probability for each element. */
amp_status amp_check_class_indices(const amp_call *call, const amp_tensor *input, const amp_tensor *target);
amp_status amp_check_class_probabilities(const amp_call *call, const amp_tensor *target, int64_t ignore);
amp_status amp_check_smoothing(const amp_call *call, double smoothing);

/* The margin losses: [C] and [N, C] as rows; a 0-dim tensor is one row of one class. */
amp_status amp_read_multi_margin(const amp_call *call, const amp_multi_margin_loss_args *a, int64_t *samples,
                                 int64_t *classes, double *p, double *margin);
amp_status amp_read_multilabel(const amp_call *call, const amp_tensor *input, const amp_tensor *target,
                               int64_t *samples, int64_t *classes);

#endif /* AMP_OPS_CLASS_RULES_H */
