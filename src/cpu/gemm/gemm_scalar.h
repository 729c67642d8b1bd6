/* Scalar loads and stores of the GEMM family: the reference kernel, and the others' edges.
 * Everything is static inline, so each ISA file compiles its own. */
#ifndef AMP_CPU_GEMM_SCALAR_H
#define AMP_CPU_GEMM_SCALAR_H

#include "cpu/convert/convert.h"
#include "cpu/gemm/gemm.h"

/* Element `i` of an f32, bf16 or f16 array. */
static inline float scalar_load(const void *p, amp_dtype dtype, int64_t i) {
    if (dtype == AMP_F32) return ((const float *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    return dtype == AMP_BF16 ? amp_f32_from_bf16(h) : amp_f32_from_f16(h);
}
static inline uint16_t scalar_load_bf16(const void *p, amp_dtype dtype, int64_t i) {
    return dtype == AMP_BF16 ? ((const uint16_t *)p)[i] : amp_bf16_from_f32(scalar_load(p, dtype, i));
}
static inline float scalar_load_rounded(const void *p, amp_dtype dtype, int64_t i) {
    return amp_f32_from_bf16(scalar_load_bf16(p, dtype, i));
}
static inline void scalar_store(void *p, amp_dtype dtype, int64_t i, float x) {
    if (dtype == AMP_F32) {
        ((float *)p)[i] = x;
    } else {
        ((uint16_t *)p)[i] = amp_bf16_from_f32(x);
    }
}

#define SCALAR_OUTSIDE INT64_MIN

/* Where element k of a row of windows lies. */
static inline int64_t scalar_window_offset(const amp_gemm_window *w, int64_t row, int64_t k) {
    const int64_t run = k / amp_gemm_window_run(w), in_run = k % amp_gemm_window_run(w);
    int64_t offset = in_run % w->channels, tap = run * w->run_taps + in_run / w->channels;
    if (in_run >= w->run_taps * w->channels) return SCALAR_OUTSIDE;
    for (int i = 2; i >= 0; i--) {
        const int64_t at = row % w->out[i] * w->stride[i] - w->pad[i] + tap % w->taps[i] * w->dilation[i];
        if (at < 0 || at >= w->in[i]) return SCALAR_OUTSIDE;
        offset += at * w->step[i];
        row /= w->out[i];
        tap /= w->taps[i];
    }
    return offset + row * w->image_stride;
}

#endif /* AMP_CPU_GEMM_SCALAR_H */
