// Fourier transforms against their definition: every kind of length, forms, norms, cuts and paddings, strides,
// dimensions; long transforms by their properties; stft, polar, view_as_complex; what bad input is told.
#include <complex>

#include "amp_test.h"

using namespace amp_test;

namespace {

using Complex = std::complex<double>;
using Signal = std::vector<Complex>;

class Fft : public Test {};

const amp_dims no_dims = AMP_NO_DIMS;

amp_tensor *random_complex(amp_dtype dtype, Shape shape, uint64_t seed) {
    shape.push_back(2);
    return op("view_as_complex", {random_tensor(dtype == AMP_C64 ? AMP_F32 : AMP_F64, shape, seed)});
}

// The elements in order, real ones too.
Signal values_of(amp_tensor *t) {
    Signal values;
    if (!t) return values;
    amp_tensor *dense = op("contiguous", {t});
    const amp_dtype dtype = amp_tensor_dtype(dense);
    for (int64_t i = 0; i < amp_tensor_numel(dense); i++) {
        const void *data = amp_data(dense);
        if (dtype == AMP_C64)
            values.emplace_back(static_cast<const std::complex<float> *>(data)[i]);
        else if (dtype == AMP_C128)
            values.push_back(static_cast<const Complex *>(data)[i]);
        else
            values.emplace_back(number_at(dtype, data, i));
    }
    return values;
}

// Σ x[j]·exp(∓2πi·jk/n) by definition; x is cut or padded to n.
Signal transform(Signal x, int64_t n, bool inverse = false) {
    x.resize(size_t(n));
    std::vector<std::complex<long double>> roots;
    Signal y;
    for (int64_t k = 0; k < n; k++) {
        const long double angle = (inverse ? 2 : -2) * 3.141592653589793238462643L * (long double)k / (long double)n;
        roots.emplace_back(std::cos(angle), std::sin(angle));
    }
    for (int64_t k = 0; k < n; k++) {
        std::complex<long double> sum;
        for (int64_t j = 0; j < n; j++) sum += std::complex<long double>(x[size_t(j)]) * roots[size_t(j * k % n)];
        y.emplace_back(sum);
    }
    return y;
}

// The whole spectrum that a given first half stands for.
Signal mirrored(Signal half, int64_t n) {
    half.resize(size_t(n / 2 + 1));
    Signal full(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; k++) full[size_t(k)] = k <= n / 2 ? half[size_t(k)] : std::conj(half[size_t(n - k)]);
    full[0] = full[0].real();
    if (n % 2 == 0) full[size_t(n / 2)] = full[size_t(n / 2)].real();
    return full;
}

void expect_close(amp_tensor *got, Signal want, double epsilon, double scale = 1.0) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    const Signal g = values_of(got);
    ASSERT_LE(g.size(), want.size());
    double size = 1e-300;
    for (const Complex &w : want) size = std::max(size, std::abs(w * scale));
    for (size_t i = 0; i < g.size(); i++) {
        ASSERT_LE(std::abs(g[i] - want[i] * scale), epsilon * size)
            << "element " << i << " of " << g.size() << " is " << g[i] << ", not " << want[i] * scale;
    }
}

const std::vector<int64_t> lengths = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  11,  12,  13,  14,   15,   16,   17,
                                      19, 21, 22, 23, 32, 47, 49, 53, 64, 100, 106, 121, 128, 1000, 1021, 1024, 1331};

double epsilon_of(amp_dtype dtype) {
    return dtype == AMP_F64 || dtype == AMP_C128 ? 2e-15 : 1.3e-7; // of the largest value
}

TEST_F(Fft, ComplexMatchesTheDefinition) {
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        for (const int64_t n : lengths) {
            SCOPED_TRACE(n);
            amp_tensor *x = random_complex(dtype, {n}, uint64_t(n));
            expect_close(op("fft_fft", {x}), transform(values_of(x), n), epsilon_of(dtype));
            expect_close(op("fft_ifft", {x}), transform(values_of(x), n, true), epsilon_of(dtype), 1.0 / double(n));
        }
    }
}

