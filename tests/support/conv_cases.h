// Convolutions of random shapes, and what they should give by plain f64 loops.
#ifndef AMP_TESTS_CONV_CASES_H
#define AMP_TESTS_CONV_CASES_H

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "amp_test.h"

namespace amp_test {

struct Config {
    int axes = 2;
    bool transposed = false;
    int64_t batch = 1, groups = 1, in_channels = 1, out_channels = 1; // channels of one group
    Shape in, kernel, stride, pad, dilation, output_padding;
};

inline Shape input_shape(const Config &c) {
    Shape s = {c.batch, c.groups * c.in_channels};
    s.insert(s.end(), c.in.begin(), c.in.end());
    return s;
}

inline Shape weight_shape(const Config &c) {
    Shape s = {c.groups * (c.transposed ? c.in_channels : c.out_channels),
               c.transposed ? c.out_channels : c.in_channels};
    s.insert(s.end(), c.kernel.begin(), c.kernel.end());
    return s;
}

inline Shape output_shape(const Config &c) {
    Shape s = {c.batch, c.groups * c.out_channels};
    for (size_t i = 0; i < size_t(c.axes); i++) {
        const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
        s.push_back(c.transposed ? (c.in[i] - 1) * c.stride[i] - 2 * c.pad[i] + reach + c.output_padding[i]
                                 : (c.in[i] + 2 * c.pad[i] - reach) / c.stride[i] + 1);
    }
    return s;
}

// A layer that oneDNN can compute too.
struct SharedLayer {
    const char *name;
    int64_t groups, in, out, batch, height, width, kernel, stride, pad;

    Config config() const {
        Config c;
        c.batch = batch, c.groups = groups, c.in_channels = in, c.out_channels = out;
        c.in = {height, width}, c.kernel = {kernel, kernel}, c.stride = {stride, stride};
        c.pad = {pad, pad}, c.dilation = {1, 1};
        return c;
    }
};

const SharedLayer shared_layers[] = {
    {"300_300_3x3", 1, 300, 300, 1, 8, 7, 3, 1, 1},
    {"300_300_3x3_by2x2", 1, 300, 300, 1, 8, 7, 3, 2, 1},
    {"24_50_1x1", 1, 24, 50, 2, 40, 30, 1, 1, 0},
    {"3_30_3x3_by2x2", 1, 3, 30, 2, 90, 91, 3, 2, 1},
    {"1_1_3x3_groups90_by2x2", 90, 1, 1, 1, 60, 40, 3, 2, 1},
};

// Steps through all indices below `extents`; false at the end.
inline bool next_index(Shape *index, const Shape &extents) {
    for (size_t i = extents.size(); i-- > 0;) {
        if (++(*index)[i] < extents[i]) return true;
        (*index)[i] = 0;
    }
    return false;
}

inline int64_t flat(const Shape &index, const Shape &extents) {
    int64_t at = 0;
    for (size_t i = 0; i < extents.size(); i++) at = at * extents[i] + index[i];
    return at;
}

// Sums and, for the bound of the error, sums of magnitudes.
struct Expected {
    std::vector<double> values, magnitudes;
};

// By the definition: each input meets each tap, and adds to the output there.
inline Expected reference(const Config &c, const std::vector<double> &x, const std::vector<double> &w,
                          const std::vector<double> &bias) {
    const Shape out = output_shape(c), spatial(out.begin() + 2, out.end());
    Expected y = {std::vector<double>(size_t(elements_of(out)), 0.0),
                  std::vector<double>(size_t(elements_of(out)), 0.0)};
    const int64_t pixels = elements_of(spatial), taps = elements_of(c.kernel), sources = elements_of(c.in);
    Shape i(size_t(c.axes), 0);
    do {
        Shape k(size_t(c.axes), 0);
        do {
            Shape o(size_t(c.axes));
            bool meets = true;
            for (size_t d = 0; d < o.size(); d++) {
                const int64_t sum = i[d] + c.pad[d] - k[d] * c.dilation[d];
                o[d] = c.transposed ? i[d] * c.stride[d] - c.pad[d] + k[d] * c.dilation[d] : sum / c.stride[d];
                meets =
                    meets && o[d] >= 0 && o[d] < spatial[d] && (c.transposed || (sum >= 0 && sum % c.stride[d] == 0));
            }
            if (!meets) continue;
            const int64_t pixel = flat(i, c.in), tap = flat(k, c.kernel), to = flat(o, spatial);
            // From a weight's channel of input, and of output, to the next.
            const int64_t in_step = c.transposed ? c.out_channels * taps : taps;
            const int64_t out_step = c.transposed ? taps : c.in_channels * taps;
            for (int64_t n = 0; n < c.batch * c.groups; n++) {
                const double *xs = x.data() + n * c.in_channels * sources + pixel;
                const double *group = w.data() + n % c.groups * c.out_channels * c.in_channels * taps + tap;
                for (int64_t a = 0; a < c.out_channels; a++) {
                    const double *ws = group + a * out_step;
                    double sum = 0, magnitude = 0;
                    for (int64_t b = 0; b < c.in_channels; b++) {
                        const double term = xs[b * sources] * ws[b * in_step];
                        sum += term;
                        magnitude += std::fabs(term);
                    }
                    const size_t at = size_t((n * c.out_channels + a) * pixels + to);
                    y.values[at] += sum;
                    y.magnitudes[at] += magnitude;
                }
            }
        } while (next_index(&k, c.kernel));
    } while (next_index(&i, c.in));
    for (size_t at = 0; !bias.empty() && at < y.values.size(); at++) {
        const double b = bias[at / size_t(pixels) % bias.size()];
        y.values[at] += b;
        y.magnitudes[at] += std::fabs(b);
    }
    return y;
}

inline amp_dims dims(const Shape &s) {
    amp_dims d = {};
    d.count = int(s.size());
    d.set = AMP_PRESENT;
    for (size_t i = 0; i < s.size(); i++) d.values[i] = s[i];
    return d;
}

// Half an ulp of the result, and the sum's own error.
inline void expect_close(const amp_tensor *got, const Expected &want, int64_t terms) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    const std::vector<double> g = numbers_of(got);
    ASSERT_EQ(g.size(), want.values.size());
    const amp_dtype dtype = amp_tensor_dtype(got);
    const double ulp = dtype == AMP_BF16 ? 0x1p-8 : dtype == AMP_F16 ? 0x1p-11 : dtype == AMP_F32 ? 0x1p-24 : 0x1p-53;
    const double unit = dtype == AMP_F64 ? 0x1p-53 : 0x1p-24;
    for (size_t i = 0; i < g.size(); i++) {
        const double bound = ulp * std::fabs(want.values[i]) * 1.01 + double(terms + 2) * unit * want.magnitudes[i];
        ASSERT_NEAR(g[i], want.values[i], bound + 0x1p-24) << "element " << i;
    }
}

