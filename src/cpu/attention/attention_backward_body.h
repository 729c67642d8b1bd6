/* The gradients of attention for a block of query rows; compiled once per ISA over a header of units, which brings the
 * simd header; no include guard: one file, one ISA and dtype.
 *
 * Formula:     that of attention.h: p = e^(s − max) / Σ e^(s − max), s = scale·q·k + mask.
 * Accumulator: f32. Products are summed in ascending order of what they are summed over, fused (f32) or two at a time
 *              (vdpbf16ps); those of one block of keys go on from those of the block before. Σ e and Σ e·dp of a row are in one
 *              lane for each block of keys, then added.
 * Error bound: f32: of each of the five products (n + 3)·2⁻²⁴ · Σ|a·b| of its n terms, and 2⁻²⁰ of p from its power;
 * bf16: 2⁻⁸ of
 *              p and ds from their rounding on top, and 2^-18 of p. test_attention_backward.cc holds rows to f64.
 * Denormals: f32 kept; vdpbf16ps reads and writes zeros for them. ISA: that of the simd header. Source: Dao et al.,
 * "FlashAttention" (2022), appendix B, whose loops this turns around: query rows lie in lanes, so that the
 *              softmax needs no sums across lanes, and what it makes is stored just as the products that follow read it.
 *
 * Everything is one product, c = a·b or c += a·b, of rows of units that are broadcast and units that lie in lanes. A
 * unit is 32 bits of what is summed over: an f32, or a pair of bf16. */
#include <math.h>
#include <string.h>

#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

#define BACKWARD_PASTE_(dtype, isa) amp_attention_backward_##dtype##_##isa
#define BACKWARD_PASTE(dtype, isa) BACKWARD_PASTE_(dtype, isa)

enum {
    LANES = AMP_ATTENTION_BACKWARD_ROWS,
    VECTORS = VL == 16 ? 4 : 2,
    ROWS = VL == 16 ? 4 : 6,
    KEYS = 16 * ROWS, /* of a block */
    STRIP = AMP_ATTENTION_STRIP
};

/* ---- The product -------------------------------------------------------------------------------------------------- */
/* ROWS rows of a; `vectors` of c and b. */
AMP_ALWAYS_INLINE void multiply_tile(float *c, int64_t c_step, const unit *a, int64_t a_step, const unit *b,
                                     int64_t b_step, int64_t count, bool add, int vectors) {
    vf acc[ROWS][VECTORS];
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int i = 0; i < vectors; i++) acc[r][i] = add ? v_load(c + r * c_step + i * VL) : v_set1(0.0f);
    }
    for (int64_t k = 0; k < count; k++, b += b_step) {
        u_vector y[VECTORS];
        AMP_UNROLL
        for (int i = 0; i < vectors; i++) y[i] = u_load(b + i * VL);
        AMP_UNROLL
        for (int r = 0; r < ROWS; r++) {
            const u_vector x = u_set1(a + r * a_step + k);
            AMP_UNROLL
            for (int i = 0; i < vectors; i++) acc[r][i] = u_dot(acc[r][i], x, y[i]);
        }
    }
    AMP_UNROLL
    for (int r = 0; r < ROWS; r++) {
        AMP_UNROLL
        for (int i = 0; i < vectors; i++) v_store(c + r * c_step + i * VL, acc[r][i]);
    }
}

typedef struct rows {
    const unit *first;
    int64_t step;
} rows;

