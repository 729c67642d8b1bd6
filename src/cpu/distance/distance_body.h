/* The kernels of distance.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     distance.h.
 * Accumulator: f32, one lane per pair of points: 64 coordinates in order, then these sums in order.
 * Error bound: (66 + depth/64) · 2⁻²⁴ of the sum, whose terms are not negative: 64 roundings within a part, two of
 *              the difference, which the square doubles, depth/64 of the parts; counts below 2²⁴ and maxima are exact
 *              but for the difference.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before; the same bits on each.
 * Source:      Higham, Accuracy and Stability of Numerical Algorithms, section 4.2 (sums of blocks). */
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

enum { WIDE = 4, CHUNK = 64 };

static inline vf add_squares(vf sum, vf d) {
    return v_fma(d, d, sum);
}
static inline vf add_moduli(vf sum, vf d) {
    return sum + v_abs(d);
}
static inline vf add_count(vf sum, vf d) {
    return sum + v_select(v_eq(d, v_set1(0.0f)), v_set1(0.0f), v_set1(1.0f));
}
static inline vf add_maximum(vf largest, vf d) {
    return v_select(v_unordered(d, d), d, v_max(v_abs(d), largest)); /* v_max keeps a NaN of its second operand */
}
static inline vf join_sums(vf a, vf b) {
    return a + b;
}
static inline vf join_maximum(vf a, vf b) {
    return v_select(v_unordered(a, a), a, v_max(a, b));
}

/* One block of `count` vectors of points; the last may be short, and is then loaded by `load`. */
#define DISTANCE_BLOCK(count, load, add, join)                                                                         \
    vf total[count], part[count];                                                                                      \
    AMP_UNROLL                                                                                                         \
    for (int v = 0; v < (count); v++) total[v] = v_set1(0.0f);                                                         \
    for (int64_t from = 0; from < depth; from += CHUNK) {                                                              \
        const int64_t to = depth - from < CHUNK ? depth : from + CHUNK;                                                \
        AMP_UNROLL                                                                                                     \
        for (int v = 0; v < (count); v++) part[v] = v_set1(0.0f);                                                      \
        for (int64_t k = from; k < to; k++) {                                                                          \
            const vf x = v_set1(a[k]);                                                                                 \
            const float *y = b + k * step + j;                                                                         \
            AMP_UNROLL                                                                                                 \
            for (int v = 0; v < (count); v++) part[v] = add(part[v], x - (load));                                      \
        }                                                                                                              \
        AMP_UNROLL                                                                                                     \
        for (int v = 0; v < (count); v++) total[v] = join(total[v], part[v]);                                          \
    }

#define DEFINE_DISTANCE(name, add, join)                                                                               \
    void KERNEL(name)(float *out, const float *a, const float *b, int64_t step, int64_t depth, int64_t n) {            \
        int64_t j = 0;                                                                                                 \
        for (; j + WIDE * VL <= n; j += WIDE * VL) {                                                                   \
            DISTANCE_BLOCK(WIDE, v_load(y + v * VL), add, join)                                                        \
            AMP_UNROLL                                                                                                 \
            for (int v = 0; v < WIDE; v++) v_store(out + j + v * VL, total[v]);                                        \
        }                                                                                                              \
        for (; j + VL <= n; j += VL) {                                                                                 \
            DISTANCE_BLOCK(1, v_load(y), add, join)                                                                    \
            v_store(out + j, total[0]);                                                                                \
        }                                                                                                              \
        if (j < n) {                                                                                                   \
            DISTANCE_BLOCK(1, v_load_first(y, n - j), add, join)                                                       \
            v_store_first(out + j, total[0], n - j);                                                                   \
        }                                                                                                              \
    }
DEFINE_DISTANCE(distance_squares, add_squares, join_sums)
DEFINE_DISTANCE(distance_moduli, add_moduli, join_sums)
DEFINE_DISTANCE(distance_count, add_count, join_sums)
DEFINE_DISTANCE(distance_maximum, add_maximum, join_maximum)
