/* The range of a matrix: its rows, or columns, whichever are dense, shared among threads. */
#include "blas/range.h"

#include <omp.h>

#include "core/parallel.h"

typedef void bits_function(const float *x, int64_t count, amp_blas_bits *bits);

static bits_function *best_bits(void) {
#ifdef AMP_HAVE_AVX2
    if (amp_isa_usable(AMP_ISA_AVX2)) return amp_blas_bits_avx2;
#endif
    return amp_blas_bits_ref;
}

/* Lines of `length` elements that lie `stride` apart, `pitch` from line to line. */
static amp_blas_bits bits_of(const float *data, int64_t lines, int64_t length, int64_t pitch, int64_t stride) {
    bits_function *const scan = best_bits();
    const int threads = amp_parallel_threads(lines * length, AMP_GRAIN_ELEMENTS);
    uint32_t least = UINT32_MAX, most = 0;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1) reduction(min                          \
                                                                                          : least) reduction(max       \
                                                                                                             : most)
    for (int64_t i = 0; i < lines; i++) {
        amp_blas_bits bits = {least, most};
        if (stride == 1) scan(data + i * pitch, length, &bits);
        for (int64_t j = 0; stride != 1 && j < length; j++) scan(data + i * pitch + j * stride, 1, &bits);
        least = bits.least;
        most = bits.most;
    }
    return (amp_blas_bits){least, most};
}

static int exponent_of(uint32_t bits) {
    return (int)(bits >> 23) - 127;
}

amp_blas_range amp_blas_range_of(const amp_blas_operand *x, int64_t rows, int64_t columns) {
    const bool by_rows = x->column == 1 || x->row != 1;
    const amp_blas_bits bits = by_rows ? bits_of(x->data, rows, columns, x->row, x->column)
                                       : bits_of(x->data, columns, rows, x->column, x->row);
    return (amp_blas_range){bits.least == UINT32_MAX ? AMP_BLAS_ALL_ZERO : exponent_of(bits.least + 1),
                            exponent_of(bits.most)};
}
