/* A program that knows nothing of libamp: calls BLAS in every way, and compares with the definitions, in f64. Run under
 * `amp blas` by tests/blas/check_blas.py.
 *
 *     call_blas routines PRECISION   every routine: orders, transposes, triangles, odd sizes, gaps behind rows, alpha and beta
 *     call_blas names PRECISION      every name, integers of 32 and 64 bits, batches
 *     call_blas hard PRECISION       exponents far apart, cancellation; NaN, infinities, tiny and huge numbers: as f32 has them
 *     call_blas stale PRECISION      one operand again and again, written to in between
 *     call_blas threads PRECISION    calls from several threads at a time
 *     call_blas fork PRECISION       a child calls, too
 *     call_blas invalid PRECISION    arguments that BLAS refuses go to the BLAS that was there
 *     call_blas again COUNT          one product again and again, as a program to look at
 *
 * Prints how many calls the BLAS that was there got: "calls 0". */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stand_in.h"

enum { ROWS = 101, COLUMNS = 102, GAP = 3, MOST = 300 * 300 };

static int failures;
static const char *precision;

static float random_value(void) {
    static _Thread_local uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (float)((int32_t)(state & 0xffffff) - 0x800000) * 0x1p-23f;
}

static void fill(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) x[i] = random_value();
}

static float *new_floats(size_t count) {
    float *x = malloc(count * sizeof *x);
    if (!x) exit(3);
    fill(x, count);
    return x;
}

/* ---- Definitions ------------------------------------------------------------------------------------------------- */

typedef enum form { PLAIN, SYMMETRIC, TRIANGULAR } form;

typedef struct matrix {
    const float *data;
    int64_t ld;
    int order;
    char trans, uplo, diag;
    form form;
} matrix;

static double stored(const matrix *x, int64_t i, int64_t j) {
    return x->order == ROWS ? x->data[i * x->ld + j] : x->data[j * x->ld + i];
}

static bool in_triangle(char uplo, int64_t i, int64_t j) {
    return uplo == 'U' ? i <= j : i >= j;
}

static double element(const matrix *x, int64_t i, int64_t j) {
    const int64_t r = x->trans == 'N' ? i : j, c = x->trans == 'N' ? j : i;
    if (x->form == SYMMETRIC) return in_triangle(x->uplo, i, j) ? stored(x, i, j) : stored(x, j, i);
    if (x->form == TRIANGULAR && r == c && x->diag == 'U') return 1;
    if (x->form == TRIANGULAR && !in_triangle(x->uplo, r, c)) return 0;
    return stored(x, r, c);
}

typedef struct product {
    matrix a, b;
    int64_t m, n, k, ldc;
    int order;
    float alpha, beta;
    const float *before, *after; /* C */
    char part;                   /* 'U', 'L': of a triangle; 'A' */
} product;

/* The bounds of docs/blas.md, of |alpha| |A| |B|. */
static double bound(int64_t k) {
    const double sum = (double)(k + 8) * 0x1p-24 * 1.07;
    if (strcmp(precision, "bf16") == 0) return 0x1.01p-7 + sum;
    if (strcmp(precision, "bf16x2") == 0) return 0x1.04p-15 + sum;
    return 0x1.04p-24 + sum;
}

static void fail(const char *what, int64_t i, int64_t j, double got, double wanted) {
    if (failures++ < 5) printf("%s: element %d, %d is %.9g, not %.9g\n", what, (int)i, (int)j, got, wanted);
}

static void check_element(const char *what, const product *p, int64_t i, int64_t j) {
    const int64_t at = p->order == ROWS ? i * p->ldc + j : j * p->ldc + i;
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < p->k && p->alpha != 0; k++) {
        const double x = element(&p->a, i, k) * element(&p->b, k, j);
        sum += x;
        magnitude += fabs(x);
    }
    const double c = p->beta == 0 ? 0 : (double)p->beta * p->before[at], wanted = p->alpha * sum + c;
    const double most = fabs((double)p->alpha) * magnitude;
    if (!(fabs(p->after[at] - wanted) <= bound(p->k) * most + 3 * 0x1p-24 * (most + fabs(c))))
        fail(what, i, j, p->after[at], wanted);
}

