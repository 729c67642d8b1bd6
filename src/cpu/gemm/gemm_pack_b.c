/* The packed forms of GEMM's right-hand operand: sizes, and packing, of bf16 by whichever ISA is there. */
#include <omp.h>
#include <string.h>

#include "core/fail.h"
#include "core/hot.h"
#include "core/parallel.h"
#include "cpu/convert/transpose.h"
#include "cpu/gemm/gemm_isa.h"

enum {
    FAR_BYTES = 1 << 20,   /* a source of so much comes from beyond L2 … */
    PIECE_BYTES = 16 << 10 /* … and so much of each of 32 rows is brought in at a time: half of L2 */
};

static int64_t blocks_of(int64_t extent) {
    return extent / AMP_GEMM_BLOCK + (extent % AMP_GEMM_BLOCK != 0);
}

static size_t packed_bytes(int64_t n, int64_t k, size_t size) {
    size_t blocks, bytes;
    if (n <= 0 || k <= 0) return 0;
    if (__builtin_mul_overflow((size_t)blocks_of(n), (size_t)blocks_of(k), &blocks)) return 0;
    if (__builtin_mul_overflow(blocks, AMP_GEMM_BLOCK_VALUES * size, &bytes)) return 0;
    return bytes;
}

AMP_HOT size_t amp_gemm_packed_bytes(int64_t n, int64_t k) {
    return packed_bytes(n, k, sizeof(uint16_t));
}

size_t amp_gemm_f32_packed_bytes(int64_t n, int64_t k) {
    return packed_bytes(n, k, sizeof(float));
}

typedef struct pack_job {
    char *dst;
    const char *src;
    amp_dtype dtype;                  /* of the source */
    int64_t n, k, stride_n, stride_k; /* strides in elements */
    int64_t block_bytes;              /* packed */
    amp_gemm_pack_function *pack_block;
} pack_job;

/* The source's dense lines go along n, else along k, if it has any. */
static bool lies_along_n(const pack_job *job) {
    return job->stride_n == 1 && job->stride_k != 1;
}

/* Rows of a block at any address, as files have them, from where they are aligned. */
static void pack_unaligned(const pack_job *job, uint16_t *dst, const char *src, int columns, int ks) {
    _Alignas(64) char near[AMP_GEMM_BLOCK_VALUES * sizeof(float)];
    const bool along_n = lies_along_n(job);
    const int64_t size = (int64_t)amp_dtype_size(job->dtype), step = along_n ? 1 : job->stride_k;
    const int64_t row = along_n ? job->stride_k : job->stride_n;
    const int rows = along_n ? ks : columns, length = along_n ? columns : ks;
    for (int r = 0; r < rows; r++) {
        char *to = near + r * AMP_GEMM_BLOCK * size;
        const char *from = src + r * row * size;
        if (step == 1) memcpy(to, from, (size_t)(length * size));
        for (int i = 0; i < length && step != 1; i++) memcpy(to + i * size, from + i * step * size, (size_t)size);
    }
    job->pack_block(dst, near, job->dtype, columns, ks, along_n ? 1 : AMP_GEMM_BLOCK, along_n ? AMP_GEMM_BLOCK : 1);
}

/* 32 rows of the source as it lies, and so many blocks of them, from `block` on; of a source along n a row is one k. */
typedef struct piece {
    bool along_n;
    int64_t band, block, end;
} piece;

static void pack_one(const pack_job *job, int64_t panel, int64_t block) {
    const int64_t n0 = panel * AMP_GEMM_BLOCK, k0 = block * AMP_GEMM_BLOCK;
    const int64_t columns = job->n - n0 < AMP_GEMM_BLOCK ? job->n - n0 : AMP_GEMM_BLOCK;
    const int64_t ks = job->k - k0 < AMP_GEMM_BLOCK ? job->k - k0 : AMP_GEMM_BLOCK;
    const int64_t size = (int64_t)amp_dtype_size(job->dtype);
    uint16_t *const dst = (uint16_t *)(void *)(job->dst + (panel * blocks_of(job->k) + block) * job->block_bytes);
    const char *src = job->src + (n0 * job->stride_n + k0 * job->stride_k) * size;
    if ((uintptr_t)src % (size_t)size != 0) {
        pack_unaligned(job, dst, src, (int)columns, (int)ks);
    } else {
        job->pack_block(dst, src, job->dtype, (int)columns, (int)ks, job->stride_n, job->stride_k);
    }
}

/* Reads a byte of each line, row by row: what is read in the order in which it lies is fetched ahead, at 32 GB/s.
 * Blocks alone, which are 128 bytes of each of 32 rows, came at 7. */
