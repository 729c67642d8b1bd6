/* Gradients of what joins tensors, moves their elements, and pads. */
#include "gradients/pieces.h"

/* ---- Joining ------------------------------------------------------------------------------------------------------ */

void amp_gradient_cat(amp_gradient *g) {
    const amp_cat_args *a = g->args;
    const int rank = g->of[0]->rank, dim = amp_dim_from_front(a->dim, rank);
    int64_t at = 0;
    for (int64_t i = 0; i < a->tensors.count; i++) {
        const amp_tensor *t = a->tensors.items[i];
        const bool is_skipped = t->rank != rank; /* a vector of no elements, which goes with everything */
        const int64_t length = is_skipped ? 0 : t->shape[dim];
        if (amp_gradient_wants(g, &a->tensors.items[i])) {
            amp_tensor *part = is_skipped ? amp_zeros_for(g, t, t->dtype) : amp_narrow(g->of[0], dim, at, length);
            amp_gradient_give(g, &a->tensors.items[i], part);
        }
        at += length;
    }
}

void amp_gradient_stack(amp_gradient *g) {
    const amp_stack_args *a = g->args;
    for (int64_t i = 0; i < a->tensors.count; i++) {
        if (amp_gradient_wants(g, &a->tensors.items[i]))
            amp_gradient_give(g, &a->tensors.items[i], amp_select(g->of[0], a->dim, i));
    }
}

/* The sum over dimension d of `count` repetitions of what is then left of it. */
static amp_tensor *sum_repetitions(amp_tensor *t, int d, int64_t count, int64_t length) {
    int64_t outer = 1, inner = length;
    amp_dims shape = amp_shape_of(t);
    for (int i = 0; i < d; i++) outer *= t->shape[i];
    for (int i = d + 1; i < t->rank; i++) inner *= t->shape[i];
    shape.values[d] = length;
    amp_tensor *rows = amp_reshape(t, AMP_DIMS(outer, count, inner));
    return amp_reshape(amp_sum(rows, .dim = AMP_DIMS(1), .dtype = amp_wide_dtype(t->dtype)), shape);
}

/* repeat and tile: `counts` are those of the last dimensions. */
static void sum_all_repetitions(amp_gradient *g, const amp_dims *counts) {
    const amp_tensor *input = *amp_first_argument(g);
    amp_tensor *t = g->of[0];
    const int extra = t->rank - input->rank;
    for (int d = 0; t && d < g->of[0]->rank; d++) {
        const int from = d - (g->of[0]->rank - counts->count);
        const int64_t count = from < 0 ? 1 : counts->values[from], length = d < extra ? 1 : input->shape[d - extra];
        if (count != 1) t = sum_repetitions(t, d, count, length);
    }
    if (t) amp_gradient_give(g, amp_first_argument(g), amp_reshape(t, amp_shape_of(input)));
}

void amp_gradient_repeat(amp_gradient *g) {
    sum_all_repetitions(g, &((const amp_repeat_args *)g->args)->repeats);
}

void amp_gradient_tile(amp_gradient *g) {
    sum_all_repetitions(g, &((const amp_tile_args *)g->args)->dims);
}

/* ---- Other places ------------------------------------------------------------------------------------------------- */

void amp_gradient_flip(amp_gradient *g) {
    const amp_flip_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_flip(g->of[0], a->dims));
}

void amp_gradient_rot90(amp_gradient *g) {
    const amp_rot90_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_rot90(g->of[0], .k = AMP_SET(-(a->k.value % 4)), .dims = a->dims));
}

void amp_gradient_roll(amp_gradient *g) {
    const amp_roll_args *a = g->args;
    amp_dims back = a->shifts;
    for (int i = 0; i < back.count; i++) back.values[i] = -back.values[i];
    amp_gradient_give(g, &a->input, amp_roll(g->of[0], back, .dims = a->dims));
}

void amp_gradient_tril(amp_gradient *g) {
    const amp_tril_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_tril(g->of[0], a->diagonal));
}

void amp_gradient_triu(amp_gradient *g) {
    const amp_triu_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_triu(g->of[0], a->diagonal));
}

