// scaled_dot_product_attention against f64: shapes, masks, causality, shared heads, broadcasting, strides, hidden rows,
// NaN, threads, what bad input is told. The kernels of every instruction set: test_attention_kernels.cc.
#include "amp_test.h"

using namespace amp_test;

namespace {

class Attention : public Test {};

struct Problem {
    int64_t batch, heads, key_heads, rows, keys, depth, width;
    bool causal;
    double scale; // 0: the default
};

// q, k, v dense [batch, heads, …]; mask [batch or 1, heads or 1, rows or 1, keys], added; empty: none.
std::vector<double> reference(const Problem &p, const std::vector<double> &q, const std::vector<double> &k,
                              const std::vector<double> &v, const std::vector<double> &mask, const Shape &mask_shape) {
    std::vector<double> out;
    const double scale = p.scale != 0 ? p.scale : 1 / std::sqrt(double(p.depth));
    for (int64_t head = 0; head < p.batch * p.heads; head++) {
        const int64_t b = head / p.heads, h = head % p.heads, kv = b * p.key_heads + h * p.key_heads / p.heads;
        for (int64_t i = 0; i < p.rows; i++) {
            std::vector<double> s(size_t(p.keys));
            double max = -INFINITY, sum = 0;
            for (int64_t j = 0; j < p.keys; j++) {
                double x = 0;
                for (int64_t d = 0; d < p.depth; d++) {
                    x += q[size_t((head * p.rows + i) * p.depth + d)] * k[size_t((kv * p.keys + j) * p.depth + d)];
                }
                x *= scale;
                if (!mask.empty()) {
                    const int64_t mb = mask_shape[0] == 1 ? 0 : b, mh = mask_shape[1] == 1 ? 0 : h;
                    const int64_t mi = mask_shape[2] == 1 ? 0 : i;
                    x += mask[size_t(((mb * mask_shape[1] + mh) * mask_shape[2] + mi) * p.keys + j)];
                }
                if (p.causal && j > i) x = -INFINITY;
                s[size_t(j)] = x;
                max = std::max(max, x);
            }
            for (double &x : s) sum += x = max == -INFINITY ? 0 : std::exp(x - max);
            for (int64_t e = 0; e < p.width; e++) {
                double y = 0;
                for (int64_t j = 0; j < p.keys; j++) y += s[size_t(j)] * v[size_t((kv * p.keys + j) * p.width + e)];
                out.push_back(sum == 0 ? 0 : y / sum);
            }
        }
    }
    return out;
}

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F64 ? 1e-14 : dtype == AMP_F32 ? 2e-6 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-7;
}

void expect_close(const amp_tensor *got, const std::vector<double> &want, double tolerance, const std::string &what) {
    ASSERT_NE(got, nullptr) << what << ": " << amp_last_error();
    const std::vector<double> g = numbers_of(got);
    ASSERT_EQ(g.size(), want.size()) << what;
    for (size_t i = 0; i < g.size(); i++) ASSERT_NEAR(g[i], want[i], tolerance) << what << ", element " << i;
}

std::string describe(const Problem &p, amp_dtype dtype) {
    return std::string(amp_dtype_name(dtype)) + " " + std::to_string(p.rows) + "x" + std::to_string(p.keys) + " D " +
           std::to_string(p.depth) + " E " + std::to_string(p.width) + (p.causal ? " causal" : "");
}

