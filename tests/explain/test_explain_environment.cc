// AMP_EXPLAIN=FILE, in a child process: who writes the report, and when.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "explain_report.h"
#include "sanitizers.h"

using namespace amp_test;

TEST(ExplainEnvironment, WritesTheReportAtTheEndOfTheProgram) {
    if (getenv("AMP_EXPLAIN")) { // the child
        Scope scope;
        Region region;
        ASSERT_NE(op("linear", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {4, 3})}), nullptr);
        return;
    }
    const std::string file = testing::TempDir() + "amp_explain_" + std::to_string(getpid()) + ".json";
    char self[4096] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    const std::string command =
        "AMP_EXPLAIN='" + file + "' '" + self + "' --gtest_filter=ExplainEnvironment.WritesTheReport* >/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    unlink(file.c_str());
    const Report r(text.str());
    EXPECT_EQ(Report::number(r.row("linear"), "calls"), 1);
    EXPECT_EQ(Report::text(r.row("linear"), "runs_in"), "bf16");
}

// This program again, in one test of it, with AMP_EXPLAIN. It says "runs" once the test has come to `say_that_it_runs`.
static pid_t start_recorded(const char *test, const std::string &file, int *said) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    const std::string filter = std::string("--gtest_filter=ExplainEnvironment.") + test;
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 3);
        setenv("AMP_EXPLAIN", file.c_str(), 1);
        execl("/proc/self/exe", "test_explain", filter.c_str(), nullptr);
        _exit(127);
    }
    close(ends[1]);
    *said = ends[0];
    return child;
}

static void say_that_it_runs() {
    EXPECT_EQ(write(3, "r", 1), 1);
}

static std::string report_path() {
    return testing::TempDir() + "amp_explain_" + std::to_string(getpid()) + ".json";
}

static std::string text_of_file(const std::string &file) {
    std::ifstream stream(file);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
}

TEST(ExplainEnvironment, AProgramThatASignalEndsLeavesItsReport) {
    if (getenv("AMP_EXPLAIN")) { // the child
        op("exp", {tensor(AMP_F32, {2})});
        say_that_it_runs();
        for (;;) pause();
    }
    for (const int signal : {SIGINT, SIGTERM}) {
        const std::string file = report_path();
        int said = -1, status = 0;
        char word = 0;
        const pid_t child = start_recorded("AProgramThat*", file, &said);
        ASSERT_GT(child, 0);
        ASSERT_EQ(read(said, &word, 1), 1);
        kill(child, signal);
        ASSERT_EQ(waitpid(child, &status, 0), child);
        close(said);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
        const Report r(text_of_file(file));
        unlink(file.c_str());
        EXPECT_EQ(Report::number(r.row("exp"), "calls"), 1);
    }
}

TEST(ExplainEnvironment, AForkedChildLeavesTheReportToItsParent) {
    if (amp_test::under_tsan) {
        GTEST_SKIP() << "the thread sanitizer keeps the signal that ends the child";
    }
    if (getenv("AMP_EXPLAIN")) { // the child
        op("exp", {tensor(AMP_F32, {2})});
        const pid_t grandchild = fork();
        if (grandchild == 0) std::exit(0);
        waitpid(grandchild, nullptr, 0);
        const bool wrote = access(getenv("AMP_EXPLAIN"), F_OK) == 0;
        const pid_t stopped = fork();
        if (stopped == 0) {
            for (;;) pause();
        }
        kill(stopped, SIGTERM);
        int status = 0;
        waitpid(stopped, &status, 0);
        std::_Exit(wrote ? 1 : WIFSIGNALED(status) ? 0 : 2);
    }
    const std::string file = report_path();
    int said = -1, status = 0;
    const pid_t child = start_recorded("AForkedChild*", file, &said);
    ASSERT_GT(child, 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    close(said);
    unlink(file.c_str());
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_TRUE(WIFEXITED(status));
}

TEST(ExplainEnvironment, AFileThatCannotBeWrittenIsReportedOnStandardErrorOnly) {
    if (getenv("AMP_EXPLAIN")) return;
    char self[4096] = {};
    ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    const std::string command = std::string("AMP_EXPLAIN=/no/such/folder/file '") + self +
                                "' --gtest_filter=ExplainEnvironment.AFile* 2>&1 >/dev/null | grep -q "
                                "\"AMP_EXPLAIN: cannot write '/no/such/folder/file': No such file or directory\"";
    EXPECT_EQ(std::system(command.c_str()), 0);
}
