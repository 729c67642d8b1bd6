/* Random numbers: seeds, generators, and their state for checkpoints.
 *
 * Numbers come from Philox4x32-10, which computes the words at any place of a sequence from a seed and that place. A
 * generator is a seed and the place up to which its sequence has been given out; an op takes a piece of it as long as
 * its result needs. Element i of the result, counted row by row, depends on the seed, the place where the piece begins
 * and i: not on threads, instruction sets, strides or the device.
 *
 * Ops take a generator as their option `generator`, and without one that of their device, which is shared: calls of
 * several threads get pieces that do not overlap, in the order in which they come. Where results are to be the same
 * each time, such threads need generators of their own. A forked child has copies of all generators, as they were. */
#ifndef AMP_RANDOM_H
#define AMP_RANDOM_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The seed of a generator that was given none. */
#define AMP_DEFAULT_SEED 67280421310721u

/* Seeds the generators of all devices that ops use by default, and sets them to the beginning of their sequences. */
AMP_API void amp_manual_seed(uint64_t seed);

/* A generator for ops on `device`, with AMP_DEFAULT_SEED; the caller's, until amp_generator_destroy. NULL with an
 * error: no such device, no memory. Any number of threads may use it at once. */
AMP_API amp_generator *amp_generator_create(amp_device device);
/* Not while a call uses it. NULL is ignored; so is the generator of amp_generator_default. */
AMP_API void amp_generator_destroy(amp_generator *generator);
/* The one that ops on `device` use where they are given none; the library's. NULL with an error: no such device. */
AMP_API amp_generator *amp_generator_default(amp_device device);
/* Sets the seed, and goes to the beginning of its sequence. AMP_ERROR_INVALID: `generator` is NULL. */
AMP_API amp_status amp_generator_manual_seed(amp_generator *generator, uint64_t seed);

/* All that there is to know of a generator: written to a checkpoint and set again, it goes on where it was. */
typedef struct amp_generator_state {
    size_t struct_size AMP_SIZE_OF_(amp_generator_state); /* sizeof(amp_generator_state) */
    uint64_t seed;
    uint64_t offset; /* of the next number, in units of 64 words of 32 bits */
} amp_generator_state;

/* Fills *state, whose struct_size is set. AMP_ERROR_INVALID: one is NULL, or the size is none. */
AMP_API amp_status amp_generator_get_state(amp_generator *generator, amp_generator_state *state);
/* AMP_ERROR_INVALID: one is NULL, or the size is none; the generator stays as it was. */
AMP_API amp_status amp_generator_set_state(amp_generator *generator, const amp_generator_state *state);

#ifdef __cplusplus
}
#endif

#endif /* AMP_RANDOM_H */
