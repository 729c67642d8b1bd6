/* A BLAS that programs of the tests link: every name that libamp_blas.so knows, each of which counts its call and has
 * OpenBLAS do the work, called by what dlsym finds in it, so that nothing stands before that. */
#ifndef AMP_TESTS_BLAS_STAND_IN_H
#define AMP_TESTS_BLAS_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

/* Calls of all names so far. */
__attribute__((visibility("default"))) extern long stand_in_calls;

/* EACH_FORTRAN(USE) is USE(kind, integer, pattern) for each way to make a name; of CBLAS alike. */
#define FORTRAN_NAMES(USE)                                                                                             \
    USE(plain, int32_t, , _)                                                                                           \
    USE(scipy, int32_t, scipy_, _)                                                                                     \
    USE(under64, int64_t, , _64_)                                                                                      \
    USE(bare64, int64_t, , _64) USE(suffix64, int64_t, , 64_) USE(scipy64, int64_t, scipy_, _64_)
#define CBLAS_NAMES(USE)                                                                                               \
    USE(cplain, int32_t, cblas_, )                                                                                     \
    USE(cscipy, int32_t, scipy_cblas_, )                                                                               \
    USE(csuffix64, int64_t, cblas_, 64_) USE(cunder64, int64_t, cblas_, _64) USE(cscipy64, int64_t, scipy_cblas_, 64_)

/* What the functions are, for integers `I`. */
#define SGEMM_ARGUMENTS(I)                                                                                             \
    const char *ta, const char *tb, const I *m, const I *n, const I *k, const float *alpha, const float *a,            \
        const I *lda, const float *b, const I *ldb, const float *beta, float *c, const I *ldc, size_t l1, size_t l2
#define SGEMV_ARGUMENTS(I)                                                                                             \
    const char *t, const I *m, const I *n, const float *alpha, const float *a, const I *lda, const float *x,           \
        const I *incx, const float *beta, float *y, const I *incy, size_t l1
#define SSYRK_ARGUMENTS(I)                                                                                             \
    const char *u, const char *t, const I *n, const I *k, const float *alpha, const float *a, const I *lda,            \
        const float *beta, float *c, const I *ldc, size_t l1, size_t l2
#define SSYMM_ARGUMENTS(I)                                                                                             \
    const char *s, const char *u, const I *m, const I *n, const float *alpha, const float *a, const I *lda,            \
        const float *b, const I *ldb, const float *beta, float *c, const I *ldc, size_t l1, size_t l2
#define STRMM_ARGUMENTS(I)                                                                                             \
    const char *s, const char *u, const char *t, const char *d, const I *m, const I *n, const float *alpha,            \
        const float *a, const I *lda, float *b, const I *ldb, size_t l1, size_t l2, size_t l3, size_t l4
#define SGEMM_BATCH_ARGUMENTS(I)                                                                                       \
    const char *ta, const char *tb, const I *m, const I *n, const I *k, const float *alpha, const float **a,           \
        const I *lda, const float **b, const I *ldb, const float *beta, float **c, const I *ldc, const I *groups,      \
        const I *sizes
#define SGEMM_STRIDED_ARGUMENTS(I)                                                                                     \
    const char *ta, const char *tb, const I *m, const I *n, const I *k, const float *alpha, const float *a,            \
        const I *lda, const I *sa, const float *b, const I *ldb, const I *sb, const float *beta, float *c,             \
        const I *ldc, const I *sc, const I *matrices

#define CBLAS_SGEMM_ARGUMENTS(I)                                                                                       \
    int o, int ta, int tb, I m, I n, I k, float alpha, const float *a, I lda, const float *b, I ldb, float beta,       \
        float *c, I ldc
#define CBLAS_SGEMV_ARGUMENTS(I)                                                                                       \
    int o, int t, I m, I n, float alpha, const float *a, I lda, const float *x, I incx, float beta, float *y, I incy
#define CBLAS_SSYRK_ARGUMENTS(I)                                                                                       \
    int o, int u, int t, I n, I k, float alpha, const float *a, I lda, float beta, float *c, I ldc
#define CBLAS_SSYMM_ARGUMENTS(I)                                                                                       \
    int o, int s, int u, I m, I n, float alpha, const float *a, I lda, const float *b, I ldb, float beta, float *c,    \
        I ldc
#define CBLAS_STRMM_ARGUMENTS(I)                                                                                       \
    int o, int s, int u, int t, int d, I m, I n, float alpha, const float *a, I lda, float *b, I ldb
#define CBLAS_SGEMM_BATCH_ARGUMENTS(I)                                                                                 \
    int o, const int *ta, const int *tb, const I *m, const I *n, const I *k, const float *alpha, const float **a,      \
        const I *lda, const float **b, const I *ldb, const float *beta, float **c, const I *ldc, I groups,             \
        const I *sizes
#define CBLAS_SGEMM_STRIDED_ARGUMENTS(I)                                                                               \
    int o, int ta, int tb, I m, I n, I k, float alpha, const float *a, I lda, I sa, const float *b, I ldb, I sb,       \
        float beta, float *c, I ldc, I sc, I matrices

#define DECLARE_FORTRAN(kind, I, before, after)                                                                        \
    void before##sgemm##after(SGEMM_ARGUMENTS(I));                                                                     \
    void before##sgemv##after(SGEMV_ARGUMENTS(I));                                                                     \
    void before##ssyrk##after(SSYRK_ARGUMENTS(I));                                                                     \
    void before##ssymm##after(SSYMM_ARGUMENTS(I));                                                                     \
    void before##strmm##after(STRMM_ARGUMENTS(I));                                                                     \
    void before##sgemm_batch##after(SGEMM_BATCH_ARGUMENTS(I));                                                         \
    void before##sgemm_batch_strided##after(SGEMM_STRIDED_ARGUMENTS(I));
#define DECLARE_CBLAS(kind, I, before, after)                                                                          \
    void before##sgemm##after(CBLAS_SGEMM_ARGUMENTS(I));                                                               \
    void before##sgemv##after(CBLAS_SGEMV_ARGUMENTS(I));                                                               \
    void before##ssyrk##after(CBLAS_SSYRK_ARGUMENTS(I));                                                               \
    void before##ssymm##after(CBLAS_SSYMM_ARGUMENTS(I));                                                               \
    void before##strmm##after(CBLAS_STRMM_ARGUMENTS(I));                                                               \
    void before##sgemm_batch##after(CBLAS_SGEMM_BATCH_ARGUMENTS(I));                                                   \
    void before##sgemm_batch_strided##after(CBLAS_SGEMM_STRIDED_ARGUMENTS(I));
#pragma GCC visibility push(default)
FORTRAN_NAMES(DECLARE_FORTRAN)
CBLAS_NAMES(DECLARE_CBLAS)
#pragma GCC visibility pop

#endif /* AMP_TESTS_BLAS_STAND_IN_H */
