// amp/user.h: annotated functions, registrations by name, ops that the program defines. The registry is the process's,
// so every test defines names of its own; amp_register_end() can be called once, which one test does in a child.
#include "user_in_c.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "amp_test.h"
#include "internals.h"

extern "C" {
#include "policy/schema.h"
}

using namespace amp_test;

namespace {

struct UserFunction : Test {};
struct UserOp : Test {};
struct Registration : Test {};
struct Schema : Test {};

amp_dtype dtype_of(amp_tensor *t) {
    return amp_tensor_dtype(t);
}

// Runs in a process of its own; true if the child says so.
bool in_child(const std::function<bool()> &check) {
    const pid_t child = fork();
    if (child == 0) _exit(check() ? 0 : 1);
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

twice_args args_of(amp_tensor *input, double factor = 2) {
    twice_args args = {};
    args.struct_size = sizeof args;
    args.input = input;
    args.factor = AMP_SET(factor);
    return args;
}

/* The arguments of ops of one tensor. */
struct One {
    size_t struct_size;
    amp_tensor *input;
};

void define_one(const char *schema, const char *policy, amp_op_implementation run) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = schema;
    d.args_size = sizeof(One);
    d.cpu.policy = policy;
    d.cpu.run = run;
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();
}

} // namespace

// ---- Annotated functions ----------------------------------------------------------------------------------------

TEST_F(UserFunction, IsLeftAloneOutsideOfRegions) {
    EXPECT_EQ(dtype_of(half_product(tensor(AMP_F32, {2}), tensor(AMP_F32, {2}))), AMP_F32);
    EXPECT_EQ(dtype_of(float_product(tensor(AMP_BF16, {2}), tensor(AMP_BF16, {2}))), AMP_BF16);
    Region off([] {
        amp_autocast_args args = region_args();
        args.enabled = AMP_SET(false);
        return args;
    }());
    EXPECT_EQ(dtype_of(half_product(tensor(AMP_F32, {2}), tensor(AMP_F32, {2}))), AMP_F32);
}

TEST_F(UserFunction, HalfRunsInTheRegionsDtype) {
    for (const amp_dtype lower : {AMP_BF16, AMP_F16}) {
        Region region(AMP_DEVICE_CPU, lower);
        amp_tensor *y = half_product(tensor(AMP_F32, {2}, {1.5, 3}), tensor(AMP_F32, {2}, {2}));
        EXPECT_EQ(dtype_of(y), lower);
        EXPECT_EQ(numbers_of(y), (std::vector<double>{3, 6}));
    }
}

TEST_F(UserFunction, FloatRunsInF32) {
    Region region;
    EXPECT_EQ(dtype_of(float_product(tensor(AMP_BF16, {2}), tensor(AMP_F16, {2}))), AMP_F32);
}

TEST_F(UserFunction, PromoteTakesTheWidest) {
    Region region;
    EXPECT_EQ(dtype_of(promoted_second(tensor(AMP_F32, {2}), tensor(AMP_BF16, {2}))), AMP_F32);
    EXPECT_EQ(dtype_of(promoted_second(tensor(AMP_F16, {2}), tensor(AMP_BF16, {2}))), AMP_F32);
    EXPECT_EQ(dtype_of(promoted_second(tensor(AMP_F16, {2}), tensor(AMP_F16, {2}))), AMP_F16) << "they do not differ";
    EXPECT_EQ(dtype_of(promoted_second(tensor(AMP_F64, {2}), tensor(AMP_BF16, {2}))), AMP_BF16) << "f64 is ignored";
    EXPECT_EQ(promoted_second(tensor(AMP_F32, {2}), nullptr), nullptr);
}

TEST_F(UserFunction, LeavesF64AndIntegersAlone) {
    Region region;
    EXPECT_EQ(dtype_of(half_product(tensor(AMP_F64, {2}), tensor(AMP_F64, {2}))), AMP_F64);
    EXPECT_EQ(dtype_of(half_product(tensor(AMP_I64, {2}), tensor(AMP_I64, {2}))), AMP_I64);
}

TEST_F(UserFunction, ReleasesItsCastsWithoutAScope) {
    amp_tensor *x = amp_keep(tensor(AMP_F32, {4})), *y = amp_keep(tensor(AMP_F32, {4}));
    std::thread([&] { // a thread without a scope
        const size_t before = amp_memory_statistics().live_tensors;
        Region region;
        amp_release(half_product(x, y));
        EXPECT_EQ(amp_memory_statistics().live_tensors, before);
    })
        .join();
    amp_release(x);
    amp_release(y);
}

TEST_F(UserFunction, TakesAParametersCastFromTheCache) {
    amp_tensor *w = tensor(AMP_F32, {4}), *x = tensor(AMP_F32, {4});
    ASSERT_EQ(amp_tensor_mark_parameter(w), AMP_OK);
    Region region;
    half_product(x, w);
    const uint64_t hits = amp_cast_cache_statistics().hits;
    half_product(x, w);
    EXPECT_EQ(amp_cast_cache_statistics().hits, hits + 1);
    ASSERT_NE(amp_data_mut(w), nullptr);
    static_cast<float *>(amp_data_mut(w))[0] = 8;
    EXPECT_EQ(numbers_of(half_product(x, w))[0], 8);
}

