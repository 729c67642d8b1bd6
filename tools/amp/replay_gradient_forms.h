/* What of a gradient is compared, where not all of it means something (docs/replay.md). */
#ifndef AMP_TOOL_REPLAY_GRADIENT_FORMS_H
#define AMP_TOOL_REPLAY_GRADIENT_FORMS_H

#include "amp/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* (G + Gᴴ)/2 of matrices. */
amp_tensor *replay_symmetrized(amp_tensor *gradient);
/* One triangle of matrices, with the diagonal. */
amp_tensor *replay_triangle(amp_tensor *gradient, bool is_upper);
/* G − exp(log_probs) · ΣG over the last dimension: what normalised input leaves of it. */
amp_tensor *replay_projected(amp_tensor *gradient, amp_tensor *log_probs);
/* The tensor's absolute values: through which an output counts that is free in sign or phase. */
amp_tensor *replay_absolute(amp_tensor *tensor);
amp_tensor *replay_ones_like(amp_tensor *tensor);
amp_tensor *replay_zeros_like(amp_tensor *tensor);
/* NULL, or zero throughout. */
bool replay_is_zero(amp_tensor *tensor);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TOOL_REPLAY_GRADIENT_FORMS_H */
