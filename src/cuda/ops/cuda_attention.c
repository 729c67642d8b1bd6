/* scaled_dot_product_attention on the device: a kernel without a matrix of scores, and another where blocks share
 * keys. */
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "amp/ops.h"
#include "cuda/args/flash_args.h"
#include "cuda/cuda_backend.h"
#include "steps/attention_heads.h"

/* ---- One kernel -------------------------------------------------------------------------------------------------- */
typedef struct kernel_row {
    amp_dtype dtype;
    int64_t depth; /* of keys and of values, at most */
    const char *name, *join;
    int threads;
    int columns;    /* of the values, for a block */
    int warp_rows;  /* query rows of a warp; 0: 16 */
    int capability; /* of the GPU, at least; one with a capability takes what suits_flash says */
    bool masked;    /* … with a mask */
    unsigned shared;
} kernel_row;

/* The first that fits. An H100's multiprocessor (90) has shared memory for two blocks with two stages of a depth of
 * 128, an A100's (80) for two with one; those with 100 KB (86, 89, 120) hold one of either. */
#define FLASH(depth, stages, least)                                                                                    \
    .threads = AMP_CUDA_FLASH_THREADS, .columns = (depth), .capability = (least),                                      \
    .warp_rows = AMP_CUDA_FLASH_ROWS * 32 / AMP_CUDA_FLASH_THREADS, .shared = AMP_CUDA_FLASH_BYTES(depth, stages)
static const kernel_row kernels[] = {
    {AMP_F16, 64, "flash_f16_64", "attention_join_f16", FLASH(64, 2, 80)},
    {AMP_F16, 128, "flash_f16_128", "attention_join_f16", FLASH(128, 2, 90)},
    {AMP_F16, 128, "flash_f16_128_lean", "attention_join_f16", FLASH(128, 1, 80)},
    {AMP_BF16, 64, "flash_bf16_64", "attention_join_bf16", FLASH(64, 2, 80)},
    {AMP_BF16, 128, "flash_bf16_128", "attention_join_bf16", FLASH(128, 2, 90)},
    {AMP_BF16, 128, "flash_bf16_128_lean", "attention_join_bf16", FLASH(128, 1, 80)},
    {AMP_F16, 64, "flash_f16_64_masked", "attention_join_f16", FLASH(64, 2, 80), .masked = true},
    {AMP_F16, 64, "attention_f16_64", "attention_join_f16", .threads = 128, .columns = 64},
    {AMP_F16, 128, "attention_f16_128", "attention_join_f16", .threads = 128, .columns = 128},
    {AMP_F16, INT64_MAX, "attention_f16_deep", "attention_join_f16", .threads = 128, .columns = 128},
    {AMP_BF16, 64, "flash_bf16_64_masked", "attention_join_bf16", FLASH(64, 2, 80), .masked = true},
    {AMP_BF16, 64, "attention_bf16_64", "attention_join_bf16", .threads = 128, .columns = 64},
    {AMP_BF16, 128, "attention_bf16_128", "attention_join_bf16", .threads = 128, .columns = 128},
    {AMP_BF16, INT64_MAX, "attention_bf16_deep", "attention_join_bf16", .threads = 128, .columns = 128},
    {AMP_F32, 64, "attention_f32_64", "attention_join_f32", .threads = 128, .columns = 64},
    {AMP_F32, 128, "attention_f32_128", "attention_join_f32", .threads = 64, .columns = 128},
    {AMP_F32, INT64_MAX, "attention_f32_deep", "attention_join_f32", .threads = 64, .columns = 128},
    {AMP_F64, 64, "attention_f64_64", "attention_join_f64", .threads = 64, .columns = 64},
    {AMP_F64, INT64_MAX, "attention_f64_deep", "attention_join_f64", .threads = 64, .columns = 64},
};

/* Fewer blocks than the first share keys, so that there are as many as the last, of at least so many keys. */
enum { FEW_BLOCKS = 128, LEAST_KEYS = 256, MOST_PARTS = 2 * FEW_BLOCKS };

/* Beyond the last element that is read. */
static int64_t reach_of(const amp_cuda_attention *a, const amp_cuda_heads *h, int64_t rows) {
    int64_t reach = rows * h->row + (h == &a->mask ? a->keys * h->column : 0);
    for (int d = 0; d < a->batch_rank; d++) reach += a->batch[d] * h->batch[d];
    return reach;
}

/* Whether a flash_* kernel can copy it: rows of 16-byte units, with 32-bit numbers. */
static bool suits_copies(const amp_cuda_attention *a, const amp_cuda_heads *h, int64_t rows) {
    return h->vectors && reach_of(a, h, rows) / 8 < UINT32_MAX;
}

/* Elements that they know, with 32-bit numbers too. */
static bool suits_mask(const amp_cuda_attention *a) {
    const amp_dtype dtype = a->mask.dtype;
    return (dtype == AMP_BOOL || dtype == AMP_F32 || dtype == a->q.dtype) && reach_of(a, &a->mask, a->rows) < INT32_MAX;
}

/* What the flash_* kernels take: a scale that keeps the order of scores, and numbers that fit int. */
static bool suits_flash(const amp_cuda_attention *a) {
    const int64_t tiles = a->rows / AMP_CUDA_FLASH_ROWS + 1, tail = 2 * AMP_CUDA_FLASH_ROWS;
    return (!a->mask.data || suits_mask(a)) && suits_copies(a, &a->q, a->rows) && suits_copies(a, &a->k, a->keys) &&
           suits_copies(a, &a->v, a->keys) && a->out.vectors && a->depth > 0 && a->factor >= FLT_MIN &&
           a->factor <= FLT_MAX && a->rows < INT32_MAX - tail && a->keys < INT32_MAX - tail &&
           a->heads < INT32_MAX / tiles / MOST_PARTS;
}

