/* Instructions of sm_80 and later that a warp does together: products of 16 × 16 by 16 × 8 elements on tensor cores,
 * matrices from shared memory into registers, copies to shared memory that nobody waits for yet. On the host, where all
 * threads of a block run, tests/fake_cuda/warp_matrix.cc does what the PTX ISA says of each (mma.m16n8k16, ldmatrix,
 * cp.async): which lane holds which element.
 *
 * Of a product, with g = lane / 4 and t = lane % 4, a lane holds in pairs, the first in the lower half:
 *     a[0], a[1]: rows g and g + 8, columns 2t and 2t + 1; a[2], a[3]: the same 8 columns further
 *     b[0], b[1]: rows 2t and 2t + 1, and 8 further, of column g
 *     c[0], c[1]: row g, columns 2t and 2t + 1; c[2], c[3]: row g + 8
 * so that two sums c side by side, rounded, are an a. */
#ifndef AMP_CUDA_WARP_MATRIX_H
#define AMP_CUDA_WARP_MATRIX_H

#include "cuda/kernels/kernel.h"

#ifdef __CUDACC__
/* x, of which nothing is known from before: what is computed of it occupies no register until here. */
__device__ __forceinline__ int64_t AMP_ANEW(int64_t x) {
    asm volatile("" : "+l"(x));
    return x;
}
__device__ __forceinline__ unsigned AMP_ANEW(unsigned x) {
    asm volatile("" : "+r"(x));
    return x;
}
/* What all lanes of the warp know alike; all of them come here. */
#define AMP_OF_WARP(x) __shfl_sync(0xffffffffu, x, 0)
/* As many bytes as the launch asked for. */
#define AMP_DYNAMIC_SHARED(name, bytes) extern __shared__ __align__(1024) char name[]
#else
#define AMP_ANEW(x) (x)
#define AMP_OF_WARP(x) amp_fake_of_warp(x)
#define AMP_DYNAMIC_SHARED(name, bytes) char *const name = amp_fake_shared(bytes)
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
AMP_DEVICE uint32_t shared_address(const char *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four 8 × 8 matrices of 16-bit elements: lane l names the 16 bytes of row l % 8 of matrix l / 8, and gets row l / 4,
 * columns 2·(l % 4) and the next, of each. */
AMP_DEVICE void load_matrices(uint32_t *x, const char *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}
/* The same of each matrix transposed. */
AMP_DEVICE void load_matrices_turned(uint32_t *x, const char *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* c += a·b. */
template <class Elements>
AMP_DEVICE void multiply_add(float *c, const uint32_t *a, const uint32_t *b);
template <>
AMP_DEVICE void multiply_add<f16_elements>(float *c, const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
AMP_DEVICE void multiply_add<bf16_elements>(float *c, const uint32_t *a, const uint32_t *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Rounded, the first in the lower half. */
template <class Elements>
AMP_DEVICE uint32_t pair_of(float low, float high);
template <>
AMP_DEVICE uint32_t pair_of<f16_elements>(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
template <>
AMP_DEVICE uint32_t pair_of<bf16_elements>(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* 2ˣ within 2 ulp of f32; below 2⁻¹²⁶ 0. */
AMP_DEVICE float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 16 bytes, or zeros, that are at `to` for this thread after wait_for_copies, for others after a barrier more. */
AMP_DEVICE void copy_later(char *to, const void *from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0)
                 : "memory");
}
AMP_DEVICE void wait_for_copies() {
    asm volatile("cp.async.wait_all;" : : : "memory");
}
#elif !defined(__CUDACC__) && defined(AMP_FAKE_THREADS)
char *amp_fake_shared(int64_t bytes);
void amp_fake_load_matrices(uint32_t *x, const char *row, bool turned);
void amp_fake_multiply_add(float *c, const uint32_t *a, const uint32_t *b, float (*widen)(uint16_t));
void amp_fake_copy_later(char *to, const void *from, bool inside);
void amp_fake_wait_for_copies();

inline void load_matrices(uint32_t *x, const char *row) {
    amp_fake_load_matrices(x, row, false);
}
inline void load_matrices_turned(uint32_t *x, const char *row) {
    amp_fake_load_matrices(x, row, true);
}
template <class Elements>
inline void multiply_add(float *c, const uint32_t *a, const uint32_t *b) {
    amp_fake_multiply_add(c, a, b, Elements::widen);
}
template <class Elements>
inline uint32_t pair_of(float low, float high) {
    return Elements::narrow(low) | (uint32_t)Elements::narrow(high) << 16;
}
inline float power_of_two(float x) {
    return exp2f(x);
}
inline void copy_later(char *to, const void *from, bool inside) {
    amp_fake_copy_later(to, from, inside);
}
inline void wait_for_copies() {
    amp_fake_wait_for_copies();
}
#endif

#endif /* AMP_CUDA_WARP_MATRIX_H */
