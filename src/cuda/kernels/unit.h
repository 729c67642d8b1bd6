/* W floats next to each other, of which memory holds f32, f16, bf16 or bool: read and written by up to 16 bytes. What
 * is read stays as it is until it is needed, so that several reads are under way at once. */
#ifndef AMP_CUDA_UNIT_H
#define AMP_CUDA_UNIT_H

#include "cuda/kernels/kernel.h"

template <int N>
struct alignas(4 * N) words {
    uint32_t w[N];
} __attribute__((may_alias)); /* on the host: memory holds other types */

/* As in memory: 1, 2 or 4 bytes for each element, from the first word on. */
template <int W>
struct unit {
    uint32_t w[W];
};

AMP_DEVICE int unit_bytes(amp_dtype dtype) { /* of an element */
    return dtype == AMP_F32 ? 4 : dtype == AMP_BOOL ? 1 : 2;
}

template <int N, int W>
AMP_DEVICE void read_words(const void *from, unit<W> *u, int first) {
    const words<N> read = *(const words<N> *)from;
    AMP_UNROLLED for (int k = 0; k < N; k++) u->w[first + k] = read.w[k];
}

/* The elements from number `at` on, which is a multiple of W from aligned memory. */
template <int W>
AMP_DEVICE void fetch(const void *data, amp_dtype dtype, int64_t at, unit<W> *u) {
    const char *from = (const char *)data + at * unit_bytes(dtype);
    if (dtype == AMP_F32) {
        AMP_UNROLLED for (int k = 0; k < W; k += 4) read_words<4>(from + 4 * k, u, k);
    } else if (dtype != AMP_BOOL) {
        read_words<W / 2>(from, u, 0);
    } else {
        read_words<W / 4>(from, u, 0);
    }
}

/* One element, for all of them. */
template <int W>
AMP_DEVICE void fetch_one(const void *data, amp_dtype dtype, int64_t at, unit<W> *u) {
    switch (dtype) {
    case AMP_F32: u->w[0] = ((const words<1> *)data)[at].w[0]; break;
    case AMP_BOOL: u->w[0] = ((const uint8_t *)data)[at]; break;
    default: u->w[0] = ((const uint16_t *)data)[at]; break;
    }
}

AMP_DEVICE uint16_t half_of(uint32_t word, int k) {
    return (uint16_t)(word >> 16 * k);
}

template <int W>
AMP_DEVICE void widen_unit(const unit<W> &u, amp_dtype dtype, float *v) {
    if (dtype == AMP_F32) {
        AMP_UNROLLED for (int j = 0; j < W; j++) v[j] = float_of(u.w[j]);
    } else if (dtype == AMP_F16) {
        AMP_UNROLLED for (int j = 0; j < W; j++) v[j] = from_f16(half_of(u.w[j / 2], j % 2));
    } else if (dtype == AMP_BF16) {
        AMP_UNROLLED for (int j = 0; j < W; j++) v[j] = from_bf16(half_of(u.w[j / 2], j % 2));
    } else {
        AMP_UNROLLED for (int j = 0; j < W; j++) v[j] = (u.w[j / 4] >> 8 * (j % 4) & 0xffu) != 0 ? 1.0f : 0.0f;
    }
}

template <int N>
AMP_DEVICE void write_words(void *to, const uint32_t *w) {
    words<N> written;
    AMP_UNROLLED for (int k = 0; k < N; k++) written.w[k] = w[k];
    *(words<N> *)to = written;
}

template <int W>
AMP_DEVICE void put_unit(void *data, amp_dtype dtype, int64_t at, const float *v) {
    char *to = (char *)data + at * unit_bytes(dtype);
    uint32_t w[W];
    if (dtype == AMP_F32) {
        AMP_UNROLLED for (int j = 0; j < W; j++) w[j] = bits_of(v[j]);
        AMP_UNROLLED for (int k = 0; k < W; k += 4) write_words<4>(to + 4 * k, w + k);
    } else if (dtype != AMP_BOOL) {
        const bool f16 = dtype == AMP_F16;
        AMP_UNROLLED for (int j = 0; j < W; j += 2) {
            w[j / 2] = f16 ? to_f16_pair(v[j], v[j + 1]) : to_bf16_pair(v[j], v[j + 1]);
        }
        write_words<W / 2>(to, w);
    } else {
        AMP_UNROLLED for (int j = 0; j < W; j += 4) {
            w[j / 4] = 0;
            AMP_UNROLLED for (int k = 0; k < 4; k++) w[j / 4] |= (uint32_t)(v[j + k] != 0) << 8 * k;
        }
        write_words<W / 4>(to, w);
    }
}

/* One element of f32, f16 or bf16. */
AMP_DEVICE float float_at(const void *data, amp_dtype dtype, int64_t at) {
    if (dtype == AMP_F32) return ((const float *)data)[at];
    const uint16_t half = ((const uint16_t *)data)[at];
    return dtype == AMP_F16 ? from_f16(half) : from_bf16(half);
}
AMP_DEVICE void put_float(void *data, amp_dtype dtype, int64_t at, float x) {
    if (dtype == AMP_F32) {
        ((float *)data)[at] = x;
    } else {
        ((uint16_t *)data)[at] = dtype == AMP_F16 ? to_f16(x) : to_bf16(x);
    }
}

#endif /* AMP_CUDA_UNIT_H */
