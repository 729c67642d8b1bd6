/* Images laid out for tiles (gemm_raster.h), on any machine: every block of K of every row of a product lies where its
 * distance says, with zeros for what is outside of the image; tiles read nothing beyond the copy, copies nothing beyond
 * the image. What AMX makes of it is in test_gemm_window.cc. */
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "cpu/gemm/gemm_raster.h"
}
#include "guard.h"

namespace {

enum { MAX_ROWS = 32, BLOCK = AMP_GEMM_BLOCK };

struct Random {
    std::mt19937 engine;
    int64_t from(int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(engine);
    }
};

/* What the kernel's copy does, but that f32 is cut, not rounded: the test's values fit. */
void copy_plainly(char *to, int64_t to_step, const char *from, int64_t from_step, amp_dtype dtype, int64_t channels,
                  int64_t pixels) {
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < channels; c++)
            memcpy(to + i * to_step + 2 * c, from + i * from_step + (dtype == AMP_F32 ? 4 * c + 2 : 2 * c), 2);
}

struct Problem {
    amp_gemm_window window;
    amp_gemm gemm;
    int64_t elements;
};

void choose(Random *r, Problem *p) {
    amp_gemm_window &w = p->window;
    w = {};
    w.channels = BLOCK * r->from(1, 2);
    w.taps[0] = w.in[0] = w.out[0] = w.stride[0] = w.dilation[0] = 1;
    for (int d = 1; d < 3; d++) {
        w.taps[d] = r->from(d, 4);
        w.in[d] = r->from(1, 20);
        w.stride[d] = r->from(1, 3);
        w.dilation[d] = r->from(1, 3);
        w.pad[d] = r->from(-1, 4);
        w.out[d] = r->from(1, 20);
    }
    w.run_taps = w.dilation[2] == 1 ? w.taps[2] : 1;
    w.step[2] = w.channels * r->from(1, 2);
    w.step[1] = w.step[2] * w.in[2] + r->from(0, 1) * 8;
    w.image_stride = w.step[1] * w.in[1];
    const int64_t images = r->from(1, 3);
    p->elements = images * w.image_stride - (w.step[1] - w.step[2] * (w.in[2] - 1) - w.channels);
    p->gemm = {};
    p->gemm.m = images * w.out[1] * w.out[2];
    p->gemm.k = amp_gemm_window_k(&w);
    p->gemm.a_dtype = r->from(0, 1) ? AMP_F32 : AMP_BF16;
    p->gemm.window = &w;
}

/* The value that k of a pixel of the output meets; values are their own numbers, and none is zero. */
uint16_t value_at(const amp_gemm_window &w, int64_t image, int64_t y, int64_t x, int64_t k) {
    const int64_t tap = k / w.channels;
    const int64_t h = y * w.stride[1] - w.pad[1] + tap / w.taps[2] * w.dilation[1];
    const int64_t v = x * w.stride[2] - w.pad[2] + tap % w.taps[2] * w.dilation[2];
    if (h < 0 || h >= w.in[1] || v < 0 || v >= w.in[2]) return 0;
    return uint16_t((image * w.image_stride + h * w.step[1] + v * w.step[2] + k % w.channels) % 65535 + 1);
}

