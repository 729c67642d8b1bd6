/* bf16 and f32 GEMM: every kernel that this machine runs, bit for bit against the model of its instructions, and
 * against f64. */
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "amp/system.h"
#include "gemm_packs.h"
#include "guard.h"
#include "instruction_models.h"
#include "kernel_rows.h"

using namespace gemm_packs;
using namespace instruction_models;
using namespace kernel_rows;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/* Random operands of a product of type `in`, A and C at the edge of guard pages. */
struct Case {
    Case(amp_dtype in, Shape s, uint32_t seed, float low = -1.0f, float high = 1.0f)
        : shape(s), in(in), a(static_cast<size_t>(s.m * s.k) * 4), b(static_cast<size_t>(s.n * s.k)),
          packed(packed_bytes(in, s.n, s.k), 64), c(static_cast<size_t>(s.m * s.n) * 4),
          bias(static_cast<size_t>(s.n) * 4) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> value(low, high);
        for (int64_t i = 0; i < s.m * s.k; i++) a.as<float>()[i] = value(random);
        for (auto &x : b) x = value(random);
        for (int64_t i = 0; i < s.n; i++) bias.as<float>()[i] = value(random);
        pack_b();
    }
    void pack_b() {
        pack(in, packed.as<void>(), b.data(), shape.n, shape.k, shape.k, 1);
    }
    float rounded(float x) {
        return in == AMP_F32 ? x : from_bf16(round_bf16(x));
    }
    amp_gemm problem() {
        amp_gemm g = {};
        g.m = shape.m, g.n = shape.n, g.k = shape.k, g.batch = 1;
        g.a = a.as<void>(), g.a_dtype = AMP_F32, g.a_row_stride = shape.k, g.a_column_stride = 1;
        g.b = packed.as<void>();
        g.c = c.as<void>(), g.c_dtype = AMP_F32, g.c_row_stride = shape.n;
        g.alpha = 1.0f;
        return g;
    }
    float a_at(int64_t m, int64_t k) {
        return rounded(a.as<float>()[m * shape.k + k]);
    }
    float b_at(int64_t n, int64_t k) {
        return rounded(b[static_cast<size_t>(n * shape.k + k)]);
    }
    /* Row m of A, or column n of B, as the products see them, padded with zeros to whole blocks. */
    std::vector<float> row(int64_t m) {
        std::vector<float> r(static_cast<size_t>((shape.k + 31) / 32 * 32), 0.0f);
        for (int64_t k = 0; k < shape.k; k++) r[static_cast<size_t>(k)] = a_at(m, k);
        return r;
    }
    std::vector<float> column(int64_t n) {
        std::vector<float> r(static_cast<size_t>((shape.k + 31) / 32 * 32), 0.0f);
        for (int64_t k = 0; k < shape.k; k++) r[static_cast<size_t>(k)] = b_at(n, k);
        return r;
    }

    Shape shape;
    amp_dtype in;
    GuardedBuffer a;
    std::vector<float> b; /* [N, K] */
    GuardedBuffer packed, c, bias;
};

/* One element of A·B as the kernel's instructions sum it. The vector kernels stop after the last pair of k; a tile is
 * always whole. */
float model(const amp_kernel &kernel, int64_t k_count, const std::vector<float> &a, const std::vector<float> &b) {
    const size_t even = static_cast<size_t>((k_count + 1) / 2 * 2);
    float sum = 0.0f;
    std::vector<uint16_t> a_half, b_half; /* exact: the values are bf16 already */
    for (float x : a) a_half.push_back(round_bf16(x));
    for (float x : b) b_half.push_back(round_bf16(x));
    switch (kernel.isa) {
    case AMP_ISA_AVX512BF16:
        for (size_t k = 0; k < even; k += 2) sum = vdpbf16ps(sum, a_half[k], a_half[k + 1], b_half[k], b_half[k + 1]);
        return sum;
    case AMP_ISA_AMX:
        for (size_t k = 0; k < even; k += 32) sum = tdpbf16ps(sum, &a_half[k], &b_half[k], 2, 16);
        return sum;
    case AMP_ISA_REF:
        for (size_t k = 0; k < even; k++) sum += a[k] * b[k];
        return sum;
    default:
        for (size_t k = 0; k < even; k++) sum = vfmadd(sum, a[k], b[k]);
        return sum;
    }
}

