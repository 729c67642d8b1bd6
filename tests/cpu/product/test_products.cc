// Products of f64 and complex matrices against plain ones: layouts, what is added, batches, thread counts.
#include "linalg_test.h"

using namespace amp_test;
using namespace linalg_test;

namespace {

class Products : public Test {};

constexpr amp_dtype wide[] = {AMP_F64, AMP_C64, AMP_C128};
constexpr int64_t sizes[][3] = {{1, 300, 7}, {130, 70, 33}, {257, 9, 40}, {3, 3, 3}, {200, 1, 9}, {5, 400, 1}};

Matrix scaled(Matrix a, Number factor) {
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) a(i, j) *= factor;
    }
    return a;
}

// The same numbers with rows, and elements, further apart.
std::vector<amp_tensor *> layouts(amp_dtype dtype, const Matrix &a) {
    amp_tensor *t = tensor_of(dtype, a), *twice = op("cat", {std::vector<amp_tensor *>{t, t}, 1});
    return {t, column_major(t), op("narrow", {twice, 1, a.columns, a.columns}), spread(t)};
}

TEST_F(Products, OfEveryLayout) {
    Random random(20261121);
    for (amp_dtype dtype : wide) {
        for (const auto &[m, k, n] : sizes) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " m " + std::to_string(m) + " k " + std::to_string(k));
            const Matrix a = random.matrix(dtype, m, k), b = random.matrix(dtype, k, n), product = a * b;
            for (amp_tensor *x : layouts(dtype, a)) {
                for (amp_tensor *y : layouts(dtype, b))
                    EXPECT_TRUE(near(dtype, matrix_of(op("mm", {x, y})), product, 16 + 4 * k));
            }
        }
    }
}

TEST_F(Products, WithAddends) {
    Random random(7);
    for (amp_dtype dtype : wide) {
        for (const auto &[m, k, n] : sizes) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " m " + std::to_string(m) + " k " + std::to_string(k));
            const Matrix a = random.matrix(dtype, m, k), b = random.matrix(dtype, k, n);
            const Matrix c = random.matrix(dtype, m, n), row = random.matrix(dtype, 1, n);
            const bool imaginary = dtype != AMP_F64;
            const Number alpha = {2, imaginary ? -1.0 : 0}, beta = {-0.5, imaginary ? 3.0 : 0};
            const auto number = [&](Number x) {
                return imaginary ? amp_complex(x.real(), x.imag()) : amp_float(x.real());
            };
            const Matrix product = scaled(a * b, -alpha);
            amp_tensor *x = tensor_of(dtype, a), *y = tensor_of(dtype, b), *z = tensor_of(dtype, c);
            const std::vector<Named> both{{"alpha", number(alpha)}, {"beta", number(beta)}};
            EXPECT_TRUE(near(dtype, matrix_of(op("addmm", {z, x, y}, both)), scaled(c, beta) - product, 64 + 8 * k));
            Matrix rows(m, n);
            for (int64_t i = 0; i < m; i++) {
                for (int64_t j = 0; j < n; j++) rows(i, j) = row(0, j) * beta;
            }
            EXPECT_TRUE(
                near(dtype, matrix_of(op("addmm", {tensor_of(dtype, row), x, y}, both)), rows - product, 64 + 8 * k));
            EXPECT_TRUE(near(dtype, matrix_of(op("addmm_", {z, x, y}, both)), scaled(c, beta) - product, 64 + 8 * k));
        }
    }
}

TEST_F(Products, OfBatchesDoNotDependOnTheNumberOfThreads) {
    const int threads = amp_get_num_threads();
    amp_tensor *a = random_tensor(AMP_F64, {3, 300, 90}, 1), *b = random_tensor(AMP_F64, {1, 90, 110}, 2);
    std::vector<std::vector<double>> results;
    for (int count : {1, 2, 5}) {
        ASSERT_EQ(amp_set_num_threads(count), AMP_OK);
        results.push_back(numbers_of(op("matmul", {a, b})));
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
    EXPECT_TRUE(results[0] == results[1]);
    EXPECT_TRUE(results[0] == results[2]);
}

} // namespace
