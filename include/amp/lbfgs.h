/* L-BFGS: torch.optim.LBFGS, with its names, formulas and defaults. An optimizer of small problems that asks for the
 * loss itself, several times a step.
 *
 *     static double closure(void *context) {
 *         struct task *task = context;
 *         amp_scope_here();
 *         amp_parameters_zero_grad(task->p);
 *         amp_tensor *loss = loss_of(task);
 *         amp_backward(loss);
 *         return amp_item(loss);
 *     }
 *     …
 *     amp_lbfgs *opt = amp_lbfgs(p, .line_search = AMP_STRONG_WOLFE);
 *     for (int step = 0; step < 20; step++) amp_lbfgs_step(opt, closure, &task);
 *     amp_lbfgs_destroy(opt);
 */
#ifndef AMP_LBFGS_H
#define AMP_LBFGS_H

#include "amp/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters, and what is known of the curvature. One thread at a time. */
typedef struct amp_lbfgs amp_lbfgs;

typedef enum amp_line_search {
    AMP_LINE_SEARCH_NONE = 0, /* each iteration goes lr times the direction */
    AMP_STRONG_WOLFE          /* until the loss is less by enough and flat enough (c1 = 1e-4, c2 = 0.9) */
} amp_line_search;

typedef struct amp_lbfgs_args {
    size_t struct_size AMP_SIZE_OF_(amp_lbfgs_args);
    const amp_parameters *parameters; /* buffers are passed by */
    amp_opt_float lr;                 /* 1 */
    amp_opt_float tolerance_grad;     /* 1e-7: the largest element of the gradient at an optimum */
    amp_opt_float tolerance_change;   /* 1e-9: of a parameter or of the loss, from iteration to iteration */
    amp_opt_int max_iter;             /* 20: iterations of a step */
    amp_opt_int max_eval;             /* max_iter · 5 / 4: calls of the closure after which no iteration begins */
    amp_opt_int history_size;         /* 100: vectors that are kept, of each of two kinds */
    amp_line_search line_search;
    int reserved; /* 0 */
} amp_lbfgs_args;

/* An owner of the parameters that are in the list now. Its vectors are all parameters long, on their device, in f32
 * (f64 if one is f64). The caller's, until amp_lbfgs_destroy. NULL with an error: no or an empty list, one of buffers
 * alone, parameters that are complex or on several devices, an option out of its range, no memory. */
AMP_API amp_lbfgs *amp_lbfgs_create(const amp_lbfgs_args *args);
/* NULL is allowed. */
AMP_API void amp_lbfgs_destroy(amp_lbfgs *lbfgs);

/* Takes the gradients away, computes the loss, calls amp_backward, and gives the loss as a number; the same for the
 * same parameters. */
typedef double (*amp_closure)(void *context);

/* Up to max_iter iterations. Gives the loss before them; 0 with an error: a parameter that was released, the closure's,
 * no memory. Then the parameters are what they were before the step, and what was known of the curvature is
 * forgotten. */
AMP_API double amp_lbfgs_step(amp_lbfgs *lbfgs, amp_closure closure, void *context);

/* How often the closure was called, over all steps; 0 for NULL. */
AMP_API int64_t amp_lbfgs_evaluations(const amp_lbfgs *lbfgs);

/* As amp_optimizer_state: "d", "prev_flat_grad", "old_dirs.<i>", "old_stps.<i>", "ro.<i>", "t", "H_diag", "prev_loss",
 * "n_iter", "func_evals". Options are not in it. */
AMP_API amp_state amp_lbfgs_state(const amp_lbfgs *lbfgs);
/* Takes such a state, copied. Errors: a name that is missing or unknown, another number of elements, a longer history;
 * nothing is changed then. */
AMP_API amp_status amp_lbfgs_load_state(amp_lbfgs *lbfgs, const char *const *names, amp_tensor *const *tensors,
                                        int64_t count);

#ifndef __cplusplus
/* amp_lbfgs(p, .max_iter = AMP_SET(10)) */
#define amp_lbfgs(...)                                                                                                 \
    AMP_CALL_(                                                                                                         \
        amp_lbfgs_create(&(const amp_lbfgs_args){.struct_size = sizeof(amp_lbfgs_args), .parameters = __VA_ARGS__}))
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_LBFGS_H */
