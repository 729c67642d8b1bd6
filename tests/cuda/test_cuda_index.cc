// Sorting, searching, and reading and writing by index on CUDA, on rows longer than a tile, against the CPU; CMake runs
// them again with all threads of each block.
#include <cmath>
#include <cstdlib>
#include <functional>

#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaIndex : public CudaTest {
  protected:
    static void expect_close(amp_tensor *got, amp_tensor *want, double tolerance) {
        ASSERT_NE(want, nullptr) << amp_last_error();
        ASSERT_NE(got, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(got), amp_tensor_dtype(want));
        expect_near(fetched(got), numbers_of(want), tolerance);
    }
    static void expect_same(amp_tensor *got, amp_tensor *want) {
        expect_close(got, want, 0);
    }
    // From −below to below, many of them equal.
    static amp_tensor *integers(const Shape &shape, int64_t below, amp_dtype dtype = AMP_I64) {
        amp_tensor *x = op("mul", {random_tensor(AMP_F64, shape, 9), amp_float(double(below))});
        return op("to", {x, dtype});
    }
    static amp_tensor *indices(const Shape &shape, int64_t below) {
        return op("remainder", {op("abs", {integers(shape, 5 * below)}), amp_int(below)});
    }
    // With all threads of each block.
    static bool slowly() {
        return std::getenv("AMP_TESTS_DRIVER") != nullptr;
    }
    // What a call that waits for the device says.
    static std::string told() {
        EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
        return error();
    }
};

TEST_F(CudaIndex, LongRowsAreSortedAsOnTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_F16, AMP_BF16, AMP_I64, AMP_I32, AMP_I8, AMP_U8}) {
        for (int64_t length : {1, 7, 1024, 1025, 2600}) {
            for (bool descending : {false, true}) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(length));
                Scope scope;
                amp_tensor *x = integers({2, length}, 100, dtype), *there = sent(x);
                const std::vector<Named> order = {{"dim", 1}, {"descending", descending}};
                const std::vector<amp_tensor *> want = both("sort", {x}, order), got = both("sort", {there}, order);
                for (size_t i = 0; i < 2; i++) expect_same(got[i], want[i]);
            }
        }
    }
}

// Which go by digits from 1024 elements for each byte of theirs, doubled from byte to byte. Extremes, many equal ones,
// NaN.
TEST_F(CudaIndex, RowsSortedByDigitsAreThoseOfTheCpu) {
    const struct {
        amp_dtype dtype;
        int64_t first; // length that goes by digits
        double below;
    } cases[] = {{AMP_BOOL, 1025, 2},  {AMP_U8, 1025, 300},   {AMP_I8, 1025, 300},  {AMP_I16, 2049, 4e4},
                 {AMP_F16, 2049, 7e4}, {AMP_BF16, 2049, 500}, {AMP_I32, 8193, 3e9}, {AMP_F32, 8193, 500}};
    for (const auto &c : cases) {
        for (int64_t length : {c.first - 1, c.first + 2046, c.first + 2047, c.first, c.first + 2048}) {
            if (slowly() && length < c.first + 2047) continue;
            for (bool descending : {false, true}) {
                if (slowly() && !descending) continue;
                SCOPED_TRACE(std::string(amp_dtype_name(c.dtype)) + " " + std::to_string(length));
                Scope scope;
                amp_tensor *x = op("mul", {random_tensor(AMP_F64, {2, length}, 7), amp_float(c.below)});
                x = op("to", {op("clamp", {x, amp_float(-2147483648.0), amp_float(2147483647.0)}), c.dtype});
                if (amp_dtype_is_floating(c.dtype)) {
                    const double odd[] = {NAN, -NAN, -0.0, 0.0, INFINITY, -INFINITY};
                    for (int i = 0; i < 6; i++) op("fill_", {op("narrow", {x, 1, 100 * i, 3}), amp_float(odd[i])});
                }
                const std::vector<Named> order = {{"dim", 1}, {"descending", descending}};
                const std::vector<amp_tensor *> want = both("sort", {x}, order), got = both("sort", {sent(x)}, order);
                for (size_t i = 0; i < 2; i++) expect_same(got[i], want[i]);
            }
        }
    }
}

