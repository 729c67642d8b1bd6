/* The thread's regions. */
#ifndef AMP_POLICY_REGIONS_H
#define AMP_POLICY_REGIONS_H

#include "amp/autocast.h"
#include "core/thread.h"
#include "policy/op_table.h"

/* This thread's state of a device. */
typedef struct amp_region_state {
    bool enabled, cache_enabled, strict, allow_banned;
    amp_dtype dtype;
    amp_table table;
    const amp_autocast_rules *rules; /* NULL: none */
} amp_region_state;

extern __thread amp_region_state amp_region_states[AMP_DEVICE_COUNT] AMP_INITIAL_EXEC;

/* The rules in force for a device. */
static inline const amp_autocast_rules *amp_region_rules(amp_device device) {
    const amp_region_state *region = &amp_region_states[device];
    return region->enabled ? region->rules : NULL;
}

/* Leaves the regions that were entered since the thread's nesting was `nesting`; how many, or minus the number of those
 * that were left beyond it. */
int amp_regions_unwind(int nesting);

#endif /* AMP_POLICY_REGIONS_H */
