// Arithmetic, pointwise functions, comparisons and choices through the C API: values against f64, broadcasting,
// strides, dtypes, every 16-bit input, guard pages, threads, and what bad input is told.
#include <cfenv>
#include <functional>
#include <map>

#include "amp_test.h"
#include "guard.h"

using namespace amp_test;

namespace {

class Elementwise : public Test {};

// Half an ulp of the dtype at x, which is what one correct rounding may cost.
double half_ulp(amp_dtype dtype, double x) {
    const int digits = dtype == AMP_BF16 ? 8 : dtype == AMP_F16 ? 11 : dtype == AMP_F32 ? 24 : 53;
    const int smallest = dtype == AMP_F16 ? -14 : dtype == AMP_F64 ? -1022 : -126;
    const int exponent = x == 0 ? smallest : std::max(std::ilogb(x), smallest);
    return std::ldexp(0.5, exponent - digits + 1);
}

double largest(amp_dtype dtype) {
    return dtype == AMP_F16    ? 65504.0
           : dtype == AMP_BF16 ? 0x1.fep127
           : dtype == AMP_F32  ? 0x1.fffffep127
                               : 0x1.fffffffffffffp1023;
}

::testing::AssertionResult is_near(double got, double want, amp_dtype dtype, double ulps) {
    if (std::isnan(want) || std::isnan(got)) {
        if (std::isnan(want) && std::isnan(got)) return ::testing::AssertionSuccess();
        return ::testing::AssertionFailure() << got << " for " << want;
    }
    if (std::fabs(want) > largest(dtype)) {
        const bool over = std::fabs(want) < largest(dtype) + 2 * half_ulp(dtype, largest(dtype));
        if (got == std::copysign(INFINITY, want) || (over && std::fabs(got) == largest(dtype))) {
            return ::testing::AssertionSuccess();
        }
        return ::testing::AssertionFailure() << got << " for " << want;
    }
    if (std::fabs(got - want) <= ulps * 2 * half_ulp(dtype, want)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << got << " for " << want;
}

// ---- Binary ops -------------------------------------------------------------------------------------------------

struct Binary {
    const char *name;
    double (*reference)(double, double);
};

const Binary binaries[] = {
    {"add", [](double a, double b) { return a + b; }},
    {"sub", [](double a, double b) { return a - b; }},
    {"mul", [](double a, double b) { return a * b; }},
    {"div", [](double a, double b) { return a / b; }},
    {"maximum", [](double a, double b) { return std::fmax(a, b); }},
    {"minimum", [](double a, double b) { return std::fmin(a, b); }},
    {"eq", [](double a, double b) { return double(a == b); }},
    {"ne", [](double a, double b) { return double(a != b); }},
    {"lt", [](double a, double b) { return double(a < b); }},
    {"le", [](double a, double b) { return double(a <= b); }},
    {"gt", [](double a, double b) { return double(a > b); }},
    {"ge", [](double a, double b) { return double(a >= b); }},
    {"atan2", [](double a, double b) { return std::atan2(a, b); }},
    {"fmod", [](double a, double b) { return std::fmod(a, b); }},
};

// Element of t at an index of the result's shape.
double broadcast_at(const amp_tensor *t, const Shape &shape, int64_t index) {
    int64_t offset = 0;
    for (int d = int(shape.size()) - 1; d >= 0; d--) {
        const int own = d - (int(shape.size()) - amp_tensor_rank(t));
        if (own >= 0 && amp_tensor_shape(t)[own] != 1) offset += index % shape[size_t(d)] * amp_tensor_strides(t)[own];
        index /= shape[size_t(d)];
    }
    return number_at(amp_tensor_dtype(t), amp_data(t), offset);
}

void check_binary(const Binary &b, amp_tensor *x, amp_tensor *y, const Shape &shape) {
    amp_tensor *z = op(b.name, {x, y});
    ASSERT_NE(z, nullptr) << b.name << ": " << amp_last_error();
    const std::vector<double> got = numbers_of(z);
    ASSERT_EQ(int64_t(got.size()), elements_of(shape)) << b.name;
    const amp_dtype dtype = amp_tensor_dtype(z);
    for (int64_t i = 0; i < elements_of(shape); i++) {
        const double want = b.reference(broadcast_at(x, shape, i), broadcast_at(y, shape, i));
        if (dtype == AMP_BOOL)
            ASSERT_EQ(got[size_t(i)], want) << b.name << ", element " << i;
        else
            ASSERT_TRUE(is_near(got[size_t(i)], want, dtype, 0.51)) << b.name << ", element " << i;
    }
}

TEST_F(Elementwise, BinaryOpsRoundOnceInEveryFloatingDtypeAndBroadcast) {
    struct {
        Shape a, b, result;
    } const shapes[] = {{{}, {}, {}},
                        {{7}, {7}, {7}},
                        {{5, 1}, {4}, {5, 4}},
                        {{2, 3, 65}, {65}, {2, 3, 65}},
                        {{2, 1, 33}, {3, 1}, {2, 3, 33}},
                        {{0, 3}, {1, 3}, {0, 3}},
                        {{1}, {3, 1030}, {3, 1030}}};
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        for (const auto &s : shapes) {
            amp_tensor *a = random_tensor(dtype, s.a, 1), *b = random_tensor(dtype, s.b, 2);
            for (const Binary &binary : binaries) check_binary(binary, a, b, s.result);
        }
    }
}

TEST_F(Elementwise, StridedOperandsGiveTheSameValues) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *a = op("transpose", {random_tensor(dtype, {37, 5, 20}, 3), 0, 2});            // [20, 5, 37]
        amp_tensor *b = op("slice", {random_tensor(dtype, {5, 80}, 4), 1, 3, 77}, {{"step", 2}}); // [5, 37]
        amp_tensor *c = op("expand", {random_tensor(dtype, {5, 1}, 5), AMP_DIMS(20, 5, 37)});
        for (const Binary &binary : binaries) {
            check_binary(binary, a, b, {20, 5, 37});
            check_binary(binary, a, c, {20, 5, 37});
        }
    }
}

