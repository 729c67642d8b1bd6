/* Unscaling of gradients: one pass that multiplies and looks for what is not finite. */
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"

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
    amp_tensor *const *grads = list->items;
    (void)call;
    unscaling u = {.factor = *(const float *)amp_tensor_pointer(factor)};
    for (int64_t i = 0; i < list->count; i++) {
        const bool wide = grads[i]->dtype == AMP_F64;
        const amp_dtype compute = wide ? AMP_F64 : AMP_F32;
        const amp_elementwise work = {.function = wide ? unscale_f64 : unscale_f32,
                                      .context = &u,
                                      .out_compute = compute,
                                      .inputs = 1,
                                      .in = {{.tensor = grads[i], .compute = compute}},
                                      .cost = 2};
        amp_elementwise_run(&work, grads[i]);
    }
    if (atomic_load_explicit(&u.found, memory_order_relaxed)) *(float *)amp_tensor_pointer(found) = 1.0f;
    return AMP_OK;
}
