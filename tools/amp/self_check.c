/* amp self-check: whether libamp computes what it should on this machine, and one file to attach to a report of a
 * bug. */
#define _GNU_SOURCE /* environ, gnu_get_libc_version */
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "amp/amp.h"
#include "io/file_map.h"
#include "machine/isa.h"
#include "run.h"
#include "self_check.h"

static const char help[] =
    "usage: amp self-check [--cases FOLDER] [--report FILE]\n\n"
    "Checks libamp on this machine, in a minute: every kernel beside its reference, calls recorded from PyTorch on "
    "each\n"
    "instruction set, with strided inputs, and on a GPU where there is one. What it found is written into one file, "
    "to\n"
    "be attached to a report of a bug: with the machine, the libraries, versions of what else computes here, and the\n"
    "variables of the environment that say something to libamp, OpenMP or the loader. It is sent nowhere.\n\n"
    "  --cases FOLDER    recorded cases other than those that are installed (see 'amp replay')\n"
    "  --report FILE     the file that is written (default: amp-self-check.json)\n"
    "  --help            this text\n\n"
    "Exit code: 0 if all holds; 1 if not; 2 for wrong usage.\n";

typedef struct check_report {
    json_t *root, *steps;
    int passed, skipped, failed;
} check_report;

/* ---- What a reader of the report wants to know first ------------------------------------------------------------- */
static const char *const telling[] = {"AMP_",  "OMP_",    "GOMP_", "KMP_", "OPENBLAS_", "MKL_",
                                      "DNNL_", "ONEDNN_", "CUDA_", "LD_",  "GLIBC_",    "MALLOC_"};

static json_t *environment_json(void) {
    json_t *list = json_array();
    for (char **e = environ; e && *e; e++) {
        for (size_t i = 0; i < sizeof telling / sizeof *telling; i++) {
            if (strncmp(*e, telling[i], strlen(telling[i])) == 0) json_array_append_new(list, json_string(*e));
        }
    }
    return list;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *list) {
    (void)size;
    if (info->dlpi_name && *info->dlpi_name) json_array_append_new(list, json_string(info->dlpi_name));
    return 0;
}

static json_t *system_json(void) {
    struct utsname name = {0};
    uname(&name);
    json_t *loaded = json_array();
    dl_iterate_phdr(add_object, loaded);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o}", "libamp", amp_version_string(), "system", name.sysname,
                     "kernel", name.release, "libc", gnu_get_libc_version(), "onednn", amp_onednn_version(), "openmp",
                     amp_openmp_version(), "loaded", loaded, "environment", environment_json());
}

/* ---- Steps as they end ------------------------------------------------------------------------------------------- */
static const char *const verdicts[] = {"passed", "skipped", "FAILED"};

static void take(void *context, check_result *r) {
    check_report *report = context;
    int *const counts[] = {&report->passed, &report->skipped, &report->failed};
    ++*counts[r->verdict];
    run_clean(r->text);
    printf("  %-18s %-8s %s", r->name, verdicts[r->verdict], r->text);
    if (r->seconds > 0) printf(" (%.1f s)", r->seconds);
    putchar('\n');
    fflush(stdout);
    json_t *step = json_pack("{s:s, s:s, s:s, s:f}", "step", r->name, "verdict", verdicts[r->verdict], "text", r->text,
                             "seconds", r->seconds);
    if (r->details) json_object_set_new(step, "details", r->details);
    json_array_append_new(report->steps, step);
}

static int write_report(const check_report *report, const char *path) {
    char *text = json_dumps(report->root, JSON_INDENT(1));
    if (!text) return run_no_memory();
    amp_file_writer writer;
    amp_status status = amp_file_create(&writer, "the report", path);
    if (status == AMP_OK) status = amp_file_write(&writer, text, strlen(text));
    if (status == AMP_OK) status = amp_file_write(&writer, "\n", 1);
    if (status == AMP_OK) status = amp_file_commit(&writer);
    amp_file_abandon(&writer);
    free(text);
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

static int check(const check_options *o) {
    const amp_cpu_info *cpu = amp_cpu();
    check_report report = {.root = system_json(), .steps = json_array()};
    if (!report.root || json_object_set_new(report.root, "steps", report.steps) != 0) return run_no_memory();
    printf("libamp %s on %s, %s\n", amp_version_string(), cpu->model, amp_isa_name(amp_isa_best()));
    const int failed = check_run_steps(o, take, &report);
    const int code = write_report(&report, o->report);
    json_decref(report.root);
    if (code) return code;
    printf("%d passed, %d skipped, %d failed. %s: %s\n", report.passed, report.skipped, failed,
           failed ? "Please attach this file to a report of the bug" : "The report", o->report);
    return failed ? AMP_EXIT_FAILED : AMP_EXIT_OK;
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */
static int parse(int argc, char **argv, check_options *o) {
    const struct {
        const char *name;
        const char **to;
    } values[] = {{"--cases", &o->cases}, {"--report", &o->report}};
    for (int i = 1; i < argc; i++) {
        size_t v = 0;
        while (v < sizeof values / sizeof *values && strcmp(argv[i], values[v].name) != 0) v++;
        if (strcmp(argv[i], "--help") == 0) {
            o->help = true;
        } else if (v == sizeof values / sizeof *values) {
            return run_usage(argv[i][0] == '-' ? "there is no option '%s'" : "takes no argument, not '%s'", argv[i]);
        } else if (i + 1 == argc || !*argv[i + 1]) {
            return run_usage("'%s' needs a value", argv[i]);
        } else {
            *values[v].to = argv[++i];
        }
    }
    return AMP_EXIT_OK;
}

int amp_command_self_check(int argc, char **argv) {
    check_options o = {.report = "amp-self-check.json"};
    run_name("self-check");
    const int code = parse(argc, argv, &o);
    if (code) return code;
    if (o.help) {
        fputs(help, stdout);
        return AMP_EXIT_OK;
    }
    if (amp_isa_status() != AMP_OK) return run_fail_amp();
    if (o.cases && access(o.cases, R_OK) != 0)
        return run_fail(AMP_EXIT_USAGE, "cannot read recorded cases in '%s': %s", o.cases, strerror(errno));
    return check(&o);
}