// Three launches for each byte, where there would be as many merges; and one that takes the elements.
TEST_F(CudaIndex, RowsGoByDigitsWhereMergesWouldBeAsMany) {
    const struct {
        amp_dtype dtype;
        int64_t length;
        uint64_t launches;
    } cases[] = {{AMP_U8, 1024, 2},  {AMP_U8, 1025, 4},   {AMP_F16, 2048, 3},   {AMP_F16, 2049, 7},
                 {AMP_F32, 8192, 5}, {AMP_F32, 8193, 13}, {AMP_I64, 131072, 9}, {AMP_I64, 131073, 25}};
    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(amp_dtype_name(c.dtype)) + " " + std::to_string(c.length));
        if (slowly() && c.length > 9000) continue;
        Scope scope;
        amp_tensor *x = sent(op("zeros", {AMP_DIMS(c.length), c.dtype}));
        const uint64_t before_it = fake->launches;
        both("sort", {x});
        EXPECT_EQ(fake->launches - before_it, c.launches);
    }
}

// The first dimension, equal elements last first, and not all of them.
TEST_F(CudaIndex, TheFirstThousandOfLongColumnsAreThoseOfTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_I32}) {
        for (bool largest : {false, true}) {
            SCOPED_TRACE(amp_dtype_name(dtype));
            Scope scope;
            if (slowly() && !largest) continue;
            amp_tensor *x = integers({9000, 3}, 100, dtype);
            const std::vector<amp_tensor *> want = both("topk", {x, 1000, 0, largest});
            const std::vector<amp_tensor *> got = both("topk", {sent(x), 1000, 0, largest});
            for (size_t i = 0; i < 2; i++) expect_same(got[i], want[i]);
        }
    }
}

// Eight digits; and more tiles than a thread adds up, or a block at once.
TEST_F(CudaIndex, WideElementsOfVeryLongRowsAreSortedAsOnTheCpu) {
    amp_tensor *bytes = integers({540000}, 300, AMP_U8);
    const std::vector<amp_tensor *> sorted = both("sort", {bytes}), sorted_there = both("sort", {sent(bytes)});
    for (size_t i = 0; i < 2; i++) expect_same(sorted_there[i], sorted[i]);
    for (amp_dtype dtype : {AMP_I64, AMP_F64}) {
        if (slowly() && dtype == AMP_F64) return;
        SCOPED_TRACE(amp_dtype_name(dtype));
        Scope scope;
        amp_tensor *x = op("to", {op("mul", {random_tensor(AMP_F64, {132000}, 7), amp_float(9e18)}), dtype});
        const std::vector<amp_tensor *> want = both("sort", {x}), got = both("sort", {sent(x)});
        for (size_t i = 0; i < 2; i++) expect_same(got[i], want[i]);
        const std::vector<amp_tensor *> from = both("topk", {x, 600}), to = both("topk", {sent(x), 600});
        for (size_t i = 0; i < 2; i++) expect_same(to[i], from[i]);
    }
    amp_tensor *x = random_tensor(AMP_F32, {140000}, 3), *index = indices({140000}, 70),
               *zeros = op("zeros", {AMP_DIMS(70)});
    expect_close(op("index_add", {sent(zeros), 0, sent(index), sent(x)}), op("index_add", {zeros, 0, index, x}), 1e-3);
}

TEST_F(CudaIndex, NaNAreSortedBehindEverythingAndZerosAreEqual) {
    amp_tensor *x = tensor(AMP_F32, {8}, {1, NAN, -0.0, 0.0, -INFINITY, -NAN, INFINITY, -0.0});
    for (bool descending : {false, true}) {
        const std::vector<Named> order = {{"dim", 0}, {"descending", descending}};
        const std::vector<amp_tensor *> want = both("sort", {x}, order), got = both("sort", {sent(x)}, order);
        for (size_t i = 0; i < 2; i++) expect_same(got[i], want[i]);
    }
    EXPECT_EQ(amp_tensor_numel(op("sort", {sent(op("narrow", {x, 0, 0, 0}))})), 0);
    EXPECT_EQ(op("sort", {sent(op("to", {x, AMP_C64}))}), nullptr);
    EXPECT_TRUE(contains(error(), "complex numbers have no order"));
}

