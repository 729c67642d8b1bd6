/* The dense kernels of vector.h, compiled once per ISA over simd_<isa>.h, for f32 and, where VECTOR_BF16 is defined,
 * for bf16 on both sides, which is widened and rounded in registers; no include guard: one file, one ISA, one dtype.
 *
 * Formula:     vector.h, by the function's name.
 * Accumulator: f32 lanes over blocks of 64 vectors (four accumulators, or two), folded as a tree; f64 over blocks.
 * Error bound: elementwise in ulp, test_vmath.cc. A sum: 24 · 2⁻²⁴ · Σ|x| for any n, as at most 18 values meet
 *              in a lane, then 2 + log₂ VL sums of lanes; squares and deviations: one more rounding each. Rows: those
 *              of their sums, of e^x and of one product; bf16 results are rounded once on top.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before.
 * Source:      Higham, Accuracy and Stability of Numerical Algorithms, section 4.2 (sums of blocks). */
#include <math.h>
#include <string.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"
#include "cpu/simd/vmath_more_body.h"

#define PASTE_(name, dtype, isa) amp_##name##_##dtype##_##isa
#define PASTE(name, dtype, isa) PASTE_(name, dtype, isa)
#ifdef VECTOR_BF16
typedef uint16_t element;
#define KERNEL(name) PASTE(name, bf16, SIMD_ISA)
#define LOAD v_load_bf16
#define LOAD_FIRST v_load_bf16_first
#define STORE v_store_bf16
#define STORE_FIRST v_store_bf16_first
#define LOAD_PAIR v_load_bf16_pair /* even and odd elements apart: the fewest steps to widen and to round */
#define STORE_PAIR v_store_bf16_pair
#else
typedef float element;
#define KERNEL(name) PASTE(name, f32, SIMD_ISA)
#define LOAD v_load
#define LOAD_FIRST v_load_first
#define STORE v_store
#define STORE_FIRST v_store_first
#define LOAD_PAIR load_pair
#define STORE_PAIR store_pair
static inline void load_pair(const float *in, vf *low, vf *high) {
    *low = v_load(in);
    *high = v_load(in + VL);
}
static inline void store_pair(float *out, vf low, vf high) {
    v_store(out, low);
    v_store(out + VL, high);
}
#endif
static inline void load_four(const element *in, vf v[4]) {
    LOAD_PAIR(in, &v[0], &v[1]);
    LOAD_PAIR(in + 2 * VL, &v[2], &v[3]);
}

/* ---- Elementwise ---------------------------------------------------------------------------------------------- */

static inline vf v_neg(vf x) {
    return v_from_bits(v_bits(x) ^ v_set1_int((int32_t)0x80000000u));
}
static inline vf v_rsqrt(vf x) {
    return v_set1(1.0f) / v_sqrt(x);
}
static inline vf v_reciprocal(vf x) {
    return v_set1(1.0f) / x;
}
static inline vf v_square(vf x) {
    return x * x;
}

/* A function of up to three elements and a number. */
typedef vf element_function(vf x, vf y, vf z, vf number);

typedef struct operands {
    const element *a, *b, *c; /* NULL: the number (for b: the second one) for each of them */
    vf number, second;
} operands;

static inline vf first_of(const element *in, int64_t i, int64_t n, vf number) {
    return in ? LOAD_FIRST(in + i, n) : number;
}

static inline void pair_of(const element *in, int64_t i, vf number, vf *x, vf *y) {
    *x = *y = number;
    if (in) LOAD_PAIR(in + i, x, y);
}
static inline __attribute__((always_inline)) int64_t each_whole(element *out, operands o, int64_t n,
                                                                element_function *f) {
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        vf x[2], y[2], z[2];
        pair_of(o.a, i, o.number, &x[0], &x[1]);
        pair_of(o.b, i, o.second, &y[0], &y[1]);
        pair_of(o.c, i, o.number, &z[0], &z[1]);
        STORE_PAIR(out + i, f(x[0], y[0], z[0], o.number), f(x[1], y[1], z[1], o.number));
    }
    return i;
}
static inline __attribute__((always_inline)) void each(element *out, operands o, int64_t n, element_function *f) {
    for (int64_t i = each_whole(out, o, n, f); i < n; i += VL) {
        const int64_t left = n - i < VL ? n - i : VL;
        const vf x = first_of(o.a, i, left, o.number), y = first_of(o.b, i, left, o.second);
        STORE_FIRST(out + i, f(x, y, first_of(o.c, i, left, o.number), o.number), left);
    }
}

