/* Taps of a depthwise convolution as pairs of bf16; the layout is in depthwise.h. */
#include <string.h>

#include "cpu/convert/convert.h"
#include "cpu/conv/depthwise.h"

/* The channel whose pair lies at `lane` of vector `vector`: eight of vpunpck's 128-bit parts hold four channels
 * each. */
static int64_t channel_at(int64_t vector, int64_t lane, int64_t channels) {
    const int64_t whole = channels / 32 * 2;
    if (vector >= whole) return vector * 16 + lane;
    return vector / 2 * 32 + lane / 4 * 8 + vector % 2 * 4 + lane % 4;
}

/* `second` NULL: zeros. */
static void pack_tap(uint16_t *pairs, const float *first, const float *second, int64_t channels) {
    for (int64_t v = 0; v < amp_depthwise_vectors(channels); v++) {
        for (int64_t lane = 0; lane < 16; lane++, pairs += 2) {
            const int64_t c = channel_at(v, lane, channels);
            pairs[0] = c < channels ? amp_bf16_from_f32(first[c]) : 0;
            pairs[1] = c < channels && second ? amp_bf16_from_f32(second[c]) : 0;
        }
    }
}

void amp_depthwise_pack(uint16_t *pairs, const float *taps, const int64_t count[3], int64_t channels) {
    const int64_t lines = count[0] * count[1], width = count[2], step = amp_depthwise_vectors(channels) * 32;
    for (int64_t line = 0; line < 2 * lines - 1; line++) {
        const bool paired = line < lines - 1;
        const float *first = taps + (paired ? line : line - lines + 1) * width * channels;
        for (int64_t k = 0; k < width; k++, pairs += step)
            pack_tap(pairs, first + k * channels, paired ? first + (width + k) * channels : NULL, channels);
    }
}
