// libcublasLt for machines without a GPU: products by loops, in the terms of the real one: column-major, any of the four
// transpositions, batches, epilogues. What it does not know, it refuses.
#include <cublasLt.h>

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "cuda/device/kernel.h"
#include "fake_cuda.h"

namespace {

struct Operation {
    cublasOperation_t turned[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};

struct Layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t stride, batch_stride = 0;
    int32_t batch = 1;
};

// Handles are addresses of what they stand for.
template <class Handle, class Object>
cublasStatus_t make(Handle *handle, Object object) {
    *handle = reinterpret_cast<Handle>(new Object(object));
    return CUBLAS_STATUS_SUCCESS;
}
template <class Object, class Handle>
cublasStatus_t destroy(Handle handle) {
    delete reinterpret_cast<Object *>(handle);
    return CUBLAS_STATUS_SUCCESS;
}
// An attribute that is not among those known is refused.
cublasStatus_t set(std::initializer_list<std::pair<int, void *>> known, int attribute, const void *value, size_t size) {
    for (const auto &[name, field] : known) {
        if (name != attribute) continue;
        std::memcpy(field, value, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

amp_dtype dtype_of(cudaDataType type) {
    switch (type) {
    case CUDA_R_16F: return AMP_F16;
    case CUDA_R_16BF: return AMP_BF16;
    case CUDA_R_32F: return AMP_F32;
    case CUDA_C_32F: return AMP_C64;
    case CUDA_C_64F: return AMP_C128;
    default: return AMP_F64;
    }
}

template <class T>
T at(const void *data, const Layout &l, int64_t row, int64_t column, int32_t batch) {
    return load<T>(data, dtype_of(l.type), row + column * l.stride + batch * l.batch_stride);
}

double factor(const Operation &o, double x) {
    return o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? fake_tf32(x) : x;
}
complex128 factor(const Operation &o, complex128 x) {
    return {factor(o, x.re), factor(o, x.im)};
}

double gelu(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double finish(const Operation &o, double x, cudaDataType type, int64_t row) {
    const int bits = o.epilogue;
    if (bits & CUBLASLT_EPILOGUE_BIAS) x += load<double>(o.bias, dtype_of(type), row);
    if (bits & CUBLASLT_EPILOGUE_GELU) return gelu(x);
    return (bits & CUBLASLT_EPILOGUE_RELU) && x < 0 ? 0 : x;
}
complex128 finish(const Operation &, complex128 x, cudaDataType, int64_t) {
    return x;
}

// D = alpha · op(A)·op(B) + beta · C
struct Problem {
    const Operation &o;
    const Layout &la, &lb, &lc;
    const void *alpha, *a, *b, *beta, *c;
    void *d;
};
template <class T>
void multiply_out(const Problem &p) {
    const bool turned_a = p.o.turned[0] == CUBLAS_OP_T, turned_b = p.o.turned[1] == CUBLAS_OP_T;
    const auto k = int64_t(turned_a ? p.la.rows : p.la.columns);
    const amp_dtype scale = dtype_of(p.la.type == CUDA_R_16F || p.la.type == CUDA_R_16BF ? CUDA_R_32F : p.la.type);
    const T alpha = load<T>(p.alpha, scale, 0), beta = load<T>(p.beta, scale, 0);
    for (int32_t batch = 0; batch < p.lc.batch; batch++) {
        for (int64_t j = 0; j < int64_t(p.lc.columns); j++) {
            for (int64_t i = 0; i < int64_t(p.lc.rows); i++) {
                T sum = from_double<T>(0);
                for (int64_t l = 0; l < k; l++) {
                    const T x = turned_a ? at<T>(p.a, p.la, l, i, batch) : at<T>(p.a, p.la, i, l, batch);
                    const T y = turned_b ? at<T>(p.b, p.lb, j, l, batch) : at<T>(p.b, p.lb, l, j, batch);
                    sum = plus(sum, multiply(factor(p.o, x), factor(p.o, y)));
                }
                sum = multiply(sum, alpha);
                if (is_true(beta)) sum = plus(sum, multiply(beta, at<T>(p.c, p.lc, i, j, batch)));
                store<T>(p.d, dtype_of(p.lc.type), i + j * p.lc.stride + batch * p.lc.batch_stride,
                         finish(p.o, sum, p.lc.type, i));
            }
        }
    }
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    *handle = reinterpret_cast<cublasLtHandle_t>(uintptr_t(1));
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                               cudaDataType_t) {
    Operation operation;
    operation.compute = compute;
    return make(desc, operation);
}
EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    return destroy<Operation>(desc);
}
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                     size_t size) {
    auto *o = reinterpret_cast<Operation *>(desc);
    return set({{CUBLASLT_MATMUL_DESC_TRANSA, &o->turned[0]},
                {CUBLASLT_MATMUL_DESC_TRANSB, &o->turned[1]},
                {CUBLASLT_MATMUL_DESC_EPILOGUE, &o->epilogue},
                {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias}},
               attribute, value, size);
}
EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                                 uint64_t columns, int64_t stride) {
    if (stride < int64_t(rows)) return CUBLAS_STATUS_INVALID_VALUE;
    return make(layout, Layout{type, rows, columns, stride});
}
EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy<Layout>(layout);
}
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                       size_t size) {
    auto *l = reinterpret_cast<Layout *>(layout);
    return set({{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &l->batch},
                {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &l->batch_stride}},
               attribute, value, size);
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    *preference = reinterpret_cast<cublasLtMatmulPreference_t>(uintptr_t(1));
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) {
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                           cublasLtMatmulPreferenceAttributes_t, const void *, size_t) {
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                     cublasLtMatmulPreference_t, int,
                                                     cublasLtMatmulHeuristicResult_t results[], int *found) {
    *found = 0;
    fake_cuda()->heuristics++;
    const auto &o = *reinterpret_cast<Operation *>(desc);
    if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT && fake_cuda()->refuse_epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
    std::memset(&results[0], 0, sizeof results[0]);
    results[0].workspaceSize = 1024;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                                     cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                                     const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                     cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *workspace,
                                     size_t workspace_size, cudaStream_t) {
    const auto &o = *reinterpret_cast<Operation *>(desc);
    const auto &la = *reinterpret_cast<Layout *>(a_layout), &lb = *reinterpret_cast<Layout *>(b_layout);
    const auto &lc = *reinterpret_cast<Layout *>(c_layout);
    const bool turned_a = o.turned[0] == CUBLAS_OP_T, turned_b = o.turned[1] == CUBLAS_OP_T;
    const auto m = int64_t(turned_a ? la.columns : la.rows), k = int64_t(turned_a ? la.rows : la.columns);
    const auto n = int64_t(turned_b ? lb.rows : lb.columns), kb = int64_t(turned_b ? lb.columns : lb.rows);
    if (k != kb || m != int64_t(lc.rows) || n != int64_t(lc.columns)) return CUBLAS_STATUS_INVALID_VALUE;
    const bool complex = la.type == CUDA_C_32F || la.type == CUDA_C_64F;
    if (complex && o.epilogue != CUBLASLT_EPILOGUE_DEFAULT) return CUBLAS_STATUS_NOT_SUPPORTED;
    fake_cuda_open(true);
    if (workspace_size > 0) std::memset(workspace, 0xff, workspace_size);
    const Problem problem = {o, la, lb, lc, alpha, a, b, beta, c, d};
    complex ? multiply_out<complex128>(problem) : multiply_out<double>(problem);
    fake_cuda_open(false);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT size_t cublasLtGetVersion() {
    return CUBLAS_VERSION;
}
