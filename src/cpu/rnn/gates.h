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

#endif /* AMP_CPU_GATES_H */