void expect_model_bits(const amp_kernel &kernel, Case &data) {
    amp_gemm g = data.problem();
    ASSERT_EQ(AMP_OK, reinterpret_cast<amp_gemm_function *>(kernel.function)(&g));
    std::vector<std::vector<float>> columns;
    for (int64_t n = 0; n < g.n; n++) columns.push_back(data.column(n));
    for (int64_t m = 0; m < g.m; m++) {
        const auto row = data.row(m);
        for (int64_t n = 0; n < g.n; n++) {
            const float want = model(kernel, g.k, row, columns[static_cast<size_t>(n)]);
            const float got = data.c.as<float>()[m * g.n + n];
            ASSERT_EQ(to_bits(want), to_bits(got)) << "[" << m << ", " << n << "] of " << g.m << "×" << g.n << "×"
                                                   << g.k << ": " << got << ", the model says " << want;
        }
    }
}

/* One test per row of the family. */
class GemmKernel : public testing::TestWithParam<int> {
  protected:
    void SetUp() override {
        kernel = amp_kernel_at(GetParam());
        char reason[AMP_KERNEL_REASON_SIZE];
        /* that vdpbf16ps is slower than FMA on some machine is no reason not to test it there */
        const bool pays = !kernel->predicate || kernel->predicate(nullptr);
        if (!amp_isa_usable(kernel->isa)) GTEST_SKIP() << kernel->name << ": " << amp_isa_reason(kernel->isa);
        if (pays && !amp_kernel_usable(kernel, reason)) FAIL() << kernel->name << ": " << reason;
        run = reinterpret_cast<amp_gemm_function *>(kernel->function);
    }
    amp_dtype in() const {
        return kernel->in;
    }
    /* C of `g`, which must have the same bits for each number of threads. */
    void run_with_threads(const amp_gemm &g, std::initializer_list<int> counts, std::vector<float> *c) {
        const int before = amp_get_num_threads();
        float *out = static_cast<float *>(g.c);
        const int64_t elements = g.m * g.n;
        for (int threads : counts) {
            amp_set_num_threads(threads);
            std::fill_n(out, elements, kNan);
            ASSERT_EQ(AMP_OK, run(&g));
            const std::vector<float> now(out, out + elements);
            if (c->empty()) *c = now;
            ASSERT_EQ(0, memcmp(c->data(), now.data(), now.size() * 4)) << threads << " threads";
        }
        amp_set_num_threads(before);
    }
    const amp_kernel *kernel;
    amp_gemm_function *run;
};

INSTANTIATE_TEST_SUITE_P(Rows, GemmKernel, testing::ValuesIn(rows_of(AMP_KERNEL_GEMM)), row_name);

TEST_P(GemmKernel, BitsAreThoseOfTheInstructionModel) {
    for (int64_t m : {1, 2, 3, 4, 5, 7, 8, 13, 14, 15, 16, 17, 29, 31, 32, 33, 47})
        for (int64_t n : {1, 31, 32, 33, 67, 257}) {
            Case data(in(), {m, n, m * 5 % 71 + 1}, static_cast<uint32_t>(m * 1000 + n));
            expect_model_bits(*kernel, data);
            if (HasFatalFailure()) return;
        }
    for (int64_t k : {1, 2, 3, 30, 31, 32, 33, 63, 64, 65, 127, 1025, 2053}) {
        Case data(in(), {15, 33, k}, static_cast<uint32_t>(k));
        expect_model_bits(*kernel, data);
        if (HasFatalFailure()) return;
    }
    for (int64_t k : {1, 33, 1025}) { // so many rows that some kernels take them otherwise
        Case data(in(), {67, 33, k}, static_cast<uint32_t>(k));
        expect_model_bits(*kernel, data);
        if (HasFatalFailure()) return;
    }
}

TEST_P(GemmKernel, DenormalsAreTreatedAsTheModelSays) {
    Case data(in(), {3, 35, 41}, 5);
    const float tiny[] = {0x1p-127f, 0x1p-130f, -0x1p-128f, 0x1p-126f, 0x1.8p-64f, -0x1p-63f, 0x1p-70f, 1.0f, -0.0f};
    std::mt19937 random(9);
    for (int64_t i = 0; i < 3 * 41; i++) data.a.as<float>()[i] = tiny[random() % 9];
    for (auto &x : data.b) x = tiny[random() % 9];
    data.pack_b();
    expect_model_bits(*kernel, data);
}

