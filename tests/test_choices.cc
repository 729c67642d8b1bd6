// Choices that a clock makes: from the rule, measured, and from the file; AMP_TUNE; a file that is damaged or cannot
// be.
#include "amp_test.h"

#include <filesystem>
#include <fstream>

#include "choices_file.h"

using namespace amp_test;
namespace fs = std::filesystem;

namespace {

class Choices : public Test {
  protected:
    static void use(const char *cache, const char *tune) {
        ChoicesFile::use(cache, tune);
    }
    static void write(const std::string &text) {
        ChoicesFile::write(text);
    }
    static std::string read() {
        return ChoicesFile::read();
    }
    static amp_choice_origin origin() {
        return amp_choice_explain(AMP_CHOICE_GEMM_F32).origin;
    }

    ChoicesFile file_;
    const fs::path &folder_ = file_.folder;
};

/* A kind whose measurement gives these rates, and counts how often it is asked. */
struct Kind {
    double yes, no;
    mutable int measured = 0;

    bool choose(int32_t number) const {
        amp_choice_kind kind = {};
        kind.key[0] = number;
        kind.name = [](const int32_t *key, char *name, size_t size) { snprintf(name, size, "test_%d", key[0]); };
        kind.measure = [](const void *context, double *a, double *b) {
            const Kind *k = static_cast<const Kind *>(context);
            k->measured++;
            *a = k->yes;
            *b = k->no;
        };
        kind.context = this;
        return amp_choose_kind(&kind);
    }
};

bool measurable() {
    return amp_isa_best() >= AMP_ISA_AVX2;
}

} // namespace

TEST_F(Choices, AreMeasuredOnceAndThenReadFromTheFile) {
    if (!measurable()) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    const amp_choice_report first = amp_choice_explain(AMP_CHOICE_GEMM_F32);
    EXPECT_EQ(first.origin, AMP_CHOICE_MEASURED);
    EXPECT_GT(first.yes_rate, 1e8);
    EXPECT_GT(first.no_rate, 0.0); /* oneDNN waits for a team: on a busy machine it crawls */
    EXPECT_EQ(first.answer, amp_choose(AMP_CHOICE_GEMM_F32));
    EXPECT_NE(read().find("gemm_f32 "), std::string::npos);
    amp_choices_forget_for_test();
    const amp_choice_report again = amp_choice_explain(AMP_CHOICE_GEMM_F32);
    EXPECT_EQ(again.origin, AMP_CHOICE_FROM_FILE);
    EXPECT_EQ(again.answer, first.answer);
}

TEST_F(Choices, TheFileDecides) {
    write("# comment\ngemm_f32 1e9 5e9\ngemm_dot 7e9 1e9\n");
    EXPECT_FALSE(amp_choose(AMP_CHOICE_GEMM_F32));
    EXPECT_TRUE(amp_choose(AMP_CHOICE_GEMM_DOT));
    write("gemm_f32 5e9 1e9\ngemm_dot 1e9 7e9\n");
    EXPECT_TRUE(amp_choose(AMP_CHOICE_GEMM_F32));
    EXPECT_FALSE(amp_choose(AMP_CHOICE_GEMM_DOT));
}

TEST_F(Choices, AnAnswerStaysForTheProcess) {
    write("gemm_f32 1e9 5e9\n");
    EXPECT_FALSE(amp_choose(AMP_CHOICE_GEMM_F32));
    std::ofstream(amp_choices_path()) << "gemm_f32 5e9 1e9\n";
    EXPECT_FALSE(amp_choose(AMP_CHOICE_GEMM_F32));
}

TEST_F(Choices, ADamagedFileIsMeasuredAgainAndReplaced) {
    if (!measurable()) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    for (const char *text : {"", "gemm_f32\n", "gemm_f32 nan 1\n", "gemm_f32 -1 2\n", "gemm_f32 0 0\n",
                             "gemm_f32 inf inf\n", "gemm_f3", "\xff\xfe\x00garbage", "unknown 1 2\n"}) {
        write(text);
        EXPECT_EQ(origin(), AMP_CHOICE_MEASURED) << text;
        EXPECT_NE(read().find("gemm_f32 "), std::string::npos) << text;
    }
}

TEST_F(Choices, OffMeasuresNothingAndTouchesNoFile) {
    write("gemm_f32 1e9 5e9\n");
    use(folder_.string().c_str(), "off");
    EXPECT_EQ(origin(), AMP_CHOICE_BY_RULE);
    EXPECT_EQ(amp_choose(AMP_CHOICE_GEMM_F32), measurable());
    EXPECT_STREQ(amp_choices_path(), "");
}

TEST_F(Choices, MemoryMeasuresAndTouchesNoFile) {
    if (!measurable()) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    use(folder_.string().c_str(), "memory");
    EXPECT_EQ(origin(), AMP_CHOICE_MEASURED);
    EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Choices, FreshMeasuresAnewAndReplacesTheFile) {
    if (!measurable()) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    write("gemm_f32 1 5\n");
    use(folder_.string().c_str(), "fresh");
    EXPECT_EQ(origin(), AMP_CHOICE_MEASURED);
    EXPECT_EQ(read().find("gemm_f32 1 5"), std::string::npos);
}

