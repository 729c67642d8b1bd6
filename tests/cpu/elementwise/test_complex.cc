// Complex arithmetic: what the recorded cases, which hardly have any, cannot know.
#include <complex>

#include "amp_test.h"

using namespace amp_test;

namespace {

using Complex = std::complex<double>;
using Numbers = std::vector<Complex>;

class ComplexNumbers : public Test {};

amp_tensor *complex_tensor(amp_dtype dtype, const Shape &shape, const Numbers &numbers) {
    std::vector<double> parts;
    Shape pairs = shape;
    pairs.push_back(2);
    for (const Complex &z : numbers) parts.insert(parts.end(), {z.real(), z.imag()});
    return op("view_as_complex", {tensor(dtype == AMP_C64 ? AMP_F32 : AMP_F64, pairs, parts)});
}

Complex at(const amp_tensor *t, int64_t i) {
    if (amp_tensor_dtype(t) == AMP_C64) return static_cast<const std::complex<float> *>(amp_data(t))[i];
    if (amp_tensor_dtype(t) == AMP_C128) return static_cast<const Complex *>(amp_data(t))[i];
    return number_at(amp_tensor_dtype(t), amp_data(t), i);
}

void expect_close(const amp_tensor *got, const Numbers &want, double relative) {
    ASSERT_NE(got, nullptr) << amp_last_error();
    ASSERT_EQ(size_t(amp_tensor_numel(got)), want.size());
    for (size_t i = 0; i < want.size(); i++) {
        EXPECT_LE(std::abs(at(got, int64_t(i)) - want[i]), relative * std::abs(want[i])) << i << ": " << want[i];
    }
}

const Numbers some = {{1, 2}, {-3, 0.5}, {0.25, -4}, {-0.75, -0.125}, {1e-9, 2e-9}, {3, 0}};

TEST_F(ComplexNumbers, FunctionsMatchTheLibrarys) {
    const std::vector<std::pair<const char *, Complex (*)(Complex)>> functions = {
        {"log2", [](Complex z) { return std::log(z) / std::log(2.0); }},
        {"log10", [](Complex z) { return std::log10(z); }},
        {"softsign", [](Complex z) { return z / (1 + std::abs(z)); }},
        {"square", [](Complex z) { return z * z; }},
        {"sinc", [](Complex z) { return std::sin(M_PI * z) / (M_PI * z); }}};
    for (const auto &[name, function] : functions) {
        SCOPED_TRACE(name);
        Numbers want;
        for (const Complex &z : some) want.push_back(function(z));
        expect_close(op(name, {complex_tensor(AMP_C128, {6}, some)}), want, 4e-15);
        want.clear();
        for (const Complex &z : some) want.push_back(function(std::complex<float>(z)));
        expect_close(op(name, {complex_tensor(AMP_C64, {6}, some)}), want, 1e-7);
    }
    EXPECT_EQ(at(op("sinc", {complex_tensor(AMP_C128, {1}, {{0, 0}})}), 0), Complex(1, 0));
}

// e^z − 1 and ln(1 + z) keep the digits of a small z: their series' first terms.
TEST_F(ComplexNumbers, SmallNumbersKeepTheirDigits) {
    const Numbers small = {{1e-9, 2e-9}, {-3e-9, 1e-9}, {1e-12, -1e-10}};
    Numbers exponential, logarithm;
    for (const Complex &z : small) {
        exponential.push_back(z + z * z / 2.0);
        logarithm.push_back(z - z * z / 2.0);
    }
    expect_close(op("expm1", {complex_tensor(AMP_C128, {3}, small)}), exponential, 1e-15);
    expect_close(op("log1p", {complex_tensor(AMP_C128, {3}, small)}), logarithm, 1e-15);
    const Numbers large = {{3, 4}, {-7, 1}, {1e200, 1e200}};
    Numbers logs;
    for (const Complex &z : large) logs.push_back(std::log(1.0 + z));
    expect_close(op("log1p", {complex_tensor(AMP_C128, {3}, large)}), logs, 1e-15);
}

TEST_F(ComplexNumbers, NanToNumReplacesParts) {
    amp_tensor *x = complex_tensor(AMP_C64, {2}, {{NAN, INFINITY}, {-INFINITY, 2}});
    amp_tensor *y = op("nan_to_num", {x}, {{"nan", 7.0}, {"posinf", 8.0}});
    EXPECT_EQ(at(y, 0), Complex(7, 8));
    EXPECT_EQ(at(y, 1), Complex(-3.4028234663852886e38, 2));
}

// By the formula: infinities are not recovered.
TEST_F(ComplexNumbers, ProductIsThePlainFormula) {
    amp_tensor *x = complex_tensor(AMP_C128, {1}, {{INFINITY, 1}}), *y = op("mul", {x, x});
    EXPECT_EQ(at(y, 0).real(), INFINITY);
    x = op("mul", {x, complex_tensor(AMP_C128, {1}, {{0, 1}})});
    EXPECT_TRUE(std::isnan(at(x, 0).real()));
}

TEST_F(ComplexNumbers, ProductsTakeComplexFactors) {
    const Numbers a = {{1, 2}, {3, -1}}, b = {{0, 1}, {2, 2}}, r = {{5, -5}};
    const Complex alpha(0.5, -1), beta(0, 2);
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        amp_tensor *y =
            op("addmm",
               {complex_tensor(dtype, {1, 1}, r), complex_tensor(dtype, {1, 2}, a), complex_tensor(dtype, {2, 1}, b)},
               {{"alpha", amp_complex(0.5, -1)}, {"beta", amp_complex(0, 2)}});
        expect_close(y, {alpha * (a[0] * b[0] + a[1] * b[1]) + beta * r[0]}, 1e-7);
    }
    amp_tensor *m = tensor(AMP_F32, {2, 2});
    EXPECT_EQ(op("addmm", {m, m, m}, {{"alpha", amp_complex(1, 1)}}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"addmm", "'alpha'", "complex", "f32"}));
}

