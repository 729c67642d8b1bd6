// What the environment says: AMP_ALLOW, AMP_DENY, AMP_CLEAR, AMP_TABLE, AMP_MAX_ISA, OMP_NUM_THREADS. It is read once per process, so
// every case runs in a child: this program again, with a filter and the variables set.
#include "amp_test.h"

#include <cstdlib>
#include <unistd.h>

using namespace amp_test;

namespace {

const char *const in_child = "AMP_TEST_CHILD";

// True in the child, which goes on with the test's body; in the parent runs the child and expects it to pass.
bool child_with(const std::string &variables) {
    if (getenv(in_child)) return true;
    char self[4096] = {};
    EXPECT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string log = testing::TempDir() + "amp_environment_" + std::to_string(getpid());
    const std::string command = "env " + variables + " " + in_child + "=1 '" + self +
                                "' --gtest_filter=" + test->test_suite_name() + "." + test->name() + " >'" + log +
                                "' 2>&1";
    const int status = std::system(command.c_str());
    if (status != 0) {
        (void)!std::system(("cat '" + log + "'").c_str());
        ADD_FAILURE() << variables;
    }
    unlink(log.c_str());
    return false;
}

class Environment : public Test {
  protected:
    static amp_dtype dtype_in_region(const char *name, amp_device device = AMP_DEVICE_CPU) {
        Region region(device);
        EXPECT_TRUE(no_error());
        return amp_autocast_dtype_for(name, device, nullptr);
    }

    // Every region's opening says this; and the next one says it again.
    static void expect_every_region_to_fail(const std::vector<std::string> &words) {
        for (int i = 0; i < 2; i++) {
            {
                Region region;
                EXPECT_FALSE(amp_autocast_is_enabled(AMP_DEVICE_CPU));
            }
            EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, words));
        }
        amp_autocast_args off = region_args();
        off.enabled = AMP_SET(false);
        Region disabled(off);
        EXPECT_TRUE(no_error()) << "a disabled region validates nothing";
        EXPECT_NE(op("add", {tensor(AMP_F32, {2}), 1.0}), nullptr) << "outside of regions nothing is lost";
    }
};

} // namespace

TEST_F(Environment, AllowDenyAndClearHoldForEveryDevice) {
    if (!child_with("AMP_ALLOW=add,mul.scalar AMP_DENY='mm, linear' AMP_CLEAR=bmm")) return;
    for (amp_device device : {AMP_DEVICE_CPU, AMP_DEVICE_CUDA}) {
        const amp_dtype lower = device == AMP_DEVICE_CPU ? AMP_BF16 : AMP_F16;
        EXPECT_EQ(dtype_in_region("add", device), lower);
        EXPECT_EQ(dtype_in_region("add.scalar", device), lower) << "all overloads of the name";
        EXPECT_EQ(dtype_in_region("mul.scalar", device), lower);
        EXPECT_EQ(dtype_in_region("mul", device), AMP_DTYPE_NONE) << "the other overload is not";
        EXPECT_EQ(dtype_in_region("mm", device), AMP_F32);
        EXPECT_EQ(dtype_in_region("linear", device), AMP_F32);
        EXPECT_EQ(dtype_in_region("bmm", device), AMP_DTYPE_NONE);
    }
    Region region;
    EXPECT_EQ(amp_tensor_dtype(op("add", {tensor(AMP_F32, {2}), tensor(AMP_F32, {2})})), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_F32, {2, 2})})), AMP_F32);
}

