/* The epilogues of products and convolutions, as elementwise formulas. */
#include "cuda/ops/cuda_epilogue.h"

#include "core/compute_dtype.h"
#include "cuda/ops/cuda_elementwise.h"

static const amp_cuda_activation activations[AMP_GEMM_ACTIVATION_COUNT] = {
    [AMP_GEMM_NONE] = AMP_CUDA_NONE,
    [AMP_GEMM_RELU] = AMP_CUDA_RELU,
    [AMP_GEMM_GELU_ERF] = AMP_CUDA_GELU_ERF,
    [AMP_GEMM_GELU_TANH] = AMP_CUDA_GELU_TANH,
    [AMP_GEMM_SILU] = AMP_CUDA_SILU,
    [AMP_GEMM_TANH] = AMP_CUDA_TANH,
    [AMP_GEMM_SIGMOID] = AMP_CUDA_SIGMOID,
    [AMP_GEMM_HARDSWISH] = AMP_CUDA_HARDSWISH,
    [AMP_GEMM_LEAKY_RELU] = AMP_CUDA_LEAKY_RELU,
    [AMP_GEMM_HARDTANH] = AMP_CUDA_HARDTANH,
};

static amp_operand or_zero(const char *name, amp_tensor *t) {
    return t ? amp_tensor_operand(name, t) : amp_number_operand(name, amp_float(0.0));
}

amp_status amp_cuda_finish_sums(amp_call *call, const amp_cuda_sums *s, amp_tensor *y) {
    const amp_dtype compute = y->dtype == AMP_F64 ? AMP_F64 : AMP_F32;
    amp_tensor *scaled = s->sums;
    amp_operand v[3] = {amp_tensor_operand("sums", s->sums), or_zero("bias", s->bias), or_zero("other", s->residual)};
    if (amp_dtype_is_complex(y->dtype)) { /* they have a bias at most */
        const amp_formula_numbers one = {.p = 1.0, .whole = 1};
        return amp_cuda_compute(call, AMP_FORMULA_add, v, 2, AMP_C128, one, y);
    }
    if (s->scale) { /* the kernels have three operands: this one goes first, unrounded */
        const amp_operand product[3] = {v[0], amp_tensor_operand("scale", s->scale), v[1]};
        if (scaled->dtype != compute) scaled = amp_cuda_temporary(call, compute, y->rank, y->shape);
        if (!scaled) return amp_pending_error();
        AMP_TRY(amp_cuda_compute(call, AMP_FORMULA_scaled_sum, product, 3, compute, (amp_formula_numbers){0}, scaled));
        v[0].tensor = scaled;
        v[1] = or_zero("bias", NULL);
    }
    const amp_formula_numbers numbers = {
        .p = s->epilogue->numbers[0], .q = s->epilogue->numbers[1], .whole = activations[s->epilogue->activation]};
    return amp_cuda_compute(call, AMP_FORMULA_finish, v, 3, compute, numbers, y);
}

amp_status amp_cuda_relu(amp_call *call, amp_tensor *x, amp_tensor *y) {
    const amp_operand v = amp_tensor_operand("sums", x);
    return amp_cuda_compute(call, AMP_FORMULA_relu, &v, 1, amp_compute_dtype(x->dtype), (amp_formula_numbers){0}, y);
}
