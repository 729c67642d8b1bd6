// Conv, ConvTranspose and the pools against loops over their windows: padding that differs by side, extents rounded up,
// automatic padding, dilation, indices.
#include "one_node.h"

#include <random>

using namespace one_node;
using onnx_writer::int_attribute;
using onnx_writer::ints_attribute;
using onnx_writer::text_attribute;

namespace {

struct Window {
    Dims kernel, stride, dilation, before, after;

    size_t dims() const {
        return kernel.size();
    }
    int64_t reach(size_t d) const {
        return (kernel[d] - 1) * dilation[d] + 1;
    }
    std::vector<Bytes> attributes() const {
        Dims pads = before;
        pads.insert(pads.end(), after.begin(), after.end());
        return {ints_attribute("strides", stride), ints_attribute("dilations", dilation), ints_attribute("pads", pads),
                ints_attribute("kernel_shape", kernel)};
    }
};

class OnnxWindows : public one_node::Test {
  protected:
    int64_t pick(int64_t least, int64_t most) {
        return std::uniform_int_distribution<int64_t>(least, most)(random);
    }
    Window window(size_t dims, int64_t most_pad) {
        Window w;
        for (size_t d = 0; d < dims; d++) {
            w.kernel.push_back(pick(1, 4));
            w.stride.push_back(pick(1, 3));
            w.dilation.push_back(pick(1, 2));
            w.before.push_back(pick(0, std::min(most_pad, w.kernel[d] - 1)));
            w.after.push_back(pick(0, std::min(most_pad, w.kernel[d] - 1)));
        }
        return w;
    }
    Dims image(int64_t channels, size_t dims, int64_t least) {
        Dims shape = {pick(1, 2), channels};
        for (size_t d = 0; d < dims; d++) shape.push_back(pick(least, least + 4));
        return shape;
    }
    // Windows along each dimension.
    static Dims outputs(const Window &w, const Dims &shape, bool up) {
        Dims counts;
        for (size_t d = 0; d < w.dims(); d++) {
            const int64_t begins = shape[d + 2] + w.before[d];
            int64_t count = 0;
            for (int64_t at = 0; at < begins; at += w.stride[d], count++) {
                const int64_t over = at + w.reach(d) - (begins + w.after[d]);
                if (over > 0 && (!up || over >= w.stride[d])) break;
            }
            counts.push_back(count);
        }
        return counts;
    }
    // What window `o` sees: places in the image, which may lie outside.
    static std::vector<Dims> places(const Window &w, const Dims &o) {
        std::vector<Dims> all;
        Dims k(w.dims(), 0);
        do {
            Dims at;
            for (size_t d = 0; d < w.dims(); d++) at.push_back(o[d] * w.stride[d] + k[d] * w.dilation[d] - w.before[d]);
            all.push_back(at);
        } while (next(&k, w.kernel));
        return all;
    }
    // 0 inside of the image, 1 in its padding, 2 beyond.
    static int outside(const Window &w, const Dims &shape, const Dims &at) {
        int where = 0;
        for (size_t d = 0; d < w.dims(); d++) {
            if (at[d] < 0 || at[d] >= shape[d + 2]) where = std::max(where, 1);
            if (at[d] >= shape[d + 2] + w.after[d]) where = 2;
        }
        return where;
    }
    std::mt19937 random{20261123};
};

Dims joined(int64_t n, int64_t c, const Dims &rest) {
    Dims all = {n, c};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
}

TEST_F(OnnxWindows, PoolsAreLoopsOverWindows) {
    for (int round = 0; round < 60; round++) {
        const size_t dims = size_t(round % 3 + 1);
        const Window w = window(dims, 3);
        const bool up = pick(0, 1) != 0, count_padding = pick(0, 1) != 0;
        amp_tensor *x = random_tensor(AMP_F32, image(2, dims, 7), uint64_t(round));
        Numbers in(x);
        const Dims shape = joined(in.shape[0], 2, outputs(w, in.shape, up));
        Numbers largest(shape, -INFINITY), mean(shape, 0), norm(shape, 0), place(shape, 0);
        Dims index(shape.size(), 0);
        do {
            double count = 0;
            for (const Dims &at : places(w, Dims(index.begin() + 2, index.end()))) {
                const int where = outside(w, in.shape, at);
                if (where == 0 || (where == 1 && count_padding)) count++;
                if (where != 0) continue;
                const Dims from = joined(index[0], index[1], at);
                const double value = in.at(from);
                mean.at(index) += value;
                norm.at(index) += std::pow(std::fabs(value), 3);
                if (value <= largest.at(index)) continue;
                largest.at(index) = value;
                place.at(index) = double(&in.at(from) - in.values.data());
            }
            mean.at(index) /= count;
            norm.at(index) = std::cbrt(norm.at(index));
        } while (next(&index, shape));
        std::vector<Bytes> attributes = w.attributes();
        attributes.push_back(int_attribute("ceil_mode", up));
        const Tensors maxima = run({"MaxPool", 12, {x}, attributes, 2});
        ASSERT_EQ(maxima.size(), 2u) << amp_last_error();
        EXPECT_EQ(extents_of(maxima[0]), shape);
        EXPECT_EQ(numbers_of(maxima[0]), largest.values) << "round " << round;
        EXPECT_EQ(numbers_of(maxima[1]), place.values) << "round " << round;
        attributes.push_back(int_attribute("p", 3));
        amp_test::expect_near(first({"LpPool", 18, {x}, attributes}), norm.values, 1e-5);
        attributes.back() = int_attribute("count_include_pad", count_padding);
        amp_test::expect_near(first({"AveragePool", 19, {x}, attributes}), mean.values, 1e-5);
        ASSERT_TRUE(amp_test::no_error()) << "round " << round;
    }
}

TEST_F(OnnxWindows, MaxPoolCountsColumnsFirstWhereAsked) {
    amp_tensor *x = tensor(AMP_F32, {1, 2, 2, 3}, {1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1});
    const Tensors y =
        run({"MaxPool", 12, {x}, {ints_attribute("kernel_shape", {2, 3}), int_attribute("storage_order", 1)}, 2});
    ASSERT_EQ(y.size(), 2u);
    EXPECT_EQ(numbers_of(y[1]), (std::vector<double>{5, 6}));
}

TEST_F(OnnxWindows, AutomaticPaddingKeepsExtentsOverStride) {
    for (const char *how : {"SAME_UPPER", "SAME_LOWER"}) {
        // One element of padding each, whose place says which it is.
        amp_tensor *x = tensor(AMP_F32, {1, 1, 6}, {1, 2, 3, 4, 5, 6}), *weight = tensor(AMP_F32, {1, 1, 2}, {1, 10});
        amp_tensor *y = first({"Conv", 11, {x, weight}, {text_attribute("auto_pad", how)}});
        const bool upper = how[5] == 'U';
        EXPECT_EQ(numbers_of(y),
                  (upper ? std::vector<double>{21, 32, 43, 54, 65, 6} : std::vector<double>{10, 21, 32, 43, 54, 65}));
        y = first(
            {"MaxPool",
             12,
             {x},
             {text_attribute("auto_pad", how), ints_attribute("kernel_shape", {3}), ints_attribute("strides", {4})}});
        EXPECT_EQ(numbers_of(y), (std::vector<double>{upper ? 3.0 : 2.0, 6}));
    }
}

TEST_F(OnnxWindows, ConvIsALoopOverWindows) {
    for (int round = 0; round < 40; round++) {
        const size_t dims = size_t(round % 3 + 1);
        Window w = window(dims, 3);
        const int64_t groups = pick(1, 2), inner = pick(1, 3), outer = pick(1, 3);
        amp_tensor *x = random_tensor(AMP_F32, image(groups * inner, dims, 7), uint64_t(round));
        amp_tensor *weight = random_tensor(AMP_F32, joined(groups * outer, inner, w.kernel), uint64_t(round) + 100);
        amp_tensor *bias = pick(0, 1) ? random_tensor(AMP_F32, {groups * outer}, uint64_t(round) + 200) : nullptr;
        Numbers in(x), by(weight);
        Numbers want(joined(in.shape[0], groups * outer, outputs(w, in.shape, false)), 0);
        Dims index(want.shape.size(), 0);
        do {
            double sum = bias ? numbers_of(bias)[size_t(index[1])] : 0;
            const std::vector<Dims> seen = places(w, Dims(index.begin() + 2, index.end()));
            for (int64_t c = 0; c < inner; c++) {
                for (size_t k = 0; k < seen.size(); k++) {
                    if (outside(w, in.shape, seen[k])) continue;
                    const double factor = by.values[size_t((index[1] * inner + c) * int64_t(seen.size())) + k];
                    sum += factor * in.at(joined(index[0], index[1] / outer * inner + c, seen[k]));
                }
            }
            want.at(index) = sum;
        } while (next(&index, want.shape));
        std::vector<Bytes> attributes = w.attributes();
        attributes.push_back(int_attribute("group", groups));
        amp_tensor *y = first({"Conv", 11, {x, weight, bias}, attributes});
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_EQ(extents_of(y), want.shape);
        amp_test::expect_near(y, want.values, 1e-5);
    }
}

// Each element of the input adds its kernel to the output, of which padding is cut off; output_padding comes at the end.
TEST_F(OnnxWindows, ConvTransposeAddsKernels) {
    for (int round = 0; round < 40; round++) {
        const size_t dims = size_t(round % 3 + 1);
        Window w = window(dims, 2);
        const int64_t groups = pick(1, 2), inner = pick(1, 2), outer = pick(1, 3);
        amp_tensor *x = random_tensor(AMP_F32, image(groups * inner, dims, 3), uint64_t(round));
        amp_tensor *weight = random_tensor(AMP_F32, joined(groups * inner, outer, w.kernel), uint64_t(round) + 100);
        Numbers in(x), by(weight);
        Dims extra, shape;
        for (size_t d = 0; d < dims; d++) {
            extra.push_back(pick(0, w.stride[d] - 1));
            shape.push_back((in.shape[d + 2] - 1) * w.stride[d] + w.reach(d) - w.before[d] - w.after[d] + extra[d]);
        }
        if (*std::min_element(shape.begin(), shape.end()) < 1) continue;
        Numbers want(joined(in.shape[0], groups * outer, shape), 0);
        Dims index(in.shape.size(), 0);
        do {
            const std::vector<Dims> reached = places(w, Dims(index.begin() + 2, index.end()));
            for (int64_t o = 0; o < outer; o++) {
                for (size_t k = 0; k < reached.size(); k++) {
                    bool inside = true;
                    for (size_t d = 0; d < dims; d++) inside = inside && reached[k][d] >= 0 && reached[k][d] < shape[d];
                    if (!inside) continue;
                    const double factor = by.values[size_t((index[1] * outer + o) * int64_t(reached.size())) + k];
                    want.at(joined(index[0], index[1] / inner * outer + o, reached[k])) += factor * in.at(index);
                }
            }
        } while (next(&index, in.shape));
        std::vector<Bytes> attributes = w.attributes();
        attributes.push_back(int_attribute("group", groups));
        attributes.push_back(ints_attribute("output_padding", extra));
        amp_tensor *y = first({"ConvTranspose", 11, {x, weight}, attributes});
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_EQ(extents_of(y), want.shape);
        amp_test::expect_near(y, want.values, 1e-5);
    }
}

TEST_F(OnnxWindows, ConvTransposeMeetsAnOutputShape) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 3}, {1, 2, 3}), *weight = tensor(AMP_F32, {1, 1, 2}, {1, 10});
    amp_tensor *bias = tensor(AMP_F32, {1}, {0.5});
    const auto with = [&](int64_t extent) {
        return numbers_of(first({"ConvTranspose",
                                 11,
                                 {x, weight, bias},
                                 {ints_attribute("strides", {2}), ints_attribute("output_shape", {extent})}}));
    };
    EXPECT_EQ(with(6), (std::vector<double>{1.5, 10.5, 2.5, 20.5, 3.5, 30.5}));
    EXPECT_EQ(with(5), (std::vector<double>{10.5, 2.5, 20.5, 3.5, 30.5})); // an odd number is cut off in front
    EXPECT_EQ(with(8), (std::vector<double>{1.5, 10.5, 2.5, 20.5, 3.5, 30.5, 0.5, 0.5}));
}

