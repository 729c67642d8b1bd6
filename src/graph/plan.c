/* From a run through the dispatcher to a plan. */
#include <limits.h>
#include <pthread.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/verbose.h"
#include "dispatch/layers.h"
#include "dispatch/prepared.h"
#include "graph/plan_data.h"
#include "policy/policy.h"
#include "policy/user_ops.h"

/* What the innermost layer saw of a node's call. */
typedef struct seen_call {
    bool seen, odd; /* odd: an argument is neither the operand nor a cast of it */
    alignas(max_align_t) char args[AMP_MAX_ARGS_BYTES];
    amp_plan_cast *casts;
    int cast_count;
    unsigned fresh;
    const amp_storage *storages[AMP_MAX_OUTPUTS]; /* of the results */
} seen_call;

struct amp_plan_recorder {
    amp_plan *plan;
    const amp_net_node *node; /* that is dispatched now */
    amp_tensor *const *values;
    amp_tensor *const *inputs;
    seen_call call;
};

static __thread amp_plan_recorder *current;

size_t amp_plan_args_room(const amp_op_info *op) {
    return (op->args_size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

/* ---- The layer ------------------------------------------------------------------------------------------------- */

static amp_tensor *argument_at(const amp_call *call, const amp_net_operand *o) {
    const amp_arg_info *arg = &call->op->args[o->argument];
    if (arg->kind == AMP_ARG_TENSOR) return *amp_call_tensor(call, arg);
    return amp_call_tensor_list(call, arg)->items[o->place];
}

static void note_casts(amp_plan_recorder *r, const amp_call *call) {
    seen_call *s = &r->call;
    for (int i = 0; i < r->node->operand_count; i++) {
        const amp_net_operand *o = &r->node->operands[i];
        amp_tensor *given = o->value >= 0 ? r->values[o->value] : NULL, *found = argument_at(call, o);
        if (found == given) continue;
        s->odd |= !found || !found->source || found->source != given || found->storage;
        if (!s->casts) s->casts = amp_pool_take(&r->plan->pool, (size_t)r->node->operand_count * sizeof *s->casts);
        s->odd |= !s->casts;
        if (!s->odd) s->casts[s->cast_count++] = (amp_plan_cast){i, found->dtype, found->cast_life};
    }
}

static amp_status plan_layer(amp_call *call) {
    amp_plan_recorder *r = current;
    const bool is_ours = r && r->node && !r->call.seen && call->op == r->node->op;
    if (!is_ours || amp_this_thread.layers & AMP_INSIDE_OP) return amp_call_next(call);
    seen_call *s = &r->call;
    s->seen = true;
    s->casts = NULL;
    s->cast_count = 0;
    s->odd = call->device != AMP_DEVICE_CPU || call->inner_layers != 0;
    if (!s->odd) {
        memcpy(s->args, call->args, call->op->args_size);
        note_casts(r, call);
    }
    AMP_TRY(amp_call_next(call));
    s->fresh = call->fresh;
    for (int i = 0; i < AMP_MAX_OUTPUTS; i++) s->storages[i] = call->outputs[i] ? call->outputs[i]->storage : NULL;
    return AMP_OK;
}

static void install(void) {
    amp_layer_install(AMP_LAYER_PLAN, plan_layer);
}

/* ---- Begin ----------------------------------------------------------------------------------------------------- */

/* Views are known by the storage that they share with an operand: two inputs in one say nothing. */
static bool can_tell_apart(const amp_net *net, amp_tensor *const *inputs) {
    for (int i = 0; i < net->input_count; i++) {
        if (!inputs[i]->storage || inputs[i]->storage->device != AMP_DEVICE_CPU) return false;
        for (int k = 0; k < i; k++) {
            if (inputs[k]->storage == inputs[i]->storage) return false;
        }
    }
    return true;
}

static amp_plan *new_plan(const amp_net *net) {
    amp_plan *p = amp_alloc_zeroed(sizeof *p);
    if (!p) return NULL;
    const size_t values = (size_t)net->value_count;
    p->net = net;
    p->steps = amp_pool_take_zeroed(&p->pool, (size_t)net->node_count * sizeof *p->steps);
    p->headers = amp_pool_take_zeroed(&p->pool, values * sizeof *p->headers);
    p->families = amp_pool_take(&p->pool, values * sizeof *p->families);
    p->family = amp_pool_take(&p->pool, values * sizeof *p->family);
    p->blocks = amp_pool_take(&p->pool, values * sizeof *p->blocks);
    p->adopted = amp_pool_take(&p->pool, values * sizeof *p->adopted);
    p->drops = amp_pool_take(&p->pool, values * sizeof *p->drops);
    p->placed = amp_pool_take(&p->pool, values * sizeof *p->placed);
    if (p->steps && p->headers && p->families && p->family && p->blocks && p->adopted && p->drops && p->placed)
        return p;
    amp_plan_free(p);
    return NULL;
}

static void add_header(amp_plan *p, int value, const amp_tensor *t, int family) {
    amp_tensor *h = &p->headers[value];
    *h = (amp_tensor){.magic = AMP_TENSOR_LIVE, .dtype = t->dtype, .rank = t->rank, .offset = t->offset};
    atomic_init(&h->references, 1);
    memcpy(h->shape, t->shape, (size_t)t->rank * sizeof *h->shape);
    memcpy(h->strides, t->strides, (size_t)t->rank * sizeof *h->strides);
    h->is_view = t->is_view;
    h->is_leaf = t->is_leaf;
    p->families[value] = family;
}

static int add_family(amp_plan *p, amp_plan_place place, int value) {
    p->family[p->family_count] = (amp_plan_family){.place = place, .value = value};
    return p->family_count++;
}

/* Offsets in an input's family count from where the input begins. */
static void add_inputs(amp_plan *p, amp_tensor *const *inputs) {
    for (int v = 0; v < p->net->value_count; v++) p->families[v] = AMP_NET_NONE;
    for (int i = 0; i < p->net->input_count; i++) {
        const int value = p->net->inputs[i];
        add_header(p, value, inputs[i], add_family(p, AMP_PLAN_INPUT, i));
        p->headers[value].offset = 0;
        p->placed[p->placed_count++] = value;
    }
}

amp_plan_recorder *amp_plan_begin(const amp_net *net, amp_tensor *const *inputs) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    if (current || !can_tell_apart(net, inputs)) return NULL;
    amp_plan_recorder *r = amp_alloc_zeroed(sizeof *r);
    amp_plan *p = r ? new_plan(net) : NULL;
    if (!p) {
        amp_free(r);
        return NULL;
    }
    memcpy(p->regions, amp_region_states, sizeof p->regions);
    p->policies = amp_policy_version();
    add_inputs(p, inputs);
    r->plan = p;
    r->inputs = inputs;
    current = r;
    amp_layer_activate(AMP_LAYER_PLAN, true);
    return r;
}

/* ---- One node -------------------------------------------------------------------------------------------------- */

void amp_plan_before(amp_plan_recorder *r, int k, amp_tensor *const *values) {
    r->node = &r->plan->net->nodes[k];
    r->values = values;
    r->call.seen = false;
}

/* The family of the operand whose memory it has; AMP_NET_NONE: of none, or of a constant. */
static int family_of(const amp_plan_recorder *r, const amp_tensor *t) {
    for (int i = 0; i < r->node->operand_count; i++) {
        const int value = r->node->operands[i].value;
        if (value >= 0 && r->values[value] && r->values[value]->storage == t->storage) return r->plan->families[value];
    }
    return AMP_NET_NONE;
}

/* A view of what an operand views, always: nothing is computed. An op of the program may give something else another
 * time. */
static bool all_are_views(const amp_plan_recorder *r) {
    if (amp_op_is_user(r->node->op)) return false;
    for (int i = 0; i < r->node->result_count; i++) {
        const int value = r->node->results[i];
        const int family = value >= 0 ? family_of(r, r->values[value]) : AMP_NET_NONE;
        if (value >= 0 && (family < 0 || r->plan->family[family].place == AMP_PLAN_HEAP)) return false;
    }
    return true;
}

static bool is_fresh(const amp_plan_recorder *r, int index) {
    const amp_tensor *t = r->values[r->node->results[index]];
    const bool was_made =
        index < AMP_MAX_OUTPUTS && r->call.fresh >> index & 1 && t->storage == r->call.storages[index];
    return was_made && atomic_load(&t->storage->references) == 1 && t->storage->owned;
}

/* Casts of inputs that are kept ask for more than the cast: whether this input is a weight. */
static bool may_cast(const amp_plan_recorder *r) {
    for (int i = 0; i < r->call.cast_count; i++) {
        const int value = r->node->operands[r->call.casts[i].operand].value;
        const int family = r->plan->families[value];
        const bool is_input = family >= 0 && r->plan->family[family].place == AMP_PLAN_INPUT;
        if (is_input && r->call.casts[i].life != AMP_CAST_ONCE) return false;
    }
    return true;
}

static bool may_call(const amp_plan_recorder *r) {
    const amp_op_info *op = r->node->op;
    if (!r->call.seen || r->call.odd || op->flags & AMP_OP_RETURNS_LIST || amp_op_is_user(op)) return false;
    for (int i = 0; i < r->node->result_count; i++) {
        if (r->node->results[i] >= 0 && !is_fresh(r, i)) return false;
    }
    return may_cast(r) && amp_prepared_row(op).run != NULL;
}

/* Offsets in an input's family: from the input's first element. */
static void add_view(amp_plan_recorder *r, int value, int family) {
    amp_plan *p = r->plan;
    const amp_plan_family *f = &p->family[family];
    add_header(p, value, r->values[value], family);
    if (f->place == AMP_PLAN_INPUT) p->headers[value].offset -= r->inputs[f->value]->offset;
    if (f->place == AMP_PLAN_INPUT) p->placed[p->placed_count++] = value;
}

static void add_fresh(amp_plan_recorder *r, int value, int k) {
    amp_plan *p = r->plan;
    const int family = add_family(p, AMP_PLAN_ARENA, value);
    p->family[family].block = p->block_count;
    p->family[family].bytes = r->values[value]->storage->bytes;
    p->blocks[p->block_count++] = (amp_arena_block){.bytes = r->values[value]->storage->bytes, .first = k, .last = k};
    add_header(p, value, r->values[value], family);
}

static void add_adopted(amp_plan_recorder *r, int value) {
    amp_plan *p = r->plan;
    const int shared = amp_op_is_user(r->node->op) ? AMP_NET_NONE : family_of(r, r->values[value]);
    add_header(p, value, r->values[value], shared >= 0 ? shared : add_family(p, AMP_PLAN_HEAP, value));
    p->adopted[p->adopted_count++] = value;
}

static void add_step(amp_plan_recorder *r, int k) {
    amp_plan *p = r->plan;
    const amp_net_node *node = r->node;
    amp_plan_step *s = &p->steps[p->step_count++];
    void *args = may_call(r) ? amp_pool_take(&p->pool, node->op->args_size) : NULL;
    const bool calls = args != NULL;
    *s = (amp_plan_step){.node = k, .dispatches = !calls};
    if (calls) {
        s->args = memcpy(args, r->call.args, node->op->args_size);
        s->casts = r->call.casts;
        s->cast_count = r->call.cast_count;
        p->args_bytes += amp_plan_args_room(node->op);
        p->operand_count += node->operand_count;
        p->cast_count += s->cast_count;
        p->place_count += node->result_count;
    }
    for (int i = 0; i < node->result_count; i++) {
        if (node->results[i] < 0) continue;
        if (calls) {
            add_fresh(r, node->results[i], k);
        } else {
            add_adopted(r, node->results[i]);
        }
    }
}

void amp_plan_after(amp_plan_recorder *r, int k, amp_tensor *const *values) {
    r->values = values;
    if (all_are_views(r)) {
        for (int i = 0; i < r->node->result_count; i++) {
            const int value = r->node->results[i];
            if (value >= 0) add_view(r, value, family_of(r, values[value]));
        }
    } else {
        add_step(r, k);
    }
    r->node = NULL;
}

/* ---- For people ------------------------------------------------------------------------------------------------- */

/* What of the arena is needed while a node runs. */
static size_t alive_at(const amp_plan *p, int node) {
    size_t bytes = 0;
    for (int b = 0; b < p->block_count; b++) {
        if (p->blocks[b].first <= node && node <= p->blocks[b].last) bytes += p->blocks[b].bytes;
    }
    return bytes;
}

static void tell(const amp_plan *p) {
    size_t most = 0;
    int dispatched = 0;
    for (int i = 0; i < p->step_count; i++) {
        const size_t alive = alive_at(p, p->steps[i].node);
        if (alive > most) most = alive;
        dispatched += p->steps[i].dispatches;
    }
    fprintf(stderr, "plan: %d calls, %d of them through the dispatcher; %zu bytes for %zu at once\n", p->step_count,
            dispatched, p->arena_bytes, most);
    for (int i = 0; i < p->step_count; i++) {
        const amp_plan_step *s = &p->steps[i];
        if (s->dispatches) fprintf(stderr, "plan: %s is dispatched\n", p->net->nodes[s->node].op->name);
    }
}

/* ---- End ------------------------------------------------------------------------------------------------------- */

/* When each family is needed for the last time. */
static void find_ends(amp_plan *p) {
    for (int v = 0; v < p->net->value_count; v++) {
        amp_plan_family *f = p->families[v] >= 0 ? &p->family[p->families[v]] : NULL;
        if (!f || f->place == AMP_PLAN_INPUT || f->place == AMP_PLAN_HEAP) continue;
        const int last = p->net->values[v].last_use;
        if (last == INT_MAX) f->place = AMP_PLAN_OUTER;
        if (last > p->blocks[f->block].last) p->blocks[f->block].last = last;
    }
}

/* Ops of the program may keep views of their arguments, which then have memory of their own. */
static void find_lent(amp_plan *p) {
    for (int s = 0; s < p->step_count; s++) {
        const amp_net_node *node = &p->net->nodes[p->steps[s].node];
        if (!amp_op_is_user(node->op)) continue;
        for (int i = 0; i < node->operand_count; i++) {
            const int value = node->operands[i].value, family = value >= 0 ? p->families[value] : AMP_NET_NONE;
            if (family >= 0 && p->family[family].place == AMP_PLAN_ARENA) p->family[family].place = AMP_PLAN_OUTER;
        }
    }
}

/* Blocks of what turned out to be outputs' go. */
static void close_gaps(amp_plan *p) {
    int kept = 0;
    for (int i = 0; i < p->family_count; i++) {
        amp_plan_family *f = &p->family[i];
        if (f->place != AMP_PLAN_ARENA) continue;
        p->blocks[kept] = p->blocks[f->block]; /* families stand in the order of their blocks */
        f->block = kept++;
    }
    p->block_count = kept;
}

static bool is_adopted(const amp_plan *p, int value) {
    for (int i = 0; i < p->adopted_count; i++) {
        if (p->adopted[i] == value) return true;
    }
    return false;
}

static void find_placed(amp_plan *p) {
    for (int v = 0; v < p->net->value_count; v++) {
        const int family = p->families[v];
        if (family >= 0 && p->family[family].place == AMP_PLAN_OUTER && !is_adopted(p, v))
            p->placed[p->placed_count++] = v;
    }
}

static void find_viewed(amp_plan *p) {
    for (int v = 0; v < p->net->value_count; v++) {
        if (p->families[v] >= 0) p->family[p->families[v]].members++;
    }
    for (int s = 0; s < p->step_count; s++) {
        const amp_net_node *node = &p->net->nodes[p->steps[s].node];
        for (int i = 0; i < node->result_count; i++) {
            const int family = node->results[i] >= 0 ? p->families[node->results[i]] : AMP_NET_NONE;
            if (family < 0) continue;
            p->steps[s].is_viewed |= p->family[family].members > 1 || p->family[family].place == AMP_PLAN_OUTER;
        }
    }
}

/* A view takes no step: what it is the last to read goes after the step before it. */
static void find_drops(amp_plan *p) {
    int count = 0;
    for (int s = 0; s < p->step_count; s++) {
        const int from = p->steps[s].node, to = s + 1 < p->step_count ? p->steps[s + 1].node : INT_MAX;
        p->steps[s].first_drop = count;
        for (int i = 0; i < p->adopted_count; i++) {
            const int last = p->net->values[p->adopted[i]].last_use;
            if (last >= from && last < to) p->drops[count++] = p->adopted[i];
        }
        p->steps[s].drop_count = count - p->steps[s].first_drop;
    }
}

amp_plan *amp_plan_end(amp_plan_recorder *r, bool succeeded) {
    amp_plan *p = r->plan;
    amp_layer_activate(AMP_LAYER_PLAN, false);
    current = NULL;
    amp_free(r);
    succeeded &= p->step_count <= AMP_ARENA_MOST_BLOCKS; /* the time grows with the square, here too */
    if (succeeded) {
        find_ends(p);
        find_lent(p);
        close_gaps(p);
        find_placed(p);
        find_viewed(p);
        find_drops(p);
    }
    succeeded = succeeded && amp_arena_place(p->blocks, p->block_count, &p->arena_bytes);
    if (succeeded && amp_verbose("graph")) tell(p);
    if (succeeded) return p;
    amp_plan_free(p);
    return NULL;
}

void amp_plan_free(amp_plan *p) {
    if (!p) return;
    amp_plan_free_state(p->states);
    amp_pool_end(&p->pool);
    amp_free(p);
}
