// The formulas of cpu/registry/formula.h on every instruction set: within half an ulp and a little of the C library's double
// result over all exponents, the same bits as the reference, special values as in C99, tails, in place.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernel_rows.h"

using namespace kernel_rows;

namespace {

// Newton on erf and erfc in long double: an answer of its own.
double erfinv(double y) {
    if (std::fabs(y) >= 1) return std::fabs(y) == 1 ? std::copysign(INFINITY, y) : NAN;
    const long double a = std::fabs(y), w = -std::log1p(-a * a), b = 2 / (M_PIl * 0.147L) - w / 2;
    long double x = std::sqrt(std::sqrt(b * b + w / 0.147L) - b);
    for (int i = 0; i < 50; i++) {
        const long double error = a < 0.5L ? std::erf(x) - a : (1 - a) - std::erfc(x);
        x -= error / (2 / std::sqrt(M_PIl) * std::exp(-x * x));
    }
    return static_cast<double>(std::copysign(x, static_cast<long double>(y)));
}

struct Case {
    amp_kernel_family family;
    double (*reference)(double x);
};

const Case cases[] = {
    {AMP_KERNEL_SINC, [](double x) { return x == 0 ? 1 : std::sin(M_PI * x) / (M_PI * x); }},
    {AMP_KERNEL_ERFINV, [](double x) { return erfinv(x); }},
};

struct Case2 {
    amp_kernel_family family;
    double (*reference)(double x, double y);
};

double modulo(double x, double y) {
    const double rest = std::fmod(x, y);
    return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}

const Case2 cases2[] = {
    {AMP_KERNEL_DIV_TRUNC, [](double x, double y) { return std::trunc(x / y); }},
    {AMP_KERNEL_DIV_FLOOR,
     [](double x, double y) {
         if (y == 0) return x / y;
         const double rest = std::fmod(x, y), q = (x - rest) / y;
         return std::nearbyint(rest != 0 && (y < 0) != (rest < 0) ? q - 1 : q);
     }},
    {AMP_KERNEL_POW, [](double x, double y) { return std::pow(x, y); }},
    {AMP_KERNEL_FMOD, [](double x, double y) { return std::fmod(x, y); }},
    {AMP_KERNEL_REMAINDER, [](double x, double y) { return modulo(x, y); }},
    {AMP_KERNEL_ATAN2, [](double x, double y) { return std::atan2(x, y); }},
    {AMP_KERNEL_LOGADDEXP,
     [](double x, double y) {
         if (x == y) return x + M_LN2;
         return std::isnan(x) || std::isnan(y) ? NAN
                                               : std::max(x, y) + std::log1p(std::exp(std::min(x, y) - std::max(x, y)));
     }},
};

template <class Cases>
auto case_of(const Cases &all, amp_kernel_family family) -> decltype(&all[0]) {
    for (const auto &c : all) {
        if (c.family == family) return &c;
    }
    return nullptr;
}

float from_bits(uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// In units of the last place of want as an f32.
double ulps(float got, double want) {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : INFINITY;
    const float rounded = static_cast<float>(want);
    if (std::isinf(rounded) || std::isinf(got)) return got == rounded ? 0 : INFINITY;
    int exponent;
    std::frexp(std::max(std::fabs(want), static_cast<double>(FLT_MIN)), &exponent);
    return std::fabs(got - want) / std::ldexp(1.0, exponent - 24);
}

const double budget = 0.5001;

const amp_kernel *reference_of(const amp_kernel *kernel) {
    const std::string name = kernel->name;
    return amp_kernel_find((name.substr(0, name.rfind('_')) + "_ref").c_str());
}

bool same_bits(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || !std::memcmp(&a, &b, sizeof a);
}

template <class Cases>
std::vector<int> rows_of(const Cases &all) {
    return rows_where([&](const amp_kernel &row) { return case_of(all, row.family) != nullptr; });
}

class Formula : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Formula, ::testing::ValuesIn(rows_of(cases)), row_name);

class Formula2 : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Formula2, ::testing::ValuesIn(rows_of(cases2)), row_name);

// Every 12007th f32, and every bf16: all exponents and signs, infinities, NaNs, subnormals.
std::vector<float> sweep() {
    std::vector<float> in;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 12007)
        in.push_back(from_bits(static_cast<uint32_t>(bits)));
    for (uint32_t bits = 0; bits < 65536; bits++) in.push_back(from_bits(bits << 16));
    return in;
}

TEST_P(Formula, IsTheRoundedValueOverAllExponents) {
    const Case &c = *case_of(cases, kernel->family);
    const std::vector<float> in = sweep();
    std::vector<float> out(in.size());
    reinterpret_cast<amp_unary_function *>(kernel->function)(out.data(), in.data(), static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < in.size(); i++) {
        const double want = c.reference(in[i]);
        ASSERT_LE(ulps(out[i], want), budget) << in[i] << ": " << out[i] << ", " << want;
        ASSERT_TRUE(want != 0 || std::signbit(out[i]) == std::signbit(want)) << in[i];
    }
}

TEST_P(Formula, GivesTheReferencesBits) {
    const amp_kernel *reference = reference_of(kernel);
    ASSERT_NE(reference, nullptr);
    const std::vector<float> in = sweep();
    std::vector<float> got(in.size()), want(in.size());
    const auto n = static_cast<int64_t>(in.size());
    reinterpret_cast<amp_unary_function *>(kernel->function)(got.data(), in.data(), n);
    reinterpret_cast<amp_unary_function *>(reference->function)(want.data(), in.data(), n);
    for (size_t i = 0; i < in.size(); i++) ASSERT_TRUE(same_bits(got[i], want[i])) << in[i];
}

