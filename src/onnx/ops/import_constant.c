/* Ops that make tensors of numbers. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "onnx/ops.h"
#include "onnx/ops/compose.h"

/* A list of real numbers, which are f32. */
static amp_tensor *floats(const amp_onnx_step *s, const char *name) {
    int count = 0;
    const double *numbers = amp_onnx_floats(s, name, &count);
    const int64_t extent = count;
    float *rounded = amp_alloc((size_t)count * sizeof *rounded);
    if (!rounded) {
        (void)amp_onnx_fail(s, AMP_ERROR_MEMORY, "no memory for %d numbers", count);
        return NULL;
    }
    for (int i = 0; i < count; i++) rounded[i] = (float)numbers[i];
    amp_tensor *t = amp_from_data(rounded, AMP_F32, 1, &extent);
    amp_free(rounded);
    return t;
}

static amp_tensor *integers(const amp_onnx_step *s, const char *name) {
    int count = 0;
    const int64_t *numbers = amp_onnx_ints(s, name, &count);
    const int64_t extent = count;
    return amp_from_data(numbers, AMP_I64, 1, &extent);
}

amp_status onnx_constant(amp_onnx_step *s) {
    if (amp_onnx_has(s, "value_floats")) return amp_onnx_set(s, 0, floats(s, "value_floats"));
    if (amp_onnx_has(s, "value_ints")) return amp_onnx_set(s, 0, integers(s, "value_ints"));
    if (amp_onnx_has(s, "value_float")) {
        const float number = (float)amp_onnx_float(s, "value_float", 0);
        return amp_onnx_set(s, 0, amp_from_data(&number, AMP_F32, 0, NULL));
    }
    if (amp_onnx_has(s, "value_int")) {
        const int64_t number = amp_onnx_int(s, "value_int", 0);
        return amp_onnx_set(s, 0, amp_from_data(&number, AMP_I64, 0, NULL));
    }
    amp_tensor *value = amp_onnx_tensor(s, "value");
    return value ? amp_onnx_set(s, 0, value) : amp_onnx_fail(s, AMP_ERROR_INVALID, "there is no value");
}

amp_status onnx_constant_of_shape(amp_onnx_step *s) {
    const amp_tensor *given = amp_onnx_required(s, 0), *value = amp_onnx_tensor(s, "value");
    amp_dims shape = amp_onnx_dims(0, NULL);
    amp_scalar number = amp_float(0);
    const int64_t count = amp_onnx_read_ints(s, given, shape.values, AMP_MAX_RANK);
    if (count < 0) return amp_pending_error();
    shape.count = (int)count;
    AMP_TRY(amp_onnx_check_made(s, NULL, shape.count, shape.values));
    if (value) AMP_TRY(amp_onnx_read_number(s, value, &number));
    return amp_onnx_set(
        s, 0, amp_full(shape, number, .dtype = value ? value->dtype : AMP_F32, .device = amp_tensor_device(given)));
}

static double as_double(const amp_scalar *x) {
    return x->kind == AMP_SCALAR_INT ? (double)x->i : x->re;
}

/* As many numbers as there are from start up to, without, the limit: none where the step leads away from it. */
amp_status onnx_range(amp_onnx_step *s) {
    const amp_tensor *first = amp_onnx_required(s, 0);
    amp_scalar start, limit, step;
    if (!first) return amp_pending_error();
    AMP_TRY(amp_onnx_read_number(s, first, &start));
    AMP_TRY(amp_onnx_read_number(s, amp_onnx_required(s, 1), &limit));
    AMP_TRY(amp_onnx_read_number(s, amp_onnx_required(s, 2), &step));
    const double way = as_double(&limit) - as_double(&start), stride = as_double(&step);
    if (stride == 0) return amp_onnx_fail(s, AMP_ERROR_INVALID, "the step is 0");
    const amp_device device = amp_tensor_device(first);
    if (isnan(way) || isnan(stride)) return amp_onnx_fail(s, AMP_ERROR_INVALID, "a number is NaN");
    if (way == 0 || (way < 0) != (stride < 0))
        return amp_onnx_set(s, 0, amp_empty(AMP_DIMS(0), .dtype = first->dtype, .device = device));
    const double steps = way / stride;
    const int64_t bound = steps < 0x1p62 ? (int64_t)steps : INT64_MAX;
    AMP_TRY(amp_onnx_check_made(s, NULL, 1, &bound));
    return amp_onnx_set(s, 0, amp_arange_start(start, limit, .step = step, .dtype = first->dtype, .device = device));
}

/* 1 where the column is the row plus k. */
amp_status onnx_eye_like(amp_onnx_step *s) {
    const amp_tensor *x = amp_onnx_required(s, 0);
    if (!x) return amp_pending_error();
    if (x->rank != 2) return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s; expected a matrix", amp_describe(x));
    const amp_dtype dtype = amp_onnx_has(s, "dtype") ? amp_onnx_dtype(s, amp_onnx_int(s, "dtype", 0)) : x->dtype;
    if (dtype == AMP_DTYPE_NONE) return amp_pending_error();
    const amp_device device = amp_tensor_device(x);
    amp_tensor *rows = amp_arange(amp_int(x->shape[0]), .device = device);
    amp_tensor *columns = amp_arange(amp_int(x->shape[1]), .device = device);
    rows = amp_unsqueeze(amp_add_scalar(rows, amp_int(amp_onnx_int(s, "k", 0))), 1);
    return amp_onnx_set(s, 0, amp_to(amp_eq(rows, columns), dtype));
}
