/* Graphs from outside: what they are given is checked against what they declare, then the source computes. */
#include "graph/graph.h"

#include <stdio.h>
#include <string.h>

#include "amp/grad.h"
#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "core/struct_size.h"
#include "core/tensor_impl.h"
#include "core/thread.h"
#include "graph/nets.h"

struct amp_graph {
    amp_graph_source source;
    amp_nets *nets;
};

amp_status amp_graph_read_options(const char *what, amp_graph_options *options, const amp_graph_options *given) {
    if (!given) return AMP_OK;
    AMP_TRY(amp_struct_read(what, "amp_graph_options", options, sizeof *options, sizeof given->struct_size, given));
    return amp_struct_reserved(what, options->reserved, sizeof options->reserved);
}

amp_graph *amp_graph_new(const amp_graph_source *source) {
    amp_graph *g = amp_alloc(sizeof *g);
    amp_nets *nets = amp_nets_new();
    if (!g || !nets) {
        amp_free(g);
        amp_nets_free(nets);
        (void)amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a graph", source->name);
        return NULL;
    }
    *g = (amp_graph){.source = *source, .nets = nets};
    return g;
}

void amp_graph_release(amp_graph *g) {
    if (!g) return;
    amp_nets_free(g->nets);
    g->source.release(g->source.context);
    amp_free(g);
}

/* ---- What it looks like ---------------------------------------------------------------------------------------- */

int amp_graph_input_count(const amp_graph *g) {
    return g ? g->source.input_count : 0;
}

int amp_graph_output_count(const amp_graph *g) {
    return g ? g->source.output_count : 0;
}

static amp_status describe(const char *what, const amp_graph_value *values, int count, int index,
                           amp_graph_value *value, size_t bytes) {
    if (amp_failed()) return amp_pending_error();
    if (index >= 0 && index < count) return amp_struct_write(what, value, bytes, &values[index], sizeof *value);
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no number %d; the graph has %d", what, index, count);
}

amp_status amp_graph_get_input(const amp_graph *g, int index, amp_graph_value *value, size_t bytes) {
    return describe("graph_get_input", g ? g->source.inputs : NULL, amp_graph_input_count(g), index, value, bytes);
}

amp_status amp_graph_get_output(const amp_graph *g, int index, amp_graph_value *value, size_t bytes) {
    return describe("graph_get_output", g ? g->source.outputs : NULL, amp_graph_output_count(g), index, value, bytes);
}

const char *amp_graph_metadata(const amp_graph *g, const char *key) {
    for (int i = 0; g && key && i < g->source.metadata_count; i++) {
        if (strcmp(g->source.metadata[i].key, key) == 0) return g->source.metadata[i].value;
    }
    return NULL;
}

/* ---- Checks ---------------------------------------------------------------------------------------------------- */

/* "[batch, 3, ?, 224] f32" */
static const char *declared(const amp_graph_value *v, char *text, size_t room) {
    size_t at = (size_t)snprintf(text, room, v->rank < 0 ? "any shape" : "[");
    for (int d = 0; d < v->rank && at < room; d++) {
        const char *between = d > 0 ? ", " : "";
        at += v->shape[d] >= 0 ? (size_t)snprintf(text + at, room - at, "%s%lld", between, (long long)v->shape[d])
                               : (size_t)snprintf(text + at, room - at, "%s%.40s", between,
                                                  v->extent_names[d] ? v->extent_names[d] : "?");
    }
    if (at < room) {
        snprintf(text + at, room - at, "%s%s%s", v->rank < 0 ? "" : "]", v->dtype == AMP_DTYPE_NONE ? "" : " ",
                 v->dtype == AMP_DTYPE_NONE ? "" : amp_dtype_name(v->dtype));
    }
    return text;
}

static bool fits(const amp_graph_value *v, const amp_tensor *t) {
    if (v->dtype != AMP_DTYPE_NONE && v->dtype != t->dtype) return false;
    if (v->rank >= 0 && v->rank != t->rank) return false;
    for (int d = 0; d < v->rank; d++) {
        if (v->shape[d] >= 0 && v->shape[d] != t->shape[d]) return false;
    }
    return true;
}

