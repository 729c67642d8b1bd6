/* fractional_max_pool2d, fractional_max_pool3d (Graham, "Fractional Max-Pooling", 2014): windows of one size whose
 * places follow, for every plane, from one number in [0, 1) per dimension. */
#include <stdatomic.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/cpu_steps.h"
#include "cpu/plane/pooling.h"

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

amp_status amp_cpu_pool_fractional(amp_call *call, const amp_spatial *s, amp_tensor *input, amp_tensor *samples,
                                   const int64_t kernel[AMP_SPATIAL_DIMS], bool with_places) {
    fractional f = {.s = s};
    memcpy(f.kernel, kernel, sizeof f.kernel);
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    const amp_spatial numbers = {.dims = 1, .rank = 3}; /* dense */
    amp_spatial_result result, places = {0};
    const void *in;
    AMP_TRY(amp_spatial_write(call, s, 0, input->dtype, compute, &result));
    if (with_places) AMP_TRY(amp_spatial_write(call, s, 1, AMP_I64, AMP_I64, &places));
    AMP_TRY(amp_spatial_read(call, s, input, compute, &in));
    AMP_TRY(amp_spatial_read(call, &numbers, samples, compute, &f.samples));
    f.function = amp_pool_maximum(compute);
    f.in = in;
    f.out = result.data;
    f.indices = places.data;
    f.is_double = compute == AMP_F64;
    f.size = (int64_t)amp_dtype_size(compute);
    const int64_t cost = s->out[0] * s->out[1] * s->out[2] * f.kernel[0] * f.kernel[1] * f.kernel[2];
    AMP_TRY(amp_spatial_run(call, s->outer, cost, (size_t)(s->out[0] + s->out[1] + s->out[2]) * sizeof(amp_window),
                            pool_planes, &f));
    return amp_spatial_finish(&result);
}
