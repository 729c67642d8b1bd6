// sum, mean, amax, amin: any dimensions, strides and dtypes against f64, empty input, precision of long sums, threads.
#include <functional>

#include "amp/system.h"
#include "amp_test.h"

using namespace amp_test;

namespace {

class Reduction : public Test {};

// The reduced values by plain loops in long double: indices of the input in order, added to their result.
std::vector<double> reduce(const amp_tensor *t, const std::vector<int> &dims, double start,
                           const std::function<long double(long double, long double)> &step) {
    const int rank = amp_tensor_rank(t);
    const std::vector<double> x = numbers_of(t);
    std::vector<bool> reduced(size_t(rank), dims.empty());
    for (int d : dims) reduced[size_t(d < 0 ? d + rank : d)] = true;
    int64_t results = 1;
    for (int d = 0; d < rank; d++) results *= reduced[size_t(d)] ? 1 : amp_tensor_shape(t)[d];
    std::vector<long double> out(size_t(results), start);
    for (size_t i = 0; i < x.size(); i++) {
        int64_t rest = int64_t(i), at = 0, scale = 1;
        for (int d = rank - 1; d >= 0; d--) {
            const int64_t extent = amp_tensor_shape(t)[d];
            if (!reduced[size_t(d)]) at += rest % extent * scale, scale *= extent;
            rest /= extent;
        }
        out[size_t(at)] = step(out[size_t(at)], x[i]);
    }
    return {out.begin(), out.end()};
}

amp_dims dims_of(const std::vector<int> &dims) {
    amp_dims d = {{0}, int(dims.size()), AMP_PRESENT};
    for (size_t i = 0; i < dims.size(); i++) d.values[i] = dims[i];
    return d;
}

// Within `tolerance` of the result, for its rounding, and of the sum of magnitudes, for the order of the sum.
void expect_near(const amp_tensor *got, const std::vector<double> &want, const std::vector<double> &magnitudes,
                 double tolerance, const std::string &what) {
    ASSERT_NE(got, nullptr) << what << ": " << amp_last_error();
    const std::vector<double> g = numbers_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    for (size_t i = 0; i < g.size(); i++) {
        ASSERT_NEAR(g[i], want[i], tolerance * std::fabs(want[i]) + std::min(tolerance, 0x1p-22) * magnitudes[i])
            << what << ", result " << i;
    }
}

void check_all(amp_tensor *x, const std::vector<int> &dims, double tolerance) {
    const amp_dims d = dims_of(dims);
    const std::vector<double> sum = reduce(x, dims, 0, std::plus<long double>());
    const std::vector<double> size = reduce(x, dims, 0, [](long double a, long double b) { return a + std::fabs(b); });
    const double n = double(amp_tensor_numel(x)) / double(sum.size());
    std::vector<double> mean = sum, mean_size = size;
    for (double &m : mean) m /= n;
    for (double &m : mean_size) m /= n;
    const auto max = reduce(x, dims, -1e9, [](long double a, long double b) { return std::max(a, b); });
    const auto min = reduce(x, dims, 1e9, [](long double a, long double b) { return std::min(a, b); });
    for (bool keepdim : {false, true}) {
        const std::vector<Named> named = {{"dim", d}, {"keepdim", keepdim}};
        expect_near(op("sum", {x}, named), sum, size, tolerance, "sum");
        expect_near(op("mean", {x}, named), mean, mean_size, tolerance, "mean");
        expect_near(op("amax", {x}, named), max, size, 0, "amax");
        expect_near(op("amin", {x}, named), min, size, 0, "amin");
        const int rank =
            dims.empty() ? (keepdim ? amp_tensor_rank(x) : 0) : amp_tensor_rank(x) - (keepdim ? 0 : int(dims.size()));
        EXPECT_EQ(amp_tensor_rank(op("sum", {x}, named)), rank);
    }
}

const std::vector<std::vector<int>> sets = {{}, {0}, {1}, {2}, {-1}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}};

