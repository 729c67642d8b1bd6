// SEMANTICS 1: regions, their state, and what carries it from thread to thread. Section 3 is in test_policies.cc.
#include "amp_test.h"

#include <thread>

using namespace amp_test;

namespace {

class Autocast : public Test {
  protected:
    // The dtype that the region gives to a product of two f32 matrices.
    static amp_dtype product_dtype() {
        return amp_tensor_dtype(op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_F32, {2, 2})}));
    }
};

template <class Body>
void in_thread(Body body) {
    std::thread thread([&] {
        body();
        EXPECT_TRUE(no_error());
    });
    thread.join();
}

} // namespace

// ---- Entering and leaving ----------------------------------------------------------------------------------------
TEST_F(Autocast, OffUntilARegionOpens) {
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CUDA));
    EXPECT_EQ(amp_autocast_nesting(), 0);
    EXPECT_EQ(product_dtype(), AMP_F32);
}

TEST_F(Autocast, DefaultDtypesAreBf16OnCpuAndF16OnCuda) {
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_BF16);
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CUDA), AMP_F16);
    Region cpu(AMP_DEVICE_CPU), cuda(AMP_DEVICE_CUDA);
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_BF16);
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CUDA), AMP_F16);
    EXPECT_EQ(product_dtype(), AMP_BF16);
}

TEST_F(Autocast, BothDevicesAcceptBothSixteenBitTypes) {
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        for (amp_dtype dtype : {AMP_BF16, AMP_F16}) {
            Region region(amp_device(d), dtype);
            EXPECT_EQ(region.status, AMP_OK);
            EXPECT_EQ(amp_autocast_dtype(amp_device(d)), dtype);
        }
    }
}

TEST_F(Autocast, AnotherDtypeIsAnErrorThatNamesTheAcceptedOnes) {
    const char *names[] = {"cpu", "cuda"};
    for (int d = 0; d < AMP_DEVICE_COUNT; d++) {
        for (int dtype = AMP_F64; dtype < AMP_DTYPE_COUNT; dtype++) {
            if (dtype == AMP_BF16 || dtype == AMP_F16) continue;
            Region region(region_args(amp_device(d), amp_dtype(dtype)));
            EXPECT_FALSE(amp_autocast_is_enabled(amp_device(d)));
            EXPECT_EQ(amp_autocast_nesting(), 1) << "a failed enter counts as entered";
            EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {names[d], amp_dtype_name(amp_dtype(dtype)), "bf16", "f16"}));
        }
    }
}

TEST_F(Autocast, AFailedEnterChangesNoSetting) {
    Region outer(AMP_DEVICE_CPU, AMP_F16);
    {
        Region inner(AMP_DEVICE_CPU, AMP_I32);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"i32"}));
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
    }
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
    EXPECT_EQ(amp_autocast_nesting(), 1);
}

TEST_F(Autocast, UnknownDeviceTableAndMissingArgumentsAreErrors) {
    amp_autocast_args nowhere = region_args();
    const int seven = 7;
    std::memcpy(&nowhere.device, &seven, sizeof seven); // a value that C++ has not, and C has
    EXPECT_EQ(amp_autocast_enter(&nowhere), AMP_ERROR_DEVICE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"7", "AMP_DEVICE_CPU", "AMP_DEVICE_CUDA"}));
    EXPECT_EQ(amp_autocast_exit(static_cast<amp_device>(seven)), AMP_OK);
    {
        amp_autocast_args args = region_args();
        args.table = "tensorflow";
        Region region(args);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"tensorflow", "torch", "ipex", "apex"}));
    }
    EXPECT_EQ(amp_autocast_enter(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"NULL"}));
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_OK);
    {
        amp_autocast_args args = region_args();
        args.struct_size = 0;
        Region region(args);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"struct_size"}));
    }
    EXPECT_TRUE(no_error()) << "every one of them was left";
}

TEST_F(Autocast, AnOlderCallersShorterStructIsEnough) {
    amp_autocast_args args = region_args(AMP_DEVICE_CPU, AMP_F16);
    args.struct_size = offsetof(amp_autocast_args, enabled);
    args.enabled = AMP_SET(false); // beyond what the older caller had
    Region region(args);
    EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
}

