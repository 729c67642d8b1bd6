/* Gradients of views, and of what only moves elements. */
#include "core/memory.h"
#include "gradients/pieces.h"

/* The elements in their order under another shape. */
void amp_gradient_reshape(amp_gradient *g) {
    amp_gradient_give(g, amp_first_argument(g), amp_reshape(g->of[0], amp_shape_of(*amp_first_argument(g))));
}

/* The elements as they are; the tape converts and moves them. */
void amp_gradient_same(amp_gradient *g) {
    amp_gradient_give(g, amp_first_argument(g), g->of[0]);
}

/* What is repeated is summed by the tape. */
void amp_gradient_expand(amp_gradient *g) {
    amp_gradient_give(g, amp_first_argument(g), g->of[0]);
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

void amp_gradient_movedim(amp_gradient *g) {
    const amp_movedim_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_movedim(g->of[0], a->destination, a->source));
}

/* ---- Parts of a dimension ----------------------------------------------------------------------------------------- */

static amp_tensor *zeros_of(const amp_gradient *g, const amp_dims *shape) {
    return amp_zeros(*shape, .dtype = g->of[0]->dtype, .device = (int)g->device);
}

/* Zeros before and behind it: written once. */
static amp_tensor *widened_again(const amp_gradient *g, const amp_tensor *input, int64_t dim, int64_t first,
                                 int64_t length) {
    const int d = amp_dim_from_front(dim, input->rank);
    const int64_t start = first < 0 ? first + input->shape[d] : first, behind = input->shape[d] - start - length;
    amp_dims shape = amp_shape_of(input);
    amp_tensor *parts[3];
    int count = 0;
    shape.values[d] = start;
    if (start > 0) parts[count++] = zeros_of(g, &shape);
    parts[count++] = g->of[0];
    shape.values[d] = behind;
    if (behind > 0) parts[count++] = zeros_of(g, &shape);
    return count == 1 ? g->of[0] : amp_cat((amp_tensor_list){parts, count, NULL}, d);
}

void amp_gradient_narrow(amp_gradient *g) {
    const amp_narrow_args *a = g->args;
    amp_gradient_give(g, &a->input, widened_again(g, a->input, a->dim, a->start, a->length));
}

void amp_gradient_narrow_tensor(amp_gradient *g) {
    const amp_narrow_tensor_args *a = g->args;
    const amp_tensor *start = amp_to_device(a->start, AMP_DEVICE_CPU);
    if (start) amp_gradient_give(g, &a->input, widened_again(g, a->input, a->dim, (int64_t)amp_item(start), a->length));
}

void amp_gradient_select(amp_gradient *g) {
    const amp_select_args *a = g->args;
    const int dim = amp_dim_from_front(a->dim, a->input->rank);
    const int64_t at = a->index < 0 ? a->index + a->input->shape[dim] : a->index;
    amp_tensor *slice = amp_unsqueeze(g->of[0], dim);
    amp_gradient_give(g, &a->input, amp_slice_backward(slice, amp_shape_of(a->input), dim, at, at + 1, 1));
}

void amp_gradient_slice(amp_gradient *g) {
    const amp_slice_args *a = g->args;
    const int dim = amp_dim_from_front(a->dim, a->input->rank);
    const int64_t start = a->start.set ? a->start.value : 0, end = a->end.set ? a->end.value : a->input->shape[dim];
    amp_gradient_give(g, &a->input,
                      amp_slice_backward(g->of[0], amp_shape_of(a->input), dim, start, end, a->step.value));
}

void amp_gradient_slice_backward(amp_gradient *g) {
    const amp_slice_backward_args *a = g->args;
    amp_gradient_give(
        g, &a->grad_output,
        amp_slice(g->of[0], a->dim, .start = AMP_SET(a->start), .end = AMP_SET(a->end), .step = AMP_SET(a->step)));
}

void amp_gradient_diagonal(amp_gradient *g) {
    const amp_diagonal_args *a = g->args;
    amp_gradient_give(g, &a->input,
                      amp_diagonal_backward(g->of[0], amp_shape_of(a->input), a->offset, a->dim1, a->dim2.value));
}

void amp_gradient_diagonal_backward(amp_gradient *g) {
    const amp_diagonal_backward_args *a = g->args;
    amp_gradient_give(g, &a->grad_output, amp_diagonal(g->of[0], a->offset, a->dim1, AMP_SET(a->dim2)));
}

/* A number has one window, of itself. */
void amp_gradient_unfold(amp_gradient *g) {
    const amp_unfold_args *a = g->args;
    amp_gradient_give(g, &a->input,
                      a->input->rank == 0
                          ? amp_sum(g->of[0])
                          : amp_unfold_backward(g->of[0], amp_shape_of(a->input), a->dimension, a->size, a->step));
}

void amp_gradient_unfold_backward(amp_gradient *g) {
    const amp_unfold_backward_args *a = g->args;
    amp_gradient_give(g, &a->grad_in, amp_unfold(g->of[0], a->dim, a->size, a->step));
}

