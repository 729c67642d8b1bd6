/* max and min along a dimension, with where they stand; argmax, argmin. The extreme of each chunk comes from the vector
 * kernels; only the chunk that holds the result is searched for its place. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/move/rows.h"
#include "cpu/reduce/reduce.h"
#include "cpu/registry/kernels.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

enum { CHUNK = AMP_BLOCK_BYTES / 8 }; /* elements of one buffer of any compute type */

/* An element of the compute type; f32 is kept as f64. */
typedef union extreme {
    double real;
    int64_t whole;
} extreme;

typedef struct search {
    amp_rows in;
    amp_dtype compute;
    int64_t step; /* elements looked at in one go: a chunk, or a longer piece where they need no buffer */
    bool largest;
    amp_reduce_function *kernel; /* of f32 and bf16 */
    int64_t *indices;
    amp_rows values; /* without data: not wanted */
} search;

static bool is_nan(const search *s, extreme x) {
    return s->compute != AMP_I64 && x.real != x.real;
}

/* x comes after best: only a truly better one takes its place, so the first of equals stays. */
static bool is_better(const search *s, extreme x, extreme best) {
    if (s->compute == AMP_I64) return s->largest ? x.whole > best.whole : x.whole < best.whole;
    return x.real != x.real || (s->largest ? x.real > best.real : x.real < best.real);
}

#define EXTREME_LOOP(suffix, type)                                                                                     \
    static type extreme_##suffix(const type *x, int64_t n, bool largest) {                                             \
        type best = x[0];                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            if (x[i] != x[i]) return x[i];                                                                             \
            best = (largest ? x[i] > best : x[i] < best) ? x[i] : best;                                                \
        }                                                                                                              \
        return best;                                                                                                   \
    }
EXTREME_LOOP(f64, double)
EXTREME_LOOP(i64, int64_t)

static extreme extreme_of(const search *s, int64_t row, int64_t at, int64_t n) {
    _Alignas(64) char buffer[CHUNK * sizeof(double)];
    const void *x = amp_rows_load(&s->in, s->compute, row, at, n, buffer);
    if (s->kernel) return (extreme){.real = s->kernel(x, n)};
    if (s->compute == AMP_F64) return (extreme){.real = extreme_f64(x, n, s->largest)};
    return (extreme){.whole = extreme_i64(x, n, s->largest)};
}

enum { RUN = 32 }; /* elements that are compared without a branch */

/* The first that equals `best` (for NaN: is one), or n. Several at a time are looked at for one that does. */
#define FIND_LOOP(suffix, type, wide, read)                                                                            \
    static int64_t find_##suffix(const type *in, int64_t n, wide best) {                                               \
        const bool nan = best != best;                                                                                 \
        int64_t i = 0;                                                                                                 \
        for (; !nan && i + RUN <= n; i += RUN) {                                                                       \
            int found = 0;                                                                                             \
            for (int k = 0; k < RUN; k++) found |= read(in[i + k]) == best;                                            \
            if (found) break;                                                                                          \
        }                                                                                                              \
        while (i < n && !(nan ? read(in[i]) != read(in[i]) : read(in[i]) == best)) i++;                                \
        return i;                                                                                                      \
    }
FIND_LOOP(f32, float, float, )
FIND_LOOP(f64, double, double, )
FIND_LOOP(i64, int64_t, int64_t, )

/* By their bits; zeros are equal whatever their signs. */
static int64_t find_bf16(const uint16_t *in, int64_t n, float best) {
    const bool nan = best != best;
    const uint16_t counts = best == 0.0f ? 0x7fff : 0xffff, bits = amp_bf16_from_f32(best) & counts;
    int64_t i = 0;
    for (; !nan && i + RUN <= n; i += RUN) {
        int found = 0;
        for (int k = 0; k < RUN; k++) found |= (in[i + k] & counts) == bits;
        if (found) break;
    }
    while (i < n && !(nan ? (in[i] & 0x7fff) > 0x7f80 : (in[i] & counts) == bits)) i++;
    return i;
}

/* The first element of the piece that is `best`, or a NaN where that is one. */
static int64_t place_of(const search *s, int64_t row, int64_t at, int64_t n, extreme best) {
    _Alignas(64) char buffer[CHUNK * sizeof(double)];
    for (int64_t from = at; from < at + n; from += CHUNK) {
        const int64_t count = at + n - from < CHUNK ? at + n - from : CHUNK;
        const void *x = amp_rows_load(&s->in, s->compute, row, from, count, buffer);
        const int64_t i = s->compute == AMP_F32    ? find_f32(x, count, (float)best.real)
                          : s->compute == AMP_BF16 ? find_bf16(x, count, (float)best.real)
                          : s->compute == AMP_F64  ? find_f64(x, count, best.real)
                                                   : find_i64(x, count, best.whole);
        if (i < count) return from + i;
    }
    return at;
}

/* The best of elements begin to end of a row, and the piece that it is in. */
static extreme best_of(const search *s, int64_t row, amp_range part, int64_t *piece) {
    extreme best = {0};
    *piece = -1;
    for (int64_t at = part.begin; at < part.end; at += s->step) {
        const extreme x = extreme_of(s, row, at, part.end - at < s->step ? part.end - at : s->step);
        if (*piece >= 0 && !is_better(s, x, best)) continue;
        best = x;
        *piece = at;
        if (is_nan(s, x)) break;
    }
    return best;
}