TEST_F(Autocast, RegionsNestAndRestoreEverySetting) {
    amp_autocast_args outer = region_args(AMP_DEVICE_CPU, AMP_F16);
    outer.cache_enabled = AMP_SET(false);
    Region first(outer);
    {
        Region second(AMP_DEVICE_CPU, AMP_BF16);
        EXPECT_EQ(amp_autocast_nesting(), 2);
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_BF16);
        EXPECT_EQ(product_dtype(), AMP_BF16);
    }
    EXPECT_EQ(amp_autocast_nesting(), 1);
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
    EXPECT_FALSE(amp_autocast_cache_is_enabled(AMP_DEVICE_CPU));
}

TEST_F(Autocast, WhatARegionDoesNotSayIsAsAroundIt) {
    amp_autocast_args outer = region_args(AMP_DEVICE_CPU, AMP_F16);
    outer.cache_enabled = AMP_SET(false);
    Region first(outer);
    amp_autocast_args plain = {};
    plain.struct_size = sizeof plain;
    {
        Region second(plain);
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
        EXPECT_FALSE(amp_autocast_cache_is_enabled(AMP_DEVICE_CPU));
    }
    plain.cache_enabled = AMP_SET(true);
    Region third(plain);
    EXPECT_TRUE(amp_autocast_cache_is_enabled(AMP_DEVICE_CPU));
}

TEST_F(Autocast, InsideAStrictRegionAllAreStrict) {
    amp_autocast_args strict = region_args();
    strict.strict = true;
    Region outer(strict);
    Region inner;
    EXPECT_EQ(op("linear", {tensor(AMP_F64, {1, 2}), tensor(AMP_F64, {1, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"strict", "f64"}));
}

TEST_F(Autocast, ALongerStructThatAsksForMoreIsAnError) {
    struct Newer {
        amp_autocast_args args;
        void *option;
    } newer = {};
    newer.args.struct_size = sizeof newer;
    EXPECT_EQ(amp_autocast_enter(&newer.args), AMP_OK);
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_OK);
    newer.option = &newer;
    EXPECT_EQ(amp_autocast_enter(&newer.args), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"autocast", "does not know"}));
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_OK);
}

TEST_F(Autocast, EnabledFalseInsideSwitchesItOffForTheBlock) {
    Region outer;
    amp_autocast_args off = region_args();
    off.enabled = AMP_SET(false);
    {
        Region inner(off);
        EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(product_dtype(), AMP_F32);
        {
            Region on_again;
            EXPECT_EQ(product_dtype(), AMP_BF16);
        }
        EXPECT_EQ(product_dtype(), AMP_F32);
    }
    EXPECT_EQ(product_dtype(), AMP_BF16);
}

TEST_F(Autocast, ADisabledRegionValidatesNothing) {
    amp_autocast_args args = region_args(AMP_DEVICE_CPU, AMP_I64);
    args.enabled = AMP_SET(false);
    args.table = "no such table";
    Region region(args);
    EXPECT_EQ(region.status, AMP_OK);
    EXPECT_TRUE(no_error());
}

TEST_F(Autocast, DevicesAreIndependent) {
    Region cuda(AMP_DEVICE_CUDA);
    EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CUDA));
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_EQ(product_dtype(), AMP_F32) << "a region for cuda leaves the cpu alone";
    Region cpu(AMP_DEVICE_CPU, AMP_BF16);
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CUDA), AMP_F16);
    EXPECT_EQ(amp_autocast_nesting(), 2);
}

TEST_F(Autocast, ThreadsAreIndependent) {
    Region region(AMP_DEVICE_CPU, AMP_F16);
    in_thread([] {
        EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_BF16);
        EXPECT_EQ(amp_autocast_nesting(), 0);
        Region own(AMP_DEVICE_CPU, AMP_BF16);
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    });
    EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
}

TEST_F(Autocast, UnbalancedExitIsAnError) {
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"exit", "without an open region"}));
    EXPECT_EQ(amp_autocast_nesting(), 0);
}

