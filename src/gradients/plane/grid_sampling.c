/* Gradients of grid_sampler: taps and weights of every place as the op has them, written in ops, so that the gradients
 * have gradients. */
#include "amp/grad.h"
#include "gradients/pieces.h"
#include "steps/steps.h"

enum { MOST_TAPS = 4, MOST_AXES = 3 };

/* What all dimensions have in common. */
typedef struct sampling {
    int dims;
    amp_sampling_mode mode;
    amp_sampling_border border;
    bool align;
} sampling;

/* One dimension: its taps at each place, (N, places). */
typedef struct axis {
    int64_t extent;
    amp_tensor *index[MOST_TAPS], *inside[MOST_TAPS]; /* an element of the dimension, and whether the tap lies on one */
    amp_tensor *weight[MOST_TAPS];
    amp_tensor *slope[MOST_TAPS]; /* the weight's derivative by the place */
    amp_tensor *factor;           /* the place's by the grid's coordinate, but for the number … */
    double scale;                 /* … that is the same everywhere */
} axis;

static amp_tensor *times(amp_tensor *t, double number) {
    return amp_mul_scalar(t, amp_float(number));
}
static amp_tensor *plus(amp_tensor *t, double number) {
    return amp_add_scalar(t, amp_float(number));
}

/* ---- Places ----------------------------------------------------------------------------------------------------------- */
/* A place at the bounds, and its derivative: 0 or ±1. */
typedef struct bounded {
    amp_tensor *place, *slope;
} bounded;

static bounded clip(amp_tensor *x, amp_tensor *slope, int64_t extent) {
    const amp_scalar first = amp_int(0), last = amp_int(extent - 1);
    amp_tensor *within = amp_logical_and(amp_gt_scalar(x, first), amp_lt_scalar(x, last));
    return (bounded){amp_nan_to_num(amp_clamp(x, first, last)), amp_mul(slope, within)};
}

/* Between −½ and extent − ½, or the centres of the first and last element, as often as it takes. */
static bounded mirror(const sampling *s, amp_tensor *x, int64_t extent) {
    const double low = s->align ? 0.0 : -0.5, span = s->align ? (double)(extent - 1) : (double)extent;
    if (span == 0) return (bounded){amp_zeros_like(x), amp_zeros_like(x)};
    amp_tensor *from = plus(x, -low), *distance = amp_abs(from);
    amp_tensor *side = plus(times(amp_to(amp_lt_scalar(from, amp_int(0)), x ? x->dtype : AMP_F32), -2), 1);
    amp_tensor *rest = amp_fmod_scalar(distance, amp_float(span));
    amp_tensor *turns = amp_floor(times(distance, 1 / span));
    amp_tensor *even = amp_eq_scalar(amp_fmod_scalar(turns, amp_int(2)), amp_int(0));
    amp_tensor *place = amp_where(even, plus(rest, low), plus(amp_neg(rest), span + low));
    return clip(place, amp_where(even, side, amp_neg(side)), extent);
}

static bounded bound(const sampling *s, amp_tensor *x, int64_t extent) {
    if (s->border == AMP_BORDER_ZEROS) return (bounded){x, amp_ones_like(x)};
    return s->border == AMP_BORDER_EDGE ? clip(x, amp_ones_like(x), extent) : mirror(s, x, extent);
}

/* ---- Weights of the part behind the point ------------------------------------------------------------------------------ */
/* Keys's cubic convolution with a = −0.75, at a distance from the tap of up to 1, and of 1 to 2. */
static amp_tensor *near_weight(amp_tensor *x) {
    return plus(amp_mul(amp_mul(plus(times(x, 1.25), -2.25), x), x), 1);
}
static amp_tensor *near_slope(amp_tensor *x) {
    return amp_mul(plus(times(x, 3.75), -4.5), x);
}
static amp_tensor *far_weight(amp_tensor *x) {
    return plus(amp_mul(plus(amp_mul(plus(times(x, -0.75), 3.75), x), -6), x), 3);
}
static amp_tensor *far_slope(amp_tensor *x) {
    return plus(amp_mul(plus(times(x, -2.25), 7.5), x), -6);
}

