// batch_norm, group_norm, instance_norm: values against f64 in every dtype and layout, running statistics, large means,
// what bad input is told.
#include "amp_test.h"
#include "bf16_distance.h"

using namespace amp_test;

namespace {

class ChannelNorm : public Test {};

struct Statistics {
    double mean = 0, variance = 0, count = 0;
};

// Of the elements of x, shape (n, c, l), that `belongs` takes.
template <class Belongs>
Statistics statistics(const std::vector<double> &x, Belongs belongs) {
    Statistics s;
    for (size_t i = 0; i < x.size(); i++)
        if (belongs(i)) s.mean += x[i], s.count++;
    s.mean /= s.count;
    for (size_t i = 0; i < x.size(); i++)
        if (belongs(i)) s.variance += (x[i] - s.mean) * (x[i] - s.mean) / s.count;
    return s;
}

// x of shape (n, c, l); `groups` of channels share statistics, and so does the whole batch if it is asked for.
std::vector<double> expected(const std::vector<double> &x, size_t c, size_t l, size_t groups, bool batch,
                             const std::vector<double> &w, const std::vector<double> &b, double eps) {
    std::vector<double> out(x.size());
    const size_t group_length = c / groups * l, samples = x.size() / (c * l);
    for (size_t n = 0; n < (batch ? 1 : samples); n++) {
        for (size_t g = 0; g < groups; g++) {
            const auto belongs = [&](size_t i) {
                return i / group_length % groups == g && (batch || i / (c * l) == n);
            };
            const Statistics s = statistics(x, belongs);
            for (size_t i = 0; i < x.size(); i++) {
                const size_t channel = i / l % c;
                const double y = (x[i] - s.mean) / std::sqrt(s.variance + eps);
                if (belongs(i)) out[i] = y * (w.empty() ? 1 : w[channel]) + (b.empty() ? 0 : b[channel]);
            }
        }
    }
    return out;
}

double tolerance_of(amp_dtype dtype) {
    return dtype == AMP_F64 ? 1e-12 : dtype == AMP_F32 ? 2e-6 : dtype == AMP_F16 ? 0x1p-10 : 0x1p-7;
}

TEST_F(ChannelNorm, MatchF64InEveryDtypeAndLength) {
    for (amp_dtype dtype : {AMP_F64, AMP_F32, AMP_F16, AMP_BF16}) {
        for (int64_t l : {1, 2, 31, 32, 33, 1500}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + std::to_string(l));
            amp_tensor *x = random_tensor(dtype, {5, 6, l}, 1), *w = random_tensor(dtype, {6}, 2);
            amp_tensor *b = random_tensor(dtype, {6}, 3);
            const std::vector<double> xs = numbers_of(x), ws = numbers_of(w), bs = numbers_of(b);
            const double tolerance = tolerance_of(dtype);
            expect_near(op("batch_norm", {x, nullptr, nullptr, w, b}, {{"training", true}}),
                        expected(xs, 6, size_t(l), 6, true, ws, bs, 1e-5), tolerance);
            expect_near(op("group_norm", {x, 2, w, b}), expected(xs, 6, size_t(l), 2, false, ws, bs, 1e-5), tolerance);
            expect_near(op("group_norm", {x, 3}, {{"eps", 0.5}}), expected(xs, 6, size_t(l), 3, false, {}, {}, 0.5),
                        tolerance);
            if (l > 1) {
                expect_near(op("instance_norm", {x, nullptr, nullptr, w, b}),
                            expected(xs, 6, size_t(l), 6, false, ws, bs, 1e-5), tolerance);
            }
        }
    }
}

