/* apex.amp: opt levels, losses that are scaled for a block, and the handle that came before them. Names and rules are
 * those of NVIDIA's apex.amp (its last revision with amp, April 2025, and the handle of January 2019);
 * docs/coming_from_torch.md has the two side by side. "Half" is the lower dtype: bf16 on the CPU, f16 on CUDA.
 *
 *     amp_apex *apex = amp_initialize(AMP_MODELS(p), AMP_OPTIMIZERS(opt), .opt_level = "O2");
 *     for (…) {
 *         amp_scope_here();
 *         amp_tensor *loss;
 *         amp_model_region(apex) {
 *             loss = amp_cross_entropy(forward(&m, images), labels);   // forward: amp_model_inputs, amp_model_output
 *         }
 *         amp_scale_loss(loss, opt, scaled) {
 *             amp_backward(scaled);
 *         }
 *         amp_optimizer_step(opt);                                     // skipped where a gradient was not finite
 *         amp_optimizer_zero_grad(opt);
 *     }
 *     amp_apex_destroy(apex);                                          // before its optimizers
 *
 * The backward belongs into amp_scale_loss at every level, also where nothing is scaled: at its end half gradients
 * become their masters'. A model is its parameters. bf16 needs no scaling, so that there, in place of "dynamic", a
 * level's own loss_scale is 1; .loss_scale = "dynamic" asks for it. Until the first step masters follow what is written
 * into their parameters, such as weights that are loaded; then they are what counts. */
#ifndef AMP_APEX_H
#define AMP_APEX_H

#include "amp/optimizer.h"
#include "amp/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Initialization ------------------------------------------------------------------------------------------------ */
/* What initialization made: levels, scalers. One thread at a time. */
typedef struct amp_apex amp_apex;

/* Models and optimizers as lists: AMP_MODELS(p, q), AMP_OPTIMIZERS(a), AMP_NO_OPTIMIZERS. */
typedef struct amp_model_list {
    amp_parameters *const *items;
    int64_t count;
} amp_model_list;
typedef struct amp_optimizer_list {
    amp_optimizer *const *items;
    int64_t count;
} amp_optimizer_list;

typedef struct amp_initialize_args {
    size_t struct_size AMP_SIZE_OF_(amp_initialize_args);
    amp_model_list models;
    amp_optimizer_list optimizers;
    amp_device device;
    amp_dtype half;                   /* the lower dtype; default bf16 on the CPU, f16 on CUDA */
    amp_opt_bool enabled;             /* true; else everything stays as it is, and a scaled loss is the loss */
    const char *opt_level;            /* "O0" … "O3"; default "O1" */
    amp_dtype cast_model_type;        /* overrides: what the models' parameters and inputs become */
    amp_opt_bool cast_model;          /* AMP_SET(false): nothing is cast, apex's cast_model_type=False */
    amp_opt_bool patch_functions;     /* overrides: ops are cast by policy table "apex" in amp_model_region */
    amp_opt_bool keep_batchnorm_fp32; /* overrides: batch norms' parameters stay f32 */
    amp_opt_bool master_weights;      /* overrides: f32 copies of half parameters are what is updated */
    const char *loss_scale;           /* overrides: "dynamic", or a number as text, "128.0" */
    amp_dtype cast_model_outputs;     /* what amp_model_output gives; default f32 at O0, O2 and O3, at O1 as it is */
    amp_opt_int num_losses;           /* 1: how many scalers there are */
    amp_opt_float min_loss_scale;     /* none: where a dynamic scale ends */
    amp_opt_float max_loss_scale;     /* 2^24 */
    /* Which parameters are a batch norm's: those in whose name a part begins with one of these words, parted by commas;
     * "bn,batch_norm,batchnorm": "layer1.bn2.weight" is. */
    const char *batchnorm;
} amp_initialize_args;

/* Sets all properties of the level, then the overrides, in the order of the struct; casts the models' parameters in
 * place (a tensor stays the same amp_tensor; its gradient is cast with it; what was recorded of it before must be
 * gone); gives the optimizers f32 masters, made of the rounded parameters; ends the time of registration (amp/user.h).
 * The caller's until amp_apex_destroy, which comes before that of its optimizers and models. Once for a model and an
 * optimizer. NULL with an error, and nothing is changed: an unknown level; an override that makes no sense at the
 * level, with the reason; no or a released model; a parameter that is 16-bit already or lies on another device; an
 * optimizer that went through before, or that has master weights of its own; a number out of range; no memory. */
AMP_API amp_apex *amp_initialize_call(const amp_initialize_args *args);
/* Lets optimizers be as all others are; models stay as they are cast. NULL is allowed. */
AMP_API void amp_apex_destroy(amp_apex *apex);
/* The level, its properties, overrides and what came of them, as lines of text: what apex prints at verbosity 1. Lives
 * as long as apex. */
AMP_API const char *amp_apex_describe(const amp_apex *apex);

