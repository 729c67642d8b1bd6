// Gradients of norms by kernels: beside f64 on every instruction set, layouts, threads, memory that ends, bad input.
#include "backward_ops.h"

using namespace amp_test;
using namespace backward_ops;

namespace {

class NormBackward : public Test {};

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F32 ? 4e-6 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-7;
}

amp_dims dims_of(const Shape &shape) {
    amp_dims d = {};
    d.set = AMP_PRESENT;
    for (int64_t x : shape) d.values[d.count++] = x;
    return d;
}

// Of one dtype for input and gradient or of two, with a weight in the input's dtype, in f32 and without.
void expect_as_in_f64(const std::function<Tensors(amp_tensor *d, amp_tensor *x, amp_tensor *weight)> &f,
                      const Shape &shape, const Shape &parameter, double offset = 0.5) {
    for (amp_dtype x_dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        for (amp_dtype d_dtype : {AMP_F32, x_dtype}) {
            SCOPED_TRACE(std::string(amp_dtype_name(d_dtype)) + " of " + amp_dtype_name(x_dtype));
            amp_tensor *d = random_tensor(d_dtype, shape, 1),
                       *x = op("add", {random_tensor(x_dtype, shape, 2), offset});
            amp_tensor *weight = random_tensor(AMP_F32, parameter, 3);
            for (amp_tensor *w : Tensors{nullptr, weight, op("to", {weight, x_dtype})}) {
                const Tensors want = f(wide(d), wide(x), wide(w)), got = f(d, x, w);
                ASSERT_FALSE(got.empty()) << amp_last_error();
                EXPECT_EQ(amp_tensor_dtype(got[0]), x_dtype);
                for (size_t i = 1; i < got.size(); i++) EXPECT_EQ(amp_tensor_dtype(got[i]), AMP_F32);
                expect_close({got[0]}, {want[0]}, tolerance_of(x_dtype));
                expect_close(Tensors(got.begin() + 1, got.end()), Tensors(want.begin() + 1, want.end()), 4e-6);
            }
        }
    }
}

const std::vector<Shape> rows = {{1, 1}, {3, 2}, {7, 15}, {5, 16}, {40, 33}, {2, 3, 70}, {700, 8}, {3, 1100}};

TEST_F(NormBackward, RowsAreThoseOfF64OnEveryInstructionSet) {
    on_every_isa([] {
        for (const Shape &shape : rows) {
            SCOPED_TRACE(testing::PrintToString(shape));
            const Scope scope;
            const Shape last = {shape.back()};
            if (shape.back() > 1) {
                expect_as_in_f64(
                    [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
                        return results("layer_norm_backward", {d, x, dims_of(last), w}, {{"eps", 1e-2}});
                    },
                    shape, last);
            }
            expect_as_in_f64(
                [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
                    return results("rms_norm_backward", {d, x, dims_of(last), w}, {{"eps", 1e-2}});
                },
                shape, last);
        }
    });
}

TEST_F(NormBackward, OverAllDimensionsAndOverOneElement) {
    const Shape shape = {3, 4, 5};
    expect_as_in_f64(
        [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
            return results("layer_norm_backward", {d, x, dims_of(shape), w});
        },
        shape, shape);
    amp_tensor *x = random_tensor(AMP_F32, {6, 1}, 4);
    expect_near(results("layer_norm_backward", {x, x, AMP_DIMS(1)})[0], std::vector<double>(6, 0.0), 0);
}

const std::vector<Shape> images = {{2, 6},     {5, 6, 2},     {3, 6, 31},    {3, 6, 32},
                                   {3, 6, 33}, {2, 6, 3, 11}, {2, 64, 5, 7}, {2, 6, 1100}};

