// nonzero, masked_select, masked_scatter, index: places that masks and indices name.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class Masks : public Test {};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

TEST_F(Masks, NonzeroListsIndicesInOrder) {
    for (amp_dtype dtype : {AMP_BOOL, AMP_U8, AMP_I64, AMP_F32, AMP_BF16, AMP_F64, AMP_C64}) {
        amp_tensor *places = op("nonzero", {tensor(dtype, {2, 3}, {0, 1, 0, 1, 1, 0})});
        EXPECT_EQ(shape_of(places), (Shape{3, 2}));
        EXPECT_EQ(amp_tensor_dtype(places), AMP_I64);
        EXPECT_EQ(numbers_of(places), (Numbers{0, 1, 1, 0, 1, 1}));
    }
    amp_tensor *turned = op("t", {tensor(AMP_F32, {2, 3}, {0, NAN, 0, -1, 2, 0})});
    EXPECT_EQ(numbers_of(op("nonzero", {turned})), (Numbers{0, 1, 1, 0, 1, 1}));
}

TEST_F(Masks, NonzeroOfNumbersAndOfNothing) {
    EXPECT_EQ(shape_of(op("nonzero", {tensor(AMP_F32, {}, {5})})), (Shape{1, 0}));
    EXPECT_EQ(shape_of(op("nonzero", {tensor(AMP_F32, {}, {0})})), (Shape{0, 0}));
    EXPECT_EQ(shape_of(op("nonzero", {tensor(AMP_F32, {2, 0, 3})})), (Shape{0, 3}));
    EXPECT_EQ(shape_of(op("nonzero", {tensor(AMP_F32, {4}, {0})})), (Shape{0, 1}));
}

TEST_F(Masks, SelectBroadcastsBothWays) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(numbers_of(op("masked_select", {x, tensor(AMP_BOOL, {3}, {1, 0, 1})})), (Numbers{1, 3, 4, 6}));
    EXPECT_EQ(numbers_of(op("masked_select", {x, tensor(AMP_BOOL, {2, 1}, {0, 1})})), (Numbers{4, 5, 6}));
    EXPECT_EQ(numbers_of(op("masked_select", {op("t", {x}), tensor(AMP_BOOL, {2}, {0, 1})})), (Numbers{4, 5, 6}));
    EXPECT_EQ(numbers_of(op("masked_select", {tensor(AMP_I8, {1}, {7}), tensor(AMP_BOOL, {4}, {1, 0, 1, 0})})),
              (Numbers{7, 7}));
    EXPECT_EQ(numbers_of(op("masked_select", {tensor(AMP_F32, {}, {7}), tensor(AMP_BOOL, {}, {1})})), (Numbers{7}));
    EXPECT_EQ(shape_of(op("masked_select", {x, tensor(AMP_BOOL, {3}, {0})})), (Shape{0}));
    EXPECT_EQ(shape_of(op("masked_select", {tensor(AMP_F32, {0, 3}), tensor(AMP_BOOL, {3}, {1})})), (Shape{0}));
}

TEST_F(Masks, ScatterWritesInOrder) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *values = tensor(AMP_F32, {5}, {-1, -2, -3, -4, -5});
    amp_tensor *mask = tensor(AMP_BOOL, {3}, {1, 0, 1});
    const Numbers want = {-1, 2, -2, -3, 5, -4};
    EXPECT_EQ(numbers_of(op("masked_scatter", {x, mask, values})), want);
    EXPECT_EQ(numbers_of(x)[0], 1);
    amp_tensor *turned = op("t", {x});
    EXPECT_EQ(op("masked_scatter_", {turned, op("unsqueeze", {mask, 1}), values}), turned);
    EXPECT_EQ(numbers_of(x), (Numbers{-1, 2, -3, -2, 5, -4}));
    EXPECT_EQ(numbers_of(op("masked_scatter", {tensor(AMP_F32, {1}, {9}), mask, values})), (Numbers{-1, 9, -2}));
}

