/* Radix sort of (key, place) items, least digit first (Knuth, The Art of Computer Programming 3, 5.2.5). Elements of up
 * to 32 bits in rows of fewer than 2³² make items of one 64-bit word, the others of two. */
#include "cpu/sort/radix_sort.h"

#include <emmintrin.h>
#include <string.h>

#include "cpu/simd/unroll.h"

enum {
    FEW = 48,        /* items that insertion sorts faster than a digit is counted */
    SMALL_BITS = 8,  /* of a digit, … */
    LARGE_BITS = 11, /* … in rows of MANY and more */
    MANY = 4096,
    MOST_DIGITS = 8,
    LEAST_BUFFER = 1024, /* items among which the first k are kept */
    FEW_WANTED = 32      /* firsts that are kept in order all the time */
};

/* ---- Keys ----------------------------------------------------------------------------------------------------- */

/* Bits of a float whose infinity is `infinity`, ordered: negative ones from the largest magnitude on. */
#define FLOAT_KEY(type, bits, infinity)                                                                                \
    static inline uint64_t key_f##bits##_##infinity(type x) {                                                          \
        const type sign = (type)((type)1 << (bits - 1)), magnitude = (type)(x & (type)~sign);                          \
        if (magnitude > (infinity)) return (type) ~(type)0;                                                            \
        if (magnitude == 0) return sign;                                                                               \
        return x & sign ? (type)~x : (type)(x | sign);                                                                 \
    }
FLOAT_KEY(uint16_t, 16, 0x7c00)
FLOAT_KEY(uint16_t, 16, 0x7f80)
FLOAT_KEY(uint32_t, 32, 0x7f800000)
FLOAT_KEY(uint64_t, 64, 0x7ff0000000000000)

static inline uint64_t key_i8(uint8_t x) {
    return x ^ 0x80u;
}
static inline uint64_t key_u8(uint8_t x) {
    return x;
}
static inline uint64_t key_i16(uint16_t x) {
    return x ^ 0x8000u;
}
static inline uint64_t key_i32(uint32_t x) {
    return x ^ 0x80000000u;
}
static inline uint64_t key_i64(uint64_t x) {
    return x ^ 0x8000000000000000u;
}

static int key_bits(amp_dtype dtype) {
    return 8 * (int)amp_dtype_size(dtype);
}

/* ---- Items ---------------------------------------------------------------------------------------------------- */

typedef uint64_t narrow; /* key << 32 | place */
typedef struct wide {
    uint64_t key;
    int64_t place;
} wide;

static inline narrow make_narrow(uint64_t key, int64_t place) {
    return key << 32 | (uint64_t)place;
}
static inline wide make_wide(uint64_t key, int64_t place) {
    return (wide){key, place};
}
static inline uint64_t key_of_narrow(narrow x) {
    return x >> 32;
}
static inline uint64_t key_of_wide(wide x) {
    return x.key;
}
static inline int64_t place_of_narrow(narrow x) {
    return (int64_t)(x & UINT32_MAX);
}
static inline int64_t place_of_wide(wide x) {
    return x.place;
}

/* Items of n elements, from number `first` on in steps of ±1. `flip` is xored to the keys: all ones for descending
 * order. */
#define MAKE_LOOP(item, key, type)                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const int64_t at = first + i * step;                                                                           \
        out[i] = make_##item(key(((const type *)row)[at]) ^ flip, at);                                                 \
    }                                                                                                                  \
    return

static void make_items_narrow(amp_dtype dtype, const void *row, int64_t first, int64_t step, int64_t n, uint64_t flip,
                              narrow *out) {
    switch (dtype) {
    case AMP_F32: MAKE_LOOP(narrow, key_f32_0x7f800000, uint32_t);
    case AMP_BF16: MAKE_LOOP(narrow, key_f16_0x7f80, uint16_t);
    case AMP_F16: MAKE_LOOP(narrow, key_f16_0x7c00, uint16_t);
    case AMP_I32: MAKE_LOOP(narrow, key_i32, uint32_t);
    case AMP_I16: MAKE_LOOP(narrow, key_i16, uint16_t);
    case AMP_I8: MAKE_LOOP(narrow, key_i8, uint8_t);
    default: MAKE_LOOP(narrow, key_u8, uint8_t);
    }
}

