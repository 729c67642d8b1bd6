/* The GEMM driver: plans a product, shares it among threads, and feeds an ISA's tiles. */
#include "cpu/registry/gemm.h"

#include <omp.h>
#include <string.h>

#include "core/fail.h"
#include "core/hot.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "core/thread.h"
#include "cpu/gemm/gemm_isa.h"
#include "cpu/gemm/gemm_raster.h"
#include "cpu/registry/kernels.h"

enum {
    SMALL_A_BYTES = 32 * 1024,  /* so much of packed A goes on the stack, and each thread packs its own */
    CHUNK_A_BYTES = 384 * 1024, /* packed A of one thread group: stays in L2 while B streams past */
    LONG_A_BYTES = 6 << 20, /* a chunk of more comes from L3 again and again: K is passed over in short slices … */
    LONG_GROUP = 16,        /* … each of which meets so many panels of B, */
    LONG_BLOCKS = 8,        /* … and is of so many blocks: 256 of K */
    FAR_B_BYTES = 1 << 20, /* of a B that leaves L2 no more than so many panels are read at a time: of more streams … */
    FAR_PANELS = 4,        /* … each is slower */
    STREAM_BYTES = 2 << 20,     /* C of more, in f32, leaves L2 before it is read */
    BARRIER_COST = 5000,        /* in multiply-add vectors of FMA, as the next two */
    STREAM_COST = 6,            /* bringing a row of a B panel into L1 costs as much as so many rows' products */
    PACK_COST_SHIFT = 3,        /* packing an element of A costs 1/8 of a product vector */
    GROUP_B_BYTES = 384 * 1024, /* of B in L2: beside a raster, of the slices that one of A meets in a row */
    RASTER_BYTES = 1 << 20,     /* of a raster at most: half of L2, beside B and C */
    LINE_CYCLES = 4,            /* AMX, estimated, not measured: packing 64 bytes takes so long … */
    BLOCK_CYCLES = 64,          /* … and 32 rows' products with a block of B so long: four tdpbf16ps of 16 */
    IN_PLACE_PANELS =
        32, /* of B at most, where A is not packed: packing a block, 128 cycles, is then 6 % of its products */
    TILES_MIN_ROWS = 5,             /* AMX: below, a tile is mostly empty, and B's stream is the limit anyway … */
    TILES_MIN_PRODUCTS = 32 * 1024, /* … and configuring tiles takes longer than the products */
};

/* A product on a thread grid: grid_m groups share the rows of C, the grid_n threads of a group its columns. */
typedef struct plan {
    const amp_gemm *g;
    const amp_gemm_isa *isa;
    int64_t k_blocks, b_panels;
    int panel_rows;       /* rows of a row panel: as even as the tile allows */
    int64_t row_panels;   /* ⌈m / panel_rows⌉ */
    int tile_panels;      /* B panels per tile */
    int64_t pass_blocks;  /* K blocks per pass over a chunk of A */
    int64_t group;        /* B panels that a slice of A meets while it is in L1 */
    int64_t chunk;        /* row panels of a group that are packed at a time */
    size_t a_panel_bytes; /* of one packed row panel */
    int threads, grid_m, grid_n;
    bool by_batch;   /* threads take whole matrices: the grid is 1×1 */
    bool small;      /* packed A of a chunk is on the stack */
    bool stores;     /* tiles are finished from the registers */
    bool relu;       /* … and that of what they stored */
    char *a_scratch; /* [grid_m or threads][chunk] packed row panels, if !small */
    float *scratch;  /* of each thread [chunk] tiles, if K takes several passes, and … */
    size_t a_group_bytes, c_thread_values;
    size_t b_thread_values; /* … [group] slices of panels of B, if the ISA unpacks them */
    /* Of tiles alone. */
    int64_t most_blocks;     /* K blocks of a pass at most, from a raster */
    amp_gemm_raster *raster; /* NULL, or what A is copied to instead of packed row panels */
    int64_t *a_offsets;      /* of its blocks … */
    int64_t a_row_bytes;     /* … and rows */
    bool in_place;           /* tiles take A as it lies */
    bool lies;               /* in_place, or there is a raster: nothing is packed */
    bool stream_b;           /* a row panel's slice, and those of B that it meets, are more than L1 holds */
    bool far_b;              /* a single row panel meets more of B than L2 keeps */
} plan;

/* a ≥ 0, b > 0. Of a small product the divisions would take longer than the products. */
static int64_t divide_up(int64_t a, int64_t b) {
    return a <= b ? a > 0 : a / b + (a % b != 0);
}

/* ---- Plan ----------------------------------------------------------------------------------------------------- */

/* What a chunk has of a row panel, without the gaps between panels. */
static int64_t panel_values(const plan *p) {
    const amp_gemm_raster *r = p->raster;
    return p->panel_rows * (r ? r->pixel_bytes / 2 * r->phases[0] * r->phases[1] : p->k_blocks * AMP_GEMM_BLOCK);
}

/* Row panels of a chunk where L2 is large: all K of a chunk stays there, or slices of it and of B do; a raster is small
 * enough. */
static __attribute__((noinline)) int64_t chunk_in_l2(const plan *p, int64_t panels) {
    const amp_gemm_isa *isa = p->isa;
    const int64_t most = divide_up(isa->chunk_rows, p->panel_rows);
    const int64_t least = p->raster ? most : divide_up(isa->near_rows, p->panel_rows);
    const bool streams = p->b_panels * p->k_blocks > GROUP_B_BYTES / (AMP_GEMM_BLOCK_VALUES * 2); /* B leaves L2 */
    const size_t bytes = streams && !p->raster ? (size_t)isa->near_chunk_bytes : CHUNK_A_BYTES;
    const int64_t of_panel = panel_values(p) * (int64_t)sizeof(uint16_t);
    int64_t chunk = of_panel ? (int64_t)bytes / of_panel : panels;
    if (chunk < least || (p->raster && p->k_blocks > p->most_blocks)) chunk = most;
    if (chunk > panels) chunk = panels;
    return divide_up(panels, divide_up(panels, chunk));
}

