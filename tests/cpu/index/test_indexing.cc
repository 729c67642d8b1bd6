// gather, scatter, index_*, one_hot, take_along_dim: duplicates in order, what is in place, strides, the error
// sentences.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Indexing : public Test {};

using Numbers = std::vector<double>;

amp_tensor *indices(const Shape &shape, const Numbers &numbers, amp_dtype dtype = AMP_I64) {
    return tensor(dtype, shape, numbers);
}

TEST_F(Indexing, GatherReadsWhatTheIndexSaysInEveryDtype) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I64, AMP_I16, AMP_U8, AMP_C64, AMP_C128}) {
        amp_tensor *x = tensor(dtype, {2, 3}, {1, 2, 3, 4, 5, 6});
        EXPECT_EQ(numbers_of(op("gather", {x, 1, indices({2, 2}, {2, 0, 1, 1})})), Numbers({3, 1, 5, 5}));
        EXPECT_EQ(numbers_of(op("gather", {x, 0, indices({1, 3}, {1, 0, 1}, AMP_I32)})), Numbers({4, 2, 6}));
    }
}

TEST_F(Indexing, ManyIndicesGiveTheSameOnAnyThreads) {
    const int64_t n = 70000;
    Numbers places;
    for (int64_t i = 0; i < n; i++) places.push_back(double(i * 7919 % n));
    amp_tensor *x = random_tensor(AMP_F32, {n}, 1), *index = indices({n}, places);
    const Numbers from = numbers_of(x), got = numbers_of(op("gather", {x, 0, index}));
    for (size_t i = 0; i < got.size(); i++) ASSERT_EQ(got[i], from[size_t(places[i])]);
    const Numbers back = numbers_of(op("scatter", {x, 0, index, op("gather", {x, 0, index})}));
    EXPECT_EQ(back, from);
}

TEST_F(Indexing, TakeAlongDimWrapsNegativesAndBroadcasts) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(numbers_of(op("take_along_dim", {x, indices({1, 2}, {-1, 0}), 1})), Numbers({3, 1, 6, 4}));
    EXPECT_EQ(numbers_of(op("take_along_dim", {x, indices({2}, {5, -6})})), Numbers({6, 1}));
    EXPECT_EQ(op("take_along_dim", {x, indices({3, 2}, {0}), 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"take_along_dim", "'indices'", "broadcast"}));
}

TEST_F(Indexing, IndexSelectTakesSlicesOfStridedInput) {
    amp_tensor *x = op("t", {tensor(AMP_F32, {3, 2}, {1, 2, 3, 4, 5, 6})}); // [[1 3 5] [2 4 6]]
    EXPECT_EQ(numbers_of(op("index_select", {x, 1, indices({2}, {2, 2})})), Numbers({5, 5, 6, 6}));
    EXPECT_EQ(numbers_of(op("index_select", {x, -2, indices({3}, {1, 0, 1})})), Numbers({2, 4, 6, 1, 3, 5, 2, 4, 6}));
    EXPECT_EQ(numbers_of(op("index_select", {x, 0, indices({0}, {0})})), Numbers());
    EXPECT_EQ(numbers_of(op("index_select", {tensor(AMP_F32, {}, {7}), 0, indices({1}, {0})})), Numbers({7}));
}

TEST_F(Indexing, TheLastOfEqualIndicesIsWritten) {
    amp_tensor *x = tensor(AMP_F32, {3}, {0}), *src = tensor(AMP_F32, {4}, {1, 2, 3, 4});
    EXPECT_EQ(numbers_of(op("scatter", {x, 0, indices({4}, {1, 1, 2, 1}), src})), Numbers({0, 4, 3}));
    EXPECT_EQ(numbers_of(op("index_copy", {x, 0, indices({4}, {0, 0, 0, 2}), src})), Numbers({3, 0, 4}));
}

