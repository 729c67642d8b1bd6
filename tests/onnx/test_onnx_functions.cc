// Functions of a model: each call has a body of its own, with the call's attributes in it.
#include "reading.h"

#include <climits>

using namespace onnx_writer;
using onnx_reading::has;

namespace {

class OnnxFunctions : public onnx_reading::Test {
  protected:
    // x → the nodes → y
    static Bytes calling(const std::vector<Bytes> &nodes, const std::vector<Bytes> &functions) {
        Graph g = relu_graph();
        g.nodes = nodes;
        return model(g, functions);
    }
    static Bytes call(const std::string &type, const std::vector<Bytes> &attributes = {}) {
        return node(type, {"x"}, {"y"}, attributes, "call", "own");
    }
    // A function a → r of one node.
    static Function one(const std::string &name, const Bytes &body) {
        Function f;
        f.name = name;
        f.inputs = {"a"};
        f.outputs = {"r"};
        f.nodes = {body};
        return f;
    }
};

TEST_F(OnnxFunctions, ACallHasTheBody) {
    const auto m = of(calling({call("Twice")}, {one("Twice", node("Add", {"a", "a"}, {"r"}))}));
    ASSERT_NE(m, nullptr);
    const amp_onnx_node &n = m->graph->nodes[0];
    EXPECT_STREQ(n.type, "Twice");
    EXPECT_STREQ(n.domain, "own");
    EXPECT_EQ(n.opset, 1);
    EXPECT_EQ(n.attribute_count, 0);
    ASSERT_NE(n.function, nullptr);
    EXPECT_STREQ(n.function->name, "Twice");
    EXPECT_EQ(n.function->outer, nullptr);
    EXPECT_EQ(n.function->capture_count, 0);
    ASSERT_EQ(n.function->input_count, 1);
    EXPECT_EQ(n.function->nodes[0].inputs[1], n.function->inputs[0]);
    EXPECT_EQ(n.function->nodes[0].opset, 17);
    EXPECT_EQ(n.function->values[n.function->outputs[0]].last_use, INT_MAX);
}

TEST_F(OnnxFunctions, TheBodyHasOpsetsOfItsOwn) {
    Function f = one("F", node("Relu", {"a"}, {"r"}));
    f.opset = 14;
    const auto m = of(calling({call("F")}, {f}));
    EXPECT_EQ(m->graph->nodes[0].function->nodes[0].opset, 14);
}

TEST_F(OnnxFunctions, AttributesOfTheCallStandInTheBody) {
    Function f = one("F", node("LeakyRelu", {"a"}, {"r"},
                               {reference("alpha", "slope", 1), reference("beta", "other", 1), int_attribute("k", 3)}));
    f.attributes = {"other"};
    f.defaults = {float_attribute("slope", 0.25f)};
    const auto m = of(calling({node("F", {"x"}, {"b"}, {float_attribute("slope", 2)}, "", "own"),
                               node("F", {"b"}, {"c"}, {float_attribute("other", 4)}, "", "own"),
                               node("F", {"c"}, {"y"}, {}, "", "own")},
                              {f}));
    ASSERT_NE(m, nullptr);
    const auto attributes = [&](int i) { return m->graph->nodes[i].function->nodes[0]; };
    ASSERT_EQ(attributes(0).attribute_count, 2) << "one that the call does not give is not there";
    EXPECT_STREQ(attributes(0).attributes[0].name, "alpha");
    EXPECT_EQ(attributes(0).attributes[0].as.number, 2);
    EXPECT_EQ(attributes(0).attributes[1].as.integer, 3);
    ASSERT_EQ(attributes(1).attribute_count, 3);
    EXPECT_EQ(attributes(1).attributes[0].as.number, 0.25);
    EXPECT_STREQ(attributes(1).attributes[1].name, "beta");
    EXPECT_EQ(attributes(1).attributes[1].as.number, 4);
    ASSERT_EQ(attributes(2).attribute_count, 2);
    EXPECT_EQ(attributes(2).attributes[0].as.number, 0.25);
}

TEST_F(OnnxFunctions, AttributesGoThroughCallsAndIntoSubGraphs) {
    Graph branch;
    branch.nodes = {node("Elu", {"a"}, {"q"}, {reference("alpha", "inner", 1)})};
    branch.outputs = {value("q")};
    Function inner = one("Inner", node("If", {"a"}, {"r"}, {graph_attribute("then_branch", branch)}));
    inner.attributes = {"inner"};
    Function outer = one("Outer", node("Inner", {"a"}, {"r"}, {reference("inner", "outer", 1)}, "", "own"));
    outer.attributes = {"outer"};
    const auto m = of(calling({call("Outer", {float_attribute("outer", 8)})}, {inner, outer}));
    ASSERT_NE(m, nullptr);
    const amp_onnx_graph *body = m->graph->nodes[0].function->nodes[0].function;
    const amp_onnx_graph *sub = body->nodes[0].attributes[0].as.graph;
    EXPECT_EQ(sub->outer, body);
    ASSERT_EQ(sub->capture_count, 1);
    EXPECT_EQ(sub->nodes[0].attributes[0].as.number, 8);
}

TEST_F(OnnxFunctions, InputsThatTheCallLeavesOutAreAbsentInTheBody) {
    Function f = one("F", node("Clip", {"a", "low", "high"}, {"r"}));
    f.inputs = {"a", "low", "high"};
    f.outputs = {"r", "s"};
    f.nodes.push_back(node("Relu", {"a"}, {"s"}));
    const auto m = of(calling({node("F", {"x", ""}, {"y"}, {}, "", "own")}, {f}));
    ASSERT_NE(m, nullptr);
    const amp_onnx_node &n = m->graph->nodes[0];
    ASSERT_EQ(n.input_count, 3) << "as many as the function has";
    EXPECT_EQ(n.inputs[1], -1);
    EXPECT_EQ(n.inputs[2], -1);
    ASSERT_EQ(n.output_count, 2);
    EXPECT_EQ(n.outputs[1], -1);
    EXPECT_EQ(n.function->input_count, 3);
    EXPECT_EQ(n.function->nodes[0].inputs[1], -1);
    EXPECT_EQ(n.function->nodes[0].inputs[2], -1);
}

TEST_F(OnnxFunctions, ATensorInABodyIsMadeOnceForAllCalls) {
    const Function f =
        one("F", node("Constant", {}, {"r"}, {tensor_attribute("value", tensor("", FLOAT, {2}, raw<float>({1, 2})))}));
    const auto m = of(calling({node("F", {"x"}, {"b"}, {}, "", "own"), node("F", {"b"}, {"y"}, {}, "", "own")}, {f}));
    ASSERT_NE(m, nullptr);
    const amp_onnx_graph *first = m->graph->nodes[0].function, *second = m->graph->nodes[1].function;
    EXPECT_NE(first, second);
    EXPECT_EQ(first->nodes[0].attributes[0].as.tensor, second->nodes[0].attributes[0].as.tensor);
}

TEST_F(OnnxFunctions, OverloadsAndDomainsAreDifferentFunctions) {
    Function plain = one("F", node("Relu", {"a"}, {"r"})), foreign = one("F", node("Neg", {"a"}, {"r"}));
    foreign.domain = "other";
    const Bytes overload = Bytes(one("F", node("Abs", {"a"}, {"r"}))) + bytes(13, "v2");
    const Bytes overloaded = node("F", {"b"}, {"c"}, {}, "", "own") + bytes(8, "v2");
    const auto m =
        of(calling({node("F", {"x"}, {"b"}, {}, "", "own"), overloaded, node("F", {"c"}, {"y"}, {}, "", "other")},
                   {plain, overload, foreign}));
    ASSERT_NE(m, nullptr);
    EXPECT_STREQ(m->graph->nodes[0].function->nodes[0].type, "Relu");
    EXPECT_STREQ(m->graph->nodes[1].function->nodes[0].type, "Abs");
    EXPECT_STREQ(m->graph->nodes[2].function->nodes[0].type, "Neg");
}

TEST_F(OnnxFunctions, ABodyDoesNotSeeTheCallersValues) {
    EXPECT_TRUE(has(failure(calling({call("F")}, {one("F", node("Add", {"a", "x"}, {"r"}, {}, "n"))})),
                    {"node 'n' (Add) of function 'F'", "'x'", "nobody"}));
}

TEST_F(OnnxFunctions, CallsThatDoNotFit) {
    const Function f = one("F", node("Relu", {"a"}, {"r"}));
    EXPECT_TRUE(
        has(failure(calling({node("F", {"x", "x"}, {"y"}, {}, "", "own")}, {f})), {"2 inputs", "the function 1"}));
    EXPECT_TRUE(
        has(failure(calling({node("F", {"x"}, {"y", "z"}, {}, "", "own")}, {f})), {"2 outputs", "the function 1"}));
    EXPECT_TRUE(has(failure(calling({call("F", {int_attribute("k", 1)})}, {f})),
                    {"attribute 'k'", "node 'call'", "none that the function has"}));
    Function g = one("F", node("Relu", {"a"}, {"r"}, {reference("alpha", "missing", 1)}, "n"));
    EXPECT_TRUE(has(failure(calling({call("F")}, {g})), {"attribute 'alpha'", "node 'n'", "does not have"}));
    g.nodes = {node("Relu", {"a"}, {"r"}, {reference("alpha", "k", 1)})};
    g.attributes = {"k"};
    EXPECT_TRUE(
        has(failure(calling({call("F", {int_attribute("k", 1)})}, {g})), {"attribute 'alpha'", "another kind"}));
    EXPECT_TRUE(has(failure(calling({call("F", {graph_attribute("k", relu_graph())})}, {g}), AMP_ERROR_NOT_IMPLEMENTED),
                    {"attribute 'k'", "graph"}));
    g.attributes = {"k", "k"};
    EXPECT_TRUE(has(failure(calling({call("F")}, {g})), {"'k' twice"}));
    EXPECT_TRUE(has(failure(calling({node("Relu", {"x"}, {"y"}, {reference("alpha", "k", 1)})}, {})),
                    {"'alpha'", "in no function"}));
    EXPECT_TRUE(has(failure(calling({call("F")}, {f, f})), {"function 'own:F:'", "twice"}));
    Function h = f;
    h.outputs = {"nothing"};
    EXPECT_TRUE(has(failure(calling({call("F")}, {h})), {"output 'nothing'", "function 'F'", "nobody"}));
    h.inputs = {"a", "b"};
    h.outputs = {"b"};
    EXPECT_TRUE(has(failure(calling({call("F")}, {h})), {"output 'b'", "leaves out"}));
    h.inputs = {"a", "b", "b"};
    EXPECT_TRUE(has(failure(calling({call("F")}, {h})), {"'b'", "twice"}));
}

TEST_F(OnnxFunctions, RecursionIsRefused) {
    EXPECT_TRUE(has(failure(calling({call("F")}, {one("F", node("F", {"a"}, {"r"}, {}, "again", "own"))})),
                    {"node 'again' (F) of function 'F'", "never end"}));
    EXPECT_TRUE(has(failure(calling({call("F")}, {one("F", node("G", {"a"}, {"r"}, {}, "", "own")),
                                                  one("G", node("F", {"a"}, {"r"}, {}, "back", "own"))})),
                    {"node 'back'", "never end"}));
}

// F1 calls F2, that F3, …; the last one is one node.
std::vector<Bytes> tower(int height, int calls) {
    std::vector<Bytes> functions;
    for (int i = 1; i <= height; i++) {
        Function f;
        f.name = "F" + std::to_string(i);
        f.inputs = {"v0"};
        f.outputs = {"v" + std::to_string(calls)};
        for (int k = 0; k < calls; k++) {
            f.nodes.push_back(node(i == height ? "Relu" : "F" + std::to_string(i + 1), {"v" + std::to_string(k)},
                                   {"v" + std::to_string(k + 1)}, {}, "", i == height ? "" : "own"));
        }
        functions.push_back(f);
    }
    return functions;
}

TEST_F(OnnxFunctions, SixteenCallsInEachOther) {
    const auto m = of(calling({call("F1")}, tower(16, 1)));
    ASSERT_NE(m, nullptr);
    EXPECT_TRUE(has(failure(calling({call("F1")}, tower(17, 1))), {"more than 16 deep", "function 'F16'"}));
}

TEST_F(OnnxFunctions, AMillionNodesAfterAll) {
    EXPECT_TRUE(has(failure(calling({call("F1")}, tower(16, 10))), {"functions written out", "1000000"}));
}

} // namespace