/* The three of a model's forward pass. amp_model_region(apex) { … } is a region of policy table "apex" where functions
 * are patched (O1), else no region; a block as amp_autocast is. amp_model_inputs(apex, &x, &y): floating tensors (f64
 * too, as in apex) become the models' type, others and NULL stay; amp_model_output(apex, y): a floating tensor as
 * cast_model_outputs says. Casts are recorded, and owned by the innermost scope. */
AMP_API amp_region amp_model_region_open(const amp_apex *apex);
AMP_API amp_status amp_model_inputs_call(const amp_apex *apex, amp_tensor **const *inputs, int count);
AMP_API amp_tensor *amp_model_output(const amp_apex *apex, amp_tensor *output);

/* ---- Parameters ----------------------------------------------------------------------------------------------------- */
/* The f32 masters of an optimizer's parameters, and the parameters that have none: what one clips, after the block of
 * amp_scale_loss. Make the list once, after amp_initialize; it is the caller's until amp_parameters_destroy. NULL with
 * an error: no optimizer, no memory. */
AMP_API amp_parameters *amp_master_params(amp_optimizer *optimizer);

/* ---- Scaling -------------------------------------------------------------------------------------------------------- */
typedef struct amp_scale_loss_args {
    size_t struct_size AMP_SIZE_OF_(amp_scale_loss_args);
    amp_tensor *loss;
    amp_optimizer *optimizer;           /* that owns what the backward reaches … */
    amp_optimizer_list more_optimizers; /* … and these do, too */
    amp_opt_int loss_id;                /* 0: which scaler */
    bool delay_unscale;                 /* gradients stay scaled, for another backward to add to */
    bool delay_overflow_check;          /* the scaler is left alone */
    unsigned char reserved[6];
} amp_scale_loss_args;

/* What the block keeps; the macro's own. */
typedef struct amp_scaled_loss {
    amp_tensor *loss; /* f32(loss) · scale; NULL with an error */
    amp_apex *apex;   /* NULL: nothing is to be done at the end */
    struct amp_optimizer_wrapper *wrapper;
    amp_optimizer *optimizer;
    amp_optimizer_list more_optimizers;
    int scaler;
    bool delay_unscale, delay_overflow_check, is_unscaled;
    unsigned char reserved[17];
} amp_scaled_loss;

/* Puts gradients that are there aside (f32 parameters), or drops them (half ones, whose sums are their masters'); gives
 * the scaled loss. Errors: an optimizer that did not go through amp_initialize; a loss_id that is none; no loss. */
AMP_API amp_scaled_loss amp_scale_loss_open(const amp_scale_loss_args *args);
/* Unscales what the backward left, in f32, adds what was put aside or the master has, and updates the scaler once;
 * where a gradient was not finite the next amp_optimizer_step of each optimizer changes nothing but to drop master
 * gradients. Drops cached casts at O1. */
AMP_API void amp_scale_loss_close(amp_scaled_loss *loss);

/* A scaler: the scale, and how many steps went well since it changed. −1, −1 with an error: no such loss. */
typedef struct amp_loss_scaler_state {
    double loss_scale;
    int64_t unskipped;
} amp_loss_scaler_state;
AMP_API int amp_apex_loss_count(const amp_apex *apex);
AMP_API amp_loss_scaler_state amp_apex_loss_scaler(const amp_apex *apex, int loss_id);
/* Loads states for loss_scaler0 …: as many as both have; the number that was given and is not used, or −1 with an
 * error. */
AMP_API int amp_apex_load_loss_scalers(amp_apex *apex, const amp_loss_scaler_state *states, int count);

/* ---- The handle of before -------------------------------------------------------------------------------------------- */
typedef struct amp_init_args {
    size_t struct_size AMP_SIZE_OF_(amp_init_args);
    amp_opt_bool enabled;        /* true; else the handle does nothing */
    amp_opt_bool enable_caching; /* true: casts of parameters are kept, until a scaled loss ends */
    bool allow_banned;           /* binary_cross_entropy in f32 instead of an error */
    bool verbose;                /* a line on standard error for each cast: direction, op */
    unsigned char reserved[6];
    amp_device device;
    amp_dtype half; /* as amp_initialize_args */
} amp_init_args;

/* A handle with one dynamic scaler, and the end of registration: amp_init(.enabled = AMP_SET(true)).
 * amp_model_region(handle) opens the region; amp_apex_destroy ends it. NULL with an error, as amp_initialize. */
AMP_API amp_apex *amp_init_call(const amp_init_args *args);
AMP_API bool amp_apex_is_active(const amp_apex *handle);
AMP_API bool amp_apex_has_cache(const amp_apex *handle);

/* From now on amp_handle_scale_loss is an error, and the optimizer's losses are amp_wrapped_scale_loss's: the i-th
 * since the last step has scaler i of `num_loss`, each dynamic; from the second on gradients are put aside and added
 * back. The wrapper lives as long as the handle. NULL with an error: no optimizer, num_loss below 1, no memory. */
