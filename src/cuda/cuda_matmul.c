/* From the products of the op layer to those of cuBLASLt: one stride for a matrix, one for a batch; other layouts are
 * copied first. */
#include "cuda/cuda_matmul.h"

#include <string.h>

#include "amp/cuda.h"
#include "cpu/element.h"
#include "cuda/cuda_elementwise.h"

/* The operand in the module's terms; false: it must be laid out densely first. */
static bool as_matrix(const amp_matrix *x, int64_t rows, int64_t columns, amp_cuda_matrix *m) {
    const int64_t row = rows > 1 ? x->row : columns, column = columns > 1 ? x->column : 1;
    m->transposed = column != 1;
    m->stride = m->transposed ? column : row;
    if (m->transposed && row != 1 && rows > 1) return false;
    if (m->transposed && rows == 1) m->stride = column; /* one row, its elements apart */
    return m->stride >= (m->transposed ? rows : columns);
}

/* Whether the batch steps through the operand evenly. */
static bool even_batch(const amp_matmul *p, const int64_t *strides, int64_t *stride) {
    int64_t count = 1;
    *stride = 0;
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        if (p->batch_shape[i] == 1) continue;
        if (count == 1) *stride = strides[i];
        if (strides[i] != *stride * count) return false;
        count *= p->batch_shape[i];
    }
    return true;
}

/* The operand as a tensor of (batch…, rows, columns). */
static amp_tensor as_tensor(const amp_matmul *p, const amp_matrix *x, int64_t rows, int64_t columns) {
    amp_tensor t = *x->tensor;
    t.rank = p->batch_rank + 2;
    memcpy(t.shape, p->batch_shape, sizeof t.shape);
    memcpy(t.strides, x->batch, sizeof t.strides);
    t.shape[t.rank - 2] = rows;
    t.shape[t.rank - 1] = columns;
    t.strides[t.rank - 2] = x->row;
    t.strides[t.rank - 1] = x->column;
    return t;
}

static amp_status set_operand(const amp_call *call, const amp_matmul *p, const amp_matrix *x, int64_t rows,
                              int64_t columns, amp_cuda_matrix *m) {
    const char *op = call->op->name;
    if (as_matrix(x, rows, columns, m) && even_batch(p, x->batch, &m->batch_stride)) {
        m->data = amp_cuda_address(op, x->tensor);
        return m->data ? AMP_OK : amp_pending_error();
    }
    const amp_tensor view = as_tensor(p, x, rows, columns);
    amp_tensor *copy = amp_cuda_temporary(call, view.dtype, view.rank, view.shape);
    if (!copy) return amp_pending_error();
    AMP_TRY(amp_cuda_copy_tensor(copy, &view));
    *m = (amp_cuda_matrix){.data = amp_cuda_address(op, copy), .stride = columns, .batch_stride = rows * columns};
    return m->data ? AMP_OK : amp_pending_error();
}

static amp_status type_of(const amp_call *call, const amp_tensor *t, amp_cuda_type *type) {
    switch (t->dtype) {
    case AMP_F16: *type = AMP_CUDA_F16; return AMP_OK;
    case AMP_BF16: *type = AMP_CUDA_BF16; return AMP_OK;
    case AMP_F32: *type = AMP_CUDA_F32; return AMP_OK;
    case AMP_F64: *type = AMP_CUDA_F64; return AMP_OK;
    case AMP_C64: *type = AMP_CUDA_C64; return AMP_OK;
    case AMP_C128: *type = AMP_CUDA_C128; return AMP_OK;
    default: /* nor has PyTorch */
        return amp_fail(AMP_ERROR_DTYPE,
                        "%s: there are no products of %s on cuda; expected a floating or complex dtype",
                        amp_call_name(call), amp_dtype_name(t->dtype));
    }
}

/* What is added to the product stands in the result first: the residual, or a bias that no epilogue takes. */
static amp_status start_result(const amp_matmul *p, amp_tensor *c, bool with_bias, double *beta) {
    beta[0] = beta[1] = 0.0;
    if (p->residual.tensor) {
        const amp_tensor residual = as_tensor(p, &p->residual, p->m, p->n);
        beta[0] = p->beta;
        beta[1] = p->beta_imaginary;
        return amp_cuda_copy_tensor(c, &residual);
    }
    if (!with_bias) return AMP_OK;
    beta[0] = 1.0;
    return amp_cuda_copy_tensor(c, p->bias);
}

/* Of nothing but what is added: an inner extent of 0. */
static amp_status without_product(amp_tensor *c, const double *beta) {
    const amp_scalar factor = amp_complex(beta[0], beta[1]), zero = amp_float(0.0);
    if (beta[0] == 1.0 && beta[1] == 0.0) return AMP_OK;
    if (beta[0] == 0.0 && beta[1] == 0.0) return amp_cuda_fill(c, &zero);
    const amp_operand v[2] = {amp_tensor_operand("result", c), amp_number_operand("beta", factor)};
    return amp_cuda_compute(NULL, AMP_FORMULA_mul, v, 2, amp_compute_dtype(c->dtype), (amp_formula_numbers){0}, c);
}

/* cuBLAS knows GELU by tanh only, and of a bias beside it. */
static amp_status activate(const amp_matmul *p, bool relu_is_done) {
    if (p->epilogue.activation == AMP_GEMM_RELU && relu_is_done) return AMP_OK;
    return amp_apply_epilogue(p->c.tensor, &p->epilogue);
}

amp_status amp_cuda_matmul(amp_call *call, const amp_matmul *p) {
    const char *op = call->op->name;
    amp_tensor c = as_tensor(p, &p->c, p->m, p->n);
    amp_cuda_product q = {.m = p->m, .n = p->n, .k = p->k, .batch = 1, .alpha = {p->alpha, p->alpha_imaginary}};
    AMP_TRY(type_of(call, p->a.tensor, &q.type));
    for (int i = 0; i < p->batch_rank; i++) q.batch *= p->batch_shape[i];
    if (q.m == 0 || q.n == 0 || q.batch == 0) return AMP_OK;
    q.tf32 = (q.type == AMP_CUDA_F32 || q.type == AMP_CUDA_C64) && amp_cuda_matmul_allow_tf32();
    const bool fused = q.type < AMP_CUDA_F64 && q.k > 0;
    call->note.kernel = "cublaslt";
    AMP_TRY(start_result(p, &c, p->bias && !fused, q.beta));
    if (q.k == 0) {
        AMP_TRY(without_product(&c, q.beta));
        return activate(p, false);
    }
    AMP_TRY(set_operand(call, p, &p->a, p->m, p->k, &q.a));
    AMP_TRY(set_operand(call, p, &p->b, p->k, p->n, &q.b));
    q.c = (amp_cuda_matrix){.data = amp_cuda_address(op, p->c.tensor), .stride = p->n, .batch_stride = p->m * p->n};
    if (p->bias && fused) q.bias = amp_cuda_address(op, p->bias);
    if (fused && p->epilogue.activation == AMP_GEMM_RELU) q.relu = true;
    if (!q.c.data || (p->bias && fused && !q.bias)) return amp_pending_error();
    AMP_TRY(amp_cuda_status(op, amp_cuda_loaded()->multiply(&q)));
    return activate(p, fused);
}
