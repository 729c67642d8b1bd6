/* Losses that are a formula of one element of each input, in f32 and in f64. Those with exponentials and logarithms
 * take them from the f32 vector kernels, a block at a time; log(1 + z) keeps the digits of a small z. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/element.h"
#include "cpu/kernels.h"
#include "cpu/loss_reduction.h"
#include "cpu/operands.h"
#include "policy/promotion.h"

enum { BLOCK = AMP_BLOCK_BYTES / sizeof(float) }; /* the most elements that the block loop hands over in f32 */

typedef struct loss_context {
    double p;           /* margin, beta, delta or eps */
    bool flag, full;    /* log_target or log_input; Stirling's term */
    int third;          /* places among the inputs, 0: absent; of margin_ranking_loss's target, … */
    int weight, factor; /* … of 'weight' and of 'pos_weight' */
    amp_unary_function *exp, *log;
    atomic_bool outside; /* an element is no probability */
} loss_context;

typedef struct loss_op {
    amp_dense_function *f32, *f64, *i64; /* i64 NULL: integers become f32 where `integers`, and are refused else */
    bool integers;
    int64_t cost;
} loss_op;

/* ---- Plain formulas: x and t are an element of the first two inputs, y of the third ------------------------------- */

#define LOSS_LOOP(name, type, suffix, expression)                                                                      \
    static void name##_##suffix(void *context, void *out, const void *const *in, int64_t n) {                          \
        const loss_context *c = context;                                                                               \
        const type *xs = in[0], *ts = in[1], *ys = in[c->third];                                                       \
        const type p = (type)c->p, half = (type)0.5;                                                                   \
        type *o = out;                                                                                                 \
        (void)p, (void)half;                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type x = xs[i], t = ts[i], y = ys[i], z = x > t ? x - t : t - x;                                     \
            (void)y, (void)z;                                                                                          \
            o[i] = (expression);                                                                                       \
        }                                                                                                              \
    }
#define LOSS(name, expression)                                                                                         \
    LOSS_LOOP(name, float, f32, expression)                                                                            \
    LOSS_LOOP(name, double, f64, expression)

/* What is negative becomes zero; a NaN stays. */
#define POSITIVE(v) ((v) < 0 ? 0 : (v))

LOSS(mse, z *z)
LOSS(l1, z)
LOSS_LOOP(l1, int64_t, i64, z)
LOSS(smooth_l1, z < p ? half * z * z / p : z - half * p)
LOSS(huber, z < p ? half * z * z : p * (z - half * p))
LOSS(hinge_embedding, (t == 1 ? 0 : POSITIVE(p - x)) + (t == -1 ? 0 : x))
LOSS(margin_ranking, POSITIVE(p - y * (x - t)))

/* ---- Formulas with exponentials and logarithms -------------------------------------------------------------------- */

/* out = log(1 + z), 1 + z ≥ 0, finite: the logarithm of the rounded sum, corrected by what rounding did to z. */
static void log1p_block(const loss_context *c, float *out, const float *z, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = 1.0F + z[i];
    c->log(out, out, n);
    for (int64_t i = 0; i < n; i++) {
        const float rounded = (1.0F + z[i]) - 1.0F;
        out[i] = rounded == 0.0F ? z[i] : out[i] * (z[i] / rounded);
    }
}

/* out = log(1 + e^−|x|). */
static void tail_block(const loss_context *c, float *out, const float *x, int64_t n) {
    float e[BLOCK];
    for (int64_t i = 0; i < n; i++) e[i] = -fabsf(x[i]);
    c->exp(e, e, n);
    log1p_block(c, out, e, n);
}
static double tail(double x) {
    return log1p(exp(-fabs(x)));
}

static void soft_margin_f32(void *context, void *out, const void *const *in, int64_t n) {
    const float *x = in[0], *t = in[1];
    float rest[BLOCK], *o = out;
    for (int64_t i = 0; i < n; i++) o[i] = -t[i] * x[i];
    tail_block(context, rest, o, n);
    for (int64_t i = 0; i < n; i++) o[i] = rest[i] + POSITIVE(o[i]);
}
LOSS_LOOP(soft_margin, double, f64, tail(t *x) + POSITIVE(-t * x))

