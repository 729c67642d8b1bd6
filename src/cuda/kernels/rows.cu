/* Kernels in which several elements make one: reductions, scans, losses over classes; and gathering by index.
 *
 * Order of sums: each thread adds every width-th element in order, with the rounding errors carried along (Neumaier);
 * then the threads of a result join in pairs, and, of few results, the pieces that these were cut into in the same way.
 * It follows from shapes alone. */
#include "cuda/kernels/sums.h"

extern "C" {
#include "steps/reduce_kinds.h"
}

/* Joins the accumulators of `width` neighbouring threads, a power of two; the first of them has the result. */
template <class State, class Join>
AMP_DEVICE void join_threads(State *mine, State *shared, int width, Join join) {
    if (width == 1) return;
    shared[AMP_THREAD] = *mine;
    AMP_BARRIER();
    for (int step = width / 2; step > 0; step /= 2) {
        if (AMP_THREAD % width < step) join(&shared[AMP_THREAD], shared[AMP_THREAD + step]);
        AMP_BARRIER();
    }
    *mine = shared[AMP_THREAD];
    AMP_BARRIER(); /* the next row writes there */
}

/* ---- Reductions -------------------------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE T power_of(T x, double p) {
    return (T)pow((double)magnitude(x), p);
}
AMP_DEVICE int64_t power_of(int64_t x, double) {
    return x;
}
/* What goes into a sum for one element. */
template <class T>
AMP_DEVICE T term(int kind, T x, double power) {
    switch (kind) {
    case AMP_REDUCE_SUM_ABS: return magnitude(x);
    case AMP_REDUCE_SUM_SQUARES: return multiply(x, x);
    case AMP_REDUCE_SUM_POWERS: return power_of(x, power);
    case AMP_REDUCE_COUNT: return (T)(x != 0);
    default: return x;
    }
}
template <>
AMP_DEVICE complex128 term<complex128>(int, complex128 x, double) {
    return x;
}

template <class T>
AMP_DEVICE T finish(const amp_cuda_reduce &a, T x) {
    double value = (double)x * a.scale;
    if (a.root != 1.0) value = a.root == 0.5 ? sqrt(value) : pow(value, a.root);
    return (T)value;
}
template <>
AMP_DEVICE int64_t finish<int64_t>(const amp_cuda_reduce &, int64_t x) {
    return x;
}
template <>
AMP_DEVICE complex128 finish<complex128>(const amp_cuda_reduce &a, complex128 x) {
    return {x.re * a.scale, x.im * a.scale};
}

/* Calls visit(element, its number) for this thread's elements of a result. */
template <class T, class Visit>
AMP_DEVICE void visit_elements(const amp_cuda_reduce &a, int64_t result, int64_t piece, int width, Visit *visit) {
    const int64_t base = place(result, a.kept_rank, a.kept, a.kept_strides);
    const int64_t length = (a.elements + a.pieces - 1) / a.pieces, begin = piece * length;
    const int64_t end = begin + length < a.elements ? begin + length : a.elements;
    for (int64_t i = begin + AMP_THREAD % width; i < end; i += width) {
        const int64_t at =
            a.reduced_rank == 1 ? i * a.reduced_strides[0] : place(i, a.reduced_rank, a.reduced, a.reduced_strides);
        visit->see(load<T>(a.in, a.in_dtype, base + at), i);
    }
}

template <class T>
struct sum_state {
    sum<T> total;
    int kind;
    double power;
    AMP_DEVICE_MEMBER void see(T x, int64_t) {
        total.add(term<T>(kind, x, power));
    }
    AMP_DEVICE_MEMBER void join(const sum_state &other) {
        total.join(other.total);
    }
};

template <class T>
struct product_state {
    T value;
    AMP_DEVICE_MEMBER void see(T x, int64_t) {
        value = multiply(value, x);
    }
    AMP_DEVICE_MEMBER void join(const product_state &other) {
        value = multiply(value, other.value);
    }
};

