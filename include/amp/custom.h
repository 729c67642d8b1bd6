/* Functions with a backward of the program's own: torch.autograd.Function, with custom_fwd and custom_bwd.
 *
 *     static amp_status mm_forward(amp_custom_call *call, amp_tensor *const *in, amp_tensor **out) {
 *         amp_custom_save(call, in[0]);
 *         amp_custom_save(call, in[1]);
 *         out[0] = amp_mm(in[0], in[1]);
 *         return amp_last_status();
 *     }
 *     static amp_status mm_backward(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given) {
 *         amp_tensor *a = amp_custom_saved(call, 0), *b = amp_custom_saved(call, 1);
 *         if (amp_custom_wants(call, 0)) given[0] = amp_mm(gradients[0], amp_t(b));
 *         if (amp_custom_wants(call, 1)) given[1] = amp_mm(amp_t(a), gradients[0]);
 *         return amp_last_status();
 *     }
 *     static const amp_custom_function mm = AMP_CUSTOM("mm", mm_forward, mm_backward, .inputs = 2, .outputs = 1);
 *     …
 *     amp_tensor *c = NULL;
 *     amp_custom_apply(&mm, NULL, (amp_tensor *[]){a, b}, &c);
 *
 * An op (amp_define_op in amp/user.h) has a schema, a policy and kernels; a function has tensors only, and is made of
 * ops. What need not be kept but may be computed again is amp_checkpoint's. */
#ifndef AMP_CUSTOM_H
#define AMP_CUSTOM_H

#include "amp/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call, from its forward to its last backward. */
typedef struct amp_custom_call amp_custom_call;

/* Computes outputs from inputs, of which one may be NULL; nothing in it is recorded. It must write no input. */
typedef amp_status (*amp_custom_forward)(amp_custom_call *call, amp_tensor *const *inputs, amp_tensor **outputs);
/* Gives the gradients of the inputs from those of the outputs. gradients[i] is NULL where none has arrived; given[i]
 * begins as NULL, which stands for no gradient, and is not read where amp_custom_wants is false. It is of its input's
 * shape, or one that broadcasting the input gives, which is summed; converted to the input's dtype. With create_graph
 * the ops that it calls are recorded. */
typedef amp_status (*amp_custom_backward)(amp_custom_call *call, amp_tensor *const *gradients, amp_tensor **given);

/* Both return amp_last_status(), close the scopes and regions that they open, and what they make goes at their ends. */
typedef struct amp_custom_function {
    size_t struct_size AMP_SIZE_OF_(amp_custom_function);
    const char *name; /* for sentences; it and the functions live as long as the records of the calls */
    amp_custom_forward forward;
    amp_custom_backward backward;
    int inputs, outputs; /* how many; at least one output */
    /* custom_fwd's cast_inputs. NONE: the forward runs in the regions that are open, and the backward in those again. A
     * floating dtype: inputs in an enabled region of their device are cast to it (floating ones, not f64), and both run
     * with autocast off; outside of regions nothing is cast. */
    amp_dtype cast_inputs;
    size_t context_size; /* of what amp_custom_apply copies into the call, at most a megabyte */
} amp_custom_function;

/* Calls the forward, and records the call if an input requires gradients. `context` (NULL: zeros) is copied. Results
 * are owned as those of ops are; where the call is recorded, floating and complex ones require gradients, and one that
 * is an input is a view of it. All are NULL with an error: no function, an input that was released, an output that the
 * forward did not set; its own; no memory. From any thread. */
AMP_API amp_status amp_custom_apply(const amp_custom_function *function, const void *context, amp_tensor *const *inputs,
                                    amp_tensor **outputs);

/* ---- Inside of both functions ---- */

/* The call's copy of the context, aligned to 8 bytes: what the forward writes there the backward finds. */
AMP_API void *amp_custom_context(amp_custom_call *call);
/* Somebody may want the gradient of the input; in a backward: wants it. */
AMP_API bool amp_custom_wants(const amp_custom_call *call, int input);
/* ctx.save_for_backward, in the forward only: an input, an output, or what was made on the way, through which no
 * gradient of gradients leads. Elements are saved, not copied: writing them before the backward is an error there. They
 * get numbers from 0 on. NULL is saved as NULL. Errors: a call in its backward; no memory. */
AMP_API amp_status amp_custom_save(amp_custom_call *call, amp_tensor *tensor);
/* Number `index` of what was saved, in the backward only: borrowed until its end. NULL: it was saved as NULL; or, with
 * an error, there is none. */
AMP_API amp_tensor *amp_custom_saved(amp_custom_call *call, int index);

#ifndef __cplusplus
/* static const amp_custom_function f = AMP_CUSTOM("f", forward, backward, .inputs = 1, .outputs = 1); */
#define AMP_CUSTOM(function_name, its_forward, its_backward, ...)                                                      \
    {                                                                                                                  \
        .struct_size = sizeof(amp_custom_function), .name = function_name, .forward = its_forward,                     \
        .backward = its_backward, __VA_ARGS__                                                                          \
    }
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_CUSTOM_H */
