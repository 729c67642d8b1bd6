// Kernels that take several neighbours at a time, in whatever mixture of types and however rows lie, against the CPU;
// CMake runs them again with all threads of each block.
#include <cmath>
#include <cstring>

#include "cuda_test.h"
#include "fake_cuda/races.h"

using namespace amp_test;

namespace {

class CudaUnits : public CudaTest {
  protected:
    // Values in the place of others, so that an offset of elements is an offset in memory.
    static amp_tensor *behind(amp_tensor *t, int64_t offset) {
        const int64_t n = amp_tensor_numel(t);
        amp_tensor *room = op("zeros", {AMP_DIMS(n + offset)});
        amp_tensor *flat = op("reshape", {t, AMP_DIMS(-1)});
        room = op(
            "cat",
            {std::vector<amp_tensor *>{op("to", {op("narrow", {room, 0, 0, offset}), amp_tensor_dtype(t)}), flat}, 0});
        return room;
    }
    static amp_tensor *view_of(amp_tensor *room, int64_t offset, const amp_dims &shape, int64_t n) {
        return op("view", {op("narrow", {room, 0, offset, n}), shape});
    }
    static void expect_same(amp_tensor *got, amp_tensor *want) {
        ASSERT_NE(got, nullptr) << amp_last_error();
        ASSERT_NE(want, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(got), amp_tensor_dtype(want));
        EXPECT_EQ(numbers_of(fetched(got)), numbers_of(fetched(want)));
    }
    uint64_t launches() const {
        return amp_cuda_counters().launches;
    }
};

// Of every two floating dtypes, in rows that have a number of units, and more; a mask, a row and a column broadcast.
TEST_F(CudaUnits, MixedTypesAndBroadcastRowsAreTheCpus) {
    const amp_dtype dtypes[] = {AMP_F32, AMP_F16, AMP_BF16};
    for (const Shape &shape : {Shape{3, 5, 64}, Shape{2, 3, 20}, Shape{4, 2, 9}, Shape{1, 1, 3}, Shape{1, 1, 1037}}) {
        for (amp_dtype first : dtypes) {
            for (amp_dtype second : dtypes) {
                SCOPED_TRACE(std::string(amp_dtype_name(first)) + " " + amp_dtype_name(second) + " " +
                             std::to_string(shape[2]));
                Scope scope;
                amp_tensor *x = random_tensor(first, shape, 1), *y = random_tensor(second, shape, 2);
                amp_tensor *row = random_tensor(second, {shape[2]}, 3),
                           *column = random_tensor(first, {shape[1], 1}, 4);
                amp_tensor *across = op("transpose", {column, 0, 1});
                amp_tensor *mask = op("gt", {random_tensor(AMP_F32, shape, 5), amp_float(0)});
                for (amp_tensor *other : {y, row, column}) {
                    expect_same(op("add", {sent(x), sent(other)}), op("add", {x, other}));
                    expect_same(op("lt", {sent(x), sent(other)}), op("lt", {x, other}));
                    expect_same(op("where", {sent(mask), sent(x), sent(other)}), op("where", {mask, x, other}));
                }
                expect_same(op("masked_fill", {sent(x), sent(mask), amp_float(-7)}),
                            op("masked_fill", {x, mask, amp_float(-7)}));
                expect_same(op("to", {sent(x), second}), op("to", {x, second}));
                expect_same(op("mul", {op("transpose", {sent(x), 1, 2}), sent(across)}),
                            op("mul", {op("transpose", {x, 1, 2}), across}));
            }
        }
    }
}

// Memory that begins anywhere gives the same elements, and keeps those before and behind.
TEST_F(CudaUnits, UnalignedMemoryGivesTheSame) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {1001}, 6), *there = sent(x);
        for (int64_t offset : {1, 2, 4}) {
            Scope scope;
            amp_tensor *room = sent(behind(x, offset)), *part = op("narrow", {room, 0, offset, amp_int(990)});
            expect_same(op("exp", {part}), op("exp", {op("narrow", {there, 0, 0, 990})}));
            ASSERT_NE(op("mul_", {part, amp_float(2)}), nullptr) << amp_last_error();
            const std::vector<double> before = numbers_of(x), after = numbers_of(fetched(room));
            for (int64_t i = 0; i < 1001; i++) {
                EXPECT_EQ(after[size_t(i + offset)], before[size_t(i)] * (i < 990 ? 2 : 1)) << i;
            }
        }
    }
}

