// The out= and in-place forms of every row that has them: for every recorded call, and one of each op that has none,
// they give what the function gives, whatever dtype the arguments have and however the tensors lie in memory; and what
// does not fit is refused before anything is written. Then the forms that are more than a kernel with a target: several
// results, the makers of tensors, and views in place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "amp_test.h"
#include "internals.h"
#include "op_calls.h"

using namespace amp_test;
using op_calls::Argument;
using op_calls::Call;
using op_calls::Layout;
using op_calls::Result;
using op_calls::Tensor;

namespace {

constexpr size_t most_elements = 1 << 13; // of one tensor: larger cases are for replay

const amp_op_info *called; // the row that the last call came to

amp_status note_row(amp_call *call) {
    called = call->op;
    return amp_call_next(call);
}

struct OutForms : testing::Test {
    void SetUp() override {
        amp_layer_install(AMP_LAYER_EXPLAIN, note_row);
        amp_layer_activate(AMP_LAYER_EXPLAIN, true);
    }
    void TearDown() override {
        amp_layer_install(AMP_LAYER_EXPLAIN, amp_explain_layer);
        amp_layer_activate(AMP_LAYER_EXPLAIN, false);
    }
};

std::string key(const amp_op_info &op) {
    return op.overload[0] ? std::string(op.name) + "." + op.overload : std::string(op.name);
}

bool is_small(const Call &call) {
    for (const Tensor &t : call.tensors) {
        if (op_calls::elements(t.shape) > most_elements || t.bytes.empty() != (op_calls::elements(t.shape) == 0)) {
            return false;
        }
    }
    return true;
}

Call with_floats(Call call, amp_dtype dtype) {
    for (Tensor &t : call.tensors) {
        if (amp_dtype_is_floating(t.dtype)) t = op_calls::converted(t, dtype);
    }
    for (Argument &a : call.arguments) {
        if (a.value.kind == AMP_VALUE_DTYPE && amp_dtype_is_floating(a.value.as.dtype)) a.value.as.dtype = dtype;
    }
    return call;
}

// A call, the row that it comes to, and what its function gives.
struct Case {
    Call call;
    const amp_op_info *row;
    Result expected;
};

// Every call that has the form and can be done.
void for_each_case(unsigned form, const std::function<void(const Case &)> &visit) {
    const char *golden = std::getenv("AMP_GOLDEN");
    for (Call &recorded : op_calls::all(golden && *golden ? golden : AMP_TESTS_GOLDEN)) {
        if (!is_small(recorded)) continue;
        recorded.autocast = false; // out= forms do not autocast
        for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
            Case c = {with_floats(recorded, dtype), nullptr, {}};
            called = nullptr;
            c.expected = op_calls::run(c.call, Layout::dense, 1);
            c.row = called;
            if (c.expected.status != AMP_OK || !c.row || !(c.row->forms & form)) continue;
            if (c.expected.outputs.size() != size_t(c.row->output_count)) continue;
            SCOPED_TRACE(op_calls::describe(c.call));
            visit(c);
        }
    }
}

// The out= form of the call; out= tensors are appended, full of bytes that are no result.
Call out_call(const Case &c, const std::vector<Tensor> &outs) {
    Call call = c.call;
    call.op = key(*c.row) + "_out";
    Argument out;
    out.name = "out";
    out.value.kind = outs.size() == 1 ? AMP_VALUE_TENSOR : AMP_VALUE_TENSOR_LIST;
    for (Tensor t : outs) {
        t.bytes.assign(op_calls::elements(t.shape) * amp_dtype_size(t.dtype), t.dtype == AMP_BOOL ? 1 : 0x5a);
        out.tensors.push_back(int(call.tensors.size()));
        call.tensors.push_back(t);
    }
    call.arguments.push_back(out);
    return call;
}

// What `index` is called in messages.
std::string result_name(const amp_op_info &op, size_t index) {
    return index == 0 ? op.result : op.args[op.arg_count - op.output_count + int(index)].name;
}