TEST_F(Indexing, ScatterReducesByName) {
    amp_tensor *x = tensor(AMP_F32, {2}, {2, 3}), *src = tensor(AMP_F32, {3}, {4, 5, 6}), *at = indices({3}, {0, 0, 1});
    EXPECT_EQ(numbers_of(op("scatter", {x, 0, at, src}, {{"reduce", "add"}})), Numbers({11, 9}));
    EXPECT_EQ(numbers_of(op("scatter", {x, 0, at, src}, {{"reduce", "multiply"}})), Numbers({40, 18}));
    EXPECT_EQ(numbers_of(op("scatter", {x, 0, at, 7.0})), Numbers({7, 7}));
    EXPECT_EQ(numbers_of(op("scatter", {x, 0, at, 7.0}, {{"reduce", "add"}})), Numbers({16, 10}));
    EXPECT_EQ(op("scatter", {x, 0, at, src}, {{"reduce", "mean"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"scatter", "\"mean\"", "\"add\" or \"multiply\""}));
}

TEST_F(Indexing, NarrowSumsAreRoundedOnce) {
    const int64_t n = 300; // in bf16 one by one the sum would stay at 256
    amp_tensor *x = tensor(AMP_BF16, {1}, {0}), *ones = tensor(AMP_BF16, {n}, {1}), *zeros = indices({n}, {0});
    EXPECT_EQ(numbers_of(op("scatter_add", {x, 0, zeros, ones})), Numbers({300}));
    EXPECT_EQ(numbers_of(op("index_add", {x, 0, zeros, ones}, {{"alpha", 2}})), Numbers({600}));
    EXPECT_EQ(numbers_of(op("index_put", {x, std::vector<amp_tensor *>{zeros}, ones, true})), Numbers({300}));
    amp_tensor *bytes = tensor(AMP_U8, {1}, {250});
    EXPECT_EQ(numbers_of(op("scatter_add", {bytes, 0, indices({3}, {0}), tensor(AMP_U8, {3}, {5})})), Numbers({9}));
}

TEST_F(Indexing, InPlaceWritesTheTensorItself) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    const void *memory = amp_data(x);
    EXPECT_EQ(op("scatter_add_", {x, 0, indices({2, 2}, {1}), tensor(AMP_F32, {2, 2}, {10})}), x) << amp_last_error();
    EXPECT_EQ(numbers_of(x), Numbers({1, 2, 23, 24}));
    EXPECT_EQ(op("index_put_", {x, std::vector<amp_tensor *>{indices({1}, {0})}, x}), nullptr); // [2, 2] into [1, 2]
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_put_", "'values'"}));
    EXPECT_EQ(op("index_put_", {x, std::vector<amp_tensor *>{indices({2}, {1, 0})}, x}), x); // reads what it writes
    EXPECT_EQ(numbers_of(x), Numbers({23, 24, 1, 2}));
    EXPECT_EQ(amp_data(x), memory);
    EXPECT_EQ(op("tril_", {x}), x);
    EXPECT_EQ(numbers_of(x), Numbers({23, 0, 1, 2}));
}

