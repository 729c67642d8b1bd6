// cdist, pdist, dist, cosine_similarity, renorm, local_response_norm, and the losses of pairs and triples: values
// against f64, layouts, special values, what bad input is told.
#include <functional>

#include "amp_test.h"

using namespace amp_test;

namespace {

class Distances : public Test {};
class PairLosses : public Test {};
class Renorm : public Test {};

double norm(const std::vector<double> &d, double p) {
    double sum = 0, largest = 0;
    for (double x : d) {
        sum += p == 0 ? double(x != 0) : std::pow(std::fabs(x), p);
        largest = std::max(largest, std::fabs(x));
    }
    return std::isinf(p) ? largest : p == 0 ? sum : std::pow(sum, 1 / p);
}

double distance(const std::vector<double> &a, size_t i, const std::vector<double> &b, size_t j, size_t depth, double p,
                double eps = 0) {
    std::vector<double> d;
    for (size_t k = 0; k < depth; k++) d.push_back(a[i * depth + k] - b[j * depth + k] + eps);
    return norm(d, p);
}

const double norms[] = {0, 0.5, 1, 2, 3, 10, INFINITY};

TEST_F(Distances, CdistMatchesF64) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        for (int64_t depth : {0, 1, 3, 70}) {
            for (int64_t n : {1, 17, 130}) {
                amp_tensor *x = random_tensor(dtype, {9, depth}, 1), *y = random_tensor(dtype, {n, depth}, 2);
                const std::vector<double> xs = numbers_of(x), ys = numbers_of(y);
                for (double p : norms) {
                    SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " p " + std::to_string(p) + " n " +
                                 std::to_string(n));
                    std::vector<double> want;
                    for (size_t i = 0; i < 9; i++)
                        for (size_t j = 0; j < size_t(n); j++) want.push_back(distance(xs, i, ys, j, size_t(depth), p));
                    expect_near(op("cdist", {x, y, p}), want,
                                dtype == AMP_F64   ? 1e-13
                                : dtype == AMP_F32 ? 1e-6
                                                   : 0x1p-8);
                }
            }
        }
    }
}

TEST_F(Distances, ClosePointsKeepTheirDigits) {
    amp_tensor *x = tensor(AMP_F32, {30, 2}, {1000, 2000}), *y = tensor(AMP_F32, {30, 2}, {1000.0625, 2000});
    for (double d : numbers_of(op("cdist", {x, y}))) EXPECT_EQ(d, 0.0625);
}

TEST_F(Distances, CdistBroadcastsBatches) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 1, 3, 5}, 3), *y = random_tensor(AMP_F32, {4, 6, 5}, 4);
    const std::vector<double> xs = numbers_of(x), ys = numbers_of(y);
    amp_tensor *got = op("cdist", {x, y});
    std::vector<double> want;
    for (size_t i = 0; i < 2 * 4 * 3 * 6; i++) {
        want.push_back(distance(xs, i / 72 * 3 + i / 6 % 3, ys, i / 18 % 4 * 6 + i % 6, 5, 2));
    }
    expect_near(got, want, 1e-6);
    EXPECT_EQ(amp_tensor_rank(got), 4);
    amp_tensor *turned = op("transpose", {op("contiguous", {op("transpose", {y, 1, 2})}), 1, 2});
    expect_near(op("cdist", {x, turned}), want, 1e-6);
}

TEST_F(Distances, NanIsInEveryDistanceOfItsPoint) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {1, NAN, 3, 4}), *y = tensor(AMP_F32, {1, 2}, {0, 0});
    for (double p : {1.0, 2.0, 3.0, double(INFINITY)}) {
        const std::vector<double> got = numbers_of(op("cdist", {x, y, p}));
        EXPECT_TRUE(std::isnan(got[0])) << p;
        EXPECT_FALSE(std::isnan(got[1])) << p;
    }
}

