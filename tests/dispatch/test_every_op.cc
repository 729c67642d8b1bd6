// What holds for every row of ops.def, whether or not it has an implementation: its arguments are checked, its policy
// is obeyed on both devices and in every table, and only the function form of an op is ever cast.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "internals.h"

namespace {

// One argument of a call by name, together with what its value points to.
struct Given {
    std::string name;
    amp_value value;
};

struct EveryOp : testing::Test {
    void SetUp() override {
        live_before = amp_memory_statistics().live_tensors;
        ASSERT_EQ(amp_scope_enter(), AMP_OK);
    }

    void TearDown() override {
        amp_clear_error();
        amp_layer_install(AMP_LAYER_EXPLAIN, amp_explain_layer);
        amp_layer_activate(AMP_LAYER_EXPLAIN, false);
        EXPECT_EQ(amp_scope_exit(), AMP_OK);
        amp_cast_cache_clear();
        EXPECT_EQ(amp_memory_statistics().live_tensors, live_before);
    }

    // A tensor that fits the kind of the argument, if not the op: shapes and values are the op's own business.
    amp_tensor *tensor(amp_dtype dtype, amp_device device = AMP_DEVICE_CPU) {
        const double zeros[2 * 6] = {}; // enough for c128
        const int64_t shape[2] = {2, 3};
        amp_tensor *t = amp_from_data(zeros, dtype, 2, shape);
        t->storage->device = device;
        return t;
    }

    amp_value value(amp_arg_kind kind, amp_tensor *t) {
        amp_value v = {};
        switch (kind) {
        case AMP_ARG_TENSOR:
            v.kind = AMP_VALUE_TENSOR;
            v.as.tensor = t;
            break;
        case AMP_ARG_TENSOR_LIST:
            v.kind = AMP_VALUE_TENSOR_LIST;
            list_item = t;
            v.as.list = {&list_item, 1, nullptr};
            break;
        case AMP_ARG_DIMS:
            v.kind = AMP_VALUE_DIMS;
            v.as.dims = AMP_DIMS(1);
            break;
        case AMP_ARG_FLOATS:
            v.kind = AMP_VALUE_FLOATS;
            v.as.floats = AMP_FLOATS(1.0);
            break;
        case AMP_ARG_DTYPE:
            v.kind = AMP_VALUE_DTYPE;
            v.as.dtype = AMP_F32;
            break;
        case AMP_ARG_STRING:
            v.kind = AMP_VALUE_STRING;
            v.as.string = "nonsense";
            break;
        default: v.kind = AMP_VALUE_SCALAR; v.as.scalar = amp_int(1);
        }
        return v;
    }

    // The required arguments of an op.
    std::vector<Given> required(const amp_op_info &op, amp_tensor *t) {
        std::vector<Given> given;
        for (int i = 0; i < op.arg_count; i++) {
            if (op.args[i].flags & AMP_ARG_REQUIRED) given.push_back({op.args[i].name, value(op.args[i].kind, t)});
        }
        return given;
    }

    amp_status call(const std::string &name, const std::vector<Given> &given) {
        std::vector<amp_argument> arguments;
        for (const Given &g : given) arguments.push_back({g.name.c_str(), g.value});
        amp_tensor *outputs[AMP_MAX_OUTPUTS];
        int count = 0;
        return amp_call_op(name.c_str(), arguments.data(), int(arguments.size()), outputs, AMP_MAX_OUTPUTS, &count);
    }

