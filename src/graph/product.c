/* Products and convolutions as nodes. */
#include "graph/product.h"

#include <string.h>

#include "amp/ops.h"
#include "core/thread.h"
#include "policy/regions.h"

/* Nets outlive the nodes whose texts these were. */
static const char *literal(const char *text) {
    static const char *const words[] = {"none",       "relu",     "sigmoid", "tanh", "swish", "hardswish", "gelu",
                                        "leaky_relu", "hardtanh", "add",     "sub",  "mul",   "div"};
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], text) == 0) return words[i];
    }
    return NULL;
}

static const char *text_of(const amp_net_node *node, const char *argument, const char *otherwise) {
    const char *const *field = amp_net_field(node, argument);
    return field && *field ? literal(*field) : otherwise;
}

static void read_dims(const amp_net_node *node, amp_product *p) {
    const int64_t *groups = amp_net_field(node, "groups");
    const amp_opt_int *option = amp_net_field(node, "groups");
    p->stride = *(amp_dims *)amp_net_field(node, "stride");
    p->padding = *(amp_dims *)amp_net_field(node, "padding");
    p->dilation = *(amp_dims *)amp_net_field(node, "dilation");
    for (int i = 0; i < node->op->arg_count; i++) {
        if (strcmp(node->op->args[i].name, "groups") != 0) continue;
        p->groups = node->op->args[i].kind == AMP_ARG_OPT_INT ? (option->set ? option->value : 1) : *groups;
    }
}

static void read_words(const amp_net_node *node, amp_product *p) {
    const amp_floats *scalars = amp_net_field(node, "scalars");
    const amp_dtype *dtype = amp_net_field(node, "dtype");
    p->dtype = dtype ? *dtype : AMP_DTYPE_NONE;
    p->attr = text_of(node, "attr", "none");
    p->algorithm = text_of(node, "algorithm", "none");
    if (scalars) p->scalars = *scalars;
}

static void read_tensors(const amp_net_node *node, amp_product *p) {
    p->input = amp_net_operand_of(node, "input");
    p->weight = amp_net_operand_of(node, "weight");
    p->bias = amp_net_operand_of(node, "bias");
    p->scale = amp_net_operand_of(node, "scale");
    p->shift = amp_net_operand_of(node, "shift");
    p->other = amp_net_operand_of(node, "other");
    p->is_mixed = p->other < 0;
    if (p->is_mixed) p->other = amp_net_operand_of(node, "residual");
}

/* x·W with a constant W [K, N] is linear(x, Wᵀ): a view, and packed once as it is. */
static bool read_matmul(amp_net *net, const amp_net_node *node, amp_product *p) {
    const int x = amp_net_operand_of(node, "input"), w = amp_net_operand_of(node, "other");
    if (x < 0 || w < 0 || !net->values[w].constant || net->values[w].rank != 2 || net->values[x].rank < 2) return false;
    const int weight = amp_net_add_transposed(net, w);
    if (weight < 0) return false;
    *p = (amp_product){.input = x, .weight = weight};
    p->bias = p->scale = p->shift = p->other = AMP_NET_NONE;
    p->attr = p->algorithm = "none";
    return true;
}

/* By what it made when it was captured, for rules may keep single products in f32. */
static bool is_lowered(const amp_net *net, int k, const amp_product *p) {
    const amp_region_state *region = &amp_region_states[AMP_DEVICE_CPU];
    const amp_tensor *w = net->values[p->weight].constant;
    const amp_dtype made = net->values[net->nodes[k].results[0]].dtype;
    const bool widens = p->dtype == AMP_F32 && region->enabled && region->dtype == AMP_BF16;
    return (made == AMP_BF16 || widens) && w && amp_tensor_device(w) == AMP_DEVICE_CPU;
}

