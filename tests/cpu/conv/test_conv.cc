// Convolutions: random configurations against plain f64 loops, in every dtype and layout; what lies outside of a window
// does not count; layouts, casts, and what bad input is told.
#include "conv_cases.h"
#include "dnnl_use.h"
#include "layouts.h"
#include "machine/isa.h"

using namespace amp_test;

namespace {

class Conv : public Test {};

amp_tensor *run(const Config &c, amp_tensor *x, amp_tensor *w, amp_tensor *bias) {
    const std::string name = (c.transposed ? "conv_transpose" : "conv") + std::to_string(c.axes) + "d";
    std::vector<Named> named = {
        {"stride", dims(c.stride)}, {"padding", dims(c.pad)}, {"dilation", dims(c.dilation)}, {"groups", c.groups}};
    if (c.transposed) named.push_back({"output_padding", dims(c.output_padding)});
    return op(name, {x, w, bias}, named);
}

TEST_F(Conv, RandomConfigurationsMatchF64) {
    const amp_dtype dtypes[] = {AMP_F64, AMP_F32, AMP_BF16, AMP_F16};
    for (uint32_t seed = 0; seed < 400; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scope scope;
        Random r{std::mt19937(seed)};
        const Config c = random_config(&r);
        const amp_dtype dtype = dtypes[seed % 4];
        amp_tensor *x = random_tensor(dtype, input_shape(c), seed * 3 + 1);
        amp_tensor *w = random_tensor(dtype, weight_shape(c), seed * 3 + 2);
        amp_tensor *bias = r.chance(2) ? random_tensor(dtype, {c.groups * c.out_channels}, seed * 3 + 3) : nullptr;
        const Expected want =
            reference(c, numbers_of(x), numbers_of(w), bias ? numbers_of(bias) : std::vector<double>());
        const int64_t terms = c.in_channels * elements_of(c.kernel);
        const Shape shape = output_shape(c);
        amp_tensor *y = run(c, x, w, bias);
        expect_close(y, want, terms);
        if (HasFatalFailure()) return;
        EXPECT_EQ(Shape(amp_tensor_shape(y), amp_tensor_shape(y) + amp_tensor_rank(y)), shape);
        expect_close(run(c, channels_last(x), w, bias), want, terms);
        expect_close(run(c, spread(x), spread(w), bias ? spread(bias) : nullptr), want, terms);
        if (HasFatalFailure()) return;
    }
}

/* The packed form of odd channels depends on whether the taps of a line lie together: one weight has both in the
 * cache. */
TEST_F(Conv, OneWeightServesEveryDilation) {
    for (const bool transposed : {false, true}) {
        for (const int64_t channels : {1, 3, 5}) {
            const Shape shape = transposed ? Shape{channels, 8, 3, 3} : Shape{8, channels, 3, 3};
            amp_tensor *x = random_tensor(AMP_BF16, {2, channels, 12, 12}, 1), *w = random_tensor(AMP_BF16, shape, 2);
            for (const int64_t dilation : {1, 2, 1, 3}) {
                SCOPED_TRACE(std::to_string(channels) + " channels, dilation " + std::to_string(dilation));
                const Config c = {2,
                                  transposed,
                                  2,
                                  1,
                                  channels,
                                  8,
                                  {12, 12},
                                  {3, 3},
                                  {1, 1},
                                  {dilation, dilation},
                                  {dilation, dilation},
                                  {0, 0}};
                expect_close(run(c, x, w, nullptr), reference(c, numbers_of(x), numbers_of(w), {}), channels * 9);
            }
        }
    }
}

TEST_F(Conv, AutocastGivesWhatBf16Gives) {
    for (uint32_t seed = 1000; seed < 1060; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scope scope;
        Random r{std::mt19937(seed)};
        const Config c = random_config(&r);
        amp_tensor *x = random_tensor(AMP_F32, input_shape(c), seed), *w = random_tensor(AMP_F32, weight_shape(c), 2);
        amp_tensor *b = random_tensor(AMP_F32, {c.groups * c.out_channels}, 3);
        amp_tensor *halves[] = {op("to", {x, AMP_BF16}), op("to", {w, AMP_BF16}), op("to", {b, AMP_BF16})};
        const std::vector<double> want = numbers_of(run(c, halves[0], halves[1], halves[2]));
        const Region region(AMP_DEVICE_CPU, AMP_BF16);
        for (int again = 0; again < 2; again++) {
            amp_tensor *y = run(c, x, w, b);
            ASSERT_EQ(amp_tensor_dtype(y), AMP_BF16);
            EXPECT_EQ(numbers_of(y), want);
        }
        EXPECT_EQ(numbers_of(run(c, channels_last(x), w, b)), want);
    }
}

// Pooled images under kernels of one tap: what linear gives, in every layout.
TEST_F(Conv, ImagesOfOnePixelAreRows) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        for (int axes : {1, 2, 3}) {
            for (int64_t batch : {0, 1, 5}) { // 0: none
                SCOPED_TRACE(std::to_string(axes) + " axes, batch " + std::to_string(batch));
                Shape image = {70}, weight = {45, 70}, result = {45};
                if (batch > 0) image.insert(image.begin(), batch), result.insert(result.begin(), batch);
                for (Shape *s : {&image, &weight, &result}) s->insert(s->end(), size_t(axes), 1);
                amp_tensor *x = random_tensor(dtype, image, 1), *w = random_tensor(dtype, weight, 2);
                amp_tensor *b = random_tensor(dtype, {45}, 3);
                const auto rows = [&](amp_tensor *t) { return op("reshape", {t, AMP_DIMS(-1, 70)}); };
                const std::vector<double> want = numbers_of(op("linear", {rows(x), rows(w), b}));
                const std::string name = "conv" + std::to_string(axes) + "d";
                const auto expect = [&](amp_tensor *image, amp_tensor *weight, amp_tensor *bias) {
                    amp_tensor *y = op(name, {image, weight, bias}, {{"stride", AMP_DIMS(2)}});
                    ASSERT_NE(y, nullptr) << amp_last_error();
                    EXPECT_EQ(Shape(amp_tensor_shape(y), amp_tensor_shape(y) + amp_tensor_rank(y)), result);
                    EXPECT_EQ(numbers_of(y), want);
                };
                expect(x, w, b);
                // ref's products are oneDNN's, which may have another kernel for weights that lie apart.
                expect(spread(x), amp_isa_best() == AMP_ISA_REF ? w : spread(w), spread(b));
                if (axes > 1 && batch > 0) expect(channels_last(x), w, b);
            }
        }
    }
    amp_tensor *x = op("permute", {random_tensor(AMP_BF16, {2, 1, 1, 8}, 1), AMP_DIMS(0, 3, 1, 2)});
    amp_tensor *w = random_tensor(AMP_BF16, {6, 8, 1, 1}, 2), *y = op("conv2d", {x, w}); // the layout of the input
    EXPECT_EQ(Shape(amp_tensor_strides(y), amp_tensor_strides(y) + 4), (Shape{6, 1, 6, 6}));
    EXPECT_EQ(op("conv2d", {x, w, tensor(AMP_BF16, {5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'bias' is [5] bf16", "shape [6]"}));
}

TEST_F(Conv, WeightsArePackedOnce) {
    amp_tensor *x = random_tensor(AMP_F32, {1, 16, 9, 9}, 1), *w = random_tensor(AMP_F32, {24, 16, 3, 3}, 2);
    const Region region(AMP_DEVICE_CPU, AMP_BF16);
    (void)op("conv2d", {x, w});
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    for (int i = 0; i < 3; i++) (void)op("conv2d", {x, w});
    const amp_cast_cache_stats after = amp_cast_cache_statistics();
    EXPECT_EQ(after.entries, before.entries);
    EXPECT_EQ(after.misses, before.misses);
    EXPECT_EQ(after.hits, before.hits + 3);
}

/* The same weights in groups are another packed object. */
TEST_F(Conv, CachedWeightsKnowTheirGroups) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 4, 3, 3}, 2);
    const Region region(AMP_DEVICE_CPU, AMP_BF16);
    for (int64_t groups : {1, 2, 4, 1}) {
        Config c;
        c.groups = groups, c.in_channels = 4, c.out_channels = 8 / groups;
        c.in = {5, 5}, c.kernel = {3, 3}, c.stride = c.dilation = {1, 1}, c.pad = {1, 1};
        amp_tensor *x = random_tensor(AMP_F32, input_shape(c), 1);
        const Expected want =
            reference(c, numbers_of(op("to", {x, AMP_BF16})), numbers_of(op("to", {w, AMP_BF16})), {});
        expect_close(run(c, x, w, nullptr), want, 36);
    }
}

TEST_F(Conv, NanCountsOnlyWithinItsWindow) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        for (int64_t channels : {1, 3, 40}) {
            std::vector<double> numbers(size_t(channels * 49), 0.5);
            for (int64_t c = 0; c < channels; c++) numbers[size_t(c * 49 + 3 * 7 + 3)] = NAN; // the pixel (3, 3)
            std::vector<char> bytes;
            amp_tensor *x = tensor(AMP_F64, {1, channels, 7, 7}, numbers);
            x = op("to", {x, dtype});
            amp_tensor *w = tensor(dtype, {5, channels, 3, 3}, {0.25});
            for (amp_tensor *input : {x, channels_last(x)}) {
                const std::vector<double> y = numbers_of(op("conv2d", {input, w}, {{"padding", AMP_DIMS(1, 1)}}));
                for (int64_t i = 0; i < 5 * 49; i++) {
                    const int64_t row = i % 49 / 7, column = i % 7;
                    const bool meets = std::abs(row - 3) <= 1 && std::abs(column - 3) <= 1;
                    ASSERT_EQ(std::isnan(y[size_t(i)]), meets) << "channels " << channels << ", element " << i;
                }
            }
        }
    }
}

