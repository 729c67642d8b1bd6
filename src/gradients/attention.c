/* The gradient of scaled_dot_product_attention: with S = Q Kᵀ·scale + mask, P = softmax(S), O = P V
 *
 *     dV = Pᵀ dO,  dP = dO Vᵀ,  dS = P (dP − the row sums of P dP),  dQ = dS K·scale,  dK = dSᵀ Q·scale,  dmask = dS
 *
 * (Dao et al., "FlashAttention", 2022, appendix B), for a block of query rows after the other: P is made again of each, and no more
 * of it is kept at a time. */
#include <math.h>

#include "amp/grad.h"
#include "gradients/pieces.h"

typedef amp_scaled_dot_product_attention_args arguments;

enum { SCORES = 1 << 22, LEAST_ROWS = 16 }; /* scores, and rows, of a block */

typedef struct attention {
    amp_gradient *g;
    const arguments *a;
    amp_tensor *q, *k, *v, *mask, *of; /* in the type that computes; k and v a head for each of q's */
    double scale;
    int64_t rows, keys, group;
    bool keeps; /* what is summed up must not be written over: it is recorded */
    amp_tensor *dq, *dk, *dv, *dmask;
} attention;

static int64_t extent(const amp_tensor *t, int from_the_end) {
    return t->rank < from_the_end ? 1 : t->shape[t->rank - from_the_end];
}

static amp_tensor *for_all_heads(amp_tensor *t, int64_t group) {
    t = amp_wide(t);
    return t && group > 1 ? amp_repeat_interleave(t, group, .dim = AMP_SET(-3)) : t;
}

/* The gradients of heads that were one, together. */
static amp_tensor *of_own_heads(amp_tensor *t, int64_t group) {
    if (!t || group == 1) return t;
    amp_dims shape = amp_shape_of(t);
    const int head = shape.count - 3;
    for (int d = shape.count++; d > head + 1; d--) shape.values[d] = shape.values[d - 1];
    shape.values[head] /= group;
    shape.values[head + 1] = group;
    return amp_sum(amp_reshape(t, shape), .dim = AMP_DIMS(-3));
}

/* A mask that is added: 0 and −∞ for one of bools. */
static amp_tensor *added_mask(amp_tensor *mask, amp_dtype dtype, const amp_gradient *g) {
    if (!mask || mask->dtype != AMP_BOOL) return amp_wide(mask);
    amp_tensor *zeros = amp_zeros_for(g, mask, dtype);
    return amp_masked_fill(zeros, amp_logical_not(mask), amp_float(-INFINITY));
}

static attention attention_of(amp_gradient *g) {
    const arguments *a = g->args;
    const bool groups = a->enable_gqa && a->query->rank > 2 && extent(a->key, 3) > 0;
    attention t = {
        .g = g, .a = a, .rows = extent(a->query, 2), .keys = extent(a->key, 2), .keeps = amp_grad_is_enabled()};
    t.group = groups ? extent(a->query, 3) / extent(a->key, 3) : 1;
    t.scale = a->scale.set ? a->scale.value : 1.0 / sqrt((double)extent(a->query, 1));
    t.q = amp_wide(a->query);
    t.k = for_all_heads(a->key, t.group);
    t.v = for_all_heads(a->value, t.group);
    t.of = amp_wide(g->of[0]);
    t.mask = t.q ? added_mask(a->attn_mask, t.q->dtype, g) : NULL;
    return t;
}

/* ---- A block of rows ------------------------------------------------------------------------------------------------ */
typedef struct block {
    int64_t begin, rows, keys;      /* causal: the keys that its last row sees */
    amp_tensor *q, *k, *v, *of, *p; /* q scaled */
} block;

static amp_tensor *rows_of(amp_tensor *t, const block *b) {
    return amp_narrow(t, -2, b->begin, b->rows);
}

static amp_tensor *later_keys(const attention *t, const block *b) {
    amp_tensor *rows = amp_arange_start(amp_int(b->begin), amp_int(b->begin + b->rows), .device = (int)t->g->device);
    amp_tensor *keys = amp_arange(amp_int(b->keys), .device = (int)t->g->device);
    return amp_lt(amp_unsqueeze(rows, 1), keys);
}

/* Rows that see nothing have no weights. */
static amp_tensor *weights_of(amp_tensor *scores, bool may_be_blind) {
    if (!may_be_blind) return amp_softmax(scores, -1);
    amp_tensor *highest = amp_amax(scores, .dim = AMP_DIMS(-1), .keepdim = true);
    amp_tensor *blind = amp_eq_scalar(highest, amp_float(-INFINITY));
    amp_tensor *weights = amp_softmax(amp_masked_fill(scores, blind, amp_float(0)), -1);
    return amp_masked_fill(weights, blind, amp_float(0));
}

static amp_tensor *transposed(amp_tensor *t) {
    return amp_transpose(t, -2, -1);
}

