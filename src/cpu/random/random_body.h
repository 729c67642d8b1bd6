/* The kernels of random_kernels.h, compiled once per ISA over simd_<isa>.h; no include guard: one file, one ISA.
 *
 * Formula:     Philox4x32-10. uniform: low + (w >> 32 - bits)·2^-bits·width. normal: √(−2·ln u)·cos θ and sin θ with u
 *              from word 0 (2) and θ from word 1 (3) of a block; u has all 32 bits, so that results reach 6.7.
 * Accumulator: none. Error bound: normal 2⁻²² of the radius (ln within 1 ulp, sine and cosine within 2⁻²⁴), and 2⁻²⁵
 * divided by it, as u is
 *              rounded to f32; tests/test_random_kernels.cc.
 * Denormals:   none arise.
 * ISA:         that of the simd header which is included before; no step depends on the vector length, so all agree.
 * Source:      philox.h; Box and Muller, A Note on the Generation of Random Normal Deviates, 1958. */
#include <string.h>

#include "cpu/random/random_formula.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define PASTE_(name, isa) amp_##name##_f32_##isa
#define PASTE(name, isa) PASTE_(name, isa)
#define KERNEL(name) PASTE(name, SIMD_ISA)

/* A place, and the keys of each round as vectors: to make them again for every group would take as long as the rest. */
typedef struct sequence {
    uint64_t offset;
    vu keys[PHILOX_ROUNDS][2];
} sequence;

static inline sequence sequence_at(const amp_random_place *place) {
    sequence s = {.offset = place->offset};
    s.keys[0][0] = v_set1_unsigned((uint32_t)place->seed);
    s.keys[0][1] = v_set1_unsigned((uint32_t)(place->seed >> 32));
    for (int round = 1; round < PHILOX_ROUNDS; round++) {
        s.keys[round][0] = s.keys[round - 1][0] + v_set1_unsigned(PHILOX_STEP_0);
        s.keys[round][1] = s.keys[round - 1][1] + v_set1_unsigned(PHILOX_STEP_1);
    }
    return s;
}

enum { VECTORS = PHILOX_BLOCKS / VL }; /* that hold one word of each block of a group */

/* The words of a group: philox_block on each of its blocks. All vectors go through a round together, for a round is
 * little work with long waits for its products. */
static inline __attribute__((always_inline)) void philox(vu c[VECTORS][4], const sequence *s, uint64_t group) {
    uint32_t counter[4];
    philox_counter(counter, s->offset + group, 0);
    for (int v = 0; v < VECTORS; v++) {
        c[v][0] = v_set1_unsigned(counter[0] + (uint32_t)(v * VL)) + v_lanes(); /* a multiple of 16, and up to 15 */
        for (int k = 1; k < 4; k++) c[v][k] = v_set1_unsigned(counter[k]);
    }
    AMP_UNROLL
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        AMP_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            vu low_0, low_1;
            const vu high_0 = v_mul_wide(c[v][0], v_set1_unsigned(PHILOX_MULTIPLIER_0), &low_0);
            const vu high_1 = v_mul_wide(c[v][2], v_set1_unsigned(PHILOX_MULTIPLIER_1), &low_1);
            c[v][0] = high_1 ^ c[v][1] ^ s->keys[round][0];
            c[v][2] = high_0 ^ c[v][3] ^ s->keys[round][1];
            c[v][1] = low_1;
            c[v][3] = low_0;
        }
    }
}

/* Makes elements of words. On entry x has the elements of `in`, or ones. */
typedef void element_function(vf x[4], const vu w[4], const amp_random_numbers *numbers);

static inline __attribute__((always_inline)) void group_of(float *out, const float *in, const sequence *s,
                                                           uint64_t group, const amp_random_numbers *numbers,
                                                           element_function *f) {
    vu w[VECTORS][4];
    philox(w, s, group);
    AMP_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        const int first = v * VL;
        vf x[4];
        for (int k = 0; k < 4; k++) x[k] = in ? v_load(in + PHILOX_BLOCKS * k + first) : v_set1(1.0f);
        f(x, w[v], numbers);
        for (int k = 0; k < 4; k++) v_store(out + PHILOX_BLOCKS * k + first, x[k]);
    }
}

static inline __attribute__((always_inline)) void each(float *out, const float *in, int64_t n,
                                                       const amp_random_place *place, const amp_random_numbers *numbers,
                                                       element_function *f) {
    const sequence s = sequence_at(place);
    int64_t i = 0;
    for (; i + AMP_RANDOM_WORDS <= n; i += AMP_RANDOM_WORDS)
        group_of(out + i, in ? in + i : NULL, &s, (uint64_t)i / AMP_RANDOM_WORDS, numbers, f);
    if (i == n) return;
    float last[AMP_RANDOM_WORDS] = {0};
    if (in) memcpy(last, in + i, (size_t)(n - i) * sizeof *last);
    group_of(last, in ? last : NULL, &s, (uint64_t)i / AMP_RANDOM_WORDS, numbers, f);
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
