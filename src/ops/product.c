/* linear, matmul, mm, bmm, mv, addmm and their kin: shapes checked, operands laid out, one product run. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/hot.h"
#include "cpu/product/matmul.h"
#include "policy/promotion.h"
#include "steps/constants.h"
#include "steps/steps.h"

/* ---- Helpers --------------------------------------------------------------------------------------------------- */
static amp_status check_rank(const amp_call *call, const char *name, const amp_tensor *t, int rank) {
    if (t->rank == rank) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected %d dimensions", amp_call_name(call), name,
                    amp_describe(t), rank);
}

static amp_status check_inner(const amp_call *call, const char *name_a, const amp_tensor *a, int64_t ka,
                              const char *name_b, const amp_tensor *b, int64_t kb) {
    if (ka == kb) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; the inner extents %lld and %lld must be equal",
                    amp_call_name(call), name_a, amp_describe(a), name_b, amp_describe(b), (long long)ka,
                    (long long)kb);
}

/* Rows of the last two dimensions; broadcast dimensions before them get stride 0. */
static amp_matrix matrix_of(amp_tensor *t, int batch_rank) {
    amp_matrix x = {.tensor = t, .row = t->strides[t->rank - 2], .column = t->strides[t->rank - 1]};
    const int own = t->rank - 2;
    for (int i = 0; i < batch_rank; i++) {
        const int d = i - (batch_rank - own);
        x.batch[i] = d >= 0 && t->shape[d] != 1 ? t->strides[d] : 0;
    }
    return x;
}

/* The result, dense: the target itself, or a temporary that the dispatcher copies into a strided one. */
AMP_HOT static amp_tensor *dense_output(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    if (amp_call_check_target_dtype(call, dtype) != AMP_OK) return NULL;
    return amp_call_dense_output(call, dtype, rank, shape);
}

static amp_matrix dense_result(amp_tensor *t, int64_t m, int64_t n, int batch_rank, const int64_t *batch_shape) {
    amp_matrix c = {.tensor = t, .row = n, .column = 1};
    int64_t stride = m * n;
    for (int i = batch_rank - 1; i >= 0; i--) {
        c.batch[i] = stride;
        stride *= batch_shape[i];
    }
    return c;
}

/* Views t's shape as broadcast to (batch…, m, n). */
static amp_status broadcast_residual(const amp_call *call, const char *name, amp_tensor *t, const amp_matmul *p,
                                     amp_matrix *residual) {
    int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK];
    const int rank = p->batch_rank + 2;
    memcpy(shape, p->batch_shape, sizeof shape);
    shape[rank - 2] = p->m;
    shape[rank - 1] = p->n;
    AMP_TRY(amp_broadcast_strides(call, name, t, rank, shape, strides));
    *residual = (amp_matrix){.tensor = t, .row = strides[rank - 2], .column = strides[rank - 1]};
    memcpy(residual->batch, strides, (size_t)p->batch_rank * sizeof *strides);
    return AMP_OK;
}

/* A factor of a product in `dtype`. */
static amp_status read_number(const amp_call *call, const char *name, amp_scalar s, amp_dtype dtype, double *real,
                              double *imaginary) {
    const amp_constant c = amp_constant_of(&s, AMP_C128);
    if (c.c128[1] != 0 && !amp_dtype_is_complex(dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is a complex number, the matrices are %s", amp_call_name(call), name,
                        amp_dtype_name(dtype));
    }
    *real = c.c128[0];
    *imaginary = c.c128[1];
    return AMP_OK;
}

/* The CPU has no products of f16. */
static bool is_widened(const amp_call *call, const amp_tensor *t) {
    return t->dtype == AMP_F16 && call->device == AMP_DEVICE_CPU;
}

/* ---- linear ---------------------------------------------------------------------------------------------------- */

/* The dimensions before the last as rows of one matrix: possible where the strides step evenly. */
AMP_HOT static bool fold_rows(const amp_tensor *t, int64_t *rows, int64_t *stride) {
    *rows = 1;
    *stride = 0;
    for (int i = t->rank - 2; i >= 0; i--) {
        if (t->shape[i] != 1) {
            if (*rows != 1 && t->strides[i] != *stride * *rows) return false;
            if (*rows == 1) *stride = t->strides[i];
        }
        *rows *= t->shape[i];
    }
    return true;
}

