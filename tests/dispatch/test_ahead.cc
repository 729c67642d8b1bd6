// Calls that run ahead say of every op what its results are when they are computed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>

#include "internals.h"
#include "op_calls.h"

using op_calls::Call;
using op_calls::Layout;
using op_calls::Result;

namespace {

struct Look {
    amp_dtype dtype;
    std::vector<int64_t> shape, strides;
    bool operator==(const Look &o) const {
        return dtype == o.dtype && shape == o.shape && strides == o.strides;
    }
};

std::ostream &operator<<(std::ostream &out, const Look &look) {
    out << amp_dtype_name(look.dtype) << " [";
    for (int64_t n : look.shape) out << n << " ";
    out << "] strides [";
    for (int64_t n : look.strides) out << n << " ";
    return out << "]";
}

// Strides of extents that have any say in where elements lie.
Look look_of(const amp_tensor *t) {
    Look look = {t->dtype, {t->shape, t->shape + t->rank}, {}};
    const bool empty = amp_tensor_elements(t) == 0;
    for (int d = 0; d < t->rank; d++) look.strides.push_back(t->shape[d] == 1 || empty ? 0 : t->strides[d]);
    return look;
}

std::vector<Look> results_of(const amp_call *call) {
    std::vector<Look> looks;
    if (call->op->flags & AMP_OP_RETURNS_LIST) {
        for (int64_t i = 0; i < call->list.count; i++) looks.push_back(look_of(call->list.items[i]));
        return looks;
    }
    for (int i = 0; i < call->op->output_count; i++) {
        if (call->outputs[i] && amp_call_wants(call, i)) looks.push_back(look_of(call->outputs[i]));
    }
    return looks;
}

std::map<std::string, std::string> wrong; // by op
std::set<std::string> refused, done;

std::string key(const amp_op_info &op) {
    return op.overload[0] ? std::string(op.name) + "." + op.overload : std::string(op.name);
}

// As if the arguments had no elements.
void set_ahead(const amp_call *call, bool ahead) {
    static bool value;
    value = ahead;
    (void)amp_call_each_tensor(call, [](const amp_call *, const amp_arg_info *, amp_tensor *t) {
        const_cast<amp_storage *>(amp_tensor_memory(t)->storage)->is_ahead = value;
        return AMP_OK;
    });
}

// First ahead, then as it was.
amp_status compare(amp_call *call) {
    if (amp_this_thread.layers & AMP_INSIDE_OP) return amp_ahead_run_part(call);
    if (call->form != AMP_FORM_FUNCTION) return amp_call_next(call);
    const amp_call before = *call;
    std::vector<char> args(call->op->args_size);
    std::memcpy(args.data(), call->args, args.size());
    call->ahead = AMP_LAYER_CAPTURE;
    set_ahead(call, true);
    amp_this_thread.is_trying = true;
    const amp_status ahead = amp_call_next(call);
    amp_this_thread.is_trying = false;
    const std::vector<Look> expected = ahead == AMP_OK ? results_of(call) : std::vector<Look>();
    amp_clear_error();
    for (int i = before.cast_count; i < call->cast_count; i++) amp_tensor_end_at(&call->casts[i]);
    *call = before;
    std::memcpy(const_cast<void *>(call->args), args.data(), args.size());
    set_ahead(call, false);
    const amp_status status = amp_call_next(call);
    if (status != AMP_OK) return status;
    const std::string name = key(*call->op);
    if (ahead != AMP_OK) {
        refused.insert(name);
    } else if (!(expected == results_of(call))) {
        std::ostringstream text;
        text << name << ":";
        for (const Look &look : expected) text << "\n  ahead    " << look;
        for (const Look &look : results_of(call)) text << "\n  computed " << look;
        wrong.emplace(name, text.str());
    } else {
        done.insert(name);
    }
    return status;
}

struct Ahead : testing::Test {
    void SetUp() override {
        amp_layer_install(AMP_LAYER_CAPTURE, compare);
        amp_layer_activate(AMP_LAYER_CAPTURE, true);
    }
    void TearDown() override {
        amp_layer_activate(AMP_LAYER_CAPTURE, false);
        amp_layer_install(AMP_LAYER_CAPTURE, nullptr);
    }
};

TEST_F(Ahead, EveryOpSaysWhatItsResultsAre) {
    const char *golden = std::getenv("AMP_GOLDEN");
    for (Call &call : op_calls::all(golden && *golden ? golden : AMP_TESTS_GOLDEN)) {
        for (const Layout layout : {Layout::dense, Layout::strided, Layout::channels_last}) {
            const Result result = op_calls::run(call, layout, 1);
            EXPECT_FALSE(result.leaked) << op_calls::describe(call);
        }
    }
    for (const auto &[name, text] : wrong) ADD_FAILURE() << text;
    for (const std::string &name : refused) {
        printf("refused: %s\n", name.c_str());
        EXPECT_FALSE(amp_op_find(name.c_str())->flags & AMP_OP_COMPOSED)
            << name << " cannot run ahead, though it is composed";
    }
    EXPECT_GT(done.size(), 400u);
}

} // namespace
