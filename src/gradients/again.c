/* The arguments once more, each a tensor of its own, so that what one argument contributes is told from another's of
 * the same tensor. */
#include "gradients/again.h"

#include <string.h>

#include "amp/grad.h"
#include "core/memory.h"

typedef struct again {
    amp_gradient *g;
    bool creates;               /* what the gradient is made of is recorded too */
    char *args;                 /* the op's struct with tensors of its own */
    amp_tensor **items, **ends; /* room for lists, and where it is free */
    amp_tensor **inputs;        /* what wants a gradient … */
    amp_tensor *const **fields; /* … and the argument that it stands for */
    int64_t count;
} again;

static int64_t count_tensors(const amp_gradient *g) {
    int64_t count = 0;
    for (int i = 0; i < g->op->arg_count; i++) {
        const amp_arg_info *arg = &g->op->args[i];
        const char *field = (const char *)g->args + arg->offset;
        if (arg->kind == AMP_ARG_TENSOR) count++;
        if (arg->kind == AMP_ARG_TENSOR_LIST) count += ((const amp_tensor_list *)(const void *)field)->count;
    }
    return count;
}

/* A leaf, or where the gradient is recorded a result that leads on to the argument. */
static amp_tensor *own(const again *r, amp_tensor *t, bool is_wide) {
    if (!t) return NULL;
    if (r->creates) return is_wide ? t : amp_view(t, amp_shape_of(t));
    amp_tensor *leaf = amp_detach(t);
    return leaf && amp_tensor_set_requires_grad(leaf, true) == AMP_OK ? leaf : NULL;
}

static amp_tensor *take(again *r, amp_tensor *const *field) {
    amp_tensor *t = amp_wide(*field);
    if (!t || !amp_gradient_wants(r->g, field)) return t;
    t = own(r, t, t != *field);
    if (!t) return NULL;
    r->inputs[r->count] = t;
    r->fields[r->count++] = field;
    return t;
}

static void take_list(again *r, const amp_tensor_list *from, amp_tensor_list *to) {
    amp_tensor **items = r->ends;
    r->ends += from->count;
    for (int64_t i = 0; i < from->count; i++) items[i] = take(r, &from->items[i]);
    *to = (amp_tensor_list){items, from->count, NULL};
}

static void take_arguments(again *r) {
    const amp_op_info *op = r->g->op;
    memcpy(r->args, r->g->args, op->args_size);
    for (int i = 0; i < op->arg_count; i++) {
        const char *from = (const char *)r->g->args + op->args[i].offset;
        char *to = r->args + op->args[i].offset;
        if (op->args[i].kind == AMP_ARG_TENSOR)
            *(amp_tensor **)(void *)to = take(r, (amp_tensor *const *)(const void *)from);
        if (op->args[i].kind == AMP_ARG_TENSOR_LIST)
            take_list(r, (const amp_tensor_list *)(const void *)from, (amp_tensor_list *)(void *)to);
    }
}

static void go_back(const again *r, amp_tensor *const *results) {
    amp_tensor *roots[AMP_MAX_OUTPUTS], *gradients[AMP_MAX_OUTPUTS];
    int64_t count = 0;
    for (int i = 0; i < r->g->op->output_count; i++) {
        if (!r->g->of[i] || !results[i] || !amp_tensor_requires_grad(results[i])) continue;
        roots[count] = results[i];
        gradients[count++] = amp_to(r->g->of[i], results[i]->dtype);
    }
    if (count == 0 || amp_failed()) return;
    const amp_tensor_list given = amp_grad_call(&(const amp_grad_args){.struct_size = sizeof(amp_grad_args),
                                                                       .outputs = {roots, count, NULL},
                                                                       .inputs = {r->inputs, r->count, NULL},
                                                                       .gradients = {gradients, count, NULL},
                                                                       .create_graph = r->creates,
                                                                       .allow_unused = true});
    for (int64_t i = 0; i < given.count; i++) {
        if (given.items[i]) amp_gradient_give(r->g, r->fields[i], given.items[i]);
    }
}

static void run(again *r, amp_composition compose) {
    amp_tensor *results[AMP_MAX_OUTPUTS] = {0};
    take_arguments(r);
    if (amp_failed() || r->count == 0) return;
    (void)amp_grad_set_enabled(true);
    compose(r->args, results);
    (void)amp_grad_set_enabled(r->creates);
    if (!amp_failed()) go_back(r, results);
}

void amp_gradient_again(amp_gradient *g, amp_composition compose) {
    const size_t tensors = (size_t)count_tensors(g);
    const size_t struct_room = (g->op->args_size + sizeof(amp_tensor *) - 1) / sizeof(amp_tensor *);
    amp_tensor **room = amp_alloc_zeroed((struct_room + 3 * tensors) * sizeof *room);
    if (!room) {
        (void)amp_fail(AMP_ERROR_MEMORY, "backward: no memory for the arguments of %s", g->op->name);
        return;
    }
    again r = {.g = g, .creates = amp_grad_is_enabled(), .args = (char *)room, .items = room + struct_room};
    r.ends = r.items;
    r.inputs = r.items + tensors;
    r.fields = (amp_tensor *const **)(void *)(r.inputs + tensors);
    run(&r, compose);
    amp_free(room);
}

amp_tensor *amp_reduce_losses(amp_tensor *losses, const char *reduction) {
    if (strcmp(reduction, "none") == 0) return losses;
    return strcmp(reduction, "sum") == 0 ? amp_sum(losses) : amp_mean(losses);
}

amp_tensor *amp_clamp_unrecorded(amp_tensor *t, double least) {
    amp_tensor *value = amp_detach(t);
    return amp_add(amp_clamp(value, .min = amp_float(least)), amp_sub(t, value));
}
