/* Twelve types, 144 pairs: each source is widened exactly, each target narrowed from there. The 16-bit floats, where
 * speed counts, have kernels of their own. */
#include "cpu/convert/convert_any.h"

#include <emmintrin.h>
#include <string.h>

#include "core/fail.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

typedef double f64 __attribute__((aligned(1), may_alias));
typedef amp_f32_unaligned f32;
typedef amp_u16_unaligned u16;
typedef int64_t i64 __attribute__((aligned(1), may_alias));
typedef int32_t i32 __attribute__((aligned(1), may_alias));
typedef int16_t i16 __attribute__((aligned(1), may_alias));
typedef int8_t i8 __attribute__((may_alias));
typedef uint8_t u8 __attribute__((may_alias));
typedef struct c64 {
    float re, im;
} __attribute__((packed, may_alias)) c64;
typedef struct c128 {
    double re, im;
} __attribute__((packed, may_alias)) c128;

/* ---- Elements ------------------------------------------------------------------------------------------------- */

/* C leaves the conversion of what does not fit undefined; these are the answers of x86's instructions. */
static inline int64_t i64_from_f64(double x) {
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static inline int32_t i32_from_f64(double x) {
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

static inline c64 c64_from(double re, double im) {
    return (c64){(float)re, (float)im};
}

static inline c64 c64_from_i64(int64_t re) {
    return (c64){(float)re, 0};
}

/* ---- Arrays --------------------------------------------------------------------------------------------------- */

/* The loops differ in their types and one expression of x, an element. */
#define LOOP(function, dst_type, src_type, expression)                                                                 \
    static void function(void *dst, const void *src, int64_t n) {                                                      \
        dst_type *y = dst;                                                                                             \
        const src_type *p = src;                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const src_type x = p[i];                                                                                   \
            y[i] = (expression);                                                                                       \
        }                                                                                                              \
    }

LOOP(widen_f64, f64, f64, x)
LOOP(widen_f32, f64, f32, x)
LOOP(widen_f16, f64, u16, amp_f32_from_f16(x))
LOOP(widen_bf16, f64, u16, amp_f32_from_bf16(x))
LOOP(widen_i64, i64, i64, x)
LOOP(widen_i32, i64, i32, x)
LOOP(widen_i16, i64, i16, x)
LOOP(widen_i8, i64, i8, (i64)x)
LOOP(widen_u8, i64, u8, x)
LOOP(widen_bool, i64, u8, x != 0)
LOOP(widen_c64, c128, c64, ((c128){x.re, x.im}))
LOOP(widen_c128, c128, c128, x)

LOOP(f64_to_f32, f32, f64, (float)x)
LOOP(f64_to_f16, u16, f64, amp_f16_from_f32(amp_f32_odd_from_f64(x)))
LOOP(f64_to_bf16, u16, f64, amp_bf16_from_f32(amp_f32_odd_from_f64(x)))
LOOP(f64_to_i64, i64, f64, i64_from_f64(x))
LOOP(f64_to_i32, i32, f64, i32_from_f64(x))
LOOP(f64_to_i16, i16, f64, (int16_t)i64_from_f64(x))
LOOP(f64_to_i8, i8, f64, (int8_t)i64_from_f64(x))
LOOP(f64_to_u8, u8, f64, (uint8_t)i64_from_f64(x))
LOOP(f64_to_bool, u8, f64, x != 0)
LOOP(f64_to_c64, c64, f64, c64_from(x, 0))
LOOP(f64_to_c128, c128, f64, ((c128){x, 0}))

LOOP(i64_to_f64, f64, i64, (double)x)
LOOP(i64_to_f32, f32, i64, (float)x)
LOOP(i64_to_f16, u16, i64, amp_f16_from_f32(amp_f32_odd_from_i64(x)))
LOOP(i64_to_bf16, u16, i64, amp_bf16_from_f32(amp_f32_odd_from_i64(x)))
LOOP(i64_to_i32, i32, i64, (int32_t)x)
LOOP(i64_to_i16, i16, i64, (int16_t)x)
LOOP(i64_to_i8, i8, i64, (int8_t)x)
LOOP(i64_to_u8, u8, i64, (uint8_t)x)
LOOP(i64_to_bool, u8, i64, x != 0)
LOOP(i64_to_c64, c64, i64, c64_from_i64(x))
LOOP(i64_to_c128, c128, i64, ((c128){(double)x, 0}))

LOOP(c128_to_f64, f64, c128, x.re)
LOOP(c128_to_f32, f32, c128, (float)x.re)
LOOP(c128_to_f16, u16, c128, amp_f16_from_f32(amp_f32_odd_from_f64(x.re)))
LOOP(c128_to_bf16, u16, c128, amp_bf16_from_f32(amp_f32_odd_from_f64(x.re)))
LOOP(c128_to_i64, i64, c128, i64_from_f64(x.re))
LOOP(c128_to_i32, i32, c128, i32_from_f64(x.re))
LOOP(c128_to_i16, i16, c128, (int16_t)i64_from_f64(x.re))
LOOP(c128_to_i8, i8, c128, (int8_t)i64_from_f64(x.re))
LOOP(c128_to_u8, u8, c128, (uint8_t)i64_from_f64(x.re))
LOOP(c128_to_bool, u8, c128, x.re != 0 || x.im != 0)
LOOP(c128_to_c64, c64, c128, c64_from(x.re, x.im))

typedef enum wide_type { THROUGH_F64, THROUGH_I64, THROUGH_C128, WIDE_TYPES } wide_type;

/* `narrow` where a target is the wide type itself: the widening loop, which copies. */
static const struct {
    wide_type through; /* as a source */
    amp_widen_function *widen;
    amp_narrow_function *narrow[WIDE_TYPES]; /* as a target */
} types[AMP_DTYPE_COUNT] = {
    [AMP_F64] = {THROUGH_F64, widen_f64, {widen_f64, i64_to_f64, c128_to_f64}},
    [AMP_F32] = {THROUGH_F64, widen_f32, {f64_to_f32, i64_to_f32, c128_to_f32}},
    [AMP_F16] = {THROUGH_F64, widen_f16, {f64_to_f16, i64_to_f16, c128_to_f16}},
    [AMP_BF16] = {THROUGH_F64, widen_bf16, {f64_to_bf16, i64_to_bf16, c128_to_bf16}},
    [AMP_I64] = {THROUGH_I64, widen_i64, {f64_to_i64, widen_i64, c128_to_i64}},
    [AMP_I32] = {THROUGH_I64, widen_i32, {f64_to_i32, i64_to_i32, c128_to_i32}},
    [AMP_I16] = {THROUGH_I64, widen_i16, {f64_to_i16, i64_to_i16, c128_to_i16}},
    [AMP_I8] = {THROUGH_I64, widen_i8, {f64_to_i8, i64_to_i8, c128_to_i8}},
    [AMP_U8] = {THROUGH_I64, widen_u8, {f64_to_u8, i64_to_u8, c128_to_u8}},
    [AMP_BOOL] = {THROUGH_I64, widen_bool, {f64_to_bool, i64_to_bool, c128_to_bool}},
    [AMP_C64] = {THROUGH_C128, widen_c64, {f64_to_c64, i64_to_c64, c128_to_c64}},
    [AMP_C128] = {THROUGH_C128, widen_c128, {f64_to_c128, i64_to_c128, widen_c128}},
};

/* ---- Pairs ---------------------------------------------------------------------------------------------------- */

static bool has_kernel(amp_dtype dtype) {
    return dtype == AMP_F32 || dtype == AMP_F16 || dtype == AMP_BF16;
}

static amp_convert_function *find_loop(amp_dtype dst, amp_dtype src) {
    if (dst == AMP_F64 && types[src].through == THROUGH_F64) return types[src].widen;
    if (dst == AMP_I64 && types[src].through == THROUGH_I64) return types[src].widen;
    if (dst == AMP_C128 && types[src].through == THROUGH_C128) return types[src].widen;
    if (src == AMP_F64) return types[dst].narrow[THROUGH_F64];
    if (src == AMP_I64) return types[dst].narrow[THROUGH_I64];
    if (src == AMP_C128) return types[dst].narrow[THROUGH_C128];
    return NULL;
}

amp_status amp_conversion_find(amp_dtype dst, amp_dtype src, amp_conversion *conversion) {
    *conversion = (amp_conversion){.dst_size = amp_dtype_size(dst), .src_size = amp_dtype_size(src)};
    if (!conversion->dst_size || !conversion->src_size)
        return amp_fail(AMP_ERROR_DTYPE, "copy: no conversion from dtype %s to %s", amp_dtype_name(src),
                        amp_dtype_name(dst));
    if (dst == src) return AMP_OK;
    conversion->widen = types[src].widen;
    conversion->narrow = types[dst].narrow[types[src].through];
    if (has_kernel(dst) && has_kernel(src)) {
        conversion->direct = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, src, dst);
        return conversion->direct ? AMP_OK : amp_pending_error();
    }
    conversion->direct = find_loop(dst, src);
    return AMP_OK;
}

