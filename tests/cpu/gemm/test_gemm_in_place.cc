/* bf16 operands whose rows a kernel may load where they lie (AMX: tiles of whole lines of cache): bit for bit what the
 * same values give as f32, which are packed; nothing but the rows is read, the gaps between them have no effect. */
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/registry/convert.h"
#include "cpu/registry/gemm.h"
extern "C" {
#include "cpu/registry/kernels.h"
}
#include "guard.h"

namespace {

struct Shape {
    int64_t m, n, k, batch, gap;
    bool window; /* of one pixel */
};

class GemmInPlace : public testing::TestWithParam<std::string> {};

void compare(const amp_kernel *kernel, const Shape &s) {
    const int64_t pitch = s.k + s.gap, item = s.m * pitch;
    std::mt19937 engine(uint32_t(s.m * 1000 + s.k));
    std::uniform_real_distribution<float> uniform(-1, 1);
    EnclosedBuffer lying(size_t(s.batch * item - s.gap) * 2, s.m % 2);
    std::vector<float> wide(size_t(s.batch * item)), weights(size_t(s.n * s.k));
    for (int64_t i = 0; i < s.batch * item - s.gap; i++) {
        const uint16_t half =
            amp_bf16_from_f32(i % pitch < s.k ? uniform(engine) : std::numeric_limits<float>::quiet_NaN());
        memcpy(lying.as<char>() + 2 * i, &half, 2);
        const uint32_t bits = uint32_t(half) << 16;
        memcpy(&wide[size_t(i)], &bits, 4);
    }
    for (float &x : weights) x = uniform(engine);
    void *packed = aligned_alloc(64, amp_gemm_packed_bytes(s.n, s.k));
    ASSERT_EQ(amp_gemm_pack(packed, weights.data(), AMP_F32, s.n, s.k, s.k, 1), AMP_OK);
    std::vector<float> got(size_t(s.batch * s.m * s.n), 7), want(got.size(), 8);
    amp_gemm g = {};
    g.m = s.m, g.n = s.n, g.k = s.k, g.batch = s.batch, g.alpha = 1;
    g.a_column_stride = 1, g.a_row_stride = pitch, g.a_batch_stride = item;
    g.b = packed, g.c_dtype = AMP_F32, g.c_row_stride = s.n, g.c_batch_stride = s.m * s.n;
    g.a = wide.data(), g.a_dtype = AMP_F32, g.c = want.data();
    ASSERT_EQ(reinterpret_cast<amp_gemm_function *>(kernel->function)(&g), AMP_OK);
    const amp_gemm_window window = {{1, 1, s.m}, {1, 1, s.m}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},    {1, 1, 1},
                                    s.k,         1,           0,         0,         {0, 0, pitch}};
    g.a = lying.as<char>(), g.a_dtype = AMP_BF16, g.c = got.data(), g.window = s.window ? &window : nullptr;
    g.c_line_stride = s.m * s.n;
    ASSERT_EQ(reinterpret_cast<amp_gemm_function *>(kernel->function)(&g), AMP_OK);
    free(packed);
    EXPECT_EQ(memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
}

TEST_P(GemmInPlace, GivesTheBitsOfPackedRows) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    if (kernel->in != AMP_BF16) GTEST_SKIP() << kernel->name << " takes no bf16";
    /* rows that do not fill the last panel, several passes over K, rows 2 KB and no whole lines apart, K with a tail */
    const Shape shapes[] = {{17, 40, 32, 1, 0, false},   {33, 70, 96, 1, 32, false},  {64, 32, 1056, 1, 0, false},
                            {70, 33, 64, 3, 64, false},  {97, 64, 1024, 1, 0, false}, {45, 32, 96, 1, 5, false},
                            {50, 64, 100, 1, 28, false}, {35, 48, 64, 1, 0, true},    {129, 33, 160, 1, 96, true},
                            {16, 64, 64, 1, 0, false}};
    for (const Shape &s : shapes) {
        SCOPED_TRACE(std::to_string(s.m) + "×" + std::to_string(s.n) + "×" + std::to_string(s.k));
        compare(kernel, s);
    }
}

std::vector<std::string> kernels() {
    std::vector<std::string> names;
    for (int i = 0; i < amp_kernel_count(); i++)
        if (amp_kernel_at(i)->family == AMP_KERNEL_GEMM) names.push_back(amp_kernel_at(i)->name);
    return names;
}

INSTANTIATE_TEST_SUITE_P(Kernels, GemmInPlace, testing::ValuesIn(kernels()),
                         [](const testing::TestParamInfo<std::string> &info) { return info.param; });

} // namespace