TEST_F(ComplexNumbers, LogsumexpFollowsTheRealParts) {
    const Numbers z = {{1000, 1}, {1000, -2}, {999, 0.5}, {-1000, 3}};
    Complex sum;
    for (const Complex &x : z) sum += std::exp(x - 1000.0);
    expect_close(op("logsumexp", {complex_tensor(AMP_C128, {4}, z), 0}), {1000.0 + std::log(sum)}, 1e-15);
    Numbers many; // more than one piece of a row
    sum = 0;
    for (int i = 0; i < 20000; i++) {
        many.emplace_back(std::sin(i), i % 7);
        sum += std::exp(many.back());
    }
    expect_close(op("logsumexp", {complex_tensor(AMP_C128, {20000}, many), 0}), {std::log(sum)}, 1e-13);
}

// What PyTorch 2.13 gives for the same c128.
const Numbers left = {{1, 2}, {-3, 0.5}, {0.25, -1}, {0, 2}, {-40, 1}, {1e-9, 3}, {300, 2}, {0, 0}};
const Numbers right = {{1, 0}, {-1, 0}, {0, 1}, {2, 0}, {0.5, -2}, {1e-9, -0.1}, {-500, 1}, {0, 0.5}};

TEST_F(ComplexNumbers, LogaddexpFollowsTheGreaterRealPart) {
    const Numbers want = {{1.077520710173931, 1},
                          {-0.8860931223256052, 0.057930330951316944},
                          {0.2287235120985905, -0.19130006467969451},
                          {1.9504636919477987, 0.1296725750088807},
                          {0.5, -2},
                          {-3.1799038049496313, 1.4499999999999995},
                          {300, 2},
                          {0.6615661293124757, 0.25}};
    expect_close(op("logaddexp", {complex_tensor(AMP_C128, {8}, left), complex_tensor(AMP_C128, {8}, right)}), want,
                 2e-15);
    expect_close(op("logaddexp", {complex_tensor(AMP_C64, {8}, left), complex_tensor(AMP_C64, {8}, right)}), want,
                 1e-7);
    amp_tensor *mixed = op("logaddexp", {complex_tensor(AMP_C64, {1}, {{1, 2}}), tensor(AMP_F32, {1}, {1})});
    expect_close(mixed, {want[0]}, 1e-7);
    EXPECT_EQ(amp_tensor_dtype(mixed), AMP_C64);
}