enum { BLOCK = 256 }; /* elements in a buffer */

void amp_conversion_run(const amp_conversion *c, void *dst, const void *src, int64_t n) {
    c128 wide[BLOCK];
    if (c->direct) {
        c->direct(dst, src, n);
    } else if (!c->widen) {
        if (n) memcpy(dst, src, (size_t)n * c->dst_size);
    } else {
        for (int64_t i = 0; i < n; i += BLOCK) {
            const int64_t m = n - i < BLOCK ? n - i : BLOCK;
            c->widen(wide, (const char *)src + i * (int64_t)c->src_size, m);
            c->narrow((char *)dst + i * (int64_t)c->dst_size, wide, m);
        }
    }
}

/* ---- Strides -------------------------------------------------------------------------------------------------- */

typedef uint64_t u64 __attribute__((aligned(1), may_alias));
typedef uint32_t u32 __attribute__((aligned(1), may_alias));

#define MOVE_EACH(type)                                                                                                \
    for (int64_t i = 0; i < n; i++) *(type *)(dst + i * dst_stride) = *(const type *)(src + i * src_stride)

/* One element n times: in runs that double up to a block, then block by block. */
static void repeat_element(char *dst, const char *src, size_t size, int64_t n) {
    const size_t bytes = (size_t)n * size, block = bytes < 4096 ? bytes : 4096;
    memcpy(dst, src, size);
    for (size_t done = size; done < block; done *= 2)
        memcpy(dst + done, dst, done < block - done ? done : block - done);
    for (size_t done = block; done < bytes; done += block)
        memcpy(dst + done, dst, block < bytes - done ? block : bytes - done);
}

