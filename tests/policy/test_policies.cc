// SEMANTICS 2 and 3: what autocast makes of each argument, rule by rule. On the CPU by the result's dtype; on CUDA
// through a device of the tests' own (fake_device.h), whose kernels note what they got.
#include "fake_device.h"

using namespace amp_test;
using fake_device::Dtypes;
using fake_device::seen;

namespace {

class Policies : public fake_device::Test {
  protected:
    static amp_dtype dtype_of(amp_tensor *t) {
        EXPECT_NE(t, nullptr) << amp_last_error();
        return amp_tensor_dtype(t);
    }

    static amp_autocast_args strict(amp_device device) {
        amp_autocast_args args = region_args(device);
        args.strict = true;
        return args;
    }
};

class Overrides : public Policies {
  protected:
    void TearDown() override {
        for (const char *name : {"mm", "add", "add.scalar", "linear", "norm", "contiguous", "unbind", "einsum"}) {
            EXPECT_EQ(amp_autocast_override(name, AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
            EXPECT_EQ(amp_autocast_override(name, AMP_DEVICE_CUDA, AMP_OVERRIDE_NONE), AMP_OK);
        }
        Policies::TearDown();
    }
};

using Tensors = std::vector<amp_tensor *>;

const amp_dtype all_dtypes[] = {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I64, AMP_I32,
                                AMP_I16, AMP_I8,  AMP_U8,  AMP_BOOL, AMP_C64, AMP_C128};

} // namespace

// ---- Eligibility ---------------------------------------------------------------------------------------------------
TEST_F(Policies, OnlyFloatingPointBelowF64IsEligible) {
    Region region(AMP_DEVICE_CUDA);
    for (amp_dtype dtype : all_dtypes) {
        const bool eligible = dtype == AMP_F32 || dtype == AMP_F16 || dtype == AMP_BF16;
        EXPECT_EQ(ran_in("mm", {on_cuda(dtype), on_cuda(AMP_F32)}), (Dtypes{eligible ? AMP_F16 : dtype, AMP_F16}))
            << amp_dtype_name(dtype);
    }
}

TEST_F(Policies, AnAbsentOptionalStaysAbsent) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("linear", {on_cuda(AMP_F32), on_cuda(AMP_F32)}), (Dtypes{AMP_F16, AMP_F16}));
    EXPECT_EQ(ran_in("linear", {on_cuda(AMP_F32), on_cuda(AMP_F32), on_cuda(AMP_F32)}),
              (Dtypes{AMP_F16, AMP_F16, AMP_F16}));
}

TEST_F(Policies, ATensorOfAnotherDeviceIsNotCast) {
    Region cuda(AMP_DEVICE_CUDA);
    EXPECT_EQ(dtype_of(op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_F32, {2, 2})})), AMP_F32);
    Region cpu(AMP_DEVICE_CPU);
    EXPECT_EQ(dtype_of(op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_F32, {2, 2})})), AMP_BF16);
    EXPECT_EQ(ran_in("mm", {on_cuda(AMP_F32), on_cuda(AMP_F32)}), (Dtypes{AMP_F16, AMP_F16}));
}

TEST_F(Policies, MixedDevicesAreAnErrorThatNamesThem) {
    for (int enabled = 0; enabled < 2; enabled++) {
        amp_autocast_args args = region_args(AMP_DEVICE_CUDA);
        args.enabled = AMP_SET(enabled != 0);
        Region region(args);
        EXPECT_EQ(op("mm", {on_cuda(AMP_F32), tensor(AMP_F32, {2, 2})}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"mm", "'mat2'", "cpu", "cuda"}));
        EXPECT_EQ(op("mm", {tensor(AMP_F32, {2, 2}), on_cuda(AMP_F32)}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"mm", "'input'", "cpu", "cuda"}));
        EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{tensor(AMP_F32, {2}), on_cuda(AMP_F32)}}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"cat", "'tensors'"}));
    }
    EXPECT_EQ(seen.calls, 0);
}