void expect_refusal(const Case &c, const std::vector<Tensor> &outs, size_t index, amp_status status) {
    const Result got = op_calls::run(out_call(c, outs), Layout::dense, 1);
    EXPECT_EQ(got.status, status) << got.error;
    EXPECT_FALSE(got.inputs_changed) << got.error;
    EXPECT_FALSE(got.leaked);
    EXPECT_EQ(got.error.rfind(std::string(c.row->name) + "_out: ", 0), 0u) << got.error;
    EXPECT_NE(got.error.find("'" + result_name(*c.row, index) + "'"), std::string::npos) << got.error;
    if (status == AMP_ERROR_DTYPE) {
        EXPECT_NE(got.error.find("do not autocast"), std::string::npos) << got.error;
        EXPECT_NE(got.error.find(amp_dtype_name(outs[index].dtype)), std::string::npos) << got.error;
    }
}

// A dtype that the result cannot be written in; none for most of what is no number.
amp_dtype wrong_dtype(const amp_op_info &op, amp_dtype dtype) {
    if (op.output_count > 1) return dtype == AMP_F64 ? AMP_F32 : AMP_F64;
    if (op.flags & AMP_OP_PLACED) return AMP_DTYPE_NONE;
    if (amp_dtype_is_complex(dtype)) return AMP_F64;
    if (amp_dtype_is_floating(dtype)) return AMP_I64;
    return dtype == AMP_BOOL ? AMP_DTYPE_NONE : AMP_BOOL;
}

} // namespace

TEST_F(OutForms, GiveWhatTheFunctionGives) {
    std::set<int> rows;
    for_each_case(AMP_FORM_OUT, [&](const Case &c) {
        rows.insert(c.row->id);
        for (int layout = 0; layout < int(Layout::count); layout++) {
            if (op_calls::is_unspecified(c.call)) continue;
            const Result expected = op_calls::run(c.call, Layout(layout), 1);
            const Result got = op_calls::run(out_call(c, c.expected.outputs), Layout(layout), 1);
            EXPECT_EQ(op_calls::difference(got, expected), "") << "layout " << layout;
            EXPECT_FALSE(got.inputs_changed) << "layout " << layout;
            EXPECT_FALSE(got.leaked) << "layout " << layout;
        }
    });
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = amp_op_table[i];
        EXPECT_TRUE(!(op.forms & AMP_FORM_OUT) || rows.count(i)) << key(op) << " has no call";
    }
}

TEST_F(OutForms, RefuseWhatDoesNotFitAndWriteNothing) {
    std::map<int, int> tried; // a few calls of each row
    for_each_case(AMP_FORM_OUT, [&](const Case &c) {
        if (tried[c.row->id]++ >= 6) return;
        for (size_t k = 0; k < c.expected.outputs.size(); k++) {
            std::vector<Tensor> outs = c.expected.outputs;
            const amp_dtype dtype = wrong_dtype(*c.row, outs[k].dtype);
            outs[k].dtype = dtype;
            if (dtype != AMP_DTYPE_NONE) expect_refusal(c, outs, k, AMP_ERROR_DTYPE);
            outs = c.expected.outputs;
            outs[k].shape.insert(outs[k].shape.begin(), 1);
            if (outs[k].shape.size() <= AMP_MAX_RANK) expect_refusal(c, outs, k, AMP_ERROR_INVALID);
        }
    });
    EXPECT_GT(tried.size(), 250u);
}

