/* Dense f32 kernels of the slopes of activations (steps/activation.h). */
#ifndef AMP_CPU_SLOPES_H
#define AMP_CPU_SLOPES_H

#include <stdint.h>

#include "steps/activation.h"

/* out[i] = d[i]·f'(x[i]; p, q, r); out may be d or x. The same bits on every ISA. */
typedef void amp_slope_function(float *out, const float *d, const float *x, int64_t n, const float *numbers);

#endif /* AMP_CPU_SLOPES_H */