    amp_tensor *list_item = nullptr;
    size_t live_before = 0;
};

std::string key(const amp_op_info &op) {
    return op.overload[0] ? std::string(op.name) + "." + op.overload : std::string(op.name);
}

void for_each_op(const std::function<void(const amp_op_info &)> &visit) {
    for (int i = 0; i < amp_op_count; i++) {
        SCOPED_TRACE(key(amp_op_table[i]));
        visit(amp_op_table[i]);
        amp_clear_error();
    }
}

// Another overload of the name may take the call that this row refuses.
bool has_siblings(const amp_op_info &op) {
    if (op.overload[0]) return false; // asked for by its full name
    return op.id + 1 < amp_op_count && !std::strcmp(op.name, (&op)[1].name);
}

::testing::AssertionResult error_names(const std::string &op, const std::string &argument) {
    const std::string error = amp_last_error();
    if (error.rfind(op + ": ", 0) != 0) return ::testing::AssertionFailure() << "does not begin with the op: " << error;
    if (error.find("'" + argument + "'") == std::string::npos) {
        return ::testing::AssertionFailure() << "does not name '" << argument << "': " << error;
    }
    if (error.back() == '.') return ::testing::AssertionFailure() << "ends with a full stop: " << error;
    return ::testing::AssertionSuccess();
}

/* ---- The spy: outermost layer, looks at the call after autocast was there ---------------------------------------- */
struct Seen {
    bool called;
    amp_call_note note;
    amp_tensor *target;
    std::vector<std::pair<std::string, amp_dtype>> dtypes; // of every tensor argument, castable ones only
    amp_dtype dtype_option;
} seen;

amp_status spy(amp_call *call) {
    const amp_op_info *op = call->op;
    const amp_status status = amp_call_next(call);
    seen = {};
    seen.called = true;
    seen.note = call->note;
    seen.target = call->target;
    for (int i = 0; i < op->arg_count; i++) {
        const amp_arg_info *arg = &op->args[i];
        if (arg->kind == AMP_ARG_DTYPE) seen.dtype_option = *static_cast<const amp_dtype *>(amp_call_field(call, arg));
        if (arg->flags & (AMP_ARG_UNCAST | AMP_ARG_MUTATED)) continue;
        if (arg->kind == AMP_ARG_TENSOR && *amp_call_tensor(call, arg)) {
            seen.dtypes.emplace_back(arg->name, (*amp_call_tensor(call, arg))->dtype);
        }
        if (arg->kind == AMP_ARG_TENSOR_LIST && amp_call_tensor_list(call, arg)->count) {
            seen.dtypes.emplace_back(arg->name, amp_call_tensor_list(call, arg)->items[0]->dtype);
        }
    }
    return status;
}

// An argument struct with the required arguments, and every optional tensor, set.
struct Struct {
    Struct(EveryOp &test, const amp_op_info &op, amp_tensor *t) {
        std::memset(bytes, 0, sizeof bytes);
        std::memcpy(bytes, &op.args_size, sizeof op.args_size);
        for (int i = 0; i < op.arg_count; i++) fill(test, op.args[i], t);
    }

    void fill(EveryOp &test, const amp_arg_info &arg, amp_tensor *t) {
        void *field = bytes + arg.offset;
        const amp_value v = test.value(arg.kind, t);
        const bool required = arg.flags & AMP_ARG_REQUIRED;
        if (arg.kind == AMP_ARG_TENSOR) std::memcpy(field, &v.as.tensor, sizeof v.as.tensor);
        if (arg.kind == AMP_ARG_TENSOR_LIST) std::memcpy(field, &v.as.list, sizeof v.as.list);
        if (!required) return;
        if (arg.kind == AMP_ARG_DIMS) std::memcpy(field, &v.as.dims, sizeof v.as.dims);
        if (arg.kind == AMP_ARG_FLOATS) std::memcpy(field, &v.as.floats, sizeof v.as.floats);
        if (arg.kind == AMP_ARG_DTYPE) std::memcpy(field, &v.as.dtype, sizeof v.as.dtype);
        if (arg.kind == AMP_ARG_STRING) std::memcpy(field, &v.as.string, sizeof v.as.string);
        if (arg.kind == AMP_ARG_SCALAR) std::memcpy(field, &v.as.scalar, sizeof v.as.scalar);
    }

    alignas(std::max_align_t) char bytes[AMP_MAX_ARGS_BYTES];
};

// `targets`: AMP_MAX_OUTPUTS of them for an out= form.
void dispatch(const amp_op_info &op, unsigned form, const void *args, amp_tensor *const *targets) {
    seen = {};
    if (op.flags & AMP_OP_RETURNS_LIST) {
        amp_dispatch_list(&op, args);
    } else if (form == AMP_FORM_OUT && op.output_count > 1) {
        amp_dispatch_outs(&op, args, targets);
    } else {
        amp_dispatch(&op, form, args, targets ? targets[0] : nullptr);
    }
}

struct EveryPolicy : EveryOp {
    void SetUp() override {
        EveryOp::SetUp();
        amp_layer_install(AMP_LAYER_EXPLAIN, spy);
        amp_layer_activate(AMP_LAYER_EXPLAIN, true);
    }

