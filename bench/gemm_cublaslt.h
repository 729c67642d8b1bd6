/* Products of cuBLASLt called directly, for bench_gemm --device cuda: what a program would write that knows the
 * library, with f16 operands, f32 sums, an f16 result and the bias in the epilogue, and a workspace of 32 MB. The
 * library is opened by name. */
#ifndef AMP_BENCH_GEMM_CUBLASLT_H
#define AMP_BENCH_GEMM_CUBLASLT_H

#include "bench_cuda.h"

#ifdef AMP_BENCH_CUDA
#include <cublasLt.h>

#define CUBLASLT_FUNCTIONS(X)                                                                                          \
    X(create, cublasLtCreate)                                                                                          \
    X(describe, cublasLtMatmulDescCreate)                                                                              \
    X(forget, cublasLtMatmulDescDestroy)                                                                               \
    X(set, cublasLtMatmulDescSetAttribute)                                                                             \
    X(layout, cublasLtMatrixLayoutCreate)                                                                              \
    X(layout_forget, cublasLtMatrixLayoutDestroy)                                                                      \
    X(preference, cublasLtMatmulPreferenceCreate)                                                                      \
    X(preference_forget, cublasLtMatmulPreferenceDestroy)                                                              \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                                                            \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                                                                       \
    X(run, cublasLtMatmul)

enum { CUBLASLT_WANTED = 8, CUBLASLT_TRIALS = 3 };
static const size_t cublaslt_workspace_bytes = (size_t)32 << 20;

static struct {
#define X(name, function) __typeof__(function) *name;
    CUBLASLT_FUNCTIONS(X)
#undef X
    cublasLtHandle_t handle;
    amp_tensor *memory;
    void *workspace;
    char missing[96]; /* why there is no such peer; empty: there is */
} cublaslt;

/* y = x · wᵀ + bias, all row-major: x (m, k), w (n, k), bias (n), y (m, n); f16 on the device. */
typedef struct cublaslt_product {
    const void *x, *w, *bias;
    void *y;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t x_layout, w_layout, y_layout;
    cublasLtMatmulHeuristicResult_t found[CUBLASLT_WANTED]; /* the heuristic's, best first, as it thinks */
    int count, chosen;
} cublaslt_product;

static inline void cublaslt_require(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    fprintf(stderr, BENCH_NAME ": cuBLASLt: %s failed (status %d)\n", what, (int)status);
    exit(1);
}

/* After gpu_open. */
static inline void open_cublaslt(void) {
    char name[64];
    void *symbol = NULL;
    snprintf(name, sizeof name, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(cublaslt.missing, sizeof cublaslt.missing, "%s is not installed", name);
#define X(name, function)                                                                                              \
    symbol = library ? dlsym(library, #function) : NULL;                                                               \
    memcpy(&cublaslt.name, &symbol, sizeof symbol);                                                                    \
    if (library && !symbol) snprintf(cublaslt.missing, sizeof cublaslt.missing, "it has no " #function);
    CUBLASLT_FUNCTIONS(X)
#undef X
    if (*cublaslt.missing) return;
    cublaslt_require(cublaslt.create(&cublaslt.handle), "a handle");
    cublaslt.memory =
        amp_empty(AMP_DIMS((int64_t)(cublaslt_workspace_bytes / sizeof(float))), .device = AMP_DEVICE_CUDA);
    bench_require(cublaslt.memory != NULL, "a workspace");
    cublaslt.workspace = gpu_address(amp_keep(cublaslt.memory));
}

/* The library counts by columns, and a row-major matrix is its transpose: yᵀ = w · xᵀ, w given as its transpose. */
static inline void describe_cublaslt(cublaslt_product *p, int64_t m, int64_t n, int64_t k) {
    const cublasOperation_t turned = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t size;
    } settings[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof turned},
                    {CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain},
                    {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
                    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias}};
    cublaslt_require(cublaslt.describe(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a description");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        cublaslt_require(cublaslt.set(p->operation, settings[i].attribute, settings[i].value, settings[i].size),
                         "a setting");
    cublaslt_require(cublaslt.layout(&p->w_layout, CUDA_R_16F, (uint64_t)k, (uint64_t)n, k), "a layout");
    cublaslt_require(cublaslt.layout(&p->x_layout, CUDA_R_16F, (uint64_t)k, (uint64_t)m, k), "a layout");
    cublaslt_require(cublaslt.layout(&p->y_layout, CUDA_R_16F, (uint64_t)n, (uint64_t)m, n), "a layout");
}

static inline cublasStatus_t run_cublaslt_status(const cublaslt_product *p) {
    const cublasLtMatmulHeuristicResult_t *with = &p->found[p->chosen];
    const float one = 1.0f, zero = 0.0f;
    return cublaslt.run(cublaslt.handle, p->operation, &one, p->w, p->w_layout, p->x, p->x_layout, &zero, p->y,
                        p->y_layout, p->y, p->y_layout, &with->algo, cublaslt.workspace, with->workspaceSize,
                        (cudaStream_t)gpu.stream);
}
static inline void run_cublaslt(void *context) {
    cublaslt_require(run_cublaslt_status(context), "a product");
}

/* Those of the heuristic's algorithms that run; 0: there is none. */
static inline void ask_cublaslt(cublaslt_product *p) {
    cublasLtMatmulPreference_t preference;
    int found = 0;
    cublaslt_require(cublaslt.preference(&preference), "a preference");
    cublaslt_require(cublaslt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &cublaslt_workspace_bytes, sizeof cublaslt_workspace_bytes),
                     "a preference");
    const cublasStatus_t status =
        cublaslt.heuristic(cublaslt.handle, p->operation, p->w_layout, p->x_layout, p->y_layout, p->y_layout,
                           preference, CUBLASLT_WANTED, p->found, &found);
    (void)cublaslt.preference_forget(preference);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; i++) {
        p->found[p->count] = p->found[i];
        p->chosen = p->count;
        if (p->found[i].state == CUBLAS_STATUS_SUCCESS && run_cublaslt_status(p) == CUBLAS_STATUS_SUCCESS) p->count++;
    }
}

/* The algorithm that is fastest, of a few turns of each. */
static inline int fastest_cublaslt(cublaslt_product *p, int calls) {
    double times[CUBLASLT_WANTED][CUBLASLT_TRIALS];
    int best = 0;
    for (int r = 0; r < CUBLASLT_TRIALS; r++)
        for (p->chosen = 0; p->chosen < p->count; p->chosen++) times[p->chosen][r] = gpu_time(run_cublaslt, p, calls);
    for (int i = 1; i < p->count; i++)
        if (bench_median(times[i], CUBLASLT_TRIALS) < bench_median(times[best], CUBLASLT_TRIALS)) best = i;
    return best;
}

static inline void free_cublaslt(cublaslt_product *p) {
    cublasLtMatrixLayout_t layouts[] = {p->x_layout, p->w_layout, p->y_layout};
    for (int i = 0; i < 3; i++) (void)cublaslt.layout_forget(layouts[i]);
    (void)cublaslt.forget(p->operation);
}

static inline void close_cublaslt(void) {
    if (cublaslt.memory) amp_release(cublaslt.memory);
}

#endif /* AMP_BENCH_CUDA */
#endif /* AMP_BENCH_GEMM_CUBLASLT_H */
