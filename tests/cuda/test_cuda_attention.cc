// The attention kernels of the CUDA backend against f64 on the CPU. CMake runs this again with all threads of each
// block (AMP_TESTS_DRIVER), which finds what one thread alone cannot do wrong.
#include <cmath>

#include "amp/explain.h"
#include "cuda_test.h"
extern "C" {
#include "cuda/args/cuda_module.h"
const amp_cuda_module *amp_cuda_loaded(void); // cuda/cuda_backend.h, whose atomics are C
}

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

    // The flash_* kernel for a problem whose rows are dense, or the other one, by the rules of docs/cuda.md.
    static std::string kernel_of(const Problem &p, amp_dtype dtype, bool with_mask, int capability = 90) {
        const int64_t most = std::max(p.depth, p.width);
        const bool flash = (dtype == AMP_F16 || dtype == AMP_BF16) && p.depth % 8 == 0 && p.width % 8 == 0 &&
                           p.depth > 0 && most <= (with_mask ? 64 : 128) && capability >= 80;
        if (!flash) return std::string("attention_") + amp_dtype_name(dtype) + "_";
        const std::string name = std::string("flash_") + amp_dtype_name(dtype) + (most <= 64 ? "_64" : "_128");
        return "\"" + name + (with_mask ? "_masked\"" : most > 64 && capability < 90 ? "_lean\"" : "\"");
    }
    // A call on the device, by the kernel that `expected` is a part of.
    template <class Call>
    amp_tensor *called(const std::string &expected, Call call) {
        const uint64_t conflicts = fake->bank_conflicts;
        amp_explain_reset();
        amp_explain_begin();
        amp_tensor *got = call();
        amp_explain_end();
        char *report = amp_explain_report(AMP_EXPLAIN_JSON);
        EXPECT_TRUE(report && contains(report, expected)) << expected << " is not in " << report;
        amp_explain_free(report);
        amp_explain_reset();
        EXPECT_EQ(fake->bank_conflicts, conflicts);
        return got;
    }

    struct Inputs {
        amp_tensor *q, *k, *v, *mask;
    };
    // On the device, dense.
    static Inputs all_sent(const Inputs &in) {
        return {sent(in.q), sent(in.k), sent(in.v), in.mask ? sent(in.mask) : nullptr};
    }
    // Values are within ± `unit`.
    void agree(const Problem &p, amp_dtype dtype, const Inputs &in, double unit = 1) {
        agree_by(kernel_of(p, dtype, in.mask), p, dtype, in, all_sent(in), unit);
    }
    void agree_by(const std::string &kernel, const Problem &p, amp_dtype dtype, const Inputs &in, const Inputs &there,
                  double unit = 1) {
        const auto wide = [](amp_tensor *t) { return op("to", {t, AMP_F64}); };
        amp_tensor *wide_mask = in.mask && mask_is_added(in.mask) ? wide(in.mask) : in.mask;
        amp_tensor *want = attention(wide(in.q), wide(in.k), wide(in.v), wide_mask, p);
        amp_tensor *got = called(kernel, [&] { return attention(there.q, there.k, there.v, there.mask, p); });
        ASSERT_NE(want, nullptr) << amp_last_error();
        ASSERT_NE(got, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_dtype(got), dtype);
        const std::vector<double> g = numbers_of(fetched(got)), w = numbers_of(want);
        ASSERT_EQ(g.size(), w.size());
        for (size_t i = 0; i < w.size(); i++) {
            if (std::isnan(w[i]) ? std::isnan(g[i]) : std::abs(g[i] - w[i]) <= tolerance_of(dtype) * unit) continue;
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

const amp_dtype dtypes[] = {AMP_F16, AMP_BF16, AMP_F32, AMP_F64}, narrow_dtypes[] = {AMP_F16, AMP_BF16};

TEST_F(CudaAttention, AgreesWithTheCpu) {
    for (const Problem &p : problems) {
        for (amp_dtype dtype : dtypes) {
            SCOPED_TRACE(std::string(p.name) + ", " + amp_dtype_name(dtype));
            Scope scope;
            amp_tensor *q = random_tensor(dtype, {p.batch, p.heads, p.rows, p.depth}, 1);
            amp_tensor *k = random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.depth}, 2);
            amp_tensor *v = random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.width}, 3);
            amp_tensor *mask = p.mask.empty() ? nullptr : random_tensor(dtype, p.mask, 4);
            agree(p, dtype, {q, k, v, mask});
            if (mask) agree(p, dtype, {q, k, v, op("gt", {mask, amp_float(0.5)})});
        }
    }
}

