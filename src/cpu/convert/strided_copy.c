/* The general copy.
 *
 * Dimensions are sorted by their stride in dst and merged where both arrays allow, so that what looks strided is often
 * one contiguous piece. The innermost that remains decides how: dense rows go straight through the conversion; where
 * dst is dense along one dimension and src along another, tiles are transposed in L1, or a few rows, the colours of an
 * image, woven into one; the rest goes element by element. */
#include "cpu/convert/strided_copy.h"

#include <emmintrin.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/convert_any.h"
#include "cpu/convert/transpose.h"

enum {
    TILE_BYTES = 64,  /* of a tile along src's dense dimension: a cache line (128 and 256 were slower from memory) */
    TILE_ALONG = 64,  /* its elements along dst's: 16 and 32 were slower */
    FEW = 4,          /* colours of an image: 214 to 290 us in tiles and short rows for 224 × 224 of f32 … */
    LONG = 16,        /* … and rows that are worth beginning */
    SHORT_BYTES = 512 /* of a row that is not worth a call of memcpy */
};

typedef struct dimension {
    int64_t extent, dst, src; /* strides in bytes; dst > 0 */
} dimension;

typedef enum way {
    BY_ROWS,
    BY_SHORT_ROWS, /* dense in both, with nothing to convert */
    BY_TILES,      /* dims[rank - 2] is dense in src, dims[rank - 1] in dst */
    BY_COLOURS     /* the other way round, with a few rows, and nothing to convert */
} way;

typedef struct copy_plan {
    amp_conversion conversion;
    char *dst;
    const char *src;
    int rank; /* at least 1 */
    dimension dims[AMP_MAX_RANK];
    int64_t elements;
    way way;
} copy_plan;

/* ---- Rows ----------------------------------------------------------------------------------------------------- */

/* A place in the dimensions but the last `inner` ones. */
typedef struct cursor {
    int64_t index[AMP_MAX_RANK];
    char *dst;
    const char *src;
} cursor;

static cursor cursor_at(const copy_plan *plan, int inner, int64_t position) {
    cursor at = {.dst = plan->dst, .src = plan->src};
    for (int i = plan->rank - inner - 1; i >= 0; i--) {
        const dimension *d = &plan->dims[i];
        at.index[i] = position % d->extent;
        position /= d->extent;
        at.dst += at.index[i] * d->dst;
        at.src += at.index[i] * d->src;
    }
    return at;
}

static void cursor_next(const copy_plan *plan, int inner, cursor *at) {
    for (int i = plan->rank - inner - 1; i >= 0; i--) {
        const dimension *d = &plan->dims[i];
        at->dst += d->dst;
        at->src += d->src;
        if (++at->index[i] < d->extent) return;
        at->dst -= d->extent * d->dst;
        at->src -= d->extent * d->src;
        at->index[i] = 0;
    }
}

/* Elements part.begin to part.end, counted over all rows: a part may begin and end within a row. */
static void copy_rows(const copy_plan *plan, amp_range part) {
    const dimension *d = &plan->dims[plan->rank - 1];
    if (part.begin >= part.end) return;
    cursor at = cursor_at(plan, 1, part.begin / d->extent);
    int64_t offset = part.begin % d->extent;
    for (int64_t done = part.begin; done < part.end;) {
        const int64_t left = part.end - done, n = d->extent - offset < left ? d->extent - offset : left;
        amp_conversion_run_strided(&plan->conversion, at.dst + offset * d->dst, d->dst, at.src + offset * d->src,
                                   d->src, n);
        cursor_next(plan, 1, &at);
        done += n;
        offset = 0;
    }
}

/* ---- Tiles ---------------------------------------------------------------------------------------------------- */

/* A tile is read a dense piece of src at a time into the columns of a buffer, whose rows are then dense pieces of dst:
 * neither array is walked across its cache lines, whose addresses are often a power of two apart. */
