/* Optimizers whose parameters are shared out: each rank updates its own, and has their states alone. */
#include <stdlib.h>

#include "core/memory.h"
#include "core/struct_size.h"
#include "distributed/data_parallel.h"
#include "train/optimizer.h"
#include "train/training.h"

/* What goes round at once, over all ranks together. */
enum { ROUND_BYTES = 32 << 20, LEAST_WINDOW = 64 << 10, LINE = 64 };

typedef struct shard {
    amp_optimizer *optimizer;
    int size; /* of the group */
    amp_place place;
    int *owners;
    size_t *places; /* of a step: where a parameter begins in what its owner sends */
    size_t *sent;   /* … and the bytes of each owner */
    size_t most;    /* bytes that an owner sends at once, */
    size_t window;  /* … in this step */
    amp_room round; /* … of all ranks */
} shard;

static size_t bytes_of(const amp_tensor *t) {
    return (size_t)amp_tensor_elements(t) * amp_dtype_size(t->dtype);
}

static void shard_free(void *context) {
    shard *s = context;
    amp_free(s->owners);
    amp_free(s->places);
    amp_free(s->sent);
    if (s->place.kind) s->place.kind->drop(&s->round);
    amp_free(s);
}

/* ---- A step ------------------------------------------------------------------------------------------------------ */
static const char what_step[] = "optimizer_step";

/* Which parameters have a gradient. */
static uint64_t mark_of_gradients(const amp_optimizer *o) {
    uint64_t mark = (uint64_t)o->count + 1;
    for (int64_t i = 0; i < o->count; i++) {
        const bool is_there = amp_trained_gradient(o, &o->items[i]) != NULL;
        mark = amp_world_mix(mark, (uint64_t)is_there + 1);
    }
    return mark;
}

/* Nobody steps unless all can, and have gradients of the same parameters. */
static amp_status before_step(void *context, amp_status status) {
    shard *s = context;
    const amp_world *g = NULL;
    AMP_TRY(amp_world_enter(what_step, &g));
    if (status == AMP_OK && g->size != s->size)
        status = amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is sharded among %d ranks, and the group has %d",
                          what_step, s->size, g->size);
    AMP_TRY(amp_world_agree(what_step, status, status == AMP_OK ? mark_of_gradients(s->optimizer) : 0));
    return amp_place_renew(what_step, &s->place);
}

/* All ranks have the same gradients, and know what was updated where. Returns the bytes of the rank that sends most. */
static size_t place_updated(const shard *s) {
    const amp_optimizer *o = s->optimizer;
    size_t most = 0, *sent = s->sent;
    memset(sent, 0, (size_t)s->size * sizeof *sent);
    for (int64_t i = 0; i < o->count; i++) {
        const amp_trained *t = &o->items[i];
        s->places[i] = SIZE_MAX;
        if (!amp_trained_gradient(o, t)) continue;
        s->places[i] = sent[s->owners[i]];
        sent[s->owners[i]] += bytes_of(t->parameter);
    }
    for (int r = 0; r < s->size; r++) most = sent[r] > most ? sent[r] : most;
    return most;
}

/* The part of each parameter that lies in the window which begins at `from`: into the round, or out of it. */
static amp_status copy_window(const shard *s, char *round, int rank, size_t from, bool sends) {
    const amp_optimizer *o = s->optimizer;
    const amp_place_kind *kind = s->place.kind;
    for (int64_t i = 0; i < o->count; i++) {
        if (s->places[i] == SIZE_MAX || (s->owners[i] == rank) != sends) continue;
        const amp_tensor *t = o->items[i].parameter;
        const size_t begin = s->places[i], end = begin + bytes_of(t);
        const size_t first = begin > from ? begin : from, last = end < from + s->window ? end : from + s->window;
        if (first >= last) continue;
        char *own = kind->address(what_step, &s->place, t);
        if (!own) return amp_pending_error();
        own += first - begin;
        char *place = round + (size_t)s->owners[i] * s->window + (first - from);
        AMP_TRY(kind->copy(what_step, &s->place, sends ? place : own, sends ? own : place, last - first));
    }
    return AMP_OK;
}

