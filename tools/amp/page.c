/* amp explain model.onnx: from the command line to the page. */
#define _GNU_SOURCE /* asprintf, mkostemp */
#include "page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    int code = page_collect(p->steps, r);
    p->shown = page_has(p, RUN_BF16) ? RUN_BF16 : RUN_F32;
    if (!code && page_has(p, RUN_F32) && page_has(p, RUN_BF16)) code = find_pairs(p);
    if (!code) code = page_values_find(&p->values, &p->steps[p->shown]);
    if (!code) code = page_picture_make(&p->picture, &p->steps[p->shown], &p->values, r);
    return code;
}

/* ---- The file ---------------------------------------------------------------------------------------------------- */
static int fail_writing(const char *path) {
    return run_fail(AMP_EXIT_USAGE, "cannot write '%s': %s", path, strerror(errno));
}

/* A pipe, a terminal, /dev/null: nothing to take the place of. */
static bool is_special(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

/* A new file beside it; returns its name, which is the caller's to free: "model.html.q3sVtX". NULL with an errno. */
static char *open_part(const char *path, int *file) {
    const mode_t hidden = umask(0);
    char *part = NULL;
    (void)umask(hidden);
    if (asprintf(&part, "%s.XXXXXX", path) < 0 || !part) return NULL;
    *file = mkostemp(part, O_CLOEXEC);
    if (*file >= 0) {
        (void)fchmod(*file, 0666 & ~hidden); /* as any other file */
        return part;
    }
    const int error = errno;
    free(part);
    errno = error;
    return NULL;
}

static bool write_all(int file, const char *text, size_t bytes) {
    while (bytes > 0) {
        const ssize_t written = write(file, text, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        text += written;
        bytes -= (size_t)written;
    }
    return true;
}

static int save_special(const char *path, const char *text, size_t bytes) {
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    const bool good = file >= 0 && write_all(file, text, bytes);
    const int code = good ? AMP_EXIT_OK : fail_writing(path);
    if (file >= 0) close(file);
    return code;
}

/* The page that was there stays until the new one is whole. */
static int save_beside(const char *path, const char *text, size_t bytes) {
    int file, code = AMP_EXIT_OK;
    char *part = open_part(path, &file);
    if (!part) return fail_writing(path);
    if (!write_all(file, text, bytes) || rename(part, path) != 0) {
        code = fail_writing(path);
        unlink(part);
    }
    close(file);
    free(part);
    return code;
}

int page_save(const char *path, const char *text, size_t bytes) {
    return is_special(path) ? save_special(path, text, bytes) : save_beside(path, text, bytes);
}

/* "model.html" beside nothing: in the folder where one stands. */
static char *path_of(const run_options *o) {
    const char *slash = strrchr(o->model, '/'), *name = slash ? slash + 1 : o->model, *end = strrchr(name, '.');
    const size_t length = end && end != name ? (size_t)(end - name) : strlen(name);
    char *path = NULL;
    if (o->output) return strdup(o->output);
    return asprintf(&path, "%.*s.html", (int)length, name) < 0 ? NULL : path;
}

static int say_where(const char *path, int steps, size_t bytes) {
    char *line = NULL;
    if (asprintf(&line, "%s: %d step%s, %.1f MB", path, steps, steps == 1 ? "" : "s", (double)bytes / 1e6) < 0)
        line = NULL;
    return run_print_paragraph(line, 0, 2);
}

static int save(const page *p, const char *path) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out) page_write(out, p);
    const bool good = out && fclose(out) == 0;
    int code = good ? page_save(path, text, size) : run_no_memory();
    if (!code && !is_special(path)) code = say_where(path, p->steps[p->shown].count, size);
    free(text);
    return code;
}

/* ---- All --------------------------------------------------------------------------------------------------------- */
static int explain(const run_options *o, const char *path, run_results *results) {
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
    if (!code) code = save(&p, path);
    page_picture_free(&p.picture);
    page_values_free(&p.values);
    free(p.pairs);
    for (int kind = 0; kind < RUN_KINDS; kind++) page_steps_free(&p.steps[kind]);
    free(r.comparisons);
    run_results_free(results, &m);
    run_inputs_free(&in);
    run_model_free(&m);
    return code;
}

static int try_path(const char *path) {
    int file;
    struct stat s;
    if (stat(path, &s) == 0 && S_ISDIR(s.st_mode)) {
        errno = EISDIR;
        return fail_writing(path);
    }
    if (is_special(path)) return AMP_EXIT_OK;
    char *part = open_part(path, &file);
    if (!part) return fail_writing(path);
    close(file);
    unlink(part);
    free(part);
    return AMP_EXIT_OK;
}

static int explain_to(const run_options *o, const char *path) {
    run_results results = {0};
    int code = try_path(path); /* before anything is measured */
    if (!code) code = run_cold(o, results.times);
    return code ? code : explain(o, path, &results);
}

int explain_model(int argc, char **argv) {
    run_options o;
    int code = run_options_parse(argc, argv, EXPLAIN_COMMAND, &o);
    char *path = code ? NULL : path_of(&o);
    if (!code) code = path ? explain_to(&o, path) : run_no_memory();
    free(path);
    run_options_free(&o);
    return code;
}
