// What ONNX's own node tests do not show of single ops: the forms of old opsets, ends of ranges, tensors without elements,
// wrong indices and attributes, sentences.
#include <unistd.h>

#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "amp_test.h"
#include "ending_memory.h"
#include "onnx_writer.h"

using namespace amp_test;
using namespace onnx_writer;
using onnx_writer::tensor;

namespace {

using Tensors = std::vector<amp_tensor *>;
using Numbers = std::vector<double>;
using Attributes = std::vector<Bytes>;

const std::map<amp_dtype, int> types = {{AMP_F32, FLOAT}, {AMP_F64, DOUBLE}, {AMP_F16, FLOAT16}, {AMP_I64, INT64},
                                        {AMP_I32, INT32}, {AMP_U8, UINT8},   {AMP_I8, INT8},     {AMP_BOOL, BOOL}};

amp_tensor *f32(const Shape &shape, const Numbers &numbers) {
    return amp_test::tensor(AMP_F32, shape, numbers);
}
amp_tensor *i64(const Shape &shape, const Numbers &numbers) {
    return amp_test::tensor(AMP_I64, shape, numbers);
}
amp_tensor *i64(const Numbers &numbers) {
    return i64({int64_t(numbers.size())}, numbers);
}
Shape shape_of(const amp_tensor *t) {
    return {amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t)};
}

class OnnxOps : public Test {
  protected:
    void SetUp() override {
        path_ = ::testing::TempDir() + "amp-onnx-ops-XXXXXX";
        const int file = mkstemp(path_.data());
        ASSERT_GE(file, 0);
        close(file);
    }
    void TearDown() override {
        amp_graph_release(graph_);
        std::filesystem::remove(path_);
        Test::TearDown();
    }

    // A model of one node. An input that is NULL is left out.
    void load(int64_t opset, const std::string &type, const Tensors &inputs, const Attributes &attributes,
              int outputs) {
        Graph g;
        Names in, out;
        for (size_t i = 0; i < inputs.size(); i++) {
            in.push_back(inputs[i] ? "x" + std::to_string(i) : "");
            if (!inputs[i]) continue;
            const int kind = types.at(amp_tensor_dtype(inputs[i]));
            g.inputs.push_back(value(in.back(), kind, Dims(size_t(amp_tensor_rank(inputs[i])), -1)));
        }
        for (int i = 0; i < outputs; i++) {
            out.push_back("y" + std::to_string(i));
            g.outputs.push_back(bytes(1, out.back()));
        }
        g.nodes = {node(type, in, out, attributes, "it")};
        std::ofstream(path_, std::ios::binary) << number(1, 8) + bytes(7, g) + bytes(8, onnx_writer::opset(opset));
        amp_graph_release(graph_);
        graph_ = amp_graph_load(path_.c_str(), nullptr);
    }

    amp_status compute(const Tensors &inputs, Tensors *outputs) {
        Tensors there;
        for (amp_tensor *x : inputs) {
            if (x) there.push_back(x);
        }
        return amp_graph_run(graph_, there.data(), int(there.size()), outputs->data(), int(outputs->size()));
    }

    // Twice: node by node, then what was captured.
    Tensors run(int64_t opset, const std::string &type, const Tensors &inputs, const Attributes &attributes = {},
                int outputs = 1) {
        Tensors first(static_cast<size_t>(outputs)), second = first;
        load(opset, type, inputs, attributes, outputs);
        EXPECT_NE(graph_, nullptr) << amp_last_error();
        if (!graph_) return {};
        EXPECT_EQ(compute(inputs, &first), AMP_OK) << amp_last_error();
        EXPECT_EQ(compute(inputs, &second), AMP_OK) << amp_last_error();
        for (size_t i = 0; i < first.size() && first[i] && second[i]; i++) {
            EXPECT_EQ(shape_of(first[i]), shape_of(second[i]));
        }
        return second;
    }
    Numbers numbers(int64_t opset, const std::string &type, const Tensors &inputs, const Attributes &attributes = {}) {
        const Tensors y = run(opset, type, inputs, attributes);
        return y.empty() || !y[0] ? Numbers() : numbers_of(y[0]);
    }
    Shape shape(int64_t opset, const std::string &type, const Tensors &inputs, const Attributes &attributes = {}) {
        const Tensors y = run(opset, type, inputs, attributes);
        return y.empty() || !y[0] ? Shape() : shape_of(y[0]);
    }
    // It loads, and cannot be run.
    testing::AssertionResult fails(int64_t opset, const std::string &type, const Tensors &inputs,
                                   const Attributes &attributes, amp_status status,
                                   const std::vector<std::string> &words) {
        Tensors y(1);
        load(opset, type, inputs, attributes, 1);
        if (!graph_) return testing::AssertionFailure() << amp_last_error();
        (void)compute(inputs, &y);
        return failed_with(status, words);
    }
    testing::AssertionResult refused(int64_t opset, const std::string &type, const Tensors &inputs,
                                     const Attributes &attributes, const std::vector<std::string> &words) {
        load(opset, type, inputs, attributes, 1);
        return failed_with(AMP_ERROR_NOT_IMPLEMENTED, words);
    }