static void copy_tile(const copy_plan *plan, char *dst, const char *src, int64_t across, int64_t along) {
    char tile[TILE_BYTES * TILE_ALONG];
    const dimension *outer = &plan->dims[plan->rank - 2], *inner = outer + 1;
    const int64_t size = (int64_t)plan->conversion.src_size, row = size * TILE_ALONG;
    amp_transpose(tile, row, src, inner->src, along, across, (size_t)size);
    for (int64_t i = 0; i < across; i++)
        amp_conversion_run(&plan->conversion, dst + i * outer->dst, tile + i * row, along);
}

/* Rows of dst in a band: the elements of a tile's piece of src. */
static int64_t band_rows(const copy_plan *plan) {
    return TILE_BYTES / (int64_t)plan->conversion.src_size;
}

static int64_t bands_of(const copy_plan *plan) {
    const int64_t rows = band_rows(plan);
    return (plan->dims[plan->rank - 2].extent + rows - 1) / rows;
}

/* Bands part.begin to part.end: a band is band_rows rows of one matrix. */
static void copy_bands(const copy_plan *plan, amp_range part) {
    const dimension *outer = &plan->dims[plan->rank - 2], *inner = outer + 1;
    const int64_t bands = bands_of(plan), rows = band_rows(plan);
    if (part.begin >= part.end) return;
    cursor at = cursor_at(plan, 2, part.begin / bands);
    int64_t band = part.begin % bands;
    for (int64_t done = part.begin; done < part.end; done++) {
        const int64_t first = band * rows, left = outer->extent - first;
        for (int64_t j = 0; j < inner->extent; j += TILE_ALONG)
            copy_tile(plan, at.dst + first * outer->dst + j * inner->dst, at.src + first * outer->src + j * inner->src,
                      left < rows ? left : rows, inner->extent - j < TILE_ALONG ? inner->extent - j : TILE_ALONG);
        if (++band == bands) {
            band = 0;
            cursor_next(plan, 2, &at);
        }
    }
}

/* ---- Matrices of short rows, or of a few long ones --------------------------------------------------------------- */

/* Rows of 16 to SHORT_BYTES bytes: 16 at a time, the last of them once more than whole. */
static void copy_short_rows(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t bytes,
                            int64_t rows) {
    for (int64_t r = 0; r < rows; r++, dst += dst_stride, src += src_stride) {
        for (int64_t at = 0; at < bytes; at += 16) {
            const int64_t from = at + 16 <= bytes ? at : bytes - 16;
            _mm_storeu_si128((void *)(dst + from), _mm_loadu_si128((const void *)(src + from)));
        }
    }
}

/* Steps part.begin to part.end of all matrices: short rows, or columns of a few. */
static void copy_matrices(const copy_plan *plan, amp_range part) {
    const bool by_columns = plan->way == BY_COLOURS;
    const dimension *rows = &plan->dims[plan->rank - 2], *columns = rows + 1, *steps = by_columns ? columns : rows;
    const int64_t size = (int64_t)plan->conversion.src_size;
    if (part.begin >= part.end) return;
    cursor at = cursor_at(plan, 2, part.begin / steps->extent);
    int64_t offset = part.begin % steps->extent;
    for (int64_t done = part.begin; done < part.end;) {
        const int64_t left = part.end - done, rest = steps->extent - offset, n = rest < left ? rest : left;
        char *dst = at.dst + offset * steps->dst;
        const char *src = at.src + offset * steps->src;
        if (by_columns)
            amp_transpose(dst, columns->dst, src, rows->src, rows->extent, n, (size_t)size);
        else
            copy_short_rows(dst, rows->dst, src, rows->src, columns->extent * size, n);
        cursor_next(plan, 2, &at);
        done += n;
        offset = 0;
    }
}

/* ---- Plan ----------------------------------------------------------------------------------------------------- */

/* Adds a dimension where it belongs in the order of dst strides, descending. */
static void plan_insert(copy_plan *plan, dimension d) {
    if (d.dst < 0) { /* walked backwards, in both arrays */
        plan->dst += (d.extent - 1) * d.dst;
        plan->src += (d.extent - 1) * d.src;
        d.dst = -d.dst;
        d.src = -d.src;
    }
    int i = plan->rank++;
    for (; i > 0 && plan->dims[i - 1].dst < d.dst; i--) plan->dims[i] = plan->dims[i - 1];
    plan->dims[i] = d;
}

