/* Sorting: tiles in shared memory, then runs merged two by two. Every element finds its place in the merged run by
 * bisecting the other one, so there is no order of threads to it, and equal elements stay in theirs. Long rows by their
 * keys' digits, the last one first. Quantiles and searches beside it. */
#include "cuda/args/index_args.h"
#include "cuda/kernels/kernel.h"

/* ---- Keys -------------------------------------------------------------------------------------------------------- */
/* Bits of a float of `width` bits, ordered: −0 is 0, and a NaN comes behind everything. */
AMP_DEVICE uint64_t float_key(uint64_t bits, int width, uint64_t infinity) {
    const uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1), magnitude = bits & (sign - 1);
    if (magnitude > infinity) return all;
    if (magnitude == 0) return sign;
    return bits & sign ? ~bits & all : bits | sign;
}
AMP_DEVICE uint64_t whole_key(int64_t x) {
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

AMP_DEVICE uint64_t key_at(const void *data, amp_dtype dtype, int64_t i) {
    switch (dtype) {
    case AMP_F32: return float_key(((const uint32_t *)data)[i], 32, 0x7f800000u);
    case AMP_F16: return float_key(((const uint16_t *)data)[i], 16, 0x7c00u);
    case AMP_BF16: return float_key(((const uint16_t *)data)[i], 16, 0x7f80u);
    case AMP_F64: return float_key(((const uint64_t *)data)[i], 64, (uint64_t)0x7ff << 52);
    default: return whole_key(load<int64_t>(data, dtype, i));
    }
}
AMP_DEVICE uint64_t sort_key(const void *data, amp_dtype dtype, int64_t i, bool descending) {
    const uint64_t key = key_at(data, dtype, i);
    return descending ? ~key : key;
}

/* ---- Merging ----------------------------------------------------------------------------------------------------- */
/* How many of keys[begin … end) are below `key`, or (`equal`) not above it; they are in order. */
AMP_DEVICE int64_t count_below(const uint64_t *keys, int64_t begin, int64_t end, uint64_t key, bool equal) {
    int64_t low = begin;
    while (low < end) {
        const int64_t middle = low + (end - low) / 2;
        if (keys[middle] < key || (equal && keys[middle] == key)) {
            low = middle + 1;
        } else {
            end = middle;
        }
    }
    return low - begin;
}

/* Where element i of `count` goes when runs of `width` are merged two by two. */
AMP_DEVICE int64_t merged_place(const uint64_t *keys, int64_t count, int64_t width, int64_t i) {
    const int64_t begin = i / (2 * width) * (2 * width);
    const int64_t middle = begin + width < count ? begin + width : count;
    const int64_t end = middle + width < count ? middle + width : count;
    if (i < middle) return i + count_below(keys, middle, end, keys[i], false);
    return i - width + count_below(keys, begin, middle, keys[i], true);
}

AMP_KERNEL(sort_tiles, amp_cuda_sort) {
    AMP_SHARED_BYTES(key_bytes, 2 * AMP_CUDA_TILE * sizeof(uint64_t));
    AMP_SHARED_BYTES(place_bytes, 2 * AMP_CUDA_TILE * sizeof(int32_t));
    uint64_t *keys = (uint64_t *)(void *)key_bytes, *other_keys = keys + AMP_CUDA_TILE;
    int32_t *places = (int32_t *)(void *)place_bytes, *other_places = places + AMP_CUDA_TILE;
    const int64_t most = AMP_CUDA_TILE, tiles = (a.length + most - 1) / most, last = a.length - (tiles - 1) * most;
    const int64_t kept = (tiles - 1) * a.keep + (a.keep < last ? a.keep : last); /* of a row */
    for (int64_t tile = AMP_BLOCK; tile < a.rows * tiles; tile += AMP_BLOCKS) {
        const int64_t row = tile / tiles * a.length, start = tile % tiles * most;
        const int64_t count = a.length - start < most ? a.length - start : most;
        for (int64_t i = AMP_THREAD; i < count; i += AMP_THREADS) {
            const int64_t at = a.last_first ? a.length - 1 - start - i : start + i;
            places[i] = (int32_t)i;
            if (a.keys) {
                keys[i] = a.keys[row + start + i];
                continue;
            }
            keys[i] = sort_key(a.in, a.dtype, row + at, a.descending);
        }
        AMP_BARRIER();
        for (int64_t width = 1; width < count; width *= 2) {
            for (int64_t i = AMP_THREAD; i < count; i += AMP_THREADS) {
                const int64_t to = merged_place(keys, count, width, i);
                other_keys[to] = keys[i];
                other_places[to] = places[i];
            }
            AMP_BARRIER();
            uint64_t *const swapped_keys = keys;
            int32_t *const swapped_places = places;
            keys = other_keys;
            places = other_places;
            other_keys = swapped_keys;
            other_places = swapped_places;
        }
        for (int64_t i = AMP_THREAD; i < count && i < a.keep; i += AMP_THREADS) {
            const int64_t at = start + places[i], to = tile / tiles * kept + tile % tiles * a.keep + i;
            a.sorted_keys[to] = keys[i];
            a.sorted_places[to] = a.keys ? a.places[row + at] : a.last_first ? a.length - 1 - at : at;
        }
        AMP_BARRIER(); /* before the next tile is read */
    }
}

AMP_KERNEL(sort_merge, amp_cuda_sort) {
    for (int64_t i = first_element(); i < a.rows * a.length; i += element_step()) {
        const int64_t row = i / a.length * a.length, to = row + merged_place(a.keys + row, a.length, a.width, i - row);
        a.sorted_keys[to] = a.keys[i];
        a.sorted_places[to] = a.places[i];
    }
}

/* ---- By digits --------------------------------------------------------------------------------------------------- */
/* Knuth, The Art of Computer Programming, volume 3, section 5.2.5: after as many passes as a key has digits, each of
 * which keeps the order of what has the same digit, the keys are in order. A pass is three launches: how many of each
 * digit a tile has (radix_count), how many come before them in the row (radix_scan), and the elements to their places
 * (radix_move). */
#ifdef __CUDACC__
#define AMP_COUNT_ONE(counter) atomicAdd(&(counter), 1u) /* whole numbers: the same sum in whatever order */
#else
#define AMP_COUNT_ONE(counter) ((counter)++)
#endif

/* Where element i of a row that starts at `row` is found. */
AMP_DEVICE int64_t radix_place(const amp_cuda_radix &a, int64_t row, int64_t i) {
    return a.keys ? a.places[row + i] : a.last_first ? a.length - 1 - i : i;
}
AMP_DEVICE uint64_t radix_key(const amp_cuda_radix &a, int64_t row, int64_t i) {
    if (!a.keys) return sort_key(a.in, a.dtype, row + radix_place(a, row, i), a.descending);
    return a.wide ? ((const uint64_t *)a.keys)[row + i] : ((const uint32_t *)a.keys)[row + i];
}
/* Element `from` of a row goes to place `to` of it. */
AMP_DEVICE void radix_write(const amp_cuda_radix &a, int64_t row, int64_t from, int64_t to) {
    const uint64_t key = a.sorted_keys ? radix_key(a, row, from) : 0;
    const int64_t place = radix_place(a, row, from);
    if (a.final_places) {
        a.final_places[row + to] = place;
    } else {
        a.sorted_places[row + to] = (uint32_t)place;
    }
    if (!a.sorted_keys) return;
    if (a.wide) {
        ((uint64_t *)a.sorted_keys)[row + to] = key;
    } else {
        ((uint32_t *)a.sorted_keys)[row + to] = (uint32_t)key;
    }
}
AMP_DEVICE uint32_t digit_of(const amp_cuda_radix &a, int64_t row, int64_t i) {
    return ((uint32_t)(radix_key(a, row, i) >> a.shift) ^ (uint32_t)a.flip) % AMP_CUDA_DIGITS;
}

/* The sum of what the threads before this one bring; `all`: of all of them. */
AMP_DEVICE uint32_t sum_before(uint32_t mine, uint32_t *all) {
    AMP_SHARED_BYTES(bytes, 2 * AMP_BLOCK_THREADS * sizeof(uint32_t));
    uint32_t *from = (uint32_t *)(void *)bytes, *to = from + AMP_BLOCK_THREADS;
    from[AMP_THREAD] = mine;
    AMP_BARRIER();
    for (int step = 1; step < AMP_THREADS; step *= 2) {
        to[AMP_THREAD] = from[AMP_THREAD] + (AMP_THREAD >= step ? from[AMP_THREAD - step] : 0);
        AMP_BARRIER();
        uint32_t *const swapped = from;
        from = to;
        to = swapped;
    }
    const uint32_t before = AMP_THREAD > 0 ? from[AMP_THREAD - 1] : 0;
    *all = from[AMP_THREADS - 1];
    AMP_BARRIER(); /* all have read them */
    return before;
}

/* What a thread has of `count` things that lie in a row: a share that lies in a row, too. */
struct share {
    int begin, end;
};
AMP_DEVICE share share_of(int count) {
    const int each = (count + AMP_THREADS - 1) / AMP_THREADS, begin = AMP_THREAD * each;
    return {begin < count ? begin : count, begin + each < count ? begin + each : count};
}

AMP_KERNEL(radix_count, amp_cuda_radix) {
    AMP_SHARED_BYTES(bytes, AMP_CUDA_DIGITS * sizeof(uint32_t));
    uint32_t *counts = (uint32_t *)(void *)bytes;
    for (int64_t tile = AMP_BLOCK; tile < a.rows * a.tiles; tile += AMP_BLOCKS) {
        const int64_t row = tile / a.tiles, start = tile % a.tiles * AMP_CUDA_RADIX_TILE;
        const int64_t end = start + AMP_CUDA_RADIX_TILE < a.length ? start + AMP_CUDA_RADIX_TILE : a.length;
        for (int d = AMP_THREAD; d < AMP_CUDA_DIGITS; d += AMP_THREADS) counts[d] = 0;
        AMP_BARRIER();
        for (int64_t i = start + AMP_THREAD; i < end; i += AMP_THREADS)
            AMP_COUNT_ONE(counts[digit_of(a, row * a.length, i)]);
        AMP_BARRIER();
        for (int d = AMP_THREAD; d < AMP_CUDA_DIGITS; d += AMP_THREADS)
            a.counts[(row * AMP_CUDA_DIGITS + d) * a.tiles + tile % a.tiles] = counts[d];
        AMP_BARRIER(); /* before they are cleared */
    }
}

/* Few tiles: a thread for each digit of a row; else a block. */
AMP_KERNEL(radix_scan, amp_cuda_radix) {
    const bool few = a.tiles <= AMP_CUDA_FEW_TILES;
    for (int64_t line = first_element(); few && line < a.rows * AMP_CUDA_DIGITS; line += element_step()) {
        uint32_t *counts = a.counts + line * a.tiles, before = 0;
        for (int64_t i = 0; i < a.tiles; i++) {
            const uint32_t here = counts[i];
            counts[i] = before;
            before += here;
        }
        a.totals[line] = before;
    }
    if (few) return;
    for (int64_t line = AMP_BLOCK; line < a.rows * AMP_CUDA_DIGITS; line += AMP_BLOCKS) {
        uint32_t *counts = a.counts + line * a.tiles, before = 0, all;
        for (int64_t first = 0; first < a.tiles; first += AMP_THREADS) {
            const int64_t i = first + AMP_THREAD;
            const uint32_t sum = before + sum_before(i < a.tiles ? counts[i] : 0, &all);
            if (i < a.tiles) counts[i] = sum;
            before += all;
        }
        if (AMP_THREAD == 0) a.totals[line] = before;
    }
}

/* Where number i is in shared memory, so that threads find shares of eight in different banks; and of 16-bit numbers,
 * sixteen. */
AMP_DEVICE int apart(int i) {
    return i + i / 32;
}
AMP_DEVICE int halves_apart(int i) {
    return i + i / 64 * 2;
}

/* `items`, of which each names its digit in the bits above `low`, are put in order of four bits of it: each thread
 * counts those of its share, and after a scan over digits, then threads, it knows where they go. */
AMP_DEVICE void split_items(const uint32_t *items, uint32_t *sorted, int count, int low, uint16_t *counters) {
    enum { PARTS = 16 };
    const share mine = share_of(count);
    uint32_t sum = 0, all;
    for (int d = 0; d < PARTS; d++) counters[halves_apart(d * AMP_THREADS + AMP_THREAD)] = 0;
    for (int i = mine.begin; i < mine.end; i++)
        counters[halves_apart((items[apart(i)] >> low) % PARTS * AMP_THREADS + AMP_THREAD)]++;
    AMP_BARRIER();
    for (int i = AMP_THREAD * PARTS; i < (AMP_THREAD + 1) * PARTS; i++) sum += counters[halves_apart(i)];
    sum = sum_before(sum, &all);
    for (int i = AMP_THREAD * PARTS; i < (AMP_THREAD + 1) * PARTS; i++) {
        const uint16_t here = counters[halves_apart(i)];
        counters[halves_apart(i)] = (uint16_t)sum;
        sum += here;
    }
    AMP_BARRIER();
    for (int i = mine.begin; i < mine.end; i++) {
        const uint32_t item = items[apart(i)];
        sorted[apart(counters[halves_apart((item >> low) % PARTS * AMP_THREADS + AMP_THREAD)]++)] = item;
    }
    AMP_BARRIER();
}

/* For each digit: where its elements of a tile start in the row, less where they start in the sorted tile (modulo 2³²).
 * */
AMP_DEVICE void find_starts(const amp_cuda_radix &a, int64_t row, int64_t tile, const uint32_t *items, int count,
                            uint32_t *starts) {
    const share mine = share_of(AMP_CUDA_DIGITS);
    const uint32_t *totals = a.totals + row * AMP_CUDA_DIGITS;
    uint32_t sum = 0, all;
    for (int d = mine.begin; d < mine.end; d++) sum += totals[d];
    sum = sum_before(sum, &all);
    for (int d = mine.begin; d < mine.end; d++) {
        starts[d] = sum + a.counts[(row * AMP_CUDA_DIGITS + d) * a.tiles + tile];
        sum += totals[d];
    }
    AMP_BARRIER();
    for (int i = AMP_THREAD; i < count; i += AMP_THREADS) {
        const uint32_t digit = items[apart(i)] >> 16;
        if (i == 0 || digit != items[apart(i - 1)] >> 16) starts[digit] -= (uint32_t)i;
    }
    AMP_BARRIER();
}

/* An item is an element's digit and, in the lower 16 bits, its place in the tile. Sorted in the tile first, neighbours
 * are written to neighbours. */
AMP_KERNEL(radix_move, amp_cuda_radix) {
    enum { ROOM = AMP_CUDA_RADIX_TILE + AMP_CUDA_RADIX_TILE / 32, COUNTERS = 16 * AMP_BLOCK_THREADS };
    AMP_SHARED_BYTES(item_bytes, 2 * ROOM * sizeof(uint32_t));
    AMP_SHARED_BYTES(counter_bytes, (COUNTERS + COUNTERS / 32) * sizeof(uint16_t));
    AMP_SHARED_BYTES(start_bytes, AMP_CUDA_DIGITS * sizeof(uint32_t));
    uint32_t *items = (uint32_t *)(void *)item_bytes, *others = items + ROOM;
    uint32_t *starts = (uint32_t *)(void *)start_bytes;
    uint16_t *counters = (uint16_t *)(void *)counter_bytes;
    for (int64_t block = AMP_BLOCK; block < a.rows * a.tiles; block += AMP_BLOCKS) {
        const int64_t row = block / a.tiles, tile = block % a.tiles, from = row * a.length;
        const int64_t start = tile * AMP_CUDA_RADIX_TILE, left = a.length - start;
        const int count = left < AMP_CUDA_RADIX_TILE ? (int)left : (int)AMP_CUDA_RADIX_TILE;
        for (int i = AMP_THREAD; i < count; i += AMP_THREADS)
            items[apart(i)] = digit_of(a, from, start + i) << 16 | (uint32_t)i;
        AMP_BARRIER();
        split_items(items, others, count, 16, counters);
        split_items(others, items, count, 20, counters);
        find_starts(a, row, tile, items, count, starts);
        for (int i = AMP_THREAD; i < count; i += AMP_THREADS) {
            const uint32_t item = items[apart(i)];
            radix_write(a, from, start + (item & 0xffff), (uint32_t)(starts[item >> 16] + (uint32_t)i));
        }
        AMP_BARRIER(); /* before the next tile is read */
    }
}

AMP_KERNEL(sort_take, amp_cuda_take) {
    for (int64_t i = first_element(); i < a.rows * a.wanted; i += element_step()) {
        const int64_t row = i / a.wanted, place = a.places[row * a.in_order + i % a.wanted];
        const int64_t from = row * a.length + place;
        a.indices[i] = place;
        switch (a.size) {
        case 1: ((uint8_t *)a.values)[i] = ((const uint8_t *)a.in)[from]; break;
        case 2: ((uint16_t *)a.values)[i] = ((const uint16_t *)a.in)[from]; break;
        case 4: ((uint32_t *)a.values)[i] = ((const uint32_t *)a.in)[from]; break;
        default: ((uint64_t *)a.values)[i] = ((const uint64_t *)a.in)[from]; break;
        }
    }
}

/* ---- Quantiles --------------------------------------------------------------------------------------------------- */
enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST };

