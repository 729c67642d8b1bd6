/* Kernels and ops where the program has set MXCSR: flush to zero, denormals as zero, another direction of rounding. */
#include <xmmintrin.h>

#include <random>

#include "amp_test.h"
#include "cpu/registry/gemm.h"
#include "kernel_rows.h"

using namespace amp_test;
using namespace kernel_rows;

namespace {

constexpr unsigned kFlush = 0x8040, kUp = 0x4000, kSticky = 0x3f; // FTZ and DAZ; rounding up; exception flags

// MXCSR with `bits` on top, for the life of the object.
class Mode {
  public:
    explicit Mode(unsigned bits) : before_(_mm_getcsr()) {
        _mm_setcsr(before_ | bits);
    }
    ~Mode() {
        _mm_setcsr(before_);
    }
    Mode(const Mode &) = delete;
    Mode &operator=(const Mode &) = delete;

  private:
    unsigned before_;
};

/* ---- Conversions: the same bits in every mode ----------------------------------------------------------------- */

// Every half; of f32 every exponent, and many fractions.
std::vector<unsigned char> many_numbers(size_t size) {
    std::vector<unsigned char> numbers((65536 + 7) * size);
    for (size_t i = 0; i < numbers.size() / size; i++) {
        const uint32_t word = size == 4 ? uint32_t(i) << 16 | uint32_t(i * 40503 & 0xffff) : uint32_t(i);
        std::memcpy(&numbers[i * size], &word, size);
    }
    return numbers;
}

void flush_denormals(std::vector<unsigned char> *numbers) {
    for (size_t i = 0; i < numbers->size(); i += 4) {
        uint32_t word;
        std::memcpy(&word, &(*numbers)[i], 4);
        if (!(word & 0x7f800000)) word &= 0x80000000;
        std::memcpy(&(*numbers)[i], &word, 4);
    }
}

class ConvertModes : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, ConvertModes, testing::ValuesIn(rows_of(AMP_KERNEL_CONVERT)), row_name);

// But for the row whose instruction finds denormals by a test that heeds DAZ: there they are the zeros that were asked
// for.
TEST_P(ConvertModes, GiveTheSameBits) {
    std::vector<unsigned char> numbers = many_numbers(amp_dtype_size(kernel->in));
    const size_t n = numbers.size() / amp_dtype_size(kernel->in), size = n * amp_dtype_size(kernel->out);
    std::vector<unsigned char> want(size), got(size);
    const auto run = reinterpret_cast<amp_convert_function *>(kernel->function);
    for (unsigned bits : {kUp, kFlush, kFlush | kUp}) {
        if (bits & kFlush && kernel->isa == AMP_ISA_AVX512BF16) flush_denormals(&numbers);
        run(want.data(), numbers.data(), int64_t(n));
        const Mode mode(bits);
        run(got.data(), numbers.data(), int64_t(n));
        ASSERT_EQ(want, got) << std::hex << bits;
    }
}

/* ---- Products ------------------------------------------------------------------------------------------------- */

struct Product {
    static constexpr int64_t m = 19, n = 45, k = 70;
    explicit Product(const amp_kernel *kernel)
        : kernel(kernel), a(size_t(m * k)), b(size_t(n * k)), c(size_t(m * n)),
          packed((kernel->in == AMP_F32 ? amp_gemm_f32_packed_bytes(n, k) : amp_gemm_packed_bytes(n, k)) / 64 + 1) {}
    // Values of one size, from an interval without zero.
    void fill(uint32_t seed, float size) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> value(0.5F, 1.0F);
        for (float &x : a) x = size * (random() & 1 ? value(random) : -value(random));
        for (float &x : b) x = random() & 1 ? value(random) : -value(random);
    }
    std::vector<float> run() {
        if (kernel->in == AMP_F32)
            EXPECT_EQ(AMP_OK, amp_gemm_f32_pack(reinterpret_cast<float *>(packed.data()), b.data(), n, k, k, 1));
        else
            EXPECT_EQ(AMP_OK, amp_gemm_pack(packed.data(), b.data(), AMP_F32, n, k, k, 1));
        amp_gemm g = {};
        g.m = m, g.n = n, g.k = k, g.batch = 1;
        g.a = a.data(), g.a_dtype = AMP_F32, g.a_row_stride = k, g.a_column_stride = 1;
        g.b = packed.data();
        g.c = c.data(), g.c_dtype = AMP_F32, g.c_row_stride = n;
        g.alpha = 1.0F;
        EXPECT_EQ(AMP_OK, reinterpret_cast<amp_gemm_function *>(kernel->function)(&g));
        return c;
    }
    std::vector<float> run(unsigned bits) {
        const Mode mode(bits);
        return run();
    }

    const amp_kernel *kernel;
    std::vector<float> a, b, c;
    struct alignas(64) Line {
        unsigned char bytes[64];
    };
    std::vector<Line> packed;
};

