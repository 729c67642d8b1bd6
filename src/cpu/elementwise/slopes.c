/* The slopes of activations times the gradients of their results, in one pass: f32 and narrower in the vector kernels,
 * f64 here. */
#include <math.h>

#include "core/compute_dtype.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"

typedef struct slope_context {
    amp_slope_function *kernel;
    float numbers[3];
    double p, q, r;
} slope_context;

static double sigmoid(double x) {
    const double z = exp(-fabs(x));
    return (x < 0 ? z : 1.0) / (1.0 + z);
}

static double gelu_slope(double x) {
    return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) * (0.5 * M_SQRT1_2 * M_2_SQRTPI);
}
static double gelu_tanh_slope(double x) {
    const double scale = 2.0 * M_2_SQRTPI * M_SQRT1_2, u = scale * (x + 0.044715 * x * x * x);
    return sigmoid(u) * (1.0 + x * sigmoid(-u) * scale * (1.0 + 3.0 * 0.044715 * x * x));
}
static double mish_slope(double x) {
    const double t = tanh(log1p(exp(-fabs(x))) + (x > 0 ? x : 0.0));
    return t + x * sigmoid(x) * (1.0 - t * t);
}

#define SLOPE(name, expression)                                                                                        \
    static void name##_f64(void *context, void *out, const void *const *in, int64_t n) {                               \
        const slope_context *c = context;                                                                              \
        (void)c;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double d = ((const double *)in[0])[i], x = ((const double *)in[1])[i];                               \
            ((double *)out)[i] = (expression);                                                                         \
        }                                                                                                              \
    }
SLOPE(sigmoid, d *(x *(1.0 - x)))
SLOPE(tanh, d *(1.0 - x * x))
SLOPE(threshold, x <= c->p ? 0.0 : d)
SLOPE(hardtanh, x <= c->p || x >= c->q ? 0.0 : d)
SLOPE(leaky_relu, x > 0 ? d : d * c->p)
SLOPE(elu, d *(x > 0 ? c->r : c->p * exp(x * c->q)))
SLOPE(gelu, d *gelu_slope(x))
SLOPE(gelu_tanh, d *gelu_tanh_slope(x))
SLOPE(silu, d *(sigmoid(x) * (1.0 + x * sigmoid(-x))))
SLOPE(mish, d *mish_slope(x))
SLOPE(softplus, x * c->p > c->q ? d : d * sigmoid(x * c->p))
SLOPE(log_sigmoid, d *sigmoid(-x))
SLOPE(hardsigmoid, fabs(x) < 3.0 ? d * (double)(1.0F / 6.0F) : 0.0)
SLOPE(hardswish, x <= -3.0 ? 0.0 : x >= 3.0 ? d : d * (x / 3.0 + 0.5))

#define ROW(NAME, name) [AMP_SLOPE_##NAME] = {AMP_KERNEL_SLOPE_##NAME, name##_f64},
static const struct {
    amp_kernel_family family;
    amp_dense_function *f64;
} rows[AMP_SLOPE_COUNT] = {AMP_SLOPES(ROW)};

static void kernel_loop(void *context, void *out, const void *const *in, int64_t n) {
    const slope_context *c = context;
    c->kernel(out, in[0], in[1], n, c->numbers);
}

amp_status amp_cpu_slope(amp_call *call, const amp_slope *s) {
    const amp_operand v[2] = {amp_tensor_operand("grad_output", s->d), amp_tensor_operand("input", s->x)};
    const amp_dtype dtype = amp_operands_dtype(v, 2), compute = amp_compute_dtype(dtype);
    const amp_kernel *kernel = amp_kernel_select(rows[s->kind].family, AMP_F32, AMP_F32);
    amp_tensor *out = kernel ? amp_operands_output(call, v, 2, dtype) : NULL;
    if (!out) return amp_pending_error();
    slope_context c = {
        .kernel = (amp_slope_function *)kernel->function, .p = s->numbers[0], .q = s->numbers[1], .r = s->numbers[2]};
    for (int i = 0; i < 3; i++) c.numbers[i] = (float)s->numbers[i];
    if (compute == AMP_F32) call->note.kernel = kernel->name;
    amp_operands_run(v, 2, compute, compute, compute == AMP_F32 ? kernel_loop : rows[s->kind].f64, &c, 4, out);
    return AMP_OK;
}