TEST_F(Masks, BadMasksAreToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("masked_select", {x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"masked_select", "mask", "f32", "bool"}));
    EXPECT_EQ(op("masked_select", {x, tensor(AMP_BOOL, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"masked_select", "[2]", "[2, 3]"}));
    EXPECT_EQ(op("masked_scatter", {x, tensor(AMP_BOOL, {3}, {1}), tensor(AMP_F32, {5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"masked_scatter", "6", "[5]"}));
    EXPECT_EQ(op("masked_scatter", {x, tensor(AMP_BOOL, {3}, {1}), tensor(AMP_F64, {6})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"masked_scatter", "f32", "f64"}));
    EXPECT_EQ(op("masked_scatter_", {tensor(AMP_F32, {1}), tensor(AMP_BOOL, {3}, {0}), x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"masked_scatter_", "[3]", "[1]"}));
}

// ---- index ----

class Index : public Test {
  protected:
    amp_tensor *base() { // 0 … 23 as [2, 3, 4]
        return op("view", {op("arange", {24}, {{"dtype", AMP_F32}}), AMP_DIMS(2, 3, 4)});
    }
    amp_tensor *read(amp_tensor *x, const std::vector<amp_tensor *> &list) {
        return op("index", {x, list});
    }
};

TEST_F(Index, NeighboursStayWhereTheyStand) {
    amp_tensor *x = base(), *i = tensor(AMP_I64, {2}, {2, -1}), *j = tensor(AMP_I32, {3, 1}, {0, 1, -4});
    amp_tensor *y = read(x, {nullptr, i, j});
    EXPECT_EQ(shape_of(y), (Shape{2, 3, 2}));
    EXPECT_EQ(numbers_of(y), (Numbers{8, 8, 9, 9, 8, 8, 20, 20, 21, 21, 20, 20}));
    EXPECT_EQ(shape_of(read(x, {nullptr, nullptr, j})), (Shape{2, 3, 3, 1}));
    EXPECT_EQ(numbers_of(read(x, {tensor(AMP_I64, {}, {-1}), tensor(AMP_I64, {}, {1})})), (Numbers{16, 17, 18, 19}));
}

TEST_F(Index, ApartTheyComeFirst) {
    amp_tensor *y = read(base(), {tensor(AMP_I64, {2}, {0, 1}), nullptr, tensor(AMP_I64, {2}, {3, 0})});
    EXPECT_EQ(shape_of(y), (Shape{2, 3}));
    EXPECT_EQ(numbers_of(y), (Numbers{3, 7, 11, 12, 16, 20}));
}

TEST_F(Index, MasksAreTheirPlaces) {
    amp_tensor *x = base();
    EXPECT_EQ(numbers_of(read(x, {tensor(AMP_BOOL, {2, 3}, {0, 1, 0, 1, 0, 0})})),
              (Numbers{4, 5, 6, 7, 12, 13, 14, 15}));
    EXPECT_EQ(numbers_of(read(x, {nullptr, tensor(AMP_BOOL, {3}, {1, 0, 1}), tensor(AMP_I64, {2}, {0, 3})})),
              (Numbers{0, 11, 12, 23}));
    EXPECT_EQ(shape_of(read(x, {tensor(AMP_BOOL, {2}, {0})})), (Shape{0, 3, 4}));
}

// What index_put writes, index reads.
TEST_F(Index, ReadsWhatIndexPutWrites) {
    amp_tensor *x = op("permute", {random_tensor(AMP_F64, {4, 5, 3, 2}, 7), AMP_DIMS(2, 0, 3, 1)}); // [3, 4, 2, 5]
    amp_tensor *i = tensor(AMP_I64, {2, 1}, {3, 0}), *j = tensor(AMP_I64, {3}, {4, 0, 2});
    for (const std::vector<amp_tensor *> &list : {std::vector<amp_tensor *>{nullptr, i, nullptr, j},
                                                  {nullptr, nullptr, nullptr, j},
                                                  {nullptr, i},
                                                  {nullptr, i, tensor(AMP_I64, {1}, {1}), j}}) {
        amp_tensor *got = read(x, list);
        ASSERT_NE(got, nullptr) << amp_last_error();
        amp_tensor *values = random_tensor(AMP_F64, shape_of(got), 8);
        amp_tensor *put = op("index_put", {x, list, values});
        ASSERT_NE(put, nullptr) << amp_last_error();
        EXPECT_EQ(numbers_of(read(put, list)), numbers_of(values));
    }
}

TEST_F(Index, NothingToRead) {
    amp_tensor *none = tensor(AMP_I64, {0});
    EXPECT_EQ(shape_of(read(base(), {none})), (Shape{0, 3, 4}));
    EXPECT_EQ(shape_of(read(tensor(AMP_F32, {0, 3}), {none, nullptr})), (Shape{0, 3}));
    EXPECT_EQ(shape_of(read(tensor(AMP_F32, {2, 0}), {tensor(AMP_I64, {3}, {1})})), (Shape{3, 0}));
}

TEST_F(Index, BadIndicesAreToldWhatIsWrong) {
    amp_tensor *x = base(), *i = tensor(AMP_I64, {2}, {0, 1});
    EXPECT_EQ(read(x, {i, tensor(AMP_I64, {2}, {0, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index", "element 1", "3", "dimension 1"}));
    EXPECT_EQ(read(x, {tensor(AMP_F32, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"index", "f32"}));
    EXPECT_EQ(read(x, {i, tensor(AMP_I64, {3}, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index", "broadcast"}));
    EXPECT_EQ(read(x, {nullptr, nullptr}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index", "no place"}));
    EXPECT_EQ(read(x, {i, i, i, i}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index", "more dimensions"}));
    EXPECT_EQ(read(x, {tensor(AMP_BOOL, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index", "mask", "[3]"}));
    EXPECT_EQ(read(x, {tensor(AMP_I64, {1, 1, 1, 1, 1, 1, 1}, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index", "9 dimensions"}));
}

} // namespace
