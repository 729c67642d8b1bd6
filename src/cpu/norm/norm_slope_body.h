/* The kernels that apply the statistics of channels, and those of gradients of norms and of softmax (channel.h), compiled
 * once per ISA over simd_<isa>.h, for f32 and, where NORM_BF16 is defined, for input, gradient and result in bf16; no
 * include guard: one file, one ISA and dtype.
 *
 * Formula: channel.h. Accumulator: f32 lanes over blocks of 64 vectors, each about its own mean, or over 64 rows of
 * columns; f64 over blocks. dweight and
 *              dbias: f32, row after row.
 * Error bound: sums over a block to 70 · 2⁻²⁴ of Σ|terms|; an element of a row to 8 · 2⁻²⁴ of the terms that it is the
 * sum of, rounded
 *              once. standardize: three roundings, one of them of x − mean, and bf16's.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      the derivatives; Chan, Golub and LeVeque for moments, as channel_body.h has them. */
#include <math.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"
#ifdef NORM_BF16
#define VECTOR_BF16
#endif
#include "cpu/simd/vmath_body.h"

#define PASTE_(name, dtype, isa) amp_##name##_##dtype##_##isa
#define PASTE(name, dtype, isa) PASTE_(name, dtype, isa)
#ifdef NORM_BF16
#define KERNEL(name) PASTE(name, bf16, SIMD_ISA)
typedef uint16_t element;
#define ELEMENT(f32, bf16) bf16
#else
#define KERNEL(name) PASTE(name, f32, SIMD_ISA)
typedef float element;
#define ELEMENT(f32, bf16) f32
#endif

enum { BLOCK = 64 * VL };

/* Elements [i, i + VL) of n; what lies beyond the end is 0, and is not written. With n = i + VL the test goes. */
AMP_ALWAYS_INLINE vf load(const element *in, int64_t i, int64_t n) {
    return i + VL <= n ? ELEMENT(v_load, v_load_bf16)(in + i) : ELEMENT(v_load_first, v_load_bf16_first)(in + i, n - i);
}
AMP_ALWAYS_INLINE void store(element *out, int64_t i, int64_t n, vf x) {
    if (i + VL <= n)
        ELEMENT(v_store, v_store_bf16)(out + i, x);
    else
        ELEMENT(v_store_first, v_store_bf16_first)(out + i, x, n - i);
}
/* The same of parameters, which are f32. */
AMP_ALWAYS_INLINE vf load_number(const float *in, int64_t i, int64_t n) {
    return i + VL <= n ? v_load(in + i) : v_load_first(in + i, n - i);
}
AMP_ALWAYS_INLINE void add_number(float *to, int64_t i, int64_t n, vf x) {
    if (i + VL <= n)
        v_store(to + i, v_load(to + i) + x);
    else
        v_store_first(to + i, v_load_first(to + i, n - i) + x, n - i);
}
AMP_ALWAYS_INLINE vf load_weighted(const element *d, const float *weight, int64_t i, int64_t n) {
    const vf g = load(d, i, n);
    return weight ? (vf)(g * load_number(weight, i, n)) : g;
}

/* ---- Sums of rows ------------------------------------------------------------------------------------------------- */
static inline float block_mean(const element *x, int64_t n) {
    vf sum[4] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        AMP_UNROLL
        for (int k = 0; k < 4; k++) sum[k] = sum[k] + load(x, i + k * VL, i + (k + 1) * VL);
    }
    for (; i < n; i += VL) sum[0] = sum[0] + load(x, i, n);
    return (float)((double)v_sum((sum[0] + sum[1]) + (sum[2] + sum[3])) / (double)n);
}

/* Σ (x − mean), Σ (x − mean)², Σ g, Σ g·(x − mean) of a block, lane by lane. */
typedef struct lanes {
    vf x, squares, d, dot;
} lanes;

AMP_ALWAYS_INLINE lanes add_vector(lanes s, const element *x, const element *d, const float *weight, float mean,
                                   int64_t i, int64_t n) {
    const vf centre = v_set1(mean), y = load(x, i, n) - centre, g = load_weighted(d, weight, i, n);
    const vf inside = i + VL <= n ? y : v_keep_first(y, n - i, v_set1(0.0f));
    return (lanes){s.x + inside, v_fma(inside, inside, s.squares), s.d + g, v_fma(g, inside, s.dot)};
}