/* Neither form cancels: (1 − t)·x or −f·t·x is what is left of the logarithms, ℓ = log(1 + e^−|x|). */
#define LOGITS(x, t, f, l) (1 + ((f)-1) * (t)) * (l) + ((x) < 0 ? -(f) * (t) * (x) : (1 - (t)) * (x))

static void logits_f32(void *context, void *out, const void *const *in, int64_t n) {
    const loss_context *c = context;
    const float *x = in[0], *t = in[1], *w = c->weight ? in[c->weight] : NULL, *f = c->factor ? in[c->factor] : NULL;
    float l[BLOCK], *o = out;
    tail_block(c, l, x, n);
    for (int64_t i = 0; i < n; i++) {
        const float factor = f ? f[i] : 1.0F, loss = LOGITS(x[i], t[i], factor, l[i]);
        o[i] = w ? w[i] * loss : loss;
    }
}
static void logits_f64(void *context, void *out, const void *const *in, int64_t n) {
    const loss_context *c = context;
    const double *x = in[0], *t = in[1], *w = c->weight ? in[c->weight] : NULL, *f = c->factor ? in[c->factor] : NULL;
    double *o = out;
    for (int64_t i = 0; i < n; i++) {
        const double factor = f ? f[i] : 1.0, loss = LOGITS(x[i], t[i], factor, tail(x[i]));
        o[i] = w ? w[i] * loss : loss;
    }
}

/* Logarithms of probabilities are not taken below −100. */
#define ENTROPY(t, log_x, log_rest)                                                                                    \
    ((t)-1) * ((log_rest) < -100 ? -100 : (log_rest)) - (t) * ((log_x) < -100 ? -100 : (log_x))

#define CHECK_PROBABILITIES(c, x, n)                                                                                   \
    for (int64_t i = 0; i < (n); i++) {                                                                                \
        if (!((x)[i] >= 0 && (x)[i] <= 1)) atomic_store_explicit(&(c)->outside, true, memory_order_relaxed);           \
    }

static void entropy_f32(void *context, void *out, const void *const *in, int64_t n) {
    loss_context *c = context;
    const float *x = in[0], *t = in[1], *w = c->weight ? in[c->weight] : NULL;
    float log_x[BLOCK], log_rest[BLOCK], *o = out;
    CHECK_PROBABILITIES(c, x, n)
    for (int64_t i = 0; i < n; i++) o[i] = -x[i];
    log1p_block(c, log_rest, o, n);
    c->log(log_x, x, n);
    for (int64_t i = 0; i < n; i++) {
        const float loss = ENTROPY(t[i], log_x[i], log_rest[i]);
        o[i] = w ? w[i] * loss : loss;
    }
}
static void entropy_f64(void *context, void *out, const void *const *in, int64_t n) {
    loss_context *c = context;
    const double *x = in[0], *t = in[1], *w = c->weight ? in[c->weight] : NULL;
    double *o = out;
    CHECK_PROBABILITIES(c, x, n)
    for (int64_t i = 0; i < n; i++) {
        const double log_x = log(x[i]), log_rest = log1p(-x[i]), loss = ENTROPY(t[i], log_x, log_rest);
        o[i] = w ? w[i] * loss : loss;
    }
}

static void kl_div_f32(void *context, void *out, const void *const *in, int64_t n) {
    const loss_context *c = context;
    const float *x = in[0], *t = in[1];
    float y[BLOCK], *o = out;
    (c->flag ? c->exp : c->log)(y, t, n);
    for (int64_t i = 0; i < n; i++) {
        o[i] = c->flag ? y[i] * (t[i] - x[i]) : t[i] * ((t[i] == 0.0F ? 0.0F : y[i]) - x[i]);
    }
}
LOSS_LOOP(kl_div, double, f64, c->flag ? exp(t) * (t - x) : t *((t == 0.0 ? 0.0 : log(t)) - x))

