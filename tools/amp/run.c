/* amp run: from the command line to the report. */
#include "run.h"

#include <stdio.h>
#include <stdlib.h>

#include "run_replicas.h"

static int compare(run_report *r, run_comparison **to) {
    const run_results *results = r->results;
    if (!results->outputs[RUN_F32] || !results->outputs[RUN_BF16]) return AMP_EXIT_OK;
    const int count = r->model->output_count;
    run_comparison *all = *to = calloc((size_t)count + 1, sizeof *all);
    if (!all) return run_no_memory();
    r->comparisons = all;
    for (int i = 0; i < count; i++) {
        const int code = run_compare(&all[i], results->outputs[RUN_F32][i], results->outputs[RUN_BF16][i]);
        if (code) return code;
    }
    return AMP_EXIT_OK;
}

static int print(const run_report *r) {
    if (r->options->json) return run_print_json(r);
    const int code = run_print_figures(r);
    return code ? code : run_print_outputs(r);
}

static void free_files(run_report *r) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        for (int i = 0; r->files[kind] && i < r->model->output_count; i++) free(r->files[kind][i]);
        free(r->files[kind]);
    }
}

static int go_together(const run_results *results, const run_model *m, void *replicas) {
    return run_replicas_go(replicas, results, m);
}

/* Everything but the first runs. */
static int run_warm(const run_options *o, run_results *results, run_replicas *replicas) {
    run_model m = {0};
    run_inputs in = {0};
    run_report r = {.options = o, .model = &m, .inputs = &in, .results = results, .replicas = replicas};
    run_comparison *comparisons = NULL;
    results->before_turns = go_together;
    results->context = replicas;
    int code = run_set_up(o);
    if (!code) code = run_model_load(&m, o->model, o->exact);
    if (!code) code = run_use_packs(&m, o);
    if (!code) code = run_inputs_make(&in, &m, o);
    if (!code && !o->json) code = run_print_model(&r);
    if (!code) code = run_replicas_load(replicas);
    if (!code) code = run_measure(results, &m, &in, o);
    if (!code) code = run_replicas_collect(replicas);
    if (!code) code = compare(&r, &comparisons);
    if (!code && run_unmet_rule())
        code = run_fail(AMP_EXIT_USAGE, "%s: the model computes nothing at a node '%s'", o->policy, run_unmet_rule());
    if (!code) code = run_save(&r);
    if (!code) code = print(&r);
    free_files(&r);
    free(comparisons);
    run_results_free(results, &m);
    run_inputs_free(&in);
    run_model_free(&m);
    return code;
}

static int run_all(run_options *o) {
    static run_nodes nodes;
    run_results results = {0};
    run_replicas replicas = {0};
    int code = run_nodes_enter(&nodes, o->numa);
    o->nodes = &nodes;
    if (!code) code = run_save_begin(o);
    if (!code) code = run_make_packs(o);
    if (!code) code = run_cold(o, results.times);
    if (!code) code = run_replicas_start(&replicas, o);
    if (!code) code = run_warm(o, &results, &replicas);
    run_replicas_end(&replicas);
    return code;
}

int amp_command_run(int argc, char **argv) {
    run_options o;
    int code = run_options_parse(argc, argv, RUN_COMMAND, &o);
    if (!code && o.help) {
        fputs(run_help, stdout);
    } else if (!code) {
        code = o.check ? run_check(&o) : run_all(&o);
    }
    run_options_free(&o);
    return code;
}
