// linear_pointwise and .binary against their parts in f64: every word, dtype, layout of `other`, empty and wrong input.
#include <functional>

#include "amp_test.h"

using namespace amp_test;

namespace {

class LinearPointwise : public Test {};

struct Word {
    const char *attr;
    std::vector<Named> named;
    double (*f)(double);
};

double phi(double x) {
    return 0.5 * std::erfc(-x * M_SQRT1_2);
}

const std::vector<Word> &words() {
    static const std::vector<Word> all{
        {"none", {}, [](double x) { return x; }},
        {"relu", {}, [](double x) { return x > 0 ? x : 0; }},
        {"sigmoid", {}, [](double x) { return 1 / (1 + std::exp(-x)); }},
        {"tanh", {}, [](double x) { return std::tanh(x); }},
        {"swish", {}, [](double x) { return x / (1 + std::exp(-x)); }},
        {"hardswish", {}, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }},
        {"leaky_relu", {}, [](double x) { return x > 0 ? x : 0.01 * x; }},
        {"leaky_relu", {{"scalars", AMP_FLOATS(0.25)}}, [](double x) { return x > 0 ? x : 0.25 * x; }},
        {"hardtanh", {}, [](double x) { return std::min(std::max(x, -1.0), 1.0); }},
        {"hardtanh", {{"scalars", AMP_FLOATS(-0.5, 2)}}, [](double x) { return std::min(std::max(x, -0.5), 2.0); }},
        {"gelu", {}, [](double x) { return x * phi(x); }},
        {"gelu",
         {{"algorithm", "tanh"}},
         [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }},
    };
    return all;
}

// Half a unit in the last place, and what sums of k products in f32 lose.
double tolerance(amp_dtype dtype, int64_t k) {
    const double unit = dtype == AMP_BF16 ? 0x1p-8 : dtype == AMP_F16 ? 0x1p-11 : dtype == AMP_F32 ? 0x1p-24 : 0x1p-53;
    const double sums = (dtype == AMP_F64 ? 0x1p-53 : 0x1p-24) * double(k + 16);
    return 1.01 * unit + sums;
}

// x W^T + b of rows of x, in f64.
std::vector<double> product(amp_tensor *x, amp_tensor *w, amp_tensor *b) {
    const std::vector<double> xs = numbers_of(x), ws = numbers_of(w), bs = b ? numbers_of(b) : std::vector<double>{};
    const int64_t n = amp_tensor_shape(w)[0], k = amp_tensor_shape(w)[1], m = k ? int64_t(xs.size()) / k : 0;
    std::vector<double> out(size_t(m * n));
    for (int64_t i = 0; i < m * n; i++) {
        double sum = b ? bs[size_t(i % n)] : 0;
        for (int64_t j = 0; j < k; j++) sum += xs[size_t(i / n * k + j)] * ws[size_t(i % n * k + j)];
        out[size_t(i)] = sum;
    }
    return out;
}

std::vector<double> mapped(std::vector<double> numbers, const std::function<double(double)> &f) {
    for (double &x : numbers) x = f(x);
    return numbers;
}

std::vector<double> joined(std::vector<double> a, const std::vector<double> &b, const std::string &attr) {
    for (size_t i = 0; i < a.size(); i++)
        a[i] = attr == "add" ? a[i] + b[i] : attr == "sub" ? a[i] - b[i] : attr == "mul" ? a[i] * b[i] : a[i] / b[i];
    return a;
}

struct Layer {
    Layer(amp_dtype dtype, const Shape &shape, int64_t n)
        : k(shape.back()), x(random_tensor(dtype, shape, 1)), w(random_tensor(dtype, {n, k}, 2)),
          b(random_tensor(dtype, {n}, 3)) {}
    int64_t k;
    amp_tensor *x, *w, *b;
};

constexpr amp_dtype floats[] = {AMP_F32, AMP_BF16, AMP_F16, AMP_F64};

