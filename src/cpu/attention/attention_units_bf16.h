/* Units of bf16 for attention_backward_body.h: pairs. Over simd_avx512.h with AVX512_BF16, or simd_ref.h. */
#ifndef AMP_CPU_ATTENTION_UNITS_BF16_H
#define AMP_CPU_ATTENTION_UNITS_BF16_H

#include <string.h>

#include "cpu/attention/attention_units.h"

#define UNIT_DTYPE bf16
enum { PER_UNIT = 2 };

typedef uint32_t unit;
typedef uint16_t element;

#ifdef __AVX512BF16__
typedef __m512bh u_vector;

static inline u_vector u_load(const unit *p) {
    return (__m512bh)_mm512_loadu_si512(p);
}
static inline u_vector u_set1(const unit *p) {
    return (__m512bh)_mm512_set1_epi32((int32_t)*p);
}
static inline vf u_dot(vf sum, u_vector x, u_vector y) {
    return _mm512_dpbf16_ps(sum, x, y);
}
#else
typedef uint32_t u_vector;

static inline u_vector u_load(const unit *p) {
    return *p;
}
static inline u_vector u_set1(const unit *p) {
    return *p;
}
static inline vf u_dot(vf sum, u_vector x, u_vector y) {
    const vf low = v_from_bits((vi)(x << 16)) * v_from_bits((vi)(y << 16));
    const vf high = v_from_bits((vi)(x & 0xffff0000u)) * v_from_bits((vi)(y & 0xffff0000u));
    return sum + high + low;
}
#endif

static inline void e_copy(element *to, const element *from) {
    memcpy(to, from, VL * sizeof *to);
}
static inline vf e_load_first(const element *p, int64_t n) {
    return v_load_bf16_first(p, n);
}
static inline void e_store(element *p, vf x) {
    v_store_bf16(p, x);
}
/* PER_UNIT rows as one of units. */
static inline void u_store_along(unit *p, const vf *rows) {
    v_store_bf16_pair((uint16_t *)(void *)p, rows[0], rows[1]);
}
/* Rows of `columns` elements, PER_UNIT of them to a row of units, in the room where that is not what they are. */
static inline unit *units_along(unit *room, const unit *rows, int64_t count, int64_t columns) {
    const element *from = (const element *)(const void *)rows;
    unit *to = room;
    for (int64_t i = 0; i < count; i += PER_UNIT, from += PER_UNIT * columns, to += columns) {
        for (int64_t j = 0; j < columns; j += VL)
            v_cut_bf16_pair((uint16_t *)(void *)(to + j), v_load_bf16(from + j), v_load_bf16(from + columns + j));
    }
    return room;
}
static inline void transpose_units(unit *to, int64_t to_step, const unit *from, int64_t from_step, int64_t count,
                                   int64_t columns) {
    transpose_words(to, to_step, from, from_step, count, columns);
}

#endif /* AMP_CPU_ATTENTION_UNITS_BF16_H */
