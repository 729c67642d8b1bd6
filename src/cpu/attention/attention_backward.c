/* The gradients of scaled_dot_product_attention on the CPU: a key head and the query heads that share it are one
 * thread's, so that sums over rows have one order. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/attention/attention_problem.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"

enum { BLOCK_ROWS = AMP_ATTENTION_BACKWARD_ROWS, SLACK = 8 /* rows that kernels write behind the last key */ };

size_t amp_attention_backward_bytes(int64_t keys, int64_t depth, int64_t width) {
    const size_t d = (size_t)amp_attention_padded(depth), e = (size_t)amp_attention_padded(width);
    const size_t s = (size_t)(keys + 191) / 192 * 192, strip = s < AMP_ATTENTION_STRIP ? s : AMP_ATTENTION_STRIP;
    const size_t packed = s * (2 * d + e + 8), block = (size_t)BLOCK_ROWS * (5 * d + 3 * e + 2 * strip + 512);
    return sizeof(float) * (packed + block) + 4096;
}

typedef struct work {
    const amp_attention *t; /* `out` is the gradient of the result */
    const amp_attention_slope *s;
    amp_attention_backward_function *run;
    amp_convert_function *convert[2]; /* sums to f16, to bf16 */
    int64_t depth_step, width_step;   /* of rows of sums */
    size_t room;
} work;

/* What a thread sums in, and the kernel's room. */
typedef struct sums {
    float *q, *k, *v;
    void *room;
} sums;

static size_t rows_bytes(int64_t rows, int64_t step) {
    return (size_t)rows * (size_t)step * sizeof(float);
}

static size_t sums_bytes(const work *w) {
    const int64_t keys = w->t->keys + SLACK;
    return (w->room + rows_bytes(BLOCK_ROWS, w->depth_step) + rows_bytes(keys, w->depth_step + w->width_step) + 63) /
           64 * 64;
}

static sums sums_at(const work *w, char *memory) {
    sums s = {.q = (float *)(void *)(memory + w->room), .room = memory};
    s.k = s.q + BLOCK_ROWS * w->depth_step;
    s.v = s.k + (w->t->keys + SLACK) * w->depth_step;
    return s;
}

/* Rows of sums as rows of the matrix of head `index`. */
static void store_rows(const work *w, amp_tensor *to, int64_t index, int64_t group, int64_t row, int64_t rows,
                       const float *from, int64_t step) {
    const int64_t size = (int64_t)amp_dtype_size(to->dtype), columns = to->shape[to->rank - 1];
    const int64_t to_step = to->strides[to->rank - 2] * size;
    char *out = (char *)(uintptr_t)amp_attention_matrix(w->t, to, index, group) + row * to_step;
    amp_convert_function *convert = to->dtype == AMP_F32 ? NULL : w->convert[to->dtype == AMP_BF16];
    for (int64_t i = 0; i < rows; i++, from += step, out += to_step) {
        if (convert)
            convert(out, from, (size_t)columns);
        else
            memcpy(out, from, (size_t)columns * sizeof *from);
    }
}

static void add_query_head(const work *w, const sums *s, int64_t index, bool reuse) {
    const amp_attention *t = w->t;
    const amp_attention_gradients to = {s->q, s->k, s->v, w->depth_step, w->width_step};
    for (int64_t row = 0; row < t->rows; row += BLOCK_ROWS) {
        const int64_t rows = t->rows - row < BLOCK_ROWS ? t->rows - row : BLOCK_ROWS;
        const amp_attention_head h = amp_attention_head_at(t, index, row, rows);
        w->run(&h, &to, s->room, reuse || row > 0);
        store_rows(w, w->s->q, index, 1, row, rows, s->q, w->depth_step);
    }
}

static void run_key_head(const work *w, const sums *s, int64_t index) {
    const amp_attention *t = w->t;
    memset(s->k, 0, rows_bytes(t->keys + SLACK, w->depth_step + w->width_step));
    for (int64_t i = 0; i < t->group; i++) add_query_head(w, s, index * t->group + i, i > 0);
    store_rows(w, w->s->k, index * t->group, t->group, 0, t->keys, s->k, w->depth_step);
    store_rows(w, w->s->v, index * t->group, t->group, 0, t->keys, s->v, w->width_step);
}

static amp_status run_heads(const amp_call *call, const work *w) {
    const amp_attention *t = w->t;
    const int64_t heads = amp_attention_heads(t), units = heads / t->group;
    const double macs = 2.5 * (double)heads * (double)t->rows * (double)t->keys * (double)(t->depth + t->width);
    int threads = amp_parallel_threads(macs < 0x1p62 ? (int64_t)macs : INT64_MAX, AMP_GRAIN_MACS);
    if (threads > units) threads = units > 0 ? (int)units : 1;
    const size_t bytes = sums_bytes(w);
    char *memory = amp_alloc(bytes * (size_t)threads);
    if (!memory) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %zu bytes of keys, values and their gradients",
                        amp_call_name(call), bytes * (size_t)threads);
    }
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(units, 1, omp_get_thread_num(), omp_get_num_threads());
        const sums s = sums_at(w, memory + bytes * (size_t)omp_get_thread_num());
        for (int64_t i = part.begin; i < part.end; i++) run_key_head(w, &s, i);
    }
    amp_free(memory);
    return AMP_OK;
}

/* As the forward chooses: f32 kernels on converted inputs are faster than the bf16 reference. */
static const amp_kernel *choose(amp_dtype dtype) {
    const amp_kernel *kernel =
        dtype == AMP_BF16 ? amp_kernel_select(AMP_KERNEL_ATTENTION_BACKWARD, AMP_BF16, AMP_F32) : NULL;
    if (kernel && kernel->isa != AMP_ISA_REF) return kernel;
    return amp_kernel_select(AMP_KERNEL_ATTENTION_BACKWARD, AMP_F32, AMP_F32);
}

static amp_status check_scratch(const amp_call *call, const amp_attention *t) {
    if (((double)t->keys + 256.0) * ((double)t->depth + (double)t->width + 64.0) < 0x1p50) return AMP_OK;
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for packed keys [%lld, %lld] and values [%lld, %lld]",
                    amp_call_name(call), (long long)t->keys, (long long)t->depth, (long long)t->keys,
                    (long long)t->width);
}

amp_status amp_cpu_attention_slope(amp_call *call, const amp_attention_slope *s) {
    amp_attention t = s->heads;
    AMP_TRY(check_scratch(call, &t));
    const amp_kernel *kernel = choose(t.q->dtype);
    if (!kernel) return amp_pending_error();
    call->note.kernel = kernel->name;
    AMP_TRY(amp_attention_input(call, s->heads.q, kernel->in, &t.q));
    AMP_TRY(amp_attention_input(call, s->heads.k, kernel->in, &t.k));
    AMP_TRY(amp_attention_input(call, s->heads.v, kernel->in, &t.v));
    AMP_TRY(amp_attention_input(call, s->heads.out, kernel->in, &t.out));
    AMP_TRY(amp_attention_mask(call, s->heads.mask, AMP_F32, &t.mask));
    work w = {.t = &t,
              .s = s,
              .run = (amp_attention_backward_function *)kernel->function,
              .depth_step = amp_attention_padded(t.depth),
              .width_step = amp_attention_padded(t.width),
              .room = (amp_attention_backward_bytes(t.keys, t.depth, t.width) + 63) / 64 * 64};
    w.convert[0] = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, AMP_F32, AMP_F16);
    w.convert[1] = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, AMP_F32, AMP_BF16);
    return w.convert[0] && w.convert[1] ? run_heads(call, &w) : amp_pending_error();
}