/* 16 bytes with their elements in reverse. */
static inline __m128i reversed_u32(__m128i x) {
    return _mm_shuffle_epi32(x, 0x1b);
}
static inline __m128i reversed_u16(__m128i x) {
    return _mm_shuffle_epi32(_mm_shufflehi_epi16(_mm_shufflelo_epi16(x, 0x1b), 0x1b), 0x4e);
}

/* Elements whose order is reversed: src is the first of them, which lies last. */
#define REVERSE_LOOP(type)                                                                                             \
    static void reverse_##type(char *dst, const char *src, int64_t n) {                                                \
        enum { SIZE = sizeof(type), LANES = 16 / SIZE };                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 * LANES <= n; i += 4 * LANES) {                                                                   \
            __m128i x[4];                                                                                              \
            AMP_UNROLL                                                                                                 \
            for (int k = 0; k < 4; k++) {                                                                              \
                x[k] = _mm_loadu_si128((const void *)(src - SIZE * (i + (k + 1) * LANES - 1)));                        \
            }                                                                                                          \
            AMP_UNROLL                                                                                                 \
            for (int k = 0; k < 4; k++) {                                                                              \
                _mm_storeu_si128((void *)(dst + SIZE * (i + k * LANES)), reversed_##type(x[k]));                       \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < n; i++) *(type *)(dst + SIZE * i) = *(const type *)(src - SIZE * i);                                \
    }
REVERSE_LOOP(u16)
REVERSE_LOOP(u32)

static void move_strided(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t size, int64_t n) {
    if (src_stride == 0 && dst_stride == (int64_t)size && n > 0) {
        repeat_element(dst, src, size, n);
        return;
    }
    if ((size == 2 || size == 4) && dst_stride == (int64_t)size && src_stride == -dst_stride) {
        (size == 2 ? reverse_u16 : reverse_u32)(dst, src, n);
        return;
    }
    switch (size) {
    case 1: MOVE_EACH(u8); break;
    case 2: MOVE_EACH(u16); break;
    case 4: MOVE_EACH(u32); break;
    case 8: MOVE_EACH(u64); break;
    default: MOVE_EACH(c128); break;
    }
}

/* What is not dense is gathered into a buffer, and scattered from one. */
static void run_blocks(const amp_conversion *c, char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                       int64_t n) {
    const int64_t dst_size = (int64_t)c->dst_size, src_size = (int64_t)c->src_size;
    char gathered[sizeof(c128) * BLOCK], converted[sizeof(c128) * BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        const char *from = src + i * src_stride;
        char *to = dst + i * dst_stride;
        if (src_stride != src_size) {
            move_strided(gathered, src_size, from, src_stride, c->src_size, m);
            from = gathered;
        }
        amp_conversion_run(c, dst_stride == dst_size ? to : converted, from, m);
        if (dst_stride != dst_size) move_strided(to, dst_stride, converted, dst_size, c->dst_size, m);
    }
}

void amp_conversion_run_strided(const amp_conversion *c, void *dst, int64_t dst_stride, const void *src,
                                int64_t src_stride, int64_t n) {
    if (dst_stride == (int64_t)c->dst_size && src_stride == (int64_t)c->src_size)
        amp_conversion_run(c, dst, src, n);
    else if (!c->direct && !c->widen)
        move_strided(dst, dst_stride, src, src_stride, c->dst_size, n);
    else
        run_blocks(c, dst, dst_stride, src, src_stride, n);
}
