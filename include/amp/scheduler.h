/* Schedulers: learning rates that change from step to step. Names, formulas and defaults are those of
 * torch.optim.lr_scheduler.
 *
 *     amp_scheduler *scheduler = amp_cosine_annealing_lr(opt, .t_max = AMP_SET(1000));
 *     for (…) {
 *         …
 *         amp_optimizer_step(opt);
 *         amp_scheduler_step(scheduler);
 *     }
 *     amp_scheduler_destroy(scheduler); // before the optimizer
 */
#ifndef AMP_SCHEDULER_H
#define AMP_SCHEDULER_H

#include "amp/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What sets the learning rates of an optimizer, which outlives it. One thread at a time. */
typedef struct amp_scheduler amp_scheduler;

/* Which formula; amp_step_lr(…) and its like say it by name. */
typedef enum amp_scheduler_kind {
    AMP_STEP_LR,                        /* times gamma at each step_size */
    AMP_MULTI_STEP_LR,                  /* times gamma at each of milestones */
    AMP_CONSTANT_LR,                    /* times factor until total_iters */
    AMP_LINEAR_LR,                      /* times start_factor to end_factor within total_iters */
    AMP_EXPONENTIAL_LR,                 /* times gamma at each step */
    AMP_POLYNOMIAL_LR,                  /* to 0 within total_iters, as a power */
    AMP_COSINE_ANNEALING_LR,            /* down to eta_min within t_max, and up again */
    AMP_COSINE_ANNEALING_WARM_RESTARTS, /* down to eta_min within t_0, then from the beginning, t_mult times as long */
    AMP_ONE_CYCLE_LR,                   /* up to max_lr and down, within total_steps */
    AMP_LAMBDA_LR                       /* times a function of the caller's */
} amp_scheduler_kind;

/* What the learning rate at the beginning is multiplied by at step `step`, counted from 0. */
typedef double (*amp_lr_function)(void *context, int64_t step);

/* What is not given is PyTorch's default; options of other kinds are not read. */
typedef struct amp_scheduler_args {
    size_t struct_size AMP_SIZE_OF_(amp_scheduler_args);
    amp_optimizer *optimizer;
    amp_opt_int step_size;      /* step: to be given */
    amp_dims milestones;        /* multi-step: growing */
    amp_opt_float gamma;        /* step, multi-step: 0.1; exponential: to be given */
    amp_opt_float factor;       /* constant: 1/3 */
    amp_opt_float start_factor; /* linear: 1/3 */
    amp_opt_float end_factor;   /* linear: 1 */
    amp_opt_int total_iters;    /* constant, linear, polynomial: 5 */
    amp_opt_float power;        /* polynomial: 1 */
    amp_opt_float eta_min;      /* cosine: 0 */
    amp_opt_int t_max;          /* cosine: to be given */
    amp_opt_int t_0, t_mult;    /* restarts: to be given, 1 */
    amp_opt_float max_lr;       /* one-cycle: to be given */
    amp_opt_int total_steps;    /* one-cycle: to be given */
    amp_opt_float pct_start;    /* one-cycle: 0.3, the part of the way up */
    amp_opt_float div_factor,
        final_div_factor;       /* one-cycle: 25, what max_lr is divided by at first; 1e4, and that at last */
    amp_opt_bool linear_anneal; /* one-cycle: straight lines instead of cosines */
    amp_opt_bool three_phase;   /* one-cycle: down as long as up, then to the last */
    amp_lr_function function;   /* lambda */
    void *context;              /* the function's */
} amp_scheduler_args;

/* A scheduler at step 0, which has set the optimizer's learning rates; from what they were it starts. The caller's
 * until amp_scheduler_destroy. NULL with an error: no optimizer, an option that is to be given, one that is no number
 * above 0, no memory. */
AMP_API amp_scheduler *amp_scheduler_create(amp_scheduler_kind kind, const amp_scheduler_args *args);
/* NULL is allowed; the optimizer stays as it is. */
AMP_API void amp_scheduler_destroy(amp_scheduler *scheduler);
/* Goes to the next step, and sets the learning rate of each group, or of none where there is an error; a group that was
 * added since starts from the rate that it has. Errors: NULL; a one-cycle that is at its end; a rate that is negative
 * or not finite; no memory. */
AMP_API amp_status amp_scheduler_step(amp_scheduler *scheduler);
/* Steps made; 0 for NULL. */
AMP_API int64_t amp_scheduler_get_step(const amp_scheduler *scheduler);
/* Goes to a step at once, as where a run is resumed. Errors as amp_scheduler_step's. */
AMP_API amp_status amp_scheduler_set_step(amp_scheduler *scheduler, int64_t step);

