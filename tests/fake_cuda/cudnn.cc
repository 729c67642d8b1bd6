// libcudnn for machines without a GPU: convolutions by their definition, in the terms of the real one. What it does not
// know, it refuses; so it does results whose extents do not follow. Of the answers about algorithms only one may be
// taken: the others are not deterministic, or want more memory than there is. It complains of what the real one would
// not notice: a stream that was not set, memory that is too small or less aligned than tensor cores need, a bias of
// another type or shape.
#include <cudnn.h>

#include <cstring>
#include <vector>

#include "cuda/kernels/kernel.h"
#include "fake_cuda.h"

namespace {

struct Tensor {
    cudnnDataType_t type;
    std::vector<int> dims, steps;
};
struct Filter {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    std::vector<int> dims;
};
struct Convolution {
    std::vector<int> pad, stride, dilation;
    int groups = 1;
    cudnnDataType_t compute;
    cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};
struct Activation {
    cudnnActivationMode_t mode;
    cudnnNanPropagation_t nan;
};

// A handle is its device's.
struct Handle {
    int device;
    cudaStream_t stream = nullptr;
};

constexpr size_t area_bytes = 4096;
constexpr int good_algorithm = 1; // IMPLICIT_PRECOMP_GEMM forwards

// Handles are addresses of what they stand for.
template <class Object, class Handle>
cudnnStatus_t make(Handle *handle) {
    *handle = reinterpret_cast<Handle>(new Object());
    return CUDNN_STATUS_SUCCESS;
}
template <class Object, class Handle>
cudnnStatus_t destroy(Handle handle) {
    delete reinterpret_cast<Object *>(handle);
    return CUDNN_STATUS_SUCCESS;
}
template <class Object, class Handle>
Object &of(Handle handle) {
    return *reinterpret_cast<Object *>(const_cast<void *>(static_cast<const void *>(handle)));
}

amp_dtype dtype_of(cudnnDataType_t type) {
    return type == CUDNN_DATA_HALF       ? AMP_F16
           : type == CUDNN_DATA_BFLOAT16 ? AMP_BF16
           : type == CUDNN_DATA_FLOAT    ? AMP_F32
                                         : AMP_F64;
}

// Elements from one index of a filter to the next.
std::vector<int64_t> steps_of(const Filter &w) {
    const size_t rank = w.dims.size();
    std::vector<int64_t> steps(rank);
    int64_t step = 1;
    if (w.format == CUDNN_TENSOR_NHWC) steps[1] = step, step *= w.dims[1];
    for (size_t d = rank - 1; d >= 2; d--) steps[d] = step, step *= w.dims[d];
    if (w.format != CUDNN_TENSOR_NHWC) steps[1] = step, step *= w.dims[1];
    steps[0] = step;
    return steps;
}

// Steps through all indices below `extents`; false at the end.
bool next(std::vector<int> *index, const int *extents) {
    for (size_t i = index->size(); i-- > 0;) {
        if (++(*index)[i] < extents[i]) return true;
        (*index)[i] = 0;
    }
    return false;
}

// `wide` is the side that is padded: the input of a convolution, the result of a transposed one.
bool fits(const Tensor &wide, const Filter &w, const Convolution &c, const Tensor &narrow) {
    const size_t axes = c.pad.size();
    if (wide.dims.size() != axes + 2 || w.dims.size() != axes + 2 || narrow.dims.size() != axes + 2) return false;
    if (wide.type != w.type || narrow.type != w.type || wide.dims[0] != narrow.dims[0]) return false;
    if (wide.dims[1] != w.dims[1] * c.groups || narrow.dims[1] != w.dims[0] || w.dims[0] % c.groups) return false;
    for (size_t d = 0; d < axes; d++) {
        const int room = wide.dims[2 + d] + 2 * c.pad[d] - c.dilation[d] * (w.dims[2 + d] - 1) - 1;
        if (room < 0 || room / c.stride[d] + 1 != narrow.dims[2 + d]) return false;
    }
    return true;
}

// meet(wide, filter, narrow, …): every triple of elements that belong together, by their offsets.
template <class Meet>
void each(const Tensor &wide, const Filter &w, const Convolution &c, const Tensor &narrow, Meet meet) {
    const size_t axes = c.pad.size();
    const std::vector<int64_t> steps = steps_of(w);
    const int rows = w.dims[0] / c.groups;
    std::vector<int> at(axes + 2), tap(axes + 1); // of narrow; of a row of the filter
    do {
        do {
            int64_t from =
                at[0] * int64_t(wide.steps[0]) + (at[1] / rows * w.dims[1] + tap[0]) * int64_t(wide.steps[1]);
            int64_t weight = at[1] * steps[0] + tap[0] * steps[1], to = 0;
            bool inside = true;
            for (size_t d = 0; d < axes; d++) {
                const int i = at[2 + d] * c.stride[d] - c.pad[d] + tap[1 + d] * c.dilation[d];
                inside = inside && i >= 0 && i < wide.dims[2 + d];
                from += i * int64_t(wide.steps[2 + d]);
                weight += tap[1 + d] * steps[2 + d];
            }
            for (size_t d = 0; d < at.size(); d++) to += at[d] * int64_t(narrow.steps[d]);
            if (inside) meet(from, weight, to);
        } while (next(&tap, &w.dims[1]));
    } while (next(&at, narrow.dims.data()));
}

size_t size_of(const Tensor &t) {
    size_t last = 0;
    for (size_t d = 0; d < t.dims.size(); d++) last += size_t(t.dims[d] - 1) * size_t(t.steps[d]);
    return last + 1;
}

size_t bytes_of(const Tensor &t) {
    return size_of(t) * (t.type == CUDNN_DATA_DOUBLE ? 8 : t.type == CUDNN_DATA_FLOAT ? 4 : 2);
}
size_t bytes_of(const Filter &w) {
    size_t bytes = bytes_of(Tensor{w.type, {1}, {1}});
    for (int extent : w.dims) bytes *= size_t(extent);
    return bytes;
}

bool computes_so(const Convolution &c, cudnnDataType_t type) {
    const bool wide = type == CUDNN_DATA_DOUBLE, narrow = type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
    if (c.compute != (wide ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT)) return false;
    return narrow || !wide || c.math == CUDNN_FMA_MATH;
}

// Whether it can run; then device memory may be touched.
cudnnStatus_t begin(cudnnHandle_t handle, const Convolution &c, cudnnDataType_t type, int algorithm,
                    std::vector<fake_access> accesses, void *area, size_t bytes) {
    const auto &h = of<Handle>(handle);
    if (h.device != fake_cuda_device() || algorithm != good_algorithm) return CUDNN_STATUS_BAD_PARAM;
    if (!fake_cuda_has_room(fake_cuda()->library_bytes)) return CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    if (fake_cuda()->fail_convolution) return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    accesses.push_back(fake_write(area, bytes));
    bool good = computes_so(c, type) || fake_cuda_complain("cuDNN: types that do not go together");
    if (bytes < area_bytes) good = fake_cuda_complain("cuDNN: the workspace is too small");
    for (const fake_access &a : accesses) {
        if (uintptr_t(a.memory) % 16) good = fake_cuda_complain("cuDNN: memory is not aligned to 16 bytes");
    }
    if (!good || !fake_cuda_begin(h.stream, "cuDNN", accesses.data(), accesses.size()))
        return CUDNN_STATUS_EXECUTION_FAILED;
    fake_cuda()->convolutions++;
    std::memset(area, 0xff, bytes);
    return CUDNN_STATUS_SUCCESS;
}

// One number for each channel, of the result's type.
bool is_bias_of(const Tensor &bias, const Tensor &y) {
    bool good = bias.type == y.type && bias.dims.size() == y.dims.size();
    for (size_t d = 0; good && d < y.dims.size(); d++) good = bias.dims[d] == (d == 1 ? y.dims[1] : 1);
    return good && bias.steps[1] == 1;
}

double factor_of(const Convolution &c, cudnnDataType_t type, double x) {
    return type == CUDNN_DATA_FLOAT && c.math != CUDNN_FMA_MATH ? fake_tf32(x) : x;
}

template <class Perf, class Algorithm>
cudnnStatus_t answer(const Convolution &c, bool fits, int asked, int *count, Perf *answers) {
    fake_cuda()->heuristics++;
    *count = 0;
    if (!fits || asked < 3) return CUDNN_STATUS_BAD_PARAM;
    if (fake_cuda()->refuse_convolutions) return CUDNN_STATUS_NOT_SUPPORTED;
    const auto put = [&](int algorithm, size_t memory, cudnnDeterminism_t determinism) {
        Perf &a = answers[(*count)++];
        std::memset(&a, 0, sizeof a);
        a.algo = static_cast<Algorithm>(algorithm);
        a.status = CUDNN_STATUS_SUCCESS;
        a.memory = memory;
        a.determinism = determinism;
        a.mathType = c.math;
    };
    put(0, 0, CUDNN_NON_DETERMINISTIC);
    put(2, size_t(1) << 40, CUDNN_DETERMINISTIC);
    put(good_algorithm, fake_cuda()->convolution_area, CUDNN_DETERMINISTIC);
    return CUDNN_STATUS_SUCCESS;
}

// result = finish(sum, offset), of what each() adds to sums.
template <class Finish>
void write(const Tensor &t, const std::vector<double> &sums, void *result, Finish finish) {
    std::vector<int> at(t.dims.size());
    do {
        int64_t to = 0;
        for (size_t d = 0; d < at.size(); d++) to += at[d] * int64_t(t.steps[d]);
        store<double>(result, dtype_of(t.type), to, finish(sums[size_t(to)], to, at[1]));
    } while (next(&at, t.dims.data()));
}

std::vector<double> forward(const Tensor &x, const void *x_data, const Filter &w, const void *w_data,
                            const Convolution &c, const Tensor &y) {
    std::vector<double> sums(size_of(y));
    const amp_dtype dtype = dtype_of(x.type);
    each(x, w, c, y, [&](int64_t from, int64_t weight, int64_t to) {
        sums[size_t(to)] += factor_of(c, x.type, load<double>(x_data, dtype, from)) *
                            factor_of(c, x.type, load<double>(w_data, dtype, weight));
    });
    return sums;
}

double number(const Tensor &t, const void *scale) {
    return t.type == CUDNN_DATA_DOUBLE ? *static_cast<const double *>(scale) : *static_cast<const float *>(scale);
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    if (fake_cuda_device() < 0) return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = reinterpret_cast<cudnnHandle_t>(new Handle{fake_cuda_device()});
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    of<Handle>(handle).stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t) {
    return make<Tensor>(t);
}
EXPORT cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) {
    return destroy<Tensor>(t);
}
EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t t, cudnnDataType_t type, int rank,
                                                const int dims[], const int steps[]) {
    if (rank < 4 || rank > 5) return CUDNN_STATUS_NOT_SUPPORTED;
    of<Tensor>(t) = {type, {dims, dims + rank}, {steps, steps + rank}};
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *w) {
    return make<Filter>(w);
}
EXPORT cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t w) {
    return destroy<Filter>(w);
}
EXPORT cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t w, cudnnDataType_t type,
                                                cudnnTensorFormat_t format, int rank, const int dims[]) {
    of<Filter>(w) = {type, format, {dims, dims + rank}};
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c) {
    return make<Convolution>(c);
}
EXPORT cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) {
    return destroy<Convolution>(c);
}
EXPORT cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int axes, const int pad[],
                                                     const int stride[], const int dilation[],
                                                     cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
    for (int d = 0; d < axes; d++) {
        if (pad[d] < 0 || stride[d] < 1 || dilation[d] < 1) return CUDNN_STATUS_BAD_PARAM;
    }
    if (mode != CUDNN_CROSS_CORRELATION) return CUDNN_STATUS_NOT_SUPPORTED;
    auto &convolution = of<Convolution>(c);
    convolution.pad.assign(pad, pad + axes);
    convolution.stride.assign(stride, stride + axes);
    convolution.dilation.assign(dilation, dilation + axes);
    convolution.compute = compute;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t c, int groups) {
    of<Convolution>(c).groups = groups;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c, cudnnMathType_t math) {
    of<Convolution>(c).math = math;
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *a) {
    return make<Activation>(a);
}
EXPORT cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t a) {
    return destroy<Activation>(a);
}
EXPORT cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t a, cudnnActivationMode_t mode,
                                                  cudnnNanPropagation_t nan, double) {
    of<Activation>(a) = {mode, nan};
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                            const cudnnFilterDescriptor_t w,
                                                            const cudnnConvolutionDescriptor_t c,
                                                            const cudnnTensorDescriptor_t y, const int asked,
                                                            int *count, cudnnConvolutionFwdAlgoPerf_t *answers) {
    const auto &convolution = of<Convolution>(c);
    return answer<cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t>(
        convolution, fits(of<Tensor>(x), of<Filter>(w), convolution, of<Tensor>(y)), asked, count, answers);
}
EXPORT cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, const cudnnFilterDescriptor_t w,
                                                                 const cudnnTensorDescriptor_t dy,
                                                                 const cudnnConvolutionDescriptor_t c,
                                                                 const cudnnTensorDescriptor_t dx, const int asked,
                                                                 int *count,
                                                                 cudnnConvolutionBwdDataAlgoPerf_t *answers) {
    const auto &convolution = of<Convolution>(c);
    return answer<cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t>(
        convolution, fits(of<Tensor>(dx), of<Filter>(w), convolution, of<Tensor>(dy)), asked, count, answers);
}
EXPORT cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t x,
                                                             const cudnnFilterDescriptor_t w,
                                                             const cudnnConvolutionDescriptor_t c,
                                                             const cudnnTensorDescriptor_t y,
                                                             cudnnConvolutionFwdAlgo_t algorithm, size_t *bytes) {
    fake_cuda()->heuristics++;
    if (!fits(of<Tensor>(x), of<Filter>(w), of<Convolution>(c), of<Tensor>(y))) return CUDNN_STATUS_BAD_PARAM;
    if (algorithm != good_algorithm || fake_cuda()->refuse_convolutions) return CUDNN_STATUS_NOT_SUPPORTED;
    *bytes = fake_cuda()->convolution_area;
    return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x,
                                             const void *x_data, const cudnnFilterDescriptor_t w, const void *w_data,
                                             const cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t algorithm,
                                             void *area, size_t bytes, const void *beta,
                                             const cudnnTensorDescriptor_t y, void *y_data) {
    const auto &tensor = of<Tensor>(y), &input = of<Tensor>(x);
    const auto &filter = of<Filter>(w);
    if (number(tensor, alpha) != 1 || number(tensor, beta) != 0) return CUDNN_STATUS_NOT_SUPPORTED;
    if (const cudnnStatus_t status = begin(handle, of<Convolution>(c), tensor.type, algorithm,
                                           {fake_read(x_data, bytes_of(input)), fake_read(w_data, bytes_of(filter)),
                                            fake_write(y_data, bytes_of(tensor))},
                                           area, bytes))
        return status;
    const auto sums = forward(input, x_data, filter, w_data, of<Convolution>(c), tensor);
    write(tensor, sums, y_data, [](double sum, int64_t, int) { return sum; });
    fake_cuda_end();
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x, const void *x_data,
    const cudnnFilterDescriptor_t w, const void *w_data, const cudnnConvolutionDescriptor_t c,
    cudnnConvolutionFwdAlgo_t algorithm, void *area, size_t bytes, const void *beta, const cudnnTensorDescriptor_t z,
    const void *z_data, const cudnnTensorDescriptor_t bias_descriptor, const void *bias,
    const cudnnActivationDescriptor_t a, const cudnnTensorDescriptor_t y, void *y_data) {
    const auto &tensor = of<Tensor>(y), &input = of<Tensor>(x);
    const auto &filter = of<Filter>(w);
    const amp_dtype dtype = dtype_of(tensor.type);
    const double keep = number(tensor, beta);
    const bool relu = of<Activation>(a).mode == CUDNN_ACTIVATION_RELU;
    if (number(tensor, alpha) != 1 || !bias || !z_data) return CUDNN_STATUS_NOT_SUPPORTED;
    if (of<Activation>(a).nan != CUDNN_NOT_PROPAGATE_NAN) return CUDNN_STATUS_NOT_SUPPORTED; // so its manual
    if (!relu && algorithm != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) return CUDNN_STATUS_NOT_SUPPORTED;
    if (z != y || !is_bias_of(of<Tensor>(bias_descriptor), tensor)) {
        fake_cuda_complain("cuDNN: a bias or residual of another type or shape");
        return CUDNN_STATUS_EXECUTION_FAILED;
    }
    const auto narrow = size_t(tensor.dims[1]) * (bytes_of(tensor) / size_of(tensor));
    if (const cudnnStatus_t status =
            begin(handle, of<Convolution>(c), tensor.type, algorithm,
                  {fake_read(x_data, bytes_of(input)), fake_read(w_data, bytes_of(filter)), fake_read(bias, narrow),
                   fake_read(z_data, bytes_of(tensor)), fake_write(y_data, bytes_of(tensor))},
                  area, bytes))
        return status;
    const auto sums = forward(input, x_data, filter, w_data, of<Convolution>(c), tensor);
    write(tensor, sums, y_data, [&](double sum, int64_t at, int channel) {
        if (keep != 0) sum += keep * load<double>(z_data, dtype, at);
        sum += load<double>(bias, dtype, channel);
        return relu && !(sum > 0) ? 0 : sum; // of NaN too
    });
    fake_cuda_end();
    return CUDNN_STATUS_SUCCESS;
}
EXPORT cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha,
                                                  const cudnnFilterDescriptor_t w, const void *w_data,
                                                  const cudnnTensorDescriptor_t dy, const void *dy_data,
                                                  const cudnnConvolutionDescriptor_t c,
                                                  cudnnConvolutionBwdDataAlgo_t algorithm, void *area, size_t bytes,
                                                  const void *beta, const cudnnTensorDescriptor_t dx, void *dx_data) {
    const auto &tensor = of<Tensor>(dx), &input = of<Tensor>(dy);
    const auto &convolution = of<Convolution>(c);
    const auto &filter = of<Filter>(w);
    const amp_dtype dtype = dtype_of(tensor.type);
    if (number(tensor, alpha) != 1 || number(tensor, beta) != 0) return CUDNN_STATUS_NOT_SUPPORTED;
    if (const cudnnStatus_t status = begin(handle, convolution, tensor.type, algorithm,
                                           {fake_read(dy_data, bytes_of(input)), fake_read(w_data, bytes_of(filter)),
                                            fake_write(dx_data, bytes_of(tensor))},
                                           area, bytes))
        return status;
    std::vector<double> sums(size_of(tensor));
    each(tensor, filter, convolution, input, [&](int64_t to, int64_t weight, int64_t from) {
        sums[size_t(to)] += factor_of(convolution, tensor.type, load<double>(dy_data, dtype, from)) *
                            factor_of(convolution, tensor.type, load<double>(w_data, dtype, weight));
    });
    write(tensor, sums, dx_data, [](double sum, int64_t, int) { return sum; });
    fake_cuda_end();
    return CUDNN_STATUS_SUCCESS;
}

EXPORT size_t cudnnGetVersion() {
    return CUDNN_VERSION;
}