// In every dtype, without a mask and with a bool and a float one of each kind of shape.
void check(const Problem &p, const std::vector<amp_dtype> &dtypes = {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
    for (amp_dtype dtype : dtypes) {
        const Scope inner;
        amp_tensor *q = random_tensor(dtype, {p.batch, p.heads, p.rows, p.depth}, 1);
        amp_tensor *k = random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.depth}, 2);
        amp_tensor *v = random_tensor(dtype, {p.batch, p.key_heads, p.keys, p.width}, 3);
        std::vector<Named> named = {{"is_causal", p.causal}, {"enable_gqa", p.heads != p.key_heads}};
        if (p.scale != 0) named.push_back({"scale", p.scale});
        const std::vector<double> qs = numbers_of(q), ks = numbers_of(k), vs = numbers_of(v);
        expect_close(op("scaled_dot_product_attention", {q, k, v}, named), reference(p, qs, ks, vs, {}, {}),
                     tolerance_of(dtype), describe(p, dtype));
        if (p.causal) continue;
        for (const Shape &shape :
             {Shape{1, 1, p.rows, p.keys}, Shape{p.batch, 1, 1, p.keys}, Shape{p.batch, p.heads, p.rows, p.keys}}) {
            amp_tensor *added = random_tensor(dtype, shape, 4), *kept = op("gt", {added, -0.3});
            std::vector<double> hidden = numbers_of(kept);
            for (double &x : hidden) x = x != 0 ? 0 : -INFINITY;
            named.erase(named.begin() + (p.scale != 0 ? 3 : 2), named.end());
            named.push_back({"attn_mask", added});
            expect_close(op("scaled_dot_product_attention", {q, k, v}, named),
                         reference(p, qs, ks, vs, numbers_of(added), shape), tolerance_of(dtype),
                         describe(p, dtype) + " added");
            named.back() = {"attn_mask", kept};
            expect_close(op("scaled_dot_product_attention", {q, k, v}, named), reference(p, qs, ks, vs, hidden, shape),
                         tolerance_of(dtype), describe(p, dtype) + " kept");
        }
    }
}

TEST_F(Attention, MatchesF64) {
    for (const Problem &p : {Problem{1, 1, 1, 1, 1, 1, 1, false, 0}, Problem{2, 3, 3, 5, 7, 8, 8, false, 0},
                             Problem{2, 2, 2, 32, 32, 32, 32, false, 0}, Problem{1, 2, 2, 9, 65, 33, 17, false, 0.3},
                             Problem{1, 1, 1, 3, 700, 64, 64, false, 0}, Problem{1, 2, 1, 4, 257, 16, 100, false, 2},
                             Problem{1, 4, 2, 6, 6, 16, 16, false, 0}, Problem{2, 8, 2, 1, 34, 16, 16, false, 0},
                             Problem{1, 1, 1, 70, 70, 16, 16, true, 0}, Problem{1, 2, 2, 3, 9, 8, 8, true, 0},
                             Problem{1, 1, 1, 9, 3, 8, 8, true, 0}, Problem{1, 1, 1, 600, 40, 4, 6, true, 0}}) {
        check(p);
    }
}

// The model's own layout: heads side by side in each row, no copies.
TEST_F(Attention, HeadsInterleavedInRows) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        auto heads = [&](int seed) {
            amp_tensor *x = op("view", {random_tensor(dtype, {2, 33, 96}, uint64_t(seed)), AMP_DIMS(2, 33, 3, 32)});
            return op("transpose", {x, 1, 2});
        };
        amp_tensor *q = heads(5), *k = heads(6), *v = heads(7), *y = op("scaled_dot_product_attention", {q, k, v});
        const Problem p = {2, 3, 3, 33, 33, 32, 32, false, 0};
        expect_close(y, reference(p, numbers_of(q), numbers_of(k), numbers_of(v), {}, {}), tolerance_of(dtype),
                     "interleaved");
        amp_tensor *joined = op("transpose", {y, 1, 2});
        EXPECT_TRUE(amp_tensor_is_contiguous(joined)) << "joining the heads would copy";
    }
}

TEST_F(Attention, DenseRowsAreNotNeeded) {
    amp_tensor *q = op("transpose", {random_tensor(AMP_F32, {8, 5}, 8), 0, 1}), *k = random_tensor(AMP_F32, {7, 8}, 9);
    amp_tensor *v = op("slice", {random_tensor(AMP_F32, {7, 12}, 10), 1, 0, 12, 3});
    const Problem p = {1, 1, 1, 5, 7, 8, 4, false, 0};
    expect_close(op("scaled_dot_product_attention", {q, k, v}),
                 reference(p, numbers_of(q), numbers_of(k), numbers_of(v), {}, {}), 2e-6, "strided");
}

TEST_F(Attention, LeadingDimensionsBroadcast) {
    amp_tensor *q = random_tensor(AMP_F32, {3, 5, 8}, 11), *k = random_tensor(AMP_F32, {2, 1, 6, 8}, 12);
    amp_tensor *v = random_tensor(AMP_F32, {2, 3, 6, 8}, 13);
    amp_tensor *y = op("scaled_dot_product_attention", {q, k, v});
    amp_tensor *full =
        op("scaled_dot_product_attention", {op("contiguous", {op("expand", {q, AMP_DIMS(2, 3, 5, 8)})}),
                                            op("contiguous", {op("expand", {k, AMP_DIMS(2, 3, 6, 8)})}), v});
    EXPECT_EQ(amp_tensor_rank(y), 4);
    EXPECT_EQ(numbers_of(y), numbers_of(full));
}

