/* rand, randn, randint, their _like forms, uniform, normal, bernoulli. */
#include "ops/random_results.h"

#include <math.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "cpu/registry/convert.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

/* ---- Filling ---------------------------------------------------------------------------------------------------- */

/* `out` and `in` are dense; in NULL: the task reads nothing. */
static amp_status run_on_device(amp_call *call, amp_random_task *task, const amp_tensor *out, const amp_tensor *in) {
    return task->count == 0 ? AMP_OK : amp_steps_of(call)->random_elements(call, task, out, in);
}

/* Elements are numbered row by row: what has other strides is written by way of dense memory. */
static amp_status fill_at(amp_call *call, amp_tensor *out, amp_random_task *task, const amp_tensor *in) {
    if (amp_tensor_is_dense(out)) return run_on_device(call, task, out, in);
    amp_tensor *dense = amp_backend_tensor(call->device, call->op->name, out->dtype, out->rank, out->shape);
    if (!dense) return amp_pending_error();
    AMP_TRY(run_on_device(call, task, dense, in));
    return amp_copy_tensor(out, dense);
}

/* A complex tensor is twice as many real elements. */
static void describe_out(amp_random_task *task, const amp_tensor *out) {
    task->dtype = out->dtype == AMP_C64 ? AMP_F32 : out->dtype == AMP_C128 ? AMP_F64 : out->dtype;
    task->count = amp_tensor_elements(out) * (amp_dtype_is_complex(out->dtype) ? 2 : 1);
}

/* … with the elements of `input`, which may be NULL. */
static amp_status fill_from(amp_call *call, amp_tensor *out, amp_random_task *task, amp_tensor *input,
                            amp_generator *generator) {
    const amp_tensor *in = input ? amp_contiguous(input) : NULL;
    if (input && !in) return amp_pending_error();
    task->in_dtype = in ? in->dtype : AMP_DTYPE_NONE;
    describe_out(task, out);
    const int64_t per_group = amp_random_per_group(task), groups = task->count / per_group + 1;
    AMP_TRY(amp_generator_take(generator, call->device, amp_call_name(call),
                               task->count % per_group ? (uint64_t)groups : (uint64_t)groups - 1, &task->place));
    call->note.is_random = true;
    call->note.random = task->place;
    return fill_at(call, out, task, in);
}

amp_status amp_random_fill(amp_call *call, amp_tensor *out, amp_random_task *task, amp_generator *generator) {
    return fill_from(call, out, task, NULL, generator);
}

static amp_status check_has_parts(const amp_call *call, const char *what, amp_dtype dtype) {
    if (amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: %s is %s; expected f32, f64, f16, bf16, c64 or c128", amp_call_name(call),
                    what, amp_dtype_name(dtype));
}

static amp_status check_real(const amp_call *call, const char *argument, const amp_tensor *t) {
    if (amp_dtype_is_floating(t->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected f32, f64, f16 or bf16", amp_call_name(call), argument,
                    amp_describe(t));
}

/* The shape, dtype and layout of a result. */
typedef struct form {
    amp_dtype dtype;
    int rank;
    const int64_t *shape;
    const amp_tensor *like;
} form;

static form of_size(const amp_dims *size, amp_dtype dtype, amp_dtype otherwise) {
    return (form){dtype == AMP_DTYPE_NONE ? otherwise : dtype, size->count, size->values, NULL};
}

static form of_input(const amp_tensor *input, amp_dtype dtype) {
    return (form){dtype == AMP_DTYPE_NONE ? input->dtype : dtype, input->rank, input->shape, input};
}

static amp_status return_from(amp_call *call, form result, amp_random_task *task, amp_tensor *input,
                              amp_generator *generator) {
    amp_tensor *out = amp_call_output_like(call, 0, result.dtype, result.rank, result.shape, result.like);
    return out ? fill_from(call, out, task, input, generator) : amp_pending_error();
}

static amp_status return_random(amp_call *call, form result, amp_random_task *task, amp_generator *generator) {
    return return_from(call, result, task, NULL, generator);
}

/* ---- uniform ---------------------------------------------------------------------------------------------------- */

/* What an element of a floating or complex dtype makes of a number. */
static double rounded(double x, amp_dtype dtype) {
    switch (dtype) {
    case AMP_F64:
    case AMP_C128: return x;
    case AMP_F16: return amp_f32_from_f16(amp_f16_from_f32(amp_f32_odd_from_f64(x)));
    case AMP_BF16: return amp_f32_from_bf16(amp_bf16_from_f32(amp_f32_odd_from_f64(x)));
    default: return (float)x;
    }
}

/* The next lower number of two bytes: they are in the order of their bits, backwards below zero. */
static uint16_t step_down(uint16_t bits) {
    return bits == 0 ? 0x8001 : bits & 0x8000 ? bits + 1 : bits - 1;
}

/* The greatest number of the dtype below one of it. */
static double next_below(double x, amp_dtype dtype) {
    switch (dtype) {
    case AMP_F64:
    case AMP_C128: return nextafter(x, -INFINITY);
    case AMP_F16: return amp_f32_from_f16(step_down(amp_f16_from_f32((float)x + 0.0F)));
    case AMP_BF16: return amp_f32_from_bf16(step_down(amp_bf16_from_f32((float)x + 0.0F)));
    default: return nextafterf((float)x, -INFINITY);
    }
}

static int bits_of(amp_dtype dtype) {
    return dtype == AMP_F16 ? 11 : dtype == AMP_BF16 ? 8 : 24;
}

static amp_status return_uniform(amp_call *call, form result, double from, double to, amp_generator *generator) {
    const double low = rounded(from, result.dtype), high = rounded(to, result.dtype), width = high - low;
    AMP_TRY(check_has_parts(call, result.like ? "'input'" : "'dtype'", result.dtype));
    if (!(low <= high && isfinite(rounded(width, result.dtype)))) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'from' is %g and 'to' %g; expected from ≤ to, and to − from finite in %s",
                        amp_call_name(call), from, to, amp_dtype_name(result.dtype));
    }
    amp_random_task task = {.kind = AMP_RANDOM_UNIFORM, .low = low, .width = width};
    task.below = low < high ? next_below(high, result.dtype) : low;
    task.numbers = (amp_random_numbers){
        .bits = bits_of(result.dtype), .low = (float)low, .width = (float)width, .below = (float)task.below};
    return return_random(call, result, &task, generator);
}

