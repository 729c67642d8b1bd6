/* Memory: every byte that libamp uses comes from here: 64-byte aligned, cached per size class, and able to fail. */
#ifndef AMP_CORE_MEMORY_H
#define AMP_CORE_MEMORY_H

#include <stddef.h>

#include "amp/memory.h"

/* `bytes` of uninitialised memory, 64-byte aligned; NULL when the system has none (no error is recorded: the caller
 * names what it was for). Zero bytes give a valid pointer. Freed blocks are kept for the next request of their size
 * class, so that a steady loop allocates nothing from the system. Thread-safe. */
void *amp_alloc(size_t bytes);
/* As amp_alloc, zeroed. */
void *amp_alloc_zeroed(size_t bytes);
/* Frees what amp_alloc gave; NULL is allowed. */
void amp_free(void *block);

#endif /* AMP_CORE_MEMORY_H */