TEST_F(ChannelNorm, Bf16IsWithinOneUlp) {
    for (int64_t l : {1, 2, 31, 33, 700}) {
        for (double size : {0.001, 1.0, 300.0}) {
            amp_tensor *x = op("mul", {op("add", {random_tensor(AMP_BF16, {5, 6, l}, 1), 0.5}), size});
            amp_tensor *w = random_tensor(AMP_BF16, {6}, 2), *b = random_tensor(AMP_BF16, {6}, 3);
            const std::vector<double> xs = numbers_of(x), ws = numbers_of(w), bs = numbers_of(b);
            ASSERT_NO_FATAL_FAILURE(
                expect_within_one_bf16(op("batch_norm", {x, nullptr, nullptr, w, b}, {{"training", true}}),
                                       expected(xs, 6, size_t(l), 6, true, ws, bs, 1e-5), "batch_norm"));
            ASSERT_NO_FATAL_FAILURE(expect_within_one_bf16(
                op("group_norm", {x, 2, w, b}), expected(xs, 6, size_t(l), 2, false, ws, bs, 1e-5), "group_norm"));
            ASSERT_NO_FATAL_FAILURE(expect_within_one_bf16(
                op("group_norm", {x, 3}), expected(xs, 6, size_t(l), 3, false, {}, {}, 1e-5), "group_norm"));
        }
    }
}

TEST_F(ChannelNorm, OddNumbersOfChannelsWithoutLength) {
    for (int64_t c : {1, 3, 64, 513, 2000}) {
        amp_tensor *x = random_tensor(AMP_F32, {7, c}, 4), *w = random_tensor(AMP_F32, {c}, 5);
        expect_near(op("batch_norm", {x, nullptr, nullptr, w}, {{"training", true}}),
                    expected(numbers_of(x), size_t(c), 1, size_t(c), true, numbers_of(w), {}, 1e-5), 4e-6);
    }
}

TEST_F(ChannelNorm, LayoutsGiveTheSame) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 5, 6, 7}, 6), *w = random_tensor(AMP_F32, {5}, 7);
    const std::vector<double> want = expected(numbers_of(x), 5, 42, 5, true, numbers_of(w), {}, 1e-5);
    const std::vector<double> groups = expected(numbers_of(x), 5, 42, 1, false, numbers_of(w), {}, 1e-5);
    amp_tensor *last =
        op("permute", {op("contiguous", {op("permute", {x, AMP_DIMS(0, 2, 3, 1)})}), AMP_DIMS(0, 3, 1, 2)});
    amp_tensor *turned = op("transpose", {op("contiguous", {op("transpose", {x, 2, 3})}), 2, 3});
    for (amp_tensor *t : {x, last, turned}) {
        expect_near(op("batch_norm", {t, nullptr, nullptr, w}, {{"training", true}}), want, 2e-6);
        expect_near(op("group_norm", {t, 1, w}), groups, 2e-6);
    }
    const amp_tensor *y = op("batch_norm", {last, nullptr, nullptr, w}, {{"training", true}});
    EXPECT_EQ(amp_tensor_strides(y)[1], 1) << "channels stay last";
}

// Groups of every size, of one sample and several, whose channels lie last and stay so; the same bits from any number of threads.
TEST_F(ChannelNorm, GroupsOfChannelsThatLieLast) {
    const int before = amp_get_num_threads();
    for (amp_dtype dtype : {AMP_F32, AMP_BF16}) {
        for (int64_t batch : {1, 3, 13}) {
            for (int64_t channels : {6, 24, 516}) {
                if (batch * channels > 3 * 516)
                    continue; // the reference goes over all elements for each group of each sample
                amp_tensor *lies =
                    op("add", {op("mul", {random_tensor(dtype, {batch, 5, 7, channels}, 16), 2.0}), 0.5});
                amp_tensor *x = op("permute", {lies, AMP_DIMS(0, 3, 1, 2)});
                amp_tensor *w = random_tensor(dtype, {channels}, 17), *b = random_tensor(dtype, {channels}, 18);
                for (int64_t groups : {int64_t(1), int64_t(3), channels}) {
                    amp_set_num_threads(1);
                    amp_tensor *y = op("group_norm", {x, groups, w, b});
                    ASSERT_NE(y, nullptr) << amp_last_error();
                    EXPECT_EQ(amp_tensor_strides(y)[1], 1) << "channels stay last";
                    const std::vector<double> got = numbers_of(y);
                    const std::vector<double> want = expected(numbers_of(x), size_t(channels), 35, size_t(groups),
                                                              false, numbers_of(w), numbers_of(b), 1e-5);
                    expect_near(y, want, tolerance_of(dtype));
                    amp_set_num_threads(3);
                    EXPECT_EQ(got, numbers_of(op("group_norm", {x, groups, w, b})));
                }
            }
        }
    }
    amp_set_num_threads(before);
}

