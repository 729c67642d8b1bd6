// Files made to harm: each is refused with a sentence, in little memory, and nothing is left behind.
#include "reading.h"

#include <cstdlib>

using namespace onnx_writer;
using onnx_reading::has;

namespace {

// Counts what the system is asked for.
struct Counting {
    size_t now = 0, most = 0;
    int countdown = -1; // fails the request that finds 0
    static void *allocate(void *context, size_t bytes, size_t alignment) {
        auto *self = static_cast<Counting *>(context);
        if (self->countdown >= 0 && self->countdown-- == 0) return nullptr;
        void *block = nullptr;
        if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
        self->now += bytes;
        self->most = std::max(self->most, self->now);
        return block;
    }
    static void release(void *context, void *block, size_t bytes) {
        static_cast<Counting *>(context)->now -= bytes;
        free(block);
    }
};

class OnnxHostile : public onnx_reading::Test {
  protected:
    void SetUp() override {
        onnx_reading::Test::SetUp();
        amp_memory_trim();
        counting.most = counting.now;
        const amp_allocator allocator = {Counting::allocate, Counting::release, &counting};
        ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    }
    void TearDown() override {
        EXPECT_LT(counting.most, size_t(200) << 20);
        ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
        amp_memory_trim();
        onnx_reading::Test::TearDown();
    }
    static Bytes with_nodes(const std::vector<Bytes> &nodes) {
        Graph g = relu_graph();
        g.nodes = nodes;
        return model(g);
    }
    static Counting counting; // outlives what blocks are given back late
};
Counting OnnxHostile::counting;

// ---- Bytes -------------------------------------------------------------------------------------------------------

TEST_F(OnnxHostile, WhatIsNoModel) {
    EXPECT_TRUE(has(failure("", AMP_ERROR_IO), {"no graph"}));
    EXPECT_TRUE(has(failure("{\"text\": \"json\"}", AMP_ERROR_IO), {"at byte 0"}));
    EXPECT_TRUE(has(failure(Bytes(1000, '\0'), AMP_ERROR_IO), {"no field 0"}));
    EXPECT_TRUE(has(failure(Bytes(1000, '\xff'), AMP_ERROR_IO), {"more than 10 bytes"}));
    EXPECT_TRUE(has(failure(bytes(1, "text"), AMP_ERROR_IO), {"ModelProto.ir_version", "wire type 2, expected 0"}));
    EXPECT_TRUE(has(failure(tag(7, 3), AMP_ERROR_IO), {"wire type 3"}));
    EXPECT_TRUE(has(file_failure(), {"m.onnx", "open"}));
    write("");
    EXPECT_TRUE(has(file_failure(), {"m.onnx", "no graph"}));
    EXPECT_TRUE(
        has(sentence(onnx_reading::Model(amp_onnx_read(folder.c_str(), nullptr)), AMP_ERROR_IO), {"directory"}));
    EXPECT_TRUE(
        has(sentence(onnx_reading::Model(amp_onnx_read(nullptr, nullptr)), AMP_ERROR_INVALID), {"path is NULL"}));
}

TEST_F(OnnxHostile, CutShortAtEveryLength) {
    Graph g = relu_graph();
    Graph body;
    body.nodes = {node("Add", {"x", "w"}, {"r"})};
    body.outputs = {value("r")};
    g.nodes = {node("If", {"x"}, {"y"}, {graph_attribute("then_branch", body), text_attribute("s", "t")}, "n")};
    g.initialisers = {tensor("w", FLOAT, {2}, raw<float>({1, 2})), tensor_head("l", INT64, {1}) + packed(7, {-1})};
    const Bytes whole = model(g);
    ASSERT_NE(of(whole), nullptr);
    for (size_t length = 0; length < whole.size(); length++) {
        // Exactly as long, so that a sanitizer sees a read past the end.
        const std::vector<char> part(whole.begin(), whole.begin() + std::ptrdiff_t(length));
        const onnx_reading::Model m(amp_onnx_read_bytes(part.data(), part.size(), nullptr));
        if (!m) {
            EXPECT_GT(std::string(amp_last_error()).size(), 20u);
        }
        EXPECT_EQ(m == nullptr, amp_last_status() != AMP_OK);
        amp_clear_error();
    }
}

TEST_F(OnnxHostile, EveryByteMayBeWrong) {
    Graph g = relu_graph();
    g.nodes = {node("Conv", {"x", "w"}, {"y"},
                    {ints_attribute("pads", {1, 2}), tensor_attribute("t", tensor("", FLOAT, {1}, raw<float>({1})))},
                    "n")};
    g.initialisers = {tensor("w", FLOAT, {2}, raw<float>({1, 2}))};
    const Bytes whole = model(g);
    for (size_t at = 0; at < whole.size(); at++) {
        for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff}) {
            Bytes wrong = whole;
            wrong[at] = char(wrong[at] ^ change);
            const onnx_reading::Model m(amp_onnx_read_bytes(wrong.data(), wrong.size(), nullptr));
            EXPECT_EQ(m == nullptr, amp_last_status() != AMP_OK);
            amp_clear_error();
        }
    }
}

