/* amp explain model.onnx: what is told of each step: where it comes from, what goes in and out, why it runs in that
 * type and by that kernel; and the table of all. */
#include <stdlib.h>
#include <string.h>

#include "page.h"

static const char *text_of(const json_t *record, const char *key) {
    return json_string_value(json_object_get(record, key));
}

static int count_of(const json_t *record, const char *key) {
    return (int)json_integer_value(json_object_get(record, key));
}

/* ---- Where it comes from ----------------------------------------------------------------------------------------- */
enum { MOST_PLACES = 12 };

static void write_places(FILE *out, const page_step *step) {
    fputs("<h4>From the model’s nodes</h4>\n<ul class=\"from\">", out);
    for (int i = 0; i < step->place_count && i < MOST_PLACES; i++) {
        fputs("<li><code>", out);
        page_text(out, step->places[i]);
        fputs("</code></li>", out);
    }
    if (step->place_count > MOST_PLACES) fprintf(out, "<li>and %d more</li>", step->place_count - MOST_PLACES);
    fputs("</ul>\n", out);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */
static void write_tensor(FILE *out, const page_operand *o) {
    fputs("<tr><td>", out);
    page_text(out, o->argument);
    fprintf(out, "</td><td><span class=\"t-%s\">%s</span> ", page_class(o->dtype), amp_dtype_name(o->dtype));
    page_text(out, o->shape);
    fputs(o->is_channels_last ? ", channels last" : "", out);
    fputs("</td><td>", out);
}

static void write_name(FILE *out, const char *name) {
    char *copy = strdup(name);
    if (copy) run_clean(copy);
    page_text(out, copy ? copy : "");
    free(copy);
}

static void write_link(FILE *out, const page *p, int step) {
    fprintf(out, "<a href=\"#s%d\">%d: %s</a>", step, step, p->steps[p->shown].items[step].op);
}

static void write_source(FILE *out, const page *p, const page_operand *o) {
    if (o->is_constant) {
        fputs("a constant", out);
    } else if (o->input >= 0) {
        fputs("input ", out);
        write_name(out, p->report->model->inputs[o->input].name);
    } else if (o->value >= 0 && p->values.maker[o->value] >= 0) {
        write_link(out, p, p->values.maker[o->value]);
    }
}

enum { MOST_READERS = 24 };

static void write_readers(FILE *out, const page *p, const page_operand *o) {
    const page_values *v = &p->values;
    int count = 0;
    for (int at = o->value >= 0 ? v->first[o->value] : -1; at >= 0; at = v->next[at]) {
        if (count == MOST_READERS) fputs(", …", out);
        if (count < MOST_READERS && count > 0) fputs(", ", out);
        if (count < MOST_READERS) write_link(out, p, v->reader[at]);
        count++;
    }
    if (o->output < 0) return;
    fputs(count ? ", output " : "output ", out);
    write_name(out, p->report->model->outputs[o->output].name);
}

static void write_tensors(FILE *out, const page *p, const page_step *step) {
    fputs("<h4>Reads</h4>\n<table>", out);
    for (int i = 0; i < step->operand_count; i++) {
        if (step->operands[i].dtype == AMP_DTYPE_NONE) continue;
        write_tensor(out, &step->operands[i]);
        write_source(out, p, &step->operands[i]);
        fputs("</td></tr>", out);
    }
    fputs("</table>\n<h4>Makes</h4>\n<table>", out);
    for (int i = 0; i < step->result_count; i++) {
        if (step->results[i].dtype == AMP_DTYPE_NONE) continue;
        write_tensor(out, &step->results[i]);
        write_readers(out, p, &step->results[i]);
        fputs("</td></tr>", out);
    }
    fputs("</table>\n", out);
}

static void write_options(FILE *out, const json_t *record) {
    const json_t *options = json_object_get(record, "options");
    char *text = json_object_size(options) ? json_dumps(options, 0) : NULL;
    if (!text) return;
    const size_t length = strlen(text);
    if (length > 1) text[length - 1] = 0; /* without its braces */
    fputs("<p class=\"soft\">Options: <code>", out);
    page_text(out, text + 1);
    fputs("</code></p>\n", out);
    free(text);
}

/* ---- Why in this type -------------------------------------------------------------------------------------------- */
static const struct {
    const char *policy, *sentence;
} reasons[] = {
    {"lower", "On the list of ops that run in the lower type"},
    {"fp32", "On the list of ops that need f32"},
    {"fp32_set_opt_dtype", "On the list of ops that need f32: its option dtype is set to that"},
    {"fp32_append_dtype", "On the list of ops that need f32: its option dtype is set to that"},
    {"promote", "It takes arguments of one type: the widest among them"},
    {"fallthrough", "On no list: it runs in the type that its arguments have"},
    {"parts", "Left to the ops that it is made of: each follows its own rule"},
    {"banned", "An op that is not safe in the lower type"},
};

static const char *reason_of(const char *policy) {
    for (size_t i = 0; policy && i < sizeof reasons / sizeof *reasons; i++) {
        if (strcmp(reasons[i].policy, policy) == 0) return reasons[i].sentence;
    }
    return "";
}

/* Arguments that come in another floating type than the step computes in. */
static bool write_cast_list(FILE *out, const page_step *step) {
    const amp_dtype runs_in = page_runs_in(step);
    bool any = false;
    for (int i = 0; i < step->operand_count; i++) {
        const page_operand *o = &step->operands[i];
        if (o->dtype == AMP_DTYPE_NONE || o->dtype == runs_in) continue;
        if (!amp_dtype_is_floating(o->dtype) || !amp_dtype_is_floating(runs_in)) continue;
        fputs(any ? "<li><code>" : "<ul><li><code>", out);
        any = true;
        page_text(out, o->argument);
        fprintf(out, "</code>: %s → %s%s</li>", amp_dtype_name(o->dtype), amp_dtype_name(runs_in),
                o->is_constant ? ", a constant" : "");
    }
    if (any) fputs("</ul>\n", out);
    return any;
}

static void write_casts(FILE *out, const page_step *step) {
    static const struct {
        const char *key, *one, *several;
    } ways[] = {
        {"casts_made", "is converted in each run", "are converted in each run"},
        {"casts_cached", "was converted or packed before and is kept", "were converted or packed before and are kept"},
        {"casts_fused", "is converted by the kernel as it reads it", "are converted by the kernel as it reads them"},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) any = any || count_of(step->record, ways[i].key) > 0;
    if (!any) return;
    const char *before = write_cast_list(out, step) ? "Of these " : "Of the arguments ";
    fputs("<p>", out);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const int count = count_of(step->record, ways[i].key);
        if (count > 0) fprintf(out, "%s%d %s", before, count, count == 1 ? ways[i].one : ways[i].several);
        if (count > 0) before = ", ";
    }
    fputs(".</p>\n", out);
    if (json_is_true(json_object_get(step->record, "weight_of_op")))
        fputs("<p>A weight among them is the result of an op: its cast cannot be kept.</p>\n", out);
}

