/* Linear algebra: a block takes a matrix, from the first factor to the solution, so a batch needs one launch. The algorithms are
 * the plain ones (Golub and Van Loan, "Matrix Computations"): a column at a time for Cholesky, LU and Householder's reflectors,
 * and Jacobi's rotations, many at once, for singular values and eigenvalues of symmetric matrices. What is told of a matrix is what
 * LAPACK tells. The threads of a block go through the same steps, so barriers are met by all. */
#include "cuda/device/kernel.h"
#include "cuda/matrix_args.h"

template <class T>
struct matrix {
    T *data;
    int64_t down, right; /* steps from row to row, and from column to column */
    int rows, columns;
    AMP_DEVICE_MEMBER T &operator()(int64_t i, int64_t j) const {
        return data[i * down + j * right];
    }
    AMP_DEVICE_MEMBER matrix transposed() const {
        return {data, right, down, columns, rows};
    }
};

template <class T>
AMP_DEVICE matrix<T> matrix_at(const amp_cuda_matrices &a, int number, int64_t index) {
    const amp_cuda_stack &s = a.stacks[number];
    T *data = s.data ? (T *)s.data + place(index, a.rank, a.shape, s.strides) : NULL;
    return {data, 1, s.ld, s.rows, s.columns};
}
/* Dense, in scratch memory, which is used up by it. */
template <class T>
AMP_DEVICE matrix<T> matrix_in(T **scratch, int rows, int columns) {
    T *data = *scratch;
    *scratch += (int64_t)rows * columns;
    return {data, 1, rows, rows, columns};
}

/* ---- What threads do together ---------------------------------------------------------------------------------------- */
/* Every thread gets the sum, or the greatest (then of equal ones the first place). */
AMP_DEVICE double block_sum(double mine) {
    AMP_SHARED_BYTES(bytes, AMP_BLOCK_THREADS * sizeof(double));
    double *parts = (double *)(void *)bytes;
    parts[AMP_THREAD] = mine;
    AMP_BARRIER();
    double sum = 0.0;
    for (int i = 0; i < AMP_THREADS; i++) sum += parts[i];
    AMP_BARRIER();
    return sum;
}
AMP_DEVICE int64_t block_greatest(double mine, int64_t at) {
    AMP_SHARED_BYTES(bytes, AMP_BLOCK_THREADS * sizeof(double));
    AMP_SHARED_BYTES(place_bytes, AMP_BLOCK_THREADS * sizeof(int64_t));
    double *parts = (double *)(void *)bytes;
    int64_t *places = (int64_t *)(void *)place_bytes;
    parts[AMP_THREAD] = mine;
    places[AMP_THREAD] = at;
    AMP_BARRIER();
    int best = 0;
    for (int i = 1; i < AMP_THREADS; i++) {
        if (parts[i] > parts[best] || (parts[i] == parts[best] && places[i] < places[best])) best = i;
    }
    const int64_t place = places[best];
    AMP_BARRIER();
    return place;
}
AMP_DEVICE bool any_thread(bool mine) {
    return block_sum(mine ? 1.0 : 0.0) > 0.0;
}

template <class T>
AMP_DEVICE void set_identity(matrix<T> a) {
    for (int64_t i = AMP_THREAD; i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        a(i % a.rows, i / a.rows) = i % a.rows == i / a.rows ? (T)1 : (T)0;
    }
    AMP_BARRIER();
}
template <class T>
AMP_DEVICE void copy_matrix(matrix<T> to, matrix<T> from) {
    for (int64_t i = AMP_THREAD; i < (int64_t)to.rows * to.columns; i += AMP_THREADS) {
        to(i % to.rows, i / to.rows) = from(i % to.rows, i / to.rows);
    }
    AMP_BARRIER();
}
template <class T>
AMP_DEVICE void fill_nan(matrix<T> a) {
    for (int64_t i = AMP_THREAD; a.data && i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        a(i % a.rows, i / a.rows) = (T)NAN;
    }
}
/* Zeros strictly above (`upper`) or below the diagonal. */
template <class T>
AMP_DEVICE void clear_triangle(matrix<T> a, bool upper) {
    for (int64_t i = AMP_THREAD; i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        const int64_t row = i % a.rows, column = i / a.rows;
        if (upper ? column > row : column < row) a(row, column) = 0;
    }
    AMP_BARRIER();
}
template <class T>
AMP_DEVICE bool holds_nan(matrix<T> a) {
    bool found = false;
    for (int64_t i = AMP_THREAD; i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        const T x = a(i % a.rows, i / a.rows);
        found = found || x != x;
    }
    return any_thread(found);
}
template <class T>
AMP_DEVICE bool is_finite(matrix<T> a) {
    bool found = true;
    for (int64_t i = AMP_THREAD; i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        const T x = a(i % a.rows, i / a.rows);
        found = found && x - x == 0;
    }
    return !any_thread(!found);
}

