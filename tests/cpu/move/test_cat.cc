// cat and stack: values, promotion, strides, empty tensors, regions, what bad input is told.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Cat : public Test {};

TEST_F(Cat, JoinsAlongAnyDimension) {
    amp_tensor *a = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4}), *b = tensor(AMP_F32, {1, 2}, {5, 6});
    EXPECT_EQ(numbers_of(op("cat", {std::vector<amp_tensor *>{a, b}})), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    amp_tensor *c = op("transpose", {tensor(AMP_F32, {1, 2}, {7, 8}), 0, 1});
    EXPECT_EQ(numbers_of(op("cat", {std::vector<amp_tensor *>{a, c, a}, -1})),
              (std::vector<double>{1, 2, 7, 1, 2, 3, 4, 8, 3, 4}));
}

TEST_F(Cat, StackMakesADimension) {
    amp_tensor *a = tensor(AMP_I64, {2}, {1, 2}), *b = tensor(AMP_I64, {2}, {3, 4});
    const std::vector<amp_tensor *> list = {a, b};
    EXPECT_EQ(numbers_of(op("stack", {list})), (std::vector<double>{1, 2, 3, 4}));
    EXPECT_EQ(numbers_of(op("stack", {list, 1})), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_EQ(numbers_of(op("stack", {list, -1})), (std::vector<double>{1, 3, 2, 4}));
    EXPECT_EQ(amp_tensor_rank(op("stack", {std::vector<amp_tensor *>{tensor(AMP_F32, {})}})), 1);
}

TEST_F(Cat, PromotesToTheWidest) {
    const std::vector<amp_tensor *> mixed = {tensor(AMP_BF16, {1}, {1.5}), tensor(AMP_F32, {1}, {0.1}),
                                             tensor(AMP_I32, {1}, {2})};
    EXPECT_EQ(amp_tensor_dtype(op("cat", {mixed})), AMP_F32);
    EXPECT_EQ(numbers_of(op("cat", {mixed})), (std::vector<double>{1.5, double(0.1F), 2}));
    const Region region;
    EXPECT_EQ(amp_tensor_dtype(op("cat", {mixed})), AMP_F32);
    const std::vector<amp_tensor *> low = {tensor(AMP_BF16, {1}), tensor(AMP_BF16, {1})};
    EXPECT_EQ(amp_tensor_dtype(op("stack", {low})), AMP_BF16);
}

TEST_F(Cat, EmptyVectorIsIgnored) {
    amp_tensor *a = tensor(AMP_F32, {1, 2}, {1, 2}), *none = tensor(AMP_F32, {0});
    EXPECT_EQ(numbers_of(op("cat", {std::vector<amp_tensor *>{none, a, none, a}})), (std::vector<double>{1, 2, 1, 2}));
    EXPECT_EQ(amp_tensor_numel(op("cat", {std::vector<amp_tensor *>{none, none}})), 0);
}

TEST_F(Cat, OutMayBeStrided) {
    amp_tensor *out = op("transpose", {tensor(AMP_F32, {2, 2}), 0, 1}), *a = tensor(AMP_F32, {1, 2}, {1, 2});
    ASSERT_EQ(op("cat_out", {std::vector<amp_tensor *>{a, a}}, {{"out", out}}), out) << amp_last_error();
    EXPECT_EQ(numbers_of(out), (std::vector<double>{1, 2, 1, 2}));
}

TEST_F(Cat, BadInputIsToldWhatIsWrong) {
    amp_tensor *a = tensor(AMP_F32, {2, 2}), *b = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{a, b}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "[2, 3]", "[2, 2]", "dimension 0"}));
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{a, a}, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "dim", "2"}));
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{tensor(AMP_F32, {})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "stack"}));
    EXPECT_EQ(op("stack", {std::vector<amp_tensor *>{a, b}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stack", "[2, 3]", "equal"}));
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat"}));
}

TEST_F(Cat, OfEmptyVectorsHasAnyDimension) {
    amp_tensor *none = tensor(AMP_F32, {0}, {});
    amp_tensor *y = op("cat", {std::vector<amp_tensor *>{none, none}, 1});
    ASSERT_NE(y, nullptr);
    EXPECT_TRUE(numbers_of(y).empty());
}

} // namespace
