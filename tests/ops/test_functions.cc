// Functions and bits whose recorded cases leave out what is special: infinities, NaN, poles, widths of integers.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;

class Functions : public Test {
  protected:
    const double inf = INFINITY, nan = NAN;

    void expect(const char *name, const Numbers &x, const Numbers &want, double tolerance = 1e-15) {
        SCOPED_TRACE(name);
        expect_near(op(name, {tensor(AMP_F64, {int64_t(x.size())}, x)}), want, tolerance);
        expect_near(op(name, {tensor(AMP_F32, {int64_t(x.size())}, x)}), want, 1e-6);
    }
    void expect(const char *name, const Numbers &x, const Numbers &y, const Numbers &want) {
        SCOPED_TRACE(name);
        for (amp_dtype dtype : {AMP_F64, AMP_F32}) {
            amp_tensor *a = tensor(dtype, {int64_t(x.size())}, x), *b = tensor(dtype, {int64_t(y.size())}, y);
            expect_near(op(name, {a, b}), want, dtype == AMP_F64 ? 1e-15 : 1e-6);
        }
    }
};

TEST_F(Functions, OfOneElement) {
    expect("exp2", {0, 3, -1, inf, -inf, nan}, {1, 8, 0.5, inf, 0, nan});
    expect("asinh", {0, 1, -inf, nan}, {0, 0.881373587019543025, -inf, nan});
    expect("acosh", {1, 2, inf, 0.5, nan}, {0, 1.316957896924816709, inf, nan, nan});
    expect("atanh", {0, 0.5, 1, -1, 2}, {0, 0.549306144334054846, inf, -inf, nan});
    expect("erfc", {0, 1, inf, -inf, nan}, {1, 0.157299207050285131, 0, 2, nan});
    expect("lgamma", {1, 0.5, -0.5, 0, -1, inf, nan},
           {0, 0.572364942924700087, 1.265512123484645396, inf, inf, inf, nan});
    expect("digamma", {1, 0.5, -0.5, 10, 0, -0.0, -2, inf, nan},
           {-0.577215664901532861, -1.963510026021423479, 0.036489973978576520, 2.251752589066721107, -inf, inf, nan,
            inf, nan});
    expect("logit", {0.5, 0.25, 0, 1, 2, nan}, {0, -1.098612288668109691, -inf, inf, nan, nan});
    expect("angle", {2, -2, 0, nan, -inf}, {0, M_PI, 0, nan, M_PI});
    expect("tanhshrink", {0, 1, nan}, {0, 0.238405844044234943, nan});
    expect("hardshrink", {0.5, -0.5, 0.75, -0.75, nan}, {0, 0, 0.75, -0.75, nan});
    expect("softshrink", {0.5, -0.5, 0.75, -0.75, inf, nan}, {0, 0, 0.25, -0.25, inf, nan});
}

TEST_F(Functions, OfSmallResultsKeepTheirDigits) {
    EXPECT_NEAR(numbers_of(op("erfc", {tensor(AMP_F64, {1}, {20})}))[0] / 5.3958656116079009e-176, 1, 1e-14);
    const double tail = numbers_of(op("erfc", {tensor(AMP_F32, {1}, {9})}))[0];
    EXPECT_NEAR(tail / 4.13703174651381e-37, 1, 1e-6);
}

TEST_F(Functions, OfTwoElements) {
    expect("logaddexp2", {1, inf, -inf, nan}, {3, inf, -inf, 1}, {3.321928094887362348, inf, -inf, nan});
    expect("fmax", {1, nan, 2, nan}, {2, 1, nan, nan}, {2, 1, 2, nan});
    expect("fmin", {1, nan, 2, nan}, {2, 1, nan, nan}, {1, 1, 2, nan});
    expect("hypot", {3, 1e30, inf}, {4, 1e30, nan}, {5, 1e30 * std::sqrt(2.0), inf});
    expect("copysign", {1, -2, 3, nan}, {-0.0, 5, nan, 1}, {-1, 2, 3, nan});
    expect("xlogy", {0, 0, 2, 0, 1}, {0, nan, 4, inf, 0}, {0, nan, 2.772588722239781238, 0, -inf});
    expect("ldexp", {3, 1, -1}, {2, -1, 10}, {12, 0.5, -1024});
}

