/* Calling an op by its name: the same way through as amp_<op>(), for tools, graphs and other languages. */
#ifndef AMP_CALL_H
#define AMP_CALL_H

#include "amp/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum amp_value_kind {
    AMP_VALUE_NONE = 0, /* None: as if the argument were absent */
    AMP_VALUE_TENSOR,
    AMP_VALUE_TENSOR_LIST,
    AMP_VALUE_SCALAR, /* any number or bool; fits float, int, bool and Scalar arguments, int[] and float[] as one value */
    AMP_VALUE_DIMS,   /* integers; fits int[] and float[] */
    AMP_VALUE_FLOATS,
    AMP_VALUE_DTYPE,
    AMP_VALUE_STRING,
    AMP_VALUE_GENERATOR
} amp_value_kind;

typedef struct amp_value {
    amp_value_kind kind;
    union {
        amp_tensor *tensor;
        amp_tensor_list list;
        amp_scalar scalar;
        amp_dims dims;
        amp_floats floats;
        amp_dtype dtype;
        const char *string;
        amp_generator *generator;
    } as;
} amp_value;

/* One argument. name NULL: positional (positional arguments come first). */
typedef struct amp_argument {
    const char *name;
    amp_value value;
} amp_argument;

/* Calls `op`: "add", "add_" (in place), "add_out" (with an argument named "out": a tensor, or a list of as many tensors
 * as the op has results), or one overload, "add.scalar". Of several overloads the first that the arguments fit is
 * taken. outputs: room for output_capacity results; results beyond it are released; *output_count (output_count may be
 * NULL) gets how many there are (the number of tensors for an op that returns a list). Outputs are owned as the result
 * of amp_<op>() is: by the innermost open scope, else by the caller. The output of an in-place form is its first
 * argument itself, those of an out= form the tensors of "out": no new owner, nothing more to release. After an error
 * all outputs are NULL, and *output_count is as it was. Errors: unknown op (and which one may be meant); an argument
 * that is unknown, missing, given twice or of the wrong kind; those of the op. */
AMP_API amp_status amp_call_op(const char *op, const amp_argument *arguments, int argument_count, amp_tensor **outputs,
                               int output_capacity, int *output_count);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CALL_H */
