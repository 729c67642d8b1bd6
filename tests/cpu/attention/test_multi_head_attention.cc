// native_multi_head_attention against plain loops in f64: self and cross attention, every kind of mask, the weights.
#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;
enum { BATCH = 2, HEADS = 2, EMBED = 6, DEPTH = 3, ROWS = 4, KEYS = 5 };

struct MultiHead : amp_test::Test {
    Numbers out, weights; // expected; the weights averaged over heads

    struct Inputs {
        amp_tensor *query, *key, *value, *w, *bias, *proj, *proj_bias;
    };

    static Inputs inputs(amp_dtype dtype, bool self) {
        Inputs in = {};
        in.query = random_tensor(dtype, {BATCH, ROWS, EMBED}, 1);
        in.key = self ? in.query : random_tensor(dtype, {BATCH, KEYS, EMBED}, 2);
        in.value = self ? in.query : random_tensor(dtype, {BATCH, KEYS, EMBED}, 3);
        in.w = random_tensor(dtype, {3 * EMBED, EMBED}, 4);
        in.bias = random_tensor(dtype, {3 * EMBED}, 5);
        in.proj = random_tensor(dtype, {EMBED, EMBED}, 6);
        in.proj_bias = random_tensor(dtype, {EMBED}, 7);
        return in;
    }

    static Numbers linear(const Numbers &x, const Numbers &w, const Numbers &b, size_t first) {
        Numbers y;
        for (size_t r = 0; r < x.size() / EMBED; r++) {
            for (size_t o = first; o < first + EMBED; o++) {
                double sum = b[o];
                for (size_t i = 0; i < EMBED; i++) sum += x[r * EMBED + i] * w[o * EMBED + i];
                y.push_back(sum);
            }
        }
        return y;
    }

    // added(b, h, i, j): what the mask adds to a score.
    template <class Added>
    void expect(const Inputs &in, Added added) {
        const Numbers w = numbers_of(in.w), b = numbers_of(in.bias);
        const Numbers q = linear(numbers_of(in.query), w, b, 0), k = linear(numbers_of(in.key), w, b, EMBED),
                      v = linear(numbers_of(in.value), w, b, 2 * EMBED);
        const size_t keys = k.size() / EMBED / BATCH;
        Numbers joined(BATCH * ROWS * EMBED);
        weights.assign(BATCH * ROWS * keys, 0);
        for (size_t n = 0; n < BATCH; n++) {
            for (size_t h = 0; h < HEADS; h++) {
                for (size_t i = 0; i < ROWS; i++) {
                    Numbers s(keys);
                    double sum = 0;
                    for (size_t j = 0; j < keys; j++) {
                        double dot = 0;
                        for (size_t d = h * DEPTH; d < (h + 1) * DEPTH; d++) {
                            dot += q[(n * ROWS + i) * EMBED + d] * k[(n * keys + j) * EMBED + d];
                        }
                        sum += s[j] = std::exp(dot / std::sqrt(double(DEPTH)) + added(n, h, i, j));
                    }
                    for (size_t j = 0; j < keys; j++) {
                        const double p = sum == 0 ? 0 : s[j] / sum;
                        weights[(n * ROWS + i) * keys + j] += p / HEADS;
                        for (size_t d = h * DEPTH; d < (h + 1) * DEPTH; d++) {
                            joined[(n * ROWS + i) * EMBED + d] += p * v[(n * keys + j) * EMBED + d];
                        }
                    }
                }
            }
        }
        out = linear(joined, numbers_of(in.proj), numbers_of(in.proj_bias), 0);
    }

    static amp_status run(const Inputs &in, std::vector<amp_tensor *> *results, const std::vector<Named> &named = {}) {
        return call("native_multi_head_attention",
                    {in.query, in.key, in.value, EMBED, HEADS, in.w, in.bias, in.proj, in.proj_bias}, named, results);
    }

    void check(const Inputs &in, double tolerance, const std::vector<Named> &named = {}) {
        std::vector<amp_tensor *> results;
        ASSERT_EQ(run(in, &results, named), AMP_OK) << amp_last_error();
        compare(results[0], out, tolerance);
        compare(results[1], weights, tolerance);
    }

    static void compare(amp_tensor *got, const Numbers &want, double tolerance) {
        const Numbers numbers = numbers_of(got);
        ASSERT_EQ(numbers.size(), want.size());
        for (size_t i = 0; i < want.size(); i++) EXPECT_NEAR(numbers[i], want[i], tolerance) << i;
    }
};

const auto nothing = [](size_t, size_t, size_t, size_t) { return 0.0; };

} // namespace

