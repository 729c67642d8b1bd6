/* Reading a pattern and walking the net with it at the same time: patterns are short, and nets have few candidates. */
#include "graph/pattern.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where reading is; a pattern is the library's own text, and right. */
typedef struct reader {
    const char *at;
    amp_match *m;
} reader;

static bool match_value(reader *r, int value);

/* ---- Names and numbers ----------------------------------------------------------------------------------------- */

int amp_match_value(const amp_match *m, const char *name) {
    for (int i = 0; i < m->so_far.names; i++) {
        if (strcmp(m->names[i], name) == 0) return m->values[i];
    }
    return AMP_NET_NONE;
}

const amp_net_node *amp_match_node(const amp_match *m, const char *name) {
    const int value = amp_match_value(m, name);
    return value >= 0 && m->net->values[value].node >= 0 ? &m->net->nodes[m->net->values[value].node] : NULL;
}

bool amp_net_number(const amp_net *net, int value, double *number) {
    const amp_tensor *t = value >= 0 ? net->values[value].constant : NULL;
    if (!t || amp_tensor_numel(t) != 1 || amp_tensor_device(t) != AMP_DEVICE_CPU) return false;
    *number = amp_item(t);
    return true;
}

/* The same name is the same value. */
static bool bind(reader *r, const char *name, size_t length, int value) {
    amp_match *m = r->m;
    char text[sizeof m->names[0]] = {0};
    memcpy(text, name, length < sizeof text - 1 ? length : sizeof text - 1);
    const int known = amp_match_value(m, text);
    if (known != AMP_NET_NONE) return known == value;
    memcpy(m->names[m->so_far.names], text, sizeof text);
    m->values[m->so_far.names++] = value;
    return true;
}

static bool match_number(reader *r, int value) {
    char *end;
    const double wanted = strtod(r->at, &end);
    double number = NAN;
    r->at = end;
    return amp_net_number(r->m->net, value, &number) && fabs(number - wanted) <= 1e-5 * fabs(wanted);
}

/* ---- Calls ----------------------------------------------------------------------------------------------------- */

static void note_inner(amp_match *m, int value) {
    for (int i = 0; i < m->so_far.inner; i++) {
        if (m->inner[i] != value) continue;
        m->so_far.visits[i]++;
        return;
    }
    if (m->so_far.inner < AMP_PATTERN_NODES) {
        m->inner[m->so_far.inner] = value;
        m->so_far.visits[m->so_far.inner++] = 1;
    }
}

/* The tensors of a call in the order of its schema; -1: more than two, or a list. */
static int tensors_of(const amp_net_node *node, int values[8]) {
    if (node->operand_count > 8) return -1;
    for (int i = 0; i < node->operand_count; i++) values[i] = node->operands[i].value;
    return node->operand_count;
}

static bool match_arguments(reader *r, const int *values, int count) {
    const char *begin = r->at;
    for (int i = 0; i < count; i++) {
        if (!match_value(r, values[i])) return false;
        if (*r->at++ != (i + 1 < count ? ',' : ')')) return false;
        while (*r->at == ' ') r->at++;
    }
    return r->at > begin;
}

/* What a call computes with another factor than 1 is not what its name says. */
static bool is_plain(const amp_net_node *node) {
    const amp_scalar *alpha = amp_net_field(node, "alpha");
    const char *const *rounding = amp_net_field(node, "rounding_mode");
    if (rounding && *rounding) return false;
    return !alpha || (alpha->kind == AMP_SCALAR_INT ? alpha->i == 1 : alpha->re == 1.0);
}

static bool commutes(const char *name, size_t length) {
    return length == 3 && (memcmp(name, "add", 3) == 0 || memcmp(name, "mul", 3) == 0);
}

static bool match_operands(reader *r, const amp_net_node *node, bool in_either_order) {
    int values[8];
    const int count = tensors_of(node, values);
    if (count < 1) return false;
    if (count != 2 || !in_either_order) return match_arguments(r, values, count);
    const char *const arguments = r->at;
    const amp_match_progress before = r->m->so_far;
    if (match_arguments(r, values, count)) return true;
    r->m->so_far = before;
    r->at = arguments;
    return match_arguments(r, (int[]){values[1], values[0]}, 2);
}

static bool match_call(reader *r, const char *name, size_t length, int k) {
    const amp_net_node *node = &r->m->net->nodes[k];
    if (strncmp(node->op->name, name, length) != 0 || node->op->name[length] != '\0') return false;
    return match_operands(r, node, commutes(name, length)) && is_plain(node);
}

/* One expression, which `value` is to be. */
static bool match_value(reader *r, int value) {
    while (*r->at == ' ') r->at++;
    if (value < 0) return false;
    const bool constant = *r->at == '#';
    if (isdigit((unsigned char)*r->at) || *r->at == '-') return match_number(r, value);
    if (constant) r->at++;
    const char *name = r->at;
    while (islower((unsigned char)*r->at) || isdigit((unsigned char)*r->at) || *r->at == '_') r->at++;
    const size_t length = (size_t)(r->at - name);
    if (*r->at == '=') {
        r->at++;
        return match_value(r, value) && bind(r, name, length, value);
    }
    if (*r->at != '(') {
        if (constant && !r->m->net->values[value].constant) return false;
        char text[8] = {0};
        memcpy(text, name, length < 7 ? length : 7);
        for (int i = 0; i < r->m->so_far.inner; i++) {
            if (r->m->inner[i] == value && amp_match_value(r->m, text) == value) r->m->so_far.visits[i]++;
        }
        return bind(r, name, length, value);
    }
    const int k = r->m->net->values[value].node;
    if (k < 0) return false;
    r->at++;
    note_inner(r->m, value);
    return match_call(r, name, length, k);
}

/* Most nodes are of another op than a pattern begins with. */
static bool begins_with(const char *pattern, const char *op) {
    while (*op && *pattern == *op) {
        pattern++;
        op++;
    }
    return !*op && *pattern == '(';
}

bool amp_pattern_match(const char *pattern, const amp_net *net, int root, amp_match *m) {
    if (!begins_with(pattern, net->nodes[root].op->name)) return false;
    if (net->nodes[root].result_count < 1 || net->nodes[root].results[0] < 0) return false;
    m->net = net;
    m->root = root;
    m->so_far = (amp_match_progress){0};
    reader r = {pattern, m};
    if (!match_value(&r, net->nodes[root].results[0])) return false;
    for (int i = 1; i < m->so_far.inner; i++) { /* 0 is the result */
        if (net->values[m->inner[i]].uses != m->so_far.visits[i]) return false;
    }
    return true;
}
