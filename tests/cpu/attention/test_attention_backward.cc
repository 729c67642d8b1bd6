// Gradients of attention by kernels: beside f64 on every instruction set, edges, layouts, threads, memory that ends, bad input.
#include "backward_ops.h"

using namespace amp_test;
using namespace backward_ops;

namespace {

class AttentionBackward : public Test {};

const char *const NAME = "scaled_dot_product_attention_backward";

struct Problem {
    Shape q, k, v;
    Shape mask = {};
    amp_dtype mask_dtype = AMP_F32;
    bool causal = false, gqa = false;
};

Shape result_of(const Problem &p) {
    Shape shape = p.q;
    shape.back() = p.v.back();
    return shape;
}

amp_tensor *mask_of(const Problem &p) {
    if (p.mask.empty()) return nullptr;
    amp_tensor *m = random_tensor(AMP_F32, p.mask, 5);
    return p.mask_dtype == AMP_BOOL ? op("gt", {m, -0.4}) : op("mul", {m, 3.0});
}

Tensors gradients(const Tensors &t, amp_tensor *mask, const Problem &p) {
    return results(NAME, {t[0], t[1], t[2], t[3], mask}, {{"is_causal", p.causal}, {"enable_gqa", p.gqa}});
}

Tensors inputs_of(amp_dtype dtype, const Problem &p) {
    Tensors t = {random_tensor(dtype, result_of(p), 1), random_tensor(dtype, p.q, 2), random_tensor(dtype, p.k, 3),
                 random_tensor(dtype, p.v, 4)};
    t[1] = op("mul", {t[1], 3.0}); // weights that differ
    return t;
}

Tensors wide_of(const Tensors &t) {
    Tensors all;
    for (amp_tensor *x : t) all.push_back(wide(x));
    return all;
}

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F32 ? 4e-6 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-6;
}

// All but the empty one of the mask.
Tensors first_three(Tensors t) {
    t.resize(std::min<size_t>(t.size(), 3));
    return t;
}

void expect_as_in_f64(const Problem &p) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F16}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        const Tensors t = inputs_of(dtype, p);
        amp_tensor *mask = mask_of(p);
        const Tensors want =
            first_three(gradients(wide_of(t), mask && amp_tensor_dtype(mask) != AMP_BOOL ? wide(mask) : mask, p));
        ASSERT_EQ(want.size(), 3u) << amp_last_error();
        const Tensors got = first_three(gradients(t, mask, p));
        ASSERT_EQ(got.size(), 3u) << amp_last_error();
        for (size_t i = 0; i < 3; i++) EXPECT_EQ(amp_tensor_dtype(got[i]), dtype);
        expect_close(got, want, tolerance_of(dtype));
    }
}

const std::vector<Problem> problems = {
    {{1, 1}, {1, 1}, {1, 1}},
    {{2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 4}},
    {{3, 64, 32}, {3, 64, 32}, {3, 64, 32}, {}, AMP_F32, true},
    {{2, 65, 17}, {2, 97, 17}, {2, 97, 33}},
    {{2, 130, 40}, {2, 129, 40}, {2, 129, 40}, {}, AMP_F32, true},
    {{1, 2, 66, 16}, {1, 2, 70, 16}, {1, 2, 70, 16}, {66, 70}},
    {{2, 2, 9, 16}, {2, 2, 70, 16}, {2, 2, 70, 16}, {2, 1, 1, 70}, AMP_BOOL},
    {{2, 4, 20, 8}, {2, 2, 20, 8}, {2, 2, 20, 8}, {}, AMP_F32, true, true},
    {{2, 4, 20, 8}, {1, 4, 11, 8}, {4, 11, 6}},             // a batch that shares keys and values
    {{2, 4, 20, 8}, {2, 1, 11, 8}, {2, 1, 11, 6}, {20, 1}}, // heads that do
    {{70, 3}, {300, 3}, {300, 5}},
};