TEST_F(ChannelNorm, LargeMeansKeepTheirPrecision) {
    for (int64_t l : {1, 40, 5000}) {
        amp_tensor *x = op("add", {random_tensor(AMP_F32, {60, 2, l}, 8), tensor(AMP_F32, {2, 1}, {3000, -500})});
        expect_near(op("batch_norm", {x, nullptr, nullptr}, {{"training", true}}),
                    expected(numbers_of(x), 2, size_t(l), 2, true, {}, {}, 1e-5), 2e-6);
    }
}

TEST_F(ChannelNorm, Bf16InputMayHaveF32Parameters) {
    amp_tensor *x = random_tensor(AMP_BF16, {4, 3, 50}, 9), *w = random_tensor(AMP_F32, {3}, 10);
    amp_tensor *mean = tensor(AMP_F32, {3}, {0}), *var = tensor(AMP_F32, {3}, {1});
    amp_tensor *y = op("batch_norm", {x, mean, var, w}, {{"training", true}});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
    expect_near(y, expected(numbers_of(x), 3, 50, 3, true, numbers_of(w), {}, 1e-5), 0x1p-7);
    EXPECT_EQ(op("batch_norm", {op("to", {x, AMP_F32}), mean, op("to", {var, AMP_BF16})}, {{"training", true}}),
              nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"batch_norm", "f32", "running_var", "bf16"}));
}

TEST_F(ChannelNorm, RunningStatisticsMove) {
    for (int64_t l : {3, 100}) {
        amp_tensor *x = random_tensor(AMP_F64, {4, 2, l}, 11);
        amp_tensor *mean = tensor(AMP_F64, {2}, {5, 6}), *var = tensor(AMP_F64, {2}, {7, 8});
        const std::vector<double> xs = numbers_of(x);
        ASSERT_NE(op("batch_norm", {x, mean, var}, {{"training", true}, {"momentum", 0.25}}), nullptr);
        for (size_t c = 0; c < 2; c++) {
            const Statistics s = statistics(xs, [&](size_t i) { return i / size_t(l) % 2 == c; });
            EXPECT_NEAR(numbers_of(mean)[c], 0.75 * double(5 + c) + 0.25 * s.mean, 1e-12);
            const double unbiased = s.variance * s.count / (s.count - 1);
            EXPECT_NEAR(numbers_of(var)[c], 0.75 * double(7 + c) + 0.25 * unbiased, 1e-12);
        }
    }
}

TEST_F(ChannelNorm, RunningStatisticsOfInstancesAreTheirMean) {
    amp_tensor *x = random_tensor(AMP_F32, {4, 2, 10}, 12);
    amp_tensor *mean = tensor(AMP_F32, {2}, {0}), *var = tensor(AMP_F32, {2}, {0});
    ASSERT_NE(op("instance_norm", {x, mean, var}, {{"momentum", 1.0}}), nullptr);
    for (size_t c = 0; c < 2; c++) {
        double m = 0, v = 0;
        for (size_t n = 0; n < 4; n++) {
            const Statistics s = statistics(numbers_of(x), [&](size_t i) { return i / 10 == n * 2 + c; });
            m += s.mean / 4, v += s.variance * 10 / 9 / 4;
        }
        EXPECT_NEAR(numbers_of(mean)[c], m, 1e-6);
        EXPECT_NEAR(numbers_of(var)[c], v, 1e-6);
    }
}

TEST_F(ChannelNorm, RunningStatisticsAreUsedOutsideOfTraining) {
    for (int64_t l : {1, 64}) {
        amp_tensor *x = random_tensor(AMP_F32, {2, 3, l}, 13), *mean = tensor(AMP_F32, {3}, {1, 2, 3});
        amp_tensor *var = tensor(AMP_F32, {3}, {4, 1, 0.25});
        const std::vector<double> xs = numbers_of(x), m = {1, 2, 3}, v = {4, 1, 0.25};
        std::vector<double> want;
        for (size_t i = 0; i < xs.size(); i++) {
            const size_t c = i / size_t(l) % 3;
            want.push_back((xs[i] - m[c]) / std::sqrt(v[c] + 1e-5));
        }
        expect_near(op("batch_norm", {x, mean, var}), want, 1e-6);
        expect_near(op("instance_norm", {x, mean, var}, {{"use_input_stats", false}}), want, 1e-6);
        expect_near(mean, m, 0);
    }
}

