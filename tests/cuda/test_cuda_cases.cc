// The recorded calls of CUDA regions, on any machine: a device of the tests' own (fake_device.h) tells the cast plan,
// that is the dtype in which each argument reaches the kernel and the dtype option that the policy sets. The plan must
// explain the recorded result's dtype; and carried out on the CPU, without a region, it must give the recorded values.
#include <algorithm>
#include <fstream>

#include "fake_device.h"
#include "replay.h"
#include "replay_device.h"

using namespace amp_test;

namespace {

// What reached the kernel: arguments in the order of the schema, list items one by one, absent ones left out.
struct Plan {
    std::vector<std::pair<std::string, amp_dtype>> tensors;
    amp_dtype option = AMP_DTYPE_NONE;
    bool has_option = false;
} plan;

amp_status note_plan(amp_call *call) {
    plan = {};
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_DTYPE && std::string(arg->name) == "dtype") {
            plan.has_option = true;
            plan.option = *static_cast<const amp_dtype *>(amp_call_field(call, arg));
        }
        const bool is_list = arg->kind == AMP_ARG_TENSOR_LIST;
        if (!is_list && arg->kind != AMP_ARG_TENSOR) continue;
        amp_tensor *const *items = is_list ? amp_call_tensor_list(call, arg)->items : amp_call_tensor(call, arg);
        const int64_t count = is_list ? amp_call_tensor_list(call, arg)->count : 1;
        for (int64_t k = 0; k < count; k++) {
            const std::string name = is_list ? std::string(arg->name) + "[" + std::to_string(k) + "]" : arg->name;
            if (items[k]) plan.tensors.emplace_back(name, items[k]->dtype);
        }
    }
    return amp_call_output(call, 0, AMP_F32, 0, nullptr) ? AMP_OK : amp_pending_error();
}

class CudaCases : public fake_device::Test {
  protected:
    void SetUp() override {
        fake_device::Test::SetUp();
        amp_backend_install(AMP_DEVICE_CUDA, &backend_);
    }

    // The plan of a call, made in the case's region.
    void make_plan(const json_t *test_case, const replay::Arguments &arguments) {
        for (const auto &input : arguments.inputs) input->tensor->storage->device = AMP_DEVICE_CUDA;
        plan = {};
        {
            Region region(AMP_DEVICE_CUDA, replay::dtype_field(json_object_get(test_case, "autocast"), "dtype"));
            amp_tensor *outputs[AMP_MAX_OUTPUTS] = {};
            amp_call_op(op_of(test_case).c_str(), arguments.list.data(), int(arguments.list.size()), outputs,
                        AMP_MAX_OUTPUTS, nullptr);
        }
        for (const auto &input : arguments.inputs) input->tensor->storage->device = AMP_DEVICE_CPU;
        EXPECT_TRUE(no_error());
        EXPECT_FALSE(plan.tensors.empty());
    }

    static std::string op_of(const json_t *test_case) {
        return replay::text_field(test_case, "op");
    }

    // The floating dtype that a kernel gives for the arguments of the plan.
    static amp_dtype result_of_plan() {
        if (plan.option != AMP_DTYPE_NONE) return plan.option;
        amp_dtype widest = AMP_DTYPE_NONE;
        for (const auto &[name, dtype] : plan.tensors) {
            if (!amp_dtype_is_floating(dtype)) continue;
            const bool wider = widest == AMP_DTYPE_NONE || amp_dtype_size(dtype) > amp_dtype_size(widest);
            if (wider) widest = dtype;
        }
        return widest;
    }

    static void expect_result_dtypes(const json_t *test_case) {
        const json_t *outputs = replay::require(test_case, "outputs", JSON_ARRAY);
        for (size_t i = 0; i < json_array_size(outputs); i++) {
            const amp_dtype recorded = replay::dtype_field(json_array_get(outputs, i), "dtype");
            if (!amp_dtype_is_floating(recorded)) continue;
            EXPECT_EQ(result_of_plan(), recorded) << "output " << i;
        }
    }

    // The arguments as the plan has them.
    static std::vector<amp_argument> carry_out(replay::Arguments *arguments) {
        for (const auto &input : arguments->inputs) {
            for (const auto &[name, dtype] : plan.tensors) {
                if (name != input->argument || amp_tensor_dtype(input->tensor) == dtype) continue;
                amp_tensor *cast = op("to", {input->tensor, dtype});
                for (amp_argument &a : arguments->list) replace(&a.value, input->tensor, cast);
                for (auto &list : arguments->lists) std::replace(list->begin(), list->end(), input->tensor, cast);
            }
        }
        std::vector<amp_argument> given = arguments->list;
        if (plan.has_option && plan.option != AMP_DTYPE_NONE) set_option(&given);
        return given;
    }

