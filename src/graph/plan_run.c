/* Runs of a plan. What a run writes besides results, headers and structs, is a state; states go from run to run. */
#include <string.h>

#include "core/block.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/thread.h"
#include "dispatch/layers.h"
#include "dispatch/prepared.h"
#include "graph/hand_out.h"
#include "graph/plan_data.h"
#include "machine/isa.h"
#include "policy/policy.h"

typedef struct amp_plan_state {
    struct amp_plan_state *next;
    char *arena;            /* where storages point; the memory is that of a run */
    amp_tensor *headers;    /* by value */
    amp_tensor **values;    /* a constant, or the header */
    amp_storage *storages;  /* by block of the arena */
    char *args;             /* the steps' structs, one behind another, … */
    amp_tensor **operands;  /* … what their lists consist of, … */
    amp_tensor *casts;      /* … and the tensors that casts become */
    amp_tensor **places;    /* by result of steps */
    amp_tensor *unread;     /* what structs point to as places of further results; nobody writes it */
    amp_prepared *prepared; /* by step */
    amp_prepared_cast *cast_list;
} amp_plan_state;

bool amp_plan_is_watched(void) {
    const unsigned layers = amp_this_thread.layers | atomic_load_explicit(&amp_process_layers, memory_order_relaxed);
    return (layers & ~(unsigned)(AMP_LAYER_AUTOCAST | AMP_LAYER_GRAD)) != 0; /* graphs record no gradients */
}

/* ---- Making a state -------------------------------------------------------------------------------------------- */

static void free_one(amp_plan_state *s) {
    void *const parts[] = {s->headers, s->values, s->storages, s->args,      s->operands,
                           s->casts,   s->places, s->prepared, s->cast_list, s};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) amp_free(parts[i]);
}

void amp_plan_free_state(amp_plan_state *s) {
    while (s) {
        amp_plan_state *next = s->next;
        free_one(s);
        s = next;
    }
}

static amp_plan_state *allocate(const amp_plan *p) {
    const size_t values = (size_t)p->net->value_count, casts = (size_t)p->cast_count;
    amp_plan_state *s = amp_alloc_zeroed(sizeof *s);
    if (!s) return NULL;
    s->headers = amp_alloc(values * sizeof *s->headers);
    s->values = amp_alloc(values * sizeof(amp_tensor *));
    s->storages = amp_alloc_zeroed((size_t)p->block_count * sizeof *s->storages);
    s->args = amp_alloc(p->args_bytes);
    s->operands = amp_alloc((size_t)p->operand_count * sizeof(amp_tensor *));
    s->casts = amp_alloc_zeroed(casts * sizeof *s->casts);
    s->places = amp_alloc((size_t)p->place_count * sizeof(amp_tensor *));
    s->prepared = amp_alloc_zeroed((size_t)p->step_count * sizeof *s->prepared);
    s->cast_list = amp_alloc(casts * sizeof *s->cast_list);
    if (s->headers && s->values && s->storages && s->args && s->operands && s->casts && s->places && s->prepared &&
        s->cast_list)
        return s;
    free_one(s);
    return NULL;
}

static void fill_headers(const amp_plan *p, amp_plan_state *s) {
    memcpy(s->headers, p->headers, (size_t)p->net->value_count * sizeof *s->headers);
    for (int v = 0; v < p->net->value_count; v++) {
        amp_tensor *constant = p->net->values[v].constant;
        s->values[v] = constant ? constant : s->headers[v].magic ? &s->headers[v] : NULL;
        if (p->families[v] < 0 || p->family[p->families[v]].place != AMP_PLAN_ARENA) continue;
        s->headers[v].storage = &s->storages[p->family[p->families[v]].block];
    }
    for (int i = 0; i < p->adopted_count; i++) s->headers[p->adopted[i]].storage = NULL;
    for (int b = 0; b < p->block_count; b++) {
        amp_storage *storage = &s->storages[b];
        atomic_init(&storage->references, 1);
        atomic_init(&storage->produced, true);
        storage->device = AMP_DEVICE_CPU;
        storage->bytes = p->blocks[b].bytes;
    }
}

