/* Dimensions, inferred shapes, strides of reshaped views. */
#include "steps/shape_rules.h"

#include <string.h>

amp_status amp_wrap_dim(const amp_call *call, const char *argument, int64_t dim, int rank, int *wrapped) {
    const int64_t extent = rank ? rank : 1;
    if (dim < -extent || dim >= extent) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %lld, but the tensor has %d dimensions (%lld to %lld)",
                        amp_call_name(call), argument, (long long)dim, rank, (long long)-extent,
                        (long long)(extent - 1));
    }
    *wrapped = (int)(dim < 0 ? dim + extent : dim);
    return AMP_OK;
}

amp_status amp_check_dims(const amp_call *call, const char *argument, const amp_dims *dims) {
    if (!dims->set) return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is missing", amp_call_name(call), argument);
    if (dims->count >= 0 && dims->count <= AMP_MAX_RANK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' has %d values, at most %d are possible", amp_call_name(call), argument,
                    dims->count, AMP_MAX_RANK);
}

amp_status amp_wrap_dims(const amp_call *call, const char *argument, const amp_dims *dims, bool empty_is_all, int rank,
                         unsigned *mask) {
    const unsigned all = (1u << rank) - 1;
    *mask = all;
    if (!dims->set) return AMP_OK;
    AMP_TRY(amp_check_dims(call, argument, dims));
    if (dims->count == 0 && empty_is_all) return AMP_OK;
    *mask = 0;
    for (int i = 0; i < dims->count; i++) {
        int d = 0;
        AMP_TRY(amp_wrap_dim(call, argument, dims->values[i], rank, &d));
        if (*mask & 1u << d) {
            return amp_fail(AMP_ERROR_INVALID, "%s: dimension %d appears twice in '%s'", amp_call_name(call), d,
                            argument);
        }
        *mask |= 1u << d;
    }
    *mask &= all;
    return AMP_OK;
}

bool amp_view_strides(const amp_tensor *tensor, int rank, const int64_t *shape, int64_t *strides) {
    if (amp_tensor_elements(tensor) == 0 || amp_tensor_is_dense(tensor)) {
        amp_dense_strides(rank, shape, strides);
        return true;
    }
    int to = rank - 1;
    int64_t run = 1, placed = 1; /* elements of the tensor's run of mergeable dimensions, and of the new ones over it */
    int64_t step = tensor->rank ? tensor->strides[tensor->rank - 1] : 1;
    for (int from = tensor->rank - 1; from >= 0; from--) {
        run *= tensor->shape[from];
        const bool run_ends = from == 0 || (tensor->shape[from - 1] != 1 && tensor->strides[from - 1] != run * step);
        if (!run_ends) continue;
        while (to >= 0 && (placed < run || shape[to] == 1)) {
            strides[to] = placed * step;
            placed *= shape[to--];
        }
        if (placed != run) return false;
        if (from > 0) {
            step = tensor->strides[from - 1];
            run = placed = 1;
        }
    }
    return to < 0;
}

amp_status amp_infer_shape(const amp_call *call, const char *argument, const amp_dims *dims, const amp_tensor *tensor,
                           int64_t *shape) {
    AMP_TRY(amp_check_dims(call, argument, dims));
    const int64_t elements = amp_tensor_elements(tensor);
    int64_t known = 1;
    int open = -1;
    bool fits = true, several = false;
    for (int i = 0; i < dims->count; i++) {
        shape[i] = dims->values[i];
        several = several || (shape[i] == -1 && open >= 0);
        if (shape[i] == -1 && open < 0)
            open = i;
        else if (shape[i] < 0 || __builtin_mul_overflow(known, shape[i], &known))
            fits = false;
    }
    const bool inferred = open >= 0 && fits && known > 0 && elements % known == 0;
    if (inferred) shape[open] = elements / known;
    if (inferred || (open < 0 && fits && known == elements)) {
        int64_t counted;
        return amp_shape_elements(amp_call_name(call), dims->count, shape, &counted); /* [2^62, 4, 0] is no shape */
    }
    const char *hint = several                           ? " (only one extent may be -1)"
                       : open >= 0 && fits && known == 0 ? " (-1 beside a 0 could be anything)"
                                                         : "";
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, which does not hold the %lld elements of input %s%s",
                    amp_call_name(call), argument, amp_describe_shape(dims->count, dims->values), (long long)elements,
                    amp_describe(tensor), hint);
}

amp_status amp_return_view(amp_call *call, amp_tensor *base, int rank, const int64_t *shape, const int64_t *strides,
                           int64_t offset) {
    if (rank > AMP_MAX_RANK) {
        return amp_fail(AMP_ERROR_INVALID, "%s: the result would have %d dimensions, at most %d are possible",
                        amp_call_name(call), rank, AMP_MAX_RANK);
    }
    int64_t counted;
    AMP_TRY(amp_shape_elements(amp_call_name(call), rank, shape, &counted));
    call->outputs[0] = amp_tensor_view(call->op->name, base, rank, shape, strides, offset);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}
