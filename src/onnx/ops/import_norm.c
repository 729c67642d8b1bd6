/* BatchNormalization, InstanceNormalization, LayerNormalization, GroupNormalization, RMSNormalization, LpNormalization,
 * MeanVarianceNormalization, LRN. */
#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

static amp_opt_float epsilon_of(const amp_onnx_step *s) {
    return (amp_opt_float)AMP_SET(amp_onnx_float(s, "epsilon", 1e-5));
}

/* libamp computes statistics in f32, of f64 in f64. */
static amp_status check_stash_type(const amp_onnx_step *s) {
    const int64_t type = amp_onnx_int(s, "stash_type", 1);
    if (type == 1 || type == 11) return AMP_OK;
    return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "stash_type %lld; 1 (float) is done", (long long)type);
}

/* ---- BatchNormalization ------------------------------------------------------------------------------------------ */

/* Before opset 9, spatial = 0: each element of a sample has numbers of its own. */
static amp_tensor *normalize_elements(amp_tensor *x, amp_tensor *scale, amp_tensor *bias, amp_tensor *mean,
                                      amp_tensor *var, double eps) {
    amp_tensor *factor = amp_mul(scale, amp_rsqrt(amp_add_scalar(var, amp_float(eps))));
    return amp_add(amp_mul(amp_sub(x, mean), factor), bias);
}

/* The batch's own statistics, and running ones that move towards them. */
static amp_status train(amp_onnx_step *s, amp_tensor *x, amp_tensor *scale, amp_tensor *bias, amp_tensor *running_mean,
                        amp_tensor *running_var) {
    amp_dims dims = amp_onnx_dims_between(1, x->rank);
    dims.values[0] = 0;
    for (int d = 1; d < dims.count; d++) dims.values[d] = d + 1;
    const double momentum = amp_onnx_float(s, "momentum", 0.9);
    amp_tensor *mean = NULL;
    amp_tensor *var =
        amp_var_mean(amp_to(x, running_mean->dtype), .dim = dims, .correction = amp_int(0), .mean = &mean);
    AMP_TRY(amp_onnx_set(s, 0,
                         amp_batch_norm(x, .running_mean = mean, .running_var = var, .weight = scale, .bias = bias,
                                        .eps = epsilon_of(s))));
    AMP_TRY(amp_onnx_set(s, 1, amp_lerp_scalar(mean, running_mean, amp_float(momentum))));
    return amp_onnx_set(s, 2, amp_lerp_scalar(var, running_var, amp_float(momentum)));
}

amp_status onnx_batch_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1), *bias = amp_onnx_required(s, 2),
               *mean = amp_onnx_required(s, 3), *var = amp_onnx_required(s, 4);
    if (!x || !scale || !bias || !mean || !var) return amp_pending_error();
    if (x->rank < 2) return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s; expected (N, C, …)", amp_describe(x));
    if (amp_onnx_int(s, "training_mode", 0)) return train(s, x, scale, bias, mean, var);
    for (int i = 1; i < 5; i++) {
        if (amp_onnx_wants(s, i)) {
            return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "output %d, a statistic of training", i);
        }
    }
    if (amp_onnx_int(s, "spatial", 1) == 0) {
        return amp_onnx_set(s, 0, normalize_elements(x, scale, bias, mean, var, amp_onnx_float(s, "epsilon", 1e-5)));
    }
    return amp_onnx_set(s, 0,
                        amp_batch_norm(x, .running_mean = mean, .running_var = var, .weight = scale, .bias = bias,
                                       .eps = epsilon_of(s)));
}

/* ---- Over channels ------------------------------------------------------------------------------------------------ */

amp_status onnx_instance_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1), *bias = amp_onnx_required(s, 2);
    return amp_onnx_set(s, 0, amp_instance_norm(x, .weight = scale, .bias = bias, .eps = epsilon_of(s)));
}

/* A number for each group, repeated for each of its channels. */
static amp_tensor *by_channel(amp_tensor *per_group, int64_t groups, int64_t channels) {
    amp_tensor *columns = amp_reshape(per_group, AMP_DIMS(groups, 1));
    return amp_reshape(amp_expand(columns, AMP_DIMS(groups, channels / groups)), AMP_DIMS(channels));
}

amp_status onnx_group_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1), *bias = amp_onnx_required(s, 2);
    if (!x || !scale || !bias) return amp_pending_error();
    AMP_TRY(check_stash_type(s));
    const int64_t groups = amp_onnx_int(s, "num_groups", 0);
    if (x->rank < 2 || groups < 1 || x->shape[1] % groups != 0) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld groups of the channels of %s", (long long)groups,
                             amp_describe(x));
    }
    if (*s->node->op->to == 'g') { /* before opset 21 */
        scale = by_channel(scale, groups, x->shape[1]);
        bias = by_channel(bias, groups, x->shape[1]);
    }
    return amp_onnx_set(s, 0, amp_group_norm(x, groups, .weight = scale, .bias = bias, .eps = epsilon_of(s)));
}