TEST_F(ChannelNorm, ThreadsDoNotChangeTheResult) {
    for (int64_t l : {1, 16, 300}) {
        amp_tensor *x = random_tensor(AMP_F32, {64, 70, l}, 14);
        const int before = amp_get_num_threads();
        amp_set_num_threads(1);
        const std::vector<double> one = numbers_of(op("batch_norm", {x, nullptr, nullptr}, {{"training", true}}));
        const std::vector<double> group = numbers_of(op("group_norm", {x, 7}));
        amp_set_num_threads(3);
        EXPECT_EQ(one, numbers_of(op("batch_norm", {x, nullptr, nullptr}, {{"training", true}})));
        EXPECT_EQ(group, numbers_of(op("group_norm", {x, 7})));
        amp_set_num_threads(before);
    }
}

// In every layout: rows, short rows as columns, channels last; taken along by the kernels, or made of two ops.
TEST_F(ChannelNorm, PointwiseIsTheActivationRoundedOnce) {
    amp_tensor *mean = random_tensor(AMP_F32, {6}, 1), *var = op("exp", {random_tensor(AMP_F32, {6}, 2)});
    amp_tensor *w = random_tensor(AMP_F32, {6}, 3), *b = random_tensor(AMP_F32, {6}, 4);
    for (const amp_dtype from : {AMP_F32, AMP_BF16, AMP_F16}) {
        for (const amp_dtype to : {AMP_F32, AMP_BF16, AMP_F16, AMP_F64}) {
            for (const char *attr : {"none", "relu", "gelu"}) {
                for (const int64_t width : {3, 40}) {
                    SCOPED_TRACE(std::string(amp_dtype_name(from)) + " " + amp_dtype_name(to) + " " + attr);
                    amp_tensor *x = random_tensor(from, {2, 6, 3, width}, 5);
                    amp_tensor *y = op("batch_norm", {op("to", {x, AMP_F32}), mean, var, w, b});
                    if (strcmp(attr, "none") != 0) y = op(attr, {y});
                    const std::vector<double> want = numbers_of(op("to", {y, to}));
                    for (amp_tensor *t : {x, amp_channels_last(x)}) {
                        amp_tensor *made =
                            op("batch_norm_pointwise", {t, mean, var, w, b}, {{"attr", attr}, {"dtype", to}});
                        ASSERT_NE(made, nullptr) << amp_last_error();
                        EXPECT_EQ(amp_tensor_dtype(made), to);
                        EXPECT_EQ(numbers_of(made), want);
                    }
                }
            }
        }
    }
}

TEST_F(ChannelNorm, PointwiseOfF64) {
    amp_tensor *x = random_tensor(AMP_F64, {2, 6, 5}, 5), *mean = random_tensor(AMP_F64, {6}, 1);
    amp_tensor *var = op("exp", {random_tensor(AMP_F64, {6}, 2)});
    const std::vector<double> want = numbers_of(op("gelu", {op("batch_norm", {x, mean, var})}));
    expect_near(op("batch_norm_pointwise", {x, mean, var}, {{"attr", "gelu"}}), want, 1e-12);
    expect_near(op("batch_norm_pointwise", {x, mean, var}, {{"attr", "gelu"}, {"dtype", AMP_F32}}), want, 1e-6);
}