/* Row panels that a group packs at a time. */
AMP_HOT static int64_t chunk_of(const plan *p, int grid_m) {
    const int64_t panels = divide_up(p->row_panels, grid_m);
    if (panels <= 1) return panels;
    if (__builtin_expect(p->isa->near_rows > 0, 0)) return chunk_in_l2(p, panels);
    const int64_t least = divide_up(p->isa->chunk_rows, p->panel_rows);
    int64_t chunk = p->a_panel_bytes ? (int64_t)(CHUNK_A_BYTES / p->a_panel_bytes) : panels;
    if (chunk < least) chunk = least;
    if (chunk > panels) chunk = panels;
    return divide_up(panels, divide_up(panels, chunk));
}

/* Estimated time of a grid, in vectors of products. */
static int64_t grid_cost(const plan *p, int grid_m, int grid_n) {
    const int64_t rows = divide_up(p->row_panels, grid_m) * p->panel_rows;
    const int64_t columns = divide_up(divide_up(p->b_panels, p->tile_panels), grid_n) * p->tile_panels;
    const int64_t k = p->k_blocks * AMP_GEMM_BLOCK;
    const bool share = grid_n > 1 && !p->small;
    const int rate = p->isa->rate_shift;
    const int64_t pack = (rows * k >> PACK_COST_SHIFT) << rate;
    const int64_t chunks = divide_up(divide_up(p->row_panels, grid_m), chunk_of(p, grid_m));
    const int64_t products = columns * k * (rows + ((int64_t)STREAM_COST << rate));
    if (!share) return products + pack;
    /* On a busy machine a barrier waits for whoever was descheduled: the gain must be worth that. */
    return products + products / 32 + pack / grid_n + (2 * BARRIER_COST * chunks << rate);
}

static void choose_grid(plan *p) {
    p->grid_m = 1;
    p->grid_n = p->threads;
    int64_t best = grid_cost(p, 1, p->threads);
    for (int m = 2; m <= p->threads; m++) {
        if (p->threads % m) continue;
        const int64_t cost = grid_cost(p, m, p->threads / m);
        if (cost < best) {
            best = cost;
            p->grid_m = m;
            p->grid_n = p->threads / m;
        }
    }
}

static void spread_panels(plan *p) {
    const int64_t blocks = p->k_blocks < p->isa->pass_blocks ? p->k_blocks : p->isa->pass_blocks;
    if (p->row_panels == 1 || (int64_t)p->a_panel_bytes % p->isa->alias_bytes != 0) return;
    p->a_panel_bytes += (size_t)(blocks * p->panel_rows * AMP_GEMM_BLOCK) * sizeof(uint16_t);
}

static void choose_tiles(plan *p) {
    const amp_gemm *g = p->g;
    p->stores = p->isa->stores && !amp_gemm_is_fused(g) && !g->window && (g->c_dtype == AMP_F32 || !p->isa->b_f32) &&
                (g->activation != AMP_GEMM_RELU || p->isa->relu);
    p->relu = p->stores && g->activation == AMP_GEMM_RELU;
    p->k_blocks = divide_up(g->k, AMP_GEMM_BLOCK);
    p->b_panels = divide_up(g->n, AMP_GEMM_BLOCK);
    p->row_panels = divide_up(g->m, p->isa->max_rows);
    p->panel_rows = (int)divide_up(g->m, p->row_panels);
    p->row_panels = divide_up(g->m, p->panel_rows);
    p->tile_panels = p->panel_rows <= 16 ? p->isa->max_panels[p->panel_rows] : 1;
    const int64_t b_bytes = p->b_panels * p->k_blocks * AMP_GEMM_BLOCK_VALUES * (p->isa->b_f32 ? 4 : 2);
    if (p->tile_panels > FAR_PANELS && b_bytes > FAR_B_BYTES) p->tile_panels = FAR_PANELS;
    p->a_panel_bytes = (size_t)(p->panel_rows * p->k_blocks * AMP_GEMM_BLOCK) * (p->isa->a_f32 ? 4 : 2);
    p->small = (size_t)p->row_panels * p->a_panel_bytes <= SMALL_A_BYTES;
}

/* A raster instead of packed rows, where copying pixels, and rows that nobody reads, cost less than packing each pixel
 * for every tap. A pass over K may be longer by what taps share: the pixels of 32 rows are in L1 once. */
static void choose_raster(plan *p, amp_gemm_raster *r) {
    if (!amp_gemm_raster_suits(r, p->g, p->isa->max_rows) || r->panel_rows <= 16) return;
    plan q = *p;
    const int64_t phases = r->phases[0] * r->phases[1];
    q.raster = r;
    q.lies = true;
    q.panel_rows = r->panel_rows;
    q.row_panels = r->images * r->image_panels;
    q.tile_panels = 1;
    q.a_panel_bytes = (size_t)(r->panel_rows * r->pixel_bytes * phases);
    q.most_blocks = p->isa->pass_blocks * (r->w->taps[2] / r->phases[1]);
    const int64_t chunk = chunk_of(&q, 1), chunks = divide_up(q.row_panels, chunk);
    const double of_block = LINE_CYCLES * 32 + BLOCK_CYCLES * (double)p->b_panels;
    const double packing = (double)p->row_panels * (double)p->k_blocks * of_block;
    const double pixels = (double)(amp_gemm_raster_lines(r, chunk) * r->line_rows * phases) * (double)chunks;
    const int64_t blocks = r->w->channels / AMP_GEMM_BLOCK;
    const double copying = pixels * (double)blocks * LINE_CYCLES;
    const double products = (double)q.row_panels * (double)p->k_blocks * BLOCK_CYCLES * (double)p->b_panels;
    const size_t bytes = amp_gemm_raster_size(r, chunk);
    if (copying + products >= packing || bytes > RASTER_BYTES) return;
    q.small = chunk == q.row_panels && bytes <= SMALL_A_BYTES;
    *p = q;
}