TEST_F(Autocast, ExitForAnotherDeviceIsAnErrorAndLeavesTheRegionOpen) {
    Region region(AMP_DEVICE_CPU);
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CUDA), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cuda", "cpu"}));
    EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_EQ(amp_autocast_nesting(), 1);
    EXPECT_EQ(amp_autocast_restore_end(), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"captur"}));
}

TEST_F(Autocast, AStandingErrorDoesNotUnbalanceRegions) {
    EXPECT_EQ(op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_F32, {3, 3})}), nullptr);
    const amp_autocast_args args = region_args();
    EXPECT_EQ(amp_autocast_enter(&args), AMP_ERROR_INVALID) << "it returns the status that stands";
    EXPECT_EQ(amp_autocast_nesting(), 1);
    EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_ERROR_INVALID);
    EXPECT_EQ(amp_autocast_nesting(), 0);
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mm"}));
}

TEST_F(Autocast, TheBlockMacroOpensAndCloses) {
    amp_autocast(AMP_DEVICE_CPU, AMP_F16) {
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
        amp_autocast(AMP_DEVICE_CPU, AMP_DTYPE_NONE, false) {
            EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        }
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    }
    for (int i = 0; i < 3; i++) {
        amp_autocast(AMP_DEVICE_CPU) {
            if (i == 1) break; // leaves the block only
        }
        EXPECT_EQ(amp_autocast_nesting(), 0);
    }
}

TEST_F(Autocast, ReturnAndExceptionLeaveTheBlock) {
    const auto returns = [] {
        amp_autocast(AMP_DEVICE_CPU) {
            return amp_autocast_nesting();
        }
        return -1;
    };
    EXPECT_EQ(returns(), 1);
    EXPECT_EQ(amp_autocast_nesting(), 0);
    try {
        amp_autocast(AMP_DEVICE_CPU) {
            throw 1;
        }
    } catch (int) {
    }
    EXPECT_EQ(amp_autocast_nesting(), 0);
}

// ---- Capture and restore -----------------------------------------------------------------------------------------
TEST_F(Autocast, ACapturedStateIsRestoredInAnotherThread) {
    amp_autocast_args args = region_args(AMP_DEVICE_CPU, AMP_F16);
    args.cache_enabled = AMP_SET(false);
    Region cpu(args), cuda(AMP_DEVICE_CUDA, AMP_BF16);
    const amp_autocast_state state = amp_autocast_capture();
    in_thread([&] {
        EXPECT_EQ(amp_autocast_restore(&state), AMP_OK);
        EXPECT_EQ(amp_autocast_nesting(), 1);
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CUDA));
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_F16);
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CUDA), AMP_BF16);
        EXPECT_FALSE(amp_autocast_cache_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
        EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CPU), AMP_BF16);
    });
}

TEST_F(Autocast, CaptureCarriesStrictTableAndAllowBanned) {
    amp_autocast_args args = region_args();
    args.strict = args.allow_banned = true;
    args.table = "ipex";
    amp_autocast_state state;
    {
        Region region(args);
        state = amp_autocast_capture();
    }
    ASSERT_EQ(amp_autocast_restore(&state), AMP_OK);
    EXPECT_EQ(amp_autocast_dtype_for("group_norm", AMP_DEVICE_CPU, nullptr), AMP_BF16) << "only ipex lowers it";
    amp_tensor *f64 = tensor(AMP_F64, {2, 2});
    EXPECT_EQ(op("mm", {f64, f64}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"strict", "f64"}));
    const amp_autocast_state again = amp_autocast_capture();
    EXPECT_TRUE(again.device[AMP_DEVICE_CPU].allow_banned);
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
}

TEST_F(Autocast, ACapturedOffStateSwitchesOff) {
    const amp_autocast_state off = amp_autocast_capture();
    Region region;
    ASSERT_EQ(amp_autocast_restore(&off), AMP_OK);
    EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
    EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
}

