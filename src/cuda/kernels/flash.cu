/* Attention of 16-bit floats for sm_80 and later: FlashAttention-2 (Dao, 2023). A warp holds 32 query rows of a
 * block's 128, and meets 64 keys at a time with a running maximum and sum. Scores become weights where they are, in
 * registers: the sums of q·kᵀ lie in the lanes as the left side of the product with the values must. The next keys and
 * values are on their way meanwhile. In shared memory the eight 16-byte pieces of 128 bytes are exchanged by the row's
 * number, so that a column of pieces meets every bank once.
 *
 * Scores s are f32: weights 2^(c·s − c·max) with c = scale / ln 2 > 0, the exponent one fused multiply-add, and
 * 2^(c·(s − max)) where c·max is so large that its rounding would count. With a mask they are scale·s + mask, and
 * weights 2^((score − max) / ln 2). Weights are rounded to the inputs' dtype before they meet the values, and summed in
 * f32 before that, first each lane's own, then the four lanes' of a row. A row of which no key is left gives 0. Every
 * sum has one order. */
#include "cuda/args/flash_args.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/warp_matrix.h"

#if defined(AMP_FAKE_THREADS) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800)
#define LOG2_E 1.44269504f
#define FAR 0x1p20f

/* STAGES 2: keys and values of the next tile come while this one is worked on. 1, where shared memory is short: values
 * come during the product with the keys, the next keys during that with the values. */
template <class Elements, int DEPTH, int STAGES, bool MASKED>
struct flash {
    typedef typename Elements::stored stored;
    enum {
        ROWS = AMP_CUDA_FLASH_ROWS,
        KEYS = AMP_CUDA_FLASH_KEYS,
        WARP_ROWS = 32,
        ROW = DEPTH * 2, /* bytes */
        PIECES = DEPTH / 8,
        PASS = AMP_CUDA_FLASH_THREADS / PIECES, /* rows that the block copies at once; a multiple of 8 */
        VALUES = KEYS * ROW,                    /* of a stage, after its keys */
        STAGE = 2 * VALUES
    };

    const amp_cuda_attention &a; /* rows, keys and works fit int */
    char *const queries, *const stages;
    unsigned k, v; /* what this thread copies first of the next tile, in 16 bytes from the tensor's start */
    unsigned work; /* a head, 128 of its rows, a share of the keys */
    int first;     /* the warp's first query row */
    int end;       /* of the block's keys */
    int mask_at;   /* of the head */
    float scores[2][KEYS / 8][4], results[2][DEPTH / 8][4]; /* as multiply_add has them */
    float high[2][2], total[2][2]; /* of rows g and g + 8 of both; total: of this lane's columns */

    AMP_DEVICE_MEMBER flash(const amp_cuda_attention &arguments, char *memory)
        : a(arguments), queries(memory), stages(memory + ROWS * ROW) {}

    AMP_DEVICE_MEMBER static int warp_row() {
        return AMP_OF_WARP((int)(thread() / 32)) * WARP_ROWS;
    }
    AMP_DEVICE_MEMBER static int place(int row, int piece) {
        return row * ROW + (piece ^ (row & 7)) * 16;
    }
    /* `columns` further, a multiple of 16: two pieces each, which the exchange leaves beside each other. */
    AMP_DEVICE_MEMBER static int moved(int at, int columns) {
        return at ^ columns * 2;
    }
    AMP_DEVICE_MEMBER static unsigned thread() {
        return AMP_ANEW((unsigned)AMP_THREAD);
    }
    /* What this lane names of the first 16 × 16 elements of 16 rows, of a tile of keys and of one of values. */
    AMP_DEVICE_MEMBER static int query_at() {
        const unsigned t = thread();
        return place((int)(t / 32 * WARP_ROWS + t % 16), (int)(t / 16 % 2));
    }
    AMP_DEVICE_MEMBER static int key_at() {
        const unsigned t = thread();
        return place((int)(t % 8 + t / 16 % 2 * 8), (int)(t / 8 % 2));
    }
    AMP_DEVICE_MEMBER static int value_at() {
        const unsigned t = thread();
        return place((int)(t % 16), (int)(t / 16 % 2));
    }
    AMP_DEVICE_MEMBER unsigned tiles() const { /* of a head's rows */
        return ((unsigned)a.rows + ROWS - 1) / ROWS;
    }
    AMP_DEVICE_MEMBER unsigned head() const {
        return AMP_ANEW(work) / (unsigned)a.parts / tiles();
    }
    AMP_DEVICE_MEMBER unsigned share() const {
        return AMP_ANEW(work) % (unsigned)a.parts;
    }
    /* Of a lane's sums, those of the first or second half of 16 rows. */
    AMP_DEVICE_MEMBER int row_of(int m, int half) const {
        return first + m * 16 + half * 8 + (int)(thread() % 32 / 4);
    }
    AMP_DEVICE_MEMBER static int column_of_lane() {
        return (int)(thread() % 4 * 2);
    }

