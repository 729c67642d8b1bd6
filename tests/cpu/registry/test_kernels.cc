// The registry: order, selection, refusals with reasons, self-tests, quarantine, AMP_MAX_ISA, AMP_VERBOSE.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "amp/system.h"

extern "C" {
#include "cpu/registry/kernels.h"
#include "machine/isa.h"
}

namespace {

class Kernels : public testing::Test {
  protected:
    void SetUp() override {
        forget();
    }
    void TearDown() override {
        forget();
    }
    void forget() {
        amp_kernel_fail_self_test_for_test(nullptr);
        amp_isa_reload_for_test(nullptr);
        unsetenv("AMP_VERBOSE");
        amp_clear_error();
    }
};

const amp_kernel *select_convert() {
    return amp_kernel_select(AMP_KERNEL_CONVERT, AMP_F32, AMP_BF16);
}

std::string key_of(const amp_kernel *k) {
    return std::string(amp_kernel_family_name(k->family)) + " " + amp_dtype_name(k->in) + " " + amp_dtype_name(k->out);
}

} // namespace

TEST_F(Kernels, EveryRowIsNamedAfterItsOpTypeAndIsa) {
    std::set<std::string> names;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i);
        const std::string name = k->name, isa = std::string("_") + amp_isa_name(k->isa);
        EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
        EXPECT_NE(name.find(isa), std::string::npos) << name;
        EXPECT_EQ(k, amp_kernel_find(k->name));
        EXPECT_EQ(k, amp_kernel_find(("amp_" + name).c_str()));
        EXPECT_EQ(!k->predicate, !k->requirement) << name << ": a requirement is a text and a predicate";
    }
    EXPECT_EQ(nullptr, amp_kernel_find("no_such_kernel"));
    EXPECT_EQ(nullptr, amp_kernel_at(-1));
    EXPECT_EQ(nullptr, amp_kernel_at(amp_kernel_count()));
}

TEST_F(Kernels, RowsOfAFamilyAreAdjacent) {
    std::set<int> seen;
    int last = -1;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const int family = amp_kernel_at(i)->family;
        if (family != last) {
            EXPECT_TRUE(seen.insert(family).second) << amp_kernel_at(i)->name;
        }
        last = family;
    }
    EXPECT_EQ(int(seen.size()), int(AMP_KERNEL_FAMILY_COUNT));
}

TEST_F(Kernels, EveryFamilyAndTypeEndsWithOneReferenceWithoutRequirement) {
    std::set<std::string> done;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i);
        EXPECT_FALSE(done.count(key_of(k))) << k->name << " stands below its reference";
        if (k->isa != AMP_ISA_REF) continue;
        EXPECT_EQ(nullptr, k->predicate) << k->name;
        EXPECT_TRUE(done.insert(key_of(k)).second);
    }
    for (int i = 0; i < amp_kernel_count(); i++) EXPECT_TRUE(done.count(key_of(amp_kernel_at(i))));
}

TEST_F(Kernels, EveryRowPassesItsSelfTestOrNamesTheMissingInstruction) {
    int usable = 0;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i);
        char reason[AMP_KERNEL_REASON_SIZE] = "";
        if (amp_kernel_usable(k, reason)) {
            EXPECT_STREQ(reason, "");
            usable++;
        } else if (!amp_isa_usable(k->isa)) {
            EXPECT_STREQ(reason, amp_isa_reason(k->isa)) << k->name;
        } else {
            EXPECT_TRUE(k->predicate) << k->name << ": " << reason;
        }
    }
    EXPECT_GT(usable, 0);
    EXPECT_EQ(0, amp_kernel_quarantined(nullptr, 0));
}

