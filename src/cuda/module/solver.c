/* Factors of large matrices through cuSOLVER, which is opened at the first one. Nothing here waits for the device: its
 * workspaces are the stream's memory, and LAPACK's infos stay there. */
#include <pthread.h>

#include "cuda/module/driver.h"

#if __has_include(<cusolverDn.h>)
#include <cusolverDn.h>
#include <stdio.h>
#include <stdlib.h>

/* Without a form for all types: one function for each, whose pointers are of that type. */
typedef cusolverStatus_t orgqr_room(cusolverDnHandle_t, int, int, int, const void *, int, const void *, int *);
typedef cusolverStatus_t orgqr_function(cusolverDnHandle_t, int, int, int, void *, int, const void *, void *, int,
                                        int *);
typedef cusolverStatus_t gesvdj_room(cusolverDnHandle_t, cusolverEigMode_t, int, int, int, const void *, int,
                                     const void *, const void *, int, const void *, int, int *, gesvdjInfo_t);
typedef cusolverStatus_t gesvdj_function(cusolverDnHandle_t, cusolverEigMode_t, int, int, int, void *, int, void *,
                                         void *, int, void *, int, void *, int, int *, gesvdjInfo_t);
typedef cusolverStatus_t ormqr_room(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, int, int,
                                    const void *, int, const void *, const void *, int, int *);
typedef cusolverStatus_t ormqr_function(cusolverDnHandle_t, cublasSideMode_t, cublasOperation_t, int, int, int,
                                        const void *, int, const void *, void *, int, void *, int, int *);
/* Since CUDA 12.6; the headers of older ones do not know it. */
typedef cusolverStatus_t geev_room(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cusolverEigMode_t,
                                   int64_t, cudaDataType, const void *, int64_t, cudaDataType, const void *,
                                   cudaDataType, const void *, int64_t, cudaDataType, const void *, int64_t,
                                   cudaDataType, size_t *, size_t *);
typedef cusolverStatus_t geev_function(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t, cusolverEigMode_t,
                                       int64_t, cudaDataType, void *, int64_t, cudaDataType, void *, cudaDataType,
                                       void *, int64_t, cudaDataType, void *, int64_t, cudaDataType, void *, size_t,
                                       void *, size_t, int *);

#define LIBRARY AMP_CUDA_SONAME("libcusolver", CUSOLVER_VER_MAJOR)
#define FUNCTIONS(X)                                                                                                   \
    X(create, cusolverDnCreate)                                                                                        \
    X(create_params, cusolverDnCreateParams)                                                                           \
    X(create_gesvdj, cusolverDnCreateGesvdjInfo)                                                                       \
    X(set_stream, cusolverDnSetStream)                                                                                 \
    X(potrf_room, cusolverDnXpotrf_bufferSize)                                                                         \
    X(potrf, cusolverDnXpotrf)                                                                                         \
    X(potrs, cusolverDnXpotrs)                                                                                         \
    X(getrf_room, cusolverDnXgetrf_bufferSize)                                                                         \
    X(getrf, cusolverDnXgetrf)                                                                                         \
    X(getrs, cusolverDnXgetrs)                                                                                         \
    X(geqrf_room, cusolverDnXgeqrf_bufferSize)                                                                         \
    X(geqrf, cusolverDnXgeqrf)                                                                                         \
    X(syevd_room, cusolverDnXsyevd_bufferSize)                                                                         \
    X(syevd, cusolverDnXsyevd)
