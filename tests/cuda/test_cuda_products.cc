// Products and convolutions with epilogues on the CUDA backend, over the tests' cuBLASLt.
#include <thread>

#include "conv_epilogues.h"
#include "cuda_test.h"
#include "layouts.h"

using namespace amp_test;

namespace {

class CudaProducts : public CudaTest {
  protected:
    void TearDown() override {
        if (fake) fake->refuse_epilogues = fake->refuse_convolutions = fake->fail_convolution = false;
        CudaTest::TearDown();
    }
    static Operands sent_all(Operands o) {
        for (amp_tensor **t : {&o.x, &o.w, &o.bias, &o.scale, &o.other})
            if (*t) *t = sent(*t);
        return o;
    }
    void random_convolutions(uint32_t first, uint32_t last_seed);
    // The layer in f64 of its own values, and half an ulp of the result.
    static void expect_linear(amp_dtype dtype, const Activation &a, bool with_bias) {
        SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + a.attr + " " + a.algorithm);
        const Scope scope;
        amp_tensor *x = random_tensor(dtype, {6, 16}, 1), *w = random_tensor(dtype, {8, 16}, 2);
        amp_tensor *b = with_bias ? random_tensor(dtype, {8}, 3) : nullptr;
        const std::vector<double> xs = numbers_of(x), ws = numbers_of(w);
        Expected want;
        for (size_t i = 0; i < 48; i++) {
            double sum = b ? numbers_of(b)[i % 8] : 0, magnitude = std::fabs(sum);
            for (size_t k = 0; k < 16; k++) {
                const double term = xs[i / 8 * 16 + k] * ws[i % 8 * 16 + k];
                sum += term, magnitude += std::fabs(term);
            }
            want.values.push_back(a.of(sum));
            want.magnitudes.push_back(1.2 * magnitude + 2 * std::fabs(a.of(sum)));
        }
        std::vector<Named> how = {{"attr", a.attr}, {"algorithm", a.algorithm}};
        if (a.numbers.count > 0) how.push_back({"scalars", a.numbers});
        amp_tensor *y = op("linear_pointwise", {sent(x), sent(w), b ? sent(b) : nullptr}, how);
        ASSERT_NE(y, nullptr) << amp_last_error();
        expect_close(fetched(y), want, 24);
    }
};

const amp_dtype floating[] = {AMP_F64, AMP_F32, AMP_BF16, AMP_F16};

TEST_F(CudaProducts, EpiloguesOfLayersAreRoundedOnce) {
    for (bool refuse : {false, true}) {
        fake->refuse_epilogues = refuse;
        for (amp_dtype dtype : floating) {
            for (const Activation &a : activations) {
                for (bool bias : {false, true}) expect_linear(dtype, a, bias);
            }
            if (HasFatalFailure()) return;
        }
    }
}

TEST_F(CudaProducts, BiasAndGeluByTanhGoWithTheProductAndReluComesAfterIt) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_BF16}) {
        for (const char *algorithm : {"none", "tanh"}) {
            const Scope scope;
            const bool tanh = !strcmp(algorithm, "tanh");
            const std::vector<Named> how = {{"attr", tanh ? "gelu" : "relu"}, {"algorithm", algorithm}};
            amp_tensor *x = sent(random_tensor(dtype, {6, 16}, 1)), *w = sent(random_tensor(dtype, {8, 16}, 2));
            amp_tensor *b = sent(random_tensor(dtype, {8}, 3));
            const amp_cuda_counts start = amp_cuda_counters();
            ASSERT_NE(op("linear_pointwise", {x, w, b}, how), nullptr) << amp_last_error();
            EXPECT_EQ(amp_cuda_counters().launches, start.launches + (tanh ? 0 : 1));
            EXPECT_EQ(amp_cuda_counters().products, start.products + 1);
        }
    }
}

