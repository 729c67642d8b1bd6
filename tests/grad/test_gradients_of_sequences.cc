// Gradients of attention, recurrent networks, distances and the losses that are run once more: where no recorded case reaches. In f64,
// beside differences, and beside themselves as they are where they are recorded.
#include <cmath>
#include <functional>

#include "amp_test.h"

using namespace amp_test;

namespace {

using Tensors = std::vector<amp_tensor *>;
using Function = std::function<Tensors(const Tensors &)>;

class GradientsOfSequences : public Test {
  protected:
    // Numbers of which no two are alike, about 0.
    static std::vector<double> waves(size_t count, double phase) {
        std::vector<double> numbers(count);
        for (size_t i = 0; i < count; i++) numbers[i] = 0.7 * std::sin(1.7 * double(i) + phase * double(i % 7 + 1));
        return numbers;
    }
    static amp_tensor *wave(const Shape &shape, double phase) {
        size_t count = 1;
        for (int64_t extent : shape) count *= size_t(extent);
        return tensor(AMP_F64, shape, waves(count, phase));
    }
    static amp_tensor *like(amp_tensor *t, double phase) {
        Shape shape;
        for (int d = 0; d < amp_tensor_rank(t); d++) shape.push_back(amp_tensor_size(t, d));
        return wave(shape, phase);
    }
    // The sum of all results, each with other weights.
    static amp_tensor *weighed(const Function &f, const Tensors &inputs) {
        amp_tensor *sum = nullptr;
        double phase = 0.3;
        for (amp_tensor *t : f(inputs)) {
            EXPECT_NE(t, nullptr) << amp_last_error();
            if (!t) return nullptr;
            amp_tensor *part = op("sum", {op("mul", {t, like(t, phase += 0.4)})});
            sum = sum ? op("add", {sum, part}) : part;
        }
        return sum;
    }
    static Tensors gradients(amp_tensor *loss, Tensors &inputs, bool create) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {&loss, 1, nullptr};
        args.inputs = {inputs.data(), int64_t(inputs.size()), nullptr};
        args.retain_graph = true;
        args.create_graph = create;
        const amp_tensor_list list = amp_grad_call(&args);
        EXPECT_EQ(list.count, int64_t(inputs.size())) << amp_last_error();
        return Tensors(list.items, list.items + list.count);
    }
    static double dot(amp_tensor *a, amp_tensor *b) {
        return amp_item(op("sum", {op("mul", {op("detach", {a}), b})}));
    }
    // What the loss changes by along `direction` of one input.
    static double difference(const Function &f, Tensors inputs, size_t which, amp_tensor *direction) {
        const double h = 1e-5;
        amp_tensor *middle = op("detach", {inputs[which]}), *step = op("mul", {direction, h});
        inputs[which] = op("add", {middle, step});
        const double above = amp_item(weighed(f, inputs));
        inputs[which] = op("sub", {middle, step});
        return (above - amp_item(weighed(f, inputs))) / (2 * h);
    }
    static void expect_slopes(const Function &f, Tensors inputs) {
        for (amp_tensor *t : inputs) ASSERT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK) << amp_last_error();
        amp_tensor *loss = weighed(f, inputs);
        ASSERT_NE(loss, nullptr);
        const Tensors plain = gradients(loss, inputs, false), recorded = gradients(loss, inputs, true);
        ASSERT_EQ(plain.size(), inputs.size());
        ASSERT_EQ(recorded.size(), inputs.size());
        for (size_t i = 0; i < inputs.size(); i++) {
            SCOPED_TRACE("input " + std::to_string(i));
            amp_tensor *direction = like(inputs[i], 2.1 + double(i));
            const double slope = dot(plain[i], direction), want = difference(f, inputs, i, direction);
            EXPECT_NEAR(slope, want, 1e-6 * (1 + std::fabs(want)));
            EXPECT_NEAR(dot(recorded[i], direction), slope, 1e-9 * (1 + std::fabs(slope)));
        }
    }
    // And the gradients' own, by the first input.
    static void expect_second_slopes(const Function &f, Tensors inputs) {
        const Function slopes = [&f](const Tensors &at) {
            Tensors copies;
            for (amp_tensor *t : at) {
                amp_tensor *copy = amp_tensor_requires_grad(t) ? t : op("detach", {t});
                EXPECT_EQ(amp_tensor_set_requires_grad(copy, true), AMP_OK) << amp_last_error();
                copies.push_back(copy);
            }
            return gradients(weighed(f, copies), copies, true);
        };
        expect_slopes(slopes, inputs);
    }
};

