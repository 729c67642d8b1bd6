// What passes make of a function: which calls are left is read in the explain report, and the results are those of the
// ops one by one. Each idiom has a twin that nearly is one, and must stay as it is.
#include <functional>
#include <set>

#include "../explain/explain_report.h"

using namespace amp_test;

namespace {

using Function = std::function<amp_tensor *(amp_tensor *)>;

amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    outputs[0] = (*static_cast<Function *>(context))(inputs[0]);
    return amp_last_status();
}

// The names of the ops that a later run calls, sorted (the report has them by time), and how far its result is from theirs.
class Passes : public Test {
  protected:
    std::string calls(const Function &function, amp_tensor *x, double tolerance = 1e-5, bool exact = false) {
        Function copy = function;
        amp_graph_options options = {};
        options.struct_size = sizeof options;
        options.exact = exact;
        amp_graph *graph = amp_graph_trace("passes", compute, &copy, 1, 1, &options);
        amp_tensor *first = nullptr, *later = nullptr;
        EXPECT_EQ(amp_graph_run(graph, &x, 1, &first, 1), AMP_OK) << amp_last_error();
        amp_explain_reset();
        amp_explain_begin();
        EXPECT_EQ(amp_graph_run(graph, &x, 1, &later, 1), AMP_OK) << amp_last_error();
        amp_explain_end();
        std::string names;
        if (first && later) {
            const Report report;
            std::multiset<std::string> all;
            json_t *row = nullptr;
            size_t i = 0;
            json_array_foreach(json_object_get(report.root(), "ops"), i, row) {
                for (int64_t n = Report::number(row, "calls"); n > 0; n--) all.insert(Report::text(row, "op"));
            }
            for (const std::string &name : all) names += " " + name;
            EXPECT_EQ(numbers_of(first), numbers_of(later)) << "the first run is like the others";
            expect_near(later, numbers_of(function(x)), exact ? 0 : tolerance);
            EXPECT_TRUE(amp_tensor_is_contiguous(later) || amp_tensor_rank(later) < 3);
        }
        amp_graph_release(graph);
        return names;
    }
    bool has(const std::string &names, const std::string &name) {
        return (names + " ").find(" " + name + " ") != std::string::npos;
    }
    static amp_tensor *number(double value) {
        return tensor(AMP_F32, {}, {value});
    }
    amp_tensor *x = random_tensor(AMP_F32, {4, 16}, 1), *image = random_tensor(AMP_F32, {2, 8, 9, 7}, 2);
    amp_tensor *kernel = random_tensor(AMP_F32, {16, 8, 3, 3}, 3), *bias = random_tensor(AMP_F32, {16}, 4);
};

amp_tensor *gelu_of(amp_tensor *x, double root, double half) {
    amp_tensor *e = op("erf", {op("div", {x, tensor(AMP_F32, {}, {root})})});
    return op("mul", {op("mul", {x, op("add", {e, tensor(AMP_F32, {}, {1})})}), tensor(AMP_F32, {}, {half})});
}

} // namespace

TEST_F(Passes, Gelu) {
    EXPECT_EQ(calls([](amp_tensor *t) { return gelu_of(t, 1.4142135623730951, 0.5); }, x), " gelu");
    EXPECT_FALSE(has(calls([](amp_tensor *t) { return gelu_of(t, 1.5, 0.5); }, x), "gelu"));
    EXPECT_FALSE(has(calls([](amp_tensor *t) { return gelu_of(t, 1.4142135623730951, 0.4); }, x), "gelu"));
}

TEST_F(Passes, GatesOfSigmoids) {
    EXPECT_EQ(calls([](amp_tensor *t) { return op("mul", {t, op("sigmoid", {t})}); }, x), " silu");
    EXPECT_EQ(calls([](amp_tensor *t) { return op("mul", {op("hardsigmoid", {t}), t}); }, x), " hardswish");
    EXPECT_TRUE(has(calls(
                        [](amp_tensor *t) {
                            return op("mul", {op("relu", {t}), op("sigmoid", {t})});
                        },
                        x),
                    "sigmoid"));
    // somebody else reads the sigmoid
    EXPECT_TRUE(has(calls(
                        [](amp_tensor *t) {
                            amp_tensor *s = op("sigmoid", {t});
                            return op("add", {op("mul", {t, s}), op("exp", {s})});
                        },
                        x),
                    "sigmoid"));
}

