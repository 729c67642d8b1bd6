// Conversions between f32, bf16 and f16, against an oracle that finds the nearest value by comparing distances in f64;
// and every row of the registry against the reference, bit by bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "amp/system.h"
#include "guard.h"

extern "C" {
#include "cpu/registry/kernels.h"
#include "machine/isa.h"
}

namespace {

uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}

float float_of(uint32_t u) {
    float x;
    memcpy(&x, &u, 4);
    return x;
}

// A 16-bit format by its definition.
struct Format {
    amp_dtype dtype;
    int fraction, bias, top; // fraction bits, exponent bias, exponent of infinity
    double value(uint16_t bits) const {
        const int exponent = (bits & 0x7fff) >> fraction, f = bits & ((1 << fraction) - 1);
        const double sign = bits & 0x8000 ? -1 : 1;
        if (exponent == 0) return sign * std::ldexp(f, 1 - bias - fraction);
        return sign * std::ldexp(f + (1 << fraction), exponent - bias - fraction);
    }
    bool is_nan(uint16_t bits) const {
        return (bits & 0x7fff) > infinity();
    }
    uint16_t infinity() const {
        return uint16_t(top << fraction);
    }
};

const Format bf16 = {AMP_BF16, 7, 127, 255}, f16 = {AMP_F16, 10, 15, 31};

// Nearest of the format's values, ties to the even bit pattern; infinity stands at the place of the next power of two.
uint16_t nearest(const Format &format, double magnitude) {
    uint16_t low = 0, high = format.infinity();
    while (high - low > 1) {
        const uint16_t middle = uint16_t((low + high) / 2);
        (format.value(middle) <= magnitude ? low : high) = middle;
    }
    if (magnitude >= format.value(high)) return high;
    const double below = magnitude - format.value(low), above = format.value(high) - magnitude;
    if (below != above) return below < above ? low : high;
    return low & 1 ? high : low;
}

uint16_t oracle(const Format &format, uint32_t u) {
    const uint16_t sign = u >> 16 & 0x8000;
    if ((u & 0x7fffffff) > 0x7f800000) {
        const uint32_t payload = (u & 0x7fffff) >> (23 - format.fraction) | 1u << (format.fraction - 1);
        return uint16_t(sign | format.infinity() | payload);
    }
    if ((u & 0x7fffffff) == 0x7f800000) return sign | format.infinity();
    return sign | nearest(format, std::fabs(double(float_of(u))));
}

uint32_t oracle_widen(const Format &format, uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16;
    if (format.is_nan(bits)) {
        const uint32_t payload = uint32_t(bits & ((1 << format.fraction) - 1)) << (23 - format.fraction);
        return sign | 0x7fc00000 | payload;
    }
    if ((bits & 0x7fff) == format.infinity()) return sign | 0x7f800000;
    return bits_of(float(format.value(bits))); // exact
}

amp_convert_function *function_of(const amp_kernel *kernel) {
    return reinterpret_cast<amp_convert_function *>(kernel->function);
}

const amp_kernel *row(amp_dtype in, amp_dtype out, amp_isa isa) {
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i);
        if (k->family == AMP_KERNEL_CONVERT && k->in == in && k->out == out && k->isa == isa) return k;
    }
    return nullptr;
}

// f32 around every place where rounding to `format` changes its mind, and every kind of NaN.
std::vector<float> edges(const Format &format) {
    std::vector<float> values;
    for (uint32_t h = 0; h < 0x8000; h++) {
        const uint32_t a = oracle_widen(format, uint16_t(h));
        // A step up from the value by 0, 1, half ± 1 and a whole step - 1 of f32 units.
        const int shift = 23 - format.fraction;
        for (uint32_t d :
             {0u, 1u, (1u << (shift - 1)) - 1, 1u << (shift - 1), (1u << (shift - 1)) + 1, (1u << shift) - 1}) {
            values.push_back(float_of((a + d) & 0x7fffffff));
            values.push_back(float_of(((a + d) & 0x7fffffff) | 0x80000000));
        }
    }
    for (int b = 0; b < 23; b++) {
        for (uint32_t sign : {0u, 0x80000000u}) {
            values.push_back(float_of(sign | 0x7f800000 | 1u << b));
            values.push_back(float_of(sign | 0x7fc00000 | 1u << b));
            values.push_back(float_of(sign | 1u << b)); // subnormals
            values.push_back(float_of(sign | (0x007fffff ^ (1u << b))));
        }
    }
    return values;
}

