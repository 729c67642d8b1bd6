/* Separable resampling: along the row and down the lines in whichever order is less work. */
#include "cpu/resample.h"

#include <math.h>
#include <string.h>

#include "cpu/element.h"

typedef struct resample {
    const amp_spatial *s;
    const amp_taps *taps;
    const void *weights[AMP_SPATIAL_DIMS]; /* in the type computed in */
    const void *in;
    void *out;
    int64_t size;
    int64_t lines;   /* under one output line, at most */
    bool down_first; /* else each line of the input goes along the row first */
    bool round;      /* to a byte */
} resample;

/* What a thread has for itself. */
typedef struct workspace {
    int64_t *lines, *kept;
    const void **pointers;
    void *weights, *rows;
} workspace;

static int64_t row_elements(const resample *r) {
    return (r->down_first ? r->s->in[2] : r->lines * r->s->out[2]) * r->s->inner;
}

static size_t scratch_bytes(const resample *r) {
    return (size_t)(r->lines * 4) * sizeof(int64_t) + (size_t)(row_elements(r) * r->size);
}

static workspace divide_scratch(const resample *r, void *scratch) {
    int64_t *numbers = scratch;
    const workspace w = {.lines = numbers,
                         .kept = numbers + r->lines,
                         .pointers = (const void **)(void *)(numbers + 2 * r->lines),
                         .weights = numbers + 3 * r->lines,
                         .rows = numbers + 4 * r->lines};
    for (int64_t k = 0; k < r->lines; k++) w.kept[k] = -1;
    return w;
}

static double rounded_byte(double x) {
    return x > 0.0 ? x < 255.0 ? nearbyint(x) : 255.0 : 0.0;
}

/* ---- Sums ----------------------------------------------------------------------------------------------------- */

/* DEFINE(name, type): out = Σ weights[k]·in[k]; and a line of W pixels to one of W' pixels. */
#define DEFINE(name, type)                                                                                             \
    static void combine_##name(const resample *r, type *restrict out, const void *const *in, const type *weights,      \
                               int64_t count, int64_t n) {                                                             \
        (void)r;                                                                                                       \
        for (int64_t k = 0; k < count; k++) {                                                                          \
            const type *restrict x = in[k];                                                                            \
            const type w = weights[k];                                                                                 \
            for (int64_t i = 0; i < n; i++) out[i] = k ? out[i] + w * x[i] : w * x[i];                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void along_##name(const resample *r, type *restrict out, const type *restrict in) {                         \
        const amp_taps *t = &r->taps[2];                                                                               \
        const int64_t inner = r->s->inner, n = r->s->out[2];                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int64_t *index = t->index + i * t->most;                                                             \
            const type *w = (const type *)r->weights[2] + i * t->most;                                                 \
            for (int64_t c = 0; c < inner; c++) {                                                                      \
                type sum = w[0] * in[index[0] * inner + c];                                                            \
                for (int64_t k = 1; k < t->counts[i]; k++) sum += w[k] * in[index[k] * inner + c];                     \
                out[i * inner + c] = sum;                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE(f32, float)
DEFINE(f64, double)

#define TYPE float
#define NAME(x) x##_f32
#include "cpu/resample_body.h"
#define TYPE double
#define NAME(x) x##_f64
#include "cpu/resample_body.h"

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

amp_status amp_resample(amp_call *call, const amp_spatial *s, amp_tensor *input,
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
    r.down_first = r.lines == 1 || s->in[0] * s->in[1] >= s->out[0] * s->out[1];
    AMP_TRY(convert_weights(call, &r));
    const int64_t cost = s->out[2] * s->inner * (taps[2].most + r.lines / 4 + 1);
    AMP_TRY(amp_spatial_run(call, amp_spatial_row_count(s), cost, scratch_bytes(&r),
                            compute == AMP_F32 ? rows_f32 : rows_f64, &r));
    return amp_spatial_finish(&result);
}