void expect_channels(const std::vector<Shape> &shapes, const std::function<amp_tensor *(amp_tensor *)> &laid_out) {
    for (const Shape &shape : shapes) {
        SCOPED_TRACE(testing::PrintToString(shape));
        const Scope scope;
        for (int groups : {1, 2}) {
            expect_as_in_f64(
                [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
                    return results("group_norm_backward", {laid_out(d), laid_out(x), groups, w}, {{"eps", 1e-2}});
                },
                shape, {shape[1]});
        }
        expect_as_in_f64(
            [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
                return results("batch_norm_backward", {laid_out(d), laid_out(x), nullptr, nullptr, w},
                               {{"training", true}, {"eps", 1e-2}});
            },
            shape, {shape[1]});
        amp_tensor *mean = random_tensor(AMP_F32, {shape[1]}, 5);
        amp_tensor *var = op("add", {random_tensor(AMP_F32, {shape[1]}, 6), 1.5});
        expect_as_in_f64(
            [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
                const bool is_wide = amp_tensor_dtype(x) == AMP_F64;
                return results("batch_norm_backward",
                               {laid_out(d), laid_out(x), is_wide ? wide(mean) : mean, is_wide ? wide(var) : var, w});
            },
            shape, {shape[1]});
    }
}

amp_tensor *as_it_is(amp_tensor *t) {
    return t;
}
amp_tensor *channels_last(amp_tensor *t) {
    return op("permute", {op("contiguous", {op("permute", {t, AMP_DIMS(0, 2, 3, 1)})}), AMP_DIMS(0, 3, 1, 2)});
}
amp_tensor *turned(amp_tensor *t) {
    const int last = amp_tensor_rank(t) - 1;
    return op("transpose", {op("contiguous", {op("transpose", {t, 1, last})}), 1, last});
}

TEST_F(NormBackward, ChannelsAreThoseOfF64OnEveryInstructionSet) {
    on_every_isa([] { expect_channels(images, as_it_is); });
}
TEST_F(NormBackward, ChannelsMayLieLast) {
    on_every_isa([] { expect_channels({{2, 6, 3, 11}, {2, 64, 5, 7}}, channels_last); });
}
TEST_F(NormBackward, ElementsMayLieAnyhow) {
    expect_channels({{3, 6, 31}, {2, 6, 3, 11}}, turned);
}

TEST_F(NormBackward, ChannelsStayLast) {
    amp_tensor *x = channels_last(random_tensor(AMP_F32, {2, 8, 3, 5}, 1)),
               *d = random_tensor(AMP_F32, {2, 8, 3, 5}, 2);
    const Tensors got = results("batch_norm_backward", {d, x}, {{"training", true}});
    EXPECT_EQ(amp_tensor_strides(got[0])[1], 1);
    const Tensors dense = results("batch_norm_backward", {d, op("contiguous", {x})}, {{"training", true}});
    expect_close(got, dense, 1e-6);
}

TEST_F(NormBackward, LargeMeansKeepTheirPrecision) {
    for (const Shape &shape : {Shape{40, 4, 3}, Shape{4, 4, 400}, Shape{40, 4}}) {
        expect_as_in_f64(
            [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
                return results("batch_norm_backward", {d, x, nullptr, nullptr, w}, {{"training", true}});
            },
            shape, {4}, 300.0);
    }
    expect_as_in_f64(
        [&](amp_tensor *d, amp_tensor *x, amp_tensor *w) {
            return results("layer_norm_backward", {d, x, AMP_DIMS(200), w});
        },
        {4, 200}, {200}, 300.0);
}

TEST_F(NormBackward, InstancesAreGroupsOfOneChannel) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 4, 50}, 1), *leaf = op("clone", {x}),
               *d = random_tensor(AMP_F32, {3, 4, 50}, 2);
    ASSERT_EQ(amp_tensor_set_requires_grad(leaf, true), AMP_OK);
    amp_tensor *y = op("instance_norm", {leaf});
    ASSERT_EQ(amp_backward_call([&] {
                  static amp_backward_args args;
                  args = {};
                  args.struct_size = sizeof args;
                  args.loss = y;
                  args.gradient = d;
                  return &args;
              }()),
              AMP_OK);
    expect_near(amp_tensor_grad(leaf), numbers_of(results("group_norm_backward", {d, x, 4})[0]), 0);
    amp_tensor_zero_grad(leaf);
}