void compare_narrow(const Format &format, const std::vector<float> &x) {
    std::vector<uint16_t> got(x.size());
    function_of(row(AMP_F32, format.dtype, AMP_ISA_REF))(got.data(), x.data(), int64_t(x.size()));
    int shown = 0;
    for (size_t i = 0; i < x.size() && shown < 10; i++) {
        const uint16_t want = oracle(format, bits_of(x[i]));
        if (got[i] != want) {
            ADD_FAILURE() << std::hex << bits_of(x[i]) << " gave " << got[i] << ", not " << want;
            shown++;
        }
    }
}

} // namespace

TEST(Convert, ReferenceRoundsToTheNearestBf16) {
    compare_narrow(bf16, edges(bf16));
}

TEST(Convert, ReferenceRoundsToTheNearestF16) {
    compare_narrow(f16, edges(f16));
}

TEST(Convert, ReferenceRoundsASampleOfAllF32) {
    std::vector<float> x;
    for (uint64_t u = 17; u < UINT64_C(1) << 32; u += 4099) x.push_back(float_of(uint32_t(u)));
    compare_narrow(bf16, x);
    compare_narrow(f16, x);
}

TEST(Convert, All65536Bf16AndF16BecomeTheF32TheyAre) {
    std::vector<uint16_t> all(65536);
    for (int i = 0; i < 65536; i++) all[i] = uint16_t(i);
    for (const Format &format : {bf16, f16}) {
        std::vector<float> got(all.size());
        function_of(row(format.dtype, AMP_F32, AMP_ISA_REF))(got.data(), all.data(), 65536);
        for (int i = 0; i < 65536; i++) {
            ASSERT_EQ(bits_of(got[i]), oracle_widen(format, uint16_t(i)))
                << amp_dtype_name(format.dtype) << " " << std::hex << i;
        }
    }
}

TEST(Convert, All65536SurviveTheWayToF32AndBack) {
    for (const Format &format : {bf16, f16}) {
        std::vector<uint16_t> all(65536), back(65536);
        std::vector<float> wide(65536);
        for (int i = 0; i < 65536; i++) all[i] = uint16_t(i);
        function_of(row(format.dtype, AMP_F32, AMP_ISA_REF))(wide.data(), all.data(), 65536);
        function_of(row(AMP_F32, format.dtype, AMP_ISA_REF))(back.data(), wide.data(), 65536);
        const uint16_t quiet = uint16_t(1 << (format.fraction - 1));
        for (int i = 0; i < 65536; i++) ASSERT_EQ(back[i], format.is_nan(uint16_t(i)) ? i | quiet : i) << std::hex << i;
    }
}

TEST(Convert, All65536Bf16ToF16AndBackAreRoundedOnce) {
    std::vector<uint16_t> all(65536), got(65536);
    for (int i = 0; i < 65536; i++) all[i] = uint16_t(i);
    for (bool to_f16 : {true, false}) {
        const Format &in = to_f16 ? bf16 : f16, &out = to_f16 ? f16 : bf16;
        function_of(row(in.dtype, out.dtype, AMP_ISA_REF))(got.data(), all.data(), 65536);
        for (int i = 0; i < 65536; i++) ASSERT_EQ(got[i], oracle(out, oracle_widen(in, uint16_t(i)))) << std::hex << i;
    }
}

// One test per row of kernels.def.
class ConvertRows : public testing::TestWithParam<const amp_kernel *> {
  protected:
    const amp_kernel *kernel = GetParam();
    const amp_kernel *reference = row(kernel->in, kernel->out, AMP_ISA_REF);
    size_t in = amp_dtype_size(kernel->in), out = amp_dtype_size(kernel->out);

    void SetUp() override {
        char reason[AMP_KERNEL_REASON_SIZE];
        if (!amp_isa_usable(kernel->isa)) GTEST_SKIP() << amp_isa_reason(kernel->isa);
        ASSERT_TRUE(amp_kernel_usable(kernel, reason)) << reason;
    }

