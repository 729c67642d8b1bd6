/* nonzero, masked_select, masked_scatter. */
#include "ops/index/places.h"

#include <string.h>

#include "core/layout.h"
#include "ops/math/compose.h"

/* ---- Places ----------------------------------------------------------------------------------------------------- */

/* Dense truth on the host. */
static amp_tensor *read_truth(amp_tensor *t) {
    amp_tensor *truth = t->dtype == AMP_BOOL ? t : amp_ne_scalar(t, amp_int(0));
    amp_tensor *host = truth ? amp_to_device(truth, AMP_DEVICE_CPU) : NULL;
    return host ? amp_contiguous(host) : NULL;
}

static void write_numbers(const uint8_t *set, int64_t n, int64_t *to) {
    for (int64_t i = 0; i < n; i++) {
        if (set[i]) *to++ = i;
    }
}

/* The index counts up beside the elements, so that nothing is divided. */
static void write_indices(const uint8_t *set, const amp_tensor *shape, int64_t n, int64_t *to) {
    const int rank = shape->rank, last = rank - 1;
    int64_t index[AMP_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++) {
        if (set[i]) {
            memcpy(to, index, (size_t)rank * sizeof *to);
            to += rank;
        }
        for (int d = last; d >= 0 && ++index[d] == shape->shape[d]; d--) index[d] = 0;
    }
}

amp_tensor *amp_places_of(const amp_call *call, amp_tensor *t, bool flat) {
    const amp_tensor *truth = read_truth(t);
    if (!truth) return NULL;
    const uint8_t *set = amp_tensor_pointer(truth);
    const int64_t n = amp_tensor_elements(truth);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += set[i] != 0;
    const int64_t shape[2] = {count, t->rank};
    amp_tensor *places = amp_tensor_new(call->op->name, AMP_I64, flat ? 1 : 2, shape);
    if (!places) return NULL;
    int64_t *to = amp_tensor_pointer(places);
    if (flat) {
        write_numbers(set, n, to);
    } else {
        write_indices(set, truth, n, to);
    }
    return call->device == AMP_DEVICE_CPU ? places : amp_to_device(places, (int64_t)call->device);
}

amp_status amp_op_nonzero(amp_call *call) {
    return amp_return(call, amp_places_of(call, ((const amp_nonzero_args *)call->args)->input, false));
}

/* ---- Masks ------------------------------------------------------------------------------------------------------ */

/* Both in their common shape. */
static amp_status stretch(const amp_call *call, amp_tensor **input, amp_tensor **mask) {
    const amp_tensor *x = *input, *m = *mask;
    int rank;
    int64_t shape[AMP_MAX_RANK];
    if (m->dtype != AMP_BOOL) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: 'mask' is %s; expected bool", amp_call_name(call), amp_describe(m));
    }
    if (!amp_broadcast_shapes(x->rank, x->shape, m->rank, m->shape, &rank, shape)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'mask' is %s, which does not broadcast with input %s",
                        amp_call_name(call), amp_describe(m), amp_describe(x));
    }
    const amp_dims size = amp_dims_of(rank, shape);
    if (!amp_has_shape(x, rank, shape)) *input = amp_expand(*input, size);
    if (*input && !amp_has_shape(m, rank, shape)) *mask = amp_expand(*mask, size);
    return *input && *mask ? AMP_OK : amp_pending_error();
}

amp_status amp_op_masked_select(amp_call *call) {
    const amp_masked_select_args *a = call->args;
    amp_tensor *input = a->input, *mask = a->mask;
    AMP_TRY(stretch(call, &input, &mask));
    amp_tensor *places = amp_places_of(call, mask, true), *flat = places ? amp_flattened(input) : NULL;
    return amp_return(call, flat ? amp_index_select(flat, 0, places) : NULL);
}

amp_status amp_op_masked_scatter(amp_call *call) {
    const amp_masked_scatter_args *a = call->args;
    amp_tensor *input = a->input, *mask = a->mask, *source = a->source;
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, "source", source));
    AMP_TRY(stretch(call, &input, &mask));
    amp_tensor *places = amp_places_of(call, mask, true);
    if (!places) return amp_pending_error();
    const int64_t count = places->shape[0];
    if (amp_tensor_elements(source) < count) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'mask' holds at %lld places, for which 'source' %s has too few elements",
                        amp_call_name(call), (long long)count, amp_describe(source));
    }
    const amp_dims shape = amp_shape_of(input);
    amp_tensor *flat = amp_flattened(input), *all = flat ? amp_flattened(source) : NULL;
    amp_tensor *values = all ? amp_narrow(all, 0, 0, count) : NULL;
    flat = values ? amp_index_copy(flat, 0, places, values) : NULL;
    return amp_return(call, flat ? amp_reshape(flat, shape) : NULL);
}
