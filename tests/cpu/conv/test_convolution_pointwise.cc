// Convolutions with an epilogue, in every driver, against the definition in f64: dtypes, layouts, groups, depthwise,
// transposed; threads; oneDNN's; what bad input is told.
#include "conv_epilogues.h"
#include "dnnl_use.h"
#include "layouts.h"
#include "machine/isa.h"
#include "sanitizers.h"

using namespace amp_test;

namespace {

class ConvolutionPointwise : public Test {};

TEST_F(ConvolutionPointwise, RandomConfigurationsMatchF64) {
    const amp_dtype dtypes[] = {AMP_F64, AMP_F32, AMP_BF16, AMP_F16};
    for (uint32_t seed = 0; seed < 400; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scope scope;
        Random r{std::mt19937(seed)};
        const Config c = random_config(&r);
        const amp_dtype dtype = dtypes[seed % 4];
        const Activation &a = activations[seed / 4 % 10];
        const int64_t channels = c.groups * c.out_channels, terms = c.in_channels * elements_of(c.kernel) + 8;
        Operands o = {};
        o.x = random_tensor(dtype, input_shape(c), seed * 5 + 1);
        o.w = random_tensor(dtype, weight_shape(c), seed * 5 + 2);
        if (r.chance(2)) o.bias = random_tensor(dtype, {channels}, seed * 5 + 3);
        if (r.chance(2)) o.scale = random_tensor(dtype == AMP_F64 ? AMP_F64 : AMP_F32, {channels}, seed * 5 + 4);
        if (!c.transposed && !r.chance(3)) o.other = random_tensor(dtype, output_shape(c), seed * 5 + 5);
        const Expected want = expected(c, o, a);
        expect_close(run(c, o, a), want, terms);
        if (HasFatalFailure()) return;
        Operands last = o, apart = o;
        last.x = channels_last(o.x);
        expect_close(run(c, last, a), want, terms);
        if (o.other) last.other = channels_last(o.other);
        expect_close(run(c, last, a), want, terms);
        for (amp_tensor **t : {&apart.x, &apart.w, &apart.bias, &apart.scale, &apart.other})
            if (*t) *t = spread(*t);
        expect_close(run(c, apart, a), want, terms);
        if (HasFatalFailure()) return;
    }
}

// What no policy casts is added as it is, and the result may be wider or narrower than the operands.
TEST_F(ConvolutionPointwise, AdditionsOfOtherDtypesMatchF64) {
    const amp_dtype dtypes[] = {AMP_BF16, AMP_F32, AMP_BF16, AMP_F64, AMP_F16};
    const amp_dtype others[] = {AMP_F32, AMP_BF16, AMP_F32}, results[] = {AMP_F32, AMP_DTYPE_NONE, AMP_BF16};
    for (uint32_t seed = 0; seed < 400; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scope scope;
        Random r{std::mt19937(seed)};
        const Config c = random_config(&r);
        if (c.transposed) continue;
        const amp_dtype dtype = dtypes[seed % 5];
        const Activation &a = activations[seed / 5 % 10];
        const int64_t channels = c.groups * c.out_channels, terms = c.in_channels * elements_of(c.kernel) + 8;
        Operands o = {};
        o.x = random_tensor(dtype, input_shape(c), seed * 5 + 1);
        o.w = random_tensor(dtype, weight_shape(c), seed * 5 + 2);
        if (r.chance(2)) o.bias = random_tensor(dtype, {channels}, seed * 5 + 3);
        if (r.chance(2)) o.scale = random_tensor(AMP_F32, {channels}, seed * 5 + 4);
        if (!r.chance(3)) o.shift = random_tensor(AMP_F32, {channels}, seed * 5 + 5);
        if (!r.chance(3)) o.residual = random_tensor(others[seed / 7 % 3], output_shape(c), seed * 5 + 6);
        o.dtype = results[seed / 3 % 3];
        const Expected want = expected(c, o, a);
        const amp_dtype result = o.dtype == AMP_DTYPE_NONE ? dtype : o.dtype;
        Operands last = o, apart = o;
        last.x = channels_last(o.x);
        for (amp_tensor **t : {&apart.x, &apart.w, &apart.bias, &apart.scale, &apart.shift, &apart.residual})
            if (*t) *t = spread(*t);
        for (const Operands &all : {o, last, apart}) {
            amp_tensor *y = run(c, all, a);
            ASSERT_NE(y, nullptr) << amp_last_error();
            EXPECT_EQ(amp_tensor_dtype(y), result);
            // f64 with a scale or shift of f32, rounded to it: the error is that of the result's dtype
            expect_close(y, want, terms);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_F(ConvolutionPointwise, NoPolicyCastsAdditions) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 8, 6, 5}, 1), *w = random_tensor(AMP_F32, {12, 8, 3, 3}, 2);
    amp_tensor *shift = random_tensor(AMP_F32, {12}, 3), *residual = random_tensor(AMP_F32, {2, 12, 4, 3}, 4);
    amp_tensor *here = nullptr, *sum = nullptr;
    const std::vector<Named> more = {{"shift", shift}, {"residual", residual}, {"dtype", AMP_F32}};
    amp_autocast(AMP_DEVICE_CPU) {
        here = op("convolution_pointwise", {x, w}, more);
    }
    sum = op("convolution_pointwise", {op("to", {x, AMP_BF16}), op("to", {w, AMP_BF16})}, more);
    ASSERT_TRUE(here && sum) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(here), AMP_F32);
    EXPECT_EQ(numbers_of(here), numbers_of(sum));
}