TEST_F(Distances, PairwiseIsTheNormOfTheDifference) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16, AMP_F16}) {
        amp_tensor *x = random_tensor(dtype, {6, 7}, 5), *y = random_tensor(dtype, {1, 7}, 6);
        const std::vector<double> xs = numbers_of(x), ys = numbers_of(y);
        const double tolerance = dtype == AMP_F64   ? 1e-13
                                 : dtype == AMP_F32 ? 1e-6
                                 : dtype == AMP_F16 ? 0x1p-9
                                                    : 0x1p-6;
        for (double p : norms) {
            std::vector<double> moved = xs, want;
            for (double &v : moved) v += 0.5;
            for (size_t i = 0; i < 6; i++) want.push_back(distance(moved, i, ys, 0, 7, p));
            amp_tensor *d = op("pairwise_distance", {x, y, p, 0.5});
            EXPECT_EQ(amp_tensor_dtype(d), dtype);
            expect_near(d, want, tolerance);
        }
    }
    EXPECT_EQ(amp_tensor_rank(
                  op("pairwise_distance", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {2, 3})}, {{"keepdim", true}})),
              2);
    const int64_t shape[] = {2, 3}; // integers give f32
    const int32_t whole[] = {1, 2, 3, 4, 5, 6}, others[] = {1, 2, 5, 1, 1, 1};
    amp_tensor *d =
        op("pairwise_distance", {amp_from_data(whole, AMP_I32, 2, shape), amp_from_data(others, AMP_I32, 2, shape)});
    EXPECT_EQ(amp_tensor_dtype(d), AMP_F32);
    expect_near(d, {2, std::sqrt(50.0)}, 1e-5);
    EXPECT_EQ(op("pairwise_distance", {tensor(AMP_F32, {2, 3}), tensor(AMP_F32, {2, 4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"pairwise_distance", "[2, 3]", "[2, 4]"}));
    EXPECT_EQ(op("pairwise_distance", {tensor(AMP_F32, {2, 3}), tensor(AMP_BOOL, {2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"pairwise_distance", "'x2' is [2, 3] bool"}));
}

TEST_F(Distances, PdistIsTheUpperTriangle) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32}) {
        for (int64_t n : {0, 1, 2, 40}) {
            amp_tensor *x = random_tensor(dtype, {n, 7}, 5);
            const std::vector<double> xs = numbers_of(x);
            for (double p : norms) {
                std::vector<double> want;
                for (size_t i = 0; i < size_t(n); i++)
                    for (size_t j = i + 1; j < size_t(n); j++) want.push_back(distance(xs, i, xs, j, 7, p));
                expect_near(op("pdist", {x, p}), want, dtype == AMP_F64 ? 1e-13 : 1e-6);
            }
        }
    }
}

TEST_F(Distances, DistIsTheNormOfTheDifference) {
    amp_tensor *x = random_tensor(AMP_F32, {4, 5}, 6), *y = random_tensor(AMP_F32, {5}, 7);
    const std::vector<double> xs = numbers_of(x), ys = numbers_of(y);
    std::vector<double> d;
    for (size_t i = 0; i < 20; i++) d.push_back(xs[i] - ys[i % 5]);
    for (double p : norms) expect_near(op("dist", {x, y, p}), {norm(d, p)}, 1e-6);
    expect_near(op("dist", {tensor(AMP_C64, {2}, {3, 4}), tensor(AMP_C64, {2}, {0})}), {5}, 1e-6);
}

TEST_F(Distances, ThreadsDoNotChangeTheResult) {
    const int before = amp_get_num_threads();
    amp_tensor *x = random_tensor(AMP_F32, {300, 40}, 8);
    amp_set_num_threads(1);
    const std::vector<double> one = numbers_of(op("cdist", {x, x})), pairs = numbers_of(op("pdist", {x}));
    amp_set_num_threads(3);
    EXPECT_EQ(one, numbers_of(op("cdist", {x, x})));
    EXPECT_EQ(pairs, numbers_of(op("pdist", {x})));
    amp_set_num_threads(before);
}

