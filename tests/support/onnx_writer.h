// Bytes of ONNX files, by code of the tests' own: protobuf's wire format by hand, so that wrong bytes can be written too.
#ifndef AMP_TESTS_ONNX_WRITER_H
#define AMP_TESTS_ONNX_WRITER_H

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace onnx_writer {

using Bytes = std::string;
using Names = std::vector<std::string>;
using Dims = std::vector<int64_t>;

// ---- Wire format ------------------------------------------------------------------------------------------------
inline Bytes varint(uint64_t value) {
    Bytes out;
    for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
    return out + char(value);
}
inline Bytes tag(int field, int wire) {
    return varint(uint64_t(field) << 3 | unsigned(wire));
}
inline Bytes number(int field, int64_t value) {
    return tag(field, 0) + varint(uint64_t(value));
}
inline Bytes bytes(int field, const Bytes &content) {
    return tag(field, 2) + varint(content.size()) + content;
}
template <class T>
Bytes raw(const std::vector<T> &values) {
    return Bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}
inline Bytes f32(int field, float value) {
    return tag(field, 5) + raw<float>({value});
}
inline Bytes packed(int field, const Dims &values) {
    Bytes out;
    for (const int64_t value : values) out += varint(uint64_t(value));
    return bytes(field, out);
}
inline Bytes strings(int field, const Names &texts) {
    Bytes out;
    for (const std::string &text : texts) out += bytes(field, text);
    return out;
}
inline Bytes repeated(const Bytes &piece, int times) {
    Bytes out;
    out.reserve(piece.size() * size_t(times));
    for (int i = 0; i < times; i++) out += piece;
    return out;
}

// ---- Messages ---------------------------------------------------------------------------------------------------
enum Type {
    FLOAT = 1,
    UINT8,
    INT8,
    UINT16,
    INT16,
    INT32,
    INT64,
    STRING,
    BOOL,
    FLOAT16,
    DOUBLE,
    UINT32,
    UINT64,
    COMPLEX64,
    COMPLEX128,
    BFLOAT16,
    FLOAT8E4M3FN
};

inline Bytes tensor_head(const std::string &name, int type, const Dims &dims) {
    Bytes out;
    for (const int64_t extent : dims) out += number(1, extent);
    return out + number(2, type) + (name.empty() ? "" : bytes(8, name));
}
inline Bytes tensor(const std::string &name, int type, const Dims &dims, const Bytes &raw_data) {
    return tensor_head(name, type, dims) + bytes(9, raw_data);
}
inline Bytes entry(const std::string &key, const std::string &value) {
    return bytes(1, key) + bytes(2, value);
}
// Entries are "location", "offset" and "length", where not empty.
inline Bytes external(const std::string &name, int type, const Dims &dims, const std::string &location,
                      const std::string &offset = "", const std::string &length = "") {
    Bytes out = tensor_head(name, type, dims) + bytes(13, entry("location", location));
    if (!offset.empty()) out += bytes(13, entry("offset", offset));
    if (!length.empty()) out += bytes(13, entry("length", length));
    return out + number(14, 1);
}

// The value of an attribute, by kind: field, content, AttributeProto.type.
inline Bytes attribute(const std::string &name, const Bytes &value, int type) {
    return bytes(1, name) + value + number(20, type);
}
inline Bytes float_attribute(const std::string &name, float value) {
    return attribute(name, f32(2, value), 1);
}
inline Bytes int_attribute(const std::string &name, int64_t value) {
    return attribute(name, number(3, value), 2);
}
inline Bytes text_attribute(const std::string &name, const std::string &value) {
    return attribute(name, bytes(4, value), 3);
}
inline Bytes tensor_attribute(const std::string &name, const Bytes &value) {
    return attribute(name, bytes(5, value), 4);
}
inline Bytes graph_attribute(const std::string &name, const Bytes &value) {
    return attribute(name, bytes(6, value), 5);
}
inline Bytes ints_attribute(const std::string &name, const Dims &values) {
    Bytes list;
    for (const int64_t value : values) list += number(8, value);
    return attribute(name, list, 7);
}
inline Bytes reference(const std::string &name, const std::string &of, int type) {
    return bytes(1, name) + bytes(21, of) + number(20, type);
}

inline Bytes node(const std::string &type, const Names &inputs, const Names &outputs,
                  const std::vector<Bytes> &attributes = {}, const std::string &name = "",
                  const std::string &domain = "") {
    Bytes out = strings(1, inputs) + strings(2, outputs) + bytes(4, type);
    if (!name.empty()) out += bytes(3, name);
    for (const Bytes &a : attributes) out += bytes(5, a);
    return domain.empty() ? out : out + bytes(7, domain);
}

// Extents below 0 are open.
inline Bytes value(const std::string &name, int type = FLOAT, const Dims &dims = {}) {
    Bytes shape;
    for (const int64_t extent : dims) shape += bytes(1, extent < 0 ? Bytes() : number(1, extent));
    return bytes(1, name) + bytes(2, bytes(1, number(1, type) + bytes(2, shape)));
}

struct Graph {
    std::vector<Bytes> nodes, initialisers, inputs, outputs;
    std::string name = "g";
    Bytes more;

    operator Bytes() const {
        Bytes out;
        for (const Bytes &n : nodes) out += bytes(1, n);
        out += bytes(2, name);
        for (const Bytes &t : initialisers) out += bytes(5, t);
        for (const Bytes &v : inputs) out += bytes(11, v);
        for (const Bytes &v : outputs) out += bytes(12, v);
        return out + more;
    }
};

inline Bytes opset(int64_t version, const std::string &domain = "") {
    return bytes(1, domain) + number(2, version);
}

struct Function {
    std::string name;
    Names inputs, outputs, attributes;
    std::vector<Bytes> nodes, defaults;
    std::string domain = "own";
    int64_t opset = 17;

    operator Bytes() const {
        Bytes out = bytes(1, name) + strings(4, inputs) + strings(5, outputs) + strings(6, attributes);
        for (const Bytes &n : nodes) out += bytes(7, n);
        for (const Bytes &d : defaults) out += bytes(11, d);
        return out + bytes(9, onnx_writer::opset(opset)) + bytes(9, onnx_writer::opset(1, domain)) + bytes(10, domain);
    }
};

// Opset 17 of ai.onnx, and 1 of "own".
inline Bytes model(const Bytes &graph, const std::vector<Bytes> &functions = {}, const Bytes &more = "") {
    Bytes out = number(1, 8) + bytes(2, "tests") + bytes(7, graph) + bytes(8, opset(17)) + bytes(8, opset(1, "own"));
    for (const Bytes &f : functions) out += bytes(25, f);
    return out + more;
}

// x → Relu → y
inline Graph relu_graph() {
    Graph graph;
    graph.nodes = {node("Relu", {"x"}, {"y"})};
    graph.inputs = {value("x", FLOAT, {-1, 3})};
    graph.outputs = {value("y")};
    return graph;
}

} // namespace onnx_writer

#endif // AMP_TESTS_ONNX_WRITER_H