/* Nobody takes what a rank could not send. */
static amp_status send_window(const shard *s, char *round, int rank, size_t from) {
    amp_status status = round ? copy_window(s, round, rank, from, true) : amp_pending_error();
    if (status != AMP_OK)
        amp_place_lose(&s->place);
    else
        status = s->place.kind->gather(what_step, &s->place, round + (size_t)rank * s->window, round, s->window);
    return amp_place_settle(what_step, &s->place, status);
}

static void mark_written(const shard *s, int rank) {
    for (int64_t i = 0; i < s->optimizer->count; i++) {
        if (s->places[i] != SIZE_MAX && s->owners[i] != rank) amp_tensor_written(s->optimizer->items[i].parameter);
    }
}

/* *received: whether this rank could take all. */
static amp_status share(shard *s, const amp_world *g, amp_status *received) {
    const size_t most = place_updated(s), lines = (most + LINE - 1) / LINE * LINE;
    s->window = lines < s->most ? lines : s->most;
    char *round = s->place.kind->reach(what_step, &s->place, &s->round);
    amp_status status = AMP_OK, copied = AMP_OK;
    for (size_t from = 0; from < most && status == AMP_OK; from += s->window) {
        status = send_window(s, round, g->rank, from);
        if (status == AMP_OK && copied == AMP_OK) copied = copy_window(s, round, g->rank, from, false);
    }
    mark_written(s, g->rank);
    *received = copied;
    return status;
}

/* What a rank could not update goes round as it is: models stay the same on all. */
static amp_status after_step(void *context, amp_status status) {
    shard *s = context;
    const amp_world *g = NULL;
    AMP_TRY(amp_world_enter(what_step, &g));
    amp_status received = AMP_OK;
    if (s->size > 1) AMP_TRY(share(s, g, &received));
    return amp_world_agree(what_step, status == AMP_OK ? received : status, 0);
}

/* ---- Sharing out ------------------------------------------------------------------------------------------------- */
static const char what_shard[] = "data_parallel_shard";

static void drop_others(const amp_optimizer *o) {
    for (int64_t i = 0; i < o->count; i++) {
        amp_trained *t = &o->items[i];
        if (!t->is_elsewhere) continue;
        amp_release(t->master);
        t->master = NULL;
        for (int k = 0; k < AMP_ALGORITHM_STATES; k++) {
            amp_release(t->states[k]);
            t->states[k] = NULL;
        }
    }
}