static amp_status check_input(const amp_graph_source *s, const amp_graph_value *v, const amp_tensor *t,
                              amp_device device) {
    char text[256];
    if (!t)
        return amp_fail(AMP_ERROR_INVALID, "%s: the input '%s' is NULL; expected %s", s->name, v->name,
                        declared(v, text, sizeof text));
    if (!amp_tensor_is_live(t)) return amp_fail(AMP_ERROR_INVALID, "%s: the input '%s' was released", s->name, v->name);
    if (!fits(v, t))
        return amp_fail(AMP_ERROR_INVALID, "%s: the input '%s' is %s; expected %s", s->name, v->name, amp_describe(t),
                        declared(v, text, sizeof text));
    if (amp_tensor_device(t) != device)
        return amp_fail(AMP_ERROR_DEVICE, "%s: the input '%s' is on %s, the first one on %s; all must be on one device",
                        s->name, v->name, amp_device_name(amp_tensor_device(t)), amp_device_name(device));
    return AMP_OK;
}

/* What extent (input, dim) is called, if it is open; NULL: nothing. */
static const char *name_of(const amp_graph_source *s, int input, int dim) {
    return s->inputs[input].shape[dim] < 0 ? s->inputs[input].extent_names[dim] : NULL;
}

/* Extents of one name are equal: each with the first that has it. */
static amp_status check_extent(const amp_graph_source *s, amp_tensor *const *inputs, int input, int dim) {
    const char *name = name_of(s, input, dim);
    for (int i = 0; name && i <= input; i++) {
        for (int d = 0; d < s->inputs[i].rank && (i < input || d < dim); d++) {
            const char *other = name_of(s, i, d);
            if (!other || strcmp(other, name) != 0) continue;
            if (inputs[i]->shape[d] == inputs[input]->shape[dim]) return AMP_OK;
            return amp_fail(AMP_ERROR_INVALID, "%s: the extent '%s' is %lld of the input '%s' and %lld of '%s'",
                            s->name, name, (long long)inputs[i]->shape[d], s->inputs[i].name,
                            (long long)inputs[input]->shape[dim], s->inputs[input].name);
        }
    }
    return AMP_OK;
}

static amp_status check_names(const amp_graph_source *s, amp_tensor *const *inputs, int input) {
    for (int d = 0; d < s->inputs[input].rank; d++) AMP_TRY(check_extent(s, inputs, input, d));
    return AMP_OK;
}

static amp_status check_inputs(const amp_graph_source *s, amp_tensor *const *inputs, int count,
                               amp_tensor *const *outputs, int wanted) {
    if (count != s->input_count || (count > 0 && !inputs))
        return amp_fail(AMP_ERROR_INVALID, "%s: %d inputs were given; the graph has %d", s->name, inputs ? count : 0,
                        s->input_count);
    if (wanted < 0 || wanted > s->output_count || (wanted > 0 && !outputs))
        return amp_fail(AMP_ERROR_INVALID, "%s: %d outputs were asked for; the graph has %d", s->name,
                        outputs ? wanted : 0, s->output_count);
    for (int i = 0; i < count; i++)
        AMP_TRY(check_input(s, &s->inputs[i], inputs[i], inputs[0] ? amp_tensor_device(inputs[0]) : AMP_DEVICE_CPU));
    for (int i = 0; i < count; i++) AMP_TRY(check_names(s, inputs, i));
    return AMP_OK;
}

const amp_graph_source *amp_graph_source_of(const amp_graph *g) {
    return &g->source;
}

amp_status amp_graph_check_inputs(const amp_graph *g, amp_tensor *const *inputs, int count) {
    return check_inputs(&g->source, inputs, count, NULL, 0);
}

/* ---- Running --------------------------------------------------------------------------------------------------- */

/* Whoever asks expects the floating dtype that the network declares, and rows: what it is inside is its own affair. */
static amp_tensor *as_declared(const amp_graph_value *v, amp_tensor *t) {
    if (t->dtype != v->dtype && amp_dtype_is_floating(v->dtype) && amp_dtype_is_floating(t->dtype))
        t = amp_to(t, v->dtype);
    return t && !amp_tensor_is_dense(t) ? amp_contiguous(t) : t;
}

