/* amp_graph_load: a model of ONNX as a graph. */
#include <string.h>

#include "core/memory.h"
#include "core/struct_size.h"
#include "graph/graph.h"
#include "onnx/run.h"
#include "onnx/step.h"

typedef struct loaded {
    amp_onnx_model *model;
    amp_onnx_limits limits;
    bool exact;
    amp_graph_value *inputs, *outputs;
} loaded;

static void release(void *context) {
    loaded *l = context;
    amp_onnx_free(l->model);
    amp_free(l->inputs);
    amp_free(l->outputs);
    amp_free(l);
}

static amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    const loaded *l = context;
    const amp_status status = amp_onnx_run_model(l->model, &l->limits, inputs, outputs);
    if (status != AMP_OK) amp_fail_within(l->model->path);
    return status;
}

/* What the model declares of some of its values. */
static amp_graph_value *describe(const amp_onnx_graph *g, const int *which, int count) {
    amp_graph_value *values = amp_alloc_zeroed((size_t)count * sizeof *values);
    for (int i = 0; values && i < count; i++) {
        const amp_onnx_value *v = &g->values[which[i]];
        values[i] = (amp_graph_value){.name = v->name, .dtype = v->dtype, .rank = v->rank};
        memcpy(values[i].shape, v->shape, sizeof v->shape);
        memcpy(values[i].extent_names, v->extent_names, sizeof v->extent_names);
        for (int d = 0; d < AMP_MAX_RANK; d++) { /* some exporters call every open extent so */
            const char *name = values[i].extent_names[d];
            if (name && (strcmp(name, "?") == 0 || !*name)) values[i].extent_names[d] = NULL;
        }
    }
    return values;
}

/* ---- Portable files -------------------------------------------------------------------------------------------- */

static bool is_cast_to(const amp_onnx_node *node, amp_dtype dtype) {
    const char *name;
    if (strcmp(node->type, "Cast") != 0 || *node->domain) return false;
    for (int i = 0; i < node->attribute_count; i++) {
        const amp_onnx_attribute *a = &node->attributes[i];
        if (strcmp(a->name, "to") == 0 && a->kind == AMP_ONNX_INT)
            return amp_onnx_dtype_of(a->as.integer, &name) == dtype;
    }
    return false;
}

/* Values that are bf16 stand as f32 behind a Cast (write/portable.c): without it they are what they were, and so is
 * what is computed of them. */
static amp_status lift_disguise(amp_onnx_model *model) {
    amp_onnx_graph *g = model->graph;
    bool *rounded = amp_alloc_zeroed((size_t)g->value_count + 1);
    if (!rounded) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a graph", model->path);
    for (int i = 0; i < g->value_count; i++) {
        const amp_onnx_value *v = &g->values[i];
        rounded[i] = v->constant && v->constant->dtype == AMP_BF16;
    }
    for (int i = 0; i < g->input_count; i++) rounded[g->inputs[i]] = g->values[g->inputs[i]].dtype == AMP_BF16;
    for (int k = 0; k < g->node_count; k++) {
        amp_onnx_node *node = &g->nodes[k];
        if (node->input_count < 1 || node->output_count < 1 || node->inputs[0] < 0 || node->outputs[0] < 0) continue;
        if (is_cast_to(node, AMP_BF16)) rounded[node->outputs[0]] = true;
        if (rounded[node->inputs[0]] && is_cast_to(node, AMP_F32))
            node->op = amp_onnx_op_find("", "Identity", model->opset);
    }
    amp_free(rounded);
    return AMP_OK;
}

/* ---- Any file -------------------------------------------------------------------------------------------------- */

static amp_status resolve(amp_onnx_model *model) {
    AMP_TRY(amp_onnx_resolve(model, NULL, NULL));
    return model->is_portable ? lift_disguise(model) : AMP_OK;
}

static amp_graph *make_graph(loaded *l) {
    const amp_onnx_graph *g = l->model->graph;
    l->inputs = describe(g, g->inputs, g->input_count);
    l->outputs = describe(g, g->outputs, g->output_count);
    if (!l->inputs || !l->outputs) {
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a graph", l->model->path);
        return NULL;
    }
    return amp_graph_new(&(amp_graph_source){.name = l->model->path,
                                             .input_count = g->input_count,
                                             .output_count = g->output_count,
                                             .inputs = l->inputs,
                                             .outputs = l->outputs,
                                             .metadata_count = l->model->metadata_count,
                                             .metadata = l->model->metadata,
                                             .compute = compute,
                                             .exact = l->exact,
                                             .weights = &l->model->weights,
                                             .release = release,
                                             .context = l});
}

amp_graph *amp_graph_load(const char *path, const amp_graph_options *given) {
    amp_graph_options options = {0};
    if (amp_failed() || amp_graph_read_options("graph_load", &options, given) != AMP_OK) return NULL;
    if (!path) {
        (void)amp_fail(AMP_ERROR_INVALID, "graph_load: the path is NULL");
        return NULL;
    }
    loaded *l = amp_alloc_zeroed(sizeof *l);
    if (!l) {
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a graph", path);
        return NULL;
    }
    l->limits.most_rounds = options.most_rounds;
    l->exact = options.exact;
    l->model = amp_onnx_read(path, &(amp_onnx_read_options){.data_folder = options.data_folder});
    amp_graph *g = l->model && resolve(l->model) == AMP_OK ? make_graph(l) : NULL;
    if (!g) release(l);
    return g;
}
