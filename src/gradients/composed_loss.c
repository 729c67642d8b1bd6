/* Gradients of losses that are made of other ops, as PyTorch makes them: its choices at kinks follow. */
#include <math.h>
#include <string.h>

#include "gradients/again.h"

static amp_tensor *at_least_zero(amp_tensor *t) {
    return amp_clamp(t, .min = amp_int(0));
}

/* The losses where the label is one thing, 0 elsewhere. */
static amp_tensor *where_label(amp_tensor *target, int label, amp_tensor *losses) {
    return amp_where_scalar_other(amp_eq_scalar(target, amp_int(label)), losses, amp_int(0));
}

static amp_tensor *unless_label(amp_tensor *target, int label, amp_tensor *losses) {
    return amp_masked_fill(losses, amp_eq_scalar(target, amp_int(label)), amp_int(0));
}

static void compose_kl_div(const void *args, amp_tensor **results) {
    const amp_kl_div_args *a = args;
    amp_tensor *losses = a->log_target ? amp_mul(amp_exp(a->target), amp_sub(a->target, a->input))
                                       : amp_sub(amp_xlogy(a->target, a->target), amp_mul(a->target, a->input));
    const bool by_batch = strcmp(a->reduction, "batchmean") == 0;
    results[0] = by_batch ? amp_div_scalar(amp_sum(losses), amp_int(amp_tensor_size(a->input, 0)))
                          : amp_reduce_losses(losses, a->reduction);
}
AMP_GRADIENT_AGAIN(kl_div)

/* Stirling's y log y − y + ½ log 2πy, of counts above 1. */
static amp_tensor *stirling(amp_tensor *y) {
    amp_tensor *last =
        amp_mul_scalar(amp_log(amp_mul_scalar(y, amp_float(2.0 * 3.14159265358979323846))), amp_float(0.5));
    amp_tensor *all = amp_add(amp_sub(amp_mul(y, amp_log(y)), y), last);
    return amp_masked_fill(all, amp_le_scalar(y, amp_int(1)), amp_int(0));
}

static void compose_poisson_nll_loss(const void *args, amp_tensor **results) {
    const amp_poisson_nll_loss_args *a = args;
    amp_tensor *x = a->input, *y = a->target;
    const bool is_log = !a->log_input.set || a->log_input.value;
    amp_tensor *losses = is_log ? amp_sub(amp_exp(x), amp_mul(y, x))
                                : amp_sub(x, amp_mul(y, amp_log(amp_add_scalar(x, amp_float(a->eps.value)))));
    results[0] = amp_reduce_losses(a->full ? amp_add(losses, stirling(y)) : losses, a->reduction);
}
AMP_GRADIENT_AGAIN(poisson_nll_loss)

/* A variance for each row has one dimension less than the input. */
static amp_tensor *variances(const amp_gaussian_nll_loss_args *a) {
    const amp_tensor *x = a->input, *v = a->var;
    const bool by_row =
        v->rank > 0 && v->rank == x->rank - 1 && memcmp(v->shape, x->shape, (size_t)v->rank * sizeof *v->shape) == 0;
    return by_row ? amp_unsqueeze(a->var, -1) : a->var;
}

static void compose_gaussian_nll_loss(const void *args, amp_tensor **results) {
    const amp_gaussian_nll_loss_args *a = args;
    amp_tensor *v = amp_clamp_unrecorded(variances(a), a->eps.value);
    amp_tensor *squares = amp_square(amp_sub(a->input, a->target));
    amp_tensor *losses = amp_mul_scalar(amp_add(amp_log(v), amp_div(squares, v)), amp_float(0.5));
    results[0] = amp_reduce_losses(losses, a->reduction);
}
AMP_GRADIENT_AGAIN(gaussian_nll_loss)

