/* native_multi_head_attention: projections into heads, scaled_dot_product_attention, the projection back. */
#include <math.h>

#include "amp/ops.h"
#include "call/call.h"
#include "steps/matmul.h"

typedef amp_native_multi_head_attention_args arguments;

enum { ATTENTION_MASK = 0, KEY_PADDING_MASK = 1, GENERAL_MASK = 2 };

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

static amp_status check_inputs(const amp_call *call, const arguments *a) {
    const amp_tensor *const inputs[] = {a->query, a->key, a->value};
    static const char *const names[] = {"query", "key", "value"};
    const int64_t e = a->embed_dim;
    if (e < 1 || a->num_head < 1 || e % a->num_head != 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'embed_dim' is %lld, 'num_head' is %lld; expected a multiple of num_head",
                        amp_call_name(call), (long long)e, (long long)a->num_head);
    }
    for (int i = 0; i < 3; i++) {
        const amp_tensor *t = inputs[i], *like = i == 2 ? a->key : a->query;
        if (!amp_dtype_is_floating(t->dtype)) {
            return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected a floating dtype", amp_call_name(call), names[i],
                            amp_describe(t));
        }
        AMP_TRY(amp_call_check_same_dtype(call, "query", a->query, names[i], t));
        const bool fits = t->rank == 3 && t->shape[2] == e && like->rank == 3 && t->shape[0] == like->shape[0] &&
                          (i < 2 || t->shape[1] == like->shape[1]);
        if (fits) continue;
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: query is %s, key is %s, value is %s; expected [batch, L, %lld], [batch, S, %lld] twice",
                        amp_call_name(call), amp_describe(a->query), amp_describe(a->key), amp_describe(a->value),
                        (long long)e, (long long)e);
    }
    return AMP_OK;
}

static amp_status check_weights(const amp_call *call, const arguments *a) {
    const int64_t e = a->embed_dim, qkv[2] = {3 * e, e}, proj[2] = {e, e};
    const amp_tensor *const weights[] = {a->qkv_weight, a->qkv_bias, a->proj_weight, a->proj_bias};
    static const char *const names[] = {"qkv_weight", "qkv_bias", "proj_weight", "proj_bias"};
    for (int i = 0; i < 4; i++) {
        AMP_TRY(amp_call_check_same_dtype(call, "query", a->query, names[i], weights[i]));
        AMP_TRY(amp_call_check_shape(call, names[i], weights[i], i % 2 ? 1 : 2, i < 2 ? qkv : proj));
    }
    return AMP_OK;
}

static amp_status check_mask(const amp_call *call, const arguments *a) {
    const int64_t b = a->query->shape[0], l = a->query->shape[1], s = a->key->shape[1];
    const int64_t shapes[3][4] = {{l, s}, {b, s}, {b, a->num_head, l, s}};
    if (a->mask->dtype != AMP_BOOL && !amp_dtype_is_floating(a->mask->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'mask' is %s; expected bool (true: left out) or a floating dtype (added)",
                        amp_call_name(call), amp_describe(a->mask));
    }
    if (!a->mask_type.set || a->mask_type.value < ATTENTION_MASK || a->mask_type.value > GENERAL_MASK) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'mask_type' is %s; expected 0 (a mask [L, S]), 1 ([batch, S]) or 2 ([batch, heads, L, S])",
                        amp_call_name(call), a->mask_type.set ? "none of the known" : "missing");
    }
    const int type = (int)a->mask_type.value;
    return amp_call_check_shape(call, "mask", a->mask, type == GENERAL_MASK ? 4 : 2, shapes[type]);
}

/* ---- Heads ------------------------------------------------------------------------------------------------------- */

static bool same_tensor(const amp_tensor *a, const amp_tensor *b) {
    const amp_tensor *x = amp_tensor_memory(a), *y = amp_tensor_memory(b);
    return x->storage == y->storage && x->dtype == y->dtype && x->offset == y->offset && amp_same_layout(x, y);
}

/* (batch, length, heads·depth) as (batch, heads, length, depth). */
static amp_tensor *in_heads(const arguments *a, amp_tensor *x) {
    if (!x) return NULL;
    amp_tensor *split = amp_reshape(x, AMP_DIMS(x->shape[0], x->shape[1], a->num_head, a->embed_dim / a->num_head));
    return split ? amp_transpose(split, 1, 2) : NULL;
}

