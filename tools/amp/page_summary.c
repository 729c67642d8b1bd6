/* amp explain model.onnx: what stands on top of the page: figures, where the time goes by op, what the passes did. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

/* ---- Cards ------------------------------------------------------------------------------------------------------- */
static void write_time_card(FILE *out, const page *p, run_kind kind) {
    const run_times *t = &p->report->results->times[kind];
    if (!page_has(p, kind)) return;
    const bool is_short = run_quantile(t, 0.5) < 1;
    const double scale = is_short ? 1e3 : 1, median = scale * run_quantile(t, 0.5);
    const int digits = median < 10 ? 2 : 1;
    fprintf(out, "<div class=\"card\"><b class=\"t-%s\">%.*f %s</b><span>in %s, the median of %d</span>", names[kind],
            digits, median, is_short ? "µs" : "ms", names[kind], t->count);
    fprintf(out, "<span>80 %% between %.*f and %.*f</span></div>\n", digits, scale * run_quantile(t, 0.1), digits,
            scale * run_quantile(t, 0.9));
}

/* The cosine that is the least of all outputs'. */
static double least_cosine(const run_report *r) {
    double least = 1;
    for (int i = 0; i < r->model->output_count; i++) {
        const run_comparison *c = &r->comparisons[i];
        if (!c->same_shape || !isfinite(c->cosine)) return NAN;
        least = fmin(least, c->cosine);
    }
    return least;
}

static void write_speed_card(FILE *out, const page *p) {
    const run_times *t = p->report->results->times;
    if (!page_has(p, RUN_F32) || !page_has(p, RUN_BF16)) return;
    const double cosine = p->report->comparisons ? least_cosine(p->report) : NAN;
    fprintf(out, "<div class=\"card\"><b>%.2f×</b><span>bf16 against f32</span>",
            run_quantile(&t[RUN_F32], 0.5) / run_quantile(&t[RUN_BF16], 0.5));
    if (isfinite(cosine)) fprintf(out, "<span>results: cosine %.6f</span>", cosine);
    fputs("</div>\n", out);
}

typedef struct shares {
    double ms, operations, all_operations;
    int steps, casts;
} shares;

static double number_of(const json_t *record, const char *key) {
    return json_number_value(json_object_get(record, key));
}

static shares find_shares(const page_steps *steps) {
    shares s = {0};
    for (int i = 0; i < steps->count; i++) {
        const page_step *its = &steps->items[i];
        const double operations = number_of(its->record, "operations");
        s.all_operations += operations;
        s.casts += (int)number_of(its->record, "casts_made");
        if (page_runs_in(its) != AMP_BF16) continue;
        s.steps++;
        s.ms += its->ms;
        s.operations += operations;
    }
    return s;
}

static void write_share_card(FILE *out, const page *p) {
    const page_steps *steps = &p->steps[RUN_BF16];
    if (!page_has(p, RUN_BF16) || steps->count == 0) return;
    const shares s = find_shares(steps);
    fprintf(out, "<div class=\"card\"><b>%.0f %% bf16</b><span>of the time, %d of %d steps</span>",
            steps->ms > 0 ? 100 * s.ms / steps->ms : 0, s.steps, steps->count);
    if (s.all_operations > 0)
        fprintf(out, "<span>%.1f %% of the products’ work</span>", 100 * s.operations / s.all_operations);
    fprintf(out, "<span>%d separate cast%s a run</span></div>\n", s.casts, s.casts == 1 ? "" : "s");
}

