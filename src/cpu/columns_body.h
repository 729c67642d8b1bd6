/* The kernels of columns.h, compiled once per ISA; no include guard: one file, one ISA.
 *
 * Plain C without branches, which the compiler turns into vectors of doubles. Columns take their rows in order, four to a
 * pass, so that the results are the same bits on every ISA; a product grows in four parts, whose order is the compiler's. */
#include <math.h>
#include <string.h>

#include "cpu/kernels.h"

#define PASTE_(name, dtype, isa) amp_##name##_##dtype##_##isa
#define PASTE(name, dtype, isa) PASTE_(name, dtype, isa)

#define INLINE static inline __attribute__((always_inline))

INLINE double from_f32(float x) {
    return x;
}
INLINE double from_bf16(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE double step_columns_sum(double so_far, double x) {
    return so_far + x;
}
INLINE double step_columns_sum_abs(double so_far, double x) {
    return so_far + fabs(x);
}
INLINE double step_columns_sum_squares(double so_far, double x) {
    return so_far + x * x;
}
INLINE double step_columns_count(double so_far, double x) {
    return so_far + (x != 0.0 ? 1.0 : 0.0);
}
INLINE double step_columns_product(double so_far, double x) {
    return so_far * x;
}
INLINE double step_columns_max(double so_far, double x) {
    const double best = x > so_far ? x : so_far;
    return x != x ? x : best;
}
INLINE double step_columns_min(double so_far, double x) {
    const double best = x < so_far ? x : so_far;
    return x != x ? x : best;
}
INLINE double step_columns_max_abs(double so_far, double x) {
    return step_columns_max(so_far, fabs(x));
}
INLINE double step_columns_min_abs(double so_far, double x) {
    return step_columns_min(so_far, fabs(x));
}

#define DEFINE_COLUMNS(name, dtype, type)                                                                              \
    void PASTE(name, dtype, COLUMNS_ISA)(double *acc, const void *in, int64_t stride, int64_t rows, int64_t n) {       \
        const char *row = in;                                                                                          \
        int64_t r = 0;                                                                                                 \
        for (; r + 4 <= rows; r += 4, row += 4 * stride) {                                                             \
            const type *a = (const type *)(const void *)row, *b = (const type *)(const void *)(row + stride);          \
            const type *c = (const type *)(const void *)(row + 2 * stride);                                            \
            const type *d = (const type *)(const void *)(row + 3 * stride);                                            \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) {                                                      \
                const double ab = step_##name(step_##name(acc[i], from_##dtype(a[i])), from_##dtype(b[i]));            \
                acc[i] = step_##name(step_##name(ab, from_##dtype(c[i])), from_##dtype(d[i]));                         \
            }                                                                                                          \
        }                                                                                                              \
        for (; r < rows; r++, row += stride) {                                                                         \
            const type *a = (const type *)(const void *)row;                                                           \
            _Pragma("omp simd") for (int64_t i = 0; i < n; i++) acc[i] = step_##name(acc[i], from_##dtype(a[i]));      \
        }                                                                                                              \
    }
#define DEFINE_BOTH(NAME, name)                                                                                        \
    DEFINE_COLUMNS(name, f32, float)                                                                                   \
    DEFINE_COLUMNS(name, bf16, uint16_t)
AMP_COLUMNS(DEFINE_BOTH)

#define DEFINE_PRODUCT(dtype, type)                                                                                    \
    double PASTE(product, dtype, COLUMNS_ISA)(const void *elements, int64_t n) {                                       \
        const int64_t quarter = n / 4;                                                                                 \
        const type *a = elements, *b = a + quarter, *c = b + quarter, *d = c + quarter;                                \
        double p = 1.0, q = 1.0, r = 1.0, s = 1.0;                                                                     \
        _Pragma("omp simd reduction(* : p, q, r, s)") for (int64_t i = 0; i < quarter; i++) {                          \
            p *= from_##dtype(a[i]);                                                                                   \
            q *= from_##dtype(b[i]);                                                                                   \
            r *= from_##dtype(c[i]);                                                                                   \
            s *= from_##dtype(d[i]);                                                                                   \
        }                                                                                                              \
        for (int64_t i = 4 * quarter; i < n; i++) s *= from_##dtype(a[i]);                                             \
        return (p * q) * (r * s);                                                                                      \
    }
DEFINE_PRODUCT(f32, float)
DEFINE_PRODUCT(bf16, uint16_t)
