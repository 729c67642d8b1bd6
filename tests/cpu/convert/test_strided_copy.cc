// The general copy against one that visits one element at a time: all 144 pairs of types, random geometry.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "amp/error.h"
#include "amp/system.h"
#include "guard.h"

extern "C" {
#include "cpu/convert/strided_copy.h"
#include "cpu/registry/convert.h"
}

namespace {

const unsigned seed = 20261121;

template <class T>
T get(const void *p) {
    T x;
    memcpy(&x, p, sizeof x);
    return x;
}

template <class T>
void put(void *p, T x) {
    memcpy(p, &x, sizeof x);
}

// Any element, exactly.
struct Value {
    bool integer;
    int64_t i;
    double re, im;
};

Value read(amp_dtype dtype, const void *p) {
    switch (dtype) {
    case AMP_F64: return {false, 0, get<double>(p), 0};
    case AMP_F32: return {false, 0, get<float>(p), 0};
    case AMP_F16: return {false, 0, amp_f32_from_f16(get<uint16_t>(p)), 0};
    case AMP_BF16: return {false, 0, amp_f32_from_bf16(get<uint16_t>(p)), 0};
    case AMP_I64: return {true, get<int64_t>(p), 0, 0};
    case AMP_I32: return {true, get<int32_t>(p), 0, 0};
    case AMP_I16: return {true, get<int16_t>(p), 0, 0};
    case AMP_I8: return {true, get<int8_t>(p), 0, 0};
    case AMP_U8: return {true, get<uint8_t>(p), 0, 0};
    case AMP_BOOL: return {true, get<uint8_t>(p) != 0, 0, 0};
    case AMP_C64: return {false, 0, get<float>(p), get<float>((const char *)p + 4)};
    default: return {false, 0, get<double>(p), get<double>((const char *)p + 8)};
    }
}

int64_t integer_of(const Value &v, int64_t least) {
    if (v.integer) return v.i;
    const double limit = -double(least), whole = std::trunc(v.re);
    return whole >= -limit && whole < limit ? int64_t(whole) : least;
}

float single_of(const Value &v) {
    return v.integer ? float(v.i) : float(v.re);
}

float odd_of(const Value &v) {
    return v.integer ? amp_f32_odd_from_i64(v.i) : amp_f32_odd_from_f64(v.re);
}

void write(amp_dtype dtype, void *p, const Value &v) {
    const int64_t i64 = integer_of(v, INT64_MIN);
    switch (dtype) {
    case AMP_F64: put(p, v.integer ? double(v.i) : v.re); break;
    case AMP_F32: put(p, single_of(v)); break;
    case AMP_F16: put(p, amp_f16_from_f32(odd_of(v))); break;
    case AMP_BF16: put(p, amp_bf16_from_f32(odd_of(v))); break;
    case AMP_I64: put(p, i64); break;
    case AMP_I32: put(p, int32_t(integer_of(v, INT32_MIN))); break;
    case AMP_I16: put(p, int16_t(i64)); break;
    case AMP_I8: put(p, int8_t(i64)); break;
    case AMP_U8: put(p, uint8_t(i64)); break;
    case AMP_BOOL: put(p, uint8_t(v.integer ? v.i != 0 : v.re != 0 || v.im != 0)); break;
    case AMP_C64:
        put(p, single_of(v));
        put((char *)p + 4, float(v.im));
        break;
    default: put(p, v.integer ? double(v.i) : v.re); put((char *)p + 8, v.im);
    }
}

struct Geometry {
    int rank = 0;
    int64_t shape[AMP_MAX_RANK] = {}, strides[AMP_MAX_RANK] = {};
    int64_t first = 0, elements = 1; // place of element [0, …, 0], and size of the array
};

// The same shape laid out at random: dimensions in any order, gaps, backwards, and (repeats) stride 0.
Geometry lay_out(int rank, const int64_t *shape, std::mt19937 &random, bool repeats, bool plain) {
    Geometry g;
    g.rank = rank;
    std::copy(shape, shape + rank, g.shape);
    std::vector<int> order(rank);
    std::iota(order.begin(), order.end(), 0);
    if (!plain) std::shuffle(order.begin(), order.end(), random);
    int64_t size = 1;
    for (int k = rank - 1; k >= 0; k--) {
        const int d = order[k];
        if (!plain && repeats && random() % 6 == 0) continue; // stride 0
        if (!plain && random() % 5 == 0) size += int64_t(random() % 3);
        g.strides[d] = size;
        size *= std::max<int64_t>(shape[d], 1);
    }
    g.elements = size;
    for (int d = 0; d < rank; d++) {
        if (plain || random() % 4 || !shape[d]) continue;
        g.first += (shape[d] - 1) * g.strides[d];
        g.strides[d] = -g.strides[d];
    }
    return g;
}

std::vector<unsigned char> random_array(amp_dtype dtype, int64_t elements, std::mt19937 &random) {
    const size_t size = amp_dtype_size(dtype);
    std::vector<unsigned char> bytes(size_t(elements) * size);
    static const double specials[] = {0.0,  -0.0,  INFINITY, -INFINITY, 1e-42,       65520,
                                      3e38, 1e300, 255.5,    -1.5,      4294967296.0};
    for (int64_t i = 0; i < elements; i++) {
        unsigned char *p = &bytes[size_t(i) * size];
        if (dtype == AMP_BOOL) {
            *p = random() % 2;
        } else if (random() % 4 == 0) { // any bits, thus any NaN
            for (size_t b = 0; b < size; b++) p[b] = (unsigned char)random();
        } else {
            std::normal_distribution<double> normal(0, random() % 2 ? 1 : 1000);
            const double re = random() % 8 ? normal(random) : specials[random() % std::size(specials)];
            write(dtype, p, {false, 0, re, random() % 2 ? normal(random) : 0.0});
        }
    }
    return bytes;
}

void copy_one_by_one(unsigned char *dst, amp_dtype dst_dtype, const Geometry &d, const unsigned char *src,
                     amp_dtype src_dtype, const Geometry &s) {
    int64_t count = 1;
    for (int i = 0; i < d.rank; i++) count *= d.shape[i];
    for (int64_t n = 0; n < count; n++) {
        int64_t at_dst = d.first, at_src = s.first, rest = n;
        for (int i = d.rank - 1; i >= 0; i--) {
            at_dst += rest % d.shape[i] * d.strides[i];
            at_src += rest % d.shape[i] * s.strides[i];
            rest /= d.shape[i];
        }
        unsigned char *to = dst + at_dst * int64_t(amp_dtype_size(dst_dtype));
        const unsigned char *from = src + at_src * int64_t(amp_dtype_size(src_dtype));
        if (dst_dtype == src_dtype)
            memcpy(to, from, amp_dtype_size(dst_dtype));
        else
            write(dst_dtype, to, read(src_dtype, from));
    }
}

void check(amp_dtype dst_dtype, const Geometry &d, amp_dtype src_dtype, const Geometry &s, std::mt19937 &random) {
    const std::vector<unsigned char> src = random_array(src_dtype, s.elements, random);
    std::vector<unsigned char> want(size_t(d.elements) * amp_dtype_size(dst_dtype), 0x5a), got(want);
    copy_one_by_one(want.data(), dst_dtype, d, src.data(), src_dtype, s);
    ASSERT_EQ(AMP_OK, amp_strided_copy(got.data() + d.first * int64_t(amp_dtype_size(dst_dtype)), dst_dtype, d.strides,
                                       src.data() + s.first * int64_t(amp_dtype_size(src_dtype)), src_dtype, s.strides,
                                       d.rank, d.shape))
        << amp_last_error();
    for (size_t i = 0; i < got.size(); i++) {
        if (got[i] == want[i]) continue;
        std::string text = std::string(amp_dtype_name(src_dtype)) + " to " + amp_dtype_name(dst_dtype) + ", byte " +
                           std::to_string(i) + ", [extent, dst stride, src stride]:";
        for (int k = 0; k < d.rank; k++)
            text += " [" + std::to_string(d.shape[k]) + ", " + std::to_string(d.strides[k]) + ", " +
                    std::to_string(s.strides[k]) + "]";
        FAIL() << text;
    }
}

void check_shape(amp_dtype dst_dtype, amp_dtype src_dtype, int rank, const int64_t *shape, std::mt19937 &random) {
    const Geometry d = lay_out(rank, shape, random, false, random() % 2);
    const Geometry s = lay_out(rank, shape, random, true, random() % 2);
    check(dst_dtype, d, src_dtype, s, random);
}

// As in a file; more than is copied at a time, with any of the dimensions the widest, or none.
TEST(StridedCopy, FromAnyAddress) {
    const int64_t shape[] = {70, 3, 1, 600},
                  permuted[][4] = {{1800, 600, 600, 1}, {3, 1, 7, 210}, {0, 600, 5, 1}, {1, 70, 210, 210}};
    const size_t elements = 70 * 3 * 600;
    std::mt19937 random(seed);
    std::vector<float> source(elements);
    for (float &x : source) x = static_cast<float>(random()) / 4e9f;
    std::vector<char> elsewhere(elements * sizeof(float) + 3);
    memcpy(elsewhere.data() + 3, source.data(), elements * sizeof(float));
    for (const auto &strides : permuted) {
        for (amp_dtype to : {AMP_F32, AMP_BF16}) {
            const int64_t dense[] = {1800, 600, 600, 1};
            std::vector<char> want(elements * 4), got(elements * 4);
            ASSERT_EQ(AMP_OK, amp_strided_copy(want.data(), to, dense, source.data(), AMP_F32, strides, 4, shape));
            ASSERT_EQ(AMP_OK, amp_strided_copy_anywhere(got.data(), to, dense, elsewhere.data() + 3, AMP_F32, strides,
                                                        4, shape));
            EXPECT_EQ(want, got) << "strides " << strides[0] << ", " << strides[1] << " to " << amp_dtype_name(to);
        }
    }
    const int64_t none[] = {70, 0, 1, 600};
    EXPECT_EQ(AMP_OK, amp_strided_copy_anywhere(nullptr, AMP_F32, none, elsewhere.data() + 3, AMP_F32, none, 4, none));
}

} // namespace

