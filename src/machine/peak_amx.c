/* Probe: tdpbf16ps on full tiles with four accumulators. ISA: AMX-TILE, AMX-BF16. */
#include <immintrin.h>
#include <string.h>

#include "machine/amx_tiles.h"
#include "machine/peak.h"

double amp_probe_dot_amx(int64_t n, float *sink) {
    _Alignas(64) uint16_t values[2][16][32];
    _Alignas(64) float sums[16][16];
    uint32_t state = (uint32_t)n;
    for (int i = 0; i < 1024; i++) {
        state = state * 1664525u + 1013904223u;
        values[i / 512][i / 32 % 16][i % 32] = (uint16_t)(0x3c00u | (state >> 16 & 0x83ffu)); /* ±0.008 … ±2 */
    }
    amp_tiles_configure((const uint8_t[8]){16, 16, 16, 16, 16, 16, 16, 16});
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    amp_tiles_see_stores(values);
    _tile_loadd(4, values[0], 64);
    _tile_loadd(6, values[1], 64);
    for (int64_t i = 0; i < n; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 6);
        _tile_dpbf16ps(2, 4, 6);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, sums, 64);
    _tile_release();
    *sink = sums[3][5];
    return (double)n * 4 * 16 * 16 * 32 * 2;
}
