// libcusolver for machines without a GPU: LAPACK on the host, in the terms of the real one. Workspaces are overwritten,
// and those that are too small or not of the pools are refused. A handle is its device's; matrices must have their
// memory, and the stream its turn with it.
#include <cusolverDn.h>

#include <dlfcn.h>

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
#define ROUTINES(T, R, letter, orthogonal, symmetric, other)                                                           \
    int ormqr(char side, bool turned, int m, int n, int k, const T *a, int lda, const T *tau, T *c, int ldc) {         \
        return LAPACKE_##orthogonal##mqr(LAPACK_COL_MAJOR, side, turned ? other : 'N', m, n, k, a, lda, tau, c, ldc);  \
    }                                                                                                                  \
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
ROUTINES(float, float, s, sor, ssy, 'T')
ROUTINES(double, double, d, dor, dsy, 'T')
ROUTINES(C, float, c, cun, che, 'C')
ROUTINES(Z, double, z, zun, zhe, 'C')

// Values complex; vectors of a real matrix packed.
#define REAL_GEEV(R, letter)                                                                                           \
    int geev(char job, int n, R *a, int lda, std::complex<R> *w, R *v, int ldv) {                                      \
        std::vector<R> re(static_cast<size_t>(n)), im(static_cast<size_t>(n));                                         \
        const int info =                                                                                               \
            LAPACKE_##letter##geev(LAPACK_COL_MAJOR, 'N', job, n, a, lda, re.data(), im.data(), nullptr, 1, v, ldv);   \
        for (size_t i = 0; i < re.size(); i++) w[i] = {re[i], im[i]};                                                  \
        return info;                                                                                                   \
    }
#define COMPLEX_GEEV(T, letter)                                                                                        \
    int geev(char job, int n, T *a, int lda, T *w, T *v, int ldv) {                                                    \
        return LAPACKE_##letter##geev(LAPACK_COL_MAJOR, 'N', job, n, a, lda, w, nullptr, 1, v, ldv);                   \
    }
REAL_GEEV(float, s)
REAL_GEEV(double, d)
COMPLEX_GEEV(C, c)
COMPLEX_GEEV(Z, z)

template <class T>
T conjugate(T x) {
    return x;
}
template <class R>
std::complex<R> conjugate(std::complex<R> x) {
    return std::conj(x);
}

struct Handle {
    int device;
    cudaStream_t stream;
};

size_t size_of(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : type == CUDA_C_64F ? 16 : 8;
}
// A column-major matrix.
fake_access matrix(cudaDataType type, const void *a, int64_t rows, int64_t columns, int64_t lda, bool writes = true) {
    const bool none = rows == 0 || columns == 0;
    const fake_access refused = {nullptr, 1, writes};
    if (!none && lda < rows && !fake_cuda_complain("cuSOLVER: the columns of a matrix overlap")) return refused;
    if (uintptr_t(a) % size_of(type) && !fake_cuda_complain("cuSOLVER: a matrix is not aligned")) return refused;
    return {a, none ? 0 : size_t((columns - 1) * lda + rows) * size_of(type), writes};
}
fake_access numbers(const void *a, int64_t count, size_t size, bool writes = true) {
    return {a, size_t(count) * size, writes};
}

// LAPACK on one thread meanwhile: OpenBLAS's threads wait for each other, and for ever where OpenMP gives it fewer than
// it asked for.
class OneThread {
  public:
    OneThread() {
        if (most_ && set_) before_ = most_();
        if (before_ > 0) set_(1);
    }
    ~OneThread() {
        if (before_ > 0) set_(before_);
    }
    OneThread(const OneThread &) = delete;
    OneThread &operator=(const OneThread &) = delete;

  private:
    int (*const most_)() = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    void (*const set_)(int) = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    int before_ = 0;
};