TEST_F(Elementwise, MixedDtypesPromote) {
    amp_tensor *bf16 = tensor(AMP_BF16, {3}, {1.5, -2, 3}), *f32 = tensor(AMP_F32, {3}, {0.125, 7, 1e-3});
    amp_tensor *i32 = tensor(AMP_I32, {3}, {1, 2, 3}), *f64_number = tensor(AMP_F64, {}, {0.1});
    EXPECT_EQ(amp_tensor_dtype(op("add", {bf16, f32})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("add", {bf16, i32})), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(op("mul", {f32, f64_number})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("mul", {i32, 2})), AMP_I32);
    EXPECT_EQ(amp_tensor_dtype(op("mul", {i32, 2.0})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("div", {i32, i32})), AMP_F32);
    EXPECT_EQ(numbers_of(op("add", {bf16, f32})), (std::vector<double>{1.625, 5, double(3.0F + 1e-3F)}));
}

TEST_F(Elementwise, AlphaScalesTheSecondOperandInOneRounding) {
    amp_tensor *a = tensor(AMP_F32, {3}, {1, 2, 3}), *b = tensor(AMP_F32, {3}, {10, 20, 30});
    EXPECT_EQ(numbers_of(op("add", {a, b}, {{"alpha", 0.5}})), (std::vector<double>{6, 12, 18}));
    EXPECT_EQ(numbers_of(op("sub", {a, b}, {{"alpha", 2}})), (std::vector<double>{-19, -38, -57}));
    amp_tensor *i = tensor(AMP_I64, {2}, {5, -7});
    EXPECT_EQ(numbers_of(op("sub", {i, i}, {{"alpha", 3}})), (std::vector<double>{-10, 14}));
    const float x = 1.0F + 0x1p-23F, y = 1.0F - 0x1p-24F;
    amp_tensor *exact = op("add", {tensor(AMP_F32, {1}, {-1.0}), tensor(AMP_F32, {1}, {x})}, {{"alpha", double(y)}});
    EXPECT_EQ(numbers_of(exact)[0], double(fmaf(x, y, -1.0F)));
}

