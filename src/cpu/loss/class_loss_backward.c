/* Gradients of cross_entropy and nll_loss for their input. A sample is a position of the input without its class
 * dimension. That of cross_entropy is A·softmax(x) − B, made in one pass over the sample's classes: with s the gradient
 * of its loss and α the smoothing, B[c] = s·w[c]·p[c] of probabilities p, smoothed; of a class index t it is s·((1 −
 * α)·w[t] at t, + α/C·w[c]); A = Σ B. Of nll_loss it is −s·w[t] at t, and 0 elsewhere.
 *
 * Rows of classes lie side by side; of images a tile of neighbouring positions is taken class by class. Numbers of 16
 * bits are f32 in a buffer of the thread, and rounded once. Each sample is computed by itself: the same bits for any
 * number of threads. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/compute_dtype.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/loss/class_targets.h"
#include "cpu/registry/kernels.h"
#include "steps/class_rules.h"
#include "steps/loss_reduction.h"

enum {
    TILE = 256,              /* positions whose classes are walked together, at most … */
    TILE_ELEMENTS = 1 << 16, /* … and elements of their classes */
    ROW_COST = 8
};

typedef struct slopes {
    amp_class_targets of;
    int64_t inner;             /* neighbours with the same class: elements between the classes of a sample */
    const amp_tensor *x;       /* dense, of the dtype of … */
    amp_tensor *out;           /* … this one, dense too */
    const void *probabilities; /* dense, of the compute type; NULL: targets are indices */
    const void *gradients;     /* dense, of the compute type; one, or one for each sample */
    bool is_each;
    double smoothing, all_weights; /* Σ w */
    double each;                   /* the gradient of each sample's loss, where it is one number … */
    char alike[8]; /* … and where classes weigh the same what nll_loss has of it at the target, in the output's dtype */
    amp_row_function *softmax;
    amp_softmax_columns_function *columns;
    amp_binary_function *mul;
} slopes;

/* ---- One sample --------------------------------------------------------------------------------------------------- */
static double number(const slopes *s, const void *numbers, int64_t i) {
    return s->of.compute == AMP_F64 ? ((const double *)numbers)[i] : (double)((const float *)numbers)[i];
}

/* The gradient of a sample's loss, 0 where it is ignored. */
static double gradient_of(const slopes *s, int64_t sample) {
    if (s->of.index && s->of.index[sample] == s->of.ignore) return 0.0;
    return s->is_each ? number(s, s->gradients, sample) : s->each;
}

static double smooth(const slopes *s, double p) {
    return (1.0 - s->smoothing) * p + s->smoothing / (double)s->of.classes;
}

/* B of a class, for probabilities. */
static double share(const slopes *s, double gradient, int64_t at, int64_t c) {
    return gradient * amp_class_weight(&s->of, c) * smooth(s, number(s, s->probabilities, at + c * s->inner));
}

/* A. `at`: of the sample's first class. */
static double factor_of(const slopes *s, double gradient, int64_t sample, int64_t at) {
    if (s->probabilities) {
        double sum = 0.0;
        for (int64_t c = 0; c < s->of.classes; c++) sum += share(s, gradient, at, c);
        return sum;
    }
    if (gradient == 0.0) return 0.0; /* an ignored one names no class */
    const double hard = (1.0 - s->smoothing) * amp_class_weight(&s->of, s->of.index[sample]);
    return gradient * (hard + s->smoothing / (double)s->of.classes * s->all_weights);
}

/* Takes B from the sample's classes, `step` elements apart. */
#define DEFINE_TAKE(type)                                                                                              \
    static void take_##type(const slopes *s, type *y, int64_t step, int64_t sample, int64_t at, double gradient) {     \
        const double part = gradient * s->smoothing / (double)s->of.classes;                                           \
        for (int64_t c = 0; s->probabilities && c < s->of.classes; c++)                                                \
            y[c * step] = (type)((double)y[c * step] - share(s, gradient, at, c));                                     \
        if (s->probabilities || gradient == 0.0) return;                                                               \
        const int64_t t = s->of.index[sample];                                                                         \
        const double hard = gradient * (1.0 - s->smoothing) * amp_class_weight(&s->of, t);                             \
        y[t * step] = (type)((double)y[t * step] - hard);                                                              \
        for (int64_t c = 0; part != 0.0 && c < s->of.classes; c++)                                                     \
            y[c * step] = (type)((double)y[c * step] - part * amp_class_weight(&s->of, c));                            \
    }
