// Recurrent layers and cells against a plain network of the test's own in f64: every kind, direction, depth and layout.
#include <gtest/gtest.h>

#include <cmath>

#include "amp_test.h"

using namespace amp_test;

namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<amp_tensor *>;

struct Shapes {
    int64_t steps = 5, batch = 3, inputs = 4, hidden = 6, width = 6, layers = 1;
    bool bidirectional = false, batch_first = false, biases = true;
};

int gates_of(const std::string &kind) {
    return kind == "lstm" ? 4 : kind == "gru" ? 3 : 1;
}

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

struct Rnn : amp_test::Test {
    Tensors params, hx;
    amp_tensor *input = nullptr;
    Numbers out, hn, cn; // expected

    amp_tensor *draw(amp_dtype dtype, const Shape &shape) {
        seed += 17;
        return random_tensor(dtype, shape, seed);
    }

    void prepare(const std::string &kind, amp_dtype dtype, const Shapes &s) {
        const int64_t columns = gates_of(kind) * s.hidden, directions = s.bidirectional ? 2 : 1;
        input = s.batch_first ? draw(dtype, {s.batch, s.steps, s.inputs}) : draw(dtype, {s.steps, s.batch, s.inputs});
        hx = {draw(dtype, {s.layers * directions, s.batch, s.width})};
        if (kind == "lstm") hx.push_back(draw(dtype, {s.layers * directions, s.batch, s.hidden}));
        params.clear();
        for (int64_t i = 0; i < s.layers * directions; i++) {
            params.push_back(draw(dtype, {columns, i < directions ? s.inputs : directions * s.width}));
            params.push_back(draw(dtype, {columns, s.width}));
            if (s.biases) params.push_back(draw(dtype, {columns}));
            if (s.biases) params.push_back(draw(dtype, {columns}));
            if (s.width != s.hidden) params.push_back(draw(dtype, {s.width, s.hidden}));
        }
    }

    amp_status run(const std::string &kind, const Shapes &s, Tensors *results) {
        return call(kind, {input, hx, params, s.biases, s.layers, 0.0, false, s.bidirectional, s.batch_first}, {},
                    results);
    }

    // One step of one batch entry; h and c are replaced.
    void step(const std::string &kind, const Shapes &s, const Numbers &x, size_t first, Numbers *h, Numbers *c) {
        const size_t n = size_t(s.hidden), p = size_t(s.width);
        const Numbers w = numbers_of(params[first]), u = numbers_of(params[first + 1]);
        Numbers bi(w.size() / x.size()), bh = bi;
        if (s.biases) bi = numbers_of(params[first + 2]), bh = numbers_of(params[first + 3]);
        Numbers a = bi, b = bh;
        for (size_t r = 0; r < a.size(); r++) {
            for (size_t k = 0; k < x.size(); k++) a[r] += w[r * x.size() + k] * x[k];
            for (size_t k = 0; k < p; k++) b[r] += u[r * p + k] * (*h)[k];
        }
        Numbers y(n);
        for (size_t i = 0; i < n; i++) {
            if (kind == "lstm") {
                (*c)[i] = sigmoid(a[n + i] + b[n + i]) * (*c)[i] +
                          sigmoid(a[i] + b[i]) * std::tanh(a[2 * n + i] + b[2 * n + i]);
                y[i] = sigmoid(a[3 * n + i] + b[3 * n + i]) * std::tanh((*c)[i]);
            } else if (kind == "gru") {
                const double m = std::tanh(a[2 * n + i] + sigmoid(a[i] + b[i]) * b[2 * n + i]);
                const double z = sigmoid(a[n + i] + b[n + i]);
                y[i] = (1 - z) * m + z * (*h)[i];
            } else {
                y[i] = kind == "rnn_relu" ? std::max(0.0, a[i] + b[i]) : std::tanh(a[i] + b[i]);
            }
        }
        *h = y;
        if (s.width == s.hidden) return;
        const Numbers project = numbers_of(params[first + (s.biases ? 4 : 2)]);
        h->assign(p, 0);
        for (size_t r = 0; r < p; r++) {
            for (size_t k = 0; k < n; k++) (*h)[r] += project[r * n + k] * y[k];
        }
    }

