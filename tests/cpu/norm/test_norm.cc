// layer_norm, rms_norm, normalize: values against f64 in every dtype, mixed dtypes, strides, what bad input is told.
#include "amp_test.h"
#include "bf16_distance.h"

using namespace amp_test;

namespace {

class Norm : public Test {};

std::vector<double> layer_norm(const std::vector<double> &x, size_t n, const std::vector<double> &w,
                               const std::vector<double> &b, double eps, bool centred) {
    std::vector<double> out(x.size());
    for (size_t row = 0; row < x.size(); row += n) {
        double mean = 0, square = 0;
        for (size_t i = 0; centred && i < n; i++) mean += x[row + i] / double(n);
        for (size_t i = 0; i < n; i++) square += (x[row + i] - mean) * (x[row + i] - mean) / double(n);
        for (size_t i = 0; i < n; i++) {
            const double y = (x[row + i] - mean) / std::sqrt(square + eps);
            out[row + i] = y * (w.empty() ? 1 : w[i]) + (b.empty() ? 0 : b[i]);
        }
    }
    return out;
}

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F64 ? 1e-13 : dtype == AMP_F32 ? 1e-6 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-8;
}

TEST_F(Norm, LayerNormMatchesF64) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        for (int64_t n : {1, 2, 15, 16, 17, 384, 1500}) {
            amp_tensor *x = random_tensor(dtype, {3, n}, 1), *w = random_tensor(dtype, {n}, 2);
            amp_tensor *b = random_tensor(dtype, {n}, 3);
            const std::vector<double> xs = numbers_of(x), ws = numbers_of(w), bs = numbers_of(b);
            const double tolerance = tolerance_of(dtype);
            expect_near(op("layer_norm", {x, AMP_DIMS(n), w, b}), layer_norm(xs, size_t(n), ws, bs, 1e-5, true),
                        tolerance);
            expect_near(op("layer_norm", {x, AMP_DIMS(n), w}), layer_norm(xs, size_t(n), ws, {}, 1e-5, true),
                        tolerance);
            expect_near(op("layer_norm", {x, AMP_DIMS(n), nullptr, b}, {{"eps", 0.5}}),
                        layer_norm(xs, size_t(n), {}, bs, 0.5, true), tolerance);
            expect_near(op("rms_norm", {x, AMP_DIMS(n), w}, {{"eps", 0.25}}),
                        layer_norm(xs, size_t(n), ws, {}, 0.25, false), tolerance);
        }
    }
}

TEST_F(Norm, Bf16IsWithinOneUlp) {
    for (int64_t n : {1, 2, 7, 16, 33, 384, 1500}) {
        for (double size : {0.001, 1.0, 300.0}) {
            amp_tensor *x = op("mul", {op("add", {random_tensor(AMP_BF16, {9, n}, 1), 0.5}), size});
            amp_tensor *w = random_tensor(AMP_BF16, {n}, 2), *b = random_tensor(AMP_BF16, {n}, 3);
            const std::vector<double> xs = numbers_of(x), ws = numbers_of(w), bs = numbers_of(b);
            ASSERT_NO_FATAL_FAILURE(expect_within_one_bf16(
                op("layer_norm", {x, AMP_DIMS(n), w, b}), layer_norm(xs, size_t(n), ws, bs, 1e-5, true), "layer_norm"));
            ASSERT_NO_FATAL_FAILURE(expect_within_one_bf16(
                op("layer_norm", {x, AMP_DIMS(n)}), layer_norm(xs, size_t(n), {}, {}, 1e-5, true), "layer_norm"));
            ASSERT_NO_FATAL_FAILURE(expect_within_one_bf16(op("rms_norm", {x, AMP_DIMS(n), w}, {{"eps", 1e-5}}),
                                                           layer_norm(xs, size_t(n), ws, {}, 1e-5, false), "rms_norm"));
        }
    }
}

TEST_F(Norm, Bf16InputMayHaveF32Parameters) {
    amp_tensor *x = random_tensor(AMP_BF16, {4, 20}, 4), *w = random_tensor(AMP_F32, {20}, 5);
    amp_tensor *b = random_tensor(AMP_F32, {20}, 6), *y = op("layer_norm", {x, AMP_DIMS(20), w, b});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
    expect_near(y, layer_norm(numbers_of(x), 20, numbers_of(w), numbers_of(b), 1e-5, true), 0x1p-8);
    EXPECT_EQ(op("layer_norm", {op("to", {x, AMP_F32}), AMP_DIMS(20), op("to", {w, AMP_BF16})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"layer_norm", "f32", "weight", "bf16"}));
}

