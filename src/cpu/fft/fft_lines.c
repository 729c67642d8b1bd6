/* Lines of a tensor into the work buffers of the Fourier kernels, and back. Eight lines at a time fill the lanes; a
 * long line goes alone. An inverse transform is a forward one with real and imaginary parts exchanged before and
 * after. */
#include "cpu/fft/fft_lines.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/fft.h"
#include "cpu/simd/unroll.h"

enum { WIDE = AMP_FFT_LANES };

/* Where numbers lie in a tensor: `count` of them, `step` bytes apart, the imaginary part `imaginary` bytes behind the
 * real one; 0: they are real. */
typedef struct layout {
    bool is_f32;
    int64_t count, step, imaginary;
} layout;

typedef struct job {
    const amp_fft_lines *lines;
    const amp_fft_plan *plan;
    layout in, out;
    bool has_half;    /* the input's last pair of real numbers lacks its second */
    bool is_mirrored; /* the second half of the input is the first one's mirror */
    bool completes;   /* the second half of the output is the first one's mirror: complex results of real numbers */
    bool exchange;    /* real and imaginary parts */
    int64_t numbers;  /* in the buffer before the transform */
    int rank;         /* of what is not the lines' dimension … */
    int64_t shape[AMP_MAX_RANK], in_steps[AMP_MAX_RANK], out_steps[AMP_MAX_RANK]; /* … in bytes */
    int64_t count;                                                                /* of lines */
    int threads;
} job;

/* ---- Numbers in and out --------------------------------------------------------------------------------------- */