amp_status amp_op_rand(amp_call *call) {
    const amp_rand_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "size", &a->size));
    return return_uniform(call, of_size(&a->size, a->dtype, AMP_F32), 0.0, 1.0, a->generator);
}

amp_status amp_op_rand_like(amp_call *call) {
    const amp_rand_like_args *a = call->args;
    return return_uniform(call, of_input(a->input, a->dtype), 0.0, 1.0, a->generator);
}

amp_status amp_op_uniform(amp_call *call) {
    const amp_uniform_args *a = call->args;
    return return_uniform(call, of_input(a->input, AMP_DTYPE_NONE), a->from, a->to.value, a->generator);
}

/* ---- normal ----------------------------------------------------------------------------------------------------- */

static amp_status return_normal(amp_call *call, form result, double mean, double deviation, amp_generator *generator) {
    AMP_TRY(check_has_parts(call, result.like ? "'input'" : "'dtype'", result.dtype));
    if (!(deviation >= 0.0)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'std' is %g; expected a number from 0 up", amp_call_name(call),
                        deviation);
    }
    if (amp_dtype_is_complex(result.dtype))
        deviation *= sqrt(0.5); /* of each part; the mean is, as in PyTorch, both's */
    amp_random_task task = {.kind = AMP_RANDOM_NORMAL, .mean = mean, .deviation = deviation};
    task.numbers = (amp_random_numbers){.mean = (float)mean, .deviation = (float)deviation};
    return return_random(call, result, &task, generator);
}

amp_status amp_op_randn(amp_call *call) {
    const amp_randn_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "size", &a->size));
    return return_normal(call, of_size(&a->size, a->dtype, AMP_F32), 0.0, 1.0, a->generator);
}

amp_status amp_op_randn_like(amp_call *call) {
    const amp_randn_like_args *a = call->args;
    return return_normal(call, of_input(a->input, a->dtype), 0.0, 1.0, a->generator);
}

amp_status amp_op_normal(amp_call *call) {
    const amp_normal_args *a = call->args;
    return return_normal(call, of_input(a->input, AMP_DTYPE_NONE), a->mean, a->std.value, a->generator);
}

/* ---- randint ---------------------------------------------------------------------------------------------------- */

/* All integers from -2^53, or less, to the greatest that the dtype holds with all below it. */
static bool integer_range(amp_dtype dtype, int64_t *least, int64_t *most) {
    static const struct {
        int64_t least, most;
    } ranges[AMP_DTYPE_COUNT] = {
        [AMP_I64] = {INT64_MIN, INT64_MAX},
        [AMP_I32] = {INT32_MIN, INT32_MAX},
        [AMP_I16] = {INT16_MIN, INT16_MAX},
        [AMP_I8] = {INT8_MIN, INT8_MAX},
        [AMP_U8] = {0, UINT8_MAX},
        [AMP_BOOL] = {0, 1},
        [AMP_F64] = {-(1LL << 53), 1LL << 53},
        [AMP_F32] = {-(1LL << 24), 1LL << 24},
        [AMP_F16] = {-(1LL << 11), 1LL << 11},
        [AMP_BF16] = {-(1LL << 8), 1LL << 8},
    };
    *least = ranges[dtype].least;
    *most = ranges[dtype].most;
    return *least != *most;
}

