/* Large blocks. What comes from the system at once is a segment, of one request or, where a program holds much, of
 * several; a request that a free block has room for cuts its part off, and a block that is freed joins its free
 * neighbours. So a program whose shapes change finds room in what the shapes before it left, where a list for each size
 * would keep the most that it ever had of every size.
 *
 * Free blocks of one class lie in one bin: one of class k or above has room for a request of class k. Joining does not
 * help against segments that grow step by step, each a little too small for the next request. So there is a bound: no
 * more is asked of the system while more is held than SLACK beside 5/4 of the most that was ever in use at once, and
 * segments that are wholly free go back first, the small ones before the large. */
#include "core/large_blocks.h"

#include "core/counters.h"
#include "core/hot.h"
#include "core/lock.h"

enum {
    SLACK = 16 << 20,
    SHARE = 16,
    MOST_SEGMENT = 64 << 20,
    MANY_BYTES = 4 << 20,                    /* in use: from there on … */
    LEAST_SEGMENT = 4 * AMP_BLOCK_HUGE_PAGE, /* … no segment is smaller */
    WORD_BITS = 64,
    WORDS = (AMP_BLOCK_CLASSES + WORD_BITS - 1) / WORD_BITS
};

/* Behind the header of a free block. */
typedef struct free_part {
    amp_block *previous; /* in its bin */
} free_part;

/* All under AMP_LOCK_MEMORY. */
static amp_block *bins[AMP_BLOCK_CLASSES];
static uint64_t filled[WORDS];         /* a bit for each bin that is not empty */
static size_t bytes_held;              /* of all segments of the hook that is set now */
static size_t bytes_used, most_in_use; /* of blocks that are handed out: now, and at most so far */

static free_part *part_of(amp_block *b) {
    return (free_part *)(void *)((char *)b + AMP_BLOCK_HEADER);
}

static bool is_segment(const amp_block *b) {
    return !b->below && !b->above;
}

static void set_bytes(amp_block *b, size_t bytes) {
    const unsigned size_class = amp_block_class_of(bytes);
    b->bytes = bytes;
    b->size_class = (uint16_t)(amp_block_class_bytes(size_class) == bytes ? size_class : size_class - 1);
}

static void put_in_bin(amp_block *b) {
    const unsigned bin = b->size_class;
    part_of(b)->previous = NULL;
    b->next = bins[bin];
    if (b->next) part_of(b->next)->previous = b;
    bins[bin] = b;
    filled[bin / WORD_BITS] |= (uint64_t)1 << bin % WORD_BITS;
}

static void take_from_bin(amp_block *b) {
    const unsigned bin = b->size_class;
    amp_block *previous = part_of(b)->previous;
    *(previous ? &previous->next : &bins[bin]) = b->next;
    if (b->next) part_of(b->next)->previous = previous;
    if (!bins[bin]) filled[bin / WORD_BITS] &= ~((uint64_t)1 << bin % WORD_BITS);
}

/* The first bin from this one on that is not empty; AMP_BLOCK_CLASSES: there is none. */
static unsigned next_filled(unsigned bin) {
    while (bin < AMP_BLOCK_CLASSES) {
        const uint64_t bits = filled[bin / WORD_BITS] >> bin % WORD_BITS;
        if (bits) return bin + (unsigned)__builtin_ctzll(bits);
        bin = (bin / WORD_BITS + 1) * WORD_BITS;
    }
    return AMP_BLOCK_CLASSES;
}

/* Leaves `bytes` to the block; the rest, where it makes a large block, becomes a free one. */
static void cut(amp_block *b, size_t bytes) {
    if (b->bytes - bytes < amp_block_class_bytes(AMP_BLOCK_SMALL_CLASSES)) return;
    amp_block *rest = (amp_block *)(void *)((char *)b + bytes);
    *rest = *b;
    set_bytes(rest, b->bytes - bytes);
    rest->is_free = true;
    rest->below = b;
    if (rest->above) rest->above->below = rest;
    b->above = rest;
    set_bytes(b, bytes);
    put_in_bin(rest);
}

/* Both are neighbours, and free; the upper one is in no bin any more. */
static void join(amp_block *lower, amp_block *upper) {
    set_bytes(lower, lower->bytes + upper->bytes);
    lower->above = upper->above;
    if (lower->above) lower->above->below = lower;
}

static void count_used(size_t change) {
    bytes_used += change;
    if (bytes_used > most_in_use) most_in_use = bytes_used;
}

