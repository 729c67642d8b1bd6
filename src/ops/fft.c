/* fft_*: one transform after another along each dimension, each from the last one's result; fft_fftshift. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "steps/shape_rules.h"
#include "steps/steps.h"

/* Which dimensions are transformed, in what order (the last named first), and to what lengths. */
typedef struct request {
    amp_fft_form form;
    bool inverse;
    bool hermitian; /* hfft, ihfft: C2R with the forward sign, R2C with the inverse one */
    amp_tensor *input;
    const char *norm;
    int count;
    int dims[AMP_MAX_RANK];
    int64_t lengths[AMP_MAX_RANK];
} request;

/* ---- Arguments ------------------------------------------------------------------------------------------------ */

static amp_status find_scale(const amp_call *call, const request *r, double *scale) {
    const bool by_default = !r->norm || !strcmp(r->norm, "backward");
    double n = 1.0;
    for (int i = 0; i < r->count; i++) n *= (double)r->lengths[i];
    const bool is_inverse = r->inverse != r->hermitian;
    if (by_default) {
        *scale = is_inverse ? 1.0 / n : 1.0;
    } else if (!strcmp(r->norm, "forward")) {
        *scale = is_inverse ? 1.0 : 1.0 / n;
    } else if (!strcmp(r->norm, "ortho")) {
        *scale = 1.0 / sqrt(n);
    } else {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'norm' is \"%s\"; expected \"backward\", \"forward\" or \"ortho\"",
                        amp_call_name(call), r->norm);
    }
    return AMP_OK;
}

static amp_status check_input(const amp_call *call, const request *r) {
    const amp_dtype dtype = r->input->dtype;
    if (dtype == AMP_F16 || dtype == AMP_BF16) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected f32, f64, complex or integers", amp_call_name(call),
                        amp_describe(r->input));
    }
    if (r->form == AMP_FFT_R2C && amp_dtype_is_complex(dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected real numbers", amp_call_name(call),
                        amp_describe(r->input));
    }
    return AMP_OK;
}

static amp_status check_length(const amp_call *call, const request *r, const char *name, int64_t length, int dim) {
    enum { LONGEST = 1 << 30 };
    if (length >= 1 && length <= LONGEST) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: the length along dimension %d is %lld ('%s', or input's %s); expected 1 to 2^30",
                    amp_call_name(call), dim, (long long)length, name, amp_describe(r->input));
}

/* The length that a dimension has where none is given. */
static int64_t natural_length(const request *r, int dim, bool is_last) {
    const int64_t extent = r->input->shape[dim];
    return r->form == AMP_FFT_C2R && is_last ? 2 * (extent - 1) : extent;
}

static amp_status need_dimension(const amp_call *call, const amp_tensor *input) {
    if (input->rank > 0) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected at least one dimension", amp_call_name(call),
                    amp_describe(input));
}

static amp_status read_one(const amp_call *call, request *r, amp_opt_int n, int64_t dim) {
    AMP_TRY(need_dimension(call, r->input));
    AMP_TRY(amp_wrap_dim(call, "dim", dim, r->input->rank, &r->dims[0]));
    r->count = 1;
    r->lengths[0] = n.set ? n.value : natural_length(r, r->dims[0], true);
    return check_length(call, r, "n", r->lengths[0], r->dims[0]);
}

/* `dim` absent: `otherwise`; that absent too: as many trailing ones as `s` has, or all. */
static amp_status read_many(const amp_call *call, request *r, const amp_dims *s, const amp_dims *dim) {
    const int rank = r->input->rank;
    unsigned mask;
    if (s->set) AMP_TRY(amp_check_dims(call, "s", s));
    AMP_TRY(amp_wrap_dims(call, "dim", dim, false, rank, &mask));
    r->count = dim->set ? dim->count : s->set ? s->count : rank;
    if (s->set && s->count != r->count) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 's' has %d lengths, 'dim' names %d dimensions", amp_call_name(call),
                        s->count, r->count);
    }
    if (r->count > rank) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 's' has %d lengths, input is %s", amp_call_name(call), s->count,
                        amp_describe(r->input));
    }
    if (r->count == 0 && r->form != AMP_FFT_C2C) {
        return amp_fail(AMP_ERROR_INVALID, "%s: no dimension to transform (input is %s)", amp_call_name(call),
                        amp_describe(r->input));
    }
    for (int i = 0; i < r->count; i++) {
        AMP_TRY(amp_wrap_dim(call, "dim", dim->set ? dim->values[i] : i - r->count, rank, &r->dims[i]));
        r->lengths[i] = s->set ? s->values[i] : -1;
        if (r->lengths[i] == -1) r->lengths[i] = natural_length(r, r->dims[i], i == r->count - 1);
        AMP_TRY(check_length(call, r, "s", r->lengths[i], r->dims[i]));
    }
    return AMP_OK;
}