TEST_F(Environment, TheApiStandsAboveTheEnvironment) {
    if (!child_with("AMP_DENY=mm")) return;
    EXPECT_EQ(dtype_in_region("mm"), AMP_F32);
    ASSERT_EQ(amp_autocast_override("mm", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    EXPECT_EQ(dtype_in_region("mm"), AMP_BF16);
}

TEST_F(Environment, TableSetsTheDefault) {
    if (!child_with("AMP_TABLE=ipex")) return;
    EXPECT_EQ(dtype_in_region("group_norm"), AMP_BF16);
    amp_autocast_args torch = region_args();
    torch.table = "torch";
    Region region(torch);
    EXPECT_EQ(amp_autocast_dtype_for("group_norm", AMP_DEVICE_CPU, nullptr), AMP_DTYPE_NONE) << "a region may say";
}

TEST_F(Environment, AnUnknownOpIsAnErrorOfEveryRegion) {
    if (!child_with("AMP_DENY=mm,no_such_op")) return;
    expect_every_region_to_fail({"AMP_DENY", "no_such_op"});
}

TEST_F(Environment, AnUnknownTableIsAnErrorOfEveryRegion) {
    if (!child_with("AMP_TABLE=nonsense")) return;
    expect_every_region_to_fail({"AMP_TABLE", "nonsense", "torch", "ipex", "apex"});
}

TEST_F(Environment, EmptyListsMeanNothing) {
    if (!child_with("AMP_ALLOW= AMP_DENY=,,, AMP_CLEAR=' ' AMP_TABLE=")) return;
    EXPECT_EQ(dtype_in_region("mm"), AMP_BF16);
    EXPECT_EQ(dtype_in_region("add"), AMP_DTYPE_NONE);
}

TEST_F(Environment, AVeryLongNameIsAnErrorLikeAnyOther) {
    if (!child_with("AMP_ALLOW=" + std::string(3000, 'm'))) return;
    expect_every_region_to_fail({"AMP_ALLOW", "mmmmmm"});
}

TEST_F(Environment, ANameThatOnlyBeginsLikeAnOpIsUnknown) {
    if (!child_with("AMP_ALLOW=mm_ AMP_DENY=m")) return;
    expect_every_region_to_fail({"which is no op"});
}

TEST_F(Environment, MaxIsaLimitsTheKernels) {
    if (!child_with("AMP_MAX_ISA=ref")) return;
    EXPECT_EQ(amp_isa_best(), AMP_ISA_REF);
    Region region;
    EXPECT_NE(op("linear", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {4, 3})}), nullptr) << amp_last_error();
}

TEST_F(Environment, MaxIsaNonsenseIsASentenceThatListsTheNames) {
    if (!child_with("AMP_MAX_ISA=nonsense")) return;
    amp_tensor *x = tensor(AMP_F32, {2, 3});
    EXPECT_EQ(op("add", {x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"AMP_MAX_ISA", "nonsense", "ref", "avx2", "amx"}));
    Region region;
    EXPECT_EQ(op("linear", {x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"AMP_MAX_ISA", "nonsense"}));
    EXPECT_EQ(op("softmax", {x, -1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"AMP_MAX_ISA", "nonsense"}));
}

TEST_F(Environment, MoreThreadsThanCanBeAreASentence) {
    if (!child_with("OMP_NUM_THREADS=99999")) return;
    amp_tensor *x = tensor(AMP_F32, {512, 512});
    for (const char *name : {"add", "mm"}) {
        EXPECT_EQ(op(name, {x, x}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"OMP_NUM_THREADS is '99999'; it must be 1 to 4096"}));
    }
    EXPECT_EQ(amp_get_num_threads(), 4096);
}

TEST_F(Environment, OfAListOfThreadsTheFirstCounts) {
    if (!child_with("OMP_NUM_THREADS=3,99999")) return;
    EXPECT_EQ(amp_get_num_threads(), 3);
    EXPECT_NE(op("add", {tensor(AMP_F32, {2}), 1.0}), nullptr) << amp_last_error();
}

TEST_F(Environment, ThreadsThatTheRuntimeIgnoresAreTheDefault) {
    if (!child_with("OMP_NUM_THREADS=many")) return;
    EXPECT_LE(amp_get_num_threads(), amp_cpu()->physical_cores);
    EXPECT_NE(op("add", {tensor(AMP_F32, {2}), 1.0}), nullptr) << amp_last_error();
}
