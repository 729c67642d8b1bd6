/* cdist and pdist: p-norm distances of points. f32, f16 and bf16 run in the f32 kernels for p of 0, 1, 2 and infinity;
 * f64 and other p in the loops here. Distances are sums of differences: |x|² + |y|² − 2·x·y would be faster for many
 * long points, and lose the digits of close ones. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/cpu_steps.h"
#include "cpu/registry/kernels.h"

enum { TILE_BYTES = 16 * 1024, TILE_LEAST = 64 }; /* of transposed points, which stay in the first-level cache */

typedef struct distances {
    amp_dtype compute;
    bool narrow; /* the points are of f32 or less */
    double p;
    int64_t depth;
    amp_distance_function *kernel; /* NULL: row by row, in f64 */
} distances;

static amp_status start(amp_call *call, distances *w, double p, amp_dtype dtype, int64_t depth) {
    *w = (distances){.compute = amp_compute_dtype(dtype), .narrow = dtype != AMP_F64, .p = p, .depth = depth};
    const amp_kernel_family family = p == 0.0   ? AMP_KERNEL_DISTANCE_COUNT
                                     : p == 1.0 ? AMP_KERNEL_DISTANCE_MODULI
                                     : p == 2.0 ? AMP_KERNEL_DISTANCE_SQUARES
                                                : AMP_KERNEL_DISTANCE_MAXIMUM;
    if (w->compute != AMP_F32) return AMP_OK;
    if (p != 0.0 && p != 1.0 && p != 2.0 && !isinf(p)) {
        w->compute = AMP_F64;
        return AMP_OK;
    }
    const amp_kernel *kernel = amp_kernel_select(family, AMP_F32, AMP_F32);
    if (!kernel) return amp_pending_error();
    w->kernel = (amp_distance_function *)kernel->function;
    call->note.kernel = kernel->name;
    return AMP_OK;
}

/* x^p. For f32 and narrower, an error of p·log(x) units in the last place of f64 does no harm. */
static double power(const distances *w, double x) {
    const double whole = floor(w->p), rest = w->p - whole;
    if (whole <= 16.0 && (rest == 0.0 || rest == 0.5)) {
        double result = rest == 0.0 ? 1.0 : sqrt(x);
        for (int i = 0; i < (int)whole; i++) result *= x;
        return result;
    }
    return w->narrow ? exp(w->p * log(x)) : pow(x, w->p);
}

static double row_distance(const distances *w, const double *a, const double *b) {
    double sum = 0.0;
    for (int64_t k = 0; k < w->depth; k++) {
        const double d = fabs(a[k] - b[k]);
        if (isinf(w->p))
            sum = d > sum || d != d ? d : sum;
        else if (w->p == 0.0)
            sum += d != 0.0;
        else
            sum += w->p == 1.0 ? d : w->p == 2.0 ? d * d : power(w, d);
    }
    if (w->p == 2.0) return sqrt(sum);
    return w->p == 0.0 || w->p == 1.0 || isinf(w->p) ? sum : pow(sum, 1.0 / w->p);
}

/* Distances of one point from n others, into a dense row. `many` are rows of f64, or the columns of a transposed tile
 * with `step` floats from one coordinate to the next. */
static void point_distances(const distances *w, void *out, const void *one, const void *many, int64_t step, int64_t n) {
    if (!w->kernel) {
        for (int64_t j = 0; j < n; j++) ((double *)out)[j] = row_distance(w, one, (const double *)many + j * w->depth);
        return;
    }
    float *o = out;
    w->kernel(o, one, many, step, w->depth, n);
    if (w->p != 2.0) return;
    for (int64_t j = 0; j < n; j++) o[j] = sqrtf(o[j]);
}

/* The points as this work wants them: dense rows, or transposed and dense. */
static const void *prepare(const amp_call *call, const distances *w, const amp_tensor *points, bool transposed) {
    amp_tensor view = *points;
    if (transposed && w->kernel) {
        const int last = view.rank - 1;
        view.shape[last] = points->shape[last - 1];
        view.shape[last - 1] = points->shape[last];
        view.strides[last] = points->strides[last - 1];
        view.strides[last - 1] = points->strides[last];
    }
    const amp_tensor *dense = amp_cpu_dense(call->op->name, &view, w->compute, 0);
    return dense ? amp_tensor_pointer(dense) : NULL;
}

static const void *at(const distances *w, const void *points, int64_t index) {
    return (const char *)points + index * (int64_t)amp_dtype_size(w->compute);
}

typedef struct grid {
    const void *one, *many;
    int64_t batches, rows, columns;
} grid;

/* A tile of a grid: distances of its columns [from, from + n) of batch b from rows [begin, end). Its columns are packed
 * into `room` where they would lie a long step apart. */
