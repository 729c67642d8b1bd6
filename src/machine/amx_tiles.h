/* AMX tile configurations of the GEMM family. Only for files that are compiled for AMX. */
#ifndef AMP_CPU_GEMM_TILES_H
#define AMP_CPU_GEMM_TILES_H

#include <immintrin.h>
#include <stdint.h>

/* LDTILECFG's operand (Intel SDM volume 2). */
typedef struct amp_tiles_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
} amp_tiles_config;

/* Before tile loads of what the same function stored: gcc 12 does not know that _tile_loadd reads memory, and takes
 * _tile_loadconfig to read 8 bytes; it drops the stores. */
static inline void amp_tiles_see_stores(const void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* All eight tiles are 64 bytes wide; `rows` are 1 to 16 each. */
static inline void amp_tiles_configure(const uint8_t rows[8]) {
    _Alignas(64) amp_tiles_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.column_bytes[i] = 64;
        config.rows[i] = rows[i];
    }
    amp_tiles_see_stores(&config);
    _tile_loadconfig(&config);
}

#endif /* AMP_CPU_GEMM_TILES_H */
