/* Gradients of norms: y = (x − mean) · rstd · weight + bias, over one set of dimensions or another. */
#include <float.h>

#include "gradients/pieces.h"

/* 16-bit floats are computed with in f32. */
static amp_tensor *wide(amp_tensor *t) {
    return t && (t->dtype == AMP_BF16 || t->dtype == AMP_F16) ? amp_to(t, AMP_F32) : t;
}

/* Dimensions first … end − 1. */
static amp_dims range(int first, int end) {
    amp_dims dims = {.set = AMP_PRESENT};
    for (int i = first; i < end; i++) dims.values[dims.count++] = i;
    return dims;
}

static amp_tensor *mean_over(amp_tensor *t, amp_dims dims) {
    return dims.count > 0 ? amp_mean(t, .dim = dims, .keepdim = true) : t;
}

/* x normalised, and what it was multiplied by. */
typedef struct normalised {
    amp_tensor *x, *rstd;
    amp_dims dims;
    bool is_centred; /* its mean was taken away */
} normalised;

static normalised normalise(amp_tensor *x, amp_dims dims, double eps, bool is_centred) {
    normalised n = {.dims = dims, .is_centred = is_centred};
    amp_tensor *centred = is_centred ? amp_sub(x, mean_over(x, dims)) : x;
    n.rstd = amp_rsqrt(amp_add_scalar(mean_over(amp_mul(centred, centred), dims), amp_float(eps)));
    n.x = amp_mul(centred, n.rstd);
    return n;
}

/* rstd · (g − mean(g) − x · mean(g · x)), of the gradient of the normalised x. */
static amp_tensor *back_through(const normalised *n, amp_tensor *g) {
    amp_tensor *t = amp_sub(g, amp_mul(n->x, mean_over(amp_mul(g, n->x), n->dims)));
    if (n->is_centred) t = amp_sub(t, mean_over(g, n->dims));
    return amp_mul(t, n->rstd);
}

static amp_tensor *weighted(amp_tensor *g, amp_tensor *weight) {
    return weight ? amp_mul(g, wide(weight)) : g;
}

/* ---- Over the last dimensions: weight and bias are theirs, and the tape sums ---------------------------------------- */
void amp_gradient_layer_norm(amp_gradient *g) {
    const amp_layer_norm_args *a = g->args;
    amp_tensor *back = wide(g->of[0]);
    const int rank = a->input->rank;
    const normalised n = normalise(wide(a->input), range(rank - a->normalized_shape.count, rank), a->eps.value, true);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, back_through(&n, weighted(back, a->weight)));
    if (amp_gradient_wants(g, &a->weight)) amp_gradient_give(g, &a->weight, amp_mul(back, n.x));
    if (amp_gradient_wants(g, &a->bias)) amp_gradient_give(g, &a->bias, back);
}

void amp_gradient_rms_norm(amp_gradient *g) {
    const amp_rms_norm_args *a = g->args;
    amp_tensor *back = wide(g->of[0]);
    const int rank = a->input->rank;
    const double least = a->input->dtype == AMP_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    const double eps = a->eps.set ? a->eps.value : least;
    const normalised n = normalise(wide(a->input), range(rank - a->normalized_shape.count, rank), eps, false);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, back_through(&n, weighted(back, a->weight)));
    if (amp_gradient_wants(g, &a->weight)) amp_gradient_give(g, &a->weight, amp_mul(back, n.x));
}

/* ---- By channel, dimension 1 ---------------------------------------------------------------------------------------- */
static amp_tensor *by_channel(amp_tensor *t, const amp_tensor *like) {
    amp_dims shape = {.count = like->rank, .set = AMP_PRESENT};
    for (int i = 0; i < like->rank; i++) shape.values[i] = i == 1 ? -1 : 1;
    return t ? amp_reshape(wide(t), shape) : NULL;
}

