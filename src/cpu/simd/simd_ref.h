/* The vocabulary of the kernel bodies with vectors of one float: the same bodies compiled with this header are the
 * scalar reference, and elementwise results agree with the vector ISAs bit by bit (NaN payloads excepted).
 *
 * Every ISA's header defines: VL, the lane count; vf, vi, vu, vm: floats, int32s, uint32s and a lane mask, with C's
 * operators on all but vm; v_max(a, b) = a > b ? a : b and v_min(a, b) = a < b ? a : b per lane (so the second operand
 * is what a NaN gives); v_round: to nearest even; v_any: whether the mask holds in a lane; v_scale2(x, n) = x·2^n for
 * integral n, rounded once; *_first(…, n): the first n lanes only, n ≤ VL. */
#ifndef AMP_CPU_SIMD_REF_H
#define AMP_CPU_SIMD_REF_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/half.h"

#define SIMD_ISA ref
enum { VL = 1 };

typedef float vf;
typedef int32_t vi;
typedef uint32_t vu;
typedef bool vm;

static inline vf v_set1(float x) {
    return x;
}
static inline vf v_load(const float *p) {
    return *p;
}
static inline void v_store(float *p, vf x) {
    *p = x;
}
static inline vf v_load_first(const float *p, int64_t n) {
    return n > 0 ? *p : 0.0f;
}
static inline void v_store_first(float *p, vf x, int64_t n) {
    if (n > 0) *p = x;
}
/* in[index[lane]], 0 where the index is negative. */
static inline vf v_gather(const float *in, const int32_t *index) {
    return *index < 0 ? 0.0f : in[*index];
}
static inline vf v_gather_first(const float *in, const int32_t *index, int64_t n) {
    return n > 0 ? v_gather(in, index) : 0.0f;
}
/* table[index mod 16]. */
static inline vf v_lookup_16(const float *table, vi index) {
    return table[index & 15];
}
/* bf16, widened. */
static inline vf v_load_bf16(const uint16_t *p) {
    const uint32_t bits = (uint32_t)*p << 16;
    vf x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline vf v_load_bf16_first(const uint16_t *p, int64_t n) {
    return n > 0 ? v_load_bf16(p) : 0.0f;
}
/* Rounded to nearest even; a NaN stays one. */
static inline void v_store_bf16(uint16_t *p, vf x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    *p = x != x ? (uint16_t)(bits >> 16 | 0x40u) : (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline void v_store_bf16_first(uint16_t *p, vf x, int64_t n) {
    if (n > 0) v_store_bf16(p, x);
}
/* 2·VL elements, those at even and those at odd places. */
static inline void v_load_bf16_pair(const uint16_t *p, vf *even, vf *odd) {
    *even = v_load_bf16(p);
    *odd = v_load_bf16(p + 1);
}
static inline void v_store_bf16_pair(uint16_t *p, vf even, vf odd) {
    v_store_bf16(p, even);
    v_store_bf16(p + 1, odd);
}
/* The same of numbers that are bf16 already. */
static inline void v_cut_bf16(uint16_t *p, vf x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    *p = (uint16_t)(bits >> 16);
}
static inline void v_cut_bf16_first(uint16_t *p, vf x, int64_t n) {
    if (n > 0) v_cut_bf16(p, x);
}
static inline void v_cut_bf16_pair(uint16_t *p, vf even, vf odd) {
    v_cut_bf16(p, even);
    v_cut_bf16(p + 1, odd);
}
/* f16, as bf16. */
static inline vf v_load_f16(const uint16_t *p) {
    return amp_f32_from_f16(*p);
}
static inline vf v_load_f16_first(const uint16_t *p, int64_t n) {
    return n > 0 ? v_load_f16(p) : 0.0f;
}
static inline void v_store_f16(uint16_t *p, vf x) {
    *p = amp_f16_from_f32(x);
}
static inline void v_store_f16_first(uint16_t *p, vf x, int64_t n) {
    if (n > 0) v_store_f16(p, x);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return fmaf(a, b, c);
}
static inline vf v_max(vf a, vf b) {
    return a > b ? a : b;
}
static inline vf v_min(vf a, vf b) {
    return a < b ? a : b;
}
static inline vf v_sqrt(vf x) {
    return sqrtf(x);
}
static inline vf v_floor(vf x) {
    return floorf(x);
}
static inline vf v_ceil(vf x) {
    return ceilf(x);
}
static inline vf v_trunc(vf x) {
    return truncf(x);
}
static inline vf v_round(vf x) {
    return rintf(x);
}
/* A byte for each lane, 1 or 0. */
static inline void v_store_mask(uint8_t *p, vm m) {
    *p = m;
}
static inline bool v_any(vm m) {
    return m;
}
static inline vi v_bits(vf x) {
    vi bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline vf v_from_bits(vi bits) {
    vf x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline vf v_from_int(vi x) {
    return (vf)x;
}
static inline vi v_set1_int(int32_t x) {
    return x;
}
/* 0, 1, … VL - 1 */
static inline vu v_lanes(void) {
    return 0;
}
static inline vu v_set1_unsigned(uint32_t x) {
    return x;
}
/* The upper half of a·b; the lower one goes to *low. */
static inline vu v_mul_wide(vu a, vu b, vu *low) {
    const uint64_t product = (uint64_t)a * b;
    *low = (vu)product;
    return (vu)(product >> 32);
}
static inline vm v_le_unsigned(vu a, vu b) {
    return a <= b;
}
static inline vf v_abs(vf x) {
    return fabsf(x);
}
static inline vm v_lt(vf a, vf b) {
    return a < b;
}
static inline vm v_eq(vf a, vf b) {
    return a == b;
}
static inline vm v_unordered(vf a, vf b) {
    return a != a || b != b;
}
static inline vf v_select(vm m, vf yes, vf no) {
    return m ? yes : no;
}
static inline vf v_scale2(vf x, vf n) {
    const vi k = n == n ? (vi)n : 0, half = k >> 1;
    return x * v_from_bits((half + 127) << 23) * v_from_bits((k - half + 127) << 23);
}
static inline vf v_keep_first(vf x, int64_t n, vf rest) {
    return n > 0 ? x : rest;
}
static inline float v_sum(vf x) {
    return x;
}
static inline float v_max_lane(vf x) {
    return x;
}

/* acc[i] += x[i], widened. */
static inline void v_add_to_doubles(double *acc, vf x) {
    *acc += (double)x;
}

#endif /* AMP_CPU_SIMD_REF_H */
