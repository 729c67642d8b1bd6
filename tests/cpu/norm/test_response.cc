// local_response_norm by vectors: layouts, instruction sets, large numbers. Values against f64: test_distances.cc.
#include "amp_test.h"
extern "C" {
#include "cpu/registry/kernels.h"
}

using namespace amp_test;

namespace {

class LocalResponse : public Test {};

/* Channels last, and laid out plainly: the same numbers, in the layout of the input (windows of up to 64 channels); on
 * each instruction set the same bits. */
TEST_F(LocalResponse, KeepsTheLayout) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        for (int64_t channels : {1, 3, 16, 37, 192}) {
            amp_tensor *plain = random_tensor(dtype, {2, channels, 5, 7}, 14), *last = amp_channels_last(plain);
            for (int64_t size : {1, 2, 5, 64, 100}) {
                std::vector<double> first;
                for (const char *isa : {"ref", "avx2", "avx512", "avx512bf16"}) {
                    SCOPED_TRACE(std::string(isa) + " channels " + std::to_string(channels) + " size " +
                                 std::to_string(size));
                    amp_isa_reload_for_test(isa);
                    amp_tensor *want = op("local_response_norm", {plain, size, 0.7, 0.75, 1.5});
                    amp_tensor *got = op("local_response_norm", {last, size, 0.7, 0.75, 1.5});
                    amp_isa_reload_for_test(nullptr);
                    ASSERT_TRUE(want && got);
                    if (channels > 1 && size <= 64) {
                        EXPECT_EQ(amp_tensor_strides(got)[1], 1);
                    }
                    expect_near(got, numbers_of(want), dtype == AMP_F32 ? 1e-6 : 8e-3);
                    if (first.empty()) first = numbers_of(got);
                    EXPECT_EQ(first, numbers_of(got));
                }
            }
        }
    }
}

/* Squares beyond f32. */
TEST_F(LocalResponse, OfLargeNumbersIsZero) {
    amp_tensor *x = op("mul", {amp_channels_last(random_tensor(AMP_F32, {2, 6, 3, 4}, 3)), 1e30});
    for (double y : numbers_of(op("local_response_norm", {x, 3, 1.0}))) EXPECT_EQ(y, 0);
    for (double y : numbers_of(op("local_response_norm", {op("contiguous", {x}), 3, 1.0}))) EXPECT_EQ(y, 0);
}

} // namespace
