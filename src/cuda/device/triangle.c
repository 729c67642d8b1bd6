/* Triangular equations through cuBLAS, which is opened at the first ones. Its workspace is the stream's memory, so
 * equations of several streams do not share one, and nothing here waits for the device. */
#include <cublas_v2.h>
#include <dlfcn.h>
#include <stdio.h>

#include "cuda/device/driver.h"

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
static char missing[160]; /* what of the library is not there */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void find(void *library, const char *library_name, const char *name, void *pointer) {
    if (library && !*missing && !amp_cuda_symbol(library, name, pointer))
        snprintf(missing, sizeof missing, "%s has no %s", library_name, name);
}

static void load(void) {
    static const char *const trsm_names[TYPES] = {"cublasStrsm_v2", "cublasDtrsm_v2", "cublasCtrsm_v2",
                                                  "cublasZtrsm_v2"};
    char name[64];
    snprintf(name, sizeof name, "libcublas.so.%d", CUBLAS_VER_MAJOR);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(missing, sizeof missing, "%s is not installed", name);
    find(library, name, "cublasCreate_v2", &blas.create);
    find(library, name, "cublasSetStream_v2", &blas.set_stream);
    find(library, name, "cublasSetWorkspace_v2", &blas.set_workspace);
    for (int i = 0; i < TYPES; i++) find(library, name, trsm_names[i], &blas.trsm[i]);
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
static cublasHandle_t handles[AMP_CUDA_MAX_DEVICES];   /* under the lock of amp_cuda_factorise */
static const size_t workspace_bytes = (size_t)4 << 20; /* what NVIDIA recommends for GPUs before Hopper */

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
    AMP_CUDA_TRY(check(blas.set_workspace(handle, workspace, workspace_bytes), "use a workspace"));
    return check(execute(handle, f), "solve triangular equations");
}

amp_cuda_result amp_cuda_solve_triangle(const amp_cuda_factor *f, int device, CUstream stream) {
    amp_cuda_block *block;
    void *workspace;
    if (!handles[device]) AMP_CUDA_TRY(check(blas.create(&handles[device]), "start"));
    AMP_CUDA_TRY(amp_cuda_allocate(workspace_bytes, &block, &workspace));
    const amp_cuda_result result = run(handles[device], stream, workspace, f);
    amp_cuda_release(block);
    return result;
}
