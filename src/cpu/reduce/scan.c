/* cumsum, cumprod, logcumsumexp, cummax, cummin: running results along a dimension. Sums, products and logarithms of
 * f32 and narrower floats are carried in f64; their order follows from the length alone. */
#include <emmintrin.h>

#include "amp/ops.h"
#include "cpu/elementwise/log_add_exp.h"
#include "cpu/move/rows.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"

enum {
    BLOCK = AMP_BLOCK_BYTES / 8, /* elements of one buffer of any compute type */
    LANES = 8                    /* parts of a block that are added up side by side */
};

typedef double _Complex complex128;

typedef struct scan {
    amp_rows in, out;
    amp_dtype compute;
    enum { SUMS, PRODUCTS, LOGS } kind;
    bool largest;
    int64_t *indices;
} scan;

/* ---- cumsum, cumprod ------------------------------------------------------------------------------------------ */

/* A block is cut into LANES parts whose running results do not wait for one another; then each part is joined to what
 * came before it. Where a part is not `plain` (it may have overflowed, or met a zero), its block goes one by one. */
#define SCAN_LOOP(name, suffix, type, wide, neutral, join, plain)                                                      \
    static void name##_##suffix(type *out, const type *in, int64_t n, wide *carry) {                                   \
        wide part[LANES], partial[BLOCK];                                                                              \
        int64_t each = n / LANES;                                                                                      \
        for (int k = 0; k < LANES; k++) part[k] = (neutral);                                                           \
        for (int64_t i = 0; i < each; i++) {                                                                           \
            for (int k = 0; k < LANES; k++) {                                                                          \
                const wide x = (wide)in[k * each + i], so_far = part[k];                                               \
                partial[k * each + i] = part[k] = join;                                                                \
            }                                                                                                          \
        }                                                                                                              \
        for (int k = 0; k < LANES; k++) {                                                                              \
            const wide x = part[k];                                                                                    \
            (void)x;                                                                                                   \
            if (!(plain)) each = 0;                                                                                    \
        }                                                                                                              \
        for (int k = 0; k < LANES; k++) {                                                                              \
            const wide so_far = *carry;                                                                                \
            for (int64_t i = k * each; i < (k + 1) * each; i++) {                                                      \
                const wide x = partial[i];                                                                             \
                out[i] = (type)(join);                                                                                 \
            }                                                                                                          \
            const wide x = part[k];                                                                                    \
            if (each) *carry = join;                                                                                   \
        }                                                                                                              \
        for (int64_t i = each * LANES; i < n; i++) {                                                                   \
            const wide x = (wide)in[i], so_far = *carry;                                                               \
            out[i] = (type)(*carry = join);                                                                            \
        }                                                                                                              \
    }
SCAN_LOOP(sums, f64, double, double, 0.0, so_far + x, x - x == 0.0)
SCAN_LOOP(sums, i64, uint64_t, uint64_t, 0, so_far + x, true)
SCAN_LOOP(sums, c128, complex128, complex128, 0.0, so_far + x, x - x == 0.0)
SCAN_LOOP(products, f32, float, double, 1.0, so_far *x, x - x == 0.0 && x != 0.0)
SCAN_LOOP(products, f64, double, double, 1.0, so_far *x, x - x == 0.0 && x != 0.0)
SCAN_LOOP(products, i64, uint64_t, uint64_t, 1, so_far *x, true)
SCAN_LOOP(products, c128, complex128, complex128, 1.0, so_far *x, x - x == 0.0 && x != 0.0)

/* Sums of f32: four elements at a time, the wait from one four to the next a single addition. Each sum is made of what
 * comes before it alone, and f64 cannot overflow, so infinities need no care. */
static void sums_f32(float *out, const float *in, int64_t n, double *carry) {
    __m128d before = _mm_set1_pd(*carry);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m128 four = _mm_loadu_ps(in + i);
        const __m128d ab = _mm_cvtps_pd(four), cd = _mm_cvtps_pd(_mm_movehl_ps(four, four)), none = _mm_setzero_pd();
        const __m128d low = _mm_add_pd(ab, _mm_unpacklo_pd(none, ab)); /* a, a + b */
        const __m128d high = _mm_add_pd(_mm_add_pd(cd, _mm_unpacklo_pd(none, cd)), _mm_unpackhi_pd(low, low));
        const __m128 sums = _mm_cvtpd_ps(_mm_add_pd(before, low));
        _mm_storeu_ps(out + i, _mm_movelh_ps(sums, _mm_cvtpd_ps(_mm_add_pd(before, high))));
        before = _mm_add_pd(before, _mm_unpackhi_pd(high, high));
    }
    *carry = _mm_cvtsd_f64(before);
    for (; i < n; i++) out[i] = (float)(*carry += (double)in[i]);
}

