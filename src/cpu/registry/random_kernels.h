/* Kernels of random numbers: element i of a result is made of the words at its place, by one formula on every ISA.
 *
 * Word k of block b of a group (core/generator.h, philox.h) is number 16·k + b of its 64: so 16 neighbours come from 16
 * blocks that are computed side by side, and nothing needs to be turned round. Element i of an f32 result has word i,
 * an element of eight bytes words i and i + 32 of its 64. */
#ifndef AMP_CPU_RANDOM_KERNELS_H
#define AMP_CPU_RANDOM_KERNELS_H

#include <stdint.h>

#include "core/generator.h"

/* What the kernels need beside the place; each reads its own part. */
typedef struct amp_random_numbers {
    int bits;                /* uniform: how many an element has, at most 24 */
    float low, width, below; /* uniform: low + u·width, at most below */
    float mean, deviation;   /* normal */
    uint32_t last;           /* keep: with the words 0 … last; so with probability (last + 1)·2⁻³² */
    float scale;             /* keep: what is kept is multiplied by this, the rest by 0 */
} amp_random_numbers;

/* Elements 0 … n - 1 of a call at `place`, which a caller moves on by whole groups. `in` may be `out`.
 * random_words: uint32, as they are. random_uniform: u a multiple of 2^-bits. random_normal: Box–Muller.
 * random_keep: of in, or where it is NULL of ones. random_below: 1 where the word, as a fraction, is below in, else 0:
 * exactly with the probability in, cut up to a multiple of 2⁻³². */
typedef void amp_random_function(void *out, const float *in, int64_t n, const amp_random_place *place,
                                 const amp_random_numbers *numbers);
#define AMP_VECTOR_RANDOM(X)                                                                                           \
    X(RANDOM_WORDS, random_words)                                                                                      \
    X(RANDOM_UNIFORM, random_uniform)                                                                                  \
    X(RANDOM_NORMAL, random_normal)                                                                                    \
    X(RANDOM_KEEP, random_keep)                                                                                        \
    X(RANDOM_BELOW, random_below)

#endif /* AMP_CPU_RANDOM_KERNELS_H */
