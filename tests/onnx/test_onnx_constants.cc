// Constants: every type in every field that may hold it, from the map or copied, and files beside the model.
#include "reading.h"

#include <sys/stat.h>

using namespace onnx_writer;
using onnx_reading::has;

namespace {

class OnnxConstants : public onnx_reading::Test {
  protected:
    static Bytes with(const Bytes &initialiser) {
        Graph g = relu_graph();
        g.initialisers = {initialiser};
        return model(g);
    }
    // The bytes of initialiser w of a model of one.
    static std::string read(const Bytes &initialiser, amp_dtype dtype) {
        const auto m = of(with(initialiser));
        amp_tensor *w = m ? constant(m->graph, "w") : nullptr;
        if (!w) return "none";
        EXPECT_EQ(amp_tensor_dtype(w), dtype);
        return content(w);
    }
    static Bytes listed(int type, const Dims &dims, int field, const Bytes &packed_bytes) {
        return tensor_head("w", type, dims) + bytes(field, packed_bytes);
    }
    static Bytes numbers(int type, const Dims &values) {
        return tensor_head("w", type, {int64_t(values.size())}) + packed(5, values);
    }
};

TEST_F(OnnxConstants, RawDataOfEveryType) {
    const Bytes sixteen = "0123456789abcdef";
    const struct {
        int type;
        amp_dtype dtype;
    } rows[] = {{FLOAT, AMP_F32},     {UINT8, AMP_U8},      {INT8, AMP_I8},        {INT16, AMP_I16},
                {INT32, AMP_I32},     {INT64, AMP_I64},     {DOUBLE, AMP_F64},     {FLOAT16, AMP_F16},
                {BFLOAT16, AMP_BF16}, {COMPLEX64, AMP_C64}, {COMPLEX128, AMP_C128}};
    for (const auto &row : rows) {
        const int64_t count = int64_t(16 / amp_dtype_size(row.dtype));
        EXPECT_EQ(read(tensor("w", row.type, {count}, sixteen), row.dtype), sixteen) << amp_dtype_name(row.dtype);
    }
}

TEST_F(OnnxConstants, ListsOfEveryType) {
    EXPECT_EQ(read(listed(FLOAT, {2}, 4, raw<float>({1, 2})), AMP_F32), raw<float>({1, 2}));
    EXPECT_EQ(read(listed(COMPLEX64, {1}, 4, raw<float>({1, 2})), AMP_C64), raw<float>({1, 2}));
    EXPECT_EQ(read(listed(DOUBLE, {1}, 10, raw<double>({0.1})), AMP_F64), raw<double>({0.1}));
    EXPECT_EQ(read(listed(COMPLEX128, {1}, 10, raw<double>({1, 2})), AMP_C128), raw<double>({1, 2}));
    EXPECT_EQ(read(tensor_head("w", INT64, {2}) + packed(7, {-1, INT64_MAX}), AMP_I64), raw<int64_t>({-1, INT64_MAX}));
    EXPECT_EQ(read(numbers(INT32, {-1, INT32_MAX}), AMP_I32), raw<int32_t>({-1, INT32_MAX}));
    EXPECT_EQ(read(numbers(INT16, {-1, 32767}), AMP_I16), raw<int16_t>({-1, 32767}));
    EXPECT_EQ(read(numbers(INT8, {-128, 127}), AMP_I8), raw<int8_t>({-128, 127}));
    EXPECT_EQ(read(numbers(UINT8, {0, 255}), AMP_U8), raw<uint8_t>({0, 255}));
    EXPECT_EQ(read(numbers(BOOL, {1, 0}), AMP_BOOL), raw<uint8_t>({1, 0}));
    EXPECT_EQ(read(numbers(FLOAT16, {0x3c00, 0xfc00}), AMP_F16), raw<uint16_t>({0x3c00, 0xfc00}));
    EXPECT_EQ(read(numbers(BFLOAT16, {0x3f80, 0xff80}), AMP_BF16), raw<uint16_t>({0x3f80, 0xff80}));
}

TEST_F(OnnxConstants, ListsMayBeWrittenOneByOne) {
    EXPECT_EQ(read(tensor_head("w", FLOAT, {2}) + f32(4, 1) + f32(4, 2), AMP_F32), raw<float>({1, 2}));
    EXPECT_EQ(read(bytes(1, varint(2)) + number(2, INT64) + bytes(8, "w") + number(7, 3) + number(7, 4), AMP_I64),
              raw<int64_t>({3, 4}));
}

TEST_F(OnnxConstants, ScalarsAndTensorsWithoutElements) {
    EXPECT_EQ(read(tensor("w", FLOAT, {}, raw<float>({7})), AMP_F32), raw<float>({7}));
    EXPECT_EQ(read(tensor("w", FLOAT, {3, 0}, ""), AMP_F32), "");
    EXPECT_EQ(read(tensor_head("w", FLOAT, {0}), AMP_F32), "");
}

TEST_F(OnnxConstants, AnyByteButZeroIsTrue) {
    EXPECT_EQ(read(tensor("w", BOOL, {4}, Bytes("\0\1\2\xff", 4)), AMP_BOOL), Bytes("\0\1\1\1", 4));
    write(with(tensor("w", BOOL, {5000}, Bytes(4999, '\1') + '\3')));
    const auto m = file();
    EXPECT_EQ(content(constant(m->graph, "w")), Bytes(5000, '\1'));
}

// The file that is made of these has raw data at any alignment, one after the other.
TEST_F(OnnxConstants, RawDataAtEveryAlignmentIsRead) {
    std::vector<float> numbers(2000);
    for (size_t i = 0; i < numbers.size(); i++) numbers[i] = float(i);
    bool aligned = false, unaligned = false;
    for (int shift = 0; shift < 8; shift++) {
        Graph g = relu_graph();
        g.name = std::string(size_t(shift), 'n');
        g.initialisers = {tensor("w", FLOAT, {40, 50}, raw(numbers))};
        write(model(g));
        const auto m = file();
        amp_tensor *w = constant(m->graph, "w");
        const bool lies_unaligned = w->storage->unaligned;
        EXPECT_EQ(lies_unaligned, uintptr_t(w->storage->data) % sizeof(float) != 0);
        EXPECT_EQ(content(w), raw(numbers));
        EXPECT_FALSE(w->storage->unaligned);
        EXPECT_EQ(uintptr_t(w->storage->data) % sizeof(float), 0u);
        EXPECT_EQ(w->scope, nullptr);
        EXPECT_FALSE(w->storage->produced);
        EXPECT_FALSE(w->storage->user_memory);
        (lies_unaligned ? unaligned : aligned) = true;
    }
    EXPECT_TRUE(aligned && unaligned);
}

TEST_F(OnnxConstants, BytesInMemoryAreCopied) {
    Bytes file = with(tensor("w", UINT8, {8192}, Bytes(8192, 'q')));
    const auto m = of(file);
    file.assign(file.size(), '\0');
    EXPECT_EQ(content(constant(m->graph, "w")), Bytes(8192, 'q'));
    EXPECT_FALSE(constant(m->graph, "w")->storage->deleter != nullptr);
}

TEST_F(OnnxConstants, AMappedTensorMayOutliveTheModel) {
    write(with(tensor("w", UINT8, {8192}, Bytes(8192, 'q'))));
    auto m = file();
    amp_tensor *w = constant(m->graph, "w");
    ASSERT_TRUE(w->storage->deleter != nullptr);
    const int64_t shape[] = {8192}, strides[] = {1};
    amp_tensor *view = amp_tensor_view("test", w, 1, shape, strides, 0);
    m.reset();
    EXPECT_EQ(content(view), Bytes(8192, 'q'));
}

TEST_F(OnnxConstants, TypesThatAreMissingAreNamed) {
    EXPECT_TRUE(has(failure(with(tensor("w", UINT16, {1}, "ab")), AMP_ERROR_DTYPE), {"tensor 'w'", "UINT16"}));
    EXPECT_TRUE(has(failure(with(tensor("w", STRING, {1}, "")), AMP_ERROR_DTYPE), {"tensor 'w'", "STRING"}));
    EXPECT_TRUE(
        has(failure(with(tensor("w", FLOAT8E4M3FN, {1}, "a")), AMP_ERROR_DTYPE), {"tensor 'w'", "FLOAT8E4M3FN"}));
    EXPECT_TRUE(has(failure(with(tensor("w", 22, {1}, "a")), AMP_ERROR_DTYPE), {"tensor 'w'", "INT4"}));
    EXPECT_TRUE(has(failure(with(tensor("w", 77, {1}, "a")), AMP_ERROR_DTYPE), {"tensor 'w'", "does not have"}));
    EXPECT_TRUE(has(failure(with(tensor("w", -1, {1}, "a")), AMP_ERROR_DTYPE), {"tensor 'w'"}));
    Graph g = relu_graph();
    g.inputs = {value("x", UINT64, {2})};
    EXPECT_TRUE(has(failure(model(g), AMP_ERROR_DTYPE), {"input 'x'", "UINT64"}));
    g = relu_graph();
    g.outputs = {value("y", UINT32, {2})};
    EXPECT_TRUE(has(failure(model(g), AMP_ERROR_DTYPE), {"output 'y'", "UINT32"}));
    g = relu_graph();
    g.nodes = {node("Constant", {}, {"y"}, {tensor_attribute("value", tensor("", UINT16, {1}, "ab"))}, "c")};
    EXPECT_TRUE(has(failure(model(g), AMP_ERROR_DTYPE), {"attribute 'value'", "node 'c'", "UINT16"}));
}

TEST_F(OnnxConstants, ContentThatDoesNotFitTheShape) {
    EXPECT_TRUE(has(failure(with(tensor("w", FLOAT, {2, 2}, raw<float>({1, 2, 3}))), AMP_ERROR_IO),
                    {"tensor 'w'", "12 bytes", "[2, 2]", "16"}));
    EXPECT_TRUE(has(failure(with(tensor("w", FLOAT, {}, "")), AMP_ERROR_IO), {"tensor 'w'", "0 bytes"}));
    EXPECT_TRUE(
        has(failure(with(tensor_head("w", FLOAT, {2})), AMP_ERROR_IO), {"tensor 'w'", "0 numbers in float_data"}));
    EXPECT_TRUE(has(failure(with(listed(COMPLEX64, {2}, 4, raw<float>({1, 2}))), AMP_ERROR_IO), {"2 numbers", "4"}));
    EXPECT_TRUE(has(failure(with(numbers(INT8, {128})), AMP_ERROR_IO), {"tensor 'w'", "128", "i8"}));
    EXPECT_TRUE(has(failure(with(numbers(BOOL, {2})), AMP_ERROR_IO), {"tensor 'w'", "bool"}));
    EXPECT_TRUE(has(failure(with(listed(DOUBLE, {1}, 4, raw<float>({1}))), AMP_ERROR_IO), {"double_data"}));
}

TEST_F(OnnxConstants, SparseInitialisersAreRefusedByName) {
    Graph g = relu_graph();
    g.more = bytes(15, bytes(1, tensor("thin", FLOAT, {1}, raw<float>({1}))));
    EXPECT_TRUE(has(failure(model(g), AMP_ERROR_NOT_IMPLEMENTED), {"'thin'", "sparse"}));
}

// ---- Files beside the model --------------------------------------------------------------------------------------

class OnnxExternal : public OnnxConstants {
  protected:
    void lay_tensor(const Bytes &initialiser) {
        write(with(initialiser));
    }
    void lay(const std::string &location, const std::string &offset = "", const std::string &length = "") {
        lay_tensor(external("w", UINT8, {4}, location, offset, length));
    }
};

TEST_F(OnnxExternal, IsReadWhereItLies) {
    write("01234567", "w.bin");
    lay("w.bin", "2", "4");
    EXPECT_EQ(content(constant(file()->graph, "w")), "2345");
    lay("w.bin", "4");
    EXPECT_EQ(content(constant(file()->graph, "w")), "4567");
    lay("./w.bin");
    EXPECT_EQ(content(constant(file()->graph, "w")), "0123");
    std::filesystem::create_directory(path("sub"));
    write("89ab", "sub/w.bin");
    lay("sub//w.bin");
    EXPECT_EQ(content(constant(file()->graph, "w")), "89ab");
}

TEST_F(OnnxExternal, OfAModelInTheWorkingDirectory) {
    write("0123", "w.bin");
    lay("w.bin");
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder);
    onnx_reading::Model m(amp_onnx_read("m.onnx", nullptr));
    std::filesystem::current_path(before);
    ASSERT_NE(m, nullptr) << amp_last_error();
    EXPECT_EQ(content(constant(m->graph, "w")), "0123");
}

