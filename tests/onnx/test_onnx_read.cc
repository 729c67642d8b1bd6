// Models that are right: names become numbers, nodes stand in an order in which they can run, bodies know what they
// capture.
#include "reading.h"

#include <climits>

using namespace onnx_writer;

namespace {

class OnnxRead : public onnx_reading::Test {};

TEST_F(OnnxRead, AModelSaysWhatItIs) {
    const auto m = of(model(relu_graph(), {}, bytes(6, "documentation") + bytes(99, "of a later version")));
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->ir_version, 8);
    EXPECT_EQ(m->opset, 17);
    EXPECT_STREQ(m->producer, "tests");
    EXPECT_STREQ(m->graph->name, "g");
    EXPECT_EQ(m->graph->outer, nullptr);
}

TEST_F(OnnxRead, AFileAndItsBytesAreTheSameModel) {
    write(model(relu_graph()));
    const auto m = file();
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->path, path());
    EXPECT_EQ(types_of(m->graph), Names{"Relu"});
}

TEST_F(OnnxRead, MetadataIsFoundByItsKey) {
    const std::string alphabet = repeated("abcdefgh\n", 20000); // names have 4096 bytes at most
    write(model(relu_graph(), {},
                bytes(14, entry("character", alphabet)) + bytes(14, entry("author", "")) + bytes(14, bytes(1, "none")) +
                    bytes(14, bytes(2, "no key")) + bytes(14, entry("author", "the second")) +
                    bytes(14, entry("zero", Bytes("be\0hind", 7)))));
    amp_graph *g = amp_graph_load(path().c_str(), nullptr);
    ASSERT_NE(g, nullptr) << amp_last_error();
    EXPECT_EQ(amp_graph_metadata(g, "character"), alphabet);
    EXPECT_STREQ(amp_graph_metadata(g, "author"), "");
    EXPECT_STREQ(amp_graph_metadata(g, "none"), "");
    EXPECT_STREQ(amp_graph_metadata(g, ""), "no key");
    EXPECT_STREQ(amp_graph_metadata(g, "zero"), "be");
    EXPECT_EQ(amp_graph_metadata(g, "char"), nullptr);
    EXPECT_EQ(amp_graph_metadata(g, nullptr), nullptr);
    amp_tensor *x = amp_test::random_tensor(AMP_F32, {2, 3}, 1);
    EXPECT_EQ(amp_graph_save(g, path().c_str(), &x, 1, nullptr), AMP_OK) << amp_last_error();
    amp_graph *saved = amp_graph_load(path().c_str(), nullptr);
    EXPECT_EQ(amp_graph_metadata(saved, "character"), alphabet);
    EXPECT_STREQ(amp_graph_metadata(saved, ""), "no key");
    amp_graph_release(saved);
    amp_graph_release(g);
    EXPECT_EQ(amp_graph_metadata(nullptr, "author"), nullptr);
    const auto identity = [](void *, amp_tensor *const *inputs, amp_tensor **outputs) {
        outputs[0] = inputs[0];
        return AMP_OK;
    };
    amp_graph *traced = amp_graph_trace("f", identity, nullptr, 1, 1, nullptr);
    EXPECT_EQ(amp_graph_metadata(traced, "author"), nullptr);
    amp_graph_release(traced);
}

TEST_F(OnnxRead, InputsAndOutputsHaveTheirDeclaredTypes) {
    Graph g = relu_graph();
    const Bytes batch = bytes(1, bytes(2, "batch")), three = bytes(1, number(1, 3)),
                minus_one = bytes(1, number(1, -1));
    g.inputs = {bytes(1, "x") + bytes(2, bytes(1, number(1, FLOAT16) + bytes(2, batch + three + minus_one)))};
    g.outputs = {bytes(1, "y") + bytes(2, bytes(1, number(1, BFLOAT16)))};
    const auto m = of(model(g));
    const amp_onnx_value &x = m->graph->values[m->graph->inputs[0]], &y = m->graph->values[m->graph->outputs[0]];
    EXPECT_EQ(x.dtype, AMP_F16);
    ASSERT_EQ(x.rank, 3);
    EXPECT_EQ(x.shape[0], AMP_ONNX_ANY);
    EXPECT_STREQ(x.extent_names[0], "batch");
    EXPECT_EQ(x.shape[1], 3);
    EXPECT_EQ(x.extent_names[1], nullptr);
    EXPECT_EQ(x.shape[2], AMP_ONNX_ANY);
    EXPECT_EQ(y.dtype, AMP_BF16);
    EXPECT_EQ(y.rank, AMP_ONNX_ANY);
}

