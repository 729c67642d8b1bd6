/* One call on its way from amp_<op>() through the layers to a kernel. */
#ifndef AMP_DISPATCH_CALL_H
#define AMP_DISPATCH_CALL_H

#include "core/tensor_impl.h"
#include "policy/op_table.h"

typedef struct amp_call {
    const amp_op_info *op;
    unsigned form; /* one AMP_FORM_* */
    amp_device device;
    void *args;         /* the op's argument struct: a copy that belongs to the call, defaults filled in */
    amp_tensor *target; /* the tensor that an in-place or out= call writes; else NULL */
    unsigned layers;    /* AMP_LAYER_* still to run */
    amp_tensor *outputs[AMP_MAX_OUTPUTS]; /* filled by the kernel through amp_call_output */
    amp_tensor_list list;                 /* result of an op that returns a list */
    const char *kernel;                   /* for the explain report: the kernel row that ran, e.g. "gemm_bf16_amx" */
} amp_call;

/* An op's implementation on a device: reads call->args, sets call->outputs. */
typedef amp_status (*amp_op_function)(amp_call *call);

/* Entry of every generated amp_<op>_call(). `args` is the caller's struct (its first field is its size); `target` is
 * the out= tensor of an AMP_FORM_OUT call. Returns the first output, NULL with an error. */
amp_tensor *amp_dispatch(const amp_op_info *op, unsigned form, const void *args, amp_tensor *target);
/* The same for ops that return a list. */
amp_tensor_list amp_dispatch_list(const amp_op_info *op, const void *args);

/* What an implementation calls for its result number `index`: a fresh contiguous tensor of that dtype and shape, or, for an
 * in-place or out= call, the target itself where it can be written directly (else a temporary that the dispatcher
 * copies over afterwards). The implementation writes through the strides of what it gets. NULL with an error:
 * the target has another shape, or a dtype that the result cannot be cast to. */
amp_tensor *amp_call_output(amp_call *call, int index, amp_dtype dtype, int rank, const int64_t *shape);

/* The tensor with real memory behind it: itself, or the materialised cast of a pending one (owned by the call). */
amp_tensor *amp_call_dense_cast(amp_call *call, amp_tensor *tensor);

/* op name for messages: "add", "add_" or "add_out". */
const char *amp_call_name(const amp_call *call);

#endif /* AMP_DISPATCH_CALL_H */