/* The tensor that stands for an operand: its value, or the cast of it. */
static void fill_operands(const amp_net_node *node, amp_tensor **operands, char *args) {
    amp_tensor_list *list = NULL;
    for (int i = 0; i < node->operand_count; i++) {
        const amp_net_operand *o = &node->operands[i];
        const amp_arg_info *arg = &node->op->args[o->argument];
        void *field = args + arg->offset;
        if (arg->kind == AMP_ARG_TENSOR) {
            *(amp_tensor **)field = operands[i];
            continue;
        }
        list = field;
        if (o->place == 0) list->items = &operands[i];
    }
}

static void fill_further(amp_plan_state *s, const amp_net_node *node, char *args) {
    int index = 0;
    for (int i = 0; i < node->op->arg_count; i++) {
        if (node->op->args[i].kind != AMP_ARG_OUTPUT) continue;
        amp_tensor ***field = (amp_tensor ***)(void *)(args + node->op->args[i].offset);
        *field = node->results[++index] >= 0 ? &s->unread : NULL;
    }
}

/* Where the next step's parts begin. */
typedef struct cursor {
    size_t args;
    int operands, casts, places;
} cursor;

/* Of the first run's: none becomes unaligned later. */
static bool has_unaligned(const amp_net *net, const amp_net_node *node) {
    for (int i = 0; i < node->operand_count; i++) {
        const int value = node->operands[i].value;
        const amp_tensor *constant = value >= 0 ? net->values[value].constant : NULL;
        if (constant && amp_tensor_lies_unaligned(amp_tensor_memory(constant))) return true;
    }
    return false;
}

static void fill_step(const amp_plan *p, amp_plan_state *s, int number, cursor *at) {
    const amp_plan_step *step = &p->steps[number];
    const amp_net_node *node = &p->net->nodes[step->node];
    amp_tensor **operands = s->operands + at->operands, **places = s->places + at->places;
    char *args = s->args + at->args;
    memcpy(args, step->args, node->op->args_size);
    for (int i = 0; i < node->operand_count; i++)
        operands[i] = node->operands[i].value >= 0 ? s->values[node->operands[i].value] : NULL;
    for (int i = 0; i < step->cast_count; i++) {
        const amp_plan_cast *c = &step->casts[i];
        s->cast_list[at->casts + i] =
            (amp_prepared_cast){&s->casts[at->casts + i], operands[c->operand], c->dtype, c->life};
        operands[c->operand] = &s->casts[at->casts + i];
    }
    fill_operands(node, operands, args);
    fill_further(s, node, args);
    for (int i = 0; i < node->result_count; i++)
        places[i] = node->results[i] >= 0 ? &s->headers[node->results[i]] : NULL;
    s->prepared[number] = (amp_prepared){.op = node->op,
                                         .row = amp_prepared_row(node->op),
                                         .args = args,
                                         .places = places,
                                         .casts = s->cast_list + at->casts,
                                         .cast_count = step->cast_count,
                                         .output_count = node->result_count,
                                         .has_unaligned = has_unaligned(p->net, node)};
    at->args += amp_plan_args_room(node->op);
    at->operands += node->operand_count;
    at->casts += step->cast_count;
    at->places += node->result_count;
}

static amp_plan_state *make_state(const amp_plan *p) {
    amp_plan_state *s = allocate(p);
    cursor at = {0};
    if (!s) return NULL;
    fill_headers(p, s);
    for (int i = 0; i < p->step_count; i++) {
        if (!p->steps[i].dispatches) fill_step(p, s, i, &at);
    }
    return s;
}

static amp_plan_state *take_state(amp_plan *p) {
    amp_lock(AMP_LOCK_GRAPHS);
    amp_plan_state *s = p->states;
    if (s) p->states = s->next;
    amp_unlock(AMP_LOCK_GRAPHS);
    return s ? s : make_state(p);
}

static void give_state_back(amp_plan *p, amp_plan_state *s) {
    amp_lock(AMP_LOCK_GRAPHS);
    s->next = p->states;
    p->states = s;
    amp_unlock(AMP_LOCK_GRAPHS);
}

/* ---- One run --------------------------------------------------------------------------------------------------- */

typedef struct run {
    const amp_plan *plan;
    amp_plan_state *state;
    amp_tensor *const *into; /* the caller's, by output; may be NULL */
    amp_scope_frame frame;   /* owns outputs, until they are handed out */
    bool in_place;
} run;

