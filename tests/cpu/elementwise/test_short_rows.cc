// Rows too short for a loop of their own, of which one operand has but one (a bias, the gates of channels): several are
// computed as one. The bits are those of the same operand written out.
#include "amp_test.h"
#include "guard.h"

using namespace amp_test;

namespace {

class ShortRows : public Test {};

amp_tensor *written_out(amp_tensor *t, amp_tensor *like) {
    amp_dims shape = {};
    shape.set = AMP_PRESENT;
    for (; shape.count < amp_tensor_rank(like); shape.count++)
        shape.values[shape.count] = amp_tensor_shape(like)[shape.count];
    return op("contiguous", {op("expand", {t, shape})});
}

bool same_bits(amp_tensor *a, amp_tensor *b) {
    return a && b && amp_tensor_dtype(a) == amp_tensor_dtype(b) &&
           std::memcmp(amp_data(a), amp_data(b), size_t(amp_tensor_numel(a)) * amp_dtype_size(amp_tensor_dtype(a))) ==
               0;
}

void expect_as_written_out(amp_tensor *x, amp_tensor *row) {
    amp_tensor *rows = written_out(row, x);
    for (const char *name : {"add", "sub", "mul"}) {
        EXPECT_TRUE(same_bits(op(name, {x, row}), op(name, {x, rows}))) << name;
        EXPECT_TRUE(same_bits(op(name, {row, x}), op(name, {rows, x}))) << name;
    }
}

TEST_F(ShortRows, GiveTheBitsOfTheOperandWrittenOut) {
    for (int64_t channels : {2, 3, 24, 255, 512, 513}) {
        for (int64_t pixels : {1, 2, 91}) {
            for (amp_dtype dtype : {AMP_F32, AMP_BF16, AMP_F64}) {
                const Scope inner;
                amp_tensor *x = random_tensor(dtype, {2, pixels, channels}, 1);
                for (amp_dtype other : {AMP_F32, AMP_BF16}) {
                    amp_tensor *two = random_tensor(other, {2 * channels}, 4);
                    expect_as_written_out(x, random_tensor(other, {channels}, 2));
                    expect_as_written_out(x, random_tensor(other, {2, 1, channels}, 3));
                    expect_as_written_out(x, op("slice", {two, 0, 0, 2 * channels}, {{"step", 2}}));
                }
            }
        }
    }
}

TEST_F(ShortRows, OfThreeOperandsAndOfOthersBesideThem) {
    const Scope inner;
    amp_tensor *x = random_tensor(AMP_F32, {3, 50, 24}, 1), *y = random_tensor(AMP_BF16, {24}, 2);
    amp_tensor *whole = random_tensor(AMP_F32, {3, 50, 24}, 3), *column = random_tensor(AMP_F32, {3, 50, 1}, 4);
    amp_tensor *turned = op("transpose", {random_tensor(AMP_F32, {3, 24, 50}, 5), 1, 2});
    for (amp_tensor *other : {whole, column, turned}) {
        amp_tensor *got = op("addcmul", {x, y, other});
        EXPECT_EQ(numbers_of(got), numbers_of(op("addcmul", {x, written_out(y, x), written_out(other, x)})));
    }
}

TEST_F(ShortRows, InPlaceAndIntoMemoryThatEndsThere) {
    for (int64_t channels : {3, 24, 130}) {
        for (int64_t pixels : {2, 41}) {
            const Scope inner;
            const int64_t shape[] = {pixels, channels};
            GuardedBuffer in(size_t(pixels * channels) * 4), row(size_t(channels) * 4);
            amp_tensor *x = amp_from_memory(in.data(), AMP_F32, 2, shape, nullptr, nullptr, nullptr);
            amp_tensor *b = amp_from_memory(row.data(), AMP_F32, 1, &channels, nullptr, nullptr, nullptr);
            std::memcpy(in.data(), amp_data(random_tensor(AMP_F32, {pixels, channels}, 6)), in.size());
            std::memcpy(row.data(), amp_data(random_tensor(AMP_F32, {channels}, 7)), row.size());
            const std::vector<double> want = numbers_of(op("mul", {x, written_out(b, x)}));
            ASSERT_EQ(op("mul_", {x, b}), x) << amp_last_error();
            EXPECT_EQ(numbers_of(x), want);
        }
    }
}

TEST_F(ShortRows, ThreadsThatBeginInTheMiddleOfARow) {
    amp_tensor *x = random_tensor(AMP_BF16, {7, 1021, 24}, 8), *row = random_tensor(AMP_F32, {7, 1, 24}, 9);
    amp_tensor *want = op("mul", {x, written_out(row, x)});
    const int before = amp_get_num_threads();
    for (int threads : {1, 2, 3}) {
        ASSERT_EQ(amp_set_num_threads(threads), AMP_OK);
        EXPECT_TRUE(same_bits(op("mul", {x, row}), want)) << threads;
    }
    ASSERT_EQ(amp_set_num_threads(before), AMP_OK);
}

} // namespace