/* The error bound at the head of the kernel's file, in units of 2^-24 · Σ|a_k b_k|, and one for products of the second
 * order and of denormals. */
double stated_bound(const amp_kernel &kernel, int64_t k) {
    return 1 + static_cast<double>(kernel.isa == AMP_ISA_AMX ? 16 + (k + 31) / 32 : k + 1);
}

/* `most`: bounds the error beside the stated bound, in the same units. */
void expect_within_bound(const amp_kernel &kernel, Case &data, double most = INFINITY) {
    const Shape s = data.shape;
    amp_gemm g = data.problem();
    ASSERT_EQ(AMP_OK, reinterpret_cast<amp_gemm_function *>(kernel.function)(&g));
    const double bound = std::min(most, stated_bound(kernel, s.k)) * 0x1p-24;
    std::vector<std::vector<float>> columns;
    for (int64_t n = 0; n < s.n; n++) columns.push_back(data.column(n));
    for (int64_t m = 0; m < s.m; m++) {
        const std::vector<float> row = data.row(m);
        for (int64_t n = 0; n < s.n; n++) {
            const std::vector<float> &column = columns[static_cast<size_t>(n)];
            double exact = 0.0, magnitude = 0.0;
            for (size_t k = 0; k < row.size(); k++) {
                const double p = static_cast<double>(row[k]) * static_cast<double>(column[k]);
                exact += p;
                magnitude += std::fabs(p);
            }
            ASSERT_NEAR(exact, data.c.as<float>()[m * s.n + n], bound * magnitude) << m << ", " << n;
        }
    }
}

TEST_P(GemmKernel, IsWithinTheErrorBoundOfF64) {
    for (Shape s : {Shape{1, 129, 1021}, Shape{61, 67, 71}, Shape{100, 300, 700}, Shape{7, 40, 4099}}) {
        Case data(in(), s, 42);
        ASSERT_NO_FATAL_FAILURE(expect_within_bound(*kernel, data));
    }
}

/* So many errors of random data do not all point one way: their root is what grows. A sum of one sign, where each error
 * is of the size of the sum, and one of both. */
TEST_P(GemmKernel, AHundredThousandProductsStayWithinTheErrorBound) {
    const int64_t k = 100000;
    Case mixed(in(), {17, 5, k}, 43), positive(in(), {2, 3, k + 1}, 44, 0.0f, 1.0f);
    for (Case *data : {&mixed, &positive}) {
        ASSERT_NO_FATAL_FAILURE(expect_within_bound(*kernel, *data, 4 * std::sqrt(static_cast<double>(k))));
    }
}

TEST_P(GemmKernel, NanAndInfinityStayInTheirRowAndColumn) {
    for (float bad : {kNan, std::numeric_limits<float>::infinity()}) {
        Case data(in(), {17, 37, 35}, 3);
        data.a.as<float>()[4 * 35 + 34] = bad;
        data.b[36 * 35 + 0] = bad;
        data.pack_b();
        amp_gemm g = data.problem();
        ASSERT_EQ(AMP_OK, run(&g));
        for (int64_t m = 0; m < 17; m++)
            for (int64_t n = 0; n < 37; n++)
                EXPECT_EQ(m != 4 && n != 36, std::isfinite(data.c.as<float>()[m * 37 + n])) << m << ", " << n;
    }
}

TEST_P(GemmKernel, NeighboursOfTheOperandsAreNeitherReadNorWritten) {
    const int64_t m = 5, n = 19, k = 13, pitch = 40;
    std::vector<float> a(static_cast<size_t>(m * pitch), kNan), c(static_cast<size_t>(m * pitch), 123.0f);
    Case data(in(), {m, n, k}, 8);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) a[static_cast<size_t>(i * pitch + j)] = data.a.as<float>()[i * k + j];
    amp_gemm g = data.problem();
    ASSERT_EQ(AMP_OK, run(&g));
    g.a = a.data(), g.a_row_stride = pitch, g.c = c.data(), g.c_row_stride = pitch;
    ASSERT_EQ(AMP_OK, run(&g));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < pitch; j++)
            ASSERT_EQ(j < n ? data.c.as<float>()[i * n + j] : 123.0f, c[static_cast<size_t>(i * pitch + j)]);
}

