// Ordinary promotion, against PyTorch's own tables.
#include "amp_test.h"
#include "internals.h"

extern "C" {
#include "policy/promotion.h"
}

using namespace amp_test;

namespace {

const amp_dtype u1 = AMP_U8, i1 = AMP_I8, i2 = AMP_I16, i4 = AMP_I32, i8 = AMP_I64, f2 = AMP_F16, f4 = AMP_F32,
                f8 = AMP_F64, c8 = AMP_C64, c16 = AMP_C128, b1 = AMP_BOOL, bf = AMP_BF16;

const amp_dtype order[12] = {u1, i1, i2, i4, i8, f2, f4, f8, c8, c16, b1, bf};

// torch.promote_types of every pair, as PyTorch 2 answers; rows and columns in `order`. (PyTorch has c32, libamp has
// not; no pair without c32 gives it.)
const amp_dtype promoted[12][12] = {
    {u1, i2, i2, i4, i8, f2, f4, f8, c8, c16, u1, bf},            // u8
    {i2, i1, i2, i4, i8, f2, f4, f8, c8, c16, i1, bf},            // i8
    {i2, i2, i2, i4, i8, f2, f4, f8, c8, c16, i2, bf},            // i16
    {i4, i4, i4, i4, i8, f2, f4, f8, c8, c16, i4, bf},            // i32
    {i8, i8, i8, i8, i8, f2, f4, f8, c8, c16, i8, bf},            // i64
    {f2, f2, f2, f2, f2, f2, f4, f8, c8, c16, f2, f4},            // f16
    {f4, f4, f4, f4, f4, f4, f4, f8, c8, c16, f4, f4},            // f32
    {f8, f8, f8, f8, f8, f8, f8, f8, c16, c16, f8, f8},           // f64
    {c8, c8, c8, c8, c8, c8, c8, c16, c8, c16, c8, c8},           // c64
    {c16, c16, c16, c16, c16, c16, c16, c16, c16, c16, c16, c16}, // c128
    {u1, i1, i2, i4, i8, f2, f4, f8, c8, c16, b1, bf},            // bool
    {bf, bf, bf, bf, bf, f4, f4, f8, c8, c16, bf, bf},            // bf16
};

enum Category { boolean, integer, floating, complex_ };

Category category(amp_dtype d) {
    if (d == AMP_BOOL) return boolean;
    return amp_dtype_is_complex(d) ? complex_ : amp_dtype_is_floating(d) ? floating : integer;
}

// torch.result_type of a tensor with dimensions and a 0-dim one.
amp_dtype with_zero_dim(amp_dtype dimensioned, amp_dtype zero_dim, amp_dtype both) {
    if (category(zero_dim) <= category(dimensioned)) return dimensioned;
    if (category(dimensioned) == floating) return dimensioned == AMP_F64 ? AMP_C128 : AMP_C64;
    return both;
}

class Promotion : public Test {
  protected:
    static amp_dtype of(const char *name, const std::vector<Value> &values) {
        amp_tensor *t = op(name, values);
        EXPECT_NE(t, nullptr) << amp_last_error();
        amp_clear_error();
        return amp_tensor_dtype(t);
    }
};

std::string pair_of(amp_dtype a, amp_dtype b) {
    return std::string(amp_dtype_name(a)) + " and " + amp_dtype_name(b);
}

template <class Visit>
void for_each_pair(Visit visit) {
    for (int a = 0; a < 12; a++) {
        for (int b = 0; b < 12; b++) {
            SCOPED_TRACE(pair_of(order[a], order[b]));
            visit(order[a], order[b], promoted[a][b]);
        }
    }
}

} // namespace

TEST_F(Promotion, EveryPairAsInPyTorch) {
    for_each_pair([](amp_dtype a, amp_dtype b, amp_dtype expected) {
        EXPECT_STREQ(amp_dtype_name(amp_promote(a, b)), amp_dtype_name(expected));
    });
}

TEST_F(Promotion, NothingIsNeutral) {
    for (amp_dtype d : order) {
        EXPECT_EQ(amp_promote(d, AMP_DTYPE_NONE), d);
        EXPECT_EQ(amp_promote(AMP_DTYPE_NONE, d), d);
    }
}

