// Ops on rows longer than a block has threads, against the CPU; CMake runs them again with all threads of each block.
#include <cmath>

#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaRows : public CudaTest {
  protected:
    static void expect_close(amp_tensor *got, amp_tensor *want, double tolerance) {
        ASSERT_NE(want, nullptr) << amp_last_error();
        ASSERT_NE(got, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(got), amp_tensor_dtype(want));
        got = fetched(got);
        expect_near(got, numbers_of(want), tolerance);
        if (amp_tensor_dtype(want) != AMP_C64 && amp_tensor_dtype(want) != AMP_C128) return;
        const auto imaginary = [](amp_tensor *t) { return op("mul", {t, amp_complex(0, -1)}); }; // as real parts
        expect_near(imaginary(got), numbers_of(imaginary(want)), tolerance);
    }
    // Of up to `most`; complex ones in both parts.
    static amp_tensor *numbers(amp_dtype dtype, Shape shape, double most) {
        if (dtype == AMP_C64) shape.push_back(2);
        amp_tensor *x = op("mul", {random_tensor(AMP_F64, shape, 5), amp_float(most)});
        return dtype == AMP_C64 ? op("view_as_complex", {op("to", {x, AMP_F32})}) : op("to", {x, dtype});
    }
    static amp_tensor *integers(const Shape &shape, int64_t below) {
        amp_tensor *x = op("mul", {op("abs", {random_tensor(AMP_F64, shape, 9)}), amp_float(double(below))});
        return op("to", {x, AMP_I64});
    }
};

TEST_F(CudaRows, ScansOfLongRowsAgreeWithTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_I32, AMP_C64}) {
        for (int64_t dim : {0, 1}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + ", dimension " + std::to_string(dim));
            Scope scope;
            amp_tensor *x = numbers(dtype, dim ? Shape{3, 700} : Shape{700, 3}, 3);
            amp_tensor *there = sent(x);
            expect_close(op("cumsum", {there, dim}), op("cumsum", {x, dim}), 1e-5);
            expect_close(op("cumprod", {there, dim}), op("cumprod", {x, dim}), 1e-5);
            for (const char *extreme : {"cummax", "cummin"}) {
                if (dtype == AMP_C64) continue;
                const std::vector<amp_tensor *> want = both(extreme, {x, dim}), got = both(extreme, {there, dim});
                for (size_t i = 0; i < 2; i++) expect_close(got[i], want[i], 0);
            }
        }
    }
}

TEST_F(CudaRows, ScannedExtremesKeepTheLastOfEqualOnesAndStayNaN) {
    std::vector<double> values(600, 1.0);
    values[300] = NAN;
    values[599] = NAN;
    amp_tensor *x = tensor(AMP_F32, {600}, values);
    for (const char *extreme : {"cummax", "cummin"}) {
        const std::vector<amp_tensor *> want = both(extreme, {x, 0}), got = both(extreme, {sent(x), 0});
        for (size_t i = 0; i < 2; i++) expect_close(got[i], want[i], 0);
    }
    EXPECT_EQ(op("cummax", {sent(op("to", {x, AMP_C64})), 0}), nullptr);
    EXPECT_TRUE(contains(error(), "complex numbers have no order"));
    EXPECT_EQ(amp_tensor_numel(op("cumsum", {sent(op("narrow", {x, 0, 0, 0})), 0})), 0);
}

// In units of up to 16 bytes, by tiles, and one by one.
TEST_F(CudaRows, CopiesOfAnyStridesKeepEveryElement) {
    for (amp_dtype dtype : {AMP_U8, AMP_BF16, AMP_F32, AMP_F64, AMP_C64, AMP_C128}) {
        for (const Shape &shape : {Shape{3, 40, 70}, Shape{32, 2, 64}, Shape{5, 16, 17}}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]));
            Scope scope;
            const int64_t count = shape[0] * shape[1] * shape[2];
            amp_tensor *x = op("reshape", {op("arange", {amp_int(count)}), AMP_DIMS(shape[0], shape[1], shape[2])});
            x = op("to", {x, dtype});
            if (dtype == AMP_C64 || dtype == AMP_C128) x = op("mul", {x, amp_complex(1, -2)});
            amp_tensor *there = sent(x);
            for (const amp_dims &order : {AMP_DIMS(0, 2, 1), AMP_DIMS(2, 1, 0), AMP_DIMS(1, 0, 2), AMP_DIMS(2, 0, 1)}) {
                amp_tensor *want = op("contiguous", {op("permute", {x, order})});
                expect_close(op("contiguous", {op("permute", {there, order})}), want, 0);
            }
            for (int64_t start : {0, 1, 8}) { // rows that begin anywhere
                const auto part = [&](amp_tensor *t) { return op("narrow", {t, 2, start, 8}); };
                expect_close(op("contiguous", {part(there)}), op("contiguous", {part(x)}), 0);
                amp_tensor *joined = op("cat", {std::vector<amp_tensor *>{part(there), there}, 2});
                expect_close(joined, op("cat", {std::vector<amp_tensor *>{part(x), x}, 2}), 0);
            }
            amp_tensor *row = op("select", {x, 0, 0}), *wide = op("expand", {row, AMP_DIMS(4, shape[1], shape[2])});
            expect_close(op("contiguous", {op("expand", {sent(row), AMP_DIMS(4, shape[1], shape[2])})}),
                         op("contiguous", {wide}), 0);
        }
    }
}

