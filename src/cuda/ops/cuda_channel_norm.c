/* batch_norm and instance_norm: statistics of channels by reductions, then one kernel; of f64, of instances and of gaps
 * in memory one formula and the bias. In f32 (f64), rounded once. */
#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/layout.h"
#include "cuda/cuda_backend.h"
#include "cuda/ops/cuda_elementwise.h"
#include "steps/row_rules.h"

typedef struct channels {
    amp_call *call;
    amp_tensor *input;
    amp_tensor *running_mean, *running_var, *weight, *bias;
    double momentum, eps;
} channels;

/* Both ops name these arguments alike. */
#define CHANNELS_OF(call_, a)                                                                                          \
    {                                                                                                                  \
        .call = (call_), .input = (a)->input, .running_mean = (a)->running_mean, .running_var = (a)->running_var,      \
        .weight = (a)->weight, .bias = (a)->bias, .momentum = (a)->momentum.value, .eps = (a)->eps.value               \
    }

static amp_status start(channels *c) {
    const amp_call *call = c->call;
    AMP_TRY(amp_check_channel_input(call, c->input));
    AMP_TRY(amp_check_channel_numbers(call, c->input, "weight", c->weight));
    AMP_TRY(amp_check_channel_numbers(call, c->input, "bias", c->bias));
    return AMP_OK;
}

/* A number for each channel, as (1, C, 1, …) in the type that is computed in. */
static amp_tensor *along_channels(const channels *c, amp_tensor *numbers) {
    amp_dims shape = {.set = AMP_PRESENT, .count = c->input->rank};
    for (int d = 0; d < c->input->rank; d++) shape.values[d] = d == 1 ? c->input->shape[1] : 1;
    return amp_to(amp_reshape(numbers, shape), amp_compute_dtype(c->input->dtype));
}

/* All dimensions but that of the channels, and, of instances, but the first. */
static amp_dims summed_dims(const channels *c, bool instances) {
    amp_dims dims = {.set = AMP_PRESENT};
    for (int d = instances ? 2 : 0; d < c->input->rank; d++) {
        if (d != 1) dims.values[dims.count++] = d;
    }
    return dims;
}

/* ---- In one kernel ----------------------------------------------------------------------------------------------- */
/* Dense, or channels-last without gaps. */
static bool is_packed(const amp_tensor *t) {
    int64_t strides[AMP_MAX_RANK];
    if (amp_tensor_is_dense(t)) return true;
    if (!amp_is_channels_last(t)) return false;
    amp_channels_last_strides(t->rank, t->shape, strides);
    for (int d = 0; d < t->rank; d++) {
        if (t->shape[d] > 1 && t->strides[d] != strides[d]) return false;
    }
    return true;
}

static bool lie_alike(const amp_tensor *a, const amp_tensor *b) {
    for (int d = 0; d < a->rank; d++) {
        if (a->shape[d] > 1 && a->strides[d] != b->strides[d]) return false;
    }
    return true;
}

static bool are_readable(const channels *c, const amp_tensor *t) {
    return !t || (amp_tensor_elements(t) == c->input->shape[1] && amp_dtype_is_floating(t->dtype) &&
                  amp_compute_dtype(t->dtype) == AMP_F32);
}

static bool suits_kernel(const channels *c, const amp_tensor *mean, const amp_tensor *variance, const amp_tensor *out) {
    return amp_compute_dtype(c->input->dtype) == AMP_F32 && is_packed(c->input) && lie_alike(c->input, out) &&
           are_readable(c, mean) && are_readable(c, variance) && are_readable(c, c->weight) && are_readable(c, c->bias);
}

static amp_status read_numbers(const char *op, amp_tensor *t, amp_cuda_parameter *p) {
    if (!t) return AMP_OK;
    amp_tensor *dense = amp_cuda_dense(t);
    p->data = dense ? amp_cuda_address(op, dense) : NULL;
    p->dtype = t->dtype;
    return p->data ? AMP_OK : amp_pending_error();
}

