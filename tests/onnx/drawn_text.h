// Pictures of text, for models whose recorded picture is empty. Letters of 5 x 7 dots, smoothed; size, weight, slant, colours
// and grain differ from picture to picture, as they do in photographs of lines.
#ifndef AMP_TESTS_ONNX_DRAWN_TEXT_H
#define AMP_TESTS_ONNX_DRAWN_TEXT_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

namespace drawn_text {

constexpr int dots_wide = 5, dots_high = 7, pitch = dots_wide + 1, line_height = 48;

// Five columns each, the lowest bit on top.
constexpr unsigned char letters[][dots_wide] = {
    {0x3e, 0x51, 0x49, 0x45, 0x3e}, {0x00, 0x42, 0x7f, 0x40, 0x00}, {0x42, 0x61, 0x51, 0x49, 0x46},
    {0x21, 0x41, 0x45, 0x4b, 0x31}, {0x18, 0x14, 0x12, 0x7f, 0x10}, {0x27, 0x45, 0x45, 0x45, 0x39},
    {0x3c, 0x4a, 0x49, 0x49, 0x30}, {0x01, 0x71, 0x09, 0x05, 0x03}, {0x36, 0x49, 0x49, 0x49, 0x36},
    {0x06, 0x49, 0x49, 0x29, 0x1e}, {0x7e, 0x11, 0x11, 0x11, 0x7e}, {0x7f, 0x49, 0x49, 0x49, 0x36},
    {0x3e, 0x41, 0x41, 0x41, 0x22}, {0x7f, 0x41, 0x41, 0x22, 0x1c}, {0x7f, 0x49, 0x49, 0x49, 0x41},
    {0x7f, 0x09, 0x09, 0x09, 0x01}, {0x3e, 0x41, 0x49, 0x49, 0x7a}, {0x7f, 0x08, 0x08, 0x08, 0x7f},
    {0x00, 0x41, 0x7f, 0x41, 0x00}, {0x20, 0x40, 0x41, 0x3f, 0x01}, {0x7f, 0x08, 0x14, 0x22, 0x41},
    {0x7f, 0x40, 0x40, 0x40, 0x40}, {0x7f, 0x02, 0x0c, 0x02, 0x7f}, {0x7f, 0x04, 0x08, 0x10, 0x7f},
    {0x3e, 0x41, 0x41, 0x41, 0x3e}, {0x7f, 0x09, 0x09, 0x09, 0x06}, {0x3e, 0x41, 0x51, 0x21, 0x5e},
    {0x7f, 0x09, 0x19, 0x29, 0x46}, {0x46, 0x49, 0x49, 0x49, 0x31}, {0x01, 0x01, 0x7f, 0x01, 0x01},
    {0x3f, 0x40, 0x40, 0x40, 0x3f}, {0x1f, 0x20, 0x40, 0x20, 0x1f}, {0x3f, 0x40, 0x38, 0x40, 0x3f},
    {0x63, 0x14, 0x08, 0x14, 0x63}, {0x07, 0x08, 0x70, 0x08, 0x07}, {0x61, 0x51, 0x49, 0x45, 0x43},
};

inline double between(std::mt19937 &engine, double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(engine);
}

// One line of text in `height` x `width` pixels.
struct Line {
    std::vector<int> text; // indices of `letters`; -1 is a space
    double dot, wide;      // pixels of a dot, down and across
    double top, left, slant, weight;

    Line(double height, double width, std::mt19937 &engine)
        : dot(height * between(engine, 0.5, 0.85) / dots_high), wide(dot * between(engine, 0.6, 1)),
          top(between(engine, 0, height - dot * dots_high)), left(height * between(engine, 0.1, 0.5)),
          slant(between(engine, -0.05, 0.25)), weight(between(engine, 0.3, 0.5)) {
        const int count = static_cast<int>((width * between(engine, 0.5, 1) - 2 * left) / (wide * pitch));
        for (int i = 0; i < count; i++) {
            const int letter = std::uniform_int_distribution<int>(-6, std::size(letters) - 1)(engine);
            text.push_back(std::max(letter, -1));
        }
    }

    double lit(int column, int row) const {
        const int place = column < 0 ? -1 : column / pitch;
        if (place < 0 || place >= static_cast<int>(text.size()) || row < 0 || row >= dots_high) return 0;
        const int letter = text[static_cast<size_t>(place)];
        return letter >= 0 && column % pitch < dots_wide && (letters[letter][column % pitch] >> row & 1);
    }

    // How much of a pixel is ink: dots are joined by interpolation, and edges are a pixel wide.
    double ink(double x, double y) const {
        const double v = (y - top) / dot - 0.5, u = (x - left - slant * (top + dot * dots_high - y)) / wide - 0.5;
        const int i = static_cast<int>(std::floor(u)), j = static_cast<int>(std::floor(v));
        const double a = u - i, b = v - j;
        const double mixed =
            (1 - b) * ((1 - a) * lit(i, j) + a * lit(i + 1, j)) + b * ((1 - a) * lit(i, j + 1) + a * lit(i + 1, j + 1));
        return std::clamp((mixed - weight) * dot + 0.5, 0.0, 1.0);
    }
};

// Fills (C,H,W) with lines of text: numbers from -size to size, dark on light or, one time in four, the other way round.
inline void draw(float *planes, int64_t channels, int64_t height, int64_t width, double size, std::mt19937 &engine) {
    const int64_t rows = std::max<int64_t>(1, height / line_height);
    const double high = double(height) / double(rows), grain = between(engine, 0, 0.1);
    const double sign = between(engine, 0, 1) < 0.25 ? -1 : 1;
    const double light = sign * between(engine, 0.3, 1), dark = -sign * between(engine, 0, 1);
    std::vector<Line> lines;
    for (int64_t i = 0; i < rows; i++) lines.emplace_back(high, double(width), engine);
    for (int64_t c = 0; c < channels; c++) {
        const double tint = between(engine, -0.1, 0.1);
        for (int64_t y = 0; y < height; y++) {
            const int64_t row = y * rows / height;
            for (int64_t x = 0; x < width; x++) {
                const double ink = lines[size_t(row)].ink(double(x) + 0.5, double(y) + 0.5 - double(row) * high);
                const double shade = light + (dark - light) * ink + tint + between(engine, -grain, grain);
                *planes++ = static_cast<float>(size * std::clamp(shade, -1.0, 1.0));
            }
        }
    }
}

} // namespace drawn_text

#endif
