/* amp run: running, in turns. */
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "machine/isa.h"
#include "policy/policy.h"
#include "run.h"

/* ---- The process ------------------------------------------------------------------------------------------------- */
static int use_isa(const char *name) {
    if (!name) return AMP_EXIT_OK;
    for (int i = 0; i < AMP_ISA_COUNT; i++) {
        if (strcmp(name, amp_isa_name((amp_isa)i)) != 0) continue;
        amp_isa_detect_again(name);
        if (amp_isa_usable((amp_isa)i)) return AMP_EXIT_OK;
        return run_fail(AMP_EXIT_USAGE, "--isa %s cannot be used: %s", name, amp_isa_reason((amp_isa)i));
    }
    return run_usage("'--isa' takes ref, avx2, avx512, avx512bf16 or amx, not '%s'", name);
}

static const amp_autocast_rules *rules;

void run_use_rules(const amp_autocast_rules *in_force) {
    rules = in_force;
}

const char *run_unmet_rule(void) {
    return amp_autocast_rules_unmet(rules);
}

static int use_policy(const char *file) {
    if (file) rules = amp_autocast_rules_load(file); /* to the process's end */
    return file && !rules ? run_fail_amp() : AMP_EXIT_OK;
}

int run_set_up(const run_options *o) {
    if (o->cpu_time) run_use_cpu_time();
    int code = use_isa(o->isa);
    if (!code) code = use_policy(o->policy);
    if (code) return code;
    if (amp_isa_status() != AMP_OK || amp_policy_environment() != AMP_OK) return run_fail_amp();
    if (o->threads > 0 && amp_set_num_threads((int)o->threads) != AMP_OK) return run_fail_amp();
    const char *reason;
    if (amp_device_is_usable(o->device, &reason)) return AMP_EXIT_OK;
    return run_fail(AMP_EXIT_USAGE, "--device %s cannot be used: %s", amp_device_name(o->device), reason);
}

/* ---- Runs -------------------------------------------------------------------------------------------------------- */
static void begin(run_kind kind, amp_device device) {
    if (kind == RUN_BF16)
        (void)amp_autocast_enter(&(amp_autocast_args){
            .struct_size = sizeof(amp_autocast_args), .device = device, .dtype = AMP_BF16, .rules = rules});
}

static amp_status end(run_kind kind, amp_device device) {
    if (kind == RUN_BF16) (void)amp_autocast_exit(device);
    if (device == AMP_DEVICE_CUDA) (void)amp_cuda_synchronize();
    return amp_last_status();
}

amp_status run_prepare(const run_model *m, const run_inputs *in, run_kind kind, amp_device device) {
    begin(kind, device);
    (void)amp_graph_prepare(m->graph, in->tensors, in->count);
    return end(kind, device);
}

amp_status run_once(const run_model *m, const run_inputs *in, run_kind kind, amp_device device, amp_tensor **outputs) {
    begin(kind, device);
    (void)amp_graph_run(m->graph, in->tensors, in->count, outputs, m->output_count);
    return end(kind, device);
}

enum { LEAST_RUNS = 3, PATIENCE = 250, MANY_BYTES = 30000000 }; /* of each; ms between lines of progress */

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

