/* Self-tests of the GEMM family: a kernel proves itself on this machine before it is used. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/gemm/gemm_isa.h"
#include "cpu/registry/convert.h"

/* Small sizes with tails in every direction, in few enough products that no kernel starts threads. */
enum { MAX_M = 64, MAX_N = 67, MAX_K = 67 };

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}
static float random_value(uint32_t *state) {
    return (float)(int32_t)(next_random(state) & 0x3fff) / 8192.0f - 1.0f;
}

typedef struct test_data {
    float a[(MAX_M + 2) * MAX_K], b[MAX_N * MAX_K], bias[MAX_N], got[MAX_M * (MAX_N + 1)], want[MAX_M * (MAX_N + 1)];
    uint16_t packed[3 * 3 * AMP_GEMM_BLOCK_VALUES] __attribute__((aligned(64)));
    float packed_f32[3 * 3 * AMP_GEMM_BLOCK_VALUES] __attribute__((aligned(64)));
} test_data;

static void fill(test_data *d) {
    uint32_t state = 12345;
    for (size_t i = 0; i < sizeof d->a / sizeof *d->a; i++) d->a[i] = random_value(&state);
    for (size_t i = 0; i < sizeof d->b / sizeof *d->b; i++) d->b[i] = random_value(&state);
    for (size_t i = 0; i < sizeof d->bias / sizeof *d->bias; i++) d->bias[i] = random_value(&state);
}

static void pack_with_reference(test_data *d, int n, int k) {
    for (int panel = 0; panel * 32 < n; panel++) {
        for (int block = 0; block * 32 < k; block++) {
            const int columns = n - panel * 32 < 32 ? n - panel * 32 : 32,
                      ks = k - block * 32 < 32 ? k - block * 32 : 32;
            amp_gemm_pack_bf16_ref(d->packed + (panel * ((k + 31) / 32) + block) * AMP_GEMM_BLOCK_VALUES,
                                   d->b + panel * 32 * k + block * 32, AMP_F32, columns, ks, k, 1);
        }
    }
}

/* The rows of A before and after, and what follows its last row, are NaN: none may come through. */
static bool gemm_agrees(test_data *d, const amp_kernel *kernel, const amp_kernel *reference, int m, int n, int k,
                        char *message, size_t size) {
    float *a = d->a + k, *after = a + m * k;
    uint32_t state = 4321u + (uint32_t)m;
    for (int i = 0; i < k; i++) d->a[i] = after[i] = NAN;
    for (size_t i = 0; i < sizeof d->got / sizeof *d->got; i++) d->got[i] = d->want[i] = 7.0f;
    if (kernel->in == AMP_F32)
        amp_gemm_f32_pack(d->packed_f32, d->b, n, k, k, 1);
    else
        pack_with_reference(d, n, k);
    amp_gemm g = {.m = m,
                  .n = n,
                  .k = k,
                  .batch = 1,
                  .a = a,
                  .a_dtype = AMP_F32,
                  .a_row_stride = k,
                  .a_column_stride = 1,
                  .b = kernel->in == AMP_F32 ? (const void *)d->packed_f32 : d->packed,
                  .c = d->got,
                  .c_dtype = AMP_F32,
                  .c_row_stride = n + 1,
                  .alpha = 1.0f,
                  .bias = d->bias,
                  .bias_dtype = AMP_F32};
    if (((amp_gemm_function *)kernel->function)(&g) != AMP_OK) {
        snprintf(message, size, "it reported failure on %d×%d×%d", m, n, k);
        return false;
    }
    g.c = d->want;
    ((amp_gemm_function *)reference->function)(&g);
    for (int i = 0; i < m * (n + 1); i++) {
        /* both are within k · 2⁻²⁴ · Σ|a b| ≤ k² · 2⁻²⁴ of the exact sum */
        if (fabsf(d->got[i] - d->want[i]) <= 2.0f * (float)(k * k + 1) * 0x1p-24f) continue;
        snprintf(message, size, "%d×%d×%d: element [%d, %d] is %g, the reference says %g", m, n, k, i / (n + 1),
                 i % (n + 1), (double)d->got[i], (double)d->want[i]);
        return false;
    }
    for (int i = 0; i < k; i++) d->a[i] = after[i] = random_value(&state);
    return true;
}

bool amp_gemm_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const int sizes[][3] = {{1, 1, 1},    {1, 67, 67},  {2, 33, 31},  {3, 31, 33}, {4, 64, 2},
                                   {5, 32, 32},  {13, 40, 3},  {14, 34, 64}, {15, 66, 5}, {16, 31, 67},
                                   {17, 33, 34}, {35, 67, 65}, {64, 34, 33}};
    test_data data;
    fill(&data);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (!gemm_agrees(&data, kernel, reference, sizes[i][0], sizes[i][1], sizes[i][2], message, size)) return false;
    }
    return true;
}

static bool pack_agrees(test_data *d, const amp_kernel *kernel, const amp_kernel *reference, amp_dtype dtype,
                        int columns, int ks, bool along_k, char *message, size_t size) {
    uint16_t *got = d->packed, *want = d->packed + AMP_GEMM_BLOCK_VALUES;
    const int64_t stride_n = along_k ? 35 : 1, stride_k = along_k ? 1 : 35;
    memset(d->packed, 0xff, 2 * AMP_GEMM_BLOCK_VALUES * sizeof(uint16_t));
    ((amp_gemm_pack_function *)kernel->function)(got, d->b, dtype, columns, ks, stride_n, stride_k);
    ((amp_gemm_pack_function *)reference->function)(want, d->b, dtype, columns, ks, stride_n, stride_k);
    if (!memcmp(got, want, AMP_GEMM_BLOCK_VALUES * sizeof(uint16_t))) return true;
    snprintf(message, size, "a block of %d×%d %s values differs from the reference", columns, ks,
             amp_dtype_name(dtype));
    return false;
}

bool amp_gemm_pack_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size) {
    static const int sizes[][2] = {{32, 32}, {31, 32}, {32, 31}, {1, 1}, {17, 2}};
    static const amp_dtype dtypes[] = {AMP_F32, AMP_BF16, AMP_F16};
    test_data data;
    uint32_t state = 777;
    for (size_t i = 0; i < sizeof data.b / sizeof *data.b; i++) { /* any bits: NaN, denormals and infinities too */
        const uint32_t bits = next_random(&state) << 16 ^ next_random(&state);
        data.b[i] = amp_f32_bits(bits);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int j = 0; j < 6; j++) {
            if (!pack_agrees(&data, kernel, reference, dtypes[j / 2], sizes[i][0], sizes[i][1], j % 2, message, size))
                return false;
        }
    }
    return true;
}