    void expect_equal(const void *src, size_t n) {
        std::vector<unsigned char> got(n * out, 0xa5), want(got);
        function_of(kernel)(got.data(), src, int64_t(n));
        function_of(reference)(want.data(), src, int64_t(n));
        ASSERT_EQ(0, memcmp(got.data(), want.data(), want.size()));
    }
};

static std::vector<const amp_kernel *> convert_rows() {
    std::vector<const amp_kernel *> rows;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *k = amp_kernel_at(i);
        if (k->family == AMP_KERNEL_CONVERT) rows.push_back(k);
    }
    return rows;
}

INSTANTIATE_TEST_SUITE_P(Kernel, ConvertRows, testing::ValuesIn(convert_rows()),
                         [](const auto &info) { return std::string(info.param->name); });

TEST_P(ConvertRows, EqualsTheReferenceOnEdgesAndAllHalves) {
    if (kernel->in == AMP_F32) {
        for (const Format &format : {bf16, f16}) {
            const std::vector<float> x = edges(format);
            expect_equal(x.data(), x.size());
        }
    } else {
        std::vector<uint16_t> all(65536);
        for (int i = 0; i < 65536; i++) all[i] = uint16_t(i);
        expect_equal(all.data(), all.size());
    }
}

TEST_P(ConvertRows, EqualsTheReferenceOnRandomBits) {
    // Every 1021st f32 in order, then in an order that mixes kinds of values within one vector.
    std::vector<uint32_t> x;
    for (uint64_t u = 3; u < UINT64_C(1) << 32; u += 1021) x.push_back(uint32_t(u));
    expect_equal(x.data(), x.size());
    for (uint32_t &u : x) u *= 2654435761u;
    expect_equal(x.data(), x.size());
}

// Arrays end at an unreadable page, so that one element too many is a crash.
TEST_P(ConvertRows, EveryLengthUpTo130StaysWithinItsArrays) {
    for (size_t n = 0; n <= 130; n++) {
        GuardedBuffer src(n * in), dst(n * out);
        std::vector<unsigned char> want(n * out + 1);
        for (size_t i = 0; i < src.size(); i++) src.data()[i] = (unsigned char)(i * 37 + n);
        function_of(kernel)(dst.data(), src.data(), int64_t(n));
        function_of(reference)(want.data(), src.data(), int64_t(n));
        ASSERT_EQ(0, memcmp(dst.data(), want.data(), n * out)) << "n = " << n;
    }
}

TEST_P(ConvertRows, WritesNothingBeyondTheEndAndTakesUnalignedArrays) {
    std::vector<unsigned char> src(4 * 80);
    for (size_t i = 0; i < src.size(); i++) src[i] = (unsigned char)(i * 151 + 7);
    for (size_t n = 0; n < 70; n++) {
        std::vector<unsigned char> got(4 * 80, 0x5a), want(got);
        function_of(kernel)(got.data() + 1, src.data() + 3, int64_t(n));
        function_of(reference)(want.data() + 1, src.data() + 3, int64_t(n));
        ASSERT_EQ(got, want) << "n = " << n;
        ASSERT_EQ(got[1 + n * out], 0x5a);
    }
}

// A NaN or a subnormal must not change its neighbours: the AVX512_BF16 row treats a whole step otherwise then.
TEST_P(ConvertRows, NeighboursOfANanOrSubnormalAreUntouched) {
    for (uint32_t odd_one : {0x7f817f81u, 0xffc0ffc0u, 0x00000001u, 0x807fffffu}) {
        for (size_t at = 0; at < 70; at++) {
            std::vector<unsigned char> x(70 * in);
            for (size_t i = 0; i < 70; i++) {
                const uint16_t half = uint16_t(0x3c00 + 5 * i);
                const float wide = 1.0f + 0.0123f * float(i);
                memcpy(&x[i * in], in == 4 ? (const void *)&wide : &half, in);
            }
            memcpy(&x[at * in], &odd_one, in);
            expect_equal(x.data(), 70);
        }
    }
}

