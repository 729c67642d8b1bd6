/* Products over windows of an image: every kernel that this machine runs, bit for bit against the same product over the
 * windows written out as a matrix; nothing outside of the image is read. */
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "amp/system.h"
#include "cpu/registry/convert.h"
#include "cpu/registry/gemm.h"
extern "C" {
#include "cpu/registry/kernels.h"
}
#include "guard.h"

namespace {

struct Random {
    std::mt19937 engine;
    int64_t from(int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(engine);
    }
    float value() {
        return std::uniform_real_distribution<float>(-1, 1)(engine);
    }
};

struct Image {
    amp_gemm_window window;
    int64_t images, elements;
};

/* Any window: channels around the block size, gaps between pixels, pads on both sides, dilation. */
Image random_image(Random *r) {
    Image i = {};
    amp_gemm_window &w = i.window;
    i.images = r->from(1, 2);
    w.channels = r->from(0, 2) ? r->from(1, 40) : 32 * r->from(1, 2);
    for (int d = 0; d < 3; d++) {
        w.taps[d] = r->from(0, 2) ? r->from(1, 3) : 1;
        w.in[d] = r->from(1, d == 2 ? 9 : 4);
        w.stride[d] = r->from(1, 2);
        w.dilation[d] = r->from(0, 2) ? 1 : 2;
        w.pad[d] = r->from(-1, 2);
        w.out[d] = r->from(1, 5);
    }
    w.run_taps = w.dilation[2] == 1 && r->from(0, 2) ? w.taps[2] : 1;
    w.run_padding = w.run_taps * w.channels % 2 * r->from(0, 1);
    w.step[2] = w.channels + (r->from(0, 2) ? 0 : r->from(1, 3));
    w.step[1] = w.step[2] * w.in[2];
    w.step[0] = w.step[1] * w.in[1];
    w.image_stride = w.step[0] * w.in[0];
    i.elements = i.images * w.image_stride - (w.step[2] - w.channels);
    return i;
}

int64_t offset_of(const amp_gemm_window &w, int64_t row, int64_t k) {
    const int64_t run = w.run_taps * w.channels + w.run_padding, in_run = k % run;
    int64_t tap = k / run * w.run_taps + in_run / w.channels, offset = in_run % w.channels;
    if (in_run >= w.run_taps * w.channels) return -1;
    for (int d = 2; d >= 0; d--) {
        const int64_t at = row % w.out[d] * w.stride[d] - w.pad[d] + tap % w.taps[d] * w.dilation[d];
        if (at < 0 || at >= w.in[d]) return -1;
        offset += at * w.step[d], row /= w.out[d], tap /= w.taps[d];
    }
    return offset + row * w.image_stride;
}

/* `batch` matrices of B, packed. */
struct Packed {
    Packed(amp_dtype in, int64_t n, int64_t k, int64_t batch, Random *r)
        : bytes(in == AMP_F32 ? amp_gemm_f32_packed_bytes(n, k) : amp_gemm_packed_bytes(n, k)),
          data(static_cast<char *>(aligned_alloc(64, size_t(batch) * bytes))) {
        std::vector<float> b(size_t(n * k));
        for (int64_t i = 0; i < batch; i++) {
            for (float &x : b) x = r->value();
            void *to = data + size_t(i) * bytes;
            const amp_status status = in == AMP_F32 ? amp_gemm_f32_pack(static_cast<float *>(to), b.data(), n, k, k, 1)
                                                    : amp_gemm_pack(to, b.data(), AMP_F32, n, k, k, 1);
            EXPECT_EQ(status, AMP_OK);
        }
    }
    ~Packed() {
        free(data);
    }
    Packed(const Packed &) = delete;
    Packed &operator=(const Packed &) = delete;
    size_t bytes;
    char *data;
};

/* Elements between pixels are NaN. */
template <class T>
void fill(T *data, const Image &image, Random *r) {
    const amp_gemm_window &w = image.window;
    for (int64_t i = 0; i < image.elements; i++) {
        const float x = i % w.step[2] < w.channels ? r->value() : std::numeric_limits<float>::quiet_NaN();
        data[i] = sizeof(T) == 2 ? T(amp_bf16_from_f32(x)) : T(x);
    }
}

/* Numbers in either type. */
struct Numbers {
    Numbers(int64_t n, Random *r) {
        for (int64_t i = 0; i < n; i++) f32.push_back(r->value()), bf16.push_back(amp_bf16_from_f32(f32.back()));
    }
    const void *in(amp_dtype dtype) const {
        return dtype == AMP_F32 ? static_cast<const void *>(f32.data()) : bf16.data();
    }
    std::vector<float> f32;
    std::vector<uint16_t> bf16;
};

/* What is done with the sums: stored or rounded, with a bias, scale and residual or without, relu. `columns`: numbers for
 * each column of each matrix, `all`: for each element. */
void set_rest(amp_gemm *g, const Numbers &columns, const Numbers &all, Random *r) {
    g->c_dtype = r->from(0, 1) ? AMP_F32 : AMP_BF16;
    g->activation = r->from(0, 2) ? AMP_GEMM_NONE : AMP_GEMM_RELU;
    g->bias_dtype = r->from(0, 1) ? AMP_F32 : AMP_BF16;
    g->bias = r->from(0, 1) ? columns.in(g->bias_dtype) : nullptr;
    g->bias_batch_stride = g->scale_batch_stride = g->n;
    if (r->from(0, 3) == 0) g->scale = columns.f32.data();
    if (r->from(0, 3)) return;
    g->residual_dtype = r->from(0, 1) ? AMP_F32 : AMP_BF16;
    g->residual = all.in(g->residual_dtype), g->beta = 1;
    g->residual_column_stride = 1, g->residual_row_stride = g->n, g->residual_batch_stride = g->m * g->n;
}

float number(const char *at, amp_dtype dtype) {
    uint16_t half = 0;
    float x = 0;
    if (dtype == AMP_F32)
        memcpy(&x, at, sizeof x);
    else
        memcpy(&half, at, sizeof half), x = amp_f32_from_bf16(half);
    return x;
}

/* An epilogue may be fused otherwise. */
void expect_near(const char *got, const char *want, amp_dtype dtype) {
    const float a = number(got, dtype), b = number(want, dtype);
    ASSERT_LE(std::abs(a - b), (std::abs(b) + 1) * (dtype == AMP_F32 ? 0x1p-20f : 0x1p-7f));
}

void compare(const amp_kernel *kernel, const Image &image, amp_dtype dtype, bool at_end, Random *r,
             int64_t columns = 0) {
    const amp_gemm_window &w = image.window;
    const int64_t m = image.images * w.out[0] * w.out[1] * w.out[2], n = columns ? columns : r->from(1, 40);
    const int64_t k = amp_gemm_window_k(&w);
    const size_t size = amp_dtype_size(dtype);
    EnclosedBuffer memory(size_t(image.elements) * size, at_end);
    if (dtype == AMP_F32)
        fill(memory.as<float>(), image, r);
    else
        fill(memory.as<uint16_t>(), image, r);
    std::vector<char> rows(size_t(m * k) * size, 0);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < k; j++) {
            const int64_t offset = offset_of(w, i, j);
            if (offset >= 0) memcpy(&rows[size_t(i * k + j) * size], memory.as() + size_t(offset) * size, size);
        }
    }
    const int64_t batch = r->from(1, 2); /* of B: all meet the same A */
    const Packed packed(kernel->in, n, k, batch, r);
    const int64_t gap = r->from(0, 1) * r->from(0, 9), line = w.out[2] * n + gap; /* between lines of the result */
    amp_gemm g = {};
    g.m = m, g.n = n, g.k = k, g.batch = batch, g.alpha = 1;
    const Numbers columns_of(batch * n, r), all(batch * m * n, r);
    set_rest(&g, columns_of, all, r);
    const size_t c_size = amp_dtype_size(g.c_dtype), lines = size_t(batch * m / w.out[2]);
    std::vector<char> got(lines * size_t(line) * c_size, 7), want(size_t(batch * m * n) * c_size, 8);
    const std::string untouched(c_size, 7);
    g.a_dtype = dtype, g.a_column_stride = 1, g.a_row_stride = k, g.a = rows.data();
    g.b = packed.data, g.b_batch_stride = int64_t(packed.bytes);
    g.c = want.data(), g.c_row_stride = n, g.c_batch_stride = m * n;
    ASSERT_EQ(reinterpret_cast<amp_gemm_function *>(kernel->function)(&g), AMP_OK);
    g.a = memory.as(), g.a_row_stride = 0, g.window = &w, g.c = got.data(), g.c_line_stride = line;
    g.c_batch_stride = m / w.out[2] * line, g.residual_line_stride = w.out[2] * n;
    ASSERT_EQ(reinterpret_cast<amp_gemm_function *>(kernel->function)(&g), AMP_OK);
    for (size_t i = 0; i < got.size() / c_size; i++) {
        const size_t x = i % size_t(line), at = (i / size_t(line) * size_t(w.out[2] * n) + x) * c_size;
        const bool within = x < size_t(w.out[2] * n);
        SCOPED_TRACE("element " + std::to_string(i) + ", " + amp_dtype_name(g.c_dtype));
        if (within && amp_gemm_is_fused(&g))
            expect_near(&got[i * c_size], &want[at], g.c_dtype);
        else
            ASSERT_EQ(memcmp(&got[i * c_size], within ? &want[at] : untouched.data(), c_size), 0);
        if (testing::Test::HasFatalFailure()) return;
    }
}

