/* --check: both results of a call, and how far each is from f64. Up to so many elements of C, evenly spread over it, are
 * computed in f64 from the operands; what an error is divided by is |alpha| |A| |B| + |beta| |C|, element by
 * element. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blas/module/module.h"

enum { MOST_ELEMENTS = 1024 };

static size_t elements_of(const amp_blas_call *call) {
    size_t all = 0;
    for (int64_t i = 0; i < call->count; i++) all += (size_t)(call->products[i].m * call->products[i].n);
    return all;
}

/* C of all products, to or from memory where they are dense, one behind the other. */
static void copy_c(const amp_blas_call *call, float *memory, bool back) {
    for (int64_t i = 0; i < call->count; i++) {
        const amp_blas_product *p = &call->products[i];
        for (int64_t r = 0; r < p->m; r++, memory += p->n) {
            float *row = p->c + r * p->c_row;
            memcpy(back ? row : memory, back ? memory : row, (size_t)p->n * sizeof *row);
        }
    }
}

bool amp_blas_check_begin(amp_blas_call *call) {
    const size_t bytes = elements_of(call) * sizeof(float);
    call->before = malloc(bytes);
    call->ours = malloc(bytes);
    if (call->before && call->ours) {
        copy_c(call, call->before, false);
        return true;
    }
    amp_blas_check_drop(call);
    call->outcome.why = "there was no memory to check it";
    return false;
}

void amp_blas_check_swap(amp_blas_call *call) {
    copy_c(call, call->ours, false);
    copy_c(call, call->before, true);
}

void amp_blas_check_drop(amp_blas_call *call) {
    free(call->before);
    free(call->ours);
    call->before = call->ours = NULL;
}

/* The operand as a whole matrix; where it is C's memory, what that held before. */
static double element(const amp_blas_operand *x, const amp_blas_product *p, const float *before, int64_t i, int64_t j) {
    const bool stored = i == j || (j > i) == x->upper;
    if (x->form != AMP_BLAS_WHOLE && i == j && x->unit) return 1;
    if (x->form == AMP_BLAS_TRIANGULAR && !stored) return 0;
    const bool mirrored = x->form == AMP_BLAS_SYMMETRIC && !stored;
    const int64_t at = mirrored ? j * x->row + i * x->column : i * x->row + j * x->column;
    return x->data == p->c ? before[at / p->c_row * p->n + at % p->c_row] : x->data[at];
}

typedef struct exact {
    double value, magnitude;
} exact;

static exact exact_of(const amp_blas_product *p, const float *before, int64_t i, int64_t j) {
    exact e = {0, 0};
    for (int64_t k = 0; k < p->k; k++) {
        const double product = element(&p->a, p, before, i, k) * element(&p->b, p, before, k, j);
        e.value += product;
        e.magnitude += fabs(product);
    }
    e.value *= p->alpha;
    e.magnitude *= fabs((double)p->alpha);
    if (p->beta == 0) return e;
    const double c = (double)p->beta * before[i * p->n + j];
    return (exact){e.value + c, e.magnitude + fabs(c)};
}

/* Where f64 is not finite either, nothing is wrong with not being finite. */
static void take(double *largest, double value, exact e) {
    const double error = fabs(value - e.value) / (e.magnitude > 0 ? e.magnitude : 1);
    if (isfinite(e.value) && !(error <= *largest)) *largest = error;
}

static void compare(const amp_blas_product *p, const float *before, const float *ours, amp_blas_errors *errors) {
    const int64_t all = p->m * p->n, step = all <= MOST_ELEMENTS ? 1 : (all / MOST_ELEMENTS) | 1;
    for (int64_t at = 0; at < all; at += step) {
        const int64_t i = at / p->n, j = at % p->n;
        if ((p->part == AMP_BLAS_LOWER && j > i) || (p->part == AMP_BLAS_UPPER && j < i)) continue;
        const exact e = exact_of(p, before, i, j);
        take(&errors->ours, ours[at], e);
        take(&errors->original, p->c[i * p->c_row + j], e);
    }
}

amp_blas_errors amp_blas_check_end(amp_blas_call *call) {
    amp_blas_errors errors = {0, 0};
    size_t at = 0;
    for (int64_t i = 0; i < call->count; i++) {
        const amp_blas_product *p = &call->products[i];
        compare(p, call->before + at, call->ours + at, &errors);
        at += (size_t)(p->m * p->n);
    }
    copy_c(call, call->ours, true);
    return errors;
}
