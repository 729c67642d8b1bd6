// Detection of instruction sets: every check that can fail, from facts that a test makes up; AMP_MAX_ISA; the machine.
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "amp/ops.h"
#include "amp/system.h"

extern "C" {
#include "core/parallel.h"
#include "cpu/registry/kernels.h"
#include "machine/isa.h"
}

namespace {

struct Judgement {
    char reasons[AMP_ISA_COUNT][AMP_ISA_REASON_SIZE];
};

Judgement judge(const amp_isa_facts &facts) {
    Judgement j;
    amp_isa_judge(&facts, j.reasons);
    return j;
}

// A Xeon with AMX, under a system that grants it.
amp_isa_facts everything() {
    amp_isa_facts f = {};
    f.max_leaf = 0x20;
    f.leaf1_ecx = 1u << 27 | 1u << 12 | 1u << 29;
    f.leaf7_ebx = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    f.leaf7_edx = 1u << 22 | 1u << 24;
    f.leaf7_1_eax = 1u << 5;
    f.xcr0 = 0x600e7;
    f.palettes = 1;
    f.palette_bytes = 8192;
    f.palette_row_bytes = 64;
    f.palette_tiles = 8;
    f.palette_rows = 16;
    f.permission = AMP_AMX_GRANTED;
    f.permission_call = "ARCH_GET_XCOMP_PERM";
    return f;
}

// The sets up to `best` can be used; the one after it cannot because of a sentence with `why` in it, and the ones after
// that because of one of their own or of their predecessor.
void expect_up_to(const amp_isa_facts &facts, amp_isa best, const char *why) {
    const Judgement j = judge(facts);
    for (int isa = 0; isa <= best; isa++) EXPECT_STREQ(j.reasons[isa], "") << amp_isa_name(amp_isa(isa));
    EXPECT_NE(std::string(j.reasons[best + 1]).find(why), std::string::npos) << j.reasons[best + 1];
    for (int isa = best + 1; isa < AMP_ISA_COUNT; isa++) EXPECT_STRNE(j.reasons[isa], "");
}

// Puts the environment's choice back.
struct Reload {
    explicit Reload(const char *max_isa) {
        amp_isa_reload_for_test(max_isa);
    }
    ~Reload() {
        amp_isa_reload_for_test(nullptr);
        amp_clear_error();
    }
};

} // namespace

TEST(Isa, AllUsableWhereNothingIsMissing) {
    const Judgement j = judge(everything());
    for (int isa = 0; isa < AMP_ISA_COUNT; isa++) EXPECT_STREQ(j.reasons[isa], "");
}

TEST(Isa, NothingButRefOnACpuThatHasNothing) {
    amp_isa_facts none = {};
    expect_up_to(none, AMP_ISA_REF, "OSXSAVE");
}

TEST(Isa, EachMissingCpuidBitIsNamed) {
    struct Bit {
        uint32_t amp_isa_facts::*word;
        int bit;
        amp_isa best;
        const char *why;
    };
    const Bit bits[] = {
        {&amp_isa_facts::leaf1_ecx, 12, AMP_ISA_REF, "no FMA"},
        {&amp_isa_facts::leaf1_ecx, 29, AMP_ISA_REF, "no F16C"},
        {&amp_isa_facts::leaf7_ebx, 5, AMP_ISA_REF, "no AVX2"},
        {&amp_isa_facts::leaf7_ebx, 16, AMP_ISA_AVX2, "no AVX512F "},
        {&amp_isa_facts::leaf7_ebx, 17, AMP_ISA_AVX2, "no AVX512DQ"},
        {&amp_isa_facts::leaf7_ebx, 30, AMP_ISA_AVX2, "no AVX512BW"},
        {&amp_isa_facts::leaf7_ebx, 31, AMP_ISA_AVX2, "no AVX512VL"},
        {&amp_isa_facts::leaf7_1_eax, 5, AMP_ISA_AVX512, "no AVX512_BF16"},
        {&amp_isa_facts::leaf7_edx, 24, AMP_ISA_AVX512BF16, "no AMX-TILE"},
        {&amp_isa_facts::leaf7_edx, 22, AMP_ISA_AVX512BF16, "no AMX-BF16"},
    };
    for (const Bit &b : bits) {
        amp_isa_facts f = everything();
        f.*b.word &= ~(1u << b.bit);
        expect_up_to(f, b.best, b.why);
    }
}

TEST(Isa, EachMissingXcr0BitIsNamed) {
    const std::pair<int, amp_isa> bits[] = {{1, AMP_ISA_REF},        {2, AMP_ISA_REF},  {5, AMP_ISA_AVX2},
                                            {6, AMP_ISA_AVX2},       {7, AMP_ISA_AVX2}, {17, AMP_ISA_AVX512BF16},
                                            {18, AMP_ISA_AVX512BF16}};
    for (const auto &[bit, best] : bits) {
        amp_isa_facts f = everything();
        f.xcr0 &= ~(UINT64_C(1) << bit);
        expect_up_to(f, best, ("XCR0 bit " + std::to_string(bit)).c_str());
    }
}