// Requests that an op makes of the system for its results, of which it is asked for some, and its first result.
template <class Args>
size_t requests_of(Args args, amp_tensor *(*call)(const Args *), std::vector<double> *first) {
    const Scope scope;
    args.struct_size = sizeof args;
    amp_memory_trim();
    const size_t before = amp_memory_statistics().system_allocations;
    amp_tensor *t = call(&args);
    const size_t made = amp_memory_statistics().system_allocations - before;
    *first = t ? numbers_of(t) : std::vector<double>();
    return made;
}

template <class Args>
void expect_spared(const Args &args, amp_tensor *(*call)(const Args *), amp_tensor **Args::*parameter) {
    std::vector<double> with, without;
    amp_tensor *gradient = nullptr;
    Args wanted = args;
    wanted.*parameter = &gradient;
    (void)requests_of(args, call, &without);
    const size_t all = requests_of(wanted, call, &with), fewer = requests_of(args, call, &without);
    EXPECT_LT(fewer, all) << amp_last_error();
    EXPECT_EQ(with, without);
    EXPECT_FALSE(with.empty());
}

// What nobody asks for is not made, and the gradient of the input has the same bits.
TEST_F(NormBackward, GradientsOfParametersAreMadeWhereTheyAreAskedFor) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F64}) {
        const amp_dtype of_parameters = dtype == AMP_F64 ? AMP_F64 : AMP_F32;
        amp_tensor *mean = random_tensor(of_parameters, {4}, 5), *var = op("add", {op("square", {mean}), 0.5});
        for (const auto &laid_out : {as_it_is, channels_last}) {
            SCOPED_TRACE(amp_dtype_name(dtype));
            amp_tensor *x = laid_out(random_tensor(dtype, {6, 4, 5, 64}, 1)),
                       *d = laid_out(random_tensor(dtype, {6, 4, 5, 64}, 2));
            amp_layer_norm_backward_args layer = {};
            layer.grad_output = d;
            layer.input = x;
            layer.normalized_shape = AMP_DIMS(64);
            layer.weight = random_tensor(of_parameters, {64}, 3);
            expect_spared(layer, amp_layer_norm_backward_call, &amp_layer_norm_backward_args::grad_weight);
            expect_spared(layer, amp_layer_norm_backward_call, &amp_layer_norm_backward_args::grad_bias);
            amp_rms_norm_backward_args rms = {};
            rms.grad_output = d;
            rms.input = x;
            rms.normalized_shape = AMP_DIMS(64);
            expect_spared(rms, amp_rms_norm_backward_call, &amp_rms_norm_backward_args::grad_weight);
            amp_group_norm_backward_args group = {};
            group.grad_output = d;
            group.input = x;
            group.num_groups = 2;
            expect_spared(group, amp_group_norm_backward_call, &amp_group_norm_backward_args::grad_bias);
            for (bool training : {false, true}) {
                amp_batch_norm_backward_args batch = {};
                batch.grad_output = d;
                batch.input = x;
                batch.training = training;
                batch.running_mean = mean;
                batch.running_var = var;
                expect_spared(batch, amp_batch_norm_backward_call, &amp_batch_norm_backward_args::grad_weight);
            }
        }
    }
}

TEST_F(NormBackward, FrozenParametersLeaveTheOthersTheirBits) {
    amp_tensor *x = random_tensor(AMP_F32, {6, 4, 50}, 1), *w = random_tensor(AMP_F32, {4}, 2),
               *b = random_tensor(AMP_F32, {4}, 3);
    const std::vector<amp_tensor *> leaves = {x, w, b};
    std::vector<double> want[3];
    for (unsigned frozen : {0u, 2u, 4u, 6u}) {
        for (unsigned i = 0; i < 3; i++) ASSERT_EQ(amp_tensor_set_requires_grad(leaves[i], !(frozen >> i & 1)), AMP_OK);
        amp_backward_args args = {};
        args.struct_size = sizeof args;
        args.loss = op("sum", {op("square", {op("group_norm", {x, 2, w, b})})});
        ASSERT_EQ(amp_backward_call(&args), AMP_OK) << amp_last_error();
        for (unsigned i = 0; i < 3; i++) {
            amp_tensor *g = amp_tensor_grad(leaves[i]);
            ASSERT_EQ(g == nullptr, (frozen >> i & 1) != 0);
            if (frozen == 0) want[i] = numbers_of(g);
            if (g) {
                EXPECT_EQ(numbers_of(g), want[i]);
            }
            amp_tensor_zero_grad(leaves[i]);
        }
    }
}