// Few results of many elements are joined in two stages.
TEST_F(CudaRows, FewResultsOfManyElementsAgreeWithTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_I64, AMP_C64}) {
        for (const Shape &shape : {Shape{3, 9000}, Shape{9000, 3}, Shape{1000, 300}, Shape{2, 4501, 5}}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[0]));
            Scope scope;
            amp_tensor *x = numbers(dtype, shape, 30);
            const double tolerance = dtype == AMP_BF16 ? 64 : dtype == AMP_I64 ? 0 : 0.05;
            amp_tensor *there = sent(x), *twice = sent(x);
            for (const amp_dims &dims : {AMP_DIMS(0), AMP_DIMS(1), AMP_DIMS(-1, 0)}) {
                amp_tensor *got = op("sum", {there, dims});
                expect_close(got, op("sum", {x, dims}), tolerance);
                EXPECT_EQ(numbers_of(fetched(got)), numbers_of(fetched(op("sum", {twice, dims}))));
            }
            if (dtype == AMP_C64) continue;
            for (int64_t dim : {0, 1}) {
                for (const char *extreme : {"max.dim", "min.dim"}) {
                    const std::vector<amp_tensor *> want = both(extreme, {x, dim}), got = both(extreme, {there, dim});
                    for (size_t i = 0; i < 2; i++) expect_close(got[i], want[i], 0);
                }
            }
            expect_close(op("argmax", {there}), op("argmax", {x}), 0);
            if (dtype == AMP_F64) expect_close(op("linalg_vector_norm", {there}), op("linalg_vector_norm", {x}), 1e-9);
        }
    }
    std::vector<double> values(100000, 1.0);
    values[77777] = NAN;
    amp_tensor *x = tensor(AMP_F32, {100000}, values),
               *ones = sent(op("full", {AMP_DIMS(100000), amp_int(1), AMP_F64}));
    EXPECT_EQ(numbers_of(fetched(op("argmin", {sent(x)})))[0], 77777);
    EXPECT_EQ(numbers_of(fetched(op("argmax", {ones})))[0], 0); // the first of equal ones
    EXPECT_EQ(numbers_of(fetched(op("prod", {ones})))[0], 1);
    EXPECT_TRUE(std::isnan(numbers_of(fetched(op("amax", {sent(x)})))[0]));
}

// Of long rows only what can be among the first is sorted on.
TEST_F(CudaRows, TheFirstOfLongRowsAreThoseOfTheCpu) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_I64}) {
        for (int64_t length : {1024, 1025, 9000}) {
            for (int64_t k : {1, 5, 512, 513}) {
                for (bool largest : {true, false}) {
                    SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(length) + " " +
                                 std::to_string(k) + (largest ? " largest" : ""));
                    Scope scope;
                    amp_tensor *x = integers({2, length}, 600); // with many equal ones
                    x = op("to", {x, dtype});
                    const std::vector<Named> which = {{"largest", largest}};
                    std::vector<amp_tensor *> want, got;
                    ASSERT_EQ(call("topk", {x, k}, which, &want), AMP_OK) << amp_last_error();
                    ASSERT_EQ(call("topk", {sent(x), k}, which, &got), AMP_OK) << amp_last_error();
                    for (size_t i = 0; i < 2; i++) expect_close(got[i], want[i], 0);
                }
            }
        }
    }
    std::vector<double> values(3000, 1.0);
    values[2999] = values[7] = NAN;
    amp_tensor *x = tensor(AMP_F32, {3000}, values);
    const std::vector<amp_tensor *> want = both("topk", {x, 4}), got = both("topk", {sent(x), 4});
    for (size_t i = 0; i < 2; i++) expect_close(got[i], want[i], 0);
}

