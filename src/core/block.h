/* The allocator's blocks: a header of 64 bytes, and the user's bytes behind it. */
#ifndef AMP_CORE_BLOCK_H
#define AMP_CORE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amp/memory.h"

enum {
    AMP_BLOCK_HEADER = 64,
    AMP_BLOCK_CLASSES = 192,
    AMP_BLOCK_SMALLEST_LOG = 7,       /* the first class holds 128 bytes, header included */
    AMP_BLOCK_SMALL_CLASSES = 4 * 10, /* up to 112 KiB; what is larger is cut and joined: large_blocks.h */
};

typedef struct amp_block {
    struct amp_block *next; /* in a free list */
    size_t bytes;           /* of the whole block, header included */
    uint16_t size_class;    /* the largest that is no larger than the block */
    bool is_free;           /* large blocks: their neighbours ask */
    unsigned generation;    /* of the hook that it came from */
    amp_allocator origin;
    struct amp_block *below, *above; /* large blocks: the neighbours in the memory that came from the hook at once */
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

/* Class k holds blocks of (4 + k % 4) << (SMALLEST_LOG - 2 + k / 4) bytes. */
static inline size_t amp_block_class_bytes(unsigned size_class) {
    return (size_t)(4 + size_class % 4) << (AMP_BLOCK_SMALLEST_LOG - 2 + size_class / 4);
}

/* The smallest class that holds so many bytes. */
static inline unsigned amp_block_class_of(size_t bytes) {
    if (bytes <= (size_t)1 << AMP_BLOCK_SMALLEST_LOG) return 0;
    const unsigned log = 63u - (unsigned)__builtin_clzll((unsigned long long)(bytes - 1));
    const unsigned quarter = (unsigned)((bytes - 1) >> (log - 2)) & 3u; /* of the step that bytes - 1 falls into */
    return (log - AMP_BLOCK_SMALLEST_LOG) * 4 + quarter + 1;
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