// Most outputs of a wide stride meet no tap: they are the bias, and the phases are not counted one by one.
TEST_F(Conv, TransposedWithStridesBeyondTheOutput) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *x = tensor(dtype, {1, 1, 1, 1, 1}, {3}), *w = tensor(dtype, {1, 1, 2, 2, 2}, {5});
        amp_tensor *b = tensor(dtype, {1}, {1});
        amp_tensor *y = op("conv_transpose3d", {x, w, b}, {{"stride", AMP_DIMS(1 << 22, 1 << 21, 1 << 21)}});
        EXPECT_EQ(numbers_of(y), std::vector<double>(8, 16.0));
        std::vector<double> line((1 << 20) + 2, 1.0);
        for (size_t i = 0; i < 4; i++) line[i] = line[line.size() - 1 - i] = 16.0;
        y = op("conv_transpose1d",
               {op("reshape", {op("expand", {x, AMP_DIMS(1, 1, 1, 1, 2)}), AMP_DIMS(1, 1, 2)}),
                op("reshape", {op("narrow", {w, 4, 0, 1}), AMP_DIMS(1, 1, 4)}), b},
               {{"stride", AMP_DIMS((1 << 20) - 2)}});
        EXPECT_EQ(numbers_of(y), line);
    }
}

// Taps so far apart that most outputs meet none: from the inputs to what they reach.
TEST_F(Conv, TransposedKernelsDilatedBeyondTheImage) {
    Config c;
    c.transposed = true;
    c.batch = 2, c.groups = 2, c.in_channels = 3, c.out_channels = 2;
    c.in = {3, 2}, c.kernel = {20, 4}, c.stride = {3, 1}, c.pad = {4, 5}, c.dilation = {10, 9},
    c.output_padding = {2, 0};
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
        amp_tensor *x = random_tensor(dtype, input_shape(c), 1), *w = random_tensor(dtype, weight_shape(c), 2);
        amp_tensor *bias = random_tensor(dtype, {c.groups * c.out_channels}, 3);
        const Expected want = reference(c, numbers_of(x), numbers_of(w), numbers_of(bias));
        const int64_t terms = c.in_channels * elements_of(c.kernel);
        expect_close(run(c, x, w, bias), want, terms);
        expect_close(run(c, channels_last(x), spread(w), bias), want, terms);
    }
    amp_tensor *x = random_tensor(AMP_F32, input_shape(c), 1), *w = random_tensor(AMP_F32, weight_shape(c), 2);
    amp_tensor *want = run(c, op("to", {x, AMP_BF16}), op("to", {w, AMP_BF16}), nullptr);
    amp_autocast(AMP_DEVICE_CPU) EXPECT_EQ(numbers_of(run(c, x, w, nullptr)), numbers_of(want));
}

