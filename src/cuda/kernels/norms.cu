/* softmax and normalisations of rows: a team of threads for each, which keep it in registers. One read and one write.
 *
 * Order of sums: each thread adds its packs in order, with the rounding errors carried along; then the lanes of a team
 * join in pairs, and its warps one after the other. It follows from shapes and dtypes alone. */
#include "cuda/kernels/sums.h"
#include "cuda/kernels/unit.h"

template <class T>
AMP_DEVICE T from_lane(T x, int mask) {
    return AMP_FROM_LANE(x, mask);
}
template <class T>
AMP_DEVICE sum<T> from_lane(sum<T> x, int mask) {
    return {from_lane(x.value, mask), from_lane(x.error, mask)};
}

/* Every thread of a team gets the joined value: of lanes in pairs, the lower one first; then of warps in their
 * order. */
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

/* What a thread has of a row: the packs of W elements that are number m, m + team, …, of which the first stay in
 * registers. */
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

AMP_KERNEL_OF(softmax_f32, amp_cuda_softmax, AMP_BLOCK_THREADS, 2) {
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