/* The arguments that linear and its kin have in common; `bias` is the argument itself. */
typedef struct layer {
    amp_tensor *input, *weight, **bias;
} layer;

AMP_APART static amp_status extents_differ(const amp_call *call, const amp_tensor *x, const amp_tensor *w) {
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'input' is %s, 'weight' is %s; weight is (out, in), and in must be the last extent of input",
                    amp_call_name(call), amp_describe(x), amp_describe(w));
}

AMP_APART static amp_status check_bias(const amp_call *call, const amp_tensor *bias, const amp_tensor *w) {
    AMP_TRY(amp_call_check_same_dtype(call, "bias", bias, "weight", w));
    if (bias->rank == 1 && bias->shape[0] == w->shape[0]) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'bias' is %s, 'weight' is %s; expected a bias of shape [%lld]",
                    amp_call_name(call), amp_describe(bias), amp_describe(w), (long long)w->shape[0]);
}

AMP_HOT static amp_status check_linear(const amp_call *call, const layer *l) {
    const amp_tensor *x = l->input, *w = l->weight, *bias = *l->bias;
    AMP_TRY(check_rank(call, "weight", w, 2));
    AMP_TRY(amp_call_check_same_dtype(call, "input", x, "weight", w));
    if (x->rank < 1 || x->shape[x->rank - 1] != w->shape[1]) return extents_differ(call, x, w);
    return bias ? check_bias(call, bias, w) : AMP_OK;
}

AMP_APART static amp_tensor *folded_copy(amp_call *call, amp_tensor *x, int64_t *rows, int64_t *stride) {
    if (amp_call_materialize(call, x) != AMP_OK) return NULL;
    amp_tensor *copy = amp_contiguous(x);
    if (copy) (void)fold_rows(copy, rows, stride);
    return copy;
}

/* A dense copy where the rows of the input cannot be folded. */
static inline amp_tensor *foldable(amp_call *call, amp_tensor *x, int64_t *rows, int64_t *stride) {
    return fold_rows(x, rows, stride) ? x : folded_copy(call, x, rows, stride);
}

AMP_HOT amp_status amp_cpu_dense_bias(amp_call *call, amp_tensor **bias) {
    if (!*bias) return AMP_OK;
    AMP_TRY(amp_call_materialize(call, *bias));
    if (!amp_tensor_is_dense(*bias)) *bias = amp_contiguous(*bias);
    return *bias ? AMP_OK : amp_pending_error();
}

/* The product of a layer into what `output` makes: everything but what is done to it. Inlined, for it is the longer
 * half of a small linear. */
static inline __attribute__((always_inline)) amp_status
read_layer(amp_call *call, const layer *l, amp_dtype dtype,
           amp_tensor *(*output)(amp_call *, amp_dtype, int, const int64_t *), amp_matmul *p) {
    AMP_TRY(amp_cpu_matmul_operand(call, l->input, false));
    AMP_TRY(amp_cpu_matmul_operand(call, l->weight, true));
    AMP_TRY(amp_cpu_dense_bias(call, l->bias));
    const amp_tensor *w = l->weight;
    amp_matmul_clear(p);
    amp_tensor *x = foldable(call, l->input, &p->m, &p->a.row);
    if (!x) return amp_pending_error();
    p->n = w->shape[0];
    p->k = w->shape[1];
    p->bias = *l->bias;
    p->alpha = 1;
    p->b_is_weight = true;
    p->a.tensor = x;
    p->a.column = x->strides[x->rank - 1];
    p->b.tensor = l->weight;
    p->b.row = w->strides[1];
    p->b.column = w->strides[0];
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->rank - 1] = p->n;
    amp_tensor *out = output(call, dtype, x->rank, shape);
    if (!out) return amp_pending_error();
    p->c.tensor = out;
    p->c.row = p->n;
    p->c.column = 1;
    return AMP_OK;
}

AMP_HOT amp_status amp_op_linear(amp_call *call) {
    const amp_linear_args *args = call->args;
    amp_tensor *bias = args->bias;
    const layer l = {args->input, args->weight, &bias};
    AMP_TRY(check_linear(call, &l));
    if (is_widened(call, args->input)) return amp_cpu_run_widened(call, amp_op_linear);
    amp_matmul p;
    AMP_TRY(read_layer(call, &l, args->input->dtype, dense_output, &p));
    return amp_steps_of(call)->matmul(call, &p);
}

/* ---- linear_pointwise ------------------------------------------------------------------------------------------ */

