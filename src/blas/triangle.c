/* Products with a triangle: strips of C, each of which meets the K, or has the columns, that are there. */
#include "blas/product.h"
#include "core/memory.h"

enum { STRIPS = 8, LEAST_STRIP = 256, GRAIN = 32 };

static int64_t strip_of(int64_t extent) {
    const int64_t strip = (extent / STRIPS + GRAIN - 1) / GRAIN * GRAIN;
    return strip < LEAST_STRIP ? LEAST_STRIP : strip;
}

/* Rows [i, i_end), columns [j, j_end) and K [k, k_end) of a product. */
static void compute_piece(const amp_blas_product *p, const amp_blas_way *way, int64_t i, int64_t i_end, int64_t j,
                          int64_t j_end, int64_t k, int64_t k_end) {
    amp_blas_product piece = *p;
    if (i >= i_end || j >= j_end || k >= k_end) return;
    piece.m = i_end - i;
    piece.n = j_end - j;
    piece.k = k_end - k;
    piece.a.data += i * p->a.row + k * p->a.column;
    piece.b.data += k * p->b.row + j * p->b.column;
    piece.c += i * p->c_row + j;
    amp_blas_compute(&piece, way, NULL);
}

/* C += of a square on the diagonal, of which one triangle is wanted: through scratch; without memory element by element. */
static void compute_diagonal(const amp_blas_product *p, const amp_blas_way *way, int64_t i, int64_t end,
                             float *scratch) {
    const int64_t extent = end - i;
    amp_blas_product square = *p;
    square.c = scratch - i * extent - i;
    square.c_row = extent;
    square.beta = 0;
    if (scratch) compute_piece(&square, way, i, end, i, end, 0, p->k);
    for (int64_t r = i; r < end; r++) {
        const int64_t first = p->part == AMP_BLAS_UPPER ? r : i, last = p->part == AMP_BLAS_UPPER ? end : r + 1;
        for (int64_t c = first; c < last; c++) {
            float *to = p->c + r * p->c_row + c;
            if (!scratch)
                compute_piece(p, way, r, r + 1, c, c + 1, 0, p->k);
            else
                *to = scratch[(r - i) * extent + c - i] + (p->beta == 0 ? 0 : p->beta * *to);
        }
    }
}

static void compute_part(const amp_blas_product *p, const amp_blas_way *way) {
    const int64_t strip = strip_of(p->m);
    float *scratch = amp_alloc((size_t)(strip * strip) * sizeof *scratch);
    for (int64_t i = 0; i < p->m; i += strip) {
        const int64_t end = i + strip < p->m ? i + strip : p->m;
        const bool upper = p->part == AMP_BLAS_UPPER;
        compute_piece(p, way, i, end, upper ? end : 0, upper ? p->n : i, 0, p->k);
        compute_diagonal(p, way, i, end, scratch);
    }
    amp_free(scratch);
}

/* A's rows end, or begin, on the diagonal. */
static void compute_left(const amp_blas_product *p, const amp_blas_way *way, bool upper) {
    const int64_t strip = strip_of(p->m);
    for (int64_t i = 0; i < p->m; i += strip) {
        const int64_t end = i + strip < p->m ? i + strip : p->m;
        compute_piece(p, way, i, end, 0, p->n, upper ? i : 0, upper ? p->k : end);
    }
}

/* B's columns do. */
static void compute_right(const amp_blas_product *p, const amp_blas_way *way, bool upper) {
    const int64_t strip = strip_of(p->n);
    for (int64_t j = 0; j < p->n; j += strip) {
        const int64_t end = j + strip < p->n ? j + strip : p->n;
        compute_piece(p, way, 0, p->m, j, end, upper ? 0 : j, upper ? end : p->k);
    }
}

void amp_blas_compute_triangle(const amp_blas_product *p, const amp_blas_way *way, const amp_blas_product *from) {
    if (p->part != AMP_BLAS_ALL)
        compute_part(p, way);
    else if (from->a.form == AMP_BLAS_TRIANGULAR)
        compute_left(p, way, from->a.upper);
    else if (from->b.form == AMP_BLAS_TRIANGULAR)
        compute_right(p, way, from->b.upper);
    else
        amp_blas_compute(p, way, NULL);
}