/* g = d·weight or, without one, d. */
static amp_slope_sums block_sums(const element *x, const element *d, const float *weight, int64_t n) {
    const float mean = block_mean(x, n);
    const vf zero = v_set1(0.0f);
    lanes s[2] = {{zero, zero, zero, zero}, {zero, zero, zero, zero}};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        s[0] = add_vector(s[0], x, d, weight, mean, i, i + VL);
        s[1] = add_vector(s[1], x, d, weight, mean, i + VL, i + 2 * VL);
    }
    for (; i < n; i += VL) s[0] = add_vector(s[0], x, d, weight, mean, i, n);
    const double count = (double)n, total = (double)v_sum(s[0].d + s[1].d);
    const double rest = (double)v_sum(s[0].x + s[1].x) / count; /* what rounding took from the mean */
    const double spread = (double)v_sum(s[0].squares + s[1].squares) - rest * rest * count;
    return (amp_slope_sums){{count, (double)mean + rest, spread < 0.0 ? 0.0 : spread},
                            total,
                            (double)v_sum(s[0].dot + s[1].dot) - rest * total};
}

static amp_slope_sums add_blocks(amp_slope_sums sums, const element *x, const element *d, const float *weight,
                                 int64_t n) {
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        sums = amp_slope_sums_join(sums, block_sums(x + i, d + i, weight ? weight + i : NULL, count));
    }
    return sums;
}

void KERNEL(slope_sums)(amp_slope_sums *sums, const void *x, const void *d, int64_t n) {
    *sums = add_blocks(*sums, x, d, NULL, n);
}

/* ---- Sums of columns ---------------------------------------------------------------------------------------------- */
void KERNEL(slope_columns)(double *sums, int64_t step, const void *x, const void *d, const float *centre, int64_t rows,
                           int64_t n) {
    const vf zero = v_set1(0.0f);
    for (int64_t i = 0; i < n; i += VL) {
        const vf middle = load_number(centre, i, n);
        const element *px = x, *pd = d;
        vf total[AMP_SLOPE_COLUMN_SUMS] = {zero, zero, zero, zero};
        for (int64_t r = 0; r < rows; r++, px += n, pd += n) {
            const vf y = load(px, i, n) - middle, g = load(pd, i, n);
            __builtin_prefetch(px + rows * n +
                               i); /* of the rows that mostly come next: no prefetcher sees this order */
            __builtin_prefetch(pd + rows * n + i);
            total[0] = total[0] + y;
            total[1] = v_fma(y, y, total[1]);
            total[2] = total[2] + g;
            total[3] = v_fma(g, y, total[3]);
        }
        for (int s = 0; s < AMP_SLOPE_COLUMN_SUMS; s++) {
            float values[VL];
            if (i + VL <= n) {
                v_add_to_doubles(sums + s * step + i, total[s]);
                continue;
            }
            v_store(values, total[s]);
            for (int64_t k = i; k < n; k++) sums[s * step + k] += (double)values[k - i];
        }
    }
}

/* ---- Elements ----------------------------------------------------------------------------------------------------- */
void KERNEL(standardize_row)(void *out, const void *in, const amp_standardize_numbers *p, int64_t n) {
    const vf m = v_set1(*p->mean), s = v_set1(*p->scale), t = v_set1(*p->shift), least = v_set1(p->least);
    int64_t i = 0;
    for (; i + VL <= n; i += VL) store(out, i, i + VL, v_max(least, v_fma(load(in, i, i + VL) - m, s, t)));
    if (i < n) store(out, i, n, v_max(least, v_fma(load(in, i, n) - m, s, t)));
}

void KERNEL(standardize_columns)(void *out, const void *in, const amp_standardize_numbers *p, int64_t n) {
    const vf least = v_set1(p->least);
    for (int64_t i = 0; i < n; i += VL) {
        const vf x = load(in, i, n) - load_number(p->mean, i, n);
        store(out, i, n, v_max(least, v_fma(x, load_number(p->scale, i, n), load_number(p->shift, i, n))));
    }
}

void KERNEL(norm_slope_row)(void *out, const void *x, const void *d, const amp_norm_slope_numbers *p, int64_t n) {
    const vf m = v_set1(*p->mean), a = v_set1(*p->a), b = v_set1(*p->b), c = v_set1(*p->c);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        store(out, i, i + VL, v_fma(load(d, i, i + VL), a, v_fma(load(x, i, i + VL) - m, b, c)));
    if (i < n) store(out, i, n, v_fma(load(d, i, n), a, v_fma(load(x, i, n) - m, b, c)));
}

