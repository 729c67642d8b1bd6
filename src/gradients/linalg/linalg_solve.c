/* Gradients of inverses, of the solutions of equations, and of determinants. */
#include "gradients/linalg/matrices.h"

/* (…, n) as (…, n, 1). */
static amp_tensor *as_matrix(amp_tensor *t, bool is_vector) {
    return is_vector ? amp_unsqueeze(t, -1) : t;
}
static amp_tensor *as_vector(amp_tensor *t, bool is_vector) {
    return is_vector ? amp_squeeze(t, .dim = AMP_DIMS(-1)) : t;
}

/* In A X = B, B is a vector, or a batch of vectors that fits the batch of A. */
static bool is_vector_side(const amp_tensor *a, const amp_tensor *b) {
    return b->rank == 1 || (b->rank == a->rank - 1 && !memcmp(a->shape, b->shape, (size_t)b->rank * sizeof *b->shape));
}

/* The gradient of M in M X = B, or in X M = B, from that of B. */
static amp_tensor *of_coefficients(amp_tensor *of_b, amp_tensor *x, bool left) {
    return amp_neg(left ? amp_matmul(of_b, amp_adjoint(x)) : amp_matmul(amp_adjoint(x), of_b));
}

/* ---- Inverses ------------------------------------------------------------------------------------------------------ */
void amp_gradient_linalg_inv(amp_gradient *g) {
    if (g->of[0]) amp_gradient_give(g, amp_first_argument(g), amp_undo_inverse(g->results[0], g->of[0]));
}

void amp_gradient_linalg_tensorinv(amp_gradient *g) {
    const amp_linalg_tensorinv_args *a = g->args;
    int64_t rows = 1;
    for (int d = 0; d < a->ind.value; d++) rows *= a->A->shape[d];
    const amp_dims square = AMP_DIMS(rows, rows);
    amp_tensor *t = amp_undo_inverse(amp_reshape(g->results[0], square), amp_reshape(g->of[0], square));
    amp_gradient_give(g, &a->A, amp_reshape(t, amp_shape_of(a->A)));
}

void amp_gradient_linalg_pinv(amp_gradient *g) {
    amp_tensor *const *input = amp_first_argument(g);
    amp_gradient_give(g, input, amp_undo_pinv(amp_wide(*input), amp_wide(g->results[0]), amp_wide(g->of[0])));
}

/* Of a @ bᵀ. */
void amp_gradient_linalg_pinv_singular(amp_gradient *g) {
    const amp_linalg_pinv_singular_args *args = g->args;
    amp_tensor *a = amp_wide(args->a), *b = amp_wide(args->b);
    amp_tensor *product = amp_matmul(a, amp_transpose(b, -2, -1));
    amp_tensor *t = amp_undo_pinv(product, amp_wide(g->results[0]), amp_wide(g->of[0]));
    if (amp_gradient_wants(g, &args->a)) amp_gradient_give(g, &args->a, amp_matmul(t, amp_conjugate(b)));
    if (amp_gradient_wants(g, &args->b))
        amp_gradient_give(g, &args->b, amp_matmul(amp_transpose(t, -2, -1), amp_conjugate(a)));
}

/* ---- Equations ----------------------------------------------------------------------------------------------------- */
void amp_gradient_linalg_solve(amp_gradient *g) {
    const amp_linalg_solve_args *a = g->args;
    const bool left = a->left.value, is_vector = left && is_vector_side(a->A, a->B);
    amp_tensor *of = as_matrix(g->of[0], is_vector);
    amp_tensor *of_b = amp_linalg_solve(amp_adjoint(a->A), of, .left = AMP_SET(left));
    if (amp_gradient_wants(g, &a->B)) amp_gradient_give(g, &a->B, as_vector(of_b, is_vector));
    if (amp_gradient_wants(g, &a->A))
        amp_gradient_give(g, &a->A, of_coefficients(of_b, as_matrix(g->results[0], is_vector), left));
}

/* As the op does: the dimensions that are named move to the end, in their order. */
static amp_dims moved_to_end(const amp_dims *dims, int rank) {
    amp_dims order = {.set = AMP_PRESENT};
    unsigned named = 0;
    for (int i = 0; dims->set && i < dims->count; i++) named |= 1u << amp_dim_from_front(dims->values[i], rank);
    for (int d = 0; d < rank; d++) {
        if (!(named & 1u << d)) order.values[order.count++] = d;
    }
    for (int i = 0; dims->set && i < dims->count; i++)
        order.values[order.count++] = amp_dim_from_front(dims->values[i], rank);
    return order;
}

