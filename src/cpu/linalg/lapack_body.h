/* The rows of lapack.h for one dtype; no include guard: one file, one letter. The includer defines
 *   LETTER   s, d, c or z
 *   T, R, C  the element type, its real and its complex type
 *   EPSILON  the real type's
 *   COMPLEX  0 or 1
 *   DTYPE, REAL_DTYPE, COMPLEX_DTYPE */
#define PASTE3_(a, b, c) a##b##c
#define PASTE3(a, b, c) PASTE3_(a, b, c)
#define LOCAL(name) PASTE3(LETTER, _, name)
#define CALL(name) PASTE3(LAPACKE_, LETTER, name##_work)
#define BLAS(name) PASTE3(cblas_, LETTER, name)

#if COMPLEX
#define CALL_O(name) CALL(un##name) /* orthogonal is unitary … */
#define CALL_S(name) CALL(he##name) /* … and symmetric is Hermitian */
#define REALS(work) , (work)->reals
#define REAL_COUNT(work) , (work)->reals, (work)->real_count
#define CONJUGATE(x) conj(x)
#define IF_SMALL(condition, statement)
#else
#include "cpu/linalg/small_matrices.h"
#define IF_SMALL(condition, statement)                                                                                 \
    if (condition) statement
#define CALL_O(name) CALL(or ##name)
#define CALL_S(name) CALL(sy##name)
#define REALS(work)
#define REAL_COUNT(work)
#define CONJUGATE(x) (x)
#endif

static int LOCAL(potrf)(char uplo, int n, void *a, int lda) {
    IF_SMALL(n <= SMALL_SIDE, return (uplo == 'U' ? LOCAL(small_upper_potrf) : LOCAL(small_lower_potrf))(n, a, lda));
    return CALL(potrf)(LAPACK_COL_MAJOR, uplo, n, a, lda);
}
static int LOCAL(potri)(char uplo, int n, void *a, int lda) {
    return CALL(potri)(LAPACK_COL_MAJOR, uplo, n, a, lda);
}
static int LOCAL(potrs)(char uplo, int n, int nrhs, const void *a, int lda, void *b, int ldb) {
    return CALL(potrs)(LAPACK_COL_MAJOR, uplo, n, nrhs, a, lda, b, ldb);
}
static int LOCAL(getrf)(int m, int n, void *a, int lda, int *pivots) {
    IF_SMALL(m <= SMALL_SIDE && n <= SMALL_SIDE, return LOCAL(small_getrf)(m, n, a, lda, pivots));
    return CALL(getrf)(LAPACK_COL_MAJOR, m, n, a, lda, pivots);
}
static int LOCAL(getrs)(char trans, int n, int nrhs, const void *a, int lda, const int *pivots, void *b, int ldb) {
    return CALL(getrs)(LAPACK_COL_MAJOR, trans, n, nrhs, a, lda, pivots, b, ldb);
}
static void LOCAL(trsm)(char side, char uplo, char trans, char diag, int m, int n, const void *a, int lda, void *b,
                        int ldb) {
    const T one = 1;
    BLAS(trsm)
    (CblasColMajor, side == 'L' ? CblasLeft : CblasRight, uplo == 'U' ? CblasUpper : CblasLower,
     trans == 'N'   ? CblasNoTrans
     : trans == 'T' ? CblasTrans
                    : CblasConjTrans,
     diag == 'U' ? CblasUnit : CblasNonUnit, m, n,
#if COMPLEX
     &one,
#else
     one,
#endif
     a, lda, b, ldb);
}
static int LOCAL(geqrf)(int m, int n, void *a, int lda, void *tau, amp_lapack_work *work) {
    IF_SMALL(m <= SMALL_SIDE && n <= SMALL_SIDE && LOCAL(small_geqrf)(m, n, a, lda, tau), return 0);
    return CALL(geqrf)(LAPACK_COL_MAJOR, m, n, a, lda, tau, work->elements, work->count);
}
static int LOCAL(orgqr)(int m, int n, int k, void *a, int lda, const void *tau, amp_lapack_work *work) {
    IF_SMALL(m <= SMALL_SIDE && n <= SMALL_SIDE, {
        LOCAL(small_orgqr)(m, n, k, a, lda, tau);
        return 0;
    })
    return CALL_O(gqr)(LAPACK_COL_MAJOR, m, n, k, a, lda, tau, work->elements, work->count);
}
static int LOCAL(ormqr)(char side, char trans, int m, int n, int k, const void *a, int lda, const void *tau, void *c,
                        int ldc, amp_lapack_work *work) {
    IF_SMALL(m <= SMALL_SIDE && n <= SMALL_SIDE, {
        LOCAL(small_ormqr)(side == 'L', trans != 'N', m, n, k, a, lda, tau, c, ldc);
        return 0;
    })
    if (COMPLEX && trans == 'T') trans = 'C';
    return CALL_O(mqr)(LAPACK_COL_MAJOR, side, trans, m, n, k, a, lda, tau, c, ldc, work->elements, work->count);
}
static int LOCAL(gesdd)(char job, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *vh, int ldvh,
                        amp_lapack_work *work) {
    return CALL(gesdd)(LAPACK_COL_MAJOR, job, m, n, a, lda, s, u, ldu, vh, ldvh, work->elements,
                       work->count REALS(work), work->integers);
}
static int LOCAL(syevd)(char job, char uplo, int n, void *a, int lda, void *values, amp_lapack_work *work) {
    return CALL_S(evd)(LAPACK_COL_MAJOR, job, uplo, n, a, lda, values, work->elements, work->count REAL_COUNT(work),
                       work->integers, work->integer_count);
}

