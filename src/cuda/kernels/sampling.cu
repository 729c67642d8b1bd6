/* grid_sampler: places and weights are f64, what is read is summed in f32 (f64). What lies outside adds 0 times its
 * weight, so that in two dimensions a NaN coordinate leaves that NaN, as in PyTorch. */
#include "cuda/kernels/kernel.h"

enum { LINEAR, NEAREST, CUBIC };
enum { ZEROS, EDGE, MIRROR };

/* Between low/2 and high/2, mirrored as often as it takes. */
AMP_DEVICE double mirrored(double x, int64_t twice_low, int64_t twice_high) {
    if (twice_low == twice_high) return 0.0;
    const double low = (double)twice_low / 2.0, span = (double)(twice_high - twice_low) / 2.0;
    const double distance = fabs(x - low), rest = fmod(distance, span);
    if (distance < span) return distance + low;
    return fmod(floor(distance / span), 2.0) == 0.0 ? rest + low : span - rest + low;
}

/* NaN goes to the first element in two dimensions and to the last in three. */
AMP_DEVICE double bounded(const amp_cuda_samples &a, double x, int64_t extent) {
    const double last = (double)(extent - 1);
    if (a.border == ZEROS) return x;
    if (a.border == MIRROR) x = a.align ? mirrored(x, 0, 2 * (extent - 1)) : mirrored(x, -1, 2 * extent - 1);
    if (x != x) return a.dims == 2 ? 0.0 : last;
    return x > 0.0 ? x < last ? x : last : 0.0;
}

/* −1 for what lies outside. */
AMP_DEVICE int64_t index_of(double x, int64_t extent) {
    return x >= 0.0 && x < (double)extent ? (int64_t)x : -1;
}

/* Cubic convolution with a = −0.75 (Keys, 1981), up to 1 from the tap, and beyond. */
AMP_DEVICE double cubic_near(double x) {
    return (1.25 * x - 2.25) * x * x + 1.0;
}
AMP_DEVICE double cubic_far(double x) {
    return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0;
}

struct taps {
    int64_t index[4];
    double weight[4];
    int count;
};

AMP_DEVICE taps taps_at(const amp_cuda_samples &a, double coordinate, int64_t extent) {
    taps t = {{0, 0, 0, 0}, {1.0, 0.0, 0.0, 0.0}, 1};
    double x =
        a.align ? (coordinate + 1.0) / 2.0 * (double)(extent - 1) : ((coordinate + 1.0) * (double)extent - 1.0) / 2.0;
    if (a.mode == CUBIC) { /* its taps are bounded, not its centre */
        const double below = floor(x), u = x - below;
        t.count = 4;
        for (int k = 0; k < 4; k++) t.index[k] = index_of(bounded(a, below - 1.0 + k, extent), extent);
        t.weight[0] = cubic_far(1.0 + u);
        t.weight[1] = cubic_near(u);
        t.weight[2] = cubic_near(1.0 - u);
        t.weight[3] = cubic_far(2.0 - u);
        return t;
    }
    x = bounded(a, x, extent);
    if (a.mode == NEAREST) {
        t.index[0] = index_of(rint(x), extent);
        return t;
    }
    const double below = floor(x);
    t.count = 2;
    for (int k = 0; k < 2; k++) t.index[k] = index_of(below + k, extent);
    t.weight[1] = x - below;
    t.weight[0] = 1.0 - t.weight[1];
    return t;
}

template <class T>
AMP_DEVICE T sampled(const amp_cuda_samples &a, const taps *t, int64_t plane) {
    T sum = 0;
    for (int i = 0; i < t[0].count; i++) {
        for (int j = 0; j < t[1].count; j++) {
            for (int k = 0; k < t[2].count; k++) {
                const bool inside = t[0].index[i] >= 0 && t[1].index[j] >= 0 && t[2].index[k] >= 0;
                const int64_t at = plane + t[0].index[i] * a.in_steps.axis[0] + t[1].index[j] * a.in_steps.axis[1] +
                                   t[2].index[k] * a.in_steps.axis[2];
                const T weight = (T)(a.dims == 3 && !inside ? 0.0 : t[0].weight[i] * t[1].weight[j] * t[2].weight[k]);
                sum += (inside ? load<T>(a.in, a.dtype, at) : (T)0) * weight;
            }
        }
    }
    return sum;
}

template <class T>
AMP_DEVICE void sample_grid(const amp_cuda_samples &a) {
    const int64_t each = a.out_extent[0] * a.out_extent[1] * a.out_extent[2];
    for (int64_t i = first_element(); i < a.batch * each; i += element_step()) {
        const int64_t batch = i / each;
        int64_t rest = i % each, grid = batch * a.grid_steps.batch, to = batch * a.out_steps.batch;
        for (int d = 2; d >= 0; d--) {
            const int64_t position = rest % a.out_extent[d];
            rest /= a.out_extent[d];
            grid += position * a.grid_steps.axis[d];
            to += position * a.out_steps.axis[d];
        }
        taps t[3] = {{{0, 0, 0, 0}, {1.0, 0.0, 0.0, 0.0}, 1}};
        for (int d = 3 - a.dims; d < 3; d++) { /* x comes first in the grid */
            const int64_t coordinate = grid + (2 - d) * a.grid_steps.channel;
            t[d] = taps_at(a, (double)load<T>(a.grid, a.dtype, coordinate), a.in_extent[d]);
        }
        for (int64_t c = 0; c < a.channels; c++) {
            const T x = sampled<T>(a, t, batch * a.in_steps.batch + c * a.in_steps.channel);
            store<T>(a.out, a.dtype, to + c * a.out_steps.channel, x);
        }
    }
}
AMP_KERNEL(sample_grid_f32, amp_cuda_samples) {
    sample_grid<float>(a);
}
AMP_KERNEL(sample_grid_f64, amp_cuda_samples) {
    sample_grid<double>(a);
}
