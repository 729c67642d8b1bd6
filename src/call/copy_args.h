/* An argument struct that outlives its call. */
#ifndef AMP_CALL_COPY_ARGS_H
#define AMP_CALL_COPY_ARGS_H

#include "policy/op_table.h"

/* What a copy of the struct and of its texts takes, and the copy, in `room` of that size. Tensors and lists are as they
 * were: somebody else's. */
size_t amp_args_bytes(const amp_op_info *op, const void *args);
void amp_args_copy(const amp_op_info *op, const void *args, void *room);

#endif /* AMP_CALL_COPY_ARGS_H */
