/* DFT, STFT, windows, MelWeightMatrix. */
#include <math.h>
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"

static const double pi = 3.14159265358979323846;

/* ---- Transforms --------------------------------------------------------------------------------------------------- */

/* ONNX's complex numbers, a last dimension of 2, as libamp's; a last dimension of 1 is real. */
static amp_tensor *without_parts(const amp_onnx_step *s, amp_tensor *x) {
    const int64_t parts = x->rank > 1 ? x->shape[x->rank - 1] : 0;
    if (x->dtype == AMP_F16 || x->dtype == AMP_BF16) x = amp_to(x, AMP_F32);
    if (parts == 1) return amp_select(x, -1, 0);
    if (parts == 2) return amp_view_as_complex(amp_contiguous(x));
    amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s; expected a last dimension of 1 or 2", amp_describe(x));
    return NULL;
}

static amp_tensor *with_parts(amp_tensor *z, amp_dtype dtype) {
    amp_tensor *real = amp_to(z, dtype), *imaginary = amp_to(amp_mul_scalar(z, amp_complex(0, -1)), dtype);
    return amp_stack(AMP_LIST(real, imaginary), .dim = -1);
}

/* Along `axis` of x, to `length` elements; `half`: those up to the middle only. */
static amp_tensor *transform(amp_tensor *x, int64_t length, int64_t axis, bool inverse, bool half) {
    if (!x) return NULL;
    if (half && !inverse && !amp_dtype_is_complex(x->dtype)) {
        return amp_fft_rfft(x, .n = AMP_SET(length), .dim = AMP_SET(axis));
    }
    amp_tensor *z = inverse ? amp_fft_ifft(x, .n = AMP_SET(length), .dim = AMP_SET(axis))
                            : amp_fft_fft(x, .n = AMP_SET(length), .dim = AMP_SET(axis));
    return half ? amp_narrow(z, axis, 0, length / 2 + 1) : z;
}

/* One integer of an input that may be absent. */
static amp_status read_one(const amp_onnx_step *s, int i, int64_t otherwise, int64_t *value) {
    const amp_tensor *t = amp_onnx_input(s, i);
    *value = otherwise;
    if (!t) return AMP_OK;
    if (amp_onnx_read_ints(s, t, value, 1) == 1) return AMP_OK;
    return amp_failed() ? amp_pending_error() : amp_onnx_fail(s, AMP_ERROR_INVALID, "input %d is empty", i);
}

/* The axis is an attribute before opset 20, where it is 1 unless given; else input 2, and the last before the parts. */
amp_status onnx_dft(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    const bool attribute = s->node->opset < 20;
    int64_t named = 0, length = 0;
    if (!x) return amp_pending_error();
    AMP_TRY(read_one(s, attribute ? INT32_MAX : 2, attribute ? amp_onnx_int(s, "axis", 1) : -2, &named));
    const int64_t axis = amp_onnx_axis(s, named, x->rank);
    if (axis < 0) return amp_pending_error();
    if (axis == x->rank - 1) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "axis %lld is that of real and imaginary parts", (long long)named);
    }
    AMP_TRY(read_one(s, 1, x->shape[axis], &length));
    if (length < 1 || length > INT32_MAX)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "a length of %lld", (long long)length);
    const bool inverse = amp_onnx_int(s, "inverse", 0) != 0, half = amp_onnx_int(s, "onesided", 0) != 0;
    if (inverse && half) return amp_onnx_fail(s, AMP_ERROR_NOT_IMPLEMENTED, "inverse and onesided together");
    amp_tensor *z = transform(without_parts(s, x), length, axis, inverse, half);
    return amp_onnx_set(s, 0, amp_to(with_parts(z, x->dtype == AMP_F64 ? AMP_F64 : AMP_F32), x->dtype));
}

amp_status onnx_stft(amp_onnx_step *s) {
    amp_tensor *signal = amp_onnx_required(s, 0), *window = amp_onnx_input(s, 2);
    int64_t step = 0, length = 0;
    if (!signal) return amp_pending_error();
    AMP_TRY(read_one(s, 1, 0, &step));
    AMP_TRY(read_one(s, 3, window ? amp_tensor_elements(window) : 0, &length));
    amp_tensor *x = signal->rank == 2 ? signal : without_parts(s, signal);
    if (!x) return amp_pending_error();
    if (x->rank != 2 || step < 1 || length < 1 || length > x->shape[1]) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "frames of %lld every %lld elements of a signal %s",
                             (long long)length, (long long)step, amp_describe(signal));
    }
    const bool half = amp_onnx_int(s, "onesided", 1) != 0 && !amp_dtype_is_complex(x->dtype);
    amp_tensor *frames = amp_unfold(x, 1, length, step);
    if (window) frames = amp_mul(frames, amp_to(window, signal->dtype == AMP_F64 ? AMP_F64 : AMP_F32));
    amp_tensor *z = transform(frames, length, 2, false, half);
    return amp_onnx_set(s, 0, amp_to(with_parts(z, signal->dtype == AMP_F64 ? AMP_F64 : AMP_F32), signal->dtype));
}

