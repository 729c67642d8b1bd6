/* amp explain model.onnx: the steps of a run, with explain's row of each, and their times. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "page.h"

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

/* ---- A step ------------------------------------------------------------------------------------------------------ */
static bool is_channels_last(const amp_tensor *t) {
    const int rank = amp_tensor_rank(t);
    const int64_t *shape = amp_tensor_shape(t), *strides = amp_tensor_strides(t);
    if (rank != 4 || shape[1] == 1 || (shape[2] == 1 && shape[3] == 1)) return false;
    return strides[1] == 1 && strides[3] == shape[1] && strides[2] == shape[1] * shape[3];
}

static page_operand describe(const amp_graph_operand *o, bool *failed) {
    page_operand its = {.value = o->value,
                        .input = o->input,
                        .output = o->output,
                        .is_constant = o->is_constant,
                        .argument = o->argument,
                        .dtype = AMP_DTYPE_NONE};
    if (!o->tensor) return its;
    its.dtype = amp_tensor_dtype(o->tensor);
    its.is_channels_last = is_channels_last(o->tensor);
    its.shape = run_shape_text(amp_tensor_rank(o->tensor), amp_tensor_shape(o->tensor));
    if (!its.shape) *failed = true;
    return its;
}

static page_operand *describe_all(const amp_graph_operand *operands, int count, bool *failed) {
    page_operand *all = calloc((size_t)count + 1, sizeof *all);
    for (int i = 0; all && i < count; i++) all[i] = describe(&operands[i], failed);
    if (!all) *failed = true;
    return all;
}

static char **copy_places(const amp_graph_step *step, bool *failed) {
    char **all = calloc((size_t)step->place_count + 1, sizeof *all);
    for (int i = 0; all && i < step->place_count; i++) {
        all[i] = strdup(step->places[i]);
        if (all[i]) run_clean(all[i]);
        if (!all[i]) *failed = true;
    }
    if (!all) *failed = true;
    return all;
}

/* The row of the step's call: the slowest, where it is made of others. */
static json_t *take_record(void) {
    char *text = amp_explain_report(AMP_EXPLAIN_JSON);
    json_t *report = text ? json_loads(text, 0, NULL) : NULL;
    json_t *row = json_incref(json_array_get(json_object_get(report, "ops"), 0));
    json_decref(report);
    amp_explain_free(text);
    amp_explain_reset();
    return row;
}

typedef struct watching {
    page_steps *steps;
    int run;
} watching;

static amp_status take_step(void *context, const amp_graph_step *step) {
    watching *w = context;
    page_steps *s = w->steps;
    if (!s->items) {
        s->items = calloc((size_t)step->count, sizeof *s->items);
        if (!s->items) return AMP_ERROR_MEMORY;
        s->count = step->count;
    }
    page_step *its = &s->items[step->number];
    *its = (page_step){.op = step->op,
                       .overload = step->overload,
                       .place_count = step->place_count,
                       .operand_count = step->operand_count,
                       .result_count = step->result_count};
    its->places = copy_places(step, &s->failed);
    its->operands = describe_all(step->operands, step->operand_count, &s->failed);
    its->results = describe_all(step->results, step->result_count, &s->failed);
    its->record = take_record();
    return s->failed ? AMP_ERROR_MEMORY : AMP_OK;
}

