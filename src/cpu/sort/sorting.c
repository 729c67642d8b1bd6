/* sort, topk, quantile, nanquantile. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/sort/radix_sort.h"
#include "cpu/reduce/reduce.h"
#include "cpu/move/rows.h"
#include "cuda/ops/cuda_order.h"
#include "ops/shape_rules.h"

/* ---- Rows in order -------------------------------------------------------------------------------------------- */

typedef struct sorted_rows sorted_rows;
struct sorted_rows {
    amp_rows in;
    amp_order order;
    int64_t k; /* elements wanted of each row */
    void (*take)(const sorted_rows *s, int64_t row, const int64_t *places);
    amp_rows values, indices;       /* sort, topk */
    const struct quantiles *wanted; /* quantile */
};

enum { SORT_COST = 16 }; /* in simple operations for one element */

static amp_status sort_rows(const amp_call *call, sorted_rows *s) {
    const int64_t work = s->in.count * s->in.length;
    int threads = amp_parallel_threads(work * SORT_COST, AMP_GRAIN_ELEMENTS);
    if (threads > s->in.count) threads = s->in.count > 1 ? (int)s->in.count : 1;
    if (work == 0 || s->k == 0) return AMP_OK;
    const size_t each = s->order.scratch + ((size_t)s->k * sizeof(int64_t) + 63) / 64 * 64;
    char *memory = amp_alloc(each * (size_t)threads);
    if (!memory) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to sort rows of %lld elements", amp_call_name(call),
                        (long long)s->in.length);
    }
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const amp_range part = amp_parallel_part(s->in.count, 1, omp_get_thread_num(), omp_get_num_threads());
        char *scratch = memory + each * (size_t)omp_get_thread_num();
        int64_t *places = (int64_t *)(void *)(scratch + s->order.scratch);
        for (int64_t row = part.begin; row < part.end; row++) {
            amp_order_run(&s->order, s->in.data + row * s->in.length * s->in.size, s->k, scratch, places);
            s->take(s, row, places);
        }
    }
    amp_free(memory);
    return AMP_OK;
}

static amp_status check_ordered(const amp_call *call, const amp_tensor *input) {
    if (!amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                    amp_describe(input));
}

/* ---- sort, topk ----------------------------------------------------------------------------------------------- */

#define TAKE(bytes)                                                                                                    \
    for (int64_t i = 0; i < s->k; i++) memcpy(to + i * (bytes), from + places[i] * (bytes), (bytes));                  \
    break

static void take_places(const sorted_rows *s, int64_t row, const int64_t *places) {
    const char *from = s->in.data + row * s->in.length * s->in.size;
    char *to = s->values.data + row * s->k * s->in.size;
    memcpy(s->indices.data + row * s->k * (int64_t)sizeof *places, places, (size_t)s->k * sizeof *places);
    switch (s->in.size) {
    case 1: TAKE(1);
    case 2: TAKE(2);
    case 4: TAKE(4);
    default: TAKE(8);
    }
}

static amp_status sort_along(amp_call *call, const amp_tensor *input, int d, int64_t k, bool descending,
                             bool last_first) {
    sorted_rows s = {.k = k, .take = take_places};
    const unsigned mask = input->rank ? 1u << d : 0;
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, input->shape, (size_t)input->rank * sizeof *shape);
    if (input->rank) shape[d] = k;
    AMP_TRY(amp_rows_of(call, input, mask, &s.in));
    s.order = amp_order_of(input->dtype, s.in.length, descending);
    s.order.last_first = last_first;
    amp_tensor *values = amp_call_output(call, 0, input->dtype, input->rank, shape);
    amp_tensor *indices = values ? amp_call_output(call, 1, AMP_I64, input->rank, shape) : NULL;
    if (!indices) return amp_pending_error();
    AMP_TRY(amp_rows_for(call, values, mask, &s.values));
    AMP_TRY(amp_rows_for(call, indices, mask, &s.indices));
    AMP_TRY(call->device == AMP_DEVICE_CUDA
                ? amp_cuda_first_of_rows(call, &s.in, k, descending, last_first, &s.values, &s.indices)
                : sort_rows(call, &s));
    AMP_TRY(amp_rows_finish(&s.values));
    return amp_rows_finish(&s.indices);
}