static void write_cards(FILE *out, const page *p) {
    const page_steps *steps = &p->steps[p->shown];
    const run_times *t = &p->report->results->times[p->shown];
    const double ready = t->load + t->prepare;
    fputs("<div class=\"cards\">\n", out);
    write_time_card(out, p, RUN_BF16);
    write_time_card(out, p, RUN_F32);
    write_speed_card(out, p);
    write_share_card(out, p);
    fprintf(out, "<div class=\"card\"><b>%d steps</b><span>of the file’s %" PRId64 " nodes</span>", steps->count,
            p->report->model->nodes);
    if (steps->pass_count > 0 && steps->passes[0].before > 0)
        fprintf(out, "<span>%d calls before the passes</span>", steps->passes[0].before);
    fputs("</div>\n", out);
    if (t->load > 0)
        fprintf(out,
                "<div class=\"card\"><b>%.*f ms</b><span>to load and prepare; %.*f the first run</span><span>peak of "
                "memory %.0f "
                "MB</span></div>\n",
                ready < 10 ? 2 : 0, ready, t->first < 10 ? 2 : 0, t->first, t->peak_bytes / 1e6);
    fputs("</div>\n", out);
}

/* ---- Where the time goes ----------------------------------------------------------------------------------------- */
typedef struct total {
    const char *op;
    int calls;
    double ms[RUN_KINDS];
} total;

static total *total_of(total *all, int *count, const char *op) {
    for (int i = 0; i < *count; i++) {
        if (strcmp(all[i].op, op) == 0) return &all[i];
    }
    all[*count] = (total){.op = op};
    return &all[(*count)++];
}

static run_kind sorted_by;

static int slower_first(const void *a, const void *b) {
    const double x = ((const total *)a)->ms[sorted_by], y = ((const total *)b)->ms[sorted_by];
    return (x < y) - (x > y);
}

static total *find_totals(const page *p, int *count) {
    total *all = calloc((size_t)p->steps[RUN_F32].count + (size_t)p->steps[RUN_BF16].count + 1, sizeof *all);
    *count = 0;
    for (int kind = 0; all && kind < RUN_KINDS; kind++) {
        for (int i = 0; i < p->steps[kind].count; i++) {
            total *t = total_of(all, count, p->steps[kind].items[i].op);
            t->ms[kind] += p->steps[kind].items[i].ms;
            if (kind == (int)p->shown) t->calls++;
        }
    }
    sorted_by = p->shown;
    if (all) qsort(all, (size_t)*count, sizeof *all, slower_first);
    return all;
}

static void write_total(FILE *out, const page *p, const total *t, double most) {
    const bool both = page_has(p, RUN_F32) && page_has(p, RUN_BF16);
    const page_unit unit = page_unit_of(&p->steps[p->shown]);
    fprintf(out, "<tr><td><code>%s</code></td><td class=\"n\">%d</td><td class=\"bars\">", t->op, t->calls);
    for (int kind = RUN_KINDS; kind-- > 0;) {
        if (page_has(p, (run_kind)kind))
            fprintf(out, "<div class=\"bar %s\" style=\"width:%.1f%%\"></div>", names[kind],
                    most > 0 ? 100 * t->ms[kind] / most : 0);
    }
    fputs("</td>", out);
    for (int kind = RUN_KINDS; kind-- > 0;) {
        if (page_has(p, (run_kind)kind)) fprintf(out, "<td class=\"n\">%.3f</td>", unit.per_ms * t->ms[kind]);
    }
    if (both && t->ms[RUN_BF16] > 0) fprintf(out, "<td class=\"n\">%.2f×</td>", t->ms[RUN_F32] / t->ms[RUN_BF16]);
    if (both && t->ms[RUN_BF16] <= 0) fputs("<td class=\"n\">–</td>", out);
    fprintf(out, "<td class=\"n\">%.1f %%</td></tr>\n",
            p->steps[p->shown].ms > 0 ? 100 * t->ms[p->shown] / p->steps[p->shown].ms : 0);
}

