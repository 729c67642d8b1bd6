/* Gradients: what ops do with tensors that require them is recorded, and amp_backward goes back over the record.
 *
 *     amp_tensor_set_requires_grad(w, true);
 *     …
 *     amp_scope_here();
 *     amp_tensor *loss;
 *     amp_autocast(AMP_DEVICE_CPU) loss = amp_cross_entropy(amp_linear(x, w), labels);
 *     amp_backward(loss);
 *     amp_tensor *dw = amp_tensor_grad(w); // of w's dtype and shape
 *
 * A leaf is a tensor that no recorded op made: gradients arrive there, are added to what is there already, and stay
 * until amp_tensor_zero_grad. The record of a result lives as long as the result, or what was made of it. What it saves
 * are elements and not copies: writing over something that is saved makes the backward fail, with a sentence. Several
 * threads may record and go back at a time, each its own results; leaves may be shared, and then the sum's order is
 * that of arrival. */
#ifndef AMP_GRAD_H
#define AMP_GRAD_H

#include "amp/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether gradients are wanted. AMP_ERROR_DTYPE for other than floating point and complex tensors; AMP_ERROR_INVALID
 * where a result that requires them is to cease to (amp_detach gives one that does not), or is not a leaf. */
AMP_API amp_status amp_tensor_set_requires_grad(amp_tensor *tensor, bool requires_grad);
/* False for NULL, and with an error for a released tensor. */
AMP_API bool amp_tensor_requires_grad(const amp_tensor *tensor);
/* No recorded op made it. True for NULL. */
AMP_API bool amp_tensor_is_leaf(const amp_tensor *tensor);

/* The gradient that has arrived at a leaf, or at a result after amp_tensor_retain_grad: a tensor of its shape and
 * dtype, borrowed until the next amp_backward, amp_tensor_set_grad or amp_tensor_zero_grad (amp_retain keeps it
 * longer). NULL: none yet. Backwards add to it in place. */
AMP_API amp_tensor *amp_tensor_grad(const amp_tensor *tensor);
/* Puts a gradient in its place, which is shared, not copied; NULL takes it away. Errors: another shape, dtype or
 * device. */
AMP_API amp_status amp_tensor_set_grad(amp_tensor *tensor, amp_tensor *gradient);
/* amp_tensor_set_grad(tensor, NULL): there is no gradient, which is not the same as zeros. */
AMP_API amp_status amp_tensor_zero_grad(amp_tensor *tensor);
/* A result's gradient is to be kept too. An error if it requires none. */
AMP_API amp_status amp_tensor_retain_grad(amp_tensor *tensor);

/* Called of the gradient that arrives at a tensor, whole, in each backward, before anything is done with it. Gives
 * another in its place, of the same shape and dtype, or NULL: it stays. What it makes goes with the backward's
 * scope. */
typedef amp_tensor *(*amp_gradient_hook)(void *context, amp_tensor *gradient);
/* Adds a hook; they are called in the order in which they were added, and live as long as the tensor's record. An error
 * if the tensor requires no gradient. */
AMP_API amp_status amp_tensor_register_hook(amp_tensor *tensor, amp_gradient_hook hook, void *context);
/* The same, and the context ends with the hook: `release` is called of it once, on the thread that lets the record go, or
 * before an error is returned. It calls nothing of libamp but amp_release. */
AMP_API amp_status amp_tensor_register_hook_owned(amp_tensor *tensor, amp_gradient_hook hook, void *context,
                                                  void (*release)(void *context));

/* ---- Backward ------------------------------------------------------------------------------------------------- */
typedef struct amp_backward_args {
    size_t struct_size AMP_SIZE_OF_(amp_backward_args);
    amp_tensor *loss;       /* a result that requires gradients */
    amp_tensor *gradient;   /* of the loss, in its shape; converted to its dtype. NULL: 1, for a loss of one element */
    amp_tensor_list inputs; /* only these leaves get gradients (and results that retain theirs); empty: every leaf */
    bool retain_graph;      /* the record is kept for another backward; else what it saved goes as it is used */
    /* What the backward calls is recorded itself: gradients of gradients. Retains. A leaf's gradient then holds the
     * record, which holds the leaf: amp_tensor_zero_grad lets it go; or ask amp_grad, which leaves nothing at
     * leaves. */
    bool create_graph;
    unsigned char reserved[6];
} amp_backward_args;

/* Adds the gradient of the loss by each leaf to what is at the leaf. In no region: ops go back in the dtypes that they
 * were run in. Errors: no loss; one that requires no gradient, or has several elements and no gradient was given; a
 * gradient of another shape; a record that was gone over before; a saved tensor that was written since; the error of an
 * op. Leaves keep what has arrived until then. While an error stands nothing is computed, but the record goes all the
 * same. Returns amp_last_status(). */
AMP_API amp_status amp_backward_call(const amp_backward_args *args);

