/* Linear algebra: a block takes a matrix, from the first factor to the solution, so a batch needs one launch. The
 * algorithms are the plain ones (Golub and Van Loan, "Matrix Computations"): here a column at a time for Cholesky, LU
 * and Householder's reflectors. What is told of a matrix is what LAPACK tells. */
#include "cuda/kernels/block_matrix.h"

/* ---- Cholesky ---------------------------------------------------------------------------------------------------- */
/* The lower triangle becomes L of L·Lᴴ; returns the order of the first minor that is not positive, or 0. */
template <class T>
AMP_DEVICE_CALL int factor_cholesky(matrix<T> a) {
    const int n = a.rows;
    for (int j = 0; j < n; j++) {
        for (int64_t i = j + AMP_THREAD; i < n; i += AMP_THREADS) {
            T x = a(i, j);
            for (int k = 0; k < j; k++) x -= a(i, k) * conjugate(a(j, k));
            a(i, j) = x;
        }
        AMP_BARRIER();
        const real_type<T> pivot = (real_type<T>)real_of(a(j, j));
        AMP_BARRIER(); /* all have read it */
        if (!(pivot > 0)) return j + 1;
        const real_type<T> root = sqrt(pivot);
        for (int64_t i = j + AMP_THREAD; i < n; i += AMP_THREADS) a(i, j) = i == j ? (T)root : a(i, j) / root;
        AMP_BARRIER();
    }
    return 0;
}

/* ---- LU ---------------------------------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE void swap_rows(matrix<T> a, int64_t i, int64_t k) {
    for (int64_t c = AMP_THREAD; i != k && c < a.columns; c += AMP_THREADS) {
        const T x = a(i, c);
        a(i, c) = a(k, c);
        a(k, c) = x;
    }
}

/* Pivots count from 1. Returns the first column without a pivot, counted so, or 0. */
template <class T>
AMP_DEVICE_CALL int factor_lu(matrix<T> a, int32_t *pivots, bool pivoted) {
    const int k_end = a.rows < a.columns ? a.rows : a.columns;
    int info = 0;
    for (int k = 0; k < k_end; k++) {
        double most = -1.0;
        int64_t at = k;
        for (int64_t i = k + AMP_THREAD; i < a.rows; i += AMP_THREADS) {
            if (taxicab(a(i, k)) > most) {
                most = taxicab(a(i, k));
                at = i;
            }
        }
        const int64_t p = pivoted ? block_greatest(most, at) : k;
        if (AMP_THREAD == 0) pivots[k] = (int32_t)p + 1;
        swap_rows(a, k, p);
        AMP_BARRIER();
        const T pivot = a(k, k);
        if (pivot == 0) {
            if (!info) info = k + 1;
            continue; /* all of the block do */
        }
        for (int64_t i = k + 1 + AMP_THREAD; i < a.rows; i += AMP_THREADS) a(i, k) /= pivot;
        AMP_BARRIER();
        const int64_t rows = a.rows - k - 1, columns = a.columns - k - 1;
        for (int64_t i = AMP_THREAD; i < rows * columns; i += AMP_THREADS) {
            const int64_t row = k + 1 + i % rows, c = k + 1 + i / rows;
            a(row, c) -= a(row, k) * a(k, c);
        }
        AMP_BARRIER();
    }
    return info;
}

/* Returns false where a pivot names no row. */
template <class T>
AMP_DEVICE bool exchange_rows(matrix<T> b, const int32_t *pivots, int count, bool backward) {
    bool right = true;
    for (int step = 0; step < count; step++) {
        const int k = backward ? count - 1 - step : step, p = pivots[k] - 1;
        const bool inside = p >= 0 && p < b.rows;
        right = right && inside;
        if (inside) swap_rows(b, k, p); /* each thread its columns, in this order */
    }
    AMP_BARRIER();
    return right;
}

template <class T>
AMP_DEVICE_CALL bool solve_lu(matrix<T> lu, const int32_t *pivots, matrix<T> b, char trans) {
    if (trans != 'N') {
        solve_triangle(lu.transposed(), true, false, b, trans == 'C');
        solve_triangle(lu.transposed(), false, true, b, trans == 'C');
        return exchange_rows(b, pivots, lu.rows, true);
    }
    const bool right = exchange_rows(b, pivots, lu.rows, false);
    solve_triangle(lu, true, true, b);
    solve_triangle(lu, false, false, b);
    return right;
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */
/* {a}; uplo */
MATRIX_TASK(matrix_cholesky) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index);
    const bool upper = a.options[0] == 'U';
    clear_triangle(x, !upper);
    return factor_cholesky(upper ? x.transposed() : x);
}
MATRIX_KERNELS(matrix_cholesky)

