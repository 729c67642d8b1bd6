/* Separable resampling: along the row and down the lines in whichever order is less work. */
#include "cpu/plane/resample.h"

#include <math.h>
#include <string.h>

#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"

typedef struct resample {
    const amp_spatial *s;
    const amp_taps *taps;
    const void *weights[AMP_SPATIAL_DIMS]; /* in the type computed in */
    const void *in;
    void *out;
    int64_t size;
    const int32_t
        *columns; /* taps[2].index where there is one channel: tap k of column i at k·n + i, −1 where it has … */
    const void *column_weights; /* … fewer */
    amp_lines_function *combine;
    amp_gather_taps_function *gather;
    int64_t lines;   /* under one output line, at most */
    bool down_first; /* else each line of the input goes along the row first */
    bool round;      /* to a byte, after each pass and along the row first, as PyTorch does */
} resample;

/* What a thread has for itself. */
typedef struct workspace {
    int64_t *lines, *kept;
    const void **pointers, **pixels;
    void *weights, *rows;
} workspace;

static int64_t row_elements(const resample *r) {
    return (r->down_first ? r->s->in[2] : r->lines * r->s->out[2]) * r->s->inner;
}

static size_t scratch_bytes(const resample *r) {
    return (size_t)(r->lines * 4 + r->taps[2].most) * sizeof(int64_t) + (size_t)(row_elements(r) * r->size);
}

static workspace divide_scratch(const resample *r, void *scratch) {
    int64_t *numbers = scratch;
    const workspace w = {.lines = numbers,
                         .kept = numbers + r->lines,
                         .pointers = (const void **)(void *)(numbers + 2 * r->lines),
                         .pixels = (const void **)(void *)(numbers + 3 * r->lines),
                         .weights = numbers + 3 * r->lines + r->taps[2].most,
                         .rows = numbers + 4 * r->lines + r->taps[2].most};
    for (int64_t k = 0; k < r->lines; k++) w.kept[k] = -1;
    return w;
}

static double rounded_byte(double x) {
    return x > 0.0 ? x < 255.0 ? floor(x + 0.5) : 255.0 : 0.0;
}

/* ---- Sums ----------------------------------------------------------------------------------------------------- */

/* DEFINE(name, type, …): out = Σ weights[k]·in[k]; the same of elements by their indices; and a line of W pixels to one
 * of W' pixels. */
static void combine_f64(const resample *r, double *restrict out, const void *const *in, const double *weights,
                        int64_t count, int64_t n) {
    (void)r;
    for (int64_t k = 0; k < count; k++) {
        const double *restrict x = in[k];
        for (int64_t i = 0; i < n; i++) out[i] = k ? out[i] + weights[k] * x[i] : weights[0] * x[i];
    }
}
static void combine_f32(const resample *r, float *out, const void *const *in, const float *weights, int64_t count,
                        int64_t n) {
    r->combine(out, (const float *const *)in, weights, count, n);
}

static void gather_f64(const resample *r, double *restrict out, const double *in) {
    const int64_t n = r->s->out[2];
    const double *weights = r->column_weights;
    for (int64_t i = 0; i < n; i++) {
        out[i] = 0.0;
        for (int64_t k = i; r->columns[k] >= 0; k += n) {
            out[i] += weights[k] * in[r->columns[k]];
            if (k + n >= n * r->taps[2].most) break;
        }
    }
}
static void gather_f32(const resample *r, float *out, const float *in) {
    r->gather(out, in, r->columns, r->column_weights, r->taps[2].most, r->s->out[2]);
}

#define TYPE float
#define NAME(x) x##_f32
#include "cpu/plane/resample_body.h"
#define TYPE double
#define NAME(x) x##_f64
#include "cpu/plane/resample_body.h"

/* ---- Running -------------------------------------------------------------------------------------------------- */

amp_status amp_taps_make(const amp_call *call, int64_t elements, int64_t most, amp_taps *taps) {
    int64_t room;
    if (__builtin_mul_overflow(elements, most, &room)) room = INT64_MAX;
    taps->most = most;
    taps->counts = amp_spatial_table(call, elements, sizeof *taps->counts);
    taps->index = taps->counts ? amp_spatial_table(call, room, sizeof *taps->index) : NULL;
    taps->weights = taps->index ? amp_spatial_table(call, room, sizeof *taps->weights) : NULL;
    return taps->weights ? AMP_OK : amp_pending_error();
}

