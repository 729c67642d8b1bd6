/* multi_margin_loss and multilabel_margin_loss: hinge losses between the classes of a sample. Rows of classes are
 * computed in f64, so that a loss is rounded once. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "steps/class_rules.h"
#include "steps/loss_reduction.h"

typedef struct margins {
    int64_t samples, classes;
    const double *x;       /* dense: samples rows of classes */
    const int64_t *target; /* dense */
    const double *weight;  /* of classes, or NULL */
    double margin;
    bool squared;
    double *losses;    /* one for each sample */
    double *is_target; /* the mask of multilabel_margin_loss */
} margins;

static const void *dense_of(const amp_call *call, const amp_tensor *t, amp_dtype dtype) {
    const amp_tensor *dense = amp_cpu_dense(call->op->name, t, dtype, 0);
    return dense ? amp_tensor_pointer(dense) : NULL;
}

static amp_status take(const amp_call *call, margins *m, const amp_tensor *input, const amp_tensor *target,
                       int64_t least) {
    m->x = dense_of(call, input, AMP_F64);
    m->target = m->x ? dense_of(call, target, AMP_I64) : NULL;
    if (!m->target) return amp_pending_error();
    const int64_t n = amp_tensor_elements(target);
    for (int64_t i = 0; i < n; i++) {
        if (m->target[i] >= least && m->target[i] < m->classes) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: element %lld of 'target' is %lld, input has classes 0 to %lld",
                        amp_call_name(call), (long long)i, (long long)m->target[i], (long long)m->classes - 1);
    }
    return AMP_OK;
}

typedef double row_loss(const margins *m, int64_t sample);

/* Losses of all samples as an f64 tensor of that shape. */
static amp_tensor *run(const amp_call *call, margins *m, row_loss *loss, int64_t cost, int rank, const int64_t *shape) {
    amp_tensor *losses = amp_tensor_new(call->op->name, AMP_F64, rank, shape);
    if (!losses) return NULL;
    m->losses = amp_tensor_pointer(losses);
    const int threads = amp_parallel_threads(m->samples * cost, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < m->samples; i++) m->losses[i] = loss(m, i);
    return losses;
}

static amp_status finish(amp_call *call, amp_loss_reduction reduction, const amp_tensor *losses, amp_dtype dtype) {
    const double scale = reduction == AMP_LOSS_MEAN ? 1.0 / (double)amp_tensor_elements(losses) : 1.0;
    return amp_loss_finish(call, reduction, losses, dtype, scale);
}

/* ---- multi_margin_loss ------------------------------------------------------------------------------------------- */

static double multi_margin(const margins *m, int64_t sample) {
    const double *x = m->x + sample * m->classes;
    const int64_t t = m->target[sample];
    const double base = m->margin - x[t];
    double sum = 0.0;
    for (int64_t c = 0; c < m->classes; c++) {
        const double z = base + x[c];
        if (c != t && !(z <= 0.0)) sum += m->squared ? z * z : z;
    }
    return sum * (m->weight ? m->weight[t] : 1.0) / (double)m->classes;
}

amp_status cpu_multi_margin_loss(amp_call *call) {
    const amp_multi_margin_loss_args *a = call->args;
    margins m = {0};
    double p;
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, a->reduction, false, &reduction));
    AMP_TRY(amp_read_multi_margin(call, a, &m.samples, &m.classes, &p, &m.margin));
    m.squared = p == 2.0;
    AMP_TRY(take(call, &m, a->input, a->target, 0));
    if (a->weight) {
        m.weight = dense_of(call, a->weight, AMP_F64);
        if (!m.weight) return amp_pending_error();
    }
    const amp_tensor *losses = run(call, &m, multi_margin, m.classes, a->target->rank, a->target->shape);
    return losses ? finish(call, reduction, losses, a->input->dtype) : amp_pending_error();
}

/* ---- multilabel_margin_loss -------------------------------------------------------------------------------------- */

static double multilabel_margin(const margins *m, int64_t sample) {
    const double *x = m->x + sample * m->classes;
    const int64_t *target = m->target + sample * m->classes;
    double *mask = m->is_target + sample * m->classes, sum = 0.0;
    int64_t targets = 0;
    for (; targets < m->classes && target[targets] >= 0; targets++) mask[target[targets]] = 1.0;
    for (int64_t k = 0; k < targets; k++) {
        const double base = 1.0 - x[target[k]];
        for (int64_t c = 0; c < m->classes; c++) {
            const double z = base + x[c];
            if (mask[c] == 0.0 && !(z <= 0.0)) sum += z;
        }
    }
    return sum / (double)m->classes;
}

/* The loss, and the mask as an f64 tensor. */
static amp_status run_multilabel(amp_call *call, amp_tensor *input, amp_tensor *target, const char *text,
                                 amp_tensor **mask) {
    margins m = {0};
    amp_loss_reduction reduction;
    AMP_TRY(amp_loss_reduction_of(call, text, false, &reduction));
    AMP_TRY(amp_read_multilabel(call, input, target, &m.samples, &m.classes));
    AMP_TRY(take(call, &m, input, target, -1));
    *mask = amp_tensor_new(call->op->name, AMP_F64, input->rank, input->shape);
    if (!*mask) return amp_pending_error();
    m.is_target = memset(amp_tensor_pointer(*mask), 0, (size_t)(m.samples * m.classes) * sizeof *m.is_target);
    const int rank = input->rank == 2;
    const amp_tensor *losses = run(call, &m, multilabel_margin, m.classes * 4, rank, &m.samples);
    return losses ? finish(call, reduction, losses, input->dtype) : amp_pending_error();
}

amp_status cpu_multilabel_margin_loss(amp_call *call) {
    const amp_multilabel_margin_loss_args *a = call->args;
    amp_tensor *mask;
    return run_multilabel(call, a->input, a->target, a->reduction, &mask);
}

amp_status cpu_multilabel_margin_loss_forward(amp_call *call) {
    const amp_multilabel_margin_loss_forward_args *a = call->args;
    amp_tensor *mask;
    AMP_TRY(run_multilabel(call, a->input, a->target, a->reduction, &mask));
    amp_tensor *out = amp_call_output(call, 1, a->input->dtype, a->input->rank, a->input->shape);
    return out ? amp_cpu_copy(out, mask) : amp_pending_error();
}
