/* A product in slabs: so many columns and so much of K that what is packed of B, and split of A, stays bounded however
 * large the operands are. */
#include "blas/product.h"

#include "blas/split.h"
#include "core/memory.h"
#include "cpu/registry/gemm.h"

enum { SLAB_K = 8192, SLAB_PACKED_BYTES = 64 << 20, SLAB_SPLIT_BYTES = 32 << 20, GRAIN = 32 };

typedef struct slabs {
    int64_t m, n, k; /* extents of one: of A's rows where those are split, of B's columns, of K */
} slabs;

static int64_t at_most(int64_t extent, int64_t limit) {
    return extent < limit ? extent : limit;
}

/* As many lines of so many bytes as fit, in whole blocks. */
static int64_t lines_in(int64_t extent, size_t bytes, size_t of_line) {
    const int64_t fit = (int64_t)(bytes / of_line) / GRAIN * GRAIN;
    return at_most(extent, fit < GRAIN ? GRAIN : fit);
}

static slabs slabs_of(const amp_blas_product *p, const amp_blas_way *way) {
    slabs s = {p->m, p->n, at_most(p->k, SLAB_K)};
    s.n = lines_in(p->n, SLAB_PACKED_BYTES, amp_blas_packed_bytes(way, GRAIN, s.k) / GRAIN);
    if (way->terms > 1) s.m = lines_in(p->m, SLAB_SPLIT_BYTES, (size_t)amp_blas_joined_k(way, s.k) * sizeof(uint16_t));
    return s;
}

bool amp_blas_is_one_slab(const amp_blas_product *p, const amp_blas_way *way) {
    const slabs s = slabs_of(p, way);
    return s.n == p->n && s.k == p->k;
}

/* Needs no memory, in the order of k: after a product has begun to write C, nothing can send it back. */
static void compute_plainly(const amp_blas_product *p) {
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            float sum = 0, *c = p->c + i * p->c_row + j;
            for (int64_t k = 0; k < p->k; k++)
                sum += p->a.data[i * p->a.row + k * p->a.column] * p->b.data[k * p->b.row + j * p->b.column];
            *c = p->beta == 0 ? p->alpha * sum : p->alpha * sum + p->beta * *c;
        }
    }
}

typedef struct room {
    void *packed;
    uint16_t *split;
} room;

static amp_gemm gemm_of(const amp_blas_product *p) {
    return (amp_gemm){.m = p->m,
                      .n = p->n,
                      .k = p->k,
                      .batch = 1,
                      .a = p->a.data,
                      .a_dtype = AMP_F32,
                      .a_row_stride = p->a.row,
                      .a_column_stride = p->a.column,
                      .c = p->c,
                      .c_dtype = AMP_F32,
                      .c_row_stride = p->c_row,
                      .alpha = p->alpha,
                      .beta = p->beta,
                      .residual = p->beta != 0 ? p->c : NULL,
                      .residual_dtype = AMP_F32,
                      .residual_row_stride = p->c_row,
                      .residual_column_stride = 1};
}

/* Rows of a slab; B is packed. */
static amp_status run_rows(const amp_blas_product *p, const amp_blas_way *way, const void *packed, uint16_t *split) {
    amp_gemm g = gemm_of(p);
    g.b = packed;
    if (way->terms > 1) {
        amp_blas_split_a(split, way, &p->a, p->m, p->k);
        g.a = split;
        g.a_dtype = AMP_BF16;
        g.k = g.a_row_stride = amp_blas_joined_k(way, p->k);
        g.a_column_stride = 1;
    }
    return way->parts == 0 ? amp_gemm_f32(&g, NULL) : amp_gemm_bf16(&g, NULL);
}

static void run_slab(const amp_blas_product *p, const amp_blas_way *way, const void *packed, const room *r,
                     int64_t rows) {
    if (!packed) {
        if (!r->packed || amp_blas_pack_b(r->packed, way, &p->b, p->n, p->k) != AMP_OK) {
            compute_plainly(p);
            return;
        }
        packed = r->packed;
    }
    for (int64_t i = 0; i < p->m; i += rows) {
        amp_blas_product part = *p;
        part.m = at_most(p->m - i, rows);
        part.a.data += i * p->a.row;
        part.c += i * p->c_row;
        const bool has_room = way->terms == 1 || r->split;
        if (!has_room || run_rows(&part, way, packed, r->split) != AMP_OK) compute_plainly(&part);
    }
}

void amp_blas_compute(const amp_blas_product *p, const amp_blas_way *way, const amp_blas_packed *packed) {
    const slabs s = slabs_of(p, way);
    const size_t split_bytes = (size_t)(s.m * amp_blas_joined_k(way, s.k)) * sizeof(uint16_t);
    const room r = {packed ? NULL : amp_alloc(amp_blas_packed_bytes(way, s.n, s.k)),
                    way->terms > 1 ? amp_alloc(split_bytes) : NULL};
    for (int64_t j = 0; j < p->n; j += s.n) {
        for (int64_t k = 0; k < p->k; k += s.k) {
            amp_blas_product slab = *p;
            slab.n = at_most(p->n - j, s.n);
            slab.k = at_most(p->k - k, s.k);
            slab.a.data += k * p->a.column;
            slab.b.data += k * p->b.row + j * p->b.column;
            slab.c += j;
            if (k > 0) slab.beta = 1.0f; /* on what the slabs before have summed */
            run_slab(&slab, way, packed ? packed->data : NULL, &r, s.m);
        }
    }
    amp_free(r.packed);
    amp_free(r.split);
}