class GemmWindow : public testing::TestWithParam<std::string> {};

TEST_P(GemmWindow, GivesTheBitsOfTheWrittenOutMatrix) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    for (uint32_t seed = 0; seed < 200; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random r{std::mt19937(seed)};
        const Image image = random_image(&r);
        compare(kernel, image, kernel->in == AMP_F32 || seed % 3 ? AMP_F32 : AMP_BF16, seed % 2, &r);
        if (HasFatalFailure()) return;
    }
}

/* More than one pass over K, and a team of threads that packs together. */
TEST_P(GemmWindow, OfManyChannels) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    Image image = {};
    image.images = 2;
    image.window = {{1, 9, 9}, {1, 9, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1},         {1, 1, 1},
                    200,       3,         0,         16200,     {16200, 1800, 200}};
    image.elements = 2 * 16200;
    for (bool at_end : {false, true}) {
        Random r{std::mt19937(7)};
        compare(kernel, image, kernel->in, at_end, &r);
    }
}

/* A number that is none makes those sums none that meet it, rounded too. */
TEST_P(GemmWindow, NotANumberStaysOne) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    enum { HEIGHT = 8, WIDTH = 16, CHANNELS = 32, COLUMNS = 40, PIXEL = 5 * WIDTH + 6 };
    Random r{std::mt19937(5)};
    const amp_gemm_window w = {{1, HEIGHT, WIDTH},
                               {1, HEIGHT, WIDTH},
                               {1, 3, 3},
                               {1, 1, 1},
                               {0, 1, 1},
                               {1, 1, 1},
                               CHANNELS,
                               3,
                               0,
                               HEIGHT * WIDTH * CHANNELS,
                               {HEIGHT * WIDTH * CHANNELS, WIDTH * CHANNELS, CHANNELS}};
    std::vector<float> image(size_t(HEIGHT * WIDTH * CHANNELS));
    for (float &x : image) x = r.value();
    image[PIXEL * CHANNELS + 3] = std::numeric_limits<float>::quiet_NaN();
    const Packed packed(kernel->in, COLUMNS, amp_gemm_window_k(&w), 1, &r);
    std::vector<uint16_t> c(size_t(HEIGHT * WIDTH * COLUMNS));
    amp_gemm g = {};
    g.m = HEIGHT * WIDTH, g.n = COLUMNS, g.k = amp_gemm_window_k(&w), g.batch = 1, g.alpha = 1;
    g.a = image.data(), g.a_dtype = AMP_F32, g.window = &w, g.b = packed.data;
    g.c = c.data(), g.c_dtype = AMP_BF16, g.c_row_stride = COLUMNS, g.c_line_stride = WIDTH * COLUMNS;
    ASSERT_EQ(reinterpret_cast<amp_gemm_function *>(kernel->function)(&g), AMP_OK);
    for (int i = 0; i < HEIGHT * WIDTH * COLUMNS; i++) {
        const int x = i / COLUMNS % WIDTH, y = i / COLUMNS / WIDTH;
        const bool meets = std::abs(x - PIXEL % WIDTH) <= 1 && std::abs(y - PIXEL / WIDTH) <= 1;
        ASSERT_EQ(std::isnan(amp_f32_from_bf16(c[size_t(i)])), meets) << "pixel " << x << ", " << y;
    }
}