/* The norms are at least 1e-6, by what is added to their squares. */
static void compose_cosine_embedding_loss(const void *args, amp_tensor **results) {
    const amp_cosine_embedding_loss_args *a = args;
    const amp_dims along = AMP_DIMS(-1);
    amp_tensor *product = amp_sum(amp_mul(a->input1, a->input2), .dim = along);
    amp_tensor *first = amp_add_scalar(amp_sum(amp_mul(a->input1, a->input1), .dim = along), amp_float(1e-12));
    amp_tensor *second = amp_add_scalar(amp_sum(amp_mul(a->input2, a->input2), .dim = along), amp_float(1e-12));
    amp_tensor *cosine = amp_div(product, amp_sqrt(amp_mul(first, second)));
    amp_tensor *alike = amp_add_scalar(amp_neg(cosine), amp_int(1));
    amp_tensor *unlike = at_least_zero(amp_add_scalar(cosine, amp_float(-a->margin)));
    amp_tensor *losses = amp_add(where_label(a->target, 1, alike), where_label(a->target, -1, unlike));
    results[0] = amp_reduce_losses(losses, a->reduction);
}
AMP_GRADIENT_AGAIN(cosine_embedding_loss)

static void compose_hinge_embedding_loss(const void *args, amp_tensor **results) {
    const amp_hinge_embedding_loss_args *a = args;
    amp_tensor *below = at_least_zero(amp_add_scalar(amp_neg(a->input), amp_float(a->margin.value)));
    amp_tensor *losses = amp_add(unless_label(a->target, 1, below), unless_label(a->target, -1, a->input));
    results[0] = amp_reduce_losses(losses, a->reduction);
}
AMP_GRADIENT_AGAIN(hinge_embedding_loss)

static void compose_margin_ranking_loss(const void *args, amp_tensor **results) {
    const amp_margin_ranking_loss_args *a = args;
    amp_tensor *wrong = amp_mul(amp_neg(a->target), amp_sub(a->input1, a->input2));
    results[0] = amp_reduce_losses(at_least_zero(amp_add_scalar(wrong, amp_float(a->margin))), a->reduction);
}
AMP_GRADIENT_AGAIN(margin_ranking_loss)

static amp_tensor *distance(amp_tensor *x, amp_tensor *y, const amp_triplet_margin_loss_args *a) {
    return amp_pairwise_distance(x, y, .p = a->p, .eps = a->eps);
}

static void compose_triplet_margin_loss(const void *args, amp_tensor **results) {
    const amp_triplet_margin_loss_args *a = args;
    amp_tensor *near = distance(a->anchor, a->positive, a), *far = distance(a->anchor, a->negative, a);
    if (a->swap) far = amp_minimum(far, distance(a->positive, a->negative, a));
    amp_tensor *losses = at_least_zero(amp_add_scalar(amp_sub(near, far), amp_float(a->margin.value)));
    results[0] = amp_reduce_losses(losses, a->reduction);
}
AMP_GRADIENT_AGAIN(triplet_margin_loss)

static void compose_multilabel_soft_margin_loss(const void *args, amp_tensor **results) {
    const amp_multilabel_soft_margin_loss_args *a = args;
    amp_tensor *is = amp_mul(a->target, amp_logsigmoid(a->input));
    amp_tensor *is_not = amp_mul(amp_add_scalar(amp_neg(a->target), amp_int(1)), amp_logsigmoid(amp_neg(a->input)));
    amp_tensor *losses = amp_neg(amp_add(is, is_not));
    if (a->weight) losses = amp_mul(losses, a->weight);
    results[0] = amp_reduce_losses(amp_mean(losses, .dim = AMP_DIMS(-1)), a->reduction);
}
AMP_GRADIENT_AGAIN(multilabel_soft_margin_loss)

/* ---- Margins between classes ---------------------------------------------------------------------------------------- */
/* A row of classes for each sample. */
static amp_tensor *as_rows(amp_tensor *t) {
    return t->rank < 2 ? amp_reshape(t, AMP_DIMS(1, -1)) : t;
}

