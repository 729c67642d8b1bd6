/* amp explain model.onnx: which boxes and lines there are, and where they stand if there is no dot: one below the other
 * in the order in which they run, lines that skip some to their left. */
#define _GNU_SOURCE /* asprintf */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */
static const double least_font = 11, most_font = 23, least_share = 0.005; /* of the time, that a box tells */

static const amp_graph_value *value_of(const page_node *node, const run_report *r) {
    return node->kind == PAGE_INPUT ? &r->model->inputs[node->index] : &r->model->outputs[node->index];
}

/* Names of files and people's are cut. */
static char *short_name(const char *name) {
    enum { MOST = 28 };
    char *its = NULL;
    if (asprintf(&its, "%.*s%s", MOST, name, strlen(name) > MOST ? "…" : "") < 0) return NULL;
    run_clean(its);
    return its;
}

static char *type_line(const page_operand *o) {
    char *line = NULL;
    if (!o || o->dtype == AMP_DTYPE_NONE) return NULL;
    return asprintf(&line, "%s %s", amp_dtype_name(o->dtype), o->shape) < 0 ? NULL : line;
}

static char *input_line(const run_input *input) {
    char *shape = run_input_text(input), *line = NULL;
    const amp_dtype dtype = input->wanted->dtype;
    if (!shape) return NULL;
    if (asprintf(&line, "%s %s", dtype == AMP_DTYPE_NONE ? "any" : amp_dtype_name(dtype), shape) < 0) line = NULL;
    free(shape);
    return line;
}

void page_node_lines(const page_node *node, const page_steps *steps, const run_report *r, char *lines[PAGE_LINES]) {
    lines[0] = lines[1] = lines[2] = NULL;
    if (node->kind != PAGE_STEP) {
        lines[0] = short_name(value_of(node, r)->name);
        if (node->kind == PAGE_INPUT) lines[1] = input_line(&r->inputs->items[node->index]);
        return;
    }
    const page_step *step = &steps->items[node->index];
    lines[0] = strdup(step->op);
    lines[1] = type_line(step->result_count > 0 ? &step->results[0] : NULL);
    const page_unit unit = page_unit_of(steps);
    const double time = unit.per_ms * step->ms;
    if (step->ms >= least_share * steps->ms &&
        asprintf(&lines[2], "%.*f %s · %.1f %%", time < 0.1 ? 3 : 2, time, unit.name, 100 * step->ms / steps->ms) < 0)
        lines[2] = NULL;
}