/* ---- Magnitudes whose squares are none -------------------------------------------------------------------------------- */
/* The exponent of the greatest number, where squares would overflow or vanish (those of f32 do not, in f64), else 0. */
template <class T>
AMP_DEVICE_CALL int far_exponent(matrix<T> a) {
    double most = 0.0;
    int64_t at = 0;
    for (int64_t i = AMP_THREAD; i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        const double x = fabs((double)a(i % a.rows, i / a.rows));
        if (x > most) {
            most = x;
            at = i;
        }
    }
    if (a.rows == 0 || a.columns == 0) return 0;
    at = block_greatest(most, at);
    const double x = fabs((double)a(at % a.rows, at / a.rows));
    AMP_BARRIER(); /* all have read it */
    const int exponent = x > 0.0 && x - x == 0.0 ? ilogb(x) : 0;
    return exponent < -300 || exponent > 300 ? exponent : 0;
}
/* A · 2^exponent */
template <class T>
AMP_DEVICE void scale_by(matrix<T> a, int exponent) {
    for (int64_t i = AMP_THREAD; exponent && i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        T &x = a(i % a.rows, i / a.rows);
        x = (T)scalbn((double)x, exponent);
    }
    AMP_BARRIER();
}
/* The length of a column. */
template <class T>
AMP_DEVICE double length_of(matrix<T> column) {
    double squares = 0.0;
    for (int64_t i = AMP_THREAD; i < column.rows; i += AMP_THREADS) {
        squares += (double)column(i, 0) * (double)column(i, 0);
    }
    squares = block_sum(squares);
    if (squares > 1e-180 && squares < 1e180) return sqrt(squares);
    const int exponent = far_exponent(column);
    double scaled = 0.0;
    for (int64_t i = AMP_THREAD; i < column.rows; i += AMP_THREADS) {
        const double x = scalbn((double)column(i, 0), -exponent);
        scaled += x * x;
    }
    return scalbn(sqrt(block_sum(scaled)), exponent);
}

/* ---- Triangles -------------------------------------------------------------------------------------------------------- */
/* B = T⁻¹ B for a lower or upper triangular T. */
template <class T>
AMP_DEVICE_CALL void solve_triangle(matrix<T> t, bool lower, bool unit, matrix<T> b) {
    const int n = t.rows;
    for (int step = 0; step < n; step++) {
        const int k = lower ? step : n - 1 - step, rest = n - 1 - step, first = lower ? k + 1 : 0;
        for (int64_t c = AMP_THREAD; !unit && c < b.columns; c += AMP_THREADS) b(k, c) /= t(k, k);
        AMP_BARRIER();
        for (int64_t i = AMP_THREAD; i < (int64_t)rest * b.columns; i += AMP_THREADS) {
            const int64_t row = first + i % rest, c = i / rest;
            b(row, c) -= t(row, k) * b(k, c);
        }
        AMP_BARRIER();
    }
}

/* The lower triangle becomes L of L·Lᵀ; returns the order of the first minor that is not positive, or 0. */
template <class T>
AMP_DEVICE_CALL int factor_cholesky(matrix<T> a) {
    const int n = a.rows;
    for (int j = 0; j < n; j++) {
        for (int64_t i = j + AMP_THREAD; i < n; i += AMP_THREADS) {
            T x = a(i, j);
            for (int k = 0; k < j; k++) x -= a(i, k) * a(j, k);
            a(i, j) = x;
        }
        AMP_BARRIER();
        const T pivot = a(j, j);
        AMP_BARRIER(); /* all have read it */
        if (!(pivot > 0)) return j + 1;
        const T root = sqrt(pivot);
        for (int64_t i = j + AMP_THREAD; i < n; i += AMP_THREADS) a(i, j) = i == j ? root : a(i, j) / root;
        AMP_BARRIER();
    }
    return 0;
}

