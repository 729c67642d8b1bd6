// The matrix products through the API: any strides, broadcast batches, in-place and out= targets, inside and outside of
// regions, against sums of the test's own in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "amp_test.h"
#include "guard.h"

using namespace amp_test;

namespace {

struct Matmul : amp_test::Test {
    std::mt19937 random{20261121};

    int64_t pick(int64_t low, int64_t high) {
        return low + int64_t(random() % uint64_t(high - low + 1));
    }

    // A view of that shape: dense, a cut of something larger, permuted, every second element, backwards, or expanded.
    amp_tensor *view(amp_dtype dtype, const Shape &shape) {
        const int rank = int(shape.size());
        Shape order(shape.size()), strides(shape.size());
        for (int d = 0; d < rank; d++) order[size_t(d)] = d;
        if (pick(0, 1)) std::shuffle(order.begin(), order.end(), random);
        int64_t step = pick(0, 3) ? 1 : 2, first = 0;
        for (int i = rank; i-- > 0;) {
            const size_t d = size_t(order[size_t(i)]);
            const int64_t kind = pick(0, 9);
            strides[d] = kind == 0 ? 0 : kind == 1 ? -step : step;
            if (kind == 1) first += (shape[d] - 1) * step;
            if (kind != 0) step *= shape[d] + (pick(0, 3) ? 0 : 3);
        }
        std::vector<double> numbers;
        for (int64_t i = 0; i < step; i++) numbers.push_back(double(pick(-8, 8)));
        amp_tensor *memory = tensor(dtype, {step}, numbers); // not made by an op: cached where it is a weight
        char *data = static_cast<char *>(const_cast<void *>(amp_data(memory)));
        return amp_from_memory(data + first * int64_t(amp_dtype_size(dtype)), dtype, rank, shape.data(), strides.data(),
                               nullptr, nullptr);
    }
};

double dot(const std::vector<double> &a, size_t a_at, size_t a_step, const std::vector<double> &b, size_t b_at,
           size_t b_step, int64_t k) {
    double sum = 0;
    for (size_t i = 0; i < size_t(k); i++) sum += a[a_at + i * a_step] * b[b_at + i * b_step];
    return sum;
}

std::vector<double> product(amp_tensor *a, amp_tensor *b, int64_t batch, int64_t m, int64_t n, int64_t k) {
    const std::vector<double> x = numbers_of(a), y = numbers_of(b);
    const size_t M = size_t(m), N = size_t(n), K = size_t(k), shared = y.size() == K * N ? 0 : 1;
    std::vector<double> result;
    for (size_t i = 0; i < size_t(batch); i++) {
        for (size_t r = 0; r < M; r++) {
            for (size_t c = 0; c < N; c++) {
                result.push_back(dot(x, (i * M + r) * K, 1, y, shared * i * K * N + c, N, k));
            }
        }
    }
    return result;
}

TEST_F(Matmul, ReadsNoMatrixOfAnEmptyBatch) {
    GuardedBuffer buffer(64);
    const int64_t shape[] = {0, 40, 40}, strides[] = {0, 40, 1}; // expanded
    for (amp_dtype dtype : {AMP_BF16, AMP_F32, AMP_F64}) {
        amp_tensor *none = // whose elements would lie in a page that cannot be read
            amp_from_memory(buffer.data() + buffer.size(), dtype, 3, shape, strides, nullptr, nullptr);
        ASSERT_NE(none, nullptr) << amp_last_error();
        amp_tensor *product = op("matmul", {none, none});
        ASSERT_NE(product, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_numel(product), 0);
    }
}

} // namespace

// Small whole numbers: their products and sums are exact in every dtype but for the last rounding to 16 bits.
double rounded(amp_dtype dtype, double x) {
    return dtype == AMP_BF16 ? double(from_bf16(to_bf16(float(x)))) : dtype == AMP_F16 ? from_f16(to_f16(x)) : x;
}

std::vector<double> rounded(amp_dtype dtype, std::vector<double> numbers) {
    for (double &x : numbers) x = rounded(dtype, x);
    return numbers;
}

TEST_F(Matmul, AnyStridesGiveTheProduct) {
    for (const amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16, AMP_F64, AMP_I64}) {
        for (int round = 0; round < 25; round++) {
            const Scope scope;
            const int64_t batch = pick(1, 3), m = pick(1, 40), n = pick(1, 40), k = pick(1, 70);
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " round " + std::to_string(round));
            amp_tensor *a = view(dtype, {batch, m, k}), *b = view(dtype, {batch, k, n}), *shared = view(dtype, {k, n});
            amp_tensor *matrix = view(dtype, {m, k}), *weight = view(dtype, {n, k});
            EXPECT_EQ(numbers_of(op("bmm", {a, b})), rounded(dtype, product(a, b, batch, m, n, k))) << amp_last_error();
            EXPECT_EQ(numbers_of(op("matmul", {a, shared})), rounded(dtype, product(a, shared, batch, m, n, k)));
            for (int again = 0; again < 2; again++) { // from the cast cache
                EXPECT_EQ(numbers_of(op("mm", {matrix, shared})), rounded(dtype, product(matrix, shared, 1, m, n, k)));
                EXPECT_EQ(numbers_of(op("linear", {a, weight})),
                          rounded(dtype, product(a, op("t", {weight}), batch, m, n, k)));
            }
            ASSERT_TRUE(no_error());
        }
    }
}