static int keep_outputs(run_results *r, const run_model *m, const run_inputs *in, run_kind kind, amp_device device) {
    r->outputs[kind] = calloc((size_t)m->output_count + 1, sizeof(amp_tensor *));
    if (!r->outputs[kind]) return run_no_memory();
    if (r->times[kind].first > 2 * PATIENCE || m->bytes > MANY_BYTES) run_progress("%s: the first run", names[kind]);
    return run_once(m, in, kind, device, r->outputs[kind]) == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

bool run_times_add(run_times *t, double ms) {              /* room doubles */
    const bool is_full = (t->count & (t->count - 1)) == 0; /* 0, 1, 2, 4, … */
    if (is_full) {
        double *more = realloc(t->ms, (t->count ? 2 * (size_t)t->count : 1) * sizeof *more);
        if (!more) return false;
        t->ms = more;
    }
    t->ms[t->count++] = ms;
    return true;
}

int run_timed(const run_model *m, const run_inputs *in, run_kind kind, amp_device device, amp_tensor **room,
              double *ms) {
    const double start = run_figure_milliseconds();
    const amp_status status = run_once(m, in, kind, device, room);
    *ms = run_figure_milliseconds() - start;
    for (int i = 0; i < m->output_count; i++) {
        amp_release(room[i]);
        room[i] = NULL;
    }
    return status == AMP_OK ? AMP_EXIT_OK : run_fail_amp();
}

static bool is_done(int64_t rounds, double ms, const run_options *o) {
    return rounds == o->runs || (rounds >= LEAST_RUNS && ms >= 1e3 * o->seconds);
}

static int run_in_turns(run_results *r, const run_model *m, const run_inputs *in, const run_options *o,
                        amp_tensor **room) {
    const double start = run_milliseconds();
    double now = start, said = start;
    for (int64_t rounds = 0; !is_done(rounds, now - start, o); rounds++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            double ms;
            if (!o->wanted[kind]) continue;
            const int code = run_timed(m, in, (run_kind)kind, o->device, room, &ms);
            if (code) return code;
            if (!run_times_add(&r->times[kind], ms)) return run_no_memory();
        }
        now = run_milliseconds();
        if (now - said < PATIENCE) continue;
        run_progress("round %lld, %.0f of %g s", (long long)rounds + 1, (now - start) / 1e3, o->seconds);
        said = now;
    }
    return AMP_EXIT_OK;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void run_times_sort(run_times *t) {
    if (t->count) qsort(t->ms, (size_t)t->count, sizeof *t->ms, ascending);
}

int run_measure(run_results *r, const run_model *m, const run_inputs *in, const run_options *o) {
    amp_tensor **room = calloc((size_t)m->output_count + 1, sizeof *room);
    int code = room ? AMP_EXIT_OK : run_no_memory();
    for (int kind = 0; !code && kind < RUN_KINDS; kind++) {
        if (o->wanted[kind]) code = keep_outputs(r, m, in, (run_kind)kind, o->device);
    }
    if (!code && r->before_turns) code = r->before_turns(r, m, r->context);
    if (!code) code = run_in_turns(r, m, in, o, room);
    for (int kind = 0; kind < RUN_KINDS; kind++) run_times_sort(&r->times[kind]);
    run_progress_end();
    free(room);
    return code;
}

void run_results_free(run_results *r, const run_model *m) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        for (int i = 0; r->outputs[kind] && i < m->output_count; i++) amp_release(r->outputs[kind][i]);
        free(r->outputs[kind]);
        free(r->times[kind].ms);
    }
    *r = (run_results){0};
}

/* ---- Figures ----------------------------------------------------------------------------------------------------- */
double run_quantile(const run_times *t, double part) {
    return t->ms[(int)(part * (t->count - 1) + 0.5)];
}

/* 1 grey, 3 colours, 4 with transparency; before height and width, or behind them. */
static bool holds_images(const run_input *in, amp_dtype dtype) {
    const int64_t *shape = in->shape;
    const bool first = shape[1] == 1 || shape[1] == 3 || shape[1] == 4;
    const bool last = shape[3] == 1 || shape[3] == 3 || shape[3] == 4;
    return in->rank == 4 && amp_dtype_is_floating(dtype) && (first || last);
}

static bool holds_tokens(const run_input *in, amp_dtype dtype) {
    return in->rank == 2 && (dtype == AMP_I64 || dtype == AMP_I32);
}

run_unit run_items(const run_inputs *in) {
    for (int i = 0; i < in->count; i++) {
        const run_input *input = &in->items[i];
        const amp_dtype dtype = amp_tensor_dtype(input->tensor);
        if (holds_images(input, dtype)) return (run_unit){"images", input->shape[0]};
        if (holds_tokens(input, dtype)) return (run_unit){"tokens", input->shape[0] * input->shape[1]};
    }
    for (int i = 0; i < in->count; i++) {
        if (in->items[i].rank > 0) return (run_unit){"items", in->items[i].shape[0]};
    }
    return (run_unit){"items", 0};
}
