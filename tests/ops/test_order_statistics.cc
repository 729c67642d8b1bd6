// kthvalue, msort, median, nanmedian, aminmax, unique, repeat_interleave.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class OrderStatistics : public Test {};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

TEST_F(OrderStatistics, MediansAreTheLowerOfTwo) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_I64, AMP_U8}) {
        amp_tensor *x = tensor(dtype, {2, 4}, {4, 1, 3, 2, 9, 9, 0, 5});
        EXPECT_EQ(numbers_of(op("median", {x})), (Numbers{3})) << amp_dtype_name(dtype);
        auto r = both("median", {x, 1});
        EXPECT_EQ(numbers_of(r[0]), (Numbers{2, 5}));
        EXPECT_EQ(numbers_of(r[1]), (Numbers{3, 3}));
        r = both("median", {x, 0}, {{"keepdim", true}});
        EXPECT_EQ(shape_of(r[0]), (Shape{1, 4}));
        EXPECT_EQ(numbers_of(r[0]), (Numbers{4, 1, 0, 2}));
        EXPECT_EQ(numbers_of(r[1]), (Numbers{0, 0, 1, 0}));
    }
}

TEST_F(OrderStatistics, NaNIsTheMedianOrIsLeftOut) {
    amp_tensor *x = tensor(AMP_F32, {3, 4}, {NAN, 1, 3, 2, 7, 8, 5, 6, NAN, NAN, NAN, NAN});
    auto r = both("median", {x, 1});
    EXPECT_TRUE(std::isnan(numbers_of(r[0])[0]));
    EXPECT_EQ(numbers_of(r[0])[1], 6);
    EXPECT_EQ(numbers_of(r[1]), (Numbers{0, 3, 0}));
    r = both("nanmedian", {x, 1});
    EXPECT_EQ(numbers_of(r[0])[0], 2);
    EXPECT_EQ(numbers_of(r[0])[1], 6);
    EXPECT_TRUE(std::isnan(numbers_of(r[0])[2]));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{3, 3, 0}));
    EXPECT_TRUE(std::isnan(numbers_of(op("median", {x}))[0]));
    EXPECT_EQ(numbers_of(op("nanmedian", {x})), (Numbers{5}));
}

TEST_F(OrderStatistics, OfNumbersAndOfNothing) {
    auto r = both("median", {tensor(AMP_F32, {}, {5}), 0});
    EXPECT_EQ(numbers_of(r[0]), (Numbers{5}));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{0}));
    EXPECT_TRUE(std::isnan(numbers_of(op("median", {tensor(AMP_F32, {0})}))[0]));
    EXPECT_EQ(shape_of(both("median", {tensor(AMP_F32, {0, 3}), 1})[0]), (Shape{0}));
    EXPECT_EQ(op("median", {tensor(AMP_I64, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"median", "[0]"}));
    EXPECT_EQ(op("median", {tensor(AMP_F32, {0, 3}), 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"median", "[0, 3]", "dimension 0"}));
}

TEST_F(OrderStatistics, KthValue) {
    amp_tensor *x = op("t", {tensor(AMP_F32, {3, 2}, {4, 9, 1, NAN, 3, 0})}); // [[4, 1, 3], [9, NaN, 0]]
    auto r = both("kthvalue", {x, 2});
    EXPECT_EQ(numbers_of(r[0]), (Numbers{3, 9}));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{2, 0}));
    r = both("kthvalue", {x, 1, 0}, {{"keepdim", true}});
    EXPECT_EQ(shape_of(r[0]), (Shape{1, 3}));
    EXPECT_EQ(numbers_of(r[0]), (Numbers{4, 1, 0}));
    EXPECT_EQ(numbers_of(both("kthvalue", {tensor(AMP_I32, {}, {7}), 1})[0]), (Numbers{7}));
    for (int k : {0, 4}) {
        EXPECT_EQ(op("kthvalue", {x, k}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"kthvalue", "'k'", "3"}));
    }
    EXPECT_EQ(op("kthvalue", {tensor(AMP_C64, {3}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"kthvalue", "complex"}));
}

