// Gradients of convolutions, pools and resampling beside differences of the op itself, where no recorded case reaches.
#include "amp_test.h"
#include "ending_memory.h"

using namespace amp_test;

namespace {

struct Input {
    const char *name;
    Shape shape;
};

class GradientsOfWindows : public Test {
  protected:
    using Numbers = std::vector<double>;

    static amp_status back(amp_tensor *output) {
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = output;
        return amp_backward_call(&args);
    }
    // Without a pattern.
    static Numbers numbers(const Shape &shape, int seed) {
        int64_t count = 1;
        for (int64_t n : shape) count *= n;
        Numbers all;
        for (int64_t i = 0; i < count; i++)
            all.push_back(std::sin(0.7 + 1.3 * double(i) + 0.9 * double(i * i % 17) + seed));
        return all;
    }
    static amp_tensor *weighted_sum(amp_tensor *y) {
        if (!y) return nullptr;
        Shape shape;
        for (int d = 0; d < amp_tensor_rank(y); d++) shape.push_back(amp_tensor_size(y, d));
        return op("sum", {op("mul", {y, tensor(AMP_F64, shape, numbers(shape, 5))})});
    }
    static amp_tensor *run(const char *name, const std::vector<Input> &inputs, const std::vector<Numbers> &values,
                           std::vector<Named> named, std::vector<amp_tensor *> *leaves) {
        for (size_t i = 0; i < inputs.size(); i++) {
            amp_tensor *t = tensor(AMP_F64, inputs[i].shape, values[i]);
            if (leaves) (void)amp_tensor_set_requires_grad(t, true);
            if (leaves) leaves->push_back(t);
            named.push_back({inputs[i].name, t});
        }
        return weighted_sum(op(name, {}, named));
    }
    // Every element moved by a little to both sides.
    static void expect_slopes(const char *name, const std::vector<Input> &inputs, const std::vector<Named> &named) {
        SCOPED_TRACE(name);
        std::vector<Numbers> values;
        for (const Input &input : inputs) values.push_back(numbers(input.shape, int(values.size())));
        std::vector<amp_tensor *> leaves;
        amp_tensor *y = run(name, inputs, values, named, &leaves);
        ASSERT_NE(y, nullptr) << amp_last_error();
        ASSERT_EQ(back(y), AMP_OK) << amp_last_error();
        for (size_t i = 0; i < inputs.size(); i++) {
            SCOPED_TRACE(inputs[i].name);
            ASSERT_NE(amp_tensor_grad(leaves[i]), nullptr);
            const Numbers got = numbers_of(amp_tensor_grad(leaves[i]));
            for (size_t k = 0; k < values[i].size(); k++) {
                const double at = values[i][k], step = 1e-6;
                values[i][k] = at + step;
                const double above = numbers_of(run(name, inputs, values, named, nullptr))[0];
                values[i][k] = at - step;
                const double below = numbers_of(run(name, inputs, values, named, nullptr))[0];
                values[i][k] = at;
                EXPECT_NEAR(got[k], (above - below) / (2 * step), 2e-8) << "element " << k;
            }
        }
    }
};

TEST_F(GradientsOfWindows, PaddingsOfOneMoreBehind) {
    const std::vector<Named> same = {{"padding", "same"}, {"dilation", AMP_DIMS(1, 3)}};
    expect_slopes("conv2d", {{"input", {2, 2, 4, 5}}, {"weight", {3, 2, 2, 4}}, {"bias", {3}}}, same);
    expect_slopes("conv1d", {{"input", {4, 6}}, {"weight", {2, 2, 4}}}, {{"padding", "same"}, {"groups", 2}});
    expect_slopes("conv3d", {{"input", {1, 1, 3, 2, 3}}, {"weight", {1, 1, 2, 1, 2}}}, {{"padding", "same"}});
}

TEST_F(GradientsOfWindows, ElementsThatNoWindowReaches) {
    expect_slopes("conv2d", {{"input", {1, 2, 6, 7}}, {"weight", {2, 2, 1, 1}}}, {{"stride", AMP_DIMS(4, 3)}});
    expect_slopes("conv2d", {{"input", {2, 4, 6, 5}}, {"weight", {4, 2, 2, 2}}},
                  {{"stride", AMP_DIMS(3, 4)}, {"groups", 2}, {"padding", AMP_DIMS(1, 0)}});
    expect_slopes("conv_transpose2d", {{"input", {1, 2, 2, 3}}, {"weight", {2, 2, 2, 1}}},
                  {{"stride", AMP_DIMS(1, 2)}, {"dilation", AMP_DIMS(3, 1)}, {"output_padding", AMP_DIMS(2, 1)}});
    expect_slopes("avg_pool2d", {{"input", {1, 1, 5, 6}}}, {{"kernel_size", 2}, {"stride", 3}});
}

// Weights of many channels take another way; groups of them are the same convolutions beside each other.
TEST_F(GradientsOfWindows, ManyChannelsAsInGroups) {
    for (const char *name : {"conv2d", "conv_transpose2d"}) {
        SCOPED_TRACE(name);
        const std::vector<Named> options = {
            {"stride", AMP_DIMS(2, 1)}, {"padding", AMP_DIMS(1, 0)}, {"dilation", AMP_DIMS(1, 2)}};
        const Shape image = {2, 32, 6, 7}, kernel = {32, 32, 3, 2};
        const Numbers x = numbers(image, 1), w = numbers(kernel, 2);
        amp_tensor *one = tensor(AMP_F64, kernel, w), *input = tensor(AMP_F64, image, x);
        ASSERT_EQ(amp_tensor_set_requires_grad(one, true), AMP_OK);
        ASSERT_EQ(back(weighted_sum(op(name, {input, one}, options))), AMP_OK) << amp_last_error();
        amp_tensor *half = tensor(AMP_F64, kernel, w);
        ASSERT_EQ(amp_tensor_set_requires_grad(half, true), AMP_OK);
        std::vector<Named> grouped = options;
        grouped.push_back({"groups", 2});
        amp_tensor *pair = op("cat", {std::vector<amp_tensor *>{input, input}, 1});
        amp_tensor *both = op("cat", {std::vector<amp_tensor *>{half, half}, 0});
        amp_tensor *y = op(name, {pair, both}, grouped);
        ASSERT_NE(y, nullptr) << amp_last_error();
        ASSERT_EQ(back(weighted_sum(op("narrow", {y, 1, 0, 32}))), AMP_OK) << amp_last_error();
        const Numbers want = numbers_of(amp_tensor_grad(half)), got = numbers_of(amp_tensor_grad(one));
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], want[i], 1e-11) << "element " << i;
    }
}

