// Norms of vectors and matrices, trace, cross: values by hand, empty inputs, dtypes, error sentences.
#include <limits>

#include "linalg_test.h"

using namespace amp_test;
using namespace linalg_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_number = std::numeric_limits<double>::quiet_NaN();

class MatrixNorm : public Test {};
class VectorNorm : public Test {};
class Cross : public Test {};
class Trace : public Test {};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

double one(amp_tensor *t) {
    const std::vector<double> numbers = numbers_of(t);
    EXPECT_EQ(numbers.size(), 1u) << amp_last_error();
    return numbers.empty() ? nan_number : numbers[0];
}

} // namespace

TEST_F(VectorNorm, OfEveryOrder) {
    amp_tensor *x = tensor(AMP_F64, {4}, {3, -4, 0, 1});
    const std::vector<std::pair<double, double>> expected = {
        {0, 3}, {1, 8}, {2, std::sqrt(26.0)}, {3, std::cbrt(92.0)}, {infinity, 4}, {-infinity, 0}, {-1, 0}};
    for (const auto &[p, value] : expected) {
        EXPECT_NEAR(one(op("linalg_vector_norm", {x, amp_float(p)})), value, 1e-14) << p;
        EXPECT_NEAR(one(op("norm", {x, amp_float(p)})), value, 1e-14) << p;
    }
    amp_tensor *y = tensor(AMP_F64, {2}, {2, -4});
    EXPECT_NEAR(one(op("linalg_vector_norm", {y, -1})), 4.0 / 3, 1e-15);
    EXPECT_NEAR(one(op("linalg_vector_norm", {y, 0.5})), std::pow(std::sqrt(2.0) + 2, 2), 1e-14);
    EXPECT_NEAR(one(op("frobenius_norm", {y, AMP_DIMS(0)})), std::sqrt(20.0), 1e-15);
    EXPECT_NEAR(one(op("norm", {y, "fro"})), std::sqrt(20.0), 1e-15);
}

TEST_F(VectorNorm, OverDimensions) {
    amp_tensor *x = tensor(AMP_F32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(numbers_of(op("linalg_vector_norm", {x, 1, AMP_DIMS(0, -1)})), (std::vector<double>{14, 22}));
    EXPECT_EQ(numbers_of(op("norm", {x, 1, AMP_DIMS(1)}, {{"keepdim", true}})), (std::vector<double>{4, 6, 12, 14}));
    EXPECT_EQ(shape_of(op("norm", {x, 1, AMP_DIMS(1), true})), (Shape{2, 1, 2}));
    EXPECT_EQ(shape_of(op("frobenius_norm", {x, amp_dims{{0}, 0, AMP_PRESENT}})), Shape{});
    EXPECT_EQ(one(op("linalg_vector_norm", {tensor(AMP_F32, {}, {-3})})), 3);
}

TEST_F(VectorNorm, OfComplexNumbersIsReal) {
    Matrix m(1, 2);
    m(0, 0) = {3, 4};
    m(0, 1) = {0, 1};
    amp_tensor *x = tensor_of(AMP_C64, m), *norm = op("linalg_vector_norm", {x, 1});
    EXPECT_EQ(one(norm), 6);
    EXPECT_EQ(amp_tensor_dtype(norm), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("norm", {x}, {{"dtype", AMP_C128}})), AMP_F64);
    EXPECT_EQ(one(op("linalg_vector_norm", {x, amp_float(infinity)})), 5);
}

TEST_F(VectorNorm, OfNoElement) {
    amp_tensor *none = tensor(AMP_F32, {3, 0});
    for (double p : {0.0, 1.0, 2.0, 0.5}) {
        EXPECT_EQ(numbers_of(op("linalg_vector_norm", {none, amp_float(p), AMP_DIMS(1)})), std::vector<double>(3, 0.0));
    }
    for (double p : {infinity, -infinity, -1.0}) {
        EXPECT_FALSE(op("norm", {none, amp_float(p)}));
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"norm: 'input' is [3, 0] f32", "no norm of order"}));
    }
}

TEST_F(VectorNorm, KeepsNanAndInfinity) {
    amp_tensor *x = tensor(AMP_F32, {3}, {1, nan_number, infinity});
    for (double p : {1.0, 2.0, infinity, -infinity, -1.0}) {
        EXPECT_TRUE(std::isnan(one(op("linalg_vector_norm", {x, amp_float(p)})))) << p;
    }
    EXPECT_EQ(one(op("linalg_vector_norm", {x, 0})), 3);
}

