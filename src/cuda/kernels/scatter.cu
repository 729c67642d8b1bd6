/* Elements written where indices say, and rows that indices put together. Nothing here is added atomically: elements
 * that belong to one result are one thread's, in the order of the index, so results are the same every time. Those of
 * scatter, index_add and index_put are the CPU's; the others agree with it up to rounding. */
#include "cuda/args/index_args.h"
#include "cuda/kernels/kernel.h"

extern "C" {
#include "steps/kinds.h"
}

/* ---- scatter, index_add, index_put ------------------------------------------------------------------------------- */
struct moved {};

template <class Element>
AMP_DEVICE void move(void *to, int64_t at, const void *from, int64_t place) {
    ((Element *)to)[at] = ((const Element *)from)[place];
}
AMP_DEVICE void move_element(int size, void *to, int64_t at, const void *from, int64_t place) {
    switch (size) {
    case 1: move<uint8_t>(to, at, from, place); break;
    case 2: move<uint16_t>(to, at, from, place); break;
    case 4: move<uint32_t>(to, at, from, place); break;
    case 8: move<uint64_t>(to, at, from, place); break;
    default: move<sixteen_bytes>(to, at, from, place); break;
    }
}

template <class T>
AMP_DEVICE T alpha_of(const amp_cuda_scatter &a) {
    return (T)a.alpha;
}
template <>
AMP_DEVICE int64_t alpha_of<int64_t>(const amp_cuda_scatter &a) {
    return a.alpha_whole;
}
template <>
AMP_DEVICE complex128 alpha_of<complex128>(const amp_cuda_scatter &a) {
    return {a.alpha, a.alpha_imaginary};
}

/* The larger of two, or the smaller; a NaN wins. Complex numbers have no order. */
template <class T>
AMP_DEVICE T extreme(T x, T y, bool largest) {
    return x != x || (largest ? x > y : x < y) ? x : y;
}
AMP_DEVICE complex128 extreme(complex128 x, complex128, bool) {
    return x;
}

/* The table's element and the value at `from`, joined. */
template <class T>
AMP_DEVICE T joined(const amp_cuda_scatter &a, T x, int64_t from) {
    const T y = a.values ? load<T>(a.values, a.values_dtype, from) : load<T>(a.number, a.dtype, 0);
    switch (a.joining) {
    case AMP_SCATTER_ADD: return plus(x, multiply(alpha_of<T>(a), y));
    case AMP_SCATTER_MULTIPLY: return multiply(x, y);
    default: return extreme(x, y, a.joining == AMP_SCATTER_LARGEST);
    }
}

AMP_DEVICE bool is_inside(const amp_cuda_scatter &a, int64_t index) {
    const bool inside = index >= a.least && index < a.extent;
    if (!inside) a.report.faults->index = a.report.op;
    return inside;
}

template <class T>
AMP_DEVICE void put(const amp_cuda_scatter &a, int64_t at, int64_t from) {
    store<T>(a.table, a.dtype, at, joined<T>(a, load<T>(a.table, a.dtype, at), from));
}
template <>
AMP_DEVICE void put<moved>(const amp_cuda_scatter &a, int64_t at, int64_t from) {
    move_element(a.size, a.table, at, a.values ? a.values : a.number, a.values ? from : 0);
}

/* A thread for each line. */
template <class T>
AMP_DEVICE void scatter_lines(const amp_cuda_scatter &a) {
    for (int64_t line = first_element(); line < a.lines; line += element_step()) {
        const int64_t at = place(line, a.rank, a.shape, a.table_strides);
        const int64_t from = place(line, a.rank, a.shape, a.values_strides);
        const int64_t *index = a.index + place(line, a.rank, a.shape, a.index_strides);
        for (int64_t j = 0; j < a.length; j++) {
            const int64_t i = index[j * a.index_step];
            if (is_inside(a, i)) put<T>(a, at + i * a.scale, from + j * a.values_step);
        }
    }
}

/* Of neighbours in order with one index, the first adds them all, or the last is written. */
template <class T>
AMP_DEVICE void put_all(const amp_cuda_scatter &a, int64_t at, int64_t from, int64_t base, int64_t j) {
    const uint64_t key = a.keys[base + j];
    if (j > 0 && a.keys[base + j - 1] == key) return;
    T x = load<T>(a.table, a.dtype, at);
    for (; j < a.length && a.keys[base + j] == key; j++) x = joined<T>(a, x, from + a.order[base + j] * a.values_step);
    store<T>(a.table, a.dtype, at, x);
}
template <>
AMP_DEVICE void put_all<moved>(const amp_cuda_scatter &a, int64_t at, int64_t from, int64_t base, int64_t j) {
    if (j + 1 < a.length && a.keys[base + j + 1] == a.keys[base + j]) return;
    put<moved>(a, at, from + a.order[base + j] * a.values_step);
}

