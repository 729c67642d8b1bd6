// LSTM, GRU and RNN against the equations of ONNX's documentation in f64: directions, lengths, peepholes, clipping, activations.
#include "one_node.h"

#include <functional>
#include <random>

using namespace one_node;
using onnx_writer::float_attribute;
using onnx_writer::int_attribute;
using onnx_writer::text_attribute;

namespace {

using Function = std::function<double(double)>;

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

struct Choice {
    std::string name;
    Function f; // alpha is 0.3, beta 0.4
};

const std::vector<Choice> choices = {
    {"Sigmoid", sigmoid},
    {"Tanh", [](double x) { return std::tanh(x); }},
    {"Relu", [](double x) { return std::max(x, 0.0); }},
    {"Affine", [](double x) { return 0.3 * x + 0.4; }},
    {"LeakyRelu", [](double x) { return x < 0 ? 0.3 * x : x; }},
    {"ThresholdedRelu", [](double x) { return x > 0.3 ? x : 0; }},
    {"ScaledTanh", [](double x) { return 0.3 * std::tanh(0.4 * x); }},
    {"HardSigmoid", [](double x) { return std::min(1.0, std::max(0.0, 0.3 * x + 0.4)); }},
    {"Elu", [](double x) { return x < 0 ? 0.3 * std::expm1(x) : x; }},
    {"Softsign", [](double x) { return x / (1 + std::fabs(x)); }},
    {"Softplus", [](double x) { return std::log1p(std::exp(x)); }},
};

struct Problem {
    std::string type;
    int64_t gates, steps = 5, batch = 3, input = 4, hidden = 2, directions = 1;
    bool backward = false, batch_first = false, coupled = false, before_reset = false;
    double clip = 0;
    Tensors inputs = {}; // X W R B lengths h c P
    std::vector<Choice> functions = {};
};

// A sum that is a gate's argument.
using Rows = std::vector<double>;

class OnnxRecurrent : public one_node::Test {
  protected:
    struct Answer {
        Numbers y, h, c;
    };
    // One sequence in one direction; X as (steps, batch, input).
    void run_sequence(const Problem &p, int64_t d, int64_t b, Answer *to) const {
        Numbers x(p.inputs[0]), w(p.inputs[1]), r(p.inputs[2]);
        const bool has_bias = p.inputs[3] != nullptr;
        Numbers bias = has_bias ? Numbers(p.inputs[3]) : Numbers({p.directions, 2 * p.gates * p.hidden}, 0);
        Rows h = state(p, 5, d, b), c = state(p, 6, d, b);
        const int64_t length = p.inputs[4] ? int64_t(numbers_of(p.inputs[4])[size_t(b)]) : p.steps;
        for (int64_t i = 0; i < length; i++) {
            const int64_t t = p.backward || d == 1 ? length - 1 - i : i;
            const auto from_input = [&](int64_t row) {
                double sum = bias.at({d, row});
                for (int64_t k = 0; k < p.input; k++) sum += w.at({d, row, k}) * x.at({t, b, k});
                return sum;
            };
            const auto from_state = [&](int64_t row, const Rows &state) {
                double sum = bias.at({d, p.gates * p.hidden + row});
                for (int64_t k = 0; k < p.hidden; k++) sum += r.at({d, row, k}) * state[size_t(k)];
                return sum;
            };
            step(p, d, from_input, from_state, &h, &c);
            for (int64_t j = 0; j < p.hidden; j++) to->y.at({t, d, b, j}) = h[size_t(j)];
        }
        for (int64_t j = 0; j < p.hidden; j++) {
            to->h.at({d, b, j}) = h[size_t(j)];
            to->c.at({d, b, j}) = c[size_t(j)];
        }
    }
    static Rows state(const Problem &p, size_t i, int64_t d, int64_t b) {
        Rows rows(size_t(p.hidden), 0);
        for (int64_t j = 0; j < p.hidden && i < p.inputs.size() && p.inputs[i]; j++)
            rows[size_t(j)] = Numbers(p.inputs[i]).at({d, b, j});
        return rows;
    }
    static double clipped(const Problem &p, double x) {
        return p.clip > 0 ? std::min(p.clip, std::max(-p.clip, x)) : x;
    }
    template <class In, class State>
    static void step(const Problem &p, int64_t d, const In &in, const State &from, Rows *h, Rows *c) {
        const size_t per = p.functions.size() / size_t(p.directions);
        const auto f = [&](size_t k, double x) { return p.functions[size_t(d) * per + k].f(x); };
        const int64_t n = p.hidden;
        Rows old = *h, reset(size_t(n), 1);
        for (int64_t j = 0; j < n && p.gates == 3; j++)
            reset[size_t(j)] = f(0, clipped(p, in(n + j) + from(n + j, old)));
        Rows damped = old;
        for (int64_t j = 0; j < n; j++) damped[size_t(j)] *= reset[size_t(j)];
        for (int64_t j = 0; j < n; j++) {
            const size_t at = size_t(j);
            if (p.gates == 1) {
                (*h)[at] = f(0, clipped(p, in(j) + from(j, old)));
            } else if (p.gates == 3) {
                const double update = f(0, clipped(p, in(j) + from(j, old)));
                const double state = p.before_reset ? reset[at] * from(2 * n + j, old) : from(2 * n + j, damped);
                const double fresh = f(1, clipped(p, in(2 * n + j) + state));
                (*h)[at] = (1 - update) * fresh + update * old[at];
            } else {
                const auto peephole = [&](int64_t gate) {
                    return p.inputs.size() > 7 && p.inputs[7] ? Numbers(p.inputs[7]).at({d, gate * n + j}) : 0;
                };
                const double before = (*c)[at];
                const double i = f(0, clipped(p, in(j) + from(j, old) + peephole(0) * before));
                const double forget = f(0, clipped(p, in(2 * n + j) + from(2 * n + j, old) + peephole(2) * before));
                const double cell =
                    (p.coupled ? 1 - i : forget) * before + i * f(1, clipped(p, in(3 * n + j) + from(3 * n + j, old)));
                (*c)[at] = cell;
                (*h)[at] = f(0, clipped(p, in(n + j) + from(n + j, old) + peephole(1) * cell)) * f(2, cell);
            }
        }
    }