/* Whether rows of A are the operand's own, at one distance: of a matrix, or of a window of one pixel. */
static bool has_even_rows(const amp_gemm *g) {
    const amp_gemm_window *w = g->window;
    if (!w) return g->a_column_stride == 1;
    return w->out[0] * w->out[1] == 1 && w->in[2] == w->out[2] && w->taps[0] * w->taps[1] * w->taps[2] == 1 &&
           w->stride[2] == 1 && w->pad[0] == 0 && w->pad[1] == 0 && w->pad[2] == 0;
}

/* Tiles take bf16 as it lies where its rows are whole lines of cache and do not meet in few sets of it; packing them is
 * worth its while again where many panels of B meet them (packed, a slice of A is 32 KB in a row). */
static void choose_in_place(plan *p) {
    const amp_gemm *g = p->g;
    const int64_t row = (g->window ? g->window->step[2] : g->a_row_stride) * (int64_t)sizeof(uint16_t);
    const int64_t item = g->a_batch_stride * (int64_t)sizeof(uint16_t);
    if (g->a_dtype != AMP_BF16 || p->panel_rows <= 16 || g->k == 0 || g->k % AMP_GEMM_BLOCK != 0 ||
        p->b_panels > IN_PLACE_PANELS || !has_even_rows(g))
        return;
    if (row <= 0 || (row | item | (int64_t)(uintptr_t)g->a) % 64 != 0 || row % AMP_GEMM_ALIAS_BYTES == 0) return;
    p->in_place = p->lies = true;
    p->small = true; /* nothing to share */
    p->a_row_bytes = row;
}

/* Where tiles get A from. */
static __attribute__((noinline)) void choose_place(plan *p, amp_gemm_raster *r) {
    spread_panels(p);
    if (p->g->window) choose_raster(p, r);
    if (!p->lies) choose_in_place(p);
}

static int64_t grain_of(const plan *p) {
    const amp_gemm_isa *isa = p->isa;
    if (isa->row_grain == 0) return AMP_GRAIN_MACS;
    return p->g->m < isa->most_grain / isa->row_grain ? p->g->m * isa->row_grain : isa->most_grain;
}

static void choose_threads(plan *p) {
    const amp_gemm *g = p->g;
    const double work = (double)g->n * (double)g->k * (double)g->batch * (double)g->m;
    p->threads = amp_parallel_threads(work < 1e18 ? (int64_t)work : (int64_t)1e18, grain_of(p));
    p->by_batch = p->threads > 1 && g->batch > 1 && (g->batch % p->threads == 0 || g->batch >= 4 * p->threads);
    p->grid_m = p->grid_n = 1;
    if (p->threads > 1 && !p->by_batch) choose_grid(p);
}

/* The raster of a chunk; and of B so much at a time that all is in L2. */
static void use_raster(plan *p) {
    const int64_t passes = p->chunk == 1 ? 1 : divide_up(p->k_blocks, p->most_blocks);
    p->pass_blocks = divide_up(p->k_blocks, passes);
    const int64_t slice = p->pass_blocks * AMP_GEMM_BLOCK_VALUES * (int64_t)sizeof(uint16_t);
    const int64_t fit = slice > 0 ? GROUP_B_BYTES / slice : 1;
    p->a_group_bytes = amp_gemm_raster_size(p->raster, p->chunk);
    if (p->group > fit) p->group = fit < 1 ? 1 : fit;
}

/* Of A and B that meet in a pass. */
static int64_t slice_bytes(const plan *p) {
    const int64_t panels = p->b_panels < p->group ? p->b_panels : p->group;
    return (p->panel_rows + panels * AMP_GEMM_BLOCK) * p->pass_blocks * AMP_GEMM_BLOCK * (int64_t)sizeof(uint16_t);
}

static void choose_loads(plan *p) {
    const int64_t b_bytes = p->b_panels * p->k_blocks * AMP_GEMM_BLOCK_VALUES * (int64_t)sizeof(uint16_t);
    p->stream_b = slice_bytes(p) > p->isa->near_bytes;
    p->far_b = p->row_panels == 1 && b_bytes > FAR_B_BYTES;
}

/* Where A stays in L2, no more of B than leaves it there. Nine panels are five and four, not eight and one that all of
 * A is brought in for. */
static void even_groups(plan *p) {
    const int64_t a_bytes = p->chunk * panel_values(p) * 2, sums = p->chunk * p->panel_rows * AMP_GEMM_BLOCK * 4;
    const int64_t of_panel = p->k_blocks * AMP_GEMM_BLOCK_VALUES * 2 + (p->pass_blocks < p->k_blocks ? sums : 0);
    const int64_t fit = (p->isa->near_l2_bytes - a_bytes) / (of_panel > 0 ? of_panel : 1);
    if (!p->raster && a_bytes <= p->isa->near_chunk_bytes && p->group > fit) p->group = fit < 1 ? 1 : fit;
    const int64_t panels = divide_up(p->b_panels, p->grid_n), groups = divide_up(panels, p->group);
    p->group = divide_up(divide_up(panels, groups), p->tile_panels) * p->tile_panels;
}

