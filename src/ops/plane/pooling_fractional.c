/* fractional_max_pool2d, fractional_max_pool3d (Graham, "Fractional Max-Pooling", 2014). */
#include <stdatomic.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "steps/steps.h"

static amp_status check_samples(const amp_call *call, const amp_spatial *s, const amp_tensor *input,
                                const amp_tensor *samples) {
    const int64_t shape[] = {s->batch, s->channels, s->dims};
    if (!amp_has_shape(samples, 3, shape)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'random_samples' is %s; expected %s for input %s", amp_call_name(call),
                        amp_describe(samples), amp_describe_shape(3, shape), amp_describe(input));
    }
    if (samples->dtype == input->dtype) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s, 'random_samples' is %s; expected the same dtype",
                    amp_call_name(call), amp_describe(input), amp_describe(samples));
}

static amp_status set_windows(const amp_call *call, amp_spatial *s, int64_t extent[AMP_SPATIAL_DIMS],
                              const amp_tensor *input, const amp_dims *kernel, const amp_dims *size) {
    const int64_t largest = INT64_C(1) << 30;
    AMP_TRY(amp_pool_check_dims(call, "kernel_size", kernel, s->dims, 1, largest));
    AMP_TRY(amp_pool_check_dims(call, "output_size", size, s->dims, 1, largest));
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) extent[k] = 1;
    for (int d = 0; d < s->dims; d++) {
        extent[AMP_SPATIAL_DIMS - s->dims + d] = kernel->values[d];
        *amp_spatial_out(s, d) = size->values[d];
        if (size->values[d] + kernel->values[d] - 1 <= amp_spatial_in(s, d)) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: %lld windows of %lld elements do not fit dimension %d of input %s",
                        amp_call_name(call), (long long)size->values[d], (long long)kernel->values[d],
                        input->rank - s->dims + d, amp_describe(input));
    }
    return AMP_OK;
}

/* Without samples of the caller's: the next numbers of the process (Steele, Lea and Flood, "SplitMix", 2014), 53 bits
 * each. */
static double draw(void) {
    static _Atomic uint64_t drawn;
    uint64_t x = (atomic_fetch_add_explicit(&drawn, 1, memory_order_relaxed) + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

static amp_tensor *draw_samples(const amp_call *call, const amp_spatial *s, amp_dtype dtype) {
    const int64_t shape[] = {s->batch, s->channels, s->dims};
    amp_tensor *wide = amp_tensor_new(call->op->name, AMP_F64, 3, shape);
    amp_tensor *samples = wide ? amp_tensor_new(call->op->name, dtype, 3, shape) : NULL;
    if (!samples) return NULL;
    double *numbers = amp_tensor_pointer(wide);
    for (int64_t i = 0; i < amp_tensor_elements(wide); i++) numbers[i] = draw();
    if (amp_copy_tensor(samples, wide) != AMP_OK) return NULL;
    return call->device == AMP_DEVICE_CPU ? samples : amp_to_device(samples, call->device);
}

typedef struct request {
    amp_tensor *input, *samples;
    const amp_dims *kernel, *size;
    bool return_indices;
} request;

static amp_status run(amp_call *call, int dims, const request *r) {
    amp_spatial s;
    int64_t kernel[AMP_SPATIAL_DIMS];
    if (!amp_dtype_is_floating(r->input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(r->input));
    }
    AMP_TRY(amp_spatial_start(call, &s, r->input, dims));
    s.channels_last = false; /* the windows of each plane are its own */
    s.outer = s.batch * s.channels;
    s.inner = 1;
    AMP_TRY(set_windows(call, &s, kernel, r->input, r->kernel, r->size));
    amp_tensor *samples = r->samples ? r->samples : draw_samples(call, &s, r->input->dtype);
    if (!samples) return amp_pending_error();
    AMP_TRY(check_samples(call, &s, r->input, samples));
    return amp_steps_of(call)->pool_fractional(call, &s, r->input, samples, kernel, r->return_indices);
}

#define DEFINE(op, dims)                                                                                               \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        const request r = {a->input, a->random_samples, &a->kernel_size, &a->output_size,                              \
                           amp_wants_indices(call, a->return_indices)};                                                \
        return run(call, dims, &r);                                                                                    \
    }

DEFINE(fractional_max_pool2d, 2)

DEFINE(fractional_max_pool3d, 3)