TEST(Isa, AmxWithoutPaletteIsRefused) {
    amp_isa_facts f = everything();
    f.palettes = 0;
    expect_up_to(f, AMP_ISA_AVX512BF16, "no tile palette");
    f = everything();
    f.palette_rows = 8;
    expect_up_to(f, AMP_ISA_AVX512BF16, "8 tiles of 8 rows of 64 bytes");
}

TEST(Isa, AmxWithoutPermissionSaysWhichCallFailed) {
    amp_isa_facts f = everything();
    f.permission = EINVAL;
    expect_up_to(f, AMP_ISA_AVX512BF16, "arch_prctl(ARCH_GET_XCOMP_PERM) failed with errno 22");
    f.permission = ENOSPC;
    f.permission_call = "ARCH_REQ_XCOMP_PERM";
    expect_up_to(f, AMP_ISA_AVX512BF16, "sigaltstack");
    f.permission = AMP_AMX_REFUSED;
    expect_up_to(f, AMP_ISA_AVX512BF16, "did not grant AMX");
    f.permission = AMP_AMX_NOT_ASKED;
    expect_up_to(f, AMP_ISA_AVX512BF16, "not asked");
}

TEST(Isa, NamesAreThoseOfAmpMaxIsa) {
    const char *names[] = {"ref", "avx2", "avx512", "avx512bf16", "amx"};
    for (int isa = 0; isa < AMP_ISA_COUNT; isa++) EXPECT_STREQ(amp_isa_name(amp_isa(isa)), names[isa]);
    EXPECT_STREQ(amp_isa_name(amp_isa(99)), "?");
    EXPECT_STRNE(amp_isa_reason(amp_isa(99)), "");
}

TEST(Isa, AmpMaxIsaForbidsWhatComesAfter) {
    for (int cap = 0; cap < AMP_ISA_COUNT; cap++) {
        Reload reload(amp_isa_name(amp_isa(cap)));
        EXPECT_EQ(AMP_OK, amp_isa_status());
        EXPECT_LE(amp_isa_best(), cap);
        for (int isa = cap + 1; isa < AMP_ISA_COUNT; isa++) EXPECT_FALSE(amp_isa_usable(amp_isa(isa)));
    }
}

TEST(Isa, ReasonOfACapNamesIt) {
    if (!amp_isa_usable(AMP_ISA_AVX2)) GTEST_SKIP() << amp_isa_reason(AMP_ISA_AVX2);
    Reload reload("ref");
    EXPECT_STREQ(amp_isa_reason(AMP_ISA_AVX2), "AMP_MAX_ISA=ref forbids it");
}

TEST(Isa, NonsenseInAmpMaxIsaIsAnErrorThatNamesTheChoices) {
    for (const char *nonsense : {"nonsense", "AVX2", "avx", "avx512 ", "99"}) {
        Reload reload(nonsense);
        EXPECT_EQ(AMP_ERROR_INVALID, amp_isa_status());
        EXPECT_EQ(std::string(amp_last_error()), "AMP_MAX_ISA is '" + std::string(nonsense) +
                                                     "'; it must be one of ref, avx2, avx512, avx512bf16, amx");
        EXPECT_FALSE(amp_isa_usable(AMP_ISA_REF));
        EXPECT_STRNE(amp_isa_reason(AMP_ISA_REF), "");
    }
}

TEST(Isa, NonsenseInAmpMaxIsaStopsOpsThatNeedNoKernelToo) {
    Reload reload("nonsense");
    amp_tensor *none = nullptr;
    amp_zeros_args args = {};
    args.struct_size = sizeof args;
    args.size = AMP_DIMS(2, 3);
    args.dtype = AMP_I64;
    EXPECT_EQ(none, amp_zeros_call(&args));
    EXPECT_EQ(AMP_ERROR_INVALID, amp_last_status());
    EXPECT_NE(std::string(amp_last_error()).find("AMP_MAX_ISA is 'nonsense'"), std::string::npos) << amp_last_error();
}

// In a process of its own, whose first use this is.
TEST(IsaDeathTest, AmpMaxIsaComesFromTheEnvironment) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            setenv("AMP_MAX_ISA", "sse9", 1);
            const amp_status status = amp_isa_status();
            fputs(amp_last_error(), stderr);
            exit(status == AMP_ERROR_INVALID ? 0 : 1);
        },
        testing::ExitedWithCode(0), "AMP_MAX_ISA is 'sse9'; it must be one of ref, avx2, avx512, avx512bf16, amx");
}

TEST(Isa, EmptyAmpMaxIsaIsNone) {
    const amp_isa best = amp_isa_best();
    if (getenv("AMP_MAX_ISA")) GTEST_SKIP() << "AMP_MAX_ISA is set";
    Reload reload("");
    EXPECT_EQ(AMP_OK, amp_isa_status());
    EXPECT_EQ(best, amp_isa_best());
}