static void make_items_wide(amp_dtype dtype, const void *row, int64_t first, int64_t step, int64_t n, uint64_t flip,
                            wide *out) {
    switch (dtype) {
    case AMP_F64: MAKE_LOOP(wide, key_f64_0x7ff0000000000000, uint64_t);
    case AMP_I64: MAKE_LOOP(wide, key_i64, uint64_t);
    case AMP_F32: MAKE_LOOP(wide, key_f32_0x7f800000, uint32_t);
    case AMP_BF16: MAKE_LOOP(wide, key_f16_0x7f80, uint16_t);
    case AMP_F16: MAKE_LOOP(wide, key_f16_0x7c00, uint16_t);
    case AMP_I32: MAKE_LOOP(wide, key_i32, uint32_t);
    case AMP_I16: MAKE_LOOP(wide, key_i16, uint16_t);
    case AMP_I8: MAKE_LOOP(wide, key_i8, uint8_t);
    default: MAKE_LOOP(wide, key_u8, uint8_t);
    }
}

/* ---- Sorting -------------------------------------------------------------------------------------------------- */

typedef struct digits {
    int bits, count; /* of one digit; of them all */
} digits;

static digits digits_of(int bits, int64_t n) {
    const int each = n < MANY ? SMALL_BITS : LARGE_BITS;
    return (digits){each, (bits + each - 1) / each};
}

/* Counts become the places where their bucket begins. False: all items are in one bucket. */
static bool begin_buckets(int64_t *counts, int64_t buckets, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 0; i < buckets; i++) {
        const int64_t count = counts[i];
        if (count == n) return false;
        counts[i] = at;
        at += count;
    }
    return true;
}

/* ---- A few of many -------------------------------------------------------------------------------------------- */

enum { PIECE = 64 }; /* elements that are looked at together */

/* `held` items in order, of at most k: `x` is put among them, after equal ones, and the last of k goes. */
#define INSERT(item, items, held, k, x)                                                                                \
    do {                                                                                                               \
        int64_t place = held < k ? held++ : k - 1;                                                                     \
        for (; place > 0 && key_of_##item(items[place - 1]) > key_of_##item(x); place--)                               \
            items[place] = items[place - 1];                                                                           \
        items[place] = x;                                                                                              \
    } while (0)

/* The first k of n elements, k ≤ FEW_WANTED: one that is better than the last of them is inserted. */
static wide *best_wide(const amp_order *o, const void *row, int64_t k, wide *items) {
    const uint64_t flip = o->descending ? UINT64_MAX >> (64 - key_bits(o->dtype)) : 0;
    const int64_t step = o->last_first ? -1 : 1, first = o->last_first ? o->n - 1 : 0;
    wide piece[PIECE];
    int64_t held = 0;
    for (int64_t at = 0; at < o->n; at += PIECE) {
        const int64_t n = o->n - at < PIECE ? o->n - at : PIECE;
        make_items_wide(o->dtype, row, first + at * step, step, n, flip, piece);
        for (int64_t i = 0; i < n; i++) {
            if (held == k && piece[i].key >= items[k - 1].key) continue;
            INSERT(wide, items, held, k, piece[i]);
        }
    }
    return items;
}

/* The bits of a float in the upper part of a word, as an integer of the same order. */
static inline int32_t ordered(uint32_t x, uint32_t infinity) {
    const uint32_t magnitude = x & 0x7fffffff;
    const int32_t value = x >> 31 ? -(int32_t)magnitude : (int32_t)magnitude;
    return magnitude > infinity ? INT32_MAX : value;
}

#define KEY_LOOP(type, expression)                                                                                     \
    for (int i = 0; i < PIECE; i++) {                                                                                  \
        const type x = ((const type *)elements)[i];                                                                    \
        keys[i] = (expression) ^ flip;                                                                                 \
    }                                                                                                                  \
    break

/* Keys of PIECE elements that compare as signed integers. */
static void make_keys(amp_dtype dtype, const void *elements, int32_t flip, int32_t *keys) {
    switch (dtype) {
    case AMP_F32: KEY_LOOP(uint32_t, ordered(x, 0x7f800000));
    case AMP_BF16: KEY_LOOP(uint16_t, ordered((uint32_t)x << 16, 0x7f800000));
    case AMP_F16: KEY_LOOP(uint16_t, ordered((uint32_t)x << 16, 0x7c000000));
    case AMP_I32: KEY_LOOP(int32_t, x);
    case AMP_I16: KEY_LOOP(int16_t, x);
    case AMP_I8: KEY_LOOP(int8_t, x);
    default: KEY_LOOP(uint8_t, x);
    }
}

/* Bit i: key i is not above the bound. */
static uint64_t keys_within(const int32_t *keys, int32_t bound) {
    const __m128i than = _mm_set1_epi32(bound);
    uint64_t above = 0;
    for (int i = 0; i < PIECE; i += 16) {
        __m128i more[4];
        AMP_UNROLL
        for (int k = 0; k < 4; k++) more[k] = _mm_cmpgt_epi32(_mm_loadu_si128((const void *)(keys + i + 4 * k)), than);
        const __m128i low = _mm_packs_epi32(more[0], more[1]), high = _mm_packs_epi32(more[2], more[3]);
        above |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) << i;
    }
    return ~above;
}

