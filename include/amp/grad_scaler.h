/* Gradient scaling: torch.amp.GradScaler. In f16 small gradients become 0; so the loss is multiplied by a large number
 * before the backward, gradients are divided by it before the step, and a step whose gradients are not finite is left
 * out.
 *
 *     amp_grad_scaler *scaler = amp_grad_scaler_create(AMP_DEVICE_CPU);
 *     …
 *     amp_backward(amp_grad_scaler_scale(scaler, loss));
 *     amp_grad_scaler_unscale(scaler, opt); // only if something looks at gradients before the step
 *     amp_clip_grad_norm(p, 1.0);
 *     amp_grad_scaler_step(scaler, opt);
 *     amp_grad_scaler_update(scaler);
 *     amp_optimizer_zero_grad(opt);
 */
#ifndef AMP_GRAD_SCALER_H
#define AMP_GRAD_SCALER_H

#include "amp/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The scale, and how far each optimizer is since the last update. One thread at a time. */
typedef struct amp_grad_scaler amp_grad_scaler;

typedef struct amp_grad_scaler_args {
    size_t struct_size AMP_SIZE_OF_(amp_grad_scaler_args);
    amp_device device;            /* of the gradients */
    amp_opt_float init_scale;     /* 65536 */
    amp_opt_float growth_factor;  /* 2, above 1: the scale's after growth_interval steps without an infinity or NaN */
    amp_opt_float backoff_factor; /* 0.5, below 1: the scale's after a step with one */
    amp_opt_int growth_interval;  /* 2000 */
    amp_opt_bool enabled;         /* true; else every call passes through, and the scale is 1 */
    amp_opt_float min_scale;      /* 0: a scale that would fall below is an error of amp_grad_scaler_update */
} amp_grad_scaler_args;

/* A scaler, the caller's until amp_grad_scaler_destroy. NULL with an error: a factor or interval out of its range, no
 * memory. */
AMP_API amp_grad_scaler *amp_grad_scaler_create_call(const amp_grad_scaler_args *args);
/* NULL is allowed. */
AMP_API void amp_grad_scaler_destroy(amp_grad_scaler *scaler);

/* The loss times the scale, in its dtype, recorded as every op; the loss itself where the scaler is disabled. */
AMP_API amp_tensor *amp_grad_scaler_scale(amp_grad_scaler *scaler, amp_tensor *loss);

/* Divides the gradients of the optimizer's parameters by the scale, in place, and notes whether one is not finite.
 * Errors: no scale before (amp_grad_scaler_scale); unscaled or stepped already since the last update; f16 gradients,
 * whose parameters should be f32. Nothing is changed then. */
AMP_API amp_status amp_grad_scaler_unscale(amp_grad_scaler *scaler, amp_optimizer *optimizer);

typedef enum amp_step_result {
    AMP_STEP_FAILED = 0, /* an error stands */
    AMP_STEPPED,
    AMP_SKIPPED /* a gradient was not finite: nothing was updated */
} amp_step_result;

/* Unscales unless that is done, and steps unless a gradient was not finite. Errors as amp_grad_scaler_unscale's; a
 * second step since the last update; no gradients at all. */
AMP_API amp_step_result amp_grad_scaler_step(amp_grad_scaler *scaler, amp_optimizer *optimizer);

/* After the steps of all optimizers: the scale falls where a gradient was not finite, and grows after growth_interval
 * rounds without. Errors: no scale before; no gradients were looked at since the last update; a scale below min_scale,
 * by a sentence that names the first parameter whose gradient was not finite: the scale then stays. */
AMP_API amp_status amp_grad_scaler_update(amp_grad_scaler *scaler);
/* The same with a scale of the caller's own. */
AMP_API amp_status amp_grad_scaler_update_to(amp_grad_scaler *scaler, double new_scale);

/* The scale; 1 where disabled, 0 for NULL. */
AMP_API double amp_grad_scaler_get_scale(const amp_grad_scaler *scaler);
/* False for NULL. */
AMP_API bool amp_grad_scaler_is_enabled(const amp_grad_scaler *scaler);

/* All that there is to know between updates; zeros of a scaler that is disabled. */
typedef struct amp_grad_scaler_state {
    size_t struct_size AMP_SIZE_OF_(amp_grad_scaler_state);
    double scale, growth_factor, backoff_factor;
    int64_t growth_interval, growth_tracker; /* tracker: rounds without an infinity since the scale changed */
} amp_grad_scaler_state;
/* Fills *state, whose struct_size is set. Errors: one is NULL. */
AMP_API amp_status amp_grad_scaler_get_state(const amp_grad_scaler *scaler, amp_grad_scaler_state *state);
/* Also what sets factors and interval. Errors: one is NULL; a state that is empty, as of a disabled scaler, or out of
 * range. A disabled scaler takes nothing. */
AMP_API amp_status amp_grad_scaler_set_state(amp_grad_scaler *scaler, const amp_grad_scaler_state *state);

#ifndef __cplusplus
/* amp_grad_scaler_create(AMP_DEVICE_CPU, .init_scale = AMP_SET(1024)) */
#define amp_grad_scaler_create(...)                                                                                    \
    AMP_CALL_(amp_grad_scaler_create_call(                                                                             \
        &(const amp_grad_scaler_args){.struct_size = sizeof(amp_grad_scaler_args), .device = __VA_ARGS__}))
#endif

#ifdef __cplusplus
}
#endif

#endif /* AMP_GRAD_SCALER_H */
