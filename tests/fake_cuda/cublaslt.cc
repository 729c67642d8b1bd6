// libcublasLt for machines without a GPU: products by loops, in the terms of the real one: column-major, any of the
// four transpositions, batches, epilogues. What it does not know, it refuses; what the real one would take and compute
// nonsense of, or read where it must not, it complains of: handles of another device, types that do not go together,
// addresses less aligned than the heuristics were told, workspaces that are too small, matrices that are larger than
// their memory.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "cuda/kernels/kernel.h"
#include "fake_cuda.h"

namespace {

struct Operation {
    cublasOperation_t turned[2] = {CUBLAS_OP_N, CUBLAS_OP_N};
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    cudaDataType_t scale = CUDA_R_32F;
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t aligned[4] = {256, 256, 256, 256};           // A, B, C, D
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK; // any of them, unless it is told otherwise
};

// What the heuristics promise.
struct Algorithm {
    uint32_t magic, aligned[4];
    size_t workspace;
    int parts; // of the sums, each rounded to the result's type before they are added up
};
constexpr uint32_t magic = 0x616c676f;
constexpr size_t bias_aligned = 16; // it cannot be told of one that is aligned less

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
// An attribute that is not among those known, or of another size, is refused.
struct Attribute {
    int name;
    void *field;
    size_t size;
};
template <class T>
Attribute attribute(int name, T *field) {
    return {name, field, sizeof *field};
}
cublasStatus_t set(std::initializer_list<Attribute> known, int name, const void *value, size_t size) {
    for (const Attribute &a : known) {
        if (name != a.name || size != a.size) continue;
        std::memcpy(a.field, value, size);
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
    return (bits & CUBLASLT_EPILOGUE_RELU) && !(x > 0) ? 0 : x; // of NaN too
}
complex128 finish(const Operation &, complex128 x, cudaDataType, int64_t) {
    return x;
}

// ---- What the real one relies on -----------------------------------------------------------------------------------

size_t size_of(cudaDataType type) {
    switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F: return 4;
    case CUDA_C_64F: return 16;
    default: return 8;
    }
}

// The types that it multiplies: its manual's table, as far as it is used.
bool goes_together(const Operation &o, const Layout &a, const Layout &b, const Layout &c) {
    static const struct {
        cudaDataType in, out, scale;
        bool wide;
    } rows[] = {{CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, false},   {CUDA_R_16F, CUDA_R_32F, CUDA_R_32F, false},
                {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, false}, {CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F, false},
                {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, false},   {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, true},
                {CUDA_C_32F, CUDA_C_32F, CUDA_C_32F, false},   {CUDA_C_64F, CUDA_C_64F, CUDA_C_64F, true}};
    const bool tf32 = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if (tf32 && a.type != CUDA_R_32F && a.type != CUDA_C_32F) return false;
    for (const auto &row : rows) {
        const bool compute = row.wide ? o.compute == CUBLAS_COMPUTE_64F : tf32 || o.compute == CUBLAS_COMPUTE_32F;
        if (row.in == a.type && row.in == b.type && row.out == c.type && row.scale == o.scale && compute) return true;
    }
    return false;
}

bool has_epilogue(cudaDataType in, cublasLtEpilogue_t epilogue) {
    return epilogue == CUBLASLT_EPILOGUE_DEFAULT || in == CUDA_R_16F || in == CUDA_R_16BF || in == CUDA_R_32F;
}

size_t bytes_of(const Layout &l) {
    const uint64_t last = uint64_t(l.batch - 1) * uint64_t(l.batch_stride) + (l.columns - 1) * uint64_t(l.stride);
    return size_t(last + l.rows) * size_of(l.type);
}

bool is_aligned(const void *memory, size_t bytes) {
    return uintptr_t(memory) % bytes == 0;
}

// D = alpha · op(A)·op(B) + beta · C
struct Problem {
    const Operation &o;
    const Layout &la, &lb, &lc;
    const void *alpha, *a, *b, *beta, *c;
    void *d;
};

bool may_run(const Problem &p, const Algorithm &algorithm, void *workspace, size_t size, cudaStream_t stream) {
    const void *const operands[] = {p.a, p.b, p.c, p.d};
    if (algorithm.magic != magic) return fake_cuda_complain("cublasLtMatmul was given no algorithm of the heuristics");
    for (int i = 0; i < 4; i++) {
        if (!is_aligned(operands[i], algorithm.aligned[i]))
            return fake_cuda_complain("cublasLtMatmul: operand %d is less aligned than the heuristics were told", i);
    }
    if (size < algorithm.workspace || !is_aligned(workspace, 256))
        return fake_cuda_complain("cublasLtMatmul: the workspace is too small or not aligned");
    if (p.lc.batch > 1 && p.lc.batch_stride < int64_t(p.lc.rows))
        return fake_cuda_complain("cublasLtMatmul: results of a batch overlap");
    const bool bias = (p.o.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    if (bias && !is_aligned(p.o.bias, bias_aligned)) {
        fake_cuda_lose();
        return fake_cuda_complain("cublasLtMatmul: the bias is not aligned");
    }
    const fake_access accesses[] = {fake_read(p.a, bytes_of(p.la)), fake_read(p.b, bytes_of(p.lb)),
                                    fake_write(p.d, bytes_of(p.lc)), fake_write(workspace, size),
                                    fake_read(p.o.bias, bias ? p.lc.rows * size_of(p.lc.type) : 0)};
    return fake_cuda_begin(stream, "cublasLtMatmul", accesses, sizeof accesses / sizeof *accesses);
}

double rounded(double x, amp_dtype dtype) {
    uint64_t memory = 0;
    store<double>(&memory, dtype, 0, x);
    return load<double>(&memory, dtype, 0);
}
complex128 rounded(complex128 x, amp_dtype) {
    return x;
}

template <class T>
void multiply_out(const Problem &p, int parts) {
    const bool turned_a = p.o.turned[0] == CUBLAS_OP_T, turned_b = p.o.turned[1] == CUBLAS_OP_T;
    const auto k = int64_t(turned_a ? p.la.rows : p.la.columns);
    const amp_dtype scale = dtype_of(p.la.type == CUDA_R_16F || p.la.type == CUDA_R_16BF ? CUDA_R_32F : p.la.type);
    const T alpha = load<T>(p.alpha, scale, 0), beta = load<T>(p.beta, scale, 0);
    for (int32_t batch = 0; batch < p.lc.batch; batch++) {
        for (int64_t j = 0; j < int64_t(p.lc.columns); j++) {
            for (int64_t i = 0; i < int64_t(p.lc.rows); i++) {
                T sum = from_double<T>(0), before = sum;
                for (int64_t l = 0; l < k; l++) {
                    if (parts > 1 && l == k / parts)
                        before = rounded(sum, dtype_of(p.lc.type)), sum = from_double<T>(0);
                    const T x = turned_a ? at<T>(p.a, p.la, l, i, batch) : at<T>(p.a, p.la, i, l, batch);
                    const T y = turned_b ? at<T>(p.b, p.lb, j, l, batch) : at<T>(p.b, p.lb, l, j, batch);
                    sum = plus(sum, multiply(factor(p.o, x), factor(p.o, y)));
                }
                if (parts > 1) sum = rounded(plus(before, rounded(sum, dtype_of(p.lc.type))), dtype_of(p.lc.type));
                sum = multiply(sum, alpha);
                if (is_true(beta)) sum = plus(sum, multiply(beta, at<T>(p.c, p.lc, i, j, batch)));
                store<T>(p.d, dtype_of(p.lc.type), i + j * p.lc.stride + batch * p.lc.batch_stride,
                         finish(p.o, sum, p.lc.type, i));
            }
        }
    }
}

// The heuristic knows so many algorithms, which differ in the workspace that they must be given.
constexpr int algorithms = 3;
constexpr size_t workspaces[algorithms] = {1024, 0, 4096};

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// A handle is its device's.
EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    if (fake_cuda_device() < 0) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = reinterpret_cast<cublasLtHandle_t>(uintptr_t(fake_cuda_device() + 1));
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
    Operation operation;
    operation.compute = compute;
    operation.scale = scale;
    return make(desc, operation);
}
EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    return destroy<Operation>(desc);
}
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                                     const void *value, size_t size) {
    auto *o = reinterpret_cast<Operation *>(desc);
    return set({attribute(CUBLASLT_MATMUL_DESC_TRANSA, &o->turned[0]),
                attribute(CUBLASLT_MATMUL_DESC_TRANSB, &o->turned[1]),
                attribute(CUBLASLT_MATMUL_DESC_EPILOGUE, &o->epilogue),
                attribute(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias)},
               name, value, size);
}
EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                                 uint64_t columns, int64_t stride) {
    if (stride < int64_t(rows) || rows == 0 || columns == 0) return CUBLAS_STATUS_INVALID_VALUE;
    return make(layout, Layout{type, rows, columns, stride});
}
EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    return destroy<Layout>(layout);
}
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                       cublasLtMatrixLayoutAttribute_t name, const void *value,
                                                       size_t size) {
    auto *l = reinterpret_cast<Layout *>(layout);
    return set({attribute(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &l->batch),
                attribute(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &l->batch_stride)},
               name, value, size);
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    return make(preference, Preference());
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy<Preference>(preference);
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                           cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                           size_t size) {
    auto *p = reinterpret_cast<Preference *>(preference);
    return set({attribute(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->workspace),
                attribute(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &p->reductions),
                attribute(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &p->aligned[0]),
                attribute(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &p->aligned[1]),
                attribute(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &p->aligned[2]),
                attribute(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &p->aligned[3])},
               name, value, size);
}
EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                                     cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                                     cublasLtMatmulPreference_t preference, int wanted,
                                                     cublasLtMatmulHeuristicResult_t results[], int *found) {
    *found = 0;
    fake_cuda()->heuristics++;
    const auto &o = *reinterpret_cast<Operation *>(desc);
    const auto &wish = *reinterpret_cast<Preference *>(preference);
    if (handle != reinterpret_cast<cublasLtHandle_t>(uintptr_t(fake_cuda_device() + 1)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!goes_together(o, *reinterpret_cast<Layout *>(a), *reinterpret_cast<Layout *>(b),
                       *reinterpret_cast<Layout *>(c))) {
        fake_cuda_complain("cublasLtMatmulAlgoGetHeuristic: types that do not go together");
        return CUBLAS_STATUS_INTERNAL_ERROR;
    }
    if (!has_epilogue(reinterpret_cast<Layout *>(a)->type, o.epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o.epilogue != CUBLASLT_EPILOGUE_DEFAULT && fake_cuda()->refuse_epilogues) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (; *found < wanted && *found < algorithms; ++*found) {
        cublasLtMatmulHeuristicResult_t &result = results[*found];
        std::memset(&result, 0, sizeof result);
        const bool splits =
            size_of(reinterpret_cast<Layout *>(c)->type) == 2 &&
            (wish.reductions & (CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE | CUBLASLT_REDUCTION_SCHEME_INPLACE));
        Algorithm algorithm = {magic, {}, std::min(size_t(wish.workspace), workspaces[*found]), splits ? 2 : 1};
        std::memcpy(algorithm.aligned, wish.aligned, sizeof algorithm.aligned);
        static_assert(sizeof algorithm <= sizeof result.algo, "it is kept there");
        std::memcpy(&result.algo, &algorithm, sizeof algorithm);
        result.workspaceSize = algorithm.workspace;
    }
    return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                                     const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                                     cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                     cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_size,
                                     cudaStream_t stream) {
    const auto &o = *reinterpret_cast<Operation *>(desc);
    const auto &la = *reinterpret_cast<Layout *>(a_layout), &lb = *reinterpret_cast<Layout *>(b_layout);
    const auto &lc = *reinterpret_cast<Layout *>(c_layout);
    const bool turned_a = o.turned[0] == CUBLAS_OP_T, turned_b = o.turned[1] == CUBLAS_OP_T;
    const auto m = int64_t(turned_a ? la.columns : la.rows), k = int64_t(turned_a ? la.rows : la.columns);
    const auto n = int64_t(turned_b ? lb.rows : lb.columns), kb = int64_t(turned_b ? lb.columns : lb.rows);
    if (handle != reinterpret_cast<cublasLtHandle_t>(uintptr_t(fake_cuda_device() + 1)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (k != kb || m != int64_t(lc.rows) || n != int64_t(lc.columns)) return CUBLAS_STATUS_INVALID_VALUE;
    if (la.batch != lc.batch || lb.batch != lc.batch || c != d || c_layout != d_layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!fake_cuda_has_room(fake_cuda()->library_bytes)) return CUBLAS_STATUS_ALLOC_FAILED;
    Algorithm algorithm;
    std::memcpy(&algorithm, algo, sizeof algorithm);
    fake_cuda()->products++;
    if (fake_cuda_is_idle()) return CUBLAS_STATUS_SUCCESS;
    const bool complex = la.type == CUDA_C_32F || la.type == CUDA_C_64F;
    const Problem problem = {o, la, lb, lc, alpha, a, b, beta, c, d};
    if (!may_run(problem, algorithm, workspace, workspace_size, stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (workspace_size > 0) std::memset(workspace, 0xff, workspace_size);
    complex ? multiply_out<complex128>(problem, algorithm.parts) : multiply_out<double>(problem, algorithm.parts);
    fake_cuda_end();
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT size_t cublasLtGetVersion() {
    return CUBLAS_VERSION;
}