/* All rows of panels [first, end) in the copy for them; returns an error's sentence. */
std::string check_chunk(const Problem &p, const amp_gemm_raster &r, const std::vector<int64_t> &offsets,
                        const char *copy, size_t bytes, int64_t first, int64_t end) {
    const amp_gemm_window &w = p.window;
    for (int64_t panel = first; panel < end; panel++) {
        const int64_t at = amp_gemm_raster_panel(&r, first, panel), image = panel / r.image_panels;
        for (int row = 0; row < r.panel_rows; row++) {
            const int64_t of_image = panel % r.image_panels * r.panel_rows + row;
            const int64_t y = of_image / r.line_rows, x = of_image % r.line_rows;
            for (size_t b = 0; b < offsets.size(); b++) {
                const int64_t from = at + row * r.pixel_bytes + offsets[b];
                if (from < 0 || from % 64 != 0 || size_t(from) + 64 > bytes)
                    return "panel " + std::to_string(panel) + " reads beyond the copy";
                if (row >= amp_gemm_raster_panel_rows(&r, panel) || x >= w.out[2]) continue; /* nobody's */
                for (int i = 0; i < BLOCK; i++) {
                    uint16_t got;
                    memcpy(&got, copy + from + 2 * i, 2);
                    if (got != value_at(w, image, y, x, int64_t(b) * BLOCK + i))
                        return "pixel " + std::to_string(y) + ", " + std::to_string(x) + " of image " +
                               std::to_string(image) + ", k " + std::to_string(int64_t(b) * BLOCK + i);
                }
            }
        }
    }
    return "";
}

TEST(GemmRaster, HasEachBlockOfEachRowAtItsDistance) {
    int suited = 0;
    for (uint32_t seed = 0; seed < 300; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random{std::mt19937(seed)};
        Problem p;
        amp_gemm_raster r;
        choose(&random, &p);
        if (!amp_gemm_raster_suits(&r, &p.gemm, MAX_ROWS)) continue;
        suited++;
        const size_t size = p.gemm.a_dtype == AMP_F32 ? 4 : 2;
        EnclosedBuffer image(size_t(p.elements) * size, seed % 2);
        for (int64_t i = 0; i < p.elements; i++) {
            const uint16_t value = uint16_t(i % 65535 + 1);
            memcpy(image.as<char>() + size_t(i) * size + size - 2, &value, 2);
        }
        const int64_t panels = r.images * r.image_panels, chunk = random.from(1, panels);
        const int members = int(random.from(1, 3));
        const size_t bytes = amp_gemm_raster_size(&r, chunk);
        std::vector<int64_t> offsets(size_t(p.gemm.k / BLOCK));
        amp_gemm_raster_offsets(&r, p.gemm.k / BLOCK, offsets.data());
        for (int64_t first = 0; first < panels; first += chunk) {
            EnclosedBuffer copy((bytes + 63) / 64 * 64, true);
            memset(copy.as<char>(), 0xff, bytes);
            const int64_t end = first + chunk < panels ? first + chunk : panels;
            for (int member = 0; member < members; member++)
                amp_gemm_raster_copy(&r, copy_plainly, image.as<char>(), first, end, member, members, copy.as<char>());
            ASSERT_EQ(check_chunk(p, r, offsets, copy.as<char>(), bytes, first, end), "");
        }
    }
    EXPECT_GT(suited, 250);
}

TEST(GemmRaster, LeavesOutWhatTilesCannotLoad) {
    Random random{std::mt19937(1)};
    Problem p;
    amp_gemm_raster r;
    choose(&random, &p);
    ASSERT_TRUE(amp_gemm_raster_suits(&r, &p.gemm, MAX_ROWS));
    const auto suits = [&](auto change) {
        Problem q = p;
        change(&q.window);
        q.gemm.window = &q.window;
        q.gemm.k = amp_gemm_window_k(&q.window);
        return amp_gemm_raster_suits(&r, &q.gemm, MAX_ROWS);
    };
    EXPECT_FALSE(suits([](amp_gemm_window *w) { w->channels = 48; })) << "blocks of K would straddle pixels";
    EXPECT_FALSE(suits([](amp_gemm_window *w) { w->taps[0] = 2; })) << "volumes";
    EXPECT_FALSE(suits([](amp_gemm_window *w) { w->taps[1] = w->taps[2] = w->run_taps = 1; })) << "nothing is shared";
    EXPECT_FALSE(suits([](amp_gemm_window *w) { w->dilation[1] = int64_t(1) << 40, w->taps[1] = 2; })) << "too far";
}

} // namespace