/* The same memory as in the last run: nothing points elsewhere. */
static void point_storages(const amp_plan *p, amp_plan_state *s, char *arena) {
    if (s->arena == arena) return;
    s->arena = arena;
    for (int b = 0; b < p->block_count; b++) s->storages[b].data = arena + p->blocks[b].offset;
}

static bool is_constant(const amp_net *net, const amp_storage *s) {
    for (int v = 0; net->keeps_given && v < net->value_count; v++) {
        if (net->values[v].constant && net->values[v].constant->storage == s) return true;
    }
    return false;
}

/* Steps can write there what has its memory like this, alone. */
static bool can_take(const run *r, const amp_tensor *t, const amp_tensor *like, size_t bytes) {
    const bool fits = t->dtype == like->dtype && amp_same_layout(t, like) && t->offset == 0 && like->offset == 0;
    return fits && amp_tensor_is_dense(t) && t->storage->bytes >= bytes &&
           (size_t)amp_tensor_elements(t) * amp_element_sizes[t->dtype] == bytes &&
           (uintptr_t)t->storage->data % AMP_BLOCK_HEADER == 0 && !is_constant(r->plan->net, t->storage);
}

/* The caller's tensor that can be a family's memory; NULL: none can. */
static const amp_tensor *target_of(const run *r, const amp_plan_family *f) {
    const amp_plan *p = r->plan;
    for (int i = 0; r->into && i < p->net->output_count; i++) {
        const int value = p->net->outputs[i];
        if (!r->into[i] || p->families[value] < 0 || &p->family[p->families[value]] != f) continue;
        if (can_take(r, r->into[i], &p->headers[value], f->bytes)) return r->into[i];
    }
    return NULL;
}

/* Memory of an output, as the first value that lies in it. */
static amp_status make_outer(run *r, const amp_plan_family *f) {
    const amp_tensor *like = &r->plan->headers[f->value], *target = target_of(r, f);
    if (target) {
        r->state->headers[f->value].storage = target->storage;
        return AMP_OK;
    }
    amp_tensor *t = amp_tensor_new("graph", AMP_U8, 1, (const int64_t[1]){(int64_t)f->bytes});
    if (!t) return amp_pending_error();
    atomic_store_explicit(&t->storage->produced, true, memory_order_relaxed);
    t->dtype = like->dtype;
    t->rank = like->rank;
    t->offset = like->offset;
    memcpy(t->shape, like->shape, sizeof t->shape);
    memcpy(t->strides, like->strides, sizeof t->strides);
    r->state->values[f->value] = t;
    return AMP_OK;
}

static amp_status place_values(run *r, amp_tensor *const *inputs) {
    const amp_plan *p = r->plan;
    for (int i = 0; i < p->family_count; i++) {
        if (p->family[i].place == AMP_PLAN_OUTER) AMP_TRY(make_outer(r, &p->family[i]));
    }
    for (int i = 0; i < p->placed_count; i++) {
        const int value = p->placed[i];
        const amp_plan_family *f = &p->family[p->families[value]];
        amp_tensor *h = &r->state->headers[value];
        if (f->place == AMP_PLAN_OUTER) {
            h->storage = r->state->values[f->value]->storage;
        } else {
            h->storage = inputs[f->value]->storage;
            h->offset = p->headers[value].offset + inputs[f->value]->offset;
        }
    }
    return AMP_OK;
}

static void let_go(amp_tensor *h) {
    amp_storage_drop(h->storage);
    h->storage = NULL;
}

/* A result of the dispatcher's becomes what the header says. */
static void adopt(run *r, int value) {
    amp_tensor *t = r->state->values[value], *h = &r->state->headers[value];
    r->in_place &= t != h && t->dtype == h->dtype && amp_same_shape(t, h);
    if (t == h) return; /* a list was shorter than when it was recorded */
    memcpy(h->strides, t->strides, (size_t)t->rank * sizeof *h->strides);
    h->offset = t->offset;
    h->storage = amp_storage_retain(t->storage);
    r->state->values[value] = h;
    amp_tensor_drop(t);
}

static amp_status dispatch_step(run *r, const amp_plan_step *step) {
    const amp_net_node *node = &r->plan->net->nodes[step->node];
    AMP_TRY(amp_net_run_node(r->plan->net, node, r->state->values));
    for (int i = 0; i < node->result_count; i++) {
        if (node->results[i] >= 0) adopt(r, node->results[i]);
    }
    return AMP_OK;
}

