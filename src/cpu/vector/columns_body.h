/* The kernels of columns.h, compiled once per ISA; no include guard: one file, one ISA.
 *
 * Formula:     columns.h.
 * Accumulator: f64, one per column; rows in order, four to a pass. A product of a row grows in four parts, whose
 *              order is the compiler's.
 * Error bound: rows · 2⁻⁵³ · Σ|x| of a sum (a square is exact in f64), 2⁻⁵³ for each factor of a product; counts and
 *              extremes are exact.
 * Denormals:   f32 ones are normal in f64; kept.
 * ISA:         that which COLUMNS_ISA names: plain C without branches, which the compiler turns into vectors of
 *              doubles. Columns are the same bits on each.
 * Source:      none beyond the definitions. */
#include <math.h>
#include <string.h>

#include "cpu/registry/kernels.h"

#define PASTE_(name, dtype, isa) amp_##name##_##dtype##_##isa
#define PASTE(name, dtype, isa) PASTE_(name, dtype, isa)

#define INLINE static inline __attribute__((always_inline))

INLINE float from_f32(float x) {
    return x;
}
INLINE float from_bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Each reduction: what an element counts as, and how two of them are joined, in either type. */
INLINE float as_is(float x) {
    return x;
}
INLINE float one_if_nonzero(float x) {
    return x != 0.0f ? 1.0f : 0.0f;
}
#define DEFINE_JOINS(type)                                                                                             \
    INLINE type sum_##type(type so_far, type x) {                                                                      \
        return so_far + x;                                                                                             \
    }                                                                                                                  \
    INLINE type product_##type(type so_far, type x) {                                                                  \
        return so_far * x;                                                                                             \
    }                                                                                                                  \
    INLINE type max_##type(type so_far, type x) {                                                                      \
        const type best = x > so_far ? x : so_far;                                                                     \
        return x != x ? x : best;                                                                                      \
    }                                                                                                                  \
    INLINE type min_##type(type so_far, type x) {                                                                      \
        const type best = x < so_far ? x : so_far;                                                                     \
        return x != x ? x : best;                                                                                      \
    }
DEFINE_JOINS(float)
DEFINE_JOINS(double)
INLINE double squares_double(double so_far, double x) {
    return so_far + x * x;
}

typedef const float *restrict f32_row;
typedef const uint16_t *restrict bf16_row;

/* Four rows to a pass: one after the other in f64, as a column is summed where its elements lie together, … */
#define FOUR_IN_F64(join, count, dtype)                                                                                \
    acc[i] = join##_double(                                                                                            \
        join##_double(join##_double(join##_double(acc[i], count(from_##dtype(a[i]))), count(from_##dtype(b[i]))),      \
                      count(from_##dtype(c[i]))),                                                                      \
        count(from_##dtype(d[i])))
/* … or four among themselves in f32 first: counts, and what only compares, lose nothing by that. */
#define FOUR_IN_F32(join, count, dtype)                                                                                \
    acc[i] = join##_double(acc[i], join##_float(join##_float(count(from_##dtype(a[i])), count(from_##dtype(b[i]))),    \
                                                join##_float(count(from_##dtype(c[i])), count(from_##dtype(d[i])))))

#define DEFINE_COLUMNS(name, dtype, join, count, FOUR)                                                                 \
    void PASTE(name, dtype, COLUMNS_ISA)(double *acc, const void *in, int64_t stride, int64_t rows, int64_t n) {       \
        const char *row = in;                                                                                          \
        int64_t r = 0;                                                                                                 \
        for (; r + 4 <= rows; r += 4, row += 4 * stride) {                                                             \
            dtype##_row a = (const void *)row, b = (const void *)(row + stride);                                       \
            dtype##_row c = (const void *)(row + 2 * stride), d = (const void *)(row + 3 * stride);                    \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) FOUR(join, count, dtype);                              \
        }                                                                                                              \
        for (; r < rows; r++, row += stride) {                                                                         \
            dtype##_row a = (const void *)row;                                                                         \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) acc[i] =                                               \
                join##_double(acc[i], count(from_##dtype(a[i])));                                                      \
        }                                                                                                              \
    }
#define DEFINE_BOTH(name, join, count, FOUR)                                                                           \
    DEFINE_COLUMNS(name, f32, join, count, FOUR_IN_F64)                                                                \
    DEFINE_COLUMNS(name, bf16, join, count, FOUR)
DEFINE_BOTH(columns_sum, sum, as_is, FOUR_IN_F64)
DEFINE_BOTH(columns_sum_abs, sum, fabsf, FOUR_IN_F64)
DEFINE_COLUMNS(columns_sum_squares, f32, squares, as_is, FOUR_IN_F64)
DEFINE_COLUMNS(columns_sum_squares, bf16, squares, as_is, FOUR_IN_F64)
DEFINE_BOTH(columns_count, sum, one_if_nonzero, FOUR_IN_F32)
DEFINE_BOTH(columns_product, product, as_is, FOUR_IN_F64)
DEFINE_BOTH(columns_max, max, as_is, FOUR_IN_F64)
DEFINE_BOTH(columns_min, min, as_is, FOUR_IN_F64)
DEFINE_BOTH(columns_max_abs, max, fabsf, FOUR_IN_F64)
DEFINE_BOTH(columns_min_abs, min, fabsf, FOUR_IN_F64)

double PASTE(product, f32, COLUMNS_ISA)(const void *elements, int64_t n) {
    const int64_t quarter = n / 4;
    const float *a = elements, *b = a + quarter, *c = b + quarter, *d = c + quarter;
    double p = 1.0, q = 1.0, r = 1.0, s = 1.0;
    _Pragma("omp simd reduction(* : p, q, r, s)") for (int64_t i = 0; i < quarter; i++) {
        p *= (double)a[i];
        q *= (double)b[i];
        r *= (double)c[i];
        s *= (double)d[i];
    }
    for (int64_t i = 4 * quarter; i < n; i++) s *= (double)a[i];
    return (p * q) * (r * s);
}

/* Two elements a word: the lower half is shifted, the upper one masked, which takes fewer steps than to widen them. */
INLINE double lower_half(uint32_t word) {
    return (double)from_bf16((uint16_t)word);
}
INLINE double upper_half(uint32_t word) {
    const uint32_t bits = word & 0xffff0000u;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}
double PASTE(product, bf16, COLUMNS_ISA)(const void *elements, int64_t n) {
    typedef uint32_t word __attribute__((aligned(2), may_alias));
    const int64_t quarter = n / 4;
    const word *a = elements, *b = a + quarter;
    const uint16_t *all = elements;
    double p = 1.0, q = 1.0, r = 1.0, s = 1.0;
    _Pragma("omp simd reduction(* : p, q, r, s)") for (int64_t i = 0; i < quarter; i++) {
        p *= lower_half(a[i]);
        q *= upper_half(a[i]);
        r *= lower_half(b[i]);
        s *= upper_half(b[i]);
    }
    for (int64_t i = 4 * quarter; i < n; i++) s *= (double)from_bf16(all[i]);
    return (p * q) * (r * s);
}