TEST_F(Distances, RefuseBadInput) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *y = tensor(AMP_F32, {2, 4}), *v = tensor(AMP_F32, {3});
    EXPECT_EQ(op("cdist", {x, y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cdist", "[2, 3]", "[2, 4]", "coordinates"}));
    EXPECT_EQ(op("cdist", {x, v}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cdist", "'x2'", "[3]"}));
    EXPECT_EQ(op("cdist", {x, x, -1.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cdist", "'p'", "-1"}));
    EXPECT_EQ(op("cdist", {x, x, 2.0, "fast"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cdist", "compute_mode", "fast"}));
    EXPECT_EQ(op("cdist", {tensor(AMP_F32, {2, 2, 3}), tensor(AMP_F32, {3, 2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cdist", "[2, 2, 3]", "[3, 2, 3]", "broadcast"}));
    EXPECT_EQ(op("cdist", {tensor(AMP_I64, {2, 3}), x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"cdist", "'x1'", "i64"}));
    EXPECT_EQ(op("pdist", {v}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"pdist", "[3]"}));
    EXPECT_EQ(op("dist", {x, y}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"dist", "[2, 3]", "[2, 4]"}));
    EXPECT_EQ(op("dist", {tensor(AMP_I64, {2}), tensor(AMP_I64, {2})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"dist", "i64"}));
}

TEST_F(PairLosses, CosineSimilarityAlongAnyDimension) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, {3, 4, 5}, 9), *y = random_tensor(dtype, {4, 1}, 10);
        const std::vector<double> xs = numbers_of(x), ys = numbers_of(y);
        std::vector<double> middle, last;
        const auto cosine = [&](const std::function<size_t(size_t)> &i, const std::function<size_t(size_t)> &j,
                                size_t n) {
            double product = 0, a = 0, b = 0;
            for (size_t k = 0; k < n; k++) {
                product += xs[i(k)] * ys[j(k)], a += xs[i(k)] * xs[i(k)], b += ys[j(k)] * ys[j(k)];
            }
            return product / std::sqrt(a * b);
        };
        for (size_t r = 0; r < 15; r++) {
            middle.push_back(
                cosine([&](size_t k) { return r / 5 * 20 + k * 5 + r % 5; }, [](size_t k) { return k; }, 4));
        }
        for (size_t r = 0; r < 12; r++) {
            last.push_back(cosine([&](size_t k) { return r * 5 + k; }, [&](size_t) { return r % 4; }, 5));
        }
        const double tolerance = dtype == AMP_F64 ? 1e-13 : dtype == AMP_F32 ? 1e-6 : 0x1p-8;
        expect_near(op("cosine_similarity", {x, y}), middle, tolerance);
        expect_near(op("cosine_similarity", {x, y, -1}), last, tolerance);
    }
}

TEST_F(PairLosses, CosineOfNothingIsZero) {
    amp_tensor *zero = tensor(AMP_F32, {2, 3}, {0}), *one = tensor(AMP_F32, {2, 3}, {1});
    expect_near(op("cosine_similarity", {zero, one}), {0, 0}, 0);
    EXPECT_EQ(op("cosine_similarity", {zero, one, 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cosine_similarity", "dim"}));
}

TEST_F(PairLosses, CosineEmbedding) {
    amp_tensor *x = tensor(AMP_F32, {4, 2}, {1, 0}), *y = tensor(AMP_F32, {4, 2}, {3, 4, 0, 1, 3, 4, 3, 4});
    amp_tensor *t = tensor(AMP_F32, {4}, {1, 1, -1, 0});
    expect_near(op("cosine_embedding_loss", {x, y, t, 0.25}, {{"reduction", "none"}}), {0.4, 1, 0.35, 0}, 1e-6);
    expect_near(op("cosine_embedding_loss", {x, y, t, 0.25}), {1.75 / 4}, 1e-6);
    EXPECT_EQ(op("cosine_embedding_loss", {x, y, x}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cosine_embedding_loss", "'target'", "[4, 2]"}));
}

TEST_F(PairLosses, TripletMargin) {
    amp_tensor *a = random_tensor(AMP_F64, {6, 5}, 11), *p = random_tensor(AMP_F64, {6, 5}, 12);
    amp_tensor *n = random_tensor(AMP_F64, {6, 5}, 13);
    const std::vector<double> as = numbers_of(a), ps = numbers_of(p), ns = numbers_of(n);
    for (bool swap : {false, true}) {
        for (double power : {1.0, 2.0, 3.0}) {
            std::vector<double> want;
            for (size_t i = 0; i < 6; i++) {
                double far = distance(as, i, ns, i, 5, power, 1e-6);
                if (swap) far = std::min(far, distance(ps, i, ns, i, 5, power, 1e-6));
                want.push_back(std::max(0.0, 0.5 + distance(as, i, ps, i, 5, power, 1e-6) - far));
            }
            expect_near(op("triplet_margin_loss", {a, p, n, 0.5, power}, {{"swap", swap}, {"reduction", "none"}}), want,
                        1e-13);
        }
    }
    EXPECT_EQ(op("triplet_margin_loss", {a, p, n, 0.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"triplet_margin_loss", "margin"}));
    EXPECT_EQ(op("triplet_margin_loss", {a, p, tensor(AMP_F64, {5})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"triplet_margin_loss", "[6, 5]", "[5]", "dimensions"}));
}

// What PyTorch 2.13 gives. Of unsigned bytes the differences wrap.
TEST_F(PairLosses, LossesOfIntegersAreF32) {
    amp_tensor *y = tensor(AMP_I64, {2}, {1, -1});
    for (const amp_dtype dtype : {AMP_I64, AMP_I32, AMP_I16, AMP_I8}) {
        amp_tensor *a = tensor(dtype, {2, 3}, {1, -2, 3, 0, 4, 1}), *b = tensor(dtype, {2, 3}, {2, 0, 1, -3, 2, 2});
        amp_tensor *c = tensor(dtype, {2, 3}, {0, 1, 1, 5, 2, -1});
        amp_tensor *cosine = op("cosine_embedding_loss", {a, b, y});
        EXPECT_EQ(amp_tensor_dtype(cosine), AMP_F32);
        expect_near(cosine, {0.4953104853630066}, 2e-7);
        expect_near(op("cosine_embedding_loss", {a, b, y}, {{"margin", 0.1}, {"reduction", "none"}}),
                    {0.4023856520652771, 0.48823532462120056}, 2e-7);
        amp_tensor *triplet = op("triplet_margin_loss", {a, b, c});
        EXPECT_EQ(amp_tensor_dtype(triplet), AMP_F32);
        expect_near(triplet, {0.12917113304138184}, 4e-6);
        expect_near(op("triplet_margin_loss", {a, b, c}, {{"p", 1.0}, {"swap", true}, {"reduction", "none"}}),
                    {2.999998092651367, 0}, 1e-6);
    }
    amp_tensor *a = tensor(AMP_U8, {2, 3}, {1, 254, 3, 0, 4, 1}), *b = tensor(AMP_U8, {2, 3}, {2, 0, 1, 253, 2, 2});
    amp_tensor *c = tensor(AMP_U8, {2, 3}, {0, 1, 1, 5, 2, 255});
    expect_near(op("cosine_embedding_loss", {a, b, y}), {0.4953104853630066}, 2e-7);
    expect_near(op("triplet_margin_loss", {a, b, c}), {56.461639404296875}, 2e-7);
    expect_near(op("triplet_margin_loss", {a, b, c}, {{"p", 1.0}, {"swap", true}, {"reduction", "none"}}), {256, 10},
                2e-7);
    a = tensor(AMP_BOOL, {2, 3}, {1, 1, 1, 0, 1, 1});
    b = tensor(AMP_BOOL, {2, 3}, {1, 0, 1, 1, 1, 1});
    expect_near(op("cosine_embedding_loss", {a, b, y}, {{"margin", 0.1}, {"reduction", "none"}}),
                {0.18350344896316528, 0.7164965271949768}, 2e-7);
    EXPECT_EQ(op("triplet_margin_loss", {a, b, b}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"triplet_margin_loss", "'anchor'", "bool"}));
}

TEST_F(PairLosses, MultiMargin) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, {1, 2, 4, 0, 0.5, -1}), *t = tensor(AMP_I64, {2}, {1, 0});
    amp_tensor *w = tensor(AMP_F32, {3}, {2, 10, 1});
    expect_near(op("multi_margin_loss", {x, t}, {{"reduction", "none"}}), {3.0 / 3, 1.5 / 3}, 1e-7);
    expect_near(op("multi_margin_loss", {x, t, 2, 1.0, w}, {{"reduction", "sum"}}), {10 * 9.0 / 3 + 2 * 2.25 / 3},
                1e-6);
    EXPECT_EQ(op("multi_margin_loss", {x, t, 3}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multi_margin_loss", "'p'", "3"}));
    EXPECT_EQ(op("multi_margin_loss", {x, tensor(AMP_I64, {2}, {0, -1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multi_margin_loss", "element 1", "-1", "0 to 2"}));
    EXPECT_EQ(op("multi_margin_loss", {x, tensor(AMP_I64, {3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multi_margin_loss", "'target'", "[3]", "[2]"}));
}

TEST_F(PairLosses, MultilabelMarginStopsAtMinusOne) {
    amp_tensor *x = tensor(AMP_F32, {2, 4}, {0.1, 0.2, 0.4, 0.8}),
               *t = tensor(AMP_I64, {2, 4}, {3, 0, -1, 1, -1, 0, 0, 0});
    const double first = 0.25 * ((1 - (0.1 - 0.2)) + (1 - (0.1 - 0.4)) + (1 - (0.8 - 0.2)) + (1 - (0.8 - 0.4)));
    std::vector<amp_tensor *> outputs;
    ASSERT_EQ(call("multilabel_margin_loss_forward", {x, t}, {{"reduction", "none"}}, &outputs), AMP_OK);
    ASSERT_EQ(outputs.size(), 2u);
    expect_near(outputs[0], {first, 0}, 1e-6);
    expect_near(outputs[1], {1, 0, 0, 1, 0, 0, 0, 0}, 0);
    expect_near(op("multilabel_margin_loss", {x, t}), {first / 2}, 1e-6);
    EXPECT_EQ(op("multilabel_margin_loss", {x, tensor(AMP_I64, {2, 4}, {4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multilabel_margin_loss", "'target'", "is 4"}));
    EXPECT_EQ(op("multilabel_margin_loss", {x, tensor(AMP_I64, {4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"multilabel_margin_loss", "[4]", "[2, 4]"}));
}

TEST_F(Renorm, ScalesLongSlicesOnly) {
    amp_tensor *x = tensor(AMP_F32, {2, 2}, {3, 0.3, 4, 0.4}); // columns of norm 5 and 0.5
    expect_near(op("renorm", {x, 2, 1, 1.0}), {0.6, 0.3, 0.8, 0.4}, 1e-6);
    expect_near(op("renorm", {x, amp_float(INFINITY), 0, 2.0}), {2, 0.2, 2, 0.2}, 1e-6);
    expect_near(op("renorm_", {x, 1, -1, 0.7}), {0.3, 0.3, 0.4, 0.4}, 1e-6);
    EXPECT_EQ(op("renorm", {x, 0, 1, 1.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"renorm", "'p'", "more than 0"}));
    EXPECT_EQ(op("renorm", {tensor(AMP_F32, {2}), 2, 0, 1.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"renorm", "[2]", "2 dimensions"}));
}

TEST_F(Renorm, OfComplexNumbersGoesByTheirModulus) {
    amp_tensor *x = op("view_as_complex", {tensor(AMP_F32, {2, 2, 2}, {3, 0, 0.3, 0, 0, -4, 0, 0.4})});
    amp_tensor *y = op("renorm", {x, 2, 1, 1.0});
    ASSERT_TRUE(y && amp_tensor_dtype(y) == AMP_C64) << amp_last_error();
    const float expected[] = {0.6f, 0, 0.3f, 0, 0, -0.8f, 0, 0.4f};
    for (int i = 0; i < 8; i++) EXPECT_NEAR(static_cast<const float *>(amp_data(y))[i], expected[i], 1e-6) << i;
    EXPECT_EQ(op("renorm", {tensor(AMP_I64, {2, 2}), 2, 0, 1.0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"renorm", "i64", "floating or complex"}));
}

// What PyTorch 2.13 gives: the mean of the squares is a whole number, and their sum wraps.
TEST_F(Renorm, LocalResponseOfIntegersIsF32) {
    amp_tensor *x = tensor(AMP_I64, {2, 3, 2, 2},
                           {-11, -4, 3, 10, -6, 1, 8, -8, -1, 6, -10, -3, 4, 11, -5, 2, 9, -7, 0, 7, -9, -2, 5, -11});
    const std::vector<double> want = {-1.0684144496917725,
                                      -1.154700517654419,
                                      0.4242640733718872,
                                      0.9534626007080078,
                                      -0.5827714800834656,
                                      0.1666666716337204,
                                      0.7427813410758972,
                                      -0.7427813410758972,
                                      -0.1961161345243454,
                                      1.17669677734375,
                                      -0.9534626007080078,
                                      -0.4242640733718872,
                                      0.4923659563064575,
                                      1.0302443504333496,
                                      -1.178511381149292,
                                      0.3333333432674408,
                                      0.8215838074684143,
                                      -0.6444022059440613,
                                      0.0,
                                      0.6444022059440613,
                                      -0.8581163287162781,
                                      -0.3333333432674408,
                                      1.178511381149292,
                                      -1.0302443504333496};
    amp_tensor *y = op("local_response_norm", {x, 3, 2.0, 0.5, 2.0});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_F32);
    expect_near(y, want, 2e-7);
    amp_tensor *large = tensor(AMP_I64, {1, 3, 1}, {3037000500, 3037000500, 5});
    expect_near(op("local_response_norm", {large, 2, 1.0, 1.0, 1.0}),
                {-6.5854449671221e-10, 20.876558303833008, -1.0842021724855044e-18}, 2e-6);
}

TEST_F(Renorm, LocalResponse) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 7, 3, 100}, 14);
    const std::vector<double> xs = numbers_of(x);
    for (int64_t size : {1, 2, 5, 100}) {
        for (double beta : {0.5, 0.75, 1.0, 0.3}) {
            std::vector<double> want;
            for (size_t i = 0; i < xs.size(); i++) {
                const int64_t c = int64_t(i / 300 % 7);
                double sum = 0;
                for (int64_t k = std::max<int64_t>(0, c - size / 2); k <= std::min<int64_t>(6, c + (size - 1) / 2);
                     k++) {
                    const double y = xs[size_t(int64_t(i) + (k - c) * 300)];
                    sum += y * y;
                }
                want.push_back(xs[i] / std::pow(1.5 + 0.7 * sum / double(size), beta));
            }
            expect_near(op("local_response_norm", {x, size, 0.7, beta, 1.5}), want, 1e-6);
        }
    }
    EXPECT_EQ(op("local_response_norm", {tensor(AMP_I32, {2, 3, 4}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"local_response_norm", "i32", "i64"}));
    EXPECT_EQ(op("local_response_norm", {x, 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"local_response_norm", "'size'", "0"}));
    EXPECT_EQ(op("local_response_norm", {tensor(AMP_F32, {2, 3}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"local_response_norm", "[2, 3]"}));
}

} // namespace