// As a result that is made first, and then written.
TEST_F(OutForms, MayWriteAnInput) {
    std::map<int, int> tried;
    for_each_case(AMP_FORM_OUT, [&](const Case &c) {
        const std::set<std::string> no_inputs = {"embedding", "embedding_bag"}; // they may write weight, too
        if (op_calls::is_unspecified(c.call) || no_inputs.count(c.call.op)) return;
        for (size_t k = 0; k < c.expected.outputs.size(); k++) {
            for (size_t i = 0; i < c.call.tensors.size(); i++) {
                const Tensor &result = c.expected.outputs[k], &input = c.call.tensors[i];
                if (result.dtype != input.dtype || result.shape != input.shape || tried[c.row->id]++ >= 6) continue;
                Call call = out_call(c, c.expected.outputs);
                call.arguments.back().tensors[k] = int(i);
                const Result got = op_calls::run(call, Layout::dense, 1);
                EXPECT_EQ(op_calls::difference(got, c.expected), "") << "result " << k << " is tensor " << i;
            }
        }
    });
    EXPECT_GT(tried.size(), 150u);
}

TEST_F(OutForms, InPlaceIsTheSameWhereTheResultIsOfTheInputsKind) {
    std::set<int> rows;
    for_each_case(AMP_FORM_INPLACE, [&](const Case &c) {
        const Argument &input = c.call.arguments.at(0);
        const bool shaped = (c.row->flags & AMP_OP_VIEW) == 0;
        ASSERT_EQ(input.value.kind, AMP_VALUE_TENSOR);
        const Tensor &first = c.call.tensors[size_t(input.tensors.at(0))], &result = c.expected.outputs[0];
        if (input.name != c.row->args[0].name || first.dtype != result.dtype) return;
        if (shaped && first.shape != result.shape) return;
        rows.insert(c.row->id);
        Call call = c.call;
        call.op = key(*c.row) + "_";
        for (int layout = 0; layout < int(Layout::count); layout++) {
            const Result expected = op_calls::run(c.call, Layout(layout), 1);
            const Result got = op_calls::run(call, Layout(layout), 1);
            EXPECT_EQ(op_calls::difference(got, expected), "") << "layout " << layout;
            EXPECT_FALSE(got.leaked) << "layout " << layout;
        }
    });
    EXPECT_GT(rows.size(), 75u);
}

/* ---- Several results --------------------------------------------------------------------------------------------- */
namespace {
using SeveralResults = amp_test::Test;
}

TEST_F(SeveralResults, AreWrittenThroughMacroStructAndName) {
    amp_tensor *x = tensor(AMP_F32, {3}, {2, 1, 3}), *values = tensor(AMP_F32, {3}), *places = tensor(AMP_I64, {3});
    amp_sort_args args = {};
    args.struct_size = sizeof args;
    args.input = x;
    amp_tensor *second = nullptr;
    args.indices = &second;
    const uint64_t version = amp_tensor_version(places);
    ASSERT_EQ(amp_sort_out_call(values, places, &args), values) << amp_last_error();
    EXPECT_EQ(second, places);
    EXPECT_GT(amp_tensor_version(places), version);
    EXPECT_EQ(numbers_of(values), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(numbers_of(places), (std::vector<double>{1, 0, 2}));
    std::vector<amp_tensor *> results;
    ASSERT_EQ(call("max_out", {x, 0}, {{"out", std::vector<amp_tensor *>{}}}, &results), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"max_out"}));
    amp_tensor *most = tensor(AMP_F32, {}, {0}), *place = tensor(AMP_I64, {}, {0});
    const std::vector<amp_tensor *> outs = {most, place};
    ASSERT_EQ(call("max_out", {x, 0}, {{"out", outs}}, &results), AMP_OK) << amp_last_error();
    EXPECT_EQ(results, outs);
    EXPECT_EQ(numbers_of(most), std::vector<double>{3});
    EXPECT_EQ(numbers_of(place), std::vector<double>{2});
}

