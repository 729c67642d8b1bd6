// Calls of ops made from recorded cases, for tests that want one call of every op.
#include "op_calls.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include "replay.h"

extern "C" void op_calls_set_device(amp_tensor *tensor, amp_device device);

namespace op_calls {

// ---- From recorded cases ----------------------------------------------------------------------------------------
static Tensor copy_of(const amp_tensor *t) {
    Tensor copy;
    copy.dtype = amp_tensor_dtype(t);
    copy.shape.assign(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
    if (amp_tensor_numel(t) > 1 << 22) return copy; // an expanded view of anything: its shape is enough
    const size_t size = amp_dtype_size(copy.dtype), rank = copy.shape.size();
    const auto *base = static_cast<const unsigned char *>(amp_data(t));
    const int64_t *strides = amp_tensor_strides(t);
    copy.bytes.resize(elements(copy.shape) * size);
    std::vector<int64_t> index(rank);
    int64_t at = 0;
    for (size_t i = 0; i < copy.bytes.size(); i += size) {
        std::memcpy(&copy.bytes[i], base + at * static_cast<int64_t>(size), size);
        for (size_t d = rank; d-- > 0;) {
            at += strides[d];
            if (++index[d] < copy.shape[d]) break;
            at -= copy.shape[d] * strides[d];
            index[d] = 0;
        }
    }
    return copy;
}

static Argument argument_of(const amp_argument &given, std::vector<Tensor> *tensors) {
    Argument argument;
    argument.name = given.name;
    argument.value = given.value;
    const auto add = [&](const amp_tensor *t) {
        argument.tensors.push_back(t ? static_cast<int>(tensors->size()) : -1);
        if (t) tensors->push_back(copy_of(t));
    };
    if (given.value.kind == AMP_VALUE_TENSOR) add(given.value.as.tensor);
    if (given.value.kind == AMP_VALUE_TENSOR_LIST) {
        for (int64_t i = 0; i < given.value.as.list.count; i++) add(given.value.as.list.items[i]);
    }
    if (given.value.kind == AMP_VALUE_STRING) argument.text = given.value.as.string;
    return argument;
}

static bool read_region(const json_t *autocast, Call *call) {
    if (json_is_null(autocast)) return true;
    call->autocast = true;
    call->autocast_dtype = replay::dtype_field(autocast, "dtype");
    return replay::text_field(autocast, "device") == "cpu";
}

std::vector<Call> recorded(const std::string &folder) {
    std::vector<Call> calls;
    for (const replay::CaseFile &file : replay::load_folder(folder)) {
        size_t i;
        json_t *test_case;
        json_array_foreach(file.cases.get(), i, test_case) {
            Call call;
            call.op = replay::text_field(test_case, "op");
            call.label = file.name + "/" + replay::text_field(test_case, "name");
            if (!read_region(json_object_get(test_case, "autocast"), &call)) continue;
            amp_scope_enter();
            const replay::Arguments arguments =
                replay::make_arguments(file, call.op, replay::require(test_case, "inputs", JSON_OBJECT), false);
            for (const amp_argument &a : arguments.list) call.arguments.push_back(argument_of(a, &call.tensors));
            amp_scope_exit();
            calls.push_back(std::move(call));
        }
    }
    return calls;
}

std::vector<Call> all(const std::string &folder) {
    std::vector<Call> calls = recorded(folder);
    for (Call &call : written()) calls.push_back(std::move(call));
    return calls;
}

// ---- Elements ---------------------------------------------------------------------------------------------------
size_t elements(const std::vector<int64_t> &shape) {
    size_t n = 1;
    for (const int64_t extent : shape) n *= static_cast<size_t>(extent);
    return n;
}

// Conversions by the library itself, which have tests of their own; in parts, for memory may be short.
static void convert(const void *from, amp_dtype from_dtype, void *to, amp_dtype to_dtype, size_t count) {
    constexpr size_t part = 1 << 16;
    if (count > part) {
        convert(from, from_dtype, to, to_dtype, part);
        const auto *rest = static_cast<const unsigned char *>(from) + part * amp_dtype_size(from_dtype);
        auto *to_rest = static_cast<unsigned char *>(to) + part * amp_dtype_size(to_dtype);
        convert(rest, from_dtype, to_rest, to_dtype, count - part);
        return;
    }
    const int64_t shape[] = {static_cast<int64_t>(count)};
    amp_scope_enter();
    amp_to_args args = {};
    args.struct_size = sizeof args;
    args.input = amp_from_data(from, from_dtype, 1, shape);
    args.dtype = to_dtype;
    const amp_tensor *made = amp_to_call(&args);
    if (made && count) std::memcpy(to, amp_data(made), count * amp_dtype_size(to_dtype));
    amp_scope_exit();
}

double number_at(const Tensor &tensor, size_t index) {
    double value = 0;
    convert(tensor.bytes.data() + index * amp_dtype_size(tensor.dtype), tensor.dtype, &value, AMP_F64, 1);
    return value;
}

void set_number(Tensor *tensor, size_t index, double value) {
    convert(&value, AMP_F64, tensor->bytes.data() + index * amp_dtype_size(tensor->dtype), tensor->dtype, 1);
}

Tensor converted(const Tensor &tensor, amp_dtype dtype) {
    Tensor made = tensor;
    made.dtype = dtype;
    const size_t count = tensor.dtype == AMP_DTYPE_NONE ? 0 : tensor.bytes.size() / amp_dtype_size(tensor.dtype);
    made.bytes.assign(count * amp_dtype_size(dtype), 0);
    convert(tensor.bytes.data(), tensor.dtype, made.bytes.data(), dtype, count);
    return made;
}

void reshape(Tensor *tensor, const std::vector<int64_t> &shape) {
    const size_t size = amp_dtype_size(tensor->dtype), wanted = elements(shape) * size, present = tensor->bytes.size();
    tensor->shape = shape;
    tensor->bytes.resize(wanted);
    for (size_t i = present; i < wanted; i++) tensor->bytes[i] = present ? tensor->bytes[i % present] : 0;
}

// ---- Running ----------------------------------------------------------------------------------------------------

// A tensor in memory of its own: 0xff (a NaN in every floating type) wherever no element lies.
struct Placed {
    std::vector<unsigned char> memory, before;
    amp_tensor *tensor = nullptr;
};

static int64_t strides_of(const std::vector<int64_t> &shape, Layout layout, std::vector<int64_t> *strides) {
    const bool reversed = layout == Layout::strided;
    int64_t step = layout == Layout::strided ? 2 : 1;
    std::vector<size_t> order; // from the innermost dimension out
    for (size_t i = 0; i < shape.size(); i++) order.push_back(reversed ? i : shape.size() - 1 - i);
    if (layout == Layout::channels_last && shape.size() > 2)
        std::rotate(order.begin(), order.end() - 2, order.end() - 1);
    strides->resize(shape.size());
    for (const size_t d : order) {
        (*strides)[d] = step;
        step *= std::max<int64_t>(shape[d], 1) + (reversed ? 1 : 0);
    }
    return step;
}

static std::unique_ptr<Placed> place(const Tensor &t, Layout layout) {
    auto placed = std::make_unique<Placed>();
    const size_t size = amp_dtype_size(t.dtype), rank = t.shape.size();
    std::vector<int64_t> strides, index(rank);
    const int64_t span = strides_of(t.shape, layout, &strides);
    int64_t first = layout == Layout::offset ? 3 : 0; // of element [0, …, 0]
    for (size_t d = 0; d < rank && layout == Layout::negative; d++) {
        if (t.shape[d] > 1) first += (t.shape[d] - 1) * strides[d];
        strides[d] = -strides[d];
    }
    if (t.bytes.empty()) first = 0;
    placed->memory.assign(t.bytes.empty() ? 64 : static_cast<size_t>(span + 4) * size + 64, 0xff);
    unsigned char *base = placed->memory.data();
    base += (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64 + first * static_cast<int64_t>(size);
    int64_t at = 0;
    for (size_t i = 0; i < t.bytes.size(); i += size) {
        std::memcpy(base + at * static_cast<int64_t>(size), &t.bytes[i], size);
        for (size_t d = rank; d-- > 0;) {
            at += strides[d];
            if (++index[d] < t.shape[d]) break;
            at -= t.shape[d] * strides[d];
            index[d] = 0;
        }
    }
    for (size_t d = 0; d < rank && layout == Layout::unstepped; d++) {
        if (t.shape[d] <= 1 || t.bytes.empty()) strides[d] = d % 2 ? INT64_MIN / 2 : INT64_MAX / 2;
    }
    placed->before = placed->memory;
    placed->tensor =
        amp_from_memory(base, t.dtype, static_cast<int>(rank), t.shape.data(), strides.data(), nullptr, nullptr);
    if (placed->tensor && t.device != AMP_DEVICE_CPU) op_calls_set_device(placed->tensor, t.device);
    return placed;
}

struct Built {
    std::vector<std::unique_ptr<Placed>> tensors;
    std::vector<std::vector<amp_tensor *>> lists;
    std::vector<amp_argument> arguments;
};

static Built build(const Call &call, Layout layout) {
    Built built;
    for (const Tensor &t : call.tensors) built.tensors.push_back(place(t, layout));
    built.lists.resize(call.arguments.size());
    const auto tensor = [&](int i) { return i < 0 ? nullptr : built.tensors[static_cast<size_t>(i)]->tensor; };
    for (size_t k = 0; k < call.arguments.size(); k++) {
        const Argument &a = call.arguments[k];
        amp_value value = a.value;
        if (value.kind == AMP_VALUE_TENSOR) value.as.tensor = tensor(a.tensors.at(0));
        if (value.kind == AMP_VALUE_STRING) value.as.string = a.text.c_str();
        if (value.kind == AMP_VALUE_TENSOR_LIST) {
            for (const int i : a.tensors) built.lists[k].push_back(tensor(i));
            value.as.list = {built.lists[k].data(), static_cast<int64_t>(built.lists[k].size()), nullptr};
        }
        built.arguments.push_back({a.name.c_str(), value});
    }
    return built;
}

// Arguments that the op is to write, whatever they are; an out= form that fails writes none.
static bool may_change(const Call &call, bool done) {
    static const std::set<std::string> ops = {
        "batch_norm",   "instance_norm",   "embedding", "embedding_bag", "foreach_non_finite_check_and_unscale",
        "foreach_clip", "optimizer_update"};
    const size_t form = call.op.size() > 4 && done ? call.op.rfind("_out") : std::string::npos;
    return ops.count(call.op.substr(0, form)) || (call.op.size() > 1 && call.op.back() == '_');
}

// A tensor that is given as out=.
static bool is_out(const Call &call, size_t tensor) {
    for (const Argument &a : call.arguments) {
        if (a.name == "out" && std::count(a.tensors.begin(), a.tensors.end(), static_cast<int>(tensor))) return true;
    }
    return false;
}

// ---- Back ---------------------------------------------------------------------------------------------------------
double cotangent(size_t output, size_t element) {
    const uint64_t mixed = (element + 1) * 0x9E3779B97F4A7C15u + (output + 1) * 0xD1B54A32D192ED03u;
    return static_cast<double>(static_cast<int64_t>(mixed >> 57) - 64) / 64;
}

static amp_tensor *cotangent_of(const amp_tensor *t, size_t output) {
    Tensor wide;
    wide.dtype = AMP_F64;
    wide.shape.assign(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
    wide.bytes.resize(elements(wide.shape) * sizeof(double));
    auto *values = reinterpret_cast<double *>(wide.bytes.data());
    for (size_t i = 0; i < elements(wide.shape); i++) values[i] = cotangent(output, i);
    const Tensor made = converted(wide, amp_tensor_dtype(t));
    return amp_from_data(made.bytes.data(), made.dtype, static_cast<int>(made.shape.size()), made.shape.data());
}

static void go_back(const Built &built, const std::vector<bool> &wanted, amp_tensor *const *outputs, int count,
                    Result *result) {
    std::vector<amp_tensor *> roots, cotangents, leaves;
    result->gradients.resize(wanted.size());
    for (int i = 0; i < count; i++) {
        const bool leads =
            outputs[i] && amp_dtype_is_floating(amp_tensor_dtype(outputs[i])) && amp_tensor_requires_grad(outputs[i]);
        result->differentiable.push_back(leads);
        if (!leads) continue;
        roots.push_back(outputs[i]);
        cotangents.push_back(cotangent_of(outputs[i], static_cast<size_t>(i)));
    }
    for (size_t i = 0; i < wanted.size(); i++) {
        if (wanted[i]) leaves.push_back(built.tensors[i]->tensor);
    }
    if (roots.empty() || leaves.empty()) return;
    amp_grad_args args = {};
    args.struct_size = sizeof args;
    args.outputs = {roots.data(), static_cast<int64_t>(roots.size()), nullptr};
    args.gradients = {cotangents.data(), static_cast<int64_t>(cotangents.size()), nullptr};
    args.inputs = {leaves.data(), static_cast<int64_t>(leaves.size()), nullptr};
    args.allow_unused = true;
    const amp_tensor_list given = amp_grad_call(&args);
    result->status = amp_last_status();
    result->error = amp_last_error();
    for (size_t i = 0, at = 0; i < wanted.size() && result->status == AMP_OK; i++) {
        if (!wanted[i]) continue;
        if (given.items[at]) result->gradients[i] = copy_of(given.items[at]);
        at++;
    }
}

// `wanted`: NULL, or back too.
static Result run_call(const Call &call, Layout layout, int threads, const std::vector<bool> *wanted) {
    Result result;
    const size_t live = amp_memory_statistics().live_tensors;
    amp_set_num_threads(threads);
    amp_scope_enter();
    Built built = build(call, layout);
    for (size_t i = 0; wanted && i < wanted->size(); i++) {
        if ((*wanted)[i]) amp_tensor_set_requires_grad(built.tensors[i]->tensor, true);
    }
    amp_tensor *outputs[64] = {};
    int count = 0;
    amp_autocast_args region = {};
    region.struct_size = sizeof region;
    region.dtype = call.autocast_dtype;
    region.enabled = {call.autocast, AMP_PRESENT};
    amp_autocast_enter(&region);
    result.status = amp_last_status();
    if (result.status == AMP_OK) {
        amp_manual_seed(1); // random ops give the same each time
        result.status = amp_call_op(call.op.c_str(), built.arguments.data(), static_cast<int>(built.arguments.size()),
                                    outputs, 64, &count);
    }
    result.error = amp_last_error();
    amp_autocast_exit(AMP_DEVICE_CPU);
    for (int i = 0; i < std::min(count, 64) && result.status == AMP_OK; i++) {
        result.outputs.push_back(outputs[i] ? copy_of(outputs[i]) : Tensor());
    }
    if (wanted && result.status == AMP_OK) go_back(built, *wanted, outputs, std::min(count, 64), &result);
    for (size_t i = 0; i < built.tensors.size(); i++) {
        const auto &t = built.tensors[i];
        const bool done = result.status == AMP_OK, written = may_change(call, done) || (done && is_out(call, i));
        result.inputs_changed |= !written && t->memory != t->before;
        if (t->tensor) op_calls_set_device(t->tensor, AMP_DEVICE_CPU);
    }
    amp_clear_error();
    amp_scope_exit();
    amp_clear_error();
    amp_cast_cache_clear();
    result.leaked = amp_memory_statistics().live_tensors != live;
    return result;
}

Result run(const Call &call, Layout layout, int threads) {
    return run_call(call, layout, threads, nullptr);
}

Result run_backward(const Call &call, Layout layout, int threads, const std::vector<bool> &wanted) {
    return run_call(call, layout, threads, &wanted);
}

// ---- Saying what happened ---------------------------------------------------------------------------------------
static std::string text_of(const Tensor &t) {
    std::string text = std::string(amp_dtype_name(t.dtype)) + " [";
    for (size_t i = 0; i < t.shape.size(); i++) text += (i ? ", " : "") + std::to_string(t.shape[i]);
    return text + "]" + (t.device == AMP_DEVICE_CPU ? "" : " on cuda");
}

static std::string text_of(const amp_scalar &s) {
    char text[64];
    std::snprintf(text, sizeof text, s.kind == AMP_SCALAR_FLOAT ? "%g" : "%.0f",
                  s.kind == AMP_SCALAR_FLOAT ? s.re : static_cast<double>(s.i));
    return text;
}

static std::string text_of(const Call &call, const Argument &a) {
    std::string text;
    switch (a.value.kind) {
    case AMP_VALUE_TENSOR:
    case AMP_VALUE_TENSOR_LIST:
        for (const int i : a.tensors) {
            text += (text.empty() ? "" : "; ") +
                    (i < 0 ? std::string("NULL") : text_of(call.tensors[static_cast<size_t>(i)]));
        }
        return a.value.kind == AMP_VALUE_TENSOR ? text : "{" + text + "}";
    case AMP_VALUE_SCALAR: return text_of(a.value.as.scalar);
    case AMP_VALUE_DIMS:
        for (int i = 0; i < std::min(a.value.as.dims.count, AMP_MAX_RANK); i++) {
            text += (i ? ", " : "") + std::to_string(a.value.as.dims.values[i]);
        }
        return "(" + text + ")";
    case AMP_VALUE_FLOATS:
        for (int i = 0; i < std::min(a.value.as.floats.count, AMP_MAX_RANK); i++) {
            text += (i ? ", " : "") + text_of(amp_float(a.value.as.floats.values[i]));
        }
        return "(" + text + ")";
    case AMP_VALUE_DTYPE: return amp_dtype_name(a.value.as.dtype);
    case AMP_VALUE_STRING: return "'" + a.text + "'";
    default: return "None";
    }
}

std::string describe(const Call &call) {
    std::string text = call.label + ": " + call.op + "(";
    for (const Argument &a : call.arguments) {
        text += (&a == call.arguments.data() ? "" : ", ") + a.name + "=" + text_of(call, a);
    }
    return text + ")" + (call.autocast ? std::string(" in ") + amp_dtype_name(call.autocast_dtype) : "");
}

static bool is_nan_at(const Tensor &t, size_t index) {
    if (amp_dtype_is_floating(t.dtype)) return std::isnan(number_at(t, index));
    return false;
}

// Complex numbers as pairs of their parts.
static Tensor real_parts(const Tensor &t) {
    Tensor parts = t;
    if (!amp_dtype_is_complex(t.dtype)) return parts;
    parts.dtype = t.dtype == AMP_C64 ? AMP_F32 : AMP_F64;
    parts.shape.push_back(2);
    return parts;
}

static std::string different_kind(const Result &a, const Result &b) {
    if (a.status != b.status) {
        return "status " + std::string(amp_status_name(a.status)) + " (" + a.error + ") against " +
               amp_status_name(b.status) + " (" + b.error + ")";
    }
    if (a.error != b.error) return "the error '" + a.error + "' against '" + b.error + "'";
    if (a.outputs.size() != b.outputs.size()) return "another number of outputs";
    for (size_t i = 0; i < a.outputs.size(); i++) {
        if (a.outputs[i].shape != b.outputs[i].shape) {
            return "output " + std::to_string(i) + " is " + text_of(a.outputs[i]) + " against " + text_of(b.outputs[i]);
        }
    }
    return "";
}

std::string difference(const Result &a, const Result &b) {
    const std::string kind = different_kind(a, b);
    if (!kind.empty()) return kind;
    for (size_t i = 0; i < a.outputs.size(); i++) {
        const Tensor x = real_parts(a.outputs[i]), y = real_parts(b.outputs[i]);
        if (x.dtype != y.dtype) return "output " + std::to_string(i) + " has another dtype";
        if (x.bytes == y.bytes) continue;
        const size_t size = amp_dtype_size(x.dtype);
        for (size_t k = 0; k < x.bytes.size() / size; k++) {
            if (std::memcmp(&x.bytes[k * size], &y.bytes[k * size], size) == 0) continue;
            if (is_nan_at(x, k) && is_nan_at(y, k)) continue;
            char text[120];
            std::snprintf(text, sizeof text, "output %zu: element %zu is %.9g against %.9g", i, k, number_at(x, k),
                          number_at(y, k));
            return text;
        }
    }
    return "";
}

// A unit in the last place of 1.
double unit_of(amp_dtype dtype) {
    switch (dtype) {
    case AMP_BF16: return std::ldexp(1.0, -7);
    case AMP_F16: return std::ldexp(1.0, -10);
    case AMP_F32: return std::ldexp(1.0, -23);
    default: return std::ldexp(1.0, -52);
    }
}

static std::string difference_beyond(const Tensor &a, const Tensor &b, double units, double floor) {
    const Tensor x = converted(a, AMP_F64), y = converted(b, AMP_F64);
    const auto *p = reinterpret_cast<const double *>(x.bytes.data());
    const auto *q = reinterpret_cast<const double *>(y.bytes.data());
    const size_t count = std::min(x.bytes.size(), y.bytes.size()) / sizeof *q;
    double largest = 0;
    for (size_t k = 0; k < count; k++) {
        if (std::isfinite(q[k])) largest = std::max(largest, std::fabs(q[k]));
    }
    const double allowed = units * std::max(unit_of(a.dtype), unit_of(b.dtype)) * largest + floor;
    for (size_t k = 0; k < count; k++) {
        if (!std::isfinite(p[k]) || !std::isfinite(q[k])) continue;
        if (std::fabs(p[k] - q[k]) <= allowed) continue;
        char text[120];
        std::snprintf(text, sizeof text, "element %zu is %.9g against %.9g (allowed %.3g)", k, p[k], q[k], allowed);
        return text;
    }
    return "";
}

std::string difference_beyond(const Result &a, const Result &b, double units, double floor) {
    const std::string kind = different_kind(a, b);
    if (!kind.empty()) return kind;
    for (size_t i = 0; i < a.outputs.size() && std::isfinite(units); i++) {
        const Tensor x = real_parts(a.outputs[i]), y = real_parts(b.outputs[i]);
        if (!amp_dtype_is_floating(x.dtype) || !amp_dtype_is_floating(y.dtype)) continue;
        const std::string difference = difference_beyond(x, y, units, floor);
        if (!difference.empty()) return "output " + std::to_string(i) + ": " + difference;
    }
    return "";
}

std::string bad_sentence(const Call &call, const Result &result) {
    const std::string &error = result.error;
    if (result.status == AMP_OK) return error.empty() ? "" : "an error stands after success: " + error;
    if (result.status == AMP_ERROR_INTERNAL) return "an internal error: " + error;
    if (error.size() < call.op.size() + 10) return "no sentence: '" + error + "'";
    if (error.compare(0, call.op.size(), call.op) != 0) return "does not begin with the op: " + error;
    if (error.back() == '.' || error.find('\n') != std::string::npos) return "is not one sentence: " + error;
    return "";
}

bool is_unspecified(const Call &call) {
    if (call.op == "empty" || call.op == "empty_like") return true;
    if (call.op.rfind("fractional_max_pool", 0) != 0) return false;
    for (const Argument &a : call.arguments) {
        if (a.name == "random_samples" && a.value.kind == AMP_VALUE_TENSOR) return false;
    }
    return true;
}

bool depends_on_layout(const std::string &op) {
    static const std::set<std::string> ops = {"view", "view_as_real", "view_as_complex", "as_strided"};
    return ops.count(op) != 0;
}

} // namespace op_calls
