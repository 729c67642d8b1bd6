/* Convolution of any dtype: operands are brought to dense arrays of the compute type; for a block of output pixels the
 * inputs that each tap meets become a column matrix, and the weights' rows are multiplied with it. Transposed ones go
 * the other way: for each tap, every input times its weight is added to the output that it reaches. */
#include <string.h>

#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/conv/conv.h"
#include "cpu/convert/element.h"
#include "cpu/convert/strided_copy.h"

enum {
    PIXELS = 64, /* of a block: a row of columns and the sums of ROWS outputs stay in L1 */
    ROWS = 4,    /* outputs that share a pass over the columns */
    FASTER = 16  /* the vector kernels are than these loops, for the same products */
};

/* The problem on dense arrays: x [batch, groups · channels, in…], w [groups, outputs, channels, taps], y as x. */
typedef struct dense {
    const amp_conv *c;
    const void *x, *w, *bias; /* bias: NULL, or [groups · outputs] */
    const void *scale,
        *residual; /* NULL, or as the bias, as y; the bias of a fused convolution comes after the scale */
    bool fused;
    void *y;
    int64_t k, taps, in_pixels, pixels;
} dense;

/* Sums of block `first` … of one group of one image. */
typedef void block_function(const dense *d, int64_t item, int64_t group, int64_t first, int count, void *columns);

/* For each pixel of the block the offset of the input that tap (a, b, c) meets; -1: none. */
static void find_sources(const dense *d, int64_t first, int count, int64_t tap, int64_t *offsets) {
    const amp_conv_axis *axis = d->c->axis;
    const int64_t kw = tap % axis[2].kernel, kh = tap / axis[2].kernel % axis[1].kernel;
    const int64_t kd = tap / axis[2].kernel / axis[1].kernel;
    for (int i = 0; i < count; i++) {
        const int64_t p = first + i, w = p % axis[2].out, h = p / axis[2].out % axis[1].out;
        const int64_t sw = amp_conv_source(&axis[2], w, kw), sh = amp_conv_source(&axis[1], h, kh);
        const int64_t sd = amp_conv_source(&axis[0], p / axis[2].out / axis[1].out, kd);
        offsets[i] = (sw | sh | sd) < 0 ? -1 : (sd * axis[1].in + sh) * axis[2].in + sw;
    }
}

/* gcc's complex product looks for infinities that PyTorch does not look for either. */
static inline void add_complex(double _Complex *sum, double _Complex a, double _Complex b) {
    __real__ *sum += __real__ a * __real__ b - __imag__ a * __imag__ b;
    __imag__ *sum += __real__ a * __imag__ b + __imag__ a * __real__ b;
}

#define ADD_REAL(sum, a, b) (sum) += (a) * (b)
#define ADD_COMPLEX(sum, a, b) add_complex(&(sum), a, b)

