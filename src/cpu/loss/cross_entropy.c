/* nll_loss and cross_entropy. A sample is a position of the input without its class dimension: [C], [N, C] or
 * [N, C, d1, …]. cross_entropy never writes the logarithms of its softmax: it keeps one row of classes, or, where the
 * classes of a position lie apart, sums over a tile of neighbouring positions. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/convert/element.h"
#include "cpu/loss/class_targets.h"
#include "cpu/registry/kernels.h"
#include "steps/class_rules.h"
#include "steps/loss_reduction.h"

enum {
    TILE = 256,  /* positions whose classes are walked together */
    RUN = 1024,  /* samples that are picked together */
    ROW_COST = 8 /* simple operations for one class of one sample */
};

typedef struct entropy {
    amp_class_targets of; /* compute: of x, probabilities and losses too */
    int64_t inner;
    const amp_tensor *input;
    const void *x, *probabilities; /* dense; NULL where absent */
    double smoothing;
    amp_tensor *losses; /* dense, of compute type, shaped like the samples */
    char *room;         /* a row of classes for each thread */
    amp_row_function *log_softmax;
    amp_unary_function *exp, *log;
    amp_binary_function *add, *sub, *mul, *maximum;
    amp_reduce_function *sum;
} entropy;

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static amp_status prepare(amp_call *call, entropy *e, const amp_tensor *input, const amp_tensor *weight) {
    const char *op = call->op->name;
    int64_t shape[AMP_MAX_RANK];
    const int rank = amp_sample_shape(input, shape);
    e->of.compute = amp_loss_compute(input->dtype, amp_tensor_elements(input));
    e->of.classes = input->shape[input->rank > 1];
    e->inner = 1;
    for (int d = 2; d < input->rank; d++) e->inner *= input->shape[d];
    AMP_TRY(amp_class_take_weight(call, &e->of, weight));
    e->losses = amp_tensor_new(op, e->of.compute, rank, shape);
    if (!e->losses) return amp_pending_error();
    e->of.samples = amp_tensor_elements(e->losses);
    return AMP_OK;
}

static void put_loss(const entropy *e, int64_t sample, double loss) {
    void *losses = amp_tensor_pointer(e->losses);
    if (e->of.compute == AMP_F64)
        ((double *)losses)[sample] = loss;
    else
        ((float *)losses)[sample] = (float)loss;
}

static amp_status finish(amp_call *call, const entropy *e, amp_loss_reduction reduction, amp_dtype dtype) {
    if (reduction != AMP_LOSS_MEAN) return amp_loss_finish(call, reduction, e->losses, dtype, 1.0);
    double sum;
    AMP_TRY(amp_loss_sum(call, e->losses, &sum));
    return amp_loss_number(call, dtype, sum / e->of.total_weight);
}

/* ---- nll_loss ---------------------------------------------------------------------------------------------------- */

static double element_at(amp_dtype dtype, const char *at) {
    if (dtype == AMP_F32) return (double)*(const float *)(const void *)at;
    if (dtype == AMP_F64) return *(const double *)(const void *)at;
    return amp_element_double(dtype, at);
}

/* Byte offset of class 0 of position `index`, counted over the dimensions from `first` on without that of the
 * classes. */
static int64_t position_offset(const amp_tensor *input, int first, int64_t index) {
    int64_t offset = 0;
    for (int d = input->rank - 1; d >= first; d--) {
        if (d == (input->rank > 1)) continue;
        offset += index % input->shape[d] * input->strides[d];
        index /= input->shape[d];
    }
    return offset * (int64_t)amp_dtype_size(input->dtype);
}

/* The losses of samples [from, to), which are neighbours in the last of their dimensions. */
static void pick_run(const entropy *e, int64_t from, int64_t to, int64_t step) {
    const amp_tensor *input = e->input;
    const amp_dtype dtype = input->dtype;
    const int64_t class_step = input->strides[input->rank > 1] * (int64_t)amp_dtype_size(dtype);
    const char *at = (const char *)amp_tensor_pointer(input) + position_offset(input, 0, from);
    for (int64_t i = from; i < to; i++, at += step) {
        const int64_t t = e->of.index[i];
        put_loss(e, i, t == e->of.ignore ? 0.0 : -amp_class_weight(&e->of, t) * element_at(dtype, at + t * class_step));
    }
}

static void pick_losses(const entropy *e) {
    const amp_tensor *input = e->input;
    const int last = input->rank == 2 ? 0 : input->rank - 1; /* the samples' own last dimension */
    const int64_t row = input->rank > 1 ? input->shape[last] : 1;
    const int64_t step = input->rank > 1 ? input->strides[last] * (int64_t)amp_dtype_size(input->dtype) : 0;
    const int64_t run = row < RUN ? row : RUN, runs = row ? (row + run - 1) / run : 0;
    const int64_t units = row ? e->of.samples / row * runs : 0;
    const int threads = amp_parallel_threads(e->of.samples * ROW_COST, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t from = u / runs * row + u % runs * run, end = (u / runs + 1) * row;
        pick_run(e, from, from + run < end ? from + run : end, step);
    }
}