// As rows and as columns; zero counts as zero, with either sign.
TEST_F(ChannelNorm, ReluIsTakenAlongForAllNumbersOfBf16) {
    amp_tensor *x = tensor(AMP_BF16, {1, 4, 128, 128}), *mean = tensor(AMP_F32, {4}, {0, 1, -3, 0.01});
    auto *bits = static_cast<uint16_t *>(amp_data_mut(x));
    for (int i = 0; i < 65536; i++) bits[i] = uint16_t(i % 4 << 14 | i / 4); // every channel has both signs' small ones
    amp_tensor *var = tensor(AMP_F32, {4}, {1, 0.5, 2, 100}), *w = tensor(AMP_F32, {4}, {1, -2, 0.25, 3});
    amp_tensor *wide = op("relu", {op("batch_norm", {op("to", {x, AMP_F32}), mean, var, w})});
    const std::vector<double> want = numbers_of(op("to", {wide, AMP_BF16}));
    for (amp_tensor *t : {x, amp_channels_last(x)}) {
        const std::vector<double> got = numbers_of(op("batch_norm_pointwise", {t, mean, var, w}, {{"attr", "relu"}}));
        ASSERT_EQ(got.size(), want.size());
        size_t wrong = 0;
        for (size_t i = 0; i < got.size(); i++)
            wrong += got[i] != want[i] && !(std::isnan(got[i]) && std::isnan(want[i]));
        EXPECT_EQ(wrong, 0u);
    }
}

TEST_F(ChannelNorm, Nothing) {
    amp_tensor *mean = tensor(AMP_F32, {3}, {1}), *var = tensor(AMP_F32, {3}, {2});
    EXPECT_EQ(amp_tensor_numel(op("batch_norm", {tensor(AMP_F32, {0, 3, 4}), mean, var}, {{"training", true}})), 0);
    EXPECT_EQ(numbers_of(mean)[0], 1);
    EXPECT_EQ(amp_tensor_numel(op("group_norm", {tensor(AMP_F32, {0, 4, 4}), 2})), 0);
    EXPECT_EQ(amp_tensor_numel(op("group_norm", {tensor(AMP_F32, {2, 4, 0}), 2})), 0);
    EXPECT_EQ(amp_tensor_numel(op("instance_norm", {tensor(AMP_F32, {2, 4, 0})})), 0);
    EXPECT_EQ(amp_tensor_numel(op("instance_norm", {tensor(AMP_F32, {0, 4, 5})})), 0);
}

TEST_F(ChannelNorm, RefuseBadInput) {
    amp_tensor *x = tensor(AMP_F32, {2, 4, 3}), *three = tensor(AMP_F32, {3}), *four = tensor(AMP_F32, {4});
    EXPECT_EQ(op("batch_norm", {x, nullptr, nullptr}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm", "running_mean", "training"}));
    EXPECT_EQ(op("batch_norm", {x, four, nullptr}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm", "running_var", "training"}));
    EXPECT_EQ(op("batch_norm", {x, four, four, three}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm", "weight", "[3]", "[2, 4, 3]", "[4]"}));
    EXPECT_EQ(op("batch_norm", {tensor(AMP_F32, {1, 4}), four, four}, {{"training", true}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm", "[1, 4]", "more than one"}));
    EXPECT_EQ(op("batch_norm", {four, four, four}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm", "[4]", "at least 2"}));
    EXPECT_EQ(op("group_norm", {x, 3}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"group_norm", "num_groups", "3", "[2, 4, 3]"}));
    EXPECT_EQ(op("group_norm", {x, 0}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"group_norm", "num_groups", "0"}));
    EXPECT_EQ(op("group_norm", {tensor(AMP_I64, {2, 4}), 2}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"group_norm", "i64", "floating"}));
    EXPECT_EQ(op("instance_norm", {tensor(AMP_F32, {2, 4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"instance_norm", "[2, 4]", "more than one"}));
    EXPECT_EQ(op("instance_norm", {x}, {{"use_input_stats", false}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"instance_norm", "running_mean", "use_input_stats"}));
    EXPECT_EQ(op("batch_norm_pointwise", {x, four, four}, {{"attr", "sine"}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm_pointwise", "attr", "sine", "relu"}));
    EXPECT_EQ(op("batch_norm_pointwise", {x, four, four}, {{"dtype", AMP_I64}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"batch_norm_pointwise", "dtype", "i64", "floating"}));
    EXPECT_EQ(op("batch_norm_pointwise", {x, three, four}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"batch_norm_pointwise", "running_mean", "[3]", "[4]"}));
}

} // namespace