    amp_graph *graph_ = nullptr;

  private:
    std::string path_;
};

// ---- Old forms and new ones ----

TEST_F(OnnxOps, BoundsOfClipWereAttributes) {
    amp_tensor *x = f32({3}, {-2, 0.5, 7});
    EXPECT_EQ(numbers(7, "Clip", {x}, {float_attribute("min", -1), float_attribute("max", 3)}), (Numbers{-1, 0.5, 3}));
    EXPECT_EQ(numbers(10, "Clip", {x}, {float_attribute("max", 3)}), (Numbers{-2, 0.5, 3}));
    EXPECT_EQ(numbers(7, "Clip", {x}), (Numbers{-2, 0.5, 7}));
    EXPECT_EQ(numbers(13, "Clip", {x, nullptr, f32({1}, {3})}), (Numbers{-2, 0.5, 3}));
    EXPECT_EQ(shape(13, "Clip", {f32({}, {3}), f32({1}, {5})}), Shape());
    EXPECT_TRUE(refused(13, "Clip", {x}, {float_attribute("min", -1)}, {"'it' (Clip, opset 13)", "attribute 'min'"}));
}

TEST_F(OnnxOps, AxesOfSqueezeWereAttributes) {
    amp_tensor *x = f32({1, 3, 1}, {1, 2, 3});
    EXPECT_EQ(shape(11, "Squeeze", {x}, {ints_attribute("axes", {0})}), (Shape{3, 1}));
    EXPECT_EQ(shape(13, "Squeeze", {x, i64({-1})}), (Shape{1, 3}));
    EXPECT_EQ(shape(7, "Squeeze", {x}), (Shape{3}));
    EXPECT_EQ(shape(11, "Unsqueeze", {x}, {ints_attribute("axes", {4, 0})}), (Shape{1, 1, 3, 1, 1}));
    EXPECT_EQ(shape(13, "Unsqueeze", {x, i64({-1, 0})}), (Shape{1, 1, 3, 1, 1}));
    EXPECT_TRUE(fails(13, "Squeeze", {x, i64({1})}, {}, AMP_ERROR_INVALID, {"'it'", "axis 1", "[1, 3, 1]"}));
    EXPECT_TRUE(fails(13, "Unsqueeze", {x, i64({1, 1})}, {}, AMP_ERROR_INVALID, {"axis 1", "twice"}));
    EXPECT_TRUE(fails(13, "Unsqueeze", {x, i64({0, 1, 2, 3, 4, 5})}, {}, AMP_ERROR_INVALID, {"rank 9", "at most 8"}));
}

TEST_F(OnnxOps, AxesOfReductionsWereAttributes) {
    amp_tensor *x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
    const Attributes last = {ints_attribute("axes", {-1}), int_attribute("keepdims", 0)};
    EXPECT_EQ(numbers(11, "ReduceSum", {x}, last), (Numbers{6, 15}));
    EXPECT_EQ(numbers(13, "ReduceSum", {x, i64({1})}, {int_attribute("keepdims", 0)}), (Numbers{6, 15}));
    EXPECT_EQ(numbers(17, "ReduceMean", {x}, last), (Numbers{2, 5}));
    EXPECT_EQ(numbers(18, "ReduceMax", {x, i64({0})}), (Numbers{4, 5, 6}));
    EXPECT_EQ(numbers(7, "ReduceProd", {x}, {int_attribute("keepdims", 0)}), (Numbers{720}));
    EXPECT_TRUE(refused(18, "ReduceMax", {x}, last, {"attribute 'axes'"}));
}

TEST_F(OnnxOps, PartsOfSplitWereAnAttribute) {
    amp_tensor *x = f32({5}, {1, 2, 3, 4, 5});
    EXPECT_EQ(numbers_of(run(11, "Split", {x}, {ints_attribute("split", {2, 3})}, 2)[1]), (Numbers{3, 4, 5}));
    EXPECT_EQ(numbers_of(run(13, "Split", {x, i64({4, 1})}, {}, 2)[1]), (Numbers{5}));
    const Tensors y = run(18, "Split", {x}, {int_attribute("num_outputs", 4)}, 4);
    EXPECT_EQ(shape_of(y[2]), (Shape{1}));
    EXPECT_EQ(shape_of(y[3]), (Shape{0}));
    EXPECT_TRUE(fails(13, "Split", {x, i64({4})}, {}, AMP_ERROR_INVALID, {"4", "[5]"}));
    EXPECT_TRUE(fails(13, "Split", {x, i64({6})}, {}, AMP_ERROR_INVALID, {"6", "[5]"}));
}

