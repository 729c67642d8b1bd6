/* local_response_norm: by vectors in f32, where the power is made of roots and the layout is one of two; else number by
 * number, in f64. */
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/call.h"
#include "core/compute_dtype.h"
#include "core/fail.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"

enum {
    BLOCK = 256,     /* positions that are walked together */
    MOST_WINDOW = 64 /* channels, of what is walked by vectors */
};

typedef struct response {
    amp_dtype compute;
    int64_t channels, inner, size;
    double alpha, beta, k;
    const char *x;                 /* dense, compute type */
    char *out;                     /* …; f32 of i64 */
    amp_respond_function *respond; /* NULL: number by number */
    amp_response numbers;
} response;

/* x/s^beta in the forms that need no power. */
static double damped(double x, double s, double beta) {
    if (beta == 0.75) return x / (sqrt(s) * sqrt(sqrt(s)));
    if (beta == 0.5) return x / sqrt(s);
    return beta == 1.0 ? x / s : x / pow(s, beta);
}

/* One channel of one sample, positions [at, at + n). Squares of the window are added in the order of its channels, as
 * `sum_type`, and their mean is taken as `mean_type`. */
#define RESPONSE_LOOP(suffix, type, result, sum_type, mean_type)                                                       \
    static void respond_##suffix(const response *r, int64_t sample, int64_t c, int64_t at, int64_t n) {                \
        const int64_t first = c - r->size / 2, last = c + (r->size - 1) / 2;                                           \
        const int64_t from = first < 0 ? 0 : first, to = last < r->channels ? last : r->channels - 1;                  \
        const type *x = (const type *)(const void *)r->x + sample * r->channels * r->inner + at;                       \
        result *out = (result *)(void *)r->out + (sample * r->channels + c) * r->inner + at;                           \
        sum_type sum[BLOCK] = {0};                                                                                     \
        for (int64_t w = from; w <= to; w++) {                                                                         \
            for (int64_t i = 0; i < n; i++) sum[i] += (sum_type)x[w * r->inner + i] * (sum_type)x[w * r->inner + i];   \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const mean_type mean = (mean_type)sum[i] / (mean_type)r->size;                                             \
            const double s = r->k + r->alpha * (double)mean;                                                           \
            out[i] = (result)damped((double)x[c * r->inner + i], s, r->beta);                                          \
        }                                                                                                              \
    }

RESPONSE_LOOP(f32, float, float, double, double)

RESPONSE_LOOP(f64, double, double, double, double)

/* As in PyTorch the sum of i64 wraps, and its mean is a whole number; the result is f32. */
RESPONSE_LOOP(i64, int64_t, float, uint64_t, int64_t)

/* ---- By vectors -------------------------------------------------------------------------------------------------- */

/* Whether roots make the power, and f32 has room for what they are taken of. */
static bool has_roots(const response *r) {
    return (r->beta == 0.5 || r->beta == 0.75 || r->beta == 1.0) && r->size <= MOST_WINDOW && r->k >= (double)FLT_MIN &&
           r->k <= (double)FLT_MAX && fabs(r->alpha) <= (double)FLT_MAX;
}

static amp_status find_kernel(amp_call *call, response *r) {
    if (r->compute != AMP_F32 || !has_roots(r)) return AMP_OK;
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_RESPOND, AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    r->respond = (amp_respond_function *)kernel->function;
    r->numbers = (amp_response){(float)r->k, (float)(r->alpha / (double)r->size), (int)(4.0 * r->beta)};
    call->note.kernel = kernel->name;
    amp_block_prepare();
    return AMP_OK;
}

/* One channel of one sample: the channels of its window are lines. */
static void respond_line(const response *r, int64_t sample, int64_t c, int64_t at, int64_t n) {
    const int64_t first = c - r->size / 2, last = c + (r->size - 1) / 2;
    const float *x = (const float *)(const void *)r->x + sample * r->channels * r->inner + at, *lines[MOST_WINDOW];
    int64_t count = 0;
    for (int64_t w = first < 0 ? 0 : first; w <= last && w < r->channels; w++) lines[count++] = x + w * r->inner;
    float *out = (float *)(void *)r->out + (sample * r->channels + c) * r->inner + at;
    r->respond(out, x + c * r->inner, lines, count, &r->numbers, n);
}

/* Channels last: a pixel with zeros around it, shifted by each channel of the window against itself. */
typedef struct pixels {
    const response *r;
    amp_dtype dtype;
    const char *in;
    char *out;
} pixels;

static size_t pixel_scratch(const response *r) {
    return (size_t)(2 * r->channels + r->size) * sizeof(float);
}

