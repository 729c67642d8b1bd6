/* Several calls that are one op: what exporters take apart. A row is a pattern (graph/pattern.h), what it becomes, and what
 * must hold beside it. Rows stand from the largest to the smallest. */
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

/* ---- The rows -------------------------------------------------------------------------------------------------- */

static const idiom idioms[] = {
    {"add(mul(div(d=sub(x, m=mean(x)), sqrt(add(v=mean(pow(d, 2)), #eps))), #w), #b)", put_layer_norm},
    {"add(mul(div(d=sub(x, m=mean(x)), sqrt(add(v=mean(mul(d, d)), #eps))), #w), #b)", put_layer_norm},
    {"mul(mul(x, add(erf(div(x, 1.414214)), 1)), 0.5)", put_gelu},
    {"mul(mul(x, add(erf(mul(x, 0.7071068)), 1)), 0.5)", put_gelu},
    {"mul(mul(x, 0.5), add(erf(div(x, 1.414214)), 1))", put_gelu},
    {"mul(mul(x, 0.5), add(erf(mul(x, 0.7071068)), 1))", put_gelu},
    {"mul(x, mul(add(erf(div(x, 1.414214)), 1), 0.5))", put_gelu},
    {"mul(x, mul(add(erf(mul(x, 0.7071068)), 1), 0.5))", put_gelu},
    {"mul(mul(x, 0.5), add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.7978846)), 1))", put_gelu_tanh},
    {"div(mul(x, c=clamp(add(x, 3))), 6)", put_hardswish_by_clamp},
    {"mul(x, div(c=clamp(add(x, 3)), 6))", put_hardswish_by_clamp},
    {"mul(x, mul(c=clamp(add(x, 3)), 0.1666667))", put_hardswish_by_clamp},
    {"mul(x, hardsigmoid(x))", put_hardswish},
    {"mul(x, sigmoid(x))", put_silu},
};

int amp_pass_idioms(amp_net *net) {
    int places = 0;
    for (int k = 0; k < net->node_count; k++) {
        for (size_t i = 0; i < sizeof idioms / sizeof idioms[0]; i++) {
            amp_match m;
            if (!amp_pattern_match(idioms[i].pattern, net, k, &m) || !idioms[i].put(net, &m)) continue;
            places++;
            break;
        }
    }
    return places;
}