TEST_P(GemmKernel, ResultsDoNotDependOnTheNumberOfThreadsNorOnOtherRows) {
    for (Shape s : {Shape{200, 333, 517}, Shape{1, 3000, 1000}, Shape{37, 2000, 600}, Shape{3000, 32, 96}}) {
        Case data(in(), s, 11);
        amp_gemm g = data.problem();
        std::vector<float> one;
        ASSERT_NO_FATAL_FAILURE(run_with_threads(g, {1, 2, 3, 4, 7}, &one));
        g.a = data.a.as<float>() + (s.m - 1) * s.k, g.m = 1, g.c = data.c.as<void>();
        ASSERT_EQ(AMP_OK, run(&g));
        ASSERT_EQ(0, memcmp(one.data() + (s.m - 1) * s.n, data.c.as<void>(), static_cast<size_t>(s.n) * 4));
    }
}

// C is 2.3 MB, and may be written past the caches; each row alone is not. Only where its rows are whole lines of cache.
TEST_P(GemmKernel, ALargeResultHasTheBitsOfItsRows) {
    for (Shape s : {Shape{770, 768, 64}, Shape{300, 2000, 40}, Shape{600, 1001, 33}}) {
        Case data(in(), s, 31);
        amp_gemm g = data.problem();
        std::vector<float> rows(static_cast<size_t>(s.m * s.n)), row(static_cast<size_t>(s.n));
        void *whole = aligned_alloc(64, static_cast<size_t>((s.m * s.n * 4 + 63) / 64 * 64));
        for (int64_t i = 0; i < s.m; i++) {
            g.a = data.a.as<float>() + i * s.k, g.m = 1, g.c = row.data();
            ASSERT_EQ(AMP_OK, run(&g));
            std::copy(row.begin(), row.end(), rows.begin() + i * s.n);
        }
        g = data.problem();
        g.c = whole;
        const int before = amp_get_num_threads();
        for (int threads : {1, 2, 3}) {
            amp_set_num_threads(threads);
            memset(whole, 0, static_cast<size_t>(s.m * s.n) * 4);
            ASSERT_EQ(AMP_OK, run(&g));
            ASSERT_EQ(0, memcmp(rows.data(), whole, rows.size() * 4)) << threads << " threads, " << s.n;
        }
        amp_set_num_threads(before);
        free(whole);
    }
}

TEST_P(GemmKernel, ALongKOfManyRowsGivesTheBitsOfASingleRow) {
    const amp_isa isa = amp_kernel_at(GetParam())->isa;
    if (isa == AMP_ISA_REF || isa == AMP_ISA_AMX) GTEST_SKIP() << "its loops are the same for any K";
    const Shape s = {66, 545,
                     70000}; /* packed A leaves L2: short slices of K, partial sums of 16 panels and the rest */
    Case data(in(), s, 29);
    amp_gemm g = data.problem();
    std::vector<float> one;
    ASSERT_NO_FATAL_FAILURE(run_with_threads(g, {1, 3}, &one));
    for (int64_t row : {int64_t{0}, int64_t{17}, s.m - 1}) {
        g.a = data.a.as<float>() + row * s.k, g.m = 1, g.c = data.c.as<void>();
        ASSERT_EQ(AMP_OK, run(&g));
        ASSERT_EQ(0, memcmp(one.data() + row * s.n, data.c.as<void>(), static_cast<size_t>(s.n) * 4)) << "row " << row;
    }
}

constexpr float kNumbers[2] = {-0.25F, 1.5F}; // the slope of leaky_relu, the bounds of hardtanh

float activate(float x, amp_gemm_activation activation) {
    const double d = x;
    switch (activation) {
    case AMP_GEMM_RELU: return x < 0 ? 0 : x;
    case AMP_GEMM_GELU_ERF: return static_cast<float>(0.5 * d * std::erfc(-d * M_SQRT1_2));
    case AMP_GEMM_GELU_TANH: /* (1 + tanh u)/2 = 1/(1 + e^-2u), which does not cancel */
        return static_cast<float>(d / (1.0 + std::exp(-2.0 * std::sqrt(2.0 / M_PI) * (d + 0.044715 * d * d * d))));
    case AMP_GEMM_SILU: return static_cast<float>(d / (1.0 + std::exp(-d)));
    case AMP_GEMM_TANH: return static_cast<float>(std::tanh(d));
    case AMP_GEMM_SIGMOID: return static_cast<float>(1.0 / (1.0 + std::exp(-d)));
    case AMP_GEMM_HARDSWISH: return x * std::min(std::max(x + 3, 0.0F), 6.0F) / 6; /* overflows as the op does */
    case AMP_GEMM_LEAKY_RELU: return x < 0 ? x * kNumbers[0] : x;
    case AMP_GEMM_HARDTANH: return x < kNumbers[0] ? kNumbers[0] : x > kNumbers[1] ? kNumbers[1] : x;
    default: return x;
    }
}

