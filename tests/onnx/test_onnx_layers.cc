// Norms, softmax, attention, resizing, products of integers and boxes: what the versions of ONNX's ops differ in, and what its
// own tests do not show.
#include "one_node.h"

#include <numeric>

using namespace one_node;
using amp_test::expect_near;
using amp_test::op;
using onnx_writer::float_attribute;
using onnx_writer::int_attribute;
using onnx_writer::ints_attribute;
using onnx_writer::text_attribute;
using Rows = std::vector<double>;

namespace {

class OnnxLayers : public one_node::Test {};

// ---- Norms and softmax --------------------------------------------------------------------------------------------

TEST_F(OnnxLayers, LrnReachesFurtherUpForAnEvenSize) {
    for (int64_t size = 1; size <= 6; size++) {
        amp_tensor *x = random_tensor(AMP_F32, {2, 7, 3}, 1);
        Numbers in(x), want(in.shape, 0);
        Dims i = {0, 0, 0};
        do {
            double sum = 0;
            for (int64_t c = std::max<int64_t>(0, i[1] - (size - 1) / 2); c <= std::min<int64_t>(6, i[1] + size / 2);
                 c++) {
                sum += in.at({i[0], c, i[2]}) * in.at({i[0], c, i[2]});
            }
            want.at(i) = in.at(i) / std::pow(1.5 + 0.3 / double(size) * sum, 0.6);
        } while (next(&i, in.shape));
        expect_near(first({"LRN",
                           13,
                           {x},
                           {int_attribute("size", size), float_attribute("alpha", 0.3f), float_attribute("beta", 0.6f),
                            float_attribute("bias", 1.5f)}}),
                    want.values, 1e-5);
    }
}

TEST_F(OnnxLayers, BatchNormalizationOfElementsBeforeOpset9) {
    amp_tensor *x = random_tensor(AMP_F32, {4, 2, 3}, 1), *scale = random_tensor(AMP_F32, {2, 3}, 2),
               *bias = random_tensor(AMP_F32, {2, 3}, 3), *mean = random_tensor(AMP_F32, {2, 3}, 4),
               *var = op("square", {random_tensor(AMP_F32, {2, 3}, 5)});
    Numbers in(x), s(scale), b(bias), m(mean), v(var), want(in.shape, 0);
    Dims i = {0, 0, 0};
    do {
        const Dims e = {i[1], i[2]};
        want.at(i) = (in.at(i) - m.at(e)) / std::sqrt(v.at(e) + 1e-3) * s.at(e) + b.at(e);
    } while (next(&i, in.shape));
    expect_near(first({"BatchNormalization",
                       7,
                       {x, scale, bias, mean, var},
                       {int_attribute("spatial", 0), float_attribute("epsilon", 1e-3f)}}),
                want.values, 1e-4);
}

TEST_F(OnnxLayers, BatchNormalizationTrainsOnTheBatch) {
    amp_tensor *x = tensor(AMP_F32, {2, 1, 2}, {1, 2, 3, 6}), *one = tensor(AMP_F32, {1}, {1}),
               *zero = tensor(AMP_F32, {1}, {0});
    const Tensors y = run({"BatchNormalization",
                           15,
                           {x, one, zero, zero, one},
                           {int_attribute("training_mode", 1), float_attribute("momentum", 0.75f)},
                           3});
    ASSERT_EQ(y.size(), 3u) << amp_last_error();
    const double deviation = std::sqrt(3.5 + 1e-5); // mean 3, of squares 12.5
    expect_near(y[0], {-2 / deviation, -1 / deviation, 0, 3 / deviation}, 1e-5);
    expect_near(y[1], {0.75}, 1e-6);
    expect_near(y[2], {0.75 + 0.25 * 3.5}, 1e-6);
    EXPECT_TRUE(fails({"BatchNormalization", 9, {x, one, zero, zero, one}, {}, 2}, AMP_ERROR_NOT_IMPLEMENTED,
                      {"output 1, a statistic of training"}));
}

TEST_F(OnnxLayers, GroupNormalizationScalesGroupsBeforeOpset21) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 4, 3}, 1), *scale = tensor(AMP_F32, {2}, {2, 3}),
               *bias = tensor(AMP_F32, {2}, {5, 7});
    amp_tensor *wide_scale = tensor(AMP_F32, {4}, {2, 2, 3, 3}), *wide_bias = tensor(AMP_F32, {4}, {5, 5, 7, 7});
    const std::vector<Bytes> groups = {int_attribute("num_groups", 2)};
    EXPECT_EQ(numbers_of(first({"GroupNormalization", 18, {x, scale, bias}, groups})),
              numbers_of(first({"GroupNormalization", 21, {x, wide_scale, wide_bias}, groups})));
}

