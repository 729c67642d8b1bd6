/* Products with a triangle: strips of C, each of which meets the K, or has the columns, that are there. */
#include "blas/product.h"
#include "blas/split.h"
#include "core/memory.h"

enum { STRIPS = 8, LEAST_STRIP = 128, GRAIN = 32 };

/* Whole blocks of columns: what is packed of B can be entered there. */
static int64_t strip_of(int64_t extent) {
    const int64_t strip = (extent / STRIPS + GRAIN - 1) / GRAIN * GRAIN;
    return strip < LEAST_STRIP ? LEAST_STRIP : strip;
}

/* Rows [i, i_end), columns [j, j_end) and K [k, k_end) of a product. */
static amp_blas_product piece_of(const amp_blas_product *p, int64_t i, int64_t i_end, int64_t j, int64_t j_end,
                                 int64_t k, int64_t k_end) {
    amp_blas_product piece = *p;
    piece.m = i_end - i;
    piece.n = j_end - j;
    piece.k = k_end - k;
    piece.a.data += i * p->a.row + k * p->a.column;
    piece.b.data += k * p->b.row + j * p->b.column;
    piece.c += i * p->c_row + j;
    return piece;
}

/* ---- A triangle of C --------------------------------------------------------------------------------------------- */

/* `packed`: all of B, or NULL. */
typedef struct part {
    const amp_blas_product *p;
    const amp_blas_way *way;
    char *packed;
    float *scratch; /* a square on the diagonal, or NULL */
} part;

/* All of K; to c, with beta. */
static void compute_block(const part *t, int64_t i, int64_t i_end, int64_t j, int64_t j_end, float *c, int64_t c_row,
                          float beta) {
    if (i >= i_end || j >= j_end) return;
    amp_blas_product piece = piece_of(t->p, i, i_end, j, j_end, 0, t->p->k);
    piece.c = c;
    piece.c_row = c_row;
    piece.beta = beta;
    piece.part = AMP_BLAS_ALL;
    const int64_t panel = (int64_t)amp_blas_packed_bytes(t->way, GRAIN, t->p->k);
    const amp_blas_packed packed = {.data = t->packed ? t->packed + j / GRAIN * panel : NULL};
    amp_blas_compute(&piece, t->way, t->packed ? &packed : NULL);
}

/* One element, without memory. */
static void compute_element(const part *t, int64_t i, int64_t j) {
    const part plain = {.p = t->p, .way = t->way};
    compute_block(&plain, i, i + 1, j, j + 1, t->p->c + i * t->p->c_row + j, 1, t->p->beta);
}

/* A square on the diagonal, of which one triangle is wanted. */
static void compute_diagonal(const part *t, int64_t i, int64_t end) {
    const amp_blas_product *p = t->p;
    const int64_t extent = end - i;
    if (t->scratch) compute_block(t, i, end, i, end, t->scratch, extent, 0);
    for (int64_t r = i; r < end; r++) {
        const int64_t first = p->part == AMP_BLAS_UPPER ? r : i, last = p->part == AMP_BLAS_UPPER ? end : r + 1;
        for (int64_t c = first; c < last; c++) {
            float *to = p->c + r * p->c_row + c;
            if (!t->scratch)
                compute_element(t, r, c);
            else
                *to = t->scratch[(r - i) * extent + c - i] + (p->beta == 0 ? 0 : p->beta * *to);
        }
    }
}

static char *pack_all(const amp_blas_product *p, const amp_blas_way *way) {
    char *packed = amp_blas_is_one_slab(p, way) ? amp_alloc(amp_blas_packed_bytes(way, p->n, p->k)) : NULL;
    if (!packed || amp_blas_pack_b(packed, way, &p->b, p->n, p->k) == AMP_OK) return packed;
    amp_free(packed);
    return NULL;
}

static void compute_part(const amp_blas_product *p, const amp_blas_way *way) {
    const int64_t strip = strip_of(p->m);
    const part t = {p, way, pack_all(p, way), amp_alloc((size_t)(strip * strip) * sizeof(float))};
    for (int64_t i = 0; i < p->m; i += strip) {
        const int64_t end = i + strip < p->m ? i + strip : p->m;
        const int64_t j = p->part == AMP_BLAS_UPPER ? end : 0, j_end = p->part == AMP_BLAS_UPPER ? p->n : i;
        compute_block(&t, i, end, j, j_end, p->c + i * p->c_row + j, p->c_row, p->beta);
        compute_diagonal(&t, i, end);
    }
    amp_free(t.packed);
    amp_free(t.scratch);
}

/* ---- A triangle of an operand ------------------------------------------------------------------------------------ */

static void compute_piece(const amp_blas_product *p, const amp_blas_way *way, int64_t i, int64_t i_end, int64_t j,
                          int64_t j_end, int64_t k, int64_t k_end) {
    const amp_blas_product piece = piece_of(p, i, i_end, j, j_end, k, k_end);
    amp_blas_compute(&piece, way, NULL);
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
