// Gradients of a case: back from its outputs, and what arrives at its leaves against the recorded truth.
#include "amp/grad.h"
#include "replay.h"
#include "replay_gradient_forms.h"

namespace replay {

bool records_gradients(const json_t *json) {
    const json_t *outputs = json_object_get(json, "outputs");
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        if (json_object_get(json_array_get(outputs, i), "cotangent")) return true;
    }
    return false;
}

void require_gradients(const Arguments &arguments) {
    for (const auto &input : arguments.inputs) {
        if (input->requires_grad) amp_tensor_set_requires_grad(input->tensor, true);
    }
}

// "tensors[0]" is recorded as "tensors.0".
static std::string path_of(const Input &input) {
    std::string path = input.argument;
    const size_t bracket = path.find('[');
    if (bracket == std::string::npos) return path;
    path[bracket] = '.';
    path.pop_back();
    return path;
}

using Tensors = std::vector<amp_tensor *>;

static amp_tensor_list list_of(const Tensors &tensors) {
    return {tensors.data(), static_cast<int64_t>(tensors.size()), nullptr};
}

static std::vector<int64_t> shape_of(const amp_tensor *t) {
    const int64_t *shape = amp_tensor_shape(t);
    return {shape, shape + amp_tensor_rank(t)};
}

// The outputs that count, and the gradient of each.
struct Roots {
    Tensors outputs, cotangents;
    std::vector<size_t> numbers; // of the recorded outputs
};

static Roots roots_of(const CaseFile &file, const json_t *json, const Tensors &outputs) {
    const json_t *recorded = require(json, "outputs", JSON_ARRAY);
    Roots roots;
    for (size_t i = 0; i < json_array_size(recorded); i++) {
        const json_t *output = json_array_get(recorded, i);
        if (!json_object_get(output, "cotangent")) continue;
        const bool through = json_object_get(output, "through") != nullptr;
        amp_tensor *t = through ? replay_absolute(outputs[i]) : outputs[i];
        if (!t) throw std::runtime_error(amp_last_error());
        roots.outputs.push_back(t);
        roots.cotangents.push_back(
            load_tensor(file, text_field(output, "cotangent"), amp_tensor_dtype(t), shape_of(t)));
        roots.numbers.push_back(i);
    }
    return roots;
}

// ---- What is compared of a gradient ----

static amp_tensor *compared(const json_t *expected, amp_tensor *gradient, amp_tensor *leaf) {
    if (!gradient || amp_tensor_numel(gradient) == 0) return gradient;
    if (json_is_true(json_object_get(expected, "symmetrize"))) return replay_symmetrized(gradient);
    if (json_object_get(expected, "project")) return replay_projected(gradient, leaf);
    if (!json_object_get(expected, "triangle")) return gradient;
    return replay_triangle(gradient, text_field(expected, "triangle") == "upper");
}

static Comparison compare_gradient(const CaseFile &file, const json_t *expected, amp_tensor *gradient,
                                   amp_tensor *leaf) {
    if (!gradient) return compare_output(file, expected, nullptr);
    const bool was_on = amp_grad_set_enabled(false);
    amp_tensor *t = compared(expected, gradient, leaf);
    amp_grad_set_enabled(was_on);
    if (!t) throw std::runtime_error(amp_last_error());
    Comparison result = compare_output(file, expected, t);
    result.gradients = rms_ratio_of(amp_tensor_dtype(t), result);
    return result;
}

// `null`: none arrives, or zeros. Where zeros are recorded, none may arrive too.
static void compare_at(const CaseFile &file, const json_t *expected, amp_tensor *gradient, amp_tensor *leaf,
                       const std::string &where, Comparison *all) {
    if (!json_is_null(expected)) {
        amp_tensor *got = gradient ? gradient : replay_zeros_like(leaf);
        merge(all, compare_gradient(file, expected, got, leaf), where);
    } else if (!replay_is_zero(gradient) && all->problem.empty()) {
        all->problem = where + ": expected none, or zeros";
    }
}

// ---- The two orders ----

struct Leaf {
    std::string path;
    amp_tensor *tensor;
};

static std::vector<Leaf> leaves_of(const Arguments &arguments) {
    std::vector<Leaf> leaves;
    for (const auto &input : arguments.inputs) {
        if (input->requires_grad) leaves.push_back({path_of(*input), input->tensor});
    }
    return leaves;
}

