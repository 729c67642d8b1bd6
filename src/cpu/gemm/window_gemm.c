/* Products over windows of an image that read the image where it lies: the rows of a tile are pixels of one line, an
 * even distance apart, and a window's values a few runs of memory. Where a window leaves the image, or the image is
 * of another type or badly laid out, the tile's part of it is copied and converted first, with zeros around it. Packed
 * panels of bf16 whose product is one of f32 are unpacked for the tiles that follow.
 *
 * Formula:     that of the ISA's `direct` tile, in ascending k over the window's runs: without an epilogue the same
 *              bits as over packed rows.
 * Accumulator: f32, in registers from the first k to the last; the tile is finished there.
 * Error bound: that of the ISA's kernel file.
 * ISA:         chosen by the caller (amp_gemm_isa); this file moves pointers.
 * Source:      none; figures of what was tried are in docs/benchmarks.md, Convolution, and docs/kernels.md. */
#include <omp.h>
#include <string.h>

#include "core/fail.h"
#include "core/hot.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/gemm/gemm_isa.h"

enum {
    STEP = 4,                   /* bytes of A in a step */
    B_STEP = 128,               /* … and of a panel of B */
    GROUP_B_BYTES = 320 * 1024, /* panels of B that a chunk of tiles meets while they are in L2 */
    CHUNK_A_BYTES = 256 * 1024, /* what the tiles of a chunk read of A */
    REPEAT_BYTES = 16 * 1024,   /* of A, and of C, in tiles in a row that are one call */
    LINES_BYTES = 64 * 1024,    /* of a copy in lines, converted, for such tiles */
    ALIAS_BYTES = 4096,         /* rows that far apart meet in one set of L1 */
    ROWS_B_BYTES = 16 * 1024,   /* of all of B: C is written row by row, its lines whole */
    FETCH_B_BYTES = 32 * 1024,  /* of a tile's B: beyond, it comes from L2 each time */
    NEAR_BYTES = 512 * 1024,    /* of C, in L2 */
    SMALL_BYTES = 64,           /* a copy may read so much at a time, within the image */
    LEAST_WIDE_ROWS = 24,       /* that pay for unpacking B, … */
    UNPACK_TILES = 3,           /* … which costs a thread as much as so many tiles: an estimate, not measured */
    ROUNDED = 512               /* values of A that are rounded at a time */
};

/* How a tile's values are reached. */
typedef enum place {
    IN_IMAGE, /* where they lie */
    IN_LINES, /* in a copy of the lines of the image that its windows cover */
    IN_ROWS   /* in a copy of each window */
} place;

typedef struct plan {
    const amp_gemm *g;
    const amp_gemm_window *w;
    const amp_gemm_isa *isa;
    amp_convert_function *convert; /* NULL: A has the product's type */
    amp_convert_function *round;   /* NULL, or what comes before that: A is f32, and the product one of bf16 in f32 */
    void (*unpack_b)(const void *packed, float *to, int64_t blocks); /* NULL: B is packed in the product's type */
    int64_t size, source_size; /* of an element of the product's A, and of the image */
    int64_t run_bytes;         /* of the values of a run, without padding */
    int64_t row_bytes[3];      /* from row to row, by place */
    bool readable;             /* the image as it lies, as far as windows are within it */
    bool dense;                /* windows of one pixel each that lie together: tiles of them are copied as one */
    int64_t runs;
    place copies;                 /* how what cannot be read in the image is copied */
    int64_t copy_tiles;           /* tiles in a row that have one copy, at most */
    int64_t line_pixels;          /* of a copy in lines */
    int64_t copy_bytes;           /* of one copy */
    const char *image_end;        /* behind the last value of A */
    int rows, tile_panels;        /* of a tile */
    int64_t tiles_of_line, tiles; /* of one matrix */
    int64_t panels, panel_bytes, group, chunk;
    int64_t packed_panel_bytes; /* of B as it is given */
    int64_t most_repeats;       /* tiles in a row, where they lie, that are one call */
    bool far;                   /* C does not stay in L2 */
    bool by_rows;               /* all of B is in L1: C is written row by row */
    bool fused;                 /* there is more to do with the sums than to add the bias, and relu */
    bool relu;                  /* of what a tile stored */
    int threads, grid_m, grid_n;
    size_t scratch_bytes; /* of a thread */
} plan;

