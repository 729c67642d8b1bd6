/* randperm and multinomial, made of other ops: so they are the same on every device. */
#include <math.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "ops/random_results.h"

/* ---- randperm --------------------------------------------------------------------------------------------------- */

/* n numbers from 0 on, each exact: so many there are. */
static amp_status check_holds(const amp_call *call, int64_t n, amp_dtype dtype) {
    static const int64_t counts[AMP_DTYPE_COUNT] = {
        [AMP_I64] = INT64_MAX,       [AMP_I32] = 1LL << 31,       [AMP_I16] = 1LL << 15,
        [AMP_I8] = 1LL << 7,         [AMP_U8] = 1LL << 8,         [AMP_F64] = (1LL << 53) + 1,
        [AMP_F32] = (1LL << 24) + 1, [AMP_F16] = (1LL << 11) + 1, [AMP_BF16] = (1LL << 8) + 1,
    };
    if (counts[dtype] == 0) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: the result would be %s; expected a real dtype other than bool",
                        amp_call_name(call), amp_dtype_name(dtype));
    }
    if (n >= 0 && n <= counts[dtype]) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'n' is %lld; expected a number from 0 to %lld, as many as %s can tell apart",
                    amp_call_name(call), (long long)n, (long long)counts[dtype], amp_dtype_name(dtype));
}

/* The order of random keys of 64 bits. Equal ones stay in the order of their numbers: among 2³² there is one such pair
 * in every second call. */
amp_status amp_op_randperm(amp_call *call) {
    const amp_randperm_args *a = call->args;
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? AMP_I64 : a->dtype;
    AMP_TRY(check_holds(call, a->n, dtype));
    amp_random_task task = {.kind = AMP_RANDOM_PLAIN};
    amp_tensor *keys = amp_backend_tensor(call->device, call->op->name, AMP_I64, 1, &a->n), *order = NULL;
    if (!keys) return amp_pending_error();
    AMP_TRY(amp_random_fill(call, keys, &task, a->generator));
    if (!amp_sort(keys, .stable = true, .indices = &order)) return amp_pending_error();
    call->outputs[0] = amp_to(order, dtype);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- multinomial ------------------------------------------------------------------------------------------------ */

static amp_status check_drawing(const amp_call *call, const amp_multinomial_args *a) {
    const amp_tensor *input = a->input;
    if (!amp_dtype_is_floating(input->dtype) || input->rank < 1 || input->rank > 2) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'input' is %s; expected weights in f32, f64, f16 or bf16 of rank 1 or 2",
                        amp_call_name(call), amp_describe(input));
    }
    const int64_t weights = input->shape[input->rank - 1];
    if (a->num_samples > 0 && (a->replacement || a->num_samples <= weights)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'num_samples' is %lld and input %s; expected at least 1%s",
                    amp_call_name(call), (long long)a->num_samples, amp_describe(input),
                    a->replacement ? "" : ", and without replacement no more than there are weights");
}

static double read_number(amp_tensor *t) {
    return t ? amp_item(amp_to_device(t, AMP_DEVICE_CPU)) : 0.0;
}

/* `sums`: of the rows. */
static amp_status check_weights(const amp_call *call, amp_tensor *weights, amp_tensor *sums) {
    if (amp_tensor_elements(sums) == 0) return AMP_OK;
    const double least = amp_tensor_elements(weights) ? read_number(amp_amin(weights)) : 0.0;
    const double least_sum = read_number(amp_amin(sums)), most_sum = read_number(amp_amax(sums));
    if (amp_failed()) return amp_pending_error();
    if (least >= 0.0 && least_sum > 0.0 && most_sum < HUGE_VAL) return AMP_OK;
    return amp_fail(
        AMP_ERROR_INVALID,
        "%s: the least weight is %g, and the sums of rows are from %g to %g; expected no weight below 0, no "
        "NaN, and sums above 0 and finite",
        amp_call_name(call), least, least_sum, most_sum);
}

/* The first of the running sums that lies above a number from [0, the last of them): never one of weight 0, which does
 * not lie above the one before. */
static amp_tensor *draw_with_replacement(const amp_call *call, amp_tensor *weights, int64_t samples,
                                         amp_generator *generator) {
    amp_dims size = {.count = weights->rank, .set = AMP_PRESENT};
    size.values[0] = weights->shape[0];
    size.values[weights->rank - 1] = samples;
    amp_tensor *places = amp_rand(size, .dtype = AMP_F64, .device = (int64_t)call->device, .generator = generator);
    amp_tensor *running = amp_cumsum(weights, -1);
    amp_tensor *last = running ? amp_narrow(running, -1, running->shape[running->rank - 1] - 1, 1) : NULL;
    return last ? amp_searchsorted(running, amp_mul(places, last), .right = true) : NULL;
}

/* Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006: the greatest u^(1/weight), u from (0, 1),
 * here as logarithms; −∞ for a weight of 0. */
static amp_tensor *draw_without(amp_tensor *weights, int64_t samples, amp_generator *generator) {
    amp_tensor *u = amp_uniform(weights, 0x1p-53, .generator = generator), *indices = NULL;
    amp_tensor *values = amp_topk(amp_div(amp_log(u), weights), samples, .indices = &indices);
    return values ? indices : NULL;
}

/* In f64 throughout. */
amp_status amp_op_multinomial(amp_call *call) {
    const amp_multinomial_args *a = call->args;
    AMP_TRY(check_drawing(call, a));
    amp_tensor *weights = amp_to(a->input, AMP_F64);
    amp_tensor *sums = weights ? amp_sum(weights, .dim = AMP_DIMS(-1)) : NULL;
    if (!sums) return amp_pending_error();
    AMP_TRY(check_weights(call, weights, sums));
    call->outputs[0] = a->replacement ? draw_with_replacement(call, weights, a->num_samples, a->generator)
                                      : draw_without(weights, a->num_samples, a->generator);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
