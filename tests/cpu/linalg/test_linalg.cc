// Linear algebra by its properties: A = L L^H, A X = B, A = Q R, A = U S V^H, A v = λ v, least squares; random sizes up
// to 64 in all four dtypes, batches, layouts, thread counts, and what cannot be computed.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

#include "linalg_test.h"

using namespace amp_test;
using namespace linalg_test;

namespace {

constexpr unsigned seed = 20261121;
constexpr double nan_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<amp_tensor *> all(const std::string &name, const std::vector<Value> &values,
                              const std::vector<Named> &named = {}) {
    std::vector<amp_tensor *> outputs;
    EXPECT_EQ(call(name, values, named, &outputs), AMP_OK) << amp_last_error();
    amp_clear_error();
    outputs.resize(4);
    return outputs;
}

// Runs a check for each dtype with a few random sizes.
template <class Check>
void for_sizes(Check check) {
    Random random(seed);
    for (amp_dtype dtype : dtypes) {
        for (int round = 0; round < 6; round++) {
            Scope scope;
            const int64_t most = round < 3 ? 8 : 64;
            const int64_t m = random.size(1, most), n = random.size(1, most);
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(m) + " x " + std::to_string(n));
            check(dtype, random, m, n);
            if (testing::Test::HasFailure()) return;
        }
    }
}

class Linalg : public Test {};

Shape shape_of(const amp_tensor *t) {
    return t ? Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)) : Shape{-1};
}

std::vector<double> all_numbers(const std::vector<amp_tensor *> &tensors) {
    std::vector<double> together;
    for (const amp_tensor *t : tensors) {
        for (double x : t ? numbers_of(t) : std::vector<double>{}) together.push_back(x);
    }
    return together;
}

} // namespace

// ---- Cholesky ---------------------------------------------------------------------------------------------------

TEST_F(Linalg, CholeskyFactorTimesItsAdjointIsTheMatrix) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t) {
        const Matrix first = random.positive(dtype, n), second = random.positive(dtype, n);
        amp_tensor *a = tensor_of(dtype, {first, second});
        const Matrix l = matrix_of(op("linalg_cholesky", {a}), 1);
        EXPECT_TRUE(near(dtype, l * adjoint(l), second, 16 + n));
        EXPECT_EQ(size_of(l - lower(l)), 0) << "zeros above the diagonal";
        const Matrix u = matrix_of(op("cholesky", {a, true}), 0);
        EXPECT_TRUE(near(dtype, adjoint(u) * u, first, 16 + n));
        EXPECT_EQ(size_of(u - upper(u)), 0) << "zeros below the diagonal";
    });
}

TEST_F(Linalg, CholeskyReadsOneTriangle) {
    for (bool is_upper : {false, true}) {
        amp_tensor *a = tensor(AMP_F64, {2, 2}, {4, is_upper ? 2 : nan_number, is_upper ? nan_number : 2, 5});
        EXPECT_EQ(numbers_of(op("linalg_cholesky", {a}, {{"upper", is_upper}})),
                  (is_upper ? std::vector<double>{2, 1, 0, 2} : std::vector<double>{2, 0, 1, 2}));
    }
}

TEST_F(Linalg, CholeskyFactorInvertsAndSolves) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t columns) {
        const Matrix a = random.positive(dtype, n), b = random.matrix(dtype, n, columns);
        for (bool is_upper : {false, true}) {
            amp_tensor *factor = op("linalg_cholesky", {tensor_of(dtype, a)}, {{"upper", is_upper}});
            const Matrix inverse = matrix_of(op("cholesky_inverse", {factor, is_upper}));
            EXPECT_TRUE(near(dtype, a * inverse, identity(n), 64 * n));
            for (amp_tensor *layout : {factor, column_major(factor), spread(factor)}) {
                const Matrix x = matrix_of(op("cholesky_solve", {tensor_of(dtype, b), layout, is_upper}));
                EXPECT_TRUE(near(dtype, a * x, b, 64 * n));
            }
        }
    });
}

TEST_F(Linalg, CholeskySolveBroadcastsBatches) {
    Random random(seed);
    const Matrix a = random.positive(AMP_F64, 4), b = random.matrix(AMP_F64, 4, 2);
    amp_tensor *l = op("unsqueeze", {op("linalg_cholesky", {tensor_of(AMP_F64, a)}), 0});
    amp_tensor *right = tensor_of(AMP_F64, {b, b, b});
    const Matrix x = matrix_of(op("cholesky_solve", {right, l}), 2);
    EXPECT_TRUE(near(AMP_F64, a * x, b, 200));
}

// ---- LU, solve, inverse -----------------------------------------------------------------------------------------

TEST_F(Linalg, LuFactorsAndPivotsGiveTheMatrix) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        for (bool pivot : {true, false}) {
            const Matrix a = pivot ? random.matrix(dtype, m, n) : random.regular(dtype, m);
            const auto out = all("lu_with_info", {tensor_of(dtype, a), pivot});
            const Matrix lu = matrix_of(out[0]);
            const int64_t k = std::min(lu.rows, lu.columns);
            Matrix l = part(lower(lu), [k](int64_t, int64_t j) { return j < k; }), u = upper(lu);
            for (int64_t i = 0; i < k; i++) l(i, i) = 1;
            Matrix left(lu.rows, k), right(k, lu.columns);
            for (int64_t i = 0; i < lu.rows; i++) {
                for (int64_t j = 0; j < k; j++) left(i, j) = l(i, j);
            }
            for (int64_t i = 0; i < k; i++) {
                for (int64_t j = 0; j < lu.columns; j++) right(i, j) = u(i, j);
            }
            Matrix product = left * right;
            const std::vector<double> pivots = numbers_of(out[1]);
            ASSERT_EQ(int64_t(pivots.size()), k);
            for (int64_t i = k - 1; i >= 0; i--) {
                for (int64_t j = 0; j < lu.columns; j++) std::swap(product(i, j), product(int64_t(pivots[i]) - 1, j));
            }
            EXPECT_TRUE(near(dtype, product, a, 16 + 4 * k));
            EXPECT_EQ(numbers_of(out[2]), std::vector<double>{0});
        }
    });
}

