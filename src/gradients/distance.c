/* Gradients of distances, cosines, and what is scaled by norms. */
#include <math.h>
#include <string.h>

#include "gradients/again.h"

static void compose_pairwise_distance(const void *args, amp_tensor **results) {
    const amp_pairwise_distance_args *a = args;
    amp_tensor *apart = amp_add_scalar(amp_sub(a->x1, a->x2), amp_float(a->eps.value));
    results[0] = amp_linalg_vector_norm(apart, amp_float(a->p.value), .dim = AMP_DIMS(-1), .keepdim = a->keepdim);
}
AMP_GRADIENT_AGAIN(pairwise_distance)

/* PyTorch clamps the norms unrecorded. */
static void compose_cosine_similarity(const void *args, amp_tensor **results) {
    const amp_cosine_similarity_args *a = args;
    const int rank = a->x1->rank > a->x2->rank ? a->x1->rank : a->x2->rank;
    const amp_dims along = AMP_DIMS(a->dim.value < 0 || rank == 0 ? a->dim.value : a->dim.value - rank);
    amp_tensor *x[2] = {a->x1, a->x2};
    const amp_tensor *both = amp_add(amp_detach(a->x1), amp_detach(a->x2));
    if (!both) return;
    const amp_dims shape = amp_shape_of(both);
    for (int i = 0; i < 2; i++) {
        x[i] = amp_expand(x[i], shape);
        amp_tensor *norm = amp_linalg_vector_norm(x[i], .dim = along, .keepdim = true);
        x[i] = amp_div(x[i], amp_clamp_unrecorded(norm, a->eps.value));
    }
    results[0] = amp_sum(amp_mul(x[0], x[1]), .dim = along);
}
AMP_GRADIENT_AGAIN(cosine_similarity)

static void compose_normalize(const void *args, amp_tensor **results) {
    const amp_normalize_args *a = args;
    amp_tensor *norm =
        amp_linalg_vector_norm(a->input, amp_float(a->p.value), .dim = AMP_DIMS(a->dim.value), .keepdim = true);
    results[0] = amp_div(a->input, amp_clamp(norm, .min = amp_float(a->eps.value)));
}
AMP_GRADIENT_AGAIN(normalize)

/* Slices whose norm is above the limit, times limit / (norm + 1e-7). In f64, as the op has its norms. */
static void compose_renorm(const void *args, amp_tensor **results) {
    const amp_renorm_args *a = args;
    const double limit = a->maxnorm.kind == AMP_SCALAR_INT ? (double)a->maxnorm.i : a->maxnorm.re;
    amp_tensor *x = amp_dtype_is_complex(a->input->dtype) ? a->input : amp_to(a->input, AMP_F64);
    amp_dims others = {.set = AMP_PRESENT};
    for (int i = 0; i < a->input->rank; i++) {
        if (i != amp_dim_from_front(a->dim, a->input->rank)) others.values[others.count++] = i;
    }
    amp_tensor *norm = amp_linalg_vector_norm(x, a->p, .dim = others, .keepdim = true);
    amp_tensor *factor = amp_mul_scalar(amp_reciprocal(amp_add_scalar(norm, amp_float(1e-7))), amp_float(limit));
    factor = amp_where_scalar_other(amp_gt_scalar(norm, amp_float(limit)), factor, amp_int(1));
    results[0] = amp_mul(x, factor);
}
AMP_GRADIENT_AGAIN(renorm)

/* The sums over `size` neighbouring channels, zeros beyond the ends. */
static amp_tensor *channel_sums(amp_tensor *t, int64_t size) {
    if (!t) return NULL;
    const int64_t channels = t->shape[1];
    amp_tensor *rows = amp_flatten(t, .start_dim = 2); /* a list of paddings is no longer than 8 */
    amp_tensor *padded = amp_constant_pad_nd(rows, AMP_DIMS(0, 0, size / 2, (size - 1) / 2)), *sum = NULL;
    for (int64_t i = 0; i < size && padded; i++) {
        amp_tensor *shifted = amp_narrow(padded, 1, i, channels);
        sum = sum ? amp_add(sum, shifted) : shifted;
    }
    return sum ? amp_reshape(sum, amp_shape_of(t)) : NULL;
}

static void compose_local_response_norm(const void *args, amp_tensor **results) {
    const amp_local_response_norm_args *a = args;
    if (amp_tensor_elements(a->input) == 0) {
        results[0] = amp_mul_scalar(a->input, amp_int(1));
        return;
    }
    amp_tensor *sums = channel_sums(amp_square(a->input), a->size);
    amp_tensor *scaled = amp_mul_scalar(sums, amp_float(a->alpha.value / (double)a->size));
    amp_tensor *divisor = amp_pow_scalar(amp_add_scalar(scaled, amp_float(a->k.value)), amp_float(a->beta.value));
    results[0] = amp_div(a->input, divisor);
}
AMP_GRADIENT_AGAIN(local_response_norm)

