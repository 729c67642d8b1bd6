/* amp audit: the least that has to stay in f32. Steps are ranked by the error that each adds; the shortest beginning of
 * that order that reaches what is asked for is found by bisection; then what is not needed goes again, in ever smaller
 * parts. Where more than one step stays, the same is done with another order, by what each step gains alone, and the
 * shorter answer holds. Every question is answered by a real run under the policy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "audit.h"

typedef struct search {
    audit_report *r;
    int *order, count; /* steps that add an error and can be kept, by rank */
    double end;        /* on the clock */
} search;

/* The first `count` of the order are kept, but those from `from` to `to`, and nothing else is. */
static void mark(const search *s, int count, int from, int to) {
    for (int i = 0; i < s->r->steps.count; i++) s->r->steps.items[i].kept = false;
    for (int i = 0; i < count; i++) s->r->steps.items[s->order[i]].kept = i < from || i >= to;
}

static int try_marked(search *s, audit_accuracy *a) {
    audit_report *r = s->r;
    char *text = audit_policy(&r->steps, NULL);
    if (!text) return run_no_memory();
    amp_autocast_rules *rules = amp_autocast_rules_parse(text, "the policy");
    free(text);
    if (!rules) return run_fail_amp();
    const int code = audit_measure(a, r->sets, r->model, r->options, rules);
    amp_autocast_rules_release(rules);
    r->tried++;
    if (!code) run_progress("policy %d: cosine %.6f, largest error %.3g", r->tried, a->cosine, a->error);
    return code;
}

/* The shortest beginning that will do; s->count + 1: not even all. */
static int bisect(search *s, int *length) {
    int bad = 0, good = s->count;
    audit_accuracy a = {0};
    mark(s, good, 0, 0);
    int code = try_marked(s, &a);
    s->r->after = a;
    *length = s->count + 1;
    if (code || !a.good) return code;
    while (!code && good - bad > 1) {
        const int middle = bad + (good - bad) / 2;
        mark(s, middle, 0, 0);
        code = try_marked(s, &a);
        *(a.good ? &good : &bad) = middle;
    }
    *length = good;
    return code;
}

static void take_out(search *s, int *length, int from, int to) {
    for (int i = to; i < s->count; i++) s->order[i - (to - from)] = s->order[i];
    s->count -= to - from;
    *length -= to - from;
}

/* Halves, quarters, … single ones, from the end, where those are that add least. */
static int drop_unneeded(search *s, int *length) {
    for (int part = (*length + 1) / 2; part > 0; part = part > 1 ? (part + 1) / 2 : 0) {
        for (int to = *length; to > 0;) {
            const int from = to > part ? to - part : 0;
            audit_accuracy a = {0};
            if (run_milliseconds() > s->end) {
                s->r->gave_up_early = true;
                return AMP_EXIT_OK;
            }
            mark(s, *length, from, to);
            const int code = try_marked(s, &a);
            if (code) return code;
            if (a.good) take_out(s, length, from, to);
            to = from;
        }
    }
    return AMP_EXIT_OK;
}

/* Leaves the steps that are needed at the beginning of the order; *length of them, s->count + 1: all will not do. */
static int find(search *s, int *length) {
    const int code = bisect(s, length);
    return code || *length > s->count ? code : drop_unneeded(s, length);
}

/* ---- By what each gains alone -------------------------------------------------------------------------------------- */
typedef struct gain {
    int step;
    double value;
} gain;

static int by_gain(const void *a, const void *b) {
    const gain *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return x->step - y->step;
}

static double gain_of(const audit_accuracy *a, const run_options *o) {
    const double value = o->cosine > 0 ? a->cosine : -a->error;
    return isnan(value) ? -INFINITY : value;
}

static int order_by_gain(search *s) {
    gain *gains = calloc((size_t)s->count + 1, sizeof *gains);
    int code = AMP_EXIT_OK;
    if (!gains) return run_no_memory();
    for (int i = 0; !code && i < s->count; i++) {
        audit_accuracy a = {0};
        s->r->gave_up_early = s->r->gave_up_early || run_milliseconds() > s->end;
        gains[i] = (gain){s->order[i], -1e300 - i}; /* what there is no time for keeps its order */
        if (s->r->gave_up_early) continue;
        mark(s, i + 1, 0, i);
        code = try_marked(s, &a);
        gains[i].value = gain_of(&a, s->r->options);
    }
    if (!code) qsort(gains, (size_t)s->count, sizeof *gains, by_gain);
    for (int i = 0; !code && i < s->count; i++) s->order[i] = gains[i].step;
    free(gains);
    return code;
}

/* Another search; its answer takes the first one's place where it is shorter. */
static int search_again(search *first, int *length, const int *order, int count) {
    search again = {.r = first->r, .count = count, .end = first->end};
    int other = 0;
    again.order = malloc((size_t)count * sizeof *order);
    if (!again.order) return run_no_memory();
    memcpy(again.order, order, (size_t)count * sizeof *order);
    int code = order_by_gain(&again);
    if (!code) code = find(&again, &other);
    const bool is_shorter = !code && other <= again.count && other < *length;
    if (is_shorter) {
        memcpy(first->order, again.order, (size_t)other * sizeof *order);
        *length = first->count = other;
    }
    free(again.order);
    return code;
}

/* ---- Both ---------------------------------------------------------------------------------------------------------- */
static int search_all(search *s) {
    const int count = s->count;
    int length = 0;
    int *order = malloc((size_t)count * sizeof *order);
    if (!order) return run_no_memory();
    memcpy(order, s->order, (size_t)count * sizeof *order);
    int code = find(s, &length);
    const bool good = length <= s->count;
    if (!code && good && length > 1 && !s->r->gave_up_early) code = search_again(s, &length, order, count);
    mark(s, good ? length : s->count, 0, 0);
    s->r->kept = good ? length : s->count;
    free(order);
    return code ? code : try_marked(s, &s->r->after);
}

int audit_search(audit_report *r) {
    search s = {.r = r, .end = run_milliseconds() + 1e3 * r->options->seconds};
    s.order = malloc(((size_t)r->steps.count + 1) * sizeof *s.order);
    if (!s.order) return run_no_memory();
    for (int i = 0; i < r->steps.count; i++) {
        const audit_step *step = &r->steps.items[r->rank[i]];
        if (step->local > 0 && step->can_be_kept) s.order[s.count++] = r->rank[i];
    }
    r->after = r->before;
    const int code = r->before.good || s.count == 0 ? AMP_EXIT_OK : search_all(&s);
    free(s.order);
    return code;
}