TEST_F(Fft, RealMatchesTheDefinition) {
    for (const amp_dtype dtype : {AMP_F32, AMP_F64}) {
        for (const int64_t n : lengths) {
            SCOPED_TRACE(n);
            amp_tensor *x = random_tensor(dtype, {n}, uint64_t(n));
            Signal want = transform(values_of(x), n);
            expect_close(op("fft_fft", {x}), want, epsilon_of(dtype));
            amp_tensor *half = op("fft_rfft", {x});
            expect_close(half, want, epsilon_of(dtype));
            EXPECT_EQ(amp_tensor_numel(half), n / 2 + 1);
            for (Complex &c : want) c = std::conj(c);
            expect_close(op("fft_ihfft", {x}), want, epsilon_of(dtype), 1.0 / double(n));
            expect_close(op("fft_irfft", {half}, {{"n", n}}), values_of(x), 2 * epsilon_of(dtype));
        }
    }
}

TEST_F(Fft, SpectraNeedNotBeHermitian) {
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        for (const int64_t n : lengths) {
            SCOPED_TRACE(n);
            amp_tensor *x = random_complex(dtype, {n / 2 + 1}, uint64_t(n));
            const Signal full = mirrored(values_of(x), n);
            expect_close(op("fft_irfft", {x}, {{"n", n}}), transform(full, n, true), epsilon_of(dtype),
                         1.0 / double(n));
            Signal conjugate = full;
            for (Complex &c : conjugate) c = std::conj(c);
            expect_close(op("fft_hfft", {x}, {{"n", n}}), transform(conjugate, n, true), epsilon_of(dtype));
        }
    }
}

TEST_F(Fft, LinesAreCutAndPadded) {
    for (const int64_t extent : {0, 1, 4, 5, 9, 20}) {
        for (const int64_t n : {1, 5, 6, 8, 11}) {
            SCOPED_TRACE(std::to_string(extent) + " to " + std::to_string(n));
            amp_tensor *x = random_tensor(AMP_F64, {extent}, 3), *z = random_complex(AMP_C128, {extent}, 4);
            expect_close(op("fft_fft", {z}, {{"n", n}}), transform(values_of(z), n), 2e-15);
            expect_close(op("fft_rfft", {x}, {{"n", n}}), transform(values_of(x), n), 2e-15);
            expect_close(op("fft_irfft", {z}, {{"n", n}}), transform(mirrored(values_of(z), n), n, true), 2e-15,
                         1.0 / double(n));
            expect_close(op("fft_irfft", {x}, {{"n", n}}), transform(mirrored(values_of(x), n), n, true), 2e-15,
                         1.0 / double(n));
        }
    }
}

TEST_F(Fft, NormsScale) {
    amp_tensor *x = random_complex(AMP_C128, {12}, 5);
    const Signal there = transform(values_of(x), 12), back = transform(values_of(x), 12, true);
    for (const char *norm : {"backward", "forward", "ortho"}) {
        const std::string name = norm;
        const double forward = name == "forward" ? 1.0 / 12 : name == "ortho" ? 1 / std::sqrt(12.0) : 1.0;
        expect_close(op("fft_fft", {x}, {{"norm", norm}}), there, 1e-15, forward);
        expect_close(op("fft_ifft", {x}, {{"norm", norm}}), back, 1e-15, 1.0 / 12 / forward);
        expect_close(op("fft_hfft", {op("fft_ihfft", {random_tensor(AMP_F64, {12}, 6)}, {{"norm", norm}})},
                        {{"norm", norm}, {"n", 12}}),
                     values_of(random_tensor(AMP_F64, {12}, 6)), 1e-15);
    }
}

