/* Packing rows of A that are windows of images; a part of gemm_simd.h. Rows are put together from runs: pixels that a
 * window covers and that follow each other in memory.
 *
 * Formula:     moves; f32 is rounded to bf16 where the product's type is bf16 (gemm_pack_simd.h).
 * Accumulator: none.
 * Error bound: equals the reference's packing bit for bit.
 * ISA:         AVX512F and BW where the file is compiled for them, else plain C. */
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

/* A packed row as it grows: `at` is the block that gathers. */
typedef struct simd_row_out {
    void *dst;
    int64_t at, step;
    int lane;
    simd_gather gather;
} simd_row_out;

SIMD_INLINE void simd_next_lanes(simd_row_out *out, int count, const amp_dtype dtype, const simd_a_form form) {
    out->lane += count;
    if (out->lane < AMP_GEMM_BLOCK) return;
    simd_gather_store(&out->gather, dtype, out->dst, out->at, form);
    out->at += out->step;
    out->lane = 0;
}

/* Values position … last - 1 of a piece that lies together, of which [low, high) are within the image. */
SIMD_INLINE void simd_pack_piece(simd_row_out *out, const char *src, int64_t position, int64_t last, int64_t low,
                                 int64_t high, const amp_dtype dtype, const simd_a_form form) {
    const int64_t size = dtype == AMP_F32 ? 4 : 2;
    while (position < last) {
        const int room = AMP_GEMM_BLOCK - out->lane, count = last - position < room ? (int)(last - position) : room;
        const int64_t from = low > position ? low : position;
        const int64_t to = high < position + count ? high : position + count;
        if (to - from == AMP_GEMM_BLOCK) {
            simd_pack_a_row(src, dtype, position, out->dst, out->at, form);
            out->at += out->step;
        } else {
            if (from < to)
                simd_gather_add(&out->gather, src + from * size, dtype, out->lane + (int)(from - position),
                                (int)(to - from));
            simd_next_lanes(out, count, dtype, form);
        }
        position += count;
    }
}

SIMD_INLINE void simd_pack_window(const amp_gemm_window *w, const simd_window_row *row, const amp_dtype dtype,
                                  void *dst, int64_t at, const int64_t step, const simd_a_form form) {
    const int64_t size = dtype == AMP_F32 ? 4 : 2, run_length = amp_gemm_window_run(w);
    const int64_t piece_taps = w->run_taps > 1 && w->step[2] == w->channels ? w->run_taps : 1;
    const int64_t length = piece_taps * w->channels, per_line = w->taps[2] / w->run_taps;
    simd_row_out out = {.dst = dst, .at = at, .step = step};
    int64_t run = row->begin / run_length, position = row->begin % run_length;
    for (int64_t k = row->begin; k < row->end; run++, position = 0) {
        const int64_t run_end = run_length - position < row->end - k ? run_length : position + row->end - k;
        const int64_t th = run / per_line % w->taps[1], td = run / per_line / w->taps[1];
        const int64_t d = row->first[0] + td * w->dilation[0], h = row->first[1] + th * w->dilation[1];
        const bool line = d >= 0 && d < w->in[0] && h >= 0 && h < w->in[1];
        k += run_end - position;
        while (position < run_end && position < w->run_taps * w->channels) {
            const int64_t tap = run % per_line * w->run_taps + position / length * piece_taps;
            const int64_t x = row->first[2] + tap * w->dilation[2], begin = position / length * length;
            const int64_t last = run_end - begin < length ? run_end - begin : length;
            const int64_t inside = w->in[2] - x < piece_taps ? w->in[2] - x : piece_taps;
            const char *src = row->image + (d * w->step[0] + h * w->step[1] + x * w->step[2]) * size;
            simd_pack_piece(&out, src, position - begin, last, x < 0 ? -x * w->channels : 0,
                            line && inside > 0 ? inside * w->channels : 0, dtype, form);
            position = begin + last;
        }
        if (position < run_end) simd_next_lanes(&out, 1, dtype, form); /* the zero after a run */
    }
    if (out.lane > 0) simd_gather_store(&out.gather, dtype, dst, out.at, form);
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
