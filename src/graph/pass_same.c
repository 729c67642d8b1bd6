/* Calls of one op with the same arguments are one call. */
#include <string.h>

#include "core/memory.h"
#include "graph/passes.h"

/* The structs without their texts, which are compared apart: each node has its own copies. */
static bool same_arguments(const amp_net_node *a, const amp_net_node *b) {
    for (int i = 0; i < a->op->arg_count; i++) {
        const amp_arg_info *arg = &a->op->args[i];
        if (arg->kind != AMP_ARG_STRING) continue;
        const char *x = *(const char *const *)((const char *)a->args + arg->offset);
        const char *y = *(const char *const *)((const char *)b->args + arg->offset);
        if (x && y ? strcmp(x, y) != 0 : x != y) return false;
    }
    return true;
}

/* An argument's bytes in the struct; 0 of tensors, which are operands, and of texts. */
static size_t bytes_of(const amp_op_info *op, int i) {
    switch (op->args[i].kind) {
    case AMP_ARG_TENSOR:
    case AMP_ARG_TENSOR_LIST:
    case AMP_ARG_OUTPUT:
    case AMP_ARG_STRING: return 0;
    default: {
        size_t next = op->args_used;
        for (int k = 0; k < op->arg_count; k++) {
            if (op->args[k].offset > op->args[i].offset && op->args[k].offset < next) next = op->args[k].offset;
        }
        return next - op->args[i].offset;
    }
    }
}

static bool same_numbers(const amp_net_node *a, const amp_net_node *b) {
    for (int i = 0; i < a->op->arg_count; i++) {
        const size_t at = a->op->args[i].offset;
        if (memcmp((const char *)a->args + at, (const char *)b->args + at, bytes_of(a->op, i)) != 0) return false;
    }
    return true;
}

static bool same_operands(const amp_net_node *a, const amp_net_node *b) {
    if (a->operand_count != b->operand_count) return false;
    for (int i = 0; i < a->operand_count; i++) {
        const amp_net_operand *x = &a->operands[i], *y = &b->operands[i];
        if (x->argument != y->argument || x->place != y->place || x->value != y->value) return false;
    }
    return true;
}

static bool are_same(const amp_net_node *a, const amp_net_node *b) {
    return a->op == b->op && a->is_f32 == b->is_f32 && a->result_count == b->result_count && same_operands(a, b) &&
           same_numbers(a, b) && same_arguments(a, b);
}

static uint32_t hash_of(const amp_net_node *node) {
    uint32_t h = (uint32_t)node->op->id * 2654435761u;
    for (int i = 0; i < node->operand_count; i++) h = (h ^ (uint32_t)node->operands[i].value) * 2654435761u;
    return h;
}

static bool replace(amp_net *net, const amp_net_node *gone, const amp_net_node *stays) {
    for (int i = 0; i < gone->result_count; i++) {
        if (gone->results[i] >= 0 && stays->results[i] < 0) return false;
    }
    for (int i = 0; i < gone->result_count; i++) {
        if (gone->results[i] >= 0) amp_net_replace(net, gone->results[i], stays->results[i]);
    }
    return true;
}

int amp_pass_same(amp_net *net) {
    size_t buckets = 64;
    while (buckets < (size_t)net->node_count * 2) buckets *= 2;
    int *first = amp_alloc(buckets * sizeof *first), *next = amp_alloc((size_t)net->node_count * sizeof *next);
    int places = 0;
    for (size_t i = 0; first && next && i < buckets; i++) first[i] = AMP_NET_NONE;
    for (int k = 0; first && next && k < net->node_count; k++) {
        int *bucket = &first[hash_of(&net->nodes[k]) & (buckets - 1)], same = *bucket;
        while (same >= 0 && !are_same(&net->nodes[same], &net->nodes[k])) same = next[same];
        if (same >= 0 && replace(net, &net->nodes[k], &net->nodes[same])) {
            places++;
            continue;
        }
        next[k] = *bucket;
        *bucket = k;
    }
    amp_free(first);
    amp_free(next);
    return places;
}
