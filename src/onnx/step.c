/* What the functions of ONNX's ops ask of their node. */
#include "onnx/step.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/thread.h"
#include "onnx/node_name.h"
#include "onnx/run_state.h"

const char *amp_onnx_node_name(const amp_onnx_node *node, char text[AMP_ONNX_NAME_BYTES]) {
    enum { MOST = 120 };
    const size_t length = strlen(node->name);
    snprintf(text, AMP_ONNX_NAME_BYTES, "node '%s' (%.40s, opset %lld)",
             node->name + (length > MOST ? length - MOST : 0), node->type, (long long)node->opset);
    return text;
}

amp_status(amp_onnx_fail)(const amp_onnx_step *s, amp_status code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const amp_status status = amp_fail_about(code, s->node->type, format, arguments);
    va_end(arguments);
    return status;
}

/* ---- Inputs and results ---------------------------------------------------------------------------------------- */

amp_tensor *amp_onnx_input(const amp_onnx_step *s, int i) {
    const amp_onnx_node *node = s->node;
    return i < node->input_count && node->inputs[i] >= 0 ? s->values[node->inputs[i]] : NULL;
}

amp_tensor *amp_onnx_required(const amp_onnx_step *s, int i) {
    amp_tensor *t = amp_onnx_input(s, i);
    if (!t) (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "input %d is missing", i);
    return t;
}

bool amp_onnx_wants(const amp_onnx_step *s, int i) {
    return i < s->node->output_count && s->node->outputs[i] >= 0;
}

/* What is not in the node's own frame belongs to somebody else: a view of it is the result. */
amp_status amp_onnx_set(amp_onnx_step *s, int i, amp_tensor *result) {
    if (!result) return amp_failed() ? amp_pending_error() : amp_onnx_fail(s, AMP_ERROR_INTERNAL, "no result %d", i);
    if (!amp_onnx_wants(s, i)) return AMP_OK;
    if (result->scope != amp_this_thread.scope) result = amp_tensor_same(s->node->type, result);
    s->results[i] = result;
    return result ? AMP_OK : amp_pending_error();
}

/* ---- Attributes ------------------------------------------------------------------------------------------------ */

static const amp_onnx_attribute *find(const amp_onnx_step *s, const char *name) {
    for (int i = 0; i < s->node->attribute_count; i++) {
        if (strcmp(s->node->attributes[i].name, name) == 0) return &s->node->attributes[i];
    }
    return NULL;
}

/* The attribute, if it is there and of this kind. */
static const amp_onnx_attribute *find_kind(const amp_onnx_step *s, const char *name, amp_onnx_kind kind) {
    const amp_onnx_attribute *a = find(s, name);
    if (!a || a->kind == kind) return a;
    (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' is of kind %d; expected %d", name, a->kind, kind);
    return NULL;
}

bool amp_onnx_has(const amp_onnx_step *s, const char *name) {
    return find(s, name) != NULL;
}

int64_t amp_onnx_int(const amp_onnx_step *s, const char *name, int64_t otherwise) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_INT);
    return a ? a->as.integer : otherwise;
}

double amp_onnx_float(const amp_onnx_step *s, const char *name, double otherwise) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_FLOAT);
    return a ? a->as.number : otherwise;
}

const char *amp_onnx_text(const amp_onnx_step *s, const char *name, const char *otherwise) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_STRING);
    return a ? a->as.text : otherwise;
}

amp_tensor *amp_onnx_tensor(const amp_onnx_step *s, const char *name) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_TENSOR);
    return a ? a->as.tensor : NULL;
}

amp_onnx_graph *amp_onnx_body(const amp_onnx_step *s, const char *name) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_GRAPH);
    return a ? a->as.graph : NULL;
}

const int64_t *amp_onnx_ints(const amp_onnx_step *s, const char *name, int *count) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_INTS);
    *count = a ? a->count : 0;
    return a ? a->as.integers : NULL;
}

const double *amp_onnx_floats(const amp_onnx_step *s, const char *name, int *count) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_FLOATS);
    *count = a ? a->count : 0;
    return a ? a->as.numbers : NULL;
}

const char *const *amp_onnx_texts(const amp_onnx_step *s, const char *name, int *count) {
    const amp_onnx_attribute *a = find_kind(s, name, AMP_ONNX_STRINGS);
    *count = a ? a->count : 0;
    return a ? a->as.texts : NULL;
}

/* ---- Integers that say sizes, axes and types ------------------------------------------------------------------- */

int64_t amp_onnx_read_ints(const amp_onnx_step *s, const amp_tensor *t, int64_t *to, int64_t room) {
    const int64_t count = t ? amp_tensor_numel(t) : 0;
    if (!t || amp_failed()) return -1;
    if (amp_dtype_is_floating(t->dtype) || amp_dtype_is_complex(t->dtype)) {
        (void)amp_onnx_fail(s, AMP_ERROR_DTYPE, "%s where integers are expected", amp_describe(t));
        return -1;
    }
    if (count > room) {
        (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld integers where at most %lld are expected", (long long)count,
                            (long long)room);
        return -1;
    }
    return count == 0 || amp_read(t, AMP_I64, to, (size_t)room * sizeof *to) == AMP_OK ? count : -1;
}

int64_t amp_onnx_axis(const amp_onnx_step *s, int64_t axis, int rank) {
    const int64_t from_front = axis < 0 ? axis + rank : axis;
    if (from_front >= 0 && from_front < rank) return from_front;
    (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "axis %lld of a tensor of rank %d", (long long)axis, rank);
    return -1;
}

amp_status amp_onnx_axes(const amp_onnx_step *s, int i, const char *name, int rank, amp_dims *axes) {
    int64_t given[AMP_MAX_RANK];
    int listed = 0;
    const int64_t *list = amp_onnx_ints(s, name, &listed);
    const amp_tensor *t = list ? NULL : amp_onnx_input(s, i);
    const int64_t count = list ? listed : t ? amp_onnx_read_ints(s, t, given, AMP_MAX_RANK) : 0;
    memset(axes, 0, sizeof *axes);
    if (count < 0) return amp_pending_error();
    if (count > AMP_MAX_RANK) return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld axes", (long long)count);
    for (int64_t k = 0; k < count; k++) {
        const int64_t axis = amp_onnx_axis(s, (list ? list : given)[k], rank);
        if (axis < 0) return amp_pending_error();
        axes->values[k] = axis;
    }
    axes->count = (int)count;
    axes->set = list || t ? AMP_PRESENT : 0;
    return AMP_OK;
}

amp_dtype amp_onnx_dtype(const amp_onnx_step *s, int64_t number) {
    const char *name;
    const amp_dtype dtype = amp_onnx_dtype_of(number, &name);
    if (dtype == AMP_DTYPE_NONE)
        (void)amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "libamp has no dtype %s (%lld)", name, (long long)number);
    return dtype;
}

amp_tensor *amp_onnx_vector(const amp_onnx_step *s, const int64_t *values, int64_t count) {
    amp_tensor *t = amp_from_data(values, AMP_I64, 1, &count);
    return s->run->device == AMP_DEVICE_CPU ? t : amp_to_device(t, s->run->device);
}
