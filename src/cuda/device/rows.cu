/* Kernels in which several elements make one: reductions, softmax, normalisations; and gathering by index.
 *
 * Order of sums: each thread adds every width-th element in order, with the rounding errors carried along (Neumaier); then
 * the threads of a result join in pairs, and, of few results, the pieces that these were cut into in the same way. It follows
 * from shapes alone. */
#include "cuda/device/unit.h"

extern "C" {
#include "cpu/reduce_kinds.h"
}

/* ---- Sums that carry their rounding error ------------------------------------------------------------------------- */
template <class T>
struct sum {
    T value, error;

    AMP_DEVICE_MEMBER void add(T x) {
        const T total = value + x;
        const T big = fabs(value) >= fabs(x) ? value : x, small = fabs(value) >= fabs(x) ? x : value;
        const T lost = (big - total) + small;
        if (lost == lost) error += lost; /* not of infinities */
        value = total;
    }
    AMP_DEVICE_MEMBER void join(sum other) {
        add(other.value);
        error += other.error;
    }
    AMP_DEVICE_MEMBER T result() const {
        const T total = value + error;
        return total == total ? total : value;
    }
};
template <>
struct sum<int64_t> {
    int64_t value, error;

    AMP_DEVICE_MEMBER void add(int64_t x) {
        value = (int64_t)((uint64_t)value + (uint64_t)x);
    }
    AMP_DEVICE_MEMBER void join(sum other) {
        add(other.value);
    }
    AMP_DEVICE_MEMBER int64_t result() const {
        return value;
    }
};
template <>
struct sum<complex128> {
    sum<double> re, im;

    AMP_DEVICE_MEMBER void add(complex128 x) {
        re.add(x.re);
        im.add(x.im);
    }
    AMP_DEVICE_MEMBER void join(sum other) {
        re.join(other.re);
        im.join(other.im);
    }
    AMP_DEVICE_MEMBER complex128 result() const {
        return {re.result(), im.result()};
    }
};

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