/* Whole blocks of channels: AMX loads tiles from a copy of the image, whose lines go on from one to the next. Few rows
 * of the result, so that it has those kernels' time on an emulated CPU too. */
Image image_of_blocks(Random *r) {
    Image i = {};
    amp_gemm_window &w = i.window;
    i.images = r->from(1, 3);
    w.channels = 32 * r->from(1, 3);
    for (int d = 0; d < 3; d++) {
        w.taps[d] = d == 0 ? 1 : r->from(1, 3);
        w.stride[d] = d == 0 ? 1 : r->from(1, 3);
        w.dilation[d] = d == 0 || r->from(0, 2) ? 1 : r->from(2, 3);
        w.pad[d] = d == 0 ? 0 : r->from(-1, 3);
        w.out[d] = d == 0 ? 1 : r->from(4, 14);
        const int64_t reach = (w.out[d] - 1) * w.stride[d] - w.pad[d] + (w.taps[d] - 1) * w.dilation[d] + 1;
        w.in[d] = d == 0 ? 1 : std::max<int64_t>(1, reach - r->from(-1, 3));
    }
    w.run_taps = w.dilation[2] == 1 ? w.taps[2] : 1;
    w.step[2] = w.channels * r->from(1, 2);
    w.step[1] = w.step[2] * w.in[2];
    w.step[0] = w.image_stride = w.step[1] * w.in[1];
    i.elements = i.images * w.image_stride - (w.step[2] - w.channels);
    return i;
}

