#include "curves.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 760, HEIGHT = 420, LEFT = 64, RIGHT = 84, TOP = 56, BOTTOM = 48, LEAST_GAP = 16 };

typedef struct picture {
    FILE *file;
    double lowest, highest; /* logarithms to base 10 */
    int steps;
} picture;

static const char style[] =
    "<style>\n"
    "  svg { background: #fff; font: 13px system-ui, sans-serif; fill: #333; }\n"
    "  .title { font-size: 16px; font-weight: 600; } .quiet { fill: #777; }\n"
    "  .grid { stroke: #e4e4e4; } .minor { stroke: #f3f3f3; } .axis { stroke: #999; }\n"
    "  polyline { fill: none; stroke-width: 2; stroke-linejoin: round; } .raw { stroke-width: 1; opacity: .22; }\n"
    "  .c0 { stroke: #0b62b5; } .c1 { stroke: #d1541b; } .c2 { stroke: #1c8a4c; } .c3 { stroke: #7d3fb0; }\n"
    "  .n0 { fill: #0b62b5; } .n1 { fill: #d1541b; } .n2 { fill: #1c8a4c; } .n3 { fill: #7d3fb0; }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    svg { background: #16181c; fill: #d8d8d8; } .quiet { fill: #8b8f96; }\n"
    "    .grid { stroke: #2c2f36; } .minor { stroke: #202329; } .axis { stroke: #666; }\n"
    "    .c0 { stroke: #63aef2; } .c1 { stroke: #f59566; } .c2 { stroke: #66cf94; } .c3 { stroke: #c595ee; }\n"
    "    .n0 { fill: #63aef2; } .n1 { fill: #f59566; } .n2 { fill: #66cf94; } .n3 { fill: #c595ee; }\n"
    "  }\n"
    "</style>\n";