/* Error of an activation at x, in units of 2^-24 of the result: a dozen roundings, and the rounding of the argument of
 * its exponential (x²/2, about 1.6 |x| + 0.08 |x|³, or |x|), which is at most 104 where the result is not zero. */
double activation_error(float x) {
    const double a = std::fabs(x);
    return 24 + 2 * std::min(104.0, std::max(a * a / 2, 1.6 * a + 0.08 * a * a * a));
}

TEST_P(GemmKernel, EpilogueAddsResidualAndBiasThenActivates) {
    const Shape s = {18, 37, 20};
    Case data(in(), s, 21, -2.0f, 2.0f);
    amp_gemm g = data.problem();
    ASSERT_EQ(AMP_OK, run(&g));
    const std::vector<float> product(data.c.as<float>(), data.c.as<float>() + s.m * s.n);
    std::mt19937 random(4);
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    std::vector<float> residual(static_cast<size_t>(s.m * s.n));
    for (auto &x : residual) x = from_bf16(round_bf16(value(random)));
    std::vector<uint16_t> residual_half, bias_half;
    std::vector<float> scale(static_cast<size_t>(s.n));
    for (auto &x : scale) x = value(random);
    for (float x : residual) residual_half.push_back(round_bf16(x));
    for (int64_t i = 0; i < s.n; i++) bias_half.push_back(round_bf16(data.bias.as<float>()[i]));
    for (int activation = 0; activation < AMP_GEMM_ACTIVATION_COUNT; activation++)
        for (int halves = 0; halves < 2; halves++) {
            g.alpha = 0.75f, g.beta = -1.5f, g.scale = scale.data();
            g.activation = static_cast<amp_gemm_activation>(activation);
            std::copy(kNumbers, kNumbers + 2, g.activation_numbers);
            g.residual = halves ? static_cast<void *>(residual_half.data()) : residual.data();
            g.bias = halves ? static_cast<void *>(bias_half.data()) : data.bias.as<void>();
            g.residual_dtype = g.bias_dtype = halves ? AMP_BF16 : AMP_F32;
            g.residual_row_stride = s.n, g.residual_column_stride = 1;
            ASSERT_EQ(AMP_OK, run(&g));
            for (int64_t m = 0; m < s.m; m++)
                for (int64_t n = 0; n < s.n; n++) {
                    const size_t i = static_cast<size_t>(m * s.n + n);
                    float x = 0.75f * scale[static_cast<size_t>(n)] * product[i];
                    x += -1.5f * residual[i];
                    x += halves ? from_bf16(bias_half[static_cast<size_t>(n)]) : data.bias.as<float>()[n];
                    const float want = activate(x, g.activation), got = data.c.as<float>()[i];
                    const double slack = activation_error(x) * 0x1p-24;
                    ASSERT_NEAR(want, got, std::fabs(want) * slack + 1e-30) << activation << " at " << x;
                }
        }
}

