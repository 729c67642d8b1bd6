// Pooling, interpolation, grid sampling, padding and pixel shuffles: what replay cannot know. Layouts, dtypes and
// threads that must change nothing, ties and NaN, integers, what bad input is told.
#include <algorithm>
#include <limits>

#include "layouts.h"

using namespace amp_test;

namespace {

class Spatial : public Test {};

struct Call {
    std::string name;
    std::vector<Value> more; // after the input
    std::vector<Named> named;
    bool two_outputs = false;
};

const double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// Calls on (N, C, H, W) …
std::vector<Call> calls_2d(amp_tensor *grid) {
    const Named indices = {"return_indices", true};
    return {
        {"avg_pool2d", {AMP_DIMS(3, 2), AMP_DIMS(2, 1), AMP_DIMS(1, 1), true}, {}},
        {"avg_pool2d", {AMP_DIMS(3), AMP_DIMS(2), AMP_DIMS(1)}, {{"count_include_pad", false}}},
        {"avg_pool2d", {AMP_DIMS(9, 7)}, {}},
        {"avg_pool2d", {AMP_DIMS(2)}, {{"divisor_override", 3}}},
        {"adaptive_avg_pool2d", {AMP_DIMS(4, 3)}, {}},
        {"adaptive_avg_pool2d", {AMP_DIMS(1)}, {}},
        {"max_pool2d", {AMP_DIMS(3), AMP_DIMS(2), AMP_DIMS(1)}, {}},
        {"max_pool2d", {AMP_DIMS(2), AMP_DIMS(1)}, {}},
        {"max_pool2d", {AMP_DIMS(3), AMP_DIMS(1), AMP_DIMS(1), AMP_DIMS(2)}, {}},
        {"max_pool2d", {AMP_DIMS(2, 3), AMP_DIMS(3, 2), AMP_DIMS(1), AMP_DIMS(1), true}, {indices}, true},
        {"max_pool2d", {AMP_DIMS(3), AMP_DIMS(3), AMP_DIMS(0), AMP_DIMS(2)}, {indices}, true},
        {"adaptive_max_pool2d", {AMP_DIMS(4, 3)}, {indices}, true},
        {"fractional_max_pool2d",
         {AMP_DIMS(2), AMP_DIMS(5, 6), true, tensor(AMP_F32, {2, 5, 2}, {0.1, 0.9, 0.5})},
         {},
         true},
        {"interpolate", {AMP_DIMS(7, 40)}, {{"mode", "nearest"}}},
        {"interpolate", {AMP_DIMS(23, 10)}, {{"mode", "nearest-exact"}}},
        {"interpolate", {}, {{"scale_factor", 2.0}, {"mode", "bilinear"}}},
        {"interpolate", {AMP_DIMS(5, 50)}, {{"mode", "bilinear"}, {"align_corners", true}}},
        {"interpolate", {AMP_DIMS(31, 9)}, {{"mode", "bicubic"}}},
        {"interpolate", {AMP_DIMS(6, 5)}, {{"mode", "bicubic"}, {"antialias", true}}},
        {"interpolate", {AMP_DIMS(6, 30)}, {{"mode", "bilinear"}, {"antialias", true}}},
        {"interpolate", {AMP_DIMS(5, 6)}, {{"mode", "area"}}},
        {"grid_sampler_2d", {grid, 0, 0, false}, {}},
        {"grid_sampler_2d", {grid, 1, 1, true}, {}},
        {"grid_sampler_2d", {grid, 2, 2, false}, {}},
        {"constant_pad_nd", {AMP_DIMS(1, -2, 0, 3), 1.5}, {}},
        {"constant_pad_nd", {AMP_DIMS(1, 1, 1, 1, 1, 0, 2, -1)}, {}},
        {"reflection_pad2d", {AMP_DIMS(3, 1, 2, 4)}, {}},
        {"replication_pad2d", {AMP_DIMS(3, -1, 2, 20)}, {}},
    };
}

// … and on (N, C, D, H, W).
std::vector<Call> calls_3d(amp_tensor *grid) {
    const Named indices = {"return_indices", true};
    return {
        {"avg_pool3d", {AMP_DIMS(2, 3, 2), AMP_DIMS(2), AMP_DIMS(1)}, {}},
        {"adaptive_avg_pool3d", {AMP_DIMS(3, 2, 4)}, {}},
        {"max_pool3d", {AMP_DIMS(2), AMP_DIMS(2, 1, 2), AMP_DIMS(1)}, {}},
        {"max_pool3d", {AMP_DIMS(3, 2, 2), AMP_DIMS(1, 2, 3), AMP_DIMS(1), AMP_DIMS(1, 2, 1)}, {indices}, true},
        {"adaptive_max_pool3d", {AMP_DIMS(3, 2, 4)}, {indices}, true},
        {"interpolate", {AMP_DIMS(7, 3, 20)}, {{"mode", "nearest"}}},
        {"interpolate", {AMP_DIMS(3, 9, 20)}, {{"mode", "trilinear"}}},
        {"interpolate", {AMP_DIMS(9, 12, 4)}, {{"mode", "trilinear"}, {"align_corners", true}}},
        {"interpolate", {AMP_DIMS(2, 3, 4)}, {{"mode", "area"}}},
        {"grid_sampler_3d", {grid, 0, 2, false}, {}},
        {"grid_sampler_3d", {grid, 1, 0, true}, {}},
        {"replication_pad3d", {AMP_DIMS(3, 1, 2, 4, 0, 1)}, {}},
    };
}

std::vector<amp_tensor *> run(const Call &c, amp_tensor *input, const Named *extra = nullptr) {
    std::vector<Value> values = {input};
    values.insert(values.end(), c.more.begin(), c.more.end());
    std::vector<Named> named = c.named;
    if (extra) named.push_back(*extra);
    std::vector<amp_tensor *> outputs;
    EXPECT_EQ(call(c.name, values, named, &outputs), AMP_OK) << amp_last_error();
    outputs.resize(c.two_outputs ? 2 : 1);
    return outputs;
}

void expect_same(const std::vector<amp_tensor *> &got, const std::vector<amp_tensor *> &want, double tolerance) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t o = 0; o < got.size(); o++) {
        ASSERT_NE(got[o], nullptr);
        ASSERT_NE(want[o], nullptr);
        const std::vector<double> g = numbers_of(got[o]), w = numbers_of(want[o]);
        ASSERT_EQ(g.size(), w.size());
        for (size_t i = 0; i < g.size(); i++) ASSERT_NEAR(g[i], w[i], tolerance * std::max(1.0, std::fabs(w[i]))) << i;
    }
}

