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