TEST_P(GemmKernel, ActivationsHoldOverTheirWholeRange) {
    /* k = 1: A is the argument itself, a bf16 value; B is 1. */
    std::vector<float> x;
    for (uint32_t h = 0; h < 65536; h += 7) x.push_back(from_bf16(static_cast<uint16_t>(h)));
    const int64_t m = static_cast<int64_t>(x.size());
    const float unit[2] = {1.0f, 1.0f};
    GuardedBuffer packed(packed_bytes(in(), 2, 1), 64);
    pack(in(), packed.as<void>(), unit, 2, 1, 1, 1);
    std::vector<float> c(x.size() * 2);
    for (int activation = 0; activation < AMP_GEMM_ACTIVATION_COUNT; activation++) {
        amp_gemm g = {};
        g.m = m, g.n = 2, g.k = 1, g.batch = 1, g.a = x.data(), g.a_dtype = AMP_F32, g.a_row_stride = 1;
        g.a_column_stride = 1, g.b = packed.as<void>(), g.c = c.data(), g.c_dtype = AMP_F32, g.c_row_stride = 2;
        g.alpha = 1.0f, g.activation = static_cast<amp_gemm_activation>(activation);
        std::copy(kNumbers, kNumbers + 2, g.activation_numbers);
        ASSERT_EQ(AMP_OK, run(&g));
        for (size_t i = 0; i < x.size(); i++) {
            /* one product by 1: denormals go only where the kernel's instruction flushes them, and count as 0 here */
            const float want = activate(flush(x[i]), g.activation), got = c[2 * i];
            if (std::isnan(x[i]) || (std::isinf(x[i]) && std::isnan(want))) {
                ASSERT_TRUE(std::isnan(got)) << activation << " at " << x[i] << ": " << got;
            } else if (std::isinf(want)) {
                ASSERT_EQ(want, got) << activation << " at " << x[i];
            } else { /* below 1e-30 all is zero */
                const double slack = activation_error(x[i]) * 0x1p-24;
                ASSERT_NEAR(want, got, std::fabs(want) * slack + 1e-30) << activation << " at " << x[i];
            }
        }
    }
}

TEST_P(GemmKernel, TakesBf16OperandsAndWritesBf16) {
    const Shape s = {19, 45, 70};
    Case data(in(), s, 31);
    for (int64_t i = 0; i < s.m * s.k; i++) data.a.as<float>()[i] = from_bf16(round_bf16(data.a.as<float>()[i]));
    amp_gemm g = data.problem();
    ASSERT_EQ(AMP_OK, run(&g));
    std::vector<uint16_t> a, c(static_cast<size_t>(s.m * s.n));
    for (int64_t i = 0; i < s.m * s.k; i++) a.push_back(round_bf16(data.a.as<float>()[i]));
    g.a = a.data(), g.a_dtype = AMP_BF16, g.c = c.data(), g.c_dtype = AMP_BF16;
    ASSERT_EQ(AMP_OK, run(&g));
    for (size_t i = 0; i < c.size(); i++) ASSERT_EQ(round_bf16(data.c.as<float>()[i]), c[i]);
}

/* An operand of f32 or bf16 numbers, [rows, columns] in any strides, right behind an unreadable page or before one. */
struct Enclosed {
    Enclosed(amp_dtype dtype, int64_t count, bool at_end) : memory(static_cast<size_t>(count) * size(dtype), at_end) {}
    static size_t size(amp_dtype dtype) {
        return dtype == AMP_F32 ? 4 : 2;
    }
    void set(amp_dtype dtype, int64_t i, float x) {
        if (dtype == AMP_F32)
            memory.as<float>()[i] = x;
        else
            memory.as<uint16_t>()[i] = round_bf16(x);
    }
    EnclosedBuffer memory;
};

/* How A and the residual lie: rows or columns together, with gaps, backwards. */
struct Layout {
    int64_t row, column, first;
};
std::vector<Layout> layouts_of(int64_t rows, int64_t columns) {
    return {{columns, 1, 0},
            {1, rows, 0},
            {columns + 3, 1, 0},
            {2 * columns + 1, 2, 0},
            {-columns, -1, rows * columns - 1}};
}
int64_t extent(const Layout &l, int64_t rows, int64_t columns) {
    return (rows - 1) * std::abs(l.row) + (columns - 1) * std::abs(l.column) + 1;
}

/* `g` with every operand between guard pages gives the bits that it gives in readable memory; with a bias alone, if
 * `plain`. */
