// amp replay: what its parts share. The format of the files is described in docs/replay.md.
#ifndef AMP_TOOL_REPLAY_H
#define AMP_TOOL_REPLAY_H

#include <jansson.h>

#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "amp/call.h"
#include "amp/io.h"
#include "amp/tensor.h"

namespace replay {

// A file, or a case in it, is not what the format says.
struct Malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Options {
    amp_device device = AMP_DEVICE_CPU;
    std::string folder, filter, allow_missing, allow_wrong;
    std::vector<std::string> load; // shared objects that define ops
    bool json = false, strided = false, time = false;
};

struct JsonDeleter {
    void operator()(json_t *value) const {
        json_decref(value);
    }
};
struct SafetensorsDeleter {
    void operator()(amp_safetensors *file) const {
        amp_safetensors_close(file);
    }
};

// NAME.json and NAME.safetensors.
struct CaseFile {
    std::string name;
    std::unique_ptr<json_t, JsonDeleter> cases;
    std::unique_ptr<amp_safetensors, SafetensorsDeleter> tensors;
};

// All case files of a folder, by name. Throws Malformed.
std::vector<CaseFile> load_folder(const std::string &folder);

// ---- One case ----

// A tensor argument in memory of the tool's own, with guard bytes around it and, strided, between its elements.
struct Input {
    std::string argument;
    amp_tensor *tensor = nullptr;
    bool requires_grad = false;
    std::vector<unsigned char> memory, before;
    size_t start = 0;                // in memory, of what a device is given: aligned
    amp_tensor *on_device = nullptr; // that copy, on a device other than the CPU
};

// Arguments as amp_call_op wants them, and what they point at.
struct Arguments {
    std::vector<amp_argument> list;
    std::vector<std::unique_ptr<Input>> inputs;
    std::vector<std::unique_ptr<std::vector<amp_tensor *>>> lists;
};

// What "$name" stands for, in a program.
using Names = std::map<std::string, amp_tensor *>;

// Throws Malformed. Tensors belong to the innermost scope.
Arguments make_arguments(const CaseFile &file, const std::string &op, const json_t *inputs, bool strided,
                         const Names *names = nullptr);

// The field of a case, of the kind that it must have. Throws Malformed.
const json_t *require(const json_t *object, const char *field, json_type type);
std::string text_field(const json_t *object, const char *field);
amp_dtype dtype_field(const json_t *object, const char *field);
std::vector<int64_t> shape_field(const json_t *object);

// ---- Comparing ----

// Our error over PyTorch's, as a geometric mean over outputs: those compared as `close`, but f64 and c128. Both errors
// count as half a unit in the last place of the output's largest value at least, for below that a difference is luck.
struct ErrorRatio {
    double log_sum = 0;
    int outputs = 0;

    void add(const ErrorRatio &other) {
        log_sum += other.log_sum;
        outputs += other.outputs;
    }
    double mean() const; // negative if there are no outputs
};

struct Comparison {
    std::string problem;     // empty: it holds
    double share = 0;        // largest error as a share of what is allowed
    double error = 0;        // largest absolute error
    double torch_error = -1; // PyTorch's; negative if it is not recorded
    double rms = 0;          // root-mean-square error
    double torch_rms = -1;
    double largest = 0; // finite absolute value of the reference
    ErrorRatio ratio;
    ErrorRatio gradients; // of root-mean-square errors, over gradients and those of gradients
};

// As ErrorRatio, of root-mean-square errors.
ErrorRatio rms_ratio_of(amp_dtype dtype, const Comparison &comparison);

// `expected` is an element of a case's `outputs`.
Comparison compare_output(const CaseFile &file, const json_t *expected, const amp_tensor *got);
// The stored tensor of a key, as a tensor of its own.
amp_tensor *load_tensor(const CaseFile &file, const std::string &key, amp_dtype dtype,
                        const std::vector<int64_t> &shape);
// `expected` is a value of a case's `after`.
Comparison compare_after(const CaseFile &file, const json_t *expected, const amp_tensor *got);

// ---- Gradients ----

// The case records gradients: its leaves are to require them before the call.
bool records_gradients(const json_t *json);
void require_gradients(const Arguments &arguments);
// Goes back from the outputs, with the recorded gradients of these, and compares what arrives; the second gradients too. False: an
// output requires none, because the op has no gradient yet.
bool compare_gradients(const CaseFile &file, const json_t *json, const Arguments &arguments,
                       const std::vector<amp_tensor *> &outputs, Comparison *all);
void merge(Comparison *into, const Comparison &from, const std::string &where);

// ---- Programs ----

// A case with steps, in place of one call.
bool is_program(const json_t *json);
void run_program(const CaseFile &file, const json_t *json, Comparison *all);

// ---- Results ----

struct OpResult {
    int cases = 0, passed = 0, failed = 0, missing = 0, wrong = 0;
    Comparison worst; // of the case with the largest share
    std::string worst_case;
    ErrorRatio ratio;
    std::vector<std::string> missing_cases, present_cases;
    std::string timed_case;  // the largest f32 case that passed
    double nanoseconds = -1; // of a call of it; negative: not timed
};

struct Failure {
    std::string file, name, op, problem;
};

struct Results {
    std::map<std::string, OpResult> ops;
    std::map<std::string, ErrorRatio> gradients, gradients_of_ops; // by file, and by op
    std::vector<Failure> failures;
    int other_device = 0; // cases that belong to another device
    int malformed = 0;
    std::set<std::string> missing, not_allowed, stale; // op names
    std::set<std::string> right;                       // cases listed as wrongly recorded that pass
};

void print_table(const Options &options, const Results &results);
void print_json(const Options &options, const Results &results, int exit_code);

} // namespace replay

#endif // AMP_TOOL_REPLAY_H
