/* Gradients of what reads and writes where masks and indices say. */
#include "gradients/pieces.h"

#include <string.h>

/* ---- Masks -------------------------------------------------------------------------------------------------------- */

static amp_tensor *where_true(amp_tensor *condition, amp_tensor *t) {
    return amp_where_scalar_other(condition, t, amp_int(0));
}

static amp_tensor *where_false(amp_tensor *condition, amp_tensor *t) {
    return amp_where_scalar_self(condition, amp_int(0), t);
}

void amp_gradient_where(amp_gradient *g) {
    const amp_where_args *a = g->args;
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, where_true(a->condition, g->of[0]));
    if (amp_gradient_wants(g, &a->other)) amp_gradient_give(g, &a->other, where_false(a->condition, g->of[0]));
}

void amp_gradient_where_scalar_other(amp_gradient *g) {
    const amp_where_scalar_other_args *a = g->args;
    amp_gradient_give(g, &a->input, where_true(a->condition, g->of[0]));
}

void amp_gradient_where_scalar_self(amp_gradient *g) {
    const amp_where_scalar_self_args *a = g->args;
    amp_gradient_give(g, &a->other, where_false(a->condition, g->of[0]));
}

void amp_gradient_masked_fill(amp_gradient *g) {
    const amp_masked_fill_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_masked_fill(g->of[0], a->mask, amp_int(0)));
}

void amp_gradient_masked_fill_tensor(amp_gradient *g) {
    const amp_masked_fill_tensor_args *a = g->args;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_masked_fill(g->of[0], a->mask, amp_int(0)));
    if (amp_gradient_wants(g, &a->value)) amp_gradient_give(g, &a->value, amp_wide(where_true(a->mask, g->of[0])));
}

void amp_gradient_masked_select(amp_gradient *g) {
    const amp_masked_select_args *a = g->args;
    amp_tensor *zeros = amp_zeros_for(g, a->input, g->of[0]->dtype);
    amp_gradient_give(g, &a->input, amp_masked_scatter(zeros, a->mask, g->of[0]));
}

/* The source's elements that found no place have none. */
void amp_gradient_masked_scatter(amp_gradient *g) {
    const amp_masked_scatter_args *a = g->args;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_masked_fill(g->of[0], a->mask, amp_int(0)));
    if (!amp_gradient_wants(g, &a->source)) return;
    amp_tensor *taken = amp_masked_select(g->of[0], a->mask);
    if (!taken) return;
    const int64_t left = amp_tensor_elements(a->source) - taken->shape[0];
    if (left > 0) taken = amp_constant_pad_nd(taken, AMP_DIMS(0, left));
    amp_gradient_give(g, &a->source, amp_reshape(taken, amp_shape_of(a->source)));
}

/* ---- Reading ------------------------------------------------------------------------------------------------------ */

static amp_tensor *scattered(const amp_gradient *g, const amp_tensor *like, int64_t dim, amp_tensor *index) {
    return amp_scatter_add(amp_zeros_for(g, like, g->of[0]->dtype), dim, index, g->of[0]);
}

void amp_gradient_gather(amp_gradient *g) {
    const amp_gather_args *a = g->args;
    amp_gradient_give(g, &a->input, scattered(g, a->input, a->dim, a->index));
}

/* Indices that count from the end as those that count from the beginning. */
static amp_tensor *wrapped(amp_tensor *index, int64_t extent) {
    amp_tensor *wide = amp_to(index, AMP_I64);
    return amp_where(amp_lt_scalar(wide, amp_int(0)), amp_add_scalar(wide, amp_int(extent)), wide);
}

