/* Which input elements a resampled element is made of, along one dimension. */
#ifndef AMP_STEPS_TAPS_H
#define AMP_STEPS_TAPS_H

#include "call/call.h"

/* What each output element of one dimension is made of. */
typedef struct amp_taps {
    int64_t most;    /* taps of one element at most, and the step between elements in `index` and `weights` */
    int64_t *counts; /* … and how many it has */
    int64_t *index;  /* input elements, rising */
    double *weights;
} amp_taps;

/* Room for a dimension's taps, in the call's frame. */
amp_status amp_taps_make(const amp_call *call, int64_t elements, int64_t most, amp_taps *taps);

#endif /* AMP_STEPS_TAPS_H */