/* ---- LU ---------------------------------------------------------------------------------------------------------------- */
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
            if (fabs((double)a(i, k)) > most) {
                most = fabs((double)a(i, k));
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
AMP_DEVICE_CALL bool solve_lu(matrix<T> lu, const int32_t *pivots, matrix<T> b, bool transposed) {
    if (transposed) {
        solve_triangle(lu.transposed(), true, false, b);
        solve_triangle(lu.transposed(), false, true, b);
        return exchange_rows(b, pivots, lu.rows, true);
    }
    const bool right = exchange_rows(b, pivots, lu.rows, false);
    solve_triangle(lu, true, true, b);
    solve_triangle(lu, false, false, b);
    return right;
}

/* ---- Reflectors -------------------------------------------------------------------------------------------------------- */
/* C = (1 − τ v vᵀ) C for v = (0 …, 1 at k, v(k + 1 …)), columns from `first` on. */
template <class T>
AMP_DEVICE_CALL void reflect(matrix<T> v, int k, T tau, matrix<T> c, int first) {
    for (int64_t j = first + AMP_THREAD; j < c.columns; j += AMP_THREADS) {
        T sum = c(k, j);
        for (int64_t i = k + 1; i < c.rows; i++) sum += v(i, k) * c(i, j);
        sum *= tau;
        c(k, j) -= sum;
        for (int64_t i = k + 1; i < c.rows; i++) c(i, j) -= v(i, k) * sum;
    }
    AMP_BARRIER();
}

/* R above the diagonal and on it, the reflectors below. */
template <class T>
AMP_DEVICE_CALL void factor_qr(matrix<T> a, matrix<T> tau) {
    const int k_end = a.rows < a.columns ? a.rows : a.columns;
    for (int k = 0; k < k_end; k++) {
        const double below = length_of(matrix<T>{&a(k + 1, k), a.down, a.right, a.rows - k - 1, 1}), alpha = a(k, k);
        AMP_BARRIER(); /* all have read alpha */
        const double norm = hypot(alpha, below), beta = alpha > 0 ? -norm : norm;
        const T scale = below == 0.0 ? (T)0 : (T)((beta - alpha) / beta);
        for (int64_t i = k + 1 + AMP_THREAD; below != 0.0 && i < a.rows; i += AMP_THREADS) {
            a(i, k) = (T)((double)a(i, k) / (alpha - beta));
        }
        if (AMP_THREAD == 0) {
            tau(k, 0) = scale;
            if (below != 0.0) a(k, k) = (T)beta;
        }
        AMP_BARRIER();
        reflect(a, k, scale, a, k + 1);
    }
}

/* The first columns of the product of `count` reflectors, in their place. */
template <class T>
AMP_DEVICE_CALL void multiply_out(matrix<T> q, matrix<T> tau, int count) {
    for (int64_t i = AMP_THREAD; i < (int64_t)q.rows * (q.columns - count); i += AMP_THREADS) {
        const int64_t row = i % q.rows, column = count + i / q.rows;
        q(row, column) = row == column ? (T)1 : (T)0;
    }
    AMP_BARRIER();
    for (int k = count - 1; k >= 0; k--) {
        const T scale = tau(k, 0);
        reflect(q, k, scale, q, k + 1);
        for (int64_t i = AMP_THREAD; i < q.rows; i += AMP_THREADS) {
            q(i, k) = i < k ? (T)0 : i == k ? (T)1 - scale : -scale * q(i, k);
        }
        AMP_BARRIER();
    }
}

/* C = Q C, or Qᵀ C. */
template <class T>
AMP_DEVICE void multiply_by(matrix<T> v, matrix<T> tau, int count, matrix<T> c, bool transposed) {
    for (int step = 0; step < count; step++) {
        const int k = transposed ? step : count - 1 - step;
        reflect(v, k, tau(k, 0), c, 0);
    }
}

/* ---- Jacobi's rotations ------------------------------------------------------------------------------------------------ */
enum { MOST_SWEEPS = 60 };
template <class T>
AMP_DEVICE double roundoff() {
    return 2.220446049250313e-16;
}
template <>
AMP_DEVICE double roundoff<float>() {
    return 1.1920928955078125e-07;
}

/* The pair that number `t` has in `round` of n players (n even) who all meet in n − 1 rounds. */
AMP_DEVICE void pair_of(int n, int round, int t, int *p, int *q) {
    const int x = (round + t) % (n - 1), y = t == 0 ? n - 1 : (round + n - 1 - t) % (n - 1);
    *p = x < y ? x : y;
    *q = x < y ? y : x;
}

struct rotation {
    double c, s;
};
/* Makes the off-diagonal element of (x, z; z, y) zero. */
AMP_DEVICE rotation rotation_for(double x, double y, double z) {
    const double zeta = (y - x) / (2.0 * z), t = (zeta < 0 ? -1.0 : 1.0) / (fabs(zeta) + sqrt(1.0 + zeta * zeta));
    const double c = 1.0 / sqrt(1.0 + t * t);
    return {c, c * t};
}
template <class T>
AMP_DEVICE void rotate(matrix<T> a, int p, int q, rotation r) { /* columns p and q, by one thread */
    for (int64_t i = 0; i < a.rows; i++) {
        const double x = a(i, p), y = a(i, q);
        a(i, p) = (T)(r.c * x - r.s * y);
        a(i, q) = (T)(r.s * x + r.c * y);
    }
}

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
                double x = 0.0, y = 0.0, z = 0.0;
                for (int64_t i = 0; i < a.rows; i++) {
                    x += (double)a(i, p) * (double)a(i, p);
                    y += (double)a(i, q) * (double)a(i, q);
                    z += (double)a(i, p) * (double)a(i, q);
                }
                if (!(fabs(z) > right_angle * sqrt(x) * sqrt(y))) continue;
                const rotation r = rotation_for(x, y, z);
                rotate(a, p, q, r);
                rotate(v, p, q, r);
                turned = true;
            }
            AMP_BARRIER();
        }
        if (!any_thread(turned)) return true;
    }
    return false;
}