static __attribute__((noinline)) void choose_groups(plan *p) {
    if (p->raster) use_raster(p);
    even_groups(p);
    choose_loads(p);
}

/* C is in scratch where K takes several passes. A single row panel streams B once anyway: one pass. */
AMP_HOT static void choose_chunks(plan *p) {
    p->chunk = chunk_of(p, p->grid_m);
    const bool long_k = (size_t)p->chunk * p->a_panel_bytes > LONG_A_BYTES && p->isa->group_panels == 1;
    const int64_t blocks = long_k ? LONG_BLOCKS : p->isa->pass_blocks;
    const int64_t passes = p->chunk == 1 || p->k_blocks == 0 ? 1 : divide_up(p->k_blocks, blocks);
    p->pass_blocks = divide_up(p->k_blocks, passes);
    p->group = divide_up(long_k ? LONG_GROUP : p->isa->group_panels, p->tile_panels) * p->tile_panels;
    p->a_group_bytes = (size_t)p->chunk * p->a_panel_bytes;
    if (__builtin_expect(p->isa->copy_pixels != NULL, 0)) choose_groups(p);
    if (p->small) p->a_group_bytes = 0;
    p->c_thread_values =
        p->pass_blocks == p->k_blocks ? 0 : (size_t)(p->chunk * p->panel_rows * p->group * AMP_GEMM_BLOCK);
    p->b_thread_values = p->isa->unpack_b ? (size_t)(p->group * p->pass_blocks * AMP_GEMM_BLOCK_VALUES) : 0;
}

/* ---- One thread's part ---------------------------------------------------------------------------------------- */

typedef struct range {
    int64_t begin, end;
} range;

/* A tile that has been stored and is to be finished after the next one. */
typedef struct waiting {
    const float *tile; /* NULL: none */
    int64_t panel;
    amp_gemm_place place;
    int turn; /* of two places for tiles */
} waiting;

/* A chunk of row panels on its way through one thread: of matrix `item`, panels `rows`, B panels `columns`. */
typedef struct part {
    const plan *p;
    int64_t item;
    range rows, columns;
    char *a;       /* packed row panels, the first is rows.begin */
    float *c;      /* tiles of the chunk, if there are several passes */
    float *c_tile; /* room for one tile, or two */
    float *b;      /* slices of a group's panels, if the ISA unpacks them */
    waiting *late; /* NULL, or of a kernel that finishes late */
    amp_gemm_finish finish;
} part;

static size_t type_size(amp_dtype dtype) {
    return dtype == AMP_F32 ? 4 : 2;
}

static const void *at(const void *base, amp_dtype dtype, int64_t offset) {
    return (const char *)base + offset * (int64_t)type_size(dtype);
}

static int rows_of(const plan *p, int64_t panel) {
    const int64_t left = p->g->m - panel * p->panel_rows;
    return left < p->panel_rows ? (int)left : p->panel_rows;
}

/* Packs K blocks [blocks.begin, blocks.end) of the chunk's row panels. */
static void pack_panels(const part *t, range blocks) {
    const plan *p = t->p;
    const amp_gemm *g = p->g;
    for (int64_t panel = t->rows.begin; panel < t->rows.end; panel++) {
        const int64_t row = panel * p->panel_rows;
        const amp_gemm_pack_a job = {
            .src = at(g->a, g->a_dtype, t->item * g->a_batch_stride + (g->window ? 0 : row * g->a_row_stride)),
            .dtype = g->a_dtype,
            .row_stride = g->a_row_stride,
            .column_stride = g->a_column_stride,
            .k = g->k,
            .block = blocks.begin,
            .blocks = blocks.end - blocks.begin,
            .rows = rows_of(p, panel),
            .panel_rows = p->panel_rows,
            .window = g->window,
            .row = row,
        };
        p->isa->pack_a(&job, t->a + (size_t)(panel - t->rows.begin) * p->a_panel_bytes);
    }
}

/* Of a transposed matrix all panels' rows of one K block lie together, and lines of cache are read once. */
static void pack_chunk(const part *t, range blocks) {
    const amp_gemm *g = t->p->g;
    const int64_t step = g->a_column_stride == 1 || g->window ? blocks.end - blocks.begin : 1;
    for (int64_t i = blocks.begin; i < blocks.end; i += step) pack_panels(t, (range){i, i + step});
}

/* What is not packed is copied as a raster, or taken as it lies. */
static __attribute__((noinline)) void prepare_lying(const part *t, int member, int members) {
    const plan *p = t->p;
    const amp_gemm *g = p->g;
    if (p->in_place) return;
    amp_gemm_raster_copy(p->raster, p->isa->copy_pixels, at(g->a, g->a_dtype, t->item * g->a_batch_stride),
                         t->rows.begin, t->rows.end, member, members, t->a);
}