TEST_F(OnnxExternal, OneFileIsMappedOnce) {
    Graph g = relu_graph();
    const Bytes data(16384, 'd');
    write(data, "w.bin");
    g.initialisers = {external("a", UINT8, {8192}, "w.bin"), external("b", UINT8, {8192}, "./w.bin", "8192")};
    write(model(g));
    const auto m = file();
    amp_tensor *a = constant(m->graph, "a"), *b = constant(m->graph, "b");
    EXPECT_TRUE(a->storage->deleter != nullptr);
    EXPECT_EQ(static_cast<const char *>(amp_data(a)) + 8192, amp_data(b));
}

TEST_F(OnnxExternal, ATensorWithoutElementsNeedsNoBytes) {
    write("", "w.bin");
    lay_tensor(external("w", FLOAT, {0}, "w.bin", "0", "0"));
    EXPECT_EQ(content(constant(file()->graph, "w")), "");
}

TEST_F(OnnxExternal, LocationsThatLeaveTheFolder) {
    write("0123", "w.bin");
    lay("/etc/passwd");
    EXPECT_TRUE(has(file_failure(), {"tensor 'w'", "/etc/passwd", "absolute"}));
    lay("../w.bin");
    EXPECT_TRUE(has(file_failure(), {"tensor 'w'", "'..'"}));
    lay("sub/../w.bin");
    EXPECT_TRUE(has(file_failure(), {"'..'"}));
    lay("sub/..");
    EXPECT_TRUE(has(file_failure(), {"'..'"}));
    lay("");
    EXPECT_TRUE(has(file_failure(), {"empty"}));
    lay_tensor(tensor_head("w", UINT8, {4}) + number(14, 1));
    EXPECT_TRUE(has(file_failure(), {"tensor 'w'", "empty"}));
    lay("..w.bin"); // a name like any other
    EXPECT_TRUE(has(file_failure(), {"no such file"}));
}

