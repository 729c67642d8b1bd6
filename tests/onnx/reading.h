// What the tests of the ONNX reader share: models from bytes and from files in a folder of the test's own, and nothing
// left behind.
#ifndef AMP_TESTS_ONNX_READING_H
#define AMP_TESTS_ONNX_READING_H

#include "internals.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "amp_test.h"
#include "onnx_writer.h"

extern "C" {
#include "onnx/model.h"
}

namespace onnx_reading {

struct Free {
    void operator()(amp_onnx_model *model) const {
        amp_onnx_free(model);
    }
};
using Model = std::unique_ptr<amp_onnx_model, Free>;

class Test : public amp_test::Test {
  protected:
    void SetUp() override {
        folder = ::testing::TempDir() + "amp-onnx-XXXXXX";
        ASSERT_NE(mkdtemp(folder.data()), nullptr);
    }
    void TearDown() override {
        std::filesystem::remove_all(folder);
        amp_test::Test::TearDown();
    }
    std::string path(const std::string &name = "m.onnx") const {
        return folder + "/" + name;
    }
    void write(const std::string &bytes, const std::string &name = "m.onnx") const {
        std::ofstream(path(name), std::ios::binary) << bytes;
    }

    // A model that reads; the test ends with an error otherwise.
    static Model of(const std::string &bytes) {
        Model model(amp_onnx_read_bytes(bytes.data(), bytes.size(), nullptr));
        EXPECT_NE(model, nullptr) << amp_last_error();
        return model;
    }
    Model file(const char *data_folder = nullptr) const {
        const amp_onnx_read_options options = {data_folder};
        Model model(amp_onnx_read(path().c_str(), &options));
        EXPECT_NE(model, nullptr) << amp_last_error();
        return model;
    }

    // The sentence of a model that does not: one, and with its status.
    static std::string sentence(const Model &model, amp_status status) {
        EXPECT_EQ(model, nullptr);
        EXPECT_EQ(amp_last_status(), status) << amp_last_error();
        std::string text = amp_last_error();
        EXPECT_EQ(text.find("graph_load: "), 0u) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
        EXPECT_NE(text.back(), '.') << text;
        amp_clear_error();
        return text;
    }
    static std::string failure(const std::string &bytes, amp_status status = AMP_ERROR_INVALID) {
        return sentence(Model(amp_onnx_read_bytes(bytes.data(), bytes.size(), nullptr)), status);
    }
    std::string file_failure(amp_status status = AMP_ERROR_IO, const char *data_folder = nullptr) const {
        const amp_onnx_read_options options = {data_folder};
        return sentence(Model(amp_onnx_read(path().c_str(), &options)), status);
    }

    // The number of a value by its name.
    static int number_of(const amp_onnx_graph *graph, const std::string &name) {
        for (int i = 0; i < graph->value_count; i++) {
            if (graph->values[i].name == name) return i;
        }
        ADD_FAILURE() << "no value " << name;
        return 0;
    }
    static amp_tensor *constant(const amp_onnx_graph *graph, const std::string &name) {
        return graph->values[number_of(graph, name)].constant;
    }
    static std::vector<std::string> types_of(const amp_onnx_graph *graph) {
        std::vector<std::string> types;
        for (int i = 0; i < graph->node_count; i++) types.push_back(graph->nodes[i].type);
        return types;
    }
    // What a tensor's elements are, as bytes.
    static std::string content(const amp_tensor *t) {
        return {static_cast<const char *>(amp_data(t)),
                size_t(amp_tensor_numel(t)) * amp_dtype_size(amp_tensor_dtype(t))};
    }

    std::string folder;
};

inline testing::AssertionResult has(const std::string &text, const std::vector<std::string> &words) {
    for (const std::string &word : words) {
        if (text.find(word) == std::string::npos)
            return testing::AssertionFailure() << "no '" << word << "' in: " << text;
    }
    return testing::AssertionSuccess();
}

} // namespace onnx_reading

#endif // AMP_TESTS_ONNX_READING_H
