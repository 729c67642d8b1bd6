/* Ops that make one number of many along dimensions, and running and ordered ones. */
#include <math.h>
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/compose.h"

/* ---- ReduceSum and its like ------------------------------------------------------------------------------------ */

/* Over these axes, each of which stays with extent 1 where keep. */
typedef struct reduction {
    amp_dims axes;
    bool keep;
} reduction;

/* Sums and products keep the type of integers, which PyTorch's would widen. */
static amp_dtype kept_dtype(const amp_tensor *x) {
    return x && amp_onnx_is_integer(x) ? x->dtype : AMP_DTYPE_NONE;
}

static amp_tensor *sum(amp_tensor *x, const reduction *r) {
    return amp_sum(x, .dim = r->axes, .keepdim = r->keep, .dtype = kept_dtype(x));
}
static amp_tensor *mean(amp_tensor *x, const reduction *r) {
    return amp_mean(x, .dim = r->axes, .keepdim = r->keep);
}
static amp_tensor *largest(amp_tensor *x, const reduction *r) {
    return amp_amax(x, .dim = r->axes, .keepdim = r->keep);
}
static amp_tensor *smallest(amp_tensor *x, const reduction *r) {
    return amp_amin(x, .dim = r->axes, .keepdim = r->keep);
}
/* One dimension at a time: libamp's prod has no lists. */
static amp_tensor *product(amp_tensor *x, const reduction *r) {
    for (int i = 0; i < r->axes.count; i++)
        x = amp_prod(x, .dim = AMP_SET(r->axes.values[i]), .keepdim = true, .dtype = kept_dtype(x));
    return r->keep ? x : amp_squeeze(x, .dim = r->axes);
}
static amp_tensor *norm1(amp_tensor *x, const reduction *r) {
    if (x && amp_onnx_is_integer(x)) return sum(amp_abs(x), r);
    return amp_linalg_vector_norm(x, .ord = amp_int(1), .dim = r->axes, .keepdim = r->keep);
}
static amp_tensor *norm2(amp_tensor *x, const reduction *r) {
    return amp_linalg_vector_norm(x, .dim = r->axes, .keepdim = r->keep);
}
static amp_tensor *sum_square(amp_tensor *x, const reduction *r) {
    return sum(amp_mul(x, x), r);
}
static amp_tensor *log_sum(amp_tensor *x, const reduction *r) {
    return amp_log(sum(x, r));
}
static amp_tensor *log_sum_exp(amp_tensor *x, const reduction *r) {
    return amp_logsumexp(x, r->axes, .keepdim = r->keep);
}

/* What becomes of an element by itself where nothing is reduced. */
static amp_tensor *same(amp_tensor *x) {
    return x;
}
static amp_tensor *absolute(amp_tensor *x) {
    return amp_abs(x);
}
static amp_tensor *square(amp_tensor *x) {
    return amp_mul(x, x);
}
static amp_tensor *logarithm(amp_tensor *x) {
    return amp_log(x);
}

/* The result where there are no elements, for the ops that ask for one. */
typedef enum nothing { COMPUTED, LEAST, MOST } nothing;

typedef struct kind {
    const char *name;
    amp_tensor *(*reduce)(amp_tensor *x, const reduction *r);
    amp_tensor *(*alone)(amp_tensor *x);
    nothing of_nothing;
    bool in_floats; /* integers are computed in f64 */
} kind;

static const kind kinds[] = {{"sum", sum, same, COMPUTED, false},
                             {"mean", mean, same, COMPUTED, true},
                             {"max", largest, same, LEAST, false},
                             {"min", smallest, same, MOST, false},
                             {"prod", product, same, COMPUTED, false},
                             {"l1", norm1, absolute, COMPUTED, false},
                             {"l2", norm2, absolute, COMPUTED, true},
                             {"sum_square", sum_square, square, COMPUTED, false},
                             {"log_sum", log_sum, logarithm, COMPUTED, true},
                             {"log_sum_exp", log_sum_exp, same, LEAST, true}};

static const kind *kind_of(const char *name) {
    const kind *k = kinds;
    while (strcmp(k->name, name) != 0) k++; /* the rows of onnx_ops.def name no others */
    return k;
}

/* The least or the largest number of a dtype. */
static amp_scalar extreme(amp_dtype dtype, bool least) {
    if (amp_dtype_is_floating(dtype)) return amp_float(least ? -INFINITY : INFINITY);
    if (dtype == AMP_BOOL) return amp_bool(!least);
    if (dtype == AMP_U8) return amp_int(least ? 0 : UINT8_MAX);
    const int bits = 8 * (int)amp_dtype_size(dtype);
    const int64_t most = (int64_t)(UINT64_MAX >> (65 - bits));
    return amp_int(least ? -most - 1 : most);
}

static bool has_axis(const amp_dims *axes, int axis) {
    for (int i = 0; i < axes->count; i++) {
        if (axes->values[i] == axis) return true;
    }
    return false;
}

static bool takes_nothing(const amp_tensor *x, const reduction *r) {
    for (int i = 0; i < r->axes.count; i++) {
        if (x->shape[r->axes.values[i]] == 0) return true;
    }
    return false;
}

