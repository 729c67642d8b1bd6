/* Gradients of tables: embedding, embedding_bag. */
#include <string.h>

#include "gradients/pieces.h"

static int64_t padding_of(const amp_opt_int *padding, const amp_tensor *weight) {
    return !padding->set ? -1 : padding->value < 0 ? padding->value + weight->shape[0] : padding->value;
}

void amp_gradient_embedding(amp_gradient *g) {
    const amp_embedding_args *a = g->args;
    amp_gradient_give(g, &a->weight,
                      amp_embedding_dense_backward(g->of[0], a->input, a->weight->shape[0],
                                                   padding_of(&a->padding_idx, a->weight), a->scale_grad_by_freq));
}

/* Rows are read where they were added up, divided as they were. */
void amp_gradient_embedding_dense_backward(amp_gradient *g) {
    const amp_embedding_dense_backward_args *a = g->args;
    amp_tensor *t = amp_embedding(a->indices, g->of[0]);
    if (a->padding_idx >= 0) {
        amp_tensor *padding = amp_eq_scalar(a->indices, amp_int(a->padding_idx));
        t = amp_masked_fill(t, amp_unsqueeze(padding, -1), amp_int(0));
    }
    if (a->scale_grad_by_freq) {
        amp_tensor *ones = amp_ones_like(amp_unsqueeze(a->indices, -1), .dtype = amp_wide_dtype(t->dtype));
        amp_tensor *counts = amp_embedding_dense_backward(ones, a->indices, a->num_weights, -1, false);
        t = amp_div(t, amp_embedding(a->indices, counts));
    }
    amp_gradient_give(g, &a->grad_output, t);
}

/* ---- embedding_bag ------------------------------------------------------------------------------------------------ */

/* The indices in a row, and of each its bag and whether it counts. */
typedef struct bagged {
    amp_tensor *index, *bag, *counts; /* counts: bool (indices, 1) */
    int64_t length, padding;
} bagged;

static bool find_bags(const amp_gradient *g, const amp_embedding_bag_args *a, bagged *b) {
    const int64_t bags = g->results[0]->shape[0];
    b->length = amp_tensor_elements(a->input);
    b->padding = padding_of(&a->padding_idx, a->weight);
    b->index = amp_reshape(amp_to(a->input, AMP_I64), AMP_DIMS(b->length));
    amp_tensor *place = amp_arange(amp_int(b->length), .dtype = AMP_I64, .device = (int)g->device);
    if (a->offsets) {
        amp_tensor *behind = amp_searchsorted(amp_to(a->offsets, AMP_I64), place, .right = true);
        b->bag = amp_sub_scalar(behind, amp_int(1));
    } else {
        const int64_t each = a->input->shape[1] > 0 ? a->input->shape[1] : 1;
        b->bag = amp_floor_divide_scalar(place, amp_int(each));
    }
    amp_tensor *inside = amp_lt_scalar(b->bag, amp_int(bags)); /* not behind the last offset */
    b->counts = amp_unsqueeze(amp_logical_and(inside, amp_ne_scalar(b->index, amp_int(b->padding))), 1);
    b->bag = amp_clamp(b->bag, amp_int(0), amp_int(bags > 0 ? bags - 1 : 0));
    return b->counts && b->bag;
}

/* The first row of each bag, column by column, that is the result there. */
static amp_tensor *first_greatest(const amp_gradient *g, const amp_embedding_bag_args *a, const bagged *b) {
    amp_tensor *result = amp_index_select(g->results[0], 0, b->bag);
    amp_tensor *is_it = amp_logical_and(amp_eq(amp_embedding(b->index, a->weight), result), b->counts);
    amp_tensor *place = amp_unsqueeze(amp_arange(amp_int(b->length), .dtype = AMP_I64, .device = (int)g->device), 1);
    amp_tensor *candidates = amp_where_scalar_other(is_it, place, amp_int(b->length));
    amp_tensor *none =
        amp_full(amp_shape_of(g->results[0]), amp_int(b->length), .dtype = AMP_I64, .device = (int)g->device);
    amp_tensor *first = amp_index_reduce(none, 0, b->bag, candidates, "amin");
    return amp_eq(amp_index_select(first, 0, b->bag), place);
}

/* How many rows each bag has, by index. */
static amp_tensor *lengths(const amp_gradient *g, const bagged *b, amp_dtype dtype) {
    const int64_t bags = g->results[0]->shape[0];
    amp_tensor *none = amp_zeros(AMP_DIMS(bags, 1), .dtype = dtype, .device = (int)g->device);
    amp_tensor *counts = amp_index_add(none, 0, b->bag, amp_to(b->counts, dtype));
    return amp_clamp(amp_index_select(counts, 0, b->bag), amp_int(1));
}

void amp_gradient_embedding_bag(amp_gradient *g) {
    const amp_embedding_bag_args *a = g->args;
    bagged b;
    if (!find_bags(g, a, &b)) return;
    amp_tensor *rows = amp_index_select(amp_wide(g->of[0]), 0, b.bag), *scales = a->per_sample_weights;
    if (!rows) return;
    rows = amp_masked_fill(rows, amp_logical_not(b.counts), amp_int(0));
    if (scales && amp_gradient_wants(g, &a->per_sample_weights)) {
        amp_tensor *products = amp_mul(rows, amp_wide(amp_embedding(b.index, a->weight)));
        amp_tensor *sums = amp_sum(products, .dim = AMP_DIMS(1));
        amp_gradient_give(g, &a->per_sample_weights, amp_reshape(sums, amp_shape_of(scales)));
    }
    if (!amp_gradient_wants(g, &a->weight)) return;
    if (scales) rows = amp_mul(rows, amp_wide(amp_reshape(scales, AMP_DIMS(b.length, 1))));
    if (!strcmp(a->mode, "mean")) rows = amp_div(rows, lengths(g, &b, rows->dtype));
    if (!strcmp(a->mode, "max")) rows = amp_where_scalar_other(first_greatest(g, a, &b), rows, amp_int(0));
    amp_gradient_give(
        g, &a->weight,
        amp_embedding_dense_backward(rows, b.index, a->weight->shape[0], b.padding, a->scale_grad_by_freq));
}
