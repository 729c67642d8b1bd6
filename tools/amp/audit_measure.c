/* amp audit: sets of inputs, what f32 makes of them, and how far other runs are from it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "audit.h"

/* ---- Sets ---------------------------------------------------------------------------------------------------------- */
/* "NAME" of "NAME=FILE", and "" of "FILE" */
static size_t name_length(const char *word) {
    const char *equals = strchr(word, '=');
    return equals ? (size_t)(equals - word) : 0;
}

static bool is_same_input(const char *a, const char *b) {
    const size_t length = name_length(a);
    return length == name_length(b) && strncmp(a, b, length) == 0;
}

/* How many words before number i are for its input. */
static int count_before(const run_list *words, int i) {
    int count = 0;
    for (int k = 0; k < i; k++) count += is_same_input(words->items[k], words->items[i]);
    return count;
}

static int count_sets(const run_options *o) {
    int count = o->sets > 1 ? (int)o->sets : 1;
    for (int i = 0; i < o->inputs.count; i++) {
        const int place = count_before(&o->inputs, i) + 1;
        if (place > count) count = place;
    }
    return count;
}

/* The files of one set: of each input its file of that number, or the last one that it has. */
static void choose_files(const run_list *words, int set, run_list *chosen) {
    chosen->count = 0;
    for (int i = 0; i < words->count; i++) {
        int later = 0;
        for (int k = i + 1; k < words->count; k++) later += is_same_input(words->items[k], words->items[i]);
        const int place = count_before(words, i);
        if (place == set || (place < set && later == 0)) chosen->items[chosen->count++] = words->items[i];
    }
}

static int make_set(audit_sets *sets, const run_model *m, const run_options *o, int set, const char **room) {
    run_options of = *o;
    of.inputs.items = room;
    choose_files(&o->inputs, set, &of.inputs);
    of.seed = o->seed + set;
    run_inputs *in = &sets->items[set];
    sets->count = set + 1;
    int code = run_inputs_make(in, m, &of);
    for (int i = 0; i < in->count; i++) in->items[i].shape_text = NULL;
    if (code) return code;
    sets->f32[set] = calloc((size_t)m->output_count + 1, sizeof(amp_tensor *));
    if (!sets->f32[set]) return run_no_memory();
    run_progress("set %d: f32", set + 1);
    return run_once(m, in, RUN_F32, AMP_DEVICE_CPU, sets->f32[set]) == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

int audit_sets_make(audit_sets *sets, const run_model *m, const run_options *o) {
    const int count = count_sets(o);
    const char **room = calloc((size_t)o->inputs.count + 1, sizeof *room);
    sets->items = calloc((size_t)count, sizeof *sets->items);
    sets->f32 = calloc((size_t)count, sizeof *sets->f32);
    int code = room && sets->items && sets->f32 ? AMP_EXIT_OK : run_no_memory();
    for (int set = 0; !code && set < count; set++) code = make_set(sets, m, o, set, room);
    free(room);
    return code;
}

void audit_sets_free(audit_sets *sets, const run_model *m) {
    for (int set = 0; set < sets->count; set++) {
        for (int i = 0; sets->f32[set] && i < m->output_count; i++) amp_release(sets->f32[set][i]);
        free(sets->f32[set]);
        run_inputs_free(&sets->items[set]);
    }
    free(sets->items);
    free(sets->f32);
    *sets = (audit_sets){0};
}

/* ---- Accuracy ------------------------------------------------------------------------------------------------------ */
static void take_worse(audit_accuracy *a, const run_comparison *c, int output) {
    if (!(c->cosine >= a->cosine)) {
        a->cosine = c->cosine;
        a->output = output;
    }
    if (!(c->largest <= a->error)) a->error = c->largest;
}

static int compare(audit_accuracy *a, const run_model *m, amp_tensor *const *f32, amp_tensor *const *outputs) {
    for (int i = 0; i < m->output_count; i++) {
        run_comparison c;
        if (!amp_dtype_is_floating(amp_tensor_dtype(f32[i]))) continue;
        const int code = run_compare(&c, f32[i], outputs[i]);
        if (code) return code;
        if (!c.same_shape)
            return run_fail(AMP_EXIT_FAILED, "output '%s' has another shape in bf16, as its size depends on values",
                            m->outputs[i].name);
        take_worse(a, &c, i);
    }
    return AMP_EXIT_OK;
}

static int measure_set(audit_accuracy *a, const audit_sets *sets, const run_model *m, int set, amp_tensor **outputs) {
    if (run_once(m, &sets->items[set], RUN_BF16, AMP_DEVICE_CPU, outputs) != AMP_OK) return run_fail_amp();
    const int code = compare(a, m, sets->f32[set], outputs);
    for (int i = 0; i < m->output_count; i++) {
        amp_release(outputs[i]);
        outputs[i] = NULL;
    }
    return code;
}

int audit_measure(audit_accuracy *a, const audit_sets *sets, const run_model *m, const run_options *o,
                  const amp_autocast_rules *rules) {
    amp_tensor **outputs = calloc((size_t)m->output_count + 1, sizeof *outputs);
    int code = AMP_EXIT_OK;
    *a = (audit_accuracy){.cosine = 1};
    if (!outputs) return run_no_memory();
    run_use_rules(rules);
    for (int set = 0; !code && set < sets->count; set++) code = measure_set(a, sets, m, set, outputs);
    run_use_rules(NULL);
    free(outputs);
    a->good = (o->cosine == 0 || a->cosine >= o->cosine) && (o->error == 0 || a->error <= o->error);
    return code;
}

/* ---- Time ---------------------------------------------------------------------------------------------------------- */
enum { ROUNDS = 15, LEAST_ROUNDS = 5 };

static int time_round(run_times times[AUDIT_TIMES], const run_inputs *in, const run_model *m,
                      const amp_autocast_rules *rules, amp_tensor **room) {
    for (int kind = 0; kind < AUDIT_TIMES; kind++) {
        double ms;
        run_use_rules(kind == AUDIT_WITH ? rules : NULL);
        const int code = run_timed(m, in, kind == AUDIT_F32 ? RUN_F32 : RUN_BF16, AMP_DEVICE_CPU, room, &ms);
        run_use_rules(NULL);
        if (code) return code;
        if (!run_times_add(&times[kind], ms)) return run_no_memory();
    }
    return AMP_EXIT_OK;
}

int audit_time(double ms[AUDIT_TIMES], const audit_sets *sets, const run_model *m, const run_options *o,
               const amp_autocast_rules *rules) {
    run_times times[AUDIT_TIMES] = {{0}};
    amp_tensor **room = calloc((size_t)m->output_count + 1, sizeof *room);
    const double start = run_milliseconds();
    int code = room ? AMP_EXIT_OK : run_no_memory();
    for (int i = 0; !code && i < ROUNDS; i++) {
        code = time_round(times, &sets->items[0], m, rules, room);
        if (i == 0) /* which makes the nets */
            for (int kind = 0; kind < AUDIT_TIMES; kind++) times[kind].count = 0;
        if (i >= LEAST_ROUNDS && run_milliseconds() - start > 1e3 * o->seconds / 4) break;
    }
    for (int kind = 0; kind < AUDIT_TIMES; kind++) {
        run_times_sort(&times[kind]);
        if (!code) ms[kind] = run_quantile(&times[kind], 0.5);
        free(times[kind].ms);
    }
    free(room);
    return code;
}
