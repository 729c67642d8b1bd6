// The engine of libamp_blas.so: its ways against f64, what it refuses, the cache, and memory that is not there.
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <random>

#include "amp_test.h"
#include "blas/cache.h"
#include "blas/engine.h"
#include "blas/parts.h"
#include "blas/product.h"
#include "blas/range.h"
#include "core/half.h"

namespace {

struct Case {
    int64_t m, n, k;
    std::vector<float> a, b, c;
    amp_blas_product product{};

    Case(int64_t m, int64_t n, int64_t k, unsigned seed)
        : m(m), n(n), k(k), a((size_t)(m * k)), b((size_t)(k * n)), c((size_t)(m * n), NAN) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (float &x : a) x = normal(random);
        for (float &x : b) x = normal(random);
        product.m = m;
        product.n = n;
        product.k = k;
        product.alpha = 1;
        product.a.row = k;
        product.a.column = 1;
        product.b.row = n;
        product.b.column = 1;
        product.c_row = n;
        point();
    }
    void point() {
        product.a.data = a.data();
        product.b.data = b.data();
        product.c = c.data();
    }
    // The largest error of an element, of |A| |B|.
    double error() const {
        double largest = 0;
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, magnitude = 0;
                for (int64_t l = 0; l < k; l++) {
                    const double x = (double)a[(size_t)(i * k + l)] * b[(size_t)(l * n + j)];
                    sum += x;
                    magnitude += std::fabs(x);
                }
                const double error = std::fabs(c[(size_t)(i * n + j)] - sum) / magnitude;
                if (!(error <= largest)) largest = error;
            }
        }
        return largest;
    }
};

amp_blas_outcome run(const Case &x, amp_blas_precision precision, size_t cache = 0, bool everything = true,
                     bool over_loops = false) {
    amp_blas_request request{};
    request.over_loops = over_loops;
    request.precision = precision;
    request.everything = everything;
    request.cache_bytes = cache;
    amp_blas_outcome outcome;
    amp_blas_engine_table()->run(&x.product, 1, &request, &outcome);
    return outcome;
}

double bound(amp_blas_precision precision, int64_t k) {
    const double representation = precision == AMP_BLAS_BF16     ? 0x1.01p-7
                                  : precision == AMP_BLAS_BF16X2 ? 0x1.04p-15
                                                                 : 0x1.04p-24;
    return representation + (double)(k + 8) * 0x1p-24 * 1.07;
}

TEST(BlasEngine, ErrorsAreWithinTheBoundsThatTheDocumentsState) {
    for (const amp_blas_precision precision : {AMP_BLAS_BF16X3, AMP_BLAS_BF16X2, AMP_BLAS_BF16}) {
        for (const int64_t k : {1, 31, 33, 700, 9000}) { // 9000: two slabs
            Case x(17, 70, k, 5);
            const amp_blas_outcome outcome = run(x, precision);
            ASSERT_NE(outcome.way, nullptr) << outcome.why;
            EXPECT_LE(x.error(), bound(precision, k)) << outcome.way << ", K = " << k;
        }
    }
}

TEST(BlasEngine, PartsMakeTheNumberAndAreTheSameByAllInstructions) {
    std::mt19937 random(3);
    for (int i = 0; i < 2000; i++) {
        float x[37], sum[37] = {};
        uint16_t parts[2][3][37];
        for (float &value : x) value = amp_f32_bits(((random() % 200 + 28) << 23) | (random() & 0x807fffffu));
        for (int way = 0; way < 2; way++) {
            uint16_t *const to[] = {parts[way][0], parts[way][1], parts[way][2]};
            if (way == 0) amp_blas_parts_ref(x, 37, to);
#ifdef AMP_HAVE_AVX2
            if (way == 1 && amp_isa_usable(AMP_ISA_AVX2)) amp_blas_parts_avx2(x, 37, to);
            if (way == 1 && amp_isa_usable(AMP_ISA_AVX2)) {
                ASSERT_EQ(memcmp(parts[0], parts[1], sizeof parts[0]), 0);
            }
#endif
        }
        for (int j = 0; j < 37; j++) {
            for (int p = 2; p >= 0; p--) sum[j] += amp_f32_from_bf16(parts[0][p][j]);
            ASSERT_EQ(sum[j], x[j]);
        }
    }
}

TEST(BlasEngine, RangesAreThoseOfTheElements) {
    std::vector<float> x(40, 3.0f); // 5 x 8
    amp_blas_operand all{};
    all.data = x.data();
    all.row = 8;
    all.column = 1;
    amp_blas_range r = amp_blas_range_of(&all, 5, 8);
    EXPECT_EQ(r.lowest, 1);
    EXPECT_EQ(r.highest, 1);
    x[39] = -0x1p-100f;
    x[17] = 0x1.8p60f;
    x[3] = -0.0f;
    r = amp_blas_range_of(&all, 5, 8);
    EXPECT_EQ(r.lowest, -100);
    EXPECT_EQ(r.highest, 60);
    amp_blas_operand turned = all;
    std::swap(turned.row, turned.column);
    r = amp_blas_range_of(&turned, 8, 5);
    EXPECT_EQ(r.lowest, -100);
    x[20] = 0x1p-130f;
    EXPECT_EQ(amp_blas_range_of(&all, 5, 8).lowest, -127);
    x[20] = NAN;
    EXPECT_EQ(amp_blas_range_of(&all, 5, 8).highest, AMP_BLAS_NOT_FINITE);
    std::fill(x.begin(), x.end(), 0.0f);
    EXPECT_EQ(amp_blas_range_of(&all, 5, 8).lowest, AMP_BLAS_ALL_ZERO);
}