AMP_HOT amp_block *amp_large_take(unsigned size_class) {
    amp_lock(AMP_LOCK_MEMORY);
    const unsigned bin = bins[size_class] ? size_class : next_filled(size_class);
    amp_block *b = bin < AMP_BLOCK_CLASSES ? bins[bin] : NULL;
    if (b) {
        take_from_bin(b);
        b->is_free = false;
        cut(b, amp_block_class_bytes(size_class));
        count_used(b->bytes);
    }
    amp_unlock(AMP_LOCK_MEMORY);
    return b;
}

/* The block, with whatever is free beside it: blocks of an earlier hook are in no bin. */
static amp_block *join_neighbours(amp_block *b, bool binned) {
    if (b->above && b->above->is_free) {
        if (binned) take_from_bin(b->above);
        join(b, b->above);
    }
    if (b->below && b->below->is_free) {
        amp_block *below = b->below;
        if (binned) take_from_bin(below);
        join(below, b);
        b = below;
    }
    return b;
}

AMP_HOT void amp_large_keep(amp_block *b) {
    amp_block *stale = NULL;
    amp_lock(AMP_LOCK_MEMORY);
    const bool current = amp_block_is_current(b);
    if (current) count_used(-b->bytes);
    b->is_free = true;
    b = join_neighbours(b, current);
    b->next = NULL;
    if (current) {
        put_in_bin(b);
    } else if (is_segment(b)) {
        stale = b;
    }
    amp_unlock(AMP_LOCK_MEMORY);
    if (stale) (void)amp_blocks_kept_to_system(stale);
}

/* Takes free segments out of the bins while more than `most` bytes are held. */
static amp_block *take_segments_beyond(size_t most) {
    amp_block *chain = NULL;
    for (unsigned bin = next_filled(0); bin < AMP_BLOCK_CLASSES; bin = next_filled(bin + 1)) {
        for (amp_block *b = bins[bin], *next = NULL; b && bytes_held > most; b = next) {
            next = b->next;
            if (!is_segment(b)) continue;
            take_from_bin(b);
            bytes_held -= b->bytes;
            b->next = chain;
            chain = b;
        }
    }
    return chain;
}

static size_t give_back_beyond(size_t most) {
    amp_lock(AMP_LOCK_MEMORY);
    amp_block *chain = take_segments_beyond(most);
    amp_unlock(AMP_LOCK_MEMORY);
    return amp_blocks_kept_to_system(chain);
}

size_t amp_large_trim(void) {
    return give_back_beyond(0);
}

/* What may be held before `bytes` more are asked for. */
static size_t bound_before(size_t bytes) {
    amp_lock(AMP_LOCK_MEMORY);
    const size_t used = bytes_used + bytes, most = used > most_in_use ? used : most_in_use;
    amp_unlock(AMP_LOCK_MEMORY);
    return most + most / 4 + SLACK - bytes;
}

/* Bytes of a segment for a block of so many: a share of what is in use at most, so that in a program that holds much,
 * blocks of many sizes find each other's room. The rest of it is not touched before it is wanted. At least a few huge
 * pages: they cost the system a fifth of what the same bytes cost in small ones. */
static size_t segment_for(size_t bytes) {
    if (!AMP_BLOCKS_ARE_KEPT) return bytes;
    amp_lock(AMP_LOCK_MEMORY);
    size_t most = most_in_use / SHARE;
    if (most_in_use >= MANY_BYTES && most < LEAST_SEGMENT) most = LEAST_SEGMENT;
    amp_unlock(AMP_LOCK_MEMORY);
    if (most > MOST_SEGMENT) most = MOST_SEGMENT;
    return bytes < most ? amp_block_class_bytes(amp_block_class_of(most)) : bytes;
}

amp_block *amp_large_make(unsigned size_class) {
    const size_t bytes = amp_block_class_bytes(size_class);
    size_t whole = segment_for(bytes);
    (void)give_back_beyond(bound_before(whole));
    amp_block *b = amp_block_from_system(whole);
    if (!b && whole > bytes) b = amp_block_from_system(whole = bytes);
    if (!b) return NULL;
    set_bytes(b, whole);
    b->is_free = false;
    b->below = b->above = NULL;
    amp_lock(AMP_LOCK_MEMORY);
    if (amp_block_is_current(b)) {
        bytes_held += whole;
        cut(b, bytes);
        count_used(b->bytes);
    }
    amp_unlock(AMP_LOCK_MEMORY);
    amp_count(&amp_counters_mine()->cached_bytes, whole - b->bytes);
    return b;
}

void amp_large_forget(void) {
    for (unsigned bin = 0; bin < AMP_BLOCK_CLASSES; bin++) bins[bin] = NULL;
    for (int word = 0; word < WORDS; word++) filled[word] = 0;
    bytes_held = bytes_used = 0;
}
