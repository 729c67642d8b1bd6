// libcublas for machines without a GPU: triangular equations, in plain loops. The workspace is overwritten, and one
// that is smaller than NVIDIA recommends for the GPU, or that was set before the stream, is refused; a handle is its
// device's. Steps count as the fake cuSOLVER's do.
#include <cublas_v2.h>

#include <complex>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fake_cuda.h"

namespace {

using C = std::complex<float>;
using Z = std::complex<double>;

struct Handle {
    int device;
    cudaStream_t stream;
    void *workspace;
    size_t bytes;
};

template <class T>
T conjugate(T x) {
    return x;
}
template <class R>
std::complex<R> conjugate(std::complex<R> x) {
    return std::conj(x);
}

template <class T>
struct Triangle {
    const T *a;
    int64_t ld;
    cublasOperation_t trans;
    bool unit;
    T operator()(int64_t i, int64_t j) const {
        const T x = trans == CUBLAS_OP_N ? a[i + j * ld] : a[j + i * ld];
        return trans == CUBLAS_OP_C ? conjugate(x) : x;
    }
};

template <class T>
void solve(Triangle<T> t, bool lower, int n, T alpha, T *b) {
    for (int step = 0; step < n; step++) {
        const int k = lower ? step : n - 1 - step;
        T x = alpha * b[k];
        for (int j = lower ? 0 : k + 1; j < (lower ? k : n); j++) x -= t(k, j) * b[j];
        b[k] = t.unit ? x : x / t(k, k);
    }
}

template <class T>
cublasStatus_t trsm(const Handle *h, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t trans,
                    cublasDiagType_t diag, int m, int n, const void *alpha, const void *a, int lda, void *b, int ldb) {
    const size_t recommended = size_t(fake_cuda_capability(h->device) >= 90 ? 32 : 4) << 20;
    if (side != CUBLAS_SIDE_LEFT || lda < m || ldb < m || !h->stream || !h->workspace || h->bytes < recommended)
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % sizeof(T))
        return CUBLAS_STATUS_INVALID_VALUE;
    const size_t last = size_t(m) - 1;
    const fake_access accesses[] = {fake_read(a, (last * size_t(lda) + size_t(m)) * sizeof(T)),
                                    fake_write(b, (size_t(n - 1) * size_t(ldb) + size_t(m)) * sizeof(T)),
                                    fake_write(h->workspace, h->bytes)};
    fake_cuda()->factors++;
    if (const int failure = fake_take_factor_failure(fake_cuda())) return static_cast<cublasStatus_t>(failure);
    const Triangle<T> t = {static_cast<const T *>(a), lda, trans, diag == CUBLAS_DIAG_UNIT};
    const bool lower = (uplo == CUBLAS_FILL_MODE_LOWER) == (trans == CUBLAS_OP_N);
    if (h->device != fake_cuda_device() || !fake_cuda_begin(h->stream, "cublas trsm", accesses, 3))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    std::memset(h->workspace, 0xff, h->bytes);
    for (int64_t j = 0; j < n; j++) solve(t, lower, m, *static_cast<const T *>(alpha), static_cast<T *>(b) + j * ldb);
    fake_cuda_end();
    return CUBLAS_STATUS_SUCCESS;
}

Handle *handle_of(cublasHandle_t handle) {
    return reinterpret_cast<Handle *>(handle);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    static Handle handles[64];
    static int made;
    if (made == 64) return CUBLAS_STATUS_ALLOC_FAILED;
    handles[made].device = fake_cuda_device();
    *handle = reinterpret_cast<cublasHandle_t>(&handles[made++]);
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    *handle_of(handle) = {handle_of(handle)->device, stream, nullptr, 0};
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(workspace) % 256) return CUBLAS_STATUS_INVALID_VALUE;
    handle_of(handle)->workspace = workspace;
    handle_of(handle)->bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

#define TRSM(letter, D, T)                                                                                             \
    EXPORT cublasStatus_t cublas##letter##trsm_v2(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, \
                                                  cublasOperation_t trans, cublasDiagType_t diag, int m, int n,        \
                                                  const D *alpha, const D *a, int lda, D *b, int ldb) {                \
        return trsm<T>(handle_of(handle), side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb);                       \
    }
TRSM(S, float, float)
TRSM(D, double, double)
TRSM(C, cuComplex, C)
TRSM(Z, cuDoubleComplex, Z)
