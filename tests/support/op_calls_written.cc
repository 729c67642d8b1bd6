// Calls written by hand: of ops, and of their overloads, that have no recorded case.
#include <cmath>

#include "op_calls.h"

namespace op_calls {

namespace {

using Shape = std::vector<int64_t>;

// Numbers between 0 and 1, none twice in a row.
Tensor f32(const Shape &shape) {
    Tensor t;
    t.shape = shape;
    t.bytes.resize(elements(shape) * sizeof(float));
    auto *values = reinterpret_cast<float *>(t.bytes.data());
    for (size_t i = 0; i < elements(shape); i++) values[i] = float(std::fmod(0.05 + 0.618 * double(i), 1.0));
    return t;
}

// 0, 1, … bound - 1, 0, …
Tensor whole(amp_dtype dtype, const Shape &shape, int64_t bound) {
    Tensor t;
    t.dtype = AMP_I64;
    t.shape = shape;
    t.bytes.resize(elements(shape) * sizeof bound);
    auto *values = reinterpret_cast<int64_t *>(t.bytes.data());
    for (size_t i = 0; i < elements(shape); i++) values[i] = int64_t(i) % bound;
    return converted(t, dtype);
}

struct Value {
    Value(Tensor t) : kind(AMP_VALUE_TENSOR), tensors{std::move(t)} {}
    Value(std::vector<Tensor> list) : kind(AMP_VALUE_TENSOR_LIST), tensors(std::move(list)) {}
    Value(const char *word) : kind(AMP_VALUE_STRING), text(word) {}
    Value(int number) : Value(amp_int(number)) {}
    Value(double number) : Value(amp_float(number)) {}
    Value(bool truth) : Value(amp_bool(truth)) {}
    Value(amp_scalar scalar) : kind(AMP_VALUE_SCALAR) {
        as.scalar = scalar;
    }
    Value(amp_dims dims) : kind(AMP_VALUE_DIMS) {
        as.dims = dims;
    }
    Value(amp_floats floats) : kind(AMP_VALUE_FLOATS) {
        as.floats = floats;
    }
    Value(amp_dtype dtype) : kind(AMP_VALUE_DTYPE) {
        as.dtype = dtype;
    }

