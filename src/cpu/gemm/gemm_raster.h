/* Images laid out for tiles: rows of a product over windows as pixels of a copy, an even distance apart.
 *
 * The copy has the image's pixels once, with what lies outside as zeros, where packed rows have them once for each tap.
 * Pixels that a tap meets at consecutive outputs are neighbours in it: with stride s they are every s-th of a line, so
 * the copy has a plane for each phase x mod s (and y mod s) that a tap asks for. A tap is then a distance: that of its
 * first pixel from the row's own, the same for all rows; and a block of 32 channels of it is 64 bytes in each row.
 *
 * Lines are as long as windows reach, so that rows go on from line to line: a row behind the end of its line is a sum
 * that nobody reads. Row panels end with their image. */
#ifndef AMP_CPU_GEMM_RASTER_H
#define AMP_CPU_GEMM_RASTER_H

#include "cpu/gemm/gemm_isa.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct amp_gemm_raster {
    const amp_gemm_window *w;
    amp_dtype dtype;                  /* of the image */
    int64_t images, image_panels;     /* row panels of each */
    int64_t image_rows;               /* from its first pixel to its last */
    int64_t line_rows;                /* of a line: pixels of the output, and what windows reach beyond */
    int64_t reach[2];                 /* height, width: lines, pixels beyond those of the output */
    int64_t period[2], phases[2];     /* of taps, and so many of them are met */
    int64_t pixel_bytes, plane_bytes; /* from row to row, from phase to phase */
    int panel_rows;
} amp_gemm_raster;

enum { AMP_GEMM_ALIAS_BYTES = 2048 }; /* see amp_gemm_raster_suits */

/* Whether blocks of K can be loaded from such a copy; then sets all but plane_bytes. Pixels that are a multiple of
 * AMP_GEMM_ALIAS_BYTES apart would meet in every 32nd of the 64 sets of L1, or fewer, where 1 KB of each of 32 rows
 * needs more than its 12 ways: they are put a line further apart. */
bool amp_gemm_raster_suits(amp_gemm_raster *r, const amp_gemm *g, int max_rows);

/* Lines that `panels` of them in a row touch at most, phases counted once. */
int64_t amp_gemm_raster_lines(const amp_gemm_raster *r, int64_t panels);

/* Sets plane_bytes for chunks of so many panels; returns the bytes of a copy. */
size_t amp_gemm_raster_size(amp_gemm_raster *r, int64_t panels);

/* For each block of K the distance from a row to it, in bytes. */
void amp_gemm_raster_offsets(const amp_gemm_raster *r, int64_t k_blocks, int64_t *offsets);

/* Copies what panels [first, end) need of the image that begins at `a`: of `members` threads that do it together, the
 * part of one. */
void amp_gemm_raster_copy(const amp_gemm_raster *r, amp_gemm_copy_function *copy_pixels, const void *a, int64_t first,
                          int64_t end, int member, int members, char *to);

/* Where a panel begins in the copy for a chunk that begins with panel `first`, in bytes. */
int64_t amp_gemm_raster_panel(const amp_gemm_raster *r, int64_t first, int64_t panel);

/* Rows of a panel that are in its image. */
static inline int amp_gemm_raster_panel_rows(const amp_gemm_raster *r, int64_t panel) {
    const int64_t left = r->image_rows - panel % r->image_panels * r->panel_rows;
    return left < r->panel_rows ? (int)left : r->panel_rows;
}

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_GEMM_RASTER_H */