TEST_F(CudaProducts, AnEpilogueThatTheLibraryHasNotIsAskedForOnce) {
    const Scope scope;
    amp_tensor *x = sent(random_tensor(AMP_F16, {5, 16}, 1)), *w = sent(random_tensor(AMP_F16, {8, 16}, 2));
    fake->refuse_epilogues = true;
    for (int i = 0; i < 3; i++) {
        const uint64_t asked = fake->heuristics;
        ASSERT_NE(op("linear_pointwise", {x, w}, {{"attr", "gelu"}, {"algorithm", "tanh"}}), nullptr);
        EXPECT_EQ(fake->heuristics, asked + (i ? 0 : 2)) << "with the epilogue, and without";
    }
}

TEST_F(CudaProducts, WhatIsAddedMeetsTheBiasToo) {
    for (amp_dtype dtype : floating) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        amp_tensor *x = random_tensor(dtype, {3, 4}, 1), *w = random_tensor(dtype, {5, 4}, 2);
        amp_tensor *b = random_tensor(dtype, {5}, 3), *other = random_tensor(dtype, {3, 5}, 4);
        amp_tensor *want = op("linear_pointwise.binary", {x, other, w, b}, {{"attr", "add"}});
        amp_tensor *got = op("linear_pointwise.binary", {sent(x), sent(other), sent(w), sent(b)}, {{"attr", "add"}});
        ASSERT_NE(got, nullptr) << amp_last_error();
        expect_near(fetched(got), numbers_of(want), dtype == AMP_BF16 ? 0x1p-6 : dtype == AMP_F16 ? 0x1p-9 : 1e-6);
    }
}

// A transposed one of 16 bits, if its bias is all that it has, is rounded before the bias too, as PyTorch's.
void CudaProducts::random_convolutions(uint32_t first, uint32_t last_seed) {
    for (uint32_t seed = first; seed < last_seed; seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        const Scope scope;
        Random r{std::mt19937(seed)};
        const Config c = random_config(&r);
        const amp_dtype dtype = floating[seed % 4];
        const Activation &a = activations[seed / 4 % 10];
        const int64_t channels = c.groups * c.out_channels, terms = c.in_channels * elements_of(c.kernel) + 8;
        Operands o = {};
        o.x = random_tensor(dtype, input_shape(c), seed * 5 + 1);
        o.w = random_tensor(dtype, weight_shape(c), seed * 5 + 2);
        if (r.chance(2)) o.bias = random_tensor(dtype, {channels}, seed * 5 + 3);
        if (c.transposed && o.bias && seed / 4 % 10 == 0 && dtype != AMP_F32 && dtype != AMP_F64) o.bias = nullptr;
        if (r.chance(2)) o.scale = random_tensor(dtype == AMP_F64 ? AMP_F64 : AMP_F32, {channels}, seed * 5 + 4);
        if (!c.transposed && !r.chance(3)) o.other = random_tensor(dtype, output_shape(c), seed * 5 + 5);
        const Expected want = expected(c, o, a);
        Operands last = o, apart = o;
        last.x = channels_last(o.x);
        for (amp_tensor **t : {&apart.x, &apart.w, &apart.bias, &apart.scale, &apart.other})
            if (*t) *t = spread(*t);
        for (const Operands &all : {o, last, apart}) {
            amp_tensor *y = run(c, sent_all(all), a);
            ASSERT_NE(y, nullptr) << amp_last_error();
            expect_close(fetched(y), want, terms);
            if (HasFatalFailure()) return;
        }
    }
}

TEST_F(CudaProducts, ConvolutionsOfRandomConfigurationsMatchF64) {
    random_convolutions(0, 160);
    EXPECT_GT(fake->convolutions, 0u);
}

TEST_F(CudaProducts, ConvolutionsThatTheLibraryRefusesAreProducts) {
    fake->refuse_convolutions = true; // of shapes that it has not seen
    const uint64_t run = fake->convolutions;
    random_convolutions(1000, 1080);
    EXPECT_EQ(fake->convolutions, run);
    fake->refuse_convolutions = false;
    fake->fail_convolution = true;
    random_convolutions(2000, 2080);
    EXPECT_EQ(fake->convolutions, run);
}