TEST_F(Autocast, RestoringWhatWasNotCapturedIsAnError) {
    EXPECT_EQ(amp_autocast_restore(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"NULL"}));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK) << "it counts as entered";
    amp_autocast_state state = amp_autocast_capture();
    state.device[0].table = 99;
    EXPECT_EQ(amp_autocast_restore(&state), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"amp_autocast_capture"}));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
    state = amp_autocast_capture();
    state.device[1].dtype = AMP_I8;
    EXPECT_EQ(amp_autocast_restore(&state), AMP_ERROR_DTYPE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"i8"}));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
    EXPECT_EQ(amp_autocast_restore_end(), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"without an open region"}));
}

TEST_F(Autocast, AStateOfAnOlderOrNewerProgramIsRestored) {
    Region region;
    struct Newer {
        amp_autocast_state known;
        int more = 7;
    } newer;
    ASSERT_EQ(amp_autocast_get_state(&newer.known, sizeof newer), AMP_OK);
    EXPECT_EQ(newer.more, 0);
    const size_t one_device = sizeof newer.known.device[0];
    for (const size_t bytes : {one_device, sizeof newer.known, sizeof newer}) {
        amp_autocast_state off;
        ASSERT_EQ(amp_autocast_get_state(&off, sizeof off), AMP_OK);
        off.device[0].enabled = false;
        ASSERT_EQ(amp_autocast_enter_state(&off, one_device), AMP_OK);
        EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_EQ(amp_autocast_enter_state(&newer.known, bytes), AMP_OK);
        EXPECT_TRUE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
        EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CUDA)) << "what the program does not know is off";
        EXPECT_EQ(amp_autocast_dtype(AMP_DEVICE_CUDA), AMP_F16);
        EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
        EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
    }
    newer.more = 1;
    EXPECT_EQ(amp_autocast_enter_state(&newer.known, sizeof newer), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"does not know"}));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
    newer.known.device[0].reserved[3] = 1;
    EXPECT_EQ(amp_autocast_restore(&newer.known), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"amp_autocast_capture"}));
    EXPECT_EQ(amp_autocast_restore_end(), AMP_OK);
}

TEST_F(Autocast, WhatIsReservedIsZero) {
    amp_autocast_args args = {};
    args.struct_size = sizeof args;
    args.reserved[5] = 1;
    EXPECT_EQ(amp_autocast_enter(&args), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"autocast", "does not know"}));
    EXPECT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_OK);
}

// ---- Asking --------------------------------------------------------------------------------------------------------
TEST_F(Autocast, DtypeForTellsTheDtypeAndWhy) {
    const char *reason = nullptr;
    EXPECT_EQ(amp_autocast_dtype_for("linear", AMP_DEVICE_CPU, &reason), AMP_DTYPE_NONE);
    EXPECT_NE(std::string(reason).find("no enabled region"), std::string::npos) << reason;
    Region region(AMP_DEVICE_CPU, AMP_F16);
    EXPECT_EQ(amp_autocast_dtype_for("linear", AMP_DEVICE_CPU, &reason), AMP_F16);
    for (const char *word : {"linear", "lower", "torch", "cpu"}) {
        EXPECT_NE(std::string(reason).find(word), std::string::npos) << reason;
    }
    EXPECT_EQ(amp_autocast_dtype_for("mse_loss", AMP_DEVICE_CPU, nullptr), AMP_F32);
    EXPECT_EQ(amp_autocast_dtype_for("cat", AMP_DEVICE_CPU, &reason), AMP_DTYPE_NONE);
    EXPECT_NE(std::string(reason).find("widest"), std::string::npos) << reason;
    EXPECT_EQ(amp_autocast_dtype_for("add.scalar", AMP_DEVICE_CPU, &reason), AMP_DTYPE_NONE);
    EXPECT_NE(std::string(reason).find("fallthrough"), std::string::npos) << reason;
    EXPECT_EQ(amp_autocast_dtype_for("linear", AMP_DEVICE_CUDA, &reason), AMP_DTYPE_NONE);
    EXPECT_NE(std::string(reason).find("cuda"), std::string::npos) << reason;
}

