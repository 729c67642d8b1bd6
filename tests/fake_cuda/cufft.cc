// libcufft for machines without a GPU: transforms by their definition, in the terms of the real one. What it does not
// know, it refuses. Only the work area that was asked for is given, and written over.
#include <cufft.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <vector>

#include "fake_cuda.h"

namespace {

struct Plan {
    int64_t n = 0, count = 0;
    cufftType type = CUFFT_C2C;
    bool allocates = true;
    cudaStream_t stream = nullptr;
    void *area = nullptr;
    int device = fake_cuda_device();
};
std::map<cufftHandle, Plan> plans;
constexpr size_t area_bytes = 512;

Plan *ready(cufftHandle handle, cufftType type) {
    const auto found = plans.find(handle);
    if (found == plans.end() || found->second.n == 0 || found->second.type != type) return nullptr;
    Plan &plan = found->second;
    if (plan.device != fake_cuda_device()) fake_cuda_complain("cuFFT: the plan is another device's");
    return plan.allocates || plan.device != fake_cuda_device() ? nullptr : &plan;
}

// Numbers of a line.
size_t length_of(cufftType type, int64_t n, bool in) {
    const bool half = in ? type == CUFFT_C2R || type == CUFFT_Z2D : type == CUFFT_R2C || type == CUFFT_D2Z;
    return size_t(half ? n / 2 + 1 : n);
}

template <class In, class Out>
bool begin(const Plan &plan, In *in, Out *out) {
    const auto lines = size_t(plan.count);
    const fake_access accesses[] = {fake_write(in, lines * length_of(plan.type, plan.n, true) * sizeof(In)),
                                    fake_write(out, lines * length_of(plan.type, plan.n, false) * sizeof(Out)),
                                    fake_write(plan.area, area_bytes)};
    if (uintptr_t(in) % 16 || uintptr_t(out) % 16 || uintptr_t(plan.area) % 256)
        return fake_cuda_complain("cuFFT: memory is not aligned");
    if (!fake_cuda_begin(plan.stream, "cuFFT", accesses, sizeof accesses / sizeof *accesses)) return false;
    std::memset(plan.area, 0xff, area_bytes);
    return true;
}

// out[k] = Σ in[j] · exp(sign · 2πi · jk / n), of lines one after the other: `given` numbers of each in, `made` of them
// out.
template <class In, class Out, class Read, class Write>
cufftResult transform(cufftHandle handle, cufftType type, In *in, Out *out, int sign, Read read, Write write) {
    const Plan *plan = ready(handle, type);
    if (!plan) return CUFFT_INVALID_PLAN;
    if (!begin(*plan, in, out)) return CUFFT_EXEC_FAILED;
    for (int64_t line = 0; line < plan->count; line++) {
        const int64_t n = plan->n;
        std::vector<std::complex<double>> x(static_cast<size_t>(n));
        for (int64_t j = 0; j < n; j++) x[static_cast<size_t>(j)] = read(in, line, j, n);
        for (int64_t k = 0; k < n; k++) {
            std::complex<double> sum = 0;
            for (int64_t j = 0; j < n; j++) {
                const double angle = sign * 2 * M_PI * double(j * k % n) / double(n);
                sum += x[static_cast<size_t>(j)] * std::complex<double>(std::cos(angle), std::sin(angle));
            }
            write(out, line, k, n, sum);
        }
    }
    fake_cuda_end();
    return CUFFT_SUCCESS;
}

template <class Complex>
std::complex<double> read_complex(Complex *in, int64_t line, int64_t j, int64_t n) {
    return {in[line * n + j].x, in[line * n + j].y};
}
template <class Complex>
void write_complex(Complex *out, int64_t line, int64_t k, int64_t n, std::complex<double> x) {
    out[line * n + k].x = static_cast<decltype(out->x)>(x.real());
    out[line * n + k].y = static_cast<decltype(out->y)>(x.imag());
}
template <class Real>
std::complex<double> read_real(Real *in, int64_t line, int64_t j, int64_t n) {
    return in[line * n + j];
}
template <class Complex>
void write_half(Complex *out, int64_t line, int64_t k, int64_t n, std::complex<double> x) {
    if (k <= n / 2) write_complex(out + line * (n / 2 + 1), 0, k, n, x);
}
// The other half mirrors it; the imaginary parts of numbers that are their own mirror do not count.
template <class Complex>
std::complex<double> read_half(Complex *in, int64_t line, int64_t j, int64_t n) {
    const std::complex<double> x = read_complex(in + line * (n / 2 + 1), 0, j <= n / 2 ? j : n - j, n);
    if (j == 0 || 2 * j == n) return x.real();
    return j <= n / 2 ? x : std::conj(x);
}
template <class Real>
void write_real(Real *out, int64_t line, int64_t k, int64_t n, std::complex<double> x) {
    out[line * n + k] = static_cast<Real>(x.real());
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT cufftResult cufftCreate(cufftHandle *handle) {
    static cufftHandle next = 1;
    *handle = next++;
    plans[*handle] = Plan();
    return CUFFT_SUCCESS;
}
EXPORT cufftResult cufftDestroy(cufftHandle handle) {
    return plans.erase(handle) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}
EXPORT cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates) {
    plans.at(handle).allocates = allocates != 0;
    return CUFFT_SUCCESS;
}
EXPORT cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *in_shape, long long,
                                       long long, long long *out_shape, long long, long long, cufftType type,
                                       long long count, size_t *area) {
    if (rank != 1 || in_shape || out_shape || *n < 1 || count < 1) return CUFFT_INVALID_VALUE;
    if (!fake_cuda_has_room(fake_cuda()->library_bytes)) return CUFFT_ALLOC_FAILED;
    Plan &plan = plans.at(handle);
    plan.n = *n;
    plan.count = count;
    plan.type = type;
    *area = area_bytes;
    return CUFFT_SUCCESS;
}
EXPORT cufftResult cufftSetWorkArea(cufftHandle handle, void *area) {
    plans.at(handle).area = area;
    return CUFFT_SUCCESS;
}
EXPORT cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
    plans.at(handle).stream = stream;
    return CUFFT_SUCCESS;
}
EXPORT cufftResult cufftExecC2C(cufftHandle handle, cufftComplex *in, cufftComplex *out, int direction) {
    return transform(handle, CUFFT_C2C, in, out, direction, read_complex<cufftComplex>, write_complex<cufftComplex>);
}
EXPORT cufftResult cufftExecZ2Z(cufftHandle handle, cufftDoubleComplex *in, cufftDoubleComplex *out, int direction) {
    return transform(handle, CUFFT_Z2Z, in, out, direction, read_complex<cufftDoubleComplex>,
                     write_complex<cufftDoubleComplex>);
}
EXPORT cufftResult cufftExecR2C(cufftHandle handle, cufftReal *in, cufftComplex *out) {
    return transform(handle, CUFFT_R2C, in, out, CUFFT_FORWARD, read_real<cufftReal>, write_half<cufftComplex>);
}
EXPORT cufftResult cufftExecD2Z(cufftHandle handle, cufftDoubleReal *in, cufftDoubleComplex *out) {
    return transform(handle, CUFFT_D2Z, in, out, CUFFT_FORWARD, read_real<cufftDoubleReal>,
                     write_half<cufftDoubleComplex>);
}
EXPORT cufftResult cufftExecC2R(cufftHandle handle, cufftComplex *in, cufftReal *out) {
    return transform(handle, CUFFT_C2R, in, out, CUFFT_INVERSE, read_half<cufftComplex>, write_real<cufftReal>);
}
EXPORT cufftResult cufftExecZ2D(cufftHandle handle, cufftDoubleComplex *in, cufftDoubleReal *out) {
    return transform(handle, CUFFT_Z2D, in, out, CUFFT_INVERSE, read_half<cufftDoubleComplex>,
                     write_real<cufftDoubleReal>);
}

EXPORT cufftResult cufftGetVersion(int *version) {
    *version = CUFFT_VERSION;
    return CUFFT_SUCCESS;
}