TEST_F(CudaIndex, QuantilesOfLongColumnsAgreeWithTheCpu) {
    amp_tensor *x = random_tensor(AMP_F32, {1500, 3}, 1), *q = tensor(AMP_F32, {4}, {0, 0.25, 0.9, 1});
    amp_tensor *holes = op("where", {op("gt", {x, amp_float(0.7)}), amp_float(NAN), x});
    for (const char *rule : {"linear", "lower", "higher", "midpoint", "nearest"}) {
        const std::vector<Named> along = {{"dim", 0}, {"interpolation", rule}};
        expect_same(op("quantile", {sent(x), sent(q)}, along), op("quantile", {x, q}, along));
        expect_same(op("quantile", {sent(holes), sent(q)}, along), op("quantile", {holes, q}, along));
        expect_same(op("nanquantile", {sent(holes), sent(q)}, along), op("nanquantile", {holes, q}, along));
    }
    expect_same(op("quantile", {sent(x), 0.3}), op("quantile", {x, 0.3}));
    ASSERT_NE(op("quantile", {sent(x), sent(tensor(AMP_F32, {1}, {1.5}))}), nullptr) << amp_last_error();
    EXPECT_TRUE(contains(told(), "an input of quantile was not between 0 and 1"));
}

TEST_F(CudaIndex, SearchesAgreeWithTheCpu) {
    amp_tensor *shuffled = random_tensor(AMP_F32, {3, 500}, 1), *values = random_tensor(AMP_BF16, {3, 700}, 2);
    const std::vector<amp_tensor *> sorted = both("sort", {shuffled});
    for (bool right : {false, true}) {
        const std::vector<Named> side = {{"right", right}};
        expect_same(op("searchsorted", {sent(sorted[0]), sent(values)}, side),
                    op("searchsorted", {sorted[0], values}, side));
        expect_same(op("searchsorted", {sent(shuffled), sent(values)}, {{"right", right}, {"sorter", sent(sorted[1])}}),
                    op("searchsorted", {sorted[0], values}, side));
        amp_tensor *row = op("select", {sorted[0], 0, 0});
        expect_same(op("bucketize", {sent(values), sent(row)}, side), op("bucketize", {values, row}, side));
    }
    amp_tensor *none = op("narrow", {sorted[0], 1, 0, 0});
    expect_same(op("searchsorted", {sent(none), sent(values)}), op("searchsorted", {none, values}));
}

TEST_F(CudaIndex, WhatIsWrittenTwiceIsWhatTheCpuWrites) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_I32, AMP_C64, AMP_BOOL}) {
        for (int64_t length : {30, 1500}) { // a thread for each line, and lines in order
            for (int64_t dim : {0, 1}) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(length));
                Scope scope;
                const Shape shape = dim ? Shape{3, length} : Shape{length, 3}, small = dim ? Shape{3, 9} : Shape{9, 3};
                amp_tensor *x = op("to", {random_tensor(AMP_F64, small, 1), dtype});
                amp_tensor *y = op("to", {random_tensor(AMP_F64, shape, 2), dtype}), *index = indices(shape, 9);
                expect_same(op("scatter", {sent(x), dim, sent(index), sent(y)}), op("scatter", {x, dim, index, y}));
                expect_same(op("scatter_add", {sent(x), dim, sent(index), sent(y)}),
                            op("scatter_add", {x, dim, index, y}));
                const std::vector<Named> multiply = {{"reduce", "multiply"}};
                expect_same(op("scatter", {sent(x), dim, sent(index), sent(y)}, multiply),
                            op("scatter", {x, dim, index, y}, multiply));
                amp_tensor *slices = indices({length}, 9);
                expect_same(op("index_add", {sent(x), dim, sent(slices), sent(y)}),
                            op("index_add", {x, dim, slices, y}));
                expect_same(op("index_copy", {sent(x), dim, sent(slices), sent(y)}),
                            op("index_copy", {x, dim, slices, y}));
            }
        }
    }
}

TEST_F(CudaIndex, PlacesOfSeveralIndicesAndMasksAreWritten) {
    amp_tensor *x = random_tensor(AMP_F32, {5, 4, 3}, 1), *rows = integers({2, 60}, 5), *columns = indices({60}, 3);
    amp_tensor *y = random_tensor(AMP_F32, {2, 60, 4}, 2);
    for (bool accumulate : {false, true}) {
        const std::vector<Named> option = {{"accumulate", accumulate}};
        const std::vector<amp_tensor *> here = {rows, nullptr, columns}, there = {sent(rows), nullptr, sent(columns)};
        expect_same(op("index_put", {sent(x), there, sent(y)}, option), op("index_put", {x, here, y}, option));
        amp_tensor *mask = op("gt", {op("select", {x, 2, 0}), amp_float(0)});
        const int64_t set = int64_t(numbers_of(op("sum", {mask}))[0]);
        for (const Shape &shape : {Shape{set, 3}, Shape{1, 3}, Shape{3}, Shape{}}) {
            amp_tensor *values = random_tensor(AMP_F32, shape, 3);
            const std::vector<amp_tensor *> own = {mask}, its = {sent(mask)};
            expect_same(op("index_put", {sent(x), its, sent(values)}, option),
                        op("index_put", {x, own, values}, option));
        }
        const std::vector<amp_tensor *> its = {sent(mask)};
        for (int64_t count : {set - 1, set + 1, int64_t(0)}) {
            ASSERT_NE(op("index_put", {sent(x), its, sent(random_tensor(AMP_F32, {count, 3}, 3))}, option), nullptr);
            EXPECT_TRUE(contains(told(), "an index of index_put was out of range"));
        }
    }
}

