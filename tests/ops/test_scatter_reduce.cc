// scatter_reduce, index_reduce, index_fill: values joined where indices say, or one put there.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class ScatterReduce : public Test {
  protected:
    Numbers reduced(amp_dtype dtype, const char *how, bool self) {
        amp_tensor *x = tensor(dtype, {4}, {6, 2, 3, 4}), *src = tensor(dtype, {5}, {1, 8, 2, 7, 5});
        amp_tensor *index = tensor(AMP_I64, {5}, {0, 0, 2, 2, 2});
        amp_tensor *y = op("scatter_reduce", {x, 0, index, src, how}, {{"include_self", self}});
        EXPECT_NE(y, nullptr) << amp_last_error();
        if (!y) return {};
        EXPECT_EQ(amp_tensor_dtype(y), dtype);
        return numbers_of(y);
    }
};

TEST_F(ScatterReduce, JoinsInEveryDtype) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16, AMP_I64, AMP_I32, AMP_I16, AMP_U8}) {
        EXPECT_EQ(reduced(dtype, "sum", true), (Numbers{15, 2, 17, 4}));
        EXPECT_EQ(reduced(dtype, "sum", false), (Numbers{9, 2, 14, 4}));
        EXPECT_EQ(reduced(dtype, "prod", true), (Numbers{48, 2, 210, 4}));
        EXPECT_EQ(reduced(dtype, "prod", false), (Numbers{8, 2, 70, 4}));
        EXPECT_EQ(reduced(dtype, "amax", true), (Numbers{8, 2, 7, 4}));
        EXPECT_EQ(reduced(dtype, "amin", true), (Numbers{1, 2, 2, 4}));
        EXPECT_EQ(reduced(dtype, "amax", false), (Numbers{8, 2, 7, 4}));
        EXPECT_EQ(reduced(dtype, "amin", false), (Numbers{1, 2, 2, 4}));
        const bool whole = dtype == AMP_I64 || dtype == AMP_I32 || dtype == AMP_I16 || dtype == AMP_U8;
        EXPECT_EQ(reduced(dtype, "mean", true), (Numbers{5, 2, whole ? 4 : 4.25, 4}));
    }
}

TEST_F(ScatterReduce, MeansOfIntegersAreRoundedDown) {
    amp_tensor *x = tensor(AMP_I32, {2}, {-1, 9}), *index = tensor(AMP_I64, {2}, {0, 0});
    amp_tensor *src = tensor(AMP_I32, {2}, {-2, -3});
    EXPECT_EQ(numbers_of(op("scatter_reduce", {x, 0, index, src, "mean"}, {{"include_self", false}})),
              (Numbers{-3, 9}));
    EXPECT_EQ(numbers_of(op("scatter_reduce", {x, 0, index, src, "mean"})), (Numbers{-2, 9}));
}

TEST_F(ScatterReduce, NaNWinsInEitherPlace) {
    amp_tensor *index = tensor(AMP_I64, {3}, {0, 0, 1});
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16}) {
        for (const char *how : {"amax", "amin"}) {
            amp_tensor *x = tensor(dtype, {2}, {1, NAN}), *src = tensor(dtype, {3}, {NAN, 2, 3});
            for (double got : numbers_of(op("scatter_reduce", {x, 0, index, src, how}))) EXPECT_TRUE(std::isnan(got));
        }
    }
}

TEST_F(ScatterReduce, MatricesInPlaceAndStrided) {
    amp_tensor *x = op("t", {tensor(AMP_F32, {3, 2}, {1, 4, 2, 5, 3, 6})}); // [[1, 2, 3], [4, 5, 6]]
    amp_tensor *index = tensor(AMP_I64, {2, 2}, {0, 1, 0, 1}), *src = tensor(AMP_F32, {2, 3}, {10, 20, 30, 40, 50, 60});
    EXPECT_EQ(op("scatter_reduce_", {x, 0, index, src, "amax"}), x);
    EXPECT_EQ(numbers_of(x), (Numbers{40, 2, 3, 4, 50, 6}));
    EXPECT_EQ(op("scatter_reduce_", {x, 0, index, src, "mean"}, {{"include_self", false}}), x);
    EXPECT_EQ(numbers_of(x), (Numbers{25, 2, 3, 4, 35, 6}));
    EXPECT_EQ(numbers_of(op("scatter_reduce", {x, 1, tensor(AMP_I64, {0, 2}), src, "sum"})), numbers_of(x));
}

