/* Nodes and what they keep. */
#include "grad/node.h"

#include <limits.h>

#include "core/memory.h"
#include "policy/cast_cache.h"

static atomic_uint_fast64_t sequences = 1;

/* ---- Cells and hooks -------------------------------------------------------------------------------------------- */
amp_grad_cell *amp_grad_cell_new(void) {
    amp_grad_cell *cell = amp_alloc_zeroed(sizeof *cell);
    if (cell) atomic_init(&cell->references, 1);
    return cell;
}

amp_grad_cell *amp_grad_cell_retain(amp_grad_cell *cell) {
    atomic_fetch_add_explicit(&cell->references, 1, memory_order_relaxed);
    return cell;
}

void amp_grad_cell_set(amp_grad_cell *cell, amp_tensor *gradient) {
    amp_tensor *old = atomic_exchange(&cell->gradient, gradient);
    if (old) amp_release(old);
}

void amp_grad_cell_drop(amp_grad_cell *cell) {
    if (!cell || !amp_is_last_reference(&cell->references)) return;
    amp_grad_cell_set(cell, NULL);
    amp_free(cell);
}

static amp_grad_hook *add_hook(amp_grad_node *node, amp_grad_hook like) {
    amp_grad_hook *hook = amp_alloc(sizeof *hook), **end = &node->hooks;
    if (!hook) return NULL;
    while (*end && (like.is_last || !(*end)->is_last)) end = &(*end)->next;
    *hook = like;
    hook->next = *end;
    *end = hook;
    return hook;
}

bool amp_grad_hook_add_cell(amp_grad_node *node, int output, amp_grad_cell *cell) {
    amp_grad_hook *hook = add_hook(node, (amp_grad_hook){.output = output});
    if (hook) hook->cell = amp_grad_cell_retain(cell);
    return hook != NULL;
}

bool amp_grad_hook_add(amp_grad_node *node, int output, amp_gradient_hook call, void *context,
                       void (*release)(void *context)) {
    return add_hook(node, (amp_grad_hook){.call = call, .context = context, .release = release, .output = output}) !=
           NULL;
}

bool amp_grad_hook_add_last(amp_grad_node *node, int output, amp_gradient_hook call, void *context) {
    return add_hook(node, (amp_grad_hook){.call = call, .context = context, .output = output, .is_last = true}) != NULL;
}

bool amp_grad_node_fills(const amp_grad_node *node, const amp_grad_cell *cell) {
    for (const amp_grad_hook *hook = node->hooks; hook; hook = hook->next) {
        if (hook->cell == cell) return true;
    }
    return node->cell == cell;
}

static void free_hook(amp_grad_hook *hook) {
    if (hook->release) hook->release(hook->context);
    amp_grad_cell_drop(hook->cell);
    amp_free(hook);
}

/* Those with all three. */
static void remove_hooks(amp_grad_node *node, const amp_grad_cell *cell, amp_gradient_hook call, const void *context) {
    for (amp_grad_hook **at = &node->hooks; *at;) {
        amp_grad_hook *hook = *at;
        if (hook->cell != cell || hook->call != call || hook->context != context) {
            at = &hook->next;
            continue;
        }
        *at = hook->next;
        free_hook(hook);
    }
}

void amp_grad_hook_remove(amp_grad_node *node, amp_gradient_hook call, const void *context) {
    remove_hooks(node, NULL, call, context);
}

void amp_grad_hook_move(amp_grad_node *from, amp_grad_node *to, int output, amp_grad_cell *cell) {
    if (from) remove_hooks(from, cell, NULL, NULL);
    if (to && !amp_grad_hook_add_cell(to, output, cell)) (void)amp_fail(AMP_ERROR_MEMORY, "grad: no memory for a hook");
}

