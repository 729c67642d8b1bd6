/* What kernels are written with. nvcc makes them for the GPU; the tests compile the same files for the host twice: with
 * one thread to a block, which is fast, and with all of them, in turns, for what threads do together. A kernel is
 * therefore right for any number of blocks, and for one thread as for a whole number of warps. */
#ifndef AMP_CUDA_KERNEL_H
#define AMP_CUDA_KERNEL_H

#include "cuda/args/kernel_args.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define AMP_KERNEL(name, type)                                                                                         \
    extern "C" __global__ void __launch_bounds__(AMP_BLOCK_THREADS, 1) name(const __grid_constant__ type a)
/* Of `threads`, in so few registers that this many blocks are on a multiprocessor at once. */
#define AMP_KERNEL_OF(name, type, threads, blocks)                                                                     \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ type a)
#define AMP_DEVICE __device__ __forceinline__
#define AMP_DEVICE_CALL __device__ __noinline__
#define AMP_DEVICE_MEMBER __device__ __forceinline__
#define AMP_SHARED_BYTES(name, bytes) __shared__ __align__(32) char name[bytes]
#define AMP_THREAD ((int)threadIdx.x)
#define AMP_THREADS ((int)blockDim.x)
#define AMP_BLOCK ((int64_t)blockIdx.x)
#define AMP_BLOCKS ((int64_t)gridDim.x)
#define AMP_BARRIER() __syncthreads()
#define AMP_LANES 32
#define AMP_WARP_BARRIER() __syncwarp()
#define AMP_FROM_LANE(value, mask) __shfl_xor_sync(0xffffffffu, value, mask)
#define AMP_UNROLLED _Pragma("unroll")
#define AMP_UNROLLED_4 _Pragma("unroll 4")
#define AMP_ROLLED _Pragma("unroll 1")
#else
#include <cmath>
#include <cstring>

extern "C" {
#include "core/half.h"
}
extern thread_local int64_t amp_fake_block, amp_fake_blocks; /* of the fake driver */

#define AMP_KERNEL(name, type)                                                                                         \
    static void name##_body(const type &a);                                                                            \
    extern "C" void name(const void *arguments) {                                                                      \
        name##_body(*static_cast<const type *>(arguments));                                                            \
    }                                                                                                                  \
    extern "C" size_t name##_bytes() {                                                                                 \
        return sizeof(type);                                                                                           \
    }                                                                                                                  \
    static void name##_body(const type &a)
