// conv_input and conv_weight beside themselves in f64, where they are made of other ops: by oneDNN, by products of pixels, and
// composed; their bits on several threads; what they refuse.
#include <cmath>

#include "amp_test.h"
#include "dnnl_use.h"
#include "sanitizers.h"

using namespace amp_test;

namespace {

struct Layer {
    int64_t batch, in, out, height, width, kernel, stride, padding, dilation, groups;

    int64_t extent(int64_t size) const {
        return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    }
    Shape x() const {
        return {batch, in, height, width};
    }
    Shape w() const {
        return {out, in / groups, kernel, kernel};
    }
    Shape y() const {
        return {batch, out, extent(height), extent(width)};
    }
};

// Windows, strides that leave pixels out, dilation, groups, channels that fill no vector, one tap, several groups of images.
const std::vector<Layer> layers = {
    {2, 32, 48, 9, 11, 3, 1, 1, 1, 1}, {3, 16, 32, 10, 8, 3, 2, 1, 1, 1},  {1, 5, 7, 8, 9, 3, 1, 0, 2, 1},
    {2, 16, 16, 7, 7, 3, 1, 1, 1, 16}, {2, 24, 40, 6, 5, 1, 1, 0, 1, 1},   {2, 24, 40, 8, 7, 1, 2, 0, 1, 1},
    {1, 3, 64, 21, 20, 7, 2, 3, 1, 1}, {4, 64, 64, 56, 56, 3, 1, 1, 1, 1},
};

std::vector<double> numbers(const Shape &shape, int seed) {
    int64_t count = 1;
    for (int64_t n : shape) count *= n;
    std::vector<double> all;
    auto state = uint32_t(seed);
    for (int64_t i = 0; i < count; i++) { // exact in bf16
        state = state * 1103515245U + 12345U;
        all.push_back(double((int32_t(state) >> 16) % 64) / 32);
    }
    return all;
}

// Images with their channels last, weights as they come.
amp_tensor *values(amp_dtype dtype, const Shape &shape, int seed, bool image, bool absolute) {
    std::vector<double> all = numbers(shape, seed);
    for (double &x : all)
        if (absolute) x = std::fabs(x);
    amp_tensor *t = tensor(dtype, shape, all);
    return image ? amp_channels_last(t) : t;
}

amp_dims dims(const Shape &shape) {
    amp_dims d = AMP_DIMS(0);
    d.count = int(shape.size());
    for (size_t i = 0; i < shape.size(); i++) d.values[i] = shape[i];
    return d;
}

amp_tensor *gradient(const Layer &l, bool of_weight, amp_dtype dtype, amp_dtype result, bool absolute = false) {
    amp_tensor *back = values(dtype, l.y(), 3, true, absolute);
    const std::vector<Named> more = {{"stride", AMP_DIMS(l.stride, l.stride)},
                                     {"padding", AMP_DIMS(l.padding, l.padding)},
                                     {"dilation", AMP_DIMS(l.dilation, l.dilation)},
                                     {"groups", l.groups}};
    std::vector<Named> named = more;
    named.push_back({"grad_output", back});
    if (of_weight) {
        named.push_back({"input", values(dtype, l.x(), 1, true, absolute)});
        named.push_back({"weight_size", dims(l.w())});
        named.push_back({"dtype", result});
        return op("conv_weight", {}, named);
    }
    named.push_back({"weight", values(dtype, l.w(), 2, false, absolute)});
    named.push_back({"input_size", dims(l.x())});
    return op("conv_input", {}, named);
}

// What the gradient is, and the sum of its terms' magnitudes: the inputs are exact in every dtype.
struct Truth {
    std::vector<double> value, magnitude;
};

Truth truth_of(const Layer &l, bool of_weight) {
    const Scope scope;
    return {numbers_of(gradient(l, of_weight, AMP_F64, AMP_F64)),
            numbers_of(gradient(l, of_weight, AMP_F64, AMP_F64, true))};
}

// What is made of other ops is rounded as their results are, and then converted.
void expect_near(const Truth &truth, const Layer &l, bool of_weight, amp_dtype dtype, amp_dtype result, bool composed) {
    const Scope scope;
    amp_tensor *made = gradient(l, of_weight, dtype, result);
    ASSERT_NE(made, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(made), result);
    const std::vector<double> got = numbers_of(made), &want = truth.value, &most = truth.magnitude;
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) {
        const double rounding = result == AMP_BF16 || (composed && dtype == AMP_BF16) ? std::fabs(want[i]) * 0x1p-8 : 0;
        ASSERT_NEAR(got[i], want[i], rounding + most[i] * 0x1p-16) << "at " << i;
    }
}