DEFINE_TAKE(float)
DEFINE_TAKE(double)

/* The sample's first class. */
static int64_t start_of(const slopes *s, int64_t sample) {
    return sample / s->inner * s->of.classes * s->inner + sample % s->inner;
}

/* ---- Rows --------------------------------------------------------------------------------------------------------- */
static void softmax_f64(double *y, int64_t n, double factor) {
    double max = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < n; c++) max = y[c] > max ? y[c] : max;
    for (int64_t c = 0; c < n; c++) sum += y[c] = exp(y[c] - max);
    for (int64_t c = 0; c < n; c++) y[c] = factor * (y[c] / sum);
}

/* `buffer` has room for a row; what lies dense in the compute type is written where it is to lie. */
static void run_row(const slopes *s, int64_t sample, void *buffer) {
    const int64_t n = s->of.classes, at = start_of(s, sample), size = (int64_t)amp_dtype_size(s->x->dtype);
    const char *from = (const char *)amp_tensor_pointer(s->x) + at * size;
    char *to = (char *)amp_tensor_pointer(s->out) + at * size;
    const double gradient = gradient_of(s, sample), factor = factor_of(s, gradient, sample, at);
    const bool is_direct = s->inner == 1 && s->x->dtype == s->of.compute;
    void *y = is_direct ? to : buffer;
    if (!is_direct || s->of.compute == AMP_F64) amp_block_load(s->of.compute, y, s->x->dtype, from, s->inner * size, n);
    if (s->of.compute == AMP_F64) {
        softmax_f64(y, n, factor);
        take_double(s, y, 1, sample, at, gradient);
    } else {
        s->softmax(y, is_direct ? (const void *)from : y, n);
        s->mul(y, y, NULL, n, (float)factor);
        take_float(s, y, 1, sample, at, gradient);
    }
    if (!is_direct) amp_block_store(s->of.compute, y, s->x->dtype, to, s->inner * size, n);
}

static int threads_for(const slopes *s, int64_t units) {
    const int threads = amp_parallel_threads(s->of.samples * s->of.classes * ROW_COST, AMP_GRAIN_ELEMENTS);
    return threads > units ? (int)units : threads;
}

/* Rooms of `bytes` for each of so many threads. */
static char *make_rooms(const amp_call *call, size_t bytes, int threads) {
    char *rooms = amp_alloc(bytes * (size_t)threads);
    if (!rooms) (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory for rows of classes", amp_call_name(call));
    return rooms;
}

static amp_status run_rows(const amp_call *call, const slopes *s) {
    const int threads = threads_for(s, s->of.samples);
    const size_t bytes = ((size_t)s->of.classes * amp_dtype_size(s->of.compute) + 63) / 64 * 64;
    char *rooms = make_rooms(call, bytes, threads);
    if (!rooms) return amp_pending_error();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < s->of.samples; i++) run_row(s, i, rooms + bytes * (size_t)omp_get_thread_num());
    amp_free(rooms);
    return AMP_OK;
}

/* ---- Tiles of positions ------------------------------------------------------------------------------------------- */
typedef struct tile {
    float *y;               /* a row for each class … */
    int64_t step, first, n; /* … so many elements on; samples first … first + n - 1 */
    float *terms;           /* the softmax's own */
    float factor[TILE];
    double gradient[TILE];
} tile;

static void load_tile(const slopes *s, const tile *t, int64_t at) {
    const int64_t size = (int64_t)amp_dtype_size(s->x->dtype);
    const char *from = (const char *)amp_tensor_pointer(s->x) + at * size;
    for (int64_t c = 0; c < s->of.classes; c++)
        amp_block_load(AMP_F32, t->y + c * t->step, s->x->dtype, from + c * s->inner * size, size, t->n);
}
static void store_tile(const slopes *s, const tile *t, int64_t at) {
    const int64_t size = (int64_t)amp_dtype_size(s->x->dtype);
    char *to = (char *)amp_tensor_pointer(s->out) + at * size;
    for (int64_t c = 0; c < s->of.classes; c++)
        amp_block_store(AMP_F32, t->y + c * t->step, s->x->dtype, to + c * s->inner * size, size, t->n);
}

