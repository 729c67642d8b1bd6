/* amp audit: the report, for people and for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/system.h"
#include "amp/tensor.h"
#include "amp/version.h"
#include "audit.h"

enum { MOST_ROWS = 20, MOST_KEPT = 40, MOST_PLACE = 48 };

static const double MOST_OFF = 1e-3; /* that nothing is said of */

/* ---- For people ---------------------------------------------------------------------------------------------------- */
static int print_figures(const audit_report *r) {
    static const bool right[] = {false, true, true, true};
    run_table t = {.columns = 4, .right = right};
    const bool with = r->kept > 0;
    const char *heads[] = {"", "f32", "bf16", with ? "with the policy" : ""};
    for (int i = 0; i < 4; i++) run_cell(&t, "%s", heads[i]);
    run_cell(&t, "%s", "least cosine of an output");
    run_cell(&t, "%s", "");
    run_cell(&t, "%.7f", r->before.cosine);
    with ? run_cell(&t, "%.7f", r->after.cosine) : run_cell(&t, "%s", "");
    run_cell(&t, "%s", "its largest error");
    run_cell(&t, "%s", "");
    run_cell(&t, "%.3g", r->before.error);
    with ? run_cell(&t, "%.3g", r->after.error) : run_cell(&t, "%s", "");
    run_cell(&t, "%s", "median, ms");
    for (int i = 0; i < AUDIT_WITH; i++) run_cell(&t, "%.*f", run_digits_of(r->ms[i]), r->ms[i]);
    with ? run_cell(&t, "%.*f", run_digits_of(r->ms[AUDIT_WITH]), r->ms[AUDIT_WITH]) : run_cell(&t, "%s", "");
    return run_table_end(&t);
}

/* The first place, and that there are more. */
static void place_cell(run_table *t, const audit_step *s) {
    const size_t length = strcspn(s->places, "\n");
    const size_t skipped = length > MOST_PLACE ? length - MOST_PLACE : 0;
    run_cell(t, "%s%.*s%s", skipped ? "…" : "", (int)(length - skipped), s->places + skipped,
             s->places[length] ? ", …" : "");
}

static void step_row(run_table *t, const audit_step *s, int number) {
    run_cell(t, "%d", number);
    run_cell(t, "%.2e", s->local);
    run_cell(t, "%.2e", s->carried);
    run_cell(t, "%s", s->kept ? "f32" : "");
    run_cell(t, "%s", s->op);
    place_cell(t, s);
}

static int print_steps(const audit_report *r) {
    static const bool right[] = {true, true, true, false, false, false};
    static const char *const heads[] = {"step", "adds", "carries", "policy", "op", "node"};
    run_table t = {.columns = 6, .right = right};
    int shown = 0, left_out = 0;
    for (int i = 0; i < 6; i++) run_cell(&t, "%s", heads[i]);
    for (int i = 0; i < r->steps.count; i++) {
        const audit_step *s = &r->steps.items[r->rank[i]];
        if (s->local == 0) continue;
        if (shown >= (s->kept ? MOST_KEPT : MOST_ROWS)) {
            left_out++;
            continue;
        }
        step_row(&t, s, r->rank[i]);
        shown++;
    }
    const int code = run_table_end(&t);
    if (!code && left_out > 0) printf("  … %d more; --json lists all\n", left_out);
    return code;
}

static int count_adding(const audit_steps *steps) {
    int count = 0;
    for (int i = 0; i < steps->count; i++) count += steps->items[i].local > 0;
    return count;
}

static void print_wish(const audit_report *r) {
    const run_options *o = r->options;
    if (o->cosine > 0) printf("cosine %.9g", o->cosine);
    if (o->error > 0) printf("%serror %g", o->cosine > 0 ? ", " : "", o->error);
}