static void write_type(FILE *out, const page_step *step) {
    const char *bypass = text_of(step->record, "bypass"), *policy = text_of(step->record, "policy");
    const amp_dtype runs_in = page_runs_in(step);
    fputs("<h4>Why in this type</h4>\n<p>", out);
    if (runs_in != AMP_DTYPE_NONE)
        fprintf(out, "Runs in <b class=\"t-%s\">%s</b>. ", page_class(runs_in), amp_dtype_name(runs_in));
    if (!step->record) {
        fputs("Nothing was recorded of it.", out);
    } else if (bypass) {
        fputs("Autocast leaves it alone: ", out);
        page_text(out, bypass);
        fputs(".", out);
    } else if (policy) {
        fprintf(out, "%s (policy <code>%s</code>%s).", reason_of(policy), policy,
                json_is_true(json_object_get(step->record, "overridden")) ? ", by an override" : "");
    } else {
        fputs("No autocast: in the type that its arguments have.", out);
    }
    fputs("</p>\n", out);
    write_casts(out, step);
}

/* ---- Why by this kernel ------------------------------------------------------------------------------------------ */
static void write_refused(FILE *out, const json_t *record) {
    size_t i;
    json_t *refusal;
    const json_t *refused = json_object_get(record, "refused");
    if (json_array_size(refused) == 0) return;
    fputs("<p>Better ones that could not run:</p>\n<ul>", out);
    json_array_foreach(refused, i, refusal) {
        fputs("<li><code>", out);
        page_text(out, text_of(refusal, "kernel"));
        fputs("</code>: ", out);
        page_text(out, text_of(refusal, "reason"));
        fputs("</li>", out);
    }
    fputs("</ul>\n", out);
}

