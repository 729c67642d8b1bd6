/* Gradients of factors: Cholesky, LU, QR, reflectors. */
#include <string.h>

#include "core/memory.h"
#include "gradients/linalg/matrices.h"

static int64_t rows_of(const amp_tensor *m) {
    return m->shape[m->rank - 2];
}
static int64_t columns_of(const amp_tensor *m) {
    return m->shape[m->rank - 1];
}

static amp_tensor *with_adjoint(amp_tensor *m) {
    return amp_add(m, amp_adjoint(m));
}

/* ---- Cholesky ------------------------------------------------------------------------------------------------------ */

/* L⁻ᴴ Φ L⁻¹, where Φ + Φᴴ is the lower triangle of Lᴴ G, the diagonal halved, and its adjoint (Murray, 2016). */
static amp_tensor *undo_cholesky(amp_tensor *l, amp_tensor *of) {
    amp_tensor *lower = amp_half_diagonal(amp_tril(amp_matmul(amp_adjoint(l), of)));
    amp_tensor *middle = amp_mul_scalar(with_adjoint(lower), amp_float(0.5));
    return amp_solved(l, amp_solved(amp_adjoint(l), middle, true, true, false), false, false, false);
}

static void give_cholesky(amp_gradient *g, bool upper) {
    if (!g->of[0]) return;
    amp_tensor *l = g->results[0], *of = g->of[0];
    amp_gradient_give(g, amp_first_argument(g),
                      upper ? undo_cholesky(amp_adjoint(l), amp_adjoint(of)) : undo_cholesky(l, of));
}

void amp_gradient_linalg_cholesky(amp_gradient *g) {
    give_cholesky(g, ((const amp_linalg_cholesky_args *)g->args)->upper);
}
void amp_gradient_linalg_cholesky_ex(amp_gradient *g) {
    give_cholesky(g, ((const amp_linalg_cholesky_ex_args *)g->args)->upper);
}

/* The factor of A, from the gradient of A: (G + Gᴴ) L, of which one triangle is read. */
static amp_tensor *of_factor(amp_tensor *of_a, amp_tensor *factor, bool upper) {
    amp_tensor *both = with_adjoint(of_a);
    return amp_triangle_of(upper ? amp_matmul(factor, both) : amp_matmul(both, factor), upper, false);
}

void amp_gradient_cholesky_inverse(amp_gradient *g) {
    const amp_cholesky_inverse_args *a = g->args;
    amp_gradient_give(g, &a->input, of_factor(amp_undo_inverse(g->results[0], g->of[0]), a->input, a->upper));
}

void amp_gradient_cholesky_solve(amp_gradient *g) {
    const amp_cholesky_solve_args *a = g->args;
    amp_tensor *of_b = amp_cholesky_solve(g->of[0], a->L, .upper = a->upper);
    if (amp_gradient_wants(g, &a->B)) amp_gradient_give(g, &a->B, of_b);
    if (!amp_gradient_wants(g, &a->L)) return;
    amp_tensor *of_a = amp_neg(amp_matmul(of_b, amp_adjoint(g->results[0])));
    amp_gradient_give(g, &a->L, of_factor(of_a, a->L, a->upper));
}

/* ---- LU ------------------------------------------------------------------------------------------------------------ */

/* What the pivots exchange, as P of A = P L U: P B, or Pᴴ B. A solver of identities does it. */
static amp_tensor *exchanged(amp_tensor *pivots, amp_tensor *b, bool back) {
    if (!pivots || !b) return NULL;
    const int64_t m = rows_of(b), k = pivots->shape[pivots->rank - 1];
    if (m == 0 || columns_of(b) == 0) return b;
    if (k < m) {
        amp_dims shape = amp_shape_of(pivots);
        shape.values[shape.count - 1] = m - k;
        amp_tensor *rest = amp_arange_start(amp_int(k + 1), amp_int(m + 1), .dtype = pivots->dtype,
                                            .device = (int)pivots->storage->device);
        pivots = amp_cat(AMP_LIST(pivots, amp_expand(rest, shape)), -1);
    }
    if (!pivots) return NULL;
    amp_tensor *ones = amp_ones(amp_shape_of(pivots), .dtype = b->dtype, .device = (int)b->storage->device);
    return amp_linalg_lu_solve(amp_diag_embed(ones), pivots, b, .adjoint = !back);
}

