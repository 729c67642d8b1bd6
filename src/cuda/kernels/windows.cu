/* Resampling, pooling and padding: an output element is made of a window of the input, by tables for each dimension.
 * One thread makes an element, in f32 (f64, i64), the terms of a window in their order. */
#include "cuda/kernels/unit.h"

struct window_place {
    int64_t output[3], in, out, place; /* in: of the plane's first element */
};

AMP_DEVICE int64_t slow_digit_of(int64_t *rest, int64_t extent) {
    const int64_t digit = *rest % extent;
    *rest /= extent;
    return digit;
}

AMP_DEVICE window_place window_at(const amp_cuda_windows &a, int64_t i) {
    window_place p = {{0, 0, 0}, 0, 0, 0};
    int64_t rest = i;
    for (int d = 2; d >= 0; d--) {
        if (a.axis[d].out == 1) continue;
        p.output[d] = digit_of(&rest, a.axis[d].by_out);
        p.out += p.output[d] * a.out_steps.axis[d];
        p.place += p.output[d] * a.place_steps.axis[d];
    }
    const int64_t channel = digit_of(&rest, a.by_channels);
    p.in = rest * a.in_steps.batch + channel * a.in_steps.channel;
    p.out += rest * a.out_steps.batch + channel * a.out_steps.channel;
    p.place += rest * a.place_steps.batch + channel * a.place_steps.channel;
    return p;
}

/* The inputs of one output along an axis. */
struct window_taps {
    const int64_t *index;
    const double *weights;
    int64_t count, step;
};

AMP_DEVICE window_taps taps_of(const amp_cuda_windows &a, int d, int64_t output) {
    const amp_cuda_window_axis &axis = a.axis[d];
    const int64_t first = output * axis.most;
    return {axis.index + first, axis.weights ? axis.weights + first : nullptr, axis.counts ? axis.counts[output] : 1,
            a.in_steps.axis[d]};
}

/* ---- Moving ------------------------------------------------------------------------------------------------------ */
template <class Element>
AMP_DEVICE void move_window(const amp_cuda_windows &a, int64_t to, int64_t from) {
    ((Element *)a.out)[to] = ((const Element *)a.in)[from];
}

AMP_DEVICE void move_sized(const amp_cuda_windows &a, int64_t to, int64_t from) {
    switch (a.size) {
    case 1: move_window<uint8_t>(a, to, from); break;
    case 2: move_window<uint16_t>(a, to, from); break;
    case 4: move_window<uint32_t>(a, to, from); break;
    case 8: move_window<uint64_t>(a, to, from); break;
    default: move_window<complex128>(a, to, from); break;
    }
}

AMP_KERNEL(windows_move, amp_cuda_windows) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const window_place p = window_at(a, i);
        int64_t from = p.in;
        for (int d = 0; d < 3; d++) from += a.axis[d].index[p.output[d]] * a.in_steps.axis[d];
        move_sized(a, p.out, from);
    }
}

/* Each input element goes to the place of its plane that a table of the input's shape names. Of several for one place
 * any. */
AMP_KERNEL(windows_put_back, amp_cuda_windows) {
    const int64_t places = a.axis[0].out * a.axis[1].out * a.axis[2].out;
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        int64_t rest = i, from = 0, at = 0, to = 0;
        for (int d = 2; d >= 0; d--) {
            const int64_t position = slow_digit_of(&rest, a.axis[d].in);
            from += position * a.in_steps.axis[d];
            at += position * a.place_steps.axis[d];
        }
        const int64_t channel = slow_digit_of(&rest, a.channels);
        from += rest * a.in_steps.batch + channel * a.in_steps.channel;
        at += rest * a.place_steps.batch + channel * a.place_steps.channel;
        int64_t place = a.places[at];
        if (place < 0 || place >= places) {
            a.report.faults->index = a.report.op;
            continue;
        }
        for (int d = 2; d >= 0; d--) to += slow_digit_of(&place, a.axis[d].out) * a.out_steps.axis[d];
        move_sized(a, to + rest * a.out_steps.batch + channel * a.out_steps.channel, from);
    }
}

/* ---- Weighted sums ----------------------------------------------------------------------------------------------- */
template <class T>
AMP_DEVICE T byte_of(T x) {
    return x > (T)0 ? x < (T)255 ? rint(x) : (T)255 : (T)0;
}

template <class T>
AMP_DEVICE T weighted_line(const amp_cuda_windows &a, const window_taps &w, int64_t at) {
    T sum = 0;
    for (int64_t k = 0; k < w.count; k++) {
        sum += (T)w.weights[k] * load<T>(a.in, a.in_dtype, at + w.index[k] * w.step);
    }
    return a.round ? byte_of(sum) : sum;
}

template <class T>
AMP_DEVICE void resample(const amp_cuda_windows &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const window_place p = window_at(a, i);
        const window_taps d = taps_of(a, 0, p.output[0]), h = taps_of(a, 1, p.output[1]),
                          w = taps_of(a, 2, p.output[2]);
        T whole = 0;
        for (int64_t x = 0; x < d.count; x++) {
            T plane = 0;
            for (int64_t y = 0; y < h.count; y++) {
                plane += (T)h.weights[y] * weighted_line<T>(a, w, p.in + d.index[x] * d.step + h.index[y] * h.step);
            }
            whole += (T)d.weights[x] * plane;
        }
        store<T>(a.out, a.out_dtype, p.out, a.round ? byte_of(whole) : whole);
    }
}
AMP_KERNEL(resample_f32, amp_cuda_windows) {
    resample<float>(a);
}
AMP_KERNEL(resample_f64, amp_cuda_windows) {
    resample<double>(a);
}