/* All outputs are computed in a frame of the run; those that were asked for leave it. */
static amp_status compute(const amp_graph *g, amp_tensor *const *inputs, amp_tensor **outputs, int wanted,
                          const amp_graph_watcher *watcher) {
    const amp_graph_source *s = &g->source;
    amp_scope_frame frame;
    amp_tensor **all = amp_alloc_zeroed((size_t)s->output_count * sizeof *all);
    if (!all) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %d outputs", s->name, s->output_count);
    amp_scope_push(&frame);
    amp_status status =
        watcher ? amp_nets_watch(g->nets, s, inputs, all, watcher) : amp_nets_compute(g->nets, s, inputs, NULL, all);
    for (int i = 0; status == AMP_OK && i < wanted; i++) {
        all[i] = as_declared(&s->outputs[i], all[i]);
        if (!all[i]) status = amp_pending_error();
    }
    for (int i = 0; status == AMP_OK && i < wanted; i++) {
        outputs[i] = all[i];
        amp_scope_move(all[i], frame.outer);
    }
    amp_scope_pop(&frame);
    amp_free(all);
    return status;
}

amp_status amp_graph_run(amp_graph *g, amp_tensor *const *inputs, int input_count, amp_tensor **outputs,
                         int output_count) {
    for (int i = 0; outputs && i < output_count; i++) outputs[i] = NULL;
    if (amp_failed()) return amp_pending_error();
    if (!g) return amp_fail(AMP_ERROR_INVALID, "graph_run: the graph is NULL");
    AMP_TRY(check_inputs(&g->source, inputs, input_count, outputs, output_count));
    const bool records = amp_grad_set_enabled(false); /* a frozen graph leads no gradients through */
    const amp_status status = compute(g, inputs, outputs, output_count, NULL);
    (void)amp_grad_set_enabled(records);
    return status;
}

amp_status amp_graph_prepare(amp_graph *g, amp_tensor *const *inputs, int input_count) {
    if (amp_failed()) return amp_pending_error();
    if (!g) return amp_fail(AMP_ERROR_INVALID, "graph_prepare: the graph is NULL");
    AMP_TRY(check_inputs(&g->source, inputs, input_count, NULL, 0));
    const bool records = amp_grad_set_enabled(false);
    const amp_status status = amp_nets_prepare(g->nets, &g->source, inputs);
    (void)amp_grad_set_enabled(records);
    return status;
}

/* ---- Into the caller's memory ---------------------------------------------------------------------------------- */

static amp_status check_apart(const amp_graph_source *s, amp_tensor *const *inputs, amp_tensor *const *outputs,
                              int index) {
    for (int i = 0; i < s->input_count; i++) {
        if (amp_tensor_shares_elements(outputs[index], inputs[i]))
            return amp_fail(AMP_ERROR_INVALID,
                            "%s: the output '%s' shares memory with the input '%s'; it needs its own", s->name,
                            s->outputs[index].name, s->inputs[i].name);
    }
    for (int i = 0; i < index; i++) {
        if (outputs[i] && amp_tensor_shares_elements(outputs[index], outputs[i]))
            return amp_fail(AMP_ERROR_INVALID, "%s: the outputs '%s' and '%s' share memory; each needs its own",
                            s->name, s->outputs[i].name, s->outputs[index].name);
    }
    return AMP_OK;
}

static amp_status check_output(const amp_graph_source *s, amp_tensor *const *inputs, amp_tensor *const *outputs,
                               int index) {
    const amp_tensor *t = outputs[index];
    const char *const name = s->outputs[index].name;
    if (!t) return AMP_OK;
    if (!amp_tensor_is_live(t)) return amp_fail(AMP_ERROR_INVALID, "%s: the output '%s' was released", s->name, name);
    if (s->input_count > 0 && amp_tensor_device(t) != amp_tensor_device(inputs[0]))
        return amp_fail(AMP_ERROR_DEVICE, "%s: the output '%s' is on %s, the inputs on %s; all must be on one device",
                        s->name, name, amp_device_name(amp_tensor_device(t)),
                        amp_device_name(amp_tensor_device(inputs[0])));
    AMP_TRY(amp_tensor_check_writable(s->name, name, t));
    AMP_TRY(amp_tensor_check_separate(s->name, "the output ", name, t));
    if (amp_grad_is_enabled() && amp_tensor_requires_grad(t))
        return amp_fail(
            AMP_ERROR_INVALID,
            "%s: the output '%s', %s, requires gradients, and none lead through a graph; give another, or call it "
            "inside of amp_no_grad",
            s->name, name, amp_describe(t));
    if (amp_this_thread.layers & AMP_LAYER_CAPTURE && !amp_tensor_on_write(t, false)) return amp_pending_error();
    return check_apart(s, inputs, outputs, index);
}