TEST_F(VectorNorm, OfLongVectorsOnAnyNumberOfThreads) {
    const int threads = amp_get_num_threads();
    for (int64_t n : {31, 1000, 40000, 100003}) {
        for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
            amp_tensor *x = random_tensor(dtype, {n}, 9);
            const std::vector<double> numbers = numbers_of(x);
            for (double p : {0.0, 1.0, 2.0, 3.0, 2.5, -1.0, infinity, -infinity}) {
                double sum = 0, most = 0, least = infinity;
                for (double v : numbers) {
                    sum += std::pow(std::fabs(v), p);
                    most = std::max(most, std::fabs(v));
                    least = std::min(least, std::fabs(v));
                }
                const double expected = std::isinf(p) ? (p > 0 ? most : least)
                                        : p == 0      ? double(n)
                                                      : std::pow(sum, 1 / p);
                const double norm = one(op("norm", {x, amp_float(p)}));
                EXPECT_NEAR(norm / expected, 1, dtype == AMP_F64 ? 1e-12 : 1e-6) << p << " of " << n;
                ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
                EXPECT_EQ(one(op("norm", {x, amp_float(p)})), norm);
                ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
            }
        }
    }
    std::vector<double> tail(50000, 1.0);
    tail.back() = nan_number;
    EXPECT_TRUE(std::isnan(one(op("norm", {vector_of(AMP_F32, tail), amp_float(infinity)}))));
    EXPECT_EQ(one(op("norm", {vector_of(AMP_F32, tail), 0})), 50000);
    tail.back() = -infinity;
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) EXPECT_EQ(one(op("norm", {vector_of(dtype, tail), 1})), infinity);
}

TEST_F(VectorNorm, ComputesIn16BitTypesAndTheDtypeAskedFor) {
    amp_tensor *x = tensor(AMP_BF16, {300}, {1.0}), *norm = op("linalg_vector_norm", {x, 1});
    EXPECT_EQ(one(norm), 300) << "300 is a bf16, 257 is not: the sum is not in bf16";
    EXPECT_EQ(amp_tensor_dtype(norm), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(op("norm", {x}, {{"dtype", AMP_F64}})), AMP_F64);
    EXPECT_FALSE(op("norm", {tensor(AMP_F64, {2})}, {{"dtype", AMP_F32}}));
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"norm: 'dtype' is f32 and 'input' is [2] f64"}));
    EXPECT_FALSE(op("linalg_vector_norm", {tensor(AMP_I64, {2})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"'input' is [2] i64; expected a floating or complex dtype"}));
}

TEST_F(MatrixNorm, OfEveryOrder) {
    amp_tensor *a = tensor(AMP_F64, {2, 2}, {3, 0, 0, -4});
    const std::vector<std::pair<double, double>> expected = {{1, 4},  {-1, 3},       {2, 4},
                                                             {-2, 3}, {infinity, 4}, {-infinity, 3}};
    for (const auto &[p, value] : expected) EXPECT_EQ(one(op("linalg_matrix_norm", {a, amp_float(p)})), value) << p;
    EXPECT_EQ(one(op("linalg_matrix_norm.str", {a, "nuc"})), 7);
    EXPECT_EQ(one(op("linalg_matrix_norm.str", {a})), 5);
    EXPECT_EQ(one(op("norm", {a, "nuc"})), 7);
    EXPECT_EQ(one(op("nuclear_norm", {a})), 7);
    amp_tensor *b = tensor(AMP_F64, {2, 3}, {1, -2, 3, 4, 5, -6});
    EXPECT_EQ(one(op("linalg_matrix_norm", {b, 1})), 9);
    EXPECT_EQ(one(op("linalg_matrix_norm", {b, -1})), 5);
    EXPECT_EQ(one(op("linalg_matrix_norm", {b, amp_float(infinity)})), 15);
    EXPECT_EQ(one(op("linalg_matrix_norm", {b, amp_float(-infinity)})), 6);
    EXPECT_EQ(one(op("linalg_matrix_norm", {b, 1, AMP_DIMS(1, 0)})), 15) << "the transposed matrix";
}

TEST_F(MatrixNorm, PlacesItsDimensions) {
    amp_tensor *a = random_tensor(AMP_F64, {2, 3, 4}, 7), *moved = op("permute", {a, AMP_DIMS(0, 2, 1)});
    for (Value ord : {Value(2), Value(1), Value(amp_float(-infinity)), Value("nuc"), Value("fro")}) {
        const std::string name = ord.v.kind == AMP_VALUE_STRING ? "linalg_matrix_norm.str" : "linalg_matrix_norm";
        amp_tensor *plain = op(name, {moved, ord, AMP_DIMS(0, 1)}), *same = op(name, {a, ord, AMP_DIMS(0, -1)});
        ASSERT_TRUE(plain && same) << amp_last_error();
        EXPECT_EQ(shape_of(same), Shape{3});
        const std::vector<double> x = numbers_of(plain), y = numbers_of(same);
        for (size_t i = 0; i < x.size(); i++) EXPECT_NEAR(x[i], y[i], 1e-14);
        EXPECT_EQ(shape_of(op(name, {a, ord, AMP_DIMS(-1, 0), true})), (Shape{1, 3, 1}));
    }
}