    /* ---- Copies ------------------------------------------------------------------------------------------------- */
    AMP_DEVICE_MEMBER static unsigned first_copied(const amp_cuda_heads &h, int64_t at) {
        const unsigned t = thread();
        return (unsigned)((at + t / PIECES * h.row) / 8) + t % PIECES;
    }
    /* `COUNT` rows, of which `valid` are there, with `columns` elements; 0 for all else. `from` moves on by them. */
    template <int COUNT>
    AMP_DEVICE_MEMBER void fetch(char *to, unsigned &from, const amp_cuda_heads &h, int valid, int columns) const {
        const int row = (int)(thread() / PIECES), piece = (int)(thread() % PIECES),
                  left = piece * 8 < columns ? valid - row : 0;
        const unsigned step = (unsigned)(AMP_ANEW(h.row) * PASS / 8);
        to += place(row, piece);
        AMP_UNROLLED
        for (int i = 0; i < COUNT / PASS; i++) {
            copy_later(to + i * PASS * ROW, (const sixteen_bytes *)h.data + from, i * PASS < left);
            from += step;
        }
    }
    AMP_DEVICE_MEMBER static int stage_of(int key) {
        return (int)((unsigned)key / KEYS % STAGES) * STAGE;
    }
    AMP_DEVICE_MEMBER void fetch_keys(int key) {
        fetch<KEYS>(stages + stage_of(key), k, a.k, (int)a.keys - key, a.depth);
    }
    AMP_DEVICE_MEMBER void fetch_values(int key) {
        fetch<KEYS>(stages + stage_of(key) + VALUES, v, a.v, (int)a.keys - key, a.width);
    }

    /* ---- One tile of keys --------------------------------------------------------------------------------------- */
    AMP_DEVICE_MEMBER void multiply_keys(int key) {
        const int keys_at = key_at() + stage_of(key), rows_at = query_at();
        AMP_UNROLLED
        for (int i = 0; i < 2 * (KEYS / 8) * 4; i++) scores[i / 4 / (KEYS / 8)][i / 4 % (KEYS / 8)][i % 4] = 0;
        AMP_UNROLLED
        for (int d = 0; d < DEPTH / 16; d++) {
            uint32_t rows[2][4];
            load_matrices(rows[0], queries + moved(rows_at, d * 16));
            load_matrices(rows[1], queries + moved(rows_at, d * 16) + 16 * ROW);
            AMP_UNROLLED
            for (int n = 0; n < KEYS / 8; n += 2) {
                uint32_t x[4];
                load_matrices(x, stages + moved(keys_at, d * 16) + n * 8 * ROW);
                AMP_UNROLLED
                for (int m = 0; m < 2; m++) {
                    multiply_add<Elements>(scores[m][n], rows[m], x);
                    multiply_add<Elements>(scores[m][n + 1], rows[m], x + 2);
                }
            }
        }
    }

    /* Scores of keys that are not there, or not for a row. */
    AMP_DEVICE_MEMBER void hide_keys(int64_t key) {
        AMP_UNROLLED
        for (int m = 0; m < 2; m++) {
            AMP_UNROLLED
            for (int half = 0; half < 2; half++) {
                const int row = row_of(m, half), after = a.causal && row < (int)a.keys ? row + 1 : (int)a.keys;
                const int left = after - key - column_of_lane();
                AMP_UNROLLED
                for (int n = 0; n < KEYS / 8; n++) {
                    if (n * 8 >= left) scores[m][n][half * 2] = -INFINITY;
                    if (n * 8 + 1 >= left) scores[m][n][half * 2 + 1] = -INFINITY;
                }
            }
        }
    }

