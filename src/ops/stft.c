/* stft: the signal's frames as a view, times the window, and their Fourier transforms. */
#include <string.h>

#include "amp/ops.h"
#include "call/call.h"
#include "core/tensor_impl.h"

typedef struct framing {
    const amp_stft_args *args;
    int64_t n, hop, window, pad; /* `pad` on either side */
    bool onesided, as_complex;
} framing;

/* ---- Arguments ------------------------------------------------------------------------------------------------ */

static amp_status check_sizes(const framing *f) {
    const amp_stft_args *a = f->args;
    if (a->input->rank < 1 || a->input->rank > 2) {
        return amp_fail(AMP_ERROR_INVALID, "stft: input is %s; expected a signal, or a batch of signals",
                        amp_describe(a->input));
    }
    if (f->n < 1 || f->n > 1 << 30 || f->hop < 1 || f->window < 1 || f->window > f->n) {
        return amp_fail(AMP_ERROR_INVALID,
                        "stft: 'n_fft' is %lld, 'hop_length' %lld, 'win_length' %lld; they must be positive, and "
                        "win_length at most n_fft",
                        (long long)f->n, (long long)f->hop, (long long)f->window);
    }
    if (a->align_to_window.set && a->center.value) {
        return amp_fail(AMP_ERROR_INVALID, "stft: 'align_to_window' is for 'center' false");
    }
    if (a->window && (a->window->rank != 1 || a->window->shape[0] != f->window)) {
        return amp_fail(AMP_ERROR_INVALID, "stft: 'window' is %s; expected [%lld], as many as 'win_length'",
                        amp_describe(a->window), (long long)f->window);
    }
    return AMP_OK;
}

static bool is_half(const amp_tensor *t) {
    return t && (t->dtype == AMP_F16 || t->dtype == AMP_BF16);
}

static amp_status check_types(const framing *f, bool is_complex) {
    const amp_stft_args *a = f->args;
    const bool is_floating = amp_dtype_is_floating(a->input->dtype) || amp_dtype_is_complex(a->input->dtype);
    if (!is_floating || is_half(a->input) || is_half(a->window)) {
        return amp_fail(AMP_ERROR_DTYPE, "stft: input is %s, 'window' is %s; expected f32, f64, c64 or c128",
                        amp_describe(a->input), a->window ? amp_describe(a->window) : "not given");
    }
    if (!is_complex && !a->return_complex.set) {
        return amp_fail(AMP_ERROR_INVALID,
                        "stft: 'return_complex' is missing; input %s is real: true gives complex numbers, false pairs",
                        amp_describe(a->input));
    }
    if (is_complex && f->onesided) {
        return amp_fail(AMP_ERROR_INVALID, "stft: 'onesided' is for real input and window; input is %s",
                        amp_describe(a->input));
    }
    return AMP_OK;
}

static amp_status read_framing(const amp_stft_args *a, framing *f) {
    const bool is_complex =
        amp_dtype_is_complex(a->input->dtype) || (a->window && amp_dtype_is_complex(a->window->dtype));
    *f = (framing){.args = a,
                   .n = a->n_fft,
                   .hop = a->hop_length.set ? a->hop_length.value : a->n_fft / 4,
                   .window = a->win_length.set ? a->win_length.value : a->n_fft,
                   .pad = a->center.value ? a->n_fft / 2 : 0,
                   .onesided = a->onesided.set ? a->onesided.value : !is_complex,
                   .as_complex = a->return_complex.set ? a->return_complex.value : is_complex};
    AMP_TRY(check_sizes(f));
    return check_types(f, is_complex);
}

/* ---- Frames --------------------------------------------------------------------------------------------------- */

/* The last dimension goes round. */
static amp_tensor *pad_circular(amp_tensor *x, int64_t pad) {
    const int64_t length = x->shape[1];
    amp_tensor *end = amp_narrow(x, 1, length - pad, pad), *start = amp_narrow(x, 1, 0, pad);
    amp_tensor *parts[] = {end, x, start};
    const amp_cat_args cat = {.struct_size = sizeof cat, .tensors = {.items = parts, .count = 3}, .dim = 1};
    return end && start ? amp_cat_call(&cat) : NULL;
}

