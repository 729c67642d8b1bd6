// Products for which oneDNN finds no memory.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "amp_test.h"
#include "sanitizers.h"

using namespace amp_test;

namespace {

// 40: the product was computed, or refused for want of memory.
int product_within(size_t room) {
    (void)amp_set_num_threads(1);
    (void)amp_scope_enter();
    amp_tensor *a = random_tensor(AMP_F32, {4, 50, 60}, 1), *b = random_tensor(AMP_F32, {4, 60, 70}, 2);
    (void)op("bmm", {op("narrow", {a, 1, 0, 40}), b}); // the engine is there then, and this product is not
    std::ifstream statm("/proc/self/statm");
    size_t pages = 0;
    statm >> pages;
    const rlim_t bytes = pages * size_t(getpagesize()) + room;
    const rlimit limit = {bytes, bytes};
    if (setrlimit(RLIMIT_AS, &limit)) return 41;
    return op("bmm", {a, b}) || amp_last_status() == AMP_ERROR_MEMORY ? 40 : 42;
}

// oneDNN does not expect an allocation to fail: it throws through our C, or writes through NULL.
TEST(DnnlMemoryDeathTest, AProductThatOneDnnHasNoRoomForIsASentence) {
    if (amp_test::under_tsan || amp_test::under_asan) {
        GTEST_SKIP() << "a sanitizer needs all addresses";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const size_t kilobytes : {0, 200, 400, 800, 1600, 3200, 20000}) {
        EXPECT_EXIT(_exit(product_within(kilobytes * 1024)), testing::ExitedWithCode(40), "") << kilobytes << " KB";
    }
}

} // namespace
