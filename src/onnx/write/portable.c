/* The portable form: what is bf16 in the typed one is f32 here, with the same numbers; where the typed one rounds, a
 * Cast to bf16 and one back. A Cast back says that its result is bf16 in disguise, and nothing else is cast from bf16
 * to f32: where the typed form does so, the disguised value is cast to f32, which does nothing elsewhere and lifts the
 * disguise here (onnx/load.c). */
#include <string.h>

#include "core/memory.h"
#include "onnx/write/writer.h"

typedef struct disguise {
    const amp_writer *from;
    amp_writer *to;
    int *plain; /* by value of `from`: the value of `to` that ops read */
    int *exact; /* … and that has its dtype; AMP_MADE_NONE: only the other has been needed */
} disguise;

static bool is_hidden(const disguise *d, int value) {
    return value >= 0 && d->from->values[value].dtype == AMP_BF16;
}

static int cast(amp_writer *w, int value, amp_dtype dtype, int number) {
    amp_made_shape shape = amp_made_shape_of(w, value);
    shape.dtype = dtype;
    const int result = AMP_MADE(w, "Cast", &shape, value);
    amp_made_int(w, "to", number);
    return result;
}

enum { NUMBER_OF_F32 = 1, NUMBER_OF_BF16 = 16 };

static int hide(amp_writer *w, int value) {
    return value < 0 ? value : cast(w, value, AMP_F32, NUMBER_OF_F32);
}

/* What a node reads. */
static int plain_of(disguise *d, int value) {
    if (value < 0) return AMP_MADE_NONE;
    if (d->plain[value] >= 0) return d->plain[value];
    const amp_made_value *v = &d->from->values[value];
    if (!v->constant) {
        (void)amp_fail(AMP_ERROR_INTERNAL, "graph_save: a value is read before it is made");
        return AMP_MADE_NONE;
    }
    d->exact[value] = amp_made_constant(d->to, v->constant);
    d->plain[value] = is_hidden(d, value) ? hide(d->to, d->exact[value]) : d->exact[value];
    return d->plain[value];
}

/* The result of a node of `to` that is value `was` of `from`, but wide where that is bf16. */
static void take_result(disguise *d, int was, int made, bool moves) {
    if (!is_hidden(d, was)) {
        d->plain[was] = d->exact[was] = made;
    } else if (moves) {
        d->plain[was] = made;
    } else if (made >= 0) {
        d->exact[was] = cast(d->to, made, AMP_BF16, NUMBER_OF_BF16);
        d->plain[was] = hide(d->to, d->exact[was]);
    }
}

static amp_made_shape wide_shape(const disguise *d, int value) {
    amp_made_shape shape = amp_made_shape_of(d->from, value);
    if (shape.dtype == AMP_BF16) shape.dtype = AMP_F32;
    return shape;
}

static amp_status convert(disguise *d, const amp_made_node *node) {
    int *inputs = amp_alloc(((size_t)node->input_count + 1) * sizeof *inputs), made[AMP_MAX_OUTPUTS];
    if (!inputs) return amp_fail(AMP_ERROR_MEMORY, "graph_save: no memory for the model");
    for (int i = 0; i < node->input_count; i++) inputs[i] = plain_of(d, node->inputs[i]);
    amp_made_shape shape = wide_shape(d, node->outputs[0]);
    const bool casts = strcmp(node->type->name, "Cast") == 0;
    if (casts && is_hidden(d, node->outputs[0])) { /* itself the rounding */
        amp_made_shape to = shape;
        to.dtype = AMP_BF16;
        d->exact[node->outputs[0]] = amp_made_node_of(d->to, "Cast", inputs, 1, &to);
        amp_made_int(d->to, "to", NUMBER_OF_BF16);
        d->plain[node->outputs[0]] = hide(d->to, d->exact[node->outputs[0]]);
        amp_free(inputs);
        return amp_pending_error();
    }
    made[0] = amp_made_node_of(d->to, node->type->name, inputs, node->input_count, &shape);
    for (int i = 1; i < node->output_count; i++) {
        shape = wide_shape(d, node->outputs[i]);
        made[i] = amp_made_another(d->to, &shape);
    }
    amp_free(inputs);
    if (amp_failed()) return amp_pending_error();
    amp_made_node *last = &d->to->nodes[d->to->node_count - 1];
    memcpy(last->attributes, node->attributes, sizeof last->attributes);
    last->attribute_count = node->attribute_count;
    for (int i = 0; i < node->output_count; i++) take_result(d, node->outputs[i], made[i], node->type->moves);
    return amp_pending_error();
}

static amp_status convert_all(disguise *d) {
    const amp_writer *from = d->from;
    for (int i = 0; i < from->value_count; i++) {
        d->plain[i] = d->exact[i] = AMP_MADE_NONE;
        if (from->values[i].input < 0) continue;
        const amp_made_shape shape = amp_made_shape_of(from, i);
        d->exact[i] = amp_made_input(d->to, from->values[i].input, &shape);
        if (d->exact[i] < 0) return amp_pending_error();
        d->plain[i] = is_hidden(d, i) ? hide(d->to, d->exact[i]) : d->exact[i];
    }
    for (int k = 0; k < from->node_count; k++) {
        if (from->nodes[k].type) AMP_TRY(convert(d, &from->nodes[k]));
    }
    for (int i = 0; i < from->source->output_count; i++) {
        const int value = from->outputs[i], plain = plain_of(d, value);
        if (plain < 0) return amp_pending_error();
        if (d->exact[value] < 0) d->exact[value] = cast(d->to, plain, AMP_BF16, NUMBER_OF_BF16);
        d->to->outputs[i] = d->exact[value];
    }
    return amp_pending_error();
}

amp_status amp_write_portable(const amp_writer *w, amp_writer *to) {
    *to = (amp_writer){.source = w->source, .portable = true, .extent_names = w->extent_names};
    const size_t count = (size_t)w->value_count + 1;
    disguise d = {w, to, amp_alloc(count * sizeof *d.plain), amp_alloc(count * sizeof *d.exact)};
    to->outputs = amp_alloc(((size_t)w->source->output_count + 1) * sizeof *to->outputs);
    const bool there = d.plain && d.exact && to->outputs;
    const amp_status status =
        there ? convert_all(&d)
              : amp_fail(AMP_ERROR_MEMORY, "graph_save: %s: no memory for the model", w->source->name);
    amp_free(d.plain);
    amp_free(d.exact);
    return status;
}
