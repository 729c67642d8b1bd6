// Matrices of complex doubles: what the tests of linear algebra compute themselves, plainly.
#ifndef AMP_TESTS_LINALG_TEST_H
#define AMP_TESTS_LINALG_TEST_H

#include <complex>
#include <random>

#include "amp_test.h"

namespace linalg_test {

using amp_test::Shape;
using Number = std::complex<double>;

constexpr amp_dtype dtypes[] = {AMP_F32, AMP_F64, AMP_C64, AMP_C128};

inline bool is_complex(amp_dtype dtype) {
    return dtype == AMP_C64 || dtype == AMP_C128;
}
inline bool is_double(amp_dtype dtype) {
    return dtype == AMP_F64 || dtype == AMP_C128;
}
inline double epsilon_of(amp_dtype dtype) {
    return is_double(dtype) ? 0x1p-52 : 0x1p-23;
}

struct Matrix {
    Matrix(int64_t m, int64_t n) : rows(m), columns(n), at_(size_t(m * n)) {}
    Number &operator()(int64_t i, int64_t j) {
        return at_[size_t(i * columns + j)];
    }
    Number operator()(int64_t i, int64_t j) const {
        return at_[size_t(i * columns + j)];
    }
    int64_t rows, columns;

  private:
    std::vector<Number> at_;
};

inline Matrix operator*(const Matrix &a, const Matrix &b) {
    Matrix c(a.rows, b.columns);
    EXPECT_EQ(a.columns, b.rows);
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t k = 0; k < a.columns; k++) {
            for (int64_t j = 0; j < b.columns; j++) c(i, j) += a(i, k) * b(k, j);
        }
    }
    return c;
}
inline Matrix operator-(Matrix a, const Matrix &b) {
    EXPECT_EQ(a.rows, b.rows);
    EXPECT_EQ(a.columns, b.columns);
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) a(i, j) -= b(i, j);
    }
    return a;
}
// The conjugate transpose.
inline Matrix adjoint(const Matrix &a) {
    Matrix t(a.columns, a.rows);
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) t(j, i) = std::conj(a(i, j));
    }
    return t;
}
inline Matrix transpose(const Matrix &a) {
    Matrix t(a.columns, a.rows);
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) t(j, i) = a(i, j);
    }
    return t;
}
inline Matrix identity(int64_t n) {
    Matrix a(n, n);
    for (int64_t i = 0; i < n; i++) a(i, i) = 1;
    return a;
}
inline Matrix diagonal(const Matrix &values) { // a column
    Matrix a(values.rows, values.rows);
    for (int64_t i = 0; i < values.rows; i++) a(i, i) = values(i, 0);
    return a;
}
// Elements for which keep(i, j) is false become zero.
template <class Keep>
Matrix part(Matrix a, Keep keep) {
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) {
            if (!keep(i, j)) a(i, j) = 0;
        }
    }
    return a;
}
inline Matrix upper(const Matrix &a) {
    return part(a, [](int64_t i, int64_t j) { return i <= j; });
}
inline Matrix lower(const Matrix &a) {
    return part(a, [](int64_t i, int64_t j) { return i >= j; });
}

// The root of the sum of squares; NaN where there is one.
inline double size_of(const Matrix &a) {
    double sum = 0;
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) sum += std::norm(a(i, j));
    }
    return std::sqrt(sum);
}

// ---- Tensors ----------------------------------------------------------------------------------------------------

inline Number element(const amp_tensor *t, int64_t index) {
    const amp_dtype dtype = amp_tensor_dtype(t);
    const double re = amp_test::number_at(dtype, amp_data(t), index);
    if (dtype == AMP_C64) return {re, double(static_cast<const float *>(amp_data(t))[2 * index + 1])};
    if (dtype == AMP_C128) return {re, static_cast<const double *>(amp_data(t))[2 * index + 1]};
    return re;
}

// Matrix number `index` of a batch, read through the strides.
inline Matrix matrix_of(const amp_tensor *t, int64_t index = 0) {
    if (!t) {
        ADD_FAILURE() << amp_last_error();
        return {0, 0};
    }
    const int rank = amp_tensor_rank(t);
    const int64_t *shape = amp_tensor_shape(t), *strides = amp_tensor_strides(t);
    Matrix a(shape[rank - 2], shape[rank - 1]);
    int64_t offset = 0;
    for (int d = rank - 3; d >= 0; d--) {
        offset += index % shape[d] * strides[d];
        index /= shape[d];
    }
    for (int64_t i = 0; i < a.rows; i++) {
        for (int64_t j = 0; j < a.columns; j++) {
            a(i, j) = element(t, offset + i * strides[rank - 2] + j * strides[rank - 1]);
        }
    }
    return a;
}
// The last dimension as a column.
inline Matrix column_of(amp_tensor *t, int64_t index = 0) {
    return matrix_of(amp_test::op("unsqueeze", {t, -1}), index);
}

