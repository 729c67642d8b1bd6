/* Transforms of lines as devices take them. */
#ifndef AMP_STEPS_FFT_LINES_H
#define AMP_STEPS_FFT_LINES_H

#include "core/tensor_impl.h"

typedef enum amp_fft_form {
    AMP_FFT_C2C, /* complex lines to complex ones; real lines too */
    AMP_FFT_R2C, /* real lines of n to the frequencies 0 … n/2 */
    AMP_FFT_C2R  /* the way back: the inverse transform, of a spectrum whose other half mirrors the given one */
} amp_fft_form;

typedef struct amp_fft_lines {
    amp_fft_form form;
    int64_t n;                     /* length of the transform */
    int dim;                       /* along which the lines lie */
    bool inverse;                  /* C2C: exp(+2πi…) */
    bool conjugate_input;          /* C2R */
    bool conjugate_output;         /* R2C */
    double scale;                  /* of every result */
    const amp_tensor *from, *to;   /* f32, f64, c64 or c128; may be one */
    int64_t extents[AMP_MAX_RANK]; /* how far the lines reach: in `dim` that of the input, cut or padded to n; else the
                                    * lines to transform, which start at 0 in both tensors */
} amp_fft_lines;

#endif /* AMP_STEPS_FFT_LINES_H */
