/* glu and prelu: one half of the input gates the other; a learnt slope below zero. */
#include <math.h>

#include "amp/ops.h"
#include "core/compute_dtype.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/registry/kernels.h"
#include "steps/row_rules.h"

/* ---- glu --------------------------------------------------------------------------------------------------------- */

typedef struct gate {
    amp_unary_function *sigmoid;
    amp_binary_function *mul;
} gate;

static void glu_f32(void *context, void *out, const void *const *in, int64_t n) {
    const gate *g = context;
    g->sigmoid(out, in[1], n);
    g->mul(out, in[0], out, n, 0.0F);
}

static void glu_f64(void *context, void *out, const void *const *in, int64_t n) {
    const double *a = in[0], *b = in[1];
    (void)context;
    for (int64_t i = 0; i < n; i++) {
        const double z = exp(-fabs(b[i]));
        ((double *)out)[i] = a[i] * ((b[i] < 0 ? z : 1.0) / (1.0 + z));
    }
}

amp_status cpu_glu(amp_call *call) {
    const amp_glu_args *a = call->args;
    gate g;
    int d;
    AMP_TRY(amp_read_glu(call, a, &d));
    amp_tensor first = *a->input;
    first.shape[d] /= 2;
    amp_tensor second = first;
    second.offset += first.shape[d] * first.strides[d];
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_SIGMOID, AMP_F32, AMP_F32);
    g.mul = (amp_binary_function *)amp_kernel_get(AMP_KERNEL_MUL, AMP_F32, AMP_F32);
    if (!kernel || !g.mul) return amp_pending_error();
    g.sigmoid = (amp_unary_function *)kernel->function;
    const amp_operand v[2] = {amp_tensor_operand("input", &first), amp_tensor_operand("input", &second)};
    const amp_dtype compute = amp_compute_dtype(first.dtype);
    if (compute == AMP_F32) call->note.kernel = kernel->name;
    amp_tensor *out = amp_call_output_like(call, 0, first.dtype, first.rank, first.shape, a->input);
    if (!out) return amp_pending_error();
    amp_operands_run(v, 2, compute, compute, compute == AMP_F32 ? glu_f32 : glu_f64, &g, 4, out);
    return AMP_OK;
}

/* ---- prelu ------------------------------------------------------------------------------------------------------- */

static void prelu_f32(void *context, void *out, const void *const *in, int64_t n) {
    (*(amp_loss_function **)context)(out, in[0], in[1], NULL, n, 0.0F);
}

static void prelu_f64(void *context, void *out, const void *const *in, int64_t n) {
    const double *x = in[0], *slope = in[1];
    (void)context;
    for (int64_t i = 0; i < n; i++) ((double *)out)[i] = x[i] > 0 ? x[i] : slope[i] * x[i];
}

amp_status cpu_prelu(amp_call *call) {
    const amp_prelu_args *a = call->args;
    const amp_tensor *input = a->input;
    amp_tensor slope;
    AMP_TRY(amp_read_slopes(call, a, &slope));
    const amp_operand v[2] = {amp_tensor_operand("input", a->input), amp_tensor_operand("weight", &slope)};
    const amp_dtype compute = amp_compute_dtype(input->dtype);
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_PRELU, AMP_F32, AMP_F32);
    amp_tensor *out = kernel ? amp_operands_output(call, v, 2, input->dtype) : NULL;
    if (!out) return amp_pending_error();
    amp_loss_function *f32 = (amp_loss_function *)kernel->function;
    if (compute == AMP_F32) call->note.kernel = kernel->name;
    amp_operands_run(v, 2, compute, compute, compute == AMP_F32 ? prelu_f32 : prelu_f64, &f32, 2, out);
    return AMP_OK;
}
