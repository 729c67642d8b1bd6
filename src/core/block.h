/* The allocator's blocks: a header of 64 bytes, and the user's bytes behind it. */
#ifndef AMP_CORE_BLOCK_H
#define AMP_CORE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amp/memory.h"

enum {
    AMP_BLOCK_HEADER = 64,
    AMP_BLOCK_HUGE_PAGE = 2 << 20,
    AMP_BLOCK_SMALLEST_LOG = 7, /* the first class holds 128 bytes, header included */
    AMP_BLOCK_LARGE_LOG = 17,   /* classes up to 112 KiB are small; what is larger is cut and joined: large_blocks.h */
    AMP_BLOCK_LONGEST_LOG = 62,
    AMP_BLOCK_STEPS_LOG = 2,       /* of small classes four from one power of two to the next, … */
    AMP_BLOCK_LARGE_STEPS_LOG = 6, /* of large ones 64: a matrix of weights leaves at most a 64th of its block unused */
    AMP_BLOCK_SMALL_CLASSES = (AMP_BLOCK_LARGE_LOG - AMP_BLOCK_SMALLEST_LOG) << AMP_BLOCK_STEPS_LOG,
    AMP_BLOCK_CLASSES =
        AMP_BLOCK_SMALL_CLASSES + ((AMP_BLOCK_LONGEST_LOG - AMP_BLOCK_LARGE_LOG) << AMP_BLOCK_LARGE_STEPS_LOG),
};

typedef struct amp_block {
    struct amp_block *next; /* in a free list */
    size_t bytes;           /* of the whole block, header included */
    uint16_t size_class;    /* the largest that is no larger than the block */
    bool is_free;           /* large blocks: their neighbours ask */
    uint8_t chained;        /* the first of a chain of small blocks that all threads may take: so many are in it */
    unsigned generation;    /* of the hook that it came from */
    amp_allocator origin;
    union {
        struct amp_block *below;      /* large blocks: the neighbours in the memory that came from the hook at once */
        struct amp_block *next_chain; /* the first of a chain */
    };
    struct amp_block *above;
} amp_block;

/* Whether a block that is freed is kept for the next request; not where AddressSanitizer is to see it go. */
#if defined(__SANITIZE_ADDRESS__)
#define AMP_BLOCKS_ARE_KEPT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define AMP_BLOCKS_ARE_KEPT 0
#endif
#endif
#ifndef AMP_BLOCKS_ARE_KEPT
#define AMP_BLOCKS_ARE_KEPT 1
#endif

_Static_assert(sizeof(amp_block) <= AMP_BLOCK_HEADER, "the header must fit one alignment unit");

/* The k-th class from 1 << log on, of `1 << steps` from each power of two to the next. */
static inline size_t amp_block_step_bytes(unsigned k, unsigned log, unsigned steps) {
    return (((size_t)1 << steps) + (k & ((1u << steps) - 1))) << (log - steps + (k >> steps));
}

/* The first of them that holds so many bytes, more than 1 << log. */
static inline unsigned amp_block_step_of(size_t bytes, unsigned log, unsigned steps) {
    const unsigned last = 63u - (unsigned)__builtin_clzll((unsigned long long)(bytes - 1));
    const unsigned step =
        (unsigned)((bytes - 1) >> (last - steps)) & ((1u << steps) - 1); /* that bytes - 1 falls into */
    return ((last - log) << steps) + step + 1;
}

static inline size_t amp_block_class_bytes(unsigned size_class) {
    return size_class < AMP_BLOCK_SMALL_CLASSES
               ? amp_block_step_bytes(size_class, AMP_BLOCK_SMALLEST_LOG, AMP_BLOCK_STEPS_LOG)
               : amp_block_step_bytes(size_class - AMP_BLOCK_SMALL_CLASSES, AMP_BLOCK_LARGE_LOG,
                                      AMP_BLOCK_LARGE_STEPS_LOG);
}

/* The smallest class that holds so many bytes. */
static inline unsigned amp_block_class_of(size_t bytes) {
    if (bytes <= (size_t)1 << AMP_BLOCK_SMALLEST_LOG) return 0;
    if (bytes <= (size_t)1 << AMP_BLOCK_LARGE_LOG)
        return amp_block_step_of(bytes, AMP_BLOCK_SMALLEST_LOG, AMP_BLOCK_STEPS_LOG);
    return AMP_BLOCK_SMALL_CLASSES + amp_block_step_of(bytes, AMP_BLOCK_LARGE_LOG, AMP_BLOCK_LARGE_STEPS_LOG);
}

/* From the hook that is set now, or NULL. */
amp_block *amp_block_from_system(size_t bytes);
/* To the hook that the block came from; one that was kept, and a chain of such. Not under AMP_LOCK_MEMORY: a hook may
 * do anything. */
void amp_block_to_system(amp_block *block);
size_t amp_blocks_kept_to_system(amp_block *chain); /* returns their bytes */
/* Whether it came from the hook that is set now. */
bool amp_block_is_current(const amp_block *block);

#endif /* AMP_CORE_BLOCK_H */
