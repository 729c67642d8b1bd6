/* scaled_dot_product_attention on the device: one kernel without a matrix of scores, or, for heads too deep for it, products
 * and a softmax. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/attention_problem.h"
#include "cuda/cuda_backend.h"

/* ---- One kernel --------------------------------------------------------------------------------------------------- */
typedef struct kernel_row {
    amp_dtype dtype;
    int64_t depth; /* of keys and of values, at most */
    const char *name;
    int threads;
} kernel_row;

static const kernel_row kernels[] = {
    {AMP_F16, 64, "attention_f16_64", 128},   {AMP_F16, 128, "attention_f16_128", 128},
    {AMP_BF16, 64, "attention_bf16_64", 128}, {AMP_BF16, 128, "attention_bf16_128", 128},
    {AMP_F32, 64, "attention_f32_64", 128},   {AMP_F32, 128, "attention_f32_128", 64},
    {AMP_F64, 64, "attention_f64_64", 64},
};

static const kernel_row *find_kernel(const amp_attention *t, amp_dtype dtype) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const kernel_row *row = &kernels[i];
        if (row->dtype == dtype && t->depth <= row->depth && t->width <= row->depth) return row;
    }
    return NULL;
}

/* Whether 16 bytes at a time begin at multiples of 16 in every row. */
static bool reads_vectors(const amp_cuda_heads *h, int rank, int64_t columns, int64_t size) {
    bool even = h->column == 1 && (uintptr_t)h->data % 16 == 0 && columns * size % 16 == 0 && h->row * size % 16 == 0;
    for (int d = 0; d < rank; d++) even = even && h->batch[d] * size % 16 == 0;
    return even;
}

static amp_status set_heads(const amp_call *call, const amp_attention *t, const amp_tensor *x, amp_cuda_heads *h) {
    const int own = x->rank - 2, missing = t->batch_rank - own;
    *h = (amp_cuda_heads){.data = amp_cuda_address(call->op->name, x), .dtype = x->dtype};
    for (int d = own < 0 ? -own : 0; d < x->rank; d++) {
        const int64_t step = x->shape[d] == 1 ? 0 : x->strides[d];
        if (d < own) h->batch[missing + d] = step;
        if (d == own) h->row = step;
        if (d == own + 1) h->column = step;
    }
    if (x->shape[x->rank - 1] == 1 && x != t->mask) h->column = 1;
    h->vectors = reads_vectors(h, t->batch_rank, x->shape[x->rank - 1], (int64_t)amp_dtype_size(x->dtype));
    return h->data ? AMP_OK : amp_pending_error();
}

static amp_status attend(amp_call *call, const amp_attention *t, const kernel_row *kernel) {
    amp_cuda_attention a = {.batch_rank = t->batch_rank,
                            .heads = amp_attention_heads(t),
                            .group = t->group,
                            .rows = t->rows,
                            .keys = t->keys,
                            .depth = (int)t->depth,
                            .width = (int)t->width,
                            .scale = t->scale,
                            .causal = t->causal};
    memcpy(a.batch, t->batch, sizeof a.batch);
    if (amp_tensor_elements(t->out) == 0) return AMP_OK;
    AMP_TRY(set_heads(call, t, t->q, &a.q));
    AMP_TRY(set_heads(call, t, t->k, &a.k));
    AMP_TRY(set_heads(call, t, t->v, &a.v));
    AMP_TRY(set_heads(call, t, t->out, &a.out));
    if (t->mask) AMP_TRY(set_heads(call, t, t->mask, &a.mask));
    const int64_t rows = kernel->threads / 32 * 16, blocks = a.heads * ((t->rows + rows - 1) / rows);
    const amp_cuda_launch launch = {.kernel = kernel->name,
                                    .arguments = &a,
                                    .blocks = blocks < INT32_MAX ? (unsigned)blocks : INT32_MAX,
                                    .threads = (unsigned)kernel->threads};
    return amp_cuda_status(call->op->name, amp_cuda_loaded()->launch(&launch));
}

