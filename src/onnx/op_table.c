/* The rows of onnx_ops.def, and what a model's nodes are by them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/node_name.h"
#include "onnx/ops.h"
#include "onnx/run.h"

enum { LEAST_OPSET = 7, MOST_OPSET = 24 };

static const amp_onnx_op rows[] = {
#define ONNX_OP(type, since, function, to, least, most, attributes)                                                    \
    {#type, since, function, to, least, most, attributes},
#include "onnx/onnx_ops.def"
#undef ONNX_OP
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- Looking up ------------------------------------------------------------------------------------------------ */

/* By type, then opset, the newest first. */
static const amp_onnx_op *sorted[ROWS];
static pthread_once_t sorting = PTHREAD_ONCE_INIT;

static int compare(const void *a, const void *b) {
    const amp_onnx_op *const *x = a, *const *y = b;
    const int order = strcmp((*x)->type, (*y)->type);
    return order != 0 ? order : ((*x)->since < (*y)->since) - ((*x)->since > (*y)->since);
}

static void sort_rows(void) {
    for (int i = 0; i < ROWS; i++) sorted[i] = &rows[i];
    qsort(sorted, ROWS, sizeof sorted[0], compare);
}

/* The first row of a type, or NULL. */
static const amp_onnx_op *const *first_row(const char *type) {
    int begin = 0, end = ROWS;
    pthread_once(&sorting, sort_rows);
    while (begin < end) {
        const int middle = begin + (end - begin) / 2;
        if (strcmp(sorted[middle]->type, type) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin < ROWS && strcmp(sorted[begin]->type, type) == 0 ? &sorted[begin] : NULL;
}

const amp_onnx_op *amp_onnx_op_find(const char *domain, const char *type, int64_t opset) {
    const amp_onnx_op *const *row = *domain ? NULL : first_row(type);
    for (; row && row < sorted + ROWS && strcmp((*row)->type, type) == 0; row++) {
        if ((*row)->since <= opset || (*row)->since == LEAST_OPSET) return *row;
    }
    return NULL;
}

/* ---- A model's nodes ------------------------------------------------------------------------------------------- */

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length) {
        const bool begins = at == words || at[-1] == ' ';
        if (begins && (at[length] == ' ' || at[length] == '\0')) return true;
    }
    return false;
}

/* Why a node cannot be run, in `text`; false: it can. */
static bool is_refused(const amp_onnx_node *node, char *text, size_t room) {
    const amp_onnx_op *op = node->op;
    if (node->input_count > AMP_ONNX_MOST_PLACES || node->output_count > AMP_ONNX_MOST_PLACES) {
        snprintf(text, room, "%d inputs and %d outputs; at most %d of each", node->input_count, node->output_count,
                 AMP_ONNX_MOST_PLACES);
        return true;
    }
    if (node->function) return false;
    if (!op) {
        snprintf(text, room, *node->domain ? "the domain '%.80s' is not known" : "libamp has no such op%s",
                 node->domain);
        return true;
    }
    if (node->input_count < op->least || (op->most >= 0 && node->input_count > op->most)) {
        snprintf(text, room, "%d inputs; expected %d to %d", node->input_count, op->least, op->most);
        return true;
    }
    for (int i = 0; i < node->attribute_count; i++) {
        if (has_word(op->attributes, node->attributes[i].name)) continue;
        snprintf(text, room, "the attribute '%.80s' is not supported", node->attributes[i].name);
        return true;
    }
    return false;
}

typedef struct resolution {
    amp_onnx_complaint complain;
    void *context;
} resolution;

static amp_status complain(const resolution *r, const amp_onnx_node *node, const char *sentence) {
    if (!r->complain)
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: %s", amp_onnx_node_name(node, (char[AMP_ONNX_NAME_BYTES]){0}),
                        sentence);
    r->complain(r->context, node, sentence);
    return AMP_OK;
}

static amp_status resolve_graph(const resolution *r, amp_onnx_graph *g);

static amp_status resolve_node(const resolution *r, amp_onnx_node *node) {
    char text[200];
    if (!node->function) node->op = amp_onnx_op_find(node->domain, node->type, node->opset);
    if (is_refused(node, text, sizeof text)) return complain(r, node, text);
    if (node->function) return resolve_graph(r, node->function);
    for (int i = 0; i < node->attribute_count; i++) {
        if (node->attributes[i].kind == AMP_ONNX_GRAPH) AMP_TRY(resolve_graph(r, node->attributes[i].as.graph));
    }
    return AMP_OK;
}

static amp_status resolve_graph(const resolution *r, amp_onnx_graph *g) {
    for (int i = 0; i < g->node_count; i++) AMP_TRY(resolve_node(r, &g->nodes[i]));
    return AMP_OK;
}

amp_status amp_onnx_resolve(amp_onnx_model *model, amp_onnx_complaint complain, void *context) {
    const resolution r = {complain, context};
    if (model->opset < LEAST_OPSET || model->opset > MOST_OPSET)
        return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: opset %lld; libamp reads %d to %d", model->path,
                        (long long)model->opset, LEAST_OPSET, MOST_OPSET);
    return resolve_graph(&r, model->graph);
}