TEST_F(OnnxExternal, LinksAreFollowedIntoTheNamedFolderOnly) {
    const std::string store = path("store"), real = store + "/blob";
    std::filesystem::create_directory(path("models"));
    std::filesystem::create_directory(store);
    write("0123", "store/blob");
    write("4567", "models/inside.bin");
    std::filesystem::create_symlink(real, path("models/w.bin"));
    std::filesystem::create_symlink("inside.bin", path("models/near.bin"));
    std::filesystem::create_directory_symlink(store, path("models/linked"));
    const auto read_with = [&](const std::string &location, const char *data_folder) {
        write(with(external("w", UINT8, {4}, location)), "models/m.onnx");
        const amp_onnx_read_options options = {data_folder};
        onnx_reading::Model m(amp_onnx_read(path("models/m.onnx").c_str(), &options));
        if (m) return content(constant(m->graph, "w"));
        EXPECT_EQ(amp_last_status(), AMP_ERROR_IO);
        const std::string text = amp_last_error();
        amp_clear_error();
        return text;
    };
    EXPECT_TRUE(has(read_with("w.bin", nullptr), {"'w.bin'", "a link leads out of the model's folder"}));
    EXPECT_EQ(read_with("w.bin", store.c_str()), "0123");
    EXPECT_TRUE(has(read_with("near.bin", nullptr), {"'near.bin'", "link"}));
    EXPECT_TRUE(has(read_with("near.bin", store.c_str()), {"link"}));
    EXPECT_TRUE(has(read_with("linked/blob", nullptr), {"link"}));
    EXPECT_EQ(read_with("linked/blob", store.c_str()), "0123");
    EXPECT_EQ(read_with("blob", store.c_str()), "0123") << "a file that only the named folder has";
    EXPECT_EQ(read_with("inside.bin", store.c_str()), "4567");
    EXPECT_TRUE(has(read_with("missing", store.c_str()), {"no such file"}));
    EXPECT_TRUE(has(read_with("w.bin", path("nowhere").c_str()), {"link"}));
}