// Rows of B, or columns of a transposed A, a multiple of 2 KB apart, which AVX2's rule packs; and as many rows as it leaves alone.
TEST_F(Matmul, OperandsThatFallIntoFewSetsOfTheCacheGiveTheProduct) {
    struct Case {
        int64_t batch, m, n, k;
    };
    const auto whole = [&](const Shape &shape) {
        std::vector<double> numbers(size_t(shape[0] * shape[1] * shape[2]));
        for (double &x : numbers) x = double(pick(-4, 4));
        return tensor(AMP_F32, shape, numbers);
    };
    for (const Case &c :
         {Case{1, 32, 512, 40}, {3, 33, 512, 17}, {1, 512, 256, 20}, {2, 1024, 260, 9}, {1, 31, 512, 40}}) {
        const Scope scope;
        SCOPED_TRACE(std::to_string(c.m) + " rows of " + std::to_string(c.n));
        amp_tensor *b = whole({c.batch, c.k, c.n}), *shared = op("select", {b, 0, 0});
        for (amp_tensor *a : {whole({c.batch, c.m, c.k}), op("transpose", {whole({c.batch, c.k, c.m}), 1, 2})}) {
            EXPECT_EQ(numbers_of(op("bmm", {a, b})), product(a, b, c.batch, c.m, c.n, c.k)) << amp_last_error();
            EXPECT_EQ(numbers_of(op("matmul", {a, shared})), product(a, shared, c.batch, c.m, c.n, c.k));
        }
        ASSERT_TRUE(no_error());
    }
}

TEST_F(Matmul, AnyStridesGiveTheProductUnderAutocast) {
    for (int round = 0; round < 60; round++) {
        const Scope scope;
        const Region region;
        const int64_t m = pick(1, 40), n = pick(1, 40), k = pick(1, 70);
        amp_tensor *a = view(AMP_F32, {m, k}), *b = view(AMP_F32, {k, n}), *c = view(AMP_F32, {m, n});
        std::vector<double> expected = product(a, b, 1, m, n, k);
        amp_tensor *y = op("mm", {a, b});
        EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
        EXPECT_EQ(numbers_of(y), rounded(AMP_BF16, expected));
        const std::vector<double> residual = numbers_of(c);
        for (size_t i = 0; i < expected.size(); i++) expected[i] = 2 * expected[i] - residual[i];
        EXPECT_EQ(numbers_of(op("addmm", {c, a, b}, {{"beta", -1}, {"alpha", 2}})), rounded(AMP_BF16, expected));
        ASSERT_TRUE(no_error());
    }
}

TEST_F(Matmul, TargetMayBeAnOperand) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, 2, 3, 4});
    EXPECT_EQ(op("mm_out", {x, x}, {{"out", x}}), x);
    EXPECT_EQ(numbers_of(x), (std::vector<double>{7, 10, 15, 22}));
    amp_tensor *turned = op("t", {x});
    EXPECT_EQ(op("mm_out", {x, turned}, {{"out", turned}}), turned); // written through its strides
    EXPECT_EQ(numbers_of(x), (std::vector<double>{149, 325, 325, 709}));
}

TEST_F(Matmul, TargetOfAnotherDtypeIsRefused) {
    for (const bool inside : {false, true}) {
        const Region region(inside ? AMP_DEVICE_CPU : AMP_DEVICE_CUDA);
        for (const amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16, AMP_F64}) {
            amp_tensor *x = tensor(dtype, {2, 2}), *out = tensor(dtype == AMP_F32 ? AMP_BF16 : AMP_F32, {2, 2});
            EXPECT_EQ(op("mm_out", {x, x}, {{"out", out}}), nullptr);
            EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"mm_out", "'out'", amp_dtype_name(dtype), "do not autocast"}));
        }
    }
}

TEST_F(Matmul, AWeightOfF16IsPackedOnceToo) {
    const Region region;
    amp_tensor *x = tensor(AMP_F32, {3, 64}, {1, -2}), *w = tensor(AMP_F16, {64, 64}, {1, 2, 3});
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    const std::vector<double> first = numbers_of(op("linear", {x, w}));
    for (int i = 0; i < 4; i++) EXPECT_EQ(numbers_of(op("linear", {x, w})), first);
    EXPECT_EQ(amp_cast_cache_statistics().misses - before.misses, 1u);
    EXPECT_EQ(amp_cast_cache_statistics().hits - before.hits, 4u);
    EXPECT_EQ(first, rounded(AMP_BF16, product(x, op("t", {w}), 1, 3, 64, 64)));
}

TEST_F(Matmul, MemoryThatItsOwnerRewritesUnseenIsNotKeptPackedInF32) {
    std::vector<float> memory(64 * 64, 1.0f);
    const int64_t shape[] = {64, 64};
    amp_tensor *w = amp_from_memory(memory.data(), AMP_F32, 2, shape, nullptr, nullptr, nullptr);
    amp_tensor *x = op("ones", {AMP_DIMS(1, 64)});
    EXPECT_EQ(numbers_of(op("mm", {x, w}))[0], 64);
    memory.assign(memory.size(), 2.0f);
    EXPECT_EQ(numbers_of(op("mm", {x, w}))[0], 128);
    amp_tensor_mark_parameter(w);
    const uint64_t hits = amp_cast_cache_statistics().hits;
    op("mm", {x, w});
    op("mm", {x, w});
    EXPECT_EQ(amp_cast_cache_statistics().hits, hits + 1);
}

TEST_F(Matmul, TheTargetMayBeMemoryThatAnOperandWasLentToo) {
    std::vector<float> memory{1, 2, 3, 4};
    const int64_t shape[] = {2, 2};
    amp_tensor *a = amp_from_memory(memory.data(), AMP_F32, 2, shape, nullptr, nullptr, nullptr);
    amp_tensor *out = amp_from_memory(memory.data(), AMP_F32, 2, shape, nullptr, nullptr, nullptr);
    op("mm_out", {a, a}, {{"out", out}});
    EXPECT_EQ(memory, (std::vector<float>{7, 10, 15, 22}));
}
