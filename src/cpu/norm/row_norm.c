/* softmax, log_softmax, softmin, layer_norm, rms_norm: ops on rows. Rows of f32, f16 and bf16 run in the row
 * kernels, or, where the elements of several rows lie side by side, as columns; f64 and complex numbers in the loops
 * here. Integers become floats only where a dtype asks for it. */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/call.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/norm/column_softmax.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

/* A row in compute type, in place or through a buffer. */
typedef void row_loop(const void *context, void *out, const void *in, int64_t n);

typedef struct rows {
    row_loop *loop;
    const void *context;
    amp_dtype compute;
    const amp_tensor *in;
    amp_tensor *out;
    int dim; /* the row's dimension, of `length` elements; … */
    int64_t length;
    bool tail; /* … or all dimensions from dim on, merged: both tensors are dense there */
} rows;

/* Byte offset of the first element of row `index`, counted over all dimensions that are not in the row. */
static int64_t row_offset(const rows *r, const amp_tensor *t, int64_t index) {
    int64_t offset = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == r->dim || (r->tail && d > r->dim)) continue;
        offset += index % t->shape[d] * t->strides[d];
        index /= t->shape[d];
    }
    return offset * (int64_t)amp_dtype_size(t->dtype);
}

static void run_row(const rows *r, int64_t index, char *buffer) {
    const amp_tensor *in = r->in, *out = r->out;
    const int64_t in_size = (int64_t)amp_dtype_size(in->dtype), out_size = (int64_t)amp_dtype_size(out->dtype);
    const int64_t in_step = (r->tail || !in->rank ? 1 : in->strides[r->dim]) * in_size;
    const int64_t out_step = (r->tail || !out->rank ? 1 : out->strides[r->dim]) * out_size;
    const char *from = (const char *)amp_tensor_pointer(in) + row_offset(r, in, index);
    char *to = (char *)amp_tensor_pointer(out) + row_offset(r, out, index);
    const bool in_dense = in->dtype == r->compute && in_step == in_size;
    const bool out_dense = out->dtype == r->compute && out_step == out_size;
    if (!in_dense) amp_block_load(r->compute, buffer, in->dtype, from, in_step, r->length);
    r->loop(r->context, out_dense ? to : buffer, in_dense ? from : buffer, r->length);
    if (!out_dense) amp_block_store(r->compute, buffer, out->dtype, to, out_step, r->length);
}

enum { ROW_COST = 4 }; /* in simple operations per element */

/* Every row, spread over threads; each thread has a buffer for one row. */
static amp_status run_rows(const char *op, const rows *r) {
    const int64_t elements = amp_tensor_elements(r->out);
    if (elements == 0) return AMP_OK;
    const int64_t count = elements / r->length;
    const size_t row_bytes = ((size_t)r->length * amp_dtype_size(r->compute) + 63) / 64 * 64;
    const int wanted = amp_parallel_threads(elements * ROW_COST, AMP_GRAIN_ELEMENTS);
    const int threads = wanted > count ? (int)count : wanted;
    amp_block_prepare();
    char *buffers = amp_alloc(row_bytes * (size_t)threads);
    if (!buffers) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for rows of %lld elements", op, (long long)r->length);
    }
    if (threads == 1) {
        for (int64_t i = 0; i < count; i++) run_row(r, i, buffers);
    } else {
#pragma omp parallel num_threads(threads)
        {
            const amp_range part = amp_parallel_part(count, 1, omp_get_thread_num(), omp_get_num_threads());
            char *buffer = buffers + row_bytes * (size_t)omp_get_thread_num();
            for (int64_t i = part.begin; i < part.end; i++) run_row(r, i, buffer);
        }
    }
    amp_free(buffers);
    return AMP_OK;
}

/* ---- softmax -------------------------------------------------------------------------------------------------- */

static void softmax_row(const void *context, void *out, const void *in, int64_t n) {
    ((amp_row_function *)*(amp_kernel_function *const *)context)(out, in, n);
}

static void softmin_f32(const void *context, void *out, const void *in, int64_t n) {
    const float *x = in;
    float *o = out;
    for (int64_t i = 0; i < n; i++) o[i] = -x[i];
    softmax_row(context, out, out, n);
}

/* e^(sign·x − max) and its sum; with `logarithm` the logarithm of the quotient. */
static void exponentials_f64(double *o, const double *x, int64_t n, double sign, bool logarithm) {
    double max = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < n; i++) max = sign * x[i] > max ? sign * x[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp(sign * x[i] - max);
    const double shift = log(sum);
    for (int64_t i = 0; i < n; i++) o[i] = logarithm ? sign * x[i] - max - shift : exp(sign * x[i] - max) / sum;
}