TEST_F(Linalg, LuSolveUsesTheFactors) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t columns) {
        const Matrix a = random.regular(dtype, n), b = random.matrix(dtype, n, columns);
        const auto lu = all("lu_with_info", {tensor_of(dtype, a)});
        for (amp_tensor *factors : {lu[0], column_major(lu[0]), spread(lu[0])}) {
            const Matrix x = matrix_of(op("lu_solve", {tensor_of(dtype, b), factors, spread(lu[1])}));
            EXPECT_TRUE(near(dtype, a * x, b, 64 * n));
            amp_tensor *turned = op("lu_solve", {tensor_of(dtype, b), factors, lu[1]}, {{"adjoint", true}});
            ASSERT_NE(turned, nullptr) << amp_last_error();
            EXPECT_TRUE(near(dtype, adjoint(a) * matrix_of(turned), b, 64 * n));
        }
    });
}

TEST_F(Linalg, SolveFromTheLeftAndFromTheRight) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t columns) {
        const Matrix a = random.regular(dtype, n), b = random.matrix(dtype, n, columns);
        amp_tensor *ta = tensor_of(dtype, a), *tb = tensor_of(dtype, b);
        for (amp_tensor *layout : {ta, column_major(ta), spread(ta)}) {
            EXPECT_TRUE(near(dtype, a * matrix_of(op("linalg_solve", {layout, tb})), b, 64 * n));
            const Matrix x = matrix_of(op("linalg_solve", {layout, op("transpose", {tb, 0, 1})}, {{"left", false}}));
            EXPECT_TRUE(near(dtype, x * a, transpose(b), 64 * n));
        }
        amp_tensor *column = op("select", {tb, 1, 0});
        EXPECT_EQ(amp_tensor_rank(op("linalg_solve", {ta, column})), 1);
        EXPECT_TRUE(near(dtype, a * column_of(op("linalg_solve", {ta, column})), column_of(column), 64 * n));
    });
}

TEST_F(Linalg, SolveTakesABatchOfVectors) {
    Random random(seed);
    const std::vector<Matrix> a{random.regular(AMP_F32, 5), random.regular(AMP_F32, 5)};
    amp_tensor *b = random_tensor(AMP_F32, {2, 5}, seed), *x = op("linalg_solve", {tensor_of(AMP_F32, a), b});
    ASSERT_TRUE(x);
    EXPECT_EQ(amp_tensor_rank(x), 2);
    EXPECT_TRUE(near(AMP_F32, a[1] * column_of(x, 1), column_of(b, 1), 100));
}

TEST_F(Linalg, InverseTimesTheMatrixIsTheIdentity) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t) {
        const std::vector<Matrix> a{random.regular(dtype, n), random.regular(dtype, n)};
        amp_tensor *t = tensor_of(dtype, a);
        const auto out = all("linalg_inv_ex", {t});
        EXPECT_EQ(numbers_of(out[1]), (std::vector<double>{0, 0}));
        EXPECT_TRUE(near(dtype, matrix_of(out[0], 1) * a[1], identity(n), 16 * n));
        EXPECT_EQ(numbers_of(op("inverse", {column_major(t)})), numbers_of(out[0]));
        EXPECT_EQ(numbers_of(op("linalg_inv", {spread(t)})), numbers_of(out[0]));
    });
}

TEST_F(Linalg, TensorInverseAndTensorSolve) {
    amp_tensor *a = random_tensor(AMP_F64, {2, 3, 6}, seed), *b = random_tensor(AMP_F64, {2, 3}, seed + 1);
    amp_tensor *inverse = op("linalg_tensorinv", {a}), *x = op("linalg_tensorsolve", {a, b});
    amp_tensor *flat = op("reshape", {a, AMP_DIMS(6, 6)});
    ASSERT_TRUE(inverse && x && flat);
    EXPECT_EQ(shape_of(inverse), (Shape{6, 2, 3}));
    const Matrix m = matrix_of(flat);
    EXPECT_TRUE(near(AMP_F64, m * matrix_of(op("reshape", {inverse, AMP_DIMS(6, 6)})), identity(6), 1e4));
    EXPECT_TRUE(near(AMP_F64, m * column_of(x), column_of(op("reshape", {b, AMP_DIMS(6)})), 1e4));
    amp_tensor *moved = op("permute", {a, AMP_DIMS(2, 0, 1)}); // its first dimension is the one to move to the end
    EXPECT_EQ(numbers_of(op("linalg_tensorsolve", {moved, b}, {{"dims", AMP_DIMS(0)}})), numbers_of(x));
}

TEST_F(Linalg, TriangularSolveInEveryForm) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t columns) {
        const Matrix full = random.regular(dtype, n), b = random.matrix(dtype, n, columns);
        amp_tensor *ta = tensor_of(dtype, full), *tb = tensor_of(dtype, b);
        for (int form = 0; form < 8; form++) {
            const bool is_upper = form & 1, transposed = form & 2, unit = form & 4;
            Matrix a = is_upper ? upper(full) : lower(full);
            for (int64_t i = 0; unit && i < n; i++) {
                for (int64_t j = 0; j < n; j++) a(i, j) = i == j ? 1 : a(i, j) / double(n);
            }
            amp_tensor *given = unit ? tensor_of(dtype, Random::rounded(dtype, a)) : ta;
            const Matrix rounded = unit ? matrix_of(given) : a;
            for (amp_tensor *layout : {given, column_major(given), spread(given)}) {
                const auto out = all("triangular_solve", {tb, layout, is_upper, transposed, unit});
                const Matrix x = matrix_of(out[0]);
                EXPECT_TRUE(near(dtype, (transposed ? transpose(rounded) : rounded) * x, b, 64 * n)) << form;
                EXPECT_EQ(numbers_of(out[1]), numbers_of(given));
            }
        }
    });
}