// Runs `body` with a null pointer of the type that `type` names, while device memory may be touched.
template <class Body>
cusolverStatus_t with_type(cusolverDnHandle_t handle, cudaDataType type, std::vector<fake_access> accesses, int *info,
                           Body body) {
    const auto *h = reinterpret_cast<const Handle *>(handle);
    // NaN is computed with, as on the device.
    static const bool unchecked = (LAPACKE_set_nancheck(0), true);
    (void)unchecked;
    const OneThread one_thread;
    fake_cuda()->factors++;
    if (const int failure = fake_take_factor_failure(fake_cuda())) return static_cast<cusolverStatus_t>(failure);
    accesses.push_back(fake_write(info, sizeof *info));
    if (h->device != fake_cuda_device() || !fake_cuda_begin(h->stream, "cuSOLVER", accesses.data(), accesses.size()))
        return CUSOLVER_STATUS_EXECUTION_FAILED;
    cusolverStatus_t status = CUSOLVER_STATUS_SUCCESS;
    switch (type) {
    case CUDA_R_32F: body(static_cast<float *>(nullptr)); break;
    case CUDA_R_64F: body(static_cast<double *>(nullptr)); break;
    case CUDA_C_32F: body(static_cast<C *>(nullptr)); break;
    case CUDA_C_64F: body(static_cast<Z *>(nullptr)); break;
    default: status = CUSOLVER_STATUS_NOT_SUPPORTED;
    }
    fake_cuda_end();
    return status;
}

// The rooms that a routine was given.
struct Room {
    void *device;
    size_t device_size;
    void *host;
    size_t host_size;

    bool is_enough() const {
        return device && device_size >= fake_cuda()->factor_device && host && host_size >= fake_cuda()->factor_host;
    }
    fake_access access() const {
        return fake_write(device, device_size);
    }
    void write() const {
        std::memset(device, 0xff, device_size);
        std::memset(host, 0xff, host_size);
    }
};
cusolverStatus_t give_room(size_t *device, size_t *host) {
    *device = fake_cuda()->factor_device;
    *host = fake_cuda()->factor_host;
    return CUSOLVER_STATUS_SUCCESS;
}
char letter_of(cublasFillMode_t uplo) {
    return uplo == CUBLAS_FILL_MODE_UPPER ? 'U' : 'L';
}

template <class T>
cusolverStatus_t make_q(cusolverDnHandle_t handle, cudaDataType type, int m, int n, int k, void *a, int lda,
                        const void *tau, void *work, int room, int *info) {
    if (room < elements || m < n || n < k) return CUSOLVER_STATUS_INVALID_VALUE;
    const std::vector<fake_access> accesses = {matrix(type, a, m, n, lda), numbers(tau, k, sizeof(T), false),
                                               numbers(work, room, sizeof(T))};
    return with_type(handle, type, accesses, info, [=](auto) {
        std::memset(work, 0xff, size_t(room) * sizeof(T));
        *info = orgqr(m, n, k, static_cast<T *>(a), lda, const_cast<T *>(static_cast<const T *>(tau)));
    });
}

// What a real matrix has for op(Q) is Qᵀ, what a complex one has is Qᴴ.
template <class T>
cusolverStatus_t multiply_by_q(cusolverDnHandle_t handle, cudaDataType type, cublasSideMode_t side,
                               cublasOperation_t trans, int m, int n, int k, const void *a, int lda, const void *tau,
                               void *c, int ldc, void *work, int room, int *info) {
    const bool is_complex = type == CUDA_C_32F || type == CUDA_C_64F, left = side == CUBLAS_SIDE_LEFT;
    if (trans != CUBLAS_OP_N && trans != (is_complex ? CUBLAS_OP_C : CUBLAS_OP_T)) return CUSOLVER_STATUS_INVALID_VALUE;
    if (room < elements || k > (left ? m : n) || lda < (left ? m : n) || ldc < m) return CUSOLVER_STATUS_INVALID_VALUE;
    const std::vector<fake_access> accesses = {matrix(type, a, left ? m : n, k, lda, false),
                                               numbers(tau, k, sizeof(T), false), matrix(type, c, m, n, ldc),
                                               numbers(work, room, sizeof(T))};
    return with_type(handle, type, accesses, info, [=](auto) {
        std::memset(work, 0xff, size_t(room) * sizeof(T));
        *info = ormqr(left ? 'L' : 'R', trans != CUBLAS_OP_N, m, n, k, static_cast<const T *>(a), lda,
                      static_cast<const T *>(tau), static_cast<T *>(c), ldc);
    });
}