TEST_F(Functions, PromoteAsInPyTorch) {
    amp_tensor *i = tensor(AMP_I64, {2}, {2, -3}), *b = tensor(AMP_BF16, {2}, {2, -3}),
               *f = tensor(AMP_F32, {2}, {1, 2});
    for (const char *name : {"exp2", "asinh", "lgamma", "angle", "logit"})
        EXPECT_EQ(amp_tensor_dtype(op(name, {i})), AMP_F32) << name;
    EXPECT_EQ(amp_tensor_dtype(op("copysign", {i, i})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("xlogy", {i, i})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("ldexp", {b, f})), AMP_F32);
    EXPECT_EQ(amp_tensor_dtype(op("fmax", {i, i})), AMP_I64);
    EXPECT_EQ(numbers_of(op("fmax", {i, tensor(AMP_I64, {}, {0})})), (Numbers{2, 0}));
    EXPECT_EQ(amp_tensor_dtype(op("float_power", {b, 2})), AMP_F64);
    EXPECT_EQ(numbers_of(op("float_power", {i, i})), (Numbers{4, -1.0 / 27}));
    EXPECT_EQ(numbers_of(op("float_power", {2, f})), (Numbers{2, 4}));
    EXPECT_EQ(amp_tensor_dtype(op("float_power", {tensor(AMP_C64, {1}), f})), AMP_C128);
    EXPECT_EQ(op("float_power_", {f, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"float_power_", "f32", "f64"}));
    EXPECT_EQ(amp_tensor_dtype(op("angle", {tensor(AMP_C64, {2})})), AMP_F32);
    EXPECT_EQ(op("lgamma", {tensor(AMP_C64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"lgamma", "complex"}));
    EXPECT_EQ(op("hypot", {i, i}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"hypot", "i64"}));
    EXPECT_EQ(op("softshrink", {f, -0.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"softshrink", "lambd", "-0.5"}));
}

TEST_F(Functions, Infinities) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16, AMP_F16}) {
        amp_tensor *x = tensor(dtype, {4}, {inf, -inf, nan, 0});
        EXPECT_EQ(numbers_of(op("isposinf", {x})), (Numbers{1, 0, 0, 0}));
        EXPECT_EQ(numbers_of(op("isneginf", {x})), (Numbers{0, 1, 0, 0}));
        EXPECT_EQ(amp_tensor_dtype(op("isneginf", {x})), AMP_BOOL);
    }
    EXPECT_EQ(numbers_of(op("isposinf", {tensor(AMP_I64, {2})})), (Numbers{0, 0}));
    EXPECT_EQ(op("isposinf", {tensor(AMP_C64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"isposinf", "complex"}));
}

// ---- Bits ----

TEST_F(Functions, BitsOfEveryWidth) {
    for (amp_dtype dtype : {AMP_U8, AMP_I8, AMP_I16, AMP_I32, AMP_I64}) {
        amp_tensor *x = tensor(dtype, {3}, {12, 10, 127}), *y = tensor(dtype, {3}, {10, 3, 64});
        EXPECT_EQ(numbers_of(op("bitwise_and", {x, y})), (Numbers{8, 2, 64}));
        EXPECT_EQ(numbers_of(op("bitwise_or", {x, y})), (Numbers{14, 11, 127}));
        EXPECT_EQ(numbers_of(op("bitwise_xor", {x, 3})), (Numbers{15, 9, 124}));
        EXPECT_EQ(amp_tensor_dtype(op("bitwise_xor", {x, 3})), dtype);
        const double all = dtype == AMP_U8 ? 255 : -1;
        EXPECT_EQ(numbers_of(op("bitwise_not", {x})), (Numbers{all - 12, all - 10, all - 127}));
    }
    amp_tensor *yes = tensor(AMP_BOOL, {2}, {1, 0});
    EXPECT_EQ(numbers_of(op("bitwise_not", {yes})), (Numbers{0, 1}));
    EXPECT_EQ(numbers_of(op("bitwise_xor", {yes, tensor(AMP_BOOL, {2}, {1, 1})})), (Numbers{0, 1}));
    EXPECT_EQ(amp_tensor_dtype(op("bitwise_and", {yes, yes})), AMP_BOOL);
    EXPECT_EQ(amp_tensor_dtype(op("bitwise_and", {yes, tensor(AMP_I8, {2})})), AMP_I8);
}

TEST_F(Functions, ShiftsStopAtTheWidth) {
    amp_tensor *x = tensor(AMP_I8, {5}, {1, -128, 100, -1, 3}), *by = tensor(AMP_I8, {5}, {7, 1, 1, 8, -1});
    EXPECT_EQ(numbers_of(op("bitwise_left_shift", {x, by})), (Numbers{-128, 0, -56, 0, 0}));
    EXPECT_EQ(numbers_of(op("bitwise_right_shift", {x, by})), (Numbers{0, -64, 50, -1, 0}));
    amp_tensor *wide = tensor(AMP_I64, {3}, {1, -8, 5});
    EXPECT_EQ(numbers_of(op("bitwise_left_shift", {wide, 64})), (Numbers{0, 0, 0}));
    EXPECT_EQ(numbers_of(op("bitwise_right_shift", {wide, 2})), (Numbers{0, -2, 1}));
    EXPECT_EQ(numbers_of(op("bitwise_right_shift", {tensor(AMP_U8, {2}, {200, 255}), 7})), (Numbers{1, 1}));
}

TEST_F(Functions, BitsOfFloatsAreRefused) {
    amp_tensor *f = tensor(AMP_F32, {2}), *i = tensor(AMP_I64, {2}), *b = tensor(AMP_BOOL, {2});
    EXPECT_EQ(op("bitwise_and", {i, f}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"bitwise_and", "'other'", "f32", "integers or bools"}));
    EXPECT_EQ(op("bitwise_or", {i, 1.5}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"bitwise_or", "integers"}));
    EXPECT_EQ(op("bitwise_not", {f}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"bitwise_not", "'input'", "f32"}));
    EXPECT_EQ(op("bitwise_left_shift", {b, b}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"bitwise_left_shift", "bool", "integers"}));
}

