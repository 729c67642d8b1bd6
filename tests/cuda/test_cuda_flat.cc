// Dense operands of one dtype have kernels of their own (flat.def), every formula that they take. Functions that these
// compute themselves, for want of registers or memory, are as exact as CUDA's and the CPU's.
#include <cmath>
#include <cstring>
#include <functional>
#include <set>

#include "cuda_test.h"

using namespace amp_test;

namespace {

class CudaFlat : public CudaTest {
  protected:
    static bool same_bits(amp_tensor *x, amp_tensor *y) {
        const size_t bytes = size_t(amp_tensor_numel(x)) * amp_dtype_size(amp_tensor_dtype(x));
        return amp_tensor_dtype(x) == amp_tensor_dtype(y) && memcmp(amp_data(x), amp_data(y), bytes) == 0;
    }
    // Within so many ulps of f32 of what f64 gives on the CPU.
    static void expect_near_f64(const char *name, const std::vector<float> &angles, double ulps) {
        SCOPED_TRACE(name);
        const int64_t shape[1] = {int64_t(angles.size())};
        amp_tensor *x = amp_from_data(angles.data(), AMP_F32, 1, shape);
        const std::vector<double> got = numbers_of(fetched(op(name, {sent(x)}))),
                                  want = numbers_of(op(name, {op("to", {x, AMP_F64})}));
        for (size_t i = 0; i < angles.size(); i++) {
            if (!std::isfinite(angles[i])) {
                EXPECT_TRUE(std::isnan(got[i])) << angles[i];
                continue;
            }
            const double ulp = std::ldexp(1.0, std::max(std::ilogb(want[i] == 0 ? 1e-38 : want[i]) - 23, -149));
            ASSERT_LE(std::abs(got[i] - want[i]), ulps * ulp) << angles[i];
        }
    }
};

enum Operands { X, XY, XYX, XN, NX, MXY, MXN }; // X, Y: tensors; M: a mask; N: a number

struct Case {
    const char *op;
    Operands operands;
    const char *formula; // the op's name, if NULL
    std::vector<Named> options;
};

const Case cases[] = {
    {"neg", X, nullptr, {}},
    {"abs", X, nullptr, {}},
    {"sign", X, nullptr, {}},
    {"ceil", X, nullptr, {}},
    {"floor", X, nullptr, {}},
    {"trunc", X, nullptr, {}},
    {"round", X, nullptr, {}},
    {"round", X, nullptr, {{"decimals", 2}}},
    {"sqrt", X, nullptr, {}},
    {"rsqrt", X, nullptr, {}},
    {"square", X, nullptr, {}},
    {"reciprocal", X, nullptr, {}},
    {"exp", X, nullptr, {}},
    {"expm1", X, nullptr, {}},
    {"log", X, nullptr, {}},
    {"log2", X, nullptr, {}},
    {"log10", X, nullptr, {}},
    {"log1p", X, nullptr, {}},
    {"sin", X, nullptr, {}},
    {"cos", X, nullptr, {}},
    {"tan", X, nullptr, {}},
    {"asin", X, nullptr, {}},
    {"acos", X, nullptr, {}},
    {"atan", X, nullptr, {}},
    {"sinh", X, nullptr, {}},
    {"cosh", X, nullptr, {}},
    {"tanh", X, nullptr, {}},
    {"sinc", X, nullptr, {}},
    {"erf", X, nullptr, {}},
    {"erfinv", X, nullptr, {}},
    {"sigmoid", X, nullptr, {}},
    {"relu", X, nullptr, {}},
    {"relu6", X, nullptr, {}},
    {"leaky_relu", X, nullptr, {}},
    {"elu", X, nullptr, {}},
    {"celu", X, nullptr, {}},
    {"selu", X, nullptr, {}},
    {"gelu", X, nullptr, {}},
    {"silu", X, nullptr, {}},
    {"mish", X, nullptr, {}},
    {"softplus", X, nullptr, {}},
    {"softsign", X, nullptr, {}},
    {"logsigmoid", X, nullptr, {}},
    {"hardsigmoid", X, nullptr, {}},
    {"hardswish", X, nullptr, {}},
    {"hardtanh", X, nullptr, {}},
    {"isnan", X, nullptr, {}},
    {"isinf", X, nullptr, {}},
    {"isfinite", X, nullptr, {}},
    {"logical_not", X, nullptr, {}},
    {"exp2", X, nullptr, {}},
    {"asinh", X, nullptr, {}},
    {"acosh", X, nullptr, {}},
    {"atanh", X, nullptr, {}},
    {"erfc", X, nullptr, {}},
    {"lgamma", X, nullptr, {}},
    {"digamma", X, nullptr, {}},
    {"logit", X, nullptr, {}},
    {"angle", X, nullptr, {}},
    {"hardshrink", X, nullptr, {}},
    {"softshrink", X, nullptr, {}},
    {"tanhshrink", X, nullptr, {}},
    {"nan_to_num", X, nullptr, {}},
    {"threshold", X, nullptr, {{"threshold", amp_float(0.1)}, {"value", amp_float(20)}}},
    {"gelu", X, "gelu_tanh", {{"approximate", "tanh"}}},
    {"add", XY, nullptr, {}},
    {"mul", XY, nullptr, {}},
    {"div", XY, nullptr, {}},
    {"maximum", XY, nullptr, {}},
    {"minimum", XY, nullptr, {}},
    {"pow", XY, nullptr, {}},
    {"fmod", XY, nullptr, {}},
    {"remainder", XY, nullptr, {}},
    {"atan2", XY, nullptr, {}},
    {"logaddexp", XY, nullptr, {}},
    {"logaddexp2", XY, nullptr, {}},
    {"fmax", XY, nullptr, {}},
    {"fmin", XY, nullptr, {}},
    {"hypot", XY, nullptr, {}},
    {"copysign", XY, nullptr, {}},
    {"xlogy", XY, nullptr, {}},
    {"eq", XY, nullptr, {}},
    {"ne", XY, nullptr, {}},
    {"lt", XY, nullptr, {}},
    {"le", XY, nullptr, {}},
    {"gt", XY, nullptr, {}},
    {"ge", XY, nullptr, {}},
    {"logical_and", XY, nullptr, {}},
    {"logical_or", XY, nullptr, {}},
    {"logical_xor", XY, nullptr, {}},
    {"div", XY, "div_trunc", {{"rounding_mode", "trunc"}}},
    {"floor_divide", XY, "div_floor", {}},
    {"mse_loss", XY, "mse", {{"reduction", "none"}}},
    {"l1_loss", XY, "l1", {{"reduction", "none"}}},
    {"soft_margin_loss", XY, "soft_margin", {{"reduction", "none"}}},
    {"hinge_embedding_loss", XY, "hinge_embedding", {{"reduction", "none"}}},
    {"smooth_l1_loss", XY, "smooth_l1", {{"reduction", "none"}}},
    {"huber_loss", XY, "huber", {{"reduction", "none"}}},
    {"kl_div", XY, "kl_div", {{"reduction", "none"}}},
    {"kl_div", XY, "kl_div_log", {{"reduction", "none"}, {"log_target", true}}},
    {"poisson_nll_loss", XY, "poisson", {{"reduction", "none"}}},
    {"poisson_nll_loss", XY, "poisson_plain", {{"reduction", "none"}, {"log_input", false}}},
    {"margin_ranking_loss", XYX, "margin_ranking", {{"reduction", "none"}}},
    {"binary_cross_entropy_with_logits", XY, "logits", {{"reduction", "none"}}},
    {"add", XN, nullptr, {}},
    {"pow", XN, nullptr, {}},
    {"pow", NX, nullptr, {}},
    {"xlogy", NX, nullptr, {}},
    {"eq", XN, nullptr, {}},
    {"clamp", XYX, nullptr, {}},
    {"lerp", XYX, nullptr, {}},
    {"addcmul", XYX, nullptr, {}},
    {"addcdiv", XYX, nullptr, {}},
    {"where", MXY, nullptr, {}},
    {"where", MXN, nullptr, {}},
};

// … and the bits are those of the kernel for any mixture, which a view that begins elsewhere takes.
TEST_F(CudaFlat, EveryFormulaOfDenseOperandsHasAKernelThatGivesTheSame) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_BF16}) {
        for (int64_t count : {2, 7, 8, 1029}) {
            const Scope scope;
            amp_tensor *x = sent(random_tensor(dtype, {count + 8}, 1)), *y = sent(random_tensor(dtype, {count + 8}, 2));
            amp_tensor *m = op("gt", {y, amp_float(0)});
            const auto of = [&](amp_tensor *t, bool dense) {
                amp_tensor *part = op("narrow", {t, 0, 1, count});
                return dense ? op("clone", {part}) : part;
            };
            const auto run = [&](const Case &c, bool dense) {
                amp_tensor *a = of(x, dense), *b = of(y, dense), *mask = of(m, dense);
                const amp_scalar number = amp_float(1.1);
                const std::vector<Value> operands[] = {{a},         {a, b},       {a, b, a},        {a, number},
                                                       {number, a}, {mask, a, b}, {mask, a, number}};
                fake->last_kernel[0] = 0;
                return op(c.op, operands[c.operands], c.options);
            };
            for (const Case &c : cases) {
                SCOPED_TRACE(std::string(c.op) + " " + amp_dtype_name(dtype) + " " + std::to_string(count));
                const std::string formula = c.formula ? c.formula : c.op;
                amp_tensor *dense = run(c, true);
                ASSERT_NE(dense, nullptr) << amp_last_error();
                EXPECT_EQ(fake->last_kernel, formula + "_flat_" + amp_dtype_name(dtype));
                amp_tensor *view = run(c, false);
                EXPECT_EQ(fake->last_kernel, formula + "_f32");
                EXPECT_TRUE(same_bits(fetched(dense), fetched(view)));
            }
        }
    }
}