/* All of C, and that nothing else was written. */
static void check(const char *what, const product *p) {
    const int64_t lines = p->order == ROWS ? p->m : p->n, length = p->order == ROWS ? p->n : p->m;
    for (int64_t l = 0; l < lines; l++) {
        for (int64_t x = 0; x < p->ldc; x++) {
            const int64_t i = p->order == ROWS ? l : x, j = p->order == ROWS ? x : l, at = l * p->ldc + x;
            if (x < length && (p->part == 'A' || in_triangle(p->part, i, j)))
                check_element(what, p, i, j);
            else if (memcmp(&p->before[at], &p->after[at], sizeof(float)) != 0)
                fail(what, i, j, p->after[at], p->before[at]);
        }
    }
}

/* ---- Every routine ----------------------------------------------------------------------------------------------- */

static const struct {
    int64_t m, n, k;
} sizes[] = {{1, 1, 1}, {7, 5, 3}, {33, 65, 40}, {64, 64, 64}, {90, 70, 257}, {290, 40, 33}, {35, 290, 20}};
static const struct { float alpha, beta; } factors[] = {{1, 0}, {0.5f, -1.5f}, {-1, 1}, {0, 0.5f}};

enum { SIZES = sizeof sizes / sizeof *sizes, FACTORS = sizeof factors / sizeof *factors };

static const char both[] = "NT", triangles[] = "UL", sides[] = "LR", diagonals[] = "NU";

static int constant(char letter, const char *of) {
    static const struct {
        const char *of;
        char letter;
        int value;
    } all[] = {{both, 'N', 111},      {both, 'T', 112},      {triangles, 'U', 121}, {triangles, 'L', 122},
               {diagonals, 'N', 131}, {diagonals, 'U', 132}, {sides, 'L', 141},     {sides, 'R', 142}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].of == of && all[i].letter == letter) return all[i].value;
    exit(3);
}

/* A matrix with a gap behind its lines; a triangle has NaN where nobody may look. */
static matrix make(int64_t rows, int64_t columns, int order, char trans, float *data) {
    const int64_t r = trans == 'N' ? rows : columns, c = trans == 'N' ? columns : rows;
    fill(data, MOST + 400 * GAP);
    return (matrix){.data = data, .ld = (order == ROWS ? c : r) + GAP, .order = order, .trans = trans};
}

static matrix make_triangle(int64_t extent, int order, char trans, char uplo, char diag, form kind, float *data) {
    matrix x = make(extent, extent, order, trans, data);
    x.uplo = uplo;
    x.diag = diag;
    x.form = kind;
    for (int64_t i = 0; i < extent; i++)
        for (int64_t j = 0; j < extent; j++)
            if (!in_triangle(uplo, i, j) || (i == j && diag == 'U'))
                data[order == ROWS ? i * x.ld + j : j * x.ld + i] = NAN;
    return x;
}

static float *room[4];

/* C before and after a call; with beta = 0 what it held must not matter. */
static product begin(int64_t m, int64_t n, int64_t k, int order, int f) {
    product p = {.m = m,
                 .n = n,
                 .k = k,
                 .order = order,
                 .ldc = (order == ROWS ? n : m) + GAP,
                 .part = 'A',
                 .alpha = factors[f].alpha,
                 .beta = factors[f].beta,
                 .before = room[2],
                 .after = room[3]};
    fill(room[2], MOST + 400 * GAP);
    for (int64_t i = 0; i < m * n && p.beta == 0; i += 7) room[2][i] = NAN;
    memcpy(room[3], room[2], (MOST + 400 * GAP) * sizeof(float));
    return p;
}

static void test_gemm(int64_t m, int64_t n, int64_t k, int f, int order) {
    for (int t = 0; t < 4; t++) {
        const char ta = both[t & 1], tb = both[t >> 1];
        product p = begin(m, n, k, order, f);
        p.a = make(m, k, order, ta, room[0]);
        p.b = make(k, n, order, tb, room[1]);
        const int32_t m32 = (int32_t)m, n32 = (int32_t)n, k32 = (int32_t)k, lda = (int32_t)p.a.ld,
                      ldb = (int32_t)p.b.ld, ldc = (int32_t)p.ldc;
        if (order == COLUMNS)
            sgemm_(&ta, &tb, &m32, &n32, &k32, &p.alpha, room[0], &lda, room[1], &ldb, &p.beta, room[3], &ldc, 1, 1);
        else
            cblas_sgemm(order, constant(ta, both), constant(tb, both), m32, n32, k32, p.alpha, room[0], lda, room[1],
                        ldb, p.beta, room[3], ldc);
        check("sgemm", &p);
    }
}