/* c [m][n vectors] of a [m][count] and b [count][n vectors]: m is rounded up to whole tiles. */
AMP_ALWAYS_INLINE void multiply(float *c, int64_t c_step, rows a, rows b, int64_t m, int64_t n, int64_t count,
                                bool add) {
    int64_t j = 0;
    for (; n - j >= VECTORS; j += VECTORS) {
        for (int64_t i = 0; i < m; i += ROWS)
            multiply_tile(c + i * c_step + j * VL, c_step, a.first + i * a.step, a.step, b.first + j * VL, b.step,
                          count, add, VECTORS);
    }
    for (; n - j >= 2; j += 2) {
        for (int64_t i = 0; i < m; i += ROWS)
            multiply_tile(c + i * c_step + j * VL, c_step, a.first + i * a.step, a.step, b.first + j * VL, b.step,
                          count, add, 2);
    }
    for (int64_t i = 0; j < n && i < m; i += ROWS)
        multiply_tile(c + i * c_step + j * VL, c_step, a.first + i * a.step, a.step, b.first + j * VL, b.step, count,
                      add, 1);
}

static void set_product(float *c, int64_t c_step, rows a, rows b, int64_t m, int64_t n, int64_t count) {
    multiply(c, c_step, a, b, m, n, count, false);
}
static void add_product(float *c, int64_t c_step, rows a, rows b, int64_t m, int64_t n, int64_t count) {
    multiply(c, c_step, a, b, m, n, count, true);
}

/* ---- Packing ------------------------------------------------------------------------------------------------------ */
static int64_t whole_blocks(int64_t keys) {
    return (keys + KEYS - 1) / KEYS * KEYS;
}

static int64_t units(int64_t elements) {
    return (elements + PER_UNIT - 1) / PER_UNIT;
}

/* A matrix of the head as it is packed: rows of `depth` elements, zeros behind them and behind the last row. */
typedef struct matrix {
    const element *first;
    int64_t step, rows, depth;
} matrix;

static int64_t row_units(const matrix *m) {
    return amp_attention_padded(m->depth) / PER_UNIT;
}

static void pack_rows(unit *to, const matrix *m, int64_t begin, int64_t count) {
    const int64_t step = row_units(m), columns = amp_attention_padded(m->depth);
    for (int64_t i = 0; i < count; i++, to += step) {
        const int64_t depth = begin + i < m->rows ? m->depth : 0;
        const element *from = m->first + (begin + i) * m->step;
        element *out = (element *)(void *)to;
        int64_t j = 0;
        for (; j + VL <= depth; j += VL) e_copy(out + j, from + j);
        for (; j < columns; j += VL) e_store(out + j, depth > j ? e_load_first(from + j, depth - j) : v_set1(0.0f));
    }
}

/* ---- A block of rows ---------------------------------------------------------------------------------------------- */
/* Where everything lies in the room. Of q and the gradient of the result, `across` has a row in each lane, `along` rows
 * as they are, but PER_UNIT of them to a row of units. */
typedef struct room {
    unit *k, *v;    /* rows, padded_keys of them */
    unit *k_across; /* [depth][padded_keys] */
    unit *q, *of;   /* rows, LANES of them */
    unit *q_across, *of_across;
    unit *q_along, *of_along;                              /* the first is room for keys before */
    float *scores, *dp;                                    /* [STRIP][LANES]; the scores become their powers */
    element *p, *ds;                                       /* [KEYS][LANES] */
    unit *ds_along;                                        /* PER_UNIT keys to a row */
    float *dq;                                             /* [depth][LANES] */
    float max[LANES], sum[LANES], dot[LANES], mask[LANES]; /* of each lane: Σ e, Σ e·dp; of one key */
} room;

typedef struct task {
    const amp_attention_head *h;
    const amp_attention_gradients *g;
    room *r;
    matrix q, of, k, v;
    int64_t padded; /* keys */
    int64_t end;    /* keys that the last row sees */
    int64_t lanes;  /* vectors of them */
} task;

static void *take(char **at, int64_t words) {
    void *here = *at;
    *at += (words * 4 + 63) / 64 * 64;
    return here;
}