TEST_F(CudaFlat, EveryCastOfADenseOneHasAKernelThatGivesTheSame) {
    const amp_dtype dtypes[] = {AMP_F32, AMP_F16, AMP_BF16};
    for (amp_dtype from : dtypes) {
        for (amp_dtype to : dtypes) {
            for (int64_t count : {2, 7, 8, 1029}) {
                if (from == to) continue;
                SCOPED_TRACE(std::string(amp_dtype_name(from)) + " " + amp_dtype_name(to));
                const Scope scope;
                amp_tensor *x = sent(random_tensor(from, {count + 8}, 1)), *part = op("narrow", {x, 0, 1, count});
                amp_tensor *dense = op("to", {op("clone", {part}), to});
                EXPECT_EQ(fake->last_kernel, std::string("cast_") + amp_dtype_name(from) + "_" + amp_dtype_name(to));
                EXPECT_TRUE(same_bits(fetched(dense), fetched(op("to", {part, to}))));
            }
        }
    }
}

// Whatever formula a dense operand of one dtype may take has one.
TEST_F(CudaFlat, TheTableNamesEveryFormula) {
    // Of bits, of complex numbers, and those that are computed in f64 alone.
    const std::set<std::string> others = {"same",       "conj",        "bitwise_not",      "conj_mul",    "bitwise_and",
                                          "bitwise_or", "bitwise_xor", "left_shift",       "right_shift", "cosine_loss",
                                          "cosine",     "triplet",     "cosine_of_squares"};
    std::set<std::string> all, flat;
#define F(name, inputs, types, expression) all.insert(#name);
#include "cuda/args/formulas.def"
#undef F
#define FLAT(name, inputs) flat.insert(#name);
#define QUESTION FLAT
#define MASKED FLAT
#include "cuda/args/flat.def"
#undef FLAT
#undef QUESTION
#undef MASKED
    for (const std::string &name : all) EXPECT_NE(flat.count(name), others.count(name)) << name;
}