TEST_F(OrderStatistics, SortAndExtremes) {
    EXPECT_EQ(numbers_of(op("msort", {tensor(AMP_F32, {3, 2}, {3, 1, 1, 2, 2, 0})})), (Numbers{1, 0, 2, 1, 3, 2}));
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {3, 1, 2, 5, NAN, 4});
    auto r = both("aminmax", {x}, {{"dim", 0}});
    EXPECT_EQ(numbers_of(r[0])[2], 2);
    EXPECT_EQ(numbers_of(r[1])[2], 4);
    EXPECT_TRUE(std::isnan(numbers_of(r[0])[1]) && std::isnan(numbers_of(r[1])[1]));
    r = both("aminmax", {tensor(AMP_I64, {2, 2}, {3, -1, 2, 5})}, {{"keepdim", true}});
    EXPECT_EQ(shape_of(r[0]), (Shape{1, 1}));
    EXPECT_EQ(numbers_of(r[0]), (Numbers{-1}));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{5}));
    EXPECT_EQ(shape_of(both("aminmax", {tensor(AMP_F32, {2, 0})}, {{"dim", 0}})[0]), (Shape{0}));
    EXPECT_EQ(op("aminmax", {tensor(AMP_F32, {2, 0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"aminmax", "[2, 0]"}));
}

// ---- unique ----

std::vector<amp_tensor *> unique(amp_tensor *x, std::vector<Named> named = {}) {
    std::vector<amp_tensor *> outputs(3, nullptr);
    named.push_back({"return_inverse", true});
    named.push_back({"return_counts", true});
    EXPECT_EQ(call("unique", {x}, named, &outputs), AMP_OK) << amp_last_error();
    return outputs;
}

TEST_F(OrderStatistics, UniqueElements) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_I64, AMP_U8}) {
        const auto r = unique(tensor(dtype, {2, 3}, {3, 1, 3, 2, 1, 3}));
        EXPECT_EQ(numbers_of(r[0]), (Numbers{1, 2, 3}));
        EXPECT_EQ(shape_of(r[1]), (Shape{2, 3}));
        EXPECT_EQ(numbers_of(r[1]), (Numbers{2, 0, 2, 1, 0, 2}));
        EXPECT_EQ(numbers_of(r[2]), (Numbers{2, 1, 3}));
    }
    const auto r = unique(tensor(AMP_F32, {5}, {NAN, -0.0, NAN, 0.0, -1}));
    EXPECT_EQ(shape_of(r[0]), (Shape{4})); // each NaN is one of its own
    EXPECT_EQ(numbers_of(r[2]), (Numbers{1, 2, 1, 1}));
    EXPECT_EQ(numbers_of(unique(tensor(AMP_BOOL, {3}, {1, 0, 1}))[0]), (Numbers{0, 1}));
    const auto none = unique(tensor(AMP_F32, {2, 0}));
    EXPECT_EQ(shape_of(none[0]), (Shape{0}));
    EXPECT_EQ(shape_of(none[1]), (Shape{2, 0}));
    EXPECT_EQ(shape_of(none[2]), (Shape{0}));
    EXPECT_EQ(numbers_of(unique(tensor(AMP_F32, {}, {4}))[0]), (Numbers{4}));
    std::vector<amp_tensor *> outputs(3, nullptr);
    ASSERT_EQ(call("unique", {tensor(AMP_F32, {3}, {2, 1, 2})}, {}, &outputs), AMP_OK);
    EXPECT_EQ(shape_of(outputs[1]), (Shape{0}));
    EXPECT_EQ(shape_of(outputs[2]), (Shape{0}));
}