TEST_F(OnnxRead, WhatIsNotDeclaredIsOpen) {
    Graph g = relu_graph();
    g.inputs = {bytes(1, "x")};
    const auto m = of(model(g));
    EXPECT_EQ(m->graph->values[m->graph->inputs[0]].dtype, AMP_DTYPE_NONE);
    EXPECT_EQ(m->graph->values[m->graph->inputs[0]].rank, AMP_ONNX_ANY);
}

TEST_F(OnnxRead, AbsentInputsAndOutputsAreMinusOne) {
    Graph g = relu_graph();
    g.nodes = {node("Clip", {"x", "", "x"}, {"", "y"}, {}, "named", "ai.onnx")};
    const auto m = of(model(g));
    const amp_onnx_node &n = m->graph->nodes[0];
    EXPECT_STREQ(n.name, "named");
    EXPECT_STREQ(n.domain, "");
    EXPECT_EQ(n.opset, 17);
    EXPECT_EQ(n.op, nullptr);
    ASSERT_EQ(n.input_count, 3);
    EXPECT_EQ(n.inputs[0], m->graph->inputs[0]);
    EXPECT_EQ(n.inputs[1], -1);
    EXPECT_EQ(n.inputs[2], n.inputs[0]);
    ASSERT_EQ(n.output_count, 2);
    EXPECT_EQ(n.outputs[0], -1);
    EXPECT_EQ(n.outputs[1], m->graph->outputs[0]);
}

TEST_F(OnnxRead, AttributesOfEveryKind) {
    Graph g = relu_graph();
    const Bytes floats = attribute("fs", f32(7, 1) + f32(7, -2), 6), texts = attribute("ss", strings(9, {"a", ""}), 8);
    g.nodes = {node("Relu", {"x"}, {"y"},
                    {float_attribute("f", 0.5f), int_attribute("i", -7), text_attribute("s", "same"), floats, texts,
                     tensor_attribute("t", tensor("", INT64, {2}, raw<int64_t>({4, 5}))), ints_attribute("is", {1, -1}),
                     graph_attribute("g", relu_graph()), text_attribute("none", "")})};
    const auto m = of(model(g));
    const amp_onnx_node &n = m->graph->nodes[0];
    ASSERT_EQ(n.attribute_count, 9);
    const amp_onnx_attribute *a = n.attributes;
    EXPECT_STREQ(a[0].name, "f");
    EXPECT_EQ(a[0].as.number, 0.5);
    EXPECT_EQ(a[1].as.integer, -7);
    EXPECT_STREQ(a[2].as.text, "same");
    EXPECT_EQ(a[3].kind, AMP_ONNX_FLOATS);
    ASSERT_EQ(a[3].count, 2);
    EXPECT_EQ(a[3].as.numbers[1], -2);
    EXPECT_EQ(a[4].kind, AMP_ONNX_STRINGS);
    ASSERT_EQ(a[4].count, 2);
    EXPECT_STREQ(a[4].as.texts[0], "a");
    EXPECT_STREQ(a[4].as.texts[1], "");
    EXPECT_EQ(content(a[5].as.tensor), raw<int64_t>({4, 5}));
    EXPECT_EQ(a[6].kind, AMP_ONNX_INTS);
    ASSERT_EQ(a[6].count, 2);
    EXPECT_EQ(a[6].as.integers[1], -1);
    EXPECT_EQ(a[7].as.graph->outer, m->graph);
    EXPECT_STREQ(a[8].as.text, "");
}

TEST_F(OnnxRead, AnAttributeWithoutItsKindHasThatOfItsValue) {
    Graph g = relu_graph();
    g.nodes = {node("Relu", {"x"}, {"y"}, {bytes(1, "i") + number(3, 4), bytes(1, "l") + packed(8, {5, 6})})};
    const auto m = of(model(g));
    EXPECT_EQ(m->graph->nodes[0].attributes[0].kind, AMP_ONNX_INT);
    EXPECT_EQ(m->graph->nodes[0].attributes[1].kind, AMP_ONNX_INTS);
    EXPECT_EQ(m->graph->nodes[0].attributes[1].as.integers[1], 6);
}

TEST_F(OnnxRead, NodesStandBehindWhatTheyRead) {
    Graph g = relu_graph();
    g.nodes = {node("Add", {"b", "c"}, {"y"}), node("Neg", {"a"}, {"b"}), node("Abs", {"a"}, {"c"}),
               node("Relu", {"x"}, {"a"})};
    const auto m = of(model(g));
    EXPECT_EQ(types_of(m->graph), (Names{"Relu", "Neg", "Abs", "Add"}));
}

