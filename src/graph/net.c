/* The data of a net. */
#include "graph/passes.h"

#include <limits.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "call/copy_args.h"
#include "core/memory.h"
#include "core/thread.h"
#include "graph/plan.h"

/* Room for one more of `size` bytes behind `count`; doubles. */
static void *grow(void *items, size_t *room, int count, size_t size) {
    const size_t needed = ((size_t)count + 1) * size;
    if (needed <= *room) return items;
    void *more = amp_alloc(2 * needed);
    if (!more) return NULL;
    if (items) memcpy(more, items, (size_t)count * size);
    amp_free(items);
    *room = 2 * needed;
    return more;
}

amp_net *amp_net_new(int inputs, int outputs) {
    amp_net *net = amp_alloc_zeroed(sizeof *net);
    if (!net) return NULL;
    net->inputs = amp_alloc((size_t)inputs * sizeof *net->inputs);
    net->outputs = amp_alloc((size_t)outputs * sizeof *net->outputs);
    net->input_count = inputs;
    net->output_count = outputs;
    if (net->inputs && net->outputs) return net;
    amp_net_free(net);
    return NULL;
}

void amp_net_free(amp_net *net) {
    if (!net) return;
    amp_plan_free(atomic_load(&net->plan));
    for (int i = 0; i < net->value_count; i++) amp_release(net->values[i].constant);
    amp_pool_end(&net->pool);
    amp_free(net->values);
    amp_free(net->nodes);
    amp_free(net->inputs);
    amp_free(net->outputs);
    amp_free(net);
}

int amp_net_add_value(amp_net *net, const amp_tensor *like, uint64_t depends) {
    amp_net_value *values = grow(net->values, &net->value_room, net->value_count, sizeof *values);
    if (!values) return AMP_NET_NONE;
    net->values = values;
    amp_net_value *v = &values[net->value_count];
    *v = (amp_net_value){.depends = depends, .dtype = like->dtype, .rank = like->rank, .node = AMP_NET_NONE};
    memcpy(v->shape, like->shape, sizeof v->shape);
    return net->value_count++;
}

int amp_net_add_constant(amp_net *net, amp_tensor *tensor) {
    const int value = amp_net_add_value(net, tensor, 0);
    if (value == AMP_NET_NONE) return value;
    net->values[value].constant = amp_retain(tensor);
    net->values[value].version = amp_tensor_version(tensor);
    return value;
}

/* Memory for what a node with these counts points to. */
static bool take_parts(amp_pool *pool, amp_net_node *node, size_t args_bytes) {
    node->args = amp_pool_take_zeroed(pool, args_bytes);
    node->operands = amp_pool_take(pool, (size_t)node->operand_count * sizeof *node->operands);
    node->results = amp_pool_take(pool, (size_t)node->result_count * sizeof *node->results);
    return node->args && node->operands && node->results;
}

amp_net_node *amp_net_add_node(amp_net *net, const amp_op_info *op, const void *args, int operands, int results) {
    amp_net_node *nodes = grow(net->nodes, &net->node_room, net->node_count, sizeof *nodes);
    if (!nodes) return NULL;
    net->nodes = nodes;
    amp_net_node *node = &nodes[net->node_count];
    *node = (amp_net_node){.op = op, .operand_count = operands, .result_count = results};
    if (!take_parts(&net->pool, node, amp_args_bytes(op, args))) return NULL;
    amp_args_copy(op, args, node->args);
    net->node_count++;
    return node;
}

/* ---- Looking at it --------------------------------------------------------------------------------------------- */

static int argument_number(const amp_op_info *op, const char *name) {
    for (int i = 0; i < op->arg_count; i++) {
        if (strcmp(op->args[i].name, name) == 0) return i;
    }
    return AMP_NET_NONE;
}

