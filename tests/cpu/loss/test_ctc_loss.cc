// ctc_loss against the sum over all alignments, its layouts of targets, impossible targets, what bad input is told.
#include "amp_test.h"

using namespace amp_test;

namespace {

class CtcLoss : public Test {};

// Every path of `frames` labels that collapses to `target`: repeats merged, then blanks (class 0) dropped.
double probability(const std::vector<double> &logs, size_t batch, size_t n, size_t classes, size_t frames,
                   const std::vector<int64_t> &target) {
    double sum = 0;
    size_t paths = 1;
    for (size_t t = 0; t < frames; t++) paths *= classes;
    for (size_t path = 0; path < paths; path++) {
        std::vector<int64_t> collapsed;
        double log = 0;
        int64_t last = -1;
        for (size_t t = 0, rest = path; t < frames; t++, rest /= classes) {
            const int64_t label = int64_t(rest % classes);
            log += logs[(t * batch + n) * classes + size_t(label)];
            if (label != last && label != 0) collapsed.push_back(label);
            last = label;
        }
        if (collapsed == target) sum += std::exp(log);
    }
    return sum;
}

amp_tensor *integers(const std::vector<double> &numbers) {
    return tensor(AMP_I64, {int64_t(numbers.size())}, numbers);
}

struct Sample {
    size_t frames;
    std::vector<int64_t> target;
};

const std::vector<Sample> samples = {{5, {1, 2}}, {4, {1, 1}}, {5, {}}, {2, {3, 3}}, {0, {}}, {2, {2}}, {5, {1, 2, 3}}};

struct Problem {
    amp_tensor *log_probs, *padded, *joined, *frames, *labels;
    std::vector<double> want;
};

Problem draw(amp_dtype dtype) {
    const size_t n = samples.size();
    Problem p = {};
    p.log_probs = op("log_softmax", {op("mul", {random_tensor(dtype, {5, int64_t(n), 4}, 1), 3.0}), 2});
    const std::vector<double> logs = numbers_of(p.log_probs);
    std::vector<double> padded, joined, frames, labels;
    for (size_t i = 0; i < n; i++) {
        const Sample &s = samples[i];
        for (size_t k = 0; k < 3; k++) padded.push_back(k < s.target.size() ? double(s.target[k]) : 99);
        joined.insert(joined.end(), s.target.begin(), s.target.end());
        frames.push_back(double(s.frames));
        labels.push_back(double(s.target.size()));
        p.want.push_back(-std::log(probability(logs, n, i, 4, s.frames, s.target)));
    }
    p.padded = tensor(AMP_I64, {int64_t(n), 3}, padded);
    p.joined = integers(joined);
    p.frames = integers(frames);
    p.labels = integers(labels);
    return p;
}

TEST_F(CtcLoss, IsTheSumOverAllAlignments) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_BF16}) {
        const Problem p = draw(dtype);
        const double tolerance = dtype == AMP_F64 ? 1e-13 : dtype == AMP_F32 ? 1e-6 : 0x1p-8;
        ASSERT_TRUE(std::isinf(p.want[3])) << "two equal labels need three frames and a blank";
        for (amp_tensor *targets : {p.padded, p.joined}) {
            expect_near(op("ctc_loss", {p.log_probs, targets, p.frames, p.labels}, {{"reduction", "none"}}), p.want,
                        tolerance);
            double sum = 0, mean = 0;
            for (size_t i = 0; i < samples.size(); i++) {
                const double loss = std::isinf(p.want[i]) ? 0 : p.want[i];
                sum += loss;
                mean += loss / std::max(1.0, double(samples[i].target.size())) / double(samples.size());
            }
            expect_near(op("ctc_loss", {p.log_probs, targets, p.frames, p.labels},
                           {{"reduction", "sum"}, {"zero_infinity", true}}),
                        {sum}, tolerance);
            expect_near(op("ctc_loss", {p.log_probs, targets, p.frames, p.labels}, {{"zero_infinity", true}}), {mean},
                        tolerance);
            EXPECT_TRUE(std::isinf(numbers_of(op("ctc_loss", {p.log_probs, targets, p.frames, p.labels}))[0]));
        }
    }
}