TEST_F(Kernels, TheFirstUsableRowIsSelected) {
    const amp_kernel *selected = select_convert();
    ASSERT_TRUE(selected);
    for (int i = 0; amp_kernel_at(i) != selected; i++) {
        const amp_kernel *k = amp_kernel_at(i);
        if (key_of(k) == key_of(selected)) {
            EXPECT_FALSE(amp_kernel_usable(k, nullptr)) << k->name;
        }
    }
    EXPECT_EQ(selected, select_convert());
}

TEST_F(Kernels, ACapSelectsTheRowOfThatIsaAndRefusesTheOthersWithTheReason) {
    for (int cap = AMP_ISA_REF; cap < AMP_ISA_AMX; cap++) {
        amp_isa_reload_for_test(amp_isa_name(amp_isa(cap)));
        if (amp_isa_best() != cap) continue; // the machine has less
        const amp_kernel *selected = select_convert();
        ASSERT_TRUE(selected);
        EXPECT_EQ(selected->isa, cap);
        amp_kernel_refusal refusals[8];
        const int count = amp_kernel_refusals(AMP_KERNEL_CONVERT, AMP_F32, AMP_BF16, nullptr, refusals, 8);
        EXPECT_EQ(count, AMP_ISA_AVX512BF16 - cap);
        for (int i = 0; i < count; i++) EXPECT_STREQ(refusals[i].reason, amp_isa_reason(refusals[i].kernel->isa));
    }
}

TEST_F(Kernels, ARowThatRanNamesThoseAboveItWithTheReasonOrTheirRequirement) {
    amp_kernel_refusal passed[8];
    EXPECT_EQ(0, amp_kernel_passed_over(amp_kernel_find("gemm_bf16_amx"), passed, 8));
    const int count = amp_kernel_passed_over(amp_kernel_find("gemm_bf16_ref"), passed, 8);
    ASSERT_GE(count, 2) << "the two with a requirement, at the least";
    for (int i = 0; i < count; i++) {
        const amp_kernel *k = passed[i].kernel;
        const std::string reason = passed[i].reason;
        EXPECT_NE(reason, "");
        if (amp_kernel_usable(k, nullptr)) {
            ASSERT_TRUE(k->requirement) << k->name;
            EXPECT_EQ(reason, std::string("it runs only where ") + k->requirement);
        }
    }
    EXPECT_STREQ(passed[0].kernel->name, "gemm_bf16_amx");
    EXPECT_STREQ(passed[1].kernel->name, "gemm_bf16_avx512bf16");
}

TEST_F(Kernels, AFailedSelfTestIsQuarantinedAndTheNextRowTaken) {
    const amp_kernel *best = select_convert();
    ASSERT_TRUE(best);
    amp_kernel_fail_self_test_for_test(best->name);
    const amp_kernel *next = select_convert();
    if (best->isa == AMP_ISA_REF) {
        EXPECT_EQ(nullptr, next);
        return;
    }
    ASSERT_TRUE(next);
    EXPECT_NE(next, best);
    EXPECT_EQ(next->family, best->family);
    amp_kernel_refusal refusal[4];
    ASSERT_EQ(1, amp_kernel_quarantined(refusal, 4));
    EXPECT_EQ(refusal[0].kernel, best);
    EXPECT_STREQ(refusal[0].reason, "a test made it fail");
    const int refused = amp_kernel_refusals(best->family, best->in, best->out, nullptr, refusal, 4);
    ASSERT_GE(refused, 1);
    EXPECT_STREQ(refusal[refused - 1].reason, "it is quarantined: a test made it fail");
}

TEST_F(Kernels, NothingLeftIsAnErrorThatSaysWhy) {
    amp_isa_reload_for_test("ref");
    amp_kernel_fail_self_test_for_test("convert_f32_f16_ref");
    EXPECT_EQ(nullptr, amp_kernel_select(AMP_KERNEL_CONVERT, AMP_F32, AMP_F16));
    EXPECT_EQ(AMP_ERROR_INTERNAL, amp_last_status());
    EXPECT_NE(std::string(amp_last_error()).find("no kernel of family CONVERT from f32 to f16 can run"),
              std::string::npos)
        << amp_last_error();
}

