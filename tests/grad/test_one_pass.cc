// Gradients that the CPU makes in one pass, of class losses and recurrent layers, beside those that are made of other ops, as where
// they are recorded themselves; and what the ops of these passes refuse.
#include "amp_test.h"

using namespace amp_test;

namespace {

class OnePass : public Test {
  protected:
    // Not round, none alike.
    static amp_tensor *numbers(const Shape &shape, amp_dtype dtype, double scale = 1, bool is_leaf = false) {
        int64_t count = 1;
        for (const int64_t extent : shape) count *= extent;
        std::vector<double> values;
        for (int64_t i = 0; i < count; i++)
            values.push_back(scale * (std::fmod(0.37 + 0.618034 * double(i), 1.0) - 0.5));
        amp_tensor *t = tensor(dtype, shape, values);
        if (!is_leaf) return t;
        EXPECT_EQ(amp_tensor_set_requires_grad(t, true), AMP_OK) << amp_last_error();
        return t;
    }
    static std::vector<std::vector<double>> back(std::vector<amp_tensor *> roots, std::vector<amp_tensor *> leaves,
                                                 std::vector<amp_tensor *> given, bool create) {
        amp_grad_args args = {};
        args.struct_size = sizeof args;
        args.outputs = {roots.data(), int64_t(roots.size()), nullptr};
        args.inputs = {leaves.data(), int64_t(leaves.size()), nullptr};
        args.gradients = {given.data(), int64_t(given.size()), nullptr};
        args.retain_graph = true;
        args.create_graph = create;
        const amp_tensor_list list = amp_grad_call(&args);
        EXPECT_EQ(list.count, int64_t(leaves.size())) << amp_last_error();
        std::vector<std::vector<double>> made;
        for (int64_t i = 0; i < list.count; i++) made.push_back(numbers_of(list.items[i]));
        return made;
    }
    static void expect_alike(const std::vector<std::vector<double>> &a, const std::vector<std::vector<double>> &b,
                             double share) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t k = 0; k < a.size(); k++) {
            double largest = 0;
            ASSERT_EQ(a[k].size(), b[k].size());
            for (const double x : b[k]) largest = std::max(largest, std::fabs(x));
            for (size_t i = 0; i < a[k].size(); i++) ASSERT_NEAR(a[k][i], b[k][i], share * largest) << k << ", " << i;
        }
    }
    static double share_of(amp_dtype dtype) {
        return dtype == AMP_BF16 ? 2e-2 : dtype == AMP_F32 ? 2e-6 : 1e-13;
    }
};

struct Loss {
    Shape input, target;
    bool is_weighted, is_probability;
    double smoothing;
    const char *reduction;
};

TEST_F(OnePass, OfCrossEntropyIsThatOfTheParts) {
    const Loss losses[] = {{{5, 7}, {5}, false, false, 0, "mean"},
                           {{5, 700}, {5}, true, false, 0.25, "sum"},
                           {{1200, 3}, {1200}, true, false, 0, "none"},
                           {{2, 5, 3, 70}, {2, 3, 70}, false, false, 0, "mean"},
                           {{2, 5, 3, 170}, {2, 3, 170}, true, false, 0.125, "none"},
                           {{9}, {}, false, false, 0, "mean"},
                           {{4, 600}, {4, 600}, true, true, 0.25, "mean"},
                           {{2, 5, 300}, {2, 5, 300}, false, true, 0, "none"}};
    for (const Loss &l : losses) {
        for (const amp_dtype dtype : {AMP_F32, AMP_F64, AMP_BF16}) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + " " + l.reduction + " " + std::to_string(l.input.size()));
            const int64_t classes = l.input[l.input.size() > 1];
            amp_tensor *x = numbers(l.input, dtype, 8, true), *target;
            if (l.is_probability) {
                target = numbers(l.input, dtype, 0.5);
            } else {
                std::vector<double> index;
                int64_t samples = 1;
                for (const int64_t extent : l.target) samples *= extent;
                for (int64_t i = 0; i < samples; i++) index.push_back(i % 4 == 3 ? -100 : double(i * 5 % classes));
                target = tensor(AMP_I64, l.target, index);
            }
            amp_cross_entropy_args args = {};
            args.struct_size = sizeof args;
            args.input = x;
            args.target = target;
            args.weight = l.is_weighted ? numbers({classes}, dtype, 0.75) : nullptr;
            args.reduction = l.reduction;
            args.label_smoothing = l.smoothing;
            amp_tensor *loss = amp_cross_entropy_call(&args);
            ASSERT_TRUE(loss) << amp_last_error();
            const Shape shape(amp_tensor_shape(loss), amp_tensor_shape(loss) + amp_tensor_rank(loss));
            amp_tensor *given = numbers(shape, dtype, 2);
            expect_alike(back({loss}, {x}, {given}, false), back({loss}, {x}, {given}, true), share_of(dtype));
        }
    }
}