/* ---- Reductions --------------------------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE T power_of(T x, double p) {
    return (T)pow((double)magnitude(x), p);
}
AMP_DEVICE int64_t power_of(int64_t x, double) {
    return x;
}
template <class T>
AMP_DEVICE T lowest() {
    return (T)-INFINITY;
}
template <>
AMP_DEVICE int64_t lowest<int64_t>() {
    return INT64_MIN;
}
template <class T>
AMP_DEVICE T highest() {
    return (T)INFINITY;
}
template <>
AMP_DEVICE int64_t highest<int64_t>() {
    return INT64_MAX;
}
/* Whether x comes before y among the extremes: a NaN before everything. */
template <class T>
AMP_DEVICE bool beats(T x, T y, bool largest) {
    if (x != x) return y == y;
    return largest ? x > y : x < y;
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

/* ---- Rows --------------------------------------------------------------------------------------- */
template <class T>
struct larger {
    AMP_DEVICE_MEMBER void operator()(T *into, T other) const {
        if (beats(other, *into, true)) *into = other;
    }
};
template <class T>
struct added {
    AMP_DEVICE_MEMBER void operator()(sum<T> *into, sum<T> other) const {
        into->join(other);
    }
};

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

/* ---- Rows: a team of threads for each, which keep them in registers ------------------------------------------------- */
template <class T>
AMP_DEVICE T from_lane(T x, int mask) {
    return AMP_FROM_LANE(x, mask);
}
template <class T>
AMP_DEVICE sum<T> from_lane(sum<T> x, int mask) {
    return {from_lane(x.value, mask), from_lane(x.error, mask)};
}

/* Every thread of a team gets the joined value: of lanes in pairs, the lower one first; then of warps in their order. */
template <class State, class Join>
AMP_DEVICE State join_team(State mine, State *shared, int team, Join join) {
    for (int mask = 1; mask < AMP_LANES && mask < team; mask *= 2) {
        const State other = from_lane(mine, mask);
        State low = AMP_THREAD & mask ? other : mine;
        join(&low, AMP_THREAD & mask ? mine : other);
        mine = low;
    }
    if (team <= AMP_LANES) return mine;
    if (AMP_THREAD % AMP_LANES == 0) shared[AMP_THREAD / AMP_LANES] = mine;
    AMP_BARRIER();
    const int warps = team / AMP_LANES, first = AMP_THREAD / team * warps;
    State all = shared[first];
    for (int w = 1; w < warps; w++) join(&all, shared[first + w]);
    AMP_BARRIER(); /* before the next ones are written there */
    return all;
}

/* Elements of what rows are computed in: f32, f16 and bf16 as float, and f64. */
template <class T>
AMP_DEVICE T element_at(const void *data, amp_dtype dtype, int64_t at) {
    return float_at(data, dtype, at);
}
template <>
AMP_DEVICE double element_at<double>(const void *data, amp_dtype, int64_t at) {
    return ((const double *)data)[at];
}
AMP_DEVICE void put_element(void *data, amp_dtype dtype, int64_t at, float x) {
    put_float(data, dtype, at, x);
}
AMP_DEVICE void put_element(void *data, amp_dtype, int64_t at, double x) {
    ((double *)data)[at] = x;
}

/* W elements of a row, or as many as are left. */
template <class T, int W>
AMP_DEVICE void read_pack(const void *data, amp_dtype dtype, int64_t at, int64_t step, int left, T *v) {
    AMP_UNROLLED for (int e = 0; e < W; e++) v[e] = e < left ? element_at<T>(data, dtype, at + e * step) : (T)0;
}
template <class T, int W>
AMP_DEVICE void write_pack(void *data, amp_dtype dtype, int64_t at, int64_t step, int left, const T *v) {
    AMP_UNROLLED for (int e = 0; e < W; e++) {
        if (e < left) put_element(data, dtype, at + e * step, v[e]);
    }
}
/* The same of whole packs that lie side by side; there are none of f64. */
template <int W>
AMP_DEVICE void read_side_by_side(const void *data, amp_dtype dtype, int64_t at, float *v) {
    unit<W> u;
    fetch(data, dtype, at, &u);
    widen_unit(u, dtype, v);
}
template <int W>
AMP_DEVICE void read_side_by_side(const void *, amp_dtype, int64_t, double *v) {
    for (int e = 0; e < W; e++) v[e] = 0;
}
template <int W>
AMP_DEVICE void write_side_by_side(void *data, amp_dtype dtype, int64_t at, const float *v) {
    put_unit<W>(data, dtype, at, v);
}
template <int W>
AMP_DEVICE void write_side_by_side(void *, amp_dtype, int64_t, const double *) {}

/* What a thread has of a row: the packs of W elements that are number m, m + team, …, of which the first stay in registers. */
template <class T, int W>
struct row_part {
    enum { KEPT = 16, PACKS = KEPT / W };
    const void *in;
    amp_dtype dtype;
    bool vectors;
    int team;
    int64_t base, step, length;
    T kept[KEPT];

    AMP_DEVICE_MEMBER int64_t first(int pack) const {
        return ((int64_t)(AMP_THREAD % team) + (int64_t)pack * team) * W;
    }
    AMP_DEVICE_MEMBER int left(int64_t j) const {
        return length - j < W ? (int)(length - j) : (int)W;
    }
    AMP_DEVICE_MEMBER void read(int64_t j, T *v) const {
        if (vectors) {
            read_side_by_side<W>(in, dtype, base + j, v);
        } else {
            read_pack<T, W>(in, dtype, base + j * step, step, left(j), v);
        }
    }
    /* The row from `base` on; `length` 0: none. */
    AMP_DEVICE_MEMBER void begin(int64_t first_element, int64_t elements) {
        base = first_element;
        length = elements;
        AMP_UNROLLED for (int p = 0; p < PACKS; p++) {
            if (first(p) < length) read(first(p), kept + p * W);
        }
    }
    /* Calls visit(elements, number of the first, how many, whether what is written there stays) for each pack. */
    template <class Visit>
    AMP_DEVICE_MEMBER void each(Visit visit) {
        AMP_UNROLLED for (int p = 0; p < PACKS; p++) {
            if (first(p) < length) visit(kept + p * W, first(p), left(first(p)), true);
        }
        for (int64_t j = first(PACKS); j < length; j += (int64_t)team * W) {
            T v[W];
            read(j, v);
            visit(v, j, left(j), false);
        }
    }
    AMP_DEVICE_MEMBER void write(void *out, amp_dtype out_dtype, int64_t j, const T *v) const {
        if (vectors) {
            write_side_by_side<W>(out, out_dtype, base + j, v);
        } else {
            write_pack<T, W>(out, out_dtype, base + j * step, step, left(j), v);
        }
    }
};

/* How the threads of a block share rows, and the first row of each round: all teams go the same number of them. */
struct row_teams {
    int team, teams;
    AMP_DEVICE_MEMBER explicit row_teams(int wanted) {
        team = wanted < AMP_THREADS ? wanted : AMP_THREADS;
        teams = AMP_THREADS / team;
    }
    AMP_DEVICE_MEMBER int64_t first() const {
        return AMP_BLOCK * teams;
    }
    AMP_DEVICE_MEMBER int64_t step() const {
        return AMP_BLOCKS * teams;
    }
    AMP_DEVICE_MEMBER int64_t row(int64_t start) const {
        return start + AMP_THREAD / team;
    }
};

template <class T, int W>
AMP_DEVICE void softmax_rows(const amp_cuda_softmax &a, T *values, sum<T> *sums) {
    const row_teams all(a.team);
    row_part<T, W> part = {a.in, a.in_dtype, a.vectors, all.team, 0, a.inner, 0, {}};
    for (int64_t start = all.first(); start < a.rows; start += all.step()) {
        const int64_t row = all.row(start);
        const bool inside = row < a.rows;
        int64_t group = inside ? row : 0;
        const int64_t column = digit_of(&group, a.by_inner);
        part.begin(group * a.length * a.inner + column, inside ? a.length : 0);
        T high = lowest<T>();
        part.each([&](T *v, int64_t, int left, bool) {
            AMP_UNROLLED for (int e = 0; e < W; e++) {
                if (e < left) larger<T>()(&high, v[e]);
            }
        });
        high = join_team(high, values, all.team, larger<T>());
        sum<T> total = {};
        part.each([&](T *v, int64_t, int left, bool) {
            AMP_UNROLLED for (int e = 0; e < W; e++) {
                if (e >= left) continue;
                const T power = exp(v[e] - high);
                total.add(power);
                if (!a.logarithm) v[e] = power;
            }
        });
        const T whole = join_team(total, sums, all.team, added<T>()).result(), logarithm = log(whole);
        part.each([&](T *v, int64_t j, int left, bool stays) {
            T y[W];
            AMP_UNROLLED for (int e = 0; e < W; e++) {
                if (e >= left) continue;
                const T apart = high - high == 0 ? v[e] - high - logarithm : v[e] - (high + logarithm);
                y[e] = a.logarithm ? apart : (stays ? v[e] : exp(v[e] - high)) / whole;
            }
            part.write(a.out, a.out_dtype, j, y);
        });
    }
}

AMP_KERNEL_OF(2, softmax_f32, amp_cuda_softmax) {
    AMP_SHARED_BYTES(values, AMP_BLOCK_THREADS / 32 * sizeof(float));
    AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS / 32 * sizeof(sum<float>));
    if (a.width == 8) {
        softmax_rows<float, 8>(a, (float *)values, (sum<float> *)sums);
    } else {
        softmax_rows<float, 4>(a, (float *)values, (sum<float> *)sums);
    }
}
AMP_KERNEL(softmax_f64, amp_cuda_softmax) {
    AMP_SHARED_BYTES(values, AMP_BLOCK_THREADS / 32 * sizeof(double));
    AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS / 32 * sizeof(sum<double>));
    softmax_rows<double, 2>(a, (double *)values, (sum<double> *)sums);
}

