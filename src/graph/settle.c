/* A part of a capture's net, run for the sake of some values. */
#include "graph/settle.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "call/backend.h"
#include "core/memory.h"
#include "core/thread.h"

/* ---- The list ---------------------------------------------------------------------------------------------------- */

static void unlink_one(amp_unsettled *u) {
    u->as.storage->kept[AMP_KEEPER_GRAPHS] = NULL;
    if (u->previous) u->previous->next = u->next;
    if (!u->previous) u->list->first = u->next;
    if (u->next) u->next->previous = u->previous;
    amp_free(u);
}

static void forget(amp_storage *s) {
    if (s->kept[AMP_KEEPER_GRAPHS]) unlink_one(s->kept[AMP_KEEPER_GRAPHS]);
}

static void install(void) {
    amp_storage_on_drop(AMP_KEEPER_GRAPHS, forget);
}

amp_status amp_unsettled_add(amp_unsettled_list *list, const amp_tensor *t, int value) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    amp_unsettled *u = amp_alloc(sizeof *u);
    if (!u) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for a value");
    *u = (amp_unsettled){.list = list, .next = list->first, .as = *t, .value = value};
    u->as.scope = NULL;
    u->as.mark = 0;
    if (u->next) u->next->previous = u;
    list->first = u;
    t->storage->kept[AMP_KEEPER_GRAPHS] = u;
    t->storage->is_ahead = true;
    amp_storage_watch(t->storage, AMP_KEEPER_GRAPHS);
    return AMP_OK;
}

void amp_unsettled_drop_from(amp_unsettled_list *list, int value) {
    while (list->first && list->first->value >= value) unlink_one(list->first);
}

void amp_unsettled_free(amp_unsettled_list *list) {
    amp_unsettled_drop_from(list, 0);
}

amp_unsettled_list *amp_unsettled_in(const amp_tensor *t) {
    const amp_unsettled *u = t->storage && t->storage->is_ahead ? t->storage->kept[AMP_KEEPER_GRAPHS] : NULL;
    return u ? u->list : NULL;
}

/* ---- The part of the net ----------------------------------------------------------------------------------------- */

typedef struct part {
    amp_net net; /* its nodes are the whole one's */
    bool *needed;
    amp_unsettled **wanted; /* whose values are its outputs */
    amp_tensor **outputs;
} part;

static int count_all(const amp_unsettled_list *list) {
    int count = 0;
    for (const amp_unsettled *u = list->first; u; u = u->next) count++;
    return count;
}

static void free_part(part *p) {
    amp_free(p->net.values);
    amp_free(p->net.nodes);
    amp_free(p->net.outputs);
    amp_free(p->needed);
    amp_free(p->wanted);
    amp_free(p->outputs);
}

static bool allocate(part *p, const amp_unsettled_list *list) {
    const amp_net *whole = list->net;
    const size_t values = (size_t)whole->value_count, outputs = (size_t)count_all(list);
    *p = (part){.net = {.inputs = whole->inputs, .input_count = whole->input_count}};
    p->net.value_count = whole->value_count;
    p->net.values = amp_alloc(values * sizeof *p->net.values);
    p->net.nodes = amp_alloc((size_t)list->nodes * sizeof *p->net.nodes);
    p->net.outputs = amp_alloc(outputs * sizeof *p->net.outputs);
    p->needed = amp_alloc_zeroed(values * sizeof *p->needed);
    p->wanted = amp_alloc(outputs * sizeof(amp_unsettled *));
    p->outputs = amp_alloc_zeroed(outputs * sizeof(amp_tensor *));
    return p->net.values && p->net.nodes && p->net.outputs && p->needed && p->wanted && p->outputs;
}

/* Values that are there already stand for themselves. */
static void take_values(part *p, const amp_unsettled_list *list) {
    memcpy(p->net.values, list->net->values, (size_t)p->net.value_count * sizeof *p->net.values);
    for (amp_unsettled *u = list->first; u; u = u->next) {
        if (!u->as.storage->is_ahead) p->net.values[u->value].constant = &u->as;
    }
}

static bool is_needed(const part *p, const amp_net_node *node) {
    for (int i = 0; i < node->result_count; i++) {
        if (node->results[i] >= 0 && p->needed[node->results[i]]) return true;
    }
    return false;
}

/* From the last node to the first; then in their order. */
static void take_nodes(part *p, const amp_unsettled_list *list) {
    int first = list->nodes;
    for (int k = list->nodes - 1; k >= 0; k--) {
        const amp_net_node *node = &list->net->nodes[k];
        if (!is_needed(p, node)) continue;
        p->net.nodes[--first] = *node;
        for (int i = 0; i < node->operand_count; i++) {
            const int value = node->operands[i].value;
            if (value >= 0 && !p->net.values[value].constant) p->needed[value] = true;
        }
    }
    p->net.node_count = list->nodes - first;
    memmove(p->net.nodes, p->net.nodes + first, (size_t)p->net.node_count * sizeof *p->net.nodes);
}