TEST_F(Policies, AnOutTensorOfAnotherDeviceIsAnError) {
    amp_tensor *a = tensor(AMP_F32, {2, 2});
    EXPECT_EQ(op("mm_out", {a, a}, {{"out", on_cuda(AMP_F32)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"mm_out", "'out'", "cuda", "cpu"}));
    EXPECT_EQ(op("mm_out", {on_cuda(AMP_F32), on_cuda(AMP_F32)}, {{"out", a}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"mm_out", "'out'", "cuda", "cpu"}));
}

TEST_F(Policies, F64StaysF64) {
    amp_tensor *a = tensor(AMP_F64, {2, 2}, {1, 2, 3, 4});
    amp_tensor *outside = op("mm", {a, a});
    Region region;
    amp_tensor *inside = op("mm", {a, a});
    EXPECT_EQ(dtype_of(inside), AMP_F64);
    EXPECT_EQ(numbers_of(inside), numbers_of(outside));
    Region cuda(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("pow", {on_cuda(AMP_F64), on_cuda(AMP_F64)}), (Dtypes{AMP_F64, AMP_F64}));
    EXPECT_EQ(ran_in("addcmul", {on_cuda(AMP_F64), on_cuda(AMP_F64), on_cuda(AMP_F64)}),
              (Dtypes{AMP_F64, AMP_F64, AMP_F64}));
}

TEST_F(Policies, AutocastIsOffInsideTheOp) {
    Region region(AMP_DEVICE_CUDA);
    ran_in("mm", {on_cuda(AMP_F32), on_cuda(AMP_F32)});
    EXPECT_FALSE(seen.autocast_inside);
    // matmul on the CPU is made of other ops: a product of two that are already cast.
    Region cpu;
    EXPECT_EQ(dtype_of(op("matmul", {tensor(AMP_F32, {2, 3, 4}), tensor(AMP_F32, {4, 2})})), AMP_BF16);
    EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU)) << "on again after the op";
}

// ---- In-place and out= forms ---------------------------------------------------------------------------------------
TEST_F(Policies, InPlaceAndOutFormsAreAllowedAndNotCast) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("mm_out", {on_cuda(AMP_F32), on_cuda(AMP_F32)}, {{"out", on_cuda(AMP_F32)}}),
              (Dtypes{AMP_F32, AMP_F32}));
    EXPECT_EQ(ran_in("pow_", {on_cuda(AMP_F16), on_cuda(AMP_F16)}), (Dtypes{AMP_F16, AMP_F16}));
    Region cpu;
    amp_tensor *a = tensor(AMP_F32, {2, 2}), *out = tensor(AMP_F32, {2, 2});
    EXPECT_EQ(op("mm_out", {a, a}, {{"out", out}}), out);
    EXPECT_EQ(amp_item(op("select", {op("select", {out, 0, 0}), 0, 0})), 2.0);
}

TEST_F(Policies, ADtypeMismatchInPlaceSaysThatItDoesNotAutocast) {
    Region region;
    amp_tensor *bf16 = tensor(AMP_BF16, {2, 2}), *f32 = tensor(AMP_F32, {2, 2});
    EXPECT_EQ(op("addmm_", {bf16, f32, bf16}), nullptr);
    EXPECT_TRUE(
        failed_with(AMP_ERROR_DTYPE, {"addmm_", "'", "f32", "bf16", "in-place and out= forms do not autocast"}));
    EXPECT_EQ(op("mm_out", {f32, bf16}, {{"out", bf16}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"mm_out", "f32", "bf16", "in-place and out= forms do not autocast"}));
    amp_tensor *whole = tensor(AMP_I32, {2, 2});
    EXPECT_EQ(op("mm_out", {f32, f32}, {{"out", whole}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"mm_out", "'out'", "i32", "f32", "do not autocast"}));
}

// ---- Each policy ---------------------------------------------------------------------------------------------------
TEST_F(Policies, LowerCastsEveryEligibleArgument) {
    {
        Region region(AMP_DEVICE_CUDA, AMP_BF16);
        EXPECT_EQ(ran_in("addmm", {on_cuda(AMP_F32), on_cuda(AMP_F16), on_cuda(AMP_BF16)}),
                  (Dtypes{AMP_BF16, AMP_BF16, AMP_BF16}));
    }
    for (amp_dtype lower : {AMP_BF16, AMP_F16}) {
        Region region(AMP_DEVICE_CPU, lower);
        for (amp_dtype a : {AMP_F32, AMP_BF16, AMP_F16}) {
            for (amp_dtype b : {AMP_F32, AMP_BF16, AMP_F16}) {
                EXPECT_EQ(dtype_of(op("mm", {tensor(a, {2, 2}), tensor(b, {2, 2})})), lower);
            }
        }
    }
}

TEST_F(Policies, LowerRoundsTheArgumentsOnce) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 8}, 1), *w = random_tensor(AMP_F32, {5, 8}, 2);
    amp_tensor *by_hand = op("linear", {op("to", {x, AMP_BF16}), op("to", {w, AMP_BF16})});
    Region region;
    EXPECT_EQ(numbers_of(op("linear", {x, w})), numbers_of(by_hand));
}

