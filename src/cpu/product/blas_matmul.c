/* f64 and complex products through OpenBLAS, where it can walk the operands; else one loop nest, in the order i, j, k,
 * for each dtype. */
#include "cpu/product/blas_matmul.h"

#include <cblas.h>
#include <complex.h>
#include <limits.h>
#include <omp.h>

#include "core/fail.h"
#include "core/parallel.h"
#include "cpu/convert/element.h"
#include "machine/openblas_core.h"

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

/* ---- OpenBLAS ------------------------------------------------------------------------------------------------- */

enum {
    LEAST_MACS = 512, /* up to here a call costs more than the loops */
    PANEL = 128       /* rows of one call, whatever the number of threads: so no result depends on it */
};

/* A matrix as BLAS takes it, row-major. */
typedef struct blas_matrix {
    CBLAS_TRANSPOSE transposed;
    int ld;
} blas_matrix;

static bool as_blas(int64_t rows, int64_t columns, int64_t row, int64_t column, blas_matrix *m) {
    const bool plain = (column == 1 || columns == 1) && (row >= columns || rows == 1);
    if (!plain && !((row == 1 || rows == 1) && (column >= rows || columns == 1))) return false;
    const int64_t step = plain ? row : column, least = plain ? columns : rows;
    const int64_t ld = step > least ? step : least;
    *m = (blas_matrix){plain ? CblasNoTrans : CblasTrans, (int)ld};
    return ld <= INT_MAX;
}

/* What the product is added to, in C. The residual may be C itself. */
#define ADDENDS(name, type, factor, product)                                                                           \
    static void name(const amp_loops_matmul *p, int64_t begin, int64_t end) {                                          \
        const type *residual = p->residual, *bias = p->bias;                                                           \
        for (int64_t i = begin; i < end; i++) {                                                                        \
            for (int64_t j = 0; j < p->n; j++) {                                                                       \
                type s = 0;                                                                                            \
                if (residual) {                                                                                        \
                    const type r = residual[i * p->residual_row + j * p->residual_column];                             \
                    s = (type)product(factor(beta), r);                                                                \
                }                                                                                                      \
                ((type *)p->c)[i * p->c_row + j] = bias ? s + bias[j * p->bias_stride] : s;                            \
            }                                                                                                          \
        }                                                                                                              \
    }
ADDENDS(addends_f64, double, REAL_FACTOR, PLAIN_PRODUCT)
ADDENDS(addends_c64, float complex, COMPLEX_FACTOR, amp_complex_product)
ADDENDS(addends_c128, double complex, COMPLEX_FACTOR, amp_complex_product)

static void blas_panel(amp_dtype dtype, const amp_loops_matmul *p, const blas_matrix *a, const blas_matrix *b,
                       int64_t begin, int64_t end) {
    const int m = (int)(end - begin), n = (int)p->n, k = (int)p->k, ldc = (int)(p->c_row > n ? p->c_row : n);
    const bool adds = p->residual || p->bias;
    const size_t size = amp_dtype_size(dtype);
    const void *from = (const char *)p->a + (size_t)(begin * p->a_row) * size;
    void *to = (char *)p->c + (size_t)(begin * p->c_row) * size;
    if (adds) (dtype == AMP_F64 ? addends_f64 : dtype == AMP_C64 ? addends_c64 : addends_c128)(p, begin, end);
    if (dtype == AMP_F64) {
        cblas_dgemm(CblasRowMajor, a->transposed, b->transposed, m, n, k, p->alpha, from, a->ld, p->b, b->ld, adds, to,
                    ldc);
    } else if (dtype == AMP_C128) {
        const double complex alpha = __builtin_complex(p->alpha, p->alpha_imaginary), beta = adds;
        cblas_zgemm(CblasRowMajor, a->transposed, b->transposed, m, n, k, &alpha, from, a->ld, p->b, b->ld, &beta, to,
                    ldc);
    } else {
        const float complex alpha = __builtin_complex((float)p->alpha, (float)p->alpha_imaginary), beta = adds;
        cblas_cgemm(CblasRowMajor, a->transposed, b->transposed, m, n, k, &alpha, from, a->ld, p->b, b->ld, &beta, to,
                    ldc);
    }
}

/* BLAS does not look at A and B where alpha is 0, so that is the loops' too. */
static bool run_blas(amp_dtype dtype, const amp_loops_matmul *p) {
    blas_matrix a, b;
    if (dtype != AMP_F64 && dtype != AMP_C64 && dtype != AMP_C128) return false;
    if (p->k < 1 || p->m * p->n < 1 || (p->alpha == 0 && p->alpha_imaginary == 0)) return false;
    if (p->m > INT_MAX || p->n > INT_MAX || p->k > INT_MAX || p->c_row > INT_MAX) return false;
    if ((double)p->m * (double)p->n * (double)p->k < LEAST_MACS || (p->m > 1 && p->c_row < p->n)) return false;
    if (!as_blas(p->m, p->k, p->a_row, p->a_column, &a) || !as_blas(p->k, p->n, p->b_row, p->b_column, &b))
        return false;
    if (amp_blas_fault()) return false;
    const int64_t panels = (p->m + PANEL - 1) / PANEL;
    int threads = amp_parallel_threads(p->m * p->n / PANEL * p->k, AMP_GRAIN_MACS / PANEL);
    if (threads > panels) threads = (int)panels;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        omp_set_num_threads(1); /* this region's setting only: OpenBLAS asks for it */
#pragma omp for schedule(static)
        for (int64_t i = 0; i < panels; i++) {
            const int64_t end = (i + 1) * PANEL;
            blas_panel(dtype, p, &a, &b, i * PANEL, end < p->m ? end : p->m);
        }
    }
    return true;
}

amp_status amp_matmul_loops(const char *op, amp_dtype dtype, const amp_loops_matmul *problem, const char **kernel) {
    if (!loops[dtype]) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: %s has no matrix product on the cpu", op, amp_dtype_name(dtype));
    }
    const bool by_blas = run_blas(dtype, problem);
    if (!by_blas) loops[dtype](problem);
    *kernel = by_blas ? "openblas" : "loops";
    return AMP_OK;
}