class ConvBack : public testing::TestWithParam<std::tuple<int, amp_dnnl_use>> {};

TEST_P(ConvBack, IsThatOfF64) {
    if (amp_test::under_tsan || amp_test::under_asan) {
        GTEST_SKIP() << "values; HasTheBitsOfOneThread computes the same";
    }
    const DnnlUse use(std::get<1>(GetParam()));
    const Layer &l = layers[size_t(std::get<0>(GetParam()))];
    const bool native = amp_isa_best() >= AMP_ISA_AVX512BF16; // else bf16 does not go to oneDNN
    const bool composed = std::get<1>(GetParam()) == AMP_DNNL_NEVER || !native;
    const Truth of_input = truth_of(l, false), of_weight = truth_of(l, true);
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        expect_near(of_input, l, false, dtype, dtype, composed);
        expect_near(of_weight, l, true, dtype, dtype, composed);
        expect_near(of_weight, l, true, dtype, AMP_F32, composed);
    }
}

TEST_P(ConvBack, HasTheBitsOfOneThread) {
    const Scope scope;
    const DnnlUse use(std::get<1>(GetParam()));
    const Layer &l = layers[size_t(std::get<0>(GetParam()))];
    const int before = amp_get_num_threads();
    const struct {
        bool of_weight;
        amp_dtype dtype, result;
    } cases[] = {{false, AMP_F32, AMP_F32},
                 {false, AMP_BF16, AMP_BF16},
                 {true, AMP_F32, AMP_F32},
                 {true, AMP_BF16, AMP_BF16},
                 {true, AMP_BF16, AMP_F32}};
    for (const auto &c : cases) {
        ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
        const std::vector<double> one = numbers_of(gradient(l, c.of_weight, c.dtype, c.result));
        for (int threads : {2, 5}) {
            ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
            EXPECT_EQ(numbers_of(gradient(l, c.of_weight, c.dtype, c.result)), one) << threads << " threads";
        }
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

INSTANTIATE_TEST_SUITE_P(Layers, ConvBack,
                         testing::Combine(testing::Range(0, int(layers.size())),
                                          testing::Values(AMP_DNNL_BY_RULE, AMP_DNNL_NEVER)));

TEST(ConvBackArguments, WhatNoConvolutionMakesIsRefused) {
    const Scope scope;
    const Layer l = layers[0];
    Layer other = l;
    other.height++;
    amp_tensor *back = values(AMP_F32, other.y(), 3, true, false);
    const amp_dims ones = AMP_DIMS(1, 1);
    EXPECT_EQ(op("conv_weight", {values(AMP_F32, l.x(), 1, true, false), dims(l.w()), back, ones, ones, ones}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"conv_weight", "grad_output", "[2, 48, 10, 11]", "[2, 32, 9, 11]"}));
    amp_clear_error();
    EXPECT_EQ(op("conv_input", {dims(l.x()), values(AMP_BF16, l.w(), 1, false, false), back, ones, ones, ones}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"conv_input", "weight", "bf16", "grad_output"}));
    amp_clear_error();
    EXPECT_EQ(
        op("conv_input", {dims(l.x()), values(AMP_F32, l.w(), 1, false, false), back, AMP_DIMS(0, 1), ones, ones}),
        nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"conv_input", "stride"}));
    amp_clear_error();
}