TEST_F(OnnxOps, PadsWereAnAttribute) {
    amp_tensor *x = f32({1, 3}, {1, 2, 3});
    const Attributes pads = {ints_attribute("pads", {0, 1, 0, 2}), float_attribute("value", 9)};
    EXPECT_EQ(numbers(10, "Pad", {x}, pads), (Numbers{9, 1, 2, 3, 9, 9}));
    EXPECT_EQ(numbers(11, "Pad", {x, i64({0, 1, 0, 2}), f32({}, {9})}), (Numbers{9, 1, 2, 3, 9, 9}));
    EXPECT_EQ(numbers(11, "Pad", {x, i64({0, -1, 0, 1})}), (Numbers{2, 3, 0}));
    EXPECT_EQ(numbers(11, "Pad", {x, i64({0, -1, 0, 1})}, {text_attribute("mode", "edge")}), (Numbers{2, 3, 3}));
    EXPECT_TRUE(fails(11, "Pad", {x, i64({1, 1})}, {}, AMP_ERROR_INVALID, {"2 pads", "2 axes"}));
    EXPECT_TRUE(fails(11, "Pad", {x, i64({0, 1, 0, 1})}, {text_attribute("mode", "round")}, AMP_ERROR_INVALID,
                      {"no mode 'round'"}));
}

TEST_F(OnnxOps, PadsInAnyDimension) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 1, 2, 1, 2, 3}, 1);
    const Tensors pads = {x, i64({1, 0, 2, 0, 0, 1, 0, 1, 0, 0, 3, 0}), f32({}, {5})};
    const amp_tensor *y = run(13, "Pad", pads)[0];
    ASSERT_EQ(shape_of(y), (Shape{3, 2, 4, 1, 5, 4}));
    const Numbers got = numbers_of(y), from = numbers_of(x);
    double sum = 0, want = 5 * (3 * 2 * 4 * 1 * 5 * 4 - 24);
    for (const double v : got) sum += v;
    for (const double v : from) want += v;
    EXPECT_NEAR(sum, want, 1e-3);
    EXPECT_EQ(got[(((1 * 2 + 0) * 4 + 2) * 5 + 0) * 4 + 1], from[0]);
}

// Further than the dimension is long: there and back again.
TEST_F(OnnxOps, PadsFarOverTheEdge) {
    amp_tensor *x = f32({3}, {1, 2, 3}), *one = f32({1}, {7});
    EXPECT_EQ(numbers(13, "Pad", {x, i64({5, 0})}, {text_attribute("mode", "reflect")}),
              (Numbers{2, 1, 2, 3, 2, 1, 2, 3}));
    EXPECT_EQ(numbers(19, "Pad", {x, i64({4, 2})}, {text_attribute("mode", "wrap")}),
              (Numbers{3, 1, 2, 3, 1, 2, 3, 1, 2}));
    EXPECT_EQ(numbers(13, "Pad", {one, i64({2, 0})}, {text_attribute("mode", "reflect")}), (Numbers{7, 7, 7}));
    EXPECT_TRUE(fails(13, "Pad", {f32({0}, {}), i64({1, 0})}, {text_attribute("mode", "edge")}, AMP_ERROR_INVALID,
                      {"[0]", "1 before"}));
}

TEST_F(OnnxOps, NumberOfTopKWasAnAttribute) {
    amp_tensor *x = f32({4}, {1, 3, 2, 3});
    const Tensors y = run(9, "TopK", {x}, {int_attribute("k", 3)}, 2);
    EXPECT_EQ(numbers_of(y[0]), (Numbers{3, 3, 2}));
    EXPECT_EQ(numbers_of(y[1]), (Numbers{1, 3, 2}));
    EXPECT_TRUE(fails(11, "TopK", {x, i64({5})}, {}, AMP_ERROR_INVALID, {"'it'", "5"}));
}

// ---- Slice ----