TEST(StridedCopy, All144PairsOfTypesInRandomGeometry) {
    std::mt19937 random(seed);
    for (int dst = AMP_F64; dst < AMP_DTYPE_COUNT; dst++) {
        for (int src = AMP_F64; src < AMP_DTYPE_COUNT; src++) {
            for (int trial = 0; trial < 20; trial++) {
                int64_t shape[AMP_MAX_RANK];
                const int rank = int(random() % 5);
                for (int i = 0; i < rank; i++) shape[i] = 1 + int64_t(random() % 11);
                check_shape(amp_dtype(dst), amp_dtype(src), rank, shape, random);
                if (HasFatalFailure()) FAIL() << "seed " << seed;
            }
        }
    }
}

TEST(StridedCopy, All144PairsOfTypesContiguousBeyondABlock) {
    std::mt19937 random(seed + 1);
    for (int dst = AMP_F64; dst < AMP_DTYPE_COUNT; dst++) {
        for (int src = AMP_F64; src < AMP_DTYPE_COUNT; src++) {
            const int64_t shape[] = {777};
            const Geometry plain = lay_out(1, shape, random, false, true);
            check(amp_dtype(dst), plain, amp_dtype(src), plain, random);
            ASSERT_FALSE(HasFatalFailure());
        }
    }
}

