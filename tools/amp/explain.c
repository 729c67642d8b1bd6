/* amp explain: a recorded run, or a program run under recording. */
#define _GNU_SOURCE /* environ */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "explain/summary.h"
#include "explain/table.h"
#include "explain_model.h"
#include "explain_peak.h"

static const char help[] =
    "usage: amp explain [--json | --all] [--width N] FILE\n"
    "       amp explain [--json | --all] [--width N] -- PROGRAM [ARGUMENT…]\n"
    "       amp explain [-o PAGE.html] [OPTION…] MODEL.onnx\n\n"
    "Totals per op and per label. Then, per region, label, op, shape, layout and window: calls, time,\n"
    "that of the first call and the median of the others, operations a second and their share of what\n"
    "the machine can do (probed when the program has ended), the widest type among the arguments once\n"
    "cast, casts and packings made, cached and avoided, the policy that decided, and the kernel that\n"
    "ran. Below: advice where the rows prove it; faster kernels that could not run, and why.\n\n"
    "FILE is what a program that uses libamp wrote under AMP_EXPLAIN=FILE. With PROGRAM the tool runs\n"
    "it so itself; the program's own output goes to standard error. The report is printed also where\n"
    "the program fails, and the exit code is then 1.\n\n"
    "  --json     the report for programs\n"
    "  --all      also the rows that took less than 0.1 % of the time\n"
    "  --width N  columns of a line (that of the terminal, else 120); what finds no room stands below\n"
    "  --help     this text\n\n"
    "Of a MODEL in ONNX's format it runs the steps one by one, in f32 and in bf16, and writes a page of\n"
    "HTML, MODEL.html or the one of --output: the graph, drawn by Graphviz's dot where that is there,\n"
    "coloured by type and sized by time; of each step its shapes, its time, the kernel, and why it ran\n"
    "in this type and by this kernel; what each pass did, and where the time goes.\n\n"
    "  -o, --output FILE    the page\n"
    "  --f32, --bf16        only this one\n"
    "  --seconds S          how long to run (3); --runs N: at most so many of each\n"
    "  --threads N, --isa NAME, --exact\n"
    "  --input NAME=FILE, --shape NAME=1x3x640x640, --seed N, --mean A,B,C, --scale A,B,C,\n"
    "  --layout nchw|nhwc   as amp run --help tells\n";

typedef struct options {
    bool json, all, help;
    int width; /* 0: as it comes */
    const char *file;
    char **program; /* argv after "--" */
} options;

static int usage_error(const char *what, const char *which) {
    const char *quote = *which ? "'" : "";
    fprintf(stderr, "amp explain: %s%s%s%s%s\nTry 'amp explain --help'.\n", what, *which ? " " : "", quote, which,
            quote);
    return AMP_EXIT_USAGE;
}

static int parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            o->program = argv + i + 1;
            if (!*o->program) return usage_error("there is no program after '--'", "");
            break;
        }
        if (strcmp(argv[i], "--json") == 0) {
            o->json = true;
        } else if (strcmp(argv[i], "--all") == 0) {
            o->all = true;
        } else if (strcmp(argv[i], "--help") == 0) {
            o->help = true;
        } else if (strcmp(argv[i], "--width") == 0) {
            if (++i == argc) return usage_error("'--width' needs a value", "");
            o->width = atoi(argv[i]);
            if (o->width < 60 || o->width > 1000) return usage_error("a width is 60 to 1000, not", argv[i]);
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return usage_error("there is no option", argv[i]);
        } else if (o->file) {
            return usage_error("one file at a time, not also", argv[i]);
        } else {
            o->file = argv[i];
        }
    }
    if (o->help || (o->file != NULL) != (o->program != NULL)) return AMP_EXIT_OK;
    return usage_error(o->file ? "a file or a program, not both" : "a file, or '--' and a program, is missing", "");
}

/* ---- The program ----------------------------------------------------------------------------------------------- */
static volatile sig_atomic_t child; /* while it runs */

/* Who stops the tool means the program, whose report is printed then. */
static void pass_on(int signal) {
    const int error = errno;
    if (child) kill((pid_t)child, signal);
    errno = error;
}

/* Signals wait from `before` its start until there is a program to pass them on to. */
static void hold_signals(sigset_t *before) {
    static const int stopping[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction pass = {.sa_handler = pass_on}, old;
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
        if (sigaction(stopping[i], NULL, &old) != 0 || old.sa_handler == SIG_IGN) continue; /* nohup */
        sigaddset(&held, stopping[i]);
        sigaction(stopping[i], &pass, NULL);
    }
    sigprocmask(SIG_BLOCK, &held, before);
}

/* The child prints to our standard error, so that our standard output holds the report alone. 0, or the errno of a
 * program that cannot be run. */
