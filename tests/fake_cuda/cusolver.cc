// libcusolver for machines without a GPU: LAPACK on the host, in the terms of the real one. Workspaces are overwritten, and
// those that are too small or not of the pools are refused.
#include <cusolverDn.h>

#include <complex>
#include <cstring>
#include <utility>
#include <vector>

#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include "fake_cuda.h"

namespace {

constexpr int elements = 48;

using C = std::complex<float>;
using Z = std::complex<double>;

// Each routine for one type.
#define ROUTINES(T, R, letter, orthogonal, symmetric)                                                                  \
    int potrf(char uplo, int n, T *a, int lda) {                                                                       \
        return LAPACKE_##letter##potrf(LAPACK_COL_MAJOR, uplo, n, a, lda);                                             \
    }                                                                                                                  \
    int potrs(char uplo, int n, int k, T *a, int lda, T *b, int ldb) {                                                 \
        return LAPACKE_##letter##potrs(LAPACK_COL_MAJOR, uplo, n, k, a, lda, b, ldb);                                  \
    }                                                                                                                  \
    int getrf(int m, int n, T *a, int lda, int *pivots) {                                                              \
        return LAPACKE_##letter##getrf(LAPACK_COL_MAJOR, m, n, a, lda, pivots);                                        \
    }                                                                                                                  \
    int getrs(char trans, int n, int k, T *a, int lda, const int *pivots, T *b, int ldb) {                             \
        return LAPACKE_##letter##getrs(LAPACK_COL_MAJOR, trans, n, k, a, lda, pivots, b, ldb);                         \
    }                                                                                                                  \
    int geqrf(int m, int n, T *a, int lda, T *tau) {                                                                   \
        return LAPACKE_##letter##geqrf(LAPACK_COL_MAJOR, m, n, a, lda, tau);                                           \
    }                                                                                                                  \
    int orgqr(int m, int n, int k, T *a, int lda, T *tau) {                                                            \
        return LAPACKE_##orthogonal##gqr(LAPACK_COL_MAJOR, m, n, k, a, lda, tau);                                      \
    }                                                                                                                  \
    int syevd(char job, char uplo, int n, T *a, int lda, R *w) {                                                       \
        return LAPACKE_##symmetric##evd(LAPACK_COL_MAJOR, job, uplo, n, a, lda, w);                                    \
    }                                                                                                                  \
    int gesdd(char job, int m, int n, T *a, int lda, R *s, T *u, int ldu, T *vt, int ldvt) {                           \
        return LAPACKE_##letter##gesdd(LAPACK_COL_MAJOR, job, m, n, a, lda, s, u, ldu, vt, ldvt);                      \
    }
ROUTINES(float, float, s, sor, ssy)
ROUTINES(double, double, d, dor, dsy)
ROUTINES(C, float, c, cun, che)
ROUTINES(Z, double, z, zun, zhe)

template <class T>
T conjugate(T x) {
    return x;
}
template <class R>
std::complex<R> conjugate(std::complex<R> x) {
    return std::conj(x);
}

// Runs `body` with a null pointer of the type that `type` names, while device memory may be touched.
template <class Body>
cusolverStatus_t with_type(cudaDataType type, Body body) {
    // NaN is computed with, as on the device.
    static const bool unchecked = (LAPACKE_set_nancheck(0), true);
    (void)unchecked;
    fake_cuda()->factors++;
    if (const int failure = std::exchange(fake_cuda()->fail_factor, 0)) return static_cast<cusolverStatus_t>(failure);
    fake_cuda_open(true);
    cusolverStatus_t status = CUSOLVER_STATUS_SUCCESS;
    switch (type) {
    case CUDA_R_32F: body(static_cast<float *>(nullptr)); break;
    case CUDA_R_64F: body(static_cast<double *>(nullptr)); break;
    case CUDA_C_32F: body(static_cast<C *>(nullptr)); break;
    case CUDA_C_64F: body(static_cast<Z *>(nullptr)); break;
    default: status = CUSOLVER_STATUS_NOT_SUPPORTED;
    }
    fake_cuda_open(false);
    return status;
}

bool take_room(void *device, size_t device_size, void *host, size_t host_size) {
    if (!device || device_size < fake_cuda()->factor_device || !host || host_size < fake_cuda()->factor_host)
        return false;
    fake_cuda_open(true);
    std::memset(device, 0xff, device_size);
    fake_cuda_open(false);
    std::memset(host, 0xff, host_size);
    return true;
}
cusolverStatus_t give_room(size_t *device, size_t *host) {
    *device = fake_cuda()->factor_device;
    *host = fake_cuda()->factor_host;
    return CUSOLVER_STATUS_SUCCESS;
}
char letter_of(cublasFillMode_t uplo) {
    return uplo == CUBLAS_FILL_MODE_UPPER ? 'U' : 'L';
}

template <class T>
cusolverStatus_t make_q(cudaDataType type, int m, int n, int k, void *a, int lda, const void *tau, void *work, int room,
                        int *info) {
    if (room < elements || m < n || n < k) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(type, [=](auto) {
        std::memset(work, 0xff, size_t(room) * sizeof(T));
        *info = orgqr(m, n, k, static_cast<T *>(a), lda, const_cast<T *>(static_cast<const T *>(tau)));
    });
}

template <class T, class R>
cusolverStatus_t decompose(cudaDataType type, cusolverEigMode_t mode, int econ, int m, int n, void *a, int lda, void *s,
                           void *u, int ldu, void *v, int ldv, void *work, int room, int *info) {
    const bool vectors = mode == CUSOLVER_EIG_MODE_VECTOR;
    if (room < elements || ldu < m || ldv < n) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(type, [=](auto) {
        const int high = econ ? std::min(m, n) : n;
        std::vector<T> vt(vectors ? size_t(high) * size_t(n) : 1);
        std::memset(work, 0xff, size_t(room) * sizeof(T));
        *info = gesdd(!vectors ? 'N'
                      : econ   ? 'S'
                               : 'A',
                      m, n, static_cast<T *>(a), lda, static_cast<R *>(s), static_cast<T *>(u), ldu, vt.data(),
                      vectors ? high : 1);
        for (int i = 0; vectors && i < n; i++) {
            for (int j = 0; j < high; j++)
                static_cast<T *>(v)[i + int64_t(j) * ldv] = conjugate(vt[size_t(j + i * high)]);
        }
    });
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle) {
    *handle = reinterpret_cast<cusolverDnHandle_t>(uintptr_t(1));
    return CUSOLVER_STATUS_SUCCESS;
}
EXPORT cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *params) {
    *params = reinterpret_cast<cusolverDnParams_t>(uintptr_t(1));
    return CUSOLVER_STATUS_SUCCESS;
}
EXPORT cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t *info) {
    *info = reinterpret_cast<gesvdjInfo_t>(uintptr_t(1));
    return CUSOLVER_STATUS_SUCCESS;
}
EXPORT cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t, cudaStream_t stream) {
    return stream ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

EXPORT cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t,
                                                    cudaDataType, const void *, int64_t, cudaDataType, size_t *device,
                                                    size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t uplo, int64_t n,
                                         cudaDataType type, void *a, int64_t lda, cudaDataType, void *device,
                                         size_t device_size, void *host, size_t host_size, int *info) {
    if (!take_room(device, device_size, host, host_size)) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(type,
                     [=](auto t) { *info = potrf(letter_of(uplo), int(n), static_cast<decltype(t)>(a), int(lda)); });
}
EXPORT cusolverStatus_t cusolverDnXpotrs(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t uplo, int64_t n,
                                         int64_t k, cudaDataType type, const void *a, int64_t lda, cudaDataType,
                                         void *b, int64_t ldb, int *info) {
    return with_type(type, [=](auto t) {
        *info = potrs(letter_of(uplo), int(n), int(k), static_cast<decltype(t)>(const_cast<void *>(a)), int(lda),
                      static_cast<decltype(t)>(b), int(ldb));
    });
}

