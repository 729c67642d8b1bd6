/* What packing B is on every vector ISA: which way the source lies, and blocks at an edge. A file includes it below its
 *
 *     pack_along_k(dst, src, dtype, stride_n)     a whole block whose columns lie along k
 *     pack_along_n(dst, src, dtype, stride_k)     … whose rows lie along n
 *
 * which are compiled once for each type. */
#ifndef AMP_CPU_GEMM_PACK_SIMD_H
#define AMP_CPU_GEMM_PACK_SIMD_H

static void pack_whole(uint16_t *dst, const void *src, amp_dtype dtype, int64_t stride_n, int64_t stride_k) {
    if (stride_k == 1) {
        if (dtype == AMP_F32)
            pack_along_k(dst, src, AMP_F32, stride_n);
        else if (dtype == AMP_BF16)
            pack_along_k(dst, src, AMP_BF16, stride_n);
        else
            pack_along_k(dst, src, AMP_F16, stride_n);
    } else {
        if (dtype == AMP_F32)
            pack_along_n(dst, src, AMP_F32, stride_k);
        else if (dtype == AMP_BF16)
            pack_along_n(dst, src, AMP_BF16, stride_k);
        else
            pack_along_n(dst, src, AMP_F16, stride_k);
    }
}

static void pack_any(uint16_t *dst, const void *src, amp_dtype dtype, int columns, int ks, int64_t stride_n,
                     int64_t stride_k) {
    if (columns == AMP_GEMM_BLOCK && ks == AMP_GEMM_BLOCK && (stride_n == 1 || stride_k == 1)) {
        pack_whole(dst, src, dtype, stride_n, stride_k);
        return;
    }
    uint16_t edge[AMP_GEMM_BLOCK_VALUES] = {0};
    for (int n = 0; n < columns; n++)
        for (int k = 0; k < ks; k++)
            edge[n * AMP_GEMM_BLOCK + k] = scalar_load_bf16(src, dtype, n * stride_n + k * stride_k);
    pack_along_k(dst, edge, AMP_BF16, AMP_GEMM_BLOCK);
}

#endif /* AMP_CPU_GEMM_PACK_SIMD_H */