/* log(t!) by Stirling, from ln = log(t); not for t ≤ 1. */
#define STIRLING(t, ln) ((t) <= 1 ? 0 : (t) * (ln) - (t) + 0.5F * (ln) + 0.918938533204672742F)

static void poisson_f32(void *context, void *out, const void *const *in, int64_t n) {
    const loss_context *c = context;
    const float *x = in[0], *t = in[1], eps = (float)c->p;
    float y[BLOCK], ln[BLOCK], *o = out;
    for (int64_t i = 0; !c->flag && i < n; i++) y[i] = x[i] + eps;
    if (c->flag)
        c->exp(y, x, n);
    else
        c->log(y, y, n);
    if (c->full) c->log(ln, t, n);
    for (int64_t i = 0; i < n; i++) {
        const float loss = c->flag ? y[i] - t[i] * x[i] : x[i] - t[i] * y[i];
        o[i] = c->full ? loss + STIRLING(t[i], ln[i]) : loss;
    }
}
static double stirling(double t) {
    return t <= 1.0 ? 0.0 : t * log(t) - t + 0.5 * log(2.0 * M_PI * t);
}
LOSS_LOOP(poisson, double, f64, (c->flag ? exp(x) - t * x : x - t * log(x + p)) + (c->full ? stirling(t) : 0.0))

/* ---- Running one ---------------------------------------------------------------------------------------------------- */

static amp_status check_dtype(const amp_call *call, const loss_op *op, const amp_operand *v, int count,
                              amp_loss_reduction reduction, amp_dtype *dtype) {
    *dtype = amp_operands_dtype(v, count);
    if (amp_dtype_is_floating(*dtype)) return AMP_OK;
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

static amp_status run(amp_call *call, const loss_op *op, const amp_operand *v, int count, amp_loss_reduction reduction,
                      loss_context *c) {
    int64_t shape[AMP_MAX_RANK];
    int rank;
    amp_dtype dtype;
    AMP_TRY(check_dtype(call, op, v, count, reduction, &dtype));
    AMP_TRY(amp_operands_shape(call, v, count, &rank, shape));
    c->exp = (amp_unary_function *)amp_kernel_get(AMP_KERNEL_EXP, AMP_F32, AMP_F32);
    c->log = (amp_unary_function *)amp_kernel_get(AMP_KERNEL_LOG, AMP_F32, AMP_F32);
    amp_tensor *losses = c->exp && c->log ? amp_loss_target(call, reduction, dtype, rank, shape) : NULL;
    if (!losses) return amp_pending_error();
    const amp_dtype compute = amp_compute_dtype(dtype);
    amp_dense_function *function = compute == AMP_F32 ? op->f32 : compute == AMP_F64 ? op->f64 : op->i64;
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

#define DEFINE(op, loops, i64, integers, cost, ...)                                                                    \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        static const loss_op row = {loops##_f32, loops##_f64, i64, integers, cost};                                    \
        const amp_##op##_args *a = call->args;                                                                         \
        return run_pair(call, &row, a->input, a->target, a->reduction, (loss_context){__VA_ARGS__});                   \
    }
DEFINE(mse_loss, mse, NULL, false, 2, .p = 0.0)
DEFINE(soft_margin_loss, soft_margin, NULL, false, 8, .p = 0.0)
DEFINE(hinge_embedding_loss, hinge_embedding, NULL, true, 4, .p = a->margin.value)
DEFINE(poisson_nll_loss, poisson, NULL, true, 8, .p = a->eps.value, .flag = a->log_input.value, .full = a->full)

/* The distance of complex numbers is real. */
amp_status cpu_l1_loss(amp_call *call) {
    static const loss_op row = {l1_f32, l1_f64, l1_i64, false, 2};
    const amp_l1_loss_args *a = call->args;
    loss_context c = {.p = 0.0};
    if (!amp_dtype_is_complex(a->input->dtype) && !amp_dtype_is_complex(a->target->dtype)) {
        return run_pair(call, &row, a->input, a->target, a->reduction, c);
    }
    amp_loss_reduction how;
    int64_t shape[AMP_MAX_RANK];
    int rank;
    const amp_operand given[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target)};
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &how));
    AMP_TRY(amp_operands_shape(call, given, 2, &rank, shape));
    amp_tensor *difference = amp_sub(a->input, a->target), *distance = difference ? amp_abs(difference) : NULL;
    if (!distance) return amp_pending_error();
    const amp_operand v[2] = {amp_tensor_operand("input", distance), amp_number_operand("target", amp_int(0))};
    return run(call, &row, v, 2, how, &c);
}

