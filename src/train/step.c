/* A step of an optimizer: its parameters by the list, those of one call having the same numbers. */
#include <stdlib.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "core/memory.h"
#include "train/devices.h"
#include "train/optimizer.h"

enum { LISTS = 3 + AMP_ALGORITHM_STATES };

/* A parameter that has a gradient. */
typedef struct turn {
    amp_trained *trained;
    amp_tensor *gradient;
    amp_progress progress; /* behind the step */
    unsigned uses, made;   /* a bit for each state: in use; made for this step */
    bool is_done;
    double numbers[AMP_MAX_RANK];
    bool is_first;           /* of its call … */
    struct turn *next;       /* … whose next turn, later in the list, this is; NULL: it is the last */
    struct turn *end_of_run; /* of turns of one call that stand together, where this is the first of them */
} turn;

typedef struct step {
    const amp_optimizer *optimizer;
    turn *turns;
    int64_t count;
    amp_tensor **tensors; /* room for LISTS · count */
    turn **runs;          /* room for count */
} step;

/* ---- Before anything is written ----------------------------------------------------------------------------------- */

static amp_status make_states(const amp_optimizer *o, turn *t) {
    for (int k = 0; k < AMP_ALGORITHM_STATES; k++) {
        if (!amp_state_is_used(&o->algorithm->states[k], o->groups[t->trained->group].options)) continue;
        const bool is_there = t->trained->states[k] != NULL;
        AMP_TRY(amp_trained_make_state(o, t->trained, k));
        t->uses |= 1u << k;
        if (!is_there) t->made |= 1u << k;
    }
    return AMP_OK;
}

/* Most parameters are where the one before them is. */
static bool are_numbers_of(const turn *t, const turn *other) {
    const amp_progress a = t->trained->progress, b = other->trained->progress;
    return t->trained->group == other->trained->group && t->made == other->made && a.step == b.step &&
           a.mu_product == b.mu_product;
}

/* Those before have not moved on yet. */
static void prepare(const amp_optimizer *o, turn *t, const turn *before) {
    if (before && are_numbers_of(t, before)) {
        t->progress = before->progress;
        memcpy(t->numbers, before->numbers, sizeof t->numbers);
        return;
    }
    t->progress = (amp_progress){t->trained->progress.step + 1, t->trained->progress.mu_product};
    o->algorithm->prepare(o->groups[t->trained->group].options, &t->progress, t->made != 0, t->numbers);
}

static amp_status gather(step *s, amp_optimizer *o) {
    for (int64_t i = 0; i < o->count; i++) {
        turn *t = &s->turns[s->count];
        t->trained = &o->items[i];
        t->gradient = amp_trained_gradient(o, t->trained);
        if (!t->gradient || t->trained->is_elsewhere) continue;
        s->count++;
        AMP_TRY(make_states(o, t));
        prepare(o, t, s->count > 1 ? t - 1 : NULL);
    }
    return AMP_OK;
}

/* States that no update has seen would pass for those of a step before. */
static void take_back_states(const step *s) {
    for (int64_t i = 0; i < s->count; i++) {
        turn *t = &s->turns[i];
        for (int k = 0; k < AMP_ALGORITHM_STATES; k++) {
            if (t->is_done || !(t->made & 1u << k)) continue;
            amp_release(t->trained->states[k]);
            t->trained->states[k] = NULL;
        }
    }
}

/* ---- Calls -------------------------------------------------------------------------------------------------------- */

/* An order of calls, in which 0 is one and the same. */
static int compare_calls(const turn *a, const turn *b) {
    const int devices = amp_compare_devices(amp_trained_master(a->trained), amp_trained_master(b->trained));
    if (a->uses != b->uses) return a->uses < b->uses ? -1 : 1;
    if (!a->trained->master != !b->trained->master) return a->trained->master ? -1 : 1;
    return devices ? devices : memcmp(a->numbers, b->numbers, sizeof a->numbers);
}

/* … and of one call's in the order of the list. */
static int compare_runs(const void *a, const void *b) {
    const turn *first = *(turn *const *)a, *second = *(turn *const *)b;
    const int order = compare_calls(first, second);
    return order ? order : (first > second) - (first < second);
}

