// movedim, unflatten, parts of complex numbers, tensor_split, rot90, channel_shuffle, kron, diff.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class Rearranged : public Test {
  protected:
    amp_tensor *base() { // 0 … 23 as [2, 3, 4]
        return op("view", {op("arange", {24}, {{"dtype", AMP_F32}}), AMP_DIMS(2, 3, 4)});
    }
    amp_tensor *numbers() { // 1 + 2i, 3 − 4i, 5, −6i
        return op("view_as_complex", {tensor(AMP_F32, {4, 2}, {1, 2, 3, -4, 5, 0, 0, -6})});
    }
};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

TEST_F(Rearranged, MovedDimensionsKeepTheOrderOfTheOthers) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 4, 5}, 1);
    const auto same = [&](const amp_dims &source, const amp_dims &destination, const amp_dims &order) {
        amp_tensor *y = op("movedim", {x, source, destination});
        EXPECT_EQ(numbers_of(y), numbers_of(op("permute", {x, order})));
        EXPECT_EQ(shape_of(y), shape_of(op("permute", {x, order})));
        EXPECT_EQ(amp_data(y), amp_data(x));
    };
    same(AMP_DIMS(0), AMP_DIMS(2), AMP_DIMS(1, 2, 0, 3));
    same(AMP_DIMS(-1), AMP_DIMS(0), AMP_DIMS(3, 0, 1, 2));
    same(AMP_DIMS(0, 1), AMP_DIMS(-1, 0), AMP_DIMS(1, 2, 3, 0));
    same(AMP_DIMS(3, 2, 1, 0), AMP_DIMS(0, 1, 2, 3), AMP_DIMS(3, 2, 1, 0));
    EXPECT_EQ(numbers_of(op("movedim", {tensor(AMP_F32, {}, {3}), AMP_DIMS(0), AMP_DIMS(-1)})), (Numbers{3}));
    EXPECT_EQ(op("movedim", {x, AMP_DIMS(0, 1), AMP_DIMS(0)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"movedim", "2", "1"}));
    EXPECT_EQ(op("movedim", {x, AMP_DIMS(0, 1), AMP_DIMS(2, -2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"movedim", "'destination'", "twice"}));
}

TEST_F(Rearranged, ADimensionTakenApart) {
    amp_tensor *x = op("transpose", {base(), 0, 2}); // [4, 3, 2]
    amp_tensor *y = op("unflatten", {x, 0, AMP_DIMS(2, -1)});
    EXPECT_EQ(shape_of(y), (Shape{2, 2, 3, 2}));
    EXPECT_EQ(numbers_of(y), numbers_of(x));
    EXPECT_EQ(amp_data(y), amp_data(x));
    EXPECT_EQ(shape_of(op("unflatten", {tensor(AMP_F32, {0, 3}), 0, AMP_DIMS(4, 0)})), (Shape{4, 0, 3}));
    EXPECT_EQ(amp_tensor_numel(op("unflatten", {tensor(AMP_F32, {0, 3}), 0, AMP_DIMS(0, INT64_C(1) << 60)})), 0);
    EXPECT_EQ(op("unflatten", {x, 0, AMP_DIMS(3, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"unflatten", "[3, 2]", "4 elements"}));
    EXPECT_EQ(op("unflatten", {x, 0, AMP_DIMS(1, 1, 1, 1, 1, 4, 1)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"unflatten", "8 dimensions"}));
}

TEST_F(Rearranged, PartsOfComplexNumbersShareTheirMemory) {
    amp_tensor *z = numbers(), *re = op("real", {z}), *im = op("imag", {z});
    EXPECT_EQ(amp_tensor_dtype(re), AMP_F32);
    EXPECT_EQ(numbers_of(re), (Numbers{1, 3, 5, 0}));
    EXPECT_EQ(numbers_of(im), (Numbers{2, -4, 0, -6}));
    EXPECT_EQ(numbers_of(op("view_as_real", {z})), (Numbers{1, 2, 3, -4, 5, 0, 0, -6}));
    op("neg_", {im});
    EXPECT_EQ(numbers_of(op("view_as_real", {z})), (Numbers{1, -2, 3, 4, 5, -0.0, 0, 6}));
    amp_tensor *last = op("slice", {z, 0, 1, 4, 2});
    EXPECT_EQ(numbers_of(op("imag", {last})), (Numbers{4, 6}));
    EXPECT_EQ(shape_of(op("view_as_real", {last})), (Shape{2, 2}));
    amp_tensor *x = base();
    EXPECT_EQ(amp_data(op("real", {x})), amp_data(x));
    EXPECT_EQ(op("imag", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"imag", "f32", "c64"}));
    EXPECT_EQ(op("view_as_real", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"view_as_real", "f32"}));
}

