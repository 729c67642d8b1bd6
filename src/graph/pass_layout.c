/* Channels last: convolutions of images are fastest so, and what follows them keeps it. So only what comes in any other
 * way is laid out anew, once. */
#include <limits.h>
#include <string.h>

#include "amp/ops.h"
#include "graph/product.h"

enum { LINES = 3, IMAGE = 4 }; /* dimensions of a batch of lines, as sound is, and of images */

static bool is_image(const amp_net_value *v) {
    return v->rank == LINES || v->rank == IMAGE;
}

/* The dimensions in memory of what has its channels last, and from there back. */
static amp_dims to_last(int rank) {
    return rank == LINES ? AMP_DIMS(0, 2, 1) : AMP_DIMS(0, 2, 3, 1);
}
static amp_dims from_last(int rank) {
    return rank == LINES ? AMP_DIMS(0, 2, 1) : AMP_DIMS(0, 3, 1, 2);
}

static bool keeps_layout(const amp_net_node *node) {
    return (node->op->flags & (AMP_OP_ELEMENTWISE | AMP_OP_KEEPS_CHANNELS_LAST)) != 0;
}

/* The last of the three calls that lay_out puts in. */
static bool is_laying_out(const amp_net *net, const amp_net_node *node) {
    const amp_dims *dims = strcmp(node->op->name, "permute") == 0 ? amp_net_field(node, "dims") : NULL;
    if (!dims || (dims->count != LINES && dims->count != IMAGE)) return false;
    const amp_dims order = from_last(dims->count);
    const int from = net->values[node->operands[0].value].node;
    const bool is_copied = dims->count == IMAGE || (from >= 0 && !strcmp(net->nodes[from].op->name, "contiguous"));
    return is_copied && memcmp(dims->values, order.values, (size_t)dims->count * sizeof *order.values) == 0;
}

/* Images of one pixel lie the same either way. */
static bool is_pixel(const amp_net_value *v) {
    return v->shape[2] == 1 && v->shape[v->rank - 1] == 1;
}

/* Its input is laid out by this pass; those of transposed ones are taken as they come. */
static bool is_convolution(const amp_net_node *node) {
    return strncmp(node->op->name, "conv", 4) == 0 && strncmp(node->op->name, "conv_transpose", 14) != 0;
}

/* Whether a value comes out of convolutions, and so lies as they make it. */
static bool is_laid_out(const amp_net *net, int value) {
    for (int steps = 0; steps < 64; steps++) {
        const int k = net->values[value].node;
        if (is_image(&net->values[value]) && is_pixel(&net->values[value])) return true;
        if (k < 0 || !is_image(&net->values[value])) return false;
        const amp_net_node *node = &net->nodes[k];
        if (is_convolution(node) || is_laying_out(net, node)) return true;
        if (!keeps_layout(node) || node->operand_count == 0 || node->operands[0].value < 0) return false;
        value = node->operands[0].value;
    }
    return false;
}

/* Puts permute, contiguous, permute in front of node k; returns the value that lies so, or AMP_NET_NONE. */
static int lay_out(amp_net *net, int k, int value) {
    const int last = amp_net_value_like(net, value), dense = amp_net_value_like(net, value),
              back = amp_net_value_like(net, value);
    if (last < 0 || dense < 0 || back < 0) return AMP_NET_NONE;
    const int rank = net->values[value].rank;
    amp_net_node *node = amp_net_insert(net, k, "permute", dense, back);
    if (!node) return AMP_NET_NONE;
    *(amp_dims *)amp_net_field(node, "dims") = from_last(rank);
    node = amp_net_insert(net, k, "contiguous", last, dense);
    if (!node) return AMP_NET_NONE;
    node = amp_net_insert(net, k, "permute", value, last);
    if (!node) return AMP_NET_NONE;
    *(amp_dims *)amp_net_field(node, "dims") = to_last(rank);
    return back;
}

/* A result that only leaves the graph, where it will be row by row again: for the one convolution, laying out its input
 * and its result costs more than it saves. */
static bool only_leaves(const amp_net *net, int k) {
    const int result = net->nodes[k].results[0];
    return result >= 0 && net->values[result].uses == 1 && net->values[result].last_use == INT_MAX;
}

int amp_pass_layout(amp_net *net) {
    int places = 0;
    for (int k = 0; k < net->node_count; k++) {
        amp_product p;
        if (!is_convolution(&net->nodes[k]) || !amp_product_read(net, k, &p)) continue;
        if (!is_image(&net->values[p.input]) || is_laid_out(net, p.input) || only_leaves(net, k)) continue;
        const int value = lay_out(net, k, p.input);
        if (value < 0) continue;
        amp_net_replace_from(net, k + 3, p.input, value); /* behind the three */
        amp_net_count(net);
        places++;
    }
    return places;
}
