/* Targets that are class indices, and what the classes weigh: what losses over classes and their gradients read. */
#ifndef AMP_CPU_CLASS_TARGETS_H
#define AMP_CPU_CLASS_TARGETS_H

#include "call/call.h"

typedef struct amp_class_targets {
    amp_dtype compute; /* f32 or f64, of the weights */
    int64_t classes, samples, ignore;
    const void *weight;   /* dense, a number for each class; NULL: 1 each */
    const int64_t *index; /* dense, one for each sample; NULL: targets are probabilities */
    double total_weight;  /* of the samples that count: what a mean divides by */
} amp_class_targets;

static inline double amp_class_weight(const amp_class_targets *t, int64_t c) {
    if (!t->weight) return 1.0;
    return t->compute == AMP_F64 ? ((const double *)t->weight)[c] : (double)((const float *)t->weight)[c];
}
/* In the compute type; NULL stays so. */
amp_status amp_class_take_weight(const amp_call *call, amp_class_targets *t, const amp_tensor *weight);
/* Checks every index against the input's classes, and adds up the weights of those that count. */
amp_status amp_class_take_target(const amp_call *call, amp_class_targets *t, const amp_tensor *input,
                                 const amp_tensor *target);

#endif /* AMP_CPU_CLASS_TARGETS_H */