// Heads inside of rows, as projections leave them; elements of a row apart; the same keys for all heads.
TEST_F(CudaAttention, ReadsInputsOfAnyStrides) {
    const Problem p = {"", 2, 3, 3, 35, 21, 32, 32, false, {}};
    for (amp_dtype dtype : dtypes) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Scope scope;
        const Inputs in = {random_tensor(dtype, {2, 3, 35, 32}, 1), random_tensor(dtype, {2, 3, 21, 32}, 2),
                           random_tensor(dtype, {2, 3, 21, 32}, 3), nullptr};
        const auto turned = [](amp_tensor *t, int64_t d0, int64_t d1) { // in memory, on the device
            amp_tensor *other = op("contiguous", {op("transpose", {t, d0, d1})});
            return op("transpose", {sent(other), d0, d1});
        };
        const auto all_turned = [&](int64_t d0, int64_t d1) -> Inputs {
            return {turned(in.q, d0, d1), turned(in.k, d0, d1), turned(in.v, d0, d1), nullptr};
        };
        agree_by(kernel_of(p, dtype, false), p, dtype, in, all_turned(1, 2));
        agree_by("\"attention_", p, dtype, in, all_turned(2, 3));
        amp_tensor *one = random_tensor(dtype, {1, 1, 21, 32}, 4);
        agree(p, dtype, {in.q, one, one, nullptr});
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
        agree(p, dtype, {q, k, v, mask});
        amp_tensor *seven = op("select", {q, 2, 7});
        op("fill_", {seven, amp_float(NAN)});
        agree(p, dtype, {q, k, v, mask});
        amp_tensor *no_keys = op("narrow", {k, 2, 0, 0});
        ASSERT_EQ(amp_tensor_numel(no_keys), none[2]);
        agree(p, dtype, {q, no_keys, no_keys, nullptr});
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

// ---- The flash_* kernels: 128 query rows for a block, 64 keys at a time --------------------------------------------

const Problem flash_problems[] = {
    {"a row less than a block's", 1, 1, 1, 127, 63, 64, 64, false, {}},
    {"whole blocks", 1, 2, 2, 256, 128, 64, 64, false, {}},
    {"a row more", 1, 1, 1, 129, 65, 64, 64, false, {}},
    {"one key", 1, 2, 2, 33, 1, 64, 64, false, {}},
    {"one row", 2, 2, 2, 1, 65, 64, 64, false, {}},
    {"causal, a row less", 1, 1, 1, 127, 127, 64, 64, true, {}},
    {"causal, whole", 1, 1, 1, 128, 128, 64, 64, true, {}},
    {"causal, a row more", 1, 2, 1, 129, 129, 64, 64, true, {}},
    {"causal, fewer keys", 1, 1, 1, 200, 70, 64, 64, true, {}},
    {"causal, more keys", 1, 1, 1, 70, 200, 64, 64, true, {}},
    {"shallow", 1, 2, 2, 40, 70, 8, 16, false, {}},
    {"wider than deep", 1, 1, 1, 40, 70, 16, 64, true, {}},
    {"deeper than wide", 1, 1, 1, 40, 70, 56, 8, false, {}},
    {"deeper than 64", 1, 1, 1, 129, 65, 72, 80, false, {}},
    {"depth 128", 1, 2, 1, 130, 129, 128, 128, false, {}},
    {"depth 128, causal", 1, 1, 1, 129, 190, 128, 128, true, {}},
    {"heads that share keys", 2, 4, 2, 40, 66, 64, 64, true, {}},
    {"shared keys", 1, 2, 1, 5, 1030, 64, 64, false, {}},
    {"shared keys, causal", 1, 1, 1, 140, 600, 64, 56, true, {}},
    {"shared keys, depth 128", 1, 1, 1, 3, 700, 128, 96, false, {}},
};

class CudaFlash : public CudaAttention {
  protected:
    static Inputs inputs_of(const Problem &p, amp_dtype dtype) {
        return {random_tensor(dtype, {p.batch, p.heads, p.rows, p.depth}, 1),
                random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.depth}, 2),
                random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.width}, 3), nullptr};
    }
};

TEST_F(CudaFlash, AgreesWithTheCpu) {
    for (const Problem &p : flash_problems) {
        for (amp_dtype dtype : narrow_dtypes) {
            SCOPED_TRACE(std::string(p.name) + ", " + amp_dtype_name(dtype));
            const Scope scope;
            const Inputs in = inputs_of(p, dtype);
            agree(p, dtype, in);
        }
    }
}

