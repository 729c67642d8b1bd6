/* Losses over classes: a loss for each sample by a kernel, then the reduction. */
#include "cuda/ops/cuda_class_losses.h"

#include "cpu/reduce/reduce.h"
#include "cuda/args/index_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/ops/cuda_elementwise.h"
#include "steps/class_rules.h"
#include "steps/loss_reduction.h"

static amp_status set_dense(const amp_call *call, amp_tensor *t, const void **data, amp_dtype *dtype) {
    if (!t) return AMP_OK;
    amp_tensor *dense = amp_cuda_dense(t);
    *data = dense ? amp_cuda_address(call->op->name, dense) : NULL;
    *dtype = t->dtype;
    return *data ? AMP_OK : amp_pending_error();
}

static int64_t row_blocks(int64_t rows) {
    return rows < 65536 ? rows : 65536;
}

/* Losses of `compute` in the samples' shape, and, for a mean, weights; NULL with an error. */
static amp_tensor *make_losses(const amp_call *call, amp_cuda_classes *a, amp_dtype compute, int rank,
                               const int64_t *shape, amp_tensor **weights) {
    amp_tensor *losses = amp_cuda_temporary(call, compute, rank, shape);
    a->losses = losses ? amp_cuda_address(call->op->name, losses) : NULL;
    if (a->losses && weights) {
        *weights = amp_cuda_temporary(call, compute, rank, shape);
        a->weights = *weights ? amp_cuda_address(call->op->name, *weights) : NULL;
    }
    const bool made = a->losses && (!weights || a->weights);
    return made && amp_cuda_report_of(call->op->name, &a->report) == AMP_OK ? losses : NULL;
}

/* Σ losses / Σ weights, or NaN of nothing. */
static amp_status finish_mean(amp_call *call, amp_tensor *losses, amp_tensor *weights, amp_dtype dtype) {
    amp_tensor *sums[2], *const of[2] = {losses, weights};
    for (int i = 0; i < 2; i++) {
        sums[i] = amp_cuda_temporary(call, AMP_F64, 0, NULL);
        if (!sums[i]) return amp_pending_error();
        const amp_reduce_work work = {.kind = AMP_REDUCE_SUM,
                                      .input = of[i],
                                      .mask = (1u << losses->rank) - 1,
                                      .compute = losses->dtype,
                                      .scale = 1.0,
                                      .root = 1.0};
        AMP_TRY(amp_cpu_reduce(&work, sums[i]));
    }
    amp_tensor *out = amp_call_output(call, 0, dtype, 0, NULL);
    if (!out) return amp_pending_error();
    const amp_operand v[2] = {amp_tensor_operand("losses", sums[0]), amp_tensor_operand("weights", sums[1])};
    return amp_cuda_compute(call, AMP_FORMULA_div, v, 2, AMP_F64, (amp_formula_numbers){0}, out);
}

/* ---- nll_loss and cross_entropy ---------------------------------------------------------------------------------- */
typedef enum class_loss { NLL, CROSS_ENTROPY } class_loss;

static const struct {
    const char *f32, *f64;
    bool by_rows; /* a block for each sample */
} kernels[] = {
    [NLL] = {"nll_f32", "nll_f64", false},
    [CROSS_ENTROPY] = {"cross_entropy_f32", "cross_entropy_f64", true},
};

static amp_status run(amp_call *call, class_loss kind, const amp_cross_entropy_args *l, bool probabilities) {
    const amp_tensor *x = l->input;
    const amp_dtype compute = amp_loss_compute(x->dtype, amp_tensor_elements(x));
    amp_cuda_classes a = {
        .classes = x->shape[x->rank > 1], .inner = 1, .ignore = l->ignore_index.value, .smoothing = l->label_smoothing};
    int64_t shape[AMP_MAX_RANK];
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, l->reduction, false, &reduction));
    for (int d = 2; d < x->rank; d++) a.inner *= x->shape[d];
    AMP_TRY(set_dense(call, l->input, &a.in, &a.in_dtype));
    AMP_TRY(set_dense(call, l->weight, &a.weight, &a.weight_dtype));
    AMP_TRY(set_dense(call, l->target, probabilities ? &a.probabilities : &a.target,
                      probabilities ? &a.probability_dtype : &a.target_dtype));
    const int rank = amp_sample_shape(x, shape);
    amp_tensor *weights = NULL;
    amp_tensor *losses = make_losses(call, &a, compute, rank, shape, reduction == AMP_LOSS_MEAN ? &weights : NULL);
    if (!losses) return amp_pending_error();
    a.samples = amp_tensor_elements(losses);
    AMP_TRY(amp_cuda_launch_over(call->op->name, compute == AMP_F64 ? kernels[kind].f64 : kernels[kind].f32, &a,
                                 kernels[kind].by_rows ? row_blocks(a.samples) : amp_cuda_blocks(a.samples)));
    if (reduction == AMP_LOSS_MEAN) return finish_mean(call, losses, weights, x->dtype);
    return amp_loss_finish(call, reduction, losses, x->dtype, 1.0);
}

