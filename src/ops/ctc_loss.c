/* ctc_loss: the negative logarithm of the probability of a label sequence, summed over all its alignments with the
 * input. The states of a target l₁ … l_S are the 2·S + 1 places of itself with a blank before, between and after; α(s)
 * is the logarithm of the probability of all beginnings that end in state s (Graves et al., "Connectionist temporal
 * classification", 2006). In f64, so that the result is rounded once. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/compute_dtype.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cuda/ops/cuda_class_losses.h"
#include "steps/loss_reduction.h"

enum { STATE_COST = 32 }; /* simple operations for one state of one frame */

typedef struct sequences {
    amp_dtype compute;
    int64_t frames, batch, classes; /* of log_probs: T, N, C */
    const void *log_probs;          /* dense, of compute type */
    const int64_t *labels;          /* dense; … */
    int64_t label_count, padded;    /* … rows of `padded` for each sample, or, where that is 0, one after the other */
    const int64_t *frame_counts, *label_counts;
    const int64_t *begins; /* where a sample's labels begin */
    int64_t blank;
    bool zero_infinity;
} sequences;

/* ---- The recursion ----------------------------------------------------------------------------------------------- */

/* log(e^a + e^b + e^c) */
static double log_sum(double a, double b, double c) {
    const double high = a > b ? a : b, low = a > b ? b : a;
    const double max = high > c ? high : c, middle = high > c ? c : high;
    if (max == -INFINITY) return max;
    return max + log1p(exp(middle - max) + exp(low - max));
}

typedef struct sample {
    const sequences *q;
    int64_t n, states;
    const int64_t *labels;
    double *alpha;
} sample;

static int64_t label_of(const sample *p, int64_t state) {
    return state % 2 ? p->labels[state / 2] : p->q->blank;
}

static double log_prob(const sample *p, int64_t frame, int64_t state) {
    const sequences *q = p->q;
    const int64_t at = (frame * q->batch + p->n) * q->classes + label_of(p, state);
    return q->compute == AMP_F64 ? ((const double *)q->log_probs)[at] : (double)((const float *)q->log_probs)[at];
}

/* α of a frame from that of the frame before, in place: from the last state down, for those alone that the first frames
 * can have reached, and from which the end can be. */
static void step(const sample *p, int64_t frame, int64_t frames) {
    double *alpha = p->alpha;
    const int64_t reached = 2 * (frame + 1) < p->states ? 2 * (frame + 1) : p->states;
    const int64_t left = p->states - 2 * (frames - frame), from = left > 0 ? left : 0;
    for (int64_t s = reached - 1; s >= from; s--) {
        const bool skips = s % 2 && s > 1 && p->labels[s / 2] != p->labels[s / 2 - 1];
        const double before = log_sum(alpha[s], s > 0 ? alpha[s - 1] : -INFINITY, skips ? alpha[s - 2] : -INFINITY);
        alpha[s] = before + log_prob(p, frame, s);
    }
}

static double sample_loss(const sequences *q, int64_t n, double *alpha) {
    const int64_t frames = q->frame_counts[n], count = q->label_counts[n];
    const sample p = {q, n, 2 * count + 1, q->labels + q->begins[n], alpha};
    if (frames == 0) return count == 0 ? 0.0 : INFINITY;
    for (int64_t s = 0; s < p.states; s++) alpha[s] = s < 2 ? log_prob(&p, 0, s) : -INFINITY;
    for (int64_t t = 1; t < frames; t++) step(&p, t, frames);
    return -log_sum(alpha[p.states - 1], count > 0 ? alpha[p.states - 2] : -INFINITY, -INFINITY);
}

/* ---- Arguments --------------------------------------------------------------------------------------------------- */

static amp_status check_integers(const amp_call *call, const char *name, const amp_tensor *t) {
    if (amp_compute_dtype(t->dtype) == AMP_I64 && t->dtype != AMP_BOOL) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected integers", amp_call_name(call), name, amp_describe(t));
}

static amp_status check_lengths(const amp_call *call, const char *name, const amp_tensor *t, int64_t batch) {
    if (amp_tensor_elements(t) == batch && t->rank <= 1) return check_integers(call, name, t);
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected one length for each sample, [%lld]",
                    amp_call_name(call), name, amp_describe(t), (long long)batch);
}

static const int64_t *integers(const amp_call *call, const amp_tensor *t) {
    const amp_tensor *dense = amp_cpu_dense(call->op->name, t, AMP_I64, 0);
    return dense ? amp_tensor_pointer(dense) : NULL;
}

static const int64_t *lengths(const amp_call *call, const char *name, const amp_tensor *t, int64_t batch,
                              int64_t most) {
    const int64_t *values = integers(call, t);
    for (int64_t i = 0; values && i < batch; i++) {
        if (values[i] >= 0 && values[i] <= most) continue;
        amp_fail(AMP_ERROR_INVALID, "%s: element %lld of '%s' is %lld; expected 0 to %lld", amp_call_name(call),
                 (long long)i, name, (long long)values[i], (long long)most);
        return NULL;
    }
    return values;
}

