#include "cpu/gemm/gemm_raster.h"

#include <string.h>

#include "core/parallel.h"

enum {
    LINE = 64 /* bytes of a cache line, and of a tile's row */
};

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* b > 0 */
static int64_t common_divisor(int64_t a, int64_t b) {
    while (a) {
        const int64_t rest = b % a;
        b = a;
        a = rest;
    }
    return b;
}

static void set_axis(amp_gemm_raster *r, int i) {
    const amp_gemm_window *w = r->w;
    const int64_t taps = w->taps[1 + i], stride = w->stride[1 + i], dilation = w->dilation[1 + i];
    r->reach[i] = (taps - 1) * dilation / stride;
    r->period[i] = stride / common_divisor(dilation % stride, stride);
    r->phases[i] = taps < r->period[i] ? taps : r->period[i];
}

/* Extents beyond those are no images; the products below cannot overflow. */
static bool is_sized(const amp_gemm_window *w) {
    enum { MOST = 1 << 15 };
    for (int i = 1; i < 3; i++)
        if (w->out[i] > MOST || (double)(w->taps[i] - 1) * (double)w->dilation[i] > MOST) return false;
    return w->channels <= MOST;
}

bool amp_gemm_raster_suits(amp_gemm_raster *r, const amp_gemm *g, int max_rows) {
    const amp_gemm_window *w = g->window;
    const bool flat = w->taps[0] == 1 && w->out[0] == 1 && w->pad[0] == 0;
    if (!flat || w->channels % AMP_GEMM_BLOCK != 0 || g->k == 0 || w->taps[1] * w->taps[2] == 1 || !is_sized(w))
        return false;
    *r = (amp_gemm_raster){.w = w, .dtype = g->a_dtype, .images = g->m / (w->out[1] * w->out[2])};
    set_axis(r, 0);
    set_axis(r, 1);
    r->line_rows = w->out[2] + r->reach[1];
    r->image_rows = (w->out[1] - 1) * r->line_rows + w->out[2];
    r->image_panels = divide_up(r->image_rows, max_rows);
    r->panel_rows = (int)divide_up(r->image_rows, r->image_panels);
    r->image_panels = divide_up(r->image_rows, r->panel_rows);
    r->pixel_bytes = w->channels * (int64_t)sizeof(uint16_t);
    if (r->pixel_bytes % AMP_GEMM_ALIAS_BYTES == 0) r->pixel_bytes += LINE;
    return true;
}

int64_t amp_gemm_raster_lines(const amp_gemm_raster *r, int64_t panels) {
    const int64_t images = (panels - 1) / r->image_panels + 2, parts = images < r->images ? images : r->images;
    const int64_t touched = panels * r->panel_rows / r->line_rows + parts * (2 + r->reach[0]);
    const int64_t all = parts * (r->w->out[1] + r->reach[0]);
    return touched < all ? touched : all;
}

/* Behind a plane's last line the last panel's tiles read rows that it lacks, as far as its taps reach. */
size_t amp_gemm_raster_size(amp_gemm_raster *r, int64_t panels) {
    const int64_t rows = amp_gemm_raster_lines(r, panels) * r->line_rows + r->panel_rows + r->reach[1];
    r->plane_bytes = rows * r->pixel_bytes;
    return (size_t)(r->phases[0] * r->phases[1] * r->plane_bytes);
}

void amp_gemm_raster_offsets(const amp_gemm_raster *r, int64_t k_blocks, int64_t *offsets) {
    const amp_gemm_window *w = r->w;
    const int64_t of_tap = w->channels / AMP_GEMM_BLOCK;
    for (int64_t i = 0; i < k_blocks; i++) {
        const int64_t tap = i / of_tap, h = tap / w->taps[2], x = tap % w->taps[2];
        const int64_t plane = h % r->period[0] * r->phases[1] + x % r->period[1];
        const int64_t row = h * w->dilation[1] / w->stride[1] * r->line_rows + x * w->dilation[2] / w->stride[2];
        offsets[i] = plane * r->plane_bytes + row * r->pixel_bytes + i % of_tap * LINE;
    }
}

