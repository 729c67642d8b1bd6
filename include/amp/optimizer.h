/* Optimizers: what makes a step of a gradient. Names, formulas and defaults are those of torch.optim.
 *
 *     amp_optimizer *opt = amp_adamw(p, .lr = AMP_SET(3e-4), .weight_decay = AMP_SET(0.1));
 *     …
 *     amp_backward(loss);
 *     amp_optimizer_step(opt);
 *     amp_optimizer_zero_grad(opt);
 *
 * Each parameter is updated in one pass over it, its gradient and its states, in f32 (f64 for f64), rounded once. A
 * parameter without a gradient is left as it is, and so are its states. */
#ifndef AMP_OPTIMIZER_H
#define AMP_OPTIMIZER_H

#include "amp/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters in groups, each with options of its own, and their states. One thread at a time. */
typedef struct amp_optimizer amp_optimizer;

/* Which algorithm; amp_adamw(…) and its like say it by name. */
typedef enum amp_optimizer_kind {
    AMP_SGD,
    AMP_ADAM,
    AMP_ADAMW,
    AMP_ADAGRAD,
    AMP_RMSPROP,
    AMP_ADADELTA,
    AMP_NADAM,
    AMP_RADAM,
    AMP_ADAMAX
} amp_optimizer_kind;

/* What is not given is the algorithm's default, in a group the optimizer's. PyTorch's betas are beta1 and beta2. */
typedef struct amp_optimizer_args {
    size_t struct_size AMP_SIZE_OF_(amp_optimizer_args);
    const amp_parameters *parameters;
    amp_opt_float lr;           /* SGD 1e-3, Adam 1e-3, Adagrad 1e-2, RMSprop 1e-2, Adadelta 1, NAdam 2e-3, … */
    amp_opt_float weight_decay; /* 0; AdamW 0.01 */
    amp_opt_float momentum;     /* SGD, RMSprop: 0 */
    amp_opt_float dampening;    /* SGD: 0 */
    amp_opt_float beta1, beta2; /* Adam and its kin: 0.9 and 0.999 */
    amp_opt_float eps;          /* 1e-8; Adagrad 1e-10, Adadelta 1e-6 */
    amp_opt_float alpha;        /* RMSprop: 0.99 */
    amp_opt_float rho;          /* Adadelta: 0.9 */
    amp_opt_float lr_decay;     /* Adagrad: 0 */
    amp_opt_float initial_accumulator_value; /* Adagrad: 0 */
    amp_opt_float momentum_decay;            /* NAdam: 4e-3 */
    amp_opt_bool nesterov;                   /* SGD */
    amp_opt_bool amsgrad;                    /* Adam, AdamW */
    amp_opt_bool centered;                   /* RMSprop */
    amp_opt_bool decoupled_weight_decay;     /* Adam, NAdam, RAdam; AdamW is so */
    amp_opt_bool maximize;                   /* the loss is to grow */
    /* Of each 16-bit parameter there is an f32 copy, which is what is updated; the parameter gets its values. States
     * are f32 then. Of the optimizer as a whole: a group cannot set it. */
    bool master_weights;
    unsigned char reserved[7];
} amp_optimizer_args;

/* An optimizer of the parameters that are in the list now, and one more owner of them; the list may go. The caller's,
 * until amp_optimizer_destroy. NULL with an error: no or an empty list, one of buffers alone, complex parameters, an
 * option that the algorithm lacks or whose value is out of range, no memory. */
AMP_API amp_optimizer *amp_optimizer_create(amp_optimizer_kind kind, const amp_optimizer_args *args);
/* Its states and copies go; parameters live on with their other owners. NULL is allowed. */
AMP_API void amp_optimizer_destroy(amp_optimizer *optimizer);

/* Adds a group of parameters with options of its own; what is not given is the optimizer's. Errors as
 * amp_optimizer_create's, and a parameter that is in a group already. */
AMP_API amp_status amp_optimizer_add_group_call(amp_optimizer *optimizer, const amp_optimizer_args *args);

/* Updates every parameter that has a gradient. Returns amp_last_status(). While an error stands nothing is updated. */
AMP_API amp_status amp_optimizer_step(amp_optimizer *optimizer);
/* Takes the gradient of each parameter away. */
AMP_API amp_status amp_optimizer_zero_grad(amp_optimizer *optimizer);