/* What is computed on the way, and somebody holds, is kept too: nothing is computed twice. */
static void take_outputs(part *p, const amp_unsettled_list *list) {
    for (amp_unsettled *u = list->first; u; u = u->next) {
        if (!p->needed[u->value] || !u->as.storage->is_ahead) continue;
        p->wanted[p->net.output_count] = u;
        p->net.outputs[p->net.output_count++] = u->value;
    }
}

static void note_last_uses(amp_net *net) {
    for (int k = 0; k < net->node_count; k++) {
        const amp_net_node *node = &net->nodes[k];
        for (int i = 0; i < node->result_count; i++) {
            if (node->results[i] >= 0) net->values[node->results[i]].last_use = k;
        }
        for (int i = 0; i < node->operand_count; i++) {
            if (node->operands[i].value >= 0) net->values[node->operands[i].value].last_use = k;
        }
    }
    for (int i = 0; i < net->output_count; i++) net->values[net->outputs[i]].last_use = INT_MAX;
}

/* ---- Running it -------------------------------------------------------------------------------------------------- */

static void release(void *memory) {
    amp_free(memory);
}

/* The storage gets memory of its own, and the elements. */
static amp_status fill(amp_unsettled *u, const amp_tensor *made) {
    amp_storage *s = u->as.storage;
    if (!amp_same_shape(&u->as, made) || u->as.dtype != made->dtype)
        return amp_fail(AMP_ERROR_INTERNAL, "graph: a value was to be %s and is %s", amp_describe(&u->as),
                        amp_describe(made));
    void *memory = amp_alloc(s->bytes);
    if (!memory) return amp_fail(AMP_ERROR_MEMORY, "graph: no memory for a value of %s", amp_describe(made));
    amp_storage filled = {.data = memory, .device = AMP_DEVICE_CPU, .bytes = s->bytes};
    amp_tensor to = u->as;
    to.storage = &filled;
    const amp_status status = amp_copy_tensor(&to, made);
    if (status != AMP_OK) {
        amp_free(memory);
        return status;
    }
    if (s->deleter) s->deleter(s->deleter_context);
    s->data = s->deleter_context = memory;
    s->deleter = release;
    s->is_ahead = false;
    return AMP_OK;
}

static amp_status run_part(part *p, const amp_unsettled_list *list) {
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_status status = amp_net_dispatch(&p->net, list->inputs, p->outputs);
    for (int i = 0; i < p->net.output_count && status == AMP_OK; i++) status = fill(p->wanted[i], p->outputs[i]);
    amp_scope_pop(&frame);
    return status;
}

/* As the capture's calls would have run then: in its region, below no op, and nobody writes it down. */
static amp_status run_outside(part *p, const amp_unsettled_list *list) {
    amp_region_state regions[AMP_DEVICE_COUNT];
    amp_call_note *const note = amp_this_thread.note;
    const unsigned layers = amp_this_thread.layers;
    memcpy(regions, amp_region_states, sizeof regions);
    memcpy(amp_region_states, list->regions, sizeof regions);
    amp_this_thread.layers = list->layers;
    amp_this_thread.note = NULL;
    const amp_status status = run_part(p, list);
    amp_this_thread.note = note;
    amp_this_thread.layers = layers;
    memcpy(amp_region_states, regions, sizeof regions);
    return status;
}

/* `u` alone, NULL: all. */
static amp_status settle(const amp_unsettled_list *list, const amp_unsettled *u) {
    part p;
    AMP_TRY(amp_pending_error());
    amp_status status = AMP_OK;
    if (allocate(&p, list)) {
        take_values(&p, list);
        for (const amp_unsettled *each = list->first; each; each = each->next)
            p.needed[each->value] |= (!u || u == each) && each->as.storage->is_ahead;
        take_nodes(&p, list);
        take_outputs(&p, list);
        note_last_uses(&p.net);
        status = p.net.output_count > 0 ? run_outside(&p, list) : AMP_OK;
    } else {
        status = amp_fail(AMP_ERROR_MEMORY, "graph: no memory for %d values", list->net->value_count);
    }
    free_part(&p);
    return status;
}

amp_status amp_settle(const amp_tensor *t) {
    if (!t->storage || !t->storage->is_ahead) return AMP_OK;
    const amp_unsettled *u = t->storage->kept[AMP_KEEPER_GRAPHS];
    if (u) return settle(u->list, u);
    return amp_fail(AMP_ERROR_INVALID, "a tensor of a graph's function, %s, was never computed: the run failed",
                    amp_describe(t));
}

bool amp_unsettled_any(const amp_unsettled_list *list) {
    const amp_unsettled *u = list->first;
    while (u && !u->as.storage->is_ahead) u = u->next;
    return u != NULL;
}

amp_status amp_settle_all(const amp_unsettled_list *list) {
    return amp_unsettled_any(list) ? settle(list, NULL) : AMP_OK;
}
