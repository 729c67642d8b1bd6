/* Rules of the user's for single ops and single places, which a region may have above its table (amp/autocast.h). */
#ifndef AMP_POLICY_RULES_H
#define AMP_POLICY_RULES_H

#include "amp/autocast.h"
#include "core/thread.h"
#include "policy/policy.h"

/* A number that no other rules of the process have; 0 of NULL. */
int amp_rules_number(const amp_autocast_rules *rules);
/* Those of a number; NULL: they are gone, or never were. */
const amp_autocast_rules *amp_rules_of_number(int number);

/* Whether some of them are for places. rules may be NULL. */
bool amp_rules_have_places(const amp_autocast_rules *rules);

/* Whether they keep calls of this op, made at this place ("" or NULL: nowhere known), in f32. rules may be NULL. */
bool amp_rules_keep_f32(const amp_autocast_rules *rules, const amp_op_info *op, const char *place);

/* What holds for a call of this thread, where `choice` would without rules: those for where it is made, what
 * amp_pinned says, those for its op. */
amp_policy_choice amp_rules_choose(const amp_autocast_rules *rules, const amp_op_info *op, amp_policy_choice choice);

/* The call that a graph's step makes now runs in f32, whatever the tables say: a part of it is to. */
extern __thread bool amp_pinned AMP_INITIAL_EXEC;
/* What it was, for its end; within a step that is to run in f32, all do. */
static inline bool amp_pin(bool in_f32) {
    const bool was = amp_pinned;
    amp_pinned = was || in_f32;
    return was;
}

#endif /* AMP_POLICY_RULES_H */