TEST_F(UserFunction, SaysWhatIsWrong) {
    Region region;
    amp_tensor *x = amp_keep(tensor(AMP_F32, {2})), *other = tensor(AMP_F32, {2});
    amp_release(x);
    EXPECT_EQ(half_product(x, other), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"function: tensor 0", "released"}));
    amp_tensor *t = tensor(AMP_F32, {2});
    std::vector<amp_tensor **> many(AMP_FUNCTION_TENSORS + 1, &t);
    EXPECT_EQ(amp_function_begin(AMP_FUNCTION_HALF, many.data(), int(many.size())).count, 0);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"17 tensors", "at most 16"}));
    amp_tensor **none = nullptr;
    amp_function_begin(AMP_FUNCTION_HALF, &none, 1);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"pointer 0", "NULL"}));
}

TEST_F(UserFunction, WorksInCxx) {
    Region region;
    amp_tensor *x = tensor(AMP_F32, {2}), *given = x;
    {
        amp_half_function(&x);
        EXPECT_EQ(dtype_of(x), AMP_BF16);
    }
    EXPECT_EQ(dtype_of(given), AMP_F32);
}

// ---- Registrations ----------------------------------------------------------------------------------------------

TEST_F(Registration, OfAnUnknownNameIsAnError) {
    EXPECT_EQ(amp_register_half_function("no_such_op"), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"register_half_function", "'no_such_op'"}));
    EXPECT_EQ(amp_register_float_function(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"register_float_function", "'NULL'"}));
    EXPECT_EQ(amp_register_promote_function("add.nothing"), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"register_promote_function", "'add.nothing'"}));
}

TEST_F(Registration, HoldsFromInitOn) {
    EXPECT_TRUE(in_child([] {
        bool good = amp_register_half_function("exp") == AMP_OK && amp_register_float_function("mm") == AMP_OK &&
                    amp_register_promote_function("maximum") == AMP_OK;
        Region region;
        good &= dtype_of(op("exp", {tensor(AMP_F32, {2})})) == AMP_F32; // not yet
        good &= amp_register_end(nullptr) == AMP_OK;
        good &= dtype_of(op("exp", {tensor(AMP_F32, {2})})) == AMP_BF16;
        good &= dtype_of(op("mm", {tensor(AMP_F32, {2, 2}), tensor(AMP_BF16, {2, 2})})) == AMP_F32;
        good &= dtype_of(op("maximum", {tensor(AMP_BF16, {2}), tensor(AMP_F32, {2})})) == AMP_F32;
        good &= amp_autocast_dtype_for("exp", AMP_DEVICE_CPU, nullptr) == AMP_BF16;
        // overrides go above, and back to the registration
        good &= amp_autocast_override("exp", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY) == AMP_OK;
        good &= amp_autocast_dtype_for("exp", AMP_DEVICE_CPU, nullptr) == AMP_F32;
        good &= amp_autocast_override("exp", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE) == AMP_OK;
        good &= amp_autocast_dtype_for("exp", AMP_DEVICE_CPU, nullptr) == AMP_BF16;
        good &= amp_last_status() == AMP_OK;
        // too late
        good &= amp_register_half_function("log") == AMP_ERROR_INVALID;
        good &= bool(failed_with(AMP_ERROR_INVALID, {"'log'", "amp_register_end"}));
        good &= amp_register_end(nullptr) == AMP_ERROR_INVALID;
        return good && failed_with(AMP_ERROR_INVALID, {"register_end", "before"});
    }));
}

TEST_F(Registration, OfAnOverloadAndOfADefinedOp) {
    ASSERT_NE(define_twice("registered_op(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", nullptr),
              nullptr);
    EXPECT_TRUE(in_child([] {
        bool good = amp_register_half_function("add.scalar") == AMP_OK;
        good &= amp_register_float_function("registered_op") == AMP_OK;
        good &= amp_register_half_function("registered_op") == AMP_OK; // the last one holds
        good &= amp_register_end(nullptr) == AMP_OK;
        Region region;
        good &= amp_autocast_dtype_for("add.scalar", AMP_DEVICE_CPU, nullptr) == AMP_BF16;
        good &= amp_autocast_dtype_for("add", AMP_DEVICE_CPU, nullptr) == AMP_DTYPE_NONE;
        return good && amp_autocast_dtype_for("registered_op", AMP_DEVICE_CPU, nullptr) == AMP_BF16;
    }));
}