/* A thread for each place of each line, whose indices have been put in order. */
template <class T>
AMP_DEVICE void scatter_ordered(const amp_cuda_scatter &a) {
    for (int64_t i = first_element(); i < a.lines * a.length; i += element_step()) {
        const int64_t line = i % a.lines, j = i / a.lines, base = place(line, a.rank, a.shape, a.order_strides);
        const int64_t index = (int64_t)(a.keys[base + j] ^ (uint64_t)1 << 63);
        if (!is_inside(a, index)) continue;
        put_all<T>(a, place(line, a.rank, a.shape, a.table_strides) + index * a.scale,
                   place(line, a.rank, a.shape, a.values_strides), base, j);
    }
}

#define SCATTER(suffix, type)                                                                                          \
    AMP_KERNEL(scatter_##suffix, amp_cuda_scatter) {                                                                   \
        if (a.keys) {                                                                                                  \
            scatter_ordered<type>(a);                                                                                  \
        } else {                                                                                                       \
            scatter_lines<type>(a);                                                                                    \
        }                                                                                                              \
    }
SCATTER(moved, moved)
SCATTER(f32, float)
SCATTER(f64, double)
SCATTER(i64, int64_t)
SCATTER(c128, complex128)

AMP_KERNEL(index_offsets, amp_cuda_offsets) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t offset = 0;
        bool inside = true;
        for (int d = 0; d < a.dims; d++) {
            if (!a.index[d]) continue;
            const int64_t given = a.index[d][place(i, a.rank, a.shape, a.strides[d])];
            const int64_t index = given < 0 ? given + a.extents[d] : given;
            inside = inside && index >= 0 && index < a.extents[d];
            offset += index * a.table_strides[d];
        }
        if (!inside) a.report.faults->index = a.report.op;
        a.out[i] = inside ? offset : INT64_MIN;
    }
}

/* ---- embedding_bag ----------------------------------------------------------------------------------------------- */
enum { SUM, MEAN, MAXIMUM };

/* Where a bag's indices begin; one past the last bag: where they end. */
AMP_DEVICE int64_t bag_start(const amp_cuda_bags &a, int64_t bag) {
    if (!a.offsets) return bag * a.each;
    const int64_t start = bag < a.last ? load<int64_t>(a.offsets, a.offsets_dtype, bag) : a.indices;
    const bool right = start >= 0 && start <= a.indices && (bag > 0 || start == 0);
    if (!right) a.report.faults->index = a.report.op;
    return right ? start : 0;
}

template <class T>
AMP_DEVICE void bags(const amp_cuda_bags &a) {
    for (int64_t i = first_element(); i < a.bags * a.width; i += element_step()) {
        const int64_t bag = i / a.width, column = i % a.width * a.column_stride;
        const int64_t from = bag_start(a, bag), to = bag_start(a, bag + 1);
        if (to < from) a.report.faults->index = a.report.op;
        T value = 0;
        int64_t taken = 0;
        for (int64_t k = from; k < to; k++) {
            const int64_t row = load<int64_t>(a.index, a.index_dtype, k);
            const bool inside = row >= 0 && row < a.rows;
            if (!inside) a.report.faults->index = a.report.op;
            if (!inside || row == a.padding) continue;
            const T x = load<T>(a.table, a.dtype, row * a.row_stride + column);
            if (a.mode == MAXIMUM) {
                value = taken == 0 || x > value ? x : value;
            } else {
                value += a.scales ? load<T>(a.scales, a.scales_dtype, k) * x : x;
            }
            taken++;
        }
        store<T>(a.out, a.dtype, i, a.mode == MEAN && taken > 1 ? value / (T)taken : value);
    }
}
AMP_KERNEL(bags_f32, amp_cuda_bags) {
    bags<float>(a);
}
AMP_KERNEL(bags_f64, amp_cuda_bags) {
    bags<double>(a);
}

