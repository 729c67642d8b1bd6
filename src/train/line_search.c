/* Line search: a bracket is grown until it holds a point that is good enough, then narrowed down to one. */
#include "train/line_search.h"

#include <math.h>

static const double least_decrease = 1e-4, flatness = 0.9, least_move = 1e-9;
enum { MOST_LOOKS = 25 };

typedef struct search {
    amp_line_look look;
    void *context;
    const amp_line_point *start;
    double reach;
    int looks; /* after the first */
    amp_line_point bracket[2];
    int low;      /* which of them has the lesser loss */
    bool is_done; /* bracket[low] is it */
} search;

static bool falls_short(const search *s, const amp_line_point *p) {
    return p->loss > s->start->loss + least_decrease * p->t * s->start->slope;
}

static bool is_flat(const search *s, const amp_line_point *p) {
    return fabs(p->slope) <= -flatness * s->start->slope;
}

/* The least of the cubic through both points and slopes, between two bounds; their middle if it has none. */
static double interpolate(const amp_line_point *a, const amp_line_point *b, double least, double most) {
    const amp_line_point *left = a->t <= b->t ? a : b, *right = a->t <= b->t ? b : a;
    const double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t);
    const double square = d1 * d1 - a->slope * b->slope;
    if (!(square >= 0)) return (least + most) / 2;
    const double d2 = sqrt(square);
    const double part = (right->slope + d2 - d1) / (right->slope - left->slope + 2 * d2);
    return fmin(fmax(right->t - (right->t - left->t) * part, least), most);
}

static void set_bracket(search *s, const amp_line_point *first, const amp_line_point *second, bool is_done) {
    s->bracket[0] = *first;
    s->bracket[1] = *second;
    s->low = first->loss <= second->loss ? 0 : 1;
    s->is_done = is_done;
}

static amp_status look_at(search *s, double t, amp_line_point *p) {
    *p = (amp_line_point){.t = t};
    return s->look(s->context, p);
}

static amp_status grow(search *s, double t) {
    amp_line_point before = *s->start, now;
    AMP_TRY(look_at(s, t, &now));
    for (; s->looks < MOST_LOOKS; s->looks++) {
        const bool is_behind = falls_short(s, &now) || (s->looks > 1 && now.loss >= before.loss);
        const bool is_it = !is_behind && is_flat(s, &now);
        if (is_behind || is_it || now.slope >= 0) {
            set_bracket(s, is_it ? &now : &before, &now, is_it);
            return AMP_OK;
        }
        const double next = interpolate(&before, &now, now.t + 0.01 * (now.t - before.t), 10 * now.t);
        before = now;
        AMP_TRY(look_at(s, next, &now));
    }
    set_bracket(s, s->start, &now, false);
    return AMP_OK;
}

/* Near an end of the bracket twice in a row, or beyond it: a tenth of the way away from that end. */
static double kept_inside(const search *s, double t, bool *was_near) {
    const double least = fmin(s->bracket[0].t, s->bracket[1].t), most = fmax(s->bracket[0].t, s->bracket[1].t);
    const double margin = 0.1 * (most - least);
    const bool is_near = fmin(most - t, t - least) < margin;
    const bool moves = is_near && (*was_near || t >= most || t <= least);
    *was_near = is_near && !moves;
    if (!moves) return t;
    return fabs(t - most) < fabs(t - least) ? most - margin : least + margin;
}

static void narrow(search *s, const amp_line_point *p) {
    amp_line_point *low = &s->bracket[s->low], *high = &s->bracket[1 - s->low];
    if (falls_short(s, p) || p->loss >= low->loss) {
        *high = *p;
        s->low = s->bracket[0].loss <= s->bracket[1].loss ? 0 : 1;
        return;
    }
    s->is_done = is_flat(s, p);
    if (!s->is_done && p->slope * (high->t - low->t) >= 0) *high = *low;
    *low = *p;
}

static amp_status zoom(search *s) {
    const amp_line_point *b = s->bracket;
    bool was_near = false;
    while (!s->is_done && s->looks < MOST_LOOKS && !(fabs(b[1].t - b[0].t) * s->reach < least_move)) {
        amp_line_point p;
        const double t = interpolate(&b[0], &b[1], fmin(b[0].t, b[1].t), fmax(b[0].t, b[1].t));
        AMP_TRY(look_at(s, kept_inside(s, t, &was_near), &p));
        s->looks++;
        narrow(s, &p);
    }
    return AMP_OK;
}

amp_status amp_strong_wolfe(const amp_line_point *start, double t, double reach, amp_line_look look, void *context,
                            amp_line_point *found) {
    search s = {.look = look, .context = context, .start = start, .reach = reach};
    AMP_TRY(grow(&s, t));
    AMP_TRY(zoom(&s));
    *found = s.bracket[s.low];
    return AMP_OK;
}