TEST_F(Indexing, AnIndexOutOfRangeChangesNothing) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *src = tensor(AMP_F32, {2, 2}, {9});
    EXPECT_EQ(op("scatter_", {x, 1, indices({2, 2}, {0, 1, 2, 3}), src}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID,
                            {"scatter_", "element 3 of 'index' is 3", "dimension 1 of [2, 3] f32", "3 elements"}));
    EXPECT_EQ(numbers_of(x), Numbers({1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(op("gather", {x, 0, indices({1, 1}, {-1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gather", "is -1", "dimension 0"}));
    EXPECT_EQ(op("index_select", {x, 0, indices({1}, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_select", "is 2", "2 elements"}));
    EXPECT_EQ(op("index_put_", {x, std::vector<amp_tensor *>{indices({1}, {-3})}, src}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_put_", "is -3", "dimension 0"}));
    EXPECT_EQ(op("one_hot", {indices({2}, {0, 5}), 5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"one_hot", "element 1 of 'input' is 5"}));
    EXPECT_EQ(op("gather", {tensor(AMP_F32, {0}), 0, indices({1}, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gather", "0 elements"}));
}

TEST_F(Indexing, WrongArgumentsAreNamed) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *at = indices({2, 2}, {0});
    EXPECT_EQ(op("gather", {x, 0, tensor(AMP_F32, {2, 2}, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"gather", "'index'", "[2, 2] f32", "integers"}));
    EXPECT_EQ(op("gather", {x, 0, indices({2, 4}, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gather", "[2, 4]", "[2, 3]"}));
    EXPECT_EQ(op("scatter_add", {x, 1, at, tensor(AMP_F64, {2, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"scatter_add", "f64", "f32"}));
    EXPECT_EQ(op("scatter", {x, 1, at, tensor(AMP_F32, {2, 1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"scatter", "'src'", "[2, 1]"}));
    EXPECT_EQ(op("index_add", {x, 1, indices({2}, {0}), tensor(AMP_F32, {2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_add", "'source'"}));
    EXPECT_EQ(op("index_add", {tensor(AMP_I64, {2}), 0, indices({1}, {0}), tensor(AMP_I64, {1})}, {{"alpha", 0.5}}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"index_add", "'alpha'", "float"}));
    EXPECT_EQ(op("one_hot", {indices({0}, {0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"one_hot", "'num_classes'"}));
    EXPECT_EQ(op("index_select", {x, 0, at}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_select", "vector"}));
}

TEST_F(Indexing, IndexPutPlacesSeparateAndMaskedIndices) {
    amp_tensor *x = tensor(AMP_F32, {2, 3, 2}, {0}), *a = indices({2}, {0, 1}), *b = indices({2}, {1, -1});
    using List = std::vector<amp_tensor *>;
    // neighbours: the indices' dimension stands in their place
    EXPECT_EQ(numbers_of(op("index_put", {x, List{a, b}, tensor(AMP_F32, {2, 2}, {1, 2, 3, 4})})),
              Numbers({0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4}));
    // a whole dimension between them: it stands in front
    EXPECT_EQ(numbers_of(op("index_put", {x, List{a, nullptr, b}, tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6})})),
              Numbers({0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6}));
    EXPECT_EQ(numbers_of(op("index_put", {x, List{nullptr, b}, tensor(AMP_F32, {}, {5})})),
              Numbers({0, 0, 5, 5, 5, 5, 0, 0, 5, 5, 5, 5}));
    amp_tensor *mask = tensor(AMP_BOOL, {2, 3}, {0, 1, 0, 0, 0, 1});
    EXPECT_EQ(numbers_of(op("index_put", {x, List{mask}, tensor(AMP_F32, {2, 1}, {7, 8})})),
              Numbers({0, 0, 7, 7, 0, 0, 0, 0, 0, 0, 8, 8}));
    // two index dimensions
    EXPECT_EQ(numbers_of(op("index_put", {tensor(AMP_F32, {4}, {0}), List{indices({2, 2}, {3, 1, 0, 3})},
                                          tensor(AMP_F32, {2, 2}, {1, 2, 3, 4}), true})),
              Numbers({3, 2, 0, 5}));
    EXPECT_EQ(op("index_put", {x, List{tensor(AMP_BOOL, {3}, {1})}, tensor(AMP_F32, {}, {1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_put", "mask", "[3] bool"}));
    EXPECT_EQ(op("index_put", {x, List{a, indices({3}, {0})}, tensor(AMP_F32, {}, {1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"index_put", "broadcast"}));
}

TEST_F(Indexing, OneHotCountsClasses) {
    amp_tensor *hot = op("one_hot", {indices({2, 1}, {0, 2})});
    ASSERT_NE(hot, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(hot), AMP_I64);
    EXPECT_EQ(numbers_of(hot), Numbers({1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(numbers_of(op("one_hot", {indices({}, {1}), 2})), Numbers({0, 1}));
    EXPECT_EQ(amp_tensor_numel(op("one_hot", {tensor(AMP_I64, {0, 1}), INT64_MAX})), 0) << amp_last_error();
}

} // namespace
