// Complex arithmetic: what the recorded cases, which hardly have any, cannot know.
#include <complex>

#include "amp_test.h"

using namespace amp_test;

namespace {

using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

class ComplexNumbers : public Test {};

amp_tensor *complex_tensor(amp_dtype dtype, const Shape &shape, const Numbers &numbers) {
    std::vector<double> parts;
    Shape pairs = shape;
    pairs.push_back(2);
    for (const Complex &z : numbers) parts.insert(parts.end(), {z.real(), z.imag()});
    return op("view_as_complex", {tensor(dtype == AMP_C64 ? AMP_F32 : AMP_F64, pairs, parts)});
}

Complex at(const amp_tensor *t, int64_t i) {
    if (amp_tensor_dtype(t) == AMP_C64) return static_cast<const std::complex<float> *>(amp_data(t))[i];
    if (amp_tensor_dtype(t) == AMP_C128) return static_cast<const Complex *>(amp_data(t))[i];
    return number_at(amp_tensor_dtype(t), amp_data(t), i);
}

void expect_close(const amp_tensor *got, const Numbers &want, double relative) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    ASSERT_EQ(size_t(amp_tensor_numel(got)), want.size());
    for (size_t i = 0; i < want.size(); i++) {
        EXPECT_LE(std::abs(at(got, int64_t(i)) - want[i]), relative * std::abs(want[i])) << i << ": " << want[i];
    }
}

const Numbers some = {{1, 2}, {-3, 0.5}, {0.25, -4}, {-0.75, -0.125}, {1e-9, 2e-9}, {3, 0}};

TEST_F(ComplexNumbers, FunctionsMatchTheLibrarys) {
    const std::vector<std::pair<const char *, Complex (*)(Complex)>> functions = {
        {"log2", [](Complex z) { return std::log(z) / std::log(2.0); }},
        {"log10", [](Complex z) { return std::log10(z); }},
        {"softsign", [](Complex z) { return z / (1 + std::abs(z)); }},
        {"square", [](Complex z) { return z * z; }},
        {"sinc", [](Complex z) { return std::sin(M_PI * z) / (M_PI * z); }}};
    for (const auto &[name, function] : functions) {
        SCOPED_TRACE(name);
        Numbers want;
        for (const Complex &z : some) want.push_back(function(z));
        expect_close(op(name, {complex_tensor(AMP_C128, {6}, some)}), want, 4e-15);
        want.clear();
        for (const Complex &z : some) want.push_back(function(std::complex<float>(z)));
        expect_close(op(name, {complex_tensor(AMP_C64, {6}, some)}), want, 1e-7);
    }
    EXPECT_EQ(at(op("sinc", {complex_tensor(AMP_C128, {1}, {{0, 0}})}), 0), Complex(1, 0));
}

// e^z − 1 and ln(1 + z) keep the digits of a small z: their series' first terms.
TEST_F(ComplexNumbers, SmallNumbersKeepTheirDigits) {
    const Numbers small = {{1e-9, 2e-9}, {-3e-9, 1e-9}, {1e-12, -1e-10}};
    Numbers exponential, logarithm;
    for (const Complex &z : small) {
        exponential.push_back(z + z * z / 2.0);
        logarithm.push_back(z - z * z / 2.0);
    }
    expect_close(op("expm1", {complex_tensor(AMP_C128, {3}, small)}), exponential, 1e-15);
    expect_close(op("log1p", {complex_tensor(AMP_C128, {3}, small)}), logarithm, 1e-15);
    const Numbers large = {{3, 4}, {-7, 1}, {1e200, 1e200}};
    Numbers logs;
    for (const Complex &z : large) logs.push_back(std::log(1.0 + z));
    expect_close(op("log1p", {complex_tensor(AMP_C128, {3}, large)}), logs, 1e-15);
}

TEST_F(ComplexNumbers, NanToNumReplacesParts) {
    amp_tensor *x = complex_tensor(AMP_C64, {2}, {{NAN, INFINITY}, {-INFINITY, 2}});
    amp_tensor *y = op("nan_to_num", {x}, {{"nan", 7.0}, {"posinf", 8.0}});
    EXPECT_EQ(at(y, 0), Complex(7, 8));
    EXPECT_EQ(at(y, 1), Complex(-3.4028234663852886e38, 2));
}

// By the formula: infinities are not recovered.
TEST_F(ComplexNumbers, ProductIsThePlainFormula) {
    amp_tensor *x = complex_tensor(AMP_C128, {1}, {{INFINITY, 1}}), *y = op("mul", {x, x});
    EXPECT_EQ(at(y, 0).real(), INFINITY);
    x = op("mul", {x, complex_tensor(AMP_C128, {1}, {{0, 1}})});
    EXPECT_TRUE(std::isnan(at(x, 0).real()));
}

TEST_F(ComplexNumbers, ProductsTakeComplexFactors) {
    const Numbers a = {{1, 2}, {3, -1}}, b = {{0, 1}, {2, 2}}, r = {{5, -5}};
    const Complex alpha(0.5, -1), beta(0, 2);
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        amp_tensor *y =
            op("addmm",
               {complex_tensor(dtype, {1, 1}, r), complex_tensor(dtype, {1, 2}, a), complex_tensor(dtype, {2, 1}, b)},
               {{"alpha", amp_complex(0.5, -1)}, {"beta", amp_complex(0, 2)}});
        expect_close(y, {alpha * (a[0] * b[0] + a[1] * b[1]) + beta * r[0]}, 1e-7);
    }
    amp_tensor *m = tensor(AMP_F32, {2, 2});
    EXPECT_EQ(op("addmm", {m, m, m}, {{"alpha", amp_complex(1, 1)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"addmm", "'alpha'", "complex", "f32"}));
}

TEST_F(ComplexNumbers, LogsumexpFollowsTheRealParts) {
    const Numbers z = {{1000, 1}, {1000, -2}, {999, 0.5}, {-1000, 3}};
    Complex sum;
    for (const Complex &x : z) sum += std::exp(x - 1000.0);
    expect_close(op("logsumexp", {complex_tensor(AMP_C128, {4}, z), 0}), {1000.0 + std::log(sum)}, 1e-15);
    Numbers many; // more than one piece of a row
    sum = 0;
    for (int i = 0; i < 20000; i++) {
        many.emplace_back(std::sin(i), i % 7);
        sum += std::exp(many.back());
    }
    expect_close(op("logsumexp", {complex_tensor(AMP_C128, {20000}, many), 0}), {std::log(sum)}, 1e-13);
}

TEST_F(ComplexNumbers, LengthsAreReal) {
    amp_tensor *x = complex_tensor(AMP_C64, {1, 2}, {{3, 4}, {0, 12}}), *y = op("normalize", {x});
    expect_close(y, {Complex(3, 4) / 13.0, Complex(0, 12) / 13.0}, 1e-7);
    amp_tensor *loss = op("l1_loss", {x, complex_tensor(AMP_C64, {1, 2}, {{0, 0}, {5, 0}})});
    EXPECT_EQ(amp_tensor_dtype(loss), AMP_F32);
    EXPECT_EQ(at(loss, 0), 9.0);
    EXPECT_EQ(at(op("l1_loss", {x, x}, {{"reduction", "none"}}), 1), 0.0);
}

} // namespace
