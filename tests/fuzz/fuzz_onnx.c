/* libFuzzer target: any bytes as an ONNX model. Whatever is read holds what model.h promises: numbers are values of
 * their graph, each node stands behind those it reads, every byte of every tensor is there. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "onnx/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition) {
    if (!condition) abort();
}

/* Every byte is read, also by an optimiser's view. */
static void read_all(const void *data, size_t bytes) {
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += ((const unsigned char *)data)[i];
    __asm__ volatile("" : : "r"(sum));
}

static void read_text(const char *text) {
    check(text != NULL);
    read_all(text, strlen(text));
}

static void read_tensor(const amp_tensor *tensor) {
    check(tensor != NULL && amp_tensor_is_live(tensor) && !tensor->scope);
    read_all(amp_data(tensor), (size_t)amp_tensor_numel(tensor) * amp_dtype_size(amp_tensor_dtype(tensor)));
}

static void read_graph(const amp_onnx_graph *graph, int depth);

static void read_attribute(const amp_onnx_graph *graph, const amp_onnx_attribute *a, int depth) {
    read_text(a->name);
    switch (a->kind) {
    case AMP_ONNX_FLOAT:
    case AMP_ONNX_INT: break;
    case AMP_ONNX_STRING: read_text(a->as.text); break;
    case AMP_ONNX_TENSOR: read_tensor(a->as.tensor); break;
    case AMP_ONNX_GRAPH:
        check(a->as.graph->outer == graph);
        read_graph(a->as.graph, depth + 1);
        break;
    case AMP_ONNX_FLOATS: read_all(a->as.numbers, (size_t)a->count * sizeof *a->as.numbers); break;
    case AMP_ONNX_INTS: read_all(a->as.integers, (size_t)a->count * sizeof *a->as.integers); break;
    case AMP_ONNX_STRINGS:
        for (int i = 0; i < a->count; i++) read_text(a->as.texts[i]);
        break;
    default: check(0);
    }
}

/* The value can be read by node number `node`; −1: by one that is not run. */
static void check_use(const amp_onnx_graph *graph, const unsigned char *made, int value, int node) {
    check(value >= 0 && value < graph->value_count && made[value] && graph->values[value].last_use >= node);
}

static void read_node(const amp_onnx_graph *graph, unsigned char *made, int number, int depth) {
    const amp_onnx_node *n = &graph->nodes[number];
    const int when = amp_onnx_node_is_needed(graph, n) ? number : -1;
    read_text(n->name);
    read_text(n->type);
    read_text(n->domain);
    check(!n->op);
    for (int i = 0; i < n->input_count; i++) {
        if (n->inputs[i] != -1) check_use(graph, made, n->inputs[i], when);
    }
    for (int i = 0; i < n->attribute_count; i++) {
        const amp_onnx_attribute *a = &n->attributes[i];
        read_attribute(graph, a, depth);
        if (a->kind != AMP_ONNX_GRAPH) continue;
        for (int k = 0; k < a->as.graph->capture_count; k++) check_use(graph, made, a->as.graph->captured[k], when);
    }
    if (n->function) {
        check(!n->function->outer && !n->function->capture_count && n->function->input_count == n->input_count &&
              n->function->output_count == n->output_count);
        read_graph(n->function, depth + 1);
    }
    for (int i = 0; i < n->output_count; i++) {
        if (n->outputs[i] == -1) continue;
        check(n->outputs[i] >= 0 && n->outputs[i] < graph->value_count && !made[n->outputs[i]]);
        made[n->outputs[i]] = 1;
    }
}

static void make(const amp_onnx_graph *graph, unsigned char *made, int value) {
    check(value >= 0 && value < graph->value_count && !made[value]);
    made[value] = 1;
}

static void read_graph(const amp_onnx_graph *graph, int depth) {
    unsigned char *made = calloc((size_t)graph->value_count + 1, 1);
    check(made != NULL && depth < 17 * 17);
    read_text(graph->name);
    for (int i = 0; i < graph->input_count; i++) make(graph, made, graph->inputs[i]);
    for (int i = 0; i < graph->capture_count; i++) make(graph, made, graph->captured_as[i]);
    for (int i = 0; i < graph->value_count; i++) {
        const amp_onnx_value *v = &graph->values[i];
        read_text(v->name);
        check(v->rank >= AMP_ONNX_ANY && v->rank <= AMP_MAX_RANK && (unsigned)v->dtype < AMP_DTYPE_COUNT);
        for (int d = 0; d < v->rank; d++) check(v->shape[d] >= AMP_ONNX_ANY);
        if (!v->constant) continue;
        make(graph, made, i);
        read_tensor(v->constant);
    }
    for (int i = 0; i < graph->node_count; i++) read_node(graph, made, i, depth);
    for (int i = 0; i < graph->output_count; i++) check_use(graph, made, graph->outputs[i], INT_MAX);
    free(made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    amp_onnx_model *model = amp_onnx_read_bytes(data, size, NULL);
    check(model || strlen(amp_last_error()) > 20);
    if (model) {
        read_text(model->path);
        read_text(model->producer);
        read_graph(model->graph, 0);
    }
    amp_onnx_free(model);
    amp_clear_error();
    check(amp_memory_statistics().live_tensors == 0);
    return 0;
}
