// If, Loop and Scan: what is carried, what is collected, when it ends.
#include "one_node.h"

extern "C" {
#include "onnx/run.h"
}

using namespace one_node;
using namespace onnx_writer;
using onnx_reading::has;

namespace {

class OnnxControl : public one_node::Test {
  protected:
    // s → s + x, for as long as the sum of the new s is below `limit`; collects s · s.
    static Graph adding(float limit) {
        Graph body;
        body.inputs = {value("i", INT64), value("go", BOOL), value("s", FLOAT, {2})};
        body.outputs = {value("more", BOOL), value("t", FLOAT, {2}), value("square", FLOAT, {2})};
        body.initialisers = {tensor("limit", FLOAT, {}, raw<float>({limit}))};
        body.nodes = {node("Add", {"s", "x"}, {"t"}), node("Mul", {"s", "s"}, {"square"}),
                      node("ReduceSum", {"t"}, {"sum"}, {int_attribute("keepdims", 0)}),
                      node("Less", {"sum", "limit"}, {"more"})};
        return body;
    }
    Tensors loop(const Graph &body, amp_tensor *rounds, amp_tensor *go, int outputs = 2) const {
        Graph g;
        Tensors given = {amp_test::tensor(AMP_F32, {2}, {1, 2})};
        g.inputs = {value("x", FLOAT, {2})};
        for (amp_tensor *t : {rounds, go}) {
            if (!t) continue;
            g.inputs.push_back(value(t == rounds ? "n" : "c", type_of(t), extents_of(t)));
            given.push_back(t);
        }
        for (int i = 0; i < outputs; i++) g.outputs.push_back(value("y" + std::to_string(i)));
        g.nodes = {node("Loop", {rounds ? "n" : "", go ? "c" : "", "x"}, outputs == 1 ? Names{"y0"} : Names{"y0", "y1"},
                        {graph_attribute("body", body)})};
        return run(g, 16, given, outputs);
    }
    static amp_tensor *rounds(int64_t n) {
        return amp_test::tensor(AMP_I64, {}, {double(n)});
    }
    static amp_tensor *truth(bool yes) {
        return amp_test::tensor(AMP_BOOL, {}, {double(yes)});
    }
};

TEST_F(OnnxControl, LoopEndsByItsNumberOrItsCondition) {
    Tensors y = loop(adding(1000), rounds(3), nullptr);
    ASSERT_EQ(y.size(), 2u) << amp_last_error();
    EXPECT_EQ(numbers_of(y[0]), (std::vector<double>{4, 8}));
    EXPECT_EQ(extents_of(y[1]), (Dims{3, 2}));
    EXPECT_EQ(numbers_of(y[1]), (std::vector<double>{1, 4, 4, 16, 9, 36}));
    y = loop(adding(8), rounds(9), truth(true)); // 6 goes on, 9 does not
    ASSERT_EQ(y.size(), 2u) << amp_last_error();
    EXPECT_EQ(numbers_of(y[0]), (std::vector<double>{3, 6}));
    y = loop(adding(8), nullptr, truth(true));
    ASSERT_EQ(y.size(), 2u) << amp_last_error();
    EXPECT_EQ(numbers_of(y[0]), (std::vector<double>{3, 6}));
}

TEST_F(OnnxControl, WithoutARoundNothingIsCollected) {
    for (const bool by_number : {false, true}) {
        const Tensors y = loop(adding(1000), rounds(by_number ? 0 : 5), truth(by_number));
        ASSERT_EQ(y.size(), 2u) << amp_last_error();
        EXPECT_EQ(numbers_of(y[0]), (std::vector<double>{1, 2}));
        EXPECT_EQ(extents_of(y[1]), (Dims{0, 2}));
        EXPECT_EQ(amp_tensor_dtype(y[1]), AMP_F32);
    }
}

TEST_F(OnnxControl, LoopOfAnEndlessConditionIsStopped) {
    Graph g;
    g.inputs = {value("x", FLOAT, {2}), value("c", BOOL)};
    g.outputs = {value("y")};
    Graph body;
    body.inputs = {value("i", INT64), value("go", BOOL), value("s", FLOAT, {2})};
    body.outputs = {value("go", BOOL), value("t", FLOAT, {2})};
    body.nodes = {node("Neg", {"s"}, {"t"})};
    g.nodes = {node("Loop", {"", "c", "x"}, {"y"}, {graph_attribute("body", body)})};
    write(model(g));
    amp_graph_options options = {};
    options.struct_size = sizeof options;
    options.most_rounds = 7;
    amp_graph *loaded = amp_graph_load(path().c_str(), &options);
    amp_tensor *inputs[] = {amp_test::tensor(AMP_F32, {2}), truth(true)}, *y = nullptr;
    EXPECT_EQ(amp_graph_run(loaded, inputs, 2, &y, 1), AMP_ERROR_INVALID);
    EXPECT_TRUE(amp_test::failed_with(AMP_ERROR_INVALID, {"Loop", "still running after 7 rounds"}));
    amp_graph_release(loaded);
}

TEST_F(OnnxControl, IfTakesOneBranch) {
    for (const bool yes : {true, false}) {
        Graph g, then_graph, else_graph;
        g.inputs = {value("x", FLOAT, {2}), value("c", BOOL)};
        g.outputs = {value("y")};
        then_graph.outputs = else_graph.outputs = {value("z", FLOAT, {2})};
        then_graph.nodes = {node("Neg", {"x"}, {"z"})};
        else_graph.nodes = {node("Identity", {"x"}, {"z"})}; // what stands outside, as it is
        g.nodes = {node("If", {"c"}, {"y"},
                        {graph_attribute("then_branch", then_graph), graph_attribute("else_branch", else_graph)})};
        const Tensors y = run(g, 16, {amp_test::tensor(AMP_F32, {2}, {1, 2}), truth(yes)}, 1);
        ASSERT_EQ(y.size(), 1u) << amp_last_error();
        EXPECT_EQ(numbers_of(y[0]), (yes ? std::vector<double>{-1, -2} : std::vector<double>{1, 2}));
    }
}

// Running sums along the second dimension, from the end, and collected from the end.
TEST_F(OnnxControl, ScanGoesAlongAnyAxisBothWays) {
    Graph g, body;
    body.inputs = {value("s", FLOAT, {2}), value("e", FLOAT, {2})};
    body.outputs = {value("t", FLOAT, {2}), value("u", FLOAT, {2})};
    body.nodes = {node("Add", {"s", "e"}, {"t"}), node("Identity", {"t"}, {"u"})};
    g.inputs = {value("s", FLOAT, {2}), value("x", FLOAT, {2, 3})};
    g.outputs = {value("y"), value("z")};
    amp_tensor *s = amp_test::tensor(AMP_F32, {2}, {0, 100}),
               *x = amp_test::tensor(AMP_F32, {2, 3}, {1, 2, 3, 10, 20, 30});
    const auto scan = [&](int64_t backward, int64_t output_axis, int64_t output_backward) {
        g.nodes = {node("Scan", {"s", "x"}, {"y", "z"},
                        {graph_attribute("body", body), int_attribute("num_scan_inputs", 1),
                         ints_attribute("scan_input_axes", {1}), ints_attribute("scan_input_directions", {backward}),
                         ints_attribute("scan_output_axes", {output_axis}),
                         ints_attribute("scan_output_directions", {output_backward})})};
        const Tensors y = run(g, 16, {s, x}, 2);
        EXPECT_EQ(y.size(), 2u) << amp_last_error();
        EXPECT_EQ(numbers_of(y[0]), (std::vector<double>{6, 160}));
        return numbers_of(y[1]);
    };
    EXPECT_EQ(scan(0, 0, 0), (std::vector<double>{1, 110, 3, 130, 6, 160}));
    EXPECT_EQ(scan(1, 0, 0), (std::vector<double>{3, 130, 5, 150, 6, 160}));
    EXPECT_EQ(scan(0, 1, 0), (std::vector<double>{1, 3, 6, 110, 130, 160}));
    EXPECT_EQ(scan(0, -1, 1), (std::vector<double>{6, 3, 1, 160, 130, 110}));
}

TEST_F(OnnxControl, ABodyThatDoesNotFitSaysWhy) {
    Graph body = adding(1);
    body.inputs.pop_back();
    EXPECT_TRUE(loop(body, rounds(1), nullptr).empty());
    amp_clear_error(); // the reader may refuse it first
    EXPECT_TRUE(loop(adding(1), rounds(1), amp_test::tensor(AMP_BOOL, {2})).empty());
    EXPECT_TRUE(amp_test::failed_with(AMP_ERROR_INVALID, {"the condition is [2] bool; expected one bool"}));
}

// Whether nodes run one by one or as a graph.
TEST_F(OnnxControl, WhatNoOutputHangsOnIsNotRun) {
    Graph g;
    g.inputs = {value("x", FLOAT, {2}), value("i", INT64, {1})};
    g.outputs = {value("y0")};
    g.nodes = {node("Gather", {"x", "i"}, {"far"}), node("Neg", {"far"}, {"unread"}), node("Neg", {"x"}, {"y0"})};
    const Tensors given = {amp_test::tensor(AMP_F32, {2}, {1, 2}), amp_test::tensor(AMP_I64, {1}, {7})};
    const Tensors results = run(g, 16, given, 1);
    ASSERT_EQ(results.size(), 1u) << amp_last_error();
    EXPECT_EQ(numbers_of(results[0]), (std::vector<double>{-1, -2}));
    const auto model = file();
    amp_tensor *result = nullptr;
    ASSERT_EQ(amp_onnx_resolve(model.get(), nullptr, nullptr), AMP_OK) << amp_last_error();
    ASSERT_EQ(amp_onnx_run_model(model.get(), nullptr, given.data(), &result), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(result), (std::vector<double>{-1, -2}));
}

} // namespace