void KERNEL(norm_slope_columns)(void *out, const void *x, const void *d, const amp_norm_slope_numbers *p, int64_t n) {
    for (int64_t i = 0; i < n; i += VL) {
        const vf y = load(x, i, n) - load_number(p->mean, i, n);
        const vf rest = v_fma(y, load_number(p->b, i, n), load_number(p->c, i, n));
        store(out, i, n, v_fma(load(d, i, n), load_number(p->a, i, n), rest));
    }
}

/* ---- Rows of layer_norm ------------------------------------------------------------------------------------------- */
/* What an element's gradient is made of, (g − c − x̂·dot)·rstd with x̂ = (x − mean)·rstd + shift: the shift is what
 * rounding took from the mean. Of a row of one element that is 0. */
typedef struct line {
    float mean, rstd, c, dot, shift;
} line;

static line line_of(const element *x, const element *d, const amp_norm_row *row, int64_t n) {
    const amp_slope_sums none = {{0.0, 0.0, 0.0}, 0.0, 0.0}, s = add_blocks(none, x, d, row->weight, n);
    const amp_moments *m = &s.moments;
    const double mean = row->is_centred ? m->mean : 0.0, off = m->mean - mean;
    const double rstd = 1.0 / sqrt(m->squares / m->count + off * off + row->eps);
    const double dot = (s.dot + off * s.d) * rstd / m->count, c = row->is_centred ? s.d / m->count : 0.0;
    return (line){(float)mean, (float)rstd, (float)c, (float)dot, (float)(((double)(float)mean - mean) * rstd)};
}

void KERNEL(norm_row_slope)(void *out, const void *x, const void *d, const amp_norm_row *row, int64_t n) {
    if (n == 0) return;
    const line l = line_of(x, d, row, n);
    const vf mean = v_set1(l.mean), rstd = v_set1(l.rstd), c = v_set1(l.c), dot = v_set1(-l.dot),
             shift = v_set1(l.shift);
    for (int64_t i = 0; i < n; i += VL) {
        const vf dy = load(d, i, n), y = v_fma(load(x, i, n) - mean, rstd, shift);
        const vf g = row->weight ? (vf)(dy * load_number(row->weight, i, n)) : dy;
        if (row->dweight) add_number(row->dweight, i, n, dy * y);
        if (row->dbias) add_number(row->dbias, i, n, dy);
        store(out, i, n, v_fma(y, dot, g - c) * rstd);
    }
}

/* ---- Rows of softmax ---------------------------------------------------------------------------------------------- */
AMP_ALWAYS_INLINE vf add_term(vf sum, const element *d, const element *y, int64_t i, int64_t n, bool logarithm) {
    const vf x = load(d, i, n);
    return logarithm ? (vf)(sum + x) : v_fma(x, load(y, i, n), sum);
}

/* Σ d, or Σ d·y. */
AMP_ALWAYS_INLINE double row_sum(const element *d, const element *y, int64_t n, bool logarithm) {
    double sum = 0.0;
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        const int64_t end = n - begin < BLOCK ? n : begin + BLOCK;
        vf lanes[4] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};
        int64_t i = begin;
        for (; i + 4 * VL <= end; i += 4 * VL) {
            AMP_UNROLL
            for (int k = 0; k < 4; k++) lanes[k] = add_term(lanes[k], d, y, i + k * VL, i + (k + 1) * VL, logarithm);
        }
        for (; i < end; i += VL) lanes[0] = add_term(lanes[0], d, y, i, n, logarithm);
        sum += (double)v_sum((lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
    }
    return sum;
}

void KERNEL(softmax_slope)(void *out, const void *d, const void *y, int64_t n) {
    const vf sum = v_set1((float)row_sum(d, y, n, false));
    int64_t i = 0;
    for (; i + VL <= n; i += VL) store(out, i, i + VL, load(y, i, i + VL) * (load(d, i, i + VL) - sum));
    if (i < n) store(out, i, n, load(y, i, n) * (load(d, i, n) - sum));
}

void KERNEL(log_softmax_slope)(void *out, const void *d, const void *y, int64_t n) {
    const vf sum = v_set1(-(float)row_sum(d, y, n, true));
    int64_t i = 0;
    for (; i + VL <= n; i += VL) store(out, i, i + VL, v_fma(v_exp(load(y, i, i + VL)), sum, load(d, i, i + VL)));
    if (i < n) store(out, i, n, v_fma(v_exp(load(y, i, n)), sum, load(d, i, n)));
}