TEST_F(OnnxHostile, LengthsThatReachOut) {
    EXPECT_TRUE(has(failure(tag(7, 2) + varint(5) + "abc", AMP_ERROR_IO), {"5 bytes", "3 are left"}));
    EXPECT_TRUE(has(failure(tag(7, 2) + varint(UINT64_MAX) + "abc", AMP_ERROR_IO), {"18446744073709551615 bytes"}));
    EXPECT_TRUE(
        has(failure(bytes(7, tag(1, 2) + varint(100)) + Bytes(200, '\0'), AMP_ERROR_IO), {"100 bytes", "0 are left"}));
    EXPECT_TRUE(has(failure(bytes(7, "\x08"), AMP_ERROR_IO), {"cut short"}));
}

// Each of these would overflow the stack of a reader that recurses.
TEST_F(OnnxHostile, GraphsNestedThousandsDeep) {
    const auto nested = [](int depth) {
        Bytes g = relu_graph();
        for (int i = 0; i < depth; i++) {
            Graph outer = relu_graph();
            outer.nodes = {node("If", {"x"}, {"y"}, {graph_attribute("b", g)})};
            g = outer;
        }
        return model(g);
    };
    EXPECT_NE(of(nested(13)), nullptr);
    EXPECT_TRUE(has(failure(nested(15), AMP_ERROR_IO), {"more than 48 deep"}));
    EXPECT_TRUE(has(failure(nested(1000), AMP_ERROR_IO), {"more than 48 deep"}));
}

TEST_F(OnnxHostile, ASingularMessageRepeated) {
    const Bytes graph = relu_graph();
    EXPECT_TRUE(has(failure(model(graph) + bytes(7, graph), AMP_ERROR_IO), {"ModelProto.graph", "twice"}));
    EXPECT_TRUE(has(failure(repeated(bytes(7, bytes(2, "g")), 40000), AMP_ERROR_IO), {"ModelProto.graph", "twice"}));
    EXPECT_TRUE(has(failure(with_nodes({node("Constant", {}, {"y"}, {tensor_attribute("value", "") + bytes(5, "")})}),
                            AMP_ERROR_IO),
                    {"AttributeProto.t", "twice"}));
}

TEST_F(OnnxHostile, MillionsOfEmptyMessages) {
    EXPECT_TRUE(has(failure(bytes(7, repeated(bytes(1, ""), 2000000)), AMP_ERROR_IO),
                    {"1000000 nodes, values and attributes"}));
    EXPECT_TRUE(has(failure(bytes(7, repeated(bytes(1, ""), 900000)), AMP_ERROR_IO), {"unfold to more than"}));
    EXPECT_TRUE(has(failure(bytes(7, bytes(1, repeated(bytes(2, ""), 2000000))), AMP_ERROR_IO),
                    {"1000000 nodes, values and attributes"}));
    EXPECT_TRUE(
        has(failure(bytes(7, bytes(1, repeated(bytes(1, ""), 4000000))), AMP_ERROR_IO), {"unfold to more than"}));
    EXPECT_TRUE(has(failure(bytes(8, Bytes()) + repeated(number(1, 1), 9000000), AMP_ERROR_IO), {"8000000 fields"}));
    const Bytes dims = repeated(bytes(1, ""), 3000000);
    EXPECT_TRUE(
        has(failure(bytes(7, bytes(11, bytes(2, bytes(1, bytes(2, dims))))), AMP_ERROR_IO), {"unfold to more than"}));
}

// As many as there may be, and they are read.
TEST_F(OnnxHostile, HalfAMillionNodes) {
    const int count = 480000;
    Graph g = relu_graph();
    g.nodes.clear();
    for (int i = 0; i < count; i++) {
        g.nodes.push_back(
            node("Relu", {i ? "v" + std::to_string(i) : "x"}, {i == count - 1 ? "y" : "v" + std::to_string(i + 1)}));
    }
    const auto m = of(model(g));
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->graph->node_count, count);
    counting.most = 0; // this is no attack
}