TEST_F(NormBackward, ThreadsDoNotChangeTheResult) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *rows = random_tensor(dtype, {900, 130}, 1);
        expect_same_with_threads([&] { return results("layer_norm_backward", {rows, rows, AMP_DIMS(130)}); });
        for (const Shape &shape : {Shape{8, 64, 20, 20}, Shape{600, 70, 2, 2}}) {
            amp_tensor *x = random_tensor(dtype, shape, 2), *d = random_tensor(dtype, shape, 3);
            for (const auto &laid_out : {as_it_is, channels_last}) {
                amp_tensor *a = laid_out(d), *b = laid_out(x);
                expect_same_with_threads([&] { return results("batch_norm_backward", {a, b}, {{"training", true}}); });
                expect_same_with_threads([&] { return results("group_norm_backward", {a, b, 2}); });
            }
        }
    }
}

TEST_F(NormBackward, MemoryMayEndAnywhere) {
    amp_tensor *x = random_tensor(AMP_F16, {2, 4, 3, 5}, 1), *w = random_tensor(AMP_F32, {4}, 2),
               *d = op("transpose", {x, 2, 3});
    d = op("transpose", {op("contiguous", {d}), 2, 3});
    expect_to_survive_refusals([&] { return results("layer_norm_backward", {d, x, AMP_DIMS(5)}); });
    for (const auto &laid_out : {as_it_is, channels_last}) {
        amp_tensor *t = laid_out(x);
        expect_to_survive_refusals([&] { return results("group_norm_backward", {d, t, 2, w}); });
        expect_to_survive_refusals([&] {
            return results("batch_norm_backward", {d, t, nullptr, nullptr, w}, {{"training", true}});
        });
    }
    amp_tensor *longer = random_tensor(AMP_F16, {2, 4, 40}, 1);
    expect_to_survive_refusals([&] { return results("group_norm_backward", {longer, longer, 2, w}); });
}

TEST_F(NormBackward, NothingGivesNothing) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F64}) {
        amp_tensor *x = tensor(dtype, {0, 3, 4});
        expect_near(results("batch_norm_backward", {x, x}, {{"training", true}})[1], std::vector<double>(3, 0.0), 0);
        expect_near(results("group_norm_backward", {x, x, 3})[2], std::vector<double>(3, 0.0), 0);
        expect_near(results("layer_norm_backward", {x, x, AMP_DIMS(4)})[1], std::vector<double>(4, 0.0), 0);
        amp_tensor *none = tensor(dtype, {3, 0});
        EXPECT_EQ(results("layer_norm_backward", {none, none, AMP_DIMS(0)}).size(), 3u) << amp_last_error();
    }
}

TEST_F(NormBackward, BadInputIsTold) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 4}, 1), *d = random_tensor(AMP_F32, {2, 3, 5}, 2);
    EXPECT_TRUE(results("layer_norm_backward", {d, x, AMP_DIMS(4)}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"layer_norm_backward", "grad_output", "[2, 3, 5] f32"}));
    EXPECT_TRUE(results("rms_norm_backward", {x, x, AMP_DIMS(3)}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"rms_norm_backward", "normalized_shape"}));
    EXPECT_TRUE(results("group_norm_backward", {x, x, 2}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"group_norm_backward", "num_groups"}));
    EXPECT_TRUE(results("batch_norm_backward", {d, x}, {{"training", true}}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm_backward", "grad_output"}));
    amp_tensor *whole = op("to", {x, AMP_I32});
    EXPECT_TRUE(results("batch_norm_backward", {whole, x}, {{"training", true}}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"batch_norm_backward", "grad_output", "floating"}));
}

} // namespace
