// What the implementation of a program's op may and may not do with its arguments, and what becomes of what it returns.
#include <clocale>
#include <cstdlib>
#include <string>

#include "amp_test.h"

using namespace amp_test;

namespace {

using Implementation = amp_test::Test;

struct Args {
    size_t struct_size = sizeof(Args);
    amp_tensor *input = nullptr;
};

struct TwoArgs {
    size_t struct_size = sizeof(TwoArgs);
    amp_tensor **second = nullptr;
    amp_tensor *input = nullptr;
};

amp_dtype seen; // of the argument

amp_tensor *input_of(const void *args) {
    return static_cast<const Args *>(args)->input;
}

const amp_op *define(const char *schema, amp_op_implementation run, const char *policy = nullptr,
                     size_t args_size = sizeof(Args)) {
    amp_op_definition d = {};
    d.struct_size = sizeof d;
    d.schema = schema;
    d.args_size = args_size;
    d.cpu = {policy, run};
    const std::string text = schema;
    d.in_place = d.out = text.compare(text.size() - 9, 9, "-> Tensor") == 0;
    const amp_op *made = amp_define_op_call(&d);
    EXPECT_NE(made, nullptr) << amp_last_error();
    return made;
}

// No memory while this lives, not even for a tensor's header.
class NoMemory {
  public:
    NoMemory() {
        amp_memory_trim();
        amp_allocator hook = {};
        hook.allocate = [](void *, size_t bytes, size_t alignment) {
            void *block = nullptr;
            return left-- > 0 && posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
        };
        hook.release = [](void *, void *block, size_t) { free(block); };
        left = 1 << 20;
        EXPECT_EQ(amp_set_allocator(&hook), AMP_OK);
    }
    ~NoMemory() {
        left = 1 << 20;
        amp_memory_trim();
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
    }
    // From now on, in the implementation's last line.
    static void begin() {
        amp_memory_trim();
        left = 0;
    }
    static int left;
};
int NoMemory::left = 1 << 20;

} // namespace

// ---- Results --------------------------------------------------------------------------------------------------------

TEST_F(Implementation, ListsOneTensorTwiceAndBothAreResults) {
    const amp_op *op = define("lists_twice(Tensor input) -> Tensor[]", [](amp_call *call, const void *args) {
        amp_tensor *made = amp_test::op("relu", {input_of(args)});
        amp_tensor *const items[] = {made, made};
        return amp_call_list(call, items, 2);
    });
    Args args;
    args.input = tensor(AMP_F32, {2}, {3, -4});
    const size_t live = amp_memory_statistics().live_tensors;
    const amp_tensor_list list = amp_call_defined_list(op, &args);
    ASSERT_EQ(list.count, 2) << amp_last_error();
    EXPECT_NE(list.items[0], list.items[1]);
    EXPECT_EQ(numbers_of(list.items[1]), (std::vector<double>{3, 0}));
    amp_list_release(list);
    EXPECT_EQ(std::string(amp_last_error()), "");
    EXPECT_EQ(amp_memory_statistics().live_tensors, live);
}

TEST_F(Implementation, ThatNamesNoListIsToldSo) {
    static int64_t count;
    const amp_op *op = define("lists_badly(Tensor input) -> Tensor[]",
                              [](amp_call *call, const void *) { return amp_call_list(call, nullptr, count); });
    Args args;
    args.input = tensor(AMP_F32, {2});
    count = -3;
    EXPECT_EQ(amp_call_defined_list(op, &args).count, 0);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"lists_badly: call_list: 'count' is -3"}));
    count = 2;
    EXPECT_EQ(amp_call_defined_list(op, &args).count, 0);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"lists_badly: call_list: 'items' is NULL, 'count' is 2"}));
    count = 0;
    EXPECT_EQ(amp_call_defined_list(op, &args).count, 0);
    EXPECT_EQ(std::string(amp_last_error()), "") << "an empty list is one";
}

TEST_F(Implementation, ThatReturnsNoStatusIsToldSo) {
    Args args;
    args.input = tensor(AMP_F32, {2});
    const amp_op *op = define("returns_77(Tensor input) -> Tensor",
                              [](amp_call *, const void *) { return static_cast<amp_status>(77); });
    EXPECT_EQ(amp_call_defined(op, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INTERNAL, {"returns_77: the implementation on cpu returned 77, which is no"}));
}

// Results that are the argument become views, and those need memory.
TEST_F(Implementation, ResultsThatRunOutOfMemoryAreNoneAtAll) {
    static bool swapped;
    const amp_op *op = define(
        "half_results(Tensor input) -> (Tensor first, Tensor second)",
        [](amp_call *call, const void *args) {
            const int64_t shape[] = {4};
            amp_call_output(call, swapped, AMP_F32, 1, shape);
            const amp_status status = amp_call_return(call, !swapped, static_cast<const TwoArgs *>(args)->input);
            NoMemory::begin();
            return status;
        },
        nullptr, sizeof(TwoArgs));
    for (const bool order : {false, true}) {
        SCOPED_TRACE(order);
        swapped = order;
        TwoArgs args;
        args.input = tensor(AMP_F32, {4});
        amp_tensor *second = args.input;
        args.second = &second;
        const size_t live = amp_memory_statistics().live_tensors;
        {
            NoMemory none;
            EXPECT_EQ(amp_call_defined(op, &args), nullptr);
        }
        EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"half_results", "no memory"}));
        EXPECT_EQ(second, nullptr);
        EXPECT_EQ(amp_memory_statistics().live_tensors, live);
    }
}