TEST_F(Registration, IsIgnoredWhereInitSaysSo) {
    EXPECT_TRUE(in_child([] {
        amp_register_end_args args = {};
        args.struct_size = sizeof args;
        args.enabled.value = true;
        bool good = amp_register_end(&args) == AMP_ERROR_INVALID;
        good &= bool(failed_with(AMP_ERROR_INVALID, {"'enabled'", "AMP_SET"}));
        args.struct_size = 1;
        good &= amp_register_end(&args) == AMP_ERROR_INVALID;
        good &= bool(failed_with(AMP_ERROR_INVALID, {"struct_size is 1"}));
        args.struct_size = sizeof args;
        args.enabled = AMP_SET(false);
        good &= amp_register_half_function("exp") == AMP_OK && amp_register_end(&args) == AMP_OK;
        Region region;
        return good && amp_autocast_dtype_for("exp", AMP_DEVICE_CPU, nullptr) == AMP_DTYPE_NONE;
    }));
}

// ---- Ops of the program -----------------------------------------------------------------------------------------

TEST_F(UserOp, RunsByStructAndByName) {
    const amp_op *twice =
        define_twice("twice(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", "lower");
    ASSERT_NE(twice, nullptr) << amp_last_error();
    twice_args args = {};
    args.struct_size = sizeof args;
    args.input = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(numbers_of(amp_call_defined(twice, &args)), (std::vector<double>{2, 4, 6, 8})) << "the schema's default";
    EXPECT_EQ(numbers_of(op("twice", {args.input}, {{"factor", 3.0}})), (std::vector<double>{3, 6, 9, 12}));
    EXPECT_EQ(numbers_of(op("twice", {args.input}, {{"by_ops", true}})), (std::vector<double>{2, 4, 6, 8}));
    EXPECT_EQ(numbers_of(op("twice", {op("t", {args.input})})), (std::vector<double>{2, 6, 4, 8}));
    EXPECT_EQ(numbers_of(op("twice", {tensor(AMP_F32, {0})})).size(), 0u);
}

TEST_F(UserOp, HasInPlaceAndOutForms) {
    const amp_op *twice =
        define_twice("twice_forms(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", "lower");
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4}), *out = op("t", {tensor(AMP_F32, {2, 2}, {0})});
    const twice_args args = args_of(x, 2);
    EXPECT_EQ(amp_call_defined_out(twice, out, &args), out);
    EXPECT_EQ(numbers_of(out), (std::vector<double>{2, 4, 6, 8})) << "a strided target";
    EXPECT_EQ(amp_call_defined_inplace(twice, &args), x);
    EXPECT_EQ(numbers_of(x), (std::vector<double>{2, 4, 6, 8}));
    EXPECT_EQ(op("twice_forms_", {x}), x);
    EXPECT_EQ(numbers_of(x), (std::vector<double>{4, 8, 12, 16}));
    EXPECT_EQ(op("twice_forms_out", {x}, {{"out", out}}), out);
    Region region;
    EXPECT_EQ(op("twice_forms_", {x}, {{"by_ops", true}}), x) << "in place, so not cast";
    EXPECT_EQ(dtype_of(x), AMP_F32);
}

TEST_F(UserOp, ObeysItsPolicyAndIsSeen) {
    ASSERT_NE(define_twice("twice_lower(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", "lower"),
              nullptr);
    ASSERT_NE(define_twice("twice_plain(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", nullptr),
              nullptr);
    EXPECT_STREQ(amp_autocast_policy("twice_lower", AMP_DEVICE_CPU, "ipex"), "lower");
    EXPECT_STREQ(amp_autocast_policy("twice_lower", AMP_DEVICE_CUDA, nullptr), "fallthrough");
    amp_tensor *x = tensor(AMP_F32, {2});
    amp_explain_reset();
    amp_explain_begin();
    {
        Region region;
        EXPECT_EQ(dtype_of(op("twice_lower", {x}, {{"by_ops", true}})), AMP_BF16);
        EXPECT_EQ(dtype_of(op("twice_plain", {x}, {{"by_ops", true}})), AMP_F32);
        const char *why = nullptr;
        EXPECT_EQ(amp_autocast_dtype_for("twice_lower", AMP_DEVICE_CPU, &why), AMP_BF16);
        EXPECT_NE(std::string(why).find("twice_lower: policy lower of torch on cpu"), std::string::npos) << why;
        ASSERT_EQ(amp_autocast_override("twice_lower", AMP_DEVICE_CPU, AMP_OVERRIDE_DENY), AMP_OK);
        EXPECT_EQ(amp_autocast_dtype_for("twice_lower", AMP_DEVICE_CPU, nullptr), AMP_F32);
        ASSERT_EQ(amp_autocast_override("twice_lower", AMP_DEVICE_CPU, AMP_OVERRIDE_NONE), AMP_OK);
    }
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_TABLE);
    EXPECT_NE(std::string(report).find("twice_lower"), std::string::npos) << report;
    EXPECT_NE(std::string(report).find("  twice\n"), std::string::npos) << "the kernel's name: " << report;
    EXPECT_EQ(std::string(report).find("mul"), std::string::npos) << "inner calls are not counted: " << report;
    amp_explain_free(report);
    amp_explain_reset();
}