TEST_F(GradientsOfWindows, WhatConvolutionsDoToTheirResults) {
    const std::vector<Input> all = {{"input", {2, 2, 3, 3}}, {"weight", {2, 2, 2, 2}}, {"bias", {2}},
                                    {"scale", {2}},          {"shift", {2}},           {"residual", {2, 2, 1, 2}}};
    for (const char *attr :
         {"none", "relu", "sigmoid", "tanh", "swish", "hardswish", "leaky_relu", "hardtanh", "gelu"}) {
        SCOPED_TRACE(attr);
        expect_slopes("convolution_pointwise", all, {{"attr", attr}});
    }
    expect_slopes("convolution_pointwise.binary",
                  {{"input", {1, 2, 4}}, {"other", {3, 3}}, {"weight", {3, 2, 2}}, {"bias", {3}}},
                  {{"attr", "gelu"}, {"algorithm", "tanh"}});
    expect_slopes("convolution_transpose_pointwise",
                  {{"input", {1, 2, 3}}, {"weight", {2, 2, 2}}, {"bias", {2}}, {"scale", {2}}},
                  {{"attr", "swish"}, {"stride", AMP_DIMS(2)}, {"output_padding", AMP_DIMS(1)}});
}

TEST_F(GradientsOfWindows, ResamplingByWords) {
    const Input image = {"input", {1, 2, 4, 3}};
    expect_slopes("interpolate", {image}, {{"size", AMP_DIMS(2, 5)}, {"mode", "area"}});
    expect_slopes("interpolate", {image}, {{"size", AMP_DIMS(6, 2)}, {"mode", "lanczos"}, {"antialias", true}});
    expect_slopes("upsample_nearest2d", {image}, {{"output_size", AMP_DIMS(6, 2)}, {"scales_h", 1.7}});
}

