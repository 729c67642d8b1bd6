#include "text_boxes.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* PP-OCR's values. */
static const double TEXT_FROM = 0.3, BOX_FROM = 0.5, GROWTH = 1.6, LEAST_SIDE = 3, UPRIGHT_FROM = 1.5;

typedef struct point {
    double x, y;
} point;

typedef struct span {
    int left, right; /* first and last pixel of a row; left > right: none */
} span;

/* What one search needs. */
typedef struct search {
    const float *map;
    int stride, width, height;
    unsigned char *seen; /* height × width */
    int *waiting;        /* pixels whose neighbours are still to be looked at; each waits once */
    span *rows;          /* of the piece at hand: height */
    point *points, *hull;
} search;

void text_box_corners(const text_box *b, double corners[4][2]) {
    static const double signs[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    for (int i = 0; i < 4; i++) {
        const double a = signs[i][0] * b->width / 2, d = signs[i][1] * b->height / 2;
        corners[i][0] = b->x + a * b->along[0] - d * b->along[1];
        corners[i][1] = b->y + a * b->along[1] + d * b->along[0];
    }
}

/* ---- Connected pixels -------------------------------------------------------------------------------------------- */

static bool is_text(const search *s, int x, int y) {
    return s->map[(size_t)y * (size_t)s->stride + (size_t)x] > TEXT_FROM; /* not a NaN */
}

static void visit(search *s, int x, int y, int *count) {
    if (x < 0 || y < 0 || x >= s->width || y >= s->height || !is_text(s, x, y)) return;
    const int at = y * s->width + x;
    if (s->seen[at]) return;
    s->seen[at] = 1;
    s->waiting[(*count)++] = at;
    if (x < s->rows[y].left) s->rows[y].left = x;
    if (x > s->rows[y].right) s->rows[y].right = x;
}

/* Fills rows `top` to *bottom with what is connected, over edges or corners, with a pixel that no row above has. */
static void walk_piece(search *s, int x, int top, int *bottom) {
    int count = 0;
    for (int y = top; y < s->height; y++) s->rows[y] = (span){s->width, -1};
    visit(s, x, top, &count);
    *bottom = top;
    while (count > 0) {
        const int at = s->waiting[--count], row = at / s->width, column = at % s->width;
        if (row > *bottom) *bottom = row;
        for (int i = 0; i < 9; i++) visit(s, column + i % 3 - 1, row + i / 3 - 1, &count);
    }
}

/* ---- The smallest rectangle -------------------------------------------------------------------------------------- */

static double turn(point a, point b, point c) {
    return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/* The corners of the rows' ends. */
static int list_points(search *s, int top, int bottom) {
    int n = 0;
    for (int y = top; y <= bottom; y++) {
        for (int low = 0; low < 2; low++) {
            s->points[n++] = (point){s->rows[y].left, y + low};
            s->points[n++] = (point){s->rows[y].right + 1, y + low};
        }
    }
    return n;
}

static int by_row(const void *a, const void *b) {
    const point *p = a, *q = b;
    if (p->y != q->y) return p->y < q->y ? -1 : 1;
    return (p->x > q->x) - (p->x < q->x);
}

/* Andrew's monotone chain: down one side and up the other. */
static int find_hull(search *s, int n) {
    int count = 0;
    qsort(s->points, (size_t)n, sizeof *s->points, by_row);
    for (int i = 0, least = 2; i < 2 * n - 1; i++) {
        const point p = s->points[i < n ? i : 2 * n - 2 - i];
        while (count >= least && turn(s->hull[count - 2], s->hull[count - 1], p) <= 0) count--;
        s->hull[count++] = p;
        if (i == n - 1) least = count + 1;
    }
    return count - 1; /* the first point is the last too */
}

/* The smallest rectangle around the hull with a side in the direction (x, y), which has length 1. */
static text_box box_along(const search *s, int n, double x, double y) {
    double least[2] = {DBL_MAX, DBL_MAX}, most[2] = {-DBL_MAX, -DBL_MAX};
    for (int i = 0; i < n; i++) {
        const double at[2] = {s->hull[i].x * x + s->hull[i].y * y, s->hull[i].y * x - s->hull[i].x * y};
        for (int k = 0; k < 2; k++) {
            least[k] = fmin(least[k], at[k]);
            most[k] = fmax(most[k], at[k]);
        }
    }
    const double a = (least[0] + most[0]) / 2, d = (least[1] + most[1]) / 2;
    return (text_box){.x = a * x - d * y,
                      .y = a * y + d * x,
                      .along = {x, y},
                      .width = most[0] - least[0],
                      .height = most[1] - least[1]};
}

/* One of its sides is one of the hull's. */
static text_box smallest_box(const search *s, int n) {
    text_box best = {.width = INFINITY, .height = INFINITY};
    for (int i = 0; i < n; i++) {
        const point a = s->hull[i], b = s->hull[(i + 1) % n];
        const double length = hypot(b.x - a.x, b.y - a.y);
        const text_box box = box_along(s, n, (b.x - a.x) / length, (b.y - a.y) / length);
        if (box.width * box.height < best.width * best.height) best = box;
    }
    return best;
}

/* Turns what "along" is by 90° to the right. */
static void turn_box(text_box *b) {
    const double x = b->along[0], width = b->width;
    b->along[0] = -b->along[1];
    b->along[1] = x;
    b->width = b->height;
    b->height = width;
}

/* Text runs to the right; where a box is high, downwards. */
static void orient(text_box *b) {
    while (b->along[0] < fabs(b->along[1]) - 1e-9) turn_box(b);
    if (b->height >= UPRIGHT_FROM * b->width) turn_box(b);
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------- */

static double mean_inside(const search *s, const text_box *b) {
    const double reach = hypot(b->width, b->height) / 2;
    const int left = (int)fmax(0, b->x - reach), right = (int)fmin(s->width - 1, b->x + reach);
    const int top = (int)fmax(0, b->y - reach), bottom = (int)fmin(s->height - 1, b->y + reach);
    double sum = 0, count = 0;
    for (int y = top; y <= bottom; y++) {
        for (int x = left; x <= right; x++) {
            const double dx = x + 0.5 - b->x, dy = y + 0.5 - b->y;
            if (fabs(dx * b->along[0] + dy * b->along[1]) > b->width / 2) continue;
            if (fabs(dy * b->along[0] - dx * b->along[1]) > b->height / 2) continue;
            sum += s->map[(size_t)y * (size_t)s->stride + (size_t)x];
            count++;
        }
    }
    return count > 0 ? sum / count : 0;
}

/* The box of the piece in rows `top` to `bottom`; false: this is no text. */
static bool make_box(search *s, int top, int bottom, text_box *box) {
    *box = smallest_box(s, find_hull(s, list_points(s, top, bottom)));
    if (fmin(box->width, box->height) < LEAST_SIDE) return false;
    box->score = mean_inside(s, box);
    if (!(box->score >= BOX_FROM)) return false;
    const double more = GROWTH * box->width * box->height / (box->width + box->height); /* area by half the outline */
    box->width += more;
    box->height += more;
    orient(box);
    return true;
}

static int by_y(const void *a, const void *b) {
    const text_box *p = a, *q = b;
    return (p->y > q->y) - (p->y < q->y);
}
static int by_x(const void *a, const void *b) {
    const text_box *p = a, *q = b;
    return (p->x > q->x) - (p->x < q->x);
}

/* From the top to the bottom; of those beside each other, from the left to the right. */
static void sort_boxes(text_box *boxes, int count) {
    if (count == 0) return; /* there is no array then, which qsort wants */
    qsort(boxes, (size_t)count, sizeof *boxes, by_y);
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++) {
            if (boxes[end].y - boxes[first].y > fmin(boxes[end].height, boxes[first].height) / 2) break;
        }
        qsort(boxes + first, (size_t)(end - first), sizeof *boxes, by_x);
    }
}

static int search_map(search *s, text_box *boxes, int most) {
    int count = 0;
    for (int y = 0; y < s->height; y++) {
        for (int x = 0; x < s->width && count < most; x++) {
            int bottom;
            if (s->seen[y * s->width + x] || !is_text(s, x, y)) continue;
            walk_piece(s, x, y, &bottom);
            count += make_box(s, y, bottom, &boxes[count]);
        }
    }
    sort_boxes(boxes, count);
    return count;
}

int text_boxes_find(const float *map, int stride, int width, int height, text_box *boxes, int most) {
    const size_t pixels = (size_t)width * (size_t)height, rows = (size_t)height;
    search s = {.map = map, .stride = stride, .width = width, .height = height};
    s.seen = calloc(pixels, 1);
    s.waiting = malloc(pixels * sizeof *s.waiting);
    s.rows = malloc(rows * sizeof *s.rows);
    s.points = malloc(4 * rows * sizeof *s.points);
    s.hull = malloc(8 * rows * sizeof *s.hull);
    const int count = s.seen && s.waiting && s.rows && s.points && s.hull ? search_map(&s, boxes, most) : -1;
    free(s.seen);
    free(s.waiting);
    free(s.rows);
    free(s.points);
    free(s.hull);
    return count;
}
