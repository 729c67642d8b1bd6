// Tensors over memory: every dtype and rank, strides, sizes that no memory has, ownership of borrowed memory.
#include "amp/dlpack.h"
#include "amp_test.h"

#include <climits>
#include <cstdlib>

using namespace amp_test;

namespace {

class Tensors : public Test {};

const amp_dtype all_dtypes[] = {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I64, AMP_I32,
                                AMP_I16, AMP_I8,  AMP_U8,  AMP_BOOL, AMP_C64, AMP_C128};

// Counts how often borrowed memory was given back.
void count(void *context) {
    ++*static_cast<int *>(context);
}

amp_tensor *borrow(void *data, const Shape &shape, const Shape &strides, int *deleted = nullptr) {
    return amp_from_memory(data, AMP_F32, int(shape.size()), shape.data(), strides.empty() ? nullptr : strides.data(),
                           deleted ? count : nullptr, deleted);
}

// In a child process with AMP_DEBUG=1, where memory of released tensors is not used again soon.
[[noreturn]] void use_after_release() {
    amp_tensor *gone = tensor(AMP_F32, {2});
    amp_release(gone);
    for (int i = 0; i < 100; i++) amp_keep(tensor(AMP_F32, {2}));
    EXPECT_EQ(op("add", {gone, gone}), nullptr);
    std::fprintf(stderr, "%s\n", amp_last_error());
    std::_Exit(amp_last_status() == AMP_ERROR_INVALID ? 0 : 1);
}

} // namespace

TEST_F(Tensors, EveryDtypeComesBackAsItWent) {
    const size_t sizes[] = {8, 4, 2, 2, 8, 4, 2, 1, 1, 1, 8, 16};
    for (size_t i = 0; i < 12; i++) {
        const amp_dtype d = all_dtypes[i];
        SCOPED_TRACE(amp_dtype_name(d));
        amp_tensor *t = tensor(d, {2, 3}, {0, 1, 1, 0, 1, 0});
        EXPECT_EQ(amp_tensor_dtype(t), d);
        EXPECT_EQ(amp_dtype_size(d), sizes[i]);
        EXPECT_EQ(numbers_of(t), (std::vector<double>{0, 1, 1, 0, 1, 0}));
        EXPECT_EQ(uintptr_t(amp_data(t)) % 64, 0u) << "64-byte alignment";
        EXPECT_EQ(amp_dtype_from_name(amp_dtype_name(d)), d);
        EXPECT_EQ(amp_item(tensor(d, {}, {1})), 1);
    }
}

TEST_F(Tensors, NamesOfDtypes) {
    EXPECT_EQ(amp_dtype_from_name("bfloat16"), AMP_BF16);
    EXPECT_EQ(amp_dtype_from_name("half"), AMP_F16);
    EXPECT_EQ(amp_dtype_from_name("float"), AMP_F32);
    EXPECT_EQ(amp_dtype_from_name("long"), AMP_I64);
    EXPECT_EQ(amp_dtype_from_name("complex128"), AMP_C128);
    EXPECT_EQ(amp_dtype_from_name("none"), AMP_DTYPE_NONE);
    EXPECT_EQ(amp_dtype_from_name("f33"), AMP_DTYPE_NONE);
    EXPECT_EQ(amp_dtype_from_name(nullptr), AMP_DTYPE_NONE);
    EXPECT_STREQ(amp_dtype_name(static_cast<amp_dtype>(77)), "?");
    EXPECT_EQ(amp_dtype_size(static_cast<amp_dtype>(-3)), 0u);
    EXPECT_STREQ(amp_device_name(static_cast<amp_device>(5)), "?");
}

