/* Ops that put elements. In a region what is put takes the dtype of what it is put into, as it would in ONNX. */
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/compose.h"
#include "onnx/ops/indices.h"

/* What meets at a place, in ONNX's words and in those of scatter_reduce. */
static const struct {
    const char *name, *reduce;
} reductions[] = {{"none", NULL}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};

static amp_status read_reduction(const amp_onnx_step *s, const char **reduce) {
    const char *name = amp_onnx_text(s, "reduction", "none");
    for (size_t i = 0; i < sizeof reductions / sizeof reductions[0]; i++) {
        *reduce = reductions[i].reduce;
        if (strcmp(reductions[i].name, name) == 0) return AMP_OK;
    }
    return amp_onnx_fail(s, AMP_ERROR_INVALID, "there is no reduction '%.40s'", name);
}

static amp_tensor *scatter_reduce(amp_tensor *x, int64_t axis, amp_tensor *places, amp_tensor *updates,
                                  const char *reduce) {
    amp_tensor *y = NULL;
    const amp_argument arguments[] = {{NULL, {.kind = AMP_VALUE_TENSOR, .as.tensor = x}},
                                      {NULL, {.kind = AMP_VALUE_SCALAR, .as.scalar = amp_int(axis)}},
                                      {NULL, {.kind = AMP_VALUE_TENSOR, .as.tensor = places}},
                                      {NULL, {.kind = AMP_VALUE_TENSOR, .as.tensor = updates}},
                                      {NULL, {.kind = AMP_VALUE_STRING, .as.string = reduce}}};
    const int count = (int)(sizeof arguments / sizeof arguments[0]);
    return amp_call_op("scatter_reduce", arguments, count, &y, 1, NULL) == AMP_OK ? y : NULL;
}

static amp_tensor *put(amp_tensor *x, int64_t axis, amp_tensor *places, amp_tensor *updates, const char *reduce) {
    if (!x || !places || !updates) return NULL;
    updates = amp_onnx_as(updates, x->dtype);
    if (!reduce) return amp_scatter(x, axis, places, updates);
    if (strcmp(reduce, "sum") == 0) return amp_scatter_add(x, axis, places, updates);
    if (strcmp(reduce, "prod") == 0) return amp_scatter(x, axis, places, updates, .reduce = "multiply");
    return scatter_reduce(x, axis, places, updates, reduce);
}

amp_status onnx_scatter_elements(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *indices = amp_onnx_required(s, 1), *updates = amp_onnx_required(s, 2);
    const int axis = x ? (int)amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank) : -1;
    const char *reduce = NULL;
    if (axis < 0) return amp_pending_error();
    AMP_TRY(read_reduction(s, &reduce));
    return amp_onnx_set(s, 0, put(x, axis, amp_onnx_wrapped(indices, x->shape[axis]), updates, reduce));
}

amp_status onnx_scatter_nd(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *updates = amp_onnx_required(s, 2);
    amp_onnx_row_set rows;
    const char *reduce = NULL;
    AMP_TRY(read_reduction(s, &reduce));
    AMP_TRY(amp_onnx_rows(s, x, amp_onnx_required(s, 1), 0, &rows));
    amp_tensor *places = amp_expand(amp_unsqueeze(rows.places, 1), AMP_DIMS(rows.count, rows.elements));
    amp_tensor *y = put(rows.of, 0, places, amp_reshape(updates, AMP_DIMS(rows.count, rows.elements)), reduce);
    return amp_onnx_set(s, 0, amp_reshape(y, amp_onnx_dims(x->rank, x->shape)));
}
