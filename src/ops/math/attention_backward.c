/* scaled_dot_product_attention_backward: with S = Q Kᵀ·scale + mask, P = softmax(S), O = P V
 *
 *     dV = Pᵀ dO,  dP = dO Vᵀ,  dS = P (dP − the row sums of P dP),  dQ = dS K·scale,  dK = dSᵀ Q·scale,  dmask = dS
 *
 * (Dao et al., "FlashAttention", 2022, appendix B). A device's step makes dQ, dK and dV; where there is none, in f64,
 * for a mask's gradient and where the parts are recorded they are made of ops, for a block of query rows after the
 * other: P is made again of each, and no more of it is kept at a time. */
#include <math.h>

#include "ops/math/compose.h"
#include "steps/attention_heads.h"
#include "steps/steps.h"

typedef amp_scaled_dot_product_attention_backward_args arguments;

static int64_t extent(const amp_tensor *t, int from_the_end) {
    return t->rank < from_the_end ? 1 : t->shape[t->rank - from_the_end];
}

/* ---- The step ------------------------------------------------------------------------------------------------------ */
/* The batch as an operand has it: of keys and values a head for each `group` of the query's. */
static amp_dims batch_for(const amp_attention *t, int64_t group, const amp_tensor *like) {
    amp_dims shape = amp_dims_of(t->batch_rank, t->batch);
    if (group > 1) shape.values[t->batch_rank - 1] /= group;
    shape.values[shape.count++] = extent(like, 2);
    shape.values[shape.count++] = extent(like, 1);
    return shape;
}

static bool is_of_shape(const amp_tensor *t, const amp_dims *shape) {
    return t->rank == shape->count && !memcmp(t->shape, shape->values, (size_t)t->rank * sizeof *t->shape);
}

/* What an operand's gradient is written to, and the operand as the step reads it. One that broadcasts gets the
 * gradients of what it broadcasts to, in f32, which are to be summed. */
static amp_tensor *start_result(amp_call *call, int index, const amp_attention *t, int64_t group,
                                amp_tensor **operand) {
    amp_tensor *x = *operand;
    const amp_dims shape = batch_for(t, group, x);
    if (!is_of_shape(x, &shape)) {
        *operand = amp_expand(x, shape);
        return amp_empty(shape, .dtype = AMP_F32, .device = (int)call->device);
    }
    const int64_t heads = t->batch_rank > 0 ? shape.values[t->batch_rank - 1] : 1;
    return amp_attention_result(call, index, t, heads, extent(x, 2), extent(x, 1), x->dtype);
}

/* Summed to the operand's own shape. */
static amp_status finish_result(amp_call *call, int index, amp_tensor *gradient, const amp_tensor *operand) {
    if (call->outputs[index]) return AMP_OK;
    const int more = gradient->rank - operand->rank;
    amp_dims over = {.set = AMP_PRESENT};
    for (int d = 0; d < gradient->rank; d++) {
        if (d < more || (operand->shape[d - more] == 1 && gradient->shape[d] != 1)) over.values[over.count++] = d;
    }
    amp_tensor *sum = over.count > 0 ? amp_sum(gradient, .dim = over, .keepdim = true) : gradient;
    sum = amp_reshape(sum, amp_shape_of(operand));
    call->outputs[index] = sum ? amp_to(sum, operand->dtype) : NULL;
    return call->outputs[index] ? AMP_OK : amp_pending_error();
}

static amp_status by_step(amp_call *call, const arguments *a, amp_attention *t) {
    amp_attention_slope s = {.heads = *t};
    s.heads.q = a->query;
    s.heads.k = a->key;
    s.heads.v = a->value;
    s.heads.mask = a->attn_mask;
    s.heads.out = a->grad_output;
    s.q = start_result(call, 0, t, 1, &s.heads.q);
    s.k = start_result(call, 1, t, t->group, &s.heads.k);
    s.v = start_result(call, 2, t, t->group, &s.heads.v);
    if (!s.q || !s.k || !s.v) return amp_pending_error();
    AMP_TRY(amp_steps_of(call)->attention_slope(call, &s));
    AMP_TRY(finish_result(call, 0, s.q, a->query));
    AMP_TRY(finish_result(call, 1, s.k, a->key));
    return finish_result(call, 2, s.v, a->value);
}

/* ---- Made of ops --------------------------------------------------------------------------------------------------- */
enum { SCORES = 1 << 22, LEAST_ROWS = 16 }; /* scores, and rows, of a block */

typedef struct attention {
    const arguments *a;
    int device;
    amp_tensor *q, *k, *v, *mask, *of; /* in the type that computes; k and v a head for each of q's */
    double scale;
    int64_t rows, keys, group;
    bool keeps; /* what is summed up must not be written over: it is recorded */
    amp_tensor *dq, *dk, *dv, *dmask;
} attention;

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
static amp_tensor *added_mask(amp_tensor *mask, amp_dtype dtype, int device) {
    if (!mask || mask->dtype != AMP_BOOL) return amp_wide(mask);
    amp_tensor *zeros = amp_zeros(amp_shape_of(mask), .dtype = dtype, .device = device);
    return amp_masked_fill(zeros, amp_logical_not(mask), amp_float(-INFINITY));
}

