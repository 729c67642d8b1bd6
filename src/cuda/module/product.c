/* Matrix products through cuBLASLt, which is opened at the first one. A plan (descriptors, the heuristic's choice,
 * workspace size) is made once for each shape, and kept. */
#include <cublasLt.h>
#include <pthread.h>
#include <string.h>

#include "cuda/module/plans.h"

#define LIBRARY AMP_CUDA_SONAME("libcublasLt", CUBLAS_VER_MAJOR)
#define FUNCTIONS(X)                                                                                                   \
    X(create, cublasLtCreate)                                                                                          \
    X(describe, cublasLtMatmulDescCreate)                                                                              \
    X(forget, cublasLtMatmulDescDestroy)                                                                               \
    X(set, cublasLtMatmulDescSetAttribute)                                                                             \
    X(layout, cublasLtMatrixLayoutCreate)                                                                              \
    X(layout_forget, cublasLtMatrixLayoutDestroy)                                                                      \
    X(layout_set, cublasLtMatrixLayoutSetAttribute)                                                                    \
    X(preference, cublasLtMatmulPreferenceCreate)                                                                      \
    X(preference_forget, cublasLtMatmulPreferenceDestroy)                                                              \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute)                                                            \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                                                                       \
    X(run, cublasLtMatmul)

static struct {
#define X(name, function) __typeof__(function) *name;
    FUNCTIONS(X)
#undef X
} blas;
static char missing[512]; /* what of the library is not there */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void) {
    static const amp_cuda_function functions[] = {
#define X(field, function) {#function, &blas.field},
        FUNCTIONS(X)
#undef X
    };
    const size_t count = sizeof functions / sizeof *functions;
    (void)amp_cuda_load_library(LIBRARY, "matrix products need cuBLAS: " LIBRARY, functions, count, missing,
                                sizeof missing);
}

