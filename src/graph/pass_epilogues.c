/* What follows a product or a convolution becomes part of it: batch norm, bias, a second tensor, an activation; relu also
 * of a batch norm that stands alone. Fewer passes over memory, and one rounding in the place of several. Under autocast
 * what is added in f32 by the calls that stand there is added in f32 by the product too, and so is its result f32;
 * pass_rounding.c says where it need not. */
#include <string.h>

#include "amp/ops.h"
#include "core/thread.h"
#include "graph/pattern.h"
#include "graph/product.h"

/* The product that alone makes what node k reads as `value`; nobody else reads it. It takes over the dtype that node
 * k's result has: what was added in f32 stays so. */
static bool product_before(amp_net *net, int k, int value, amp_product *p) {
    if (value < 0 || net->values[value].uses != 1 || net->values[value].node < 0) return false;
    if (!amp_product_read(net, net->values[value].node, p)) return false;
    if (!p->is_lowered) return true;
    const amp_dtype before = net->values[value].dtype, after = net->values[net->nodes[k].results[0]].dtype;
    if (after != before && after != AMP_F32) return false;
    if (after != before) p->dtype = after;
    return true;
}

/* What a product adds already, in f32: a bias as the region rounds it. False: it is no constant of f32. */
static bool read_bias(const amp_net *net, const amp_product *p, amp_tensor **bias) {
    const bool lowered = p->is_lowered;
    *bias = NULL;
    for (int i = 0; i < 2; i++) {
        const int value = i == 0 ? p->bias : p->shift;
        amp_tensor *t = value >= 0 ? net->values[value].constant : NULL;
        if (value >= 0 && (!t || t->dtype != AMP_F32)) return false;
        if (t && i == 0 && lowered) t = amp_to(amp_to(t, AMP_BF16), AMP_F32);
        if (t) *bias = *bias ? amp_add(*bias, t) : t;
        if (t && !*bias) return false;
    }
    return true;
}

/* `bias`, and none but it; in a region as what no policy casts. */
static bool write_bias(amp_net *net, amp_product *p, amp_tensor *bias) {
    const int value = bias ? amp_net_add_constant(net, bias) : AMP_NET_NONE;
    if (value < 0) return false;
    const bool lowered = p->is_lowered;
    p->shift = lowered ? value : AMP_NET_NONE;
    p->bias = lowered ? AMP_NET_NONE : value;
    return true;
}

static bool is_open(const amp_product *p) {
    return strcmp(p->attr, "none") == 0;
}

/* ---- Batch norm ------------------------------------------------------------------------------------------------- */

/* scale = weight / sqrt(var + eps), bias = bias - mean · scale [+ scale · the convolution's own]. */
static bool fold_batch_norm(amp_net *net, const amp_net_node *node, amp_product *p) {
    static const char *const names[] = {"running_mean", "running_var", "weight", "bias"};
    amp_tensor *t[4];
    const amp_opt_float *eps = amp_net_field(node, "eps");
    for (int i = 0; i < 4; i++) {
        const int value = amp_net_operand_of(node, names[i]);
        t[i] = value >= 0 ? net->values[value].constant : NULL;
        if (!t[i] || t[i]->dtype != AMP_F32) return false;
    }
    amp_tensor *own;
    if (amp_failed()) return false;
    amp_scope_frame frame;
    amp_scope_push(&frame);
    const bool known = read_bias(net, p, &own);
    amp_tensor *scale = amp_div(t[2], amp_sqrt(amp_add_scalar(t[1], amp_float(eps && eps->set ? eps->value : 1e-5))));
    amp_tensor *bias = amp_sub(t[3], amp_mul(t[0], scale));
    if (own) bias = amp_add(bias, amp_mul(own, scale));
    if (bias) p->scale = amp_net_add_constant(net, scale);
    const bool done = known && bias && p->scale >= 0 && write_bias(net, p, bias);
    amp_scope_pop(&frame);
    if (!done) amp_clear_error(); /* no memory: it stays as it was */
    return done;
}