TEST_F(AttentionBackward, IsThatOfF64OnEveryInstructionSet) {
    on_every_isa([] {
        for (size_t i = 0; i < problems.size(); i++) {
            SCOPED_TRACE("problem " + std::to_string(i));
            const Scope scope;
            ASSERT_NO_FATAL_FAILURE(expect_as_in_f64(problems[i]));
        }
    });
}

TEST_F(AttentionBackward, MoreKeysThanAStripHas) {
    const int64_t keys = AMP_ATTENTION_STRIP + 70;
    expect_as_in_f64({{3, 4}, {keys, 4}, {keys, 3}});
    expect_as_in_f64({{3, 4}, {2 * keys, 4}, {2 * keys, 3}, {3, 2 * keys}});
}

TEST_F(AttentionBackward, ARowThatSeesNothingHasAndGivesNothing) {
    const Problem p = {{3, 4}, {5, 4}, {5, 6}};
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        const Tensors t = inputs_of(dtype, p);
        amp_tensor *mask = tensor(AMP_BOOL, {3, 5}, {0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0});
        const Tensors got = first_three(gradients(t, mask, p));
        const std::vector<double> by_query = numbers_of(got[0]);
        for (size_t i : {0, 1, 2, 3, 8, 9, 10, 11}) EXPECT_EQ(by_query[i], 0) << i;
        expect_close(got, first_three(gradients(wide_of(t), mask, p)), tolerance_of(dtype));
    }
}

TEST_F(AttentionBackward, NothingGivesNothing) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F64}) {
        const Problem no_rows = {{2, 0, 4}, {2, 3, 4}, {2, 3, 4}}, no_keys = {{2, 3, 4}, {2, 0, 4}, {2, 0, 4}};
        Tensors got = first_three(gradients(inputs_of(dtype, no_rows), nullptr, no_rows));
        ASSERT_EQ(got.size(), 3u) << amp_last_error();
        expect_near(got[1], std::vector<double>(24, 0.0), 0);
        expect_near(got[2], std::vector<double>(24, 0.0), 0);
        got = first_three(gradients(inputs_of(dtype, no_keys), nullptr, no_keys));
        ASSERT_EQ(got.size(), 3u) << amp_last_error();
        expect_near(got[0], std::vector<double>(24, 0.0), 0);
    }
}

TEST_F(AttentionBackward, NaNReachesWhatItMust) {
    const Problem p = {{2, 4}, {3, 4}, {3, 4}};
    Tensors t = inputs_of(AMP_F32, p);
    t[1] = tensor(AMP_F32, {2, 4}, {NAN, 1, 1, 1, 1, 1, 1, 1});
    const Tensors got = first_three(gradients(t, nullptr, p));
    const std::vector<double> by_query = numbers_of(got[0]);
    EXPECT_TRUE(std::isnan(by_query[0]));
    EXPECT_FALSE(std::isnan(by_query[4])) << "the other row";
    EXPECT_TRUE(std::isnan(numbers_of(got[1])[0]));
}

// A key that no query sees because its scores are −inf: whatever number of rows fills no vector.
TEST_F(AttentionBackward, AnInfiniteKeyStaysWithTheRowsThatAreThere) {
    on_every_isa([] {
        for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
            for (int64_t rows : {1, 7, 8, 9, 15, 16, 17}) {
                SCOPED_TRACE(amp_dtype_name(dtype) + (" " + std::to_string(rows)));
                const Scope scope;
                const Problem p = {{rows, 4}, {5, 4}, {5, 4}};
                Tensors t = inputs_of(dtype, p);
                t[1] = op("add", {op("abs", {t[1]}), 0.5});
                ASSERT_NE(op("fill_", {op("select", {t[2], 0, 2}), -INFINITY}), nullptr) << amp_last_error();
                const Tensors got = first_three(gradients(t, nullptr, p));
                const Tensors want = first_three(gradients(wide_of(t), nullptr, p));
                ASSERT_EQ(got.size(), 3u) << amp_last_error();
                for (double x : numbers_of(want[2])) ASSERT_TRUE(std::isfinite(x));
                expect_close({got[1], got[2]}, {want[1], want[2]}, tolerance_of(dtype));
            }
        }
    });
}