static void set_result(const search *s, int64_t row, int64_t index) {
    s->indices[row] = index;
    if (!s->values.data) return;
    memcpy(s->values.data + row * s->in.size, s->in.data + (row * s->in.length + index) * s->in.size,
           (size_t)s->in.size);
}

static void finish_row(const search *s, int64_t row, extreme best, int64_t piece) {
    const int64_t left = s->in.length - piece;
    set_result(s, row, place_of(s, row, piece, left < s->step ? left : s->step, best));
}

static void search_rows(void *context, int64_t begin, int64_t end) {
    const search *s = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t piece;
        const extreme best = best_of(s, row, (amp_range){0, s->in.length}, &piece);
        finish_row(s, row, best, piece);
    }
}

/* Fewer rows than threads: each thread takes a part of every row. */
static void search_long_rows(const search *s, int threads) {
    enum { PARTS = 64 };
    extreme best[PARTS];
    int64_t pieces[PARTS];
    if (threads > PARTS) threads = PARTS;
    for (int64_t row = 0; row < s->in.count; row++) {
        for (int i = 0; i < threads; i++) pieces[i] = -1;
#pragma omp parallel num_threads(threads)
        {
            const int thread = omp_get_thread_num();
            best[thread] = best_of(s, row, amp_parallel_part(s->in.length, s->step, thread, omp_get_num_threads()),
                                   &pieces[thread]);
        }
        int first = -1;
        for (int i = 0; i < threads; i++) {
            if (pieces[i] < 0 || (first >= 0 && is_nan(s, best[first]))) continue;
            if (first < 0 || is_better(s, best[i], best[first])) first = i;
        }
        finish_row(s, row, best[first], pieces[first]);
    }
}

static amp_status run(const amp_call *call, search *s, const amp_tensor *input, unsigned mask) {
    s->compute = amp_compute_dtype(input->dtype);
    if (s->compute == AMP_F32) {
        const amp_kernel_family family = s->largest ? AMP_KERNEL_ROW_MAX : AMP_KERNEL_ROW_MIN;
        s->compute = amp_kernel_dtype(family, input->dtype);
        s->kernel = (amp_reduce_function *)amp_kernel_get(family, s->compute, s->compute);
        if (!s->kernel) return amp_pending_error();
    }
    AMP_TRY(amp_rows_of(call, input, mask, &s->in));
    s->step = s->in.dtype == s->compute ? 8 * CHUNK : CHUNK;
    if (s->in.count == 0) return AMP_OK;
    const int threads = amp_parallel_threads(s->in.count * s->in.length, AMP_GRAIN_ELEMENTS);
    if (threads > s->in.count)
        search_long_rows(s, threads);
    else
        amp_rows_run(&s->in, 1, search_rows, s);
    return AMP_OK;
}

static amp_status argument(amp_call *call, const amp_tensor *input, const amp_opt_int *dim, bool keepdim,
                           bool largest) {
    search s = {.largest = largest};
    unsigned mask = (1u << input->rank) - 1;
    int d = 0;
    if (dim->set) {
        AMP_TRY(amp_wrap_dim(call, "dim", dim->value, input->rank, &d));
        mask &= 1u << d;
    }
    AMP_TRY(amp_check_extreme(call, input, mask));
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, mask, keepdim, shape);
    amp_tensor *out = amp_call_output(call, 0, AMP_I64, rank, shape);
    if (!out) return amp_pending_error();
    amp_rows indices;
    AMP_TRY(amp_rows_for(call, out, 0, &indices));
    s.indices = (int64_t *)(void *)indices.data;
    AMP_TRY(run(call, &s, input, mask));
    return amp_rows_finish(&indices);
}

amp_status cpu_argmax(amp_call *call) {
    const amp_argmax_args *a = call->args;
    return argument(call, a->input, &a->dim, a->keepdim, true);
}
amp_status cpu_argmin(amp_call *call) {
    const amp_argmin_args *a = call->args;
    return argument(call, a->input, &a->dim, a->keepdim, false);
}

static amp_status with_indices(amp_call *call, const amp_tensor *input, int64_t dim, bool keepdim, bool largest) {
    search s = {.largest = largest};
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &d));
    const unsigned mask = input->rank ? 1u << d : 0;
    AMP_TRY(amp_check_extreme(call, input, mask));
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_reduced_shape(input, mask, keepdim, shape);
    amp_tensor *values = amp_call_output(call, 0, input->dtype, rank, shape);
    amp_tensor *indices = values ? amp_call_output(call, 1, AMP_I64, rank, shape) : NULL;
    if (!indices) return amp_pending_error();
    AMP_TRY(amp_rows_for(call, values, 0, &s.values));
    s.indices = amp_tensor_pointer(indices);
    return run(call, &s, input, mask);
}

amp_status cpu_max_dim(amp_call *call) {
    const amp_max_dim_args *a = call->args;
    return with_indices(call, a->input, a->dim, a->keepdim, true);
}
amp_status cpu_min_dim(amp_call *call) {
    const amp_min_dim_args *a = call->args;
    return with_indices(call, a->input, a->dim, a->keepdim, false);
}