TEST_F(Reduction, AnyDimensionsInEveryDtype) {
    struct {
        amp_dtype dtype;
        double tolerance;
    } const types[] = {{AMP_F64, 0x1p-52}, {AMP_F32, 0x1p-22}, {AMP_BF16, 0x1p-8}, {AMP_F16, 0x1p-11}};
    for (const auto &type : types) {
        for (const Shape &shape : {Shape{3, 4, 5}, Shape{1, 7, 1}, Shape{2, 300, 3}, Shape{5, 2, 333}}) {
            for (const auto &dims : sets) check_all(random_tensor(type.dtype, shape, 1), dims, type.tolerance);
        }
    }
}

TEST_F(Reduction, StridedInputs) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        const double tolerance = dtype == AMP_BF16 ? 0x1p-8 : dtype == AMP_F32 ? 0x1p-22 : 0x1p-52;
        amp_tensor *x = random_tensor(dtype, {6, 40, 10}, 2);
        for (const auto &dims : sets) {
            check_all(op("permute", {x, AMP_DIMS(2, 0, 1)}), dims, tolerance);
            check_all(op("slice", {x, 1, 1, 40, 3}), dims, tolerance);
            check_all(op("expand", {op("narrow", {x, 2, 4, 1}), AMP_DIMS(6, 40, 9)}), dims, tolerance);
        }
    }
}

TEST_F(Reduction, IntegersSumExactlyAsI64) {
    amp_tensor *x = tensor(AMP_U8, {1000}, {255});
    EXPECT_EQ(amp_tensor_dtype(op("sum", {x})), AMP_I64);
    EXPECT_EQ(numbers_of(op("sum", {x})), (std::vector<double>{255000}));
    EXPECT_EQ(numbers_of(op("sum", {tensor(AMP_BOOL, {2, 3}, {1, 0, 1})}, {{"dim", 0}})),
              (std::vector<double>{2, 0, 2}));
    EXPECT_EQ(numbers_of(op("amax", {tensor(AMP_I32, {3}, {-5, 7, 2})})), (std::vector<double>{7}));
    EXPECT_EQ(op("mean", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"mean", "u8", "dtype"}));
    EXPECT_EQ(numbers_of(op("mean", {x}, {{"dtype", AMP_F32}})), (std::vector<double>{255}));
}

TEST_F(Reduction, DtypeConvertsFirst) {
    amp_tensor *x = tensor(AMP_BF16, {3}, {1, 2, 0x1p-9});
    EXPECT_EQ(amp_tensor_dtype(op("sum", {x}, {{"dtype", AMP_F32}})), AMP_F32);
    EXPECT_EQ(numbers_of(op("sum", {x}, {{"dtype", AMP_F32}})), (std::vector<double>{3 + 0x1p-9}));
    EXPECT_EQ(numbers_of(op("sum", {tensor(AMP_F32, {2}, {1.75})}, {{"dtype", AMP_I64}})), (std::vector<double>{2}));
}

TEST_F(Reduction, ComplexSums) {
    const double x[] = {1, 2, 3, -5};
    const int64_t shape = 2;
    const double *sum = static_cast<const double *>(amp_data(op("sum", {amp_from_data(x, AMP_C128, 1, &shape)})));
    EXPECT_EQ(sum[0], 4);
    EXPECT_EQ(sum[1], -3);
}

TEST_F(Reduction, OfNothing) {
    amp_tensor *empty = tensor(AMP_F32, {0, 3});
    EXPECT_EQ(numbers_of(op("sum", {empty})), (std::vector<double>{0}));
    EXPECT_EQ(numbers_of(op("sum", {empty}, {{"dim", 0}})), (std::vector<double>{0, 0, 0}));
    EXPECT_TRUE(std::isnan(numbers_of(op("mean", {empty}))[0]));
    EXPECT_EQ(amp_tensor_numel(op("sum", {empty}, {{"dim", 1}})), 0);
    EXPECT_EQ(op("amax", {empty}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"amax", "[0, 3]"}));
}

TEST_F(Reduction, OfANumber) {
    amp_tensor *x = tensor(AMP_F32, {}, {3.5});
    EXPECT_EQ(numbers_of(op("sum", {x})), (std::vector<double>{3.5}));
    EXPECT_EQ(numbers_of(op("amin", {x}, {{"dim", 0}})), (std::vector<double>{3.5}));
}

