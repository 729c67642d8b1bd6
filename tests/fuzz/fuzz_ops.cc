// libFuzzer target: random ops with random arguments. A call is drawn from the recorded cases (tests/golden, or the
// folder that AMP_FUZZ_CASES names) and from those of op_calls_written.cc, its sizes, dtypes, values and options are
// changed, sensibly or not, and amp_call_op is compared with itself: other strides and another number of threads must
// give the same bits, a 16-bit call what f32 gives from the same values within rounding, and a call that cannot be done
// the same sentence. Inputs stay as they are, nothing leaks.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "choices.h"

using op_calls::Call;
using op_calls::Layout;
using op_calls::Result;
using op_calls::Tensor;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {

using fuzz::calls;
using fuzz::Choices;
using fuzz::fits;
using fuzz::limit_memory;
using fuzz::Random;
using fuzz::rename_extent;

// ---- Changes that make sense ------------------------------------------------------------------------------------
void convert_all(Call *call, Choices *choose) {
    if (call->tensors.empty()) return;
    const amp_dtype from = call->tensors[choose->below(call->tensors.size())].dtype;
    const auto to = choose->pick<amp_dtype>(
        {AMP_BF16, AMP_F32, AMP_F64, AMP_F16, AMP_I64, AMP_I32, AMP_U8, AMP_BOOL, AMP_I8, AMP_I16, AMP_C64, AMP_C128});
    for (Tensor &t : call->tensors) {
        if (t.dtype == from) t = op_calls::converted(t, to);
    }
}

double special(Random *random) {
    static const double values[] = {0,        -0.0,     1,     -1,    INFINITY, -INFINITY, NAN,          3.4028e38,
                                    1.18e-38, 1e-40,    65504, 65536, 0.5,      -0.5,      2147483648.0, 1e300,
                                    -1e-300,  16777217, 88.8,  -104};
    return values[size_t(random->unit() * 20) % 20];
}

void refill(Call *call, Choices *choose) {
    Random random = {choose->byte() * 2654435761u + 1u};
    const bool specials = choose->one_in(4);
    for (Tensor &t : call->tensors) {
        const bool floating = amp_dtype_is_floating(t.dtype) || amp_dtype_is_complex(t.dtype);
        if (!floating && !choose->one_in(4)) continue; // indices mostly stay what they are
        Tensor wide = t;
        wide.dtype = AMP_F64;
        wide.bytes.assign(op_calls::elements(t.shape) * 8, 0);
        auto *values = reinterpret_cast<double *>(wide.bytes.data());
        for (size_t i = 0; i < wide.bytes.size() / 8; i++) {
            values[i] = floating ? 4 * random.unit() - 2 : std::floor(6 * random.unit()) - 1;
            if (floating && specials && random.unit() < 0.1) values[i] = special(&random);
        }
        t = op_calls::converted(wide, t.dtype);
    }
}

// ---- Changes that need make none --------------------------------------------------------------------------------
int64_t odd_integer(Choices *choose) {
    return choose->pick<int64_t>({0, 1, -1, 2, -2, 3, 4, 7, -9, 64, 1000, INT32_MAX, INT64_MAX, INT64_MIN});
}

void change_tensor(Call *call, Choices *choose) {
    if (call->tensors.empty()) return;
    Tensor &t = call->tensors[choose->below(call->tensors.size())];
    std::vector<int64_t> shape = t.shape;
    switch (choose->below(7)) {
    case 0: t = op_calls::converted(t, amp_dtype(1 + choose->below(AMP_DTYPE_COUNT - 1))); return;
    case 1:
        if (shape.size() < AMP_MAX_RANK) shape.insert(shape.begin(), choose->pick<int64_t>({1, 2, 0}));
        break;
    case 2:
        if (!shape.empty()) shape.erase(shape.begin());
        break;
    case 3:
        if (!shape.empty()) shape[choose->below(shape.size())] = choose->pick<int64_t>({0, 1, 2, 3, 5, 9});
        break;
    case 4:
        if (!t.bytes.empty()) {
            op_calls::set_number(&t, choose->below(op_calls::elements(t.shape)), double(odd_integer(choose)));
        }
        return;
    case 5: t.device = AMP_DEVICE_CUDA; return;
    default: shape.clear();
    }
    if (fits(shape)) op_calls::reshape(&t, shape);
}

void change_value(Call *call, Choices *choose) {
    if (call->arguments.empty()) return;
    op_calls::Argument &a = call->arguments[choose->below(call->arguments.size())];
    switch (a.value.kind) {
    case AMP_VALUE_SCALAR:
        a.value.as.scalar = choose->one_in(2) ? amp_int(odd_integer(choose))
                                              : amp_float(choose->pick<double>({0.5, 0, -1, 1e30, NAN, INFINITY, 2.5}));
        return;
    case AMP_VALUE_DIMS: {
        amp_dims &dims = a.value.as.dims;
        if (choose->one_in(4)) dims.count = int(choose->below(AMP_MAX_RANK + 1));
        if (dims.count) dims.values[choose->below(size_t(dims.count))] = odd_integer(choose);
        return;
    }
    case AMP_VALUE_FLOATS: {
        amp_floats &floats = a.value.as.floats;
        if (choose->one_in(4)) floats.count = int(choose->below(AMP_MAX_RANK + 1));
        const double number = choose->pick<double>({0.5, 0, -1, 1e30, NAN, INFINITY, 2.5, 1.7});
        if (floats.count) floats.values[choose->below(size_t(floats.count))] = number;
        return;
    }
    case AMP_VALUE_DTYPE: a.value.as.dtype = amp_dtype(choose->below(AMP_DTYPE_COUNT + 1)); return;
    case AMP_VALUE_STRING:
        a.text = choose->pick<const char *>({"", "mean", "sum", "none", "nonsense", "same", "valid", "reflect", "max"});
        return;
    default: a.value = {}; // None
    }
}

void change_region(Call *call, Choices *choose) {
    call->autocast = !call->autocast;
    call->autocast_dtype = choose->one_in(2) ? AMP_F16 : AMP_BF16;
}

Call draw(Choices *choose) {
    const std::vector<Call> &all = calls();
    Call call = all[choose->below(all.size())];
    for (unsigned rounds = choose->byte() % 6; rounds-- > 0;) {
        static void (*const changes[])(Call *, Choices *) = {rename_extent, rename_extent, convert_all,  refill,
                                                             refill,        change_region, change_value, change_tensor};
        changes[choose->below(8)](&call, choose);
    }
    return call;
}

// ---- What must hold ---------------------------------------------------------------------------------------------
void fail(const Call &call, const char *what, const std::string &difference) {
    std::fprintf(stderr, "%s\n%s: %s\n", op_calls::describe(call).c_str(), what, difference.c_str());
    std::abort();
}

void check_sane(const Call &call, const Result &result) {
    const std::string sentence = op_calls::bad_sentence(call, result);
    if (!sentence.empty()) fail(call, "error", sentence);
    if (result.inputs_changed) fail(call, "inputs", "an input, or memory around it, was changed");
    if (result.leaked) fail(call, "memory", "a tensor is left");
}

// Steps: a small difference of the argument is a large one of the result.
bool has_steps(const std::string &op) {
    static const std::set<std::string> ops = {"floor_divide", "remainder", "fmod"};
    return ops.count(op) != 0;
}

// Each rounding on the way may grow before it comes out: recurrences, scores under an exponential, sums that cancel.
bool amplifies(const std::string &op) {
    static const std::set<std::string> ops = {
        "rnn_tanh", "rnn_relu", "lstm", "gru", "linalg_multi_dot", "chain_matmul", "native_multi_head_attention"};
    return ops.count(op) != 0;
}

// Without an eps, rms_norm takes the dtype's own.
bool is_another_function_in_f32(const Call &call) {
    if (call.op != "rms_norm") return false;
    for (const op_calls::Argument &a : call.arguments) {
        if (a.name == "eps" && a.value.kind != AMP_VALUE_NONE) return false;
    }
    return true;
}

// Small work is done by one thread anyway.
bool is_work_for_two(const Call &call, const Result &result) {
    size_t total = 0;
    for (const Tensor &t : call.tensors) total += op_calls::elements(t.shape);
    for (const Tensor &t : result.outputs) total += t.bytes.size() / 8;
    return total > 4096;
}

// Values of ordinary size: with others a sum in another order may be anything.
bool is_tame(const Call &call) {
    for (const Tensor &t : call.tensors) {
        if (!amp_dtype_is_floating(t.dtype) && !amp_dtype_is_complex(t.dtype)) continue;
        Tensor wide = t;
        if (amp_dtype_is_complex(t.dtype)) return false;
        wide = op_calls::converted(t, AMP_F64);
        const auto *values = reinterpret_cast<const double *>(wide.bytes.data());
        for (size_t i = 0; i < wide.bytes.size() / sizeof *values; i++) {
            if (!(std::fabs(values[i]) <= 100)) return false;
        }
    }
    return true;
}

// The call with every float a unit in its last place up or down.
Call nudged(const Call &call) {
    Call other = call;
    uint64_t state = 88172645463325252;
    for (Tensor &t : other.tensors) {
        if (!amp_dtype_is_floating(t.dtype)) continue;
        Tensor wide = op_calls::converted(t, AMP_F64);
        auto *values = reinterpret_cast<double *>(wide.bytes.data());
        for (size_t i = 0; i < wide.bytes.size() / sizeof *values; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            values[i] *= 1 + (state & 1 ? 1 : -1) * op_calls::unit_of(t.dtype);
        }
        t = op_calls::converted(wide, t.dtype);
    }
    return other;
}

// Units that another order of sums, or another width, may be apart: `units`, or for an op that amplifies as much more
// as one unit of its arguments moves its result. A thousand steps of a recurrence may forget where they began.
double allowed_units(const Call &call, const Result &result, double units) {
    const double chaotic = 1e9;
    if (!is_tame(call)) return INFINITY;
    if (!amplifies(call.op) || result.status != AMP_OK) return units;
    const Result moved = op_calls::run(nudged(call), Layout::dense, 1);
    double growth = 1;
    while (growth < chaotic && !op_calls::difference_beyond(moved, result, growth, 0).empty()) growth *= 2;
    return growth < chaotic ? units * growth : INFINITY;
}

// A call with 16-bit floats, in no region, against f32 from the same values.
void check_wider(const Call &call, const Result &narrow) {
    Call wide = call;
    amp_dtype narrow_dtype = AMP_DTYPE_NONE;
    if (call.autocast || narrow.status != AMP_OK || has_steps(call.op) || is_another_function_in_f32(call)) return;
    for (Tensor &t : wide.tensors) {
        if (t.dtype != AMP_BF16 && t.dtype != AMP_F16) continue;
        if (narrow_dtype != AMP_DTYPE_NONE && narrow_dtype != t.dtype) return;
        narrow_dtype = t.dtype;
        t = op_calls::converted(t, AMP_F32);
    }
    for (const op_calls::Argument &a : call.arguments) {
        if (a.value.kind == AMP_VALUE_DTYPE) return;
    }
    if (narrow_dtype == AMP_DTYPE_NONE) return;
    const Result other = op_calls::run(wide, Layout::dense, 1);
    if (other.status != AMP_OK) return; // f32 refuses what only 16 bits have: not to be expected, and no harm
    const std::string difference = op_calls::difference_beyond(narrow, other, allowed_units(call, narrow, 4));
    if (!difference.empty()) fail(call, "against f32", difference);
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const bool limited = (calls(), limit_memory(), true);
    (void)limited;
    Choices choose = {data, data + size};
    const Call call = draw(&choose);
    if (std::getenv("AMP_TEST_TELL")) std::fprintf(stderr, "%s\n", op_calls::describe(call).c_str());
    const Result result = op_calls::run(call, Layout::dense, 1);
    check_sane(call, result);
    if (op_calls::is_unspecified(call)) return 0;
    if (is_work_for_two(call, result) || choose.one_in(8)) {
        const std::string by_threads = op_calls::difference(op_calls::run(call, Layout::dense, 2), result);
        if (!by_threads.empty()) fail(call, "two threads against one", by_threads);
    }
    if (!op_calls::depends_on_layout(call.op)) {
        const auto layout = Layout(1 + choose.below(size_t(Layout::count) - 1));
        const Result strided = op_calls::run(call, layout, 1);
        check_sane(call, strided);
        const std::string by_strides = op_calls::difference_beyond(strided, result, allowed_units(call, result, 64));
        static const char *const names[] = {"", "strided", "negative strides", "an offset", "channels last"};
        if (!by_strides.empty()) fail(call, names[int(layout)], by_strides);
    }
    check_wider(call, result);
    return 0;
}