/* Numbers [begin, end) of `active` lines, which start at from[l]; re and im: the buffer's first number's parts. */
#define DEFINE_MOVES(type, name)                                                                                       \
    AMP_ALWAYS_INLINE void load_##name(const layout *f, const char *const *from, int active, int lanes, double *re,    \
                                       double *im, double sign, int64_t begin, int64_t end) {                          \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            for (int l = 0; l < active; l++) {                                                                         \
                const char *p = from[l] + i * f->step;                                                                 \
                re[i * 2 * lanes + l] = (double)*(const type *)p;                                                      \
                im[i * 2 * lanes + l] = f->imaginary ? sign * (double)*(const type *)(p + f->imaginary) : 0.0;         \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    AMP_ALWAYS_INLINE void store_##name(const layout *f, char *const *to, int active, int lanes, const double *re,     \
                                        const double *im, double scale, double sign, int64_t begin, int64_t end) {     \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            for (int l = 0; l < active; l++) {                                                                         \
                char *p = to[l] + i * f->step;                                                                         \
                *(type *)p = (type)(re[i * 2 * lanes + l] * scale);                                                    \
                if (f->imaginary) *(type *)(p + f->imaginary) = (type)(im[i * 2 * lanes + l] * scale * sign);          \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_MOVES(float, f32)
DEFINE_MOVES(double, f64)

/* The same for eight lines of numbers whose imaginary part follows at once: two lines make a vector, parts are sorted
 * by shuffles. */
typedef double vd2 __attribute__((vector_size(16), may_alias));
typedef double vd4 __attribute__((vector_size(32), may_alias));
typedef float vf4 __attribute__((vector_size(16), may_alias));
typedef double one __attribute__((aligned(1), may_alias)); /* 8 bytes: a c64 number */
typedef vd2 two __attribute__((aligned(1), may_alias));

static void load_pairs_f32(const layout *f, const char *const *from, double *re, double *im, double sign, int64_t begin,
                           int64_t end) {
    const int64_t step = f->step;
    for (int l = 0; l < WIDE; l += 4) {
        const char *p = from[l], *q = from[l + 1], *r = from[l + 2], *s = from[l + 3];
        for (int64_t i = begin; i < end; i++) {
            const vd2 a = {*(const one *)(p + i * step), *(const one *)(q + i * step)};
            const vd2 b = {*(const one *)(r + i * step), *(const one *)(s + i * step)};
            const vf4 x = __builtin_shufflevector((vf4)a, (vf4)b, 0, 2, 4, 6);
            const vf4 y = __builtin_shufflevector((vf4)a, (vf4)b, 1, 3, 5, 7);
            *(vd4 *)(re + i * 2 * WIDE + l) = __builtin_convertvector(x, vd4);
            *(vd4 *)(im + i * 2 * WIDE + l) = __builtin_convertvector(y, vd4) * sign;
        }
    }
}

static void load_pairs_f64(const layout *f, const char *const *from, double *re, double *im, double sign, int64_t begin,
                           int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        for (int l = 0; l < WIDE; l += 2) {
            const vd2 a = *(const two *)(from[l] + i * f->step), b = *(const two *)(from[l + 1] + i * f->step);
            *(vd2 *)(re + i * 2 * WIDE + l) = __builtin_shufflevector(a, b, 0, 2);
            *(vd2 *)(im + i * 2 * WIDE + l) = __builtin_shufflevector(a, b, 1, 3) * sign;
        }
    }
}

static void store_pairs_f32(const layout *f, char *const *to, const double *re, const double *im, double scale,
                            double sign, int64_t begin, int64_t end) {
    const int64_t step = f->step;
    for (int l = 0; l < WIDE; l += 4) {
        char *p = to[l], *q = to[l + 1], *r = to[l + 2], *s = to[l + 3];
        for (int64_t i = begin; i < end; i++) {
            const vf4 x = __builtin_convertvector(*(const vd4 *)(re + i * 2 * WIDE + l) * scale, vf4);
            const vf4 y = __builtin_convertvector(*(const vd4 *)(im + i * 2 * WIDE + l) * (scale * sign), vf4);
            const vd2 a = (vd2)__builtin_shufflevector(x, y, 0, 4, 1, 5);
            const vd2 b = (vd2)__builtin_shufflevector(x, y, 2, 6, 3, 7);
            *(one *)(p + i * step) = a[0];
            *(one *)(q + i * step) = a[1];
            *(one *)(r + i * step) = b[0];
            *(one *)(s + i * step) = b[1];
        }
    }
}

static void store_pairs_f64(const layout *f, char *const *to, const double *re, const double *im, double scale,
                            double sign, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        for (int l = 0; l < WIDE; l += 2) {
            const vd2 x = *(const vd2 *)(re + i * 2 * WIDE + l) * scale;
            const vd2 y = *(const vd2 *)(im + i * 2 * WIDE + l) * (scale * sign);
            *(two *)(to[l] + i * f->step) = __builtin_shufflevector(x, y, 0, 2);
            *(two *)(to[l + 1] + i * f->step) = __builtin_shufflevector(x, y, 1, 3);
        }
    }
}

static bool has_pairs(const layout *f) {
    return f->imaginary == (f->is_f32 ? 4 : 8);
}

/* The parts of the first number. */
typedef struct parts {
    double *re, *im;
} parts;

static parts parts_of(const job *j, double *data, int lanes) {
    return j->exchange ? (parts){data + lanes, data} : (parts){data, data + lanes};
}

/* The numbers [begin, end) of the buffer, zeros behind the input's end. */
AMP_ALWAYS_INLINE void load_range(const job *j, const char *const *from, int active, int lanes, double *data,
                                  int64_t begin, int64_t end) {
    const parts to = parts_of(j, data, lanes);
    const double sign = j->lines->conjugate_input ? -1.0 : 1.0;
    const int64_t given = j->in.count < end ? j->in.count : end;
    if (active == WIDE && has_pairs(&j->in))
        (j->in.is_f32 ? load_pairs_f32 : load_pairs_f64)(&j->in, from, to.re, to.im, sign, begin, given);
    else if (j->in.is_f32)
        load_f32(&j->in, from, active, lanes, to.re, to.im, sign, begin, given);
    else
        load_f64(&j->in, from, active, lanes, to.re, to.im, sign, begin, given);
    const int64_t zeros = begin > given ? begin : given;
    if (end > zeros) memset(data + zeros * 2 * lanes, 0, (size_t)(end - zeros) * 2 * (size_t)lanes * sizeof *data);
    if (j->has_half && begin <= j->in.count && j->in.count < end) {
        layout half = j->in;
        half.imaginary = 0;
        if (half.is_f32)
            load_f32(&half, from, active, lanes, to.re, to.im, 1.0, half.count, half.count + 1);
        else
            load_f64(&half, from, active, lanes, to.re, to.im, 1.0, half.count, half.count + 1);
    }
}

/* A spectrum of odd length from its first half, whose first number is real. */
static void mirror_input(const job *j, double *data, int lanes) {
    const parts p = parts_of(j, data, lanes);
    const int64_t n = j->lines->n;
    for (int l = 0; l < lanes; l++) p.im[l] = 0.0;
    for (int64_t k = 1; k <= n / 2; k++) {
        for (int l = 0; l < lanes; l++) {
            p.re[(n - k) * 2 * lanes + l] = p.re[k * 2 * lanes + l];
            p.im[(n - k) * 2 * lanes + l] = -p.im[k * 2 * lanes + l];
        }
    }
}

AMP_ALWAYS_INLINE void store_range(const job *j, char *const *to, int active, int lanes, double *data, int64_t begin,
                                   int64_t end) {
    const parts p = parts_of(j, data, lanes);
    const double scale = j->lines->scale, sign = j->lines->conjugate_output ? -1.0 : 1.0;
    if (active == WIDE && has_pairs(&j->out))
        (j->out.is_f32 ? store_pairs_f32 : store_pairs_f64)(&j->out, to, p.re, p.im, scale, sign, begin, end);
    else if (j->out.is_f32)
        store_f32(&j->out, to, active, lanes, p.re, p.im, scale, sign, begin, end);
    else
        store_f64(&j->out, to, active, lanes, p.re, p.im, scale, sign, begin, end);
}

/* Result n − k is the conjugate of result k. */
static void store_mirrored(const job *j, char *const *to, int active, int lanes, double *data) {
    job back = *j;
    amp_fft_lines lines = *j->lines;
    char *last[WIDE];
    for (int l = 0; l < active; l++) last[l] = to[l] + lines.n * j->out.step;
    lines.conjugate_output = !lines.conjugate_output;
    back.lines = &lines;
    back.out.step = -j->out.step;
    store_range(&back, last, active, lanes, data, 1, (lines.n + 1) / 2);
}

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

/* Where lines first … first + active − 1 start. */
static void find_lines(const job *j, int64_t first, int active, const char **from, char **to) {
    int64_t index[AMP_MAX_RANK], left = first, in = 0, out = 0;
    for (int d = j->rank - 1; d >= 0; d--) {
        index[d] = left % j->shape[d];
        left /= j->shape[d];
        in += index[d] * j->in_steps[d];
        out += index[d] * j->out_steps[d];
    }
    for (int l = 0; l < active; l++) {
        from[l] = (const char *)amp_tensor_pointer(j->lines->from) + in;
        to[l] = (char *)amp_tensor_pointer(j->lines->to) + out;
        for (int d = j->rank - 1; d >= 0; d--) { /* the next one */
            in += j->in_steps[d];
            out += j->out_steps[d];
            if (++index[d] < j->shape[d]) break;
            in -= index[d] * j->in_steps[d];
            out -= index[d] * j->out_steps[d];
            index[d] = 0;
        }
    }
}

static void transform_group(const job *j, int64_t first, double *data) {
    const int active = j->count - first < WIDE ? (int)(j->count - first) : WIDE;
    const amp_fft_plan *plan = j->plan;
    const char *from[WIDE];
    char *to[WIDE];
    find_lines(j, first, active, from, to);
    if (active == WIDE)
        load_range(j, from, WIDE, WIDE, data, 0, j->numbers);
    else
        load_range(j, from, active, WIDE, data, 0, j->numbers);
    if (j->is_mirrored) mirror_input(j, data, WIDE);
    double *done = plan->function(plan->stage, plan->stages, data, data + plan->room * 2 * WIDE);
    if (active == WIDE)
        store_range(j, to, WIDE, WIDE, done, 0, j->out.count);
    else
        store_range(j, to, active, WIDE, done, 0, j->out.count);
    if (j->completes) store_mirrored(j, to, active, WIDE, done);
}

static amp_status run_groups(const job *j) {
    const size_t room = (size_t)j->plan->room * 4 * WIDE;
    double *buffers = amp_alloc_zeroed(room * (size_t)j->threads * sizeof *buffers);
    if (!buffers)
        return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for transforms of length %lld", (long long)j->lines->n);
#pragma omp parallel num_threads(j->threads) if (j->threads > 1)
    {
        double *own = buffers + room * (size_t)omp_get_thread_num();
#pragma omp for schedule(static)
        for (int64_t first = 0; first < j->count; first += WIDE) transform_group(j, first, own);
    }
    amp_free(buffers);
    return AMP_OK;
}

static void transform_long(const job *j, int64_t line, double *data) {
    const char *from[1];
    char *to[1];
    const int64_t room = j->plan->room;
    find_lines(j, line, 1, from, to);
#pragma omp parallel num_threads(j->threads) if (j->threads > 1)
    {
        const amp_range part = amp_parallel_part(j->numbers, 1, omp_get_thread_num(), omp_get_num_threads());
        load_range(j, from, 1, 1, data, part.begin, part.end);
    }
    if (j->is_mirrored) mirror_input(j, data, 1);
    double *done = amp_fft_run_long(j->plan, data, data + 2 * room, data + 4 * room, j->threads);
#pragma omp parallel num_threads(j->threads) if (j->threads > 1)
    {
        const amp_range part = amp_parallel_part(j->out.count, 1, omp_get_thread_num(), omp_get_num_threads());
        store_range(j, to, 1, 1, done, part.begin, part.end);
    }
    if (j->completes) store_mirrored(j, to, 1, 1, done);
}

static amp_status run_long(const job *j) {
    const size_t doubles = (size_t)j->plan->room * 4 + amp_fft_long_scratch(j->plan, j->threads);
    double *data = amp_alloc(doubles * sizeof *data);
    if (!data)
        return amp_fail(AMP_ERROR_MEMORY, "fft: no memory for transforms of length %lld", (long long)j->lines->n);
    for (int64_t line = 0; line < j->count; line++) transform_long(j, line, data);
    amp_free(data);
    return AMP_OK;
}

/* ---- What is to be done --------------------------------------------------------------------------------------- */

static layout layout_of(const amp_tensor *t, int dim, int64_t count) {
    const bool is_complex = amp_dtype_is_complex(t->dtype);
    const int64_t size = (int64_t)amp_dtype_size(t->dtype);
    return (layout){.is_f32 = t->dtype == AMP_F32 || t->dtype == AMP_C64,
                    .count = count,
                    .step = t->strides[dim] * size,
                    .imaginary = is_complex ? size / 2 : 0};
}

/* Pairs of real numbers as complex ones. */
static layout pairs_of(layout reals) {
    return (layout){reals.is_f32, reals.count / 2, reals.step * 2, reals.step};
}

static void plan_layouts(job *j) {
    const amp_fft_lines *w = j->lines;
    const bool even = w->n % 2 == 0;
    const int64_t given = w->form == AMP_FFT_C2R ? w->n / 2 + 1 : w->n, extent = w->extents[w->dim];
    j->in = layout_of(w->from, w->dim, extent < given ? extent : given);
    j->out = layout_of(w->to, w->dim, w->form == AMP_FFT_R2C ? w->n / 2 + 1 : w->n);
    j->numbers = given;
    j->exchange = w->form == AMP_FFT_C2R || w->inverse;
    if (w->form == AMP_FFT_R2C && even) {
        j->has_half = j->in.count % 2;
        j->in = pairs_of(j->in);
        j->numbers = w->n / 2;
    }
    if (w->form == AMP_FFT_C2R && even) j->out = pairs_of(j->out);
    j->is_mirrored = w->form == AMP_FFT_C2R && !even;
}

/* Bytes from line to line; a stride that nothing steps by may be anything. */
static int64_t step_of(const amp_tensor *t, int d, int64_t extent) {
    return extent > 1 ? t->strides[d] * (int64_t)amp_dtype_size(t->dtype) : 0;
}

static void plan_lines(job *j) {
    const amp_fft_lines *w = j->lines;
    j->count = 1;
    for (int d = 0; d < w->from->rank; d++) {
        if (d == w->dim) continue;
        j->shape[j->rank] = w->extents[d];
        j->in_steps[j->rank] = step_of(w->from, d, w->extents[d]);
        j->out_steps[j->rank] = step_of(w->to, d, w->extents[d]);
        j->rank++;
        j->count *= w->extents[d];
    }
}

amp_status amp_cpu_fft_lines(const amp_fft_lines *asked) {
    amp_fft_lines whole = *asked;
    const amp_fft_lines *lines = &whole;
    job j = {.lines = lines};
    if (asked->form == AMP_FFT_C2C && !amp_dtype_is_complex(asked->from->dtype)) { /* half of it is computed */
        whole.form = AMP_FFT_R2C;
        whole.inverse = false;
        whole.conjugate_output = asked->inverse;
        j.completes = true;
    }
    plan_lines(&j);
    if (j.count == 0) return AMP_OK;
    plan_layouts(&j);
    const bool is_packed = lines->form != AMP_FFT_C2C && lines->n % 2 == 0;
    const amp_fft_kind kind = !is_packed ? AMP_FFT_COMPLEX : lines->form == AMP_FFT_R2C ? AMP_FFT_UNPACK : AMP_FFT_PACK;
    const bool is_long = amp_fft_is_long(is_packed ? lines->n / 2 : lines->n, j.count);
    j.plan = amp_fft_plan_take(lines->n, kind, is_long);
    if (!j.plan) return amp_pending_error();
    j.threads = amp_parallel_threads(j.count * lines->n, AMP_GRAIN_ELEMENTS / 16);
    const amp_status status = is_long ? run_long(&j) : run_groups(&j);
    amp_fft_plan_give(j.plan);
    return status;
}