struct Shaped {
    amp_tensor *input;
    std::vector<Call> calls;
};

std::vector<Shaped> everything(amp_dtype dtype) {
    amp_tensor *flat = random_tensor(dtype, {2, 5, 13, 17}, 1), *deep = random_tensor(dtype, {2, 3, 5, 6, 11}, 2);
    amp_tensor *grid_2d = op("mul", {random_tensor(dtype, {2, 4, 21, 2}, 3), 1.5});
    amp_tensor *grid_3d = op("mul", {random_tensor(dtype, {2, 2, 3, 9, 3}, 4), 1.5});
    std::vector<Call> flat_calls = calls_2d(grid_2d);
    for (Call &c : flat_calls) {
        if (c.name == "fractional_max_pool2d") c.more[3] = op("to", {c.more[3].v.as.tensor, dtype});
    }
    return {{flat, flat_calls}, {deep, calls_3d(grid_3d)}};
}

amp_tensor *same_dtype(const Value &v) {
    return v.v.kind == AMP_VALUE_TENSOR ? v.v.as.tensor : nullptr;
}

} // namespace

TEST_F(Spatial, ChannelsLastInAndOut) {
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        for (const Shaped &shaped : everything(dtype)) {
            for (const Call &c : shaped.calls) {
                SCOPED_TRACE(c.name);
                const std::vector<amp_tensor *> plain = run(c, shaped.input),
                                                last = run(c, channels_last(shaped.input));
                expect_same(last, plain, dtype == AMP_BF16 ? 0x1p-7 : dtype == AMP_F32 ? 3e-6 : 1e-13);
                if (c.name == "fractional_max_pool2d") continue; // as in PyTorch
                for (const amp_tensor *t : last) {
                    if (amp_tensor_size(t, 1) > 1) {
                        EXPECT_EQ(amp_tensor_strides(t)[1], 1);
                    }
                    EXPECT_EQ(amp_tensor_strides(t)[amp_tensor_rank(t) - 1], amp_tensor_size(t, 1));
                }
            }
        }
    }
}

TEST_F(Spatial, StridesChangeNothing) {
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
        for (const Shaped &shaped : everything(dtype)) {
            for (const Call &c : shaped.calls) {
                SCOPED_TRACE(c.name);
                expect_same(run(c, spread(shaped.input)), run(c, shaped.input), 0);
            }
        }
    }
}

TEST_F(Spatial, NarrowTypesAreComputedInF32AndRoundedOnce) {
    for (const amp_dtype dtype : {AMP_BF16, AMP_F16}) {
        for (const Shaped &shaped : everything(dtype)) {
            for (const Call &c : shaped.calls) {
                SCOPED_TRACE(c.name);
                Call wide = c;
                for (Value &v : wide.more) {
                    if (same_dtype(v)) v = op("to", {v, AMP_F32});
                }
                std::vector<amp_tensor *> want = run(wide, op("to", {shaped.input, AMP_F32}));
                want[0] = op("to", {want[0], dtype});
                expect_same(run(c, shaped.input), want, 0);
            }
        }
    }
}