/* How many of a row's elements are numbers: NaN are last. */
AMP_DEVICE int64_t count_numbers(const amp_cuda_quantiles &a, int64_t row) {
    int64_t low = 0, high = a.length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const double x = load<double>(a.in, a.dtype, row + a.places[row + middle]);
        if (x == x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Of the first n elements, the positions rounded as the dtype rounds: 0.1 of 11 numbers is the second one in f32
 * too. */
AMP_DEVICE double quantile_of(const amp_cuda_quantiles &a, int64_t row, int64_t n, double q) {
    double position = a.dtype == AMP_F32 ? (double)((float)q * (float)(n - 1)) : q * (double)(n - 1);
    if (position > (double)(n - 1)) position = (double)(n - 1); /* above 2^24, n rounds up */
    if (a.rule == NEAREST) position = rint(position);
    const double low = floor(position);
    double share = a.rule == LOWER ? 0.0 : a.rule == HIGHER ? ceil(position) - low : position - low;
    if (a.rule == MIDPOINT && share > 0.0) share = 0.5;
    const double x = load<double>(a.in, a.dtype, row + a.places[row + (int64_t)low]);
    if (share == 0.0) return x;
    const double y = load<double>(a.in, a.dtype, row + a.places[row + (int64_t)low + 1]);
    if (share == 1.0) return y;
    return share < 0.5 ? x + share * (y - x) : y - (y - x) * (1.0 - share);
}

AMP_KERNEL(quantile, amp_cuda_quantiles) {
    for (int64_t i = first_element(); i < a.count * a.rows; i += element_step()) {
        const int64_t row = i % a.rows * a.length, numbers = count_numbers(a, row);
        const double q = a.q ? load<double>(a.q, a.q_dtype, i / a.rows) : a.number;
        const bool known = q >= 0.0 && q <= 1.0;
        if (!known) a.report.faults->probability = a.report.op;
        const bool none = !known || numbers == 0 || (numbers < a.length && !a.without_nan);
        store<double>(a.out, a.dtype, i, none ? NAN : quantile_of(a, row, numbers, q));
    }
}

/* ---- Searches ---------------------------------------------------------------------------------------------------- */
/* The element that comes at `place` of a row. */
template <class T>
AMP_DEVICE T element_of(const amp_cuda_search &a, int64_t row, int64_t place) {
    if (a.sorter) {
        const int64_t at = load<int64_t>(a.sorter, a.sorter_dtype, row + place);
        const bool inside = at >= 0 && at < a.length;
        if (!inside) a.report.faults->index = a.report.op;
        place = inside ? at : 0;
    }
    return load<T>(a.sequence, a.sequence_dtype, row + place);
}

/* Elements before a value: those that are not ≥ it, or (right) not above it. So a NaN belongs at the end. */
template <class T>
AMP_DEVICE void search(const amp_cuda_search &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const int64_t row = i / a.each * a.length;
        const T value = load<T>(a.values, a.values_dtype, i);
        int64_t low = 0, high = a.length;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const T x = element_of<T>(a, row, middle);
            if (a.right ? !(x > value) : !(x >= value)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        store<int64_t>(a.out, a.out_dtype, i, low);
    }
}
AMP_KERNEL(search_f32, amp_cuda_search) {
    search<float>(a);
}
AMP_KERNEL(search_f64, amp_cuda_search) {
    search<double>(a);
}
AMP_KERNEL(search_i64, amp_cuda_search) {
    search<int64_t>(a);
}
