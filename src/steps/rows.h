/* Any tensor as dense rows along one or several of its dimensions. */
#ifndef AMP_STEPS_ROWS_H
#define AMP_STEPS_ROWS_H

#include "core/tensor_impl.h"

/* Row r begins at data + r·length·size, in memory of the tensor's device; rows are in the order of the dimensions that
 * are not in them. */
typedef struct amp_rows {
    char *data;
    amp_dtype dtype;
    int64_t count, length, size; /* size: of an element, in bytes */
    amp_tensor target;           /* the tensor itself, with the rows' dimensions last */
    amp_tensor *copy;            /* dense rows of it; NULL where its own memory serves */
} amp_rows;

#endif /* AMP_STEPS_ROWS_H */
