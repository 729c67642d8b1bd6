/* Resize, Upsample, DepthToSpace, SpaceToDepth, CenterCropPad. */
#include <math.h>
#include <string.h>

#include "onnx/ops.h"
#include "onnx/ops/pieces.h"
#include "onnx/ops/resize_taps.h"

/* ---- Resize: what is asked for --------------------------------------------------------------------------------- */

typedef struct resize {
    amp_resize_axis axes[AMP_MAX_RANK];
    int rank;
    double outside;
} resize;

typedef struct word {
    const char *name;
    int value;
} word;

/* The number of a word of an attribute. */
static amp_status read_word(const amp_onnx_step *s, const char *attribute, const word *words, int *value) {
    const char *given = amp_onnx_text(s, attribute, words[0].name);
    for (; words->name; words++) {
        if (strcmp(given, words->name) != 0) continue;
        *value = words->value;
        return AMP_OK;
    }
    return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute '%s' is '%s'", attribute, given);
}

static const word modes[] = {{"nearest", AMP_RESIZE_NEAREST},
                             {"linear", AMP_RESIZE_LINEAR},
                             {"bilinear", AMP_RESIZE_LINEAR},
                             {"cubic", AMP_RESIZE_CUBIC},
                             {NULL, 0}};
static const word places[] = {{"half_pixel", AMP_RESIZE_HALF_PIXEL},
                              {"half_pixel_symmetric", AMP_RESIZE_HALF_PIXEL_SYMMETRIC},
                              {"pytorch_half_pixel", AMP_RESIZE_PYTORCH_HALF_PIXEL},
                              {"align_corners", AMP_RESIZE_ALIGN_CORNERS},
                              {"asymmetric", AMP_RESIZE_ASYMMETRIC},
                              {"tf_crop_and_resize", AMP_RESIZE_CROP},
                              {NULL, 0}};
static const word rounds[] = {{"round_prefer_floor", AMP_RESIZE_PREFER_FLOOR},
                              {"round_prefer_ceil", AMP_RESIZE_PREFER_CEIL},
                              {"floor", AMP_RESIZE_FLOOR},
                              {"ceil", AMP_RESIZE_CEIL},
                              {NULL, 0}};

/* The numbers of a float input; 0: it is absent or empty. */
static amp_status read_floats(const amp_onnx_step *s, const amp_tensor *t, float *to, int room, int *count) {
    *count = t ? (int)amp_tensor_elements(t) : 0;
    if (t && amp_tensor_elements(t) > room) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%s where at most %d numbers are expected", amp_describe(t), room);
    }
    return *count == 0 ? AMP_OK : amp_read(t, AMP_F32, to, (size_t)*count * sizeof *to);
}

/* An extent times a scale, in f32 as the scales are. */
static amp_status scale_axis(const amp_onnx_step *s, amp_resize_axis *axis, float scale) {
    const float output = floorf((float)axis->input * scale);
    if (!(scale > 0) || !(output < 2147483648.0f)) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "a scale of %g for an extent of %lld", (double)scale,
                             (long long)axis->input);
    }
    axis->scale = (double)scale;
    axis->output = (int64_t)output;
    return AMP_OK;
}

static amp_status read_scales(const amp_onnx_step *s, resize *r, const amp_dims *axes, const float *scales, int count) {
    if (count != axes->count) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%d scales for %d dimensions", count, axes->count);
    }
    for (int i = 0; i < count; i++) AMP_TRY(scale_axis(s, &r->axes[axes->values[i]], scales[i]));
    return AMP_OK;
}

/* One scale for all, the smallest or largest, with the extents rounded. */
static amp_status keep_aspect(const amp_onnx_step *s, resize *r, const amp_dims *axes, bool largest) {
    double scale = r->axes[axes->values[0]].scale;
    for (int i = 1; i < axes->count; i++) {
        const double other = r->axes[axes->values[i]].scale;
        if (largest ? other > scale : other < scale) scale = other;
    }
    for (int i = 0; i < axes->count; i++) {
        amp_resize_axis *axis = &r->axes[axes->values[i]];
        const double output = scale * (double)axis->input + 0.5;
        if (!(output < 2147483648.0)) return amp_onnx_fail(s, AMP_ERROR_INVALID, "an extent of %g", output);
        axis->scale = scale;
        axis->output = (int64_t)output;
    }
    return AMP_OK;
}

