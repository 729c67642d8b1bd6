// Gradients of pointwise functions and activations beside what amp replay compares: that one pass and parts agree, what jumps has
// zeros, and what the ops of backward refuse.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Slopes : public Test {
  protected:
    static amp_tensor *leaf(const Shape &shape, const std::vector<double> &numbers, amp_dtype dtype = AMP_F32) {
        amp_tensor *t = tensor(dtype, shape, numbers);
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK) << amp_last_error();
        return t;
    }
    // The gradient of x where that of the result is d; `create`: as it is computed where gradients of it are wanted.
    static amp_tensor *slope(amp_tensor *y, amp_tensor *x, amp_tensor *d, bool create) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&y, 1, nullptr};
        args.gradients = {&d, 1, nullptr};
        args.inputs = {&x, 1, nullptr};
        args.retain_graph = true;
        args.create_graph = create;
        const amp_tensor_list list = amp_grad_call(&args);
        EXPECT_EQ(list.count, 1) << amp_last_error();
        return list.count == 1 ? list.items[0] : nullptr;
    }
};

TEST_F(Slopes, OfOnePassAreThoseOfTheParts) {
    const std::vector<double> numbers = {-25, -9.5, -4,  -3, -2.75, -1, -0.5, -0.125, 0, 0.25,
                                         0.5, 1,    2.5, 3,  5,     6,  7,    19,     30};
    const Shape shape = {int64_t(numbers.size())};
    std::vector<double> ds;
    for (size_t i = 0; i < numbers.size(); i++) ds.push_back(i % 2 ? 1.25 : -0.75);
    for (const char *name : {"relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "silu", "mish", "softplus",
                             "logsigmoid", "hardsigmoid", "hardswish", "hardtanh", "sigmoid", "tanh"}) {
        for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
            SCOPED_TRACE(std::string(name) + " " + amp_dtype_name(dtype));
            amp_tensor *x = leaf(shape, numbers, dtype), *d = tensor(dtype, shape, ds), *y = op(name, {x});
            amp_tensor *one_pass = slope(y, x, d, false), *parts = slope(y, x, d, true);
            ASSERT_TRUE(one_pass && parts);
            EXPECT_EQ(amp_tensor_dtype(one_pass), dtype);
            expect_near(one_pass, numbers_of(parts), dtype == AMP_BF16 ? 1e-2 : dtype == AMP_F32 ? 1e-6 : 1e-14);
        }
    }
}

TEST_F(Slopes, OfSoftmaxAlongAnyDimensionAreTheSame) {
    for (const char *name : {"softmax_backward", "log_softmax_backward"}) {
        for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
            SCOPED_TRACE(std::string(name) + " " + amp_dtype_name(dtype));
            amp_tensor *y = tensor(dtype, {3, 4}, {0.1, 0.2, 0.3, 0.4, 0.25, 0.5, 0.125, 0.125, 0, 1, 0, 0});
            amp_tensor *d = tensor(dtype, {3, 4}, {1, -1, 2, 0.5, 3, 0.25, -2, 1, 4, 1, -1, 0});
            amp_tensor *along = op(name, {d, y, 1});
            amp_tensor *across = op("t", {op(name, {op("t", {d}), op("t", {y}), 0})});
            expect_near(along, numbers_of(across), dtype == AMP_BF16 ? 2e-2 : dtype == AMP_F32 ? 1e-6 : 1e-14);
        }
    }
}

TEST_F(Slopes, OfWhatJumpsAreZero) {
    for (const char *name : {"floor", "ceil", "round", "trunc", "sign"}) {
        amp_tensor *x = leaf({3}, {-1.5, 0, 2.25}), *y = op(name, {x});
        EXPECT_TRUE(amp_tensor_requires_grad(y)) << name;
        expect_near(slope(y, x, tensor(AMP_F32, {3}, {1, 2, 3}), false), {0, 0, 0}, 0);
    }
    amp_tensor *x = leaf({2}, {7, -7}), *y = op("div", {x, tensor(AMP_F32, {2}, {2, 2})}, {{"rounding_mode", "floor"}});
    expect_near(slope(y, x, tensor(AMP_F32, {2}, {1, 1}), false), {0, 0}, 0);
}

TEST_F(Slopes, InPlaceReadTheResult) {
    for (const char *name : {"relu_", "sigmoid_", "tanh_", "exp_", "sqrt_"}) {
        amp_tensor *x = leaf({2}, {0.25, 1}), *y = op("mul", {x, 1.0});
        amp_tensor *d = tensor(AMP_F32, {2}, {1, 1});
        const std::string plain(name, strlen(name) - 1);
        amp_tensor *z = op(plain, {x}), *want = slope(z, x, d, false);
        ASSERT_NE(op(name, {y}), nullptr) << amp_last_error();
        expect_near(slope(y, x, d, false), numbers_of(want), 0);
    }
}

TEST_F(Slopes, OfDigammaAreThoseOfZeta) {
    const double pi = 3.14159265358979323846, square = pi * pi;
    amp_tensor *x = tensor(AMP_F64, {5}, {1, 0.5, -0.5, -2.5, 30});
    const double at_30 = 0.033895060357741626; // 1/30 + 1/1800 + 1/162000 - 1/729000000 …
    expect_near(op("polygamma", {1, x}),
                {square / 6, square / 2, square / 2 + 4, square / 2 + 4 + 4 / 9.0 + 4 / 25.0, at_30}, 1e-12);
    expect_near(op("polygamma", {2, tensor(AMP_F64, {1}, {1})}), {-2.4041138063191885}, 1e-13);
    expect_near(op("polygamma", {3, tensor(AMP_F64, {1}, {1})}), {square * square / 15}, 1e-12);
    expect_near(op("polygamma", {0, tensor(AMP_F64, {1}, {1})}), {-0.57721566490153286}, 1e-14);
    expect_near(op("polygamma", {1, tensor(AMP_F32, {2}, {0, -3})}), {INFINITY, INFINITY}, 0);
    amp_tensor *leaf_x = leaf({1}, {1}, AMP_F64), *y = op("digamma", {leaf_x});
    expect_near(slope(y, leaf_x, tensor(AMP_F64, {1}, {2}), false), {square / 3}, 1e-13);
}

TEST_F(Slopes, RefuseWhatTheyCannotRead) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *other = tensor(AMP_F32, {3, 2});
    EXPECT_EQ(op("gelu_backward", {x, x}, {{"approximate", "cubic"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gelu_backward", "approximate", "cubic"}));
    EXPECT_EQ(op("softmax_backward", {other, x, 1}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("grad_output"), std::string::npos) << amp_last_error();
    amp_clear_error();
    EXPECT_EQ(op("softmax_backward", {x, x, 2}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("dim"), std::string::npos) << amp_last_error();
    amp_clear_error();
    EXPECT_EQ(op("polygamma", {-1, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"polygamma", "-1"}));
}

} // namespace
