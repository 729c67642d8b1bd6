/* The kernels of gates.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     gates.h.
 * Accumulator: none: each element by itself, products and sums fused as written.
 * Error bound: 2.5 ulp for each sigmoid and tanh (test_vmath.cc), one rounding for each operation in the
 *              formula.
 * Denormals:   kept, as MXCSR says by default.
 * ISA:         that of the simd header which is included before; the same bits on each.
 * Source:      documentation of torch.nn.LSTM and torch.nn.GRU. */
#include <math.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/vmath_body.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

static inline vf lstm_gates(const vf *x, const vf *h, vf *state) {
    (void)h;
    *state = v_fma(v_sigmoid(x[1]), *state, v_sigmoid(x[0]) * v_tanh(x[2]));
    return v_sigmoid(x[3]) * v_tanh(*state);
}

static inline vf gru_gates(const vf *x, const vf *h, vf *state) {
    const vf candidate = v_tanh(v_fma(v_sigmoid(x[0] + h[0]), h[2], x[2]));
    return *state = v_fma(v_sigmoid(x[1] + h[1]), *state - candidate, candidate);
}

/* `from_h`: how many gates have a part of h of their own. */
#define DEFINE_GATES(name, gates, from_h)                                                                              \
    void KERNEL(name)(float *out, float *state, const float *x, const float *h, int64_t stride, int64_t n) {           \
        vf part_x[gates], part_h[gates];                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + VL <= n; i += VL) {                                                                                 \
            for (int k = 0; k < (gates); k++) part_x[k] = v_load(x + k * stride + i);                                  \
            for (int k = 0; k < (from_h); k++) part_h[k] = v_load(h + k * stride + i);                                 \
            vf s = v_load(state + i);                                                                                  \
            const vf y = name(part_x, part_h, &s);                                                                     \
            v_store(state + i, s);                                                                                     \
            v_store(out + i, y);                                                                                       \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            for (int k = 0; k < (gates); k++) part_x[k] = v_load_first(x + k * stride + i, n - i);                     \
            for (int k = 0; k < (from_h); k++) part_h[k] = v_load_first(h + k * stride + i, n - i);                    \
            vf s = v_load_first(state + i, n - i);                                                                     \
            const vf y = name(part_x, part_h, &s);                                                                     \
            v_store_first(state + i, s, n - i);                                                                        \
            v_store_first(out + i, y, n - i);                                                                          \
        }                                                                                                              \
    }
DEFINE_GATES(lstm_gates, 4, 0)
DEFINE_GATES(gru_gates, 3, 3)
