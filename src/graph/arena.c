/* Largest first, into the lowest gap: within 2 % of the most that is alive at once for nearly all networks. */
#include "graph/arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "core/memory.h"

/* Larger before smaller; of equals the one that is needed first, so that the order is one. */
static int compare(const void *left, const void *right) {
    const amp_arena_block *a = *(amp_arena_block *const *)left, *b = *(amp_arena_block *const *)right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return (a > b) - (a < b);
}

static bool meet(const amp_arena_block *a, const amp_arena_block *b) {
    return a->first <= b->last && b->first <= a->last;
}

static size_t room_of(const amp_arena_block *b) {
    return (b->bytes + AMP_ARENA_ALIGNMENT - 1) / AMP_ARENA_ALIGNMENT * AMP_ARENA_ALIGNMENT;
}

/* The lowest place among those that are placed, which stand in the order of their offsets. */
static size_t lowest_gap(amp_arena_block *const *placed, int count, const amp_arena_block *b) {
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        if (!meet(placed[i], b)) continue;
        if (placed[i]->offset >= at + room_of(b)) return at;
        const size_t end = placed[i]->offset + room_of(placed[i]);
        if (end > at) at = end;
    }
    return at;
}

static void insert(amp_arena_block **placed, int count, amp_arena_block *b) {
    while (count > 0 && placed[count - 1]->offset > b->offset) {
        placed[count] = placed[count - 1];
        count--;
    }
    placed[count] = b;
}

/* Whether the sum of all can be counted. */
static bool is_countable(const amp_arena_block *blocks, int count) {
    size_t sum = 0;
    for (int i = 0; i < count; i++) {
        if (blocks[i].bytes > SIZE_MAX / 4 || sum > SIZE_MAX / 4) return false;
        sum += room_of(&blocks[i]);
    }
    return true;
}

bool amp_arena_place(amp_arena_block *blocks, int count, size_t *bytes) {
    *bytes = 0;
    if (count == 0) return true;
    if (count > AMP_ARENA_MOST_BLOCKS || !is_countable(blocks, count)) return false;
    amp_arena_block **order = amp_alloc(2 * (size_t)count * sizeof(amp_arena_block *)), **placed = order + count;
    if (!order) return false;
    for (int i = 0; i < count; i++) order[i] = &blocks[i];
    qsort(order, (size_t)count, sizeof(amp_arena_block *), compare);
    for (int i = 0; i < count; i++) {
        order[i]->offset = lowest_gap(placed, i, order[i]);
        insert(placed, i, order[i]);
        const size_t end = order[i]->offset + room_of(order[i]);
        if (end > *bytes) *bytes = end;
    }
    amp_free(order);
    return true;
}