/* Where output lines do not follow each other, the rows of each go to their own place. */
static inline __attribute__((always_inline)) void finish_tile(const part *t, const amp_gemm_place *whole,
                                                              const float *tile) {
    const amp_gemm *g = t->p->g;
    const int64_t width = g->window ? g->window->out[2] : 0, gap = g->c_line_stride - width * g->c_row_stride;
    const int64_t residual_gap = g->residual ? g->residual_line_stride - width * g->residual_row_stride : 0;
    if (width == 0 || (gap == 0 && residual_gap == 0)) {
        t->p->isa->finish(&t->finish, whole, tile);
        return;
    }
    amp_gemm_place place = *whole;
    for (int64_t end = place.row + place.rows; place.row < end; place.row += place.rows) {
        const int64_t line = place.row / width, left = (line + 1) * width - place.row;
        amp_gemm_finish finish = t->finish;
        finish.c = (void *)at(finish.c, finish.c_dtype, line * gap);
        if (g->residual) finish.residual = at(finish.residual, finish.residual_dtype, line * residual_gap);
        place.rows = (int)(left < end - place.row ? left : end - place.row);
        t->p->isa->finish(&finish, &place, tile + (place.row - whole->row) * place.pitch);
    }
}

/* Rows of the matrix before a panel that is computed with it: a last panel of few rows takes some of those above it,
 * once more, so that its tiles read no further than A. */
static int64_t repeated_rows(const plan *p, int64_t panel) {
    return p->in_place ? p->panel_rows - rows_of(p, panel) : 0;
}

/* The first row of a panel that is not packed. */
static __attribute__((noinline)) const char *lying_panel(const part *t, int64_t panel) {
    const plan *p = t->p;
    if (p->raster) return t->a + amp_gemm_raster_panel(p->raster, t->rows.begin, panel);
    const int64_t row = panel * p->panel_rows - repeated_rows(p, panel);
    return (const char *)at(p->g->a, AMP_BF16, t->item * p->g->a_batch_stride) + row * p->a_row_bytes;
}

/* The rows of a raster's panel that are pixels of the output. */
static __attribute__((noinline)) void finish_raster(const part *t, int64_t panel, const amp_gemm_place *whole,
                                                    const float *tile) {
    const amp_gemm_raster *r = t->p->raster;
    const int64_t width = r->w->out[2], first_line = panel / r->image_panels * r->w->out[1];
    const int64_t begin = panel % r->image_panels * r->panel_rows, end = begin + whole->rows;
    amp_gemm_place place = *whole;
    for (int64_t row = begin; row < end; row = row / r->line_rows * r->line_rows + r->line_rows) {
        const int64_t x = row % r->line_rows, left = width - x < end - row ? width - x : end - row;
        if (left <= 0) continue;
        place.row = (first_line + row / r->line_rows) * width + x;
        place.rows = (int)left;
        finish_tile(t, &place, tile + (row - begin) * whole->pitch);
    }
}

static void finish_panel(const part *t, int64_t panel, const amp_gemm_place *place, const float *tile) {
    if (t->p->raster)
        finish_raster(t, panel, place, tile);
    else
        finish_tile(t, place, tile + repeated_rows(t->p, panel) * place->pitch);
}

static __attribute__((noinline)) void finish_waiting(const part *t) {
    waiting *w = t->late;
    if (w->tile) finish_panel(t, w->panel, &w->place, w->tile);
    w->tile = NULL;
}

/* The next tile goes to the other place. */
static __attribute__((noinline)) void finish_later(const part *t, int64_t panel, const amp_gemm_place *place,
                                                   const float *tile) {
    finish_waiting(t);
    *t->late = (waiting){tile, panel, *place, !t->late->turn};
}

/* How a kernel that finishes late gets its operands, and where its sums go. */
static __attribute__((noinline)) void set_loads(const part *t, int64_t panel, int64_t block, amp_gemm_tile *tile) {
    const plan *p = t->p;
    tile->stream_b = p->stream_b;
    tile->far_b = p->far_b;
    if (p->c_thread_values == 0) tile->c = t->c_tile + t->late->turn * AMP_GEMM_MAX_TILE;
    if (!p->lies) return;
    if (p->raster) tile->rows = amp_gemm_raster_panel_rows(p->raster, panel);
    tile->a = lying_panel(t, panel);
    tile->a_offsets = p->a_offsets + block;
    tile->a_row_bytes = p->a_row_bytes;
}

/* A panel's part of a pass, and how far from it that of the next is. */
typedef struct slice {
    const void *begin;
    int64_t panel_bytes;
} slice;

static slice packed_b(const part *t, int64_t column, int64_t block) {
    const plan *p = t->p;
    const int64_t b_block = AMP_GEMM_BLOCK_VALUES * (p->isa->b_f32 ? 4 : 2);
    const char *b = (const char *)p->g->b + t->item * p->g->b_batch_stride;
    return (slice){b + (column * p->k_blocks + block) * b_block, p->k_blocks * b_block};
}

static slice unpacked_b(const part *t, int64_t column) {
    const int64_t values = t->p->pass_blocks * AMP_GEMM_BLOCK_VALUES;
    return (slice){t->b + (column - t->columns.begin) % t->p->group * values, values * (int64_t)sizeof(float)};
}

static slice slice_of_b(const part *t, int64_t column, int64_t block) {
    return __builtin_expect(t->b != NULL, 0) ? unpacked_b(t, column) : packed_b(t, column, block);
}

/* What all row panels of the chunk, if it has any, will meet. */
static __attribute__((noinline)) void unpack_columns(const part *t, range columns, range blocks) {
    if (t->rows.begin >= t->rows.end) return;
    for (int64_t n = columns.begin; n < columns.end; n++)
        t->p->isa->unpack_b(packed_b(t, n, blocks.begin).begin, (float *)unpacked_b(t, n).begin,
                            blocks.end - blocks.begin);
}

/* Tile `index` of those whose partial sums are kept between passes; and as many below it, which must be finished
 * then. */
