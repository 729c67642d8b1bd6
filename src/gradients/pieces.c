/* Shapes, conjugates, reductions undone. */
#include "gradients/pieces.h"

#include "core/layout.h"

amp_tensor *amp_conjugate(amp_tensor *t) {
    if (!t || !amp_dtype_is_complex(t->dtype)) return t;
    amp_tensor *signs = amp_full(AMP_DIMS(2), amp_float(1), .dtype = t->dtype == AMP_C64 ? AMP_F32 : AMP_F64,
                                 .device = (int)t->storage->device);
    (void)amp_fill_(amp_narrow(signs, 0, 1, 1), amp_float(-1));
    return amp_view_as_complex(amp_mul(amp_view_as_real(t), signs));
}

amp_scalar amp_scalar_conjugate(amp_scalar number) {
    number.im = -number.im;
    return number;
}

amp_tensor *const *amp_first_argument(const amp_gradient *g) {
    return (amp_tensor *const *)((const char *)g->args + g->op->args[0].offset);
}

amp_tensor *amp_zero_gradient(const amp_gradient *g) {
    return amp_zeros_like(g->of[0]);
}

amp_tensor *amp_adjoint(amp_tensor *m) {
    return amp_conjugate(amp_transpose(m, -2, -1));
}

int amp_dim_from_front(int64_t dim, int rank) {
    return (int)(dim < 0 ? dim + rank : dim);
}

static bool is_reduced(int dim, const amp_dims *dims, int rank) {
    for (int i = 0; i < dims->count; i++) {
        if (amp_dim_from_front(dims->values[i], rank) == dim) return true;
    }
    return dims->count == 0;
}

amp_tensor *amp_unreduced(amp_tensor *gradient, const amp_tensor *like, amp_dims dim, bool keepdim) {
    if (keepdim || !gradient) return gradient;
    amp_dims shape = amp_shape_of(like);
    for (int i = 0; i < like->rank; i++) {
        if (is_reduced(i, &dim, like->rank)) shape.values[i] = 1;
    }
    return amp_reshape(gradient, shape);
}

int64_t amp_reduced_count(const amp_tensor *like, amp_dims dim) {
    int64_t count = 1;
    for (int i = 0; i < like->rank; i++) count *= is_reduced(i, &dim, like->rank) ? like->shape[i] : 1;
    return count;
}

amp_tensor *amp_zeros_for(const amp_gradient *g, const amp_tensor *like, amp_dtype dtype) {
    return amp_zeros(amp_shape_of(like), .dtype = dtype, .device = (int)g->device);
}

amp_tensor *amp_grown(amp_tensor *t, const amp_tensor *like) {
    for (int d = 0; t && t->rank == like->rank && d < t->rank; d++) {
        if (t->shape[d] == like->shape[d]) continue;
        amp_dims shape = amp_shape_of(t);
        shape.values[d] = like->shape[d];
        t = amp_slice_backward(t, shape, d, 0, t->shape[d], 1);
    }
    return t;
}

amp_tensor *amp_laid_out_as(amp_tensor *tensor, const amp_tensor *like) {
    if (!tensor || !like || like->rank != 4 || !amp_is_channels_last(like) || amp_is_channels_last(tensor))
        return tensor;
    return amp_channels_last(tensor);
}

/* Whether sums of bf16 numbers go to an f32 gradient. */
static bool widens(const amp_gradient *g, amp_tensor *const *argument, const amp_tensor *t) {
    return t && t->dtype == AMP_BF16 && amp_gradient_dtype(g, argument) == AMP_F32;
}

void amp_give_product(amp_gradient *g, amp_tensor *const *argument, amp_tensor *left, amp_tensor *right) {
    amp_gradient_give(g, argument,
                      widens(g, argument, left) ? amp_mm_dtype(left, right, AMP_F32) : amp_mm(left, right));
}

void amp_give_sums(amp_gradient *g, amp_tensor *const *argument, amp_tensor *t, amp_dims dim) {
    const amp_dtype dtype = widens(g, argument, t) ? AMP_F32 : AMP_DTYPE_NONE;
    amp_gradient_give(g, argument, t ? amp_sum(t, .dim = dim, .dtype = dtype) : NULL);
}