// oneDNN has no convolution that cuts its image, whoever asks.
TEST_F(Conv, TransposedWithPaddingBeyondTheKernel) {
    amp_tensor *x = channels_last(random_tensor(AMP_BF16, {1, 64, 20, 20}, 1));
    amp_tensor *w = random_tensor(AMP_BF16, {64, 64, 3, 3}, 2);
    amp_tensor *y = nullptr;
    {
        const DnnlUse use(AMP_DNNL_ALWAYS);
        y = op("conv_transpose2d", {x, w}, {{"padding", AMP_DIMS(4, 4)}});
    }
    ASSERT_NE(y, nullptr) << amp_last_error();
    const DnnlUse use(AMP_DNNL_NEVER);
    EXPECT_EQ(numbers_of(y), numbers_of(op("conv_transpose2d", {x, w}, {{"padding", AMP_DIMS(4, 4)}})));
}

TEST_F(Conv, IntegersWrapAndComplexNumbersMultiply) {
    amp_tensor *x = tensor(AMP_U8, {1, 1, 4}, {100, 200, 3, 4}), *w = tensor(AMP_U8, {1, 1, 2}, {2, 1});
    EXPECT_EQ(numbers_of(op("conv1d", {x, w})), (std::vector<double>{400 - 256, 403 - 256, 10}));
    const double xs[] = {1, 2, 3, -1, 0, 1}, ws[] = {0, 1, 2, 0}; // 1+2i, 3-i, i; i, 2
    const int64_t x_shape[] = {1, 1, 3}, w_shape[] = {1, 1, 2};
    amp_tensor *cx = amp_from_data(xs, AMP_C128, 3, x_shape), *cw = amp_from_data(ws, AMP_C128, 3, w_shape);
    amp_tensor *cy = op("conv1d", {cx, cw});
    ASSERT_NE(cy, nullptr) << amp_last_error();
    const double *y = static_cast<const double *>(amp_data(cy));
    EXPECT_EQ((std::vector<double>{y[0], y[1], y[2], y[3]}), (std::vector<double>{4, -1, 1, 5}));
}