/* ---- Means ------------------------------------------------------------------------------------------------------- */
/* What is computed in f32 is f32, f16 or bf16. */
template <class T>
AMP_DEVICE T element_at(const amp_cuda_windows &a, int64_t at) {
    return load<T>(a.in, a.in_dtype, at);
}
template <>
AMP_DEVICE float element_at<float>(const amp_cuda_windows &a, int64_t at) {
    return float_at(a.in, a.in_dtype, at);
}

/* Calls see(element, its number in the plane) for the elements of a window, of which several are read before they are
 * needed. */
template <class T, class State>
AMP_DEVICE void visit_window(const amp_cuda_windows &a, const window_place &p, State *state) {
    enum { AT_ONCE = 4 };
    const window_taps d = taps_of(a, 0, p.output[0]), h = taps_of(a, 1, p.output[1]), w = taps_of(a, 2, p.output[2]);
    const int64_t start = *w.index, stride = a.axis[2].stride;
    for (int64_t x = 0; x < d.count; x++) {
        for (int64_t y = 0; y < h.count; y++) {
            const int64_t at = p.in + d.index[x] * d.step + h.index[y] * h.step + start * w.step;
            const int64_t line = (d.index[x] * a.axis[1].in + h.index[y]) * a.axis[2].in + start;
            for (int64_t z = 0; z < w.count; z += AT_ONCE) {
                T v[AT_ONCE];
                AMP_UNROLLED for (int k = 0; k < AT_ONCE; k++) {
                    v[k] = z + k < w.count ? element_at<T>(a, at + (z + k) * stride * w.step) : (T)0;
                }
                AMP_UNROLLED for (int k = 0; k < AT_ONCE; k++) {
                    if (z + k < w.count) state->see(v[k], line + (z + k) * stride);
                }
            }
        }
    }
}

template <class T>
struct window_sum {
    T value;
    AMP_DEVICE_MEMBER void see(T x, int64_t) {
        value = value + x;
    }
};
template <>
struct window_sum<int64_t> {
    uint64_t value;
    AMP_DEVICE_MEMBER void see(int64_t x, int64_t) {
        value += (uint64_t)x;
    }
};

AMP_DEVICE int64_t divisor_at(const amp_cuda_windows &a, const window_place &p) {
    int64_t elements = 1, padded = 1;
    for (int d = 0; d < 3; d++) {
        elements *= a.axis[d].counts[p.output[d]];
        padded *= a.axis[d].padded[p.output[d]];
    }
    if (elements == 0) return 1; /* a window in the padding: 0 / 1 */
    return a.divisor ? a.divisor : a.count_padding ? padded : elements;
}

template <class T>
AMP_DEVICE T mean_of(T sum, int64_t divisor) {
    return sum / (T)divisor;
}
AMP_DEVICE int64_t mean_of(uint64_t sum, int64_t divisor) {
    return divisor == -1 ? (int64_t)(0 - sum) : (int64_t)sum / divisor;
}

template <class T>
AMP_DEVICE void average(const amp_cuda_windows &a) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const window_place p = window_at(a, i);
        window_sum<T> sum = {0};
        visit_window<T>(a, p, &sum);
        store<T>(a.out, a.out_dtype, p.out, mean_of(sum.value, divisor_at(a, p)));
    }
}
AMP_KERNEL(average_f32, amp_cuda_windows) {
    average<float>(a);
}
AMP_KERNEL(average_f64, amp_cuda_windows) {
    average<double>(a);
}
AMP_KERNEL(average_i64, amp_cuda_windows) {
    average<int64_t>(a);
}

/* ---- Maxima ------------------------------------------------------------------------------------------------------ */
/* The first of equal ones; the last NaN. */
template <class T>
struct window_maximum {
    T value;
    int64_t place;
    AMP_DEVICE_MEMBER void see(T x, int64_t at) {
        if (place >= 0 && x == x && !(x > value)) return;
        value = x;
        place = at;
    }
};

template <class T>
AMP_DEVICE void maximum(const amp_cuda_windows &a, T least) {
    for (int64_t i = first_element(); i < a.count; i += element_step()) {
        const window_place p = window_at(a, i);
        window_maximum<T> best = {least, -1};
        visit_window<T>(a, p, &best);
        store<T>(a.out, a.out_dtype, p.out, best.value);
        if (a.places) a.places[p.place] = best.place < 0 ? 0 : best.place;
    }
}
AMP_KERNEL(maximum_windows_f32, amp_cuda_windows) {
    maximum<float>(a, -INFINITY);
}
AMP_KERNEL(maximum_windows_f64, amp_cuda_windows) {
    maximum<double>(a, -INFINITY);
}
AMP_KERNEL(maximum_windows_i64, amp_cuda_windows) {
    maximum<int64_t>(a, INT64_MIN);
}
