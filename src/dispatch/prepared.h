/* A call whose arguments have been prepared, checked and cast: an equal one went through the dispatcher before. */
#ifndef AMP_DISPATCH_PREPARED_H
#define AMP_DISPATCH_PREPARED_H

#include "call/backend.h"

/* An argument that autocast put in the place of another: `tensor`, which has no meaning between calls, becomes a
 * pending cast of `source`. */
typedef struct amp_prepared_cast {
    amp_tensor *tensor, *source;
    amp_dtype dtype;
    amp_cast_life life;
} amp_prepared_cast;

typedef struct amp_prepared {
    const amp_op_info *op;
    amp_backend_op row;
    const void *args;               /* complete, with the casts' tensors in it */
    amp_tensor *const *places;      /* by result: where it goes; NULL: nobody wants it */
    const amp_prepared_cast *casts; /* … of the arguments, */
    int cast_count;
    int output_count;
    bool has_unaligned; /* an argument may lie unaligned in a file */
} amp_prepared;

/* What the CPU has for the op. */
amp_backend_op amp_prepared_row(const amp_op_info *op);

/* Runs the row, as the dispatcher would: no layer sees the call. The thread must not be inside of an op. *in_place
 * becomes false unless each result that is wanted is in its place; then none is to be believed. */
amp_status amp_prepared_run(const amp_prepared *prepared, bool *in_place);

#endif /* AMP_DISPATCH_PREPARED_H */