static void bring_in(const pack_job *job, const piece *p) {
    const int64_t size = (int64_t)amp_dtype_size(job->dtype), rows = p->along_n ? job->k : job->n;
    const int64_t stride = (p->along_n ? job->stride_k : job->stride_n) * size, columns = p->along_n ? job->n : job->k;
    const int64_t row = p->band * AMP_GEMM_BLOCK, last = row + AMP_GEMM_BLOCK < rows ? row + AMP_GEMM_BLOCK : rows;
    const int64_t end = p->end * AMP_GEMM_BLOCK < columns ? p->end * AMP_GEMM_BLOCK : columns;
    for (int64_t r = row; r < last; r++) {
        const char *line = job->src + r * stride + p->block * AMP_GEMM_BLOCK * size;
        for (int64_t at = 0; at < (end - p->block * AMP_GEMM_BLOCK) * size; at += 64)
            (void)*(const volatile char *)(line + at);
    }
}

static void pack_piece(const pack_job *job, const piece *p, bool is_far) {
    if (is_far) bring_in(job, p);
    for (int64_t i = p->block; i < p->end; i++) pack_one(job, p->along_n ? i : p->band, p->along_n ? p->band : i);
}

static amp_status pack(const pack_job *job) {
    if (job->n <= 0 || job->k <= 0) return AMP_OK;
    if ((uintptr_t)job->dst % 64)
        return amp_fail(AMP_ERROR_INTERNAL, "gemm: the packed operand is not 64-byte aligned");
    const bool along_n = lies_along_n(job);
    const int64_t size = (int64_t)amp_dtype_size(job->dtype), most = PIECE_BYTES / (AMP_GEMM_BLOCK * size);
    const int64_t bands = blocks_of(along_n ? job->k : job->n), blocks = blocks_of(along_n ? job->n : job->k);
    const int64_t pieces = (blocks + most - 1) / most;
    const bool is_far = (along_n || job->stride_k == 1) && job->n >= FAR_BYTES / (job->k * size);
    const int threads = amp_parallel_threads(job->n * job->k, AMP_GRAIN_ELEMENTS / 2);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < bands * pieces; i++) {
        const int64_t block = i % pieces * most;
        const piece p = {along_n, i / pieces, block, block + most < blocks ? block + most : blocks};
        pack_piece(job, &p, is_far);
    }
    return AMP_OK;
}

amp_status amp_gemm_pack(void *dst, const void *src, amp_dtype src_dtype, int64_t n, int64_t k, int64_t stride_n,
                         int64_t stride_k) {
    if (src_dtype != AMP_F32 && src_dtype != AMP_BF16 && src_dtype != AMP_F16)
        return amp_fail(AMP_ERROR_DTYPE, "gemm: cannot pack %s to bf16", amp_dtype_name(src_dtype));
    if (n <= 0 || k <= 0) return AMP_OK;
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_GEMM_PACK, AMP_F32, AMP_BF16);
    if (!kernel) return amp_last_status();
    return pack(&(pack_job){dst, src, src_dtype, n, k, stride_n, stride_k, AMP_GEMM_BLOCK_VALUES * sizeof(uint16_t),
                            (amp_gemm_pack_function *)kernel->function});
}

/* One block of 32 k by 32 n. */
static void pack_f32_block(uint16_t *packed, const void *source, amp_dtype dtype, int columns, int ks, int64_t stride_n,
                           int64_t stride_k) {
    (void)dtype;
    float *dst = (float *)(void *)packed;
    const float *src = source;
    if (columns < AMP_GEMM_BLOCK || ks < AMP_GEMM_BLOCK) memset(dst, 0, AMP_GEMM_BLOCK_VALUES * sizeof *dst);
    if (stride_n == 1 && columns == AMP_GEMM_BLOCK) {
        for (int k = 0; k < ks; k++) memcpy(dst + k * AMP_GEMM_BLOCK, src + k * stride_k, AMP_GEMM_BLOCK * sizeof *dst);
        return;
    }
    if (stride_k == 1) {
        amp_transpose((char *)dst, AMP_GEMM_BLOCK * sizeof *dst, source, stride_n * (int64_t)sizeof *dst, columns, ks,
                      sizeof *dst);
        return;
    }
    for (int n = 0; n < columns; n++)
        for (int k = 0; k < ks; k++) dst[k * AMP_GEMM_BLOCK + n] = src[n * stride_n + k * stride_k];
}

amp_status amp_gemm_f32_pack(float *dst, const void *src, int64_t n, int64_t k, int64_t stride_n, int64_t stride_k) {
    return pack(&(pack_job){(char *)dst, src, AMP_F32, n, k, stride_n, stride_k, AMP_GEMM_BLOCK_VALUES * sizeof(float),
                            pack_f32_block});
}