TEST(BlasEngine, WhatBf16CannotHaveIsRefusedAndNothingIsWritten) {
    const float bad[] = {NAN, INFINITY, -INFINITY, 0x1.fffffep127f, 0x1p-140f, 0x1p-115f};
    for (const float value : bad) {
        for (const amp_blas_precision precision : {AMP_BLAS_BF16X3, AMP_BLAS_BF16X2}) {
            Case x(40, 40, 40, 7);
            x.b[77] = value;
            const amp_blas_outcome outcome = run(x, precision);
            EXPECT_EQ(outcome.way, nullptr) << value;
            EXPECT_STREQ(outcome.why, "an element is not finite, or some are too far apart for bf16");
            EXPECT_TRUE(std::isnan(x.c[0]));
        }
    }
}

TEST(BlasEngine, AnOperandThatComesAgainIsTakenFromTheCacheUntilItIsWrittenTo) {
    Case x(64, 64, 64, 9);
    const size_t megabyte = 1 << 20;
    const uint64_t before = amp_blas_cache_hits();
    for (int i = 0; i < 4; i++) ASSERT_NE(run(x, AMP_BLAS_BF16, megabyte).way, nullptr);
    EXPECT_EQ(amp_blas_cache_hits(), before + 2); // the first is seen, the second packs
    for (int i = 0; i < 64; i++) {
        x.b[(size_t)(i * 61)] += 0.25f; // one element each time
        ASSERT_NE(run(x, AMP_BLAS_BF16, megabyte).way, nullptr);
        ASSERT_LE(x.error(), bound(AMP_BLAS_BF16, 64)) << "after write " << i;
    }
    EXPECT_EQ(amp_blas_cache_hits(), before + 2);
}

TEST(BlasEngine, TheCacheKeepsNoMoreThanItMay) {
    const uint64_t before = amp_blas_cache_hits();
    std::vector<Case> many;
    for (unsigned i = 0; i < 20; i++) many.emplace_back(32, 64, 64, i); // 8 KB packed each
    for (Case &x : many) x.point();
    for (int round = 0; round < 4; round++)
        for (const Case &x : many) {
            ASSERT_NE(run(x, AMP_BLAS_BF16, 32 * 1024).way, nullptr);
            ASSERT_LE(x.error(), bound(AMP_BLAS_BF16, 64));
        }
    EXPECT_EQ(amp_blas_cache_hits(), before); // each goes before it comes again
}

TEST(BlasEngine, OverPlainLoopsF32IsTakenInWhateverFormButATriangle) {
    if (!amp_isa_usable(AMP_ISA_AVX2)) {
        GTEST_SKIP() << "this CPU has no AVX2";
    }
    const struct {
        amp_blas_form form;
        bool part, loops, taken;
    } rows[] = {{AMP_BLAS_WHOLE, false, true, true},
                {AMP_BLAS_WHOLE, true, true, true},
                {AMP_BLAS_SYMMETRIC, false, true, true},
                {AMP_BLAS_TRIANGULAR, false, true, false},
                {AMP_BLAS_SYMMETRIC, false, false, false}};
    for (const auto &row : rows) {
        Case x(150, 150, 150, 15);
        x.product.a.form = row.form;
        if (row.part) {
            x.product.part = AMP_BLAS_LOWER;
        }
        for (int64_t i = 0; i < 150 && row.form == AMP_BLAS_SYMMETRIC; i++) // what is mirrored is there for the check
            for (int64_t j = i; j < 150; j++) x.a[(size_t)(i * 150 + j)] = x.a[(size_t)(j * 150 + i)];
        const amp_blas_outcome outcome = run(x, AMP_BLAS_BF16X3, 0, false, row.loops);
        EXPECT_EQ(outcome.way != nullptr, row.taken) << row.form << row.part << row.loops;
        EXPECT_EQ(std::isnan(x.c[1]), row.part || !row.taken); // above the diagonal
        for (int64_t i = 0; i < 150 && row.part; i++) {        // the error looks at all of C
            for (int64_t j = i + 1; j < 150; j++) {
                x.c[(size_t)(i * 150 + j)] = 0;
                for (int64_t l = 0; l < 150; l++)
                    x.c[(size_t)(i * 150 + j)] += x.a[(size_t)(i * 150 + l)] * x.b[(size_t)(l * 150 + j)];
            }
        }
        if (row.taken) {
            EXPECT_LE(x.error(), bound(AMP_BLAS_BF16X3, 150));
        }
    }
}