/* Each parameter, the largest first, goes to the rank that has least so far; of several to the first. */
static void choose_owners(const shard *s, size_t *loads, int64_t *order) {
    const amp_optimizer *o = s->optimizer;
    for (int64_t i = 0; i < o->count; i++) { /* insertion: stable, and lists are short beside a step */
        int64_t at = i;
        for (; at > 0 && bytes_of(o->items[order[at - 1]].parameter) < bytes_of(o->items[i].parameter); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    memset(loads, 0, (size_t)s->size * sizeof *loads);
    for (int64_t k = 0; k < o->count; k++) {
        int least = 0;
        for (int r = 1; r < s->size; r++) least = loads[r] < loads[least] ? r : least;
        s->owners[order[k]] = least;
        loads[least] += bytes_of(o->items[order[k]].parameter);
    }
}

static bool has(const amp_data_parallel *d, const amp_tensor *t) {
    for (int i = 0; i < d->count; i++) {
        if (d->items[i].tensor == t) return true;
    }
    return false;
}

static amp_status check(const amp_data_parallel *d, const amp_optimizer *o) {
    AMP_TRY(amp_pending_error());
    if (!o) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is NULL", what_shard);
    if (o->sharing.context) return amp_fail(AMP_ERROR_INVALID, "%s: the optimizer is sharded already", what_shard);
    if (o->apex) return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: the optimizer is apex's", what_shard);
    for (int64_t i = 0; i < o->count; i++) {
        if (!has(d, o->items[i].parameter))
            return amp_fail(AMP_ERROR_INVALID, "%s: the ddp has no parameter '%.200s'", what_shard, o->items[i].name);
    }
    return AMP_OK;
}

static shard *shard_new(const amp_data_parallel *d, amp_optimizer *o, const amp_world *g) {
    shard *s = amp_alloc_zeroed(sizeof *s);
    if (!s) return NULL;
    const size_t even = ROUND_BYTES / (size_t)g->size;
    *s = (shard){.optimizer = o, .size = g->size, .place = d->place};
    s->most = s->window = even > LEAST_WINDOW ? even / LINE * LINE : LEAST_WINDOW;
    s->owners = amp_alloc((size_t)o->count * sizeof *s->owners);
    s->places = amp_alloc((size_t)o->count * sizeof *s->places);
    s->sent = amp_alloc((size_t)g->size * sizeof *s->sent);
    const bool has_round = s->place.kind->take(&s->place, s->most * (size_t)g->size, &s->round);
    size_t *loads = amp_alloc((size_t)g->size * sizeof *loads);
    int64_t *order = amp_alloc((size_t)o->count * sizeof *order);
    const bool has_memory = s->owners && s->places && s->sent && has_round && loads && order;
    if (has_memory) choose_owners(s, loads, order);
    amp_free(loads);
    amp_free(order);
    if (has_memory) return s;
    shard_free(s);
    return NULL;
}

amp_status amp_data_parallel_shard(amp_data_parallel *d, amp_optimizer *o) {
    const amp_world *g = NULL;
    AMP_TRY(amp_data_parallel_enter(what_shard, d, &g));
    amp_status status = check(d, o);
    shard *s = status == AMP_OK ? shard_new(d, o, g) : NULL;
    if (status == AMP_OK && !s) status = amp_fail(AMP_ERROR_MEMORY, "%s: no memory", what_shard);
    status = amp_world_agree(what_shard, status, s ? (uint64_t)o->count + 1 : 0);
    if (status != AMP_OK || !s) {
        if (s) shard_free(s);
        return status;
    }
    o->sharing = (amp_optimizer_sharing){s, g->size == 1, before_step, after_step, shard_free};
    for (int64_t i = 0; i < o->count; i++) o->items[i].is_elsewhere = s->owners[i] != g->rank;
    drop_others(o);
    return AMP_OK;
}

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */
static bool is_sharded(const amp_optimizer *o) {
    return o->sharing.after_step == after_step;
}

/* Calls visit(…) of each sharded optimizer of the run; `training` is a program's, of any size, which has been read. */
static amp_status each_shard(const amp_training *training, amp_status (*visit)(shard *s, const amp_world *g),
                             const amp_world *g) {
    for (int i = 0; i < AMP_TRAINING_MOST && training->optimizers[i]; i++) {
        if (is_sharded(training->optimizers[i])) AMP_TRY(visit(training->optimizers[i]->sharing.context, g));
    }
    return AMP_OK;
}

static const char what_save[] = "data_parallel_save";

/* What an owner tells of a parameter, before the elements. */
typedef struct told {
    amp_progress progress;
    bool has_master, has_state[AMP_ALGORITHM_STATES];
} told;

static told tell(const amp_trained *t) {
    told it;
    memset(&it, 0, sizeof it);
    it.progress = t->progress;
    it.has_master = t->master != NULL;
    for (int k = 0; k < AMP_ALGORITHM_STATES; k++) it.has_state[k] = t->states[k] != NULL;
    return it;
}

/* `bytes` of the owner's tensor to where there is one; else they only pass by. A failure on a GPU the ranks tell each
 * other at the end. */
static amp_status pass(const shard *s, const amp_world *g, amp_tensor *t, size_t bytes, int owner) {
    const amp_place_kind *kind = s->place.kind;
    char *begin = t ? kind->address(what_save, &s->place, t) : kind->reach(what_save, &s->place, &s->round);
    if (!begin) amp_place_lose(&s->place);
    for (size_t done = 0; done < bytes; done += s->most) {
        const size_t now = bytes - done < s->most ? bytes - done : s->most;
        char *place = t && begin ? begin + done : begin;
        const amp_status status = kind->broadcast(what_save, &s->place, place, now, owner);
        if (status != AMP_OK && !kind->is_apart) return status;
    }
    if (t && owner != g->rank) amp_tensor_written(t);
    return AMP_OK;
}

/* Rank 0 makes what it is told of; a failure of that is told at the end. */
static void make_told(const amp_optimizer *o, amp_trained *t, const told *it) {
    t->progress = it->progress;
    if (it->has_master && !t->master) (void)amp_trained_make_master(what_save, t, t->parameter);
    for (int k = 0; k < AMP_ALGORITHM_STATES; k++) {
        if (it->has_state[k]) (void)amp_trained_make_state(o, t, k);
    }
}

static amp_status gather_parameter(const shard *s, const amp_world *g, amp_trained *t, int owner) {
    told it = tell(t);
    if (!g->transport->broadcast(&it, sizeof it, owner)) return amp_world_fail(what_save);
    if (g->rank == 0 && owner != 0) make_told(s->optimizer, t, &it);
    const bool takes_part = g->rank == 0 || g->rank == owner;
    const size_t master = (size_t)amp_tensor_elements(t->parameter) *
                          (it.has_master ? sizeof(float) : amp_dtype_size(t->parameter->dtype));
    if (it.has_master) AMP_TRY(pass(s, g, takes_part ? t->master : NULL, master, owner));
    for (int k = 0; k < AMP_ALGORITHM_STATES; k++) {
        if (it.has_state[k]) AMP_TRY(pass(s, g, takes_part ? t->states[k] : NULL, master, owner));
    }
    return AMP_OK;
}

static amp_status gather_shard(shard *s, const amp_world *g) {
    amp_no_grad_here();
    amp_scope_here();
    AMP_TRY(amp_place_renew(what_save, &s->place));
    for (int64_t i = 0; i < s->optimizer->count; i++) {
        if (s->owners[i] != 0) AMP_TRY(gather_parameter(s, g, &s->optimizer->items[i], s->owners[i]));
    }
    s->optimizer->sharing.is_whole = g->rank == 0;
    return AMP_OK;
}

/* Nothing is written of what a GPU could not send. */
static amp_status settle_shard(shard *s, const amp_world *g) {
    (void)g;
    return amp_place_settle(what_save, &s->place, AMP_OK);
}

static amp_status drop_shard(shard *s, const amp_world *g) {
    s->optimizer->sharing.is_whole = g->size == 1;
    drop_others(s->optimizer);
    return AMP_OK;
}

static amp_status read_training(const char *what, const amp_training *given, const char *path, amp_training *t) {
    AMP_TRY(amp_pending_error());
    AMP_TRY(amp_struct_read(what, "amp_training", t, sizeof *t, sizeof t->struct_size, given));
    return path ? AMP_OK : amp_fail(AMP_ERROR_INVALID, "%s: the path is NULL", what);
}

amp_status amp_data_parallel_save(amp_data_parallel *d, const amp_training *given, const char *path) {
    const amp_world *g = NULL;
    amp_training t = {.struct_size = sizeof t};
    AMP_TRY(amp_data_parallel_enter(what_save, d, &g));
    AMP_TRY(amp_world_agree(what_save, read_training(what_save, given, path, &t), 0));
    amp_status status = each_shard(&t, gather_shard, g);
    if (status == AMP_OK) status = each_shard(&t, settle_shard, g);
    if (status == AMP_OK && g->rank == 0) status = amp_training_save(&t, path);
    (void)each_shard(&t, drop_shard, g);
    return amp_world_agree(what_save, status, 0);
}

/* The file has masters of all parameters. */
static amp_status make_masters(shard *s, const amp_world *g) {
    const amp_optimizer *o = s->optimizer;
    (void)g;
    for (int64_t i = 0; i < o->count && o->master_weights; i++) {
        amp_trained *t = &o->items[i];
        const bool is_16_bit = t->parameter->dtype == AMP_F16 || t->parameter->dtype == AMP_BF16;
        if (is_16_bit && !t->master) AMP_TRY(amp_trained_make_master("data_parallel_load", t, t->parameter));
    }
    return AMP_OK;
}

static amp_status agree_to_load(void *context, amp_status status) {
    (void)context;
    return amp_world_agree("data_parallel_load", status, 0);
}

amp_status amp_data_parallel_load(amp_data_parallel *d, const amp_training *given, const char *path) {
    static const char what[] = "data_parallel_load";
    const amp_world *g = NULL;
    amp_training t = {.struct_size = sizeof t};
    AMP_TRY(amp_data_parallel_enter(what, d, &g));
    AMP_TRY(amp_world_agree(what, read_training(what, given, path, &t), 0));
    (void)each_shard(&t, make_masters, g); /* an error of which stands when the ranks agree */
    const amp_status status = amp_training_load_if(&t, path, agree_to_load, NULL);
    (void)each_shard(&t, drop_shard, g);
    return status;
}
