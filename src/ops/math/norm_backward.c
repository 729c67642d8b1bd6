/* The gradients of norms as ops: y = (x − mean) · rstd · weight + bias, over one set of dimensions or another. With g
 * the gradient of y times the weight, and x̂ the normalised x,
 *
 *     dx = rstd · (g − mean(g) − x̂ · mean(g · x̂)),  dweight = Σ dy · x̂,  dbias = Σ dy
 *
 * What is asked for of dweight and dbias. A device's step makes them; where there is none, in f64, and where the parts
 * are recorded they are made of ops: the recorded ones in f64, for their gradients are differences of what is nearly
 * equal. */
#include "ops/math/compose.h"
#include "steps/row_rules.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

static amp_tensor *wide(const amp_call *call, amp_tensor *t) {
    return t && call->inner_layers ? amp_to(t, AMP_F64) : amp_wide(t);
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
/* A result of its own, also over no dimensions. */
static amp_tensor *sum_over(amp_tensor *t, amp_dims dims) {
    return dims.count > 0 ? amp_sum(t, .dim = dims) : amp_clone(t);
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

static amp_tensor *back_through(const normalised *n, amp_tensor *g) {
    amp_tensor *t = amp_sub(g, amp_mul(n->x, mean_over(amp_mul(g, n->x), n->dims)));
    if (n->is_centred) t = amp_sub(t, mean_over(g, n->dims));
    return amp_mul(t, n->rstd);
}

static amp_tensor *weighted(const amp_call *call, amp_tensor *g, amp_tensor *weight) {
    return weight ? amp_mul(g, wide(call, weight)) : g;
}

/* The gradient by input, of its dtype. */
static void give_input(amp_call *call, const amp_tensor *input, amp_tensor *by_input) {
    if (by_input) call->outputs[0] = amp_to(by_input, input->dtype);
}

/* Those by weight, of d and the normalised x, and where the op has one by bias, if they are asked for: sums over
 * `others` in f32, or f64 as the input. */
static amp_status give_parameters(amp_call *call, const amp_tensor *input, amp_tensor *d, amp_tensor *x,
                                  amp_dims others) {
    const amp_dtype numbers = input->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
    if (amp_call_wants(call, 1)) call->outputs[1] = amp_to(sum_over(amp_mul(d, x), others), numbers);
    if (call->op->output_count > 2 && amp_call_wants(call, 2)) call->outputs[2] = amp_to(sum_over(d, others), numbers);
    return amp_pending_error();
}

static bool has_step(const amp_call *call, bool step, const amp_tensor *d, const amp_tensor *input) {
    return step && d->dtype != AMP_F64 && input->dtype != AMP_F64 && call->inner_layers == 0;
}

/* ---- Over the last dimensions -------------------------------------------------------------------------------------- */
static amp_status rows_backward(amp_call *call, const amp_norm_slope *s, const amp_dims *shape) {
    AMP_TRY(amp_check_norm(call, s->input, shape, s->weight, NULL));
    AMP_TRY(amp_call_check_gradient(call, s->d, s->input->rank, s->input->shape));
    if (has_step(call, amp_steps_of(call)->norm_slope, s->d, s->input)) return amp_steps_of(call)->norm_slope(call, s);
    amp_tensor *back = wide(call, s->d);
    const normalised n = normalise(wide(call, s->input), range(s->dim, s->input->rank), s->eps, s->is_centred);
    give_input(call, s->input, back_through(&n, weighted(call, back, s->weight)));
    return give_parameters(call, s->input, back, n.x, range(0, s->dim));
}

amp_status amp_op_layer_norm_backward(amp_call *call) {
    const amp_layer_norm_backward_args *a = call->args;
    const amp_norm_slope s = {.d = a->grad_output,
                              .input = a->input,
                              .weight = a->weight,
                              .eps = a->eps.value,
                              .dim = a->input->rank - a->normalized_shape.count,
                              .is_centred = true};
    return rows_backward(call, &s, &a->normalized_shape);
}

amp_status amp_op_rms_norm_backward(amp_call *call) {
    const amp_rms_norm_backward_args *a = call->args;
    const amp_norm_slope s = {.d = a->grad_output,
                              .input = a->input,
                              .weight = a->weight,
                              .eps = a->eps.set ? a->eps.value : amp_norm_epsilon(a->input->dtype),
                              .dim = a->input->rank - a->normalized_shape.count};
    return rows_backward(call, &s, &a->normalized_shape);
}

/* ---- By channel, dimension 1 --------------------------------------------------------------------------------------- */
static amp_tensor *by_channel(const amp_call *call, amp_tensor *t, const amp_tensor *like) {
    amp_dims shape = {.count = like->rank, .set = AMP_PRESENT};
    for (int i = 0; i < like->rank; i++) shape.values[i] = i == 1 ? -1 : 1;
    return t ? amp_reshape(wide(call, t), shape) : NULL;
}

static amp_dims all_but_channel(const amp_tensor *t) {
    amp_dims dims = range(2, t->rank);
    dims.values[dims.count++] = 0;
    return dims;
}

/* `gradient` of the normalised x, of the input's shape or the groups'. */
static amp_status give_by_channel(amp_call *call, const amp_channel_norm_slope *s, amp_tensor *gradient,
                                  amp_tensor *x) {
    const amp_dims whole = amp_shape_of(s->input);
    give_input(call, s->input, amp_reshape(gradient, whole));
    return give_parameters(call, s->input, wide(call, s->d), amp_reshape(x, whole), all_but_channel(s->input));
}

static amp_status group_parts(amp_call *call, const amp_channel_norm_slope *s) {
    const amp_dims groups = AMP_DIMS(s->input->shape[0], s->groups, -1);
    const normalised n = normalise(amp_reshape(wide(call, s->input), groups), AMP_DIMS(2), s->eps, true);
    amp_tensor *g = weighted(call, wide(call, s->d), by_channel(call, s->weight, s->input));
    return give_by_channel(call, s, back_through(&n, amp_reshape(g, groups)), n.x);
}

static amp_status batch_parts(amp_call *call, const amp_channel_norm_slope *s) {
    amp_tensor *x = wide(call, s->input), *g = weighted(call, wide(call, s->d), by_channel(call, s->weight, s->input));
    if (!s->running_mean) {
        const normalised n = normalise(x, all_but_channel(x), s->eps, true);
        return give_by_channel(call, s, back_through(&n, g), n.x);
    }
    amp_tensor *rstd = amp_rsqrt(amp_add_scalar(by_channel(call, s->running_var, x), amp_float(s->eps)));
    return give_by_channel(call, s, amp_mul(g, rstd), amp_mul(amp_sub(x, by_channel(call, s->running_mean, x)), rstd));
}

/* Of an input without elements, which may have any rank. */
static amp_status give_nothing(amp_call *call, const amp_channel_norm_slope *s) {
    AMP_TRY(amp_call_check_gradient(call, s->d, s->input->rank, s->input->shape));
    amp_tensor *back = wide(call, s->d);
    give_input(call, s->input, amp_clone(back));
    return give_parameters(call, s->input, back, back, all_but_channel(s->input));
}

static amp_status channels_backward(amp_call *call, const amp_channel_norm_slope *s) {
    AMP_TRY(amp_check_channel_numbers(call, s->input, "weight", s->weight));
    AMP_TRY(amp_call_check_gradient(call, s->d, s->input->rank, s->input->shape));
    if (has_step(call, amp_steps_of(call)->channel_norm_slope, s->d, s->input))
        return amp_steps_of(call)->channel_norm_slope(call, s);
    return s->groups ? group_parts(call, s) : batch_parts(call, s);
}

amp_status amp_op_group_norm_backward(amp_call *call) {
    const amp_group_norm_backward_args *a = call->args;
    const amp_channel_norm_slope s = {
        .d = a->grad_output, .input = a->input, .weight = a->weight, .groups = a->num_groups, .eps = a->eps.value};
    if (amp_tensor_elements(a->input) == 0) return give_nothing(call, &s);
    AMP_TRY(amp_check_channel_input(call, a->input));
    AMP_TRY(amp_check_groups(call, a->input, a->num_groups));
    return channels_backward(call, &s);
}

amp_status amp_op_batch_norm_backward(amp_call *call) {
    const amp_batch_norm_backward_args *a = call->args;
    amp_channel_norm_slope s = {.d = a->grad_output, .input = a->input, .weight = a->weight, .eps = a->eps.value};
    if (amp_tensor_elements(a->input) == 0) return give_nothing(call, &s);
    AMP_TRY(amp_check_channel_input(call, a->input));
    AMP_TRY(amp_check_running(call, a->input, a->running_mean, a->running_var, "training", false));
    if (!a->training) {
        s.running_mean = a->running_mean;
        s.running_var = a->running_mean ? a->running_var : NULL;
    }
    return channels_backward(call, &s);
}
