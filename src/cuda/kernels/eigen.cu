/* Eigenvalues: of Hermitian matrices by Jacobi's rotations, many at once, of any others by the QR algorithm. */
#include "cuda/kernels/block_matrix.h"

/* ---- Hermitian matrices ------------------------------------------------------------------------------------------ */
/* Turns a Hermitian, dense A until it is diagonal, and V with it. `turns` and `phases` have room for a number for each
 * column. */
template <class T>
AMP_DEVICE_CALL bool turn_symmetric(matrix<T> a, matrix<T> v, matrix<real_type<T>> turns, matrix<T> phases) {
    typedef wide_type<T> W;
    const int n = a.columns, players = n + n % 2;
    double squares = 0.0;
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) squares += square_of(a.data[i]);
    const double nothing = roundoff<T>() * sqrt(block_sum(squares));
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        bool turned = false;
        for (int round = 0; round < players - 1; round++) {
            for (int t = AMP_THREAD; t < players / 2; t += AMP_THREADS) {
                int p, q;
                pair_of(players, round, t, &p, &q);
                if (q >= n) continue;
                const double x = real_of(a(p, p)), y = real_of(a(q, q));
                double z;
                phases(p, 0) = (T)phase_of((W)a(p, q), &z);
                rotation r = {1.0, 0.0};
                if (fabs(z) > nothing) {
                    r = rotation_for(x, y, z);
                    turned = true;
                }
                turns(p, 0) = (real_type<T>)r.c;
                turns(q, 0) = (real_type<T>)r.s;
            }
            AMP_BARRIER();
            for (int side = 0; side < 2; side++) { /* columns, then rows */
                for (int t = AMP_THREAD; t < players / 2; t += AMP_THREADS) {
                    int p, q;
                    pair_of(players, round, t, &p, &q);
                    if (q >= n || turns(q, 0) == 0) continue;
                    const rotation r = {(double)turns(p, 0), (double)turns(q, 0)};
                    const W phase = (W)phases(p, 0);
                    rotate(side ? a.transposed() : a, p, q, r, side ? phase : conjugate(phase));
                    if (!side) rotate(v, p, q, r, conjugate(phase));
                }
                AMP_BARRIER();
            }
        }
        if (!any_thread(turned)) return true;
    }
    return false;
}

/* {a, values}; job, uplo: the vectors take a's place */
MATRIX_TASK(matrix_eigh) {
    typedef real_type<T> R;
    matrix<T> x = matrix_at<T>(a, 0, index);
    matrix<R> values = matrix_at<R>(a, 1, index), turns = reals_in(&scratch, x.rows);
    const int n = x.rows;
    matrix<T> work = matrix_in(&scratch, n, n), v = matrix_in(&scratch, n, n), phases = matrix_in(&scratch, n, 1);
    const bool upper = a.options[1] == 'U';
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) { /* only one triangle counts */
        const int64_t row = i % n, column = i / n;
        const bool counts = upper ? column >= row : column <= row;
        work(row, column) = row == column ? (T)(R)real_of(x(row, row))
                            : counts      ? x(row, column)
                                          : conjugate(x(column, row));
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
    const bool done = turn_symmetric(work, v, turns, phases);
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) turns(j, 0) = (R)real_of(work(j, j));
    AMP_BARRIER();
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        const int to = order_of(turns, j, false);
        values(to, 0) = (R)scalbn((double)turns(j, 0), exponent);
        for (int64_t i = 0; a.options[0] == 'V' && i < n; i++) x(i, to) = v(i, j);
    }
    return done ? 0 : 1;
}
MATRIX_KERNELS(matrix_eigh)

/* ---- Eigenvalues of any matrix ----------------------------------------------------------------------------------- */
typedef complex_of<double> complex_wide;

AMP_DEVICE complex_wide root_of(complex_wide x) {
    const double r = modulus(x), re = sqrt((r + fabs(x.re)) / 2.0);
    if (r == 0.0) return 0.0;
    const double im = x.im / (2.0 * re);
    return x.re >= 0.0 ? complex_wide(re, im) : complex_wide(fabs(im), x.im < 0.0 ? -re : re);
}