/* libamp's window reaches further down where an even number of channels is summed, ONNX's further up. */
amp_status onnx_lrn(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const int64_t size = amp_onnx_int(s, "size", 0);
    const bool turned = size % 2 == 0;
    if (size < 1) return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'size' is %lld", (long long)size);
    if (turned) x = amp_flip(x, AMP_DIMS(1));
    amp_tensor *y = amp_local_response_norm(x, size, .alpha = AMP_SET(amp_onnx_float(s, "alpha", 1e-4)),
                                            .beta = AMP_SET(amp_onnx_float(s, "beta", 0.75)),
                                            .k = AMP_SET(amp_onnx_float(s, "bias", 1)));
    return amp_onnx_set(s, 0, turned ? amp_flip(y, AMP_DIMS(1)) : y);
}

/* ---- Over the last dimensions ------------------------------------------------------------------------------------- */

/* The extents from the axis on. */
static amp_status normalized_shape(const amp_onnx_step *s, const amp_tensor *x, amp_dims *shape, int *axis) {
    const int64_t from = amp_onnx_axis(s, amp_onnx_int(s, "axis", -1), x->rank);
    if (from < 0) return amp_pending_error();
    *axis = (int)from;
    *shape = amp_onnx_dims(x->rank - *axis, x->shape + *axis);
    return check_stash_type(s);
}

/* A scale or bias that the op takes as it is; others broadcast. */
static bool fits(const amp_tensor *t, const amp_dims *shape) {
    return !t || amp_has_shape(t, shape->count, shape->values);
}

amp_status onnx_layer_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1), *bias = amp_onnx_input(s, 2);
    amp_dims shape;
    int axis = 0;
    if (!x || !scale) return amp_pending_error();
    AMP_TRY(normalized_shape(s, x, &shape, &axis));
    if (fits(scale, &shape) && fits(bias, &shape)) {
        AMP_TRY(amp_onnx_set(s, 0, amp_layer_norm(x, shape, .weight = scale, .bias = bias, .eps = epsilon_of(s))));
    } else {
        amp_tensor *y = amp_mul(amp_layer_norm(x, shape, .eps = epsilon_of(s)), scale);
        AMP_TRY(amp_onnx_set(s, 0, bias ? amp_add(y, bias) : y));
    }
    if (!amp_onnx_wants(s, 1) && !amp_onnx_wants(s, 2)) return AMP_OK;
    amp_tensor *mean = NULL, *exact = x->dtype == AMP_F64 ? x : amp_to(x, AMP_F32);
    amp_tensor *var = amp_var_mean(exact, .dim = amp_onnx_dims_between(axis, x->rank), .keepdim = true,
                                   .correction = amp_int(0), .mean = &mean);
    AMP_TRY(amp_onnx_set(s, 1, mean));
    return amp_onnx_set(s, 2, amp_rsqrt(amp_add_scalar(var, amp_float(amp_onnx_float(s, "epsilon", 1e-5)))));
}

amp_status onnx_rms_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *scale = amp_onnx_required(s, 1);
    amp_dims shape;
    int axis = 0;
    if (!x || !scale) return amp_pending_error();
    AMP_TRY(normalized_shape(s, x, &shape, &axis));
    if (fits(scale, &shape)) {
        return amp_onnx_set(s, 0, amp_rms_norm(x, shape, .weight = scale, .eps = epsilon_of(s)));
    }
    return amp_onnx_set(s, 0, amp_mul(amp_rms_norm(x, shape, .eps = epsilon_of(s)), scale));
}

/* ---- Others ------------------------------------------------------------------------------------------------------- */

amp_status onnx_lp_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    const int64_t axis = amp_onnx_axis(s, amp_onnx_int(s, "axis", -1), x->rank), p = amp_onnx_int(s, "p", 2);
    if (axis < 0) return amp_pending_error();
    if (p != 1 && p != 2) return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'p' is %lld", (long long)p);
    return amp_onnx_set(s, 0, amp_normalize(x, .p = AMP_SET((double)p), .dim = AMP_SET(axis)));
}

amp_status onnx_mean_variance_norm(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *mean = NULL;
    if (!x) return amp_pending_error();
    amp_dims axes = AMP_DIMS(0, 2, 3);
    if (amp_onnx_has(s, "axes")) AMP_TRY(amp_onnx_axes(s, 1, "axes", x->rank, &axes));
    amp_tensor *var = amp_var_mean(x, .dim = axes, .keepdim = true, .correction = amp_int(0), .mean = &mean);
    amp_tensor *deviation = amp_add_scalar(amp_sqrt(var), amp_float(1e-9));
    return amp_onnx_set(s, 0, amp_div(amp_sub(x, mean), deviation));
}
