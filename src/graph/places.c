/* Where in the program or the model a node's calls were made, and whether rules keep one of them in f32; passes that
 * make one node of several join theirs. */
#include <string.h>

#include "core/memory.h"
#include "graph/net.h"
#include "policy/rules.h"

enum { MOST_DEPTH = 16, MOST_BYTES = 1 << 16 };

/* Whether a line of the text is this one. */
static bool has_line(const char *text, const char *line, size_t length) {
    while (text && *text) {
        const size_t here = strcspn(text, "\n");
        if (here == length && memcmp(text, line, length) == 0) return true;
        text += here + (text[here] == '\n');
    }
    return false;
}

/* One more line at the end; without memory, or where there are too many already, it stays as it is. */
static void add_line(char **text, const char *line, size_t length) {
    const size_t before = *text ? strlen(*text) : 0;
    if (length == 0 || before + length > MOST_BYTES || has_line(*text, line, length)) return;
    char *more = amp_alloc(before + length + 2), *end = more;
    if (!more) return;
    if (before > 0) {
        end = (char *)memcpy(end, *text, before) + before;
        *end++ = '\n';
    }
    memcpy(end, line, length);
    end[length] = '\0';
    amp_free(*text);
    *text = more;
}

static void add_lines(char **text, const char *lines) {
    while (lines && *lines) {
        const size_t length = strcspn(lines, "\n");
        add_line(text, lines, length);
        lines += length + (lines[length] == '\n');
    }
}

void amp_net_note_place(amp_net_node *node, const char *place) {
    add_line(&node->places, place, strlen(place));
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
    add_lines(&made->places, node->places);
    made->is_f32 = made->is_f32 || node->is_f32;
}

void amp_net_join(const amp_net *net, int k, amp_net_node *made) {
    made->is_f32 = amp_rules_keep_f32(net->rules, made->op, NULL);
    join(&(joining){net, k, made}, &net->nodes[k], 0);
}
