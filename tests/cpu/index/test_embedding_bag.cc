// embedding_bag: modes, offsets, weights by sample, padding, max_norm, what bad input is told.
#include "amp_test.h"

using namespace amp_test;

namespace {

class EmbeddingBag : public Test {};

amp_tensor *integers(const std::vector<double> &numbers) {
    return tensor(AMP_I64, {int64_t(numbers.size())}, numbers);
}

amp_tensor *table(amp_dtype dtype = AMP_F32) {
    return tensor(dtype, {4, 2}, {1, 2, 3, -4, -5, 6, 7, 8});
}

TEST_F(EmbeddingBag, ModesInEveryDtype) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        amp_tensor *i = integers({0, 1, 2, 3, 3}), *o = integers({0, 3, 3});
        const std::vector<Named> max = {{"mode", "max"}}, sum = {{"mode", "sum"}};
        expect_near(op("embedding_bag", {i, table(dtype), o}, sum), {-1, 4, 0, 0, 14, 16}, 0);
        expect_near(op("embedding_bag", {i, table(dtype), o}), {-1.0 / 3, 4.0 / 3, 0, 0, 7, 8}, 0x1p-8);
        expect_near(op("embedding_bag", {i, table(dtype), o}, max), {3, 6, 0, 0, 7, 8}, 0);
    }
}

TEST_F(EmbeddingBag, RowsOfAMatrixAreBags) {
    amp_tensor *i = tensor(AMP_I32, {2, 2}, {0, 1, 2, 3});
    expect_near(op("embedding_bag", {i, table()}, {{"mode", "sum"}}), {4, -2, 2, 14}, 0);
    amp_tensor *turned = op("transpose", {i, 0, 1});
    expect_near(op("embedding_bag", {turned, table()}, {{"mode", "sum"}}), {-4, 8, 10, 4}, 0);
    amp_tensor *columns = op("transpose", {op("contiguous", {op("transpose", {table(), 0, 1})}), 0, 1});
    expect_near(op("embedding_bag", {i, columns}, {{"mode", "sum"}}), {4, -2, 2, 14}, 0);
}

TEST_F(EmbeddingBag, WideRows) {
    amp_tensor *w = random_tensor(AMP_BF16, {5, 2500}, 1), *i = integers({4, 2, 4, 0});
    const std::vector<double> ws = numbers_of(w);
    std::vector<double> want;
    for (size_t k = 0; k < 2500; k++) want.push_back(2 * ws[10000 + k] + ws[5000 + k] + ws[k]);
    expect_near(op("embedding_bag", {i, w, integers({0})}, {{"mode", "sum"}}), want, 0x1p-7);
}

TEST_F(EmbeddingBag, WeightsBySample) {
    amp_tensor *i = integers({0, 1, 2}), *s = tensor(AMP_F32, {3}, {0.5, 2, -1});
    expect_near(op("embedding_bag", {i, table(), integers({0, 2})}, {{"mode", "sum"}, {"per_sample_weights", s}}),
                {6.5, -7, 5, -6}, 0);
    EXPECT_EQ(op("embedding_bag", {i, table(), integers({0, 2})}, {{"per_sample_weights", s}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "per_sample_weights", "mean", "sum"}));
}

TEST_F(EmbeddingBag, PaddingDoesNotCount) {
    amp_tensor *i = integers({0, 3, 1, 3}), *o = integers({0, 3});
    expect_near(op("embedding_bag", {i, table(), o}, {{"padding_idx", -1}}), {2, -1, 0, 0}, 0);
    expect_near(op("embedding_bag", {i, table(), o}, {{"padding_idx", 0}, {"mode", "max"}}), {7, 8, 7, 8}, 0);
}

TEST_F(EmbeddingBag, LastOffsetEndsTheLastBag) {
    amp_tensor *i = integers({0, 1, 2, 3}), *o = integers({0, 1, 3});
    expect_near(op("embedding_bag", {i, table(), o}, {{"include_last_offset", true}, {"mode", "sum"}}), {1, 2, -2, 2},
                0);
}

TEST_F(EmbeddingBag, MaxNormLimitsTheRowsThatAreUsed) {
    amp_tensor *w = table();
    ASSERT_NE(op("embedding_bag", {integers({1, 3}), w, integers({0})}, {{"max_norm", 1.0}}), nullptr);
    expect_near(w, {1, 2, 0.6, -0.8, -5, 6, 7 / std::sqrt(113.0), 8 / std::sqrt(113.0)}, 1e-6);
}

TEST_F(EmbeddingBag, OfNothing) {
    EXPECT_EQ(amp_tensor_numel(op("embedding_bag", {integers({}), table(), integers({})})), 0);
    expect_near(op("embedding_bag", {integers({}), table(), integers({0, 0})}), {0, 0, 0, 0}, 0);
}

TEST_F(EmbeddingBag, RefuseBadInput) {
    amp_tensor *i = integers({0, 1, 2}), *o = integers({0, 2});
    EXPECT_EQ(op("embedding_bag", {integers({0, 4}), table(), o}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "element 1", "is 4", "0 to 3"}));
    EXPECT_EQ(op("embedding_bag", {i, table()}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "'offsets'", "missing"}));
    EXPECT_EQ(op("embedding_bag", {i, table(), integers({1, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "element 0", "'offsets'", "0 to 3"}));
    EXPECT_EQ(op("embedding_bag", {i, table(), integers({0, 2, 1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "element 2", "'offsets'", "rise"}));
    EXPECT_EQ(op("embedding_bag", {i, table(), o}, {{"mode", "median"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "'mode'", "median"}));
    EXPECT_EQ(op("embedding_bag", {i, table(), o}, {{"padding_idx", 4}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "padding_idx", "4"}));
    EXPECT_EQ(op("embedding_bag", {table(), table(), o}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"embedding_bag", "f32", "i64"}));
    EXPECT_EQ(op("embedding_bag", {i, table(AMP_I64), o}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"embedding_bag", "'weight'", "i64"}));
    EXPECT_EQ(op("embedding_bag", {i, tensor(AMP_F32, {4}), o}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"embedding_bag", "'weight'", "[4]"}));
}

} // namespace