static amp_status return_integers(amp_call *call, form result, int64_t low, int64_t high, amp_generator *generator) {
    int64_t least, most;
    if (!integer_range(result.dtype, &least, &most)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: the result would be %s; expected a real dtype", amp_call_name(call),
                        amp_dtype_name(result.dtype));
    }
    if (low >= high) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'low' is %lld and 'high' %lld; expected low < high",
                        amp_call_name(call), (long long)low, (long long)high);
    }
    if (low < least || high - 1 > most) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'low' is %lld and 'high' %lld; %s holds all integers from %lld to %lld only",
                        amp_call_name(call), (long long)low, (long long)high, amp_dtype_name(result.dtype),
                        (long long)least, (long long)most);
    }
    amp_random_task task = {.kind = AMP_RANDOM_INTEGER, .first = low, .range = (uint64_t)high - (uint64_t)low};
    return return_random(call, result, &task, generator);
}

amp_status amp_op_randint(amp_call *call) {
    const amp_randint_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "size", &a->size));
    return return_integers(call, of_size(&a->size, a->dtype, AMP_I64), 0, a->high, a->generator);
}

amp_status amp_op_randint_low(amp_call *call) {
    const amp_randint_low_args *a = call->args;
    AMP_TRY(amp_check_dims(call, "size", &a->size));
    return return_integers(call, of_size(&a->size, a->dtype, AMP_I64), a->low, a->high, a->generator);
}

amp_status amp_op_randint_like(amp_call *call) {
    const amp_randint_like_args *a = call->args;
    return return_integers(call, of_input(a->input, a->dtype), 0, a->high, a->generator);
}

amp_status amp_op_randint_like_low_dtype(amp_call *call) {
    const amp_randint_like_low_dtype_args *a = call->args;
    return return_integers(call, of_input(a->input, a->dtype), a->low, a->high, a->generator);
}

/* ---- bernoulli -------------------------------------------------------------------------------------------------- */

void amp_random_keeping(amp_random_task *task, double keep, double scale) {
    const double words = ceil(keep * 0x1p32); /* that keep; none is as well a factor of 0 */
    task->kind = AMP_RANDOM_KEEP;
    task->scale = words > 0.0 ? scale : 0.0;
    task->numbers.scale = (float)task->scale;
    task->numbers.last = words > 0.0 ? (uint32_t)(words - 1.0) : 0;
}