// An input that the convolution would not reach by a step or more belongs to no transposed one.
TEST(ConvBackArguments, TheInputIsReachedButForLessThanAStep) {
    const Scope scope;
    amp_tensor *w = values(AMP_F32, {8, 8, 3, 3}, 2, false, false),
               *back = values(AMP_F32, {1, 8, 5, 5}, 3, true, false);
    const auto input = [&](int64_t side) {
        return op("conv_input", {AMP_DIMS(1, 8, side, side), w, back, AMP_DIMS(2, 2), AMP_DIMS(1, 1), AMP_DIMS(1, 1)});
    };
    for (int64_t side : {9, 10}) EXPECT_NE(input(side), nullptr) << amp_last_error();
    for (int64_t side : {8, 11, 20}) {
        EXPECT_EQ(input(side), nullptr) << side;
        const std::string size = std::to_string(side);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"conv_input", "grad_output", "[1, 8, 5, 5]", size + ", " + size}));
        amp_clear_error();
    }
}

// A kernel of one element with output_padding reaches less than it makes: its gradients are not products of all rows.
TEST(ConvBackArguments, OutputPaddingOfOneTapIsNoProductOfRows) {
    const Scope scope;
    const auto gradients = [](amp_dtype dtype, bool last) {
        amp_tensor *x = values(dtype, {2, 6, 5, 4}, 1, last, false), *w = values(dtype, {6, 7, 1, 1}, 2, false, false);
        for (amp_tensor *t : {x, w}) amp_tensor_set_requires_grad(t, true);
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.gradient = values(dtype, {2, 7, 6, 5}, 3, last, false);
        args.loss = op("conv_transpose2d", {x, w}, {{"output_padding", AMP_DIMS(1, 1)}, {"dilation", AMP_DIMS(2, 2)}});
        EXPECT_EQ(amp_backward_call(&args), AMP_OK) << amp_last_error();
        return std::vector<std::vector<double>>{numbers_of(amp_tensor_grad(x)), numbers_of(amp_tensor_grad(w))};
    };
    const auto want = gradients(AMP_F64, false);
    for (bool last : {false, true}) EXPECT_EQ(gradients(AMP_F32, last), want) << last; // few bits: no sum is rounded
}

// Channels last, but a part of something wider: no kernel that steps through it densely may run.
TEST(ConvBackArguments, ImagesMayHaveGaps) {
    const Scope scope;
    const Layer &l = layers[0];
    Layer wide = l;
    wide.width += 4;
    const amp_dims ones = AMP_DIMS(1, 1);
    amp_tensor *x = op("narrow", {values(AMP_F32, wide.x(), 1, true, false), 3, 1, l.width});
    amp_tensor *back = op("narrow", {values(AMP_F32, wide.y(), 3, true, false), 3, 2, l.extent(l.width)});
    amp_tensor *w = values(AMP_F32, l.w(), 2, false, false);
    const auto dense = [](amp_tensor *t) { return op("contiguous", {t}); };
    const auto of_weight = [&](amp_tensor *a, amp_tensor *b) {
        return numbers_of(op("conv_weight", {a, dims(l.w()), b, ones, ones, ones}));
    };
    const auto of_input = [&](amp_tensor *b) {
        return numbers_of(op("conv_input", {dims(l.x()), w, b, ones, ones, ones}));
    };
    const std::vector<double> weight = of_weight(x, back), same_weight = of_weight(dense(x), dense(back));
    for (size_t i = 0; i < weight.size(); i++) ASSERT_NEAR(weight[i], same_weight[i], 1e-3) << "at " << i;
    const std::vector<double> input = of_input(back), same_input = of_input(dense(back));
    for (size_t i = 0; i < input.size(); i++) ASSERT_NEAR(input[i], same_input[i], 1e-3) << "at " << i;
}

TEST(MmDtype, KeepsTheSumsOfBf16) {
    const Scope scope;
    amp_tensor *a = values(AMP_BF16, {33, 70}, 1, false, false), *b = values(AMP_BF16, {70, 45}, 2, false, false);
    amp_tensor *sums = op("mm", {a, b}, {{"out_dtype", AMP_F32}});
    ASSERT_NE(sums, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(sums), AMP_F32);
    amp_tensor *exact = op("mm", {op("to", {a, AMP_F64}), op("to", {b, AMP_F64})});
    EXPECT_EQ(numbers_of(sums), numbers_of(exact)); // few bits: no sum is rounded
}

} // namespace
