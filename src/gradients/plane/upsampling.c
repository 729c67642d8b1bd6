/* Gradients of interpolate and the upsample_* names. */
#include "gradients/pieces.h"

static amp_dims spatial_shape(const amp_tensor *t) {
    amp_dims shape = {.count = t->rank - 2, .set = AMP_PRESENT};
    memcpy(shape.values, t->shape + 2, (size_t)shape.count * sizeof *shape.values);
    return shape;
}

void amp_gradient_interpolate(amp_gradient *g) {
    const amp_interpolate_args *a = g->args;
    const amp_dims size = spatial_shape(a->input);
    if (strcmp(a->mode, "area") == 0) {
        amp_gradient_give(g, &a->input, amp_adaptive_avg_pool_backward(g->of[0], size));
        return;
    }
    amp_floats scales = {.count = size.count, .set = AMP_PRESENT};
    for (int d = 0; a->scale_factor.set && !a->recompute_scale_factor.value && d < size.count; d++)
        scales.values[d] = a->scale_factor.values[a->scale_factor.count == 1 ? 0 : d];
    amp_gradient_give(g, &a->input,
                      amp_upsample_backward(g->of[0], size, a->mode, a->align_corners.value, a->antialias, scales));
}

/* The words of interpolate for the names that have them. */
static const struct method {
    const char *name, *mode;
    bool antialias;
} methods[] = {
    {"upsample_nearest_exact", "nearest-exact", false},
    {"upsample_nearest", "nearest", false},
    {"upsample_linear1d", "linear", false},
    {"upsample_bilinear2d_aa", "bilinear", true},
    {"upsample_bilinear2d", "bilinear", false},
    {"upsample_trilinear3d", "trilinear", false},
    {"upsample_bicubic2d_aa", "bicubic", true},
    {"upsample_bicubic2d", "bicubic", false},
};

static const struct method *method_of(const char *name) {
    const struct method *m = methods;
    while (strncmp(name, m->name, strlen(m->name)) != 0) m++;
    return m;
}

/* What the upsample_* names have in common: sizes, then perhaps align_corners, then a scale for each dimension. */
void amp_gradient_upsample(amp_gradient *g) {
    amp_tensor *const *input = amp_first_argument(g);
    const struct method *m = method_of(g->op->name);
    const amp_dims size = spatial_shape(*input);
    amp_floats scales = {.count = size.count, .set = AMP_PRESENT};
    bool align_corners = false;
    for (int i = 2, d = 0; i < g->op->arg_count; i++) {
        const void *field = (const char *)g->args + g->op->args[i].offset;
        if (g->op->args[i].kind == AMP_ARG_BOOL) align_corners = *(const bool *)field;
        if (g->op->args[i].kind == AMP_ARG_OPT_FLOAT) scales.values[d++] = ((const amp_opt_float *)field)->value;
    }
    amp_gradient_give(g, input, amp_upsample_backward(g->of[0], size, m->mode, align_corners, m->antialias, scales));
}

/* ---- Forward once more ------------------------------------------------------------------------------------------------ */
static amp_tensor *nearest(amp_tensor *t, amp_dims size, bool exact, const amp_opt_float s[3]) {
    if (size.count == 1)
        return exact ? amp_upsample_nearest_exact1d(t, size, s[0]) : amp_upsample_nearest1d(t, size, s[0]);
    if (size.count == 2)
        return exact ? amp_upsample_nearest_exact2d(t, size, s[0], s[1]) : amp_upsample_nearest2d(t, size, s[0], s[1]);
    return exact ? amp_upsample_nearest_exact3d(t, size, s[0], s[1], s[2])
                 : amp_upsample_nearest3d(t, size, s[0], s[1], s[2]);
}

static amp_tensor *weighted(amp_tensor *t, amp_dims size, const amp_upsample_backward_args *a,
                            const amp_opt_float s[3]) {
    const bool align = a->align_corners, cubic = strcmp(a->mode, "bicubic") == 0;
    if (size.count == 1) return amp_upsample_linear1d(t, size, align, s[0]);
    if (size.count == 3) return amp_upsample_trilinear3d(t, size, align, s[0], s[1], s[2]);
    if (a->antialias)
        return cubic ? amp_upsample_bicubic2d_aa(t, size, align, s[0], s[1])
                     : amp_upsample_bilinear2d_aa(t, size, align, s[0], s[1]);
    return cubic ? amp_upsample_bicubic2d(t, size, align, s[0], s[1])
                 : amp_upsample_bilinear2d(t, size, align, s[0], s[1]);
}

/* A scale that is not positive says nothing, there as here. */
static amp_tensor *lanczos(amp_tensor *t, amp_dims size, const amp_upsample_backward_args *a) {
    if (a->scales.count > 0 && a->scales.values[0] > 0)
        return amp_interpolate(t, .scale_factor = a->scales, .mode = a->mode, .antialias = true);
    return amp_interpolate(t, .size = size, .mode = a->mode, .antialias = true);
}

void amp_gradient_upsample_backward(amp_gradient *g) {
    const amp_upsample_backward_args *a = g->args;
    const amp_dims size = spatial_shape(a->grad_output);
    amp_opt_float scales[3] = {{.set = 0}};
    for (int d = 0; d < a->scales.count; d++) {
        if (a->scales.values[d] > 0) scales[d] = (amp_opt_float)AMP_SET(a->scales.values[d]);
    }
    const bool exact = strcmp(a->mode, "nearest-exact") == 0;
    amp_tensor *t = exact || strcmp(a->mode, "nearest") == 0 ? nearest(g->of[0], size, exact, scales)
                    : strcmp(a->mode, "lanczos") == 0        ? lanczos(g->of[0], size, a)
                                                             : weighted(g->of[0], size, a, scales);
    amp_gradient_give(g, &a->grad_output, t);
}