TEST_F(Implementation, AListThatRunsOutOfMemoryIsEmpty) {
    const amp_op *op = define("half_list(Tensor input) -> Tensor[]", [](amp_call *call, const void *args) {
        amp_tensor *const items[] = {amp_test::op("relu", {input_of(args)}), input_of(args)};
        const amp_status status = amp_call_list(call, items, 2);
        NoMemory::begin();
        return status;
    });
    Args args;
    args.input = tensor(AMP_F32, {4});
    const size_t live = amp_memory_statistics().live_tensors;
    {
        NoMemory none;
        EXPECT_EQ(amp_call_defined_list(op, &args).count, 0);
    }
    EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"half_list", "no memory"}));
    EXPECT_EQ(amp_memory_statistics().live_tensors, live);
}

// ---- Arguments ------------------------------------------------------------------------------------------------------

// In a region the argument is a cast that the dispatcher holds, and that goes with the call.
TEST_F(Implementation, CannotKeepItsArgument) {
    static amp_tensor *(*take)(amp_tensor *);
    const amp_op *op = define(
        "keeps_argument(Tensor input) -> Tensor",
        [](amp_call *call, const void *args) {
            EXPECT_EQ(take(input_of(args)), nullptr);
            return amp_call_return(call, 0, input_of(args));
        },
        "lower");
    Args args;
    args.input = tensor(AMP_F32, {4});
    Region region;
    take = amp_keep;
    EXPECT_EQ(amp_call_defined(op, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"keep: the tensor is an argument of the op", "a view or clone of it"}));
    take = amp_retain;
    EXPECT_EQ(amp_call_defined(op, &args), nullptr);
    EXPECT_TRUE(
        failed_with(AMP_ERROR_INVALID, {"retain: the tensor is an argument of the op", "a view or clone of it"}));
}

// Autocast casts no in-place and no out= form, whatever the policy.
TEST_F(Implementation, OfABannedOpGetsTheArgumentsAsTheyAreInInPlaceAndOutForms) {
    const amp_op *op = define(
        "banned_forms(Tensor input) -> Tensor",
        [](amp_call *call, const void *args) {
            seen = amp_tensor_dtype(input_of(args));
            return amp_call_return(call, 0, amp_test::op("relu", {input_of(args)}));
        },
        "banned");
    Args args;
    args.input = tensor(AMP_BF16, {4});
    amp_tensor *out = tensor(AMP_BF16, {4});
    amp_autocast_args options = region_args();
    options.allow_banned = true;
    {
        Region region(options);
        EXPECT_EQ(amp_tensor_dtype(amp_call_defined(op, &args)), AMP_F32);
        EXPECT_EQ(amp_call_defined_out(op, out, &args), out) << amp_last_error();
        EXPECT_EQ(seen, AMP_BF16);
        EXPECT_EQ(amp_call_defined_inplace(op, &args), args.input) << amp_last_error();
        EXPECT_EQ(seen, AMP_BF16);
    }
    options.strict = true;
    Region region(options);
    EXPECT_EQ(amp_call_defined_out(op, out, &args), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"banned_forms_out", "strict", "out="}));
}

// ---- Schemas --------------------------------------------------------------------------------------------------------

TEST_F(Implementation, ADefaultThatDoesNotFitItsTypeIsRefused) {
    const struct {
        const char *schema, *expected;
    } cases[] = {
        {"bad_default(Tensor input, int n=1.5) -> Tensor", "expected an integer at '1.5)"},
        {"bad_default(Tensor input, int n=nan) -> Tensor", "expected an integer at 'nan)"},
        {"bad_default(Tensor input, int n=99999999999999999999) -> Tensor", "expected an integer at '9999"},
        {"bad_default(Tensor input, int[2] n=0.5) -> Tensor", "expected an integer at '0.5)"},
        {"bad_default(Tensor input, int n=True) -> Tensor", "expected an integer"},
        {"bad_default(Tensor input, bool b=2) -> Tensor", "expected True or False at '2)"},
        {"bad_default(Tensor input, float f=True) -> Tensor", "expected a number"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.schema);
        amp_op_definition d = {};
        d.struct_size = sizeof d;
        d.schema = c.schema;
        d.args_size = 24;
        d.cpu.run = [](amp_call *, const void *) { return AMP_OK; };
        EXPECT_EQ(amp_define_op_call(&d), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"define_op", c.expected}));
    }
}

TEST_F(Implementation, ADefaultReadsAlikeInEveryLocale) {
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) {
        GTEST_SKIP() << "no locale with a decimal comma is installed";
    }
    struct FloatArgs {
        size_t struct_size = sizeof(FloatArgs);
        amp_tensor *input = nullptr;
        amp_opt_float f = {};
    };
    static double got;
    const amp_op *op = define(
        "locale_default(Tensor input, float f=1.5) -> Tensor",
        [](amp_call *call, const void *args) {
            got = static_cast<const FloatArgs *>(args)->f.value;
            return amp_call_return(call, 0, static_cast<const FloatArgs *>(args)->input);
        },
        nullptr, sizeof(FloatArgs));
    setlocale(LC_ALL, "C");
    FloatArgs args;
    args.input = tensor(AMP_F32, {1});
    EXPECT_NE(amp_call_defined(op, &args), nullptr) << amp_last_error();
    EXPECT_EQ(got, 1.5);
}