    void check(const Problem &p) const {
        Answer want = {Numbers({p.steps, p.directions, p.batch, p.hidden}, 0),
                       Numbers({p.directions, p.batch, p.hidden}, 0), Numbers({p.directions, p.batch, p.hidden}, 0)};
        for (int64_t d = 0; d < p.directions; d++) {
            for (int64_t b = 0; b < p.batch; b++) run_sequence(p, d, b, &want);
        }
        Node n = {p.type, 14, p.inputs, {int_attribute("hidden_size", p.hidden)}, p.gates == 4 ? 3 : 2};
        n.attributes.push_back(text_attribute("direction", p.directions == 2 ? "bidirectional"
                                                           : p.backward      ? "reverse"
                                                                             : "forward"));
        if (p.clip > 0) n.attributes.push_back(float_attribute("clip", float(p.clip)));
        if (p.coupled) n.attributes.push_back(int_attribute("input_forget", 1));
        if (p.before_reset) n.attributes.push_back(int_attribute("linear_before_reset", 1));
        Names names;
        for (const Choice &c : p.functions) names.push_back(c.name);
        n.attributes.push_back(texts_attribute("activations", names));
        n.attributes.push_back(floats_attribute("activation_alpha", std::vector<float>(names.size(), 0.3f)));
        n.attributes.push_back(floats_attribute("activation_beta", std::vector<float>(names.size(), 0.4f)));
        if (p.batch_first) {
            n.attributes.push_back(int_attribute("layout", 1));
            for (const size_t i : {0, 5, 6}) {
                if (i < n.inputs.size() && n.inputs[i]) n.inputs[i] = amp_test::op("transpose", {n.inputs[i], 0, 1});
            }
        }
        Tensors got = run(n);
        ASSERT_FALSE(got.empty()) << amp_last_error();
        if (p.batch_first) {
            got[0] = amp_test::op("permute", {got[0], AMP_DIMS(1, 2, 0, 3)});
            for (size_t i = 1; i < got.size(); i++) got[i] = amp_test::op("transpose", {got[i], 0, 1});
        }
        amp_test::expect_near(got[0], want.y.values, 2e-5);
        amp_test::expect_near(got[1], want.h.values, 2e-5);
        if (p.gates == 4) amp_test::expect_near(got[2], want.c.values, 2e-5);
    }

