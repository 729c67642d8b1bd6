/* Resampling along D, H and W by weighted taps: linear, cubic and antialiased interpolation. */
#ifndef AMP_CPU_RESAMPLE_H
#define AMP_CPU_RESAMPLE_H

#include "cpu/plane/spatial.h"
#include "steps/taps.h"

/* out = Σ over taps of D × H × W. Computes in f32 or f64; u8 results are rounded to nearest and clipped to 0 … 255. */
amp_status amp_resample(amp_call *call, const amp_spatial *s, amp_tensor *input, const amp_taps taps[AMP_SPATIAL_DIMS]);

#endif /* AMP_CPU_RESAMPLE_H */