template <class T>
struct extreme_state {
    T value;
    int64_t index; /* the first of equal ones */
    bool largest, absolute;
    AMP_DEVICE_MEMBER void see(T x, int64_t i) {
        if (absolute) x = magnitude(x);
        if (index < 0 || beats(x, value, largest)) {
            value = x;
            index = i;
        }
    }
    AMP_DEVICE_MEMBER void join(const extreme_state &other) {
        if (other.index < 0) return;
        const bool same = !beats(other.value, value, largest) && !beats(value, other.value, largest);
        if (index < 0 || beats(other.value, value, largest) || (same && other.index < index)) {
            value = other.value;
            index = other.index;
        }
    }
};

template <class State>
struct joining {
    AMP_DEVICE_MEMBER void operator()(State *into, const State &other) const {
        into->join(other);
    }
};

/* What has been joined of piece number `i` of all results. */
template <class State>
AMP_DEVICE State *joined_piece(const amp_cuda_reduce &a, int64_t i) {
    static_assert(sizeof(State) <= AMP_CUDA_STATE, "there is room for it");
    return (State *)((char *)a.joined + i * AMP_CUDA_STATE);
}

/* The results of this thread's group, one after the other; all threads of the block go the same number of rounds. */
template <class T, class State, class Write>
AMP_DEVICE void reduce_with(const amp_cuda_reduce &a, State start, Write write) {
    AMP_SHARED_BYTES(memory, AMP_BLOCK_THREADS * sizeof(State));
    State *shared = (State *)memory;
    const int width = a.width < AMP_THREADS ? a.width : AMP_THREADS, groups = AMP_THREADS / width;
    const int64_t pieces = a.second ? 1 : a.pieces, works = (a.results + groups - 1) / groups * pieces;
    for (int64_t work = AMP_BLOCK; work < works; work += AMP_BLOCKS) {
        const int64_t result = work / pieces * groups + AMP_THREAD / width, piece = work % pieces;
        const bool inside = result < a.results;
        State state = start;
        if (inside && !a.second) visit_elements<T>(a, result, piece, width, &state);
        for (int64_t i = AMP_THREAD % width; inside && a.second && i < a.pieces; i += width) {
            state.join(*joined_piece<State>(a, result * a.pieces + i));
        }
        join_threads(&state, shared, width, joining<State>());
        if (!inside || AMP_THREAD % width != 0) continue;
        if (a.joined && !a.second) {
            *joined_piece<State>(a, result * pieces + piece) = state;
        } else {
            write(a, result, state);
        }
    }
}

template <class T>
AMP_DEVICE void put_result(const amp_cuda_reduce &a, int64_t result, T x) {
    store<T>(a.out, a.out_dtype, place(result, a.kept_rank, a.kept, a.out_strides), x);
}
template <class T>
struct write_sum {
    AMP_DEVICE_MEMBER void operator()(const amp_cuda_reduce &a, int64_t result, const sum_state<T> &s) const {
        put_result<T>(a, result, finish<T>(a, s.total.result()));
    }
};
template <class T>
struct write_product {
    AMP_DEVICE_MEMBER void operator()(const amp_cuda_reduce &a, int64_t result, const product_state<T> &s) const {
        put_result<T>(a, result, s.value);
    }
};
template <class T>
struct write_extreme {
    AMP_DEVICE_MEMBER void operator()(const amp_cuda_reduce &a, int64_t result, const extreme_state<T> &s) const {
        const T none = s.largest ? lowest<T>() : highest<T>();
        if (a.out) put_result<T>(a, result, s.index < 0 ? none : finish<T>(a, s.value));
        if (a.index) a.index[result] = s.index < 0 ? 0 : s.index;
    }
};