TEST_F(ComplexNumbers, LogaddexpKnowsInfinities) {
    const struct {
        Complex x, y, want;
    } cases[] = {{{INFINITY, 0}, {INFINITY, 1}, {INFINITY, M_PI / 4}}, {{INFINITY, 0}, {INFINITY, 0}, {INFINITY, 0}},
                 {{INFINITY, 1}, {-INFINITY, 2}, {INFINITY, 1}},       {{INFINITY, 1}, {1, 2}, {INFINITY, 1}},
                 {{-INFINITY, 0}, {-INFINITY, 2}, {-INFINITY, 2}},     {{-INFINITY, 2}, {1, 2}, {1, 2}},
                 {{-INFINITY, 0}, {1, INFINITY}, {1, INFINITY}}};
    for (const auto &c : cases) {
        const Complex got =
            at(op("logaddexp", {complex_tensor(AMP_C128, {1}, {c.x}), complex_tensor(AMP_C128, {1}, {c.y})}), 0);
        EXPECT_EQ(got.real(), c.want.real()) << c.x << ' ' << c.y;
        EXPECT_EQ(got.imag(), c.want.imag()) << c.x << ' ' << c.y;
    }
    amp_tensor *one = complex_tensor(AMP_C128, {1}, {{1, 2}}), *bad = complex_tensor(AMP_C128, {1}, {{0, NAN}});
    for (amp_tensor *y : {op("logaddexp", {one, bad}), op("logaddexp", {bad, one})}) {
        EXPECT_TRUE(std::isnan(at(y, 0).real()));
        EXPECT_TRUE(std::isnan(at(y, 0).imag()));
    }
}

const Numbers eight = {{1, 2}, {-3, 0.5}, {0.25, -1}, {0, 2}, {0.5, 0}, {1, 0}, {0, -1}, {3, -2}};

// c64 is widened a piece at a time: rows of any length are those of c128.
TEST_F(ComplexNumbers, RmsNormOfRowsOfAnyLength) {
    for (const int64_t n : {1, 2, 3, 5, 63, 127, 128, 129, 255, 256, 300}) {
        SCOPED_TRACE(n);
        Numbers numbers, weights;
        for (int64_t i = 0; i < 3 * n; i++) numbers.emplace_back(std::sin(double(i)), 0.25 * double(i % 7));
        for (int64_t i = 0; i < n; i++) weights.emplace_back(std::cos(double(i)), 0.5 - double(i % 3));
        amp_tensor *x = complex_tensor(AMP_C64, {3, n}, numbers), *w = complex_tensor(AMP_C64, {n}, weights);
        for (const bool weighted : {false, true}) {
            std::vector<Named> options;
            if (weighted) options.push_back({"weight", w});
            amp_tensor *wide = op("rms_norm", {op("to", {x, AMP_C128}), AMP_DIMS(n)},
                                  weighted ? std::vector<Named>{{"weight", op("to", {w, AMP_C128})}} : options);
            Numbers want;
            for (int64_t i = 0; i < 3 * n; i++) want.push_back(at(wide, i));
            expect_close(op("rms_norm", {x, AMP_DIMS(n)}, options), want, 2e-6);
        }
    }
}

TEST_F(ComplexNumbers, AdaptiveAveragesOfOneWindowAreMeans) {
    const Numbers numbers = {{1, 2}, {-3, 0.5}, {0.25, -1}, {0, 2}};
    amp_tensor *x = complex_tensor(AMP_C128, {1, 2, 2}, numbers);
    expect_close(op("adaptive_avg_pool1d", {x, AMP_DIMS(1)}), {{-1, 1.25}, {0.125, 0.5}}, 1e-15);
    expect_close(op("adaptive_avg_pool2d", {x, AMP_DIMS(1)}), {{-0.4375, 0.875}}, 1e-15);
    EXPECT_EQ(amp_tensor_rank(op("adaptive_avg_pool2d", {x, AMP_DIMS(1, 1)})), 3);
    EXPECT_EQ(op("adaptive_avg_pool2d", {x, AMP_DIMS(1, 2)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"adaptive_avg_pool2d", "c128"}));
}

