// The dense f32 kernels by themselves: error in ulp against f64, agreement of the instruction sets, tails, long sums.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "kernel_rows.h"
#include "sanitizers.h"

using namespace kernel_rows;

namespace {

double sigmoid(double x) {
    return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

struct Case {
    amp_kernel_family family;
    double (*reference)(double);
    double ulp;       // budget over the whole of f32 …
    double low, high; // … between these (outside, f32 arithmetic on the argument alone loses more)
};

const Case cases[] = {
    {AMP_KERNEL_NEG, [](double x) { return -x; }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_ABS, [](double x) { return std::fabs(x); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_EXP, [](double x) { return std::exp(x); }, 1, -INFINITY, INFINITY},
    {AMP_KERNEL_LOG, [](double x) { return std::log(x); }, 1, 0, INFINITY},
    {AMP_KERNEL_SQRT, [](double x) { return std::sqrt(x); }, 0.5, 0, INFINITY},
    {AMP_KERNEL_RSQRT, [](double x) { return 1 / std::sqrt(x); }, 1.5, 0, INFINITY},
    {AMP_KERNEL_RECIPROCAL, [](double x) { return 1 / x; }, 0.5, -INFINITY, INFINITY},
    {AMP_KERNEL_SQUARE, [](double x) { return x * x; }, 0.5, -INFINITY, INFINITY},
    {AMP_KERNEL_TANH, [](double x) { return std::tanh(x); }, 2.5, -INFINITY, INFINITY},
    {AMP_KERNEL_SIGMOID, sigmoid, 2.5, -INFINITY, INFINITY},
    {AMP_KERNEL_ERF, [](double x) { return std::erf(x); }, 2.5, -INFINITY, INFINITY},
    {AMP_KERNEL_GELU, [](double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }, 4, -5, INFINITY},
    {AMP_KERNEL_GELU_TANH, [](double x) { return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); },
     16, -3, INFINITY},
    {AMP_KERNEL_RELU, [](double x) { return x > 0 ? x : 0.0; }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_SIGN, [](double x) { return double((x > 0) - (x < 0)); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_CEIL, [](double x) { return std::ceil(x); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_FLOOR, [](double x) { return std::floor(x); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_TRUNC, [](double x) { return std::trunc(x); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_ROUND, [](double x) { return std::nearbyint(x); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_RELU6, [](double x) { return std::min(6.0, std::max(0.0, x)); }, 0, -INFINITY, INFINITY},
    {AMP_KERNEL_HARDSIGMOID, [](double x) { return std::min(6.0, std::max(0.0, x + 3)) / 6; }, 1.5, -INFINITY,
     INFINITY},
    {AMP_KERNEL_HARDSWISH, [](double x) { return x * std::min(6.0, std::max(0.0, x + 3)) / 6; }, 2.5, -INFINITY, 1e37},
    {AMP_KERNEL_SOFTSIGN, [](double x) { return x / (1 + std::fabs(x)); }, 1.5, -INFINITY, INFINITY},
    {AMP_KERNEL_LOG2, [](double x) { return std::log2(x); }, 2, 0, INFINITY},
    {AMP_KERNEL_LOG10, [](double x) { return std::log10(x); }, 2, 0, INFINITY},
    {AMP_KERNEL_LOG1P, [](double x) { return std::log1p(x); }, 2, -1, INFINITY},
    {AMP_KERNEL_EXPM1, [](double x) { return std::expm1(x); }, 2, -INFINITY, INFINITY},
    {AMP_KERNEL_SINH, [](double x) { return std::sinh(x); }, 3, -INFINITY, INFINITY},
    {AMP_KERNEL_COSH, [](double x) { return std::cosh(x); }, 3, -INFINITY, INFINITY},
    {AMP_KERNEL_LOGSIGMOID, [](double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); },
     2.5, -INFINITY, 80},
    {AMP_KERNEL_MISH, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 4, -80, INFINITY},
    {AMP_KERNEL_SELU,
     [](double x) { return 1.0507009873554804934 * (x > 0 ? x : 1.6732632423543772848 * std::expm1(x)); }, 3, -INFINITY,
     3e38},
    {AMP_KERNEL_SIN, [](double x) { return std::sin(x); }, 2, -INFINITY, INFINITY},
    {AMP_KERNEL_COS, [](double x) { return std::cos(x); }, 2, -INFINITY, INFINITY},
    {AMP_KERNEL_TAN, [](double x) { return std::tan(x); }, 3.5, -INFINITY, INFINITY},
    {AMP_KERNEL_ASIN, [](double x) { return std::asin(x); }, 2, -1, 1},
    {AMP_KERNEL_ACOS, [](double x) { return std::acos(x); }, 2, -1, 1},
    {AMP_KERNEL_ATAN, [](double x) { return std::atan(x); }, 2.5, -INFINITY, INFINITY},
    {AMP_KERNEL_SILU, [](double x) { return x * sigmoid(x); }, 3, -80, INFINITY},
};

float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// |got - want| in units of the last place of want as an f32; one that is too large for f32 counts as 2^128 there.
double ulps(float got, double want) {
    if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
    if (std::isinf(want)) return got == want ? 0 : INFINITY;
    if (std::isinf(got) && std::isinf(static_cast<float>(want)))
        return std::signbit(got) == std::signbit(want) ? 0 : INFINITY;
    int exponent;
    std::frexp(std::max(std::fabs(want), static_cast<double>(FLT_MIN)), &exponent);
    const double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
    return std::fabs(value - want) / std::ldexp(1.0, exponent - 24);
}

std::vector<int> rows_of(bool (*wanted)(amp_kernel_family), amp_dtype dtype = AMP_F32) {
    return rows_where([=](const amp_kernel &row) { return wanted(row.family) && row.in == dtype; });
}

const Case *case_of(amp_kernel_family family) {
    for (const Case &c : cases) {
        if (c.family == family) return &c;
    }
    return nullptr;
}

class Unary : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Unary,
                         ::testing::ValuesIn(rows_of([](amp_kernel_family f) { return case_of(f) != nullptr; })),
                         row_name);

// Every so many-th f32 (accuracy is not what sanitizers look for) and every bf16 value: all exponents and signs, infinities,
// NaNs, subnormals.
constexpr uint64_t value_step = amp_test::under_asan ? 65521 : 1009;

TEST_P(Unary, StaysWithinItsUlpBudget) {
    const Case &c = *case_of(kernel->family);
    auto function = reinterpret_cast<amp_unary_function *>(kernel->function);
    std::vector<float> in, out(4096);
    double worst = 0;
    float worst_at = 0;
    auto check = [&] {
        function(out.data(), in.data(), static_cast<int64_t>(in.size()));
        for (size_t i = 0; i < in.size(); i++) {
            const bool keeps_nan = kernel->family != AMP_KERNEL_SIGN;
            EXPECT_TRUE(!keeps_nan || !std::isnan(in[i]) || std::isnan(out[i])) << in[i];
            if (!(in[i] >= c.low && in[i] <= c.high) || std::isinf(in[i])) continue;
            const double error = ulps(out[i], c.reference(in[i]));
            if (error > worst) worst = error, worst_at = in[i];
        }
        in.clear();
    };
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += value_step) {
        in.push_back(from_bits(static_cast<uint32_t>(bits)));
        if (in.size() == out.size()) check();
    }
    for (uint32_t bits = 0; bits < 65536; bits++) {
        in.push_back(from_bits(bits << 16));
        if (in.size() == out.size()) check();
    }
    check();
    EXPECT_LE(worst, c.ulp) << kernel->name << " at " << worst_at;
}

// In every lane. Where the formula has no value (0·∞) the kernel may have one.
TEST_P(Unary, HasTheReferencesValuesAtZerosInfinitiesAndNan) {
    const Case &c = *case_of(kernel->family);
    auto function = reinterpret_cast<amp_unary_function *>(kernel->function);
    for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, NAN}) {
        const float of_nan = kernel->family == AMP_KERNEL_SIGN ? 0.0f : NAN;
        const float want = std::isnan(x) ? of_nan : static_cast<float>(c.reference(double(x)));
        std::vector<float> in(35, x), out(35);
        function(out.data(), in.data(), 35);
        for (float got : out) {
            if (std::isnan(want) && !std::isnan(x)) continue;
            ASSERT_EQ(ulps(got, double(want)), 0) << kernel->name << " of " << x << " is " << got << ", not " << want;
        }
    }
}

TEST_P(Unary, GivesTheReferencesBitsForEverySixteenBitInput) {
    auto function = reinterpret_cast<amp_unary_function *>(kernel->function);
    const std::string name = kernel->name;
    const amp_kernel *reference = amp_kernel_find((name.substr(0, name.rfind('_')) + "_ref").c_str());
    ASSERT_NE(reference, nullptr);
    std::vector<float> in(65536), got(65536), want(65536);
    for (int half = 0; half < 2; half++) {
        for (uint32_t bits = 0; bits < 65536; bits++) {
            in[bits] = half ? amp_f32_from_f16(static_cast<uint16_t>(bits)) : from_bits(bits << 16);
        }
        function(got.data(), in.data(), 65536);
        reinterpret_cast<amp_unary_function *>(reference->function)(want.data(), in.data(), 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            const bool same = std::isnan(want[i]) ? std::isnan(got[i]) : !memcmp(&got[i], &want[i], sizeof(float));
            ASSERT_TRUE(same) << in[i] << ": " << got[i] << ", " << want[i];
        }
    }
}

class UnaryBf16 : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(
    Rows, UnaryBf16,
    ::testing::ValuesIn(rows_of([](amp_kernel_family f) { return f >= AMP_KERNEL_NEG && f < AMP_KERNEL_LEAKY_RELU; },
                                AMP_BF16)),
    row_name);

TEST_P(UnaryBf16, GivesTheF32ReferenceRoundedOnceForEveryInput) {
    auto function = reinterpret_cast<amp_unary_function *>(kernel->function);
    const std::string name = kernel->name;
    const amp_kernel *reference = amp_kernel_find((name.substr(0, name.rfind("_bf16")) + "_f32_ref").c_str());
    ASSERT_NE(reference, nullptr) << name;
    std::vector<uint16_t> in(65536), got(65536);
    std::vector<float> wide(65536), want(65536);
    for (uint32_t bits = 0; bits < 65536; bits++) {
        in[bits] = static_cast<uint16_t>(bits);
        wide[bits] = from_bits(bits << 16);
    }
    function(got.data(), in.data(), 65536);
    reinterpret_cast<amp_unary_function *>(reference->function)(want.data(), wide.data(), 65536);
    for (uint32_t i = 0; i < 65536; i++) {
        const bool is_nan = (got[i] & 0x7fff) > 0x7f80;
        uint32_t bits;
        memcpy(&bits, &want[i], sizeof bits);
        if (std::isnan(want[i])) {
            ASSERT_TRUE(is_nan) << wide[i];
        } else {
            ASSERT_EQ(got[i], static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)) << wide[i];
        }
    }
}

// An array that ends where readable memory ends.
class GuardedArray {
  public:
    explicit GuardedArray(size_t count) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))), bytes_(page_ * 3) {
        base_ = static_cast<char *>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(base_ + bytes_ - page_, page_, PROT_NONE);
        data = reinterpret_cast<float *>(base_ + bytes_ - page_) - count;
    }
    ~GuardedArray() {
        munmap(base_, bytes_);
    }
    float *data;

  private:
    size_t page_, bytes_;
    char *base_;
};