template <class T>
AMP_DEVICE bool reduce_to_sum(const amp_cuda_reduce &a) {
    if (a.kind > AMP_REDUCE_COUNT) return false;
    sum_state<T> start = {};
    start.kind = a.kind;
    start.power = a.power;
    reduce_with<T>(a, start, write_sum<T>());
    return true;
}
template <class T>
AMP_DEVICE void reduce_to_extreme(const amp_cuda_reduce &a) {
    extreme_state<T> start = {};
    start.index = -1;
    start.largest = a.kind == AMP_REDUCE_MAX || a.kind == AMP_REDUCE_MAX_ABS;
    start.absolute = a.kind == AMP_REDUCE_MAX_ABS || a.kind == AMP_REDUCE_MIN_ABS;
    reduce_with<T>(a, start, write_extreme<T>());
}
AMP_KERNEL(sum_f32, amp_cuda_reduce) {
    (void)reduce_to_sum<float>(a);
}
AMP_KERNEL(sum_f64, amp_cuda_reduce) {
    (void)reduce_to_sum<double>(a);
}
AMP_KERNEL(sum_i64, amp_cuda_reduce) {
    (void)reduce_to_sum<int64_t>(a);
}
AMP_KERNEL(sum_c128, amp_cuda_reduce) {
    (void)reduce_to_sum<complex128>(a);
}
AMP_KERNEL(extreme_f32, amp_cuda_reduce) {
    reduce_to_extreme<float>(a);
}
AMP_KERNEL(extreme_f64, amp_cuda_reduce) {
    reduce_to_extreme<double>(a);
}
AMP_KERNEL(extreme_i64, amp_cuda_reduce) {
    reduce_to_extreme<int64_t>(a);
}
/* Products of f32 are computed in f64: a long one leaves f32's range on the way. */
AMP_KERNEL(product_f64, amp_cuda_reduce) {
    reduce_with<double>(a, product_state<double>{1.0}, write_product<double>());
}
AMP_KERNEL(product_i64, amp_cuda_reduce) {
    reduce_with<int64_t>(a, product_state<int64_t>{1}, write_product<int64_t>());
}
AMP_KERNEL(product_c128, amp_cuda_reduce) {
    reduce_with<complex128>(a, product_state<complex128>{{1.0, 0.0}}, write_product<complex128>());
}

/* ---- Rows: a block for each -------------------------------------------------------------------------------------- */
/* Every thread gets the joined value. */
template <class State, class Join>
AMP_DEVICE State join_block(State mine, State *shared, Join join) {
    shared[AMP_THREAD] = mine;
    AMP_BARRIER();
    for (int step = AMP_THREADS / 2; step > 0; step /= 2) {
        if (AMP_THREAD < step) join(&shared[AMP_THREAD], shared[AMP_THREAD + step]);
        AMP_BARRIER();
    }
    const State result = shared[0];
    AMP_BARRIER();
    return result;
}

/* ---- Scans: sums, products and extremes of what a row has up to each element ------------------------------------- */
template <class T, T operation(T, T)>
struct running {
    T value;
    AMP_DEVICE_MEMBER void take(T x, int64_t) {
        value = x;
    }
    AMP_DEVICE_MEMBER void follow(const running &before) {
        value = operation(before.value, value);
    }
    AMP_DEVICE_MEMBER void write(const amp_cuda_scan &, int64_t) const {}
};
template <class T>
using running_sum = running<T, plus>;
template <class T>
using running_product = running<T, multiply>;
AMP_DEVICE double log_of_sum(double x, double y) {
    if (x == y) return x + 0.69314718055994530942; /* equal infinities too */
    if (x != x || y != y) return x + y;
    return x > y ? x + log1p(exp(y - x)) : y + log1p(exp(x - y));
}
/* The last of equal ones; from a NaN on everything is NaN. index < 0: nothing yet. */
template <class T, bool LARGEST>
struct running_extreme {
    T value;
    int64_t index;
    AMP_DEVICE_MEMBER void take(T x, int64_t i) {
        value = x;
        index = i;
    }
    AMP_DEVICE_MEMBER void follow(const running_extreme &before) {
        const bool better = value != value || (LARGEST ? value >= before.value : value <= before.value);
        if (before.index >= 0 && (index < 0 || !better)) *this = before;
    }
    AMP_DEVICE_MEMBER void write(const amp_cuda_scan &a, int64_t at) const {
        a.index[at] = index;
    }
};