AMP_HOT static void run_tile(const part *t, int64_t panel, int64_t repeat, range columns, range blocks, int64_t index) {
    const plan *p = t->p;
    const int panels = (int)(columns.end - columns.begin);
    const int64_t k_bytes = p->isa->a_f32 ? 4 : 2, a_values = blocks.begin * p->panel_rows * AMP_GEMM_BLOCK;
    const int64_t column = columns.begin * AMP_GEMM_BLOCK, left = p->g->n - column, wide = panels * AMP_GEMM_BLOCK;
    const slice b = slice_of_b(t, columns.begin, blocks.begin);
    const bool last = blocks.end == p->k_blocks;
    amp_gemm_tile tile = {
        .a = t->a + (panel - t->rows.begin) * (int64_t)p->a_panel_bytes + a_values * k_bytes,
        .a_panel_bytes = p->a_panel_bytes,
        .panel_rows = p->panel_rows,
        .rows = rows_of(p, panel),
        .panels = panels,
        .b = b.begin,
        .b_panel_bytes = b.panel_bytes,
        .pairs = ((last ? p->g->k : blocks.end * AMP_GEMM_BLOCK) - blocks.begin * AMP_GEMM_BLOCK + 1) / 2,
        .columns = (int)(left < wide ? left : wide),
        .c = p->c_thread_values ? t->c + index * p->panel_rows * p->tile_panels * AMP_GEMM_BLOCK : t->c_tile,
        .accumulate = blocks.begin > 0,
        .finish = last && p->stores ? &t->finish : NULL,
        .row = panel * p->panel_rows,
        .column = column,
        .repeat = repeat,
    };
    if (__builtin_expect(t->late != NULL, 0)) set_loads(t, panel, blocks.begin, &tile);
    p->isa->tile(&tile);
    if (!last || p->stores) return;
    const amp_gemm_place place = {tile.row, column, tile.rows, tile.columns, (int)wide};
    if (t->late)
        finish_later(t, panel, &place, tile.c);
    else
        finish_tile(t, &place, tile.c);
}

/* All row panels of the chunk against the same columns, whole ones in one call. */
static void run_column(const part *t, range columns, range blocks) {
    const int64_t last = t->rows.end - 1, whole = last - t->rows.begin + (rows_of(t->p, last) == t->p->panel_rows);
    if (whole > 0) run_tile(t, t->rows.begin, whole, columns, blocks, 0);
    if (t->rows.begin + whole <= last) run_tile(t, last, 1, columns, blocks, 0);
}

/* One pass over K: for each row panel the tiles of a group of B panels, so that A's slice comes from L1 for all but the
 * first. */
static void run_pass(const part *t, range columns, range blocks) {
    const bool whole = t->p->stores && t->p->c_thread_values == 0 && columns.end - columns.begin <= t->p->tile_panels;
    int64_t index = 0;
    if (__builtin_expect(t->b != NULL, 0)) unpack_columns(t, columns, blocks);
    if (whole && t->rows.begin < t->rows.end) {
        run_column(t, columns, blocks);
        return;
    }
    for (int64_t panel = t->rows.begin; panel < t->rows.end; panel++) {
        for (int64_t n = columns.begin; n < columns.end; n += t->p->tile_panels, index++) {
            const int64_t end = n + t->p->tile_panels;
            run_tile(t, panel, 1, (range){n, end < columns.end ? end : columns.end}, blocks, index);
        }
    }
    if (t->late) finish_waiting(t);
}

/* Of what the chunk stored in these columns: not among the tiles, for small products feel each line of code there. */
static __attribute__((noinline)) void relu_columns(const part *t, range columns) {
    const amp_gemm *g = t->p->g;
    const amp_gemm_finish *f = &t->finish;
    const int64_t row = t->rows.begin * t->p->panel_rows, end = t->rows.end * t->p->panel_rows;
    const int64_t column = columns.begin * AMP_GEMM_BLOCK, behind = columns.end * AMP_GEMM_BLOCK;
    void *c = (void *)at(f->c, f->c_dtype, row * f->c_row_stride + column);
    t->p->isa->relu(c, f->c_dtype, (end < g->m ? end : g->m) - row, (behind < g->n ? behind : g->n) - column,
                    f->c_row_stride);
}

static void run_chunk(const part *t) {
    const plan *p = t->p;
    for (int64_t n = t->columns.begin; n < t->columns.end; n += p->group) {
        const range columns = {n, n + p->group < t->columns.end ? n + p->group : t->columns.end};
        range blocks = {0, 0};
        do { /* once even where K is 0 */
            blocks.end = blocks.begin + p->pass_blocks < p->k_blocks ? blocks.begin + p->pass_blocks : p->k_blocks;
            run_pass(t, columns, blocks);
            blocks.begin = blocks.end;
        } while (blocks.end < p->k_blocks);
        if (p->relu && t->rows.begin < t->rows.end) relu_columns(t, columns);
    }
}

/* A weight's gradient, most often, which nobody reads before those of other weights have come: written through the
 * caches, its lines, two for each row of a tile, would be read from memory first. */
static bool streams(const amp_gemm *g, const void *c) {
    if (g->c_dtype != AMP_F32 || g->window || g->activation != AMP_GEMM_NONE) return false;
    const bool has_lines = g->c_row_stride % 16 == 0 && (uintptr_t)c % 64 == 0;
    return has_lines && g->m >= STREAM_BYTES / 4 / g->n;
}