static attention attention_of(const amp_call *call, const arguments *a, const amp_attention *read) {
    attention t = {.a = a,
                   .device = (int)call->device,
                   .scale = read->scale,
                   .rows = read->rows,
                   .keys = read->keys,
                   .group = read->group,
                   .keeps = call->inner_layers != 0};
    t.q = amp_wide(amp_expand(a->query, batch_for(read, 1, a->query)));
    t.k = for_all_heads(a->key, t.group);
    t.v = for_all_heads(a->value, t.group);
    t.of = amp_wide(a->grad_output);
    t.mask = t.q ? added_mask(a->attn_mask, t.q->dtype, t.device) : NULL;
    return t;
}

/* ---- A block of rows ---- */
typedef struct block {
    int64_t begin, rows, keys;      /* causal: the keys that its last row sees */
    amp_tensor *q, *k, *v, *of, *p; /* q scaled */
} block;

static amp_tensor *rows_of(amp_tensor *t, const block *b) {
    return amp_narrow(t, -2, b->begin, b->rows);
}

static amp_tensor *later_keys(const attention *t, const block *b) {
    amp_tensor *rows = amp_arange_start(amp_int(b->begin), amp_int(b->begin + b->rows), .device = t->device);
    amp_tensor *keys = amp_arange(amp_int(b->keys), .device = t->device);
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

/* ---- Sums over blocks ---- */
/* Adds to the first of the rows of `sum`, which has one for each key. */
static amp_tensor *plus(const attention *t, amp_tensor *sum, amp_tensor *part) {
    if (!part) return NULL;
    if (!sum && part->shape[part->rank - 2] == t->keys) return part;
    amp_dims shape = amp_shape_of(part);
    shape.values[shape.count - 2] = t->keys;
    if (t->keeps) {
        amp_tensor *grown = amp_slice_backward(part, shape, -2, 0, part->shape[part->rank - 2], 1);
        return sum ? amp_add(sum, grown) : grown;
    }
    if (!sum) sum = amp_zeros(shape, .dtype = part->dtype, .device = t->device);
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
    t->dv = plus(t, t->dv, amp_matmul(transposed(b->p), b->of));
    amp_tensor *ds = amp_softmax_backward(amp_matmul(b->of, transposed(b->v)), b->p, -1);
    if (t->a->with_mask && t->mask) add_mask(t, ds);
    t->dq = below(t->dq, amp_mul_scalar(amp_matmul(ds, b->k), amp_float(t->scale)));
    t->dk = plus(t, t->dk, amp_matmul(transposed(ds), b->q));
}

/* Summed to the argument's shape. What has no block has no gradient either: zeros. */
static amp_status give(amp_call *call, int index, amp_tensor *gradient, amp_tensor *like) {
    if (amp_failed()) return amp_pending_error();
    if (!gradient) gradient = amp_zeros_like(like);
    return gradient ? finish_result(call, index, gradient, like) : amp_pending_error();
}

static amp_status by_parts(amp_call *call, const arguments *a, const amp_attention *read) {
    attention t = attention_of(call, a, read);
    if (amp_failed()) return amp_pending_error();
    const int64_t each = amp_attention_heads(read), row = each * t.keys > 0 ? each * t.keys : 1;
    const int64_t step = SCORES / row > LEAST_ROWS ? SCORES / row : LEAST_ROWS;
    for (int64_t i = 0; i < t.rows && t.keys > 0 && !amp_failed(); i += step) {
        const block b = block_at(&t, i, t.rows - i < step ? t.rows - i : step);
        if (!amp_failed()) add_block(&t, &b);
    }
    AMP_TRY(give(call, 0, t.dq, a->query));
    AMP_TRY(give(call, 1, of_own_heads(t.dk, t.group), a->key));
    AMP_TRY(give(call, 2, of_own_heads(t.dv, t.group), a->value));
    return a->with_mask ? give(call, 3, t.dmask, a->attn_mask) : AMP_OK;
}

/* ---- The op -------------------------------------------------------------------------------------------------------- */
/* The arguments as the forward has them, which checks them. */
static amp_status read_arguments(const amp_call *call, const arguments *a, amp_attention *t) {
    const amp_scaled_dot_product_attention_args forward = {.struct_size = sizeof forward,
                                                           .query = a->query,
                                                           .key = a->key,
                                                           .value = a->value,
                                                           .attn_mask = a->attn_mask,
                                                           .is_causal = a->is_causal,
                                                           .scale = a->scale,
                                                           .enable_gqa = a->enable_gqa};
    amp_call read = *call;
    read.args = &forward;
    AMP_TRY(amp_attention_read(&read, t));
    amp_dims shape = batch_for(t, 1, a->query);
    shape.values[shape.count - 1] = t->width;
    return amp_call_check_gradient(call, a->grad_output, shape.count, shape.values);
}

static amp_status check_mask(const amp_call *call, const arguments *a) {
    if (!a->with_mask || (a->attn_mask && a->attn_mask->dtype != AMP_BOOL)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'with_mask' is true, and 'attn_mask' is %s; expected a floating one",
                    amp_call_name(call), a->attn_mask ? amp_describe(a->attn_mask) : "absent");
}

amp_status amp_op_scaled_dot_product_attention_backward(amp_call *call) {
    const arguments *a = call->args;
    amp_attention t;
    AMP_TRY(read_arguments(call, a, &t));
    AMP_TRY(check_mask(call, a));
    if (!a->with_mask) {
        const int64_t none = 0;
        if (!amp_call_output(call, 3, a->query->dtype, 1, &none)) return amp_pending_error();
    }
    const bool has_step = amp_steps_of(call)->attention_slope && a->query->dtype != AMP_F64 &&
                          a->grad_output->dtype != AMP_F64 && !a->with_mask && call->inner_layers == 0;
    return has_step ? by_step(call, a, &t) : by_parts(call, a, &t);
}