static amp_cuda_result check(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return AMP_CUDA_OK;
    if (status == CUBLAS_STATUS_ALLOC_FAILED)
        return amp_cuda_say(AMP_CUDA_NO_MEMORY, "cuBLAS has no memory to %s", what);
    const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
    return amp_cuda_say(refused ? AMP_CUDA_REFUSED : AMP_CUDA_FAILED, "cuBLAS cannot %s (status %d)", what,
                        (int)status);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */
/* All that a plan depends on; compared byte by byte, so it is cleared before it is filled. */
typedef struct plan_key {
    int64_t m, n, k, batch, strides[3], batch_strides[3];
    int type, result, alignment[3];
    bool bias, gelu, residual, transposed_a, transposed_b, tf32;
} plan_key;

typedef struct plan {
    amp_cuda_plan plan;
    plan_key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
} plan;

static const size_t workspace_limit = (size_t)32 << 20;

/* A lane's workspace: products of one lane follow one another, so they share it. */
typedef struct workspace {
    const amp_cuda_lane *lane;
    amp_cuda_block *block;
    void *memory;
    size_t bytes;
} workspace;

enum { WORKSPACES = 256 };
static struct {
    cublasLtHandle_t handle;
    workspace workspaces[WORKSPACES];
} devices[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int alignment_of(const void *data) {
    const uintptr_t low = (uintptr_t)data & -(uintptr_t)data;
    return data == NULL || low > 256 ? 256 : (int)low;
}

static plan_key key_of(const amp_cuda_product *p) {
    plan_key key;
    memset(&key, 0, sizeof key);
    const amp_cuda_matrix *operands[] = {&p->a, &p->b, &p->c};
    key.m = p->m, key.n = p->n, key.k = p->k, key.batch = p->batch;
    for (int i = 0; i < 3; i++) {
        key.strides[i] = operands[i]->stride;
        key.batch_strides[i] = operands[i]->batch_stride;
        key.alignment[i] = alignment_of(operands[i]->data);
    }
    key.type = (int)p->type, key.result = (int)p->result;
    key.bias = p->bias != NULL, key.gelu = p->gelu, key.residual = p->beta[0] != 0 || p->beta[1] != 0;
    key.transposed_a = p->a.transposed, key.transposed_b = p->b.transposed;
    key.tf32 = p->tf32;
    return key;
}

static void forget(void *made) {
    const plan *p = made;
    if (p->operation) (void)blas.forget(p->operation);
    cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++) {
        if (layouts[i]) (void)blas.layout_forget(layouts[i]);
    }
}

static cudaDataType_t data_type(amp_cuda_type type) {
    static const cudaDataType_t types[] = {CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F};
    return types[type];
}

static cublasComputeType_t compute_type(const amp_cuda_product *p) {
    if (p->type == AMP_CUDA_F64 || p->type == AMP_CUDA_C128) return CUBLAS_COMPUTE_64F;
    return p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cublasLtEpilogue_t epilogue_of(const amp_cuda_product *p) {
    if (p->gelu) return p->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* cuBLAS counts by columns: a row-major matrix is its transpose. So cᵀ = bᵀ·aᵀ is asked for, b first. */
static amp_cuda_result make_layout(cublasLtMatrixLayout_t *layout, const amp_cuda_product *p, const amp_cuda_matrix *x,
                                   int64_t rows, int64_t columns) {
    const amp_cuda_type type = x == &p->c ? p->result : p->type;
    const uint64_t height = (uint64_t)(x->transposed ? rows : columns),
                   width = (uint64_t)(x->transposed ? columns : rows);
    const int32_t batch = (int32_t)p->batch;
    AMP_CUDA_TRY(check(blas.layout(layout, data_type(type), height, width, x->stride), "describe a matrix"));
    if (p->batch == 1) return AMP_CUDA_OK;
    AMP_CUDA_TRY(check(blas.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
                       "describe a batch of matrices"));
    return check(
        blas.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x->batch_stride, sizeof x->batch_stride),
        "describe a batch of matrices");
}

static amp_cuda_result describe(plan *plan, const amp_cuda_product *p) {
    const cublasOperation_t turned_a = p->a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t turned_b = p->b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasLtEpilogue_t epilogue = epilogue_of(p);
    const cudaDataType_t scale = p->type < AMP_CUDA_F32 ? CUDA_R_32F : data_type(p->type);
    AMP_CUDA_TRY(check(blas.describe(&plan->operation, compute_type(p), scale), "describe a product"));
    const struct {
        cublasLtMatmulDescAttributes_t attribute;
        const void *value;
        size_t size;
    } settings[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &turned_b, sizeof turned_b},
                    {CUBLASLT_MATMUL_DESC_TRANSB, &turned_a, sizeof turned_a},
                    {CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue},
                    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings - (p->bias ? 0 : 1); i++) {
        AMP_CUDA_TRY(check(blas.set(plan->operation, settings[i].attribute, settings[i].value, settings[i].size),
                           "describe a product"));
    }
    AMP_CUDA_TRY(make_layout(&plan->a, p, &p->a, p->m, p->k));
    AMP_CUDA_TRY(make_layout(&plan->b, p, &p->b, p->k, p->n));
    return make_layout(&plan->c, p, &p->c, p->m, p->n);
}

/* Where a product is split along its sums, the parts are added in the type that they are computed in: in the result's
 * they would be rounded. */
static cublasStatus_t set_preference(cublasLtMatmulPreference_t preference, const plan_key *key) {
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t aligned[] = {(uint32_t)key->alignment[0], (uint32_t)key->alignment[1], (uint32_t)key->alignment[2]};
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        const void *value;
        size_t size;
    } settings[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_limit, sizeof workspace_limit},
                    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned[1], sizeof aligned[1]},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &aligned[0], sizeof aligned[0]},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &aligned[2], sizeof aligned[2]},
                    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &aligned[2], sizeof aligned[2]}};
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; i < sizeof settings / sizeof *settings && status == CUBLAS_STATUS_SUCCESS; i++) {
        status = blas.preference_set(preference, settings[i].attribute, settings[i].value, settings[i].size);
    }
    return status;
}

