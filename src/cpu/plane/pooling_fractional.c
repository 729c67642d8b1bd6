/* fractional_max_pool2d, fractional_max_pool3d (Graham, "Fractional Max-Pooling", 2014): windows of one size whose
 * places follow, for every plane, from one number in [0, 1) per dimension. */
#include <stdatomic.h>

#include "amp/ops.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/plane/pooling.h"
#include "cuda/ops/cuda_windows.h"

typedef struct fractional {
    const amp_spatial *s;
    amp_pool_line_function *function;
    const void *samples; /* (N, C, dims) in the compute type */
    const char *in;
    char *out;
    int64_t *indices;
    bool is_double;
    int64_t size, kernel[AMP_SPATIAL_DIMS];
} fractional;

/* A sample from outside of [0, 1), or NaN, may give any number. */
static int64_t whole(double x) {
    return x > -0x1p62 && x < 0x1p62 ? (int64_t)x : 0;
}

/* Start of window i < n − 1, with the roundings of the type that PyTorch computes in; the last window ends with the
 * input. */
static int64_t start_f64(double sample, int64_t i, int64_t room, int64_t n) {
    const double alpha = (double)room / (double)(n - 1);
    return whole(((double)i + sample) * alpha) - whole(sample * alpha);
}
static int64_t start_f32(float sample, int64_t i, int64_t room, int64_t n) {
    const float alpha = (float)room / (float)(n - 1);
    return whole((double)(((float)i + sample) * alpha)) - whole((double)(sample * alpha));
}

static int64_t clip(int64_t i, int64_t most) {
    return i < 0 ? 0 : i > most ? most : i;
}

/* Samples are ordered W, H in two dimensions, and D, H, W in three. */
static void place_windows(const fractional *f, int64_t plane, amp_window *windows, const amp_window **tables) {
    const amp_spatial *s = f->s;
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        const int order = s->dims == 2 ? AMP_SPATIAL_DIMS - 1 - k : k;
        const int64_t at = plane * s->dims + order, n = s->out[k], room = s->in[k] - f->kernel[k];
        tables[k] = windows;
        for (int64_t i = 0; i < n; i++, windows++) {
            int64_t start = room;
            if (i < n - 1) {
                start = f->is_double ? start_f64(((const double *)f->samples)[at], i, room, n)
                                     : start_f32(((const float *)f->samples)[at], i, room, n);
            }
            *windows = (amp_window){.start = clip(start, room), .count = f->kernel[k]};
        }
    }
}

static void pool_planes(void *context, int64_t begin, int64_t end, void *windows) {
    const fractional *f = context;
    const amp_spatial *s = f->s;
    amp_pool pool = {.s = *s, .step = {1, 1, 1}};
    const int64_t plane_size = s->in[0] * s->in[1] * s->in[2], lines = s->out[0] * s->out[1];
    for (int64_t plane = begin; plane < end; plane++) {
        place_windows(f, plane, windows, pool.windows);
        for (int64_t k = 0; k < lines; k++) {
            const int64_t to = (plane * lines + k) * s->out[2];
            f->function(&(amp_pool_line){.pool = &pool,
                                         .d = &pool.windows[0][k / s->out[1]],
                                         .h = &pool.windows[1][k % s->out[1]],
                                         .in = f->in + plane * plane_size * f->size,
                                         .out = f->out + to * f->size,
                                         .indices = f->indices ? f->indices + to : NULL});
        }
    }
}

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

static amp_status set_windows(const amp_call *call, amp_spatial *s, fractional *f, const amp_tensor *input,
                              const amp_dims *kernel, const amp_dims *size) {
    const int64_t largest = INT64_C(1) << 30;
    AMP_TRY(amp_pool_check_dims(call, "kernel_size", kernel, s->dims, 1, largest));
    AMP_TRY(amp_pool_check_dims(call, "output_size", size, s->dims, 1, largest));
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) f->kernel[k] = 1;
    for (int d = 0; d < s->dims; d++) {
        f->kernel[AMP_SPATIAL_DIMS - s->dims + d] = kernel->values[d];
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
    if (amp_cpu_copy(samples, wide) != AMP_OK) return NULL;
    return call->device == AMP_DEVICE_CPU ? samples : amp_to_device(samples, call->device);
}

typedef struct request {
    amp_tensor *input, *samples;
    const amp_dims *kernel, *size;
    bool return_indices;
} request;

static amp_status run(amp_call *call, int dims, const request *r) {
    amp_spatial s;
    fractional f = {.s = &s};
    if (!amp_dtype_is_floating(r->input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(r->input));
    }
    AMP_TRY(amp_spatial_start(call, &s, r->input, dims));
    s.channels_last = false; /* the windows of each plane are its own */
    s.outer = s.batch * s.channels;
    s.inner = 1;
    AMP_TRY(set_windows(call, &s, &f, r->input, r->kernel, r->size));
    amp_tensor *samples = r->samples ? r->samples : draw_samples(call, &s, r->input->dtype);
    if (!samples) return amp_pending_error();
    AMP_TRY(check_samples(call, &s, r->input, samples));
    if (call->device == AMP_DEVICE_CUDA)
        return amp_cuda_pool_fractional(call, &s, r->input, samples, f.kernel, r->return_indices);
    const amp_dtype compute = amp_compute_dtype(r->input->dtype);
    const amp_spatial numbers = {.dims = 1, .rank = 3}; /* dense */
    amp_spatial_result result, places = {0};
    const void *in;
    AMP_TRY(amp_spatial_write(call, &s, 0, r->input->dtype, compute, &result));
    if (r->return_indices) AMP_TRY(amp_spatial_write(call, &s, 1, AMP_I64, AMP_I64, &places));
    AMP_TRY(amp_spatial_read(call, &s, r->input, compute, &in));
    AMP_TRY(amp_spatial_read(call, &numbers, samples, compute, &f.samples));
    f.function = amp_pool_maximum(compute);
    f.in = in;
    f.out = result.data;
    f.indices = places.data;
    f.is_double = compute == AMP_F64;
    f.size = (int64_t)amp_dtype_size(compute);
    const int64_t cost = s.out[0] * s.out[1] * s.out[2] * f.kernel[0] * f.kernel[1] * f.kernel[2];
    AMP_TRY(amp_spatial_run(call, s.outer, cost, (size_t)(s.out[0] + s.out[1] + s.out[2]) * sizeof(amp_window),
                            pool_planes, &f));
    return amp_spatial_finish(&result);
}

#define DEFINE(op, dims)                                                                                               \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const request r = {a->input, a->random_samples, &a->kernel_size, &a->output_size,                              \
                           amp_wants_indices(call, a->return_indices)};                                                \
        return run(call, dims, &r);                                                                                    \
    }
DEFINE(fractional_max_pool2d, 2)
DEFINE(fractional_max_pool3d, 3)