/* One tile: rows first … first + rows - 1 of a line of the output. */
typedef struct tile {
    int64_t item, line, first;
    int rows;
    int64_t repeat; /* so many tiles follow each other */
    place place;
    int64_t at[2]; /* depth and height of the first tap */
    const char *a; /* IN_IMAGE: the value that the first window's first tap would meet; else the copy */
} tile;

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0); /* NOLINT(clang-analyzer-core.DivideZero): extents and rows are positive here */
}

static int64_t round_up(int64_t a, int64_t unit) {
    return divide_up(a, unit) * unit;
}

/* ---- Plan ----------------------------------------------------------------------------------------------------- */

AMP_HOT bool amp_gemm_is_direct(const amp_gemm *g, const amp_gemm_isa *isa) {
    const amp_gemm_isa *tiles = isa->wide ? isa->wide : isa;
    return tiles->direct && g->window && g->k > 0 && (tiles->direct_k == 0 || g->k <= tiles->direct_k) &&
           (tiles->b_f32 || amp_gemm_window_run(g->window) % 2 == 0) && (g->a_dtype == AMP_F32 || !isa->b_f32) &&
           (!isa->wide || g->m >= LEAST_WIDE_ROWS);
}

/* Rows that are pixels one behind the other, of another type, and not so far apart that they meet in one set of L1. */
static bool is_dense(const plan *p) {
    const amp_gemm_window *w = p->w;
    for (int i = 0; i < 3; i++) {
        if (w->taps[i] != 1 || w->stride[i] != 1 || w->pad[i] != 0 || w->out[i] > w->in[i]) return false;
    }
    return p->convert && w->run_padding == 0 && w->step[2] == w->channels && p->run_bytes % (ALIAS_BYTES / 2) != 0;
}

static void choose_runs(plan *p) {
    const amp_gemm_window *w = p->w;
    p->run_bytes = w->run_taps * w->channels * p->size;
    p->runs = w->taps[0] * w->taps[1] * (w->taps[2] / w->run_taps);
    p->row_bytes[IN_IMAGE] = w->stride[2] * w->step[2] * p->size;
    p->row_bytes[IN_LINES] = w->stride[2] * w->channels * p->size;
    p->row_bytes[IN_ROWS] = round_up(p->g->k * p->size, 64) + 64; /* rows begin in different sets of L1 */
    p->dense = is_dense(p);
    if (p->dense) p->row_bytes[IN_ROWS] = p->run_bytes;
    p->readable =
        !p->convert && (w->run_taps == 1 || w->step[2] == w->channels) && p->row_bytes[IN_IMAGE] % ALIAS_BYTES != 0;
    int64_t last = (p->g->batch - 1) * p->g->a_batch_stride +
                   (p->g->m / w->out[0] / w->out[1] / w->out[2] - 1) * w->image_stride + w->channels;
    for (int i = 0; i < 3; i++) last += (w->in[i] - 1) * w->step[i];
    p->image_end = (const char *)p->g->a + last * p->source_size;
}

