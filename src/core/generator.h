/* What ops need of generators: pieces of their sequences. */
#ifndef AMP_CORE_GENERATOR_H
#define AMP_CORE_GENERATOR_H

#include "amp/random.h"

/* A place in a sequence: all that random numbers are computed from. */
typedef struct amp_random_place {
    uint64_t seed;
    uint64_t offset; /* in groups of AMP_RANDOM_WORDS words */
} amp_random_place;

/* A group: so many words, of a quarter as many Philox blocks. */
enum { AMP_RANDOM_WORDS = 64 };

/* Takes `groups` groups from the generator; NULL: from the default one of `device`. An error that names the op where
 * the generator is for another device. */
amp_status amp_generator_take(amp_generator *generator, amp_device device, const char *op, uint64_t groups,
                              amp_random_place *place);

#endif /* AMP_CORE_GENERATOR_H */
