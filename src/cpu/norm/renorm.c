/* renorm and local_response_norm. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"

/* ---- renorm ------------------------------------------------------------------------------------------------------ */

static void scale_f32(void *context, void *out, const void *const *in, int64_t n) {
    (*(amp_binary_function **)context)(out, in[0], in[1], n, 0.0F);
}

static void scale_f64(void *context, void *out, const void *const *in, int64_t n) {
    const double *x = in[0], *scale = in[1];
    (void)context;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = x[i] * scale[i];
}

static void scale_c128(void *context, void *out, const void *const *in, int64_t n) {
    const double *x = in[0], *scale = in[1]; /* a complex number, too, whose imaginary part is 0 */
    (void)context;
    for (int64_t i = 0; i < 2 * n; i++) ((double *)out)[i] = x[i] * scale[i & ~(int64_t)1];
}

/* What each slice is multiplied by, from its norm, in place. */
static void scales_from_norms(amp_tensor *norms, double limit) {
    double *norm = amp_tensor_pointer(norms);
    const int64_t n = amp_tensor_elements(norms);
    for (int64_t i = 0; i < n; i++) norm[i] = norm[i] > limit ? limit / (norm[i] + 1e-7) : 1.0;
}

amp_status amp_cpu_scale_slices(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit) {
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    const bool is_complex = amp_dtype_is_complex(input->dtype);
    amp_binary_function *mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!mul) return amp_pending_error();
    scales_from_norms(norms, limit);
    amp_tensor *out = amp_call_output(call, 0, input->dtype, input->rank, input->shape);
    if (!out) return amp_pending_error();
    const amp_operand v[2] = {amp_tensor_operand("input", input), amp_tensor_operand("norm", norms)};
    amp_dense_function *scale = is_complex ? scale_c128 : compute == AMP_F32 ? scale_f32 : scale_f64;
    amp_operands_run(v, 2, compute, compute, scale, &mul, 2, out);
    return AMP_OK;
}

/* ---- local_response_norm ----------------------------------------------------------------------------------------- */

enum { BLOCK = 256 }; /* positions that are walked together */

typedef struct response {
    amp_dtype compute;
    int64_t channels, inner, size;
    double alpha, beta, k;
    const char *x; /* dense, compute type */
    char *out;     /* …; f32 of i64 */
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

static void run_response(const response *r, int64_t samples) {
    const int64_t blocks = (r->inner + BLOCK - 1) / BLOCK, units = samples * r->channels * blocks;
    const int64_t window = r->size < r->channels ? r->size : r->channels;
    const int threads = amp_parallel_threads(samples * r->channels * r->inner * (window + 16), AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t row = u / blocks, at = u % blocks * BLOCK, n = r->inner - at < BLOCK ? r->inner - at : BLOCK;
        (r->compute == AMP_F32   ? respond_f32
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
