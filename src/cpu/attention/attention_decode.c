/* Attention of few query rows: decoding. Keys and values are read once, where they lie; what limits it is memory. Heads
 * that share their keys are rows of one problem. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/attention/attention_problem.h"
#include "cpu/convert/element.h"
#include "cpu/registry/kernels.h"

enum {
    /* Above them packed keys pay (bench_attention): in f32, or where a head's keys and values are larger than a cache
     * … */
    MOST_ROWS = 8,
    MOST_ROWS_CACHED = 3, /* … and in bf16 where they are not */
    CACHED_BYTES = 1 << 20,
    PART_KEYS = 1024 /* keys of one piece of work */
};

typedef struct parts {
    const amp_attention *t;
    amp_attention_part_function *run;
    int64_t heads, folded; /* problems, and query heads in each */
    int64_t rows, keys, count;
    amp_attention_state *states; /* [heads][count][rows] */
    float *sums;                 /* [heads][count][rows][width] */
} parts;

static bool folds(const amp_attention *t) {
    return t->rows == 1 && t->group > 1 && !t->causal;
}

bool amp_attention_is_short(const amp_attention *t, bool packs_bf16) {
    if (t->keys == 0 || t->width == 0) return false;
    const bool cached = t->keys <= CACHED_BYTES / 2 / (t->depth + t->width);
    return t->rows <= (packs_bf16 && cached ? MOST_ROWS_CACHED : MOST_ROWS);
}

/* The rows of the heads that share keys, where there is one each. */
static amp_attention_head head_of(const parts *p, int64_t index) {
    const amp_attention *t = p->t;
    amp_attention_head h = amp_attention_head_at(t, index * p->folded, 0, t->rows);
    if (p->folded == 1) return h;
    const amp_tensor *m = t->mask;
    h.rows = p->folded;
    h.q_step = t->q->strides[t->q->rank - 3];
    h.out_step = t->out->strides[t->out->rank - 3];
    h.mask_row_step = m && m->rank >= 3 && m->shape[m->rank - 3] > 1 ? m->strides[m->rank - 3] : 0;
    return h;
}

static void run_part(const parts *p, int64_t item) {
    const amp_attention_head h = head_of(p, item / p->count);
    const int64_t first = item % p->count * PART_KEYS, left = p->keys - first;
    p->run(&h, first, left < PART_KEYS ? left : PART_KEYS, p->states + item * p->rows,
           p->sums + item * p->rows * p->t->width);
}

/* One row: the parts' sums as if their maxima had been one, into the first part's; returns what they are divided by. */
static float merge_row(const parts *p, int64_t head, int64_t row) {
    const int64_t first = head * p->count * p->rows + row, width = p->t->width;
    amp_attention_state all = p->states[first];
    float *sums = p->sums + first * width;
    for (int64_t i = 1; i < p->count; i++) {
        const int64_t at = first + i * p->rows;
        const amp_attention_state part = p->states[at];
        const float top = part.max > all.max ? part.max : all.max;
        /* nothing visible in either: sums of zeros, or of a NaN that must stay */
        const float old = top == -INFINITY ? 1.0f : expf(all.max - top);
        const float new = top == -INFINITY ? 1.0f : expf(part.max - top);
        const float *more = p->sums + at * width;
        for (int64_t c = 0; c < width; c++) sums[c] = old * sums[c] + new *more[c];
        all = (amp_attention_state){top, old * all.sum + new *part.sum};
    }
    return all.sum;
}

static void finish_head(const parts *p, int64_t head) {
    const amp_attention_head h = head_of(p, head);
    const int64_t size = (int64_t)amp_dtype_size(p->t->out->dtype);
    for (int64_t row = 0; row < p->rows; row++) {
        const float sum = merge_row(p, head, row), factor = sum == 0.0f ? 0.0f : 1.0f / sum;
        float *sums = p->sums + (head * p->count * p->rows + row) * p->t->width;
        for (int64_t c = 0; c < p->t->width; c++) sums[c] *= factor;
        amp_block_store(AMP_F32, sums, p->t->out->dtype, (char *)h.out + row * h.out_step * size, size, p->t->width);
    }
}

static void run_all(const parts *p) {
    const int64_t work = p->heads * p->count, width = p->t->width;
    int threads = amp_parallel_threads(work * p->rows * PART_KEYS * (p->t->depth + width), AMP_GRAIN_MACS);
    if (threads > work) threads = (int)work;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int thread = omp_get_thread_num(), team = omp_get_num_threads();
        const amp_range mine = amp_parallel_part(work, 1, thread, team);
        for (int64_t i = mine.begin; i < mine.end; i++) run_part(p, i);
#pragma omp barrier
        const amp_range heads = amp_parallel_part(p->heads, 1, thread, team);
        for (int64_t i = heads.begin; i < heads.end; i++) finish_head(p, i);
    }
}

amp_status amp_attention_run_parts(amp_call *call, const amp_attention *t) {
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_ATTENTION_PART, t->q->dtype, AMP_F32);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    parts p = {.t = t, .run = (amp_attention_part_function *)kernel->function, .folded = folds(t) ? t->group : 1};
    p.heads = amp_attention_heads(t) / p.folded;
    p.rows = p.folded > 1 ? p.folded : t->rows;
    p.keys = t->causal && t->keys > t->rows ? t->rows : t->keys; /* row i sees the first i + 1 */
    p.count = (p.keys + PART_KEYS - 1) / PART_KEYS;
    const size_t rows = (size_t)(p.heads * p.count * p.rows);
    p.sums = amp_alloc(rows * ((size_t)t->width * sizeof *p.sums + sizeof *p.states));
    if (!p.sums) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the sums of %zu parts of rows", amp_call_name(call), rows);
    }
    p.states = (amp_attention_state *)(void *)(p.sums + rows * (size_t)t->width);
    amp_block_prepare();
    run_all(&p);
    amp_free(p.sums);
    return AMP_OK;
}