/* ---- Constants ---------------------------------------------------------------------------------------------------- */

/* a0 - a1 · cos(2 pi n / N) + a2 · cos(4 pi n / N). */
static const struct window_kind {
    const char *name;
    double a[3];
} window_kinds[] = {{"hann", {0.5, 0.5, 0}}, {"hamming", {25.0 / 46, 21.0 / 46, 0}}, {"blackman", {0.42, 0.5, 0.08}}};

/* Numbers of f64 as the dtype that the node asks for. */
static amp_status set_numbers(amp_onnx_step *s, int rank, const int64_t *shape, const double *values) {
    const amp_dtype dtype = amp_onnx_dtype(s, amp_onnx_int(s, "output_datatype", 1));
    if (dtype == AMP_DTYPE_NONE) return amp_pending_error();
    return amp_onnx_set(s, 0, amp_to(amp_onnx_from_host(s, AMP_F64, rank, shape, values), dtype));
}

/* `to`: which. */
amp_status onnx_signal_window(amp_onnx_step *s) {
    int64_t size = 0;
    AMP_TRY(read_one(s, 0, 0, &size));
    if (size < 0 || size > AMP_ONNX_MOST_MADE)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "a window of %lld", (long long)size);
    const struct window_kind *kind = window_kinds;
    while (strcmp(kind->name, s->node->op->to) != 0) kind++;
    const int64_t period = amp_onnx_int(s, "periodic", 1) ? size : size - 1;
    double *values = amp_onnx_memory(AMP_F64, size + 1);
    if (!values) return amp_pending_error();
    for (int64_t n = 0; n < size; n++) {
        const double at = period > 0 ? 2 * pi * (double)n / (double)period : pi;
        values[n] = kind->a[0] - kind->a[1] * cos(at) + kind->a[2] * cos(2 * at);
    }
    return set_numbers(s, 1, &size, values);
}

/* The corners of the triangles: evenly spread in mel, then rounded down to bins of the spectrum. */
static int64_t mel_corner(int64_t i, const int64_t *ints, const double *edges) {
    const double low = 2595 * log10(1 + edges[0] / 700), high = 2595 * log10(1 + edges[1] / 700);
    const double mel = low + (double)i * (high - low) / (double)(ints[0] + 2);
    return (int64_t)floor((double)(ints[1] + 1) * (700 * (pow(10, mel / 2595) - 1)) / (double)ints[2]);
}

/* Column i of (bins, filters): up from the first corner to the second, down to the third. */
static void fill_filter(double *column, int64_t filters, const int64_t corners[3]) {
    const int64_t up = corners[1] - corners[0], down = corners[2] - corners[1];
    if (up == 0) column[corners[1] * filters] = 1;
    for (int64_t j = corners[0]; up > 0 && j <= corners[1]; j++) {
        column[j * filters] = (double)(j - corners[0]) / (double)up;
    }
    for (int64_t j = corners[1]; down > 0 && j < corners[2]; j++) {
        column[j * filters] = (double)(corners[2] - j) / (double)down;
    }
}

amp_status onnx_mel_weight_matrix(amp_onnx_step *s) {
    int64_t ints[3]; /* filters, length of the transform, sample rate */
    double edges[2];
    for (int i = 0; i < 3; i++) AMP_TRY(read_one(s, i, 0, &ints[i]));
    for (int i = 0; i < 2; i++) {
        const amp_tensor *t = amp_onnx_required(s, 3 + i);
        if (!t) return amp_pending_error();
        if (amp_tensor_elements(t) != 1) return amp_onnx_fail(s, AMP_ERROR_INVALID, "an edge is %s", amp_describe(t));
        AMP_TRY(amp_read(t, AMP_F64, &edges[i], sizeof edges[i]));
    }
    const int64_t shape[2] = {ints[1] / 2 + 1, ints[0]};
    if (ints[0] < 1 || ints[0] > 65536 || ints[1] < 1 || ints[1] > INT32_MAX || ints[2] < 1 || !(edges[0] >= 0) ||
        !(edges[1] >= edges[0])) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld filters of %lld elements at a rate of %lld, %g to %g Hz",
                             (long long)ints[0], (long long)ints[1], (long long)ints[2], edges[0], edges[1]);
    }
    const int64_t count = amp_onnx_product(s, 2, shape, AMP_ONNX_MOST_MADE);
    double *values = count < 0 ? NULL : amp_onnx_memory(AMP_F64, count);
    if (!values) return amp_pending_error();
    for (int64_t i = 0; i < shape[1]; i++) {
        const int64_t corners[3] = {mel_corner(i, ints, edges), mel_corner(i + 1, ints, edges),
                                    mel_corner(i + 2, ints, edges)};
        if (corners[2] > shape[0]) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "%g Hz are beyond half of the rate %lld", edges[1],
                                 (long long)ints[2]);
        }
        fill_filter(values + i, shape[1], corners);
    }
    return set_numbers(s, 2, shape, values);
}
