// sort, topk, quantile, searchsorted, bucketize, and what comes from scans and extremes: ties, NaN, every dtype,
// lengths at which another way is taken, threads, the error sentences.
#include <algorithm>
#include <numeric>

#include "amp_test.h"

using namespace amp_test;

namespace {

class Sorting : public Test {};

using Numbers = std::vector<double>;

// NaN is larger than every number, and what is equal keeps its order.
std::vector<int64_t> places_in_order(const Numbers &x, bool descending) {
    std::vector<int64_t> places(x.size());
    std::iota(places.begin(), places.end(), 0);
    const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
        return descending ? less(x[size_t(b)], x[size_t(a)]) : less(x[size_t(a)], x[size_t(b)]);
    });
    return places;
}

void expect_sorted(amp_tensor *x, bool descending) {
    const Numbers numbers = numbers_of(x);
    const std::vector<int64_t> want = places_in_order(numbers, descending);
    const auto got = both("sort", {x, 0, descending});
    const Numbers values = numbers_of(got[0]), places = numbers_of(got[1]);
    for (size_t i = 0; i < want.size(); i++) {
        ASSERT_EQ(places[i], double(want[i])) << "place " << i << " of " << want.size();
        const double expected = numbers[size_t(want[i])];
        ASSERT_TRUE(values[i] == expected || (std::isnan(expected) && std::isnan(values[i])));
        ASSERT_EQ(std::signbit(values[i]), std::signbit(expected)); // 0 and -0 are moved, not made
    }
}

TEST_F(Sorting, IsStableInEveryDtypeAndLength) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I64, AMP_I32, AMP_I16, AMP_I8, AMP_U8, AMP_BOOL}) {
        const bool is_float = amp_dtype_is_floating(dtype), is_signed = dtype != AMP_U8 && dtype != AMP_BOOL;
        for (int64_t n : {0, 1, 2, 3, 48, 49, 100, 4095, 4096, 5000}) {
            Numbers numbers;
            uint64_t seed = uint64_t(n) + 17;
            for (int64_t i = 0; i <= n; i++) {
                seed = seed * 6364136223846793005U + 1442695040888963407U;
                const double x = double(seed >> 57);
                numbers.push_back(is_signed ? (x - 64) / (is_float ? 8 : 1) : x);
                if (is_float && seed >> 40 & 1 && numbers.back() == 0) numbers.back() = -0.0;
                if (is_float && i % 31 == 3) numbers.back() = i % 2 ? INFINITY : -INFINITY;
            }
            for (bool descending : {false, true}) expect_sorted(tensor(dtype, {n}, numbers), descending);
        }
    }
}

TEST_F(Sorting, NaNIsLastOrDescendingFirst) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32}) {
        const double negative_nan = std::copysign(NAN, -1);
        amp_tensor *x = tensor(dtype, {6}, {1, NAN, -INFINITY, negative_nan, INFINITY, 0});
        expect_sorted(x, false);
        expect_sorted(x, true);
    }
}

TEST_F(Sorting, GoesAlongAnyDimensionOfAnyStrides) {
    amp_tensor *x = random_tensor(AMP_F32, {7, 5, 300}, 3);
    for (int dim = 0; dim < 3; dim++) {
        amp_tensor *moved = op("transpose", {x, dim, 2});
        const auto direct = both("sort", {x, dim}), along_last = both("sort", {op("contiguous", {moved}), -1});
        EXPECT_EQ(numbers_of(op("transpose", {direct[0], dim, 2})), numbers_of(along_last[0]));
        EXPECT_EQ(numbers_of(op("transpose", {direct[1], dim, 2})), numbers_of(along_last[1]));
    }
    EXPECT_EQ(numbers_of(both("sort", {tensor(AMP_F32, {}, {3})})[0]), Numbers({3}));
}