TEST_F(Promotion, AddRunsInThePromotedType) {
    for_each_pair([](amp_dtype a, amp_dtype b, amp_dtype expected) {
        amp_tensor *sum = op("add", {tensor(a, {2}), tensor(b, {2})});
        ASSERT_NE(sum, nullptr) << amp_last_error();
        EXPECT_STREQ(amp_dtype_name(amp_tensor_dtype(sum)), amp_dtype_name(expected));
        EXPECT_EQ(numbers_of(sum)[1], expected == AMP_BOOL ? 1 : 2);
    });
}

TEST_F(Promotion, ZeroDimTensorsRaiseTheCategoryOnly) {
    for_each_pair([](amp_dtype a, amp_dtype b, amp_dtype both) {
        const amp_dtype expected = with_zero_dim(a, b, both);
        for (bool swapped : {false, true}) {
            amp_tensor *x = tensor(a, {2}), *y = tensor(b, {});
            amp_tensor *sum = swapped ? op("add", {y, x}) : op("add", {x, y});
            ASSERT_NE(sum, nullptr) << amp_last_error();
            EXPECT_STREQ(amp_dtype_name(amp_tensor_dtype(sum)), amp_dtype_name(expected));
        }
        amp_tensor *both_zero_dim = op("add", {tensor(a, {}), tensor(b, {})});
        EXPECT_EQ(amp_tensor_dtype(both_zero_dim), both) << "among 0-dim tensors the ordinary rule holds";
    });
}

TEST_F(Promotion, NumbersRaiseTheCategoryOnly) {
    for (amp_dtype d : order) {
        SCOPED_TRACE(amp_dtype_name(d));
        const bool whole = category(d) <= integer;
        EXPECT_EQ(of("mul", {tensor(d, {2}), true}), d);
        EXPECT_EQ(of("mul", {tensor(d, {2}), 3}), d == AMP_BOOL ? AMP_I64 : d);
        EXPECT_EQ(of("mul", {tensor(d, {2}), 0.5}), whole ? AMP_F32 : d);
        const amp_dtype complex_result = whole || category(d) == floating ? (d == AMP_F64 ? AMP_C128 : AMP_C64) : d;
        EXPECT_EQ(of("mul", {tensor(d, {2}), amp_complex(0, 1)}), complex_result);
        EXPECT_EQ(of("mul", {tensor(d, {}), 0.5}), whole ? AMP_F32 : d) << "a number is weaker than a 0-dim tensor";
    }
}

TEST_F(Promotion, ZeroDimTensorsAndNumbersTogether) {
    amp_tensor *whole = tensor(AMP_I32, {2}), *half = tensor(AMP_F16, {2}), *f64 = tensor(AMP_F64, {});
    amp_tensor *tensors[2] = {whole, f64};
    const amp_scalar complex_one = amp_complex(1, 0), real_one = amp_float(1);
    EXPECT_EQ(amp_result_type(tensors, 2, &real_one, 1), AMP_F64);
    EXPECT_EQ(amp_result_type(tensors, 2, &complex_one, 1), AMP_C128);
    tensors[0] = half;
    EXPECT_EQ(amp_result_type(tensors, 2, &complex_one, 1), AMP_C64);
    tensors[0] = nullptr;
    EXPECT_EQ(amp_result_type(tensors, 2, &complex_one, 1), AMP_C128) << "an absent tensor is skipped";
}

TEST_F(Promotion, ComparisonsGiveBool) {
    for (const char *name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
        for_each_pair([&](amp_dtype a, amp_dtype b, amp_dtype both) {
            if (amp_dtype_is_complex(both) && name[0] != 'e' && name[0] != 'n') return; // no order there
            EXPECT_EQ(of(name, {tensor(a, {2}), tensor(b, {2})}), AMP_BOOL) << name;
        });
        EXPECT_EQ(of(name, {tensor(AMP_F32, {2}), 1.0}), AMP_BOOL) << name;
    }
}