    // Calls every op in a region of the device, all tensors of the dtype, and looks at what autocast made of it.
    void in_region(amp_device device, const char *table, amp_dtype dtype,
                   const std::function<void(const amp_op_info &)> &look, unsigned form = AMP_FORM_FUNCTION) {
        amp_autocast_args region = {};
        region.struct_size = sizeof region;
        region.device = device;
        region.table = table;
        region.cache_enabled = AMP_SET(false);
        ASSERT_EQ(amp_autocast_enter(&region), AMP_OK);
        amp_tensor *input = tensor(dtype, device), *targets[AMP_MAX_OUTPUTS];
        for (amp_tensor *&target : targets) target = tensor(dtype, device);
        for_each_op([&](const amp_op_info &op) {
            if (!(op.forms & form)) return;
            dispatch(op, form, Struct(*this, op, input).bytes, form == AMP_FORM_OUT ? targets : nullptr);
            if (!seen.called || seen.dtypes.empty()) return; // an op without tensors is nobody's to cast
            looked++;
            look(op);
        });
        input->storage->device = AMP_DEVICE_CPU;
        for (amp_tensor *target : targets) target->storage->device = AMP_DEVICE_CPU;
        amp_clear_error();
        ASSERT_EQ(amp_autocast_exit(device), AMP_OK);
    }

    void expect_all(amp_dtype dtype) {
        for (const auto &argument : seen.dtypes) EXPECT_EQ(argument.second, dtype) << argument.first;
    }

    int looked = 0;
};

// What the rule of SEMANTICS 3 makes of arguments that are all of one 16- or 32-bit floating type.
amp_dtype expected_dtype(amp_policy policy, amp_dtype dtype, amp_dtype lower) {
    switch (policy) {
    case AMP_POLICY_LOWER: return lower;
    case AMP_POLICY_FP32: return AMP_F32;
    case AMP_POLICY_PROMOTE: return dtype == lower ? lower : AMP_F32;
    default: return dtype;
    }
}

struct Region {
    amp_device device;
    amp_dtype lower, other_16_bit;
};
const Region regions[] = {{AMP_DEVICE_CPU, AMP_BF16, AMP_F16}, {AMP_DEVICE_CUDA, AMP_F16, AMP_BF16}};
const char *const tables[AMP_TABLE_COUNT] = {"torch", "ipex", "apex"};

} // namespace

TEST_F(EveryOp, MissingArgumentIsNamed) {
    amp_tensor *t = tensor(AMP_F32);
    for_each_op([&](const amp_op_info &op) {
        if (has_siblings(op)) return; // checked through the struct below
        const std::vector<Given> all = required(op, t);
        for (size_t leave = 0; leave < all.size(); leave++) {
            std::vector<Given> some = all;
            some.erase(some.begin() + long(leave));
            EXPECT_EQ(call(key(op), some), AMP_ERROR_INVALID) << all[leave].name;
            EXPECT_TRUE(error_names(key(op), all[leave].name));
            amp_clear_error();
        }
    });
}

TEST_F(EveryOp, MissingArgumentOfTheStructIsNamed) {
    for_each_op([&](const amp_op_info &op) {
        alignas(std::max_align_t) char bytes[AMP_MAX_ARGS_BYTES] = {};
        std::memcpy(bytes, &op.args_size, sizeof op.args_size);
        const amp_arg_info *first = nullptr; // plain numbers cannot be absent in a struct, written lists may be empty
        for (int i = 0; i < op.arg_count && !first; i++) {
            const amp_arg_kind kind = op.args[i].kind;
            const bool plain = kind == AMP_ARG_FLOAT || kind == AMP_ARG_INT || kind == AMP_ARG_BOOL ||
                               (kind == AMP_ARG_TENSOR_LIST && op.args[i].flags & AMP_ARG_MUTATED);
            if ((op.args[i].flags & AMP_ARG_REQUIRED) && !plain) first = &op.args[i];
        }
        if (!first) { // randperm, foreach_clip
            EXPECT_TRUE(op.args[0].kind == AMP_ARG_INT || op.args[0].flags & AMP_ARG_MUTATED);
            return;
        }
        dispatch(op, AMP_FORM_FUNCTION, bytes, nullptr);
        EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
        EXPECT_TRUE(error_names(op.name, first->name));
    });
}

