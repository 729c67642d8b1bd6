/* Singular values, by Jacobi's rotations of columns, many at once, and what is made of them; least squares. */
#include "cuda/kernels/block_matrix.h"

/* Turns the columns of A until they are at right angles, and V with them. Returns whether that came to an end. */
template <class T>
AMP_DEVICE_CALL bool turn_columns(matrix<T> a, matrix<T> v) {
    const int n = a.columns, players = n + n % 2;
    const double right_angle = 2.0 * roundoff<T>() * sqrt((double)a.rows);
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        bool turned = false;
        for (int round = 0; round < players - 1; round++) {
            for (int t = AMP_THREAD; t < players / 2; t += AMP_THREADS) {
                int p, q;
                pair_of(players, round, t, &p, &q);
                if (q >= n) continue;
                double x = 0.0, y = 0.0, size;
                wide_type<T> z = 0.0;
                for (int64_t i = 0; i < a.rows; i++) {
                    x += square_of(a(i, p));
                    y += square_of(a(i, q));
                    z += conjugate((wide_type<T>)a(i, p)) * (wide_type<T>)a(i, q);
                }
                if (!(modulus(z) > right_angle * sqrt(x) * sqrt(y))) continue;
                const wide_type<T> phase = conjugate(phase_of(z, &size));
                const rotation r = rotation_for(x, y, size);
                rotate(a, p, q, r, phase);
                rotate(v, p, q, r, phase);
                turned = true;
            }
            AMP_BARRIER();
        }
        if (!any_thread(turned)) return true;
    }
    return false;
}

/* Long ≥ short columns of `work` at right angles → values in order, and the long vectors, as many as `left` has
 * columns. */
template <class T>
AMP_DEVICE_CALL void finish_vectors(matrix<T> work, matrix<real_type<T>> norms, matrix<real_type<T>> values,
                                    matrix<T> left, matrix<T> tau) {
    typedef real_type<T> R;
    const int n = work.columns;
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        double sum = 0.0;
        for (int64_t i = 0; i < work.rows; i++) sum += square_of(work(i, j));
        norms(j, 0) = (R)sqrt(sum);
    }
    AMP_BARRIER();
    int whole = 0; /* that are not 0 */
    for (int j = 0; j < n; j++) whole += norms(j, 0) > 0;
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        const int to = order_of(norms, j, true);
        values(to, 0) = norms(j, 0);
        for (int64_t i = 0; left.data && norms(j, 0) > 0 && i < work.rows; i++) left(i, to) = work(i, j) / norms(j, 0);
    }
    AMP_BARRIER();
    if (!left.data || left.columns == whole) return;
    /* The other vectors: those that the reflectors of these ones leave over. The first come out as they were, but for
     * signs. */
    matrix<T> found = left;
    found.columns = whole;
    factor_qr(found, tau);
    for (int j = 0; j < whole; j++) {
        if (AMP_THREAD == 0) norms(j, 0) = real_of(left(j, j)) < 0 ? (R)-1 : (R)1;
    }
    AMP_BARRIER();
    multiply_out(left, tau, whole);
    for (int64_t i = AMP_THREAD; i < (int64_t)left.rows * whole; i += AMP_THREADS) {
        left(i % left.rows, i / left.rows) *= norms(i / left.rows, 0);
    }
    AMP_BARRIER();
}