static void test_gemv(int64_t m, int64_t n, int f, int order) {
    for (int t = 0; t < 2; t++) {
        const char ta = both[t];
        const int64_t rows = ta == 'N' ? m : n, k = ta == 'N' ? n : m;
        product p = begin(rows, 1, k, ROWS, f); /* y is a column with a gap behind each element */
        p.a = make(rows, k, order, ta, room[0]);
        p.b = make(k, 1, ROWS, 'N', room[1]);
        const int32_t m32 = (int32_t)m, n32 = (int32_t)n, lda = (int32_t)p.a.ld, x = (int32_t)p.b.ld,
                      y = (int32_t)p.ldc;
        if (order == COLUMNS)
            sgemv_(&ta, &m32, &n32, &p.alpha, room[0], &lda, room[1], &x, &p.beta, room[3], &y, 1);
        else
            cblas_sgemv(order, constant(ta, both), m32, n32, p.alpha, room[0], lda, room[1], x, p.beta, room[3], y);
        check("sgemv", &p);
    }
}

static void test_syrk(int64_t n, int64_t k, int f, int order) {
    for (int t = 0; t < 4; t++) {
        const char uplo = triangles[t & 1], trans = both[t >> 1];
        product p = begin(n, n, k, order, f);
        p.a = p.b = make(n, k, order, trans, room[0]);
        p.b.trans = trans == 'N' ? 'T' : 'N';
        p.part = uplo;
        const int32_t n32 = (int32_t)n, k32 = (int32_t)k, lda = (int32_t)p.a.ld, ldc = (int32_t)p.ldc;
        if (order == COLUMNS)
            ssyrk_(&uplo, &trans, &n32, &k32, &p.alpha, room[0], &lda, &p.beta, room[3], &ldc, 1, 1);
        else
            cblas_ssyrk(order, constant(uplo, triangles), constant(trans, both), n32, k32, p.alpha, room[0], lda,
                        p.beta, room[3], ldc);
        check("ssyrk", &p);
    }
}

static void test_symm(int64_t m, int64_t n, int f, int order) {
    for (int t = 0; t < 4; t++) {
        const char side = sides[t & 1], uplo = triangles[t >> 1];
        const int64_t k = side == 'L' ? m : n;
        product p = begin(m, n, k, order, f);
        const matrix x = make_triangle(k, order, 'N', uplo, 'N', SYMMETRIC, room[0]),
                     y = make(m, n, order, 'N', room[1]);
        p.a = side == 'L' ? x : y;
        p.b = side == 'L' ? y : x;
        const int32_t m32 = (int32_t)m, n32 = (int32_t)n, lda = (int32_t)x.ld, ldb = (int32_t)y.ld,
                      ldc = (int32_t)p.ldc;
        if (order == COLUMNS)
            ssymm_(&side, &uplo, &m32, &n32, &p.alpha, room[0], &lda, room[1], &ldb, &p.beta, room[3], &ldc, 1, 1);
        else
            cblas_ssymm(order, constant(side, sides), constant(uplo, triangles), m32, n32, p.alpha, room[0], lda,
                        room[1], ldb, p.beta, room[3], ldc);
        check("ssymm", &p);
    }
}

static void test_trmm(int64_t m, int64_t n, int f, int order) {
    for (int t = 0; t < 16; t++) {
        const char side = sides[t & 1], uplo = triangles[t >> 1 & 1], trans = both[t >> 2 & 1],
                   diag = diagonals[t >> 3];
        const int64_t k = side == 'L' ? m : n;
        product p = begin(m, n, k, order, f);
        fill(room[2], MOST + 400 * GAP); /* what B was is read */
        memcpy(room[3], room[2], (MOST + 400 * GAP) * sizeof(float));
        p.beta = 0;
        const matrix x = make_triangle(k, order, trans, uplo, diag, TRIANGULAR, room[0]);
        const matrix y = {.data = room[2], .ld = p.ldc, .order = order, .trans = 'N'};
        p.a = side == 'L' ? x : y;
        p.b = side == 'L' ? y : x;
        const int32_t m32 = (int32_t)m, n32 = (int32_t)n, lda = (int32_t)x.ld, ldb = (int32_t)p.ldc;
        if (order == COLUMNS)
            strmm_(&side, &uplo, &trans, &diag, &m32, &n32, &p.alpha, room[0], &lda, room[3], &ldb, 1, 1, 1, 1);
        else
            cblas_strmm(order, constant(side, sides), constant(uplo, triangles), constant(trans, both),
                        constant(diag, diagonals), m32, n32, p.alpha, room[0], lda, room[3], ldb);
        check("strmm", &p);
    }
}

