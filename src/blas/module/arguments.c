/* Arguments of BLAS as products of rows. A matrix in columns is its transpose in rows, so C = A·B in columns is the
 * product Cᵀ = Bᵀ·Aᵀ in rows; what is called with rows is first turned into the call with columns that has the same
 * memory. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "blas/module/module.h"

/* ---- Letters ----------------------------------------------------------------------------------------------------- */

static const struct {
    int value;
    char letter;
} letters[] = {{111, 'N'}, {112, 'T'}, {113, 'C'}, {121, 'U'}, {122, 'L'},
               {131, 'N'}, {132, 'U'}, {141, 'L'}, {142, 'R'}};

static char letter_of(int value, int first, int last) {
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].value == value && first <= value && value <= last) return letters[i].letter;
    return '?';
}

char amp_blas_trans_letter(int value) {
    return letter_of(value, 111, 113);
}

char amp_blas_uplo_letter(int value) {
    return letter_of(value, 121, 122);
}

char amp_blas_diag_letter(int value) {
    return letter_of(value, 131, 132);
}

char amp_blas_side_letter(int value) {
    return letter_of(value, 141, 142);
}

bool amp_blas_order_of(int value, amp_blas_order *order) {
    *order = value == 101 ? AMP_BLAS_ROWS : AMP_BLAS_COLUMNS;
    return value == 101 || value == 102;
}

static char upper(char letter) {
    return (char)toupper((unsigned char)letter);
}

static bool is_one_of(char letter, const char *choices) {
    return letter && strchr(choices, letter);
}

/* The other of two letters; what is neither stays. */
static char flip(char letter, char one, char other) {
    return letter == one ? other : letter == other ? one : letter;
}

/* Without conjugates 'C' is 'T'. */
static bool is_transposed(char trans) {
    return trans != 'N';
}

static char flip_trans(char trans) {
    return is_one_of(trans, "NTC") ? (is_transposed(trans) ? 'N' : 'T') : trans;
}

/* ---- Matrices ---------------------------------------------------------------------------------------------------- */

/* op(X) of a matrix in columns. */
static amp_blas_operand view(const float *data, int64_t ld, char trans) {
    const bool t = is_transposed(trans);
    return (amp_blas_operand){.data = data, .row = t ? ld : 1, .column = t ? 1 : ld};
}

static amp_blas_operand transposed(amp_blas_operand x) {
    amp_blas_operand t = x;
    t.row = x.column;
    t.column = x.row;
    t.upper = !x.upper;
    return t;
}

static bool fits(int64_t ld, int64_t rows) {
    return ld >= (rows > 1 ? rows : 1);
}

static void begin(amp_blas_call *call, amp_blas_order order, const char *flags, int64_t m, int64_t n, int64_t k) {
    memset(call, 0, sizeof *call);
    for (size_t i = 0; flags[i]; i++) call->shape.flags[i] = flags[i] == '\0' ? '?' : upper(flags[i]);
    call->shape.m = m;
    call->shape.n = n;
    call->shape.k = k;
    call->shape.rows = order == AMP_BLAS_ROWS;
    call->products = &call->one;
}

/* C (m × n, in columns) = alpha · x (m × k) · y (k × n) + beta · C. */
static void multiply(amp_blas_call *call, int64_t m, int64_t n, int64_t k, float alpha, amp_blas_operand x,
                     amp_blas_operand y, float beta, float *c, int64_t ldc) {
    if (m <= 0 || n <= 0 || k <= 0 || alpha == 0) return;
    call->one = (amp_blas_product){.m = n,
                                   .n = m,
                                   .k = k,
                                   .alpha = alpha,
                                   .beta = beta,
                                   .a = transposed(y),
                                   .b = transposed(x),
                                   .c = c,
                                   .c_row = ldc};
    call->count = 1;
}

/* ---- Routines ---------------------------------------------------------------------------------------------------- */

static void gemm(amp_blas_call *call, char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha,
                 const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    if (!is_one_of(transa, "NTC") || !is_one_of(transb, "NTC")) return;
    if (!fits(lda, is_transposed(transa) ? k : m) || !fits(ldb, is_transposed(transb) ? n : k) || !fits(ldc, m)) return;
    multiply(call, m, n, k, alpha, view(a, lda, transa), view(b, ldb, transb), beta, c, ldc);
}