#define AMP_KERNEL_OF(name, type, threads, blocks) AMP_KERNEL(name, type)
#define AMP_UNROLLED
#define AMP_UNROLLED_4
#define AMP_ROLLED
#define AMP_DEVICE inline
#define AMP_DEVICE_CALL inline
#define AMP_DEVICE_MEMBER
#define AMP_BLOCK amp_fake_block
#define AMP_BLOCKS amp_fake_blocks
#ifdef AMP_FAKE_THREADS
/* All threads of a block, in turns: tests/fake_cuda/threads.cc. */
extern thread_local int amp_fake_thread, amp_fake_threads;
void amp_fake_barrier(bool of_block);
double amp_fake_from_lane(double value, int mask);
int amp_fake_of_warp(int value);
char *amp_fake_shared_of(const char *variable, int64_t bytes);
#define AMP_SHARED_BYTES(name, bytes)                                                                                  \
    static const char name##_variable = 0;                                                                             \
    char *const name = amp_fake_shared_of(&name##_variable, bytes)
#define AMP_THREAD amp_fake_thread
#define AMP_THREADS amp_fake_threads
#define AMP_BARRIER() amp_fake_barrier(true)
#define AMP_LANES 32
#define AMP_WARP_BARRIER() amp_fake_barrier(false)
#define AMP_FROM_LANE(value, mask) ((decltype(value))amp_fake_from_lane(value, mask))
#else
#define AMP_SHARED_BYTES(name, bytes) alignas(32) char name[bytes]
#define AMP_THREAD 0
#define AMP_THREADS 1
#define AMP_BARRIER() (void)0
#define AMP_LANES 1
#define AMP_WARP_BARRIER() (void)0
#define AMP_FROM_LANE(value, mask) ((void)(mask), (value))
#endif
using std::isinf;
using std::isnan;
using std::signbit;
#endif

enum { AMP_BLOCK_THREADS = 256 }; /* the most that a launch asks for */

/* Elements lie at multiples of their size, complex ones too: pools, DLPack and views see to it. So one is moved at
 * once. */
struct alignas(16) sixteen_bytes {
    uint64_t halves[2];
};

/* ---- 16-bit floats as bits --------------------------------------------------------------------------------------- */
AMP_DEVICE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
AMP_DEVICE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

AMP_DEVICE float from_bf16(uint16_t h) {
    return float_of((uint32_t)h << 16);
}

/* To nearest even, one or two side by side. NaN becomes the GPU's, 0x7fff; on the host it keeps its sign and upper
 * payload, and becomes quiet. */
#ifdef __CUDACC__
AMP_DEVICE uint16_t to_bf16(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
AMP_DEVICE uint32_t to_bf16_pair(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
AMP_DEVICE float from_f16(uint16_t h) {
    return __half2float(__ushort_as_half(h));
}
AMP_DEVICE uint16_t to_f16(float x) {
    return __half_as_ushort(__float2half_rn(x));
}
AMP_DEVICE uint32_t to_f16_pair(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    uint32_t bits;
    memcpy(&bits, &pair, sizeof bits);
    return bits;
}
#else
AMP_DEVICE uint16_t to_bf16(float x) {
    const uint32_t u = bits_of(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
AMP_DEVICE uint32_t to_bf16_pair(float low, float high) {
    return to_bf16(low) | (uint32_t)to_bf16(high) << 16;
}
AMP_DEVICE float from_f16(uint16_t h) {
    return amp_f32_from_f16(h);
}
AMP_DEVICE uint16_t to_f16(float x) {
    return amp_f16_from_f32(x);
}
AMP_DEVICE uint32_t to_f16_pair(float low, float high) {
    return to_f16(low) | (uint32_t)to_f16(high) << 16;
}
#endif

/* f64 to f32 so that rounding once more, to 16 bits, gives what rounding once would have given: to odd. */
AMP_DEVICE float to_odd(double x) {
    float f = (float)x;
    uint32_t u = bits_of(f);
    if ((double)f == x || x != x) return f;
    const double low = f < 0 ? -(double)f : (double)f, high = x < 0 ? -x : x;
    if (low > high) u--; /* towards zero */
    return float_of(u | 1u);
}

/* ---- Elements of any dtype in the types that are computed in ----------------------------------------------------- */
struct complex128 {
    double re, im;
};

AMP_DEVICE int64_t whole_of(double x) { /* towards zero; what does not fit is the smallest, as on the CPU */
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

template <class T>
AMP_DEVICE T from_double(double x) {
    return (T)x;
}
template <>
AMP_DEVICE int64_t from_double<int64_t>(double x) {
    return whole_of(x);
}
template <>
AMP_DEVICE complex128 from_double<complex128>(double x) {
    return {x, 0.0};
}
template <class T>
AMP_DEVICE T from_float(float x) {
    return from_double<T>(x);
}
template <>
AMP_DEVICE float from_float<float>(float x) {
    return x;
}
template <class T>
AMP_DEVICE T from_whole(int64_t x) {
    return (T)x;
}
template <>
AMP_DEVICE complex128 from_whole<complex128>(int64_t x) {
    return {(double)x, 0.0};
}
template <class T>
AMP_DEVICE T from_complex(double re, double) {
    return from_double<T>(re);
}
template <>
AMP_DEVICE complex128 from_complex<complex128>(double re, double im) {
    return {re, im};
}

template <class T>
AMP_DEVICE T load(const void *data, amp_dtype dtype, int64_t i) {
    switch (dtype) {
    case AMP_F32: return from_float<T>(((const float *)data)[i]);
    case AMP_F16: return from_float<T>(from_f16(((const uint16_t *)data)[i]));
    case AMP_BF16: return from_float<T>(from_bf16(((const uint16_t *)data)[i]));
    case AMP_F64: return from_double<T>(((const double *)data)[i]);
    case AMP_I64: return from_whole<T>(((const int64_t *)data)[i]);
    case AMP_I32: return from_whole<T>(((const int32_t *)data)[i]);
    case AMP_I16: return from_whole<T>(((const int16_t *)data)[i]);
    case AMP_I8: return from_whole<T>(((const int8_t *)data)[i]);
    case AMP_U8: return from_whole<T>(((const uint8_t *)data)[i]);
    case AMP_BOOL: return from_whole<T>(((const uint8_t *)data)[i] != 0);
    case AMP_C64: return from_complex<T>(((const float *)data)[2 * i], ((const float *)data)[2 * i + 1]);
    case AMP_C128: return from_complex<T>(((const double *)data)[2 * i], ((const double *)data)[2 * i + 1]);
    default: return from_whole<T>(0);
    }
}

AMP_DEVICE float narrow(float x) {
    return x;
}
AMP_DEVICE float narrow(double x) {
    return to_odd(x);
}
AMP_DEVICE float narrow(int64_t x) {
    return to_odd((double)x);
}
AMP_DEVICE float narrow(complex128 x) {
    return to_odd(x.re);
}
AMP_DEVICE double real_part(float x) {
    return x;
}
AMP_DEVICE double real_part(double x) {
    return x;
}
AMP_DEVICE double real_part(int64_t x) {
    return (double)x;
}
AMP_DEVICE double real_part(complex128 x) {
    return x.re;
}
AMP_DEVICE int64_t to_whole(int64_t x) {
    return x;
}
template <class T>
AMP_DEVICE int64_t to_whole(T x) {
    return whole_of(real_part(x));
}
AMP_DEVICE int32_t to_i32(int64_t x) {
    return (int32_t)x;
}
template <class T>
AMP_DEVICE int32_t to_i32(T x) { /* as whole_of */
    const double y = real_part(x);
    return y > -2147483649.0 && y < 2147483648.0 ? (int32_t)y : INT32_MIN;
}
template <class T>
AMP_DEVICE double imaginary_part(T) {
    return 0.0;
}
AMP_DEVICE double imaginary_part(complex128 x) {
    return x.im;
}
template <class T>
AMP_DEVICE bool is_true(T x) {
    return x != (T)0;
}
AMP_DEVICE bool is_true(complex128 x) {
    return x.re != 0.0 || x.im != 0.0;
}
AMP_DEVICE float single(int64_t x) {
    return (float)x;
}
template <class T>
AMP_DEVICE float single(T x) {
    return (float)real_part(x);
}

template <class T>
AMP_DEVICE void store(void *data, amp_dtype dtype, int64_t i, T x) {
    switch (dtype) {
    case AMP_F32: ((float *)data)[i] = single(x); break;
    case AMP_F16: ((uint16_t *)data)[i] = to_f16(narrow(x)); break;
    case AMP_BF16: ((uint16_t *)data)[i] = to_bf16(narrow(x)); break;
    case AMP_F64: ((double *)data)[i] = real_part(x); break;
    case AMP_I64: ((int64_t *)data)[i] = to_whole(x); break;
    case AMP_I32: ((int32_t *)data)[i] = to_i32(x); break;
    case AMP_I16: ((int16_t *)data)[i] = (int16_t)to_whole(x); break;
    case AMP_I8: ((int8_t *)data)[i] = (int8_t)to_whole(x); break;
    case AMP_U8: ((uint8_t *)data)[i] = (uint8_t)to_whole(x); break;
    case AMP_BOOL: ((uint8_t *)data)[i] = is_true(x); break;
    case AMP_C64:
        ((float *)data)[2 * i] = single(x);
        ((float *)data)[2 * i + 1] = (float)imaginary_part(x);
        break;
    case AMP_C128:
        ((double *)data)[2 * i] = real_part(x);
        ((double *)data)[2 * i + 1] = imaginary_part(x);
        break;
    default: break;
    }
}

/* ---- Arithmetic that integers do without overflow, and complex numbers too --------------------------------------- */
template <class T>
AMP_DEVICE T negative(T x) {
    return -x;
}
AMP_DEVICE int64_t negative(int64_t x) {
    return (int64_t)(0 - (uint64_t)x);
}
AMP_DEVICE complex128 negative(complex128 x) {
    return {-x.re, -x.im};
}
template <class T>
AMP_DEVICE T plus(T x, T y) {
    return x + y;
}
AMP_DEVICE int64_t plus(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x + (uint64_t)y);
}
AMP_DEVICE complex128 plus(complex128 x, complex128 y) {
    return {x.re + y.re, x.im + y.im};
}
template <class T>
AMP_DEVICE T multiply(T x, T y) {
    return x * y;
}
AMP_DEVICE int64_t multiply(int64_t x, int64_t y) {
    return (int64_t)((uint64_t)x * (uint64_t)y);
}
AMP_DEVICE complex128 multiply(complex128 x, complex128 y) {
    return {x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re};
}
/* −0 becomes 0. */
template <class T>
AMP_DEVICE T magnitude(T x) {
    return x < 0 ? negative(x) : x == 0 ? (T)0 : x;
}
AMP_DEVICE complex128 magnitude(complex128 x) {
    return {hypot(x.re, x.im), 0.0};
}
template <class T>
AMP_DEVICE T conjugated(T x) {
    return x;
}
AMP_DEVICE complex128 conjugated(complex128 x) {
    return {x.re, -x.im};
}

/* ---- Element types that a kernel is compiled for: as they are in memory, and as they are computed with ----------- */
template <float from(uint16_t), uint16_t to(float)>
struct half_elements {
    typedef uint16_t stored;
    typedef float wide;
    AMP_DEVICE_MEMBER static float widen(uint16_t x) {
        return from(x);
    }
    AMP_DEVICE_MEMBER static uint16_t narrow(float x) {
        return to(x);
    }
};
typedef half_elements<from_f16, to_f16> f16_elements;
typedef half_elements<from_bf16, to_bf16> bf16_elements;
template <class T>
struct plain_elements {
    typedef T stored;
    typedef T wide;
    AMP_DEVICE_MEMBER static T widen(T x) {
        return x;
    }
    AMP_DEVICE_MEMBER static T narrow(T x) {
        return x;
    }
};

/* What a thread reads at a time. */
template <class Element>
struct alignas(16) pack {
    Element e[16 / sizeof(Element)];
};

/* n / d.extent of a number below 2³¹, and of any from 0 up. */
AMP_DEVICE uint32_t divided(uint32_t n, const amp_cuda_divisor &d) {
#ifdef __CUDACC__
    return (__umulhi(n, d.multiplier) + n) >> d.shift;
#else
    return ((uint32_t)((uint64_t)n * d.multiplier >> 32) + n) >> d.shift;
#endif
}
AMP_DEVICE int64_t divided(int64_t n, const amp_cuda_divisor &d) {
    return n > INT32_MAX ? n / d.extent : (int64_t)divided((uint32_t)n, d);
}
/* Splits the last digit, of base d.extent, off a number. */
template <class T>
AMP_DEVICE T digit_of(T *rest, const amp_cuda_divisor &d) {
    const T next = divided(*rest, d), digit = *rest - next * (T)d.extent;
    *rest = next;
    return digit;
}

/* Where element i of a row-major shape lies. */
AMP_DEVICE int64_t place(int64_t i, int rank, const int64_t *shape, const int64_t *strides) {
    int64_t at = 0;
    for (int d = rank - 1; d >= 0; d--) {
        at += i % shape[d] * strides[d];
        i /= shape[d];
    }
    return at;
}

/* This thread's first element and the step to its next, of a grid-strided loop. */
AMP_DEVICE int64_t first_element() {
    return AMP_BLOCK * AMP_THREADS + AMP_THREAD;
}
AMP_DEVICE int64_t element_step() {
    return AMP_BLOCKS * AMP_THREADS;
}

#endif /* AMP_CUDA_KERNEL_H */