int amp_net_operand_of(const amp_net_node *node, const char *argument) {
    const int number = argument_number(node->op, argument);
    for (int i = 0; i < node->operand_count; i++) {
        if (node->operands[i].argument == number) return node->operands[i].value;
    }
    return AMP_NET_NONE;
}

void *amp_net_field(const amp_net_node *node, const char *argument) {
    const int number = argument_number(node->op, argument);
    return number < 0 ? NULL : (char *)node->args + node->op->args[number].offset;
}

/* ---- Changing it ----------------------------------------------------------------------------------------------- */

void amp_net_replace_from(amp_net *net, int k, int old, int value) {
    for (; k < net->node_count; k++) {
        if (net->nodes[k].result_count == 1 && net->nodes[k].results[0] == value) continue; /* what makes it */
        for (int i = 0; i < net->nodes[k].operand_count; i++) {
            if (net->nodes[k].operands[i].value == old) net->nodes[k].operands[i].value = value;
        }
    }
    for (int i = 0; i < net->output_count; i++) {
        if (net->outputs[i] == old) net->outputs[i] = value;
    }
}

amp_net_node *amp_net_insert(amp_net *net, int k, const char *op, int value, int result) {
    const amp_op_info *info = amp_op_find(op);
    if (!info) return NULL;
    alignas(max_align_t) char args[AMP_MAX_ARGS_BYTES] = {0};
    memcpy(args, &info->args_size, sizeof info->args_size);
    amp_net_node *node = amp_net_add_node(net, info, args, 1, 1);
    if (!node) return NULL;
    node->operands[0] = (amp_net_operand){0, 0, value};
    for (int i = 0; i < info->arg_count; i++) {
        if (info->args[i].kind == AMP_ARG_TENSOR) node->operands[0].argument = (short)i;
    }
    node->results[0] = result;
    const amp_net_node made = *node;
    memmove(&net->nodes[k + 1], &net->nodes[k], (size_t)(net->node_count - 1 - k) * sizeof *net->nodes);
    net->nodes[k] = made;
    return &net->nodes[k];
}

int amp_net_value_like(amp_net *net, int value) {
    const amp_net_value of = net->values[value];
    amp_tensor like = {.dtype = of.dtype, .rank = of.rank};
    memcpy(like.shape, of.shape, sizeof like.shape);
    return amp_net_add_value(net, &like, of.depends);
}

amp_net_node *amp_net_rewrite(amp_net *net, int k, const char *op, const amp_net_argument *arguments, int count) {
    const amp_op_info *info = amp_op_find(op);
    amp_net_node made = {.op = info, .operand_count = count, .result_count = 1};
    if (!info || !take_parts(&net->pool, &made, info->args_size)) return NULL;
    made.operand_count = 0;
    memcpy(made.args, &info->args_size, sizeof info->args_size);
    for (int a = 0; a < info->arg_count; a++) {
        for (int i = 0; i < count; i++) {
            if (arguments[i].value < 0 || strcmp(info->args[a].name, arguments[i].name) != 0) continue;
            made.operands[made.operand_count++] = (amp_net_operand){(short)a, 0, arguments[i].value};
        }
    }
    made.results[0] = net->nodes[k].results[0];
    amp_net_join(net, k, &made);
    net->nodes[k] = made;
    return &net->nodes[k];
}

void amp_net_replace(amp_net *net, int old, int value) {
    amp_net_replace_from(net, 0, old, value);
}

int amp_net_add_transposed(amp_net *net, int value) {
    const amp_tensor *t = net->values[value].constant;
    const int64_t shape[2] = {t->shape[1], t->shape[0]}, strides[2] = {t->strides[1], t->strides[0]};
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_tensor *view = amp_tensor_view("graph", (amp_tensor *)t, 2, shape, strides, t->offset);
    const int transposed = view ? amp_net_add_constant(net, view) : AMP_NET_NONE;
    amp_scope_pop(&frame);
    if (!view) amp_clear_error();
    return transposed;
}

