/* Class indices, checked and counted. */
#include "cpu/loss/class_targets.h"

#include <string.h>

#include "cpu/convert/copy.h"
#include "steps/class_rules.h"

amp_status amp_class_take_weight(const amp_call *call, amp_class_targets *t, const amp_tensor *weight) {
    if (!weight) return AMP_OK;
    const amp_tensor *dense = amp_cpu_dense(call->op->name, weight, t->compute, 0);
    if (!dense) return amp_pending_error();
    t->weight = amp_tensor_pointer(dense);
    return AMP_OK;
}

/* How often each class occurs, times its weight. */
static amp_status count_classes(const amp_call *call, amp_class_targets *t) {
    const int64_t n = t->classes;
    amp_tensor *counts = amp_tensor_new(call->op->name, AMP_I64, 1, &n);
    if (!counts) return amp_pending_error();
    int64_t *count = memset(amp_tensor_pointer(counts), 0, (size_t)n * sizeof *count), all = 0;
    for (int64_t i = 0; i < t->samples; i++) {
        const int64_t c = t->index[i];
        if (c >= 0 && c < n && c != t->ignore) {
            all++;
            if (t->weight) count[c]++;
        } else if (c != t->ignore) {
            return amp_fail(AMP_ERROR_INVALID, "%s: element %lld of 'target' is %lld, input has classes 0 to %lld",
                            amp_call_name(call), (long long)i, (long long)c, (long long)n - 1);
        }
    }
    t->total_weight = t->weight ? 0.0 : (double)all;
    for (int64_t c = 0; t->weight && c < n; c++) t->total_weight += (double)count[c] * amp_class_weight(t, c);
    return AMP_OK;
}

amp_status amp_class_take_target(const amp_call *call, amp_class_targets *t, const amp_tensor *input,
                                 const amp_tensor *target) {
    AMP_TRY(amp_check_class_indices(call, input, target));
    const amp_tensor *dense = amp_cpu_dense(call->op->name, target, AMP_I64, 0);
    if (!dense) return amp_pending_error();
    t->index = amp_tensor_pointer(dense);
    return count_classes(call, t);
}