TEST_F(Elementwise, IntegersWrapAndKeepEveryBit) {
    EXPECT_EQ(numbers_of(op("add", {tensor(AMP_U8, {2}, {250, 3}), tensor(AMP_U8, {2}, {10, 4})})),
              (std::vector<double>{4, 7}));
    EXPECT_EQ(numbers_of(op("mul", {tensor(AMP_I8, {1}, {100}), 2})), (std::vector<double>{-56}));
    const int64_t big = (INT64_C(1) << 62) + 1, shape = 1;
    amp_tensor *sum = op("add", {amp_from_data(&big, AMP_I64, 1, &shape), amp_scalar(amp_int(1))});
    EXPECT_EQ(*static_cast<const int64_t *>(amp_data(sum)), big + 1);
}

TEST_F(Elementwise, RoundingModesOfDivision) {
    const std::vector<double> a = {7, -7, 7, -7, 6, 0}, b = {2, 2, -2, -2, 3, 5};
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_I64, AMP_I8}) {
        amp_tensor *x = tensor(dtype, {6}, a), *y = tensor(dtype, {6}, b);
        EXPECT_EQ(numbers_of(op("div", {x, y}, {{"rounding_mode", "trunc"}})),
                  (std::vector<double>{3, -3, -3, 3, 2, 0}));
        EXPECT_EQ(numbers_of(op("div", {x, y}, {{"rounding_mode", "floor"}})),
                  (std::vector<double>{3, -4, -4, 3, 2, 0}));
        EXPECT_EQ(numbers_of(op("remainder", {x, y})), (std::vector<double>{1, 1, -1, -1, 0, 0}));
        EXPECT_EQ(numbers_of(op("fmod", {x, y})), (std::vector<double>{1, -1, 1, -1, 0, 0}));
    }
}

TEST_F(Elementwise, NanWinsInMaximumMinimumAndClamp) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32}) {
        amp_tensor *a = tensor(dtype, {3}, {NAN, 1, 2}), *b = tensor(dtype, {3}, {1, NAN, 3});
        for (const char *name : {"maximum", "minimum"}) {
            const std::vector<double> v = numbers_of(op(name, {a, b}));
            EXPECT_TRUE(std::isnan(v[0]) && std::isnan(v[1])) << name;
            EXPECT_EQ(v[2], std::string(name) == "maximum" ? 3 : 2);
        }
        const std::vector<double> c = numbers_of(op("clamp", {a, 1.5, 1.75}));
        EXPECT_TRUE(std::isnan(c[0]));
        EXPECT_EQ(c[1], 1.5);
        EXPECT_EQ(c[2], 1.75);
    }
}

TEST_F(Elementwise, ClampTakesOneBoundOrTensors) {
    amp_tensor *x = tensor(AMP_F32, {4}, {-2, -1, 1, 2});
    EXPECT_EQ(numbers_of(op("clamp", {x}, {{"min", 0}})), (std::vector<double>{0, 0, 1, 2}));
    EXPECT_EQ(numbers_of(op("clamp", {x}, {{"max", 0.5}})), (std::vector<double>{-2, -1, 0.5, 0.5}));
    amp_tensor *low = tensor(AMP_F32, {1}, {-1.5}), *high = tensor(AMP_F32, {4}, {0, -3, 0.5, 9});
    EXPECT_EQ(numbers_of(op("clamp", {x, low, high})), (std::vector<double>{-1.5, -3, 0.5, 2}));
    EXPECT_EQ(numbers_of(op("clamp", {tensor(AMP_I32, {2}, {-5, 5}), -2, 2})), (std::vector<double>{-2, 2}));
    EXPECT_EQ(op("clamp", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"clamp", "min", "max"}));
}