// Where this runs because of an instruction set, that set must be found: else all other tests there would be skips.
TEST(Isa, EmulatedCpuHasWhatItIsThereFor) {
    const char *expected = getenv("AMP_EXPECT_ISA");
    if (!expected) GTEST_SKIP() << "AMP_EXPECT_ISA is not set";
    EXPECT_STREQ(amp_isa_name(amp_isa_best()), expected) << amp_isa_reason(AMP_ISA_AMX);
}

TEST(Isa, FirstUseFromManyThreadsGivesOneAnswer) {
    std::vector<std::thread> threads;
    std::vector<amp_isa> best(8);
    for (int i = 0; i < 8; i++) threads.emplace_back([&best, i] { best[i] = amp_isa_best(); });
    for (std::thread &t : threads) t.join();
    for (amp_isa isa : best) EXPECT_EQ(isa, best[0]);
}

TEST(Cpu, FiguresArePlausible) {
    const amp_cpu_info *cpu = amp_cpu();
    EXPECT_STRNE(cpu->model, "");
    EXPECT_GE(cpu->logical_cpus, cpu->physical_cores);
    EXPECT_GE(cpu->physical_cores, 1);
    EXPECT_GE(cpu->numa_nodes, 1);
    EXPECT_GE(cpu->quota, 0);
    cpu_set_t allowed;                                         // what the C++ library counts are those of the machine
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) { // not beyond 1,024 CPUs
        EXPECT_EQ(cpu->logical_cpus, CPU_COUNT(&allowed));
    }
    for (int level = 1; level < 3; level++) {
        if (cpu->cache_bytes[level]) {
            EXPECT_GE(cpu->cache_bytes[level], cpu->cache_bytes[level - 1]);
        }
    }
}

TEST(ThreadNumber, SettingIsCheckedAndKept) {
    const int before = amp_get_num_threads();
    EXPECT_GE(before, 1);
    EXPECT_EQ(AMP_OK, amp_set_num_threads(3));
    EXPECT_EQ(3, amp_get_num_threads());
    for (int wrong : {0, -1, 4097}) {
        EXPECT_EQ(AMP_ERROR_INVALID, amp_set_num_threads(wrong));
        EXPECT_NE(std::string(amp_last_error()).find("threads is " + std::to_string(wrong)), std::string::npos);
        amp_clear_error();
    }
    EXPECT_EQ(3, amp_get_num_threads());
    amp_set_num_threads(before);
}

TEST(ThreadNumber, SmallWorkAndNestedWorkRunOnOne) {
    const int before = amp_get_num_threads();
    amp_set_num_threads(4);
    EXPECT_EQ(1, amp_parallel_threads(0, 100));
    EXPECT_EQ(1, amp_parallel_threads(199, 100));
    EXPECT_EQ(2, amp_parallel_threads(200, 100));
    EXPECT_EQ(4, amp_parallel_threads(100000, 100));
    int nested = 0;
#pragma omp parallel num_threads(2)
#pragma omp critical
    nested = std::max(nested, amp_parallel_threads(100000, 100));
    EXPECT_EQ(1, nested);
    amp_set_num_threads(before);
}

TEST(ThreadNumber, PartsCoverEverythingOnceAndBreakAtUnits) {
    for (int64_t n : {0, 1, 31, 32, 33, 1000, 4096}) {
        for (int64_t unit : {1, 16, 64}) {
            for (int threads = 1; threads <= 9; threads++) {
                int64_t next = 0;
                for (int t = 0; t < threads; t++) {
                    const amp_range part = amp_parallel_part(n, unit, t, threads);
                    EXPECT_EQ(part.begin, next);
                    EXPECT_TRUE(part.begin % unit == 0 || part.begin == n);
                    next = part.end;
                }
                EXPECT_EQ(next, n);
            }
        }
    }
}

TEST(ThreadNumber, LibrariesGetOurNumberAndTheOldOneComesBack) {
    const int before = amp_get_num_threads(), openmp = omp_get_max_threads();
    amp_set_num_threads(3);
    const int previous = amp_parallel_enter_library();
    EXPECT_EQ(3, omp_get_max_threads());
    amp_parallel_leave_library(previous);
    EXPECT_EQ(openmp, omp_get_max_threads());
    amp_set_num_threads(before);
}

TEST(Versions, LibrariesAreNamed) {
    int major = 0, minor = 0;
    ASSERT_EQ(2, sscanf(amp_onednn_version(), "%d.%d", &major, &minor));
    EXPECT_GE(major, 3);
    EXPECT_NE(std::string(amp_openmp_version()).find("OpenMP"), std::string::npos);
    EXPECT_EQ(std::string(amp_openmp_version()).find("unknown"), std::string::npos);
}
