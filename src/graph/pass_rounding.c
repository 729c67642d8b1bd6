/* Under autocast: a product's result in f32 of which every reader sees but its rounded values is rounded where it is made.
 * The same bits in half the memory. */
#include <string.h>

#include "core/memory.h"
#include "graph/product.h"
#include "policy/policy.h"
#include "policy/regions.h"
#include "policy/rules.h"

/* Rounding before such a call is rounding behind it. */
static bool only_moves(const amp_net_node *node) {
    return (node->op->flags & AMP_OP_MOVES) != 0;
}

static bool lowers(const amp_net *net, const amp_net_node *node) {
    const amp_region_state *region = &amp_region_states[AMP_DEVICE_CPU];
    if (node->is_f32) return false;
    amp_policy_choice choice = amp_policy_of(node->op, AMP_DEVICE_CPU, region->table, node->args);
    if (net->rules) choice = amp_rules_choose(net->rules, node->op, choice);
    return choice.policy == AMP_POLICY_LOWER;
}

/* From the last reader to the first: rounded[v] stays true where all of them round. */
static void find_rounded(const amp_net *net, bool *rounded) {
    for (int v = 0; v < net->value_count; v++) rounded[v] = net->values[v].uses > 0;
    for (int i = 0; i < net->output_count; i++) rounded[net->outputs[i]] = false;
    for (int k = net->node_count - 1; k >= 0; k--) {
        const amp_net_node *node = &net->nodes[k];
        const bool casts = lowers(net, node), moves = only_moves(node) && node->results[0] >= 0;
        for (int i = 0; i < node->operand_count; i++) {
            const amp_net_operand *o = &node->operands[i];
            const bool cast = casts && !(node->op->args[o->argument].flags & AMP_ARG_UNCAST);
            if (o->value >= 0 && !cast) rounded[o->value] &= moves && rounded[node->results[0]];
        }
    }
}

static bool round_result(amp_net *net, int k, const bool *rounded) {
    amp_product p;
    const int result = net->nodes[k].results[0];
    if (strstr(net->nodes[k].op->name, "_pointwise") == NULL || !amp_product_read(net, k, &p)) return false;
    if (p.dtype != AMP_F32 || result < 0 || net->nodes[k].is_f32) return false;
    if (!rounded[result] && !amp_product_is_depthwise(net, &p)) return false;
    p.dtype = AMP_DTYPE_NONE;
    if (!amp_product_write(net, k, &p)) return false;
    net->values[result].dtype = AMP_BF16;
    return true;
}

/* What moves elements of bf16 alone makes bf16. */
static void follow(amp_net *net, const amp_net_node *node) {
    bool narrow = only_moves(node) && node->operand_count > 0 && node->results[0] >= 0;
    for (int i = 0; narrow && i < node->operand_count; i++)
        narrow = node->operands[i].value >= 0 && net->values[node->operands[i].value].dtype == AMP_BF16;
    if (narrow) net->values[node->results[0]].dtype = AMP_BF16;
}

int amp_pass_rounding(amp_net *net) {
    const amp_region_state *region = &amp_region_states[AMP_DEVICE_CPU];
    int places = 0;
    if (!region->enabled || region->dtype != AMP_BF16) return 0;
    bool *rounded = amp_alloc((size_t)net->value_count * sizeof *rounded);
    if (!rounded) return 0;
    find_rounded(net, rounded);
    for (int k = 0; k < net->node_count; k++) {
        const bool changed = round_result(net, k, rounded);
        places += changed;
        if (!changed) follow(net, &net->nodes[k]);
    }
    amp_free(rounded);
    return places;
}