static amp_cuda_result choose(plan *plan, cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t best = {0};
    int found = 0;
    AMP_CUDA_TRY(check(blas.preference(&preference), "choose an algorithm"));
    cublasStatus_t status = set_preference(preference, &plan->key);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status =
            blas.heuristic(handle, plan->operation, plan->b, plan->a, plan->c, plan->c, preference, 1, &best, &found);
    }
    (void)blas.preference_forget(preference);
    if (status == CUBLAS_STATUS_SUCCESS && found == 0) status = CUBLAS_STATUS_NOT_SUPPORTED;
    AMP_CUDA_TRY(check(status, "find an algorithm for a product of these shapes and types"));
    plan->algorithm = best.algo;
    plan->workspace = best.workspaceSize;
    return AMP_CUDA_OK;
}

static amp_cuda_result make(void *made, const void *product) {
    plan *p = made;
    AMP_CUDA_TRY(describe(p, product));
    return choose(p, devices[amp_cuda_selected()].handle);
}

static amp_cuda_plans plans =
    AMP_CUDA_PLANS(plan, 1024, make, forget, "cuBLAS has no algorithm for a product of these shapes and types");

/* A workspace stays: it is not among the live blocks, which are tensors. */
static void count_as_ours(size_t bytes, int sign) {
    amp_cuda_count.live_blocks += (size_t)sign;
    amp_cuda_count.live_bytes += sign < 0 ? -bytes : bytes;
}

static amp_cuda_result workspace_for(int device, const amp_cuda_lane *lane, size_t bytes, void **memory) {
    *memory = NULL;
    if (bytes == 0) return AMP_CUDA_OK;
    workspace *w = devices[device].workspaces;
    while (w->lane && w->lane != lane && w < &devices[device].workspaces[WORKSPACES - 1]) w++;
    if (w->lane != lane || w->bytes < bytes) {
        if (w->block) {
            count_as_ours(w->bytes, 1);
            amp_cuda_release(w->block);
        }
        *w = (workspace){0};
        AMP_CUDA_TRY(amp_cuda_allocate(bytes, &w->block, &w->memory));
        count_as_ours(bytes, -1);
        w->lane = lane;
        w->bytes = bytes;
    }
    *memory = w->memory;
    return AMP_CUDA_OK;
}

static amp_cuda_result run(const amp_cuda_product *p, int device, const amp_cuda_lane *lane) {
    void *memory;
    const plan_key key = key_of(p);
    amp_cuda_result result =
        devices[device].handle ? AMP_CUDA_OK : check(blas.create(&devices[device].handle), "start");
    plan *plan = result == AMP_CUDA_OK ? amp_cuda_plan_for(&plans, &key, p, &result) : NULL;
    if (!plan) return result;
    AMP_CUDA_TRY(workspace_for(device, lane, plan->workspace, &memory));
    if (p->bias) {
        AMP_CUDA_TRY(check(blas.set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias),
                           "describe a product"));
    }
    const float alpha[2] = {(float)p->alpha[0], (float)p->alpha[1]}, beta[2] = {(float)p->beta[0], (float)p->beta[1]};
    const bool wide = p->type == AMP_CUDA_F64 || p->type == AMP_CUDA_C128;
    result =
        check(blas.run(devices[device].handle, plan->operation, wide ? (const void *)p->alpha : alpha, p->b.data,
                       plan->b, p->a.data, plan->a, wide ? (const void *)p->beta : beta, p->c.data, plan->c,
                       (void *)p->c.data, plan->c, &plan->algorithm, memory, plan->workspace, amp_cuda_stream_of(lane)),
              "run a product");
    return result == AMP_CUDA_REFUSED ? amp_cuda_plan_failed(&plans, plan, result) : result;
}

/* Under the lock: plans hold the pointer of the bias, and a workspace belongs to one lane. */
amp_cuda_result amp_cuda_multiply(const amp_cuda_product *product) {
    amp_cuda_result result;
    pthread_once(&load_once, load);
    if (*missing) return amp_cuda_say(AMP_CUDA_MISSING, "%s", missing);
    amp_cuda_relax();
    const amp_cuda_lane *lane = amp_cuda_enter_lane(&result);
    if (!lane) return result;
    pthread_mutex_lock(&lock);
    result = run(product, amp_cuda_selected(), lane);
    pthread_mutex_unlock(&lock);
    amp_cuda_count.products++;
    return result;
}