TEST_F(Spatial, F32AgreesWithF64) {
    for (const Shaped &shaped : everything(AMP_F32)) {
        for (const Call &c : shaped.calls) {
            SCOPED_TRACE(c.name);
            Call wide = c;
            for (Value &v : wide.more) {
                if (same_dtype(v)) v = op("to", {v, AMP_F64});
            }
            expect_same(run(c, shaped.input), run(wide, op("to", {shaped.input, AMP_F64})), 3e-6);
        }
    }
}

TEST_F(Spatial, ThreadsDoNotChangeABit) {
    const int before = amp_get_num_threads();
    for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *input = random_tensor(dtype, {2, 5, 130, 170}, 1);
        for (Call c : calls_2d(random_tensor(dtype, {2, 90, 210, 2}, 3))) {
            SCOPED_TRACE(c.name + " of " + amp_dtype_name(dtype));
            if (c.name == "fractional_max_pool2d") c.more[3] = op("to", {c.more[3].v.as.tensor, dtype});
            ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
            const std::vector<amp_tensor *> one = run(c, input);
            ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
            expect_same(run(c, input), one, 0);
        }
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

TEST_F(Spatial, OutFormsWriteThroughStrides) {
    for (const Shaped &shaped : everything(AMP_F32)) {
        for (const Call &c : shaped.calls) {
            if (c.two_outputs || c.name.rfind("max_pool", 0) == 0 || c.name == "interpolate") continue; // no such form
            SCOPED_TRACE(c.name);
            const std::vector<amp_tensor *> want = run(c, shaped.input);
            Call out = c;
            out.name += "_out";
            const Named target = {"out", spread(want[0])};
            ASSERT_NE(op("mul_", {target.value, 0}), nullptr);
            run(out, shaped.input, &target);
            expect_same({target.value.v.as.tensor}, want, 0);
        }
    }
}

TEST_F(Spatial, EmptyBatches) {
    amp_tensor *x = tensor(AMP_F32, {0, 3, 8, 8}), *grid = tensor(AMP_F32, {0, 2, 2, 2});
    for (const Call &c : calls_2d(grid)) {
        if (c.name == "fractional_max_pool2d" || c.name == "constant_pad_nd" || c.name == "avg_pool2d") continue;
        SCOPED_TRACE(c.name);
        for (const amp_tensor *t : run(c, x)) EXPECT_EQ(amp_tensor_size(t, 0), 0);
    }
}

// ---- Pooling ----------------------------------------------------------------------------------------------------

TEST_F(Spatial, MaximumIsTheFirstOfEqualOnesAndTheLastNan) {
    const std::vector<double> values = {1, kNan, 2, kNan, kNan, 1, 1, 5, 3, -kInf, kNan, 1, 1, 1, 1, 1};
    const std::vector<double> nan_places = {4, 4, 3, 3, 4, 10, 10, 10, 4, 10, 10, 10};
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
        std::vector<amp_tensor *> out;
        amp_tensor *x = op("to", {tensor(AMP_F64, {1, 1, 4, 4}, values), dtype});
        ASSERT_EQ(call("max_pool2d", {x, AMP_DIMS(3), AMP_DIMS(1), AMP_DIMS(1)}, {{"return_indices", true}}, &out),
                  AMP_OK);
        std::vector<double> places = numbers_of(out[1]);
        places.resize(12);
        EXPECT_EQ(places, nan_places);
        for (const double value : {0.0, -kInf}) {
            x = tensor(dtype, {1, 2, 4, 4}, {value});
            const std::vector<double> first = {0, 0, 1, 2, 0, 0, 1, 2, 4, 4, 5, 6, 8, 8, 9, 10};
            for (amp_tensor *layout : {x, channels_last(x)}) {
                ASSERT_EQ(call("max_pool2d", {layout, AMP_DIMS(3), AMP_DIMS(1), AMP_DIMS(1)},
                               {{"return_indices", true}}, &out),
                          AMP_OK);
                places = numbers_of(out[1]);
                places.resize(16);
                EXPECT_EQ(places, first);
                EXPECT_EQ(numbers_of(out[0]), std::vector<double>(32, value));
            }
        }
    }
}

TEST_F(Spatial, WindowsThatLieInThePaddingAreLeast) {
    std::vector<amp_tensor *> out;
    const std::vector<Value> window = {AMP_DIMS(2), AMP_DIMS(1), AMP_DIMS(1), AMP_DIMS(2), true};
    std::vector<Value> values = {tensor(AMP_F32, {1, 1, 1})};
    values.insert(values.end(), window.begin(), window.end());
    ASSERT_EQ(call("max_pool1d", values, {{"return_indices", true}}, &out), AMP_OK);
    EXPECT_EQ(numbers_of(out[0]), std::vector<double>{-kInf});
    EXPECT_EQ(numbers_of(op("max_pool1d", values)), std::vector<double>{-kInf});
}