TEST_F(Passes, AGateBesideWhatItGates) {
    const auto gated = [](amp_tensor *t, amp_tensor *g) { return op("add", {op("mul", {g, t}), t}); };
    const auto shared = [](amp_tensor *t) { return op("sigmoid", {op("mean", {t, AMP_DIMS(2, 3), true})}); };
    EXPECT_EQ(calls([=](amp_tensor *t) { return gated(t, shared(t)); }, image), " add_scalar mean mul sigmoid");
    // a gate for each element, one that is a constant, and a product that others read: nothing is gained
    amp_tensor *fixed = random_tensor(AMP_F32, {1, 8, 1, 1}, 32);
    EXPECT_EQ(calls([=](amp_tensor *t) { return gated(t, op("tanh", {t})); }, image), " add mul tanh");
    EXPECT_EQ(calls([=](amp_tensor *t) { return gated(t, fixed); }, image), " add mul");
    EXPECT_EQ(calls(
                  [=](amp_tensor *t) {
                      amp_tensor *p = op("mul", {t, shared(t)});
                      return op("mul", {op("add", {t, p}), p});
                  },
                  image),
              " add mean mul mul sigmoid");
}

TEST_F(Passes, HardSwishByClamp) {
    const auto by = [this](double low) {
        return calls(
            [low](amp_tensor *t) {
                amp_tensor *c = op("clamp", {op("add", {t, tensor(AMP_F32, {}, {3})}), low, 6.0});
                return op("div", {op("mul", {t, c}), tensor(AMP_F32, {}, {6})});
            },
            x);
    };
    EXPECT_EQ(by(0), " hardswish");
    const auto by_tensors = [this](double high) {
        return calls(
            [high](amp_tensor *t) {
                amp_tensor *c = op("clamp.tensor", {op("add", {t, tensor(AMP_F32, {}, {3})}), tensor(AMP_F32, {}, {0}),
                                                    tensor(AMP_F32, {}, {high})});
                return op("div", {op("mul", {t, c}), tensor(AMP_F32, {}, {6})});
            },
            x);
    };
    EXPECT_EQ(by_tensors(6), " hardswish");
    EXPECT_FALSE(has(by_tensors(5), "hardswish"));
    EXPECT_FALSE(has(by(0.5), "hardswish"));
}

TEST_F(Passes, LayerNorm) {
    amp_tensor *w = random_tensor(AMP_F32, {16}, 5), *b = random_tensor(AMP_F32, {16}, 6);
    const auto over = [&](int dim) {
        return calls(
            [=](amp_tensor *t) {
                const std::vector<Named> kept = {{"keepdim", true}};
                amp_tensor *d = op("sub", {t, op("mean", {t, AMP_DIMS(dim)}, kept)});
                amp_tensor *v = op("mean", {op("pow", {d, tensor(AMP_F32, {}, {2})}), AMP_DIMS(dim)}, kept);
                amp_tensor *n = op("div", {d, op("sqrt", {op("add", {v, tensor(AMP_F32, {}, {1e-5})})})});
                return op("add", {op("mul", {n, w}), b});
            },
            x);
    };
    EXPECT_EQ(over(-1), " layer_norm");
    EXPECT_EQ(over(1), " layer_norm");
    EXPECT_FALSE(has(over(0), "layer_norm"));
}

TEST_F(Passes, Attention) {
    amp_tensor *k = random_tensor(AMP_F32, {2, 3, 8, 16}, 7), *v = random_tensor(AMP_F32, {2, 3, 8, 16}, 8);
    amp_tensor *q = random_tensor(AMP_F32, {2, 3, 5, 16}, 9), *mask = random_tensor(AMP_F32, {2, 1, 1, 8}, 10);
    const auto along = [&](int dim) {
        return calls(
            [=](amp_tensor *t) {
                amp_tensor *s = op("div", {op("matmul", {t, op("transpose", {k, -2, -1})}), tensor(AMP_F32, {}, {4})});
                return op("matmul", {op("softmax", {op("add", {s, mask}), dim}), v});
            },
            q);
    };
    EXPECT_TRUE(has(along(-1), "scaled_dot_product_attention"));
    EXPECT_TRUE(has(along(3), "scaled_dot_product_attention"));
    EXPECT_FALSE(has(along(2), "scaled_dot_product_attention"));
}