TEST_F(Autocast, DtypeForKnowsTheRulesOfCuda) {
    amp_autocast_args args = region_args(AMP_DEVICE_CUDA);
    const char *reason = nullptr;
    {
        Region region(args);
        EXPECT_EQ(amp_autocast_dtype_for("softmax", AMP_DEVICE_CUDA, &reason), AMP_F32);
        EXPECT_NE(std::string(reason).find("fp32_set_opt_dtype"), std::string::npos) << reason;
        EXPECT_EQ(amp_autocast_dtype_for("norm", AMP_DEVICE_CUDA, &reason), AMP_F32);
        EXPECT_NE(std::string(reason).find("fp32_append_dtype"), std::string::npos) << reason;
        EXPECT_EQ(amp_autocast_dtype_for("binary_cross_entropy", AMP_DEVICE_CUDA, &reason), AMP_DTYPE_NONE);
        EXPECT_NE(std::string(reason).find("banned"), std::string::npos) << reason;
    }
    args.allow_banned = true;
    Region region(args);
    EXPECT_EQ(amp_autocast_dtype_for("binary_cross_entropy", AMP_DEVICE_CUDA, &reason), AMP_F32);
}

TEST_F(Autocast, QuestionsAboutWhatIsNotThereAreErrors) {
    Region region;
    EXPECT_EQ(amp_autocast_dtype_for("no_such_op", AMP_DEVICE_CPU, nullptr), AMP_DTYPE_NONE);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"no_such_op"}));
    EXPECT_EQ(amp_autocast_dtype_for(nullptr, AMP_DEVICE_CPU, nullptr), AMP_DTYPE_NONE);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"NULL"}));
    EXPECT_EQ(amp_autocast_dtype_for("mm", static_cast<amp_device>(-1), nullptr), AMP_DTYPE_NONE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"-1"}));
    EXPECT_EQ(amp_autocast_policy("mm", AMP_DEVICE_CPU, "jax"), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"jax"}));
    EXPECT_EQ(amp_autocast_policy("no_such_op", AMP_DEVICE_CPU, nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"no_such_op"}));
    EXPECT_FALSE(amp_autocast_is_enabled(static_cast<amp_device>(9)));
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"9"}));
}

TEST_F(Autocast, PoliciesCanBeAskedForByTable) {
    EXPECT_STREQ(amp_autocast_policy("linear", AMP_DEVICE_CPU, "torch"), "lower");
    EXPECT_STREQ(amp_autocast_policy("group_norm", AMP_DEVICE_CPU, "torch"), "fallthrough");
    EXPECT_STREQ(amp_autocast_policy("group_norm", AMP_DEVICE_CPU, "ipex"), "lower");
    EXPECT_STREQ(amp_autocast_policy("softmax", AMP_DEVICE_CUDA, "torch"), "fp32_set_opt_dtype");
    EXPECT_STREQ(amp_autocast_policy("norm", AMP_DEVICE_CUDA, "torch"), "fp32_append_dtype");
    EXPECT_STREQ(amp_autocast_policy("addcmul", AMP_DEVICE_CUDA, "torch"), "promote");
    EXPECT_STREQ(amp_autocast_policy("binary_cross_entropy", AMP_DEVICE_CUDA, "torch"), "banned");
    EXPECT_STREQ(amp_autocast_policy("binary_cross_entropy", AMP_DEVICE_CPU, nullptr), "fp32");
}

TEST_F(Autocast, TheDefaultTableCanBeSet) {
    ASSERT_EQ(amp_autocast_set_table("ipex"), AMP_OK);
    {
        Region region;
        EXPECT_EQ(amp_autocast_dtype_for("group_norm", AMP_DEVICE_CPU, nullptr), AMP_BF16);
    }
    EXPECT_EQ(amp_autocast_set_table("none such"), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"none such"}));
    ASSERT_EQ(amp_autocast_set_table("torch"), AMP_OK);
    Region region;
    EXPECT_EQ(amp_autocast_dtype_for("group_norm", AMP_DEVICE_CPU, nullptr), AMP_DTYPE_NONE);
}
