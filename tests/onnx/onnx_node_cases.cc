// Runs ONNX's own node tests, written as folders: DIR/cases.json is a list of
//   {"name", "family", "rtol", "atol", "inputs": [T…], "outputs": [T…]},  T = {"name", "dtype", "file"}
// and DIR/NAME holds model.onnx and the tensors as .npy (bfloat16 as the bits). Compared as the runner of the onnx package
// does: equal dtypes and shapes, |out - expected| <= atol + rtol * |expected|, NaN equal to NaN, all else exactly.
//
// onnx_node_cases DIR [--only SUBSTRING] [--family NAME] [--missing FILE]… [--device cpu|cuda] [--list-failures]
// prints a table by family, then each case that failed though no FILE lists it, or passed though one does; with
// --list-failures every one that did not pass, as a FILE has them: its name and the sentence. Exit code 1 if there is one
// of the first two kinds, 2 for a mistake in the call.
#include <jansson.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "amp/amp.h"

namespace {

struct Options {
    std::string folder, only, family;
    std::vector<std::string> missing;
    amp_device device = AMP_DEVICE_CPU;
    bool list_failures = false;
};

struct Tensor {
    std::string dtype, file; // file "": an optional input that is left out
};

struct Case {
    std::string name, family;
    double rtol, atol;
    std::vector<Tensor> inputs, outputs;
};

enum Kind { PASSED, UNSUPPORTED, FAILED, KINDS };

struct Outcome {
    Kind kind;
    std::string sentence;
};

struct ReleaseGraph {
    void operator()(amp_graph *graph) const {
        amp_graph_release(graph);
    }
};
using Graph = std::unique_ptr<amp_graph, ReleaseGraph>;

// ---- Cases ----

using Json = std::unique_ptr<json_t, decltype(&json_decref)>;

std::string text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

std::vector<Tensor> tensors(const json_t *list) {
    std::vector<Tensor> all;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *t = json_array_get(list, i);
        all.push_back({text(t, "dtype"), text(t, "file")});
    }
    return all;
}

std::vector<Case> load_cases(const std::string &folder) {
    json_error_t error;
    const std::string path = folder + "/cases.json";
    const Json root(json_load_file(path.c_str(), 0, &error), json_decref);
    if (!json_is_array(root.get())) throw std::runtime_error(path + ": " + error.text);
    std::vector<Case> cases;
    for (size_t i = 0; i < json_array_size(root.get()); i++) {
        const json_t *c = json_array_get(root.get(), i);
        cases.push_back({text(c, "name"), text(c, "family"), json_number_value(json_object_get(c, "rtol")),
                         json_number_value(json_object_get(c, "atol")), tensors(json_object_get(c, "inputs")),
                         tensors(json_object_get(c, "outputs"))});
    }
    return cases;
}

// Name and reason on a line; "#" begins a comment.
void load_missing(const std::string &path, std::set<std::string> *missing) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error(path + ": cannot be read");
    for (std::string line; std::getline(file, line);) {
        const size_t end = line.find(' ');
        if (line.empty() || line[0] == '#') continue;
        if (end == std::string::npos) throw std::runtime_error(path + ": no reason: " + line);
        missing->insert(line.substr(0, end));
    }
}

// ---- Values ----

amp_dtype dtype_of(const std::string &onnx) {
    static const std::map<std::string, amp_dtype> dtypes = {
        {"float", AMP_F32}, {"double", AMP_F64}, {"float16", AMP_F16},   {"bfloat16", AMP_BF16},
        {"int64", AMP_I64}, {"int32", AMP_I32},  {"int16", AMP_I16},     {"int8", AMP_I8},
        {"uint8", AMP_U8},  {"bool", AMP_BOOL},  {"complex64", AMP_C64}, {"complex128", AMP_C128}};
    const auto found = dtypes.find(onnx);
    return found == dtypes.end() ? AMP_DTYPE_NONE : found->second;
}

// NumPy has no bf16: the file holds the bits, which come as integers.
amp_tensor *load(const std::string &folder, const Tensor &t) {
    amp_tensor *loaded = amp_load_npy((folder + "/" + t.file).c_str());
    if (t.dtype != "bfloat16" || !loaded) return loaded;
    const size_t count = static_cast<size_t>(amp_tensor_numel(loaded));
    std::vector<int32_t> wide(count + 1);
    if (amp_read(loaded, AMP_I32, wide.data(), count * sizeof wide[0]) != AMP_OK) return nullptr;
    const std::vector<uint16_t> bits(wide.begin(), wide.end());
    return amp_from_data(bits.data(), AMP_BF16, amp_tensor_rank(loaded), amp_tensor_shape(loaded));
}

std::string describe(const amp_tensor *t) {
    std::string s = "[";
    for (int d = 0; d < amp_tensor_rank(t); d++) s += (d ? ", " : "") + std::to_string(amp_tensor_shape(t)[d]);
    return s + "] " + amp_dtype_name(amp_tensor_dtype(t));
}

