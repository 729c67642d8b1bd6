/* Sorting: tiles in shared memory, then runs merged two by two. Every element finds its place in the merged run by bisecting the
 * other one, so there is no order of threads to it, and equal elements stay in theirs. Quantiles and searches beside it. */
#include "cuda/device/kernel.h"
#include "cuda/index_args.h"

/* ---- Keys --------------------------------------------------------------------------------------------------------- */
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

/* ---- Merging ------------------------------------------------------------------------------------------------------ */
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
            const uint64_t key = key_at(a.in, a.dtype, row + at);
            keys[i] = a.descending ? ~key : key;
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

/* ---- Quantiles ---------------------------------------------------------------------------------------------------- */
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

/* Of the first n elements, the positions rounded as the dtype rounds: 0.1 of 11 numbers is the second one in f32 too. */
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

/* ---- Searches ----------------------------------------------------------------------------------------------------- */
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
