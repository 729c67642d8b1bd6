/* Eigenvalues: of symmetric matrices by Jacobi's rotations, many at once, of any others by the QR algorithm. */
#include "cuda/device/block_matrix.h"

/* ---- Symmetric matrices ------------------------------------------------------------------------------------------ */
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

/* ---- Eigenvalues of any matrix ----------------------------------------------------------------------------------- */
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

/* One step of the QR algorithm on rows and columns first … last: rotations from the left, then from the right. `turns`
 * has room for two numbers for each. */
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