TEST_F(LinearPointwise, IsTheActivationOfTheProduct) {
    for (amp_dtype dtype : floats) {
        for (const auto &[shape, n] : std::vector<std::pair<Shape, int64_t>>{{{1, 5}, 3},
                                                                             {{7}, 40},
                                                                             {{2, 17, 33}, 37},
                                                                             {{70, 64}, 32},
                                                                             {{3, 1, 200}, 1},
                                                                             {{0, 4}, 3},
                                                                             {{4, 3}, 0}}) {
            const Layer l(dtype, shape, n);
            for (const Word &word : words()) {
                for (amp_tensor *bias : {l.b, static_cast<amp_tensor *>(nullptr)}) {
                    SCOPED_TRACE(std::string(word.attr) + " of " + amp_dtype_name(dtype) + ", n " + std::to_string(n));
                    const Value given = bias ? Value(bias) : Value(nullptr);
                    amp_tensor *y = op("linear_pointwise", {l.x, l.w, given, word.attr}, word.named);
                    ASSERT_NE(y, nullptr) << amp_last_error();
                    ASSERT_EQ(amp_tensor_dtype(y), dtype);
                    expect_near(y, mapped(product(l.x, l.w, bias), word.f), tolerance(dtype, l.k));
                }
            }
        }
    }
}

// What no policy casts is added as it is, and the result may be wider or narrower than the operands.
TEST_F(LinearPointwise, AdditionsOfOtherDtypesMatchF64) {
    for (amp_dtype dtype : floats) {
        for (const auto &[shape, n] : std::vector<std::pair<Shape, int64_t>>{
                 {{1, 5}, 3}, {{7}, 40}, {{2, 17, 33}, 37}, {{70, 64}, 32}, {{0, 4}, 3}}) {
            const Layer l(dtype, shape, n);
            Shape out = shape;
            out.back() = n;
            for (amp_dtype result : {AMP_DTYPE_NONE, AMP_F32, AMP_BF16}) {
                for (int bits = 1; bits < 16; bits++) {
                    SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + ", n " + std::to_string(n) + ", " +
                                 std::to_string(bits));
                    const amp_dtype other = bits & 8 ? AMP_F32 : dtype;
                    amp_tensor *shift = bits & 1 ? random_tensor(other, {n}, 5) : nullptr;
                    amp_tensor *residual = bits & 2 ? random_tensor(other, bits & 4 ? Shape{n} : out, 6) : nullptr;
                    std::vector<double> want = product(l.x, l.w, bits & 4 ? l.b : nullptr);
                    const std::vector<double> s = shift ? numbers_of(shift) : std::vector<double>{};
                    const std::vector<double> r = residual ? numbers_of(residual) : std::vector<double>{};
                    for (size_t i = 0; i < want.size(); i++) {
                        want[i] += (shift ? s[i % size_t(n)] : 0) + (residual ? r[i % r.size()] : 0);
                        want[i] = std::max(want[i], 0.0);
                    }
                    std::vector<Named> named = {{"attr", "relu"}};
                    if (result != AMP_DTYPE_NONE) named.push_back({"dtype", result});
                    if (bits & 4) named.push_back({"bias", l.b});
                    if (shift) named.push_back({"shift", shift});
                    if (residual) named.push_back({"residual", residual});
                    amp_tensor *y = op("linear_pointwise", {l.x, l.w}, named);
                    ASSERT_NE(y, nullptr) << amp_last_error();
                    ASSERT_EQ(amp_tensor_dtype(y), result == AMP_DTYPE_NONE ? dtype : result);
                    expect_near(y, want,
                                tolerance(amp_tensor_dtype(y), l.k) +
                                    (dtype == AMP_F64 ? 0 : 0x1p-24 * double(l.k + 16)));
                }
            }
        }
    }
}

TEST_F(LinearPointwise, NoPolicyCastsAdditions) {
    const Layer l(AMP_F32, {5, 24}, 18);
    amp_tensor *shift = random_tensor(AMP_F32, {18}, 5), *residual = random_tensor(AMP_F32, {5, 18}, 6);
    const std::vector<Named> more = {{"shift", shift}, {"residual", residual}, {"dtype", AMP_F32}};
    amp_tensor *here = nullptr;
    amp_autocast(AMP_DEVICE_CPU) {
        here = op("linear_pointwise", {l.x, l.w}, more);
    }
    amp_tensor *sum = op("linear_pointwise", {op("to", {l.x, AMP_BF16}), op("to", {l.w, AMP_BF16})}, more);
    ASSERT_TRUE(here && sum) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(here), AMP_F32);
    EXPECT_EQ(numbers_of(here), numbers_of(sum));
}