TEST_F(Sorting, TopkIsTheBeginOfTheOrder) {
    for (int64_t n : {1, 10, 600, 3000, 100000}) {
        for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
            amp_tensor *x = random_tensor(dtype, {n}, uint64_t(n));
            for (bool largest : {true, false}) {
                const auto sorted = both("sort", {x, 0, largest});
                for (int64_t k : {int64_t(1), n / 7, n / 2, n}) {
                    const auto best = both("topk", {x, k, 0, largest});
                    const Numbers all = numbers_of(sorted[0]), places = numbers_of(sorted[1]);
                    EXPECT_EQ(numbers_of(best[0]), Numbers(all.begin(), all.begin() + k));
                    if (dtype == AMP_F32) continue; // of which some are equal
                    EXPECT_EQ(numbers_of(best[1]), Numbers(places.begin(), places.begin() + k));
                }
            }
        }
    }
}

// Equal ones come from the end of the row; chunks of 1024 and pieces of 64 elements are seams that must not show.
TEST_F(Sorting, TopkOfFewIsRightInEveryDtypeAcrossItsSeams) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I64, AMP_I32, AMP_I16, AMP_I8, AMP_U8}) {
        for (int64_t n : {5, 63, 64, 65, 129, 1023, 1024, 1025, 1100, 2048, 5000}) {
            Numbers numbers;
            uint64_t seed = uint64_t(n) + 5;
            for (int64_t i = 0; i < n; i++) {
                seed = seed * 6364136223846793005U + 1442695040888963407U;
                numbers.push_back(double(seed >> 57));
                if (amp_dtype_is_floating(dtype)) {
                    numbers.back() = i % 197 == 3 ? NAN : i % 89 == 1 ? -INFINITY : numbers.back() - 64;
                    if (i % 7 == 0 && numbers.back() == 0) numbers.back() = -0.0;
                }
            }
            amp_tensor *x = tensor(dtype, {n}, numbers);
            numbers = numbers_of(x);
            const Numbers reversed(numbers.rbegin(), numbers.rend());
            for (bool largest : {true, false}) {
                std::vector<int64_t> order = places_in_order(reversed, largest);
                for (int64_t &place : order) place = n - 1 - place;
                for (int64_t k : {1, 2, 10, 31, 32, 33}) {
                    if (k > n) continue;
                    const Numbers places = numbers_of(both("topk", {x, k, 0, largest})[1]);
                    EXPECT_EQ(places, Numbers(order.begin(), order.begin() + k)) << n << ' ' << k << ' ' << dtype;
                }
            }
        }
    }
}

TEST_F(Sorting, TopkOfManyEqualAndOfAscendingElements) {
    const int64_t n = 20000;
    const auto equal = both("topk", {tensor(AMP_F32, {n}, {4}), 3});
    EXPECT_EQ(numbers_of(equal[0]), Numbers({4, 4, 4}));
    EXPECT_EQ(numbers_of(equal[1]), Numbers({double(n - 1), double(n - 2), double(n - 3)}));
    Numbers up(static_cast<size_t>(n));
    std::iota(up.begin(), up.end(), 0);
    EXPECT_EQ(numbers_of(both("topk", {tensor(AMP_F32, {n}, up), 2})[1]), Numbers({double(n - 1), double(n - 2)}));
    EXPECT_EQ(numbers_of(both("topk", {tensor(AMP_F32, {n}, up), 2, 0, false})[1]), Numbers({0, 1}));
}