TEST_F(CudaIndex, AMaskWithNothingSetTakesNoValues) {
    amp_tensor *x = random_tensor(AMP_F32, {5, 4, 3}, 1);
    for (bool accumulate : {false, true}) {
        for (const Shape &shape : {Shape{5}, Shape{5, 4}, Shape{5, 4, 3}}) { // of the mask
            SCOPED_TRACE(shape.size());
            Shape none(3 + 1 - shape.size(), 3);
            none[0] = 0;
            if (none.size() == 3) none[1] = 4;
            amp_tensor *mask = op("gt", {random_tensor(AMP_F32, shape, 2), amp_float(2)});
            amp_tensor *values = random_tensor(AMP_F32, none, 3);
            const std::vector<amp_tensor *> own = {mask}, its = {sent(mask)};
            const std::vector<Named> option = {{"accumulate", accumulate}};
            amp_tensor *want = op("index_put", {x, own, values}, option);
            expect_same(want, x);
            expect_same(op("index_put", {sent(x), its, sent(values)}, option), want);
            EXPECT_EQ(amp_cuda_synchronize(), AMP_OK) << amp_last_error();
        }
    }
}

TEST_F(CudaIndex, AnIndexOutOfRangeIsToldOfAndNothingIsWritten) {
    amp_tensor *x = random_tensor(AMP_F32, {4}, 1), *y = random_tensor(AMP_F32, {2}, 2), *wrong = outside_of_four();
    const std::vector<amp_tensor *> list = {sent(wrong)};
    const std::vector<std::pair<const char *, std::function<amp_tensor *()>>> calls = {
        {"scatter",
         [&] {
             return op("scatter", {sent(x), 0, sent(wrong), sent(y)});
         }},
        {"index_add",
         [&] {
             return op("index_add", {sent(x), 0, sent(wrong), sent(y)});
         }},
        {"index_put",
         [&] {
             return op("index_put", {sent(x), list, sent(y)});
         }},
        {"take_along_dim",
         [&] {
             return op("take_along_dim", {sent(x), sent(wrong), 0});
         }},
        {"one_hot",
         [&] {
             return op("one_hot", {sent(wrong), 4});
         }},
        {"embedding_bag", [&] {
             return op("embedding_bag", {sent(wrong), sent(random_tensor(AMP_F32, {4, 2}, 3)),
                                         sent(op("to", {tensor(AMP_F32, {1}, {0}), AMP_I64}))});
         }}};
    for (const auto &[name, call] : calls) {
        SCOPED_TRACE(name);
        ASSERT_NE(call(), nullptr) << amp_last_error();
        EXPECT_TRUE(contains(told(), std::string("an index of ") + name));
    }
    EXPECT_EQ(op("one_hot", {sent(wrong)}), nullptr);
    EXPECT_TRUE(contains(error(), "'num_classes' must be given"));
}

TEST_F(CudaIndex, NothingThatIsIndexedWaitsForTheDevice) {
    amp_tensor *x = sent(random_tensor(AMP_F32, {40, 3}, 1)), *index = sent(indices({200, 3}, 40));
    amp_tensor *y = sent(random_tensor(AMP_F32, {200, 3}, 2));
    const uint64_t waits = amp_cuda_counters().synchronizations;
    const std::vector<amp_tensor *> mask = {op("gt", {x, amp_float(0)})}, rows = {op("select", {index, 1, 0})};
    ASSERT_NE(op("scatter_add", {x, 0, index, y}), nullptr) << amp_last_error();
    ASSERT_NE(op("index_put", {x, rows, y}), nullptr) << amp_last_error();
    ASSERT_NE(op("index_put", {x, mask, op("select", {op("select", {y, 0, 0}), 0, 0})}), nullptr) << amp_last_error();
    ASSERT_NE(op("sort", {y}), nullptr);
    ASSERT_NE(op("quantile", {y, 0.5}), nullptr);
    EXPECT_EQ(amp_cuda_counters().synchronizations, waits);
}