static amp_status read_sizes(const amp_onnx_step *s, resize *r, const amp_dims *axes, const amp_tensor *sizes) {
    static const word policies[] = {{"stretch", 0}, {"not_larger", 1}, {"not_smaller", 2}, {NULL, 0}};
    int64_t values[AMP_MAX_RANK] = {0};
    int policy = 0;
    const int64_t count = amp_onnx_read_ints(s, sizes, values, AMP_MAX_RANK);
    if (count < 0) return amp_pending_error();
    AMP_TRY(read_word(s, "keep_aspect_ratio_policy", policies, &policy));
    if (count != axes->count) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld sizes for %d dimensions", (long long)count, axes->count);
    }
    for (int i = 0; i < axes->count; i++) {
        amp_resize_axis *axis = &r->axes[axes->values[i]];
        if (values[i] < 0 || values[i] > INT32_MAX || (axis->input == 0 && values[i] > 0)) {
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "a size of %lld for an extent of %lld", (long long)values[i],
                                 (long long)axis->input);
        }
        axis->output = values[i];
        axis->scale = axis->input ? (double)values[i] / (double)axis->input : 1;
    }
    return policy != 0 && axes->count > 0 ? keep_aspect(s, r, axes, policy == 2) : AMP_OK;
}

static amp_status read_roi(const amp_onnx_step *s, resize *r, const amp_dims *axes) {
    float roi[2 * AMP_MAX_RANK] = {0};
    int count = 0;
    AMP_TRY(read_floats(s, amp_onnx_input(s, 1), roi, 2 * AMP_MAX_RANK, &count));
    if (count != 2 * axes->count) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "roi has %d numbers; expected %d", count, 2 * axes->count);
    }
    for (int i = 0; i < axes->count; i++) {
        r->axes[axes->values[i]].roi_begin = (double)roi[i];
        r->axes[axes->values[i]].roi_end = (double)roi[axes->count + i];
    }
    return AMP_OK;
}

/* All axes as they are. */
static void begin(resize *r, const amp_tensor *x, const amp_resize_axis *kind) {
    r->rank = x->rank;
    for (int d = 0; d < x->rank; d++) {
        r->axes[d] = *kind;
        r->axes[d].input = r->axes[d].output = x->shape[d];
        r->axes[d].scale = r->axes[d].roi_end = 1;
    }
}

static amp_status read_resize(const amp_onnx_step *s, const amp_tensor *x, resize *r) {
    int mode = 0, place = 0, rounding = 0, count = 0;
    float scales[AMP_MAX_RANK] = {0};
    AMP_TRY(read_word(s, "mode", modes, &mode));
    AMP_TRY(read_word(s, "coordinate_transformation_mode", places, &place));
    AMP_TRY(read_word(s, "nearest_mode", rounds, &rounding));
    begin(r, x,
          &(amp_resize_axis){.mode = (amp_resize_mode)mode,
                             .place = (amp_resize_place)place,
                             .round = (amp_resize_round)rounding,
                             .cubic_a = amp_onnx_float(s, "cubic_coeff_a", -0.75),
                             .antialias = amp_onnx_int(s, "antialias", 0) != 0,
                             .exclude_outside = amp_onnx_int(s, "exclude_outside", 0) != 0});
    r->outside = amp_onnx_float(s, "extrapolation_value", 0);
    amp_dims axes;
    AMP_TRY(amp_onnx_axes(s, INT32_MAX, "axes", x->rank, &axes));
    if (!axes.set) axes = amp_onnx_dims_between(0, x->rank);
    if (place == AMP_RESIZE_CROP) AMP_TRY(read_roi(s, r, &axes));
    const amp_tensor *sizes = amp_onnx_input(s, 3);
    AMP_TRY(read_floats(s, amp_onnx_input(s, 2), scales, AMP_MAX_RANK, &count));
    if (sizes && amp_tensor_elements(sizes) > 0) return read_sizes(s, r, &axes, sizes);
    return read_scales(s, r, &axes, scales, count);
}