TEST_F(OnnxWindows, WhatCannotBeSaysWhy) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 4}), *weight = tensor(AMP_F32, {1, 1, 2});
    EXPECT_TRUE(fails({"Conv", 11, {x, weight}, {ints_attribute("pads", {0})}}, AMP_ERROR_INVALID,
                      {"Conv", "'pads' has 1 values; expected 2"}));
    EXPECT_TRUE(
        fails({"Conv", 11, {x, weight}, {ints_attribute("strides", {0})}}, AMP_ERROR_INVALID, {"'strides' holds 0"}));
    EXPECT_TRUE(fails({"Conv", 11, {x, weight}, {ints_attribute("kernel_shape", {3})}}, AMP_ERROR_INVALID,
                      {"'kernel_shape' is [3], the weight's kernel [2]"}));
    EXPECT_TRUE(fails({"Conv", 11, {x, weight}, {text_attribute("auto_pad", "ALL")}}, AMP_ERROR_INVALID,
                      {"'auto_pad' is 'ALL'"}));
    EXPECT_TRUE(fails({"MaxPool", 12, {x}, {ints_attribute("kernel_shape", {5})}}, AMP_ERROR_INVALID,
                      {"a window reaches over 5 elements, the padded input has 4"}));
    EXPECT_TRUE(fails({"AveragePool", 7, {x}}, AMP_ERROR_INVALID, {"'kernel_shape' is missing"}));
}

} // namespace
