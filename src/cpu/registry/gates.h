/* The pointwise part of recurrent networks: f32, one row of a step at a time. */
#ifndef AMP_CPU_GATES_H
#define AMP_CPU_GATES_H

#include <stdint.h>

/* n elements of one row. Gate k of element i is x[k·stride + i] and h[k·stride + i]: what the step's input and the
 * state before it give. Writes the new h to `out`, which may be `state`.
 *
 * lstm_gates: x has the sums of both for the gates i, f, g, o, and h is not read;
 *     c = σ(f)·c + σ(i)·tanh(g), kept in `state`; out = σ(o)·tanh(c).
 * gru_gates: gates r, z, n; m = tanh(xn + σ(xr + hr)·hn); out = m + σ(xz + hz)·(state − m), kept in `state` too. */
typedef void amp_gates_function(float *out, float *state, const float *x, const float *h, int64_t stride, int64_t n);

/* The functions amp_<name>_f32_<isa> (ref, avx2, avx512), compiled from gates_body.h; the same bits on every ISA. */
#define AMP_VECTOR_GATES(X)                                                                                            \
    X(LSTM_GATES, lstm_gates)                                                                                          \
    X(GRU_GATES, gru_gates)

/* The way back through the same row: of n elements, what the gradient `grad_out` of the new h makes of the gates' sums,
 * x and h as above. `before` and `after` are the state before and behind the step. Gate k goes to grad_x[k·stride + i].
 *
 * lstm_gates_back: grad_state is the gradient of the new c, and becomes that of the old one;
 * gru_gates_back: grad_h gets the gates of h, grad_state what reaches the old h past them;
 * tanh_gates_back, relu_gates_back: of an Elman layer, which has one gate and no state. */
typedef struct amp_gates_way {
    const float *grad_out, *x, *h, *before, *after;
    float *grad_x, *grad_h, *grad_state;
    int64_t stride;
} amp_gates_way;
typedef void amp_gates_back_function(const amp_gates_way *w, int64_t n);
#define AMP_VECTOR_GATES_BACK(X)                                                                                       \
    X(LSTM_GATES_BACK, lstm_gates_back)                                                                                \
    X(GRU_GATES_BACK, gru_gates_back)                                                                                  \
    X(TANH_GATES_BACK, tanh_gates_back)                                                                                \
    X(RELU_GATES_BACK, relu_gates_back)

#endif /* AMP_CPU_GATES_H */