TEST_F(CudaProducts, TheLibraryIsAskedOnceForEachShape) {
    const Scope scope;
    amp_tensor *x = sent(random_tensor(AMP_F32, {2, 6, 9, 7}, 1)), *w = sent(random_tensor(AMP_F32, {4, 6, 3, 3}, 2));
    uint64_t asked = fake->heuristics;
    const auto expect = [&](uint64_t more, const char *name, const std::vector<Value> &values,
                            const std::vector<Named> &named = {}) {
        const uint64_t run = fake->convolutions;
        EXPECT_NE(op(name, values, named), nullptr) << amp_last_error();
        EXPECT_EQ(fake->heuristics, asked += more);
        EXPECT_EQ(fake->convolutions, run + 1);
    };
    expect(1, "conv2d", {x, w});
    expect(0, "conv2d", {x, w});
    expect(0, "convolution_pointwise", {x, w}, {{"attr", "gelu"}});
    expect(1, "conv2d", {x, w}, {{"stride", AMP_DIMS(2, 2)}});
    expect(1, "conv2d", {op("to", {x, AMP_F16}), op("to", {w, AMP_F16})});
    expect(1, "conv_transpose2d", {op("narrow", {x, 1, 0, 4}), w});
    expect(0, "conv_transpose2d", {op("narrow", {x, 1, 0, 4}), w});
    amp_cuda_matmul_set_allow_tf32(true);
    expect(1, "conv2d", {x, w});
    amp_cuda_matmul_set_allow_tf32(false);
    expect(0, "conv2d", {x, w});
}

TEST_F(CudaProducts, ConvolutionsOfF32AreExactUnlessTf32IsAllowed) {
    const Scope scope;
    amp_tensor *x = sent(tensor(AMP_F32, {1, 1, 1}, {1 + 0x1p-15}));
    EXPECT_GT(values(op("conv1d", {x, x})).at(0), 1.0f);
    amp_cuda_matmul_set_allow_tf32(true);
    EXPECT_EQ(values(op("conv1d", {x, x})).at(0), 1.0f);
    amp_cuda_matmul_set_allow_tf32(false);
}

TEST_F(CudaProducts, ExplainSaysWhoConvolvedAndWhy) {
    const Scope scope;
    const auto kernel = [&](const std::string &expected, const std::string &name, const std::vector<Value> &values,
                            const std::vector<Named> &named = {}) {
        amp_explain_reset();
        amp_explain_begin();
        EXPECT_NE(op(name, values, named), nullptr) << amp_last_error();
        amp_explain_end();
        char *text = amp_explain_report(AMP_EXPLAIN_JSON);
        ASSERT_NE(text, nullptr);
        EXPECT_NE(std::string(text).find(expected), std::string::npos) << text;
        amp_explain_free(text);
    };
    amp_tensor *x = sent(random_tensor(AMP_F16, {1, 3, 8, 8}, 1)), *w = sent(random_tensor(AMP_F16, {4, 3, 2, 2}, 2));
    kernel("cudnn", "conv2d", {x, w});
    kernel("padded on one side only", "conv2d.padding", {x, w}, {{"padding", "same"}});
    kernel("cuDNN has no such epilogue", "convolution_pointwise", {x, w}, {{"attr", "tanh"}});
    fake->refuse_convolutions = true;
    kernel("cuDNN has no algorithm for it", "conv2d", {x, w}, {{"stride", AMP_DIMS(2, 1)}});
}

