/* clone, contiguous, to, fill, and the ops that make tensors from numbers. */
#include "cpu/convert/copy.h"

#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/convert/convert.h"
#include "cpu/convert/element.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/convert/strided_copy.h"
#include "cuda/ops/cuda_elementwise.h"
#include "dispatch/backend.h"

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

/* `like`: whose layout the copy has; NULL: contiguous. */
static amp_status return_copy(amp_call *call, const amp_tensor *input, amp_dtype dtype, const amp_tensor *like) {
    amp_tensor *out = amp_call_output_like(call, 0, dtype, input->rank, input->shape, like);
    return out ? amp_copy_tensor(out, input) : amp_pending_error();
}

amp_status cpu_clone(amp_call *call) {
    const amp_clone_args *a = call->args;
    return return_copy(call, a->input, a->input->dtype, a->input);
}

amp_status cpu_contiguous(amp_call *call) {
    const amp_contiguous_args *a = call->args;
    if (!amp_tensor_is_dense(a->input)) return return_copy(call, a->input, a->input->dtype, NULL);
    call->outputs[0] = a->input;
    return AMP_OK;
}

amp_status cpu_to(amp_call *call) {
    const amp_to_args *a = call->args;
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype;
    if (dtype != a->input->dtype || a->copy) return return_copy(call, a->input, dtype, a->input);
    call->outputs[0] = a->input;
    return AMP_OK;
}

/* ---- Constants ------------------------------------------------------------------------------------------------ */

static double real_part(const amp_scalar *s) {
    return s->kind == AMP_SCALAR_INT || s->kind == AMP_SCALAR_BOOL ? (double)s->i : s->re;
}

static int64_t whole_part(const amp_scalar *s) {
    if (s->kind == AMP_SCALAR_INT || s->kind == AMP_SCALAR_BOOL) return s->i;
    return s->re >= -0x1p63 && s->re < 0x1p63 ? (int64_t)s->re : INT64_MIN;
}

amp_constant amp_constant_of(const amp_scalar *number, amp_dtype compute) {
    amp_constant c = {.c128 = {0.0, 0.0}};
    switch (compute) {
    case AMP_F32: c.f32 = (float)real_part(number); break;
    case AMP_F64: c.f64 = real_part(number); break;
    case AMP_BF16: c.half = amp_bf16_from_f32((float)real_part(number)); break;
    case AMP_F16: c.half = amp_f16_from_f32((float)real_part(number)); break;
    case AMP_BOOL: c.boolean = real_part(number) != 0.0 || number->im != 0.0; break;
    case AMP_C128:
        c.c128[0] = real_part(number);
        c.c128[1] = number->kind == AMP_SCALAR_COMPLEX ? number->im : 0.0;
        break;
    default: c.i64 = whole_part(number); break;
    }
    return c;
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

/* Finite numbers that would become infinite, and numbers beyond an integer type. Of an unsigned type, what is below 0
 * counts from its end, as in PyTorch. */
static bool fits(const amp_scalar *number, amp_dtype dtype) {
    const double most_of_float = amp_dtype_largest(dtype);
    static const int64_t most_of_int[AMP_DTYPE_COUNT] = {
        [AMP_I32] = INT32_MAX, [AMP_I16] = INT16_MAX, [AMP_I8] = INT8_MAX, [AMP_U8] = UINT8_MAX};
    const bool is_whole = number->kind == AMP_SCALAR_INT || number->kind == AMP_SCALAR_BOOL;
    const double x = real_part(number);
    if (most_of_float != 0.0) {
        const double y = number->kind == AMP_SCALAR_COMPLEX ? fabs(number->im) : 0.0;
        return !(fabs(x) > most_of_float && !isinf(x)) && !(y > most_of_float && !isinf(y));
    }
    if (dtype == AMP_I64) return is_whole || (x >= -0x1p63 && x < 0x1p63);
    if (most_of_int[dtype] == 0) return true;
    const double most = (double)most_of_int[dtype], least = dtype == AMP_U8 ? -most : -most - 1.0;
    return trunc(x) >= least && trunc(x) <= most;
}

amp_status amp_check_element(const amp_call *call, const char *argument, const amp_scalar *number, amp_dtype dtype) {
    if (number->kind == AMP_SCALAR_COMPLEX && !amp_dtype_is_complex(dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is a complex number, and cannot be an element of a tensor of %s",
                        amp_call_name(call), argument, amp_dtype_name(dtype));
    }
    if (fits(number, dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %.9g, which %s cannot hold", amp_call_name(call), argument,
                    real_part(number), amp_dtype_name(dtype));
}

static amp_status return_filled(amp_call *call, const char *argument, amp_dtype dtype, int rank, const int64_t *shape,
                                const amp_tensor *like, amp_scalar value) {
    AMP_TRY(amp_check_element(call, argument, &value, dtype));
    amp_tensor *out = amp_call_output_like(call, 0, dtype, rank, shape, like);
    if (!out) return amp_pending_error();
    return amp_fill_tensor_with(out, &value);
}

amp_status cpu_fill(amp_call *call) {
    const amp_fill_args *a = call->args;
    return return_filled(call, "value", a->input->dtype, a->input->rank, a->input->shape, a->input, a->value);
}

amp_status cpu_fill_tensor(amp_call *call) {
    const amp_fill_tensor_args *a = call->args;
    if (a->value->rank > 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'value' is %s; expected a 0-dim tensor", amp_call_name(call),
                        amp_describe(a->value));
    }
    const amp_tensor *like = a->input;
    amp_tensor *out = amp_call_output_like(call, 0, like->dtype, like->rank, like->shape, like);
    return out ? amp_copy_tensor(out, a->value) : amp_pending_error();
}

/* ---- Tensors from numbers ------------------------------------------------------------------------------------- */

static amp_status check_size(const amp_call *call, const amp_dims *size) {
    if (size->count <= AMP_MAX_RANK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: 'size' has %d extents, at most %d are possible", amp_call_name(call),
                    size->count, AMP_MAX_RANK);
}

static amp_dtype or_else(amp_dtype dtype, amp_dtype otherwise) {
    return dtype == AMP_DTYPE_NONE ? otherwise : dtype;
}

static amp_dtype dtype_of_number(const amp_scalar *number) {
    switch (number->kind) {
    case AMP_SCALAR_BOOL: return AMP_BOOL;
    case AMP_SCALAR_INT: return AMP_I64;
    case AMP_SCALAR_COMPLEX: return AMP_C64;
    default: return AMP_F32;
    }
}

#define MAKE_FROM_SIZE(op, value)                                                                                      \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        AMP_TRY(check_size(call, &a->size));                                                                           \
        return return_filled(call, "value", or_else(a->dtype, AMP_F32), a->size.count, a->size.values, NULL, value);   \
    }