/* Where the weights of a pack are: that of its first element, and how many more elements have it. */
struct weight_place {
    int64_t first, more;
};
AMP_DEVICE weight_place weights_at(const amp_cuda_norm &a, int64_t own, int64_t j) {
    if (a.inner.extent == 1) return {own + j, 0};
    const int64_t quotient = divided(j, a.inner);
    return {own + quotient, a.inner.extent - 1 - (j - quotient * a.inner.extent)};
}

template <class T, int W>
AMP_DEVICE void read_parameter(const amp_cuda_norm &a, const amp_cuda_parameter &p, weight_place at, int left, T *v) {
    if (p.vectors) {
        read_side_by_side<W>(p.data, p.dtype, at.first, v);
        return;
    }
    AMP_UNROLLED for (int e = 0; e < W; e++) {
        v[e] = e < left ? element_at<T>(p.data, p.dtype, at.first) : (T)0;
        if (at.more-- == 0) at = {at.first + 1, a.inner.extent - 1};
    }
}

template <class T, int W>
AMP_DEVICE void norm_rows(const amp_cuda_norm &a, sum<T> *sums) {
    const row_teams all(a.team);
    row_part<T, W> part = {a.in, a.dtype, a.vectors, all.team, 0, 1, 0, {}};
    for (int64_t start = all.first(); start < a.rows; start += all.step()) {
        const int64_t row = all.row(start);
        part.begin(row * a.length, row < a.rows ? a.length : 0);
        T mean = 0;
        sum<T> total = {};
        if (!a.root_mean_square) {
            part.each([&](const T *v, int64_t, int left, bool) {
                AMP_UNROLLED for (int e = 0; e < W; e++) {
                    if (e < left) total.add(v[e]);
                }
            });
            mean = join_team(total, sums, all.team, added<T>()).result() / (T)a.length;
            total = {};
        }
        part.each([&](const T *v, int64_t, int left, bool) {
            AMP_UNROLLED for (int e = 0; e < W; e++) {
                if (e < left) total.add((v[e] - mean) * (v[e] - mean));
            }
        });
        const T variance = join_team(total, sums, all.team, added<T>()).result() / (T)a.length;
        const T scale = (T)1 / sqrt(variance + (T)a.eps);
        int64_t group = row;
        const int64_t own = digit_of(&group, a.groups) * a.per_group;
        part.each([&](const T *v, int64_t j, int left, bool) {
            const weight_place at = weights_at(a, own, j);
            T y[W], number[W];
            AMP_UNROLLED for (int e = 0; e < W; e++) y[e] = (v[e] - mean) * scale;
            if (a.weight.data) {
                read_parameter<T, W>(a, a.weight, at, left, number);
                AMP_UNROLLED for (int e = 0; e < W; e++) y[e] *= number[e];
            }
            if (a.bias.data) {
                read_parameter<T, W>(a, a.bias, at, left, number);
                AMP_UNROLLED for (int e = 0; e < W; e++) y[e] += number[e];
            }
            part.write(a.out, a.dtype, j, y);
        });
    }
}