TEST_F(Conv, SameAndValidPaddings) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 5}, {1, 2, 3, 4, 5}), *w = tensor(AMP_F32, {1, 1, 2}, {1, 10});
    EXPECT_EQ(numbers_of(op("conv1d.padding", {x, w}, {{"padding", "same"}})),
              (std::vector<double>{21, 32, 43, 54, 5})); // an odd zero goes to the end
    EXPECT_EQ(numbers_of(op("conv1d.padding", {x, w}, {{"padding", "valid"}})), (std::vector<double>{21, 32, 43, 54}));
    EXPECT_EQ(numbers_of(op("conv1d.padding", {x, w}, {{"padding", "same"}, {"dilation", AMP_DIMS(2)}})),
              (std::vector<double>{20, 31, 42, 53, 4}));
    amp_tensor *square = random_tensor(AMP_F32, {2, 3, 4, 6}, 1), *kernel = random_tensor(AMP_F32, {2, 3, 3, 5}, 2);
    EXPECT_EQ(numbers_of(op("conv2d.padding", {square, kernel}, {{"padding", "same"}})),
              numbers_of(op("conv2d", {square, kernel}, {{"padding", AMP_DIMS(1, 2)}})));
}

TEST_F(Conv, WithoutABatch) {
    amp_tensor *x = random_tensor(AMP_BF16, {3, 5, 6}, 1), *w = random_tensor(AMP_BF16, {4, 3, 2, 2}, 2);
    amp_tensor *y = op("conv2d", {x, w});
    ASSERT_EQ(amp_tensor_rank(y), 3);
    EXPECT_EQ(numbers_of(y), numbers_of(op("conv2d", {op("unsqueeze", {x, 0}), w})));
}

TEST_F(Conv, EmptyExtents) {
    amp_tensor *w = tensor(AMP_F32, {4, 3, 2, 2});
    amp_tensor *y = op("conv2d", {tensor(AMP_F32, {0, 3, 5, 5}), w});
    ASSERT_NE(y, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_shape(y)[0], 0);
    EXPECT_EQ(amp_tensor_shape(y)[2], 4);
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) { // no channels: the bias alone
        y = op("conv2d", {tensor(dtype, {2, 0, 3, 3}), tensor(dtype, {2, 0, 3, 3}), tensor(dtype, {2}, {1, 2})});
        EXPECT_EQ(numbers_of(y), (std::vector<double>{1, 2, 1, 2}));
    }
}

