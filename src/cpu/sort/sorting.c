/* sort, topk, quantile, nanquantile. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/sort/radix_sort.h"

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

amp_status amp_cpu_first_of_rows(const amp_call *call, const amp_rows *in, int64_t k, bool descending, bool last_first,
                                 const amp_rows *values, const amp_rows *indices) {
    sorted_rows s = {.in = *in, .k = k, .take = take_places, .values = *values, .indices = *indices};
    s.order = amp_order_of(in->dtype, in->length, descending);
    s.order.last_first = last_first;
    return sort_rows(call, &s);
}

/* ---- quantile, nanquantile ------------------------------------------------------------------------------------ */

typedef struct quantiles {
    const amp_quantiles *asked;
    const double *numbers;
    amp_rows out; /* q by q, each with one result for every row */
} quantiles;

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
    if (s->wanted->asked->rule == AMP_QUANTILE_NEAREST) position = nearbyint(position);
    const double low = floor(position);
    double share = s->wanted->asked->rule == AMP_QUANTILE_LOWER    ? 0.0
                   : s->wanted->asked->rule == AMP_QUANTILE_HIGHER ? ceil(position) - low
                                                                   : position - low;
    if (s->wanted->asked->rule == AMP_QUANTILE_MIDPOINT && share > 0.0) share = 0.5;
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
    const bool none = n == 0 || (n < s->in.length && !w->asked->without_nan);
    for (int64_t i = 0; i < w->asked->count; i++) {
        const double result = none ? NAN : quantile_of(s, row, places, n, w->numbers[i]);
        amp_block_store(AMP_F64, &result, s->in.dtype, w->out.data + (i * s->in.count + row) * s->in.size, 0, 1);
    }
}

/* The numbers as f64, in the call's memory. */
static const double *numbers_of(const amp_call *call, const amp_quantiles *asked) {
    const amp_tensor *q = asked->q;
    if (!q) return &asked->number;
    amp_tensor *numbers = amp_tensor_new(call->op->name, AMP_F64, 1, &asked->count);
    if (!numbers) return NULL;
    amp_block_load(AMP_F64, amp_tensor_pointer(numbers), q->dtype, amp_tensor_pointer(q),
                   (q->rank ? q->strides[0] : 1) * (int64_t)amp_dtype_size(q->dtype), asked->count);
    return amp_tensor_pointer(numbers);
}

amp_status amp_cpu_quantiles(const amp_call *call, const amp_rows *in, const amp_quantiles *asked,
                             const amp_rows *out) {
    const quantiles w = {.asked = asked, .numbers = numbers_of(call, asked), .out = *out};
    if (!w.numbers) return amp_pending_error();
    for (int64_t i = 0; i < asked->count; i++) AMP_TRY(amp_check_quantile(call, i, w.numbers[i]));
    sorted_rows s = {.in = *in, .k = in->length, .take = take_quantiles, .wanted = &w};
    s.order = amp_order_of(in->dtype, in->length, false);
    return sort_rows(call, &s);
}