// The fake GPUs 0 to 2 are of compute capability 9.0, 8.0 and 7.5; a module built for fewer runs less there.
TEST_F(CudaFlash, KernelsAreThoseOfTheGpu) {
    const int gpus[] = {90, 80, 75};
    std::string without;
    for (int device = 0; device < 3; device++) {
        ASSERT_EQ(amp_cuda_set_device(device), AMP_OK);
        const int capability = amp_cuda_loaded()->capability();
        if (capability != gpus[device]) without += " " + std::to_string(gpus[device]);
        for (const Problem &p : flash_problems) {
            if (p.keys != 129) continue;
            SCOPED_TRACE(std::string(p.name) + ", capability " + std::to_string(capability));
            const Scope scope;
            const Inputs in = inputs_of(p, AMP_F16);
            agree_by(kernel_of(p, AMP_F16, false, capability), p, AMP_F16, in, all_sent(in));
        }
    }
    EXPECT_EQ(amp_cuda_set_device(0), AMP_OK);
    if (!without.empty()) GTEST_SKIP() << "the rest passes; the module was not built for" << without;
}

// [batch, length, 3, heads, depth], as one projection leaves queries, keys and values.
TEST_F(CudaFlash, ReadsHeadsInsideOfRows) {
    for (const bool causal : {false, true}) {
        for (const int64_t depth : {64, 128}) {
            const Problem p = {"", 2, 3, 3, 70, 70, depth, depth, causal, {}};
            SCOPED_TRACE(std::to_string(depth) + (causal ? ", causal" : ""));
            const Scope scope;
            amp_tensor *all = random_tensor(AMP_BF16, {p.batch, p.rows, 3, p.heads, depth}, 5);
            const auto parts_of = [](amp_tensor *t) -> Inputs {
                const auto part = [&](int64_t i) { return op("transpose", {op("select", {t, 2, i}), 1, 2}); };
                return {part(0), part(1), part(2), nullptr};
            };
            agree_by(kernel_of(p, AMP_BF16, false), p, AMP_BF16, parts_of(all), parts_of(sent(all)));
        }
    }
}

TEST_F(CudaFlash, ValuesFarFromOne) {
    for (const Problem &p : flash_problems) {
        if (p.rows != 129) continue;
        for (amp_dtype dtype : narrow_dtypes) {
            SCOPED_TRACE(std::string(p.name) + ", " + amp_dtype_name(dtype));
            const Scope scope;
            const Inputs in = inputs_of(p, dtype);
            const auto times = [&](double queries, double keys, double values) -> Inputs {
                const auto by = [](amp_tensor *t, double x) { return op("mul", {t, amp_float(x)}); };
                return {by(in.q, queries), by(in.k, keys), by(in.v, values), nullptr};
            };
            agree(p, dtype, times(32, 32, 1024), 1024); // scores far apart
            agree(p, dtype, times(0x1p-8, 0x1p-8, 0x1p-4), 0x1p-4);
            agree(p, dtype, times(0x1p14, 0x1p14, 1)); // the greatest is known to some hundred only
        }
    }
}

TEST_F(CudaFlash, NaNAndInfinityStayInTheirRows) {
    const Problem problems[] = {{"", 1, 1, 1, 140, 140, 64, 64, false, {}},
                                {"causal", 1, 1, 1, 140, 140, 64, 64, true, {}}};
    for (const Problem &p : problems) {
        for (amp_dtype dtype : narrow_dtypes) {
            SCOPED_TRACE(std::string(p.name) + amp_dtype_name(dtype));
            const Scope scope;
            Inputs in = inputs_of(p, dtype);
            const auto fill = [](amp_tensor *t, int64_t row, double x) {
                op("fill_", {op("select", {t, 2, row}), amp_float(x)});
            };
            fill(in.q, 7, NAN);
            fill(in.q, 100, NAN);
            agree(p, dtype, in);
            // A score of infinity, of one sign or the other.
            fill(in.k, 70, 0);
            op("fill_", {op("narrow", {op("select", {in.k, 2, 70}), 2, 3, 1}), amp_float(INFINITY)});
            agree(p, dtype, in);
            fill(in.k, 90, NAN); // all rows, or if causal those from 90 on
            agree(p, dtype, in);
        }
    }
}