/* Turns a symmetric, dense A until it is diagonal, and V with it. `turns` has room for a number for each column. */
template <class T>
AMP_DEVICE_CALL bool turn_symmetric(matrix<T> a, matrix<T> v, matrix<T> turns) {
    const int n = a.columns, players = n + n % 2;
    double squares = 0.0;
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) squares += (double)a.data[i] * (double)a.data[i];
    const double nothing = roundoff<T>() * sqrt(block_sum(squares));
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        bool turned = false;
        for (int round = 0; round < players - 1; round++) {
            for (int t = AMP_THREAD; t < players / 2; t += AMP_THREADS) {
                int p, q;
                pair_of(players, round, t, &p, &q);
                if (q >= n) continue;
                const double x = a(p, p), y = a(q, q), z = a(p, q);
                rotation r = {1.0, 0.0};
                if (fabs(z) > nothing) {
                    r = rotation_for(x, y, z);
                    turned = true;
                }
                turns(p, 0) = (T)r.c;
                turns(q, 0) = (T)r.s;
            }
            AMP_BARRIER();
            for (int side = 0; side < 2; side++) { /* columns, then rows */
                for (int t = AMP_THREAD; t < players / 2; t += AMP_THREADS) {
                    int p, q;
                    pair_of(players, round, t, &p, &q);
                    if (q >= n || turns(q, 0) == 0) continue;
                    const rotation r = {(double)turns(p, 0), (double)turns(q, 0)};
                    rotate(side ? a.transposed() : a, p, q, r);
                    if (!side) rotate(v, p, q, r);
                }
                AMP_BARRIER();
            }
        }
        if (!any_thread(turned)) return true;
    }
    return false;
}

/* How many numbers come before the j-th, in falling or rising order. */
template <class T>
AMP_DEVICE int order_of(matrix<T> x, int j, bool falling) {
    int before = 0;
    for (int i = 0; i < x.rows; i++) {
        const bool less = falling ? x(i, 0) > x(j, 0) : x(i, 0) < x(j, 0);
        before += less || (x(i, 0) == x(j, 0) && i < j);
    }
    return before;
}

/* ---- Singular values ---------------------------------------------------------------------------------------------------- */
AMP_DEVICE int smaller(int x, int y) {
    return x < y ? x : y;
}