// The loops of f64 go through the plane in order: what f32's kernels do line by line gives the same values and places,
// with equal elements and NaN in many columns.
TEST_F(Spatial, MaximaOfF32AreInThePlacesOfF64) {
    const Named indices = {"return_indices", true};
    const std::vector<Call> calls = {
        {"max_pool2d", {AMP_DIMS(3), AMP_DIMS(2), AMP_DIMS(1)}, {indices}, true},
        {"max_pool2d", {AMP_DIMS(9), AMP_DIMS(9), AMP_DIMS(4)}, {indices}, true},
        {"max_pool2d", {AMP_DIMS(4, 12), AMP_DIMS(3, 10), AMP_DIMS(1, 2), AMP_DIMS(2)}, {indices}, true},
        {"adaptive_max_pool2d", {AMP_DIMS(5, 3)}, {indices}, true},
        {"adaptive_max_pool2d", {AMP_DIMS(1)}, {indices}, true},
        {"adaptive_max_pool2d", {AMP_DIMS(9, 40)}, {indices}, true},
    };
    amp_tensor *x = op("round", {op("mul", {random_tensor(AMP_F32, {3, 4, 37, 41}, 8), 2.0})}); // −2 … 2
    auto *numbers = static_cast<float *>(amp_data_mut(x));
    for (int64_t i = 0; i < 2 * 4 * 37 * 41; i += 11 + i % 7) numbers[i] = i % 3 ? float(-kInf) : float(kNan);
    for (int64_t i = 0; i < 37 * 41; i++) numbers[i] = float(-kInf);
    for (const Call &c : calls) {
        SCOPED_TRACE(c.name);
        const std::vector<amp_tensor *> got = run(c, x), want = run(c, op("to", {x, AMP_F64}));
        EXPECT_EQ(numbers_of(got[1]), numbers_of(want[1]));
        const std::vector<double> g = numbers_of(got[0]), w = numbers_of(want[0]);
        for (size_t i = 0; i < g.size(); i++) ASSERT_TRUE(g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) << i;
    }
}

// A maximum is one of its elements, and none of them is rounded or copied on the way: values, NaN and places of bf16 and
// f16 are those of f32, in each layout, for windows that go through the kernels and for others.
TEST_F(Spatial, MaximaOfSixteenBitsAreThoseOfF32) {
    const Named indices = {"return_indices", true};
    const std::vector<Call> calls = {
        {"max_pool2d", {AMP_DIMS(2)}, {}},
        {"max_pool2d", {AMP_DIMS(3), AMP_DIMS(2), AMP_DIMS(1)}, {indices}, true},
        {"max_pool2d", {AMP_DIMS(3), AMP_DIMS(3), AMP_DIMS(1)}, {}},
        {"max_pool2d", {AMP_DIMS(5, 2), AMP_DIMS(1, 4), AMP_DIMS(2, 1), AMP_DIMS(2, 3)}, {indices}, true},
        {"max_pool2d", {AMP_DIMS(2), AMP_DIMS(1, 9)}, {indices}, true}, // a stride that no kernel takes
        {"adaptive_max_pool2d", {AMP_DIMS(5, 3)}, {indices}, true},
        {"max_pool2d", {AMP_DIMS(9, 9), AMP_DIMS(9), AMP_DIMS(4)}, {indices}, true},
        {"adaptive_max_pool2d", {AMP_DIMS(9, 11)}, {indices}, true},
        {"adaptive_max_pool2d", {AMP_DIMS(1)}, {}},
        {"adaptive_max_pool2d", {AMP_DIMS(1)}, {indices}, true},
    };
    for (const amp_dtype dtype : {AMP_BF16, AMP_F16}) {
        for (const Shape &shape : {Shape{2, 3, 40, 70}, Shape{1, 35, 13, 17}}) {
            amp_tensor *x = random_tensor(dtype, shape, 7);
            auto *bits = static_cast<uint16_t *>(amp_data_mut(x));
            const uint16_t infinity = dtype == AMP_BF16 ? 0x7f80 : 0x7c00;
            for (int64_t i = 0; i < amp_tensor_numel(x); i += 37) bits[i] = uint16_t(infinity + (i % 2 ? 3 : 0x8001));
            for (int64_t i = 5; i < amp_tensor_numel(x); i += 101) bits[i] = uint16_t(infinity | 0x8000);
            for (amp_tensor *layout : {x, channels_last(x)}) {
                for (const Call &c : calls) {
                    SCOPED_TRACE(c.name + " of " + amp_dtype_name(dtype));
                    const std::vector<amp_tensor *> got = run(c, layout);
                    const std::vector<amp_tensor *> want = run(c, op("to", {layout, AMP_F32}));
                    for (size_t o = 0; o < got.size(); o++) {
                        const std::vector<double> g = numbers_of(got[o]), w = numbers_of(want[o]);
                        ASSERT_EQ(g.size(), w.size());
                        for (size_t i = 0; i < g.size(); i++)
                            ASSERT_TRUE(g[i] == w[i] || (std::isnan(g[i]) && std::isnan(w[i]))) << o << ", " << i;
                    }
                }
            }
        }
    }
}