    static void replace(amp_value *value, amp_tensor *from, amp_tensor *to) {
        if (value->kind == AMP_VALUE_TENSOR && value->as.tensor == from) value->as.tensor = to;
    }

    static void set_option(std::vector<amp_argument> *given) {
        amp_value option = {};
        option.kind = AMP_VALUE_DTYPE;
        option.as.dtype = plan.option;
        for (amp_argument &a : *given) {
            if (a.name && std::string(a.name) == "dtype") return;
        }
        given->push_back({"dtype", option});
    }

    // True if the CPU has the op.
    static bool expect_values(const replay::CaseFile &file, const json_t *test_case, replay::Arguments *arguments) {
        const json_t *expected = replay::require(test_case, "outputs", JSON_ARRAY);
        std::vector<amp_argument> given = carry_out(arguments);
        std::vector<amp_tensor *> outputs(json_array_size(expected) + 8);
        const amp_status status = amp_call_op(op_of(test_case).c_str(), given.data(), int(given.size()), outputs.data(),
                                              int(outputs.size()), nullptr);
        if (status == AMP_ERROR_NOT_IMPLEMENTED) return amp_clear_error(), false;
        EXPECT_TRUE(no_error());
        for (size_t i = 0; status == AMP_OK && i < json_array_size(expected); i++) {
            const replay::Comparison c = replay::compare_output(file, json_array_get(expected, i), outputs[i]);
            EXPECT_EQ(c.problem, "") << "output " << i;
        }
        amp_clear_error();
        return true;
    }

  private:
    static amp_backend_op find(const amp_op_info *) {
        return {note_plan, false, {}};
    }
    const amp_backend backend_ = fake_device::backend_of(find);
};

bool is_cuda_case(const json_t *test_case) {
    const json_t *autocast = json_object_get(test_case, "autocast");
    return json_is_object(autocast) && replay::text_field(autocast, "device") == "cuda";
}

} // namespace

// tests/data/cuda_plans.json: the recorded calls without their values, one for each op and mode.
TEST_F(CudaCases, ArePlannedAsRecorded) {
    json_error_t error;
    replay::CaseFile file;
    file.name = "cuda_plans";
    file.cases.reset(json_load_file("tests/data/cuda_plans.json", JSON_REJECT_DUPLICATES, &error));
    ASSERT_NE(file.cases, nullptr) << error.text;
    size_t i;
    json_t *test_case;
    json_array_foreach(file.cases.get(), i, test_case) {
        SCOPED_TRACE(replay::text_field(test_case, "name"));
        Scope scope;
        const replay::Arguments arguments =
            replay::make_arguments(file, op_of(test_case), replay::require(test_case, "inputs", JSON_OBJECT), false);
        make_plan(test_case, arguments);
        expect_result_dtypes(test_case);
    }
    EXPECT_GT(i, 300u);
}

// Every recorded call, with its values, where AMP_GOLDEN names a folder of them.
TEST_F(CudaCases, GiveTheRecordedValuesWhenPlansAreCarriedOutOnTheCpu) {
    const char *golden = std::getenv("AMP_GOLDEN");
    if (!golden || !*golden) GTEST_SKIP() << "AMP_GOLDEN names no folder of recorded cases";
    std::set<std::string> missing;
    int planned = 0, compared = 0;
    for (const replay::CaseFile &file : replay::load_folder(golden)) {
        size_t i;
        json_t *test_case;
        json_array_foreach(file.cases.get(), i, test_case) {
            if (!is_cuda_case(test_case)) continue;
            SCOPED_TRACE(file.name + "/" + replay::text_field(test_case, "name"));
            Scope scope;
            replay::Arguments arguments = replay::make_arguments(
                file, op_of(test_case), replay::require(test_case, "inputs", JSON_OBJECT), false);
            make_plan(test_case, arguments);
            expect_result_dtypes(test_case);
            planned++;
            if (expect_values(file, test_case, &arguments)) {
                compared++;
            } else {
                missing.insert(op_of(test_case));
            }
        }
    }
    EXPECT_GT(planned, 1000);
    RecordProperty("compared", compared);
    std::string list;
    for (const std::string &name : missing) list += " " + name;
    if (!missing.empty()) std::printf("%d of %d planned; not on the CPU yet:%s\n", compared, planned, list.c_str());
}