TEST(StridedCopy, AnyRankUpTo8) {
    std::mt19937 random(seed + 2);
    const amp_dtype types[] = {AMP_F32, AMP_BF16, AMP_I64, AMP_U8, AMP_C128};
    for (int trial = 0; trial < 3000; trial++) {
        int64_t shape[AMP_MAX_RANK];
        const int rank = int(random() % (AMP_MAX_RANK + 1));
        for (int i = 0; i < rank; i++) shape[i] = rank > 5 ? 1 + int64_t(random() % 3) : int64_t(random() % 7);
        check_shape(types[random() % 5], types[random() % 5], rank, shape, random);
        ASSERT_FALSE(HasFatalFailure()) << "seed " << seed + 2 << " trial " << trial;
    }
}

TEST(StridedCopy, TransposesOfEverySizeAroundATile) {
    std::mt19937 random(seed + 3);
    const int64_t sizes[] = {1, 3, 4, 15, 16, 17, 63, 64, 65, 130};
    for (int64_t rows : sizes) {
        for (int64_t columns : sizes) {
            const int64_t shape[] = {2, rows, columns};
            Geometry d = lay_out(3, shape, random, false, true), s = d;
            s.strides[1] = 1;
            s.strides[2] = rows;
            for (amp_dtype dst : {AMP_F32, AMP_BF16, AMP_I8, AMP_C128}) {
                check(dst, d, AMP_F32, s, random);
                check(dst, d, dst, s, random);
                check(dst, s, AMP_F32, d, random);
                ASSERT_FALSE(HasFatalFailure());
            }
        }
    }
}

