/* amp audit: from the command line to the policy and the page. */
#include "audit.h"

#include <stdio.h>
#include <stdlib.h>

#include "amp/amp.h"

static const char help[] = "usage: amp audit [OPTION…] MODEL.onnx\n\n"
                           "Runs a model in f32 and under autocast to bf16 on the same inputs, ranks its steps by\n"
                           "the error that each adds, and finds a smallest set of them that has to stay in f32 for\n"
                           "the outputs to come as near to f32's as asked for. Every set tried is really run.\n\n"
                           "  --cosine C           each output's cosine with f32's, at least (0.999)\n"
                           "  --error E            each output's largest error, at most; with or in the place of C\n"
                           "  -o, --output FILE    writes the policy file, for amp run and for regions\n"
                           "  --html FILE          writes a page: the error along the graph as a picture, the steps\n"
                           "  --input NAME=FILE    as in amp run; a second file for an input begins a second set\n"
                           "  --sets N             sets of inputs that are made up (1)\n"
                           "  --shape NAME=1x3x640x640, --seed N, --mean A,B,C, --scale A,B,C,\n"
                           "  --layout nchw|nhwc   as in amp run\n"
                           "  --exact              op by op: nothing is fused or laid out anew\n"
                           "  --seconds S          how long to leave out what is not needed (60)\n"
                           "  --threads N          that an op may use\n"
                           "  --isa NAME           highest instruction set: ref, avx2, avx512, avx512bf16, amx\n"
                           "  --json               the report for programs\n"
                           "  --help               this text\n\n"
                           "A step is what passes have made of the model's nodes: a convolution with its activation,\n"
                           "say. The error that it adds is that of its result in bf16 from f32's operands, the error\n"
                           "that it carries that of its result in the run in bf16; both as the norm of the difference\n"
                           "by the norm of f32's. Exit code 1: what is asked for cannot be reached.\n";

/* ---- What has been found ------------------------------------------------------------------------------------------- */
/* The errors under the policy, where it has left the graph's steps as they were. */
static int watch_with(audit_report *r, const amp_autocast_rules *rules) {
    audit_steps with = {0};
    int code = AMP_EXIT_OK;
    for (int set = 0; !code && set < r->sets->count; set++)
        code = audit_watch(&with, r->model, &r->sets->items[set], r->sets->f32[set], rules);
    audit_steps_end(&with);
    for (int i = 0; !code && with.count == r->steps.count && i < with.count; i++)
        r->steps.items[i].with = with.items[i].carried;
    audit_steps_free(&with);
    return code;
}

static int look_again(audit_report *r) {
    char *text = audit_policy(&r->steps, NULL);
    amp_autocast_rules *rules = text ? amp_autocast_rules_parse(text, "the policy") : NULL;
    free(text);
    if (!rules) return amp_last_status() == AMP_OK ? run_no_memory() : run_fail_amp();
    int code = audit_time(r->ms, r->sets, r->model, r->options, rules);
    if (!code && r->kept > 0) code = watch_with(r, rules);
    amp_autocast_rules_release(rules);
    return code;
}

static int write_text(const char *path, char *text) {
    const int code = text ? audit_write(path, text) : run_no_memory();
    free(text);
    return code;
}

static int report(const audit_report *r) {
    const run_options *o = r->options;
    int code = AMP_EXIT_OK;
    run_progress_end();
    if (o->output && r->after.good) code = write_text(o->output, audit_policy(&r->steps, r));
    if (!code && o->page) code = write_text(o->page, audit_page(r));
    if (!code) code = o->json ? audit_print_json(r) : audit_print(r);
    if (code || r->after.good) return code;
    return run_fail(AMP_EXIT_FAILED, "what is asked for is not reached with all in f32 that adds an error%s",
                    o->output ? "; no policy was written" : "");
}

/* ---- The way there ------------------------------------------------------------------------------------------------- */
static int audit(audit_report *r, audit_sets *sets) {
    int code = audit_sets_make(sets, r->model, r->options);
    r->sets = sets;
    for (int set = 0; !code && set < sets->count; set++) {
        run_progress("set %d: f32 beside bf16, step by step", set + 1);
        code = audit_watch(&r->steps, r->model, &sets->items[set], sets->f32[set], NULL);
    }
    if (code) return code;
    audit_steps_end(&r->steps);
    r->rank = audit_rank(&r->steps);
    if (!r->rank) return run_no_memory();
    code = audit_measure(&r->before, sets, r->model, r->options, NULL);
    if (!code) code = audit_search(r);
    if (!code) code = look_again(r);
    return code ? code : report(r);
}

static int audit_model(const run_options *o) {
    run_model m = {0};
    audit_sets sets = {0};
    audit_report r = {.options = o, .model = &m};
    int code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = audit(&r, &sets);
    run_progress_end();
    audit_steps_free(&r.steps);
    free(r.rank);
    audit_sets_free(&sets, &m);
    run_model_free(&m);
    return code;
}

int amp_command_audit(int argc, char **argv) {
    run_options o;
    int code = run_options_parse(argc, argv, AUDIT_COMMAND, &o);
    if (o.cosine == 0 && o.error == 0) o.cosine = 0.999;
    if (!code && o.help) {
        fputs(help, stdout);
    } else if (!code) {
        code = audit_model(&o);
    }
    run_options_free(&o);
    return code;
}