/* The dtype that the caller is to see. */
static amp_dtype outer_dtype(const amp_graph_value *v, const amp_tensor *t) {
    const bool casts = amp_dtype_is_floating(v->dtype) && amp_dtype_is_floating(t->dtype);
    return casts ? v->dtype : t->dtype;
}

static amp_status check_fits(const amp_graph_source *s, int index, const amp_tensor *to, const amp_tensor *made) {
    amp_tensor as = *made;
    as.dtype = outer_dtype(&s->outputs[index], made);
    if (to->dtype == as.dtype && amp_same_shape(to, &as)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the output '%s' is %s; the tensor given for it is %s", s->name,
                    s->outputs[index].name, amp_describe(&as), amp_describe(to));
}

static bool lies_there(const amp_tensor *to, const amp_tensor *made) {
    return to->storage == made->storage && to->dtype == made->dtype && to->offset == made->offset &&
           amp_same_layout(to, made);
}

static amp_status fill_outputs(const amp_graph_source *s, amp_tensor *const *outputs, amp_tensor *const *made,
                               int count) {
    for (int i = 0; i < count; i++) {
        if (outputs[i]) AMP_TRY(check_fits(s, i, outputs[i], made[i]));
    }
    for (int i = 0; i < count; i++) {
        if (outputs[i] && !lies_there(outputs[i], made[i])) AMP_TRY(amp_copy_tensor(outputs[i], made[i]));
    }
    return AMP_OK;
}

static amp_status compute_into(const amp_graph *g, amp_tensor *const *inputs, amp_tensor *const *outputs, int count) {
    const amp_graph_source *s = &g->source;
    const size_t room = (size_t)s->output_count * sizeof(amp_tensor *);
    amp_tensor **all = amp_alloc_zeroed(room), **into = amp_alloc_zeroed(room);
    amp_scope_frame frame;
    amp_status status = AMP_ERROR_MEMORY;
    if (!all || !into) {
        (void)amp_fail(status, "%s: no memory for %d outputs", s->name, s->output_count);
    } else {
        if (count > 0) memcpy(into, outputs, (size_t)count * sizeof *into);
        amp_scope_push(&frame);
        status = amp_nets_compute(g->nets, s, inputs, into, all);
        if (status == AMP_OK) status = fill_outputs(s, outputs, all, count);
        amp_scope_pop(&frame);
        for (int i = 0; i < count; i++) { /* what was written before an error, too */
            if (outputs[i]) amp_tensor_written(outputs[i]);
        }
    }
    amp_free(all);
    amp_free(into);
    return status;
}

amp_status amp_graph_run_out(amp_graph *g, amp_tensor *const *inputs, int input_count, amp_tensor *const *outputs,
                             int output_count) {
    if (amp_failed()) return amp_pending_error();
    if (!g) return amp_fail(AMP_ERROR_INVALID, "graph_run_out: the graph is NULL");
    AMP_TRY(check_inputs(&g->source, inputs, input_count, outputs, output_count));
    for (int i = 0; i < output_count; i++) AMP_TRY(check_output(&g->source, inputs, outputs, i));
    const bool records = amp_grad_set_enabled(false);
    const amp_status status = compute_into(g, inputs, outputs, output_count);
    (void)amp_grad_set_enabled(records);
    return status;
}

amp_status amp_graph_watch(amp_graph *g, amp_tensor *const *inputs, int input_count, amp_tensor **outputs,
                           int output_count, const amp_graph_watcher *given) {
    amp_graph_watcher watcher;
    for (int i = 0; outputs && i < output_count; i++) outputs[i] = NULL;
    if (amp_failed()) return amp_pending_error();
    if (!g) return amp_fail(AMP_ERROR_INVALID, "graph_watch: the graph is NULL");
    AMP_TRY(amp_struct_read("graph_watch", "amp_graph_watcher", &watcher, sizeof watcher, sizeof watcher.struct_size,
                            given));
    AMP_TRY(amp_struct_reserved("graph_watch", watcher.reserved, sizeof watcher.reserved));
    AMP_TRY(check_inputs(&g->source, inputs, input_count, outputs, output_count));
    const bool records = amp_grad_set_enabled(false);
    const amp_status status = compute(g, inputs, outputs, output_count, &watcher);
    (void)amp_grad_set_enabled(records);
    return status;
}