TEST_F(ConvolutionPointwise, SaysWhatIsWrongWithAdditions) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 8, 6, 5}, 1), *w = random_tensor(AMP_F32, {12, 8, 3, 3}, 2);
    const auto message = [&](const Named &option) {
        EXPECT_EQ(op("convolution_pointwise", {x, w}, {option}), nullptr);
        const std::string text = amp_last_error();
        amp_clear_error();
        return text;
    };
    EXPECT_EQ(message({"shift", random_tensor(AMP_F32, {11}, 3)}),
              "convolution_pointwise: 'shift' is [11] f32; expected shape [12], one for each output channel");
    EXPECT_EQ(message({"shift", tensor(AMP_I32, {12}, {1})}),
              "convolution_pointwise: 'shift' is [12] i32; with a shift, a residual or a dtype it must be floating");
    EXPECT_EQ(message({"dtype", AMP_I64}), "convolution_pointwise: 'dtype' is i64; expected a floating dtype");
    EXPECT_NE(message({"residual", random_tensor(AMP_F32, {2, 12, 4, 4}, 3)}).find("'residual'"), std::string::npos);
}

TEST_F(ConvolutionPointwise, WithoutAnEpilogueItIsTheConvolution) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {2, 12, 9, 11}, 1), *w = random_tensor(dtype, {20, 12, 3, 3}, 2);
        EXPECT_EQ(numbers_of(op("convolution_pointwise", {x, w})), numbers_of(op("conv2d", {x, w})));
        EXPECT_EQ(numbers_of(op("convolution_pointwise", {x, w}, {{"stride", AMP_DIMS(2)}, {"attr", "relu"}})),
                  numbers_of(op("relu", {op("conv2d", {x, w, nullptr}, {{"stride", AMP_DIMS(2, 2)}})})));
        amp_tensor *v = random_tensor(dtype, {12, 5, 3, 3}, 3);
        EXPECT_EQ(numbers_of(op("convolution_transpose_pointwise", {x, v}, {{"padding", AMP_DIMS(1)}})),
                  numbers_of(op("conv_transpose2d", {x, v, nullptr}, {{"padding", AMP_DIMS(1, 1)}})));
    }
}

TEST_F(ConvolutionPointwise, OtherBroadcasts) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 5, 5}, 1), *w = random_tensor(AMP_F32, {4, 3, 3, 3}, 2);
    amp_tensor *other = random_tensor(AMP_F32, {4, 1, 3}, 3);
    EXPECT_EQ(numbers_of(op("convolution_pointwise.binary", {x, other, w})),
              numbers_of(op("add", {op("conv2d", {x, w}), other})));
}

