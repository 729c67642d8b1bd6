// Results of whole ops are bit-identical for any number of threads, whoever computes their products: our kernels or
// oneDNN.
#include "amp_test.h"
#include "dnnl_use.h"

#include <algorithm>
#include <functional>

using namespace amp_test;

namespace {

class ThreadCount : public Test {
  protected:
    void TearDown() override {
        amp_set_num_threads(threads_);
        Test::TearDown();
    }

    static std::vector<char> bytes_of(amp_tensor *t) {
        amp_tensor *dense = op("contiguous", {t});
        const char *data = static_cast<const char *>(amp_data(dense));
        return {data, data + amp_tensor_numel(dense) * static_cast<int64_t>(amp_dtype_size(amp_tensor_dtype(dense)))};
    }

    void expect_same(const std::string &what, const std::function<amp_tensor *()> &run) {
        for (const bool ours : {true, false}) {
            const DnnlUse use(ours ? AMP_DNNL_NEVER : AMP_DNNL_ALWAYS);
            std::vector<char> first;
            for (const int count : {1, 2, 3, 8}) {
                Scope scope;
                ASSERT_EQ(amp_set_num_threads(count), AMP_OK);
                amp_tensor *y = run();
                ASSERT_NE(y, nullptr) << what << ": " << amp_last_error();
                const std::vector<char> bytes = bytes_of(y);
                if (count == 1) first = bytes;
                EXPECT_TRUE(bytes == first) << what << ", " << count << " threads, " << (ours ? "ours" : "oneDNN's");
            }
        }
    }

    static amp_tensor *parameter(const Shape &shape, uint64_t seed) {
        amp_tensor *t = random_tensor(AMP_F32, shape, seed);
        EXPECT_EQ(amp_tensor_mark_parameter(t), AMP_OK);
        return t;
    }

    const int threads_ = amp_get_num_threads();
};

const Shape shapes[] = {{1, 1000, 2000}, {3, 1111, 999}, {17, 333, 1025}, {64, 64, 4096},
                        {200, 333, 517}, {512, 96, 768}, {131, 515, 257}, {300, 70, 4097}};

} // namespace

TEST_F(ThreadCount, LinearLayers) {
    for (const Shape &s : shapes) {
        amp_tensor *x = random_tensor(AMP_F32, {s[0], s[2]}, 1), *w = parameter({s[1], s[2]}, 2);
        amp_tensor *bias = parameter({s[1]}, 3);
        expect_same("linear", [&] { return op("linear", {x, w, bias}); });
        amp_tensor *part = op("narrow", {random_tensor(AMP_F32, {s[0], s[2] + 3}, 4), 1, 1, s[2]});
        expect_same("linear of a view", [&] { return op("linear", {part, w, bias}); });
    }
}

TEST_F(ThreadCount, ProductsOfActivations) {
    for (const Shape &s : shapes) {
        amp_tensor *a = random_tensor(AMP_F32, {s[0], s[2]}, 1), *b = random_tensor(AMP_F32, {s[2], s[1]}, 2);
        amp_tensor *bt = random_tensor(AMP_F32, {s[1], s[2]}, 3), *c = random_tensor(AMP_F32, {s[0], s[1]}, 4);
        expect_same("mm", [&] { return op("mm", {a, b}); });
        expect_same("mm of a transposed", [&] { return op("mm", {a, op("t", {bt})}); });
        amp_tensor *part = op("narrow", {random_tensor(AMP_F32, {s[0], s[2] + 3}, 5), 1, 1, s[2]});
        expect_same("mm of a view", [&] { return op("mm", {part, b}); });
        expect_same("mm of a view and a transposed", [&] { return op("mm", {part, op("t", {bt})}); });
        expect_same("addmm", [&] { return op("addmm", {c, a, b}, {{"beta", 0.5}, {"alpha", 2.0}}); });
    }
    amp_tensor *a = random_tensor(AMP_F32, {6, 70, 2000}, 5), *b = random_tensor(AMP_F32, {6, 2000, 130}, 6);
    expect_same("bmm", [&] { return op("bmm", {a, b}); });
    for (const int64_t depth : {513, 1990})
        for (const int64_t rows : {4, 69}) { /* as few rows as are computed where they lie */
            amp_tensor *left = op("narrow", {op("narrow", {a, 2, 3, depth}), 1, 0, rows});
            amp_tensor *bt = op("transpose", {random_tensor(AMP_F32, {6, 130, depth}, 7), 1, 2});
            expect_same("bmm of views", [&] { return op("bmm", {left, op("narrow", {b, 1, 0, depth})}); });
            expect_same("bmm of a transposed view", [&] { return op("bmm", {left, bt}); });
        }
    amp_tensor *one = random_tensor(AMP_F32, {2000, 130}, 7);
    expect_same("matmul", [&] { return op("matmul", {a, one}); });
}

TEST_F(ThreadCount, Convolutions) {
    amp_tensor *x = random_tensor(AMP_F32, {2, 33, 28, 30}, 1), *w = parameter({70, 33, 3, 3}, 2);
    expect_same("conv2d", [&] { return op("conv2d", {x, w}); });
    amp_tensor *point = parameter({96, 33, 1, 1}, 3);
    expect_same("conv2d 1×1", [&] { return op("conv2d", {x, point}); });
    amp_tensor *line = random_tensor(AMP_F32, {3, 65, 400}, 4), *w1 = parameter({48, 65, 5}, 5);
    expect_same("conv1d", [&] { return op("conv1d", {line, w1}); });
    amp_tensor *up = parameter({33, 40, 4, 4}, 6);
    expect_same("conv_transpose2d", [&] { return op("conv_transpose2d", {x, up}); });
}

TEST_F(ThreadCount, RecurrentLayers) {
    const int64_t steps = 3, batch = 24, inputs = 300, hidden = 256;
    amp_tensor *x = random_tensor(AMP_F32, {steps, batch, inputs}, 1),
               *h = random_tensor(AMP_F32, {1, batch, hidden}, 2);
    for (const auto &[kind, gates] : {std::pair("lstm", 4), std::pair("gru", 3)}) {
        const std::vector<amp_tensor *> params = {parameter({gates * hidden, inputs}, 3),
                                                  parameter({gates * hidden, hidden}, 4)};
        std::vector<amp_tensor *> hx = {h};
        if (gates == 4) hx.push_back(h);
        expect_same(kind, [&, name = std::string(kind), hx] {
            return op(name, {x, hx, params, false, 1, 0.0, false, false, false});
        });
    }
}
