/* Resampling along D, H and W by weighted taps: linear, cubic and antialiased interpolation. */
#ifndef AMP_CPU_RESAMPLE_H
#define AMP_CPU_RESAMPLE_H

#include "cpu/spatial.h"

/* What each output element of one dimension is made of. */
typedef struct amp_taps {
    int64_t most;    /* taps of one element at most, and the step between elements in `index` and `weights` */
    int64_t *counts; /* … and how many it has */
    int64_t *index;  /* input elements, rising */
    double *weights;
} amp_taps;

/* Room for a dimension's taps, in the call's frame. */
amp_status amp_taps_make(const amp_call *call, int64_t elements, int64_t most, amp_taps *taps);

/* out = Σ over taps of D × H × W. Computes in f32 or f64; u8 results are rounded to nearest, halves up,
 * and clipped to 0 … 255. */
amp_status amp_resample(amp_call *call, const amp_spatial *s, amp_tensor *input, const amp_taps taps[AMP_SPATIAL_DIMS]);

#endif /* AMP_CPU_RESAMPLE_H */