/* ---- logcumsumexp --------------------------------------------------------------------------------------------- */

/* ln Σ e^x: each waits for the one before, in f64. */
#define LOGS_LOOP(suffix, type, wide, add)                                                                             \
    static void logs_##suffix(type *out, const type *in, int64_t n, wide *carry) {                                     \
        for (int64_t i = 0; i < n; i++) out[i] = (type)(*carry = add(*carry, (wide)in[i]));                            \
    }
LOGS_LOOP(f32, float, double, amp_log_add_exp)
LOGS_LOOP(f64, double, double, amp_log_add_exp)
LOGS_LOOP(c128, complex128, complex128, amp_log_add_exp_complex)

/* ---- All of them ---------------------------------------------------------------------------------------------- */

typedef union carry {
    double f64;
    uint64_t i64;
    complex128 c128;
} carry;

static void scan_block(const scan *s, void *out, const void *in, int64_t n, carry *c) {
    const bool product = s->kind == PRODUCTS;
    switch (s->compute) {
    case AMP_F32: (s->kind == LOGS ? logs_f32 : product ? products_f32 : sums_f32)(out, in, n, &c->f64); break;
    case AMP_F64: (s->kind == LOGS ? logs_f64 : product ? products_f64 : sums_f64)(out, in, n, &c->f64); break;
    case AMP_C128: (s->kind == LOGS ? logs_c128 : product ? products_c128 : sums_c128)(out, in, n, &c->c128); break;
    default: (product ? products_i64 : sums_i64)(out, in, n, &c->i64); break;
    }
}

/* What the first element is joined with. */
static carry first_carry(const scan *s) {
    const double first = s->kind == LOGS ? -INFINITY : s->kind == PRODUCTS;
    carry c = {.i64 = s->kind == PRODUCTS};
    if (s->compute == AMP_F32 || s->compute == AMP_F64) c.f64 = first;
    if (s->compute == AMP_C128) c.c128 = first;
    return c;
}

static void scan_rows(void *context, int64_t begin, int64_t end) {
    const scan *s = context;
    const int64_t block = s->compute == AMP_C128 ? BLOCK / 2 : BLOCK;
    _Alignas(64) char read[AMP_BLOCK_BYTES], written[AMP_BLOCK_BYTES];
    for (int64_t row = begin; row < end; row++) {
        carry c = first_carry(s);
        for (int64_t at = 0; at < s->in.length; at += block) {
            const int64_t n = s->in.length - at < block ? s->in.length - at : block;
            char *to = s->out.data + (row * s->out.length + at) * s->out.size;
            const bool direct = s->out.dtype == s->compute;
            scan_block(s, direct ? to : written, amp_rows_load(&s->in, s->compute, row, at, n, read), n, &c);
            if (!direct) amp_block_store(s->compute, written, s->out.dtype, to, s->out.size, n);
        }
    }
}

static amp_status run_scan(amp_call *call, scan *s, const amp_tensor *input, int64_t dim, amp_dtype dtype,
                           int64_t cost) {
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &d));
    s->compute = amp_compute_dtype(dtype);
    amp_tensor *out = amp_call_output(call, 0, dtype, input->rank, input->shape);
    if (!out) return amp_pending_error();
    const unsigned mask = input->rank ? 1u << d : 0;
    AMP_TRY(amp_rows_of(call, input, mask, &s->in));
    AMP_TRY(amp_rows_for(call, out, mask, &s->out));
    if (s->in.length > 0) amp_rows_run(&s->in, cost, scan_rows, s);
    return amp_rows_finish(&s->out);
}

amp_status cpu_cumsum(amp_call *call) {
    const amp_cumsum_args *a = call->args;
    scan s = {.kind = SUMS};
    return run_scan(call, &s, a->input, a->dim, amp_total_dtype(call, a->input, a->dtype), 2);
}
amp_status cpu_cumprod(amp_call *call) {
    const amp_cumprod_args *a = call->args;
    scan s = {.kind = PRODUCTS};
    return run_scan(call, &s, a->input, a->dim, amp_total_dtype(call, a->input, a->dtype), 2);
}
amp_status cpu_logcumsumexp(amp_call *call) {
    const amp_logcumsumexp_args *a = call->args;
    scan s = {.kind = LOGS};
    AMP_TRY(amp_check_logarithms(call, a->input));
    return run_scan(call, &s, a->input, a->dim, a->input->dtype, 32);
}

/* ---- cummax, cummin ------------------------------------------------------------------------------------------- */

enum { RUN = 16 }; /* elements that are passed over together where none of them changes the result */

