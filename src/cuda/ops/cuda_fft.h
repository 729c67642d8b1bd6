/* Fourier transforms on the device, for the op layer that it shares with the CPU. */
#ifndef AMP_CUDA_FFT_H
#define AMP_CUDA_FFT_H

#include "cpu/fft/fft_lines.h"

/* As amp_fft_run_lines. */
amp_status amp_cuda_fft_lines(const amp_fft_lines *lines);

#endif /* AMP_CUDA_FFT_H */