TEST_F(Spatial, IntegersPool) {
    amp_tensor *x = tensor(AMP_I64, {1, 4, 4}, {-1, -2, 3, 4, -5, -6, 7, 8});
    EXPECT_EQ(numbers_of(op("avg_pool2d", {x, AMP_DIMS(2)})), (std::vector<double>{-3, 5, -3, 5})); // towards zero
    EXPECT_EQ(numbers_of(op("avg_pool2d", {x, AMP_DIMS(2)}, {{"divisor_override", -1}})),
              (std::vector<double>{14, -22, 14, -22}));
    for (const amp_dtype dtype : {AMP_I64, AMP_I32, AMP_I16, AMP_I8}) {
        amp_tensor *y = op("max_pool2d", {op("to", {x, dtype}), AMP_DIMS(2)});
        EXPECT_EQ(amp_tensor_dtype(y), dtype);
        EXPECT_EQ(numbers_of(y), (std::vector<double>{-1, 8, -1, 8}));
    }
}

TEST_F(Spatial, AverageOfAMillionElementsLosesNothing) {
    amp_tensor *x = op("add", {random_tensor(AMP_F32, {1, 2, 1000, 517}, 5), 1000.0});
    const std::vector<double> want = numbers_of(op("adaptive_avg_pool2d", {op("to", {x, AMP_F64}), AMP_DIMS(1)}));
    for (amp_tensor *layout : {x, channels_last(x)}) {
        const std::vector<double> got = numbers_of(op("adaptive_avg_pool2d", {layout, AMP_DIMS(1)}));
        for (size_t i = 0; i < 2; i++) EXPECT_NEAR(got[i], want[i], 1e-4); // an ulp
    }
}

TEST_F(Spatial, FractionalPoolingWithoutSamplesDrawsThem) {
    amp_tensor *x = op("reshape", {op("arange", {400.0}), AMP_DIMS(1, 1, 20, 20)});
    bool differs = false;
    for (int i = 0; i < 20; i++) {
        const std::vector<double> a = numbers_of(op("fractional_max_pool2d", {x, AMP_DIMS(2), AMP_DIMS(8)}));
        const std::vector<double> b = numbers_of(op("fractional_max_pool2d", {x, AMP_DIMS(2), AMP_DIMS(8)}));
        ASSERT_EQ(a.size(), 64u);
        EXPECT_TRUE(std::is_sorted(a.begin(), a.end()));
        EXPECT_EQ(a.back(), 399.0);
        differs = differs || a != b;
    }
    EXPECT_TRUE(differs);
}

TEST_F(Spatial, FractionalPoolingKnowsPythonsNameOfTheSamples) {
    amp_tensor *x = random_tensor(AMP_F32, {1, 2, 9, 9}, 3),
               *samples = tensor(AMP_F32, {1, 2, 2}, {0.1, 0.9, 0.4, 0.5});
    const amp_tensor *want = op("fractional_max_pool2d", {x, AMP_DIMS(2), AMP_DIMS(4)}, {{"random_samples", samples}});
    const amp_tensor *got = op("fractional_max_pool2d", {x, AMP_DIMS(2), AMP_DIMS(4)}, {{"_random_samples", samples}});
    ASSERT_NE(got, nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(got), numbers_of(want));
}

TEST_F(Spatial, UnpoolingNamesTheFirstBadIndexHoweverItLies) {
    amp_tensor *x = random_tensor(AMP_F32, {1, 2, 1, 2}, 6), *places = tensor(AMP_I64, {1, 2, 1, 2}, {0, 61, 85, 1});
    for (amp_tensor *layout : {x, channels_last(x)}) {
        EXPECT_EQ(op("max_unpool2d", {layout, layout == x ? places : channels_last(places), AMP_DIMS(2)}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"max_unpool2d", "'indices' has 61"}));
    }
}

TEST_F(Spatial, UnpoolingUndoesPooling) {
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {2, 3, 6, 8}, 6);
        for (amp_tensor *layout : {x, channels_last(x), spread(x)}) {
            std::vector<amp_tensor *> out;
            ASSERT_EQ(call("max_pool2d", {layout, AMP_DIMS(2)}, {{"return_indices", true}}, &out), AMP_OK);
            amp_tensor *back = op("max_unpool2d", {out[0], out[1], AMP_DIMS(2)});
            const std::vector<double> b = numbers_of(back), xs = numbers_of(x);
            ASSERT_EQ(b.size(), xs.size());
            size_t kept = 0;
            for (size_t i = 0; i < b.size(); i++) {
                if (b[i] != 0) kept++;
                EXPECT_TRUE(b[i] == 0 || b[i] == xs[i]);
            }
            EXPECT_EQ(kept, xs.size() / 4);
        }
    }
}

// ---- Interpolation ----------------------------------------------------------------------------------------------