AMP_HOT amp_gemm_finish amp_gemm_finish_of(const amp_gemm *g, int64_t item) {
    void *const c = (void *)at(g->c, g->c_dtype, item * g->c_batch_stride);
    return (amp_gemm_finish){
        .c = c,
        .c_dtype = g->c_dtype,
        .c_row_stride = g->c_row_stride,
        .streams = streams(g, c),
        .alpha = g->alpha,
        .beta = g->beta,
        .residual = g->residual ? at(g->residual, g->residual_dtype, item * g->residual_batch_stride) : NULL,
        .residual_dtype = g->residual_dtype,
        .residual_row_stride = g->residual_row_stride,
        .residual_column_stride = g->residual_column_stride,
        .scale = g->scale ? g->scale + item * g->scale_batch_stride : NULL,
        .bias = g->bias ? at(g->bias, g->bias_dtype, item * g->bias_batch_stride) : NULL,
        .bias_dtype = g->bias_dtype,
        .activation = g->activation,
        .activation_numbers = {g->activation_numbers[0], g->activation_numbers[1]},
    };
}

/* One matrix of the batch, as thread `thread` of the grid. Every thread of the team comes here for the same items and
 * meets the same barriers. */
static void run_item(const plan *p, int64_t item, int thread, char *a, float *c, float *c_tile) {
    waiting late;
    const int group = thread / p->grid_n, member = thread % p->grid_n;
    const bool share = p->grid_n > 1 && !p->small;
    const amp_range mine = share ? amp_parallel_part(p->k_blocks, 1, member, p->grid_n) : (amp_range){0, p->k_blocks};
    const amp_range rows = amp_parallel_part(p->row_panels, 1, group, p->grid_m);
    const amp_range columns = amp_parallel_part(p->b_panels, p->tile_panels, member, p->grid_n);
    const int64_t chunks = divide_up(divide_up(p->row_panels, p->grid_m), p->chunk);
    part t = {.p = p, .item = item, .columns = {columns.begin, columns.end}, .a = a, .c = c, .c_tile = c_tile};
    if (__builtin_expect(p->b_thread_values != 0, 0)) t.b = c + p->c_thread_values;
    t.finish = amp_gemm_finish_of(p->g, item);
    if (p->isa->finishes_late) {
        late = (waiting){0};
        t.late = &late;
    }
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t begin = rows.begin + i * p->chunk, end = begin + p->chunk;
        t.rows = (range){begin < rows.end ? begin : rows.end, end < rows.end ? end : rows.end};
        if (share && (i || item)) { /* the others may still read the chunk before */
#pragma omp barrier
        }
        if (__builtin_expect(p->lies, 0))
            prepare_lying(&t, share ? member : 0, share ? p->grid_n : 1);
        else
            pack_chunk(&t, (range){mine.begin, mine.end});
        if (share) {
#pragma omp barrier
        }
        run_chunk(&t);
    }
}

AMP_HOT static void run_thread(const plan *p, int thread) {
    _Alignas(64) char small_a[SMALL_A_BYTES];
    _Alignas(64) float c_tile[2 * AMP_GEMM_MAX_TILE];
    const int owner = p->by_batch ? thread : thread / p->grid_n;
    char *a = p->small ? small_a : p->a_scratch + (size_t)owner * p->a_group_bytes;
    float *c = p->scratch + (size_t)thread * (p->c_thread_values + p->b_thread_values);
    if (p->isa->begin) p->isa->begin(p->panel_rows);
    const amp_range items =
        p->by_batch ? amp_parallel_part(p->g->batch, 1, thread, p->threads) : (amp_range){0, p->g->batch};
    for (int64_t item = items.begin; item < items.end; item++)
        run_item(p, item, p->by_batch ? 0 : thread, a, c, c_tile);
    if (p->isa->end) p->isa->end();
}

/* ---- Entry ---------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void list_offsets(plan *p, void *room) {
    p->a_offsets = room;
    if (p->raster) {
        p->a_row_bytes = p->raster->pixel_bytes;
        amp_gemm_raster_offsets(p->raster, p->k_blocks, p->a_offsets);
    } else {
        for (int64_t i = 0; i < p->k_blocks; i++) p->a_offsets[i] = i * AMP_GEMM_BLOCK * (int64_t)sizeof(uint16_t);
    }
}

/* A team smaller than planned (a limit set by the user) takes the planned parts in turn, if they never wait for each
 * other; a plan that has barriers is made anew for the team. */
static amp_status run_plan(plan *p) {
    const size_t owners = p->by_batch ? (size_t)p->threads : (size_t)p->grid_m;
    const size_t a_bytes = (owners * p->a_group_bytes + 63) / 64 * 64;
    const size_t own_bytes = (size_t)p->threads * (p->c_thread_values + p->b_thread_values) * sizeof(float);
    const size_t bytes = a_bytes + own_bytes + (p->lies ? (size_t)p->k_blocks * sizeof *p->a_offsets : 0);
    char *scratch = NULL;
    if (bytes) {
        scratch = amp_alloc(bytes);
        if (!scratch) return amp_fail(AMP_ERROR_MEMORY, "gemm: no memory for %zu bytes of scratch", bytes);
        p->a_scratch = scratch;
        p->scratch = (float *)(scratch + a_bytes);
    }
    if (p->lies) list_offsets(p, scratch + a_bytes + own_bytes);
    if (p->threads == 1) {
        run_thread(p, 0);
    } else {
        bool short_team = false;
#pragma omp parallel num_threads(p->threads)
        {
            if (omp_get_num_threads() == p->threads) {
                run_thread(p, omp_get_thread_num());
            } else if (omp_get_thread_num() == 0) {
                short_team = true;
            }
        }
        amp_free(scratch);
        if (!short_team) return AMP_OK;
        p->threads = p->grid_m = p->grid_n = 1;
        p->by_batch = false;
        choose_chunks(p);
        return run_plan(p);
    }
    amp_free(scratch);
    return AMP_OK;
}