TEST_F(OnnxLayers, LayerNormalizationBroadcastsAndTellsItsStatistics) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, 3, -2, 6}), *scale = tensor(AMP_F32, {1}, {2}),
               *bias = tensor(AMP_F32, {2}, {1, 0});
    const Tensors y = run({"LayerNormalization", 17, {x, scale, bias}, {float_attribute("epsilon", 0)}, 3});
    ASSERT_EQ(y.size(), 3u) << amp_last_error();
    expect_near(y[0], {-1, 2, -1, 2}, 1e-6);
    EXPECT_EQ(extents_of(y[1]), (Dims{2, 1}));
    expect_near(y[1], {2, 2}, 1e-6);
    expect_near(y[2], {1, 0.25}, 1e-6);
}

TEST_F(OnnxLayers, SoftmaxBeforeOpset13IsOverAllThatFollows) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 4}, 1);
    for (const char *type : {"Softmax", "LogSoftmax", "Hardmax"}) {
        amp_tensor *flat = op("reshape", {x, AMP_DIMS(2, 12)});
        const Rows want = numbers_of(first({type, 13, {flat}}));
        EXPECT_EQ(numbers_of(first({type, 11, {x}})), want) << type; // axis 1
        EXPECT_EQ(numbers_of(first({type, 11, {x}, {int_attribute("axis", 2)}})), numbers_of(first({type, 13, {x}})))
            << type;
    }
    EXPECT_TRUE(
        fails({"Softmax", 13, {x}, {int_attribute("axis", 3)}}, AMP_ERROR_INVALID, {"axis 3 of a tensor of rank 3"}));
}

// ---- Attention ----------------------------------------------------------------------------------------------------

TEST_F(OnnxLayers, WhatAMaskHidesStaysHiddenUnderACap) {
    amp_tensor *q = random_tensor(AMP_F32, {1, 2, 3, 4}, 1), *k = random_tensor(AMP_F32, {1, 1, 5, 4}, 2),
               *v = random_tensor(AMP_F32, {1, 1, 5, 2}, 3);
    amp_tensor *mask = tensor(AMP_BOOL, {3, 5}, {1, 1, 1, 0, 0});
    const std::vector<Bytes> cap = {float_attribute("softcap", 0.5f)};
    amp_tensor *masked = first({"Attention", 23, {q, k, v, mask}, cap});
    ASSERT_NE(masked, nullptr) << amp_last_error();
    amp_tensor *shorter = first({"Attention", 23, {q, op("narrow", {k, 2, 0, 3}), op("narrow", {v, 2, 0, 3})}, cap});
    expect_near(masked, numbers_of(shorter), 1e-5);
}

TEST_F(OnnxLayers, AttentionWithAPastIsTheEndOfAttentionWithout) {
    for (const bool heads_last : {false, true}) {
        const int64_t heads = 4, shared = 2, width = 4;
        amp_tensor *q = random_tensor(AMP_F32, {2, heads, 5, width}, 1),
                   *k = random_tensor(AMP_F32, {2, shared, 5, width}, 2),
                   *v = random_tensor(AMP_F32, {2, shared, 5, width}, 3);
        const auto part = [&](amp_tensor *t, int64_t from, int64_t count) { return op("narrow", {t, 2, from, count}); };
        const auto given = [&](amp_tensor *t) {
            const Dims n = extents_of(t);
            return heads_last ? op("reshape", {op("transpose", {t, 1, 2}), AMP_DIMS(n[0], n[2], n[1] * n[3])}) : t;
        };
        std::vector<Bytes> attributes = {int_attribute("is_causal", 1)};
        if (heads_last) {
            attributes.push_back(int_attribute("q_num_heads", heads));
            attributes.push_back(int_attribute("kv_num_heads", shared));
        }
        amp_tensor *whole = first({"Attention", 23, {given(q), given(k), given(v)}, attributes});
        const Tensors y = run(
            {"Attention",
             23,
             {given(part(q, 3, 2)), given(part(k, 3, 2)), given(part(v, 3, 2)), nullptr, part(k, 0, 3), part(v, 0, 3)},
             attributes,
             3});
        ASSERT_EQ(y.size(), 3u) << amp_last_error();
        expect_near(y[0], numbers_of(op("narrow", {whole, heads_last ? 1 : 2, 3, 2})), 1e-5);
        EXPECT_EQ(numbers_of(y[1]), numbers_of(k));
        EXPECT_EQ(numbers_of(y[2]), numbers_of(v));
    }
}