/* No less than the k-th smallest of n keys, n a multiple of LANES, k ≤ LANES: the k-th smallest of the least in each
 * lane. So hardly more than k of them have to be looked at. */
static int32_t bound_of(const int32_t *keys, int64_t n, int64_t k) {
    enum { LANES = FEW_WANTED };
    int32_t least[LANES], bound = INT32_MIN;
    for (int i = 0; i < LANES; i++) least[i] = INT32_MAX;
    for (int64_t at = 0; at < n; at += LANES) {
        for (int i = 0; i < LANES; i++) least[i] = keys[at + i] < least[i] ? keys[at + i] : least[i];
    }
    for (int i = 0; i < LANES; i++) {
        int32_t smaller = 0;
        for (int j = 0; j < LANES; j++) smaller += least[j] < least[i];
        const int32_t candidate = smaller < k ? least[i] : INT32_MIN;
        bound = candidate > bound ? candidate : bound;
    }
    return bound;
}

/* Keys of n elements, filled up to whole pieces. */
static void make_pieces(const amp_order *o, const char *elements, int64_t n, int32_t *keys) {
    const int64_t size = (int64_t)amp_dtype_size(o->dtype), whole = n / PIECE * PIECE;
    const int32_t flip = o->descending ? -1 : 0;
    for (int64_t at = 0; at < whole; at += PIECE) make_keys(o->dtype, elements + at * size, flip, keys + at);
    if (whole == n) return;
    char last[PIECE * sizeof(uint32_t)] = {0};
    memcpy(last, elements + whole * size, (size_t)((n - whole) * size));
    make_keys(o->dtype, last, flip, keys + whole);
    for (int64_t i = n; i < whole + PIECE; i++) keys[i] = INT32_MAX;
}

/* The same for elements of up to 32 bits. Pieces lie in the order of the row, and are taken from the end that comes
 * first. */
static narrow *best_narrow(const amp_order *o, const void *row, int64_t k, narrow *items) {
    enum { CHUNK = 16 * PIECE };
    const int64_t size = (int64_t)amp_dtype_size(o->dtype);
    int32_t keys[CHUNK], bound = 0;
    int64_t held = 0;
    for (int64_t done = 0; done < o->n; done += CHUNK) {
        const int64_t left = o->n - done, n = left < CHUNK ? left : CHUNK, start = o->last_first ? left - n : done;
        make_pieces(o, (const char *)row + start * size, n, keys);
        if (done == 0) bound = bound_of(keys, (n + PIECE - 1) / PIECE * PIECE, k);
        for (int64_t taken = 0; taken < n; taken += PIECE) {
            const int64_t at = o->last_first ? (n - 1 - taken) / PIECE * PIECE : taken;
            uint64_t bits = keys_within(keys + at, bound);
            if (n - at < PIECE) bits &= UINT64_MAX >> (PIECE - (n - at));
            while (bits) {
                const int i = o->last_first ? 63 - __builtin_clzll(bits) : __builtin_ctzll(bits);
                bits &= ~((uint64_t)1 << i);
                const narrow x = make_narrow((uint32_t)keys[at + i] ^ 0x80000000u, start + at + i);
                if (held == k && key_of_narrow(x) >= key_of_narrow(items[k - 1])) continue;
                INSERT(narrow, items, held, k, x);
            }
            if (held == k) bound = (int32_t)((items[k - 1] >> 32) ^ 0x80000000u);
        }
    }
    return items;
}

/* ---- All of them ---------------------------------------------------------------------------------------------- */