TEST_F(OnnxHostile, ManyTinyTensors) {
    Graph g = relu_graph();
    for (int i = 0; i <= 100000; i++) g.initialisers.push_back(tensor("t" + std::to_string(i), UINT8, {0}, ""));
    EXPECT_TRUE(has(failure(model(g)), {"more than 100000 tensors"}));
}

TEST_F(OnnxHostile, ManyOpsetsAndAttributes) {
    EXPECT_TRUE(has(failure(model(relu_graph()) + repeated(bytes(8, opset(1, "z")), 300)), {"opsets", "at most 256"}));
    std::vector<Bytes> attributes;
    for (int i = 0; i < 65; i++) attributes.push_back(int_attribute("a" + std::to_string(i), i));
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, attributes, "n")})),
                    {"node 'n'", "65 attributes", "at most 64"}));
}

TEST_F(OnnxHostile, NamesThatAreTooLongOrHaveAZero) {
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {Bytes(4097, 'y')})}), AMP_ERROR_IO),
                    {"NodeProto.output", "4097 bytes"}));
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {Bytes("y\0z", 3)})}), AMP_ERROR_IO),
                    {"NodeProto.output", "zero byte"}));
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {text_attribute("s", Bytes("a\0b", 3))}, "n")})),
                    {"attribute 's'", "node 'n'", "zero byte"}));
    Graph g = relu_graph();
    g.name = Bytes(4000, '\x1b'); // names are quoted: no escapes for a terminal, no second line
    g.nodes = {node("Relu", {"nowhere"}, {"y"}, {}, Bytes(4000, '\n'))};
    EXPECT_EQ(failure(model(g)).find('\x1b'), std::string::npos);
}

// ---- Tensors -----------------------------------------------------------------------------------------------------

TEST_F(OnnxHostile, ShapesThatCannotBe) {
    const auto fails = [](const Dims &dims) {
        Graph g = relu_graph();
        g.initialisers = {tensor("w", FLOAT, dims, "")};
        return failure(model(g));
    };
    EXPECT_TRUE(has(fails({-1}), {"tensor 'w'", "[-1]", "negative"}));
    EXPECT_TRUE(has(fails({INT64_MIN, 0}), {"tensor 'w'", "negative"}));
    EXPECT_TRUE(has(fails({INT64_MAX, INT64_MAX}), {"tensor 'w'", "2^40"}));
    EXPECT_TRUE(has(fails({int64_t(1) << 32, int64_t(1) << 32}), {"tensor 'w'", "2^40"}));
    EXPECT_TRUE(has(fails({(int64_t(1) << 40) + 1}), {"tensor 'w'", "2^40"}));
    EXPECT_TRUE(has(fails({0, INT64_MAX, INT64_MAX}), {"tensor 'w'", "2^40"}));
    EXPECT_TRUE(has(fails(Dims(9, 1)), {"tensor 'w'", "9 dimensions", "at most 8"}));
    Graph g = relu_graph();
    g.initialisers = {tensor("w", FLOAT, {int64_t(1) << 40}, "")};
    EXPECT_TRUE(has(failure(model(g), AMP_ERROR_IO), {"0 bytes", "4398046511104"}));
    g.initialisers = {tensor_head("w", FLOAT16, {int64_t(1) << 40})};
    EXPECT_TRUE(has(failure(model(g), AMP_ERROR_IO), {"0 numbers", "1099511627776"}));
}

TEST_F(OnnxHostile, DeclaredTypesThatCannotBe) {
    Graph g = relu_graph();
    g.inputs = {value("x", FLOAT, Dims(9, 1))};
    EXPECT_TRUE(has(failure(model(g)), {"input 'x'", "9 dimensions", "at most 8"}));
    g.inputs = {bytes(1, "x") + bytes(2, bytes(1, number(1, FLOAT) + bytes(2, bytes(1, number(1, -2)))))};
    EXPECT_TRUE(has(failure(model(g)), {"input 'x'", "extent -2"}));
    const char *kinds[] = {"a sequence", "a map", "a sparse tensor", "an optional"};
    const int fields[] = {4, 5, 8, 9};
    for (int i = 0; i < 4; i++) {
        g.inputs = {bytes(1, "x") + bytes(2, bytes(fields[i], bytes(1, "")))};
        EXPECT_TRUE(has(failure(model(g), AMP_ERROR_NOT_IMPLEMENTED), {"input 'x'", kinds[i]}));
    }
}

