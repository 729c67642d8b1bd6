/* The vector product. */
#include <complex.h>

#include "amp/ops.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"

/* x y - z w, where every product of f32 is exact. */
#define DIFFERENCE_LOOP(suffix, type, wide)                                                                            \
    static void difference_##suffix(void *context, void *out, const void *const *in, int64_t n) {                      \
        const type *x = in[0], *y = in[1], *z = in[2], *w = in[3];                                                     \
        (void)context;                                                                                                 \
        for (int64_t i = 0; i < n; i++) ((type *)out)[i] = (type)((wide)x[i] * (wide)y[i] - (wide)z[i] * (wide)w[i]);  \
    }

DIFFERENCE_LOOP(f32, float, double)

DIFFERENCE_LOOP(f64, double, double)

DIFFERENCE_LOOP(i64, int64_t, uint64_t)

DIFFERENCE_LOOP(c128, double _Complex, double _Complex)

static amp_dense_function *difference_of(amp_dtype compute) {
    switch (compute) {
    case AMP_F32: return difference_f32;
    case AMP_F64: return difference_f64;
    case AMP_C128: return difference_c128;
    default: return difference_i64;
    }
}

amp_status amp_cpu_difference_of_products(const amp_call *call, const amp_tensor *const v[4], amp_dtype compute,
                                          amp_tensor *out) {
    const amp_elementwise work = {
        .function = difference_of(compute),
        .out_compute = compute,
        .inputs = 4,
        .in = {{v[0], NULL, compute}, {v[1], NULL, compute}, {v[2], NULL, compute}, {v[3], NULL, compute}},
        .cost = 4};
    (void)call;
    amp_elementwise_run(&work, out);
    return AMP_OK;
}