TEST_F(OnnxOps, SlicesOfOldAndToTheEnds) {
    amp_tensor *x = f32({5}, {0, 1, 2, 3, 4});
    EXPECT_EQ(numbers(9, "Slice", {x}, {ints_attribute("starts", {-3}), ints_attribute("ends", {INT64_MAX})}),
              (Numbers{2, 3, 4}));
    const auto slice = [&](int64_t start, int64_t end, int64_t step) {
        const auto one = [](int64_t number) {
            const int64_t extent = 1;
            return amp_from_data(&number, AMP_I64, 1, &extent);
        };
        return numbers(13, "Slice", {x, one(start), one(end), i64({0}), one(step)});
    };
    EXPECT_EQ(slice(-1, INT64_MIN, -1), (Numbers{4, 3, 2, 1, 0}));
    EXPECT_EQ(slice(INT64_MAX, INT64_MIN, -2), (Numbers{4, 2, 0}));
    EXPECT_EQ(slice(3, -6, -3), (Numbers{3, 0}));
    EXPECT_EQ(slice(3, 0, -3), (Numbers{3}));
    EXPECT_EQ(slice(1, 3, -1), (Numbers{}));
    EXPECT_EQ(slice(4, INT64_MIN, INT64_MIN), (Numbers{4}));
    EXPECT_EQ(slice(INT64_MIN, INT64_MAX, INT64_MAX), (Numbers{0}));
    EXPECT_EQ(slice(4, 2, 1), (Numbers{}));
    EXPECT_TRUE(fails(13, "Slice", {x, i64({0}), i64({1}), i64({0}), i64({0})}, {}, AMP_ERROR_INVALID, {"step"}));
    EXPECT_TRUE(fails(13, "Slice", {x, i64({0}), i64({1, 2})}, {}, AMP_ERROR_INVALID, {"1 numbers", "2 in 'ends'"}));
    EXPECT_TRUE(fails(13, "Slice", {x, i64({0}), i64({1}), i64({1})}, {}, AMP_ERROR_INVALID, {"axis 1", "rank 1"}));
}

// ---- Shapes ----

TEST_F(OnnxOps, ReshapeOfNothing) {
    amp_tensor *none = f32({0, 3, 4}, {}), *x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(shape(13, "Reshape", {none, i64({0, -1})}), (Shape{0, 12}));
    EXPECT_EQ(shape(13, "Reshape", {none, i64({-1, 12})}), (Shape{0, 12}));
    EXPECT_EQ(shape(14, "Reshape", {none, i64({4, 0})}, {int_attribute("allowzero", 1)}), (Shape{4, 0}));
    EXPECT_EQ(shape(13, "Reshape", {x, i64({0, 1, -1})}), (Shape{2, 1, 3}));
    EXPECT_TRUE(fails(13, "Reshape", {x, i64({-1, -1})}, {}, AMP_ERROR_INVALID, {"'it'", "two extents"}));
    EXPECT_TRUE(fails(13, "Reshape", {x, i64({-1, 4})}, {}, AMP_ERROR_INVALID, {"[2, 3]", "4"}));
    EXPECT_TRUE(fails(13, "Reshape", {x, i64({1, 1, 0})}, {}, AMP_ERROR_INVALID, {"extent 2"}));
    EXPECT_TRUE(fails(13, "Reshape", {x, i64({1, 1, 1, 1, 1, 1, 1, 1, 6})}, {}, AMP_ERROR_INVALID, {"9", "8"}));
    EXPECT_TRUE(fails(13, "Reshape", {x, f32({1}, {6})}, {}, AMP_ERROR_DTYPE, {"integers"}));
}

TEST_F(OnnxOps, FlattenAtTheEnds) {
    amp_tensor *x = f32({2, 3, 0}, {});
    EXPECT_EQ(shape(11, "Flatten", {x}, {int_attribute("axis", 3)}), (Shape{0, 1}));
    EXPECT_EQ(shape(11, "Flatten", {x}, {int_attribute("axis", -3)}), (Shape{1, 0}));
    EXPECT_EQ(shape(11, "Flatten", {f32({}, {1})}, {int_attribute("axis", 0)}), (Shape{1, 1}));
    EXPECT_TRUE(fails(11, "Flatten", {x}, {int_attribute("axis", 4)}, AMP_ERROR_INVALID, {"axis 4"}));
}

TEST_F(OnnxOps, ExpandBroadcastsBothWays) {
    EXPECT_EQ(shape(13, "Expand", {f32({3, 1}, {1, 2, 3}), i64({2, 1, 4})}), (Shape{2, 3, 4}));
    EXPECT_EQ(shape(13, "Expand", {f32({3, 1}, {1, 2, 3}), i64({1})}), (Shape{3, 1}));
    EXPECT_EQ(shape(13, "Expand", {f32({1}, {1}), i64({0})}), (Shape{0}));
}

// ---- Constants ----

