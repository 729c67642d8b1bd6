/* fake_quantize_per_tensor_affine: onto the grid of an integer quantisation and back. q = round(x/scale) + zero_point,
 * to nearest even, kept within [quant_min, quant_max]; the result is (q − zero_point)·scale. */
#include <math.h>

#include "amp/ops.h"
#include "cpu/convert/element.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"

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

/* A place of zero that a tensor has is seen by whoever reads it. */
static amp_status check_zero(const amp_call *call, int64_t zero_point, int64_t low, int64_t high) {
    if (zero_point >= low && zero_point <= high) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'quant_min' is %lld, 'zero_point' is %lld, 'quant_max' is %lld; expected them in this order",
                    amp_call_name(call), (long long)low, (long long)zero_point, (long long)high);
}

amp_status amp_cpu_fake_quantize(amp_call *call, amp_tensor *input, amp_tensor *scale, amp_tensor *zero_point,
                                 int64_t low, int64_t high) {
    double factor;
    int64_t zero;
    amp_block_load(AMP_F64, &factor, scale->dtype, amp_tensor_pointer(scale), 0, 1);
    amp_block_load(AMP_I64, &zero, zero_point->dtype, amp_tensor_pointer(zero_point), 0, 1);
    AMP_TRY(check_zero(call, zero, low, high));
    grid g = {factor, (double)zero, (double)low, (double)high};
    const amp_operand v = amp_tensor_operand("input", input);
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    amp_tensor *out = amp_operands_output(call, &v, 1, input->dtype);
    if (!out) return amp_pending_error();
    amp_operands_run(&v, 1, compute, compute, compute == AMP_F32 ? quantize_f32 : quantize_f64, &g, 4, out);
    return AMP_OK;
}
