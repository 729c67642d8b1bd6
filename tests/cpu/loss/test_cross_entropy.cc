// nll_loss and cross_entropy: values against f64 in every layout, weights, ignored samples, smoothing, probabilities,
// and what bad input is told.
#include "amp_test.h"

using namespace amp_test;

namespace {

class CrossEntropy : public Test {};

struct Problem {
    size_t n, c, l; // samples, classes, positions
    std::vector<double> x, weight, probabilities;
    std::vector<int64_t> target;
    double smoothing = 0;
    int64_t ignore = -100;
};

struct Losses {
    std::vector<double> each;
    double sum = 0, weight = 0;
};

double log_softmax(const Problem &p, size_t sample, size_t position, size_t c) {
    const auto x = [&](size_t k) { return p.x[(sample * p.c + k) * p.l + position]; };
    double max = -INFINITY, sum = 0;
    for (size_t k = 0; k < p.c; k++) max = std::max(max, x(k));
    for (size_t k = 0; k < p.c; k++) sum += std::exp(x(k) - max);
    return x(c) - max - std::log(sum);
}

Losses losses(const Problem &p) {
    Losses result;
    for (size_t i = 0; i < p.n * p.l; i++) {
        double loss = 0;
        const bool by_index = p.probabilities.empty(), ignored = by_index && p.target[i] == p.ignore;
        for (size_t c = 0; !ignored && c < p.c; c++) {
            const double hit =
                by_index ? double(p.target[i] == int64_t(c)) : p.probabilities[(i / p.l * p.c + c) * p.l + i % p.l];
            const double w = p.weight.empty() ? 1 : p.weight[c];
            loss -= w * (hit * (1 - p.smoothing) + p.smoothing / double(p.c)) * log_softmax(p, i / p.l, i % p.l, c);
            if (by_index) result.weight += w * hit;
        }
        if (!by_index) result.weight++;
        result.each.push_back(loss);
        result.sum += loss;
    }
    return result;
}

struct Tensors {
    amp_tensor *x, *target, *weight;
};

Tensors draw(Problem *p, amp_dtype dtype, bool weighted, bool probable) {
    const Shape shape = {int64_t(p->n), int64_t(p->c), int64_t(p->l)};
    amp_tensor *x = op("mul", {random_tensor(dtype, shape, 1), 4.0}), *target;
    amp_tensor *weight = weighted ? op("abs", {random_tensor(dtype, {shape[1]}, 2)}) : nullptr;
    p->x = numbers_of(x);
    if (weighted) p->weight = numbers_of(weight);
    if (probable) {
        target = op("abs", {random_tensor(dtype, shape, 3)});
        p->probabilities = numbers_of(target);
    } else {
        std::vector<double> indices;
        for (size_t i = 0; i < p->n * p->l; i++) {
            p->target.push_back(i % 7 == 3 ? p->ignore : int64_t((i * 5 + i / 3) % p->c));
            indices.push_back(double(p->target.back()));
        }
        target = tensor(AMP_I64, {shape[0], shape[2]}, indices);
    }
    return {x, target, weight};
}

TEST_F(CrossEntropy, MatchesF64InEveryLayout) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        for (size_t l : {1, 3, 300}) {
            for (int kind = 0; kind < 8; kind++) {
                SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(l) + " " + std::to_string(kind));
                Problem p = {l == 1 ? 80U : 3U, 19, l, {}, {}, {}, {}, kind & 1 ? 0.125 : 0.0};
                const Tensors t = draw(&p, dtype, kind & 2, kind & 4);
                const Losses want = losses(p);
                const double tolerance = dtype == AMP_F64 ? 1e-12 : dtype == AMP_F32 ? 2e-6 : 0x1p-7;
                const std::vector<Named> options = {{"label_smoothing", p.smoothing}};
                std::vector<Named> none = options, sum = options;
                none.push_back({"reduction", "none"});
                sum.push_back({"reduction", "sum"});
                expect_near(op("cross_entropy", {t.x, t.target, t.weight}, none), want.each, tolerance);
                expect_near(op("cross_entropy", {t.x, t.target, t.weight}, sum), {want.sum}, tolerance);
                expect_near(op("cross_entropy", {t.x, t.target, t.weight}, options), {want.sum / want.weight},
                            tolerance);
            }
        }
    }
}

