/* amp audit: the policy file, and writing files. */
#define _GNU_SOURCE /* asprintf */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amp/version.h"
#include "audit.h"

/* ---- Text ---------------------------------------------------------------------------------------------------------- */
static void write_place(FILE *out, const char *place, size_t length) {
    fputs("f32 node \"", out);
    for (size_t i = 0; i < length; i++) {
        if (place[i] == '"' || place[i] == '\\') fputc('\\', out);
        fputc(place[i], out);
    }
    fputs("\"\n", out);
}

static void write_step(FILE *out, const audit_step *s, bool comments) {
    if (comments) fprintf(out, "# %s: adds %.2g\n", s->op, s->local);
    for (const char *place = s->places; *place;) {
        const size_t length = strcspn(place, "\n");
        write_place(out, place, length);
        place += length + (place[length] == '\n');
    }
}

static void write_head(FILE *out, const audit_report *r) {
    char *model = strdup(r->options->model);
    if (model) run_clean(model);
    fprintf(out, "# %s: %d of %d steps in f32, the others as autocast to bf16 has them\n", model ? model : "", r->kept,
            r->steps.count);
    fprintf(out, "# cosine %.6g, largest error %.3g; without %.6g, %.3g (amp audit %s)\n", r->after.cosine,
            r->after.error, r->before.cosine, r->before.error, amp_version_string());
    free(model);
}

char *audit_policy(const audit_steps *steps, const audit_report *r) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fputs("amp-policy 1\n", out);
    if (r) write_head(out, r);
    for (int i = 0; i < steps->count; i++) {
        if (steps->items[i].kept) write_step(out, &steps->items[i], r != NULL);
    }
    return fclose(out) == 0 ? text : NULL;
}

/* ---- Files --------------------------------------------------------------------------------------------------------- */
static bool put(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    if (!file) return false;
    const bool written = fputs(text, file) >= 0 && fflush(file) == 0;
    const int error = errno;
    const bool closed = fclose(file) == 0;
    if (!written) errno = error;
    return written && closed;
}

/* Beside it first, where it is a file of the ordinary kind, or none yet. */
int audit_write(const char *path, const char *text) {
    struct stat s;
    char *part = NULL;
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) {
        if (put(path, text)) return AMP_EXIT_OK;
        return run_fail(AMP_EXIT_FAILED, "cannot write '%s': %s", path, strerror(errno));
    }
    if (asprintf(&part, "%s.part", path) < 0) return run_no_memory();
    const bool good = put(part, text) && rename(part, path) == 0;
    const int error = errno;
    if (!good) (void)unlink(part);
    free(part);
    if (good) return AMP_EXIT_OK;
    const bool is_place = error == ENOENT || error == ENOTDIR || error == EACCES || error == EROFS;
    return run_fail(is_place ? AMP_EXIT_USAGE : AMP_EXIT_FAILED, "cannot write '%s': %s", path, strerror(error));
}
