/* amp run --check: every node that libamp cannot run, at once. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain/table_text.h"
#include "onnx/run.h"
#include "run.h"

typedef struct complaint {
    char *type, *sentence;
} complaint;

typedef struct complaints {
    complaint *items;
    int count, room;
    bool no_memory;
} complaints;

static void take(void *context, const amp_onnx_node *node, const char *sentence) {
    complaints *all = context;
    if (all->count == all->room) {
        const int room = all->room ? 2 * all->room : 16;
        complaint *items = realloc(all->items, (size_t)room * sizeof *items);
        if (!items) {
            all->no_memory = true;
            return;
        }
        all->items = items;
        all->room = room;
    }
    complaint *c = &all->items[all->count++];
    c->type = strdup(node->type);
    c->sentence = strdup(sentence);
    all->no_memory = all->no_memory || !c->type || !c->sentence;
    if (c->type) run_clean(c->type);
    if (c->sentence) run_clean(c->sentence);
}

static void free_complaints(complaints *all) {
    for (int i = 0; i < all->count; i++) {
        free(all->items[i].type);
        free(all->items[i].sentence);
    }
    free(all->items);
}

/* ---- For people: type by type, the first few of each -------------------------------------------------------------- */
enum { SHOWN = 3 };

static bool is_first_of_type(const complaints *all, int index) {
    for (int i = 0; i < index; i++) {
        if (strcmp(all->items[i].type, all->items[index].type) == 0) return false;
    }
    return true;
}

static int count_of(const complaints *all, const char *type) {
    int count = 0;
    for (int i = 0; i < all->count; i++) count += strcmp(all->items[i].type, type) == 0;
    return count;
}

static void print_type(const complaints *all, const char *type) {
    const int count = count_of(all, type);
    int shown = 0;
    printf("\n%s, %d node%s\n", type, count, count == 1 ? "" : "s");
    for (int i = 0; i < all->count && shown < SHOWN; i++) {
        if (strcmp(all->items[i].type, type) != 0) continue;
        amp_print_wrapped(stdout, all->items[i].sentence, run_width(), 2, 4, false);
        shown++;
    }
    if (shown < count) printf("  … and %d more; --json lists all\n", count - shown);
}

static void print_complaints(const amp_onnx_model *model, const complaints *all) {
    if (all->count == 0) {
        printf("%s: all %d nodes can run.\n", model->path, model->graph->node_count);
        return;
    }
    printf("%s: %d node%s cannot run (opset %" PRId64 ").\n", model->path, all->count, all->count == 1 ? "" : "s",
           model->opset);
    for (int i = 0; i < all->count; i++) {
        if (is_first_of_type(all, i)) print_type(all, all->items[i].type);
    }
}

static int print_json(const amp_onnx_model *model, const complaints *all) {
    json_t *list = json_array();
    for (int i = 0; i < all->count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "type", all->items[i].type, "reason", all->items[i].sentence));
    json_t *root = json_pack("{s:I, s:I, s:o}", "opset", (json_int_t)model->opset, "nodes",
                             (json_int_t)model->graph->node_count, "unsupported", list);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text) return run_no_memory();
    puts(text);
    free(text);
    return AMP_EXIT_OK;
}

static int report(const amp_onnx_model *model, const complaints *all, bool json) {
    if (all->no_memory) return run_no_memory();
    if (json) {
        const int code = print_json(model, all);
        if (code) return code;
    } else {
        print_complaints(model, all);
    }
    return all->count ? AMP_EXIT_FAILED : AMP_EXIT_OK;
}

int run_check(const run_options *o) {
    complaints all = {0};
    amp_onnx_model *model = amp_onnx_read(o->model, NULL);
    if (!model) return run_fail_amp("");
    const amp_status status = amp_onnx_resolve(model, take, &all);
    const int code = status != AMP_OK && all.count == 0 ? run_fail_amp("") : report(model, &all, o->json);
    amp_clear_error();
    free_complaints(&all);
    amp_onnx_free(model);
    return code;
}
