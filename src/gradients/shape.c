/* Gradients of views, and of what only moves elements. */
#include "gradients/pieces.h"

/* The first argument of any op, and its place in the struct. */
static amp_tensor *const *first(const amp_gradient *g) {
    return (amp_tensor *const *)((const char *)g->args + g->op->args[0].offset);
}

/* The elements in their order under another shape. */
void amp_gradient_reshape(amp_gradient *g) {
    amp_gradient_give(g, first(g), amp_reshape(g->of[0], amp_shape_of(*first(g))));
}

/* The elements as they are; the tape converts and moves them. */
void amp_gradient_same(amp_gradient *g) {
    amp_gradient_give(g, first(g), g->of[0]);
}

/* What is repeated is summed by the tape. */
void amp_gradient_expand(amp_gradient *g) {
    amp_gradient_give(g, first(g), g->of[0]);
}

void amp_gradient_permute(amp_gradient *g) {
    const amp_permute_args *a = g->args;
    amp_dims back = {.count = a->dims.count, .set = AMP_PRESENT};
    for (int i = 0; i < back.count; i++) back.values[amp_dim_from_front(a->dims.values[i], back.count)] = i;
    amp_gradient_give(g, &a->input, amp_permute(g->of[0], back));
}

void amp_gradient_transpose(amp_gradient *g) {
    const amp_transpose_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_transpose(g->of[0], a->dim0, a->dim1));
}

void amp_gradient_t(amp_gradient *g) {
    const amp_t_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_t(g->of[0]));
}

static amp_tensor *zeros_like_argument(const amp_gradient *g, const amp_tensor *like) {
    return amp_zeros(amp_shape_of(like), .dtype = g->of[0]->dtype, .device = (int)g->device);
}

void amp_gradient_narrow(amp_gradient *g) {
    const amp_narrow_args *a = g->args;
    const int dim = amp_dim_from_front(a->dim, a->input->rank);
    const int64_t start = a->start < 0 ? a->start + a->input->shape[dim] : a->start;
    const int64_t behind = a->input->shape[dim] - start - a->length;
    amp_dims shape = amp_shape_of(a->input);
    amp_tensor *parts[3];
    int count = 0;
    shape.values[dim] = start;
    if (start > 0) parts[count++] = amp_zeros(shape, .dtype = g->of[0]->dtype, .device = (int)g->device);
    parts[count++] = g->of[0];
    shape.values[dim] = behind;
    if (behind > 0) parts[count++] = amp_zeros(shape, .dtype = g->of[0]->dtype, .device = (int)g->device);
    amp_gradient_give(g, &a->input, amp_cat((amp_tensor_list){parts, count, NULL}, dim));
}

void amp_gradient_select(amp_gradient *g) {
    const amp_select_args *a = g->args;
    amp_tensor *whole = zeros_like_argument(g, a->input);
    (void)amp_copy_(amp_select(whole, a->dim, a->index), g->of[0]);
    amp_gradient_give(g, &a->input, whole);
}

/* The old elements are gone; the source's gradient is that of the result. */
void amp_gradient_copy(amp_gradient *g) {
    const amp_copy_args *a = g->args;
    amp_gradient_give(g, &a->src, g->of[0]);
}
