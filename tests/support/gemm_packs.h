// Shapes of products, and matrices packed for them.
#ifndef AMP_TESTS_GEMM_PACKS_H
#define AMP_TESTS_GEMM_PACKS_H

#include <gtest/gtest.h>

#include <cstdint>

#include "cpu/registry/convert.h"
#include "cpu/registry/gemm.h"

namespace gemm_packs {

inline uint16_t round_bf16(float x) {
    return amp_bf16_from_f32(x);
}

struct Shape {
    int64_t m, n, k;
};

inline size_t packed_bytes(amp_dtype in, int64_t n, int64_t k) {
    return in == AMP_F32 ? amp_gemm_f32_packed_bytes(n, k) : amp_gemm_packed_bytes(n, k);
}

// B from [N, K] in f32 with these strides.
inline void pack(amp_dtype in, void *packed, const float *b, int64_t n, int64_t k, int64_t stride_n, int64_t stride_k) {
    const amp_status status = in == AMP_F32
                                  ? amp_gemm_f32_pack(static_cast<float *>(packed), b, n, k, stride_n, stride_k)
                                  : amp_gemm_pack(packed, b, AMP_F32, n, k, stride_n, stride_k);
    ASSERT_EQ(AMP_OK, status);
}

} // namespace gemm_packs

#endif // AMP_TESTS_GEMM_PACKS_H