static int characters(const char *text) {
    int count = 0;
    for (; text && *text; text++) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* Sizes go with the root of the time, as areas do. */
static void size_node(page_node *node, const page_steps *steps, const run_report *r, double slowest) {
    char *lines[PAGE_LINES];
    const double ms = node->kind == PAGE_STEP ? steps->items[node->index].ms : 0;
    node->font = least_font + (most_font - least_font) * (slowest > 0 ? sqrt(ms / slowest) : 0);
    page_node_lines(node, steps, r, lines);
    node->height = 0.8 * node->font;
    for (int i = 0; i < PAGE_LINES; i++) {
        const double scale = i == 0 ? 0.64 : 0.64 * 0.8, width = scale * node->font * characters(lines[i]);
        if (width > node->width) node->width = width;
        if (lines[i]) node->height += (i == 0 ? 1.25 : 1.1) * node->font;
        free(lines[i]);
    }
    node->width += 1.6 * node->font;
}

static double slowest_of(const page_steps *steps) {
    double slowest = 0;
    for (int i = 0; i < steps->count; i++) slowest = fmax(slowest, steps->items[i].ms);
    return slowest;
}

static int make_nodes(page_picture *p, const page_steps *steps, const run_report *r) {
    const int inputs = r->model->input_count, outputs = r->model->output_count;
    const double slowest = slowest_of(steps);
    p->nodes = calloc((size_t)(inputs + steps->count + outputs) + 1, sizeof *p->nodes);
    if (!p->nodes) return run_no_memory();
    for (int i = 0; i < inputs; i++) p->nodes[p->node_count++] = (page_node){.kind = PAGE_INPUT, .index = i};
    for (int i = 0; i < steps->count; i++) p->nodes[p->node_count++] = (page_node){.kind = PAGE_STEP, .index = i};
    for (int i = 0; i < outputs; i++) p->nodes[p->node_count++] = (page_node){.kind = PAGE_OUTPUT, .index = i};
    for (int i = 0; i < p->node_count; i++) size_node(&p->nodes[i], steps, r, slowest);
    return AMP_EXIT_OK;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */
static bool add_edge(page_picture *p, int *room, int from, int to, const page_operand *operand) {
    if (p->edge_count == *room) {
        *room = *room ? 2 * *room : 64;
        page_edge *more = realloc(p->edges, (size_t)*room * sizeof *more);
        if (!more) return false;
        p->edges = more;
    }
    p->edges[p->edge_count++] = (page_edge){.from = from, .to = to, .operand = operand};
    return true;
}

static bool connect(page_picture *p, int *room, const page_values *values, const page_step *step, int node, int inputs,
                    int outputs) {
    for (int i = 0; i < step->operand_count; i++) {
        const page_operand *o = &step->operands[i];
        if (o->value < 0 || o->is_constant) continue;
        const int maker = values->maker[o->value], from = o->input >= 0 ? o->input : inputs + maker;
        if ((o->input >= 0 || maker >= 0) && !add_edge(p, room, from, node, o)) return false;
    }
    for (int i = 0; i < step->result_count; i++) {
        const page_operand *o = &step->results[i];
        if (o->output >= 0 && !add_edge(p, room, node, outputs + o->output, o)) return false;
    }
    return true;
}

static int make_edges(page_picture *p, const page_steps *steps, const page_values *values, const run_report *r) {
    const int inputs = r->model->input_count;
    int room = 0;
    for (int i = 0; i < steps->count; i++) {
        if (!connect(p, &room, values, &steps->items[i], inputs + i, inputs, inputs + steps->count))
            return run_no_memory();
    }
    return AMP_EXIT_OK;
}

/* ---- Without dot ------------------------------------------------------------------------------------------------- */
enum { MOST_LANES = 64 };

static const double gap = 14, lane_width = 9, margin = 12;

/* A lane to the left of the boxes that is free from one row to another; the last is shared. */
static int take_lane(int *free_from, int from, int to) {
    int lane = 0;
    while (lane < MOST_LANES - 1 && free_from[lane] > from) lane++;
    free_from[lane] = to;
    return lane;
}

static bool draw(page_edge *e, const double *points, int count) {
    e->points = malloc((size_t)count * 2 * sizeof *e->points);
    if (!e->points) return false;
    memcpy(e->points, points, (size_t)count * 2 * sizeof *points);
    e->point_count = count;
    return true;
}

static bool draw_down(page_edge *e, const page_node *a, const page_node *b) {
    const double x = fmin(a->x, b->x), y0 = a->y + a->height / 2, y1 = b->y - b->height / 2, y = (y0 + y1) / 2;
    const double points[] = {x, y0, x, y, x, y, x, y1};
    return draw(e, points, 4);
}

static bool draw_aside(page_edge *e, const page_node *a, const page_node *b, double left, int lane) {
    const double x = left - 6 - lane_width * (lane + 1), bend = 10;
    const double ax = a->x - a->width / 2, bx = b->x - b->width / 2;
    const double ay = a->y + a->height / 4, by = b->y - b->height / 4;
    const double points[] = {ax, ay,        x, ay,        x, ay, x, ay + bend, x,  by - bend,
                             x,  by - bend, x, by - bend, x, by, x, by,        bx, by};
    return draw(e, points, 10);
}

static int count_lanes(const page_picture *p, int *lanes) {
    int free_from[MOST_LANES] = {0}, most = 0;
    for (int i = 0; i < p->edge_count; i++) {
        const page_edge *e = &p->edges[i];
        lanes[i] = e->to == e->from + 1 ? -1 : take_lane(free_from, e->from, e->to);
        if (lanes[i] >= most) most = lanes[i] + 1;
    }
    return most;
}

static int by_start(const void *a, const void *b) {
    const page_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to < y->to) - (x->to > y->to);
}

static int place_in_rows(page_picture *p) {
    int *lanes = calloc((size_t)p->edge_count + 1, sizeof *lanes);
    if (!lanes) return run_no_memory();
    if (p->edge_count > 1) qsort(p->edges, (size_t)p->edge_count, sizeof *p->edges, by_start);
    const double left = margin + 6 + lane_width * (count_lanes(p, lanes) + 1);
    double y = margin, width = 0;
    for (int i = 0; i < p->node_count; i++) {
        page_node *n = &p->nodes[i];
        n->x = left + n->width / 2;
        n->y = y + n->height / 2;
        y += n->height + gap;
        width = fmax(width, n->width);
    }
    p->width = left + width + margin;
    p->height = y - gap + margin;
    bool good = true;
    for (int i = 0; good && i < p->edge_count; i++) {
        page_edge *e = &p->edges[i];
        const page_node *a = &p->nodes[e->from], *b = &p->nodes[e->to];
        good = lanes[i] < 0 ? draw_down(e, a, b) : draw_aside(e, a, b, left, lanes[i]);
        if (lanes[i] < 0)
            for (int k = 0; good && k < e->point_count; k++) e->points[2 * k] = left + fmin(a->width, b->width) / 2;
    }
    free(lanes);
    return good ? AMP_EXIT_OK : run_no_memory();
}

int page_picture_make(page_picture *p, const page_steps *steps, const page_values *values, const run_report *r) {
    int code = make_nodes(p, steps, r);
    if (!code) code = make_edges(p, steps, values, r);
    if (!code && !page_dot(p)) code = place_in_rows(p);
    return code;
}

void page_picture_free(page_picture *p) {
    for (int i = 0; i < p->edge_count; i++) free(p->edges[i].points);
    free(p->edges);
    free(p->nodes);
    *p = (page_picture){0};
}