static void free_hooks(amp_grad_node *node) {
    for (amp_grad_hook *hook = node->hooks, *next = NULL; hook; hook = next) {
        next = hook->next;
        free_hook(hook);
    }
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------ */
void amp_grad_node_number(amp_grad_node *node) {
    node->sequence = atomic_fetch_add_explicit(&sequences, 1, memory_order_relaxed);
}

amp_grad_node *amp_grad_node_new(int slots, int results, size_t args_bytes) {
    const size_t count = (size_t)slots, tensors = (size_t)(slots + results);
    const size_t bytes =
        sizeof(amp_grad_node) + count * sizeof(amp_grad_edge) + tensors * sizeof(amp_saved) + args_bytes;
    amp_grad_node *node = amp_alloc_zeroed(bytes);
    if (!node) return NULL;
    atomic_init(&node->references, 1);
    node->slot_count = slots;
    node->result_count = results;
    node->slots = (amp_saved *)(node + 1);
    node->results = node->slots + count;
    node->edges = (amp_grad_edge *)(node->results + results);
    node->args = node->edges + count;
    return node;
}

bool amp_grad_node_make_results(amp_grad_node *node, int64_t count) {
    if (count == node->result_count) return true;
    amp_saved *results = count <= INT_MAX ? amp_alloc_zeroed((size_t)count * sizeof *results) : NULL;
    if (!results) return false;
    node->results = results;
    node->result_count = (int)count;
    node->owns_results = true;
    return true;
}

amp_grad_node *amp_grad_leaf_new(amp_grad_cell *cell) {
    amp_grad_node *node = amp_grad_node_new(0, 1, 0);
    if (!node) return NULL;
    node->name = "leaf";
    node->cell = amp_grad_cell_retain(cell);
    return node;
}

amp_grad_node *amp_grad_node_retain(amp_grad_node *node) {
    atomic_fetch_add_explicit(&node->references, 1, memory_order_relaxed);
    return node;
}

/* The leaf whose elements the slot has; NULL: it has none, or no leaf's. */
static amp_grad_node *kept_leaf(const amp_grad_node *node, int slot) {
    amp_grad_node *from = node->slots[slot].storage ? node->edges[slot].node : NULL;
    return from && !from->row ? from : NULL;
}

void amp_grad_node_save(amp_grad_node *node, int slot, const amp_tensor *tensor) {
    amp_saved_take(&node->slots[slot], tensor, true);
    amp_grad_node *leaf = kept_leaf(node, slot);
    if (leaf) atomic_fetch_add_explicit(&leaf->keepers, 1, memory_order_relaxed);
}

bool amp_grad_node_keeps_alone(const amp_grad_node *node) {
    for (int i = 0; i < node->slot_count; i++) {
        const amp_grad_node *leaf = kept_leaf(node, i);
        if (leaf && atomic_load_explicit(&leaf->keepers, memory_order_relaxed) > 1) return false;
    }
    return true;
}

static bool let_go(amp_saved *saved) {
    const bool any = saved->storage != NULL;
    amp_storage_drop(saved->storage);
    saved->storage = NULL;
    return any;
}

void amp_grad_node_spend(amp_grad_node *node) {
    for (int i = 0; i < node->slot_count; i++) {
        amp_grad_node *leaf = kept_leaf(node, i);
        if (leaf) atomic_fetch_sub_explicit(&leaf->keepers, 1, memory_order_relaxed);
        node->is_spent |= let_go(&node->slots[i]);
    }
    for (int i = 0; i < node->result_count; i++) node->is_spent |= let_go(&node->results[i]);
}

void amp_grad_node_spend_casts(amp_grad_node *node) {
    for (int i = 0; i < node->slot_count; i++) {
        const amp_grad_node *leaf = kept_leaf(node, i);
        if (leaf && atomic_load_explicit(&leaf->keepers, memory_order_relaxed) == 1)
            amp_casts_drop_of(node->slots[i].storage);
    }
    amp_grad_node_spend(node);
}

static void free_node(amp_grad_node *node) {
    free_hooks(node);
    amp_grad_cell_drop(node->cell);
    if (node->owns_results) amp_free(node->results);
    amp_free(node);
}

void amp_grad_node_drop(amp_grad_node *node) {
    if (!node || !amp_is_last_reference(&node->references)) return;
    amp_grad_node *dead = node;
    node->next_dead = NULL;
    while (dead) {
        amp_grad_node *const gone = dead;
        dead = gone->next_dead;
        amp_grad_node_spend(gone); /* which counts at leaves, while it holds them */
        for (int i = 0; i < gone->slot_count; i++) {
            amp_grad_node *const before = gone->edges[i].node;
            if (!before || !amp_is_last_reference(&before->references)) continue;
            before->next_dead = dead;
            dead = before;
        }
        free_node(gone);
    }
}

/* ---- Saved tensors ---------------------------------------------------------------------------------------------- */
void amp_saved_take(amp_saved *saved, const amp_tensor *t, bool keep) {
    const bool is_cast = t->source && !t->storage;
    const amp_tensor *memory = is_cast ? t->source : t;
    saved->is_present = true;
    saved->storage = keep ? amp_storage_retain(memory->storage) : NULL;
    saved->version = atomic_load_explicit(&memory->storage->version, memory_order_acquire);
    saved->dtype = t->dtype;
    saved->source = is_cast ? memory->dtype : AMP_DTYPE_NONE;
    saved->cast_life = t->cast_life;
    saved->rank = t->rank;
    for (int i = 0; i < t->rank; i++) {
        saved->shape[i] = t->shape[i];
        saved->strides[i] = memory->strides[i];
    }
    saved->offset = memory->offset;
}

/* One element of each dtype, NaN, or an integer that nobody expects: for tensors of any shape whose elements are
 * gone. */
static const uint64_t nothing[AMP_DTYPE_COUNT][2] = {
    [AMP_F64] = {0x7ff8000000000000},
    [AMP_F32] = {0x7fc00000},
    [AMP_F16] = {0x7e00},
    [AMP_BF16] = {0x7fc0},
    [AMP_I64] = {0x8000000000000000},
    [AMP_I32] = {0x80000000},
    [AMP_I16] = {0x8000},
    [AMP_I8] = {0x80},
    [AMP_C64] = {0x7fc000007fc00000},
    [AMP_C128] = {0x7ff8000000000000, 0x7ff8000000000000},
};

#define NOTHING(type)                                                                                                  \
    [type] = {.references = 1, .data = (void *)(uintptr_t)nothing[type], .bytes = 16, .read_only = true}
static amp_storage nothing_storages[AMP_DTYPE_COUNT] = {
    NOTHING(AMP_F64), NOTHING(AMP_F32), NOTHING(AMP_F16), NOTHING(AMP_BF16), NOTHING(AMP_I64), NOTHING(AMP_I32),
    NOTHING(AMP_I16), NOTHING(AMP_I8),  NOTHING(AMP_U8),  NOTHING(AMP_BOOL), NOTHING(AMP_C64), NOTHING(AMP_C128),
};

static amp_tensor *without_elements(const amp_saved *saved) {
    static const int64_t strides[AMP_MAX_RANK];
    amp_tensor base = {.dtype = saved->dtype, .storage = &nothing_storages[saved->dtype]};
    return amp_tensor_view("backward", &base, saved->rank, saved->shape, strides, 0);
}

static amp_tensor *fail_written(const amp_saved *saved, const amp_grad_node *node, const char *name, uint64_t now) {
    amp_tensor like = {.dtype = saved->dtype, .rank = saved->rank};
    memcpy(like.shape, saved->shape, sizeof like.shape);
    amp_fail(
        AMP_ERROR_INVALID,
        "backward of %s: '%s', %s, was written after %s had saved it (its version was %llu and is %llu); write to a "
        "clone, or before the call",
        node->name, name, amp_describe(&like), node->name, (unsigned long long)saved->version, (unsigned long long)now);
    return NULL;
}

amp_tensor *amp_saved_tensor(const amp_saved *saved, const amp_grad_node *node, const char *name) {
    if (!saved->storage) return without_elements(saved);
    const uint64_t now = atomic_load_explicit(&saved->storage->version, memory_order_acquire);
    if (now != saved->version) return fail_written(saved, node, name, now);
    amp_tensor base = {.dtype = saved->source ? saved->source : saved->dtype, .storage = saved->storage};
    amp_tensor *t = amp_tensor_view("backward", &base, saved->rank, saved->shape, saved->strides, saved->offset);
    if (!t || !saved->source) return t;
    amp_tensor *cast = amp_tensor_pending_cast("backward", t, saved->dtype);
    if (cast) cast->cast_life = saved->cast_life;
    return cast;
}