/* ---- cdist, pdist --------------------------------------------------------------------------------------------------- */
static amp_tensor *zero_where_zero(amp_tensor *t, amp_tensor *of) {
    return amp_masked_fill(t, amp_eq_scalar(of, amp_int(0)), amp_int(0));
}

/* The gradient of differences whose p-norms are distances; of the largest, every one that is as large gets it all. */
static amp_tensor *by_difference(amp_tensor *apart, amp_tensor *distance, amp_tensor *of, double p) {
    if (p == 0.0) return amp_zeros_like(apart);
    if (p == 1.0) return amp_mul(amp_sign(apart), of);
    if (p == 2.0) return amp_mul(apart, zero_where_zero(amp_div(of, distance), distance));
    amp_tensor *size = amp_abs(apart);
    if (isinf(p)) return amp_mul(amp_mul(amp_sign(apart), amp_eq(size, distance)), of);
    amp_tensor *share = zero_where_zero(amp_div(of, amp_pow_scalar(distance, amp_float(p - 1.0))), distance);
    if (p > 2.0) return amp_mul(amp_mul(apart, amp_pow_scalar(size, amp_float(p - 2.0))), share);
    amp_tensor *slope = zero_where_zero(amp_pow_scalar(size, amp_float(p - 1.0)), apart);
    return amp_mul(amp_mul(amp_sign(apart), slope), share);
}

enum { DIFFERENCES = 1 << 20 }; /* coordinates of differences at a time */

static amp_tensor *plus(amp_tensor *sum, amp_tensor *t) {
    return sum ? amp_add(sum, t) : t;
}

static void give_cdist(amp_gradient *g, const amp_cdist_args *a, const amp_tensor *distances) {
    amp_tensor *x1 = amp_wide(a->x1), *x2 = amp_wide(a->x2), *of = amp_wide(g->of[0]), *d = amp_wide(g->results[0]);
    const int64_t rows = distances->shape[distances->rank - 2], all = amp_tensor_elements(distances);
    const int64_t row = rows > 0 ? all / rows * a->x1->shape[a->x1->rank - 1] : 1;
    const int64_t step = row > DIFFERENCES ? 1 : DIFFERENCES / (row > 0 ? row : 1);
    amp_tensor *second = NULL, *first = NULL;
    for (int64_t i = 0; i < rows && !amp_failed(); i += step) {
        const int64_t n = rows - i < step ? rows - i : step;
        amp_tensor *apart = amp_sub(amp_unsqueeze(amp_narrow(x1, -2, i, n), -2), amp_unsqueeze(x2, -3));
        amp_tensor *each = by_difference(apart, amp_unsqueeze(amp_narrow(d, -2, i, n), -1),
                                         amp_unsqueeze(amp_narrow(of, -2, i, n), -1), a->p.value);
        if (amp_gradient_wants(g, &a->x1)) {
            amp_tensor *part = amp_sum(each, .dim = AMP_DIMS(-2));
            first = first ? amp_cat(AMP_LIST(first, part), -2) : part;
        }
        if (amp_gradient_wants(g, &a->x2)) second = plus(second, amp_neg(amp_sum(each, .dim = AMP_DIMS(-3))));
    }
    if (amp_gradient_wants(g, &a->x1)) amp_gradient_give(g, &a->x1, first ? first : amp_zeros_like(a->x1));
    if (amp_gradient_wants(g, &a->x2)) amp_gradient_give(g, &a->x2, second ? second : amp_zeros_like(a->x2));
}

void amp_gradient_cdist(amp_gradient *g) {
    give_cdist(g, g->args, g->of[0]);
}

/* The numbers of the first and of the second point of each pair, in the order of the distances. */
static void pairs(const amp_gradient *g, int64_t points, amp_tensor **first, amp_tensor **second) {
    amp_tensor *all = amp_arange(amp_int(points), .device = (int)g->device);
    amp_tensor *column = amp_unsqueeze(all, 1), *ordered = amp_lt(column, all);
    *first = amp_masked_select(amp_expand(column, AMP_DIMS(points, points)), ordered);
    *second = amp_masked_select(amp_expand(all, AMP_DIMS(points, points)), ordered);
}

void amp_gradient_pdist(amp_gradient *g) {
    const amp_pdist_args *a = g->args;
    amp_tensor *x = amp_wide(a->input), *i = NULL, *k = NULL;
    pairs(g, a->input->shape[0], &i, &k);
    if (!x || !i || !k) return;
    amp_tensor *apart = amp_sub(amp_index_select(x, 0, i), amp_index_select(x, 0, k));
    amp_tensor *each = by_difference(apart, amp_unsqueeze(amp_wide(g->results[0]), 1),
                                     amp_unsqueeze(amp_wide(g->of[0]), 1), a->p.value);
    amp_tensor *zeros = amp_zeros_for(g, a->input, x->dtype);
    amp_tensor *sums = amp_index_add(zeros, 0, i, each);
    amp_gradient_give(g, &a->input, amp_index_add(sums, 0, k, amp_neg(each)));
}