/* ---- Parts of complex numbers ------------------------------------------------------------------------------------- */

void amp_gradient_view_as_complex(amp_gradient *g) {
    const amp_view_as_complex_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_view_as_real(g->of[0]));
}

void amp_gradient_view_as_real(amp_gradient *g) {
    const amp_view_as_real_args *a = g->args;
    amp_tensor *pairs = amp_contiguous(g->of[0]);
    if (pairs && pairs->offset % 2 != 0) pairs = amp_clone(pairs);
    amp_gradient_give(g, &a->input, amp_view_as_complex(pairs));
}

void amp_gradient_imag(amp_gradient *g) {
    const amp_imag_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_mul_scalar(amp_to(g->of[0], a->input->dtype), amp_complex(0, 1)));
}

/* ---- Several views ------------------------------------------------------------------------------------------------ */

/* The gradients of all results, zeros where there is none; NULL with an error. The caller frees them. */
static amp_tensor **all_of(const amp_gradient *g) {
    amp_tensor **all = amp_alloc((size_t)(g->result_count + 1) * sizeof(amp_tensor *));
    if (!all) {
        amp_fail(AMP_ERROR_MEMORY, "%s: no memory for %d gradients", g->op->name, g->result_count);
        return NULL;
    }
    for (int i = 0; i < g->result_count; i++)
        all[i] = g->of[i] ? g->of[i] : amp_zeros_for(g, g->results[i], g->results[i]->dtype);
    return all;
}

static amp_tensor *joined(const amp_gradient *g, int64_t dim) {
    amp_tensor **all = all_of(g);
    amp_tensor *whole = all ? amp_cat((amp_tensor_list){all, g->result_count, NULL}, dim) : NULL;
    amp_free(all);
    return whole;
}

/* chunk, split, tensor_split: (input, how, dim). */
void amp_gradient_split(amp_gradient *g) {
    const int64_t *dim = (const int64_t *)((const char *)g->args + g->op->args[2].offset);
    amp_gradient_give(g, amp_first_argument(g), joined(g, *dim));
}

void amp_gradient_unbind(amp_gradient *g) {
    const amp_unbind_args *a = g->args;
    amp_tensor **all = all_of(g);
    if (all) amp_gradient_give(g, &a->input, amp_stack((amp_tensor_list){all, g->result_count, NULL}, a->dim));
    amp_free(all);
}

/* Where indices fall, pieces overlap, and each is added. */
static void split_at(amp_gradient *g, const int64_t *indices, int64_t dim) {
    amp_tensor *const *input = amp_first_argument(g);
    const int d = amp_dim_from_front(dim, (*input)->rank);
    const int64_t extent = (*input)->shape[d];
    int64_t sum = 0, start = 0;
    for (int i = 0; i < g->result_count; i++) sum += g->results[i]->shape[d];
    if (sum == extent) {
        amp_gradient_give(g, input, joined(g, dim));
        return;
    }
    for (int i = 0; i < g->result_count; i++) {
        const int64_t length = g->results[i]->shape[d];
        if (g->of[i] && length > 0)
            amp_gradient_give(g, input,
                              amp_slice_backward(g->of[i], amp_shape_of(*input), d, start, start + length, 1));
        if (i + 1 == g->result_count) break;
        const int64_t index = indices[i] < 0 ? indices[i] + extent : indices[i];
        start = index < 0 ? 0 : index > extent ? extent : index;
    }
}

void amp_gradient_tensor_split_indices(amp_gradient *g) {
    const amp_tensor_split_indices_args *a = g->args;
    split_at(g, a->indices.values, a->dim);
}

void amp_gradient_tensor_split_tensor(amp_gradient *g) {
    const amp_tensor_split_tensor_args *a = g->args;
    amp_tensor *host = amp_to_device(a->tensor_indices_or_sections, AMP_DEVICE_CPU, .dtype = AMP_I64);
    host = host ? amp_contiguous(host) : NULL;
    if (host) split_at(g, amp_tensor_pointer(host), a->dim);
}

/* ---- Copies ------------------------------------------------------------------------------------------------------- */

/* Back to where the elements came from: the call ran on the device of its argument, or on the one that is no CPU. */
void amp_gradient_to_device(amp_gradient *g) {
    const amp_to_device_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_to_device(g->of[0], (int64_t)g->device));
}

/* Nothing is left of input. */
void amp_gradient_fill(amp_gradient *g) {
    amp_gradient_give(g, amp_first_argument(g), amp_zeros_like(g->of[0]));
}

void amp_gradient_fill_tensor(amp_gradient *g) {
    const amp_fill_tensor_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_fill(g);
    if (amp_gradient_wants(g, &a->value))
        amp_gradient_give(g, &a->value, amp_sum(g->of[0], .dtype = amp_wide_dtype(g->of[0]->dtype)));
}

/* The old elements are gone; the source's gradient is that of the result. */
void amp_gradient_copy(amp_gradient *g) {
    const amp_copy_args *a = g->args;
    amp_gradient_give(g, &a->src, g->of[0]);
}