/* Sorts n items; returns where they are then: in `items` or in `spare`. */
#define SORT(item)                                                                                                     \
    static void insert_##item(item *items, int64_t n) {                                                                \
        for (int64_t i = 1; i < n; i++) {                                                                              \
            const item x = items[i];                                                                                   \
            int64_t at = i;                                                                                            \
            for (; at > 0 && key_of_##item(items[at - 1]) > key_of_##item(x); at--) items[at] = items[at - 1];         \
            items[at] = x;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static item *sort_##item(item *items, item *spare, int64_t n, int bits, int64_t *counts) {                         \
        if (n <= FEW) {                                                                                                \
            insert_##item(items, n);                                                                                   \
            return items;                                                                                              \
        }                                                                                                              \
        const digits d = digits_of(bits, n);                                                                           \
        const int64_t buckets = (int64_t)1 << d.bits;                                                                  \
        memset(counts, 0, (size_t)(d.count * buckets) * sizeof *counts);                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const uint64_t key = key_of_##item(items[i]);                                                              \
            for (int k = 0; k < d.count; k++)                                                                          \
                counts[k * buckets + (int64_t)(key >> (k * d.bits) & (uint64_t)(buckets - 1))]++;                      \
        }                                                                                                              \
        for (int k = 0; k < d.count; k++) {                                                                            \
            int64_t *to = counts + k * buckets;                                                                        \
            if (!begin_buckets(to, buckets, n)) continue;                                                              \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                spare[to[key_of_##item(items[i]) >> (k * d.bits) & (uint64_t)(buckets - 1)]++] = items[i];             \
            }                                                                                                          \
            item *sorted = spare;                                                                                      \
            spare = items;                                                                                             \
            items = sorted;                                                                                            \
        }                                                                                                              \
        return items;                                                                                                  \
    }                                                                                                                  \
    /* The first k of n elements: items that may be among them gather behind the best so far, and are sorted in \
     * when the buffer is full. */      \
    static item *select_##item(const amp_order *o, const void *row, int64_t k, item *items, item *spare,               \
                               int64_t *counts) {                                                                      \
        const uint64_t flip = o->descending ? UINT64_MAX >> (64 - key_bits(o->dtype)) : 0;                             \
        const int64_t step = o->last_first ? -1 : 1, first = o->last_first ? o->n - 1 : 0;                             \
        if (k <= FEW_WANTED && k * 4 < o->n) return best_##item(o, row, k, items);                                     \
        const int64_t room = k * 4 > LEAST_BUFFER ? k * 4 : LEAST_BUFFER;                                              \
        if (room * 2 >= o->n) {                                                                                        \
            make_items_##item(o->dtype, row, first, step, o->n, flip, items);                                          \
            return sort_##item(items, spare, o->n, key_bits(o->dtype), counts);                                        \
        }                                                                                                              \
        item piece[64];                                                                                                \
        uint64_t limit = UINT64_MAX; /* the key of the k-th best so far: an equal one that comes later is worse */     \
        int64_t held = 0;                                                                                              \
        for (int64_t at = 0; at < o->n; at += 64) {                                                                    \
            const int64_t end = o->n - at < 64 ? o->n : at + 64;                                                       \
            if (held + 64 > room) {                                                                                    \
                item *sorted = sort_##item(items, spare, held, key_bits(o->dtype), counts);                            \
                spare = sorted == items ? spare : items;                                                               \
                items = sorted;                                                                                        \
                held = held < k ? held : k;                                                                            \
                if (held == k) limit = key_of_##item(items[k - 1]);                                                    \
            }                                                                                                          \
            make_items_##item(o->dtype, row, first + at * step, step, end - at, flip, piece);                          \
            for (int64_t i = 0; i < end - at; i++) {                                                                   \
                items[held] = piece[i];                                                                                \
                held += key_of_##item(piece[i]) < limit;                                                               \
            }                                                                                                          \
        }                                                                                                              \
        return sort_##item(items, spare, held, key_bits(o->dtype), counts);                                            \
    }
SORT(narrow)
SORT(wide)

static bool is_narrow(const amp_order *o) {
    return key_bits(o->dtype) <= 32 && o->n < UINT32_MAX;
}

static size_t padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t counts_bytes(const amp_order *o) {
    const digits small = digits_of(key_bits(o->dtype), 0), large = digits_of(key_bits(o->dtype), o->n);
    const size_t a = (size_t)small.count << small.bits, b = (size_t)large.count << large.bits;
    return (a > b ? a : b) * sizeof(int64_t);
}

static size_t items_bytes(const amp_order *o) {
    const int64_t n = o->n < LEAST_BUFFER ? LEAST_BUFFER : o->n;
    return padded((size_t)n * (is_narrow(o) ? sizeof(narrow) : sizeof(wide)));
}

amp_order amp_order_of(amp_dtype dtype, int64_t n, bool descending) {
    amp_order o = {.dtype = dtype, .n = n, .descending = descending};
    o.scratch = 2 * items_bytes(&o) + padded(counts_bytes(&o));
    return o;
}

void amp_order_run(const amp_order *o, const void *row, int64_t k, void *scratch, int64_t *places) {
    if (k == 0) return;
    void *items = scratch, *spare = (char *)scratch + items_bytes(o);
    int64_t *counts = (int64_t *)(void *)((char *)spare + items_bytes(o));
    if (is_narrow(o)) {
        const narrow *sorted = select_narrow(o, row, k, items, spare, counts);
        for (int64_t i = 0; i < k; i++) places[i] = place_of_narrow(sorted[i]);
    } else {
        const wide *sorted = select_wide(o, row, k, items, spare, counts);
        for (int64_t i = 0; i < k; i++) places[i] = place_of_wide(sorted[i]);
    }
}
