/* Histories, and the two nodes that no op of the table has: a view of what was written, and what was written through a
 * view. */
#include "grad/history.h"

#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"

/* ---- Histories -------------------------------------------------------------------------------------------------- */
/* Of a new history, and again where transpose_ and its kin change it. Beyond its rank nothing is read. */
static void take_geometry(amp_history *h, const amp_tensor *t) {
    for (int i = 0; i < t->rank; i++) {
        h->geometry.shape[i] = t->shape[i];
        h->geometry.strides[i] = t->strides[i];
    }
    h->geometry.rank = t->rank;
    h->geometry.offset = t->offset;
}

amp_history *amp_history_new(const amp_tensor *t) {
    amp_history *h = amp_alloc(sizeof *h);
    if (!h) {
        amp_fail(AMP_ERROR_MEMORY, "grad: no memory for the history of %s", amp_describe(t));
        return NULL;
    }
    memset(h, 0, offsetof(amp_history, geometry));
    atomic_init(&h->references, 1);
    h->geometry.dtype = t->dtype;
    take_geometry(h, t);
    return h;
}

amp_history *amp_history_retain(amp_history *h) {
    atomic_fetch_add_explicit(&h->references, 1, memory_order_relaxed);
    return h;
}

void amp_history_drop(amp_history *h) {
    if (!h || !amp_is_last_reference(&h->references)) return;
    amp_grad_node_drop(h->node);
    amp_grad_cell_drop(h->cell);
    amp_history_drop(h->base); /* which has none */
    amp_free(h);
}

