/* Convolutions of bf16 through oneDNN, for layers that it computes faster: conv_choice.c says which. */
#ifndef AMP_CPU_CONV_DNNL_H
#define AMP_CPU_CONV_DNNL_H

#include "cpu/conv/conv.h"

/* Runs a layer and says so, where the rule gives it to oneDNN, oneDNN has the convolution, and it can be
 * cut into slices for several threads, or is small; that follows from the layer alone. The weights are packed once, as
 * it wants them, by the cast cache. Activations are ours alone: its relu and clip take a bound for NaN, and its other
 * functions differ from our ops in bits. Sums are f32, in oneDNN's order: the same for any number of threads. */
amp_status amp_conv_dnnl(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y,
                         bool *served);

/* Whether it can be cut so; oneDNN may still lack the convolution. */
bool amp_conv_dnnl_cuts(const amp_conv *c);

#endif /* AMP_CPU_CONV_DNNL_H */
