/* The tensors that take results: what the dispatcher and the implementations know of them. */
#ifndef AMP_CALL_OUTPUTS_H
#define AMP_CALL_OUTPUTS_H

#include "call/call.h"

/* What the tensor is called that takes result number `index`. */
const char *amp_target_name(const amp_call *call, int index);
/* The tensor that takes result number `index`; NULL: the caller gave none. */
amp_tensor *amp_target_of(const amp_call *call, int index);

/* That tensor has this shape; this dtype. */
amp_status amp_check_target_shape(const amp_call *call, int index, int rank, const int64_t *shape);
amp_status amp_check_result_dtype(const amp_call *call, int index, amp_dtype dtype);
/* The target of an op with one result has the shape, and can hold elements of the dtype. */
amp_status amp_check_target(const amp_call *call, amp_dtype dtype, int rank, const int64_t *shape);

/* A result that was made in a scope which the implementation opened becomes the call's own. */
void amp_results_take(const amp_call *call, amp_tensor *tensor);

/* The call without its target, its places and results, for a step on the way whose results are not the op's: what it
 * makes has memory of its own, and errors keep the op's name. */
amp_call amp_call_step(const amp_call *call);

#endif /* AMP_CALL_OUTPUTS_H */
