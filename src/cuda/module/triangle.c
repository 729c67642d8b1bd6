/* Triangular equations through cuBLAS, which is opened at the first ones. Its workspace is the stream's memory, so
 * equations of several streams do not share one, and nothing here waits for the device. */
#include <cublas_v2.h>

#include "cuda/module/driver.h"

#define LIBRARY AMP_CUDA_SONAME("libcublas", CUBLAS_VER_MAJOR)
enum { TYPES = 4 };

/* One function for each type, whose pointers are of that type. */
typedef cublasStatus_t trsm_function(cublasHandle_t, cublasSideMode_t, cublasFillMode_t, cublasOperation_t,
                                     cublasDiagType_t, int, int, const void *, const void *, int, void *, int);

static struct {
    __typeof__(cublasCreate_v2) *create;
    __typeof__(cublasSetStream_v2) *set_stream;
    __typeof__(cublasSetWorkspace_v2) *set_workspace;
    trsm_function *trsm[TYPES];
} blas;
static char missing[512]; /* what of the library is not there */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void) {
    static const amp_cuda_function functions[] = {
        {"cublasCreate_v2", &blas.create},
        {"cublasSetStream_v2", &blas.set_stream},
        {"cublasSetWorkspace_v2", &blas.set_workspace},
        {"cublasStrsm_v2", &blas.trsm[0]},
        {"cublasDtrsm_v2", &blas.trsm[1]},
        {"cublasCtrsm_v2", &blas.trsm[2]},
        {"cublasZtrsm_v2", &blas.trsm[3]},
    };
    const size_t count = sizeof functions / sizeof *functions;
    (void)amp_cuda_load_library(LIBRARY, LIBRARY, functions, count, missing, sizeof missing);
}

const char *amp_cuda_triangle_missing(void) {
    pthread_once(&load_once, load);
    return *missing ? missing : NULL;
}

static amp_cuda_result check(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS) return AMP_CUDA_OK;
    if (status == CUBLAS_STATUS_ALLOC_FAILED)
        return amp_cuda_say(AMP_CUDA_NO_MEMORY, "cuBLAS has no memory to %s", what);
    return amp_cuda_say(AMP_CUDA_FAILED, "cuBLAS cannot %s (status %d)", what, (int)status);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */
static cublasHandle_t handles[AMP_CUDA_MAX_DEVICES]; /* under the lock of amp_cuda_factorise */

/* What NVIDIA recommends: 32 MiB from Hopper on, 4 MiB before. */
static size_t workspace_bytes(void) {
    return (size_t)(amp_cuda_capability() >= 90 ? 32 : 4) << 20;
}

static cublasStatus_t execute(cublasHandle_t handle, const amp_cuda_factor *f) {
    static const float ones[2] = {1, 0};
    static const double wide_ones[2] = {1, 0};
    const int number = (int)f->type - (int)AMP_CUDA_F32;
    return blas.trsm[number](handle, CUBLAS_SIDE_LEFT, f->upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
                             !f->transposed  ? CUBLAS_OP_N
                             : f->conjugated ? CUBLAS_OP_C
                                             : CUBLAS_OP_T,
                             f->unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, (int)f->n, (int)f->k,
                             number % 2 ? (const void *)wide_ones : (const void *)ones, f->a, (int)f->lda, f->b,
                             (int)f->ldb);
}

/* The stream first: it takes the workspace away that was set. */
static amp_cuda_result run(cublasHandle_t handle, CUstream stream, void *workspace, const amp_cuda_factor *f) {
    AMP_CUDA_TRY(check(blas.set_stream(handle, stream), "use a stream"));
    AMP_CUDA_TRY(check(blas.set_workspace(handle, workspace, workspace_bytes()), "use a workspace"));
    return check(execute(handle, f), "solve triangular equations");
}

amp_cuda_result amp_cuda_solve_triangle(const amp_cuda_factor *f, int device, CUstream stream) {
    amp_cuda_block *block;
    void *workspace;
    if (!handles[device]) AMP_CUDA_TRY(check(blas.create(&handles[device]), "start"));
    AMP_CUDA_TRY(amp_cuda_allocate(workspace_bytes(), &block, &workspace));
    const amp_cuda_result result = run(handles[device], stream, workspace, f);
    amp_cuda_release(block);
    return result;
}