TEST_F(Tensors, ItemGivesTheOneElement) {
    EXPECT_EQ(amp_item(tensor(AMP_I64, {1, 1}, {-9007199254740991.0})), -9007199254740991.0);
    EXPECT_EQ(amp_item(tensor(AMP_BF16, {}, {0.5})), 0.5);
    EXPECT_EQ(amp_item(tensor(AMP_F16, {}, {-65504})), -65504);
    EXPECT_EQ(amp_item(tensor(AMP_F16, {}, {std::ldexp(1, -24)})), std::ldexp(1, -24));
    EXPECT_EQ(amp_item(tensor(AMP_I8, {}, {-128})), -128);
    EXPECT_EQ(amp_item(tensor(AMP_U8, {}, {255})), 255);
    EXPECT_EQ(amp_item(tensor(AMP_F32, {2})), 0);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"item", "one element", "[2] f32"}));
    EXPECT_EQ(amp_item(nullptr), 0);
    EXPECT_TRUE(no_error());
}

TEST_F(Tensors, EveryRankUpTo8) {
    for (int rank = 0; rank <= AMP_MAX_RANK; rank++) {
        const Shape shape(size_t(rank), 2);
        std::vector<double> numbers;
        for (int i = 0; i < 1 << rank; i++) numbers.push_back(i);
        amp_tensor *t = tensor(AMP_F32, shape, numbers);
        ASSERT_NE(t, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_rank(t), rank);
        EXPECT_EQ(amp_tensor_numel(t), 1 << rank);
        EXPECT_TRUE(amp_tensor_is_contiguous(t));
        EXPECT_EQ(numbers_of(t), numbers);
        for (int d = 0; d < rank; d++) {
            EXPECT_EQ(amp_tensor_size(t, d), 2);
            EXPECT_EQ(amp_tensor_size(t, d - rank), 2);
            EXPECT_EQ(amp_tensor_strides(t)[d], 1 << (rank - 1 - d));
        }
        EXPECT_EQ(numbers_of(op("add", {t, t})).back(), 2.0 * ((1 << rank) - 1));
    }
}

TEST_F(Tensors, Rank9IsAnError) {
    const Shape nine(9, 1);
    EXPECT_EQ(tensor(AMP_F32, nine), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_data", "0 to 8", "9"}));
    float number = 0;
    EXPECT_EQ(borrow(&number, nine, {}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_memory", "0 to 8", "9"}));
    EXPECT_EQ(amp_from_data(&number, AMP_F32, -1, nine.data()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"-1"}));
    EXPECT_EQ(op("unsqueeze", {tensor(AMP_F32, Shape(8, 1)), 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"unsqueeze"}));
    EXPECT_EQ(op("stack", {std::vector<amp_tensor *>{tensor(AMP_F32, Shape(8, 1))}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"stack"}));
}

TEST_F(Tensors, ADimensionThatIsNotThereIsAnError) {
    amp_tensor *t = tensor(AMP_F32, {2, 3});
    for (int d : {2, -3, INT_MAX, INT_MIN}) {
        EXPECT_EQ(amp_tensor_size(t, d), 0);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"size", std::to_string(d), "[2, 3] f32"}));
    }
}

TEST_F(Tensors, EmptyTensorsWork) {
    for (const Shape &shape : {Shape{0}, Shape{3, 0}, Shape{0, 3, 2}}) {
        amp_tensor *t = tensor(AMP_F32, shape);
        ASSERT_NE(t, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_numel(t), 0);
        EXPECT_TRUE(amp_tensor_is_contiguous(t));
        EXPECT_EQ(amp_tensor_numel(op("add", {t, t})), 0);
        EXPECT_NE(borrow(nullptr, shape, {}), nullptr) << "no elements need no memory";
    }
    amp_tensor *empty = tensor(AMP_F32, {0, 4});
    Region region;
    amp_tensor *y = op("linear", {empty, tensor(AMP_F32, {2, 4})});
    ASSERT_NE(y, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_numel(y), 0);
    EXPECT_EQ(numbers_of(op("mm", {tensor(AMP_F32, {2, 0}), tensor(AMP_F32, {0, 1})})), (std::vector<double>{0, 0}));
}