void expect_same_between_pages(amp_gemm_function *run, Case &data, const std::vector<float> &added, const Layout &la,
                               const Layout &lr, amp_dtype a_dtype, amp_dtype c_dtype, bool at_end, bool plain) {
    amp_gemm g = data.problem();
    const int64_t m = g.m, n = g.n, k = g.k, pitch = n + 3;
    const amp_dtype other = c_dtype == AMP_F32 ? AMP_BF16 : AMP_F32; /* of residual and bias */
    Enclosed a(a_dtype, extent(la, m, k), at_end), c(c_dtype, (m - 1) * pitch + n, at_end), bias(other, n, at_end);
    Enclosed residual(other, extent(lr, m, n), at_end);
    EnclosedBuffer b(packed_bytes(data.in, n, k), at_end);
    memcpy(b.as<char>(), g.b, packed_bytes(data.in, n, k));
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < k; j++)
            a.set(a_dtype, la.first + i * la.row + j * la.column, from_bf16(round_bf16(data.a.as<float>()[i * k + j])));
        for (int64_t j = 0; j < n; j++)
            residual.set(other, lr.first + i * lr.row + j * lr.column, added[static_cast<size_t>(i * n + j)]);
    }
    std::vector<float> rounded(static_cast<size_t>(m * k)), want(static_cast<size_t>(m * n)), bias_of(want);
    for (size_t i = 0; i < rounded.size(); i++) rounded[i] = from_bf16(round_bf16(data.a.as<float>()[i]));
    for (int64_t j = 0; j < n; j++)
        bias.set(other, j, bias_of[static_cast<size_t>(j)] = 0.25f * static_cast<float>(j % 9));
    g.beta = 0.5f, g.residual = added.data(), g.residual_dtype = g.bias_dtype = AMP_F32;
    g.residual_row_stride = n, g.residual_column_stride = 1;
    g.bias = bias_of.data(), g.a = rounded.data(), g.c = want.data();
    g.activation = plain ? AMP_GEMM_NONE : AMP_GEMM_RELU;
    if (plain) g.residual = nullptr;
    ASSERT_EQ(AMP_OK, run(&g));
    g.a = a.memory.as<char>() + la.first * static_cast<int64_t>(Enclosed::size(a_dtype)), g.a_dtype = a_dtype;
    g.a_row_stride = la.row, g.a_column_stride = la.column;
    if (!plain) g.residual = residual.memory.as<char>() + lr.first * static_cast<int64_t>(Enclosed::size(other));
    g.residual_row_stride = lr.row, g.residual_column_stride = lr.column;
    g.bias = bias.memory.as<char>(), g.residual_dtype = g.bias_dtype = other, g.b = b.as<char>();
    g.c = c.memory.as<char>(), g.c_dtype = c_dtype, g.c_row_stride = pitch;
    ASSERT_EQ(AMP_OK, run(&g));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            const float x = want[static_cast<size_t>(i * n + j)];
            const bool same = c_dtype == AMP_F32 ? c.memory.as<float>()[i * pitch + j] == x
                                                 : c.memory.as<uint16_t>()[i * pitch + j] == round_bf16(x);
            ASSERT_TRUE(same) << m << "×" << n << "×" << k << " at " << i << ", " << j << ", A's strides " << la.row
                              << " and " << la.column << ", the residual's " << lr.row << " and " << lr.column;
        }
}

TEST_P(GemmKernel, StaysBetweenGuardPages) {
    for (Shape s :
         {Shape{1, 1, 1}, Shape{1, 33, 31}, Shape{5, 31, 33}, Shape{16, 32, 64}, Shape{17, 65, 37}, Shape{33, 7, 65}}) {
        Case data(in(), s, 51);
        std::vector<float> added(static_cast<size_t>(s.m * s.n));
        for (size_t i = 0; i < added.size(); i++) added[i] = 0.125f * static_cast<float>(i % 13) - 0.75f;
        const std::vector<Layout> of_a = layouts_of(s.m, s.k), of_residual = layouts_of(s.m, s.n);
        for (size_t i = 0; i < of_a.size(); i++)
            for (unsigned choice = 0; choice < 16; choice++)
                ASSERT_NO_FATAL_FAILURE(expect_same_between_pages(
                    run, data, added, of_a[i], of_residual[(i + choice) % of_residual.size()],
                    choice & 1 ? AMP_BF16 : AMP_F32, choice & 2 ? AMP_BF16 : AMP_F32, choice & 4, choice & 8));
    }
}

