/* Regions of another time, for a stretch of a backward. */
#ifndef AMP_GRAD_REGIONS_H
#define AMP_GRAD_REGIONS_H

#include "amp/autocast.h"
#include "core/thread.h"

/* Enters the state; what amp_grad_regions_leave is given. In a backward the layers are others than the open regions
 * have asked for. */
static inline unsigned amp_grad_regions_enter(const amp_autocast_state *state) {
    const unsigned layers = amp_this_thread.layers;
    (void)amp_autocast_enter_state(state, sizeof *state);
    return layers;
}

static inline void amp_grad_regions_leave(unsigned layers) {
    (void)amp_autocast_restore_end();
    amp_this_thread.layers = layers;
}

#endif /* AMP_GRAD_REGIONS_H */