// A dimension of stride 0 is no even distance of lines: in every driver, with the memory of `other` used to its end.
TEST_F(ConvolutionPointwise, OtherOfFewDimensionsBroadcasts) {
    struct Case {
        Shape x, w, other;
        int64_t groups;
    };
    const Case cases[] = {
        {{1, 3, 5, 5}, {1, 3, 3, 3}, {3}, 1},           {{5, 16, 1, 1}, {24, 16, 1, 1}, {24, 1, 1}, 1},
        {{2, 16, 9, 1}, {24, 16, 1, 1}, {24, 1, 1}, 1}, {{3, 16, 40}, {1, 16, 3}, {38}, 1},
        {{2, 40, 6, 6}, {40, 1, 3, 3}, {40, 1, 1}, 40},
    };
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        for (const Case &c : cases) {
            amp_tensor *x = random_tensor(dtype, c.x, 1), *w = random_tensor(dtype, c.w, 2);
            amp_tensor *other = random_tensor(dtype, c.other, 3);
            amp_tensor *y = op("convolution_pointwise", {x, w}, {{"groups", c.groups}});
            ASSERT_NE(y, nullptr) << amp_last_error();
            expect_near(op("convolution_pointwise.binary", {x, other, w}, {{"groups", c.groups}}),
                        numbers_of(op("add", {y, other})), dtype == AMP_BF16 ? 0x1p-6 : 1e-5);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_F(ConvolutionPointwise, EmptyExtents) {
    amp_tensor *w = random_tensor(AMP_F32, {4, 3, 3, 3}, 2);
    const amp_tensor *y = op("convolution_pointwise", {tensor(AMP_F32, {0, 3, 5, 5}), w}, {{"attr", "relu"}});
    ASSERT_NE(y, nullptr) << amp_last_error();
    EXPECT_TRUE(numbers_of(y).empty());
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) { // no channels: the rest of the epilogue remains
        y = op("convolution_pointwise.binary",
               {tensor(dtype, {1, 0, 3, 3}), tensor(dtype, {1, 2, 1, 1}, {-3, 3}), tensor(dtype, {2, 0, 3, 3})},
               {{"bias", tensor(dtype, {2}, {1, 2})}, {"attr", "relu"}});
        EXPECT_EQ(numbers_of(y), (std::vector<double>{0, 5})) << amp_last_error();
    }
}

TEST_F(ConvolutionPointwise, NanAndInfinityGoThrough) {
    const double inf = INFINITY;
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = tensor(dtype, {1, 1, 1, 3}, {NAN, inf, -inf}), *w = tensor(dtype, {1, 1, 1, 1}, {1});
        const std::vector<double> y = numbers_of(op("convolution_pointwise", {x, w}, {{"attr", "relu"}}));
        EXPECT_TRUE(std::isnan(y[0]));
        EXPECT_EQ(y[1], inf);
        EXPECT_EQ(y[2], 0);
    }
}