/* Both broadcast but in `dim`, so the gradient has the common shape there; the tape sums it. */
void amp_gradient_take_along_dim(amp_gradient *g) {
    const amp_take_along_dim_args *a = g->args;
    amp_dims shape = amp_shape_of(g->of[0]);
    amp_tensor *index = a->indices, *of = g->of[0];
    const int64_t elements = amp_tensor_elements(a->input);
    if (!a->dim.set) {
        index = amp_reshape(index, AMP_DIMS(amp_tensor_elements(index)));
        shape = AMP_DIMS(elements);
    } else if (of->rank > 0) {
        const int dim = amp_dim_from_front(a->dim.value, of->rank);
        index = amp_expand(index, shape);
        shape.values[dim] = a->input->shape[dim];
    }
    amp_tensor *zeros = amp_zeros(shape, .dtype = of->dtype, .device = (int)g->device);
    const int64_t dim = a->dim.set ? a->dim.value : 0;
    if (of->rank > 0) index = wrapped(index, shape.values[amp_dim_from_front(dim, of->rank)]);
    amp_tensor *t = amp_scatter_add(zeros, dim, index, of);
    amp_gradient_give(g, &a->input, a->dim.set ? t : amp_reshape(t, amp_shape_of(a->input)));
}

void amp_gradient_index_select(amp_gradient *g) {
    const amp_index_select_args *a = g->args;
    amp_tensor *zeros = amp_zeros_for(g, a->input, g->of[0]->dtype), *of = g->of[0];
    if (of->rank != a->input->rank) of = amp_reshape(of, amp_shape_of(a->input));
    amp_gradient_give(g, &a->input, amp_index_add(zeros, a->dim, a->index, of));
}

/* The slices of `dim`, of the flattened input without it: the shape that was repeated. */
static amp_dims repeated_shape(const amp_tensor *input, const amp_opt_int *dim, int *d) {
    *d = dim->set && input->rank > 0 ? amp_dim_from_front(dim->value, input->rank) : 0;
    const int64_t elements = amp_tensor_elements(input);
    return dim->set && input->rank > 0 ? amp_shape_of(input) : AMP_DIMS(elements);
}

void amp_gradient_repeat_interleave(amp_gradient *g) {
    const amp_repeat_interleave_args *a = g->args;
    int d;
    const amp_dims shape = repeated_shape(a->input, &a->dim, &d);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i <= d; i++) outer *= shape.values[i];
    for (int i = d + 1; i < shape.count; i++) inner *= shape.values[i];
    amp_tensor *rows = amp_reshape(g->of[0], AMP_DIMS(outer, a->repeats, inner));
    amp_tensor *sum = amp_sum(rows, .dim = AMP_DIMS(1), .dtype = amp_wide_dtype(g->of[0]->dtype));
    amp_gradient_give(g, &a->input, amp_reshape(sum, amp_shape_of(a->input)));
}

void amp_gradient_repeat_interleave_tensor(amp_gradient *g) {
    const amp_repeat_interleave_tensor_args *a = g->args;
    int d;
    const amp_dims shape = repeated_shape(a->input, &a->dim, &d);
    const int64_t slices = shape.values[d];
    amp_tensor *numbers = amp_arange(amp_int(slices), .dtype = AMP_I64, .device = (int)g->device);
    amp_tensor *from = amp_repeat_interleave_tensor(numbers, a->repeats, AMP_SET(0));
    amp_tensor *zeros = amp_zeros(shape, .dtype = g->of[0]->dtype, .device = (int)g->device);
    amp_gradient_give(g, &a->input, amp_reshape(amp_index_add(zeros, d, from, g->of[0]), amp_shape_of(a->input)));
}

void amp_gradient_index(amp_gradient *g) {
    const amp_index_args *a = g->args;
    amp_tensor *zeros = amp_zeros_for(g, a->input, g->of[0]->dtype);
    amp_gradient_give(g, &a->input, amp_index_put(zeros, a->indices, g->of[0], .accumulate = true));
}

/* ---- Writing ------------------------------------------------------------------------------------------------------ */