/* The gradient of Pᴴ A from those of L and U; one of them may be absent. The tall part of L, or the wide one of U,
 * hangs on the square parts. */
static amp_tensor *undo_lu(amp_tensor *l, amp_tensor *u, amp_tensor *gl, amp_tensor *gu) {
    if (!l || !u) return NULL;
    const int64_t m = rows_of(l), n = columns_of(u), k = columns_of(l);
    if (!gl) gl = amp_zeros_like(l);
    if (!gu) gu = amp_zeros_like(u);
    amp_tensor *l1 = amp_narrow(l, -2, 0, k), *u1 = amp_narrow(u, -1, 0, k);
    amp_tensor *of_l = amp_matmul(amp_adjoint(l1), amp_narrow(gl, -2, 0, k));
    amp_tensor *of_u = amp_matmul(amp_narrow(gu, -1, 0, k), amp_adjoint(u1));
    amp_tensor *more_rows = amp_narrow(gl, -2, k, m - k), *more_columns = amp_narrow(gu, -1, k, n - k);
    if (n > k) of_l = amp_sub(of_l, amp_matmul(more_columns, amp_adjoint(amp_narrow(u, -1, k, n - k))));
    if (m > k) of_u = amp_sub(of_u, amp_matmul(amp_adjoint(amp_narrow(l, -2, k, m - k)), more_rows));
    amp_tensor *core = amp_add(amp_tril(of_l, -1), amp_triu(of_u));
    if (n > k) {
        amp_tensor *first = amp_solved(amp_adjoint(u1), core, false, false, false);
        return amp_solved(amp_adjoint(l1), amp_cat(AMP_LIST(first, more_columns), -1), true, true, true);
    }
    amp_tensor *first = amp_solved(amp_adjoint(l1), core, true, true, true);
    if (m > k) first = amp_cat(AMP_LIST(first, more_rows), -2);
    return amp_solved(amp_adjoint(u1), first, false, false, false);
}

/* Both in one matrix. */
static amp_tensor *lower_of(amp_tensor *lu, int64_t k) {
    return amp_add(amp_tril(amp_narrow(lu, -1, 0, k), -1), amp_identities(lu, rows_of(lu), k));
}
static amp_tensor *upper_of(amp_tensor *lu, int64_t k) {
    return amp_triu(amp_narrow(lu, -2, 0, k));
}

void amp_gradient_linalg_lu_factor(amp_gradient *g) {
    amp_tensor *lu = g->results[0], *of = g->of[0];
    if (!of) return;
    const int64_t m = rows_of(lu), n = columns_of(lu), k = m < n ? m : n;
    amp_tensor *gl = amp_tril(amp_narrow(of, -1, 0, k), -1);
    amp_tensor *t = undo_lu(lower_of(lu, k), upper_of(lu, k), gl, upper_of(of, k));
    amp_gradient_give(g, amp_first_argument(g), exchanged(g->results[1], t, false));
}

void amp_gradient_linalg_lu(amp_gradient *g) {
    const amp_linalg_lu_args *a = g->args;
    if (!g->of[1] && !g->of[2]) return;
    amp_tensor *t = undo_lu(g->results[1], g->results[2], g->of[1], g->of[2]);
    amp_gradient_give(g, &a->A, a->pivot.value ? amp_matmul(g->results[0], t) : t);
}

/* X of op(P L U) X = B, or of X op(P L U) = B. */
typedef struct lu_solution {
    amp_tensor *const *lu, *const *pivots, *const *b;
    bool left, adjoint;
} lu_solution;

/* Of L U it is −first · second, thin ones: a factor of L U meets the one that it is beside, and of what was solved with
 * it the solution half way, which lost less. */
static amp_tensor *of_factors(const lu_solution *s, amp_tensor *first, amp_tensor *second, amp_tensor *of) {
    amp_tensor *l = lower_of(*s->lu, columns_of(*s->lu)), *u = upper_of(*s->lu, columns_of(*s->lu));
    amp_tensor *before, *behind;
    if (s->left == s->adjoint) {
        before = amp_matmul(amp_adjoint(l), first);
        behind = amp_adjoint(amp_solved(l, exchanged(*s->pivots, of, true), false, true, true));
    } else {
        before = amp_solved(amp_adjoint(u), of, false, true, false);
        behind = amp_matmul(second, amp_adjoint(u));
    }
    amp_tensor *of_l = amp_tril(amp_matmul(first, behind), -1), *of_u = amp_triu(amp_matmul(before, second));
    return amp_neg(amp_add(of_l, of_u));
}

