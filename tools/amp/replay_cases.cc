// Case files, and the arguments of a case as amp_call_op wants them.
#include <dirent.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "amp/error.h"
#include "replay.h"
#include "replay_device.h"

namespace replay {

// ---- Files ----

static std::vector<std::string> json_names(const std::string &folder) {
    DIR *directory = opendir(folder.c_str());
    if (!directory) throw Malformed(folder + ": cannot open the folder: " + std::strerror(errno));
    std::vector<std::string> names;
    while (const dirent *entry = readdir(directory)) {
        const std::string name = entry->d_name;
        if (name.size() > 5 && name.substr(name.size() - 5) == ".json")
            names.push_back(name.substr(0, name.size() - 5));
    }
    closedir(directory);
    std::sort(names.begin(), names.end());
    return names;
}

bool is_program(const json_t *json) {
    return json_object_get(json, "steps") && json_object_get(json, "leaves");
}

// Other recordings live in such folders too; a list of objects with an "op", or of programs, is one of cases.
static bool is_case_list(const json_t *root) {
    const json_t *first = json_array_get(root, 0);
    return json_is_array(root) && (json_object_get(first, "op") || is_program(first));
}

static CaseFile load_file(const std::string &folder, const std::string &name) {
    json_error_t error;
    const std::string path = folder + "/" + name;
    CaseFile file;
    file.name = name;
    file.cases.reset(json_load_file((path + ".json").c_str(), JSON_REJECT_DUPLICATES, &error));
    if (!file.cases) throw Malformed(path + ".json:" + std::to_string(error.line) + ": " + error.text);
    if (!is_case_list(file.cases.get())) return file;
    file.tensors.reset(amp_safetensors_open((path + ".safetensors").c_str()));
    if (!file.tensors) {
        const std::string message = amp_last_error();
        amp_clear_error();
        throw Malformed(message);
    }
    return file;
}

std::vector<CaseFile> load_folder(const std::string &folder) {
    std::vector<CaseFile> files;
    for (const std::string &name : json_names(folder)) {
        CaseFile file = load_file(folder, name);
        if (file.tensors) files.push_back(std::move(file));
    }
    if (files.empty()) throw Malformed(folder + ": there are no case files (NAME.json beside NAME.safetensors)");
    return files;
}

// ---- Fields ----

static const char *type_name(json_type type) {
    switch (type) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    default: return "a number";
    }
}

const json_t *require(const json_t *object, const char *field, json_type type) {
    const json_t *value = json_object_get(object, field);
    const bool fits = value && (json_typeof(value) == type || (type == JSON_REAL && json_is_integer(value)));
    if (!fits) throw Malformed("'" + std::string(field) + "' is missing or is not " + type_name(type));
    return value;
}

std::string text_field(const json_t *object, const char *field) {
    return json_string_value(require(object, field, JSON_STRING));
}

amp_dtype dtype_field(const json_t *object, const char *field) {
    const std::string name = text_field(object, field);
    const amp_dtype dtype = amp_dtype_from_name(name.c_str());
    if (dtype == AMP_DTYPE_NONE) throw Malformed("'" + name + "' is no dtype");
    return dtype;
}

std::vector<int64_t> shape_field(const json_t *object) {
    const json_t *list = require(object, "shape", JSON_ARRAY);
    std::vector<int64_t> shape;
    if (json_array_size(list) > AMP_MAX_RANK) throw Malformed("'shape' has more than 8 extents");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *extent = json_array_get(list, i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0) throw Malformed("'shape' has a bad extent");
        shape.push_back(json_integer_value(extent));
    }
    return shape;
}

// ---- Tensors ----

constexpr size_t guard = 64;           // bytes before and after the elements
constexpr unsigned char filler = 0xff; // a NaN in every floating type: a kernel that reads it shows

// Strides in elements. Strided: dimensions in reverse order in memory, every extent one longer, the innermost doubled.
static std::vector<int64_t> choose_strides(const std::vector<int64_t> &shape, bool strided, int64_t *span) {
    std::vector<int64_t> strides(shape.size());
    int64_t step = strided ? 2 : 1;
    for (size_t i = 0; i < shape.size(); i++) {
        const size_t d = strided ? i : shape.size() - 1 - i;
        strides[d] = step;
        step *= strided ? shape[d] + 1 : std::max<int64_t>(shape[d], 1);
    }
    *span = step;
    return strides;
}

// Calls visit(element number, byte position) for each element, row-major.
template <class Visit>
static void for_each_element(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides, Visit visit) {
    int64_t count = 1, at = 0;
    for (int64_t extent : shape) count *= extent;
    std::vector<int64_t> index(shape.size());
    for (int64_t i = 0; i < count; i++) {
        visit(i, at);
        for (size_t d = shape.size(); d-- > 0;) {
            at += strides[d];
            if (++index[d] < shape[d]) break;
            at -= shape[d] * strides[d];
            index[d] = 0;
        }
    }
}