/* How many groups there are; 0 for NULL. */
AMP_API int amp_optimizer_group_count(const amp_optimizer *optimizer);
/* An option of a group by its name in amp_optimizer_args, a bool as 0 or 1. 0 with an error: no such group or
 * option. */
AMP_API double amp_optimizer_get(const amp_optimizer *optimizer, int group, const char *option);
/* Sets it from the next step on; group −1 is all of them. Errors as before, and a value that is out of range. */
AMP_API amp_status amp_optimizer_set(amp_optimizer *optimizer, int group, const char *option, double value);
/* The learning rate of a group: amp_optimizer_get(optimizer, group, "lr"). */
AMP_API double amp_optimizer_lr(const amp_optimizer *optimizer, int group);
AMP_API amp_status amp_optimizer_set_lr(amp_optimizer *optimizer, int group, double lr);

/* How many parameters there are, over all groups; they have numbers from 0 on, in the order of their groups. */
AMP_API int64_t amp_optimizer_parameter_count(const amp_optimizer *optimizer);
/* The parameter of a number, and its name, borrowed; NULL outside. */
AMP_API amp_tensor *amp_optimizer_parameter(const amp_optimizer *optimizer, int64_t index);
AMP_API const char *amp_optimizer_parameter_name(const amp_optimizer *optimizer, int64_t index);
/* What is updated, borrowed: the f32 copy where there is one, else the parameter. */
AMP_API amp_tensor *amp_optimizer_master(const amp_optimizer *optimizer, int64_t index);

/* ---- State --------------------------------------------------------------------------------------------------------
 * As named tensors, for amp_save_safetensors: "<parameter>.<state>" with PyTorch's names of states (exp_avg, momentum_buffer, …),
 * "<parameter>.step" and "<parameter>.mu_product" (one f64 each), "<parameter>.master", and "group<i>.<option>" (one f64). */

/* The tensors that there are, in the caller's hands, who gives them to amp_state_free: states and copies are shared,
 * not copied, and later steps write them. A failure: count is 0, with an error. */
typedef struct amp_state {
    const char *const *names;
    amp_tensor *const *tensors;
    int64_t count;
} amp_state;
AMP_API amp_state amp_optimizer_state(const amp_optimizer *optimizer);
AMP_API void amp_state_free(amp_state state);
/* Takes the values of a state of an optimizer of the same kind, groups and parameters, copied; names that are not this
 * optimizer's are an error. Errors: a name that is missing or unknown, another shape; then nothing is changed. */
AMP_API amp_status amp_optimizer_load_state(amp_optimizer *optimizer, const char *const *names,
                                            amp_tensor *const *tensors, int64_t count);

#ifndef __cplusplus
#define AMP_OPTIMIZER_ARGS_(...)                                                                                       \
    &(const amp_optimizer_args) {                                                                                      \
        .struct_size = sizeof(amp_optimizer_args), .parameters = __VA_ARGS__                                           \
    }
/* amp_sgd(p, .lr = AMP_SET(0.1), .momentum = AMP_SET(0.9)) */
#define amp_sgd(...) AMP_CALL_(amp_optimizer_create(AMP_SGD, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_adam(...) AMP_CALL_(amp_optimizer_create(AMP_ADAM, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_adamw(...) AMP_CALL_(amp_optimizer_create(AMP_ADAMW, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_adagrad(...) AMP_CALL_(amp_optimizer_create(AMP_ADAGRAD, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_rmsprop(...) AMP_CALL_(amp_optimizer_create(AMP_RMSPROP, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_adadelta(...) AMP_CALL_(amp_optimizer_create(AMP_ADADELTA, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_nadam(...) AMP_CALL_(amp_optimizer_create(AMP_NADAM, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_radam(...) AMP_CALL_(amp_optimizer_create(AMP_RADAM, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#define amp_adamax(...) AMP_CALL_(amp_optimizer_create(AMP_ADAMAX, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
/* amp_optimizer_add_group(opt, p, .lr = AMP_SET(1e-3)) */
#define amp_optimizer_add_group(optimizer, ...)                                                                        \
    AMP_CALL_(amp_optimizer_add_group_call(optimizer, AMP_OPTIMIZER_ARGS_(__VA_ARGS__)))
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_OPTIMIZER_H */