TEST_F(CudaProducts, EpiloguesWithoutABiasGoAlongToo) {
    for (amp_dtype dtype : {AMP_F16, AMP_BF16}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        amp_tensor *x = random_tensor(dtype, {2, 3, 5, 5}, 1), *w = random_tensor(dtype, {4, 3, 3, 3}, 2);
        amp_tensor *other = random_tensor(dtype, {2, 4, 3, 3}, 3);
        for (const char *attr : {"none", "relu"}) {
            const uint64_t run = fake->convolutions;
            amp_tensor *y = op("convolution_pointwise.binary", {sent(x), sent(other), sent(w)}, {{"attr", attr}});
            ASSERT_NE(y, nullptr) << amp_last_error();
            EXPECT_EQ(fake->convolutions, run + 1);
            expect_agree(y, op("convolution_pointwise.binary", {x, other, w}, {{"attr", attr}}), 0x1p-5);
        }
        const uint64_t run = fake->convolutions;
        amp_tensor *y = op("convolution_pointwise", {sent(x), sent(w)}, {{"attr", "relu"}});
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_EQ(fake->convolutions, run + 1);
        expect_agree(y, op("convolution_pointwise", {x, w}, {{"attr", "relu"}}), 0x1p-5);
    }
}

TEST_F(CudaProducts, WorkspacesOfConvolutionsHaveALimitInEveryWay) {
    const Scope scope;
    const size_t usual = fake->convolution_area;
    fake->convolution_area = size_t(1) << 30;
    amp_tensor *x = sent(random_tensor(AMP_F16, {1, 3, 6, 5}, 1)), *w = sent(random_tensor(AMP_F16, {4, 3, 3, 2}, 2));
    amp_tensor *b = sent(random_tensor(AMP_F16, {4}, 3)), *turned_w = sent(random_tensor(AMP_F16, {3, 4, 3, 2}, 2));
    const uint64_t run = fake->convolutions;
    EXPECT_NE(op("conv2d", {x, w}), nullptr) << amp_last_error();
    EXPECT_NE(op("conv2d", {x, w, b}), nullptr) << amp_last_error();
    EXPECT_NE(op("convolution_pointwise", {x, w, b}, {{"attr", "relu"}}), nullptr) << amp_last_error();
    EXPECT_NE(op("conv_transpose2d", {x, turned_w}), nullptr) << amp_last_error();
    EXPECT_EQ(fake->convolutions, run);
    fake->convolution_area = usual;
}

TEST_F(CudaProducts, ConvolutionsOfViewsThatBeginAnywhereAgree) {
    for (amp_dtype dtype : floating) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        const auto later = [](amp_tensor *t, amp_dims shape) {
            return op("view", {op("narrow", {t, 0, 1, amp_tensor_numel(t) - 1}), shape});
        };
        amp_tensor *x = random_tensor(dtype, {1 + 2 * 3 * 5 * 5}, 1), *w = random_tensor(dtype, {1 + 4 * 3 * 2 * 2}, 2);
        amp_tensor *b = random_tensor(dtype, {5}, 3);
        const auto convolve = [&](amp_tensor *from, amp_tensor *weight, amp_tensor *bias) {
            return op("conv2d", {later(from, AMP_DIMS(2, 3, 5, 5)), later(weight, AMP_DIMS(4, 3, 2, 2)),
                                 later(bias, AMP_DIMS(4))});
        };
        const uint64_t run = fake->convolutions;
        expect_agree(convolve(sent(x), sent(w), sent(b)), convolve(x, w, b), dtype == AMP_BF16 ? 0x1p-5 : 0x1p-8);
        EXPECT_EQ(fake->convolutions, run + 1);
    }
}

