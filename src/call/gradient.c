/* Which argument a field is, and what is given for it. */
#include "call/gradient.h"

#include "amp/ops.h"

/* The number of the argument among the tensors; -1: the field is none. */
static int slot_of(const amp_gradient *g, const void *field) {
    int slot = 0;
    for (int i = 0; i < g->op->arg_count; i++) {
        const amp_arg_info *arg = &g->op->args[i];
        const char *const place = (const char *)g->args + arg->offset;
        if (arg->kind == AMP_ARG_TENSOR) {
            if (field == place) return slot;
            slot++;
        } else if (arg->kind == AMP_ARG_TENSOR_LIST) {
            const amp_tensor_list *list = (const amp_tensor_list *)place;
            amp_tensor *const *item = field;
            if (item >= list->items && item < list->items + list->count) return slot + (int)(item - list->items);
            slot += (int)list->count;
        }
    }
    return -1;
}

const void *amp_gradient_args(const amp_gradient *g) {
    return g->args;
}

amp_tensor *amp_gradient_of(const amp_gradient *g, int index) {
    return index >= 0 && index < g->result_count ? g->of[index] : NULL;
}

amp_tensor *amp_gradient_result(const amp_gradient *g, int index) {
    return index >= 0 && index < g->result_count ? g->results[index] : NULL;
}

bool amp_gradient_wants(const amp_gradient *g, const void *field) {
    const int slot = slot_of(g, field);
    return slot >= 0 && g->wanted[slot];
}

amp_dtype amp_gradient_dtype(const amp_gradient *g, const void *field) {
    const int slot = slot_of(g, field);
    return slot >= 0 ? g->dtypes[slot] : AMP_DTYPE_NONE;
}

void amp_gradient_give(amp_gradient *g, const void *field, amp_tensor *gradient) {
    const int slot = slot_of(g, field);
    if (slot < 0 || !g->wanted[slot] || !gradient) return;
    g->given[slot] = g->given[slot] ? amp_add(g->given[slot], gradient) : gradient;
}