/* Threads take tiles or panels, whichever shares them more evenly; tiles, if it is the same. Each unpacks its panels. */
static void choose_grid(plan *p) {
    const amp_gemm *g = p->g;
    const double work = (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
    p->threads = amp_parallel_threads(work < 1e18 ? (int64_t)work : (int64_t)1e18, AMP_GRAIN_MACS);
    const int64_t tiles = p->tiles * g->batch, panels = divide_up(p->panels, p->tile_panels);
    int64_t best = INT64_MAX;
    for (int n = 1; n <= p->threads; n++) {
        if (p->threads % n) continue;
        const int m = p->threads / n;
        const int64_t cost = (divide_up(tiles, m) + (p->unpack_b ? UNPACK_TILES : 0)) * divide_up(panels, n);
        if (cost >= best) continue;
        best = cost;
        p->grid_m = m;
        p->grid_n = n;
    }
}

static void choose_repeats(plan *p) {
    const int64_t of_c = p->g->c_dtype == AMP_F32 ? 4 : 2;
    p->far = p->g->m * p->g->n * of_c > NEAR_BYTES;
    p->by_rows = p->panels * p->panel_bytes <= ROWS_B_BYTES;
    p->most_repeats = REPEAT_BYTES / (p->rows * p->g->k * p->size);
    /* A line of C that two calls share is still in L1 for the second. */
    const int64_t shared = REPEAT_BYTES / (p->rows * p->g->n * of_c);
    if (!p->by_rows && p->panels > p->tile_panels && shared < p->most_repeats) p->most_repeats = shared;
}

static int64_t between(int64_t least, int64_t x, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

/* In lines, where windows share pixels; converted only if that is less work. Tiles in a row share such a copy. */
static void choose_copies(plan *p) {
    const amp_gemm_window *w = p->w;
    const int64_t column_bytes = w->taps[0] * w->taps[1] * w->channels * p->size; /* a pixel of each line */
    const int64_t reach = (w->taps[2] - 1) * w->dilation[2] + 1, step = p->rows * w->stride[2];
    const int64_t fit = p->convert ? (LINES_BYTES / column_bytes - reach + w->stride[2]) / step : 1;
    p->copy_tiles = between(1, fit, p->tiles_of_line);
    p->line_pixels = (p->copy_tiles * p->rows - 1) * w->stride[2] + reach;
    const bool less = !p->convert || p->line_pixels <= p->copy_tiles * p->rows * w->taps[2];
    p->copies = w->stride[2] < reach && less ? IN_LINES : IN_ROWS;
    if (p->copies == IN_ROWS) p->copy_tiles = p->dense ? between(1, p->most_repeats, p->tiles_of_line) : 1;
    const int64_t in_lines = column_bytes * p->line_pixels, in_rows = p->copy_tiles * p->rows * p->row_bytes[IN_ROWS];
    p->copy_bytes = round_up(p->copies == IN_LINES ? in_lines : in_rows, 64) + 64;
}

static void choose_chunk(plan *p) {
    const int64_t panels = divide_up(p->panels, p->grid_n), fit = GROUP_B_BYTES / p->panel_bytes;
    p->group = fit < p->tile_panels ? p->tile_panels : fit / p->tile_panels * p->tile_panels;
    p->chunk = p->group >= panels ? 1 : CHUNK_A_BYTES / p->copy_bytes;
    if (p->chunk < 1) p->chunk = 1;
}

static amp_status get_convert(amp_dtype from, amp_dtype to, amp_convert_function **convert) {
    *convert = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, from, to);
    return *convert ? AMP_OK : amp_last_status();
}

/* Whose tiles, over what of A and B. Widened, a product of two bf16 is exact in f32: the bits are those of the narrow
 * ISA's packed product. */
static amp_status choose_types(plan *p, const amp_gemm_isa *isa) {
    const amp_dtype a = p->g->a_dtype, rounded = isa->b_f32 ? AMP_F32 : AMP_BF16;
    p->isa = isa->wide ? isa->wide : isa;
    p->size = p->isa->b_f32 ? 4 : 2;
    p->source_size = a == AMP_F32 ? 4 : 2;
    if (isa->wide) p->unpack_b = isa->many->unpack_b;
    if (isa->wide) AMP_TRY(get_convert(AMP_BF16, AMP_F32, &p->convert));
    if (a != rounded) AMP_TRY(get_convert(AMP_F32, AMP_BF16, isa->wide ? &p->round : &p->convert));
    return AMP_OK;
}

static amp_status make_plan(plan *p, const amp_gemm_isa *isa) {
    const amp_gemm *g = p->g;
    const amp_gemm_window *w = p->w;
    AMP_TRY(choose_types(p, isa));
    p->tiles_of_line = divide_up(w->out[2], p->isa->max_rows);
    p->rows = (int)divide_up(w->out[2], p->tiles_of_line);
    p->tiles_of_line = divide_up(w->out[2], p->rows);
    p->tiles = g->m / w->out[2] * p->tiles_of_line;
    p->tile_panels = p->isa->max_panels[p->rows];
    p->panels = divide_up(g->n, AMP_GEMM_BLOCK);
    p->panel_bytes = divide_up(g->k, AMP_GEMM_BLOCK) * AMP_GEMM_BLOCK_VALUES * p->size;
    p->packed_panel_bytes = p->unpack_b ? p->panel_bytes / 2 : p->panel_bytes;
    choose_runs(p);
    choose_repeats(p);
    choose_copies(p);
    choose_grid(p);
    choose_chunk(p);
    return AMP_OK;
}

/* ---- Copies --------------------------------------------------------------------------------------------------- */

/* Where the first tap of a window would be in its image, in pixels. */
typedef struct origin {
    const char *image;
    int64_t at[3];
} origin;

static origin origin_of(const plan *p, const tile *t, int64_t column) {
    const amp_gemm_window *w = p->w;
    int64_t h = t->line, d = 0, image = 0;
    if (h >= w->out[1]) {
        d = h / w->out[1];
        h %= w->out[1];
        image = d / w->out[0];
        d %= w->out[0];
    }
    return (origin){
        .image = (const char *)p->g->a + (t->item * p->g->a_batch_stride + image * w->image_stride) * p->source_size,
        .at = {d * w->stride[0] - w->pad[0], h * w->stride[1] - w->pad[1], column * w->stride[2] - w->pad[2]},
    };
}

static void convert_values(const plan *p, char *to, const char *from, int64_t values) {
    uint16_t rounded[ROUNDED];
    if (!p->round) {
        p->convert(to, from, values);
        return;
    }
    for (int64_t i = 0, some; i < values; i += some) {
        some = values - i < ROUNDED ? values - i : ROUNDED;
        p->round(rounded, from + i * p->source_size, some);
        p->convert(to + i * p->size, rounded, some);
    }
}

/* Values that lie together. A little more than asked for may be written: room is left, and what follows comes after. */
static void put(const plan *p, char *to, const char *from, int64_t values) {
    if (p->convert) {
        convert_values(p, to, from, values);
        return;
    }
    int64_t bytes = values * p->size;
    if (bytes > 4 * SMALL_BYTES || from + round_up(bytes, SMALL_BYTES) > p->image_end) {
        memcpy(to, from, (size_t)bytes);
        return;
    }
    for (; bytes > 0; bytes -= SMALL_BYTES, to += SMALL_BYTES, from += SMALL_BYTES) memcpy(to, from, SMALL_BYTES);
}

/* `pixels` of line (d, h) from x on, `distance` apart, zeros for those outside; returns the end. */
static char *put_pixels(const plan *p, char *to, const origin *o, int64_t d, int64_t h, int64_t x, int64_t pixels,
                        int64_t distance) {
    const amp_gemm_window *w = p->w;
    const int64_t bytes = w->channels * p->size;
    char *const end = to + pixels * bytes;
    const char *line = o->image + (d * w->step[0] + h * w->step[1]) * p->source_size;
    int64_t first = x < 0 ? divide_up(-x, distance) : 0,
            last = w->in[2] - x > 0 ? divide_up(w->in[2] - x, distance) : 0;
    if (last > pixels) last = pixels;
    if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1] || first >= last) {
        memset(to, 0, (size_t)(pixels * bytes));
        return end;
    }
    if (first > 0) memset(to, 0, (size_t)(first * bytes));
    if (distance == 1 && w->step[2] == w->channels) {
        put(p, to + first * bytes, line + (x + first) * w->step[2] * p->source_size, (last - first) * w->channels);
    } else {
        for (int64_t i = first; i < last; i++)
            put(p, to + i * bytes, line + (x + i * distance) * w->step[2] * p->source_size, w->channels);
    }
    if (last < pixels) memset(to + last * bytes, 0, (size_t)((pixels - last) * bytes));
    return end;
}