// ---- QR ---------------------------------------------------------------------------------------------------------

TEST_F(Linalg, QrIsAnOrthogonalAndATriangularFactor) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        const std::vector<Matrix> a{random.matrix(dtype, m, n), random.matrix(dtype, m, n)};
        amp_tensor *t = tensor_of(dtype, a);
        for (const char *mode : {"reduced", "complete"}) {
            const auto out = all("linalg_qr", {t, mode});
            const Matrix q = matrix_of(out[0], 1), r = matrix_of(out[1], 1);
            EXPECT_EQ(q.columns, std::string(mode) == "reduced" ? std::min(m, n) : m);
            EXPECT_TRUE(near(dtype, q * r, a[1], 16 + 4 * n));
            EXPECT_TRUE(near(dtype, adjoint(q) * q, identity(q.columns), 16 + 4 * n));
            EXPECT_EQ(size_of(r - upper(r)), 0);
            const auto old = all("qr", {t, std::string(mode) == "reduced"});
            EXPECT_EQ(all_numbers(old), all_numbers(out));
        }
        const auto only = all("linalg_qr", {t, "r"});
        EXPECT_EQ(numbers_of(only[1]), numbers_of(all("linalg_qr", {t})[1]));
        EXPECT_EQ(shape_of(only[0]), Shape{0});
    });
}

TEST_F(Linalg, QrOfNumbersWhoseSquaresHaveNoPlace) {
    const std::pair<amp_dtype, double> scales[] = {
        {AMP_F32, 1e30}, {AMP_F32, 1e-30}, {AMP_F64, 1e200}, {AMP_F64, 1e-200}};
    for (auto [dtype, scale] : scales) {
        Random random(seed);
        Matrix a = random.matrix(dtype, 9, 5);
        for (int64_t i = 0; i < 9; i++) {
            for (int64_t j = 0; j < 5; j++) a(i, j) *= i % 2 ? scale : 1;
        }
        const auto out = all("linalg_qr", {tensor_of(dtype, a)});
        const Matrix q = matrix_of(out[0]), difference = q * matrix_of(out[1]) - a;
        EXPECT_TRUE(near(dtype, adjoint(q) * q, identity(5), 64)) << scale;
        for (int64_t i = 0; i < 9; i++) {
            for (int64_t j = 0; j < 5; j++) {
                EXPECT_LE(std::abs(difference(i, j)), 64 * epsilon_of(dtype) * std::max(scale, 1.0)) << scale;
            }
        }
    }
}

TEST_F(Linalg, ReflectorsMultiplyOutToQ) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        if (m < n) std::swap(m, n);
        amp_tensor *t = tensor_of(dtype, random.matrix(dtype, m, n));
        const auto reflectors = all("geqrf", {t});
        const Matrix q = matrix_of(op("linalg_householder_product", {reflectors[0], reflectors[1]}));
        EXPECT_TRUE(near(dtype, q, matrix_of(all("linalg_qr", {t})[0]), 16 + n));
        EXPECT_EQ(numbers_of(op("orgqr", {spread(reflectors[0]), spread(reflectors[1])})),
                  numbers_of(op("orgqr", {reflectors[0], reflectors[1]})));
        const Matrix full = matrix_of(all("linalg_qr", {t, "complete"})[0]), c = random.matrix(dtype, m, n);
        amp_tensor *left = tensor_of(dtype, c), *right = tensor_of(dtype, transpose(c));
        for (bool adjoined : {false, true}) {
            const Matrix q_used = adjoined ? adjoint(full) : full;
            const Matrix from_left = matrix_of(op("ormqr", {reflectors[0], reflectors[1], left, true, adjoined}));
            EXPECT_TRUE(near(dtype, from_left, q_used * c, 64 + 4 * n));
            const Matrix from_right = matrix_of(op("ormqr", {reflectors[0], reflectors[1], right, false, adjoined}));
            EXPECT_TRUE(near(dtype, from_right, transpose(c) * q_used, 64 + 4 * n));
        }
    });
}

// ---- Singular values --------------------------------------------------------------------------------------------

TEST_F(Linalg, SvdIsTwoOrthogonalFactorsAndDescendingValues) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        const std::vector<Matrix> a{random.matrix(dtype, m, n), random.matrix(dtype, m, n)};
        amp_tensor *t = tensor_of(dtype, a);
        const int64_t k = std::min(m, n);
        for (bool full : {false, true}) {
            const auto out = all("linalg_svd", {t, full});
            const Matrix u = matrix_of(out[0], 1), s = column_of(out[1], 1), vh = matrix_of(out[2], 1);
            EXPECT_EQ(u.columns, full ? m : k);
            EXPECT_EQ(vh.rows, full ? n : k);
            EXPECT_TRUE(near(dtype, adjoint(u) * u, identity(u.columns), 32 + 8 * k));
            EXPECT_TRUE(near(dtype, vh * adjoint(vh), identity(vh.rows), 32 + 8 * k));
            Matrix middle(u.columns, vh.rows);
            for (int64_t i = 0; i < k; i++) middle(i, i) = s(i, 0);
            EXPECT_TRUE(near(dtype, u * middle * vh, a[1], 32 + 8 * k));
            for (int64_t i = 1; i < k; i++) EXPECT_GE(s(i - 1, 0).real(), s(i, 0).real());
            EXPECT_TRUE(near(dtype, column_of(op("linalg_svdvals", {spread(t)}), 1), s, 8 + k));
            const auto old = all("svd", {t, !full});
            EXPECT_TRUE(near(dtype, matrix_of(old[2], 1), adjoint(vh), 0)) << "svd gives V, not its adjoint";
            EXPECT_EQ(numbers_of(old[0]), numbers_of(out[0]));
        }
    });
}

