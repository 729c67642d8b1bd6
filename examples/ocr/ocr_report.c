#include "ocr_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

enum { LEAST_TEXT = 24, MOST_TEXT = 60, LEAST_COLUMN = 16 };
/* Of the times, beyond which their medians say little. */
static const double SPREAD_MAX = 1.5, LEAST_SHARE = 0.7;

/* ---- The two pages beside each other ----------------------------------------------------------------------------- */

static bool same_place(const text_box *a, const text_box *b) {
    return hypot(a->x - b->x, a->y - b->y) < fmin(a->height, b->height) / 2;
}

void ocr_match(const text_page *page, const text_page *other, int *places) {
    for (int i = 0; i < page->count; i++) places[i] = -1;
    for (int k = 0; k < other->count; k++) {
        for (int i = 0; i < page->count; i++) {
            if (places[i] >= 0 || !same_place(&page->lines[i].box, &other->lines[k].box)) continue;
            places[i] = k;
            break;
        }
    }
}

static void print_heading(const char *text) {
    printf("%s%s%s\n", terminal_has_colours() ? "\033[1m" : "", text, terminal_has_colours() ? "\033[0m" : "");
}

static int text_width(const ocr_result *r) {
    int widest = LEAST_TEXT;
    for (int p = 0; p < OCR_PRECISIONS; p++) {
        for (int i = 0; i < r->pages[p].count; i++) {
            const char *text = r->pages[p].lines[i].text;
            const int used = terminal_columns(text, strlen(text), MOST_TEXT);
            if (used > widest) widest = used;
        }
    }
    return widest < MOST_TEXT ? widest : MOST_TEXT;
}

static void print_sure(const text_line *line) {
    if (line)
        printf("%9.4f", line->confidence);
    else
        printf("%9s", "-");
}

static void print_text(const text_line *line, int width) {
    printf("  ");
    terminal_print(line ? line->text : "", line ? strlen(line->text) : 0, width);
}

/* One line where both read the same, else one for each. */
static bool print_line(int number, const text_line *f32, const text_line *bf16, int width) {
    const bool same = f32 && bf16 && strcmp(f32->text, bf16->text) == 0;
    printf("%3d", number);
    print_text(f32, width);
    print_sure(f32);
    if (!same) {
        printf("\n   ");
        print_text(bf16, width);
        printf("%9s", "");
    }
    print_sure(bf16);
    printf("   %s\n", same ? "same" : !f32 ? "bf16 only" : !bf16 ? "f32 only" : "differs");
    return same;
}

static int print_lines(const ocr_result *r, const int *places) {
    const text_page *f32 = &r->pages[OCR_F32], *bf16 = &r->pages[OCR_BF16];
    const int width = text_width(r);
    int same = 0, number = 0;
    char heading[MOST_TEXT + 64];
    snprintf(heading, sizeof heading, "%*s%9s%9s", width + 5, "sure, 0 to 1:", "f32", "bf16");
    print_heading(heading);
    for (int i = 0; i < f32->count; i++)
        same += print_line(++number, &f32->lines[i], places[i] >= 0 ? &bf16->lines[places[i]] : NULL, width);
    for (int k = 0; k < bf16->count; k++) {
        bool seen = false;
        for (int i = 0; i < f32->count; i++) seen = seen || places[i] == k;
        if (!seen) print_line(++number, NULL, &bf16->lines[k], width);
    }
    if (number == 0) printf("  no text\n");
    return same;
}

/* ---- Figures ----------------------------------------------------------------------------------------------------- */

static void print_times(const char *name, const double seconds[OCR_PRECISIONS], int width) {
    printf("  %-28s%*.1f%*.1f\n", name, width, 1e3 * seconds[OCR_F32], width, 1e3 * seconds[OCR_BF16]);
}

static void print_figures(const ocr_result *r, int same) {
    char text[128];
    int width = LEAST_COLUMN;
    for (int p = 0; p < OCR_PRECISIONS; p++) {
        if ((int)strlen(r->kernels[p]) + 2 > width) width = (int)strlen(r->kernels[p]) + 2;
    }
    snprintf(text, sizeof text, "%-30s%*s%*s", "", width, "f32", width, "bf16");
    print_heading(text);
    print_times("finding the lines, ms", r->find_seconds, width);
    print_times("turning and reading them, ms", r->read_seconds, width);
    print_times("all, ms", r->all_seconds, width);
    printf("  %-28s%*s%*.2fx\n", "speed-up", width, "", width - 1, r->all_seconds[OCR_F32] / r->all_seconds[OCR_BF16]);
    const int most = r->pages[OCR_F32].count > r->pages[OCR_BF16].count ? OCR_F32 : OCR_BF16;
    snprintf(text, sizeof text, "%d of %d", same, r->pages[most].count);
    printf("  %-28s%*s%*s\n", "the same text as f32", width, "", width, text);
    printf("  %-28s%*s%*s\n", "slowest convolution ran in", width, r->kernels[OCR_F32], width, r->kernels[OCR_BF16]);
}