static void copy_lines(const plan *p, const tile *t, char *to) {
    const amp_gemm_window *w = p->w;
    const origin o = origin_of(p, t, t->first);
    const int64_t pixels = (t->repeat * t->rows - 1) * w->stride[2] + (w->taps[2] - 1) * w->dilation[2] + 1;
    for (int64_t i = 0; i < w->taps[0] * w->taps[1]; i++) {
        const int64_t d = o.at[0] + i / w->taps[1] * w->dilation[0], h = o.at[1] + i % w->taps[1] * w->dilation[1];
        if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1]) continue; /* left out of the runs */
        (void)put_pixels(p, to + i * p->line_pixels * w->channels * p->size, &o, d, h, o.at[2], pixels, 1);
    }
}

/* The windows of a tile, run by run. */
static void copy_rows(const plan *p, const tile *t, char *to) {
    const amp_gemm_window *w = p->w;
    const int64_t per_line = w->taps[2] / w->run_taps, padding = w->run_padding * p->size;
    origin o = origin_of(p, t, t->first);
    for (int r = 0; r < t->rows; r++, to += p->row_bytes[IN_ROWS], o.at[2] += w->stride[2]) {
        char *at = to;
        for (int64_t i = 0; i < p->runs; i++) {
            const int64_t line = i / per_line, x = o.at[2] + i % per_line * w->dilation[2];
            const int64_t d = o.at[0] + line / w->taps[1] * w->dilation[0];
            const int64_t h = o.at[1] + line % w->taps[1] * w->dilation[1];
            at = put_pixels(p, at, &o, d, h, x, w->run_taps, w->dilation[2]);
            memset(at, 0, (size_t)padding);
            at += padding;
        }
    }
}

