/* Several calls that are one op: what exporters take apart. A row is a pattern (graph/pattern.h), what it becomes, and
 * what must hold beside it. Rows stand from the largest to the smallest. */
#include <string.h>

#include "amp/ops.h"
#include "graph/passes.h"
#include "graph/pattern.h"

typedef struct idiom {
    const char *pattern;
    bool (*put)(amp_net *net, const amp_match *m); /* false: something else does not hold, nothing has changed */
} idiom;

/* ---- What a row becomes ---------------------------------------------------------------------------------------- */

static bool put_unary(amp_net *net, const amp_match *m, const char *op) {
    const amp_net_value *x = &net->values[amp_match_value(m, "x")], *y = &net->values[net->nodes[m->root].results[0]];
    if (x->rank != y->rank || memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) != 0) return false;
    return amp_net_rewrite(net, m->root, op, (amp_net_argument[]){{"input", amp_match_value(m, "x")}}, 1) != NULL;
}

static bool put_gelu(amp_net *net, const amp_match *m) {
    return put_unary(net, m, "gelu");
}

static bool put_gelu_tanh(amp_net *net, const amp_match *m) {
    if (!put_unary(net, m, "gelu")) return false;
    *(const char **)amp_net_field(&net->nodes[m->root], "approximate") = "tanh";
    return true;
}

static bool put_silu(amp_net *net, const amp_match *m) {
    return put_unary(net, m, "silu");
}

static bool put_hardswish(amp_net *net, const amp_match *m) {
    return put_unary(net, m, "hardswish");
}

/* clamp(…, low, high), the bounds as numbers. */
static bool is_clamp(const amp_net_node *node, double low, double high) {
    const amp_scalar *min = node ? amp_net_field(node, "min") : NULL, *max = node ? amp_net_field(node, "max") : NULL;
    if (!min || !max || min->kind == AMP_SCALAR_NONE || max->kind == AMP_SCALAR_NONE) return false;
    const double a = min->kind == AMP_SCALAR_INT ? (double)min->i : min->re;
    const double b = max->kind == AMP_SCALAR_INT ? (double)max->i : max->re;
    return a == low && b == high;
}

static bool put_hardswish_by_clamp(amp_net *net, const amp_match *m) {
    return is_clamp(amp_match_node(m, "c"), 0, 6) && put_hardswish(net, m);
}

static int64_t elements_of(const amp_net_value *v) {
    int64_t n = 1;
    for (int d = 0; d < v->rank; d++) n *= v->shape[d];
    return n;
}

/* x + x·g as x·(g + 1), for gates that many elements share: one pass over x in the place of two. */
static bool put_raised_gate(amp_net *net, const amp_match *m) {
    enum { SHARED = 8 };
    const int x = amp_match_value(m, "x"), g = amp_match_value(m, "g"), made = net->nodes[m->root].results[0];
    const amp_net_value *gate = &net->values[g], *product = &net->values[amp_match_value(m, "p")];
    if (gate->constant || gate->dtype != AMP_F32 || product->dtype != net->values[made].dtype) return false;
    if (elements_of(&net->values[x]) != elements_of(&net->values[made])) return false;
    if (elements_of(gate) * SHARED > elements_of(&net->values[x])) return false;
    const int raised = amp_net_value_like(net, g);
    amp_net_node *node = raised < 0 ? NULL : amp_net_insert(net, m->root, "add.scalar", g, raised);
    if (!node) return false;
    *(amp_scalar *)amp_net_field(node, "other") = amp_float(1);
    const amp_net_argument tensors[] = {{"input", x}, {"other", raised}};
    return amp_net_rewrite(net, m->root + 1, "mul", tensors, 2) != NULL; /* else the sum is dead */
}

