/* Attention, RotaryEmbedding, TensorScatter. */
#include <math.h>
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

/* ---- Attention: its inputs ---------------------------------------------------------------------------------------- */

typedef struct attention {
    amp_tensor *query, *key, *value; /* (B, H, L, D); key and value with what is past, of fewer heads maybe */
    amp_tensor *mask;                /* added, or of bools; NULL: none */
    int64_t past;                    /* rows of key that stood before */
    bool heads_last;                 /* inputs and output are (B, L, H · D) */
    bool causal;                     /* as libamp's op knows it: from the upper left corner, and no mask beside it */
    double scale, softcap;
} attention;

/* (B, L, heads · D) as (B, heads, L, D). */
static amp_tensor *split_heads(const amp_onnx_step *s, amp_tensor *t, const char *attribute) {
    const int64_t heads = amp_onnx_int(s, attribute, 0);
    if (heads < 1 || t->shape[2] % heads != 0) {
        amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' is %lld, an input %s", attribute, (long long)heads,
                      amp_describe(t));
        return NULL;
    }
    return amp_transpose(amp_reshape(t, AMP_DIMS(t->shape[0], t->shape[1], heads, t->shape[2] / heads)), 1, 2);
}

static amp_status read_rows(const amp_onnx_step *s, attention *a) {
    amp_tensor *q = amp_onnx_required(s, 0), *k = amp_onnx_required(s, 1), *v = amp_onnx_required(s, 2);
    if (!q || !k || !v) return amp_pending_error();
    if (q->rank != k->rank || q->rank != v->rank || (q->rank != 3 && q->rank != 4)) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "Q is %s, K %s, V %s; expected rank 3 or 4 of all", amp_describe(q),
                             amp_describe(k), amp_describe(v));
    }
    a->heads_last = q->rank == 3;
    a->query = a->heads_last ? split_heads(s, q, "q_num_heads") : q;
    a->key = a->heads_last ? split_heads(s, k, "kv_num_heads") : k;
    a->value = a->heads_last ? split_heads(s, v, "kv_num_heads") : v;
    if (!a->query || !a->key || !a->value) return amp_pending_error();
    const int64_t heads = a->key->shape[1];
    if (heads < 1 || a->query->shape[1] % heads != 0 || a->value->shape[1] != heads) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld heads of queries, %lld of keys, %lld of values",
                             (long long)a->query->shape[1], (long long)heads, (long long)a->value->shape[1]);
    }
    return AMP_OK;
}

/* Keys and values so far stand before the new ones; all of them are results. */
static amp_status join_past(amp_onnx_step *s, attention *a) {
    amp_tensor *past_key = amp_onnx_input(s, 4), *past_value = amp_onnx_input(s, 5);
    if (past_key) {
        a->past = past_key->rank == 4 ? past_key->shape[2] : 0;
        a->key = amp_cat(AMP_LIST(past_key, a->key), .dim = 2);
    }
    if (past_value) a->value = amp_cat(AMP_LIST(past_value, a->value), .dim = 2);
    AMP_TRY(amp_onnx_set(s, 1, a->key));
    return amp_onnx_set(s, 2, a->value);
}

/* ---- Attention: its mask ------------------------------------------------------------------------------------------ */

/* (L, S) of bools: a query sees what is past, and the new rows up to its own. */
static amp_tensor *causal_mask(const attention *a) {
    amp_tensor *all = amp_ones(AMP_DIMS(a->query->shape[2], a->key->shape[2]), .dtype = AMP_BOOL,
                               .device = (int)amp_tensor_device(a->query));
    return amp_tril(all, .diagonal = a->past);
}

/* (B, 1, 1, S) of bools: each sample has its own number of rows that are no padding. */
static amp_tensor *padding_mask(const attention *a, amp_tensor *lengths) {
    amp_tensor *places =
        amp_to_device(amp_arange(amp_int(a->key->shape[2]), .dtype = AMP_I64), amp_tensor_device(a->query));
    return amp_lt(places, amp_reshape(lengths, AMP_DIMS(-1, 1, 1, 1)));
}

/* Both: of bools and, of numbers those of `mask` where `seen`. */
static amp_tensor *restrict_mask(amp_tensor *mask, amp_tensor *seen) {
    if (!mask || mask->dtype == AMP_BOOL) return mask ? amp_logical_and(mask, seen) : seen;
    return amp_where_scalar_other(seen, mask, amp_float(-INFINITY));
}

/* A mask for fewer rows than there are hides the others. */
static amp_tensor *widen_mask(const attention *a, amp_tensor *mask) {
    const int64_t missing = a->key->shape[2] - (mask->rank > 0 ? mask->shape[mask->rank - 1] : 0);
    if (missing <= 0 || mask->rank == 0 || mask->shape[mask->rank - 1] == 1) return mask;
    const amp_scalar hidden = mask->dtype == AMP_BOOL ? amp_bool(false) : amp_float(-INFINITY);
    return amp_constant_pad_nd(mask, AMP_DIMS(0, missing), .value = hidden);
}