TEST_F(Sorting, QuantilesInterpolateByRule) {
    amp_tensor *x = tensor(AMP_F32, {4}, {3, 1, 4, 2});
    const std::vector<std::pair<const char *, double>> rules = {
        {"linear", 2.2}, {"lower", 2}, {"higher", 3}, {"midpoint", 2.5}, {"nearest", 2}};
    for (const auto &[rule, want] : rules) {
        const Numbers got = numbers_of(op("quantile", {x, 0.4}, {{"interpolation", rule}}));
        ASSERT_EQ(got.size(), 1U) << amp_last_error();
        EXPECT_NEAR(got[0], want, 1e-6) << rule;
    }
    amp_tensor *q = tensor(AMP_F32, {3}, {0, 0.5, 1});
    amp_tensor *rows = op("quantile", {tensor(AMP_F32, {2, 2}, {1, 3, 8, 4}), q, 1, true});
    EXPECT_EQ(amp_tensor_rank(rows), 3);
    EXPECT_EQ(numbers_of(rows), Numbers({1, 4, 2, 6, 3, 8}));
    EXPECT_EQ(op("quantile", {x, 1.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"quantile", "'q' is 1.5", "0 to 1"}));
    EXPECT_EQ(op("quantile", {tensor(AMP_F32, {0}), 0.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"quantile", "[0] f32"}));
    EXPECT_EQ(op("quantile", {x, 0.5}, {{"interpolation", "cubic"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"quantile", "\"cubic\""}));
}

TEST_F(Sorting, NanquantileLeavesNaNOut) {
    amp_tensor *x = tensor(AMP_F64, {2, 3}, {1, NAN, 3, NAN, NAN, NAN});
    const Numbers got = numbers_of(op("nanquantile", {x, 0.5, 1}));
    EXPECT_EQ(got[0], 2);
    EXPECT_TRUE(std::isnan(got[1]));
    EXPECT_TRUE(std::isnan(numbers_of(op("quantile", {x, 0.5, 1}))[0]));
}

TEST_F(Sorting, SearchsortedFindsTheFirstOrLastPlace) {
    amp_tensor *x = tensor(AMP_F32, {4}, {1, 2, 2, 3});
    amp_tensor *v = tensor(AMP_F32, {6}, {0, 2, 2.5, 3, 9, NAN});
    EXPECT_EQ(numbers_of(op("searchsorted", {x, v})), Numbers({0, 1, 3, 3, 4, 4}));
    EXPECT_EQ(numbers_of(op("searchsorted", {x, v}, {{"right", true}})), Numbers({0, 3, 3, 4, 4, 4}));
    EXPECT_EQ(numbers_of(op("searchsorted", {x, v}, {{"side", "right"}})), Numbers({0, 3, 3, 4, 4, 4}));
    amp_tensor *narrow = op("bucketize", {v, x}, {{"out_int32", true}});
    EXPECT_EQ(amp_tensor_dtype(narrow), AMP_I32);
    EXPECT_EQ(numbers_of(narrow), Numbers({0, 1, 3, 3, 4, 4}));
    EXPECT_EQ(numbers_of(op("bucketize", {2.0, x})), Numbers({1}));
    EXPECT_EQ(numbers_of(op("searchsorted", {tensor(AMP_F32, {0}), v})), Numbers(6, 0));
    amp_tensor *shuffled = tensor(AMP_F32, {2, 3}, {3, 1, 2, 6, 5, 4}),
               *order = tensor(AMP_I64, {2, 3}, {1, 2, 0, 2, 1, 0});
    amp_tensor *rows = tensor(AMP_F32, {2, 2}, {2, 9, 4.5, 0});
    EXPECT_EQ(numbers_of(op("searchsorted", {shuffled, rows}, {{"sorter", order}})), Numbers({1, 3, 1, 0}));
}

TEST_F(Sorting, WrongArgumentsAreNamed) {
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("topk", {x, 4}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"topk", "'k' is 4", "dimension 1 of input [2, 3] f32", "3 elements"}));
    EXPECT_EQ(op("sort", {tensor(AMP_C64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"sort", "complex", "[2] c64"}));
    EXPECT_EQ(op("searchsorted", {x, tensor(AMP_F32, {3, 1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"searchsorted", "'values' is [3, 1]", "[2, 3]"}));
    EXPECT_EQ(op("bucketize", {x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"bucketize", "'boundaries'", "vector"}));
    EXPECT_EQ(op("searchsorted", {x, x}, {{"side", "left"}, {"right", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"searchsorted", "'side'", "contradict"}));
    EXPECT_EQ(op("searchsorted", {x, x}, {{"sorter", tensor(AMP_I64, {2, 3}, {0, 1, 7})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"searchsorted", "element 2 of 'sorter' is 7"}));
}

} // namespace
