/* amp audit: the page. One file, without scripts: figures, the error along the graph as a picture in SVG, and the
 * steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/system.h"
#include "amp/version.h"
#include "audit.h"
#include "machine/isa.h"

/* ---- Text ---------------------------------------------------------------------------------------------------------- */
static void put_text(FILE *out, const char *text, size_t length) {
    char *copy = strndup(text, length);
    if (!copy) return;
    run_clean(copy);
    for (const char *c = copy; *c; c++) {
        switch (*c) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc(*c, out);
        }
    }
    free(copy);
}

static void put(FILE *out, const char *text) {
    put_text(out, text, strlen(text));
}

static void put_places(FILE *out, const audit_step *s, const char *between) {
    for (const char *place = s->places; *place;) {
        const size_t length = strcspn(place, "\n");
        if (place != s->places) fputs(between, out);
        put_text(out, place, length);
        place += length + (place[length] == '\n');
    }
}

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --ink: #1b2733; --soft: #5d6b79; --paper: #ffffff; --rule: #d9e0e7; "
    "--adds: #d1741f; --carries: #2763b8; --with: #8b3fb5; --kept: #238a57; }\n"
    "@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #93a2b1; --paper: #12181f; --rule: #2c3742; "
    "--adds: #f0a04b; --carries: #6fa8f5; --with: #c990f0; --kept: #53c48c; } }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; "
    "max-width: 1080px; padding: 0 1.25rem; }\n"
    "h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }\nh2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }\n"
    "p { margin: .3rem 0; max-width: 75ch; }\n.soft, small { color: var(--soft); }\n"
    "svg { display: block; width: 100%; height: auto; }\nsvg text { fill: var(--soft); font-size: 12px; }\n"
    ".grid { stroke: var(--rule); }\n.adds { fill: var(--adds); }\n.carries { stroke: var(--carries); }\n"
    ".with { stroke: var(--with); }\n.line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }\n"
    ".kept { fill: var(--kept); }\nsvg .name { fill: var(--ink); }\n"
    ".key { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; margin: .4rem 0; color: var(--soft); }\n"
    ".key i { display: inline-block; width: 1em; height: .7em; margin-right: .45em; }\n"
    ".scroll { overflow-x: auto; }\ntable { border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
    "th, td { text-align: left; padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--rule); "
    "vertical-align: top; }\nth { font-weight: 600; }\ntd.n, th.n { text-align: right; }\n"
    "td.where { overflow-wrap: anywhere; min-width: 18rem; color: var(--soft); }\n"
    "details { margin: .6rem 0; }\nsummary { cursor: pointer; }\n"
    "</style>\n";

/* ---- The picture --------------------------------------------------------------------------------------------------- */
enum { MOST_OPEN = 20 }; /* rows of a table that is not folded */
enum { WIDTH = 1040, HEIGHT = 400, LEFT = 52, RIGHT = 14, TOP = 92, BOTTOM = 40, MOST_NAMES = 5 };

typedef struct frame {
    int count;
    int low, high; /* powers of ten at the bottom and at the top */
} frame;

static double x_of(const frame *f, double step) {
    return LEFT + (WIDTH - LEFT - RIGHT) * (step + 0.5) / f->count;
}

static double y_of(const frame *f, double error) {
    const double power = error > 0 ? log10(error) : f->low;
    const double part = (fmin(fmax(power, f->low), f->high) - f->low) / (f->high - f->low);
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part;
}

static void widen(frame *f, double error) {
    enum { LEAST = -9, MOST = 3 };
    if (!(error > 0)) return;
    const double power = fmin(fmax(log10(error), LEAST), MOST);
    if (power < f->low) f->low = (int)floor(power);
    if (power > f->high) f->high = (int)ceil(power);
}

static frame frame_of(const audit_steps *steps) {
    frame f = {.count = steps->count > 0 ? steps->count : 1, .low = -3, .high = -2};
    for (int i = 0; i < steps->count; i++) {
        widen(&f, steps->items[i].local);
        widen(&f, steps->items[i].carried);
    }
    return f;
}

static void put_axes(FILE *out, const frame *f) {
    for (int power = f->low; power <= f->high; power++) {
        const double y = y_of(f, pow(10, power));
        fprintf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, WIDTH - RIGHT, y, y);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">1e%d</text>\n", LEFT - 8, y + 4, power);
    }
    static const int factors[] = {2, 5, 10};
    int every = 1;
    for (int decade = 1; every < f->count / 14; decade *= 10) {
        for (int i = 0; i < 3 && every < f->count / 14; i++) every = decade * factors[i];
    }
    for (int i = 0; i < f->count; i += every)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x_of(f, i), HEIGHT - BOTTOM + 17,
                i);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">step</text>\n", WIDTH - RIGHT, HEIGHT - 6);
}