TEST_F(MatrixNorm, OfEmptyMatrices) {
    for (const Shape &shape : {Shape{0, 3}, Shape{3, 0}, Shape{0, 0}}) {
        for (double p : {1.0, 2.0, infinity})
            EXPECT_EQ(one(op("linalg_matrix_norm", {tensor(AMP_F32, shape), amp_float(p)})), 0);
        EXPECT_EQ(one(op("nuclear_norm", {tensor(AMP_F32, shape)})), 0);
        EXPECT_FALSE(op("linalg_matrix_norm", {tensor(AMP_F32, shape), -2}));
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_matrix_norm: 'input' is [", "smallest"}));
    }
    EXPECT_EQ(one(op("linalg_matrix_norm", {tensor(AMP_F32, {0, 3}), -1})), 0) << "three sums of nothing";
    EXPECT_FALSE(op("linalg_matrix_norm", {tensor(AMP_F32, {3, 0}), -1}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"of no sum there is no smallest"}));
}

TEST_F(MatrixNorm, BadArgumentsAreNamed) {
    amp_tensor *a = tensor(AMP_F32, {2, 3});
    EXPECT_FALSE(op("linalg_matrix_norm", {a, 3}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_matrix_norm: 'ord' is 3; expected 1, -1"}));
    EXPECT_FALSE(op("linalg_matrix_norm.str", {a, "max"}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'ord' is \"max\""}));
    EXPECT_FALSE(op("norm", {a, "max"}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"norm: 'p' is \"max\""}));
    EXPECT_FALSE(op("linalg_matrix_norm", {a, 1, AMP_DIMS(0, 0)}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"names dimension 0 twice"}));
    EXPECT_FALSE(op("linalg_matrix_norm", {a, 1, AMP_DIMS(0)}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"names 1 dimensions; a matrix has two"}));
    EXPECT_FALSE(op("nuclear_norm", {tensor(AMP_F32, {3})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"nuclear_norm: 'input' is [3] f32; expected a matrix"}));
    EXPECT_FALSE(op("nuclear_norm", {tensor(AMP_BF16, {3, 3})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"nuclear_norm: 'input' is [3, 3] bf16; expected f32"}));
    EXPECT_FALSE(op("norm", {tensor(AMP_F32, {2, 2, 2}), "nuc"}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"norm: 'input' is [2, 2, 2] f32; name the two dimensions"}));
}

TEST_F(Trace, SumsTheDiagonal) {
    EXPECT_EQ(one(op("trace", {tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6})})), 6);
    amp_tensor *whole = op("trace", {tensor(AMP_I32, {2, 2}, {1, 2, 3, 4})});
    EXPECT_EQ(one(whole), 5);
    EXPECT_EQ(amp_tensor_dtype(whole), AMP_I64);
    EXPECT_EQ(one(op("trace", {tensor(AMP_F32, {0, 3})})), 0);
    EXPECT_FALSE(op("trace", {tensor(AMP_F32, {2, 2, 2})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"trace: 'input' is [2, 2, 2] f32; expected a matrix"}));
    EXPECT_FALSE(op("trace", {tensor(AMP_BOOL, {2, 2})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"trace: 'input' is [2, 2] bool"}));
}

TEST_F(Cross, IsTheVectorProduct) {
    const std::vector<double> x{1, 2, 3}, y{4, 5, 7}, expected{-1, 5, -3};
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_F16, AMP_BF16, AMP_I64, AMP_I8, AMP_C64}) {
        EXPECT_EQ(numbers_of(op("cross", {vector_of(dtype, x), vector_of(dtype, y)})), expected);
    }
    Matrix i(1, 3), j(1, 3);
    i(0, 0) = {0, 1};
    j(0, 1) = {0, 1};
    EXPECT_EQ(matrix_of(op("cross", {tensor_of(AMP_C128, i), tensor_of(AMP_C128, j)}))(0, 2), Number(-1));
}

TEST_F(Cross, TakesTheFirstDimensionOfThreeOrTheOneNamed) {
    amp_tensor *a = random_tensor(AMP_F32, {2, 3, 3}, 1), *b = random_tensor(AMP_F32, {1, 3, 3}, 2);
    EXPECT_EQ(numbers_of(op("cross", {a, b})), numbers_of(op("cross", {a, b, 1})));
    EXPECT_NE(numbers_of(op("cross", {a, b})), numbers_of(op("cross", {a, b, -1})));
    EXPECT_EQ(shape_of(op("cross", {a, b})), (Shape{2, 3, 3}));
    amp_tensor *c = op("clone", {a});
    ASSERT_TRUE(op("cross_out", {c, b}, {{"out", c}}));
    EXPECT_EQ(numbers_of(c), numbers_of(op("cross", {a, b}))) << "the target may be an input";
}

TEST_F(Cross, BadArgumentsAreNamed) {
    amp_tensor *a = tensor(AMP_F32, {4, 3}), *b = tensor(AMP_F32, {4, 2});
    EXPECT_FALSE(op("cross", {b, b}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cross: 'input' is [4, 2] f32, which has no dimension of extent 3"}));
    EXPECT_FALSE(op("cross", {a, a, 0}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"extent 3 along dimension 0"}));
    EXPECT_FALSE(op("cross", {a, tensor(AMP_F32, {3})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"as many dimensions"}));
    EXPECT_FALSE(op("cross", {a, tensor(AMP_F64, {4, 3})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"cross"}));
    EXPECT_FALSE(op("cross", {tensor(AMP_F32, {2, 3}), a}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"do not broadcast"}));
}