// The stored tensor of a key; a complex one is stored with a last dimension of 2, which has the same bytes.
static const amp_tensor *stored_tensor(const CaseFile &file, const std::string &key, amp_dtype dtype, int64_t count) {
    const amp_tensor *stored = amp_safetensors_get(file.tensors.get(), key.c_str());
    if (!stored) {
        const std::string message = amp_last_error();
        amp_clear_error();
        throw Malformed(message);
    }
    const int64_t parts = amp_dtype_is_complex(dtype) ? 2 : 1;
    const amp_dtype real = dtype == AMP_C64 ? AMP_F32 : dtype == AMP_C128 ? AMP_F64 : dtype;
    if (amp_tensor_numel(stored) != count * parts || amp_tensor_dtype(stored) != real) {
        throw Malformed("tensor '" + key + "' is not what the case says: " + std::to_string(count) + " elements of " +
                        amp_dtype_name(dtype));
    }
    return stored;
}

amp_tensor *load_tensor(const CaseFile &file, const std::string &key, amp_dtype dtype,
                        const std::vector<int64_t> &shape) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    const amp_tensor *stored = stored_tensor(file, key, dtype, count);
    return amp_from_data(amp_data(stored), dtype, static_cast<int>(shape.size()), shape.data());
}

static std::unique_ptr<Input> make_input(const CaseFile &file, const std::string &name, const json_t *argument,
                                         bool strided) {
    const amp_dtype dtype = dtype_field(argument, "dtype");
    const std::vector<int64_t> shape = shape_field(argument);
    const size_t size = amp_dtype_size(dtype);
    int64_t count = 1, span = 0;
    for (int64_t extent : shape) {
        if (__builtin_mul_overflow(count, extent, &count) || count > 1 << 28)
            throw Malformed("'" + name + "' is too large");
    }
    const std::vector<int64_t> strides = choose_strides(shape, strided, &span);
    auto input = std::make_unique<Input>();
    input->argument = name;
    input->memory.assign(2 * guard + 64 + static_cast<size_t>(span) * size, filler);
    unsigned char *base = input->memory.data() + guard;
    base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
    input->start = static_cast<size_t>(base - input->memory.data());
    base += strided ? size : 0;
    if (count > 0) {
        const auto *from = static_cast<const unsigned char *>(
            amp_data(stored_tensor(file, text_field(argument, "tensor"), dtype, count)));
        for_each_element(shape, strides, [&](int64_t i, int64_t at) {
            std::memcpy(base + static_cast<size_t>(at) * size, from + static_cast<size_t>(i) * size, size);
        });
    }
    input->before = input->memory;
    input->requires_grad = json_is_true(json_object_get(argument, "requires_grad"));
    input->tensor =
        amp_from_memory(base, dtype, static_cast<int>(shape.size()), shape.data(), strides.data(), nullptr, nullptr);
    if (!input->tensor) throw std::runtime_error(amp_last_error());
    return input;
}

// ---- Values ----

struct Builder {
    const CaseFile &file;
    const std::string &op;
    bool strided;
    const Names *names; // of a program; else nullptr
    Arguments made;

    amp_tensor *tensor(const std::string &name, const json_t *value) {
        made.inputs.push_back(make_input(file, name, value, strided));
        return made.inputs.back()->tensor;
    }

    amp_value value(const std::string &name, const json_t *v) {
        amp_value out = {};
        switch (json_typeof(v)) {
        case JSON_NULL: return out;
        case JSON_STRING:
            if (is_name(v)) {
                out.kind = AMP_VALUE_TENSOR;
                out.as.tensor = named(v);
                return out;
            }
            out.kind = AMP_VALUE_STRING;
            out.as.string = json_string_value(v);
            return out;
        case JSON_OBJECT: return object_value(name, v);
        case JSON_ARRAY: return list_value(name, v);
        default: break;
        }
        out.kind = AMP_VALUE_SCALAR;
        out.as.scalar = json_is_integer(v) ? amp_int(json_integer_value(v))
                        : json_is_real(v)  ? amp_float(json_real_value(v))
                                           : amp_bool(json_is_true(v));
        return out;
    }

    bool is_name(const json_t *v) const {
        return names && json_is_string(v) && json_string_value(v)[0] == '$';
    }
    amp_tensor *named(const json_t *v) const {
        const auto found = names->find(json_string_value(v) + 1);
        if (found == names->end()) throw Malformed(std::string("there is no '") + json_string_value(v) + "' yet");
        return found->second;
    }

