/* amp run: the report for programs. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/system.h"
#include "amp/tensor.h"
#include "run_replicas.h"

/* JSON has no NaN and no infinity. */
static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* What is no UTF-8 in a file's texts has question marks. */
static json_t *text(const char *value) {
    if (!value) return json_null();
    char *copy = strdup(value);
    if (!copy) return NULL;
    run_clean(copy);
    json_t *string = json_string(copy);
    free(copy);
    return string;
}

static json_t *extents(int rank, const int64_t *shape, const char *const *names) {
    if (rank == AMP_GRAPH_OPEN) return json_null();
    json_t *list = json_array();
    for (int d = 0; d < rank; d++) {
        const bool open = shape[d] == AMP_GRAPH_OPEN;
        json_array_append_new(list, open ? text(names ? names[d] : NULL) : json_integer((json_int_t)shape[d]));
    }
    return list;
}

static json_t *value_json(const amp_graph_value *value) {
    json_t *object = json_object();
    json_object_set_new(object, "name", text(value->name));
    json_object_set_new(object, "dtype", text(value->dtype == AMP_DTYPE_NONE ? NULL : amp_dtype_name(value->dtype)));
    json_object_set_new(object, "declared", extents(value->rank, value->shape, value->extent_names));
    return object;
}

static json_t *input_json(const run_input *input) {
    static const char *const sources[] = {[RUN_RANDOM] = "random", [RUN_NPY] = "npy", [RUN_IMAGE] = "image"};
    json_t *object = value_json(input->wanted), *assumed = json_array();
    for (int d = 0; d < input->rank; d++) {
        if (input->assumed[d]) json_array_append_new(assumed, json_integer(d));
    }
    json_object_set_new(object, "shape", extents(input->rank, input->shape, NULL));
    json_object_set_new(object, "assumed", assumed);
    json_object_set_new(object, "source", text(sources[input->source]));
    json_object_set_new(object, "file", text(input->file));
    return object;
}

static json_t *comparison_json(const run_comparison *c, int64_t differing) {
    if (!c->same_shape) return json_null();
    json_t *object = json_object();
    json_object_set_new(object, "cosine", number(c->cosine));
    json_object_set_new(object, "largest_error", number(c->largest));
    json_object_set_new(object, "largest_value", number(c->magnitude));
    json_object_set_new(object, "different", json_integer((json_int_t)differing));
    return object;
}

enum { FIRST_VALUES = 16 };

static json_t *result_json(const run_report *r, run_kind kind, int index) {
    const amp_tensor *t = r->results->outputs[kind][index];
    double values[FIRST_VALUES];
    const int count = run_first_values(t, values, FIRST_VALUES);
    json_t *object = json_object(), *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, number(values[i]));
    json_object_set_new(object, "shape", extents(amp_tensor_rank(t), amp_tensor_shape(t), NULL));
    json_object_set_new(object, "dtype", text(amp_dtype_name(amp_tensor_dtype(t))));
    json_object_set_new(object, "first_values", list);
    if (r->files[kind]) json_object_set_new(object, "file", text(r->files[kind][index]));
    return object;
}

static const char *const names[RUN_KINDS] = {"f32", "bf16"};

static json_t *output_json(const run_report *r, int index) {
    json_t *object = value_json(&r->model->outputs[index]);
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        if (r->results->outputs[kind]) json_object_set_new(object, names[kind], result_json(r, (run_kind)kind, index));
    }
    if (r->comparisons)
        json_object_set_new(object, "bf16_against_f32",
                            comparison_json(&r->comparisons[index], r->comparisons[index].different));
    return object;
}

json_t *run_json_times(const run_times *t, const run_inputs *in) {
    json_t *object = json_object(), *list = json_array();
    const double median = run_quantile(t, 0.5);
    const run_unit unit = run_items(in);
    for (int i = 0; i < t->count; i++) json_array_append_new(list, number(t->ms[i]));
    json_object_set_new(object, "load_ms", number(t->load));
    json_object_set_new(object, "prepare_ms", number(t->prepare));
    json_object_set_new(object, "first_ms", number(t->first));
    json_object_set_new(object, "peak_bytes", number(t->peak_bytes));
    json_object_set_new(object, "median_ms", number(median));
    json_object_set_new(object, "p10_ms", number(run_quantile(t, 0.1)));
    json_object_set_new(object, "p90_ms", number(run_quantile(t, 0.9)));
    json_object_set_new(object, "items_per_second", number(1e3 * (double)unit.count / median));
    json_object_set_new(object, "items", json_string(unit.name));
    json_object_set_new(object, "sorted_ms", list);
    return object;
}