TEST_P(Formula, WorksInPlaceAndTouchesNothingElse) {
    auto function = reinterpret_cast<amp_unary_function *>(kernel->function);
    for (int64_t n : {0, 1, 7, 8, 15, 16, 17, 255, 256, 257, 513}) {
        std::vector<float> apart(static_cast<size_t>(n) + 1, 99.0f), in(static_cast<size_t>(n) + 1);
        for (size_t i = 0; i < in.size(); i++) in[i] = 0.001f * static_cast<float>(i) - 0.1f;
        function(apart.data(), in.data(), n);
        const float beyond = in.back();
        function(in.data(), in.data(), n);
        for (size_t i = 0; i < static_cast<size_t>(n); i++) ASSERT_TRUE(same_bits(in[i], apart[i])) << n << ", " << i;
        EXPECT_EQ(apart.back(), 99.0f);
        EXPECT_EQ(in.back(), beyond);
    }
}

// All pairs of special values, and random ones: of random exponents, and beside small integers.
std::vector<std::pair<float, float>> pairs() {
    const float special[] = {0.0f,    -0.0f,   1.0f,     -1.0f,     0.5f,    -0.5f,       2.0f,
                             -2.0f,   3.0f,    -3.0f,    1e-45f,    -1e-45f, 1e30f,       -1e30f,
                             FLT_MAX, FLT_MIN, INFINITY, -INFINITY, NAN,     16777215.0f, 7.25f};
    std::vector<std::pair<float, float>> all;
    for (float x : special) {
        for (float y : special) all.emplace_back(x, y);
    }
    std::mt19937 random(5);
    for (int i = 0; i < 200000; i++) {
        const bool near = i % 2;
        const auto value = [&] {
            const uint32_t exponent = near ? 118 + random() % 20 : random() % 256;
            return from_bits((random() & 0x807fffff) | exponent << 23);
        };
        const float x = value();
        all.emplace_back(x, value());
        if (near) all.emplace_back(x, static_cast<float>(random() % 41) - 20);
    }
    return all;
}

TEST_P(Formula2, IsTheRoundedValueAndTheReferencesBits) {
    const Case2 &c = *case_of(cases2, kernel->family);
    const amp_kernel *reference = reference_of(kernel);
    ASSERT_NE(reference, nullptr);
    std::vector<float> a, b;
    for (const auto &[x, y] : pairs()) {
        a.push_back(x);
        b.push_back(y);
    }
    std::vector<float> got(a.size()), want(a.size());
    const auto n = static_cast<int64_t>(a.size());
    reinterpret_cast<amp_binary_function *>(kernel->function)(got.data(), a.data(), b.data(), n, 2.0f);
    reinterpret_cast<amp_binary_function *>(reference->function)(want.data(), a.data(), b.data(), n, 3.0f);
    for (size_t i = 0; i < a.size(); i++) {
        ASSERT_TRUE(same_bits(got[i], want[i])) << a[i] << ", " << b[i];
        const double exact = c.reference(a[i], b[i]);
        ASSERT_LE(ulps(got[i], exact), budget) << a[i] << ", " << b[i] << ": " << got[i] << ", " << exact;
        if (kernel->family == AMP_KERNEL_POW && !std::isnan(exact)) {
            ASSERT_EQ(std::signbit(got[i]), std::signbit(exact)) << a[i] << ", " << b[i]; // of zeros too
        }
    }
}

// Every length about a vector's and a block's, either operand a number, over either operand.
TEST_P(Formula2, IsTheSameAtEveryLength) {
    auto function = reinterpret_cast<amp_binary_function *>(kernel->function);
    const int most = 530;
    std::vector<float> a(most), b(most), pairwise(most), by_number(most), of_number(most);
    for (int i = 0; i < most; i++) {
        a[i] = 0.37f * static_cast<float>(i % 29) - 3.1f;
        b[i] = static_cast<float>(i % 13) - 6.5f + 0.5f * static_cast<float>(i % 2);
        function(&pairwise[i], &a[i], &b[i], 1, 3.0f);
        function(&by_number[i], &a[i], nullptr, 1, 3.0f);
        function(&of_number[i], nullptr, &b[i], 1, 3.0f);
    }
    for (int n = 0; n < most; n = n < 70 || (n > 235 && n < 275) ? n + 1 : n + 37) {
        const auto run = [&](std::vector<float> target, const float *x, const float *y,
                             const std::vector<float> &want) {
            function(target.data(), x, y, n, 3.0f);
            for (int i = 0; i < n; i++) ASSERT_TRUE(same_bits(target[i], want[i])) << n << ", " << i;
            ASSERT_EQ(target[n], 99.0f) << n;
        };
        run(std::vector<float>(most + 1, 99.0f), a.data(), b.data(), pairwise);
        run(std::vector<float>(most + 1, 99.0f), a.data(), nullptr, by_number);
        run(std::vector<float>(most + 1, 99.0f), nullptr, b.data(), of_number);
        std::vector<float> left = a, right = b;
        function(left.data(), left.data(), b.data(), n, 3.0f);
        function(right.data(), a.data(), right.data(), n, 3.0f);
        for (int i = 0; i < most; i++) {
            ASSERT_TRUE(same_bits(left[i], i < n ? pairwise[i] : a[i])) << n << ", " << i;
            ASSERT_TRUE(same_bits(right[i], i < n ? pairwise[i] : b[i])) << n << ", " << i;
        }
    }
}

} // namespace