static void test_routines(void) {
    for (int s = 0; s < SIZES; s++) {
        for (int f = s % 2; f < FACTORS; f += 2) {
            for (int order = ROWS; order <= COLUMNS; order++) {
                test_gemm(sizes[s].m, sizes[s].n, sizes[s].k, f, order);
                test_gemv(sizes[s].m, sizes[s].k, f, order);
                test_syrk(sizes[s].m, sizes[s].k, f, order);
                test_symm(sizes[s].m, sizes[s].n, f, order);
                test_trmm(sizes[s].m, sizes[s].n, f, order);
            }
        }
    }
}

/* ---- Every name -------------------------------------------------------------------------------------------------- */

enum { EXTENT = 64, BATCH = 3, AREA = EXTENT * EXTENT };

/* C = A·B with squares in columns, or rows; `batch`: matrices one behind the other. */
static void check_squares(const char *name, int order, const float *a, const float *b, const float *c, int batch) {
    for (int i = 0; i < batch; i++) {
        const product p = {.a = {.data = a + i * AREA, .ld = EXTENT, .order = order, .trans = 'N'},
                           .b = {.data = b + i * AREA, .ld = EXTENT, .order = order, .trans = 'N'},
                           .m = EXTENT,
                           .n = EXTENT,
                           .k = EXTENT,
                           .ldc = EXTENT,
                           .order = order,
                           .alpha = 1,
                           .before = c + i * AREA,
                           .after = c + i * AREA,
                           .part = 'A'};
        check(name, &p);
    }
}