// ---- Names -------------------------------------------------------------------------------------------------------

TEST_F(OnnxHostile, NamesThatAreEmpty) {
    Graph g = relu_graph();
    g.initialisers = {tensor("", FLOAT, {}, raw<float>({1}))};
    EXPECT_TRUE(has(failure(model(g)), {"initialiser of graph 'g' has no name"}));
    g = relu_graph();
    g.inputs.push_back(value(""));
    EXPECT_TRUE(has(failure(model(g)), {"input 1 of graph 'g' has no name"}));
    g = relu_graph();
    g.outputs.push_back(value(""));
    EXPECT_TRUE(has(failure(model(g)), {"output ''", "nobody"}));
    g = relu_graph();
    g.outputs.clear();
    EXPECT_TRUE(has(failure(model(g)), {"the graph has no outputs; expected at least one"}));
    EXPECT_TRUE(has(failure(with_nodes({node("", {"x"}, {"y"})})), {"node 0", "no type"}));
    EXPECT_TRUE(
        has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {int_attribute("", 1)})})), {"node 0 (Relu)", "no name"}));
}

TEST_F(OnnxHostile, ValuesThatAreMadeTwice) {
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {}, "one"), node("Abs", {"x"}, {"y"}, {}, "two")})),
                    {"value 'y' of graph 'g' is made twice", "node 'one' (Relu)", "node 'two' (Abs)"}));
    EXPECT_TRUE(
        has(failure(with_nodes({node("Split", {"x"}, {"y", "y"}, {}, "one")})), {"value 'y'", "twice", "node 'one'"}));
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"x"}, {}, "one"), node("Relu", {"x"}, {"y"})})),
                    {"value 'x'", "an input", "node 'one'"}));
    Graph g = relu_graph();
    g.inputs.push_back(g.inputs[0]);
    EXPECT_TRUE(has(failure(model(g)), {"value 'x'", "by an input and by an input"}));
    g = relu_graph();
    g.initialisers = {tensor("y", FLOAT, {}, raw<float>({1}))};
    EXPECT_TRUE(has(failure(model(g)), {"value 'y'", "an initialiser", "node 0 (Relu)"}));
    g.initialisers = {tensor("w", FLOAT, {}, raw<float>({1})), tensor("w", FLOAT, {}, raw<float>({1}))};
    EXPECT_TRUE(has(failure(model(g)), {"value 'w'", "by an initialiser and by an initialiser"}));
    EXPECT_TRUE(
        has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {int_attribute("a", 1), int_attribute("a", 2)}, "n")})),
            {"node 'n'", "'a' twice"}));
}

TEST_F(OnnxHostile, ValuesThatNobodyMakes) {
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"z"}, {"y"}, {}, "n")})),
                    {"node 'n' (Relu) of graph 'g' reads 'z', which nobody makes"}));
    Graph g = relu_graph();
    g.outputs = {value("z")};
    EXPECT_TRUE(has(failure(model(g)), {"output 'z' of graph 'g'", "nobody"}));
    Graph body;
    body.name = "inside";
    body.nodes = {node("Relu", {"z"}, {"r"}, {}, "n")};
    body.outputs = {value("r")};
    EXPECT_TRUE(has(failure(with_nodes({node("If", {"x"}, {"y"}, {graph_attribute("b", body)})})),
                    {"node 'n' (Relu) of graph 'inside' reads 'z'"}));
    body.nodes = {node("Relu", {"x"}, {"r"})};
    EXPECT_TRUE(has(failure(with_nodes(
                        {node("If", {"x"}, {"a"}, {graph_attribute("b", body)}), node("Relu", {"r"}, {"y"}, {}, "n")})),
                    {"node 'n'", "'r', which nobody makes"}))
        << "what a body makes is its own";
}