TEST_F(Linalg, SvdWithoutVectorsGivesZeros) {
    amp_tensor *a = random_tensor(AMP_F32, {5, 3}, seed);
    const auto out = all("svd", {a, true, false});
    EXPECT_EQ(numbers_of(out[0]), std::vector<double>(25, 0.0));
    EXPECT_EQ(numbers_of(out[2]), std::vector<double>(9, 0.0));
    EXPECT_EQ(numbers_of(out[1]), numbers_of(op("linalg_svdvals", {a})));
}

TEST_F(Linalg, PseudoInverseHasPenrosesProperties) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        const int64_t rank = random.size(1, std::min(m, n));
        const Matrix a = Random::rounded(dtype, random.matrix(dtype, m, rank) * random.matrix(dtype, rank, n));
        const double rcond = 1e3 * epsilon_of(dtype);
        const Matrix p = matrix_of(op("pinverse", {tensor_of(dtype, a), rcond}));
        EXPECT_TRUE(near(dtype, a * p * a, a, 1e4));
        EXPECT_LE(size_of(p * a * p - p), 2e5 * epsilon_of(dtype) * std::max(1.0, size_of(p)));
        EXPECT_LE(size_of(adjoint(a * p) - a * p), 2e5 * epsilon_of(dtype));
        EXPECT_LE(size_of(adjoint(p * a) - p * a), 2e5 * epsilon_of(dtype));
    });
}

TEST_F(Linalg, RankCountsTheValuesAboveTheTolerance) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        const int64_t rank = random.size(1, std::min(m, n));
        const Matrix a = Random::rounded(dtype, random.matrix(dtype, m, rank) * random.matrix(dtype, rank, n));
        amp_tensor *t = tensor_of(dtype, a);
        const std::vector<double> expected{double(rank)};
        EXPECT_EQ(numbers_of(op("linalg_matrix_rank", {t}, {{"rtol", 1e3 * epsilon_of(dtype)}})), expected);
        amp_tensor *tolerance = tensor(AMP_F64, {}, {1e3 * epsilon_of(dtype)});
        EXPECT_EQ(numbers_of(op("linalg_matrix_rank.tensor", {t}, {{"rtol", tolerance}})), expected);
    });
    amp_tensor *d = tensor(AMP_F64, {3, 3}, {4, 0, 0, 0, -2, 0, 0, 0, 1});
    EXPECT_EQ(numbers_of(op("linalg_matrix_rank", {d}, {{"hermitian", true}})), std::vector<double>{3});
    EXPECT_EQ(numbers_of(op("linalg_matrix_rank", {d}, {{"atol", 1.5}})), std::vector<double>{2});
    EXPECT_EQ(numbers_of(op("linalg_matrix_rank", {d}, {{"rtol", 0.6}})), std::vector<double>{1});
    EXPECT_EQ(numbers_of(op("matrix_rank", {d, 3.0, true})), std::vector<double>{1});
    amp_tensor *each = tensor(AMP_F32, {2}, {0.5, 3});
    EXPECT_EQ(numbers_of(op("linalg_matrix_rank.tensor", {d}, {{"atol", each}})), (std::vector<double>{3, 1}));
}

TEST_F(Linalg, ConditionOfADiagonalMatrix) {
    amp_tensor *d = tensor(AMP_F64, {2, 2}, {4, 0, 0, 0.5});
    EXPECT_EQ(numbers_of(op("linalg_cond", {d})), std::vector<double>{8});
    for (double p : {1.0, 2.0, infinity}) {
        EXPECT_EQ(numbers_of(op("linalg_cond", {d, amp_float(p)})), std::vector<double>{8});
        EXPECT_EQ(numbers_of(op("linalg_cond", {d, amp_float(-p)})), std::vector<double>{0.125});
    }
    EXPECT_EQ(numbers_of(op("linalg_cond", {d, "nuc"})), std::vector<double>{4.5 * 2.25});
    EXPECT_NEAR(numbers_of(op("linalg_cond", {d, "fro"}))[0], 16.25 / 2, 1e-14);
    amp_tensor *singular = tensor(AMP_F64, {2, 2}, {1, 2, 2, 4});
    EXPECT_EQ(numbers_of(op("linalg_cond", {singular, 1})), std::vector<double>{infinity});
    EXPECT_EQ(numbers_of(op("linalg_cond", {singular, "fro"})), std::vector<double>{infinity});
    EXPECT_EQ(numbers_of(op("linalg_cond", {tensor(AMP_F64, {2, 0, 0})})), (std::vector<double>{0, 0}));
}

// ---- Eigenvalues ------------------------------------------------------------------------------------------------

TEST_F(Linalg, EigenvectorsAreScaledByTheirValues) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t) {
        const std::vector<Matrix> a{random.matrix(dtype, n, n), random.matrix(dtype, n, n)};
        amp_tensor *t = tensor_of(dtype, a);
        const auto out = all("linalg_eig", {t});
        EXPECT_TRUE(is_complex(amp_tensor_dtype(out[0])) && is_complex(amp_tensor_dtype(out[1])));
        const Matrix values = column_of(out[0], 1), v = matrix_of(out[1], 1);
        EXPECT_TRUE(near(dtype, a[1] * v, v * diagonal(values), 64 + 32 * n));
        for (int64_t j = 0; j < n; j++) {
            double length = 0;
            for (int64_t i = 0; i < n; i++) length += std::norm(v(i, j));
            EXPECT_NEAR(length, 1, 100 * epsilon_of(dtype));
        }
        Number trace = 0, sum = 0;
        const Matrix alone = column_of(op("linalg_eigvals", {t}), 1);
        for (int64_t i = 0; i < n; i++) trace += a[1](i, i), sum += alone(i, 0);
        EXPECT_LE(std::abs(trace - sum), (64 + 32 * n) * epsilon_of(dtype) * std::max(1.0, size_of(a[1])));
    });
}

