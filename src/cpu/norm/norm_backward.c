/* The gradients of layer_norm and rms_norm, row by row, in bf16 where both are, else in f32, to which 16-bit rows are
 * widened in buffers of a thread. What rows give to weight and bias is summed in f32 over chunks of rows that follow
 * from the shape alone, then over chunks in f64. */
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"

enum { CHUNKS = 32, LEAST_ROWS = 16, MOST_ROWS = 256, ROW_COST = 8 };

typedef struct rows {
    const amp_tensor *x, *d; /* dense */
    amp_tensor *out;
    const float *weight; /* dense; NULL: ones */
    double eps;
    int64_t count, length, chunk; /* chunk: rows of one */
    amp_norm_row_slope_function *slope;
    bool is_centred;
    amp_dtype compute;
    bool wanted[2]; /* whether the sums for weight and bias are */
    float *sums;    /* [chunks][2][length] */
} rows;

static int64_t chunks_of(const rows *r) {
    return (r->count + r->chunk - 1) / r->chunk;
}

static bool is_summed(const rows *r) {
    return r->wanted[0] || r->wanted[1];
}

/* Row `index` in what the kernel computes: where it lies, or in the buffer. */
static void *row_of(const rows *r, const amp_tensor *t, int64_t index, void *buffer, bool load) {
    const int64_t size = (int64_t)amp_dtype_size(t->dtype);
    char *row = (char *)amp_tensor_pointer(t) + index * r->length * size;
    if (t->dtype == r->compute) return row;
    if (load) amp_block_load(AMP_F32, buffer, t->dtype, row, size, r->length);
    return buffer;
}

static void run_row(const rows *r, int64_t index, const amp_norm_row *row, float *buffers, int64_t step) {
    const void *x = row_of(r, r->x, index, buffers, true), *d = row_of(r, r->d, index, buffers + step, true);
    void *out = row_of(r, r->out, index, buffers, false);
    r->slope(out, x, d, row, r->length);
    if (out != buffers) return;
    const int64_t size = (int64_t)amp_dtype_size(r->out->dtype);
    amp_block_store(AMP_F32, out, r->out->dtype, (char *)amp_tensor_pointer(r->out) + index * r->length * size, size,
                    r->length);
}

static void run_chunk(const rows *r, int64_t chunk, float *buffers, int64_t step) {
    float *sums = is_summed(r) ? r->sums + chunk * 2 * r->length : NULL;
    const amp_norm_row row = {r->weight, r->wanted[0] ? sums : NULL, r->wanted[1] ? sums + r->length : NULL, r->eps,
                              r->is_centred};
    const int64_t begin = chunk * r->chunk, end = begin + r->chunk < r->count ? begin + r->chunk : r->count;
    if (sums) memset(sums, 0, 2 * (size_t)r->length * sizeof *sums);
    for (int64_t i = begin; i < end; i++) run_row(r, i, &row, buffers, step);
}

/* Element j of the sums of weight (0) or bias (1). */
static float total(const rows *r, int64_t j, int which) {
    double sum = 0.0;
    for (int64_t c = 0; c < chunks_of(r); c++) sum += (double)r->sums[(2 * c + which) * r->length + j];
    return (float)sum;
}

static amp_status no_memory(const amp_call *call, const rows *r) {
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for sums over %lld rows of %lld elements", amp_call_name(call),
                    (long long)r->count, (long long)r->length);
}

static amp_status run_rows(const amp_call *call, rows *r, float *weight, float *bias) {
    const int64_t chunks = chunks_of(r), step = (r->length + 15) / 16 * 16;
    int threads = amp_parallel_threads(r->count * r->length * ROW_COST, AMP_GRAIN_ELEMENTS);
    if (threads > chunks) threads = chunks > 0 ? (int)chunks : 1;
    const int64_t sums = is_summed(r) ? chunks * 2 * r->length : 0, floats = sums + (int64_t)threads * 2 * step;
    float *memory = amp_alloc((size_t)(floats > 0 ? floats : 1) * sizeof *memory);
    if (!memory) return no_memory(call, r);
    float *buffers = memory + sums;
    r->sums = memory;
    amp_block_prepare();
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(chunks, 1, omp_get_thread_num(), omp_get_num_threads());
        float *own = buffers + (int64_t)omp_get_thread_num() * 2 * step;
        for (int64_t i = part.begin; i < part.end; i++) run_chunk(r, i, own, step);
    }
    for (int64_t j = 0; weight && j < r->length; j++) weight[j] = total(r, j, 0);
    for (int64_t j = 0; bias && j < r->length; j++) bias[j] = total(r, j, 1);
    amp_free(memory);
    return AMP_OK;
}

static int64_t rows_of_chunk(int64_t count) {
    const int64_t even = (count + CHUNKS - 1) / CHUNKS;
    return even < LEAST_ROWS ? LEAST_ROWS : even > MOST_ROWS ? MOST_ROWS : even;
}

/* Outputs 1 and 2: what a parameter's gradient is written to; dense. NULL: it is not wanted, or an error stands. */
static float *parameter_output(amp_call *call, int index, bool wanted, const amp_norm_slope *s) {
    if (!wanted) return NULL;
    const amp_tensor *out = amp_call_output(call, index, AMP_F32, s->input->rank - s->dim, s->input->shape + s->dim);
    return out ? amp_tensor_pointer(out) : NULL;
}

amp_status amp_cpu_norm_slope(amp_call *call, const amp_norm_slope *s) {
    const amp_dtype compute =
        s->input->dtype == s->d->dtype ? amp_kernel_dtype(AMP_KERNEL_NORM_ROW_SLOPE, s->d->dtype) : AMP_F32;
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_NORM_ROW_SLOPE, compute, compute);
    rows r = {.eps = s->eps, .is_centred = s->is_centred, .compute = compute, .length = 1};
    r.wanted[0] = amp_call_wants(call, 1);
    r.wanted[1] = call->op->output_count > 2 && amp_call_wants(call, 2);
    if (!kernel) return amp_pending_error();
    for (int d = s->dim; d < s->input->rank; d++) r.length *= s->input->shape[d];
    r.count = r.length ? amp_tensor_elements(s->input) / r.length : 0;
    r.chunk = rows_of_chunk(r.count);
    r.slope = (amp_norm_row_slope_function *)kernel->function;
    call->note.kernel = kernel->name;
    const amp_tensor *weight = s->weight ? amp_cpu_dense(call->op->name, s->weight, AMP_F32, 0) : NULL;
    r.x = amp_cpu_dense(call->op->name, s->input, s->input->dtype, 0);
    r.d = amp_cpu_dense(call->op->name, s->d, s->d->dtype, 0);
    r.out = amp_call_output(call, 0, s->input->dtype, s->input->rank, s->input->shape);
    float *by_weight = parameter_output(call, 1, r.wanted[0], s);
    float *by_bias = parameter_output(call, 2, r.wanted[1], s);
    if ((s->weight && !weight) || !r.x || !r.d || !r.out || (r.wanted[0] && !by_weight) || (r.wanted[1] && !by_bias))
        return amp_pending_error();
    r.weight = weight ? amp_tensor_pointer(weight) : NULL;
    return run_rows(call, &r, by_weight, by_bias);
}
