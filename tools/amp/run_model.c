/* amp run: the model, and what its file tells beyond the graph's own answers. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "amp/tensor.h"
#include "onnx/model.h"
#include "run.h"

/* ---- What the file tells ----------------------------------------------------------------------------------------- */
static int64_t attribute(const amp_onnx_node *node, const char *name, int64_t otherwise) {
    for (int i = 0; i < node->attribute_count; i++) {
        const amp_onnx_attribute *a = &node->attributes[i];
        if (a->kind == AMP_ONNX_INT && strcmp(a->name, name) == 0) return a->as.integer;
    }
    return otherwise;
}

/* The extent of the table that a node picks from by its second input; 0: it is another node. */
static int64_t picked_extent(const amp_onnx_graph *g, const amp_onnx_node *node) {
    if (strcmp(node->type, "Gather") != 0 || node->input_count < 2 || node->inputs[0] < 0) return 0;
    const amp_tensor *table = g->values[node->inputs[0]].constant;
    const int rank = amp_tensor_rank(table);
    int64_t axis = attribute(node, "axis", 0);
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? amp_tensor_shape(table)[axis] : 0;
}

static bool passes_on(const amp_onnx_node *node) {
    static const char *const types[] = {"Cast", "Identity"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(node->type, types[i]) == 0) return node->input_count > 0 && node->output_count > 0;
    }
    return false;
}

/* The least extent of the tables that `value` picks from, also once cast. Nodes stand behind those that they read. */
static int64_t table_extent(const amp_onnx_graph *g, int value) {
    int64_t least = 0;
    for (int i = 0; i < g->node_count && value >= 0; i++) {
        const amp_onnx_node *node = &g->nodes[i];
        if (node->input_count > 1 && node->inputs[1] == value) {
            const int64_t extent = picked_extent(g, node);
            if (extent > 0 && (least == 0 || extent < least)) least = extent;
        } else if (passes_on(node) && node->inputs[0] == value) {
            const int64_t extent = least == 0 ? table_extent(g, node->outputs[0]) : 0;
            if (extent > 0) least = extent;
        }
    }
    return least;
}

static int64_t extent_of_input(const amp_onnx_graph *g, const amp_graph_value *input) {
    for (int i = 0; i < g->input_count; i++) {
        if (strcmp(g->values[g->inputs[i]].name, input->name) == 0) return table_extent(g, g->inputs[i]);
    }
    return 0;
}

int64_t run_node_count(const amp_onnx_graph *g) {
    int64_t count = g->node_count;
    for (int i = 0; i < g->node_count; i++) {
        const amp_onnx_node *node = &g->nodes[i];
        if (node->function) count += run_node_count(node->function);
        for (int a = 0; a < node->attribute_count; a++) {
            if (node->attributes[a].kind == AMP_ONNX_GRAPH) count += run_node_count(node->attributes[a].as.graph);
        }
    }
    return count;
}

static bool is_integer(amp_dtype dtype) {
    return !amp_dtype_is_floating(dtype) && !amp_dtype_is_complex(dtype) && dtype != AMP_BOOL;
}

/* Reads the file once more: cheap, as weights stay where they are. */
static int read_facts(run_model *m, const char *path) {
    amp_onnx_model *file = amp_onnx_read(path, NULL);
    struct stat s;
    if (!file) return run_fail_amp();
    m->nodes = run_node_count(file->graph);
    m->opset = file->opset;
    m->ir_version = file->ir_version;
    m->producer = strdup(file->producer ? file->producer : "");
    m->bytes = stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
    for (int i = 0; i < m->input_count; i++)
        m->extents[i] = is_integer(m->inputs[i].dtype) ? extent_of_input(file->graph, &m->inputs[i]) : 0;
    amp_onnx_free(file);
    return m->producer ? AMP_EXIT_OK : run_no_memory();
}

/* ---- The graph --------------------------------------------------------------------------------------------------- */
typedef amp_status describe_function(const amp_graph *graph, int index, amp_graph_value *value, size_t bytes);

static amp_graph_value *describe(const amp_graph *graph, int count, describe_function *ask) {
    amp_graph_value *values = calloc((size_t)count + 1, sizeof *values);                         /* none is not NULL */
    for (int i = 0; values && i < count; i++) (void)ask(graph, i, &values[i], sizeof values[i]); /* the error stands */
    return values;
}

int run_model_load(run_model *m, const char *path, bool exact) {
    *m = (run_model){0};
    const double start = run_figure_milliseconds();
    m->graph = amp_graph_load(path, &(amp_graph_options){.struct_size = sizeof(amp_graph_options), .exact = exact});
    m->load_ms = run_figure_milliseconds() - start;
    if (!m->graph) return run_fail_amp();
    m->input_count = amp_graph_input_count(m->graph);
    m->output_count = amp_graph_output_count(m->graph);
    m->inputs = describe(m->graph, m->input_count, amp_graph_get_input);
    m->outputs = describe(m->graph, m->output_count, amp_graph_get_output);
    m->extents = calloc((size_t)m->input_count + 1, sizeof *m->extents);
    if (!m->inputs || !m->outputs || !m->extents) return run_no_memory();
    if (amp_last_status() != AMP_OK) return run_fail_amp();
    return read_facts(m, path);
}

void run_model_free(run_model *m) {
    amp_graph_release(m->graph);
    free(m->inputs);
    free(m->outputs);
    free(m->extents);
    free(m->producer);
    *m = (run_model){0};
}