TEST_F(Spatial, BytesAreRoundedAfterEachPass) {
    amp_tensor *x = tensor(AMP_U8, {1, 1, 3, 4}, {0, 10, 255, 30, 40, 50, 60, 70, 1, 2, 3, 200});
    const auto near = [&](const char *mode, bool antialias, const std::vector<double> &want) { // PyTorch 2.13's
        const std::vector<double> got =
            numbers_of(op("interpolate", {x, AMP_DIMS(5, 3)}, {{"mode", mode}, {"antialias", antialias}}));
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); i++) EXPECT_NEAR(got[i], want[i], 1) << mode << antialias << " " << i;
    };
    near("bilinear", false, {2, 133, 67, 18, 102, 67, 42, 55, 68, 17, 24, 127, 1, 3, 167});
    near("bilinear", true, {3, 133, 97, 19, 102, 85, 43, 55, 67, 18, 24, 111, 1, 3, 141});
    near("bicubic", false, {0, 165, 67, 19, 120, 60, 41, 55, 69, 19, 14, 132, 0, 0, 182});
    near("bicubic", true, {0, 147, 102, 17, 113, 85, 42, 55, 68, 17, 15, 120, 0, 0, 157});
}

TEST_F(Spatial, NearestMovesAnyType) {
    for (const amp_dtype dtype : {AMP_F64, AMP_F16, AMP_I64, AMP_I8, AMP_BOOL, AMP_C64, AMP_C128}) {
        amp_tensor *x = tensor(dtype, {1, 1, 3}, {1, 0, 1});
        EXPECT_EQ(numbers_of(op("interpolate", {x, AMP_DIMS(6)})), (std::vector<double>{1, 1, 0, 0, 1, 1}));
        EXPECT_EQ(numbers_of(op("replication_pad1d", {x, AMP_DIMS(2, 0)})), (std::vector<double>{1, 1, 1, 0, 1}));
        EXPECT_EQ(numbers_of(op("constant_pad_nd", {x, AMP_DIMS(1, 1), 1})), (std::vector<double>{1, 1, 0, 1, 1}));
    }
}

TEST_F(Spatial, PaddingThatIsCroppedAgainOverflowsNowhere) {
    amp_tensor *x = tensor(AMP_F32, {3}, {1, 2, 3});
    for (const int64_t most : {INT64_MAX, INT64_MAX / 2, int64_t(100)}) {
        EXPECT_EQ(numbers_of(op("constant_pad_nd", {x, AMP_DIMS(most, -most - 1), 5})), (std::vector<double>{5, 5}));
        EXPECT_EQ(numbers_of(op("constant_pad_nd", {x, AMP_DIMS(-most, most), 5})), (std::vector<double>{5, 5, 5}));
    }
    EXPECT_EQ(numbers_of(op("constant_pad_nd", {x, AMP_DIMS(2, -4), 5})), (std::vector<double>{5}));
}