TEST_F(OnnxLayers, PaddingOfKeysIsNotSeen) {
    amp_tensor *q = random_tensor(AMP_F32, {2, 1, 3, 4}, 1), *k = random_tensor(AMP_F32, {2, 1, 5, 4}, 2),
               *v = random_tensor(AMP_F32, {2, 1, 5, 2}, 3);
    amp_tensor *y = first({"Attention", 24, {q, k, v, nullptr, nullptr, nullptr, tensor(AMP_I64, {2}, {2, 5})}});
    ASSERT_NE(y, nullptr) << amp_last_error();
    const auto sample = [](amp_tensor *t, int64_t b) { return op("narrow", {t, 0, b, 1}); };
    amp_tensor *short_one =
        first({"Attention",
               24,
               {sample(q, 0), op("narrow", {sample(k, 0), 2, 0, 2}), op("narrow", {sample(v, 0), 2, 0, 2})}});
    expect_near(sample(y, 0), numbers_of(short_one), 1e-5);
    expect_near(sample(y, 1), numbers_of(first({"Attention", 24, {sample(q, 1), sample(k, 1), sample(v, 1)}})), 1e-5);
}

// ---- Resize -------------------------------------------------------------------------------------------------------

// Of a line, what lies between two elements is its own place.
TEST_F(OnnxLayers, LinearResizingOfALineIsItsCoordinates) {
    const struct {
        const char *mode;
        double (*place)(double x, double scale, double input, double output);
    } rows[] = {
        {"half_pixel", [](double x, double s, double, double) { return (x + 0.5) / s - 0.5; }},
        {"pytorch_half_pixel", [](double x, double s, double, double o) { return o > 1 ? (x + 0.5) / s - 0.5 : 0; }},
        {"asymmetric", [](double x, double s, double, double) { return x / s; }},
        {"align_corners", [](double x, double, double n, double o) { return o > 1 ? x * (n - 1) / (o - 1) : 0; }},
        {"half_pixel_symmetric",
         [](double x, double s, double n, double o) { return n / 2 * (1 - o / (s * n)) + (x + 0.5) / s - 0.5; }}};
    for (const auto &row : rows) {
        for (const int64_t output : {1, 3, 6, 11, 12, 24}) {
            for (const int rank : {1, 4}) {
                Rows line(6);
                std::iota(line.begin(), line.end(), 0);
                amp_tensor *x = tensor(AMP_F32, rank == 1 ? amp_test::Shape{6} : amp_test::Shape{1, 1, 1, 6}, line);
                amp_tensor *sizes = rank == 1 ? tensor(AMP_I64, {1}, {double(output)})
                                              : tensor(AMP_I64, {4}, {1, 1, 1, double(output)});
                Rows want;
                for (int64_t o = 0; o < output; o++) {
                    const double at = row.place(double(o), double(output) / 6, 6, double(output));
                    want.push_back(std::min(5.0, std::max(0.0, at)));
                }
                SCOPED_TRACE(row.mode + std::to_string(output));
                expect_near(first({"Resize",
                                   19,
                                   {x, nullptr, nullptr, sizes},
                                   {text_attribute("mode", "linear"),
                                    text_attribute("coordinate_transformation_mode", row.mode)}}),
                            want, 1e-5);
            }
        }
    }
}

