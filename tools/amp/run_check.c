/* amp run --check: every node that libamp cannot run, at once. */
#define _GNU_SOURCE /* asprintf */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/run.h"
#include "run.h"

typedef struct complaint {
    char *node, *type, *sentence;
} complaint;

typedef struct complaints {
    complaint *items;
    int count, room;
    bool no_memory;
} complaints;

static char *copy(const char *text) {
    char *its = strdup(text ? text : "");
    if (its) run_clean(its);
    return its;
}

/* "Conv", "com.microsoft.Gelu" */
static char *type_of(const amp_onnx_node *node) {
    char *type = NULL;
    if (!*node->domain) return copy(node->type);
    if (asprintf(&type, "%s.%s", node->domain, node->type) < 0) return NULL;
    run_clean(type);
    return type;
}

static bool make_room(complaints *all) {
    if (all->count < all->room) return true;
    const int room = all->room ? 2 * all->room : 16;
    complaint *items = realloc(all->items, (size_t)room * sizeof *items);
    if (!items) return false;
    all->items = items;
    all->room = room;
    return true;
}

static void take(void *context, const amp_onnx_node *node, const char *sentence) {
    complaints *all = context;
    if (!make_room(all)) {
        all->no_memory = true;
        return;
    }
    complaint *c = &all->items[all->count++];
    *c = (complaint){.node = copy(node->name), .type = type_of(node), .sentence = copy(sentence)};
    all->no_memory = all->no_memory || !c->node || !c->type || !c->sentence;
}

static void free_complaints(complaints *all) {
    for (int i = 0; i < all->count; i++) {
        free(all->items[i].node);
        free(all->items[i].type);
        free(all->items[i].sentence);
    }
    free(all->items);
}

/* ---- For people: a line for all nodes of a type with the same reason --------------------------------------------- */
static int order(const void *a, const void *b) {
    const complaint *x = a, *y = b;
    const int types = strcmp(x->type, y->type);
    return types ? types : strcmp(x->sentence, y->sentence);
}

static int print_groups(const complaints *all) {
    static const bool right[] = {false, true, false};
    run_table t = {.columns = 3, .right = right};
    qsort(all->items, (size_t)all->count, sizeof *all->items, order);
    for (int i = 0, first = 0; i < all->count; i++) {
        if (i + 1 < all->count && order(&all->items[i], &all->items[i + 1]) == 0) continue;
        run_cell(&t, "%s", all->items[i].type);
        run_cell(&t, "%d", i + 1 - first);
        run_cell(&t, "%s", all->items[i].sentence);
        first = i + 1;
    }
    return run_table_end(&t);
}

static int print_complaints(const amp_onnx_model *model, const complaints *all) {
    const int64_t nodes = run_node_count(model->graph);
    printf("%s, opset %" PRId64 ": ", model->path, model->opset);
    if (all->count == 0) {
        printf("all %" PRId64 " nodes can run\n", nodes);
        return AMP_EXIT_OK;
    }
    printf("%d of %" PRId64 " nodes cannot run\n\n", all->count, nodes);
    return print_groups(all);
}

static int print_json(const amp_onnx_model *model, const complaints *all) {
    json_t *list = json_array();
    for (int i = 0; i < all->count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "node", all->items[i].node, "type", all->items[i].type,
                                              "reason", all->items[i].sentence));
    json_t *root = json_pack("{s:I, s:I, s:o}", "opset", (json_int_t)model->opset, "nodes",
                             (json_int_t)run_node_count(model->graph), "unsupported", list);
    return run_print_root(root);
}

static int report(const amp_onnx_model *model, const complaints *all, bool json) {
    if (all->no_memory) return run_no_memory();
    const int code = json ? print_json(model, all) : print_complaints(model, all);
    if (code) return code;
    return all->count ? AMP_EXIT_FAILED : AMP_EXIT_OK;
}

int run_check(const run_options *o) {
    complaints all = {0};
    amp_onnx_model *model = amp_onnx_read(o->model, NULL);
    if (!model) return run_fail_amp();
    const amp_status status = amp_onnx_resolve(model, take, &all);
    const int code = status != AMP_OK && all.count == 0 ? run_fail_amp() : report(model, &all, o->json);
    amp_clear_error();
    free_complaints(&all);
    amp_onnx_free(model);
    return code;
}