TEST_F(ComplexNumbers, RmsNormTakesTheMeanOfSquares) {
    const Numbers want = {{3.0855429218743247, 3.3827979401443167},   {-5.631854490937342, 2.658086622378895},
                          {-0.06510064061271859, -2.109642155612808}, {1.115315161441733, 3.940455520865183},
                          {0.23124395934959824, 0.15123715098977425}, {0.4624879186991965, 0.3024743019795485},
                          {0.3024743019795485, -0.4624879186991965},  {1.9924123600566863, -0.017552931459747456}};
    const Numbers weighted = {{2.391795432880139, 3.08682345075732},       {-3.749209364882505, -9.939177318273142},
                              {-1.7090082039099561, -1.886845471348251},   {0.33935348300059154, 1.7130884668789557},
                              {0.23185216464206196, 0.1471020440055266},   {-0.5884081760221064, 0.9274086585682478},
                              {-0.16950024127307073, -0.7579084172951771}, {0.989760581937239, -0.022398197267544162}};
    const Numbers weight = {{1, 0}, {0, 2}, {1, -1}, {0.5, 0}};
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        const double relative = dtype == AMP_C64 ? 3e-7 : 4e-15;
        amp_tensor *x = complex_tensor(dtype, {2, 4}, eight), *w = complex_tensor(dtype, {4}, weight);
        expect_close(op("rms_norm", {x, AMP_DIMS(4)}), want, relative);
        expect_close(op("rms_norm", {x, AMP_DIMS(4), w}, {{"eps", 0.1}}), weighted, relative);
        amp_tensor *turned = op("transpose", {op("contiguous", {op("transpose", {x, 0, 1})}), 0, 1});
        expect_close(op("rms_norm", {turned, AMP_DIMS(4), w}, {{"eps", 0.1}}), weighted, relative);
        amp_tensor *real = op("rms_norm", {x, AMP_DIMS(4), tensor(AMP_F32, {4}, {1, 2, -1, 0.5})});
        EXPECT_LE(std::abs(at(real, 1) - 2.0 * want[1]), 2 * relative * std::abs(want[1]));
        EXPECT_LE(std::abs(at(real, 6) + want[6]), relative * std::abs(want[6]));
        EXPECT_EQ(amp_tensor_dtype(real), dtype);
    }
    // Where the squares cancel, the default eps is all that is left: that of the parts' type.
    amp_tensor *turning = op("rms_norm", {complex_tensor(AMP_C128, {2}, {{1, 0}, {0, 1}}), AMP_DIMS(2)});
    expect_close(turning, {{67108864, 0}, {0, 67108864}}, 0);
    amp_tensor *x = complex_tensor(AMP_C64, {4}, weight);
    EXPECT_EQ(op("rms_norm", {x, AMP_DIMS(4), tensor(AMP_I64, {4})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"rms_norm", "'weight'", "i64"}));
    EXPECT_EQ(op("layer_norm", {x, AMP_DIMS(4)}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"layer_norm", "c64"}));
}

TEST_F(ComplexNumbers, SoftMarginLossIsALogarithm) {
    const Numbers labels = {{1, 0}, {-1, 0}, {0, 1}, {2, 0}, {1, 0}, {1, 0}, {1, 0}, {-1, 0}};
    const Numbers want = {{-0.09367616383112391, -0.37617136937771173},
                          {0.04302612776080525, 0.022865966096667},
                          {0.3071118325201088, -0.0669977380841552},
                          {-0.1835699279719632, 1.1415926535897933},
                          {0.47407698418010663, 0},
                          {0.31326168751822286, 0},
                          {0.5625629401162227, 0.5},
                          {2.980131047452544, -1.9538038296513525}};
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        const double relative = dtype == AMP_C64 ? 1e-7 : 2e-15;
        amp_tensor *x = complex_tensor(dtype, {2, 4}, eight), *t = complex_tensor(dtype, {2, 4}, labels);
        expect_close(op("soft_margin_loss", {x, t}, {{"reduction", "none"}}), want, relative);
        expect_close(op("soft_margin_loss", {x, t}), {{0.5503655659681154, -0.09156428967834487}}, relative);
        expect_close(op("soft_margin_loss", {x, t}, {{"reduction", "sum"}}), {{4.402924527744923, -0.732514317426759}},
                     relative);
    }
    // The second is ∞ in PyTorch, whose e^z overflows.
    amp_tensor *wild = complex_tensor(AMP_C128, {4}, {{800, 2}, {-800, 2}, {50, 7}, {-50, 7}});
    amp_tensor *loss = op("soft_margin_loss", {wild, tensor(AMP_F64, {4}, {1, 1, 1, 1})}, {{"reduction", "none"}});
    expect_close(loss, {{0, 0}, {800, -2}, {1.454088858444304e-22, -1.267162802393196e-22}, {50, -0.7168146928204135}},
                 1e-15);
}