TEST_F(GradientsOfSequences, AttentionInSeveralBlocksOfRows) {
    const int64_t heads = 16, rows = 520, depth = 3;
    const Tensors inputs = {wave({heads, rows, depth}, 0.1), wave({heads, rows, depth}, 0.5),
                            wave({heads, rows, 2}, 0.9)};
    expect_slopes(
        [](const Tensors &t) {
            return Tensors{op("scaled_dot_product_attention", {t[0], t[1], t[2]}, {{"is_causal", true}})};
        },
        inputs);
    for (const Shape &shape : {Shape{rows, rows}, Shape{heads, 1, rows}}) {
        Tensors all = {wave({heads, rows, depth}, 0.1), wave({heads, rows, depth}, 0.5), wave({heads, rows, 2}, 0.9),
                       wave(shape, 1.3)};
        expect_slopes(
            [](const Tensors &t) {
                return Tensors{op("scaled_dot_product_attention", {t[0], t[1], t[2], t[3]}, {{"scale", 0.4}})};
            },
            all);
    }
}

TEST_F(GradientsOfSequences, AttentionOfSharedHeadsAndOfItself) {
    expect_second_slopes(
        [](const Tensors &t) {
            return Tensors{
                op("scaled_dot_product_attention", {t[0], t[1], t[2]}, {{"enable_gqa", true}, {"is_causal", true}})};
        },
        {wave({2, 4, 3, 2}, 0.2), wave({2, 2, 3, 2}, 0.6), wave({2, 2, 3, 2}, 1.1)});
    expect_second_slopes(
        [](const Tensors &t) {
            return Tensors{op("scaled_dot_product_attention", {t[0], t[0], t[0]})};
        },
        {wave({2, 4, 3}, 0.2)});
}

TEST_F(GradientsOfSequences, ARowThatSeesNothingHasZeros) {
    amp_tensor *q = wave({2, 3}, 0.2), *k = wave({2, 3}, 0.5), *v = wave({2, 3}, 0.8),
               *mask = tensor(AMP_BOOL, {2, 2}, {0, 0, 1, 1});
    const Function f = [mask](const Tensors &t) {
        return Tensors{op("scaled_dot_product_attention", {t[0], t[1], t[2], mask})};
    };
    expect_second_slopes(f, {q, k, v});
}

TEST_F(GradientsOfSequences, WeightsOfHeadsHaveGradientsToo) {
    const Function f = [](const Tensors &t) {
        Tensors results;
        EXPECT_EQ(call("native_multi_head_attention", {t[0], t[0], t[0], 4, 2, t[1], t[2], t[3], t[4]}, {}, &results),
                  AMP_OK)
            << amp_last_error();
        return results;
    };
    expect_slopes(f, {wave({2, 3, 4}, 0.1), wave({12, 4}, 0.4), wave({12}, 0.7), wave({4, 4}, 1.0), wave({4}, 1.3)});
}

Tensors run_layers(const char *name, const Tensors &t, size_t states, int64_t layers, bool both, bool batch_first) {
    Tensors results;
    const Tensors hx(t.begin() + 1, t.begin() + 1 + int64_t(states)), params(t.begin() + 1 + int64_t(states), t.end());
    EXPECT_EQ(call(name, {t[0], hx, params, false, layers, 0.0, true, both, batch_first}, {}, &results), AMP_OK)
        << amp_last_error();
    return results;
}

TEST_F(GradientsOfSequences, ProjectedLayersInBothDirections) {
    Tensors t = {wave({2, 4, 3}, 0.1), wave({4, 2, 2}, 0.3), wave({4, 2, 3}, 0.5)};
    for (int i = 0; i < 4; i++) {
        t.push_back(wave({12, i < 2 ? 3 : 4}, 0.7 + i));
        t.push_back(wave({12, 2}, 0.9 + i));
        t.push_back(wave({2, 3}, 1.1 + i));
    }
    expect_slopes([](const Tensors &at) { return run_layers("lstm", at, 2, 2, true, true); }, t);
}

TEST_F(GradientsOfSequences, LayersHaveGradientsOfGradients) {
    for (const auto &[name, gates] : {std::pair("gru", 3), std::pair("rnn_tanh", 1)}) {
        SCOPED_TRACE(name);
        const char *const which = name;
        expect_second_slopes(
            [which](const Tensors &at) { return run_layers(which, at, 1, 1, false, false); },
            {wave({3, 2, 2}, 0.1), wave({1, 2, 3}, 0.3), wave({gates * 3, 2}, 0.5), wave({gates * 3, 3}, 0.7)});
    }
}