TEST_F(OnnxOps, ConstantsOfAllKinds) {
    EXPECT_EQ(numbers(13, "Constant", {}, {float_attribute("value_float", 0.1f)}), (Numbers{0.1f}));
    EXPECT_EQ(numbers(13, "Constant", {}, {int_attribute("value_int", -7)}), (Numbers{-7}));
    EXPECT_EQ(numbers(13, "Constant", {}, {ints_attribute("value_ints", {3, 1})}), (Numbers{3, 1}));
    EXPECT_EQ(numbers(13, "Constant", {}, {attribute("value_floats", onnx_writer::f32(7, 2.5f), 6)}), (Numbers{2.5}));
    EXPECT_TRUE(fails(13, "Constant", {}, {}, AMP_ERROR_INVALID, {"no value"}));
    EXPECT_TRUE(refused(13, "Constant", {}, {text_attribute("value_string", "a")}, {"'value_string'"}));
}

TEST_F(OnnxOps, RangesThatLeadAwayAreEmpty) {
    amp_tensor *zero = f32({}, {0}), *two = f32({}, {2}), *minus = f32({}, {-0.5});
    EXPECT_EQ(numbers(11, "Range", {zero, two, minus}), Numbers());
    EXPECT_EQ(numbers(11, "Range", {two, zero, minus}), (Numbers{2, 1.5, 1, 0.5}));
    EXPECT_EQ(numbers(11, "Range", {two, two, minus}), Numbers());
    EXPECT_TRUE(fails(11, "Range", {zero, two, zero}, {}, AMP_ERROR_INVALID, {"step is 0"}));
    EXPECT_TRUE(fails(11, "Range", {zero, f32({2}, {1, 2}), two}, {}, AMP_ERROR_INVALID, {"[2]", "one number"}));
}

TEST_F(OnnxOps, DropoutOfATraining) {
    amp_tensor *x = f32({1000}, {1}), *ratio = f32({}, {0.75}), *yes = amp_test::tensor(AMP_BOOL, {}, {1});
    const Attributes seed = {int_attribute("seed", 3)};
    const Tensors y = run(13, "Dropout", {x, ratio, yes}, seed, 2);
    const Numbers kept = numbers_of(y[0]), mask = numbers_of(y[1]);
    EXPECT_EQ(amp_tensor_dtype(y[1]), AMP_BOOL);
    EXPECT_GT(std::count(mask.begin(), mask.end(), 1.0), 150);
    EXPECT_LT(std::count(mask.begin(), mask.end(), 1.0), 350);
    for (size_t i = 0; i < kept.size(); i++) ASSERT_EQ(kept[i], 4 * mask[i]);
    EXPECT_EQ(numbers(13, "Dropout", {x, ratio, yes}, seed), kept) << "the same seed";
    EXPECT_EQ(numbers(7, "Dropout", {x}, {float_attribute("ratio", 0.5)}), numbers_of(x));
}

// ---- Numbers ----