TEST_F(EveryOp, NullTensorIsMissing) {
    for_each_op([&](const amp_op_info &op) {
        for (int i = 0; i < op.arg_count; i++) {
            const amp_arg_info &arg = op.args[i];
            if (arg.kind != AMP_ARG_TENSOR || !(arg.flags & AMP_ARG_REQUIRED)) continue;
            Struct args(*this, op, tensor(AMP_F32));
            std::memset(args.bytes + arg.offset, 0, sizeof(amp_tensor *));
            dispatch(op, AMP_FORM_FUNCTION, args.bytes, nullptr);
            EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
            EXPECT_TRUE(error_names(op.name, arg.name));
            amp_clear_error();
        }
    });
}

TEST_F(EveryOp, UnknownArgumentIsNamed) {
    amp_tensor *t = tensor(AMP_F32);
    for_each_op([&](const amp_op_info &op) {
        std::vector<Given> given = required(op, t);
        given.push_back({"no_such_argument", value(AMP_ARG_INT, t)});
        EXPECT_EQ(call(key(op), given), AMP_ERROR_INVALID);
        EXPECT_TRUE(error_names(key(op), "no_such_argument"));
    });
}

TEST_F(EveryOp, ArgumentGivenTwiceIsNamed) {
    amp_tensor *t = tensor(AMP_F32);
    for_each_op([&](const amp_op_info &op) {
        if (has_siblings(op)) return;
        std::vector<Given> given = required(op, t);
        given.push_back(given[0]);
        EXPECT_EQ(call(key(op), given), AMP_ERROR_INVALID);
        EXPECT_TRUE(error_names(key(op), given[0].name));
    });
}

TEST_F(EveryOp, WrongKindOfValueIsNamed) {
    amp_tensor *t = tensor(AMP_F32);
    for_each_op([&](const amp_op_info &op) {
        if (has_siblings(op)) return;
        for (int i = 0; i < op.arg_count; i++) {
            const amp_arg_info &arg = op.args[i];
            if (arg.kind == AMP_ARG_OUTPUT) continue;
            std::vector<Given> given;
            for (const Given &g : required(op, t)) {
                if (g.name != arg.name) given.push_back(g);
            }
            const bool takes_tensor = arg.kind == AMP_ARG_TENSOR || arg.kind == AMP_ARG_TENSOR_LIST;
            given.insert(given.begin(), {arg.name, value(takes_tensor ? AMP_ARG_INT : AMP_ARG_TENSOR, t)});
            EXPECT_EQ(call(key(op), given), AMP_ERROR_INVALID);
            EXPECT_TRUE(error_names(key(op), arg.name));
            amp_clear_error();
        }
    });
}

TEST_F(EveryOp, StructSizeIsChecked) {
    for_each_op([&](const amp_op_info &op) {
        Struct args(*this, op, tensor(AMP_F32));
        for (const size_t size : {size_t(0), size_t(1), SIZE_MAX}) {
            std::memcpy(args.bytes, &size, sizeof size);
            dispatch(op, AMP_FORM_FUNCTION, args.bytes, nullptr);
            EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
            EXPECT_NE(std::string(amp_last_error()).find("struct_size"), std::string::npos) << amp_last_error();
            amp_clear_error();
        }
    });
}

// What the CPU does not implement says so; what it does implement survives arguments that make no sense.
TEST_F(EveryOp, WithoutAnImplementationSaysSo) {
    int missing = 0;
    for_each_op([&](const amp_op_info &op) {
        const amp_op_info *runs = op.alias_of ? amp_op_find(op.alias_of) : &op;
        dispatch(op, AMP_FORM_FUNCTION, Struct(*this, op, tensor(AMP_F32)).bytes, nullptr);
        EXPECT_NE(amp_last_status(), AMP_ERROR_INTERNAL) << amp_last_error();
        if (amp_cpu_backend.find(runs).run) {
            EXPECT_NE(amp_last_status(), AMP_ERROR_NOT_IMPLEMENTED) << amp_last_error();
            return;
        }
        missing++;
        EXPECT_EQ(amp_last_status(), AMP_ERROR_NOT_IMPLEMENTED);
        EXPECT_NE(std::string(amp_last_error()).find(std::string(op.name) + ": not implemented on cpu"),
                  std::string::npos)
            << amp_last_error();
    });
    RecordProperty("not_implemented", missing);
}