TEST_F(Tensors, SizesThatOverflowAreErrors) {
    const int64_t huge = INT64_MAX, big = int64_t(1) << 32;
    for (const Shape &shape : {Shape{huge, 2}, Shape{big, big}, Shape{2, big, big}, Shape{0, huge, huge}}) {
        EXPECT_EQ(amp_from_data(nullptr, AMP_F32, int(shape.size()), shape.data()), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_data", "more elements"}));
        EXPECT_EQ(borrow(nullptr, shape, {}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_memory", "more elements"}));
    }
    const Shape bytes_overflow = {huge / 2};
    EXPECT_EQ(amp_from_data(nullptr, AMP_C128, 1, bytes_overflow.data()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_data", "more bytes"}));
    const Shape too_big = {int64_t(1) << 58};
    EXPECT_EQ(op("zeros", {AMP_DIMS(int64_t(1) << 58)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"zeros", "no memory"}));
    EXPECT_EQ(amp_from_data(nullptr, AMP_U8, 1, too_big.data()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_MEMORY, {"no memory"}));
    EXPECT_EQ(op("expand", {tensor(AMP_F32, {1, 1}), AMP_DIMS(big, big)}), nullptr) << "a view of more elements too";
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"expand"}));
}

TEST_F(Tensors, NegativeExtentsAndNoDtypeAreErrors) {
    const Shape negative = {2, -1};
    float number = 0;
    EXPECT_EQ(amp_from_data(&number, AMP_F32, 2, negative.data()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"[2, -1]", "negative"}));
    const Shape one = {1};
    for (int d : {int(AMP_DTYPE_NONE), int(AMP_DTYPE_COUNT), -1}) {
        EXPECT_EQ(amp_from_data(&number, amp_dtype(d), 1, one.data()), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"from_data", "no dtype"}));
    }
    EXPECT_EQ(amp_from_data(&number, AMP_F32, 1, nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"shape is NULL"}));
    EXPECT_EQ(amp_from_data(nullptr, AMP_F32, 1, one.data()), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data is NULL"}));
    EXPECT_EQ(amp_from_memory(nullptr, AMP_F32, 1, one.data(), nullptr, nullptr, nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"data is NULL"}));
}

// ---- Borrowed memory -----------------------------------------------------------------------------------------------
TEST_F(Tensors, FromMemoryDoesNotCopy) {
    float numbers[4] = {1, 2, 3, 4};
    amp_tensor *t = borrow(numbers, {4}, {});
    EXPECT_EQ(amp_data(t), numbers);
    numbers[2] = 30;
    EXPECT_EQ(numbers_of(t), (std::vector<double>{1, 2, 30, 4}));
    ASSERT_EQ(op("mul_", {t, 2.0}), t);
    EXPECT_EQ(numbers[3], 8);
}

