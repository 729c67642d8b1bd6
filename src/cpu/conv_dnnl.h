/* Convolutions of bf16 through oneDNN: for a class of layers the table of choices (cpu/choices.h) says whose
 * is faster. */
#ifndef AMP_CPU_CONV_DNNL_H
#define AMP_CPU_CONV_DNNL_H

#include "cpu/conv.h"

/* Deep layers: weights beyond L2 that few pixels meet, windows of several taps or a stride, images channels last
 * without gaps. Runs such a layer and says so, where the table gives the class to oneDNN and oneDNN has the
 * convolution; that follows from the layer alone. The weights are packed once, as it wants them, by the cast cache. Sums
 * are f32, in oneDNN's order: the same for any number of threads. */
amp_status amp_conv_dnnl(amp_call *call, const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *bias,
                         const amp_conv_plane *y, bool *served);

/* The measurement behind the choice: operations per second of both, on one layer of the class; 0 where one cannot
 * run. */
void amp_conv_dnnl_measure(double *ours, double *theirs);

#endif /* AMP_CPU_CONV_DNNL_H */
