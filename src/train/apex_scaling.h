/* Scaled losses, for the handle as for amp_initialize. */
#ifndef AMP_TRAIN_APEX_SCALING_H
#define AMP_TRAIN_APEX_SCALING_H

#include "amp/apex.h"

/* Of a loss whose handle, optimizers and scaler are known: scales it, and makes room for its gradients. */
amp_scaled_loss amp_scaled_loss_begin(amp_scaled_loss scaled, amp_tensor *loss, bool in_f32);

#endif /* AMP_TRAIN_APEX_SCALING_H */