#define DEFINE_UNARY(NAME, name)                                                                                       \
    static inline vf unary_##name(vf x, vf y, vf z, vf number) {                                                       \
        return (void)y, (void)z, (void)number, v_##name(x);                                                            \
    }                                                                                                                  \
    void KERNEL(name)(void *out, const void *in, int64_t n) {                                                          \
        each(out, (operands){.a = in}, n, unary_##name);                                                               \
    }
AMP_VECTOR_UNARY(DEFINE_UNARY)

#define DEFINE_UNARY_WITH(NAME, name)                                                                                  \
    static inline vf unary_##name(vf x, vf p, vf z, vf q) {                                                            \
        return (void)z, v_with_##name(x, p, q);                                                                        \
    }                                                                                                                  \
    void KERNEL(name)(void *out, const void *in, int64_t n, float p, float q) {                                        \
        each(out, (operands){.a = in, .number = v_set1(q), .second = v_set1(p)}, n, unary_##name);                     \
    }
AMP_VECTOR_UNARY_WITH(DEFINE_UNARY_WITH)

static inline vf v_op_add(vf a, vf b, vf s) {
    return (void)s, a + b;
}
static inline vf v_op_sub(vf a, vf b, vf s) {
    return (void)s, a - b;
}
static inline vf v_op_add_scaled(vf a, vf b, vf s) {
    return v_fma(b, s, a);
}
static inline vf v_op_mul(vf a, vf b, vf s) {
    return (void)s, a * b;
}
static inline vf v_op_div(vf a, vf b, vf s) {
    return (void)s, a / b;
}
static inline vf v_op_maximum(vf a, vf b, vf s) {
    return (void)s, v_select(v_unordered(a, a), a, v_max(a, b));
}
static inline vf v_op_minimum(vf a, vf b, vf s) {
    return (void)s, v_select(v_unordered(a, a), a, v_min(a, b));
}

#define DEFINE_BINARY(NAME, name)                                                                                      \
    static inline vf binary_##name(vf x, vf y, vf z, vf scale) {                                                       \
        return (void)z, v_op_##name(x, y, scale);                                                                      \
    }                                                                                                                  \
    void KERNEL(name)(void *out, const void *a, const void *b, int64_t n, float scale) {                               \
        each(out, (operands){.a = a, .b = b, .number = v_set1(scale), .second = v_set1(scale)}, n, binary_##name);     \
    }
AMP_VECTOR_BINARY(DEFINE_BINARY)

/* From the end that is nearer, so that weights 0 and 1 give the ends themselves. */
static inline vf v_of_lerp(vf a, vf b, vf c, vf s) {
    const vf step = b - a, low = a + c * step, high = b - step * (v_set1(1.0f) - c);
    return (void)s, v_select(v_lt(v_abs(c), v_set1(0.5f)), low, high);
}
static inline vf v_of_addcmul(vf a, vf b, vf c, vf s) {
    return a + s * b * c;
}
static inline vf v_of_addcdiv(vf a, vf b, vf c, vf s) {
    return a + s * b / c;
}

#define DEFINE_TERNARY(NAME, name)                                                                                     \
    void KERNEL(name)(void *out, const void *a, const void *b, const void *c, int64_t n, float scale) {                \
        each(out, (operands){.a = a, .b = b, .c = c, .number = v_set1(scale)}, n, v_of_##name);                        \
    }
AMP_VECTOR_TERNARY(DEFINE_TERNARY)

/* a ≤ b is a < b or a = b, so that a NaN is neither; a ≠ b is what is left. */
static inline vf holds_eq(vf a, vf b) {
    return v_select(v_eq(a, b), v_set1(1.0f), v_set1(0.0f));
}
static inline vf holds_lt(vf a, vf b) {
    return v_select(v_lt(a, b), v_set1(1.0f), v_set1(0.0f));
}
static inline vf holds_le(vf a, vf b) {
    return v_select(v_eq(a, b), v_set1(1.0f), holds_lt(a, b));
}
static inline vf holds_ne(vf a, vf b) {
    return v_set1(1.0f) - holds_eq(a, b);
}
static inline vf holds_gt(vf a, vf b) {
    return holds_lt(b, a);
}
static inline vf holds_ge(vf a, vf b) {
    return holds_le(b, a);
}

#define DEFINE_COMPARE(NAME, name)                                                                                     \
    void KERNEL(name)(uint8_t * out, const void *first, const void *second, int64_t n, float number) {                 \
        const element *a = first, *b = second;                                                                         \
        const vf one = v_set1(1.0f), other = v_set1(number);                                                           \
        int64_t i = 0;                                                                                                 \
        for (; i + VL <= n; i += VL)                                                                                   \
            v_store_mask(out + i, v_eq(holds_##name(LOAD(a + i), b ? LOAD(b + i) : other), one));                      \
        if (i < n) {                                                                                                   \
            uint8_t last[VL];                                                                                          \
            v_store_mask(last, v_eq(holds_##name(LOAD_FIRST(a + i, n - i), first_of(b, i, n - i, other)), one));       \
            memcpy(out + i, last, (size_t)(n - i));                                                                    \
        }                                                                                                              \
    }
AMP_VECTOR_COMPARE(DEFINE_COMPARE)

/* ---- Reductions ----------------------------------------------------------------------------------------------- */

enum { SUM_BLOCK = 64 * VL }; /* elements whose sum is kept in f32 lanes */

/* 1 for every number but 0, and for NaN. */
static inline vf v_nonzero(vf x) {
    return v_select(v_eq(x, v_set1(0.0f)), v_set1(0.0f), v_set1(1.0f));
}

/* Σ term(x) over at most SUM_BLOCK elements, in four vectors; `centre` is what term subtracts. */
#define DEFINE_BLOCK_SUM(name, term)                                                                                   \
    static inline float block_##name(const element *in, int64_t n, vf centre) {                                        \
        vf acc[4] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};                                          \
        int64_t i = 0;                                                                                                 \
        (void)centre;                                                                                                  \
        for (; i + 4 * VL <= n; i += 4 * VL) {                                                                         \
            vf v[4];                                                                                                   \
            load_four(in + i, v);                                                                                      \
            AMP_UNROLL                                                                                                 \
            for (int k = 0; k < 4; k++) {                                                                              \
                const vf x = v[k];                                                                                     \
                acc[k] = term;                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (; i + VL <= n; i += VL) {                                                                                 \
            const vf x = LOAD(in + i);                                                                                 \
            const int k = 0;                                                                                           \
            acc[k] = term;                                                                                             \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            const vf x = v_keep_first(LOAD_FIRST(in + i, n - i), n - i, centre);                                       \
            const int k = 3;                                                                                           \
            acc[k] = term;                                                                                             \
        }                                                                                                              \
        return v_sum((acc[0] + acc[1]) + (acc[2] + acc[3]));                                                           \
    }
DEFINE_BLOCK_SUM(sum, acc[k] + (x - centre))
DEFINE_BLOCK_SUM(squares, v_fma(x - centre, x - centre, acc[k]))
DEFINE_BLOCK_SUM(abs, acc[k] + v_abs(x - centre))
DEFINE_BLOCK_SUM(count, acc[k] + v_nonzero(x))

/* Both sums of the deviations from the centre in one pass. */
static inline void block_deviations(const element *in, int64_t n, vf centre, double *sum, double *squares) {
    vf s[2] = {v_set1(0.0f), v_set1(0.0f)}, q[2] = {v_set1(0.0f), v_set1(0.0f)};
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        vf v[2];
        LOAD_PAIR(in + i, &v[0], &v[1]);
        AMP_UNROLL
        for (int k = 0; k < 2; k++) {
            const vf x = v[k] - centre;
            s[k] = s[k] + x;
            q[k] = v_fma(x, x, q[k]);
        }
    }
    for (; i < n; i += VL) {
        const vf x = n - i < VL ? v_keep_first(LOAD_FIRST(in + i, n - i), n - i, centre) : LOAD(in + i);
        s[0] = s[0] + (x - centre);
        q[0] = v_fma(x - centre, x - centre, q[0]);
    }
    *sum += (double)v_sum(s[0] + s[1]);
    *squares += (double)v_sum(q[0] + q[1]);
}

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#define DEFINE_SUM(name, block)                                                                                        \
    double KERNEL(name)(const void *elements, int64_t n) {                                                             \
        const element *in = elements;                                                                                  \
        double total = 0.0;                                                                                            \
        for (int64_t i = 0; i < n; i += SUM_BLOCK) {                                                                   \
            total += (double)block_##block(in + i, least(n - i, SUM_BLOCK), v_set1(0.0f));                             \
        }                                                                                                              \
        return total;                                                                                                  \
    }
DEFINE_SUM(sum, sum)
DEFINE_SUM(sum_squares, squares)
DEFINE_SUM(sum_abs, abs)
DEFINE_SUM(count_nonzero, count)

void KERNEL(sum_deviations)(double *sums, const void *elements, int64_t n, float centre) {
    const element *in = elements;
    sums[0] = sums[1] = 0.0;
    for (int64_t i = 0; i < n; i += SUM_BLOCK)
        block_deviations(in + i, least(n - i, SUM_BLOCK), v_set1(centre), &sums[0], &sums[1]);
}

/* The extreme of a row by `pick`, in four vectors that do not wait for one another, and whether there was a NaN. */
#define DEFINE_EXTREME(name, pick, pick_lane, start)                                                                   \
    double KERNEL(name)(const void *elements, int64_t n) {                                                             \
        const element *in = elements;                                                                                  \
        vf part[4] = {v_set1(start), v_set1(start), v_set1(start), v_set1(start)}, nan = v_set1(0.0f);                 \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 * VL <= n; i += 4 * VL) {                                                                         \
            vf v[4];                                                                                                   \
            load_four(in + i, v);                                                                                      \
            AMP_UNROLL                                                                                                 \
            for (int k = 0; k < 4; k++) {                                                                              \
                const vf x = v[k];                                                                                     \
                part[k] = pick(x, part[k]); /* a NaN in x leaves it as it was */                                       \
                nan = v_select(v_unordered(x, x), x, nan);                                                             \
            }                                                                                                          \
        }                                                                                                              \
        vf best = pick(pick(part[3], part[2]), pick(part[1], part[0]));                                                \
        for (; i < n; i += VL) {                                                                                       \
            const int64_t left = n - i;                                                                                \
            const vf x = left < VL ? v_keep_first(LOAD_FIRST(in + i, left), left, v_set1(start)) : LOAD(in + i);       \
            best = pick(x, best);                                                                                      \
            nan = v_select(v_unordered(x, x), x, nan);                                                                 \
        }                                                                                                              \
        const float bad = v_sum(nan);                                                                                  \
        return bad != bad ? (double)bad : (double)(pick_lane);                                                         \
    }
DEFINE_EXTREME(row_max, v_max, v_max_lane(best), -INFINITY)
DEFINE_EXTREME(row_min, v_min, -v_max_lane(v_neg(best)), INFINITY)
static inline vf larger_magnitude(vf x, vf best) {
    return v_max(v_abs(x), best);
}
static inline vf smaller_magnitude(vf x, vf best) {
    return v_min(v_abs(x), best);
}
DEFINE_EXTREME(row_max_abs, larger_magnitude, v_max_lane(best), 0.0f)
DEFINE_EXTREME(row_min_abs, smaller_magnitude, -v_max_lane(v_neg(best)), INFINITY)

/* ---- Rows ----------------------------------------------------------------------------------------------------- */

/* terms = e^(in − max), in the order in which pairs are loaded; returns the sum. */
static double exponentials(float *terms, const element *in, int64_t n, vf max) {
    double total = 0.0;
    for (int64_t start = 0; start < n; start += SUM_BLOCK) {
        const int64_t end = start + least(n - start, SUM_BLOCK);
        vf sum = v_set1(0.0f);
        int64_t i = start;
        for (; i + 2 * VL <= end; i += 2 * VL) {
            vf x, y;
            LOAD_PAIR(in + i, &x, &y);
            x = v_exp_negative(x - max);
            y = v_exp_negative(y - max);
            v_store(terms + i, x);
            v_store(terms + i + VL, y);
            sum = sum + (x + y);
        }
        for (; i < end; i += VL) {
            const int64_t left = least(end - i, VL);
            const vf e = v_keep_first(v_exp_negative(LOAD_FIRST(in + i, left) - max), left, v_set1(0.0f));
            v_store_first(terms + i, e, left);
            sum = sum + e;
        }
        total += (double)v_sum(sum);
    }
    return total;
}

/* Σ e^(in − max) without keeping the terms. */
static double sum_of_exponentials(const element *in, int64_t n, vf max) {
    double total = 0.0;
    for (int64_t start = 0; start < n; start += SUM_BLOCK) {
        const int64_t end = start + least(n - start, SUM_BLOCK);
        vf sum = v_set1(0.0f);
        int64_t i = start;
        for (; i + 2 * VL <= end; i += 2 * VL) {
            vf x, y;
            LOAD_PAIR(in + i, &x, &y);
            sum = sum + (v_exp_negative(x - max) + v_exp_negative(y - max));
        }
        for (; i < end; i += VL) {
            const int64_t left = least(end - i, VL);
            sum = sum + v_keep_first(v_exp_negative(LOAD_FIRST(in + i, left) - max), left, v_set1(0.0f));
        }
        total += (double)v_sum(sum);
    }
    return total;
}

void KERNEL(sum_exponentials)(double *sums, const void *elements, int64_t n, float centre) {
    sums[0] = sum_of_exponentials(elements, n, v_set1(centre));
}

static void scale_row(element *out, const float *terms, int64_t n, vf scale) {
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        const vf x = v_load(terms + i) * scale, y = v_load(terms + i + VL) * scale;
        STORE_PAIR(out + i, x, y);
    }
    for (; i < n; i += VL) {
        const int64_t left = least(n - i, VL);
        STORE_FIRST(out + i, v_load_first(terms + i, left) * scale, left);
    }
}

#ifdef VECTOR_BF16
enum { KEPT = 4096 }; /* terms that are kept in f32 between the passes; those of longer rows are computed again */

void KERNEL(softmax)(void *results, const void *elements, int64_t n) {
    element *out = results;
    const element *in = elements;
    const vf max = v_set1((float)KERNEL(row_max)(in, n));
    float terms[KEPT];
    if (n <= KEPT) {
        scale_row(out, terms, n, v_set1((float)(1.0 / exponentials(terms, in, n, max))));
        return;
    }
    const vf scale = v_set1((float)(1.0 / sum_of_exponentials(in, n, max)));
    for (int64_t start = 0; start < n; start += KEPT) {
        const int64_t count = least(n - start, KEPT);
        exponentials(terms, in + start, count, max);
        scale_row(out + start, terms, count, scale);
    }
}
#else
void KERNEL(softmax)(void *results, const void *elements, int64_t n) {
    const double total = exponentials(results, elements, n, v_set1((float)KERNEL(row_max)(elements, n)));
    scale_row(results, results, n, v_set1((float)(1.0 / total)));
}
#endif

void KERNEL(log_softmax)(void *results, const void *elements, int64_t n) {
    element *out = results;
    const element *in = elements;
    const vf max = v_set1((float)KERNEL(row_max)(in, n));
    const vf shift = v_set1((float)log(sum_of_exponentials(in, n, max)));
    int64_t i = 0;
    for (; i + 2 * VL <= n; i += 2 * VL) {
        vf x, y;
        LOAD_PAIR(in + i, &x, &y);
        STORE_PAIR(out + i, x - max - shift, y - max - shift);
    }
    for (; i < n; i += VL) {
        const int64_t left = least(n - i, VL);
        STORE_FIRST(out + i, LOAD_FIRST(in + i, left) - max - shift, left);
    }
}

/* out = (in − mean)·scale − shift, then ·weight + bias where they are given. */
static void normalize_row(element *out, const element *in, const float *weight, const float *bias, int64_t n,
                          float mean, float scale, float shift) {
    const vf m = v_set1(mean), s = v_set1(scale), t = v_set1(-shift);
    int64_t i = 0;
    for (; !weight && !bias && i + 2 * VL <= n; i += 2 * VL) {
        vf x, y;
        LOAD_PAIR(in + i, &x, &y);
        STORE_PAIR(out + i, v_fma(x - m, s, t), v_fma(y - m, s, t));
    }
    for (; i + VL <= n; i += VL) {
        vf y = v_fma(LOAD(in + i) - m, s, t);
        if (weight)
            y = v_fma(y, v_load(weight + i), bias ? v_load(bias + i) : v_set1(0.0f));
        else if (bias)
            y = y + v_load(bias + i);
        STORE(out + i, y);
    }
    if (i < n) {
        const int64_t r = n - i;
        vf y = v_fma(LOAD_FIRST(in + i, r) - m, s, t);
        if (weight)
            y = v_fma(y, v_load_first(weight + i, r), bias ? v_load_first(bias + i, r) : v_set1(0.0f));
        else if (bias)
            y = y + v_load_first(bias + i, r);
        STORE_FIRST(out + i, y, r);
    }
}

void KERNEL(layer_norm)(void *out, const void *elements, const float *weight, const float *bias, int64_t n,
                        double eps) {
    const element *in = elements;
    const float mean = (float)(KERNEL(sum)(in, n) / (double)n);
    const vf centre = v_set1(mean);
    double rest = 0.0, squares = 0.0;
    for (int64_t i = 0; i < n; i += SUM_BLOCK) {
        block_deviations(in + i, least(n - i, SUM_BLOCK), centre, &rest, &squares);
    }
    rest /= (double)n; /* what rounding took from the mean */
    const double scale = 1.0 / sqrt(fmax(squares / (double)n - rest * rest, 0.0) + eps);
    normalize_row(out, in, weight, bias, n, mean, (float)scale, (float)(rest * scale));
}

void KERNEL(rms_norm)(void *out, const void *in, const float *weight, const float *bias, int64_t n, double eps) {
    const double scale = 1.0 / sqrt(KERNEL(sum_squares)(in, n) / (double)n + eps);
    (void)bias;
    normalize_row(out, in, weight, NULL, n, 0.0f, (float)scale, 0.0f);
}

/* ---- f32 only ------------------------------------------------------------------------------------------------- */

#ifndef VECTOR_BF16
double KERNEL(dot)(const float *a, const float *b, int64_t n) {
    double total = 0.0;
    for (int64_t start = 0; start < n; start += SUM_BLOCK) {
        const int64_t end = start + least(n - start, SUM_BLOCK);
        vf acc[4] = {v_set1(0.0f), v_set1(0.0f), v_set1(0.0f), v_set1(0.0f)};
        int64_t i = start;
        for (; i + 4 * VL <= end; i += 4 * VL) {
            AMP_UNROLL
            for (int k = 0; k < 4; k++) acc[k] = v_fma(v_load(a + i + k * VL), v_load(b + i + k * VL), acc[k]);
        }
        for (; i + VL <= end; i += VL) acc[0] = v_fma(v_load(a + i), v_load(b + i), acc[0]);
        if (i < end) acc[3] = v_fma(v_load_first(a + i, end - i), v_load_first(b + i, end - i), acc[3]);
        total += (double)v_sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
    }
    return total;
}

void KERNEL(accumulate)(double *acc, const float *in, int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) v_add_to_doubles(acc + i, v_load(in + i));
    for (; i < n; i++) acc[i] += (double)in[i];
}
#endif