static amp_status go_back(const Tensors &outputs, const Tensors &gradients, bool create) {
    amp_backward_all_args args = {};
    args.struct_size = sizeof args;
    args.outputs = list_of(outputs);
    args.gradients = list_of(gradients);
    args.create_graph = create;
    return amp_backward_all_call(&args);
}

// L2 = Σ Re⟨vector, gradient⟩: the vectors are the gradients of the gradients.
static amp_status second_backward(const CaseFile &file, const json_t *second, const std::vector<Leaf> &leaves) {
    const json_t *vectors = require(second, "vectors", JSON_OBJECT);
    Tensors roots, gradients;
    for (const Leaf &leaf : leaves) {
        amp_tensor *first = amp_tensor_grad(leaf.tensor);
        const json_t *key = json_object_get(vectors, leaf.path.c_str());
        if (!first || !key || !amp_tensor_requires_grad(first)) continue;
        roots.push_back(amp_retain(first));
        gradients.push_back(load_tensor(file, json_string_value(key), amp_tensor_dtype(first), shape_of(first)));
    }
    for (const Leaf &leaf : leaves) amp_tensor_zero_grad(leaf.tensor);
    const amp_status status = roots.empty() ? AMP_OK : go_back(roots, gradients, false);
    for (amp_tensor *root : roots) amp_release(root);
    return status;
}

static void compare_leaves(const CaseFile &file, const json_t *expected, const std::vector<Leaf> &leaves,
                           const std::string &what, Comparison *all) {
    for (const Leaf &leaf : leaves) {
        const json_t *value = json_object_get(expected, leaf.path.c_str());
        if (value) compare_at(file, value, amp_tensor_grad(leaf.tensor), leaf.tensor, what + leaf.path, all);
    }
}

// False: something on the way has no gradient yet.
static bool compare_second(const CaseFile &file, const json_t *second, const std::vector<Leaf> &leaves,
                           const Roots &roots, Comparison *all) {
    const amp_status status = second_backward(file, second, leaves);
    if (status == AMP_ERROR_NOT_IMPLEMENTED) return false;
    if (status != AMP_OK) {
        if (all->problem.empty()) all->problem = std::string("second: ") + amp_last_error();
        return true;
    }
    compare_leaves(file, require(second, "grads", JSON_OBJECT), leaves, "second gradient of ", all);
    const json_t *cotangents = json_object_get(second, "cotangent_grads");
    for (size_t i = 0; i < roots.cotangents.size(); i++) {
        const std::string number = std::to_string(roots.numbers[i]);
        const json_t *value = json_object_get(cotangents, number.c_str());
        amp_tensor *t = roots.cotangents[i];
        if (value) compare_at(file, value, amp_tensor_grad(t), t, "second gradient of cotangent " + number, all);
    }
    return true;
}

// Recorded gradients hold the record, which holds the leaves.
struct LetGo {
    const std::vector<Leaf> &leaves;
    const Roots &roots;
    ~LetGo() {
        for (const Leaf &leaf : leaves) amp_tensor_zero_grad(leaf.tensor);
        for (amp_tensor *t : roots.cotangents) amp_tensor_zero_grad(t);
    }
};

bool compare_gradients(const CaseFile &file, const json_t *json, const Arguments &arguments, const Tensors &outputs,
                       Comparison *all) {
    const json_t *second = json_object_get(json, "second");
    const std::vector<Leaf> leaves = leaves_of(arguments);
    const Roots roots = roots_of(file, json, outputs);
    for (amp_tensor *t : roots.outputs) {
        if (!amp_tensor_requires_grad(t)) return false;
    }
    const LetGo let_go = {leaves, roots};
    if (second) {
        for (amp_tensor *t : roots.cotangents) amp_tensor_set_requires_grad(t, true);
    }
    const amp_status status = go_back(roots.outputs, roots.cotangents, second != nullptr);
    if (status == AMP_ERROR_NOT_IMPLEMENTED) return false;
    if (status != AMP_OK) {
        if (all->problem.empty()) all->problem = amp_last_error();
        return true;
    }
    compare_leaves(file, require(json, "grads", JSON_OBJECT), leaves, "gradient of ", all);
    return !second || !all->problem.empty() || compare_second(file, second, leaves, roots, all);
}

} // namespace replay