/* Several threads may use a tensor for the first time. */
amp_history *amp_history_of(amp_tensor *t) {
    amp_history *h = __atomic_load_n(&t->history, __ATOMIC_ACQUIRE), *none = NULL;
    if (h) return h;
    h = amp_history_new(t);
    if (!h) return NULL;
    if (__atomic_compare_exchange_n(&t->history, &none, h, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return h;
    amp_history_drop(h);
    return none;
}

static void set_node(amp_history *h, amp_grad_node *node, int output) {
    amp_grad_node *const old = h->node;
    if (h->cell && old && old != node) amp_grad_hook_move(old, node, output, h->cell);
    h->node = node ? amp_grad_node_retain(node) : NULL;
    h->output = output;
    amp_grad_node_drop(old);
}

/* ---- Memory laid out as a base ------------------------------------------------------------------------------------ */
/* Zeros in which `base`, and any view of it, lie as in the tensor's own memory: base[0] is at *offset. */
static amp_tensor *room_of(const amp_geometry *base, amp_device device, int64_t *offset) {
    int64_t low = 0, high = 0;
    for (int i = 0; i < base->rank; i++) {
        const int64_t reach = base->shape[i] > 0 ? (base->shape[i] - 1) * base->strides[i] : 0;
        if (reach < 0) {
            low += reach;
        } else {
            high += reach;
        }
    }
    *offset = -low;
    return amp_zeros(AMP_DIMS(high - low + 1), .dtype = base->dtype, .device = device);
}

static amp_tensor *view_in(amp_tensor *room, int64_t offset, const amp_geometry *base, const amp_geometry *g) {
    return amp_tensor_view("backward", room, g->rank, g->shape, g->strides, offset + g->offset - base->offset);
}

/* What both nodes are made of. */
typedef struct written_view {
    amp_geometry base, view;
} written_view;

/* The gradient of the base, of which the view was one. */
static void gradient_of_view(amp_gradient *g) {
    const written_view *w = g->args;
    int64_t offset = 0;
    amp_tensor *room = room_of(&w->base, g->device, &offset);
    amp_tensor *part = room ? view_in(room, offset, &w->base, &w->view) : NULL;
    if (!part || amp_copy_tensor(part, g->of[0]) != AMP_OK) return;
    g->given[0] = view_in(room, offset, &w->base, &w->base);
}

/* The gradients of the base before, and of what was written. */
static void gradient_of_write(amp_gradient *g) {
    const written_view *w = g->args;
    const amp_scalar zero = amp_int(0);
    int64_t offset = 0;
    amp_tensor *room = room_of(&w->base, g->device, &offset);
    amp_tensor *whole = room ? view_in(room, offset, &w->base, &w->base) : NULL;
    amp_tensor *part = whole ? view_in(room, offset, &w->base, &w->view) : NULL;
    if (!part || amp_copy_tensor(whole, g->of[0]) != AMP_OK) return;
    if (g->wanted[1]) g->given[1] = amp_clone(part);
    if (!g->wanted[0] || amp_fill_tensor_with(part, &zero) != AMP_OK) return;
    g->given[0] = whole;
}

static const amp_gradient_row view_row = {.function = gradient_of_view}, write_row = {.function = gradient_of_write};

static void save_geometry(amp_saved *saved, const amp_geometry *g) {
    *saved = (amp_saved){.is_present = true, .dtype = g->dtype, .rank = g->rank, .offset = g->offset};
    memcpy(saved->shape, g->shape, sizeof saved->shape);
    memcpy(saved->strides, g->strides, sizeof saved->strides);
}

static amp_grad_node *new_node(const amp_gradient_row *row, const char *name, const amp_history *base,
                               const amp_geometry *view, const amp_geometry *result, int slots) {
    amp_grad_node *node = amp_grad_node_new(slots, 1, sizeof(written_view));
    if (!node) {
        amp_fail(AMP_ERROR_MEMORY, "grad: no memory for a node");
        return NULL;
    }
    node->row = row;
    node->name = name;
    *(written_view *)node->args = (written_view){base->geometry, *view};
    save_geometry(&node->results[0], result);
    amp_grad_node_number(node);
    return node;
}

static void set_edge(amp_grad_node *node, int slot, amp_grad_node *to, int output, const amp_geometry *g) {
    save_geometry(&node->slots[slot], g);
    if (to) node->edges[slot] = (amp_grad_edge){amp_grad_node_retain(to), output, g->dtype};
}

/* ---- The node of a tensor ----------------------------------------------------------------------------------------- */
/* The base was written since: the view leads to what it is now. */
static amp_status find_again(amp_history *h) {
    const amp_history *base = h->base;
    amp_grad_node *node = NULL;
    if (base->node) {
        node = new_node(&view_row, "a view of a tensor that was written", base, &h->geometry, &h->geometry, 1);
        if (!node) return amp_pending_error();
        set_edge(node, 0, base->node, base->output, &base->geometry);
    }
    set_node(h, node, 0);
    amp_grad_node_drop(node);
    h->seen = base->generation;
    return AMP_OK;
}

amp_grad_node *amp_history_node(const amp_tensor *t, int *output) {
    amp_history *h = __atomic_load_n(&t->history, __ATOMIC_ACQUIRE);
    if (!h) return NULL;
    if (h->base && h->seen != h->base->generation && find_again(h) != AMP_OK) return NULL;
    *output = h->output;
    return h->node;
}

amp_status amp_history_begin(amp_tensor *t, amp_grad_node *node, int output, amp_tensor *of, bool of_several) {
    amp_history *h = amp_history_new(t);
    if (!h) return amp_pending_error();
    h->of_another_dtype = of && of->dtype != t->dtype;
    if (of && !h->of_another_dtype) {
        amp_history *base = amp_history_of(of);
        if (!base) {
            amp_history_drop(h);
            return amp_pending_error();
        }
        h->base = amp_history_retain(base->base ? base->base : base);
        h->seen = h->base->generation;
        h->of_several = of_several;
    }
    set_node(h, node, output);
    if (t->history) amp_history_drop(t->history);
    t->history = h;
    t->requires_grad = node != NULL;
    t->is_leaf = node == NULL;
    return AMP_OK;
}

/* The base's values are the old ones, but for the view's. */
static amp_status write_through(amp_history *view, amp_grad_node *node) {
    amp_history *base = view->base;
    amp_grad_node *through = new_node(&write_row, "a write through a view", base, &view->geometry, &base->geometry, 2);
    if (!through) return amp_pending_error();
    set_edge(through, 0, base->node, base->output, &base->geometry);
    set_edge(through, 1, node, 0, &view->geometry);
    set_node(base, through, 0);
    amp_grad_node_drop(through);
    base->generation++;
    return find_again(view);
}

amp_status amp_history_rewrite(amp_tensor *t, amp_grad_node *node, bool reshapes) {
    amp_history *h = amp_history_of(t);
    if (!h) return amp_pending_error();
    t->requires_grad = node != NULL;
    t->is_leaf = node == NULL;
    if (h->base && !reshapes) return write_through(h, node);
    take_geometry(h, t);
    if (h->base) {
        h->seen = h->base->generation;
    } else {
        h->generation++;
    }
    set_node(h, node, 0);
    return amp_pending_error();
}

static bool is_leaf(const amp_history *h) {
    return h->node && !h->node->row;
}

amp_status amp_history_check_writable(const char *op, const amp_tensor *t) {
    const amp_history *h = t->history;
    if (!h) return AMP_OK;
    if (is_leaf(h)) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: the tensor, %s, is a leaf that requires gradients, and is written in place; do that inside of "
            "amp_no_grad, or write to a result",
            op, amp_describe(t));
    }
    if (h->base && is_leaf(h->base)) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: the tensor, %s, is a view of a leaf that requires gradients, and is written in place; do that "
            "inside of amp_no_grad, or write to a clone",
            op, amp_describe(t));
    }
    if (h->of_another_dtype) {
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: the tensor, %s, is a view of numbers of another dtype, which cannot be written in place while "
            "gradients are recorded; write to the tensor that it is a view of",
            op, amp_describe(t));
    }
    if (!h->of_several) return AMP_OK;
    return amp_fail(
        AMP_ERROR_INVALID,
        "%s: the tensor, %s, is one of several views that an op made at once, which cannot be written in place "
        "while gradients are recorded; write to a clone",
        op, amp_describe(t));
}