    void expect(const std::string &kind, const Shapes &s) {
        const size_t directions = s.bidirectional ? 2 : 1, T = size_t(s.steps), B = size_t(s.batch),
                     P = size_t(s.width);
        const size_t per = 2 + (s.biases ? 2 : 0) + (s.width != s.hidden ? 1 : 0);
        const Numbers h0 = numbers_of(hx[0]), c0 = hx.size() > 1 ? numbers_of(hx[1]) : Numbers{};
        std::vector<Numbers> x(T * B); // of each step and batch entry
        const Numbers flat = numbers_of(input);
        for (size_t t = 0; t < T; t++) {
            for (size_t b = 0; b < B; b++) {
                const auto at = flat.begin() + long((s.batch_first ? b * T + t : t * B + b) * size_t(s.inputs));
                x[t * B + b].assign(at, at + long(s.inputs));
            }
        }
        hn.clear(), cn.clear();
        for (size_t layer = 0; layer < size_t(s.layers); layer++) {
            std::vector<Numbers> y(T * B, Numbers(directions * P));
            for (size_t d = 0; d < directions; d++) {
                const size_t index = layer * directions + d;
                for (size_t b = 0; b < B; b++) {
                    Numbers h(h0.begin() + long((index * B + b) * P), h0.begin() + long((index * B + b + 1) * P)), c;
                    if (!c0.empty()) {
                        const auto at = c0.begin() + long((index * B + b) * size_t(s.hidden));
                        c.assign(at, at + long(s.hidden));
                    }
                    for (size_t i = 0; i < T; i++) {
                        const size_t t = d ? T - 1 - i : i;
                        step(kind, s, x[t * B + b], index * per, &h, &c);
                        std::copy(h.begin(), h.end(), y[t * B + b].begin() + long(d * P));
                    }
                    hn.insert(hn.end(), h.begin(), h.end());
                    cn.insert(cn.end(), c.begin(), c.end());
                }
            }
            x = y;
        }
        out.clear();
        for (size_t i = 0; i < T * B; i++) {
            const Numbers &row = s.batch_first ? x[i % T * B + i / T] : x[i];
            out.insert(out.end(), row.begin(), row.end());
        }
    }

    void check(const std::string &kind, amp_dtype dtype, const Shapes &s, double tolerance) {
        SCOPED_TRACE(kind + " " + amp_dtype_name(dtype));
        const Scope scope;
        Tensors results;
        prepare(kind, dtype, s);
        expect(kind, s);
        ASSERT_EQ(run(kind, s, &results), AMP_OK) << amp_last_error();
        compare(results[0], dtype, out, tolerance);
        compare(results[1], dtype, hn, tolerance);
        if (kind == "lstm") compare(results[2], dtype, cn, tolerance);
    }

    static void compare(amp_tensor *t, amp_dtype dtype, const Numbers &expected, double tolerance) {
        const Numbers got = numbers_of(t);
        EXPECT_EQ(amp_tensor_dtype(t), dtype);
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); i++) ASSERT_NEAR(got[i], expected[i], tolerance) << "element " << i;
    }

  private:
    uint64_t seed = 1;
};

const std::vector<std::string> kinds = {"lstm", "gru", "rnn_tanh", "rnn_relu"};

} // namespace

TEST_F(Rnn, EveryKindInEveryDtype) {
    for (const std::string &kind : kinds) {
        check(kind, AMP_F64, {}, 1e-13);
        check(kind, AMP_F32, {}, 3e-6);
        check(kind, AMP_BF16, {}, 0.15);
        check(kind, AMP_F16, {}, 0.02);
    }
}

TEST_F(Rnn, LayersDirectionsAndLayouts) {
    for (const std::string &kind : kinds) {
        for (int options = 0; options < 8; options++) {
            Shapes s;
            s.layers = 3;
            s.bidirectional = options & 1, s.batch_first = options & 2, s.biases = options & 4;
            check(kind, AMP_F64, s, 1e-11);
            if (kind != "rnn_relu") check(kind, AMP_F32, s, 1e-5);
        }
    }
}