static bool is_readable(const plan *p, const tile *t) {
    const amp_gemm_window *w = p->w;
    const int64_t x = t->first * w->stride[2] - w->pad[2];
    const int64_t last = x + (t->rows - 1) * w->stride[2] + (w->taps[2] - 1) * w->dilation[2];
    /* A half step reads a value more. */
    return p->readable && x >= 0 && last + (w->run_padding > 0) < w->in[2];
}

/* Whole tiles of this line that follow, can be read like this one, and are below `end`: no more than one call, or one
 * copy, can take. */
static int64_t count_repeats(const plan *p, const tile *t, int64_t index, int64_t end) {
    const int64_t most = t->place == IN_IMAGE ? p->most_repeats : p->copy_tiles;
    tile next = *t;
    int64_t n = 1;
    for (; n < most && index + n < end; n++) {
        next.first += p->rows;
        if (next.first + p->rows > p->w->out[2] || (t->place == IN_IMAGE && !is_readable(p, &next))) break;
    }
    return n;
}

static void copy_dense(const plan *p, const tile *t, char *to) {
    const origin o = origin_of(p, t, t->first);
    const int64_t first = o.at[0] * p->w->step[0] + o.at[1] * p->w->step[1] + o.at[2] * p->w->step[2];
    convert_values(p, to, o.image + first * p->source_size, t->repeat * t->rows * p->w->channels);
}

/* Returns how many tiles it stands for, all below `end`; `scratch` has room for a copy. */
static int64_t prepare_tile(const plan *p, int64_t index, int64_t end, char *scratch, tile *t) {
    const amp_gemm_window *w = p->w;
    *t = (tile){.first = index * p->rows, .repeat = 1, .a = scratch};
    if (p->tiles_of_line != p->tiles || p->g->batch > 1) {
        t->item = index / p->tiles;
        t->line = index % p->tiles / p->tiles_of_line;
        t->first = index % p->tiles % p->tiles_of_line * p->rows;
    }
    const int64_t left = w->out[2] - t->first;
    t->rows = left < p->rows ? (int)left : p->rows;
    t->place = is_readable(p, t) ? IN_IMAGE : p->copies;
    const origin o = origin_of(p, t, t->first);
    t->at[0] = o.at[0];
    t->at[1] = o.at[1];
    if (t->rows == p->rows) t->repeat = count_repeats(p, t, index, end);
    if (p->dense)
        copy_dense(p, t, scratch);
    else if (t->place == IN_ROWS)
        copy_rows(p, t, scratch);
    else if (t->place == IN_LINES)
        copy_lines(p, t, scratch);
    else
        t->a = o.image + (o.at[0] * w->step[0] + o.at[1] * w->step[1] + o.at[2] * w->step[2]) * p->size;
    return t->repeat;
}

/* ---- Products ------------------------------------------------------------------------------------------------- */

/* The runs of a tile. Lines above and below the image are left out, but for copied windows, where they are zeros. */
static int64_t list_runs(const plan *p, const tile *t, amp_gemm_stretch *runs) {
    const amp_gemm_window *w = p->w;
    const int64_t b_run = amp_gemm_window_run(w) * p->size / STEP * B_STEP;
    int64_t count = 0, i = 0;
    if (t->place == IN_ROWS) {
        runs[0] = (amp_gemm_stretch){0, 0};
        return 1;
    }
    for (int64_t td = 0, d = t->at[0]; td < w->taps[0]; td++, d += w->dilation[0]) {
        for (int64_t th = 0, h = t->at[1]; th < w->taps[1]; th++, h += w->dilation[1]) {
            const bool outside = d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1];
            const int64_t copied = (td * w->taps[1] + th) * p->line_pixels * w->channels;
            const int64_t lying = td * w->dilation[0] * w->step[0] + th * w->dilation[1] * w->step[1];
            for (int64_t tw = 0; tw < w->taps[2]; tw += w->run_taps, i++) {
                const int64_t x = tw * w->dilation[2];
                if (outside) continue;
                if (t->place == IN_LINES)
                    runs[count++] = (amp_gemm_stretch){(copied + x * w->channels) * p->size, i * b_run};
                else
                    runs[count++] = (amp_gemm_stretch){(lying + x * w->step[2]) * p->size, i * b_run};
            }
        }
    }
    return count;
}