typedef struct amp_grad_args {
    size_t struct_size AMP_SIZE_OF_(amp_grad_args);
    amp_tensor_list outputs;         /* results that require gradients */
    amp_tensor_list inputs;          /* leaves or results whose gradients are asked for */
    amp_tensor_list gradients;       /* of the outputs, each may be NULL as in amp_backward; empty: none is given */
    bool retain_graph, create_graph; /* as amp_backward's */
    bool allow_unused;               /* an input that no output depends on has NULL instead of an error */
    unsigned char reserved[5];
} amp_grad_args;

/* The gradients of the sum of the outputs by the inputs, a list in their order, owned as results are; leaves are left
 * as they are. An empty list with an error: as amp_backward's, and an input that nothing depends on. */
AMP_API amp_tensor_list amp_grad_call(const amp_grad_args *args);

/* amp_backward of several at once: of outputs[i], with gradients[i]. */
typedef struct amp_backward_all_args {
    size_t struct_size AMP_SIZE_OF_(amp_backward_all_args);
    amp_tensor_list outputs, gradients, inputs;
    bool retain_graph, create_graph;
    unsigned char reserved[6];
} amp_backward_all_args;
AMP_API amp_status amp_backward_all_call(const amp_backward_all_args *args);

#ifndef __cplusplus
/* amp_backward(loss); amp_backward(loss, .gradient = g, .retain_graph = true); */
#define amp_backward(...)                                                                                              \
    AMP_CALL_(                                                                                                         \
        amp_backward_call(&(const amp_backward_args){.struct_size = sizeof(amp_backward_args), .loss = __VA_ARGS__}))
/* amp_grad(AMP_LIST(loss), AMP_LIST(w, b), .create_graph = true) */
#define amp_grad(result_list, ...)                                                                                     \
    AMP_CALL_(amp_grad_call(                                                                                           \
        &(const amp_grad_args){.struct_size = sizeof(amp_grad_args), .outputs = result_list, .inputs = __VA_ARGS__}))
/* amp_backward_all(AMP_LIST(first, second), .gradients = AMP_LIST(g, h)) */
#define amp_backward_all(...)                                                                                          \
    AMP_CALL_(amp_backward_all_call(                                                                                   \
        &(const amp_backward_all_args){.struct_size = sizeof(amp_backward_all_args), .outputs = __VA_ARGS__}))
#endif

/* ---- Recomputation ---------------------------------------------------------------------------------------------- */
/* Computes outputs from inputs by calling ops; results are owned as those of ops are. Returns amp_last_status(). */
typedef amp_status (*amp_checkpoint_function)(void *context, amp_tensor *const *inputs, amp_tensor **outputs);

/* Calls the function, and records nothing of it but its inputs; when a backward comes to its results it is called
 * again, in the regions and with the random numbers (of the CPU's default generator) of the first time, and recorded
 * then: torch.utils.checkpoint. So what it makes on the way needs no memory between. It must compute the same again;
 * `context` lives until then; tensors that it takes from elsewhere (weights) get their gradients as ever, and must not
 * have been written since. The results require gradients wherever calls are recorded. No gradients of gradients, and
 * none for some inputs alone (amp_grad, .inputs). Errors: NULL among inputs or results; those of the function; all
 * outputs are NULL then. Inputs and outputs may be one array: amp_checkpoint(layer, l, &x, 1, &x, 1). */
AMP_API amp_status amp_checkpoint(amp_checkpoint_function function, void *context, amp_tensor *const *inputs,
                                  int input_count, amp_tensor **outputs, int output_count);

/* ---- Whether calls are recorded, on this thread ----------------------------------------------------------------- */
/* True on a new thread. */
AMP_API bool amp_grad_is_enabled(void);
/* Sets it; what it was. */
AMP_API bool amp_grad_set_enabled(bool enabled);

/* What the block macros call; not for direct use. */
AMP_API amp_region amp_grad_mode_open(bool enabled);
AMP_API void amp_grad_mode_close(amp_region *region);

/* amp_no_grad { … } and amp_no_grad_here(); nothing inside is recorded; results require no gradients, leaves may be
 * written in place: what updates parameters, and what only infers. amp_enable_grad is the way back inside of one. (A
 * block is a loop of one round, as amp_scope is.) */
#define amp_no_grad AMP_REGION_BLOCK_(amp_grad_mode_open(false), amp_grad_mode_close)
#define amp_no_grad_here() AMP_REGION_HERE_(amp_grad_mode_open(false), amp_grad_mode_close)
#define amp_enable_grad AMP_REGION_BLOCK_(amp_grad_mode_open(true), amp_grad_mode_close)
#define amp_enable_grad_here() AMP_REGION_HERE_(amp_grad_mode_open(true), amp_grad_mode_close)

/* ---- Finding NaN -------------------------------------------------------------------------------------------------- */
/* While it is on, on this thread, a backward fails at the first op that makes a NaN of gradients that have none, and
 * names the op and the argument: torch.autograd.set_detect_anomaly. It reads every gradient once more. Returns what it
 * was; off on a new thread. */
AMP_API bool amp_detect_anomaly(bool enabled);

#ifdef __cplusplus
}
#endif

#endif /* AMP_GRAD_H */