TEST_F(Rnn, ProjectionsOfAnLstm) {
    for (const bool bidirectional : {false, true}) {
        Shapes s;
        s.width = 2, s.layers = 2, s.bidirectional = bidirectional;
        check("lstm", AMP_F64, s, 1e-12);
        check("lstm", AMP_F32, s, 3e-6);
        check("lstm", AMP_BF16, s, 0.1);
    }
}

// Long enough that the inputs' products are made in several pieces.
TEST_F(Rnn, LongSequences) {
    for (const std::string &kind : kinds) {
        if (kind == "rnn_relu") continue; // grows without bound
        Shapes s;
        s.steps = 300, s.batch = 2, s.hidden = s.width = 120, s.bidirectional = true;
        const Scope scope;
        Tensors whole, part;
        prepare(kind, AMP_F64, s);
        ASSERT_EQ(run(kind, s, &whole), AMP_OK) << amp_last_error();
        // the same through two halves, the state carried over by hand, in the forward direction
        s.bidirectional = false;
        params.resize(4);
        for (amp_tensor *&h : hx) h = op("narrow", {h, 0, 0, 1});
        amp_tensor *all = input;
        Numbers got;
        for (int half = 0; half < 2; half++) {
            s.steps = 150;
            input = op("narrow", {all, 0, half * 150, 150});
            ASSERT_EQ(run(kind, s, &part), AMP_OK) << amp_last_error();
            for (double x : numbers_of(part[0])) got.push_back(x);
            hx[0] = part[1];
            if (kind == "lstm") hx[1] = part[2];
        }
        compare(op("narrow", {whole[0], 2, 0, 120}), AMP_F64, got, 1e-12);
    }
}

TEST_F(Rnn, TheSameBitsForAnyNumberOfThreads) {
    const int before = amp_get_num_threads();
    for (const char *kind : {"lstm", "gru"}) {
        for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
            Shapes s;
            s.batch = 33, s.hidden = s.width = 160, s.inputs = 70, s.bidirectional = true;
            prepare(kind, dtype, s);
            Tensors one, three;
            ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
            ASSERT_EQ(run(kind, s, &one), AMP_OK);
            ASSERT_EQ(amp_set_num_threads(3), AMP_OK);
            ASSERT_EQ(run(kind, s, &three), AMP_OK);
            EXPECT_EQ(numbers_of(one[0]), numbers_of(three[0])) << kind;
        }
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

TEST_F(Rnn, WeightsArePackedOncePerRegion) {
    const Region region;
    Shapes s;
    s.inputs = s.hidden = s.width = 64, s.layers = 2;
    prepare("lstm", AMP_F32, s);
    Tensors first, again;
    ASSERT_EQ(run("lstm", s, &first), AMP_OK) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(first[0]), AMP_BF16);
    const amp_cast_cache_stats before = amp_cast_cache_statistics();
    ASSERT_EQ(run("lstm", s, &again), AMP_OK);
    EXPECT_EQ(amp_cast_cache_statistics().misses, before.misses);
    EXPECT_EQ(amp_cast_cache_statistics().hits - before.hits, 8u); // two weights and two biases in each layer
    EXPECT_EQ(numbers_of(first[0]), numbers_of(again[0]));
}

TEST_F(Rnn, CellsAreOneStep) {
    for (const std::string &kind : kinds) {
        Shapes s;
        s.steps = 1;
        prepare(kind, AMP_F64, s);
        expect(kind, s);
        Tensors states;
        for (amp_tensor *h : hx) states.push_back(op("select", {h, 0, 0}));
        Tensors results;
        amp_tensor *x = op("select", {input, 0, 0});
        ASSERT_EQ(call(kind + "_cell", {x, states, params[0], params[1], params[2], params[3]}, {}, &results), AMP_OK)
            << amp_last_error();
        compare(results[0], AMP_F64, hn, 1e-14);
        if (kind == "lstm") compare(results[1], AMP_F64, cn, 1e-14);
        // without the batch
        Tensors row;
        for (amp_tensor *h : states) row.push_back(op("select", {h, 0, 1}));
        amp_tensor *alone =
            op(kind + "_cell", {op("select", {x, 0, 1}), row, params[0], params[1], params[2], params[3]});
        ASSERT_NE(alone, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_rank(alone), 1);
        EXPECT_EQ(numbers_of(alone), numbers_of(op("select", {results[0], 0, 1})));
    }
}

