/* What the elementwise ops on two or three operands share: operands that are tensors or numbers, their common dtype and
 * shape. */
#ifndef AMP_STEPS_OPERANDS_H
#define AMP_STEPS_OPERANDS_H

#include "call/call.h"

/* Of one op. */
enum { AMP_MOST_OPERANDS = 4 };

/* A tensor, or (tensor == NULL) a number. `name` is the argument's, for messages. */
typedef struct amp_operand {
    const char *name;
    amp_tensor *tensor;
    amp_scalar number;
} amp_operand;

static inline amp_operand amp_tensor_operand(const char *name, amp_tensor *tensor) {
    return (amp_operand){.name = name, .tensor = tensor};
}
static inline amp_operand amp_number_operand(const char *name, amp_scalar number) {
    return (amp_operand){.name = name, .number = number};
}

/* The result dtype of ordinary promotion. */
amp_dtype amp_operands_dtype(const amp_operand *values, int count);

/* The same as if all were broadcast first: a 0-dim tensor widens like any other. Tensors only. */
amp_dtype amp_operands_expanded_dtype(const amp_operand *values, int count);

/* The broadcast shape of all values that are tensors. */
amp_status amp_operands_shape(const amp_call *call, const amp_operand *values, int count, int *rank, int64_t *shape);

/* Makes the output in the broadcast shape of all values that are tensors, of `dtype`; channels-last where the first of
 * that shape is. NULL with an error. */
amp_tensor *amp_operands_output(amp_call *call, const amp_operand *values, int count, amp_dtype dtype);

/* What clamp and clamp.tensor work on: the input, then the bounds that are given. */
typedef struct amp_clamp {
    amp_operand v[3];
    int count, low, high; /* places of the bounds in v; 0: none */
    amp_dtype dtype;      /* of the result */
} amp_clamp;

/* Reads the arguments of either; an error if no bound is given, if there is no order, or if a bound is no integer that
 * the result can hold. */
amp_status amp_clamp_read(const amp_call *call, amp_clamp *clamp);

#endif /* AMP_STEPS_OPERANDS_H */