static bool take_batch_norm(amp_net *net, int k) {
    amp_product p;
    if (strcmp(net->nodes[k].op->name, "batch_norm") != 0) return false;
    if (!product_before(net, k, amp_net_operand_of(&net->nodes[k], "input"), &p)) return false;
    if (!p.is_conv || !is_open(&p) || p.scale >= 0 || p.other >= 0) return false;
    return fold_batch_norm(net, &net->nodes[k], &p) && amp_product_write(net, k, &p);
}

/* ---- Bias and second tensors ------------------------------------------------------------------------------------ */

/* A constant with a number for each channel of the result, as [C, 1, 1] for a convolution, [C] for a product. */
static bool is_bias(const amp_net *net, const amp_product *p, int value, int rank) {
    const amp_net_value *v = &net->values[value];
    const int channel = p->is_conv ? v->rank - rank + 1 : v->rank - 1;
    if (!v->constant || channel < 0 || v->rank > rank) return false;
    for (int d = 0; d < v->rank; d++) {
        if (v->shape[d] != (d == channel ? amp_product_channels(net, p) : 1)) return false;
    }
    return true;
}

static bool add_bias(amp_net *net, amp_product *p, int value) {
    const int64_t channels = amp_product_channels(net, p);
    amp_tensor *own;
    amp_scope_frame frame;
    if (amp_failed()) return false;
    amp_scope_push(&frame);
    const bool known = read_bias(net, p, &own);
    amp_tensor *vector = amp_reshape(net->values[value].constant, AMP_DIMS(channels));
    if (vector && own) vector = amp_add(own, vector);
    const bool done = known && write_bias(net, p, vector);
    amp_scope_pop(&frame);
    if (!done) amp_clear_error();
    return done;
}

