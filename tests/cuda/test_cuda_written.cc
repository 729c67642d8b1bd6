// Ops that no case is recorded of: on the device they give what they give on the CPU.
#include <set>

#include "cuda_test.h"
#include "op_calls.h"

using namespace amp_test;
using op_calls::Call;

namespace {

class CudaWritten : public CudaTest {
  protected:
    // Its results, on the CPU; those that are not there are NULL. None at all where the device does not have the op.
    std::vector<amp_tensor *> results(const Call &written, amp_device device) {
        std::vector<amp_tensor *> tensors, outputs(4, nullptr);
        std::vector<std::vector<amp_tensor *>> lists;
        for (const op_calls::Tensor &t : written.tensors) {
            amp_tensor *made = amp_from_data(t.bytes.data(), t.dtype, int(t.shape.size()), t.shape.data());
            tensors.push_back(device == AMP_DEVICE_CUDA ? sent(made) : made);
        }
        std::vector<Named> named;
        lists.reserve(written.arguments.size());
        for (const op_calls::Argument &a : written.arguments) {
            Value value = amp_int(0);
            value.v = a.value;
            lists.emplace_back();
            for (int i : a.tensors) lists.back().push_back(i < 0 ? nullptr : tensors[size_t(i)]);
            if (a.value.kind == AMP_VALUE_TENSOR) value.v.as.tensor = lists.back()[0];
            if (a.value.kind == AMP_VALUE_TENSOR_LIST) value = lists.back();
            if (a.value.kind == AMP_VALUE_STRING) value.v.as.string = a.text.c_str();
            named.push_back({a.name.c_str(), value});
        }
        const amp_status status = call(written.op, {}, named, &outputs);
        if (status == AMP_ERROR_NOT_IMPLEMENTED && device == AMP_DEVICE_CUDA) {
            amp_clear_error();
            return {};
        }
        EXPECT_EQ(status, AMP_OK) << amp_last_error();
        for (amp_tensor *&t : outputs) t = t && device == AMP_DEVICE_CUDA ? fetched(t) : t;
        return outputs;
    }
};

// What is free to be another: random numbers, phases of eigenvectors, and elements that are not written.
bool is_comparable(const Call &call) {
    static const std::set<std::string> free = {"eig", "symeig", "lstsq", "to", "empty_like"};
    return !call.tensors.empty() && !op_calls::is_unspecified(call) && !free.count(call.op);
}

Shape shape_of(const amp_tensor *t) {
    return Shape(amp_tensor_shape(t), amp_tensor_shape(t) + amp_tensor_rank(t));
}

amp_tensor *parts(amp_tensor *t) {
    return amp_dtype_is_complex(amp_tensor_dtype(t)) ? op("view_as_real", {t}) : t;
}

TEST_F(CudaWritten, OpsGiveWhatTheyGiveOnTheCpu) {
    int compared = 0;
    for (const Call &written : op_calls::written()) {
        if (!is_comparable(written)) continue;
        SCOPED_TRACE(op_calls::describe(written));
        Scope scope;
        const auto want = results(written, AMP_DEVICE_CPU), got = results(written, AMP_DEVICE_CUDA);
        for (size_t i = 0; i < got.size(); i++) {
            if (written.op == "rnn_pass" && i == 3) continue; // what a device's own gradient reads
            ASSERT_EQ(got[i] == nullptr, want[i] == nullptr) << "result " << i;
            if (!want[i]) continue;
            EXPECT_EQ(amp_tensor_dtype(got[i]), amp_tensor_dtype(want[i]));
            EXPECT_EQ(shape_of(got[i]), shape_of(want[i]));
            expect_near(parts(got[i]), numbers_of(parts(want[i])), 2e-5);
        }
        compared += !got.empty();
    }
    EXPECT_GT(compared, 150);
}

} // namespace