/* ---- By what is seen ------------------------------------------------------------------------------------------------- */
/* torch.optim.lr_scheduler.ReduceLROnPlateau: rates times a factor where a metric, such as the loss of what is held
 * back, has got no better. */
typedef struct amp_plateau amp_plateau;

/* All of a plateau's state, to be kept with the optimizer's, which has the rates. */
typedef struct amp_plateau_state {
    double best; /* infinity before the first step, of "max" −infinity */
    int64_t bad_steps, cooldown_left;
} amp_plateau_state;

typedef struct amp_plateau_args {
    size_t struct_size AMP_SIZE_OF_(amp_plateau_args);
    amp_optimizer *optimizer; /* which outlives it */
    bool maximize;            /* the metric is to grow: PyTorch's mode="max" */
    bool absolute;            /* threshold is a difference, and not a part of the best: threshold_mode="abs" */
    unsigned char reserved[6];
    amp_opt_float factor;    /* 0.1, below 1 */
    amp_opt_int patience;    /* 10: so many steps without a better metric change nothing yet */
    amp_opt_float threshold; /* 1e-4: by how much better a better one is */
    amp_opt_int cooldown;    /* 0: so many steps after a change do not count */
    amp_floats min_lr;       /* 0: no rate becomes lower; one for all groups, or one for each */
    amp_opt_float eps;       /* 1e-8: smaller changes are left out */
} amp_plateau_args;

/* The caller's until amp_plateau_destroy. NULL with an error: no optimizer, a number out of its range, as many min_lr
 * as no groups, no memory. */
AMP_API amp_plateau *amp_plateau_create_call(const amp_plateau_args *args);
/* NULL is allowed. */
AMP_API void amp_plateau_destroy(amp_plateau *plateau);
/* Takes the metric, and changes the rates where it is time. Errors: NULL; NaN. */
AMP_API amp_status amp_plateau_step(amp_plateau *plateau, double metric);
/* Zeros for NULL. */
AMP_API amp_plateau_state amp_plateau_get_state(const amp_plateau *plateau);
/* Errors: NULL; NaN, a negative number. */
AMP_API amp_status amp_plateau_set_state(amp_plateau *plateau, amp_plateau_state state);

#ifndef __cplusplus
/* amp_reduce_lr_on_plateau(opt, .factor = AMP_SET(0.5), .patience = AMP_SET(3)) */
#define amp_reduce_lr_on_plateau(...)                                                                                  \
    AMP_CALL_(amp_plateau_create_call(                                                                                 \
        &(const amp_plateau_args){.struct_size = sizeof(amp_plateau_args), .optimizer = __VA_ARGS__}))
#define AMP_SCHEDULER_(kind, ...)                                                                                      \
    AMP_CALL_(amp_scheduler_create(                                                                                    \
        kind, &(const amp_scheduler_args){.struct_size = sizeof(amp_scheduler_args), .optimizer = __VA_ARGS__}))
/* amp_step_lr(opt, .step_size = AMP_SET(30), .gamma = AMP_SET(0.1)) */
#define amp_step_lr(...) AMP_SCHEDULER_(AMP_STEP_LR, __VA_ARGS__)
#define amp_multi_step_lr(...) AMP_SCHEDULER_(AMP_MULTI_STEP_LR, __VA_ARGS__)
#define amp_constant_lr(...) AMP_SCHEDULER_(AMP_CONSTANT_LR, __VA_ARGS__)
#define amp_linear_lr(...) AMP_SCHEDULER_(AMP_LINEAR_LR, __VA_ARGS__)
#define amp_exponential_lr(...) AMP_SCHEDULER_(AMP_EXPONENTIAL_LR, __VA_ARGS__)
#define amp_polynomial_lr(...) AMP_SCHEDULER_(AMP_POLYNOMIAL_LR, __VA_ARGS__)
#define amp_cosine_annealing_lr(...) AMP_SCHEDULER_(AMP_COSINE_ANNEALING_LR, __VA_ARGS__)
#define amp_cosine_annealing_warm_restarts(...) AMP_SCHEDULER_(AMP_COSINE_ANNEALING_WARM_RESTARTS, __VA_ARGS__)
#define amp_one_cycle_lr(...) AMP_SCHEDULER_(AMP_ONE_CYCLE_LR, __VA_ARGS__)
#define amp_lambda_lr(...) AMP_SCHEDULER_(AMP_LAMBDA_LR, __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_SCHEDULER_H */