    /* Of keys that are there; hide_keys comes after. */
    template <class Mask>
    AMP_DEVICE_MEMBER void mask_scores(int key, float with(float, Mask)) {
        const Mask *const mask = (const Mask *)a.mask.data + mask_at;
        const int step = (int)a.mask.row, last = (int)a.rows - 1;
        AMP_UNROLLED
        for (int i = 0; i < KEYS / 4; i++) { /* a column of this lane's */
            const int column = key + i / 2 * 8 + column_of_lane() + i % 2, there = column < (int)a.keys ? column : 0;
            const Mask *const from = mask + there * (int)a.mask.column;
            Mask x = 0;
            if (i % 8 == 0) AMP_WARP_BARRIER(); /* no more numbers on their way than there are registers */
            AMP_UNROLLED
            for (int r = 0; r < 4; r++) {
                const int row = row_of(r / 2, r % 2);
                if (r == 0 || step != 0) x = from[(row < last ? row : last) * step]; /* or the same for all rows */
                float &score = scores[r / 2][i / 2][r % 2 * 2 + i % 2];
                score = with(score * (float)a.scale, x);
            }
        }
    }
    AMP_DEVICE_MEMBER void meet_mask(int key) {
        switch (a.mask.dtype) {
        case AMP_BOOL: return mask_scores<uint8_t>(key, hidden);
        case AMP_F32: return mask_scores<float>(key, plus);
        default: return mask_scores<stored>(key, plus);
        }
    }
    AMP_DEVICE_MEMBER static float hidden(float score, uint8_t attends) {
        return attends ? score : score - INFINITY; /* NaN and +∞ give NaN, as in PyTorch */
    }
    AMP_DEVICE_MEMBER static float plus(float score, float x) {
        return score + x;
    }
    AMP_DEVICE_MEMBER static float plus(float score, stored x) {
        return score + Elements::widen(x);
    }

    /* What was summed before is scaled to the new maximum of each row. */
    AMP_DEVICE_MEMBER void raise(int m, int half) {
        float most = -INFINITY;
        AMP_UNROLLED
        for (int n = 0; n < KEYS / 8; n++) {
            most = fmaxf(most, fmaxf(scores[m][n][half * 2], scores[m][n][half * 2 + 1])); /* of numbers: not NaN */
        }
        most = fmaxf(most, AMP_FROM_LANE(most, 1));
        most = fmaxf(most, AMP_FROM_LANE(most, 2));
        const float before = high[m][half], now = fmaxf(before, most), scale = power_of_two(fall_of(before, now));
        high[m][half] = now;
        if (is_far(now)) come_near(m, half, now);
        total[m][half] *= scale;
        AMP_UNROLLED
        for (int n = 0; n < DEPTH / 8; n++) {
            results[m][n][half * 2] *= scale;
            results[m][n][half * 2 + 1] *= scale;
        }
    }
    /* What weights are counted from: 0 for scores from which the maximum was taken already. */
    AMP_DEVICE_MEMBER float base_of(float high) const {
        if (MASKED) return high == -INFINITY ? 0.0f : high;
        return fabsf(high * a.factor) < FAR ? high * a.factor : 0.0f;
    }
    AMP_DEVICE_MEMBER float fall_of(float before, float now) const {
        if (MASKED) return (before - base_of(now)) * LOG2_E;
        return is_far(now) ? (before - now) * a.factor : before * a.factor - base_of(now);
    }
    /* Where the base would be rounded so far from the greatest score that weights were lost. */
    AMP_DEVICE_MEMBER bool is_far(float high) const {
        return !MASKED && high != -INFINITY && fabsf(high * a.factor) >= FAR;
    }
    AMP_DEVICE_MEMBER void come_near(int m, int half, float high) {
        AMP_UNROLLED
        for (int n = 0; n < KEYS / 8; n++) {
            scores[m][n][half * 2] -= high;
            scores[m][n][half * 2 + 1] -= high;
        }
    }

    AMP_DEVICE_MEMBER float weight(float score, float base) const {
        return power_of_two(MASKED ? (score - base) * LOG2_E : fmaf(score, a.factor, -base));
    }

    /* The weights of 16 keys: scores n and n + 1. */
    AMP_DEVICE_MEMBER void weigh(int m, int n, uint32_t *weights) {
        AMP_UNROLLED
        for (int i = 0; i < 4; i++) { /* a[i]: row half i % 2, of scores n + i / 2 */
            const int half = i % 2;
            const float base = base_of(high[m][half]);
            const float low = weight(scores[m][n + i / 2][half * 2], base);
            const float upper = weight(scores[m][n + i / 2][half * 2 + 1], base);
            total[m][half] += low + upper;
            weights[i] = pair_of<Elements>(low, upper);
        }
    }

