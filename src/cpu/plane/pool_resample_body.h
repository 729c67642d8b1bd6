/* The kernels of pool_resample.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     pool_resample.h.
 * Accumulator: f32, one per element, in a register, in ascending k.
 * Error bound: count · 2⁻²⁴ · Σ|weight·x| for combine_lines and gather_taps, whose products are fused; the same and
 *              one division for sum_lines; extremes are exact.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before; the same bits on each.
 * Source:      none beyond the definitions. */
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

enum { TOGETHER = 4 }; /* vectors whose sums are in registers */

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

static inline vf begin_combine_lines(vf x, vf w) {
    return x * w;
}
static inline vf step_combine_lines(vf sum, vf x, vf w) {
    return v_fma(x, w, sum);
}
static inline vf end_combine_lines(vf sum, vf w) {
    return (void)w, sum;
}

static inline vf begin_sum_lines(vf x, vf w) {
    return (void)w, x;
}
static inline vf step_sum_lines(vf sum, vf x, vf w) {
    return (void)w, sum + x;
}
static inline vf end_sum_lines(vf sum, vf w) {
    return sum / w;
}

enum { WEIGHTS_combine_lines = 1, WEIGHTS_sum_lines = 0 }; /* one each, one for all */

#define DEFINE_LINES(NAME, name)                                                                                       \
    static inline vf weight_##name(const float *weights, int64_t k) {                                                  \
        return v_set1(weights[WEIGHTS_##name ? k : 0]);                                                                \
    }                                                                                                                  \
    static inline void some_##name(float *out, const float *const *in, const float *weights, int64_t count,            \
                                   int64_t i) {                                                                        \
        vf sum[TOGETHER];                                                                                              \
        AMP_UNROLL for (int v = 0; v < TOGETHER; v++) {                                                                \
            sum[v] = begin_##name(v_load(in[0] + i + v * VL), weight_##name(weights, 0));                              \
        }                                                                                                              \
        for (int64_t k = 1; k < count; k++) {                                                                          \
            const vf w = weight_##name(weights, k);                                                                    \
            AMP_UNROLL for (int v = 0; v < TOGETHER; v++) {                                                            \
                sum[v] = step_##name(sum[v], v_load(in[k] + i + v * VL), w);                                           \
            }                                                                                                          \
        }                                                                                                              \
        AMP_UNROLL for (int v = 0; v < TOGETHER; v++) {                                                                \
            v_store(out + i + v * VL, end_##name(sum[v], weight_##name(weights, 0)));                                  \
        }                                                                                                              \
    }                                                                                                                  \
    void KERNEL(name)(float *out, const float *const *in, const float *weights, int64_t count, int64_t n) {            \
        int64_t i = 0;                                                                                                 \
        for (; i + TOGETHER * VL <= n; i += TOGETHER * VL) some_##name(out, in, weights, count, i);                    \
        for (; i + VL <= n; i += VL) {                                                                                 \
            vf sum = begin_##name(v_load(in[0] + i), weight_##name(weights, 0));                                       \
            for (int64_t k = 1; k < count; k++) {                                                                      \
                sum = step_##name(sum, v_load(in[k] + i), weight_##name(weights, k));                                  \
            }                                                                                                          \
            v_store(out + i, end_##name(sum, weight_##name(weights, 0)));                                              \
        }                                                                                                              \
        if (i == n) return;                                                                                            \
        vf sum = begin_##name(v_load_first(in[0] + i, n - i), weight_##name(weights, 0));                              \
        for (int64_t k = 1; k < count; k++) {                                                                          \
            sum = step_##name(sum, v_load_first(in[k] + i, n - i), weight_##name(weights, k));                         \
        }                                                                                                              \
        v_store_first(out + i, end_##name(sum, weight_##name(weights, 0)), n - i);                                     \
    }
AMP_LINES(DEFINE_LINES)

/* ---- Maxima --------------------------------------------------------------------------------------------------- */

/* v_max gives x where x is NaN. */
static inline vf larger(vf most, vf x) {
    return v_select(v_unordered(most, most), most, v_max(most, x));
}

typedef struct best {
    vf value, which;
} best;

static inline best better(best b, vf x, int64_t k) {
    const vm more = v_lt(b.value, x), nan = v_unordered(x, x);
    const vf number = v_set1((float)k);
    b.value = v_select(nan, x, v_select(more, x, b.value));
    b.which = v_select(nan, number, v_select(more, number, b.which));
    return b;
}

#define DTYPE f32
#define ELEMENT float
#define LOAD v_load
#define LOAD_FIRST v_load_first
#define STORE v_store
#define STORE_FIRST v_store_first
#include "cpu/plane/pool_resample_max_body.h"
#define DTYPE bf16
#define ELEMENT uint16_t
#define LOAD v_load_bf16
#define LOAD_FIRST v_load_bf16_first
#define LOAD_PAIR v_load_bf16_pair
#define STORE v_cut_bf16 /* a maximum is one of its elements */
#define STORE_FIRST v_cut_bf16_first
#define STORE_PAIR v_cut_bf16_pair
#include "cpu/plane/pool_resample_max_body.h"
#define DTYPE f16
#define ELEMENT uint16_t
#define LOAD v_load_f16
#define LOAD_FIRST v_load_f16_first
#define STORE v_store_f16
#define STORE_FIRST v_store_f16_first
#include "cpu/plane/pool_resample_max_body.h"

/* ---- By index ------------------------------------------------------------------------------------------------- */

void KERNEL(gather_taps)(float *out, const float *in, const int32_t *index, const float *weights, int64_t count,
                         int64_t n) {
    int64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf sum = v_gather(in, index + i) * v_load(weights + i);
        for (int64_t k = 1; k < count; k++) {
            sum = v_fma(v_gather(in, index + k * n + i), v_load(weights + k * n + i), sum);
        }
        v_store(out + i, sum);
    }
    if (i == n) return;
    vf sum = v_gather_first(in, index + i, n - i) * v_load_first(weights + i, n - i);
    for (int64_t k = 1; k < count; k++) {
        sum = v_fma(v_gather_first(in, index + k * n + i, n - i), v_load_first(weights + k * n + i, n - i), sum);
    }
    v_store_first(out + i, sum, n - i);
}
