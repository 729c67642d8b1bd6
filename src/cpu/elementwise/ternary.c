/* lerp, addcmul, addcdiv: functions of three operands, element by element. */
#include <complex.h>
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"
#include "steps/argument_rules.h"
#include "steps/constants.h"

typedef double _Complex complex128;

typedef struct ternary_op {
    amp_kernel_family family;             /* of f32 and bf16 */
    amp_dense_function *f64, *i64, *c128; /* i64 NULL: floats only */
} ternary_op;

typedef struct kernel_context {
    amp_ternary_function *kernel;
    float scale; /* the number: a value, or a weight */
} kernel_context;

static void kernel_loop(void *context, void *out, const void *const *in, int64_t n) {
    const kernel_context *c = context;
    c->kernel(out, in[0], in[1], in[2], n, c->scale);
}
static void number_last_loop(void *context, void *out, const void *const *in, int64_t n) {
    const kernel_context *c = context;
    c->kernel(out, in[0], in[1], NULL, n, c->scale);
}

#define LOOP(name, suffix, type, expression)                                                                           \
    static void name##_##suffix(void *context, void *out, const void *const *in, int64_t n) {                          \
        const amp_constant *number = context;                                                                          \
        const type *a = in[0], *b = in[1], *c = in[2];                                                                 \
        type *o = out;                                                                                                 \
        (void)number;                                                                                                  \
        for (int64_t i = 0; i < n; i++) o[i] = (expression);                                                           \
    }

/* From the end that is nearer, so that weights 0 and 1 give the ends themselves. Both ways are computed: no branch. */
#define LERP_LOOP(suffix, type, magnitude)                                                                             \
    static void lerp_##suffix(void *context, void *out, const void *const *in, int64_t n) {                            \
        const type *a = in[0], *b = in[1], *c = in[2];                                                                 \
        type *o = out;                                                                                                 \
        (void)context;                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type step = b[i] - a[i], low = a[i] + c[i] * step, high = b[i] - step * ((type)1.0 - c[i]);          \
            o[i] = magnitude(c[i]) < 0.5f ? low : high;                                                                \
        }                                                                                                              \
    }
LERP_LOOP(f64, double, fabs)
LERP_LOOP(c128, complex128, cabs)
static const ternary_op lerp_op = {AMP_KERNEL_LERP, lerp_f64, NULL, lerp_c128};

static complex128 complex_of(const amp_constant *number) {
    return __builtin_complex(number->c128[0], number->c128[1]);
}
LOOP(addcmul, f64, double, a[i] + number->f64 * b[i] * c[i])
LOOP(addcmul, i64, int64_t, (int64_t)((uint64_t)a[i] + (uint64_t)number->i64 * (uint64_t)b[i] * (uint64_t)c[i]))
LOOP(addcmul, c128, complex128, a[i] + complex_of(number) * b[i] * c[i])
static const ternary_op addcmul_op = {AMP_KERNEL_ADDCMUL, addcmul_f64, addcmul_i64, addcmul_c128};

LOOP(addcdiv, f64, double, a[i] + number->f64 * b[i] / c[i])
LOOP(addcdiv, c128, complex128, a[i] + complex_of(number) * b[i] / c[i])
static const ternary_op addcdiv_op = {AMP_KERNEL_ADDCDIV, addcdiv_f64, NULL, addcdiv_c128};

/* f32 and narrower. Tensors of mixed dtypes meet in f32. A number is the last operand, or `value`. */
static amp_status run_kernel(amp_call *call, const ternary_op *op, const amp_operand *v, float value, amp_tensor *out) {
    amp_dtype compute = amp_kernel_dtype(op->family, out->dtype);
    for (int i = 0; i < 3; i++) {
        if (v[i].tensor && v[i].tensor->dtype != compute) compute = AMP_F32;
    }
    const amp_kernel *kernel = amp_kernel_select(op->family, compute, compute);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    kernel_context c = {(amp_ternary_function *)kernel->function, value};
    if (!v[2].tensor) c.scale = amp_constant_of(&v[2].number, AMP_F32).f32;
    amp_operands_run(v, v[2].tensor ? 3 : 2, compute, compute, v[2].tensor ? kernel_loop : number_last_loop, &c, 2,
                     out);
    return AMP_OK;
}

static amp_status run(amp_call *call, const ternary_op *op, const amp_operand *v, amp_dtype dtype,
                      const amp_scalar *number) {
    const amp_dtype compute = amp_compute_dtype(dtype);
    amp_dense_function *loop = compute == AMP_F64 ? op->f64 : compute == AMP_C128 ? op->c128 : op->i64;
    amp_constant constant = {0};
    if (number) constant = amp_constant_of(number, compute);
    amp_tensor *out = amp_operands_output(call, v, 3, dtype);
    if (!out) return amp_pending_error();
    if (compute == AMP_F32) return run_kernel(call, op, v, number ? constant.f32 : 1.0f, out);
    amp_operands_run(v, 3, compute, compute, loop, &constant, 2, out);
    return AMP_OK;
}

/* lerp promotes nothing: its tensors have one dtype. */
static amp_status lerp(amp_call *call, amp_tensor *input, amp_tensor *end, amp_operand weight) {
    const amp_operand v[3] = {amp_tensor_operand("input", input), amp_tensor_operand("end", end), weight};
    AMP_TRY(amp_check_lerp(call, v));
    return run(call, &lerp_op, v, input->dtype, NULL);
}

amp_status cpu_lerp(amp_call *call) {
    const amp_lerp_args *a = call->args;
    return lerp(call, a->input, a->end, amp_tensor_operand("weight", a->weight));
}
amp_status cpu_lerp_scalar(amp_call *call) {
    const amp_lerp_scalar_args *a = call->args;
    return lerp(call, a->input, a->end, amp_number_operand("weight", a->weight));
}

static amp_status with_value(amp_call *call, const ternary_op *op, amp_tensor *input, amp_tensor *tensor1,
                             amp_tensor *tensor2, const amp_scalar *value) {
    const amp_operand v[3] = {amp_tensor_operand("input", input), amp_tensor_operand("tensor1", tensor1),
                              amp_tensor_operand("tensor2", tensor2)};
    const amp_dtype dtype = amp_operands_dtype(v, 3);
    AMP_TRY(amp_check_product_added(call, v, dtype, value, op->i64 != NULL));
    return run(call, op, v, dtype, value);
}

amp_status cpu_addcmul(amp_call *call) {
    const amp_addcmul_args *a = call->args;
    return with_value(call, &addcmul_op, a->input, a->tensor1, a->tensor2, &a->value);
}
amp_status cpu_addcdiv(amp_call *call) {
    const amp_addcdiv_args *a = call->args;
    return with_value(call, &addcdiv_op, a->input, a->tensor1, a->tensor2, &a->value);
}