TEST_F(Spatial, TheScaleFactorIsKeptUnlessRecomputed) {
    amp_tensor *x = tensor(AMP_F32, {1, 1, 4}, {0, 1, 2, 3});
    EXPECT_EQ(numbers_of(op("interpolate", {x}, {{"scale_factor", 1.7}})), (std::vector<double>{0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(numbers_of(op("interpolate", {x}, {{"scale_factor", 1.7}, {"recompute_scale_factor", true}})),
              (std::vector<double>{0, 0, 1, 2, 2, 3}));
}

TEST_F(Spatial, NamesOfUpsampleAreModesOfInterpolate) {
    amp_tensor *x = random_tensor(AMP_F32, {1, 2, 5, 6}, 7);
    const auto same = [&](const char *name, const char *mode, bool antialias) {
        const std::vector<Named> corners = {{"align_corners", false}};
        expect_same({op(name, {x, AMP_DIMS(3, 9)}, mode[0] == 'b' ? corners : std::vector<Named>())},
                    {op("interpolate", {x, AMP_DIMS(3, 9)}, {{"mode", mode}, {"antialias", antialias}})}, 0);
    };
    same("upsample_nearest2d", "nearest", false);
    same("upsample_nearest_exact2d", "nearest-exact", false);
    same("upsample_bilinear2d", "bilinear", false);
    same("upsample_bicubic2d", "bicubic", false);
    same("upsample_bilinear2d_aa", "bilinear", true);
    same("upsample_bicubic2d_aa", "bicubic", true);
    EXPECT_EQ(op("upsample_nearest1d", {x, AMP_DIMS(3)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"upsample_nearest1d", "(N, C, W)", "[1, 2, 5, 6]"}));
}

// ---- Grid sampling ----------------------------------------------------------------------------------------------

TEST_F(Spatial, CoordinatesThatAreNoNumbers) {
    amp_tensor *x = op("reshape", {op("arange", {amp_float(1), amp_float(13)}), AMP_DIMS(1, 1, 3, 4)});
    amp_tensor *grid = tensor(AMP_F32, {1, 1, 3, 2}, {kNan, 0, 1e30, 0, -1e30, 0});
    const std::vector<double> zeros = numbers_of(op("grid_sampler_2d", {x, grid, 0, 0, false}));
    EXPECT_TRUE(std::isnan(zeros[0]) && zeros[1] == 0 && zeros[2] == 0);
    EXPECT_EQ(numbers_of(op("grid_sampler_2d", {x, grid, 0, 1, false})), (std::vector<double>{5, 8, 5}));
    EXPECT_EQ(numbers_of(op("grid_sampler_2d", {x, grid, 1, 0, false})), (std::vector<double>{0, 0, 0}));
    EXPECT_TRUE(std::isnan(numbers_of(op("grid_sampler_2d", {x, grid, 2, 1, false}))[0]));
}

TEST_F(Spatial, ZerosOutsideDoNotReadTheInput) {
    amp_tensor *x = tensor(AMP_F32, {1, 8, 2, 2}, {kInf}), *grid = tensor(AMP_F32, {1, 1, 1, 2}, {-5, 0});
    for (amp_tensor *layout : {x, channels_last(x)}) {
        EXPECT_EQ(numbers_of(op("grid_sampler", {layout, grid, 0, 0, false})), std::vector<double>(8, 0.0));
    }
}

// ---- Pixel shuffles ---------------------------------------------------------------------------------------------

TEST_F(Spatial, PixelShufflesUndoEachOther) {
    for (const Shape &shape : {Shape{4, 2, 3}, {2, 18, 4, 5}, {1, 2, 1, 2, 25, 3, 2}, {2, 1, 2, 1, 2, 36, 2, 1}}) {
        const int64_t r = shape[shape.size() - 3] == 25 ? 5 : shape[shape.size() - 3] == 18 ? 3 : 2;
        amp_tensor *x = random_tensor(AMP_F32, shape, 8);
        amp_tensor *fine = op("pixel_shuffle", {x, r});
        ASSERT_NE(fine, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_size(fine, -1), shape.back() * r);
        expect_same({op("pixel_unshuffle", {fine, r})}, {x}, 0);
        if (shape.size() == 4) {
            expect_same({op("pixel_shuffle", {channels_last(x), r})}, {fine}, 0);
        }
    }
    amp_tensor *x = op("reshape", {op("arange", {8.0}), AMP_DIMS(4, 1, 2)});
    EXPECT_EQ(numbers_of(op("pixel_shuffle", {x, 2})), (std::vector<double>{0, 2, 1, 3, 4, 6, 5, 7}));
}

// ---- Errors -----------------------------------------------------------------------------------------------------

TEST_F(Spatial, BadInputIsToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {1, 4, 6, 6}), *grid = tensor(AMP_F32, {1, 2, 2, 2});
    struct Bad {
        Call call;
        amp_status status;
        std::vector<std::string> words;
    };
    amp_tensor *flat = tensor(AMP_F32, {6, 6}), *whole = tensor(AMP_I32, {1, 4, 6, 6});
    const std::vector<std::pair<amp_tensor *, Bad>> bad = {
        {flat, {{"avg_pool2d", {AMP_DIMS(2)}, {}}, AMP_ERROR_INVALID, {"[6, 6]", "3 dimensions, or 4"}}},
        {x, {{"avg_pool2d", {AMP_DIMS(9)}, {}}, AMP_ERROR_INVALID, {"9 elements", "dimension 2"}}},
        {x, {{"avg_pool2d", {AMP_DIMS(0)}, {}}, AMP_ERROR_INVALID, {"'kernel_size'", "[0, 0]"}}},
        {x, {{"avg_pool2d", {AMP_DIMS(2), AMP_DIMS(0)}, {}}, AMP_ERROR_INVALID, {"'stride'"}}},
        {x, {{"avg_pool2d", {AMP_DIMS(2), AMP_DIMS(2), AMP_DIMS(2)}, {}}, AMP_ERROR_INVALID, {"'padding'", "half"}}},
        {x, {{"avg_pool2d", {AMP_DIMS(2)}, {{"divisor_override", 0}}}, AMP_ERROR_INVALID, {"'divisor_override'"}}},
        {whole, {{"avg_pool2d", {AMP_DIMS(2)}, {}}, AMP_ERROR_DTYPE, {"i32", "i64"}}},
        {whole, {{"adaptive_max_pool2d", {AMP_DIMS(2)}, {}}, AMP_ERROR_DTYPE, {"i32", "floating"}}},
        {x, {{"adaptive_avg_pool2d", {AMP_DIMS(2, -2)}, {}}, AMP_ERROR_INVALID, {"'output_size'", "[2, -2]"}}},
        {tensor(AMP_BOOL, {1, 4, 4}), {{"max_pool1d", {AMP_DIMS(2)}, {}}, AMP_ERROR_DTYPE, {"bool"}}},
        {tensor(AMP_F32, {1, 4, 0}), {{"max_pool1d", {AMP_DIMS(2)}, {}}, AMP_ERROR_INVALID, {"[1, 4, 0]", "empty"}}},
        {x, {{"fractional_max_pool2d", {AMP_DIMS(3), AMP_DIMS(5)}, {}}, AMP_ERROR_INVALID, {"5 windows of 3"}}},
        {x,
         {{"fractional_max_pool2d", {AMP_DIMS(2), AMP_DIMS(2), false, flat}, {}},
          AMP_ERROR_INVALID,
          {"'random_samples'", "[6, 6]", "[1, 4, 2]"}}},
        {x, {{"max_unpool2d", {whole, AMP_DIMS(2)}, {}}, AMP_ERROR_DTYPE, {"'indices'", "i32", "i64"}}},
        {x,
         {{"max_unpool2d", {tensor(AMP_I64, {1, 4, 6, 6}, {144}), AMP_DIMS(2)}, {}},
          AMP_ERROR_INVALID,
          {"'indices' has 144", "144 elements"}}},
        {x,
         {{"max_unpool2d", {tensor(AMP_I64, {1, 4, 6, 6}, {0}), AMP_DIMS(2)}, {{"output_size", AMP_DIMS(12, 14)}}},
          AMP_ERROR_INVALID,
          {"would be 14", "12"}}},
        {x, {{"interpolate", {}, {}}, AMP_ERROR_INVALID, {"neither", "'size'", "'scale_factor'"}}},
        {x, {{"interpolate", {AMP_DIMS(2)}, {{"scale_factor", 2.0}}}, AMP_ERROR_INVALID, {"both"}}},
        {x, {{"interpolate", {AMP_DIMS(2)}, {{"mode", "cubic"}}}, AMP_ERROR_INVALID, {"\"cubic\"", "\"bicubic\""}}},
        {x, {{"interpolate", {AMP_DIMS(2)}, {{"mode", "linear"}}}, AMP_ERROR_INVALID, {"\"linear\" takes (N, C, W)"}}},
        {x, {{"interpolate", {AMP_DIMS(2, 2, 2)}, {}}, AMP_ERROR_INVALID, {"'size' has 3 values"}}},
        {x, {{"interpolate", {AMP_DIMS(2)}, {{"align_corners", true}}}, AMP_ERROR_INVALID, {"'align_corners'"}}},
        {x, {{"interpolate", {AMP_DIMS(2)}, {{"antialias", true}}}, AMP_ERROR_INVALID, {"'antialias'", "\"nearest\""}}},
        {x, {{"interpolate", {}, {{"scale_factor", 0.1}}}, AMP_ERROR_INVALID, {"'scale_factor' 0.1"}}},
        {x, {{"interpolate", {}, {{"scale_factor", kNan}}}, AMP_ERROR_INVALID, {"'scale_factor'"}}},
        {whole, {{"interpolate", {AMP_DIMS(2)}, {{"mode", "bilinear"}}}, AMP_ERROR_DTYPE, {"i32", "u8"}}},
        {x, {{"grid_sampler_2d", {grid, 3, 0, false}, {}}, AMP_ERROR_INVALID, {"'interpolation_mode' is 3"}}},
        {x, {{"grid_sampler_2d", {grid, 0, -1, false}, {}}, AMP_ERROR_INVALID, {"'padding_mode' is -1"}}},
        {x, {{"grid_sampler_2d", {flat, 0, 0, false}, {}}, AMP_ERROR_INVALID, {"'grid' is [6, 6]"}}},
        {x, {{"grid_sampler_2d", {whole, 0, 0, false}, {}}, AMP_ERROR_DTYPE, {"grid", "i32"}}},
        {x, {{"constant_pad_nd", {AMP_DIMS(1)}, {}}, AMP_ERROR_INVALID, {"'pad' has 1 values"}}},
        {x, {{"constant_pad_nd", {AMP_DIMS(-4, -4)}, {}}, AMP_ERROR_INVALID, {"'pad' (-4, -4)", "dimension 3"}}},
        {x, {{"reflection_pad2d", {AMP_DIMS(6, 0, 0, 0)}, {}}, AMP_ERROR_INVALID, {"(6, 0)", "less than its extent"}}},
        {x, {{"replication_pad2d", {AMP_DIMS(-3, -3, 0, 0)}, {}}, AMP_ERROR_INVALID, {"leaves nothing"}}},
        {x, {{"pixel_shuffle", {3}, {}}, AMP_ERROR_INVALID, {"'upscale_factor' is 3", "[1, 4, 6, 6]"}}},
        {x, {{"pixel_unshuffle", {4}, {}}, AMP_ERROR_INVALID, {"'downscale_factor' is 4"}}},
        {x, {{"pixel_unshuffle", {0}, {}}, AMP_ERROR_INVALID, {"must be positive"}}},
    };
    for (const auto &[input, b] : bad) {
        std::vector<Value> values = {input};
        values.insert(values.end(), b.call.more.begin(), b.call.more.end());
        EXPECT_EQ(op(b.call.name, values, b.call.named), nullptr) << b.call.name;
        std::vector<std::string> words = b.words;
        words.push_back(b.call.name + ": ");
        EXPECT_TRUE(failed_with(b.status, words));
    }
}
