/* Losses that are a formula of one element of each input: f32, f16 and bf16 in the vector kernels of loss.h; f64, and
 * what is small, in the loops here. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/complex_log1p.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"
#include "steps/loss_reduction.h"

enum { BLOCK = AMP_BLOCK_BYTES / sizeof(float) }; /* the most elements that the block loop hands over in f32 */

typedef struct loss_context {
    double p;           /* margin, beta, delta or eps */
    bool full;          /* Stirling's term */
    bool probabilities; /* the first input must hold some */
    int third, weight;  /* places among the inputs, 0: absent; of what loss.h calls y, and of 'weight' */
    amp_loss_function *loss, *stirling;
    amp_binary_function *add, *mul;
    amp_reduce_function *least, *greatest;
    atomic_bool outside; /* an element is no probability */
} loss_context;

typedef struct loss_op {
    amp_kernel_family family;
    amp_dense_function *f64, *i64, *c128; /* NULL: no such type, but that integers become f32 where … */
    bool integers;                        /* … */
    int64_t cost;
} loss_op;

static void loss_f32(void *context, void *out, const void *const *in, int64_t n) {
    loss_context *c = context;
    float terms[BLOCK];
    if (c->probabilities && !(c->least(in[0], n) >= 0.0 && c->greatest(in[0], n) <= 1.0)) {
        atomic_store_explicit(&c->outside, true, memory_order_relaxed);
    }
    c->loss(out, in[0], in[1], c->third ? in[c->third] : NULL, n, (float)c->p);
    if (c->full) {
        c->stirling(terms, in[1], in[1], NULL, n, 0.0F);
        c->add(out, out, terms, n, 0.0F);
    }
    if (c->weight) c->mul(out, out, in[c->weight], n, 0.0F);
}

/* ---- f64: x and t are an element of the first two inputs, y of the third, 1 where there is none ------------------ */

#define LOSS(name, expression)                                                                                         \
    static void name##_f64(void *context, void *out, const void *const *in, int64_t n) {                               \
        const loss_context *c = context;                                                                               \
        const double *xs = in[0], *ts = in[1], *ys = c->third ? in[c->third] : NULL,                                   \
                     *ws = c->weight ? in[c->weight] : NULL, p = c->p;                                                 \
        double *o = out;                                                                                               \
        (void)p;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const double x = xs[i], t = ts[i], y = ys ? ys[i] : 1, z = x > t ? x - t : t - x;                          \
            (void)y, (void)z;                                                                                          \
            o[i] = (ws ? ws[i] : 1) * (expression);                                                                    \
        }                                                                                                              \
    }

/* What is negative becomes zero; a NaN stays. */
static double positive(double v) {
    return v < 0.0 ? 0.0 : v;
}
/* log(1 + e^−|x|) */
static double tail(double x) {
    return log1p(exp(-fabs(x)));
}
/* Logarithms of probabilities are not taken below −100. */
static double bounded(double logarithm) {
    return logarithm < -100.0 ? -100.0 : logarithm;
}
static double stirling(double t) {
    return t <= 1.0 ? 0.0 : t * log(t) - t + 0.5 * log(2.0 * M_PI * t);
}
static double entropy(loss_context *c, double x, double t) {
    if (!(x >= 0.0 && x <= 1.0)) atomic_store_explicit(&c->outside, true, memory_order_relaxed);
    return (t - 1.0) * bounded(log1p(-x)) - t * bounded(log(x));
}

LOSS(mse, z *z)
LOSS(l1, z)
LOSS(smooth_l1, z < p ? 0.5 * z * z / p : z - 0.5 * p)
LOSS(huber, z < p ? 0.5 * z * z : p * (z - 0.5 * p))
LOSS(hinge_embedding, (t == 1.0 ? 0.0 : positive(p - x)) + (t == -1.0 ? 0.0 : x))
LOSS(margin_ranking, positive(p - y * (x - t)))
LOSS(soft_margin, tail(t *x) + positive(-t * x))
LOSS(logits, (1.0 + (y - 1.0) * t) * tail(x) + (x < 0.0 ? -y * t * x : (1.0 - t) * x))
LOSS(entropy, entropy(context, x, t))
LOSS(kl_div, t *((t == 0.0 ? 0.0 : log(t)) - x))
LOSS(kl_div_log, exp(t) * (t - x))
LOSS(poisson, exp(x) - t * x + (c->full ? stirling(t) : 0.0))
LOSS(poisson_plain, x - t * log(x + p) + (c->full ? stirling(t) : 0.0))