struct Unreadable {}; // the error stands

template <typename T>
std::vector<T> values(const amp_tensor *t, amp_dtype dtype) {
    const size_t count = static_cast<size_t>(amp_tensor_numel(t)) * amp_dtype_size(dtype) / sizeof(T);
    std::vector<T> all(count + 1); // never without memory
    if (amp_read(t, dtype, all.data(), count * sizeof(T)) != AMP_OK) throw Unreadable();
    all.resize(count);
    return all;
}

std::string number(double x) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.9g", x);
    return digits;
}

bool is_close(double out, double expected, const Case &c) {
    if (std::isnan(expected) || std::isnan(out)) return std::isnan(expected) && std::isnan(out);
    if (std::isinf(expected) || std::isinf(out)) return out == expected;
    return std::fabs(out - expected) <= c.atol + c.rtol * std::fabs(expected);
}

std::string compare_floats(const amp_tensor *out, const amp_tensor *expected, const Case &c) {
    const amp_dtype dtype = amp_dtype_is_complex(amp_tensor_dtype(out)) ? AMP_C128 : AMP_F64;
    const auto a = values<double>(out, dtype), b = values<double>(expected, dtype);
    for (size_t i = 0; i < a.size(); i++) {
        if (!is_close(a[i], b[i], c))
            return "element " + std::to_string(i) + " is " + number(a[i]) + "; expected " + number(b[i]);
    }
    return "";
}

std::string compare_integers(const amp_tensor *out, const amp_tensor *expected) {
    const auto a = values<int64_t>(out, AMP_I64), b = values<int64_t>(expected, AMP_I64);
    for (size_t i = 0; i < a.size(); i++) {
        if (a[i] != b[i])
            return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + "; expected " +
                   std::to_string(b[i]);
    }
    return "";
}

// "" if they agree.
std::string compare(const amp_tensor *out, const amp_tensor *expected, const Case &c) {
    const amp_dtype dtype = amp_tensor_dtype(out);
    if (describe(out) != describe(expected)) return "is " + describe(out) + "; expected " + describe(expected);
    return amp_dtype_is_floating(dtype) || amp_dtype_is_complex(dtype) ? compare_floats(out, expected, c)
                                                                       : compare_integers(out, expected);
}

// ---- Running ----

// The error that stands, as an outcome.
Outcome failure(const std::string &before = "") {
    const Kind kind = amp_last_status() == AMP_ERROR_NOT_IMPLEMENTED ? UNSUPPORTED : FAILED;
    Outcome outcome = {kind, before + amp_last_error()};
    amp_clear_error();
    return outcome;
}

// The first type among the tensors that libamp lacks.
std::string lacking(const Case &c) {
    for (const auto *all : {&c.inputs, &c.outputs}) {
        for (const Tensor &t : *all) {
            if (dtype_of(t.dtype) == AMP_DTYPE_NONE) return t.dtype;
        }
    }
    return "";
}

std::vector<amp_tensor *> load_inputs(const std::string &folder, const Case &c, amp_device device) {
    std::vector<amp_tensor *> inputs;
    for (const Tensor &t : c.inputs) {
        amp_tensor *x = t.file.empty() ? nullptr : load(folder, t);
        amp_to_device_args there;
        there.input = x;
        there.device = device;
        inputs.push_back(x && device != AMP_DEVICE_CPU ? amp_to_device_call(&there) : x);
    }
    return inputs;
}

Outcome run_once(amp_graph *graph, const std::string &folder, const Case &c, std::vector<amp_tensor *> *inputs) {
    std::vector<amp_tensor *> outputs(c.outputs.size(), nullptr);
    const int wanted = static_cast<int>(outputs.size());
    if (amp_last_status() != AMP_OK ||
        amp_graph_run(graph, inputs->data(), static_cast<int>(inputs->size()), outputs.data(), wanted) != AMP_OK)
        return failure();
    for (int i = 0; i < wanted; i++) {
        const amp_tensor *expected = c.outputs[i].file.empty() ? nullptr : load(folder, c.outputs[i]);
        if (amp_last_status() != AMP_OK) return failure();
        const std::string difference = expected ? compare(outputs[i], expected, c) : "";
        if (!difference.empty()) return {FAILED, "output " + std::to_string(i) + ": " + difference};
    }
    return {PASSED, ""};
}

// What a graph keeps of its first run is not to depend on the numbers that came in: that run sees zeros, with which a model
// need not get along.
void run_with_zeros(amp_graph *graph, const Case &c, const std::vector<amp_tensor *> &inputs) {
    std::vector<amp_tensor *> zeros, outputs(c.outputs.size(), nullptr);
    for (amp_tensor *x : inputs) {
        amp_zeros_like_args like;
        like.input = x;
        zeros.push_back(x ? amp_zeros_like_call(&like) : nullptr);
    }
    (void)amp_graph_run(graph, zeros.data(), static_cast<int>(zeros.size()), outputs.data(),
                        static_cast<int>(outputs.size()));
    if (amp_tensor_device(inputs.empty() ? nullptr : inputs[0]) == AMP_DEVICE_CUDA) (void)amp_cuda_synchronize();
    amp_clear_error();
}