template <class T, class R>
cusolverStatus_t decompose(cusolverDnHandle_t handle, cudaDataType type, cusolverEigMode_t mode, int econ, int m, int n,
                           void *a, int lda, void *s, void *u, int ldu, void *v, int ldv, void *work, int room,
                           int *info) {
    const bool vectors = mode == CUSOLVER_EIG_MODE_VECTOR;
    if (room < elements || ldu < m || ldv < n) return CUSOLVER_STATUS_INVALID_VALUE;
    const int least = std::min(m, n);
    std::vector<fake_access> accesses = {matrix(type, a, m, n, lda), numbers(s, least, sizeof(R)),
                                         numbers(work, room, sizeof(T))};
    if (vectors) {
        accesses.push_back(matrix(type, u, m, econ ? least : m, ldu));
        accesses.push_back(matrix(type, v, n, econ ? least : n, ldv));
    }
    return with_type(handle, type, accesses, info, [=](auto) {
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
    if (fake_cuda_device() < 0) return CUSOLVER_STATUS_NOT_INITIALIZED;
    *handle = reinterpret_cast<cusolverDnHandle_t>(new Handle{fake_cuda_device(), nullptr});
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
EXPORT cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
    reinterpret_cast<Handle *>(handle)->stream = stream;
    return stream ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

EXPORT cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cublasFillMode_t, int64_t,
                                                    cudaDataType, const void *, int64_t, cudaDataType, size_t *device,
                                                    size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t uplo,
                                         int64_t n, cudaDataType type, void *a, int64_t lda, cudaDataType, void *device,
                                         size_t device_size, void *host, size_t host_size, int *info) {
    const Room room = {device, device_size, host, host_size};
    if (!room.is_enough()) return CUSOLVER_STATUS_INVALID_VALUE;
    return with_type(handle, type, {matrix(type, a, n, n, lda), room.access()}, info, [=](auto t) {
        room.write();
        *info = potrf(letter_of(uplo), int(n), static_cast<decltype(t)>(a), int(lda));
    });
}
EXPORT cusolverStatus_t cusolverDnXpotrs(cusolverDnHandle_t handle, cusolverDnParams_t, cublasFillMode_t uplo,
                                         int64_t n, int64_t k, cudaDataType type, const void *a, int64_t lda,
                                         cudaDataType, void *b, int64_t ldb, int *info) {
    const std::vector<fake_access> accesses = {matrix(type, a, n, n, lda, false), matrix(type, b, n, k, ldb)};
    return with_type(handle, type, accesses, info, [=](auto t) {
        *info = potrs(letter_of(uplo), int(n), int(k), static_cast<decltype(t)>(const_cast<void *>(a)), int(lda),
                      static_cast<decltype(t)>(b), int(ldb));
    });
}

EXPORT cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t,
                                                    cudaDataType, const void *, int64_t, cudaDataType, size_t *device,
                                                    size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t handle, cusolverDnParams_t, int64_t m, int64_t n,
                                         cudaDataType type, void *a, int64_t lda, int64_t *pivots, cudaDataType,
                                         void *device, size_t device_size, void *host, size_t host_size, int *info) {
    const Room room = {device, device_size, host, host_size};
    if (!pivots || !room.is_enough()) return CUSOLVER_STATUS_INVALID_VALUE;
    const std::vector<fake_access> accesses = {matrix(type, a, m, n, lda), room.access(),
                                               numbers(pivots, std::min(m, n), sizeof *pivots)};
    return with_type(handle, type, accesses, info, [=](auto t) {
        room.write();
        std::vector<int> narrow(size_t(std::min(m, n)));
        *info = getrf(int(m), int(n), static_cast<decltype(t)>(a), int(lda), narrow.data());
        for (size_t i = 0; i < narrow.size(); i++) pivots[i] = narrow[i];
    });
}
EXPORT cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t handle, cusolverDnParams_t, cublasOperation_t trans,
                                         int64_t n, int64_t k, cudaDataType type, const void *a, int64_t lda,
                                         const int64_t *pivots, cudaDataType, void *b, int64_t ldb, int *info) {
    const std::vector<fake_access> accesses = {matrix(type, a, n, n, lda, false), matrix(type, b, n, k, ldb),
                                               numbers(pivots, n, sizeof *pivots, false)};
    return with_type(handle, type, accesses, info, [=](auto t) {
        const std::vector<int> narrow(pivots, pivots + n);
        *info = getrs(trans == CUBLAS_OP_C   ? 'C'
                      : trans == CUBLAS_OP_T ? 'T'
                                             : 'N',
                      int(n), int(k), static_cast<decltype(t)>(const_cast<void *>(a)), int(lda), narrow.data(),
                      static_cast<decltype(t)>(b), int(ldb));
    });
}