amp_status cpu_nll_loss(amp_call *call) {
    const amp_nll_loss_args *a = call->args;
    entropy e = {.input = a->input, .of.ignore = a->ignore_index.value};
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(amp_check_classes(call, a->input, a->weight));
    AMP_TRY(prepare(call, &e, a->input, a->weight));
    AMP_TRY(amp_class_take_target(call, &e.of, a->input, a->target));
    amp_block_prepare();
    pick_losses(&e);
    return finish(call, &e, reduction, a->input->dtype);
}

/* ---- cross_entropy: rows of classes ------------------------------------------------------------------------------ */

/* Σ w·ℓ and Σ p·w·ℓ over the classes of a row; `logs` is written over. p may be NULL. */
static void row_sums_f32(const entropy *e, float *logs, const float *p, double *all, double *hit) {
    const int64_t n = e->of.classes;
    if (e->of.weight) e->mul(logs, logs, e->of.weight, n, 0.0F);
    if (e->smoothing > 0.0) *all = e->sum(logs, n);
    for (int64_t c = 0; p && e->inner > 1 && c < n; c++) logs[c] *= p[c * e->inner];
    if (p && e->inner == 1) e->mul(logs, logs, p, n, 0.0F);
    if (p) *hit = e->sum(logs, n);
}
static void row_sums_f64(const entropy *e, const double *logs, const double *p, double *all, double *hit) {
    const double *w = e->of.weight;
    for (int64_t c = 0; c < e->of.classes; c++) {
        const double l = w ? w[c] * logs[c] : logs[c];
        *all += l;
        if (p) *hit += l * p[c * e->inner];
    }
}

/* The loss of a sample from the logarithms of its softmax: −w·ℓ at the target, or −Σ p·w·ℓ over all classes; smoothing
 * moves a share of either to −Σ w·ℓ/C. */
static double row_loss(const entropy *e, int64_t sample, int64_t at, void *logs) {
    const bool wide = e->of.compute == AMP_F64, by_index = e->of.index;
    const int64_t t = by_index ? e->of.index[sample] : 0;
    double hit = 0.0, all = 0.0;
    if (by_index && t == e->of.ignore) return 0.0;
    if (by_index)
        hit = amp_class_weight(&e->of, t) * (wide ? ((const double *)logs)[t] : (double)((const float *)logs)[t]);
    if (wide)
        row_sums_f64(e, logs, by_index ? NULL : (const double *)e->probabilities + at, &all, &hit);
    else if (!by_index || e->smoothing > 0.0)
        row_sums_f32(e, logs, by_index ? NULL : (const float *)e->probabilities + at, &all, &hit);
    const double smooth = e->smoothing > 0.0 ? e->smoothing / (double)e->of.classes * all : 0.0;
    return -((1.0 - e->smoothing) * hit + smooth);
}

static void log_softmax_f64(double *out, const double *x, int64_t step, int64_t n) {
    double max = -INFINITY, sum = 0.0;
    for (int64_t c = 0; c < n; c++) max = x[c * step] > max ? x[c * step] : max;
    for (int64_t c = 0; c < n; c++) sum += exp(x[c * step] - max);
    const double shift = log(sum);
    for (int64_t c = 0; c < n; c++) out[c] = x[c * step] - max - shift;
}

static void run_row(const entropy *e, int64_t sample, void *room) {
    const int64_t at = sample / e->inner * e->of.classes * e->inner + sample % e->inner;
    if (e->of.compute == AMP_F64) {
        log_softmax_f64(room, (const double *)e->x + at, e->inner, e->of.classes);
        put_loss(e, sample, row_loss(e, sample, at, room));
        return;
    }
    const float *x = (const float *)e->x + at;
    float *logs = room;
    for (int64_t c = 0; e->inner > 1 && c < e->of.classes; c++) logs[c] = x[c * e->inner];
    e->log_softmax(logs, e->inner > 1 ? logs : x, e->of.classes);
    put_loss(e, sample, row_loss(e, sample, at, logs));
}

static amp_status run_rows(const amp_call *call, entropy *e) {
    const int wanted = amp_parallel_threads(e->of.samples * e->of.classes * ROW_COST, AMP_GRAIN_ELEMENTS);
    const int threads = wanted > e->of.samples ? (int)e->of.samples : wanted;
    const size_t bytes = ((size_t)e->of.classes * amp_dtype_size(e->of.compute) + 63) / 64 * 64;
    const int64_t room_bytes = (int64_t)bytes * threads;
    amp_tensor *room = amp_tensor_new(call->op->name, AMP_U8, 1, &room_bytes);
    if (!room) return amp_pending_error();
    char *rows = amp_tensor_pointer(room);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < e->of.samples; i++) run_row(e, i, rows + bytes * (size_t)omp_get_thread_num());
    return AMP_OK;
}