static void write_kernel(FILE *out, const page_step *step) {
    size_t i;
    json_t *part;
    const char *kernel = text_of(step->record, "kernel"), *isa = text_of(step->record, "isa");
    const json_t *parts = json_object_get(step->record, "parts");
    const bool chosen = json_array_size(json_object_get(step->record, "refused")) == 0;
    fputs("<h4>Kernel</h4>\n<p>", out);
    if (kernel) {
        fputs("<code>", out);
        page_text(out, kernel);
        fprintf(out, "</code>%s",
                strncmp(kernel, "dnnl:", 5) == 0 ? ", oneDNN’s: the faster one for these sizes"
                : isa && chosen                  ? ", the best of its family"
                                                 : "");
    } else if (json_array_size(parts) > 0) {
        fputs("Those of the ops that it is made of:", out);
        json_array_foreach(parts, i, part) {
            fputs(i ? ", <code>" : " <code>", out);
            page_text(out, json_string_value(part));
            fputs("</code>", out);
        }
    } else {
        fputs("None of its own: it makes a view, or moves elements.", out);
    }
    fputs("</p>\n", out);
    write_refused(out, step->record);
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */
/* The same step in f32; NULL: there is none, or it is this one. */
static const page_step *pair_of(const page *p, int number) {
    const int its = p->pairs ? p->pairs[number] : -1;
    return its >= 0 ? &p->steps[RUN_F32].items[its] : NULL;
}

static const double some_operations = 1e5; /* fewer say nothing */

static void write_times(FILE *out, const page *p, int number) {
    const page_steps *steps = &p->steps[p->shown];
    const page_step *step = &steps->items[number], *pair = pair_of(p, number);
    const page_unit unit = page_unit_of(steps);
    const double operations = json_number_value(json_object_get(step->record, "operations"));
    fprintf(out, "<p><b>%.3f %s</b> in %s, %.1f %% of all", unit.per_ms * step->ms, unit.name,
            p->shown == RUN_BF16 ? "bf16" : "f32", steps->ms > 0 ? 100 * step->ms / steps->ms : 0);
    if (pair) fprintf(out, "; %.3f %s in f32", unit.per_ms * pair->ms, unit.name);
    if (pair && step->ms > 0) fprintf(out, ": %.2f×", pair->ms / step->ms);
    fputs("</p>\n", out);
    if (operations >= some_operations && step->ms > 0)
        fprintf(out, "<p class=\"soft\">%.1f million operations, %.0f GFLOP/s</p>\n", operations / 1e6,
                operations / step->ms / 1e6);
}

static void write_article(FILE *out, const page *p, int number) {
    const page_step *step = &p->steps[p->shown].items[number];
    fprintf(out, "<article id=\"s%d\">\n<h3>%d: <code>%s%s%s</code></h3>\n", number, number, step->op,
            *step->overload ? "." : "", step->overload);
    write_times(out, p, number);
    write_type(out, step);
    write_kernel(out, step);
    write_tensors(out, p, step);
    write_options(out, step->record);
    if (step->place_count > 0) write_places(out, step);
    fputs("</article>\n", out);
}

/* ---- The table --------------------------------------------------------------------------------------------------- */
static int count_casts(const json_t *record) {
    return count_of(record, "casts_made");
}

/* Below 0: there is none. */
__attribute__((format(printf, 3, 0))) static void write_time_cell(FILE *out, double value, const char *format) {
    fprintf(out, "<td class=\"n\" data-v=\"%.6f\">", value);
    if (value >= 0) fprintf(out, format, value);
    fputs(value >= 0 ? "</td>" : "–</td>", out);
}

static void write_row(FILE *out, const page *p, int number) {
    const page_steps *steps = &p->steps[p->shown];
    const page_step *step = &steps->items[number], *pair = pair_of(p, number);
    const page_unit unit = page_unit_of(steps);
    const page_operand *result = step->result_count > 0 ? &step->results[0] : NULL;
    const amp_dtype runs_in = page_runs_in(step);
    const char *kernel = text_of(step->record, "kernel"), *part = NULL;
    if (!kernel) part = json_string_value(json_array_get(json_object_get(step->record, "parts"), 0));
    fprintf(out,
            "<tr id=\"r%d\"><td class=\"n\" data-v=\"%d\">%d</td><td><a href=\"#s%d\"><code>%s</code></a></td><td>",
            number, number, number, number, step->op);
    if (result && result->dtype != AMP_DTYPE_NONE) fprintf(out, "%s ", amp_dtype_name(result->dtype));
    if (result && result->shape) page_text(out, result->shape);
    fprintf(out, "</td><td class=\"t-%s\">%s</td><td class=\"n\" data-v=\"%d\">%.0d</td><td><code>",
            page_class(runs_in), runs_in == AMP_DTYPE_NONE ? "" : amp_dtype_name(runs_in), count_casts(step->record),
            count_casts(step->record));
    page_text(out, kernel ? kernel : part ? part : "");
    fputs(part ? " …" : "", out);
    fputs("</code></td>", out);
    write_time_cell(out, unit.per_ms * step->ms, "%.3f");
    if (p->pairs) write_time_cell(out, pair ? unit.per_ms * pair->ms : -1, "%.3f");
    if (p->pairs) write_time_cell(out, pair && step->ms > 0 ? pair->ms / step->ms : -1, "%.2f×");
    write_time_cell(out, steps->ms > 0 ? 100 * step->ms / steps->ms : 0, "%.1f %%");
    fputs("</tr>\n", out);
}

static void write_table(FILE *out, const page *p) {
    const char *shown = p->shown == RUN_BF16 ? "bf16" : "f32", *unit = page_unit_of(&p->steps[p->shown]).name;
    fputs("<section>\n<h2>All steps, in their order</h2>\n<div class=\"all\"><table><thead><tr><th "
          "class=\"n\">#</th><th>op</th>"
          "<th>makes</th><th>runs in</th><th class=\"n\">casts</th><th>kernel</th>",
          out);
    fprintf(out, "<th class=\"n\">%s, %s</th>", shown, unit);
    if (p->pairs) fprintf(out, "<th class=\"n\">f32, %s</th><th class=\"n\">speed-up</th>", unit);
    fputs("<th class=\"n\">share</th></tr></thead><tbody>\n", out);
    for (int i = 0; i < p->steps[p->shown].count; i++) write_row(out, p, i);
    fputs("</tbody></table></div>\n</section>\n", out);
}

void page_write_steps(FILE *out, const page *p) {
    fputs("<div class=\"told\">\n<p class=\"hint soft\">Choose a step in the graph or in the table below: its shapes "
          "and types, "
          "the reason for each cast and for its kernel stand here.</p>\n",
          out);
    for (int i = 0; i < p->steps[p->shown].count; i++) write_article(out, p, i);
    fputs("</div>\n</div>\n</section>\n", out); /* of page_write_graph */
    write_table(out, p);
}