static bool read_product(amp_net *net, int k, amp_product *p) {
    static const struct {
        const char *name, *overload;
        bool is_conv, has_words, is_binary;
    } ops[] = {{"conv1d", "", true, false, false},
               {"conv2d", "", true, false, false},
               {"conv3d", "", true, false, false},
               {"convolution_pointwise", "", true, true, false},
               {"convolution_pointwise", "binary", true, true, false},
               {"linear", "", false, false, false},
               {"linear_pointwise", "", false, true, false},
               {"linear_pointwise", "binary", false, false, true}};
    const amp_net_node *node = &net->nodes[k];
    if (strcmp(node->op->name, "matmul") == 0) return read_matmul(net, node, p);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        if (strcmp(node->op->name, ops[i].name) != 0 || strcmp(node->op->overload, ops[i].overload) != 0) continue;
        *p = (amp_product){.is_conv = ops[i].is_conv, .attr = "none", .algorithm = "none"};
        read_tensors(node, p);
        if (ops[i].has_words) read_words(node, p);
        if (ops[i].is_conv) read_dims(node, p);
        if (ops[i].is_binary) p->join = text_of(node, "attr", "add");
        return p->attr && p->algorithm;
    }
    return false;
}

/* With what no policy casts, and what else only the op for that has. */
static bool is_mixed(const amp_product *p) {
    const bool is_activated = p->other >= 0 && strcmp(p->attr, "none") != 0;
    return p->shift >= 0 || p->dtype != AMP_DTYPE_NONE || (p->other >= 0 && p->is_mixed) ||
           (!p->is_conv && is_activated);
}

bool amp_product_read(amp_net *net, int k, amp_product *p) {
    if (!read_product(net, k, p) || net->nodes[k].results[0] < 0) return false;
    p->is_lowered = is_lowered(net, k, p);
    return true;
}

static const char *op_of(const amp_product *p) {
    if (is_mixed(p)) return p->is_conv ? "convolution_pointwise" : "linear_pointwise";
    if (p->is_conv) return p->other >= 0 ? "convolution_pointwise.binary" : "convolution_pointwise";
    return p->other >= 0 ? "linear_pointwise.binary" : strcmp(p->attr, "none") ? "linear_pointwise" : "linear";
}

static void set_text(const amp_net_node *node, const char *argument, const char *text) {
    const char **field = amp_net_field(node, argument);
    if (field) *field = text;
}

bool amp_product_write(amp_net *net, int k, const amp_product *p) {
    if (!p->is_conv && p->scale >= 0) return false;
    const amp_net_argument tensors[] = {{"input", p->input},   {"other", p->other}, {"residual", p->other},
                                        {"weight", p->weight}, {"bias", p->bias},   {"scale", p->scale},
                                        {"shift", p->shift}};
    amp_net_node *node = amp_net_rewrite(net, k, op_of(p), tensors, sizeof tensors / sizeof tensors[0]);
    if (!node) return false;
    if (is_mixed(p)) *(amp_dtype *)amp_net_field(node, "dtype") = p->dtype;
    if (p->is_conv || p->other < 0 || is_mixed(p)) {
        set_text(node, "attr", p->attr);
        set_text(node, "algorithm", p->algorithm);
        if (amp_net_field(node, "scalars")) *(amp_floats *)amp_net_field(node, "scalars") = p->scalars;
    } else {
        set_text(node, "attr", p->join);
    }
    if (!p->is_conv) return true;
    *(amp_dims *)amp_net_field(node, "stride") = p->stride;
    *(amp_dims *)amp_net_field(node, "padding") = p->padding;
    *(amp_dims *)amp_net_field(node, "dilation") = p->dilation;
    *(amp_opt_int *)amp_net_field(node, "groups") = (amp_opt_int)AMP_SET(p->groups);
    return true;
}

bool amp_product_is_depthwise(const amp_net *net, const amp_product *p) {
    const amp_net_value *w = &net->values[p->weight];
    return p->is_conv && p->groups > 1 && w->shape[1] == 1 && w->shape[0] == p->groups;
}

int64_t amp_product_channels(const amp_net *net, const amp_product *p) {
    return net->values[p->weight].shape[0];
}