TEST_F(OnnxOps, IntegersStayIntegers) {
    amp_tensor *a = i64({-7, 7, 9}), *b = i64({2, -2, 3});
    EXPECT_EQ(numbers(14, "Div", {a, b}), (Numbers{-3, -3, 3}));
    EXPECT_EQ(numbers(13, "Mod", {a, b}), (Numbers{1, -1, 0}));
    EXPECT_EQ(numbers(13, "Mod", {a, b}, {int_attribute("fmod", 1)}), (Numbers{-1, 1, 0}));
    EXPECT_TRUE(fails(13, "Mod", {f32({1}, {3}), f32({1}, {2})}, {}, AMP_ERROR_INVALID, {"f32", "integers"}));
    amp_tensor *x = amp_test::tensor(AMP_I32, {4}, {3, 4, -5, 6});
    for (const char *type : {"ReduceSum", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"})
        EXPECT_EQ(amp_tensor_dtype(run(13, type, {x})[0]), AMP_I32) << type;
    EXPECT_EQ(numbers(13, "ReduceMean", {x}), (Numbers{2}));
    EXPECT_EQ(numbers(13, "ReduceL1", {x}), (Numbers{18}));
    EXPECT_EQ(numbers(13, "ReduceL2", {x}), (Numbers{9}));
    EXPECT_EQ(amp_tensor_dtype(run(14, "CumSum", {x, i64({}, {0})})[0]), AMP_I32);
}

TEST_F(OnnxOps, PowersHaveTheTypeOfTheBase) {
    const Tensors roots = run(15, "Pow", {i64({9, 10}), f32({1}, {0.5})});
    EXPECT_EQ(amp_tensor_dtype(roots[0]), AMP_I64);
    EXPECT_EQ(numbers_of(roots[0]), (Numbers{3, 3}));
    const Tensors wide = run(15, "Pow", {f32({1}, {3}), amp_test::tensor(AMP_F64, {1}, {2})});
    EXPECT_EQ(amp_tensor_dtype(wide[0]), AMP_F32);
}

// Without axes and without the wish for all of them an op still does to each element what it does.
TEST_F(OnnxOps, ReductionsOfNoAxes) {
    amp_tensor *x = f32({3}, {-2, 1, 4});
    const Attributes noop = {int_attribute("noop_with_empty_axes", 1)};
    EXPECT_EQ(numbers(18, "ReduceMax", {x}, noop), (Numbers{-2, 1, 4}));
    EXPECT_EQ(numbers(18, "ReduceSumSquare", {x, i64(Numbers())}, noop), (Numbers{4, 1, 16}));
    EXPECT_EQ(numbers(18, "ReduceL2", {x}, noop), (Numbers{2, 1, 4}));
    EXPECT_EQ(numbers(18, "ReduceL1", {f32({}, {-3})}), (Numbers{3}));
    EXPECT_EQ(numbers(18, "ReduceMin", {f32({2, 0}, {}), i64({1})}), (Numbers{INFINITY, INFINITY}));
    EXPECT_EQ(numbers(18, "ReduceMax", {amp_test::tensor(AMP_I8, {0}, {})}), (Numbers{-128}));
}

TEST_F(OnnxOps, SlopesByChannelAndOtherwise) {
    amp_tensor *x = f32({1, 2, 2}, {-1, -2, -3, 4});
    EXPECT_EQ(numbers(16, "PRelu", {x, f32({2, 1}, {0.5, 0.25})}), (Numbers{-0.5, -1, -0.75, 4}));
    EXPECT_EQ(numbers(16, "PRelu", {x, f32({2}, {0.5, 0.25})}), (Numbers{-0.5, -0.5, -1.5, 4}));
    EXPECT_EQ(numbers(16, "PRelu", {x, f32({}, {0.5})}), (Numbers{-0.5, -1, -1.5, 4}));
    amp_tensor *long_ones = f32({1, 2, 3}, {-1, -2, -3, -4, -5, 6});
    EXPECT_EQ(numbers(7, "PRelu", {long_ones, f32({2}, {0.5, 0.25})}), (Numbers{-0.5, -1, -1.5, -1, -1.25, 6}));
}

TEST_F(OnnxOps, SlopesOfHardSigmoid) {
    amp_tensor *x = f32({4}, {-4, -1, 1, 4});
    expect_near(run(6 + 1, "HardSigmoid", {x})[0], {0, 0.3, 0.7, 1}, 1e-6);
    expect_near(run(14, "HardSigmoid", {x}, {float_attribute("alpha", 1.0f / 6)})[0], {0, 1 / 3.0, 2 / 3.0, 1}, 1e-6);
}

// ---- Indices ----

TEST_F(OnnxOps, IndicesFromTheEndAndOutside) {
    amp_tensor *x = f32({3, 2}, {1, 2, 3, 4, 5, 6});
    amp_tensor *narrow = amp_test::tensor(AMP_I32, {}, {-1});
    EXPECT_EQ(numbers(13, "Gather", {x, narrow}), (Numbers{5, 6}));
    EXPECT_EQ(numbers(13, "Gather", {x, i64({1, 2}, {-2, 0})}, {int_attribute("axis", 1)}),
              (Numbers{1, 1, 3, 3, 5, 5}));
    EXPECT_TRUE(fails(13, "Gather", {x, i64({0, 3})}, {}, AMP_ERROR_INVALID, {"'it' (Gather", "3"}));
    EXPECT_TRUE(fails(13, "Gather", {x, i64({-4})}, {}, AMP_ERROR_INVALID, {"'it' (Gather", "-1"}));
    EXPECT_TRUE(fails(13, "Gather", {x, i64({0})}, {int_attribute("axis", 2)}, AMP_ERROR_INVALID, {"axis 2"}));
    EXPECT_EQ(shape(13, "Gather", {f32({0, 2}, {}), i64(Numbers())}), (Shape{0, 2}));
    EXPECT_TRUE(fails(13, "GatherElements", {x, i64({1, 2}, {0, 3})}, {}, AMP_ERROR_INVALID, {"3"}));
}

TEST_F(OnnxOps, RowsByManyIndices) {
    amp_tensor *x = f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    EXPECT_EQ(numbers(13, "GatherND", {x, i64({2, 2}, {0, -1, 1, 0})}), (Numbers{2, 3, 4, 5}));
    EXPECT_EQ(numbers(13, "GatherND", {x, i64({2, 1}, {1, -2})}, {int_attribute("batch_dims", 1)}),
              (Numbers{2, 3, 4, 5}));
    // (0, 2) is no place, though a row has its number
    EXPECT_TRUE(fails(13, "GatherND", {x, i64({1, 2}, {0, 2})}, {}, AMP_ERROR_INVALID, {"'it' (GatherND"}));
    EXPECT_TRUE(fails(13, "GatherND", {x, i64({1, 2}, {1, -3})}, {}, AMP_ERROR_INVALID, {"'it' (GatherND"}));
    EXPECT_TRUE(fails(13, "GatherND", {x, i64({1, 4}, {0, 0, 0, 0})}, {}, AMP_ERROR_INVALID, {"[1, 4]", "[2, 2, 2]"}));
}

TEST_F(OnnxOps, WhatMeetsIsAddedUp) {
    amp_tensor *x = f32({2, 2}, {1, 2, 3, 4}), *twice = i64({2, 1}, {1, -1}), *updates = f32({2, 2}, {10, 20, 30, 40});
    EXPECT_EQ(numbers(16, "ScatterND", {x, twice, updates}, {text_attribute("reduction", "add")}),
              (Numbers{1, 2, 43, 64}));
    EXPECT_EQ(numbers(16, "ScatterND", {x, twice, updates}, {text_attribute("reduction", "mul")}),
              (Numbers{1, 2, 900, 3200}));
    EXPECT_EQ(numbers(16, "ScatterElements", {x, i64({1, 2}, {1, -1}), f32({1, 2}, {5, 6})},
                      {text_attribute("reduction", "add")}),
              (Numbers{1, 2, 8, 10}));
    EXPECT_TRUE(fails(16, "ScatterND", {x, twice, updates}, {text_attribute("reduction", "sum")}, AMP_ERROR_INVALID,
                      {"no reduction 'sum'"}));
    EXPECT_TRUE(fails(16, "ScatterND", {x, i64({2, 1}, {0, 2}), updates}, {}, AMP_ERROR_INVALID, {"'it' (ScatterND"}));
}

TEST_F(OnnxOps, ClassesOutsideAreNone) {
    amp_tensor *values = f32({2}, {-1, 1});
    EXPECT_EQ(numbers(11, "OneHot", {i64({0, -1, 3, -4}), i64({3}), values}),
              (Numbers{1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1, -1}));
    EXPECT_EQ(numbers(11, "OneHot", {f32({1}, {1}), f32({}, {2}), values}), (Numbers{-1, 1}));
    EXPECT_TRUE(fails(11, "OneHot", {i64({0}), f32({}, {NAN}), values}, {}, AMP_ERROR_INVALID, {"depth"}));
}

TEST_F(OnnxOps, UniqueNumbers) {
    const Tensors y = run(11, "Unique", {f32({6}, {NAN, 2, -1, NAN, 2, INFINITY})}, {}, 4);
    EXPECT_EQ(numbers_of(y[1]), (Numbers{2, 1, 5, 0}));
    EXPECT_EQ(numbers_of(y[2]), (Numbers{3, 1, 0, 3, 1, 2}));
    EXPECT_EQ(numbers_of(y[3]), (Numbers{1, 2, 1, 2}));
    const int64_t close[] = {(INT64_C(1) << 53) + 1, INT64_C(1) << 53, INT64_C(1) << 53}, extents[] = {3, 1};
    amp_tensor *whole = amp_from_data(close, AMP_I64, 2, extents);
    EXPECT_EQ(shape_of(run(11, "Unique", {whole}, {int_attribute("axis", 0)}, 4)[0]), (Shape{2, 1}));
    // the elements of a slice count in the order of its own dimensions: (0 0 1 0) is less than (0 1 0 0)
    amp_tensor *deep = f32({2, 2, 2}, {0, 0, 0, 1, 1, 0, 0, 0});
    EXPECT_EQ(numbers_of(run(11, "Unique", {deep}, {int_attribute("axis", 2)}, 2)[1]), (Numbers{0, 1}));
    EXPECT_EQ(shape_of(run(11, "Unique", {f32({0}, {})}, {}, 1)[0]), (Shape{0}));
    EXPECT_EQ(shape_of(run(11, "Unique", {f32({3, 0}, {})}, {int_attribute("axis", 0)}, 1)[0]), (Shape{1, 0}));
}

TEST_F(OnnxOps, SequencesTurnedRound) {
    amp_tensor *x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
    const Attributes batch_first = {int_attribute("batch_axis", 0), int_attribute("time_axis", 1)};
    EXPECT_EQ(numbers(10, "ReverseSequence", {x, i64({0, 3})}, batch_first), (Numbers{1, 2, 3, 6, 5, 4}));
    EXPECT_TRUE(fails(10, "ReverseSequence", {x, i64({1, 4})}, batch_first, AMP_ERROR_INVALID, {"'it'"}));
    EXPECT_TRUE(fails(10, "ReverseSequence", {x, i64({1})}, batch_first, AMP_ERROR_INVALID, {"sequence_lens", "[1]"}));
}

TEST_F(OnnxOps, WhatConditionsPick) {
    amp_tensor *x = f32({2, 2}, {1, 2, 3, 4}), *second = amp_test::tensor(AMP_BOOL, {2}, {0, 1});
    EXPECT_EQ(numbers(11, "Compress", {x, second}, {int_attribute("axis", -1)}), (Numbers{2, 4}));
    EXPECT_EQ(numbers(11, "Compress", {x, second}), (Numbers{2}));
    EXPECT_EQ(shape(11, "Compress", {x, amp_test::tensor(AMP_BOOL, {1}, {0})}), (Shape{0}));
    EXPECT_TRUE(fails(11, "Compress", {x, amp_test::tensor(AMP_BOOL, {3}, {0, 0, 1})}, {int_attribute("axis", 0)},
                      AMP_ERROR_INVALID, {"2"}));
}

// ---- Memory ----

// Each of the nodes that keep numbers of their own beside tensors.
TEST_F(OnnxOps, MemoryMayEndAnywhere) {
    amp_tensor *x = f32({3, 2}, {1, 2, 3, 4, 1, 2}), *pads = i64({1, 0, 0, 2}), *indices = i64({2, 2}, {0, -1, 1, 0});
    amp_tensor *condition = amp_test::tensor(AMP_BOOL, {3}, {0, 1, 1});
    const struct {
        const char *type;
        Tensors inputs;
        Attributes attributes;
    } nodes[] = {{"Unique", {x}, {int_attribute("axis", 0)}},
                 {"Pad", {x, pads}, {text_attribute("mode", "edge")}},
                 {"GatherND", {x, indices}, {}},
                 {"Compress", {x, condition}, {int_attribute("axis", 0)}},
                 {"Constant", {}, {attribute("value_floats", onnx_writer::f32(7, 2.5f), 6)}}};
    for (const auto &n : nodes) {
        EndingMemory memory;
        memory.until_it_works([&] {
            Tensors y(1);
            load(16, n.type, n.inputs, n.attributes, 1);
            (void)compute(n.inputs, &y);
        });
        amp_graph_release(graph_);
        graph_ = nullptr;
    }
}

// A few numbers that ask for more than anyone has.
TEST_F(OnnxOps, WhatFewNumbersAskForIsBounded) {
    amp_tensor *x = f32({1}, {1}), *far = i64({INT32_MAX});
    const std::vector<std::string> words = {"'it'", "elements are asked for"};
    EXPECT_TRUE(fails(13, "ConstantOfShape", {i64({65536, 65536})}, {}, AMP_ERROR_INVALID, words));
    EXPECT_TRUE(fails(13, "Tile", {x, far}, {}, AMP_ERROR_INVALID, words));
    EXPECT_TRUE(fails(13, "Pad", {x, i64({1 << 29, 0})}, {}, AMP_ERROR_INVALID, words));
    EXPECT_TRUE(fails(13, "Range", {i64({}, {0}), i64({}, {0x1p62}), i64({}, {1})}, {}, AMP_ERROR_INVALID, words));
    EXPECT_TRUE(fails(13, "Range", {f32({}, {0}), f32({}, {NAN}), f32({}, {1})}, {}, AMP_ERROR_INVALID, {"NaN"}));
    EXPECT_TRUE(fails(13, "Range", {f32({}, {0}), f32({}, {INFINITY}), f32({}, {1})}, {}, AMP_ERROR_INVALID, words));
    EXPECT_TRUE(fails(13, "OneHot", {i64({0}), far, f32({2}, {0, 1})}, {}, AMP_ERROR_INVALID, words));
    EXPECT_TRUE(fails(13, "ConstantOfShape", {i64({-1})}, {}, AMP_ERROR_INVALID, {"'it'", "-1"}));
    EXPECT_TRUE(fails(13, "Pad", {x, i64({-1, -1})}, {}, AMP_ERROR_INVALID, {"'it'", "-1"}));
    EXPECT_TRUE(fails(13, "Tile", {x, i64({-1})}, {}, AMP_ERROR_INVALID, {"'it'", "-1"}));
}

// ---- Refusals ----

TEST_F(OnnxOps, TypesThatAreMissingAreNamed) {
    EXPECT_TRUE(fails(13, "Cast", {f32({1}, {1})}, {int_attribute("to", STRING)}, AMP_ERROR_NOT_IMPLEMENTED,
                      {"'it' (Cast", "STRING"}));
    EXPECT_TRUE(refused(13, "Gather", {f32({1}, {1})}, {}, {"'it' (Gather", "1 inputs"}));
    EXPECT_TRUE(refused(13, "Relu", {f32({1}, {1})}, {float_attribute("slope", 1)}, {"attribute 'slope'"}));
    EXPECT_TRUE(fails(13, "Transpose", {f32({1}, {1})}, {int_attribute("perm", 0)}, AMP_ERROR_INVALID, {"'perm'"}));
}

} // namespace