TEST_P(Unary, StaysInsideItsArrays) {
    auto function = reinterpret_cast<amp_unary_function *>(kernel->function);
    for (size_t n = 0; n <= 70; n++) {
        GuardedArray in(n), out(n);
        for (size_t i = 0; i < n; i++) in.data[i] = 0.5f;
        function(out.data, in.data, static_cast<int64_t>(n));
        for (size_t i = 1; i < n; i++) ASSERT_EQ(out.data[i], out.data[0]) << n << ", " << i;
    }
}

class Sums : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Sums, ::testing::ValuesIn(rows_of([](amp_kernel_family f) {
                             return f == AMP_KERNEL_SUM || f == AMP_KERNEL_SUM_SQUARES;
                         })),
                         row_name);

TEST_P(Sums, LoseNothingOverAMillionElements) {
    auto function = reinterpret_cast<amp_reduce_function *>(kernel->function);
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
    std::vector<float> in(1000003);
    double want = 0;
    for (float &x : in) {
        x = uniform(random);
        want += kernel->family == AMP_KERNEL_SUM ? double(x) : double(x) * double(x);
    }
    EXPECT_NEAR(function(in.data(), static_cast<int64_t>(in.size())) / want, 1.0, 1e-7);
    EXPECT_EQ(function(in.data(), 0), 0.0);
}