// What PyTorch 2.13 gives for the same c128.
TEST_F(ComplexNumbers, PairwiseDistancesAreReal) {
    const Numbers a = {{1, 2}, {3, 0}, {0, 0.5}, {1, 0}, {0, -1}, {2, -2}};
    const Numbers b = {{0, 0}, {1, 1}, {2, 0}, {0, 1}, {1, 0}, {0.25, 0}};
    const struct {
        double p, first, second;
    } cases[] = {{2, 3.7749174825422345, 3.3260342000651466},
                 {1, 6.533689139306934, 5.485964236434921},
                 {0, 3, 3},
                 {3, 3.1455058776377403, 2.901454656744908},
                 {INFINITY, 2.2360688719270256, 2.657537111688377},
                 {0.5, 19.593977754850197, 16.068951336689466},
                 {-INFINITY, 2.0615518426663444, 1.4142128552664905}};
    for (const amp_dtype dtype : {AMP_C64, AMP_C128}) {
        amp_tensor *x = complex_tensor(dtype, {2, 3}, a), *y = complex_tensor(dtype, {2, 3}, b);
        for (const auto &c : cases) {
            amp_tensor *apart = op("pairwise_distance", {x, y, c.p});
            expect_close(apart, {c.first, c.second}, dtype == AMP_C64 ? 5e-7 : 2e-15);
            EXPECT_EQ(amp_tensor_dtype(apart), dtype == AMP_C64 ? AMP_F32 : AMP_F64);
        }
        amp_tensor *mixed = op("pairwise_distance", {x, tensor(AMP_F32, {2, 3}, {0, 1, 2, 0, 1, 0.25})});
        expect_close(mixed, {3.640055219361789, 3.1721449367900894}, dtype == AMP_C64 ? 5e-7 : 2e-15);
    }
}

// What PyTorch 2.13 gives for the same c128.
TEST_F(ComplexNumbers, TripletsAreReal) {
    const Numbers a = {{1, 0.75}, {-2, -0.75}, {3, 1.75}, {0, 0.25}, {4, 2.25}, {1, 0.75}};
    const Numbers b = {{2, 1.25}, {0, 0.25}, {1, 0.75}, {-3, -1.25}, {2, 1.25}, {2, 1.25}};
    const Numbers c = {{0, 0.25}, {1, 0.75}, {1, 0.75}, {5, 2.75}, {2, 1.25}, {-1, -0.25}};
    amp_tensor *x = complex_tensor(AMP_C128, {2, 3}, a), *y = complex_tensor(AMP_C128, {2, 3}, b);
    amp_tensor *z = complex_tensor(AMP_C128, {2, 3}, c), *loss = op("triplet_margin_loss", {x, y, z});
    EXPECT_EQ(amp_tensor_dtype(loss), AMP_F64);
    expect_close(loss, {0.08540076771849314}, 1e-14);
    expect_close(op("triplet_margin_loss", {x, y, z}, {{"swap", true}, {"reduction", "none"}}), {1.8541012681071538, 0},
                 1e-14);
    loss = op("triplet_margin_loss", {op("to", {x, AMP_C64}), op("to", {y, AMP_C64}), op("to", {z, AMP_C64})},
              {{"p", 1.0}, {"margin", 3.0}, {"reduction", "none"}});
    EXPECT_EQ(amp_tensor_dtype(loss), AMP_F32);
    expect_close(loss, {1.8819642223957374, 0}, 1e-6);
    EXPECT_EQ(op("cosine_embedding_loss", {x, y, tensor(AMP_I64, {2}, {1, -1})}), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"cosine_embedding_loss", "c128"}));
}

TEST_F(ComplexNumbers, LengthsAreReal) {
    amp_tensor *x = complex_tensor(AMP_C64, {1, 2}, {{3, 4}, {0, 12}}), *y = op("normalize", {x});
    expect_close(y, {Complex(3, 4) / 13.0, Complex(0, 12) / 13.0}, 1e-7);
    amp_tensor *loss = op("l1_loss", {x, complex_tensor(AMP_C64, {1, 2}, {{0, 0}, {5, 0}})});
    EXPECT_EQ(amp_tensor_dtype(loss), AMP_F32);
    EXPECT_EQ(at(loss, 0), 9.0);
    EXPECT_EQ(at(op("l1_loss", {x, x}, {{"reduction", "none"}}), 1), 0.0);
}

} // namespace