amp_status cpu_smooth_l1_loss(amp_call *call) {
    static const loss_op row = {smooth_l1_f32, smooth_l1_f64, NULL, false, 2};
    const amp_smooth_l1_loss_args *a = call->args;
    if (!(a->beta.value >= 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'beta' is %g; expected 0 or more", amp_call_name(call), a->beta.value);
    }
    return run_pair(call, &row, a->input, a->target, a->reduction, (loss_context){.p = a->beta.value});
}

amp_status cpu_huber_loss(amp_call *call) {
    static const loss_op row = {huber_f32, huber_f64, NULL, false, 2};
    const amp_huber_loss_args *a = call->args;
    if (!(a->delta.value > 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'delta' is %g; expected more than 0", amp_call_name(call),
                        a->delta.value);
    }
    return run_pair(call, &row, a->input, a->target, a->reduction, (loss_context){.p = a->delta.value});
}

amp_status cpu_kl_div(amp_call *call) {
    static const loss_op row = {kl_div_f32, kl_div_f64, NULL, false, 6};
    const amp_kl_div_args *a = call->args;
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target)};
    loss_context c = {.flag = a->log_target};
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, true, &how));
    return run(call, &row, v, 2, how, &c);
}

amp_status cpu_margin_ranking_loss(amp_call *call) {
    static const loss_op row = {margin_ranking_f32, margin_ranking_f64, NULL, true, 2};
    const amp_margin_ranking_loss_args *a = call->args;
    const amp_operand v[3] = {amp_tensor_operand("input1", a->input1), amp_tensor_operand("input2", a->input2),
                              amp_tensor_operand("target", a->target)};
    loss_context c = {.p = a->margin, .third = 2};
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &how));
    return run(call, &row, v, 3, how, &c);
}

/* Cross entropies of probabilities: every element has its target, so these do not broadcast. */
static amp_status run_entropy(amp_call *call, const loss_op *op, amp_operand input, amp_operand target,
                              amp_tensor *weight, amp_tensor *factor, const char *reduction) {
    const amp_tensor *x = input.tensor, *t = target.tensor;
    amp_operand v[4] = {input, target};
    loss_context c = {0};
    int count = 2;
    amp_loss_reduction how;
    AMP_TRY(amp_loss_reduction_of(call, reduction, false, &how));
    if (x->rank != t->rank || memcmp(x->shape, t->shape, (size_t)x->rank * sizeof *x->shape) != 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'target' is %s, input is %s; expected equal shapes",
                        amp_call_name(call), amp_describe(t), amp_describe(x));
    }
    if (weight) v[c.weight = count++] = amp_tensor_operand("weight", weight);
    if (factor) v[c.factor = count++] = amp_tensor_operand("pos_weight", factor);
    return run(call, op, v, count, how, &c);
}

amp_status cpu_binary_cross_entropy(amp_call *call) {
    static const loss_op row = {entropy_f32, entropy_f64, NULL, false, 8};
    const amp_binary_cross_entropy_args *a = call->args;
    return run_entropy(call, &row, amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target),
                       a->weight, NULL, a->reduction);
}

amp_status cpu_binary_cross_entropy_with_logits(amp_call *call) {
    static const loss_op row = {logits_f32, logits_f64, NULL, false, 8};
    const amp_binary_cross_entropy_with_logits_args *a = call->args;
    return run_entropy(call, &row, amp_tensor_operand("input", a->input), amp_tensor_operand("target", a->target),
                       a->weight, a->pos_weight, a->reduction);
}
