/* clone, contiguous, to, fill, and the ops that make tensors from numbers. */
#include "cpu/copy.h"

#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/element.h"
#include "cpu/elementwise.h"
#include "cpu/iterate.h"
#include "cpu/kernels.h"
#include "dispatch/call.h"

/* ---- Copies --------------------------------------------------------------------------------------------------- */

typedef struct copy_types {
    amp_dtype to, from;
    int64_t to_size, from_size;
    amp_convert_function *convert; /* for dense runs; NULL where there is no such kernel */
} copy_types;

typedef struct pair64 {
    uint64_t first, second;
} pair64;

#define COPY_STRIDED(type)                                                                                             \
    for (int64_t i = 0; i < n; i++) *(type *)(void *)(to + i * ts) = *(const type *)(const void *)(from + i * fs)

static void copy_same(char *to, int64_t ts, const char *from, int64_t fs, int64_t n, int64_t size) {
    if (ts == size && fs == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: COPY_STRIDED(uint8_t); break;
    case 2: COPY_STRIDED(uint16_t); break;
    case 4: COPY_STRIDED(uint32_t); break;
    case 8: COPY_STRIDED(uint64_t); break;
    default: COPY_STRIDED(pair64); break;
    }
}

static void copy_converted(const copy_types *c, char *to, int64_t ts, const char *from, int64_t fs, int64_t n) {
    const amp_dtype compute = amp_compute_dtype(c->from);
    const int64_t block = AMP_BLOCK_BYTES / (int64_t)amp_dtype_size(compute);
    _Alignas(64) char buffer[AMP_BLOCK_BYTES];
    for (int64_t at = 0; at < n; at += block) {
        const int64_t count = n - at < block ? n - at : block;
        amp_block_load(compute, buffer, c->from, from + at * fs, fs, count);
        amp_block_store(compute, buffer, c->to, to + at * ts, ts, count);
    }
}

static void copy_inner(void *context, char *const *data, const int64_t *strides, int64_t n) {
    const copy_types *c = context;
    if (c->to == c->from) copy_same(data[0], strides[0], data[1], strides[1], n, c->to_size);
    else if (c->convert && strides[0] == c->to_size && strides[1] == c->from_size) c->convert(data[0], data[1], n);
    else copy_converted(c, data[0], strides[0], data[1], strides[1], n);
}

static bool has_convert_kernel(amp_dtype to, amp_dtype from) {
    return (to == AMP_F32 && (from == AMP_BF16 || from == AMP_F16)) ||
           (from == AMP_F32 && (to == AMP_BF16 || to == AMP_F16));
}

amp_status amp_cpu_copy(amp_tensor *destination, const amp_tensor *source) {
    copy_types c = {.to = destination->dtype,
                    .from = source->dtype,
                    .to_size = (int64_t)amp_dtype_size(destination->dtype),
                    .from_size = (int64_t)amp_dtype_size(source->dtype)};
    if (has_convert_kernel(c.to, c.from)) {
        c.convert = (amp_convert_function *)amp_kernel_get(AMP_KERNEL_CONVERT, c.from, c.to);
        if (!c.convert) return amp_pending_error();
    }
    amp_block_prepare();
    amp_iterator it;
    amp_iterator_start(&it, destination->rank, destination->shape);
    amp_iterator_add(&it, destination);
    amp_iterator_add(&it, source);
    amp_iterator_run(&it, copy_inner, &c, 1);
    return AMP_OK;
}

static amp_status return_copy(amp_call *call, const amp_tensor *input, amp_dtype dtype) {
    amp_tensor *out = amp_call_output(call, 0, dtype, input->rank, input->shape);
    return out ? amp_cpu_copy(out, input) : amp_pending_error();
}

amp_status cpu_clone(amp_call *call) {
    const amp_clone_args *a = call->args;
    return return_copy(call, a->input, a->input->dtype);
}

amp_status cpu_contiguous(amp_call *call) {
    const amp_contiguous_args *a = call->args;
    if (!amp_tensor_is_dense(a->input)) return return_copy(call, a->input, a->input->dtype);
    call->outputs[0] = a->input;
    return AMP_OK;
}

amp_status cpu_to(amp_call *call) {
    const amp_to_args *a = call->args;
    const amp_dtype dtype = a->dtype == AMP_DTYPE_NONE ? a->input->dtype : a->dtype;
    if (dtype != a->input->dtype || a->copy) return return_copy(call, a->input, dtype);
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
    copy_types c = {.to = tensor->dtype, .from = tensor->dtype, .to_size = (int64_t)amp_dtype_size(tensor->dtype)};
    char element[16];
    amp_block_store(compute, &constant, tensor->dtype, element, 0, 1);
    amp_iterator it;
    amp_iterator_start(&it, tensor->rank, tensor->shape);
    amp_iterator_add(&it, tensor);
    amp_iterator_add_memory(&it, element, stay);
    amp_iterator_run(&it, copy_inner, &c, 1);
}

