/* Gradients made smaller in place, in one pass over all of them: unscaled, while looking for what is not finite, and
 * clipped. */
#include <stdatomic.h>

#include "cpu/cpu_steps.h"
#include "cpu/elementwise/lists.h"

typedef struct unscaling {
    float factor;
    atomic_bool found;
} unscaling;

/* x − x is 0 for finite x only; what is not is gathered without a branch. */
#define UNSCALE(name, type)                                                                                            \
    static void name(void *context, void *out, const void *const *in, int64_t n) {                                     \
        unscaling *u = context;                                                                                        \
        const type *x = in[0], factor = (type)u->factor;                                                               \
        type *y = out;                                                                                                 \
        int bad = 0;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            bad |= !(x[i] - x[i] == 0);                                                                                \
            y[i] = x[i] * factor;                                                                                      \
        }                                                                                                              \
        if (bad) atomic_store_explicit(&u->found, true, memory_order_relaxed);                                         \
    }
UNSCALE(unscale_f32, float)
UNSCALE(unscale_f64, double)

amp_status amp_cpu_unscale(amp_call *call, const amp_tensor_list *list, amp_tensor *found, const amp_tensor *factor) {
    (void)call;
    unscaling u = {.factor = *(const float *)amp_tensor_pointer(factor)};
    amp_list_apply(list, &(amp_list_function){.f32 = unscale_f32, .f64 = unscale_f64, .context = &u, .cost = 2});
    if (atomic_load_explicit(&u.found, memory_order_relaxed)) *(float *)amp_tensor_pointer(found) = 1.0f;
    return AMP_OK;
}

typedef struct clipping {
    double factor, limit;
} clipping;

/* NaN fails every comparison. A limit below 0 wins over what is below it, as the upper bound of clamp does. */
#define CLIP(name, type)                                                                                               \
    static void name(void *context, void *out, const void *const *in, int64_t n) {                                     \
        const clipping *c = context;                                                                                   \
        const type *x = in[0], factor = (type)c->factor, limit = (type)c->limit;                                       \
        type *y = out;                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type value = x[i] * factor;                                                                                \
            value = value < -limit ? -limit : value;                                                                   \
            y[i] = value > limit ? limit : value;                                                                      \
        }                                                                                                              \
    }
CLIP(clip_f32, float)
CLIP(clip_f64, double)

amp_status amp_cpu_clip(amp_call *call, const amp_tensor_list *grads, double factor, double limit) {
    (void)call;
    clipping c = {factor, limit};
    amp_list_apply(grads, &(amp_list_function){.f32 = clip_f32, .f64 = clip_f64, .context = &c, .cost = 2});
    return AMP_OK;
}