TEST_P(GemmKernel, StridesOfAMayBeAnything) {
    const Shape s = {21, 33, 47};
    Case data(in(), s, 77);
    amp_gemm g = data.problem();
    ASSERT_EQ(AMP_OK, run(&g));
    const std::vector<float> want(data.c.as<float>(), data.c.as<float>() + s.m * s.n);
    std::vector<float> transposed(static_cast<size_t>(s.m * s.k)), reversed(transposed);
    for (int64_t m = 0; m < s.m; m++)
        for (int64_t k = 0; k < s.k; k++) {
            transposed[static_cast<size_t>(k * s.m + m)] = data.a.as<float>()[m * s.k + k];
            reversed[static_cast<size_t>((s.m - 1 - m) * s.k + s.k - 1 - k)] = data.a.as<float>()[m * s.k + k];
        }
    g.a = transposed.data(), g.a_row_stride = 1, g.a_column_stride = s.m;
    ASSERT_EQ(AMP_OK, run(&g));
    EXPECT_EQ(0, memcmp(want.data(), data.c.as<void>(), want.size() * 4));
    g.a = reversed.data() + s.m * s.k - 1, g.a_row_stride = -s.k, g.a_column_stride = -1;
    ASSERT_EQ(AMP_OK, run(&g));
    EXPECT_EQ(0, memcmp(want.data(), data.c.as<void>(), want.size() * 4));
    g.a = data.a.as<void>(), g.a_row_stride = 0, g.a_column_stride = 1; /* one row for all */
    ASSERT_EQ(AMP_OK, run(&g));
    for (int64_t m = 0; m < s.m; m++) EXPECT_EQ(0, memcmp(want.data(), data.c.as<float>() + m * s.n, s.n * 4));
}

TEST_P(GemmKernel, BatchesEqualSingleProducts) {
    for (int64_t m : {6, 66}) {
        const int64_t batch = 9, n = 35, k = 50;
        const int64_t bytes = static_cast<int64_t>(packed_bytes(in(), n, k));
        Case data(in(), {m * batch, n, k}, 13);
        GuardedBuffer many(static_cast<size_t>(bytes * batch), 64);
        std::mt19937 random(2);
        std::uniform_real_distribution<float> value(-1.0f, 1.0f);
        std::vector<float> b(static_cast<size_t>(n * k));
        for (int64_t i = 0; i < batch; i++) {
            for (auto &x : b) x = value(random);
            pack(in(), many.as<char>() + i * bytes, b.data(), n, k, 1, n);
        }
        amp_gemm g = data.problem();
        g.m = m, g.batch = batch, g.a_batch_stride = m * k, g.c_batch_stride = m * n;
        for (int64_t stride : {bytes, int64_t{0}}) {
            g.b = many.as<void>(), g.b_batch_stride = stride;
            ASSERT_EQ(AMP_OK, run(&g));
            for (int64_t i = 0; i < batch; i++) {
                amp_gemm one = g;
                std::vector<float> c(static_cast<size_t>(m * n));
                one.batch = 1, one.a = data.a.as<float>() + i * m * k, one.b = many.as<char>() + i * stride,
                one.c = c.data();
                ASSERT_EQ(AMP_OK, run(&one));
                ASSERT_EQ(0, memcmp(c.data(), data.c.as<float>() + i * m * n, c.size() * 4)) << i;
            }
        }
    }
}

TEST_P(GemmKernel, EmptyExtents) {
    for (int64_t rows : {2, 66}) {
        std::vector<float> c(static_cast<size_t>(rows) * 3, 9.0f);
        const float bias[3] = {1, -2, 3};
        amp_gemm g = {};
        g.a_dtype = g.c_dtype = g.bias_dtype = AMP_F32, g.c = c.data(), g.c_row_stride = 3, g.alpha = 1.0f, g.batch = 1;
        g.m = rows, g.n = 3, g.k = 0, g.bias = bias;
        ASSERT_EQ(AMP_OK, run(&g));
        for (size_t i = 0; i < c.size(); i++) EXPECT_EQ(bias[i % 3], c[i]);
        g.bias = nullptr;
        ASSERT_EQ(AMP_OK, run(&g));
        for (float x : c) EXPECT_EQ(0.0f, x);
        for (int empty = 0; empty < 3; empty++) {
            c[0] = 5.0f;
            g.m = empty != 0, g.n = empty != 1, g.batch = empty != 2, g.k = 4;
            ASSERT_EQ(AMP_OK, run(&g));
            EXPECT_EQ(5.0f, c[0]);
        }
    }
}

TEST(Gemm, ChoosesAKernelAndNamesIt) {
    for (amp_dtype in : {AMP_BF16, AMP_F32}) {
        Case data(in, {3, 40, 50}, 1);
        amp_gemm g = data.problem();
        const char *name = nullptr;
        ASSERT_EQ(AMP_OK, in == AMP_F32 ? amp_gemm_f32(&g, &name) : amp_gemm_bf16(&g, &name));
        ASSERT_NE(nullptr, name);
        EXPECT_EQ(0, std::string(name).find(in == AMP_F32 ? "gemm_f32_" : "gemm_bf16_"));
    }
}

} // namespace