TEST_F(Rnn, RnnLayerTakesItsKindByName) {
    const Shapes s;
    Tensors by_name, by_mode;
    prepare("gru", AMP_F32, s);
    ASSERT_EQ(run("gru", s, &by_name), AMP_OK);
    const std::vector<Value> values = {input, hx, params, true, 1, 0.0, false, false, false};
    ASSERT_EQ(call("rnn_layer", values, {{"mode", "gru"}}, &by_mode), AMP_OK) << amp_last_error();
    EXPECT_EQ(numbers_of(by_mode[0]), numbers_of(by_name[0]));
    EXPECT_EQ(call("rnn_layer", values, {{"mode", "gated"}}, nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"rnn_layer", "'mode' is \"gated\""}));
}

TEST_F(Rnn, AnEmptyBatchGivesEmptyResults) {
    for (const std::string &kind : kinds) {
        Shapes s;
        s.batch = 0, s.layers = 2;
        check(kind, AMP_F32, s, 0);
    }
}

TEST_F(Rnn, NaNInOneEntryStaysThere) {
    Shapes s;
    prepare("lstm", AMP_F32, s);
    Numbers numbers = numbers_of(input);
    numbers[0] = NAN; // entry 0 of step 0
    input = tensor(AMP_F32, {s.steps, s.batch, s.inputs}, numbers);
    Tensors results;
    ASSERT_EQ(run("lstm", s, &results), AMP_OK);
    const Numbers h = numbers_of(results[1]);
    for (size_t i = 0; i < h.size(); i++) EXPECT_EQ(std::isnan(h[i]), i < 6) << i;
}

TEST_F(Rnn, WrongArgumentsAreNamed) {
    const auto refused = [&](const Shapes &s, const std::vector<std::string> &words) {
        Tensors results;
        EXPECT_NE(run("lstm", s, &results), AMP_OK);
        return failed_with(AMP_ERROR_INVALID, words);
    };
    Shapes s;
    prepare("lstm", AMP_F32, s);
    const Tensors good = params, states = hx;
    params.pop_back();
    EXPECT_TRUE(refused(s, {"lstm: 'params' has 3 tensors; expected 4"}));
    params = good;
    std::swap(params[0], params[1]);
    EXPECT_TRUE(refused(s, {"lstm: 'w_ih' is [24, 6]", "expected [24, 4]"}));
    params = good;
    hx.pop_back();
    EXPECT_TRUE(refused(s, {"lstm: 'hx' has 1 tensors; expected 2: h and c"}));
    hx = {states[0], op("narrow", {states[1], 1, 0, 2})};
    EXPECT_TRUE(refused(s, {"lstm: tensor 1 of 'hx' is [1, 2, 6]", "expected [1, 3, 6]"}));
    hx = states;
    s.layers = 0;
    EXPECT_TRUE(refused(s, {"lstm: 'num_layers' is 0"}));
    s.layers = 1;
    amp_tensor *whole = input;
    input = op("narrow", {whole, 0, 0, 0});
    EXPECT_TRUE(refused(s, {"lstm: 'input' is [0, 3, 4]", "at least one step"}));
    input = op("select", {whole, 0, 0});
    EXPECT_TRUE(refused(s, {"lstm: 'input' is [3, 4]", "expected 3 dimensions, (steps, batch, features)"}));
    input = whole;
    EXPECT_NE(call("lstm", {input, hx, params, true, 1, 0.5, true, false, false}, {}, nullptr), AMP_ERROR_INVALID);
    params[0] = op("to", {params[0]}, {{"dtype", AMP_F64}});
    Tensors results;
    EXPECT_EQ(run("lstm", s, &results), AMP_ERROR_DTYPE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"lstm", "'w_ih'", "f64"}));
}