/* The last of equal elements counts; from a NaN on everything is NaN. */
#define EXTREME_LOOP(suffix, type)                                                                                     \
    static bool all_worse_##suffix(const type *in, type best, bool largest) {                                          \
        int count = 0;                                                                                                 \
        if (largest) {                                                                                                 \
            for (int k = 0; k < RUN; k++) count += in[k] < best;                                                       \
        } else {                                                                                                       \
            for (int k = 0; k < RUN; k++) count += in[k] > best;                                                       \
        }                                                                                                              \
        return count == RUN;                                                                                           \
    }                                                                                                                  \
    static void extremes_##suffix(type *out, int64_t *indices, const type *in, int64_t n, int64_t at, bool largest,    \
                                  type *best, int64_t *place) {                                                        \
        type b = *best;                                                                                                \
        int64_t p = *place;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            if ((i & (RUN - 1)) == 0 && n - i >= RUN && at + i > 0 && all_worse_##suffix(in + i, b, largest)) {        \
                for (int k = 0; k < RUN; k++) out[i + k] = b;                                                          \
                for (int k = 0; k < RUN; k++) indices[i + k] = p;                                                      \
                i += RUN - 1;                                                                                          \
                continue;                                                                                              \
            }                                                                                                          \
            const type x = in[i];                                                                                      \
            const bool better = largest ? x >= b : x <= b;                                                             \
            if (at + i == 0 || x != x || better) { /* nothing is better than a NaN */                                  \
                b = x;                                                                                                 \
                p = at + i;                                                                                            \
            }                                                                                                          \
            out[i] = b;                                                                                                \
            indices[i] = p;                                                                                            \
        }                                                                                                              \
        *best = b;                                                                                                     \
        *place = p;                                                                                                    \
    }
EXTREME_LOOP(f32, float)
EXTREME_LOOP(f64, double)
EXTREME_LOOP(i64, int64_t)

typedef union best {
    float f32;
    double f64;
    int64_t i64;
} best;

static void extreme_rows(void *context, int64_t begin, int64_t end) {
    const scan *s = context;
    _Alignas(64) char read[AMP_BLOCK_BYTES], written[AMP_BLOCK_BYTES];
    for (int64_t row = begin; row < end; row++) {
        best b = {0};
        int64_t place = 0;
        for (int64_t at = 0; at < s->in.length; at += BLOCK) {
            const int64_t n = s->in.length - at < BLOCK ? s->in.length - at : BLOCK;
            const int64_t first = row * s->in.length + at;
            char *to = s->out.data + first * s->out.size;
            const void *in = amp_rows_load(&s->in, s->compute, row, at, n, read);
            const bool direct = s->out.dtype == s->compute;
            void *out = direct ? to : written;
            if (s->compute == AMP_F32)
                extremes_f32(out, s->indices + first, in, n, at, s->largest, &b.f32, &place);
            else if (s->compute == AMP_F64)
                extremes_f64(out, s->indices + first, in, n, at, s->largest, &b.f64, &place);
            else
                extremes_i64(out, s->indices + first, in, n, at, s->largest, &b.i64, &place);
            if (!direct) amp_block_store(s->compute, written, s->out.dtype, to, s->out.size, n);
        }
    }
}

static amp_status run_extremes(amp_call *call, const amp_tensor *input, int64_t dim, bool largest) {
    scan s = {.largest = largest, .compute = amp_compute_dtype(input->dtype)};
    int d;
    AMP_TRY(amp_wrap_dim(call, "dim", dim, input->rank, &d));
    if (s.compute == AMP_C128) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(input));
    }
    amp_tensor *out = amp_call_output(call, 0, input->dtype, input->rank, input->shape);
    amp_tensor *indices = out ? amp_call_output(call, 1, AMP_I64, input->rank, input->shape) : NULL;
    if (!indices) return amp_pending_error();
    const unsigned mask = input->rank ? 1u << d : 0;
    amp_rows places;
    AMP_TRY(amp_rows_of(call, input, mask, &s.in));
    AMP_TRY(amp_rows_for(call, out, mask, &s.out));
    AMP_TRY(amp_rows_for(call, indices, mask, &places));
    s.indices = (int64_t *)(void *)places.data;
    amp_rows_run(&s.in, 2, extreme_rows, &s);
    AMP_TRY(amp_rows_finish(&s.out));
    return amp_rows_finish(&places);
}

amp_status cpu_cummax(amp_call *call) {
    const amp_cummax_args *a = call->args;
    return run_extremes(call, a->input, a->dim, true);
}
amp_status cpu_cummin(amp_call *call) {
    const amp_cummin_args *a = call->args;
    return run_extremes(call, a->input, a->dim, false);
}