    amp_value object_value(const std::string &name, const json_t *v) {
        amp_value out = {};
        out.kind = AMP_VALUE_SCALAR;
        if (json_object_get(v, "tensor")) {
            out.kind = AMP_VALUE_TENSOR;
            out.as.tensor = tensor(name, v);
        } else if (json_object_get(v, "float")) {
            out.as.scalar = amp_float(special_float(text_field(v, "float")));
        } else if (json_object_get(v, "dtype_value")) {
            out.kind = AMP_VALUE_DTYPE;
            out.as.dtype = dtype_field(v, "dtype_value");
        } else if (const json_t *parts = json_object_get(v, "complex")) {
            if (json_array_size(parts) != 2) throw Malformed("'complex' of '" + name + "' is not [re, im]");
            out.as.scalar =
                amp_complex(json_number_value(json_array_get(parts, 0)), json_number_value(json_array_get(parts, 1)));
        } else {
            throw Malformed("argument '" + name + "' is of no kind that is known");
        }
        return out;
    }

    static double special_float(const std::string &text) {
        if (text == "inf") return std::numeric_limits<double>::infinity();
        if (text == "-inf") return -std::numeric_limits<double>::infinity();
        if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
        throw Malformed("'" + text + "' is none of inf, -inf, nan");
    }

    amp_value list_value(const std::string &name, const json_t *list) {
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *item = json_array_get(list, i);
            if (json_object_get(item, "tensor") || is_name(item)) return tensors_value(name, list);
        }
        if (replay_argument_is_tensor(op.c_str(), name.c_str())) return numbers_value(name, list);
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (json_is_real(json_array_get(list, i))) return floats_value(name, list);
        }
        amp_value out = {};
        out.kind = AMP_VALUE_DIMS;
        out.as.dims.set = AMP_PRESENT;
        append_integers(name, list, &out.as.dims);
        return out;
    }

    static amp_value floats_value(const std::string &name, const json_t *list) {
        amp_value out = {};
        out.kind = AMP_VALUE_FLOATS;
        out.as.floats.set = AMP_PRESENT;
        if (json_array_size(list) > AMP_MAX_RANK) throw Malformed("list '" + name + "' is too long");
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (!json_is_number(json_array_get(list, i)))
                throw Malformed("list '" + name + "' holds more than numbers");
            out.as.floats.values[out.as.floats.count++] = json_number_value(json_array_get(list, i));
        }
        return out;
    }

    // A list of integers where we take a tensor of them (ctc_loss's lengths).
    static amp_value numbers_value(const std::string &name, const json_t *list) {
        std::vector<int64_t> numbers;
        for (size_t i = 0; i < json_array_size(list); i++) {
            if (!json_is_integer(json_array_get(list, i)))
                throw Malformed("list '" + name + "' holds more than integers");
            numbers.push_back(json_integer_value(json_array_get(list, i)));
        }
        const int64_t shape[] = {static_cast<int64_t>(numbers.size())};
        amp_value out = {};
        out.kind = AMP_VALUE_TENSOR;
        out.as.tensor = amp_from_data(numbers.data(), AMP_I64, 1, shape);
        return out;
    }

    amp_value tensors_value(const std::string &name, const json_t *list) {
        made.lists.push_back(std::make_unique<std::vector<amp_tensor *>>());
        std::vector<amp_tensor *> &items = *made.lists.back();
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *item = json_array_get(list, i);
            items.push_back(json_is_null(item) ? nullptr
                            : is_name(item)    ? named(item)
                                               : tensor(name + "[" + std::to_string(i) + "]", item));
        }
        amp_value out = {};
        out.kind = AMP_VALUE_TENSOR_LIST;
        out.as.list.items = items.data();
        out.as.list.count = static_cast<int64_t>(items.size());
        return out;
    }

    // Lists in the list follow one another (tensordot's dims); None is the input's own size, which our ops write as -1.
    static void append_integers(const std::string &name, const json_t *list, amp_dims *dims) {
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *item = json_array_get(list, i);
            if (json_is_array(item)) {
                append_integers(name, item, dims);
                continue;
            }
            if (!json_is_integer(item) && !json_is_null(item))
                throw Malformed("list '" + name + "' holds more than integers");
            if (dims->count == AMP_MAX_RANK) throw Malformed("list '" + name + "' has more than 8 values");
            dims->values[dims->count++] = json_is_null(item) ? -1 : json_integer_value(item);
        }
    }
};

// Ops that are defined for some layouts only, and refuse the others.
static bool accepts_any_layout(const std::string &op) {
    return op != "view" && op != "view_as_real" && op != "view_as_complex";
}

Arguments make_arguments(const CaseFile &file, const std::string &op, const json_t *inputs, bool strided,
                         const Names *names) {
    Builder builder = {file, op, strided && accepts_any_layout(op), names, {}};
    const char *name;
    json_t *value;
    json_object_foreach(const_cast<json_t *>(inputs), name, value) {
        const amp_value made = builder.value(name, value);
        const bool is_tensor = made.kind == AMP_VALUE_TENSOR;
        builder.made.list.push_back({replay_argument_name(op.c_str(), name, is_tensor), made});
    }
    return std::move(builder.made);
}

} // namespace replay