// Layers that oneDNN can compute too, by it and by our kernel; also its slices of channels.
TEST_F(ConvolutionPointwise, MatchesF64OnAnyThreadsWhoeverComputesIt) {
    const bool sanitized = amp_test::under_tsan || amp_test::under_asan;
    const size_t cases = sanitized ? 2 : 20; // with all operands, and with some: the rest is values
    const int threads = amp_get_num_threads();
    for (const SharedLayer &l : shared_layers) {
        const Config c = l.config();
        Operands all = {};
        all.x = channels_last(random_tensor(AMP_BF16, input_shape(c), 1));
        all.w = random_tensor(AMP_BF16, weight_shape(c), 2);
        all.bias = random_tensor(AMP_BF16, {l.groups * l.out}, 3);
        all.scale = random_tensor(AMP_F32, {l.groups * l.out}, 4);
        all.other = channels_last(random_tensor(AMP_BF16, output_shape(c), 5));
        const Expected sums = sums_of(c, all);
        for (size_t i = 0; i < cases; i++) {
            SCOPED_TRACE(std::string(l.name) + ", case " + std::to_string(i));
            const Scope scope;
            Operands o = all;
            if (i % 2) o.scale = nullptr;
            if (i % 3 == 1) o.bias = nullptr;
            if (i % 5 == 2) o.other = nullptr;
            const Activation &a = activations[i % 10];
            const Expected want = finished(sums, c, o, a);
            for (const amp_dnnl_use who : {AMP_DNNL_ALWAYS, AMP_DNNL_NEVER}) {
                const DnnlUse use(who);
                EXPECT_EQ(amp_set_num_threads(1), AMP_OK);
                amp_tensor *y = run(c, o, a);
                expect_close(y, want, l.in * l.kernel * l.kernel + 8);
                if (HasFatalFailure()) return;
                for (int more : {2, 3}) {
                    EXPECT_EQ(amp_set_num_threads(more), AMP_OK);
                    EXPECT_EQ(numbers_of(run(c, o, a)), numbers_of(y));
                }
            }
        }
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
}

TEST_F(ConvolutionPointwise, NanGoesThroughWhoeverComputesIt) {
    std::vector<double> pixels(2 * 24 * 40 * 30, -1.0);
    pixels[100] = NAN; // one channel of one pixel
    amp_tensor *x = channels_last(tensor(AMP_BF16, {2, 24, 40, 30}, pixels)),
               *w = random_tensor(AMP_BF16, {50, 24, 1, 1}, 2);
    for (const amp_dnnl_use who : {AMP_DNNL_ALWAYS, AMP_DNNL_NEVER}) {
        const DnnlUse use(who);
        for (const Activation &a : activations) {
            std::vector<Named> named = {{"attr", a.attr}, {"algorithm", a.algorithm}};
            if (a.numbers.count > 0) named.push_back({"scalars", a.numbers});
            int nans = 0;
            for (double y : numbers_of(op("convolution_pointwise", {x, w}, named))) nans += std::isnan(y);
            EXPECT_EQ(nans, 50) << a.attr << ", " << int(who);
        }
    }
}

TEST_F(ConvolutionPointwise, ResultsDoNotDependOnTheThreads) {
    const int threads = amp_get_num_threads();
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {2, 40, 30, 30}, 1), *w = random_tensor(dtype, {70, 40, 3, 3}, 2);
        amp_tensor *d = random_tensor(dtype, {40, 1, 3, 3}, 3), *other = random_tensor(dtype, {2, 70, 28, 28}, 4);
        amp_tensor *shift = random_tensor(dtype, {2, 40, 28, 28}, 5), *scale = random_tensor(AMP_F32, {40}, 6);
        std::vector<double> results[2][2];
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(amp_set_num_threads(1 + 2 * i), AMP_OK);
            results[i][0] = numbers_of(op("convolution_pointwise.binary", {x, other, w}, {{"attr", "swish"}}));
            results[i][1] = numbers_of(op("convolution_pointwise.binary", {x, shift, d},
                                          {{"groups", 40}, {"attr", "gelu"}, {"scale", scale}}));
        }
        EXPECT_EQ(results[0][0], results[1][0]);
        EXPECT_EQ(results[0][1], results[1][1]);
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
}

TEST_F(ConvolutionPointwise, AutocastGivesWhatBf16Gives) {
    amp_tensor *x = random_tensor(AMP_F32, {1, 20, 12, 12}, 1), *w = random_tensor(AMP_F32, {33, 20, 1, 1}, 2);
    amp_tensor *b = random_tensor(AMP_F32, {33}, 3), *other = random_tensor(AMP_F32, {1, 33, 12, 12}, 4);
    amp_tensor *scale = random_tensor(AMP_F32, {33}, 5);
    const auto half = [](amp_tensor *t) { return op("to", {t, AMP_BF16}); };
    const std::vector<Named> named = {{"attr", "relu"}, {"scale", scale}};
    const std::vector<double> want =
        numbers_of(op("convolution_pointwise.binary", {half(x), half(other), half(w), half(b)}, named));
    const Region region(AMP_DEVICE_CPU, AMP_BF16);
    amp_tensor *y = op("convolution_pointwise.binary", {x, other, w, b}, named);
    ASSERT_EQ(amp_tensor_dtype(y), AMP_BF16);
    EXPECT_EQ(numbers_of(y), want);
}