void amp_blas_gemm(amp_blas_call *call, amp_blas_order order, char transa, char transb, int64_t m, int64_t n, int64_t k,
                   float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc) {
    const char ta = upper(transa), tb = upper(transb), flags[] = {ta, tb, '\0'};
    begin(call, order, flags, m, n, k);
    if (order == AMP_BLAS_ROWS)
        gemm(call, tb, ta, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);
    else
        gemm(call, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void gemv(amp_blas_call *call, char trans, int64_t m, int64_t n, float alpha, const float *a, int64_t lda,
                 const float *x, int64_t incx, float beta, float *y, int64_t incy) {
    const bool t = is_transposed(trans);
    if (!is_one_of(trans, "NTC") || !fits(lda, m) || incx <= 0 || incy <= 0) return;
    const int64_t rows = t ? n : m, k = t ? m : n;
    multiply(call, 1, rows, k, alpha, (amp_blas_operand){.data = x, .row = 1, .column = incx},
             transposed(view(a, lda, trans)), beta, y, incy);
}

void amp_blas_gemv(amp_blas_call *call, amp_blas_order order, char trans, int64_t m, int64_t n, float alpha,
                   const float *a, int64_t lda, const float *x, int64_t incx, float beta, float *y, int64_t incy) {
    const char t = upper(trans), flags[] = {t, '\0'};
    begin(call, order, flags, m, n, 1);
    if (order == AMP_BLAS_ROWS)
        gemv(call, flip_trans(t), n, m, alpha, a, lda, x, incx, beta, y, incy);
    else
        gemv(call, t, m, n, alpha, a, lda, x, incx, beta, y, incy);
}

static void syrk(amp_blas_call *call, char uplo, char trans, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, float beta, float *c, int64_t ldc) {
    if (!is_one_of(uplo, "UL") || !is_one_of(trans, "NTC")) return;
    if (!fits(lda, is_transposed(trans) ? k : n) || !fits(ldc, n)) return;
    const amp_blas_operand x = view(a, lda, trans);
    multiply(call, n, n, k, alpha, x, transposed(x), beta, c, ldc);
    call->one.part = uplo == 'U' ? AMP_BLAS_LOWER : AMP_BLAS_UPPER; /* of C in rows */
}

void amp_blas_syrk(amp_blas_call *call, amp_blas_order order, char uplo, char trans, int64_t n, int64_t k, float alpha,
                   const float *a, int64_t lda, float beta, float *c, int64_t ldc) {
    const char u = upper(uplo), t = upper(trans), flags[] = {u, t, '\0'};
    const bool rows = order == AMP_BLAS_ROWS;
    begin(call, order, flags, n, n, k);
    syrk(call, rows ? flip(u, 'U', 'L') : u, rows ? flip_trans(t) : t, n, k, alpha, a, lda, beta, c, ldc);
}

static void symm(amp_blas_call *call, char side, char uplo, int64_t m, int64_t n, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    const int64_t k = side == 'L' ? m : n;
    if (!is_one_of(side, "LR") || !is_one_of(uplo, "UL") || !fits(lda, k) || !fits(ldb, m) || !fits(ldc, m)) return;
    amp_blas_operand x = view(a, lda, 'N');
    x.form = AMP_BLAS_SYMMETRIC;
    x.upper = uplo == 'U';
    const amp_blas_operand y = view(b, ldb, 'N');
    multiply(call, m, n, k, alpha, side == 'L' ? x : y, side == 'L' ? y : x, beta, c, ldc);
}

void amp_blas_symm(amp_blas_call *call, amp_blas_order order, char side, char uplo, int64_t m, int64_t n, float alpha,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    const char s = upper(side), u = upper(uplo), flags[] = {s, u, '\0'};
    begin(call, order, flags, m, n, s == 'L' ? m : n);
    if (order == AMP_BLAS_ROWS)
        symm(call, flip(s, 'L', 'R'), flip(u, 'U', 'L'), n, m, alpha, a, lda, b, ldb, beta, c, ldc);
    else
        symm(call, s, u, m, n, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void trmm(amp_blas_call *call, char side, char uplo, char transa, char diag, int64_t m, int64_t n, float alpha,
                 const float *a, int64_t lda, float *b, int64_t ldb) {
    const int64_t k = side == 'L' ? m : n;
    if (!is_one_of(side, "LR") || !is_one_of(uplo, "UL") || !is_one_of(transa, "NTC") || !is_one_of(diag, "NU")) return;
    if (!fits(lda, k) || !fits(ldb, m)) return;
    amp_blas_operand x = view(a, lda, transa);
    x.form = AMP_BLAS_TRIANGULAR;
    x.upper = (uplo == 'U') != is_transposed(transa);
    x.unit = diag == 'U';
    const amp_blas_operand y = view(b, ldb, 'N');
    multiply(call, m, n, k, alpha, side == 'L' ? x : y, side == 'L' ? y : x, 0.0f, b, ldb);
}

void amp_blas_trmm(amp_blas_call *call, amp_blas_order order, char side, char uplo, char transa, char diag, int64_t m,
                   int64_t n, float alpha, const float *a, int64_t lda, float *b, int64_t ldb) {
    const char s = upper(side), u = upper(uplo), t = upper(transa), d = upper(diag), flags[] = {s, u, t, d, '\0'};
    begin(call, order, flags, m, n, s == 'L' ? m : n);
    if (order == AMP_BLAS_ROWS)
        trmm(call, flip(s, 'L', 'R'), flip(u, 'U', 'L'), t, d, n, m, alpha, a, lda, b, ldb);
    else
        trmm(call, s, u, t, d, m, n, alpha, a, lda, b, ldb);
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

void amp_blas_batch(amp_blas_call *call, int64_t count) {
    begin(call, AMP_BLAS_COLUMNS, "", 0, 0, 0);
    call->products = count > 0 && count < INT32_MAX ? calloc((size_t)count, sizeof *call->products) : NULL;
    call->room = call->products ? count : 0;
}

/* One that cannot be taken sends all to the original. */
void amp_blas_batch_add(amp_blas_call *batch, const amp_blas_call *one) {
    if (!batch->products) return;
    if (one->count == 1 && batch->count < batch->room) {
        batch->shape = one->shape;
        batch->products[batch->count++] = one->one;
        return;
    }
    free(batch->products);
    batch->products = NULL;
    batch->count = 0;
}