/* A = U S Vh: u and vh (data NULL: not wanted) get as many vectors as they have room for. Returns LAPACK's info. */
template <class T>
AMP_DEVICE_CALL int decompose(matrix<T> a, matrix<real_type<T>> values, matrix<T> u, matrix<T> vh, T *scratch) {
    const bool wide = a.rows < a.columns;
    const matrix<T> tall = wide ? a.transposed() : a, long_out = wide ? vh.transposed() : u;
    const matrix<T> short_out = wide ? u : vh.transposed();
    matrix<T> work = matrix_in(&scratch, tall.rows, tall.columns), v = matrix_in(&scratch, tall.columns, tall.columns);
    matrix<real_type<T>> norms = reals_in(&scratch, tall.rows);
    matrix<T> tau = matrix_in(&scratch, tall.rows, 1);
    matrix<real_type<T>> order = reals_in(&scratch, tall.columns);
    copy_matrix(work, tall);
    const int exponent = far_exponent(work);
    scale_by(work, -exponent);
    set_identity(v);
    const bool done = turn_columns(work, v);
    matrix<T> left = {NULL, 0, 0, 0, 0};
    if (long_out.data) left = matrix_in(&scratch, long_out.rows, long_out.columns);
    finish_vectors(work, order, values, left, tau);
    if (left.data) copy_matrix(long_out, left);
    for (int j = AMP_THREAD; j < work.columns; j += AMP_THREADS) { /* finish_vectors may have used the order's room */
        double sum = 0.0;
        for (int64_t i = 0; i < work.rows; i++) sum += square_of(work(i, j));
        norms(j, 0) = (real_type<T>)sqrt(sum);
    }
    scale_by(values, exponent);
    norms.rows = work.columns;
    for (int j = AMP_THREAD; short_out.data && j < work.columns; j += AMP_THREADS) {
        const int to = order_of(norms, j, true);
        for (int64_t i = 0; i < work.columns; i++) short_out(i, to) = conjugate(v(i, j));
    }
    AMP_BARRIER();
    return done ? 0 : 1;
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */
/* {a, s, u, vh}. A matrix with NaN has no singular values; one with infinities has NaN. */
MATRIX_TASK(matrix_svd) {
    matrix<T> x = matrix_at<T>(a, 0, index);
    matrix<real_type<T>> s = matrix_at<real_type<T>>(a, 1, index);
    matrix<T> u = matrix_at<T>(a, 2, index), vh = matrix_at<T>(a, 3, index);
    if (is_finite(x)) return decompose(x, s, u, vh, scratch);
    fill_nan(s);
    fill_nan(u);
    fill_nan(vh);
    return holds_nan(x) ? -1 : 0;
}
MATRIX_KERNELS(matrix_svd)

/* 1/s where s is above the tolerance, else 0. */
template <class T>
AMP_DEVICE T inverse_above(T s, double tolerance) {
    return (double)s > tolerance ? (T)1 / s : (T)0;
}

/* {a, s, u, vh, out}: out = the conjugate of U S⁺ Vh; number: of the greatest value, how much is 0 */
MATRIX_TASK(matrix_pinverse) {
    const int info = matrix_svd<T>(a, index, scratch);
    matrix<real_type<T>> s = matrix_at<real_type<T>>(a, 1, index);
    matrix<T> u = matrix_at<T>(a, 2, index), vh = matrix_at<T>(a, 3, index), out = matrix_at<T>(a, 4, index);
    const double tolerance = a.number * (double)s(0, 0);
    for (int64_t i = AMP_THREAD; i < (int64_t)out.rows * out.columns; i += AMP_THREADS) {
        const int64_t row = i % out.rows, column = i / out.rows;
        wide_type<T> sum = 0.0;
        for (int k = 0; k < s.rows; k++) {
            sum += (wide_type<T>)u(row, k) * (wide_type<T>)(inverse_above(s(k, 0), tolerance) * vh(k, column));
        }
        out(row, column) = conjugate((T)sum);
    }
    return info;
}
MATRIX_KERNELS(matrix_pinverse)

/* B (as many rows as the longer side) = the shortest X of least A X − B, of a matrix of full rank. Behind X: what is
 * left over. */
template <class T>
AMP_DEVICE int solve_by_reflectors(matrix<T> x, matrix<T> b, T *scratch) {
    const bool wide = x.rows < x.columns;
    matrix<T> tall = wide ? x.transposed() : x, tau = matrix_in(&scratch, tall.rows, 1);
    factor_qr(tall, tau);
    const int k = tall.columns;
    matrix<T> r = tall;
    r.rows = k;
    for (int i = 0; i < k; i++) {
        if (r(i, i) == 0) return i + 1;
    }
    if (!wide) {
        multiply_by(tall, tau, k, b, true, false);
        solve_triangle(r, false, false, b);
        return 0;
    }
    solve_triangle(r.transposed(), true, false, b);
    for (int64_t i = AMP_THREAD; i < (int64_t)(b.rows - k) * b.columns; i += AMP_THREADS) {
        b(k + i % (b.rows - k), i / (b.rows - k)) = 0;
    }
    AMP_BARRIER();
    multiply_by(tall, tau, k, b, false, true);
    return 0;
}

/* The same through singular values; those up to `tolerance` of the greatest are 0. Returns the rank. */
template <class T>
AMP_DEVICE int solve_by_values(matrix<T> x, matrix<T> b, matrix<real_type<T>> given, double tolerance, T *scratch,
                               int *info) {
    const int k = smaller(x.rows, x.columns);
    matrix<real_type<T>> s = reals_in(&scratch, k);
    matrix<T> u = matrix_in(&scratch, x.rows, k), vh = matrix_in(&scratch, k, x.columns);
    matrix<T> part = matrix_in(&scratch, k, b.columns);
    *info = decompose(x, s, u, vh, scratch);
    const double least = (tolerance < 0 ? roundoff<T>() : tolerance) * (double)s(0, 0);
    int rank = 0;
    for (int i = 0; i < k; i++) rank += (double)s(i, 0) > least;
    for (int64_t i = AMP_THREAD; i < (int64_t)k * b.columns; i += AMP_THREADS) {
        wide_type<T> sum = 0.0;
        for (int64_t j = 0; j < x.rows; j++) {
            sum += conjugate((wide_type<T>)u(j, i % k)) * (wide_type<T>)b(j, i / k);
        }
        part(i % k, i / k) = (T)((double)inverse_above(s(i % k, 0), least) * sum);
    }
    AMP_BARRIER();
    for (int64_t i = AMP_THREAD; i < (int64_t)x.columns * b.columns; i += AMP_THREADS) {
        const int64_t row = i % x.columns, column = i / x.columns;
        wide_type<T> sum = 0.0;
        for (int j = 0; j < k; j++) sum += conjugate((wide_type<T>)vh(j, row)) * (wide_type<T>)part(j, column);
        b(row, column) = (T)sum;
    }
    if (given.data) copy_matrix(given, s);
    return rank;
}

/* {a, b, s or none}; 'R': by reflectors, 'V': by values; number: the tolerance */
MATRIX_TASK(matrix_lstsq) {
    matrix<T> x = matrix_at<T>(a, 0, index), b = matrix_at<T>(a, 1, index), right = b;
    right.rows = x.rows;
    if (!is_finite(x) || !is_finite(right)) return -1;
    if (a.options[0] == 'R') {
        if (x.rows >= x.columns) b.rows = x.rows;
        return solve_by_reflectors(x, b, scratch);
    }
    int info;
    const int rank = solve_by_values(x, b, matrix_at<real_type<T>>(a, 2, index), a.number, scratch, &info);
    if (a.ranks && AMP_THREAD == 0) a.ranks[index] = rank;
    return info;
}
MATRIX_KERNELS(matrix_lstsq)