TEST_F(Norm, SeveralDimensionsAreOneRow) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 5}, 7), *w = random_tensor(AMP_F32, {3, 5}, 8);
    expect_near(op("layer_norm", {x, AMP_DIMS(3, 5), w}), layer_norm(numbers_of(x), 15, numbers_of(w), {}, 1e-5, true),
                1e-6);
}

TEST_F(Norm, StridedInput) {
    amp_tensor *x = op("permute", {random_tensor(AMP_F32, {5, 2, 3}, 9), AMP_DIMS(1, 2, 0)});
    expect_near(op("layer_norm", {x, AMP_DIMS(5)}), layer_norm(numbers_of(x), 5, {}, {}, 1e-5, true), 1e-6);
    expect_near(op("layer_norm", {x, AMP_DIMS(3, 5)}), layer_norm(numbers_of(x), 15, {}, {}, 1e-5, true), 1e-6);
    amp_tensor *w = op("slice", {random_tensor(AMP_F32, {10}, 10), 0, 0, 10, 2});
    expect_near(op("layer_norm", {x, AMP_DIMS(5), w}), layer_norm(numbers_of(x), 5, numbers_of(w), {}, 1e-5, true),
                1e-6);
}

TEST_F(Norm, RmsNormsEpsilonOfSixteenBitsIsThatOfF32) {
    for (amp_dtype dtype : {AMP_BF16, AMP_F16}) { // PyTorch 2.13: 0.9453125 of both
        amp_tensor *x = tensor(dtype, {1}, {0.001});
        EXPECT_NEAR(amp_item(op("rms_norm", {x, AMP_DIMS(1)})), 0.9453125, 1e-3) << amp_dtype_name(dtype);
    }
}

TEST_F(Norm, RmsNormsEpsilonIsTheDtypes) {
    amp_tensor *x = tensor(AMP_F32, {2}, {1e-4, -1e-4});
    expect_near(op("rms_norm", {x, AMP_DIMS(2)}), layer_norm(numbers_of(x), 2, {}, {}, 0x1p-23, false), 1e-6);
    expect_near(op("rms_norm", {x, AMP_DIMS(2)}, {{"eps", 0.0}}), {1, -1}, 1e-6);
}

TEST_F(Norm, EmptyBatch) {
    EXPECT_EQ(amp_tensor_numel(op("layer_norm", {tensor(AMP_F32, {0, 4}), AMP_DIMS(4)})), 0);
}

TEST_F(Norm, ThreadsDoNotChangeABit) {
    amp_tensor *x = random_tensor(AMP_F32, {700, 384}, 11);
    const int before = amp_get_num_threads();
    ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
    const std::vector<double> one = numbers_of(op("layer_norm", {x, AMP_DIMS(384)}));
    ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
    EXPECT_EQ(numbers_of(op("layer_norm", {x, AMP_DIMS(384)})), one);
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

TEST_F(Norm, BadInputIsToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {2, 4});
    EXPECT_EQ(op("layer_norm", {x, AMP_DIMS(3)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"layer_norm", "normalized_shape", "[3]", "[2, 4]"}));
    EXPECT_EQ(op("layer_norm", {x, AMP_DIMS(4), tensor(AMP_F32, {5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"layer_norm", "weight", "[5]", "[4]"}));
    EXPECT_EQ(op("rms_norm", {tensor(AMP_I32, {4}), AMP_DIMS(4)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"rms_norm", "i32"}));
}

TEST_F(Norm, NormalizeDividesByThePNorm) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {3, 5, 4}, 12);
        const std::vector<double> xs = numbers_of(x);
        for (double p : {0.0, 0.5, 1.0, 2.0, 3.0, double(INFINITY)}) {
            std::vector<double> want(xs.size());
            for (size_t i = 0; i < xs.size(); i++) {
                double norm = 0;
                for (size_t k = 0; k < 5; k++) {
                    const double v = std::fabs(xs[i / 20 * 20 + k * 4 + i % 4]);
                    if (std::isinf(p))
                        norm = std::max(norm, v);
                    else
                        norm += p == 0 ? double(v != 0) : std::pow(v, p);
                }
                want[i] = xs[i] / (p == 0 || std::isinf(p) ? norm : std::pow(norm, 1 / p));
            }
            expect_near(op("normalize", {x}, {{"p", p}}), want, tolerance_of(dtype));
        }
    }
}

TEST_F(Norm, NormalizeKeepsARowOfZeros) {
    EXPECT_EQ(numbers_of(op("normalize", {tensor(AMP_F32, {1, 3}, {0})})), (std::vector<double>{0, 0, 0}));
    EXPECT_EQ(numbers_of(op("normalize", {tensor(AMP_F32, {1, 2}, {0.25, 0})}, {{"eps", 0.5}})),
              (std::vector<double>{0.5, 0}));
}

} // namespace