// Folders that begin alike are different ones.
TEST_F(OnnxExternal, ALinkIntoAFolderOfALongerNameIsRefused) {
    std::filesystem::create_directory(path("a"));
    std::filesystem::create_directory(path("ab"));
    write("0123", "ab/blob");
    std::filesystem::create_symlink(path("ab/blob"), path("a/w.bin"));
    write(with(external("w", UINT8, {4}, "w.bin")), "a/m.onnx");
    EXPECT_EQ(amp_onnx_read(path("a/m.onnx").c_str(), nullptr), nullptr);
    EXPECT_TRUE(has(amp_last_error(), {"link"}));
    amp_clear_error();
}

TEST_F(OnnxExternal, WhatIsNoRegularFile) {
    std::filesystem::create_directory(path("w.bin"));
    lay("w.bin");
    EXPECT_TRUE(has(file_failure(), {"w.bin", "no regular file"}));
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    lay("pipe");
    EXPECT_TRUE(has(file_failure(), {"pipe", "no regular file"}));
    lay("missing");
    EXPECT_TRUE(has(file_failure(), {"tensor 'w'", "missing", "no such file"}));
}

TEST_F(OnnxExternal, BytesThatTheFileDoesNotHave) {
    write("01234567", "w.bin");
    lay("w.bin", "5", "4");
    EXPECT_TRUE(has(file_failure(), {"tensor 'w'", "4 bytes at 5", "w.bin", "8"}));
    lay("w.bin", "18446744073709551615");
    EXPECT_TRUE(has(file_failure(), {"tensor 'w'"}));
    lay("w.bin", "18446744073709551616");
    EXPECT_TRUE(has(file_failure(), {"offset", "no number"}));
    lay("w.bin", "-1");
    EXPECT_TRUE(has(file_failure(), {"offset '-1'"}));
    lay("w.bin", "0x2");
    EXPECT_TRUE(has(file_failure(), {"offset '0x2'"}));
    lay("w.bin", "0", "5");
    EXPECT_TRUE(has(file_failure(), {"5 bytes", "4"}));
    lay_tensor(external("w", UINT8, {1 << 20, 1 << 20}, "w.bin"));
    EXPECT_TRUE(has(file_failure(), {"1099511627776 bytes"}));
}

TEST_F(OnnxExternal, AModelInMemoryHasTheNamedFolderOnly) {
    write("0123", "w.bin");
    const Bytes m = with(external("w", UINT8, {4}, "w.bin"));
    EXPECT_TRUE(has(failure(m, AMP_ERROR_IO), {"a model in memory", "no folder"}));
    const amp_onnx_read_options options = {folder.c_str()};
    onnx_reading::Model found(amp_onnx_read_bytes(m.data(), m.size(), &options));
    ASSERT_NE(found, nullptr) << amp_last_error();
    EXPECT_EQ(content(constant(found->graph, "w")), "0123");
}

} // namespace