TEST_F(UserOp, FailsInOneSentence) {
    const amp_op *twice =
        define_twice("twice_fails(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", "lower");
    const size_t live = amp_memory_statistics().live_tensors;
    EXPECT_EQ(op("twice_fails", {}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"twice_fails: the argument 'input' is missing"}));
    twice_args args = args_of(nullptr);
    EXPECT_EQ(amp_call_defined(twice, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"twice_fails: the argument 'input' is missing"}));
    args.struct_size = 3;
    EXPECT_EQ(amp_call_defined(twice, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"struct_size is 3"}));
    EXPECT_EQ(amp_call_defined(twice, nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"struct is NULL"}));
    EXPECT_EQ(amp_call_defined(nullptr, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"the op is NULL"}));
    EXPECT_EQ(amp_call_defined_list(twice, &args).count, 0);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"returns a tensor"}));
    {
        Scope scope;
        EXPECT_EQ(op("twice_fails", {tensor(AMP_I64, {3})}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"twice_fails: input is [3] i64; expected f32 or bf16"}));
        EXPECT_EQ(op("twice_fails", {tensor(AMP_F32, {3})}, {{"factor", "x"}}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'factor' must be a real number"}));
        EXPECT_EQ(op("twice_fails_out", {tensor(AMP_F32, {3})}, {{"out", tensor(AMP_F32, {2})}}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"twice_fails_out: 'out' is [2] f32"}));
    }
    EXPECT_EQ(amp_memory_statistics().live_tensors, live);
}

// What an implementation may do wrong ends as an error, too.
TEST_F(UserOp, WithABadImplementationFails) {
    struct Args {
        size_t struct_size = sizeof(Args);
        amp_tensor *input = nullptr;
    };
    const auto define = [](const char *schema, amp_op_implementation run) {
        amp_op_definition d = {};
        d.struct_size = sizeof d;
        d.schema = schema;
        d.args_size = sizeof(Args);
        d.cpu.run = run;
        const amp_op *made = amp_define_op_call(&d);
        EXPECT_NE(made, nullptr) << amp_last_error();
        return made;
    };
    Args args;
    args.input = tensor(AMP_F32, {2});
    const amp_op *silent =
        define("bad_silent(Tensor input) -> Tensor", [](amp_call *, const void *) { return AMP_ERROR_DTYPE; });
    EXPECT_EQ(amp_call_defined(silent, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"bad_silent: the implementation on cpu failed"}));
    const amp_op *empty = define("bad_empty(Tensor input) -> Tensor", [](amp_call *, const void *) { return AMP_OK; });
    EXPECT_EQ(amp_call_defined(empty, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"bad_empty: the implementation on cpu made no result"}));
    const amp_op *null = define("bad_null(Tensor input) -> Tensor",
                                [](amp_call *call, const void *) { return amp_call_return(call, 0, nullptr); });
    EXPECT_EQ(amp_call_defined(null, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"bad_null: the implementation returns NULL"}));
    const amp_op *beyond = define("bad_beyond(Tensor input) -> Tensor", [](amp_call *call, const void *) {
        return amp_call_output(call, 7, AMP_F32, 0, nullptr) ? AMP_OK : amp_last_status();
    });
    EXPECT_EQ(amp_call_defined(beyond, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"bad_beyond: the implementation makes result number 7"}));
    const amp_op *inner = define("bad_inner(Tensor input) -> Tensor", [](amp_call *call, const void *a) {
        return amp_call_return(call, 0,
                               op("mm", {static_cast<const Args *>(a)->input, static_cast<const Args *>(a)->input}));
    });
    EXPECT_EQ(amp_call_defined(inner, &args), nullptr);
    EXPECT_NE(amp_last_status(), AMP_OK);
    EXPECT_EQ(std::string(amp_last_error()).rfind("bad_inner: mm: ", 0), 0u) << amp_last_error();
    amp_clear_error();
}

TEST_F(UserOp, ReturnsItsArgumentAsAView) {
    struct Args {
        size_t struct_size;
        amp_tensor *input;
    };
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "same_tensor(Tensor input) -> Tensor";
    d.args_size = sizeof(Args);
    d.cpu = {"lower", [](amp_call *call, const void *a) {
                 return amp_call_return(call, 0, static_cast<const Args *>(a)->input);
             }};
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();
    amp_tensor *x = tensor(AMP_F32, {2}, {5, 6});
    amp_tensor *y = op("same_tensor", {x});
    EXPECT_NE(y, x);
    EXPECT_EQ(amp_data(y), amp_data(x));
    Region region;
    amp_tensor *cast = op("same_tensor", {x});
    EXPECT_EQ(dtype_of(cast), AMP_BF16);
    EXPECT_EQ(numbers_of(cast), (std::vector<double>{5, 6}));
}

