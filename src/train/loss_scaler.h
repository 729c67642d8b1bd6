/* apex's LossScaler: numbers alone. */
#ifndef AMP_TRAIN_LOSS_SCALER_H
#define AMP_TRAIN_LOSS_SCALER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct amp_loss_scaler {
    bool is_dynamic, has_overflowed;
    double scale, min_scale, max_scale;
    int64_t window, unskipped; /* steps without an overflow since the scale changed */
} amp_loss_scaler;

/* Starts at 2^16, or at the highest; a window is 2,000 steps. */
amp_loss_scaler amp_loss_scaler_dynamic(double min_scale, double max_scale);
amp_loss_scaler amp_loss_scaler_static(double scale);
/* After the gradients of a loss: halves the scale where they overflowed, doubles it after a window of steps where none
 * did. True: the step is to be skipped. A static one counts, and never skips. */
bool amp_loss_scaler_update(amp_loss_scaler *scaler);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TRAIN_LOSS_SCALER_H */