    AMP_DEVICE_MEMBER void multiply_values(int key) {
        const int values_at = value_at() + stage_of(key) + VALUES;
        AMP_UNROLLED
        for (int n = 0; n < KEYS / 8; n += 2) {
            uint32_t weights[2][4];
            weigh(0, n, weights[0]);
            weigh(1, n, weights[1]);
            AMP_UNROLLED
            for (int d = 0; d < DEPTH / 8; d += 2) {
                uint32_t x[4];
                load_matrices_turned(x, stages + moved(values_at, d * 8) + n * 8 * ROW);
                AMP_UNROLLED
                for (int m = 0; m < 2; m++) {
                    multiply_add<Elements>(results[m][d], weights[m], x);
                    multiply_add<Elements>(results[m][d + 1], weights[m], x + 2);
                }
            }
        }
    }

    /* Whether a row of the warp meets the keys from here on. */
    AMP_DEVICE_MEMBER bool meets(int key) const {
        return first < (int)a.rows && (!a.causal || key < first + WARP_ROWS);
    }

    AMP_DEVICE_MEMBER void meet_keys(int key) {
        const bool more = key + KEYS < end;
        wait_for_copies();
        AMP_BARRIER(); /* copies are there for all, and the tile before has been read */
        if (STAGES == 1) {
            fetch_values(key);
        } else if (more) {
            fetch_keys(key + KEYS);
            fetch_values(key + KEYS);
        }
        if (meets(key)) {
            multiply_keys(key);
            if (MASKED) meet_mask(key);
            if (key + KEYS > (int)a.keys || (a.causal && key + KEYS > first)) hide_keys(key);
        }
        if (STAGES == 1) {
            wait_for_copies();
            AMP_BARRIER();
            if (more) fetch_keys(key + KEYS);
        }
        if (meets(key)) {
            AMP_UNROLLED
            for (int i = 0; i < 4; i++) raise(i / 2, i % 2);
            multiply_values(key);
        }
    }

    /* ---- Query rows --------------------------------------------------------------------------------------------- */
    AMP_DEVICE_MEMBER void start() {
        AMP_UNROLLED
        for (int i = 0; i < 4; i++) {
            high[i / 2][i % 2] = -INFINITY;
            total[i / 2][i % 2] = 0;
        }
        AMP_UNROLLED
        for (int i = 0; i < 2 * (DEPTH / 8) * 4; i++) results[i / 4 / (DEPTH / 8)][i / 4 % (DEPTH / 8)][i % 4] = 0;
    }

    AMP_DEVICE_MEMBER void meet_all(int block_row) {
        const int begin = (int)share() * (int)a.part_keys, rows = (int)a.rows - block_row;
        const int after = a.causal ? block_row + (rows < ROWS ? rows : (int)ROWS) : (int)a.keys;
        const int keys = after < (int)a.keys ? after : (int)a.keys;
        end = keys - begin < (int)a.part_keys ? keys : begin + (int)a.part_keys;
        if (begin >= end) return;
        const unsigned head = this->head();
        unsigned q = first_copied(a.q, head_offset(a, a.q, head, 1) + block_row * a.q.row);
        k = first_copied(a.k, head_offset(a, a.k, head, a.group) + begin * a.k.row);
        v = first_copied(a.v, head_offset(a, a.v, head, a.group) + begin * a.v.row);
        if (MASKED) mask_at = (int)head_offset(a, a.mask, head, 1);
        fetch<ROWS>(queries, q, a.q, rows, a.depth);
        fetch_keys(begin);
        if (STAGES == 2) fetch_values(begin);
        for (int key = begin; key < end; key += KEYS) meet_keys(key);
    }

    /* Sums of a share of the keys: attention_join_* makes results of them. */
    AMP_DEVICE_MEMBER void put_sums(int m, int half) const {
        const int row = row_of(m, half);
        const int64_t place = place_of_share(a, share(), head(), row);
        if (row >= (int)a.rows) return;
        if (column_of_lane() == 0) {
            ((float *)a.highs)[place] = MASKED ? high[m][half] : high[m][half] * (float)a.scale;
            ((float *)a.totals)[place] = total[m][half];
        }
        float *const to = (float *)a.sums + place * a.width + column_of_lane();
        AMP_UNROLLED
        for (int n = 0; n < DEPTH / 8; n++) {
            if (n * 8 >= a.width) continue;
            to[n * 8] = results[m][n][half * 2];
            to[n * 8 + 1] = results[m][n][half * 2 + 1];
        }
    }

