/* The kernels of random_kernels.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     Philox4x32-10. uniform: low + (w >> 32 - bits)·2^-bits·width. normal: √(−2·ln u)·cos θ and sin θ with u
 *              from word 0 (2) and θ from word 1 (3) of a block; u has all 32 bits, so that results reach 6.7.
 * Accumulator: none.
 * Error bound: normal 4 ulp of the radius: ln within 1 ulp, sine and cosine within 2⁻²⁴; tests/test_random_kernels.cc.
 * Denormals:   none arise.
 * ISA:         that of the simd header which is included before; no step depends on the vector length, so all agree.
 * Source:      philox.h; Box and Muller, A Note on the Generation of Random Normal Deviates, 1958. */
#include <string.h>

#include "cpu/kernels.h"
#include "cpu/random/random_formula.h"
#include "cpu/unroll.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

/* One round of philox_block on VL blocks. */
static inline void philox_round(vu c[4], uint32_t key_0, uint32_t key_1) {
    vu low_0, low_1;
    const vu high_0 = v_mul_wide(c[0], v_set1_unsigned(PHILOX_MULTIPLIER_0), &low_0);
    const vu high_1 = v_mul_wide(c[2], v_set1_unsigned(PHILOX_MULTIPLIER_1), &low_1);
    c[0] = high_1 ^ c[1] ^ v_set1_unsigned(key_0);
    c[2] = high_0 ^ c[3] ^ v_set1_unsigned(key_1);
    c[1] = low_1;
    c[3] = low_0;
}

/* The words of blocks first … first + VL - 1 of a group. */
static inline void philox(vu c[4], const amp_random_place *place, uint64_t group, int first) {
    uint32_t counter[4], key_0 = (uint32_t)place->seed, key_1 = (uint32_t)(place->seed >> 32);
    philox_counter(counter, place->offset + group, (uint32_t)first);
    c[0] = v_set1_unsigned(counter[0]) + v_lanes(); /* a multiple of 16, and at most 15 */
    for (int k = 1; k < 4; k++) c[k] = v_set1_unsigned(counter[k]);
    AMP_UNROLL
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        philox_round(c, key_0, key_1);
        key_0 += PHILOX_STEP_0;
        key_1 += PHILOX_STEP_1;
    }
}

/* Makes elements of words. On entry x has the elements of `in`, or ones. */
typedef void element_function(vf x[4], const vu w[4], const amp_random_numbers *numbers);

static inline __attribute__((always_inline)) void group_of(float *out, const float *in, const amp_random_place *place,
                                                           uint64_t group, const amp_random_numbers *numbers,
                                                           element_function *f) {
    for (int first = 0; first < PHILOX_BLOCKS; first += VL) {
        vu w[4];
        vf x[4];
        philox(w, place, group, first);
        for (int k = 0; k < 4; k++) x[k] = in ? v_load(in + PHILOX_BLOCKS * k + first) : v_set1(1.0f);
        f(x, w, numbers);
        for (int k = 0; k < 4; k++) v_store(out + PHILOX_BLOCKS * k + first, x[k]);
    }
}

static inline __attribute__((always_inline)) void each(float *out, const float *in, int64_t n,
                                                       const amp_random_place *place,
                                                       const amp_random_numbers *numbers, element_function *f) {
    int64_t i = 0;
    for (; i + AMP_RANDOM_WORDS <= n; i += AMP_RANDOM_WORDS)
        group_of(out + i, in ? in + i : NULL, place, (uint64_t)i / AMP_RANDOM_WORDS, numbers, f);
    if (i == n) return;
    float last[AMP_RANDOM_WORDS] = {0};
    if (in) memcpy(last, in + i, (size_t)(n - i) * sizeof *last);
    group_of(last, in ? last : NULL, place, (uint64_t)i / AMP_RANDOM_WORDS, numbers, f);
    memcpy(out + i, last, (size_t)(n - i) * sizeof *last);
}

/* ---- Elements of words ---------------------------------------------------------------------------------------- */

static inline void of_random_words(vf x[4], const vu w[4], const amp_random_numbers *numbers) {
    (void)numbers;
    for (int k = 0; k < 4; k++) x[k] = v_from_bits((vi)w[k]);
}

static inline void of_random_uniform(vf x[4], const vu w[4], const amp_random_numbers *numbers) {
    for (int k = 0; k < 4; k++) x[k] = uniform_of(w[k], numbers);
}

static inline void of_random_normal(vf x[4], const vu w[4], const amp_random_numbers *numbers) {
    for (int k = 0; k < 4; k += 2) normal_of(w[k], w[k + 1], numbers, &x[k], &x[k + 1]);
}

static inline void of_random_keep(vf x[4], const vu w[4], const amp_random_numbers *numbers) {
    for (int k = 0; k < 4; k++) x[k] = x[k] * factor_of(w[k], numbers);
}

static inline void of_random_below(vf x[4], const vu w[4], const amp_random_numbers *numbers) {
    (void)numbers;
    for (int k = 0; k < 4; k++) x[k] = is_below(w[k], x[k]);
}

#define DEFINE_RANDOM(NAME, name)                                                                                      \
    void KERNEL(name)(void *out, const float *in, int64_t n, const amp_random_place *place,                            \
                      const amp_random_numbers *numbers) {                                                             \
        each(out, in, n, place, numbers, of_##name);                                                                   \
    }
AMP_VECTOR_RANDOM(DEFINE_RANDOM)