TEST_F(LinearPointwise, GivesTheBitsOfTheOpOnTheUnroundedProduct) {
    const Layer l(AMP_F32, {33, 50}, 45);
    amp_tensor *y = op("linear", {l.x, l.w, l.b});
    EXPECT_EQ(numbers_of(op("linear_pointwise", {l.x, l.w, l.b, "gelu"})), numbers_of(op("gelu", {y})));
    EXPECT_EQ(numbers_of(op("linear_pointwise", {l.x, l.w, l.b, "swish"})), numbers_of(op("silu", {y})));
    EXPECT_EQ(numbers_of(op("linear_pointwise", {l.x, l.w, l.b, "tanh"})), numbers_of(op("tanh", {y})));
}

TEST_F(LinearPointwise, OfAnEmptyInnerExtentIsTheActivationOfTheBias) {
    const Layer l(AMP_F32, {3, 0}, 4);
    std::vector<double> want;
    for (int i = 0; i < 3; i++) {
        for (double x : numbers_of(l.b)) want.push_back(x * phi(x));
    }
    expect_near(op("linear_pointwise", {l.x, l.w, l.b, "gelu"}), want, 1e-6);
}

TEST_F(LinearPointwise, JoinsAnotherTensor) {
    for (amp_dtype dtype : floats) {
        const Layer l(dtype, {3, 5, 40}, 48);
        for (const Shape &shape : {Shape{3, 5, 48}, Shape{5, 48}, Shape{48}, Shape{3, 1, 48}, Shape{3, 5, 1},
                                   Shape{1, 5, 1}, Shape{1}, Shape{}}) {
            amp_tensor *other = random_tensor(dtype, shape, 9);
            const std::vector<double> others = numbers_of(op("expand", {other, AMP_DIMS(3, 5, 48)}));
            for (const char *attr : {"add", "sub", "mul"}) {
                SCOPED_TRACE(std::string(attr) + " of " + amp_dtype_name(dtype) + ", rank " +
                             std::to_string(shape.size()));
                amp_tensor *y = op("linear_pointwise.binary", {l.x, other, l.w, l.b, attr});
                ASSERT_NE(y, nullptr) << amp_last_error();
                EXPECT_EQ(amp_tensor_dtype(y), dtype);
                expect_near(y, joined(product(l.x, l.w, l.b), others, attr), tolerance(dtype, l.k));
            }
        }
        amp_tensor *two = tensor(dtype, {1}, {2}), *y = op("linear_pointwise.binary", {l.x, two, l.w, l.b, "div"});
        expect_near(y, mapped(product(l.x, l.w, l.b), [](double x) { return x / 2; }), tolerance(dtype, l.k));
    }
}

TEST_F(LinearPointwise, TakesOtherInAnyLayout) {
    const Layer l(AMP_BF16, {4, 6, 40}, 8);
    amp_tensor *turned = op("transpose", {random_tensor(AMP_BF16, {6, 4, 8}, 4), 0, 1});
    amp_tensor *columns = op("transpose", {random_tensor(AMP_BF16, {4, 8, 6}, 5), 1, 2});
    amp_tensor *wide = op("narrow", {random_tensor(AMP_BF16, {4, 6, 20}, 6), 2, 3, 8});
    for (amp_tensor *other : {turned, columns, wide}) {
        const std::vector<double> want = joined(product(l.x, l.w, l.b), numbers_of(other), "add");
        expect_near(op("linear_pointwise.binary", {l.x, other, l.w, l.b, "add"}), want, tolerance(AMP_BF16, l.k));
    }
}