static void weigh_cubically(axis *a, amp_tensor *t) {
    amp_tensor *back = plus(amp_neg(t), 1), *distance[] = {plus(t, 1), t, back, plus(back, 1)};
    for (int k = 0; k < 4; k++) {
        const bool is_near = k == 1 || k == 2;
        amp_tensor *slope = is_near ? near_slope(distance[k]) : far_slope(distance[k]);
        a->weight[k] = is_near ? near_weight(distance[k]) : far_weight(distance[k]);
        a->slope[k] = k < 2 ? slope : amp_neg(slope);
    }
}

static void weigh_linearly(axis *a, amp_tensor *t) {
    a->weight[0] = plus(amp_neg(t), 1);
    a->weight[1] = t;
    a->slope[1] = amp_ones_like(t);
    a->slope[0] = amp_neg(a->slope[1]);
}

/* ---- Taps ------------------------------------------------------------------------------------------------------------- */
static int taps_along(const sampling *s) {
    return s->mode == AMP_SAMPLE_LINEAR ? 2 : s->mode == AMP_SAMPLE_NEAREST ? 1 : 4;
}

/* Whole numbers, which may be NaN or far away, as elements of the dimension. */
static void set_index(axis *a, int tap, amp_tensor *whole) {
    const amp_scalar first = amp_int(0), last = amp_int(a->extent - 1);
    amp_tensor *number = amp_nan_to_num(whole, .nan = -1);
    a->inside[tap] = amp_logical_and(amp_ge_scalar(number, first), amp_lt_scalar(number, amp_int(a->extent)));
    a->index[tap] = amp_to(amp_clamp(number, first, last), AMP_I64);
}

static void set_taps(const sampling *s, axis *a, amp_tensor *coordinate) {
    const double extent = (double)a->extent;
    a->scale = (s->align ? extent - 1 : extent) / 2;
    amp_tensor *x = plus(times(plus(coordinate, 1), a->scale), s->align ? 0.0 : -0.5);
    amp_tensor *fixed = amp_detach(x);
    const bool cubic = s->mode == AMP_SAMPLE_CUBIC;
    const bounded b = cubic ? (bounded){fixed, amp_ones_like(fixed)} : bound(s, fixed, a->extent);
    a->factor = b.slope;
    if (s->mode == AMP_SAMPLE_NEAREST) {
        set_index(a, 0, amp_round(b.place));
        a->weight[0] = amp_ones_like(fixed);
        return;
    }
    amp_tensor *below = amp_floor(b.place);
    /* The part behind the point, and, where it has gradients, how it follows the coordinate. */
    amp_tensor *rest = amp_sub(b.place, below);
    if (x && amp_tensor_requires_grad(x)) rest = amp_add(rest, amp_mul(amp_sub(x, fixed), b.slope));
    (cubic ? weigh_cubically : weigh_linearly)(a, rest);
    for (int k = 0; k < taps_along(s); k++) {
        amp_tensor *whole = plus(below, cubic ? k - 1 : k);
        set_index(a, k, cubic ? bound(s, whole, a->extent).place : whole);
    }
}

/* ---- All dimensions --------------------------------------------------------------------------------------------------- */
typedef struct tap {
    amp_tensor *index, *outside; /* (N, places): an element of the plane; outside: true where there is none */
    amp_tensor *weight, *slope[MOST_AXES];
} tap;

static amp_tensor *product(amp_tensor *a, amp_tensor *b) {
    return a ? amp_mul(a, b) : b;
}

/* Tap number k of each dimension, k being counted through all of them. */
static tap join(const sampling *s, const axis *axes, int k, bool with_slopes) {
    tap t = {0};
    amp_tensor *inside = NULL;
    for (int d = s->dims - 1, of[MOST_AXES]; d >= 0; d--, k /= taps_along(s)) {
        of[d] = k % taps_along(s);
        const axis *a = &axes[d];
        int64_t step = 1;
        for (int e = d + 1; e < s->dims; e++) step *= axes[e].extent;
        amp_tensor *offset = amp_mul_scalar(a->index[of[d]], amp_int(step));
        t.index = t.index ? amp_add(t.index, offset) : offset;
        inside = inside ? amp_logical_and(inside, a->inside[of[d]]) : a->inside[of[d]];
        for (int e = d + 1; with_slopes && e < s->dims; e++) t.slope[e] = amp_mul(t.slope[e], a->weight[of[d]]);
        if (with_slopes) t.slope[d] = product(t.weight, a->slope[of[d]]);
        t.weight = product(t.weight, a->weight[of[d]]);
    }
    t.outside = s->border == AMP_BORDER_ZEROS ? amp_logical_not(inside) : NULL;
    return t;
}