bool same_bits(const std::vector<float> &x, const std::vector<float> &y) {
    return x.size() == y.size() && memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0;
}

class GemmModes : public EveryRow {};
INSTANTIATE_TEST_SUITE_P(Rows, GemmModes, testing::ValuesIn(rows_of(AMP_KERNEL_GEMM)), row_name);

TEST_P(GemmModes, NumbersOfOrdinarySizeAreTheSameUnderFlushToZero) {
    Product p(kernel);
    p.fill(1, 1.0F);
    ASSERT_TRUE(same_bits(p.run(0), p.run(kFlush)));
}

// vdpbf16ps and tdpbf16ps do not heed MXCSR. The others do: kept by default, zeros where the program says so.
TEST_P(GemmModes, DenormalsAreTreatedAsTheKernelsHeadSays) {
    Product p(kernel);
    p.fill(2, 0x1p-130F);
    const bool by_instruction = kernel->isa == AMP_ISA_AVX512BF16 || kernel->isa == AMP_ISA_AMX;
    const std::vector<float> zeros(p.c.size(), 0.0F), kept = p.run(0), flushed = p.run(kFlush);
    double largest = 0;
    for (float x : kept) largest = std::fmax(largest, double(std::fabs(x)));
    EXPECT_EQ(largest > 0, !by_instruction);
    for (size_t i = 0; i < flushed.size(); i++) ASSERT_EQ(0.0F, flushed[i]) << i;
}

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

// What one op of each family gives, one after the other.
std::vector<double> all_ops() {
    std::vector<double> values;
    amp_tensor *x = random_tensor(AMP_F32, {24, 64}, 1), *weight = random_tensor(AMP_F32, {64, 64}, 2);
    amp_tensor *image = random_tensor(AMP_F32, {1, 16, 12, 12}, 3), *taps = random_tensor(AMP_F32, {16, 16, 3, 3}, 4);
    amp_tensor *heads = random_tensor(AMP_F32, {2, 24, 32}, 5);
    amp_autocast(AMP_DEVICE_CPU) {
        for (amp_tensor *t :
             {op("linear", {x, weight}), op("softmax", {x, -1}), op("layer_norm", {x, AMP_DIMS(64)}), op("gelu", {x}),
              op("sum", {x}), op("conv2d", {image, taps}), op("scaled_dot_product_attention", {heads, heads, heads})}) {
            const std::vector<double> more = t ? numbers_of(t) : std::vector<double>();
            EXPECT_FALSE(more.empty()) << amp_last_error();
            values.insert(values.end(), more.begin(), more.end());
        }
    }
    return values;
}

class OpModes : public Test {};

TEST_F(OpModes, NoOpChangesTheProgramsMode) {
    for (unsigned bits : {0U, kFlush, kUp, kFlush | kUp}) {
        const Mode mode(bits);
        const unsigned before = _mm_getcsr() & ~kSticky;
        (void)all_ops();
        ASSERT_EQ(before, _mm_getcsr() & ~kSticky);
    }
}

TEST_F(OpModes, OrdinaryNumbersGiveTheSameUnderFlushToZero) {
    const std::vector<double> want = all_ops();
    const Mode mode(kFlush);
    ASSERT_EQ(want, all_ops());
}

} // namespace