static void take_pass(void *context, const char *name, int places, int before, int after) {
    page_steps *s = ((watching *)context)->steps;
    if (s->pass_count < PAGE_PASSES)
        s->passes[s->pass_count++] = (page_pass){.name = name, .places = places, .before = before, .after = after};
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */
static amp_status take_time(void *context, const amp_graph_step *step) {
    watching *w = context;
    if (step->count != w->steps->count) return AMP_ERROR_INVALID;
    w->steps->samples[(size_t)w->run * (size_t)step->count + (size_t)step->number] = 1e3 * step->seconds;
    return AMP_OK;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { LEAST_RUNS = 3, MOST_RUNS = 100 };

static void find_medians(page_steps *s) {
    double of_one[MOST_RUNS];
    for (int i = 0; i < s->count; i++) {
        for (int run = 0; run < s->runs; run++) of_one[run] = s->samples[(size_t)run * (size_t)s->count + (size_t)i];
        qsort(of_one, (size_t)s->runs, sizeof *of_one, ascending);
        s->items[i].ms = of_one[s->runs / 2];
        s->ms += s->items[i].ms;
    }
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */
static int watch(const run_report *r, run_kind kind, amp_graph_watcher watcher) {
    const run_model *m = r->model;
    amp_status status = AMP_OK;
    watcher.struct_size = sizeof watcher;
    amp_scope {
        amp_tensor **outputs = calloc((size_t)m->output_count + 1, sizeof *outputs);
        if (!outputs) return run_no_memory();
        if (kind == RUN_BF16)
            (void)amp_autocast_enter(&(amp_autocast_args){
                .struct_size = sizeof(amp_autocast_args), .device = AMP_DEVICE_CPU, .dtype = AMP_BF16});
        status = amp_graph_watch(m->graph, r->inputs->tensors, r->inputs->count, outputs, m->output_count, &watcher);
        if (kind == RUN_BF16) (void)amp_autocast_exit(AMP_DEVICE_CPU);
        free(outputs);
    }
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

static int watch_ways(page_steps *steps, const run_report *r, run_kind kind) {
    watching w = {.steps = steps};
    amp_explain_begin();
    amp_explain_reset();
    const int code = watch(r, kind, (amp_graph_watcher){.step = take_step, .pass = take_pass, .context = &w});
    amp_explain_end();
    if (!code && steps->failed) return run_no_memory();
    return code;
}

static int watch_time(page_steps *steps, const run_report *r, run_kind kind) {
    watching w = {.steps = steps, .run = steps->runs};
    run_progress("%s, step by step: run %d", names[kind], steps->runs + 1);
    const int code = watch(r, kind, (amp_graph_watcher){.step = take_time, .context = &w});
    steps->runs++;
    return code;
}

static bool is_done(int rounds, double ms, const run_options *o) {
    return rounds == MOST_RUNS || rounds >= o->runs || (rounds >= LEAST_RUNS && ms > 1e3 * o->seconds * 2 / 3);
}

/* In turns: what slows the machine down slows both. */
static int watch_times(page_steps *steps, const run_report *r) {
    const double start = run_milliseconds();
    for (int rounds = 0; !is_done(rounds, run_milliseconds() - start, r->options); rounds++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const int code = r->options->wanted[kind] ? watch_time(&steps[kind], r, (run_kind)kind) : AMP_EXIT_OK;
            if (code) return code;
        }
    }
    return AMP_EXIT_OK;
}

static int begin(page_steps *steps, const run_report *r, run_kind kind) {
    const int code = watch_ways(steps, r, kind);
    if (code) return code;
    steps->samples = calloc((size_t)MOST_RUNS * (size_t)(steps->count + 1), sizeof *steps->samples);
    return steps->samples ? AMP_EXIT_OK : run_no_memory();
}

int page_collect(page_steps steps[RUN_KINDS], const run_report *r) {
    int code = AMP_EXIT_OK;
    for (int kind = 0; !code && kind < RUN_KINDS; kind++) {
        if (r->options->wanted[kind]) code = begin(&steps[kind], r, (run_kind)kind);
    }
    if (!code) code = watch_times(steps, r);
    for (int kind = 0; !code && kind < RUN_KINDS; kind++) find_medians(&steps[kind]);
    run_progress_end();
    return code;
}

static void free_operands(page_operand *operands, int count) {
    for (int i = 0; operands && i < count; i++) free(operands[i].shape);
    free(operands);
}

void page_steps_free(page_steps *s) {
    for (int i = 0; i < s->count; i++) {
        page_step *its = &s->items[i];
        for (int k = 0; its->places && k < its->place_count; k++) free(its->places[k]);
        free(its->places);
        free_operands(its->operands, its->operand_count);
        free_operands(its->results, its->result_count);
        json_decref(its->record);
    }
    free(s->items);
    free(s->samples);
    *s = (page_steps){0};
}

/* ---- Answers ----------------------------------------------------------------------------------------------------- */
page_unit page_unit_of(const page_steps *steps) {
    const double is_short = 2; /* ms */
    return steps->ms < is_short ? (page_unit){"µs", 1e3} : (page_unit){"ms", 1};
}

static amp_dtype dtype_named(const char *name) {
    static const amp_dtype all[] = {AMP_F32, AMP_BF16, AMP_F16, AMP_F64};
    for (size_t i = 0; name && i < sizeof all / sizeof *all; i++) {
        if (strcmp(name, amp_dtype_name(all[i])) == 0) return all[i];
    }
    return AMP_DTYPE_NONE;
}

amp_dtype page_runs_in(const page_step *step) {
    const amp_dtype dtype = dtype_named(json_string_value(json_object_get(step->record, "runs_in")));
    if (dtype != AMP_DTYPE_NONE) return dtype;
    return step->result_count > 0 ? step->results[0].dtype : AMP_DTYPE_NONE;
}
