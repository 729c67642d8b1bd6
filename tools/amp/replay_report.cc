// The report of amp replay: a table for people, JSON for programs.
#include <cmath>
#include <cstdio>

#include "replay.h"

namespace replay {

static std::string number(double value) {
    char text[32];
    if (value < 0) return "-";
    std::snprintf(text, sizeof text, "%.2g", value);
    return text;
}

static std::string percent(double share) {
    char text[32];
    if (std::isinf(share)) return "inf";
    std::snprintf(text, sizeof text, share < 10 ? "%.1f %%" : "%.3g %%", share * 100);
    return text;
}

static std::string join(const std::set<std::string> &names) {
    std::string text;
    for (const std::string &name : names) text += " " + name;
    return text;
}

static OpResult total_of(const Results &results) {
    OpResult total;
    for (const auto &[name, op] : results.ops) {
        total.cases += op.cases;
        total.passed += op.passed;
        total.failed += op.failed;
        total.missing += op.missing;
        total.ratio.add(op.ratio);
        total.wrong += op.wrong;
    }
    return total;
}

static void print_ops(const Results &results, bool time) {
    std::printf("%-34s %6s %6s %6s %8s %13s %9s %9s %9s%s\n", "op", "cases", "passed", "failed", "missing",
                "worst/allowed", "error", "PyTorch's", "ratio*", time ? "        ns" : "");
    for (const auto &[name, op] : results.ops) {
        if (op.missing == op.cases) continue;
        std::printf("%-34s %6d %6d %6d %8d %13s %9s %9s %9s", name.c_str(), op.cases, op.passed, op.failed, op.missing,
                    percent(op.worst.share).c_str(), number(op.worst.error).c_str(),
                    number(op.worst.torch_error).c_str(), number(op.ratio.mean()).c_str());
        if (op.nanoseconds >= 0) std::printf(" %9.0f", op.nanoseconds);
        std::printf("\n");
    }
    std::printf(
        "* our largest error over PyTorch's, geometric mean of the outputs compared within a tolerance (not f64, "
        "c128)\n");
}

static ErrorRatio all_gradients(const Results &results) {
    ErrorRatio all;
    for (const auto &[file, ratio] : results.gradients) all.add(ratio);
    return all;
}

static void print_gradients(const Results &results) {
    const ErrorRatio all = all_gradients(results);
    if (!all.outputs) return;
    std::printf("error of our gradients over PyTorch's: %.3f (root mean squares, geometric mean of %d; by file:",
                all.mean(), all.outputs);
    for (const auto &[file, ratio] : results.gradients) {
        if (ratio.outputs) std::printf(" %s %.3f", file.c_str(), ratio.mean());
    }
    std::printf(")\n");
}

void print_table(const Options &options, const Results &results) {
    for (const Failure &f : results.failures)
        std::printf("FAILED %s/%s: %s\n", f.file.c_str(), f.name.c_str(), f.problem.c_str());
    if (!results.failures.empty()) std::printf("\n");
    print_ops(results, options.time);
    const OpResult total = total_of(results);
    std::printf("\n%d cases on %s%s: %d passed, %d failed", total.cases, amp_device_name(options.device),
                options.strided ? ", strided inputs" : "", total.passed, total.failed);
    if (total.missing)
        std::printf(", %d of %zu ops that are not implemented yet", total.missing, results.missing.size());
    if (total.wrong) std::printf(", %d recorded wrongly", total.wrong);
    if (results.malformed) std::printf(", %d malformed", results.malformed);
    std::printf("\n");
    if (total.ratio.outputs) {
        std::printf("our error over PyTorch's: %.3f (geometric mean of %d outputs)\n", total.ratio.mean(),
                    total.ratio.outputs);
    }
    print_gradients(results);
    if (results.other_device) {
        std::printf("%d more cases belong to another device's regions and were not run\n", results.other_device);
    }
    if (!results.not_allowed.empty()) {
        std::printf("not implemented, and not in the list of --allow-missing:%s\n", join(results.not_allowed).c_str());
    }
    if (!results.stale.empty()) {
        std::printf("implemented, so remove them from %s, which may only shrink:%s\n", options.allow_missing.c_str(),
                    join(results.stale).c_str());
    }
    if (!results.right.empty()) {
        std::printf("they pass, so remove them from %s:%s\n", options.allow_wrong.c_str(), join(results.right).c_str());
    }
}

// ---- JSON ----

// JSON has no infinity.
static json_t *real(double value) {
    return std::isfinite(value) ? json_real(value) : json_null();
}

static json_t *names(const std::set<std::string> &set) {
    json_t *list = json_array();
    for (const std::string &name : set) json_array_append_new(list, json_string(name.c_str()));
    return list;
}

static void set_ratio(json_t *object, const ErrorRatio &ratio) {
    json_object_set_new(object, "error_ratio", ratio.outputs ? real(ratio.mean()) : json_null());
    json_object_set_new(object, "error_ratio_outputs", json_integer(ratio.outputs));
}

static json_t *ratios(const std::map<std::string, ErrorRatio> &by_name) {
    json_t *object = json_object();
    for (const auto &[name, ratio] : by_name) {
        if (ratio.outputs) json_object_set_new(object, name.c_str(), real(ratio.mean()));
    }
    return object;
}

static json_t *op_object(const std::string &name, const OpResult &op) {
    json_t *object = json_pack("{s:s, s:i, s:i, s:i, s:i}", "op", name.c_str(), "cases", op.cases, "passed", op.passed,
                               "failed", op.failed, "missing", op.missing);
    if (op.missing == op.cases) return object;
    json_object_set_new(object, "worst_share", real(op.worst.share));
    json_object_set_new(object, "error", real(op.worst.error));
    json_object_set_new(object, "torch_error", op.worst.torch_error < 0 ? json_null() : real(op.worst.torch_error));
    set_ratio(object, op.ratio);
    json_object_set_new(object, "worst_case", json_string(op.worst_case.c_str()));
    if (op.nanoseconds >= 0) {
        json_object_set_new(object, "timed_case", json_string(op.timed_case.c_str()));
        json_object_set_new(object, "nanoseconds", real(op.nanoseconds));
    }
    return object;
}

void print_json(const Options &options, const Results &results, int exit_code) {
    const OpResult total = total_of(results);
    json_t *ops = json_array(), *failures = json_array();
    for (const auto &[name, op] : results.ops) json_array_append_new(ops, op_object(name, op));
    for (const Failure &f : results.failures) {
        json_array_append_new(failures, json_pack("{s:s, s:s, s:s, s:s}", "file", f.file.c_str(), "case",
                                                  f.name.c_str(), "op", f.op.c_str(), "problem", f.problem.c_str()));
    }
    json_t *root =
        json_pack("{s:s, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "device",
                  amp_device_name(options.device), "strided", options.strided, "cases", total.cases, "passed",
                  total.passed, "failed", total.failed, "missing", total.missing, "wrong", total.wrong, "malformed",
                  results.malformed, "other_device", results.other_device, "exit_code", exit_code, "missing_ops",
                  names(results.missing), "not_allowed", names(results.not_allowed), "remove_from_list",
                  names(results.stale), "remove_from_wrong", names(results.right), "ops", ops, "failures", failures);
    set_ratio(root, total.ratio);
    const ErrorRatio gradients = all_gradients(results);
    json_object_set_new(root, "gradient_ratio", gradients.outputs ? real(gradients.mean()) : json_null());
    json_object_set_new(root, "gradient_ratios_of_files", ratios(results.gradients));
    json_object_set_new(root, "gradient_ratios_of_ops", ratios(results.gradients_of_ops));
    json_dumpf(root, stdout, JSON_INDENT(1));
    std::printf("\n");
    json_decref(root);
}

} // namespace replay