/* A block takes a row, as many elements at a time as it has threads. */
template <class T, class State>
AMP_DEVICE void scan_row(const amp_cuda_scan &a, int64_t row, State *shared, State none) {
    const int64_t base = row / a.inner * a.length * a.inner + row % a.inner;
    State before = none;
    for (int64_t start = 0; start < a.length; start += AMP_THREADS) {
        const int64_t i = start + AMP_THREAD, at = base + i * a.inner;
        State mine = none;
        if (i < a.length) mine.take(load<T>(a.in, a.in_dtype, at), i);
        shared[AMP_THREAD] = mine;
        AMP_BARRIER();
        for (int step = 1; step < AMP_THREADS; step *= 2) {
            const State left = AMP_THREAD >= step ? shared[AMP_THREAD - step] : none;
            AMP_BARRIER();
            if (AMP_THREAD >= step) mine.follow(left);
            shared[AMP_THREAD] = mine;
            AMP_BARRIER();
        }
        State whole = shared[AMP_THREADS - 1];
        AMP_BARRIER(); /* before the next ones are written there */
        mine.follow(before);
        whole.follow(before);
        before = whole;
        if (i >= a.length) continue;
        store<T>(a.out, a.out_dtype, at, mine.value);
        mine.write(a, at);
    }
}

#define SCAN(name, type, state, ...)                                                                                   \
    AMP_KERNEL(name, amp_cuda_scan) {                                                                                  \
        AMP_SHARED_BYTES(states, AMP_BLOCK_THREADS * sizeof(state));                                                   \
        for (int64_t row = AMP_BLOCK; row < a.rows; row += AMP_BLOCKS)                                                 \
            scan_row<type, state>(a, row, (state *)(void *)states, state{__VA_ARGS__});                                \
    }
typedef running<double, log_of_sum> running_log;
typedef running_extreme<double, true> running_largest_f64;
typedef running_extreme<double, false> running_smallest_f64;
typedef running_extreme<int64_t, true> running_largest_i64;
typedef running_extreme<int64_t, false> running_smallest_i64;
SCAN(cumsum_f64, double, running_sum<double>, 0.0)
SCAN(cumsum_i64, int64_t, running_sum<int64_t>, 0)
SCAN(cumsum_c128, complex128, running_sum<complex128>, {0.0, 0.0})
SCAN(cumprod_f64, double, running_product<double>, 1.0)
SCAN(cumprod_i64, int64_t, running_product<int64_t>, 1)
SCAN(cumprod_c128, complex128, running_product<complex128>, {1.0, 0.0})
SCAN(logcumsumexp_f64, double, running_log, -INFINITY)
SCAN(cummax_f64, double, running_largest_f64, 0.0, -1)
SCAN(cummax_i64, int64_t, running_largest_i64, 0, -1)
SCAN(cummin_f64, double, running_smallest_f64, 0.0, -1)
SCAN(cummin_i64, int64_t, running_smallest_i64, 0, -1)

/* ---- Losses over classes ----------------------------------------------------------------------------------------- */
/* The class index at `at`, or a negative number: to be ignored, or wrong and told of. */
AMP_DEVICE int64_t class_at(const amp_cuda_classes &a, int64_t at) {
    const int64_t index = load<int64_t>(a.target, a.target_dtype, at);
    if (index == a.ignore) return -1;
    if (index >= 0 && index < a.classes) return index;
    a.report.faults->index = a.report.op;
    return -1;
}
template <class T>
AMP_DEVICE T class_weight(const amp_cuda_classes &a, int64_t c) {
    return a.weight ? load<T>(a.weight, a.weight_dtype, c) : (T)1;
}
template <class T>
AMP_DEVICE void put_loss(const amp_cuda_classes &a, int64_t sample, T loss, T weight) {
    ((T *)a.losses)[sample] = loss;
    if (a.weights) ((T *)a.weights)[sample] = weight;
}

template <class T>
AMP_DEVICE void pick_loss(const amp_cuda_classes &a, int64_t sample) {
    const int64_t c = class_at(a, sample), at = (sample / a.inner * a.classes + c) * a.inner + sample % a.inner;
    const T weight = c < 0 ? (T)0 : class_weight<T>(a, c);
    put_loss<T>(a, sample, c < 0 ? (T)0 : -weight * load<T>(a.in, a.in_dtype, at), weight);
}
AMP_KERNEL(nll_f32, amp_cuda_classes) {
    for (int64_t i = first_element(); i < a.samples; i += element_step()) pick_loss<float>(a, i);
}
AMP_KERNEL(nll_f64, amp_cuda_classes) {
    for (int64_t i = first_element(); i < a.samples; i += element_step()) pick_loss<double>(a, i);
}

/* −w·ℓ at the target, or −Σ p·w·ℓ, where ℓ is the logarithm of the softmax; smoothing moves a share of it to −Σ
 * w·ℓ/C. */
