// What the attributes of ops.def say of ops holds for all their recorded and written calls.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "internals.h"
#include "op_calls.h"

using op_calls::Call;
using op_calls::Layout;
using op_calls::Result;
using op_calls::Tensor;

namespace {

const amp_op_info *called; // the outermost call's row, …
bool lost_channels_last;   // … and whether it took images channels last and gave others

std::string key(const amp_op_info &op) {
    return op.overload[0] ? std::string(op.name) + "." + op.overload : std::string(op.name);
}

bool is_image(const amp_tensor *t) {
    return t && (t->dtype == AMP_F32 || t->dtype == AMP_BF16) && t->rank == 4 && t->shape[1] > 1 &&
           t->shape[2] * t->shape[3] > 1 && amp_tensor_elements(t) > 0;
}

bool is_channels_last(const amp_tensor *t) {
    const int64_t *n = t->shape, *s = t->strides;
    return s[1] == 1 && (n[3] == 1 || s[3] == n[1]) && (n[2] == 1 || s[2] == n[1] * n[3]) &&
           (n[0] == 1 || s[0] == n[1] * n[2] * n[3]);
}

// The first argument, or each of its list.
bool takes_channels_last(const amp_call *call) {
    const amp_arg_info *arg = &call->op->args[0];
    if (call->op->arg_count == 0) return false;
    if (arg->kind == AMP_ARG_TENSOR) {
        const amp_tensor *t = *amp_call_tensor(call, arg);
        return is_image(t) && is_channels_last(amp_tensor_memory(t));
    }
    if (arg->kind != AMP_ARG_TENSOR_LIST) return false;
    const amp_tensor_list *list = amp_call_tensor_list(call, arg);
    bool all = list->count > 0;
    for (int64_t i = 0; i < list->count; i++) all = all && is_image(list->items[i]) && is_channels_last(list->items[i]);
    return all;
}

amp_status watch(amp_call *call) {
    if (amp_this_thread.layers & AMP_INSIDE_OP) return amp_call_next(call);
    called = call->op;
    const bool last = takes_channels_last(call);
    const amp_status status = amp_call_next(call);
    const amp_tensor *y = status == AMP_OK && !(call->op->flags & AMP_OP_RETURNS_LIST) ? call->outputs[0] : nullptr;
    lost_channels_last = last && is_image(y) && !is_channels_last(y);
    return status;
}

struct OpAttributes : testing::Test {
    void SetUp() override {
        amp_layer_install(AMP_LAYER_CAPTURE, watch);
        amp_layer_activate(AMP_LAYER_CAPTURE, true);
    }
    void TearDown() override {
        amp_layer_activate(AMP_LAYER_CAPTURE, false);
        amp_layer_install(AMP_LAYER_CAPTURE, nullptr);
    }
    static const std::vector<Call> &calls() {
        const char *golden = std::getenv("AMP_GOLDEN");
        static const std::vector<Call> all = op_calls::all(golden && *golden ? golden : AMP_TESTS_GOLDEN);
        return all;
    }
    // The function form's result; the row that ran is `called`.
    static Result run(const Call &call, Layout layout = Layout::dense) {
        called = nullptr;
        lost_channels_last = false;
        return op_calls::run(call, layout, 1);
    }
    static bool has(unsigned flag) {
        return called && (called->flags & flag);
    }
};

bool same_shapes(const Result &a, const Result &b) {
    if (a.outputs.size() != b.outputs.size()) return false;
    for (size_t i = 0; i < a.outputs.size(); i++) {
        if (a.outputs[i].shape != b.outputs[i].shape) return false;
    }
    return true;
}

// Other elements of the same kind: all the first one, all 0, all 1.
Call with_elements(const Call &call, int how) {
    Call other = call;
    for (Tensor &t : other.tensors) {
        const size_t size = amp_dtype_size(t.dtype), count = size ? t.bytes.size() / size : 0;
        for (size_t i = 0; i < count; i++) {
            if (how == 0) std::memcpy(&t.bytes[i * size], t.bytes.data(), size);
            if (how > 0) op_calls::set_number(&t, i, how - 1);
        }
    }
    return other;
}

TEST_F(OpAttributes, SizesHangOnElementsOfThoseThatSaySo) {
    std::map<std::string, std::string> silent;
    std::set<std::string> vary;
    for (const Call &call : calls()) {
        const Result plain = run(call);
        if (plain.status != AMP_OK || !called) continue;
        for (int how = 0; how < 3; how++) {
            const Result other = run(with_elements(call, how));
            if (other.status != AMP_OK || same_shapes(plain, other)) continue;
            if (has(AMP_OP_SHAPED_BY_ELEMENTS)) vary.insert(key(*called));
            if (!has(AMP_OP_SHAPED_BY_ELEMENTS)) silent.emplace(key(*called), op_calls::describe(call));
        }
    }
    for (const auto &[name, text] : silent) ADD_FAILURE() << name << " is shaped_by_elements: " << text;
    for (const char *name : {"nonzero", "masked_select", "unique", "repeat_interleave.tensor"})
        EXPECT_EQ(vary.count(name), 1u) << name;
}

// Numbers of which bf16 keeps 8 bits of 24.
void make_long(Tensor *t, std::mt19937 *random) {
    std::uniform_real_distribution<float> number(-4, 4);
    for (size_t i = 0; i < t->bytes.size() / sizeof(float); i++) op_calls::set_number(t, i, number(*random));
}

TEST_F(OpAttributes, RoundingBeforeWhatMovesIsRoundingBehind) {
    std::mt19937 random(20261124);
    std::set<std::string> seen;
    for (Call call : calls()) {
        run(call);
        if (!has(AMP_OP_MOVES) || call.autocast) continue;
        bool all = !call.tensors.empty();
        for (Tensor &t : call.tensors) all = all && t.dtype == AMP_F32;
        for (const op_calls::Argument &a : call.arguments) all = all && a.name != "out";
        if (!all) continue;
        for (Tensor &t : call.tensors) make_long(&t, &random);
        Call narrow = call;
        for (Tensor &t : narrow.tensors) t = op_calls::converted(t, AMP_BF16);
        const Result plain = run(call), rounded = run(narrow);
        if (plain.status != AMP_OK || rounded.status != AMP_OK || plain.outputs.empty()) continue;
        seen.insert(key(*called));
        EXPECT_EQ(op_calls::converted(plain.outputs[0], AMP_BF16).bytes, rounded.outputs[0].bytes)
            << op_calls::describe(call);
    }
    for (int i = 0; i < amp_op_count; i++) {
        if (amp_op_table[i].flags & AMP_OP_MOVES) {
            EXPECT_EQ(seen.count(key(amp_op_table[i])), 1u) << key(amp_op_table[i]);
        }
    }
}

TEST_F(OpAttributes, ImagesStayChannelsLast) {
    std::map<std::string, std::string> lost;
    for (const Call &call : calls()) {
        const Result result = run(call, Layout::channels_last);
        const bool keeps = has(AMP_OP_KEEPS_CHANNELS_LAST) || has(AMP_OP_ELEMENTWISE);
        if (keeps && result.status == AMP_OK && lost_channels_last)
            lost.emplace(key(*called), op_calls::describe(call));
    }
    for (const auto &[name, text] : lost) ADD_FAILURE() << name << " does not keep channels last: " << text;
}

} // namespace