EXPORT cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, int64_t, int64_t,
                                                    cudaDataType, const void *, int64_t, cudaDataType, const void *,
                                                    cudaDataType, size_t *device, size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t, int64_t m, int64_t n,
                                         cudaDataType type, void *a, int64_t lda, cudaDataType, void *tau, cudaDataType,
                                         void *device, size_t device_size, void *host, size_t host_size, int *info) {
    const Room room = {device, device_size, host, host_size};
    if (!room.is_enough()) return CUSOLVER_STATUS_INVALID_VALUE;
    const std::vector<fake_access> accesses = {matrix(type, a, m, n, lda), room.access(),
                                               numbers(tau, std::min(m, n), size_of(type))};
    return with_type(handle, type, accesses, info, [=](auto t) {
        room.write();
        *info = geqrf(int(m), int(n), static_cast<decltype(t)>(a), int(lda), static_cast<decltype(t)>(tau));
    });
}

EXPORT cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                                    cublasFillMode_t, int64_t, cudaDataType, const void *, int64_t,
                                                    cudaDataType, const void *, cudaDataType, size_t *device,
                                                    size_t *host) {
    return give_room(device, host);
}
EXPORT cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t mode,
                                         cublasFillMode_t uplo, int64_t n, cudaDataType type, void *a, int64_t lda,
                                         cudaDataType, void *w, cudaDataType, void *device, size_t device_size,
                                         void *host, size_t host_size, int *info) {
    const Room room = {device, device_size, host, host_size};
    if (!room.is_enough()) return CUSOLVER_STATUS_INVALID_VALUE;
    const size_t real = type == CUDA_R_32F || type == CUDA_C_32F ? 4 : 8;
    return with_type(handle, type, {matrix(type, a, n, n, lda), room.access(), numbers(w, n, real)}, info, [=](auto t) {
        room.write();
        using R = std::remove_reference_t<decltype(std::abs(*t))>;
        *info = syevd(mode == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N', letter_of(uplo), int(n),
                      static_cast<decltype(t)>(a), int(lda), static_cast<R *>(w));
    });
}