static void test_names(void) {
    float *a = room[0], *b = room[1], *c = room[3];
    const float *as[BATCH], *bs[BATCH], one = 1, zero = 0, ones[2] = {1, 1}, zeros[2] = {0, 0};
    float *cs[BATCH];
    const int none[2] = {111, 111};
    for (int i = 0; i < BATCH; i++) {
        as[i] = a + i * AREA;
        bs[i] = b + i * AREA;
        cs[i] = c + i * AREA;
    }
    fill(a, BATCH * AREA);
    fill(b, BATCH * AREA);
/* clang-format off */
#define CLEAR() memset(c, 0xff, BATCH * AREA * sizeof *c)
#define TRY_FORTRAN(kind, I, before, after)                                                                            \
    {                                                                                                                  \
        const I n = EXTENT, area = AREA, batch = BATCH, groups = 2, ns[2] = {n, n}, sizes_of[2] = {1, 2};              \
        CLEAR(); before##sgemm##after("N", "n", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);                    \
        check_squares(#before "sgemm" #after, COLUMNS, a, b, c, 1);                                                    \
        CLEAR(); before##sgemm_batch_strided##after("N", "N", &n, &n, &n, &one, a, &n, &area, b, &n, &area, &zero, c, &n, \
                                                    &area, &batch);                                                    \
        check_squares(#before "sgemm_batch_strided" #after, COLUMNS, a, b, c, BATCH);                                  \
        CLEAR(); before##sgemm_batch##after("NN", "NN", ns, ns, ns, ones, as, ns, bs, ns, zeros, cs, ns, &groups, sizes_of); \
        check_squares(#before "sgemm_batch" #after, COLUMNS, a, b, c, BATCH);                                          \
        before##sgemv##after("N", &n, &n, &one, a, &n, b, (const I[]){1}, &zero, c, (const I[]){1}, 1);                 \
        before##ssyrk##after("U", "N", &n, &n, &one, a, &n, &zero, c, &n, 1, 1);                                        \
        before##ssymm##after("L", "U", &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);                                 \
        before##strmm##after("L", "U", "N", "N", &n, &n, &zero, a, &n, c, &n, 1, 1, 1, 1);                              \
    }
#define TRY_CBLAS(kind, I, before, after)                                                                              \
    {                                                                                                                  \
        const I n = EXTENT, ns[2] = {n, n}, sizes_of[2] = {1, 2};                                                      \
        CLEAR(); before##sgemm##after(ROWS, 111, 111, n, n, n, 1, a, n, b, n, 0, c, n);                                 \
        check_squares(#before "sgemm" #after, ROWS, a, b, c, 1);                                                       \
        CLEAR(); before##sgemm_batch_strided##after(ROWS, 111, 111, n, n, n, 1, a, n, AREA, b, n, AREA, 0, c, n, AREA, BATCH); \
        check_squares(#before "sgemm_batch_strided" #after, ROWS, a, b, c, BATCH);                                     \
        CLEAR(); before##sgemm_batch##after(COLUMNS, none, none, ns, ns, ns, ones, as, ns, bs, ns, zeros, cs, ns, 2, sizes_of); \
        check_squares(#before "sgemm_batch" #after, COLUMNS, a, b, c, BATCH);                                          \
        before##sgemv##after(ROWS, 111, n, n, 1, a, n, b, 1, 0, c, 1);                                                  \
        before##ssyrk##after(ROWS, 121, 111, n, n, 1, a, n, 0, c, n);                                                   \
        before##ssymm##after(ROWS, 141, 121, n, n, 1, a, n, b, n, 0, c, n);                                             \
        before##strmm##after(ROWS, 141, 121, 111, 131, n, n, 0, a, n, c, n);                                            \
    }
    /* clang-format on */
    FORTRAN_NAMES(TRY_FORTRAN)
    CBLAS_NAMES(TRY_CBLAS)
}

/* ---- Hard data --------------------------------------------------------------------------------------------------- */

enum { HARD = 96 };

static void multiply(const float *a, const float *b, float *c) {
    cblas_sgemm(ROWS, 111, 111, HARD, HARD, HARD, 1, a, HARD, b, HARD, 0, c, HARD);
}

static void check_hard(const char *what, const float *a, const float *b) {
    float *c = room[3];
    multiply(a, b, c);
    const product p = {.a = {.data = a, .ld = HARD, .order = ROWS, .trans = 'N'},
                       .b = {.data = b, .ld = HARD, .order = ROWS, .trans = 'N'},
                       .m = HARD,
                       .n = HARD,
                       .k = HARD,
                       .ldc = HARD,
                       .order = ROWS,
                       .alpha = 1,
                       .before = c,
                       .after = c,
                       .part = 'A'};
    check(what, &p);
}

/* One element is such that f32 has to compute it: the result is that of the BLAS that was there. */
static void check_same(const char *what, float special) {
    float *a = room[0], *b = room[1], *c = room[3];
    const long before = stand_in_calls;
    fill(a, HARD * HARD);
    fill(b, HARD * HARD);
    a[HARD * 3 + 5] = special;
    multiply(a, b, c);
    if (getenv("AMP_BLAS_ALL") && stand_in_calls != before + 1) fail(what, 3, 5, (double)special, 0);
    for (int i = 0; i < HARD * HARD; i++) {
        const bool row = i / HARD == 3;
        if (isinf(special) && row && !isinf(c[i])) fail(what, 3, i, c[i], (double)special);
        if (isnan(special) && row != !!isnan(c[i])) fail(what, 3, i, c[i], (double)special);
        if (!row && !isfinite(c[i])) fail(what, i / HARD, i % HARD, c[i], 0);
    }
}

static void test_hard(void) {
    float *a = room[0], *b = room[1];
    for (int i = 0; i < HARD * HARD; i++) {
        a[i] = ldexpf(random_value() < 0 ? -1.25f - random_value() / 8 : 1.25f + random_value() / 8,
                      (int)(35 * random_value()));
        b[i] = ldexpf(1.5f + random_value() / 4, (int)(35 * random_value()));
    }
    check_hard("wide exponents", a, b);
    fill(a, HARD * HARD);
    fill(b, HARD * HARD);
    for (int i = 0; i < HARD; i++) /* halves of a row cancel but for their last bits */
        for (int k = 0; k < HARD / 2; k++) {
            a[i * HARD + HARD / 2 + k] = -nextafterf(a[i * HARD + k], 2);
            for (int j = 0; j < HARD; j++) b[(HARD / 2 + k) * HARD + j] = b[k * HARD + j];
        }
    check_hard("cancellation", a, b);
    check_same("NaN", NAN);
    check_same("infinity", INFINITY);
    check_same("minus infinity", -INFINITY);
    check_same("largest", 0x1.fffffep127f);
    check_same("not normal", 0x1p-140f);
    check_same("tiny", 0x1p-120f);
}

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 40 };

static void test_stale(void) {
    float *a = room[0], *b = room[1];
    fill(a, HARD * HARD);
    fill(b, HARD * HARD);
    for (int round = 0; round < ROUNDS; round++) {
        check_hard("stale", a, b);
        if (round % 4 == 3) b[(round * 37) % (HARD * HARD)] += 0.5f; /* one element */
        if (round % 16 == 15) fill(b, HARD * HARD);
    }
}

static void *call_often(void *context) {
    const size_t area = HARD * HARD;
    float *a = new_floats(area), *b = new_floats(area), *c = new_floats(area), *first = new_floats(area);
    multiply(a, b, first);
    for (int i = 0; i < 200; i++) {
        multiply(a, b, c);
        if (memcmp(c, first, area * sizeof *c) != 0) *(int *)context = 1;
    }
    free(a);
    free(b);
    free(c);
    free(first);
    return NULL;
}

static void test_threads(void) {
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    int different[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, call_often, &different[i]) != 0) exit(3);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        if (different[i]) fail("threads", i, 0, 1, 0);
    }
}

static void test_fork(void) {
    fill(room[0], HARD * HARD);
    fill(room[1], HARD * HARD);
    check_hard("parent", room[0], room[1]);
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        check_hard("child", room[0], room[1]);
        exit(failures ? 1 : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) fail("fork", 0, 0, status, 0);
    check_hard("parent again", room[0], room[1]);
}

static void test_invalid(void) {
    const long before = stand_in_calls;
    const int32_t n = HARD, small = 3, less = -1;
    const float one = 1;
    float *a = room[0], *c = room[3];
    sgemm_("Q", "N", &n, &n, &n, &one, a, &n, a, &n, &one, c, &n, 1, 1);
    sgemm_("N", "N", &less, &n, &n, &one, a, &n, a, &n, &one, c, &n, 1, 1);
    sgemm_("N", "N", &n, &n, &n, &one, a, &small, a, &n, &one, c, &n, 1, 1);
    cblas_sgemm(99, 111, 111, n, n, n, 1, a, n, a, n, 0, c, n);
    cblas_ssyrk(ROWS, 7, 111, n, n, 1, a, n, 0, c, n);
    const int32_t two = 2, sizes[] = {-1, 2}, ns[] = {n, n};
    const float zeros[] = {0, 0}, ones[] = {1, 1}, *as[] = {a, a};
    float *cs[] = {c, c};
    sgemm_batch_("NN", "NN", ns, ns, ns, ones, as, ns, as, ns, zeros, cs, ns, &two, sizes);
    if (stand_in_calls != before + 6) fail("invalid", 0, 0, (double)(stand_in_calls - before), 6);
}

static void test_again(void) {
    const int count = atoi(precision);
    fill(room[0], HARD * HARD);
    fill(room[1], HARD * HARD);
    for (int i = 0; i < count; i++) multiply(room[0], room[1], room[3]);
}

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {{"routines", test_routines}, {"names", test_names}, {"hard", test_hard},       {"stale", test_stale},
             {"threads", test_threads},   {"fork", test_fork},   {"invalid", test_invalid}, {"again", test_again}};

__attribute__((visibility("default"))) int main(int argc, char **argv) {
    if (argc != 3) return 3;
    precision = argv[2];
    for (int i = 0; i < 4; i++) room[i] = new_floats(MOST + 400 * GAP);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (strcmp(argv[1], tests[i].name) == 0) tests[i].run();
    for (int i = 0; i < 4; i++) free(room[i]);
    printf("calls %ld\n%d failures\n", stand_in_calls, failures);
    return failures ? 1 : 0;
}
