/* Matrices that a block works on: what its threads do together, triangles, reflectors, rotations, and the frame of the
 * kernels. The threads of a block go through the same steps, so barriers are met by all. */
#ifndef AMP_CUDA_BLOCK_MATRIX_H
#define AMP_CUDA_BLOCK_MATRIX_H

#include "cuda/args/matrix_args.h"
#include "cuda/kernels/number.h"

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

/* Real numbers, in as many elements of scratch memory. */
template <class T>
AMP_DEVICE matrix<real_type<T>> reals_in(T **scratch, int rows) {
    const matrix<T> taken = matrix_in(scratch, rows, 1);
    return {(real_type<T> *)(void *)taken.data, 1, rows, rows, 1};
}

/* ---- What threads do together ------------------------------------------------------------------------------------ */
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
        a(i % a.rows, i / a.rows) = nan_of<T>();
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

/* ---- Magnitudes whose squares are none --------------------------------------------------------------------------- */
/* The exponent of the greatest number, where squares would overflow or vanish (those of f32 do not, in f64), else 0. */
template <class T>
AMP_DEVICE double greater_part(T x) {
    return fmax(fabs(real_of(x)), fabs(imaginary_of(x)));
}
template <class T>
AMP_DEVICE_CALL int far_exponent(matrix<T> a) {
    double most = 0.0;
    int64_t at = 0;
    for (int64_t i = AMP_THREAD; i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        const double x = greater_part(a(i % a.rows, i / a.rows));
        if (x > most) {
            most = x;
            at = i;
        }
    }
    if (a.rows == 0 || a.columns == 0) return 0;
    at = block_greatest(most, at);
    const double x = greater_part(a(at % a.rows, at / a.rows));
    AMP_BARRIER(); /* all have read it */
    const int exponent = x > 0.0 && x - x == 0.0 ? ilogb(x) : 0;
    return exponent < -300 || exponent > 300 ? exponent : 0;
}
/* A · 2^exponent */
template <class T>
AMP_DEVICE void scale_by(matrix<T> a, int exponent) {
    for (int64_t i = AMP_THREAD; exponent && i < (int64_t)a.rows * a.columns; i += AMP_THREADS) {
        T &x = a(i % a.rows, i / a.rows);
        x = (T)scaled_by(x, exponent);
    }
    AMP_BARRIER();
}
/* The length of a column. */
template <class T>
AMP_DEVICE double length_of(matrix<T> column) {
    double squares = 0.0;
    for (int64_t i = AMP_THREAD; i < column.rows; i += AMP_THREADS) {
        squares += square_of(column(i, 0));
    }
    squares = block_sum(squares);
    if (squares > 1e-180 && squares < 1e180) return sqrt(squares);
    const int exponent = far_exponent(column);
    double scaled = 0.0;
    for (int64_t i = AMP_THREAD; i < column.rows; i += AMP_THREADS) {
        scaled += square_of(scaled_by(column(i, 0), -exponent));
    }
    return scalbn(sqrt(block_sum(scaled)), exponent);
}

/* ---- Triangles --------------------------------------------------------------------------------------------------- */
/* B = T⁻¹ B for a lower or upper triangular T, or for its conjugate. */
template <class T>
AMP_DEVICE_CALL void solve_triangle(matrix<T> t, bool lower, bool unit, matrix<T> b, bool conjugated = false) {
    const int n = t.rows;
    for (int step = 0; step < n; step++) {
        const int k = lower ? step : n - 1 - step, rest = n - 1 - step, first = lower ? k + 1 : 0;
        for (int64_t c = AMP_THREAD; !unit && c < b.columns; c += AMP_THREADS)
            b(k, c) /= conjugate_if(conjugated, t(k, k));
        AMP_BARRIER();
        for (int64_t i = AMP_THREAD; i < (int64_t)rest * b.columns; i += AMP_THREADS) {
            const int64_t row = first + i % rest, c = i / rest;
            b(row, c) -= conjugate_if(conjugated, t(row, k)) * b(k, c);
        }
        AMP_BARRIER();
    }
}