static void softmax_f64(const void *context, void *out, const void *in, int64_t n) {
    (void)context;
    exponentials_f64(out, in, n, 1.0, false);
}
static void log_softmax_f64(const void *context, void *out, const void *in, int64_t n) {
    (void)context;
    exponentials_f64(out, in, n, 1.0, true);
}
static void softmin_f64(const void *context, void *out, const void *in, int64_t n) {
    (void)context;
    exponentials_f64(out, in, n, -1.0, false);
}

static amp_status softmax(amp_call *call, amp_tensor *input, int64_t dim, amp_dtype given, amp_kernel_family family,
                          row_loop *kernel_loop, row_loop *f64) {
    amp_dtype dtype;
    rows r = {.in = input};
    AMP_TRY(amp_read_softmax(call, input, dim, given, &r.dim, &dtype));
    r.compute = amp_compute_dtype(dtype);
    const bool negate = kernel_loop == softmin_f32;
    if (r.compute == AMP_F32 && amp_suits_columns(input, r.dim, negate)) {
        const amp_column_softmax columns = {input, amp_call_output(call, 0, dtype, input->rank, input->shape), r.dim,
                                            family == AMP_KERNEL_LOG_SOFTMAX, negate};
        return columns.out ? amp_cpu_column_softmax(call, &columns) : amp_pending_error();
    }
    r.length = input->rank ? input->shape[r.dim] : 1;
    r.loop = r.compute == AMP_F32 ? kernel_loop : f64;
    if (kernel_loop == softmax_row && dtype == input->dtype && r.compute == AMP_F32)
        r.compute = amp_kernel_dtype(family, dtype);
    const amp_dtype narrow = r.compute == AMP_F64 ? AMP_F32 : r.compute;
    const amp_kernel *kernel = amp_kernel_select(family, narrow, narrow);
    if (!kernel) return amp_pending_error();
    amp_kernel_function *function = kernel->function;
    r.context = &function;
    if (r.compute != AMP_F64) call->note.kernel = kernel->name;
    r.out = amp_call_output(call, 0, dtype, input->rank, input->shape);
    return r.out ? run_rows(amp_call_name(call), &r) : amp_pending_error();
}

amp_status cpu_softmax(amp_call *call) {
    const amp_softmax_args *a = call->args;
    return softmax(call, a->input, a->dim, a->dtype, AMP_KERNEL_SOFTMAX, softmax_row, softmax_f64);
}
amp_status cpu_log_softmax(amp_call *call) {
    const amp_log_softmax_args *a = call->args;
    return softmax(call, a->input, a->dim, a->dtype, AMP_KERNEL_LOG_SOFTMAX, softmax_row, log_softmax_f64);
}
amp_status cpu_softmin(amp_call *call) {
    const amp_softmin_args *a = call->args;
    return softmax(call, a->input, a->dim, a->dtype, AMP_KERNEL_SOFTMAX, softmin_f32, softmin_f64);
}

/* ---- layer_norm, rms_norm ------------------------------------------------------------------------------------- */

typedef struct norm {
    amp_norm_function *kernel;
    const void *weight, *bias; /* dense, compute type; NULL where absent */
    double eps;
    bool centred; /* layer_norm; rms_norm keeps the mean */
} norm;

static void norm_row(const void *context, void *out, const void *in, int64_t n) {
    const norm *c = context;
    c->kernel(out, in, c->weight, c->bias, n, c->eps);
}

static void norm_f64(const void *context, void *out, const void *in, int64_t n) {
    const norm *c = context;
    const double *x = in, *weight = c->weight, *bias = c->bias;
    double *o = out, mean = 0.0, square = 0.0;
    if (c->centred) {
        for (int64_t i = 0; i < n; i++) mean += x[i];
        mean /= (double)n;
    }
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / sqrt(square / (double)n + c->eps);
    for (int64_t i = 0; i < n; i++) {
        const double y = (x[i] - mean) * scale * (weight ? weight[i] : 1.0);
        o[i] = y + (bias ? bias[i] : 0.0);
    }
}

/* A complex number as one register: what amp_complex_product computes, rounding by rounding, without taking apart. */
typedef double pair __attribute__((vector_size(16)));

AMP_ALWAYS_INLINE pair load_pair(const double *x) {
    pair p;
    memcpy(&p, x, sizeof p);
    return p;
}
AMP_ALWAYS_INLINE pair pair_product(pair x, pair y) {
    return x * (pair){y[0], y[0]} + (pair){x[1], x[0]} * (pair){-y[1], y[1]};
}

