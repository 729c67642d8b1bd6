// glu, prelu, fake_quantize_per_tensor_affine: values, layouts, what bad input is told.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Glu : public Test {};
class FakeQuantize : public Test {};

TEST_F(Glu, OfEitherDimension) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {6, 34}, 1);
        const std::vector<double> xs = numbers_of(x);
        std::vector<double> rows, columns;
        for (size_t i = 0; i < 3 * 34; i++) rows.push_back(xs[i] / (1 + std::exp(-xs[i + size_t(3 * 34)])));
        for (size_t i = 0; i < 6 * 17; i++) {
            const size_t at = i / 17 * 34 + i % 17;
            columns.push_back(xs[at] / (1 + std::exp(-xs[at + 17])));
        }
        const double tolerance = dtype == AMP_F64 ? 1e-15 : dtype == AMP_F32 ? 2e-7 : 0x1p-8;
        expect_near(op("glu", {x, 0}), rows, tolerance);
        expect_near(op("glu", {x}), columns, tolerance);
    }
}

TEST_F(Glu, RefusesAnOddExtent) {
    EXPECT_EQ(op("glu", {tensor(AMP_F32, {2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"glu", "[2, 3]", "even"}));
    EXPECT_EQ(op("glu", {tensor(AMP_F32, {})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"glu", "[]", "even"}));
    EXPECT_EQ(op("glu", {tensor(AMP_I64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"glu", "i64"}));
    EXPECT_EQ(op("glu", {tensor(AMP_F32, {2}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"glu", "dim"}));
}

TEST_F(Glu, PreluBySlopeOrChannel) {
    amp_tensor *x = tensor(AMP_F32, {2, 3, 2}, {-1, 2, -3, 4, -5, NAN});
    amp_tensor *one = tensor(AMP_F32, {1}, {0.5}), *each = tensor(AMP_F32, {3}, {0.5, 2, -1});
    expect_near(op("prelu", {x, one}), {-0.5, 2, -1.5, 4, -2.5, NAN, -0.5, 2, -1.5, 4, -2.5, NAN}, 0);
    expect_near(op("prelu", {x, each}), {-0.5, 2, -6, 4, 5, NAN, -0.5, 2, -6, 4, 5, NAN}, 0);
    amp_tensor *turned = op("transpose", {x, 0, 1}); // [3, 2, 2]
    expect_near(op("prelu", {turned, tensor(AMP_F32, {2}, {1, 0})}), {-1, 2, 0, 2, -3, 4, 0, 4, -5, NAN, 0, NAN}, 0);
}

TEST_F(Glu, PreluRefusesBadWeights) {
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("prelu", {x, tensor(AMP_F32, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"prelu", "weight", "[2]", "[2, 3]", "3 channels"}));
    EXPECT_EQ(op("prelu", {x, tensor(AMP_F32, {1, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"prelu", "weight", "[1, 3]"}));
    EXPECT_EQ(op("prelu", {x, tensor(AMP_BF16, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"prelu", "f32", "bf16"}));
}

TEST_F(FakeQuantize, RoundsToEvenAndKeepsTheRange) {
    amp_tensor *x = tensor(AMP_F32, {8}, {0.25, 0.75, 1.25, -0.25, 100, -100, INFINITY, NAN});
    const std::vector<double> want = {0, 1, 1, 0, 4.5, -1, 4.5, -1};
    expect_near(op("fake_quantize_per_tensor_affine", {x, 0.5, 2, 0, 11}), want, 0);
    amp_tensor *scale = tensor(AMP_F32, {1}, {0.5}), *zero = tensor(AMP_I32, {1}, {2});
    expect_near(op("fake_quantize_per_tensor_affine", {x, scale, zero, 0, 11}), want, 0);
    expect_near(op("fake_quantize_per_tensor_affine", {op("to", {x, AMP_BF16}), 0.5, 2, 0, 11}), want, 0);
}

TEST_F(FakeQuantize, RefusesBadInput) {
    amp_tensor *x = tensor(AMP_F32, {2}), *two = tensor(AMP_F32, {2}), *one = tensor(AMP_I32, {1});
    EXPECT_EQ(op("fake_quantize_per_tensor_affine", {x, 0.5, 2, 3, 11}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fake_quantize_per_tensor_affine", "zero_point", "quant_min", "3"}));
    EXPECT_EQ(op("fake_quantize_per_tensor_affine", {x, two, one, 0, 11}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fake_quantize_per_tensor_affine", "scale", "[2]"}));
    EXPECT_EQ(op("fake_quantize_per_tensor_affine", {one, 0.5, 2, 0, 11}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"fake_quantize_per_tensor_affine", "i32"}));
}

} // namespace