class Extremes : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Extremes, ::testing::ValuesIn(rows_of([](amp_kernel_family f) {
                             return f == AMP_KERNEL_ROW_MAX || f == AMP_KERNEL_ROW_MIN;
                         })),
                         row_name);

TEST_P(Extremes, AreFoundInEveryPlaceAndNanWins) {
    auto function = reinterpret_cast<amp_reduce_function *>(kernel->function);
    const float extreme = kernel->family == AMP_KERNEL_ROW_MAX ? 3.0f : -3.0f;
    for (int n = 1; n <= 70; n++) {
        for (int at = 0; at < n; at++) {
            std::vector<float> in(static_cast<size_t>(n), 1.0f);
            in[static_cast<size_t>(at)] = extreme;
            ASSERT_EQ(function(in.data(), n), extreme) << n << ", " << at;
            in[static_cast<size_t>((at + 1) % n)] = NAN;
            ASSERT_TRUE(std::isnan(function(in.data(), n))) << n << ", " << at;
        }
    }
    EXPECT_EQ(function(nullptr, 0), kernel->family == AMP_KERNEL_ROW_MAX ? -INFINITY : INFINITY);
}

class Norms : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Norms,
                         ::testing::ValuesIn(rows_of([](amp_kernel_family f) { return f == AMP_KERNEL_LAYER_NORM; })),
                         row_name);