static void respond_pixels(const pixels *p, int64_t begin, int64_t end, float *padded) {
    const response *r = p->r;
    const int64_t size = (int64_t)amp_dtype_size(p->dtype), n = r->channels;
    float *const x = padded + r->size / 2, *const made = padded + n + r->size;
    const float *shifted[MOST_WINDOW];
    for (int64_t w = 0; w < r->size; w++) shifted[w] = padded + w;
    memset(padded, 0, (size_t)(n + r->size) * sizeof *padded);
    for (int64_t i = begin; i < end; i++) {
        char *const to = p->out + i * n * size;
        float *const result = p->dtype == AMP_F32 ? (float *)(void *)to : made;
        amp_block_load(AMP_F32, x, p->dtype, p->in + i * n * size, size, n);
        r->respond(result, x, shifted, r->size, &r->numbers, n);
        if (result == made) amp_block_store(AMP_F32, made, p->dtype, to, size, n);
    }
}

static amp_status run_pixels(const pixels *p, int64_t count) {
    const response *r = p->r;
    const int threads = amp_parallel_threads(count * r->channels * (r->size + 16), AMP_GRAIN_ELEMENTS);
    const size_t each = (pixel_scratch(r) + 63) / 64 * 64;
    char *scratch = amp_alloc(each * (size_t)threads);
    if (!scratch) return amp_fail(AMP_ERROR_MEMORY, "local_response_norm: no memory for %zu bytes", each);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int t = 0; t < threads; t++) {
        const amp_range mine = amp_parallel_part(count, 1, t, threads);
        respond_pixels(p, mine.begin, mine.end, (float *)(void *)(scratch + each * (size_t)t));
    }
    amp_free(scratch);
    return AMP_OK;
}

/* Dense in memory, channels varying fastest. */
static bool is_dense_last(const amp_tensor *t) {
    int64_t strides[AMP_MAX_RANK];
    if (!amp_prefers_channels_last(t)) return false;
    amp_channels_last_strides(t->rank, t->shape, strides);
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] != 1 && t->strides[d] != strides[d]) return false;
    }
    return true;
}

static amp_status respond_last(amp_call *call, const response *r, const amp_tensor *input) {
    amp_tensor *out = amp_call_output_like(call, 0, input->dtype, input->rank, input->shape, input), *results = out;
    if (!out) return amp_pending_error();
    if (!is_dense_last(out)) { /* the caller's, laid out otherwise */
        results = amp_tensor_new(call->op->name, input->dtype, input->rank, input->shape);
        if (!results) return amp_pending_error();
        amp_take_layout(results, input);
    }
    const pixels p = {r, input->dtype, amp_tensor_pointer(input), amp_tensor_pointer(results)};
    AMP_TRY(run_pixels(&p, input->shape[0] * r->inner));
    return results == out ? AMP_OK : amp_cpu_copy(out, results);
}

/* ---- All ----------------------------------------------------------------------------------------------------------- */

static void run_response(const response *r, int64_t samples) {
    const int64_t blocks = (r->inner + BLOCK - 1) / BLOCK, units = samples * r->channels * blocks;
    const int64_t window = r->size < r->channels ? r->size : r->channels;
    const int threads = amp_parallel_threads(samples * r->channels * r->inner * (window + 16), AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t row = u / blocks, at = u % blocks * BLOCK, n = r->inner - at < BLOCK ? r->inner - at : BLOCK;
        (r->respond              ? respond_line
         : r->compute == AMP_F32 ? respond_f32
         : r->compute == AMP_F64 ? respond_f64
                                 : respond_i64)(r, row / r->channels, row % r->channels, at, n);
    }
}

amp_status amp_cpu_respond(amp_call *call, const amp_local_response_norm_args *a, int64_t inner) {
    const amp_tensor *input = a->input;
    const bool whole = input->dtype == AMP_I64;
    response r = {.compute = amp_compute_dtype(input->dtype),
                  .channels = input->shape[1],
                  .inner = inner,
                  .size = a->size,
                  .alpha = a->alpha.value,
                  .beta = a->beta.value,
                  .k = a->k.value};
    AMP_TRY(find_kernel(call, &r));
    if (r.respond && amp_tensor_elements(input) > 0 && is_dense_last(input)) return respond_last(call, &r, input);
    const amp_dtype made = whole ? AMP_F32 : r.compute;
    amp_tensor *out = amp_call_output(call, 0, whole ? AMP_F32 : input->dtype, input->rank, input->shape);
    const amp_tensor *x = out ? amp_cpu_dense(call->op->name, input, r.compute, 0) : NULL;
    amp_tensor *results =
        x && out->dtype != made ? amp_tensor_new(call->op->name, made, input->rank, input->shape) : out;
    if (!x || !results) return amp_pending_error();
    r.x = amp_tensor_pointer(x);
    r.out = amp_tensor_pointer(results);
    if (amp_tensor_elements(out) > 0) run_response(&r, input->shape[0]);
    return results == out ? AMP_OK : amp_cpu_copy(out, results);
}