TEST_F(Linalg, HermitianEigenvectorsAreOrthogonal) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t n, int64_t) {
        const Matrix b = random.matrix(dtype, n, n), sum = b - (Matrix(n, n) - adjoint(b));
        const Matrix a = Random::rounded(dtype, sum);
        for (const char *uplo : {"L", "U", "l"}) {
            // NaN in the triangle that does not count
            const bool is_lower = *uplo != 'U';
            Matrix given = a;
            for (int64_t i = 0; i < n; i++) {
                for (int64_t j = 0; j < n; j++) {
                    if (is_lower ? j > i : j < i) given(i, j) = nan_number;
                }
            }
            const auto out = all("linalg_eigh", {tensor_of(dtype, given), uplo});
            const Matrix values = column_of(out[0]), v = matrix_of(out[1]);
            EXPECT_TRUE(near(dtype, a * v, v * diagonal(values), 32 + 16 * n));
            EXPECT_TRUE(near(dtype, adjoint(v) * v, identity(n), 32 + 16 * n));
            for (int64_t i = 1; i < n; i++) EXPECT_LE(values(i - 1, 0).real(), values(i, 0).real());
            const Matrix alone = column_of(op("linalg_eigvalsh", {tensor_of(dtype, given), uplo}));
            EXPECT_TRUE(near(dtype, alone, values, 16 + 4 * n));
        }
    });
}

TEST_F(Linalg, TheSeedsEigenForms) {
    amp_tensor *rotation = tensor(AMP_F64, {2, 2}, {0, -1, 1, 0});
    const auto pairs = all("eig", {rotation, true});
    EXPECT_EQ(numbers_of(pairs[0]), (std::vector<double>{0, 1, 0, -1}));
    const Matrix v = matrix_of(pairs[1]), complex_v = matrix_of(all("linalg_eig", {rotation})[1]);
    for (int64_t i = 0; i < 2; i++) EXPECT_EQ(Number(v(i, 0).real(), v(i, 1).real()), complex_v(i, 0));
    EXPECT_EQ(amp_tensor_numel(all("eig", {rotation})[1]), 0);
    amp_tensor *symmetric = tensor(AMP_F32, {2, 2}, {2, 1, 0, 2}); // the upper triangle counts
    const auto values = all("symeig", {symmetric});
    EXPECT_EQ(numbers_of(values[0]), (std::vector<double>{1, 3}));
    EXPECT_EQ(amp_tensor_numel(values[1]), 0);
    EXPECT_EQ(numbers_of(all("symeig", {symmetric, true, false})[0]), (std::vector<double>{2, 2}));
}

// ---- Least squares ----------------------------------------------------------------------------------------------

TEST_F(Linalg, LeastSquaresLeavesAResidualOrthogonalToTheColumns) {
    for_sizes([](amp_dtype dtype, Random &random, int64_t m, int64_t n) {
        const Matrix a = random.matrix(dtype, m, n), b = random.matrix(dtype, m, 3);
        // The unique answer for full rank, of least norm where there are many: pinverse(A) B.
        const Matrix expected = matrix_of(op("pinverse", {tensor_of(dtype, a)})) * b;
        const double condition = numbers_of(op("linalg_cond", {tensor_of(dtype, a)}))[0];
        for (const char *driver : {"gels", "gelsy", "gelsd", "gelss"}) {
            const auto out = all("linalg_lstsq", {tensor_of(dtype, a), tensor_of(dtype, b)}, {{"driver", driver}});
            const Matrix x = matrix_of(out[0]);
            EXPECT_TRUE(near(dtype, x, expected, (100 + 10 * n) * condition * condition)) << driver;
            const bool gels = std::string(driver) == "gels", gelsy = std::string(driver) == "gelsy";
            const std::vector<double> rank{double(std::min(m, n))};
            EXPECT_EQ(numbers_of(out[2]), gels ? std::vector<double>{} : rank) << driver;
            if (m > n && !gelsy) {
                const Matrix left = b - a * x;
                const std::vector<double> residuals = numbers_of(out[1]);
                ASSERT_EQ(residuals.size(), 3u) << driver;
                double sum = 0;
                for (int64_t i = 0; i < m; i++) sum += std::norm(left(i, 2));
                EXPECT_NEAR(residuals[2], sum, 1e3 * epsilon_of(dtype) * std::max(1.0, sum) * condition);
            } else {
                EXPECT_EQ(amp_tensor_numel(out[1]), 0);
            }
            if (!gels && !gelsy) {
                EXPECT_TRUE(
                    near(dtype, column_of(out[3]), column_of(op("linalg_svdvals", {tensor_of(dtype, a)})), 64 + n));
            }
        }
    });
}

TEST_F(Linalg, LeastSquaresOfTheSeedKeepsWhatLapackLeaves) {
    amp_tensor *a = tensor(AMP_F64, {3, 1}, {1, 1, 1}), *b = tensor(AMP_F64, {3, 1}, {1, 2, 6});
    const auto out = all("lstsq", {b, a});
    ASSERT_EQ(amp_tensor_numel(out[0]), 3);
    const std::vector<double> x = numbers_of(out[0]);
    EXPECT_NEAR(x[0], 3, 1e-14);
    EXPECT_NEAR(x[1] * x[1] + x[2] * x[2], 4 + 1 + 9, 1e-13);
    EXPECT_NEAR(std::fabs(numbers_of(out[1])[0]), std::sqrt(3.0), 1e-14);
}

// ---- Layouts, targets, threads ----------------------------------------------------------------------------------

