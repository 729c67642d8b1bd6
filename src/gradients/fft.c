/* Gradients of Fourier transforms: the adjoint transform, whose scale is that of the other direction, and where input
 * was cut or padded, zeros, or what stood there dropped.
 *
 * A one-sided spectrum stands for two conjugate halves: its frequencies count twice but for the first and, of an even
 * length, the last. So a spectrum's gradient is the transform's times 2, and a spectrum that is transformed back has
 * halves. */
#include <string.h>

#include "gradients/pieces.h"

typedef enum adjoint { TO_FFT, TO_IFFT, TO_RFFT, TO_IRFFT, TO_HFFT, TO_IHFFT } adjoint;

static amp_tensor *transform(adjoint kind, amp_tensor *t, amp_dims lengths, amp_dims dims, const char *norm) {
    switch (kind) {
    case TO_FFT: return amp_fft_fftn(t, .s = lengths, .dim = dims, .norm = norm);
    case TO_IFFT: return amp_fft_ifftn(t, .s = lengths, .dim = dims, .norm = norm);
    case TO_RFFT: return amp_fft_rfftn(t, .s = lengths, .dim = dims, .norm = norm);
    case TO_IRFFT: return amp_fft_irfftn(t, .s = lengths, .dim = dims, .norm = norm);
    case TO_HFFT: return amp_fft_hfftn(t, .s = lengths, .dim = dims, .norm = norm);
    case TO_IHFFT: return amp_fft_ihfftn(t, .s = lengths, .dim = dims, .norm = norm);
    }
    return NULL;
}

/* The directions' scales, exchanged. */
static const char *other_norm(const char *norm) {
    if (!norm || !strcmp(norm, "backward")) return "forward";
    return strcmp(norm, "forward") ? norm : "backward";
}

/* The frequencies of `length` numbers that stand for two, times a factor. */
static amp_tensor *weighted(amp_tensor *t, int dim, int64_t length, double factor) {
    const int64_t between = (length + 1) / 2 - 1;
    if (!t || between < 1) return t;
    amp_dims shape = {.count = t->rank - dim, .set = AMP_PRESENT};
    for (int i = 0; i < shape.count; i++) shape.values[i] = 1;
    shape.values[0] = length / 2 + 1;
    const amp_dtype dtype = t->dtype == AMP_C128 ? AMP_F64 : AMP_F32;
    amp_tensor *weights = amp_ones(shape, .dtype = dtype, .device = (int)t->storage->device);
    (void)amp_fill_(amp_narrow(weights, 0, 1, between), amp_float(factor));
    return amp_mul(t, weights);
}

static amp_tensor *fitted(amp_tensor *t, const amp_tensor *like) {
    for (int d = 0; t && d < t->rank; d++) {
        if (t->shape[d] > like->shape[d]) t = amp_narrow(t, d, 0, like->shape[d]);
    }
    return amp_grown(t, like);
}

/* Of a transform over `dims`, counted from the front; `given` are the lengths that were asked for. */
static void give(amp_gradient *g, adjoint kind, amp_dims given, amp_dims dims, const char *norm) {
    amp_tensor *const *input = amp_first_argument(g), *of = g->of[0];
    amp_dims lengths = {.count = dims.count, .set = AMP_PRESENT};
    if (dims.count == 0) {
        amp_gradient_give(g, input, of);
        return;
    }
    for (int i = 0; i < dims.count; i++) lengths.values[i] = of->shape[dims.values[i]];
    const int last = dims.count - 1, dim = (int)dims.values[last];
    if (kind == TO_IRFFT || kind == TO_HFFT) {
        const bool is_given = given.set && given.values[last] != -1;
        lengths.values[last] = is_given ? given.values[last] : (*input)->shape[dim];
        of = weighted(of, dim, lengths.values[last], 0.5);
    }
    amp_tensor *t = transform(kind, of, lengths, dims, other_norm(norm));
    if (kind == TO_RFFT || kind == TO_IHFFT) t = weighted(t, dim, lengths.values[last], 2.0);
    amp_gradient_give(g, input, fitted(t, *input));
}

/* Absent: the last ones that `s` names, or all. */
static amp_dims from_front(amp_dims dims, const amp_dims *s, int rank) {
    const int count = dims.set ? dims.count : s->set ? s->count : rank;
    for (int i = 0; i < count; i++)
        dims.values[i] = dims.set ? amp_dim_from_front(dims.values[i], rank) : rank - count + i;
    dims.count = count;
    dims.set = AMP_PRESENT;
    return dims;
}

#define ONE(op, kind)                                                                                                  \
    void amp_gradient_##op(amp_gradient *g) {                                                                          \
        const amp_##op##_args *a = g->args;                                                                            \
        const amp_dims n = {.values = {a->n.value}, .count = a->n.set ? 1 : 0, .set = a->n.set};                       \
        give(g, kind, n, AMP_DIMS(amp_dim_from_front(a->dim.value, a->input->rank)), a->norm);                         \
    }
ONE(fft_fft, TO_IFFT)
ONE(fft_ifft, TO_FFT)
ONE(fft_rfft, TO_IRFFT)
ONE(fft_irfft, TO_RFFT)
ONE(fft_hfft, TO_IHFFT)
ONE(fft_ihfft, TO_HFFT)

#define MANY(op, kind, otherwise)                                                                                      \
    void amp_gradient_##op(amp_gradient *g) {                                                                          \
        const amp_##op##_args *a = g->args;                                                                            \
        const amp_dims dims = a->dim.set ? a->dim : otherwise;                                                         \
        give(g, kind, a->s, from_front(dims, &a->s, a->input->rank), a->norm);                                         \
    }
#define LAST_TWO AMP_DIMS(-2, -1)
#define ALL ((amp_dims){.set = 0})
MANY(fft_fft2, TO_IFFT, LAST_TWO)
MANY(fft_ifft2, TO_FFT, LAST_TWO)
MANY(fft_rfft2, TO_IRFFT, LAST_TWO)
MANY(fft_irfft2, TO_RFFT, LAST_TWO)
MANY(fft_hfft2, TO_IHFFT, LAST_TWO)
MANY(fft_ihfft2, TO_HFFT, LAST_TWO)
MANY(fft_fftn, TO_IFFT, ALL)
MANY(fft_ifftn, TO_FFT, ALL)
MANY(fft_rfftn, TO_IRFFT, ALL)
MANY(fft_irfftn, TO_RFFT, ALL)
MANY(fft_hfftn, TO_IHFFT, ALL)
MANY(fft_ihfftn, TO_HFFT, ALL)