/* A = Q H Qᴴ with zeros below H's subdiagonal, by reflectors from the left and from the right. */
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
        reflect(below, k, conjugate(scale), below, k + 1);
        reflect(below, k, scale, behind, 0, true);
        reflect(below, k, scale, turned, 0, true);
    }
}

/* The eigenvalue of the last two rows and columns that is nearer to the last element; now and then another number. */
template <class C>
AMP_DEVICE complex_wide shift_for(matrix<C> h, int last, int step) {
    const complex_wide a(h(last - 1, last - 1)), b(h(last - 1, last)), c(h(last, last - 1)), d(h(last, last));
    if (step % 10 == 0) return d + modulus(c);
    const complex_wide half = 0.5 * (a - d), root = root_of(half * half + b * c), middle = 0.5 * (a + d);
    const complex_wide one = middle + root, other = middle - root;
    return modulus(one - d) < modulus(other - d) ? one : other;
}

/* One step of the QR algorithm on rows and columns first … last: rotations from the left, then from the right. `turns`
 * has room for two numbers for each. */
template <class C>
AMP_DEVICE void turn_rows(matrix<C> h, int k, matrix<C> turns) {
    const complex_wide x(h(k, k)), y(h(k + 1, k));
    const double r = sqrt(square_of(x) + square_of(y));
    const complex_wide c = r > 0.0 ? x / r : complex_wide(1.0), s = r > 0.0 ? y / r : complex_wide(0.0);
    AMP_BARRIER(); /* all have read them */
    for (int64_t j = k + AMP_THREAD; j < h.columns; j += AMP_THREADS) {
        const complex_wide u(h(k, j)), v(h(k + 1, j));
        h(k, j) = C(conjugate(c) * u + conjugate(s) * v);
        h(k + 1, j) = C(c * v - s * u);
    }
    if (AMP_THREAD == 0) {
        turns(k, 0) = C(c);
        turns(k, 1) = C(s);
    }
    AMP_BARRIER();
}
template <class C>
AMP_DEVICE void turn_behind(matrix<C> h, int first, int last, matrix<C> turns, bool triangular) {
    for (int64_t i = AMP_THREAD; i < h.rows; i += AMP_THREADS) {
        for (int k = first; k < last; k++) {
            if (triangular && i > k + 1) continue; /* zeros */
            const complex_wide c(turns(k, 0)), s(turns(k, 1)), u(h(i, k)), v(h(i, k + 1));
            h(i, k) = C(u * c + v * s);
            h(i, k + 1) = C(v * conjugate(c) - u * conjugate(s));
        }
    }
}
template <class C>
AMP_DEVICE void move_diagonal(matrix<C> h, int first, int last, complex_wide by) {
    for (int64_t i = first + AMP_THREAD; i <= last; i += AMP_THREADS) h(i, i) = C(complex_wide(h(i, i)) + by);
    AMP_BARRIER();
}

/* H becomes triangular, and Z what turned it. Returns the number of eigenvalues that were not found. */
template <class C>
AMP_DEVICE_CALL int triangularise(matrix<C> h, matrix<C> z, matrix<C> turns, double norm) {
    enum { MOST_STEPS = 300 };
    int last = h.rows - 1, step = 0;
    while (last > 0) {
        int first = last;
        for (; first > 0; first--) {
            const double beside = modulus(h(first, first)) + modulus(h(first - 1, first - 1));
            if (modulus(h(first, first - 1)) <= roundoff<C>() * (beside > 0.0 ? beside : norm)) break;
        }
        if (first == last) {
            last--;
            step = 0;
            continue;
        }
        if (++step > MOST_STEPS) return last + 1;
        const complex_wide shift = shift_for(h, last, step);
        AMP_BARRIER(); /* all have read it */
        if (AMP_THREAD == 0 && first > 0) h(first, first - 1) = 0;
        move_diagonal(h, first, last, -shift);
        for (int k = first; k < last; k++) turn_rows(h, k, turns);
        turn_behind(h, first, last, turns, true);
        turn_behind(z, first, last, turns, false);
        AMP_BARRIER();
        move_diagonal(h, first, last, shift);
    }
    return 0;
}

