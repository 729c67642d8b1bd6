/* A file of packed weights: a head, a table with a row for each cast, and the casts' bytes, each from a page on.
 * Numbers are in the machine's order, which the head's format tells too. */
#ifndef AMP_GRAPH_PACKS_FILE_H
#define AMP_GRAPH_PACKS_FILE_H

#include <stdint.h>

#include "amp/tensor.h"

enum { AMP_PACKS_FORMAT = 1, AMP_PACKS_PAGE = 4096, AMP_PACKS_MOST_ROWS = 1 << 20 };
#define AMP_PACKS_MAGIC "AMPPACKS"

typedef struct amp_packs_head {
    char magic[8];
    uint32_t format;                     /* AMP_PACKS_FORMAT */
    uint32_t layouts;                    /* AMP_LAYOUTS_VERSION */
    char version[32];                    /* of libamp, as text; zeros behind it */
    char isa[32];                        /* that the kernels are for */
    uint64_t structure, stamp, contents; /* of the model: amp_graph_weights */
    uint64_t count;                      /* rows */
    uint64_t bytes;                      /* of the file */
    uint64_t sum;                        /* of the head, with 0 here, and of the table */
} amp_packs_head;

/* A cast, and where it is. */
typedef struct amp_packs_row {
    int64_t tensor; /* of the model, that it is made of: its number; the rest of the key is the cast cache's */
    int64_t offset;
    int32_t source_dtype, dtype, kind, variant, rank, zero;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    uint64_t at, bytes, sum;
} amp_packs_row;

#endif /* AMP_GRAPH_PACKS_FILE_H */