TEST_F(EveryOp, AnErrorThatStandsStopsEveryOp) {
    amp_tensor *t = tensor(AMP_F32);
    amp_fail(AMP_ERROR_IO, "the first error");
    for (int i = 0; i < amp_op_count; i++) {
        dispatch(amp_op_table[i], AMP_FORM_FUNCTION, Struct(*this, amp_op_table[i], t).bytes, nullptr);
        ASSERT_STREQ(amp_last_error(), "the first error");
    }
}

TEST_F(EveryPolicy, AreObeyedOnBothDevicesInEveryTable) {
    for (const Region &region : regions) {
        for (int table = 0; table < AMP_TABLE_COUNT; table++) {
            for (const amp_dtype dtype : {AMP_F32, region.lower, region.other_16_bit}) {
                SCOPED_TRACE(std::string(tables[table]) + " " + amp_dtype_name(dtype));
                in_region(region.device, tables[table], dtype, [&](const amp_op_info &op) {
                    const amp_policy_cell &cell = op.policy[table][region.device];
                    const amp_policy policy = cell.if_equal ? AMP_POLICY_FALLTHROUGH : cell.policy; // of the defaults
                    EXPECT_EQ(seen.note.policy, policy);
                    expect_all(expected_dtype(policy, dtype, region.lower));
                    if (policy == AMP_POLICY_BANNED) {
                        EXPECT_EQ(amp_last_status(), AMP_ERROR_BANNED);
                    }
                    const bool asks_f32 =
                        policy == AMP_POLICY_FP32_SET_OPT_DTYPE || policy == AMP_POLICY_FP32_APPEND_DTYPE;
                    if (asks_f32) {
                        EXPECT_EQ(seen.dtype_option, AMP_F32);
                    }
                });
            }
        }
    }
    EXPECT_GT(looked, 2 * 3 * 3 * 300);
}

TEST_F(EveryPolicy, LeaveF64AndIntegersAlone) {
    for (const Region &region : regions) {
        for (const amp_dtype dtype : {AMP_F64, AMP_I64, AMP_BOOL, AMP_C64}) {
            SCOPED_TRACE(amp_dtype_name(dtype));
            in_region(region.device, "torch", dtype, [&](const amp_op_info &op) {
                expect_all(dtype);
                const amp_policy policy = op.policy[AMP_TABLE_TORCH][region.device].policy;
                if (policy == AMP_POLICY_FP32_SET_OPT_DTYPE) {
                    EXPECT_EQ(seen.dtype_option, AMP_DTYPE_NONE);
                }
                if (policy == AMP_POLICY_FP32_APPEND_DTYPE) {
                    EXPECT_EQ(seen.dtype_option, dtype);
                }
            });
        }
    }
    EXPECT_GT(looked, 2 * 4 * 300);
}

TEST_F(EveryPolicy, LeaveInPlaceAndOutFormsAlone) {
    for (const Region &region : regions) {
        for (const unsigned form : {AMP_FORM_INPLACE, AMP_FORM_OUT}) {
            for (const amp_dtype dtype : {AMP_F32, region.lower}) {
                in_region(
                    region.device, "torch", dtype,
                    [&](const amp_op_info &op) {
                        expect_all(dtype);
                        const amp_policy policy = op.policy[AMP_TABLE_TORCH][region.device].policy;
                        const bool bypass = policy > AMP_POLICY_PARTS && policy != AMP_POLICY_BANNED;
                        EXPECT_EQ(seen.note.bypass != nullptr, bypass);
                    },
                    form);
            }
        }
    }
    EXPECT_GT(looked, 2 * 2 * 350);
}

TEST_F(EveryPolicy, LeaveTensorsOfAnotherDeviceAlone) {
    amp_autocast_args region = {};
    region.struct_size = sizeof region;
    region.device = AMP_DEVICE_CUDA;
    ASSERT_EQ(amp_autocast_enter(&region), AMP_OK);
    amp_tensor *t = tensor(AMP_F32);
    for_each_op([&](const amp_op_info &op) {
        dispatch(op, AMP_FORM_FUNCTION, Struct(*this, op, t).bytes, nullptr);
        expect_all(AMP_F32);
        EXPECT_FALSE(seen.note.in_region);
    });
    ASSERT_EQ(amp_autocast_exit(AMP_DEVICE_CUDA), AMP_OK);
}