// ---- logcumsumexp ----

TEST_F(Functions, LogcumsumexpDoesNotOverflow) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        amp_tensor *x = tensor(dtype, {2, 3}, {1000, 1000, -inf, -inf, -inf, 2});
        expect_near(op("logcumsumexp", {x, 1}), {1000, 1000 + M_LN2, 1000 + M_LN2, -inf, -inf, 2}, 1e-6);
        expect_near(op("logcumsumexp", {tensor(dtype, {4}, {0, inf, 1, nan}), 0}), {0, inf, inf, nan}, 1e-6);
    }
    expect_near(op("logcumsumexp", {op("t", {tensor(AMP_F64, {2, 2}, {0, 1, 0, 1})}), 1}), {0, M_LN2, 1, 1 + M_LN2},
                1e-15);
    EXPECT_EQ(op("logcumsumexp", {tensor(AMP_I64, {2}), 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"logcumsumexp", "i64"}));
    EXPECT_EQ(amp_tensor_numel(op("logcumsumexp", {tensor(AMP_F32, {0, 2}), 0})), 0);
}

// ---- Diagonals, determinants ----

TEST_F(Functions, Diagonals) {
    amp_tensor *v = tensor(AMP_F32, {2}, {1, 2});
    EXPECT_EQ(numbers_of(op("diag", {v})), (Numbers{1, 0, 0, 2}));
    EXPECT_EQ(numbers_of(op("diag", {v, 1})), (Numbers{0, 1, 0, 0, 0, 2, 0, 0, 0}));
    EXPECT_EQ(numbers_of(op("diag", {tensor(AMP_I64, {2, 3}, {1, 2, 3, 4, 5, 6}), -1})), (Numbers{4}));
    EXPECT_EQ(amp_tensor_numel(op("diag", {tensor(AMP_F32, {0})})), 0);
    amp_tensor *m = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(numbers_of(op("diag_embed", {m})), (Numbers{1, 0, 0, 2, 3, 0, 0, 4}));
    EXPECT_EQ(numbers_of(op("diagonal", {op("diag_embed", {m, -1, 0, 2}), -1, 0, 2})), numbers_of(m));
    EXPECT_EQ(op("diag", {op("unsqueeze", {m, 0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diag", "[1, 2, 2]"}));
    EXPECT_EQ(op("diag_embed", {m, 0, 1, -2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diag_embed", "dimension 1"}));
    for (int64_t offset : {INT64_MAX, INT64_MIN, INT64_MIN + 1}) {
        EXPECT_EQ(op("diag", {v, offset}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diag"}));
        EXPECT_EQ(op("diag_embed", {m, offset}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"diag_embed"}));
    }
}

TEST_F(Functions, Determinants) {
    for (amp_dtype dtype : {AMP_F32, AMP_F64}) {
        amp_tensor *m = tensor(dtype, {2, 2, 2}, {1, 2, 3, 4, 0, 1, 1, 0});
        expect_near(op("det", {m}), {-2, -1}, 1e-6);
        auto r = both("slogdet", {m});
        EXPECT_EQ(numbers_of(r[0]), (Numbers{-1, -1}));
        expect_near(r[1], {M_LN2, 0}, 1e-6);
        EXPECT_TRUE(std::isnan(numbers_of(op("logdet", {m}))[0]));
        expect_near(op("logdet", {tensor(dtype, {2, 2}, {2, 0, 0, 4})}), {std::log(8.0)}, 1e-6);
        amp_tensor *singular = tensor(dtype, {2, 2}, {1, 2, 2, 4});
        EXPECT_EQ(numbers_of(op("linalg_det", {singular})), (Numbers{0}));
        r = both("linalg_slogdet", {singular});
        EXPECT_EQ(numbers_of(r[0]), (Numbers{0}));
        EXPECT_EQ(numbers_of(r[1]), (Numbers{-inf}));
        EXPECT_EQ(numbers_of(op("logdet", {singular})), (Numbers{-inf}));
    }
    amp_tensor *c = op("view_as_complex", {tensor(AMP_F64, {2, 2, 2}, {0, 1, 0, 0, 0, 0, 3, 0})}); // diag(i, 3)
    auto r = both("linalg_slogdet", {c});
    expect_near(op("angle", {r[0]}), {M_PI / 2}, 1e-15);
    expect_near(r[1], {std::log(3.0)}, 1e-15);
    EXPECT_EQ(numbers_of(op("det", {tensor(AMP_BF16, {2, 0, 0})})), (Numbers{1, 1}));
    EXPECT_EQ(op("det", {tensor(AMP_F32, {2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"det", "square", "[2, 3]"}));
    EXPECT_EQ(op("linalg_det", {tensor(AMP_BF16, {2, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"linalg_det", "bf16"}));
}

} // namespace