static amp_tensor *summed_by_channel(amp_tensor *t) {
    amp_dims others = {.set = AMP_PRESENT};
    for (int i = 0; t && i < t->rank; i++) {
        if (i != 1) others.values[others.count++] = i;
    }
    return others.count > 0 ? amp_sum(t, .dim = others) : t;
}

static void give_weight_and_bias(amp_gradient *g, amp_tensor *const *weight, amp_tensor *const *bias, amp_tensor *back,
                                 amp_tensor *x) {
    if (amp_gradient_wants(g, weight)) amp_gradient_give(g, weight, summed_by_channel(amp_mul(back, x)));
    if (amp_gradient_wants(g, bias)) amp_gradient_give(g, bias, summed_by_channel(back));
}

/* True: the input has no elements, and that is all. */
static bool is_of_nothing(amp_gradient *g, amp_tensor *const *input, amp_tensor *const *weight,
                          amp_tensor *const *bias) {
    if (amp_tensor_elements(*input) > 0) return false;
    amp_gradient_give(g, input, g->of[0]);
    give_weight_and_bias(g, weight, bias, g->of[0], g->of[0]);
    return true;
}

void amp_gradient_group_norm(amp_gradient *g) {
    const amp_group_norm_args *a = g->args;
    if (is_of_nothing(g, &a->input, &a->weight, &a->bias)) return;
    const amp_dims whole = amp_shape_of(a->input), groups = AMP_DIMS(a->input->shape[0], a->num_groups, -1);
    amp_tensor *back = wide(g->of[0]), *weight = by_channel(a->weight, a->input);
    const normalised n = normalise(amp_reshape(wide(a->input), groups), AMP_DIMS(2), a->eps.value, true);
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *t = back_through(&n, amp_reshape(weighted(back, weight), groups));
        amp_gradient_give(g, &a->input, amp_reshape(t, whole));
    }
    give_weight_and_bias(g, &a->weight, &a->bias, back, amp_reshape(n.x, whole));
}

/* By the running statistics, which are numbers then. */
static normalised by_running(amp_tensor *x, amp_tensor *mean, amp_tensor *var, double eps) {
    normalised n = {.rstd = amp_rsqrt(amp_add_scalar(by_channel(var, x), amp_float(eps)))};
    n.x = amp_mul(amp_sub(x, by_channel(mean, x)), n.rstd);
    return n;
}

void amp_gradient_batch_norm(amp_gradient *g) {
    const amp_batch_norm_args *a = g->args;
    if (is_of_nothing(g, &a->input, &a->weight, &a->bias)) return;
    amp_tensor *x = wide(a->input), *back = wide(g->of[0]);
    amp_dims dims = range(2, a->input->rank);
    dims.values[dims.count++] = 0;
    const bool own = a->training || !a->running_mean;
    const normalised n =
        own ? normalise(x, dims, a->eps.value, true) : by_running(x, a->running_mean, a->running_var, a->eps.value);
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *t = weighted(back, by_channel(a->weight, a->input));
        amp_gradient_give(g, &a->input, own ? back_through(&n, t) : amp_mul(t, n.rstd));
    }
    give_weight_and_bias(g, &a->weight, &a->bias, back, n.x);
}

void amp_gradient_instance_norm(amp_gradient *g) {
    const amp_instance_norm_args *a = g->args;
    if (is_of_nothing(g, &a->input, &a->weight, &a->bias)) return;
    amp_tensor *x = wide(a->input), *back = wide(g->of[0]);
    const bool own = a->use_input_stats.value || !a->running_mean;
    const normalised n = own ? normalise(x, range(2, x->rank), a->eps.value, true)
                             : by_running(x, a->running_mean, a->running_var, a->eps.value);
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *t = weighted(back, by_channel(a->weight, a->input));
        amp_gradient_give(g, &a->input, own ? back_through(&n, t) : amp_mul(t, n.rstd));
    }
    give_weight_and_bias(g, &a->weight, &a->bias, back, n.x);
}