/* ---- Copies --------------------------------------------------------------------------------------------------- */

/* What a chunk needs of one image: its lines from `line` on, those of the output and what windows reach below; `at`:
 * lines of the copy before them. */
typedef struct part {
    int64_t line, lines, at;
} part;

static part part_of(const amp_gemm_raster *r, int64_t first, int64_t end, int64_t image) {
    const int64_t before = image * r->image_panels, first_image = first / r->image_panels;
    const int64_t from = first > before ? (first - before) * r->panel_rows / r->line_rows : 0;
    const int64_t panels = end - before < r->image_panels ? end - before : r->image_panels;
    const int64_t rows = panels * r->panel_rows < r->image_rows ? panels * r->panel_rows : r->image_rows;
    part p = {.line = from, .lines = divide_up(rows, r->line_rows) - from + r->reach[0]};
    if (image == first_image) return p;
    const int64_t skipped = first % r->image_panels * r->panel_rows / r->line_rows;
    p.at = (image - first_image) * (r->w->out[1] + r->reach[0]) - skipped;
    return p;
}

int64_t amp_gemm_raster_panel(const amp_gemm_raster *r, int64_t first, int64_t panel) {
    const int64_t image = panel / r->image_panels;
    const part p = part_of(r, first, panel + 1, image);
    return (panel % r->image_panels * r->panel_rows + (p.at - p.line) * r->line_rows) * r->pixel_bytes;
}

/* One line of one phase: pixels x, x + stride, …; NULL: a line of zeros. */
static void copy_line(const amp_gemm_raster *r, amp_gemm_copy_function *copy_pixels, const char *line, int64_t x,
                      char *to) {
    const amp_gemm_window *w = r->w;
    const int64_t size = r->dtype == AMP_F32 ? 4 : 2, stride = w->stride[2];
    int64_t first = x < 0 ? divide_up(-x, stride) : 0, last = w->in[2] > x ? divide_up(w->in[2] - x, stride) : 0;
    if (last > r->line_rows) last = r->line_rows;
    if (!line || first >= last) first = last = 0;
    memset(to, 0, (size_t)(first * r->pixel_bytes));
    if (first < last)
        copy_pixels(to + first * r->pixel_bytes, r->pixel_bytes, line + (x + first * stride) * w->step[2] * size,
                    stride * w->step[2] * size, r->dtype, w->channels, last - first);
    memset(to + last * r->pixel_bytes, 0, (size_t)((r->line_rows - last) * r->pixel_bytes));
}

/* Line y of the copy, in all phases. */
static void copy_phases(const amp_gemm_raster *r, amp_gemm_copy_function *copy_pixels, const char *image, int64_t y,
                        char *to) {
    const amp_gemm_window *w = r->w;
    const int64_t size = r->dtype == AMP_F32 ? 4 : 2;
    for (int64_t i = 0; i < r->phases[0] * r->phases[1]; i++, to += r->plane_bytes) {
        const int64_t down = i / r->phases[1] * w->dilation[1] % w->stride[1];
        const int64_t right = i % r->phases[1] * w->dilation[2] % w->stride[2];
        const int64_t h = y * w->stride[1] + down - w->pad[1];
        const char *line = h >= 0 && h < w->in[1] ? image + h * w->step[1] * size : NULL;
        copy_line(r, copy_pixels, line, right - w->pad[2], to);
    }
}

void amp_gemm_raster_copy(const amp_gemm_raster *r, amp_gemm_copy_function *copy_pixels, const void *a, int64_t first,
                          int64_t end, int member, int members, char *to) {
    const int64_t size = r->dtype == AMP_F32 ? 4 : 2;
    if (first >= end) return;
    for (int64_t image = first / r->image_panels; image * r->image_panels < end; image++) {
        const part p = part_of(r, first, end, image);
        const char *from = (const char *)a + image * r->w->image_stride * size;
        const amp_range mine = amp_parallel_part(p.lines, 1, member, members);
        for (int64_t i = mine.begin; i < mine.end; i++)
            copy_phases(r, copy_pixels, from, p.line + i, to + (p.at + i) * r->line_rows * r->pixel_bytes);
    }
}
