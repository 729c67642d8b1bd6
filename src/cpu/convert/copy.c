/* Copies, constants and ranges. */
#include "cpu/convert/copy.h"

#include "core/compute_dtype.h"
#include "cpu/convert/element.h"
#include "cpu/convert/strided_copy.h"
#include "steps/constants.h"

/* ---- Copies --------------------------------------------------------------------------------------------------- */

amp_status amp_cpu_copy(amp_tensor *destination, const amp_tensor *source) {
    int64_t strides[AMP_MAX_RANK];
    for (int d = 0; d < destination->rank; d++) {
        const int from = d - (destination->rank - source->rank);
        strides[d] = from < 0 || source->shape[from] == 1 ? 0 : source->strides[from];
    }
    return amp_strided_copy(amp_tensor_pointer(destination), destination->dtype, destination->strides,
                            amp_tensor_pointer(source), source->dtype, strides, destination->rank, destination->shape);
}

static bool tail_is_dense(const amp_tensor *t, int first) {
    int64_t expected = 1;
    for (int d = t->rank - 1; d >= first; d--) {
        if (t->shape[d] != 1 && t->strides[d] != expected) return false;
        expected *= t->shape[d];
    }
    return true;
}

const amp_tensor *amp_cpu_dense(const char *op, const amp_tensor *tensor, amp_dtype dtype, int first) {
    if (tensor->dtype == dtype && tail_is_dense(tensor, first)) return tensor;
    amp_tensor *copy = amp_tensor_new(op, dtype, tensor->rank, tensor->shape);
    return copy && amp_cpu_copy(copy, tensor) == AMP_OK ? copy : NULL;
}

void amp_cpu_fill(amp_tensor *tensor, const amp_scalar *value) {
    const amp_dtype compute = tensor->dtype == AMP_BOOL ? AMP_BOOL : amp_compute_dtype(tensor->dtype);
    const amp_constant constant = amp_constant_of(value, compute);
    static const int64_t stay[AMP_MAX_RANK];
    char element[16];
    amp_block_store(compute, &constant, tensor->dtype, element, 0, 1);
    amp_strided_copy(amp_tensor_pointer(tensor), tensor->dtype, tensor->strides, element, tensor->dtype, stay,
                     tensor->rank, tensor->shape);
}

/* start + i·step, in f64 or, for integers, exactly; a piece at a time. */
amp_status amp_cpu_write_range(amp_tensor *out, const amp_scalar *start, const amp_scalar *step) {
    const bool whole = amp_compute_dtype(out->dtype) == AMP_I64;
    const double first = amp_real_part(start), by = amp_real_part(step);
    const uint64_t first_whole = (uint64_t)amp_whole_part(start), by_whole = (uint64_t)amp_whole_part(step);
    const int64_t size = (int64_t)amp_dtype_size(out->dtype), n = out->shape[0];
    char *to = amp_tensor_pointer(out);
    enum { PIECE = 256 };
    uint64_t exact[PIECE];
    double real[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t count = n - i < PIECE ? n - i : PIECE;
        for (int64_t k = 0; whole && k < count; k++) exact[k] = first_whole + (uint64_t)(i + k) * by_whole;
        for (int64_t k = 0; !whole && k < count; k++) real[k] = first + (double)(i + k) * by;
        amp_block_store(whole ? AMP_I64 : AMP_F64, whole ? (const void *)exact : real, out->dtype, to + i * size, size,
                        count);
    }
    return AMP_OK;
}