static void run_tile(const distances *w, const grid *g, int64_t b, int64_t from, int64_t n, amp_range rows, float *room,
                     char *out) {
    const int64_t size = (int64_t)amp_dtype_size(w->compute);
    const void *many = at(w, g->many, b * g->columns * w->depth + (w->kernel ? from : from * w->depth));
    int64_t step = g->columns;
    if (room && n < step && rows.end - rows.begin > 4) {
        for (int64_t k = 0; k < w->depth; k++) {
            memcpy(room + k * n, (const float *)many + k * step, (size_t)n * sizeof *room);
        }
        many = room;
        step = n;
    }
    for (int64_t i = rows.begin; i < rows.end; i++) {
        const int64_t row = b * g->rows + i;
        point_distances(w, out + (row * g->columns + from) * size, at(w, g->one, row * w->depth), many, step, n);
    }
}

/* All distances of a grid, dense, in compute type: a tile of columns stays in the cache while the rows pass. */
static amp_status run_grid(const amp_call *call, const distances *w, const grid *g, char *out) {
    const int64_t size = (int64_t)amp_dtype_size(w->compute), fits = TILE_BYTES / size / (w->depth + 1);
    const int64_t width = fits / TILE_LEAST * TILE_LEAST > 0 ? fits / TILE_LEAST * TILE_LEAST : TILE_LEAST;
    const int64_t tiles = (g->columns + width - 1) / width, units = g->batches * tiles;
    const int64_t parts = units < 64 ? (g->rows < 16 ? g->rows : 16) : 1; /* of the rows, so that threads find work */
    const int threads =
        amp_parallel_threads(g->batches * g->rows * g->columns * (w->depth + 4), 4 * AMP_GRAIN_ELEMENTS);
    const int64_t shape[2] = {threads, w->kernel && tiles > 1 ? w->depth * width : 0};
    amp_tensor *room = amp_tensor_new(call->op->name, AMP_F32, 2, shape);
    if (!room) return amp_pending_error();
    float *packed = amp_tensor_pointer(room);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units * parts; u++) {
        const int64_t unit = u / parts, from = unit % tiles * width, left = g->columns - from;
        const amp_range rows = {g->rows * (u % parts) / parts, g->rows * (u % parts + 1) / parts};
        run_tile(w, g, unit / tiles, from, left < width ? left : width, rows,
                 shape[1] ? packed + shape[1] * omp_get_thread_num() : NULL, out);
    }
    return AMP_OK;
}

/* Results in compute type: where they belong, or in a tensor that finish_results copies there. */
static amp_tensor *results_for(const amp_call *call, const distances *w, amp_tensor *out) {
    if (out->dtype == w->compute && amp_tensor_is_dense(out)) return out;
    return amp_tensor_new(call->op->name, w->compute, out->rank, out->shape);
}

amp_status amp_cpu_distances_between(amp_call *call, const amp_tensor *one, const amp_tensor *many, double p,
                                     amp_dtype dtype) {
    const int batch = one->rank - 2;
    int64_t shape[AMP_MAX_RANK];
    distances w;
    AMP_TRY(start(call, &w, p, dtype, one->shape[batch + 1]));
    grid g = {.batches = 1, .rows = one->shape[batch], .columns = many->shape[batch]};
    for (int d = 0; d < batch; d++) g.batches *= shape[d] = one->shape[d];
    shape[batch] = g.rows;
    shape[batch + 1] = g.columns;
    g.one = prepare(call, &w, one, false);
    g.many = g.one ? prepare(call, &w, many, true) : NULL;
    if (!g.many) return amp_pending_error();
    amp_tensor *out = amp_call_output(call, 0, dtype, batch + 2, shape);
    amp_tensor *results = out ? results_for(call, &w, out) : NULL;
    if (!results) return amp_pending_error();
    if (amp_tensor_elements(out) > 0) AMP_TRY(run_grid(call, &w, &g, amp_tensor_pointer(results)));
    return results == out ? AMP_OK : amp_cpu_copy(out, results);
}

amp_status amp_cpu_distances_within(amp_call *call, const amp_tensor *x, double p) {
    distances w;
    AMP_TRY(start(call, &w, p, x->dtype, x->shape[1]));
    const int64_t n = x->shape[0], count = n > 1 ? n * (n - 1) / 2 : 0;
    const void *one = prepare(call, &w, x, false), *many = one ? prepare(call, &w, x, true) : NULL;
    amp_tensor *out = many ? amp_call_output(call, 0, x->dtype, 1, &count) : NULL;
    amp_tensor *results = out ? results_for(call, &w, out) : NULL;
    if (!results) return amp_pending_error();
    const int64_t size = (int64_t)amp_dtype_size(w.compute);
    char *to = amp_tensor_pointer(results);
    const int threads = amp_parallel_threads(count * (w.depth + 4), 4 * AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static, 8)
    for (int64_t i = 0; i < n - 1; i++) {
        const int64_t before = i * n - i * (i + 1) / 2; /* pairs of the points 0 … i − 1 */
        point_distances(&w, to + before * size, at(&w, one, i * w.depth),
                        at(&w, many, w.kernel ? i + 1 : (i + 1) * w.depth), n, n - 1 - i);
    }
    return results == out ? AMP_OK : amp_cpu_copy(out, results);
}
