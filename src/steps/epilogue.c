/* The words of fused ops, and their activations where no kernel takes them along. */
#include "steps/epilogue.h"

#include <math.h>
#include <string.h>

#include "amp/ops.h"

static const struct activation {
    const char *name;
    amp_gemm_activation activation;
    int numbers;
    double defaults[2];
} activations[] = {
    {"none", AMP_GEMM_NONE, 0, {0}},
    {"relu", AMP_GEMM_RELU, 0, {0}},
    {"sigmoid", AMP_GEMM_SIGMOID, 0, {0}},
    {"tanh", AMP_GEMM_TANH, 0, {0}},
    {"swish", AMP_GEMM_SILU, 0, {0}},
    {"hardswish", AMP_GEMM_HARDSWISH, 0, {0}},
    {"leaky_relu", AMP_GEMM_LEAKY_RELU, 1, {0.01}},
    {"hardtanh", AMP_GEMM_HARDTANH, 2, {-1, 1}},
    {"gelu", AMP_GEMM_GELU_ERF, 0, {0}},
};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

static const struct activation *find_activation(const char *name) {
    for (int i = 0; i < ACTIVATIONS; i++) {
        if (!strcmp(activations[i].name, name)) return &activations[i];
    }
    return NULL;
}

amp_status amp_read_epilogue(const amp_call *call, const amp_epilogue_words *w, amp_dtype dtype, amp_epilogue *e) {
    const char *op = amp_call_name(call);
    const struct activation *a = find_activation(w->attr);
    if (!a) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: '%s' is \"%s\"; expected none, relu, sigmoid, tanh, swish, hardswish, leaky_relu, "
                        "hardtanh or gelu",
                        op, w->name, w->attr);
    }
    if (a->activation != AMP_GEMM_NONE && !amp_dtype_is_floating(dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: the tensors are %s; \"%s\" needs a floating dtype", op,
                        amp_dtype_name(dtype), w->attr);
    }
    const bool by_tanh = !strcmp(w->algorithm, "tanh");
    if ((!by_tanh && strcmp(w->algorithm, "none")) || (by_tanh && a->activation != AMP_GEMM_GELU_ERF)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the algorithm of \"%s\" is \"%s\"; expected \"none\"%s", op, w->attr,
                        w->algorithm, a->activation == AMP_GEMM_GELU_ERF ? " or \"tanh\"" : "");
    }
    if (w->scalars.set && w->scalars.count != a->numbers) {
        return amp_fail(AMP_ERROR_INVALID, "%s: there are %d scalars; \"%s\" takes %d", op, w->scalars.count, w->attr,
                        a->numbers);
    }
    e->activation = by_tanh ? AMP_GEMM_GELU_TANH : a->activation;
    const double *numbers = w->scalars.set ? w->scalars.values : a->defaults;
    e->numbers[0] = numbers[0];
    e->numbers[1] = numbers[1];
    return AMP_OK;
}

static amp_tensor *activated(amp_tensor *x, const amp_epilogue *e) {
    switch (e->activation) {
    case AMP_GEMM_RELU: return amp_relu_(x);
    case AMP_GEMM_GELU_ERF: return amp_gelu_(x);
    case AMP_GEMM_GELU_TANH: return amp_gelu_(x, .approximate = "tanh");
    case AMP_GEMM_SILU: return amp_silu_(x);
    case AMP_GEMM_TANH: return amp_tanh_(x);
    case AMP_GEMM_SIGMOID: return amp_sigmoid_(x);
    case AMP_GEMM_HARDSWISH: return amp_hardswish_(x);
    case AMP_GEMM_LEAKY_RELU: return amp_leaky_relu_(x, .negative_slope = AMP_SET(e->numbers[0]));
    case AMP_GEMM_HARDTANH:
        return amp_hardtanh_(x, .min_val = amp_float(e->numbers[0]), .max_val = amp_float(e->numbers[1]));
    case AMP_GEMM_NONE:
    case AMP_GEMM_ACTIVATION_COUNT: break;
    }
    return x;
}

amp_status amp_apply_epilogue(amp_tensor *result, const amp_epilogue *e) {
    return activated(result, e) ? AMP_OK : amp_pending_error();
}