TEST_F(Promotion, ComparisonsCompareInThePromotedType) {
    amp_tensor *third_f32 = tensor(AMP_F32, {1}, {1.0 / 3}), *third_bf16 = tensor(AMP_BF16, {1}, {1.0 / 3});
    EXPECT_EQ(amp_item(op("eq", {third_bf16, third_f32})), 0);
    EXPECT_EQ(amp_item(op("lt", {tensor(AMP_I8, {1}, {-1}), tensor(AMP_U8, {1}, {255})})), 1);
    EXPECT_EQ(amp_item(op("lt", {tensor(AMP_I64, {1}, {1}), tensor(AMP_F32, {1}, {1.5})})), 1);
}

TEST_F(Promotion, DivisionOfIntegersIsF32) {
    for (amp_dtype d : {AMP_I64, AMP_I32, AMP_I16, AMP_I8, AMP_U8, AMP_BOOL}) {
        amp_tensor *half = op("div", {tensor(d, {1}, {1}), tensor(d, {1}, {1})});
        EXPECT_EQ(amp_tensor_dtype(half), AMP_F32) << amp_dtype_name(d);
    }
    EXPECT_EQ(amp_item(op("div", {tensor(AMP_I64, {1}, {1}), tensor(AMP_I64, {1}, {2})})), 0.5);
    EXPECT_EQ(of("div", {tensor(AMP_I64, {1}), tensor(AMP_BF16, {1})}), AMP_BF16);
}

TEST_F(Promotion, WhatMayBeWrittenInPlace) {
    // torch.can_cast: complex → real, float → int and anything → bool may not.
    for (amp_dtype from : order) {
        for (amp_dtype to : order) {
            const bool allowed = to == AMP_BOOL               ? from == AMP_BOOL
                                 : category(from) == complex_ ? category(to) == complex_
                                                              : category(from) != floating || category(to) >= floating;
            EXPECT_EQ(amp_can_cast(from, to), allowed) << pair_of(from, to);
            amp_tensor *target = tensor(to, {2});
            amp_tensor *result = op("add_", {target, tensor(from, {2})});
            const bool result_fits = amp_can_cast(amp_promote(from, to), to);
            EXPECT_EQ(result, result_fits ? target : nullptr) << pair_of(from, to) << " " << amp_last_error();
            if (!result_fits) {
                EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"add_", amp_dtype_name(to)}));
            }
            amp_clear_error();
        }
    }
}

// ---- Ops with rules of their own: what PyTorch 2.13 gives, as tests/compare_dtypes.py finds it ------------------------
TEST_F(Promotion, AZeroDimTensorThatIsBroadcastFirstWidens) {
    amp_tensor *number = tensor(AMP_F32, {}), *vector = tensor(AMP_BF16, {3});
    EXPECT_EQ(of("addr", {number, vector, vector}), AMP_F32);
    EXPECT_EQ(of("addr", {tensor(AMP_F64, {}), vector, vector}), AMP_F64);
    EXPECT_EQ(of("cosine_similarity", {number, vector, 0}), AMP_F32);
    EXPECT_EQ(of("cosine_similarity", {vector, tensor(AMP_F64, {}), 0}), AMP_F64);
    for (const char *loss : {"mse_loss", "l1_loss", "smooth_l1_loss"}) {
        EXPECT_EQ(of(loss, {number, vector}), AMP_F32) << loss;
        EXPECT_EQ(of(loss, {vector, tensor(AMP_F64, {})}), AMP_F64) << loss;
    }
    EXPECT_EQ(of("add", {number, vector}), AMP_BF16) << "not so in ordinary promotion";
}