AMP_KERNEL(norm_f32, amp_cuda_norm) {
    AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS / 32 * sizeof(sum<float>));
    if (a.width == 8) {
        norm_rows<float, 8>(a, (sum<float> *)sums);
    } else {
        norm_rows<float, 4>(a, (sum<float> *)sums);
    }
}
AMP_KERNEL(norm_f64, amp_cuda_norm) {
    AMP_SHARED_BYTES(sums, AMP_BLOCK_THREADS / 32 * sizeof(sum<double>));
    norm_rows<double, 2>(a, (sum<double> *)sums);
}

/* ---- Scans: sums, products and extremes of what a row has up to each element ----------------------------------------- */
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
SCAN(cummax_f64, double, running_largest_f64, 0.0, -1)
SCAN(cummax_i64, int64_t, running_largest_i64, 0, -1)
SCAN(cummin_f64, double, running_smallest_f64, 0.0, -1)
SCAN(cummin_i64, int64_t, running_smallest_i64, 0, -1)

/* ---- Losses over classes ------------------------------------------------------------------------------------------ */
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

/* −w·ℓ at the target, or −Σ p·w·ℓ, where ℓ is the logarithm of the softmax; smoothing moves a share of it to −Σ w·ℓ/C. */
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

/* ---- By index ----------------------------------------------------------------------------------------------------- */
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

/* ---- Convolutions ------------------------------------------------------------------------------------------------- */
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