static void plan_merge(copy_plan *plan) {
    int kept = 0;
    for (int i = 1; i < plan->rank; i++) {
        dimension *outer = &plan->dims[kept];
        const dimension inner = plan->dims[i];
        if (outer->dst == inner.dst * inner.extent && outer->src == inner.src * inner.extent)
            *outer = (dimension){outer->extent * inner.extent, inner.dst, inner.src};
        else
            plan->dims[++kept] = inner;
    }
    plan->rank = kept + 1;
}

static bool converts(const copy_plan *plan) {
    return plan->conversion.direct || plan->conversion.widen;
}

/* dims[i] becomes the one at `place`, further in. */
static void plan_move(copy_plan *plan, int i, int place) {
    const dimension moved = plan->dims[i];
    memmove(&plan->dims[i], &plan->dims[i + 1], (size_t)(place - i) * sizeof moved);
    plan->dims[place] = moved;
}

/* Where src is dense along another dimension than dst, that one becomes the last but one, for tiles; or the last, where
 * dst's own is that of a few colours: three long rows with gaps between their elements, not many short ones. */
static void plan_transpose(copy_plan *plan) {
    const int last = plan->rank - 1;
    const dimension inner = plan->dims[last];
    for (int i = 0; i < last; i++) {
        const dimension outer = plan->dims[i];
        if (outer.src != (int64_t)plan->conversion.src_size || outer.extent < 4) continue;
        const bool few = inner.extent <= FEW;
        if (few && outer.extent < LONG) return;
        plan_move(plan, i, few ? last : last - 1);
        plan->way = !few ? BY_TILES : converts(plan) ? BY_ROWS : BY_COLOURS;
        return;
    }
}

static void plan_way(copy_plan *plan) {
    const dimension inner = plan->dims[plan->rank - 1];
    const int64_t size = (int64_t)plan->conversion.src_size, bytes = inner.extent * size;
    if (inner.dst != (int64_t)plan->conversion.dst_size) return;
    if (inner.src != size)
        plan_transpose(plan);
    else if (plan->rank > 1 && !converts(plan) && bytes >= 16 && bytes <= SHORT_BYTES)
        plan->way = BY_SHORT_ROWS;
}

/* A thread's part, in the elements, bands, rows or columns that a way counts. */
static void copy_part(const copy_plan *plan, int thread, int threads) {
    const dimension *inner = &plan->dims[plan->rank - 1];
    const int64_t rows = plan->elements / inner->extent;
    switch (plan->way) {
    case BY_ROWS: copy_rows(plan, amp_parallel_part(plan->elements, 64, thread, threads)); break;
    case BY_SHORT_ROWS: copy_matrices(plan, amp_parallel_part(rows, 1, thread, threads)); break;
    case BY_TILES:
        copy_bands(plan, amp_parallel_part(rows / inner[-1].extent * bands_of(plan), 1, thread, threads));
        break;
    case BY_COLOURS:
        copy_matrices(plan, amp_parallel_part(plan->elements / inner[-1].extent, 64, thread, threads));
        break;
    }
}

static amp_status plan_make(copy_plan *plan, const int64_t *dst_strides, const int64_t *src_strides, int rank,
                            const int64_t *shape) {
    const int64_t dst_size = (int64_t)plan->conversion.dst_size, src_size = (int64_t)plan->conversion.src_size;
    for (int i = 0; i < rank; i++) {
        if (shape[i] == 1) continue;
        if (!dst_strides[i])
            return amp_fail(AMP_ERROR_INVALID, "copy: the destination has stride 0 over dimension %d of %lld elements",
                            i, (long long)shape[i]);
        plan_insert(plan, (dimension){shape[i], dst_strides[i] * dst_size, src_strides[i] * src_size});
    }
    if (!plan->rank) plan_insert(plan, (dimension){1, dst_size, src_size});
    plan_merge(plan);
    plan_way(plan);
    return AMP_OK;
}

