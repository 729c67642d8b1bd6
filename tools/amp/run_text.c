/* amp run, bench, explain: sentences, shapes as text, progress. */
#define _GNU_SOURCE /* vasprintf */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "explain/table_text.h"
#include "run.h"

/* ---- Text of files ----------------------------------------------------------------------------------------------- */
/* Bytes of the character of UTF-8 at `s` that a terminal may have; 0: it may not. */
static int character_length(const unsigned char *s) {
    if (*s < 0x80) return *s >= 0x20 && *s != 0x7f;
    const int length = *s >= 0xc2 && *s < 0xe0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : *s >= 0xf0 && *s < 0xf5 ? 4 : 0;
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    if (*s == 0xc2 && s[1] < 0xa0) return 0; /* control characters of their own */
    if ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xf0 && s[1] < 0x90)) return 0;
    if ((*s == 0xed && s[1] >= 0xa0) || (*s == 0xf4 && s[1] >= 0x90)) return 0;
    return length;
}

void run_clean(char *text) {
    while (*text) {
        const int length = character_length((const unsigned char *)text);
        if (length == 0) *text = '?';
        text += length ? length : 1;
    }
}

static const char *command = "run";

void run_name(const char *its) {
    command = its;
}

static void say(const char *format, va_list args) {
    char *text = NULL;
    run_progress_end();
    if (vasprintf(&text, format, args) < 0) text = NULL;
    if (text) run_clean(text);
    fprintf(stderr, "amp %s: %s\n", command, text ? text : "there is no memory for a sentence");
    free(text);
}

int run_fail(int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return code;
}

int run_usage(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    fprintf(stderr, "Try 'amp %s --help'.\n", command);
    return AMP_EXIT_USAGE;
}

int run_fail_amp(void) {
    const amp_status status = amp_last_status();
    const bool is_ours = status == AMP_ERROR_MEMORY || status == AMP_ERROR_INTERNAL || status == AMP_ERROR_DEVICE;
    const char *const functions[] = {"graph_load: ", "graph_save: "}, *sentence = amp_last_error();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strncmp(sentence, functions[i], strlen(functions[i])) == 0) sentence += strlen(functions[i]);
    }
    run_fail(0, "%s", sentence);
    amp_clear_error();
    return is_ours ? AMP_EXIT_FAILED : AMP_EXIT_USAGE;
}

int run_no_memory(void) {
    return run_fail(AMP_EXIT_FAILED, "there is no memory");
}

/* ---- Shapes ------------------------------------------------------------------------------------------------------ */
enum { MOST_NAME = 16 }; /* exporters make longer ones, which say little */

bool run_is_name(const char *name) {
    const size_t length = name ? strlen(name) : 0;
    for (size_t i = 0; i < length; i++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", name[i])) return false;
    }
    return length > 0 && length <= MOST_NAME;
}

static void write_extent(FILE *out, int64_t extent, const char *name, int64_t here) {
    const bool named = run_is_name(name);
    if (extent != AMP_GRAPH_OPEN) {
        fprintf(out, "%" PRId64, extent);
    } else if (here == AMP_GRAPH_OPEN) {
        fputs(named ? name : "?", out);
    } else {
        fprintf(out, "%s%s%" PRId64, named ? name : "", named ? "=" : "", here);
    }
}

/* names, here: of extents that are open; NULL: none. */
static char *shape_text(int rank, const int64_t *shape, const char *const *names, const int64_t *here) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fputc('[', out);
    if (rank == AMP_GRAPH_OPEN) fputs("…", out);
    for (int d = 0; d < rank; d++) {
        if (d) fputs(", ", out);
        write_extent(out, shape[d], names ? names[d] : NULL, here ? here[d] : AMP_GRAPH_OPEN);
    }
    fputc(']', out);
    return fclose(out) == 0 ? text : NULL;
}

char *run_declared_text(const amp_graph_value *value) {
    return shape_text(value->rank, value->shape, value->extent_names, NULL);
}

char *run_shape_text(int rank, const int64_t *shape) {
    return shape_text(rank, shape, NULL, NULL);
}

char *run_input_text(const run_input *input) {
    const amp_graph_value *wanted = input->wanted;
    if (wanted->rank == AMP_GRAPH_OPEN) return run_shape_text(input->rank, input->shape);
    return shape_text(wanted->rank, wanted->shape, wanted->extent_names, input->shape);
}

/* ---- The terminal ------------------------------------------------------------------------------------------------ */
enum { LEAST_WIDTH = 60, USUAL_WIDTH = 80, MOST_WIDTH = 100 };

int run_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return USUAL_WIDTH;
    return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col > MOST_WIDTH ? MOST_WIDTH : size.ws_col;
}

int run_print_paragraph(char *text, int first, int indent) {
    if (!text) return run_no_memory();
    run_clean(text);
    amp_print_wrapped(stdout, text, run_width(), first, indent, false);
    free(text);
    return AMP_EXIT_OK;
}

static bool stands; /* a line of progress */

void run_progress(const char *format, ...) {
    va_list args;
    if (!isatty(STDERR_FILENO)) return;
    fputs("\r\033[K", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
    stands = true;
}

void run_progress_end(void) {
    if (stands) fputs("\r\033[K", stderr);
    fflush(stderr);
    stands = false;
}

static double milliseconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

double run_milliseconds(void) {
    return milliseconds_of(CLOCK_MONOTONIC);
}

static clockid_t figures_clock = CLOCK_MONOTONIC;

void run_use_cpu_time(void) {
    figures_clock = CLOCK_PROCESS_CPUTIME_ID;
}

double run_figure_milliseconds(void) {
    return milliseconds_of(figures_clock);
}