TEST_F(OnnxHostile, Cycles) {
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"y"}, {"y"}, {}, "n")})), {"node 'n'", "'y', its own result"}));
    EXPECT_TRUE(has(failure(with_nodes({node("Add", {"x", "b"}, {"y"}, {}, "n"), node("Relu", {"y"}, {"b"}, {}, "m")})),
                    {"node 'm'", "'y' of node 'n'", "cycle"}));
    Graph body;
    body.nodes = {node("Relu", {"y"}, {"r"})};
    body.outputs = {value("r")};
    EXPECT_TRUE(has(failure(with_nodes({node("If", {"x"}, {"y"}, {graph_attribute("b", body)}, "n")})),
                    {"node 'n'", "'y', its own result"}));
    std::vector<Bytes> ring;
    const int count = 50000;
    for (int i = 0; i < count; i++)
        ring.push_back(node("Relu", {"v" + std::to_string(i)}, {"v" + std::to_string((i + 1) % count)}));
    ring.push_back(node("Relu", {"x"}, {"y"}));
    EXPECT_TRUE(has(failure(with_nodes(ring)), {"cycle"}));
}

TEST_F(OnnxHostile, KindsOfAttributesThatAreNotRead) {
    const char *names[] = {"TENSORS", "GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS"};
    for (int kind = 9; kind <= 14; kind++) {
        EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {attribute("a", "", kind)}, "n")}),
                                AMP_ERROR_NOT_IMPLEMENTED),
                        {"attribute 'a'", "node 'n'", names[kind - 9]}));
    }
    for (const int kind : {-1, 0, 15, 1000}) {
        EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {attribute("a", "", kind)}, "n")}),
                                AMP_ERROR_NOT_IMPLEMENTED),
                        {"attribute 'a'"}));
    }
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {attribute("a", "", 4)})})),
                    {"attribute 'a'", "tensor, but has none"}));
    EXPECT_TRUE(has(failure(with_nodes({node("Relu", {"x"}, {"y"}, {attribute("a", "", 5)})})),
                    {"attribute 'a'", "graph, but has none"}));
}

TEST_F(OnnxHostile, OpsetsThatAreMissing) {
    EXPECT_TRUE(has(failure(with_nodes({node("Gelu", {"x"}, {"y"}, {}, "n", "com.microsoft")})),
                    {"node 'n'", "'com.microsoft'", "no opset"}));
    EXPECT_TRUE(has(failure(number(1, 8) + bytes(7, relu_graph())), {"node 0 (Relu)", "'ai.onnx'", "no opset"}));
}

// ---- Functions ---------------------------------------------------------------------------------------------------

// 1,000 calls of a function whose body has a large constant, a long list and long names: made once, or counted.
TEST_F(OnnxHostile, BodiesThatMultiply) {
    Function f;
    f.name = "F";
    f.inputs = {"a"};
    f.outputs = {"r"};
    f.nodes = {node("Constant", {}, {"r"},
                    {tensor_attribute("value", tensor("", FLOAT, {1 << 20}, Bytes(4 << 20, '\0'))),
                     attribute("l", bytes(7, Bytes(1 << 20, '\0')), 6)})};
    Graph g = relu_graph();
    g.nodes.clear();
    for (int i = 0; i < 1000; i++)
        g.nodes.push_back(node("F", {"x"}, {i ? "v" + std::to_string(i) : "y"}, {}, "", "own"));
    EXPECT_NE(of(model(g, {f})), nullptr);
    Names many;
    for (int i = 0; i < 5000; i++) many.push_back("a");
    f.nodes = {node("Sum", many, {"r"})};
    EXPECT_TRUE(has(failure(model(g, {f})), {"4000000 inputs and outputs"}));
    f.nodes = {node("Relu", {"a"}, {"r"})};
    for (int i = 0; i < 200; i++) f.nodes.push_back(node("Relu", {"r"}, {Bytes(3000, 'n') + std::to_string(i)}));
    EXPECT_TRUE(has(failure(model(g, {f})), {"functions written out"}));
}

// Sub-graphs in functions in sub-graphs in …
TEST_F(OnnxHostile, BodiesInEachOther) {
    std::vector<Bytes> functions;
    for (int i = 1; i <= 16; i++) {
        Graph inner;
        inner.nodes = {i < 16 ? node("F" + std::to_string(i + 1), {"a"}, {"r"}, {}, "", "own")
                              : node("Relu", {"a"}, {"r"})};
        for (int k = 0; k < 10; k++) {
            Graph outer;
            outer.nodes = {node("If", {"a"}, {"r"}, {graph_attribute("b", inner)})};
            outer.outputs = {bytes(1, "r")};
            inner.outputs = {bytes(1, "r")};
            inner = outer;
        }
        Function f;
        f.name = "F" + std::to_string(i);
        f.inputs = {"a"};
        f.outputs = {"r"};
        f.nodes = inner.nodes;
        functions.push_back(f);
    }
    Graph g = relu_graph();
    g.nodes = {node("F1", {"x"}, {"y"}, {}, "", "own")};
    EXPECT_TRUE(has(failure(model(g, functions)), {"more than 48 deep in each other"}));
}