/* `other` as what is added to the result: in its dtype, or wider, and laid out so that its rows fold. */
static amp_status add_other(amp_call *call, const char *name, amp_tensor *other, double beta, amp_matmul *p) {
    const amp_tensor *out = p->c.tensor;
    const bool fits = other->dtype == out->dtype || (other->dtype == AMP_F32 && out->dtype == AMP_BF16);
    amp_tensor view = *out, *t = other;
    int64_t rows;
    AMP_TRY(amp_broadcast_strides(call, name, other, out->rank, out->shape, view.strides));
    if (!fits || !fold_rows(&view, &rows, &p->residual.row)) {
        t = amp_backend_tensor(call->device, call->op->name, fits ? other->dtype : out->dtype, out->rank, out->shape);
        if (!t) return amp_pending_error();
        AMP_TRY(amp_copy_tensor(t, other));
        view = *t;
        (void)fold_rows(&view, &rows, &p->residual.row);
    }
    p->residual.tensor = t;
    p->residual.column = view.strides[view.rank - 1];
    p->beta = beta;
    return AMP_OK;
}

/* What the kernels do not take along: all of it in the dtype that computes, and rounded at the end. */
static amp_status add_in_parts(amp_call *call, const layer *l, const amp_additions *a, const amp_epilogue *epilogue) {
    const amp_dtype own = l->input->dtype, wide = amp_dtype_size(own) == 2 ? AMP_F32 : own;
    AMP_TRY(amp_call_materialize(call, l->input));
    AMP_TRY(amp_call_materialize(call, l->weight));
    AMP_TRY(amp_join_shift(call, a, wide, l->bias));
    amp_tensor *y = amp_linear(amp_to(l->input, wide), amp_to(l->weight, wide), *l->bias);
    if (y && a->residual) {
        int64_t strides[AMP_MAX_RANK];
        AMP_TRY(amp_broadcast_strides(call, "residual", a->residual, y->rank, y->shape, strides));
        y = amp_add(y, amp_to(a->residual, wide));
    }
    if (!y) return amp_pending_error();
    AMP_TRY(amp_apply_epilogue(y, epilogue));
    call->outputs[0] = amp_to(y, a->dtype == AMP_DTYPE_NONE ? own : a->dtype);
    return call->outputs[0] ? amp_call_check_target_dtype(call, call->outputs[0]->dtype) : amp_pending_error();
}

amp_status amp_op_linear_pointwise(amp_call *call) {
    const amp_linear_pointwise_args *args = call->args;
    amp_tensor *bias = args->bias;
    const layer l = {args->input, args->weight, &bias};
    const amp_additions more = {args->shift, args->residual, args->dtype};
    const amp_epilogue_words words = {"attr", args->attr, args->scalars, args->algorithm};
    const amp_dtype dtype = args->dtype == AMP_DTYPE_NONE ? args->input->dtype : args->dtype;
    amp_epilogue epilogue;
    AMP_TRY(check_linear(call, &l));
    AMP_TRY(amp_check_additions(call, &more, args->input, args->weight->shape[0]));
    AMP_TRY(amp_read_epilogue(call, &words, args->input->dtype, &epilogue));
    if (amp_has_additions(&more) && !amp_kernels_add(call, &more, args->input))
        return add_in_parts(call, &l, &more, &epilogue);
    if (is_widened(call, args->input)) return amp_cpu_run_widened(call, amp_op_linear_pointwise);
    AMP_TRY(amp_join_shift(call, &more, AMP_DTYPE_NONE, &bias));
    amp_matmul p;
    AMP_TRY(read_layer(call, &l, dtype, dense_output, &p));
    if (args->residual) AMP_TRY(add_other(call, "residual", args->residual, 1, &p));
    p.epilogue = epilogue;
    return amp_steps_of(call)->matmul(call, &p);
}

static amp_tensor *own_f32(amp_call *call, amp_dtype dtype, int rank, const int64_t *shape) {
    return amp_backend_tensor(call->device, call->op->name, dtype, rank, shape);
}

