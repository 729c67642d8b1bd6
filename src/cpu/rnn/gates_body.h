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

/* ---- The way back ----------------------------------------------------------------------------------------------- */

/* y·(1 − y) and 1 − y², which σ and tanh have for slopes. */
static inline vf v_sigmoid_slope(vf y) {
    return y * (v_set1(1.0f) - y);
}
static inline vf v_tanh_slope(vf y) {
    return v_fma(-y, y, v_set1(1.0f));
}

/* One vector of a row, by the names of amp_gates_way. */
typedef struct way {
    vf grad_out, x[4], h[3], before, after;
    vf grad_x[4], grad_h[3], grad_state;
} way;

static inline void lstm_gates_back(way *w) {
    const vf in = v_sigmoid(w->x[0]), keep = v_sigmoid(w->x[1]), new = v_tanh(w->x[2]), out = v_sigmoid(w->x[3]);
    const vf y = v_tanh(w->after), c = v_fma(w->grad_out * out, v_tanh_slope(y), w->grad_state);
    w->grad_x[0] = c * new *v_sigmoid_slope(in);
    w->grad_x[1] = c * w->before * v_sigmoid_slope(keep);
    w->grad_x[2] = c * in * v_tanh_slope(new);
    w->grad_x[3] = w->grad_out * y * v_sigmoid_slope(out);
    w->grad_state = c * keep;
}

static inline void gru_gates_back(way *w) {
    const vf reset = v_sigmoid(w->x[0] + w->h[0]), update = v_sigmoid(w->x[1] + w->h[1]);
    const vf new = v_tanh(v_fma(reset, w->h[2], w->x[2]));
    const vf grad_new = w->grad_out * (v_set1(1.0f) - update) * v_tanh_slope(new);
    w->grad_x[0] = w->grad_h[0] = grad_new * w->h[2] * v_sigmoid_slope(reset);
    w->grad_x[1] = w->grad_h[1] = w->grad_out * (w->before - new) * v_sigmoid_slope(update);
    w->grad_x[2] = grad_new;
    w->grad_h[2] = grad_new * reset;
    w->grad_state = w->grad_out * update;
}

static inline void tanh_gates_back(way *w) {
    w->grad_x[0] = w->grad_out * v_tanh_slope(v_tanh(w->x[0]));
}

/* Where the sum is not above 0 nothing passes; NaN is. */
static inline void relu_gates_back(way *w) {
    const vf zero = v_set1(0.0f), nan = v_select(v_unordered(w->x[0], w->x[0]), w->grad_out, zero);
    w->grad_x[0] = v_select(v_lt(zero, w->x[0]), w->grad_out, nan);
}

static inline vf load_some(const float *p, int64_t n) {
    return n < VL ? v_load_first(p, n) : v_load(p);
}
static inline void store_some(float *p, vf v, int64_t n) {
    if (n < VL)
        v_store_first(p, v, n);
    else
        v_store(p, v);
}

/* `from_h` as above; `states`: how many arrays of states there are: before, and after. */
#define DEFINE_GATES_BACK(name, gates, from_h, states)                                                                 \
    void KERNEL(name)(const amp_gates_way *row, int64_t length) {                                                      \
        for (int64_t i = 0; i < length; i += VL) {                                                                     \
            const int64_t n = length - i < VL ? length - i : VL;                                                       \
            way w;                                                                                                     \
            w.grad_out = load_some(row->grad_out + i, n);                                                              \
            for (int k = 0; k < (gates); k++) w.x[k] = load_some(row->x + k * row->stride + i, n);                     \
            for (int k = 0; k < (from_h); k++) w.h[k] = load_some(row->h + k * row->stride + i, n);                    \
            if ((states) > 0) w.before = load_some(row->before + i, n);                                                \
            if ((states) > 1) w.after = load_some(row->after + i, n);                                                  \
            if ((states) > 1) w.grad_state = load_some(row->grad_state + i, n);                                        \
            name(&w);                                                                                                  \
            for (int k = 0; k < (gates); k++) store_some(row->grad_x + k * row->stride + i, w.grad_x[k], n);           \
            for (int k = 0; k < (from_h); k++) store_some(row->grad_h + k * row->stride + i, w.grad_h[k], n);          \
            if ((states) > 0) store_some(row->grad_state + i, w.grad_state, n);                                        \
        }                                                                                                              \
    }
DEFINE_GATES_BACK(lstm_gates_back, 4, 0, 2)
DEFINE_GATES_BACK(gru_gates_back, 3, 3, 1)
DEFINE_GATES_BACK(tanh_gates_back, 1, 0, 0)
DEFINE_GATES_BACK(relu_gates_back, 1, 0, 0)