TEST_F(Elementwise, WhereAndMaskedFillChoose) {
    amp_tensor *c = tensor(AMP_BOOL, {2, 2}, {1, 0, 0, 1}), *x = tensor(AMP_F32, {2, 1}, {1, 2});
    EXPECT_EQ(numbers_of(op("where", {c, x, 9.0})), (std::vector<double>{1, 9, 9, 2}));
    EXPECT_EQ(numbers_of(op("where", {c, 5, tensor(AMP_I64, {2}, {7, 8})})), (std::vector<double>{5, 8, 7, 5}));
    EXPECT_EQ(amp_tensor_dtype(op("where", {c, x, tensor(AMP_BF16, {2}, {3})})), AMP_F32);
    EXPECT_EQ(numbers_of(op("masked_fill", {x, c, -INFINITY})), (std::vector<double>{-INFINITY, 1, 2, -INFINITY}));
    EXPECT_EQ(op("where", {tensor(AMP_U8, {2}, {1}), x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"where", "condition", "u8", "bool"}));
}

TEST_F(Elementwise, ComplexNumbers) {
    const double a[] = {1, 2, -3, 0.5}, b[] = {0, 1, 2, -2};
    const int64_t shape = 2;
    amp_tensor *x = amp_from_data(a, AMP_C128, 1, &shape), *y = amp_from_data(b, AMP_C128, 1, &shape);
    auto first = [](amp_tensor *t) {
        const double *d = static_cast<const double *>(amp_data(t));
        return std::make_pair(d[0], d[1]);
    };
    EXPECT_EQ(first(op("mul", {x, y})), std::make_pair(-2.0, 1.0));
    EXPECT_EQ(first(op("add", {x, y})), std::make_pair(1.0, 3.0));
    EXPECT_EQ(first(op("div", {x, y})), std::make_pair(2.0, -1.0));
    EXPECT_EQ(amp_tensor_dtype(op("abs", {x})), AMP_F64);
    EXPECT_NEAR(numbers_of(op("abs", {x}))[0], std::sqrt(5.0), 1e-15);
    EXPECT_EQ(op("lt", {x, y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"lt", "complex"}));
}

