/* Diagonals, triangles, and the gradients that several ops of linear algebra need. */
#include "gradients/linalg/matrices.h"

amp_tensor *amp_diagonals(amp_tensor *m) {
    return amp_diagonal(m, 0, -2, AMP_SET(-1));
}

amp_tensor *amp_identities(const amp_tensor *like, int64_t rows, int64_t columns) {
    amp_dims shape = amp_shape_of(like);
    const int64_t k = rows < columns ? rows : columns;
    const int device = (int)like->storage->device;
    shape.values[--shape.count - 1] = k;
    amp_tensor *square = amp_diag_embed(amp_ones(shape, .dtype = like->dtype, .device = device));
    return rows == columns ? square : amp_constant_pad_nd(square, AMP_DIMS(0, columns - k, 0, rows - k));
}

amp_tensor *amp_half_diagonal(amp_tensor *m) {
    return amp_sub(m, amp_diag_embed(amp_mul_scalar(amp_diagonals(m), amp_float(0.5))));
}

amp_tensor *amp_scale_columns(amp_tensor *m, amp_tensor *factors) {
    return amp_mul(m, amp_unsqueeze(factors, -2));
}

amp_tensor *amp_scale_rows(amp_tensor *m, amp_tensor *factors) {
    return amp_mul(m, amp_unsqueeze(factors, -1));
}

amp_tensor *amp_sum_of(amp_tensor *a, amp_tensor *b) {
    return a && b ? amp_add(a, b) : a ? a : b;
}

amp_tensor *amp_solved(amp_tensor *m, amp_tensor *b, bool upper, bool left, bool unit) {
    return amp_linalg_solve_triangular(m, b, .upper = upper, .left = AMP_SET(left), .unitriangular = unit);
}

amp_tensor *amp_triangle_of(amp_tensor *m, bool upper, bool unit) {
    return upper ? amp_triu(m, unit ? 1 : 0) : amp_tril(m, unit ? -1 : 0);
}

amp_tensor *amp_undo_inverse(amp_tensor *inverse, amp_tensor *of) {
    amp_tensor *adjoint = amp_adjoint(inverse);
    return amp_neg(amp_matmul(amp_matmul(adjoint, of), adjoint));
}

/* Of constant rank (Golub and Pereyra, 1973); the smaller products first. */
amp_tensor *amp_undo_pinv(amp_tensor *a, amp_tensor *x, amp_tensor *of) {
    if (!a || !x || !of) return NULL;
    amp_tensor *xh = amp_adjoint(x), *gh = amp_adjoint(of);
    if (a->shape[a->rank - 2] <= a->shape[a->rank - 1]) {
        amp_tensor *k = amp_matmul(gh, x), *kxh = amp_matmul(k, xh);
        amp_tensor *inside = amp_sub(kxh, amp_adjoint(amp_matmul(x, k)));
        amp_tensor *columns = amp_matmul(amp_matmul(a, x), kxh);
        amp_tensor *rows = amp_matmul(amp_matmul(xh, x), amp_sub(gh, amp_matmul(k, a)));
        return amp_add(amp_sub(inside, columns), rows);
    }
    amp_tensor *k = amp_matmul(x, gh), *xhk = amp_matmul(xh, k);
    amp_tensor *inside = amp_sub(xhk, amp_adjoint(amp_matmul(k, x)));
    amp_tensor *columns = amp_matmul(amp_matmul(amp_sub(gh, amp_matmul(a, k)), x), xh);
    amp_tensor *rows = amp_matmul(amp_matmul(xhk, x), a);
    return amp_sub(amp_add(inside, columns), rows);
}

/* ---- A = U S Vᴴ ---------------------------------------------------------------------------------------------------- */

/* (M − Mᴴ) over the differences s_k² − s_j², 0 on the diagonal. */
static amp_tensor *turned(amp_tensor *m, amp_tensor *differences) {
    return amp_div(amp_sub(m, amp_adjoint(m)), differences);
}

/* s_k² − s_j², as (s_k − s_j)(s_k + s_j), and 1 on the diagonal. */
static amp_tensor *differences_of_squares(amp_tensor *s) {
    amp_tensor *column = amp_unsqueeze(s, -1), *row = amp_unsqueeze(s, -2);
    amp_tensor *products = amp_mul(amp_sub(row, column), amp_add(row, column));
    return amp_add(products, amp_diag_embed(amp_ones_like(s)));
}

/* What of a gradient stands across the vectors' space: G − V (Vᴴ G). */
static amp_tensor *across(amp_tensor *vectors, amp_tensor *of, amp_tensor *inside) {
    return amp_sub(of, amp_matmul(vectors, inside));
}

/* With real numbers the diagonal of turned(…) is 0; with complex ones it holds the phases, which U and V share. */
static amp_tensor *core_of(amp_tensor *s, amp_tensor *ugu, amp_tensor *gs, amp_tensor *vgv) {
    amp_tensor *core = NULL, *differences = ugu || vgv ? differences_of_squares(s) : NULL;
    if (ugu) {
        amp_tensor *t = amp_scale_columns(turned(ugu, differences), s);
        if (amp_dtype_is_complex(ugu->dtype)) {
            amp_tensor *diagonal = amp_diagonals(t),
                       *phases = amp_div(diagonal, amp_mul_scalar(amp_mul(s, s), amp_int(2)));
            t = amp_add(t, amp_diag_embed(amp_sub(phases, diagonal)));
        }
        core = t;
    }
    if (vgv) {
        amp_tensor *t = amp_scale_rows(turned(vgv, differences), s);
        if (amp_dtype_is_complex(vgv->dtype)) t = amp_sub(t, amp_diag_embed(amp_diagonals(t)));
        core = amp_sum_of(core, t);
    }
    return amp_sum_of(core, gs ? amp_diag_embed(gs) : NULL);
}

amp_tensor *amp_undo_svd(amp_tensor *u, amp_tensor *s, amp_tensor *vh, amp_tensor *gu, amp_tensor *gs, amp_tensor *gv) {
    if (!u || !s || !vh) return NULL;
    if (!gu && !gv) return gs ? amp_matmul(amp_scale_columns(u, gs), vh) : NULL;
    const int64_t k = s->shape[s->rank - 1];
    amp_tensor *ugu = gu ? amp_matmul(amp_adjoint(u), gu) : NULL, *vgv = gv ? amp_matmul(vh, gv) : NULL;
    amp_tensor *back = amp_matmul(amp_matmul(u, core_of(s, ugu, gs, vgv)), vh), *inverse = amp_reciprocal(s);
    if (gu && u->shape[u->rank - 2] > k)
        back = amp_add(back, amp_matmul(amp_scale_columns(across(u, gu, ugu), inverse), vh));
    if (gv && vh->shape[vh->rank - 1] > k) {
        amp_tensor *rows = amp_adjoint(across(amp_adjoint(vh), gv, vgv));
        back = amp_add(back, amp_matmul(amp_scale_columns(u, inverse), rows));
    }
    return back;
}
