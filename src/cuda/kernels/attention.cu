/* Attention without a matrix of scores in memory: a warp holds 16 query rows, and meets the keys a tile at a time with
 * a running maximum and sum (Dao et al., FlashAttention, 2022; Milakov & Gimelshein, Online normalizer calculation for
 * softmax, 2018).
 *
 * Scores, softmax and results are f32 (f64 for f64); weights exp(s − m) ≤ 1 are rounded to the inputs' dtype before
 * they meet the values. A row of which no key is left gives 0. Where a query row ends, keys beyond it are not read if
 * causal.
 *
 * Deep heads: scores are summed over pieces of the depth, which are read again for every tile of keys, and each piece
 * of the values' width is a block's work of its own. Few query rows: several blocks share their keys, and their sums
 * are joined after. */
#include "cuda/kernels/heads.h"
#include "cuda/kernels/tile.h"

template <class Elements, int DEPTH, int WARPS, int KEYS>
struct attention_memory {
    typedef typename Elements::stored stored;
    typedef typename Elements::wide wide;
    enum {
        STEP = DEPTH + 16 / (int)sizeof(stored), /* so that rows begin in different banks */
        SCORES = KEYS + 16 / (int)sizeof(wide),
        WEIGHTS = SCORES * (int)sizeof(wide) / (int)sizeof(stored)
    };
    stored q[WARPS * 16 * STEP], k[KEYS * STEP], v[KEYS * STEP];
    wide scores[WARPS][16 * SCORES]; /* then the weights, row by row in the same place */
    wide factors[WARPS][16];
};

/* What a lane knows of its query rows: on the GPU two lanes share one, a lane alone has all 16. */
enum { AMP_ROW_LANES = AMP_LANES > 16 ? AMP_LANES / 16 : 1, AMP_LANE_ROWS = AMP_LANES > 16 ? 1 : 16 / AMP_LANES };

/* `rows` rows of `columns` elements, a multiple of 16, of which `valid` and `real` are there; 0 for the others. */
template <class Stored>
AMP_DEVICE void fetch_rows(Stored *to, int step, const amp_cuda_heads &h, int64_t at, int rows, int64_t valid,
                           int columns, int real) {
    const Stored *from = (const Stored *)h.data + at;
    enum { EACH = 16 / sizeof(Stored) };
    const int each = h.vectors ? (int)EACH : 1, pieces = columns / each;
    for (int i = AMP_THREAD; i < rows * pieces; i += AMP_THREADS) {
        const int row = i / pieces, column = i % pieces * each;
        const bool inside = row < valid && column < real;
        Stored *const target = to + row * step + column;
        if (h.vectors) {
            const sixteen_bytes none = {};
            *(sixteen_bytes *)(void *)target =
                inside ? *(const sixteen_bytes *)(const void *)(from + row * h.row + column) : none;
        } else {
            *target = inside ? from[row * h.row + column * h.column] : (Stored)0;
        }
    }
}

template <class Elements, int DEPTH, int WARPS, int KEYS, bool DEEP>
struct attention {
    typedef typename Elements::stored stored;
    typedef typename Elements::wide wide;
    typedef attention_memory<Elements, DEPTH, WARPS, KEYS> memory;
    typedef tile<Elements> sums;
    enum { MINE_ALL = KEYS / AMP_ROW_LANES };

    const amp_cuda_attention &a;
    memory &m;
    int64_t q_at, k_at, v_at, mask_at, out_at; /* of the head */
    int64_t block_row, first;                  /* query row of the block, and of the warp */
    int64_t head, share;                       /* the head, and which part of the keys */
    int column;                                /* of the values, the first */
    int depth, width;                          /* in whole tiles */
    sums results[DEPTH / 16];
    int rows[sums::MINE]; /* of the elements of a tile */
    wide high[AMP_LANE_ROWS], total[AMP_LANE_ROWS];

    AMP_DEVICE_MEMBER attention(const amp_cuda_attention &arguments, memory &shared) : a(arguments), m(shared) {}