/* The mean over the last dimension alone, which is kept. */
static bool is_mean_of_rows(const amp_net *net, const amp_net_node *node) {
    const amp_dims *dim = node ? amp_net_field(node, "dim") : NULL;
    const bool *keepdim = node ? amp_net_field(node, "keepdim") : NULL;
    if (!dim || !keepdim || !*keepdim || dim->count != 1) return false;
    const int rank = net->values[amp_net_operand_of(node, "input")].rank;
    return dim->values[0] == -1 || dim->values[0] == rank - 1;
}

/* A vector as long as the last dimension of x. */
static bool is_row(const amp_net *net, int value, int x) {
    const amp_net_value *v = &net->values[value], *of = &net->values[x];
    return v->rank == 1 && v->shape[0] == of->shape[of->rank - 1];
}

static bool put_layer_norm(amp_net *net, const amp_match *m) {
    const int x = amp_match_value(m, "x"), w = amp_match_value(m, "w"), b = amp_match_value(m, "b");
    double eps = 0;
    if (!is_mean_of_rows(net, amp_match_node(m, "m")) || !is_mean_of_rows(net, amp_match_node(m, "v"))) return false;
    if (!amp_net_number(net, amp_match_value(m, "eps"), &eps) || !is_row(net, w, x) || !is_row(net, b, x)) return false;
    const int64_t last = net->values[x].shape[net->values[x].rank - 1];
    const amp_net_argument tensors[] = {{"input", x}, {"weight", w}, {"bias", b}};
    amp_net_node *node = amp_net_rewrite(net, m->root, "layer_norm", tensors, 3);
    if (!node) return false;
    *(amp_dims *)amp_net_field(node, "normalized_shape") = (amp_dims){.values = {last}, .count = 1, .set = AMP_PRESENT};
    *(amp_opt_float *)amp_net_field(node, "eps") = (amp_opt_float)AMP_SET(eps);
    return true;
}

/* softmax over the last dimension, in the type that it has. */
static bool is_softmax_of_rows(const amp_net *net, const amp_net_node *node) {
    const int64_t *dim = node ? amp_net_field(node, "dim") : NULL;
    const amp_dtype *dtype = node ? amp_net_field(node, "dtype") : NULL;
    if (!dim || (dtype && *dtype != AMP_DTYPE_NONE)) return false;
    return *dim == -1 || *dim == net->values[node->results[0]].rank - 1;
}

/* What scores are multiplied by: s or a·b times, or divided by d. */
static bool read_scale(const amp_net *net, const amp_match *m, double *scale) {
    static const char *const names[] = {"s", "a", "b", "d"};
    *scale = 1;
    for (int i = 0; i < 4; i++) {
        const int value = amp_match_value(m, names[i]);
        double number = 1;
        if (value >= 0 && !amp_net_number(net, value, &number)) return false;
        *scale = i < 3 ? *scale * number : *scale / number;
    }
    return true;
}

/* The keys come transposed, as the product wants them: transposed back they are what they were. */
static bool put_attention(amp_net *net, const amp_match *m) {
    enum { RANK = 4 };
    const int q = amp_match_value(m, "q"), t = amp_match_value(m, "t"), v = amp_match_value(m, "v");
    const int mask = amp_match_value(m, "mask");
    double scale;
    if (!is_softmax_of_rows(net, amp_match_node(m, "p")) || !read_scale(net, m, &scale)) return false;
    if (net->values[q].rank != RANK || net->values[t].rank != RANK || net->values[v].rank != RANK) return false;
    if (mask >= 0 && (net->values[mask].rank > RANK || net->values[mask].dtype != net->values[q].dtype)) return false;
    const int k = amp_net_value_like(net, t);
    if (k < 0) return false;
    net->values[k].shape[2] = net->values[t].shape[3];
    net->values[k].shape[3] = net->values[t].shape[2];
    amp_net_node *transpose = amp_net_insert(net, m->root, "transpose", t, k);
    if (!transpose) return false;
    *(int64_t *)amp_net_field(transpose, "dim0") = -2;
    *(int64_t *)amp_net_field(transpose, "dim1") = -1;
    const amp_net_argument tensors[] = {{"query", q}, {"key", k}, {"value", v}, {"attn_mask", mask}};
    amp_net_node *node = amp_net_rewrite(net, m->root + 1, "scaled_dot_product_attention", tensors, 4);
    if (node) *(amp_opt_float *)amp_net_field(node, "scale") = (amp_opt_float)AMP_SET(scale);
    return node != NULL; /* else the transpose is dead */
}