/* The product, of bf16 on the CPU in f32, and then the op on it: rounded once. */
static amp_status join_by_op(amp_call *call, const layer *l, amp_join join, amp_tensor *other, amp_dtype dtype) {
    amp_tensor *joined;
    if (l->input->dtype == AMP_BF16 && call->device == AMP_DEVICE_CPU) {
        amp_matmul p;
        AMP_TRY(read_layer(call, l, AMP_F32, own_f32, &p));
        AMP_TRY(amp_steps_of(call)->matmul(call, &p));
        joined = amp_apply_join(p.c.tensor, join, other);
        if (joined && joined->dtype != dtype) joined = amp_to(joined, dtype);
    } else {
        AMP_TRY(amp_call_materialize(call, l->input));
        AMP_TRY(amp_call_materialize(call, l->weight));
        if (*l->bias) AMP_TRY(amp_call_materialize(call, *l->bias));
        const amp_dtype wide = l->input->dtype == AMP_F16 && call->device == AMP_DEVICE_CPU ? AMP_F32 : l->input->dtype;
        amp_tensor *bias = *l->bias ? amp_to(*l->bias, wide) : NULL;
        amp_tensor *product = amp_linear(amp_to(l->input, wide), amp_to(l->weight, wide), bias);
        joined = product ? amp_apply_join(product, join, other) : NULL;
    }
    if (!joined) return amp_pending_error();
    AMP_TRY(amp_call_check_target_dtype(call, joined->dtype));
    call->outputs[0] = joined;
    return AMP_OK;
}

/* What is added is taken along where the result is of the product's dtype, or f32 and the product of bf16. */
amp_status amp_op_linear_pointwise_binary(amp_call *call) {
    const amp_linear_pointwise_binary_args *args = call->args;
    amp_tensor *bias = args->bias;
    const layer l = {args->input, args->weight, &bias};
    amp_join join;
    AMP_TRY(check_linear(call, &l));
    AMP_TRY(amp_read_join(call, "attr", args->attr, &join));
    AMP_TRY(amp_call_materialize(call, args->other));
    const amp_dtype own = args->input->dtype,
                    dtype = amp_result_type((amp_tensor *[]){args->input, args->other}, 2, NULL, 0);
    if (is_widened(call, args->input) && dtype == own) return amp_cpu_run_widened(call, amp_op_linear_pointwise_binary);
    const bool widens = own == AMP_BF16 && dtype == AMP_F32 && call->device == AMP_DEVICE_CPU;
    const bool added = join == AMP_JOIN_ADD || join == AMP_JOIN_SUB;
    if (!added || (dtype != own && !widens)) return join_by_op(call, &l, join, args->other, dtype);
    amp_matmul p;
    AMP_TRY(read_layer(call, &l, dtype, dense_output, &p));
    AMP_TRY(add_other(call, "other", args->other, join == AMP_JOIN_ADD ? 1 : -1, &p));
    return amp_steps_of(call)->matmul(call, &p);
}

/* ---- matmul, mm, bmm ------------------------------------------------------------------------------------------- */
static amp_status broadcast_batch(const amp_call *call, const char *name_a, const amp_tensor *a, const char *name_b,
                                  const amp_tensor *b, amp_matmul *p) {
    p->batch_rank = (a->rank > b->rank ? a->rank : b->rank) - 2;
    for (int i = 0; i < p->batch_rank; i++) {
        const int da = i - (p->batch_rank - (a->rank - 2)), db = i - (p->batch_rank - (b->rank - 2));
        const int64_t ea = da >= 0 ? a->shape[da] : 1, eb = db >= 0 ? b->shape[db] : 1;
        if (ea != eb && ea != 1 && eb != 1) {
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: '%s' is %s, '%s' is %s; the batch extents %lld and %lld do not "
                            "broadcast",
                            amp_call_name(call), name_a, amp_describe(a), name_b, amp_describe(b), (long long)ea,
                            (long long)eb);
        }
        p->batch_shape[i] = ea == 1 ? eb : ea;
    }
    return AMP_OK;
}

/* A product of two operands of rank ≥ 2, their batch dimensions broadcast: everything but the result. */
static amp_status product(amp_call *call, const char *name_a, amp_tensor *a, const char *name_b, amp_tensor *b,
                          amp_matmul *p) {
    AMP_TRY(amp_call_check_same_dtype(call, name_a, a, name_b, b));
    AMP_TRY(check_inner(call, name_a, a, a->shape[a->rank - 1], name_b, b, b->shape[b->rank - 2]));
    AMP_TRY(broadcast_batch(call, name_a, a, name_b, b, p));
    AMP_TRY(amp_cpu_matmul_operand(call, a, false));
    AMP_TRY(amp_cpu_matmul_operand(call, b, true));
    p->m = a->shape[a->rank - 2];
    p->k = a->shape[a->rank - 1];
    p->n = b->shape[b->rank - 1];
    p->a = matrix_of(a, p->batch_rank);
    p->b = matrix_of(b, p->batch_rank);
    p->b_is_weight = b->rank == 2;
    p->alpha = 1;
    return AMP_OK;
}