static const void *element(const void *base, amp_dtype dtype, int64_t i) {
    return (const char *)base + i * (dtype == AMP_F32 ? 4 : 2);
}

/* What the tiles after this one read for the first time: the same distance behind it as this one reads. */
static const char *after(const plan *p, const tile *t, int64_t row_bytes) {
    const char *next = t->a + t->repeat * t->rows * row_bytes;
    return t->place == IN_IMAGE && next < p->image_end ? next : t->a;
}

/* Scale, residual and activation of a tile whose first column is `column`. */
static amp_gemm_finish epilogue_of(const amp_gemm *g, const tile *t, int64_t column) {
    amp_gemm_finish f = amp_gemm_finish_of(g, t->item);
    const int64_t place = t->line * g->residual_line_stride + t->first * g->residual_row_stride;
    if (f.residual) f.residual = element(f.residual, f.residual_dtype, place + column * g->residual_column_stride);
    if (f.scale) f.scale += column;
    return f;
}

amp_gemm_finish amp_gemm_direct_finish(const amp_gemm_direct *t, int64_t column, char *c) {
    amp_gemm_finish f = {.alpha = 1.0f};
    if (t->epilogue) f = *t->epilogue;
    if (f.residual) {
        const int64_t size = t->c_dtype == AMP_F32 ? 4 : 2;
        const int64_t row = t->repeat == 1 ? 0 : ((c - (char *)t->c) / size - column) / t->c_row_stride;
        const int64_t at = row * f.residual_row_stride + column * f.residual_column_stride;
        f.residual = element(f.residual, f.residual_dtype, at);
    }
    if (f.scale) f.scale += column;
    f.c = c;
    f.c_dtype = t->c_dtype;
    f.c_row_stride = t->c_row_stride;
    f.bias = t->bias ? element(t->bias, t->bias_dtype, column) : NULL;
    f.bias_dtype = t->bias_dtype;
    return f;
}

/* `b`: the first of these panels. */
static void run_tile(const plan *p, const tile *t, const char *b, int64_t first_panel, int64_t last_panel,
                     amp_gemm_stretch *runs) {
    const amp_gemm *g = p->g;
    const amp_gemm_window *w = p->w;
    const int64_t place = t->line * g->c_line_stride + t->first * g->c_row_stride;
    amp_gemm_direct d = {
        .a = t->a,
        .row_bytes = p->row_bytes[t->place],
        .runs = runs,
        .run_count = list_runs(p, t, runs),
        .steps = divide_up(t->place == IN_ROWS ? g->k * p->size : p->run_bytes, STEP),
        .half_step = t->place != IN_ROWS && p->size == 2 && w->run_padding > 0,
        .b_panel_bytes = p->panel_bytes,
        .rows = t->rows,
        .repeat = t->repeat,
        .c_dtype = g->c_dtype,
        .c_row_stride = g->c_row_stride,
        .bias_dtype = g->bias_dtype,
        .far = p->far,
        .fetch_b = p->tile_panels * p->panel_bytes > FETCH_B_BYTES,
    };
    amp_gemm_finish epilogue;
    d.next = after(p, t, d.row_bytes);
    for (int64_t n = first_panel; n < last_panel; n += d.panels * d.groups) {
        const int64_t column = n * AMP_GEMM_BLOCK, panels = last_panel - n, columns = g->n - column;
        d.panels = (int)(panels < p->tile_panels ? panels : p->tile_panels);
        const int64_t wide = d.panels * AMP_GEMM_BLOCK, whole = columns / wide;
        d.columns = (int)(columns < wide ? columns : wide);
        d.groups = !p->by_rows || whole < 1 ? 1 : whole < panels / d.panels ? whole : panels / d.panels;
        d.b = b + (n - first_panel) * p->panel_bytes;
        d.c = (void *)element(g->c, g->c_dtype, t->item * g->c_batch_stride + place + column);
        if (p->fused) {
            epilogue = epilogue_of(g, t, column);
            d.epilogue = &epilogue;
        }
        if (g->bias) d.bias = element(g->bias, g->bias_dtype, t->item * g->bias_batch_stride + column);
        p->isa->direct(&d);
        if (p->relu)
            p->isa->relu(d.c, d.c_dtype, d.repeat * d.rows, d.groups > 1 ? d.groups * wide : d.columns, d.c_row_stride);
        if (d.next != t->a && d.next < p->image_end) d.next += d.repeat * d.groups * d.run_count * (d.steps / 4) * 128;
        if (d.next >= p->image_end) d.next = t->a;
    }
}