/* ---- The rows -------------------------------------------------------------------------------------------------- */

static const idiom idioms[] = {
    {"add(mul(div(d=sub(x, m=mean(x)), sqrt(add(v=mean(pow(d, 2)), #eps))), #w), #b)", put_layer_norm},
    {"add(mul(div(d=sub(x, m=mean(x)), sqrt(add(v=mean(mul(d, d)), #eps))), #w), #b)", put_layer_norm},
    {"matmul(p=softmax(add(div(matmul(q, t), #d), mask)), v)", put_attention},
    {"matmul(p=softmax(add(mul(matmul(q, t), #s), mask)), v)", put_attention},
    {"matmul(p=softmax(add(matmul(mul(q, #a), mul(t, #b)), mask)), v)", put_attention},
    {"matmul(p=softmax(matmul(mul(q, #a), mul(t, #b))), v)", put_attention},
    {"matmul(p=softmax(div(matmul(q, t), #d)), v)", put_attention},
    {"matmul(p=softmax(mul(matmul(q, t), #s)), v)", put_attention},
    {"matmul(p=softmax(add(matmul(q, t), mask)), v)", put_attention},
    {"matmul(p=softmax(matmul(q, t)), v)", put_attention},
    {"mul(mul(x, add(erf(div(x, 1.414214)), 1)), 0.5)", put_gelu},
    {"mul(mul(x, add(erf(mul(x, 0.7071068)), 1)), 0.5)", put_gelu},
    {"mul(mul(x, 0.5), add(erf(div(x, 1.414214)), 1))", put_gelu},
    {"mul(mul(x, 0.5), add(erf(mul(x, 0.7071068)), 1))", put_gelu},
    {"mul(x, mul(add(erf(div(x, 1.414214)), 1), 0.5))", put_gelu},
    {"mul(x, mul(add(erf(mul(x, 0.7071068)), 1), 0.5))", put_gelu},
    {"mul(mul(x, 0.5), add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.7978846)), 1))", put_gelu_tanh},
    {"div(mul(x, clamp(add(x, 3), 0, 6)), 6)", put_hardswish},
    {"mul(x, div(clamp(add(x, 3), 0, 6), 6))", put_hardswish},
    {"mul(x, mul(clamp(add(x, 3), 0, 6), 0.1666667))", put_hardswish},
    {"div(mul(x, c=clamp(add(x, 3))), 6)", put_hardswish_by_clamp},
    {"mul(x, div(c=clamp(add(x, 3)), 6))", put_hardswish_by_clamp},
    {"mul(x, mul(c=clamp(add(x, 3)), 0.1666667))", put_hardswish_by_clamp},
    {"mul(x, hardsigmoid(x))", put_hardswish},
    {"mul(x, sigmoid(x))", put_silu},
    {"add(x, p=mul(x, g))", put_raised_gate},
};

/* Node k as one of the idioms. */
static bool find_idiom(amp_net *net, int k) {
    for (size_t i = 0; i < sizeof idioms / sizeof idioms[0]; i++) {
        amp_match m;
        if (amp_pattern_match(idioms[i].pattern, net, k, &m) && idioms[i].put(net, &m)) return true;
    }
    return false;
}

int amp_pass_idioms(amp_net *net) {
    int places = 0;
    for (int k = 0; k < net->node_count; k++) {
        const int before = net->node_count;
        if (!find_idiom(net, k)) continue;
        places++;
        const int more = net->node_count;
        if (more == before) continue;
        amp_net_count(
            net); /* a call was put in front, and the numbers of the others have moved: at most by those that are gone */
        k = k - (more - net->node_count) - 1;
        if (k < -1) k = -1;
    }
    return places;
}
