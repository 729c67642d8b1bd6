/* The extremes of f32 elements by their bits, which order absolute values as integers do. */
#include <string.h>

#include "blas/range.h"

void amp_blas_bits_ref(const float *x, int64_t count, amp_blas_bits *bits) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        u &= 0x7fffffff;
        if (u - 1 < bits->least) bits->least = u - 1;
        if (u > bits->most) bits->most = u;
    }
}