/* ---- Transforms ----------------------------------------------------------------------------------------------- */

static amp_dtype complex_of(amp_dtype dtype) {
    return dtype == AMP_F64 || dtype == AMP_C128 ? AMP_C128 : AMP_C64;
}

static amp_dtype real_of(amp_dtype dtype) {
    return dtype == AMP_F64 || dtype == AMP_C128 ? AMP_F64 : AMP_F32;
}

/* Integers as f32. */
static amp_tensor *floating_input(amp_tensor *input) {
    if (amp_dtype_is_floating(input->dtype) || amp_dtype_is_complex(input->dtype)) return input;
    const amp_to_args to = {.struct_size = sizeof to, .input = input, .dtype = AMP_F32};
    return amp_to_call(&to);
}

/* The stages so far have left `extents` of the tensor at `from`. */
typedef struct progress {
    amp_tensor *from;
    int64_t extents[AMP_MAX_RANK];
} progress;

static amp_status transform(progress *p, const request *r, int i, amp_fft_form form, double scale, amp_tensor *to) {
    amp_fft_lines lines = {.form = form,
                           .n = r->lengths[i],
                           .dim = r->dims[i],
                           .inverse = form == AMP_FFT_C2C && r->inverse != r->hermitian,
                           .conjugate_input = form == AMP_FFT_C2R && r->hermitian,
                           .conjugate_output = form == AMP_FFT_R2C && r->hermitian,
                           .scale = scale,
                           .from = p->from,
                           .to = to};
    memcpy(lines.extents, p->extents, sizeof lines.extents);
    AMP_TRY(amp_steps_on(to->storage->device)->fft_lines(&lines));
    p->extents[r->dims[i]] = form == AMP_FFT_R2C ? r->lengths[i] / 2 + 1 : r->lengths[i];
    p->from = to;
    return AMP_OK;
}

/* Where the complex results lie between the dimensions: in the output, or, before a C2R, in a spectrum of its own. */
static amp_tensor *make_between(const amp_call *call, const request *r, amp_tensor *out) {
    if (r->form != AMP_FFT_C2R || r->count == 1) return out;
    int64_t shape[AMP_MAX_RANK];
    const int last = r->dims[r->count - 1];
    const int64_t half = out->shape[last] / 2 + 1, given = r->input->shape[last];
    memcpy(shape, out->shape, (size_t)out->rank * sizeof *shape);
    shape[last] = given < half ? given : half;
    return amp_backend_tensor(call->device, call->op->name, complex_of(r->input->dtype), out->rank, shape);
}

static amp_tensor *make_output(amp_call *call, const request *r) {
    int64_t shape[AMP_MAX_RANK];
    memcpy(shape, r->input->shape, (size_t)r->input->rank * sizeof *shape);
    for (int i = 0; i < r->count; i++) shape[r->dims[i]] = r->lengths[i];
    if (r->form == AMP_FFT_R2C) shape[r->dims[r->count - 1]] = r->lengths[r->count - 1] / 2 + 1;
    const amp_dtype dtype = r->form == AMP_FFT_C2R ? real_of(r->input->dtype) : complex_of(r->input->dtype);
    return amp_call_output(call, 0, dtype, r->input->rank, shape);
}

