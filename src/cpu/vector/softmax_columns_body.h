/* Softmax down columns: the kernels of columns.h that need exponentials, compiled once per ISA and dtype behind
 * vector_body.h, whose macros read and write the elements; no include guard: one file, one ISA, one dtype.
 *
 * Formula: columns.h. A column is a lane: no step depends on where it lies or on its neighbours. Accumulator: f32 over
 * 16 rows, f64 over those sums; rows in order. Error bound: 15 · 2⁻²⁴ of a sum of exponentials, and what e^x has; one
 * product or two differences on top; bf16 results
 *              are rounded once.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      Milakov and Gimelshein, Online normalizer calculation for softmax (2018), for sums about a maximum that
 *              grows. */
#include <float.h>

enum {
    WIDE = 4,       /* vectors of columns side by side, but for the last ones, which go one by one */
    RUN = 16,       /* rows whose exponentials are added in f32 */
    KEPT_ROWS = 64, /* rows about one maximum */
    GROUP = WIDE * VL
};

/* Functions below take `count` vectors, WIDE or 1, and n columns, n < VL only where count is 1. */
#define EACH_VECTOR AMP_UNROLL for (int v = 0; v < count; v++)

AMP_ALWAYS_INLINE void load_in_order(const element *in, int64_t n, vf *x, const int count) {
    EACH_VECTOR x[v] = count == 1 && n < VL ? LOAD_FIRST(in, n) : LOAD(in + v * VL);
}
/* For store_group: which lane has which column does not matter there. */
AMP_ALWAYS_INLINE void load_group(const element *in, int64_t n, vf *x, const int count) {
    if (count == WIDE)
        load_four(in, x);
    else
        load_in_order(in, n, x, count);
}
AMP_ALWAYS_INLINE void store_group(element *out, int64_t n, const vf *x, const int count) {
    if (count == WIDE) {
        STORE_PAIR(out, x[0], x[1]);
        STORE_PAIR(out + 2 * VL, x[2], x[3]);
    } else if (n >= VL) {
        STORE(out, x[0]);
    } else {
        STORE_FIRST(out, x[0], n);
    }
}
AMP_ALWAYS_INLINE const element *row_at(const void *rows, int64_t stride, int64_t r) {
    return (const element *)(const void *)((const char *)rows + r * stride);
}

/* sum += Σ e^(term − centre) of at most RUN rows; with `keep` the terms become e^(term − centre). */
AMP_ALWAYS_INLINE void add_run(vf *sum, float *terms, int64_t rows, const vf *centre, bool keep, const int count) {
    for (int64_t r = 0; r < rows; r++) {
        EACH_VECTOR {
            float *term = terms + (r * count + v) * VL;
            const vf e = v_exp_negative(v_load(term) - centre[v]);
            sum[v] = sum[v] + e;
            if (keep) v_store(term, e);
        }
    }
}

/* The same of any number of rows, onto f64. */
AMP_ALWAYS_INLINE void add_runs(double *sum, float *terms, int64_t rows, const vf *centre, bool keep, const int count) {
    for (int64_t r = 0; r < rows; r += RUN) {
        vf part[WIDE];
        EACH_VECTOR part[v] = v_set1(0.0f);
        add_run(part, terms + r * count * VL, least(rows - r, RUN), centre, keep, count);
        EACH_VECTOR v_add_to_doubles(sum + v * VL, part[v]);
    }
}

AMP_ALWAYS_INLINE void sum_group(vf *sum, float *terms, int64_t rows, const vf *centre, bool keep, const int count) {
    EACH_VECTOR sum[v] = v_set1(0.0f);
    if (rows <= RUN) {
        add_run(sum, terms, rows, centre, keep, count);
        return;
    }
    double total[GROUP] = {0.0};
    float rounded[GROUP];
    add_runs(total, terms, rows, centre, keep, count);
    for (int i = 0; i < count * VL; i++) rounded[i] = (float)total[i];
    EACH_VECTOR sum[v] = v_load(rounded + v * VL);
}

/* ---- Whole columns -------------------------------------------------------------------------------------------- */

/* Copies the columns to `terms`; their largest elements, but for NaN, which reach the sum. */
AMP_ALWAYS_INLINE void keep_columns(float *terms, const element *in, int64_t stride, int64_t rows, int64_t n, vf *max,
                                    const int count) {
    EACH_VECTOR max[v] = v_set1(-INFINITY);
    for (int64_t r = 0; r < rows; r++) {
        vf x[WIDE];
        load_group(row_at(in, stride, r), n, x, count);
        EACH_VECTOR {
            max[v] = v_max(x[v], max[v]);
            v_store(terms + (r * count + v) * VL, x[v]);
        }
    }
}