static amp_dims turned_back(const amp_dims *order) {
    amp_dims back = {.count = order->count, .set = AMP_PRESENT};
    for (int d = 0; d < order->count; d++) back.values[order->values[d]] = d;
    return back;
}

void amp_gradient_linalg_tensorsolve(amp_gradient *g) {
    const amp_linalg_tensorsolve_args *a = g->args;
    const amp_dims order = moved_to_end(&a->dims, a->A->rank);
    amp_tensor *moved = amp_permute(a->A, order);
    if (!moved) return;
    const int64_t n = amp_tensor_elements(a->B);
    const amp_dims column = AMP_DIMS(n, 1);
    amp_tensor *adjoint = amp_adjoint(amp_reshape(moved, AMP_DIMS(n, n)));
    amp_tensor *of_b = amp_linalg_solve(adjoint, amp_reshape(g->of[0], column));
    if (amp_gradient_wants(g, &a->B)) amp_gradient_give(g, &a->B, amp_reshape(of_b, amp_shape_of(a->B)));
    if (!amp_gradient_wants(g, &a->A)) return;
    amp_tensor *t = of_coefficients(of_b, amp_reshape(g->results[0], column), true);
    amp_gradient_give(g, &a->A, amp_permute(amp_reshape(t, amp_shape_of(moved)), turned_back(&order)));
}

void amp_gradient_linalg_solve_triangular(amp_gradient *g) {
    const amp_linalg_solve_triangular_args *a = g->args;
    const bool left = a->left.value;
    amp_tensor *of_b = amp_solved(amp_adjoint(a->input), g->of[0], !a->upper, left, a->unitriangular);
    if (amp_gradient_wants(g, &a->B)) amp_gradient_give(g, &a->B, of_b);
    if (!amp_gradient_wants(g, &a->input)) return;
    amp_tensor *t = of_coefficients(of_b, g->results[0], left);
    amp_gradient_give(g, &a->input, amp_triangle_of(t, a->upper, a->unitriangular));
}

/* The second result is a copy of A. `transpose` conjugates nothing. */
void amp_gradient_triangular_solve(amp_gradient *g) {
    const amp_triangular_solve_args *a = g->args;
    const bool upper = a->upper.value, unit = a->unitriangular;
    amp_tensor *of_a = NULL;
    if (g->of[0]) {
        amp_tensor *m = a->transpose ? amp_conjugate(a->A) : amp_adjoint(a->A);
        amp_tensor *of_b = amp_solved(m, g->of[0], a->transpose ? upper : !upper, true, unit);
        if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, of_b);
        if (amp_gradient_wants(g, &a->A)) {
            amp_tensor *t = of_coefficients(of_b, g->results[0], true);
            of_a = amp_triangle_of(a->transpose ? amp_transpose(t, -2, -1) : t, upper, unit);
        }
    }
    if (amp_gradient_wants(g, &a->A)) amp_gradient_give(g, &a->A, amp_sum_of(of_a, g->of[1]));
}

/* X = A⁺ B, and the squares of what is left of A X − B. */
void amp_gradient_linalg_lstsq(amp_gradient *g) {
    const amp_linalg_lstsq_args *a = g->args;
    const bool is_vector = is_vector_side(a->A, a->B);
    amp_tensor *x = as_matrix(g->results[0], is_vector), *b = as_matrix(a->B, is_vector);
    amp_tensor *of_a = NULL, *of_b = NULL;
    if (g->of[0]) {
        amp_tensor *of = as_matrix(g->of[0], is_vector), *inverse = amp_linalg_pinv(a->A, .rtol = a->rcond);
        of_b = amp_matmul(amp_adjoint(inverse), of);
        if (amp_gradient_wants(g, &a->A)) of_a = amp_undo_pinv(a->A, inverse, amp_matmul(of, amp_adjoint(b)));
    }
    if (g->of[1] && amp_tensor_elements(g->of[1]) > 0) {
        amp_tensor *twice = amp_mul_scalar(amp_unsqueeze(g->of[1], -2), amp_int(2));
        amp_tensor *left = amp_mul(amp_sub(amp_matmul(a->A, x), b), twice);
        of_b = amp_sum_of(of_b, amp_neg(left));
        if (amp_gradient_wants(g, &a->A)) of_a = amp_sum_of(of_a, amp_matmul(left, amp_adjoint(x)));
    }
    if (amp_gradient_wants(g, &a->B) && of_b) amp_gradient_give(g, &a->B, as_vector(of_b, is_vector));
    if (amp_gradient_wants(g, &a->A) && of_a) amp_gradient_give(g, &a->A, of_a);
}