static block block_at(const attention *t, int64_t begin, int64_t rows) {
    block b = {.begin = begin, .rows = rows, .keys = t->keys};
    if (t->a->is_causal && begin + rows < t->keys) b.keys = begin + rows;
    b.q = amp_mul_scalar(rows_of(t->q, &b), amp_float(t->scale));
    b.of = rows_of(t->of, &b);
    b.k = amp_narrow(t->k, -2, 0, b.keys);
    b.v = amp_narrow(t->v, -2, 0, b.keys);
    amp_tensor *scores = amp_matmul(b.q, transposed(b.k));
    if (t->mask) scores = amp_add(scores, extent(t->mask, 2) > 1 ? rows_of(t->mask, &b) : t->mask);
    if (t->a->is_causal) scores = amp_masked_fill(scores, later_keys(t, &b), amp_float(-INFINITY));
    b.p = weights_of(scores, t->mask != NULL && t->keys > 0);
    return b;
}

/* ---- Sums over blocks ----------------------------------------------------------------------------------------------- */
/* Adds to the first of the rows of `sum`, which is in the shape of `like` but for what it is broadcast to. */
static amp_tensor *plus(const attention *t, amp_tensor *sum, amp_tensor *part, const amp_tensor *like) {
    if (!part) return NULL;
    if (!sum && part->shape[part->rank - 2] == extent(like, 2)) return part;
    amp_dims shape = amp_shape_of(part);
    shape.values[shape.count - 2] = extent(like, 2);
    if (t->keeps) {
        amp_tensor *grown = amp_slice_backward(part, shape, -2, 0, part->shape[part->rank - 2], 1);
        return sum ? amp_add(sum, grown) : grown;
    }
    if (!sum) sum = amp_zeros(shape, .dtype = part->dtype, .device = (int)t->g->device);
    amp_tensor *first = sum ? amp_narrow(sum, -2, 0, part->shape[part->rank - 2]) : NULL;
    return amp_add_(first, part) ? sum : NULL;
}

static amp_tensor *below(amp_tensor *blocks, amp_tensor *next) {
    return blocks ? amp_cat(AMP_LIST(blocks, next), -2) : next;
}

/* The scores' gradient as the mask has its dimensions, but with the block's rows. */
static amp_tensor *summed_to_mask(amp_tensor *ds, const amp_tensor *mask) {
    amp_dims dims = {.set = AMP_PRESENT};
    for (int d = 1; d <= ds->rank; d++) {
        if (extent(mask, d) == 1 && ds->shape[ds->rank - d] != 1) dims.values[dims.count++] = -d;
    }
    return dims.count > 0 ? amp_sum(ds, .dim = dims, .keepdim = true) : ds;
}

static void add_mask(attention *t, amp_tensor *ds) {
    amp_tensor *part = ds ? summed_to_mask(ds, t->mask) : NULL;
    if (!part) return;
    if (extent(t->mask, 2) > 1)
        t->dmask = below(t->dmask, part);
    else
        t->dmask = t->dmask ? amp_add(t->dmask, part) : part;
}

static void add_block(attention *t, const block *b) {
    const amp_gradient *g = t->g;
    const arguments *a = t->a;
    const bool by_query = amp_gradient_wants(g, &a->query), by_key = amp_gradient_wants(g, &a->key);
    const bool by_mask = a->attn_mask && amp_gradient_wants(g, &a->attn_mask);
    if (amp_gradient_wants(g, &a->value)) t->dv = plus(t, t->dv, amp_matmul(transposed(b->p), b->of), t->v);
    if (!by_query && !by_key && !by_mask) return;
    amp_tensor *ds = amp_softmax_backward(amp_matmul(b->of, transposed(b->v)), b->p, -1);
    if (by_mask) add_mask(t, ds);
    if (by_query) t->dq = below(t->dq, amp_mul_scalar(amp_matmul(ds, b->k), amp_float(t->scale)));
    if (by_key) t->dk = plus(t, t->dk, amp_matmul(transposed(ds), b->q), t->k);
}

/* What has no block has no gradient either: zeros. */
static void give(const attention *t, amp_tensor *const *field, amp_tensor *gradient) {
    if (!*field || !amp_gradient_wants(t->g, field) || amp_failed()) return;
    amp_gradient_give(t->g, field, gradient ? gradient : amp_zeros_like(*field));
}

void amp_gradient_scaled_dot_product_attention(amp_gradient *g) {
    attention t = attention_of(g);
    if (amp_failed()) return;
    const int64_t each =
        t.rows > 0 ? amp_tensor_elements(t.of) / (t.rows * (extent(t.of, 1) ? extent(t.of, 1) : 1)) : 1;
    const int64_t row = each * t.keys > 0 ? each * t.keys : 1;
    const int64_t step = SCORES / row > LEAST_ROWS ? SCORES / row : LEAST_ROWS;
    for (int64_t i = 0; i < t.rows && t.keys > 0 && !amp_failed(); i += step) {
        const block b = block_at(&t, i, t.rows - i < step ? t.rows - i : step);
        if (!amp_failed()) add_block(&t, &b);
    }
    give(&t, &t.a->query, t.dq);
    give(&t, &t.a->key, of_own_heads(t.dk, t.group));
    give(&t, &t.a->value, of_own_heads(t.dv, t.group));
    give(&t, &t.a->attn_mask, t.dmask);
}