static void run_tile(const slopes *s, tile *t, float *buffer) {
    const int64_t at = start_of(s, t->first);
    const bool is_direct = s->x->dtype == AMP_F32;
    t->y = is_direct ? (float *)amp_tensor_pointer(s->out) + at : buffer;
    t->step = is_direct ? s->inner : t->n;
    if (!is_direct) load_tile(s, t, at);
    const float *from = is_direct ? (const float *)amp_tensor_pointer(s->x) + at : t->y;
    const int64_t stride = t->step * (int64_t)sizeof *from;
    s->columns(t->y, stride, from, stride, s->of.classes, t->n, t->terms);
    for (int64_t i = 0; i < t->n; i++) {
        t->gradient[i] = gradient_of(s, t->first + i);
        t->factor[i] = (float)factor_of(s, t->gradient[i], t->first + i, at + i);
    }
    for (int64_t c = 0; c < s->of.classes; c++) s->mul(t->y + c * t->step, t->y + c * t->step, t->factor, t->n, 0.0F);
    for (int64_t i = 0; i < t->n; i++) take_float(s, t->y + i, t->step, t->first + i, at + i, t->gradient[i]);
    if (!is_direct) store_tile(s, t, at);
}

static amp_status run_tiles(const amp_call *call, const slopes *s) {
    const int64_t fit = TILE_ELEMENTS / s->of.classes, wide = fit < 16 ? 16 : fit < TILE ? fit : TILE;
    const int64_t tiles = (s->inner + wide - 1) / wide, units = s->of.samples / s->inner * tiles;
    const int threads = threads_for(s, units);
    const size_t terms = (size_t)s->of.classes * AMP_SOFTMAX_COLUMNS, rows = (size_t)(s->of.classes * wide);
    const size_t bytes = ((terms + rows) * sizeof(float) + 63) / 64 * 64;
    char *rooms = make_rooms(call, bytes, threads);
    if (!rooms) return amp_pending_error();
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t at = u % tiles * wide, left = s->inner - at;
        float *room = (float *)(void *)(rooms + bytes * (size_t)omp_get_thread_num());
        tile t = {.first = u / tiles * s->inner + at, .n = left < wide ? left : wide, .terms = room};
        run_tile(s, &t, room + terms);
    }
    amp_free(rooms);
    return AMP_OK;
}

/* ---- Arguments ---------------------------------------------------------------------------------------------------- */
/* The gradient of a loss: a number, or with "none" one for each sample. */
static amp_status take_gradient(const amp_call *call, slopes *s, const amp_tensor *input, const amp_tensor *gradient,
                                bool is_each) {
    int64_t shape[AMP_MAX_RANK];
    const int rank = is_each ? amp_sample_shape(input, shape) : 0;
    AMP_TRY(amp_call_check_shape(call, "grad_output", gradient, rank, shape));
    if (!amp_dtype_is_floating(gradient->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'grad_output' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(gradient));
    }
    const amp_tensor *dense = amp_cpu_dense(call->op->name, gradient, s->of.compute, 0);
    if (!dense) return amp_pending_error();
    s->gradients = amp_tensor_pointer(dense);
    s->is_each = is_each;
    return AMP_OK;
}

static amp_status take_input(amp_call *call, slopes *s, const amp_tensor *input, const amp_tensor *weight) {
    int64_t shape[AMP_MAX_RANK];
    AMP_TRY(amp_check_classes(call, input, weight));
    s->of.compute = amp_loss_compute(input->dtype, amp_tensor_elements(input));
    s->of.classes = input->shape[input->rank > 1];
    s->of.samples = 1;
    const int rank = amp_sample_shape(input, shape);
    for (int d = 0; d < rank; d++) s->of.samples *= shape[d];
    s->inner = 1;
    for (int d = 2; d < input->rank; d++) s->inner *= input->shape[d];
    AMP_TRY(amp_class_take_weight(call, &s->of, weight));
    for (int64_t c = 0; c < s->of.classes; c++) s->all_weights += amp_class_weight(&s->of, c);
    amp_block_prepare();
    return AMP_OK;
}

static amp_status take_probabilities(const amp_call *call, slopes *s, const amp_tensor *target) {
    AMP_TRY(amp_check_class_probabilities(call, target, s->of.ignore));
    const amp_tensor *dense = amp_cpu_dense(call->op->name, target, s->of.compute, 0);
    if (!dense) return amp_pending_error();
    s->probabilities = amp_tensor_pointer(dense);
    s->of.total_weight = (double)s->of.samples;
    return AMP_OK;
}

