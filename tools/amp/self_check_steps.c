/* amp self-check: the steps. */
#define _GNU_SOURCE /* setenv */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "amp/system.h"
#include "run.h"
#include "self_check.h"

/* ---- A process and what it told ---------------------------------------------------------------------------------- */
static void say(check_result *r, check_verdict verdict, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(check_result *r, check_verdict verdict, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(r->text, sizeof r->text, format, list);
    va_end(list);
    r->verdict = verdict;
}

/* Of an error: the first line. */
static int first_line(const char *text) {
    return (int)strcspn(text, "\n");
}

/* How a process ended that told nothing that can be read. */
static void say_end(check_result *r, const check_child *c) {
    if (c->is_late) {
        say(r, CHECK_FAILED, "not done after %.0f s", c->seconds);
    } else if (WIFSIGNALED(c->status)) {
        say(r, CHECK_FAILED, "ended with signal %d (%s)", WTERMSIG(c->status), strsignal(WTERMSIG(c->status)));
    } else {
        say(r, CHECK_FAILED, "exit code %d: %.*s", WEXITSTATUS(c->status), first_line(c->err), c->err);
    }
}

enum { MOST_ERROR = 1 << 16 }; /* bytes of an error that the report keeps */

/* Runs a process that prints JSON: the details. False: the result says why there is none. */
static bool ask(char *const *words, check_result *r) {
    check_child c;
    if (!check_child_run(words, &c)) {
        say(r, CHECK_FAILED, "cannot start %s: %s", words[0], strerror(errno));
        return false;
    }
    r->seconds = c.seconds;
    r->details = json_loads(c.out, 0, NULL);
    const bool told = r->details != NULL;
    if (!told) {
        say_end(r, &c);
        r->details = json_pack("{s:i, s:s%}", "status", c.status, "error", c.err, strnlen(c.err, MOST_ERROR));
    }
    check_child_free(&c);
    return told;
}

static int integer(const json_t *object, const char *field) {
    return (int)json_integer_value(json_object_get(object, field));
}

/* ---- Kernels ----------------------------------------------------------------------------------------------------- */
typedef struct check_context {
    const check_options *options;
    char tool[PATH_MAX], cases[PATH_MAX + 32]; /* this program; the folder */
} check_context;

static void check_kernels(const check_context *c, check_result *r) {
    char *const words[] = {(char *)c->tool, "info", "--kernels", "--json", NULL};
    if (!ask(words, r)) return;
    const json_t *rows = json_object_get(r->details, "kernel_rows"), *failed = json_object_get(rows, "failed");
    const json_t *first = json_array_get(failed, 0);
    if (first) {
        say(r, CHECK_FAILED, "%d of %d differ from the reference, such as %s: %s", (int)json_array_size(failed),
            integer(rows, "tested"), json_string_value(json_object_get(first, "kernel")),
            json_string_value(json_object_get(first, "reason")));
    } else {
        say(r, CHECK_PASSED, "%d agree with the reference", integer(rows, "tested"));
    }
}

/* ---- Recorded cases ---------------------------------------------------------------------------------------------- */
static void judge_cases(check_result *r) {
    const int passed = integer(r->details, "passed"), cases = integer(r->details, "cases");
    const json_t *failure = json_array_get(json_object_get(r->details, "failures"), 0);
    json_object_del(r->details, "ops"); /* a line for each op: long, and nothing is wrong with most */
    if (failure) {
        say(r, CHECK_FAILED, "%d of %d differ from PyTorch's results, such as %s: %s", cases - passed, cases,
            json_string_value(json_object_get(failure, "case")),
            json_string_value(json_object_get(failure, "problem")));
    } else if (integer(r->details, "exit_code") != AMP_EXIT_OK || passed == 0) {
        say(r, CHECK_FAILED, "%d of %d passed, and exit code %d", passed, cases, integer(r->details, "exit_code"));
    } else {
        say(r, CHECK_PASSED, "%d agree with PyTorch's results", passed);
    }
}

/* The recorded cases; `option`: one more word, or NULL. */
static void replay(const check_context *c, check_result *r, const char *option, const char *value) {
    char *const words[] = {(char *)c->tool, "replay", "--json", (char *)c->cases, (char *)option, (char *)value, NULL};
    if (access(c->cases, R_OK) != 0) {
        say(r, CHECK_SKIPPED, "no recorded cases in %s: %s", c->cases, strerror(errno));
        return;
    }
    if (ask(words, r)) judge_cases(r);
}

/* As on a machine that has no better instructions than these; what the environment says stands again afterwards. */
static void replay_on(const check_context *c, check_result *r, amp_isa isa) {
    const char *said = getenv("AMP_MAX_ISA");
    char *before = said ? strdup(said) : NULL;
    setenv("AMP_MAX_ISA", amp_isa_name(isa), 1);
    replay(c, r, NULL, NULL);
    if (before) {
        setenv("AMP_MAX_ISA", before, 1);
    } else {
        unsetenv("AMP_MAX_ISA");
    }
    free(before);
}

static void replay_strided(const check_context *c, check_result *r) {
    replay(c, r, "--strided", NULL);
}

static void replay_on_cuda(const check_context *c, check_result *r) {
    const char *reason = NULL;
    if (!amp_device_is_usable(AMP_DEVICE_CUDA, &reason)) {
        say(r, CHECK_SKIPPED, "%s", reason ? reason : "not usable");
        return;
    }
    replay(c, r, "--device", "cuda");
}

/* ---- Who else is there ------------------------------------------------------------------------------------------- */
static const char ask_versions[] =
    "import json, importlib.metadata as m\n"
    "found = {}\n"
    "for name in ('torch', 'onnxruntime', 'openvino', 'onnx', 'numpy', 'mkl', 'tensorflow'):\n"
    "    try: found[name] = m.version(name)\n"
    "    except Exception: pass\n"
    "print(json.dumps(found))\n";

static void find_peers(const check_context *c, check_result *r) {
    (void)c;
    char *const words[] = {"python3", "-c", (char *)ask_versions, NULL};
    if (!ask(words, r)) {
        say(r, CHECK_SKIPPED, "python3 cannot be asked");
        return;
    }
    const char *name;
    json_t *version;
    size_t used = 0;
    say(r, CHECK_PASSED, "python3 has none of those that are asked for");
    json_object_foreach(r->details, name, version) {
        const int more = snprintf(r->text + used, sizeof r->text - used, "%s%s %s", used ? ", " : "", name,
                                  json_string_value(version));
        if (more > 0 && used + (size_t)more < sizeof r->text) used += (size_t)more;
    }
}

/* ---- All of them ------------------------------------------------------------------------------------------------- */
typedef void check_step_function(const check_context *c, check_result *r);
static const struct {
    const char *name;
    check_step_function *run; /* NULL: the cases, on each instruction set of this machine */
} steps[] = {
    {"kernels", check_kernels},      {"cases", NULL},       {"cases, strided", replay_strided},
    {"cases, CUDA", replay_on_cuda}, {"peers", find_peers},
};

static int end_step(check_result *r, void (*done)(void *, check_result *), void *context) {
    const bool failed = r->verdict == CHECK_FAILED;
    run_progress_end();
    done(context, r);
    return failed;
}

static int run_on_each_isa(const check_context *c, void (*done)(void *, check_result *), void *context) {
    int failed = 0;
    for (amp_isa isa = AMP_ISA_REF; isa <= amp_isa_best(); isa++) {
        if (!amp_isa_usable(isa)) continue;
        check_result r = {.verdict = CHECK_FAILED};
        snprintf(r.name, sizeof r.name, "cases, %s", amp_isa_name(isa));
        run_progress("%s", r.name);
        replay_on(c, &r, isa);
        failed += end_step(&r, done, context);
    }
    return failed;
}

/* "…/bin/amp" has its cases in "…/share/amp/cases". */
static void find_files(check_context *c) {
    const ssize_t length = readlink("/proc/self/exe", c->tool, sizeof c->tool - 1);
    c->tool[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(c->tool, '/');
    if (c->options->cases) {
        snprintf(c->cases, sizeof c->cases, "%s", c->options->cases);
    } else {
        snprintf(c->cases, sizeof c->cases, "%.*s/../share/amp/cases", slash ? (int)(slash - c->tool) : 0, c->tool);
    }
}

int check_run_steps(const check_options *o, void (*done)(void *context, check_result *result), void *context) {
    check_context c = {.options = o};
    int failed = 0;
    find_files(&c);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        check_result r = {.verdict = CHECK_FAILED};
        if (!steps[i].run) {
            failed += run_on_each_isa(&c, done, context);
            continue;
        }
        snprintf(r.name, sizeof r.name, "%s", steps[i].name);
        run_progress("%s", r.name);
        steps[i].run(&c, &r);
        failed += end_step(&r, done, context);
    }
    return failed;
}
