/* Fourier transforms: lines are laid out one after the other, transformed, and put where they belong, with their
 * scale. */
#include <string.h>

#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_elementwise.h"

static const char op[] = "fft";

static amp_dtype real_of(amp_dtype dtype) {
    return dtype == AMP_F64 || dtype == AMP_C128 ? AMP_F64 : AMP_F32;
}
static amp_dtype complex_of(amp_dtype dtype) {
    return real_of(dtype) == AMP_F64 ? AMP_C128 : AMP_C64;
}

/* The lines of a tensor last, each of `length`. */
static amp_tensor lines_last(const amp_fft_lines *w, const amp_tensor *t, int64_t length) {
    amp_tensor moved = *t;
    int at = 0;
    for (int d = 0; d < t->rank; d++) {
        if (d == w->dim) continue;
        moved.shape[at] = w->extents[d];
        moved.strides[at++] = t->strides[d];
    }
    moved.shape[at] = length;
    moved.strides[at] = t->strides[w->dim];
    return moved;
}

static amp_tensor *dense_like(const amp_tensor *t, amp_dtype dtype) {
    return amp_backend_tensor(AMP_DEVICE_CUDA, op, dtype, t->rank, t->shape);
}

/* The real numbers that complex ones are made of: their real parts (0) or imaginary ones (1). */
static amp_tensor part_of(const amp_tensor *t, int part) {
    amp_tensor half = *t;
    half.dtype = real_of(t->dtype);
    half.offset = 2 * t->offset + part;
    for (int d = 0; d < t->rank; d++) half.strides[d] = 2 * t->strides[d];
    return half;
}

static amp_status scale_into(amp_tensor *to, const amp_tensor *from, double scale) {
    const amp_operand v[2] = {amp_tensor_operand("lines", (amp_tensor *)from),
                              amp_number_operand("scale", amp_float(scale))};
    return amp_cuda_compute(NULL, AMP_FORMULA_mul, v, 2, to->dtype, (amp_formula_numbers){0}, to);
}

/* to = scale · from, or of its conjugate. */
static amp_status put_lines(amp_tensor *to, const amp_tensor *from, double scale, bool conjugate) {
    if (scale == 1.0 && !conjugate) return amp_copy_tensor(to, from);
    if (!amp_dtype_is_complex(to->dtype)) return scale_into(to, from, scale);
    for (int part = 0; part < 2; part++) {
        amp_tensor target = part_of(to, part);
        const amp_tensor source = part_of(from, part);
        AMP_TRY(scale_into(&target, &source, part && conjugate ? -scale : scale));
    }
    return AMP_OK;
}

/* Dense lines of `length`, cut or with zeros behind what there is. */
static amp_tensor *read_lines(const amp_fft_lines *w, amp_dtype dtype, int64_t length) {
    const int64_t given = w->extents[w->dim] < length ? w->extents[w->dim] : length;
    const amp_scalar zero = amp_float(0.0);
    const amp_tensor from = lines_last(w, w->from, given);
    amp_tensor whole = from;
    whole.shape[whole.rank - 1] = length;
    amp_tensor *lines = dense_like(&whole, dtype);
    if (!lines || (given < length && amp_fill_tensor_with(lines, &zero) != AMP_OK)) return NULL;
    amp_tensor part = *lines;
    part.shape[part.rank - 1] = given;
    if (given == 0) return lines;
    if (amp_dtype_is_complex(from.dtype))
        return put_lines(&part, &from, 1.0, w->conjugate_input) == AMP_OK ? lines : NULL;
    return amp_copy_tensor(&part, &from) == AMP_OK ? lines : NULL;
}

static amp_status transform(const amp_fft_lines *w, const amp_tensor *in, const amp_tensor *out) {
    static const amp_cuda_transform_form forms[] = {
        [AMP_FFT_C2C] = AMP_CUDA_C2C, [AMP_FFT_R2C] = AMP_CUDA_R2C, [AMP_FFT_C2R] = AMP_CUDA_C2R};
    const amp_cuda_transform t = {.form = forms[w->form],
                                  .f64 = real_of(in->dtype) == AMP_F64,
                                  .inverse = w->inverse,
                                  .n = w->n,
                                  .count = amp_tensor_elements(in) / in->shape[in->rank - 1],
                                  .in = amp_cuda_address(op, in),
                                  .out = amp_cuda_address(op, out)};
    if (!t.in || !t.out) return amp_pending_error();
    return amp_cuda_status(op, amp_cuda_loaded()->transform(&t));
}

amp_status amp_cuda_fft_lines(const amp_fft_lines *w) {
    const int64_t half = w->n / 2 + 1;
    const amp_dtype real = real_of(w->from->dtype), complex = complex_of(w->from->dtype);
    for (int d = 0; d < w->from->rank; d++) {
        if (d != w->dim && w->extents[d] == 0) return AMP_OK;
    }
    amp_tensor *in = read_lines(w, w->form == AMP_FFT_R2C ? real : complex, w->form == AMP_FFT_C2R ? half : w->n);
    if (!in) return amp_pending_error();
    amp_tensor to = lines_last(w, w->to, w->form == AMP_FFT_R2C ? half : w->n);
    amp_tensor *out = dense_like(&to, w->form == AMP_FFT_C2R ? real : complex);
    if (!out) return amp_pending_error();
    AMP_TRY(transform(w, in, out));
    return put_lines(&to, out, w->scale, w->conjugate_output);
}