/* `type` of the arrays; ADD(sum, a, b) is sum += a · b. */
#define BLOCK(name, type, ADD)                                                                                         \
    static void name##_columns(const dense *d, const type *x, int64_t first, int count, type *columns) {               \
        int64_t offsets[PIXELS];                                                                                       \
        for (int64_t tap = 0; tap < d->taps; tap++) {                                                                  \
            find_sources(d, first, count, tap, offsets);                                                               \
            for (int64_t c = 0; c < d->c->in_channels; c++) {                                                          \
                const type *from = x + c * d->in_pixels;                                                               \
                type *to = columns + (c * d->taps + tap) * PIXELS;                                                     \
                for (int i = 0; i < count; i++) to[i] = offsets[i] < 0 ? 0 : from[offsets[i]];                         \
                for (int i = count; i < PIXELS; i++) to[i] = 0;                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(const dense *d, int64_t item, int64_t group, int64_t first, int count, void *columns) {           \
        const amp_conv *c = d->c;                                                                                      \
        const int64_t outputs = c->out_channels, image = item * c->groups + group;                                     \
        name##_columns(d, (const type *)d->x + image * c->in_channels * d->in_pixels, first, count, columns);          \
        const type *w = (const type *)d->w + group * outputs * d->k, *bias = d->fused ? NULL : d->bias;                \
        type *y = (type *)d->y + image * outputs * d->pixels + first;                                                  \
        for (int64_t o = 0; o < outputs; o += ROWS) {                                                                  \
            const int rows = outputs - o < ROWS ? (int)(outputs - o) : ROWS;                                           \
            type sums[ROWS][PIXELS] = {{0}};                                                                           \
            for (int64_t k = 0; k < d->k; k++) {                                                                       \
                const type *column = (const type *)columns + k * PIXELS;                                               \
                for (int r = 0; r < rows; r++) {                                                                       \
                    const type factor = w[(o + r) * d->k + k];                                                         \
                    _Pragma("omp simd") for (int i = 0; i < PIXELS; i++) ADD(sums[r][i], factor, column[i]);           \
                }                                                                                                      \
            }                                                                                                          \
            for (int r = 0; r < rows; r++)                                                                             \
                for (int i = 0; i < count; i++)                                                                        \
                    y[(o + r) * d->pixels + i] = bias ? sums[r][i] + bias[group * outputs + o + r] : sums[r][i];       \
        }                                                                                                              \
    }

BLOCK(block_f32, float, ADD_REAL)
BLOCK(block_f64, double, ADD_REAL)
BLOCK(block_i64, uint64_t, ADD_REAL) /* wraps */
BLOCK(block_c128, double _Complex, ADD_COMPLEX)

/* ---- Transposed ----------------------------------------------------------------------------------------------- */

/* All outputs of one channel of one image. */
typedef void plane_function(const dense *d, int64_t image, int64_t group, int64_t output);

/* Input i reaches output i · stride + to, for first ≤ i < end. */
typedef struct reach {
    int64_t first, end, to;
} reach;

static reach reach_of(const amp_conv_axis *a, int64_t k) {
    const int64_t to = k * a->dilation - a->pad;
    reach r = {.first = to < 0 ? (-to + a->stride - 1) / a->stride : 0, .end = a->in, .to = to};
    if (a->out <= to)
        r.end = 0;
    else if ((a->out - to - 1) / a->stride + 1 < r.end)
        r.end = (a->out - to - 1) / a->stride + 1;
    return r;
}

#define PLANE(name, type, ADD)                                                                                         \
    static void name##_tap(const amp_conv_axis *axis, int64_t tap, const type *x, type factor, type *y) {              \
        const reach w = reach_of(&axis[2], tap % axis[2].kernel);                                                      \
        const reach h = reach_of(&axis[1], tap / axis[2].kernel % axis[1].kernel);                                     \
        const reach p = reach_of(&axis[0], tap / axis[2].kernel / axis[1].kernel);                                     \
        for (int64_t i = p.first; i < p.end; i++) {                                                                    \
            for (int64_t j = h.first; j < h.end; j++) {                                                                \
                const int64_t line = (i * axis[0].stride + p.to) * axis[1].out + j * axis[1].stride + h.to;            \
                type *to = y + line * axis[2].out + w.to;                                                              \
                const type *from = x + (i * axis[1].in + j) * axis[2].in;                                              \
                for (int64_t k = w.first; k < w.end; k++) ADD(to[k * axis[2].stride], factor, from[k]);                \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(const dense *d, int64_t image, int64_t group, int64_t output) {                                   \
        const amp_conv *c = d->c;                                                                                      \
        const int64_t part = image * c->groups + group, channel = group * c->out_channels + output;                    \
        const type *w = (const type *)d->w + channel * d->k;                                                           \
        const type *x = (const type *)d->x + part * c->in_channels * d->in_pixels;                                     \
        type *y = (type *)d->y + (part * c->out_channels + output) * d->pixels;                                        \
        memset(y, 0, (size_t)d->pixels * sizeof *y);                                                                   \
        for (int64_t k = 0; k < d->k; k++) name##_tap(c->axis, k % d->taps, x + k / d->taps * d->in_pixels, w[k], y);  \
        if (!d->bias || d->fused) return;                                                                              \
        const type bias = ((const type *)d->bias)[channel];                                                            \
        for (int64_t i = 0; i < d->pixels; i++) y[i] += bias;                                                          \
    }

PLANE(plane_f32, float, ADD_REAL)
PLANE(plane_f64, double, ADD_REAL)
PLANE(plane_i64, uint64_t, ADD_REAL)
PLANE(plane_c128, double _Complex, ADD_COMPLEX)

/* ---- Epilogue -------------------------------------------------------------------------------------------------- */

/* What is done to sums `first` … of one channel of one image: act(scale · sum + residual + bias). */
#define FINISH(name, type)                                                                                             \
    static void name(const dense *d, int64_t image, int64_t channel, int64_t first, int64_t count) {                   \
        const int64_t at = (image * d->c->groups * d->c->out_channels + channel) * d->pixels + first;                  \
        const amp_epilogue *e = &d->c->epilogue;                                                                       \
        const type *residual = d->residual ? (const type *)d->residual + at : NULL;                                    \
        const type scale = d->scale ? ((const type *)d->scale)[channel] : 1;                                           \
        const type bias = d->bias ? ((const type *)d->bias)[channel] : 0;                                              \
        type *y = (type *)d->y + at;                                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const type x = y[i] * scale + (residual ? residual[i] : 0) + bias;                                         \
            y[i] = (type)amp_activate(x, e);                                                                           \
        }                                                                                                              \
    }

FINISH(finish_f32, float)
FINISH(finish_f64, double)

/* ---- Threads --------------------------------------------------------------------------------------------------- */

typedef void finish_function(const dense *d, int64_t image, int64_t channel, int64_t first, int64_t count);

typedef struct functions {
    block_function *block;
    plane_function *plane;
    finish_function *finish; /* NULL: these have no epilogue */
} functions;

static functions functions_of(amp_dtype compute) {
    switch (compute) {
    case AMP_F32: return (functions){block_f32, plane_f32, finish_f32};
    case AMP_F64: return (functions){block_f64, plane_f64, finish_f64};
    case AMP_I64: return (functions){block_i64, plane_i64, NULL};
    default: return (functions){block_c128, plane_c128, NULL};
    }
}

static int threads_for(double macs) {
    return amp_parallel_threads(macs < 1e18 ? (int64_t)macs : (int64_t)1e18, AMP_GRAIN_MACS);
}

/* A channel's outputs are summed by one thread. */
static void run_planes(const dense *d, amp_dtype compute) {
    const amp_conv *c = d->c;
    const int64_t planes = c->batch * c->groups * c->out_channels;
    const int threads = threads_for((double)planes * ((double)d->k * (double)d->in_pixels + (double)d->pixels));
    const functions f = functions_of(compute);
    const int64_t channels = c->groups * c->out_channels;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < planes; i++) {
        f.plane(d, i / channels, i / c->out_channels % c->groups, i % c->out_channels);
        if (d->fused && f.finish) f.finish(d, i / channels, i % channels, 0, d->pixels);
    }
}

/* Every thread has its own columns; a block's sums are made by one thread. */
static amp_status run_blocks(const amp_call *call, const dense *d, amp_dtype compute) {
    const amp_conv *c = d->c;
    const int64_t blocks = (d->pixels + PIXELS - 1) / PIXELS, images = c->batch * c->groups;
    const int threads = threads_for((double)images * (double)d->pixels * (double)c->out_channels * (double)(d->k + 1));
    const size_t bytes = (size_t)(d->k * PIXELS) * amp_dtype_size(compute);
    char *columns = amp_alloc((size_t)threads * bytes);
    if (!columns) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for columns of the input", amp_call_name(call));
    const functions f = functions_of(compute);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        const amp_range mine = amp_parallel_part(images * blocks, 1, part, threads);
        for (int64_t i = mine.begin; i < mine.end; i++) {
            const int64_t first = i % blocks * PIXELS, left = d->pixels - first, image = i / blocks;
            const int count = left < PIXELS ? (int)left : PIXELS;
            f.block(d, image / c->groups, image % c->groups, first, count, columns + (size_t)part * bytes);
            for (int64_t o = 0; d->fused && f.finish && o < c->out_channels; o++)
                f.finish(d, image / c->groups, image % c->groups * c->out_channels + o, first, count);
        }
    }
    amp_free(columns);
    return AMP_OK;
}

/* ---- Dense operands ------------------------------------------------------------------------------------------- */

/* An operand's dimensions as the dense arrays have them. */
typedef struct layout {
    int rank;
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
} layout;

static layout image_layout(const amp_conv *c, const amp_conv_image *image, int64_t channels, bool output) {
    layout l = {.rank = 2 + AMP_CONV_AXES,
                .shape = {c->batch, c->groups * channels},
                .strides = {image->batch, image->channel}};
    for (int i = 0; i < AMP_CONV_AXES; i++) {
        l.shape[2 + i] = output ? c->axis[i].out : c->axis[i].in;
        l.strides[2 + i] = image->axis[i];
    }
    return l;
}

static layout weight_layout(const amp_conv *c) {
    layout l = {.rank = 3 + AMP_CONV_AXES,
                .shape = {c->groups, c->out_channels, c->in_channels},
                .strides = {c->w.group, c->w.out, c->w.in}};
    for (int i = 0; i < AMP_CONV_AXES; i++) {
        l.shape[3 + i] = c->axis[i].kernel;
        l.strides[3 + i] = c->w.axis[i];
    }
    return l;
}

static bool is_dense(const layout *l) {
    int64_t stride = 1;
    for (int i = l->rank - 1; i >= 0; i--) {
        if (l->shape[i] != 1 && l->strides[i] != stride) return false;
        stride *= l->shape[i];
    }
    return true;
}

/* The tensor's elements as a dense array of `compute`: its own memory, or a copy in *scratch if `fill`, else room. */
static void *densify(const amp_tensor *t, const layout *l, amp_dtype compute, bool fill, void **scratch) {
    int64_t strides[AMP_MAX_RANK];
    if (t->dtype == compute && is_dense(l)) return amp_tensor_pointer(t);
    int64_t elements = 1;
    for (int i = 0; i < l->rank; i++) elements *= l->shape[i];
    *scratch = amp_alloc((size_t)elements * amp_dtype_size(compute));
    amp_dense_strides(l->rank, l->shape, strides);
    if (*scratch && fill &&
        amp_strided_copy(*scratch, compute, strides, amp_tensor_pointer(t), t->dtype, l->strides, l->rank, l->shape) !=
            AMP_OK)
        return NULL;
    return *scratch;
}

static amp_status store(const amp_tensor *y, const layout *l, amp_dtype compute, const void *values) {
    int64_t strides[AMP_MAX_RANK];
    if (values == amp_tensor_pointer(y)) return AMP_OK;
    amp_dense_strides(l->rank, l->shape, strides);
    return amp_strided_copy(amp_tensor_pointer(y), y->dtype, l->strides, values, compute, strides, l->rank, l->shape);
}

enum { DENSE = 6 }; /* operands */

/* One number for each output channel; NULL where there is no tensor, or no memory. */
static void *densify_channels(const amp_tensor *t, amp_dtype compute, void **scratch) {
    if (!t) return NULL;
    const layout l = {.rank = 1, .shape = {t->shape[0]}, .strides = {t->strides[0]}};
    return densify(t, &l, compute, true, scratch);
}

static amp_status run_dense(const amp_call *call, const amp_conv *c, void *scratch[DENSE]) {
    const amp_dtype compute = amp_compute_dtype(c->y.tensor->dtype);
    const layout x = image_layout(c, &c->x, c->in_channels, false), w = weight_layout(c);
    const layout y = image_layout(c, &c->y, c->out_channels, true);
    dense d = {.c = c, .taps = amp_conv_taps(c), .pixels = amp_conv_pixels(c)};
    d.in_pixels = c->axis[0].in * c->axis[1].in * c->axis[2].in;
    d.k = c->in_channels * d.taps;
    d.x = densify(c->x.tensor, &x, compute, true, &scratch[0]);
    d.w = densify(c->w.tensor, &w, compute, true, &scratch[1]);
    d.y = densify(c->y.tensor, &y, compute, false, &scratch[2]);
    d.bias = densify_channels(c->bias, compute, &scratch[3]);
    d.scale = densify_channels(c->scale, compute, &scratch[4]);
    d.fused = amp_conv_is_fused(c);
    if (c->residual.tensor) {
        const layout r = image_layout(c, &c->residual, c->out_channels, true);
        d.residual = densify(c->residual.tensor, &r, compute, true, &scratch[5]);
    }
    if (!d.x || !d.w || !d.y || (c->bias && !d.bias) || (c->scale && !d.scale) || (c->residual.tensor && !d.residual)) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory to convert the operands to %s", amp_call_name(call),
                        amp_dtype_name(compute));
    }
    if (c->transposed) run_planes(&d, compute);
    if (!c->transposed) AMP_TRY(run_blocks(call, &d, compute));
    return store(c->y.tensor, &y, compute, d.y);
}

