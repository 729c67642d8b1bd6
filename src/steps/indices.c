/* Tensors of indices. */
#include "steps/indices.h"

#include <string.h>

#include "call/backend.h"
#include "core/compute_dtype.h"

amp_tensor *amp_index_tensor(const amp_call *call, const char *argument, amp_tensor *index) {
    if (index->dtype == AMP_I64) return index;
    if (amp_compute_dtype(index->dtype) != AMP_I64 || index->dtype == AMP_BOOL) {
        amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected integers", amp_call_name(call), argument,
                 amp_describe(index));
        return NULL;
    }
    amp_tensor *copy = amp_backend_tensor(call->device, call->op->name, AMP_I64, index->rank, index->shape);
    return copy && amp_copy_tensor(copy, index) == AMP_OK ? copy : NULL;
}

/* ---- Views ---------------------------------------------------------------------------------------------------- */

amp_tensor amp_index_at_least_vector(const amp_tensor *tensor) {
    amp_tensor t = *tensor;
    if (t.rank > 0) return t;
    t.rank = 1;
    t.shape[0] = t.strides[0] = 1;
    return t;
}

amp_tensor amp_index_along(const amp_tensor *vector, int dim, int rank, const int64_t *shape) {
    amp_tensor t = *vector;
    const int64_t length = vector->rank ? vector->shape[0] : 1, step = vector->rank ? vector->strides[0] : 1;
    t.rank = rank;
    for (int d = 0; d < rank; d++) {
        t.shape[d] = d == dim ? length : shape[d];
        t.strides[d] = d == dim ? step : 0;
    }
    return t;
}