// Sums are taken in an order that follows from shapes alone: an address changes nothing.
TEST_F(CudaUnits, RowsGiveTheSameWhereverTheyBegin) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_BF16}) {
        for (int64_t length : {1, 8, 100, 768, 1003, 4096, 5000}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(length));
            Scope scope;
            const Shape shape = {5, length};
            amp_tensor *x = random_tensor(dtype, shape, 7);
            amp_tensor *w = random_tensor(dtype, {length}, 8), *b = random_tensor(dtype, {length}, 9);
            amp_tensor *moved = view_of(sent(behind(x, 1)), 1, AMP_DIMS(5, length), 5 * length);
            const double near = dtype == AMP_F32 ? 2e-5 : dtype == AMP_F16 ? 4e-3 : 4e-2;
            for (const char *name : {"softmax", "log_softmax"}) {
                amp_tensor *got = op(name, {sent(x), 1});
                expect_same(op(name, {moved, 1}), got);
                expect_agree(got, op(name, {x, 1}), near);
            }
            amp_tensor *got = op("layer_norm", {sent(x), AMP_DIMS(length), sent(w), sent(b)});
            expect_same(op("layer_norm", {moved, AMP_DIMS(length), sent(w), sent(b)}), got);
            if (length > 1) expect_agree(got, op("layer_norm", {x, AMP_DIMS(length), w, b}), near);
            got = op("rms_norm", {sent(x), AMP_DIMS(length), sent(w)});
            expect_same(op("rms_norm", {moved, AMP_DIMS(length), sent(w)}), got);
            expect_agree(got, op("rms_norm", {x, AMP_DIMS(length), w}), near);
        }
    }
}

TEST_F(CudaUnits, RowsThatLieAcrossAgreeWithTheCpu) {
    for (const Shape &shape : {Shape{2, 40, 5000}, Shape{3, 70, 33}, Shape{2, 9, 4, 7}}) {
        for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F64}) {
            Scope scope;
            amp_tensor *x = random_tensor(dtype, shape, 10);
            const double near = dtype == AMP_BF16 ? 4e-2 : 1e-5;
            for (const char *name : {"softmax", "log_softmax"}) {
                expect_agree(op(name, {sent(x), 1}), op(name, {x, 1}), near);
            }
        }
    }
    for (const Shape &shape : {Shape{2, 6, 5, 7}, Shape{3, 8, 16}, Shape{2, 4, 64, 64}}) {
        Scope scope;
        amp_tensor *x = random_tensor(AMP_F16, shape, 11);
        amp_tensor *w = random_tensor(AMP_F16, {shape[1]}, 12), *b = random_tensor(AMP_F16, {shape[1]}, 13);
        expect_agree(op("group_norm", {sent(x), 2, sent(w), sent(b)}), op("group_norm", {x, 2, w, b}), 8e-3);
    }
}

// (x − mean) / √(variance + eps) · weight + bias in one launch, in f32, rounded once.
TEST_F(CudaUnits, BatchNormIsOneLaunchInEitherLayout) {
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_BF16}) {
        for (const Shape &shape : {Shape{2, 16, 5, 8}, Shape{2, 6, 3, 4}, Shape{3, 5, 7, 7}, Shape{40, 24, 1, 1}}) {
            for (bool last : {false, true}) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(shape[1]) +
                             (last ? " last" : ""));
                Scope scope;
                amp_tensor *x = random_tensor(dtype, shape, 14);
                if (last)
                    x = op("permute",
                           {op("contiguous", {op("permute", {x, AMP_DIMS(0, 2, 3, 1)})}), AMP_DIMS(0, 3, 1, 2)});
                const auto numbers = [&](uint64_t seed) { return random_tensor(AMP_F32, {shape[1]}, seed); };
                amp_tensor *mean = numbers(15), *spread = op("abs", {numbers(16)}), *w = numbers(17), *b = numbers(18);
                amp_tensor *there = sent(x);
                const std::vector<amp_tensor *> given = {sent(mean), sent(spread), sent(w), sent(b)};
                const uint64_t before = launches();
                amp_tensor *got = op("batch_norm", {there, given[0], given[1], given[2], given[3]});
                EXPECT_EQ(launches() - before, 1u);
                op("batch_norm_pointwise", {there, given[0], given[1], given[2], given[3]}, {{"attr", "relu"}});
                EXPECT_EQ(launches() - before, 3u) << "and the same with a relu is two";
                expect_agree(got, op("batch_norm", {x, mean, spread, w, b}),
                             dtype == AMP_F32   ? 1e-4
                             : dtype == AMP_F16 ? 0.02
                                                : 0.2);
            }
        }
    }
}

