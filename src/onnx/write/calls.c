/* From the calls of a record to nodes: what the rows of from_ops.def ask, and the loop over the calls. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/thread.h"
#include "onnx/write/from.h"
#include "policy/promotion.h"

typedef struct row {
    const char *op, *overload;
    amp_from_call from;
    const char *to;
    bool mixed; /* operands keep the dtypes that they have */
} row;

static const row rows[] = {
#define FROM_OP(op, overload, from, to) {#op, overload, from, to, false},
#define FROM_MIXED(op, overload, from, to) {#op, overload, from, to, true},
#include "onnx/write/from_ops.def"
#undef FROM_OP
#undef FROM_MIXED
};

static const row *find_row(const amp_op_info *op) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].op, op->name) == 0 && strcmp(rows[i].overload, op->overload) == 0) return &rows[i];
    }
    return NULL;
}

amp_status amp_written_fail(const amp_written_call *c, const char *format, ...) {
    const amp_op_info *op = c->node.op;
    char about[400];
    snprintf(about, sizeof about, "graph_save: %.200s: %s%s%s", c->w->source->name, op->name, *op->overload ? "." : "",
             op->overload);
    va_list arguments;
    va_start(arguments, format);
    const amp_status status = amp_fail_about(AMP_ERROR_NOT_IMPLEMENTED, about, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- Arguments ------------------------------------------------------------------------------------------------- */

static const amp_arg_info *find_argument(const amp_written_call *c, const char *name) {
    for (int i = 0; i < c->node.op->arg_count; i++) {
        if (strcmp(c->node.op->args[i].name, name) == 0) return &c->node.op->args[i];
    }
    return NULL;
}

static const void *field(const amp_written_call *c, const amp_arg_info *arg) {
    return (const char *)c->node.args + arg->offset;
}

int64_t amp_written_int(const amp_written_call *c, const char *argument, int64_t otherwise) {
    const amp_arg_info *arg = find_argument(c, argument);
    if (!arg) return otherwise;
    const void *at = field(c, arg);
    switch (arg->kind) {
    case AMP_ARG_INT: return *(const int64_t *)at;
    case AMP_ARG_BOOL: return *(const bool *)at;
    case AMP_ARG_DTYPE: return *(const amp_dtype *)at;
    case AMP_ARG_OPT_INT: {
        const amp_opt_int *o = at;
        return o->set ? o->value : arg->has_default ? (int64_t)arg->default_number : otherwise;
    }
    case AMP_ARG_OPT_BOOL: {
        const amp_opt_bool *o = at;
        return o->set ? o->value : arg->has_default ? arg->default_number != 0 : otherwise;
    }
    default: return otherwise;
    }
}

double amp_written_float(const amp_written_call *c, const char *argument, double otherwise) {
    const amp_arg_info *arg = find_argument(c, argument);
    if (!arg) return otherwise;
    if (arg->kind == AMP_ARG_FLOAT) return *(const double *)field(c, arg);
    if (arg->kind != AMP_ARG_OPT_FLOAT) return otherwise;
    const amp_opt_float *o = field(c, arg);
    return o->set ? o->value : arg->has_default ? arg->default_number : otherwise;
}

const char *amp_written_text(const amp_written_call *c, const char *argument, const char *otherwise) {
    const amp_arg_info *arg = find_argument(c, argument);
    const char *text = arg && arg->kind == AMP_ARG_STRING ? *(const char *const *)field(c, arg) : NULL;
    if (!text && arg) text = arg->default_string;
    return text ? text : otherwise;
}

const amp_dims *amp_written_dims(const amp_written_call *c, const char *argument) {
    const amp_arg_info *arg = find_argument(c, argument);
    const amp_dims *dims = arg && arg->kind == AMP_ARG_DIMS ? field(c, arg) : NULL;
    return dims && dims->set ? dims : NULL;
}

amp_scalar amp_written_scalar(const amp_written_call *c, const char *argument) {
    const amp_arg_info *arg = find_argument(c, argument);
    return arg && arg->kind == AMP_ARG_SCALAR ? *(const amp_scalar *)field(c, arg)
                                              : (amp_scalar){.kind = AMP_SCALAR_NONE};
}

void amp_written_spread(const amp_written_call *c, const char *argument, int count, int64_t otherwise, int64_t *to) {
    const amp_dims *dims = amp_written_dims(c, argument);
    for (int i = 0; i < count; i++)
        to[i] = !dims || dims->count == 0 ? otherwise : dims->values[dims->count == 1 ? 0 : i];
}

int amp_written_axis(const amp_written_call *c, const char *argument, int64_t otherwise, int rank) {
    const int64_t axis = amp_written_int(c, argument, otherwise);
    return (int)(axis < 0 ? axis + rank : axis);
}

/* ---- Operands and results -------------------------------------------------------------------------------------- */

/* Where an operand stands among the call's; AMP_NET_NONE: absent. */
static int find_operand(const amp_written_call *c, const char *argument, int place) {
    for (int i = 0; i < c->node.operand_count; i++) {
        const amp_net_operand *o = &c->node.operands[i];
        if (o->place == place && strcmp(c->node.op->args[o->argument].name, argument) == 0) return i;
    }
    return AMP_NET_NONE;
}

/* What the region made of operand i. */
static amp_dtype seen_dtype(const amp_written_call *c, int i) {
    return c->seen->dtypes[i < AMP_RECORD_OPERANDS ? i : AMP_RECORD_OPERANDS - 1];
}

int amp_written_item(amp_written_call *c, const char *argument, int place) {
    const int i = find_operand(c, argument, place);
    const int value = i < 0 ? AMP_NET_NONE : c->node.operands[i].value;
    if (value < 0 || amp_failed()) return AMP_MADE_NONE;
    const amp_dtype dtype = seen_dtype(c, i), own = c->w->values[c->known[value]].dtype;
    const bool as_call = c->dtype != AMP_DTYPE_NONE && amp_dtype_is_floating(own);
    const bool casts = amp_dtype_is_floating(dtype) && amp_dtype_is_floating(own);
    const int cast = casts ? amp_made_cast(c->w, c->known[value], dtype) : c->known[value];
    return as_call ? amp_made_cast(c->w, cast, c->dtype) : cast;
}

int amp_written_operand(amp_written_call *c, const char *argument) {
    return amp_written_item(c, argument, 0);
}

int amp_written_count(const amp_written_call *c, const char *argument) {
    int count = 0;
    while (find_operand(c, argument, count) >= 0) count++;
    return count;
}

const amp_net_value *amp_written_value(const amp_written_call *c, const char *argument) {
    const int i = find_operand(c, argument, 0);
    return i < 0 || c->node.operands[i].value < 0 ? NULL : &c->net->values[c->node.operands[i].value];
}

bool amp_written_wants(const amp_written_call *c, int i) {
    return i < c->node.result_count && c->node.results[i] >= 0;
}

amp_made_shape amp_written_shape(const amp_written_call *c, int i) {
    const amp_net_value *v = &c->net->values[c->node.results[i]];
    const bool as_call = c->dtype != AMP_DTYPE_NONE && amp_dtype_is_floating(v->dtype);
    return amp_made_shape_from(as_call ? c->dtype : v->dtype, v->rank, v->shape);
}

amp_status amp_written_set(amp_written_call *c, int i, int value) {
    if (value < 0 || amp_failed())
        return amp_failed() ? amp_pending_error()
                            : amp_fail(AMP_ERROR_INTERNAL, "graph_save: no node for %s", c->node.op->name);
    if (!amp_written_wants(c, i)) return AMP_OK;
    const amp_net_value *v = &c->net->values[c->node.results[i]];
    value = amp_made_cast(c->w, value, v->dtype);
    if (value < 0) return amp_pending_error();
    const amp_made_value *made = &c->w->values[value];
    if (made->rank != v->rank || (v->rank > 0 && memcmp(made->shape, v->shape, (size_t)v->rank * sizeof *v->shape)))
        return amp_fail(AMP_ERROR_INTERNAL, "graph_save: %s: %s is written as %s", c->node.op->name,
                        amp_describe_shape(v->rank, v->shape), amp_describe_shape(made->rank, made->shape));
    c->results[i] = value;
    return AMP_OK;
}

/* ---- One call -------------------------------------------------------------------------------------------------- */

/* The dtype that all floating operands have; where they differ, f32 (or f64), which is what libamp computes them in. */
static amp_dtype common_dtype(const amp_written_call *c) {
    amp_dtype common = AMP_DTYPE_NONE;
    for (int i = 0; i < c->node.operand_count; i++) {
        const amp_dtype dtype = c->node.operands[i].value < 0 ? AMP_DTYPE_NONE : seen_dtype(c, i);
        if (!amp_dtype_is_floating(dtype) || dtype == common) continue;
        common = common == AMP_DTYPE_NONE ? dtype : amp_promote(amp_promote(common, dtype), AMP_F32);
    }
    return common;
}

static amp_status write_call(amp_written_call *c) {
    const row *r = find_row(c->node.op);
    if (!r) return amp_written_fail(c, "nothing in ONNX is known for this op; %s", "calls of it cannot be saved");
    c->to = r->to;
    c->dtype = r->mixed ? AMP_DTYPE_NONE : common_dtype(c);
    AMP_TRY(r->from(c));
    for (int i = 0; i < c->node.result_count; i++) {
        if (c->node.results[i] >= 0 && c->results[i] < 0)
            return amp_written_fail(c, "its result %d is used, which ONNX does not have", i);
    }
    return AMP_OK;
}

/* ---- All of them ----------------------------------------------------------------------------------------------- */

typedef struct writing {
    amp_writer *w;
    const amp_record *record;
    int *known;
} writing;

static amp_status take_constants(const writing *t, const amp_net_node *node) {
    for (int i = 0; i < node->operand_count; i++) {
        const int value = node->operands[i].value;
        if (value < 0 || t->known[value] >= 0) continue;
        amp_tensor *constant = t->record->net->values[value].constant;
        if (!constant)
            return amp_fail(AMP_ERROR_INTERNAL, "graph_save: value %d of %s is not made", value, node->op->name);
        t->known[value] = amp_made_constant(t->w, constant);
        if (t->known[value] < 0) return amp_pending_error();
    }
    return AMP_OK;
}

static amp_status write_node(const writing *t, int k) {
    const amp_net_node *node = &t->record->net->nodes[k];
    amp_written_call c = {.w = t->w,
                          .node = *node,
                          .net = t->record->net,
                          .seen = &t->record->calls[k],
                          .known = t->known,
                          .results = amp_alloc(((size_t)node->result_count + 1) * sizeof *c.results)};
    if (!c.results) return amp_fail(AMP_ERROR_MEMORY, "graph_save: no memory for a call of %s", node->op->name);
    c.node.args = c.seen->args;
    for (int i = 0; i < node->result_count; i++) c.results[i] = AMP_MADE_NONE;
    amp_status status = take_constants(t, node);
    if (status == AMP_OK) status = write_call(&c);
    for (int i = 0; status == AMP_OK && i < node->result_count; i++) {
        if (node->results[i] >= 0) t->known[node->results[i]] = c.results[i];
    }
    amp_free(c.results);
    return status;
}

static amp_status write_inputs(const writing *t) {
    const amp_net *net = t->record->net;
    for (int i = 0; i < net->input_count; i++) {
        const amp_net_value *v = &net->values[net->inputs[i]];
        const amp_made_shape shape = amp_made_shape_from(v->dtype, v->rank, v->shape);
        t->known[net->inputs[i]] = amp_made_input(t->w, i, &shape);
        if (t->known[net->inputs[i]] < 0) return amp_pending_error();
    }
    return AMP_OK;
}

/* In the floating dtype that the graph declares, as amp_graph_run hands them out. */
static amp_status write_outputs(const writing *t) {
    const amp_net *net = t->record->net;
    t->w->outputs = amp_alloc(((size_t)net->output_count + 1) * sizeof *t->w->outputs);
    if (!t->w->outputs) return amp_fail(AMP_ERROR_MEMORY, "graph_save: no memory for %d outputs", net->output_count);
    for (int i = 0; i < net->output_count; i++) {
        const int value = net->outputs[i];
        int made = t->known[value] >= 0 ? t->known[value] : amp_made_constant(t->w, net->values[value].constant);
        const amp_dtype declared = t->w->source->outputs[i].dtype;
        if (made < 0) return amp_pending_error();
        if (amp_dtype_is_floating(declared) && amp_dtype_is_floating(t->w->values[made].dtype))
            made = amp_made_cast(t->w, made, declared);
        if (made < 0) return amp_pending_error();
        t->w->outputs[i] = made;
    }
    return AMP_OK;
}

amp_status amp_write_calls(amp_writer *w, const amp_record *record) {
    const amp_net *net = record->net;
    const writing t = {w, record, amp_alloc(((size_t)net->value_count + 1) * sizeof *t.known)};
    if (!t.known) return amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", w->source->name);
    for (int i = 0; i < net->value_count; i++) t.known[i] = AMP_MADE_NONE;
    amp_status status = write_inputs(&t);
    for (int k = 0; status == AMP_OK && k < net->node_count; k++) {
        amp_scope_frame frame;
        amp_scope_push(&frame);
        status = write_node(&t, k);
        amp_scope_pop(&frame);
    }
    if (status == AMP_OK) status = write_outputs(&t);
    amp_free(t.known);
    return status;
}
