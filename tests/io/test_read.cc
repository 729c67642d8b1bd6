// Tensors for people and for the program's own memory: amp_print, amp_repr, amp_read, amp_channels_last.
#include "amp_test.h"

#include <cstdio>
#include <limits>
#include <thread>

using namespace amp_test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

std::string repr(const amp_tensor *t) {
    char *text = amp_repr(t);
    EXPECT_NE(text, nullptr) << amp_last_error();
    std::string copy = text ? text : "";
    amp_repr_free(text);
    return copy;
}

// The text without its first line.
std::string values(const amp_tensor *t) {
    const std::string text = repr(t);
    return text.substr(text.find('\n') + 1);
}

std::vector<double> counted(int64_t count, double step = 1) {
    std::vector<double> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<double>(i) * step;
    return numbers;
}

class Print : public Test {};
class Read : public Test {};
class ChannelsLast : public Test {};

} // namespace

// What torch 2 prints of the same values.
TEST_F(Print, NumbersLookAsPyTorchPrintsThem) {
    EXPECT_EQ(values(tensor(AMP_F32, {2, 3}, {0, 1.0 / 3, -2.5, kInf, kNan, 1e-3})),
              R"([[ 0.0000e+00,  3.3333e-01, -2.5000e+00],
 [        inf,         nan,  1.0000e-03]])");
    EXPECT_EQ(values(tensor(AMP_F32, {4}, {1, -20, kInf, 0})), "[  1., -20.,  inf,   0.]");
    EXPECT_EQ(values(tensor(AMP_F32, {3}, {1e-5, 1, -3e7})), "[ 1.0000e-05,  1.0000e+00, -3.0000e+07]");
    EXPECT_EQ(values(tensor(AMP_BF16, {2, 3}, {0, 0.333984375, 0.66796875, 1, 1.3359375, 1.6640625})),
              R"([[0.0000, 0.3340, 0.6680],
 [1.0000, 1.3359, 1.6641]])");
    EXPECT_EQ(values(tensor(AMP_I64, {2, 2}, {1, -200, 3, 4})), R"([[   1, -200],
 [   3,    4]])");
    EXPECT_EQ(values(tensor(AMP_BOOL, {2}, {1, 0})), "[ True, False]");
    EXPECT_EQ(values(tensor(AMP_F32, {}, {2.5})), "2.5000");
    EXPECT_EQ(values(tensor(AMP_F32, {}, {7})), "7.");
    EXPECT_EQ(values(tensor(AMP_F64, {2}, {1e300, 1})), "[1.0000e+300,  1.0000e+00]");
    EXPECT_EQ(values(tensor(AMP_F32, {3}, {0, -0.0, kNan})), "[0., -0., nan]");
    EXPECT_EQ(values(tensor(AMP_F32, {0, 3}, {})), "[]");
    const float parts[] = {1.5F, -2, 3, 0.25F, -1, std::numeric_limits<float>::infinity()};
    const int64_t three[] = {3};
    EXPECT_EQ(values(amp_from_data(parts, AMP_C64, 1, three)), "[ 1.5000-2.0000j,  3.0000+0.2500j, -1.0000+infj]");
}

