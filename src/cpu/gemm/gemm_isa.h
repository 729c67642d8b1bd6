/* What an ISA brings to the bf16 GEMM driver (gemm.c): one amp_gemm_isa per ISA, and the kernels made from them. */
#ifndef AMP_CPU_GEMM_ISA_H
#define AMP_CPU_GEMM_ISA_H

#include "cpu/registry/gemm.h"
#include "cpu/registry/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    AMP_GEMM_BLOCK = 32,          /* K elements and N columns of a packed block */
    AMP_GEMM_BLOCK_VALUES = 1024, /* bf16 values of a packed block of B */
    AMP_GEMM_MAX_TILE = 32 * 32   /* largest rows · columns of one tile call */
};

/* A packed A block holds `rows` rows of one K block, [rows][32], and the blocks of a row panel follow each other along
 * K: [K/32][rows][32]. Elements are bf16, or f32 already rounded to bf16 where the kernel has `a_f32`. */
typedef struct amp_gemm_pack_a {
    const void *src; /* element (0, 0) of the row panel */
    amp_dtype dtype;
    int64_t row_stride, column_stride;
    int64_t k;                     /* of the whole operand */
    int64_t block, blocks;         /* K blocks block … block + blocks - 1 are packed, to their place in dst */
    int rows;                      /* rows that exist */
    int panel_rows;                /* rows of the panel: those past `rows` are zeroed */
    const amp_gemm_window *window; /* NULL, or what rows are: then `src` is the first pixel … */
    int64_t row;                   /* … and this the first row's number */
} amp_gemm_pack_a;

/* Copies `pixels` of so many channels, a multiple of 32, as packing does; distances are in bytes. `to` is aligned to
 * 64. */
typedef void amp_gemm_copy_function(char *to, int64_t to_step, const char *from, int64_t from_step, amp_dtype dtype,
                                    int64_t channels, int64_t pixels);

/* What happens to a finished tile; the pointers are those of one matrix of the batch. */
typedef struct amp_gemm_finish {
    void *c;
    amp_dtype c_dtype;
    int64_t c_row_stride;
    bool
        streams; /* C is f32, plain sums, its rows are whole lines, and it is more than stays near: may be written past the caches */
    float alpha, beta;
    const void *residual;
    amp_dtype residual_dtype;
    int64_t residual_row_stride, residual_column_stride;
    const float *scale;
    const void *bias;
    amp_dtype bias_dtype;
    amp_gemm_activation activation;
    float activation_numbers[2];
} amp_gemm_finish;

/* C[rows][32 · panels] (+)= A · B over `pairs` pairs of k. */
typedef struct amp_gemm_tile {
    const void *a;
    size_t a_panel_bytes; /* from one row panel of A to the next */
    int panel_rows;       /* row pitch of a packed A block */
    int rows;             /* rows to compute */
    int panels;           /* panels of 32 columns */
    int columns;          /* … of which so many are wanted: the rest of the last panel need not be computed */
    const void *b;
    int64_t b_panel_bytes; /* from one panel of B to the next */
    int64_t pairs;         /* pairs of k: sixteen in each block but the last */
    float *c;              /* dense, 64-byte aligned */
    bool accumulate;
    const amp_gemm_finish *finish; /* NULL, or the sums, plus what `c` has with `accumulate`, are finished, to … */
    int64_t row, column; /* … this place of C; only in a kernel that `stores`, and where nothing but a bias is added */
    int64_t repeat;      /* so many tiles below each other, of whole row panels, if `finish`; else one */

    /* Of AMX alone; behind the others, so that the code of vector kernels is what it was. */
    const int64_t *a_offsets; /* NULL; or A is not packed: its K blocks' distances from `a`, in bytes, … */
    int64_t a_row_bytes;      /* … and that of its rows */
    bool stream_b;            /* B is not to be kept in L1: it is not there when it is met again */
    bool far_b;               /* B is met once, and comes from beyond L2 */
} amp_gemm_tile;

/* Where a finished tile lies: `tile` is [rows][pitch] f32, of which `columns` columns exist. */
typedef struct amp_gemm_place {
    int64_t row, column;
    int rows, columns, pitch;
} amp_gemm_place;

/* Products that read A where it lies: a step is what one broadcast of A meets, 4 bytes of A (a pair of bf16, or an f32)
 * and 128 of a panel of B; a run is `steps` of them that follow each other on both sides. */