TEST_F(SeveralResults, NeedATensorEach) {
    amp_tensor *x = tensor(AMP_F32, {3}), *values = tensor(AMP_F32, {3}), *places = tensor(AMP_I64, {3});
    amp_sort_args args = {};
    args.struct_size = sizeof args;
    args.input = x;
    EXPECT_EQ(amp_sort_out_call(nullptr, places, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sort_out", "'values' is missing"}));
    EXPECT_EQ(amp_sort_out_call(values, nullptr, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sort_out", "'indices' is missing"}));
    EXPECT_EQ(op("sort_out", {x}, {{"out", values}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sort_out", "'out' must be one list of 2 tensors"}));
    EXPECT_EQ(op("relu_out", {x}, {{"out", std::vector<amp_tensor *>{values}}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"relu_out", "'out' must be one tensor"}));
    amp_tensor *wide = op("expand", {tensor(AMP_I64, {1}), AMP_DIMS(3)});
    EXPECT_EQ(amp_sort_out_call(values, wide, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"sort_out", "'indices'"}));
}

TEST_F(SeveralResults, MustNotShareMemoryButMayLieBetweenEachOther) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {4, 1, 2, 3});
    amp_tensor *both_of = tensor(AMP_F32, {2, 4}, {0, 0, 0, 0, 0, 0, 0, 0});
    amp_tensor *q = op("narrow", {both_of, 1, 0, 2}), *r = op("narrow", {both_of, 1, 2, 2});
    ASSERT_EQ(op("linalg_qr_out", {x}, {{"out", std::vector<amp_tensor *>{q, r}}}), q) << amp_last_error();
    std::vector<amp_tensor *> fresh = both("linalg_qr", {x});
    EXPECT_EQ(numbers_of(q), numbers_of(fresh[0]));
    EXPECT_EQ(numbers_of(r), numbers_of(fresh[1]));
    const std::vector<double> before = numbers_of(both_of);
    amp_tensor *dense = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    const std::pair<amp_tensor *, amp_tensor *> shared[] = {
        {q, q}, {q, op("narrow", {both_of, 1, 0, 2})}, {dense, op("t", {dense})}, {op("t", {dense}), dense}};
    for (const auto &outs : shared) {
        EXPECT_EQ(op("linalg_qr_out", {x}, {{"out", std::vector<amp_tensor *>{outs.first, outs.second}}}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linalg_qr_out", "'Q' and 'R' share memory"}));
    }
    EXPECT_EQ(numbers_of(both_of), before);
    EXPECT_EQ(numbers_of(dense), (std::vector<double>{1, 2, 3, 4}));
}

TEST_F(SeveralResults, AreNotCastInARegion) {
    amp_tensor *x = tensor(AMP_BF16, {2, 2}, {4, 1, 2, 3});
    amp_tensor *values = tensor(AMP_BF16, {2, 2}), *places = tensor(AMP_I64, {2, 2});
    amp_autocast_args region = {};
    region.struct_size = sizeof region;
    ASSERT_EQ(amp_autocast_enter(&region), AMP_OK);
    EXPECT_EQ(op("sort_out", {x}, {{"out", std::vector<amp_tensor *>{values, places}}}), values) << amp_last_error();
    amp_tensor *wide = tensor(AMP_F32, {2, 2}), *info = tensor(AMP_I32, {}, {0});
    EXPECT_EQ(op("linalg_inv_ex_out", {tensor(AMP_F64, {2, 2}, {4, 1, 2, 3})},
                 {{"out", std::vector<amp_tensor *>{wide, info}}}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"linalg_inv_ex_out: 'inverse' is [2, 2] f32", "f64", "do not autocast"}));
    ASSERT_EQ(amp_autocast_exit(AMP_DEVICE_CPU), AMP_OK);
}

/* ---- Makers of tensors ------------------------------------------------------------------------------------------- */
namespace {
using Makers = amp_test::Test;
}

TEST_F(Makers, TakeTheTargetsDtype) {
    amp_tensor *out = tensor(AMP_BF16, {2, 2}, {5, 6, 7, 8});
    EXPECT_EQ(op("empty_out", {AMP_DIMS(2, 2)}, {{"out", out}}), out) << amp_last_error();
    EXPECT_EQ(numbers_of(out), (std::vector<double>{5, 6, 7, 8}));
    EXPECT_EQ(op("ones_out", {AMP_DIMS(2, 2)}, {{"out", out}}), out) << amp_last_error();
    EXPECT_EQ(numbers_of(out), std::vector<double>(4, 1));
    EXPECT_EQ(op("full_out", {AMP_DIMS(2, 2), 3}, {{"out", out}}), out) << amp_last_error();
    EXPECT_EQ(numbers_of(out), std::vector<double>(4, 3));
    EXPECT_EQ(op("arange_out", {2}, {{"out", op("select", {out, 1, 0})}, {"dtype", AMP_BF16}}) != nullptr, true);
    EXPECT_EQ(numbers_of(out), (std::vector<double>{0, 3, 1, 3}));
    EXPECT_EQ(op("zeros_out", {AMP_DIMS(2, 2)}, {{"out", out}, {"dtype", AMP_F32}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"zeros_out: 'out' is [2, 2] bf16", "f32"}));
    EXPECT_EQ(op("arange_out", {3.0}, {{"out", out}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"arange_out: 'out' is [2, 2] bf16", "[3]"}));
}

/* ---- Views in place ---------------------------------------------------------------------------------------------- */
namespace {
using ViewsInPlace = amp_test::Test;

Shape shape_of(const amp_tensor *t) {
    return Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
}
} // namespace

TEST_F(ViewsInPlace, BecomeTheirView) {
    const struct {
        const char *name;
        std::vector<Value> arguments;
    } calls[] = {{"t", {}},
                 {"transpose", {0, -1}},
                 {"unsqueeze", {1}},
                 {"squeeze", {}},
                 {"squeeze", {AMP_DIMS(0)}},
                 {"unsqueeze", {-1}},
                 {"squeeze", {AMP_DIMS(0, 1)}}};
    for (const auto &call : calls) {
        for (const Shape &shape : {Shape{2, 3}, Shape{1, 4}, Shape{1, 1}}) {
            amp_tensor *x = random_tensor(AMP_F32, shape, 7);
            std::vector<Value> arguments = {x};
            arguments.insert(arguments.end(), call.arguments.begin(), call.arguments.end());
            const uint64_t version = amp_tensor_version(x);
            const void *data = amp_data(x);
            const amp_tensor *view = op(call.name, arguments);
            const std::vector<double> expected = numbers_of(view);
            ASSERT_EQ(op(std::string(call.name) + "_", arguments), x) << amp_last_error();
            EXPECT_EQ(shape_of(x), shape_of(view)) << call.name;
            EXPECT_EQ(numbers_of(x), expected) << call.name;
            EXPECT_EQ(amp_data(x), data);
            EXPECT_EQ(amp_tensor_version(x), version + 1) << "what was saved of it, or cast, is of another shape";
        }
    }
}

TEST_F(ViewsInPlace, ReadOnlyAndExpandedTensorsMayTurn) {
    amp_tensor *wide = op("expand", {tensor(AMP_F32, {1, 2}, {1, 2}), AMP_DIMS(3, 2)});
    ASSERT_EQ(op("t_", {wide}), wide) << amp_last_error();
    EXPECT_EQ(numbers_of(wide), (std::vector<double>{1, 1, 1, 2, 2, 2}));
    wide->storage->read_only = true;
    EXPECT_EQ(op("transpose_", {wide, 0, 1}), wide) << amp_last_error();
    wide->storage->read_only = false;
    EXPECT_EQ(shape_of(wide), (Shape{3, 2}));
}

TEST_F(ViewsInPlace, ErrorsLeaveTheTensorAsItWas) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 1, 1, 1, 1, 1, 1}, 3);
    EXPECT_EQ(op("unsqueeze_", {x, 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"unsqueeze_: ", "9 dimensions"}));
    EXPECT_EQ(op("transpose_", {x, 0, 8}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"transpose_: "}));
    EXPECT_EQ(op("t_", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"t_: "}));
    EXPECT_EQ(shape_of(x), (Shape{2, 3, 1, 1, 1, 1, 1, 1}));
    EXPECT_EQ(op("view_", {x, AMP_DIMS(6)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"view_: there is no such form"}));
}