    Problem problem(const std::string &type, int64_t directions) const {
        Problem p = {type, type == "LSTM" ? 4 : type == "GRU" ? 3 : 1};
        p.directions = directions;
        const int64_t d = directions, rows = p.gates * p.hidden;
        p.inputs = {random_tensor(AMP_F32, {p.steps, p.batch, p.input}, 1),
                    random_tensor(AMP_F32, {d, rows, p.input}, 2),
                    random_tensor(AMP_F32, {d, rows, p.hidden}, 3),
                    random_tensor(AMP_F32, {d, 2 * rows}, 4),
                    nullptr,
                    random_tensor(AMP_F32, {d, p.batch, p.hidden}, 5)};
        if (p.gates == 4) p.inputs.push_back(random_tensor(AMP_F32, {d, p.batch, p.hidden}, 6));
        p.functions = {choices[1]};
        if (p.gates == 3) p.functions = {choices[0], choices[1]};
        if (p.gates == 4) p.functions = {choices[0], choices[1], choices[1]};
        const std::vector<Choice> once = p.functions;
        if (d == 2) p.functions.insert(p.functions.end(), once.begin(), once.end());
        return p;
    }
    const std::vector<std::string> types = {"RNN", "GRU", "LSTM"};
};

TEST_F(OnnxRecurrent, EveryDirectionAndLayout) {
    for (const std::string &type : types) {
        for (const int variant : {0, 1, 2, 3, 4, 5}) {
            SCOPED_TRACE(type + " " + std::to_string(variant));
            Problem p = problem(type, variant % 3 == 2 ? 2 : 1);
            p.backward = variant % 3 == 1;
            p.batch_first = variant >= 3;
            check(p);
        }
    }
}

TEST_F(OnnxRecurrent, WithoutBiasAndStates) {
    for (const std::string &type : types) {
        Problem p = problem(type, 2);
        p.inputs.resize(3);
        p.inputs.push_back(nullptr);
        SCOPED_TRACE(type);
        check(p);
    }
}

TEST_F(OnnxRecurrent, SequencesEndWhereTheySay) {
    for (const std::string &type : types) {
        for (const int64_t directions : {1, 2}) {
            Problem p = problem(type, directions);
            p.inputs[4] = tensor(AMP_I32, {3}, {2, 5, 1});
            SCOPED_TRACE(type);
            check(p);
            p.backward = directions == 1;
            check(p);
        }
    }
}

TEST_F(OnnxRecurrent, GruBeforeAndAfterTheReset) {
    for (const int64_t directions : {1, 2}) {
        Problem p = problem("GRU", directions);
        p.before_reset = true;
        check(p);
        p.clip = 0.5;
        check(p);
    }
}

TEST_F(OnnxRecurrent, LstmWithPeepholesClippedAndCoupled) {
    Problem p = problem("LSTM", 2);
    p.inputs.push_back(random_tensor(AMP_F32, {2, 3 * p.hidden}, 7));
    check(p);
    p.clip = 0.4;
    check(p);
    p.coupled = true;
    check(p);
}

TEST_F(OnnxRecurrent, EveryActivation) {
    for (const Choice &choice : choices) {
        SCOPED_TRACE(choice.name);
        Problem p = problem("RNN", 1);
        p.functions = {choice};
        check(p);
        p = problem("LSTM", 1);
        p.functions = {choices[0], choice, choice};
        check(p);
    }
}

TEST_F(OnnxRecurrent, WhatCannotBeSaysWhy) {
    Problem p = problem("GRU", 1);
    EXPECT_TRUE(fails({"GRU", 14, p.inputs, {text_attribute("direction", "up")}}, AMP_ERROR_INVALID,
                      {"GRU", "'direction' is 'up'"}));
    EXPECT_TRUE(fails({"GRU", 14, p.inputs, {texts_attribute("activations", {"Sigmoid", "Cube"})}},
                      AMP_ERROR_NOT_IMPLEMENTED, {"the activation 'Cube'"}));
    p.inputs[1] = p.inputs[2];
    p.inputs[2] = tensor(AMP_F32, {1, 5, 2});
    EXPECT_TRUE(fails({"GRU", 14, p.inputs}, AMP_ERROR_INVALID, {"R is [1, 5, 2] f32; expected [1, 6, …]"}));
}

} // namespace