static void print_machine(const ocr_result *r) {
    const int threads = amp_get_num_threads();
    printf("\n%s, %s, %d thread%s, ", amp_cpu()->model, amp_isa_name(amp_isa_best()), threads, threads == 1 ? "" : "s");
    printf(r->rounds > 1 ? "medians of %d passes" : "one pass", r->rounds);
    if (r->spread > SPREAD_MAX || r->share < LEAST_SHARE)
        printf(".\nThe machine was busy, the program had a processor for %.0f %% of the time: the speed-up is not a "
               "measurement",
               fmin(100, 100 * r->share));
    printf(".\n");
}

bool ocr_report(const ocr_result *r) {
    int *places = malloc(((size_t)r->pages[OCR_F32].count + 1) * sizeof *places);
    if (!places) return false;
    ocr_match(&r->pages[OCR_F32], &r->pages[OCR_BF16], places);
    printf("\nPP-OCR on %s, %d × %d pixels\n\n", r->path, r->image.width, r->image.height);
    const int same = print_lines(r, places);
    putchar('\n');
    print_figures(r, same);
    print_machine(r);
    free(places);
    return true;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static void print_json_line(const text_line *line) {
    double corners[4][2];
    text_box_corners(&line->box, corners);
    printf("{\"text\": ");
    terminal_print_json(line->text, strlen(line->text));
    printf(", \"confidence\": %.6f, \"corners\": [", line->confidence);
    for (int i = 0; i < 4; i++) printf("%s[%.2f, %.2f]", i ? ", " : "", corners[i][0], corners[i][1]);
    printf("]}");
}

void ocr_report_json(const ocr_result *r) {
    for (int p = 0; p < OCR_PRECISIONS; p++) {
        printf("%s\"%s\": [", p == OCR_F32 ? "{" : ",\n ", p == OCR_F32 ? "f32" : "bf16");
        for (int i = 0; i < r->pages[p].count; i++) {
            printf("%s", i ? ",\n  " : "\n  ");
            print_json_line(&r->pages[p].lines[i]);
        }
        printf("]");
    }
    printf("}\n");
}

/* ---- The picture, drawn over ------------------------------------------------------------------------------------- */

static void write_base64(FILE *out, const unsigned char *bytes, size_t count) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned long three =
        (unsigned long)bytes[0] << 16 | (count > 1 ? bytes[1] : 0u) << 8 | (count > 2 ? bytes[2] : 0u);
    for (unsigned i = 0; i < 4; i++) fputc(i <= count ? digits[three >> (18 - 6 * i) & 63] : '=', out);
}

static bool embed(FILE *out, const char *path) {
    FILE *file = fopen(path, "rb");
    unsigned char bytes[3];
    if (!file) return false;
    fputs("data:image/png;base64,", out);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) write_base64(out, bytes, n);
    const bool good = !ferror(file);
    fclose(file);
    return good;
}

static void write_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f || strchr("<>&\"", c))
            fprintf(out, "&#%d;", c < 0x20 || c == 0x7f ? '?' : c);
        else
            fputc(c, out);
    }
}

/* The outline, and the text above it, as it lies. */
static void draw_line(FILE *out, const text_line *line) {
    double at[4][2];
    text_box_corners(&line->box, at);
    fprintf(out, "<polygon points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>", at[0][0], at[0][1], at[1][0],
            at[1][1], at[2][0], at[2][1], at[3][0], at[3][1]);
    fprintf(out, "<text font-size=\"%.1f\" transform=\"translate(%.1f %.1f) rotate(%.2f)\" y=\"-1\">",
            fmax(8, 0.35 * line->box.height), at[0][0], at[0][1],
            atan2(line->box.along[1], line->box.along[0]) * 57.29577951308232);
    write_escaped(out, line->text);
    fputs("</text>\n", out);
}

bool ocr_draw(const ocr_result *r, const char *path) {
    FILE *out = fopen(path, "w");
    if (!out) return false;
    fprintf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n<image width=\"%d\" height=\"%d\" href=\"",
        r->image.width, r->image.height, r->image.width, r->image.height);
    bool good = embed(out, r->path);
    fputs("\"/>\n<g fill=\"none\" stroke=\"#0a7d33\" font-family=\"sans-serif\">\n", out);
    fputs("<style>text { fill: #0a7d33; stroke: none }</style>\n", out);
    const text_page *page = &r->pages[OCR_BF16];
    for (int i = 0; i < page->count; i++) draw_line(out, &page->lines[i]);
    fputs("</g>\n</svg>\n", out);
    good = good && !ferror(out);
    return fclose(out) == 0 && good;
}