TEST_F(Passes, ConvolutionsTakeWhatFollows) {
    amp_tensor *mean = random_tensor(AMP_F32, {16}, 11), *var = tensor(AMP_F32, {16}, {0.5, 1, 2});
    const auto convolved = [this](amp_tensor *t) { return op("conv2d", {t, kernel}, {{"padding", 1}}); };
    const std::string normed = calls(
        [&](amp_tensor *t) {
            return op("relu", {op("batch_norm", {convolved(t), mean, var, bias, bias}, {{"training", false}})});
        },
        image, 1e-4);
    EXPECT_TRUE(has(normed, "convolution_pointwise"));
    EXPECT_FALSE(has(normed, "batch_norm") || has(normed, "relu"));
    const std::string added = calls(
        [&](amp_tensor *t) {
            amp_tensor *y = op("add", {convolved(t), op("view", {bias, AMP_DIMS(1, 16, 1, 1)})});
            return op("clamp", {op("add", {y, op("exp", {op("neg", {y})})}), 0.0, 6.0});
        },
        image, 1e-4);
    EXPECT_TRUE(has(added, "clamp")) << "the sum has another reader: " << added;
    const std::string joined = calls(
        [&](amp_tensor *t) {
            amp_tensor *other = convolved(t);
            return op("relu", {op("add", {op("conv2d", {op("tanh", {t}), kernel, bias}, {{"padding", 1}}), other})});
        },
        image, 1e-4);
    EXPECT_FALSE(has(joined, "add") || has(joined, "relu")) << joined;
}

TEST_F(Passes, ChannelsLastWhereMoreThanOneConvolutionGains) {
    const auto convolved = [this](amp_tensor *t) { return op("conv2d", {t, kernel}, {{"padding", 1}}); };
    amp_tensor *next = random_tensor(AMP_F32, {8, 16, 3, 3}, 14);
    EXPECT_EQ(calls(convolved, image, 1e-4), " conv2d") << "only to be laid out back";
    EXPECT_EQ(calls([&](amp_tensor *t) { return op("relu", {convolved(t)}); }, image, 1e-4), " convolution_pointwise");
    const std::string two = calls([&](amp_tensor *t) { return op("conv2d", {convolved(t), next}); }, image, 1e-4);
    EXPECT_TRUE(has(two, "permute") && has(two, "contiguous")) << two;
}

// Between convolutions group norm keeps what lies so; what a transposed one makes of rows is laid out behind it.
TEST_F(Passes, ChannelsStayLastThroughGroupNorm) {
    amp_tensor *w = random_tensor(AMP_F32, {8, 8, 3, 3}, 30), *up = random_tensor(AMP_F32, {8, 8, 2, 2}, 31);
    const auto convolved = [=](amp_tensor *t) { return op("conv2d", {t, w}, {{"padding", 1}}); };
    const auto normed = [=](amp_tensor *t) { return op("silu", {op("group_norm", {t, 2})}); };
    const auto count = [](const std::string &names, const std::string &name) {
        int n = 0;
        for (size_t at = names.find(name); at != std::string::npos; at = names.find(name, at + 1)) n++;
        return n;
    };
    const std::string plain =
        calls([=](amp_tensor *t) { return convolved(normed(convolved(normed(convolved(t))))); }, image, 1e-3);
    EXPECT_EQ(count(plain, "contiguous"), 2) << plain << ": the input once, and the result once, row by row";
    const std::string raised = calls(
        [=](amp_tensor *t) {
            amp_tensor *large = op("conv_transpose2d", {op("contiguous", {op("tanh", {t})}), up}, {{"stride", 2}});
            return convolved(normed(convolved(normed(large))));
        },
        image, 1e-3);
    EXPECT_EQ(count(raised, "contiguous"), 2) << raised;
}

