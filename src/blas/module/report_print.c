/* The report as text, and as a line of JSON. */
#define _GNU_SOURCE /* program_invocation_short_name */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "blas/module/report.h"

static const char *const precisions[] = {"f32", "bf16x3", "bf16x2", "bf16"};

static const char *precision(void) {
    return precisions[amp_blas_settings_get()->request.precision];
}

/* What it ran by, or why not. */
static const char *reason(const amp_blas_row *row) {
    const char *why = NULL;
    const amp_blas_engine *engine = row->way ? amp_blas_engine_get(&why) : NULL;
    const char *kernel = engine ? engine->kernel(row->way) : NULL;
    return row->why ? row->why : kernel ? kernel : "";
}

typedef struct totals {
    uint64_t calls, taken, checked;
    double ours, original, saved;
} totals;

/* original: of the calls that were not taken. */
static totals totals_of(const amp_blas_row *rows, int count) {
    totals t = {0};
    for (int i = 0; i < count; i++) {
        t.calls += rows[i].calls;
        t.taken += rows[i].way ? rows[i].calls : 0;
        t.checked += rows[i].checked;
        t.ours += rows[i].ours;
        t.original += rows[i].way ? 0 : rows[i].original;
        t.saved += rows[i].saved;
    }
    return t;
}

static void print_row(FILE *to, const amp_blas_row *r, bool checked) {
    char shape[80] = "other shapes";
    if (r->shape.m)
        snprintf(shape, sizeof shape, "%s%s %" PRId64 " x %" PRId64 " x %" PRId64, r->shape.flags,
                 r->shape.rows ? " rows" : "", r->shape.m, r->shape.n, r->shape.k);
    fprintf(to, "%-12s %-30s %8" PRIu64 " %11.3f  %-10s", r->routine, shape, r->calls,
            1e3 * (r->way ? r->ours : r->original), r->way ? r->way : "library");
    if (checked && r->checked)
        fprintf(to, " %10.1e %10.1e %11.3f", r->errors.ours, r->errors.original, 1e3 * r->original);
    else if (checked)
        fprintf(to, " %10s %10s %11s", "", "", "");
    fprintf(to, "  %s\n", reason(r));
}

void amp_blas_print_text(FILE *to, const amp_blas_row *rows, int count) {
    const totals t = totals_of(rows, count);
    const bool checked = amp_blas_settings_get()->check;
    fprintf(to, "amp blas: %s (process %d), precision %s: %" PRIu64 " calls, of which libamp ran %" PRIu64 "\n",
            program_invocation_short_name, (int)getpid(), precision(), t.calls, t.taken);
    fprintf(to, "%-12s %-30s %8s %11s  %-10s", "routine", "op M x N x K", "calls", "ms", "ran in");
    if (checked) fprintf(to, " %10s %10s %11s", "error", "library's", "its ms");
    fprintf(to, "  by, or why\n");
    for (int i = 0; i < count; i++) print_row(to, &rows[i], checked);
    fprintf(to, "in libamp %.3f s, in the library %.3f s", t.ours, t.original);
    if (t.checked)
        fprintf(to, "; %" PRIu64 " calls were checked: the library took %.3f s for them, %.3f s were %s", t.checked,
                t.ours + t.saved, t.saved < 0 ? -t.saved : t.saved, t.saved < 0 ? "lost" : "saved");
    fputc('\n', to);
}

/* Names of programs may have anything in them. */
static void print_string(FILE *to, const char *text) {
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c < 0x20 || *c == '"' || *c == '\\')
            fprintf(to, "\\u%04x", *c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

/* JSON has no NaN and no infinity: an error that is one is null. */
static void print_number(FILE *to, const char *name, double value) {
    if (value - value == 0)
        fprintf(to, ", \"%s\": %.9g", name, value);
    else
        fprintf(to, ", \"%s\": null", name);
}

static void print_json_row(FILE *to, const amp_blas_row *r) {
    fprintf(to, "{\"routine\": \"%s\", \"op\": ", r->routine);
    print_string(to, r->shape.flags);
    fprintf(to, ", \"order\": \"%s\", \"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64 ", \"calls\": %" PRIu64,
            r->shape.rows ? "rows" : "columns", r->shape.m, r->shape.n, r->shape.k, r->calls);
    fprintf(to, ", \"ran_in\": \"%s\", \"%s\": ", r->way ? r->way : "library", r->way ? "kernel" : "why");
    print_string(to, reason(r));
    print_number(to, "seconds", r->way ? r->ours : r->original);
    if (r->checked) {
        print_number(to, "error", r->errors.ours);
        print_number(to, "library_error", r->errors.original);
        print_number(to, "library_seconds", r->original);
    }
    fputc('}', to);
}

void amp_blas_print_json(FILE *to, const amp_blas_row *rows, int count) {
    const totals t = totals_of(rows, count);
    fputs("{\"program\": ", to);
    print_string(to, program_invocation_short_name);
    fprintf(to, ", \"process\": %d, \"precision\": \"%s\", \"calls\": %" PRIu64 ", \"taken\": %" PRIu64, (int)getpid(),
            precision(), t.calls, t.taken);
    print_number(to, "seconds_libamp", t.ours);
    print_number(to, "seconds_library", t.original);
    if (t.checked) print_number(to, "seconds_saved", t.saved);
    fputs(", \"shapes\": [", to);
    for (int i = 0; i < count; i++) {
        if (i) fputs(", ", to);
        print_json_row(to, &rows[i]);
    }
    fputs("]}\n", to);
}