TEST_F(ScatterReduce, SlicesOfADimension) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *index = tensor(AMP_I64, {2}, {2, 2});
    amp_tensor *src = tensor(AMP_F32, {2, 2}, {7, 1, 2, 3});
    EXPECT_EQ(numbers_of(op("index_reduce", {x, 1, index, src, "amin"})), (Numbers{1, 2, 1, 4, 5, 2}));
    EXPECT_EQ(numbers_of(op("index_reduce", {x, 1, index, src, "mean"}, {{"include_self", false}})),
              (Numbers{1, 2, 4, 4, 5, 2.5}));
    EXPECT_EQ(numbers_of(op("index_reduce", {x, 1, index, src, "prod"})), (Numbers{1, 2, 21, 4, 5, 36}));
    EXPECT_EQ(numbers_of(op("index_reduce", {tensor(AMP_F32, {}, {5}), 0, tensor(AMP_I64, {1}, {0}),
                                             tensor(AMP_F32, {}, {3}), "mean"})),
              (Numbers{4}));
}

TEST_F(ScatterReduce, FillsSlices) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *index = tensor(AMP_I32, {2}, {-1, 0});
    EXPECT_EQ(numbers_of(op("index_fill", {x, 1, index, 9})), (Numbers{9, 2, 9, 9, 5, 9}));
    EXPECT_EQ(numbers_of(op("index_fill", {x, 0, tensor(AMP_I64, {}, {1}), tensor(AMP_F64, {}, {7})})),
              (Numbers{1, 2, 3, 7, 7, 7}));
    EXPECT_EQ(op("index_fill_", {x, -2, tensor(AMP_I64, {1}, {0}), 0.5}), x);
    EXPECT_EQ(numbers_of(x), (Numbers{0.5, 0.5, 0.5, 4, 5, 6}));
    EXPECT_EQ(numbers_of(op("index_fill", {tensor(AMP_BOOL, {}, {0}), 0, tensor(AMP_I64, {1}, {0}), 2})), (Numbers{1}));
    EXPECT_EQ(numbers_of(op("index_fill", {x, 0, tensor(AMP_I64, {0}), 1})), numbers_of(x));
}

TEST_F(ScatterReduce, BadInputIsToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {3}), *index = tensor(AMP_I64, {2}, {0, 3}), *src = tensor(AMP_F32, {2});
    EXPECT_EQ(op("scatter_reduce", {x, 0, index, src, "sum"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"scatter_reduce", "element 1", "3"}));
    EXPECT_EQ(op("scatter_reduce", {x, 0, tensor(AMP_I64, {2}, {0}), src, "median"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"scatter_reduce", "median", "amax"}));
    EXPECT_EQ(op("scatter_reduce", {tensor(AMP_C64, {3}), 0, tensor(AMP_I64, {2}, {0}), tensor(AMP_C64, {2}), "amax"}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"scatter_reduce", "complex", "c64"}));
    EXPECT_EQ(op("index_reduce", {x, 0, tensor(AMP_I64, {2}, {0}), src, "sum"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_reduce", "sum"}));
    EXPECT_EQ(op("index_fill", {x, 0, tensor(AMP_I64, {1}, {-4}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_fill", "-4"}));
    EXPECT_EQ(op("index_fill", {x, 0, tensor(AMP_I64, {1}, {0}), src}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_fill", "value", "0-dim"}));
    EXPECT_EQ(op("index_fill", {x, 0, tensor(AMP_I64, {1, 1}, {0}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_fill", "vector"}));
}

} // namespace
