/* The depthwise kernel: every row that this machine runs against f64, between guard pages, neighbours NaN and
 * untouched. */
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "amp/system.h"
#include "cpu/convert.h"
extern "C" {
#include "cpu/kernels.h"
}
#include "guard.h"

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
        w.taps[d] = d == 0 ? r->from(1, 2) : r->from(1, 5);
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

/* Output (line, o) of one channel, and the sum of magnitudes. */
double exact(const Problem &p, EnclosedBuffer *x, bool half, int64_t line, int64_t o, int64_t channel,
             double *magnitude) {
    const amp_gemm_window &w = p.w;
    const int64_t base[] = {line / w.out[1] % w.out[0], line % w.out[1], o};
    const int64_t image = line / w.out[1] / w.out[0];
    double sum = double(p.bias[size_t(channel)]);
    *magnitude = std::fabs(sum);
    for (int64_t t = 0; t < w.taps[0] * w.taps[1] * w.taps[2]; t++) {
        const int64_t tap[] = {t / w.taps[2] / w.taps[1], t / w.taps[2] % w.taps[1], t % w.taps[2]};
        int64_t offset = image * w.image_stride + channel;
        bool inside = true;
        for (int d = 0; d < 3; d++) {
            const int64_t at = base[d] * w.stride[d] - w.pad[d] + tap[d] * w.dilation[d];
            inside = inside && at >= 0 && at < w.in[d];
            offset += at * w.step[d];
        }
        if (!inside) continue;
        const double term = double(get(x, half, offset)) * double(p.taps[size_t(t * w.channels + channel)]);
        sum += term;
        *magnitude += std::fabs(term);
    }
    return sum;
}

void check(const amp_kernel *kernel, uint32_t seed) {
    const bool half = kernel->in == AMP_BF16;
    Random r{std::mt19937(seed)};
    const Problem p = random_problem(&r, half);
    const amp_gemm_window &w = p.w;
    const size_t size = half ? 2 : 4;
    const int64_t x_values = p.images * w.image_stride - (w.step[2] - w.channels);
    const int64_t y_values = p.lines() * w.out[2] * p.y_step - (p.y_step - w.channels);
    EnclosedBuffer x(size_t(x_values) * size, seed % 2), y(size_t(y_values) * size, seed % 2);
    for (int64_t i = 0; i < x_values; i++) put(&x, half, i, i % w.step[2] < w.channels ? r.value() : NAN);
    for (int64_t i = 0; i < y_values; i++) put(&y, half, i, kUntouched);
    amp_depthwise d = {};
    d.window = &w, d.x = x.as(), d.taps = p.taps.data(), d.bias = p.bias.data();
    EnclosedBuffer pairs(size_t(amp_depthwise_pack_bytes(w.taps, w.channels)), false);
    amp_depthwise_pack(pairs.as<uint16_t>(), p.taps.data(), w.taps, w.channels);
    d.pairs = pairs.as();
    d.y = y.as(), d.y_step = p.y_step, d.y_line = p.y_step * w.out[2];
    const int64_t middle = p.lines() / 2;
    reinterpret_cast<amp_depthwise_function *>(kernel->function)(&d, middle, p.lines());
    reinterpret_cast<amp_depthwise_function *>(kernel->function)(&d, 0, middle);
    for (int64_t i = 0; i < y_values; i++) {
        const float got = get(&y, half, i);
        if (i % p.y_step >= w.channels) {
            ASSERT_EQ(got, kUntouched) << "between pixels, at " << i;
            continue;
        }
        double magnitude;
        const int64_t pixel = i / p.y_step;
        const double want = exact(p, &x, half, pixel / w.out[2], pixel % w.out[2], i % p.y_step, &magnitude);
        const double bound = 60 * 0x1p-24 * magnitude + (half ? 0x1p-8 * std::fabs(want) : 0);
        ASSERT_NEAR(double(got), want, bound + 0x1p-126) << "element " << i;
    }
}

TEST(Depthwise, KernelsMatchF64BetweenGuardPages) {
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