/* max_norm: which rows are looked up … */
AMP_KERNEL(mark_rows, amp_cuda_limit) {
    for (int64_t i = first_element(); i < a.indices; i += element_step()) {
        const int64_t row = load<int64_t>(a.index, a.index_dtype, i);
        const bool inside = row >= 0 && row < a.rows;
        if (inside) a.seen[row] = 1;
        if (!inside) a.report.faults->index = a.report.op;
    }
}
/* … and each of them limited, once. */
AMP_KERNEL(limit_rows, amp_cuda_limit) {
    for (int64_t row = first_element(); row < a.rows; row += element_step()) {
        if (!a.seen[row]) continue;
        const int64_t base = row * a.row_stride;
        double norm = 0.0;
        for (int64_t i = 0; i < a.width; i++) {
            const double x = fabs(load<double>(a.table, a.dtype, base + i * a.column_stride));
            if (isinf(a.p)) {
                norm = x > norm ? x : norm;
            } else {
                norm += a.p == 2.0 ? x * x : a.p == 1.0 ? x : pow(x, a.p);
            }
        }
        if (!isinf(a.p)) norm = pow(norm, 1.0 / a.p);
        if (!(norm > a.limit)) continue;
        for (int64_t i = 0; i < a.width; i++) {
            const int64_t at = base + i * a.column_stride;
            store<double>(a.table, a.dtype, at, load<double>(a.table, a.dtype, at) * (a.limit / (norm + 1e-7)));
        }
    }
}

/* ---- local_response_norm ----------------------------------------------------------------------------------------- */
/* x/s^beta in the forms that need no power. */
AMP_DEVICE double damped(double x, double s, double beta) {
    if (beta == 0.75) return x / (sqrt(s) * sqrt(sqrt(s)));
    if (beta == 0.5) return x / sqrt(s);
    return beta == 1.0 ? x / s : x / pow(s, beta);
}

/* Of i64 the squares' sum wraps, and their mean is a whole number. */
AMP_KERNEL(response, amp_cuda_response) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const int64_t c = i / a.inner % a.channels, first = c - a.size / 2, last = c + (a.size - 1) / 2;
        const int64_t from = first < 0 ? 0 : first, to = last < a.channels ? last : a.channels - 1;
        double sum = 0.0;
        int64_t whole = 0;
        for (int64_t w = from; w <= to; w++) {
            const int64_t at = i + (w - c) * a.inner;
            if (a.in_dtype == AMP_I64) {
                const int64_t x = ((const int64_t *)a.in)[at];
                whole = plus(whole, multiply(x, x));
            } else {
                const double x = load<double>(a.in, a.in_dtype, at);
                sum += x * x;
            }
        }
        const double mean = a.in_dtype == AMP_I64 ? (double)(whole / a.size) : sum / (double)a.size;
        const double x = load<double>(a.in, a.in_dtype, i);
        store<double>(a.out, a.out_dtype, i, damped(x, a.k + a.alpha * mean, a.beta));
    }
}

/* ---- ctc_loss ---------------------------------------------------------------------------------------------------- */
/* log(e^a + e^b + e^c) */
AMP_DEVICE double log_sum(double a, double b, double c) {
    const double high = a > b ? a : b, low = a > b ? b : a, most = high > c ? high : c, middle = high > c ? c : high;
    return most == -INFINITY ? most : most + log1p(exp(middle - most) + exp(low - most));
}

/* A length that is told of where it is wrong. */
AMP_DEVICE int64_t length_at(const amp_cuda_alignments &a, const void *lengths, amp_dtype dtype, int64_t i,
                             int64_t most) {
    const int64_t length = load<int64_t>(lengths, dtype, i);
    const bool right = length >= 0 && length <= most;
    if (!right) a.report.faults->index = a.report.op;
    return right ? length : 0;
}
AMP_DEVICE int64_t labels_of(const amp_cuda_alignments &a, int64_t sample) {
    return length_at(a, a.label_counts, a.label_counts_dtype, sample, a.padded ? a.padded : a.label_count);
}

struct alignment {
    int64_t sample, begin, labels;
};

/* What state 2·k + 1 stands for; the others are blanks. */
AMP_DEVICE int64_t label_at(const amp_cuda_alignments &a, const alignment &p, int64_t k) {
    const int64_t label = load<int64_t>(a.labels, a.labels_dtype, p.begin + k);
    const bool right = label >= 0 && label < a.classes;
    if (!right) a.report.faults->index = a.report.op;
    return right ? label : a.blank;
}
AMP_DEVICE double log_prob(const amp_cuda_alignments &a, const alignment &p, int64_t frame, int64_t state) {
    const int64_t label = state % 2 ? label_at(a, p, state / 2) : a.blank;
    return load<double>(a.log_probs, a.dtype, (frame * a.batch + p.sample) * a.classes + label);
}

