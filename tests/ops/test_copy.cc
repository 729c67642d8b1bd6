// copy_ writes any tensor over another, on the CPU and on the tests' CUDA; narrow reads its start where it is.
#include "cuda_test.h"

using namespace amp_test;

namespace {

using Copy = amp_test::Test;

TEST_F(Copy, BroadcastsAndConverts) {
    for (int d = AMP_F64; d < AMP_DTYPE_COUNT; d++) {
        amp_tensor *x = tensor(amp_dtype(d), {2, 3});
        const uint64_t version = amp_tensor_version(x);
        for (amp_dtype from : {AMP_F32, AMP_BF16, AMP_I64}) {
            ASSERT_EQ(op("copy_", {x, tensor(from, {3}, {0, 1, 1})}), x) << amp_last_error();
            EXPECT_EQ(numbers_of(x), (std::vector<double>{0, 1, 1, 0, 1, 1}));
        }
        EXPECT_GT(amp_tensor_version(x), version);
        ASSERT_EQ(op("copy_", {x, tensor(AMP_F32, {2, 1}, {1, 0})}), x) << amp_last_error();
        EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 1, 1, 0, 0, 0}));
    }
}

TEST_F(Copy, WritesThroughStridesAndReturnsAFreshTensorOtherwise) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    ASSERT_NE(op("copy_", {op("transpose", {x, 0, 1}), tensor(AMP_F32, {3, 2}, {1, 2, 3, 4, 5, 6})}), nullptr);
    EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 3, 5, 2, 4, 6}));
    amp_tensor *fresh = op("copy", {x, tensor(AMP_I32, {}, {7})});
    EXPECT_EQ(amp_tensor_dtype(fresh), AMP_F32);
    EXPECT_EQ(numbers_of(fresh), std::vector<double>(6, 7.0));
    EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 3, 5, 2, 4, 6}));
    amp_tensor *none = tensor(AMP_F32, {0, 3});
    EXPECT_EQ(op("copy_", {none, tensor(AMP_F32, {3})}), none) << amp_last_error();
}

TEST_F(Copy, ASourceInTheSameMemoryIsReadFirst) {
    amp_tensor *x = tensor(AMP_F32, {5}, {1, 2, 3, 4, 5});
    ASSERT_NE(op("copy_", {x, x}), nullptr);
    ASSERT_NE(op("copy_", {op("narrow", {x, 0, 1, 4}), op("narrow", {x, 0, 0, 4})}), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 1, 2, 3, 4}));
    ASSERT_NE(op("copy_", {x, op("flip", {x, AMP_DIMS(0)})}), nullptr);
    ASSERT_NE(op("copy_", {x, op("narrow", {x, 0, 0, 1})}), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(x), std::vector<double>(5, 4.0));
    amp_tensor *square = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    ASSERT_NE(op("copy_", {square, op("t", {square})}), nullptr);
    EXPECT_EQ(numbers_of(square), (std::vector<double>{1, 3, 2, 4}));
}

TEST_F(Copy, BadInputIsASentenceAndChangesNothing) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(op("copy_", {x, tensor(AMP_F32, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"copy_: 'src' is [2] f32, which does not broadcast to", "[2, 3] f32"}));
    EXPECT_EQ(op("copy_", {x, tensor(AMP_F32, {1, 2, 3})}), nullptr) << "PyTorch's copy_ has no more dimensions either";
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"copy_: 'src' is [1, 2, 3] f32"}));
    EXPECT_EQ(op("copy_", {op("expand", {tensor(AMP_F32, {1}), AMP_DIMS(3)}), tensor(AMP_F32, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"copy_", "share memory"}));
    EXPECT_EQ(numbers_of(x), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Copy, AutocastLeavesItAlone) {
    amp_tensor *x = tensor(AMP_F32, {2}), *third = tensor(AMP_F32, {2}, {1 / 3.0});
    const Region region;
    ASSERT_NE(op("copy_", {x, third}), nullptr);
    EXPECT_EQ(numbers_of(x), numbers_of(third));
}

// ---- CUDA -----------------------------------------------------------------------------------------------------------

class CudaCopy : public CudaTest {};

TEST_F(CudaCopy, AgreesWithTheCpu) {
    for (amp_dtype to : {AMP_F32, AMP_F16, AMP_I64}) {
        for (amp_dtype from : {AMP_F32, AMP_BF16, AMP_I32}) {
            amp_tensor *x = sent(tensor(to, {2, 3})), *turned = op("transpose", {x, 0, 1});
            const uint64_t version = amp_tensor_version(x);
            ASSERT_EQ(op("copy_", {x, sent(tensor(from, {3}, {1, 2, 3}))}), x) << amp_last_error();
            EXPECT_EQ(numbers_of(fetched(x)), (std::vector<double>{1, 2, 3, 1, 2, 3}));
            EXPECT_GT(amp_tensor_version(x), version);
            ASSERT_NE(op("copy_", {turned, sent(tensor(from, {3, 2}, {1, 2, 3, 4, 5, 6}))}), nullptr);
            EXPECT_EQ(numbers_of(fetched(x)), (std::vector<double>{1, 3, 5, 2, 4, 6}));
        }
    }
    amp_tensor *x = sent(tensor(AMP_F32, {5}, {1, 2, 3, 4, 5}));
    ASSERT_NE(op("copy_", {op("narrow", {x, 0, 1, 4}), op("narrow", {x, 0, 0, 4})}), nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(fetched(x)), (std::vector<double>{1, 1, 2, 3, 4}));
    EXPECT_EQ(op("copy_", {x, tensor(AMP_F32, {5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DEVICE, {"copy_: 'src' is on cpu"}));
}

TEST_F(CudaCopy, NarrowReadsItsStartFromTheDevice) {
    amp_tensor *x = sent(tensor(AMP_F32, {5}, {1, 2, 3, 4, 5}));
    amp_tensor *part = op("narrow", {x, 0, sent(tensor(AMP_I64, {}, {3})), 2});
    ASSERT_NE(part, nullptr) << amp_last_error();
    EXPECT_EQ(numbers_of(fetched(part)), (std::vector<double>{4, 5}));
}

} // namespace