TEST_F(Tensors, StridesMayBeZeroOrNegative) {
    float numbers[6] = {1, 2, 3, 4, 5, 6};
    amp_tensor *backwards = borrow(numbers + 5, {6}, {-1});
    EXPECT_EQ(numbers_of(backwards), (std::vector<double>{6, 5, 4, 3, 2, 1}));
    EXPECT_FALSE(amp_tensor_is_contiguous(backwards));
    amp_tensor *repeated = borrow(numbers, {2, 3}, {0, 1});
    EXPECT_EQ(numbers_of(repeated), (std::vector<double>{1, 2, 3, 1, 2, 3}));
    amp_tensor *columns = borrow(numbers, {3, 2}, {1, 3});
    EXPECT_EQ(numbers_of(op("add", {columns, 0.0})), (std::vector<double>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(numbers_of(op("contiguous", {backwards})), (std::vector<double>{6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(numbers_of(op("add", {backwards, backwards})), (std::vector<double>{12, 10, 8, 6, 4, 2}));
    Region region;
    amp_tensor *mirrored = borrow(numbers + 5, {2, 3}, {-3, -1});
    EXPECT_EQ(numbers_of(op("linear", {mirrored, repeated})),
              numbers_of(op("linear", {op("clone", {mirrored}), op("clone", {repeated})})));
}

TEST_F(Tensors, StridesBeyondAllMemoryAreAnError) {
    float number = 0;
    EXPECT_EQ(borrow(&number, {3}, {INT64_MAX}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_memory", "strides"}));
    EXPECT_EQ(borrow(&number, {2, 2}, {INT64_MIN, INT64_MIN}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_memory", "strides"}));
}

TEST_F(Tensors, TheDeleterRunsOnceAfterTheLastView) {
    float numbers[4] = {1, 2, 3, 4};
    int deleted = 0;
    amp_tensor *view = nullptr;
    {
        Scope scope;
        amp_tensor *t = borrow(numbers, {2, 2}, {}, &deleted);
        view = amp_keep(op("t", {t}));
        amp_release(t);
        EXPECT_EQ(deleted, 0);
    }
    EXPECT_EQ(deleted, 0) << "the kept view still shares the memory";
    amp_release(view);
    EXPECT_EQ(deleted, 1);
}

TEST_F(Tensors, TheDeleterDoesNotRunOnFailure) {
    float number = 0;
    int deleted = 0;
    EXPECT_EQ(borrow(&number, {-1}, {}, &deleted), nullptr);
    amp_clear_error();
    EXPECT_EQ(borrow(nullptr, {2}, {}, &deleted), nullptr);
    amp_clear_error();
    EXPECT_EQ(borrow(&number, {3}, {INT64_MAX}, &deleted), nullptr);
    EXPECT_EQ(borrow(&number, {1}, {}, &deleted), nullptr) << "an error stands";
    amp_clear_error();
    EXPECT_EQ(deleted, 0);
}

// ---- Looking -------------------------------------------------------------------------------------------------------
TEST_F(Tensors, NullGivesNothing) {
    EXPECT_EQ(amp_tensor_dtype(nullptr), AMP_DTYPE_NONE);
    EXPECT_EQ(amp_tensor_rank(nullptr), 0);
    EXPECT_EQ(amp_tensor_shape(nullptr), nullptr);
    EXPECT_EQ(amp_tensor_strides(nullptr), nullptr);
    EXPECT_EQ(amp_tensor_size(nullptr, 0), 0);
    EXPECT_EQ(amp_tensor_numel(nullptr), 0);
    EXPECT_FALSE(amp_tensor_is_contiguous(nullptr));
    EXPECT_EQ(amp_data(nullptr), nullptr);
    EXPECT_EQ(amp_data_mut(nullptr), nullptr);
    EXPECT_EQ(amp_tensor_version(nullptr), 0u);
    EXPECT_FALSE(amp_tensor_requires_grad(nullptr));
    EXPECT_TRUE(no_error());
    EXPECT_EQ(amp_tensor_mark_dirty(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mark_dirty", "NULL"}));
    EXPECT_EQ(amp_tensor_mark_parameter(nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"mark_parameter", "NULL"}));
    EXPECT_EQ(amp_tensor_set_requires_grad(nullptr, true), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"requires_grad", "NULL"}));
}

TEST_F(Tensors, AReleasedTensorGivesNothingAndAnError) {
    amp_tensor *gone = tensor(AMP_F32, {2});
    amp_release(gone);
    const auto complains = [](const char *what) { return failed_with(AMP_ERROR_INVALID, {what, "released before"}); };
    EXPECT_EQ(amp_tensor_dtype(gone), AMP_DTYPE_NONE);
    EXPECT_TRUE(complains("dtype"));
    EXPECT_EQ(amp_tensor_shape(gone), nullptr);
    EXPECT_TRUE(complains("shape"));
    EXPECT_EQ(amp_tensor_numel(gone), 0);
    EXPECT_TRUE(complains("numel"));
    EXPECT_EQ(amp_data(gone), nullptr);
    EXPECT_TRUE(complains("data"));
    EXPECT_EQ(amp_data_mut(gone), nullptr);
    EXPECT_TRUE(complains("data_mut"));
    EXPECT_EQ(amp_tensor_mark_dirty(gone), AMP_ERROR_INVALID);
    EXPECT_TRUE(complains("mark_dirty"));
}

TEST_F(Tensors, WithDebugAUseAfterReleaseIsCaughtLater) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    setenv("AMP_DEBUG", "1", 1);
    EXPECT_EXIT(use_after_release(), testing::ExitedWithCode(0), "add: .*'input' was released before");
    unsetenv("AMP_DEBUG");
}

TEST_F(Tensors, MemoryThatIsNotAlignedIsRefused) {
    alignas(16) char bytes[64] = {};
    const int64_t shape[] = {2};
    for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_C128}) {
        EXPECT_EQ(amp_from_memory(bytes + 1, dtype, 1, shape, nullptr, nullptr, nullptr), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"from_memory", "[2]", amp_dtype_name(dtype), "not aligned"}));
    }
    EXPECT_NE(amp_from_memory(bytes + 1, AMP_U8, 1, shape, nullptr, nullptr, nullptr), nullptr);
    EXPECT_NE(amp_from_memory(bytes + 8, AMP_C128, 1, shape, nullptr, nullptr, nullptr), nullptr);
}

// ---- Versions, gradients -------------------------------------------------------------------------------------------
TEST_F(Tensors, ThatComeBackFromDLPackShareTheirStorage) {
    amp_tensor *w = tensor(AMP_F32, {4}, {1, 2, 3, 4});
    amp_tensor *back = amp_from_dlpack(amp_to_dlpack(w)),
               *old = amp_from_dlpack_unversioned(amp_to_dlpack_unversioned(w));
    const uint64_t before = amp_tensor_version(w);
    op("fill_", {back, 7.0});
    EXPECT_NE(amp_tensor_version(w), before) << "casts of w are stale";
    op("add_", {op("narrow", {w, 0, 1, 3}), op("narrow", {old, 0, 0, 3})});
    EXPECT_EQ(numbers_of(w), (std::vector<double>{7, 14, 14, 14})) << "the overlap was seen";
}

TEST_F(Tensors, WritesBumpTheVersionOfTheStorage) {
    amp_tensor *t = tensor(AMP_F32, {2, 2}), *view = op("t", {t});
    const uint64_t version = amp_tensor_version(t);
    amp_data_mut(view);
    EXPECT_EQ(amp_tensor_version(t), version + 1) << "views share it";
    EXPECT_EQ(amp_tensor_version(view), version + 1);
}

TEST_F(Tensors, TheItemOfAnEmptyTensorIsAnErrorWhereverItsMemoryIs) {
    const int64_t none[1] = {0};
    for (amp_tensor *t :
         {tensor(AMP_F32, {0}), amp_from_memory(nullptr, AMP_F32, 1, none, nullptr, nullptr, nullptr)}) {
        EXPECT_EQ(amp_item(t), 0.0);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"item: the tensor must have one element, this one is [0] f32"}));
    }
}

