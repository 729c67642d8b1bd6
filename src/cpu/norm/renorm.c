/* renorm. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "core/parallel.h"
#include "cpu/convert/copy.h"
#include "cpu/cpu_steps.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"

/* ---- renorm ------------------------------------------------------------------------------------------------------ */

static void scale_f32(void *context, void *out, const void *const *in, int64_t n) {
    (*(amp_binary_function **)context)(out, in[0], in[1], n, 0.0F);
}

static void scale_f64(void *context, void *out, const void *const *in, int64_t n) {
    const double *x = in[0], *scale = in[1];
    (void)context;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = x[i] * scale[i];
}

static void scale_c128(void *context, void *out, const void *const *in, int64_t n) {
    const double *x = in[0], *scale = in[1]; /* a complex number, too, whose imaginary part is 0 */
    (void)context;
    for (int64_t i = 0; i < 2 * n; i++) ((double *)out)[i] = x[i] * scale[i & ~(int64_t)1];
}

/* What each slice is multiplied by, from its norm, in place. */
static void scales_from_norms(amp_tensor *norms, double limit) {
    double *norm = amp_tensor_pointer(norms);
    const int64_t n = amp_tensor_elements(norms);
    for (int64_t i = 0; i < n; i++) norm[i] = norm[i] > limit ? limit / (norm[i] + 1e-7) : 1.0;
}

amp_status amp_cpu_scale_slices(amp_call *call, amp_tensor *input, amp_tensor *norms, double limit) {
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    const bool is_complex = amp_dtype_is_complex(input->dtype);
    amp_binary_function *mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!mul) return amp_pending_error();
    scales_from_norms(norms, limit);
    amp_tensor *out = amp_call_output(call, 0, input->dtype, input->rank, input->shape);
    if (!out) return amp_pending_error();
    const amp_operand v[2] = {amp_tensor_operand("input", input), amp_tensor_operand("norm", norms)};
    amp_dense_function *scale = is_complex ? scale_c128 : compute == AMP_F32 ? scale_f32 : scale_f64;
    amp_operands_run(v, 2, compute, compute, scale, &mul, 2, out);
    return AMP_OK;
}