/* Long ≥ short columns of `work` at right angles → values in order, and the long vectors, as many as `left` has columns. */
template <class T>
AMP_DEVICE_CALL void finish_vectors(matrix<T> work, matrix<T> norms, matrix<T> values, matrix<T> left, matrix<T> tau) {
    const int n = work.columns;
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        double sum = 0.0;
        for (int64_t i = 0; i < work.rows; i++) sum += (double)work(i, j) * (double)work(i, j);
        norms(j, 0) = (T)sqrt(sum);
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
    /* The other vectors: those that the reflectors of these ones leave over. The first come out as they were, but for signs. */
    matrix<T> found = left;
    found.columns = whole;
    factor_qr(found, tau);
    for (int j = 0; j < whole; j++) {
        if (AMP_THREAD == 0) norms(j, 0) = left(j, j) < 0 ? (T)-1 : (T)1;
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
AMP_DEVICE_CALL int decompose(matrix<T> a, matrix<T> values, matrix<T> u, matrix<T> vh, T *scratch) {
    const bool wide = a.rows < a.columns;
    const matrix<T> tall = wide ? a.transposed() : a, long_out = wide ? vh.transposed() : u;
    const matrix<T> short_out = wide ? u : vh.transposed();
    matrix<T> work = matrix_in(&scratch, tall.rows, tall.columns), v = matrix_in(&scratch, tall.columns, tall.columns);
    matrix<T> norms = matrix_in(&scratch, tall.rows, 1), tau = matrix_in(&scratch, tall.rows, 1);
    matrix<T> order = matrix_in(&scratch, tall.columns, 1);
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
        for (int64_t i = 0; i < work.rows; i++) sum += (double)work(i, j) * (double)work(i, j);
        norms(j, 0) = (T)sqrt(sum);
    }
    scale_by(values, exponent);
    norms.rows = work.columns;
    for (int j = AMP_THREAD; short_out.data && j < work.columns; j += AMP_THREADS) {
        const int to = order_of(norms, j, true);
        for (int64_t i = 0; i < work.columns; i++) short_out(i, to) = v(i, j);
    }
    AMP_BARRIER();
    return done ? 0 : 1;
}

/* ---- Kernels -------------------------------------------------------------------------------------------------------------- */
/* KERNEL(name, what is done with matrix `index` in type T): its last expression is LAPACK's info. */
template <class T>
AMP_DEVICE void tell(const amp_cuda_matrices &a, int64_t index, int info) {
    if (AMP_THREAD != 0) return;
    if (a.infos) a.infos[index] = info;
    if (info && a.check) ((amp_cuda_matrix_faults *)(void *)a.report.faults)->matrix = a.report.op;
}
#define MATRIX_KERNEL(name, type, suffix)                                                                              \
    AMP_KERNEL(name##_##suffix, amp_cuda_matrices) {                                                                   \
        for (int64_t index = AMP_BLOCK; index < a.count; index += AMP_BLOCKS) {                                        \
            type *scratch = (type *)a.scratch + AMP_BLOCK * a.room;                                                    \
            tell<type>(a, index, name<type>(a, index, scratch));                                                       \
            AMP_BARRIER();                                                                                             \
        }                                                                                                              \
    }
#define MATRIX_KERNELS(name)                                                                                           \
    MATRIX_KERNEL(name, float, f32)                                                                                    \
    MATRIX_KERNEL(name, double, f64)
#define MATRIX_TASK(name)                                                                                              \
    template <class T>                                                                                                 \
    AMP_DEVICE int name(const amp_cuda_matrices &a, int64_t index, T *scratch)

/* {a}; uplo */
MATRIX_TASK(matrix_cholesky) {
    (void)scratch;
    matrix<T> x = matrix_at<T>(a, 0, index);
    const bool upper = a.options[0] == 'U';
    clear_triangle(x, !upper);
    return factor_cholesky(upper ? x.transposed() : x);
}
MATRIX_KERNELS(matrix_cholesky)

/* B = (L·Lᵀ)⁻¹ B */
template <class T>
AMP_DEVICE int solve_cholesky(matrix<T> l, matrix<T> b) {
    solve_triangle(l, true, false, b);
    solve_triangle(l.transposed(), false, false, b);
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
    return solve_cholesky(a.options[0] == 'U' ? x.transposed() : x, b);
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
    const bool right = solve_lu(matrix_at<T>(a, 0, index), pivots, matrix_at<T>(a, 2, index), a.options[0] != 'N');
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
    (void)solve_lu(x, pivots, b, a.options[0] != 'N');
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

/* {reflectors, tau, c}; side, trans. C·Q is the transpose of Qᵀ·Cᵀ. */
MATRIX_TASK(matrix_ormqr) {
    (void)scratch;
    matrix<T> tau = matrix_at<T>(a, 1, index), c = matrix_at<T>(a, 2, index);
    const bool left = a.options[0] == 'L', transposed = a.options[1] != 'N';
    multiply_by(matrix_at<T>(a, 0, index), tau, tau.rows, left ? c : c.transposed(), left == transposed);
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

/* {a, s, u, vh}. A matrix with NaN has no singular values; one with infinities has NaN. */
MATRIX_TASK(matrix_svd) {
    matrix<T> x = matrix_at<T>(a, 0, index), s = matrix_at<T>(a, 1, index);
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

/* {a, s, u, vh, out}: out = U S⁺ Vh; number: of the greatest value, how much is 0 */
MATRIX_TASK(matrix_pinverse) {
    const int info = matrix_svd<T>(a, index, scratch);
    matrix<T> s = matrix_at<T>(a, 1, index), u = matrix_at<T>(a, 2, index), vh = matrix_at<T>(a, 3, index);
    matrix<T> out = matrix_at<T>(a, 4, index);
    const double tolerance = a.number * (double)s(0, 0);
    for (int64_t i = AMP_THREAD; i < (int64_t)out.rows * out.columns; i += AMP_THREADS) {
        const int64_t row = i % out.rows, column = i / out.rows;
        double sum = 0.0;
        for (int k = 0; k < s.rows; k++) {
            sum += (double)u(row, k) * (double)(inverse_above(s(k, 0), tolerance) * vh(k, column));
        }
        out(row, column) = (T)sum;
    }
    return info;
}
MATRIX_KERNELS(matrix_pinverse)

/* {a, values}; job, uplo: the vectors take a's place */
MATRIX_TASK(matrix_eigh) {
    matrix<T> x = matrix_at<T>(a, 0, index), values = matrix_at<T>(a, 1, index);
    const int n = x.rows;
    matrix<T> work = matrix_in(&scratch, n, n), v = matrix_in(&scratch, n, n), turns = matrix_in(&scratch, n, 1);
    const bool upper = a.options[1] == 'U';
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) { /* only one triangle counts */
        const int64_t row = i % n, column = i / n;
        const bool counts = upper ? column >= row : column <= row;
        work(row, column) = counts ? x(row, column) : x(column, row);
    }
    AMP_BARRIER();
    if (!is_finite(work)) {
        fill_nan(x);
        fill_nan(values);
        return 0;
    }
    const int exponent = far_exponent(work);
    scale_by(work, -exponent);
    set_identity(v);
    const bool done = turn_symmetric(work, v, turns);
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) turns(j, 0) = work(j, j);
    AMP_BARRIER();
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        const int to = order_of(turns, j, false);
        values(to, 0) = (T)scalbn((double)turns(j, 0), exponent);
        for (int64_t i = 0; a.options[0] == 'V' && i < n; i++) x(i, to) = v(i, j);
    }
    return done ? 0 : 1;
}
MATRIX_KERNELS(matrix_eigh)

/* B (as many rows as the longer side) = the shortest X of least A X − B, of a matrix of full rank. Behind X: what is left over. */
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
        multiply_by(tall, tau, k, b, true);
        solve_triangle(r, false, false, b);
        return 0;
    }
    solve_triangle(r.transposed(), true, false, b);
    for (int64_t i = AMP_THREAD; i < (int64_t)(b.rows - k) * b.columns; i += AMP_THREADS) {
        b(k + i % (b.rows - k), i / (b.rows - k)) = 0;
    }
    AMP_BARRIER();
    multiply_by(tall, tau, k, b, false);
    return 0;
}

