/* amp blas: runs a program with libamp_blas.so before its BLAS. */
#define _GNU_SOURCE /* dlinfo */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static const char help[] =
    "usage: amp blas [OPTION…] -- PROGRAM [ARGUMENT…]\n\n"
    "Runs a program whose sgemm, sgemv, sgemm_batch, sgemm_batch_strided, ssyrk, ssymm and strmm libamp\n"
    "takes over, by their names in Fortran and C, with integers of 32 and of 64 bits: what is worth it by\n"
    "its shape runs in libamp, all else in the BLAS that the program has. At its end the program reports on\n"
    "standard error what ran in what, and why. The exit code is the program's.\n\n"
    "  --precision P   the error that is allowed: f32 (only counts calls), bf16x3 (f32's; the default),\n"
    "                  bf16x2 (2^-15 of |A||B|), bf16 (2^-7 of it)\n"
    "  --check         also run the BLAS that was there: errors of both against f64, and seconds saved\n"
    "  --report FILE   the report goes there; each process that called BLAS adds its own\n"
    "  --json          a line of JSON for each process\n"
    "  --all           take every call in just this precision, also where that is slower\n"
    "  --cache MB      memory for packed operands that come again (256; 0: none)\n"
    "  --help          this text\n";

static int usage_error(const char *what, const char *which) {
    const char *quote = *which ? "'" : "";
    fprintf(stderr, "amp blas: %s%s%s%s%s\nTry 'amp blas --help'.\n", what, *which ? " " : "", quote, which, quote);
    return AMP_EXIT_USAGE;
}

static bool is_precision(const char *text) {
    static const char *const known[] = {"f32", "bf16x3", "bf16x2", "bf16"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0) return true;
    return false;
}

static bool is_megabytes(const char *text) {
    return *text && strlen(text) <= 6 && strspn(text, "0123456789") == strlen(text);
}

static bool is_anything(const char *text) {
    return *text != '\0';
}

/* What an option sets for the program; `accepts`: it takes a value, and which. */
static const struct {
    const char *option, *variable;
    bool (*accepts)(const char *text);
    const char *wanted;
} options[] = {
    {"--precision", "AMP_BLAS_PRECISION", is_precision, "a precision is f32, bf16x3, bf16x2 or bf16, not"},
    {"--report", "AMP_BLAS_REPORT", is_anything, "a report needs the name of a file, not"},
    {"--cache", "AMP_BLAS_CACHE", is_megabytes, "a cache is a number of megabytes, not"},
    {"--check", "AMP_BLAS_CHECK", NULL, NULL},
    {"--json", "AMP_BLAS_JSON", NULL, NULL},
    {"--all", "AMP_BLAS_ALL", NULL, NULL},
};

enum { OPTION_COUNT = sizeof options / sizeof *options };

static int find_option(const char *word) {
    for (int i = 0; i < OPTION_COUNT; i++)
        if (strcmp(word, options[i].option) == 0) return i;
    return -1;
}

/* Sets the environment by the options; *program is what comes after "--". */
static int parse(int argc, char **argv, char ***program) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            *program = argv + i + 1;
            break;
        }
        const int o = find_option(argv[i]);
        if (o < 0) return usage_error(argv[i][0] == '-' ? "there is no option" : "'--' is missing before", argv[i]);
        const char *value = options[o].accepts ? argv[++i] : "1";
        if (!value) return usage_error("a value is missing after", options[o].option);
        if (options[o].accepts && !options[o].accepts(value)) return usage_error(options[o].wanted, value);
        if (setenv(options[o].variable, value, 1) != 0) return usage_error("there is no memory for", argv[i]);
    }
    if (!*program || !**program) return usage_error("'--' and a program are missing", "");
    return AMP_EXIT_OK;
}

/* Where the loader finds the module: the tool's own path to libraries leads to it. NULL after saying what is wrong. */
static const char *module_path(void) {
    void *module = dlopen("libamp_blas.so", RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map = NULL;
    if (!module || dlinfo(module, RTLD_DI_LINKMAP, &map) != 0) {
        fprintf(stderr, "amp blas: the module libamp_blas.so cannot be loaded: %s\n", dlerror());
        return NULL;
    }
    static char path[4096];
    if (!realpath(map->l_name, path) || strpbrk(path, " :")) {
        fprintf(stderr, "amp blas: '%s' cannot be preloaded: the loader takes no path with spaces or colons\n",
                map->l_name);
        return NULL;
    }
    return path;
}

static int preload(const char *module) {
    const char *others = getenv("LD_PRELOAD");
    char text[8192];
    const int length =
        snprintf(text, sizeof text, "%s%s%s", module, others && *others ? ":" : "", others ? others : "");
    if (length < (int)sizeof text && setenv("LD_PRELOAD", text, 1) == 0) return AMP_EXIT_OK;
    fprintf(stderr, "amp blas: LD_PRELOAD is too long\n");
    return AMP_EXIT_FAILED;
}

/* Processes add to the report: it begins empty. */
static int empty_report(void) {
    const char *path = getenv("AMP_BLAS_REPORT");
    if (!path) return setenv("AMP_BLAS_REPORT", "-", 1) == 0 ? AMP_EXIT_OK : AMP_EXIT_FAILED;
    if (strcmp(path, "-") == 0) return AMP_EXIT_OK;
    FILE *file = fopen(path, "w");
    if (file && fclose(file) == 0) return AMP_EXIT_OK;
    fprintf(stderr, "amp blas: cannot write '%s': %s\n", path, strerror(errno));
    return AMP_EXIT_USAGE;
}

int amp_command_blas(int argc, char **argv) {
    char **program = NULL;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help, stdout);
        return AMP_EXIT_OK;
    }
    int code = parse(argc, argv, &program);
    const char *module = code == AMP_EXIT_OK ? module_path() : NULL;
    if (code == AMP_EXIT_OK && !module) code = AMP_EXIT_FAILED;
    if (code == AMP_EXIT_OK) code = empty_report();
    if (code == AMP_EXIT_OK) code = preload(module);
    if (code != AMP_EXIT_OK) return code;
    execvp(program[0], program);
    fprintf(stderr, "amp blas: cannot run '%s': %s\n", program[0], strerror(errno));
    return AMP_EXIT_FAILED;
}
