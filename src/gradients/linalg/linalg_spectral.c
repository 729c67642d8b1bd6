/* Gradients of singular values, eigenvalues and their vectors, and of functions of matrices. */
#include "gradients/linalg/matrices.h"

/* ---- Singular values ----------------------------------------------------------------------------------------------- */

/* Of full factors those that belong to singular values. */
static amp_tensor *first_columns(amp_tensor *t, int64_t k) {
    return t && t->shape[t->rank - 1] > k ? amp_narrow(t, -1, 0, k) : t;
}
static amp_tensor *first_rows(amp_tensor *t, int64_t k) {
    return t && t->shape[t->rank - 2] > k ? amp_narrow(t, -2, 0, k) : t;
}

void amp_gradient_linalg_svd(amp_gradient *g) {
    const amp_linalg_svd_args *a = g->args;
    amp_tensor *s = g->results[1], *gvh = g->of[2];
    const int64_t k = s->shape[s->rank - 1];
    amp_tensor *u = first_columns(g->results[0], k), *vh = first_rows(g->results[2], k);
    gvh = gvh ? amp_adjoint(first_rows(gvh, k)) : NULL;
    amp_tensor *t = amp_undo_svd(u, s, vh, first_columns(g->of[0], k), g->of[1], gvh);
    if (t) amp_gradient_give(g, &a->A, t);
}

/* From the values alone: the vectors are computed now. */
static void give_values(amp_gradient *g, amp_tensor *of) {
    amp_tensor *const *input = amp_first_argument(g), *s = NULL, *vh = NULL;
    amp_tensor *u = amp_linalg_svd(*input, .full_matrices = AMP_SET(false), .S = &s, .Vh = &vh);
    if (u && of) amp_gradient_give(g, input, amp_undo_svd(u, s, vh, NULL, of, NULL));
}

void amp_gradient_linalg_svdvals(amp_gradient *g) {
    give_values(g, g->of[0]);
}

void amp_gradient_svd(amp_gradient *g) {
    const amp_svd_args *a = g->args;
    amp_tensor *s = g->results[1];
    if (!a->compute_uv.value) {
        give_values(g, g->of[1]);
        return;
    }
    const int64_t k = s->shape[s->rank - 1];
    amp_tensor *u = first_columns(g->results[0], k), *vh = amp_adjoint(first_columns(g->results[2], k));
    amp_tensor *t = amp_undo_svd(u, s, vh, first_columns(g->of[0], k), g->of[1], first_columns(g->of[2], k));
    if (t) amp_gradient_give(g, &a->input, t);
}

/* ---- Eigenvalues of Hermitian matrices ----------------------------------------------------------------------------- */

/* l_k − l_j, and 1 on the diagonal. */
static amp_tensor *differences(amp_tensor *values) {
    amp_tensor *t = amp_sub(amp_unsqueeze(values, -2), amp_unsqueeze(values, -1));
    return amp_add(t, amp_diag_embed(amp_ones_like(values)));
}

static amp_tensor *without_diagonal(amp_tensor *m) {
    return amp_sub(m, amp_diag_embed(amp_diagonals(m)));
}

/* Hermitian, as the input is: of Vᴴ G its skew part, for the other would cancel in the end, after it was rounded. */
static amp_tensor *undo_eigh(amp_tensor *values, amp_tensor *vectors, amp_tensor *of_values, amp_tensor *of_vectors) {
    amp_tensor *adjoint = amp_adjoint(vectors);
    if (!of_vectors) return of_values ? amp_matmul(amp_scale_columns(vectors, of_values), adjoint) : NULL;
    amp_tensor *inside = amp_matmul(adjoint, of_vectors), *skew = amp_sub(inside, amp_adjoint(inside));
    amp_tensor *core = without_diagonal(amp_div(amp_mul_scalar(skew, amp_float(0.5)), differences(values)));
    if (of_values) core = amp_add(core, amp_diag_embed(of_values));
    return amp_matmul(amp_matmul(vectors, core), adjoint);
}

void amp_gradient_linalg_eigh(amp_gradient *g) {
    amp_tensor *t = undo_eigh(g->results[0], g->results[1], g->of[0], g->of[1]);
    if (t) amp_gradient_give(g, amp_first_argument(g), t);
}

static void give_eigenvalues(amp_gradient *g, const char *triangle) {
    amp_tensor *const *input = amp_first_argument(g), *vectors = NULL;
    if (!g->of[0]) return;
    amp_tensor *values = amp_linalg_eigh(*input, .UPLO = triangle, .eigenvectors = &vectors);
    if (values) amp_gradient_give(g, input, undo_eigh(values, vectors, g->of[0], NULL));
}

void amp_gradient_linalg_eigvalsh(amp_gradient *g) {
    give_eigenvalues(g, ((const amp_linalg_eigvalsh_args *)g->args)->UPLO);
}