static amp_status check_decides(const amp_call *call, const amp_tensor *input) {
    if (!amp_dtype_is_complex(input->dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: 'input' is %s; expected a real dtype", amp_call_name(call),
                    amp_describe(input));
}

/* NaN is no probability. */
static amp_status check_probabilities(const amp_call *call, const char *argument, amp_tensor *p) {
    AMP_TRY(check_real(call, argument, p));
    if (amp_tensor_elements(p) == 0) return AMP_OK;
    const double least = amp_item(amp_to_device(amp_amin(p), AMP_DEVICE_CPU));
    const double most = amp_item(amp_to_device(amp_amax(p), AMP_DEVICE_CPU));
    if (amp_failed()) return amp_pending_error();
    if (least >= 0.0 && most <= 1.0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has elements from %g to %g; expected probabilities, from 0 to 1",
                    amp_call_name(call), argument, least, most);
}

static amp_status return_bernoulli_of(amp_call *call, const amp_tensor *input, const char *argument, amp_tensor *p,
                                      amp_generator *generator) {
    AMP_TRY(check_probabilities(call, argument, p));
    amp_random_task task = {.kind = AMP_RANDOM_BELOW};
    return return_from(call, of_input(input, AMP_DTYPE_NONE), &task, p, generator);
}

static amp_status check_probability(const amp_call *call, double p) {
    if (p >= 0.0 && p <= 1.0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'p' is %g; expected a probability, from 0 to 1", amp_call_name(call), p);
}

amp_status amp_op_bernoulli(amp_call *call) {
    const amp_bernoulli_args *a = call->args;
    const double p = a->p.set ? a->p.value : 0.5;
    if (!a->p.set && call->form != AMP_FORM_INPLACE) {
        return return_bernoulli_of(call, a->input, "input", a->input, a->generator);
    }
    AMP_TRY(check_decides(call, a->input));
    AMP_TRY(check_probability(call, p));
    amp_random_task task = {0};
    amp_random_keeping(&task, p, 1.0);
    return return_random(call, of_input(a->input, AMP_DTYPE_NONE), &task, a->generator);
}

amp_status amp_op_bernoulli_tensor(amp_call *call) {
    const amp_bernoulli_tensor_args *a = call->args;
    const amp_tensor *like = a->input;
    AMP_TRY(check_decides(call, like));
    amp_dims shape = {.count = like->rank, .set = AMP_PRESENT};
    memcpy(shape.values, like->shape, sizeof like->shape);
    amp_tensor *p = amp_expand(a->p, shape);
    return p ? return_bernoulli_of(call, like, "p", p, a->generator) : amp_pending_error();
}

/* ---- dropout ---------------------------------------------------------------------------------------------------- */

static void drop(amp_random_task *task, double p) {
    amp_random_keeping(task, 1.0 - p, 1.0 / (1.0 - p));
}

amp_status amp_dropout_at(amp_call *call, amp_tensor *out, amp_tensor *input, double p, amp_random_place place) {
    amp_random_task task = {.place = place};
    drop(&task, p);
    const amp_tensor *in = amp_contiguous(input);
    if (!in) return amp_pending_error();
    task.in_dtype = in->dtype;
    describe_out(&task, out);
    return fill_at(call, out, &task, in);
}

amp_status amp_op_dropout_backward(amp_call *call) {
    const amp_dropout_backward_args *a = call->args;
    amp_tensor *like = a->grad_output;
    AMP_TRY(check_probability(call, a->p));
    AMP_TRY(check_real(call, "grad_output", like));
    amp_tensor *out = amp_call_output_like(call, 0, like->dtype, like->rank, like->shape, like);
    const amp_random_place place = {.seed = (uint64_t)a->seed, .offset = (uint64_t)a->offset};
    return out ? amp_dropout_at(call, out, like, a->p, place) : amp_pending_error();
}

/* What the three ops begin with; *keeps: nothing is dropped, and input is the result. */
static amp_status begin_dropout(amp_call *call, amp_tensor *input, double p, bool training, bool *keeps) {
    AMP_TRY(check_probability(call, p));
    *keeps = !training || p == 0.0 || amp_tensor_elements(input) == 0;
    if (*keeps) call->outputs[0] = input;
    return *keeps ? AMP_OK : check_real(call, "input", input);
}

amp_status amp_op_dropout(amp_call *call) {
    const amp_dropout_args *a = call->args;
    bool keeps;
    AMP_TRY(begin_dropout(call, a->input, a->p.value, a->training.value, &keeps));
    if (keeps) return AMP_OK;
    amp_random_task task = {0};
    drop(&task, a->p.value);
    return return_from(call, of_input(a->input, AMP_DTYPE_NONE), &task, a->input, a->generator);
}

/* A fresh tensor with 0 where p hits, else `kept`. */
static amp_tensor *make_mask(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape, double p, double kept,
                             amp_generator *generator) {
    amp_random_task task = {0};
    amp_tensor *mask = amp_backend_tensor(call->device, call->op->name, dtype, rank, shape);
    amp_random_keeping(&task, 1.0 - p, kept);
    return mask && amp_random_fill(call, mask, &task, generator) == AMP_OK ? mask : NULL;
}

amp_status amp_op_feature_dropout(amp_call *call) {
    const amp_feature_dropout_args *a = call->args;
    const amp_tensor *input = a->input;
    const double p = a->p.value;
    int64_t shape[AMP_MAX_RANK];
    bool keeps;
    AMP_TRY(begin_dropout(call, a->input, p, a->training.value, &keeps));
    if (keeps) return AMP_OK;
    if (input->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected (N, C, …)", amp_call_name(call),
                        amp_describe(input));
    }
    for (int d = 0; d < input->rank; d++) shape[d] = d < 2 ? input->shape[d] : 1;
    amp_tensor *mask = make_mask(call, input->dtype, input->rank, shape, p, 1.0 / (1.0 - p), a->generator);
    call->outputs[0] = mask ? amp_mul(a->input, mask) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* selu's least value, −α·scale (Klambauer et al., Self-Normalizing Neural Networks, 2017, section 2), takes the place
 * of what is dropped; the scale a and the shift that follow keep mean and variance. */
amp_status amp_op_alpha_dropout(amp_call *call) {
    const amp_alpha_dropout_args *a = call->args;
    const amp_tensor *input = a->input;
    const double alpha = 1.7580993408473766, p = a->p.value;
    bool keeps;
    AMP_TRY(begin_dropout(call, a->input, p, a->training.value, &keeps));
    if (keeps) return AMP_OK;
    const double scale = p < 1.0 ? 1.0 / sqrt((alpha * alpha * p + 1.0) * (1.0 - p)) : 0.0;
    amp_tensor *mask = make_mask(call, input->dtype, input->rank, input->shape, p, scale, a->generator);
    if (!mask) return amp_pending_error();
    amp_tensor *shift = amp_add_scalar(amp_mul_scalar(mask, amp_float(alpha)), amp_float(alpha * scale * (p - 1.0)));
    call->outputs[0] = shift ? amp_addcmul(shift, a->input, mask) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