// Sums within f32, scores beyond it: as where they are computed one by one, infinity − infinity.
TEST_F(CudaFlash, ScoresBeyondF32AreNaN) {
    for (const bool masked : {false, true}) {
        const Scope scope;
        amp_tensor *x = sent(tensor(AMP_BF16, {1, 1, 1, 8}, std::vector<double>(8, 0x1p+62))); // a sum of 2^127
        std::vector<Named> options = {{"scale", 4.0}};
        if (masked) options.push_back({"attn_mask", sent(tensor(AMP_F32, {1, 1}, {0}))});
        amp_tensor *got = called(masked ? "\"flash_bf16_64_masked\"" : "\"flash_bf16_64\"", [&] {
            return op("scaled_dot_product_attention", {x, x, x}, options);
        });
        for (float y : values(got)) EXPECT_TRUE(std::isnan(y)) << y;
    }
}

// Of every dtype that comes, whole or broadcast over heads, rows or keys; with rows of which no key is left, and with
// the most negative number in the place of -infinity.
TEST_F(CudaFlash, Masks) {
    const Problem p = {"", 2, 2, 1, 40, 70, 64, 64, false, {}};
    for (const Shape &shape : {Shape{2, 2, 40, 70}, Shape{2, 1, 1, 70}, Shape{40, 1}, Shape{70}}) {
        for (amp_dtype dtype : narrow_dtypes) {
            SCOPED_TRACE(amp_dtype_name(dtype) + std::string(", a mask of ") + std::to_string(elements_of(shape)));
            const Scope scope;
            Inputs in = inputs_of(p, dtype);
            amp_tensor *numbers = random_tensor(AMP_F32, shape, 4), *few = op("gt", {numbers, amp_float(0.8)});
            for (amp_tensor *mask : {numbers, op("to", {numbers, dtype}), op("gt", {numbers, amp_float(0.0)}), few,
                                     op("masked_fill", {numbers, few, amp_float(-INFINITY)}),
                                     op("masked_fill", {numbers, few, amp_float(-0x1p+127)})}) {
                in.mask = mask;
                agree(p, dtype, in);
            }
        }
    }
}

// PyTorch adds -∞ to what a mask of bool hides: NaN and +∞ there become NaN, of every query.
TEST_F(CudaFlash, MasksHideNoNaN) {
    const Problem p = {"", 1, 1, 1, 40, 70, 64, 64, false, {}};
    Inputs in = inputs_of(p, AMP_F16);
    bool attends[70];
    for (int i = 0; i < 70; i++) attends[i] = i != 5;
    const int64_t shape[1] = {70};
    in.mask = amp_from_data(attends, AMP_BOOL, 1, shape);
    for (const char *kernel : {"\"flash_f16_64_masked\"", "\"attention_f32_64\""}) {
        const bool wide = strstr(kernel, "f32") != nullptr;
        const auto attend = [&] {
            const Inputs there = all_sent(in);
            const auto as = [&](amp_tensor *t) { return wide ? op("to", {t, AMP_F32}) : t; };
            return values(
                called(kernel, [&] { return attention(as(there.q), as(there.k), as(there.v), there.mask, p); }));
        };
        op("fill_", {op("select", {in.k, 2, 5}), amp_float(1)});
        for (float y : attend()) ASSERT_LE(std::abs(y), 1.0f);
        op("fill_", {op("select", {in.k, 2, 5}), amp_float(NAN)});
        for (float y : attend()) ASSERT_TRUE(std::isnan(y)) << y;
    }
}

// Another sign or zero would not keep the order of scores, in which the greatest is found.
TEST_F(CudaFlash, OtherScalesTakeTheOtherKernel) {
    const Problem p = {"", 1, 1, 1, 40, 70, 16, 16, false, {}};
    for (const double scale : {-0.5, 0.0, 0.5}) {
        const Scope scope;
        const Inputs in = inputs_of(p, AMP_F16);
        const auto attend = [&](amp_tensor *q, amp_tensor *k, amp_tensor *v) {
            return op("scaled_dot_product_attention", {q, k, v}, {{"scale", scale}});
        };
        amp_tensor *const there[] = {sent(in.q), sent(in.k), sent(in.v)};
        amp_tensor *got = called(scale > 0 ? "\"flash_f16_64\"" : "\"attention_f16_64\"",
                                 [&] { return attend(there[0], there[1], there[2]); });
        const auto wide = [](amp_tensor *t) { return op("to", {t, AMP_F32}); };
        expect_agree(op("to", {got, AMP_F32}), attend(wide(in.q), wide(in.k), wide(in.v)), tolerance_of(AMP_F16));
    }
}

} // namespace