typedef struct amp_gemm_stretch {
    int64_t a, b; /* bytes from the tile's first value, and from its first panel's begin */
} amp_gemm_stretch;

/* A tile from its first product to C: sum + bias, or what `epilogue` says. */
typedef struct amp_gemm_direct {
    const char *a;
    int64_t row_bytes; /* from row to row of A */
    const amp_gemm_stretch *runs;
    int64_t run_count, steps;
    bool half_step; /* the last step of a run has one bf16, and what follows it in A does not count */
    const char *b;
    int64_t b_panel_bytes;
    int rows, panels, columns; /* as in amp_gemm_tile */
    int64_t groups;            /* … so many times, side by side: of each row, before the next `repeat` */
    void *c;
    amp_dtype c_dtype;
    int64_t c_row_stride;
    const void *bias; /* of the first column, or NULL */
    amp_dtype bias_dtype;
    const amp_gemm_finish *epilogue; /* NULL, or scale, residual and activation, of the first row and column */
    bool fetch_b;                    /* B is not in L1: it is fetched ahead */
    bool far;                        /* C is not in L2: its lines are fetched while the sums are made */
    int64_t repeat;                  /* tiles in a row: each begins `rows` rows of A and C behind the one before */
    const char *next; /* memory that the tiles to come will read: 128 bytes of it for every four steps are fetched */
} amp_gemm_direct;

typedef struct amp_gemm_isa {
    bool a_f32; /* packed A is f32 */
    bool b_f32; /* packed B is f32: a product of f32, A is not rounded */
    /* NULL, or a slice of so many blocks of a panel of B, bf16, is unpacked to f32 once for the row panels of a chunk, as
     * a panel of f32 is packed, and tiles take that. */
    void (*unpack_b)(const void *packed, float *to, int64_t blocks);
    const struct amp_gemm_isa *many; /* NULL, or what is taken instead, with tiles of the same rows and panels, … */
    int64_t many_rows;               /* … where a thread has so many rows */
    const struct amp_gemm_isa *wide; /* NULL, or whose `direct` takes products over windows, widened to f32: A tile by
                                      * tile, B by the `unpack_b` of `many`, which there has to be */
    bool finishes_late;              /* a tile is finished when the next has been stored: see gemm_amx.c */
    bool
        stores; /* tiles finish what has nothing but a bias: from the registers, or (AVX2: all but whole f32) from `c` */
    int max_rows;                  /* of a tile with one panel of B */
    uint8_t max_panels[17];        /* [rows]: panels that a tile of so few rows can take; 1 beyond */
    int rate_shift;                /* products are 2^rate_shift times as fast as by FMA */
    int64_t row_grain, most_grain; /* 0, or least multiply-adds of a thread: for each row of A, and for many rows */
    int chunk_rows;                /* so many rows of A at least meet each stream of B … */
    int near_rows;                 /* 0, or so many do if they stay in L2 meanwhile: … */
    int64_t near_chunk_bytes;      /* … they are no more than this, and … */
    int64_t near_l2_bytes;         /* … with what a group has of B, and its sums, than this */
    int64_t group_panels; /* B panels that a slice of A meets in a row; 1: a slice of B meets all of A instead */
    int64_t alias_bytes;  /* 0, or row panels a multiple of this apart meet in few sets of L2 */
    int64_t near_bytes;   /* 0, or L1, where loads can pass it by */
    int64_t pass_blocks;  /* K blocks per pass over several row panels: what keeps A and B of a tile in cache */
    void (*pack_a)(const amp_gemm_pack_a *p, void *dst);
    amp_gemm_copy_function *copy_pixels; /* NULL, or tiles take rows that are not packed (gemm_raster.h) */
    void (*tile)(const amp_gemm_tile *t);
    void (*finish)(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile);
    void (*begin)(int panel_rows);            /* NULL, or called by each thread before its first tile … */
    void (*end)(void);                        /* … and after its last */
    void (*direct)(const amp_gemm_direct *t); /* NULL, or for products over windows … */
    int64_t direct_k;                         /* … of no more K than this, or, 0, of any */
    /* Of what a tile has just stored, in place, rows `stride` elements apart: a relu among the sums would cost tiles
     * without one a register. NULL: products with a relu are finished from the tile. */
    void (*relu)(void *c, amp_dtype dtype, int64_t rows, int64_t columns, int64_t stride);
} amp_gemm_isa;

