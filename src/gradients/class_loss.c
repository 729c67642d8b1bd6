/* Gradients of losses over classes. */
#include "amp/grad.h"
#include "gradients/pieces.h"

/* Targets that are class indices, and what each counts. */
typedef struct class_targets {
    int dim;             /* of the classes */
    amp_tensor *ignored; /* true where they are */
    amp_tensor *index;   /* the targets; 0 where they are ignored */
    amp_tensor *counted; /* 1, or 0 where they are ignored, in the type of the input */
    amp_tensor *weight;  /* of each target's class; 0 where it is ignored */
} class_targets;

static class_targets targets_of(const amp_tensor *input, amp_tensor *target, amp_tensor *weight, int64_t ignore_index) {
    class_targets t = {.dim = input->rank == 1 ? 0 : 1, .ignored = amp_eq_scalar(target, amp_int(ignore_index))};
    t.index = amp_masked_fill(target, t.ignored, amp_int(0));
    t.counted = amp_to(amp_logical_not(t.ignored), input->dtype);
    t.weight = t.counted;
    if (!weight || !t.index) return t;
    amp_tensor *chosen = amp_index_select(weight, 0, amp_reshape(t.index, AMP_DIMS(-1)));
    t.weight = amp_mul(amp_reshape(chosen, amp_shape_of(target)), t.counted);
    return t;
}

/* The gradient of each target's loss: a mean is over what they count. */
static amp_tensor *by_target(const amp_gradient *g, const char *reduction, const class_targets *t) {
    return strcmp(reduction, "mean") == 0 ? amp_div(g->of[0], amp_sum(t->weight)) : g->of[0];
}

/* A mean over none has NaN for its gradient; what is ignored has 0 all the same. */
static amp_tensor *without_ignored(amp_tensor *values, const class_targets *t) {
    return amp_masked_fill(values, t->ignored, amp_int(0));
}

/* −value at each target's class, 0 elsewhere. */
static amp_tensor *at_classes(const amp_gradient *g, const amp_tensor *input, const class_targets *t,
                              amp_tensor *values) {
    amp_tensor *zeros =
        amp_zeros(amp_shape_of(input), .dtype = values ? values->dtype : input->dtype, .device = (int)g->device);
    return amp_scatter(zeros, t->dim, amp_unsqueeze(t->index, t->dim), amp_unsqueeze(amp_neg(values), t->dim));
}

/* In one pass on the CPU; where the gradient is itself recorded, and on other devices, of other ops. */
static bool is_fused(const amp_gradient *g) {
    return g->device == AMP_DEVICE_CPU && !amp_grad_is_enabled();
}

void amp_gradient_nll_loss(amp_gradient *g) {
    const amp_nll_loss_args *a = g->args;
    if (is_fused(g)) {
        amp_gradient_give(g, &a->input,
                          amp_nll_loss_backward(g->of[0], a->input, a->target, .weight = a->weight,
                                                .ignore_index = a->ignore_index, .reduction = a->reduction));
        return;
    }
    const class_targets t = targets_of(a->input, a->target, a->weight, a->ignore_index.value);
    amp_tensor *values = without_ignored(amp_mul(t.weight, by_target(g, a->reduction, &t)), &t);
    amp_gradient_give(g, &a->input, at_classes(g, a->input, &t, values));
}

/* ---- cross_entropy ------------------------------------------------------------------------------------------------ */
/* A weight for each class, as it broadcasts to the input. */
static amp_tensor *along_classes(amp_tensor *weight, const amp_tensor *input, int dim) {
    amp_dims shape = {.count = input->rank, .set = AMP_PRESENT};
    for (int i = 0; i < input->rank; i++) shape.values[i] = i == dim ? -1 : 1;
    return amp_reshape(weight, shape);
}

/* By the logarithms of the probabilities, where targets are indices: the target's class, and with smoothing all of
 * them. */