#if COMPLEX
static int LOCAL(geev)(char job, int n, void *a, int lda, void *values, void *vectors, int ldv, amp_lapack_work *work) {
    return CALL(geev)(LAPACK_COL_MAJOR, 'N', job, n, a, lda, values, NULL, 1, vectors, ldv, work->elements, work->count,
                      work->reals);
}
#else
/* A pair of conjugate values has its vectors as real parts in one column, imaginary parts in the next. */
static void LOCAL(unpack_vectors)(int n, const R *imaginary, const R *packed, void *vectors, int ldv) {
    for (int j = 0; j < n; j++) {
        const R *re = packed + (size_t)j * n, *im = re + n;
        R *v = (R *)vectors + (size_t)j * ldv * 2, *conjugate = v + (size_t)ldv * 2;
        const bool is_pair = imaginary[j] != 0 && j + 1 < n;
        for (int i = 0; i < n; i++) {
            v[2 * i] = re[i];
            v[2 * i + 1] = is_pair ? im[i] : 0;
            if (!is_pair) continue;
            conjugate[2 * i] = re[i];
            conjugate[2 * i + 1] = -im[i];
        }
        j += is_pair;
    }
}
static int LOCAL(geev)(char job, int n, void *a, int lda, void *values, void *vectors, int ldv, amp_lapack_work *work) {
    R *real = work->reals, *imaginary = real + n, *packed = imaginary + n;
    if (work->count < 0) real = imaginary = packed = work->elements; /* not looked at */
    const int info = CALL(geev)(LAPACK_COL_MAJOR, 'N', job, n, a, lda, real, imaginary, NULL, 1, packed, n > 1 ? n : 1,
                                work->elements, work->count);
    if (work->count < 0 || info) return info;
    for (int i = 0; i < n; i++) {
        ((R *)values)[2 * i] = real[i];
        ((R *)values)[2 * i + 1] = imaginary[i];
    }
    if (job == 'V') LOCAL(unpack_vectors)(n, imaginary, packed, vectors, ldv);
    return 0;
}
#endif

static int LOCAL(lstsq)(amp_lstsq_driver driver, int m, int n, int nrhs, void *a, int lda, void *b, int ldb, void *s,
                        double rcond, int *rank, amp_lapack_work *work) {
    switch (driver) {
    case AMP_GELSY:
        if (work->count >= 0) memset(work->integers, 0, (size_t)n * sizeof(int)); /* every column is free to move */
        return CALL(gelsy)(LAPACK_COL_MAJOR, m, n, nrhs, a, lda, b, ldb, work->integers, (R)rcond, rank, work->elements,
                           work->count REALS(work));
    case AMP_GELSD:
        return CALL(gelsd)(LAPACK_COL_MAJOR, m, n, nrhs, a, lda, b, ldb, s, (R)rcond, rank, work->elements,
                           work->count REALS(work), work->integers);
    case AMP_GELSS:
        return CALL(gelss)(LAPACK_COL_MAJOR, m, n, nrhs, a, lda, b, ldb, s, (R)rcond, rank, work->elements,
                           work->count REALS(work));
    default: return CALL(gels)(LAPACK_COL_MAJOR, 'N', m, n, nrhs, a, lda, b, ldb, work->elements, work->count);
    }
}

/* ---- Not from LAPACK ------------------------------------------------------------------------------------------ */

static int LOCAL(getrf_plain)(int m, int n, void *a, int lda) {
    T *A = a;
    int info = 0;
    for (int k = 0; k < m && k < n; k++) {
        T *pivot_column = A + (size_t)k * lda;
        if (pivot_column[k] == 0) {
            if (!info) info = k + 1;
            continue;
        }
        const T scale = 1 / pivot_column[k];
        for (int i = k + 1; i < m; i++) pivot_column[i] *= scale;
        for (int j = k + 1; j < n; j++) {
            T *column = A + (size_t)j * lda;
            for (int i = k + 1; i < m; i++) column[i] -= pivot_column[i] * column[k];
        }
    }
    return info;
}

/* 0·x is zero for every finite x. */
static amp_lapack_content LOCAL(content)(int m, int n, const void *a, int lda) {
    const int parts = COMPLEX + 1;
    R zero = 0;
    bool nan = false;
    for (int j = 0; j < n; j++) {
        const R *column = (const R *)((const T *)a + (size_t)j * lda);
        for (int i = 0; i < m * parts; i++) zero += 0 * column[i];
    }
    if (zero == 0) return AMP_LAPACK_FINITE;
    for (int j = 0; j < n; j++) {
        const R *column = (const R *)((const T *)a + (size_t)j * lda);
        for (int i = 0; i < m * parts; i++) nan |= isnan(column[i]);
    }
    return nan ? AMP_LAPACK_NAN : AMP_LAPACK_INFINITE;
}

