/* From the products of the op layer to those of cuBLASLt: one stride for a matrix, one for a batch; other layouts are
 * copied first. */
#include <string.h>

#include "amp/cuda.h"
#include "core/compute_dtype.h"
#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_elementwise.h"
#include "cuda/ops/cuda_epilogue.h"

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

/* Of nothing but what is added: an inner extent of 0. */
static amp_status without_product(amp_tensor *c, const double *beta) {
    const amp_scalar factor = amp_complex(beta[0], beta[1]), zero = amp_float(0.0);
    if (beta[0] == 1.0 && beta[1] == 0.0) return AMP_OK;
    if (beta[0] == 0.0 && beta[1] == 0.0) return amp_cuda_fill(c, &zero);
    const amp_operand v[2] = {amp_tensor_operand("result", c), amp_number_operand("beta", factor)};
    return amp_cuda_compute(NULL, AMP_FORMULA_mul, v, 2, amp_compute_dtype(c->dtype), (amp_formula_numbers){0}, c);
}

/* The product into c, which is dense. What is added to it stands there first. */
static amp_status product_into(amp_call *call, const amp_matmul *p, amp_cuda_product *q, amp_tensor *c,
                               amp_cuda_result *result) {
    *result = AMP_CUDA_OK;
    q->beta[0] = q->beta[1] = 0.0;
    AMP_TRY(type_of(call, c, &q->result));
    if (p->residual.tensor) {
        const amp_tensor residual = as_tensor(p, &p->residual, p->m, p->n);
        AMP_TRY(amp_cuda_copy_tensor(c, &residual));
        q->beta[0] = p->beta;
        q->beta[1] = p->beta_imaginary;
    }
    if (q->k == 0) return without_product(c, q->beta);
    q->c = (amp_cuda_matrix){.data = amp_cuda_address(call->op->name, c), .stride = p->n, .batch_stride = p->m * p->n};
    if (!q->c.data) return amp_pending_error();
    *result = amp_cuda_loaded()->multiply(q);
    return AMP_OK;
}

/* What cuBLAS knows of an epilogue, or leaves to be done in place (ReLU: its own makes 0 of NaN); of f64 and complex
 * numbers nothing. */
static bool takes_along(const amp_matmul *p, amp_cuda_product *q) {
    const amp_gemm_activation a = p->epilogue.activation;
    q->gelu = a == AMP_GEMM_GELU_TANH;
    if (a != AMP_GEMM_NONE && a != AMP_GEMM_RELU && !q->gelu) return false;
    return q->type < AMP_CUDA_F64 && q->k > 0 && p->a.tensor->dtype == p->c.tensor->dtype;
}

/* The bias where cuBLAS's kernels can read it: a copy, if it begins elsewhere. */
static amp_status set_bias(const amp_call *call, amp_tensor *bias, amp_cuda_product *q) {
    if (bias && (uintptr_t)amp_tensor_pointer(bias) % 16 != 0) {
        amp_tensor *copy = amp_cuda_temporary(call, bias->dtype, 1, bias->shape);
        if (!copy) return amp_pending_error();
        AMP_TRY(amp_cuda_copy_tensor(copy, bias));
        bias = copy;
    }
    q->bias = bias ? amp_cuda_address(call->op->name, bias) : NULL;
    return bias && !q->bias ? amp_pending_error() : AMP_OK;
}

/* With bias and activation in the product, if the library has that. */
static amp_status try_fused(amp_call *call, const amp_matmul *p, amp_cuda_product *q, bool *done) {
    amp_tensor c = as_tensor(p, &p->c, p->m, p->n);
    amp_cuda_result result;
    AMP_TRY(set_bias(call, p->bias, q));
    AMP_TRY(product_into(call, p, q, &c, &result));
    *done = result != AMP_CUDA_REFUSED;
    if (!*done) return AMP_OK;
    AMP_TRY(amp_cuda_status(call->op->name, result));
    return p->epilogue.activation == AMP_GEMM_RELU ? amp_cuda_relu(call, &c, &c) : AMP_OK;
}

/* The product alone, unrounded, and then the rest. */
static amp_status product_and_epilogue(amp_call *call, const amp_matmul *p, amp_cuda_product *q) {
    const bool more = p->bias || p->epilogue.activation != AMP_GEMM_NONE;
    amp_tensor c = as_tensor(p, &p->c, p->m, p->n), *sums = &c;
    amp_cuda_result result;
    if (more && amp_dtype_size(c.dtype) == 2) sums = amp_cuda_temporary(call, AMP_F32, c.rank, c.shape);
    if (!sums) return amp_pending_error();
    q->bias = NULL;
    q->gelu = false;
    AMP_TRY(product_into(call, p, q, sums, &result));
    AMP_TRY(amp_cuda_status(call->op->name, result));
    const amp_cuda_sums rest = {.sums = sums, .bias = p->bias, .epilogue = &p->epilogue};
    return more ? amp_cuda_finish_sums(call, &rest, &c) : AMP_OK;
}

amp_status amp_cuda_matmul(amp_call *call, amp_matmul *p) {
    amp_cuda_product q = {.m = p->m, .n = p->n, .k = p->k, .batch = 1, .alpha = {p->alpha, p->alpha_imaginary}};
    bool done = false;
    AMP_TRY(type_of(call, p->a.tensor, &q.type));
    for (int i = 0; i < p->batch_rank; i++) q.batch *= p->batch_shape[i];
    if (q.m == 0 || q.n == 0 || q.batch == 0) return AMP_OK;
    q.tf32 = (q.type == AMP_CUDA_F32 || q.type == AMP_CUDA_C64) && amp_cuda_matmul_allow_tf32();
    call->note.kernel = "cublaslt";
    if (q.k > 0) {
        AMP_TRY(set_operand(call, p, &p->a, p->m, p->k, &q.a));
        AMP_TRY(set_operand(call, p, &p->b, p->k, p->n, &q.b));
    }
    if (takes_along(p, &q)) AMP_TRY(try_fused(call, p, &q, &done));
    return done ? AMP_OK : product_and_epilogue(call, p, &q);
}