/* Of an axis: taps that all outputs ask for by phases (conv_transposed.c), over those that inputs reach. */
static double asked_over_reached(const amp_conv_axis *a) {
    const int64_t step = a->stride / amp_conv_divisor(a->stride, a->dilation);
    const int64_t phases = a->kernel < step ? a->kernel : step, taps = (a->kernel - 1) / step + 1;
    return (double)phases * (double)taps * (double)a->out / (double)a->stride / ((double)a->in * (double)a->kernel);
}

bool amp_conv_suits_loops(const amp_conv *c, amp_dtype dtype) {
    if (amp_compute_dtype(dtype) != AMP_F32) return true;
    if (!c->transposed || amp_conv_taps(c) == 0 || c->axis[0].in * c->axis[1].in * c->axis[2].in == 0) return false;
    return asked_over_reached(&c->axis[0]) * asked_over_reached(&c->axis[1]) * asked_over_reached(&c->axis[2]) > FASTER;
}

amp_status amp_conv_loops(const amp_call *call, const amp_conv *c) {
    void *scratch[DENSE] = {0};
    if (c->y.tensor->dtype == AMP_BOOL)
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; bool has no convolution", amp_call_name(call),
                        amp_describe(c->x.tensor));
    const amp_status status = run_dense(call, c, scratch);
    for (int i = 0; i < DENSE; i++) amp_free(scratch[i]);
    return status;
}