/* ---- Places --------------------------------------------------------------------------------------------------------- */
static double x_of(const picture *p, double step) {
    const double part = p->steps > 1 ? (step - 1) / (p->steps - 1) : 0.5;
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

static double y_of(const picture *p, double logarithm) {
    return TOP + (p->highest - logarithm) / (p->highest - p->lowest) * (HEIGHT - TOP - BOTTOM);
}

static bool is_drawn(double value) {
    return value > 0 && isfinite(value);
}

static void find_range(picture *p, const curve *curves, int count) {
    p->lowest = INFINITY;
    p->highest = -INFINITY;
    for (int c = 0; c < count; c++) {
        if (curves[c].count > p->steps) p->steps = curves[c].count;
        for (int i = 0; i < curves[c].count; i++) {
            if (!is_drawn(curves[c].values[i])) continue;
            p->lowest = fmin(p->lowest, log10(curves[c].values[i]));
            p->highest = fmax(p->highest, log10(curves[c].values[i]));
        }
    }
    if (p->lowest > p->highest) p->lowest = p->highest = 0;
    p->lowest = floor(10 * (p->lowest - 0.05)) / 10;
    p->highest = ceil(10 * (p->highest + 0.05)) / 10;
}

/* ---- Axes ----------------------------------------------------------------------------------------------------------- */
/* 1, 2, 5 times a power of ten have a line and a number where there is room, the others a faint line. */
static void draw_values(const picture *p) {
    const bool wide = p->highest - p->lowest > 3.5;
    for (int power = (int)floor(p->lowest); power <= p->highest; power++) {
        for (int digit = 1; digit <= 9; digit++) {
            const double logarithm = power + log10(digit), y = y_of(p, logarithm);
            if (logarithm < p->lowest || logarithm > p->highest) continue;
            const bool named = digit == 1 || (!wide && (digit == 2 || digit == 5));
            fprintf(p->file, "<line class='%s' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>\n", named ? "grid" : "minor", LEFT,
                    WIDTH - RIGHT, y, y);
            if (named)
                fprintf(p->file, "<text class='quiet' x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 8, y + 4,
                        digit * pow(10, power));
        }
    }
}

static void draw_steps(const picture *p) {
    int each = 1;
    while (p->steps / each > 8) each *= each % 3 == 1 && each > 1 ? 5 : 2;
    for (int step = each; step <= p->steps; step += each) {
        fprintf(p->file, "<text class='quiet' x='%.1f' y='%d' text-anchor='middle'>%d</text>\n", x_of(p, step),
                HEIGHT - BOTTOM + 18, step);
    }
    fprintf(p->file, "<text class='quiet' x='%d' y='%d' text-anchor='middle'>steps</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
    fprintf(p->file, "<line class='axis' x1='%d' x2='%d' y1='%d' y2='%d'/>\n", LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM,
            HEIGHT - BOTTOM);
}

/* ---- Curves --------------------------------------------------------------------------------------------------------- */
/* The mean of the logarithms of the last `window` values. */
static double smoothed(const curve *c, int at, int window) {
    double sum = 0;
    int counted = 0;
    for (int i = at; i >= 0 && i > at - window; i--) {
        if (!is_drawn(c->values[i])) continue;
        sum += log10(c->values[i]);
        counted++;
    }
    return counted > 0 ? sum / counted : NAN;
}

static int window_of(const curve *c) {
    return c->count / 30 + 1;
}

static void draw_line(const picture *p, const curve *c, int number, int window) {
    fprintf(p->file, "<polyline class='c%d%s' points='", number, window == 1 ? " raw" : "");
    for (int i = 0; i < c->count; i++) {
        const double logarithm = smoothed(c, i, window);
        if (!isnan(logarithm)) fprintf(p->file, "%.1f,%.1f ", x_of(p, i + 1), y_of(p, logarithm));
    }
    fprintf(p->file, "'/>\n");
}

/* The curves by where they end, from above, so that names stand in that order, LEAST_GAP apart. */
static void draw_names(const picture *p, const curve *curves, int count) {
    int order[CURVES_MOST];
    double ends[CURVES_MOST], below = -INFINITY;
    for (int c = 0; c < count; c++) {
        const double logarithm =
            curves[c].count > 0 ? smoothed(&curves[c], curves[c].count - 1, window_of(&curves[c])) : NAN;
        ends[c] = isnan(logarithm) ? HEIGHT - BOTTOM : y_of(p, logarithm);
        int at = c;
        for (; at > 0 && ends[order[at - 1]] > ends[c]; at--) order[at] = order[at - 1];
        order[at] = c;
    }
    double first = count > 0 ? ends[order[0]] - LEAST_GAP * (count - 1) / 2.0 : 0; /* when they end as one */
    for (int i = 0; i < count; i++) {
        const double y = i == 0 ? fmax(first, TOP) : fmax(ends[order[i]], below + LEAST_GAP);
        fprintf(p->file, "<text class='n%d' x='%d' y='%.1f'>%s</text>\n", order[i], WIDTH - RIGHT + 10, y + 4,
                curves[order[i]].name);
        below = y;
    }
}

int curves_write_svg(const char *path, const char *title, const char *unit, const curve *curves, int count) {
    picture p = {.file = fopen(path, "w")};
    if (!p.file) return -1;
    if (count > CURVES_MOST) count = CURVES_MOST;
    find_range(&p, curves, count);
    fprintf(p.file, "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d'>\n%s", WIDTH,
            HEIGHT, WIDTH, HEIGHT, style);
    fprintf(p.file, "<text class='title' x='%d' y='28'>%s</text>\n", LEFT, title);
    fprintf(p.file, "<text class='quiet' x='%d' y='46'>%s</text>\n", LEFT, unit);
    draw_values(&p);
    draw_steps(&p);
    for (int c = 0; c < count; c++) draw_line(&p, &curves[c], c, 1);
    for (int c = 0; c < count; c++) draw_line(&p, &curves[c], c, window_of(&curves[c]));
    draw_names(&p, curves, count);
    fprintf(p.file, "</svg>\n");
    const bool failed = ferror(p.file) != 0;
    return fclose(p.file) != 0 || failed ? -1 : 0;
}
