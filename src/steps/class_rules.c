/* Rules of the arguments of losses over classes. */
#include "steps/class_rules.h"

#include "steps/constants.h"
#include "steps/row_rules.h"

static amp_status check_index_dtype(const amp_call *call, const amp_tensor *target) {
    const amp_dtype dtype = target->dtype;
    if (!amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype) && dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'target' is %s; expected class indices, of i64", amp_call_name(call),
                    amp_describe(target));
}

/* NULL: all weigh the same. */
static amp_status check_class_weight(const amp_call *call, const amp_tensor *weight, int64_t classes) {
    if (!weight || (weight->rank == 1 && weight->shape[0] == classes && amp_dtype_is_floating(weight->dtype))) {
        return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'weight' is %s; expected floats, one for each class: [%lld]",
                    amp_call_name(call), amp_describe(weight), (long long)classes);
}

int amp_sample_shape(const amp_tensor *input, int64_t *shape) {
    int rank = 0;
    for (int d = 0; d < input->rank; d++) {
        if (d != (input->rank > 1)) shape[rank++] = input->shape[d];
    }
    return rank;
}

amp_status amp_check_classes(const amp_call *call, const amp_tensor *input, const amp_tensor *weight) {
    if (input->rank < 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected [C], [N, C] or [N, C, …]", amp_call_name(call),
                        amp_describe(input));
    }
    AMP_TRY(amp_check_floating(call, input));
    return check_class_weight(call, weight, input->shape[input->rank > 1]);
}

amp_status amp_check_class_indices(const amp_call *call, const amp_tensor *input, const amp_tensor *target) {
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_sample_shape(input, shape);
    AMP_TRY(check_index_dtype(call, target));
    if (amp_has_shape(target, rank, shape)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'target' is %s, input is %s; expected a class index for each sample, %s",
                    amp_call_name(call), amp_describe(target), amp_describe(input), amp_describe_shape(rank, shape));
}

amp_status amp_check_class_probabilities(const amp_call *call, const amp_tensor *target, int64_t ignore) {
    if (!amp_dtype_is_floating(target->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE,
                        "%s: 'target' is %s, shaped like the input; expected probabilities of a floating dtype",
                        amp_call_name(call), amp_describe(target));
    }
    if (ignore >= 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'ignore_index' is %lld, and 'target' holds probabilities, %s, not indices",
                        amp_call_name(call), (long long)ignore, amp_describe(target));
    }
    return AMP_OK;
}

amp_status amp_check_smoothing(const amp_call *call, double smoothing) {
    if (!(smoothing >= 0.0 && smoothing <= 1.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'label_smoothing' is %g; expected 0 to 1", amp_call_name(call),
                        smoothing);
    }
    return AMP_OK;
}

/* ---- Margin losses ----------------------------------------------------------------------------------------------- */
static amp_status read_rows(const amp_call *call, const amp_tensor *input, int64_t *samples, int64_t *classes) {
    AMP_TRY(amp_check_floating(call, input));
    *classes = input->rank ? input->shape[input->rank - 1] : 1;
    *samples = input->rank == 2 ? input->shape[0] : 1;
    if (input->rank <= 2 && *classes > 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected [C] or [N, C] with classes", amp_call_name(call),
                    amp_describe(input));
}

amp_status amp_read_multi_margin(const amp_call *call, const amp_multi_margin_loss_args *a, int64_t *samples,
                                 int64_t *classes, double *p, double *margin) {
    *p = amp_constant_of(&a->p, AMP_F64).f64;
    *margin = amp_constant_of(&a->margin, AMP_F64).f64;
    AMP_TRY(read_rows(call, a->input, samples, classes));
    if (*p != 1.0 && *p != 2.0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'p' is %g; expected 1 or 2", amp_call_name(call), *p);
    }
    if (amp_tensor_elements(a->target) != *samples || a->target->rank > 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'target' is %s, input is %s; expected one class index for each sample, [%lld]",
                        amp_call_name(call), amp_describe(a->target), amp_describe(a->input), (long long)*samples);
    }
    AMP_TRY(check_index_dtype(call, a->target));
    return check_class_weight(call, a->weight, *classes);
}

amp_status amp_read_multilabel(const amp_call *call, const amp_tensor *input, const amp_tensor *target,
                               int64_t *samples, int64_t *classes) {
    AMP_TRY(read_rows(call, input, samples, classes));
    if (amp_same_shape(target, input)) return check_index_dtype(call, target);
    return amp_fail(AMP_ERROR_INVALID, "%s: 'target' is %s, input is %s; expected equal shapes", amp_call_name(call),
                    amp_describe(target), amp_describe(input));
}
