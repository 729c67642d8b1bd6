/* Walks operands of one broadcast shape together: the dimensions are ordered and merged so that the inner loop is as
 * long and as dense as the operands allow, and large work is spread over threads.
 *
 *     amp_iterator it;
 *     amp_iterator_start(&it, rank, shape);
 *     amp_iterator_add(&it, out);            // operand 0
 *     amp_iterator_add(&it, input);          // operand 1, broadcast to the shape
 *     amp_iterator_run(&it, loop, context, 1);
 */
#ifndef AMP_CPU_ITERATE_H
#define AMP_CPU_ITERATE_H

#include <string.h>

#include "core/tensor_impl.h"

enum { AMP_ITERATOR_OPERANDS = 5 };

typedef struct amp_iterator {
    int rank, operands;
    int64_t shape[AMP_MAX_RANK];
    int64_t strides[AMP_ITERATOR_OPERANDS][AMP_MAX_RANK]; /* in bytes; 0 where broadcast */
    char *data[AMP_ITERATOR_OPERANDS];
} amp_iterator;

/* `count` elements of every operand: element i of operand k is at data[k] + i·strides[k]. Several threads may call it
 * at once, on different elements. */
typedef void amp_iterator_loop(void *context, char *const *data, const int64_t *strides, int64_t count);
/* The same of `rows` rows, which are not one long row for every operand: row r of operand k begins at data[k] +
 * r·row_strides[k]. */
typedef void amp_iterator_rows_loop(void *context, char *const *data, const int64_t *strides,
                                    const int64_t *row_strides, int64_t count, int64_t rows);

void amp_iterator_start(amp_iterator *it, int rank, const int64_t *shape);
/* Adds a tensor, whose shape must broadcast to the iterator's. */
void amp_iterator_add(amp_iterator *it, const amp_tensor *tensor);
/* Adds memory with byte strides of its own, one for each dimension of the shape. */
void amp_iterator_add_memory(amp_iterator *it, void *data, const int64_t *strides);
/* Calls the loop for every element, once. `cost`: how many simple operations one element takes. */
void amp_iterator_run(amp_iterator *it, amp_iterator_loop *loop, void *context, int64_t cost);
/* The same for a loop that takes rows: what it can do with several at once is its affair. */
void amp_iterator_run_rows(amp_iterator *it, amp_iterator_rows_loop *loop, void *context, int64_t cost);

/* A loop of rows that takes one after the other, by a loop of one. */
static inline __attribute__((always_inline)) void
amp_iterator_row_by_row(amp_iterator_loop *loop, void *context, int operands, char *const *data, const int64_t *strides,
                        const int64_t *row_strides, int64_t count, int64_t rows) {
    char *at[AMP_ITERATOR_OPERANDS];
    memcpy(at, data, sizeof at);
    for (int64_t r = 0; r < rows; r++) {
        loop(context, at, strides, count);
        for (int k = 0; k < operands; k++) at[k] += row_strides[k];
    }
}

/* How far a stride goes, either way. */
static inline int64_t amp_stride_reach(int64_t stride) {
    return stride < 0 ? -stride : stride;
}

#endif /* AMP_CPU_ITERATE_H */
