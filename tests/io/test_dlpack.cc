// DLPack within the process; against NumPy it is tests/io/test_dlpack.py.
#include "amp/dlpack.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "amp/call.h"
#include "amp/io.h"
#include "amp/memory.h"
#include "amp/scope.h"
#include "amp/tensor.h"

namespace {

class DLPack : public ::testing::Test {
  protected:
    void SetUp() override {
        amp_clear_error();
        live = amp_memory_statistics().live_tensors;
    }
    void TearDown() override {
        amp_clear_error();
        EXPECT_EQ(amp_memory_statistics().live_tensors, live);
    }
    size_t live = 0;
};

// A managed tensor over two floats that counts the calls of its deleter.
struct Lent {
    float data[2] = {1, 2};
    int64_t shape[1] = {2};
    int deleted = 0;
    DLManagedTensorVersioned managed = {};

    explicit Lent(uint64_t flags) {
        managed.version = {1, 0};
        managed.manager_ctx = this;
        managed.deleter = [](DLManagedTensorVersioned *self) { static_cast<Lent *>(self->manager_ctx)->deleted++; };
        managed.flags = flags;
        managed.dl_tensor = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    }
};

std::string call(const char *op, amp_tensor *input, amp_tensor *other, amp_tensor *out) {
    amp_argument arguments[3] = {{"input", {}}, {"other", {}}, {"out", {}}};
    amp_tensor *tensors[3] = {input, other, out};
    for (int i = 0; i < 3; i++) {
        arguments[i].value.kind = AMP_VALUE_TENSOR;
        arguments[i].value.as.tensor = tensors[i];
    }
    amp_tensor *outputs[1] = {};
    int count = 0;
    const amp_status status = amp_call_op(op, arguments, out ? 3 : 2, outputs, 1, &count);
    const std::string message = amp_last_error();
    amp_clear_error();
    return status == AMP_OK ? "" : message;
}

TEST_F(DLPack, ReadOnlyMemoryIsReadByOpsAndNeverWritten) {
    Lent lent(DLPACK_FLAG_BITMASK_READ_ONLY);
    amp_scope {
        amp_tensor *t = amp_from_dlpack(&lent.managed);
        ASSERT_NE(t, nullptr) << amp_last_error();
        const float one[] = {1, 1};
        amp_tensor *other = amp_from_data(one, AMP_F32, 1, lent.shape);
        EXPECT_EQ(call("add", t, other, nullptr), "");
        EXPECT_NE(call("add_", t, other, nullptr).find("read-only"), std::string::npos);
        EXPECT_NE(call("add_out", other, other, t).find("read-only"), std::string::npos);
        EXPECT_EQ(amp_data_mut(t), nullptr);
        amp_clear_error();
        EXPECT_EQ(lent.data[0], 1);
        EXPECT_EQ(lent.data[1], 2);
        EXPECT_EQ(lent.deleted, 0);
    }
    EXPECT_EQ(lent.deleted, 1);
}

TEST_F(DLPack, WritableMemoryIsWrittenInPlace) {
    Lent lent(0);
    amp_scope {
        amp_tensor *t = amp_from_dlpack(&lent.managed);
        ASSERT_NE(t, nullptr) << amp_last_error();
        const uint64_t version = amp_tensor_version(t);
        EXPECT_EQ(call("add_", t, t, nullptr), "");
        EXPECT_GT(amp_tensor_version(t), version);
    }
    EXPECT_EQ(lent.data[1], 4);
    EXPECT_EQ(lent.deleted, 1);
}

TEST_F(DLPack, WhatGoesOutComesBackOverTheSameMemory) {
    Lent lent(DLPACK_FLAG_BITMASK_READ_ONLY);
    DLManagedTensorVersioned *out = nullptr;
    amp_scope {
        out = amp_to_dlpack(amp_from_dlpack(&lent.managed));
        ASSERT_NE(out, nullptr) << amp_last_error();
        EXPECT_EQ(out->flags & DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_FLAG_BITMASK_READ_ONLY);
    }
    EXPECT_EQ(lent.deleted, 0) << "the managed tensor keeps it, whatever scope it was made in";
    amp_scope {
        amp_tensor *back = amp_from_dlpack(out);
        ASSERT_NE(back, nullptr) << amp_last_error();
        EXPECT_EQ(amp_data(back), lent.data);
    }
    EXPECT_EQ(lent.deleted, 1);
}

TEST_F(DLPack, TheDeleterMayRunOnAnotherThread) {
    Lent lent(0);
    DLManagedTensorVersioned *out = nullptr;
    amp_scope
        out = amp_to_dlpack(amp_from_dlpack(&lent.managed));
    ASSERT_NE(out, nullptr) << amp_last_error();
    std::thread([out] { out->deleter(out); }).join();
    EXPECT_EQ(lent.deleted, 1);
}

} // namespace