TEST_F(Choices, AFolderThatCannotBeMadeIsNoError) {
    if (!measurable()) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    std::ofstream(folder_ / "file") << "not a folder";
    use((folder_ / "file").string().c_str(), "");
    EXPECT_EQ(origin(), AMP_CHOICE_MEASURED);
    EXPECT_TRUE(no_error());
}

TEST_F(Choices, ARelativeCacheFolderIsNotUsed) {
    use("here", "");
    EXPECT_EQ(std::string(amp_choices_path()).find("here"), std::string::npos);
}

TEST_F(Choices, AWordThatIsNoneOfThemIsAnErrorWithTheWords) {
    use(folder_.string().c_str(), "fast");
    EXPECT_EQ(amp_choices_status(), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"AMP_TUNE", "'fast'", "off", "fresh", "memory"}));
}

/* A recorded row decides for what it says is faster. Our own kernel is kept at a tie, which is up to 3 % of noise: its
 * results do not depend on the number of threads. */
TEST_F(Choices, EachAnswerIsTheFastestOfItsRecordedRow) {
    if (!measurable()) GTEST_SKIP() << "the CPU has no AVX2: nothing to choose from";
    for (const char *tune : {"fresh", ""}) { /* as measured, and as read again */
        use(folder_.string().c_str(), tune);
        for (int i = 0; i < AMP_CHOICE_COUNT; i++) {
            const amp_choice_report r = amp_choice_explain(static_cast<amp_choice>(i));
            ASSERT_NE(r.origin, AMP_CHOICE_BY_RULE) << r.name;
            const double taken = r.answer ? r.yes_rate : r.no_rate, other = r.answer ? r.no_rate : r.yes_rate;
            EXPECT_GE(taken, 0.97 * other)
                << r.name << ": " << r.yes << " " << r.yes_rate << ", " << r.no << " " << r.no_rate;
        }
    }
    for (const double ratio : {0.5, 0.9, 0.96, 0.98, 1.0, 1.1, 2.0}) {
        std::string text;
        for (const char *name : {"gemm_dot", "gemm_f32"}) text += name + (" " + std::to_string(1e9 * ratio)) + " 1e9\n";
        write(text);
        for (int i = 0; i < AMP_CHOICE_COUNT; i++)
            EXPECT_EQ(amp_choose(static_cast<amp_choice>(i)), ratio >= 0.97) << i << " " << ratio;
        EXPECT_EQ((Kind{1e9 * ratio, 1e9}.choose(1)), ratio >= 0.97) << ratio;
    }
}

TEST_F(Choices, AKindIsMeasuredOnceAndThenReadFromTheFile) {
    const Kind first = {1e9, 2e9}, second = {2e9, 1e9};
    for (int i = 0; i < 2; i++) {
        EXPECT_FALSE(first.choose(1));
        EXPECT_TRUE(second.choose(2));
    }
    EXPECT_EQ(first.measured, 1);
    EXPECT_EQ(second.measured, 1);
    EXPECT_NE(read().find("conv_test_1 1000000000 2000000000\n"), std::string::npos) << read();
    amp_choice_report r = {};
    ASSERT_TRUE(amp_choice_explain_kind(1, &r));
    EXPECT_STREQ(r.name, "conv_test_2");
    EXPECT_STREQ(r.yes, "libamp's kernel");
    EXPECT_STREQ(r.no, "oneDNN");
    EXPECT_EQ(r.origin, AMP_CHOICE_MEASURED);
    EXPECT_FALSE(amp_choice_explain_kind(2, &r));
    amp_choices_forget_for_test();
    EXPECT_FALSE(first.choose(1));
    EXPECT_EQ(first.measured, 1);
    ASSERT_TRUE(amp_choice_explain_kind(0, &r));
    EXPECT_EQ(r.origin, AMP_CHOICE_FROM_FILE);
}

TEST_F(Choices, AKindGoesToItsFirstWhereNothingIsMeasured) {
    const Kind kind = {1e9, 2e9}, broken = {0.0, 0.0};
    EXPECT_TRUE(broken.choose(7));
    use(folder_.string().c_str(), "off");
    EXPECT_TRUE(kind.choose(1));
    EXPECT_EQ(kind.measured, 0);
}

TEST_F(Choices, KindsBeyondTheTableGoToTheirFirst) {
    use(folder_.string().c_str(), "memory");
    const Kind kind = {1e9, 2e9};
    for (int i = 0; i < AMP_CHOICE_KINDS + 10; i++) EXPECT_EQ(kind.choose(i), i >= AMP_CHOICE_KINDS) << i;
    EXPECT_EQ(kind.measured, AMP_CHOICE_KINDS);
}