TEST_F(Policies, Fp32CastsEveryEligibleArgumentToF32) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("pow", {on_cuda(AMP_F16), on_cuda(AMP_BF16)}), (Dtypes{AMP_F32, AMP_F32}));
    EXPECT_EQ(ran_in("pow", {on_cuda(AMP_F16), on_cuda(AMP_I64)}), (Dtypes{AMP_F32, AMP_I64}));
    EXPECT_EQ(ran_in("layer_norm", {on_cuda(AMP_F16), AMP_DIMS(2), on_cuda(AMP_F16), on_cuda(AMP_F32)}),
              (Dtypes{AMP_F32, AMP_F32, AMP_F32}));
}

TEST_F(Policies, Fp32SetOptDtypeSetsTheOptionAndDoesNotCast) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("softmax", {on_cuda(AMP_F16), 0}), Dtypes{AMP_F16}) << "inputs are not cast";
    EXPECT_EQ(seen.option, AMP_F32);
    ran_in("softmax", {on_cuda(AMP_F16), 0}, {{"dtype", AMP_F64}});
    EXPECT_EQ(seen.option, AMP_F64) << "the caller's dtype stands";
    for (amp_dtype ineligible : {AMP_F64, AMP_I64}) {
        ran_in("sum", {on_cuda(ineligible)});
        EXPECT_EQ(seen.option, AMP_DTYPE_NONE) << "untouched";
    }
}

TEST_F(Policies, Fp32AppendDtypeAppendsF32OrTheFirstArgumentsDtype) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("norm", {on_cuda(AMP_F16)}), Dtypes{AMP_F16});
    EXPECT_EQ(seen.option, AMP_F32);
    ran_in("norm", {on_cuda(AMP_F64)});
    EXPECT_EQ(seen.option, AMP_F64);
    ran_in("norm", {on_cuda(AMP_F16)}, {{"dtype", AMP_F64}});
    EXPECT_EQ(seen.option, AMP_F64);
}

TEST_F(Policies, PromoteGoesToTheWidest) {
    Region region(AMP_DEVICE_CUDA);
    const auto addcmul = [](amp_dtype a, amp_dtype b, amp_dtype c) {
        return ran_in("addcmul", {on_cuda(a), on_cuda(b), on_cuda(c)});
    };
    EXPECT_EQ(addcmul(AMP_F16, AMP_F16, AMP_F16), (Dtypes{AMP_F16, AMP_F16, AMP_F16}));
    EXPECT_EQ(addcmul(AMP_F16, AMP_F32, AMP_F16), (Dtypes{AMP_F32, AMP_F32, AMP_F32})) << "any f32 makes it f32";
    EXPECT_EQ(addcmul(AMP_F16, AMP_F64, AMP_F16), (Dtypes{AMP_F16, AMP_F64, AMP_F16})) << "f64 is ignored";
    EXPECT_EQ(addcmul(AMP_F32, AMP_F64, AMP_I32), (Dtypes{AMP_F32, AMP_F64, AMP_I32}));
    EXPECT_EQ(addcmul(AMP_F16, AMP_BF16, AMP_F16), (Dtypes{AMP_F32, AMP_F32, AMP_F32})) << "another 16-bit float";
    EXPECT_EQ(addcmul(AMP_BF16, AMP_BF16, AMP_BF16), (Dtypes{AMP_F32, AMP_F32, AMP_F32}));
}

TEST_F(Policies, PromoteLooksIntoLists) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("cat", {std::vector<amp_tensor *>{on_cuda(AMP_F16), on_cuda(AMP_F32)}}),
              (Dtypes{AMP_F32, AMP_F32}));
    Region cpu;
    EXPECT_EQ(dtype_of(op("cat", {std::vector<amp_tensor *>{tensor(AMP_BF16, {2}), tensor(AMP_BF16, {3})}})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("cat", {std::vector<amp_tensor *>{tensor(AMP_BF16, {2}), tensor(AMP_F32, {3})}})), AMP_F32);
    EXPECT_EQ(dtype_of(op("stack", {std::vector<amp_tensor *>{tensor(AMP_F32, {2}), tensor(AMP_BF16, {2})}})), AMP_F32);
}

