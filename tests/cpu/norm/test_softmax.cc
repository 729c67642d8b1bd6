// softmax, log_softmax, softmin: every dimension and dtype against f64, extreme rows, what bad input is told.
#include "amp_test.h"
#include "bf16_distance.h"

using namespace amp_test;

namespace {

class Softmax : public Test {};

// Along dimension d of the shape; kind 0: softmax, 1: log_softmax, 2: softmin.
std::vector<double> reference(const std::vector<double> &x, const Shape &shape, size_t d, int kind) {
    std::vector<double> out(x.size());
    int64_t inner = 1;
    for (size_t i = d + 1; i < shape.size(); i++) inner *= shape[i];
    const int64_t n = shape[d];
    for (int64_t row = 0; row < int64_t(x.size()) / std::max<int64_t>(n, 1); row++) {
        const int64_t base = row / inner * inner * n + row % inner;
        double max = -INFINITY, sum = 0;
        auto at = [&](int64_t i) { return (kind == 2 ? -1 : 1) * x[size_t(base + i * inner)]; };
        for (int64_t i = 0; i < n; i++) max = std::max(max, at(i));
        for (int64_t i = 0; i < n; i++) sum += std::exp(at(i) - max);
        for (int64_t i = 0; i < n; i++) {
            out[size_t(base + i * inner)] = kind == 1 ? at(i) - max - std::log(sum) : std::exp(at(i) - max) / sum;
        }
    }
    return out;
}

const char *const names[] = {"softmax", "log_softmax", "softmin"};

TEST_F(Softmax, EveryDimensionOfEveryDtype) {
    struct {
        amp_dtype dtype;
        double tolerance;
    } const types[] = {{AMP_F64, 1e-15}, {AMP_F32, 5e-7}, {AMP_BF16, 0x1p-8}, {AMP_F16, 0x1p-10}};
    for (const auto &type : types) {
        for (const Shape &shape : {Shape{5}, Shape{1}, Shape{3, 17}, Shape{2, 33, 4}, Shape{2, 3, 1100}}) {
            amp_tensor *x = op("mul", {random_tensor(type.dtype, shape, 1), 8.0});
            for (int kind = 0; kind < 3; kind++) {
                for (int d = 0; d < int(shape.size()); d++) {
                    amp_tensor *y = op(names[kind], {x, d});
                    ASSERT_EQ(amp_tensor_dtype(y), type.dtype) << amp_last_error();
                    const std::vector<double> got = numbers_of(y);
                    const std::vector<double> want = reference(numbers_of(x), shape, size_t(d), kind);
                    for (size_t i = 0; i < got.size(); i++) {
                        ASSERT_NEAR(got[i], want[i], type.tolerance * std::max(1.0, std::fabs(want[i])))
                            << names[kind] << " along " << d << ", element " << i;
                    }
                }
            }
        }
    }
}

// log_softmax of a row in which one element has all but all of the weight: f32's 1 + z rounds z, as in PyTorch.
TEST_F(Softmax, Bf16IsWithinOneUlp) {
    for (const Shape &shape : {Shape{1, 1}, Shape{40, 7}, Shape{30, 65}, Shape{3, 1500}, Shape{3, 33, 5}}) {
        for (double size : {0.01, 1.0, 9.0, 60.0}) {
            amp_tensor *x = op("mul", {random_tensor(AMP_BF16, shape, 3), size});
            for (int kind = 0; kind < 3; kind++)
                ASSERT_NO_FATAL_FAILURE(expect_within_one_bf16(op(names[kind], {x, 1}),
                                                               reference(numbers_of(x), shape, 1, kind), names[kind],
                                                               kind == 1 ? 0x1p-23 : 0));
        }
    }
}

TEST_F(Softmax, StridedInputGivesTheSameBits) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *x = op("transpose", {random_tensor(dtype, {40, 6}, 2), 0, 1});
        for (int d : {0, 1}) {
            EXPECT_EQ(numbers_of(op("softmax", {x, d})), numbers_of(op("softmax", {op("contiguous", {x}), d})));
        }
    }
}

TEST_F(Softmax, RowOfMinusInfinityIsNan) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        for (const char *name : {"softmax", "log_softmax"}) {
            for (double x : numbers_of(op(name, {tensor(dtype, {3}, {-INFINITY}), 0})))
                EXPECT_TRUE(std::isnan(x)) << name;
        }
    }
}

TEST_F(Softmax, SingleMinusInfinityWeighsNothing) {
    EXPECT_EQ(numbers_of(op("softmax", {tensor(AMP_F32, {3}, {1, -INFINITY, 1}), -1})),
              (std::vector<double>{0.5, 0, 0.5}));
}

TEST_F(Softmax, LargeValuesDoNotOverflow) {
    EXPECT_EQ(numbers_of(op("softmax", {tensor(AMP_F32, {2}, {3e38, 3e38}), 0})), (std::vector<double>{0.5, 0.5}));
}

TEST_F(Softmax, NanFillsItsRowAndNoOther) {
    amp_tensor *x = tensor(AMP_F32, {2, 20}, std::vector<double>(40, 1.0));
    static_cast<float *>(amp_data_mut(x))[3] = NAN;
    const std::vector<double> y = numbers_of(op("softmax", {x, 1}));
    for (size_t i = 0; i < 40; i++) EXPECT_EQ(std::isnan(y[i]), i < 20) << i;
}

TEST_F(Softmax, DtypeConvertsFirst) {
    amp_tensor *y = op("softmax", {tensor(AMP_I64, {2}, {1, 1}), 0}, {{"dtype", AMP_F32}});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_F32);
    EXPECT_EQ(numbers_of(y), (std::vector<double>{0.5, 0.5}));
    EXPECT_EQ(amp_tensor_dtype(op("log_softmax", {tensor(AMP_BF16, {2}), 0}, {{"dtype", AMP_F64}})), AMP_F64);
}

TEST_F(Softmax, EmptyAndZeroDimensional) {
    EXPECT_EQ(amp_tensor_numel(op("softmax", {tensor(AMP_F32, {0, 3}), 1})), 0);
    EXPECT_EQ(amp_tensor_numel(op("softmax", {tensor(AMP_F32, {3, 0}), 1})), 0);
    EXPECT_EQ(numbers_of(op("softmax", {tensor(AMP_F32, {}, {7}), 0})), (std::vector<double>{1}));
}

TEST_F(Softmax, BadInputIsToldWhatIsWrong) {
    EXPECT_EQ(op("softmax", {tensor(AMP_F32, {2, 3}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"softmax", "dim", "2"}));
    EXPECT_EQ(op("softmax", {tensor(AMP_I64, {2}), 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"softmax", "i64", "floating"}));
}

} // namespace
