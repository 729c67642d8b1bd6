/* x1 = bf16(x), x2 = bf16(x - x1), x3 = bf16(x - x1 - x2), to nearest, ties to even. Both differences are exact. */
#include "blas/parts.h"
#include "core/half.h"

void amp_blas_parts_ref(const float *x, int64_t count, uint16_t *const parts[AMP_BLAS_MAX_PARTS]) {
    for (int64_t i = 0; i < count; i++) {
        float left = x[i];
        for (int p = 0; p < AMP_BLAS_MAX_PARTS; p++) {
            parts[p][i] = amp_bf16_from_f32(left);
            left -= amp_f32_from_bf16(parts[p][i]);
        }
    }
}