/* What happens to the tiles of matrix `item`. */
amp_gemm_finish amp_gemm_finish_of(const amp_gemm *g, int64_t item);

/* Plans `g` for that ISA and runs it. */
amp_status amp_gemm_run(const amp_gemm *g, const amp_gemm_isa *isa);
/* The same for a product over windows that `isa->direct` can do, or that of `isa->wide`; called by amp_gemm_run. */
bool amp_gemm_is_direct(const amp_gemm *g, const amp_gemm_isa *isa);
amp_status amp_gemm_run_direct(const amp_gemm *g, const amp_gemm_isa *isa);
/* What happens to the sums of a tile's columns from `column` on, which go to `c`. */
amp_gemm_finish amp_gemm_direct_finish(const amp_gemm_direct *t, int64_t column, char *c);

/* Tiles of a kernel with 28 vector accumulators of 16 columns, two per row and panel, or one per row where no more than
 * 16 columns are wanted: all (rows, panels, vectors), and the max_panels that goes with them. */
/* clang-format off */
#define AMP_GEMM_TILES_28(TILE)                                                                                        \
    TILE(1, 1, 2) TILE(1, 2, 2) TILE(1, 3, 2) TILE(1, 4, 2) TILE(1, 5, 2) TILE(1, 6, 2) TILE(1, 7, 2) TILE(1, 8, 2)    \
    TILE(2, 1, 2) TILE(2, 2, 2) TILE(2, 3, 2) TILE(2, 4, 2) TILE(3, 1, 2) TILE(3, 2, 2) TILE(3, 3, 2) TILE(3, 4, 2)    \
    TILE(4, 1, 2) TILE(4, 2, 2) TILE(4, 3, 2) TILE(5, 1, 2) TILE(5, 2, 2) TILE(6, 1, 2) TILE(6, 2, 2) TILE(7, 1, 2)    \
    TILE(7, 2, 2) TILE(8, 1, 2) TILE(9, 1, 2) TILE(10, 1, 2) TILE(11, 1, 2) TILE(12, 1, 2) TILE(13, 1, 2)              \
    TILE(14, 1, 2) TILE(1, 1, 1) TILE(2, 1, 1) TILE(3, 1, 1) TILE(4, 1, 1) TILE(5, 1, 1) TILE(6, 1, 1) TILE(7, 1, 1)   \
    TILE(8, 1, 1) TILE(9, 1, 1) TILE(10, 1, 1) TILE(11, 1, 1) TILE(12, 1, 1) TILE(13, 1, 1) TILE(14, 1, 1)
#define AMP_GEMM_PANELS_28 {1, 8, 4, 4, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}
/* clang-format on */
#define AMP_GEMM_TILE_KEY(rows, panels, vectors) ((rows)*32 + (panels)*2 + (vectors)-1)

/* Shared by the kernels that run on AVX-512, and on AVX2. */
void amp_gemm_finish_avx512bf16(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile);
void amp_gemm_finish_avx512(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile);
void amp_gemm_finish_avx2(const amp_gemm_finish *f, const amp_gemm_place *place, const float *tile);
extern const amp_gemm_isa amp_gemm_isa_f32_avx2;
void amp_gemm_relu_avx2(void *c, amp_dtype dtype, int64_t rows, int64_t columns, int64_t stride);
void amp_gemm_relu_avx512(void *c, amp_dtype dtype, int64_t rows, int64_t columns, int64_t stride);

/* B is fetched so many bytes ahead of the products, by all panels of a tile together. Where a dozen rows meet it, B
 * comes from L3 or DRAM, and what the hardware fetches by itself is too late; where it is in L1 already, this costs
 * nothing that shows. A tile of more panels is one of fewer rows: there the hardware keeps up, and fetching more only
 * disturbs it. */
enum { AMP_GEMM_AHEAD = 16 * 1024, AMP_GEMM_AHEAD_PANELS = 2 };

static inline __attribute__((always_inline)) void amp_gemm_fetch(const void *b, int64_t b_panel_bytes, const int panels,
                                                                 const int bytes) {
#pragma GCC unroll 2
    for (int p = 0; p < panels && panels <= AMP_GEMM_AHEAD_PANELS; p++) {
#pragma GCC unroll 4
        for (int line = 0; line < bytes; line += 64)
            __builtin_prefetch((const char *)b + p * b_panel_bytes + line + AMP_GEMM_AHEAD / panels);
    }
}

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_GEMM_ISA_H */
