/* The autocast layer. */
#ifndef AMP_AUTOCAST_AUTOCAST_H
#define AMP_AUTOCAST_AUTOCAST_H

#include "call/call.h"
#include "policy/regions.h"

/* How long the cast of an eligible tensor is kept. */
amp_cast_life amp_autocast_cast_life(const amp_region_state *region, const amp_tensor *t, amp_dtype dtype, bool weight);

/* Whether each cast of an op's argument is told on standard error, in this process: apex's verbose. */
void amp_autocast_tell_casts(bool tells);

#endif /* AMP_AUTOCAST_AUTOCAST_H */