int audit_print(const audit_report *r) {
    const int adding = count_adding(&r->steps);
    char *model = strdup(r->options->model);
    if (!model) return run_no_memory();
    run_clean(model);
    printf("%s: %d steps, %d of them add an error; %d %s of inputs\n\n", model, r->steps.count, adding, r->sets->count,
           r->sets->count == 1 ? "set" : "sets");
    free(model);
    int code = print_figures(r);
    if (code) return code;
    printf("\nAsked for: ");
    print_wish(r);
    if (r->before.good) {
        puts(". It is so without a policy.");
    } else if (r->after.good) {
        printf(". For that %d %s in f32 (%d policies tried%s).\n", r->kept, r->kept == 1 ? "step stays" : "steps stay",
               r->tried, r->gave_up_early ? "; the time was over before all was left out that could be" : "");
    } else {
        printf(". Not reached, with %d steps in f32.\n", r->kept);
    }
    if (r->steps.off > MOST_OFF)
        printf("The steps were held against an f32 that is itself %.1e off the model's: what bf16's graph fuses "
               "otherwise.\n",
               r->steps.off);
    puts("\nSteps that add most error, relative to f32's result:\n");
    code = print_steps(r);
    const bool written = r->after.good && r->options->output;
    if (!code && (written || r->options->page)) putchar('\n');
    if (!code && written) printf("Written %s: amp run --policy, amp_autocast_rules_load\n", r->options->output);
    if (!code && r->options->page) printf("Written %s\n", r->options->page);
    return code;
}

/* ---- For programs -------------------------------------------------------------------------------------------------- */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null(); /* JSON has no others */
}

static json_t *text(const char *value, size_t length) {
    char *copy = strndup(value, length);
    if (!copy) return NULL;
    run_clean(copy);
    json_t *string = json_string(copy);
    free(copy);
    return string;
}

static json_t *accuracy_json(const audit_report *r, const audit_accuracy *a, double ms) {
    json_t *object = json_object();
    const char *output = r->model->output_count > 0 ? r->model->outputs[a->output].name : "";
    json_object_set_new(object, "cosine", number(a->cosine));
    json_object_set_new(object, "largest_error", number(a->error));
    json_object_set_new(object, "worst_output", text(output, strlen(output)));
    json_object_set_new(object, "median_ms", number(ms));
    return object;
}

static json_t *step_json(const audit_step *s, int number_of) {
    json_t *object = json_object(), *nodes = json_array();
    for (const char *place = s->places; *place;) {
        const size_t length = strcspn(place, "\n");
        json_array_append_new(nodes, text(place, length));
        place += length + (place[length] == '\n');
    }
    json_object_set_new(object, "step", json_integer(number_of));
    json_object_set_new(object, "op", text(s->op, strlen(s->op)));
    json_object_set_new(object, "nodes", nodes);
    json_object_set_new(object, "dtype", json_string(s->dtype == AMP_DTYPE_NONE ? "" : amp_dtype_name(s->dtype)));
    json_object_set_new(object, "adds", number(s->local));
    json_object_set_new(object, "carries", number(s->carried));
    json_object_set_new(object, "carries_with_policy", s->with < 0 ? json_null() : number(s->with));
    json_object_set_new(object, "kept_in_f32", json_boolean(s->kept));
    json_object_set_new(object, "seconds", number(s->seconds));
    return object;
}

static json_t *report_json(const audit_report *r) {
    json_t *root = json_object(), *steps = json_array();
    for (int i = 0; i < r->steps.count; i++)
        json_array_append_new(steps, step_json(&r->steps.items[r->rank[i]], r->rank[i]));
    json_object_set_new(root, "model", text(r->options->model, strlen(r->options->model)));
    json_object_set_new(root, "libamp", json_string(amp_version_string()));
    json_object_set_new(root, "sets", json_integer(r->sets->count));
    json_object_set_new(root, "asked_cosine", r->options->cosine > 0 ? number(r->options->cosine) : json_null());
    json_object_set_new(root, "asked_error", r->options->error > 0 ? number(r->options->error) : json_null());
    json_object_set_new(root, "reached", json_boolean(r->after.good));
    json_object_set_new(root, "policies_tried", json_integer(r->tried));
    json_object_set_new(root, "tried_all", json_boolean(!r->gave_up_early));
    json_object_set_new(root, "kept", json_integer(r->kept));
    json_object_set_new(root, "f32_median_ms", number(r->ms[AUDIT_F32]));
    json_object_set_new(root, "before", accuracy_json(r, &r->before, r->ms[AUDIT_PLAIN]));
    json_object_set_new(root, "after", accuracy_json(r, &r->after, r->ms[AUDIT_WITH]));
    json_object_set_new(root, "f32_of_steps_off", number(r->steps.off));
    json_object_set_new(root, "steps", steps);
    return root;
}

int audit_print_json(const audit_report *r) {
    return run_print_root(report_json(r));
}