/* [batch, length + 2·pad]; NULL with an error. */
static amp_tensor *pad_signal(const framing *f, amp_tensor *x) {
    const char *mode = f->args->pad_mode;
    const int64_t p = f->pad, length = x->shape[1];
    const bool reflects = !strcmp(mode, "reflect"), goes_round = !strcmp(mode, "circular");
    if (p == 0) return x;
    if ((reflects && p >= length) || (goes_round && p > length)) {
        (void)amp_fail(AMP_ERROR_INVALID, "stft: input %s is too short to be padded by n_fft/2 = %lld in mode \"%s\"",
                       amp_describe(f->args->input), (long long)p, mode);
        return NULL;
    }
    if (reflects) return amp_reflection_pad1d(x, AMP_DIMS(p, p));
    if (goes_round) return pad_circular(x, p);
    if (!strcmp(mode, "constant")) return amp_constant_pad_nd(x, AMP_DIMS(p, p));
    if (!strcmp(mode, "replicate")) return amp_replication_pad1d(x, AMP_DIMS(p, p));
    (void)amp_fail(AMP_ERROR_INVALID,
                   "stft: 'pad_mode' is \"%s\"; expected \"reflect\", \"constant\", \"replicate\" or \"circular\"",
                   mode);
    return NULL;
}

/* With align_to_window frame k has its window, not its first element, at k·hop. What is added lies under zeros of the
 * window. */
static amp_tensor *align_signal(const framing *f, amp_tensor *x) {
    const int64_t left = (f->n - f->window) / 2;
    return amp_constant_pad_nd(x, AMP_DIMS(left, f->n - f->window - left));
}

/* n_fft numbers, the given ones in the middle; NULL: no window (no error then), or an error. */
static amp_tensor *make_window(const framing *f) {
    amp_tensor *window = f->args->window;
    const int64_t left = (f->n - f->window) / 2;
    if (!window && f->window < f->n)
        window = amp_full(AMP_DIMS(f->window), amp_float(1.0), .dtype = AMP_F32,
                          .device = amp_tensor_device(f->args->input));
    if (!window || f->window == f->n) return window;
    return amp_constant_pad_nd(window, AMP_DIMS(left, f->n - f->window - left));
}

/* [batch, frames, n_fft]; NULL with an error. */
static amp_tensor *make_frames(const framing *f) {
    amp_tensor *x = f->args->input->rank == 1 ? amp_unsqueeze(f->args->input, 0) : f->args->input;
    if (x) x = pad_signal(f, x);
    if (!x) return NULL;
    if (x->shape[1] < f->n) {
        (void)amp_fail(AMP_ERROR_INVALID, "stft: 'n_fft' is %lld, longer than the signal of %lld (input is %s)",
                       (long long)f->n, (long long)x->shape[1], amp_describe(f->args->input));
        return NULL;
    }
    if (f->args->align_to_window.value) x = align_signal(f, x);
    if (!x) return NULL;
    amp_tensor *frames = amp_unfold(x, 1, f->n, f->hop);
    const bool windowed = f->args->window || f->window < f->n;
    if (!frames || !windowed) return frames;
    amp_tensor *window = make_window(f);
    return window ? amp_mul(frames, window) : NULL;
}

/* ---- The op --------------------------------------------------------------------------------------------------- */

/* The spectra [batch, frames, frequencies] as [batch, frequencies, frames], without the batch where the input had none,
 * as pairs if so asked. */
static amp_status return_spectra(amp_call *call, const framing *f, amp_tensor *spectra) {
    amp_tensor *t = spectra ? amp_transpose(spectra, 1, 2) : NULL;
    if (t && f->args->input->rank == 1) t = amp_squeeze(t, AMP_DIMS(0));
    if (t && !f->as_complex) t = amp_view_as_real(t);
    call->outputs[0] = t;
    return t ? AMP_OK : amp_pending_error();
}

amp_status amp_op_stft(amp_call *call) {
    framing f;
    AMP_TRY(read_framing(call->args, &f));
    amp_tensor *frames = make_frames(&f);
    const char *norm = f.args->normalized ? "ortho" : NULL;
    if (!frames) return amp_pending_error();
    return return_spectra(call, &f,
                          f.onesided ? amp_fft_rfft(frames, .norm = norm) : amp_fft_fft(frames, .norm = norm));
}
