/* AMP_DEBUG=1 */
#include "core/debug.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#include "core/lock.h"

enum { SHOWN = 10, POISON = 0xff };

bool amp_debug;

static amp_tensor *newest; /* of the live ones; under AMP_LOCK_HEADERS, as all links */
static long live;

/* Before any constructor of the program's own can make a tensor, whose header has the link or has it not. */
__attribute__((constructor(101))) static void look_at_environment(void) {
    const char *debug = getenv("AMP_DEBUG");
    amp_debug = debug && *debug && strcmp(debug, "0") != 0;
}

static amp_debug_link *link_of(amp_tensor *t) {
    return (amp_debug_link *)(void *)(t + 1);
}

void amp_debug_made(amp_tensor *t, const char *op) {
    amp_debug_link *link = link_of(t);
    snprintf(link->op, sizeof link->op, "%s", op);
    amp_lock(AMP_LOCK_HEADERS);
    link->previous = NULL;
    link->next = newest;
    if (newest) link_of(newest)->previous = t;
    newest = t;
    live++;
    amp_unlock(AMP_LOCK_HEADERS);
}

void amp_debug_gone(amp_tensor *t) {
    const amp_debug_link *link = link_of(t);
    amp_lock(AMP_LOCK_HEADERS);
    *(link->previous ? &link_of(link->previous)->next : &newest) = link->next;
    if (link->next) link_of(link->next)->previous = link->previous;
    live--;
    amp_unlock(AMP_LOCK_HEADERS);
}

/* The first of them: what leaks in a loop is like what leaked first. */
__attribute__((destructor)) static void name_live(void) {
    if (!amp_debug || live == 0) return;
    amp_lock(AMP_LOCK_HEADERS);
    fprintf(stderr, "libamp: AMP_DEBUG: %ld tensor%s never released:\n", live, live == 1 ? " was" : "s were");
    amp_tensor *t = newest;
    while (link_of(t)->next) t = link_of(t)->next;
    for (int shown = 0; t && shown < SHOWN; shown++, t = link_of(t)->previous) {
        fprintf(stderr, "  %s, made by %s\n", amp_describe(t), link_of(t)->op);
    }
    if (live > SHOWN) fprintf(stderr, "  … and %ld more\n", live - SHOWN);
    amp_unlock(AMP_LOCK_HEADERS);
}

void amp_debug_poison(void *memory, size_t bytes) {
    memset(memory, POISON, bytes);
}

/* Row by row: what lies between the elements is not the tensor's. */
static void add_row(XXH3_state_t *state, const char *row, size_t size, int64_t count, int64_t stride) {
    if (stride == 1) {
        (void)XXH3_64bits_update(state, row, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        (void)XXH3_64bits_update(state, row + i * stride * (int64_t)size, size);
    }
}

uint64_t amp_debug_sum(const void *data, size_t element_bytes, int rank, const int64_t *shape, const int64_t *strides) {
    XXH3_state_t *state = XXH3_createState();
    int64_t at[AMP_MAX_RANK] = {0}, rows = 1;
    const int64_t count = rank ? shape[rank - 1] : 1, stride = rank ? strides[rank - 1] : 1;
    if (!state) return 0; /* unknown */
    (void)XXH3_64bits_reset(state);
    for (int d = 0; d < rank - 1; d++) rows *= shape[d];
    for (int64_t r = 0; count && r < rows; r++) {
        const char *row = data;
        for (int d = 0; d < rank - 1; d++) row += at[d] * strides[d] * (int64_t)element_bytes;
        add_row(state, row, element_bytes, count, stride);
        for (int d = rank - 2; d >= 0 && ++at[d] == shape[d]; d--) at[d] = 0;
    }
    const uint64_t sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum | 1;
}
