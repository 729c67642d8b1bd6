/* Products of bf16 over windows where the CPU has no instruction for them: the image and the packed weights are widened
 * to f32 once, and the product of f32 reads them where they lie.
 *
 * Formula:     that of the wide ISA. A product of two bf16 is exact in f32, so the bits are those of the narrow one.
 * Accumulator: the wide ISA's.
 * Error bound: the narrow ISA's.
 * ISA:         chosen by the caller (amp_gemm_isa); this file moves and converts numbers.
 * Source:      none; figures are in docs/kernels.md. */
#include <omp.h>

#include "core/fail.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/gemm/gemm_isa.h"

enum {
    CHUNK = 2048,   /* values that are rounded at a time, on the stack */
    MOST_SPAN = 2,  /* an image that, with what lies between, is more than so many times its values is not widened */
    LEAST_ROWS = 64 /* that pay for widening B */
};

/* From the first value that a window may meet to the last. */
static int64_t span_of(const amp_gemm *g) {
    const amp_gemm_window *w = g->window;
    const int64_t images = g->m / (w->out[0] * w->out[1] * w->out[2]);
    int64_t span = (g->batch - 1) * g->a_batch_stride + (images - 1) * w->image_stride + w->channels;
    for (int i = 0; i < 3; i++) span += (w->in[i] - 1) * w->step[i];
    return span;
}

static int64_t values_of(const amp_gemm *g) {
    const amp_gemm_window *w = g->window;
    const int64_t images = g->m / (w->out[0] * w->out[1] * w->out[2]);
    return g->batch * images * w->in[0] * w->in[1] * w->in[2] * w->channels;
}

/* A window of one pixel meets each value once: packing it costs no more than widening it. */
bool amp_gemm_is_widened(const amp_gemm *g, const amp_gemm_isa *isa) {
    const amp_gemm_window *w = g->window;
    if (!w || w->run_padding != 0 || g->k == 0 || g->m < LEAST_ROWS || g->a_batch_stride < 0) return false;
    if (w->taps[0] * w->taps[1] * w->taps[2] == 1) return false;
    if (w->image_stride < 0 || w->step[0] < 0 || w->step[1] < 0 || w->step[2] < 0) return false;
    amp_gemm wide = *g;
    wide.a_dtype = AMP_F32;
    return amp_gemm_is_direct(&wide, isa->wide) && span_of(g) <= MOST_SPAN * values_of(g);
}

/* ---- A ----------------------------------------------------------------------------------------------------------- */

/* Rounds f32 on its way. */
static amp_status widen_a(const amp_gemm *g, float *to, int64_t count) {
    amp_convert_function *const round = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, AMP_F32, AMP_BF16);
    amp_convert_function *const widen = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, AMP_BF16, AMP_F32);
    if (!round || !widen) return amp_last_status();
    const int64_t chunks = (count + CHUNK - 1) / CHUNK;
    const int threads = amp_parallel_threads(count, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t first = i * CHUNK, some = count - first < CHUNK ? count - first : CHUNK;
        _Alignas(64) uint16_t rounded[CHUNK];
        const void *from = (const uint16_t *)g->a + first;
        if (g->a_dtype == AMP_F32) {
            round(rounded, (const float *)g->a + first, some);
            from = rounded;
        }
        widen(to + first, from, some);
    }
    return AMP_OK;
}

/* ---- B ----------------------------------------------------------------------------------------------------------- */

typedef struct panels {
    int64_t items, count, blocks; /* matrices, panels of each, blocks of K of each panel */
} panels;

static panels panels_of(const amp_gemm *g) {
    return (panels){g->b_batch_stride == 0 ? 1 : g->batch, (g->n + AMP_GEMM_BLOCK - 1) / AMP_GEMM_BLOCK,
                    (g->k + AMP_GEMM_BLOCK - 1) / AMP_GEMM_BLOCK};
}

static void widen_b(const amp_gemm *g, const amp_gemm_isa *narrow, const panels *p, float *to) {
    const int64_t values = p->blocks * AMP_GEMM_BLOCK_VALUES, all = p->items * p->count;
    const int threads = amp_parallel_threads(all * values, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < all; i++) {
        const char *item = (const char *)g->b + i / p->count * g->b_batch_stride;
        narrow->unpack_b(item + i % p->count * values * (int64_t)sizeof(uint16_t), to + i * values, p->blocks);
    }
}

amp_status amp_gemm_run_widened(const amp_gemm *g, const amp_gemm_isa *isa) {
    const panels p = panels_of(g);
    const int64_t of_a = (span_of(g) + 31) / 16 * 16, of_item = p.count * p.blocks * AMP_GEMM_BLOCK_VALUES;
    float *const a = amp_alloc((size_t)(of_a + p.items * of_item) * sizeof *a), *const b = a ? a + of_a : NULL;
    if (!a) return amp_fail(AMP_ERROR_MEMORY, "gemm: no memory for operands in f32");
    amp_status status = widen_a(g, a, span_of(g));
    if (status == AMP_OK) {
        widen_b(g, isa->many, &p, b);
        amp_gemm wide = *g;
        wide.a = a;
        wide.a_dtype = AMP_F32;
        wide.b = b;
        wide.b_batch_stride = g->b_batch_stride == 0 ? 0 : of_item * (int64_t)sizeof *b;
        status = amp_gemm_run_direct(&wide, isa->wide);
    }
    amp_free(a);
    return status;
}