TEST_F(EveryPolicy, CudaWithoutItsModuleSaysWhatIsMissing) {
    const amp_backend *backend = nullptr;
    if (amp_cuda_backend("probe", &backend) == AMP_OK) GTEST_SKIP() << "the CUDA module is here";
    amp_clear_error();
    amp_tensor *t = tensor(AMP_F32, AMP_DEVICE_CUDA);
    for_each_op([&](const amp_op_info &op) {
        dispatch(op, AMP_FORM_FUNCTION, Struct(*this, op, t).bytes, nullptr);
        if (seen.dtypes.empty()) return;
        EXPECT_EQ(amp_last_status(), AMP_ERROR_DEVICE);
        EXPECT_NE(std::string(amp_last_error()).find("cuda"), std::string::npos) << amp_last_error();
    });
    t->storage->device = AMP_DEVICE_CPU;
}

TEST_F(EveryOp, TheQueryAgreesWithTheTable) {
    for (const Region &region : regions) {
        amp_autocast_args args = {};
        args.struct_size = sizeof args;
        args.device = region.device;
        ASSERT_EQ(amp_autocast_enter(&args), AMP_OK);
        for_each_op([&](const amp_op_info &op) {
            const char *reason = nullptr;
            const amp_dtype dtype = amp_autocast_dtype_for(key(op).c_str(), region.device, &reason);
            switch (op.policy[AMP_TABLE_TORCH][region.device].policy) {
            case AMP_POLICY_LOWER: EXPECT_EQ(dtype, region.lower); break;
            case AMP_POLICY_FP32:
            case AMP_POLICY_FP32_SET_OPT_DTYPE:
            case AMP_POLICY_FP32_APPEND_DTYPE: EXPECT_EQ(dtype, AMP_F32); break;
            default: EXPECT_EQ(dtype, AMP_DTYPE_NONE);
            }
            EXPECT_EQ(std::string(reason).rfind(key(op) + ": ", 0), 0u) << reason;
        });
        ASSERT_EQ(amp_autocast_exit(region.device), AMP_OK);
    }
}

/* ---- Nonsense ---------------------------------------------------------------------------------------------------- */
namespace {

// Random arguments of the right kinds: any dtype, ranks 0 to 8, empty tensors, views, sizes and dimensions out of
// range.
struct Nonsense : EveryOp {
    // AMP_TEST_SEED=N tries other calls, AMP_TEST_TELL=1 prints each before it is made.
    const unsigned seed = std::getenv("AMP_TEST_SEED") ? unsigned(std::atoi(std::getenv("AMP_TEST_SEED"))) : 20261121;
    const bool tell = std::getenv("AMP_TEST_TELL") != nullptr;
    std::mt19937 random{seed};
    std::vector<amp_tensor *> items;
    std::string told; // of the last call, for messages

    // A system with little memory: a large request fails at once.
    void SetUp() override {
        amp_allocator small = {};
        small.allocate = [](void *, size_t bytes, size_t alignment) -> void * {
            return bytes > (1u << 22) ? nullptr
                                      : std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
        };
        small.release = [](void *, void *block, size_t) { std::free(block); };
        ASSERT_EQ(amp_set_allocator(&small), AMP_OK);
        EveryOp::SetUp();
    }

    void TearDown() override {
        EveryOp::TearDown();
        EXPECT_EQ(amp_set_allocator(nullptr), AMP_OK);
    }

    int64_t pick(std::initializer_list<int64_t> values) {
        return values.begin()[random() % values.size()];
    }

    amp_tensor *any_tensor() {
        const double zeros[2 * 6561] = {};
        const int rank = int(pick({0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8}));
        int64_t shape[AMP_MAX_RANK], strides[AMP_MAX_RANK], step = 1;
        const int64_t common = pick({1, 2, 3});
        for (int i = rank; i-- > 0;) {
            shape[i] = pick({common, common, common, common, 1, 2, 0});
            strides[i] = step;
            step *= pick({1, 1, 1, 0}) ? std::max<int64_t>(shape[i], 1) : 0;
        }
        const amp_dtype dtype = amp_dtype(1 + random() % (AMP_DTYPE_COUNT - 1));
        amp_tensor *whole = amp_from_data(zeros, dtype, rank, shape);
        if (pick({0, 0, 1})) whole = amp_tensor_view("view", whole, rank, shape, strides, 0);
        told += std::string(" ") + (whole ? amp_describe(whole) : "NULL");
        return whole;
    }

