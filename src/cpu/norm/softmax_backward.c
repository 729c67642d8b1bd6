/* Gradients of softmax and log_softmax along the last dimension, from d, that of the result y, row by row: y·(d - Σ
 * d·y) and d - e^y·Σ d. f16 rows are widened into buffers of a thread. */
#include <math.h>
#include <omp.h>

#include "core/compute_dtype.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"

typedef struct rows {
    const amp_tensor *d, *y; /* dense */
    amp_tensor *out;
    amp_dtype compute;
    int64_t length, count;
    bool logarithm;
    amp_softmax_slope_function *slope;
} rows;

static void row_f64(const rows *r, double *out, const double *d, const double *y) {
    double sum = 0.0;
    for (int64_t i = 0; i < r->length; i++) sum += r->logarithm ? d[i] : d[i] * y[i];
    for (int64_t i = 0; i < r->length; i++) out[i] = r->logarithm ? d[i] - exp(y[i]) * sum : y[i] * (d[i] - sum);
}

/* Row `index` of a tensor in the compute type: where it lies, or in the buffer. */
static void *row_of(const rows *r, const amp_tensor *t, int64_t index, void *buffer, bool load) {
    const int64_t size = (int64_t)amp_dtype_size(t->dtype);
    char *row = (char *)amp_tensor_pointer(t) + index * r->length * size;
    if (t->dtype == r->compute) return row;
    if (load) amp_block_load(r->compute, buffer, t->dtype, row, size, r->length);
    return buffer;
}

static void run_row(const rows *r, int64_t index, char *buffers, size_t bytes) {
    const void *d = row_of(r, r->d, index, buffers, true), *y = row_of(r, r->y, index, buffers + bytes, true);
    void *out = row_of(r, r->out, index, buffers, false);
    if (r->compute == AMP_F64)
        row_f64(r, out, d, y);
    else
        r->slope(out, d, y, r->length);
    if (out != buffers) return;
    const int64_t size = (int64_t)amp_dtype_size(r->out->dtype);
    char *to = (char *)amp_tensor_pointer(r->out) + index * r->length * size;
    amp_block_store(r->compute, out, r->out->dtype, to, size, r->length);
}

enum { ROW_COST = 4 }; /* in simple operations per element */

static amp_status run_rows(const amp_call *call, const rows *r) {
    const size_t bytes = ((size_t)r->length * amp_dtype_size(r->compute) + 63) / 64 * 64;
    const int wanted = amp_parallel_threads(r->count * r->length * ROW_COST, AMP_GRAIN_ELEMENTS);
    const int threads = wanted > r->count ? (int)r->count : wanted;
    char *buffers = amp_alloc(2 * bytes * (size_t)threads);
    if (!buffers) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for rows of %lld elements", amp_call_name(call),
                        (long long)r->length);
    }
    amp_block_prepare();
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(r->count, 1, omp_get_thread_num(), omp_get_num_threads());
        char *own = buffers + 2 * bytes * (size_t)omp_get_thread_num();
        for (int64_t i = part.begin; i < part.end; i++) run_row(r, i, own, bytes);
    }
    amp_free(buffers);
    return AMP_OK;
}

amp_status amp_cpu_softmax_slope(amp_call *call, amp_tensor *d, amp_tensor *y, bool logarithm) {
    const amp_kernel_family family = logarithm ? AMP_KERNEL_LOG_SOFTMAX_SLOPE : AMP_KERNEL_SOFTMAX_SLOPE;
    const amp_dtype dtype = amp_kernel_dtype(family, y->dtype);
    rows r = {.d = amp_contiguous(d), .y = amp_contiguous(y), .logarithm = logarithm};
    r.compute = y->dtype == AMP_F64 ? AMP_F64 : dtype;
    const amp_kernel *slope = amp_kernel_select(family, dtype, dtype);
    r.out = amp_call_output(call, 0, y->dtype, y->rank, y->shape);
    if (!slope || !r.d || !r.y || !r.out) return amp_pending_error();
    r.slope = (amp_softmax_slope_function *)slope->function;
    if (r.compute != AMP_F64) call->note.kernel = slope->name;
    r.length = y->shape[y->rank - 1];
    r.count = r.length ? amp_tensor_elements(y) / r.length : 0;
    return r.count ? run_rows(call, &r) : AMP_OK;
}
