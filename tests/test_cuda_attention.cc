// The attention kernels of the CUDA backend against f64 on the CPU. CMake runs this again with all threads of each block
// (AMP_TESTS_DRIVER), which finds what one thread alone cannot do wrong.
#include <cmath>

#include "cuda_test.h"

using namespace amp_test;

namespace {

struct Problem {
    const char *name;
    int64_t batch, heads, key_heads, rows, keys, depth, width;
    bool causal;
    Shape mask; // empty: none
};

// More rows than a block's, keys that end inside of a tile, depths that fill no tile.
const Problem problems[] = {
    {"one of everything", 1, 1, 1, 1, 1, 1, 1, false, {}},
    {"whole tiles", 1, 2, 2, 64, 64, 64, 64, false, {}},
    {"causal", 2, 2, 2, 70, 70, 32, 32, true, {}},
    {"causal, more keys", 1, 2, 2, 40, 100, 16, 16, true, {}},
    {"causal, more rows", 1, 2, 2, 100, 40, 16, 16, true, {}},
    {"odd extents", 2, 3, 3, 37, 53, 19, 27, false, {}},
    {"width beyond depth", 1, 2, 2, 20, 33, 8, 48, false, {}},
    {"heads that share keys", 2, 6, 2, 33, 17, 24, 24, false, {}},
    {"decoding", 2, 8, 2, 1, 200, 64, 64, false, {}},
    {"deep", 1, 2, 1, 70, 40, 128, 120, true, {}},
    {"deeper than a tile", 1, 2, 2, 10, 12, 136, 16, true, {}},
    {"deep and wide", 1, 2, 1, 37, 70, 300, 260, true, {}},
    {"wide only", 1, 1, 1, 5, 40, 8, 130, false, {}},
    {"wide, of no depth", 1, 1, 1, 5, 40, 0, 130, false, {}},
    {"shared keys", 1, 2, 1, 3, 1030, 24, 40, false, {}},
    {"shared keys, causal", 1, 1, 1, 600, 700, 16, 16, true, {}},
    {"shared keys, deep", 1, 1, 1, 1, 800, 140, 150, false, {}},
    {"shared keys, a mask", 1, 1, 1, 2, 600, 16, 16, false, {1, 1, 1, 600}},
    {"a mask for each score", 2, 3, 3, 35, 41, 16, 16, false, {2, 3, 35, 41}},
    {"a mask of keys", 2, 3, 3, 35, 41, 16, 16, false, {2, 1, 1, 41}},
    {"a mask of rows", 2, 3, 3, 35, 41, 16, 16, false, {35, 1}},
};

class CudaAttention : public CudaTest {
  protected:
    static amp_tensor *attention(amp_tensor *q, amp_tensor *k, amp_tensor *v, amp_tensor *mask, const Problem &p) {
        std::vector<Named> options = {{"is_causal", p.causal}, {"enable_gqa", p.heads != p.key_heads}};
        if (mask) options.push_back({"attn_mask", mask});
        if (p.depth == 0) options.push_back({"scale", 0.5}); // there is none by itself
        return op("scaled_dot_product_attention", {q, k, v}, options);
    }

    // `mask` as the CPU gives it to both.
    static void agree(const Problem &p, amp_dtype dtype, amp_tensor *q, amp_tensor *k, amp_tensor *v,
                      amp_tensor *mask) {
        const auto wide = [](amp_tensor *t) { return op("to", {t, AMP_F64}); };
        amp_tensor *wide_mask = mask && mask_is_added(mask) ? wide(mask) : mask;
        amp_tensor *want = attention(wide(q), wide(k), wide(v), wide_mask, p);
        amp_tensor *got = attention(sent(q), sent(k), sent(v), mask ? sent(mask) : nullptr, p);
        ASSERT_NE(want, nullptr) << amp_last_error();
        ASSERT_NE(got, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(got), dtype);
        const std::vector<double> g = numbers_of(fetched(got)), w = numbers_of(want);
        ASSERT_EQ(g.size(), w.size());
        for (size_t i = 0; i < w.size(); i++) {
            if (std::isnan(w[i]) ? std::isnan(g[i]) : std::abs(g[i] - w[i]) <= tolerance_of(dtype)) continue;
            FAIL() << "element " << i << " of " << w.size() << ": " << g[i] << ", expected " << w[i];
        }
    }
    static bool mask_is_added(const amp_tensor *mask) {
        return amp_tensor_dtype(mask) != AMP_BOOL;
    }
    // Values are within ±1: weights and results are rounded once each.
    static double tolerance_of(amp_dtype dtype) {
        return dtype == AMP_F64 ? 1e-14 : dtype == AMP_F32 ? 2e-6 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-7;
    }
};

const amp_dtype dtypes[] = {AMP_F16, AMP_BF16, AMP_F32, AMP_F64};

TEST_F(CudaAttention, AgreesWithTheCpu) {
    for (const Problem &p : problems) {
        for (amp_dtype dtype : dtypes) {
            SCOPED_TRACE(std::string(p.name) + ", " + amp_dtype_name(dtype));
            Scope scope;
            amp_tensor *q = random_tensor(dtype, {p.batch, p.heads, p.rows, p.depth}, 1);
            amp_tensor *k = random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.depth}, 2);
            amp_tensor *v = random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.width}, 3);
            amp_tensor *mask = p.mask.empty() ? nullptr : random_tensor(dtype, p.mask, 4);
            agree(p, dtype, q, k, v, mask);
            if (mask) agree(p, dtype, q, k, v, op("gt", {mask, amp_float(0.5)}));
        }
    }
}