struct Random {
    std::mt19937 engine;
    int64_t from(int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(engine);
    }
    bool chance(int64_t n) {
        return from(1, n) == 1;
    }
};

inline Config random_config(Random *r) {
    for (;;) {
        Config c;
        c.axes = int(r->from(1, 3));
        c.transposed = r->chance(3);
        c.batch = r->from(1, 3);
        c.groups = r->chance(3) ? r->from(2, 4) : 1;
        c.in_channels = r->chance(4) ? 1 : r->from(1, r->chance(3) ? 70 : 9);
        c.out_channels = r->chance(4) ? 1 : r->from(1, r->chance(3) ? 40 : 9);
        if (r->chance(5)) { // depthwise
            c.groups = r->from(1, 40);
            c.in_channels = 1;
            c.out_channels = r->chance(3) ? 2 : 1;
        }
        for (int i = 0; i < c.axes; i++) {
            c.in.push_back(r->from(1, c.axes == 3 ? 6 : 11));
            c.kernel.push_back(r->chance(3) ? 1 : r->from(1, 4));
            c.stride.push_back(r->chance(2) ? 1 : r->from(1, 3));
            c.pad.push_back(r->chance(2) ? 0 : r->from(0, 3));
            c.dilation.push_back(r->chance(3) ? r->from(1, 3) : 1);
            c.output_padding.push_back(r->from(0, std::max(c.stride.back(), c.dilation.back()) - 1));
        }
        if (c.transposed && r->chance(3)) { // every output meets one tap
            c.groups = 1;
            c.stride = c.kernel;
            c.pad = c.output_padding = Shape(size_t(c.axes), 0);
            c.dilation = Shape(size_t(c.axes), 1);
        }
        const Shape out = output_shape(c);
        bool possible = true;
        for (size_t i = 0; i < size_t(c.axes); i++) {
            const int64_t reach = c.dilation[i] * (c.kernel[i] - 1) + 1;
            possible = possible && out[2 + i] >= 1 && (c.transposed || c.in[i] + 2 * c.pad[i] >= reach);
        }
        if (possible) return c;
    }
}

} // namespace amp_test

#endif // AMP_TESTS_CONV_CASES_H