/* Links the turns of each call. */
static void link_calls(const step *s) {
    size_t count = 0;
    for (turn *t = s->turns; t < s->turns + s->count; t++) {
        const bool goes_on = count > 0 && compare_calls(t, t - 1) == 0;
        if (goes_on)
            t[-1].next = t;
        else
            s->runs[count++] = t;
        s->runs[count - 1]->end_of_run = t;
    }
    if (count > 1) qsort(s->runs, count, sizeof *s->runs, compare_runs);
    for (size_t i = 0; i < count; i++) {
        const bool goes_on = i > 0 && compare_calls(s->runs[i], s->runs[i - 1]) == 0;
        s->runs[i]->is_first = !goes_on;
        if (goes_on) s->runs[i - 1]->end_of_run->next = s->runs[i];
    }
}

/* The tensors of a call, list behind list, each with room for all turns. */
static int64_t collect(const turn *first, amp_tensor **lists[LISTS]) {
    int64_t count = 0;
    for (const turn *t = first; t; t = t->next) {
        lists[0][count] = amp_trained_master(t->trained);
        lists[1][count] = t->gradient;
        lists[2][count] = t->trained->parameter;
        for (int k = 0, to = 3; k < AMP_ALGORITHM_STATES; k++) {
            if (t->uses & 1u << k) lists[to++][count] = t->trained->states[k];
        }
        count++;
    }
    return count;
}

/* The lists of states as one, without the room between them. */
static amp_tensor_list states_of(amp_tensor **lists[LISTS], unsigned uses, int64_t count) {
    amp_tensor_list states = {.items = lists[3]};
    for (int k = 0; k < __builtin_popcount(uses); k++) {
        memmove(lists[3] + states.count, lists[3 + k], (size_t)count * sizeof *lists[3]);
        states.count += count;
    }
    return states;
}

static void move_on(turn *first) {
    for (turn *t = first; t; t = t->next) {
        t->trained->progress = t->progress;
        t->is_done = true;
    }
}

static amp_status call_with(const step *s, turn *first) {
    const amp_algorithm *algorithm = s->optimizer->algorithm;
    amp_tensor **lists[LISTS];
    for (int k = 0; k < LISTS; k++) lists[k] = s->tensors + k * s->count;
    const int64_t count = collect(first, lists);
    amp_optimizer_update_args args = {.struct_size = sizeof args,
                                      .input = {.items = lists[0], .count = count},
                                      .grad = {.items = lists[1], .count = count},
                                      .state = states_of(lists, first->uses, count),
                                      .algorithm = algorithm->update,
                                      .numbers = {.count = algorithm->numbers, .set = AMP_PRESENT},
                                      .copy = {.items = lists[2], .count = first->trained->master ? count : 0}};
    memcpy(args.numbers.values, first->numbers, sizeof first->numbers);
    if (!amp_optimizer_update_call(&args)) return amp_pending_error();
    move_on(first);
    return AMP_OK;
}

static amp_status run(step *s, amp_optimizer *o) {
    AMP_TRY(gather(s, o));
    link_calls(s);
    for (int64_t i = 0; i < s->count; i++) {
        if (s->turns[i].is_first) AMP_TRY(call_with(s, &s->turns[i]));
    }
    return AMP_OK;
}

amp_status amp_optimizer_update_all(amp_optimizer *o) {
    amp_no_grad_here();
    amp_scope_here();
    step s = {.optimizer = o};
    s.turns = amp_alloc_zeroed((size_t)o->count * sizeof *s.turns);
    s.tensors = amp_alloc((size_t)(LISTS * o->count) * sizeof *s.tensors);
    s.runs = amp_alloc((size_t)o->count * sizeof(turn *));
    o->masters_are_new = false;
    amp_status status = AMP_OK;
    if (s.turns && s.tensors && s.runs)
        status = run(&s, o);
    else
        status = amp_fail(AMP_ERROR_MEMORY, "optimizer_step: no memory");
    if (status != AMP_OK) take_back_states(&s);
    amp_free(s.turns);
    amp_free(s.tensors);
    amp_free(s.runs);
    return status;
}