amp_status cpu_sort(amp_call *call) {
    const amp_sort_args *a = call->args;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
    AMP_TRY(check_ordered(call, a->input));
    return sort_along(call, a->input, d, a->input->rank ? a->input->shape[d] : 1, a->descending, false);
}

amp_status cpu_topk(amp_call *call) {
    const amp_topk_args *a = call->args;
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, a->input->rank, &d));
    AMP_TRY(check_ordered(call, a->input));
    const int64_t length = a->input->rank ? a->input->shape[d] : 1;
    if (a->k < 0 || a->k > length) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'k' is %lld, but dimension %d of input %s has %lld elements",
                        amp_call_name(call), (long long)a->k, d, amp_describe(a->input), (long long)length);
    }
    if (a->input->rank == 0 && a->k == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'k' is 0, and input %s has no dimension that could be empty",
                        amp_call_name(call), amp_describe(a->input));
    }
    return sort_along(call, a->input, d, a->k, a->largest.value, true); /* as PyTorch leaves equal ones in short rows */
}

/* ---- quantile, nanquantile ------------------------------------------------------------------------------------ */

typedef struct quantiles {
    const double *q;
    amp_tensor *on_device; /* q where the device alone can read it: what is wrong with it is told later */
    int64_t count;
    int rule; /* place in `rules` */
    bool without_nan;
    amp_rows out; /* q by q, each with one result for every row */
} quantiles;

static const char *const rules[] = {"linear", "lower", "higher", "midpoint", "nearest"};
enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST, RULES };

static double value_at(const sorted_rows *s, int64_t row, int64_t place) {
    const char *at = s->in.data + (row * s->in.length + place) * s->in.size;
    return s->in.dtype == AMP_F32 ? (double)*(const float *)(const void *)at : *(const double *)(const void *)at;
}

/* The quantile q of n numbers, by their places in order. The position is rounded as the dtype rounds, so that 0.1 of 11
 * numbers is the second one in f32 too. */
static double quantile_of(const sorted_rows *s, int64_t row, const int64_t *places, int64_t n, double q) {
    double position = q * (double)(n - 1);
    if (s->in.dtype == AMP_F32)
        position = fmin((float)q * (float)(n - 1), (double)(n - 1)); /* above 2^24, n rounds up */
    if (s->wanted->rule == NEAREST) position = nearbyint(position);
    const double low = floor(position);
    double share = s->wanted->rule == LOWER ? 0.0 : s->wanted->rule == HIGHER ? ceil(position) - low : position - low;
    if (s->wanted->rule == MIDPOINT && share > 0.0) share = 0.5;
    const double a = value_at(s, row, places[(int64_t)low]);
    if (share == 0.0) return a;
    const double b = value_at(s, row, places[(int64_t)low + 1]);
    if (share == 1.0) return b;
    return share < 0.5 ? a + share * (b - a) : b - (b - a) * (1.0 - share);
}

static void take_quantiles(const sorted_rows *s, int64_t row, const int64_t *places) {
    const quantiles *w = s->wanted;
    int64_t n = s->in.length; /* NaN are last */
    while (n > 0 && isnan(value_at(s, row, places[n - 1]))) n--;
    const bool none = n == 0 || (n < s->in.length && !w->without_nan);
    for (int64_t i = 0; i < w->count; i++) {
        const double result = none ? NAN : quantile_of(s, row, places, n, w->q[i]);
        amp_block_store(AMP_F64, &result, s->in.dtype, w->out.data + (i * s->in.count + row) * s->in.size, 0, 1);
    }
}

static amp_status check_quantiles(const amp_call *call, const amp_tensor *input, const char *rule, quantiles *w) {
    if (input->dtype != AMP_F32 && input->dtype != AMP_F64) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected f32 or f64", amp_call_name(call),
                        amp_describe(input));
    }
    if (amp_tensor_elements(input) == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, and of no element there are no quantiles",
                        amp_call_name(call), amp_describe(input));
    }
    for (int64_t i = 0; w->q && i < w->count; i++) {
        if (w->q[i] >= 0.0 && w->q[i] <= 1.0) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: number %lld of 'q' is %g; expected 0 to 1", amp_call_name(call),
                        (long long)i, w->q[i]);
    }
    for (w->rule = 0; w->rule < RULES && strcmp(rule, rules[w->rule]) != 0; w->rule++) {
    }
    if (w->rule < RULES) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'interpolation' is \"%s\"; expected linear, lower, higher, midpoint or nearest",
                    amp_call_name(call), rule);
}