TEST_F(Print, LongOnesShowTheirEndsAndLinesEndAtEightyColumns) {
    EXPECT_EQ(values(tensor(AMP_F32, {30}, counted(30, 1.0 / 7))),
              R"([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429, 1.2857,
 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286, 2.5714, 2.7143,
 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143, 3.8571, 4.0000, 4.1429])");
    EXPECT_EQ(values(tensor(AMP_F32, {1001}, counted(1001, 0.125))),
              "[  0.0000,   0.1250,   0.2500,  ..., 124.7500, 124.8750, 125.0000]");
    EXPECT_EQ(values(tensor(AMP_I64, {2, 30, 20}, counted(1200))), R"([[[   0,    1,    2,  ...,   17,   18,   19],
  [  20,   21,   22,  ...,   37,   38,   39],
  [  40,   41,   42,  ...,   57,   58,   59],
  ...,
  [ 540,  541,  542,  ...,  557,  558,  559],
  [ 560,  561,  562,  ...,  577,  578,  579],
  [ 580,  581,  582,  ...,  597,  598,  599]],

 [[ 600,  601,  602,  ...,  617,  618,  619],
  [ 620,  621,  622,  ...,  637,  638,  639],
  [ 640,  641,  642,  ...,  657,  658,  659],
  ...,
  [1140, 1141, 1142,  ..., 1157, 1158, 1159],
  [1160, 1161, 1162,  ..., 1177, 1178, 1179],
  [1180, 1181, 1182,  ..., 1197, 1198, 1199]]])");
    EXPECT_EQ(values(tensor(AMP_I32, {2, 2, 2, 2}, counted(16))), R"([[[[ 0,  1],
   [ 2,  3]],

  [[ 4,  5],
   [ 6,  7]]],


 [[[ 8,  9],
   [10, 11]],

  [[12, 13],
   [14, 15]]]])");
}

TEST_F(Print, TheHeadSaysShapeTypeDeviceAndStrides) {
    amp_tensor *x = tensor(AMP_I64, {2, 3}, counted(6));
    EXPECT_EQ(repr(x), "[2, 3] i64 cpu\n[[0, 1, 2],\n [3, 4, 5]]");
    EXPECT_EQ(repr(op("t", {x})), "[3, 2] i64 cpu, strides [1, 3]\n[[0, 3],\n [1, 4],\n [2, 5]]");
}

TEST_F(Print, WhatFailedSaysWhyAndTheErrorStands) {
    amp_tensor *x = tensor(AMP_F32, {2}, {1, 2});
    EXPECT_EQ(repr(nullptr), "NULL");
    EXPECT_EQ(op("mm", {x, x}), nullptr);
    const std::string sentence = amp_last_error();
    EXPECT_EQ(repr(nullptr), "NULL: " + sentence);
    EXPECT_EQ(repr(x), "[2] f32 cpu\n[1., 2.]") << "one looks at the arguments of what failed";
    EXPECT_EQ(amp_last_error(), sentence);
    EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
    amp_clear_error();
}

TEST_F(Print, WritesToAFile) {
    std::FILE *file = std::tmpfile();
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(amp_print(tensor(AMP_F32, {2}, {1, 2}), file), AMP_OK);
    std::rewind(file);
    char text[64] = "";
    EXPECT_EQ(std::string(text, std::fread(text, 1, sizeof text, file)), "[2] f32 cpu\n[1., 2.]\n");
    std::fclose(file);
    EXPECT_EQ(amp_print(tensor(AMP_F32, {2}), nullptr), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"print: the file is NULL"}));
}

TEST_F(Print, IsNoPartOfTheReportNorOfARegion) {
    amp_explain_reset();
    amp_explain_begin();
    amp_autocast_here(AMP_DEVICE_CPU);
    amp_tensor *x = tensor(AMP_F64, {40, 40}, counted(1600, 1e-3));
    EXPECT_NE(values(x).find("1.5990e+00]]"), std::string::npos) << values(x);
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    EXPECT_NE(std::string(report).find("\"ops\": []"), std::string::npos) << report;
    amp_explain_free(report);
}