amp_status amp_strided_copy(void *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const void *src,
                            amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape) {
    copy_plan plan = {.dst = dst, .src = src, .elements = 1};
    bool same = dst == src && dst_dtype == src_dtype;
    AMP_TRY(amp_conversion_find(dst_dtype, src_dtype, &plan.conversion));
    if (rank < 0 || rank > AMP_MAX_RANK) return amp_fail(AMP_ERROR_INVALID, "copy: rank is %d", rank);
    for (int i = 0; i < rank; i++) {
        plan.elements *= shape[i];
        same = same && (shape[i] == 1 || dst_strides[i] == src_strides[i]);
    }
    if (plan.elements == 0 || same) return AMP_OK;
    AMP_TRY(plan_make(&plan, dst_strides, src_strides, rank, shape));
    const int threads = amp_parallel_threads(plan.elements, AMP_GRAIN_ELEMENTS);
    if (threads == 1) {
        copy_part(&plan, 0, 1);
        return AMP_OK;
    }
#pragma omp parallel num_threads(threads)
    copy_part(&plan, omp_get_thread_num(), omp_get_num_threads());
    return AMP_OK;
}

/* ---- From any address ------------------------------------------------------------------------------------------ */

enum { NEAR_BYTES = 256 * 1024 }; /* that are copied to where they are aligned, at a time: they stay in L2 */

/* The bytes from the lowest element to behind the highest; *lowest: where that is, from element [0, …, 0]. */
static int64_t reach_of(int64_t size, const int64_t *strides, int rank, const int64_t *shape, int64_t *lowest) {
    int64_t below = 0, above = 0;
    for (int i = 0; i < rank; i++) *(strides[i] < 0 ? &below : &above) += (shape[i] - 1) * strides[i];
    *lowest = below * size;
    return (above - below + 1) * size;
}

static int widest(const int64_t *strides, int rank, const int64_t *shape) {
    int d = 0;
    for (int i = 1; i < rank; i++) {
        if (shape[i] > 1 && (shape[d] == 1 || llabs(strides[i]) > llabs(strides[d]))) d = i;
    }
    return d;
}

static amp_status copy_near(char *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const char *src,
                            amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape) {
    int64_t lowest;
    const int64_t bytes = reach_of((int64_t)amp_dtype_size(src_dtype), src_strides, rank, shape, &lowest);
    char *near = amp_alloc((size_t)bytes);
    if (!near) return amp_fail(AMP_ERROR_MEMORY, "copy: no memory for %lld bytes", (long long)bytes);
    memcpy(near, src + lowest, (size_t)bytes);
    const amp_status status =
        amp_strided_copy(dst, dst_dtype, dst_strides, near - lowest, src_dtype, src_strides, rank, shape);
    amp_free(near);
    return status;
}

/* Slices along the dimension that steps furthest lie apart. */
amp_status amp_strided_copy_anywhere(void *dst, amp_dtype dst_dtype, const int64_t *dst_strides, const void *src,
                                     amp_dtype src_dtype, const int64_t *src_strides, int rank, const int64_t *shape) {
    const int64_t size = (int64_t)amp_dtype_size(src_dtype), to_size = (int64_t)amp_dtype_size(dst_dtype);
    if (rank == 0 || (uintptr_t)src % (size_t)size == 0)
        return amp_strided_copy(dst, dst_dtype, dst_strides, src, src_dtype, src_strides, rank, shape);
    int64_t slice[AMP_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        if (shape[i] == 0) return AMP_OK;
        slice[i] = shape[i];
    }
    const int d = widest(src_strides, rank, shape);
    const int64_t step = llabs(src_strides[d]) * size, most = step > 0 && step < NEAR_BYTES ? NEAR_BYTES / step : 1;
    for (int64_t at = 0; at < shape[d]; at += most) {
        slice[d] = shape[d] - at < most ? shape[d] - at : most;
        AMP_TRY(copy_near((char *)dst + at * dst_strides[d] * to_size, dst_dtype, dst_strides,
                          (const char *)src + at * src_strides[d] * size, src_dtype, src_strides, rank, slice));
    }
    return AMP_OK;
}
