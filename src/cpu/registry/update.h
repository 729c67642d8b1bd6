/* Steps of optimizers over dense elements: f32 and f64, the same bits on every ISA. */
#ifndef AMP_CPU_UPDATE_H
#define AMP_CPU_UPDATE_H

#include <stdint.h>

#include "steps/kinds.h"

/* So many elements in their places, all of the row's dtype, which share no memory. */
typedef struct amp_update_block {
    amp_update_kind kind;
    const double *numbers;
    int64_t count;
    void *parameter;
    const void *gradient;
    void *states[AMP_UPDATE_STATES]; /* NULL: there are none */
} amp_update_block;

/* Writes the parameter and its states. */
typedef void amp_update_function(const amp_update_block *b);

#endif /* AMP_CPU_UPDATE_H */