#define OF_TYPE(X, type, letter, orthogonal)                                                                           \
    X(orgqr_room[type], cusolverDn##letter##orthogonal##gqr_bufferSize)                                                \
    X(orgqr[type], cusolverDn##letter##orthogonal##gqr)                                                                \
    X(gesvdj_room[type], cusolverDn##letter##gesvdj_bufferSize)                                                        \
    X(gesvdj[type], cusolverDn##letter##gesvdj)                                                                        \
    X(ormqr_room[type], cusolverDn##letter##orthogonal##mqr_bufferSize)                                                \
    X(ormqr[type], cusolverDn##letter##orthogonal##mqr)
#define TYPED_FUNCTIONS(X) OF_TYPE(X, 0, S, or) OF_TYPE(X, 1, D, or) OF_TYPE(X, 2, C, un) OF_TYPE(X, 3, Z, un)
enum { TYPES = 4 };

static struct {
#define X(name, function) __typeof__(function) *name;
    FUNCTIONS(X)
#undef X
    orgqr_room *orgqr_room[TYPES];
    orgqr_function *orgqr[TYPES];
    gesvdj_room *gesvdj_room[TYPES];
    gesvdj_function *gesvdj[TYPES];
    ormqr_room *ormqr_room[TYPES];
    ormqr_function *ormqr[TYPES];
    geev_room *geev_room;
    geev_function *geev;
} solver;
static char missing[512]; /* what of the library is not there */
static char geev_missing[160];
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void) {
    static const amp_cuda_function functions[] = {
#define X(field, function) {#function, &solver.field},
        FUNCTIONS(X) TYPED_FUNCTIONS(X)
#undef X
    };
    const size_t count = sizeof functions / sizeof *functions;
    void *library = amp_cuda_load_library(LIBRARY, LIBRARY, functions, count, missing, sizeof missing);
    if (library && (!amp_cuda_symbol(library, "cusolverDnXgeev_bufferSize", &solver.geev_room) ||
                    !amp_cuda_symbol(library, "cusolverDnXgeev", &solver.geev)))
        snprintf(geev_missing, sizeof geev_missing, LIBRARY " has no cusolverDnXgeev (CUDA 12.6 has)");
}

const char *amp_cuda_routine_missing(amp_cuda_routine routine) {
    if (routine == AMP_CUDA_TRSM) return amp_cuda_triangle_missing();
    pthread_once(&load_once, load);
    return *missing ? missing : routine == AMP_CUDA_GEEV && *geev_missing ? geev_missing : NULL;
}

static amp_cuda_result check(cusolverStatus_t status, const char *what) {
    if (status == CUSOLVER_STATUS_SUCCESS) return AMP_CUDA_OK;
    if (status == CUSOLVER_STATUS_ALLOC_FAILED)
        return amp_cuda_say(AMP_CUDA_NO_MEMORY, "cuSOLVER has no memory to %s", what);
    return amp_cuda_say(AMP_CUDA_FAILED, "cuSOLVER cannot %s (status %d)", what, (int)status);
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */
static struct {
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    gesvdjInfo_t gesvdj;
} devices[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* One call: what it works with, and the room that it has. */
typedef struct work {
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    gesvdjInfo_t gesvdj;
    cudaDataType_t type, real, paired; /* paired: the complex numbers of its type */
    int number;                        /* of the type, in tables */
    size_t device_bytes, host_bytes;
    int elements; /* of routines that count so */
    void *device_memory, *host_memory;
} work;

static cublasFillMode_t side_of(const amp_cuda_factor *f) {
    return f->upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}
static cusolverEigMode_t mode_of(const amp_cuda_factor *f) {
    return f->vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
}
static cublasOperation_t turn_of(const amp_cuda_factor *f) {
    return !f->transposed ? CUBLAS_OP_N : f->conjugated ? CUBLAS_OP_C : CUBLAS_OP_T;
}
static cublasSideMode_t hand_of(const amp_cuda_factor *f) {
    return f->right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
}

static cusolverStatus_t find_room(work *w, const amp_cuda_factor *f) {
    switch (f->routine) {
    case AMP_CUDA_POTRF:
        return solver.potrf_room(w->handle, w->params, side_of(f), f->n, w->type, f->a, f->lda, w->type,
                                 &w->device_bytes, &w->host_bytes);
    case AMP_CUDA_GETRF:
        return solver.getrf_room(w->handle, w->params, f->m, f->n, w->type, f->a, f->lda, w->type, &w->device_bytes,
                                 &w->host_bytes);
    case AMP_CUDA_GEQRF:
        return solver.geqrf_room(w->handle, w->params, f->m, f->n, w->type, f->a, f->lda, w->type, f->b, w->type,
                                 &w->device_bytes, &w->host_bytes);
    case AMP_CUDA_SYEVD:
        return solver.syevd_room(w->handle, w->params, mode_of(f), side_of(f), f->n, w->type, f->a, f->lda, w->real,
                                 f->b, w->type, &w->device_bytes, &w->host_bytes);
    case AMP_CUDA_ORGQR:
        return solver.orgqr_room[w->number](w->handle, (int)f->m, (int)f->n, (int)f->k, f->a, (int)f->lda, f->b,
                                            &w->elements);
    case AMP_CUDA_GESVDJ:
        return solver.gesvdj_room[w->number](w->handle, mode_of(f), f->economic, (int)f->m, (int)f->n, f->a,
                                             (int)f->lda, f->b, f->u, (int)f->ldu, f->v, (int)f->ldv, &w->elements,
                                             w->gesvdj);
    case AMP_CUDA_ORMQR:
        return solver.ormqr_room[w->number](w->handle, hand_of(f), turn_of(f), (int)f->m, (int)f->n, (int)f->k, f->a,
                                            (int)f->lda, f->u, f->b, (int)f->ldb, &w->elements);
    case AMP_CUDA_GEEV:
        return solver.geev_room(w->handle, w->params, CUSOLVER_EIG_MODE_NOVECTOR, mode_of(f), f->n, w->type, f->a,
                                f->lda, w->paired, f->b, w->type, NULL, f->n, w->type, f->v, f->ldv, w->type,
                                &w->device_bytes, &w->host_bytes);
    default: return CUSOLVER_STATUS_SUCCESS;
    }
}

static cusolverStatus_t execute(const work *w, const amp_cuda_factor *f) {
    switch (f->routine) {
    case AMP_CUDA_POTRF:
        return solver.potrf(w->handle, w->params, side_of(f), f->n, w->type, f->a, f->lda, w->type, w->device_memory,
                            w->device_bytes, w->host_memory, w->host_bytes, f->info);
    case AMP_CUDA_POTRS:
        return solver.potrs(w->handle, w->params, side_of(f), f->n, f->k, w->type, f->a, f->lda, w->type, f->b, f->ldb,
                            f->info);
    case AMP_CUDA_GETRF:
        return solver.getrf(w->handle, w->params, f->m, f->n, w->type, f->a, f->lda, f->pivots, w->type,
                            w->device_memory, w->device_bytes, w->host_memory, w->host_bytes, f->info);
    case AMP_CUDA_GETRS:
        return solver.getrs(w->handle, w->params, turn_of(f), f->n, f->k, w->type, f->a, f->lda, f->pivots, w->type,
                            f->b, f->ldb, f->info);
    case AMP_CUDA_GEQRF:
        return solver.geqrf(w->handle, w->params, f->m, f->n, w->type, f->a, f->lda, w->type, f->b, w->type,
                            w->device_memory, w->device_bytes, w->host_memory, w->host_bytes, f->info);
    case AMP_CUDA_ORGQR:
        return solver.orgqr[w->number](w->handle, (int)f->m, (int)f->n, (int)f->k, f->a, (int)f->lda, f->b,
                                       w->device_memory, w->elements, f->info);
    case AMP_CUDA_GESVDJ:
        return solver.gesvdj[w->number](w->handle, mode_of(f), f->economic, (int)f->m, (int)f->n, f->a, (int)f->lda,
                                        f->b, f->u, (int)f->ldu, f->v, (int)f->ldv, w->device_memory, w->elements,
                                        f->info, w->gesvdj);
    case AMP_CUDA_SYEVD:
        return solver.syevd(w->handle, w->params, mode_of(f), side_of(f), f->n, w->type, f->a, f->lda, w->real, f->b,
                            w->type, w->device_memory, w->device_bytes, w->host_memory, w->host_bytes, f->info);
    case AMP_CUDA_ORMQR:
        return solver.ormqr[w->number](w->handle, hand_of(f), turn_of(f), (int)f->m, (int)f->n, (int)f->k, f->a,
                                       (int)f->lda, f->u, f->b, (int)f->ldb, w->device_memory, w->elements, f->info);
    case AMP_CUDA_GEEV:
        return solver.geev(w->handle, w->params, CUSOLVER_EIG_MODE_NOVECTOR, mode_of(f), f->n, w->type, f->a, f->lda,
                           w->paired, f->b, w->type, NULL, f->n, w->type, f->v, f->ldv, w->type, w->device_memory,
                           w->device_bytes, w->host_memory, w->host_bytes, f->info);
    default: return CUSOLVER_STATUS_NOT_SUPPORTED;
    }
}

static amp_cuda_result start(int device, CUstream stream, const amp_cuda_factor *f, work *w) {
    static const cudaDataType_t types[TYPES] = {CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F};
    if (!devices[device].handle) AMP_CUDA_TRY(check(solver.create(&devices[device].handle), "start"));
    if (!devices[device].params) AMP_CUDA_TRY(check(solver.create_params(&devices[device].params), "start"));
    if (!devices[device].gesvdj) AMP_CUDA_TRY(check(solver.create_gesvdj(&devices[device].gesvdj), "start"));
    const int number = (int)f->type - (int)AMP_CUDA_F32;
    *w = (work){.handle = devices[device].handle,
                .params = devices[device].params,
                .gesvdj = devices[device].gesvdj,
                .type = types[number],
                .real = types[number % 2],
                .paired = types[2 + number % 2],
                .number = number};
    return check(solver.set_stream(w->handle, stream), "use a stream");
}

static amp_cuda_result run(const amp_cuda_factor *f, int device, CUstream stream) {
    static const size_t sizes[TYPES] = {4, 8, 8, 16};
    work w;
    amp_cuda_block *block = NULL;
    AMP_CUDA_TRY(start(device, stream, f, &w));
    AMP_CUDA_TRY(check(find_room(&w, f), "factor a matrix of this shape"));
    if (w.elements > 0) w.device_bytes = (size_t)w.elements * sizes[w.number];
    if (w.device_bytes > 0) AMP_CUDA_TRY(amp_cuda_allocate(w.device_bytes, &block, &w.device_memory));
    w.host_memory = w.host_bytes > 0 ? malloc(w.host_bytes) : NULL;
    const amp_cuda_result result =
        w.host_bytes > 0 && !w.host_memory
            ? amp_cuda_say(AMP_CUDA_NO_MEMORY, "the host has no memory for a workspace of cuSOLVER")
            : check(execute(&w, f), "factor a matrix");
    free(w.host_memory);
    if (block) amp_cuda_release(block);
    return result;
}

/* Under the lock: a handle knows one stream. */
amp_cuda_result amp_cuda_factorise(const amp_cuda_factor *factor) {
    CUstream stream;
    const char *why = amp_cuda_routine_missing(factor->routine);
    if (why) return amp_cuda_say(AMP_CUDA_MISSING, "%s", why);
    amp_cuda_relax();
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    pthread_mutex_lock(&lock);
    const int device = amp_cuda_selected();
    const amp_cuda_result result = factor->routine == AMP_CUDA_TRSM ? amp_cuda_solve_triangle(factor, device, stream)
                                                                    : run(factor, device, stream);
    pthread_mutex_unlock(&lock);
    return result;
}
#else
const char *amp_cuda_routine_missing(amp_cuda_routine routine) {
    (void)routine;
    return "this libamp_cuda.so was built without cuSOLVER (cusolverDn.h)";
}
amp_cuda_result amp_cuda_factorise(const amp_cuda_factor *factor) {
    return amp_cuda_say(AMP_CUDA_MISSING, "%s", amp_cuda_routine_missing(factor->routine));
}
#endif