static void give_lu_solve(amp_gradient *g, const lu_solution *s) {
    amp_tensor *lu = *s->lu, *pivots = *s->pivots, *x = g->results[0], *of = g->of[0];
    amp_tensor *of_b = amp_linalg_lu_solve(lu, pivots, of, .left = AMP_SET(s->left), .adjoint = !s->adjoint);
    if (amp_gradient_wants(g, s->b)) amp_gradient_give(g, s->b, of_b);
    if (!amp_gradient_wants(g, s->lu) || !of_b) return;
    const bool starts_with_x = s->left == s->adjoint;
    amp_tensor *first = starts_with_x ? x : of_b, *second = starts_with_x ? of_b : x;
    if (s->left)
        second = amp_adjoint(second);
    else
        first = amp_adjoint(first);
    first = exchanged(pivots, first, true);
    amp_gradient_give(g, s->lu, of_factors(s, first, second, s->left ? of : amp_adjoint(of)));
}

void amp_gradient_linalg_lu_solve(amp_gradient *g) {
    const amp_linalg_lu_solve_args *a = g->args;
    give_lu_solve(g, &(const lu_solution){&a->LU, &a->pivots, &a->B, a->left.value, a->adjoint});
}
void amp_gradient_lu_solve(amp_gradient *g) {
    const amp_lu_solve_args *a = g->args;
    give_lu_solve(g, &(const lu_solution){&a->LU_data, &a->LU_pivots, &a->b, true, a->adjoint});
}

/* ---- QR ------------------------------------------------------------------------------------------------------------ */

/* As many rows as columns, or more (Walter and Lehmann, 2018). */
static amp_tensor *undo_tall_qr(amp_tensor *q, amp_tensor *r, amp_tensor *gq, amp_tensor *gr) {
    amp_tensor *inside =
        amp_sum_of(gr ? amp_matmul(gr, amp_adjoint(r)) : NULL, gq ? amp_neg(amp_matmul(amp_adjoint(q), gq)) : NULL);
    amp_tensor *t = amp_matmul(q, amp_half_diagonal(with_adjoint(amp_triu(inside))));
    return amp_solved(amp_adjoint(r), amp_sum_of(t, gq), false, false, false);
}

/* Q hangs on the first columns only (Roberts and Roberts, 2020). */
static amp_tensor *undo_wide_qr(amp_tensor *q, amp_tensor *r, amp_tensor *gq, amp_tensor *gr) {
    const int64_t m = rows_of(r), n = columns_of(r);
    amp_tensor *inside =
        amp_sum_of(gq ? amp_matmul(amp_adjoint(q), gq) : NULL, gr ? amp_neg(amp_matmul(gr, amp_adjoint(r))) : NULL);
    amp_tensor *skew = amp_half_diagonal(amp_tril(amp_sub(inside, amp_adjoint(inside))));
    amp_tensor *first = amp_solved(amp_adjoint(amp_narrow(r, -1, 0, m)), skew, false, false, false);
    return amp_matmul(q, amp_sum_of(amp_constant_pad_nd(first, AMP_DIMS(0, n - m)), gr));
}

static void give_qr(amp_gradient *g, bool has_q, bool is_complete) {
    amp_tensor *const *input = amp_first_argument(g), *q = g->results[0], *r = g->results[1];
    const int64_t m = rows_of(*input), n = columns_of(*input);
    if (!has_q || (is_complete && m > n)) {
        amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: no gradient %s; use mode \"reduced\"", g->op->name,
                 has_q ? "of the complete factors of a matrix of more rows than columns: Q is not unique"
                       : "in mode \"r\", which computes no Q");
        return;
    }
    if (!g->of[0] && !g->of[1]) return;
    amp_gradient_give(g, input, (m < n ? undo_wide_qr : undo_tall_qr)(q, r, g->of[0], g->of[1]));
}

void amp_gradient_linalg_qr(amp_gradient *g) {
    const amp_linalg_qr_args *a = g->args;
    give_qr(g, strcmp(a->mode, "r") != 0, !strcmp(a->mode, "complete"));
}
void amp_gradient_qr(amp_gradient *g) {
    give_qr(g, true, !((const amp_qr_args *)g->args)->some.value);
}