EXPORT cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t,
                                                    cudaDataType, const void *, int64_t, cudaDataType, size_t *device,
                                                    size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t, cusolverDnParams_t, int64_t m, int64_t n,
                                         cudaDataType type, void *a, int64_t lda, int64_t *pivots, cudaDataType,
                                         void *device, size_t device_size, void *host, size_t host_size, int *info) {
    if (!pivots || !take_room(device, device_size, host, host_size)) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(type, [=](auto t) {
        std::vector<int> narrow(size_t(std::min(m, n)));
        *info = getrf(int(m), int(n), static_cast<decltype(t)>(a), int(lda), narrow.data());
        for (size_t i = 0; i < narrow.size(); i++) pivots[i] = narrow[i];
    });
}
EXPORT cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t, cusolverDnParams_t, cublasOperation_t trans, int64_t n,
                                         int64_t k, cudaDataType type, const void *a, int64_t lda,
                                         const int64_t *pivots, cudaDataType, void *b, int64_t ldb, int *info) {
    return with_type(type, [=](auto t) {
        const std::vector<int> narrow(pivots, pivots + n);
        *info = getrs(trans == CUBLAS_OP_T ? 'T' : 'N', int(n), int(k), static_cast<decltype(t)>(const_cast<void *>(a)),
                      int(lda), narrow.data(), static_cast<decltype(t)>(b), int(ldb));
    });
}

