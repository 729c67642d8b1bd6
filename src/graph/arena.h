/* Where results lie in one block of memory, by when they are needed. */
#ifndef AMP_GRAPH_ARENA_H
#define AMP_GRAPH_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AMP_ARENA_ALIGNMENT = 64, AMP_ARENA_MOST_BLOCKS = 8192 };

typedef struct amp_arena_block {
    size_t bytes;
    int first, last; /* steps: from the one that writes it to the last that reads it */
    size_t offset;   /* found by amp_arena_place, a multiple of AMP_ARENA_ALIGNMENT */
} amp_arena_block;

/* Gives each block an offset, so that none that are needed at the same time overlap: the largest first, each into the
 * lowest gap. *bytes is how much all take. False: no memory, or more than AMP_ARENA_MOST_BLOCKS (the time grows with
 * their square). */
bool amp_arena_place(amp_arena_block *blocks, int count, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif /* AMP_GRAPH_ARENA_H */