    amp_value_kind kind;
    decltype(amp_value::as) as = {};
    std::vector<Tensor> tensors;
    std::string text;
};

struct Row {
    const char *op;
    std::vector<std::pair<const char *, Value>> arguments;
};

// An LSTM of one layer, from 3 features to 2.
std::vector<Tensor> gates() {
    return {f32({8, 3}), f32({8, 2}), f32({8}), f32({8})};
}

std::vector<Row> rows() {
    const Tensor m = f32({2, 3}), square = f32({3, 3}), mask = whole(AMP_BOOL, {2, 3}, 2);
    Tensor first_rows = whole(AMP_I64, {3}, 1); // pivots: every row is exchanged with the first one
    for (size_t i = 0; i < 3; i++) reinterpret_cast<int64_t *>(first_rows.bytes.data())[i] = 1;
    first_rows = converted(first_rows, AMP_I32);
    const Tensor integers = whole(AMP_I64, {2, 3}, 5);
    const Tensor line = f32({1, 2, 5}), image = f32({1, 2, 4, 5}), volume = f32({1, 2, 3, 4, 5});
    return {
        {"zeros", {{"size", AMP_DIMS(2, 3)}}},
        {"ones", {{"size", AMP_DIMS(2, 3)}, {"dtype", AMP_I64}}},
        {"empty", {{"size", AMP_DIMS(2, 3)}, {"dtype", AMP_BF16}}},
        {"full", {{"size", AMP_DIMS(2, 3)}, {"fill_value", 2.5}}},
        {"arange", {{"end", 7}}},
        {"arange", {{"start", 1}, {"end", 7.5}, {"step", 2}}},
        {"rand", {{"size", AMP_DIMS(2, 3)}}},
        {"randn", {{"size", AMP_DIMS(2, 3)}, {"dtype", AMP_BF16}}},
        {"randint", {{"high", 5}, {"size", AMP_DIMS(2, 3)}}},
        {"randint", {{"low", -2}, {"high", 5}, {"size", AMP_DIMS(2, 3)}}},
        {"randperm", {{"n", 7}}},
        {"rand_like", {{"input", m}}},
        {"randn_like", {{"input", m}}},
        {"randint_like", {{"input", m}, {"high", 5}}},
        {"randint_like", {{"input", m}, {"low", -2}, {"high", 5}}},
        {"uniform", {{"input", m}, {"from", -1.0}, {"to", 3.0}}},
        {"normal", {{"input", m}, {"mean", -1.0}, {"std", 3.0}}},
        {"bernoulli", {{"input", m}, {"p", 0.25}}},
        {"bernoulli", {{"input", m}, {"p", m}}},
        {"multinomial", {{"input", m}, {"num_samples", 2}}},
        {"dropout", {{"input", m}, {"p", 0.25}}},
        {"feature_dropout", {{"input", f32({2, 3, 4})}, {"p", 0.25}}},
        {"alpha_dropout", {{"input", m}, {"p", 0.25}}},
        {"linear_pointwise", {{"input", m}, {"weight", f32({4, 3})}, {"bias", f32({4})}, {"attr", "gelu"}}},
        {"linear_pointwise",
         {{"input", m}, {"weight", f32({4, 3})}, {"attr", "hardtanh"}, {"scalars", AMP_FLOATS(-0.5, 0.5)}}},
        {"linear_pointwise", {{"input", m}, {"other", f32({2, 1})}, {"weight", f32({4, 3})}, {"attr", "add"}}},
        {"linear_pointwise",
         {{"input", m}, {"other", f32({2, 4})}, {"weight", f32({4, 3})}, {"bias", f32({4})}, {"attr", "mul"}}},
        {"batch_norm_pointwise",
         {{"input", image}, {"running_mean", f32({2})}, {"running_var", f32({2})}, {"attr", "relu"}}},
        {"batch_norm_pointwise",
         {{"input", image},
          {"running_mean", f32({2})},
          {"running_var", f32({2})},
          {"weight", f32({2})},
          {"bias", f32({2})},
          {"attr", "leaky_relu"},
          {"dtype", AMP_F64}}},
        {"empty_like", {{"input", m}}},
        {"t", {{"input", m}}},
        {"contiguous", {{"input", m}}},
        {"detach", {{"input", m}}},
        {"to", {{"input", m}, {"dtype", AMP_BF16}, {"copy", true}}},
        {"to", {{"input", m}, {"device", 0}, {"dtype", AMP_F64}}},
        {"equal", {{"input", m}, {"other", m}}},
        {"cummin", {{"input", m}, {"dim", 1}}},
        {"chain_matmul", {{"matrices", std::vector<Tensor>{m, square, f32({3, 2})}}}},
        {"max", {{"input", m}}},
        {"min", {{"input", m}}},
        {"clamp", {{"input", m}, {"min", 0.25}, {"max", 0.5}}},
        {"lerp", {{"input", m}, {"end", m}, {"weight", m}}},
        {"convolution_pointwise",
         {{"input", image}, {"weight", f32({3, 2, 2, 2})}, {"bias", f32({3})}, {"attr", "gelu"}, {"scale", f32({3})}}},
        {"convolution_pointwise",
         {{"input", image}, {"other", f32({3, 1, 4})}, {"weight", f32({3, 2, 2, 2})}, {"attr", "relu"}}},
        {"convolution_transpose_pointwise",
         {{"input", image}, {"weight", f32({2, 3, 2, 2})}, {"stride", AMP_DIMS(2, 2)}, {"attr", "swish"}}},
        {"pairwise_distance", {{"x1", m}, {"x2", f32({3})}, {"p", 2.0}, {"eps", 1e-6}, {"keepdim", false}}},
        {"upsample_nearest1d", {{"input", line}, {"output_size", AMP_DIMS(7)}}},
        {"upsample_nearest2d", {{"input", image}, {"output_size", AMP_DIMS(3, 7)}}},
        {"upsample_nearest3d", {{"input", volume}, {"output_size", AMP_DIMS(3, 4, 7)}}},
        {"upsample_nearest_exact1d", {{"input", line}, {"output_size", AMP_DIMS(7)}}},
        {"upsample_nearest_exact2d", {{"input", image}, {"output_size", AMP_DIMS(3)}, {"scales_w", 0.7}}},
        {"upsample_nearest_exact3d", {{"input", volume}, {"output_size", AMP_DIMS(3, 2, 7)}}},
        {"upsample_linear1d", {{"input", line}, {"output_size", AMP_DIMS(7)}, {"align_corners", true}}},
        {"upsample_bilinear2d", {{"input", image}, {"output_size", AMP_DIMS(3, 7)}, {"align_corners", false}}},
        {"upsample_trilinear3d", {{"input", volume}, {"output_size", AMP_DIMS(3, 2, 7)}, {"align_corners", false}}},
        {"upsample_bicubic2d", {{"input", image}, {"output_size", AMP_DIMS(3, 7)}, {"align_corners", true}}},
        {"upsample_bilinear2d_aa", {{"input", image}, {"output_size", AMP_DIMS(3, 7)}, {"align_corners", false}}},
        {"upsample_bicubic2d_aa", {{"input", image}, {"output_size", AMP_DIMS(3)}, {"align_corners", true}}},
        {"interpolate", {{"input", image}, {"scale_factor", AMP_FLOATS(0.7, 1.5)}}},
        {"grid_sampler",
         {{"input", image},
          {"grid", f32({1, 3, 2, 2})},
          {"interpolation_mode", 2},
          {"padding_mode", 1},
          {"align_corners", false}}},
        {"grid_sampler",
         {{"input", volume},
          {"grid", f32({1, 2, 3, 2, 3})},
          {"interpolation_mode", 0},
          {"padding_mode", 2},
          {"align_corners", true}}},
        {"rnn_layer",
         {{"input", f32({4, 2, 3})},
          {"hx", std::vector<Tensor>{f32({1, 2, 2}), f32({1, 2, 2})}},
          {"params", gates()},
          {"has_biases", true},
          {"num_layers", 1},
          {"dropout", 0.0},
          {"train", false},
          {"bidirectional", false},
          {"batch_first", false},
          {"mode", "lstm"}}},
        {"cross_entropy_loss",
         {{"input", m}, {"target", whole(AMP_I64, {2}, 3)}, {"weight", f32({3})}, {"label_smoothing", 0.1}}},
        {"nll_loss2d", {{"input", image}, {"target", whole(AMP_I64, {1, 4, 5}, 2)}, {"weight", f32({2})}}},
        {"multilabel_margin_loss_forward", {{"input", m}, {"target", whole(AMP_I64, {2, 3}, 3)}}},
        {"lu_with_info", {{"input", square}, {"pivot", true}, {"check_errors", true}}},
        {"lstsq", {{"input", f32({4, 2})}, {"A", f32({4, 3})}}},
        {"matrix_rank", {{"input", square}, {"tol", 0.1}, {"symmetric", false}}},
        {"orgqr", {{"input", f32({4, 3})}, {"tau", f32({3})}}},
        {"eig", {{"input", square}, {"eigenvectors", true}}},
        {"symeig", {{"input", square}, {"eigenvectors", true}, {"upper", false}}},
        {"exp2", {{"input", m}}},
        {"asinh", {{"input", m}}},
        {"acosh", {{"input", m}}},
        {"atanh", {{"input", m}}},
        {"erfc", {{"input", m}}},
        {"lgamma", {{"input", m}}},
        {"digamma", {{"input", m}}},
        {"detach", {{"input", m}}},
        {"polygamma", {{"n", 1}, {"input", m}}},
        {"gelu_backward", {{"grad_output", m}, {"input", m}}},
        {"silu_backward", {{"grad_output", m}, {"input", m}}},
        {"mish_backward", {{"grad_output", m}, {"input", m}}},
        {"log_sigmoid_backward", {{"grad_output", m}, {"input", m}}},
        {"hardsigmoid_backward", {{"grad_output", m}, {"input", m}}},
        {"hardswish_backward", {{"grad_output", m}, {"input", m}}},
        {"sigmoid_backward", {{"grad_output", m}, {"output", m}}},
        {"tanh_backward", {{"grad_output", m}, {"output", m}}},
        {"softmax_backward", {{"grad_output", m}, {"output", m}, {"dim", 1}}},
        {"log_softmax_backward", {{"grad_output", m}, {"output", m}, {"dim", 1}}},
        {"layer_norm_backward",
         {{"grad_output", f32({3, 4})},
          {"input", f32({3, 4})},
          {"normalized_shape", AMP_DIMS(4)},
          {"weight", f32({4})}}},
        {"rms_norm_backward",
         {{"grad_output", f32({3, 4})},
          {"input", f32({3, 4})},
          {"normalized_shape", AMP_DIMS(4)},
          {"weight", f32({4})}}},
        {"group_norm_backward",
         {{"grad_output", f32({2, 4, 3})}, {"input", f32({2, 4, 3})}, {"num_groups", 2}, {"weight", f32({4})}}},
        {"batch_norm_backward",
         {{"grad_output", f32({2, 4, 3})}, {"input", f32({2, 4, 3})}, {"weight", f32({4})}, {"training", true}}},
        {"scaled_dot_product_attention_backward",
         {{"grad_output", f32({2, 3, 4})},
          {"query", f32({2, 3, 4})},
          {"key", f32({2, 5, 4})},
          {"value", f32({2, 5, 4})}}},
        {"threshold_backward", {{"grad_output", m}, {"input", m}, {"threshold", 0.5}}},
        {"hardtanh_backward", {{"grad_output", m}, {"input", m}, {"min_val", -1.0}, {"max_val", 1.0}}},
        {"leaky_relu_backward", {{"grad_output", m}, {"input", m}, {"negative_slope", 0.01}}},
        {"elu_backward", {{"grad_output", m}, {"input", m}, {"alpha", 1.0}, {"scale", 1.0}, {"input_scale", 1.0}}},
        {"softplus_backward", {{"grad_output", m}, {"input", m}, {"beta", 1.0}, {"threshold", 20.0}}},
        {"logit", {{"input", m}, {"eps", 0.1}}},
        {"angle", {{"input", m}}},
        {"isposinf", {{"input", m}}},
        {"isneginf", {{"input", m}}},
        {"hardshrink", {{"input", m}, {"lambd", 0.25}}},
        {"softshrink", {{"input", m}, {"lambd", 0.25}}},
        {"tanhshrink", {{"input", m}}},
        {"logaddexp2", {{"input", m}, {"other", f32({3})}}},
        {"fmax", {{"input", m}, {"other", f32({3})}}},
        {"fmin", {{"input", m}, {"other", f32({3})}}},
        {"hypot", {{"input", m}, {"other", f32({3})}}},
        {"copysign", {{"input", m}, {"other", f32({3})}}},
        {"xlogy", {{"input", m}, {"other", f32({3})}}},
        {"ldexp", {{"input", m}, {"other", f32({3})}}},
        {"float_power", {{"input", m}, {"exponent", f32({3})}}},
        {"bitwise_and", {{"input", integers}, {"other", whole(AMP_I64, {3}, 3)}}},
        {"bitwise_or", {{"input", integers}, {"other", whole(AMP_I64, {3}, 3)}}},
        {"bitwise_xor", {{"input", integers}, {"other", whole(AMP_I64, {3}, 3)}}},
        {"bitwise_not", {{"input", integers}}},
        {"bitwise_left_shift", {{"input", integers}, {"other", whole(AMP_I64, {3}, 3)}}},
        {"bitwise_right_shift", {{"input", integers}, {"other", whole(AMP_I64, {3}, 3)}}},
        {"masked_select", {{"input", m}, {"mask", mask}}},
        {"masked_scatter", {{"input", m}, {"mask", mask}, {"source", f32({4})}}},
        {"nonzero", {{"input", mask}}},
        {"index",
         {{"input", square}, {"indices", std::vector<Tensor>{whole(AMP_I64, {2}, 3), whole(AMP_I64, {2}, 2)}}}},
        {"index_fill", {{"input", m}, {"dim", 1}, {"index", whole(AMP_I64, {2}, 3)}, {"value", 2.5}}},
        {"index_reduce",
         {{"input", m}, {"dim", 1}, {"index", whole(AMP_I64, {2}, 3)}, {"source", f32({2, 2})}, {"reduce", "amax"}}},
        {"scatter_reduce",
         {{"input", m},
          {"dim", 0},
          {"index", whole(AMP_I64, {2, 3}, 2)},
          {"src", m},
          {"reduce", "mean"},
          {"include_self", false}}},
        {"repeat_interleave", {{"input", m}, {"repeats", 2}, {"dim", 1}}},
        {"kthvalue", {{"input", m}, {"k", 2}, {"dim", 1}}},
        {"msort", {{"input", m}}},
        {"median", {{"input", m}}},
        {"nanmedian", {{"input", m}}},
        {"unique", {{"input", m}, {"return_inverse", true}, {"return_counts", true}}},
        {"aminmax", {{"input", m}, {"dim", 1}}},
        {"logcumsumexp", {{"input", m}, {"dim", 1}}},
        {"diag", {{"input", f32({3})}, {"diagonal", 1}}},
        {"diag_embed", {{"input", m}, {"offset", -1}}},
        {"linalg_det", {{"A", square}}},
        {"linalg_slogdet", {{"A", square}}},
        {"det", {{"input", square}}},
        {"slogdet", {{"input", square}}},
        {"logdet", {{"input", square}}},
        {"linalg_lu", {{"A", square}}},
        {"linalg_lu_factor", {{"A", square}, {"pivot", true}}},
        {"linalg_lu_solve",
         {{"LU", square}, {"pivots", first_rows}, {"B", f32({2, 3})}, {"left", false}, {"adjoint", true}}},
        {"linalg_solve_triangular", {{"input", square}, {"B", m}, {"upper", true}, {"left", false}}},
        {"linalg_matrix_power", {{"input", square}, {"n", 3}}},
        {"matrix_power", {{"input", square}, {"n", -1}}},
        {"matrix_exp", {{"input", square}}},
        {"linalg_matrix_exp", {{"input", square}}},
        {"linalg_vander", {{"x", f32({3})}, {"N", 4}}},
        {"linalg_pinv", {{"input", m}, {"rtol", 1e-3}}},
        {"linalg_norm", {{"input", m}, {"ord", 1}}},
        {"movedim", {{"input", volume}, {"source", AMP_DIMS(0, 1)}, {"destination", AMP_DIMS(-1, 0)}}},
        {"unflatten", {{"input", f32({2, 6})}, {"dim", 1}, {"sizes", AMP_DIMS(2, -1)}}},
        {"view_as_real", {{"input", converted(m, AMP_C64)}}},
        {"real", {{"input", m}}},
        {"imag", {{"input", converted(m, AMP_C64)}}},
        {"tensor_split", {{"input", m}, {"sections", 2}, {"dim", 1}}},
        {"rot90", {{"input", m}, {"k", 3}}},
        {"channel_shuffle", {{"input", image}, {"groups", 2}}},
        {"kron", {{"input", m}, {"other", square}}},
        {"diff", {{"input", m}, {"n", 1}, {"dim", 1}, {"prepend", f32({2, 1})}}},
        {"nansum", {{"input", m}, {"dim", AMP_DIMS(1)}}},
        {"nanmean", {{"input", m}, {"dim", AMP_DIMS(1)}}},
        {"trapezoid", {{"y", m}, {"x", f32({3})}, {"dim", 1}}},
        {"cov", {{"input", m}, {"correction", 0}, {"aweights", f32({3})}}},
        {"corrcoef", {{"input", m}}},
        {"adaptive_max_pool1d", {{"input", line}, {"output_size", AMP_DIMS(3)}, {"return_indices", true}}},
        {"max_unpool1d",
         {{"input", f32({1, 2, 3})}, {"indices", whole(AMP_I64, {1, 2, 3}, 6)}, {"kernel_size", AMP_DIMS(2)}}},
        {"gaussian_nll_loss", {{"input", m}, {"target", m}, {"var", f32({2})}, {"full", true}}},
        {"multilabel_soft_margin_loss", {{"input", m}, {"target", m}, {"weight", f32({3})}}},
        {"fft_hfft2", {{"input", square}, {"s", AMP_DIMS(3, 4)}}},
        {"fft_ihfft2", {{"input", square}}},
        {"fft_hfftn", {{"input", square}, {"dim", AMP_DIMS(0)}}},
        {"fft_ihfftn", {{"input", square}, {"dim", AMP_DIMS(0)}}},
        {"fft_fftshift", {{"input", m}}},
        {"fft_ifftshift", {{"input", m}, {"dim", AMP_DIMS(1)}}},
        // Overloads
        {"linalg_pinv", {{"input", square}, {"atol", f32({})}, {"hermitian", true}}},
        {"linalg_pinv", {{"a", f32({3, 2})}, {"b", f32({4, 2})}}},
        {"linalg_norm", {{"input", m}, {"ord", "fro"}}},
        {"tensor_split", {{"input", m}, {"indices", AMP_DIMS(1, 2)}, {"dim", 1}}},
        {"tensor_split", {{"input", m}, {"tensor_indices_or_sections", whole(AMP_I64, {2}, 3)}, {"dim", 1}}},
        {"trapezoid", {{"y", m}, {"dx", 0.5}, {"dim", 1}}},
        {"copysign", {{"input", m}, {"other", -1.5}}},
        {"xlogy", {{"input", m}, {"other", 2.5}}},
        {"xlogy", {{"input", 2.5}, {"other", m}}},
        {"float_power", {{"input", m}, {"exponent", 2.5}}},
        {"float_power", {{"input", 2.5}, {"exponent", m}}},
        {"bitwise_and", {{"input", integers}, {"other", 6}}},
        {"bitwise_or", {{"input", integers}, {"other", 6}}},
        {"bitwise_xor", {{"input", integers}, {"other", 6}}},
        {"bitwise_left_shift", {{"input", integers}, {"other", 2}}},
        {"bitwise_right_shift", {{"input", integers}, {"other", 1}}},
        {"index_fill", {{"input", m}, {"dim", 1}, {"index", whole(AMP_I64, {2}, 3)}, {"value", f32({})}}},
        {"repeat_interleave", {{"input", m}, {"repeats", whole(AMP_I64, {3}, 3)}, {"dim", 1}}},
        {"median", {{"input", m}, {"dim", 1}}},
        {"nanmedian", {{"input", m}, {"dim", 1}}},
        {"fill", {{"input", m}, {"value", f32({})}}},
        {"where", {{"condition", mask}, {"input", m}, {"other", 2}}},
        {"where", {{"condition", mask}, {"input", 1.5}, {"other", m}}},
        {"where", {{"condition", mask}, {"input", 1.5}, {"other", 2}}},
        {"foreach_non_finite_check_and_unscale",
         {{"grads", std::vector<Tensor>{m, f32({4})}}, {"found_inf", f32({})}, {"inv_scale", f32({1})}}},
        {"optimizer_update",
         {{"input", std::vector<Tensor>{f32({4})}},
          {"grad", std::vector<Tensor>{f32({4})}},
          {"state", std::vector<Tensor>{f32({4}), f32({4})}},
          {"algorithm", "adam"},
          {"numbers", AMP_FLOATS(1, 0, 1, 0.9, 0.999, 1e-8, 1e-2, 1)},
          {"copy", std::vector<Tensor>{}}}},
        {"foreach_norm", {{"grads", std::vector<Tensor>{m, f32({4})}}, {"ord", 2.0}}},
        {"foreach_clip", {{"grads", std::vector<Tensor>{m, f32({4})}}, {"factor", 0.5}, {"limit", 0.25}}},
        {"copy", {{"input", m}, {"src", f32({3})}}},
        {"narrow", {{"input", m}, {"dim", 1}, {"start", whole(AMP_I64, {}, 2)}, {"length", 1}}},
        {"mm", {{"input", m}, {"mat2", square}, {"out_dtype", AMP_F64}}},
        {"conv_input",
         {{"input_size", AMP_DIMS(1, 2, 4, 5)},
          {"weight", f32({3, 2, 2, 2})},
          {"grad_output", f32({1, 3, 3, 4})},
          {"stride", AMP_DIMS(1, 1)},
          {"padding", AMP_DIMS(0, 0)},
          {"dilation", AMP_DIMS(1, 1)}}},
        {"conv_weight",
         {{"input", image},
          {"weight_size", AMP_DIMS(3, 2, 2, 2)},
          {"grad_output", f32({1, 3, 3, 4})},
          {"stride", AMP_DIMS(1, 1)},
          {"padding", AMP_DIMS(0, 0)},
          {"dilation", AMP_DIMS(1, 1)}}},
        {"avg_pool_backward",
         {{"grad_output", f32({2, 2, 3})}, {"input_size", AMP_DIMS(4, 6)}, {"kernel_size", AMP_DIMS(2, 2)}}},
        {"adaptive_avg_pool_backward", {{"grad_output", f32({2, 2, 3})}, {"input_size", AMP_DIMS(5, 7)}}},
        {"upsample_backward",
         {{"grad_output", f32({1, 2, 6, 5})}, {"input_size", AMP_DIMS(3, 4)}, {"mode", "bilinear"}}},
        {"slice_backward",
         {{"grad_output", f32({2, 3})},
          {"input_sizes", AMP_DIMS(5, 3)},
          {"dim", 0},
          {"start", 1},
          {"end", 5},
          {"step", 2}}},
        {"diagonal_backward",
         {{"grad_output", f32({3})}, {"input_sizes", AMP_DIMS(3, 4)}, {"offset", 1}, {"dim1", 0}, {"dim2", 1}}},
        {"unfold_backward",
         {{"grad_in", f32({2, 3, 4})}, {"input_sizes", AMP_DIMS(2, 8)}, {"dim", 1}, {"size", 4}, {"step", 2}}},
        {"embedding_dense_backward",
         {{"grad_output", f32({4, 3})},
          {"indices", whole(AMP_I64, {4}, 3)},
          {"num_weights", 5},
          {"padding_idx", 1},
          {"scale_grad_by_freq", true}}},
        {"cross_entropy_backward",
         {{"grad_output", f32({})}, {"input", m}, {"target", whole(AMP_I64, {2}, 3)}, {"label_smoothing", 0.25}}},
        {"nll_loss_backward",
         {{"grad_output", f32({2})}, {"input", m}, {"target", whole(AMP_I64, {2}, 3)}, {"reduction", "none"}}},
        {"rnn_pass",
         {{"input", f32({4, 2, 3})},
          {"h0", f32({2, 2})},
          {"c0", f32({2, 2})},
          {"w_ih", f32({8, 3})},
          {"w_hh", f32({8, 2})},
          {"b_ih", f32({8})},
          {"b_hh", f32({8})}}},
        {"rnn_pass",
         {{"input", f32({2, 4, 3})},
          {"h0", f32({2, 2})},
          {"w_ih", f32({6, 3})},
          {"w_hh", f32({6, 2})},
          {"mode", "gru"},
          {"reverse", true},
          {"batch_first", true}}},
        {"rnn_pass_backward",
         {{"grad_output", f32({4, 2, 2})},
          {"workspace", f32({4 * 2 * 2 * 5})},
          {"h0", f32({2, 2})},
          {"c0", f32({2, 2})},
          {"w_hh", f32({8, 2})}}},
        {"dropout_backward", {{"grad_output", m}, {"p", 0.5}, {"seed", 7}, {"offset", 3}}},
        {"masked_fill", {{"input", m}, {"mask", mask}, {"value", f32({})}}},
        {"scatter",
         {{"input", m}, {"dim", 0}, {"index", whole(AMP_I64, {1, 3}, 2)}, {"value", 2.5}, {"reduce", "add"}}},
        {"bucketize", {{"input", 1.5}, {"boundaries", whole(AMP_F32, {4}, 4)}, {"right", true}}},
        {"add", {{"input", m}, {"other", 2}, {"alpha", 3}}},
        {"sub", {{"input", m}, {"other", 0.5}, {"alpha", 1}}},
        {"mul", {{"input", m}, {"other", 1.5}}},
        {"div", {{"input", m}, {"other", 2}, {"rounding_mode", "floor"}}},
        {"floor_divide", {{"input", m}, {"other", 3}}},
        {"remainder", {{"input", m}, {"other", -2}}},
        {"fmod", {{"input", m}, {"other", 0.3}}},
        {"pow", {{"input", m}, {"exponent", 2}}},
        {"pow", {{"input", 1.5}, {"exponent", m}}},
        {"eq", {{"input", m}, {"other", 1}}},
        {"ne", {{"input", m}, {"other", 1}}},
        {"lt", {{"input", m}, {"other", 0.5}}},
        {"le", {{"input", m}, {"other", 0.5}}},
        {"gt", {{"input", m}, {"other", 0.5}}},
        {"ge", {{"input", m}, {"other", 0.5}}},
        {"fake_quantize_per_tensor_affine",
         {{"input", m},
          {"scale", f32({1})},
          {"zero_point", whole(AMP_I32, {1}, 1)},
          {"quant_min", 0},
          {"quant_max", 9}}},
        {"norm", {{"input", m}, {"p", "nuc"}}},
        {"linalg_cond", {{"input", square}, {"p", "fro"}}},
    };
}

} // namespace

std::vector<Call> written() {
    std::vector<Call> calls;
    for (const Row &row : rows()) {
        Call call;
        call.op = row.op;
        call.label = "written";
        for (const auto &[name, value] : row.arguments) {
            Argument argument;
            argument.name = name;
            argument.value.kind = value.kind;
            argument.value.as = value.as;
            argument.text = value.text;
            for (const Tensor &t : value.tensors) {
                argument.tensors.push_back(static_cast<int>(call.tensors.size()));
                call.tensors.push_back(t);
            }
            call.arguments.push_back(std::move(argument));
        }
        calls.push_back(std::move(call));
    }
    return calls;
}

} // namespace op_calls
