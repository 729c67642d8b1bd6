/* What a checkpoint asks of a scaler. */
#ifndef AMP_TRAIN_GRAD_SCALER_H
#define AMP_TRAIN_GRAD_SCALER_H

#include "amp/grad_scaler.h"
#include "train/loading.h"

/* Something was unscaled or stepped since the last update. */
bool amp_grad_scaler_is_between(const amp_grad_scaler *scaler);
/* Notes what amp_grad_scaler_set_state will write. */
amp_status amp_grad_scaler_note_state(amp_loading *loading, amp_grad_scaler *scaler,
                                      const amp_grad_scaler_state *state);

#endif /* AMP_TRAIN_GRAD_SCALER_H */