TEST_F(Reduction, NanAndInfinityShowUp) {
    for (const Shape &shape : {Shape{400}, Shape{400, 2}}) {
        amp_tensor *x = op("full", {AMP_DIMS(400), 1.0});
        if (shape.size() == 2) x = op("transpose", {op("expand", {x, AMP_DIMS(2, 400)}), 0, 1});
        amp_tensor *bad = op("where", {op("eq", {op("arange", {400}), 123}), tensor(AMP_F32, {}, {NAN}), 1.0});
        if (shape.size() == 2) bad = op("unsqueeze", {bad, 1});
        for (const char *name : {"sum", "mean", "amax", "amin"}) {
            EXPECT_TRUE(std::isnan(numbers_of(op(name, {op("mul", {x, bad})}, {{"dim", 0}}))[0])) << name;
        }
    }
    EXPECT_EQ(numbers_of(op("sum", {tensor(AMP_F64, {3}, {INFINITY, 1, 2})}))[0], INFINITY);
    EXPECT_EQ(numbers_of(op("sum", {tensor(AMP_F32, {3}, {-INFINITY, 1, 2})}))[0], -INFINITY);
}

TEST_F(Reduction, LongSumsKeepTheirPrecision) {
    amp_tensor *x = op("full", {AMP_DIMS(3000000), 0.1});
    EXPECT_NEAR(numbers_of(op("sum", {x}))[0] / (3000000 * double(0.1F)), 1, 0x1p-22);
    amp_tensor *columns = op("view", {x, AMP_DIMS(1000000, 3)});
    for (double sum : numbers_of(op("sum", {columns}, {{"dim", 0}}))) EXPECT_NEAR(sum / (1e6 * double(0.1F)), 1, 1e-7);
    amp_tensor *big = tensor(AMP_F64, {3}, {1e100, 1, -1e100});
    EXPECT_EQ(numbers_of(op("sum", {big}))[0], 1);
}

TEST_F(Reduction, ThreadsDoNotChangeABit) {
    amp_tensor *x = random_tensor(AMP_F32, {257, 1031}, 3);
    const int before = amp_get_num_threads();
    std::vector<std::vector<double>> results[3];
    for (int threads : {1, 2, 3}) {
        ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
        auto &r = results[threads - 1];
        for (const auto &dims : {std::vector<int>{}, {0}, {1}}) {
            r.push_back(numbers_of(op("sum", {x}, {{"dim", dims_of(dims)}})));
        }
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

TEST_F(Reduction, WrongDimensionsAreNamed) {
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("sum", {x}, {{"dim", 2}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sum", "dim", "2", "-2 to 1"}));
    EXPECT_EQ(op("mean", {x}, {{"dim", AMP_DIMS(0, -2)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mean", "0", "twice"}));
}

// Sums over rows are joined in the order of a column that lies together, in f64; longer columns that lie together are
// added in f32 by the lanes of a register first (docs/differences.md), which ref has one of.
TEST_F(Reduction, LayoutsDoNotChangeTheSumOfAFewLines) {
    if (amp_isa_best() == AMP_ISA_REF) GTEST_SKIP() << "ref adds neighbours one after the other, in f32";
    const Shape shape = {4, 70};
    for (const std::vector<double> &column :
         {std::vector<double>{1e8, 1, -1e8, 0}, {3e38, 3e38, -3e38, -3e38}, {1, 0x1p-9, 0x1p-17, 0x1p-24}}) {
        std::vector<double> values;
        for (double x : column) values.insert(values.end(), 70, x);
        for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
            amp_tensor *dense = tensor(dtype, shape, values);
            amp_tensor *turned = op("transpose", {op("contiguous", {op("transpose", {dense, 0, 1})}), 0, 1});
            for (const char *name : {"sum", "mean"})
                EXPECT_EQ(numbers_of(op(name, {dense, AMP_DIMS(0)})), numbers_of(op(name, {turned, AMP_DIMS(0)})))
                    << name << " " << amp_dtype_name(dtype) << " " << column[0];
        }
    }
}

} // namespace