static amp_tensor *only_inside(amp_tensor *values, amp_tensor *outside) {
    return outside ? amp_masked_fill(values, outside, amp_int(0)) : values;
}

/* Gradients while they are added up. */
typedef struct totals {
    amp_tensor *input, *coordinate[MOST_AXES];
} totals;

static amp_tensor *for_channels(amp_tensor *t, const amp_tensor *of) {
    return t ? amp_expand(amp_unsqueeze(t, 1), amp_shape_of(of)) : NULL;
}

static void add_tap(totals *sums, const sampling *s, const tap *t, amp_tensor *planes, amp_tensor *of) {
    amp_tensor *index = for_channels(t->index, of);
    if (sums->input) {
        amp_tensor *outside = t->outside ? for_channels(t->outside, of) : NULL;
        amp_tensor *values = only_inside(amp_mul(of, amp_unsqueeze(t->weight, 1)), outside);
        sums->input = amp_scatter_add(sums->input, 2, index, values);
    }
    if (!t->slope[0]) return;
    amp_tensor *meets = amp_sum(amp_mul(amp_gather(planes, 2, index), of), .dim = AMP_DIMS(1));
    for (int d = 0; d < s->dims; d++) {
        amp_tensor *part = only_inside(amp_mul(meets, t->slope[d]), t->outside);
        sums->coordinate[d] = sums->coordinate[d] ? amp_add(sums->coordinate[d], part) : part;
    }
}

/* The coordinates' gradients, W first, as the grid has them. */
static amp_tensor *as_grid(const sampling *s, const axis *axes, const totals *sums, const amp_tensor *grid) {
    amp_tensor *all[MOST_AXES];
    for (int d = 0; d < s->dims; d++)
        all[s->dims - 1 - d] = times(amp_mul(sums->coordinate[d], axes[d].factor), axes[d].scale);
    return amp_reshape(amp_stack((amp_tensor_list){all, s->dims, NULL}, -1), amp_shape_of(grid));
}

static void sample_back(amp_gradient *g, const sampling *s, amp_tensor *const *input, amp_tensor *const *grid) {
    const bool with_slopes = amp_gradient_wants(g, grid) && s->mode != AMP_SAMPLE_NEAREST;
    const int64_t batch = (*input)->shape[0], channels = (*input)->shape[1];
    int64_t elements = 1, places = 1, taps = 1;
    axis axes[MOST_AXES] = {{0}};
    for (int d = 0; d < s->dims; d++) {
        elements *= axes[d].extent = (*input)->shape[2 + d];
        places *= (*grid)->shape[1 + d];
        taps *= taps_along(s);
    }
    amp_tensor *rows = amp_reshape(amp_wide(*grid), AMP_DIMS(batch, places, s->dims));
    for (int d = 0; d < s->dims; d++) set_taps(s, &axes[d], amp_select(rows, -1, s->dims - 1 - d));
    amp_tensor *of = amp_reshape(amp_wide(g->of[0]), AMP_DIMS(batch, channels, places));
    amp_tensor *planes = amp_reshape(amp_wide(*input), AMP_DIMS(batch, channels, elements));
    if (!of || !planes || amp_last_status() != AMP_OK) return;
    totals sums = {.input = amp_gradient_wants(g, input) ? amp_zeros_like(planes) : NULL};
    for (int k = 0; k < taps; k++) {
        const tap t = join(s, axes, k, with_slopes);
        add_tap(&sums, s, &t, planes, of);
    }
    if (sums.input) amp_gradient_give(g, input, amp_reshape(sums.input, amp_shape_of(*input)));
    if (with_slopes)
        amp_gradient_give(g, grid, as_grid(s, axes, &sums, *grid));
    else if (amp_gradient_wants(g, grid))
        amp_gradient_give(g, grid, amp_zeros_like(*grid));
}

void amp_gradient_grid_sampler(amp_gradient *g) {
    const amp_grid_sampler_args *a = g->args; /* the others' too */
    const sampling s = {a->input->rank - 2, (amp_sampling_mode)a->interpolation_mode,
                        (amp_sampling_border)a->padding_mode, a->align_corners};
    sample_back(g, &s, &a->input, &a->grid);
}