static room *carve(void *memory, int64_t padded, int64_t depth, int64_t width) {
    const int64_t d = amp_attention_padded(depth), e = amp_attention_padded(width),
                  strip = padded < STRIP ? padded : STRIP;
    char *at = memory;
    room *r = take(&at, (int64_t)(sizeof *r / 4) + 16);
    r->k = take(&at, padded * d / PER_UNIT);
    r->v = take(&at, padded * e / PER_UNIT);
    r->k_across = take(&at, (d + ROWS) * padded / PER_UNIT);
    r->q = take(&at, LANES * d / PER_UNIT);
    r->of = take(&at, LANES * e / PER_UNIT);
    r->q_across = take(&at, d * LANES / PER_UNIT);
    r->of_across = take(&at, e * LANES / PER_UNIT);
    r->q_along = take(&at, KEYS * d / PER_UNIT);
    r->of_along = take(&at, LANES * e / PER_UNIT);
    r->scores = take(&at, strip * LANES);
    r->dp = take(&at, strip * LANES);
    r->p = take(&at, KEYS * LANES / PER_UNIT);
    r->ds = take(&at, KEYS * LANES / PER_UNIT);
    r->ds_along = take(&at, KEYS * LANES / PER_UNIT);
    r->dq = take(&at, (d + ROWS) * LANES);
    return r;
}

/* k and v once for all of a head's rows. */
static void pack_keys(const task *t) {
    const int64_t step = row_units(&t->k), to_step = t->padded / PER_UNIT, columns = amp_attention_padded(t->k.depth);
    room *r = t->r;
    pack_rows(r->k, &t->k, 0, t->padded);
    pack_rows(r->v, &t->v, 0, t->padded);
    memset(r->k_across, 0, (size_t)((t->k.depth + ROWS) * to_step) * sizeof(unit));
    for (int64_t j = 0; j < t->padded; j += KEYS) {
        const unit *along = units_along(r->q_along, r->k + j * step, KEYS, columns);
        transpose_units(r->k_across + j / PER_UNIT, to_step, along, columns, KEYS / PER_UNIT, t->k.depth);
    }
}

static void pack_block(const matrix *m, unit *whole, unit *across, unit **along) {
    pack_rows(whole, m, 0, LANES);
    transpose_units(across, LANES, whole, row_units(m), LANES, units(m->depth));
    *along = units_along(*along, whole, LANES, amp_attention_padded(m->depth));
}

/* ---- Scores ------------------------------------------------------------------------------------------------------- */
/* The mask's numbers for one key. */
static void read_mask(const task *t, int64_t key) {
    const amp_attention_head *h = t->h;
    const float *mask = h->mask + key * h->mask_key_step;
    for (int64_t i = 0; i < h->rows; i++) t->r->mask[i] = mask[i * h->mask_row_step];
}

/* Scaled, masked, −inf where hidden; the largest of each lane. */
static void finish_scores(const task *t, float *s, int64_t key) {
    const amp_attention_head *h = t->h;
    const vf none = v_set1(-INFINITY), scale = v_set1(h->scale);
    const int64_t blind = h->causal ? key - h->first_row : 0; /* lanes before the first that sees it */
    if (h->mask) read_mask(t, key);
    for (int64_t i = 0; i < t->lanes; i++, s += VL) {
        const int64_t hidden = blind - i * VL;
        vf x = v_load(s) * scale;
        if (h->mask) x = x + v_load(t->r->mask + i * VL);
        if (hidden > 0) x = v_keep_first(none, hidden < VL ? hidden : VL, x);
        v_store(s, x);
        v_store(t->r->max + i * VL, v_max(x, v_load(t->r->max + i * VL)));
    }
}

static void clear_keys(const task *t, int64_t from, int64_t to) {
    for (int64_t i = from * LANES; i < to * LANES; i++) {
        t->r->scores[i] = -INFINITY;
        t->r->dp[i] = 0.0f;
    }
}

