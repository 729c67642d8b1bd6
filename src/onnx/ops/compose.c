#include "onnx/ops/compose.h"

#include <string.h>

#include "core/memory.h"
#include "onnx/ops/pieces.h"

amp_tensor *amp_onnx_call(const char *op, amp_tensor *const *tensors, int count) {
    enum { MOST = 4 };
    amp_argument arguments[MOST];
    amp_tensor *result = NULL;
    memset(arguments, 0, sizeof arguments);
    for (int i = 0; i < count && i < MOST; i++) {
        arguments[i].value.kind = AMP_VALUE_TENSOR;
        arguments[i].value.as.tensor = tensors[i];
    }
    return amp_call_op(op, arguments, count, &result, 1, NULL) == AMP_OK ? result : NULL;
}

void amp_onnx_meet(amp_tensor **tensors, int count) {
    amp_device there = AMP_DEVICE_CPU;
    for (int i = 0; i < count; i++) {
        if (tensors[i] && amp_tensor_device(tensors[i]) != AMP_DEVICE_CPU) there = amp_tensor_device(tensors[i]);
    }
    for (int i = 0; i < count && there != AMP_DEVICE_CPU; i++) {
        if (tensors[i] && amp_tensor_device(tensors[i]) != there) tensors[i] = amp_to_device(tensors[i], there);
    }
}

bool amp_onnx_operands(const amp_onnx_step *s, amp_tensor **operands, int count) {
    for (int i = 0; i < count; i++) {
        operands[i] = amp_onnx_required(s, i);
        if (!operands[i]) return false;
    }
    amp_onnx_meet(operands, count);
    return !amp_failed();
}

amp_dims amp_onnx_dims(int count, const int64_t *values) {
    amp_dims dims = {.count = count, .set = AMP_PRESENT};
    for (int i = 0; values && i < count && i < AMP_MAX_RANK; i++) dims.values[i] = values[i];
    return dims;
}

amp_tensor *amp_onnx_as(amp_tensor *t, amp_dtype dtype) {
    return t && t->dtype == dtype ? t : amp_to(t, dtype);
}

amp_status amp_onnx_read_number(const amp_onnx_step *s, const amp_tensor *t, amp_scalar *number) {
    if (!t) return amp_pending_error();
    if (amp_tensor_numel(t) != 1)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s; expected one number", amp_describe(t));
    double real = 0;
    int64_t integer = 0;
    if (amp_onnx_is_integer(t)) {
        AMP_TRY(amp_read(t, AMP_I64, &integer, sizeof integer));
        *number = t->dtype == AMP_BOOL ? amp_bool(integer != 0) : amp_int(integer);
    } else {
        AMP_TRY(amp_read(t, AMP_F64, &real, sizeof real));
        *number = amp_float(real);
    }
    return AMP_OK;
}

amp_status amp_onnx_check_made(const amp_onnx_step *s, const amp_tensor *from, int rank, const int64_t *shape) {
    enum { TIMES = 16 };
    const int64_t given = from ? amp_tensor_numel(from) : 0;
    const int64_t most =
        given > AMP_ONNX_MOST_MADE / TIMES && given < INT64_MAX / TIMES ? TIMES * given : AMP_ONNX_MOST_MADE;
    return amp_onnx_product(s, rank, shape, most) < 0 ? amp_pending_error() : AMP_OK;
}

void *amp_onnx_room(const amp_onnx_step *s, int64_t count) {
    const int64_t most = INT64_MAX / (int64_t)sizeof(int64_t);
    void *room = count <= most ? amp_alloc((size_t)count * sizeof(int64_t)) : NULL;
    if (!room) (void)amp_onnx_fail(s, AMP_ERROR_MEMORY, "no memory for %lld numbers", (long long)count);
    return room;
}

int64_t *amp_onnx_all_ints(const amp_onnx_step *s, const amp_tensor *t) {
    if (!t) return NULL;
    const int64_t count = amp_tensor_numel(t);
    int64_t *all = amp_onnx_room(s, count);
    if (all && amp_onnx_read_ints(s, t, all, count) < 0) {
        amp_free(all);
        all = NULL;
    }
    return all;
}

int64_t amp_onnx_extent(const amp_tensor *t, int from, int to) {
    int64_t product = 1;
    for (int d = from; d < to; d++) {
        if (t->shape[d] == 0) return 0;
        if (__builtin_mul_overflow(product, t->shape[d], &product)) product = INT64_MAX;
    }
    return product;
}

amp_tensor *amp_onnx_vector_beside(const amp_tensor *beside, const int64_t *values, int64_t count) {
    amp_tensor *t = amp_from_data(values, AMP_I64, 1, &count);
    const amp_device device = amp_tensor_device(beside);
    return device == AMP_DEVICE_CPU ? t : amp_to_device(t, device);
}

int64_t amp_onnx_list(const amp_onnx_step *s, int i, const char *name, int64_t *to, int room) {
    int count = 0;
    const int64_t *list = amp_onnx_ints(s, name, &count);
    const amp_tensor *t = list ? NULL : amp_onnx_input(s, i);
    if (!list) return t ? amp_onnx_read_ints(s, t, to, room) : 0;
    if (count > room) {
        (void)amp_onnx_fail(s, AMP_ERROR_INVALID, "%d numbers in '%s'; expected at most %d", count, name, room);
        return -1;
    }
    memcpy(to, list, (size_t)count * sizeof *to);
    return count;
}