TEST_P(Norms, AreExactFarFromZero) {
    auto function = reinterpret_cast<amp_norm_function *>(kernel->function);
    std::mt19937 random(11);
    std::normal_distribution<float> normal(1000.0f, 1.0f);
    for (int64_t n : {5, 384, 1025, 5000}) {
        std::vector<float> in(static_cast<size_t>(n)), out(in.size());
        double mean = 0, variance = 0;
        for (float &x : in) mean += x = normal(random);
        mean /= static_cast<double>(n);
        for (float x : in) variance += (x - mean) * (x - mean) / static_cast<double>(n);
        function(out.data(), in.data(), nullptr, nullptr, n, 1e-12);
        for (size_t i = 0; i < in.size(); i++) {
            ASSERT_NEAR(out[i], (in[i] - mean) / std::sqrt(variance + 1e-12), 1e-6) << n << ", " << i;
        }
    }
}

class Rows : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Rows, ::testing::ValuesIn(rows_of([](amp_kernel_family f) {
                             return f == AMP_KERNEL_SOFTMAX || f == AMP_KERNEL_LOG_SOFTMAX;
                         })),
                         row_name);

TEST_P(Rows, MatchF64) {
    auto function = reinterpret_cast<amp_row_function *>(kernel->function);
    std::mt19937 random(13);
    std::normal_distribution<float> normal(0.0f, 5.0f);
    for (int64_t n : {1, 2, 15, 16, 17, 64, 1000, 5000}) {
        std::vector<float> in(static_cast<size_t>(n)), out(in.size());
        double total = 0;
        float max = -INFINITY;
        for (float &x : in) {
            total += std::exp(double(x = normal(random)));
            max = std::max(max, x);
        }
        function(out.data(), in.data(), n);
        for (size_t i = 0; i < in.size(); i++) {
            const double log_want = double(in[i]) - std::log(total);
            const bool soft = kernel->family == AMP_KERNEL_SOFTMAX;
            const double want = soft ? std::exp(log_want) : log_want;
            // in - max is rounded: half an ulp of it is an error of the logarithm, and a relative one of the softmax
            const double rounding =
                0x1p-24 * (4 + std::fabs(double(in[i]) - double(max)) + (soft ? 0 : std::fabs(want)));
            ASSERT_NEAR(out[i], want, rounding * (soft ? want : 1)) << n << ", " << i;
        }
    }
}

