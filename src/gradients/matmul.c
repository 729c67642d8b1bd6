/* Gradients of products. */
#include "gradients/pieces.h"

/* All dimensions but the last as rows. */
static amp_tensor *rows_of(amp_tensor *t) {
    const int64_t columns = t->shape[t->rank - 1];
    const int64_t rows = columns > 0 ? amp_tensor_elements(t) / columns : amp_tensor_size(t, 0);
    return t->rank == 2 ? t : amp_reshape(t, AMP_DIMS(rows, columns));
}

static bool is_one(amp_scalar s) {
    return s.kind == AMP_SCALAR_INT ? s.i == 1 : s.kind != AMP_SCALAR_COMPLEX && s.re == 1;
}

static amp_tensor *times(amp_tensor *t, amp_scalar factor) {
    return is_one(factor) ? t : amp_mul_scalar(t, amp_scalar_conjugate(factor));
}

/* The products of a row by row vector. */
static amp_tensor *with_conjugate(amp_tensor *matrix, amp_tensor *vector) {
    return amp_mv(matrix, amp_conjugate(vector));
}

void amp_gradient_linear(amp_gradient *g) {
    const amp_linear_args *a = g->args;
    amp_tensor *rows = rows_of(g->of[0]);
    if (!rows) return;
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *back = amp_mm(rows, amp_conjugate(a->weight));
        amp_gradient_give(g, &a->input, amp_reshape(back, amp_shape_of(a->input)));
    }
    if (amp_gradient_wants(g, &a->weight))
        amp_give_product(g, &a->weight, amp_t(rows), amp_conjugate(rows_of(a->input)));
    if (amp_gradient_wants(g, &a->bias)) amp_give_sums(g, &a->bias, rows, AMP_DIMS(0));
}

/* ---- Two matrices, or batches of them ----------------------------------------------------------------------------- */
void amp_gradient_mm(amp_gradient *g) {
    const amp_mm_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mm(g->of[0], amp_adjoint(a->mat2)));
    if (amp_gradient_wants(g, &a->mat2)) amp_give_product(g, &a->mat2, amp_adjoint(a->input), g->of[0]);
}

void amp_gradient_mm_dtype(amp_gradient *g) {
    const amp_mm_dtype_args *a = g->args;
    amp_tensor *back = amp_to(g->of[0], a->input->dtype);
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mm(back, amp_adjoint(a->mat2)));
    if (amp_gradient_wants(g, &a->mat2)) amp_give_product(g, &a->mat2, amp_adjoint(a->input), back);
}

void amp_gradient_bmm(amp_gradient *g) {
    const amp_bmm_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_bmm(g->of[0], amp_adjoint(a->mat2)));
    if (amp_gradient_wants(g, &a->mat2)) amp_gradient_give(g, &a->mat2, amp_bmm(amp_adjoint(a->input), g->of[0]));
}

/* Vectors as the matrices that matmul takes them for. */
static amp_tensor *as_rows(amp_tensor *t) {
    return t->rank == 1 ? amp_unsqueeze(t, 0) : t;
}
static amp_tensor *as_columns(amp_tensor *t) {
    return t->rank == 1 ? amp_unsqueeze(t, 1) : t;
}

/* One matrix for a batch of inputs: one product over all of their rows. */
static void give_shared(amp_gradient *g, amp_tensor *const *other, amp_tensor *input, amp_tensor *back) {
    amp_give_product(g, other, amp_adjoint(rows_of(input)), rows_of(back));
}

void amp_gradient_matmul(amp_gradient *g) {
    const amp_matmul_args *a = g->args;
    amp_tensor *back = g->of[0];
    if (a->other->rank == 1) back = amp_unsqueeze(back, -1);
    if (a->input->rank == 1) back = amp_unsqueeze(back, -2);
    if (!back) return;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_matmul(back, amp_adjoint(as_columns(a->other))));
    if (!amp_gradient_wants(g, &a->other)) return;
    if (a->other->rank == 2 && a->input->rank > 2) {
        give_shared(g, &a->other, a->input, back);
        return;
    }
    amp_tensor *other = amp_matmul(amp_adjoint(as_rows(a->input)), back);
    amp_gradient_give(g, &a->other, a->other->rank == 1 ? amp_squeeze(other, .dim = AMP_DIMS(-1)) : other);
}

/* ---- Matrix and vector, two vectors ------------------------------------------------------------------------------- */
void amp_gradient_mv(amp_gradient *g) {
    const amp_mv_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_outer(g->of[0], amp_conjugate(a->vec)));
    if (amp_gradient_wants(g, &a->vec)) amp_gradient_give(g, &a->vec, amp_mv(amp_adjoint(a->input), g->of[0]));
}

void amp_gradient_dot(amp_gradient *g) {
    const amp_dot_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(g->of[0], amp_conjugate(a->tensor)));
    if (amp_gradient_wants(g, &a->tensor)) amp_gradient_give(g, &a->tensor, amp_mul(g->of[0], amp_conjugate(a->input)));
}

/* Σ conj(x) · y */
void amp_gradient_vdot(amp_gradient *g) {
    const amp_vdot_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, amp_mul(amp_conjugate(g->of[0]), a->other));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, amp_mul(g->of[0], a->input));
}

void amp_gradient_linalg_vecdot(amp_gradient *g) {
    const amp_linalg_vecdot_args *a = g->args;
    amp_tensor *back = amp_unsqueeze(g->of[0], a->dim.set ? a->dim.value : -1);
    if (!back) return;
    if (amp_gradient_wants(g, &a->x)) amp_gradient_give(g, &a->x, amp_mul(amp_conjugate(back), a->y));
    if (amp_gradient_wants(g, &a->y)) amp_gradient_give(g, &a->y, amp_mul(back, a->x));
}

