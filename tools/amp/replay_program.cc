// Programs of several ops: reuse, views, writes in place, regions, several backwards; their gradients, or the error that they must end in.
#include "amp/autocast.h"
#include "amp/grad.h"
#include "replay.h"
#include "replay_gradient_forms.h"

namespace replay {

// Names and what they stand for, while a program runs.
struct Program {
    const CaseFile &file;
    const json_t *json;
    Names names;
    std::vector<std::unique_ptr<Arguments>> kept; // what arguments point at

    amp_tensor *tensor_of(const std::string &name) const {
        const auto found = names.find(name);
        if (found == names.end()) throw Malformed("there is no '" + name + "' at this point of the program");
        return found->second;
    }

    void add(const std::string &name, const json_t *tensor) {
        const std::vector<int64_t> shape = shape_field(tensor);
        const amp_dtype dtype = dtype_field(tensor, "dtype");
        names[name] = load_tensor(file, text_field(tensor, "tensor"), dtype, shape);
        if (json_is_true(json_object_get(tensor, "requires_grad"))) amp_tensor_set_requires_grad(names[name], true);
    }

    void add_all(const char *field) {
        const char *name;
        json_t *value;
        json_object_foreach(json_object_get(json, field), name, value) {
            add(name, value);
        }
    }

    // False: an error stands.
    bool run(const json_t *steps) {
        for (size_t i = 0; i < json_array_size(steps); i++) {
            if (!step(json_array_get(steps, i))) return false;
        }
        return amp_last_status() == AMP_OK;
    }

  private:
    bool step(const json_t *s) {
        if (json_object_get(s, "op")) return call(s);
        if (json_object_get(s, "backward")) return backward(s);
        if (json_object_get(s, "region")) return region(s);
        if (const json_t *steps = json_object_get(s, "no_grad")) {
            const bool was_on = amp_grad_set_enabled(false);
            const bool went = run(steps);
            amp_grad_set_enabled(was_on);
            return went;
        }
        if (!json_object_get(s, "repeat")) throw Malformed("a step is of no kind that is known");
        for (json_int_t n = json_integer_value(json_object_get(s, "repeat")); n > 0; n--) {
            if (!run(require(s, "steps", JSON_ARRAY))) return false;
        }
        return true;
    }

    bool call(const json_t *s) {
        const std::string op = text_field(s, "op");
        const json_t *results = require(s, "outputs", JSON_ARRAY);
        kept.push_back(
            std::make_unique<Arguments>(make_arguments(file, op, require(s, "inputs", JSON_OBJECT), false, &names)));
        const std::vector<amp_argument> &list = kept.back()->list;
        std::vector<amp_tensor *> outputs(json_array_size(results) + 8);
        int count = 0;
        amp_call_op(op.c_str(), list.data(), static_cast<int>(list.size()), outputs.data(),
                    static_cast<int>(outputs.size()), &count);
        for (size_t i = 0; i < json_array_size(results) && static_cast<int>(i) < count; i++) {
            const char *name = json_string_value(json_array_get(results, i));
            if (name) names[name] = outputs[i];
        }
        return amp_last_status() == AMP_OK;
    }

    bool region(const json_t *s) {
        const json_t *regions = json_object_get(json, "regions");
        if (json_is_null(regions)) return run(require(s, "steps", JSON_ARRAY));
        amp_autocast_args args = {};
        args.struct_size = sizeof args;
        args.dtype = dtype_field(regions, "dtype");
        args.enabled = AMP_SET(json_is_true(json_object_get(s, "region")));
        amp_autocast_enter(&args);
        const bool went = run(require(s, "steps", JSON_ARRAY));
        amp_autocast_exit(args.device);
        return went;
    }

    bool backward(const json_t *s) {
        const json_t *roots = json_object_get(s, "backward"), *cotangents = json_object_get(json, "cotangents");
        std::vector<amp_tensor *> outputs, gradients;
        for (size_t i = 0; i < json_array_size(roots); i++) {
            const std::string name = json_string_value(json_array_get(roots, i));
            const json_t *cotangent = json_object_get(cotangents, name.c_str());
            outputs.push_back(tensor_of(name));
            gradients.push_back(cotangent ? load_tensor(file, text_field(cotangent, "tensor"),
                                                        dtype_field(cotangent, "dtype"), shape_field(cotangent))
                                          : replay_ones_like(outputs.back()));
        }
        amp_backward_all_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {outputs.data(), static_cast<int64_t>(outputs.size()), nullptr};
        args.gradients = {gradients.data(), static_cast<int64_t>(gradients.size()), nullptr};
        args.retain_graph = json_is_true(json_object_get(s, "retain_graph"));
        return amp_backward_all_call(&args) == AMP_OK;
    }
};

// What the sentence of an error says.
static const char *words_of(const std::string &error) {
    static const std::map<std::string, const char *> words = {
        {"saved_tensor_changed", "had saved it"}, {"in_place_on_leaf", "leaf"},
        {"in_place_on_expanded", "share"},        {"in_place_on_one_of_many_views", "one of several views"},
        {"graph_freed", "retain_graph"},          {"no_gradient", "requires no gradient"},
    };
    const auto found = words.find(error);
    if (found == words.end()) throw Malformed("'" + error + "' is no error that is known");
    return found->second;
}

static std::string check_error(const std::string &error, bool went) {
    const std::string sentence = amp_last_error(), words = words_of(error);
    if (went) return "it must fail: " + error;
    return sentence.find(words) != std::string::npos ? "" : "expected '" + words + "' in: " + sentence;
}

static void compare_gradients(const Program &program, Comparison *all) {
    const char *name;
    json_t *expected;
    json_object_foreach(json_object_get(program.json, "grads"), name, expected) {
        const amp_tensor *got = amp_tensor_grad(program.tensor_of(name));
        const std::string where = std::string("gradient of ") + name;
        if (json_is_null(expected)) {
            if (got && all->problem.empty()) all->problem = where + ": expected none";
        } else {
            merge(all, compare_output(program.file, expected, got), where);
        }
    }
}

void run_program(const CaseFile &file, const json_t *json, Comparison *all) {
    Program program = {file, json, {}, {}};
    program.add_all("leaves");
    program.add_all("values");
    const bool went = program.run(require(json, "steps", JSON_ARRAY));
    if (json_object_get(json, "error")) {
        all->problem = check_error(text_field(json, "error"), went);
    } else if (!went) {
        all->problem = amp_last_error();
    } else {
        compare_gradients(program, all);
    }
}

} // namespace replay