static void put_title(FILE *out, const audit_step *s, int number) {
    fprintf(out, "<title>%d: ", number);
    put(out, s->op);
    fprintf(out, "\nadds %.2e, carries %.2e%s\n", s->local, s->carried, s->kept ? "; stays in f32" : "");
    put_places(out, s, "\n");
    fputs("</title>", out);
}

static void put_bars(FILE *out, const frame *f, const audit_steps *steps) {
    const double room = (double)(WIDTH - LEFT - RIGHT) / f->count, width = fmin(fmax(room * 0.7, 0.7), 26);
    const double bottom = HEIGHT - BOTTOM;
    for (int i = 0; i < steps->count; i++) {
        const audit_step *s = &steps->items[i];
        const double y = y_of(f, s->local);
        if (s->local <= 0) continue;
        fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
                s->kept ? "kept" : "adds", x_of(f, i) - width / 2, y, width, fmax(bottom - y, 1));
        put_title(out, s, i);
        fputs("</rect>\n", out);
    }
}

static void put_line(FILE *out, const frame *f, const audit_steps *steps, bool with) {
    fprintf(out, "<polyline class=\"line %s\" points=\"", with ? "with" : "carries");
    for (int i = 0; i < steps->count; i++) {
        const audit_step *s = &steps->items[i];
        if (s->squares > 0) fprintf(out, "%.2f,%.1f ", x_of(f, i), y_of(f, with ? s->with : s->carried));
    }
    fputs("\"/>\n", out);
}

/* A step's last place, or its op; of long ones the end. */
static void put_name(FILE *out, const audit_step *s) {
    enum { MOST = 34 };
    const char *place = *s->places ? s->places : s->op;
    const size_t length = strcspn(place, "\n");
    size_t skipped = length > MOST ? length - MOST : 0;
    while (((unsigned char)place[skipped] & 0xc0) == 0x80) skipped++; /* no half character */
    if (skipped) fputs("…", out);
    put_text(out, place + skipped, length - skipped);
}

