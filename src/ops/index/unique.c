/* unique: the different elements of a tensor, or slices of a dimension, by putting them in order. */
#include "call/backend.h"
#include "ops/math/compose.h"
#include "steps/shape_rules.h"

/* Elements or slices in order. */
typedef struct ordered {
    amp_tensor *order; /* where each stood */
    amp_tensor *fresh; /* bool: it differs from the one before; of the first one too */
    int64_t count;
} ordered;

static amp_tensor *truths(const amp_call *call, int64_t count) {
    return amp_full(AMP_DIMS(count), amp_bool(true), .dtype = AMP_BOOL, .device = (int64_t)call->device);
}

/* Rows (n, …) that differ from the one before. */
static amp_tensor *differing(const amp_call *call, amp_tensor *rows) {
    const int64_t n = rows->shape[0];
    if (n == 0) return truths(call, 0);
    amp_tensor *differ = amp_ne(amp_narrow(rows, 0, 1, n - 1), amp_narrow(rows, 0, 0, n - 1));
    if (differ && rows->rank > 1) {
        differ = rows->shape[1] > 0 ? amp_amax(differ, AMP_DIMS(1))
                                    : amp_zeros(AMP_DIMS(n - 1), .dtype = AMP_BOOL, .device = (int64_t)call->device);
    }
    amp_tensor *first = differ ? truths(call, 1) : NULL;
    return first ? amp_cat(AMP_LIST(first, differ)) : NULL;
}

static amp_status order_elements(const amp_call *call, amp_tensor *flat, ordered *o) {
    amp_tensor *values = amp_sort(flat, .stable = true, .indices = &o->order);
    o->fresh = values ? differing(call, values) : NULL;
    return o->fresh ? AMP_OK : amp_pending_error();
}

/* Rows in the order of their elements, the first one first: sorted by each column, the last one first. */
static amp_status order_rows(const amp_call *call, amp_tensor *rows, ordered *o) {
    o->order = amp_arange(amp_int(o->count), .dtype = AMP_I64, .device = (int64_t)call->device);
    for (int64_t column = rows->shape[1] - 1; column >= 0 && o->order; column--) {
        amp_tensor *key = amp_index_select(amp_select(rows, 1, column), 0, o->order), *order = NULL;
        o->order =
            key && amp_sort(key, .stable = true, .indices = &order) ? amp_index_select(o->order, 0, order) : NULL;
    }
    amp_tensor *sorted = o->order ? amp_index_select(rows, 0, o->order) : NULL;
    o->fresh = sorted ? differing(call, sorted) : NULL;
    return o->fresh ? AMP_OK : amp_pending_error();
}

/* To which of the different ones each element went. */
static amp_tensor *inverse_of(const ordered *o) {
    amp_tensor *groups = amp_cumsum(o->fresh, 0), *numbers = groups ? amp_sub_scalar(groups, amp_int(1)) : NULL;
    amp_tensor *room = numbers ? amp_empty_like(numbers) : NULL;
    return room ? amp_scatter(room, 0, o->order, numbers) : NULL;
}

/* From each of the different ones to the next. */
static amp_tensor *counts_of(const amp_call *call, const ordered *o, amp_tensor *starts) {
    const int64_t groups = starts->shape[0];
    if (groups == 0) return amp_clone(starts);
    amp_tensor *end = amp_full(AMP_DIMS(1), amp_int(o->count), .dtype = AMP_I64, .device = (int64_t)call->device);
    amp_tensor *next = end ? amp_cat(AMP_LIST(amp_narrow(starts, 0, 1, groups - 1), end)) : NULL;
    return next ? amp_sub(next, starts) : NULL;
}

/* Dimension d first, and the others as one; −0 as 0, for they are equal. */
static amp_tensor *slices_of(amp_tensor *input, int d) {
    amp_dims order = {.values = {d}, .count = 1, .set = AMP_PRESENT};
    for (int k = 0; k < input->rank; k++) {
        if (k != d) order.values[order.count++] = k;
    }
    const int64_t count = input->shape[d], elements = amp_tensor_elements(input);
    amp_tensor *moved = amp_permute(input, order);
    amp_tensor *rows = moved ? amp_reshape(moved, AMP_DIMS(count, count ? elements / count : 0)) : NULL;
    return rows && !amp_is_whole(rows->dtype) ? amp_add_scalar(rows, amp_int(0)) : rows;
}

static amp_tensor *nothing(const amp_call *call) {
    return amp_empty(AMP_DIMS(0), .dtype = AMP_I64, .device = (int64_t)call->device);
}

amp_status amp_op_unique(amp_call *call) {
    const amp_unique_args *a = call->args;
    amp_tensor *input = a->input;
    int d = 0;
    if (amp_dtype_is_complex(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: complex numbers have no order (input is %s)", amp_call_name(call),
                        amp_describe(input));
    }
    const bool by_slices = a->dim.set && input->rank > 0;
    if (a->dim.set) AMP_TRY(amp_wrap_dim(call, "dim", a->dim.value, input->rank, &d));
    ordered o = {.count = by_slices ? input->shape[d] : amp_tensor_elements(input)};
    amp_tensor *table = by_slices ? slices_of(input, d) : amp_flattened(input);
    if (!table) return amp_pending_error();
    AMP_TRY(by_slices ? order_rows(call, table, &o) : order_elements(call, table, &o));
    amp_tensor *nonzero = amp_nonzero(o.fresh), *starts = nonzero ? amp_flattened(nonzero) : NULL;
    amp_tensor *chosen = starts ? amp_index_select(o.order, 0, starts) : NULL;
    amp_tensor *output = chosen ? amp_index_select(by_slices ? input : table, d, chosen) : NULL;
    amp_tensor *inverse = output ? a->return_inverse ? inverse_of(&o) : nothing(call) : NULL;
    if (inverse && a->return_inverse && !by_slices) inverse = amp_reshape(inverse, amp_shape_of(input));
    amp_tensor *counts = inverse ? a->return_counts ? counts_of(call, &o, starts) : nothing(call) : NULL;
    call->outputs[2] = counts;
    AMP_TRY(amp_return_both(call, output, inverse));
    return counts ? AMP_OK : amp_pending_error();
}