// fft over several dimensions is one after another.
TEST_F(Fft, ManyDimensionsAreOneAfterAnother) {
    amp_tensor *x = random_complex(AMP_C128, {5, 6, 7}, 7), *r = random_tensor(AMP_F64, {5, 6, 7}, 8);
    amp_tensor *want = op("fft_fft", {op("fft_fft", {x, 9, 0}), 4, -1});
    expect_close(op("fft_fftn", {x, AMP_DIMS(9, 4), AMP_DIMS(0, 2)}), values_of(want), 1e-14);
    expect_close(op("fft_fftn", {x, AMP_DIMS(9, -1, 7)}),
                 values_of(op("fft_fft", {op("fft_fft", {op("fft_fft", {x, 9, 0}), 6, 1}), 7, 2})), 1e-14);
    expect_close(op("fft_ifft2", {x}), values_of(op("fft_ifft", {op("fft_ifft", {x, nullptr, 1}), nullptr, 2})), 1e-14);
    amp_tensor *half = op("fft_rfftn", {r, AMP_DIMS(3, 10), AMP_DIMS(2, 0)});
    expect_close(half, values_of(op("fft_fft", {op("fft_rfft", {r, 10, 0}), 3, 2})), 1e-14);
    expect_close(op("fft_irfft2", {half, AMP_DIMS(7, 11), AMP_DIMS(1, 0)}),
                 values_of(op("fft_irfft", {op("fft_ifft", {half, 7, 1}), 11, 0})), 1e-14);
    expect_close(op("fft_irfftn", {half, AMP_DIMS(2, 4, 3)}),
                 values_of(op("fft_irfft", {op("fft_ifft", {op("fft_ifft", {half, 2, 0}), 4, 1}), 3, 2})), 1e-14);
    expect_close(op("fft_fftn", {r, nullptr, no_dims}), values_of(r), 0.0);
}

TEST_F(Fft, StridesChangeNothing) {
    amp_tensor *x = random_complex(AMP_C64, {12, 30}, 9);
    amp_tensor *t = op("transpose", {op("contiguous", {op("transpose", {x, 0, 1})}), 0, 1});
    for (int dim = 0; dim < 2; dim++) {
        EXPECT_EQ(values_of(op("fft_fft", {t, nullptr, dim})), values_of(op("fft_fft", {x, nullptr, dim})));
        EXPECT_EQ(values_of(op("fft_irfft", {t, nullptr, dim})), values_of(op("fft_irfft", {x, nullptr, dim})));
    }
    amp_tensor *row = op("expand", {random_tensor(AMP_F32, {1, 30}, 10), AMP_DIMS(11, 30)});
    const Signal lines = values_of(op("fft_rfft", {row}));
    for (size_t i = 0; i < lines.size(); i++) EXPECT_EQ(lines[i], lines[i % 16]);
}

TEST_F(Fft, IntegersAreTransformedInF32) {
    amp_tensor *x = tensor(AMP_I64, {4}, {1, 2, 3, 4}), *y = op("fft_fft", {x});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_C64);
    EXPECT_EQ(values_of(y), (Signal{{10, 0}, {-2, 2}, {-2, 0}, {-2, -2}}));
    EXPECT_EQ(amp_tensor_dtype(op("fft_hfft", {tensor(AMP_BOOL, {4})})), AMP_F32);
}

TEST_F(Fft, NoLinesGiveNothing) {
    amp_tensor *y = op("fft_rfft", {tensor(AMP_F32, {0, 6})});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_C64);
    EXPECT_EQ(amp_tensor_size(y, 1), 4);
    EXPECT_EQ(values_of(op("fft_fft", {tensor(AMP_F32, {0}), 2})), Signal(2));
}

// What is not a number stays in its line.
TEST_F(Fft, LinesDoNotMix) {
    amp_tensor *x = op("ones", {AMP_DIMS(11, 24)});
    static_cast<float *>(amp_data_mut(x))[5 * 24 + 3] = NAN;
    const Signal y = values_of(op("fft_fft", {x}));
    for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isnan(y[i].real()), i / 24 == 5) << i;
}

// ---- Long transforms ---------------------------------------------------------------------------------------------

// 100,000 numbers are cut up as 250 · 400; 65,537 and 2 · 50,021 have no small factors; 3 · 32,771 has an odd half.
const std::vector<int64_t> long_lengths = {4096, 65536, 98313, 100000, 100042, 65537};

TEST_F(Fft, LongTransformsOfWavesAreSpikes) {
    for (const int64_t n : long_lengths) {
        SCOPED_TRACE(n);
        const int64_t frequency = n / 3 + 1;
        std::vector<double> wave;
        for (int64_t i = 0; i < n; i++) {
            const long double angle = 6.283185307179586476925L * (long double)(i * frequency % n) / (long double)n;
            wave.push_back(double(std::cos(angle)));
            wave.push_back(double(std::sin(angle)));
        }
        amp_tensor *pairs = tensor(AMP_F64, {n, 2}, wave), *x = op("view_as_complex", {pairs});
        Signal want(static_cast<size_t>(n));
        want[size_t(frequency)] = double(n);
        expect_close(op("fft_fft", {x}), want, 1e-15);
        want.assign(size_t(n), 0.0);
        want[size_t(frequency)] = want[size_t(n - frequency)] = double(n) / 2;
        expect_close(op("fft_rfft", {op("select", {pairs, 1, 0})}), want, 1e-15);
    }
}