/* ---- Resize: one op where there is one -------------------------------------------------------------------------- */

/* Only height and width of (N, C, H, W) change. */
static bool is_plane(const resize *r) {
    bool plane = r->rank == 4;
    for (int d = 0; plane && d < 2; d++) {
        plane = r->axes[d].input == r->axes[d].output && r->axes[d].scale == 1 && r->axes[d].place != AMP_RESIZE_CROP;
    }
    return plane;
}

/* Each element 2, 4, 8, … times, wherever its middle is said to lie. */
static bool is_repetition(const amp_resize_axis *a) {
    const int64_t times = (int64_t)a->scale;
    if ((double)times != a->scale || times < 1 || (times & (times - 1)) != 0 || a->output != a->input * times)
        return false;
    if (a->place == AMP_RESIZE_ASYMMETRIC) return a->round == AMP_RESIZE_FLOOR || a->round == AMP_RESIZE_SIMPLE;
    return a->place == AMP_RESIZE_HALF_PIXEL && a->round <= AMP_RESIZE_PREFER_CEIL;
}

/* The scale is that of the extents, but for rounding of f64. */
static bool is_whole(const amp_resize_axis *a) {
    return fabs(a->scale * (double)a->input - (double)a->output) <= 1e-9 * (double)a->output;
}

/* The filter is that of libamp's op. */
static bool is_smooth(const amp_resize_axis *a, bool *corners) {
    *corners = a->place == AMP_RESIZE_ALIGN_CORNERS;
    const bool known = a->place == AMP_RESIZE_HALF_PIXEL ||
                       (a->place == AMP_RESIZE_PYTORCH_HALF_PIXEL && a->output > 1) || (*corners && is_whole(a));
    const bool filter = a->mode == AMP_RESIZE_LINEAR || (a->mode == AMP_RESIZE_CUBIC && a->cubic_a == -0.75);
    return known && filter && !a->antialias && !a->exclude_outside;
}

/* NULL: there is none (or an error stands). */
static amp_tensor *resize_plane(amp_tensor *x, const resize *r) {
    const amp_resize_axis *h = &r->axes[2], *w = &r->axes[3];
    const amp_dims size = AMP_DIMS(h->output, w->output);
    bool corners = false, wide_corners = false;
    if (!is_plane(r) || h->output < 1 || w->output < 1) return NULL;
    if (h->mode == AMP_RESIZE_NEAREST) {
        return is_repetition(h) && is_repetition(w) ? amp_interpolate(x, .size = size, .mode = "nearest") : NULL;
    }
    if (!amp_dtype_is_floating(x->dtype) || !is_smooth(h, &corners) || !is_smooth(w, &wide_corners)) return NULL;
    if (corners != wide_corners) return NULL;
    const bool linear = h->mode == AMP_RESIZE_LINEAR;
    if (is_whole(h) && is_whole(w)) {
        return amp_interpolate(x, .size = size, .mode = linear ? "bilinear" : "bicubic",
                               .align_corners = AMP_SET(corners));
    }
    const amp_opt_float scale_h = AMP_SET(h->scale), scale_w = AMP_SET(w->scale);
    return linear ? amp_upsample_bilinear2d(x, size, corners, .scales_h = scale_h, .scales_w = scale_w)
                  : amp_upsample_bicubic2d(x, size, corners, .scales_h = scale_h, .scales_w = scale_w);
}

/* ---- Resize: axis by axis ---------------------------------------------------------------------------------------- */