void amp_gradient_index_put(amp_gradient *g) {
    const amp_index_put_args *a = g->args;
    amp_tensor *of = g->of[0];
    if (amp_gradient_wants(g, &a->input)) {
        amp_tensor *none = amp_zeros((amp_dims)AMP_NO_DIMS, .dtype = of->dtype, .device = (int)g->device);
        amp_gradient_give(g, &a->input, a->accumulate ? of : amp_index_put(of, a->indices, none));
    }
    if (amp_gradient_wants(g, &a->values)) amp_gradient_give(g, &a->values, amp_index(of, a->indices));
}

void amp_gradient_index_fill(amp_gradient *g) {
    const amp_index_fill_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_index_fill(g->of[0], a->dim, a->index, amp_int(0)));
}

void amp_gradient_index_fill_tensor(amp_gradient *g) {
    const amp_index_fill_tensor_args *a = g->args;
    amp_tensor *kept = amp_index_fill(g->of[0], a->dim, a->index, amp_int(0));
    if (amp_gradient_wants(g, &a->input)) amp_gradient_give(g, &a->input, kept);
    if (amp_gradient_wants(g, &a->value)) amp_gradient_give(g, &a->value, amp_wide(amp_sub(g->of[0], kept)));
}

/* The slices of a gradient that belong to a source. */
static amp_tensor *slices(amp_tensor *of, int64_t dim, amp_tensor *index, const amp_tensor *source) {
    return amp_reshape(amp_index_select(of, dim, index), amp_shape_of(source));
}

void amp_gradient_index_add(amp_gradient *g) {
    const amp_index_add_args *a = g->args;
    amp_gradient_give(g, &a->input, g->of[0]);
    if (!amp_gradient_wants(g, &a->source)) return;
    amp_tensor *t = slices(g->of[0], a->dim, a->index, a->source);
    const bool is_one = a->alpha.kind == AMP_SCALAR_INT && a->alpha.i == 1;
    amp_gradient_give(g, &a->source, is_one ? t : amp_mul_scalar(t, amp_scalar_conjugate(a->alpha)));
}

void amp_gradient_index_copy(amp_gradient *g) {
    const amp_index_copy_args *a = g->args;
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input, amp_index_fill(g->of[0], a->dim, a->index, amp_int(0)));
    if (amp_gradient_wants(g, &a->source))
        amp_gradient_give(g, &a->source, slices(g->of[0], a->dim, a->index, a->source));
}

/* ---- scatter ------------------------------------------------------------------------------------------------------ */

static amp_tensor *gathered(const amp_gradient *g, int64_t dim, amp_tensor *index, const amp_tensor *src) {
    return amp_grown(amp_gather(g->of[0], dim, index), src);
}

void amp_gradient_scatter_add(amp_gradient *g) {
    const amp_scatter_add_args *a = g->args;
    amp_gradient_give(g, &a->input, g->of[0]);
    if (amp_gradient_wants(g, &a->src)) amp_gradient_give(g, &a->src, gathered(g, a->dim, a->index, a->src));
}

void amp_gradient_scatter(amp_gradient *g) {
    const amp_scatter_args *a = g->args;
    if (a->reduce && a->reduce[0] == 'm') {
        amp_fail(AMP_ERROR_NOT_IMPLEMENTED,
                 "scatter: reduce = \"multiply\" has no gradient; scatter_reduce with \"prod\" has one");
        return;
    }
    if (amp_gradient_wants(g, &a->input))
        amp_gradient_give(g, &a->input,
                          a->reduce ? g->of[0] : amp_scatter_value(g->of[0], a->dim, a->index, amp_int(0)));
    if (amp_gradient_wants(g, &a->src)) amp_gradient_give(g, &a->src, gathered(g, a->dim, a->index, a->src));
}

void amp_gradient_scatter_value(amp_gradient *g) {
    const amp_scatter_value_args *a = g->args;
    amp_tensor *t = g->of[0];
    if (!a->reduce)
        t = amp_scatter_value(t, a->dim, a->index, amp_int(0));
    else if (a->reduce[0] == 'm')
        t = amp_scatter_value(t, a->dim, a->index, amp_scalar_conjugate(a->value), .reduce = "multiply");
    amp_gradient_give(g, &a->input, t);
}