static void count_operands(amp_net *net, const amp_net_node *node, int by) {
    for (int i = 0; i < node->operand_count; i++) {
        if (node->operands[i].value >= 0) net->values[node->operands[i].value].uses += by;
    }
}

static bool is_read(const amp_net *net, const amp_net_node *node) {
    for (int i = 0; i < node->result_count; i++) {
        if (node->results[i] >= 0 && net->values[node->results[i]].uses > 0) return true;
    }
    return false;
}

/* From the last to the first: what only dead nodes read is dead too. */
static void drop_dead(amp_net *net) {
    for (int i = 0; i < net->value_count; i++) net->values[i].uses = 0;
    for (int i = 0; i < net->output_count; i++) net->values[net->outputs[i]].uses++;
    for (int k = net->node_count - 1; k >= 0; k--) {
        amp_net_node *node = &net->nodes[k];
        if (node->op && is_read(net, node)) {
            count_operands(net, node, 1);
        } else {
            node->op = NULL;
        }
    }
}

static void close_gaps(amp_net *net) {
    int kept = 0;
    for (int k = 0; k < net->node_count; k++) {
        if (net->nodes[k].op) net->nodes[kept++] = net->nodes[k];
    }
    net->node_count = kept;
}

void amp_net_count(amp_net *net) {
    drop_dead(net);
    close_gaps(net);
    for (int k = 0; k < net->node_count; k++) {
        const amp_net_node *node = &net->nodes[k];
        for (int i = 0; i < node->result_count; i++) {
            if (node->results[i] >= 0) net->values[node->results[i]].node = k;
            if (node->results[i] >= 0) net->values[node->results[i]].last_use = k; /* what nobody reads goes at once */
        }
        for (int i = 0; i < node->operand_count; i++) {
            if (node->operands[i].value >= 0) net->values[node->operands[i].value].last_use = k;
        }
    }
    for (int i = 0; i < net->output_count; i++) net->values[net->outputs[i]].last_use = INT_MAX;
    for (int i = 0; i < net->value_count; i++) {
        amp_net_value *v = &net->values[i];
        if (!v->constant || v->uses > 0 || (net->keeps_given && v->is_given)) continue;
        amp_release(v->constant); /* a pass has left it without a reader */
        v->constant = NULL;
    }
}

/* ---- Making it small ------------------------------------------------------------------------------------------- */

/* The number that each value gets; AMP_NET_NONE: it goes. Returns how many stay. */
static int number_values(const amp_net *net, int *numbers) {
    for (int v = 0; v < net->value_count; v++) numbers[v] = net->values[v].constant ? 0 : AMP_NET_NONE;
    for (int i = 0; i < net->input_count; i++) numbers[net->inputs[i]] = 0;
    for (int i = 0; i < net->output_count; i++) numbers[net->outputs[i]] = 0;
    for (int k = 0; k < net->node_count; k++) {
        const amp_net_node *node = &net->nodes[k];
        for (int i = 0; i < node->operand_count; i++) {
            if (node->operands[i].value >= 0) numbers[node->operands[i].value] = 0;
        }
        for (int i = 0; i < node->result_count; i++) {
            if (node->results[i] >= 0) numbers[node->results[i]] = 0;
        }
    }
    int count = 0;
    for (int v = 0; v < net->value_count; v++) {
        if (numbers[v] != AMP_NET_NONE) numbers[v] = count++;
    }
    return count;
}

/* A copy with memory from this pool. */
static bool move_node(amp_pool *pool, const amp_net_node *node, const int *numbers, amp_net_node *moved) {
    *moved = *node;
    if (!take_parts(pool, moved, amp_args_bytes(node->op, node->args))) return false;
    amp_args_copy(node->op, node->args, moved->args);
    for (int i = 0; i < node->operand_count; i++) {
        moved->operands[i] = node->operands[i];
        if (node->operands[i].value >= 0) moved->operands[i].value = numbers[node->operands[i].value];
    }
    for (int i = 0; i < node->result_count; i++)
        moved->results[i] = node->results[i] >= 0 ? numbers[node->results[i]] : AMP_NET_NONE;
    if (!node->places) return true;
    const size_t bytes = strlen(node->places) + 1;
    moved->places = amp_pool_take(pool, bytes);
    return moved->places && memcpy(moved->places, node->places, bytes);
}