#ifndef AMP_FAKE_WITHOUT_GEEV // as before CUDA 12.6
EXPORT cusolverStatus_t cusolverDnXgeev_bufferSize(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t left,
                                                   cusolverEigMode_t, int64_t, cudaDataType, const void *, int64_t,
                                                   cudaDataType, const void *, cudaDataType, const void *, int64_t,
                                                   cudaDataType, const void *, int64_t, cudaDataType, size_t *device,
                                                   size_t *host) {
    return left == CUSOLVER_EIG_MODE_NOVECTOR ? give_room(device, host) : CUSOLVER_STATUS_INVALID_VALUE;
}
EXPORT cusolverStatus_t cusolverDnXgeev(cusolverDnHandle_t handle, cusolverDnParams_t, cusolverEigMode_t left,
                                        cusolverEigMode_t right, int64_t n, cudaDataType type, void *a, int64_t lda,
                                        cudaDataType w_type, void *w, cudaDataType vl_type, void *, int64_t,
                                        cudaDataType v_type, void *v, int64_t ldv, cudaDataType compute, void *device,
                                        size_t device_size, void *host, size_t host_size, int *info) {
    const bool single = type == CUDA_R_32F || type == CUDA_C_32F;
    if (left != CUSOLVER_EIG_MODE_NOVECTOR || w_type != (single ? CUDA_C_32F : CUDA_C_64F) || vl_type != type ||
        v_type != type || compute != type || ldv < n)
        return CUSOLVER_STATUS_INVALID_VALUE;
    const Room room = {device, device_size, host, host_size};
    if (!room.is_enough()) return CUSOLVER_STATUS_INVALID_VALUE;
    std::vector<fake_access> accesses = {matrix(type, a, n, n, lda), room.access(), numbers(w, n, single ? 8 : 16)};
    if (right == CUSOLVER_EIG_MODE_VECTOR) accesses.push_back(matrix(type, v, n, n, ldv));
    return with_type(handle, type, accesses, info, [=](auto t) {
        room.write();
        using Complex = std::complex<std::remove_reference_t<decltype(std::abs(*t))>>;
        *info = geev(right == CUSOLVER_EIG_MODE_VECTOR ? 'V' : 'N', int(n), static_cast<decltype(t)>(a), int(lda),
                     static_cast<Complex *>(w), static_cast<decltype(t)>(v), int(ldv));
    });
}
#endif

// One function for each type.
#define TYPED(mqr, q, svd, T, R, D, S, type)                                                                           \
    EXPORT cusolverStatus_t cusolverDn##q##_bufferSize(cusolverDnHandle_t, int, int, int, const D *, int, const D *,   \
                                                       int *room) {                                                    \
        *room = elements;                                                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##q(cusolverDnHandle_t handle, int m, int n, int k, D *a, int lda, const D *tau, \
                                          D *work, int room, int *info) {                                              \
        return make_q<T>(handle, type, m, n, k, a, lda, tau, work, room, info);                                        \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##mqr##_bufferSize(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, \
                                                         int, int, const D *, int, const D *, const D *, int,          \
                                                         int *room) {                                                  \
        *room = elements;                                                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##mqr(cusolverDnHandle_t handle, cublasSideMode_t side, cublasOperation_t trans, \
                                            int m, int n, int k, const D *a, int lda, const D *tau, D *c, int ldc,     \
                                            D *work, int room, int *info) {                                            \
        return multiply_by_q<T>(handle, type, side, trans, m, n, k, a, lda, tau, c, ldc, work, room, info);            \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##svd##_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, int, int, int,         \
                                                         const D *, int, const S *, const D *, int, const D *, int,    \
                                                         int *room, gesvdjInfo_t) {                                    \
        *room = elements;                                                                                              \
        return CUSOLVER_STATUS_SUCCESS;                                                                                \
    }                                                                                                                  \
    EXPORT cusolverStatus_t cusolverDn##svd(cusolverDnHandle_t handle, cusolverEigMode_t mode, int econ, int m, int n, \
                                            D *a, int lda, S *s, D *u, int ldu, D *v, int ldv, D *work, int room,      \
                                            int *info, gesvdjInfo_t) {                                                 \
        return decompose<T, R>(handle, type, mode, econ, m, n, a, lda, s, u, ldu, v, ldv, work, room, info);           \
    }
TYPED(Sormqr, Sorgqr, Sgesvdj, float, float, float, float, CUDA_R_32F)
TYPED(Dormqr, Dorgqr, Dgesvdj, double, double, double, double, CUDA_R_64F)
TYPED(Cunmqr, Cungqr, Cgesvdj, C, float, cuComplex, float, CUDA_C_32F)
TYPED(Zunmqr, Zungqr, Zgesvdj, Z, double, cuDoubleComplex, double, CUDA_C_64F)

EXPORT cusolverStatus_t cusolverGetVersion(int *version) {
    *version = CUSOLVER_VERSION;
    return CUSOLVER_STATUS_SUCCESS;
}