/* The taps of columns, transposed for the gathering kernels. */
static amp_status make_columns(const amp_call *call, resample *r) {
    const amp_taps *t = &r->taps[2];
    const int64_t n = r->s->out[2];
    if (r->s->inner > 1) return AMP_OK;
    if (r->s->in[2] > INT32_MAX) {
        return amp_fail(AMP_ERROR_INVALID, "%s: rows of %lld elements; at most 2³¹ − 1 are possible",
                        amp_call_name(call), (long long)r->s->in[2]);
    }
    int32_t *columns = amp_spatial_table(call, n * t->most, sizeof *columns);
    char *weights = columns ? amp_spatial_table(call, n * t->most, (size_t)r->size) : NULL;
    if (!weights) return amp_pending_error();
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < t->most; k++) {
            const bool used = k < t->counts[i];
            columns[k * n + i] = used ? (int32_t)t->index[i * t->most + k] : -1;
            const double w = used ? t->weights[i * t->most + k] : 0.0;
            if (r->size == sizeof(double))
                ((double *)(void *)weights)[k * n + i] = w;
            else
                ((float *)(void *)weights)[k * n + i] = (float)w;
        }
    }
    r->columns = columns;
    r->column_weights = weights;
    return AMP_OK;
}

/* The weights in the type that is computed in. */
static amp_status convert_weights(const amp_call *call, resample *r) {
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        r->weights[k] = r->taps[k].weights;
        if (r->size == sizeof(double)) continue;
        const int64_t count = r->s->out[k] * r->taps[k].most;
        float *narrow = amp_spatial_table(call, count, sizeof *narrow);
        if (!narrow) return amp_pending_error();
        for (int64_t i = 0; i < r->s->out[k]; i++) {
            for (int64_t t = 0; t < r->taps[k].counts[i]; t++) {
                const int64_t at = i * r->taps[k].most + t;
                narrow[at] = (float)r->taps[k].weights[at];
            }
        }
        r->weights[k] = narrow;
    }
    return AMP_OK;
}

amp_status amp_cpu_resample(amp_call *call, const amp_spatial *s, amp_tensor *input,
                            const amp_taps taps[AMP_SPATIAL_DIMS]) {
    const amp_dtype compute = input->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
    amp_spatial_result result;
    const void *in;
    AMP_TRY(amp_spatial_write(call, s, 0, input->dtype, compute, &result));
    AMP_TRY(amp_spatial_read(call, s, input, compute, &in));
    resample r = {.s = s, .taps = taps, .in = in, .out = result.data, .round = input->dtype == AMP_U8};
    r.size = (int64_t)amp_dtype_size(compute);
    r.lines = taps[0].most * taps[1].most;
    /* Enlarging, an input line serves several output lines; shrinking, many of its pixels would serve none. */
    r.down_first = r.lines == 1 || (s->in[0] * s->in[1] >= s->out[0] * s->out[1] && !r.round);
    AMP_TRY(convert_weights(call, &r));
    AMP_TRY(make_columns(call, &r));
    const amp_kernel *combine = amp_kernel_select(AMP_KERNEL_COMBINE_LINES, AMP_F32, AMP_F32);
    if (!combine) return amp_pending_error();
    r.combine = (amp_lines_function *)combine->function;
    r.gather = (amp_gather_taps_function *)amp_kernel_get(AMP_KERNEL_GATHER_TAPS, AMP_F32, AMP_F32);
    if (!r.gather) return amp_pending_error();
    if (compute == AMP_F32) call->note.kernel = combine->name;
    const int64_t cost = s->out[2] * s->inner * (taps[2].most + r.lines / 4 + 1);
    AMP_TRY(amp_spatial_run(call, amp_spatial_row_count(s), cost, scratch_bytes(&r),
                            compute == AMP_F32 ? rows_f32 : rows_f64, &r));
    return amp_spatial_finish(&result);
}