inline void append_complex(std::vector<char> *bytes, amp_dtype dtype, Number x) {
    switch (dtype) {
    case AMP_C64: amp_test::append(bytes, float(x.real())), amp_test::append(bytes, float(x.imag())); break;
    case AMP_C128: amp_test::append(bytes, x.real()), amp_test::append(bytes, x.imag()); break;
    default: amp_test::append_number(bytes, dtype, x.real());
    }
}

inline amp_tensor *tensor_of(amp_dtype dtype, const std::vector<Matrix> &batch) {
    std::vector<char> bytes;
    for (const Matrix &a : batch) {
        for (int64_t i = 0; i < a.rows; i++) {
            for (int64_t j = 0; j < a.columns; j++) append_complex(&bytes, dtype, a(i, j));
        }
    }
    Shape shape{batch[0].rows, batch[0].columns};
    if (batch.size() > 1) shape.insert(shape.begin(), int64_t(batch.size()));
    return amp_from_data(bytes.data(), dtype, int(shape.size()), shape.data());
}
inline amp_tensor *tensor_of(amp_dtype dtype, const Matrix &a) {
    return tensor_of(dtype, std::vector<Matrix>{a});
}
inline amp_tensor *vector_of(amp_dtype dtype, const std::vector<double> &values) {
    return amp_test::tensor(dtype, {int64_t(values.size())}, values);
}

// The same numbers, column-major.
inline amp_tensor *column_major(amp_tensor *t) {
    return amp_test::op("transpose", {amp_test::op("clone", {amp_test::op("transpose", {t, -2, -1})}), -2, -1});
}
// The same numbers, every second of a larger tensor's.
inline amp_tensor *spread(amp_tensor *t) {
    amp_tensor *wide = amp_test::op("stack", {std::vector<amp_tensor *>{t, t}}, {{"dim", -1}});
    return amp_test::op("select", {wide, -1, 0});
}

// Random matrices, numbers between -1 and 1, the imaginary parts too where the dtype has them, rounded to it.
class Random {
  public:
    explicit Random(unsigned seed) : engine_(seed) {}
    int64_t size(int64_t from, int64_t to) {
        return std::uniform_int_distribution<int64_t>(from, to)(engine_);
    }
    Matrix matrix(amp_dtype dtype, int64_t m, int64_t n) {
        Matrix a(m, n);
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                const double re = number(dtype), im = is_complex(dtype) ? number(dtype) : 0;
                a(i, j) = {re, im};
            }
        }
        return a;
    }
    // Hermitian, and its eigenvalues are between 1 and about n.
    Matrix positive(amp_dtype dtype, int64_t n) {
        const Matrix b = matrix(dtype, n, n);
        Matrix a = b * adjoint(b);
        for (int64_t i = 0; i < n; i++) a(i, i) += 1;
        return rounded(dtype, a);
    }
    // Far from singular.
    Matrix regular(amp_dtype dtype, int64_t n) {
        Matrix a = matrix(dtype, n, n);
        for (int64_t i = 0; i < n; i++) a(i, i) += double(n);
        return rounded(dtype, a);
    }
    static Matrix rounded(amp_dtype dtype, Matrix a) {
        for (int64_t i = 0; !is_double(dtype) && i < a.rows; i++) {
            for (int64_t j = 0; j < a.columns; j++) {
                const Number x = a(i, j);
                a(i, j) = {double(float(x.real())), double(float(x.imag()))};
            }
        }
        return a;
    }

  private:
    double number(amp_dtype dtype) {
        const double x = std::uniform_real_distribution<double>(-1, 1)(engine_);
        return is_double(dtype) ? x : double(float(x));
    }
    std::mt19937 engine_;
};

// |a - b| is at most `times` epsilons of the dtype, measured by the larger of b and 1.
inline ::testing::AssertionResult near(amp_dtype dtype, const Matrix &a, const Matrix &b, double times) {
    const double error = size_of(a - b), most = times * epsilon_of(dtype) * std::max(size_of(b), 1.0);
    if (error <= most) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << amp_dtype_name(dtype) << " " << b.rows << " x " << b.columns
                                         << ": the difference is " << error << ", allowed is " << most;
}

} // namespace linalg_test

#endif // AMP_TESTS_LINALG_TEST_H