TEST_F(CudaProducts, ProductsOfViewsThatBeginAnywhereAgree) {
    for (amp_dtype dtype : floating) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        amp_tensor *x = random_tensor(dtype, {9, 17}, 1), *w = random_tensor(dtype, {9, 17}, 2);
        amp_tensor *b = random_tensor(dtype, {9}, 3);
        const auto layer = [](amp_tensor *x, amp_tensor *w, amp_tensor *b, int64_t first) {
            return op("linear", {op("narrow", {x, 1, first, 16}), op("narrow", {op("narrow", {w, 1, 1, 16}), 0, 1, 8}),
                                 op("narrow", {b, 0, 1, 8})});
        };
        for (int64_t first : {0, 1}) {
            const double most = dtype == AMP_BF16 ? 0x1p-4 : dtype == AMP_F16 ? 0x1p-7 : 1e-5;
            expect_agree(layer(sent(x), sent(w), sent(b), first), layer(x, w, b, first), most);
        }
    }
}

// The workspaces of two threads that multiply at once are two.
TEST_F(CudaProducts, ThreadsThatDoNotWaitForEachOtherShareNothing) {
    const Scope scope;
    amp_tensor *x = sent(random_tensor(AMP_F32, {8, 8}, 1));
    ASSERT_NE(product(x, x), nullptr) << amp_last_error();
    std::thread([&] {
        const Scope inner;
        amp_tensor *y = sent(random_tensor(AMP_F32, {8, 8}, 2));
        EXPECT_NE(product(y, y), nullptr) << amp_last_error();
    }).join();
    ASSERT_NE(product(x, x), nullptr) << amp_last_error();
}

TEST_F(CudaProducts, OtherBroadcasts) {
    const Scope scope;
    amp_tensor *x = sent(random_tensor(AMP_F32, {2, 3, 5, 5}, 1)), *w = sent(random_tensor(AMP_F32, {4, 3, 3, 3}, 2));
    for (const Shape &shape : {Shape{4, 1, 3}, Shape{3}, Shape{4, 1, 1}}) {
        amp_tensor *other = sent(random_tensor(AMP_F32, shape, 3));
        expect_near(fetched(op("convolution_pointwise.binary", {x, other, w})),
                    numbers_of(fetched(op("add", {op("conv2d", {x, w}), other}))), 1e-6);
    }
}

TEST_F(CudaProducts, ConvolutionsOfNothingAreTheirEpilogue) {
    for (amp_dtype dtype : floating) {
        const Scope scope;
        amp_tensor *y = op("convolution_pointwise.binary",
                           {sent(tensor(dtype, {1, 0, 3, 3})), sent(tensor(dtype, {1, 2, 1, 1}, {-3, 3})),
                            sent(tensor(dtype, {2, 0, 3, 3}))},
                           {{"bias", sent(tensor(dtype, {2}, {1, 2}))}, {"attr", "relu"}});
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_EQ(numbers_of(fetched(y)), (std::vector<double>{0, 5}));
    }
}

TEST_F(CudaProducts, RegionsRunFusedConvolutionsInF16) {
    const Scope scope;
    amp_tensor *x = sent(random_tensor(AMP_F32, {1, 20, 6, 6}, 1)),
               *w = sent(random_tensor(AMP_F32, {33, 20, 1, 1}, 2));
    amp_tensor *scale = sent(random_tensor(AMP_F32, {33}, 5));
    const auto half = [](amp_tensor *t) { return op("to", {t, AMP_F16}); };
    const std::vector<Named> named = {{"attr", "relu"}, {"scale", scale}};
    const std::vector<double> want = numbers_of(fetched(op("convolution_pointwise", {half(x), half(w)}, named)));
    const Region region(AMP_DEVICE_CUDA, AMP_DTYPE_NONE);
    amp_tensor *y = op("convolution_pointwise", {x, w}, named);
    ASSERT_NE(y, nullptr) << amp_last_error();
    ASSERT_EQ(amp_tensor_dtype(y), AMP_F16);
    EXPECT_EQ(numbers_of(fetched(y)), want);
}

