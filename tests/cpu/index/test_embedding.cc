// embedding: rows by index, renormalisation in place, what bad input is told.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Embedding : public Test {};

TEST_F(Embedding, TakesRowsInEveryDtype) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I32}) {
        for (amp_dtype index : {AMP_I64, AMP_I32}) {
            amp_tensor *w = tensor(dtype, {3, 2}, {1, 2, 3, 4, 5, 6}), *i = tensor(index, {2, 2}, {2, 0, 1, 2});
            amp_tensor *y = op("embedding", {i, w});
            ASSERT_EQ(amp_tensor_rank(y), 3) << amp_last_error();
            EXPECT_EQ(amp_tensor_dtype(y), dtype);
            EXPECT_EQ(numbers_of(y), (std::vector<double>{5, 6, 1, 2, 3, 4, 5, 6}));
        }
    }
}

TEST_F(Embedding, StridedIndicesAndWeight) {
    amp_tensor *w = op("transpose", {tensor(AMP_F32, {2, 3}, {1, 3, 5, 2, 4, 6}), 0, 1});
    amp_tensor *i = op("transpose", {tensor(AMP_I64, {2, 2}, {2, 1, 0, 2}), 0, 1});
    EXPECT_EQ(numbers_of(op("embedding", {i, w})), (std::vector<double>{5, 6, 1, 2, 3, 4, 5, 6}));
    amp_tensor *rows = op("slice", {random_tensor(AMP_F32, {5, 700}, 1), 1, 10, 690});
    const std::vector<double> all = numbers_of(rows);
    const std::vector<double> got = numbers_of(op("embedding", {tensor(AMP_I64, {200}, {4, 1, 3}), rows}));
    for (size_t k = 0; k < got.size(); k++) {
        ASSERT_EQ(got[k], all[size_t(k / 680 % 3 == 0 ? 4 : k / 680 % 3 == 1 ? 1 : 3) * 680 + k % 680]);
    }
}

TEST_F(Embedding, EmptyAndZeroDimensionalIndices) {
    amp_tensor *w = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(numbers_of(op("embedding", {tensor(AMP_I64, {}, {1}), w})), (std::vector<double>{3, 4}));
    EXPECT_EQ(amp_tensor_numel(op("embedding", {tensor(AMP_I64, {0}), w})), 0);
}

TEST_F(Embedding, MaxNormLimitsTheRowsThatAreUsedInPlace) {
    amp_tensor *w = tensor(AMP_F64, {3, 2}, {3, 4, 0.3, 0.4, 6, 8});
    const uint64_t version = amp_tensor_version(w);
    amp_tensor *y = op("embedding", {tensor(AMP_I64, {3}, {0, 1, 0}), w}, {{"max_norm", 1.0}});
    const std::vector<double> want = {0.6, 0.8, 0.3, 0.4, 0.6, 0.8}, got = numbers_of(y), after = numbers_of(w);
    for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(got[i], want[i], 1e-7);
    EXPECT_NEAR(after[0], 0.6, 1e-7);
    EXPECT_EQ(after[4], 6) << "a row that was not used";
    EXPECT_GT(amp_tensor_version(w), version);
}

TEST_F(Embedding, MaxNormLimitsTheWeightItselfUnderAnOverride) {
    for (const amp_override override : {AMP_OVERRIDE_ALLOW, AMP_OVERRIDE_NONE}) {
        ASSERT_EQ(amp_autocast_override("embedding", AMP_DEVICE_CPU, override), AMP_OK);
        amp_tensor *w = tensor(AMP_F32, {2, 2}, {3, 4, 0, 1});
        Region region;
        EXPECT_NE(op("embedding", {tensor(AMP_I64, {1}, {0}), w}, {{"max_norm", 1.0}}), nullptr) << amp_last_error();
        EXPECT_NEAR(numbers_of(w)[0], 0.6, 1e-6);
    }
}

TEST_F(Embedding, BadInputIsToldWhatIsWrong) {
    amp_tensor *w = tensor(AMP_F32, {3, 2});
    EXPECT_EQ(op("embedding", {tensor(AMP_I64, {2}, {0, 3}), w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding", "element 1", "3", "0 to 2"}));
    EXPECT_EQ(op("embedding", {tensor(AMP_I64, {1}, {-1}), w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding", "-1"}));
    EXPECT_EQ(op("embedding", {tensor(AMP_F32, {1}), w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"embedding", "f32", "i64"}));
    EXPECT_EQ(op("embedding", {tensor(AMP_I64, {1}, {0}), tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding", "weight", "[3]"}));
}

} // namespace