TEST_F(Policies, PromoteInAStrictRegionRefusesTheOtherSixteenBitFloat) {
    Region region(strict(AMP_DEVICE_CUDA));
    EXPECT_EQ(op("addcmul", {on_cuda(AMP_F16), on_cuda(AMP_BF16), on_cuda(AMP_F16)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"addcmul", "'tensor1'", "bf16", "strict", "f16"}));
    EXPECT_EQ(ran_in("addcmul", {on_cuda(AMP_F16), on_cuda(AMP_F32), on_cuda(AMP_F16)}),
              (Dtypes{AMP_F32, AMP_F32, AMP_F32}));
}

TEST_F(Policies, FallthroughRunsInTheArgumentTypes) {
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("add", {on_cuda(AMP_F16), on_cuda(AMP_F32)}), (Dtypes{AMP_F16, AMP_F32}));
    Region cpu;
    EXPECT_EQ(dtype_of(op("add", {tensor(AMP_BF16, {2}), tensor(AMP_F32, {2})})), AMP_F32) << "ordinary promotion";
    EXPECT_EQ(dtype_of(op("add", {tensor(AMP_BF16, {2}), tensor(AMP_F16, {2})})), AMP_F32);
    EXPECT_EQ(dtype_of(op("add", {tensor(AMP_BF16, {2}), tensor(AMP_BF16, {2})})), AMP_BF16);
}

TEST_F(Policies, BannedSaysWhatToCallInstead) {
    const auto loss = [] { return op("binary_cross_entropy", {on_cuda(AMP_F16), on_cuda(AMP_F32)}); };
    {
        Region region(AMP_DEVICE_CUDA);
        EXPECT_EQ(loss(), nullptr);
        EXPECT_TRUE(
            failed_with(AMP_ERROR_BANNED, {"binary_cross_entropy", "cuda", "binary_cross_entropy_with_logits"}));
    }
    EXPECT_NE(loss(), nullptr) << "outside of any region it runs";
    amp_autocast_args args = region_args(AMP_DEVICE_CUDA);
    args.allow_banned = true;
    Region region(args);
    EXPECT_EQ(ran_in("binary_cross_entropy", {on_cuda(AMP_F16), on_cuda(AMP_F32)}), (Dtypes{AMP_F32, AMP_F32}));
}

TEST_F(Policies, BelongToAnOverloadAndItsArguments) {
    EXPECT_STREQ(amp_autocast_policy("interpolate", AMP_DEVICE_CUDA, "torch"), "fp32");
    Region region(AMP_DEVICE_CUDA);
    EXPECT_EQ(ran_in("interpolate", {on_cuda(AMP_F16), AMP_DIMS(4)}, {{"mode", "bilinear"}}), Dtypes{AMP_F32});
    EXPECT_EQ(ran_in("interpolate", {on_cuda(AMP_F16), AMP_DIMS(4)}, {{"mode", "area"}}), Dtypes{AMP_F16})
        << "mode area falls through";
    EXPECT_EQ(ran_in("interpolate", {on_cuda(AMP_F16), AMP_DIMS(4)}), Dtypes{AMP_F32}) << "the default mode";
    EXPECT_EQ(ran_in("pow", {on_cuda(AMP_F16), 2.0}), Dtypes{AMP_F32});
    EXPECT_EQ(seen.op, "pow_scalar");
}

TEST_F(Policies, TableVersionsDiffer) {
    amp_autocast_args args = region_args(AMP_DEVICE_CUDA);
    args.table = "apex";
    {
        Region apex(args);
        EXPECT_EQ(ran_in("softmax", {on_cuda(AMP_F16), 0}), Dtypes{AMP_F32}) << "apex casts the input";
        EXPECT_EQ(ran_in("add", {on_cuda(AMP_F16), on_cuda(AMP_F32)}), (Dtypes{AMP_F32, AMP_F32}));
    }
    args.device = AMP_DEVICE_CPU;
    args.table = "ipex";
    Region ipex(args);
    EXPECT_EQ(amp_autocast_dtype_for("group_norm", AMP_DEVICE_CPU, nullptr), AMP_BF16);
}