TEST_F(OnnxRead, ASortedFileKeepsItsOrder) {
    Graph g = relu_graph();
    g.nodes = {node("Relu", {"x"}, {"a"}), node("Neg", {"x"}, {"b"}), node("Abs", {"x"}, {"c"}),
               node("Sum", {"c", "a", "b"}, {"y"})};
    const auto m = of(model(g));
    EXPECT_EQ(types_of(m->graph), (Names{"Relu", "Neg", "Abs", "Sum"}));
}

TEST_F(OnnxRead, AChainWrittenBackwardsNeedsNoStack) {
    const int count = 100000;
    Graph g = relu_graph();
    g.nodes.clear();
    for (int i = count; i-- > 0;) {
        g.nodes.push_back(
            node("Relu", {i ? "v" + std::to_string(i) : "x"}, {i == count - 1 ? "y" : "v" + std::to_string(i + 1)}));
    }
    const auto m = of(model(g));
    ASSERT_NE(m, nullptr);
    ASSERT_EQ(m->graph->node_count, count);
    for (int i = 1; i < count; i++) ASSERT_EQ(m->graph->nodes[i].inputs[0], m->graph->nodes[i - 1].outputs[0]);
}

TEST_F(OnnxRead, LastUses) {
    Graph g = relu_graph();
    g.nodes = {node("Relu", {"x"}, {"a"}), node("Add", {"a", "x"}, {"y"}), node("Split", {"y"}, {"b", "unused"}),
               node("Neg", {"b"}, {"c"}),  node("Neg", {"c"}, {"d"}),      node("Abs", {"d"}, {"e"})};
    g.outputs.push_back(value("c"));
    const auto m = of(model(g));
    const auto last = [&](const char *name) { return m->graph->values[number_of(m->graph, name)].last_use; };
    EXPECT_EQ(last("x"), 1);
    EXPECT_EQ(last("a"), 1);
    EXPECT_EQ(last("y"), INT_MAX) << "an output that is read besides";
    EXPECT_EQ(last("b"), 3);
    EXPECT_EQ(last("unused"), -1);
    EXPECT_EQ(last("c"), INT_MAX);
    EXPECT_EQ(last("d"), -1) << "read by a node that no output hangs on";
}

TEST_F(OnnxRead, InitialisersAmongTheInputsAreConstants) {
    Graph g = relu_graph();
    g.nodes = {node("Add", {"x", "w"}, {"y"})};
    g.inputs = {value("w"), value("x")};
    g.initialisers = {tensor("w", FLOAT, {}, raw<float>({2}))};
    const auto m = of(model(g));
    ASSERT_EQ(m->graph->input_count, 1);
    EXPECT_STREQ(m->graph->values[m->graph->inputs[0]].name, "x");
    EXPECT_EQ(content(constant(m->graph, "w")), raw<float>({2}));
}

TEST_F(OnnxRead, AnOutputMayBeAnInputOrAConstant) {
    Graph g = relu_graph();
    g.initialisers = {tensor("w", FLOAT, {1}, raw<float>({2}))};
    g.outputs = {value("x", INT64), value("w"), value("y"), value("y")};
    const auto m = of(model(g));
    ASSERT_EQ(m->graph->output_count, 4);
    EXPECT_EQ(m->graph->outputs[0], m->graph->inputs[0]);
    EXPECT_EQ(m->graph->values[m->graph->inputs[0]].dtype, AMP_F32) << "an input is what it is declared as there";
    EXPECT_NE(constant(m->graph, "w"), nullptr);
    EXPECT_EQ(m->graph->outputs[2], m->graph->outputs[3]);
}

// ---- Sub-graphs --------------------------------------------------------------------------------------------------

Graph branch(const std::vector<Bytes> &nodes, const std::string &output) {
    Graph g;
    g.nodes = nodes;
    g.outputs = {value(output)};
    return g;
}

