// What warps do together on sm_80 and later, lane by lane as the PTX ISA's tables say: ldmatrix, mma.m16n8k16,
// cp.async.
#include <cmath>
#include <cstdint>
#include <cstring>

#include "fake_cuda.h"
#include "threads.h"

extern thread_local int amp_fake_thread;
void amp_fake_load_matrices(uint32_t *x, const char *row, bool turned);
void amp_fake_multiply_add(float *c, const uint32_t *a, const uint32_t *b, float (*widen)(uint16_t));
void amp_fake_copy_later(char *to, const void *from, bool inside);
void amp_fake_wait_for_copies();

namespace {

constexpr int lanes = 32;

int lane() {
    return amp_fake_thread % lanes;
}

// Rows of a matrix whose 16 bytes share banks with another row's; all of them where one is not aligned.
int conflicts(const char *const *rows) {
    unsigned met = 0;
    for (int r = 0; r < 8; r++) {
        const uintptr_t at = reinterpret_cast<uintptr_t>(rows[r]);
        if (at % 16 != 0) return 8;
        met |= 1u << at / 16 % 8;
    }
    return 8 - __builtin_popcount(met);
}

uint16_t element(const fake_lane_words &of, int i) {
    return uint16_t(of.words[i / 2] >> i % 2 * 16);
}

} // namespace

// ldmatrix.x4: lanes 8m … 8m + 7 give the addresses of matrix m's rows; x[m] of lane l are elements 2·(l % 4) and the
// next of row l / 4; of a turned matrix, of column l / 4.
void amp_fake_load_matrices(uint32_t *x, const char *row, bool turned) {
    uint32_t words[2];
    std::memcpy(words, &row, sizeof row);
    const fake_lane_words *const table = fake_lend_words(words, 2);
    for (int m = 0; m < 4; m++) {
        const char *rows[8];
        for (int r = 0; r < 8; r++) std::memcpy(&rows[r], table[m * 8 + r].words, sizeof rows[r]);
        if (lane() == 0) fake_cuda()->bank_conflicts += uint64_t(conflicts(rows));
        uint16_t got[2];
        for (int i = 0; i < 2; i++) {
            const int across = lane() % 4 * 2 + i, down = lane() / 4;
            std::memcpy(&got[i], turned ? rows[across] + down * 2 : rows[down] + across * 2, sizeof got[i]);
        }
        x[m] = got[0] | uint32_t(got[1]) << 16;
    }
}

// With g = lane / 4, t = lane % 4. A: element i of 8 is in row g, or g + 8 for i of 2, 3, 6, 7, and column 2t + i % 2,
// 8 further from i = 4 on. B: element i of 4 is in row 2t + i % 2, 8 further from i = 2 on, of column g. C: element i
// of 4 is in row g, from i = 2 on g + 8, and column 2t + i % 2.
void amp_fake_multiply_add(float *c, const uint32_t *a, const uint32_t *b, float (*widen)(uint16_t)) {
    uint32_t words[6];
    std::memcpy(words, a, 4 * sizeof *a);
    std::memcpy(words + 4, b, 2 * sizeof *b);
    const fake_lane_words *const table = fake_lend_words(words, 6);
    for (int i = 0; i < 4; i++) {
        const int row = lane() / 4 + i / 2 * 8, column = lane() % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++) {
            const int from_a = row % 8 * 4 + k % 8 / 2, from_b = column * 4 + k % 8 / 2;
            const uint16_t left = element(table[from_a], k / 8 * 4 + row / 8 * 2 + k % 2);
            const uint16_t right = element(table[from_b], 8 + k / 8 * 2 + k % 2);
            c[i] = std::fma(widen(left), widen(right), c[i]);
        }
    }
}

void amp_fake_copy_later(char *to, const void *from, bool inside) {
    fake_begin_copy({to, inside ? from : nullptr});
}

void amp_fake_wait_for_copies() {
    fake_end_copies();
}