TEST_F(Elementwise, InPlaceAndOutFormsWriteTheirTarget) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6}), *y = tensor(AMP_F32, {3}, {10, 20, 30});
    const uint64_t version = amp_tensor_version(x);
    ASSERT_EQ(op("add_", {x, y}), x);
    EXPECT_EQ(numbers_of(x), (std::vector<double>{11, 22, 33, 14, 25, 36}));
    EXPECT_GT(amp_tensor_version(x), version);
    amp_tensor *out = op("transpose", {tensor(AMP_BF16, {3, 2}), 0, 1});
    ASSERT_EQ(op("mul_out", {x, 2.0}, {{"out", out}}), out);
    EXPECT_EQ(numbers_of(out), (std::vector<double>{22, 44, 66, 28, 50, 72}));
    EXPECT_EQ(op("add_", {y, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add_", "[3]", "[2, 3]"}));
    EXPECT_EQ(op("add_", {tensor(AMP_I32, {3}), y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"add_", "i32", "f32"}));
}

TEST_F(Elementwise, BadInputIsToldWhatIsWrong) {
    EXPECT_EQ(op("add", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"add", "input", "[2, 3]", "other", "[4]", "broadcast"}));
    EXPECT_EQ(op("div", {tensor(AMP_I32, {2}), tensor(AMP_I32, {2}, {1, 0})}, {{"rounding_mode", "floor"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"div", "zero"}));
    EXPECT_EQ(op("div", {tensor(AMP_F32, {2}), 2.0}, {{"rounding_mode", "up"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"div", "up", "trunc", "floor"}));
    EXPECT_EQ(op("add", {tensor(AMP_I32, {2}), tensor(AMP_I32, {2})}, {{"alpha", 0.5}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"add", "alpha"}));
    EXPECT_EQ(op("sub", {tensor(AMP_BOOL, {2}), tensor(AMP_BOOL, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"sub", "bool"}));
    EXPECT_EQ(op("gelu", {tensor(AMP_F32, {2})}, {{"approximate", "fast"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"gelu", "fast", "tanh"}));
}

TEST_F(Elementwise, ThreadsDoNotChangeABit) {
    amp_tensor *a = random_tensor(AMP_BF16, {300, 701}, 8), *b = random_tensor(AMP_F32, {701}, 9);
    const int before = amp_get_num_threads();
    std::vector<std::vector<double>> results;
    for (int threads : {1, 2, 3}) {
        ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
        results.push_back(numbers_of(op("gelu", {op("add", {a, b})})));
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
}

// ---- Unary ops --------------------------------------------------------------------------------------------------

double sigmoid(double x) {
    const double z = std::exp(-std::fabs(x));
    return (x < 0 ? z : 1) / (1 + z);
}

const std::map<std::string, double (*)(double)> unaries = {
    {"neg", [](double x) { return -x; }},
    {"abs", [](double x) { return std::fabs(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"reciprocal", [](double x) { return 1 / x; }},
    {"square", [](double x) { return x * x; }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"sigmoid", sigmoid},
    {"erf", [](double x) { return std::erf(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
    {"trunc", [](double x) { return std::trunc(x); }},
    {"round", [](double x) { return std::nearbyint(x); }},
    {"relu", [](double x) { return x > 0 || std::isnan(x) ? x : 0.0; }},
    {"silu", [](double x) { return x * sigmoid(x); }},
    {"gelu", [](double x) { return x * 0.5 * std::erfc(-x * M_SQRT1_2); }},
};

// One rounding: half an ulp, and a little for the f32 function underneath where it falls next to a tie.
TEST_F(Elementwise, EverySixteenBitInputOfEveryUnaryOp) {
    for (amp_dtype dtype : {AMP_BF16, AMP_F16}) {
        std::vector<uint16_t> bits(65536);
        for (size_t i = 0; i < bits.size(); i++) bits[i] = uint16_t(i);
        const int64_t shape = 65536;
        amp_tensor *x = amp_from_data(bits.data(), dtype, 1, &shape);
        for (const auto &[name, reference] : unaries) {
            const Scope inner;
            const std::vector<double> got = numbers_of(op(name, {x}));
            ASSERT_EQ(got.size(), bits.size()) << name << amp_last_error();
            for (int64_t i = 0; i < shape; i++) {
                const double in = number_at(dtype, bits.data(), i);
                if (std::isinf(in) && (name == "gelu" || name == "silu")) continue; // NaN at -inf, as in PyTorch
                ASSERT_TRUE(is_near(got[size_t(i)], reference(in), dtype, 0.51)) << name << " of " << in;
            }
        }
    }
}

TEST_F(Elementwise, UnaryOpsStayInsideTheirArrays) {
    for (const auto &[name, reference] : unaries) {
        for (int64_t n : {0, 1, 2, 15, 16, 17, 31, 33, 64, 65, 1025}) {
            for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F64}) {
                const Scope inner;
                GuardedBuffer in(size_t(n) * amp_dtype_size(dtype)), out(size_t(n) * amp_dtype_size(dtype));
                std::memset(in.data(), 0, in.size());
                amp_tensor *x = amp_from_memory(in.data(), dtype, 1, &n, nullptr, nullptr, nullptr);
                amp_tensor *y = amp_from_memory(out.data(), dtype, 1, &n, nullptr, nullptr, nullptr);
                std::vector<amp_tensor *> results;
                if (call(name + "_out", {x}, {{"out", y}}, &results) != AMP_OK) {
                    amp_clear_error(); // no out= form
                    ASSERT_NE(op(name, {x}), nullptr) << name << ": " << amp_last_error();
                    continue;
                }
                const double want = reference(0.0);
                for (double got : numbers_of(y)) ASSERT_TRUE(is_near(got, want, dtype, 1)) << name << ", " << n;
            }
        }
    }
}

TEST_F(Elementwise, IntegersStayIntegersOrBecomeF32) {
    amp_tensor *x = tensor(AMP_I32, {3}, {-3, 0, 4});
    EXPECT_EQ(numbers_of(op("abs", {x})), (std::vector<double>{3, 0, 4}));
    EXPECT_EQ(amp_tensor_dtype(op("abs", {x})), AMP_I32);
    EXPECT_EQ(numbers_of(op("relu", {x})), (std::vector<double>{0, 0, 4}));
    EXPECT_EQ(amp_tensor_dtype(op("exp", {x})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("sqrt", {tensor(AMP_BOOL, {1})})), AMP_F32);
}

TEST_F(Elementwise, IntegersHaveNoNegativePowers) {
    EXPECT_EQ(op("pow", {tensor(AMP_I32, {2}, {2, 3}), -1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"pow", "[2] i32", "-1"}));
    EXPECT_EQ(numbers_of(op("pow", {tensor(AMP_I32, {2}, {2, 4}), -1.0})), (std::vector<double>{0.5, 0.25}));
    EXPECT_EQ(numbers_of(op("pow", {tensor(AMP_F32, {2}, {2, 4}), -1})), (std::vector<double>{0.5, 0.25}));
}

TEST_F(Elementwise, ActivationsWithNumbers) {
    amp_tensor *x = tensor(AMP_F64, {4}, {-4, -1, 0.5, 30});
    auto check = [](amp_tensor *t, const std::vector<double> &want) {
        const std::vector<double> got = numbers_of(t);
        ASSERT_EQ(got.size(), want.size()) << amp_last_error();
        for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(got[i], want[i], 1e-14 * std::fabs(want[i])) << i;
    };
    check(op("leaky_relu", {x}, {{"negative_slope", 0.25}}), {-1, -0.25, 0.5, 30});
    check(op("elu", {x}, {{"alpha", 2.0}}), {2 * std::expm1(-4), 2 * std::expm1(-1), 0.5, 30});
    check(op("softplus", {x}), {std::log1p(std::exp(-4)), std::log1p(std::exp(-1)), std::log1p(std::exp(0.5)), 30});
    check(op("hardtanh", {x}), {-1, -1, 0.5, 1});
    check(op("hardswish", {x}), {0, -2.0 / 6, 0.5 * 3.5 / 6, 30});
    check(op("threshold", {x, 0.0, 7.0}), {7, 7, 0.5, 30});
    check(op("round", {tensor(AMP_F64, {3}, {2.345, -0.5, 1.5})}, {{"decimals", 1}}), {2.3, -0.5, 1.5});
}

TEST_F(Elementwise, KindsOfNumber) {
    amp_tensor *x = tensor(AMP_F32, {4}, {1, INFINITY, -INFINITY, NAN});
    EXPECT_EQ(numbers_of(op("isnan", {x})), (std::vector<double>{0, 0, 0, 1}));
    EXPECT_EQ(numbers_of(op("isinf", {x})), (std::vector<double>{0, 1, 1, 0}));
    EXPECT_EQ(numbers_of(op("isfinite", {x})), (std::vector<double>{1, 0, 0, 0}));
    EXPECT_EQ(numbers_of(op("nan_to_num", {x}, {{"nan", 5.0}})),
              (std::vector<double>{1, double(0x1.fffffep127F), -double(0x1.fffffep127F), 5}));
    EXPECT_EQ(numbers_of(op("logical_not", {tensor(AMP_F32, {2}, {0, 3})})), (std::vector<double>{1, 0}));
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *a = tensor(dtype, {4}, {-0.0, NAN, 0, -INFINITY}), *b = tensor(dtype, {4}, {0, 0, 2, NAN});
        EXPECT_EQ(numbers_of(op("logical_not", {a})), (std::vector<double>{1, 0, 1, 0}));
        EXPECT_EQ(numbers_of(op("logical_and", {a, b})), (std::vector<double>{0, 0, 0, 1}));
        EXPECT_EQ(numbers_of(op("logical_or", {a, b})), (std::vector<double>{0, 1, 1, 1}));
        EXPECT_EQ(numbers_of(op("logical_xor", {a, b})), (std::vector<double>{0, 1, 1, 0}));
    }
    EXPECT_EQ(numbers_of(op("logical_xor", {tensor(AMP_I64, {2}, {5, 0}), tensor(AMP_F32, {2}, {2, 1})})),
              (std::vector<double>{0, 1}));
}

TEST_F(Elementwise, NumbersInPlaceOfNanAndInfinityAnywhere) {
    const double most = double(0x1.fffffep127F);
    for (int64_t at = 0; at < 70; at++) {
        std::vector<double> values(70, 1.5), expected = values;
        values[size_t(at)] = at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : -INFINITY;
        amp_tensor *x = tensor(AMP_F32, {70}, values);
        expected[size_t(at)] = at % 3 == 0 ? 0 : at % 3 == 1 ? most : -most;
        EXPECT_EQ(numbers_of(op("nan_to_num", {x})), expected) << at;
        expected[size_t(at)] = at % 3 == 0 ? 0 : at % 3 == 1 ? 9 : -most;
        EXPECT_EQ(numbers_of(op("nan_to_num", {x}, {{"posinf", 9.0}})), expected) << at;
        EXPECT_EQ(numbers_of(op("nan_to_num_", {x}, {{"posinf", 9.0}})), expected) << at;
    }
    for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16}) {
        amp_tensor *x = tensor(dtype, {4}, {NAN, INFINITY, -INFINITY, -2});
        const auto given = [&](const std::vector<Named> &options) {
            return numbers_of(op("nan_to_num", {x}, options));
        };
        EXPECT_EQ(given({{"posinf", 4.0}, {"neginf", -4.0}}), (std::vector<double>{0, 4, -4, -2}));
        EXPECT_EQ(given({{"nan", 1.0}, {"posinf", 4.0}, {"neginf", 8.0}}), (std::vector<double>{1, 4, 8, -2}));
        EXPECT_EQ(given({{"posinf", INFINITY}, {"neginf", double(-INFINITY)}}),
                  (std::vector<double>{0, INFINITY, -INFINITY, -2}));
        EXPECT_EQ(given({{"posinf", 3.0}, {"neginf", double(-INFINITY)}}), (std::vector<double>{0, 3, -INFINITY, -2}));
    }
}

TEST_F(Elementwise, ANumberIsComparedInTheTensorsType) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        amp_tensor *x = tensor(dtype, {1}, {0.1});
        EXPECT_EQ(numbers_of(op("eq", {x, 0.1})), (std::vector<double>{1})) << amp_dtype_name(dtype);
        EXPECT_EQ(numbers_of(op("gt", {x, 0.1})), (std::vector<double>{0})) << amp_dtype_name(dtype);
    }
}

// As in PyTorch: there the number is made a 0-dim tensor of the other operand's dtype first, but for products and
// quotients.
TEST_F(Elementwise, ANumberIsRoundedToTheTensorsDtype) {
    for (amp_dtype dtype : {AMP_BF16, AMP_F16}) {
        std::vector<double> values;
        for (int i = -40; i <= 40; i++) values.push_back(i * 0.25);
        amp_tensor *x = tensor(dtype, {81}, values), *three = tensor(dtype, {}, {0.3});
        for (const char *name : {"add", "sub", "fmod", "remainder", "pow"}) {
            std::vector<double> got = numbers_of(op(name, {x, 0.3})), want = numbers_of(op(name, {x, three}));
            for (size_t i = 0; i < want.size(); i++)
                EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
                    << name << " " << values[i];
        }
    }
    EXPECT_EQ(numbers_of(op("mul", {tensor(AMP_BF16, {1}, {255.0}), 1.003})), (std::vector<double>{256}));
}

TEST_F(Elementwise, SignOfNanIsZero) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16})
        EXPECT_EQ(numbers_of(op("sign", {op("to", {tensor(AMP_F64, {3}, {NAN, -3, 2})}, {{"dtype", dtype}})})),
                  (std::vector<double>{0, -1, 1}))
            << amp_dtype_name(dtype);
}

TEST_F(Elementwise, LogarithmsHaveTheirInfinities) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16})
        for (const char *name : {"log", "log2", "log10"})
            EXPECT_EQ(numbers_of(op(name, {tensor(dtype, {4}, {0, -0.0, INFINITY, 1})})),
                      (std::vector<double>{-INFINITY, -INFINITY, INFINITY, 0}))
                << name << amp_dtype_name(dtype);
}