/* The eigenvector of the triangle's j-th value, by one thread: of length 1, its greatest number real. */
template <class C>
AMP_DEVICE_CALL void find_vector(matrix<C> h, matrix<C> z, matrix<C> room, matrix<C> out, int j, double least) {
    const complex_wide value(h(j, j));
    room(j, j) = 1;
    for (int i = j - 1; i >= 0; i--) {
        complex_wide sum = 0.0, distance = complex_wide(h(i, i)) - value;
        for (int k = i + 1; k <= j; k++) sum += complex_wide(h(i, k)) * complex_wide(room(k, j));
        if (modulus(distance) < least) distance = least;
        const complex_wide x = -(sum / distance);
        const double size = modulus(x), scale = size > 1e12 ? 1.0 / size : 1.0; /* nearly equal values: it grows */
        room(i, j) = C(scale * x);
        for (int k = i + 1; scale < 1.0 && k <= j; k++) room(k, j) = C(scale * complex_wide(room(k, j)));
    }
    double squares = 0.0, most = -1.0;
    complex_wide greatest = 1.0;
    for (int i = 0; i < h.rows; i++) {
        complex_wide sum = 0.0;
        for (int k = 0; k <= j; k++) sum += complex_wide(z(i, k)) * complex_wide(room(k, j));
        const double size = square_of(sum);
        squares += size;
        if (size > most) {
            most = size;
            greatest = sum;
        }
        out(i, j) = C(sum);
    }
    const complex_wide scale = conjugate(greatest) / (sqrt(squares) * modulus(greatest));
    for (int i = 0; i < h.rows; i++) out(i, j) = C(complex_wide(out(i, j)) * scale);
}

/* {a, values, vectors or none}, the latter complex */
MATRIX_TASK(matrix_eig) {
    typedef real_type<T> R;
    typedef complex_of<R> C;
    matrix<T> x = matrix_at<T>(a, 0, index);
    matrix<C> values = matrix_at<C>(a, 1, index), vectors = matrix_at<C>(a, 2, index);
    const int n = x.rows;
    if (!is_finite(x)) return -1;
    C *rest = (C *)(void *)scratch;
    matrix<C> h = matrix_in(&rest, n, n), z = matrix_in(&rest, n, n), room = matrix_in(&rest, n, n);
    matrix<C> turns = matrix_in(&rest, n, 2);
    T *others = (T *)(void *)rest;
    matrix<T> q = matrix_in(&others, n, n), tau = matrix_in(&others, n, 1);
    const int exponent = far_exponent(x);
    scale_by(x, -exponent);
    double squares = 0.0;
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) squares += square_of(x(i % n, i / n));
    const double norm = sqrt(block_sum(squares)), least = norm > 0.0 ? roundoff<T>() * norm : 1e-30;
    make_hessenberg(x, q, tau);
    for (int64_t i = AMP_THREAD; i < (int64_t)n * n; i += AMP_THREADS) {
        const int64_t row = i % n, column = i / n;
        h(row, column) = row <= column + 1 ? C(x(row, column)) : C(0);
        z(row, column) = q(row, column);
    }
    AMP_BARRIER();
    const int missing = triangularise(h, z, turns, norm);
    AMP_BARRIER();
    const double nothing = number<T>::is_complex ? -1.0 : 8.0 * roundoff<T>() * norm; /* of a real matrix */
    for (int j = AMP_THREAD; j < n; j += AMP_THREADS) {
        const double re = real_of(h(j, j)), im = imaginary_of(h(j, j));
        values(j, 0) = C((R)scalbn(re, exponent), (R)scalbn(fabs(im) <= nothing ? 0.0 : im, exponent));
        if (vectors.data) find_vector(h, z, room, vectors, j, least);
    }
    return missing;
}
MATRIX_KERNELS(matrix_eig)