TEST_F(Linalg, ResultsAreRowMajorAndWrittenIntoAnyTarget) {
    amp_tensor *a = random_tensor(AMP_F32, {2, 5, 5}, seed), *plain = op("linalg_inv", {a});
    ASSERT_TRUE(plain);
    EXPECT_EQ(amp_tensor_strides(plain)[2], 1);
    for (amp_tensor *target : {op("zeros", {AMP_DIMS(2, 5, 5)}), column_major(op("zeros", {AMP_DIMS(2, 5, 5)})),
                               spread(op("zeros", {AMP_DIMS(2, 5, 5)})), a}) {
        ASSERT_TRUE(op("linalg_inv_out", {a}, {{"out", target}})) << amp_last_error();
        EXPECT_EQ(numbers_of(target), numbers_of(plain));
    }
    amp_tensor *b = random_tensor(AMP_F64, {4, 3}, seed), *l = tensor_of(AMP_F64, identity(4));
    amp_tensor *into = column_major(op("zeros", {AMP_DIMS(4, 3), AMP_F64}));
    ASSERT_TRUE(op("cholesky_solve_out", {b, l}, {{"out", into}})) << amp_last_error();
    EXPECT_EQ(numbers_of(into), numbers_of(b));
}

TEST_F(Linalg, InputsStayAsTheyAre) {
    Random random(seed);
    for (amp_dtype dtype : dtypes) {
        amp_tensor *a = column_major(tensor_of(dtype, random.positive(dtype, 6)));
        amp_tensor *tau = random_tensor(dtype, {6}, seed),
                   *b = column_major(tensor_of(dtype, random.matrix(dtype, 6, 6)));
        const std::vector<double> before = all_numbers({a, tau, b});
        for (const char *name : {"linalg_cholesky", "linalg_inv", "linalg_eig", "linalg_eigh", "linalg_svd",
                                 "linalg_qr", "geqrf", "lu_with_info", "pinverse", "cholesky_inverse", "linalg_cond"}) {
            EXPECT_TRUE(op(name, {a})) << name << ": " << amp_last_error();
        }
        for (const char *name : {"linalg_solve", "linalg_lstsq", "cholesky_solve", "triangular_solve"}) {
            EXPECT_TRUE(op(name, {b, a})) << name << ": " << amp_last_error();
        }
        EXPECT_TRUE(op("ormqr", {a, tau, b}));
        EXPECT_EQ(all_numbers({a, tau, b}), before);
    }
}

TEST_F(Linalg, ResultsDoNotDependOnTheNumberOfThreads) {
    const int threads = amp_get_num_threads();
    amp_tensor *a = random_tensor(AMP_F32, {7, 96, 96}, seed), *wide = random_tensor(AMP_F64, {300, 260}, seed);
    std::vector<std::vector<double>> results;
    for (int count : {1, 2, 5}) {
        ASSERT_EQ(amp_set_num_threads(count), AMP_OK);
        std::vector<double> numbers;
        for (amp_tensor *t : {a, wide}) {
            for (const char *name : {"linalg_svd", "linalg_qr", "pinverse", "lu_with_info"}) {
                for (double x : all_numbers(all(name, {t}))) numbers.push_back(x);
            }
        }
        for (const char *name : {"linalg_inv", "linalg_eig", "linalg_eigh"}) {
            for (double x : all_numbers(all(name, {a}))) numbers.push_back(x);
        }
        results.push_back(numbers);
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
    EXPECT_TRUE(results[0] == results[1]);
    EXPECT_TRUE(results[0] == results[2]);
}

TEST_F(Linalg, SmallMatricesOfSinglePrecisionAreRoundedOnce) {
    amp_tensor *a = random_tensor(AMP_F32, {3, 7, 7}, seed), *wide = op("to", {a, AMP_F64});
    for (const char *name : {"linalg_svdvals", "linalg_inv", "linalg_eigvalsh"}) {
        amp_tensor *narrow = op(name, {a}), *expected = op("to", {op(name, {wide}), AMP_F32});
        ASSERT_TRUE(narrow && expected) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(narrow), AMP_F32);
        EXPECT_EQ(numbers_of(narrow), numbers_of(expected)) << name;
    }
    EXPECT_EQ(amp_tensor_dtype(all("linalg_svd", {a})[1]), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(all("linalg_eigh", {a})[1]), AMP_F32);
}

TEST_F(Linalg, EmptyMatricesHaveEmptyFactors) {
    for (amp_dtype dtype : dtypes) {
        amp_tensor *none = tensor(dtype, {0, 0}), *flat = tensor(dtype, {0, 3}), *tall = tensor(dtype, {3, 0});
        for (const char *name : {"linalg_cholesky", "linalg_inv", "linalg_eig", "linalg_eigh", "linalg_svd",
                                 "linalg_qr", "cholesky_inverse", "pinverse", "geqrf", "lu_with_info"}) {
            EXPECT_EQ(amp_tensor_numel(all(name, {none})[0]), 0) << name;
        }
        EXPECT_EQ(size_of(matrix_of(all("linalg_svd", {flat})[2]) - identity(3)), 0);
        EXPECT_EQ(size_of(matrix_of(all("linalg_qr", {tall, "complete"})[0]) - identity(3)), 0);
        EXPECT_EQ(numbers_of(op("linalg_lstsq", {flat, tensor(dtype, {0, 2})})), std::vector<double>(6, 0.0));
        EXPECT_EQ(numbers_of(op("linalg_matrix_rank", {flat})), std::vector<double>{0});
        EXPECT_EQ(shape_of(op("pinverse", {flat})), (Shape{3, 0}));
    }
}

// ---- What cannot be computed ------------------------------------------------------------------------------------