TEST_F(CudaFlat, AnglesOfAnySizeAreReducedInF32) {
    std::vector<float> angles = {0.0f, -0.0f, 1e-42f, 65535.9f, 65536.0f, 3.4e38f, INFINITY, -INFINITY, NAN};
    for (uint32_t bits = 0; bits < 0x7f800000u; bits += 54321) {
        float x;
        memcpy(&x, &bits, sizeof x);
        angles.push_back(x);
        angles.push_back(-x);
    }
    for (int n = 1; n < 40000; n += 7) angles.push_back(float(n * M_PI_2)); // where little is left
    expect_near_f64("sin", angles, 2);
    expect_near_f64("cos", angles, 2);
    expect_near_f64("tan", angles, 4);
    const std::vector<double> zeros = numbers_of(fetched(op("sin", {sent(op("neg", {op("zeros", {AMP_DIMS(2)})}))})));
    EXPECT_TRUE(std::signbit(zeros[0]));
}

// Those that are computed in f64 are rounded once, but for what little of f64 is off.
TEST_F(CudaFlat, FormulasInF64AreRoundedOnce) {
    std::vector<float> inside, numbers;
    for (int i = -999; i < 1000; i++) inside.push_back(float(i) / 1000);
    inside.insert(inside.end(), {0.99999f, 0.9999999f, -0.9999999f, 1e-20f});
    for (int i = -3000; i < 3000; i++) numbers.push_back(float(i) * 0.01037f + 0.003f);
    expect_near_f64("erfinv", inside, 0.501);
    expect_near_f64("sinc", numbers, 0.501);
    expect_near_f64("digamma", numbers, 0.501);
}

} // namespace