void amp_gradient_outer(amp_gradient *g) {
    const amp_outer_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, with_conjugate(g->of[0], a->vec2));
    if (amp_gradient_wants(g, &a->vec2)) amp_gradient_give(g, &a->vec2, with_conjugate(amp_t(g->of[0]), a->input));
}

/* ---- beta * input + alpha * a product ----------------------------------------------------------------------------- */
/* input broadcasts, and the tape sums. */
static void give_added(amp_gradient *g, amp_tensor *const *input, amp_scalar beta) {
    if (amp_gradient_wants(g, input)) amp_gradient_give(g, input, times(g->of[0], beta));
}

void amp_gradient_addmm(amp_gradient *g) {
    const amp_addmm_args *a = g->args;
    give_added(g, &a->input, a->beta);
    if (amp_gradient_wants(g, &a->mat1))
        amp_gradient_give(g, &a->mat1, times(amp_mm(g->of[0], amp_adjoint(a->mat2)), a->alpha));
    if (!amp_gradient_wants(g, &a->mat2)) return;
    if (is_one(a->alpha))
        amp_give_product(g, &a->mat2, amp_adjoint(a->mat1), g->of[0]);
    else
        amp_gradient_give(g, &a->mat2, times(amp_mm(amp_adjoint(a->mat1), g->of[0]), a->alpha));
}

void amp_gradient_addmv(amp_gradient *g) {
    const amp_addmv_args *a = g->args;
    give_added(g, &a->input, a->beta);
    if (amp_gradient_wants(g, &a->mat))
        amp_gradient_give(g, &a->mat, times(amp_outer(g->of[0], amp_conjugate(a->vec)), a->alpha));
    if (amp_gradient_wants(g, &a->vec))
        amp_gradient_give(g, &a->vec, times(amp_mv(amp_adjoint(a->mat), g->of[0]), a->alpha));
}

void amp_gradient_addr(amp_gradient *g) {
    const amp_addr_args *a = g->args;
    give_added(g, &a->input, a->beta);
    if (amp_gradient_wants(g, &a->vec1))
        amp_gradient_give(g, &a->vec1, times(with_conjugate(g->of[0], a->vec2), a->alpha));
    if (amp_gradient_wants(g, &a->vec2))
        amp_gradient_give(g, &a->vec2, times(with_conjugate(amp_t(g->of[0]), a->vec1), a->alpha));
}

/* Of one gradient for the sum of a batch's products. */
void amp_gradient_addbmm(amp_gradient *g) {
    const amp_addbmm_args *a = g->args;
    give_added(g, &a->input, a->beta);
    if (amp_gradient_wants(g, &a->batch1))
        amp_gradient_give(g, &a->batch1, times(amp_matmul(g->of[0], amp_adjoint(a->batch2)), a->alpha));
    if (amp_gradient_wants(g, &a->batch2))
        amp_gradient_give(g, &a->batch2, times(amp_matmul(amp_adjoint(a->batch1), g->of[0]), a->alpha));
}

void amp_gradient_baddbmm(amp_gradient *g) {
    const amp_baddbmm_args *a = g->args;
    give_added(g, &a->input, a->beta);
    if (amp_gradient_wants(g, &a->batch1))
        amp_gradient_give(g, &a->batch1, times(amp_bmm(g->of[0], amp_adjoint(a->batch2)), a->alpha));
    if (amp_gradient_wants(g, &a->batch2))
        amp_gradient_give(g, &a->batch2, times(amp_bmm(amp_adjoint(a->batch1), g->of[0]), a->alpha));
}

/* ---- The vector product ------------------------------------------------------------------------------------------- */
void amp_gradient_cross(amp_gradient *g) {
    const amp_cross_args *a = g->args;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_cross(amp_conjugate(a->other), g->of[0], .dim = a->dim));
    if (amp_gradient_wants(g, &a->other))
        amp_gradient_give(g, &a->other, amp_cross(g->of[0], amp_conjugate(a->input), .dim = a->dim));
}

/* ---- A matrix for each output ------------------------------------------------------------------------------------- */
void amp_gradient_bilinear(amp_gradient *g) {
    const amp_bilinear_args *a = g->args;
    amp_tensor *back = rows_of(g->of[0]), *left = rows_of(a->input1), *right = rows_of(a->input2);
    if (!back || !left || !right) return;
    amp_tensor *weight = amp_conjugate(a->weight);
    if (amp_gradient_wants(g, &a->input1)) {
        amp_tensor *t = amp_einsum("no,nj,oij->ni", AMP_LIST(back, amp_conjugate(right), weight));
        amp_gradient_give(g, &a->input1, amp_reshape(t, amp_shape_of(a->input1)));
    }
    if (amp_gradient_wants(g, &a->input2)) {
        amp_tensor *t = amp_einsum("no,ni,oij->nj", AMP_LIST(back, amp_conjugate(left), weight));
        amp_gradient_give(g, &a->input2, amp_reshape(t, amp_shape_of(a->input2)));
    }
    if (amp_gradient_wants(g, &a->weight)) {
        const amp_tensor_list factors = AMP_LIST(back, amp_conjugate(left), amp_conjugate(right));
        amp_gradient_give(g, &a->weight, amp_einsum("no,ni,nj->oij", factors));
    }
    if (amp_gradient_wants(g, &a->bias)) amp_gradient_give(g, &a->bias, amp_sum(back, .dim = AMP_DIMS(0)));
}