    int64_t any_integer() {
        const int64_t v = pick({0, 0, 1, 1, 2, 3, -1, -2, -3, 9, INT64_MAX, INT64_MIN, INT32_MAX});
        told += " " + std::to_string(v);
        return v;
    }

    amp_value any_value(const amp_arg_info &arg) {
        amp_value v = value(arg.kind, nullptr);
        told += std::string(" ") + arg.name + "=";
        switch (arg.kind) {
        case AMP_ARG_TENSOR: v.as.tensor = any_tensor(); break;
        case AMP_ARG_TENSOR_LIST:
            items.clear();
            for (int64_t n = pick({1, 2, 3}); n-- > 0;) items.push_back(any_tensor());
            v.as.list = {items.data(), int64_t(items.size()), nullptr};
            break;
        case AMP_ARG_DIMS:
            v.as.dims.set = AMP_PRESENT;
            v.as.dims.count = int(pick({0, 1, 1, 2, 2, 3, 4, 8}));
            for (int i = 0; i < v.as.dims.count; i++) v.as.dims.values[i] = any_integer();
            break;
        case AMP_ARG_FLOATS:
            v.as.floats.count = int(pick({0, 1, 2, 3, 8}));
            for (int i = 0; i < v.as.floats.count; i++) v.as.floats.values[i] = double(any_integer()) / 2;
            break;
        case AMP_ARG_DTYPE: v.as.dtype = amp_dtype(1 + random() % (AMP_DTYPE_COUNT - 1)); break;
        case AMP_ARG_STRING: break;
        case AMP_ARG_SCALAR:
        case AMP_ARG_FLOAT:
        case AMP_ARG_OPT_FLOAT:
            v.as.scalar = pick({0, 1}) ? amp_int(any_integer()) : amp_float(double(pick({0, 1, -1, 3})) / 2);
            break;
        default: v.as.scalar = amp_int(any_integer());
        }
        return v;
    }

    void try_once(const amp_op_info &op, const std::string &suffix) {
        std::vector<Given> given;
        told.clear();
        ASSERT_EQ(amp_scope_enter(), AMP_OK);
        for (int i = 0; i < op.arg_count; i++) {
            const amp_arg_info &arg = op.args[i];
            const bool wanted = (arg.flags & AMP_ARG_REQUIRED) || pick({0, 0, 1});
            if (arg.kind != AMP_ARG_OUTPUT && wanted) given.push_back({arg.name, any_value(arg)});
        }
        std::vector<amp_tensor *> outs;
        for (int i = 0; i < op.output_count; i++) outs.push_back(suffix == "_out" ? any_tensor() : nullptr);
        amp_value out = {};
        out.kind = outs.size() > 1 ? AMP_VALUE_TENSOR_LIST : AMP_VALUE_TENSOR;
        if (outs.size() > 1) out.as.list = {outs.data(), int64_t(outs.size()), nullptr};
        if (outs.size() == 1) out.as.tensor = outs[0];
        if (suffix == "_out") given.push_back({"out", out});
        if (tell) std::fprintf(stderr, "%s%s:%s\n", key(op).c_str(), suffix.c_str(), told.c_str());
        const amp_status status = call(key(op) + suffix, given);
        EXPECT_NE(status, AMP_ERROR_INTERNAL) << told << ": " << amp_last_error();
        if (status != AMP_OK) {
            const std::string error = amp_last_error();
            const char *other_name = op.alias_of ? amp_op_find(op.alias_of)->name : op.name;
            EXPECT_TRUE(error.rfind(op.name, 0) == 0 || error.rfind(other_name, 0) == 0) << told << ": " << error;
        }
        amp_clear_error();
        ASSERT_EQ(amp_scope_exit(), AMP_OK);
    }
};

} // namespace

TEST_F(Nonsense, IsRefusedOrComputedByEveryImplementation) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for_each_op([&](const amp_op_info &op) {
        if (!amp_cpu_backend.find(op.alias_of ? amp_op_find(op.alias_of) : &op).run) return;
        for (int round = 0; round < 300; round++) {
            try_once(op, "");
            if (op.forms & AMP_FORM_INPLACE) try_once(op, "_");
            if (op.forms & AMP_FORM_OUT) try_once(op, "_out");
            if (HasFailure()) return;
        }
    });
}