// ---- What the libraries do that their callers must know ----------------------------------------------------------
// cuBLASLt's ReLU, and cuDNN's, make 0 of NaN; an overflow would be hidden.
TEST_F(CudaProducts, ReluOfNanIsNan) {
    for (amp_dtype dtype : floating) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        const double numbers[] = {NAN, INFINITY, -INFINITY, 2};
        amp_tensor *x = sent(tensor(dtype, {4, 1}, {numbers[0], numbers[1], numbers[2], numbers[3]}));
        amp_tensor *w = sent(tensor(dtype, {1, 1}, {1})), *b = sent(tensor(dtype, {1}, {1}));
        amp_tensor *images = op("view", {x, AMP_DIMS(4, 1, 1, 1)}), *kernel = op("view", {w, AMP_DIMS(1, 1, 1, 1)});
        for (amp_tensor *bias : {b, static_cast<amp_tensor *>(nullptr)}) {
            for (amp_tensor *y : {op("linear_pointwise", {x, w, bias}, {{"attr", "relu"}}),
                                  op("convolution_pointwise", {images, kernel, bias}, {{"attr", "relu"}})}) {
                ASSERT_NE(y, nullptr) << amp_last_error();
                const std::vector<double> got = numbers_of(fetched(y));
                EXPECT_TRUE(std::isnan(got[0])) << got[0];
                EXPECT_EQ(got[1], INFINITY);
                EXPECT_EQ(got[2], 0);
                EXPECT_EQ(got[3], bias ? 3 : 2);
            }
        }
    }
}

// It is never told of the bias's alignment: of one that begins anywhere it loses the device.
TEST_F(CudaProducts, BiasesOfLayersBeginAnywhere) {
    for (amp_dtype dtype : {AMP_F16, AMP_BF16, AMP_F32}) {
        for (const char *attr : {"none", "relu", "gelu"}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + attr);
            const Scope scope;
            amp_tensor *x = random_tensor(dtype, {6, 16}, 1), *w = random_tensor(dtype, {8, 16}, 2);
            amp_tensor *b = random_tensor(dtype, {17}, 3);
            const auto layer = [&](amp_tensor *x, amp_tensor *w, amp_tensor *b, int64_t first) {
                return op("linear_pointwise", {x, w, op("narrow", {b, 0, first, 8})},
                          {{"attr", attr}, {"algorithm", strcmp(attr, "gelu") ? "none" : "tanh"}});
            };
            for (int64_t first : {1, 2, 7}) {
                expect_agree(layer(sent(x), sent(w), sent(b), first), layer(x, w, b, first),
                             dtype == AMP_F32   ? 1e-5
                             : dtype == AMP_F16 ? 0x1p-8
                                                : 0x1p-5);
            }
        }
    }
}

// The parts of a product that is split along its sums are added in f32: in f16, 2048 + 1 is 2048.
TEST_F(CudaProducts, PartsOfSumsAreNotRounded) {
    const Scope scope;
    const std::pair<amp_dtype, double> rows[] = {{AMP_F16, 2048}, {AMP_BF16, 256}};
    for (const auto &[dtype, most] : rows) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        amp_tensor *x = sent(tensor(dtype, {1, 4}, {most, 1, -most, 1})),
                   *w = sent(tensor(dtype, {1, 4}, {1, 1, 1, 1}));
        EXPECT_EQ(numbers_of(fetched(op("linear", {x, w}))), (std::vector<double>{2}));
    }
}

// The fused call takes no NaN propagation: asked for it, it refuses, and the convolution would be unfolded.
TEST_F(CudaProducts, ConvolutionsWithBiasAndReluStayWithTheLibrary) {
    for (amp_dtype dtype : {AMP_F16, AMP_BF16, AMP_F32}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        amp_tensor *x = random_tensor(dtype, {2, 3, 5, 5}, 1), *w = random_tensor(dtype, {4, 3, 3, 3}, 2);
        amp_tensor *b = random_tensor(dtype, {4}, 3), *other = random_tensor(dtype, {2, 4, 3, 3}, 4);
        for (const char *attr : {"none", "relu"}) {
            const uint64_t run = fake->convolutions;
            const std::vector<Named> how = {{"attr", attr}}, both = {{"attr", attr}, {"bias", sent(b)}};
            amp_tensor *y = op("convolution_pointwise", {sent(x), sent(w), sent(b)}, how);
            amp_tensor *z = op("convolution_pointwise.binary", {sent(x), sent(other), sent(w)}, both);
            EXPECT_EQ(fake->convolutions, run + 2);
            expect_agree(y, op("convolution_pointwise", {x, w, b}, how), 0x1p-5);
            expect_agree(z, op("convolution_pointwise.binary", {x, other, w}, {{"attr", attr}, {"bias", b}}), 0x1p-5);
        }
    }
}

