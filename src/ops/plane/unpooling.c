/* max_unpool. */
#include <stdatomic.h>
#include <string.h>

#include "amp/ops.h"
#include "steps/steps.h"

/* What pooling would have made the input's extents of, or what the caller says, within a stride of that. */
static amp_status set_size(const amp_call *call, amp_spatial *s, const amp_dims *kernel, const amp_dims *stride,
                           const amp_dims *padding, const amp_dims *wanted) {
    const int64_t largest = INT64_C(1) << 30;
    const int leading = wanted->count == s->dims + 2 ? 2 : 0;
    if (!stride->set || stride->count == 0) stride = kernel;
    AMP_TRY(amp_pool_check_dims(call, "kernel_size", kernel, s->dims, 1, largest));
    AMP_TRY(amp_pool_check_dims(call, "stride", stride, s->dims, 1, largest));
    AMP_TRY(amp_pool_check_dims(call, "padding", padding, s->dims, 0, largest));
    if (wanted->set && wanted->count != s->dims && !leading) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'output_size' has %d values; expected %d or %d", amp_call_name(call),
                        wanted->count, s->dims, s->dims + 2);
    }
    for (int d = 0; d < s->dims; d++) {
        int64_t *extent = amp_spatial_out(s, d), usual;
        const int64_t step = stride->values[d], more = kernel->values[d] - 2 * padding->values[d];
        if (__builtin_mul_overflow(*extent - 1, step, &usual) || __builtin_add_overflow(usual, more, &usual)) {
            usual = INT64_MAX;
        }
        *extent = wanted->set ? wanted->values[leading + d] : usual;
        const bool near = *extent > usual - step && (usual > INT64_MAX - step || *extent < usual + step);
        if (*extent > 0 && near) continue;
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: dimension %d of the result would be %lld; the windows make it %lld, give or take less "
                        "than a stride of %lld",
                        amp_call_name(call), s->rank - s->dims + d, (long long)*extent, (long long)usual,
                        (long long)step);
    }
    return AMP_OK;
}

static amp_status check_indices(const amp_call *call, const amp_tensor *input, const amp_tensor *indices) {
    if (indices->dtype != AMP_I64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'indices' is %s; expected i64", amp_call_name(call),
                        amp_describe(indices));
    }
    if (amp_same_shape(indices, input)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, 'indices' is %s; expected the same shape", amp_call_name(call),
                    amp_describe(input), amp_describe(indices));
}

#define DEFINE(op, dims)                                                                                               \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        amp_spatial s;                                                                                                 \
        AMP_TRY(amp_spatial_start(call, &s, a->input, dims));                                                          \
        AMP_TRY(check_indices(call, a->input, a->indices));                                                            \
        AMP_TRY(set_size(call, &s, &a->kernel_size, &a->stride, &a->padding, &a->output_size));                        \
        return amp_steps_of(call)->unpool(call, &s, a->input, a->indices);                                             \
    }

DEFINE(max_unpool2d, 2)

DEFINE(max_unpool3d, 3)