// All 2^32 f32: the reference against the oracle, the other rows against the reference.
TEST(ConvertFull, AllF32) {
    const uint64_t step = 1 << 20;
    std::vector<uint32_t> x(step);
    std::vector<uint16_t> want(step), got(step);
    for (const Format &format : {bf16, f16}) {
        const amp_kernel *reference = row(AMP_F32, format.dtype, AMP_ISA_REF);
        for (uint64_t begin = 0; begin < UINT64_C(1) << 32; begin += step) {
            for (uint64_t i = 0; i < step; i++) x[i] = uint32_t(begin + i);
            function_of(reference)(want.data(), x.data(), int64_t(step));
            // The oracle never falls as |x| rises: if both agree at the ends of a run of equal results, they agree
            // within.
            for (uint64_t i = 0; i < step; i++) {
                const bool end = i == 0 || i + 1 == step || want[i] != want[i - 1] || want[i] != want[i + 1];
                if (end) {
                    ASSERT_EQ(want[i], oracle(format, x[i])) << std::hex << x[i];
                }
            }
            for (int isa = AMP_ISA_AVX2; isa < AMP_ISA_COUNT; isa++) {
                const amp_kernel *kernel = row(AMP_F32, format.dtype, amp_isa(isa));
                if (!kernel || !amp_kernel_usable(kernel, nullptr)) continue;
                function_of(kernel)(got.data(), x.data(), int64_t(step));
                ASSERT_EQ(0, memcmp(got.data(), want.data(), step * 2)) << kernel->name << " from " << begin;
            }
        }
    }
}

TEST(ConvertScalar, F64IsRoundedOnce) {
    // 1 + 2^-8 is a tie between two bf16; 2^-40 more decides it, but would be lost on the way through f32.
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(1 + 0x1p-8 + 0x1p-40)), 0x3f81);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(1 + 0x1p-8)), 0x3f80);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(1 + 0x1p-7 + 0x1p-8 - 0x1p-40)), 0x3f81);
    EXPECT_EQ(amp_f16_from_f32(amp_f32_odd_from_f64(1 + 0x1p-11 + 0x1p-40)), 0x3c01);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(0x1p-1074)), 0);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(-0x1p-1074)), 0x8000);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(0x1p-134 + 0x1p-170)), 1);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(1e300)), 0x7f80);
    EXPECT_EQ(amp_f16_from_f32(amp_f32_odd_from_f64(65520)), 0x7c00);
    EXPECT_EQ(amp_f16_from_f32(amp_f32_odd_from_f64(65520 - 1e-9)), 0x7bff);
    EXPECT_EQ(amp_f16_from_f32(amp_f32_odd_from_f64(-INFINITY)), 0xfc00);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_f64(std::nan(""))) & 0x7fc0, 0x7fc0);
}

TEST(ConvertScalar, F64AgreesWithTheOracleNearEveryTie) {
    for (const Format &format : {bf16, f16}) {
        for (int h = 0; h < format.infinity(); h++) {
            const double low = format.value(uint16_t(h)), high = format.value(uint16_t(h + 1));
            const double middle = low + (high - low) / 2;
            for (double x : {low, std::nextafter(low, 1e308), std::nextafter(middle, 0.0), middle,
                             std::nextafter(middle, 1e308), std::nextafter(high, 0.0)}) {
                const float odd = amp_f32_odd_from_f64(x);
                const uint16_t got = format.dtype == AMP_BF16 ? amp_bf16_from_f32(odd) : amp_f16_from_f32(odd);
                ASSERT_EQ(got, nearest(format, x)) << amp_dtype_name(format.dtype) << " " << x;
            }
        }
    }
}

TEST(ConvertScalar, I64IsRoundedOnce) {
    const int64_t tie = (INT64_C(1) << 62) + (INT64_C(1) << 54);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_i64(tie)), 0x5e80);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_i64(tie + 1)), 0x5e81);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_i64(-tie - 1)), 0xde81);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_i64(INT64_MIN)), 0xdf00);
    EXPECT_EQ(amp_bf16_from_f32(amp_f32_odd_from_i64(INT64_MAX)), 0x5f00);
    EXPECT_EQ(amp_f16_from_f32(amp_f32_odd_from_i64(2049)), 0x6800);
    EXPECT_EQ(amp_f16_from_f32(amp_f32_odd_from_i64(0)), 0);
}