static bool move_nodes(const amp_net *net, const int *numbers, amp_pool *pool, amp_net_node *nodes) {
    for (int k = 0; k < net->node_count; k++) {
        if (!move_node(pool, &net->nodes[k], numbers, &nodes[k])) return false;
    }
    return true;
}

static void move_values(const amp_net *net, const int *numbers, amp_net_value *values) {
    for (int v = 0; v < net->value_count; v++) {
        if (numbers[v] != AMP_NET_NONE) values[numbers[v]] = net->values[v];
    }
    for (int i = 0; i < net->input_count; i++) net->inputs[i] = numbers[net->inputs[i]];
    for (int i = 0; i < net->output_count; i++) net->outputs[i] = numbers[net->outputs[i]];
}

static void become(amp_net *net, amp_net_value *values, int count, amp_net_node *nodes, amp_pool pool) {
    amp_free(net->values);
    amp_free(net->nodes);
    amp_pool_end(&net->pool);
    net->values = values;
    net->value_count = count;
    net->value_room = (size_t)count * sizeof *values;
    net->nodes = nodes;
    net->node_room = (size_t)net->node_count * sizeof *nodes;
    net->pool = pool;
}

void amp_net_compact(amp_net *net) {
    int *numbers = amp_alloc((size_t)net->value_count * sizeof *numbers);
    const int count = numbers ? number_values(net, numbers) : 0;
    amp_net_value *values = amp_alloc((size_t)count * sizeof *values);
    amp_net_node *nodes = amp_alloc((size_t)net->node_count * sizeof *nodes);
    amp_pool pool = {NULL};
    if (numbers && values && nodes && move_nodes(net, numbers, &pool, nodes)) {
        move_values(net, numbers, values);
        become(net, values, count, nodes, pool);
    } else {
        amp_pool_end(&pool);
        amp_free(values);
        amp_free(nodes);
    }
    amp_free(numbers);
}

bool amp_net_is_fresh(const amp_net *net) {
    for (int i = 0; i < net->value_count; i++) {
        const amp_net_value *v = &net->values[i];
        if (v->constant && v->is_given && v->version != amp_tensor_version(v->constant)) return false;
    }
    return true;
}

/* ---- For people ------------------------------------------------------------------------------------------------- */

static void print_value(const amp_net *net, int value) {
    if (value < 0) {
        fprintf(stderr, "-");
    } else {
        fprintf(stderr, "%s%d", net->values[value].constant ? "#" : "%", value);
    }
}

void amp_net_print(const amp_net *net) {
    for (int k = 0; k < net->node_count; k++) {
        const amp_net_node *node = &net->nodes[k];
        fprintf(stderr, "  ");
        for (int i = 0; i < node->result_count; i++) {
            if (i > 0) fprintf(stderr, ", ");
            print_value(net, node->results[i]);
        }
        fprintf(stderr, " = %s%s%s(", node->op->name, *node->op->overload ? "." : "", node->op->overload);
        for (int i = 0; i < node->operand_count; i++) {
            fprintf(stderr, "%s%s=", i > 0 ? ", " : "", node->op->args[node->operands[i].argument].name);
            print_value(net, node->operands[i].value);
        }
        const amp_net_value *v =
            node->result_count > 0 && node->results[0] >= 0 ? &net->values[node->results[0]] : NULL;
        fprintf(stderr, ")  %s %s\n", v ? amp_describe_shape(v->rank, v->shape) : "",
                v ? amp_dtype_name(v->dtype) : "");
    }
}