TEST_F(Tensors, OnlyFloatsAndComplexNumbersHaveGradients) {
    for (amp_dtype d : all_dtypes) {
        amp_tensor *t = tensor(d, {2});
        const bool can = amp_dtype_is_floating(d) || amp_dtype_is_complex(d);
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), can ? AMP_OK : AMP_ERROR_DTYPE);
        EXPECT_EQ(amp_tensor_requires_grad(t), can);
        if (!can) {
            EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"requires_grad", amp_dtype_name(d)}));
        }
        EXPECT_EQ(amp_tensor_set_requires_grad(t, false), AMP_OK);
        EXPECT_FALSE(amp_tensor_requires_grad(t));
    }
}

TEST_F(Tensors, OnlyALeafCeasesToRequireGradients) {
    amp_tensor *base = tensor(AMP_F32, {2, 2}), *plain = op("t", {base});
    ASSERT_EQ(amp_tensor_set_requires_grad(base, true), AMP_OK);
    amp_tensor *view = op("t", {base});
    EXPECT_TRUE(amp_tensor_requires_grad(view));
    EXPECT_EQ(amp_tensor_set_requires_grad(view, true), AMP_OK);
    EXPECT_EQ(amp_tensor_set_requires_grad(view, false), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"set_requires_grad", "[2, 2] f32", "leaf"}));
    EXPECT_TRUE(amp_tensor_requires_grad(view));
    EXPECT_FALSE(amp_tensor_requires_grad(plain)) << "made before";
    EXPECT_EQ(amp_tensor_set_requires_grad(plain, true), AMP_OK);
    EXPECT_EQ(amp_tensor_set_requires_grad(plain, false), AMP_OK) << "a leaf of its own";
    EXPECT_EQ(amp_tensor_set_requires_grad(base, false), AMP_OK);
}