TEST_F(Kernels, AnUnknownCombinationIsAnError) {
    EXPECT_EQ(nullptr, amp_kernel_select(AMP_KERNEL_CONVERT, AMP_F32, AMP_I8));
    EXPECT_EQ(AMP_ERROR_NOT_IMPLEMENTED, amp_last_status());
    EXPECT_STREQ(amp_last_error(), "there is no kernel of family CONVERT from f32 to i8");
    amp_clear_error();
    EXPECT_EQ(nullptr, amp_kernel_select(amp_kernel_family(999), AMP_F32, amp_dtype(77)));
    EXPECT_EQ(AMP_ERROR_NOT_IMPLEMENTED, amp_last_status());
}

TEST_F(Kernels, NonsenseInAmpMaxIsaStopsEverySelection) {
    amp_isa_reload_for_test("nonsense");
    EXPECT_EQ(nullptr, select_convert());
    EXPECT_EQ(AMP_ERROR_INVALID, amp_last_status());
    EXPECT_STREQ(amp_last_error(), "AMP_MAX_ISA is 'nonsense'; it must be one of ref, avx2, avx512, avx512bf16, amx");
    amp_clear_error();
    EXPECT_EQ(nullptr, select_convert()) << "an error forgotten is no error gone";
    EXPECT_EQ(AMP_ERROR_INVALID, amp_last_status());
}

TEST_F(Kernels, VerboseDispatchPrintsTheSelectionOnceAndEachRefusal) {
    setenv("AMP_VERBOSE", ",dispatch", 1);
    amp_isa_reload_for_test("ref");
    testing::internal::CaptureStderr();
    select_convert();
    select_convert();
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("selected convert_f32_bf16_ref"), std::string::npos) << text;
    EXPECT_EQ(text.find("selected"), text.rfind("selected")) << text;
    EXPECT_NE(text.find("not convert_f32_bf16_avx2: " + std::string(amp_isa_reason(AMP_ISA_AVX2))), std::string::npos)
        << text;
}

TEST_F(Kernels, NothingIsPrintedUnasked) {
    for (const char *topics : {"", ",", "dispatching"}) {
        setenv("AMP_VERBOSE", topics, 1);
        amp_isa_reload_for_test("ref");
        testing::internal::CaptureStderr();
        select_convert();
        EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << topics;
        amp_clear_error();
    }
}

TEST_F(Kernels, UnknownTopicsAreAnError) {
    for (const char *topics : {"dispatching", "all,casts"}) {
        setenv("AMP_VERBOSE", topics, 1);
        amp_isa_reload_for_test("ref");
        testing::internal::CaptureStderr();
        select_convert();
        (void)testing::internal::GetCapturedStderr();
        EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID) << topics;
        EXPECT_NE(std::string(amp_last_error()).find("; the topics are dispatch, graph, calls and all"),
                  std::string::npos);
        amp_clear_error();
    }
}

TEST_F(Kernels, NonsenseInAmpDebugStopsEverySelection) {
    setenv("AMP_DEBUG", "yes", 1);
    amp_isa_reload_for_test("ref");
    EXPECT_EQ(nullptr, select_convert());
    EXPECT_STREQ(amp_last_error(), "AMP_DEBUG is 'yes'; it must be 0 or 1");
    unsetenv("AMP_DEBUG");
    amp_clear_error();
    amp_isa_reload_for_test("ref");
    EXPECT_NE(nullptr, select_convert());
}

TEST_F(Kernels, FirstUseFromManyThreadsSelectsOneRow) {
    std::vector<const amp_kernel *> selected(8);
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++) threads.emplace_back([&selected, i] { selected[i] = select_convert(); });
    for (std::thread &t : threads) t.join();
    for (const amp_kernel *k : selected) EXPECT_EQ(k, selected[0]);
    EXPECT_TRUE(selected[0]);
}
