/* amp run: tables, two columns from the left, two between columns. */
#define _GNU_SOURCE /* vasprintf */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "explain/table_text.h"
#include "run.h"

enum { INDENT = 2, GAP = 2 };

void run_cell(run_table *t, const char *format, ...) {
    char *cell = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&cell, format, args) < 0) cell = NULL;
    va_end(args);
    char **cells = cell ? realloc(t->cells, ((size_t)t->count + 1) * sizeof *cells) : NULL;
    if (!cells) {
        free(cell);
        t->failed = true;
        return;
    }
    run_clean(cell);
    t->cells = cells;
    t->cells[t->count++] = cell;
}

/* Whether a cell is the last of its row that is not empty. */
static bool is_last(const run_table *t, int cell) {
    for (int i = cell + 1; i % t->columns != 0; i++) {
        if (*t->cells[i]) return false;
    }
    return true;
}

/* Columns that a line takes up to and without column `end`; a column that is empty in all takes none. Texts that
 * nothing follows may reach into the columns behind theirs. */
static int measure(const run_table *t, int *widths, int end) {
    int length = 0;
    for (int c = 0; c < t->columns; c++) widths[c] = 0;
    for (int i = 0; i < t->count; i++) {
        const int column = i % t->columns, width = amp_text_width(t->cells[i]);
        const bool reaches = !t->right && column < t->columns - 1 && is_last(t, i);
        if (width > widths[column] && !reaches) widths[column] = width;
    }
    for (int c = 0; c < end; c++) length += widths[c] ? widths[c] + (length ? GAP : INDENT) : 0;
    return length;
}

static void print_row(const run_table *t, char **cells, const int *widths, int end) {
    int last = end - 1, gap = INDENT;
    while (last > 0 && !*cells[last]) last--;
    for (int c = 0; c <= last; c++) {
        const bool right = t->right && t->right[c];
        if (widths[c] == 0 && !*cells[c]) continue;
        printf("%*s", gap, "");
        amp_print_padded(stdout, cells[c], right || c < last ? widths[c] : 0, right);
        gap = GAP;
    }
    putchar('\n');
}

static void print_all(const run_table *t, int *widths) {
    const bool folds = measure(t, widths, t->columns) > run_width();
    const int end = t->columns - folds, below = folds ? measure(t, widths, end - 1) + GAP : 0;
    for (int i = 0; i + t->columns <= t->count; i += t->columns) {
        const char *last = t->cells[i + t->columns - 1];
        print_row(t, t->cells + i, widths, end);
        if (folds && *last) amp_print_wrapped(stdout, last, run_width(), below, below + GAP, false);
    }
}

int run_table_end(run_table *t) {
    int *widths = calloc((size_t)t->columns, sizeof *widths);
    const bool good = widths && !t->failed;
    if (good) print_all(t, widths);
    for (int i = 0; i < t->count; i++) free(t->cells[i]);
    free(t->cells);
    free(widths);
    *t = (run_table){0};
    return good ? AMP_EXIT_OK : run_no_memory();
}