    AMP_DEVICE_MEMBER int warp() const {
        return AMP_THREAD / AMP_LANES;
    }
    AMP_DEVICE_MEMBER int row_of(int i) const {
        return AMP_LANES > 16 ? lane_of_warp() / AMP_ROW_LANES : lane_of_warp() * AMP_LANE_ROWS + i;
    }
    AMP_DEVICE_MEMBER int part() const {
        return lane_of_warp() % AMP_ROW_LANES;
    }

    AMP_DEVICE_MEMBER void fetch_query(int begin, int columns) {
        const int64_t at = q_at + block_row * a.q.row + begin * a.q.column;
        fetch_rows(m.q, memory::STEP, a.q, at, AMP_THREADS / AMP_LANES * 16, a.rows - block_row, columns,
                   a.depth - begin);
    }

    AMP_DEVICE_MEMBER void start() {
        q_at = head_offset(a, a.q, head, 1);
        k_at = head_offset(a, a.k, head, a.group);
        v_at = head_offset(a, a.v, head, a.group);
        mask_at = head_offset(a, a.mask, head, 1);
        out_at = head_offset(a, a.out, head, 1);
        first = block_row + warp() * 16;
        for (int d = 0; d < DEPTH / 16; d++) results[d].clear();
        for (int i = 0; i < AMP_LANE_ROWS; i++) {
            high[i] = -INFINITY;
            total[i] = 0;
        }
        width = whole_tiles(a.width - column);
        if (!DEEP) fetch_query(0, depth);
    }

    AMP_DEVICE_MEMBER wide score(wide x, int64_t row, int64_t key) const {
        if (key >= a.keys || (a.causal && key > row)) return -INFINITY;
        x *= (wide)a.scale;
        if (!a.mask.data || row >= a.rows) return x;
        const wide mask = load<wide>(a.mask.data, a.mask.dtype, mask_at + row * a.mask.row + key * a.mask.column);
        return a.mask.dtype != AMP_BOOL ? x + mask : mask != 0 ? x : x - (wide)INFINITY; /* NaN and +∞ give NaN */
    }

    /* Of one query row: scores become weights, and what was summed before is scaled to the new maximum. */
    AMP_DEVICE_MEMBER void weigh_row(int i, int64_t key) {
        const int row = row_of(i);
        wide *const scores = m.scores[warp()] + row * memory::SCORES, mine[MINE_ALL], most = high[i], sum = 0;
        for (int j = 0; j < MINE_ALL; j++) {
            const int column = j * AMP_ROW_LANES + part();
            mine[j] = score(scores[column], first + row, key + column);
            most = mine[j] > most ? mine[j] : most;
        }
        for (int step = 1; step < AMP_ROW_LANES; step *= 2) {
            const wide other = AMP_FROM_LANE(most, step);
            most = other > most ? other : most;
        }
        AMP_WARP_BARRIER(); /* the row has been read */
        const wide base = most == (wide)-INFINITY ? (wide)0 : most, factor = exp(high[i] - base);
        stored *const weights = (stored *)(void *)scores;
        for (int j = 0; j < MINE_ALL; j++) {
            const wide weight = exp(mine[j] - base);
            sum += weight;
            weights[j * AMP_ROW_LANES + part()] = Elements::narrow(weight);
        }
        for (int step = 1; step < AMP_ROW_LANES; step *= 2) sum += AMP_FROM_LANE(sum, step);
        total[i] = total[i] * factor + sum;
        high[i] = most;
        if (part() == 0) m.factors[warp()][row] = factor;
    }

    AMP_DEVICE_MEMBER static int whole_tiles(int columns) {
        return columns < DEPTH ? (columns + 15) / 16 * 16 : DEPTH;
    }

    AMP_DEVICE_MEMBER void multiply_deep_keys(int64_t key) {
        sums scores[KEYS / 16];
        for (int c = 0; c < KEYS / 16; c++) scores[c].clear();
        for (int begin = 0; begin < a.depth; begin += DEPTH) {
            const int columns = whole_tiles(a.depth - begin);
            AMP_BARRIER(); /* the pieces before have been read */
            fetch_query(begin, columns);
            fetch_rows(m.k, memory::STEP, a.k, k_at + key * a.k.row + begin * a.k.column, KEYS, a.keys - key, columns,
                       a.depth - begin);
            AMP_BARRIER();
            AMP_UNROLLED
            for (int c = 0; c < KEYS / 16; c++) {
                for (int d = 0; d < columns; d += 16) {
                    scores[c].template add<true>(m.q + warp() * 16 * memory::STEP + d, memory::STEP,
                                                 m.k + c * 16 * memory::STEP + d, memory::STEP);
                }
            }
        }
        if (a.depth == 0) AMP_BARRIER(); /* the values are waited for all the same */
        for (int c = 0; c < KEYS / 16; c++) scores[c].store(m.scores[warp()] + c * 16, memory::SCORES);
    }