/* Scores and dp of n keys; behind them, up to a whole block, keys that nobody sees. */
static void score_strip(const task *t, int64_t first, int64_t n) {
    room *r = t->r;
    const rows k = {r->k + first * row_units(&t->k), row_units(&t->k)}, q = {r->q_across, LANES};
    const rows v = {r->v + first * row_units(&t->v), row_units(&t->v)}, of = {r->of_across, LANES};
    set_product(r->scores, LANES, k, q, n, t->lanes, units(t->k.depth));
    set_product(r->dp, LANES, v, of, n, t->lanes, units(t->v.depth));
    clear_keys(t, n, whole_blocks(n));
    for (int64_t j = 0; j < n; j++) finish_scores(t, r->scores + j * LANES, first + j);
}

/* ---- Weights ------------------------------------------------------------------------------------------------------ */
/* Scores to powers; their sums, and those of their products with dp, are added. `before`: the maximum that the sums so
 * far are relative to. */
static void weigh_lanes(const task *t, int64_t lane, int64_t n, vf before) {
    room *r = t->r;
    const vf zero = v_set1(0.0f), none = v_set1(-INFINITY), top = v_load(r->max + lane);
    const vf max = v_select(v_eq(top, none), zero, top); /* −inf − −inf would be NaN, and a true NaN must stay one */
    const vf correction = v_exp_negative(v_select(v_eq(before, none), none, before - max));
    vf sum = v_load(r->sum + lane) * correction, dot = v_load(r->dot + lane) * correction;
    for (int64_t j = 0; j < n; j += KEYS) {
        vf block_sum = zero, block_dot = zero;
        for (int64_t i = j; i < j + KEYS; i++) {
            const vf e = v_exp_negative(v_load(r->scores + i * LANES + lane) - max);
            v_store(r->scores + i * LANES + lane, e);
            block_sum = block_sum + e;
            block_dot = v_fma(e, v_load(r->dp + i * LANES + lane), block_dot);
        }
        sum = sum + block_sum;
        dot = dot + block_dot;
    }
    v_store(r->sum + lane, sum);
    v_store(r->dot + lane, dot);
}

static void weigh_strip(const task *t, int64_t first, int64_t n) {
    float before[LANES];
    memcpy(before, t->r->max, sizeof before);
    score_strip(t, first, n);
    for (int64_t i = 0; i < t->lanes; i++) weigh_lanes(t, i * VL, n, v_load(before + i * VL));
}

/* What powers are multiplied by, and Σ p·dp, in the places of Σ e and Σ e·dp. */
static void finish_sums(const task *t) {
    const vf zero = v_set1(0.0f);
    for (int64_t i = 0; i < t->lanes * VL; i += VL) {
        const vf sum = v_load(t->r->sum + i), inverse = v_select(v_eq(sum, zero), zero, v_set1(1.0f) / sum);
        v_store(t->r->sum + i, inverse);
        v_store(t->r->dot + i, v_load(t->r->dot + i) * inverse);
    }
}

/* PER_UNIT keys' weights, and slopes times the scale, from `key` of the strip on, as key `at` of the block. Lanes
 * behind the last row get zeros: an infinite key makes NaN of them. */
static void slope_keys(const task *t, int64_t key, int64_t at) {
    room *r = t->r;
    const vf scale = v_set1(t->h->scale), zero = v_set1(0.0f);
    for (int64_t lane = 0; lane < t->lanes * VL; lane += VL) {
        const int64_t left = t->h->rows - lane;
        const vf inverse = v_load(r->sum + lane), mean = v_load(r->dot + lane);
        vf ds[PER_UNIT];
        for (int i = 0; i < PER_UNIT; i++) {
            const int64_t from = (key + i) * LANES + lane, to = (at + i) * LANES + lane;
            vf p = v_load(r->scores + from) * inverse;
            ds[i] = p * (v_load(r->dp + from) - mean) * scale;
            if (left < VL) {
                p = v_keep_first(p, left, zero);
                ds[i] = v_keep_first(ds[i], left, zero);
            }
            e_store(r->p + to, p);
            e_store(r->ds + to, ds[i]);
        }
        u_store_along(r->ds_along + at / PER_UNIT * LANES + lane, ds);
    }
}

