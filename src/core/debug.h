/* AMP_DEBUG=1: what it costs to look after memory, for a program that is being looked into. */
#ifndef AMP_CORE_DEBUG_H
#define AMP_CORE_DEBUG_H

#include "core/tensor_impl.h"

/* Set when the library is loaded, never after. */
extern bool amp_debug __attribute__((visibility("hidden")));

/* Behind a tensor's header, where amp_debug is set: the list of live tensors. */
typedef struct amp_debug_link {
    amp_tensor *next, *previous;
    char op[48]; /* that made it, or the function */
} amp_debug_link;

static inline size_t amp_debug_header_bytes(void) {
    return amp_debug ? sizeof(amp_tensor) + sizeof(amp_debug_link) : sizeof(amp_tensor);
}

/* A tensor lives from here … to here. At the end of the process those that still live are named on standard error. */
void amp_debug_made(amp_tensor *tensor, const char *op);
void amp_debug_gone(amp_tensor *tensor);

/* Fills released memory with what is NaN in every floating dtype. */
void amp_debug_poison(void *memory, size_t bytes);

/* A sum over the bytes of elements that lie so, strides in elements; never 0, but without memory. */
uint64_t amp_debug_sum(const void *data, size_t element_bytes, int rank, const int64_t *shape, const int64_t *strides);

#endif /* AMP_CORE_DEBUG_H */
