/* Which calls of a graph come out otherwise for other extents: the same calls, recorded for inputs of several, side by
 * side. */
#include <string.h>

#include "core/memory.h"
#include "graph/record.h"

/* ---- Arguments ------------------------------------------------------------------------------------------------- */

static bool is_same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same_scalar(const amp_scalar *a, const amp_scalar *b) {
    return a->kind == b->kind && a->i == b->i && memcmp(&a->re, &b->re, sizeof a->re) == 0 &&
           memcmp(&a->im, &b->im, sizeof a->im) == 0;
}

#define SAME_IF_SET(type)                                                                                              \
    (((const type *)a)->set == ((const type *)b)->set &&                                                               \
     (!((const type *)a)->set ||                                                                                       \
      memcmp(&((const type *)a)->value, &((const type *)b)->value, sizeof((const type *)a)->value) == 0))

#define SAME_LIST(type)                                                                                                \
    (((const type *)a)->set == ((const type *)b)->set && ((const type *)a)->count == ((const type *)b)->count &&       \
     memcmp(((const type *)a)->values, ((const type *)b)->values,                                                      \
            (size_t)((const type *)a)->count * sizeof *((const type *)a)->values) == 0)

static bool is_same_argument(amp_arg_kind kind, const void *a, const void *b) {
    switch (kind) {
    case AMP_ARG_SCALAR: return is_same_scalar(a, b);
    case AMP_ARG_FLOAT: return memcmp(a, b, sizeof(double)) == 0;
    case AMP_ARG_INT: return memcmp(a, b, sizeof(int64_t)) == 0;
    case AMP_ARG_BOOL: return memcmp(a, b, sizeof(bool)) == 0;
    case AMP_ARG_DTYPE: return memcmp(a, b, sizeof(amp_dtype)) == 0;
    case AMP_ARG_OPT_FLOAT: return SAME_IF_SET(amp_opt_float);
    case AMP_ARG_OPT_INT: return SAME_IF_SET(amp_opt_int);
    case AMP_ARG_OPT_BOOL: return SAME_IF_SET(amp_opt_bool);
    case AMP_ARG_DIMS: return SAME_LIST(amp_dims);
    case AMP_ARG_FLOATS: return SAME_LIST(amp_floats);
    case AMP_ARG_STRING: return is_same_text(*(const char *const *)a, *(const char *const *)b);
    default: return true; /* tensors are looked at by value */
    }
}

static bool are_arguments_same(const amp_net_node *a, const amp_net_node *b) {
    for (int i = 0; i < a->op->arg_count; i++) {
        const amp_arg_info *arg = &a->op->args[i];
        if (!is_same_argument(arg->kind, (const char *)a->args + arg->offset, (const char *)b->args + arg->offset))
            return false;
    }
    return true;
}

/* ---- Constants ------------------------------------------------------------------------------------------------- */

static bool is_same_constant(const amp_tensor *a, const amp_tensor *b) {
    if (a == b) return true;
    if (a->dtype != b->dtype || !amp_same_layout(a, b) || amp_tensor_device(a) != amp_tensor_device(b)) return false;
    if (amp_tensor_pointer(a) == amp_tensor_pointer(b)) return true;
    if (amp_tensor_device(a) != AMP_DEVICE_CPU || !amp_tensor_is_dense(a)) return false;
    return memcmp(amp_tensor_pointer(a), amp_tensor_pointer(b),
                  (size_t)amp_tensor_elements(a) * amp_dtype_size(a->dtype)) == 0;
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

typedef struct comparison {
    const char *name;
    const amp_record *records;
    int count;
    bool *varies; /* by node */
} comparison;

static const amp_net_node *node_of(const comparison *c, int record, int k) {
    return &c->records[record].net->nodes[k];
}

static amp_status check_node(const comparison *c, int record, int k) {
    const amp_net_node *a = node_of(c, 0, k), *b = node_of(c, record, k);
    if (a->op == b->op && a->operand_count == b->operand_count && a->result_count == b->result_count) return AMP_OK;
    return amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                    "graph_save: %s: what it calls depends on the extents that are to be free: call %d is %s for some "
                    "and %s%s for others; save it with fixed extents",
                    c->name, k, a->op->name, b->op->name, a->op == b->op ? " of other operands" : "");
}

static bool operand_varies(const comparison *c, int k, int operand) {
    const amp_net *first = c->records[0].net;
    const int value = node_of(c, 0, k)->operands[operand].value;
    if (value < 0) return false;
    const amp_net_value *v = &first->values[value];
    if (!v->constant) return v->node >= 0 && c->varies[v->node];
    for (int i = 1; i < c->count; i++) {
        const int other = node_of(c, i, k)->operands[operand].value;
        const amp_tensor *constant = other >= 0 ? c->records[i].net->values[other].constant : NULL;
        if (!constant || !is_same_constant(v->constant, constant)) return true;
    }
    return false;
}

static bool node_varies(const comparison *c, int k) {
    const amp_net_node *node = node_of(c, 0, k);
    for (int i = 1; i < c->count; i++) {
        if (!are_arguments_same(node, node_of(c, i, k))) return true;
    }
    for (int i = 0; i < node->operand_count; i++) {
        if (operand_varies(c, k, i)) return true;
    }
    return false;
}

static amp_status fail_counts(const comparison *c, int record) {
    return amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                    "graph_save: %s: what it calls depends on the extents that are to be free: %d calls for some and "
                    "%d for others; save it with fixed extents",
                    c->name, c->records[0].net->node_count, c->records[record].net->node_count);
}

amp_status amp_record_compare(const char *name, const amp_record *records, int count, bool **varies) {
    const int nodes = records[0].net->node_count;
    const comparison c = {name, records, count, amp_alloc_zeroed(((size_t)nodes + 1) * sizeof(bool))};
    *varies = c.varies;
    if (!c.varies) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for %d calls", name, nodes);
    for (int k = 0; k < nodes; k++) {
        for (int i = 1; i < count; i++)
            AMP_TRY(k < records[i].net->node_count ? check_node(&c, i, k) : fail_counts(&c, i));
        c.varies[k] = node_varies(&c, k);
    }
    for (int i = 1; i < count; i++) {
        if (records[i].net->node_count != nodes) return fail_counts(&c, i);
    }
    return AMP_OK;
}