static amp_tensor *by_logs_of_indices(const amp_gradient *g, const amp_cross_entropy_args *a) {
    const class_targets t = targets_of(a->input, a->target, a->weight, a->ignore_index.value);
    const double smoothing = a->label_smoothing;
    amp_tensor *back = by_target(g, a->reduction, &t);
    amp_tensor *values = without_ignored(amp_mul(t.weight, back), &t);
    if (smoothing == 0) return at_classes(g, a->input, &t, values);
    amp_tensor *hard = at_classes(g, a->input, &t, amp_mul_scalar(values, amp_float(1 - smoothing)));
    const double share = -smoothing / (double)a->input->shape[t.dim];
    amp_tensor *rows = without_ignored(amp_mul(t.counted, back), &t);
    amp_tensor *all = amp_unsqueeze(amp_mul_scalar(rows, amp_float(share)), t.dim);
    if (a->weight) all = amp_mul(all, along_classes(a->weight, a->input, t.dim));
    return amp_add(hard, all);
}

static amp_tensor *weighted(amp_tensor *t, const amp_cross_entropy_args *a, int dim) {
    return a->weight ? amp_mul(t, along_classes(a->weight, a->input, dim)) : t;
}

/* The gradient of each row's loss, which has the classes' dimension: a mean is over rows. */
static amp_tensor *by_row(const amp_gradient *g, const amp_cross_entropy_args *a, int dim) {
    if (strcmp(a->reduction, "none") == 0) return amp_unsqueeze(g->of[0], dim);
    if (strcmp(a->reduction, "sum") == 0) return g->of[0];
    const int64_t classes = a->input->shape[dim];
    return amp_div_scalar(g->of[0], amp_float((double)amp_tensor_elements(a->input) / (double)(classes ? classes : 1)));
}

static amp_tensor *smoothed(const amp_cross_entropy_args *a, int dim) {
    if (a->label_smoothing == 0) return a->target;
    const double share = a->label_smoothing / (double)a->input->shape[dim];
    return amp_add_scalar(amp_mul_scalar(a->target, amp_float(1 - a->label_smoothing)), amp_float(share));
}

static amp_tensor *by_logs_of_probabilities(const amp_gradient *g, const amp_cross_entropy_args *a, int dim) {
    return amp_neg(weighted(amp_mul(smoothed(a, dim), by_row(g, a, dim)), a, dim));
}

/* All dimensions but that of the classes summed. */
static amp_tensor *by_class(amp_tensor *t, int dim) {
    amp_dims others = {.set = AMP_PRESENT};
    for (int i = 0; t && i < t->rank; i++) {
        if (i != dim) others.values[others.count++] = i;
    }
    return others.count > 0 ? amp_sum(t, .dim = others) : t;
}

/* Of probabilities, and of the classes' weights beside them. */
static void give_probabilities(amp_gradient *g, const amp_cross_entropy_args *a, int dim) {
    amp_tensor *logs = amp_mul(amp_log_softmax(a->input, dim), by_row(g, a, dim));
    if (amp_gradient_wants(g, &a->target))
        amp_gradient_give(g, &a->target, weighted(amp_mul_scalar(logs, amp_float(a->label_smoothing - 1)), a, dim));
    if (amp_gradient_wants(g, &a->weight))
        amp_gradient_give(g, &a->weight, amp_neg(by_class(amp_mul(logs, smoothed(a, dim)), dim)));
}

static amp_tensor *composed(const amp_gradient *g, const amp_cross_entropy_args *a, int dim, bool has_indices) {
    amp_tensor *logs = has_indices ? by_logs_of_indices(g, a) : by_logs_of_probabilities(g, a, dim);
    amp_tensor *sums = amp_sum(logs, .dim = AMP_DIMS(dim), .keepdim = true);
    return amp_sub(logs, amp_mul(amp_softmax(a->input, dim), sums));
}

static amp_tensor *fused(const amp_gradient *g, const amp_cross_entropy_args *a) {
    return amp_cross_entropy_backward(g->of[0], a->input, a->target, .weight = a->weight,
                                      .ignore_index = a->ignore_index, .reduction = a->reduction,
                                      .label_smoothing = a->label_smoothing);
}

void amp_gradient_cross_entropy(amp_gradient *g) {
    const amp_cross_entropy_args *a = g->args;
    const int dim = a->input->rank == 1 ? 0 : 1;
    const bool has_indices = !amp_dtype_is_floating(a->target->dtype);
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, is_fused(g) ? fused(g, a) : composed(g, a, dim, has_indices));
    if (!has_indices) give_probabilities(g, a, dim);
}