/* Several matrices against one: all their rows against it, where the rows follow one another evenly. */
static void fold_batch_into_rows(amp_matmul *p) {
    if (p->batch_rank == 0 || p->b.tensor->rank != 2 || p->residual.tensor) return;
    int64_t rows = p->m, stride = p->a.row;
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        if (p->batch_shape[i] != 1 && p->a.batch[i] != stride * rows) return;
        rows *= p->batch_shape[i];
    }
    p->m = rows;
    p->batch_rank = 0;
}

static amp_status run_product_in(amp_call *call, amp_matmul *p, amp_dtype dtype, int rank, const int64_t *shape) {
    amp_tensor *out = dense_output(call, dtype, rank, shape);
    if (!out) return amp_pending_error();
    p->c = dense_result(out, p->m, p->n, p->batch_rank, p->batch_shape);
    fold_batch_into_rows(p);
    return amp_steps_of(call)->matmul(call, p);
}

static amp_status run_product(amp_call *call, amp_matmul *p, int rank, const int64_t *shape) {
    return run_product_in(call, p, p->a.tensor->dtype, rank, shape);
}

/* A vector on the left is a row, on the right a column; the result lacks that dimension. */
static amp_tensor *as_matrix(amp_tensor *t, bool left) {
    if (t->rank != 1) return t;
    return amp_unsqueeze(t, left ? 0 : 1);
}

amp_status amp_op_matmul(amp_call *call) {
    const amp_matmul_args *args = call->args;
    amp_tensor *a = args->input, *b = args->other;
    if (a->rank == 0 || b->rank == 0) {
        return amp_fail(AMP_ERROR_INVALID, "matmul: 'input' is %s, 'other' is %s; both need at least 1 dimension",
                        amp_describe(a), amp_describe(b));
    }
    AMP_TRY(amp_call_check_same_dtype(call, "input", a, "other", b));
    if (is_widened(call, a)) return amp_cpu_run_widened(call, amp_op_matmul);
    if (a->rank == 1) AMP_TRY(amp_call_materialize(call, a));
    if (b->rank == 1) AMP_TRY(amp_call_materialize(call, b));
    const bool drop_row = a->rank == 1, drop_column = b->rank == 1;
    a = as_matrix(a, true);
    b = as_matrix(b, false);
    amp_matmul p = {0};
    if (!a || !b) return amp_pending_error();
    AMP_TRY(product(call, "input", a, "other", b, &p));
    int64_t shape[AMP_MAX_RANK];
    int rank = p.batch_rank;
    memcpy(shape, p.batch_shape, sizeof shape);
    if (!drop_row) shape[rank++] = p.m;
    if (!drop_column) shape[rank++] = p.n;
    return run_product(call, &p, rank, shape);
}

amp_status amp_op_mm(amp_call *call) {
    const amp_mm_args *args = call->args;
    amp_matmul p = {0};
    AMP_TRY(check_rank(call, "input", args->input, 2));
    AMP_TRY(check_rank(call, "mat2", args->mat2, 2));
    if (is_widened(call, args->input)) return amp_cpu_run_widened(call, amp_op_mm);
    AMP_TRY(product(call, "input", args->input, "mat2", args->mat2, &p));
    return run_product(call, &p, 2, (const int64_t[]){p.m, p.n});
}

