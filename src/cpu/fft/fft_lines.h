/* Fourier transforms of all lines of a tensor along one dimension. */
#ifndef AMP_CPU_FFT_LINES_H
#define AMP_CPU_FFT_LINES_H

#include "steps/fft_lines.h"

/* Uses threads; the result depends neither on their number nor on strides. */
amp_status amp_fft_run_lines(const amp_fft_lines *lines);

#endif /* AMP_CPU_FFT_LINES_H */