static amp_status check_number(const amp_call *call, const char *argument, const amp_scalar *number, amp_dtype dtype) {
    if (number->kind != AMP_SCALAR_COMPLEX || amp_dtype_is_complex(dtype)) return AMP_OK;
    return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is a complex number, and cannot be an element of a tensor of %s",
                    amp_call_name(call), argument, amp_dtype_name(dtype));
}

static amp_status return_filled(amp_call *call, const char *argument, amp_dtype dtype, int rank, const int64_t *shape,
                                amp_scalar value) {
    AMP_TRY(check_number(call, argument, &value, dtype));
    amp_tensor *out = amp_call_output(call, 0, dtype, rank, shape);
    if (!out) return amp_pending_error();
    amp_cpu_fill(out, &value);
    return AMP_OK;
}

amp_status cpu_fill(amp_call *call) {
    const amp_fill_args *a = call->args;
    return return_filled(call, "value", a->input->dtype, a->input->rank, a->input->shape, a->value);
}

amp_status cpu_fill_tensor(amp_call *call) {
    const amp_fill_tensor_args *a = call->args;
    if (a->value->rank > 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'value' is %s; expected a 0-dim tensor", amp_call_name(call),
                        amp_describe(a->value));
    }
    amp_tensor *out = amp_call_output(call, 0, a->input->dtype, a->input->rank, a->input->shape);
    return out ? amp_cpu_copy(out, a->value) : amp_pending_error();
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
        return return_filled(call, "value", or_else(a->dtype, AMP_F32), a->size.count, a->size.values, value);         \
    }
#define MAKE_LIKE(op, number)                                                                                          \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const amp_tensor *like = a->input;                                                                             \
        return return_filled(call, "fill_value", or_else(a->dtype, like->dtype), like->rank, like->shape, number);     \
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
                         a->size.values, a->fill_value);
}

amp_status cpu_empty(amp_call *call) {
    const amp_empty_args *a = call->args;
    AMP_TRY(check_size(call, &a->size));
    const bool made = amp_call_output(call, 0, or_else(a->dtype, AMP_F32), a->size.count, a->size.values);
    return made ? AMP_OK : amp_pending_error();
}

amp_status cpu_empty_like(amp_call *call) {
    const amp_empty_like_args *a = call->args;
    const bool made = amp_call_output(call, 0, or_else(a->dtype, a->input->dtype), a->input->rank, a->input->shape);
    return made ? AMP_OK : amp_pending_error();
}

/* start + i·step, in f64 or, for integers, exactly. */
static void write_range(amp_tensor *out, const amp_scalar *start, const amp_scalar *step) {
    const bool whole = amp_compute_dtype(out->dtype) == AMP_I64;
    const double first = real_part(start), by = real_part(step);
    const uint64_t first_whole = (uint64_t)whole_part(start), by_whole = (uint64_t)whole_part(step);
    const int64_t size = (int64_t)amp_dtype_size(out->dtype), n = out->shape[0];
    char *to = amp_tensor_pointer(out);
    for (int64_t i = 0; i < n; i++) {
        const int64_t exact = (int64_t)(first_whole + (uint64_t)i * by_whole);
        const double real = first + (double)i * by;
        amp_block_store(whole ? AMP_I64 : AMP_F64, whole ? (const void *)&exact : &real, out->dtype,
                        to + i * out->strides[0] * size, size, 1);
    }
}

static amp_status return_range(amp_call *call, const amp_scalar *start, const amp_scalar *end, const amp_scalar *step,
                               amp_dtype dtype) {
    const double from = real_part(start), to = real_part(end), by = real_part(step);
    const bool whole = start->kind == AMP_SCALAR_INT && end->kind == AMP_SCALAR_INT && step->kind == AMP_SCALAR_INT;
    const double length = ceil((to - from) / by);
    if (!(by != 0.0 && isfinite(from) && isfinite(to) && isfinite(length) && length >= 0.0 && length < 0x1p53)) {
        return amp_fail(AMP_ERROR_INVALID, "arange: there is no finite range from %g to %g in steps of %g", from, to, by);
    }
    const int64_t shape[1] = {(int64_t)length};
    amp_tensor *out = amp_call_output(call, 0, or_else(dtype, whole ? AMP_I64 : AMP_F32), 1, shape);
    if (!out) return amp_pending_error();
    write_range(out, start, step);
    return AMP_OK;
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