/* ---- By products -------------------------------------------------------------------------------------------------- */
/* f32 for 16-bit floats, so that what is between is rounded once, at the end. */
static amp_tensor *widened(amp_tensor *t) {
    return t->dtype == AMP_F16 || t->dtype == AMP_BF16 ? amp_to(t, AMP_F32) : t;
}

/* With enable_gqa, several heads of the query share one of key and value, which is repeated for them. */
static amp_tensor *shared_heads(const amp_call *call, amp_tensor *t, const amp_tensor *query) {
    const int rank = t->rank;
    if (rank < 3 || query->rank < 3 || t->shape[rank - 3] == query->shape[query->rank - 3]) return t;
    const int64_t heads = t->shape[rank - 3], all = query->shape[query->rank - 3];
    if (heads == 0 || all % heads != 0 || rank == AMP_MAX_RANK) {
        amp_fail(AMP_ERROR_INVALID, "%s: query is %s, a key or value %s; expected heads of query a multiple of its",
                 amp_call_name(call), amp_describe(query), amp_describe(t));
        return NULL;
    }
    amp_dims wide = {.set = AMP_PRESENT, .count = rank + 1}, whole = {.set = AMP_PRESENT, .count = rank};
    memcpy(whole.values, t->shape, (size_t)rank * sizeof *t->shape);
    memcpy(wide.values, t->shape, (size_t)(rank - 2) * sizeof *t->shape);
    memcpy(&wide.values[rank - 1], &t->shape[rank - 2], 2 * sizeof *t->shape);
    wide.values[rank - 2] = all / heads;
    whole.values[rank - 3] = all;
    t = amp_expand(amp_unsqueeze(t, -3), wide);
    return t ? amp_reshape(t, whole) : NULL;
}

static amp_tensor *masked(amp_tensor *scores, amp_tensor *mask) {
    if (!mask || !scores) return scores;
    if (mask->dtype != AMP_BOOL) return amp_add(scores, mask);
    return amp_where_scalar_other(mask, scores, amp_float(-INFINITY));
}

/* All scores in memory, in f32. A row without any key attends to nothing. */
static amp_tensor *by_products(const amp_call *call, const amp_attention *t) {
    const amp_scaled_dot_product_attention_args *a = call->args;
    amp_tensor *query = widened(a->query), *key = query ? widened(a->key) : NULL, *mask = a->attn_mask;
    amp_tensor *value = key ? widened(a->value) : NULL;
    if (value && a->enable_gqa) {
        key = shared_heads(call, key, query);
        value = key ? shared_heads(call, value, query) : NULL;
    }
    amp_tensor *turned = value ? amp_transpose(key, -2, -1) : NULL;
    amp_tensor *scores = turned ? amp_matmul(query, turned) : NULL;
    scores = scores ? amp_mul_scalar(scores, amp_float(t->scale)) : NULL;
    if (a->is_causal && scores) mask = amp_tril(amp_full_like(scores, amp_bool(true), .dtype = AMP_BOOL));
    scores = masked(scores, mask);
    amp_tensor *weights = scores ? amp_softmax(scores, -1) : NULL;
    if (weights && mask) weights = amp_nan_to_num(weights);
    amp_tensor *result = weights ? amp_matmul(weights, value) : NULL;
    return result && result->dtype != a->query->dtype ? amp_to(result, a->query->dtype) : result;
}

amp_status cuda_scaled_dot_product_attention(amp_call *call) {
    const amp_scaled_dot_product_attention_args *a = call->args;
    amp_attention t;
    AMP_TRY(amp_attention_read(call, &t));
    const kernel_row *kernel = find_kernel(&t, a->query->dtype);
    if (!kernel) {
        call->outputs[0] = by_products(call, &t);
        return call->outputs[0] ? AMP_OK : amp_pending_error();
    }
    t.q = a->query;
    t.k = a->key;
    t.v = a->value;
    t.mask = a->attn_mask;
    t.out = amp_attention_output(call, &t, a->query->dtype);
    call->note.kernel = kernel->name;
    return t.out ? attend(call, &t, kernel) : amp_pending_error();
}
