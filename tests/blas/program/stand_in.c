/* The BLAS of the tests: see stand_in.h. */
#include "stand_in.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long stand_in_calls;

/* OpenBLAS's function of that name. */
static void *real(const char *name) {
    void *library = dlopen(STAND_IN_BLAS, RTLD_NOW | RTLD_LOCAL);
    void *function = library ? dlsym(library, name) : NULL;
    if (function) return function;
    fprintf(stderr, "stand_in: %s\n", dlerror());
    exit(3);
}

#define CALL(name, arguments) (*(void (*)(arguments))(uintptr_t)real(name))

static void count(void) {
    __atomic_add_fetch(&stand_in_calls, 1, __ATOMIC_RELAXED);
}

static void gemm(char ta, char tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                 float beta, float *c, int ldc) {
    CALL("sgemm_", SGEMM_ARGUMENTS(int))(&ta, &tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
}

static void cgemm(int o, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                  int ldb, float beta, float *c, int ldc) {
    CALL("cblas_sgemm", CBLAS_SGEMM_ARGUMENTS(int))(o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* clang-format off */
#define DEFINE_FORTRAN(kind, I, before, after)                                                                         \
    void before##sgemm##after(SGEMM_ARGUMENTS(I)) {                                                                    \
        (void)l1; (void)l2; count();                                                                                   \
        gemm(*ta, *tb, (int)*m, (int)*n, (int)*k, *alpha, a, (int)*lda, b, (int)*ldb, *beta, c, (int)*ldc);            \
    }                                                                                                                  \
    void before##sgemv##after(SGEMV_ARGUMENTS(I)) {                                                                    \
        const int m32 = (int)*m, n32 = (int)*n, ld = (int)*lda, ix = (int)*incx, iy = (int)*incy;                      \
        count();                                                                                                       \
        CALL("sgemv_", SGEMV_ARGUMENTS(int))(t, &m32, &n32, alpha, a, &ld, x, &ix, beta, y, &iy, l1);                  \
    }                                                                                                                  \
    void before##ssyrk##after(SSYRK_ARGUMENTS(I)) {                                                                    \
        const int n32 = (int)*n, k32 = (int)*k, la = (int)*lda, lc = (int)*ldc;                                        \
        count();                                                                                                       \
        CALL("ssyrk_", SSYRK_ARGUMENTS(int))(u, t, &n32, &k32, alpha, a, &la, beta, c, &lc, l1, l2);                   \
    }                                                                                                                  \
    void before##ssymm##after(SSYMM_ARGUMENTS(I)) {                                                                    \
        const int m32 = (int)*m, n32 = (int)*n, la = (int)*lda, lb = (int)*ldb, lc = (int)*ldc;                        \
        count();                                                                                                       \
        CALL("ssymm_", SSYMM_ARGUMENTS(int))(s, u, &m32, &n32, alpha, a, &la, b, &lb, beta, c, &lc, l1, l2);           \
    }                                                                                                                  \
    void before##strmm##after(STRMM_ARGUMENTS(I)) {                                                                    \
        const int m32 = (int)*m, n32 = (int)*n, la = (int)*lda, lb = (int)*ldb;                                        \
        count();                                                                                                       \
        CALL("strmm_", STRMM_ARGUMENTS(int))(s, u, t, d, &m32, &n32, alpha, a, &la, b, &lb, l1, l2, l3, l4);           \
    }                                                                                                                  \
    void before##sgemm_batch##after(SGEMM_BATCH_ARGUMENTS(I)) {                                                        \
        I at = 0;                                                                                                      \
        count();                                                                                                       \
        for (I g = 0; g < *groups; g++)                                                                                \
            for (I i = 0; i < sizes[g]; i++, at++)                                                                     \
                gemm(ta[g], tb[g], (int)m[g], (int)n[g], (int)k[g], alpha[g], a[at], (int)lda[g], b[at], (int)ldb[g],  \
                     beta[g], c[at], (int)ldc[g]);                                                                     \
    }                                                                                                                  \
    void before##sgemm_batch_strided##after(SGEMM_STRIDED_ARGUMENTS(I)) {                                              \
        count();                                                                                                       \
        for (I i = 0; i < *matrices; i++)                                                                 \
            gemm(*ta, *tb, (int)*m, (int)*n, (int)*k, *alpha, a + i * *sa, (int)*lda, b + i * *sb, (int)*ldb, *beta,   \
                 c + i * *sc, (int)*ldc);                                                                              \
    }

#define DEFINE_CBLAS(kind, I, before, after)                                                                           \
    void before##sgemm##after(CBLAS_SGEMM_ARGUMENTS(I)) {                                                              \
        count();                                                                                                       \
        cgemm(o, ta, tb, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);                  \
    }                                                                                                                  \
    void before##sgemv##after(CBLAS_SGEMV_ARGUMENTS(I)) {                                                              \
        count();                                                                                                       \
        CALL("cblas_sgemv", CBLAS_SGEMV_ARGUMENTS(int))(o, t, (int)m, (int)n, alpha, a, (int)lda, x, (int)incx, beta, y, \
                                                        (int)incy);                                                    \
    }                                                                                                                  \
    void before##ssyrk##after(CBLAS_SSYRK_ARGUMENTS(I)) {                                                              \
        count();                                                                                                       \
        CALL("cblas_ssyrk", CBLAS_SSYRK_ARGUMENTS(int))(o, u, t, (int)n, (int)k, alpha, a, (int)lda, beta, c, (int)ldc); \
    }                                                                                                                  \
    void before##ssymm##after(CBLAS_SSYMM_ARGUMENTS(I)) {                                                              \
        count();                                                                                                       \
        CALL("cblas_ssymm", CBLAS_SSYMM_ARGUMENTS(int))(o, s, u, (int)m, (int)n, alpha, a, (int)lda, b, (int)ldb, beta, \
                                                        c, (int)ldc);                                                  \
    }                                                                                                                  \
    void before##strmm##after(CBLAS_STRMM_ARGUMENTS(I)) {                                                              \
        count();                                                                                                       \
        CALL("cblas_strmm", CBLAS_STRMM_ARGUMENTS(int))(o, s, u, t, d, (int)m, (int)n, alpha, a, (int)lda, b, (int)ldb); \
    }                                                                                                                  \
    void before##sgemm_batch##after(CBLAS_SGEMM_BATCH_ARGUMENTS(I)) {                                                  \
        I at = 0;                                                                                                      \
        count();                                                                                                       \
        for (I g = 0; g < groups; g++)                                                                                 \
            for (I i = 0; i < sizes[g]; i++, at++)                                                                     \
                cgemm(o, ta[g], tb[g], (int)m[g], (int)n[g], (int)k[g], alpha[g], a[at], (int)lda[g], b[at],           \
                      (int)ldb[g], beta[g], c[at], (int)ldc[g]);                                                       \
    }                                                                                                                  \
    void before##sgemm_batch_strided##after(CBLAS_SGEMM_STRIDED_ARGUMENTS(I)) {                                        \
        count();                                                                                                       \
        for (I i = 0; i < matrices; i++)                                                                               \
            cgemm(o, ta, tb, (int)m, (int)n, (int)k, alpha, a + i * sa, (int)lda, b + i * sb, (int)ldb, beta,          \
                  c + i * sc, (int)ldc);                                                                               \
    }
/* clang-format on */

FORTRAN_NAMES(DEFINE_FORTRAN)
CBLAS_NAMES(DEFINE_CBLAS)