// Modes, directions, projections; a number of threads does not matter.
TEST_F(OnePass, OfRecurrentLayersIsThatOfTheParts) {
    const struct {
        const char *mode;
        int64_t gates;
        bool is_projected, is_both_ways, is_batch_first, has_biases;
    } kinds[] = {{"lstm", 4, false, false, false, true},   {"lstm", 4, true, true, true, true},
                 {"gru", 3, false, true, false, true},     {"gru", 3, false, false, true, false},
                 {"rnn_tanh", 1, false, true, true, true}, {"rnn_relu", 1, false, false, false, true}};
    for (const auto &k : kinds) {
        for (const amp_dtype dtype : {AMP_F32, AMP_BF16}) {
            SCOPED_TRACE(std::string(k.mode) + " " + amp_dtype_name(dtype));
            const int64_t steps = 5, batch = 3, inputs = 7, hidden = 19, width = k.is_projected ? 6 : hidden;
            const int64_t ways = k.is_both_ways ? 2 : 1, layers = 2;
            amp_tensor *x =
                numbers(k.is_batch_first ? Shape{batch, steps, inputs} : Shape{steps, batch, inputs}, dtype, 2, true);
            std::vector<amp_tensor *> hx = {numbers({layers * ways, batch, width}, dtype, 1, true)}, params;
            if (k.gates == 4) hx.push_back(numbers({layers * ways, batch, hidden}, dtype, 1.5, true));
            for (int64_t i = 0; i < layers * ways; i++) {
                params.push_back(numbers({k.gates * hidden, i < ways ? inputs : ways * width}, dtype, 0.75, true));
                params.push_back(numbers({k.gates * hidden, width}, dtype, 0.5, true));
                if (k.has_biases) params.push_back(numbers({k.gates * hidden}, dtype, 1, true));
                if (k.has_biases) params.push_back(numbers({k.gates * hidden}, dtype, 0.25, true));
                if (k.is_projected) params.push_back(numbers({width, hidden}, dtype, 1, true));
            }
            amp_tensor *hn = nullptr, *cn = nullptr;
            amp_rnn_layer_args args = {};
            args.struct_size = sizeof args;
            args.hn = &hn;
            args.cn = k.gates == 4 ? &cn : nullptr;
            args.input = x;
            args.hx = {hx.data(), int64_t(hx.size()), nullptr};
            args.params = {params.data(), int64_t(params.size()), nullptr};
            args.has_biases = k.has_biases;
            args.num_layers = layers;
            args.dropout = 0;
            args.train = true;
            args.bidirectional = k.is_both_ways;
            args.batch_first = k.is_batch_first;
            args.mode = k.mode;
            amp_tensor *out = amp_rnn_layer_call(&args);
            ASSERT_TRUE(out) << amp_last_error();
            std::vector<amp_tensor *> roots = {out, hn}, given, leaves = params;
            if (cn) roots.push_back(cn);
            for (amp_tensor *root : roots)
                given.push_back(
                    numbers(Shape(amp_tensor_shape(root), amp_tensor_shape(root) + amp_tensor_rank(root)), dtype, 2));
            leaves.insert(leaves.end(), hx.begin(), hx.end());
            leaves.push_back(x);
            const auto once = back(roots, leaves, given, false);
            expect_alike(once, back(roots, leaves, given, true), dtype == AMP_BF16 ? 4e-2 : 1e-5);
            amp_set_num_threads(2);
            expect_alike(once, back(roots, leaves, given, false), 0);
            amp_set_num_threads(1);
        }
    }
}

TEST_F(OnePass, ItsOpsRefuseWhatDoesNotFit) {
    amp_tensor *d = numbers({4, 2, 3}, AMP_F32), *h = numbers({2, 3}, AMP_F32), *w = numbers({12, 3}, AMP_F32);
    EXPECT_EQ(op("rnn_pass_backward", {d, numbers({7}, AMP_F32), h, w}, {{"c0", h}}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("'workspace' is"), std::string::npos) << amp_last_error();
    amp_clear_error();
    EXPECT_EQ(op("rnn_pass_backward", {d, numbers({120}, AMP_F32), h, w}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("an LSTM has it"), std::string::npos) << amp_last_error();
    amp_clear_error();
    EXPECT_EQ(op("rnn_pass", {d, h, w, numbers({12, 3}, AMP_F32)}, {{"mode", "gru"}, {"c0", h}}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("no other does"), std::string::npos) << amp_last_error();
    amp_clear_error();
    amp_tensor *x = numbers({2, 3}, AMP_F32), *t = tensor(AMP_I64, {2}, {0, 3});
    EXPECT_EQ(op("nll_loss_backward", {numbers({}, AMP_F32), x, t}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("input has classes 0 to 2"), std::string::npos) << amp_last_error();
    amp_clear_error();
    EXPECT_EQ(op("cross_entropy_backward", {numbers({2}, AMP_F32), x, tensor(AMP_I64, {2}, {0, 1})}), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("grad_output"), std::string::npos) << amp_last_error();
    amp_clear_error();
}

} // namespace