/* Σx² is made of Σa², Σb² and Σab of x = a + bi. Four sums of each, for each term waits for the one before it. */
enum { SUMS = 4 };
typedef struct square_sums {
    pair squares[SUMS], products[SUMS];
} square_sums;

static void add_squares(square_sums *to, const double *x, int64_t n) {
    square_sums s = *to;
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS) {
        AMP_UNROLL
        for (int l = 0; l < SUMS; l++) {
            const pair p = load_pair(x + 2 * (i + l));
            s.squares[l] += p * p;
            s.products[l] += p * (pair){p[1], p[0]};
        }
    }
    for (; i < n; i++) {
        const pair p = load_pair(x + 2 * i);
        s.squares[0] += p * p;
        s.products[0] += p * (pair){p[1], p[0]};
    }
    *to = s;
}

/* 1/z; division as C has it takes as long as a short row. */
static double _Complex reciprocal(double _Complex z) {
    const double re = creal(z), im = cimag(z), norm = re * re + im * im;
    return isnormal(norm) ? __builtin_complex(re / norm, -im / norm) : 1.0 / z;
}

/* As in PyTorch the mean is that of x², which is complex too. */
static pair scale_of(const square_sums *s, int64_t n, double eps) {
    const pair squares = (s->squares[0] + s->squares[1]) + (s->squares[2] + s->squares[3]);
    const pair products = (s->products[0] + s->products[1]) + (s->products[2] + s->products[3]);
    const double _Complex sum = __builtin_complex(squares[0] - squares[1], products[0] + products[1]);
    const double _Complex scale = reciprocal(csqrt(sum / (double)n + eps));
    return (pair){creal(scale), cimag(scale)};
}

static void scale_pairs(double *out, const double *x, int64_t n, pair scale, const double *weight) {
    for (int64_t i = 0; i < 2 * n; i += 2) {
        pair y = pair_product(load_pair(x + i), scale);
        if (weight) y = pair_product(y, load_pair(weight + i));
        memcpy(out + i, &y, sizeof y);
    }
}

static void norm_c128(const void *context, void *out, const void *in, int64_t n) {
    const norm *c = context;
    square_sums s = {{{0}}, {{0}}};
    add_squares(&s, in, n);
    scale_pairs(out, in, n, scale_of(&s, n, c->eps), c->weight);
}

/* The same in c128, a piece at a time; the weight is c128. */
static void norm_c64(const void *context, void *out, const void *in, int64_t n) {
    enum { PIECE = 128 };
    const norm *c = context;
    const float *x = in;
    const double *weight = c->weight;
    float *o = out;
    double wide[2 * PIECE];
    square_sums s = {{{0}}, {{0}}};
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = n - i < PIECE ? n - i : PIECE;
        for (int64_t k = 0; k < 2 * count; k++) wide[k] = (double)x[2 * i + k];
        add_squares(&s, wide, count);
    }
    const pair scale = scale_of(&s, n, c->eps);
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = n - i < PIECE ? n - i : PIECE;
        for (int64_t k = 0; n > PIECE && k < 2 * count; k++) wide[k] = (double)x[2 * i + k];
        scale_pairs(wide, wide, count, scale, weight ? weight + 2 * i : NULL);
        for (int64_t k = 0; k < 2 * count; k++) o[2 * i + k] = (float)wide[k];
    }
}

/* The normalised dimensions are the last ones of the input, and those of weight and bias. */
static amp_status check_norm_shapes(const amp_call *call, const amp_tensor *input, const amp_dims *shape,
                                    const amp_tensor *weight, const amp_tensor *bias) {
    AMP_TRY(amp_check_dims(call, "normalized_shape", shape));
    const int first = input->rank - shape->count;
    if (first < 0 || shape->count == 0 ||
        memcmp(input->shape + first, shape->values, (size_t)shape->count * sizeof *shape->values) != 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'normalized_shape' is %s, which is not how input %s ends",
                        amp_call_name(call), amp_describe_shape(shape->count, shape->values), amp_describe(input));
    }
    const amp_tensor *const parameters[] = {weight, bias};
    for (int i = 0; i < 2; i++) {
        const amp_tensor *t = parameters[i];
        if (!t || amp_has_shape(t, shape->count, shape->values)) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected the normalized_shape %s", amp_call_name(call),
                        i ? "bias" : "weight", amp_describe(t), amp_describe_shape(shape->count, shape->values));
    }
    return AMP_OK;
}