// [batch, rows, heads, depth] in memory, rows that lie apart, and depth that is not innermost.
TEST_F(AttentionBackward, LayoutsGiveTheSameBits) {
    const Problem p = {{2, 3, 20, 8}, {2, 3, 25, 8}, {2, 3, 25, 8}};
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        const Tensors t = inputs_of(dtype, p);
        const auto want = numbers(first_three(gradients(t, nullptr, p)));
        Tensors by_rows, apart, turned;
        for (amp_tensor *x : t) {
            by_rows.push_back(op("transpose", {op("contiguous", {op("transpose", {x, 1, 2})}), 1, 2}));
            apart.push_back(op("narrow", {op("cat", {Tensors{x, x}, 3}), 3, 8, 8}));
            turned.push_back(op("transpose", {op("contiguous", {op("transpose", {x, 2, 3})}), 2, 3}));
        }
        EXPECT_EQ(numbers(first_three(gradients(by_rows, nullptr, p))), want);
        EXPECT_EQ(numbers(first_three(gradients(apart, nullptr, p))), want);
        EXPECT_EQ(numbers(first_three(gradients(turned, nullptr, p))), want);
    }
}

TEST_F(AttentionBackward, AGradientOfOneNumberIsTakenAsItIs) {
    const Problem p = {{2, 3, 20, 8}, {2, 3, 25, 8}, {2, 3, 25, 8}};
    Tensors t = inputs_of(AMP_F32, p);
    t[0] = op("expand", {tensor(AMP_F32, {1}, {0.5}), AMP_DIMS(2, 3, 20, 8)});
    const auto got = numbers(first_three(gradients(t, nullptr, p)));
    t[0] = op("contiguous", {t[0]});
    EXPECT_EQ(numbers(first_three(gradients(t, nullptr, p))), got);
}

TEST_F(AttentionBackward, ThreadsDoNotChangeTheResult) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        const Problem p = {{3, 8, 130, 32}, {3, 4, 150, 32}, {3, 4, 150, 32}, {}, AMP_F32, true, true};
        const Tensors t = inputs_of(dtype, p);
        expect_same_with_threads([&] { return first_three(gradients(t, nullptr, p)); });
    }
}

TEST_F(AttentionBackward, MemoryMayEndAnywhere) {
    const Problem p = {{2, 2, 9, 4}, {2, 1, 7, 4}, {2, 1, 7, 4}, {9, 7}};
    const Tensors t = inputs_of(AMP_F16, p);
    amp_tensor *mask = mask_of(p);
    expect_to_survive_refusals([&] { return first_three(gradients(t, mask, p)); });
}

TEST_F(AttentionBackward, TheMasksOwn) {
    const Problem p = {{2, 5, 4}, {2, 7, 4}, {2, 7, 3}, {1, 7}};
    const Tensors t = inputs_of(AMP_F32, p);
    amp_tensor *mask = mask_of(p);
    const Tensors got = results(NAME, {t[0], t[1], t[2], t[3], mask}, {{"with_mask", true}});
    ASSERT_EQ(got.size(), 4u) << amp_last_error();
    EXPECT_EQ(amp_tensor_numel(got[3]), 7);
    expect_close(first_three(got), first_three(gradients(t, mask, p)), 1e-6);
    EXPECT_EQ(amp_tensor_numel(results(NAME, {t[0], t[1], t[2], t[3], mask})[3]), 0);
}

TEST_F(AttentionBackward, BadInputIsTold) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 3, 4}, 1), *other = random_tensor(AMP_F32, {2, 3, 5}, 1);
    EXPECT_TRUE(results(NAME, {other, x, x, x}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {NAME, "grad_output", "[2, 3, 5] f32"}));
    EXPECT_TRUE(results(NAME, {x, x, other, x}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {NAME, "key is [2, 3, 5] f32"}));
    EXPECT_TRUE(results(NAME, {op("to", {x, AMP_I32}), x, x, x}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {NAME, "grad_output", "floating"}));
    EXPECT_TRUE(results(NAME, {x, x, x, x}, {{"with_mask", true}}).empty());
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {NAME, "with_mask", "absent"}));
}

} // namespace
