/* What this thread computes right now, as a model calls it: for messages, and for rules about single places. */
#ifndef AMP_POLICY_PLACE_H
#define AMP_POLICY_PLACE_H

#include "core/thread.h"

/* The node of a model; NULL: none runs. */
extern __thread const char *amp_place AMP_INITIAL_EXEC;

#endif /* AMP_POLICY_PLACE_H */