TEST_F(UserOp, HasSeveralResultsOrAList) {
    struct Args {
        size_t struct_size = sizeof(Args);
        amp_tensor **second = nullptr;
        amp_tensor *input = nullptr;
    };
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "two_results(Tensor input) -> (Tensor first, Tensor input)"; // the second is the field out_input
    d.args_size = sizeof(Args);
    d.cpu.run = [](amp_call *call, const void *a) {
        amp_tensor *x = static_cast<const Args *>(a)->input;
        const amp_status status = amp_call_return(call, 0, op("neg", {x}));
        return status != AMP_OK ? status : amp_call_return(call, 1, op("abs", {x}));
    };
    const amp_op *two = amp_define_op_call(&d);
    ASSERT_NE(two, nullptr) << amp_last_error();
    Args args;
    args.input = tensor(AMP_F32, {1}, {-3});
    amp_tensor *second = nullptr;
    EXPECT_EQ(numbers_of(amp_call_defined(two, &args)), std::vector<double>{3}) << "the second is not wanted";
    args.second = &second;
    EXPECT_EQ(numbers_of(amp_call_defined(two, &args)), std::vector<double>{3});
    EXPECT_EQ(numbers_of(second), std::vector<double>{3});
    std::vector<amp_tensor *> outputs;
    ASSERT_EQ(call("two_results", {args.input}, {}, &outputs), AMP_OK);
    EXPECT_EQ(outputs.size(), 2u);

    struct ListArgs {
        size_t struct_size = sizeof(ListArgs);
        amp_tensor_list inputs = {};
    };
    d.schema = "same_list(Tensor[] inputs) -> Tensor[]";
    d.args_size = sizeof(ListArgs);
    d.cpu = {"promote", [](amp_call *call, const void *a) {
                 const amp_tensor_list list = static_cast<const ListArgs *>(a)->inputs;
                 return amp_call_list(call, list.items, list.count);
             }};
    const amp_op *list = amp_define_op_call(&d);
    ASSERT_NE(list, nullptr) << amp_last_error();
    EXPECT_EQ(amp_call_defined(list, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"amp_call_defined_list", "returns a list"}));
    Region region;
    ASSERT_EQ(call("same_list", {std::vector<amp_tensor *>{tensor(AMP_F32, {1}), tensor(AMP_BF16, {2})}}, {}, &outputs),
              AMP_OK);
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(dtype_of(outputs[1]), AMP_F32);
}

TEST_F(UserOp, HasOverloads) {
    struct Args {
        size_t struct_size;
        amp_tensor *input;
        amp_scalar other;
    };
    ASSERT_NE(define_twice("overloaded(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor", nullptr),
              nullptr);
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "overloaded.scalar(Tensor input, Scalar other) -> Tensor";
    d.args_size = sizeof(Args);
    d.cpu = {"fp32", [](amp_call *call, const void *a) {
                 const Args *args = static_cast<const Args *>(a);
                 return amp_call_return(call, 0, op("full_like", {args->input, args->other}));
             }};
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();
    amp_tensor *x = tensor(AMP_F32, {1}, {4});
    EXPECT_EQ(numbers_of(op("overloaded", {x})), std::vector<double>{8});
    EXPECT_EQ(numbers_of(op("overloaded", {x}, {{"other", 3}})), std::vector<double>{3});
    EXPECT_EQ(numbers_of(op("overloaded.scalar", {x, 5})), std::vector<double>{5});
    EXPECT_STREQ(amp_autocast_policy("overloaded.scalar", AMP_DEVICE_CPU, nullptr), "fp32");
}

TEST_F(UserOp, ThatLeavesItsScopeOrRegionUnbalancedIsToldSo) {
    define_one("opens_a_scope(Tensor input) -> Tensor", nullptr, [](amp_call *call, const void *args) {
        amp_scope_enter();
        return amp_call_return(call, 0, op("neg", {static_cast<const One *>(args)->input}));
    });
    define_one("closes_a_scope(Tensor input) -> Tensor", nullptr,
               [](amp_call *, const void *) { return amp_scope_exit(); });
    define_one("opens_a_region(Tensor input) -> Tensor", nullptr, [](amp_call *call, const void *args) {
        const amp_autocast_args region = region_args();
        amp_autocast_enter(&region);
        return amp_call_return(call, 0, op("neg", {static_cast<const One *>(args)->input}));
    });
    define_one("closes_a_region(Tensor input) -> Tensor", nullptr, [](amp_call *call, const void *args) {
        amp_autocast_exit(AMP_DEVICE_CPU);
        return amp_call_return(call, 0, op("neg", {static_cast<const One *>(args)->input}));
    });
    amp_tensor *x = tensor(AMP_F32, {2});
    EXPECT_EQ(op("opens_a_scope", {x}), nullptr);
    EXPECT_TRUE(
        failed_with(AMP_ERROR_INTERNAL, {"opens_a_scope: the implementation on cpu left 1 of its scopes open"}));
    EXPECT_EQ(op("closes_a_scope", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"closes_a_scope: scope: exit without an open scope inside the op"}));
    EXPECT_EQ(op("opens_a_region", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"opens_a_region", "left a region open"}));
    EXPECT_EQ(amp_autocast_nesting(), 0);
    const amp_autocast_args region = region_args();
    amp_autocast_enter(&region);
    EXPECT_EQ(op("closes_a_region", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"closes_a_region", "closed a region that it did not open"}));
    EXPECT_EQ(amp_autocast_nesting(), 0);
    EXPECT_NE(op("neg", {x}), nullptr) << "the caller's scope is as it was";
}