static const kernel_row *find_kernel(const amp_cuda_attention *a, amp_dtype dtype) {
    const int capability = amp_cuda_loaded()->capability();
    const bool flash = suits_flash(a);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const kernel_row *row = &kernels[i];
        if (row->dtype != dtype || a->depth > row->depth || a->width > row->depth) continue;
        if (row->capability == 0) return row;
        if (flash && capability >= row->capability && row->masked == (a->mask.data != NULL)) return row;
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
    for (int d = 0; d < x->rank; d++) { /* own is -1 for a mask of keys alone */
        const int64_t step = x->shape[d] == 1 ? 0 : x->strides[d];
        if (d < own) h->batch[missing + d] = step;
        if (d == own) h->row = step;
        if (d == own + 1) h->column = step;
    }
    if (x->shape[x->rank - 1] == 1 && x != t->mask) h->column = 1;
    h->vectors = reads_vectors(h, t->batch_rank, x->shape[x->rank - 1], (int64_t)amp_dtype_size(x->dtype));
    return h->data ? AMP_OK : amp_pending_error();
}

/* Where there are few query rows, several blocks share the keys of each, as the shape and the kernel say: parts of at
 * least 256 keys. */
static void share_keys(amp_cuda_attention *a, int64_t blocks) {
    enum { TILE = AMP_CUDA_FLASH_KEYS }; /* a multiple of every kernel's */
    const int64_t wanted = MOST_PARTS / blocks, most = a->keys / LEAST_KEYS, parts = wanted < most ? wanted : most;
    a->parts = 1;
    a->part_keys = a->keys;
    if (blocks > FEW_BLOCKS || parts < 2) return;
    a->part_keys = (a->keys + parts - 1) / parts;
    a->part_keys = (a->part_keys + TILE - 1) / TILE * TILE;
    a->parts = (a->keys + a->part_keys - 1) / a->part_keys;
}

static void *room_for(const amp_call *call, amp_dtype dtype, int64_t elements) {
    const amp_tensor *room = amp_cuda_temporary(call, dtype, 1, &elements);
    return room ? amp_cuda_address(call->op->name, room) : NULL;
}

static amp_status launch(const amp_call *call, const kernel_row *kernel, amp_cuda_attention *a) {
    const int64_t rows = kernel->threads / 32 * (kernel->warp_rows ? kernel->warp_rows : 16);
    int64_t blocks = a->heads * ((a->width + kernel->columns - 1) / kernel->columns) * ((a->rows + rows - 1) / rows);
    const amp_dtype wide = kernel->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
    share_keys(a, blocks);
    blocks *= a->parts;
    if (a->parts > 1) {
        const int64_t all = a->parts * a->heads * a->rows;
        a->sums = room_for(call, wide, all * a->width);
        a->highs = a->sums ? room_for(call, wide, all) : NULL;
        a->totals = a->highs ? room_for(call, wide, all) : NULL;
        if (!a->totals) return amp_pending_error();
    }
    const amp_cuda_launch first = {.kernel = kernel->name,
                                   .arguments = a,
                                   .blocks = blocks < INT32_MAX ? (unsigned)blocks : INT32_MAX,
                                   .threads = (unsigned)kernel->threads,
                                   .shared = kernel->shared};
    AMP_TRY(amp_cuda_status(call->op->name, amp_cuda_loaded()->launch(&first)));
    if (a->parts == 1) return AMP_OK;
    return amp_cuda_launch_over(call->op->name, kernel->join, a, amp_cuda_blocks(a->heads * a->rows * a->width));
}

static amp_status attend(amp_call *call, const amp_attention *t) {
    amp_cuda_attention a = {.batch_rank = t->batch_rank,
                            .heads = amp_attention_heads(t),
                            .group = t->group,
                            .rows = t->rows,
                            .keys = t->keys,
                            .depth = (int)t->depth,
                            .width = (int)t->width,
                            .scale = t->scale,
                            .factor = (float)(t->scale * 1.4426950408889634),
                            .causal = t->causal};
    memcpy(a.batch, t->batch, sizeof a.batch);
    AMP_TRY(set_heads(call, t, t->q, &a.q));
    AMP_TRY(set_heads(call, t, t->k, &a.k));
    AMP_TRY(set_heads(call, t, t->v, &a.v));
    AMP_TRY(set_heads(call, t, t->out, &a.out));
    if (t->mask) AMP_TRY(set_heads(call, t, t->mask, &a.mask));
    const kernel_row *kernel = find_kernel(&a, t->q->dtype);
    call->note.kernel = kernel->name;
    return launch(call, kernel, &a);
}

amp_status cuda_scaled_dot_product_attention(amp_call *call) {
    const amp_scaled_dot_product_attention_args *a = call->args;
    amp_attention t;
    AMP_TRY(amp_attention_read(call, &t));
    if (!amp_dtype_is_floating(a->query->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'query' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(a->query));
    }
    t.q = a->query;
    t.k = a->key;
    t.v = a->value;
    t.mask = a->attn_mask;
    t.out = amp_attention_output(call, &t, a->query->dtype);
    if (!t.out) return amp_pending_error();
    return amp_tensor_elements(t.out) == 0 ? AMP_OK : attend(call, &t);
}