/* A mean's is one number: the reduction is known to the samples as that alone. */
static void divide(slopes *s, amp_loss_reduction reduction) {
    const double divisor = reduction == AMP_LOSS_MEAN ? s->of.total_weight : 1.0;
    if (!s->is_each) s->each = number(s, s->gradients, 0) / divisor;
}

static amp_status make_output(amp_call *call, slopes *s, const amp_tensor *input) {
    s->out = amp_call_dense_output(call, input->dtype, input->rank, input->shape);
    return s->out ? AMP_OK : amp_pending_error();
}

/* ---- The ops ------------------------------------------------------------------------------------------------------ */
static amp_status find_kernels(amp_call *call, slopes *s) {
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_SOFTMAX, AMP_F32, AMP_F32);
    s->columns = (amp_softmax_columns_function *)amp_kernel_get(AMP_KERNEL_SOFTMAX_COLUMNS, AMP_F32, AMP_F32);
    s->mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!kernel || !s->columns || !s->mul) return amp_pending_error();
    s->softmax = (amp_row_function *)kernel->function;
    if (s->of.compute == AMP_F32) call->note.kernel = kernel->name;
    return AMP_OK;
}

amp_status cpu_cross_entropy_backward(amp_call *call) {
    const amp_cross_entropy_backward_args *a = call->args;
    slopes s = {.of.ignore = a->ignore_index.value, .smoothing = a->label_smoothing};
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(amp_check_smoothing(call, s.smoothing));
    AMP_TRY(take_input(call, &s, a->input, a->weight));
    const bool alike = amp_same_shape(a->target, a->input);
    AMP_TRY(alike ? take_probabilities(call, &s, a->target) : amp_class_take_target(call, &s.of, a->input, a->target));
    AMP_TRY(take_gradient(call, &s, a->input, a->grad_output, reduction == AMP_LOSS_NONE));
    divide(&s, reduction);
    AMP_TRY(find_kernels(call, &s));
    s.x = amp_contiguous(a->input);
    if (!s.x) return amp_pending_error();
    AMP_TRY(make_output(call, &s, a->input));
    if (s.of.samples == 0 || s.of.classes == 0) return AMP_OK;
    return s.of.compute == AMP_F32 && s.inner > 1 ? run_tiles(call, &s) : run_rows(call, &s);
}

static void put(const slopes *s, char *first, int64_t sample) {
    const amp_dtype dtype = s->out->dtype;
    const int64_t size = (int64_t)amp_dtype_size(dtype), t = s->of.index[sample];
    const double gradient = gradient_of(s, sample);
    if (gradient == 0.0) return; /* nor is t a class then */
    char *at = first + t * s->inner * size;
    if (!s->is_each && !s->of.weight) {
        memcpy(at, s->alike, (size_t)size);
        return;
    }
    const double value = -gradient * amp_class_weight(&s->of, t);
    amp_block_store(AMP_F64, &value, dtype, at, size, 1);
}

amp_status cpu_nll_loss_backward(amp_call *call) {
    const amp_nll_loss_backward_args *a = call->args;
    slopes s = {.of.ignore = a->ignore_index.value};
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(take_input(call, &s, a->input, a->weight));
    AMP_TRY(amp_class_take_target(call, &s.of, a->input, a->target));
    AMP_TRY(take_gradient(call, &s, a->input, a->grad_output, reduction == AMP_LOSS_NONE));
    divide(&s, reduction);
    AMP_TRY(make_output(call, &s, a->input));
    const amp_scalar zero = amp_int(0);
    AMP_TRY(amp_fill_tensor_with(s.out, &zero));
    const int64_t size = (int64_t)amp_dtype_size(s.out->dtype), image = s.of.classes * s.inner * size;
    char *first = amp_tensor_pointer(s.out);
    amp_block_store(AMP_F64, &(double){-s.each}, s.out->dtype, s.alike, size, 1);
    for (int64_t i = 0; i < s.of.samples; i += s.inner, first += image) {
        for (int64_t k = 0; k < s.inner; k++) put(&s, first + k * size, i + k);
    }
    return AMP_OK;
}