TEST_F(UserOp, MayMakeItsResultInAScopeOfItsOwn) {
    define_one("output_in_scope(Tensor input) -> Tensor", "lower", [](amp_call *call, const void *) {
        const int64_t shape[] = {2};
        Scope scope;
        amp_tensor *y = amp_call_output(call, 0, AMP_F32, 1, shape);
        op("fill_", {y, 18.0});
        return AMP_OK;
    });
    define_one("return_in_scope(Tensor input) -> Tensor", "lower", [](amp_call *call, const void *args) {
        Scope scope;
        return amp_call_return(call, 0, op("add", {static_cast<const One *>(args)->input, 1.0}));
    });
    define_one("list_in_scope(Tensor input) -> Tensor[]", "lower", [](amp_call *call, const void *args) {
        Scope scope;
        amp_tensor *items[] = {op("add", {static_cast<const One *>(args)->input, 1.0})};
        return amp_call_list(call, items, 1);
    });
    define_one("no_list(Tensor input) -> Tensor[]", "lower", [](amp_call *, const void *) { return AMP_OK; });
    define_one("released_result(Tensor input) -> Tensor", "lower", [](amp_call *call, const void *) {
        const int64_t shape[] = {2};
        amp_release(amp_call_output(call, 0, AMP_F32, 1, shape));
        return AMP_OK;
    });
    define_one("releases_its_argument(Tensor input) -> Tensor", "lower", [](amp_call *call, const void *args) {
        amp_release(static_cast<const One *>(args)->input);
        return amp_call_return(call, 0, static_cast<const One *>(args)->input);
    });
    amp_tensor *x = tensor(AMP_F32, {2}, {1, 2});
    EXPECT_EQ(numbers_of(op("output_in_scope", {x})), (std::vector<double>{18, 18}));
    EXPECT_EQ(numbers_of(op("return_in_scope", {x})), (std::vector<double>{2, 3}));
    std::vector<amp_tensor *> list;
    ASSERT_EQ(call("list_in_scope", {x}, {}, &list), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(list.at(0)), (std::vector<double>{2, 3}));
    EXPECT_EQ(op("no_list", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"no_list", "made no list"}));
    EXPECT_EQ(op("released_result", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"released_result: result 0", "released"}));
    Region region;
    EXPECT_EQ(op("releases_its_argument", {x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"releases_its_argument: release: the tensor is an argument"}));
}

TEST_F(UserOp, IsDefinedOnlyAsItShould) {
    const amp_op_implementation nothing = [](amp_call *, const void *) { return AMP_OK; };
    struct One {
        size_t struct_size;
        amp_tensor *input;
    };
    amp_op_definition good = {};
    good.struct_size = sizeof good;
    good.schema = "checked(Tensor input) -> Tensor";
    good.args_size = sizeof(One);
    good.cpu.run = nothing;
    const auto refuses = [&](const std::function<void(amp_op_definition *)> &change,
                             const std::vector<std::string> &words) {
        amp_op_definition d = good;
        change(&d);
        EXPECT_EQ(amp_define_op_call(&d), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, words));
    };
    refuses([](auto *d) { d->schema = nullptr; }, {"schema is NULL"});
    refuses([](auto *d) { d->struct_size = 8; }, {"struct_size is 8"});
    refuses([](auto *d) { d->struct_size = SIZE_MAX; }, {"struct_size"});
    refuses([](auto *d) { d->args_size = 40; },
            {"args_size of 'checked' is 40", "makes 16", "struct { size_t struct_size; amp_tensor *input; }"});
    refuses([](auto *d) { d->cpu.policy = "half"; }, {"no policy 'half'", "lower"});
    refuses([](auto *d) { d->cuda.policy = "fp32_set_opt_dtype"; }, {"needs an argument 'ScalarType? dtype=None'"});
    refuses([](auto *d) { d->cpu.run = nullptr; }, {"no implementation"});
    refuses([](auto *d) { d->schema = "add(Tensor input) -> Tensor"; }, {"'add' is an op of libamp"});
    refuses([](auto *d) { d->schema = "add.mine(Tensor input) -> Tensor"; }, {"'add' is an op of libamp"});
    refuses([](auto *d) { d->schema = "add_(Tensor input) -> Tensor"; }, {"'add_' ends like"});
    refuses([](auto *d) { d->schema = "my_out(Tensor input) -> Tensor"; }, {"'my_out' ends like"});
    refuses([](auto *d) { d->schema = "lists(Tensor input) -> Tensor[]", d->out = true; },
            {"'lists' has several results"});
    refuses([](auto *d) { d->schema = "numbers(str input) -> Tensor", d->in_place = true; },
            {"'input', which is no tensor"});
    EXPECT_EQ(amp_define_op_call(nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"define_op: the struct is NULL"}));
    EXPECT_NE(amp_define_op_call(&good), nullptr) << amp_last_error();
    refuses([](auto *) {}, {"'checked' is defined already"});
    refuses([](auto *d) { d->schema = "checked.(Tensor input) -> Tensor"; }, {"the overload's name"});
}

