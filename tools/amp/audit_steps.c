/* amp audit: the steps of a graph, and the error of each. */
#define _GNU_SOURCE /* asprintf, qsort_r */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "audit.h"

typedef struct watching {
    audit_steps *steps;
    amp_tensor *const *f32; /* the model's outputs */
    bool first;             /* steps are made */
    bool differs;           /* from the first set's */
    bool full;              /* no memory */
} watching;

/* ---- Differences --------------------------------------------------------------------------------------------------- */
static float *floats_of(const amp_tensor *t) {
    const size_t bytes = (size_t)amp_tensor_numel(t) * sizeof(float);
    float *values = malloc(bytes + 1);
    if (values && amp_read(t, AMP_F32, values, bytes) == AMP_OK) return values;
    free(values);
    return NULL;
}

static double squares_of(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)a[i] - (b ? (double)b[i] : 0);
        if (isfinite(d)) sum += d * d;
        if (!isfinite(d) && b && !(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))) return INFINITY;
    }
    return sum;
}

static bool is_compared(const amp_graph_operand *o) {
    return o->tensor && o->f32 && o->local && amp_dtype_is_floating(amp_tensor_dtype(o->f32)) &&
           amp_dtype_is_floating(amp_tensor_dtype(o->tensor));
}

static double relative(double squares, double of) {
    return squares == 0 ? 0 : sqrt(squares) / (of > 0 ? sqrt(of) : 1);
}

/* An output of the steps in f32 against the model's. */
static void note_off(audit_steps *steps, const float *f32, const amp_tensor *output, int64_t count) {
    float *wanted = amp_tensor_numel(output) == count ? floats_of(output) : NULL;
    const double off = wanted ? relative(squares_of(f32, wanted, count), squares_of(wanted, NULL, count)) : 0;
    if (off > steps->off) steps->off = off;
    free(wanted);
}

/* Adds a result's squares to the step's. */
static amp_status add_result(const watching *w, audit_step *step, const amp_graph_operand *o) {
    const int64_t count = amp_tensor_numel(o->f32);
    float *f32 = floats_of(o->f32), *local = f32 ? floats_of(o->local) : NULL;
    float *carried = local ? floats_of(o->tensor) : NULL;
    if (carried) {
        step->squares += squares_of(f32, NULL, count);
        step->local_squares += squares_of(local, f32, count);
        step->carried_squares += squares_of(carried, f32, count);
    }
    if (carried && o->output >= 0) note_off(w->steps, f32, w->f32[o->output], count);
    free(f32);
    free(local);
    const bool good = carried != NULL;
    free(carried);
    return good ? AMP_OK : AMP_ERROR_MEMORY;
}

/* ---- Watching ------------------------------------------------------------------------------------------------------ */
/* A policy file has one line for each, in which no line can end. */
static bool is_writable(const char *place) {
    for (; *place; place++) {
        if ((unsigned char)*place < 0x20 || *place == 0x7f) return false;
    }
    return true;
}

static char *join(const amp_graph_step *step, bool *can_be_kept) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    *can_be_kept = step->place_count > 0;
    for (int i = 0; i < step->place_count; i++) {
        fprintf(out, "%s%s", i ? "\n" : "", step->places[i]);
        *can_be_kept = *can_be_kept && is_writable(step->places[i]);
    }
    return fclose(out) == 0 ? text : NULL;
}

static bool make_step(audit_steps *steps, const amp_graph_step *step) {
    if (!steps->items) steps->items = calloc((size_t)step->count, sizeof *steps->items);
    if (!steps->items) return false;
    audit_step *made = &steps->items[steps->count++];
    made->with = -1;
    made->places = join(step, &made->can_be_kept);
    if (asprintf(&made->op, "%s%s%s", step->op, *step->overload ? "." : "", step->overload) < 0) made->op = NULL;
    if (step->result_count > 0 && step->results[0].tensor) made->dtype = amp_tensor_dtype(step->results[0].tensor);
    return made->op && made->places;
}

static amp_status note(void *context, const amp_graph_step *step) {
    watching *w = context;
    if (w->first && !make_step(w->steps, step)) {
        w->full = true;
        return AMP_ERROR_MEMORY;
    }
    w->differs = step->number >= w->steps->count || step->count != w->steps->count;
    if (w->first) w->differs = false;
    if (w->differs) return AMP_ERROR_INVALID;
    audit_step *mine = &w->steps->items[step->number];
    mine->seconds += step->seconds;
    for (int i = 0; i < step->result_count; i++) {
        if (!is_compared(&step->results[i]) || add_result(w, mine, &step->results[i]) == AMP_OK) continue;
        w->full = amp_last_status() == AMP_OK;
        return AMP_ERROR_MEMORY;
    }
    return AMP_OK;
}

static amp_status watch(watching *w, const run_model *m, const run_inputs *in, const amp_autocast_rules *rules,
                        amp_tensor **outputs) {
    const amp_graph_watcher watcher = {.struct_size = sizeof watcher, .step = note, .context = w, .beside_f32 = true};
    const amp_autocast_args region = {
        .struct_size = sizeof region, .device = AMP_DEVICE_CPU, .dtype = AMP_BF16, .rules = rules};
    (void)amp_autocast_enter(&region);
    const amp_status status = amp_graph_watch(m->graph, in->tensors, in->count, outputs, m->output_count, &watcher);
    (void)amp_autocast_exit(AMP_DEVICE_CPU);
    return status;
}

int audit_watch(audit_steps *steps, const run_model *m, const run_inputs *in, amp_tensor *const *f32,
                const amp_autocast_rules *rules) {
    watching w = {.steps = steps, .f32 = f32, .first = steps->count == 0};
    amp_tensor **outputs = calloc((size_t)m->output_count + 1, sizeof *outputs);
    if (!outputs) return run_no_memory();
    const amp_status status = watch(&w, m, in, rules, outputs);
    for (int i = 0; i < m->output_count; i++) amp_release(outputs[i]);
    free(outputs);
    if (status == AMP_OK) return AMP_EXIT_OK;
    if (w.full || w.differs) amp_clear_error();
    if (w.full) return run_no_memory();
    if (w.differs)
        return run_fail(AMP_EXIT_USAGE, "one set of inputs makes other steps than another; give sets of one shape");
    return run_fail_amp();
}

void audit_steps_end(audit_steps *steps) {
    for (int i = 0; i < steps->count; i++) {
        audit_step *s = &steps->items[i];
        s->local = relative(s->local_squares, s->squares);
        s->carried = relative(s->carried_squares, s->squares);
    }
}

void audit_steps_free(audit_steps *steps) {
    for (int i = 0; i < steps->count; i++) {
        free(steps->items[i].op);
        free(steps->items[i].places);
    }
    free(steps->items);
    *steps = (audit_steps){0};
}

/* ---- Order --------------------------------------------------------------------------------------------------------- */
static int by_local(const void *a, const void *b, void *context) {
    const audit_step *steps = context, *x = &steps[*(const int *)a], *y = &steps[*(const int *)b];
    if (x->local != y->local) return x->local < y->local ? 1 : -1;
    return *(const int *)a - *(const int *)b;
}

int *audit_rank(const audit_steps *steps) {
    int *rank = malloc(((size_t)steps->count + 1) * sizeof *rank);
    for (int i = 0; rank && i < steps->count; i++) rank[i] = i;
    if (rank) qsort_r(rank, (size_t)steps->count, sizeof *rank, by_local, steps->items);
    return rank;
}
