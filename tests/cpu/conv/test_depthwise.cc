/* The depthwise kernel: every row that this machine runs against f64 and, bit by bit, against the model of its
 * instructions, between guard pages, neighbours NaN and untouched. */
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "amp/system.h"
#include "cpu/registry/convert.h"
extern "C" {
#include "cpu/registry/kernels.h"
}
#include "guard.h"
#include "instruction_models.h"

namespace {

constexpr float kUntouched = 7.0f; /* exact in bf16 */

struct Random {
    std::mt19937 engine;
    int64_t from(int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(engine);
    }
    float value() {
        return std::uniform_real_distribution<float>(-1, 1)(engine);
    }
};

void put(EnclosedBuffer *b, bool half, int64_t i, float x) {
    if (half)
        b->as<uint16_t>()[i] = amp_bf16_from_f32(x);
    else
        memcpy(b->as() + i * 4, &x, 4);
}

float get(EnclosedBuffer *b, bool half, int64_t i) {
    float x;
    if (half) return amp_f32_from_bf16(b->as<uint16_t>()[i]);
    memcpy(&x, b->as() + i * 4, 4);
    return x;
}

struct Problem {
    amp_gemm_window w = {};
    int64_t images = 1, y_step = 1;
    std::vector<float> taps, bias;
    int64_t lines() const {
        return images * w.out[0] * w.out[1];
    }
};

Problem random_problem(Random *r, bool half) {
    Problem p;
    amp_gemm_window &w = p.w;
    p.images = r->from(1, 2);
    w.channels = r->from(1, 70);
    for (int d = 0; d < 3; d++) {
        w.taps[d] = r->from(1, d == 0 ? 2 : d == 1 ? 5 : 7);
        w.in[d] = r->from(1, d == 2 ? 21 : 4);
        w.stride[d] = r->from(1, d == 2 && r->from(0, 3) == 0 ? 3 : 2);
        w.dilation[d] = r->from(0, 4) ? 1 : 2;
        w.pad[d] = r->from(-1, 2);
        w.out[d] = r->from(1, d == 2 ? 17 : 3);
    }
    w.run_taps = w.taps[2];
    w.step[2] = w.channels + r->from(0, 2);
    w.step[1] = w.step[2] * w.in[2];
    w.step[0] = w.step[1] * w.in[1];
    w.image_stride = w.step[0] * w.in[0];
    p.y_step = w.channels + r->from(0, 2);
    for (int64_t i = 0; i < w.taps[0] * w.taps[1] * w.taps[2] * w.channels; i++)
        p.taps.push_back(half ? amp_f32_from_bf16(amp_bf16_from_f32(r->value())) : r->value());
    for (int64_t i = 0; i < w.channels; i++) p.bias.push_back(r->value());
    return p;
}

struct Term {
    float x, w;
};

/* What an output meets: for each line of the image the taps that lie on it. */
std::vector<std::vector<Term>> meetings(const Problem &p, EnclosedBuffer *x, bool half, int64_t line, int64_t o,
                                        int64_t channel) {
    const amp_gemm_window &w = p.w;
    const int64_t base[] = {line / w.out[1] % w.out[0], line % w.out[1], o};
    std::vector<std::vector<Term>> lines;
    for (int64_t t = 0; t < w.taps[0] * w.taps[1] * w.taps[2]; t++) {
        const int64_t tap[] = {t / w.taps[2] / w.taps[1], t / w.taps[2] % w.taps[1], t % w.taps[2]};
        int64_t offset = line / w.out[1] / w.out[0] * w.image_stride + channel;
        bool inside[3];
        for (int d = 0; d < 3; d++) {
            const int64_t at = base[d] * w.stride[d] - w.pad[d] + tap[d] * w.dilation[d];
            inside[d] = at >= 0 && at < w.in[d];
            offset += at * w.step[d];
        }
        if (!inside[0] || !inside[1]) continue;
        if (tap[2] == 0) lines.emplace_back();
        if (inside[2]) lines.back().push_back({get(x, half, offset), p.taps[size_t(t * w.channels + channel)]});
    }
    return lines;
}

/* The sum by the kernel's instructions: fused in the order of the taps, or by pairs of lines. */
float modelled(amp_isa isa, float sum, const std::vector<std::vector<Term>> &lines) {
    if (isa != AMP_ISA_AVX512BF16) {
        for (const auto &line : lines)
            for (const Term &t : line) sum = instruction_models::vfmadd(sum, t.x, t.w);
        return sum;
    }
    for (size_t i = 0; i < lines.size(); i += 2) {
        for (size_t k = 0; k < lines[i].size(); k++) {
            const Term a = lines[i][k], b = i + 1 < lines.size() ? lines[i + 1][k] : Term{0, 0};
            sum = instruction_models::vdpbf16ps(sum, amp_bf16_from_f32(a.x), amp_bf16_from_f32(b.x),
                                                amp_bf16_from_f32(a.w), amp_bf16_from_f32(b.w));
        }
    }
    return sum;
}

/* Against f64 within the kernel's bound, and against the model bit by bit. */
void check_output(const amp_kernel *kernel, float got, float bias, const std::vector<std::vector<Term>> &lines) {
    const bool half = kernel->in == AMP_BF16;
    double want = double(bias), magnitude = std::fabs(want);
    for (const auto &line : lines) {
        for (const Term &t : line) {
            want += double(t.x) * double(t.w);
            magnitude += std::fabs(double(t.x) * double(t.w));
        }
    }
    const double bound = 60 * 0x1p-24 * magnitude + (half ? 0x1p-8 * std::fabs(want) : 0);
    ASSERT_NEAR(double(got), want, bound + 0x1p-126);
    const float model = modelled(kernel->isa, bias, lines);
    ASSERT_EQ(instruction_models::to_bits(half ? amp_f32_from_bf16(amp_bf16_from_f32(model)) : model),
              instruction_models::to_bits(got));
}

/* An image of one value per channel, and the bias that takes the whole window's sum away: what is left is what rounding
 * did, in the order in which it was done. Returns the values. */
std::vector<float> let_sums_cancel(Problem *p, Random *r, bool half) {
    std::vector<float> level;
    for (size_t c = 0; c < p->bias.size(); c++) {
        const float x = r->value();
        level.push_back(half ? amp_f32_from_bf16(amp_bf16_from_f32(x)) : x);
        double sum = 0;
        for (size_t t = c; t < p->taps.size(); t += p->bias.size()) sum += double(level[c]) * double(p->taps[t]);
        p->bias[c] = float(-sum);
    }
    return level;
}

void check(const amp_kernel *kernel, uint32_t seed) {
    const bool half = kernel->in == AMP_BF16;
    Random r{std::mt19937(seed)};
    Problem p = random_problem(&r, half);
    const amp_gemm_window &w = p.w;
    const size_t size = half ? 2 : 4;
    const int64_t x_values = p.images * w.image_stride - (w.step[2] - w.channels);
    const int64_t y_values = p.lines() * w.out[2] * p.y_step - (p.y_step - w.channels);
    EnclosedBuffer x(size_t(x_values) * size, seed % 2), y(size_t(y_values) * size, seed % 2);
    std::vector<float> level;
    if (seed % 3 == 0) level = let_sums_cancel(&p, &r, half);
    for (int64_t i = 0; i < x_values; i++) {
        const int64_t channel = i % w.step[2];
        const float inside = level.empty() || channel >= w.channels ? r.value() : level[size_t(channel)];
        put(&x, half, i, channel < w.channels ? inside : NAN);
    }
    for (int64_t i = 0; i < y_values; i++) put(&y, half, i, kUntouched);
    amp_depthwise d = {};
    d.window = &w, d.x = x.as(), d.taps = p.taps.data(), d.bias = p.bias.data();
    EnclosedBuffer pairs(size_t(amp_depthwise_pack_bytes(w.taps, w.channels)), false);
    amp_depthwise_pack(pairs.as<uint16_t>(), p.taps.data(), w.taps, w.channels);
    d.pairs = pairs.as();
    d.y = y.as(), d.y_step = p.y_step, d.y_line = p.y_step * w.out[2];
    d.far = seed % 5 < 2;
    const int64_t middle = p.lines() / 2;
    reinterpret_cast<amp_depthwise_function *>(kernel->function)(&d, middle, p.lines());
    reinterpret_cast<amp_depthwise_function *>(kernel->function)(&d, 0, middle);
    for (int64_t i = 0; i < y_values; i++) {
        const float got = get(&y, half, i);
        if (i % p.y_step >= w.channels) {
            ASSERT_EQ(got, kUntouched) << "between pixels, at " << i;
            continue;
        }
        SCOPED_TRACE("element " + std::to_string(i));
        const int64_t pixel = i / p.y_step, channel = i % p.y_step;
        check_output(kernel, got, p.bias[size_t(channel)],
                     meetings(p, &x, half, pixel / w.out[2], pixel % w.out[2], channel));
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(Depthwise, KernelsMatchTheModelAndF64BetweenGuardPages) {
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *kernel = amp_kernel_at(i);
        if (kernel->family != AMP_KERNEL_DEPTHWISE || !amp_kernel_usable(kernel, nullptr)) continue;
        for (uint32_t seed = 0; seed < 300; seed++) {
            SCOPED_TRACE(std::string(kernel->name) + ", seed " + std::to_string(seed));
            check(kernel, seed);
            if (HasFatalFailure()) return;
        }
    }
}

} // namespace