TEST_F(UserOp, WithoutAKernelOnTheDeviceSaysSo) {
    amp_op_definition d = {};
    struct One {
        size_t struct_size;
        amp_tensor *input;
    };
    d.struct_size = sizeof d;
    d.schema = "cuda_only(Tensor input) -> Tensor";
    d.args_size = sizeof(One);
    d.cuda = {"lower", [](amp_call *, const void *) { return AMP_OK; }};
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();
    EXPECT_EQ(op("cuda_only", {tensor(AMP_F32, {1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"cuda_only: not implemented on cpu"}));
}

// Definitions, look-ups and calls from several threads at once.
TEST_F(UserOp, IsDefinedAndCalledFromManyThreads) {
    std::atomic<int> defined{0}, duplicates{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < 10; i++) {
                const std::string own = "threaded_" + std::to_string(t) + "_" + std::to_string(i),
                                  shared = "threaded_shared_" + std::to_string(i);
                const std::string rest = "(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor";
                defined += define_twice((own + rest).c_str(), "lower") != nullptr;
                if (!define_twice((shared + rest).c_str(), "lower")) {
                    duplicates++;
                    amp_clear_error();
                }
                Scope scope;
                Region region;
                EXPECT_EQ(numbers_of(op(own, {tensor(AMP_F32, {1}, {3})})), std::vector<double>{6});
                EXPECT_EQ(numbers_of(op(shared, {tensor(AMP_F32, {1}, {3})})), std::vector<double>{6});
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(defined, 40);
    EXPECT_EQ(duplicates, 30);
}

TEST_F(UserOp, CannotBeDefinedWithoutEnd) {
    EXPECT_TRUE(in_child([] {
        const std::string rest = "(Tensor input, *, float factor=2.0, bool by_ops=False) -> Tensor";
        int made = 0;
        while (made < 1000 && define_twice(("many_" + std::to_string(made) + rest).c_str(), "lower")) made++;
        return made > 100 && failed_with(AMP_ERROR_INVALID, {"256"});
    }));
}

// ---- Schemas ----------------------------------------------------------------------------------------------------

// The parser makes of the library's own schemas what the generator makes: kinds, defaults and the layout of C.
TEST_F(Schema, OfEveryOpIsReadAsTheGeneratorReadsIt) {
    for (int i = 0; i < amp_op_count; i++) {
        const amp_op_info &expected = amp_op_table[i];
        SCOPED_TRACE(expected.schema);
        std::vector<char> room(amp_schema_room(std::strlen(expected.schema)));
        amp_schema got;
        ASSERT_EQ(amp_schema_parse(expected.schema, room.data(), &got), AMP_OK) << amp_last_error();
        EXPECT_STREQ(got.name, expected.name);
        EXPECT_STREQ(got.overload, expected.overload);
        EXPECT_STREQ(got.text, expected.schema);
        EXPECT_EQ(got.args_size, expected.args_size);
        EXPECT_EQ(got.output_count, expected.output_count);
        EXPECT_EQ(got.returns_list, (expected.flags & AMP_OP_RETURNS_LIST) != 0);
        ASSERT_EQ(got.arg_count, expected.arg_count);
        for (int k = 0; k < got.arg_count; k++) {
            const amp_arg_info &a = got.args[k], &b = expected.args[k];
            EXPECT_STREQ(a.name, b.name);
            EXPECT_EQ(a.kind, b.kind) << a.name;
            EXPECT_EQ(a.flags, b.flags & ~unsigned(AMP_ARG_WEIGHT | AMP_ARG_UNCAST)) << a.name;
            EXPECT_EQ(a.offset, b.offset) << a.name;
            EXPECT_EQ(a.dims, b.dims) << a.name;
            EXPECT_EQ(a.has_default, b.has_default) << a.name;
            EXPECT_EQ(a.default_number, b.default_number) << a.name;
            EXPECT_EQ(a.default_scalar_kind, b.default_scalar_kind) << a.name;
            EXPECT_STREQ(a.default_string, b.default_string) << a.name;
        }
    }
}

// Each tensor of a list that an op writes is one that it writes.
TEST_F(UserOp, WritesTheTensorsOfAList) {
    struct Args {
        size_t struct_size;
        amp_tensor_list grads;
        amp_tensor *factor;
    };
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = "test_scale_all(Tensor(a!)[] grads, Tensor factor) -> Tensor";
    d.args_size = sizeof(Args);
    d.cpu.policy = "lower";
    d.cpu.run = [](amp_call *call, const void *args) {
        const auto *a = static_cast<const Args *>(args);
        for (int64_t i = 0; i < a->grads.count; i++)
            if (!op("mul_", {a->grads.items[i], op("to", {a->factor, AMP_F32})})) return amp_last_status();
        return amp_call_return(call, 0, a->factor);
    };
    ASSERT_NE(amp_define_op_call(&d), nullptr) << amp_last_error();

    amp_tensor *x = tensor(AMP_F32, {2}, {1, 1 / 3.0}), *y = tensor(AMP_F32, {1}, {3}), *two = tensor(AMP_F32, {}, {2});
    const uint64_t versions[] = {amp_tensor_version(x), amp_tensor_version(y), amp_tensor_version(two)};
    const auto list = [](std::vector<amp_tensor *> tensors) { return Value(tensors); };
    {
        const Region region; // casts the factor, never what is written
        ASSERT_NE(op("test_scale_all", {list({x, y}), two}), nullptr) << amp_last_error();
    }
    EXPECT_EQ(numbers_of(x), (std::vector<double>{2, double(2 * float(1 / 3.0))}));
    EXPECT_EQ(numbers_of(y), (std::vector<double>{6}));
    EXPECT_GT(amp_tensor_version(x), versions[0]);
    EXPECT_GT(amp_tensor_version(y), versions[1]);
    EXPECT_EQ(amp_tensor_version(two), versions[2]);
    EXPECT_NE(op("test_scale_all", {list({}), two}), nullptr) << "nothing to write";

    amp_tensor *wide = op("expand", {tensor(AMP_F32, {1}), AMP_DIMS(3)});
    EXPECT_EQ(op("test_scale_all", {list({x, wide}), two}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"test_scale_all", "'grads'", "share memory"}));
    EXPECT_EQ(numbers_of(x)[0], 2) << "nothing was written";
}

TEST_F(Schema, MarksAreReadAndLeftOut) {
    const char *text = "  marked(Tensor input,\n   Tensor w@weight, Tensor(a!) m@uncast@weight) -> Tensor";
    std::vector<char> room(amp_schema_room(std::strlen(text)));
    amp_schema s;
    ASSERT_EQ(amp_schema_parse(text, room.data(), &s), AMP_OK) << amp_last_error();
    EXPECT_STREQ(s.text, "marked(Tensor input, Tensor w, Tensor(a!) m) -> Tensor");
    EXPECT_EQ(s.args[1].flags, unsigned(AMP_ARG_REQUIRED | AMP_ARG_WEIGHT));
    EXPECT_EQ(s.args[2].flags, unsigned(AMP_ARG_REQUIRED | AMP_ARG_WEIGHT | AMP_ARG_UNCAST | AMP_ARG_MUTATED));
}

TEST_F(Schema, ThatCannotBeReadSaysWhere) {
    const std::pair<const char *, const char *> cases[] = {
        {"", "the op's name"},
        {"1f(Tensor x) -> Tensor", "the op's name"},
        {"f", "'('"},
        {"f. g(Tensor x) -> Tensor", "the overload's name"},
        {"f()", "a type"},
        {"f(*) -> Tensor", "an argument"},
        {"f(Tensor x", "',' or ')'"},
        {"f(Tensor x)", "'-> '"},
        {"f(Tensor x) -> int", "Tensor, Tensor[] or"},
        {"f(Tensor x) -> Tensor, Tensor", "the end"},
        {"f(Tensor x) -> (Tensor, Tensor)", "the result's name"},
        {"f(Tensor x) -> (Tensor a, Tensor b", "',' or ')'"},
        {"f(Tensor x) -> (Tensor a, Tensor b, Tensor c, Tensor d, Tensor e)", "at most 4 results"},
        {"f(tensor x) -> Tensor", "a type"},
        {"f(Tensors x) -> Tensor", "a type"},
        {"f(Tensor) -> Tensor", "a space between type and name"},
        {"f(Tensor x, Tensor x) -> Tensor", "'x' appears twice"},
        {"f(Tensor struct_size) -> Tensor", "'struct_size' appears twice"},
        {"f(Tensor x@heavy) -> Tensor", "the mark @weight or @uncast"},
        {"f(bool[] x) -> Tensor", "no list of this type"},
        {"f(Tensor[2] x) -> Tensor", "no list of this type"},
        {"f(int[9] x) -> Tensor", "up to 8"},
        {"f(int[ x) -> Tensor", "']'"},
        {"f(Tensor x=None) -> Tensor", "a type with ?"},
        {"f(Tensor? x=1) -> Tensor", "None"},
        {"f(ScalarType x=1) -> Tensor", "None"},
        {"f(Generator? x=1) -> Tensor", "None"},
        {"f(int x=two) -> Tensor", "a number"},
        {"f(int x=1.2.3) -> Tensor", "a number"},
        {"f(int x=) -> Tensor", "a number"},
        {"f(str x=same) -> Tensor", "a string"},
        {"f(str x=\"same) -> Tensor", "the end of the string"},
        {"f(Tensor x) -> Tensor\x01", "the end"},
    };
    for (const auto &[text, words] : cases) {
        std::vector<char> room(amp_schema_room(std::strlen(text)));
        amp_schema s;
        EXPECT_EQ(amp_schema_parse(text, room.data(), &s), AMP_ERROR_INVALID) << text;
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"define_op: ", words})) << text;
    }
    std::string many = "f(";
    for (int i = 0; i < 25; i++) many += (i ? ", Tensor x" : "Tensor x") + std::to_string(i);
    many += ") -> Tensor";
    std::vector<char> room(amp_schema_room(many.size()));
    amp_schema s;
    EXPECT_EQ(amp_schema_parse(many.c_str(), room.data(), &s), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"more than 24 arguments"}));
}
