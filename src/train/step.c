/* A step of an optimizer: its parameters by the list, those of one call having the same numbers. */
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
} turn;

typedef struct step {
    const amp_optimizer *optimizer;
    turn *turns;
    int64_t count;
    amp_tensor **tensors; /* room for LISTS · count */
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
        if (!t->gradient) continue;
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

static bool go_together(const turn *t, const turn *first) {
    const amp_tensor *a = amp_trained_master(t->trained), *b = amp_trained_master(first->trained);
    return !t->is_done && t->uses == first->uses && !t->trained->master == !first->trained->master &&
           memcmp(t->numbers, first->numbers, sizeof t->numbers) == 0 && amp_on_one_device(a, b);
}

/* What goes with the turn `first`, list behind list, each with room for all turns. */
static int64_t collect(const step *s, const turn *first, amp_tensor **lists[LISTS]) {
    int64_t count = 0;
    for (int64_t i = first - s->turns; i < s->count; i++) {
        const turn *t = &s->turns[i];
        if (!go_together(t, first)) continue;
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

static void move_on(const step *s, const turn *first) {
    const turn of_call = *first;
    for (int64_t i = first - s->turns; i < s->count; i++) {
        turn *t = &s->turns[i];
        if (!go_together(t, &of_call)) continue;
        t->trained->progress = t->progress;
        t->is_done = true;
    }
}

static amp_status call_with(const step *s, const turn *first) {
    const amp_algorithm *algorithm = s->optimizer->algorithm;
    amp_tensor **lists[LISTS];
    for (int k = 0; k < LISTS; k++) lists[k] = s->tensors + k * s->count;
    const int64_t count = collect(s, first, lists);
    amp_optimizer_update_args args = {.struct_size = sizeof args,
                                      .input = {.items = lists[0], .count = count},
                                      .grad = {.items = lists[1], .count = count},
                                      .state = states_of(lists, first->uses, count),
                                      .algorithm = algorithm->update,
                                      .numbers = {.count = algorithm->numbers, .set = AMP_PRESENT},
                                      .copy = {.items = lists[2], .count = first->trained->master ? count : 0}};
    memcpy(args.numbers.values, first->numbers, sizeof first->numbers);
    if (!amp_optimizer_update_call(&args)) return amp_pending_error();
    move_on(s, first);
    return AMP_OK;
}

static amp_status run(step *s, amp_optimizer *o) {
    AMP_TRY(gather(s, o));
    for (int64_t i = 0; i < s->count; i++) {
        if (!s->turns[i].is_done) AMP_TRY(call_with(s, &s->turns[i]));
    }
    return AMP_OK;
}

amp_status amp_optimizer_update_all(amp_optimizer *o) {
    amp_no_grad_here();
    amp_scope_here();
    step s = {.optimizer = o};
    s.turns = amp_alloc_zeroed((size_t)o->count * sizeof *s.turns);
    s.tensors = amp_alloc((size_t)(LISTS * o->count) * sizeof *s.tensors);
    o->masters_are_new = false;
    amp_status status = AMP_OK;
    if (s.turns && s.tensors)
        status = run(&s, o);
    else
        status = amp_fail(AMP_ERROR_MEMORY, "optimizer_step: no memory");
    if (status != AMP_OK) take_back_states(&s);
    amp_free(s.turns);
    amp_free(s.tensors);
    return status;
}
