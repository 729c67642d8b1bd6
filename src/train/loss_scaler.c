/* apex's LossScaler: a scale that halves with an overflow, and doubles after a window of steps without. */
#include "train/loss_scaler.h"

#include <math.h>

enum { WINDOW = 2000 };

amp_loss_scaler amp_loss_scaler_dynamic(double min_scale, double max_scale) {
    return (amp_loss_scaler){.is_dynamic = true,
                             .scale = fmin(65536, max_scale),
                             .min_scale = min_scale,
                             .max_scale = max_scale,
                             .window = WINDOW};
}

amp_loss_scaler amp_loss_scaler_static(double scale) {
    return (amp_loss_scaler){.scale = scale};
}

bool amp_loss_scaler_update(amp_loss_scaler *s) {
    const bool skips = s->is_dynamic && s->has_overflowed;
    s->unskipped++;
    if (skips) {
        s->scale = fmax(s->scale / 2, s->min_scale);
        s->unskipped = 0;
    }
    if (s->is_dynamic && s->unskipped == s->window) {
        s->scale = fmin(s->scale * 2, s->max_scale);
        s->unskipped = 0;
    }
    s->has_overflowed = false;
    return skips;
}