TEST_F(Conv, LayoutFollowsTheInputOrTheWeight) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
        amp_tensor *x = random_tensor(dtype, {2, 4, 5, 5}, 1), *w = random_tensor(dtype, {6, 4, 3, 3}, 2);
        EXPECT_TRUE(is_channels_last(op("conv2d", {channels_last(x), w})));
        EXPECT_TRUE(is_channels_last(op("conv2d", {x, channels_last(w)})));
        EXPECT_FALSE(is_channels_last(op("conv2d", {x, w})));
        amp_tensor *t = random_tensor(dtype, {4, 6, 3, 3}, 3);
        EXPECT_TRUE(is_channels_last(op("conv_transpose2d", {channels_last(x), t}, {{"stride", AMP_DIMS(2, 2)}})));
    }
}

TEST_F(Conv, TbcIsConv1dInAnotherOrder) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {7, 2, 5}, 1), *w = random_tensor(dtype, {3, 5, 4}, 2);
        amp_tensor *b = random_tensor(dtype, {4}, 3), *y = op("conv_tbc", {x, w, b, 1});
        amp_tensor *other =
            op("conv1d", {op("permute", {x, AMP_DIMS(1, 2, 0)}), op("permute", {w, AMP_DIMS(2, 1, 0)}), b},
               {{"padding", AMP_DIMS(1)}});
        EXPECT_EQ(numbers_of(y), numbers_of(op("permute", {other, AMP_DIMS(2, 0, 1)})));
        EXPECT_EQ(numbers_of(op("conv_tbc", {x, w, b, -1})),
                  numbers_of(op("narrow", {op("conv_tbc", {x, w, b}), 0, 1, 3})));
    }
}

TEST_F(Conv, ResultsDoNotDependOnTheThreads) {
    const int threads = amp_get_num_threads();
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {2, 40, 30, 30}, 1), *w = random_tensor(dtype, {70, 40, 3, 3}, 2);
        amp_tensor *d = random_tensor(dtype, {40, 1, 3, 3}, 3);
        std::vector<double> results[2][2];
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(amp_set_num_threads(1 + 2 * i), AMP_OK);
            results[i][0] = numbers_of(op("conv2d", {x, w}));
            results[i][1] = numbers_of(op("conv2d", {x, d}, {{"groups", 40}}));
        }
        EXPECT_EQ(results[0][0], results[1][0]);
        EXPECT_EQ(results[0][1], results[1][1]);
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
}

