// The parts of the OCR example that need no model: boxes out of maps, letters out of scores, pieces of pictures.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "amp_test.h"
#include "letters.h"
#include "ocr_report.h"
#include "picture.h"
#include "text_boxes.h"

namespace {

struct Map {
    static constexpr int kWidth = 120, kHeight = 80;
    std::vector<float> values = std::vector<float>(size_t(kWidth) * kHeight, 0.02f);

    // A rectangle, turned by `degrees` clockwise.
    void draw(double x, double y, double width, double height, double degrees = 0, float value = 0.9f) {
        const double c = std::cos(degrees * M_PI / 180), s = std::sin(degrees * M_PI / 180);
        for (int row = 0; row < kHeight; row++) {
            for (int column = 0; column < kWidth; column++) {
                const double dx = column + 0.5 - x, dy = row + 0.5 - y;
                if (std::fabs(dx * c + dy * s) <= width / 2 && std::fabs(dy * c - dx * s) <= height / 2)
                    values[size_t(row) * kWidth + size_t(column)] = value;
            }
        }
    }
    std::vector<text_box> boxes(int most = 50) const {
        std::vector<text_box> found(static_cast<size_t>(most));
        const int count = text_boxes_find(values.data(), kWidth, kWidth, kHeight, found.data(), most);
        EXPECT_GE(count, 0);
        found.resize(size_t(std::max(count, 0)));
        return found;
    }
};

TEST(TextBoxes, AnEmptyMapHasNone) {
    EXPECT_TRUE(Map().boxes().empty());
}

TEST(TextBoxes, AreGrownByTheirAreaOverTheirOutline) {
    Map m;
    m.draw(60, 30, 40, 10);
    const auto boxes = m.boxes();
    ASSERT_EQ(boxes.size(), 1u);
    const text_box &b = boxes[0];
    const double more = 1.6 * 40 * 10 / (40 + 10);
    EXPECT_NEAR(b.x, 60, 1e-9);
    EXPECT_NEAR(b.y, 30, 1e-9);
    EXPECT_NEAR(b.width, 40 + more, 1e-9);
    EXPECT_NEAR(b.height, 10 + more, 1e-9);
    EXPECT_NEAR(b.score, 0.9, 1e-6);
    double corners[4][2];
    text_box_corners(&b, corners);
    EXPECT_NEAR(corners[0][0], 60 - b.width / 2, 1e-9);
    EXPECT_NEAR(corners[0][1], 30 - b.height / 2, 1e-9);
    EXPECT_NEAR(corners[2][0], 60 + b.width / 2, 1e-9);
    EXPECT_NEAR(corners[2][1], 30 + b.height / 2, 1e-9);
}

TEST(TextBoxes, LieAtAnyAngle) {
    for (const double degrees : {-40.0, -10.0, 5.0, 30.0, 44.0}) {
        Map m;
        m.draw(60, 40, 60, 8, degrees);
        const auto boxes = m.boxes();
        ASSERT_EQ(boxes.size(), 1u) << degrees;
        EXPECT_NEAR(std::atan2(boxes[0].along[1], boxes[0].along[0]) * 180 / M_PI, degrees, 3);
        EXPECT_NEAR(boxes[0].x, 60, 1);
        EXPECT_NEAR(boxes[0].y, 40, 1);
        EXPECT_GT(boxes[0].width, 4 * boxes[0].height - 60);
    }
}

TEST(TextBoxes, HighOnesAreReadDownwards) {
    Map m;
    m.draw(60, 40, 8, 50);
    const auto boxes = m.boxes();
    ASSERT_EQ(boxes.size(), 1u);
    EXPECT_NEAR(boxes[0].along[1], 1, 1e-9);
    EXPECT_GT(boxes[0].width, boxes[0].height);
}

TEST(TextBoxes, ComeInTheOrderOfReading) {
    Map m;
    m.draw(90, 19, 30, 6);
    m.draw(30, 20, 30, 6);
    m.draw(40, 50, 30, 6);
    const auto boxes = m.boxes();
    ASSERT_EQ(boxes.size(), 3u);
    EXPECT_NEAR(boxes[0].x, 30, 1);
    EXPECT_NEAR(boxes[1].x, 90, 1);
    EXPECT_NEAR(boxes[2].x, 40, 1);
}

TEST(TextBoxes, WhatIsSmallOrUnsureIsNone) {
    Map m;
    m.draw(20, 20, 2, 2);
    m.draw(60, 20, 20, 8, 0, 0.4f);
    EXPECT_TRUE(m.boxes().empty());
    m.draw(60, 60, 20, 8, 0, NAN);
    EXPECT_TRUE(m.boxes().empty());
    m.draw(60, 60, 200, 100); // all of the map
    EXPECT_EQ(m.boxes().size(), 1u);
    EXPECT_TRUE(m.boxes(0).empty());
}

TEST(TextBoxes, ARingIsOnePiece) {
    Map m;
    m.draw(60, 40, 60, 40);
    m.draw(60, 40, 50, 4, 0, 0.02f);
    EXPECT_EQ(m.boxes().size(), 1u);
}

class Letters : public ::testing::Test {
  protected:
    ~Letters() override {
        letters_close(&l);
    }
    void open(const char *lines) {
        ASSERT_TRUE(letters_open(&l, lines, why, sizeof why)) << why;
    }
    // The text of steps whose best classes are these.
    std::string decode(const std::vector<int64_t> &best) {
        std::vector<float> probabilities;
        for (size_t i = 0; i < best.size(); i++) probabilities.push_back(i % 2 ? 0.5f : 1.0f);
        char *text = letters_decode(&l, best.data(), probabilities.data(), int64_t(best.size()), &confidence);
        std::string copy = text;
        free(text);
        return copy;
    }
    letters l = {};
    char why[200] = "";
    double confidence = -1;
};

TEST_F(Letters, ClassesAreNoneThenTheLinesThenASpace) {
    open("a\n字\né");
    ASSERT_EQ(l.count, 5);
    EXPECT_EQ(decode({1, 2, 4, 3}), "a字 é");
    EXPECT_NEAR(confidence, 0.75, 1e-6);
}

TEST_F(Letters, RepeatsAreOneUnlessNoneIsBetween) {
    open("a\nb");
    EXPECT_EQ(decode({0, 1, 1, 0, 1, 2, 2, 0}), "aab");
    EXPECT_NEAR(confidence, (0.5 + 1 + 0.5) / 3, 1e-6);
    EXPECT_EQ(decode({0, 0}), "");
    EXPECT_EQ(confidence, 0);
    EXPECT_EQ(decode({}), "");
}

TEST_F(Letters, TextThatIsNotUtf8IsRefused) {
    for (const char *wrong : {"a\n\xff", "\xc3", "\xe5\xad\nb", "\x80"}) {
        EXPECT_FALSE(letters_open(&l, wrong, why, sizeof why));
        EXPECT_STREQ(why, "the alphabet is not UTF-8");
    }
}

TEST(Picture, PiecesAreMeansOfWhatTheyCover) {
    unsigned char rgb[4 * 2 * 3]; // red falls from the left to the right, blue is all
    for (int i = 0; i < 8; i++) {
        rgb[3 * i] = static_cast<unsigned char>(240 - 80 * (i % 4));
        rgb[3 * i + 1] = 0;
        rgb[3 * i + 2] = 255;
    }
    const picture p = {4, 2, rgb};
    picture_grid grid = {0, 0, {1, 0}, {0, 1}, 4, 2};
    std::vector<float> planes(3 * 2 * 5, -9.0f);
    picture_sample(&p, &grid, 5, planes.data()); // as it is
    EXPECT_FLOAT_EQ(planes[0], 1);
    EXPECT_FLOAT_EQ(planes[10], -1);
    for (int i = 0; i < 4; i++) EXPECT_FLOAT_EQ(planes[20 + size_t(i)], float((240 - 80 * i) / 127.5 - 1));
    EXPECT_FLOAT_EQ(planes[4], -9) << "behind the end of a row";
    grid = {4, 2, {-2, 0}, {0, -2}, 2, 1}; // at half the size, upside down
    std::vector<float> half(3 * 2);
    picture_sample(&p, &grid, 2, half.data());
    EXPECT_NEAR(half[4], 40 / 127.5 - 1, 0.08);
    EXPECT_NEAR(half[5], 200 / 127.5 - 1, 0.08);
}

TEST(OcrReport, LinesAreMatchedByTheirPlace) {
    const auto line = [](double x, double y) {
        text_line l = {};
        l.box.x = x;
        l.box.y = y;
        l.box.height = 20;
        return l;
    };
    text_line f32[] = {line(50, 10), line(50, 40), line(50, 70)}, bf16[] = {line(51, 41), line(49, 11), line(200, 70)};
    const text_page a = {f32, 3, 0, 0}, b = {bf16, 3, 0, 0};
    int places[3];
    ocr_match(&a, &b, places);
    EXPECT_EQ(places[0], 1);
    EXPECT_EQ(places[1], 0);
    EXPECT_EQ(places[2], -1);
}

} // namespace