/* ---- Gradients ---------------------------------------------------------------------------------------------------- */
/* Those that KEYS keys have a part in: key `at` of the strip is the head's key. */
static void add_block(const task *t, int64_t at, int64_t key) {
    room *r = t->r;
    const amp_attention_gradients *g = t->g;
    const int64_t left = t->end - key, n = left < KEYS ? left : KEYS, rows_used = t->lanes * VL;
    const rows p = {(const unit *)(const void *)r->p, LANES / PER_UNIT};
    const rows ds = {(const unit *)(const void *)r->ds, LANES / PER_UNIT}, ds_along = {r->ds_along, LANES};
    const rows of = {r->of_along, g->width_step}, q = {r->q_along, g->depth_step};
    const rows k = {r->k_across + key / PER_UNIT, t->padded / PER_UNIT};
    for (int64_t j = 0; j < KEYS; j += PER_UNIT) slope_keys(t, at + j, j);
    add_product(g->v + key * g->width_step, g->width_step, p, of, n, g->width_step / VL, units(rows_used));
    add_product(g->k + key * g->depth_step, g->depth_step, ds, q, n, g->depth_step / VL, units(rows_used));
    add_product(r->dq, LANES, k, ds_along, t->k.depth, t->lanes, units(n));
}

static int64_t keys_at(const task *t, int64_t first) {
    return t->end - first < STRIP ? t->end - first : STRIP;
}

/* Of more keys than a strip has, scores are made twice: for the sums of rows, and once these are known. */
static void run(const task *t) {
    room *r = t->r;
    for (int i = 0; i < LANES; i++) {
        r->max[i] = -INFINITY;
        r->sum[i] = r->dot[i] = r->mask[i] = 0.0f;
    }
    memset(r->dq, 0, (size_t)(t->k.depth + ROWS) * LANES * sizeof *r->dq);
    for (int64_t first = 0; first < t->end; first += STRIP) weigh_strip(t, first, keys_at(t, first));
    float sum[LANES], dot[LANES];
    finish_sums(t);
    memcpy(sum, r->sum, sizeof sum);
    memcpy(dot, r->dot, sizeof dot);
    for (int64_t first = 0; first < t->end; first += STRIP) {
        if (t->end > STRIP) weigh_strip(t, first, keys_at(t, first));
        memcpy(r->sum, sum, sizeof sum);
        memcpy(r->dot, dot, sizeof dot);
        for (int64_t j = 0; j < keys_at(t, first); j += KEYS) add_block(t, j, first + j);
    }
}

static void store_queries(const task *t) {
    const amp_attention_head *h = t->h;
    transpose_units((unit *)(void *)t->g->q, t->g->depth_step, (const unit *)(const void *)t->r->dq, LANES, h->depth,
                    h->rows);
}

void BACKWARD_PASTE(UNIT_DTYPE, SIMD_ISA)(const amp_attention_head *h, const amp_attention_gradients *g, void *memory,
                                          bool reuse) {
    const int64_t padded = whole_blocks(h->keys), last = h->first_row + h->rows;
    task t = {.h = h,
              .g = g,
              .r = carve(memory, padded, h->depth, h->width),
              .q = {h->q, h->q_step, h->rows, h->depth},
              .of = {h->out, h->out_step, h->rows, h->width},
              .k = {h->k, h->k_step, h->keys, h->depth},
              .v = {h->v, h->v_step, h->keys, h->width},
              .padded = padded,
              .end = h->causal && last < h->keys ? last : h->keys,
              .lanes = (units(h->rows) * PER_UNIT + VL - 1) / VL};
    if (!reuse) pack_keys(&t);
    pack_block(&t.q, t.r->q, t.r->q_across, &t.r->q_along);
    pack_block(&t.of, t.r->of, t.r->of_across, &t.r->of_along);
    run(&t);
    store_queries(&t);
}