TEST_F(OnnxRead, ABodyCapturesWhatItReadsOfOuterGraphs) {
    const Graph inner = branch({node("Add", {"a", "x"}, {"r"})}, "r");
    const Graph outer = branch(
        {node("If", {"c"}, {"q"}, {graph_attribute("then_branch", inner), graph_attribute("else_branch", inner)})},
        "q");
    Graph g = relu_graph();
    g.inputs.push_back(value("c", BOOL));
    g.nodes = {node("If", {"c"}, {"y"}, {graph_attribute("then_branch", outer), graph_attribute("else_branch", inner)}),
               node("Relu", {"x"}, {"a"})};
    const auto m = of(model(g));
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(types_of(m->graph), (Names{"Relu", "If"})) << "a body waits for what it captures";
    const amp_onnx_graph *middle = m->graph->nodes[1].attributes[0].as.graph;
    ASSERT_EQ(middle->outer, m->graph);
    ASSERT_EQ(middle->capture_count, 3) << "a and x for the graphs inside it, c for itself";
    for (int i = 0; i < 3; i++) {
        EXPECT_STREQ(m->graph->values[middle->captured[i]].name, middle->values[middle->captured_as[i]].name);
    }
    const amp_onnx_graph *innermost = middle->nodes[0].attributes[0].as.graph;
    ASSERT_EQ(innermost->outer, middle);
    ASSERT_EQ(innermost->capture_count, 2);
    EXPECT_STREQ(middle->values[innermost->captured[0]].name, "a");
    EXPECT_EQ(innermost->nodes[0].inputs[0], innermost->captured_as[0]);
    EXPECT_EQ(m->graph->values[number_of(m->graph, "a")].last_use, 1);
    EXPECT_EQ(m->graph->values[number_of(m->graph, "x")].last_use, 1)
        << "a capture is a use by the node that has the body";
    EXPECT_EQ(middle->values[number_of(middle, "a")].last_use, 0);
}

TEST_F(OnnxRead, ABodyMayGiveBackWhatItCaptures) {
    Graph g = relu_graph();
    g.nodes = {
        node("If", {"x"}, {"y"},
             {graph_attribute("then_branch", branch({}, "x")), graph_attribute("else_branch", branch({}, "x"))})};
    const auto m = of(model(g));
    const amp_onnx_graph *body = m->graph->nodes[0].attributes[0].as.graph;
    ASSERT_EQ(body->capture_count, 1);
    EXPECT_EQ(body->outputs[0], body->captured_as[0]);
    EXPECT_EQ(body->values[body->outputs[0]].last_use, INT_MAX);
}

TEST_F(OnnxRead, ANameOfABodyHidesThatOutside) {
    Graph body = branch({node("Relu", {"i"}, {"x"})}, "x");
    body.inputs = {value("i", INT64)};
    Graph g = relu_graph();
    g.nodes = {node("Loop", {"x"}, {"y"}, {graph_attribute("body", body)})};
    const auto m = of(model(g));
    EXPECT_EQ(m->graph->nodes[0].attributes[0].as.graph->capture_count, 0);
}

TEST_F(OnnxRead, ABodyHasConstantsOfItsOwn) {
    Graph body = branch({node("Relu", {"w"}, {"r"})}, "r");
    body.initialisers = {tensor("w", INT32, {1}, raw<int32_t>({3}))};
    Graph g = relu_graph();
    g.nodes = {node("If", {"x"}, {"y"}, {graph_attribute("then_branch", body)})};
    const auto m = of(model(g));
    EXPECT_EQ(content(constant(m->graph->nodes[0].attributes[0].as.graph, "w")), raw<int32_t>({3}));
}

// ---- Opsets ------------------------------------------------------------------------------------------------------

TEST_F(OnnxRead, EachDomainHasItsOpset) {
    Graph g = relu_graph();
    g.nodes = {node("Relu", {"x"}, {"a"}), node("Gelu", {"a"}, {"y"}, {}, "", "com.microsoft")};
    const Bytes file =
        number(1, 8) + bytes(7, g) + bytes(8, opset(11, "ai.onnx")) + bytes(8, opset(2, "com.microsoft"));
    const auto m = of(file);
    EXPECT_EQ(m->opset, 11);
    EXPECT_EQ(m->graph->nodes[0].opset, 11);
    EXPECT_EQ(m->graph->nodes[1].opset, 2);
    EXPECT_STREQ(m->graph->nodes[1].domain, "com.microsoft");
}

TEST_F(OnnxRead, FilesOlderThanOpsetsHaveTheFirst) {
    const auto m = of(number(1, 2) + bytes(7, relu_graph()));
    EXPECT_EQ(m->opset, 1);
    EXPECT_EQ(m->graph->nodes[0].opset, 1);
}

TEST_F(OnnxRead, NothingIsReadWhileAnErrorStands) {
    (void)amp_scope_exit();
    (void)amp_scope_exit(); // one too many
    ASSERT_NE(amp_last_status(), AMP_OK);
    const Bytes good = model(relu_graph());
    EXPECT_EQ(amp_onnx_read_bytes(good.data(), good.size(), nullptr), nullptr);
    amp_clear_error();
    ASSERT_EQ(amp_scope_enter(), AMP_OK);
}

} // namespace