// From the first convolution to the last, through what lies between them, laid out once.
TEST_F(Passes, LinesHaveTheirChannelsLastToo) {
    amp_tensor *lines = random_tensor(AMP_F32, {2, 8, 30}, 27), *w = random_tensor(AMP_F32, {8, 8, 3}, 28);
    amp_tensor *up = random_tensor(AMP_F32, {8, 8, 4}, 29);
    const auto convolved = [=](amp_tensor *t) { return op("conv1d", {t, w}, {{"padding", 1}}); };
    EXPECT_EQ(calls(convolved, lines, 1e-4), " conv1d") << "only to be laid out back";
    const std::string names = calls(
        [=](amp_tensor *t) {
            amp_tensor *raised = op("conv_transpose1d", {op("sin", {convolved(t)}), up}, {{"stride", 2}});
            return convolved(op("add", {op("tanh", {convolved(raised)}), raised}));
        },
        lines, 1e-3);
    EXPECT_EQ(names,
              " add contiguous contiguous conv1d conv1d conv_transpose1d convolution_pointwise permute permute sin")
        << "once, and the result once, row by row";
}

TEST_F(Passes, FactorsByChannelBecomePartOfConvolutionsAndBatchNorms) {
    amp_tensor *factor = op("view", {random_tensor(AMP_F32, {16}, 21), AMP_DIMS(16, 1, 1)});
    amp_tensor *sum = op("view", {bias, AMP_DIMS(1, 16, 1, 1)}), *lines = random_tensor(AMP_F32, {9, 7}, 22);
    const auto scaled = [&](amp_tensor *t, amp_tensor *by) {
        return op("relu", {op("add", {op("mul", {by, op("conv2d", {t, kernel, bias}, {{"padding", 1}})}), sum})});
    };
    const std::string names = calls([&](amp_tensor *t) { return scaled(t, factor); }, image, 1e-4);
    EXPECT_FALSE(has(names, "mul") || has(names, "add") || has(names, "relu")) << names;
    EXPECT_TRUE(has(calls([&](amp_tensor *t) { return scaled(t, lines); }, image, 1e-4), "mul")) << "not by channel";
    amp_tensor *mean = random_tensor(AMP_F32, {8}, 23), *var = tensor(AMP_F32, {8}, {0.5, 1, 2});
    amp_tensor *by = op("view", {random_tensor(AMP_F32, {8}, 24), AMP_DIMS(1, 8, 1, 1)});
    const auto normed = [&](amp_tensor *t, bool read) {
        amp_tensor *n = op("batch_norm", {t, mean, var, mean, var}, {{"training", false}, {"eps", 0.01}});
        amp_tensor *y = op("add", {op("mul", {n, by}), by});
        return read ? op("mul", {y, op("exp", {n})}) : y;
    };
    EXPECT_EQ(calls([&](amp_tensor *t) { return normed(t, false); }, image, 1e-4), " batch_norm");
    EXPECT_EQ(calls([&](amp_tensor *t) { return op("relu", {normed(t, false)}); }, image, 1e-4),
              " batch_norm_pointwise");
    EXPECT_TRUE(has(calls(
                        [&](amp_tensor *t) {
                            amp_tensor *n = normed(t, false);
                            return op("mul", {op("relu", {n}), n});
                        },
                        image, 1e-4),
                    "relu"))
        << "it has another reader";
    EXPECT_TRUE(has(calls([&](amp_tensor *t) { return normed(t, true); }, image, 1e-4), "add"))
        << "it has another reader";
}

TEST_F(Passes, SumsOfLinesStayApart) {
    amp_tensor *lines = random_tensor(AMP_F32, {2, 8, 30}, 25), *w = random_tensor(AMP_F32, {8, 8, 3}, 26);
    const std::string names = calls(
        [&](amp_tensor *t) {
            return op("add", {op("conv1d", {t, w}, {{"padding", 1}}), t});
        },
        lines, 1e-4);
    EXPECT_TRUE(has(names, "add")) << names;
}

TEST_F(Passes, ProductsTakeWhatFollows) {
    amp_tensor *w = random_tensor(AMP_F32, {16, 12}, 12), *b = random_tensor(AMP_F32, {12}, 13);
    EXPECT_EQ(calls([=](amp_tensor *t) { return op("add", {op("matmul", {t, w}), b}); }, x), " linear");
    EXPECT_EQ(calls(
                  [=](amp_tensor *t) {
                      return op("gelu", {op("add", {b, op("matmul", {t, w})})});
                  },
                  x),
              " linear_pointwise");
    EXPECT_TRUE(has(calls(
                        [=](amp_tensor *t) {
                            return op("add", {op("matmul", {t, op("matmul", {op("t", {t}), t})}), x});
                        },
                        x),
                    "matmul"));
}