static amp_status run(amp_call *call, const request *r) {
    double scale = 1.0;
    AMP_TRY(check_input(call, r));
    AMP_TRY(find_scale(call, r, &scale));
    amp_tensor *out = make_output(call, r);
    progress p = {.from = floating_input(r->input)};
    if (!out || !p.from) return amp_pending_error();
    if (r->count == 0) return amp_copy_tensor(out, p.from);
    amp_tensor *between = make_between(call, r, out);
    if (!between) return amp_pending_error();
    for (int d = 0; d < out->rank; d++) {
        p.extents[d] = between->shape[d] < r->input->shape[d] ? between->shape[d] : r->input->shape[d];
    }
    const int last = r->count - 1;
    p.extents[r->dims[last]] = r->input->shape[r->dims[last]];
    if (r->form != AMP_FFT_C2R) AMP_TRY(transform(&p, r, last, r->form, scale, out));
    for (int i = last - 1; i >= 0; i--) {
        if (i == last - 1 && r->form == AMP_FFT_C2R) p.extents[r->dims[last]] = between->shape[r->dims[last]];
        AMP_TRY(transform(&p, r, i, AMP_FFT_C2C, 1.0, between));
    }
    return r->form == AMP_FFT_C2R ? transform(&p, r, last, AMP_FFT_C2R, scale, out) : AMP_OK;
}

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

/* ONE(op, form, inverse, hermitian): along one dimension. */
#define ONE(op, form_, inverse_, hermitian_)                                                                           \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        request r = {form_, inverse_, hermitian_, a->input, a->norm, 0, {0}, {0}};                                     \
        AMP_TRY(read_one(call, &r, a->n, a->dim.value));                                                               \
        return run(call, &r);                                                                                          \
    }
ONE(fft_fft, AMP_FFT_C2C, false, false)
ONE(fft_ifft, AMP_FFT_C2C, true, false)
ONE(fft_rfft, AMP_FFT_R2C, false, false)
ONE(fft_irfft, AMP_FFT_C2R, true, false)
ONE(fft_hfft, AMP_FFT_C2R, true, true)
ONE(fft_ihfft, AMP_FFT_R2C, false, true)

/* MANY(op, form, inverse, hermitian, whether two dimensions are meant where none is named) */
#define MANY(op, form_, inverse_, hermitian_, two)                                                                     \
    amp_status amp_op_##op(amp_call *call) {                                                                           \
        const amp_##op##_args *a = call->args;                                                                         \
        request r = {form_, inverse_, hermitian_, a->input, a->norm, 0, {0}, {0}};                                     \
        const amp_dims last_two = AMP_DIMS(-2, -1);                                                                    \
        AMP_TRY(read_many(call, &r, &a->s, (two) && !a->dim.set ? &last_two : &a->dim));                               \
        return run(call, &r);                                                                                          \
    }
MANY(fft_fft2, AMP_FFT_C2C, false, false, true)
MANY(fft_ifft2, AMP_FFT_C2C, true, false, true)
MANY(fft_rfft2, AMP_FFT_R2C, false, false, true)
MANY(fft_irfft2, AMP_FFT_C2R, true, false, true)
MANY(fft_fftn, AMP_FFT_C2C, false, false, false)
MANY(fft_ifftn, AMP_FFT_C2C, true, false, false)
MANY(fft_rfftn, AMP_FFT_R2C, false, false, false)
MANY(fft_irfftn, AMP_FFT_C2R, true, false, false)
MANY(fft_hfft2, AMP_FFT_C2R, true, true, true)
MANY(fft_ihfft2, AMP_FFT_R2C, false, true, true)
MANY(fft_hfftn, AMP_FFT_C2R, true, true, false)
MANY(fft_ihfftn, AMP_FFT_R2C, false, true, false)

/* ---- Shifts ---------------------------------------------------------------------------------------------------- */

/* By half of each dimension, one way or the other. */
static amp_status shift(amp_call *call, amp_tensor *input, const amp_dims *dim, bool back) {
    amp_dims shifts = {.set = AMP_PRESENT}, dims = {.set = AMP_PRESENT};
    unsigned mask;
    AMP_TRY(amp_wrap_dims(call, "dim", dim, false, input->rank, &mask));
    for (int d = 0; d < input->rank; d++) {
        if (!(mask & 1u << d)) continue;
        dims.values[dims.count++] = d;
        shifts.values[shifts.count++] = back ? (input->shape[d] + 1) / 2 : input->shape[d] / 2;
    }
    call->outputs[0] = dims.count ? amp_roll(input, shifts, dims) : amp_clone(input);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

amp_status amp_op_fft_fftshift(amp_call *call) {
    const amp_fft_fftshift_args *a = call->args;
    return shift(call, a->input, &a->dim, false);
}
amp_status amp_op_fft_ifftshift(amp_call *call) {
    const amp_fft_ifftshift_args *a = call->args;
    return shift(call, a->input, &a->dim, true);
}