EXPORT cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t,
                                                    cudaDataType, const void *, int64_t, cudaDataType, const void *,
                                                    cudaDataType, size_t *device, size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t, cusolverDnParams_t, int64_t m, int64_t n,
                                         cudaDataType type, void *a, int64_t lda, cudaDataType, void *tau, cudaDataType,
                                         void *device, size_t device_size, void *host, size_t host_size, int *info) {
    if (!take_room(device, device_size, host, host_size)) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(type, [=](auto t) {
        *info = geqrf(int(m), int(n), static_cast<decltype(t)>(a), int(lda), static_cast<decltype(t)>(tau));
    });
}

EXPORT cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                                    cublasFillMode_t, int64_t, cudaDataType, const void *, int64_t,
                                                    cudaDataType, const void *, cudaDataType, size_t *device,
                                                    size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t mode,
                                         cublasFillMode_t uplo, int64_t n, cudaDataType type, void *a, int64_t lda,
                                         cudaDataType, void *w, cudaDataType, void *device, size_t device_size,
                                         void *host, size_t host_size, int *info) {
    if (!take_room(device, device_size, host, host_size)) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(type, [=](auto t) {
        using R = std::remove_reference_t<decltype(std::abs(*t))>;
        *info = syevd(mode == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N', letter_of(uplo), int(n),
                      static_cast<decltype(t)>(a), int(lda), static_cast<R *>(w));
    });
}

// One function for each type.
#define TYPED(q, svd, T, R, D, S, type)                                                                                \
    EXPORT cusolverStatus_t cusolverDn##q##_bufferSize(cusolverDnHandle_t, int, int, int, const D *, int, const D *,   \
                                                       int *room) {                                                    \
        *room = elements;                                                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##q(cusolverDnHandle_t, int m, int n, int k, D *a, int lda, const D *tau,        \
                                          D *work, int room, int *info) {                                              \
        return make_q<T>(type, m, n, k, a, lda, tau, work, room, info);                                                \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##svd##_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, int, int, int,         \
                                                         const D *, int, const S *, const D *, int, const D *, int,    \
                                                         int *room, gesvdjInfo_t) {                                    \
        *room = elements;                                                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##svd(cusolverDnHandle_t, cusolverEigMode_t mode, int econ, int m, int n, D *a,  \
                                            int lda, S *s, D *u, int ldu, D *v, int ldv, D *work, int room, int *info, \
                                            gesvdjInfo_t) {                                                            \
        return decompose<T, R>(type, mode, econ, m, n, a, lda, s, u, ldu, v, ldv, work, room, info);                   \
    }
TYPED(Sorgqr, Sgesvdj, float, float, float, float, CUDA_R_32F)
TYPED(Dorgqr, Dgesvdj, double, double, double, double, CUDA_R_64F)
TYPED(Cungqr, Cgesvdj, C, float, cuComplex, float, CUDA_C_32F)
TYPED(Zungqr, Zgesvdj, Z, double, cuDoubleComplex, double, CUDA_C_64F)

EXPORT cusolverStatus_t cusolverGetVersion(int *version) {
    *version = CUSOLVER_VERSION;
    return CUSOLVER_STATUS_SUCCESS;
}
