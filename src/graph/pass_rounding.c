/* Under autocast: a result in f32 of a product or of batch_norm_pointwise, of which every reader sees but its rounded
 * values, is rounded where it is made, and other calls' before it is joined or repeated. The same bits in half the
 * memory. */
#include <string.h>

#include "core/memory.h"
#include "graph/product.h"
#include "policy/policy.h"
#include "policy/regions.h"
#include "policy/rules.h"

static bool repeats_pixels(const amp_net_node *node) {
    const char *const *mode = strcmp(node->op->name, "interpolate") == 0 ? amp_net_field(node, "mode") : NULL;
    return mode && (*mode == NULL || strcmp(*mode, "nearest") == 0);
}

/* Rounding before such a call is rounding behind it; of its first result, not of where a maximum stands. */
static bool only_moves(const amp_net *net, const amp_net_node *node) {
    if (!(node->op->flags & AMP_OP_MOVES) && !repeats_pixels(node)) return false;
    for (int i = 1; i < node->result_count; i++) {
        if (node->results[i] >= 0 && net->values[node->results[i]].uses > 0) return false;
    }
    return node->operand_count > 0 && node->results[0] >= 0;
}

amp_policy amp_net_policy(const amp_net *net, const amp_net_node *node) {
    const amp_region_state *region = &amp_region_states[AMP_DEVICE_CPU];
    if (node->is_f32) return AMP_POLICY_FP32;
    const amp_policy_choice choice = amp_policy_of(node->op, AMP_DEVICE_CPU, region->table, node->args);
    return net->rules ? amp_rules_choose(net->rules, node->op, choice).policy : choice.policy;
}

static bool lowers(const amp_net *net, const amp_net_node *node) {
    return amp_net_policy(net, node) == AMP_POLICY_LOWER;
}

/* From the last reader to the first: rounded[v] stays true where all of them round. */
static void find_rounded(const amp_net *net, bool *rounded) {
    for (int v = 0; v < net->value_count; v++) rounded[v] = net->values[v].uses > 0;
    for (int i = 0; i < net->output_count; i++) rounded[net->outputs[i]] = false;
    for (int k = net->node_count - 1; k >= 0; k--) {
        const amp_net_node *node = &net->nodes[k];
        const bool casts = lowers(net, node), moves = only_moves(net, node);
        for (int i = 0; i < node->operand_count; i++) {
            const amp_net_operand *o = &node->operands[i];
            const bool cast = casts && !(node->op->args[o->argument].flags & AMP_ARG_UNCAST);
            if (o->value >= 0 && !cast) rounded[o->value] &= moves && rounded[node->results[0]];
        }
    }
}

/* A norm with its relu, whose readers all round. */
static bool round_norm(amp_net *net, int k, const bool *rounded) {
    const amp_net_node *node = &net->nodes[k];
    const int result = node->results[0];
    if (strcmp(node->op->name, "batch_norm_pointwise") != 0 || result < 0 || node->is_f32) return false;
    if (net->values[result].dtype != AMP_F32 || !rounded[result]) return false;
    *(amp_dtype *)amp_net_field(node, "dtype") = AMP_BF16;
    net->values[result].dtype = AMP_BF16;
    return true;
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
    bool narrow = only_moves(net, node);
    for (int i = 0; narrow && i < node->operand_count; i++)
        narrow = node->operands[i].value >= 0 && net->values[node->operands[i].value].dtype == AMP_BF16;
    if (narrow) net->values[node->results[0]].dtype = AMP_BF16;
}

static int64_t elements_of(const amp_net_value *v) {
    int64_t elements = 1;
    for (int d = 0; d < v->rank; d++) elements *= v->shape[d];
    return elements;
}

static bool is_wide(const amp_net *net, int value) {
    return value >= 0 && net->values[value].dtype == AMP_F32;
}

/* Of a call that joins or repeats and whose readers all round: its result is larger than each operand, and all can be
 * rounded. */
static bool pays_before(const amp_net *net, const amp_net_node *node, const bool *rounded) {
    if (!only_moves(net, node) || !is_wide(net, node->results[0]) || !rounded[node->results[0]]) return false;
    const int64_t elements = elements_of(&net->values[node->results[0]]);
    for (int i = 0; i < node->operand_count; i++) {
        const int value = node->operands[i].value;
        if (value < 0 || net->values[value].constant || elements <= elements_of(&net->values[value])) return false;
        if (net->values[value].dtype != AMP_F32 && net->values[value].dtype != AMP_BF16) return false;
    }
    return true;
}

/* A cast in front of node k for each operand in f32; returns how many, or -1. */
static int round_operands(amp_net *net, int k) {
    int casts = 0;
    for (int i = 0; i < net->nodes[k + casts].operand_count; i++) {
        const int value = net->nodes[k + casts].operands[i].value;
        if (!is_wide(net, value)) continue;
        const int narrow = amp_net_value_like(net, value);
        amp_net_node *cast = narrow >= 0 ? amp_net_insert(net, k, "to", value, narrow) : NULL;
        if (!cast) return -1;
        *(amp_dtype *)amp_net_field(cast, "dtype") = AMP_BF16;
        net->values[narrow].dtype = AMP_BF16;
        casts++;
        net->nodes[k + casts].operands[i].value = narrow;
    }
    return casts;
}

/* By value, to be freed; NULL: no memory, or no region of bf16. */
static bool *rounded_values(const amp_net *net) {
    const amp_region_state *region = &amp_region_states[AMP_DEVICE_CPU];
    if (!region->enabled || region->dtype != AMP_BF16) return NULL;
    bool *rounded = amp_alloc((size_t)net->value_count * sizeof *rounded);
    if (rounded) find_rounded(net, rounded);
    return rounded;
}

bool amp_net_is_rounded(const amp_net *net, int value) {
    bool *rounded = rounded_values(net);
    const bool is_rounded = rounded && rounded[value];
    amp_free(rounded);
    return is_rounded;
}

int amp_pass_rounding(amp_net *net) {
    int places = 0;
    bool *rounded = rounded_values(net);
    if (!rounded) return 0;
    for (int k = 0; k < net->node_count; k++) {
        const bool changed = round_result(net, k, rounded) || round_norm(net, k, rounded);
        places += changed;
        if (changed) continue;
        const int casts = pays_before(net, &net->nodes[k], rounded) ? round_operands(net, k) : 0;
        if (casts < 0) break;
        k += casts;
        places += casts;
        follow(net, &net->nodes[k]);
    }
    amp_free(rounded);
    return places;
}