// As add after linear promotes, and with no rounding between.
TEST_F(LinearPointwise, PromotesAsTheOpDoes) {
    for (amp_dtype own : floats) {
        const Layer l(own, {9, 20}, 12);
        for (amp_dtype of : floats) {
            amp_tensor *other = random_tensor(of, {9, 12}, 7);
            for (const char *attr : {"add", "mul"}) {
                amp_tensor *y = op("linear_pointwise.binary", {l.x, other, l.w, l.b, attr});
                ASSERT_NE(y, nullptr) << amp_last_error();
                const amp_dtype dtype = amp_tensor_dtype(op(attr, {l.b, op("select", {other, 0, 0})}));
                ASSERT_EQ(amp_tensor_dtype(y), dtype) << amp_dtype_name(own) << " and " << amp_dtype_name(of);
                const bool rounds = own != dtype && own == AMP_F16; /* only bf16 is widened without a rounding */
                expect_near(y, joined(product(l.x, l.w, l.b), numbers_of(other), attr),
                            rounds || own == AMP_F32 ? tolerance(own, l.k)
                                                     : tolerance(dtype == AMP_F64 ? AMP_F32 : dtype, l.k));
            }
        }
    }
}

TEST_F(LinearPointwise, RunsInTheDtypeOfTheRegion) {
    const Layer l(AMP_F32, {9, 20}, 12);
    amp_tensor *other = random_tensor(AMP_F32, {9, 12}, 7), *other16 = op("to", {other, AMP_BF16});
    amp_tensor *x = op("to", {l.x, AMP_BF16}), *w = op("to", {l.w, AMP_BF16}), *b = op("to", {l.b, AMP_BF16});
    Region region;
    amp_tensor *y = op("linear_pointwise.binary", {l.x, other, l.w, l.b, "add"});
    EXPECT_EQ(amp_tensor_dtype(y), AMP_BF16);
    expect_near(y, joined(product(x, w, b), numbers_of(other16), "add"), tolerance(AMP_BF16, l.k));
    EXPECT_EQ(amp_tensor_dtype(op("linear_pointwise", {l.x, l.w, l.b, "gelu"})), AMP_BF16);
}

// Every bf16 number as what GELU is taken of: within one unit of the last place.
TEST_F(LinearPointwise, GeluIntoBf16IsWithinAUnit) {
    std::vector<double> numbers;
    for (uint32_t h = 0; h < 65536; h++) {
        const double x = from_bf16(uint16_t(h));
        if (std::fabs(x) > 0x1p-100 && std::fabs(x) < 0x1p100) numbers.push_back(x);
    }
    const int64_t count = int64_t(numbers.size());
    amp_tensor *x = tensor(AMP_BF16, {count, 1}, numbers), *w = tensor(AMP_BF16, {40, 1}, {1});
    const std::vector<double> got = numbers_of(op("linear_pointwise", {x, w, nullptr, "gelu"}));
    for (size_t i = 0; i < numbers.size(); i++) {
        const double want = numbers[i] * phi(numbers[i]);
        ASSERT_NEAR(got[40 * i], want, std::ldexp(std::fabs(want), -8) * 1.125 + 0x1p-126) << numbers[i];
        ASSERT_EQ(got[40 * i], got[40 * i + 39]) << numbers[i];
    }
}

TEST_F(LinearPointwise, WritesOutWhichMayBeOther) {
    const Layer l(AMP_F32, {9, 20}, 12);
    amp_tensor *out = random_tensor(AMP_F32, {9, 12}, 7);
    const std::vector<double> want = joined(product(l.x, l.w, l.b), numbers_of(out), "add");
    EXPECT_EQ(op("linear_pointwise.binary_out", {l.x, out, l.w, l.b, "add"}, {{"out", out}}), out) << amp_last_error();
    expect_near(out, want, tolerance(AMP_F32, l.k));
}

TEST_F(LinearPointwise, DoesNotDependOnTheNumberOfThreads) {
    const int threads = amp_get_num_threads();
    for (amp_dtype dtype : {AMP_BF16, AMP_F32}) {
        const Layer l(dtype, {300, 100}, 130);
        amp_tensor *other = random_tensor(AMP_F32, {300, 130}, 5);
        std::vector<std::vector<double>> gelu, sum;
        for (int n : {1, 2, 3}) {
            ASSERT_EQ(amp_set_num_threads(n), AMP_OK);
            gelu.push_back(numbers_of(op("linear_pointwise", {l.x, l.w, l.b, "gelu"})));
            sum.push_back(numbers_of(op("linear_pointwise.binary", {l.x, other, l.w, l.b, "add"})));
        }
        for (int i : {1, 2}) {
            EXPECT_TRUE(gelu[size_t(i)] == gelu[0]);
            EXPECT_TRUE(sum[size_t(i)] == sum[0]);
        }
    }
    EXPECT_EQ(amp_set_num_threads(threads), AMP_OK);
}