TEST_F(Linalg, SingularAndIndefiniteMatricesAreErrorsOrInfos) {
    const std::vector<double> numbers{1, 0, 0, 1, 1, 2, 2, 4, 0, 0, 0, 0};
    amp_tensor *batch = tensor(AMP_F32, {3, 2, 2}, numbers), *one = tensor(AMP_F32, {2, 2}, {1, 2, 2, 4});
    EXPECT_FALSE(op("linalg_inv", {batch}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_inv: matrix 1 of the batch: 'A' is singular", "element 2"}));
    EXPECT_FALSE(op("linalg_solve", {one, tensor(AMP_F32, {2})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_solve: 'A' is singular"}));
    EXPECT_FALSE(op("linalg_cholesky", {batch}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_cholesky: matrix 1", "positive-definite", "order 2"}));
    EXPECT_FALSE(op("cholesky_inverse", {batch}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cholesky_inverse: matrix 2", "element 1"}));
    EXPECT_FALSE(op("lu_with_info", {one}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"lu_with_info: element 2", "singular"}));
    EXPECT_FALSE(op("linalg_inv_ex", {one}, {{"check_errors", true}}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_inv_ex: 'A' is singular"}));
    const std::vector<double> infos{0, 2, 1};
    EXPECT_EQ(numbers_of(all("linalg_inv_ex", {batch})[1]), infos);
    EXPECT_EQ(numbers_of(all("linalg_cholesky_ex", {batch})[1]), infos);
    EXPECT_EQ(numbers_of(all("lu_with_info", {batch, true, false})[2]), infos);
    const std::vector<double> x =
        numbers_of(all("triangular_solve", {tensor(AMP_F32, {2, 1}), tensor(AMP_F32, {2, 2}, {0, 1, 0, 2})})[0]);
    EXPECT_TRUE(std::isinf(x[0])) << "no error, but an infinity";
}

TEST_F(Linalg, NanAndInfinityAreAnsweredWithoutAWordOnStderr) {
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    for (int64_t n : {2, 40}) {
        for (double bad : {nan_number, infinity}) {
            std::vector<double> numbers(size_t(n * n), 0.5);
            numbers[1] = numbers[size_t(n)] = bad;
            amp_tensor *a = tensor(AMP_F64, {n, n}, numbers), *b = tensor(AMP_F64, {n, 1});
            for (const char *name : {"linalg_svd", "linalg_svdvals", "pinverse"}) {
                amp_tensor *result = op(name, {a});
                if (std::isnan(bad))
                    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "NaN"}));
                else
                    EXPECT_TRUE(result && std::isnan(numbers_of(result)[0])) << name;
            }
            for (const char *name : {"linalg_eig", "linalg_eigvals", "eig"}) {
                EXPECT_FALSE(op(name, {a}));
                EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "'input' holds NaN or infinity"}));
            }
            for (const char *driver : {"gels", "gelsy", "gelsd", "gelss"}) {
                EXPECT_FALSE(op("linalg_lstsq", {a, b}, {{"driver", driver}}));
                EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_lstsq", "NaN or infinity"}));
            }
            EXPECT_TRUE(std::isnan(numbers_of(op("linalg_eigh", {a}))[0]));
            EXPECT_TRUE(std::isnan(numbers_of(op("linalg_eigvalsh", {a}))[0]));
            EXPECT_TRUE(op("linalg_qr", {a}) && op("geqrf", {a}) && op("linalg_cholesky_ex", {a}));
            EXPECT_TRUE(op("lu_with_info", {a, true, false}) && op("linalg_inv_ex", {a}));
            EXPECT_TRUE(std::isnan(bad) == std::isnan(numbers_of(op("linalg_inv_ex", {a}))[0]) || n > 2);
            (void)op("linalg_matrix_rank", {a});
            (void)op("linalg_cond", {a, 1});
            amp_clear_error();
        }
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

// A system that gives so many blocks and no more.
std::atomic<long> blocks_left;

TEST_F(Linalg, EveryAllocationMayFail) {
    const std::vector<std::string> unary{"linalg_cholesky",
                                         "linalg_inv",
                                         "linalg_eig",
                                         "linalg_eigh",
                                         "linalg_qr",
                                         "svd",
                                         "pinverse",
                                         "geqrf",
                                         "eig",
                                         "lu_with_info",
                                         "linalg_cond",
                                         "linalg_matrix_rank",
                                         "nuclear_norm",
                                         "linalg_matrix_norm.str"};
    amp_allocator allocator = {};
    allocator.allocate = [](void *, size_t bytes, size_t alignment) -> void * {
        void *block = nullptr;
        return blocks_left-- <= 0 || posix_memalign(&block, alignment, bytes) != 0 ? nullptr : block;
    };
    allocator.release = [](void *, void *block, size_t) { std::free(block); };
    amp_tensor *a = tensor_of(AMP_C64, Random(seed).positive(AMP_C64, 40)), *b = random_tensor(AMP_C64, {40, 3}, seed);
    const auto try_one = [&](const std::string &name, const std::vector<Value> &values) {
        bool failed = true;
        for (long given = 0; failed && given < 200; given++) {
            amp_memory_trim();
            Scope scope;
            blocks_left = given;
            ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
            failed = !op(name, values);
            ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
            if (failed) {
                EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"no memory"})) << name << " with " << given;
            }
        }
        EXPECT_FALSE(failed) << name;
    };
    for (const std::string &name : unary) try_one(name, {a});
    for (const char *name : {"linalg_solve", "linalg_lstsq"}) try_one(name, {a, b});
    for (const char *name : {"cholesky_solve", "triangular_solve", "lstsq"}) try_one(name, {b, a});
}

// Memory whose last bytes lie before a page that cannot be read.
void *guarded(void *, size_t bytes, size_t alignment) {
    const size_t page = 4096, used = (bytes + alignment - 1) / alignment * alignment;
    const size_t pages = (used + page - 1) / page * page;
    void *memory = mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    (void)mprotect((char *)memory + pages, page, PROT_NONE);
    return (char *)memory + pages - used;
}
void release_guarded(void *, void *block, size_t bytes) {
    const size_t page = 4096;
    const auto first = (uintptr_t)block / page * page, end = ((uintptr_t)block + bytes + page - 1) / page * page;
    (void)munmap((void *)first, end - first + page);
}

// OpenBLAS reads beyond matrices of complex numbers.
TEST_F(Linalg, MatricesMayEndWhereMemoryEnds) {
    const char *names[] = {"linalg_qr",  "linalg_svd", "linalg_eig", "linalg_eigh",     "linalg_inv",
                           "linalg_det", "linalg_lu",  "geqrf",      "linalg_cholesky", "pinverse"};
    amp_allocator allocator = {};
    allocator.allocate = guarded;
    allocator.release = release_guarded;
    amp_memory_trim();
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    for (const amp_dtype dtype : dtypes) {
        for (int64_t n = 5; n < 20; n++) { // 6 x 6 in c128 is one that fills its block
            Scope scope;
            amp_tensor *a = tensor_of(dtype, Random(seed).positive(dtype, (int)n)),
                       *b = random_tensor(dtype, {n, 3}, seed);
            for (const char *name : names) {
                EXPECT_TRUE(op(name, {a})) << name << " " << n << ": " << amp_last_error();
            }
            EXPECT_TRUE(op("linalg_solve", {a, b}) && op("linalg_lstsq", {a, b})) << n << ": " << amp_last_error();
        }
    }
    EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
    amp_memory_trim();
}

TEST_F(Linalg, PivotsOutOfRangeAreRefused) {
    amp_tensor *lu = tensor_of(AMP_F32, identity(2)), *b = tensor(AMP_F32, {2, 1});
    for (double pivot : {0.0, 3.0, -1.0}) {
        EXPECT_FALSE(op("lu_solve", {b, lu, tensor(AMP_I32, {2}, {1, pivot})}));
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"lu_solve: pivot 1 of 'LU_pivots'", "expected 1 to 2"}));
    }
    EXPECT_FALSE(op("lu_solve", {b, lu, tensor(AMP_I64, {2}, {1, 2})}));
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"lu_solve: 'LU_pivots' is [2] i64", "expected i32"}));
}