    /* Results to the warp's rows of the queries, which have been read. */
    AMP_DEVICE_MEMBER void put_results(int m, int half) const {
        const float whole = total[m][half], part = 1.0f / whole;
        const int row = warp_row() + m * 16 + half * 8 + (int)(thread() % 32 / 4);
        AMP_UNROLLED
        for (int n = 0; n < DEPTH / 8; n++) {
            const float x = results[m][n][half * 2] * part, y = results[m][n][half * 2 + 1] * part;
            *(uint32_t *)(void *)(queries + place(row, n) + column_of_lane() * 2) =
                whole == 0 ? 0 : pair_of<Elements>(x, y);
        }
    }
    AMP_DEVICE_MEMBER void store_results() const {
        stored *const out = (stored *)a.out.data + head_offset(a, a.out, head(), 1);
        const unsigned lane = thread() % 32;
        const int base = warp_row(); /* here, where all lanes are */
        AMP_UNROLLED
        for (int i = 0; i < WARP_ROWS * PIECES / 32; i++) {
            const int row = i * 32 / PIECES + (int)(lane / PIECES), piece = (int)(lane % PIECES);
            if (first + row >= (int)a.rows || piece * 8 >= a.width) continue;
            *(sixteen_bytes *)(void *)(out + (first + row) * a.out.row + piece * 8) =
                *(const sixteen_bytes *)(const void *)(queries + place(base + row, piece));
        }
    }

    AMP_DEVICE_MEMBER void finish() {
        AMP_UNROLLED
        for (int i = 0; i < 4; i++) {
            float whole = total[i / 2][i % 2];
            whole += AMP_FROM_LANE(whole, 1);
            whole += AMP_FROM_LANE(whole, 2);
            const float most = high[i / 2][i % 2];
            total[i / 2][i % 2] = (MASKED ? most : most * (float)a.scale) == INFINITY ? NAN : whole; /* as ∞ − ∞ is */
            if (a.parts > 1) put_sums(i / 2, i % 2);
        }
        if (a.parts > 1) return;
        AMP_WARP_BARRIER(); /* the queries have been read */
        AMP_UNROLLED
        for (int i = 0; i < 4; i++) put_results(i / 2, i % 2);
        AMP_WARP_BARRIER();
        store_results();
    }

    AMP_DEVICE_MEMBER void run() {
        const unsigned works = (unsigned)a.heads * tiles() * (unsigned)a.parts;
        for (work = (unsigned)AMP_BLOCK; work < works; work += (unsigned)AMP_BLOCKS) {
            const unsigned tile = work / (unsigned)a.parts % tiles();
            const int block_row = (int)(tiles() - 1 - tile) * ROWS; /* of causal ones the longest first */
            first = block_row + warp_row();
            start();
            meet_all(block_row);
            finish();
            AMP_BARRIER(); /* before the next query rows come */
        }
    }
};

#define FLASH(name, elements, depth, stages, masked, plain)                                                            \
    AMP_KERNEL_OF(name, amp_cuda_attention, AMP_CUDA_FLASH_THREADS, (depth) <= 64 && !(masked) ? 3 : 2) {              \
        AMP_DYNAMIC_SHARED(memory, AMP_CUDA_FLASH_BYTES(depth, stages));                                               \
        flash<elements, depth, stages, masked> run(a, memory);                                                         \
        run.run();                                                                                                     \
    }
#elif defined(__CUDACC__)
#define FLASH(name, elements, depth, stages, masked, plain)                                                            \
    AMP_KERNEL(name, amp_cuda_attention) {                                                                             \
        __trap(); /* libamp asks for it on later GPUs alone */                                                         \
    }
#else
/* One thread to a block cannot do what a warp does together. */
#define FLASH(name, elements, depth, stages, masked, plain)                                                            \
    extern "C" void plain(const void *arguments);                                                                      \
    AMP_KERNEL(name, amp_cuda_attention) {                                                                             \
        plain(&a);                                                                                                     \
    }
#endif
FLASH(flash_f16_64, f16_elements, 64, 2, false, attention_f16_64)
FLASH(flash_f16_128, f16_elements, 128, 2, false, attention_f16_128)
FLASH(flash_f16_128_lean, f16_elements, 128, 1, false, attention_f16_128)
FLASH(flash_bf16_64, bf16_elements, 64, 2, false, attention_bf16_64)
FLASH(flash_bf16_128, bf16_elements, 128, 2, false, attention_bf16_128)
FLASH(flash_bf16_128_lean, bf16_elements, 128, 1, false, attention_bf16_128)
FLASH(flash_f16_64_masked, f16_elements, 64, 2, true, attention_f16_64)
FLASH(flash_bf16_64_masked, bf16_elements, 64, 2, true, attention_bf16_64)
