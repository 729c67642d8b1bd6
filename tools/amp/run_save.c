/* amp run: --output, a file for each output. */
#define _GNU_SOURCE /* asprintf */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "amp/amp.h"
#include "replay_device.h"
#include "run.h"

int run_save_begin(const run_options *o) {
    struct stat s;
    if (!o->output) return AMP_EXIT_OK;
    if (mkdir(o->output, 0777) != 0 && errno != EEXIST)
        return run_fail(AMP_EXIT_USAGE, "cannot make the folder '%s': %s", o->output, strerror(errno));
    if (stat(o->output, &s) == 0 && S_ISDIR(s.st_mode)) return AMP_EXIT_OK;
    return run_fail(AMP_EXIT_USAGE, "'%s' is no folder", o->output);
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */
enum { MOST_BYTES = 200 }; /* of a name, so that endings still have room in a file system's 255 */

static bool is_plain(unsigned char c) {
    return c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
           c == '_' || c == '-';
}

/* What a file cannot be called becomes an underscore. */
static char *plain_name(const char *name) {
    char *plain = strdup(*name ? name : "output");
    if (!plain) return NULL;
    run_clean(plain);
    size_t length = strlen(plain);
    if (length > MOST_BYTES) length = MOST_BYTES;
    while (length > 0 && ((unsigned char)plain[length] & 0xc0) == 0x80) length--; /* no half character */
    plain[length] = 0;
    for (char *c = plain; *c; c++) {
        if (!is_plain((unsigned char)*c)) *c = '_';
    }
    return plain;
}

static bool is_taken(char *const *files, int count, const char *file) {
    for (int i = 0; i < count; i++) {
        if (strcmp(files[i], file) == 0) return true;
    }
    return false;
}

/* DIR/NAME.npy, or DIR/NAME_2.npy where two names become one. */
static char *file_name(const run_report *r, int index, char *const *files, const char *ending) {
    char *plain = plain_name(r->model->outputs[index].name), *file = NULL;
    for (int number = 1; plain; number++) {
        char count[16] = "";
        if (number > 1) snprintf(count, sizeof count, "_%d", number);
        if (asprintf(&file, "%s/%s%s%s.npy", r->options->output, plain, count, ending) < 0) file = NULL;
        if (!file || !is_taken(files, index, file)) break;
        free(file);
    }
    free(plain);
    return file;
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */
static amp_status save(const char *file, amp_tensor *t) {
    amp_scope {
        amp_tensor *host = replay_move(t, AMP_DEVICE_CPU);
        if (amp_tensor_dtype(host) == AMP_BF16) host = amp_to(host, AMP_F32);
        (void)amp_save_npy(file, host); /* the error stands */
    }
    return amp_last_status();
}

static int save_kind(run_report *r, run_kind kind) {
    const bool both = r->results->outputs[RUN_F32] && r->results->outputs[RUN_BF16];
    const char *ending = both && kind == RUN_BF16 ? ".bf16" : "";
    char **files = r->files[kind] = calloc((size_t)r->model->output_count + 1, sizeof *files);
    if (!files) return run_no_memory();
    for (int i = 0; i < r->model->output_count; i++) {
        files[i] = file_name(r, i, files, ending);
        if (!files[i]) return run_no_memory();
        if (save(files[i], r->results->outputs[kind][i]) == AMP_OK) continue;
        (void)run_fail_amp();
        return AMP_EXIT_FAILED;
    }
    return AMP_EXIT_OK;
}

int run_save(run_report *r) {
    int code = AMP_EXIT_OK;
    for (int kind = 0; !code && r->options->output && kind < RUN_KINDS; kind++) {
        if (r->results->outputs[kind]) code = save_kind(r, (run_kind)kind);
    }
    return code;
}