TEST_F(MultiHead, SelfAndCrossAttention) {
    for (const bool self : {true, false}) {
        for (const amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
            const Inputs in = inputs(dtype, self);
            expect(in, nothing);
            check(in, dtype == AMP_F64 ? 1e-13 : dtype == AMP_F32 ? 2e-6 : dtype == AMP_BF16 ? 0.04 : 0.005);
        }
    }
}

TEST_F(MultiHead, MasksOfEveryKind) {
    const Inputs in = inputs(AMP_F64, false);
    amp_tensor *mask = tensor(AMP_BOOL, {ROWS, KEYS}, {0, 0, 1, 0, 1, 1, 0}); // true: left out
    const Numbers m = numbers_of(mask);
    expect(in, [&](size_t, size_t, size_t i, size_t j) { return m[i * KEYS + j] != 0 ? -INFINITY : 0; });
    check(in, 1e-13, {{"mask", mask}, {"mask_type", 0}});
    amp_tensor *padding = tensor(AMP_BOOL, {BATCH, KEYS}, {0, 0, 0, 1, 1, 0, 1, 0, 0, 0});
    const Numbers p = numbers_of(padding);
    expect(in, [&](size_t n, size_t, size_t, size_t j) { return p[n * KEYS + j] != 0 ? -INFINITY : 0; });
    check(in, 1e-13, {{"mask", padding}, {"mask_type", 1}});
    amp_tensor *general = random_tensor(AMP_F64, {BATCH, HEADS, ROWS, KEYS}, 9);
    const Numbers g = numbers_of(general);
    expect(in, [&](size_t n, size_t h, size_t i, size_t j) { return g[((n * HEADS + h) * ROWS + i) * KEYS + j]; });
    check(in, 1e-13, {{"mask", general}, {"mask_type", 2}});
}

TEST_F(MultiHead, ARowWithEveryKeyLeftOutIsTheBias) {
    const Inputs in = inputs(AMP_F64, true);
    amp_tensor *mask = tensor(AMP_BOOL, {ROWS, ROWS}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    expect(in, [](size_t, size_t, size_t i, size_t) { return i == 0 ? -INFINITY : 0; });
    check(in, 1e-13, {{"mask", mask}, {"mask_type", 0}});
}

TEST_F(MultiHead, WeightsByHeadOrNotAtAll) {
    const Inputs in = inputs(AMP_F32, true);
    std::vector<amp_tensor *> results;
    ASSERT_EQ(run(in, &results, {{"average_attn_weights", false}}), AMP_OK) << amp_last_error();
    ASSERT_EQ(amp_tensor_rank(results[1]), 4);
    for (double sum : numbers_of(op("sum", {results[1]}, {{"dim", AMP_DIMS(3)}}))) EXPECT_NEAR(sum, 1, 1e-6);
    ASSERT_EQ(run(in, &results, {{"need_weights", false}}), AMP_OK) << amp_last_error();
    EXPECT_TRUE(results.size() < 2 || results[1] == nullptr);
}

TEST_F(MultiHead, RunsInTheRegionsTypeWithWeightsPackedOnce) {
    const Inputs in = inputs(AMP_F32, true);
    const Region region;
    std::vector<amp_tensor *> results;
    ASSERT_EQ(run(in, &results), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(results[0]), AMP_BF16);
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    ASSERT_EQ(run(in, &results), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_cast_cache_statistics().misses, before.misses);
    EXPECT_EQ(amp_cast_cache_statistics().hits - before.hits, 4u);
}

TEST_F(MultiHead, BadInputIsToldWhatIsWrong) {
    Inputs in = inputs(AMP_F32, true);
    std::vector<amp_tensor *> results;
    in.key = tensor(AMP_F32, {BATCH, EMBED});
    EXPECT_NE(run(in, &results), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"native_multi_head_attention", "key is [2, 6]", "[batch, S, 6]"}));
    in = inputs(AMP_F32, true);
    in.w = in.proj;
    EXPECT_NE(run(in, &results), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'qkv_weight' is [6, 6]", "expected [18, 6]"}));
    in = inputs(AMP_F32, true);
    EXPECT_NE(run(in, &results, {{"mask", tensor(AMP_BOOL, {ROWS, ROWS})}}), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'mask_type' is missing"}));
    EXPECT_NE(run(in, &results, {{"mask", tensor(AMP_BOOL, {ROWS, 3})}, {"mask_type", 0}}), AMP_OK);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'mask' is [4, 3] bool", "expected [4, 4]"}));
    EXPECT_EQ(
        op("native_multi_head_attention", {in.query, in.key, in.value, EMBED, 4, in.w, in.bias, in.proj, in.proj_bias}),
        nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"'embed_dim' is 6, 'num_head' is 4"}));
}
