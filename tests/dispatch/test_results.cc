// Where results go: targets that are also inputs, second results after a failure, sizes that no memory holds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "amp_test.h"
#include "internals.h"

using namespace amp_test;

namespace {

using Results = amp_test::Test;

std::string key(const amp_op_info &op) {
    return op.overload[0] ? std::string(op.name) + "." + op.overload : std::string(op.name);
}

bool is_condition(const amp_arg_info &arg) {
    const std::string name = arg.name;
    return name == "condition" || name == "mask";
}

// Every tensor argument, required or not, and a number for every required one.
std::vector<amp_argument> arguments_of(const amp_op_info &op) {
    std::vector<amp_argument> arguments;
    for (int i = 0; i < op.arg_count; i++) {
        const amp_arg_info &arg = op.args[i];
        Value value = nullptr;
        if (arg.kind == AMP_ARG_TENSOR) {
            value = random_tensor(is_condition(arg) ? AMP_BOOL : AMP_F32, {7, 5}, uint64_t(i) + 1);
        } else if (arg.flags & AMP_ARG_REQUIRED) {
            value = 0.5;
        } else {
            continue;
        }
        arguments.push_back({arg.name, value.v});
    }
    return arguments;
}

amp_tensor *run(const amp_op_info &op, const std::string &suffix, std::vector<amp_argument> arguments,
                amp_tensor *out) {
    amp_tensor *result = nullptr;
    std::string name = op.name + suffix;
    if (op.overload[0]) name = key(op) + suffix;
    if (out) arguments.push_back({"out", Value(out).v});
    amp_call_op(name.c_str(), arguments.data(), int(arguments.size()), &result, 1, nullptr);
    return result;
}

} // namespace

TEST_F(Results, OutMayBeAnyInputOfAnElementwiseOp) {
    int tried = 0;
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &op = amp_op_table[i];
        const bool suits = (op.flags & AMP_OP_ELEMENTWISE) && (op.forms & AMP_FORM_OUT) && !op.alias_of;
        if (!suits || !amp_cpu_backend.find(&op).run) continue;
        SCOPED_TRACE(key(op));
        const size_t count = arguments_of(op).size();
        amp_manual_seed(1);
        amp_tensor *fresh = run(op, "", arguments_of(op), nullptr);
        if (!fresh || amp_dtype_is_complex(amp_tensor_dtype(fresh))) { // an op of integers, say, or polar
            amp_clear_error();
            continue;
        }
        for (size_t k = 0; k < count; k++) {
            std::vector<amp_argument> arguments = arguments_of(op);
            if (arguments[k].value.kind != AMP_VALUE_TENSOR) continue;
            amp_tensor *target = arguments[k].value.as.tensor;
            if (amp_tensor_dtype(target) != AMP_F32) continue;
            amp_manual_seed(1);
            ASSERT_EQ(run(op, "_out", arguments, target), target) << amp_last_error();
            const std::vector<double> expected = numbers_of(fresh), got = numbers_of(target);
            for (size_t e = 0; e < got.size(); e++) {
                if (got[e] == got[e] || expected[e] == expected[e]) {
                    ASSERT_EQ(got[e], expected[e]) << "out is '" << arguments[k].name << "', element " << e;
                }
            }
            tried++;
        }
    }
    EXPECT_GT(tried, 60);
}

TEST_F(Results, ClampIntoItsUpperBound) {
    amp_tensor *high = tensor(AMP_F32, {2}, {3});
    EXPECT_EQ(op("clamp.tensor_out", {tensor(AMP_F32, {2}, {5, -5}), tensor(AMP_F32, {2}, {0}), high}, {{"out", high}}),
              high);
    EXPECT_EQ(numbers_of(high), (std::vector<double>{3, 0}));
}

TEST_F(Results, SecondResultsAreNullAfterAFailure) {
    amp_tensor *x = tensor(AMP_F32, {2, 2});
    amp_tensor *indices = x;
    amp_max_dim_args args = {};
    args.struct_size = sizeof args;
    args.input = x;
    args.dim = 7; // no such dimension
    args.indices = &indices;
    EXPECT_EQ(amp_max_dim_call(&args), nullptr);
    EXPECT_EQ(indices, nullptr);
    indices = x; // the error stands
    EXPECT_EQ(amp_max_dim_call(&args), nullptr);
    EXPECT_EQ(indices, nullptr);
    amp_clear_error();
    indices = x;
    args.struct_size = offsetof(amp_max_dim_args, indices); // an older program: there is no such field
    EXPECT_EQ(amp_max_dim_call(&args), nullptr);
    EXPECT_EQ(indices, x);
    amp_clear_error();
}

// Expanded views have any number of elements in one of memory; a packed form of them does not. Other types need no
// copy: they would only take for ever.
TEST_F(Results, SizesBeyondAllMemoryAreRefused) {
    for (const int log : {62, 58, 57, 50, 42, 40}) {
        SCOPED_TRACE("2^" + std::to_string(log));
        const int64_t many = int64_t(1) << log;
        amp_tensor *row = op("expand", {tensor(AMP_BF16, {1, 1}), AMP_DIMS(1, many)});
        amp_tensor *column = op("expand", {tensor(AMP_BF16, {1, 1}), AMP_DIMS(many, 1)});
        EXPECT_EQ(op("mm", {row, column}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"no memory"}));
    }
}