TEST_F(Read, ConvertsAndMakesDense) {
    amp_tensor *x = tensor(AMP_BF16, {2, 3}, {0, 1, 2, 3, 4, 5});
    float numbers[7] = {0, 0, 0, 0, 0, 0, 7};
    ASSERT_EQ(amp_read(op("t", {x}), AMP_F32, numbers, sizeof numbers), AMP_OK) << amp_last_error();
    EXPECT_EQ(std::vector<float>(numbers, numbers + 7), (std::vector<float>{0, 3, 1, 4, 2, 5, 7})) << "and no more";
    int64_t whole[6] = {};
    ASSERT_EQ(amp_read(x, AMP_I64, whole, sizeof whole), AMP_OK);
    EXPECT_EQ(std::vector<int64_t>(whole, whole + 6), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
    double column[2] = {};
    ASSERT_EQ(amp_read(op("select", {x, 1, 2}), AMP_F64, column, sizeof column), AMP_OK);
    EXPECT_EQ(column[0], 2);
    EXPECT_EQ(column[1], 5);
}

TEST_F(Read, SameTypeIsACopyOfTheBytes) {
    amp_tensor *x = random_tensor(AMP_F32, {3, 4, 5}, 1);
    std::vector<float> numbers(60);
    ASSERT_EQ(amp_read(x, AMP_F32, numbers.data(), 240), AMP_OK);
    EXPECT_EQ(std::memcmp(numbers.data(), amp_data(x), 240), 0);
    ASSERT_EQ(amp_read(op("expand", {op("select", {x, 0, 1}), AMP_DIMS(3, 4, 5)}), AMP_F32, numbers.data(), 240),
              AMP_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(std::memcmp(&numbers[static_cast<size_t>(i) * 20], static_cast<const float *>(amp_data(x)) + 20, 80),
                  0);
    }
}

TEST_F(Read, RefusesWhatDoesNotFit) {
    amp_tensor *x = tensor(AMP_F32, {2, 3}, counted(6));
    float numbers[6] = {9, 9, 9, 9, 9, 9};
    EXPECT_EQ(amp_read(x, AMP_F32, numbers, 20), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"read: the buffer has 20 bytes", "[2, 3] f32 as f32 needs 24"}));
    EXPECT_EQ(numbers[0], 9) << "nothing is written";
    EXPECT_EQ(amp_read(x, AMP_F32, nullptr, 24), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"read: the buffer is NULL"}));
    EXPECT_EQ(amp_read(x, AMP_DTYPE_NONE, numbers, 24), AMP_ERROR_DTYPE);
    EXPECT_TRUE(failed_with(AMP_ERROR_DTYPE, {"which is no dtype"}));
    EXPECT_EQ(amp_read(nullptr, AMP_F32, numbers, 24), AMP_ERROR_INVALID);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"read: the argument 'tensor' is missing"}));
    EXPECT_EQ(amp_read(tensor(AMP_F32, {0}, {}), AMP_F32, nullptr, 0), AMP_OK);
}

TEST_F(ChannelsLast, HasTheSameValuesInAnotherOrder) {
    for (const Shape &shape : {Shape{2, 3, 4, 5}, Shape{2, 3, 4, 5, 2}}) {
        amp_tensor *x = random_tensor(AMP_F32, shape, 2), *y = amp_channels_last(x);
        ASSERT_NE(y, nullptr) << amp_last_error();
        EXPECT_EQ(numbers_of(y), numbers_of(x));
        EXPECT_EQ(Shape(amp_tensor_shape(y), amp_tensor_shape(y) + amp_tensor_rank(y)), shape);
        const int64_t *strides = amp_tensor_strides(y);
        EXPECT_EQ(strides[1], 1);
        EXPECT_EQ(strides[shape.size() - 1], 3);
        EXPECT_EQ(strides[0], amp_tensor_numel(x) / 2);
        EXPECT_EQ(amp_data(amp_channels_last(y)), amp_data(y)) << "a view where it is so already";
    }
}

TEST_F(ChannelsLast, LeavesNothingBehindWithoutAScope) {
    std::thread([] {
        amp_tensor *x = tensor(AMP_F32, {1, 2, 2, 2});
        const size_t live = amp_memory_statistics().live_tensors;
        amp_tensor *y = amp_channels_last(x);
        EXPECT_EQ(amp_memory_statistics().live_tensors, live + 1);
        amp_release(y);
        amp_release(x);
    }).join();
}

TEST_F(ChannelsLast, RefusesOtherRanks) {
    EXPECT_EQ(amp_channels_last(tensor(AMP_F32, {2, 3, 4})), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"channels_last: tensor is [2, 3, 4] f32; expected rank 4 or 5"}));
    EXPECT_EQ(amp_channels_last(nullptr), nullptr);
    EXPECT_TRUE(failed_with(AMP_ERROR_INVALID, {"channels_last: the argument 'tensor' is missing"}));
}