TEST_F(Attention, RowWithEveryKeyHiddenIsZero) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {2, 4}, 14), *hidden = tensor(AMP_BOOL, {2, 2}, {0, 0, 1, 0});
        const std::vector<double> y = numbers_of(op("scaled_dot_product_attention", {x, x, x, hidden})),
                                  v = numbers_of(x);
        for (size_t i = 0; i < 4; i++) {
            EXPECT_EQ(y[i], 0);
            EXPECT_EQ(y[4 + i], v[i]);
        }
        amp_tensor *added = tensor(dtype, {2, 2}, {-INFINITY});
        for (double z : numbers_of(op("scaled_dot_product_attention", {x, x, x, added}))) EXPECT_EQ(z, 0);
    }
}

TEST_F(Attention, NanInAQueryStaysInItsRow) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *q = op("to", {random_tensor(AMP_F32, {6, 8}, 15), dtype}, {{"copy", true}});
        amp_tensor *k = random_tensor(dtype, {40, 8}, 16);
        amp_tensor *bad =
            op("where", {op("eq", {op("arange", {6}), 2}), tensor(dtype, {}, {INFINITY}), tensor(dtype, {}, {1})});
        q = op("mul", {op("mul", {q, op("unsqueeze", {bad, 1})}), 1.0});
        q = op("where", {op("isinf", {q}), op("mul", {q, 0.0}), q}); // inf · 0 = NaN in row 2
        const std::vector<double> y = numbers_of(op("scaled_dot_product_attention", {q, k, k}));
        ASSERT_EQ(y.size(), 48u) << amp_last_error();
        for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isnan(y[i]), i / 8 == 2) << amp_dtype_name(dtype) << i;
    }
}

// Depths that the AMX kernel takes, around the sizes of its tiles and blocks; elsewhere the next kernel runs.
TEST_F(Attention, TilesMatchF64) {
    const std::vector<amp_dtype> narrow = {AMP_BF16};
    for (int64_t rows : {4, 16, 17, 32, 33}) {
        for (int64_t keys : {1, 31, 32, 65, 257}) check(Problem{1, 2, 1, rows, keys, 32, 33, false, 0}, narrow);
    }
    for (int64_t depth : {64, 96}) check(Problem{1, 1, 1, 40, 300, depth, 80, false, 0}, narrow);
    for (int64_t rows : {5, 40, 290}) check(Problem{1, 1, 1, rows, 290, 32, 64, true, 0}, narrow);
}

TEST_F(Attention, TilesKeepNanInItsRow) {
    std::vector<double> numbers(40 * 32, 0.25);
    numbers[7 * 32 + 3] = NAN;
    amp_tensor *q = op("to", {tensor(AMP_F32, {40, 32}, numbers), AMP_BF16}),
               *k = random_tensor(AMP_BF16, {77, 32}, 41);
    const std::vector<double> y = numbers_of(op("scaled_dot_product_attention", {q, k, k}));
    ASSERT_EQ(y.size(), numbers.size()) << amp_last_error();
    for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isnan(y[i]), i / 32 == 7) << i;
}

// Few rows: keys in parts, read where they lie; heads that share keys as rows of one problem.
TEST_F(Attention, DecodingMatchesF64) {
    for (int64_t rows : {1, 3, 8}) {
        for (int64_t keys : {1, 1025}) {
            check(Problem{1, 2, 2, rows, keys, 33, 65, false, 0});
            check(Problem{2, 1, 1, rows, keys, 8, 3, true, 0});
        }
    }
    for (int64_t heads : {2, 3}) check(Problem{2, 2 * heads, 2, 1, 1100, 64, 128, false, 0});
}