/* Query, key and value in heads, by one product where all are one tensor. */
static amp_status project(amp_call *call, const arguments *a, amp_tensor **heads) {
    amp_tensor *const inputs[] = {a->query, a->key, a->value};
    const bool shared = same_tensor(a->query, a->key) && same_tensor(a->query, a->value);
    amp_tensor *all = shared ? amp_linear(a->query, a->qkv_weight, a->qkv_bias) : NULL;
    if (shared && !all) return amp_pending_error();
    if (!shared) AMP_TRY(amp_call_materialize(call, a->qkv_weight));
    if (!shared) AMP_TRY(amp_call_materialize(call, a->qkv_bias));
    for (int i = 0; i < 3; i++) {
        const int64_t from = i * a->embed_dim;
        amp_tensor *part;
        if (shared) {
            part = amp_narrow(all, 2, from, a->embed_dim);
        } else {
            amp_tensor *w = amp_narrow(a->qkv_weight, 0, from, a->embed_dim);
            amp_tensor *bias = w ? amp_narrow(a->qkv_bias, 0, from, a->embed_dim) : NULL;
            part = bias ? amp_linear(inputs[i], w, bias) : NULL;
        }
        heads[i] = in_heads(a, part);
        if (!heads[i]) return amp_pending_error();
    }
    return AMP_OK;
}

/* The mask against scores (batch, heads, L, S). */
static amp_tensor *spread(const arguments *a, amp_tensor *mask) {
    if (a->mask_type.value != KEY_PADDING_MASK) return mask;
    return amp_unsqueeze(amp_unsqueeze(mask, 1), 1);
}

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

/* softmax(q·kᵀ/√depth + mask), in memory as nobody needs it but who asks for it; 0 wherever the mask leaves out. */
static amp_tensor *attention_weights(const arguments *a, amp_tensor *const *heads, amp_tensor *mask) {
    const double scale = 1.0 / sqrt((double)a->embed_dim / (double)a->num_head);
    const amp_scalar minus_infinity = amp_float(-INFINITY);
    amp_tensor *k = amp_transpose(heads[1], 2, 3);
    amp_tensor *w = k ? amp_mul_scalar(amp_matmul(heads[0], k), amp_float(scale)) : NULL, *gone = NULL;
    if (w && mask) {
        gone = mask->dtype == AMP_BOOL ? mask : amp_eq_scalar(mask, minus_infinity);
        if (mask->dtype != AMP_BOOL) w = amp_add(w, amp_to(mask, .dtype = w->dtype));
        w = gone && w ? amp_masked_fill(w, gone, minus_infinity) : NULL;
    }
    w = w ? amp_softmax(w, -1) : NULL;
    if (w && gone) w = amp_masked_fill(w, gone, amp_float(0));
    const bool averaged = !a->average_attn_weights.set || a->average_attn_weights.value;
    return w && averaged ? amp_mean(w, .dim = AMP_DIMS(1)) : w;
}

amp_status cpu_native_multi_head_attention(amp_call *call) {
    const arguments *a = call->args;
    amp_tensor *heads[3], *mask = NULL;
    AMP_TRY(check_inputs(call, a));
    AMP_TRY(check_weights(call, a));
    if (a->mask) AMP_TRY(check_mask(call, a));
    if (!same_tensor(a->query, a->key) || !same_tensor(a->query, a->value)) {
        AMP_TRY(amp_call_materialize(call, a->query));
        AMP_TRY(amp_call_materialize(call, a->key));
        AMP_TRY(amp_call_materialize(call, a->value));
    }
    if (a->mask) {
        AMP_TRY(amp_call_materialize(call, a->mask));
        mask = spread(a, a->mask);
        if (!mask) return amp_pending_error();
    }
    AMP_TRY(project(call, a, heads));
    amp_tensor *kept = mask && mask->dtype == AMP_BOOL ? amp_logical_not(mask) : mask;
    amp_tensor *out = mask && !kept ? NULL : amp_scaled_dot_product_attention(heads[0], heads[1], heads[2], kept);
    amp_tensor *rows = out ? amp_transpose(out, 1, 2) : NULL;
    rows = rows ? amp_reshape(rows, AMP_DIMS(rows->shape[0], rows->shape[1], a->embed_dim)) : NULL;
    call->outputs[0] = rows ? amp_linear(rows, a->proj_weight, a->proj_bias) : NULL;
    if (!call->outputs[0]) return amp_pending_error();
    const bool wanted = a->attn_weights && (!a->need_weights.set || a->need_weights.value);
    if (!wanted) return AMP_OK;
    call->outputs[1] = attention_weights(a, heads, mask);
    return call->outputs[1] ? AMP_OK : amp_pending_error();
}