TEST_F(OrderStatistics, UniqueSlices) {
    amp_tensor *x = tensor(AMP_F32, {4, 2}, {1, 2, 0, 5, 1, 2, -0.0, 1});
    auto r = unique(x, {{"dim", 0}});
    EXPECT_EQ(shape_of(r[0]), (Shape{3, 2}));
    EXPECT_EQ(numbers_of(r[0]), (Numbers{-0.0, 1, 0, 5, 1, 2}));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{2, 1, 2, 0}));
    EXPECT_EQ(numbers_of(r[2]), (Numbers{1, 1, 2}));
    r = unique(tensor(AMP_I64, {2, 4}, {3, 1, 3, 1, 0, 7, 0, 6}), {{"dim", -1}});
    EXPECT_EQ(shape_of(r[0]), (Shape{2, 3}));
    EXPECT_EQ(numbers_of(r[0]), (Numbers{1, 1, 3, 6, 7, 0}));
    EXPECT_EQ(numbers_of(r[1]), (Numbers{2, 1, 2, 0}));
    EXPECT_EQ(numbers_of(unique(tensor(AMP_F32, {5}, {2, 1, 2, 1, 3}), {{"dim", 0}})[0]), (Numbers{1, 2, 3}));
    EXPECT_EQ(shape_of(unique(tensor(AMP_F32, {0, 2}), {{"dim", 0}})[0]), (Shape{0, 2}));
    EXPECT_EQ(shape_of(unique(tensor(AMP_F32, {3, 0}), {{"dim", 0}})[0]), (Shape{1, 0}));
    EXPECT_EQ(op("unique", {tensor(AMP_C64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"unique", "complex"}));
    EXPECT_EQ(op("unique", {x}, {{"dim", 2}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"unique", "dim"}));
}

// ---- repeat_interleave ----

TEST_F(OrderStatistics, RepeatsSlices) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(numbers_of(op("repeat_interleave", {x, 2})), (Numbers{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}));
    amp_tensor *wide = op("repeat_interleave", {op("t", {x}), 2, 1});
    EXPECT_EQ(shape_of(wide), (Shape{3, 4}));
    EXPECT_EQ(numbers_of(wide), (Numbers{1, 1, 4, 4, 2, 2, 5, 5, 3, 3, 6, 6}));
    EXPECT_EQ(shape_of(op("repeat_interleave", {x, 0, 0})), (Shape{0, 3}));
    EXPECT_EQ(numbers_of(op("repeat_interleave", {tensor(AMP_I8, {}, {7}), 3})), (Numbers{7, 7, 7}));
    amp_tensor *counts = tensor(AMP_I64, {3}, {0, 2, 1});
    EXPECT_EQ(numbers_of(op("repeat_interleave", {x, counts, 1})), (Numbers{2, 2, 3, 5, 5, 6}));
    EXPECT_EQ(numbers_of(op("repeat_interleave", {x, tensor(AMP_I32, {1}, {2}), 0})),
              (Numbers{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
    EXPECT_EQ(shape_of(op("repeat_interleave", {x, tensor(AMP_I64, {3}, {0}), 1})), (Shape{2, 0}));
    EXPECT_EQ(shape_of(op("repeat_interleave", {tensor(AMP_F32, {0, 2}), tensor(AMP_I64, {0}), 0})), (Shape{0, 2}));
    amp_tensor *deep = op("repeat_interleave", {tensor(AMP_F32, {1, 1, 1, 1, 1, 1, 1, 2}, {1, 2}), 2, -1});
    EXPECT_EQ(numbers_of(deep), (Numbers{1, 1, 2, 2}));
}

TEST_F(OrderStatistics, BadRepeatsAreToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("repeat_interleave", {x, -1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat_interleave", "-1"}));
    EXPECT_EQ(op("repeat_interleave", {x, tensor(AMP_I64, {2}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat_interleave", "[2]", "3 slices"}));
    EXPECT_EQ(op("repeat_interleave", {x, tensor(AMP_I64, {3}, {1, -2, 0}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat_interleave", "-2"}));
    EXPECT_EQ(op("repeat_interleave", {x, tensor(AMP_I64, {3}), 1}, {{"output_size", 4}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat_interleave", "output_size", "3"}));
    EXPECT_EQ(op("repeat_interleave", {x, tensor(AMP_F32, {3}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat_interleave", "f32"}));
    EXPECT_EQ(op("repeat_interleave", {x, INT64_MAX}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"repeat_interleave", "memory"}));
}

} // namespace
