/* Convolutions through cuDNN, which is opened at the first one. A plan (descriptors, the algorithm that the library's
 * heuristics put first) is made once for each shape and kept; its workspace is the stream's memory, taken and given
 * back with each run. */
#include <pthread.h>

#include "cuda/module/plans.h"

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#include <string.h>

#define LIBRARY AMP_CUDA_SONAME("libcudnn", CUDNN_MAJOR)
#define FUNCTIONS(X)                                                                                                   \
    X(create, cudnnCreate)                                                                                             \
    X(set_stream, cudnnSetStream)                                                                                      \
    X(make_tensor, cudnnCreateTensorDescriptor)                                                                        \
    X(set_tensor, cudnnSetTensorNdDescriptor)                                                                          \
    X(forget_tensor, cudnnDestroyTensorDescriptor)                                                                     \
    X(make_filter, cudnnCreateFilterDescriptor)                                                                        \
    X(set_filter, cudnnSetFilterNdDescriptor)                                                                          \
    X(forget_filter, cudnnDestroyFilterDescriptor)                                                                     \
    X(make, cudnnCreateConvolutionDescriptor)                                                                          \
    X(set, cudnnSetConvolutionNdDescriptor)                                                                            \
    X(set_groups, cudnnSetConvolutionGroupCount)                                                                       \
    X(set_math, cudnnSetConvolutionMathType)                                                                           \
    X(forget, cudnnDestroyConvolutionDescriptor)                                                                       \
    X(make_activation, cudnnCreateActivationDescriptor)                                                                \
    X(set_activation, cudnnSetActivationDescriptor)                                                                    \
    X(forget_activation, cudnnDestroyActivationDescriptor)                                                             \
    X(choose, cudnnGetConvolutionForwardAlgorithm_v7)                                                                  \
    X(workspace, cudnnGetConvolutionForwardWorkspaceSize)                                                              \
    X(choose_back, cudnnGetConvolutionBackwardDataAlgorithm_v7)                                                        \
    X(run, cudnnConvolutionForward)                                                                                    \
    X(run_fused, cudnnConvolutionBiasActivationForward)                                                                \
    X(run_back, cudnnConvolutionBackwardData)

static struct {
#define X(name, function) __typeof__(function) *name;
    FUNCTIONS(X)
#undef X
} dnn;
static char missing[512]; /* what of the library is not there */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void) {
    static const amp_cuda_function functions[] = {
#define X(field, function) {#function, &dnn.field},
        FUNCTIONS(X)
#undef X
    };
    const size_t count = sizeof functions / sizeof *functions;
    (void)amp_cuda_load_library(LIBRARY, LIBRARY, functions, count, missing, sizeof missing);
}

/* What it does not support (3xxx), what it takes for wrong arguments (2xxx), and what an installation of parts cannot
 * do (1xxx), another way may. */
static amp_cuda_result check(cudnnStatus_t status, const char *what) {
    const int kind = (int)status / 1000;
    if (status == CUDNN_STATUS_SUCCESS) return AMP_CUDA_OK;
    const bool no_memory = status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                           status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    const amp_cuda_result result = no_memory                ? AMP_CUDA_NO_MEMORY
                                   : kind >= 1 && kind <= 3 ? AMP_CUDA_REFUSED
                                                            : AMP_CUDA_FAILED;
    (void)amp_cuda_say(result, "cuDNN cannot %s (status %d)", what, (int)status);
    return result;
}

/* ---- Plans ------------------------------------------------------------------------------------------------------- */
typedef struct plan {
    amp_cuda_plan plan;
    amp_cuda_convolution key; /* without its pointers */
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    cudnnActivationDescriptor_t activation;
    int algorithm; /* cudnnConvolutionFwdAlgo_t; transposed: cudnnConvolutionBwdDataAlgo_t */
    size_t workspace;
} plan;

enum { MOST_DIMS = 5 };
static const size_t workspace_limit = (size_t)256 << 20;

