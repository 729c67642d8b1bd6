#include "text_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measuring.h"

enum {
    LONGEST = 1280,   /* side of what the finder sees */
    GRAIN = 32,       /* its sides are multiples of this */
    LINE_HEIGHT = 48, /* of what the other two see */
    TURN_WIDTH = 192,
    LEAST_WIDTH = 32,
    MOST_WIDTH = 2400,
    TOGETHER = 8, /* lines */
    WIDTHS = 3,   /* of lines: each is a shape, for which the graphs prepare themselves once */
    MOST_LINES = 500
};
static const double UPSIDE_DOWN_FROM = 0.9;

#define FAIL(...) (snprintf(why, room, __VA_ARGS__), false)

static int round_up(double size, int grain) {
    return ((int)ceil(size) + grain - 1) / grain * grain;
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

static amp_graph *open_graph(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    return amp_graph_load(path, NULL);
}

bool text_reader_open(text_reader *r, const char *folder, char *why, size_t room) {
    *r = (text_reader){
        open_graph(folder, "ppocr_det"), open_graph(folder, "ppocr_cls"), open_graph(folder, "ppocr_rec"), {0}};
    const char *alphabet = amp_graph_metadata(r->read, "character");
    const bool good = !r->read   ? FAIL("%s", amp_last_error())
                      : alphabet ? letters_open(&r->alphabet, alphabet, why, room)
                                 : FAIL("%s/ppocr_rec.onnx does not say what letters it knows", folder);
    if (!good) text_reader_close(r);
    return good;
}

void text_reader_close(text_reader *r) {
    amp_graph_release(r->find);
    amp_graph_release(r->turn);
    amp_graph_release(r->read);
    letters_close(&r->alphabet);
    *r = (text_reader){0};
}

/* ---- Finding lines ----------------------------------------------------------------------------------------------- */

/* What the graph makes of one input; it belongs to the innermost scope. */
static const float *run(amp_graph *graph, amp_tensor *input, amp_tensor **output) {
    *output = NULL;
    return amp_graph_run(graph, &input, 1, output, 1) == AMP_OK ? amp_data(*output) : NULL;
}

/* The boxes that the map shows, in pixels of the picture, of which `scale` are one of the map. */
static bool keep_boxes(const float *map, int stride, const int size[2], double scale, text_page *page) {
    text_box *boxes = malloc(MOST_LINES * sizeof *boxes);
    const int count = boxes ? text_boxes_find(map, stride, size[0], size[1], boxes, MOST_LINES) : -1;
    page->lines = count >= 0 ? calloc((size_t)count + 1, sizeof *page->lines) : NULL;
    for (int i = 0; page->lines && i < count; i++) {
        text_box *b = &page->lines[page->count++].box;
        *b = boxes[i];
        b->x *= scale;
        b->y *= scale;
        b->width *= scale;
        b->height *= scale;
    }
    free(boxes);
    return page->lines;
}

static bool find_lines(const text_reader *r, const picture *p, text_page *page, char *why, size_t room) {
    const double longest = p->width > p->height ? p->width : p->height, scale = fmax(1, longest / LONGEST);
    const int size[2] = {(int)ceil(p->width / scale), (int)ceil(p->height / scale)};
    const picture_grid grid = {.across = {scale, 0},
                               .down = {0, scale},
                               .width = round_up(size[0], GRAIN),
                               .height = round_up(size[1], GRAIN)};
    amp_scope_here();
    amp_tensor *x = amp_empty(AMP_DIMS(1, 3, grid.height, grid.width)), *y;
    float *planes = amp_data_mut(x);
    if (planes) picture_sample(p, &grid, grid.width, planes);
    const float *map = planes ? run(r->find, x, &y) : NULL;
    if (!map) return FAIL("%s", amp_last_error());
    if (amp_tensor_numel(y) != (int64_t)grid.width * grid.height) return FAIL("the finder gives no map of the picture");
    return keep_boxes(map, grid.width, size, scale, page) || FAIL("no memory for lines");
}

/* ---- Reading them ------------------------------------------------------------------------------------------------ */

/* A line as it will be read. */
typedef struct piece {
    text_line *line;
    int width; /* at LINE_HEIGHT */
} piece;

/* Puts a line into its planes; behind its end stays what is there. */
static void sample_line(const picture *p, const text_box *b, int width, int stride, float *planes) {
    double corners[4][2];
    text_box_corners(b, corners);
    const double a = b->width / width, d = b->height / LINE_HEIGHT;
    const picture_grid grid = {.x = corners[0][0],
                               .y = corners[0][1],
                               .across = {a * b->along[0], a * b->along[1]},
                               .down = {-d * b->along[1], d * b->along[0]},
                               .width = width,
                               .height = LINE_HEIGHT};
    picture_sample(p, &grid, stride, planes);
}

/* Lines in a batch of one width; of those that are shorter the rest is grey. */
static amp_tensor *sample_lines(const picture *p, const piece *pieces, int count, int width) {
    amp_tensor *x = amp_zeros(AMP_DIMS(count, 3, LINE_HEIGHT, width));
    float *planes = amp_data_mut(x);
    for (int i = 0; planes && i < count; i++) {
        const int own = pieces[i].width < width ? pieces[i].width : width;
        sample_line(p, &pieces[i].line->box, own, width, planes + (size_t)i * 3 * LINE_HEIGHT * (size_t)width);
    }
    return planes ? x : NULL;
}

/* Turns the boxes of text that is upside down. */
static bool turn_lines(const text_reader *r, const picture *p, const piece *pieces, int count, char *why, size_t room) {
    amp_scope_here();
    amp_tensor *x = sample_lines(p, pieces, count, TURN_WIDTH), *y;
    const float *scores = x ? run(r->turn, x, &y) : NULL; /* [count, 2]: upright, upside down */
    if (!scores) return FAIL("%s", amp_last_error());
    if (amp_tensor_numel(y) != 2 * count) return FAIL("the second network does not tell which lines are upside down");
    for (int i = 0; i < count; i++) {
        double *along = pieces[i].line->box.along;
        const double sign = (double)scores[2 * i + 1] > UPSIDE_DOWN_FROM ? -1 : 1;
        along[0] *= sign;
        along[1] *= sign;
    }
    return true;
}

static bool read_lines(const text_reader *r, const picture *p, const piece *pieces, int count, int width, char *why,
                       size_t room) {
    amp_scope_here();
    amp_tensor *x = sample_lines(p, pieces, count, width), *y, *classes;
    if (!x || !run(r->read, x, &y)) return FAIL("%s", amp_last_error());
    if (amp_tensor_rank(y) != 3 || amp_tensor_size(y, 0) != count || amp_tensor_size(y, 2) != r->alphabet.count)
        return FAIL("the reader does not know as many letters as it says");
    const float *probabilities = amp_data(amp_max_dim(y, -1, .indices = &classes)); /* [count, steps] */
    const int64_t *best = probabilities ? amp_data(classes) : NULL, steps = amp_tensor_size(y, 1);
    if (!best) return FAIL("%s", amp_last_error());
    for (int i = 0; i < count; i++) {
        text_line *line = pieces[i].line;
        line->text =
            letters_decode(&r->alphabet, best + i * steps, probabilities + i * steps, steps, &line->confidence);
        if (!line->text) return FAIL("no memory for a text");
    }
    return true;
}

static int by_width(const void *a, const void *b) {
    const piece *p = a, *q = b;
    return p->width != q->width ? (p->width > q->width) - (p->width < q->width)
                                : (p->line > q->line) - (p->line < q->line);
}

/* Lines by width: so few shapes, and so little grey, come up. */
static bool read_pieces(const text_reader *r, const picture *p, piece *pieces, int count, char *why, size_t room) {
    for (int i = 0; i < count; i += TOGETHER) {
        if (!turn_lines(r, p, pieces + i, count - i < TOGETHER ? count - i : TOGETHER, why, room)) return false;
    }
    qsort(pieces, (size_t)count, sizeof *pieces, by_width);
    const int step = count > 0 ? round_up((double)pieces[count - 1].width / WIDTHS, GRAIN) : 1;
    for (int first = 0, end; first < count; first = end) {
        const int width = round_up(pieces[first].width, step);
        for (end = first + 1; end < count && end - first < TOGETHER && pieces[end].width <= width;) end++;
        if (!read_lines(r, p, pieces + first, end - first, width, why, room)) return false;
    }
    return true;
}

static bool read_page(const text_reader *r, const picture *p, text_page *page, char *why, size_t room) {
    piece *pieces = malloc(((size_t)page->count + 1) * sizeof *pieces);
    if (!pieces) return FAIL("no memory for %d lines", page->count);
    for (int i = 0; i < page->count; i++) {
        const text_box *b = &page->lines[i].box;
        const double width = LINE_HEIGHT * b->width / b->height;
        pieces[i] = (piece){&page->lines[i], (int)fmin(fmax(ceil(width), LEAST_WIDTH), MOST_WIDTH)};
    }
    const bool good = read_pieces(r, p, pieces, page->count, why, room);
    free(pieces);
    return good;
}

bool text_reader_read(const text_reader *r, const picture *p, text_page *page, char *why, size_t room) {
    *page = (text_page){0};
    const double start = measuring_now();
    bool good = find_lines(r, p, page, why, room);
    const double found = measuring_now();
    good = good && read_page(r, p, page, why, room);
    page->find_seconds = found - start;
    page->read_seconds = measuring_now() - found;
    if (!good) text_page_free(page);
    return good;
}

void text_page_free(text_page *page) {
    for (int i = 0; page->lines && i < page->count; i++) free(page->lines[i].text);
    free(page->lines);
    *page = (text_page){0};
}