/* Integers wrap, as in PyTorch: the difference, its magnitude, and the weighted one. */
static void l1_i64(void *context, void *out, const void *const *in, int64_t n) {
    const loss_context *c = context;
    const uint64_t *x = in[0], *t = in[1], *weight = c->weight ? in[c->weight] : NULL;
    uint64_t *o = out;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t difference = x[i] - t[i], magnitude = (int64_t)difference < 0 ? 0 - difference : difference;
        o[i] = weight ? weight[i] * magnitude : magnitude;
    }
}

/* ln(1 + e^z), z = −t·x: where e^z has no value, 1 adds nothing to it, and only the angle of e^z is wanted. */
static void soft_margin_c128(void *context, void *out, const void *const *in, int64_t n) {
    const double _Complex *x = in[0], *t = in[1];
    double _Complex *o = out;
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        const double _Complex z = -amp_complex_product(t[i], x[i]);
        const bool large = creal(z) > 700.0 && isfinite(cimag(z));
        o[i] = large ? __builtin_complex(creal(z), atan2(sin(cimag(z)), cos(cimag(z)))) : amp_complex_log1p(cexp(z));
    }
}

static const loss_op mse = {AMP_KERNEL_LOSS_MSE, mse_f64, NULL, NULL, false, 2};
static const loss_op l1 = {AMP_KERNEL_LOSS_L1, l1_f64, l1_i64, NULL, false, 2};
static const loss_op smooth_l1 = {AMP_KERNEL_LOSS_SMOOTH_L1, smooth_l1_f64, NULL, NULL, false, 2};
static const loss_op huber = {AMP_KERNEL_LOSS_HUBER, huber_f64, NULL, NULL, false, 2};
static const loss_op hinge_embedding = {AMP_KERNEL_LOSS_HINGE_EMBEDDING, hinge_embedding_f64, NULL, NULL, true, 2};
static const loss_op margin_ranking = {AMP_KERNEL_LOSS_MARGIN_RANKING, margin_ranking_f64, NULL, NULL, true, 2};
static const loss_op soft_margin = {AMP_KERNEL_LOSS_SOFT_MARGIN, soft_margin_f64, NULL, soft_margin_c128, false, 4};
static const loss_op logits = {AMP_KERNEL_LOSS_LOGITS, logits_f64, NULL, NULL, false, 4};
static const loss_op entropies = {AMP_KERNEL_LOSS_ENTROPY, entropy_f64, NULL, NULL, false, 4};
static const loss_op kl_div = {AMP_KERNEL_LOSS_KL_DIV, kl_div_f64, NULL, NULL, false, 4};
static const loss_op kl_div_log = {AMP_KERNEL_LOSS_KL_DIV_LOG, kl_div_log_f64, NULL, NULL, false, 4};
static const loss_op poisson = {AMP_KERNEL_LOSS_POISSON, poisson_f64, NULL, NULL, true, 4};
static const loss_op poisson_plain = {AMP_KERNEL_LOSS_POISSON_PLAIN, poisson_plain_f64, NULL, NULL, true, 4};

/* ---- Running one ------------------------------------------------------------------------------------------------- */

