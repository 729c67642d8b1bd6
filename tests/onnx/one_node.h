// Models of one node: what an op of ONNX makes of inputs and attributes.
#ifndef AMP_TESTS_ONNX_ONE_NODE_H
#define AMP_TESTS_ONNX_ONE_NODE_H

#include "reading.h"

namespace one_node {

using amp_test::numbers_of;
using amp_test::random_tensor;
using amp_test::tensor;
using onnx_writer::Bytes;
using onnx_writer::Dims;
using onnx_writer::Names;
using Tensors = std::vector<amp_tensor *>;

struct Node {
    std::string type;
    int64_t opset;
    Tensors inputs; // nullptr: absent
    std::vector<Bytes> attributes = {};
    int outputs = 1;
};

inline int type_of(const amp_tensor *t) {
    switch (amp_tensor_dtype(t)) {
    case AMP_F64: return onnx_writer::DOUBLE;
    case AMP_F16: return onnx_writer::FLOAT16;
    case AMP_I64: return onnx_writer::INT64;
    case AMP_I32: return onnx_writer::INT32;
    case AMP_U8: return onnx_writer::UINT8;
    case AMP_I8: return onnx_writer::INT8;
    case AMP_BOOL: return onnx_writer::BOOL;
    default: return onnx_writer::FLOAT;
    }
}

inline Dims extents_of(const amp_tensor *t) {
    const int64_t *shape = amp_tensor_shape(t);
    return Dims(shape, shape + amp_tensor_rank(t));
}

inline Bytes texts_attribute(const std::string &name, const Names &texts) {
    return onnx_writer::attribute(name, onnx_writer::strings(9, texts), 8);
}
inline Bytes floats_attribute(const std::string &name, const std::vector<float> &numbers) {
    Bytes list;
    for (const float number : numbers) list += onnx_writer::f32(7, number);
    return onnx_writer::attribute(name, list, 6);
}

class Test : public onnx_reading::Test {
  protected:
    // The results; none, with an error that stands. The second run, of what was captured, gives the bits of the first.
    Tensors run(const Node &n) const {
        onnx_writer::Graph graph;
        Names inputs, outputs;
        Tensors given;
        for (size_t i = 0; i < n.inputs.size(); i++) {
            inputs.push_back(n.inputs[i] ? "x" + std::to_string(i) : "");
            if (!n.inputs[i]) continue;
            given.push_back(n.inputs[i]);
            graph.inputs.push_back(onnx_writer::value(inputs.back(), type_of(given.back()), extents_of(given.back())));
        }
        for (int i = 0; i < n.outputs; i++) {
            outputs.push_back("y" + std::to_string(i));
            graph.outputs.push_back(onnx_writer::value(outputs.back()));
        }
        graph.nodes = {onnx_writer::node(n.type, inputs, outputs, n.attributes)};
        return run(graph, n.opset, given, n.outputs);
    }
    Tensors run(const onnx_writer::Graph &graph, int64_t opset, const Tensors &given, int outputs) const {
        write(onnx_writer::number(1, 8) + onnx_writer::bytes(7, graph) +
              onnx_writer::bytes(8, onnx_writer::opset(opset)));
        amp_graph *loaded = amp_graph_load(path().c_str(), nullptr);
        Tensors results(size_t(outputs), nullptr), again = results;
        for (Tensors *to : {&results, &again}) {
            if (loaded) (void)amp_graph_run(loaded, given.data(), int(given.size()), to->data(), outputs);
        }
        amp_graph_release(loaded);
        if (amp_last_status() != AMP_OK) return {};
        for (size_t i = 0; i < results.size(); i++) {
            EXPECT_EQ(extents_of(results[i]), extents_of(again[i]));
            EXPECT_EQ(content(results[i]), content(again[i])) << "output " << i << " of the second run";
        }
        return again;
    }
    amp_tensor *first(const Node &n) const {
        const Tensors results = run(n);
        return results.empty() ? nullptr : results[0];
    }
    testing::AssertionResult fails(const Node &n, amp_status status, const std::vector<std::string> &words) const {
        if (!run(n).empty()) return testing::AssertionFailure() << "it runs";
        return amp_test::failed_with(status, words);
    }
};

// Numbers of a dense tensor by index.
struct Numbers {
    Dims shape;
    std::vector<double> values;

    explicit Numbers(const amp_tensor *t) : shape(extents_of(t)), values(numbers_of(t)) {}
    Numbers(const Dims &extents, double value)
        : shape(extents), values(size_t(amp_test::elements_of(extents)), value) {}
    double &at(const Dims &index) {
        int64_t place = 0;
        for (size_t d = 0; d < shape.size(); d++) place = place * shape[d] + index[d];
        return values[size_t(place)];
    }
};

// The next index in a shape, row by row; false behind the last.
inline bool next(Dims *index, const Dims &shape) {
    for (size_t d = shape.size(); d-- > 0;) {
        if (++(*index)[d] < shape[d]) return true;
        (*index)[d] = 0;
    }
    return false;
}

} // namespace one_node

#endif // AMP_TESTS_ONNX_ONE_NODE_H