TEST_F(OnnxLayers, NearestResizingRoundsAsAsked) {
    amp_tensor *x = tensor(AMP_F32, {4}, {0, 1, 2, 3}), *sizes = tensor(AMP_I64, {1}, {8}),
               *halves = tensor(AMP_F32, {1}, {0.5});
    const auto with = [&](const char *rounding, const char *place) {
        return numbers_of(first(
            {"Resize",
             13,
             {x, nullptr, nullptr, sizes},
             {text_attribute("nearest_mode", rounding), text_attribute("coordinate_transformation_mode", place)}}));
    };
    EXPECT_EQ(with("floor", "asymmetric"), (Rows{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(with("ceil", "asymmetric"), (Rows{0, 1, 1, 2, 2, 3, 3, 3}));
    EXPECT_EQ(with("round_prefer_floor", "asymmetric"), (Rows{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(with("round_prefer_ceil", "asymmetric"), (Rows{0, 1, 1, 2, 2, 3, 3, 3}));
    EXPECT_EQ(with("round_prefer_floor", "half_pixel"), (Rows{0, 0, 1, 1, 2, 2, 3, 3}));
    EXPECT_EQ(numbers_of(first({"Resize", 10, {x, halves}})), (Rows{0, 2}));
    amp_tensor *bytes = tensor(AMP_U8, {1, 1, 2, 2}, {1, 2, 3, 250});
    amp_tensor *twice = first({"Upsample", 9, {bytes, tensor(AMP_F32, {4}, {1, 1, 2, 1})}});
    EXPECT_EQ(numbers_of(twice), (Rows{1, 2, 1, 2, 3, 250, 3, 250}));
}

// One scale for both sides, the smaller, with extents that are rounded: what is computed with is the scale.
TEST_F(OnnxLayers, ResizingThatKeepsTheAspect) {
    Rows line(5 * 3);
    for (size_t i = 0; i < line.size(); i++) line[i] = double(i % 3);
    amp_tensor *x = tensor(AMP_F32, {1, 1, 5, 3}, line);
    const Node n = {"Resize",
                    18,
                    {x, nullptr, nullptr, tensor(AMP_I64, {2}, {7, 9})},
                    {text_attribute("mode", "linear"), text_attribute("keep_aspect_ratio_policy", "not_larger"),
                     ints_attribute("axes", {2, 3})}};
    amp_tensor *y = first(n);
    ASSERT_NE(y, nullptr) << amp_last_error();
    ASSERT_EQ(extents_of(y), (Dims{1, 1, 7, 4})); // 7 / 5 of 3 is 4.2
    Rows want;
    for (int i = 0; i < 7; i++) {
        for (int o = 0; o < 4; o++) want.push_back(std::min(2.0, std::max(0.0, (o + 0.5) / 1.4 - 0.5)));
    }
    expect_near(y, want, 1e-5);
}

TEST_F(OnnxLayers, ResizeSaysWhatItCannot) {
    amp_tensor *x = tensor(AMP_F32, {2, 2});
    EXPECT_TRUE(fails({"Resize", 13, {x, nullptr, tensor(AMP_F32, {1}, {2})}}, AMP_ERROR_INVALID,
                      {"1 scales for 2 dimensions"}));
    EXPECT_TRUE(fails({"Resize", 13, {x, nullptr, tensor(AMP_F32, {2}, {-1})}}, AMP_ERROR_INVALID,
                      {"a scale of -1 for an extent of 2"}));
    EXPECT_TRUE(
        fails({"Resize", 13, {x, nullptr, tensor(AMP_F32, {2}, {1e12})}}, AMP_ERROR_INVALID, {"a scale of 1e+12"}));
    EXPECT_TRUE(fails({"Resize", 13, {x}, {text_attribute("mode", "area")}}, AMP_ERROR_INVALID, {"'mode' is 'area'"}));
}

// ---- Integers -----------------------------------------------------------------------------------------------------

// f32 is inexact from 2^24 on: 1000 products of 255 · 255 are above that.
TEST_F(OnnxLayers, ProductsOfIntegersAreExact) {
    const int64_t depth = 1001;
    Rows a, b;
    for (int64_t i = 0; i < depth; i++) a.push_back(double(255 - i % 2)), b.push_back(double(255 - i % 3));
    const double want = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    EXPECT_GT(want, double(1 << 24));
    amp_tensor *rows = tensor(AMP_U8, {1, depth}, a), *columns = tensor(AMP_U8, {depth, 1}, b),
               *zero = tensor(AMP_U8, {}, {0});
    EXPECT_EQ(numbers_of(first({"MatMulInteger", 10, {rows, columns}})), (Rows{want}));
    EXPECT_EQ(numbers_of(first({"MatMulInteger", 10, {rows, columns, zero, tensor(AMP_U8, {1}, {255})}})),
              (Rows{want - 255 * std::accumulate(a.begin(), a.end(), 0.0)}));
    amp_tensor *image = tensor(AMP_U8, {1, depth, 1}, a), *weight = tensor(AMP_U8, {1, depth, 1}, b);
    EXPECT_EQ(numbers_of(first({"ConvInteger", 10, {image, weight}})), (Rows{want}));
}

TEST_F(OnnxLayers, QuantizingRoundsToEvenAndSaturates) {
    amp_tensor *x = tensor(AMP_F32, {6}, {0.5, 1.5, 2.5, -1000, 1000, -0.5}), *one = tensor(AMP_F32, {}, {1});
    EXPECT_EQ(numbers_of(first({"QuantizeLinear", 13, {x, one}})), (Rows{0, 2, 2, 0, 255, 0}));
    EXPECT_EQ(numbers_of(first({"QuantizeLinear", 13, {x, one, tensor(AMP_I8, {}, {10})}})),
              (Rows{10, 12, 12, -128, 127, 10}));
    amp_tensor *rows = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *scales = tensor(AMP_F32, {2, 2}, {1, 0.5, 2, 1});
    EXPECT_EQ(numbers_of(first(
                  {"QuantizeLinear", 21, {rows, scales}, {int_attribute("axis", 1), int_attribute("block_size", 2)}})),
              (Rows{1, 2, 6, 2, 2, 6})); // 5 / 2 to even
    amp_tensor *whole = tensor(AMP_I32, {2}, {16777217, -16777219});
    EXPECT_EQ(numbers_of(first({"DequantizeLinear", 13, {whole, one, tensor(AMP_I32, {}, {16777217})}})),
              (Rows{0, -33554436}));
    EXPECT_TRUE(fails({"QuantizeLinear", 21, {x, one}, {int_attribute("output_dtype", onnx_writer::UINT16)}},
                      AMP_ERROR_NOT_IMPLEMENTED, {"UINT16"}));
}

// ---- Boxes --------------------------------------------------------------------------------------------------------

TEST_F(OnnxLayers, BoxesAreChosenByScoreThenPlace) {
    amp_tensor *boxes = tensor(AMP_F32, {1, 4, 4}, {0, 0, 1, 1, 0, 0, 1, 1, 5, 5, 6, 6, 1, 1, 0, 0.1}),
               *scores = tensor(AMP_F32, {1, 1, 4}, {0.5, 0.9, 0.5, 0.5});
    amp_tensor *most = tensor(AMP_I64, {1}, {4}), *overlap = tensor(AMP_F32, {1}, {0.85});
    EXPECT_EQ(numbers_of(first({"NonMaxSuppression", 11, {boxes, scores, most, overlap}})), (Rows{0, 0, 1, 0, 0, 2}));
    EXPECT_EQ(extents_of(first({"NonMaxSuppression", 11, {boxes, scores}})), (Dims{0, 3}));
    amp_tensor *least = tensor(AMP_F32, {1}, {0.5});
    EXPECT_EQ(numbers_of(first({"NonMaxSuppression", 11, {boxes, scores, most, overlap, least}})), (Rows{0, 0, 1}));
}

TEST_F(OnnxLayers, RegionsOfNoSampleAreRefused) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 4, 4}), *roi = tensor(AMP_F32, {1, 4}, {0, 0, 2, 2});
    EXPECT_TRUE(
        fails({"RoiAlign", 16, {x, roi, tensor(AMP_I64, {1}, {1})}}, AMP_ERROR_INVALID, {"region 0 is of no sample"}));
    EXPECT_TRUE(fails(
        {"MaxRoiPool", 7, {x, tensor(AMP_F32, {1, 5}, {-1, 0, 0, 1, 1})}, {ints_attribute("pooled_shape", {1, 1})}},
        AMP_ERROR_INVALID, {"region 0 is of no sample"}));
}

// A few bytes that would compute for half a minute.
TEST_F(OnnxLayers, RegionsOfTooManySamplesAreRefused) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 4, 4}), *roi = tensor(AMP_F32, {1, 4}, {0, 0, 2, 2});
    const auto align = [&](int64_t extent, int64_t ratio) {
        return Node{"RoiAlign",
                    16,
                    {x, roi, tensor(AMP_I64, {1}, {0})},
                    {int_attribute("output_height", extent), int_attribute("output_width", extent),
                     int_attribute("sampling_ratio", ratio)}};
    };
    EXPECT_TRUE(fails(align(20, 2303), AMP_ERROR_INVALID, {"region 0 has too many samples"}));
    EXPECT_EQ(run(align(20, 16)).size(), 1u) << amp_last_error();
    EXPECT_EQ(run(align(1, 2303)).size(), 1u) << amp_last_error();
}

} // namespace