static bool is_f32_or_bf16(amp_dtype dtype) {
    return dtype == AMP_F32 || dtype == AMP_BF16;
}

static amp_status check(const amp_gemm *g) {
    if (g->m < 0 || g->n < 0 || g->k < 0 || g->batch < 0)
        return amp_fail(AMP_ERROR_INTERNAL, "gemm: negative size %lld×%lld×%lld, batch %lld", (long long)g->m,
                        (long long)g->n, (long long)g->k, (long long)g->batch);
    if (!is_f32_or_bf16(g->a_dtype) || !is_f32_or_bf16(g->c_dtype) || (g->bias && !is_f32_or_bf16(g->bias_dtype)) ||
        (g->residual && !is_f32_or_bf16(g->residual_dtype)))
        return amp_fail(AMP_ERROR_INTERNAL, "gemm: operands must be f32 or bf16");
    if ((uintptr_t)g->b % 64 || g->b_batch_stride % 64)
        return amp_fail(AMP_ERROR_INTERNAL, "gemm: the packed operand is not 64-byte aligned");
    return AMP_OK;
}

/* Matrices that share B and follow each other seamlessly are one matrix. */
static bool is_seamless(const amp_gemm *g) {
    return g->batch > 1 && !g->window && g->b_batch_stride == 0 && g->a_batch_stride == g->m * g->a_row_stride &&
           g->c_batch_stride == g->m * g->c_row_stride && (!g->bias || g->bias_batch_stride == 0) &&
           (!g->scale || g->scale_batch_stride == 0) &&
           (!g->residual || g->residual_batch_stride == g->m * g->residual_row_stride);
}

/* By the rows of one thread: they share what `many` does for them once. */
static __attribute__((noinline)) void choose_many(plan *p) {
    const int64_t rows = divide_up(p->row_panels, p->grid_m) * p->panel_rows;
    if (rows >= p->isa->many_rows) p->isa = p->isa->many;
}

AMP_HOT static amp_status run_planned(const amp_gemm *g, const amp_gemm_isa *isa) {
    plan p = {.g = g, .isa = isa};
    amp_gemm_raster raster;
    choose_tiles(&p);
    if (__builtin_expect(isa->copy_pixels != NULL, 0)) choose_place(&p, &raster);
    choose_threads(&p);
    if (__builtin_expect(isa->many != NULL, 0)) choose_many(&p);
    choose_chunks(&p);
    return run_plan(&p);
}

AMP_HOT amp_status amp_gemm_run(const amp_gemm *g, const amp_gemm_isa *isa) {
    AMP_TRY(check(g));
    if (g->m == 0 || g->n == 0 || g->batch == 0) return AMP_OK;
    if (amp_gemm_is_direct(g, isa)) return amp_gemm_run_direct(g, isa);
    if (!is_seamless(g)) return run_planned(g, isa);
    amp_gemm one = *g;
    one.m *= g->batch;
    one.batch = 1;
    return run_planned(&one, isa);
}

bool amp_gemm_suits_tiles(const void *problem) {
    const amp_gemm *g = problem;
    if (!g) return true;
    const bool folds = !g->window && g->b_batch_stride == 0 && g->a_batch_stride == g->m * g->a_row_stride;
    const int64_t m = folds && g->batch > 1 ? g->m * g->batch : g->m;
    return m >= TILES_MIN_ROWS && g->k >= AMP_GEMM_BLOCK &&
           (double)m * (double)g->n * (double)g->k >= TILES_MIN_PRODUCTS;
}

/* Where it was measured: twice the rate of FMA on Zen 4 (235.8 against 117.8 GFLOP/s on one core) and Zen 5, half of it
 * on the Xeons that have AMX. */
AMP_HOT bool amp_gemm_dot_pays(const void *problem) {
    (void)problem;
    return __builtin_cpu_is("amd");
}

/* The product's packed operand is there, and its kernel was tested: somebody wants no more yet. */
static __attribute__((noinline)) amp_status give_zeros(const amp_gemm *g) {
    const int64_t width = g->window ? g->window->out[2] : g->m, lines = width > 0 ? g->m / width : 0;
    const size_t size = amp_element_sizes[g->c_dtype];
    for (int64_t line = 0; line < g->batch * lines; line++) {
        char *c = (char *)g->c + (line / lines * g->c_batch_stride + line % lines * g->c_line_stride) * (int64_t)size;
        const bool is_whole = g->c_row_stride == g->n;
        const int64_t rows = is_whole ? 1 : width, row = is_whole ? width * g->n : g->n;
        for (int64_t i = 0; i < rows; i++) memset(c + i * g->c_row_stride * (int64_t)size, 0, (size_t)row * size);
    }
    return AMP_OK;
}

AMP_HOT static amp_status run_best(amp_dtype in, const amp_gemm *g, const char **kernel_name) {
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_GEMM, in, AMP_F32);
    if (kernel && kernel->predicate && !kernel->predicate(g))
        kernel = amp_kernel_select_for(AMP_KERNEL_GEMM, in, AMP_F32, g);
    if (!kernel) return amp_last_status();
    if (kernel_name) *kernel_name = kernel->name;
    if (__builtin_expect(amp_this_thread.is_preparing, 0)) return give_zeros(g);
    return ((amp_gemm_function *)kernel->function)(g);
}

AMP_HOT amp_status amp_gemm_bf16(const amp_gemm *g, const char **kernel_name) {
    return run_best(AMP_BF16, g, kernel_name);
}

amp_status amp_gemm_f32(const amp_gemm *g, const char **kernel_name) {
    return run_best(AMP_F32, g, kernel_name);
}