/* The same through singular values; those up to `tolerance` of the greatest are 0. Returns the rank. */
template <class T>
AMP_DEVICE int solve_by_values(matrix<T> x, matrix<T> b, matrix<T> given, double tolerance, T *scratch, int *info) {
    const int k = smaller(x.rows, x.columns);
    matrix<T> s = matrix_in(&scratch, k, 1), u = matrix_in(&scratch, x.rows, k), vh = matrix_in(&scratch, k, x.columns);
    matrix<T> part = matrix_in(&scratch, k, b.columns);
    *info = decompose(x, s, u, vh, scratch);
    const double least = (tolerance < 0 ? roundoff<T>() : tolerance) * (double)s(0, 0);
    int rank = 0;
    for (int i = 0; i < k; i++) rank += (double)s(i, 0) > least;
    for (int64_t i = AMP_THREAD; i < (int64_t)k * b.columns; i += AMP_THREADS) {
        double sum = 0.0;
        for (int64_t j = 0; j < x.rows; j++) sum += (double)u(j, i % k) * (double)b(j, i / k);
        part(i % k, i / k) = (T)(sum * (double)inverse_above(s(i % k, 0), least));
    }
    AMP_BARRIER();
    for (int64_t i = AMP_THREAD; i < (int64_t)x.columns * b.columns; i += AMP_THREADS) {
        const int64_t row = i % x.columns, column = i / x.columns;
        double sum = 0.0;
        for (int j = 0; j < k; j++) sum += (double)vh(j, row) * (double)part(j, column);
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
    const int rank = solve_by_values(x, b, matrix_at<T>(a, 2, index), a.number, scratch, &info);
    if (a.ranks && AMP_THREAD == 0) a.ranks[index] = rank;
    return info;
}
MATRIX_KERNELS(matrix_lstsq)

/* ---- Eigenvalues of any matrix ---------------------------------------------------------------------------------------- */
/* A complex number in memory; it is computed with as complex128. */
template <class T>
struct parts {
    T re, im;
};
template <class T>
AMP_DEVICE complex128 wide(parts<T> x) {
    return {(double)x.re, (double)x.im};
}
template <class T>
AMP_DEVICE parts<T> narrow_to(complex128 x) {
    return {(T)x.re, (T)x.im};
}
AMP_DEVICE complex128 conjugate(complex128 x) {
    return {x.re, -x.im};
}
AMP_DEVICE complex128 minus(complex128 x, complex128 y) {
    return {x.re - y.re, x.im - y.im};
}
AMP_DEVICE complex128 times(double x, complex128 y) {
    return {x * y.re, x * y.im};
}
AMP_DEVICE double modulus(complex128 x) {
    return sqrt(x.re * x.re + x.im * x.im);
}
AMP_DEVICE complex128 quotient_of(complex128 x, complex128 y) {
    return times(1.0 / (y.re * y.re + y.im * y.im), multiply(x, conjugate(y)));
}
AMP_DEVICE complex128 root_of(complex128 x) {
    const double r = modulus(x), re = sqrt((r + fabs(x.re)) / 2.0);
    if (r == 0.0) return {0.0, 0.0};
    const double im = x.im / (2.0 * re);
    return x.re >= 0.0 ? complex128{re, im} : complex128{fabs(im), x.im < 0.0 ? -re : re};
}

/* A = Q H Qᵀ with zeros below H's subdiagonal, by reflectors from the left and from the right. */
template <class T>
AMP_DEVICE_CALL void make_hessenberg(matrix<T> a, matrix<T> q, matrix<T> tau) {
    const int n = a.rows;
    const matrix<T> below = {a.data + a.down, a.down, a.right, n - 1, n};
    const matrix<T> behind = {a.data + a.right, a.right, a.down, n - 1, n};
    const matrix<T> turned = {q.data + q.right, q.right, q.down, n - 1, n};
    set_identity(q);
    for (int k = 0; k < n - 2; k++) {
        matrix<T> column = {&below(k, k), 1, below.right, n - 1 - k, 1};
        factor_qr(column, tau);
        const T scale = tau(0, 0);
        reflect(below, k, scale, below, k + 1);
        reflect(below, k, scale, behind, 0);
        reflect(below, k, scale, turned, 0);
    }
}

/* The eigenvalue of the last two rows and columns that is nearer to the last element; now and then another number. */
template <class T>
AMP_DEVICE complex128 shift_for(matrix<parts<T>> h, int last, int step) {
    const complex128 a = wide(h(last - 1, last - 1)), b = wide(h(last - 1, last)), c = wide(h(last, last - 1));
    const complex128 d = wide(h(last, last)), half = times(0.5, minus(a, d));
    if (step % 10 == 0) return plus(d, complex128{modulus(c), 0.0});
    const complex128 root = root_of(plus(multiply(half, half), multiply(b, c))), middle = times(0.5, plus(a, d));
    const complex128 one = plus(middle, root), other = minus(middle, root);
    return modulus(minus(one, d)) < modulus(minus(other, d)) ? one : other;
}

/* One step of the QR algorithm on rows and columns first … last: rotations from the left, then from the right. `turns` has
 * room for two numbers for each. */
template <class T>
AMP_DEVICE void turn_rows(matrix<parts<T>> h, int k, matrix<parts<T>> turns) {
    const complex128 x = wide(h(k, k)), y = wide(h(k + 1, k));
    const double r = sqrt(x.re * x.re + x.im * x.im + y.re * y.re + y.im * y.im);
    const complex128 c = r > 0.0 ? times(1.0 / r, x) : complex128{1.0, 0.0},
                     s = r > 0.0 ? times(1.0 / r, y) : complex128{0.0, 0.0};
    AMP_BARRIER(); /* all have read them */
    for (int64_t j = k + AMP_THREAD; j < h.columns; j += AMP_THREADS) {
        const complex128 u = wide(h(k, j)), v = wide(h(k + 1, j));
        h(k, j) = narrow_to<T>(plus(multiply(conjugate(c), u), multiply(conjugate(s), v)));
        h(k + 1, j) = narrow_to<T>(minus(multiply(c, v), multiply(s, u)));
    }
    if (AMP_THREAD == 0) {
        turns(k, 0) = narrow_to<T>(c);
        turns(k, 1) = narrow_to<T>(s);
    }
    AMP_BARRIER();
}
template <class T>
AMP_DEVICE void turn_behind(matrix<parts<T>> h, int first, int last, matrix<parts<T>> turns, bool triangular) {
    for (int64_t i = AMP_THREAD; i < h.rows; i += AMP_THREADS) {
        for (int k = first; k < last; k++) {
            if (triangular && i > k + 1) continue; /* zeros */
            const complex128 c = wide(turns(k, 0)), s = wide(turns(k, 1)), u = wide(h(i, k)), v = wide(h(i, k + 1));
            h(i, k) = narrow_to<T>(plus(multiply(u, c), multiply(v, s)));
            h(i, k + 1) = narrow_to<T>(minus(multiply(v, conjugate(c)), multiply(u, conjugate(s))));
        }
    }
}
template <class T>
AMP_DEVICE void move_diagonal(matrix<parts<T>> h, int first, int last, complex128 by) {
    for (int64_t i = first + AMP_THREAD; i <= last; i += AMP_THREADS) h(i, i) = narrow_to<T>(plus(wide(h(i, i)), by));
    AMP_BARRIER();
}

/* H becomes triangular, and Z what turned it. Returns the number of eigenvalues that were not found. */
template <class T>
AMP_DEVICE_CALL int triangularise(matrix<parts<T>> h, matrix<parts<T>> z, matrix<parts<T>> turns, double norm) {
    enum { MOST_STEPS = 300 };
    int last = h.rows - 1, step = 0;
    while (last > 0) {
        int first = last;
        for (; first > 0; first--) {
            const double beside = modulus(wide(h(first, first))) + modulus(wide(h(first - 1, first - 1)));
            if (modulus(wide(h(first, first - 1))) <= roundoff<T>() * (beside > 0.0 ? beside : norm)) break;
        }
        if (first == last) {
            last--;
            step = 0;
            continue;
        }
        if (++step > MOST_STEPS) return last + 1;
        const complex128 shift = shift_for(h, last, step);
        AMP_BARRIER(); /* all have read it */
        if (AMP_THREAD == 0 && first > 0) h(first, first - 1) = {0, 0};
        move_diagonal(h, first, last, times(-1.0, shift));
        for (int k = first; k < last; k++) turn_rows(h, k, turns);
        turn_behind(h, first, last, turns, true);
        turn_behind(z, first, last, turns, false);
        AMP_BARRIER();
        move_diagonal(h, first, last, shift);
    }
    return 0;
}

/* The eigenvector of the triangle's j-th value, by one thread: of length 1, its greatest number real. */
template <class T>
AMP_DEVICE_CALL void find_vector(matrix<parts<T>> h, matrix<parts<T>> z, matrix<parts<T>> room, matrix<parts<T>> out,
                                 int j, double least) {
    const complex128 value = wide(h(j, j));
    room(j, j) = {1, 0};
    for (int i = j - 1; i >= 0; i--) {
        complex128 sum = {0.0, 0.0}, distance = minus(wide(h(i, i)), value);
        for (int k = i + 1; k <= j; k++) sum = plus(sum, multiply(wide(h(i, k)), wide(room(k, j))));
        if (modulus(distance) < least) distance = {least, 0.0};
        const complex128 x = times(-1.0, quotient_of(sum, distance));
        const double size = modulus(x), scale = size > 1e12 ? 1.0 / size : 1.0; /* nearly equal values: it grows */
        room(i, j) = narrow_to<T>(times(scale, x));
        for (int k = i + 1; scale < 1.0 && k <= j; k++) room(k, j) = narrow_to<T>(times(scale, wide(room(k, j))));
    }
    double squares = 0.0, most = -1.0;
    complex128 greatest = {1.0, 0.0};
    for (int i = 0; i < h.rows; i++) {
        complex128 sum = {0.0, 0.0};
        for (int k = 0; k <= j; k++) sum = plus(sum, multiply(wide(z(i, k)), wide(room(k, j))));
        const double size = sum.re * sum.re + sum.im * sum.im;
        squares += size;
        if (size > most) {
            most = size;
            greatest = sum;
        }
        out(i, j) = narrow_to<T>(sum);
    }
    const complex128 scale = times(1.0 / (sqrt(squares) * modulus(greatest)), conjugate(greatest));
    for (int i = 0; i < h.rows; i++) out(i, j) = narrow_to<T>(multiply(wide(out(i, j)), scale));
}

/* {a, values, vectors or none}, the latter complex */
MATRIX_TASK(matrix_eig) {
    matrix<T> x = matrix_at<T>(a, 0, index);
    matrix<parts<T>> values = matrix_at<parts<T>>(a, 1, index), vectors = matrix_at<parts<T>>(a, 2, index);
    const int n = x.rows;
    if (!is_finite(x)) return -1;
    parts<T> *rest = (parts<T> *)(void *)scratch;
    matrix<parts<T>> h = matrix_in(&rest, n, n), z = matrix_in(&rest, n, n), room = matrix_in(&rest, n, n);
    matrix<parts<T>> turns = matrix_in(&rest, n, 2);
    T *reals = (T *)(void *)rest;
    matrix<T> q = matrix_in(&reals, n, n), tau = matrix_in(&reals, n, 1);
    const int exponent = far_exponent(x);
    scale_by(x, -exponent);
    double squares = 0.0;
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS)
        squares += (double)x(i % n, i / n) * (double)x(i % n, i / n);
    const double norm = sqrt(block_sum(squares)), least = norm > 0.0 ? roundoff<T>() * norm : 1e-30;
    make_hessenberg(x, q, tau);
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) {
        const int64_t row = i % n, column = i / n;
        h(row, column) = {row <= column + 1 ? x(row, column) : (T)0, 0};
        z(row, column) = {q(row, column), 0};
    }
    AMP_BARRIER();
    const int missing = triangularise(h, z, turns, norm);
    AMP_BARRIER();
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        const bool real = fabs((double)h(j, j).im) <= 8.0 * roundoff<T>() * norm; /* of a real matrix */
        const complex128 value = {(double)h(j, j).re, real ? 0.0 : (double)h(j, j).im};
        values(j, 0) = {(T)scalbn(value.re, exponent), (T)scalbn(value.im, exponent)};
        if (vectors.data) find_vector(h, z, room, vectors, j, least);
    }
    return missing;
}
MATRIX_KERNELS(matrix_eig)