typedef struct quantile_args {
    amp_tensor *input;
    const amp_opt_int *dim;
    bool keepdim;
    const char *interpolation;
} quantile_args;

/* `listed`: q is a vector, and its dimension comes first in the result. */
static amp_status run_quantiles(amp_call *call, const quantile_args *a, quantiles *w, bool listed) {
    unsigned mask = (1u << a->input->rank) - 1;
    AMP_TRY(check_quantiles(call, a->input, a->interpolation, w));
    if (a->dim->set) {
        int d;
        AMP_TRY(amp_wrap_dim(call, "dim", a->dim->value, a->input->rank, &d));
        mask &= 1u << d;
    }
    int64_t shape[AMP_MAX_RANK + 1] = {w->count};
    const int rank = amp_reduced_shape(a->input, mask, a->keepdim, shape + listed) + listed;
    if (rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; the result would have more than %d dimensions",
                        amp_call_name(call), amp_describe(a->input), AMP_MAX_RANK);
    }
    amp_tensor *out = amp_call_output(call, 0, a->input->dtype, rank, shape);
    if (!out) return amp_pending_error();
    sorted_rows s = {.take = take_quantiles, .wanted = w};
    AMP_TRY(amp_rows_for(call, out, 0, &w->out));
    AMP_TRY(amp_rows_of(call, a->input, mask, &s.in));
    s.k = s.in.length;
    s.order = amp_order_of(a->input->dtype, s.in.length, false);
    if (call->device == AMP_DEVICE_CUDA) {
        const amp_cuda_quantile_work work = {w->on_device, w->q ? *w->q : 0.0, w->count, w->rule, w->without_nan};
        AMP_TRY(amp_cuda_quantiles_of(call, &s.in, &work, &w->out));
    } else {
        AMP_TRY(sort_rows(call, &s));
    }
    return amp_rows_finish(&w->out);
}

static amp_status by_tensor(amp_call *call, const quantile_args *a, amp_tensor *q, bool without_nan) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", a->input, "q", q));
    if (q->rank > 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'q' is %s; expected a number or a vector", amp_call_name(call),
                        amp_describe(q));
    }
    quantiles w = {.count = amp_tensor_elements(q), .without_nan = without_nan};
    if (call->device == AMP_DEVICE_CUDA) {
        w.on_device = q;
        return run_quantiles(call, a, &w, q->rank == 1);
    }
    amp_tensor *numbers = amp_tensor_new(call->op->name, AMP_F64, 1, &w.count);
    if (!numbers) return amp_pending_error();
    w.q = amp_tensor_pointer(numbers);
    amp_block_load(AMP_F64, amp_tensor_pointer(numbers), q->dtype, amp_tensor_pointer(q),
                   (q->rank ? q->strides[0] : 1) * (int64_t)amp_dtype_size(q->dtype), w.count);
    return run_quantiles(call, a, &w, q->rank == 1);
}

#define DEFINE_QUANTILE(op, without_nan_)                                                                              \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const quantile_args q = {a->input, &a->dim, a->keepdim, a->interpolation};                                     \
        return by_tensor(call, &q, a->q, without_nan_);                                                                \
    }                                                                                                                  \
    amp_status cpu_##op##_scalar(amp_call *call) {                                                                     \
        const amp_##op##_scalar_args *a = call->args;                                                                  \
        const quantile_args q = {a->input, &a->dim, a->keepdim, a->interpolation};                                     \
        quantiles w = {.q = &a->q, .count = 1, .without_nan = without_nan_};                                           \
        return run_quantiles(call, &q, &w, false);                                                                     \
    }
DEFINE_QUANTILE(quantile, false)
DEFINE_QUANTILE(nanquantile, true)