/* f32 parameters beside a 16-bit input are the one mixture that is allowed. */
static amp_status check_norm_dtypes(const amp_call *call, const amp_tensor *input, const amp_tensor *weight,
                                    const amp_tensor *bias) {
    if (!amp_dtype_is_floating(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(input));
    }
    const bool narrow = input->dtype == AMP_BF16 || input->dtype == AMP_F16;
    const amp_tensor *const parameters[] = {weight, bias};
    for (int i = 0; i < 2; i++) {
        const amp_tensor *t = parameters[i];
        if (!t || t->dtype == input->dtype || (narrow && t->dtype == AMP_F32)) continue;
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s, '%s' is %s; expected the same dtype%s", amp_call_name(call),
                        amp_describe(input), i ? "bias" : "weight", amp_describe(t), narrow ? " or f32" : "");
    }
    return AMP_OK;
}

amp_status amp_check_norm(const amp_call *call, const amp_tensor *input, const amp_dims *shape,
                          const amp_tensor *weight, const amp_tensor *bias) {
    AMP_TRY(check_norm_shapes(call, input, shape, weight, bias));
    return check_norm_dtypes(call, input, weight, bias);
}

/* Complex numbers, which rms_norm takes on the CPU, with a weight that is complex or real. */
static amp_status check_complex_norm(const amp_call *call, const amp_tensor *input, const amp_dims *shape,
                                     const amp_tensor *weight) {
    AMP_TRY(check_norm_shapes(call, input, shape, weight, NULL));
    if (!weight || amp_dtype_is_complex(weight->dtype) || amp_dtype_is_floating(weight->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s, 'weight' is %s; expected a complex or floating dtype",
                    amp_call_name(call), amp_describe(input), amp_describe(weight));
}

/* Dense values of a parameter in compute type, or NULL. */
static amp_status dense_parameter(const amp_call *call, const amp_tensor *t, amp_dtype compute, const void **values) {
    const amp_tensor *dense = t ? amp_cpu_dense(call->op->name, t, compute, 0) : NULL;
    *values = dense ? amp_tensor_pointer(dense) : NULL;
    return dense || !t ? AMP_OK : amp_pending_error();
}

static amp_status run_norm(amp_call *call, amp_tensor *input, const amp_dims *shape, amp_tensor *weight,
                           amp_tensor *bias, norm c) {
    if (amp_dtype_is_complex(input->dtype) && !c.centred) {
        AMP_TRY(check_complex_norm(call, input, shape, weight));
    } else {
        AMP_TRY(amp_check_norm(call, input, shape, weight, bias));
    }
    rows r = {.compute = amp_compute_dtype(input->dtype), .dim = input->rank - shape->count, .length = 1, .tail = true};
    for (int i = 0; i < shape->count; i++) r.length *= shape->values[i];
    AMP_TRY(dense_parameter(call, weight, r.compute, &c.weight));
    AMP_TRY(dense_parameter(call, bias, r.compute, &c.bias));
    r.loop = r.compute == AMP_F32 ? norm_row : r.compute == AMP_F64 ? norm_f64 : norm_c128;
    if (input->dtype == AMP_C64) { /* its rows are read as they are */
        r.compute = AMP_C64;
        r.loop = norm_c64;
    }
    if (r.compute == AMP_F32) {
        const amp_kernel_family family = c.centred ? AMP_KERNEL_LAYER_NORM : AMP_KERNEL_RMS_NORM;
        r.compute = amp_kernel_dtype(family, input->dtype);
        const amp_kernel *kernel = amp_kernel_select(family, r.compute, r.compute);
        if (!kernel) return amp_pending_error();
        c.kernel = (amp_norm_function *)kernel->function;
        call->note.kernel = kernel->name;
    }
    r.out = amp_call_output(call, 0, input->dtype, input->rank, input->shape);
    if (!r.out) return amp_pending_error();
    r.in = amp_cpu_dense(call->op->name, input, input->dtype, r.dim);
    if (!r.in) return amp_pending_error();
    r.context = &c;
    return run_rows(amp_call_name(call), &r);
}

amp_status cpu_layer_norm(amp_call *call) {
    const amp_layer_norm_args *a = call->args;
    return run_norm(call, a->input, &a->normalized_shape, a->weight, a->bias,
                    (norm){.eps = a->eps.value, .centred = true});
}

double amp_norm_epsilon(amp_dtype dtype) {
    switch (dtype) {
    case AMP_F64:
    case AMP_C128: return DBL_EPSILON;
    default: return FLT_EPSILON; /* of 16-bit floats too, which are computed in f32 */
    }
}

amp_status cpu_rms_norm(amp_call *call) {
    const amp_rms_norm_args *a = call->args;
    const double eps = a->eps.set ? a->eps.value : amp_norm_epsilon(a->input->dtype);
    return run_norm(call, a->input, &a->normalized_shape, a->weight, NULL, (norm){.eps = eps});
}
