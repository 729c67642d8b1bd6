/* Attention without a matrix of scores in memory: a warp holds 16 query rows, and meets the keys a tile at a time with a running
 * maximum and sum (Dao et al., FlashAttention, 2022; Milakov & Gimelshein, Online normalizer calculation for softmax, 2018).
 *
 * Scores, softmax and results are f32 (f64 for f64); weights exp(s − m) ≤ 1 are rounded to the inputs' dtype before they
 * meet the values. A row of which no key is left gives 0. Where a query row ends, keys beyond it are not read if causal. */
#include "cuda/device/tile.h"

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

AMP_DEVICE int64_t head_offset(const amp_cuda_attention &a, const amp_cuda_heads &h, int64_t head, int64_t group) {
    int64_t at = 0;
    for (int d = a.batch_rank - 1; d >= 0; d--) {
        const int64_t index = head % a.batch[d];
        at += (d == a.batch_rank - 1 ? index / group : index) * h.batch[d];
        head /= a.batch[d];
    }
    return at;
}

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

template <class Elements, int DEPTH, int WARPS, int KEYS>
struct attention {
    typedef typename Elements::stored stored;
    typedef typename Elements::wide wide;
    typedef attention_memory<Elements, DEPTH, WARPS, KEYS> memory;
    typedef tile<Elements> sums;
    enum { MINE_ALL = KEYS / AMP_ROW_LANES };

    const amp_cuda_attention &a;
    memory &m;
    int64_t q_at, k_at, v_at, mask_at, out_at; /* of the head */
    int64_t first;                             /* query row of the warp */
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

    AMP_DEVICE_MEMBER void start(int64_t head, int64_t block_row) {
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
        fetch_rows(m.q, memory::STEP, a.q, q_at + block_row * a.q.row, AMP_THREADS / AMP_LANES * 16, a.rows - block_row,
                   depth, a.depth);
    }

    AMP_DEVICE_MEMBER wide score(wide x, int64_t row, int64_t key) const {
        if (key >= a.keys || (a.causal && key > row)) return -INFINITY;
        x *= (wide)a.scale;
        if (!a.mask.data || row >= a.rows) return x;
        const wide mask = load<wide>(a.mask.data, a.mask.dtype, mask_at + row * a.mask.row + key * a.mask.column);
        return a.mask.dtype != AMP_BOOL ? x + mask : mask != 0 ? x : (wide)-INFINITY;
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
#ifdef __CUDACC__
#pragma unroll
#endif
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
        fetch_rows(m.k, memory::STEP, a.k, k_at + key * a.k.row, KEYS, a.keys - key, depth, a.depth);
        fetch_rows(m.v, memory::STEP, a.v, v_at + key * a.v.row, KEYS, a.keys - key, width, a.width);
        AMP_BARRIER();
        multiply_keys();
        AMP_WARP_BARRIER();
        for (int i = 0; i < AMP_LANE_ROWS; i++) weigh_row(i, key);
        AMP_WARP_BARRIER();
        multiply_values();
    }

    AMP_DEVICE_MEMBER void finish() {
        wide *const scratch = m.scores[warp()];
        for (int i = 0; i < AMP_LANE_ROWS; i++) {
            if (part() == 0) m.factors[warp()][row_of(i)] = total[i];
        }
#ifdef __CUDACC__
#pragma unroll
#endif
        for (int d = 0; d < DEPTH / 16; d++) {
            if (d * 16 >= width) continue;
            AMP_WARP_BARRIER(); /* the scratch has been read */
            results[d].store(scratch, 16);
            AMP_WARP_BARRIER();
            for (int i = lane_of_warp(); i < 256; i += AMP_LANES) {
                const int row = i / 16, column = d * 16 + i % 16;
                const wide whole = m.factors[warp()][row];
                if (first + row >= a.rows || column >= a.width) continue;
                const wide x = whole == 0 ? (wide)0 : scratch[i] / whole;
                ((stored *)a.out.data)[out_at + (first + row) * a.out.row + column * a.out.column] =
                    Elements::narrow(x);
            }
        }
    }

    AMP_DEVICE_MEMBER void run() {
        const int warps = AMP_THREADS / AMP_LANES;
        const int64_t tiles = (a.rows + warps * 16 - 1) / (warps * 16);
        depth = (a.depth + 15) / 16 * 16;
        width = (a.width + 15) / 16 * 16;
        sums::find_rows(rows, m.scores[warp()]);
        for (int64_t work = AMP_BLOCK; work < a.heads * tiles; work += AMP_BLOCKS) {
            const int64_t row = (tiles - 1 - work % tiles) * warps * 16; /* of causal ones the longest first */
            const int64_t after = row + warps * 16, keys = a.causal && after < a.keys ? after : a.keys;
            start(work / tiles, row);
            for (int64_t key = 0; key < keys; key += KEYS) meet_keys(key);
            AMP_WARP_BARRIER();
            finish();
            AMP_BARRIER(); /* before the next query rows come */
        }
    }
};

#define ATTENTION(suffix, elements, depth, warps, keys)                                                                \
    AMP_KERNEL(attention_##suffix, amp_cuda_attention) {                                                               \
        typedef attention<elements, depth, warps, keys> kernel;                                                        \
        AMP_SHARED_BYTES(bytes, sizeof(kernel::memory));                                                               \
        kernel run(a, *(kernel::memory *)(void *)bytes);                                                               \
        run.run();                                                                                                     \
    }
ATTENTION(f16_64, f16_elements, 64, 4, 32)
ATTENTION(f16_128, f16_elements, 128, 4, 32)
ATTENTION(bf16_64, bf16_elements, 64, 4, 32)
ATTENTION(bf16_128, bf16_elements, 128, 4, 32)
ATTENTION(f32_64, plain_elements<float>, 64, 4, 32)
ATTENTION(f32_128, plain_elements<float>, 128, 2, 16)
ATTENTION(f64_64, plain_elements<double>, 64, 2, 16)
