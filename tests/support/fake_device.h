// A device in host memory in the place of CUDA's: its kernels only note what they were given. With it the rules that
// depend on the device are tested on every machine.
#ifndef AMP_TESTS_FAKE_DEVICE_H
#define AMP_TESTS_FAKE_DEVICE_H

#include <cstdlib>

#include "amp_test.h"
#include "internals.h"

extern "C" {
#include "cpu/convert/copy.h"
}

namespace fake_device {

// What the last kernel saw.
struct Seen {
    int calls = 0;
    std::string op;
    std::vector<amp_dtype> dtypes; // of its tensors, list items included, absent ones left out
    std::vector<amp_device> devices;
    amp_dtype option = AMP_DTYPE_NONE; // its dtype argument
    bool autocast_inside = false;      // whether autocast was on for ops that the kernel would call
};

inline Seen seen;
inline int copies; // conversions made by the device
inline int blocks; // of the device's memory that are out
inline bool out_of_memory;

inline void note(amp_call *call, amp_tensor *t) {
    if (!t) return;
    seen.dtypes.push_back(t->dtype);
    seen.devices.push_back(t->storage->device);
    EXPECT_EQ(t->source && !t->storage, false) << call->op->name << ": a pending cast reached the kernel";
}

inline amp_status run(amp_call *call) {
    Seen now;
    now.calls = seen.calls + 1;
    now.op = call->op->c_name;
    now.autocast_inside = !(amp_this_thread.layers & AMP_INSIDE_OP);
    seen = now;
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        if (arg->kind == AMP_ARG_TENSOR) note(call, *amp_call_tensor(call, arg));
        if (arg->kind == AMP_ARG_DTYPE) seen.option = *static_cast<const amp_dtype *>(amp_call_field(call, arg));
        if (arg->kind != AMP_ARG_TENSOR_LIST) continue;
        const amp_tensor_list *list = amp_call_tensor_list(call, arg);
        for (int64_t k = 0; k < list->count; k++) note(call, list->items[k]);
    }
    const int64_t shape[1] = {2};
    const amp_dtype result = seen.option != AMP_DTYPE_NONE ? seen.option : seen.dtypes.at(0);
    amp_tensor *out = amp_call_output(call, 0, result, 1, shape);
    if (!out) return amp_pending_error();
    std::memset(amp_tensor_pointer(out), 0, 2 * amp_dtype_size(out->dtype));
    return AMP_OK;
}

// Has every op but linalg_inv.
inline amp_backend_op find(const amp_op_info *op) {
    return {std::strcmp(op->name, "linalg_inv") == 0 ? nullptr : run, false, {}};
}

inline amp_status copy(amp_tensor *destination, const amp_tensor *source) {
    EXPECT_EQ(destination->storage->device, AMP_DEVICE_CUDA);
    EXPECT_EQ(source->storage->device, AMP_DEVICE_CUDA);
    copies++;
    return amp_cpu_copy(destination, source);
}

inline void *allocate(const char *, size_t bytes, void **block) {
    if (out_of_memory) return nullptr;
    blocks++;
    return *block = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
}

inline void release(void *memory) {
    blocks--;
    std::free(memory);
}

inline amp_backend backend_of(amp_backend_op (*find)(const amp_op_info *)) {
    amp_backend b = {};
    b.name = "fake";
    b.find = find;
    b.copy = copy;
    b.allocate = allocate;
    b.release = release;
    return b;
}

class Test : public amp_test::Test {
  protected:
    void SetUp() override {
        seen = {};
        copies = 0;
        amp_backend_install(AMP_DEVICE_CUDA, &backend_);
    }

    void TearDown() override {
        out_of_memory = false;
        amp_test::Test::TearDown();
        EXPECT_EQ(blocks, 0) << "device memory is left";
        amp_backend_install(AMP_DEVICE_CUDA, nullptr);
    }

    // [2] of the device.
    static amp_tensor *on_cuda(amp_dtype dtype) {
        const int64_t shape[1] = {2};
        amp_tensor *t = amp_backend_tensor(AMP_DEVICE_CUDA, "test", dtype, 1, shape);
        if (t) std::memset(amp_tensor_pointer(t), 0, 2 * amp_dtype_size(dtype));
        return t;
    }

    // What the device's kernel of an op got for these arguments.
    static std::vector<amp_dtype> ran_in(const std::string &name, const std::vector<amp_test::Value> &values,
                                         const std::vector<amp_test::Named> &named = {}) {
        const int before = seen.calls;
        EXPECT_NE(amp_test::op(name, values, named), nullptr) << amp_last_error();
        EXPECT_EQ(seen.calls, before + 1);
        return seen.dtypes;
    }

  private:
    const amp_backend backend_ = backend_of(find);
};

using Dtypes = std::vector<amp_dtype>;

} // namespace fake_device

#endif // AMP_TESTS_FAKE_DEVICE_H