TEST_F(Elementwise, Log1pKeepsTheSignOfZero) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16})
        EXPECT_TRUE(std::signbit(numbers_of(op("log1p", {tensor(dtype, {1}, {-0.0})}))[0])) << amp_dtype_name(dtype);
}

// By √ in f32 and bf16, by pow in f16.
TEST_F(Elementwise, RootsOfMinusInfinityAreAsInPyTorch) {
    EXPECT_EQ(numbers_of(op("pow", {tensor(AMP_F16, {2}, {-INFINITY, 4}), 0.5})), (std::vector<double>{INFINITY, 2}));
    EXPECT_EQ(numbers_of(op("pow", {tensor(AMP_F16, {2}, {-INFINITY, 4}), -0.5})), (std::vector<double>{0, 0.5}));
    EXPECT_TRUE(std::isnan(numbers_of(op("pow", {tensor(AMP_BF16, {1}, {-INFINITY}), 0.5}))[0]));
}

// 4099² lies in the middle of two f32: x·x goes to the even one, the general kernel to the other. Other powers of a tensor are those of C's pow.
TEST_F(Elementwise, AnExponentOfOneTwoSquares) {
    const std::vector<double> bases = {4099, -4099, -0.0, -INFINITY, 1e-30},
                              squares = {16801800, 16801800, 0, INFINITY, 0};
    amp_tensor *x = tensor(AMP_F32, {5}, bases), *two = tensor(AMP_F32, {1}, {2});
    for (const Shape &shape : {Shape{}, Shape{1}}) {
        const std::vector<double> power = numbers_of(op("pow", {x, tensor(AMP_F32, shape, {2})}));
        EXPECT_EQ(power, squares);
        EXPECT_FALSE(std::signbit(power[2]));
    }
    EXPECT_EQ(amp_tensor_rank(op("pow", {x, tensor(AMP_F32, {1, 1}, {2})})), 2);
    for (amp_dtype dtype : {AMP_BF16, AMP_F16})
        EXPECT_EQ(numbers_of(op("pow", {tensor(dtype, {2}, {-3, 257}), tensor(dtype, {}, {2})})),
                  (std::vector<double>{9, dtype == AMP_BF16 ? 65536 : INFINITY}));
    EXPECT_EQ(amp_tensor_dtype(op("pow", {tensor(AMP_BF16, {1}, {3}), two})), AMP_F32);
    EXPECT_EQ(numbers_of(op("pow", {tensor(AMP_I32, {2}, {-3, 4}), tensor(AMP_I32, {}, {2})})),
              (std::vector<double>{9, 16}));
    EXPECT_EQ(amp_tensor_numel(op("pow", {tensor(AMP_F32, {0, 3}), two})), 0);
    EXPECT_EQ(numbers_of(op("pow_", {x, two})), squares);
    EXPECT_EQ(numbers_of(op("pow_", {two, two})), (std::vector<double>{4}));
    const std::vector<double> inverses =
        numbers_of(op("pow", {tensor(AMP_F32, {3}, {-0.0, -INFINITY, -4}), tensor(AMP_F32, {1}, {-1})}));
    EXPECT_EQ(inverses, (std::vector<double>{-INFINITY, 0, -0.25}));
    EXPECT_TRUE(std::signbit(inverses[1]));
    const std::vector<double> roots =
        numbers_of(op("pow", {tensor(AMP_F32, {2}, {-0.0, -INFINITY}), tensor(AMP_F32, {}, {0.5})}));
    EXPECT_EQ(roots, (std::vector<double>{0, INFINITY}));
    EXPECT_FALSE(std::signbit(roots[0]));
}

TEST_F(Elementwise, BoolsHaveNoDifferencesAndNoQuotients) {
    amp_tensor *b = tensor(AMP_BOOL, {2}), *x = tensor(AMP_I64, {2});
    for (const auto &v : {std::vector<Value>{b, x}, {x, b}, {b, 2}, {b, b}, {x, amp_bool(true)}}) {
        EXPECT_EQ(op("sub", v), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"sub", "bool", "logical_xor"}));
    }
    for (const char *name : {"fmod", "remainder", "floor_divide"}) {
        EXPECT_EQ(op(name, {b, b}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {name, "bool"}));
        EXPECT_NE(op(name, {b, x}), nullptr) << name;
    }
}

} // namespace