TEST_F(Fft, LongTransformsAreUndone) {
    for (const int64_t n : long_lengths) {
        for (const amp_dtype dtype : {AMP_F32, AMP_F64}) {
            SCOPED_TRACE(n);
            amp_tensor *x = random_tensor(dtype, {2, n}, uint64_t(n));
            amp_tensor *z = random_complex(dtype == AMP_F32 ? AMP_C64 : AMP_C128, {n}, 11);
            expect_close(op("fft_irfft", {op("fft_rfft", {x})}, {{"n", n}}), values_of(x), 4 * epsilon_of(dtype));
            expect_close(op("fft_ifft", {op("fft_fft", {z})}), values_of(z), 4 * epsilon_of(dtype));
        }
    }
}

// One line is cut up, many run in lanes.
TEST_F(Fft, LongAndShortWaysAgree) {
    for (const int64_t n : {1024, 3000, 20000}) {
        amp_tensor *x = random_tensor(AMP_F64, {5, n}, 12);
        amp_tensor *first = op("narrow", {x, 0, 0, 1});
        expect_close(op("fft_rfft", {first}), values_of(op("narrow", {op("fft_rfft", {x}), 0, 0, 1})), 2e-15);
    }
}

TEST_F(Fft, ThreadsChangeNothing) {
    const int threads = amp_get_num_threads();
    for (const Shape &shape : {Shape{40, 1000}, Shape{60000}, Shape{3, 40009}}) {
        amp_tensor *x = random_tensor(AMP_F32, shape, 13);
        ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
        const Signal one = values_of(op("fft_rfft", {x})), full = values_of(op("fft_fft", {x}));
        ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
        EXPECT_EQ(values_of(op("fft_rfft", {x})), one);
        EXPECT_EQ(values_of(op("fft_fft", {x})), full);
    }
    ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
}

// More lengths than the cache keeps, and plans too big for it.
TEST_F(Fft, PlansComeAndGo) {
    for (int round = 0; round < 2; round++) {
        for (int64_t n = 2; n < 90; n++) {
            amp_tensor *x = random_tensor(AMP_F64, {n}, uint64_t(n));
            expect_close(op("fft_rfft", {x}), transform(values_of(x), n), 2e-15);
        }
        amp_tensor *x = random_complex(AMP_C64, {400009}, 14);
        expect_close(op("fft_ifft", {op("fft_fft", {x})}), values_of(x), 4e-7);
    }
}

TEST_F(Fft, OutIsWritten) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 8}, 15),
               *out = op("transpose", {op("zeros", {AMP_DIMS(5, 3)}, {{"dtype", AMP_C64}}), 0, 1});
    ASSERT_NE(op("fft_rfft_out", {x}, {{"out", out}}), nullptr) << amp_last_error();
    EXPECT_EQ(values_of(out), values_of(op("fft_rfft", {x})));
}

