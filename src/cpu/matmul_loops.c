/* One loop nest, in the order i, j, k, for each dtype. */
#include "cpu/matmul_loops.h"

#include <complex.h>

#include "core/fail.h"
#include "core/parallel.h"
#include "cpu/element.h"

/* What alpha and beta are, and how the accumulator's type multiplies. */
#define REAL_FACTOR(name) p->name
#define WHOLE_FACTOR(name) (int64_t) p->name
#define COMPLEX_FACTOR(name) __builtin_complex(p->name, p->name##_imaginary)
#define PLAIN_PRODUCT(x, y) ((x) * (y))

/* `sum` is the type of the accumulator. */
#define LOOPS(name, type, sum, factor, product)                                                                        \
    static void name(const amp_loops_matmul *p) {                                                                      \
        const type *a = p->a, *b = p->b, *residual = p->residual, *bias = p->bias;                                     \
        type *c = p->c;                                                                                                \
        const int threads = amp_parallel_threads(p->m * p->n * p->k, AMP_GRAIN_MACS);                                  \
        _Pragma("omp parallel for num_threads(threads) if (threads > 1)") for (int64_t i = 0; i < p->m; i++) {         \
            for (int64_t j = 0; j < p->n; j++) {                                                                       \
                sum s = 0;                                                                                             \
                for (int64_t k = 0; k < p->k; k++) {                                                                   \
                    s += product((sum)a[i * p->a_row + k * p->a_column], (sum)b[k * p->b_row + j * p->b_column]);      \
                }                                                                                                      \
                s *= factor(alpha);                                                                                    \
                if (residual) s += factor(beta) * (sum)residual[i * p->residual_row + j * p->residual_column];         \
                if (bias) s += (sum)bias[j * p->bias_stride];                                                          \
                c[i * p->c_row + j] = (type)s;                                                                         \
            }                                                                                                          \
        }                                                                                                              \
    }

LOOPS(loops_f32, float, double, REAL_FACTOR, PLAIN_PRODUCT)
LOOPS(loops_f64, double, double, REAL_FACTOR, PLAIN_PRODUCT)
LOOPS(loops_c64, float complex, double complex, COMPLEX_FACTOR, amp_complex_product)
LOOPS(loops_c128, double complex, double complex, COMPLEX_FACTOR, amp_complex_product)
LOOPS(loops_i64, int64_t, uint64_t, WHOLE_FACTOR, PLAIN_PRODUCT)
LOOPS(loops_i32, int32_t, uint32_t, WHOLE_FACTOR, PLAIN_PRODUCT)
LOOPS(loops_i16, int16_t, uint32_t, WHOLE_FACTOR, PLAIN_PRODUCT)
LOOPS(loops_i8, int8_t, uint32_t, WHOLE_FACTOR, PLAIN_PRODUCT)
LOOPS(loops_u8, uint8_t, uint32_t, WHOLE_FACTOR, PLAIN_PRODUCT)

static void (*const loops[AMP_DTYPE_COUNT])(const amp_loops_matmul *) = {
    [AMP_F32] = loops_f32, [AMP_F64] = loops_f64, [AMP_C64] = loops_c64, [AMP_C128] = loops_c128, [AMP_I64] = loops_i64,
    [AMP_I32] = loops_i32, [AMP_I16] = loops_i16, [AMP_I8] = loops_i8,   [AMP_U8] = loops_u8,
};

amp_status amp_matmul_loops(const char *op, amp_dtype dtype, const amp_loops_matmul *problem) {
    if (!loops[dtype]) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: %s has no matrix product on the cpu", op, amp_dtype_name(dtype));
    }
    loops[dtype](problem);
    return AMP_OK;
}