TEST_P(Rows, OfMinusInfinityAreNan) {
    auto function = reinterpret_cast<amp_row_function *>(kernel->function);
    float row[20];
    for (float &x : row) x = -INFINITY;
    function(row, row, 20);
    for (float x : row) EXPECT_TRUE(std::isnan(x));
}

// Rows of both dtypes on small whole numbers, which either holds exactly.
std::vector<int> rows_of_both(bool (*wanted)(amp_kernel_family)) {
    std::vector<int> rows = rows_of(wanted), narrow = rows_of(wanted, AMP_BF16);
    rows.insert(rows.end(), narrow.begin(), narrow.end());
    return rows;
}

std::vector<uint16_t> packed(amp_dtype dtype, const std::vector<float> &values) {
    std::vector<uint16_t> memory;
    for (float x : values) {
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (dtype == AMP_F32) memory.push_back(static_cast<uint16_t>(bits));
        memory.push_back(static_cast<uint16_t>(bits >> 16));
    }
    return memory;
}

float element(amp_dtype dtype, const std::vector<uint16_t> &memory, size_t i) {
    const uint32_t high = memory[dtype == AMP_F32 ? 2 * i + 1 : i], low = dtype == AMP_F32 ? memory[2 * i] : 0;
    return from_bits(high << 16 | low);
}

std::vector<float> small_numbers(size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<float> x(n);
    for (float &value : x) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
    return x;
}

class Columns : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Columns, ::testing::ValuesIn(rows_of_both([](amp_kernel_family f) {
                             return f >= AMP_KERNEL_COLUMNS_SUM && f <= AMP_KERNEL_COLUMNS_MIN_ABS;
                         })),
                         row_name);

double joined(amp_kernel_family family, double a, double x) {
    const double size = std::fabs(x);
    switch (family) {
    case AMP_KERNEL_COLUMNS_SUM: return a + x;
    case AMP_KERNEL_COLUMNS_SUM_ABS: return a + size;
    case AMP_KERNEL_COLUMNS_SUM_SQUARES: return a + x * x;
    case AMP_KERNEL_COLUMNS_COUNT: return a + (x != 0 ? 1 : 0);
    case AMP_KERNEL_COLUMNS_PRODUCT: return a * x;
    case AMP_KERNEL_COLUMNS_MAX: return std::isnan(a + x) ? NAN : std::max(a, x);
    case AMP_KERNEL_COLUMNS_MIN: return std::isnan(a + x) ? NAN : std::min(a, x);
    case AMP_KERNEL_COLUMNS_MAX_ABS: return std::isnan(a + x) ? NAN : std::max(a, size);
    default: return std::isnan(a + x) ? NAN : std::min(a, size);
    }
}

TEST_P(Columns, JoinEveryRowToEachColumn) {
    auto function = reinterpret_cast<amp_columns_function *>(kernel->function);
    for (size_t rows : {0u, 1u, 3u, 4u, 5u, 11u}) {
        for (size_t n : {0u, 1u, 15u, 16u, 17u, 70u}) {
            const size_t width = n + 3;
            std::vector<float> x = small_numbers(rows * width, 5);
            if (rows > 2 && n > 2) x[2 * width + 1] = NAN;
            std::vector<double> got(n + 1, 1.5), want(n + 1, 1.5);
            for (size_t r = 0; r < rows; r++) {
                for (size_t i = 0; i < n; i++) want[i] = joined(kernel->family, want[i], double(x[r * width + i]));
            }
            const std::vector<uint16_t> memory = packed(kernel->in, x);
            function(got.data(), memory.data(), int64_t(width * amp_dtype_size(kernel->in)), int64_t(rows), int64_t(n));
            for (size_t i = 0; i <= n; i++) {
                ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
                    << rows << " rows, column " << i << " of " << n << ": " << got[i] << ", " << want[i];
            }
        }
    }
}

