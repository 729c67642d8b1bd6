/* Philox4x32-10, a block at a time: what the vector kernels compute many at a time, and CUDA's one in each thread.
 * Source: Salmon, Moraes, Dror, Shaw, Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011, section 3.3. */
#ifndef AMP_CPU_RANDOM_PHILOX_H
#define AMP_CPU_RANDOM_PHILOX_H

#include <stdint.h>

#define PHILOX_MULTIPLIER_0 0xd2511f53u
#define PHILOX_MULTIPLIER_1 0xcd9e8d57u
#define PHILOX_STEP_0 0x9e3779b9u
#define PHILOX_STEP_1 0xbb67ae85u
enum { PHILOX_ROUNDS = 10, PHILOX_BLOCKS = 16 }; /* blocks: of a group of 64 words, core/generator.h */

#ifndef V_FUNCTION /* as in cpu/simd/vmath_log.h */
#define V_FUNCTION static inline
#endif

/* Replaces the counter by its block of random words. */
V_FUNCTION void philox_block(uint32_t c[4], uint32_t key_0, uint32_t key_1) {
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        const uint64_t a = (uint64_t)PHILOX_MULTIPLIER_0 * c[0], b = (uint64_t)PHILOX_MULTIPLIER_1 * c[2];
        const uint32_t x = (uint32_t)(b >> 32) ^ c[1] ^ key_0, y = (uint32_t)(a >> 32) ^ c[3] ^ key_1;
        c[0] = x;
        c[1] = (uint32_t)b;
        c[2] = y;
        c[3] = (uint32_t)a;
        key_0 += PHILOX_STEP_0;
        key_1 += PHILOX_STEP_1;
    }
}

/* The counter of block number `block` of group number `group`: 16 · group + block. */
V_FUNCTION void philox_counter(uint32_t c[4], uint64_t group, uint32_t block) {
    c[0] = (uint32_t)(group << 4) | block;
    c[1] = (uint32_t)(group >> 28);
    c[2] = (uint32_t)(group >> 60);
    c[3] = 0;
}

#endif /* AMP_CPU_RANDOM_PHILOX_H */