TEST_F(CudaIndex, BagsOfManyRowsAgreeWithTheCpu) {
    amp_tensor *table = random_tensor(AMP_F32, {30, 40}, 1), *index = indices({500}, 30), *offsets = indices({1}, 1);
    offsets = op("to", {tensor(AMP_F32, {5}, {0, 0, 17, 400, 500}), AMP_I64});
    amp_tensor *scales = random_tensor(AMP_F32, {500}, 2);
    for (const char *mode : {"sum", "mean", "max"}) {
        for (bool last : {false, true}) {
            const std::vector<Named> options = {{"mode", mode}, {"include_last_offset", last}, {"padding_idx", 3}};
            expect_close(op("embedding_bag", {sent(index), sent(table), sent(offsets)}, options),
                         op("embedding_bag", {index, table, offsets}, options), 1e-5);
        }
    }
    expect_close(op("embedding_bag", {sent(index), sent(table), sent(offsets)},
                    {{"mode", "sum"}, {"per_sample_weights", sent(scales)}}),
                 op("embedding_bag", {index, table, offsets}, {{"mode", "sum"}, {"per_sample_weights", scales}}), 1e-5);
    amp_tensor *limited = sent(table);
    const std::vector<Named> most = {{"max_norm", 1.5}, {"norm_type", 3.0}};
    expect_close(op("embedding", {sent(op("narrow", {index, 0, 0, 9})), limited}, most),
                 op("embedding", {op("narrow", {index, 0, 0, 9}), table}, most), 1e-6);
    expect_close(limited, table, 1e-6);
}

TEST_F(CudaIndex, AlignmentsOfLongTargetsAgreeWithTheCpu) {
    amp_tensor *x = op("log_softmax", {random_tensor(AMP_F32, {420, 3, 11}, 1), 2});
    amp_tensor *rows = op("add", {indices({3, 150}, 10), amp_int(1)}), *all = op("reshape", {rows, AMP_DIMS(450)});
    amp_tensor *frames = op("to", {tensor(AMP_F32, {3}, {420, 0, 350}), AMP_I64});
    amp_tensor *lengths = op("to", {tensor(AMP_F32, {3}, {150, 0, 120}), AMP_I64});
    for (amp_tensor *targets : {rows, all}) {
        for (const char *reduction : {"none", "mean"}) {
            const std::vector<Named> option = {{"reduction", reduction}};
            expect_close(op("ctc_loss", {sent(x), sent(targets), sent(frames), sent(lengths)}, option),
                         op("ctc_loss", {x, targets, frames, lengths}, option), 1e-4);
        }
    }
    ASSERT_NE(op("ctc_loss", {sent(x), sent(rows), sent(lengths), sent(frames)}), nullptr) << amp_last_error();
    EXPECT_TRUE(contains(told(), "ctc_loss"));
}

TEST_F(CudaIndex, QuantisedNumbersAreThoseOfTheCpu) {
    amp_tensor *x = op("mul", {random_tensor(AMP_F64, {100}, 1), amp_float(40)});
    op("fill_", {op("narrow", {x, 0, 3, 1}), amp_float(NAN)});
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
        amp_tensor *y = op("to", {x, dtype}), *scale = tensor(AMP_F32, {1}, {0.3});
        amp_tensor *zero = op("to", {tensor(AMP_F32, {1}, {5}), AMP_I32});
        expect_same(op("fake_quantize_per_tensor_affine", {sent(y), 0.3, 5, -20, 90}),
                    op("fake_quantize_per_tensor_affine", {y, 0.3, 5, -20, 90}));
        expect_same(op("fake_quantize_per_tensor_affine", {sent(y), sent(scale), sent(zero), -20, 90}),
                    op("fake_quantize_per_tensor_affine", {y, scale, zero, -20, 90}));
        for (amp_tensor *t : {y, sent(y)}) {
            const bool here = t == y;
            EXPECT_EQ(op("fake_quantize_per_tensor_affine",
                         {t, here ? scale : sent(scale), here ? zero : sent(zero), 90, -20}),
                      nullptr);
            EXPECT_TRUE(contains(error(), "'quant_min' is 90, 'quant_max' is -20; expected them in this order"));
        }
    }
}

} // namespace
