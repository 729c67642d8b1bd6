/* Packing rows of A that are windows of images; a part of gemm_simd.h. Rows are put together from runs: pixels that a
 * window covers and that follow each other in memory. */
#ifndef AMP_CPU_GEMM_WINDOW_H
#define AMP_CPU_GEMM_WINDOW_H

/* A packed block on its way: 32 values of the source's type, gathered in lanes. */
typedef struct simd_gather {
#ifdef __AVX512F__
    __m512i low, high; /* bf16: low alone */
#else
    float values[AMP_GEMM_BLOCK];
#endif
} simd_gather;

/* Puts src[0 … count - 1] into the lanes from `lane`, which are zero; reads nothing else. */
SIMD_INLINE void simd_gather_add(simd_gather *g, const char *src, const amp_dtype dtype, int lane, int count) {
#ifdef __AVX512F__
    const uint32_t mask = (uint32_t)(((UINT64_C(1) << count) - 1) << lane);
    if (dtype == AMP_F32) {
        const char *at = src - lane * 4;
        g->low = _mm512_or_si512(g->low, _mm512_maskz_loadu_epi32((__mmask16)mask, at));
        g->high = _mm512_or_si512(g->high, _mm512_maskz_loadu_epi32((__mmask16)(mask >> 16), at + 64));
    } else {
        g->low = _mm512_or_si512(g->low, _mm512_maskz_loadu_epi16((__mmask32)mask, src - lane * 2));
    }
#else
    for (int i = 0; i < count; i++) g->values[lane + i] = scalar_load(src, dtype, i);
#endif
}

SIMD_INLINE void simd_gather_store(simd_gather *g, const amp_dtype dtype, void *dst, int64_t at,
                                   const simd_a_form form) {
#ifdef __AVX512F__
    if (dtype == AMP_BF16 && form == SIMD_A_BF16) {
        _mm512_store_si512((uint16_t *)dst + at, g->low);
    } else if (dtype == AMP_BF16) {
        const simd_h low = (simd_h)_mm512_castsi512_si256(g->low), high = (simd_h)_mm512_extracti64x4_epi64(g->low, 1);
        simd_put_a(dst, at, form, (simd_f)simd_to_upper_halves(low));
        simd_put_a(dst, at + 16, form, (simd_f)simd_to_upper_halves(high));
    } else {
        simd_put_a(dst, at, form, (simd_f)g->low);
        simd_put_a(dst, at + 16, form, (simd_f)g->high);
    }
#else
    simd_pack_a_row(g->values, AMP_F32, 0, dst, at, form);
    (void)dtype;
#endif
    *g = (simd_gather){0};
}

/* A row on its way: where its window begins, in pixels, and the blocks that are wanted of it. */
typedef struct simd_window_row {
    const char *image;
    int64_t first[3];
    int64_t begin, end; /* elements of k, the first a multiple of 32 */
} simd_window_row;

/* Values of a run that lie within the image: [low, high) of them, and where value 0 would be. */
SIMD_INLINE const char *simd_find_run(const amp_gemm_window *w, const simd_window_row *row, int64_t run,
                                      const int64_t run_taps, const int64_t size, int64_t *low, int64_t *high) {
    const int64_t groups = w->taps[2] / run_taps; /* one, or as many as taps */
    const int64_t tw = run % groups, th = run / groups % w->taps[1], td = run / groups / w->taps[1];
    const int64_t d = row->first[0] + td * w->dilation[0], h = row->first[1] + th * w->dilation[1];
    const int64_t x = row->first[2] + tw * w->dilation[2];
    *low = x < 0 ? -x * w->channels : 0;
    *high = (w->in[2] - x < run_taps ? w->in[2] - x : run_taps) * w->channels;
    if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1] || *high < *low) *high = *low = 0;
    return row->image + (d * w->step[0] + h * w->step[1] + x * w->step[2]) * size;
}

SIMD_INLINE void simd_pack_window(const amp_gemm_window *w, const simd_window_row *row, const amp_dtype dtype,
                                  void *dst, int64_t at, const int64_t step, const simd_a_form form) {
    const int64_t size = dtype == AMP_F32 ? 4 : 2;
    const bool merged = w->dilation[2] == 1 && w->step[2] == w->channels;
    const int64_t run_taps = merged ? w->taps[2] : 1, length = run_taps * w->channels;
    int64_t run = row->begin / length, position = row->begin % length, low, high;
    simd_gather gather = {0};
    int lane = 0;
    for (int64_t k = row->begin; k < row->end; run++, position = 0) {
        const char *src = simd_find_run(w, row, run, run_taps, size, &low, &high);
        const int64_t last = length - position < row->end - k ? length : position + row->end - k;
        k += last - position;
        while (position < last) {
            const int count = last - position < AMP_GEMM_BLOCK - lane ? (int)(last - position) : AMP_GEMM_BLOCK - lane;
            const int64_t from = low > position ? low : position;
            const int64_t to = high < position + count ? high : position + count;
            if (to - from == AMP_GEMM_BLOCK) {
                simd_pack_a_row(src, dtype, position, dst, at, form);
                at += step;
                position += AMP_GEMM_BLOCK;
                continue;
            }
            if (from < to)
                simd_gather_add(&gather, src + from * size, dtype, lane + (int)(from - position), (int)(to - from));
            position += count;
            lane += count;
            if (lane < AMP_GEMM_BLOCK) continue;
            simd_gather_store(&gather, dtype, dst, at, form);
            at += step;
            lane = 0;
        }
    }
    if (lane > 0) simd_gather_store(&gather, dtype, dst, at, form);
}

SIMD_INLINE void simd_pack_windows(const amp_gemm_pack_a *p, void *dst, const amp_dtype dtype, const simd_a_form form) {
    const amp_gemm_window *w = p->window;
    const int64_t size = dtype == AMP_F32 ? 4 : 2, step = (int64_t)p->panel_rows * AMP_GEMM_BLOCK;
    const int64_t begin = p->block * AMP_GEMM_BLOCK, wanted = begin + p->blocks * AMP_GEMM_BLOCK;
    int64_t x = p->row % w->out[2], y = p->row / w->out[2] % w->out[1];
    int64_t z = p->row / w->out[2] / w->out[1] % w->out[0], image = p->row / w->out[2] / w->out[1] / w->out[0];
    for (int r = 0; r < p->panel_rows; r++) {
        const int64_t at = p->block * step + r * AMP_GEMM_BLOCK;
        if (r >= p->rows) {
            simd_gather zero = {0};
            for (int64_t i = 0; i < p->blocks; i++) simd_gather_store(&zero, dtype, dst, at + i * step, form);
            continue;
        }
        const simd_window_row row = {
            .image = (const char *)p->src + image * w->image_stride * size,
            .first = {z * w->stride[0] - w->pad[0], y * w->stride[1] - w->pad[1], x * w->stride[2] - w->pad[2]},
            .begin = begin,
            .end = wanted < p->k ? wanted : p->k,
        };
        simd_pack_window(w, &row, dtype, dst, at, step, form);
        if (++x < w->out[2]) continue;
        x = 0;
        if (++y < w->out[1]) continue;
        y = 0;
        if (++z < w->out[0]) continue;
        z = 0;
        image++;
    }
}

#endif /* AMP_CPU_GEMM_WINDOW_H */
