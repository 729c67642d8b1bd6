/* libamp_blas.so: stands before the BLAS of a program (LD_PRELOAD) and runs what is worth it in libamp. A function of
 * BLAS (fortran.inc, cblas.inc: one text for all names) makes an amp_blas_call of its arguments (arguments.c), enters
 * it (call.c), and where that says so calls the function that was there (replaced_library.c) and leaves it. */
#ifndef AMP_BLAS_MODULE_H
#define AMP_BLAS_MODULE_H

#include "blas/engine.h"

/* ---- Settings (settings.c): the environment, read once ----------------------------------------------------------- */
typedef struct amp_blas_settings {
    amp_blas_request request; /* AMP_BLAS_PRECISION, _ALL, _CACHE; threads */
    bool check;               /* AMP_BLAS_CHECK */
    bool json;                /* AMP_BLAS_JSON */
    const char *report;       /* AMP_BLAS_REPORT: a file, "-" for standard error; NULL: no report */
} amp_blas_settings;

const amp_blas_settings *amp_blas_settings_get(void);

/* ---- The function that was there (replaced_library.c) ------------------------------------------------------------ */
typedef enum amp_blas_sort { AMP_BLAS_UNKNOWN, AMP_BLAS_LOOPS, AMP_BLAS_KERNELS } amp_blas_sort;

typedef struct amp_blas_symbol {
    const char *name;         /* "sgemm_" */
    const char *routine;      /* "sgemm" */
    _Atomic(void *) original; /* once it is known */
    _Atomic(amp_blas_sort) sort;
} amp_blas_symbol;

/* Looks it up as the loader would have for `caller`, an address in who calls: in the scope of the program, then in that
 * of the caller, which may have been opened with RTLD_LOCAL, then in all that is loaded. Where there is none, it says
 * so and ends the process, as the loader does. */
void *amp_blas_original(amp_blas_symbol *symbol, const void *caller);

/* Whether the library that was there is plain loops, as reference BLAS is. Its names and its size tell. */
bool amp_blas_is_over_loops(amp_blas_symbol *symbol, const void *caller);

/* libamp's engine, opened at the first use; NULL, with the reason. */
const amp_blas_engine *amp_blas_engine_get(const char **why);

/* ---- A call ------------------------------------------------------------------------------------------------------ */
/* As the caller wrote it. */
typedef struct amp_blas_shape {
    char flags[6]; /* "NT": transposes; "LU", "UN": side, triangle, … */
    int64_t m, n, k;
    bool rows; /* row-major */
} amp_blas_shape;

typedef struct amp_blas_call {
    amp_blas_symbol *symbol;
    amp_blas_shape shape;
    int64_t count;                   /* of products; 0: invalid, or nothing to multiply */
    amp_blas_product one, *products; /* &one, or memory of the call's */
    int64_t room;                    /* of a batch: products that it has memory for */
    amp_blas_outcome outcome;
    double began, seconds; /* ours */
    float *before, *ours;  /* with a check: C before and after, products behind each other */
} amp_blas_call;

typedef enum amp_blas_order { AMP_BLAS_COLUMNS, AMP_BLAS_ROWS } amp_blas_order;

/* Arguments as BLAS has them (arguments.c). What reference BLAS would refuse, and what it would return from at once,
 * makes no product: the original sees to it. */
void amp_blas_gemm(amp_blas_call *call, amp_blas_order order, char transa, char transb, int64_t m, int64_t n, int64_t k,
                   float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc);
void amp_blas_gemv(amp_blas_call *call, amp_blas_order order, char trans, int64_t m, int64_t n, float alpha,
                   const float *a, int64_t lda, const float *x, int64_t incx, float beta, float *y, int64_t incy);
void amp_blas_syrk(amp_blas_call *call, amp_blas_order order, char uplo, char trans, int64_t n, int64_t k, float alpha,
                   const float *a, int64_t lda, float beta, float *c, int64_t ldc);
void amp_blas_symm(amp_blas_call *call, amp_blas_order order, char side, char uplo, int64_t m, int64_t n, float alpha,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void amp_blas_trmm(amp_blas_call *call, amp_blas_order order, char side, char uplo, char transa, char diag, int64_t m,
                   int64_t n, float alpha, const float *a, int64_t lda, float *b, int64_t ldb);
/* An empty batch of at most `count` products; add them with amp_blas_batch_add, from a call of one product each. */
void amp_blas_batch(amp_blas_call *call, int64_t count);
void amp_blas_batch_add(amp_blas_call *batch, const amp_blas_call *one);

/* Constants of CBLAS as Fortran's letters; '?' for what is none. */
char amp_blas_trans_letter(int value);
char amp_blas_uplo_letter(int value);
char amp_blas_side_letter(int value);
char amp_blas_diag_letter(int value);
/* False where it is no order: nothing is to be made of the call. */
bool amp_blas_order_of(int value, amp_blas_order *order);

/* Runs the call, or does not; true: the original is to be called, and amp_blas_leave afterwards (call.c). Then
 * symbol->original is known. */
bool amp_blas_enter(amp_blas_call *call, amp_blas_symbol *symbol, const void *caller);
void amp_blas_leave(amp_blas_call *call);

double amp_blas_now(void); /* seconds, of the clock on the wall: for the report alone */

/* ---- The check (check.c) ----------------------------------------------------------------------------------------- */
typedef struct amp_blas_errors {
    double ours, original; /* the largest |error| / (|alpha| |A| |B| + |beta C|), against f64 */
} amp_blas_errors;

/* Keeps C as it is; false: no memory. */
bool amp_blas_check_begin(amp_blas_call *call);
/* Keeps our C, and puts back what was there. */
void amp_blas_check_swap(amp_blas_call *call);
/* Compares both, and puts ours back. */
amp_blas_errors amp_blas_check_end(amp_blas_call *call);
void amp_blas_check_drop(amp_blas_call *call);

/* ---- The report (report.c) --------------------------------------------------------------------------------------- */
/* errors: NULL: not checked. `original`: seconds of the function that was there; 0: it was not called. */
void amp_blas_count(const amp_blas_call *call, double original, const amp_blas_errors *errors);

#endif /* AMP_BLAS_MODULE_H */