static amp_status read_mask(const amp_onnx_step *s, attention *a) {
    amp_tensor *mask = amp_onnx_input(s, 3), *lengths = amp_onnx_input(s, 6);
    const bool causal = amp_onnx_int(s, "is_causal", 0) != 0;
    if (!a->key || !a->value) return amp_pending_error();
    a->causal = causal && !mask && !lengths && a->past == 0;
    if (mask) mask = widen_mask(a, mask);
    if (mask && mask->dtype != AMP_BOOL) mask = amp_to(mask, a->query->dtype);
    if (causal && !a->causal) mask = restrict_mask(mask, causal_mask(a));
    if (lengths) mask = restrict_mask(mask, padding_mask(a, lengths));
    a->mask = mask;
    return amp_pending_error();
}

/* ---- Attention: its product --------------------------------------------------------------------------------------- */

/* The mask as numbers that are added. */
static amp_tensor *added_mask(const attention *a) {
    amp_tensor *seen = a->causal ? causal_mask(a) : a->mask;
    if (!seen || seen->dtype != AMP_BOOL) return seen;
    amp_tensor *hidden = amp_full(AMP_DIMS(1), amp_float(-INFINITY), .dtype = a->query->dtype,
                                  .device = (int)amp_tensor_device(a->query));
    return amp_where_scalar_self(seen, amp_float(0), hidden);
}

/* rows @ others, of which several heads of rows share one: (B, H, L, …) from (B, H, L, …) and (B, heads, …, …). */
static amp_tensor *multiply_heads(amp_tensor *rows, amp_tensor *others) {
    if (!rows || !others || rows->shape[1] == others->shape[1]) return amp_matmul(rows, others);
    const int64_t *n = rows->shape, heads = others->shape[1], shared = n[1] / heads;
    amp_tensor *product = amp_matmul(amp_reshape(rows, AMP_DIMS(n[0], heads, shared * n[2], n[3])), others);
    return product ? amp_reshape(product, AMP_DIMS(n[0], n[1], n[2], product->shape[3])) : NULL;
}

/* Step by step, as where scores between are a result or are capped. The cap stands before the mask, as ONNX's text has
 * had it since 2026 (pull requests 7867 and 7913); of what was published before, a hidden element came back as
 * -softcap, and modes 1 and 2 stood the other way round. */
static amp_tensor *attend_slowly(amp_onnx_step *s, const attention *a) {
    const int64_t mode = amp_onnx_int(s, "qk_matmul_output_mode", 0),
                  precision = amp_onnx_int(s, "softmax_precision", 0);
    const amp_scalar root = amp_float(sqrt(a->scale));
    amp_tensor *keys = amp_transpose(amp_mul_scalar(a->key, root), 2, 3), *mask = added_mask(a);
    amp_tensor *scores = multiply_heads(amp_mul_scalar(a->query, root), keys), *shown = scores;
    if (a->softcap > 0) {
        const amp_scalar cap = amp_float(a->softcap);
        scores = amp_mul_scalar(amp_tanh(amp_div_scalar(scores, cap)), cap);
    }
    if (mode == 1) shown = scores;
    if (mask) scores = amp_add(scores, mask);
    if (mode == 2) shown = scores;
    if (precision) scores = amp_to(scores, amp_onnx_dtype(s, precision));
    amp_tensor *shares = amp_to(amp_softmax(scores, -1), a->query->dtype);
    if (mode == 3) shown = shares;
    if (amp_onnx_set(s, 3, shown) != AMP_OK) return NULL;
    return multiply_heads(shares, a->value);
}

amp_status onnx_attention(amp_onnx_step *s) {
    attention a = {.softcap = amp_onnx_float(s, "softcap", 0)};
    AMP_TRY(read_rows(s, &a));
    AMP_TRY(join_past(s, &a));
    AMP_TRY(read_mask(s, &a));
    a.scale = amp_onnx_float(s, "scale", 0);
    if (a.scale == 0) a.scale = 1 / sqrt((double)a.query->shape[3]);
    if (a.scale < 0) return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'scale' is %g", a.scale);
    amp_tensor *y;
    if (a.softcap > 0 || amp_onnx_wants(s, 3)) {
        y = attend_slowly(s, &a);
    } else {
        y = amp_scaled_dot_product_attention(a.query, a.key, a.value, .attn_mask = a.mask, .is_causal = a.causal,
                                             .scale = AMP_SET(a.scale),
                                             .enable_gqa = a.query->shape[1] != a.key->shape[1]);
    }
    if (!y || !a.heads_last) return amp_onnx_set(s, 0, y);
    return amp_onnx_set(
        s, 0, amp_reshape(amp_transpose(y, 1, 2), AMP_DIMS(y->shape[0], y->shape[2], y->shape[1] * y->shape[3])));
}

/* ---- RotaryEmbedding ---------------------------------------------------------------------------------------------- */

