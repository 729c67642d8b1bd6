/* Fourier transforms through cuFFT, which is opened at the first one. A plan is made once for each length and number of
 * lines, and kept while it is used; its work area is the stream's memory, taken and given back with each transform. */
#include <pthread.h>

#include "cuda/module/plans.h"

#if __has_include(<cufft.h>)
#include <cufft.h>

#define LIBRARY AMP_CUDA_SONAME("libcufft", CUFFT_VER_MAJOR)
#define FUNCTIONS(X)                                                                                                   \
    X(create, cufftCreate)                                                                                             \
    X(destroy, cufftDestroy)                                                                                           \
    X(allocates, cufftSetAutoAllocation)                                                                               \
    X(make, cufftMakePlanMany64)                                                                                       \
    X(set_area, cufftSetWorkArea)                                                                                      \
    X(set_stream, cufftSetStream)                                                                                      \
    X(c2c, cufftExecC2C)                                                                                               \
    X(z2z, cufftExecZ2Z)                                                                                               \
    X(r2c, cufftExecR2C)                                                                                               \
    X(d2z, cufftExecD2Z)                                                                                               \
    X(c2r, cufftExecC2R)                                                                                               \
    X(z2d, cufftExecZ2D)

static struct {
#define X(name, function) __typeof__(function) *name;
    FUNCTIONS(X)
#undef X
} fft;
static char missing[512]; /* what of the library is not there */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void) {
    static const amp_cuda_function functions[] = {
#define X(field, function) {#function, &fft.field},
        FUNCTIONS(X)
#undef X
    };
    const size_t count = sizeof functions / sizeof *functions;
    (void)amp_cuda_load_library(LIBRARY, "Fourier transforms need cuFFT: " LIBRARY, functions, count, missing,
                                sizeof missing);
}

static amp_cuda_result check(cufftResult status, const char *what) {
    if (status == CUFFT_SUCCESS) return AMP_CUDA_OK;
    if (status == CUFFT_ALLOC_FAILED) return amp_cuda_say(AMP_CUDA_NO_MEMORY, "cuFFT has no memory to %s", what);
    return amp_cuda_say(AMP_CUDA_FAILED, "cuFFT cannot %s (status %d)", what, (int)status);
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */
typedef struct plan_key {
    int64_t n, count;
    int form, f64;
} plan_key;

typedef struct plan {
    amp_cuda_plan plan;
    plan_key key;
    cufftHandle handle;
    bool has_handle;
    size_t area;
} plan;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static cufftType type_of(const amp_cuda_transform *t) {
    static const cufftType types[][2] = {[AMP_CUDA_C2C] = {CUFFT_C2C, CUFFT_Z2Z},
                                         [AMP_CUDA_R2C] = {CUFFT_R2C, CUFFT_D2Z},
                                         [AMP_CUDA_C2R] = {CUFFT_C2R, CUFFT_Z2D}};
    return types[t->form][t->f64];
}

static amp_cuda_result make(void *made, const void *transform) {
    plan *p = made;
    const amp_cuda_transform *t = transform;
    long long n = t->n;
    AMP_CUDA_TRY(check(fft.create(&p->handle), "make a plan"));
    p->has_handle = true;
    cufftResult status = fft.allocates(p->handle, 0);
    if (status == CUFFT_SUCCESS)
        status = fft.make(p->handle, 1, &n, NULL, 1, 0, NULL, 1, 0, type_of(t), t->count, &p->area);
    return check(status, "make a plan for transforms of this length and number");
}

static void clear(void *made) {
    const plan *p = made;
    if (p->has_handle) (void)fft.destroy(p->handle);
}

static amp_cuda_plans plans = AMP_CUDA_PLANS(plan, 64, make, clear, "cuFFT has no such transform");

/* ---- Running ----------------------------------------------------------------------------------------------------- */
static cufftResult execute(const plan *p, const amp_cuda_transform *t) {
    const int direction = t->inverse ? CUFFT_INVERSE : CUFFT_FORWARD;
    switch (type_of(t)) {
    case CUFFT_C2C: return fft.c2c(p->handle, t->in, t->out, direction);
    case CUFFT_Z2Z: return fft.z2z(p->handle, t->in, t->out, direction);
    case CUFFT_R2C: return fft.r2c(p->handle, t->in, t->out);
    case CUFFT_D2Z: return fft.d2z(p->handle, t->in, t->out);
    case CUFFT_C2R: return fft.c2r(p->handle, t->in, t->out);
    default: return fft.z2d(p->handle, t->in, t->out);
    }
}

static amp_cuda_result run(const amp_cuda_transform *t, CUstream stream) {
    const plan_key key = {t->n, t->count, (int)t->form, t->f64};
    amp_cuda_block *block = NULL;
    void *area = NULL;
    amp_cuda_result result;
    const plan *p = amp_cuda_plan_for(&plans, &key, t, &result);
    if (!p) return result;
    if (p->area > 0) AMP_CUDA_TRY(amp_cuda_allocate(p->area, &block, &area));
    cufftResult status = fft.set_stream(p->handle, stream);
    if (status == CUFFT_SUCCESS && area) status = fft.set_area(p->handle, area);
    if (status == CUFFT_SUCCESS) status = execute(p, t);
    if (block) amp_cuda_release(block);
    return check(status, "run a transform");
}

/* Under the lock: a plan knows one stream and one work area. */
amp_cuda_result amp_cuda_run_transform(const amp_cuda_transform *transform) {
    CUstream stream;
    pthread_once(&load_once, load);
    if (*missing) return amp_cuda_say(AMP_CUDA_MISSING, "%s", missing);
    amp_cuda_relax();
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    pthread_mutex_lock(&lock);
    const amp_cuda_result result = run(transform, stream);
    pthread_mutex_unlock(&lock);
    return result;
}
#else
amp_cuda_result amp_cuda_run_transform(const amp_cuda_transform *transform) {
    (void)transform;
    return amp_cuda_say(AMP_CUDA_MISSING, "this libamp_cuda.so was built without cuFFT (cufft.h)");
}
#endif
