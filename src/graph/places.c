/* Where in the program or the model a node's calls were made, and whether rules keep one of them in f32; passes that
 * make one node of several join theirs. */
#include <string.h>

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

/* Room for a text of so many bytes, which begins as the one before; once there is one it doubles, for the pool keeps
 * what is left behind. */
static bool make_room(amp_net *net, amp_net_node *node, size_t bytes) {
    if (bytes <= node->places_room) return true;
    const size_t room = node->places ? 2 * bytes : bytes;
    char *more = amp_pool_take(&net->pool, room);
    if (!more) return false;
    strcpy(more, node->places ? node->places : "");
    node->places = more;
    node->places_room = room;
    return true;
}

/* One more line at the end; without memory, or where there are too many already, they stay as they are. */
static void add_line(amp_net *net, amp_net_node *node, const char *line, size_t length) {
    const size_t before = node->places ? strlen(node->places) : 0;
    if (length == 0 || before + length > MOST_BYTES || has_line(node->places, line, length)) return;
    if (!make_room(net, node, before + length + 2)) return;
    char *end = node->places + before;
    if (before > 0) *end++ = '\n';
    memcpy(end, line, length);
    end[length] = '\0';
}

static void add_lines(amp_net *net, amp_net_node *node, const char *lines) {
    while (lines && *lines) {
        const size_t length = strcspn(lines, "\n");
        add_line(net, node, lines, length);
        lines += length + (lines[length] == '\n');
    }
}

void amp_net_note_place(amp_net *net, amp_net_node *node, const char *place) {
    add_line(net, node, place, strlen(place));
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
    amp_net *net;
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
    add_lines(j->net, made, node->places);
    made->is_f32 = made->is_f32 || node->is_f32;
}

void amp_net_join(amp_net *net, int k, amp_net_node *made) {
    made->is_f32 = amp_rules_keep_f32(net->rules, made->op, NULL);
    join(&(joining){net, k, made}, &net->nodes[k], 0);
}