void amp_gradient_symeig(amp_gradient *g) {
    const amp_symeig_args *a = g->args;
    if (a->eigenvectors)
        amp_gradient_linalg_eigh(g);
    else
        give_eigenvalues(g, a->upper.value ? "U" : "L");
}

/* ---- Eigenvalues of any matrices ----------------------------------------------------------------------------------- */

/* V⁻ᴴ (diag(g) + (Vᴴ G − Vᴴ V Re diag(Vᴴ G)) / conj(l_k − l_j)) Vᴴ: the vectors keep their lengths. */
static amp_tensor *undo_eig(amp_tensor *values, amp_tensor *vectors, amp_tensor *of_values, amp_tensor *of_vectors) {
    amp_tensor *adjoint = amp_adjoint(vectors);
    if (!of_vectors) return of_values ? amp_linalg_solve(adjoint, amp_scale_rows(adjoint, of_values)) : NULL;
    amp_tensor *inside = amp_matmul(adjoint, of_vectors);
    amp_tensor *lengths = amp_scale_columns(vectors, amp_real(amp_diagonals(inside)));
    amp_tensor *core = amp_div(amp_sub(inside, amp_matmul(adjoint, lengths)), amp_conjugate(differences(values)));
    core = without_diagonal(core);
    if (of_values) core = amp_add(core, amp_diag_embed(of_values));
    return amp_linalg_solve(adjoint, amp_matmul(core, adjoint));
}

void amp_gradient_linalg_eig(amp_gradient *g) {
    const amp_linalg_eig_args *a = g->args;
    amp_tensor *t = undo_eig(g->results[0], g->results[1], g->of[0], g->of[1]);
    if (t) amp_gradient_give(g, &a->input, t);
}

void amp_gradient_linalg_eigvals(amp_gradient *g) {
    const amp_linalg_eigvals_args *a = g->args;
    amp_tensor *vectors = NULL, *values = amp_linalg_eig(a->input, .eigenvectors = &vectors);
    if (values) amp_gradient_give(g, &a->input, undo_eig(values, vectors, g->of[0], NULL));
}

/* Numbers from pairs of them. */
static amp_tensor *from_pairs(amp_tensor *t) {
    return t ? amp_add(amp_select(t, -1, 0), amp_mul_scalar(amp_select(t, -1, 1), amp_complex(0, 1))) : NULL;
}

/* The vectors of a real matrix are packed by what the values are, which no formula follows. */
void amp_gradient_eig(amp_gradient *g) {
    const amp_eig_args *a = g->args;
    amp_tensor *vectors = NULL, *values = amp_linalg_eig(a->input, .eigenvectors = &vectors);
    amp_tensor *of_vectors = a->eigenvectors ? g->of[1] : NULL;
    if (of_vectors && !amp_dtype_is_complex(a->input->dtype)) {
        amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                 "eig: no gradient through the packed eigenvectors of a real matrix; use linalg_eig");
        return;
    }
    amp_tensor *t = values ? undo_eig(values, vectors, from_pairs(g->of[0]), of_vectors) : NULL;
    if (t) amp_gradient_give(g, &a->input, t);
}

/* ---- Functions of matrices ----------------------------------------------------------------------------------------- */

/* f of the block matrix ((Aᴴ, G), (0, Aᴴ)) holds the gradient in its upper right (Mathias, 1996). */
static amp_tensor *blocks_of(amp_tensor *a, amp_tensor *of) {
    amp_tensor *adjoint = amp_adjoint(a);
    amp_tensor *above = amp_cat(AMP_LIST(adjoint, of), -1);
    return amp_cat(AMP_LIST(above, amp_cat(AMP_LIST(amp_zeros_like(adjoint), adjoint), -1)), -2);
}

static amp_tensor *upper_right(amp_tensor *blocks, int64_t n) {
    return amp_narrow(amp_narrow(blocks, -2, 0, n), -1, n, n);
}

void amp_gradient_matrix_exp(amp_gradient *g) {
    amp_tensor *const *input = amp_first_argument(g), *a = amp_wide(*input);
    if (!a) return;
    amp_tensor *t = amp_matrix_exp(blocks_of(a, amp_wide(g->of[0])));
    amp_gradient_give(g, input, upper_right(t, a->shape[a->rank - 1]));
}

void amp_gradient_linalg_matrix_power(amp_gradient *g) {
    const amp_linalg_matrix_power_args *args = g->args;
    amp_tensor *const *input = amp_first_argument(g), *a = amp_wide(*input);
    if (!a) return;
    amp_tensor *t = amp_linalg_matrix_power(blocks_of(a, amp_wide(g->of[0])), args->n);
    amp_gradient_give(g, input, upper_right(t, a->shape[a->rank - 1]));
}