// ---- Strict regions ------------------------------------------------------------------------------------------------
TEST_F(Policies, StrictMakesEveryBypassAnError) {
    Region region(strict(AMP_DEVICE_CPU));
    amp_tensor *f32 = tensor(AMP_F32, {2, 2}), *f64 = tensor(AMP_F64, {2, 2});
    EXPECT_EQ(op("addmm_", {f32, f32, f32}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"addmm_", "strict", "in-place"}));
    EXPECT_EQ(op("mm_out", {f32, f32}, {{"out", f32}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm_out", "strict", "out="}));
    EXPECT_EQ(op("mm", {f64, f64}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "strict", "f64"}));
    EXPECT_EQ(op("cat", {std::vector<amp_tensor *>{f32, f64}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cat", "strict", "f64"}));
    EXPECT_EQ(op("mm", {on_cuda(AMP_F32), on_cuda(AMP_F32)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm", "strict", "another device"}));
    EXPECT_EQ(op("stack", {std::vector<amp_tensor *>{on_cuda(AMP_F32)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stack", "strict", "another device"}));
}

TEST_F(Policies, StrictMindsOnlyWhatAutocastWouldCast) {
    Region region(strict(AMP_DEVICE_CPU));
    amp_tensor *f32 = tensor(AMP_F32, {2, 2}), *f64 = tensor(AMP_F64, {2, 2});
    EXPECT_EQ(dtype_of(op("mm", {f32, f32})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("add_", {f32, f32})), AMP_F32) << "add falls through in any form";
    EXPECT_EQ(dtype_of(op("add", {f64, f64})), AMP_F64);
    EXPECT_EQ(ran_in("add", {on_cuda(AMP_F32), on_cuda(AMP_F32)}), (Dtypes{AMP_F32, AMP_F32}));
    EXPECT_EQ(dtype_of(op("zeros", {AMP_DIMS(2)})), AMP_F32);
    EXPECT_EQ(dtype_of(op("t", {f32})), AMP_F32);
}

TEST_F(Policies, StrictLetsThroughWhatBypassesNothing) {
    amp_tensor *whole = tensor(AMP_I64, {2, 2}), *out = tensor(AMP_I64, {4, 2});
    {
        Region region(strict(AMP_DEVICE_CUDA));
        EXPECT_NE(op("sum", {whole}), nullptr) << amp_last_error();
        EXPECT_EQ(op("sum", {tensor(AMP_F32, {2})}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sum", "strict", "another device"}));
    }
    Region region(strict(AMP_DEVICE_CPU));
    EXPECT_EQ(op("cat_out", {std::vector<amp_tensor *>{whole, whole}}, {{"out", out}}), out) << amp_last_error();
    amp_tensor *f64 = tensor(AMP_F64, {2, 2});
    EXPECT_EQ(op("mm_out", {f64, f64}, {{"out", f64}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm_out", "strict", "f64"}));
}

TEST_F(Policies, ADisabledBlockInAStrictRegionIsFree) {
    Region outer(strict(AMP_DEVICE_CPU));
    amp_autocast_args off = region_args();
    off.enabled = AMP_SET(false);
    Region inner(off);
    amp_tensor *f64 = tensor(AMP_F64, {2, 2});
    EXPECT_EQ(dtype_of(op("mm", {f64, f64})), AMP_F64);
}

// ---- Ops that are made of others -------------------------------------------------------------------------------------
TEST_F(Policies, ProductsInsideOfEinsumAndItsKinAreCast) {
    amp_tensor *a = tensor(AMP_F32, {2, 3}), *b = tensor(AMP_F32, {3, 4}), *v = tensor(AMP_F32, {3});
    amp_tensor *low = tensor(AMP_BF16, {2, 3}), *square = tensor(AMP_F32, {3, 3});
    Region region;
    EXPECT_EQ(dtype_of(op("einsum", {"ij,jk->ik", Tensors{a, b}})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("einsum", {"ij,jk->ik", Tensors{low, b}})), AMP_BF16) << "mixed types, as bmm has them";
    EXPECT_EQ(dtype_of(op("einsum", {"ij,jk,kl->il", Tensors{a, square, b}})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("einsum", {"i,j->ij", Tensors{v, v}})), AMP_F32) << "mul and sum are not";
    EXPECT_EQ(dtype_of(op("einsum", {"ij->i", Tensors{a}})), AMP_F32);
    EXPECT_EQ(dtype_of(op("einsum", {"ij,jk->ik", Tensors{tensor(AMP_F64, {2, 3}), tensor(AMP_F64, {3, 4})}})),
              AMP_F64);
    EXPECT_EQ(dtype_of(op("tensordot", {a, b, 1})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("tensordot", {v, tensor(AMP_F32, {4}), 0})), AMP_BF16) << "a product of matrices";
    EXPECT_EQ(dtype_of(op("tensordot", {a, a, 2})), AMP_F32) << "one of vectors";
    EXPECT_EQ(dtype_of(op("linalg_multi_dot", {Tensors{v, b, tensor(AMP_F32, {4})}})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("chain_matmul", {Tensors{a, b}})), AMP_BF16);
    EXPECT_EQ(numbers_of(op("einsum", {"ij,jk->ik", Tensors{a, b}})), numbers_of(op("mm", {a, b})));
}

TEST_F(Policies, InterpolateByAreaIsCastAsThePoolingInsideOfItIs) {
    amp_tensor *volume = tensor(AMP_BF16, {1, 2, 4, 4, 4}), *image = tensor(AMP_BF16, {1, 2, 4, 4});
    Region region;
    EXPECT_EQ(dtype_of(op("interpolate", {volume}, {{"size", AMP_DIMS(2, 2, 2)}, {"mode", "area"}})), AMP_F32);
    EXPECT_EQ(dtype_of(op("interpolate", {image}, {{"size", AMP_DIMS(2, 2)}, {"mode", "area"}})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("interpolate", {volume}, {{"size", AMP_DIMS(2, 2, 2)}})), AMP_BF16);
}

// What PyTorch 2.13 gives: the gates are of linear's type, a state keeps its own.
TEST_F(Policies, CellsGiveWhatTheirGatesAndTheirStateGive) {
    const struct {
        const char *op;
        amp_dtype input, h, c, result;
    } rows[] = {
        {"lstm_cell", AMP_F32, AMP_F32, AMP_F32, AMP_F32},      {"lstm_cell", AMP_BF16, AMP_BF16, AMP_F32, AMP_F32},
        {"lstm_cell", AMP_F32, AMP_F32, AMP_BF16, AMP_BF16},    {"gru_cell", AMP_F32, AMP_F32, AMP_F32, AMP_F32},
        {"gru_cell", AMP_F32, AMP_BF16, AMP_F32, AMP_BF16},     {"gru_cell", AMP_BF16, AMP_F32, AMP_F32, AMP_F32},
        {"rnn_tanh_cell", AMP_F32, AMP_F32, AMP_F32, AMP_BF16}, {"rnn_relu_cell", AMP_F32, AMP_F32, AMP_F32, AMP_BF16}};
    for (const auto &row : rows) {
        const bool lstm = !std::strcmp(row.op, "lstm_cell");
        const int64_t gates = lstm ? 12 : std::strcmp(row.op, "gru_cell") ? 3 : 9;
        const Value w_ih = random_tensor(AMP_F32, {gates, 5}, 1), w_hh = random_tensor(AMP_F32, {gates, 3}, 2);
        const Value b_ih = random_tensor(AMP_F32, {gates}, 3), b_hh = random_tensor(AMP_F32, {gates}, 4);
        amp_tensor *x = random_tensor(row.input, {2, 5}, 5), *h = random_tensor(row.h, {2, 3}, 6);
        amp_tensor *c = random_tensor(row.c, {2, 3}, 7);
        const auto f32 = [](amp_tensor *t) { return op("to", {t, AMP_F32}); };
        const Tensors state = lstm ? Tensors{h, c} : Tensors{h},
                      wide = lstm ? Tensors{f32(h), f32(c)} : Tensors{f32(h)};
        std::vector<amp_tensor *> inside, outside;
        ASSERT_EQ(call(row.op, {f32(x), wide, w_ih, w_hh, b_ih, b_hh}, {}, &outside), AMP_OK) << amp_last_error();
        Region region;
        ASSERT_EQ(call(row.op, {x, state, w_ih, w_hh, b_ih, b_hh}, {}, &inside), AMP_OK) << amp_last_error();
        for (size_t i = 0; i < inside.size(); i++) {
            EXPECT_EQ(dtype_of(inside[i]), row.result) << row.op << " " << i;
            const std::vector<double> expected = numbers_of(outside[i]), found = numbers_of(inside[i]);
            for (size_t k = 0; k < found.size(); k++) EXPECT_NEAR(found[k], expected[k], 0.03) << row.op << " " << i;
        }
    }
}

TEST_F(Policies, PartsOfOutFormsAreNotCast) {
    amp_tensor *a = tensor(AMP_F32, {2, 3}), *b = tensor(AMP_F32, {3, 4}), *out = tensor(AMP_F32, {2, 4});
    Region region;
    EXPECT_EQ(op("tensordot_out", {a, b, 1}, {{"out", out}}), out) << amp_last_error();
    EXPECT_EQ(op("linalg_multi_dot_out", {Tensors{a, b}}, {{"out", out}}), out) << amp_last_error();
    EXPECT_EQ(op("tensordot_out", {a, op("to", {b, AMP_BF16}), 1}, {{"out", out}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"tensordot_out", "'b'", "do not autocast"}));
}

TEST_F(Policies, AWeightOfAPartIsCached) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *w = tensor(AMP_F32, {3, 4});
    amp_cast_cache_clear();
    Region region;
    op("tensordot", {x, w, 1});
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    op("tensordot", {x, w, 1});
    EXPECT_EQ(amp_cast_cache_statistics().hits, before.hits + 1);
    EXPECT_EQ(amp_cast_cache_statistics().entries, before.entries);
}

TEST_F(Policies, StrictLooksAtPartsToo) {
    amp_tensor *f64 = tensor(AMP_F64, {2, 2}), *f32 = tensor(AMP_F32, {2, 2});
    Region region(strict(AMP_DEVICE_CPU));
    EXPECT_NE(op("einsum", {"ij,jk->ik", Tensors{f32, f32}}), nullptr) << amp_last_error();
    EXPECT_EQ(op("einsum", {"ij,jk->ik", Tensors{f64, f64}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"einsum", "bmm", "an argument is f64"}));
}

TEST_F(Overrides, OfAnOpThatIsMadeOfOthers) {
    amp_tensor *a = tensor(AMP_F32, {2, 2}), *v = tensor(AMP_F32, {2});
    const auto product = [&] { return dtype_of(op("einsum", {"ij,jk->ik", Tensors{a, a}})); };
    const auto outer = [&] { return dtype_of(op("einsum", {"i,j->ij", Tensors{v, v}})); };
    const char *reason = nullptr;
    Region region;
    EXPECT_EQ(amp_autocast_dtype_for("einsum", AMP_DEVICE_CPU, &reason), AMP_DTYPE_NONE);
    EXPECT_STREQ(reason, "einsum: policy parts of torch on cpu: the ops that it is made of have their own");
    ASSERT_EQ(amp_autocast_override("einsum", AMP_DEVICE_CPU, AMP_OVERRIDE_ALLOW), AMP_OK);
    EXPECT_EQ(outer(), AMP_BF16);
    ASSERT_EQ(amp_autocast_override("einsum", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_OK);
    EXPECT_EQ(product(), AMP_F32);
    ASSERT_EQ(amp_autocast_override("einsum", AMP_DEVICE_CPU, AMP_OVERRIDE_CLEAR), AMP_OK);
    EXPECT_EQ(product(), AMP_F32);
    ASSERT_EQ(amp_autocast_override("einsum", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    EXPECT_EQ(product(), AMP_BF16);
}

// ---- Overrides -----------------------------------------------------------------------------------------------------
TEST_F(Overrides, AllowDenyAndClearStandAboveTheTable) {
    amp_tensor *f32 = tensor(AMP_F32, {2, 2}), *bf16 = tensor(AMP_BF16, {2, 2});
    Region region;
    ASSERT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_OK);
    EXPECT_EQ(dtype_of(op("mm", {bf16, f32})), AMP_F32);
    const char *reason = nullptr;
    EXPECT_EQ(amp_autocast_dtype_for("mm", AMP_DEVICE_CPU, &reason), AMP_F32);
    EXPECT_NE(std::string(reason).find("override"), std::string::npos) << reason;
    ASSERT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, AMP_OVERRIDE_CLEAR), AMP_OK);
    EXPECT_EQ(dtype_of(op("mm", {f32, f32})), AMP_F32);
    EXPECT_EQ(dtype_of(op("mm", {bf16, bf16})), AMP_BF16);
    ASSERT_EQ(amp_autocast_override("add", AMP_DEVICE_CPU, AMP_OVERRIDE_ALLOW), AMP_OK);
    EXPECT_EQ(dtype_of(op("add", {f32, f32})), AMP_BF16);
    EXPECT_EQ(dtype_of(op("add", {f32, 1.0})), AMP_BF16) << "every overload of the name";
    ASSERT_EQ(amp_autocast_override("add", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    EXPECT_EQ(dtype_of(op("add", {f32, f32})), AMP_F32);
}

TEST_F(Overrides, OneOverloadAndOneDevice) {
    Region region, cuda(AMP_DEVICE_CUDA);
    for (const char *name : {"add.scalar", "add_scalar"}) { // as in the tables, as in C
        ASSERT_EQ(amp_autocast_override(name, AMP_DEVICE_CPU, AMP_OVERRIDE_ALLOW), AMP_OK);
        amp_tensor *f32 = tensor(AMP_F32, {2, 2});
        EXPECT_EQ(dtype_of(op("add", {f32, 1.0})), AMP_BF16) << name;
        EXPECT_EQ(dtype_of(op("add", {f32, f32})), AMP_F32) << "another overload";
        EXPECT_EQ(ran_in("add", {on_cuda(AMP_F32), 1.0}), Dtypes{AMP_F32}) << "another device";
        ASSERT_EQ(amp_autocast_override(name, AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
        EXPECT_EQ(dtype_of(op("add", {f32, 1.0})), AMP_F32) << name;
    }
}

TEST_F(Overrides, ADeniedOpForgetsItsSpecialPolicy) {
    Region cuda(AMP_DEVICE_CUDA);
    ASSERT_EQ(amp_autocast_override("norm", AMP_DEVICE_CUDA, AMP_OVERRIDE_DENY), AMP_OK);
    EXPECT_EQ(ran_in("norm", {on_cuda(AMP_F16)}), Dtypes{AMP_F32});
    EXPECT_EQ(seen.option, AMP_DTYPE_NONE);
}

TEST_F(Overrides, ACastArgumentThatComesBackIsAResultOfItsOwn) {
    ASSERT_EQ(amp_autocast_override("contiguous", AMP_DEVICE_CPU, AMP_OVERRIDE_ALLOW), AMP_OK);
    ASSERT_EQ(amp_autocast_override("unbind", AMP_DEVICE_CPU, AMP_OVERRIDE_ALLOW), AMP_OK);
    amp_tensor *result = nullptr;
    std::vector<amp_tensor *> rows;
    {
        Scope scope;
        amp_tensor *f32 = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
        Region region;
        result = amp_keep(op("contiguous", {f32}));
        EXPECT_EQ(call("unbind", {f32}, {}, &rows), AMP_OK) << amp_last_error();
        for (amp_tensor *row : rows) amp_keep(row);
    }
    EXPECT_EQ(dtype_of(result), AMP_BF16);
    EXPECT_EQ(numbers_of(result), (std::vector<double>{1, 2, 3, 4})) << "the cast outlives the call and its argument";
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(dtype_of(rows[1]), AMP_BF16);
    EXPECT_EQ(numbers_of(rows[1]), (std::vector<double>{3, 4}));
    amp_release(result);
    for (amp_tensor *row : rows) amp_release(row);
}

TEST_F(Overrides, UnknownNamesAreErrors) {
    EXPECT_EQ(amp_autocast_override("no_such_op", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"no_such_op"}));
    EXPECT_EQ(amp_autocast_override("mm", static_cast<amp_device>(3), AMP_OVERRIDE_DENY), AMP_ERROR_DEVICE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"3"}));
    EXPECT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, static_cast<amp_override>(8)), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"8", "mm"}));
    EXPECT_EQ(amp_autocast_override(nullptr, AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"NULL"}));
}

// ---- The device behind it all --------------------------------------------------------------------------------------
TEST_F(Policies, ResultsAndCastsLiveInTheDevicesMemory) {
    Region region(AMP_DEVICE_CUDA);
    amp_tensor *w = on_cuda(AMP_F32);
    for (int i = 0; i < 2; i++) {
        amp_tensor *y = op("mm", {on_cuda(AMP_F32), w});
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_device(y), AMP_DEVICE_CUDA);
        EXPECT_EQ(seen.devices, (std::vector<amp_device>{AMP_DEVICE_CUDA, AMP_DEVICE_CUDA}));
        EXPECT_EQ(amp_data(y), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"cuda"}));
    }
    EXPECT_EQ(fake_device::copies, 3) << "each input, and the weight once: its cast is cached";
}

TEST_F(Policies, ADeviceWithoutMemoryIsACleanError) {
    Region region(AMP_DEVICE_CUDA);
    amp_tensor *x = on_cuda(AMP_F32), *w = on_cuda(AMP_F32);
    fake_device::out_of_memory = true;
    EXPECT_EQ(op("mm", {x, w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"no memory"}));
    EXPECT_EQ(op("add", {x, w}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"add", "fake", "no memory"}));
    fake_device::out_of_memory = false;
    EXPECT_NE(op("mm", {x, w}), nullptr) << amp_last_error();
}

TEST_F(Policies, AnOpThatTheDeviceLacksIsNotImplementedThere) {
    EXPECT_EQ(op("inverse", {on_cuda(AMP_F32)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"inv", "fake"}));
}