TEST_F(LinearPointwise, TakesWholeNumbersWithoutAnActivation) {
    amp_tensor *x = tensor(AMP_I32, {2, 2}, {1, 2, 3, 4}), *w = tensor(AMP_I32, {1, 2}, {1, -1});
    EXPECT_EQ(numbers_of(op("linear_pointwise", {x, w, nullptr, "none"})), (std::vector<double>{-1, -1}));
    EXPECT_EQ(numbers_of(op("linear_pointwise.binary", {x, tensor(AMP_I32, {1}, {5}), w, nullptr, "sub"})),
              (std::vector<double>{-6, -6}));
    EXPECT_EQ(op("linear_pointwise", {x, w, nullptr, "gelu"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"linear_pointwise", "i32", "gelu"}));
}

TEST_F(LinearPointwise, ErrorsNameWhatIsWrong) {
    const Layer l(AMP_F32, {2, 3}, 4);
    const auto fails = [&](const std::vector<Named> &named, const std::vector<std::string> &said) {
        EXPECT_EQ(op("linear_pointwise", {l.x, l.w, l.b}, named), nullptr);
        EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, said));
    };
    fails({{"attr", "silu"}}, {"linear_pointwise", "'attr'", "silu", "swish"});
    fails({{"attr", "relu"}, {"scalars", AMP_FLOATS(1)}}, {"1 scalars", "relu", "0"});
    fails({{"attr", "hardtanh"}, {"scalars", AMP_FLOATS(1)}}, {"1 scalars", "hardtanh", "2"});
    fails({{"attr", "gelu"}, {"algorithm", "sin"}}, {"gelu", "sin", "\"none\" or \"tanh\""});
    fails({{"attr", "relu"}, {"algorithm", "tanh"}}, {"relu", "tanh"});
    EXPECT_EQ(op("linear_pointwise", {l.x, l.x, l.b}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear_pointwise", "'bias'", "[4]", "[2]"}));
    EXPECT_EQ(op("linear_pointwise.binary", {l.x, l.x, l.w, l.b, "add"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear_pointwise", "'other'", "[2, 3]", "[2, 4]"}));
    EXPECT_EQ(op("linear_pointwise.binary", {l.x, tensor(AMP_F32, {5, 2, 4}), l.w, l.b, "add"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear_pointwise", "'other'", "[5, 2, 4]"}));
    EXPECT_EQ(op("linear_pointwise.binary", {l.x, l.x, l.w, l.b, "pow"}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"linear_pointwise", "'attr'", "pow", "add, sub, mul or div"}));
}

TEST_F(LinearPointwise, AWiderOtherMeetsTheUnroundedProduct) {
    const Shape shape = {2, 3};
    for (amp_dtype dtype : {AMP_F16, AMP_BF16}) {
        amp_tensor *x = random_tensor(dtype, shape, 1), *w = random_tensor(dtype, {4, 3}, 2),
                   *bias = random_tensor(dtype, {4}, 3);
        for (amp_dtype wide : {AMP_F32, AMP_F64}) {
            amp_tensor *other = random_tensor(wide, {2, 1}, 4);
            for (const char *attr : {"add", "sub", "mul", "div"}) {
                amp_tensor *y = op("linear_pointwise.binary", {x, other, w, bias}, {{"attr", attr}});
                ASSERT_NE(y, nullptr) << amp_last_error();
                EXPECT_EQ(amp_tensor_dtype(y), wide);
                amp_tensor *product =
                    op("linear", {op("to", {x, AMP_F64}), op("to", {w, AMP_F64}), op("to", {bias, AMP_F64})});
                expect_near(y, numbers_of(op(attr, {product, other})), 1e-5);
            }
        }
    }
}

} // namespace