template <class T>
AMP_DEVICE void entropy_of(const amp_cuda_classes &a, int64_t sample, T *values, sum<T> *sums) {
    const int64_t base = sample / a.inner * a.classes * a.inner + sample % a.inner;
    const int64_t target = a.target ? class_at(a, sample) : -1;
    T high = lowest<T>();
    for (int64_t c = AMP_THREAD; c < a.classes; c += AMP_THREADS) {
        larger<T>()(&high, load<T>(a.in, a.in_dtype, base + c * a.inner));
    }
    high = join_block(high, values, larger<T>());
    sum<T> powers = {}, hit = {}, all = {};
    for (int64_t c = AMP_THREAD; c < a.classes; c += AMP_THREADS) {
        powers.add(exp(load<T>(a.in, a.in_dtype, base + c * a.inner) - high));
    }
    const T shift = log(join_block(powers, sums, added<T>()).result());
    for (int64_t c = AMP_THREAD; c < a.classes; c += AMP_THREADS) {
        const int64_t at = base + c * a.inner;
        const T part = class_weight<T>(a, c) * (load<T>(a.in, a.in_dtype, at) - high - shift);
        if (a.smoothing > 0) all.add(part);
        if (c == target) hit.add(part);
        if (a.probabilities) hit.add(part * load<T>(a.probabilities, a.probability_dtype, at));
    }
    const T at_target = join_block(hit, sums, added<T>()).result(), mean = join_block(all, sums, added<T>()).result();
    const bool ignored = a.target && target < 0;
    const T share = a.smoothing > 0 ? (T)a.smoothing / (T)a.classes * mean : (T)0;
    const T loss = ignored ? (T)0 : -((T)(1 - a.smoothing) * at_target + share);
    if (AMP_THREAD == 0) put_loss<T>(a, sample, loss, ignored ? (T)0 : a.target ? class_weight<T>(a, target) : (T)1);
}

#define ENTROPY(suffix, type)                                                                                          \
    AMP_KERNEL(cross_entropy_##suffix, amp_cuda_classes) {                                                             \
        AMP_SHARED_BYTES(values, AMP_BLOCK_THREADS * sizeof(type));                                                    \
        AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS * sizeof(sum<type>));                                                 \
        for (int64_t sample = AMP_BLOCK; sample < a.samples; sample += AMP_BLOCKS)                                     \
            entropy_of(a, sample, (type *)values, (sum<type> *)sums);                                                  \
    }
ENTROPY(f32, float)
ENTROPY(f64, double)

/* Whether class c is among the targets of a sample; the list ends at the first negative one. */
AMP_DEVICE bool is_target(const amp_cuda_classes &a, int64_t base, int64_t targets, int64_t c) {
    for (int64_t k = 0; k < targets; k++) {
        if (load<int64_t>(a.target, a.target_dtype, base + k) == c) return true;
    }
    return false;
}

/* Σ over classes of how far each comes too near to a target. Computed in f64, so that a loss is rounded once. */
AMP_KERNEL(multi_margin, amp_cuda_classes) {
    AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS * sizeof(sum<double>));
    for (int64_t sample = AMP_BLOCK; sample < a.samples; sample += AMP_BLOCKS) {
        const int64_t base = sample * a.classes, target = class_at(a, sample);
        const double start = target < 0 ? 0.0 : a.margin - load<double>(a.in, a.in_dtype, base + target);
        sum<double> total = {};
        for (int64_t c = AMP_THREAD; target >= 0 && c < a.classes; c += AMP_THREADS) {
            const double z = start + load<double>(a.in, a.in_dtype, base + c);
            if (c != target && !(z <= 0.0)) total.add(a.squared ? z * z : z);
        }
        const double whole = join_block(total, (sum<double> *)sums, added<double>()).result();
        const double weight = target < 0 ? 0.0 : class_weight<double>(a, target);
        if (AMP_THREAD == 0) put_loss(a, sample, whole * weight / (double)a.classes, weight);
    }
}