// Of weights that a region casts: sums of bf16 products are not rounded on their way to an f32 gradient.
TEST_F(GradientsOfSequences, WeightsInF32GetMoreThanBf16Holds) {
    const auto has_more = [](amp_tensor *t) {
        EXPECT_EQ(amp_tensor_dtype(t), AMP_F32);
        return numbers_of(op("to", {t, AMP_BF16})) != numbers_of(t);
    };
    Tensors lstm = {random_tensor(AMP_F32, {12, 5}, 1), random_tensor(AMP_F32, {12, 3}, 2)};
    Tensors conv = {random_tensor(AMP_F32, {32, 32, 3, 3}, 3), random_tensor(AMP_F32, {32}, 4)};
    for (amp_tensor *t : {lstm[0], lstm[1], conv[0], conv[1]}) (void)amp_tensor_set_requires_grad(t, true);
    amp_tensor *state = random_tensor(AMP_F32, {1, 2, 3}, 5), *images = random_tensor(AMP_F32, {2, 32, 6, 6}, 6);
    amp_tensor *sum;
    {
        const Region region;
        amp_tensor *y = run_layers("lstm", {random_tensor(AMP_F32, {7, 2, 5}, 7), state, state, lstm[0], lstm[1]}, 2, 1,
                                   false, false)[0];
        ASSERT_NE(y, nullptr) << amp_last_error();
        sum = op("add",
                 {op("sum", {op("mul", {y, y})}), op("sum", {op("sin", {op("conv2d", {images, conv[0], conv[1]})})})});
    }
    amp_backward_args args = {};
    args.struct_size = sizeof args;
    args.loss = sum;
    ASSERT_EQ(amp_backward_call(&args), AMP_OK) << amp_last_error();
    for (amp_tensor *t : {lstm[0], lstm[1], conv[0], conv[1]})
        EXPECT_TRUE(has_more(amp_tensor_grad(t))) << amp_tensor_rank(t) << " " << amp_tensor_size(t, -1);
}

TEST_F(GradientsOfSequences, ACellWhoseInputIsItsState) {
    expect_second_slopes(
        [](const Tensors &t) {
            Tensors results;
            EXPECT_EQ(call("lstm_cell", {t[0], Tensors{t[0], t[0]}, t[1], t[1]}, {}, &results), AMP_OK)
                << amp_last_error();
            return results;
        },
        {wave({3}, 0.2), wave({12, 3}, 0.6)});
}

TEST_F(GradientsOfSequences, AlignmentsOfLabelsInARow) {
    amp_tensor *labels = tensor(AMP_I32, {5}, {1, 1, 2, 2, 1}), *frames = tensor(AMP_I32, {3}, {6, 3, 4}),
               *lengths = tensor(AMP_I32, {3}, {3, 0, 2});
    for (const char *reduction : {"none", "mean", "sum"}) {
        expect_second_slopes(
            [=](const Tensors &t) {
                return Tensors{op("ctc_loss", {t[0], labels, frames, lengths}, {{"reduction", reduction}})};
            },
            {wave({6, 3, 3}, 0.2)});
    }
    amp_tensor *one = tensor(AMP_I64, {2}, {2, 2}), *few = tensor(AMP_I64, {}, {5}), *two = tensor(AMP_I64, {}, {2});
    expect_slopes(
        [=](const Tensors &t) {
            return Tensors{op("ctc_loss", {t[0], one, few, two}, {{"reduction", "none"}})};
        },
        {wave({6, 3}, 0.4)});
}

TEST_F(GradientsOfSequences, DistancesInSeveralBlocksOfPoints) {
    for (double p : {2.0, 2.5, 3.0}) { // below 2 a difference that is nearly 0 has a kink within the step
        SCOPED_TRACE(p);
        expect_slopes(
            [p](const Tensors &t) {
                return Tensors{op("cdist", {t[0], t[1]}, {{"p", p}})};
            },
            {wave({2, 170, 10}, 0.1), wave({400, 10}, 0.45)});
    }
    expect_second_slopes(
        [](const Tensors &t) {
            return Tensors{op("cdist", {t[0], t[1]}), op("pdist", {t[0]})};
        },
        {wave({3, 2}, 0.1), wave({4, 2}, 0.45)});
}

TEST_F(GradientsOfSequences, CosinesOfATensorWithItself) {
    expect_second_slopes(
        [](const Tensors &t) {
            amp_tensor *other = op("roll", {t[0], AMP_DIMS(1), AMP_DIMS(1)});
            return Tensors{op("cosine_similarity", {t[0], other}), op("cosine_similarity", {t[0], t[0]})};
        },
        {wave({3, 4}, 0.3)});
}

TEST_F(GradientsOfSequences, AVarianceForEachRow) {
    amp_tensor *x = wave({3, 4}, 0.2), *y = wave({3, 4}, 0.5), *v = op("add", {op("abs", {wave({3}, 0.7)}), 0.1});
    expect_slopes(
        [](const Tensors &t) {
            return Tensors{op("gaussian_nll_loss", {t[0], t[1], t[2]}, {{"full", true}})};
        },
        {x, y, v});
}

} // namespace