/* The worst ones, by name, in rows above the picture so that names never meet; a dot marks each one's error. */
static void put_names(FILE *out, const frame *f, const audit_report *r) {
    enum { LINE = 17 };
    for (int i = 0; i < MOST_NAMES && i < r->steps.count; i++) {
        const int k = r->rank[i];
        const audit_step *s = &r->steps.items[k];
        if (s->local <= 0) break;
        const double x = x_of(f, k), y = 14 + i * LINE, top = y_of(f, s->local);
        const bool left = x > WIDTH / 2.0;
        fprintf(out, "<line class=\"grid\" stroke-dasharray=\"2 3\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                x, x, y, top);
        fprintf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", s->kept ? "kept" : "adds", x, top);
        fprintf(out, "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x + (left ? -8 : 8), y + 4,
                left ? "end" : "start");
        put_name(out, s);
        fprintf(out, " (%.1e)</text>\n", s->local);
    }
}

static bool has_with(const audit_report *r) {
    return r->steps.count > 0 && r->steps.items[0].with >= 0;
}

static void put_picture(FILE *out, const audit_report *r) {
    const frame f = frame_of(&r->steps);
    fputs("<h2>The error along the graph</h2>\n<div class=\"key\">"
          "<span><i style=\"background:var(--adds)\"></i>added by the step</span>"
          "<span><i style=\"background:var(--carries);height:.2em\"></i>carried in bf16</span>",
          out);
    if (r->kept > 0) fputs("<span><i style=\"background:var(--kept)\"></i>added, were it not kept in f32</span>", out);
    if (has_with(r))
        fputs("<span><i style=\"background:var(--with);height:.2em\"></i>carried with the policy</span>", out);
    fprintf(out, "</div>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"relative error by step\">\n", WIDTH,
            HEIGHT);
    put_axes(out, &f);
    put_bars(out, &f, &r->steps);
    put_line(out, &f, &r->steps, false);
    if (has_with(r)) put_line(out, &f, &r->steps, true);
    put_names(out, &f, r);
    fputs(
        "</svg>\n<p class=\"soft\">Both errors are the norm of the difference from f32's result by the norm of that "
        "result. "
        "A step adds what its bf16 result of f32's operands lacks; it carries what its result in the whole run in bf16 "
        "lacks.</p>\n",
        out);
}

/* ---- Tables -------------------------------------------------------------------------------------------------------- */
static void put_figures(FILE *out, const audit_report *r) {
    const bool with = r->kept > 0;
    fprintf(out,
            "<table>\n<tr><th></th><th class=\"n\">f32</th><th class=\"n\">bf16</th>%s</tr>\n"
            "<tr><td>least cosine of an output</td><td></td><td class=\"n\">%.7f</td>",
            with ? "<th class=\"n\">with the policy</th>" : "", r->before.cosine);
    if (with) fprintf(out, "<td class=\"n\">%.7f</td>", r->after.cosine);
    fprintf(out, "</tr>\n<tr><td>largest error of an output</td><td></td><td class=\"n\">%.3g</td>", r->before.error);
    if (with) fprintf(out, "<td class=\"n\">%.3g</td>", r->after.error);
    fputs("</tr>\n<tr><td>median of a run, ms</td>", out);
    for (int i = 0; i < AUDIT_TIMES - !with; i++)
        fprintf(out, "<td class=\"n\">%.*f</td>", run_digits_of(r->ms[i]), r->ms[i]);
    fputs("</tr>\n</table>\n", out);
}

static void put_rows(FILE *out, const audit_report *r, bool kept) {
    fprintf(out,
            "<div class=\"scroll\"><table>\n<tr><th class=\"n\">step</th><th>op</th><th class=\"n\">adds</th>"
            "<th class=\"n\">carries</th>%s<th>%s</th></tr>\n",
            has_with(r) ? "<th class=\"n\">with the policy</th>" : "", "nodes");
    for (int i = 0; i < r->steps.count; i++) {
        const audit_step *s = &r->steps.items[r->rank[i]];
        if (kept && !s->kept) continue;
        fprintf(out, "<tr><td class=\"n\">%d</td><td>", r->rank[i]);
        put(out, s->op);
        fprintf(out, "</td><td class=\"n\">%.2e</td><td class=\"n\">%.2e</td>", s->local, s->carried);
        if (has_with(r)) fprintf(out, "<td class=\"n\">%.2e</td>", s->with);
        fputs("<td class=\"where\">", out);
        put_places(out, s, ", ");
        fputs("</td></tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

static void put_answer(FILE *out, const audit_report *r) {
    const run_options *o = r->options;
    fputs("<p>Asked for: ", out);
    if (o->cosine > 0) fprintf(out, "cosine %.9g", o->cosine);
    if (o->error > 0) fprintf(out, "%serror %g", o->cosine > 0 ? ", " : "", o->error);
    if (r->before.good) {
        fputs(". It is so without a policy.</p>\n", out);
    } else {
        fprintf(out, ". %s %d of %d steps in f32%s.</p>\n", r->after.good ? "It takes" : "Not reached, with", r->kept,
                r->steps.count, r->gave_up_early ? ", or fewer: the time was over before all was tried" : "");
    }
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *audit_page(const audit_report *r) {
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    fputs(head, out);
    fputs("<title>amp audit: ", out);
    put(out, file_name(r->options->model));
    fputs("</title>\n</head>\n<body>\n<h1>", out);
    put(out, file_name(r->options->model));
    fprintf(out, "</h1>\n<p class=\"soft\">%d steps, %d %s of inputs; ", r->steps.count, r->sets->count,
            r->sets->count == 1 ? "set" : "sets");
    put(out, amp_cpu()->model);
    fprintf(out, ", %s, threads: %d; libamp %s</p>\n", amp_isa_name(amp_isa_best()), amp_get_num_threads(),
            amp_version_string());
    put_answer(out, r);
    put_figures(out, r);
    put_picture(out, r);
    if (r->kept > 0) {
        fprintf(out, "<h2>In f32 by the policy</h2>\n<details%s><summary>%d of %d steps</summary>\n",
                r->kept <= MOST_OPEN ? " open" : "", r->kept, r->steps.count);
        put_rows(out, r, true);
        fputs("</details>\n", out);
    }
    fputs("<h2>All steps</h2>\n<details><summary>by the error that each adds</summary>\n", out);
    put_rows(out, r, false);
    fputs("</details>\n</body>\n</html>\n", out);
    return fclose(out) == 0 ? text : NULL;
}