/* α of a state, from those of the frame before. */
AMP_DEVICE double next_alpha(const amp_cuda_alignments &a, const alignment &p, const double *before, int64_t frame,
                             int64_t s) {
    const bool skips = s % 2 && s > 1 && label_at(a, p, s / 2) != label_at(a, p, s / 2 - 1);
    const double sum = log_sum(before[s], s > 0 ? before[s - 1] : -INFINITY, skips ? before[s - 2] : -INFINITY);
    return sum == -INFINITY ? sum : sum + log_prob(a, p, frame, s);
}

/* A block for each sample; its threads share the states. */
AMP_KERNEL(ctc, amp_cuda_alignments) {
    for (int64_t n = AMP_BLOCK; n < a.batch; n += AMP_BLOCKS) {
        const int64_t frames = length_at(a, a.frame_counts, a.frame_counts_dtype, n, a.frames);
        alignment p = {n, a.padded ? n * a.padded : 0, labels_of(a, n)};
        for (int64_t i = 0; i < n && !a.padded; i++) p.begin += labels_of(a, i);
        if (!a.padded && p.begin + p.labels > a.label_count) {
            a.report.faults->index = a.report.op;
            p.begin = p.labels = 0;
        }
        const int64_t states = 2 * p.labels + 1;
        double *now = a.alpha + 2 * n * a.states, *next = now + a.states;
        for (int64_t s = AMP_THREAD; s < states; s += AMP_THREADS)
            now[s] = s < 2 && frames > 0 ? log_prob(a, p, 0, s) : -INFINITY;
        AMP_BARRIER();
        for (int64_t t = 1; t < frames; t++) {
            for (int64_t s = AMP_THREAD; s < states; s += AMP_THREADS) next[s] = next_alpha(a, p, now, t, s);
            AMP_BARRIER();
            double *const last = now;
            now = next;
            next = last;
        }
        if (AMP_THREAD == 0) {
            double loss = -log_sum(now[states - 1], p.labels > 0 ? now[states - 2] : -INFINITY, -INFINITY);
            if (frames == 0) loss = p.labels == 0 ? 0.0 : INFINITY;
            if (a.zero_infinity && loss == INFINITY) loss = 0.0;
            a.losses[n] = a.mean ? loss / (double)(p.labels > 0 ? p.labels : 1) : loss;
        }
        AMP_BARRIER(); /* before the next sample */
    }
}

/* ---- fractional_max_pool ----------------------------------------------------------------------------------------- */
AMP_DEVICE int64_t whole_place(double x) {
    return x > -0x1p62 && x < 0x1p62 ? (int64_t)x : 0;
}

/* Where window i of n begins, with the roundings of the type that is computed in; the last one ends with the input. */
template <class T>
AMP_DEVICE int64_t window_start(T sample, int64_t i, int64_t room, int64_t n) {
    if (i == n - 1) return room;
    const T alpha = (T)room / (T)(n - 1);
    const int64_t start = whole_place((double)(((T)i + sample) * alpha)) - whole_place((double)(sample * alpha));
    return start < 0 ? 0 : start > room ? room : start;
}

template <class T>
AMP_DEVICE void pool_fractions(const amp_cuda_fractions &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t rest = i, start[3];
        int64_t output[3];
        for (int k = 2; k >= 0; k--) {
            output[k] = rest % a.out_extent[k];
            rest /= a.out_extent[k];
        }
        for (int k = 0; k < 3; k++) { /* samples are ordered W, H in two dimensions, and D, H, W in three */
            const int order = a.dims == 2 ? 2 - k : k;
            start[k] = order < a.dims ? window_start(load<T>(a.samples, a.dtype, rest * a.dims + order), output[k],
                                                     a.in_extent[k] - a.kernel[k], a.out_extent[k])
                                      : 0;
        }
        const int64_t plane = rest * a.in_extent[0] * a.in_extent[1] * a.in_extent[2];
        T most = 0;
        int64_t found = -1;
        for (int64_t w = 0; w < a.kernel[0] * a.kernel[1] * a.kernel[2]; w++) {
            const int64_t d = start[0] + w / (a.kernel[1] * a.kernel[2]), h = start[1] + w / a.kernel[2] % a.kernel[1];
            const int64_t at = (d * a.in_extent[1] + h) * a.in_extent[2] + start[2] + w % a.kernel[2];
            const T x = load<T>(a.in, a.dtype, plane + at);
            if (found >= 0 && !(x > most || x != x)) continue;
            most = x;
            found = at;
        }
        store<T>(a.out, a.dtype, i, most);
        if (a.places) a.places[i] = found;
    }
}
AMP_KERNEL(fractions_f32, amp_cuda_fractions) {
    pool_fractions<float>(a);
}
AMP_KERNEL(fractions_f64, amp_cuda_fractions) {
    pool_fractions<double>(a);
}