static amp_tensor *classes_like(const amp_tensor *rows) {
    return amp_arange(amp_int(rows->shape[1]), .device = (int)rows->storage->device);
}

static void compose_multi_margin_loss(const void *args, amp_tensor **results) {
    const amp_multi_margin_loss_args *a = args;
    amp_tensor *x = as_rows(a->input), *index = amp_reshape(a->target, AMP_DIMS(-1, 1));
    if (!x || !index) return;
    const double margin = a->margin.kind == AMP_SCALAR_NONE  ? 1.0
                          : a->margin.kind == AMP_SCALAR_INT ? (double)a->margin.i
                                                             : a->margin.re;
    const bool is_squared = a->p.kind == AMP_SCALAR_INT ? a->p.i == 2 : a->p.kind != AMP_SCALAR_NONE && a->p.re == 2.0;
    amp_tensor *apart = amp_relu(amp_add_scalar(amp_sub(x, amp_gather(x, 1, index)), amp_float(margin)));
    if (is_squared) apart = amp_square(apart);
    apart = amp_masked_fill(apart, amp_eq(classes_like(x), index), amp_int(0));
    amp_tensor *losses = amp_mean(apart, .dim = AMP_DIMS(1));
    if (a->weight) losses = amp_mul(losses, amp_index_select(a->weight, 0, amp_reshape(a->target, AMP_DIMS(-1))));
    losses = amp_reduce_losses(losses, a->reduction);
    results[0] = strcmp(a->reduction, "none") == 0 ? amp_reshape(losses, amp_shape_of(a->target)) : losses;
}
AMP_GRADIENT_AGAIN(multi_margin_loss)

/* Of each listed class and each that is not: [samples, places in the list, classes]. */
static amp_tensor *multilabel_losses(amp_tensor *input, amp_tensor *target) {
    amp_tensor *x = as_rows(input), *list = as_rows(target);
    if (!x || !list) return NULL;
    amp_tensor *is_listed = amp_to(amp_ge_scalar(list, amp_int(0)), AMP_I64);
    is_listed = amp_unsqueeze(amp_cumprod(is_listed, 1), 2); /* up to the first −1 */
    amp_tensor *index = amp_clamp(list, .min = amp_int(0));
    amp_tensor *is_class = amp_mul(amp_eq(classes_like(x), amp_unsqueeze(index, 2)), is_listed);
    amp_tensor *is_target = amp_amax(is_class, .dim = AMP_DIMS(1), .keepdim = true);
    amp_tensor *counts = amp_gt(is_listed, is_target);
    amp_tensor *apart = amp_sub(amp_unsqueeze(x, 1), amp_unsqueeze(amp_gather(x, 1, index), 2));
    apart = amp_where_scalar_other(counts, amp_relu(amp_add_scalar(apart, amp_int(1))), amp_int(0));
    return amp_mean(amp_sum(apart, .dim = AMP_DIMS(1)), .dim = AMP_DIMS(1));
}

static amp_tensor *multilabel_loss(amp_tensor *input, amp_tensor *target, const char *reduction) {
    amp_tensor *losses = amp_reduce_losses(multilabel_losses(input, target), reduction);
    return input->rank < 2 && strcmp(reduction, "none") == 0 ? amp_squeeze(losses) : losses;
}

static void compose_multilabel_margin_loss(const void *args, amp_tensor **results) {
    const amp_multilabel_margin_loss_args *a = args;
    results[0] = multilabel_loss(a->input, a->target, a->reduction);
}
AMP_GRADIENT_AGAIN(multilabel_margin_loss)

static void compose_multilabel_margin_loss_forward(const void *args, amp_tensor **results) {
    const amp_multilabel_margin_loss_forward_args *a = args;
    results[0] = multilabel_loss(a->input, a->target, a->reduction);
}
AMP_GRADIENT_AGAIN(multilabel_margin_loss_forward)