static amp_tensor *resize_axis(const amp_onnx_step *s, amp_tensor *x, const amp_resize_axis *a, int d,
                               amp_tensor **outside) {
    if (a->input == 0 || !x) return x;
    if (a->output == 0) return amp_narrow(x, d, 0, 0);
    const int64_t count = amp_resize_tap_count(a), all[2] = {count, a->output};
    const bool nearest = a->mode == AMP_RESIZE_NEAREST;
    int64_t *indices = amp_onnx_memory(AMP_I64, count * a->output);
    float *weights = nearest ? NULL : amp_onnx_memory(AMP_F32, count * a->output);
    unsigned char *marks = amp_onnx_memory(AMP_BOOL, a->output);
    if (!indices || !marks || (!nearest && !weights)) return NULL;
    if (amp_resize_taps(a, count, indices, weights, marks)) {
        amp_tensor *mark = amp_onnx_from_host(s, AMP_BOOL, 1, &a->output, marks);
        amp_dims shape = amp_onnx_same_dims(x->rank, 1);
        shape.values[d] = a->output;
        mark = amp_reshape(mark, shape);
        *outside = *outside ? amp_logical_or(*outside, mark) : mark;
    }
    amp_tensor *index = amp_onnx_from_host(s, AMP_I64, 2, all, indices);
    if (nearest) return amp_index_select(x, d, amp_select(index, 0, 0));
    amp_tensor *weight = amp_to(amp_onnx_from_host(s, AMP_F32, 2, all, weights), x->dtype), *sum = NULL;
    amp_dims shape = amp_onnx_same_dims(x->rank, 1);
    shape.values[d] = a->output;
    for (int64_t t = 0; t < count; t++) {
        amp_tensor *tap = amp_index_select(x, d, amp_select(index, 0, t));
        amp_tensor *share = amp_reshape(amp_select(weight, 0, t), shape);
        sum = sum ? amp_addcmul(sum, tap, share) : amp_mul(tap, share);
    }
    return sum;
}

static amp_status resize_axes(amp_onnx_step *s, amp_tensor *x, const resize *r) {
    const amp_dtype dtype = x->dtype;
    const bool nearest = r->axes[0].mode == AMP_RESIZE_NEAREST, whole = !amp_dtype_is_floating(dtype);
    amp_tensor *outside = NULL,
               *y = nearest || (!whole && dtype != AMP_F16 && dtype != AMP_BF16) ? x : amp_to(x, AMP_F32);
    for (int d = 0; d < r->rank; d++) {
        const amp_resize_axis *a = &r->axes[d];
        if (a->input == a->output && a->scale == 1 &&
            (a->place != AMP_RESIZE_CROP || (a->roi_begin == 0 && a->roi_end == 1)))
            continue;
        y = resize_axis(s, y, a, d, &outside);
    }
    if (outside) y = amp_masked_fill(y, outside, amp_float(r->outside));
    if (whole && !nearest) y = amp_round(y);
    return amp_onnx_set(s, 0, amp_to(y, dtype));
}

static amp_status resize_anyhow(amp_onnx_step *s, amp_tensor *x, const resize *r) {
    amp_tensor *y = resize_plane(x, r);
    if (y || amp_failed()) return amp_onnx_set(s, 0, y);
    return resize_axes(s, x, r);
}

amp_status onnx_resize(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    resize r = {.rank = 0};
    if (!x) return amp_pending_error();
    if (x->rank < 1)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "the input is %s; expected dimensions", amp_describe(x));
    AMP_TRY(read_resize(s, x, &r));
    return resize_anyhow(s, x, &r);
}

/* Resize 10 and Upsample: scales only, as an attribute or an input. */
amp_status onnx_resize_10(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    resize r = {.rank = 0};
    float scales[AMP_MAX_RANK] = {0};
    int mode = 0, count = 0;
    if (!x) return amp_pending_error();
    AMP_TRY(read_word(s, "mode", modes, &mode));
    begin(
        &r, x,
        &(amp_resize_axis){.mode = (amp_resize_mode)mode, .place = AMP_RESIZE_ASYMMETRIC, .round = AMP_RESIZE_SIMPLE});
    const amp_dims axes = amp_onnx_dims_between(0, x->rank);
    const double *listed = amp_onnx_floats(s, "scales", &count);
    for (int i = 0; listed && i < count && i < AMP_MAX_RANK; i++) scales[i] = (float)listed[i];
    if (!listed) AMP_TRY(read_floats(s, amp_onnx_input(s, 1), scales, AMP_MAX_RANK, &count));
    if (x->rank < 1 || count != x->rank) {
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%d scales for an input %s", count, amp_describe(x));
    }
    AMP_TRY(read_scales(s, &r, &axes, scales, count));
    return resize_anyhow(s, x, &r);
}