// Heads inside of rows, as projections leave them; and elements of a row apart.
TEST_F(CudaAttention, ReadsInputsOfAnyStrides) {
    const Problem p = {"", 2, 3, 3, 35, 21, 32, 32, false, {}};
    for (amp_dtype dtype : dtypes) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        Scope scope;
        const auto turned = [&](int64_t length, uint64_t seed, int64_t d0, int64_t d1) {
            Shape shape = {p.batch, p.heads, length, p.depth};
            std::swap(shape[size_t(d0)], shape[size_t(d1)]);
            return op("transpose", {random_tensor(dtype, shape, seed), d0, d1});
        };
        agree(p, dtype, turned(p.rows, 1, 1, 2), turned(p.keys, 2, 1, 2), turned(p.keys, 3, 1, 2), nullptr);
        agree(p, dtype, turned(p.rows, 1, 2, 3), turned(p.keys, 2, 2, 3), turned(p.keys, 3, 2, 3), nullptr);
        amp_tensor *one = random_tensor(dtype, {1, 1, p.keys, p.depth}, 4); // the same keys for all heads
        agree(p, dtype, turned(p.rows, 1, 1, 2), one, one, nullptr);
    }
}

TEST_F(CudaAttention, RowsWithoutAKeyAreZeroAndNaNStaysInItsRow) {
    const Problem p = {"", 1, 1, 1, 20, 40, 16, 16, false, {}};
    for (amp_dtype dtype : dtypes) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        Scope scope;
        amp_tensor *q = random_tensor(dtype, {1, 1, 20, 16}, 1), *k = random_tensor(dtype, {1, 1, 40, 16}, 2);
        amp_tensor *v = random_tensor(dtype, {1, 1, 40, 16}, 3);
        bool attends[20 * 40];
        for (int i = 0; i < 20 * 40; i++) attends[i] = i / 40 != 3 && (i / 40 != 4 || i % 40 == 39);
        const int64_t shape[2] = {20, 40}, none[4] = {1, 1, 0, 16};
        amp_tensor *mask = amp_from_data(attends, AMP_BOOL, 2, shape);
        agree(p, dtype, q, k, v, mask);
        amp_tensor *seven = op("select", {q, 2, 7});
        op("fill_", {seven, amp_float(NAN)});
        agree(p, dtype, q, k, v, mask);
        amp_tensor *no_keys = op("narrow", {k, 2, 0, 0});
        ASSERT_EQ(amp_tensor_numel(no_keys), none[2]);
        agree(p, dtype, q, no_keys, no_keys, nullptr);
    }
}

TEST_F(CudaAttention, HasNoMatrixOfScores) {
    const Problem p = {"", 1, 2, 2, 300, 300, 8, 8, true, {}};
    amp_tensor *x = sent(random_tensor(AMP_F16, {1, 2, 300, 8}, 1));
    const amp_cuda_counts start = amp_cuda_counters();
    ASSERT_NE(attention(x, x, x, nullptr, p), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_counters().launches, start.launches + 1);
    EXPECT_EQ(amp_cuda_counters().allocations, start.allocations + 1);
    EXPECT_LE(amp_cuda_counters().live_bytes, start.live_bytes + 2 * 300 * 8 * 2 + 512);
}

} // namespace
