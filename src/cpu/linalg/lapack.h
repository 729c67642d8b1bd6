/* The LAPACK routines that libamp uses, as one table for each of f32, f64, c64 and c128.
 *
 * Matrices are column-major: element (i, j) is at i + j·ld. Where LAPACK has other names or arguments for complex
 * types, the table hides it. Nothing here allocates: routines take their workspace, and say how much they want. Nothing
 * here prints: arguments are checked before a routine could complain about them on stderr. Every function returns
 * LAPACK's info, 0 when all went well. */
#ifndef AMP_CPU_LAPACK_H
#define AMP_CPU_LAPACK_H

#include <stddef.h>
#include <stdint.h>

#include "amp/types.h"

/* Workspace of one call: `count` elements of the matrix dtype, then of its real type, then integers. A call with count
 * -1 computes nothing; it writes the best counts to the first elements of the arrays. */
typedef struct amp_lapack_work {
    void *elements, *reals;
    int *integers;
    int count, real_count, integer_count;
} amp_lapack_work;

/* What keeps a matrix from having singular values or eigenvalues. */
typedef enum amp_lapack_content { AMP_LAPACK_FINITE, AMP_LAPACK_INFINITE, AMP_LAPACK_NAN } amp_lapack_content;

typedef enum amp_lstsq_driver { AMP_GELS, AMP_GELSY, AMP_GELSD, AMP_GELSS } amp_lstsq_driver;

typedef struct amp_lapack {
    amp_dtype dtype, real_dtype, complex_dtype;
    double epsilon; /* the distance from 1 to the next number */

    int (*potrf)(char uplo, int n, void *a, int lda);
    int (*potri)(char uplo, int n, void *a, int lda);
    int (*potrs)(char uplo, int n, int nrhs, const void *a, int lda, void *b, int ldb);
    int (*getrf)(int m, int n, void *a, int lda, int *pivots);
    int (*getrs)(char trans, int n, int nrhs, const void *a, int lda, const int *pivots, void *b, int ldb);
    /* B = op(A)⁻¹ B or B op(A)⁻¹; there is no check for zeros on the diagonal. */
    void (*trsm)(char side, char uplo, char trans, char diag, int m, int n, const void *a, int lda, void *b, int ldb);
    int (*geqrf)(int m, int n, void *a, int lda, void *tau, amp_lapack_work *work);
    int (*orgqr)(int m, int n, int k, void *a, int lda, const void *tau, amp_lapack_work *work);
    /* trans: 'N', or 'T', which is the conjugate transpose for complex types */
    int (*ormqr)(char side, char trans, int m, int n, int k, const void *a, int lda, const void *tau, void *c, int ldc,
                 amp_lapack_work *work);
    /* job: 'A' all, 'S' the first min(m, n) columns of U and rows of V^H, 'N' neither. Real workspace:
     * amp_gesdd_reals; integers: 8 min(m, n). */
    int (*gesdd)(char job, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *vh, int ldvh,
                 amp_lapack_work *work);
    int (*syevd)(char job, char uplo, int n, void *a, int lda, void *values, amp_lapack_work *work);
    /* Values and vectors are complex for every dtype. Real workspace: amp_geev_reals. */
    int (*geev)(char job, int n, void *a, int lda, void *values, void *vectors, int ldv, amp_lapack_work *work);
    /* Real workspace: 5 max(m, n) but for gelsd, which says itself; integers: n for gelsy. */
    int (*lstsq)(amp_lstsq_driver driver, int m, int n, int nrhs, void *a, int lda, void *b, int ldb, void *s,
                 double rcond, int *rank, amp_lapack_work *work);

    /* Not from LAPACK: LU without exchanging rows, which also takes NaN; info is the first zero pivot. */
    int (*getrf_plain)(int m, int n, void *a, int lda);
    amp_lapack_content (*content)(int m, int n, const void *a, int lda);
    void (*identity)(int m, int n, void *a, int lda);   /* ones on the diagonal, else zeros */
    void (*fill_nan)(int m, int n, void *a, int lda);   /* every element */
    void (*mirror)(char uplo, int n, void *a, int lda); /* the other triangle becomes its conjugate transpose */
    void (*clear_triangle)(char uplo, int m, int n, void *a, int lda); /* zeros strictly below 'L' or above 'U' */
    void (*conjugate)(int m, int n, void *a, int lda);
    /* C = A B */
    void (*gemm)(int m, int n, int k, const void *a, int lda, const void *b, int ldb, void *c, int ldc);
    /* Row i of a times 1/s[i], or times 0 where s[i] is not above the tolerance. */
    void (*scale_rows_by_inverse)(int m, int n, void *a, int lda, const void *s, double tolerance);
    /* Columns of complex eigenvectors (row-major) as geev packs real ones: v and its conjugate become Re v and Im v. */
    void (*pack_vectors)(int n, const void *values, const void *vectors, void *packed);
    double (*largest)(int n, const void *s);                     /* of reals, 0 if there is none */
    double (*first)(const amp_lapack_work *work, double *reals); /* what a query wrote */
} amp_lapack;

/* NULL for any other dtype. */
const amp_lapack *amp_lapack_of(amp_dtype dtype);

int64_t amp_gesdd_reals(char job, int64_t m, int64_t n);
int64_t amp_geev_reals(char job, int64_t n);

#endif /* AMP_CPU_LAPACK_H */