TEST_F(Passes, EqualCallsAreOne) {
    EXPECT_EQ(calls([](amp_tensor *t) { return op("add", {op("exp", {t}), op("exp", {t})}); }, x, 0), " add exp");
    EXPECT_EQ(calls(
                  [](amp_tensor *t) {
                      return op("add", {op("softmax", {t, 0}), op("softmax", {t, 1})});
                  },
                  x, 0),
              " add softmax softmax");
}

TEST_F(Passes, ExactGraphsFuseNothing) {
    const auto gelu = [](amp_tensor *t) { return gelu_of(t, 1.4142135623730951, 0.5); };
    EXPECT_FALSE(has(calls(gelu, x, 0, true), "gelu"));
    const auto layer = [this](amp_tensor *t) { return op("relu", {op("conv2d", {t, kernel, bias})}); };
    EXPECT_TRUE(has(calls(layer, image, 0, true), "relu"));
}

// ---- Under autocast: what the calls add in f32, what they are fused to adds in f32 ----

namespace {

class PassesInBf16 : public Passes {
  protected:
    // A later run's result; `rows` gets "op: inputs" of each call.
    amp_tensor *run(const Function &function, amp_tensor *t, std::string *rows, bool exact = false,
                    const amp_autocast_rules *rules = nullptr) {
        Function copy = function;
        amp_graph_options options = {};
        options.struct_size = sizeof options;
        options.exact = exact;
        amp_graph *graph = amp_graph_trace("passes", compute, &copy, 1, 1, &options);
        amp_tensor *first = nullptr, *later = nullptr;
        amp_autocast(AMP_DEVICE_CPU, AMP_DTYPE_NONE, true, true, false, false, nullptr, rules) {
            EXPECT_EQ(amp_graph_run(graph, &t, 1, &first, 1), AMP_OK) << amp_last_error();
            amp_explain_reset();
            amp_explain_begin();
            EXPECT_EQ(amp_graph_run(graph, &t, 1, &later, 1), AMP_OK) << amp_last_error();
            amp_explain_end();
        }
        const Report report;
        json_t *row = nullptr;
        size_t i = 0;
        json_array_foreach(json_object_get(report.root(), "ops"), i, row) {
            *rows += Report::text(row, "op") + ": " + Report::text(row, "inputs") + "\n";
        }
        if (first && later) {
            EXPECT_EQ(numbers_of(first), numbers_of(later));
        }
        amp_graph_release(graph);
        return later;
    }
    amp_tensor *half(amp_tensor *t) {
        return op("to", {t, AMP_BF16});
    }
    amp_tensor *channels(amp_tensor *t) {
        return op("view", {t, AMP_DIMS(1, 16, 1, 1)});
    }
    amp_tensor *w = random_tensor(AMP_F32, {16, 12}, 12), *b = random_tensor(AMP_F32, {12}, 13);
};

} // namespace

TEST_F(PassesInBf16, ABiasThatStandsApartIsNotRounded) {
    std::string rows;
    amp_tensor *y = run([this](amp_tensor *t) { return op("add", {op("matmul", {t, w}), b}); }, x, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(rows.rfind("linear_pointwise: ", 0), 0u) << rows;
    amp_tensor *by_hand = op("linear_pointwise", {half(x), half(op("t", {w}))}, {{"shift", b}, {"dtype", AMP_F32}});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_F32);
    EXPECT_EQ(numbers_of(y), numbers_of(by_hand));
    // that of the op itself is an argument that the region casts
    rows.clear();
    y = run([this](amp_tensor *t) { return op("relu", {op("linear", {t, op("t", {w}), b})}); }, x, &rows);
    by_hand = op("linear_pointwise", {half(x), half(op("t", {w})), half(b), "relu"});
    EXPECT_EQ(numbers_of(y), numbers_of(by_hand)) << rows;
}