static void write_totals(FILE *out, const page *p) {
    int count;
    double most = 0;
    total *all = find_totals(p, &count);
    fputs("<div>\n<h2>Where the time goes</h2>\n<table><thead><tr><th>op</th><th class=\"n\">steps</th><th></th>", out);
    for (int kind = RUN_KINDS; kind-- > 0;) {
        if (page_has(p, (run_kind)kind))
            fprintf(out, "<th class=\"n t-%s\">%s, %s</th>", names[kind], names[kind],
                    page_unit_of(&p->steps[p->shown]).name);
    }
    if (page_has(p, RUN_F32) && page_has(p, RUN_BF16)) fputs("<th class=\"n\">speed-up</th>", out);
    fprintf(out, "<th class=\"n\">of %s</th></tr></thead><tbody>\n", names[p->shown]);
    for (int i = 0; all && i < count; i++) most = fmax(most, fmax(all[i].ms[RUN_F32], all[i].ms[RUN_BF16]));
    for (int i = 0; all && i < count; i++) write_total(out, p, &all[i], most);
    fputs("</tbody></table>\n</div>\n", out);
    free(all);
}

/* ---- What the passes did ----------------------------------------------------------------------------------------- */
static const struct {
    const char *name, *what;
} told[] = {
    {"same", "calls that compute the same are one"},
    {"idioms", "several calls that are one op: GELU, layer_norm, SiLU, …"},
    {"epilogues", "batch norm, bias, sums and activations become part of the product, convolution or norm before them"},
    {"rounding", "results in f32 that every reader rounds are rounded where they are made"},
    {"casts", "casts of one value for several readers are one"},
    {"layout", "channels last from the first convolution on"},
};

static const char *what_of(const char *pass) {
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        if (strcmp(told[i].name, pass) == 0) return told[i].what;
    }
    return "";
}

static void write_passes(FILE *out, const page *p) {
    const page_steps *steps = &p->steps[p->shown];
    fputs("<div>\n<h2>What each pass did</h2>\n", out);
    if (steps->pass_count == 0) {
        fputs("<p class=\"soft\">None ran.</p>\n</div>\n", out);
        return;
    }
    fputs(
        "<table><thead><tr><th>pass</th><th class=\"n\">places</th><th class=\"n\">calls</th><th>what it does</th></tr>"
        "</thead><tbody>\n",
        out);
    for (int i = 0; i < steps->pass_count; i++) {
        const page_pass *pass = &steps->passes[i];
        fputs("<tr><td><code>", out);
        page_text(out, pass->name);
        fprintf(out, "</code></td><td class=\"n\">%d</td><td class=\"n\">%d → %d</td><td>", pass->places, pass->before,
                pass->after);
        page_text(out, what_of(pass->name));
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table>\n</div>\n", out);
}

/* ---- Inputs ------------------------------------------------------------------------------------------------------ */
static void write_inputs(FILE *out, const page *p) {
    fputs("<p class=\"soft\">Inputs: ", out);
    for (int i = 0; i < p->report->inputs->count; i++) {
        const run_input *input = &p->report->inputs->items[i];
        char *shape = run_input_text(input), *name = strdup(input->wanted->name);
        if (name) run_clean(name);
        fprintf(out, "%s<code>", i ? ", " : "");
        page_text(out, name ? name : "");
        fputs("</code> ", out);
        page_text(out, shape ? shape : "");
        fputs(input->source == RUN_RANDOM  ? " (made up)"
              : input->source == RUN_IMAGE ? " (an image)"
                                           : " (a file)",
              out);
        free(shape);
        free(name);
    }
    fputs(p->report->inputs->count ? "</p>\n" : "none</p>\n", out);
}

/* Runs that differ so much were kept waiting by others. */
static bool is_busy(const page *p) {
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        const run_times *t = &p->report->results->times[kind];
        if (page_has(p, (run_kind)kind) && run_quantile(t, 0.9) > 3 * run_quantile(t, 0.1)) return true;
    }
    return false;
}

void page_write_summary(FILE *out, const page *p) {
    fputs("<section>\n", out);
    write_cards(out, p);
    if (is_busy(p))
        fputs("<p>The runs differ by much: where others use the cores too, <code>OMP_WAIT_POLICY=passive</code> and "
              "fewer "
              "<code>--threads</code> help.</p>\n",
              out);
    write_inputs(out, p);
    fputs("<div class=\"two\">\n", out);
    write_totals(out, p);
    write_passes(out, p);
    fputs("</div>\n</section>\n", out);
}