/* The CPU's kernels store the sums of bf16 as they are; every other product is rounded first, and converted. */
amp_status amp_op_mm_dtype(amp_call *call) {
    const amp_mm_dtype_args *args = call->args;
    const amp_dtype dtype = args->out_dtype;
    amp_matmul p = {0};
    AMP_TRY(check_rank(call, "input", args->input, 2));
    AMP_TRY(check_rank(call, "mat2", args->mat2, 2));
    AMP_TRY(amp_call_check_target_dtype(call, dtype));
    if (call->device == AMP_DEVICE_CPU && args->input->dtype == AMP_BF16 && dtype == AMP_F32) {
        AMP_TRY(product(call, "input", args->input, "mat2", args->mat2, &p));
        return run_product_in(call, &p, dtype, 2, (const int64_t[]){p.m, p.n});
    }
    amp_tensor *rounded = amp_mm(args->input, args->mat2);
    call->outputs[0] = rounded && rounded->dtype != dtype ? amp_to(rounded, dtype) : rounded;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

static amp_status check_bmm(const amp_call *call, const char *name_a, const amp_tensor *a, const char *name_b,
                            const amp_tensor *b) {
    AMP_TRY(check_rank(call, name_a, a, 3));
    AMP_TRY(check_rank(call, name_b, b, 3));
    if (a->shape[0] == b->shape[0]) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; the batch extents must be equal",
                    amp_call_name(call), name_a, amp_describe(a), name_b, amp_describe(b));
}

amp_status amp_op_bmm(amp_call *call) {
    const amp_bmm_args *args = call->args;
    amp_matmul p = {0};
    AMP_TRY(check_bmm(call, "input", args->input, "mat2", args->mat2));
    if (is_widened(call, args->input)) return amp_cpu_run_widened(call, amp_op_bmm);
    AMP_TRY(product(call, "input", args->input, "mat2", args->mat2, &p));
    return run_product(call, &p, 3, (const int64_t[]){args->input->shape[0], p.m, p.n});
}

/* ---- addmm, baddbmm, addbmm ------------------------------------------------------------------------------------ */

/* beta = 0 means that `input` is not looked at: its NaN does not reach the result. */
static amp_status add_residual(amp_call *call, amp_tensor *input, amp_scalar beta, amp_scalar alpha, amp_matmul *p) {
    amp_matrix residual;
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, call->op->args[1].name, p->a.tensor));
    AMP_TRY(amp_call_materialize(call, input));
    AMP_TRY(broadcast_residual(call, "input", input, p, &residual));
    AMP_TRY(read_number(call, "alpha", alpha, input->dtype, &p->alpha, &p->alpha_imaginary));
    AMP_TRY(read_number(call, "beta", beta, input->dtype, &p->beta, &p->beta_imaginary));
    if (p->beta != 0 || p->beta_imaginary != 0) p->residual = residual;
    return AMP_OK;
}

static amp_status check_addmm(const amp_call *call, const amp_tensor *input, const amp_tensor *mat1,
                              const amp_tensor *mat2) {
    AMP_TRY(check_rank(call, "mat1", mat1, 2));
    AMP_TRY(check_rank(call, "mat2", mat2, 2));
    return amp_call_check_same_dtype(call, "input", input, "mat1", mat1);
}

amp_status amp_op_addmm(amp_call *call) {
    const amp_addmm_args *args = call->args;
    amp_matmul p = {0};
    AMP_TRY(check_addmm(call, args->input, args->mat1, args->mat2));
    if (is_widened(call, args->mat1)) return amp_cpu_run_widened(call, amp_op_addmm);
    AMP_TRY(product(call, "mat1", args->mat1, "mat2", args->mat2, &p));
    AMP_TRY(add_residual(call, args->input, args->beta, args->alpha, &p));
    return run_product(call, &p, 2, (const int64_t[]){p.m, p.n});
}

amp_status amp_op_addmm_activation(amp_call *call) {
    const amp_addmm_activation_args *args = call->args;
    amp_matmul p = {0};
    AMP_TRY(check_addmm(call, args->input, args->mat1, args->mat2));
    if (is_widened(call, args->mat1)) return amp_cpu_run_widened(call, amp_op_addmm_activation);
    AMP_TRY(product(call, "mat1", args->mat1, "mat2", args->mat2, &p));
    AMP_TRY(add_residual(call, args->input, args->beta, args->alpha, &p));
    p.epilogue.activation = args->use_gelu ? AMP_GEMM_GELU_ERF : AMP_GEMM_RELU;
    return run_product(call, &p, 2, (const int64_t[]){p.m, p.n});
}

amp_status amp_op_baddbmm(amp_call *call) {
    const amp_baddbmm_args *args = call->args;
    amp_matmul p = {0};
    AMP_TRY(check_bmm(call, "batch1", args->batch1, "batch2", args->batch2));
    AMP_TRY(amp_call_check_same_dtype(call, "input", args->input, "batch1", args->batch1));
    if (is_widened(call, args->batch1)) return amp_cpu_run_widened(call, amp_op_baddbmm);
    AMP_TRY(product(call, "batch1", args->batch1, "batch2", args->batch2, &p));
    AMP_TRY(add_residual(call, args->input, args->beta, args->alpha, &p));
    return run_product(call, &p, 3, (const int64_t[]){args->batch1->shape[0], p.m, p.n});
}