static amp_status check_log_probs(const amp_call *call, const amp_tensor *t, sequences *q) {
    if ((t->rank != 2 && t->rank != 3) || t->shape[t->rank - 1] == 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'log_probs' is %s; expected [T, N, C] or [T, C] with classes",
                        amp_call_name(call), amp_describe(t));
    }
    if (!amp_dtype_is_floating(t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'log_probs' is %s; expected a floating dtype", amp_call_name(call),
                        amp_describe(t));
    }
    q->compute = amp_compute_dtype(t->dtype);
    q->frames = t->shape[0];
    q->batch = t->rank == 3 ? t->shape[1] : 1;
    q->classes = t->shape[t->rank - 1];
    if (q->blank >= 0 && q->blank < q->classes) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'blank' is %lld; expected 0 to %lld", amp_call_name(call),
                    (long long)q->blank, (long long)q->classes - 1);
}

/* Where each sample's labels begin, and that they are classes. */
static amp_status place_labels(const amp_call *call, const amp_tensor *targets, sequences *q) {
    const int64_t n = q->batch;
    amp_tensor *room = amp_tensor_new(call->op->name, AMP_I64, 1, &n);
    if (!room) return amp_pending_error();
    int64_t *begins = amp_tensor_pointer(room), end = 0;
    for (int64_t i = 0; i < n; i++) {
        begins[i] = q->padded ? i * q->padded : end;
        end = begins[i] + q->label_counts[i];
        for (int64_t k = begins[i]; k < end && end <= q->label_count; k++) {
            if (q->labels[k] >= 0 && q->labels[k] < q->classes) continue;
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: element %lld of 'targets' is %lld, 'log_probs' has classes 0 to %lld",
                            amp_call_name(call), (long long)k, (long long)q->labels[k], (long long)q->classes - 1);
        }
    }
    q->begins = begins;
    if (end <= q->label_count) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'targets' is %s; expected as many labels as 'target_lengths' says, %lld",
                    amp_call_name(call), amp_describe(targets), (long long)end);
}

static amp_status check_arguments(const amp_call *call, const amp_ctc_loss_args *a, sequences *q) {
    const amp_tensor *targets = a->targets;
    AMP_TRY(check_log_probs(call, a->log_probs, q));
    const bool rows = targets->rank == 2 && targets->shape[0] == q->batch && a->log_probs->rank == 3;
    if (!rows && targets->rank != 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'targets' is %s, 'log_probs' is %s; expected [N, S], or a vector of all labels",
                        amp_call_name(call), amp_describe(targets), amp_describe(a->log_probs));
    }
    q->label_count = amp_tensor_elements(targets);
    q->padded = rows ? targets->shape[1] : 0;
    AMP_TRY(check_integers(call, "targets", targets));
    AMP_TRY(check_lengths(call, "input_lengths", a->input_lengths, q->batch));
    return check_lengths(call, "target_lengths", a->target_lengths, q->batch);
}

static amp_status take_arguments(const amp_call *call, const amp_ctc_loss_args *a, sequences *q) {
    const amp_tensor *targets = a->targets, *dense = amp_cpu_dense(call->op->name, a->log_probs, q->compute, 0);
    if (!dense) return amp_pending_error();
    q->log_probs = amp_tensor_pointer(dense);
    q->labels = integers(call, targets);
    q->frame_counts = q->labels ? lengths(call, "input_lengths", a->input_lengths, q->batch, q->frames) : NULL;
    const int64_t most = q->padded ? q->padded : q->label_count;
    q->label_counts = q->frame_counts ? lengths(call, "target_lengths", a->target_lengths, q->batch, most) : NULL;
    return q->label_counts ? place_labels(call, targets, q) : amp_pending_error();
}

/* ---- The op ------------------------------------------------------------------------------------------------------ */

/* The losses of all samples; for a mean, each over the length of its target first. */
static amp_status run(const amp_call *call, const sequences *q, bool mean, double *losses) {
    int64_t longest = 0;
    for (int64_t n = 0; n < q->batch; n++) longest = q->label_counts[n] > longest ? q->label_counts[n] : longest;
    const int64_t states = (2 * longest + 1 + 7) / 8 * 8, work = q->batch * q->frames * states * STATE_COST;
    const int threads = amp_parallel_threads(work, AMP_GRAIN_ELEMENTS);
    const int64_t shape[2] = {threads, states};
    amp_tensor *room = amp_tensor_new(call->op->name, AMP_F64, 2, shape);
    if (!room) return amp_pending_error();
    double *alphas = amp_tensor_pointer(room);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(dynamic)
    for (int64_t n = 0; n < q->batch; n++) {
        double loss = sample_loss(q, n, alphas + states * omp_get_thread_num());
        if (q->zero_infinity && loss == INFINITY) loss = 0.0;
        losses[n] = mean ? loss / (double)(q->label_counts[n] > 0 ? q->label_counts[n] : 1) : loss;
    }
    return AMP_OK;
}

amp_status cpu_ctc_loss(amp_call *call) {
    const amp_ctc_loss_args *a = call->args;
    sequences q = {.blank = a->blank, .zero_infinity = a->zero_infinity};
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(check_arguments(call, a, &q));
    const int rank = a->log_probs->rank == 3;
    const bool mean = reduction == AMP_LOSS_MEAN;
    amp_tensor *losses = amp_backend_tensor(call->device, call->op->name, AMP_F64, rank, &q.batch);
    if (!losses) return amp_pending_error();
    if (call->device == AMP_DEVICE_CUDA) {
        AMP_TRY(amp_cuda_align(call, a, q.padded, mean, losses));
    } else {
        AMP_TRY(take_arguments(call, a, &q));
        AMP_TRY(run(call, &q, mean, amp_tensor_pointer(losses)));
    }
    return amp_loss_finish(call, reduction, losses, a->log_probs->dtype, mean ? 1.0 / (double)q.batch : 1.0);
}
