/* What the report is made of: a row for each routine, shape and way. */
#ifndef AMP_BLAS_REPORT_H
#define AMP_BLAS_REPORT_H

#include <stdio.h>

#include "blas/module/module.h"

typedef struct amp_blas_row {
    const char *routine, *way, *why; /* NULL routine: the row is free */
    amp_blas_shape shape;
    uint64_t calls, checked;
    double ours, original, saved; /* seconds; saved: of calls that were checked */
    amp_blas_errors errors;
} amp_blas_row;

/* Of rows sorted by time. */
void amp_blas_print_text(FILE *to, const amp_blas_row *rows, int count);
void amp_blas_print_json(FILE *to, const amp_blas_row *rows, int count);

#endif /* AMP_BLAS_REPORT_H */