/* ---- Reflectors -------------------------------------------------------------------------------------------------- */
/* C = (1 − τ v vᴴ) C for v = (0 …, 1 at k, v(k + 1 …)) or its conjugate, columns from `first` on. */
template <class T>
AMP_DEVICE_CALL void reflect(matrix<T> v, int k, T tau, matrix<T> c, int first, bool conjugated = false) {
    for (int64_t j = first + AMP_THREAD; j < c.columns; j += AMP_THREADS) {
        T sum = c(k, j);
        for (int64_t i = k + 1; i < c.rows; i++) sum += conjugate_if(!conjugated, v(i, k)) * c(i, j);
        sum *= tau;
        c(k, j) -= sum;
        for (int64_t i = k + 1; i < c.rows; i++) c(i, j) -= conjugate_if(conjugated, v(i, k)) * sum;
    }
    AMP_BARRIER();
}

/* R above the diagonal and on it, the reflectors below. */
template <class T>
AMP_DEVICE_CALL void factor_qr(matrix<T> a, matrix<T> tau) {
    const int k_end = a.rows < a.columns ? a.rows : a.columns;
    for (int k = 0; k < k_end; k++) {
        const double below = length_of(matrix<T>{&a(k + 1, k), a.down, a.right, a.rows - k - 1, 1});
        const wide_type<T> alpha = (wide_type<T>)a(k, k);
        AMP_BARRIER(); /* all have read alpha */
        const bool stays = below == 0.0 && imaginary_of(alpha) == 0.0;
        const double norm = hypot(modulus(alpha), below), beta = real_of(alpha) > 0 ? -norm : norm;
        const T scale = stays ? (T)0 : (T)((beta - alpha) / beta);
        for (int64_t i = k + 1 + AMP_THREAD; !stays && i < a.rows; i += AMP_THREADS) {
            a(i, k) = (T)((wide_type<T>)a(i, k) / (alpha - beta));
        }
        if (AMP_THREAD == 0) {
            tau(k, 0) = scale;
            if (!stays) a(k, k) = (T)beta;
        }
        AMP_BARRIER();
        reflect(a, k, conjugate(scale), a, k + 1);
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

/* C = Q C or QᴴC; of the reflectors of conjugates, if asked for: QᵀC is Qᴴ's conjugate. */
template <class T>
AMP_DEVICE void multiply_by(matrix<T> v, matrix<T> tau, int count, matrix<T> c, bool inverse, bool conjugated) {
    for (int step = 0; step < count; step++) {
        const int k = inverse ? step : count - 1 - step;
        reflect(v, k, conjugate_if(inverse != conjugated, tau(k, 0)), c, 0, conjugated);
    }
}

/* ---- Jacobi's rotations ------------------------------------------------------------------------------------------ */
enum { MOST_SWEEPS = 60 };
template <class T>
AMP_DEVICE double roundoff() {
    return sizeof(real_type<T>) == sizeof(float) ? 1.1920928955078125e-07 : 2.220446049250313e-16;
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
/* Columns p and q, the latter times `phase` first; by one thread. */
template <class T>
AMP_DEVICE void rotate(matrix<T> a, int p, int q, rotation r, wide_type<T> phase) {
    for (int64_t i = 0; i < a.rows; i++) {
        const wide_type<T> x = (wide_type<T>)a(i, p), y = (wide_type<T>)a(i, q) * phase;
        a(i, p) = (T)(r.c * x - r.s * y);
        a(i, q) = (T)(r.s * x + r.c * y);
    }
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

AMP_DEVICE int smaller(int x, int y) {
    return x < y ? x : y;
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */
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
    MATRIX_KERNEL(name, double, f64)                                                                                   \
    MATRIX_KERNEL(name, complex_of<float>, c64)                                                                        \
    MATRIX_KERNEL(name, complex_of<double>, c128)
#define MATRIX_TASK(name)                                                                                              \
    template <class T>                                                                                                 \
    AMP_DEVICE int name(const amp_cuda_matrices &a, int64_t index, T *scratch)

#endif /* AMP_CUDA_BLOCK_MATRIX_H */