/* ---- Blocks ------------------------------------------------------------------------------------------------------- */

/* (N, C, H, W), and blocks of b by b that `divided` dimensions divide into. */
static amp_status read_block(const amp_onnx_step *s, const amp_tensor *x, bool to_depth, int64_t *b) {
    *b = amp_onnx_int(s, "blocksize", 0);
    const bool fits = x->rank == 4 && *b >= 1 && *b <= INT16_MAX;
    if (fits && (to_depth ? x->shape[2] % *b == 0 && x->shape[3] % *b == 0 : x->shape[1] % (*b * *b) == 0))
        return AMP_OK;
    return amp_onnx_fail(s, AMP_ERROR_INVALID, "blocks of %lld in %s", (long long)*b, amp_describe(x));
}

amp_status onnx_depth_to_space(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    int64_t b = 0;
    if (!x) return amp_pending_error();
    AMP_TRY(read_block(s, x, false, &b));
    const char *mode = amp_onnx_text(s, "mode", "DCR");
    if (strcmp(mode, "CRD") == 0) return amp_onnx_set(s, 0, amp_pixel_shuffle(x, b));
    if (strcmp(mode, "DCR") != 0) return amp_onnx_fail(s, AMP_ERROR_INVALID, "attribute 'mode' is '%s'", mode);
    const int64_t *n = x->shape, depth = n[1] / (b * b);
    amp_tensor *blocks =
        amp_permute(amp_reshape(x, AMP_DIMS(n[0], b, b, depth, n[2], n[3])), AMP_DIMS(0, 3, 4, 1, 5, 2));
    return amp_onnx_set(s, 0, amp_reshape(blocks, AMP_DIMS(n[0], depth, n[2] * b, n[3] * b)));
}

amp_status onnx_space_to_depth(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0);
    int64_t b = 0;
    if (!x) return amp_pending_error();
    AMP_TRY(read_block(s, x, true, &b));
    const int64_t *n = x->shape, height = n[2] / b, width = n[3] / b;
    amp_tensor *blocks =
        amp_permute(amp_reshape(x, AMP_DIMS(n[0], n[1], height, b, width, b)), AMP_DIMS(0, 3, 5, 1, 2, 4));
    return amp_onnx_set(s, 0, amp_reshape(blocks, AMP_DIMS(n[0], n[1] * b * b, height, width)));
}

/* Of an odd number the larger half is cropped, or added, at the end. */
amp_status onnx_center_crop_pad(amp_onnx_step *s) {
    amp_tensor *x = amp_onnx_required(s, 0), *shape = amp_onnx_required(s, 1);
    if (!x || !shape) return amp_pending_error();
    int64_t wanted[AMP_MAX_RANK];
    amp_dims axes;
    AMP_TRY(amp_onnx_axes(s, INT32_MAX, "axes", x->rank, &axes));
    if (!axes.set) axes = amp_onnx_dims_between(0, x->rank);
    const int64_t count = amp_onnx_read_ints(s, shape, wanted, AMP_MAX_RANK);
    if (count < 0) return amp_pending_error();
    if (count != axes.count)
        return amp_onnx_fail(s, AMP_ERROR_INVALID, "%lld extents for %d axes", (long long)count, axes.count);
    for (int i = 0; i < axes.count; i++) {
        const int64_t d = axes.values[i], here = x->shape[d];
        if (wanted[i] < 0 || wanted[i] > INT32_MAX)
            return amp_onnx_fail(s, AMP_ERROR_INVALID, "an extent of %lld", (long long)wanted[i]);
        if (wanted[i] < here) x = amp_narrow(x, d, (here - wanted[i]) / 2, wanted[i]);
        if (wanted[i] > here && d < x->rank) {
            /* The moved axis is the last, where one pair of numbers pads it. */
            const int64_t before = (wanted[i] - here) / 2;
            x = amp_transpose(x, d, -1);
            x = amp_transpose(amp_constant_pad_nd(x, AMP_DIMS(before, wanted[i] - here - before)), d, -1);
        }
        if (!x) return amp_pending_error();
    }
    return amp_onnx_set(s, 0, x);
}