/* Views were laid out for results that lie as they lay when the plan was made. */
static void check_layout(run *r, const amp_plan_step *step) {
    const amp_net_node *node = &r->plan->net->nodes[step->node];
    for (int i = 0; i < node->result_count; i++) {
        const int value = node->results[i];
        if (value < 0) continue;
        const amp_tensor *t = &r->state->headers[value], *as = &r->plan->headers[value];
        r->in_place &= t->offset == as->offset && amp_same_layout(t, as);
    }
}

AMP_HOT static amp_status run_steps(run *r) {
    const amp_plan *p = r->plan;
    for (int i = 0; i < p->step_count && r->in_place; i++) {
        const amp_plan_step *step = &p->steps[i];
        if (step->dispatches) {
            AMP_TRY(dispatch_step(r, step));
        } else {
            AMP_TRY(amp_prepared_run(&r->state->prepared[i], &r->in_place));
            if (step->is_viewed) check_layout(r, step);
        }
        for (int d = 0; d < step->drop_count; d++) let_go(&r->state->headers[p->drops[step->first_drop + d]]);
    }
    return AMP_OK;
}

static amp_status run_all(run *r, amp_tensor *const *inputs, amp_tensor **outputs) {
    AMP_TRY(amp_isa_status());
    AMP_TRY(place_values(r, inputs));
    AMP_TRY(run_steps(r));
    if (!r->in_place) return AMP_OK;
    return amp_hand_out(&r->frame, r->state->values, r->plan->net->outputs, r->plan->net->output_count, outputs);
}

/* The state is as it was before the run. */
static void clean(const run *r) {
    const amp_plan *p = r->plan;
    amp_plan_state *s = r->state;
    for (int i = 0; i < p->adopted_count; i++) {
        s->values[p->adopted[i]] = &s->headers[p->adopted[i]];
        if (s->headers[p->adopted[i]].storage) let_go(&s->headers[p->adopted[i]]);
    }
    for (int i = 0; i < p->placed_count; i++) {
        s->headers[p->placed[i]].storage = NULL;
        s->values[p->placed[i]] = &s->headers[p->placed[i]];
    }
}

static bool holds(const amp_plan *p, amp_tensor *const *inputs) {
    if (atomic_load_explicit(&p->broken, memory_order_relaxed) || amp_plan_is_watched()) return false;
    if (memcmp(p->regions, amp_region_states, sizeof p->regions) != 0 || p->policies != amp_policy_version())
        return false;
    for (int i = 0; i < p->net->input_count; i++) {
        if (!amp_same_layout(inputs[i], &p->headers[p->net->inputs[i]])) return false;
        if (inputs[i]->storage->is_ahead) return false; /* another thread's: the dispatcher says so */
    }
    return true;
}

bool amp_plan_run(amp_plan *p, amp_tensor *const *inputs, amp_tensor *const *into, amp_tensor **outputs,
                  amp_status *status) {
    if (!holds(p, inputs)) return false;
    run r = {.plan = p, .state = take_state(p), .into = into, .in_place = true};
    if (!r.state) return false;
    char *arena = amp_alloc(p->arena_bytes);
    if (!arena) {
        give_state_back(p, r.state);
        return false;
    }
    point_storages(p, r.state, arena);
    amp_scope_push(&r.frame);
    *status = run_all(&r, inputs, outputs);
    clean(&r);
    amp_scope_pop(&r.frame);
    amp_free(arena);
    give_state_back(p, r.state);
    if (r.in_place || *status != AMP_OK) return true;
    atomic_store_explicit(&p->broken, true, memory_order_relaxed);
    return false;
}

/* Where memory ends, a run says so. */
void amp_plan_warm(amp_plan *p) {
    run r = {.plan = p, .state = take_state(p), .in_place = true};
    char *arena = r.state ? amp_alloc(p->arena_bytes) : NULL;
    if (arena) {
        memset(arena, 0, p->arena_bytes);
        point_storages(p, r.state, arena);
        amp_scope_push(&r.frame);
        for (int i = 0; i < p->family_count; i++) {
            if (p->family[i].place == AMP_PLAN_OUTER && make_outer(&r, &p->family[i]) != AMP_OK) amp_clear_error();
        }
        clean(&r);
        amp_scope_pop(&r.frame);
    }
    amp_free(arena);
    if (r.state) give_state_back(p, r.state);
}