void amp_gradient_diag(amp_gradient *g) {
    const amp_diag_args *a = g->args;
    amp_gradient_give(g, &a->input,
                      a->input->rank == 1 ? amp_diagonal(g->of[0], a->diagonal)
                                          : amp_diagonal_backward(g->of[0], amp_shape_of(a->input), a->diagonal, 0, 1));
}

void amp_gradient_diag_embed(amp_gradient *g) {
    const amp_diag_embed_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_diagonal(g->of[0], a->offset, a->dim1.value, a->dim2));
}

void amp_gradient_pixel_shuffle(amp_gradient *g) {
    const amp_pixel_shuffle_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_pixel_unshuffle(g->of[0], a->upscale_factor));
}

void amp_gradient_pixel_unshuffle(amp_gradient *g) {
    const amp_pixel_unshuffle_args *a = g->args;
    amp_gradient_give(g, &a->input, amp_pixel_shuffle(g->of[0], a->downscale_factor));
}

/* (groups, each) was turned over, and is turned back as (each, groups). */
void amp_gradient_channel_shuffle(amp_gradient *g) {
    const amp_channel_shuffle_args *a = g->args;
    const int64_t each = a->input->shape[1] / (a->groups > 0 ? a->groups : 1);
    amp_gradient_give(g, &a->input, each > 1 ? amp_channel_shuffle(g->of[0], each) : g->of[0]);
}

/* ---- Padding ------------------------------------------------------------------------------------------------------ */

void amp_gradient_constant_pad_nd(amp_gradient *g) {
    const amp_constant_pad_nd_args *a = g->args;
    amp_dims back = a->pad;
    for (int i = 0; i < back.count; i++) back.values[i] = -back.values[i];
    amp_gradient_give(g, &a->input, amp_constant_pad_nd(g->of[0], back));
}

typedef amp_tensor *pad_numbers(amp_tensor *numbers, int64_t before, int64_t after);

static amp_tensor *reflected(amp_tensor *numbers, int64_t before, int64_t after) {
    return amp_reflection_pad1d(numbers, AMP_DIMS(before, after));
}

static amp_tensor *replicated(amp_tensor *numbers, int64_t before, int64_t after) {
    return amp_replication_pad1d(numbers, AMP_DIMS(before, after));
}

/* One dimension: each element goes to where the one came from that it is a copy of, which its number says when it is
 * padded itself. */
static amp_tensor *unpadded(const amp_gradient *g, amp_tensor *t, int dim, int64_t extent, const int64_t *pad,
                            pad_numbers *numbers_of) {
    amp_dims shape = amp_shape_of(t);
    shape.values[dim] = extent;
    amp_tensor *numbers = amp_arange(amp_int(extent), .dtype = AMP_I64, .device = (int)g->device);
    numbers = numbers_of(amp_unsqueeze(numbers, 0), pad[0], pad[1]);
    amp_tensor *zeros = amp_zeros(shape, .dtype = t->dtype, .device = (int)g->device);
    return amp_index_add(zeros, dim, amp_squeeze(numbers, AMP_DIMS(0)), t);
}

/* Pairs (before, after) from the last dimension on. */
static void unpad(amp_gradient *g, pad_numbers *numbers_of) {
    const amp_dims *padding = (const amp_dims *)((const char *)g->args + g->op->args[1].offset);
    const amp_tensor *input = *amp_first_argument(g);
    amp_tensor *t = amp_wide(g->of[0]);
    for (int i = 0; t && 2 * i + 1 < padding->count; i++) {
        const int dim = input->rank - 1 - i;
        const int64_t *pad = &padding->values[2 * i];
        if (pad[0] || pad[1]) t = unpadded(g, t, dim, input->shape[dim], pad, numbers_of);
    }
    amp_gradient_give(g, amp_first_argument(g), t);
}

void amp_gradient_reflection_pad(amp_gradient *g) {
    unpad(g, reflected);
}

void amp_gradient_replication_pad(amp_gradient *g) {
    unpad(g, replicated);
}