static size_t scratch_copies(const plan *p) {
    return (size_t)(p->chunk * p->copy_bytes);
}
static size_t scratch_panels(const plan *p) {
    const int64_t most = divide_up(p->panels, p->tile_panels) * p->tile_panels;
    return p->unpack_b ? (size_t)((p->group < most ? p->group : most) * p->panel_bytes) : 0;
}
static size_t scratch_tiles(const plan *p) {
    return (size_t)p->chunk * sizeof(tile);
}

/* Panels of B in the product's type; `room` has those that lie at `of`, which are always as many. */
typedef struct unpacked {
    char *room;
    const char *of;
} unpacked;

static const char *obtain_panels(const plan *p, unpacked *u, int64_t item, int64_t begin, int64_t end) {
    const char *b = (const char *)p->g->b + item * p->g->b_batch_stride + begin * p->packed_panel_bytes;
    if (!p->unpack_b) return b;
    if (u->of != b) p->unpack_b(b, (float *)(void *)u->room, (end - begin) * divide_up(p->g->k, AMP_GEMM_BLOCK));
    u->of = b;
    return u->room;
}

/* The next tiles before `end`, of one matrix: those of a chunk. */
static int64_t prepare_chunk(const plan *p, int64_t *next, int64_t end, char *copies, tile *tiles) {
    const int64_t of_item = (*next / p->tiles + 1) * p->tiles;
    int64_t count = 0;
    if (end > of_item) end = of_item;
    for (; count < p->chunk && *next < end; count++)
        *next += prepare_tile(p, *next, end, copies + count * p->copy_bytes, &tiles[count]);
    return count;
}

/* Part `part` of the grid. Scratch holds the copies of a chunk, panels of B, the chunk's tiles, and the runs of one. */
static void run_part(const plan *p, int part, char *scratch) {
    char *const copies = scratch;
    unpacked b = {.room = copies + scratch_copies(p)};
    tile *const tiles = (tile *)(b.room + scratch_panels(p));
    amp_gemm_stretch *const runs = (amp_gemm_stretch *)((char *)tiles + scratch_tiles(p));
    const amp_range mine = amp_parallel_part(p->tiles * p->g->batch, 1, part / p->grid_n, p->grid_m);
    const amp_range panels = amp_parallel_part(p->panels, p->tile_panels, part % p->grid_n, p->grid_n);
    for (int64_t next = mine.begin; next < mine.end;) {
        const int64_t count = prepare_chunk(p, &next, mine.end, copies, tiles);
        for (int64_t n = panels.begin; n < panels.end; n += p->group) {
            const int64_t end = n + p->group < panels.end ? n + p->group : panels.end;
            const char *of_group = obtain_panels(p, &b, tiles[0].item, n, end);
            for (int64_t i = 0; i < count; i++) run_tile(p, &tiles[i], of_group, n, end, runs);
        }
    }
}

amp_status amp_gemm_run_direct(const amp_gemm *g, const amp_gemm_isa *isa) {
    plan p = {.g = g, .w = g->window};
    p.fused = amp_gemm_is_fused(g);
    p.relu = !p.fused && g->activation == AMP_GEMM_RELU;
    AMP_TRY(make_plan(&p, isa));
    const size_t lists = scratch_tiles(&p) + (size_t)p.runs * sizeof(amp_gemm_stretch);
    p.scratch_bytes = (scratch_copies(&p) + scratch_panels(&p) + lists + 63) / 64 * 64;
    char *scratch = amp_alloc((size_t)p.threads * p.scratch_bytes);
    if (!scratch) return amp_fail(AMP_ERROR_MEMORY, "gemm: no memory for %zu bytes of scratch", p.scratch_bytes);
    if (p.threads == 1) { /* a region of one thread costs what a small product does */
        run_part(&p, 0, scratch);
    } else {
#pragma omp parallel for schedule(static) num_threads(p.threads)
        for (int part = 0; part < p.threads; part++) run_part(&p, part, scratch + (size_t)part * p.scratch_bytes);
    }
    amp_free(scratch);
    return AMP_OK;
}