TEST_P(GemmWindow, OfWholeBlocksOfChannelsPaddedStridedAndDilated) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    for (uint32_t seed = 0; seed < 60; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random r{std::mt19937(seed)};
        const Image image = image_of_blocks(&r);
        compare(kernel, image, kernel->in == AMP_F32 || seed % 3 ? AMP_F32 : AMP_BF16, seed % 2, &r);
        if (HasFatalFailure()) return;
    }
}

/* Windows of one pixel, of f32: tiles in a row are copied together, with all of B in cache and with more. */
TEST_P(GemmWindow, OfOnePixelEach) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    Random r = {std::mt19937(3)};
    for (const auto &[channels, width, columns] : {std::array<int64_t, 3>{2, 61, 2},
                                                   {24, 61, 40},
                                                   {40, 130, 16},
                                                   {64, 14, 33},
                                                   {1024, 31, 200},
                                                   {1040, 31, 200}}) {
        for (const int64_t narrower : {0, 3}) { /* not all of a line's pixels have a window */
            SCOPED_TRACE(std::to_string(channels) + " channels, a line of " + std::to_string(width));
            Image image = {};
            image.window = {{1, 3, width - narrower},
                            {1, 3, width},
                            {1, 1, 1},
                            {1, 1, 1},
                            {0, 0, 0},
                            {1, 1, 1},
                            channels,
                            1,
                            0,
                            3 * width * channels,
                            {3 * width * channels, width * channels, channels}};
            image.images = 2;
            image.elements = 2 * image.window.image_stride;
            compare(kernel, image, AMP_F32, narrower == 0, &r, columns);
            if (HasFatalFailure()) return;
        }
    }
}

/* Taps that are further from each other than a tile is long, at both ends outside of the image. */
TEST_P(GemmWindow, OfTapsFarApart) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    Random r = {std::mt19937(4)};
    for (const int64_t dilation : {5, 19, 90}) {
        for (const amp_dtype dtype : {AMP_F32, kernel->in}) {
            SCOPED_TRACE("dilation " + std::to_string(dilation));
            Image image = {};
            image.window = {{1, 2, 101},
                            {1, 2, 101},
                            {1, 3, 3},
                            {1, 1, 1},
                            {0, 1, dilation},
                            {1, 1, dilation},
                            24,
                            1,
                            0,
                            2 * 101 * 24,
                            {2 * 101 * 24, 101 * 24, 24}};
            image.images = 1;
            image.elements = image.window.image_stride;
            compare(kernel, image, dtype, dilation == 19, &r, 24);
            if (HasFatalFailure()) return;
        }
    }
}

/* Enough products for a team on every kernel: its threads share the rows, or the columns and what is packed. */
TEST_P(GemmWindow, TeamsGiveTheBitsOfOneThread) {
    const amp_kernel *kernel = amp_kernel_find(GetParam().c_str());
    char reason[AMP_KERNEL_REASON_SIZE];
    if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << reason;
    if (kernel->isa == AMP_ISA_REF) GTEST_SKIP() << "it would take seconds";
    Image image = {};
    image.images = 2;
    image.window = {{1, 14, 14}, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1},       {1, 1, 1},
                    64,          3,           0,         12544,     {12544, 896, 64}};
    image.elements = 2 * 12544;
    const int before = amp_get_num_threads();
    for (int threads : {2, 3}) {
        amp_set_num_threads(threads);
        for (int64_t columns : {40, 160}) { /* the second: a grid of columns */
            Random r{std::mt19937(uint32_t(columns))};
            compare(kernel, image, kernel->in, false, &r, columns);
        }
    }
    amp_set_num_threads(before);
}

std::vector<std::string> kernels() {
    std::vector<std::string> names;
    for (int i = 0; i < amp_kernel_count(); i++)
        if (amp_kernel_at(i)->family == AMP_KERNEL_GEMM) names.push_back(amp_kernel_at(i)->name);
    return names;
}

INSTANTIATE_TEST_SUITE_P(Kernels, GemmWindow, testing::ValuesIn(kernels()),
                         [](const testing::TestParamInfo<std::string> &info) { return info.param; });

} // namespace
