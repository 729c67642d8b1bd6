// The numbers themselves: Philox's published vectors, where each word of a sequence goes, every ISA's bits, the accuracy
// of normally distributed numbers.
// emulate: *RandomRows*avx512*
#include <cmath>
#include <cstring>

#include "kernel_rows.h"

extern "C" {
#include "cpu/random/random_wide.h"
}

namespace {

using kernel_rows::EveryRow;

// kat_vectors of Random123 (Salmon et al.), philox4x32 10.
TEST(Philox, KnownAnswers) {
    const struct {
        uint32_t counter[4], key[2], want[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (const auto &v : vectors) {
        uint32_t c[4];
        std::memcpy(c, v.counter, sizeof c);
        philox_block(c, v.key[0], v.key[1]);
        for (int k = 0; k < 4; k++) EXPECT_EQ(c[k], v.want[k]) << k;
    }
}

const amp_random_place places[] = {
    {0, 0},
    {67280421310721, 12345},
    {0x123456789abcdef0, 0xfffffff},          // the next group carries into the second word of the counter
    {0xffffffffffffffff, 0xfffffffffffffffe}, // … and round the end of the sequence
};

amp_random_numbers plain_numbers() {
    amp_random_numbers numbers = {};
    numbers.bits = 24;
    numbers.width = numbers.deviation = numbers.scale = 1;
    numbers.below = 0.99999994F;
    numbers.last = 0x7fffffff;
    return numbers;
}

class RandomRows : public EveryRow {
  protected:
    std::vector<float> run(const amp_random_place &place, int64_t n, const std::vector<float> &in = {}) const {
        std::vector<float> out(size_t(n) + 1, -7.0F);
        const amp_random_numbers numbers = plain_numbers();
        reinterpret_cast<amp_random_function *>(kernel->function)(out.data(), in.empty() ? nullptr : in.data(), n,
                                                                  &place, &numbers);
        EXPECT_EQ(out.back(), -7.0F);
        out.pop_back();
        return out;
    }

    // By philox.h alone.
    static uint32_t word(const amp_random_place &place, int64_t i) {
        uint32_t c[4];
        philox_counter(c, place.offset + uint64_t(i / 64), uint32_t(i % 16));
        philox_block(c, uint32_t(place.seed), uint32_t(place.seed >> 32));
        return c[i % 64 / 16];
    }

    static uint32_t bits_of(float x) {
        uint32_t bits;
        std::memcpy(&bits, &x, sizeof bits);
        return bits;
    }
};

// What each family makes of the words of an element's place, in double precision.
TEST_P(RandomRows, ElementsAreMadeOfTheirWords) {
    enum { N = 64 * 5 + 9 };
    std::vector<float> in;
    for (int i = 0; i < N; i++) in.push_back(float(i % 17) / 16.0F);
    for (const amp_random_place &place : places) {
        const std::vector<float> out = run(place, N, in);
        for (int64_t i = 0; i < N; i++) {
            const uint32_t w = word(place, i);
            const float x = in[size_t(i)], y = out[size_t(i)];
            const int64_t pair = i / 32 * 32 + i % 16; // of the two words that a normal number is made of
            const double u = (word(place, pair) + 0.5) / 4294967296.0;
            const double angle = 2 * M_PI * word(place, pair + 16) / 4294967296.0;
            const double radius = std::sqrt(-2 * std::log(u));
            switch (kernel->family) {
            case AMP_KERNEL_RANDOM_WORDS: ASSERT_EQ(bits_of(y), w) << i; break;
            case AMP_KERNEL_RANDOM_UNIFORM: ASSERT_EQ(y, double(w >> 8) / 16777216.0) << i; break;
            case AMP_KERNEL_RANDOM_NORMAL:
                ASSERT_NEAR(y, radius * (i % 32 < 16 ? std::cos(angle) : std::sin(angle)),
                            2.4e-7 * radius + 0x1p-25 / radius)
                    << i;
                break;
            case AMP_KERNEL_RANDOM_KEEP: ASSERT_EQ(y, w <= 0x7fffffff ? x : 0.0F) << i; break;
            default: ASSERT_EQ(y, w / 4294967296.0 < x ? 1.0F : 0.0F) << i;
            }
        }
    }
}

TEST_P(RandomRows, EveryLengthHasTheBitsOfTheReference) {
    const amp_kernel *reference = nullptr;
    for (int row : kernel_rows::rows_of(kernel->family)) reference = amp_kernel_at(row); // the last
    const amp_random_numbers numbers = plain_numbers();
    for (int64_t n : {0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 128, 1000}) {
        const std::vector<float> got = run(places[1], n);
        std::vector<float> want(size_t(n) + 1);
        reinterpret_cast<amp_random_function *>(reference->function)(want.data(), nullptr, n, &places[1], &numbers);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), size_t(n) * sizeof(float)), 0) << n;
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, RandomRows, testing::ValuesIn(kernel_rows::rows_where([](const amp_kernel &kernel) {
                             return kernel.family >= AMP_KERNEL_RANDOM_WORDS &&
                                    kernel.family <= AMP_KERNEL_RANDOM_BELOW;
                         })),
                         kernel_rows::row_name);

// ---- Decisions by f32 probabilities are exact --------------------------------------------------------------------

class Below : public EveryRow {};

// Among words that decide most narrowly: those next to p·2³².
TEST_P(Below, ComparesAllBitsOfAWord) {
    const amp_random_place place = {3, 5};
    enum { N = 64 * 512 };
    std::vector<float> in(N), out(N);
    const amp_random_numbers numbers = plain_numbers();
    for (int64_t step = -2; step <= 2; step++) {
        for (int64_t i = 0; i < N; i++) { // the f32 nearest to the word itself, and its neighbours
            uint32_t c[4];
            philox_counter(c, place.offset + uint64_t(i / 64), uint32_t(i % 16));
            philox_block(c, uint32_t(place.seed), uint32_t(place.seed >> 32));
            float p = float(c[i % 64 / 16] / 4294967296.0);
            for (int64_t k = 0; k < std::abs(step); k++) p = std::nextafter(p, step < 0 ? 0.0F : 1.0F);
            in[size_t(i)] = p;
        }
        reinterpret_cast<amp_random_function *>(kernel->function)(out.data(), in.data(), N, &place, &numbers);
        int ones = 0;
        for (int64_t i = 0; i < N; i++) {
            uint32_t c[4];
            philox_counter(c, place.offset + uint64_t(i / 64), uint32_t(i % 16));
            philox_block(c, uint32_t(place.seed), uint32_t(place.seed >> 32));
            const float want = c[i % 64 / 16] / 4294967296.0 < double(in[size_t(i)]) ? 1.0F : 0.0F;
            ASSERT_EQ(out[size_t(i)], want) << i << " " << in[size_t(i)];
            ones += want == 1;
        }
        EXPECT_TRUE(step ? ones == (step > 0 ? N : 0) : ones > N / 4 && ones < 3 * N / 4) << step << " " << ones;
    }
}

INSTANTIATE_TEST_SUITE_P(Rows, Below, testing::ValuesIn(kernel_rows::rows_of(AMP_KERNEL_RANDOM_BELOW)),
                         kernel_rows::row_name);

// ---- f64 ---------------------------------------------------------------------------------------------------------

TEST(RandomWide, LogarithmsAndCirclesAreThoseOfLibm) {
    uint64_t w = 1;
    for (int i = 0; i < 200000; i++) {
        w = w * 6364136223846793005u + 1442695040888963407u;
        const double u = wide_unit(w) + 0x1p-54, angle = std::ldexp(double(int64_t(w)), -64) * 2 * M_PI;
        double cosine, sine;
        wide_circle(w, &cosine, &sine);
        ASSERT_NEAR(wide_log(u), std::log(u), 4.5e-16 * std::max(1.0, std::fabs(std::log(u)))) << u;
        ASSERT_NEAR(cosine, std::cos(angle), 1e-15) << angle;
        ASSERT_NEAR(sine, std::sin(angle), 1e-15) << angle;
    }
    for (uint64_t quarter = 0; quarter < 4; quarter++) {
        double cosine, sine;
        wide_circle(quarter << 62, &cosine, &sine);
        EXPECT_EQ(cosine, quarter == 0 ? 1 : quarter == 2 ? -1 : 0);
        EXPECT_EQ(sine, quarter == 1 ? 1 : quarter == 3 ? -1 : 0);
    }
    EXPECT_EQ(wide_log(1.0), 0.0);
    EXPECT_NEAR(wide_log(0x1p-54), -54 * M_LN2, 1e-14);
}

TEST(RandomWide, IntegersCoverTheirRange) {
    EXPECT_EQ(integer_below(0, 10), 0u);
    EXPECT_EQ(integer_below(UINT64_MAX, 10), 9u);
    EXPECT_EQ(integer_below(UINT64_MAX / 2 + 1, 10), 5u);
    EXPECT_EQ(large_integer_below(UINT64_MAX, UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    EXPECT_EQ(large_integer_below(UINT64_MAX, 0, uint64_t(1) << 33), (uint64_t(1) << 33) - 1);
    EXPECT_EQ(large_integer_below(0, UINT64_MAX, UINT64_MAX), 0u);
}

} // namespace