static void LOCAL(identity)(int m, int n, void *a, int lda) {
    for (int j = 0; j < n; j++) {
        T *column = (T *)a + (size_t)j * lda;
        for (int i = 0; i < m; i++) column[i] = i == j;
    }
}

static void LOCAL(fill_nan)(int m, int n, void *a, int lda) {
    for (int j = 0; j < n; j++) {
        R *column = (R *)((T *)a + (size_t)j * lda);
        for (int i = 0; i < m * (COMPLEX + 1); i++) column[i] = NAN;
    }
}

static void LOCAL(mirror)(char uplo, int n, void *a, int lda) {
    T *A = a;
    for (int j = 0; j < n; j++) {
        for (int i = j + 1; i < n; i++) {
            T *lower = A + i + (size_t)j * lda, *upper = A + j + (size_t)i * lda;
            if (uplo == 'L')
                *upper = CONJUGATE(*lower);
            else
                *lower = CONJUGATE(*upper);
        }
    }
}

static void LOCAL(clear_triangle)(char uplo, int m, int n, void *a, int lda) {
    for (int j = 0; j < n; j++) {
        T *column = (T *)a + (size_t)j * lda;
        const int begin = uplo == 'L' ? j + 1 : 0, end = uplo == 'L' ? m : j < m ? j : m;
        for (int i = begin; i < end; i++) column[i] = 0;
    }
}

static void LOCAL(conjugate)(int m, int n, void *a, int lda) {
    for (int j = 0; j < n; j++) {
        T *column = (T *)a + (size_t)j * lda;
        for (int i = 0; i < m; i++) column[i] = CONJUGATE(column[i]);
    }
}

static void LOCAL(gemm)(int m, int n, int k, const void *a, int lda, const void *b, int ldb, void *c, int ldc) {
    const T one = 1, zero = 0;
    BLAS(gemm)
    (CblasColMajor, CblasNoTrans, CblasNoTrans, m, n, k,
#if COMPLEX
     &one, a, lda, b, ldb, &zero,
#else
     one, a, lda, b, ldb, zero,
#endif
     c, ldc);
}

static void LOCAL(scale_rows_by_inverse)(int m, int n, void *a, int lda, const void *s, double tolerance) {
    for (int i = 0; i < m; i++) {
        const R value = ((const R *)s)[i], scale = value > (R)tolerance ? 1 / value : 0;
        for (int j = 0; j < n; j++) ((T *)a)[i + (size_t)j * lda] *= scale;
    }
}

static void LOCAL(pack_vectors)(int n, const void *values, const void *vectors, void *packed) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            const C v = ((const C *)vectors)[(size_t)i * n + j];
            ((R *)packed)[(size_t)i * n + j] = (R)(cimag(((const C *)values)[j]) < 0 ? -cimag(v) : creal(v));
        }
    }
}

static double LOCAL(largest)(int n, const void *s) {
    R most = 0;
    for (int i = 0; i < n; i++) most = ((const R *)s)[i] > most ? ((const R *)s)[i] : most;
    return (double)most;
}

/* A single-precision count may have been rounded down. */
static double LOCAL(first)(const amp_lapack_work *work, double *reals) {
    const double room = 1.0 + 2.0 * EPSILON;
    *reals = (double)*(const R *)work->reals * room;
    return (double)*(const R *)work->elements * room;
}

#define ROW(name) .name = LOCAL(name)
static const amp_lapack LOCAL(row) = {.dtype = DTYPE,
                                      .real_dtype = REAL_DTYPE,
                                      .complex_dtype = COMPLEX_DTYPE,
                                      .epsilon = EPSILON,
                                      ROW(potrf),
                                      ROW(potri),
                                      ROW(potrs),
                                      ROW(getrf),
                                      ROW(getrs),
                                      ROW(trsm),
                                      ROW(geqrf),
                                      ROW(orgqr),
                                      ROW(ormqr),
                                      ROW(gesdd),
                                      ROW(syevd),
                                      ROW(geev),
                                      ROW(lstsq),
                                      ROW(getrf_plain),
                                      ROW(content),
                                      ROW(identity),
                                      ROW(fill_nan),
                                      ROW(mirror),
                                      ROW(clear_triangle),
                                      ROW(conjugate),
                                      ROW(gemm),
                                      ROW(scale_rows_by_inverse),
                                      ROW(pack_vectors),
                                      ROW(largest),
                                      ROW(first)};
#undef ROW

#undef PASTE3_
#undef PASTE3
#undef LOCAL
#undef CALL
#undef BLAS
#undef CALL_O
#undef CALL_S
#undef REALS
#undef REAL_COUNT
#undef CONJUGATE
#undef IF_SMALL
#undef LETTER
#undef T
#undef R
#undef C
#undef COMPLEX
#undef EPSILON
#undef DTYPE
#undef REAL_DTYPE
#undef COMPLEX_DTYPE