/* A table's rows for each position: (B, L, 1, D / 2) of (B, L, D / 2), or of a table and position ids. */
static amp_tensor *turns(amp_tensor *table, amp_tensor *positions) {
    return amp_unsqueeze(positions ? amp_embedding(positions, table) : table, 2);
}

/* x of (B, L, H, D): pairs of elements, halves or neighbours, turned by their angles. */
static amp_tensor *rotate(amp_tensor *x, amp_tensor *cosine, amp_tensor *sine, bool neighbours) {
    const int64_t half = x->shape[3] / 2;
    amp_tensor *first = neighbours ? amp_slice(x, .dim = 3, .step = AMP_SET(2)) : amp_narrow(x, 3, 0, half);
    amp_tensor *second =
        neighbours ? amp_slice(x, .dim = 3, .start = AMP_SET(1), .step = AMP_SET(2)) : amp_narrow(x, 3, half, half);
    amp_tensor *real = amp_sub(amp_mul(first, cosine), amp_mul(second, sine));
    amp_tensor *imaginary = amp_add(amp_mul(first, sine), amp_mul(second, cosine));
    if (!neighbours) return amp_cat(AMP_LIST(real, imaginary), .dim = 3);
    return amp_onnx_reshaped(amp_stack(AMP_LIST(real, imaginary), .dim = 4), 4, x->shape);
}

amp_status onnx_rotary_embedding(amp_onnx_step *s) {
    amp_tensor *input = amp_onnx_required(s, 0), *x = input, *positions = amp_onnx_input(s, 3);
    amp_tensor *cosine = amp_onnx_required(s, 1), *sine = amp_onnx_required(s, 2);
    if (!x || !cosine || !sine) return amp_pending_error();
    const int64_t heads = amp_onnx_int(s, "num_heads", 0);
    if (x->rank == 3 && (heads < 1 || x->shape[2] % heads != 0)) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'num_heads' is %lld, the input %s", (long long)heads,
                             amp_describe(x));
    }
    if (x->rank != 3 && x->rank != 4) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s; expected rank 3 or 4", amp_describe(x));
    }
    x = x->rank == 4 ? amp_transpose(x, 1, 2)
                     : amp_reshape(x, AMP_DIMS(x->shape[0], x->shape[1], heads, x->shape[2] / heads));
    if (!x) return amp_pending_error();
    const int64_t width = x->shape[3], asked = amp_onnx_int(s, "rotary_embedding_dim", 0),
                  turned = asked ? asked : width;
    if (turned < 2 || turned % 2 != 0 || turned > width) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld of %lld elements of a head are to be turned",
                             (long long)turned, (long long)width);
    }
    amp_tensor *part = turned < width ? amp_narrow(x, 3, 0, turned) : x;
    if (!part) return amp_pending_error();
    amp_tensor *y =
        rotate(part, turns(cosine, positions), turns(sine, positions), amp_onnx_int(s, "interleaved", 0) != 0);
    if (turned < width) y = amp_cat(AMP_LIST(y, amp_narrow(x, 3, turned, width - turned)), .dim = 3);
    return amp_onnx_set(s, 0, input->rank == 4 ? amp_transpose(y, 1, 2) : amp_onnx_reshaped(y, 3, input->shape));
}

/* ---- TensorScatter ------------------------------------------------------------------------------------------------ */

/* Rows of an update written into a copy of the cache, for each sample from a row of its own on. */
amp_status onnx_tensor_scatter(amp_onnx_step *s) {
    amp_tensor *cache = amp_onnx_required(s, 0), *update = amp_onnx_required(s, 1), *starts = amp_onnx_input(s, 2);
    if (!cache || !update) return amp_pending_error();
    const char *mode = amp_onnx_text(s, "mode", "linear");
    const bool circular = strcmp(mode, "circular") == 0;
    const int64_t axis = amp_onnx_axis(s, amp_onnx_int(s, "axis", -2), cache->rank);
    if (axis < 0) return amp_pending_error();
    if (!circular && strcmp(mode, "linear") != 0)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'mode' is '%s'", mode);
    if (axis == 0 || update->rank != cache->rank || update->shape[axis] > cache->shape[axis]) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the cache is %s, the update %s along axis %lld",
                             amp_describe(cache), amp_describe(update), (long long)axis);
    }
    amp_tensor *rows =
        amp_to_device(amp_arange(amp_int(update->shape[axis]), .dtype = AMP_I64), amp_tensor_device(cache));
    amp_dims along = amp_onnx_same_dims(cache->rank, 1), samples = along;
    along.values[axis] = update->shape[axis];
    samples.values[0] = -1;
    rows = amp_reshape(rows, along);
    if (starts) rows = amp_add(rows, amp_reshape(amp_to(starts, AMP_I64), samples));
    if (circular) rows = amp_remainder_scalar(rows, amp_int(cache->shape[axis]));
    rows = amp_expand(rows, amp_onnx_dims(update->rank, update->shape));
    return amp_onnx_set(s, 0, amp_scatter(cache, axis, rows, update));
}