TEST_F(Linalg, BadArgumentsAreNamed) {
    amp_tensor *square = tensor_of(AMP_F32, identity(3)), *flat = tensor(AMP_F32, {2, 3}), *line = tensor(AMP_F32, {3});
    struct Case {
        const char *op;
        std::vector<Value> values;
        amp_status status;
        std::vector<std::string> words;
    };
    const Case cases[] = {
        {"linalg_inv", {flat}, AMP_ERROR_INVALID, {"linalg_inv: 'A' is [2, 3] f32; expected square"}},
        {"linalg_inv", {line}, AMP_ERROR_INVALID, {"'A' is [3] f32; expected a matrix"}},
        {"linalg_eigh", {square, "X"}, AMP_ERROR_INVALID, {"'UPLO' is \"X\""}},
        {"linalg_qr", {flat, "full"}, AMP_ERROR_INVALID, {"'mode' is \"full\""}},
        {"linalg_cholesky", {tensor(AMP_BF16, {2, 2})}, AMP_ERROR_DTYPE, {"'input' is [2, 2] bf16; expected f32"}},
        {"linalg_svd", {tensor(AMP_I64, {2, 2})}, AMP_ERROR_DTYPE, {"'A' is [2, 2] i64"}},
        {"linalg_solve", {square, tensor(AMP_F64, {3})}, AMP_ERROR_DTYPE, {"linalg_solve"}},
        {"linalg_solve", {square, flat}, AMP_ERROR_INVALID, {"'B' is [2, 3] f32", "as many rows"}},
        {"linalg_solve", {tensor(AMP_F32, {2, 3, 3}), tensor(AMP_F32, {4, 3, 1})}, AMP_ERROR_INVALID, {"broadcast"}},
        {"cholesky_solve", {flat, square}, AMP_ERROR_INVALID, {"'B' is [2, 3] f32, 'L' is [3, 3]"}},
        {"linalg_householder_product", {flat, line}, AMP_ERROR_INVALID, {"'tau' is [3] f32"}},
        {"linalg_householder_product", {flat, tensor(AMP_F32, {2})}, AMP_ERROR_INVALID, {"as many rows as columns"}},
        {"ormqr", {square, line, flat}, AMP_ERROR_INVALID, {"'other' is [2, 3] f32", "as many rows"}},
        {"linalg_tensorinv", {square, 5}, AMP_ERROR_INVALID, {"'ind' is 5"}},
        {"linalg_tensorinv", {flat, 1}, AMP_ERROR_INVALID, {"2 elements, the others 3"}},
        {"linalg_tensorsolve", {flat, line}, AMP_ERROR_INVALID, {"'A' is [2, 3] f32, 'B' is [3]"}},
        {"linalg_cond", {square, 3}, AMP_ERROR_INVALID, {"'p' is 3"}},
        {"linalg_cond", {square, "max"}, AMP_ERROR_INVALID, {"'p' is \"max\""}},
        {"linalg_cond", {flat, 1}, AMP_ERROR_INVALID, {"expected square"}},
        {"triangular_solve", {square, flat}, AMP_ERROR_INVALID, {"'A' is [2, 3] f32; expected square"}},
    };
    for (const Case &c : cases) {
        EXPECT_FALSE(op(c.op, c.values)) << c.op;
        EXPECT_TRUE(failed_with(c.status, c.words)) << c.op;
    }
    EXPECT_FALSE(op("linalg_svd", {square}, {{"driver", "gesvd"}}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'driver' is \"gesvd\""}));
    EXPECT_FALSE(op("linalg_lstsq", {square, square}, {{"driver", "qr"}}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'driver' is \"qr\"", "gelsd"}));
    EXPECT_FALSE(op("linalg_solve", {square, line}, {{"left", false}}));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'B' is [3] f32, a vector"}));
}
