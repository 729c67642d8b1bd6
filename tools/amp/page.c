/* amp explain model.onnx: from the command line to the page. */
#define _GNU_SOURCE /* asprintf */
#include "page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "explain_model.h"

/* ---- Measuring --------------------------------------------------------------------------------------------------- */
static bool are_same(const page_step *a, const page_step *b) {
    if (strcmp(a->op, b->op) != 0 || a->place_count != b->place_count) return false;
    for (int i = 0; i < a->place_count; i++) {
        if (strcmp(a->places[i], b->places[i]) != 0) return false;
    }
    return true;
}

/* Both are in the order in which they run; bf16 has casts between, and what they let be fused may differ. */
static int find_pairs(page *p) {
    const page_steps *shown = &p->steps[RUN_BF16], *other = &p->steps[RUN_F32];
    p->pairs = calloc((size_t)shown->count + 1, sizeof *p->pairs);
    if (!p->pairs) return run_no_memory();
    for (int i = 0, next = 0; i < shown->count; i++) {
        int at = next;
        while (at < other->count && !are_same(&shown->items[i], &other->items[at])) at++;
        p->pairs[i] = at < other->count ? at : -1;
        if (at < other->count) next = at + 1;
    }
    return AMP_EXIT_OK;
}

static int compare(run_report *r) {
    const run_results *results = r->results;
    if (!results->outputs[RUN_F32] || !results->outputs[RUN_BF16]) return AMP_EXIT_OK;
    r->comparisons = calloc((size_t)r->model->output_count + 1, sizeof *r->comparisons);
    int code = r->comparisons ? AMP_EXIT_OK : run_no_memory();
    for (int i = 0; !code && i < r->model->output_count; i++)
        code = run_compare(&r->comparisons[i], results->outputs[RUN_F32][i], results->outputs[RUN_BF16][i]);
    return code;
}

static int collect(page *p) {
    const run_report *r = p->report;
    int code = AMP_EXIT_OK;
    for (int kind = 0; !code && kind < RUN_KINDS; kind++) {
        if (page_has(p, (run_kind)kind)) code = page_collect(&p->steps[kind], r, (run_kind)kind);
    }
    p->shown = page_has(p, RUN_BF16) ? RUN_BF16 : RUN_F32;
    if (!code && page_has(p, RUN_F32) && page_has(p, RUN_BF16)) code = find_pairs(p);
    if (!code) code = page_picture_make(&p->picture, &p->steps[p->shown], r);
    return code;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */
static int fail_writing(const char *path, const char *part) {
    const int error = errno;
    if (part) unlink(part);
    return run_fail(AMP_EXIT_USAGE, "cannot write '%s': %s", path, strerror(error));
}

static bool write_all(FILE *out, const char *text, size_t bytes) {
    const bool good = fwrite(text, 1, bytes, out) == bytes && fflush(out) == 0;
    return fclose(out) == 0 && good;
}

int page_save(const char *path, const char *text, size_t bytes) {
    char *part = NULL;
    if (asprintf(&part, "%s.part", path) < 0) return run_no_memory();
    FILE *out = fopen(part, "wbx");
    int code = AMP_EXIT_OK;
    if (!out) {
        code = fail_writing(path, NULL);
    } else if (!write_all(out, text, bytes) || rename(part, path) != 0) {
        code = fail_writing(path, part);
    }
    free(part);
    return code;
}

/* "model.html" beside nothing: in the folder where one stands. */
static char *path_of(const run_options *o) {
    const char *slash = strrchr(o->model, '/'), *name = slash ? slash + 1 : o->model, *end = strrchr(name, '.');
    const size_t length = end && end != name ? (size_t)(end - name) : strlen(name);
    char *path = NULL;
    if (o->output) return strdup(o->output);
    return asprintf(&path, "%.*s.html", (int)length, name) < 0 ? NULL : path;
}

static int save(const page *p) {
    char *text = NULL, *path = path_of(p->report->options);
    size_t size = 0;
    FILE *out = path ? open_memstream(&text, &size) : NULL;
    if (out) page_write(out, p);
    const bool good = out && fclose(out) == 0;
    int code = good ? page_save(path, text, size) : run_no_memory();
    if (!code) {
        char *line = NULL;
        if (asprintf(&line, "%s: %d steps, %.1f MB", path, p->steps[p->shown].count, (double)size / 1e6) < 0)
            line = NULL;
        code = run_print_paragraph(line, 0, 2);
    }
    free(text);
    free(path);
    return code;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */
static int explain(const run_options *o, run_results *results) {
    run_model m = {0};
    run_inputs in = {0};
    run_report r = {.options = o, .model = &m, .inputs = &in, .results = results};
    page p = {.report = &r};
    run_options third = *o;
    third.seconds = o->seconds / 3;
    int code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = run_inputs_make(&in, &m, o);
    if (!code) code = run_measure(results, &m, &in, &third);
    if (!code) code = compare(&r);
    if (!code) code = collect(&p);
    if (!code) code = save(&p);
    page_picture_free(&p.picture);
    free(p.pairs);
    for (int kind = 0; kind < RUN_KINDS; kind++) page_steps_free(&p.steps[kind]);
    free(r.comparisons);
    run_results_free(results, &m);
    run_inputs_free(&in);
    run_model_free(&m);
    return code;
}

/* Before anything is measured, what would be a pity to find out at the end. */
static int check_path(const run_options *o) {
    char *path = path_of(o), *part = NULL;
    int code = path && asprintf(&part, "%s.part", path) >= 0 ? AMP_EXIT_OK : run_no_memory();
    if (!code) {
        FILE *out = fopen(part, "wb");
        if (!out) code = fail_writing(path, NULL);
        if (out) fclose(out);
        if (out) unlink(part);
    }
    if (part) free(part);
    free(path);
    return code;
}

int explain_model(int argc, char **argv) {
    run_options o;
    run_results results = {0};
    int code = run_options_parse(argc, argv, EXPLAIN_COMMAND, &o);
    if (!code) code = check_path(&o);
    if (!code) code = run_cold(&o, results.times);
    if (!code) code = explain(&o, &results);
    run_options_free(&o);
    return code;
}
