#include "grad/become.h"

#include "grad/history.h"

static void take_elements(amp_tensor *t, const amp_tensor *from) {
    amp_storage *before = t->storage;
    const bool is_parameter = atomic_load(&before->parameter);
    t->storage = amp_storage_retain(from->storage);
    t->dtype = from->dtype;
    memcpy(t->strides, from->strides, sizeof t->strides);
    t->offset = from->offset;
    t->is_view = from->is_view;
    atomic_store(&t->storage->produced, false); /* not an op's result to those who ask whether casts are kept */
    if (is_parameter) atomic_store(&t->storage->parameter, true);
    amp_storage_drop(before);
}

void amp_leaf_become(amp_tensor *t, const amp_tensor *elements, amp_tensor *gradient) {
    take_elements(t, elements);
    amp_history *h = t->history;
    if (h && h->node && !h->node->row) amp_saved_take(&h->node->results[0], t, false);
    if (h && h->cell)
        amp_grad_cell_set(h->cell, gradient);
    else
        amp_release(gradient);
}