// Layers that oneDNN can compute too, by it and by our kernel.
TEST_F(Conv, MatchesF64OnAnyThreadsWhoeverComputesIt) {
    const int threads = amp_get_num_threads();
    for (const SharedLayer &l : shared_layers) {
        const Config c = l.config();
        amp_tensor *x = channels_last(random_tensor(AMP_BF16, input_shape(c), 1));
        amp_tensor *w = random_tensor(AMP_BF16, weight_shape(c), 2);
        amp_tensor *b = random_tensor(AMP_BF16, {l.groups * l.out}, 3);
        const Expected expected = reference(c, numbers_of(x), numbers_of(w), numbers_of(b));
        for (const amp_dnnl_use who : {AMP_DNNL_ALWAYS, AMP_DNNL_NEVER}) {
            const DnnlUse use(who);
            EXPECT_EQ(amp_set_num_threads(1), AMP_OK);
            amp_tensor *y = run(c, x, w, b);
            expect_close(y, expected, l.in * l.kernel * l.kernel);
            for (int more : {2, 3}) {
                EXPECT_EQ(amp_set_num_threads(more), AMP_OK);
                EXPECT_EQ(numbers_of(run(c, x, w, b)), numbers_of(y)) << l.name;
            }
        }
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
}

TEST_F(Conv, BadInputIsToldInASentence) {
    amp_tensor *x = tensor(AMP_F32, {2, 4, 5, 5}), *w = tensor(AMP_F32, {6, 4, 3, 3}), *b = tensor(AMP_F32, {6});
    const auto fails = [&](const std::string &name, const std::vector<Value> &values, const std::vector<Named> &named,
                           const std::vector<std::string> &words) {
        EXPECT_EQ(op(name, values, named), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, words));
    };
    fails("conv2d", {tensor(AMP_F32, {5, 5}), w}, {}, {"conv2d: 'input' is [5, 5] f32", "4 dimensions, or 3"});
    fails("conv2d", {x, tensor(AMP_F32, {6, 4, 3})}, {}, {"'weight' is [6, 4, 3] f32", "4 dimensions"});
    fails("conv2d", {x, tensor(AMP_F32, {6, 3, 3, 3})}, {}, {"expected an input of 3 channels, not 4"});
    fails("conv2d", {x, w}, {{"groups", 0}}, {"'groups' is 0"});
    fails("conv2d", {x, tensor(AMP_F32, {6, 1, 3, 3})}, {{"groups", 4}}, {"'groups' is 4", "multiple"});
    fails("conv2d", {x, w, tensor(AMP_F32, {5})}, {}, {"'bias' is [5] f32", "shape [6]"});
    fails("conv2d", {x, w, tensor(AMP_F32, {6, 1})}, {}, {"'bias' is [6, 1] f32"});
    fails("conv2d", {x, w, b}, {{"stride", AMP_DIMS(1, 0)}}, {"'stride' is [1, 0]", "from 1"});
    fails("conv2d", {x, w, b}, {{"padding", AMP_DIMS(-1, 0)}}, {"'padding' is [-1, 0]", "from 0"});
    fails("conv2d", {x, w, b}, {{"dilation", AMP_DIMS(0, 1)}}, {"'dilation' is [0, 1]"});
    fails("conv1d", {tensor(AMP_F32, {1, 4, 5}), tensor(AMP_F32, {6, 4, 3})}, {{"stride", AMP_DIMS(1, 2)}},
          {"'stride' has 2 values", "expected 1"});
    fails("conv2d", {x, tensor(AMP_F32, {6, 4, 9, 3})}, {}, {"dimension 2", "the input of 5", "reaches over 9"});
    fails("conv2d", {x, tensor(AMP_F32, {6, 4, 0, 3})}, {}, {"each extent of the kernel must be from 1"});
    fails("conv2d", {tensor(AMP_F32, {2, 4, 0, 5}), w}, {{"padding", AMP_DIMS(3, 3)}}, {"[2, 4, 0, 5]", "from 1"});
    fails("conv2d.padding", {x, w}, {{"padding", "same"}, {"stride", AMP_DIMS(2, 1)}}, {"\"same\"", "[2, 1]"});
    fails("conv2d.padding", {x, w}, {{"padding", "some"}}, {"\"some\"", "\"same\" or \"valid\""});
    amp_tensor *t = tensor(AMP_F32, {4, 6, 3, 3});
    fails("conv_transpose2d", {x, t}, {{"output_padding", AMP_DIMS(1, 0)}}, {"'output_padding' is [1, 0]", "smaller"});
    fails("conv_transpose2d", {x, tensor(AMP_F32, {5, 6, 3, 3})}, {}, {"5 channels, not 4"});
    fails("conv_transpose2d", {x, tensor(AMP_F32, {4, 6, 1, 1})}, {{"padding", AMP_DIMS(3, 3)}}, {"too small"});
    fails("conv_tbc", {tensor(AMP_F32, {5, 2, 4}), tensor(AMP_F32, {3, 3, 6}), b}, {}, {"(time, batch, channels)"});
    fails("conv_tbc", {tensor(AMP_F32, {1, 2, 4}), tensor(AMP_F32, {3, 4, 6}), b}, {}, {"does not fit"});
    EXPECT_EQ(op("conv2d", {x, tensor(AMP_F64, {6, 4, 3, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"'input' is", "'weight' is", "f64"}));
    EXPECT_EQ(op("conv2d", {x, w, tensor(AMP_F64, {6})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"'bias' is"}));
    EXPECT_EQ(op("conv2d", {tensor(AMP_BOOL, {2, 4, 5, 5}), tensor(AMP_BOOL, {6, 4, 3, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"bool"}));
}

} // namespace