TEST_F(CudaRows, LossesOverManyClassesAgreeWithTheCpu) {
    amp_tensor *x = random_tensor(AMP_F32, {7, 600}, 1), *target = integers({7}, 600);
    amp_tensor *weight = op("abs", {random_tensor(AMP_F32, {600}, 2)}), *shares = op("softmax", {x, 1});
    amp_tensor *there = sent(x), *place = sent(target), *weights = sent(weight);
    for (const char *reduction : {"none", "mean", "sum"}) {
        for (double smoothing : {0.0, 0.25}) {
            const std::vector<Named> host = {
                {"weight", weight}, {"reduction", reduction}, {"label_smoothing", smoothing}, {"ignore_index", 3}};
            const std::vector<Named> cuda = {
                {"weight", weights}, {"reduction", reduction}, {"label_smoothing", smoothing}, {"ignore_index", 3}};
            expect_close(op("cross_entropy", {there, place}, cuda), op("cross_entropy", {x, target}, host), 1e-5);
            const std::vector<Named> rest = {{"reduction", reduction}, {"label_smoothing", smoothing}};
            expect_close(op("cross_entropy", {there, sent(shares)}, rest), op("cross_entropy", {x, shares}, rest),
                         1e-5);
        }
        const std::vector<Named> plain = {{"reduction", reduction}};
        expect_close(op("multi_margin_loss", {there, place}, plain), op("multi_margin_loss", {x, target}, plain), 1e-5);
        amp_tensor *several = op("clone", {op("expand", {op("unsqueeze", {target, 1}), AMP_DIMS(7, 600)})});
        op("fill_", {op("narrow", {several, 1, 3, 1}), amp_int(-1)});
        expect_close(op("multilabel_margin_loss", {there, sent(several)}, plain),
                     op("multilabel_margin_loss", {x, several}, plain), 1e-5);
    }
}

TEST_F(CudaRows, DistancesOfManyPointsAgreeWithTheCpu) {
    for (double p : {0.0, 1.0, 2.0, 3.0, double(INFINITY)}) {
        SCOPED_TRACE(p);
        amp_tensor *x = random_tensor(AMP_F32, {300, 3}, 1), *y = random_tensor(AMP_F32, {2, 1, 40, 3}, 2);
        expect_close(op("pdist", {sent(x), p}), op("pdist", {x, p}), 1e-5);
        expect_close(op("cdist", {sent(x), sent(y), p}), op("cdist", {x, y, p}), 1e-5);
    }
    EXPECT_EQ(amp_tensor_numel(op("pdist", {sent(random_tensor(AMP_F32, {1, 3}, 1))})), 0);
}

TEST_F(CudaRows, RecurrentLayersReadStatesAndSequencesOfAnyStrides) {
    amp_tensor *x = op("transpose", {random_tensor(AMP_F32, {5, 4, 3}, 1), 0, 1});
    amp_tensor *h = op("transpose", {random_tensor(AMP_F32, {4, 5, 2}, 2), 0, 1});
    h = op("narrow", {op("transpose", {h, 0, 1}), 0, 0, 1}); // [1, 5, 2]
    std::vector<amp_tensor *> params = {random_tensor(AMP_F32, {6, 3}, 3), random_tensor(AMP_F32, {6, 2}, 4),
                                        random_tensor(AMP_F32, {6}, 5), random_tensor(AMP_F32, {6}, 6)};
    std::vector<amp_tensor *> there;
    for (amp_tensor *t : params) there.push_back(sent(t));
    const auto run = [](amp_tensor *in, amp_tensor *state, const std::vector<amp_tensor *> &weights) {
        const std::vector<amp_tensor *> states = {state};
        return both("gru", {in, states, weights, true, 1, 0.0, false, false, false});
    };
    const std::vector<amp_tensor *> want = run(x, h, params), got = run(sent(x), sent(h), there);
    for (size_t i = 0; i < 2; i++) expect_close(got[i], want[i], 1e-5);
}

TEST_F(CudaRows, AClassOrPlaceThatDoesNotExistIsToldOfWhenTheHostWaits) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3}, 1), *wrong = op("to", {tensor(AMP_F32, {2}, {1, 3}), AMP_I64});
    ASSERT_NE(op("nll_loss", {sent(x), sent(wrong)}), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "nll_loss"));
    amp_tensor *image = random_tensor(AMP_F32, {1, 1, 1, 2}, 1);
    amp_tensor *places = op("to", {tensor(AMP_F32, {1, 1, 1, 2}, {0, 99}), AMP_I64});
    ASSERT_NE(op("max_unpool2d", {sent(image), sent(places), AMP_DIMS(2, 2)}), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    EXPECT_TRUE(contains(error(), "max_unpool2d"));
}

TEST_F(CudaRows, RunningStatisticsMoveAsOnTheCpu) {
    amp_tensor *x = random_tensor(AMP_F32, {4, 3, 50}, 1), *there = sent(x);
    for (const char *name : {"batch_norm", "instance_norm"}) {
        SCOPED_TRACE(name);
        const Named option = name[0] == 'b' ? Named{"training", true} : Named{"use_input_stats", true};
        amp_tensor *mean = random_tensor(AMP_F32, {3}, 2), *variance = op("abs", {random_tensor(AMP_F32, {3}, 3)});
        amp_tensor *mean_there = sent(mean), *variance_there = sent(variance);
        const uint64_t version = amp_tensor_version(mean_there);
        expect_close(op(name, {there}, {{"running_mean", mean_there}, {"running_var", variance_there}, option}),
                     op(name, {x}, {{"running_mean", mean}, {"running_var", variance}, option}), 1e-5);
        expect_close(mean_there, mean, 1e-6);
        expect_close(variance_there, variance, 1e-6);
        EXPECT_GT(amp_tensor_version(mean_there), version);
    }
}

} // namespace