bool same_bits(const amp_tensor *a, const amp_tensor *b) {
    const std::vector<double> x = numbers_of(a), y = numbers_of(b);
    return x.size() == y.size() && memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

// relu is exact: it may run on what was rounded and stored, and on what oneDNN made. NaN and infinities go through it.
TEST_F(ConvolutionPointwise, ReluHasTheBitsOfReluAfterwards) {
    for (uint32_t seed = 0; seed < 200; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scope scope;
        Random r{std::mt19937(seed)};
        const Config c = random_config(&r);
        if (c.transposed) continue;
        const amp_dtype dtype = seed % 2 ? AMP_BF16 : AMP_F32;
        Operands o = {};
        o.x = random_tensor(dtype, input_shape(c), seed * 3 + 1);
        o.w = random_tensor(dtype, weight_shape(c), seed * 3 + 2);
        if (r.chance(2)) o.bias = random_tensor(dtype, {c.groups * c.out_channels}, seed * 3 + 3);
        if (seed % 5 == 0 && amp_tensor_numel(o.x) > 1)
            op("masked_fill_", {o.x, op("ge.scalar", {o.x, 0.99}), r.chance(2) ? NAN : INFINITY});
        for (amp_tensor *x : {o.x, channels_last(o.x)}) {
            o.x = x;
            EXPECT_TRUE(same_bits(run(c, o, activations[1]), op("relu", {run(c, o, activations[0])})));
        }
    }
}

TEST_F(ConvolutionPointwise, ReluHasTheBitsOfReluAfterwardsInEveryDriver) {
    struct {
        int64_t in, out, pixels, kernel, groups;
    } const layers[] = {{3, 16, 32, 3, 1},    {16, 16, 32, 3, 1}, {16, 64, 32, 1, 1},  {64, 16, 20, 1, 1},
                        {256, 256, 7, 3, 1},  {64, 80, 14, 3, 1}, {32, 32, 20, 3, 32}, {80, 80, 9, 5, 80},
                        {128, 128, 14, 3, 8}, {1, 8, 28, 5, 1},   {1, 1, 16, 3, 1}};
    for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        for (const auto &l : layers) {
            const Scope scope;
            amp_tensor *x = random_tensor(dtype, {2, l.in, l.pixels, l.pixels}, 1);
            amp_tensor *w = random_tensor(dtype, {l.out, l.in / l.groups, l.kernel, l.kernel}, 2);
            amp_tensor *b = random_tensor(dtype, {l.out}, 3);
            const auto compute = [&](amp_tensor *image, const char *attr) {
                return op("convolution_pointwise", {image, w, b},
                          {{"padding", AMP_DIMS(l.kernel / 2)}, {"groups", l.groups}, {"attr", attr}});
            };
            for (amp_tensor *image : {x, channels_last(x)})
                EXPECT_TRUE(same_bits(compute(image, "relu"), op("relu", {compute(image, "none")})))
                    << l.in << " -> " << l.out << ", " << l.pixels << " " << amp_dtype_name(dtype);
        }
    }
}

TEST_F(ConvolutionPointwise, BadInputIsToldInASentence) {
    amp_tensor *x = tensor(AMP_F32, {2, 4, 5, 5}), *w = tensor(AMP_F32, {6, 4, 3, 3});
    const auto fails = [&](const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named,
                           const std::string &message) {
        EXPECT_EQ(op(name, values, named), nullptr);
        EXPECT_NE(std::string(amp_last_error()).find(message), std::string::npos) << amp_last_error();
        amp_clear_error();
    };
    const std::string name = "convolution_pointwise";
    fails(name, {x, w}, {{"attr", "softmax"}}, "expected none, relu, sigmoid");
    fails(name, {x, w}, {{"attr", "gelu"}, {"algorithm", "fast"}}, "\"fast\"");
    fails(name, {x, w}, {{"attr", "relu"}, {"scalars", AMP_FLOATS(1)}}, "there are 1 scalars");
    fails(name, {x, w}, {{"scale", tensor(AMP_F32, {5})}}, "'scale' is [5] f32");
    fails(name, {x, w}, {{"scale", tensor(AMP_I64, {6})}}, "'scale' is [6] i64");
    fails(name, {x, w}, {{"stride", AMP_DIMS(1, 1, 1)}}, "'stride' has 3 values; expected 2");
    fails(name, {x, tensor(AMP_F32, {6, 4})}, {}, "expected 3 to 5 dimensions");
    fails(name, {tensor(AMP_I64, {2, 4, 5, 5}), tensor(AMP_I64, {6, 4, 3, 3})}, {}, "expected a floating dtype");
    fails(name + ".binary", {x, tensor(AMP_F32, {2, 6, 3, 2}), w}, {}, "'other' is [2, 6, 3, 2] f32");
    fails(name + ".binary", {x, tensor(AMP_F64, {2, 6, 3, 3}), w}, {}, "'other'");
}

} // namespace