/* B = (L·Lᴴ)⁻¹ B, or that of its conjugate */
template <class T>
AMP_DEVICE int solve_cholesky(matrix<T> l, matrix<T> b, bool conjugated) {
    solve_triangle(l, true, false, b, conjugated);
    solve_triangle(l.transposed(), false, false, b, !conjugated);
    for (int i = 0; i < l.rows; i++) {
        if (l(i, i) == 0) return i + 1;
    }
    return 0;
}
/* {factor, b}; uplo, whether b becomes the identity first */
MATRIX_TASK(matrix_cholesky_solve) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index), b = matrix_at<T>(a, 1, index);
    if (a.options[1]) set_identity(b);
    const bool upper = a.options[0] == 'U';
    return solve_cholesky(upper ? x.transposed() : x, b, upper);
}
MATRIX_KERNELS(matrix_cholesky_solve)

/* {a, b}; uplo, trans, diag */
MATRIX_TASK(matrix_triangular) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index);
    const bool transposed = a.options[1] != 'N', lower = (a.options[0] == 'L') != transposed;
    solve_triangle(transposed ? x.transposed() : x, lower, a.options[2] == 'U', matrix_at<T>(a, 1, index));
    return 0;
}
MATRIX_KERNELS(matrix_triangular)

/* {lu, pivots, b}; trans */
MATRIX_TASK(matrix_lu_solve) {
    (void)scratch;
    const int32_t *pivots = (const int32_t *)a.stacks[1].data + place(index, a.rank, a.shape, a.stacks[1].strides);
    const bool right = solve_lu(matrix_at<T>(a, 0, index), pivots, matrix_at<T>(a, 2, index), (char)a.options[0]);
    if (!right && AMP_THREAD == 0) a.report.faults->index = a.report.op;
    return 0;
}
MATRIX_KERNELS(matrix_lu_solve)

/* {lu, pivots}; whether rows are exchanged */
MATRIX_TASK(matrix_lu) {
    (void)scratch;
    int32_t *pivots = (int32_t *)a.stacks[1].data + place(index, a.rank, a.shape, a.stacks[1].strides);
    return factor_lu(matrix_at<T>(a, 0, index), pivots, a.options[0] != 0);
}
MATRIX_KERNELS(matrix_lu)

/* {a, b}; trans, whether b becomes the identity first */
MATRIX_TASK(matrix_solve) {
    matrix<T> x = matrix_at<T>(a, 0, index), b = matrix_at<T>(a, 1, index);
    int32_t *pivots = (int32_t *)(void *)scratch;
    const int info = factor_lu(x, pivots, true);
    AMP_BARRIER();
    if (a.options[1]) set_identity(b);
    (void)solve_lu(x, pivots, b, (char)a.options[0]);
    return info;
}
MATRIX_KERNELS(matrix_solve)

/* {a, tau} */
MATRIX_TASK(matrix_geqrf) {
    (void)scratch;
    factor_qr(matrix_at<T>(a, 0, index), matrix_at<T>(a, 1, index));
    return 0;
}
MATRIX_KERNELS(matrix_geqrf)

/* {a, q or none}: a becomes R */
MATRIX_TASK(matrix_qr) {
    matrix<T> x = matrix_at<T>(a, 0, index), q = matrix_at<T>(a, 1, index);
    const int k = smaller(x.rows, x.columns);
    matrix<T> tau = matrix_in(&scratch, x.rows, 1);
    factor_qr(x, tau);
    if (q.data) {
        matrix<T> reflectors = q;
        reflectors.columns = k;
        copy_matrix(reflectors, x);
        multiply_out(q, tau, k);
    }
    clear_triangle(x, false);
    return 0;
}
MATRIX_KERNELS(matrix_qr)

/* {q, tau} */
MATRIX_TASK(matrix_householder) {
    (void)scratch;
    matrix<T> tau = matrix_at<T>(a, 1, index);
    multiply_out(matrix_at<T>(a, 0, index), tau, tau.rows);
    return 0;
}
MATRIX_KERNELS(matrix_householder)

/* {reflectors, tau, c}; side, trans (Qᴴ). C·Q is the transpose of Qᵀ·Cᵀ, C·Qᴴ that of the conjugate of Q·Cᵀ. */
MATRIX_TASK(matrix_ormqr) {
    (void)scratch;
    matrix<T> tau = matrix_at<T>(a, 1, index), c = matrix_at<T>(a, 2, index);
    const bool left = a.options[0] == 'L', transposed = a.options[1] != 'N';
    multiply_by(matrix_at<T>(a, 0, index), tau, tau.rows, left ? c : c.transposed(), left == transposed, !left);
    return 0;
}
MATRIX_KERNELS(matrix_ormqr)

/* {u, vh}: no values at all */
MATRIX_TASK(matrix_identities) {
    (void)scratch;
    for (int i = 0; i < 2; i++) {
        if (a.stacks[i].data) set_identity(matrix_at<T>(a, i, index));
    }
    return 0;
}
MATRIX_KERNELS(matrix_identities)