// Ten bodies in each other, each of which captures what the innermost reads.
TEST_F(OnnxHostile, CapturesThatMultiply) {
    const int count = 100000;
    Graph g = relu_graph();
    Names all;
    for (int i = 0; i < count; i++) {
        all.push_back("v" + std::to_string(i));
        g.nodes.push_back(node("Relu", {"x"}, {all.back()}));
    }
    Graph body;
    body.nodes = {node("Sum", all, {"r"})};
    body.outputs = {bytes(1, "r")};
    for (int i = 0; i < 9; i++) {
        Graph outer;
        outer.nodes = {node("If", {"x"}, {"r"}, {graph_attribute("b", body)})};
        outer.outputs = {bytes(1, "r")};
        body = outer;
    }
    g.nodes.push_back(node("If", {"x"}, {"z"}, {graph_attribute("b", body)}));
    EXPECT_TRUE(has(failure(model(g)), {"1000000 nodes, values and attributes"}));
}

// Long names that begin alike.
TEST_F(OnnxHostile, NamesThatAreSlowToCompare) {
    const Bytes name(4000, 'n');
    Bytes imports;
    for (int i = 0; i < 200; i++) imports += bytes(8, opset(i, name + std::to_string(i)));
    std::vector<Bytes> attributes, nodes;
    for (int i = 0; i < 60; i++) attributes.push_back(int_attribute(name + std::to_string(i), i));
    Function f;
    f.name = "F";
    f.outputs = {"r"};
    f.nodes = {node("Relu", {}, {"r"}, attributes, "", name + "199")};
    Graph g = relu_graph();
    g.nodes = {node("Relu", {"x"}, {"y"})};
    for (int i = 0; i < 5000; i++) g.nodes.push_back(node("F", {}, {}, {}, "", "own"));
    EXPECT_TRUE(has(failure(model(g, {f}, imports)), {"functions written out"}));
    g.nodes = {node("Relu", {"x"}, {"y"})};
    for (int i = 0; i < 5000; i++) g.nodes.push_back(node("Relu", {}, {}, {}, "", name + "199"));
    EXPECT_NE(of(model(g, {}, imports)), nullptr);
}

// ---- Memory ------------------------------------------------------------------------------------------------------

TEST_F(OnnxHostile, EveryAllocationMayFail) {
    Function f;
    f.name = "F";
    f.inputs = {"a"};
    f.outputs = {"r"};
    f.defaults = {float_attribute("slope", 1)};
    f.nodes = {node("LeakyRelu", {"a"}, {"r"}, {reference("alpha", "slope", 1)})};
    Graph body;
    body.nodes = {node("Add", {"x", "w"}, {"r"})};
    body.outputs = {value("r")};
    Graph g = relu_graph();
    const auto long_text = [](const char *name, int megabytes) {
        return text_attribute(name, std::string(megabytes << 20, 't')); // which the skeleton has to grow for
    };
    g.nodes = {node("F", {"b"}, {"y"}, {}, "", "own"),
               node("If", {"x"}, {"b"}, {graph_attribute("then_branch", body), long_text("s", 1), long_text("t", 3)})};
    g.initialisers = {tensor("w", FLOAT, {2}, raw<float>({1, 2})), tensor("big", UINT8, {40000}, Bytes(40000, 'b')),
                      external("e", UINT8, {2}, "w.bin")};
    write("01", "w.bin");
    write(model(g, {f}));
    int refused = 0;
    for (bool was_refused = true; was_refused && refused < 200; refused += was_refused) {
        amp_memory_trim();
        counting.countdown = refused;
        const onnx_reading::Model m(amp_onnx_read(path().c_str(), nullptr));
        was_refused = counting.countdown < 0;
        counting.countdown = -1;
        EXPECT_TRUE(m || was_refused) << "what is refused may be asked for again, with less in reserve";
        EXPECT_EQ(amp_last_status(), m ? AMP_OK : AMP_ERROR_MEMORY) << amp_last_error();
        amp_clear_error();
    }
    EXPECT_GE(refused, 5);
    EXPECT_LT(refused, 200) << "one run, the last, is refused nothing";
}

} // namespace
