/* Transposition by squares that fit SSE2's registers, which every x86-64 CPU has; edges and rare sizes one by one. */
#include "cpu/convert/transpose.h"

#include <emmintrin.h>
#include <string.h>
#include <xmmintrin.h>

static __m128i load(const char *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static void store(char *p, __m128i value) {
    _mm_storeu_si128((__m128i *)(void *)p, value);
}

/* 4 × 4 of 4 bytes. */
static void square_4(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
    const __m128i a = load(src), b = load(src + src_stride);
    const __m128i c = load(src + 2 * src_stride), d = load(src + 3 * src_stride);
    const __m128i ab0 = _mm_unpacklo_epi32(a, b), ab1 = _mm_unpackhi_epi32(a, b);
    const __m128i cd0 = _mm_unpacklo_epi32(c, d), cd1 = _mm_unpackhi_epi32(c, d);
    store(dst, _mm_unpacklo_epi64(ab0, cd0));
    store(dst + dst_stride, _mm_unpackhi_epi64(ab0, cd0));
    store(dst + 2 * dst_stride, _mm_unpacklo_epi64(ab1, cd1));
    store(dst + 3 * dst_stride, _mm_unpackhi_epi64(ab1, cd1));
}

/* 8 × 8 of 2 bytes: pairs, then pairs of pairs, then halves. Unrolled, so that the arrays are registers. */
static void square_8(char *dst, int64_t dst_stride, const char *src, int64_t src_stride) {
    __m128i r[8], p[8], q[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) r[i] = load(src + i * src_stride);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        p[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        p[i + 4] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int half = 0; half < 8; half += 4) {
        q[half] = _mm_unpacklo_epi32(p[half], p[half + 1]);
        q[half + 1] = _mm_unpacklo_epi32(p[half + 2], p[half + 3]);
        q[half + 2] = _mm_unpackhi_epi32(p[half], p[half + 1]);
        q[half + 3] = _mm_unpackhi_epi32(p[half + 2], p[half + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        store(dst + 2 * i * dst_stride, _mm_unpacklo_epi64(q[2 * i], q[2 * i + 1]));
        store(dst + (2 * i + 1) * dst_stride, _mm_unpackhi_epi64(q[2 * i], q[2 * i + 1]));
    }
}

/* Three rows of 4 bytes, a pixel's colours side by side in dst: four pixels at a time; how many were taken. */
static int64_t three_colours(char *dst, const char *src, int64_t src_stride, int64_t pixels) {
    enum { PIXELS = 4, BYTES = 3 * PIXELS * 4 };
    int64_t at = 0;
    for (; at + PIXELS <= pixels; at += PIXELS, src += 16, dst += BYTES) {
        const __m128 a = _mm_castsi128_ps(load(src)), b = _mm_castsi128_ps(load(src + src_stride));
        const __m128 c = _mm_castsi128_ps(load(src + 2 * src_stride));
        const __m128 ca = _mm_shuffle_ps(c, a, _MM_SHUFFLE(1, 1, 0, 0)), bc = _mm_shuffle_ps(b, c, 0x55);
        const __m128 ca3 = _mm_shuffle_ps(c, a, _MM_SHUFFLE(3, 3, 2, 2)), bc3 = _mm_shuffle_ps(b, c, 0xff);
        store(dst, _mm_castps_si128(_mm_shuffle_ps(_mm_unpacklo_ps(a, b), ca, _MM_SHUFFLE(2, 0, 1, 0))));
        store(dst + 16, _mm_castps_si128(_mm_shuffle_ps(bc, _mm_unpackhi_ps(a, b), _MM_SHUFFLE(1, 0, 2, 0))));
        store(dst + 32, _mm_castps_si128(_mm_shuffle_ps(ca3, bc3, _MM_SHUFFLE(2, 0, 2, 0))));
    }
    return at;
}

/* Always inlined, so that the size is a constant and the copy a move. */
__attribute__((always_inline)) static inline void one_by_one(char *dst, int64_t dst_stride, const char *src,
                                                             int64_t src_stride, int64_t rows, int64_t columns,
                                                             size_t size) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++)
            memcpy(dst + c * dst_stride + r * (int64_t)size, src + r * src_stride + c * (int64_t)size, size);
    }
}

typedef void square_function(char *dst, int64_t dst_stride, const char *src, int64_t src_stride);

__attribute__((always_inline)) static inline void by_squares(char *dst, int64_t dst_stride, const char *src,
                                                             int64_t src_stride, int64_t rows, int64_t columns,
                                                             size_t size, int64_t side, square_function *square) {
    const int64_t bytes = (int64_t)size, whole_rows = rows - rows % side, whole_columns = columns - columns % side;
    for (int64_t r = 0; r < whole_rows; r += side) {
        for (int64_t c = 0; c < whole_columns; c += side)
            square(dst + c * dst_stride + r * bytes, dst_stride, src + r * src_stride + c * bytes, src_stride);
    }
    one_by_one(dst + whole_columns * dst_stride, dst_stride, src + whole_columns * bytes, src_stride, whole_rows,
               columns - whole_columns, size);
    one_by_one(dst + whole_rows * bytes, dst_stride, src + whole_rows * src_stride, src_stride, rows - whole_rows,
               columns, size);
}

static void rows_of_4(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows,
                      int64_t columns) {
    const int64_t taken = rows == 3 && dst_stride == 12 ? three_colours(dst, src, src_stride, columns) : 0;
    by_squares(dst + taken * dst_stride, dst_stride, src + taken * 4, src_stride, rows, columns - taken, 4, 4,
               square_4);
}

void amp_transpose(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t rows, int64_t columns,
                   size_t size) {
    switch (size) {
    case 1: one_by_one(dst, dst_stride, src, src_stride, rows, columns, 1); break;
    case 2: by_squares(dst, dst_stride, src, src_stride, rows, columns, 2, 8, square_8); break;
    case 4: rows_of_4(dst, dst_stride, src, src_stride, rows, columns); break;
    case 8: one_by_one(dst, dst_stride, src, src_stride, rows, columns, 8); break;
    default: one_by_one(dst, dst_stride, src, src_stride, rows, columns, 16); break;
    }
}