/* ---- Determinants -------------------------------------------------------------------------------------------------- */

/* Factor · A⁻ᴴ of each matrix. */
static amp_tensor *times_inverse(amp_tensor *a, amp_tensor *factor) {
    amp_tensor *columns = a ? amp_identities(a, a->shape[a->rank - 1], a->shape[a->rank - 1]) : NULL;
    return amp_linalg_solve(amp_adjoint(a), amp_mul(columns, amp_unsqueeze(amp_unsqueeze(factor, -1), -1)));
}

static amp_tensor *smallest_step(const amp_gradient *g, amp_dtype dtype) {
    const bool is_double = dtype == AMP_F64 || dtype == AMP_C128;
    return amp_full((amp_dims){.set = AMP_PRESENT}, amp_float(is_double ? 0x1p-52 : 0x1p-23), .dtype = dtype,
                    .device = (int)g->device);
}

/* Odd permutations turn the sign: an exchange for each row that is not exchanged with itself. */
static amp_tensor *sign_of(amp_tensor *pivots, amp_dtype dtype) {
    if (!pivots) return NULL;
    const int64_t n = pivots->shape[pivots->rank - 1];
    amp_tensor *rows =
        amp_arange_start(amp_int(1), amp_int(n + 1), .dtype = pivots->dtype, .device = (int)pivots->storage->device);
    amp_tensor *count = amp_sum(amp_ne(pivots, rows), .dim = AMP_DIMS(-1));
    amp_tensor *turned = amp_mul_scalar(amp_remainder_scalar(count, amp_int(2)), amp_int(-2));
    return amp_to(amp_add_scalar(turned, amp_int(1)), dtype);
}

/* det(A) · A⁻ᴴ is defined where A is singular, too: a zero of U's diagonal becomes a small number, in both factors. */
void amp_gradient_linalg_det(amp_gradient *g) {
    amp_tensor *const *input = amp_first_argument(g), *a = amp_wide(*input), *pivots = NULL;
    if (!a || a->shape[a->rank - 1] == 0) {
        amp_gradient_give(g, input, amp_zeros_for(g, *input, (*input)->dtype));
        return;
    }
    amp_tensor *lu = amp_lu_with_info(a, .check_errors = AMP_SET(false), .pivots = &pivots);
    amp_tensor *diagonal = amp_diagonals(lu), *step = smallest_step(g, a->dtype);
    amp_tensor *more = amp_where_scalar_other(amp_eq_scalar(diagonal, amp_int(0)), step, amp_int(0));
    amp_tensor *product = amp_prod(amp_add(diagonal, more), AMP_SET(-1));
    amp_tensor *factor = amp_mul(amp_wide(g->of[0]), amp_conjugate(amp_mul(product, sign_of(pivots, a->dtype))));
    amp_tensor *columns = amp_identities(a, a->shape[a->rank - 1], a->shape[a->rank - 1]);
    columns = amp_mul(columns, amp_unsqueeze(amp_unsqueeze(factor, -1), -1));
    lu = amp_add(lu, amp_diag_embed(more));
    amp_gradient_give(g, input, amp_linalg_lu_solve(lu, pivots, columns, .adjoint = true));
}

void amp_gradient_logdet(amp_gradient *g) {
    const amp_logdet_args *a = g->args;
    amp_gradient_give(g, &a->input, times_inverse(amp_wide(a->input), amp_wide(g->of[0])));
}

/* d log|det| is Re tr(A⁻¹ dA), and d sign is i · Im tr(A⁻¹ dA) · sign: 0 of real numbers. */
void amp_gradient_linalg_slogdet(amp_gradient *g) {
    amp_tensor *const *input = amp_first_argument(g), *a = amp_wide(*input), *factor = amp_wide(g->of[1]);
    if (!a) return;
    if (amp_dtype_is_complex(a->dtype) && g->of[0]) {
        amp_tensor *turn = amp_imag(amp_mul(g->of[0], amp_conjugate(g->results[0])));
        amp_tensor *phase = amp_mul_scalar(turn, (amp_scalar){.kind = AMP_SCALAR_COMPLEX, .im = 1.0});
        factor = amp_sum_of(factor, phase);
    }
    amp_gradient_give(g, input, factor ? times_inverse(a, factor) : amp_zeros_for(g, *input, (*input)->dtype));
}
