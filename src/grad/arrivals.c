/* A table of nodes, and a heap of those that wait. */
#include "grad/arrivals.h"

#include "core/memory.h"

static uint64_t hash_of(const amp_grad_node *node) {
    return ((uint64_t)(uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u >> 32;
}

static int *place_of(const amp_arrivals *a, const amp_grad_node *node) {
    const unsigned mask = (unsigned)a->table_size - 1;
    unsigned at = (unsigned)hash_of(node) & mask;
    while (a->table[at] && a->items[a->table[at] - 1].node != node) at = (at + 1) & mask;
    return &a->table[at];
}

/* Room for twice as many: items, table and heap. */
static bool grow(amp_arrivals *a) {
    const int size = a->table_size ? 2 * a->table_size : 64, room = size / 2;
    amp_arrival *items = amp_alloc((size_t)room * sizeof *items);
    int *table = amp_alloc_zeroed((size_t)size * sizeof *table);
    int *heap = amp_alloc((size_t)room * sizeof *heap);
    if (!items || !table || !heap) {
        amp_free(items);
        amp_free(table);
        amp_free(heap);
        return false;
    }
    if (a->count > 0) memcpy(items, a->items, (size_t)a->count * sizeof *items);
    if (a->heap_count > 0) memcpy(heap, a->heap, (size_t)a->heap_count * sizeof *heap);
    amp_free(a->items);
    amp_free(a->table);
    amp_free(a->heap);
    a->items = items;
    a->table = table;
    a->heap = heap;
    a->table_size = size;
    for (int i = 0; i < a->count; i++) *place_of(a, items[i].node) = i + 1;
    return true;
}

int amp_arrivals_find(const amp_arrivals *a, const amp_grad_node *node) {
    return a->table_size ? *place_of(a, node) - 1 : -1;
}

int amp_arrivals_of(amp_arrivals *a, amp_grad_node *node) {
    const int found = amp_arrivals_find(a, node);
    if (found >= 0) return found;
    if (2 * (a->count + 1) > a->table_size && !grow(a)) return -1;
    a->items[a->count] = (amp_arrival){.node = amp_grad_node_retain(node)};
    *place_of(a, node) = ++a->count;
    return a->count - 1;
}

/* Leaves, which have no number of their own, come in the order of their arrival. */
static bool is_before(const amp_arrivals *a, int first, int second) {
    const uint64_t one = a->items[first].node->sequence, other = a->items[second].node->sequence;
    return one != other ? one > other : first < second;
}

static void swap(int *a, int *b) {
    const int kept = *a;
    *a = *b;
    *b = kept;
}

void amp_arrivals_queue(amp_arrivals *a, int number) {
    if (a->items[number].is_queued) return;
    a->items[number].is_queued = true;
    int at = a->heap_count++;
    a->heap[at] = number;
    for (; at > 0 && is_before(a, a->heap[at], a->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        swap(&a->heap[at], &a->heap[(at - 1) / 2]);
    }
}

int amp_arrivals_next(amp_arrivals *a) {
    if (a->heap_count == 0) return -1;
    const int first = a->heap[0];
    a->heap[0] = a->heap[--a->heap_count];
    for (int at = 0, child = 1; child < a->heap_count; at = child, child = 2 * at + 1) {
        if (child + 1 < a->heap_count && is_before(a, a->heap[child + 1], a->heap[child])) child++;
        if (!is_before(a, a->heap[child], a->heap[at])) break;
        swap(&a->heap[child], &a->heap[at]);
    }
    return first;
}

static void free_arrival(amp_arrival *arrival) {
    for (int i = 0; arrival->gradients && i < arrival->node->result_count; i++) {
        if (arrival->gradients[i]) amp_tensor_drop(arrival->gradients[i]);
    }
    amp_free(arrival->gradients);
    amp_grad_node_drop(arrival->node);
}

void amp_arrivals_free(amp_arrivals *a) {
    for (int i = 0; i < a->count; i++) free_arrival(&a->items[i]);
    amp_free(a->items);
    amp_free(a->table);
    amp_free(a->heap);
    *a = (amp_arrivals){0};
}