static amp_status check_dtype(const amp_call *call, const loss_op *op, const amp_operand *v, int count,
                              amp_loss_reduction reduction, amp_dtype *dtype) {
    *dtype = amp_loss_dtype(call, v, count);
    if (amp_dtype_is_floating(*dtype) || (amp_dtype_is_complex(*dtype) && op->c128)) return AMP_OK;
    const bool whole = amp_compute_dtype(*dtype) == AMP_I64;
    if (whole && op->integers) {
        *dtype = AMP_F32;
        return AMP_OK;
    }
    if (whole && op->i64 && *dtype != AMP_BOOL && reduction != AMP_LOSS_MEAN) {
        if (reduction == AMP_LOSS_SUM) *dtype = AMP_I64;
        return AMP_OK;
    }
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s, '%s' is %s; expected a floating dtype", amp_call_name(call),
                    v[0].name, amp_describe(v[0].tensor), v[1].name, amp_describe(v[1].tensor));
}

static double mean_scale(amp_loss_reduction reduction, const amp_tensor *losses, const amp_tensor *input) {
    switch (reduction) {
    case AMP_LOSS_MEAN: return 1.0 / (double)amp_tensor_elements(losses);
    case AMP_LOSS_BATCHMEAN: return 1.0 / (double)(input->rank ? input->shape[0] : 1);
    default: return 1.0;
    }
}

static amp_status find_kernels(amp_call *call, const loss_op *op, amp_dtype compute, loss_context *c) {
    if (compute != AMP_F32) return AMP_OK;
    const amp_kernel *kernel = amp_kernel_select(op->family, AMP_F32, AMP_F32);
    c->stirling = (amp_loss_function *)amp_kernel_get(AMP_KERNEL_LOSS_STIRLING, AMP_F32, AMP_F32);
    c->add = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_ADD, AMP_F32, AMP_F32);
    c->mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    c->least = (amp_reduce_function *)amp_kernel_get(AMP_KERNEL_ROW_MIN, AMP_F32, AMP_F32);
    c->greatest = (amp_reduce_function *)amp_kernel_get(AMP_KERNEL_ROW_MAX, AMP_F32, AMP_F32);
    if (!kernel || !c->stirling || !c->add || !c->mul || !c->least || !c->greatest) return amp_pending_error();
    c->loss = (amp_loss_function *)kernel->function;
    call->note.kernel = kernel->name;
    return AMP_OK;
}

static int64_t elements_of(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= shape[d];
    return n;
}

static amp_status run(amp_call *call, const loss_op *op, const amp_operand *v, int count, amp_loss_reduction reduction,
                      loss_context *c) {
    int64_t shape[AMP_MAX_RANK];
    int rank;
    amp_dtype dtype;
    AMP_TRY(check_dtype(call, op, v, count, reduction, &dtype));
    AMP_TRY(amp_operands_shape(call, v, count, &rank, shape));
    const amp_dtype compute = amp_loss_compute(dtype, elements_of(rank, shape));
    AMP_TRY(find_kernels(call, op, compute, c));
    amp_tensor *losses = amp_loss_target(call, reduction, dtype, compute, rank, shape);
    if (!losses) return amp_pending_error();
    amp_dense_function *function = compute == AMP_F32    ? loss_f32
                                   : compute == AMP_F64  ? op->f64
                                   : compute == AMP_C128 ? op->c128
                                                         : op->i64;
    amp_operands_run(v, count, compute, compute, function, c, op->cost, losses);
    if (atomic_load(&c->outside)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s with elements outside of 0 to 1; expected probabilities",
                        amp_call_name(call), v[0].name, amp_describe(v[0].tensor));
    }
    return amp_loss_finish(call, reduction, losses, dtype, mean_scale(reduction, losses, v[0].tensor));
}

/* Two tensors, and options in the context. */
static amp_status run_pair(amp_call *call, const loss_op *op, amp_tensor *input, amp_tensor *target,
                           const char *reduction, loss_context c) {
    const amp_operand v[2] = {amp_tensor_operand("input", input), amp_tensor_operand("target", target)};
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, reduction, false, &how));
    return run(call, op, v, 2, how, &c);
}

#define DEFINE(op, row, ...)                                                                                           \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        return run_pair(call, row, a->input, a->target, a->reduction, (loss_context){__VA_ARGS__});                    \
    }