#define MAKE_LIKE(op, number)                                                                                          \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_tensor *like = a->input;                                                                             \
        return return_filled(call, "fill_value", or_else(a->dtype, like->dtype), like->rank, like->shape, like,        \
                             number);                                                                                  \
    }
MAKE_FROM_SIZE(zeros, amp_int(0))
MAKE_FROM_SIZE(ones, amp_int(1))
MAKE_LIKE(zeros_like, amp_int(0))
MAKE_LIKE(ones_like, amp_int(1))
MAKE_LIKE(full_like, a->fill_value)

amp_status cpu_full(amp_call *call) {
    const amp_full_args *a = call->args;
    AMP_TRY(check_size(call, &a->size));
    return return_filled(call, "fill_value", or_else(a->dtype, dtype_of_number(&a->fill_value)), a->size.count,
                         a->size.values, NULL, a->fill_value);
}

amp_status cpu_empty(amp_call *call) {
    const amp_empty_args *a = call->args;
    AMP_TRY(check_size(call, &a->size));
    const bool made = amp_call_output(call, 0, or_else(a->dtype, AMP_F32), a->size.count, a->size.values);
    return made ? AMP_OK : amp_pending_error();
}

amp_status cpu_empty_like(amp_call *call) {
    const amp_empty_like_args *a = call->args;
    const amp_tensor *like = a->input;
    const bool made = amp_call_output_like(call, 0, or_else(a->dtype, like->dtype), like->rank, like->shape, like);
    return made ? AMP_OK : amp_pending_error();
}

/* start + i·step, in f64 or, for integers, exactly; a piece at a time. */
static amp_status write_range(amp_tensor *out, const amp_scalar *start, const amp_scalar *step) {
    if (out->storage->device == AMP_DEVICE_CUDA) return amp_cuda_write_range("arange", out, start, step);
    const bool whole = amp_compute_dtype(out->dtype) == AMP_I64;
    const double first = real_part(start), by = real_part(step);
    const uint64_t first_whole = (uint64_t)whole_part(start), by_whole = (uint64_t)whole_part(step);
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

/* ⌈(end − start)/step⌉, exactly for whole numbers. */
static double range_length(const amp_scalar *start, const amp_scalar *end, const amp_scalar *step, bool whole) {
    if (!whole || step->i == 0) return ceil((real_part(end) - real_part(start)) / real_part(step));
    int64_t span;
    if (__builtin_sub_overflow(end->i, start->i, &span) || span == INT64_MIN) return INFINITY;
    if (span != 0 && (span < 0) != (step->i < 0)) return -1.0;
    const int64_t length = span / step->i + (span % step->i != 0);
    return (double)length;
}

static amp_status return_range(amp_call *call, const amp_scalar *start, const amp_scalar *end, const amp_scalar *step,
                               amp_dtype dtype) {
    const double from = real_part(start), to = real_part(end), by = real_part(step);
    const bool whole = start->kind == AMP_SCALAR_INT && end->kind == AMP_SCALAR_INT && step->kind == AMP_SCALAR_INT;
    const double length = range_length(start, end, step, whole);
    if (!(by != 0.0 && isfinite(from) && isfinite(to) && isfinite(length) && length >= 0.0 && length < 0x1p53)) {
        return amp_fail(AMP_ERROR_INVALID, "arange: there is no finite range from %g to %g in steps of %g", from, to,
                        by);
    }
    const int64_t shape[1] = {(int64_t)length};
    amp_tensor *out = amp_call_dense_output(call, or_else(dtype, whole ? AMP_I64 : AMP_F32), 1, shape);
    return out ? write_range(out, start, step) : amp_pending_error();
}

amp_status cpu_arange(amp_call *call) {
    const amp_arange_args *a = call->args;
    const amp_scalar zero = amp_int(0), one = amp_int(1);
    return return_range(call, &zero, &a->end, &one, a->dtype);
}

amp_status cpu_arange_start(amp_call *call) {
    const amp_arange_start_args *a = call->args;
    return return_range(call, &a->start, &a->end, &a->step, a->dtype);
}