static cudnnHandle_t handles[AMP_CUDA_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static amp_cuda_convolution key_of(const amp_cuda_convolution *c) {
    amp_cuda_convolution key;
    memset(&key, 0, sizeof key); /* what lies between its members too */
    key.type = c->type, key.transposed = c->transposed, key.channels_last = c->channels_last, key.tf32 = c->tf32;
    key.with_bias = c->with_bias, key.with_residual = c->with_residual;
    key.axes = c->axes, key.batch = c->batch, key.groups = c->groups;
    key.in_channels = c->in_channels, key.out_channels = c->out_channels;
    for (int i = 0; i < c->axes; i++) key.axis[i] = c->axis[i];
    return key;
}

static void clear(void *made) {
    const plan *p = made;
    if (p->x) (void)dnn.forget_tensor(p->x);
    if (p->y) (void)dnn.forget_tensor(p->y);
    if (p->bias) (void)dnn.forget_tensor(p->bias);
    if (p->w) (void)dnn.forget_filter(p->w);
    if (p->convolution) (void)dnn.forget(p->convolution);
    if (p->activation) (void)dnn.forget_activation(p->activation);
}

static cudnnDataType_t data_type(amp_cuda_type type) {
    static const cudnnDataType_t types[] = {[AMP_CUDA_F16] = CUDNN_DATA_HALF,
                                            [AMP_CUDA_BF16] = CUDNN_DATA_BFLOAT16,
                                            [AMP_CUDA_F32] = CUDNN_DATA_FLOAT,
                                            [AMP_CUDA_F64] = CUDNN_DATA_DOUBLE};
    return types[type];
}

/* Dense, the channels first or last; it counts in 32 bits. */
static amp_cuda_result describe_tensor(cudnnTensorDescriptor_t *t, const amp_cuda_convolution *c, int64_t batch,
                                       int64_t channels, bool of_input) {
    int64_t dims[MOST_DIMS] = {batch, channels}, steps[MOST_DIMS], step = 1;
    int narrow[MOST_DIMS], narrow_steps[MOST_DIMS];
    const int rank = c->axes + 2;
    for (int i = 0; i < c->axes; i++) dims[2 + i] = of_input ? c->axis[i].in : c->axis[i].out;
    if (c->channels_last) steps[1] = step, step *= channels;
    for (int d = rank - 1; d >= 2; d--) steps[d] = step, step *= dims[d];
    if (!c->channels_last) steps[1] = step, step *= channels;
    steps[0] = step;
    if (step > INT32_MAX / batch) return amp_cuda_say(AMP_CUDA_REFUSED, "cuDNN counts the elements in 32 bits");
    for (int d = 0; d < rank; d++) narrow[d] = (int)dims[d], narrow_steps[d] = (int)steps[d];
    AMP_CUDA_TRY(check(dnn.make_tensor(t), "describe a tensor"));
    return check(dnn.set_tensor(*t, data_type(c->type), rank, narrow, narrow_steps), "describe a tensor");
}

/* The fused call takes no propagation of NaN, so its ReLU makes 0 of it: the activation is none. */
static amp_cuda_result describe_bias(plan *p, const amp_cuda_convolution *c) {
    const int channels = (int)(c->groups * c->out_channels), rank = c->axes + 2;
    const int dims[MOST_DIMS] = {1, channels, 1, 1, 1}, steps[MOST_DIMS] = {channels, 1, 1, 1, 1};
    AMP_CUDA_TRY(check(dnn.make_tensor(&p->bias), "describe a bias"));
    AMP_CUDA_TRY(check(dnn.set_tensor(p->bias, data_type(c->type), rank, dims, steps), "describe a bias"));
    AMP_CUDA_TRY(check(dnn.make_activation(&p->activation), "describe an activation"));
    return check(dnn.set_activation(p->activation, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0.0),
                 "describe an activation");
}

static amp_cuda_result describe_filter(plan *p, const amp_cuda_convolution *c) {
    const cudnnTensorFormat_t format = c->channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    const int64_t rows = c->transposed ? c->in_channels : c->out_channels;
    const int64_t columns = c->transposed ? c->out_channels : c->in_channels;
    int64_t elements = c->groups * rows * columns;
    int dims[MOST_DIMS] = {(int)(c->groups * rows), (int)columns};
    for (int i = 0; i < c->axes; i++) dims[2 + i] = (int)c->axis[i].kernel, elements *= c->axis[i].kernel;
    if (elements > INT32_MAX) return amp_cuda_say(AMP_CUDA_REFUSED, "cuDNN counts the elements in 32 bits");
    AMP_CUDA_TRY(check(dnn.make_filter(&p->w), "describe weights"));
    return check(dnn.set_filter(p->w, data_type(c->type), format, c->axes + 2, dims), "describe weights");
}

static cudnnMathType_t math_type(const amp_cuda_convolution *c) {
    return c->type == AMP_CUDA_F64 || (c->type == AMP_CUDA_F32 && !c->tf32) ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
}

static amp_cuda_result describe(plan *p, const amp_cuda_convolution *c) {
    const cudnnDataType_t compute = c->type == AMP_CUDA_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    int pad[3], stride[3], dilation[3];
    for (int i = 0; i < c->axes; i++) {
        pad[i] = (int)c->axis[i].pad, stride[i] = (int)c->axis[i].stride, dilation[i] = (int)c->axis[i].dilation;
    }
    AMP_CUDA_TRY(describe_tensor(&p->x, c, c->batch, c->groups * c->in_channels, true));
    AMP_CUDA_TRY(describe_tensor(&p->y, c, c->batch, c->groups * c->out_channels, false));
    AMP_CUDA_TRY(describe_filter(p, c));
    AMP_CUDA_TRY(check(dnn.make(&p->convolution), "describe a convolution"));
    AMP_CUDA_TRY(check(dnn.set(p->convolution, c->axes, pad, stride, dilation, CUDNN_CROSS_CORRELATION, compute),
                       "convolve so"));
    AMP_CUDA_TRY(check(dnn.set_groups(p->convolution, (int)c->groups), "convolve in groups"));
    AMP_CUDA_TRY(check(dnn.set_math(p->convolution, math_type(c)), "choose a way to multiply"));
    return c->with_bias ? describe_bias(p, c) : AMP_CUDA_OK;
}

/* The first of the library's answers that gives the same sums every time, and no TF32 where f32 must be exact. */
#define CHOOSE(answers, count)                                                                                         \
    for (int i = 0; i < (count); i++) {                                                                                \
        if ((answers)[i].status != CUDNN_STATUS_SUCCESS || (answers)[i].determinism != CUDNN_DETERMINISTIC) continue;  \
        if ((answers)[i].memory > workspace_limit) continue;                                                           \
        if (exact && (answers)[i].mathType != CUDNN_FMA_MATH && (answers)[i].mathType != CUDNN_DEFAULT_MATH) continue; \
        p->algorithm = (int)(answers)[i].algo;                                                                         \
        p->workspace = (answers)[i].memory;                                                                            \
        if (exact) return AMP_CUDA_OK;                                                                                 \
        return check(dnn.set_math(p->convolution, (answers)[i].mathType), "choose a way to multiply");                 \
    }

/* cuDNN's manual: with the identity for an activation, the fused call has this algorithm only. */
static amp_cuda_result take_the_one_with_bias(plan *p, cudnnHandle_t handle) {
    const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
    p->algorithm = (int)algorithm;
    AMP_CUDA_TRY(check(dnn.workspace(handle, p->x, p->w, p->convolution, p->y, algorithm, &p->workspace),
                       "add the bias to this convolution"));
    if (p->workspace <= workspace_limit) return AMP_CUDA_OK;
    return amp_cuda_say(AMP_CUDA_REFUSED, "cuDNN wants too large a workspace for this convolution");
}

static amp_cuda_result choose(plan *p, const amp_cuda_convolution *c, cudnnHandle_t handle) {
    const bool exact = math_type(c) == CUDNN_FMA_MATH;
    int count = 0;
    if (c->with_bias) return take_the_one_with_bias(p, handle);
    if (c->transposed) {
        cudnnConvolutionBwdDataAlgoPerf_t answers[2 * CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT];
        AMP_CUDA_TRY(check(dnn.choose_back(handle, p->w, p->x, p->convolution, p->y,
                                           2 * CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &count, answers),
                           "choose an algorithm"));
        CHOOSE(answers, count)
    } else {
        cudnnConvolutionFwdAlgoPerf_t answers[2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
        AMP_CUDA_TRY(check(
            dnn.choose(handle, p->x, p->w, p->convolution, p->y, 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, answers),
            "choose an algorithm"));
        CHOOSE(answers, count)
    }
    return amp_cuda_say(AMP_CUDA_REFUSED, "cuDNN has no algorithm for this convolution");
}

static amp_cuda_result make(void *made, const void *key) {
    plan *p = made;
    AMP_CUDA_TRY(describe(p, key));
    return choose(p, key, handles[amp_cuda_selected()]);
}

static amp_cuda_plans plans = AMP_CUDA_PLANS(plan, 512, make, clear, "cuDNN has no algorithm for this convolution");

/* ---- Running ----------------------------------------------------------------------------------------------------- */
/* Factors, as the library reads them. */
typedef union number {
    float f32;
    double f64;
} number;

static number number_of(const amp_cuda_convolution *c, bool one) {
    number n = {.f64 = one ? 1.0 : 0.0};
    if (c->type != AMP_CUDA_F64) n.f32 = one ? 1.0f : 0.0f;
    return n;
}

static cudnnStatus_t execute(const plan *p, const amp_cuda_convolution *c, cudnnHandle_t handle, void *area) {
    const number one = number_of(c, true), zero = number_of(c, false);
    if (c->transposed) {
        return dnn.run_back(handle, &one, p->w, c->w, p->x, c->x, p->convolution,
                            (cudnnConvolutionBwdDataAlgo_t)p->algorithm, area, p->workspace, &zero, p->y, c->y);
    }
    const cudnnConvolutionFwdAlgo_t algorithm = (cudnnConvolutionFwdAlgo_t)p->algorithm;
    if (c->with_bias) { /* without a residual the result stands there, times 0 */
        return dnn.run_fused(handle, &one, p->x, c->x, p->w, c->w, p->convolution, algorithm, area, p->workspace,
                             c->with_residual ? &one : &zero, p->y, c->with_residual ? c->residual : c->y, p->bias,
                             c->bias, p->activation, p->y, c->y);
    }
    return dnn.run(handle, &one, p->x, c->x, p->w, c->w, p->convolution, algorithm, area, p->workspace, &zero, p->y,
                   c->y);
}

static amp_cuda_result run(const amp_cuda_convolution *c, int device, CUstream stream) {
    const amp_cuda_convolution key = key_of(c);
    amp_cuda_block *block = NULL;
    void *area = NULL;
    amp_cuda_result result = handles[device] ? AMP_CUDA_OK : check(dnn.create(&handles[device]), "start");
    plan *p = result == AMP_CUDA_OK ? amp_cuda_plan_for(&plans, &key, &key, &result) : NULL;
    if (!p || !c->y) return result; /* asked for its plan only */
    if (p->workspace > 0) AMP_CUDA_TRY(amp_cuda_allocate(p->workspace, &block, &area));
    result = check(dnn.set_stream(handles[device], stream), "work on a stream");
    if (result == AMP_CUDA_REFUSED) {
        result = AMP_CUDA_FAILED; /* that is the stream's fault, not the shape's */
    } else if (result == AMP_CUDA_OK) {
        result = check(execute(p, c, handles[device], area), "run a convolution");
        if (result == AMP_CUDA_REFUSED) result = amp_cuda_plan_failed(&plans, p, result);
    }
    if (block) amp_cuda_release(block);
    return result;
}

/* Under the lock: a handle knows one stream. */
amp_cuda_result amp_cuda_convolve(const amp_cuda_convolution *convolution) {
    CUstream stream;
    pthread_once(&load_once, load);
    if (*missing) return AMP_CUDA_MISSING;
    amp_cuda_relax();
    AMP_CUDA_TRY(amp_cuda_enter(&stream));
    pthread_mutex_lock(&lock);
    const amp_cuda_result result = run(convolution, amp_cuda_selected(), stream);
    pthread_mutex_unlock(&lock);
    return result;
}
#else
amp_cuda_result amp_cuda_convolve(const amp_cuda_convolution *convolution) {
    (void)convolution;
    return AMP_CUDA_MISSING;
}
#endif