TEST_F(Rearranged, SplitsBySectionsAndByIndices) {
    amp_tensor *x = op("arange", {7}, {{"dtype", AMP_F32}});
    const auto pieces = [&](const std::vector<Value> &values) {
        std::vector<amp_tensor *> list(8, nullptr);
        std::vector<Numbers> found;
        EXPECT_EQ(call("tensor_split", values, {}, &list), AMP_OK) << amp_last_error();
        for (amp_tensor *t : list) {
            if (t) found.push_back(numbers_of(t));
        }
        return found;
    };
    EXPECT_EQ(pieces({x, 3}), (std::vector<Numbers>{{0, 1, 2}, {3, 4}, {5, 6}}));
    EXPECT_EQ(pieces({op("narrow", {x, 0, 0, 1}), 2}), (std::vector<Numbers>{{0}, {}}));
    EXPECT_EQ(pieces({x, AMP_DIMS(2, -2, 9)}), (std::vector<Numbers>{{0, 1}, {2, 3, 4}, {5, 6}, {}}));
    EXPECT_EQ(pieces({x, AMP_DIMS(4, 2)}), (std::vector<Numbers>{{0, 1, 2, 3}, {}, {2, 3, 4, 5, 6}}));
    EXPECT_EQ(pieces({x, tensor(AMP_I64, {1}, {5})}), (std::vector<Numbers>{{0, 1, 2, 3, 4}, {5, 6}}));
    EXPECT_EQ(pieces({x, tensor(AMP_I32, {}, {2})}), (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6}}));
    EXPECT_NE(call("tensor_split", {x, 0}, {}, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensor_split", "sections"}));
    EXPECT_NE(call("tensor_split", {x, tensor(AMP_F32, {1})}, {}, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensor_split", "f32", "integers"}));
    EXPECT_NE(call("tensor_split", {tensor(AMP_F32, {}), 2}, {}, nullptr), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensor_split", "no dimension"}));
}

TEST_F(Rearranged, QuarterTurns) {
    amp_tensor *x = tensor(AMP_I64, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(numbers_of(op("rot90", {x})), (Numbers{3, 6, 2, 5, 1, 4}));
    EXPECT_EQ(numbers_of(op("rot90", {x, 2})), (Numbers{6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(numbers_of(op("rot90", {x, -1})), (Numbers{4, 1, 5, 2, 6, 3}));
    EXPECT_EQ(numbers_of(op("rot90", {x, 4})), numbers_of(x));
    EXPECT_EQ(numbers_of(op("rot90", {x, 1, AMP_DIMS(1, 0)})), (Numbers{4, 1, 5, 2, 6, 3}));
    amp_tensor *y = base();
    EXPECT_EQ(numbers_of(op("rot90", {op("rot90", {y, 3, AMP_DIMS(0, 2)}), 1, AMP_DIMS(0, 2)})), numbers_of(y));
    EXPECT_EQ(shape_of(op("rot90", {tensor(AMP_F32, {0, 3})})), (Shape{3, 0}));
    EXPECT_EQ(op("rot90", {tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"rot90", "[3]"}));
}

TEST_F(Rearranged, ShuffledChannels) {
    amp_tensor *x = op("view", {op("arange", {12}, {{"dtype", AMP_F32}}), AMP_DIMS(1, 6, 2)});
    const Numbers want = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
    EXPECT_EQ(numbers_of(op("channel_shuffle", {x, 2})), want);
    amp_tensor *strided = op("transpose", {op("contiguous", {op("transpose", {x, 1, 2})}), 1, 2});
    EXPECT_EQ(numbers_of(op("channel_shuffle", {strided, 2})), want);
    EXPECT_NE(op("channel_shuffle", {tensor(AMP_F32, {1, 0, 2}), int64_t(INT64_MAX)}), nullptr) << "no channels";
    EXPECT_EQ(shape_of(op("channel_shuffle", {tensor(AMP_F32, {0, 4, 3}), 2})), (Shape{0, 4, 3}));
    EXPECT_EQ(op("channel_shuffle", {x, 4}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"channel_shuffle", "[1, 6, 2]", "4"}));
}

TEST_F(Rearranged, KroneckerProducts) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4}), *y = tensor(AMP_F32, {2}, {1, 10});
    amp_tensor *z = op("kron", {x, y});
    EXPECT_EQ(shape_of(z), (Shape{2, 4}));
    EXPECT_EQ(numbers_of(z), (Numbers{1, 10, 2, 20, 3, 30, 4, 40}));
    EXPECT_EQ(numbers_of(op("kron", {y, tensor(AMP_I64, {2}, {1, 2})})), (Numbers{1, 2, 10, 20}));
    EXPECT_EQ(numbers_of(op("kron", {tensor(AMP_F32, {}, {2}), y})), (Numbers{2, 20}));
    EXPECT_EQ(op("kron", {tensor(AMP_F32, {1, 1, 1, 1, 1}), y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"kron", "4 dimensions"}));
}

TEST_F(Rearranged, DifferencesOfNeighbours) {
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {1, 4, 9, 16, 0, 1, 0, 3});
    EXPECT_EQ(numbers_of(op("diff", {x})), (Numbers{3, 5, 7, 1, -1, 3}));
    EXPECT_EQ(numbers_of(op("diff", {x, 2})), (Numbers{2, 2, -2, 4}));
    EXPECT_EQ(numbers_of(op("diff", {x, 1, 0})), (Numbers{-1, -3, -9, -13}));
    EXPECT_EQ(shape_of(op("diff", {x, 9})), (Shape{2, 0}));
    EXPECT_EQ(numbers_of(op("diff", {x, 0})), numbers_of(x));
    EXPECT_NE(amp_data(op("diff", {x, 0})), amp_data(x));
    amp_tensor *zero = tensor(AMP_F32, {2, 1}, {0});
    EXPECT_EQ(numbers_of(op("diff", {x, 1, 1}, {{"prepend", zero}, {"append", zero}})),
              (Numbers{1, 3, 5, 7, -16, 0, 1, -1, 3, -3}));
    EXPECT_EQ(numbers_of(op("diff", {tensor(AMP_BOOL, {3}, {1, 0, 0})})), (Numbers{1, 0}));
    EXPECT_EQ(op("diff", {tensor(AMP_F32, {})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diff", "[]"}));
    EXPECT_EQ(op("diff", {x, -1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diff", "-1"}));
}

} // namespace