// Big enough to be spread over threads, at sizes that do not divide evenly; the answer is that of one thread.
TEST(StridedCopy, ThreadsCutAnywhereWithinRowsAndBands) {
    std::mt19937 random(seed + 4);
    const int before = amp_get_num_threads();
    const int64_t shapes[][3] = {{1, 1, 300007}, {3, 333, 301}, {1000, 100, 3}, {2, 3, 50021}};
    for (int threads : {1, 2, 3, 7}) {
        ASSERT_EQ(AMP_OK, amp_set_num_threads(threads));
        for (const int64_t *shape : shapes) {
            check_shape(AMP_BF16, AMP_F32, 3, shape, random);
            Geometry d = lay_out(3, shape, random, false, true), s = d;
            s.strides[1] = 1;
            s.strides[2] = shape[1];
            check(AMP_F32, d, AMP_F32, s, random);
            check(AMP_F32, s, AMP_F16, d, random);
            ASSERT_FALSE(HasFatalFailure()) << threads << " threads, seed " << seed + 4;
        }
    }
    amp_set_num_threads(before);
}

TEST(StridedCopy, StaysWithinItsArrays) {
    for (int64_t n = 0; n < 80; n++) {
        for (bool strided : {false, true}) {
            const int64_t stride = strided ? 3 : 1, extent = n ? (n - 1) * stride + 1 : 0;
            GuardedBuffer src(size_t(extent) * 4), dst(size_t(extent) * 2);
            EXPECT_EQ(AMP_OK, amp_strided_copy(dst.data(), AMP_BF16, &stride, src.data(), AMP_F32, &stride, 1, &n));
            EXPECT_EQ(AMP_OK, amp_strided_copy(dst.data(), AMP_F16, &stride, src.data(), AMP_I32, &stride, 1, &n));
        }
    }
}

TEST(StridedCopy, ColoursOfAnImageOfEveryWidthWithinTheirArrays) {
    for (int64_t colours = 2; colours < 5; colours++) {
        for (int64_t pixels = 1; pixels < 40; pixels++) {
            const size_t n = size_t(colours * pixels);
            GuardedBuffer src(n * 4), dst(n * 4);
            float *x = reinterpret_cast<float *>(src.data()), *y = reinterpret_cast<float *>(dst.data());
            for (size_t i = 0; i < n; i++) x[i] = float(i + 1);
            const int64_t shape[] = {colours, pixels}, planes[] = {pixels, 1}, woven[] = {1, colours};
            ASSERT_EQ(AMP_OK, amp_strided_copy(y, AMP_F32, woven, x, AMP_F32, planes, 2, shape));
            for (int64_t c = 0; c < colours; c++)
                for (int64_t i = 0; i < pixels; i++) ASSERT_EQ(x[c * pixels + i], y[i * colours + c]) << pixels;
        }
    }
}

TEST(StridedCopy, ReversedRowsAndOneElementEverywhereOfEveryLength) {
    for (int64_t n = 1; n < 40; n++) {
        GuardedBuffer src(size_t(n) * 4), dst(size_t(n) * 4);
        float *x = reinterpret_cast<float *>(src.data()), *y = reinterpret_cast<float *>(dst.data());
        for (int64_t i = 0; i < n; i++) x[i] = float(i + 1);
        const int64_t forward = 1, backward = -1, still = 0;
        ASSERT_EQ(AMP_OK, amp_strided_copy(y, AMP_F32, &forward, x + n - 1, AMP_F32, &backward, 1, &n));
        for (int64_t i = 0; i < n; i++) ASSERT_EQ(float(n - i), y[i]) << n;
        ASSERT_EQ(AMP_OK, amp_strided_copy(y, AMP_F32, &forward, x + n - 1, AMP_F32, &still, 1, &n));
        for (int64_t i = 0; i < n; i++) ASSERT_EQ(float(n), y[i]) << n;
    }
    const int64_t n = 5001, forward = 1, still = 0; /* longer than what is written at a time */
    const double pair[2] = {1.5, -2.0};
    std::vector<double> many(size_t(n) * 2);
    ASSERT_EQ(AMP_OK, amp_strided_copy(many.data(), AMP_C128, &forward, pair, AMP_C128, &still, 1, &n));
    for (size_t i = 0; i < many.size(); i++) ASSERT_EQ(pair[i % 2], many[i]);
}