static json_t *model_json(const run_report *r) {
    const run_model *m = r->model;
    json_t *object = json_object();
    json_object_set_new(object, "path", text(r->options->model));
    json_object_set_new(object, "bytes", json_integer((json_int_t)m->bytes));
    json_object_set_new(object, "opset", json_integer((json_int_t)m->opset));
    json_object_set_new(object, "ir_version", json_integer((json_int_t)m->ir_version));
    json_object_set_new(object, "nodes", json_integer((json_int_t)m->nodes));
    json_object_set_new(object, "producer", text(m->producer));
    return object;
}

static json_t *machine_json(const run_options *o) {
    return json_pack("{s:s, s:s, s:s, s:i, s:s}", "libamp", amp_version_string(), "cpu", amp_cpu()->model, "isa",
                     amp_isa_name(amp_isa_best()), "threads", amp_get_num_threads(), "device",
                     amp_device_name(o->device));
}

json_t *run_json_begin(const run_report *r) {
    json_t *root = json_object(), *inputs = json_array();
    for (int i = 0; i < r->model->input_count; i++) json_array_append_new(inputs, input_json(&r->inputs->items[i]));
    json_object_set_new(root, "model", model_json(r));
    json_object_set_new(root, "policy", text(r->options->policy));
    if (r->options->packs) {
        json_object_set_new(root, "packs", text(r->options->packs));
        json_object_set_new(root, "packs_written", json_boolean(r->options->packs_written));
    }
    json_object_set_new(root, "seed", json_integer((json_int_t)r->options->seed));
    json_object_set_new(root, "inputs", inputs);
    return root;
}

json_t *run_json_nodes(const run_nodes *nodes) {
    json_t *used = json_array();
    for (int i = 0; i < nodes->used; i++) {
        json_t *cpus = json_array();
        for (int cpu = 0; cpu < RUN_CPUS; cpu++) {
            if (run_cpus_has(&nodes->items[i].cpus, cpu)) json_array_append_new(cpus, json_integer(cpu));
        }
        json_array_append_new(used, json_pack("{s:i, s:o}", "node", nodes->items[i].number, "cpus", cpus));
    }
    return json_pack("{s:s, s:i, s:o}", "mode", nodes->numa == RUN_LOCAL ? "local" : "replicate", "nodes", nodes->count,
                     "used", used);
}

/* With what each of them took, at the same time. */
static json_t *nodes_json(const run_report *r) {
    json_t *root = run_json_nodes(r->options->nodes), *used = json_object_get(root, "used");
    for (int i = 0; i < r->options->nodes->used; i++) {
        for (int kind = 0; kind < RUN_KINDS; kind++) {
            const run_times *t = i ? &r->replicas->items[i - 1].times[kind] : &r->results->times[kind];
            if (t->count)
                json_object_set_new(json_array_get(used, (size_t)i), names[kind],
                                    json_pack("{s:i, s:f}", "runs", t->count, "median_ms", run_quantile(t, 0.5)));
        }
    }
    return root;
}

static json_t *report_json(const run_report *r) {
    json_t *root = run_json_begin(r), *outputs = json_array(), *times = json_object();
    for (int i = 0; i < r->model->output_count; i++) json_array_append_new(outputs, output_json(r, i));
    for (int kind = 0; kind < RUN_KINDS; kind++) {
        const run_times *its = &r->results->times[kind];
        if (its->count) json_object_set_new(times, names[kind], run_json_times(its, r->inputs));
    }
    json_object_set_new(root, "machine", machine_json(r->options));
    if (r->options->numa) json_object_set_new(root, "numa", nodes_json(r));
    json_object_set_new(root, "outputs", outputs);
    json_object_set_new(root, "times", times);
    return root;
}

int run_print_root(json_t *root) {
    char *printed = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!printed) return run_no_memory();
    puts(printed);
    free(printed);
    return AMP_EXIT_OK;
}

int run_print_json(const run_report *r) {
    return run_print_root(report_json(r));
}