AMP_ALWAYS_INLINE void softmax_group(element *out, int64_t out_stride, const element *in, int64_t in_stride,
                                     int64_t rows, int64_t n, float *terms, bool logarithm, const int count) {
    vf max[WIDE], factor[WIDE];
    keep_columns(terms, in, in_stride, rows, n, max, count);
    sum_group(factor, terms, rows, max, !logarithm, count);
    EACH_VECTOR {
        if (logarithm)
            factor[v] = v_log(factor[v]);
        else
            factor[v] = v_set1(1.0f) / factor[v];
    }
    for (int64_t r = 0; r < rows; r++) {
        vf y[WIDE];
        EACH_VECTOR {
            const vf term = v_load(terms + (r * count + v) * VL);
            if (logarithm)
                y[v] = term - max[v] - factor[v];
            else
                y[v] = term * factor[v];
        }
        store_group((element *)row_at(out, out_stride, r), n, y, count);
    }
}

#define DEFINE_SOFTMAX_COLUMNS(name, logarithm)                                                                        \
    void KERNEL(name)(void *results, int64_t out_stride, const void *elements, int64_t in_stride, int64_t rows,        \
                      int64_t n, float *terms) {                                                                       \
        element *out = results;                                                                                        \
        const element *in = elements;                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + GROUP <= n; i += GROUP)                                                                             \
            softmax_group(out + i, out_stride, in + i, in_stride, rows, GROUP, terms, logarithm, WIDE);                \
        for (; i < n; i += VL)                                                                                         \
            softmax_group(out + i, out_stride, in + i, in_stride, rows, least(n - i, VL), terms, logarithm, 1);        \
    }
DEFINE_SOFTMAX_COLUMNS(softmax_columns, false)
DEFINE_SOFTMAX_COLUMNS(log_softmax_columns, true)

/* ---- Parts of columns ----------------------------------------------------------------------------------------- */

/* What is subtracted: infinities are none of it, so that −∞ weighs nothing, +∞ one, and only NaN makes NaN. */
static inline vf finite_centre(vf max) {
    return v_min(v_set1(FLT_MAX), v_max(v_set1(-FLT_MAX), max));
}

/* As keep_columns, and on from the maxima of rows before. */
AMP_ALWAYS_INLINE void keep_finite(float *terms, const element *in, int64_t stride, int64_t rows, int64_t n, vf *max,
                                   const int count) {
    for (int64_t r = 0; r < rows; r++) {
        vf x[WIDE];
        load_in_order(row_at(in, stride, r), n, x, count);
        EACH_VECTOR {
            max[v] = v_max(x[v], max[v]);
            v_store(terms + (r * count + v) * VL, v_min(v_set1(FLT_MAX), x[v]));
        }
    }
}

/* The sums so far, about a maximum that has grown. */
AMP_ALWAYS_INLINE void move_sums(double *sum, const vf *from, const vf *to, const int count) {
    float factor[GROUP];
    EACH_VECTOR v_store(factor + v * VL, v_exp_negative(from[v] - to[v]));
    for (int i = 0; i < count * VL; i++) sum[i] *= (double)factor[i];
}

AMP_ALWAYS_INLINE void exponentials_group(float *max, double *sum, const element *in, int64_t stride, int64_t rows,
                                          int64_t n, bool first, const int count) {
    float terms[KEPT_ROWS * GROUP];
    double total[GROUP] = {0.0};
    vf most[WIDE], centre[WIDE];
    EACH_VECTOR most[v] = first ? v_set1(-INFINITY) : v_load_first(max + v * VL, least(n - v * VL, VL));
    EACH_VECTOR centre[v] = finite_centre(most[v]);
    for (int64_t i = 0; i < n && !first; i++) total[i] = sum[i];
    for (int64_t r = 0; r < rows; r += KEPT_ROWS) {
        const int64_t kept = least(rows - r, KEPT_ROWS);
        vf next[WIDE];
        keep_finite(terms, row_at(in, stride, r), stride, kept, n, most, count);
        EACH_VECTOR next[v] = finite_centre(most[v]);
        if (r || !first) move_sums(total, centre, next, count);
        EACH_VECTOR centre[v] = next[v];
        add_runs(total, terms, kept, centre, false, count);
    }
    EACH_VECTOR v_store_first(max + v * VL, most[v], least(n - v * VL, VL));
    for (int64_t i = 0; i < n; i++) sum[i] = total[i];
}

void KERNEL(columns_exponentials)(float *max, double *sum, const void *elements, int64_t stride, int64_t rows,
                                  int64_t n, bool first) {
    const element *in = elements;
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) exponentials_group(max + i, sum + i, in + i, stride, rows, GROUP, first, WIDE);
    for (; i < n; i += VL) exponentials_group(max + i, sum + i, in + i, stride, rows, least(n - i, VL), first, 1);
}