AMP_KERNEL(multilabel_margin, amp_cuda_classes) {
    AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS * sizeof(sum<double>));
    for (int64_t sample = AMP_BLOCK; sample < a.samples; sample += AMP_BLOCKS) {
        const int64_t base = sample * a.classes;
        int64_t targets = 0;
        while (targets < a.classes && class_at(a, base + targets) >= 0) targets++;
        sum<double> total = {};
        for (int64_t c = AMP_THREAD; c < a.classes; c += AMP_THREADS) {
            if (is_target(a, base, targets, c)) continue;
            const double x = load<double>(a.in, a.in_dtype, base + c);
            for (int64_t k = 0; k < targets; k++) {
                const int64_t target = load<int64_t>(a.target, a.target_dtype, base + k);
                const double z = 1.0 - load<double>(a.in, a.in_dtype, base + target) + x;
                if (!(z <= 0.0)) total.add(z);
            }
        }
        const double whole = join_block(total, (sum<double> *)sums, added<double>()).result();
        if (AMP_THREAD == 0) put_loss(a, sample, whole / (double)a.classes, 1.0);
    }
}

/* ---- By index ---------------------------------------------------------------------------------------------------- */
/* Where unit i is read from, and which index says so. */
AMP_DEVICE void locate(const amp_cuda_gather &a, int64_t i, int64_t *in, int64_t *index) {
    int64_t rest = i;
    *in = *index = 0;
    AMP_ROLLED for (int d = a.rank - 1; d >= 0; d--) {
        const int64_t position = d > 0 ? digit_of(&rest, a.shape[d]) : rest;
        *in += position * a.in_strides[d];
        *index += position * a.index_strides[d];
    }
}

template <class Unit>
AMP_DEVICE void gather_units(const amp_cuda_gather &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t from, at;
        locate(a, i, &from, &at);
        const int64_t index =
            a.index_dtype == AMP_I64 ? ((const int64_t *)a.index)[at] : load<int64_t>(a.index, a.index_dtype, at);
        const bool inside = index >= 0 && index < a.extent;
        if (!inside) a.report.faults->index = a.report.op;
        ((Unit *)a.out)[i] = inside ? ((const Unit *)a.in)[from + index * a.dim_stride] : Unit{};
    }
}

AMP_KERNEL(gather, amp_cuda_gather) {
    switch (a.size) {
    case 1: gather_units<uint8_t>(a); break;
    case 2: gather_units<uint16_t>(a); break;
    case 4: gather_units<uint32_t>(a); break;
    case 8: gather_units<uint64_t>(a); break;
    default: gather_units<sixteen_bytes>(a); break;
    }
}

/* ---- Convolutions ------------------------------------------------------------------------------------------------ */
/* The input index that output o meets at tap k; -1: none. */
AMP_DEVICE int64_t met(const amp_cuda_unfold &u, int d, int64_t o, int64_t k) {
    const amp_cuda_axis &a = u.axis[d];
    int64_t i = u.transposed ? o + a.pad - k * a.dilation : o * a.stride - a.pad + k * a.dilation;
    if (u.transposed && (i < 0 || digit_of(&i, u.by_stride[d]))) return -1;
    return i >= 0 && i < a.in ? i : -1;
}

template <class Element>
AMP_DEVICE void set(const amp_cuda_unfold &a, int64_t to, bool inside, int64_t from) {
    ((Element *)a.out)[to] = inside ? ((const Element *)a.in)[from] : (Element)0;
}

AMP_KERNEL(unfold, amp_cuda_unfold) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t rest = i, tap[3], output[3];
        for (int d = 2; d >= 0; d--) tap[d] = digit_of(&rest, a.by_kernel[d]);
        const int64_t channel = digit_of(&rest, a.channels);
        for (int d = 2; d >= 0; d--) output[d] = digit_of(&rest, a.by_out[d]);
        const int64_t image = digit_of(&rest, a.batch);
        int64_t from =
            image * a.batch_step + (rest * a.channels.extent + channel) * a.channel_step; /* rest: the group */
        bool inside = true;
        for (int d = 0; d < 3 && inside; d++) {
            const int64_t at = met(a, d, output[d], tap[d]);
            inside = at >= 0;
            from += at * a.axis[d].step;
        }
        switch (a.size) {
        case 2: set<uint16_t>(a, i, inside, from); break;
        case 4: set<float>(a, i, inside, from); break;
        default: set<double>(a, i, inside, from); break;
        }
    }
}