static bool same_shape(const amp_net_value *a, const amp_net_value *b) {
    return a->rank == b->rank && memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

/* What is added is of the sum's dtype, as is the product; but one of bf16 is added in f32 as it is. */
static bool fit_dtypes(const amp_net *net, const amp_product *p, amp_dtype product, amp_dtype other, amp_dtype sum) {
    if (!p->is_lowered) return product == sum && other == sum;
    if (sum != AMP_F32) return product == sum && other == sum;
    return (other == AMP_F32 || other == AMP_BF16) && !amp_product_is_depthwise(net, p);
}

/* Lines lie row by row, and kernels take channels last: what is added would be laid out anew, which takes longer than a
 * sum apart (vocoder in bf16: 13.8 ms with, 10.4 without). */
static bool is_lines(const amp_product *p, const amp_net_value *made) {
    enum { LINES = 3 };
    return p->is_conv && made->rank == LINES && made->shape[2] > 1;
}

static bool join(amp_net *net, int k, int product, int other) {
    amp_product p;
    const amp_net_value made = net->values[net->nodes[k].results[0]]; /* a copy: reading a product may add values */
    if (product < 0 || other < 0 || !product_before(net, k, product, &p)) return false;
    if (!is_open(&p) || p.other >= 0) return false;
    if (is_bias(net, &p, other, made.rank)) return add_bias(net, &p, other) && amp_product_write(net, k, &p);
    if (is_lines(&p, &made) || !same_shape(&net->values[other], &made) || !same_shape(&net->values[product], &made))
        return false;
    if (!fit_dtypes(net, &p, net->values[product].dtype, net->values[other].dtype, made.dtype)) return false;
    p.other = other;
    p.is_mixed = p.is_lowered;
    p.join = "add";
    return amp_product_write(net, k, &p);
}

/* Of two tensors, the second once. */
static bool is_plain_addition(const amp_net_node *node) {
    if (strcmp(node->op->name, "add") != 0 || *node->op->overload || node->operand_count != 2) return false;
    const amp_scalar *alpha = amp_net_field(node, "alpha");
    return alpha->kind == AMP_SCALAR_INT ? alpha->i == 1 : alpha->re == 1.0;
}

static bool take_addition(amp_net *net, int k) {
    const amp_net_node *node = &net->nodes[k];
    if (!is_plain_addition(node)) return false;
    const int a = node->operands[0].value, b = node->operands[1].value;
    return join(net, k, a, b) || join(net, k, b, a);
}

/* ---- Factors ---------------------------------------------------------------------------------------------------- */

/* The operand of a sum or product of two tensors that is a vector of f32 along the channels of images; the other one in
 * *rest. */
static int channel_constant(const amp_net *net, const amp_net_node *node, int *rest) {
    const amp_net_value *made = &net->values[node->results[0]];
    for (int i = 0; i < 2 && node->operand_count == 2 && !*node->op->overload && made->rank > 2; i++) {
        const int value = node->operands[i].value;
        const amp_net_value *v = value >= 0 ? &net->values[value] : NULL;
        const int channel = v ? v->rank - made->rank + 1 : -1;
        *rest = node->operands[1 - i].value;
        if (!v || !v->constant || v->constant->dtype != AMP_F32 || channel < 0 || *rest < 0) continue;
        bool is_vector = true;
        for (int d = 0; d < v->rank; d++) is_vector &= v->shape[d] == (d == channel ? made->shape[1] : 1);
        if (is_vector) return value;
    }
    return AMP_NET_NONE;
}

/* A vector times one that stands as [C, 1, 1]; NULL stands for ones. */
static amp_tensor *times(amp_tensor *vector, amp_tensor *factor) {
    amp_tensor *flat = amp_reshape(factor, AMP_DIMS(amp_tensor_numel(factor)));
    return vector ? amp_mul(vector, flat) : flat;
}

static bool scale_product(amp_net *net, amp_product *p, amp_tensor *factor) {
    amp_tensor *own, *scale = p->scale >= 0 ? net->values[p->scale].constant : NULL;
    if ((p->scale >= 0 && (!scale || scale->dtype != AMP_F32)) || !read_bias(net, p, &own)) return false;
    if (own && !write_bias(net, p, times(own, factor))) return false;
    scale = times(scale, factor);
    if (scale) p->scale = amp_net_add_constant(net, scale);
    return scale && p->scale >= 0;
}

static bool take_factor(amp_net *net, int k) {
    amp_product p;
    int rest;
    if (strcmp(net->nodes[k].op->name, "mul") != 0 || amp_failed()) return false;
    const int factor = channel_constant(net, &net->nodes[k], &rest);
    if (factor < 0 || !product_before(net, k, rest, &p) || !p.is_conv || !is_open(&p) || p.other >= 0) return false;
    amp_scope_frame frame;
    amp_scope_push(&frame);
    const bool done = scale_product(net, &p, net->values[factor].constant);
    amp_scope_pop(&frame);
    if (!done) amp_clear_error();
    return done && amp_product_write(net, k, &p);
}

enum { NORM_TENSORS = 5 };
static void read_norm(const amp_net_node *norm, amp_net_argument *tensors) {
    static const char *const names[NORM_TENSORS] = {"input", "running_mean", "running_var", "weight", "bias"};
    for (int i = 0; i < NORM_TENSORS; i++)
        tensors[i] = (amp_net_argument){names[i], amp_net_operand_of(norm, names[i])};
}

/* Batch norm before a factor or a sum by channels: with others of its own. */
static bool change_batch_norm(amp_net *net, int k, const amp_net_node *norm, amp_tensor *weight, amp_tensor *bias) {
    const amp_opt_float eps = *(const amp_opt_float *)amp_net_field(norm, "eps");
    const int w = amp_net_add_constant(net, weight), b = amp_net_add_constant(net, bias);
    amp_net_argument tensors[NORM_TENSORS];
    read_norm(norm, tensors);
    tensors[3].value = w;
    tensors[4].value = b;
    amp_net_node *made = w >= 0 && b >= 0 ? amp_net_rewrite(net, k, "batch_norm", tensors, NORM_TENSORS) : NULL;
    if (made) *(amp_opt_float *)amp_net_field(made, "eps") = eps;
    return made != NULL;
}

/* A factor or a sum by channels: the value that it is taken of, and *constant; AMP_NET_NONE: it is neither. */
static int by_channels(const amp_net *net, const amp_net_node *node, int *constant) {
    const bool adds = strcmp(node->op->name, "add") == 0;
    int rest;
    if (adds ? !is_plain_addition(node) : strcmp(node->op->name, "mul") != 0) return AMP_NET_NONE;
    *constant = channel_constant(net, node, &rest);
    return *constant >= 0 ? rest : AMP_NET_NONE;
}

/* Whether a value's readers round it, if need be behind more factors and sums by channels. */
static bool ends_rounded(const amp_net *net, int k) {
    int value = net->nodes[k].results[0], constant;
    for (k++; k < net->node_count && net->values[value].uses == 1; k++) {
        if (by_channels(net, &net->nodes[k], &constant) == value) value = net->nodes[k].results[0];
    }
    return amp_net_is_rounded(net, value);
}

/* Of bf16, though what follows is promoted: rounded once, behind all of it, instead of before it too. */
static bool stays_rounded(const amp_net *net, int k, const amp_net_node *norm) {
    const amp_net_node *node = &net->nodes[k];
    return net->values[norm->results[0]].dtype == AMP_BF16 && net->values[node->results[0]].dtype == AMP_F32 &&
           !norm->is_f32 && !node->is_f32 && ends_rounded(net, k);
}

/* That of a network that does not train, with all that it may have in f32; NULL: it is none, or has other readers. */
static const amp_net_node *batch_norm_before(const amp_net *net, int k, int value) {
    const amp_net_node *norm = net->values[value].node >= 0 ? &net->nodes[net->values[value].node] : NULL;
    if (!norm || net->values[value].uses != 1 || strcmp(norm->op->name, "batch_norm") != 0) return NULL;
    if (*(const bool *)amp_net_field(norm, "training")) return NULL;
    static const char *const names[] = {"running_mean", "running_var", "weight", "bias"};
    for (int i = 0; i < 4; i++) {
        const int v = amp_net_operand_of(norm, names[i]);
        if (v < 0 || !net->values[v].constant || net->values[v].constant->dtype != AMP_F32) return NULL;
    }
    const bool is_same = net->values[value].dtype == net->values[net->nodes[k].results[0]].dtype;
    return is_same || stays_rounded(net, k, norm) ? norm : NULL;
}

/* A relu that alone reads a batch norm becomes part of it, where no policy casts for either; one of
 * batch_norm_pointwise holds for both then. */
static bool give_relu(amp_net *net, int k) {
    const amp_net_node *node = &net->nodes[k];
    if (strcmp(node->op->name, "relu") != 0) return false;
    const int value = node->operands[0].value;
    const amp_net_node *norm = value >= 0 ? batch_norm_before(net, k, value) : NULL;
    if (!norm || amp_net_policy(net, norm) != AMP_POLICY_FALLTHROUGH) return false;
    if (amp_net_policy(net, node) != AMP_POLICY_FALLTHROUGH) return false;
    const amp_dtype dtype = net->values[value].dtype;
    const amp_opt_float eps = *(const amp_opt_float *)amp_net_field(norm, "eps");
    amp_net_argument tensors[NORM_TENSORS];
    read_norm(norm, tensors);
    amp_net_node *made = amp_net_rewrite(net, k, "batch_norm_pointwise", tensors, NORM_TENSORS);
    if (!made) return false;
    *(amp_opt_float *)amp_net_field(made, "eps") = eps;
    *(const char **)amp_net_field(made, "attr") = "relu";
    net->values[made->results[0]].dtype = dtype;
    return true;
}

static bool join_batch_norm(amp_net *net, int k) {
    int value;
    const int rest = amp_failed() ? AMP_NET_NONE : by_channels(net, &net->nodes[k], &value);
    const amp_net_node *norm = rest >= 0 ? batch_norm_before(net, k, rest) : NULL;
    if (!norm) return false;
    const bool adds = strcmp(net->nodes[k].op->name, "add") == 0;
    amp_tensor *constant = net->values[value].constant;
    amp_tensor *weight = net->values[amp_net_operand_of(norm, "weight")].constant;
    amp_tensor *bias = net->values[amp_net_operand_of(norm, "bias")].constant;
    amp_scope_frame frame;
    amp_scope_push(&frame);
    if (!adds) weight = times(weight, constant);
    bias = adds ? amp_add(bias, times(NULL, constant)) : times(bias, constant);
    const bool done = weight && bias && change_batch_norm(net, k, norm, weight, bias);
    if (done) net->values[net->nodes[k].results[0]].dtype = net->values[rest].dtype;
    amp_scope_pop(&frame);
    if (!done) amp_clear_error();
    return done;
}

/* ---- Activations ------------------------------------------------------------------------------------------------ */

static double number_of(const amp_scalar *s) {
    return s->kind == AMP_SCALAR_INT ? (double)s->i : s->re;
}

static bool read_leaky(const amp_net *net, const amp_net_node *node, amp_product *p) {
    (void)net;
    for (int i = 0; i < node->op->arg_count; i++) {
        const amp_arg_info *arg = &node->op->args[i];
        const void *field = (const char *)node->args + arg->offset;
        if (strcmp(arg->name, "negative_slope") != 0) continue;
        const double slope = arg->kind == AMP_ARG_SCALAR      ? number_of(field)
                             : arg->kind == AMP_ARG_OPT_FLOAT ? ((const amp_opt_float *)field)->value
                                                              : *(const double *)field;
        p->scalars = AMP_FLOATS(slope);
        return true;
    }
    return false;
}

/* Both bounds are there, as numbers or as constants of one element. */
static bool read_bounds(const amp_net *net, const amp_net_node *node, amp_product *p) {
    static const char *const names[] = {"min", "max"};
    p->scalars = AMP_FLOATS(0, 0);
    for (int i = 0; i < 2; i++) {
        const int value = amp_net_operand_of(node, names[i]);
        const amp_scalar *number = *node->op->overload ? NULL : amp_net_field(node, names[i]);
        if (number && number->kind != AMP_SCALAR_NONE) {
            p->scalars.values[i] = number_of(number);
        } else if (!amp_net_number(net, value, &p->scalars.values[i])) {
            return false;
        }
    }
    return p->scalars.values[0] <= p->scalars.values[1];
}

static bool read_gelu(const amp_net *net, const amp_net_node *node, amp_product *p) {
    const char *const *how = amp_net_field(node, "approximate");
    (void)net;
    p->algorithm = *how && strcmp(*how, "tanh") == 0 ? "tanh" : "none";
    return true;
}

static bool take_activation(amp_net *net, int k) {
    static const struct {
        const char *op, *attr;
        bool (*read)(const amp_net *net, const amp_net_node *node, amp_product *p);
    } activations[] = {{"relu", "relu", NULL},
                       {"sigmoid", "sigmoid", NULL},
                       {"tanh", "tanh", NULL},
                       {"silu", "swish", NULL},
                       {"hardswish", "hardswish", NULL},
                       {"leaky_relu", "leaky_relu", read_leaky},
                       {"clamp", "hardtanh", read_bounds},
                       {"gelu", "gelu", read_gelu}};
    const amp_net_node *node = &net->nodes[k];
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        amp_product p;
        if (strcmp(node->op->name, activations[i].op) != 0) continue;
        if (!product_before(net, k, node->operands[0].value, &p) || !is_open(&p)) return false;
        p.attr = activations[i].attr;
        if (activations[i].read && !activations[i].read(net, node, &p)) return false;
        return amp_product_write(net, k, &p);
    }
    return false;
}

/* ---- The pass --------------------------------------------------------------------------------------------------- */

/* From the first call to the last: each finds what those before it have become. */
int amp_pass_epilogues(amp_net *net) {
    int places = 0;
    for (int k = 0; k < net->node_count; k++)
        places += take_batch_norm(net, k) || take_addition(net, k) || take_factor(net, k) || join_batch_norm(net, k) ||
                  give_relu(net, k) || take_activation(net, k);
    return places;
}