/* How many of a run of neighbours, of one channel or of channels side by side, a thread can take at a time. */
static int width_of(const amp_cuda_channel_norm *a, int64_t run) {
    bool aligned = amp_cuda_is_aligned(a->in) && amp_cuda_is_aligned(a->out);
    if (a->side_by_side) {
        aligned = aligned && amp_cuda_is_aligned(a->mean.data) && amp_cuda_is_aligned(a->variance.data) &&
                  amp_cuda_is_aligned(a->weight.data) && amp_cuda_is_aligned(a->bias.data);
    }
    for (int width = a->dtype == AMP_F32 ? 4 : 8; aligned && width >= 4; width /= 2) {
        if (run % width == 0) return width;
    }
    return 1;
}

static amp_status run_kernel(const channels *c, amp_tensor *mean, amp_tensor *variance, const amp_tensor *out) {
    const char *op = c->call->op->name;
    const amp_tensor *x = c->input;
    const int64_t count = amp_tensor_elements(x), inner = count / x->shape[0] / x->shape[1];
    amp_cuda_channel_norm a = {.dtype = x->dtype, .side_by_side = inner == 1 || !amp_tensor_is_dense(x), .eps = c->eps};
    AMP_TRY(read_numbers(op, mean, &a.mean));
    AMP_TRY(read_numbers(op, variance, &a.variance));
    AMP_TRY(read_numbers(op, c->weight, &a.weight));
    AMP_TRY(read_numbers(op, c->bias, &a.bias));
    a.in = amp_cuda_address(op, x);
    a.out = a.in ? amp_cuda_address(op, out) : NULL;
    if (!a.out) return amp_pending_error();
    a.width = width_of(&a, a.side_by_side ? x->shape[1] : inner);
    a.count = count / a.width;
    a.channels = amp_cuda_divide_by(a.side_by_side ? x->shape[1] / a.width : x->shape[1]);
    a.inner = amp_cuda_divide_by(a.side_by_side ? 1 : inner / a.width);
    return amp_cuda_launch_over(op, "channel_norm", &a, amp_cuda_unit_blocks(a.count));
}

/* ---- By formulas ------------------------------------------------------------------------------------------------- */
static amp_status run_formulas(const channels *c, amp_tensor *mean, amp_tensor *variance, amp_tensor *out) {
    amp_call *call = c->call;
    const amp_dtype compute = amp_compute_dtype(c->input->dtype);
    if (mean->rank == 1) mean = along_channels(c, mean);
    if (variance->rank == 1) variance = along_channels(c, variance);
    amp_tensor *wide = amp_to(c->input, compute);
    amp_tensor *scale = variance ? amp_rsqrt(amp_add_scalar(variance, amp_float(c->eps))) : NULL;
    if (c->weight) scale = amp_mul(scale, along_channels(c, c->weight));
    amp_tensor *bias = c->bias ? along_channels(c, c->bias) : NULL;
    if (!wide || !mean || !scale || (c->bias && !bias)) return amp_pending_error();
    const amp_operand v[3] = {amp_tensor_operand("input", wide), amp_tensor_operand("mean", mean),
                              amp_tensor_operand("scale", scale)};
    if (!bias) return amp_cuda_compute(call, AMP_FORMULA_normalized, v, 3, compute, (amp_formula_numbers){0}, out);
    amp_tensor *normal = amp_cuda_temporary(call, compute, wide->rank, wide->shape);
    if (!normal) return amp_pending_error();
    amp_take_layout(normal, wide);
    AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_normalized, v, 3, compute, (amp_formula_numbers){0}, normal));
    const amp_operand sum[2] = {amp_tensor_operand("input", normal), amp_tensor_operand("bias", bias)};
    return amp_cuda_compute(call, AMP_FORMULA_add, sum, 2, compute, (amp_formula_numbers){.p = 1.0, .whole = 1}, out);
}