TEST(StridedCopy, EmptyShapesTouchNothing) {
    const int64_t shape[] = {3, 0, 2}, strides[] = {0, 0, 0};
    EXPECT_EQ(AMP_OK, amp_strided_copy(nullptr, AMP_F32, strides, nullptr, AMP_BF16, strides, 3, shape));
}

TEST(StridedCopy, ArrayOntoItselfIsLeftAlone) {
    float x[4] = {1, 2, 3, 4};
    const int64_t shape[] = {4}, strides[] = {1};
    EXPECT_EQ(AMP_OK, amp_strided_copy(x, AMP_F32, strides, x, AMP_F32, strides, 1, shape));
    EXPECT_EQ(x[3], 4);
}

TEST(StridedCopy, FloatToIntegerTruncatesAndSaysWhatDoesNotFit) {
    const float x[] = {1.9f, -1.9f, 3e9f, -3e9f, 1e30f, NAN, INFINITY, 300.7f};
    const int64_t shape[] = {8}, strides[] = {1};
    int32_t i32[8];
    int64_t i64[8];
    uint8_t u8[8];
    ASSERT_EQ(AMP_OK, amp_strided_copy(i32, AMP_I32, strides, x, AMP_F32, strides, 1, shape));
    ASSERT_EQ(AMP_OK, amp_strided_copy(i64, AMP_I64, strides, x, AMP_F32, strides, 1, shape));
    ASSERT_EQ(AMP_OK, amp_strided_copy(u8, AMP_U8, strides, x, AMP_F32, strides, 1, shape));
    const int32_t want32[] = {1, -1, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN, 300};
    const int64_t want64[] = {1, -1, 3000000000, -3000000000, INT64_MIN, INT64_MIN, INT64_MIN, 300};
    EXPECT_EQ(0, memcmp(i32, want32, sizeof i32));
    EXPECT_EQ(0, memcmp(i64, want64, sizeof i64));
    EXPECT_EQ(u8[1], 255);
    EXPECT_EQ(u8[7], 44);
}

TEST(StridedCopy, AnythingButZeroIsTrue) {
    const float x[] = {0.0f, -0.0f, 1e-45f, NAN, 0.5f};
    const int64_t shape[] = {5}, strides[] = {1};
    unsigned char got[5];
    ASSERT_EQ(AMP_OK, amp_strided_copy(got, AMP_BOOL, strides, x, AMP_F32, strides, 1, shape));
    const unsigned char want[] = {0, 0, 1, 1, 1};
    EXPECT_EQ(0, memcmp(got, want, 5));
    const float imaginary[] = {0, 2};
    const int64_t one[] = {1};
    ASSERT_EQ(AMP_OK, amp_strided_copy(got, AMP_BOOL, strides, imaginary, AMP_C64, strides, 1, one));
    EXPECT_EQ(got[0], 1);
}

TEST(StridedCopy, ComplexToRealDropsTheImaginaryPart) {
    const double z[] = {1.5, 99, -2.5, NAN};
    const int64_t shape[] = {2}, strides[] = {1};
    float got[2];
    ASSERT_EQ(AMP_OK, amp_strided_copy(got, AMP_F32, strides, z, AMP_C128, strides, 1, shape));
    EXPECT_EQ(got[0], 1.5f);
    EXPECT_EQ(got[1], -2.5f);
}

TEST(StridedCopy, StrideZeroInTheDestinationIsAnError) {
    float x[4] = {}, y[4] = {};
    const int64_t shape[] = {4}, strides[] = {1}, none[] = {0};
    EXPECT_EQ(AMP_ERROR_INVALID, amp_strided_copy(x, AMP_F32, none, y, AMP_F32, strides, 1, shape));
    EXPECT_STREQ(amp_last_error(), "copy: the destination has stride 0 over dimension 0 of 4 elements");
    amp_clear_error();
}

TEST(StridedCopy, UnknownDtypeIsAnError) {
    float x[1] = {};
    EXPECT_EQ(AMP_ERROR_DTYPE, amp_strided_copy(x, amp_dtype(99), nullptr, x, AMP_F32, nullptr, 0, nullptr));
    EXPECT_EQ(AMP_ERROR_DTYPE, amp_strided_copy(x, AMP_F32, nullptr, x, AMP_DTYPE_NONE, nullptr, 0, nullptr));
    amp_clear_error();
}