// The first run computes op by op, the second what was captured of that.
Outcome run_graph(amp_graph *graph, const std::string &folder, const Case &c, amp_device device) {
    amp_scope_here();
    std::vector<amp_tensor *> inputs = load_inputs(folder, c, device);
    if (amp_last_status() != AMP_OK) return failure();
    run_with_zeros(graph, c, inputs);
    Outcome first = run_once(graph, folder, c, &inputs);
    return first.kind == PASSED ? run_once(graph, folder, c, &inputs) : first;
}

Outcome run_case(const Case &c, const Options &options) {
    const std::string folder = options.folder + "/" + c.name;
    const size_t live = amp_memory_statistics().live_tensors;
    const std::string dtype = lacking(c);
    if (!dtype.empty()) return {UNSUPPORTED, "libamp has no " + dtype};
    Outcome outcome;
    {
        const Graph graph(amp_graph_load((folder + "/model.onnx").c_str(), nullptr));
        try {
            outcome = graph ? run_graph(graph.get(), folder, c, options.device) : failure();
        } catch (const Unreadable &) {
            outcome = failure();
        }
    }
    const size_t left = amp_memory_statistics().live_tensors - live;
    return left == 0 ? outcome : Outcome{FAILED, std::to_string(left) + " tensors were left over"};
}

// ---- Report ----

struct Row {
    int cases = 0, by_kind[KINDS] = {};
};

void print_table(const std::map<std::string, Row> &rows) {
    Row all;
    std::printf("%-12s %6s %7s %14s %7s\n", "family", "cases", "passed", "not supported", "failed");
    const auto print = [](const char *name, const Row &r) {
        std::printf("%-12s %6d %7d %14d %7d\n", name, r.cases, r.by_kind[PASSED], r.by_kind[UNSUPPORTED],
                    r.by_kind[FAILED]);
    };
    for (const auto &[family, row] : rows) {
        print(family.c_str(), row);
        all.cases += row.cases;
        for (int k = 0; k < KINDS; k++) all.by_kind[k] += row.by_kind[k];
    }
    print("all", all);
}

int run(const Options &options) {
    std::set<std::string> missing;
    for (const std::string &path : options.missing) load_missing(path, &missing);
    std::map<std::string, Row> rows;
    std::string listed, unexpected;
    for (const Case &c : load_cases(options.folder)) {
        if (c.name.find(options.only) == std::string::npos) continue;
        if (!options.family.empty() && c.family != options.family) continue;
        const Outcome outcome = run_case(c, options);
        const bool is_listed = missing.count(c.name) > 0, passed = outcome.kind == PASSED;
        rows[c.family].cases++;
        rows[c.family].by_kind[outcome.kind]++;
        if (!passed) listed += c.name + " " + outcome.sentence + "\n";
        if (passed && is_listed) unexpected += c.name + ": passes, though a list has it\n";
        if (!passed && !is_listed) unexpected += c.name + ": " + outcome.sentence + "\n";
    }
    if (rows.empty()) throw std::runtime_error(options.folder + ": no such cases");
    print_table(rows);
    std::printf("%s", (options.list_failures ? listed : unexpected).c_str());
    return unexpected.empty() ? 0 : 1;
}

Options parse(int argc, char **argv) {
    Options options;
    const std::map<std::string, std::string Options::*> texts = {{"--only", &Options::only},
                                                                 {"--family", &Options::family}};
    for (int i = 1; i < argc; i++) {
        const std::string word = argv[i];
        const auto found = texts.find(word);
        if (word == "--list-failures") {
            options.list_failures = true;
        } else if (found != texts.end() && i + 1 < argc) {
            options.*found->second = argv[++i];
        } else if (word == "--missing" && i + 1 < argc) {
            options.missing.push_back(argv[++i]);
        } else if (word == "--device" && i + 1 < argc) {
            options.device = std::strcmp(argv[++i], "cuda") == 0 ? AMP_DEVICE_CUDA : AMP_DEVICE_CPU;
        } else if (options.folder.empty() && word.rfind("--", 0) != 0) {
            options.folder = word;
        } else {
            throw std::invalid_argument("onnx_node_cases: what is '" + word + "'?");
        }
    }
    if (options.folder.empty()) throw std::invalid_argument("onnx_node_cases: which folder?");
    return options;
}

} // namespace

int main(int argc, char **argv) {
    try {
        return run(parse(argc, argv));
    } catch (const std::exception &e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 2;
    }
}