/* (x − mean) · weight / √(variance + eps) + bias. */
static amp_status normalize(const channels *c, amp_tensor *mean, amp_tensor *variance) {
    const amp_operand input = amp_tensor_operand("input", c->input);
    amp_tensor *out = amp_operands_output(c->call, &input, 1, c->input->dtype);
    if (!out) return amp_pending_error();
    return suits_kernel(c, mean, variance, out) ? run_kernel(c, mean, variance, out)
                                                : run_formulas(c, mean, variance, out);
}

/* running ← (1 − momentum)·running + momentum·value, which has extents of 1 beside the channels. */
static amp_status update(const channels *c, amp_tensor *running, amp_tensor *value) {
    if (!running) return AMP_OK;
    amp_tensor *old = amp_mul_scalar(amp_to(running, AMP_F64), amp_float(1.0 - c->momentum));
    amp_tensor *new = amp_mul_scalar(amp_to(value, AMP_F64), amp_float(c->momentum));
    amp_tensor *both = amp_add(old, amp_reshape(new, AMP_DIMS(running->shape[0])));
    if (!both) return amp_pending_error();
    AMP_TRY(amp_cuda_copy_tensor(running, both));
    amp_tensor_written(running);
    return AMP_OK;
}

/* By the statistics of the batch, or of each instance; the running ones move towards their mean. */
static amp_status run_own(const channels *c, bool instances) {
    const double each = (double)amp_tensor_elements(c->input) /
                        (double)(instances ? c->input->shape[0] * c->input->shape[1] : c->input->shape[1]);
    amp_tensor *mean = NULL;
    amp_tensor *wide = amp_to(c->input, amp_compute_dtype(c->input->dtype));
    amp_tensor *variance =
        amp_var_mean(wide, summed_dims(c, instances), .correction = amp_int(0), .keepdim = true, .mean = &mean);
    if (!variance) return amp_pending_error();
    if (c->running_mean || c->running_var) {
        amp_tensor *means = mean, *spread = amp_mul_scalar(variance, amp_float(each / (each - 1.0)));
        if (instances) means = amp_mean(mean, AMP_DIMS(0)), spread = amp_mean(spread, AMP_DIMS(0));
        if (!means || !spread) return amp_pending_error();
        AMP_TRY(update(c, c->running_mean, means));
        AMP_TRY(update(c, c->running_var, spread));
    }
    return normalize(c, mean, variance);
}

static amp_status empty_output(amp_call *call, const amp_tensor *input) {
    return amp_call_output(call, 0, input->dtype, input->rank, input->shape) ? AMP_OK : amp_pending_error();
}

amp_status cuda_batch_norm(amp_call *call) {
    const amp_batch_norm_args *a = call->args;
    channels c = CHANNELS_OF(call, a);
    if (amp_tensor_elements(a->input) == 0) return empty_output(call, a->input);
    AMP_TRY(start(&c));
    AMP_TRY(amp_check_running(call, a->input, a->running_mean, a->running_var, "training", !a->training));
    if (!a->training) return normalize(&c, a->running_mean, a->running_var);
    if (amp_tensor_elements(a->input) == a->input->shape[1]) {
        return amp_fail(AMP_ERROR_INVALID,
                        "batch_norm: input is %s; training needs more than one value for each channel",
                        amp_describe(a->input));
    }
    return run_own(&c, false);
}

amp_status cuda_instance_norm(amp_call *call) {
    const amp_instance_norm_args *a = call->args;
    const amp_tensor *x = a->input;
    const bool own = a->use_input_stats.value;
    channels c = CHANNELS_OF(call, a);
    AMP_TRY(amp_check_channel_input(call, x));
    AMP_TRY(amp_check_running(call, x, a->running_mean, a->running_var, "use_input_stats", !own));
    AMP_TRY(start(&c));
    int64_t inner = 1;
    for (int d = 2; d < x->rank; d++) inner *= x->shape[d];
    if (own && inner == 1) {
        return amp_fail(AMP_ERROR_INVALID,
                        "instance_norm: input is %s; expected more than one element for each channel", amp_describe(x));
    }
    if (amp_tensor_elements(x) == 0) return empty_output(call, x);
    return own ? run_own(&c, true) : normalize(&c, a->running_mean, a->running_var);
}