TEST_F(GradientsOfWindows, PlacesThatAreFarAwayOrNone) {
    amp_tensor *image = tensor(AMP_F32, {1, 1, 2, 2}, {1, 2, 3, 4});
    amp_tensor *grid = tensor(AMP_F32, {1, 1, 3, 2}, {1e30, 0, NAN, NAN, 0, 0});
    ASSERT_EQ(amp_tensor_set_requires_grad(image, true), AMP_OK);
    for (int padding : {0, 1, 2}) {
        amp_tensor *y = op("grid_sampler_2d", {image, grid, 0, padding, false});
        ASSERT_EQ(back(op("sum", {op("select", {y, -1, 2})})), AMP_OK) << amp_last_error();
    }
    expect_near(amp_tensor_grad(image), {0.75, 0.75, 0.75, 0.75}, 1e-6);
}

TEST_F(GradientsOfWindows, WindowsThatTheCallDrewNeedTheirIndices) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 4, 4}, {1, 2, 3, 4});
    ASSERT_EQ(amp_tensor_set_requires_grad(x, true), AMP_OK);
    (void)back(op("sum", {op("fractional_max_pool2d", {x, AMP_DIMS(2, 2), AMP_DIMS(2, 2)})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fractional_max_pool2d", "random_samples", "return_indices"}));
    amp_clear_error();
    EXPECT_EQ(back(op("sum", {op("fractional_max_pool2d", {x, AMP_DIMS(2, 2), AMP_DIMS(2, 2), true})})), AMP_OK);
    EXPECT_NE(amp_tensor_grad(x), nullptr);
}

TEST_F(GradientsOfWindows, InfinitiesStayWithTheirWindow) {
    amp_tensor *g = tensor(AMP_F32, {1, 1, 1, 2}, {INFINITY, 1});
    amp_tensor *x = op("avg_pool_backward", {g, AMP_DIMS(3, 5), AMP_DIMS(2, 2)}, {{"stride", AMP_DIMS(2, 3)}});
    ASSERT_NE(x, nullptr) << amp_last_error();
    const double inf = INFINITY;
    EXPECT_EQ(numbers_of(x), Numbers({inf, inf, 0, 0.25, 0.25, inf, inf, 0, 0.25, 0.25, 0, 0, 0, 0, 0}));
}

TEST_F(GradientsOfWindows, GradientsOfAnotherShapeAreRefused) {
    amp_tensor *g = tensor(AMP_F32, {1, 2, 3});
    EXPECT_EQ(op("avg_pool_backward", {g, AMP_DIMS(4, 4), AMP_DIMS(2, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"avg_pool_backward", "grad_output", "[1, 2, 3] f32"}));
    EXPECT_EQ(op("avg_pool_backward", {g, AMP_DIMS(4, 4, 4, 4), AMP_DIMS(2, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"avg_pool_backward", "input_size"}));
    EXPECT_EQ(op("adaptive_avg_pool_backward", {g, AMP_DIMS(4, 0)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"adaptive_avg_pool_backward", "input_size"}));
    EXPECT_EQ(op("upsample_backward", {g, AMP_DIMS(4), "area"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"upsample_backward", "mode", "area"}));
    EXPECT_EQ(op("upsample_backward", {g, AMP_DIMS(4), "bilinear"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"upsample_backward", "bilinear", "[1, 2, 3] f32"}));
    EXPECT_EQ(op("upsample_backward", {tensor(AMP_I64, {1, 2, 3}), AMP_DIMS(4), "nearest"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"upsample_backward", "grad_output"}));
}

// A gradient of a gradient goes on only from what there was memory for.
TEST_F(GradientsOfWindows, MemoryMayEndInTheSecondGradientOfComplexNumbers) {
    EndingMemory memory;
    memory.until_it_works([] {
        const Numbers some = numbers({1, 1, 4, 4}, 1);
        amp_tensor *x = tensor(AMP_C64, {1, 1, 4, 4}, some), *w = tensor(AMP_C64, {1, 1, 2, 2}, {1, 2, 3, 4});
        if (!x || !w) return;
        for (amp_tensor *t : {x, w}) (void)amp_tensor_set_requires_grad(t, true);
        const std::vector<amp_tensor *> inputs = {x, w};
        amp_tensor *y = op("conv2d", {x, w});
        amp_tensor *output = y ? op("sum", {op("abs", {y})}) : nullptr;
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&output, 1, nullptr};
        args.inputs = {inputs.data(), int64_t(inputs.size()), nullptr};
        args.create_graph = true;
        const amp_tensor_list first = output ? amp_grad_call(&args) : amp_tensor_list{};
        if (first.count == 2) (void)back(op("sum", {op("abs", {op("mul", {first.items[0], first.items[0]})})}));
        EXPECT_TRUE(amp_last_status() != AMP_OK || amp_tensor_grad(w));
    });
}

} // namespace