TEST_F(CtcLoss, StridedInputs) {
    const Problem p = draw(AMP_F32);
    amp_tensor *logs = op("transpose", {op("contiguous", {op("transpose", {p.log_probs, 0, 2})}), 0, 2});
    amp_tensor *targets = op("transpose", {op("contiguous", {op("transpose", {p.padded, 0, 1})}), 0, 1});
    expect_near(op("ctc_loss", {logs, targets, p.frames, p.labels}, {{"reduction", "none"}}), p.want, 1e-6);
}

TEST_F(CtcLoss, OneSampleWithoutBatch) {
    const Problem p = draw(AMP_F32);
    amp_tensor *logs = op("select", {p.log_probs, 1, 0});
    amp_tensor *loss = op("ctc_loss", {logs, integers({1, 2}), tensor(AMP_I64, {}, {5}), tensor(AMP_I64, {}, {2})},
                          {{"reduction", "none"}});
    EXPECT_EQ(amp_tensor_rank(loss), 0);
    expect_near(loss, {p.want[0]}, 1e-6);
}

TEST_F(CtcLoss, AnotherBlank) {
    amp_tensor *logs = tensor(AMP_F64, {2, 1, 2}, {std::log(0.25), std::log(0.75)});
    amp_tensor *one = integers({1}), *zero = tensor(AMP_I64, {1, 1}, {0});
    // class 0 under blank 1 in two frames: all but blank, blank
    expect_near(op("ctc_loss", {logs, zero, integers({2}), one}, {{"blank", 1}}), {-std::log(1 - 0.5625)}, 1e-14);
}

TEST_F(CtcLoss, LongImpossibleSequencesStayInfinite) {
    amp_tensor *logs = tensor(AMP_F32, {400, 1, 2}, {-INFINITY, 0});
    amp_tensor *loss = op("ctc_loss", {logs, integers({1, 1}), integers({400}), integers({2})});
    EXPECT_EQ(numbers_of(loss)[0], INFINITY);
}

TEST_F(CtcLoss, RefuseBadInput) {
    amp_tensor *logs = tensor(AMP_F32, {4, 2, 3}, {-1}), *targets = tensor(AMP_I64, {2, 2}, {1, 2});
    amp_tensor *frames = integers({4, 4}), *labels = integers({2, 2});
    EXPECT_EQ(op("ctc_loss", {logs, targets, integers({4, 5}), labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "element 1", "'input_lengths'", "5", "0 to 4"}));
    EXPECT_EQ(op("ctc_loss", {logs, targets, frames, integers({3, 1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "element 0", "'target_lengths'", "3"}));
    EXPECT_EQ(op("ctc_loss", {logs, targets, integers({4}), labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "'input_lengths'", "[1]", "[2]"}));
    EXPECT_EQ(op("ctc_loss", {logs, tensor(AMP_I64, {2, 2}, {1, 3}), frames, labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "element 1", "'targets'", "is 3", "0 to 2"}));
    EXPECT_EQ(op("ctc_loss", {logs, integers({1, 2, 1}), frames, labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "'targets'", "[3]", "4"}));
    EXPECT_EQ(op("ctc_loss", {logs, tensor(AMP_I64, {3, 2}), frames, labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "'targets'", "[3, 2]", "[4, 2, 3]"}));
    EXPECT_EQ(op("ctc_loss", {logs, targets, frames, labels, 3}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "'blank'", "3"}));
    EXPECT_EQ(op("ctc_loss", {logs, logs, frames, labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"ctc_loss", "'targets'"}));
    EXPECT_EQ(op("ctc_loss", {targets, targets, frames, labels}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"ctc_loss", "'log_probs'", "i64"}));
}

} // namespace
