/* The autocast layer, and the thread's regions. */
#ifndef AMP_POLICY_AUTOCAST_H
#define AMP_POLICY_AUTOCAST_H

#include "amp/autocast.h"
#include "core/thread.h"
#include "dispatch/call.h"

/* The layer: eligibility, policy, casts; then the layers below. */
amp_status amp_autocast_layer(amp_call *call);

/* This thread's state of a device. */
typedef struct amp_region_state {
    bool enabled, cache_enabled, strict, allow_banned;
    amp_dtype dtype;
    amp_table table;
} amp_region_state;

extern __thread amp_region_state amp_region_states[AMP_DEVICE_COUNT] AMP_INITIAL_EXEC;

/* Leaves the regions that were entered since the thread's nesting was `nesting`; how many, or minus the number of those
 * that were left beyond it. */
int amp_regions_unwind(int nesting);

/* Defined, on the device, floating point, not f64. */
bool amp_autocast_eligible(const amp_tensor *tensor, amp_device device);

/* How long the cast of an eligible tensor is kept. */
amp_cast_life amp_autocast_cast_life(const amp_region_state *region, const amp_tensor *t, amp_dtype dtype, bool weight);

#endif /* AMP_POLICY_AUTOCAST_H */