// Blocks take turns: what one of them does to another depends on the driver's order, which is not 0, 1, 2.
TEST_F(CudaUnits, BlocksRunAmongEachOther) {
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    const auto find = [&](const char *name) { return dlsym(library, name); };
    uintptr_t module = 0, function = 0;
    void *stream = nullptr;
    ASSERT_EQ(reinterpret_cast<int (*)(uintptr_t)>(find("cuCtxSetCurrent"))(1), 0);
    ASSERT_EQ(reinterpret_cast<int (*)(void **, unsigned)>(find("cuStreamCreate"))(&stream, 1), 0);
    ASSERT_EQ(reinterpret_cast<int (*)(uintptr_t *, const void *)>(find("cuModuleLoadData"))(&module, nullptr), 0);
    const auto function_of =
        reinterpret_cast<int (*)(uintptr_t *, uintptr_t, const char *)>(find("cuModuleGetFunction"));
    ASSERT_EQ(function_of(&function, module, "fake_races"), 0);
    using Launch = int (*)(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
                           void **, void **);
    int order[6] = {-1, -1, -1, -1, -1, -1}, count = 0;
    fake_races_args a = {order, &count};
    void *parameters[] = {&a};
    ASSERT_EQ(
        reinterpret_cast<Launch>(find("cuLaunchKernel"))(function, 3, 1, 1, 64, 1, 1, 0, stream, parameters, nullptr),
        0);
    const bool threads = std::getenv("AMP_TESTS_DRIVER") != nullptr; // … which alone stop at barriers
    const std::vector<int> want = threads ? std::vector<int>{2, 1, 0, 0, 1, 2} : std::vector<int>{2, 2, 1, 1, 0, 0};
    EXPECT_EQ(std::vector<int>(order, order + 6), want);
    EXPECT_EQ(reinterpret_cast<int (*)(void *)>(find("cuStreamDestroy_v2"))(stream), 0);
}

// GELU of 16 bits has a polynomial, of every number that there is: at most an ulp from the CPU's, and mostly it.
TEST_F(CudaUnits, GeluOf16BitsIsTheCpus) {
    for (amp_dtype dtype : {AMP_F16, AMP_BF16}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        std::vector<uint16_t> bits(1 << 16);
        for (size_t i = 0; i < bits.size(); i++) bits[i] = uint16_t(i);
        const int64_t shape[1] = {1 << 16};
        amp_tensor *x = amp_from_data(bits.data(), dtype, 1, shape);
        amp_tensor *got = fetched(op("gelu", {sent(x)})), *want = op("gelu", {x});
        const auto *g = static_cast<const uint16_t *>(amp_data(got)),
                   *w = static_cast<const uint16_t *>(amp_data(want));
        const std::vector<double> values = numbers_of(want), others = numbers_of(got);
        int different = 0;
        for (size_t i = 0; i < bits.size(); i++) {
            if (std::isnan(values[i])) {
                ASSERT_TRUE(std::isnan(others[i])) << i;
                continue;
            }
            if (values[i] == others[i]) continue; // zeros of either sign
            ASSERT_LE(std::abs(int(g[i]) - int(w[i])), 1) << "of 0x" << std::hex << i;
            different++;
        }
        EXPECT_LE(different, 64);
    }
}

} // namespace