    AMP_DEVICE_MEMBER void multiply_keys() {
        for (int c = 0; c < KEYS / 16; c++) {
            sums scores;
            scores.clear();
            for (int d = 0; d < depth; d += 16) {
                scores.template add<true>(m.q + warp() * 16 * memory::STEP + d, memory::STEP,
                                          m.k + c * 16 * memory::STEP + d, memory::STEP);
            }
            scores.store(m.scores[warp()] + c * 16, memory::SCORES);
        }
    }

    AMP_DEVICE_MEMBER void multiply_values() {
        const stored *const weights = (const stored *)(const void *)m.scores[warp()];
        AMP_UNROLLED
        for (int d = 0; d < DEPTH / 16; d++) {
            if (d * 16 >= width) continue; /* the loop is unrolled, so that results stay in registers */
            for (int i = 0; i < sums::MINE; i++) results[d].element(i) *= m.factors[warp()][rows[i]];
            for (int c = 0; c < KEYS; c += 16) {
                results[d].template add<false>(weights + c, memory::WEIGHTS, m.v + c * memory::STEP + d * 16,
                                               memory::STEP);
            }
        }
    }

    AMP_DEVICE_MEMBER void meet_keys(int64_t key) {
        AMP_BARRIER(); /* the tiles before have been read */
        fetch_rows(m.v, memory::STEP, a.v, v_at + key * a.v.row + column * a.v.column, KEYS, a.keys - key, width,
                   a.width - column);
        if (DEEP) {
            multiply_deep_keys(key);
        } else {
            fetch_rows(m.k, memory::STEP, a.k, k_at + key * a.k.row, KEYS, a.keys - key, depth, a.depth);
            AMP_BARRIER();
            multiply_keys();
        }
        AMP_WARP_BARRIER();
        for (int i = 0; i < AMP_LANE_ROWS; i++) weigh_row(i, key);
        AMP_WARP_BARRIER();
        multiply_values();
    }

    AMP_DEVICE_MEMBER int64_t place_of(int64_t row) const {
        return place_of_share(a, share, head, row);
    }

    AMP_DEVICE_MEMBER void put(int64_t row, int at, wide x, wide whole) {
        if (row >= a.rows || at >= a.width) return;
        if (a.parts > 1) {
            ((wide *)a.sums)[place_of(row) * a.width + at] = x;
        } else {
            ((stored *)a.out.data)[out_at + row * a.out.row + at * a.out.column] =
                Elements::narrow(whole == 0 ? (wide)0 : x / whole);
        }
    }

    AMP_DEVICE_MEMBER void finish() {
        wide *const scratch = m.scores[warp()];
        for (int i = 0; i < AMP_LANE_ROWS; i++) {
            const int64_t row = first + row_of(i);
            if (part() != 0) continue;
            m.factors[warp()][row_of(i)] = total[i];
            if (a.parts == 1 || row >= a.rows) continue;
            ((wide *)a.highs)[place_of(row)] = high[i];
            ((wide *)a.totals)[place_of(row)] = total[i];
        }
        AMP_UNROLLED
        for (int d = 0; d < DEPTH / 16; d++) {
            if (d * 16 >= width) continue;
            AMP_WARP_BARRIER(); /* the scratch has been read */
            results[d].store(scratch, 16);
            AMP_WARP_BARRIER();
            for (int i = lane_of_warp(); i < 256; i += AMP_LANES) {
                put(first + i / 16, column + d * 16 + i % 16, scratch[i], m.factors[warp()][i / 16]);
            }
        }
    }