TEST_F(Fft, BadInputIsExplained) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 8}, 16), *z = op("fft_fft", {x});
    EXPECT_EQ(op("fft_fft", {x, 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fft", "'n'", "0", "[3, 8] f32"}));
    EXPECT_EQ(op("fft_fft", {x, nullptr, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fft", "dim"}));
    EXPECT_EQ(op("fft_fft", {x}, {{"norm", "unit"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fft", "'norm'", "unit", "ortho"}));
    EXPECT_EQ(op("fft_rfft", {z}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"fft_rfft", "[3, 8] c64", "real"}));
    EXPECT_EQ(op("fft_fft", {tensor(AMP_F16, {4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"fft_fft", "[4] f16", "f32"}));
    EXPECT_EQ(op("fft_irfft", {op("narrow", {z, 1, 0, 1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_irfft", "1"}));
    EXPECT_EQ(op("fft_fft", {op("select", {op("select", {x, 0, 0}), 0, 0})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fft", "dimension"}));
    EXPECT_EQ(op("fft_fftn", {x, AMP_DIMS(2, 2), AMP_DIMS(1)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fftn", "'s'", "'dim'"}));
    EXPECT_EQ(op("fft_fftn", {x, AMP_DIMS(2, 2, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fftn", "3", "[3, 8] f32"}));
    EXPECT_EQ(op("fft_fft2", {x, nullptr, AMP_DIMS(1, -1)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_fft2", "dim"}));
    EXPECT_EQ(op("fft_rfftn", {x, nullptr, no_dims}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"fft_rfftn", "no dimension"}));
}

// ---- stft, polar, view_as_complex --------------------------------------------------------------------------------

// PyTorch's numbers.
TEST_F(Fft, StftAlignsTheWindowWhereItIsTold) {
    amp_tensor *x = tensor(AMP_F64, {10}, {1, -2, 3, 5, -7, 1, 2, 4, 9, -3}), *w = tensor(AMP_F64, {3}, {1, 2, 3});
    const std::vector<Named> options = {{"hop_length", 2}, {"win_length", 3},         {"window", w},
                                        {"center", false}, {"return_complex", false}, {"align_to_window", true}};
    const std::vector<double> expected = {6.0,        0.0,        -8.0,        0.0,       1.0,       0.0,
                                          37.0,       0.0,        -3.7360680,  6.6901514, 9.8262377, -21.0745125,
                                          -8.6352549, 9.0085373,  -27.6975613, 9.2658062, 0.7360680, -12.9515209,
                                          -5.8262382, 27.7193966, 8.1352549,   0.3102705, 9.1975603, -19.2456436};
    const std::vector<double> got = numbers_of(op("stft", {x, 5}, options));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], expected[i], 1e-5) << "element " << i;
    // Of an odd rest the smaller half is in front: frames of 6 of a window of 3 begin with one zero.
    const std::vector<double> wide = numbers_of(op("stft", {x, 6}, options));
    const std::vector<double> padded = numbers_of(op("stft", {op("constant_pad_nd", {x, AMP_DIMS(1, 2)}), 6},
                                                     {{"hop_length", 2},
                                                      {"win_length", 6},
                                                      {"window", tensor(AMP_F64, {6}, {0, 1, 2, 3, 0, 0})},
                                                      {"center", false},
                                                      {"return_complex", false}}));
    EXPECT_EQ(wide, padded);
    EXPECT_EQ(op("stft", {x, 5}, {{"return_complex", true}, {"align_to_window", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'align_to_window'", "'center'"}));
}

TEST_F(Fft, StftTransformsWindowedFrames) {
    amp_tensor *x = random_tensor(AMP_F64, {2, 50}, 17), *w = random_tensor(AMP_F64, {6}, 18);
    const std::vector<double> xs = numbers_of(x), ws = numbers_of(w);
    for (const bool center : {false, true}) {
        amp_tensor *y =
            op("stft", {x, 9},
               {{"hop_length", 4}, {"win_length", 6}, {"window", w}, {"center", center}, {"return_complex", true}});
        ASSERT_NE(y, nullptr) << amp_last_error();
        const int64_t pad = center ? 4 : 0, frames = (50 + 2 * pad - 9) / 4 + 1;
        ASSERT_EQ(amp_tensor_size(y, 2), frames);
        const Signal got = values_of(y);
        for (int64_t f = 0; f < 2 * frames; f++) {
            Signal frame(9);
            for (int64_t i = 0; i < 6; i++) {
                int64_t at = f % frames * 4 + i + 1 - pad; // the window stands one to the right
                at = at < 0 ? -at : at >= 50 ? 98 - at : at;
                frame[size_t(i + 1)] = xs[size_t(f / frames * 50 + at)] * ws[size_t(i)];
            }
            const Signal want = transform(frame, 9);
            for (int64_t k = 0; k < 5; k++) {
                EXPECT_LE(std::abs(got[size_t((f / frames * 5 + k) * frames + f % frames)] - want[size_t(k)]), 1e-14);
            }
        }
    }
}

TEST_F(Fft, StftHasForms) {
    amp_tensor *x = random_tensor(AMP_F32, {40}, 19), *z = op("stft", {x, 8}, {{"return_complex", true}});
    amp_tensor *pairs = op("stft", {x, 8}, {{"return_complex", false}});
    EXPECT_EQ(values_of(op("view_as_complex", {pairs})), values_of(z));
    expect_close(op("stft", {x, 8}, {{"return_complex", true}, {"normalized", true}}), values_of(z), 1e-7,
                 1 / std::sqrt(8.0));
    amp_tensor *full = op("stft", {x, 8}, {{"return_complex", true}, {"onesided", false}});
    EXPECT_EQ(amp_tensor_size(full, 0), 8);
    expect_close(op("narrow", {full, 0, 0, 5}), values_of(z), 2e-7);
    amp_tensor *c = op("to", {x}, {{"dtype", AMP_C64}});
    expect_close(op("stft", {c, 8}), values_of(full), 2e-7);
    const Signal start = values_of(op("narrow", {x, 0, 0, 4})), end = values_of(op("narrow", {x, 0, 36, 4}));
    for (const char *mode : {"constant", "replicate", "circular"}) {
        const std::string name = mode;
        Signal frame(8);
        for (size_t i = 0; i < 4; i++) {
            frame[i] = name == "constant" ? 0.0 : name == "replicate" ? start[0] : end[i];
            frame[i + 4] = start[i];
        }
        amp_tensor *y = op("stft", {x, 8}, {{"return_complex", true}, {"pad_mode", mode}});
        expect_close(op("narrow", {y, 1, 0, 1}), transform(frame, 8), 2e-7);
    }
}

TEST_F(Fft, StftExplainsBadInput) {
    amp_tensor *x = random_tensor(AMP_F32, {10}, 20);
    EXPECT_EQ(op("stft", {x, 4}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'return_complex'"}));
    const Named complex_result = {"return_complex", true};
    EXPECT_EQ(op("stft", {x, 40}, {complex_result}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "[10] f32", "20", "reflect"}));
    EXPECT_EQ(op("stft", {x, 40}, {complex_result, {"center", false}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'n_fft'", "40"}));
    EXPECT_EQ(op("stft", {x, 2}, {complex_result}), nullptr); // the hop is 2 / 4
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'hop_length' 0"}));
    EXPECT_EQ(op("stft", {x, 4}, {complex_result, {"window", tensor(AMP_F32, {3})}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'window'", "[3]"}));
    EXPECT_EQ(op("stft", {x, 4}, {complex_result, {"pad_mode", "around"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'pad_mode'", "around"}));
    EXPECT_EQ(op("stft", {op("fft_fft", {x}), 4}, {{"onesided", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stft", "'onesided'"}));
    EXPECT_EQ(op("stft", {tensor(AMP_BF16, {10}), 4}, {complex_result}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"stft", "bf16"}));
}

TEST_F(Fft, PolarTurnsAnglesIntoComplexNumbers) {
    amp_tensor *abs = tensor(AMP_F64, {2, 1}, {1, 2}), *angle = tensor(AMP_F64, {3}, {0, M_PI / 2, M_PI});
    expect_close(op("polar", {abs, angle}), {{1, 0}, {0, 1}, {-1, 0}, {2, 0}, {0, 2}, {-2, 0}}, 2e-16);
    EXPECT_EQ(op("polar", {abs, tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"polar", "'abs'", "'angle'"}));
    EXPECT_EQ(op("polar", {tensor(AMP_I64, {3}), tensor(AMP_I64, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"polar", "f64"}));
}

TEST_F(Fft, ViewAsComplexSharesMemory) {
    amp_tensor *x = tensor(AMP_F32, {3, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    amp_tensor *z = op("view_as_complex", {op("select", {x, 1, 1})});
    EXPECT_EQ(values_of(z), (Signal{{3, 4}, {7, 8}, {11, 12}}));
    static_cast<float *>(amp_data_mut(x))[2] = 30;
    EXPECT_EQ(values_of(z)[0], Complex(30, 4));
    EXPECT_EQ(op("view_as_complex", {op("transpose", {x, 0, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view_as_complex", "[2, 2, 3]", "last dimension of 2"}));
    EXPECT_EQ(op("view_as_complex", {op("transpose", {x, 1, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view_as_complex", "stride"}));
    EXPECT_EQ(op("view_as_complex", {op("narrow", {op("view", {x, AMP_DIMS(12)}), 0, 1, 2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view_as_complex", "element 1"}));
    EXPECT_EQ(op("view_as_complex", {tensor(AMP_I32, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"view_as_complex", "i32"}));
}

} // namespace
