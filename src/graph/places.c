/* Where in the program or the model a node's calls were made, and whether rules keep one of them in f32; passes that
 * make one node of several join theirs. */
#include <string.h>

#include "graph/net.h"
#include "policy/rules.h"

enum { MOST_DEPTH = 16, MOST_BYTES = 4 << 10 };

/* Whether a line of the text is this one. */
static bool has_line(const char *text, const char *line, size_t length) {
    while (text && *text) {
        const size_t here = strcspn(text, "\n");
        if (here == length && memcmp(text, line, length) == 0) return true;
        text += here + (text[here] == '\n');
    }
    return false;
}

/* Lines that are being collected; what the pool gets of them is of the size that they have in the end. */
typedef struct lines {
    size_t length;
    char text[MOST_BYTES];
} lines;

/* One more at the end, where there is room. */
static void add_line(lines *l, const char *line, size_t length) {
    const size_t begin = l->length + (l->length > 0);
    if (length == 0 || begin + length >= MOST_BYTES || has_line(l->text, line, length)) return;
    if (l->length > 0) l->text[l->length] = '\n';
    memcpy(l->text + begin, line, length);
    l->length = begin + length;
    l->text[l->length] = '\0';
}

static void add_lines(lines *l, const char *more) {
    while (more && *more) {
        const size_t length = strcspn(more, "\n");
        add_line(l, more, length);
        more += length + (more[length] == '\n');
    }
}

/* Without memory they are not known. */
static void put(amp_net *net, amp_net_node *node, const lines *l) {
    char *text = l->length > 0 ? amp_pool_take(&net->pool, l->length + 1) : NULL;
    node->places = text ? memcpy(text, l->text, l->length + 1) : NULL;
}

void amp_net_note_place(amp_net *net, amp_net_node *node, const char *place) {
    const size_t length = strlen(place);
    node->places = length > 0 && length < MOST_BYTES ? amp_pool_take(&net->pool, length + 1) : NULL;
    if (node->places) memcpy(node->places, place, length + 1);
    for (char *c = node->places; c && *c; c++) *c = *c == '\n' ? ' ' : *c;
}

static bool is_operand(const amp_net_node *node, int value) {
    for (int i = 0; i < node->operand_count; i++) {
        if (node->operands[i].value == value) return true;
    }
    return false;
}

/* A node that becomes another one. */
typedef struct joining {
    const amp_net *net;
    int k;
    amp_net_node *made;
    lines *places;
} joining;

/* Whether the value stays outside of what is joined: an operand of `made`, or read by a call that was put in before it
 * to make one. */
static bool is_outside(const joining *j, int value) {
    enum { MOST_PUT_IN = 3 };
    if (value < 0 || j->net->values[value].constant || is_operand(j->made, value)) return true;
    for (int k = j->k - 1; k >= 0 && k >= j->k - MOST_PUT_IN; k--) {
        const amp_net_node *before = &j->net->nodes[k];
        if (before->op && before->result_count == 1 && is_operand(j->made, before->results[0]) &&
            is_operand(before, value))
            return true;
    }
    return false;
}

/* Of the calls behind `node`, the first ones first, then its own. */
static void join(const joining *j, const amp_net_node *node, int depth) {
    amp_net_node *made = j->made;
    for (int i = 0; i < node->operand_count && depth < MOST_DEPTH; i++) {
        const int value = node->operands[i].value;
        const int k = is_outside(j, value) ? AMP_NET_NONE : j->net->values[value].node;
        if (k >= 0 && j->net->nodes[k].op) join(j, &j->net->nodes[k], depth + 1);
    }
    add_lines(j->places, node->places);
    made->is_f32 = made->is_f32 || node->is_f32;
}

void amp_net_join(amp_net *net, int k, amp_net_node *made) {
    made->is_f32 = amp_rules_keep_f32(net->rules, made->op, NULL);
    lines l;
    l.length = 0;
    l.text[0] = '\0';
    join(&(joining){net, k, made, &l}, &net->nodes[k], 0);
    put(net, made, &l);
}
