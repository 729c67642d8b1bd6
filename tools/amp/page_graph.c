/* amp explain model.onnx: the graph, drawn as SVG: boxes coloured by the type that a step computes in, the fuller and
 * larger the more time it takes; lines coloured by the type that goes along them, dashed where it is cast. */
#include <math.h>
#include <stdlib.h>

#include "page.h"

static const page_steps *steps_of(const page *p) {
    return &p->steps[p->shown];
}

static bool is_cast(const page *p, const page_edge *e) {
    const page_node *to = &p->picture.nodes[e->to];
    if (to->kind != PAGE_STEP || !amp_dtype_is_floating(e->operand->dtype)) return false;
    const page_step *step = &steps_of(p)->items[to->index];
    const char *runs_in = json_string_value(json_object_get(step->record, "runs_in"));
    return runs_in && amp_dtype_is_floating(page_runs_in(step)) && page_runs_in(step) != e->operand->dtype;
}

static void write_step_number(FILE *out, const page *p, const char *name, int node) {
    const page_node *n = &p->picture.nodes[node];
    if (n->kind == PAGE_STEP) fprintf(out, " data-%s=\"%d\"", name, n->index);
}

static void write_edge(FILE *out, const page *p, const page_edge *e) {
    fprintf(out, "<path class=\"e %s%s\"", page_class(e->operand->dtype), is_cast(p, e) ? " cast" : "");
    write_step_number(out, p, "a", e->from);
    write_step_number(out, p, "b", e->to);
    fprintf(out, " d=\"M%.1f %.1f", e->points[0], e->points[1]);
    for (int i = 1; i + 3 <= e->point_count; i += 3) {
        fputc('C', out);
        for (int k = 0; k < 6; k++) fprintf(out, k ? " %.1f" : "%.1f", e->points[2 * i + k]);
    }
    fprintf(out, "\"><title>%s ", amp_dtype_name(e->operand->dtype));
    page_text(out, e->operand->shape);
    fputs(e->operand->is_channels_last ? ", channels last" : "", out);
    fputs(is_cast(p, e) ? ", read in another type</title></path>\n" : "</title></path>\n", out);
}

static void write_lines(FILE *out, const page_node *n, char *const *lines) {
    double y = n->y - n->height / 2 + 0.4 * n->font;
    for (int i = 0; i < PAGE_LINES; i++) {
        const double size = i == 0 ? n->font : 0.8 * n->font;
        if (!lines[i]) continue;
        y += i == 0 ? n->font : 1.1 * n->font;
        fprintf(out, "<text class=\"l%d\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\">", i, n->x, y, size);
        page_text(out, lines[i]);
        fputs("</text>", out);
    }
}

static void write_tip(FILE *out, const page *p, const page_node *n) {
    const page_step *step = &steps_of(p)->items[n->index];
    const char *kernel = json_string_value(json_object_get(step->record, "kernel"));
    fprintf(out, "<title>%d: %s", n->index, step->op);
    if (step->place_count > 0) fputs("\nfrom ", out);
    if (step->place_count > 0) page_text(out, step->places[0]);
    if (step->place_count > 1) fprintf(out, " and %d more", step->place_count - 1);
    fprintf(out, "\n%.3f %s", page_unit_of(steps_of(p)).per_ms * step->ms, page_unit_of(steps_of(p)).name);
    if (kernel) fputs("\n", out);
    if (kernel) page_text(out, kernel);
    fputs("</title>", out);
}

static void write_box(FILE *out, const page_node *n, double fill) {
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"%.1f\" fill-opacity=\"%.2f\"/>",
            n->x - n->width / 2, n->y - n->height / 2, n->width, n->height, n->kind == PAGE_STEP ? 5 : n->height / 2,
            fill);
}

static void write_node(FILE *out, const page *p, const page_node *n, double slowest) {
    char *lines[PAGE_LINES];
    page_node_lines(n, steps_of(p), p->report, lines);
    if (n->kind == PAGE_STEP) {
        const page_step *step = &steps_of(p)->items[n->index];
        fprintf(out, "<a class=\"n %s\" id=\"n%d\" href=\"#s%d\">", page_class(page_runs_in(step)), n->index, n->index);
        write_box(out, n, 0.1 + 0.5 * (slowest > 0 ? sqrt(step->ms / slowest) : 0));
        write_lines(out, n, lines);
        write_tip(out, p, n);
        fputs("</a>\n", out);
    } else {
        fputs("<g class=\"n end\">", out);
        write_box(out, n, 0);
        write_lines(out, n, lines);
        fprintf(out, "<title>%s of the model</title></g>\n", n->kind == PAGE_INPUT ? "an input" : "an output");
    }
    for (int i = 0; i < PAGE_LINES; i++) free(lines[i]);
}

static void write_picture(FILE *out, const page *p) {
    const page_picture *its = &p->picture;
    double slowest = 0;
    for (int i = 0; i < steps_of(p)->count; i++) slowest = fmax(slowest, steps_of(p)->items[i].ms);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"-8 -8 %.0f %.0f\" "
            "data-w=\"%.0f\" data-h=\"%.0f\">\n",
            its->width + 16, its->height + 16, its->width + 16, its->height + 16, its->width + 16, its->height + 16);
    for (int i = 0; i < its->edge_count; i++) write_edge(out, p, &its->edges[i]);
    for (int i = 0; i < its->node_count; i++) write_node(out, p, &its->nodes[i], slowest);
    fputs("</svg>\n", out);
}

void page_write_graph(FILE *out, const page *p) {
    fprintf(out, "<section>\n<h2>The steps that run in %s</h2>\n", p->shown == RUN_BF16 ? "bf16" : "f32");
    page_write_legend(out, p);
    fputs("<div class=\"bench\">\n<div class=\"pane\">\n", out);
    write_picture(out, p);
    fputs("</div>\n", out); /* the other half is page_write_steps' */
}