// Weights of channels-last images are laid out once, and again after they were written to.
TEST_F(CudaProducts, WeightsOfImagesWithChannelsLastAreLaidOutOnce) {
    for (amp_dtype dtype : {AMP_F16, AMP_F32}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        amp_tensor *x = channels_last(random_tensor(dtype, {2, 8, 5, 5}, 1)),
                   *w = random_tensor(dtype, {4, 8, 3, 3}, 2);
        amp_tensor *there = sent(x), *weight = sent(w);
        const auto launches = [&] {
            const amp_cuda_counts start = amp_cuda_counters();
            expect_agree(op("conv2d", {there, weight}), op("conv2d", {x, w}), dtype == AMP_F16 ? 0x1p-8 : 1e-5);
            return amp_cuda_counters().launches - start.launches;
        };
        EXPECT_EQ(launches(), 1u);
        EXPECT_EQ(launches(), 0u);
        ASSERT_NE(op("mul_", {w, amp_float(2)}), nullptr);
        ASSERT_NE(op("mul_", {weight, amp_float(2)}), nullptr);
        EXPECT_EQ(launches(), 1u);
        const Region region(AMP_DEVICE_CUDA, AMP_F16); // what is cast is laid out once, too
        amp_tensor *y = op("conv2d", {there, weight});
        const amp_cuda_counts start = amp_cuda_counters();
        ASSERT_NE(y = op("conv2d", {there, weight}), nullptr) << amp_last_error();
        EXPECT_EQ(amp_cuda_counters().launches, start.launches + (dtype == AMP_F32)) << "the cast of the images";
    }
}

// The pool keeps what is freed; a library takes memory from the driver, and finds none.
TEST_F(CudaProducts, WhatThePoolKeepsIsGivenBackBeforeALibraryHasNoMemory) {
    const Scope scope;
    amp_tensor *x = sent(random_tensor(AMP_F32, {8, 8}, 1)), *images = sent(random_tensor(AMP_F32, {1, 2, 5, 5}, 1));
    amp_tensor *w = sent(random_tensor(AMP_F32, {2, 2, 2, 2}, 1)), *line = sent(random_tensor(AMP_C64, {30}, 1));
    const std::vector<std::pair<const char *, std::vector<Value>>> calls = {
        {"mm", {x, x}}, {"conv2d", {images, w}}, {"fft_fft", {line}}};
    for (const auto &[name, arguments] : calls) {
        SCOPED_TRACE(name);
        const size_t limit = fake->memory_limit;
        {
            const Scope inner;
            ASSERT_NE(op("zeros", {AMP_DIMS(8 << 20)}, {{"device", AMP_DEVICE_CUDA}}), nullptr);
        }
        fake->library_bytes = limit - (16 << 20);
        EXPECT_NE(op(name, arguments), nullptr) << amp_last_error();
        fake->library_bytes = 0;
    }
    fake->library_bytes = 2 * fake->memory_limit; // more than there is
    EXPECT_EQ(op("mm", {x, x}), nullptr);
    EXPECT_TRUE(contains(error(), "cuBLAS has no memory")) << error();
    fake->library_bytes = 0;
    EXPECT_NE(op("mm", {x, x}), nullptr) << amp_last_error();
}

} // namespace