/* The products of a batch are one product along a longer inner extent: (m, b·k) by (b·k, n), laid out so first. */
amp_status amp_op_addbmm(amp_call *call) {
    const amp_addbmm_args *args = call->args;
    amp_matmul p = {0};
    AMP_TRY(check_bmm(call, "batch1", args->batch1, "batch2", args->batch2));
    AMP_TRY(amp_call_check_same_dtype(call, "input", args->input, "batch1", args->batch1));
    if (is_widened(call, args->batch1)) return amp_cpu_run_widened(call, amp_op_addbmm);
    AMP_TRY(check_inner(call, "batch1", args->batch1, args->batch1->shape[2], "batch2", args->batch2,
                        args->batch2->shape[1]));
    AMP_TRY(amp_call_materialize(call, args->batch1));
    AMP_TRY(amp_call_materialize(call, args->batch2));
    const int64_t m = args->batch1->shape[1], n = args->batch2->shape[2];
    const int64_t k = args->batch1->shape[0] * args->batch1->shape[2];
    amp_tensor *a = amp_reshape(amp_permute(args->batch1, AMP_DIMS(1, 0, 2)), AMP_DIMS(m, k));
    amp_tensor *b = amp_reshape(args->batch2, AMP_DIMS(k, n));
    if (!a || !b) return amp_pending_error();
    AMP_TRY(product(call, "batch1", a, "batch2", b, &p));
    p.b_is_weight = false;
    AMP_TRY(add_residual(call, args->input, args->beta, args->alpha, &p));
    return run_product(call, &p, 2, (const int64_t[]){m, n});
}

/* ---- mv, addmv ------------------------------------------------------------------------------------------------- */

/* mat times vec as the row vec times matᵀ: so the matrix is the operand that is packed, and kept where it is a
 * weight. */
static amp_status vector_product(amp_call *call, const char *name_mat, amp_tensor *mat, amp_tensor *vec,
                                 amp_matmul *p) {
    AMP_TRY(amp_call_check_same_dtype(call, name_mat, mat, "vec", vec));
    AMP_TRY(check_inner(call, name_mat, mat, mat->shape[1], "vec", vec, vec->shape[0]));
    AMP_TRY(amp_cpu_matmul_operand(call, vec, false));
    AMP_TRY(amp_cpu_matmul_operand(call, mat, true));
    *p = (amp_matmul){.m = 1, .n = mat->shape[0], .k = mat->shape[1], .alpha = 1, .b_is_weight = true};
    p->a = (amp_matrix){.tensor = vec, .row = vec->shape[0], .column = vec->strides[0]};
    p->b = (amp_matrix){.tensor = mat, .row = mat->strides[1], .column = mat->strides[0]};
    return AMP_OK;
}

amp_status amp_op_mv(amp_call *call) {
    const amp_mv_args *args = call->args;
    amp_matmul p;
    AMP_TRY(check_rank(call, "input", args->input, 2));
    AMP_TRY(check_rank(call, "vec", args->vec, 1));
    if (is_widened(call, args->input)) return amp_cpu_run_widened(call, amp_op_mv);
    AMP_TRY(vector_product(call, "input", args->input, args->vec, &p));
    return run_product(call, &p, 1, (const int64_t[]){p.n});
}

amp_status amp_op_addmv(amp_call *call) {
    const amp_addmv_args *args = call->args;
    amp_matmul p;
    AMP_TRY(check_rank(call, "mat", args->mat, 2));
    AMP_TRY(check_rank(call, "vec", args->vec, 1));
    if (args->input->rank > 1) AMP_TRY(check_rank(call, "input", args->input, 1));
    AMP_TRY(amp_call_check_same_dtype(call, "input", args->input, "mat", args->mat));
    if (is_widened(call, args->mat)) return amp_cpu_run_widened(call, amp_op_addmv);
    AMP_TRY(vector_product(call, "mat", args->mat, args->vec, &p));
    AMP_TRY(add_residual(call, args->input, args->beta, args->alpha, &p));
    return run_product(call, &p, 1, (const int64_t[]){p.n});
}