amp_status amp_check_additions(amp_call *call, const amp_additions *a, const amp_tensor *input, int64_t channels) {
    const amp_tensor *const all[] = {input, a->shift, a->residual};
    static const char *const names[] = {"input", "shift", "residual"};
    if (!amp_has_additions(a)) return AMP_OK;
    for (int i = 0; i < 3; i++) {
        if (!all[i] || amp_dtype_is_floating(all[i]->dtype)) continue;
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; with a shift, a residual or a dtype it must be floating",
                        amp_call_name(call), names[i], amp_describe(all[i]));
    }
    if (a->dtype != AMP_DTYPE_NONE && !amp_dtype_is_floating(a->dtype))
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'dtype' is %s; expected a floating dtype", amp_call_name(call),
                        amp_dtype_name(a->dtype));
    if (a->shift && (a->shift->rank != 1 || a->shift->shape[0] != channels))
        return amp_fail(AMP_ERROR_INVALID, "%s: 'shift' is %s; expected shape [%lld], one for each output channel",
                        amp_call_name(call), amp_describe(a->shift), (long long)channels);
    if (a->shift) AMP_TRY(amp_call_materialize(call, a->shift));
    return a->residual ? amp_call_materialize(call, a->residual) : AMP_OK;
}

bool amp_kernels_add(const amp_call *call, const amp_additions *a, const amp_tensor *input) {
    const amp_dtype own = input->dtype;
    const amp_dtype all[] = {a->dtype == AMP_DTYPE_NONE ? own : a->dtype, a->shift ? a->shift->dtype : own,
                             a->residual ? a->residual->dtype : own};
    if (call->device != AMP_DEVICE_CPU || (own != AMP_BF16 && own != AMP_F32)) return false;
    for (int i = 0; i < 3; i++)
        if (all[i] != own && all[i] != AMP_F32) return false;
    return true;
}

amp_status amp_join_shift(amp_call *call, const amp_additions *a, amp_dtype dtype, amp_tensor **bias) {
    amp_tensor *b = *bias, *s = a->shift;
    if (!s && (!b || dtype == AMP_DTYPE_NONE)) return AMP_OK;
    if (b && s && dtype == AMP_DTYPE_NONE) dtype = AMP_F32;
    if (b) AMP_TRY(amp_call_materialize(call, b));
    if (b && dtype != AMP_DTYPE_NONE) b = amp_to(b, dtype);
    if (s && dtype != AMP_DTYPE_NONE) s = amp_to(s, dtype);
    *bias = b && s ? amp_add(b, s) : b ? b : s;
    return *bias ? AMP_OK : amp_pending_error();
}

double amp_activate(double x, const amp_epilogue *e) {
    const double *numbers = e->numbers;
    switch (e->activation) {
    case AMP_GEMM_RELU: return x < 0.0 ? 0.0 : x;
    case AMP_GEMM_GELU_ERF: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case AMP_GEMM_GELU_TANH: return x / (1.0 + exp(-1.5957691216057307117 * (x + 0.044715 * x * x * x)));
    case AMP_GEMM_SILU: return x / (1.0 + exp(-x));
    case AMP_GEMM_TANH: return tanh(x);
    case AMP_GEMM_SIGMOID: return 1.0 / (1.0 + exp(-x));
    case AMP_GEMM_HARDSWISH: return x * (fmin(fmax(x + 3.0, 0.0), 6.0) / 6.0); /* NaN · 0 is NaN */
    case AMP_GEMM_LEAKY_RELU: return x < 0.0 ? x * numbers[0] : x;
    case AMP_GEMM_HARDTANH: return x < numbers[0] ? numbers[0] : x > numbers[1] ? numbers[1] : x;
    default: return x;
    }
}

amp_status amp_broadcast_strides(const amp_call *call, const char *name, const amp_tensor *t, int rank,
                                 const int64_t *shape, int64_t *strides) {
    memset(strides, 0, (size_t)rank * sizeof *strides);
    for (int i = 0; i < t->rank; i++) {
        const int d = i + rank - t->rank;
        if (d < 0 || (t->shape[i] != 1 && t->shape[i] != shape[d])) {
            return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, which does not broadcast to the result %s",
                            amp_call_name(call), name, amp_describe(t), amp_describe_shape(rank, shape));
        }
        strides[d] = t->shape[i] == 1 ? 0 : t->strides[i];
    }
    return AMP_OK;
}

amp_status amp_read_join(const amp_call *call, const char *name, const char *attr, amp_join *join) {
    static const char *const names[] = {"add", "sub", "mul", "div"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i], attr)) continue;
        *join = (amp_join)i;
        return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is \"%s\"; expected add, sub, mul or div", amp_call_name(call), name,
                    attr);
}

amp_tensor *amp_apply_join(amp_tensor *result, amp_join join, amp_tensor *other) {
    switch (join) {
    case AMP_JOIN_ADD: return amp_add(result, other);
    case AMP_JOIN_SUB: return amp_sub(result, other);
    case AMP_JOIN_MUL: return amp_mul(result, other);
    default: return amp_div(result, other);
    }
}
