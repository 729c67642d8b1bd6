/* batch_norm: each element by the numbers of its channel, in f32 and rounded once; one read and one write. A thread
 * goes on from units to units of the same channels where the step allows it, and makes their factors once. */
#include "cuda/kernels/unit.h"

/* W neighbours, or one. */
template <int W>
struct neighbours {
    unit<W> u;
    AMP_DEVICE_MEMBER void read(const void *data, amp_dtype dtype, int64_t i) {
        fetch(data, dtype, i * W, &u);
    }
    AMP_DEVICE_MEMBER void widen(amp_dtype dtype, float *v) const {
        widen_unit(u, dtype, v);
    }
    AMP_DEVICE_MEMBER static void write(void *data, amp_dtype dtype, int64_t i, const float *v) {
        put_unit<W>(data, dtype, i * W, v);
    }
};
template <>
struct neighbours<1> {
    float x;
    AMP_DEVICE_MEMBER void read(const void *data, amp_dtype dtype, int64_t i) {
        x = float_at(data, dtype, i);
    }
    AMP_DEVICE_MEMBER void widen(amp_dtype, float *v) const {
        *v = x;
    }
    AMP_DEVICE_MEMBER static void write(void *data, amp_dtype dtype, int64_t i, const float *v) {
        put_float(data, dtype, i, *v);
    }
};

template <int W>
AMP_DEVICE void read_numbers(const amp_cuda_parameter &p, bool side_by_side, int64_t channel, float missing, float *v) {
    if (p.data && side_by_side) {
        neighbours<W> n;
        n.read(p.data, p.dtype, channel);
        n.widen(p.dtype, v);
        return;
    }
    const float one = p.data ? float_at(p.data, p.dtype, channel) : missing;
    AMP_UNROLLED for (int j = 0; j < W; j++) v[j] = one;
}

/* The numbers of a unit's channels. */
template <int W>
struct factors {
    int64_t channel;
    float mean[W], scale[W], bias[W];

    AMP_DEVICE_MEMBER void turn_to(const amp_cuda_channel_norm &a, int64_t unit) {
        int64_t rest = divided(unit, a.inner);
        const int64_t wanted = digit_of(&rest, a.channels);
        if (wanted == channel) return;
        channel = wanted;
        float weight[W];
        read_numbers<W>(a.mean, a.side_by_side, channel, 0.0f, mean);
        read_numbers<W>(a.variance, a.side_by_side, channel, 0.0f, scale);
        read_numbers<W>(a.weight, a.side_by_side, channel, 1.0f, weight);
        read_numbers<W>(a.bias, a.side_by_side, channel, 0.0f, bias);
        AMP_UNROLLED for (int j = 0; j < W; j++) scale[j] = 1.0f / sqrt(scale[j] + (float)a.eps) * weight[j];
    }
};

template <int W>
AMP_DEVICE void normalize(const amp_cuda_channel_norm &a, int64_t unit, const neighbours<W> &in, factors<W> *f) {
    float v[W];
    f->turn_to(a, unit);
    in.widen(a.dtype, v);
    AMP_UNROLLED for (int j = 0; j < W; j++) {
        v[j] = (v[j] - f->mean[j]) * f->scale[j];
        if (a.bias.data) v[j] += f->bias[j]; /* without: −0 stays */
    }
    neighbours<W>::write(a.out, a.dtype, unit, v);
}

/* Two units at a time, so that the reads of both are under way before the first is needed. */
template <int W>
AMP_DEVICE void by_channels(const amp_cuda_channel_norm &a) {
    factors<W> f;
    f.channel = -1;
    for (int64_t i = first_element(); i < a.count; i += 2 * element_step()) {
        const int64_t next = i + element_step();
        neighbours<W> here, there;
        here.read(a.in, a.dtype, i);
        there.read(a.in, a.dtype, next < a.count ? next : i);
        normalize<W>(a, i, here, &f);
        if (next < a.count) normalize<W>(a, next, there, &f);
    }
}

AMP_KERNEL_OF(channel_norm, amp_cuda_channel_norm, AMP_BLOCK_THREADS, 2) {
    if (a.width == 8) {
        by_channels<8>(a);
    } else if (a.width == 4) {
        by_channels<4>(a);
    } else {
        by_channels<1>(a);
    }
}