static int start(char **program, const char *path, const sigset_t *mask) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    if (!error) error = posix_spawnattr_setsigmask(&attributes, mask);
    if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (!error && setenv("AMP_EXPLAIN", path, 1) != 0) error = errno;
    if (!error) error = posix_spawnp(&pid, program[0], &actions, &attributes, program, environ);
    if (!error) child = (sig_atomic_t)pid;
    unsetenv("AMP_EXPLAIN"); /* the tool itself records nothing */
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static int run_recorded(char **program, const char *path, const sigset_t *mask) {
    const int error = start(program, path, mask);
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (error) {
        fprintf(stderr, "amp explain: cannot run '%s': %s\n", program[0], strerror(error));
        return AMP_EXIT_FAILED;
    }
    int status = 0;
    while (waitpid((pid_t)child, &status, 0) < 0 && errno == EINTR) continue;
    child = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return AMP_EXIT_OK;
    fprintf(stderr, "amp explain: '%s' ended with %s %d\n", program[0], WIFEXITED(status) ? "exit code" : "signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return AMP_EXIT_FAILED;
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *report = json_load_file(path, 0, &error);
    if (!report) {
        struct stat s;
        const bool runs = stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
        fprintf(stderr, "amp explain: '%s' is no report: %s%s%s\n", path, error.text,
                runs ? "; to run it: amp explain -- " : "", runs ? path : "");
    } else if (!json_is_array(json_object_get(report, "ops"))) {
        fprintf(stderr, "amp explain: '%s' is JSON, but no report of libamp: it has no list 'ops'\n", path);
        json_decref(report);
        return NULL;
    }
    return report;
}

/* Of the terminal that it goes to; 0: it goes elsewhere. Below 60 columns lines run on. */
static int terminal_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
    return size.ws_col < 60 ? 60 : size.ws_col;
}

static char *text_of(json_t *report, const options *o) {
    if (o->json) return amp_explain_complete(report) ? json_dumps(report, JSON_INDENT(1)) : NULL;
    return amp_explain_table(report, o->all ? 0 : 0.001, o->width ? o->width : terminal_width());
}

static int print(const char *path, const options *o) {
    json_t *report = load(path);
    if (!report) return AMP_EXIT_USAGE;
    amp_explain_add_peak(report);
    char *text = text_of(report, o);
    json_decref(report);
    if (!text) {
        fprintf(stderr, "amp explain: no memory for the report\n");
        return AMP_EXIT_FAILED;
    }
    printf("%s%s", text, o->json ? "\n" : "");
    free(text);
    return AMP_EXIT_OK;
}

static int explain_program(const options *o) {
    const char *folder = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/amp-explain-XXXXXX", folder && *folder ? folder : "/tmp");
    sigset_t mask;
    hold_signals(&mask);
    const int file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "amp explain: cannot make the temporary file '%s': %s\n", path, strerror(errno));
        return AMP_EXIT_FAILED;
    }
    int code = run_recorded(o->program, path, &mask);
    const bool recorded = lseek(file, 0, SEEK_END) > 0;
    if (code == AMP_EXIT_OK && !recorded) {
        fprintf(stderr, "amp explain: '%s' recorded nothing; does it use libamp?\n", o->program[0]);
        code = AMP_EXIT_FAILED;
    }
    /* also of a program that failed: what it recorded may say why */
    const int printed = recorded ? print(path, o) : AMP_EXIT_OK;
    if (code == AMP_EXIT_OK) code = printed;
    close(file);
    unlink(path);
    return code;
}

/* Reports are JSON, which begins with a brace; a model is a message of Protocol Buffers, whose first field here never
 * does. */
static bool has_model(const char *file) {
    enum { FIRST_FIELD = 0x08 }; /* ir_version, which exporters write first */
    struct stat s;
    const char *end = strrchr(file, '.');
    if (end && strcmp(end, ".onnx") == 0) return true;
    FILE *in = stat(file, &s) == 0 && S_ISREG(s.st_mode) ? fopen(file, "rb") : NULL;
    const int first = in ? fgetc(in) : EOF;
    if (in) fclose(in);
    return first == FIRST_FIELD;
}

/* Whether some word before "--" that is no option, nor an option's value, is a model. */
static bool names_model(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (argv[i][0] != '-' && has_model(argv[i])) return true;
    }
    return false;
}

int amp_command_explain(int argc, char **argv) {
    options o = {0};
    bool helps = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) helps = helps || strcmp(argv[i], "--help") == 0;
    if (!helps && names_model(argc, argv)) return explain_model(argc, argv);
    const int code = parse(argc, argv, &o);
    if (code != AMP_EXIT_OK) return code;
    if (o.help) {
        fputs(help, stdout);
        return AMP_EXIT_OK;
    }
    return o.program ? explain_program(&o) : print(o.file, &o);
}