typedef struct amp_optimizer_wrapper amp_optimizer_wrapper;
AMP_API amp_optimizer_wrapper *amp_wrap_optimizer(amp_apex *handle, amp_optimizer *optimizer, int num_loss);
/* Steps, unless one of its losses overflowed since the last step; begins with scaler 0 again. AMP_STEPPED or
 * AMP_SKIPPED, as amp_grad_scaler_step's result (amp/grad_scaler.h); 0 with an error. */
AMP_API int amp_wrapped_step(amp_optimizer_wrapper *wrapper);
AMP_API amp_scaled_loss amp_handle_scale_loss_open(amp_apex *handle, amp_tensor *loss, amp_optimizer *optimizer);
AMP_API amp_scaled_loss amp_wrapped_scale_loss_open(amp_optimizer_wrapper *wrapper, amp_tensor *loss);

/* ---- The forms to write ----------------------------------------------------------------------------------------------- */
#define amp_model_region(apex) AMP_REGION_BLOCK_(amp_model_region_open(apex), amp_autocast_close)
/* A block of one round, with `scaled` in it: leaving it in any way ends it; `break` and `continue` leave only the
 * block. */
#define AMP_SCALED_NAME_(number) AMP_REGION_JOIN_(amp_scaled_, number)
#define AMP_SCALED_NAMED_(name, scaled, open)                                                                          \
    for (amp_scaled_loss name __attribute__((cleanup(amp_scale_loss_close))) = (open), *name##_left = &name;           \
         name##_left; name##_left = NULL)                                                                              \
        for (amp_tensor *scaled = name.loss; name##_left; name##_left = NULL)
#define AMP_SCALED_STEP_(name, scaled, open) AMP_SCALED_NAMED_(name, scaled, open)
#define AMP_SCALED_(scaled, open) AMP_SCALED_STEP_(AMP_SCALED_NAME_(__COUNTER__), scaled, open)
/* amp_handle_scale_loss(handle, loss, opt, scaled) { amp_backward(scaled); } */
#define amp_handle_scale_loss(handle, of, optimizer, scaled)                                                           \
    AMP_SCALED_(scaled, amp_handle_scale_loss_open(handle, of, optimizer))
/* amp_wrapped_scale_loss(wrapper, loss, scaled) { amp_backward(scaled); } */
#define amp_wrapped_scale_loss(wrapper, of, scaled) AMP_SCALED_(scaled, amp_wrapped_scale_loss_open(wrapper, of))

#ifndef __cplusplus
#define AMP_MODELS(...)                                                                                                \
    (amp_model_list) {                                                                                                 \
        (amp_parameters *const[]){__VA_ARGS__},                                                                        \
            sizeof((amp_parameters *const[]){__VA_ARGS__}) / sizeof(amp_parameters *)                                  \
    }
#define AMP_OPTIMIZERS(...)                                                                                            \
    (amp_optimizer_list) {                                                                                             \
        (amp_optimizer *const[]){__VA_ARGS__}, sizeof((amp_optimizer *const[]){__VA_ARGS__}) / sizeof(amp_optimizer *) \
    }
#define AMP_NO_OPTIMIZERS                                                                                              \
    (amp_optimizer_list) {                                                                                             \
        NULL, 0                                                                                                        \
    }
/* amp_initialize(AMP_MODELS(p), AMP_OPTIMIZERS(opt), .opt_level = "O2", .loss_scale = "dynamic") */
#define amp_initialize(model_list, ...)                                                                                \
    AMP_CALL_(amp_initialize_call(&(const amp_initialize_args){                                                        \
        .struct_size = sizeof(amp_initialize_args), .models = model_list, .optimizers = __VA_ARGS__}))
/* amp_init(.allow_banned = true) */
#define amp_init(...)                                                                                                  \
    AMP_CALL_(amp_init_call(&(const amp_init_args){.struct_size = sizeof(amp_init_args), __VA_ARGS__}))
/* amp_scale_loss(loss, opt, scaled) { amp_backward(scaled); } amp_scale_loss(loss, opt, scaled, .loss_id = AMP_SET(1))
 * { … } */
#define amp_scale_loss(of, ...) AMP_SCALE_LOSS_(of, __VA_ARGS__, )
#define AMP_SCALE_LOSS_(of, its_optimizer, scaled, ...)                                                                \
    AMP_SCALED_(scaled,                                                                                                \
                amp_scale_loss_open(&(const amp_scale_loss_args){                                                      \
                    .struct_size = sizeof(amp_scale_loss_args), .loss = of, .optimizer = its_optimizer, __VA_ARGS__}))
/* amp_model_inputs(apex, &x, &y); */
#define amp_model_inputs(apex, ...)                                                                                    \
    amp_model_inputs_call(apex, (amp_tensor * *const[]){__VA_ARGS__},                                                  \
                          (int)(sizeof((amp_tensor **const[]){__VA_ARGS__}) / sizeof(amp_tensor **)))
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_APEX_H */