amp_status cuda_nll_loss(amp_call *call) {
    const amp_nll_loss_args *a = call->args;
    AMP_TRY(amp_check_classes(call, a->input, a->weight));
    AMP_TRY(amp_check_class_indices(call, a->input, a->target));
    const amp_cross_entropy_args plain = {.input = a->input,
                                          .target = a->target,
                                          .weight = a->weight,
                                          .ignore_index = a->ignore_index,
                                          .reduction = a->reduction};
    return run(call, NLL, &plain, false);
}

amp_status cuda_cross_entropy(amp_call *call) {
    const amp_cross_entropy_args *a = call->args;
    AMP_TRY(amp_check_classes(call, a->input, a->weight));
    AMP_TRY(amp_check_smoothing(call, a->label_smoothing));
    const bool alike = amp_same_shape(a->target, a->input);
    AMP_TRY(alike ? amp_check_class_probabilities(call, a->target, a->ignore_index.value)
                  : amp_check_class_indices(call, a->input, a->target));
    return run(call, CROSS_ENTROPY, a, alike);
}

/* ---- Margins ----------------------------------------------------------------------------------------------------- */
static amp_status run_margins(amp_call *call, amp_tensor *input, amp_tensor *target, const char *kernel,
                              const char *text, int rank, const int64_t *shape, amp_cuda_classes a) {
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, text, false, &reduction));
    AMP_TRY(set_dense(call, input, &a.in, &a.in_dtype));
    AMP_TRY(set_dense(call, target, &a.target, &a.target_dtype));
    amp_tensor *losses = make_losses(call, &a, AMP_F64, rank, shape, NULL);
    if (!losses) return amp_pending_error();
    AMP_TRY(amp_cuda_launch_over(call->op->name, kernel, &a, row_blocks(a.samples)));
    const double scale = reduction == AMP_LOSS_MEAN ? 1.0 / (double)amp_tensor_elements(losses) : 1.0;
    return amp_loss_finish(call, reduction, losses, input->dtype, scale);
}

amp_status cuda_multi_margin_loss(amp_call *call) {
    const amp_multi_margin_loss_args *a = call->args;
    amp_cuda_classes c = {.ignore = INT64_MIN, .inner = 1};
    double p;
    AMP_TRY(amp_read_multi_margin(call, a, &c.samples, &c.classes, &p, &c.margin));
    c.squared = p == 2.0;
    AMP_TRY(set_dense(call, a->weight, &c.weight, &c.weight_dtype));
    return run_margins(call, a->input, a->target, "multi_margin", a->reduction, a->target->rank, a->target->shape, c);
}

amp_status cuda_multilabel_margin_loss(amp_call *call) {
    const amp_multilabel_margin_loss_args *a = call->args;
    amp_cuda_classes c = {.ignore = -1, .inner = 1};
    AMP_TRY(amp_read_multilabel(call, a->input, a->target, &c.samples, &c.classes));
    return run_margins(call, a->input, a->target, "multilabel_margin", a->reduction, a->input->rank == 2, &c.samples,
                       c);
}

/* ---- ctc_loss ---------------------------------------------------------------------------------------------------- */
amp_status amp_cuda_align(const amp_call *call, const amp_ctc_loss_args *args, int64_t padded, bool mean,
                          amp_tensor *losses) {
    const char *op = call->op->name;
    const amp_tensor *x = args->log_probs;
    amp_cuda_alignments a = {.frames = x->shape[0],
                             .batch = amp_tensor_elements(losses),
                             .classes = x->shape[x->rank - 1],
                             .label_count = amp_tensor_elements(args->targets),
                             .padded = padded,
                             .blank = args->blank,
                             .zero_infinity = args->zero_infinity,
                             .mean = mean};
    if (a.batch == 0) return AMP_OK;
    a.states =
        2 * (padded ? padded : a.label_count) + 1; /* the most that a target can have: nobody looks at its length */
    const int64_t shape[] = {a.batch, 2, a.states};
    amp_tensor *alpha = amp_cuda_temporary(call, AMP_F64, 3, shape);
    a.alpha = alpha ? amp_cuda_address(op, alpha) : NULL;
    a.losses = a.alpha ? amp_cuda_address(op, losses) : NULL;
    if (!a.losses) return amp_pending_error();
    AMP_TRY(set_dense(call, args->log_probs, &a.log_probs, &a.dtype));
    AMP_TRY(set_dense(call, args->targets, &a.labels, &a.labels_dtype));
    AMP_TRY(set_dense(call, args->input_lengths, &a.frame_counts, &a.frame_counts_dtype));
    AMP_TRY(set_dense(call, args->target_lengths, &a.label_counts, &a.label_counts_dtype));
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    return amp_cuda_launch_over(op, "ctc", &a, row_blocks(a.batch));
}