TEST_F(PassesInBf16, WhatIsAddedInF32StaysF32) {
    amp_tensor *stream = random_tensor(AMP_F32, {2, 16, 9, 7}, 14);
    std::string rows;
    amp_tensor *y = run(
        [&](amp_tensor *t) {
            amp_tensor *c = op("add", {op("conv2d", {t, kernel}, {{"padding", 1}}), channels(bias)});
            return op("relu", {op("add", {stream, c})});
        },
        image, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(rows.find("add:"), std::string::npos) << rows;
    amp_tensor *by_hand =
        op("convolution_pointwise", {half(image), half(kernel)},
           {{"padding", AMP_DIMS(1)}, {"attr", "relu"}, {"shift", bias}, {"residual", stream}, {"dtype", AMP_F32}});
    expect_near(y, numbers_of(by_hand), 1e-5);
    // a residual of bf16 and a product of bf16 are added in bf16, and the result is one
    rows.clear();
    y = run(
        [&](amp_tensor *t) {
            amp_tensor *other = op("conv2d", {t, kernel}, {{"padding", 1}});
            return op("add", {op("conv2d", {op("tanh", {t}), kernel}, {{"padding", 1}}), other});
        },
        image, &rows);
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16) << rows;
}

TEST_F(PassesInBf16, FactorsOfBatchNormAndItsBiasAreNotRounded) {
    amp_tensor *mean = op("mul.scalar", {random_tensor(AMP_F32, {16}, 11), 100.0}),
               *var = tensor(AMP_F32, {16}, {0.5, 1, 2});
    const auto network = [&](amp_tensor *t) {
        amp_tensor *c = op("conv2d", {t, kernel, bias}, {{"padding", 1}});
        return op("batch_norm", {c, mean, var, bias, bias}, {{"training", false}});
    };
    std::string rows;
    amp_tensor *y = run(network, image, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(rows.find("batch_norm"), std::string::npos) << rows;
    const std::vector<double> exact = numbers_of(network(image)), got = numbers_of(y);
    double worst = 0; // of results around 100: half a unit of bf16 and the errors of the operands
    for (size_t i = 0; i < got.size(); i++)
        worst = std::max(worst, std::fabs(got[i] - exact[i]) / (1 + std::fabs(exact[i])));
    EXPECT_LT(worst, 0.02);
}

TEST_F(PassesInBf16, IsRoundedWhereEveryReaderRounds) {
    amp_tensor *second = random_tensor(AMP_F32, {8, 16, 1, 1}, 15), *third = random_tensor(AMP_F32, {4, 16, 3, 3}, 16);
    const auto network = [&](amp_tensor *t, bool read) {
        amp_tensor *c = op("relu", {op("add", {op("conv2d", {t, kernel}, {{"padding", 1}}), channels(bias)})});
        amp_tensor *y = op("sum", {op("add", {op("conv2d", {c, second}),
                                              op("view", {random_tensor(AMP_F32, {8}, 17), AMP_DIMS(1, 8, 1, 1)})})});
        y = op("add", {y, op("sum", {op("conv2d", {op("max_pool2d", {c, AMP_DIMS(2, 2)}), third})})});
        return read ? op("add", {y, op("sum", {c})}) : y;
    };
    std::string rows;
    run([&](amp_tensor *t) { return network(t, false); }, image, &rows);
    EXPECT_NE(rows.find("convolution_pointwise: bf16[2, 16, 9, 7]"), std::string::npos) << rows;
    EXPECT_NE(rows.find("max_pool2d: bf16[2, 16, 9, 7]"), std::string::npos) << rows;
    rows.clear();
    run([&](amp_tensor *t) { return network(t, true); }, image, &rows);
    EXPECT_NE(rows.find("convolution_pointwise: f32[2, 16, 9, 7]"), std::string::npos) << rows;
    EXPECT_NE(rows.find("sum: f32[2, 16, 9, 7]"), std::string::npos) << rows;
}

TEST_F(PassesInBf16, IsRoundedBeforeItIsJoinedOrRepeated) {
    amp_tensor *wide = random_tensor(AMP_F32, {4, 16, 3, 3}, 21);
    const auto network = [&](amp_tensor *t, const char *mode, bool read) {
        amp_tensor *sum = op("exp", {t}), *large = op("interpolate", {sum}, {{"scale_factor", 2.0}, {"mode", mode}});
        amp_tensor *all = op("cat", {std::vector<amp_tensor *>{large, large}, 1}), *y = op("conv2d", {all, wide});
        return read ? op("add", {op("sum", {y}), op("sum", {all})}) : y;
    };
    std::string rows;
    amp_tensor *y = run([&](amp_tensor *t) { return network(t, "nearest", false); }, image, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_NE(rows.find("interpolate: bf16[2, 8, 9, 7]"), std::string::npos) << rows;
    EXPECT_NE(rows.find("cat: bf16[2, 8, 18, 14]"), std::string::npos) << rows;
    rows.clear();
    (void)run( // two of one value, which is rounded once
        [&](amp_tensor *t) {
            amp_tensor *e = op("exp", {t});
            return op("conv2d", {op("cat", {std::vector<amp_tensor *>{e, e}, 1}), wide});
        },
        op("slice", {image, 1, 0, 8}), &rows);
    EXPECT_EQ(rows.find("to: "), rows.rfind("to: ")) << rows;
    EXPECT_NE(rows.find("cat: bf16"), std::string::npos) << rows;
    amp_tensor *once = nullptr;
    amp_autocast(AMP_DEVICE_CPU) {
        once = network(image, "nearest", false);
    }
    EXPECT_EQ(numbers_of(y), numbers_of(once)) << "the same bits";
    for (const bool read : {false, true}) { // numbers between pixels, or a reader that sees all of them
        rows.clear();
        (void)run([&](amp_tensor *t) { return network(t, read ? "nearest" : "bilinear", read); }, image, &rows);
        EXPECT_NE(rows.find("interpolate: f32"), std::string::npos) << rows;
    }
}

TEST_F(PassesInBf16, FactorsBehindABatchNormOfBf16AreItsOwn) {
    amp_tensor *mean = random_tensor(AMP_F32, {16}, 22), *var = op("exp", {random_tensor(AMP_F32, {16}, 23)});
    amp_tensor *factor = random_tensor(AMP_F32, {16}, 24), *wide = random_tensor(AMP_F32, {4, 16, 3, 3}, 25);
    const auto network = [&](amp_tensor *t, bool read) {
        amp_tensor *pooled = op("avg_pool2d", {op("conv2d", {t, kernel}, {{"padding", 1}}), AMP_DIMS(2, 2)});
        amp_tensor *n = op("batch_norm", {pooled, mean, var, bias, bias}, {{"training", false}});
        n = op("relu", {op("add", {op("mul", {n, channels(factor)}), channels(bias)})});
        amp_tensor *y = op("conv2d", {n, wide});
        return read ? op("add", {op("sum", {y}), op("sum", {n})}) : y;
    };
    std::string rows;
    amp_tensor *y = run([&](amp_tensor *t) { return network(t, false); }, image, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(rows.find("mul:"), std::string::npos) << rows;
    EXPECT_EQ(rows.find("add:"), std::string::npos) << rows;
    EXPECT_NE(rows.find("batch_norm_pointwise: bf16"), std::string::npos) << rows;
    expect_near(y, numbers_of(network(image, false)), 0.05);
    rows.clear();
    (void)run([&](amp_tensor *t) { return network(t, true); }, image, &rows);
    EXPECT_NE(rows.find("add: f32[2, 16, 4, 3]"), std::string::npos) << "a reader sees the sum in f32: " << rows;
}

TEST_F(PassesInBf16, NormsOfF32AreRoundedWhereTheirReadersRound) {
    amp_tensor *mean = random_tensor(AMP_F32, {8}, 22), *var = op("exp", {random_tensor(AMP_F32, {8}, 23)});
    const auto network = [&](bool read) {
        return [&, read](amp_tensor *t) {
            amp_tensor *n = op("relu", {op("batch_norm", {t, mean, var, var, mean})});
            amp_tensor *y = op("conv2d", {op("max_pool2d", {n, AMP_DIMS(2, 2)}), kernel});
            return read ? op("add", {op("sum", {y}), op("sum", {n})}) : y;
        };
    };
    std::string rows, exact;
    amp_tensor *y = run(network(false), image, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_NE(rows.find("batch_norm_pointwise: f32"), std::string::npos) << rows;
    EXPECT_NE(rows.find("max_pool2d: bf16"), std::string::npos) << rows;
    EXPECT_EQ(numbers_of(y), numbers_of(run(network(false), image, &exact, true))) << "the bits of calls one by one";
    rows.clear();
    (void)run(network(true), image, &rows);
    EXPECT_NE(rows.find("max_pool2d: f32"), std::string::npos) << "a reader sees it in f32: " << rows;
    for (const char *text : {"amp-policy 1\nlower batch_norm\n", "amp-policy 1\nf32 relu\n"}) {
        amp_autocast_rules *rules = amp_autocast_rules_parse(text, "rules");
        rows.clear();
        (void)run(network(false), image, &rows, false, rules);
        EXPECT_NE(rows.find("relu: "), std::string::npos) << "the rule is for one of the two: " << rows;
        amp_autocast_rules_release(rules);
    }
}

TEST_F(PassesInBf16, TransformsOfWindowsWrittenAsConvolutionsAreInF32) {
    amp_tensor *sound = random_tensor(AMP_F32, {2, 1, 64}, 26), *learned = random_tensor(AMP_F32, {10, 1, 8}, 27);
    std::vector<double> numbers = numbers_of(learned);
    std::fill_n(numbers.begin() + 5 * 8, 8, 0.0); // the sine of frequency 0
    amp_tensor *basis = tensor(AMP_F32, {10, 1, 8}, numbers);
    const auto transform = [](amp_tensor *of, amp_tensor *bias) {
        return [of, bias](amp_tensor *t) { return op("conv1d", {t, of, bias}, {{"stride", 4}}); };
    };
    std::string rows;
    amp_tensor *y = run(transform(basis, nullptr), sound, &rows);
    ASSERT_NE(y, nullptr);
    EXPECT_EQ(amp_tensor_dtype(y), AMP_F32);
    EXPECT_EQ(numbers_of(y), numbers_of(transform(basis, nullptr)(sound)));
    // calls one by one know of no such thing, and these are others: learned; of 9, 11 or 12 rows, of two lines, with a bias
    amp_tensor *two = random_tensor(AMP_F32, {2, 2, 64}, 28);
    EXPECT_EQ(amp_tensor_dtype(run(transform(basis, nullptr), sound, &rows, true)), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(run(transform(learned, nullptr), sound, &rows)), AMP_BF16);
    for (const int64_t frequencies : {9, 11, 12}) {
        amp_tensor *other = random_tensor(AMP_F32, {frequencies, 1, 8}, 29);
        EXPECT_EQ(amp_tensor_dtype(run(transform(other, nullptr), sound, &rows)), AMP_BF16);
    }
    amp_tensor *of_two = random_tensor(AMP_F32, {10, 2, 8}, 30), *own = random_tensor(AMP_F32, {10}, 31);
    EXPECT_EQ(amp_tensor_dtype(run(transform(of_two, nullptr), two, &rows)), AMP_BF16);
    EXPECT_EQ(amp_tensor_dtype(run(transform(basis, own), sound, &rows)), AMP_BF16);
}

TEST_F(PassesInBf16, DepthwiseResultsAreRounded) {
    amp_tensor *deep = random_tensor(AMP_F32, {8, 1, 3, 3}, 18), *shift = random_tensor(AMP_F32, {8}, 19);
    amp_tensor *stream = random_tensor(AMP_F32, {2, 8, 9, 7}, 20);
    const auto layer = [&](amp_tensor *t) {
        amp_tensor *c = op("conv2d", {t, deep}, {{"padding", 1}, {"groups", 8}});
        return op("add", {c, op("view", {shift, AMP_DIMS(1, 8, 1, 1)})});
    };
    std::string rows;
    (void)run([&](amp_tensor *t) { return op("sum", {op("relu", {layer(t)})}); }, image, &rows);
    EXPECT_NE(rows.find("sum: bf16"), std::string::npos) << rows;
    rows.clear();
    (void)run([&](amp_tensor *t) { return op("add", {layer(t), stream}); }, image, &rows);
    EXPECT_NE(rows.find("add: "), std::string::npos) << "what is added to it in f32 stays apart: " << rows;
}