TEST_F(Attention, DecodingWithAPartHiddenOrAllOfIt) {
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *q = random_tensor(dtype, {4, 1, 16}, 31), *k = random_tensor(dtype, {2, 2100, 16}, 32);
        std::vector<double> shown(4 * 2100, 0);
        for (size_t j = 1500; j < 1600; j++)
            shown[2100 + j] = 1; // head 1 sees keys of the second part alone, the others none
        amp_tensor *mask = tensor(AMP_BOOL, {4, 1, 2100}, shown);
        const std::vector<double> y =
            numbers_of(op("scaled_dot_product_attention", {q, k, k, mask}, {{"enable_gqa", true}}));
        ASSERT_EQ(y.size(), 64u) << amp_last_error();
        amp_tensor *part = op("narrow", {op("narrow", {k, 0, 0, 1}), 1, 1500, 100});
        const std::vector<double> seen =
            numbers_of(op("scaled_dot_product_attention", {op("narrow", {q, 0, 1, 1}), part, part}));
        for (size_t i = 0; i < 64; i++) {
            if (i / 16 == 1)
                EXPECT_NEAR(y[i], seen[i - 16], dtype == AMP_F32 ? 1e-6 : 0.004);
            else
                EXPECT_EQ(y[i], 0);
        }
    }
}

TEST_F(Attention, NoKeysAndNoRows) {
    amp_tensor *q = tensor(AMP_F32, {2, 4}), *none = tensor(AMP_F32, {0, 4});
    EXPECT_EQ(numbers_of(op("scaled_dot_product_attention", {q, none, none})), std::vector<double>(8, 0.0));
    EXPECT_EQ(amp_tensor_numel(op("scaled_dot_product_attention", {none, q, q})), 0);
}

TEST_F(Attention, ThreadsDoNotChangeABit) {
    const int before = amp_get_num_threads();
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        amp_tensor *q = random_tensor(dtype, {2, 3, 600, 32}, 17), *k = random_tensor(dtype, {2, 3, 100, 32}, 18);
        std::vector<std::vector<double>> results;
        for (int threads : {1, 2, 5}) {
            ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
            results.push_back(numbers_of(op("scaled_dot_product_attention", {q, k, k})));
        }
        EXPECT_EQ(results[0], results[1]);
        EXPECT_EQ(results[0], results[2]);
        q = random_tensor(dtype, {2, 12, 1, 64}, 17), k = random_tensor(dtype, {2, 3, 5000, 64}, 18);
        results.clear();
        for (int threads : {1, 2, 5}) {
            ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
            results.push_back(numbers_of(op("scaled_dot_product_attention", {q, k, k}, {{"enable_gqa", true}})));
        }
        EXPECT_EQ(results[0], results[1]);
        EXPECT_EQ(results[0], results[2]);
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

TEST_F(Attention, RunsInTheRegionsType) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 8, 16}, 19);
    const Region region;
    EXPECT_EQ(amp_tensor_dtype(op("scaled_dot_product_attention", {x, x, x})), AMP_BF16);
}

TEST_F(Attention, BadInputIsToldWhatIsWrong) {
    amp_tensor *x = tensor(AMP_F32, {2, 4, 8}), *y = tensor(AMP_F32, {2, 4, 7});
    const char *name = "scaled_dot_product_attention";
    EXPECT_EQ(op(name, {x, y, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "[2, 4, 8]", "[2, 4, 7]", "[..., S, D]"}));
    EXPECT_EQ(op(name, {x, op("to", {x, AMP_BF16}), x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {name, "query", "f32", "key", "bf16"}));
    EXPECT_EQ(op(name, {x, x, x}, {{"dropout_p", 0.5}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_NOT_IMPLEMENTED, {name, "dropout_p", "0.5"}));
    EXPECT_EQ(op(name, {x, x, x, tensor(AMP_BOOL, {4, 4})}, {{"is_causal", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "attn_mask", "is_causal"}));
    EXPECT_EQ(op(name, {x, x, x, tensor(AMP_BOOL, {4, 5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "attn_mask", "[4, 5]", "[2, 4, 4]"}));
    EXPECT_EQ(op(name, {x, x, x, tensor(AMP_I32, {4, 4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {name, "attn_mask", "i32"}));
    EXPECT_EQ(op(name, {tensor(AMP_F32, {1, 4, 8, 8}), tensor(AMP_F32, {1, 3, 8, 8}), tensor(AMP_F32, {1, 3, 8, 8})},
                 {{"enable_gqa", true}}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "multiple"}));
    EXPECT_EQ(op(name, {tensor(AMP_F32, {8}), x, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "query", "[8]"}));
}

} // namespace