    AMP_DEVICE_MEMBER void run() {
        const int warps = AMP_THREADS / AMP_LANES;
        const int64_t tiles = (a.rows + warps * 16 - 1) / (warps * 16), columns = (a.width + DEPTH - 1) / DEPTH;
        const int64_t works = a.heads * tiles * columns * a.parts;
        depth = whole_tiles(a.depth);
        sums::find_rows(rows, m.scores[warp()]);
        for (int64_t work = AMP_BLOCK; work < works; work += AMP_BLOCKS) {
            share = work % a.parts;
            column = (int)(work / a.parts % columns) * DEPTH;
            head = work / a.parts / columns / tiles;
            const int64_t tile = work / a.parts / columns % tiles;
            block_row = (tiles - 1 - tile) * warps * 16; /* of causal ones the longest first */
            const int64_t after = block_row + warps * 16, keys = a.causal && after < a.keys ? after : a.keys;
            const int64_t end = (share + 1) * a.part_keys < keys ? (share + 1) * a.part_keys : keys;
            start();
            for (int64_t key = share * a.part_keys; key < end; key += KEYS) meet_keys(key);
            AMP_WARP_BARRIER();
            finish();
            AMP_BARRIER(); /* before the next query rows come */
        }
    }
};

#define ATTENTION(suffix, elements, depth, warps, keys, deep)                                                          \
    AMP_KERNEL(attention_##suffix, amp_cuda_attention) {                                                               \
        typedef attention<elements, depth, warps, keys, deep> kernel;                                                  \
        AMP_SHARED_BYTES(bytes, sizeof(kernel::memory));                                                               \
        kernel run(a, *(kernel::memory *)(void *)bytes);                                                               \
        run.run();                                                                                                     \
    }
ATTENTION(f16_64, f16_elements, 64, 4, 32, false)
ATTENTION(f16_128, f16_elements, 128, 4, 32, false)
ATTENTION(f16_deep, f16_elements, 128, 4, 32, true)
ATTENTION(bf16_64, bf16_elements, 64, 4, 32, false)
ATTENTION(bf16_128, bf16_elements, 128, 4, 32, false)
ATTENTION(bf16_deep, bf16_elements, 128, 4, 32, true)
ATTENTION(f32_64, plain_elements<float>, 64, 4, 32, false)
ATTENTION(f32_128, plain_elements<float>, 128, 2, 16, false)
ATTENTION(f32_deep, plain_elements<float>, 128, 2, 16, true)
ATTENTION(f64_64, plain_elements<double>, 64, 2, 16, false)
ATTENTION(f64_deep, plain_elements<double>, 64, 2, 16, true)

/* ---- Parts of the keys ------------------------------------------------------------------------------------------- */
template <class Elements>
AMP_DEVICE void join_parts(const amp_cuda_attention &a) {
    typedef typename Elements::wide wide;
    const int64_t rows = a.heads * a.rows;
    const wide *const highs = (const wide *)a.highs, *const totals = (const wide *)a.totals;
    for (int64_t i = first_element(); i < rows * a.width; i += element_step()) {
        const int64_t row = i / a.width, column = i % a.width;
        wide most = -INFINITY, sum = 0, whole = 0;
        for (int64_t p = 0; p < a.parts; p++) most = highs[p * rows + row] > most ? highs[p * rows + row] : most;
        const wide base = most == (wide)-INFINITY ? (wide)0 : most;
        for (int64_t p = 0; p < a.parts; p++) {
            const wide share = exp(highs[p * rows + row] - base);
            sum += share * ((const wide *)a.sums)[(p * rows + row) * a.width + column];
            whole += share * totals[p * rows + row];
        }
        const int64_t at = head_offset(a, a.out, row / a.rows, 1) + row % a.rows * a.out.row + column * a.out.column;
        ((typename Elements::stored *)a.out.data)[at] = Elements::narrow(whole == 0 ? (wide)0 : sum / whole);
    }
}
#define JOIN(suffix, elements)                                                                                         \
    AMP_KERNEL(attention_join_##suffix, amp_cuda_attention) {                                                          \
        join_parts<elements>(a);                                                                                       \
    }
JOIN(f16, f16_elements)
JOIN(bf16, bf16_elements)
JOIN(f32, plain_elements<float>)
JOIN(f64, plain_elements<double>)
