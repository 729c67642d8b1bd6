/* LAPACK's routines for one small real matrix, where its calls would cost more than the arithmetic: unblocked loops
 * over columns, which compilers vectorise where they can. No include guard: lapack_body.h includes it for each real
 * type, with T and LOCAL defined. Same results as LAPACK's but for rounding: Householder's reflectors with its signs,
 * pivots by the largest modulus, the first of equals. (Solving with triangles was no faster than OpenBLAS.) */

/* y −= factor·x */
static inline void LOCAL(subtract)(int n, T factor, const T *restrict x, T *restrict y) {
    for (int i = 0; i < n; i++) y[i] -= factor * x[i];
}

static inline T LOCAL(dot)(int n, const T *x, const T *y) {
    T sums[4] = {0, 0, 0, 0};
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int l = 0; l < 4; l++) sums[l] += x[i + l] * y[i + l];
    }
    for (; i < n; i++) sums[0] += x[i] * y[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* ---- Reflectors: H = I − tau·v·vᵀ with v[0] = 1, the rest of v below the diagonal -------------------------------- */

/* H applied to the columns of c, m × n. */
static inline void LOCAL(reflect)(int m, int n, const T *v, T tau, T *c, int ldc) {
    if (tau == 0) return;
    for (int j = 0; j < n; j++) {
        T *column = c + (size_t)j * (size_t)ldc;
        const T w = tau * (column[0] + LOCAL(dot)(m - 1, v + 1, column + 1));
        column[0] -= w;
        LOCAL(subtract)(m - 1, w, v + 1, column + 1);
    }
}

/* H applied to the rows of c, m × n, from the right. */
static inline void LOCAL(reflect_rows)(int m, int n, const T *v, T tau, T *c, int ldc) {
    T w[SMALL_SIDE];
    if (tau == 0) return;
    for (int i = 0; i < m; i++) w[i] = c[i];
    for (int j = 1; j < n; j++) LOCAL(subtract)(m, -v[j], c + (size_t)j * (size_t)ldc, w);
    LOCAL(subtract)(m, tau, w, c);
    for (int j = 1; j < n; j++) LOCAL(subtract)(m, tau * v[j], w, c + (size_t)j * (size_t)ldc);
}

/* No square of an element, nor their sum, leaves the range of doubles. */
static bool LOCAL(squares_fit)(int m, int n, const T *a, int lda) {
    double least = 1;
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < m; i++) {
            const double x = fabs((double)a[i + (size_t)j * (size_t)lda]);
            if (!(x < 1e100)) return false;
            least = x != 0 && x < least ? x : least;
        }
    }
    return least > 1e-100;
}

/* False, and nothing changed, where LAPACK's care with overflow is wanted. */
static bool LOCAL(small_geqrf)(int m, int n, T *a, int lda, T *tau) {
    if (!LOCAL(squares_fit)(m, n, a, lda)) return false;
    for (int k = 0; k < m && k < n; k++) {
        T *v = a + k + (size_t)k * (size_t)lda;
        double squares = 0;
        for (int i = 1; i < m - k; i++) squares += (double)v[i] * (double)v[i];
        tau[k] = 0;
        if (squares == 0) continue;
        const double alpha = (double)v[0], beta = -copysign(sqrt(alpha * alpha + squares), alpha);
        const double scale = 1 / (alpha - beta); /* beyond f32 for its least numbers */
        tau[k] = (T)((beta - alpha) / beta);
        for (int i = 1; i < m - k; i++) v[i] = (T)((double)v[i] * scale);
        v[0] = (T)beta;
        LOCAL(reflect)(m - k, n - k - 1, v, tau[k], v + lda, lda);
    }
    return true;
}

/* The first k reflectors' product, its first n columns, in place. */
static void LOCAL(small_orgqr)(int m, int n, int k, T *a, int lda, const T *tau) {
    for (int j = k; j < n; j++) {
        for (int i = 0; i < m; i++) a[i + (size_t)j * (size_t)lda] = i == j;
    }
    for (int i = k - 1; i >= 0; i--) {
        T *v = a + i + (size_t)i * (size_t)lda;
        LOCAL(reflect)(m - i, n - i - 1, v, tau[i], v + lda, lda);
        for (int l = 1; l < m - i; l++) v[l] *= -tau[i];
        v[0] = 1 - tau[i];
        for (int l = 0; l < i; l++) a[l + (size_t)i * (size_t)lda] = 0;
    }
}

static void LOCAL(small_ormqr)(bool left, bool transposed, int m, int n, int k, const T *a, int lda, const T *tau, T *c,
                               int ldc) {
    for (int step = 0; step < k; step++) {
        const int i = left == transposed ? step : k - 1 - step;
        const T *v = a + i + (size_t)i * (size_t)lda;
        if (left)
            LOCAL(reflect)(m - i, n, v, tau[i], c + i, ldc);
        else
            LOCAL(reflect_rows)(m, n - i, v, tau[i], c + (size_t)i * (size_t)ldc, ldc);
    }
}

/* ---- Cholesky --------------------------------------------------------------------------------------------------- */

/* L·Lᵀ in the lower triangle, by columns. */
static int LOCAL(small_lower_potrf)(int n, T *a, int lda) {
    for (int k = 0; k < n; k++) {
        T *column = a + (size_t)k * (size_t)lda;
        for (int j = 0; j < k; j++) {
            const T *before = a + (size_t)j * (size_t)lda;
            LOCAL(subtract)(n - k, before[k], before + k, column + k);
        }
        if (!(column[k] > 0)) return k + 1; /* NaN too */
        const double root = sqrt((double)column[k]);
        column[k] = (T)root;
        const double inverse = 1 / root;
        for (int i = k + 1; i < n; i++) column[i] = (T)((double)column[i] * inverse);
    }
    return 0;
}

/* Uᵀ·U in the upper triangle: each element by a product of columns. */
static int LOCAL(small_upper_potrf)(int n, T *a, int lda) {
    for (int k = 0; k < n; k++) {
        T *column = a + (size_t)k * (size_t)lda;
        for (int i = 0; i < k; i++) {
            const T *before = a + (size_t)i * (size_t)lda;
            column[i] = (column[i] - LOCAL(dot)(i, before, column)) / before[i];
        }
        column[k] -= LOCAL(dot)(k, column, column);
        if (!(column[k] > 0)) return k + 1;
        column[k] = (T)sqrt((double)column[k]);
    }
    return 0;
}

/* ---- LU, rows exchanged ------------------------------------------------------------------------------------------ */

static inline void LOCAL(exchange_rows)(int n, T *a, int lda, int i, int j) {
    for (int c = 0; c < n && i != j; c++, a += lda) {
        const T x = a[i];
        a[i] = a[j];
        a[j] = x;
    }
}

static int LOCAL(small_getrf)(int m, int n, T *a, int lda, int *pivots) {
    int info = 0;
    for (int k = 0; k < m && k < n; k++) {
        T *column = a + (size_t)k * (size_t)lda;
        int best = k;
        for (int i = k + 1; i < m; i++) best = fabs((double)column[i]) > fabs((double)column[best]) ? i : best;
        pivots[k] = best + 1;
        if (column[best] == 0) {
            if (!info) info = k + 1;
            continue;
        }
        LOCAL(exchange_rows)(n, a, lda, k, best);
        for (int i = k + 1; i < m; i++) column[i] /= column[k];
        for (int j = k + 1; j < n; j++) {
            T *other = a + (size_t)j * (size_t)lda;
            LOCAL(subtract)(m - k - 1, other[k], column + k + 1, other + k + 1);
        }
    }
    return info;
}