/* ---- cross_entropy: tiles of positions --------------------------------------------------------------------------- */

/* n neighbouring positions of one image: largest class, then Σ e^(x − max), class by class. */
static void run_tile(const entropy *e, int64_t first, int64_t n) {
    const float *x = (const float *)e->x + first / e->inner * e->of.classes * e->inner + first % e->inner;
    _Alignas(64) float max[TILE], sum[TILE], part[TILE];
    memcpy(max, x, (size_t)n * sizeof *max);
    for (int64_t c = 1; c < e->of.classes; c++) e->maximum(max, max, x + c * e->inner, n, 0.0F);
    memset(sum, 0, sizeof sum);
    for (int64_t c = 0; c < e->of.classes; c++) {
        e->sub(part, x + c * e->inner, max, n, 0.0F);
        e->exp(part, part, n);
        e->add(sum, sum, part, n, 0.0F);
    }
    e->log(sum, sum, n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = e->of.index[first + i];
        const bool ignored = t == e->of.ignore;
        const float log_likelihood = ignored ? 0.0F : x[t * e->inner + i] - max[i] - sum[i];
        put_loss(e, first + i, ignored ? 0.0 : -amp_class_weight(&e->of, t) * (double)log_likelihood);
    }
}

static void run_tiles(const entropy *e) {
    const int64_t tiles = (e->inner + TILE - 1) / TILE, units = e->of.samples / e->inner * tiles;
    const int threads = amp_parallel_threads(e->of.samples * e->of.classes * ROW_COST, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t u = 0; u < units; u++) {
        const int64_t at = u % tiles * TILE, left = e->inner - at;
        run_tile(e, u / tiles * e->inner + at, left < TILE ? left : TILE);
    }
}

/* ---- cross_entropy ----------------------------------------------------------------------------------------------- */

static amp_status find_kernels(amp_call *call, entropy *e) {
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_LOG_SOFTMAX, AMP_F32, AMP_F32);
    e->exp = (amp_unary_function *)amp_kernel_get(AMP_KERNEL_EXP, AMP_F32, AMP_F32);
    e->log = (amp_unary_function *)amp_kernel_get(AMP_KERNEL_LOG, AMP_F32, AMP_F32);
    e->add = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_ADD, AMP_F32, AMP_F32);
    e->sub = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_SUB, AMP_F32, AMP_F32);
    e->mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    e->sum = (amp_reduce_function *)amp_kernel_get(AMP_KERNEL_SUM, AMP_F32, AMP_F32);
    e->maximum = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MAXIMUM, AMP_F32, AMP_F32);
    if (!kernel || !e->exp || !e->log || !e->add || !e->sub || !e->mul || !e->sum || !e->maximum)
        return amp_pending_error();
    e->log_softmax = (amp_row_function *)kernel->function;
    if (e->of.compute == AMP_F32) call->note.kernel = kernel->name;
    return AMP_OK;
}

static amp_status take_probabilities(const amp_call *call, entropy *e, const amp_tensor *target) {
    AMP_TRY(amp_check_class_probabilities(call, target, e->of.ignore));
    const amp_tensor *dense = amp_cpu_dense(call->op->name, target, e->of.compute, 0);
    if (!dense) return amp_pending_error();
    e->probabilities = amp_tensor_pointer(dense);
    e->of.total_weight = (double)e->of.samples;
    return AMP_OK;
}

amp_status cpu_cross_entropy(amp_call *call) {
    const amp_cross_entropy_args *a = call->args;
    const amp_tensor *input = a->input, *target = a->target;
    entropy e = {.input = input, .of.ignore = a->ignore_index.value, .smoothing = a->label_smoothing};
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(amp_check_classes(call, input, a->weight));
    AMP_TRY(amp_check_smoothing(call, e.smoothing));
    AMP_TRY(prepare(call, &e, input, a->weight));
    const bool alike = amp_same_shape(target, input);
    AMP_TRY(alike ? take_probabilities(call, &e, target) : amp_class_take_target(call, &e.of, input, target));
    AMP_TRY(find_kernels(call, &e));
    const amp_tensor *dense = amp_cpu_dense(call->op->name, input, e.of.compute, 0);
    if (!dense) return amp_pending_error();
    e.x = amp_tensor_pointer(dense);
    if (e.of.samples > 0 && e.of.classes > 0) {
        if (e.of.compute == AMP_F32 && e.inner > 1 && e.of.index && e.smoothing == 0.0)
            run_tiles(&e);
        else
            AMP_TRY(run_rows(call, &e));
    } else {
        memset(amp_tensor_pointer(e.losses), 0, (size_t)e.of.samples * amp_dtype_size(e.of.compute));
    }
    return finish(call, &e, reduction, input->dtype);
}