/* The result of a reduction of nothing: one number everywhere. */
static amp_tensor *filled(const amp_tensor *x, const reduction *r, amp_scalar value) {
    amp_dims shape = amp_onnx_dims(0, NULL);
    for (int d = 0; d < x->rank; d++) {
        const bool reduced = has_axis(&r->axes, d);
        if (!reduced || r->keep) shape.values[shape.count++] = reduced ? 1 : x->shape[d];
    }
    return amp_full(shape, value, .dtype = x->dtype, .device = amp_tensor_device(x));
}

static amp_tensor *reduce(const kind *k, amp_tensor *x, const reduction *r) {
    if (k->of_nothing != COMPUTED && takes_nothing(x, r))
        return filled(x, r, extreme(x->dtype, k->of_nothing == LEAST));
    amp_tensor *y = k->reduce(k->in_floats && amp_onnx_is_integer(x) ? amp_to(x, AMP_F64) : x, r);
    return amp_onnx_is_integer(x) ? amp_onnx_as(y, x->dtype) : y;
}

amp_status onnx_reduce(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const kind *k = kind_of(s->node->op->to);
    reduction r = {.keep = amp_onnx_int(s, "keepdims", 1) != 0};
    if (!x) return amp_pending_error();
    AMP_TRY(amp_onnx_axes(s, 1, "axes", x->rank, &r.axes));
    if (r.axes.count == 0 && amp_onnx_int(s, "noop_with_empty_axes", 0) != 0) return amp_onnx_set(s, 0, k->alone(x));
    if (r.axes.count == 0) {
        r.axes = amp_onnx_dims(x->rank, NULL);
        for (int d = 0; d < x->rank; d++) r.axes.values[d] = d;
    }
    return amp_onnx_set(s, 0, reduce(k, x, &r));
}

/* ---- Places ---------------------------------------------------------------------------------------------------- */

/* Places in a dimension that were counted from its end. */
static amp_tensor *from_behind(amp_tensor *places, const amp_tensor *x, int64_t axis) {
    return amp_add_scalar(amp_neg(places), amp_int(x->shape[axis] - 1));
}

/* Of equal elements the last one is the first from behind. */
amp_status onnx_arg(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const bool last = amp_onnx_int(s, "select_last_index", 0) != 0, keep = amp_onnx_int(s, "keepdims", 1) != 0;
    const int64_t axis = x ? amp_onnx_axis(s, amp_onnx_int(s, "axis", 0), x->rank) : -1;
    if (axis < 0) return amp_pending_error();
    amp_tensor *from = last ? amp_flip(x, AMP_DIMS(axis)) : x;
    amp_tensor *place = strcmp(s->node->op->to, "max") == 0 ? amp_argmax(from, .dim = AMP_SET(axis), .keepdim = keep)
                                                            : amp_argmin(from, .dim = AMP_SET(axis), .keepdim = keep);
    return amp_onnx_set(s, 0, last ? from_behind(place, x, axis) : place);
}

/* libamp's topk begins with the last of equal elements, as PyTorch's does; ONNX wants the first, which is the last from
 * behind. */
static amp_status top(amp_onnx_step *s, int64_t k) {
    amp_tensor *x = amp_onnx_required(s, 0), *places = NULL;
    const bool largest = amp_onnx_int(s, "largest", 1) != 0;
    const int64_t axis = x ? amp_onnx_axis(s, amp_onnx_int(s, "axis", -1), x->rank) : -1;
    if (axis < 0) return amp_pending_error();
    amp_tensor *from = amp_flip(x, AMP_DIMS(axis));
    amp_tensor *values = amp_topk(from, k, .dim = AMP_SET(axis), .largest = AMP_SET(largest), .indices = &places);
    AMP_TRY(amp_onnx_set(s, 0, values));
    return amp_onnx_set(s, 1, from_behind(places, x, axis));
}

amp_status onnx_top_k_attribute(amp_onnx_step *s) {
    return top(s, amp_onnx_int(s, "k", -1));
}

amp_status onnx_top_k(amp_onnx_step *s) {
    int64_t k = 0;
    const int64_t count = amp_onnx_read_ints(s, amp_onnx_required(s, 1), &k, 1);
    if (count < 0) return amp_pending_error();
    return count == 1 ? top(s, k) : amp_onnx_fail(s, AMP_ERROR_INVALID, "K is empty");
}

/* ---- Running sums ---------------------------------------------------------------------------------------------- */

/* One place later, a zero first. */
static amp_tensor *shifted(amp_tensor *x, int64_t axis) {
    if (!x || x->shape[axis] == 0) return x;
    amp_tensor *first = amp_zeros_like(amp_narrow(x, axis, 0, 1));
    amp_tensor *rest = amp_narrow(x, axis, 0, x->shape[axis] - 1);
    return amp_cat(AMP_LIST(first, rest), axis);
}

amp_status onnx_cumsum(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const bool reverse = amp_onnx_int(s, "reverse", 0) != 0;
    int64_t given = 0;
    if (!x || amp_onnx_read_ints(s, amp_onnx_required(s, 1), &given, 1) < 0) return amp_pending_error();
    const int64_t axis = amp_onnx_axis(s, given, x->rank);
    if (axis < 0) return amp_pending_error();
    amp_tensor *y = reverse ? amp_flip(x, AMP_DIMS(axis)) : x;
    if (amp_onnx_int(s, "exclusive", 0) != 0) y = shifted(y, axis);
    y = amp_cumsum(y, axis, .dtype = kept_dtype(x));
    return amp_onnx_set(s, 0, reverse ? amp_flip(y, AMP_DIMS(axis)) : y);
}