class Ternary : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Ternary, ::testing::ValuesIn(rows_of_both([](amp_kernel_family f) {
                             return f >= AMP_KERNEL_LERP && f <= AMP_KERNEL_ADDCDIV;
                         })),
                         row_name);

TEST_P(Ternary, IsItsFormulaAtEveryLength) {
    auto function = reinterpret_cast<amp_ternary_function *>(kernel->function);
    for (size_t n = 0; n <= 70; n++) {
        const std::vector<float> a = small_numbers(n, 1), b = small_numbers(n, 2);
        std::vector<float> c = small_numbers(n, 3);
        for (float &x : c) x = x < 0 ? 0.25f : x < 2 ? 0.5f : 2.0f;
        const amp_dtype dtype = kernel->in;
        const auto pa = packed(dtype, a), pb = packed(dtype, b), pc = packed(dtype, c);
        for (bool number : {false, true}) {
            if (number && kernel->family != AMP_KERNEL_LERP) continue;
            std::vector<uint16_t> out = packed(dtype, std::vector<float>(n + 1, 99.0f));
            function(out.data(), pa.data(), pb.data(), number ? nullptr : pc.data(), int64_t(n), 0.5f);
            for (size_t i = 0; i < n; i++) {
                const float lerp = a[i] + (number ? 0.5f : c[i]) * (b[i] - a[i]);
                const float want = kernel->family == AMP_KERNEL_LERP      ? lerp
                                   : kernel->family == AMP_KERNEL_ADDCMUL ? a[i] + 0.5f * b[i] * c[i]
                                                                          : a[i] + 0.5f * b[i] / c[i];
                ASSERT_EQ(element(dtype, out, i), want) << i << " of " << n;
            }
            ASSERT_EQ(element(dtype, out, n), 99.0f) << n;
        }
    }
}

class Compare : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, Compare, ::testing::ValuesIn(rows_of_both([](amp_kernel_family f) {
                             return f >= AMP_KERNEL_EQ && f <= AMP_KERNEL_GE;
                         })),
                         row_name);

TEST_P(Compare, IsItsOperatorAndOnlyNeHoldsForNan) {
    auto function = reinterpret_cast<amp_compare_function *>(kernel->function);
    for (size_t n = 0; n <= 70; n++) {
        std::vector<float> a = small_numbers(n, 1), b = small_numbers(n, 2);
        if (n > 3) a[1] = b[2] = a[3] = b[3] = NAN;
        const auto pa = packed(kernel->in, a), pb = packed(kernel->in, b);
        for (bool number : {false, true}) {
            std::vector<uint8_t> out(n + 1, 9);
            function(out.data(), pa.data(), number ? nullptr : pb.data(), int64_t(n), 2.0f);
            for (size_t i = 0; i < n; i++) {
                const float x = a[i], y = number ? 2.0f : b[i];
                const bool holds[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
                ASSERT_EQ(out[i], holds[kernel->family - AMP_KERNEL_EQ]) << x << ", " << y;
            }
            ASSERT_EQ(out[n], 9);
        }
    }
}

class VectorProducts : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, VectorProducts,
                         ::testing::ValuesIn(rows_of_both([](amp_kernel_family f) { return f == AMP_KERNEL_PRODUCT; })),
                         row_name);

TEST_P(VectorProducts, MultiplyEveryElementOnce) {
    auto function = reinterpret_cast<amp_reduce_function *>(kernel->function);
    for (size_t n = 0; n <= 70; n++) {
        std::vector<float> x(n, 1.0f);
        double want = 1;
        for (size_t i = 0; i < n; i++) want *= x[i] = i % 3 ? -0.5f : 2.0f;
        ASSERT_EQ(function(packed(kernel->in, x).data(), int64_t(n)), want) << n;
    }
}

} // namespace
