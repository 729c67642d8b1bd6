/* fake_quantize_per_tensor_affine: onto the grid of an integer quantisation and back. q = round(x/scale) + zero_point,
 * to nearest even, kept within [quant_min, quant_max]; the result is (q − zero_point)·scale. */
#include <math.h>

#include "amp/ops.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/operands.h"
#include "cuda/ops/cuda_elementwise.h"
#include "ops/row_rules.h"

typedef struct grid {
    double scale, zero_point, low, high;
} grid;

/* scale and its inverse are f32 numbers, and so are the results, for f64 too: that is PyTorch's arithmetic. A NaN goes
 * where the least integer would, to the low end. */
#define QUANTIZE_LOOP(suffix, type, nearbyint)                                                                         \
    static void quantize_##suffix(void *context, void *out, const void *const *in, int64_t n) {                        \
        const grid *g = context;                                                                                       \
        const float scale = (float)g->scale, inverse = 1.0F / scale;                                                   \
        const type *x = in[0], zero = (type)g->zero_point, low = (type)g->low, high = (type)g->high;                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const type q = nearbyint(x[i] * (type)inverse) + zero, kept = q > low ? (q < high ? q : high) : low;       \
            ((type *)out)[i] = (type)((float)(kept - zero) * scale);                                                   \
        }                                                                                                              \
    }
QUANTIZE_LOOP(f32, float, nearbyintf)
QUANTIZE_LOOP(f64, double, nearbyint)

static amp_status check(const amp_call *call, const amp_tensor *input, int64_t low, int64_t high) {
    AMP_TRY(amp_check_floating(call, input));
    if (low <= high) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'quant_min' is %lld, 'quant_max' is %lld; expected them in this order",
                    amp_call_name(call), (long long)low, (long long)high);
}

static amp_status run(amp_call *call, amp_tensor *input, double scale, int64_t zero_point, int64_t low, int64_t high) {
    grid g = {scale, (double)zero_point, (double)low, (double)high};
    const amp_operand v = amp_tensor_operand("input", input);
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    AMP_TRY(check(call, input, low, high));
    if (zero_point < low || zero_point > high) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: 'quant_min' is %lld, 'zero_point' is %lld, 'quant_max' is %lld; expected them in this order",
            amp_call_name(call), (long long)low, (long long)zero_point, (long long)high);
    }
    if (call->device == AMP_DEVICE_CUDA) {
        amp_tensor *numbers[2] = {amp_full(AMP_NO_DIMS, amp_float(scale), .device = AMP_DEVICE_CUDA),
                                  amp_full(AMP_NO_DIMS, amp_int(zero_point), .device = AMP_DEVICE_CUDA)};
        if (!numbers[0] || !numbers[1]) return amp_pending_error();
        return amp_cuda_fake_quantize(call, input, numbers[0], numbers[1], low, high);
    }
    amp_tensor *out = amp_operands_output(call, &v, 1, input->dtype);
    if (!out) return amp_pending_error();
    amp_operands_run(&v, 1, compute, compute, compute == AMP_F32 ? quantize_f32 : quantize_f64, &g, 4, out);
    return AMP_OK;
}

amp_status cpu_fake_quantize_per_tensor_affine(amp_call *call) {
    const amp_fake_quantize_per_tensor_affine_args *a = call->args;
    return run(call, a->input, a->scale, a->zero_point, a->quant_min, a->quant_max);
}

amp_status cpu_fake_quantize_per_tensor_affine_tensor_qparams(amp_call *call) {
    const amp_fake_quantize_per_tensor_affine_tensor_qparams_args *a = call->args;
    double scale;
    int64_t zero_point;
    const amp_tensor *const numbers[] = {a->scale, a->zero_point};
    for (int i = 0; i < 2; i++) {
        const amp_tensor *t = numbers[i];
        if (amp_tensor_elements(t) == 1 && amp_compute_dtype(t->dtype) != AMP_C128) continue;
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected one real number", amp_call_name(call),
                        i ? "zero_point" : "scale", amp_describe(t));
    }
    AMP_TRY(check(call, a->input, a->quant_min, a->quant_max));
    if (call->device == AMP_DEVICE_CUDA) /* the zero point's place is not seen here */
        return amp_cuda_fake_quantize(call, a->input, a->scale, a->zero_point, a->quant_min, a->quant_max);
    amp_block_load(AMP_F64, &scale, a->scale->dtype, amp_tensor_pointer(a->scale), 0, 1);
    amp_block_load(AMP_I64, &zero_point, a->zero_point->dtype, amp_tensor_pointer(a->zero_point), 0, 1);
    return run(call, a->input, scale, zero_point, a->quant_min, a->quant_max);
}