TEST_F(CrossEntropy, StridedInputs) {
    Problem p = {4, 5, 6, {}, {}, {}, {}};
    const Tensors t = draw(&p, AMP_F32, true, false);
    amp_tensor *x = op("permute", {op("contiguous", {op("permute", {t.x, AMP_DIMS(0, 2, 1)})}), AMP_DIMS(0, 2, 1)});
    amp_tensor *target = op("transpose", {op("contiguous", {op("transpose", {t.target, 0, 1})}), 0, 1});
    const Losses want = losses(p);
    expect_near(op("cross_entropy", {x, target, t.weight}), {want.sum / want.weight}, 1e-6);
    amp_tensor *logs = op("log_softmax", {x, 1});
    expect_near(op("nll_loss", {logs, target, t.weight}), {want.sum / want.weight}, 1e-6);
    expect_near(op("nll_loss", {logs, target, t.weight}, {{"reduction", "none"}}), want.each, 1e-6);
}

TEST_F(CrossEntropy, OneSampleWithoutBatch) {
    amp_tensor *x = tensor(AMP_F32, {3}, {-1, -2, -3}), *target = tensor(AMP_I64, {}, {1});
    expect_near(op("nll_loss", {x, target}), {2}, 0);
    EXPECT_EQ(amp_tensor_rank(op("nll_loss", {x, target}, {{"reduction", "none"}})), 0);
    expect_near(op("cross_entropy", {x, target}), {1.4076059644443804}, 1e-7);
}

TEST_F(CrossEntropy, AllIgnoredHasNoMean) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *target = tensor(AMP_I64, {2}, {2});
    for (const char *name : {"nll_loss", "cross_entropy"}) {
        EXPECT_TRUE(std::isnan(numbers_of(op(name, {x, target, nullptr, 2}))[0])) << name;
        expect_near(op(name, {x, target, nullptr, 2}, {{"reduction", "sum"}}), {0}, 0);
    }
}

TEST_F(CrossEntropy, OfNothing) {
    amp_tensor *x = tensor(AMP_F32, {0, 3}), *target = tensor(AMP_I64, {0});
    for (const char *name : {"nll_loss", "cross_entropy"}) {
        EXPECT_TRUE(std::isnan(numbers_of(op(name, {x, target}))[0])) << name;
        expect_near(op(name, {x, target}, {{"reduction", "sum"}}), {0}, 0);
        EXPECT_EQ(amp_tensor_numel(op(name, {x, target}, {{"reduction", "none"}})), 0);
    }
}

TEST_F(CrossEntropy, ThreadsDoNotChangeTheResult) {
    const int before = amp_get_num_threads();
    for (size_t l : {1, 700}) {
        Problem p = {40, 100, l, {}, {}, {}, {}};
        const Tensors t = draw(&p, AMP_F32, true, false);
        amp_set_num_threads(1);
        const std::vector<double> one = numbers_of(op("cross_entropy", {t.x, t.target, t.weight}));
        amp_set_num_threads(3);
        EXPECT_EQ(one, numbers_of(op("cross_entropy", {t.x, t.target, t.weight})));
    }
    amp_set_num_threads(before);
}

TEST_F(CrossEntropy, RefuseBadInput) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}), *bad = tensor(AMP_I64, {2}, {1, 3}), *good = tensor(AMP_I64, {2}, {1});
    for (const char *name : {"nll_loss", "cross_entropy"}) {
        EXPECT_EQ(op(name, {x, bad}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "element 1", "'target'", "is 3", "0 to 2"}));
        EXPECT_EQ(op(name, {x, tensor(AMP_I64, {3})}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "'target'", "[3]", "[2, 3]", "[2]"}));
        EXPECT_EQ(op(name, {x, tensor(AMP_F32, {2})}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {name, "'target'", "f32", "i64"}));
        EXPECT_EQ(op(name, {x, good, tensor(AMP_F32, {2})}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "'weight'", "[2]", "[3]"}));
        EXPECT_EQ(op(name, {good, good}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {name, "i64", "floating"}));
        EXPECT_EQ(op(name, {x, good}, {{"reduction", "average"}}), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {name, "average", "none"}));
    }
    EXPECT_EQ(op("cross_entropy", {x, good}, {{"label_smoothing", 1.5}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cross_entropy", "label_smoothing", "1.5"}));
    EXPECT_EQ(op("cross_entropy", {x, tensor(AMP_I64, {2, 3})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"cross_entropy", "i64", "probabilities"}));
    EXPECT_EQ(op("cross_entropy", {x, x, nullptr, 1}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"cross_entropy", "ignore_index", "probabilities"}));
}

} // namespace