TEST(BlasEngine, ANarrowProductOfRowsIsTaken) {
    if (!amp_isa_usable(AMP_ISA_AVX2)) {
        GTEST_SKIP() << "this CPU has no AVX2";
    }
    Case x(1024, 64, 256, 16);
    const amp_blas_outcome outcome = run(x, AMP_BLAS_BF16X3, 0, false);
    ASSERT_NE(outcome.way, nullptr) << outcome.why;
    EXPECT_LE(x.error(), bound(AMP_BLAS_BF16X3, 256));
    if (amp_isa_usable(AMP_ISA_AMX)) {
        GTEST_SKIP() << "with AMX the others are products of bf16";
    }
    x.product.a.row = 1; // transposed: packing it would take as long as the product
    x.product.a.column = 1024;
    EXPECT_EQ(run(x, AMP_BLAS_BF16X3, 0, false).way, nullptr);
}

// An infinity times a number is no invalid operation, wherever it stands, and whatever fills the panels.
TEST(BlasEngine, InfinitiesRaiseNoException) {
    for (const int64_t n : {32, 100, 101, 113, 127}) {
        for (const int64_t k : {31, 64}) {
            Case x(n + 3, n, k, 17);
            x.a[5] = INFINITY;
            x.b[(size_t)(n * 3 + 7)] = -INFINITY;
            std::feclearexcept(FE_ALL_EXCEPT);
            const amp_blas_outcome outcome = run(x, AMP_BLAS_BF16X3, 0, false, true);
            EXPECT_EQ(std::fetestexcept(FE_INVALID), 0) << n << " x " << k << (outcome.way ? outcome.way : "");
            EXPECT_EQ(std::isinf(x.c[0]), outcome.way != nullptr);
        }
    }
}

TEST(BlasEngine, BitsDoNotDependOnThreads) {
    const int threads = amp_get_num_threads();
    for (const amp_blas_precision precision : {AMP_BLAS_BF16X3, AMP_BLAS_BF16}) {
        Case one(150, 200, 300, 11), four(150, 200, 300, 11);
        ASSERT_EQ(amp_set_num_threads(1), AMP_OK);
        ASSERT_NE(run(one, precision).way, nullptr);
        ASSERT_EQ(amp_set_num_threads(4), AMP_OK);
        ASSERT_NE(run(four, precision).way, nullptr);
        EXPECT_EQ(memcmp(one.c.data(), four.c.data(), one.c.size() * sizeof(float)), 0);
    }
    ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
}

// Memory ends after so many blocks.
struct Ending {
    int left;
};
void *allocate(void *context, size_t bytes, size_t alignment) {
    Ending *e = (Ending *)context;
    void *p = nullptr;
    if (e->left-- <= 0 || posix_memalign(&p, alignment, bytes) != 0) return nullptr;
    return p;
}
void release(void *, void *block, size_t) {
    free(block);
}

TEST(BlasEngine, WithoutMemoryTheResultIsRightOrNothingIsWritten) {
    for (const bool triangle : {false, true}) {
        for (int blocks = 0; blocks < 8; blocks++) {
            Case x(60, 60, 60, 13);
            if (triangle) x.product.a.form = AMP_BLAS_SYMMETRIC;
            for (int64_t i = 0; i < 60 && triangle; i++) // what is mirrored is there for the check
                for (int64_t j = i; j < 60; j++) x.a[(size_t)(i * 60 + j)] = x.a[(size_t)(j * 60 + i)];
            ASSERT_NE(run(x, AMP_BLAS_BF16X3).way, nullptr);
            std::fill(x.c.begin(), x.c.end(), NAN);
            Ending ending{blocks};
            amp_memory_trim();
            const amp_allocator allocator{allocate, release, &ending};
            ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
            const amp_blas_outcome outcome = run(x, AMP_BLAS_BF16X3, 1 << 20);
            amp_memory_trim();
            ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
            if (outcome.way) {
                EXPECT_LE(x.error(), bound(AMP_BLAS_BF16X3, 60)) << blocks;
            } else {
                EXPECT_STREQ(outcome.why, "there was no memory for it");
                EXPECT_TRUE(std::isnan(x.c[0]));
            }
            EXPECT_EQ(amp_last_status(), AMP_OK);
        }
    }
}

TEST(BlasEngine, RulesFollowFromTheShape) {
    Case small(16, 16, 16, 1), large(300, 300, 300, 1);
    EXPECT_EQ(run(small, AMP_BLAS_BF16, 0, false).way, nullptr);
    EXPECT_EQ(run(large, AMP_BLAS_F32, 0, false).way, nullptr);
    const amp_blas_outcome outcome = run(large, AMP_BLAS_BF16X3, 0, false);
    if (amp_isa_usable(AMP_ISA_AVX512)) {
        ASSERT_NE(outcome.way, nullptr);
        EXPECT_LE(large.error(), bound(AMP_BLAS_BF16X3, 300));
    }
}

} // namespace