TEST_F(Promotion, SomeLossesHaveTheDtypeOfOneArgument) {
    amp_tensor *half = tensor(AMP_BF16, {3}, {0.5}), *full = tensor(AMP_F32, {3}, {0.25});
    amp_tensor *wide = tensor(AMP_F64, {3}, {0.25});
    for (const char *loss : {"huber_loss", "soft_margin_loss", "hinge_embedding_loss"}) {
        EXPECT_EQ(of(loss, {half, full}), AMP_BF16) << loss;
        EXPECT_EQ(of(loss, {full, wide}), AMP_F32) << loss;
        EXPECT_EQ(of(loss, {wide, half}), AMP_F64) << loss;
    }
    EXPECT_EQ(of("binary_cross_entropy_with_logits", {full, half}), AMP_BF16) << "the target's";
    EXPECT_EQ(of("binary_cross_entropy_with_logits", {half, half, wide}), AMP_BF16) << "whatever the weight's is";
    EXPECT_EQ(of("binary_cross_entropy", {half, half, full}), AMP_BF16);
    EXPECT_EQ(of("kl_div", {half, full}), AMP_F32);
    // 0.5 · 0.25² in bf16; (0.5 - 0.25) is exact there
    EXPECT_EQ(numbers_of(op("huber_loss", {half, full, "none"})), std::vector<double>(3, 0.03125));
}

TEST_F(Promotion, HardtanhAndThresholdOfIntegersStayIntegers) {
    const std::vector<double> numbers = {-3, 0, 3};
    for (amp_dtype d : {AMP_I64, AMP_I32, AMP_I16, AMP_I8}) {
        amp_tensor *x = tensor(d, {3}, numbers), *clipped = op("hardtanh", {x, -1.5, 2});
        EXPECT_EQ(of("hardtanh", {x}), d);
        EXPECT_EQ(numbers_of(clipped), (std::vector<double>{-1, 0, 2})) << "bounds are cut to whole numbers";
        EXPECT_EQ(of("threshold", {x, 0.5, 1.7}), d);
        EXPECT_EQ(numbers_of(op("threshold", {x, 0.5, 1.7})), (std::vector<double>{1, 1, 3}));
        EXPECT_EQ(op("hardtanh_", {x, -1, 1}), x);
        EXPECT_EQ(numbers_of(x), (std::vector<double>{-1, 0, 1}));
    }
    const int64_t large[] = {INT64_MAX - 1, INT64_MIN + 1}, two[] = {2};
    amp_tensor *x = amp_from_data(large, AMP_I64, 1, two);
    amp_tensor *same = op("hardtanh", {x, INT64_MIN + 2, INT64_MAX - 2});
    ASSERT_EQ(amp_tensor_dtype(same), AMP_I64);
    EXPECT_EQ(static_cast<const int64_t *>(amp_data(same))[0], INT64_MAX - 2) << "no way round through double";
    EXPECT_EQ(static_cast<const int64_t *>(amp_data(same))[1], INT64_MIN + 2);
}

TEST_F(Promotion, NumbersThatAnIntegerCannotHoldAreRefused) {
    EXPECT_EQ(op("hardtanh", {tensor(AMP_I8, {2}), -200, 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"hardtanh", "'min_val' is -200", "i8"}));
    EXPECT_EQ(op("threshold", {tensor(AMP_I8, {2}), 4, 300}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"threshold", "'value' is 300", "i8"}));
    EXPECT_EQ(op("threshold", {tensor(AMP_I64, {2}), double(INFINITY), 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"threshold", "'threshold' is inf"}));
    EXPECT_EQ(op("hardtanh", {tensor(AMP_BOOL, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"hardtanh", "[2] bool"}));
}

TEST_F(Promotion, TheSquareOfABoolIsAnInteger) {
    amp_tensor *squares = op("square", {tensor(AMP_BOOL, {2}, {0, 1})});
    EXPECT_EQ(amp_tensor_dtype(squares), AMP_I64);
    EXPECT_EQ(numbers_of(squares), (std::vector<double>{0, 1}));
}

TEST_F(Promotion, AZeroDimWeightOfLerpMayHaveAnotherDtype) {
    amp_tensor *a = tensor(AMP_F32, {2}, {1, 2}), *b = tensor(AMP_F32, {2}, {3, 4});
    EXPECT_EQ(numbers_of(op("lerp", {a, b, tensor(AMP_BF16, {}, {0.5})})), (std::vector<double>{2, 3}));
    EXPECT_EQ(of("lerp", {a, b, tensor(AMP_F64, {}, {0.5})}), AMP_F32);
    EXPECT_EQ(op("lerp", {a, b, tensor(AMP_BF16, {2}, {0.5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"lerp", "'weight'"}));
}
