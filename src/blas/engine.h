/* What libamp and its BLAS module, libamp_blas.so, know of each other: one table of functions. The module knows the
 * names, arguments and conventions of BLAS, and the library that a program calls; libamp computes products. The module
 * opens libamp when the first call is worth it, so a program without such calls never sees it. All functions may be
 * called from any thread. */
#ifndef AMP_BLAS_ENGINE_H
#define AMP_BLAS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "amp/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts up with every change of this file. */
enum { AMP_BLAS_ABI = 2 };

/* Products of fewer multiply-adds are never worth it (ways.c has the rules): the module need not ask. */
enum { AMP_BLAS_LEAST_WORK = 96 * 96 * 96 };

/* The error that a caller allows, least first: docs/blas.md has the bounds. */
typedef enum amp_blas_precision { AMP_BLAS_F32, AMP_BLAS_BF16X3, AMP_BLAS_BF16X2, AMP_BLAS_BF16 } amp_blas_precision;

/* What of an operand is stored. Of a triangle the other one is the same mirrored, or zero. */
typedef enum amp_blas_form { AMP_BLAS_WHOLE, AMP_BLAS_SYMMETRIC, AMP_BLAS_TRIANGULAR } amp_blas_form;

typedef struct amp_blas_operand {
    const float *data;   /* element (i, j) is data[i * row + j * column] */
    int64_t row, column; /* positive */
    amp_blas_form form;  /* other than whole: square, and … */
    bool upper, unit;    /* … the triangle with j ≥ i is stored; its diagonal is taken for ones, and not read */
} amp_blas_operand;

typedef enum amp_blas_part { AMP_BLAS_ALL, AMP_BLAS_LOWER, AMP_BLAS_UPPER } amp_blas_part;

/* C = alpha · A[M,K] · B[K,N] + beta · C; with beta = 0 C is not read. `c` may be the data of one operand, with its
 * strides, and of none else. */
typedef struct amp_blas_product {
    int64_t m, n, k; /* from 1 up */
    float alpha, beta;
    amp_blas_operand a, b;
    float *c; /* column stride 1 */
    int64_t c_row;
    amp_blas_part part; /* of a square C that is written, with the diagonal */
} amp_blas_product;

typedef struct amp_blas_request {
    amp_blas_precision precision;
    bool everything; /* in just this precision, even where that is slower */
    bool over_loops; /* the library that was there is plain loops, as reference BLAS is: none of those with kernels */
    int threads;     /* at most so many; 0: libamp's own number */
    size_t cache_bytes; /* of packed operands that come again; 0: none are kept */
} amp_blas_request;

typedef struct amp_blas_outcome {
    const char *way; /* what it ran in: static, "bf16x3" …; NULL: nothing was done, and … */
    const char *why; /* … the reason, a static sentence */
} amp_blas_outcome;

typedef struct amp_blas_engine {
    uint32_t abi;
    /* Runs all products, or touches nothing and says why. */
    void (*run)(const amp_blas_product *products, int64_t count, const amp_blas_request *request,
                amp_blas_outcome *outcome);
    /* "gemm_bf16_avx512bf16": what a way's products run by on this machine; NULL where there is no such way. */
    const char *(*kernel)(const char *way);
} amp_blas_engine;

/* What the module looks up in libamp. */
typedef const amp_blas_engine *amp_blas_engine_function(void);
AMP_API amp_blas_engine_function amp_blas_engine_table;
#define AMP_BLAS_ENGINE_ENTRY "amp_blas_engine_table"

#ifdef __cplusplus
}
#endif

#endif /* AMP_BLAS_ENGINE_H */