DEFINE(mse_loss, &mse, .p = 0.0)
DEFINE(soft_margin_loss, &soft_margin, .p = 0.0)
DEFINE(hinge_embedding_loss, &hinge_embedding, .p = a->margin.value)
DEFINE(poisson_nll_loss, a->log_input.value ? &poisson : &poisson_plain, .p = a->eps.value, .full = a->full)

/* The distance of complex numbers is real. */
amp_status cpu_l1_loss(amp_call *call) {
    const amp_l1_loss_args *a = call->args;
    if (!amp_dtype_is_complex(a->input->dtype) && !amp_dtype_is_complex(a->target->dtype)) {
        return run_pair(call, &l1, a->input, a->target, a->reduction, (loss_context){.p = 0.0});
    }
    int64_t shape[AMP_MAX_RANK];
    int rank;
    const amp_operand given[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target)};
    AMP_TRY(amp_operands_shape(call, given, 2, &rank, shape));
    amp_tensor *difference = amp_sub(a->input, a->target), *distance = difference ? amp_abs(difference) : NULL;
    const amp_full_like_args zero = {.struct_size = sizeof zero, .input = distance, .fill_value = amp_int(0)};
    amp_tensor *nothing = distance ? amp_full_like_call(&zero) : NULL;
    if (!nothing) return amp_pending_error();
    return run_pair(call, &l1, distance, nothing, a->reduction, (loss_context){.p = 0.0});
}

amp_status cpu_smooth_l1_loss(amp_call *call) {
    const amp_smooth_l1_loss_args *a = call->args;
    if (!(a->beta.value >= 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'beta' is %g; expected 0 or more", amp_call_name(call), a->beta.value);
    }
    return run_pair(call, &smooth_l1, a->input, a->target, a->reduction, (loss_context){.p = a->beta.value});
}

amp_status cpu_huber_loss(amp_call *call) {
    const amp_huber_loss_args *a = call->args;
    if (!(a->delta.value > 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'delta' is %g; expected more than 0", amp_call_name(call),
                        a->delta.value);
    }
    return run_pair(call, &huber, a->input, a->target, a->reduction, (loss_context){.p = a->delta.value});
}

amp_status cpu_kl_div(amp_call *call) {
    const amp_kl_div_args *a = call->args;
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target)};
    loss_context c = {0};
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, true, &how));
    return run(call, a->log_target ? &kl_div_log : &kl_div, v, 2, how, &c);
}

amp_status cpu_margin_ranking_loss(amp_call *call) {
    const amp_margin_ranking_loss_args *a = call->args;
    const amp_operand v[3] = {amp_tensor_operand("input1", a->input1), amp_tensor_operand("input2", a->input2),
                              amp_tensor_operand("target", a->target)};
    loss_context c = {.p = a->margin, .third = 2};
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &how));
    return run(call, &margin_ranking, v, 3, how, &c);
}

/* Cross entropies of probabilities: every element has its target, so these do not broadcast. */
static amp_status run_entropy(amp_call *call, const loss_op *op, amp_operand input, amp_operand target,
                              amp_tensor *weight, amp_tensor *factor, const char *reduction) {
    const amp_tensor *x = input.tensor, *t = target.tensor;
    amp_operand v[4] = {input, target};
    loss_context c = {.probabilities = op == &entropies};
    int count = 2;
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, reduction, false, &how));
    if (!amp_same_shape(x, t)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'target' is %s, input is %s; expected equal shapes",
                        amp_call_name(call), amp_describe(t), amp_describe(x));
    }
    if (weight) v[c.weight = count++] = amp_tensor_operand("weight", weight);
    if (factor) v[c.third = count++] = amp_tensor_operand("pos_weight", factor);
    return run(call, op, v, count, how, &c);
}

amp_status cpu_binary_cross_entropy(amp_call *call) {
    const amp_binary_cross_entropy_args *a = call->args;
    return run_entropy(call, &entropies, amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target),
                       a->weight, NULL, a->reduction);
}

amp_status cpu_binary_cross_entropy_with_logits(amp_call *call) {
    const amp_binary_cross_entropy_with_logits_args *a = call->args;
    return run_entropy(call, &logits, amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target),
                       a->weight, a->pos_weight, a->reduction);
}
