/* interpolate and the upsample_* names: which input elements, with which weights. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "ops/plane/resample_back.h"
#include "steps/steps.h"

/* What a caller can say. */
typedef struct request {
    amp_tensor *input;
    const amp_dims *size;            /* absent: scales give it */
    double scales[AMP_SPATIAL_DIMS]; /* output by input elements, of each dimension; not positive: what the sizes say */
    bool align_corners, antialias;
} request;

typedef struct method {
    const char *mode;
    int dims; /* 0: any */
    bool aligns, antialiases;
    amp_status (*run)(amp_call *call, amp_spatial *s, const request *r);
} method;

/* From an output index to a place in the input, along one dimension. */
typedef struct mapping {
    int64_t in, out;
    double scale; /* input elements per output element */
    bool align;
} mapping;

static mapping map_dimension(const amp_spatial *s, int k, const request *r) {
    mapping m = {.in = s->in[k], .out = s->out[k], .align = r->align_corners};
    const int d = k - (AMP_SPATIAL_DIMS - s->dims);
    if (d < 0) {
        m.scale = 1.0;
    } else if (m.align) {
        m.scale = m.out > 1 ? (double)(m.in - 1) / (double)(m.out - 1) : 0.0;
    } else {
        m.scale = r->scales[d] > 0 ? 1.0 / r->scales[d] : (double)m.in / (double)m.out;
    }
    return m;
}

static double source_of(const mapping *m, int64_t index) {
    return m->align ? m->scale * (double)index : m->scale * ((double)index + 0.5) - 0.5;
}

static int64_t clip(int64_t i, int64_t least, int64_t most) {
    return i < least ? least : i > most ? most : i;
}

/* ---- Nearest -------------------------------------------------------------------------------------------------- */

/* In f32 as PyTorch, whose choice between neighbours depends on its rounding. */
static int64_t nearest_below(float scale, int64_t index) {
    return (int64_t)floorf((float)index * scale);
}
static int64_t nearest_exactly(float scale, int64_t index) {
    return (int64_t)floorf((float)(((double)index + 0.5) * (double)scale));
}

/* Where a scale was given that its sizes do not say, PyTorch's kernels for nearest disagree: that for channels-last
 * tensors of more than 3 channels, and for small images, looks at the sizes first. */
static bool sizes_come_first(const amp_spatial *s) {
    const bool small = s->dims == 2 && s->out[1] + s->out[2] <= 128;
    return (s->channels_last && s->channels > 3) || small;
}

typedef int64_t source_function(float scale, int64_t index);

/* The source of each output element along dimension k. */
static int64_t *sources_along(const amp_call *call, const amp_spatial *s, int k, const request *r,
                              source_function *source) {
    mapping m = map_dimension(s, k, r);
    const bool simple = m.out == m.in || m.out == 2 * m.in;
    if (simple && source == nearest_below && sizes_come_first(s)) m.scale = (double)m.in / (double)m.out;
    int64_t *table = amp_spatial_table(call, m.out, sizeof *table);
    for (int64_t i = 0; table && i < m.out; i++) table[i] = clip(source((float)m.scale, i), 0, m.in - 1);
    return table;
}

static amp_status gather_by(amp_call *call, amp_spatial *s, const request *r, source_function *source) {
    const int64_t *tables[AMP_SPATIAL_DIMS];
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) {
        tables[k] = sources_along(call, s, k, r, source);
        if (!tables[k]) return amp_pending_error();
    }
    return amp_steps_of(call)->spatial_gather(call, s, r->input, tables);
}

static amp_status run_nearest(amp_call *call, amp_spatial *s, const request *r) {
    return gather_by(call, s, r, nearest_below);
}
static amp_status run_nearest_exact(amp_call *call, amp_spatial *s, const request *r) {
    return gather_by(call, s, r, nearest_exactly);
}

/* ---- Weighted ------------------------------------------------------------------------------------------------- */

typedef struct tap_rule {
    int64_t taps;                                                                      /* without antialiasing */
    void (*place)(const mapping *m, int64_t index, int64_t *sources, double *weights); /* NULL: antialiased only */
    double (*filter)(double x); /* antialiasing, within ± taps / 2 */
} tap_rule;

static void place_linear(const mapping *m, int64_t index, int64_t *sources, double *weights) {
    const double source = m->in == m->out ? (double)index : fmax(source_of(m, index), 0.0);
    const int64_t below = clip((int64_t)source, 0, m->in - 1);
    sources[0] = below;
    sources[1] = clip(below + 1, 0, m->in - 1);
    weights[1] = fmin(fmax(source - (double)below, 0.0), 1.0);
    weights[0] = 1.0 - weights[1];
}

/* Keys's cubic convolution (1981) with slope a at distance 1. */
static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
}

static void place_cubic(const mapping *m, int64_t index, int64_t *sources, double *weights) {
    const double source = source_of(m, index), below = floor(source), t = source - below;
    for (int64_t k = 0; k < 4; k++) {
        sources[k] = clip((int64_t)below - 1 + k, 0, m->in - 1);
        weights[k] = cubic(t + 1.0 - (double)k, -0.75);
    }
}

static double triangle(double x) {
    return fabs(x) < 1.0 ? 1.0 - fabs(x) : 0.0;
}
static double smooth_cubic(double x) {
    return cubic(x, -0.5);
}

static double sinc(double x) {
    const double pi_x = 3.14159265358979323846 * x;
    return x == 0.0 ? 1.0 : sin(pi_x) / pi_x;
}
static double lanczos(double x) {
    return fabs(x) < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
}

static const tap_rule linear_rule = {2, place_linear, triangle}, cubic_rule = {4, place_cubic, smooth_cubic},
                      lanczos_rule = {6, NULL, lanczos};

/* Shrinking, the filter is as wide as the input elements that fall on one of the output. */
static amp_status make_antialiasing(const amp_call *call, const mapping *m, const tap_rule *rule, amp_taps *taps) {
    const double stretch = m->scale >= 1.0 ? m->scale : 1.0, support = (double)rule->taps * 0.5 * stretch;
    const double widest = ceil(support) * 2.0 + 1.0;
    AMP_TRY(amp_taps_make(call, m->out, widest < (double)m->in ? (int64_t)widest : m->in, taps));
    for (int64_t i = 0; i < m->out; i++) {
        const double centre = m->scale * ((double)i + 0.5);
        const int64_t begin = clip((int64_t)(centre - support + 0.5), 0, m->in - 1);
        const int64_t end = clip((int64_t)(centre + support + 0.5), begin + 1, m->in);
        int64_t *sources = taps->index + i * taps->most;
        double *weights = taps->weights + i * taps->most, total = 0.0;
        taps->counts[i] = clip(end - begin, 1, taps->most);
        for (int64_t k = 0; k < taps->counts[i]; k++) {
            sources[k] = begin + k;
            weights[k] = rule->filter(((double)(begin + k) - centre + 0.5) / stretch);
            total += weights[k];
        }
        for (int64_t k = 0; total != 0.0 && k < taps->counts[i]; k++) weights[k] /= total;
    }
    return AMP_OK;
}

static amp_status make_taps(const amp_call *call, const mapping *m, const tap_rule *rule, amp_taps *taps) {
    AMP_TRY(amp_taps_make(call, m->out, rule->taps, taps));
    for (int64_t i = 0; i < m->out; i++) {
        taps->counts[i] = rule->taps;
        rule->place(m, i, taps->index + i * rule->taps, taps->weights + i * rule->taps);
    }
    return AMP_OK;
}

/* A dimension that the tensor does not have. */
static amp_status make_single(const amp_call *call, amp_taps *taps) {
    AMP_TRY(amp_taps_make(call, 1, 1, taps));
    taps->counts[0] = 1;
    taps->index[0] = 0;
    taps->weights[0] = 1.0;
    return AMP_OK;
}

/* Along dimension k of D, H and W. */
static amp_status weigh(const amp_call *call, const amp_spatial *s, int k, const request *r, const tap_rule *rule,
                        amp_taps *taps) {
    const mapping m = map_dimension(s, k, r);
    if (k < AMP_SPATIAL_DIMS - s->dims) return make_single(call, taps);
    /* left as it is, whatever its scale */
    if (r->antialias && m.in == m.out) return make_taps(call, &m, &linear_rule, taps);
    if (r->antialias || !rule->place) return make_antialiasing(call, &m, rule, taps);
    return make_taps(call, &m, rule, taps);
}

static amp_status run_weighted(amp_call *call, amp_spatial *s, const request *r, const tap_rule *rule) {
    amp_taps taps[AMP_SPATIAL_DIMS];
    const bool bytes = r->input->dtype == AMP_U8 && s->dims == 2;
    if (!amp_dtype_is_floating(r->input->dtype) && !bytes) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype%s", amp_call_name(call),
                        amp_describe(r->input), s->dims == 2 ? ", or u8" : "");
    }
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) AMP_TRY(weigh(call, s, k, r, rule, &taps[k]));
    return amp_steps_of(call)->resample(call, s, r->input, taps);
}

static amp_status run_linear(amp_call *call, amp_spatial *s, const request *r) {
    return run_weighted(call, s, r, &linear_rule);
}
static amp_status run_cubic(amp_call *call, amp_spatial *s, const request *r) {
    return run_weighted(call, s, r, &cubic_rule);
}

static amp_status run_lanczos(amp_call *call, amp_spatial *s, const request *r) {
    return run_weighted(call, s, r, &lanczos_rule);
}

static amp_status run_area(amp_call *call, amp_spatial *s, const request *r) {
    amp_dims size = {.count = s->dims, .set = AMP_PRESENT};
    for (int d = 0; d < s->dims; d++) size.values[d] = *amp_spatial_out(s, d);
    call->outputs[0] = s->dims == 1   ? amp_adaptive_avg_pool1d(r->input, size)
                       : s->dims == 2 ? amp_adaptive_avg_pool2d(r->input, size)
                                      : amp_adaptive_avg_pool3d(r->input, size);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

static const method methods[] = {
    {"nearest", 0, false, false, run_nearest}, {"nearest-exact", 0, false, false, run_nearest_exact},
    {"linear", 1, true, false, run_linear},    {"bilinear", 2, true, true, run_linear},
    {"trilinear", 3, true, false, run_linear}, {"bicubic", 2, true, true, run_cubic},
    {"lanczos", 2, true, true, run_lanczos},   {"area", 0, false, false, run_area},
};

static const method *find_method(const char *mode) {
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (!strcmp(methods[i].mode, mode)) return &methods[i];
    }
    return NULL;
}

/* upsample_nearest2d says what "nearest" does not. */
static int wanted_dims(const amp_call *call, const method *m) {
    const char *name = call->op->name;
    const size_t length = strlen(name);
    const bool named = !strncmp(name, "upsample_", 9) && name[length - 1] == 'd' && name[length - 2] <= '3';
    return named ? name[length - 2] - '0' : m->dims;
}

static amp_status check_dims(const amp_call *call, const amp_tensor *input, const method *m) {
    const int dims = input->rank - 2, wanted = wanted_dims(call, m);
    if (dims >= 1 && dims <= AMP_SPATIAL_DIMS && (!wanted || wanted == dims)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; mode \"%s\" takes %s", amp_call_name(call),
                    amp_describe(input), m->mode,
                    wanted == 1   ? "(N, C, W)"
                    : wanted == 2 ? "(N, C, H, W)"
                    : wanted      ? "(N, C, D, H, W)"
                                  : "3, 4 or 5 dimensions, batch and channels first");
}

static amp_status set_size(const amp_call *call, amp_spatial *s, const request *r) {
    const int64_t largest = INT64_C(1) << 30;
    amp_dims size = *r->size;
    for (int d = 0; size.set && size.count == 1 && d < s->dims; d++) size.values[d] = size.values[0];
    if (size.set) {
        if (size.count == 1) size.count = s->dims;
        AMP_TRY(amp_pool_check_dims(call, call->op->args[1].name, &size, s->dims, 1, largest));
    }
    for (int d = 0; d < s->dims; d++) {
        int64_t *extent = amp_spatial_out(s, d);
        const double wanted = size.set ? (double)size.values[d] : (double)*extent * r->scales[d];
        if (!(wanted >= 1.0 && wanted <= (double)largest)) {
            return amp_fail(AMP_ERROR_INVALID, "%s: 'scale_factor' %g makes no possible size of input %s",
                            amp_call_name(call), r->scales[d], amp_describe(r->input));
        }
        *extent = (int64_t)wanted;
    }
    return AMP_OK;
}

static amp_status resample(amp_call *call, request *r, const method *m, bool forget_scales) {
    amp_spatial s;
    AMP_TRY(check_dims(call, r->input, m));
    AMP_TRY(amp_spatial_start(call, &s, r->input, r->input->rank - 2));
    AMP_TRY(set_size(call, &s, r));
    if (forget_scales) memset(r->scales, 0, sizeof r->scales);
    return m->run(call, &s, r);
}

/* Which options go together. */
static amp_status check_options(const amp_call *call, const amp_interpolate_args *a, const method *m) {
    if (a->size.set == a->scale_factor.set) {
        return amp_fail(AMP_ERROR_INVALID, "interpolate: %s of 'size' and 'scale_factor' given; expected one",
                        a->size.set ? "both" : "neither");
    }
    if (a->align_corners.set && !m->aligns) {
        return amp_fail(AMP_ERROR_INVALID, "interpolate: 'align_corners' has no meaning for mode \"%s\"", m->mode);
    }
    if (a->antialias && !m->antialiases) {
        return amp_fail(AMP_ERROR_INVALID,
                        "interpolate: 'antialias' is for modes \"bilinear\", \"bicubic\" and \"lanczos\", not \"%s\"",
                        m->mode);
    }
    if (m->run == run_lanczos && !a->antialias) {
        return amp_fail(AMP_ERROR_INVALID, "interpolate: mode \"lanczos\" needs 'antialias'");
    }
    if (a->recompute_scale_factor.value && a->size.set) {
        return amp_fail(AMP_ERROR_INVALID, "interpolate: 'recompute_scale_factor' has no meaning with 'size'");
    }
    AMP_TRY(check_dims(call, a->input, m));
    const int dims = a->input->rank - 2, given = a->scale_factor.count;
    if (!a->scale_factor.set || given == 1 || given == dims) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "interpolate: 'scale_factor' has %d values; expected %d, or one for all", given,
                    dims);
}

amp_status amp_op_interpolate(amp_call *call) {
    const amp_interpolate_args *a = call->args;
    const method *m = find_method(a->mode);
    if (!m) {
        return amp_fail(AMP_ERROR_INVALID,
                        "interpolate: 'mode' is \"%s\"; expected \"nearest\", \"nearest-exact\", \"linear\", "
                        "\"bilinear\", \"bicubic\", \"trilinear\", \"lanczos\" or \"area\"",
                        a->mode);
    }
    AMP_TRY(check_options(call, a, m));
    request r = {
        .input = a->input, .size = &a->size, .align_corners = a->align_corners.value, .antialias = a->antialias};
    for (int d = 0; a->scale_factor.set && d < AMP_SPATIAL_DIMS; d++) {
        r.scales[d] = a->scale_factor.values[a->scale_factor.count == 1 ? 0 : d];
    }
    return resample(call, &r, m, a->recompute_scale_factor.value);
}

/* ATen's forms of interpolate: always a size, and for each dimension the scale that it came from, if any. */
static amp_status upsample(amp_call *call, const char *mode, bool antialias) {
    request r = {.input = *amp_call_tensor(call, &call->op->args[0]),
                 .size = amp_call_field(call, &call->op->args[1]),
                 .antialias = antialias};
    int scales = 0;
    for (int i = 2; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        const void *field = amp_call_field(call, arg);
        if (arg->kind == AMP_ARG_BOOL) r.align_corners = *(const bool *)field;
        if (arg->kind == AMP_ARG_OPT_FLOAT) r.scales[scales++] = ((const amp_opt_float *)field)->value;
    }
    return resample(call, &r, find_method(mode), false);
}

#define DEFINE_UPSAMPLE(op, mode, antialias)                                                                           \
    amp_status amp_op_upsample_##op(amp_call *call) {                                                                  \
        return upsample(call, mode, antialias);                                                                        \
    }
DEFINE_UPSAMPLE(nearest, "nearest", false)
DEFINE_UPSAMPLE(nearest_exact, "nearest-exact", false)
DEFINE_UPSAMPLE(linear1d, "linear", false)
DEFINE_UPSAMPLE(bilinear2d, "bilinear", false)
DEFINE_UPSAMPLE(trilinear3d, "trilinear", false)
DEFINE_UPSAMPLE(bicubic2d, "bicubic", false)
DEFINE_UPSAMPLE(bilinear2d_aa, "bilinear", true)
DEFINE_UPSAMPLE(bicubic2d_aa, "bicubic", true)

/* ---- Backward -------------------------------------------------------------------------------------------------- */

/* One tap each. */
static amp_status take_sources(const amp_call *call, const amp_spatial *s, int k, const request *r,
                               source_function *source, amp_taps *taps) {
    const int64_t *table = sources_along(call, s, k, r, source);
    if (!table) return amp_pending_error();
    AMP_TRY(amp_taps_make(call, s->out[k], 1, taps));
    for (int64_t i = 0; i < s->out[k]; i++) {
        taps->counts[i] = 1;
        taps->index[i] = table[i];
        taps->weights[i] = 1.0;
    }
    return AMP_OK;
}

static amp_status take_taps(const amp_call *call, const method *m, const amp_spatial *s, int k, const request *r,
                            amp_taps *taps) {
    if (m->run == run_nearest) return take_sources(call, s, k, r, nearest_below, taps);
    if (m->run == run_nearest_exact) return take_sources(call, s, k, r, nearest_exactly, taps);
    const tap_rule *rule = m->run == run_linear ? &linear_rule : m->run == run_cubic ? &cubic_rule : &lanczos_rule;
    return weigh(call, s, k, r, rule, taps);
}

static amp_status check_backward(const amp_call *call, const amp_upsample_backward_args *a, const method *m) {
    const int dims = a->input_size.count;
    if (!m || m->run == run_area)
        return amp_fail(AMP_ERROR_INVALID, "upsample_backward: 'mode' is \"%s\"; expected one that upsamples", a->mode);
    if (a->scales.count != 0 && a->scales.count != dims)
        return amp_fail(AMP_ERROR_INVALID, "upsample_backward: 'scales' has %d values; expected %d", a->scales.count,
                        dims);
    if (a->antialias && !m->antialiases)
        return amp_fail(AMP_ERROR_INVALID, "upsample_backward: mode \"%s\" has no 'antialias'", a->mode);
    return check_dims(call, a->grad_output, m);
}

amp_status amp_op_upsample_backward(amp_call *call) {
    const amp_upsample_backward_args *a = call->args;
    const method *m = find_method(a->mode);
    amp_tensor input;
    amp_spatial s;
    amp_taps taps[AMP_SPATIAL_DIMS];
    AMP_TRY(check_backward(call, a, m));
    AMP_TRY(amp_input_of(call, a->grad_output, &a->input_size, &input));
    AMP_TRY(amp_spatial_start(call, &s, &input, a->input_size.count));
    request r = {.input = a->grad_output, .align_corners = a->align_corners, .antialias = a->antialias};
    for (int d = 0; d < a->scales.count; d++) r.scales[d] = a->scales.values[d];
    for (int d = 0; d < s.dims; d++) {
        *amp_spatial_out(&s, d) = a->grad_output->shape[a->grad_output->rank - s.dims + d];
        if (*amp_spatial_out(&s, d) > 0) continue;
        return amp_fail(AMP_ERROR_INVALID, "upsample_backward: 'grad_output' is %s; expected elements",
                        amp_describe(a->grad_output));
    }
    for (int k = 0; k < AMP_SPATIAL_DIMS; k++) AMP_TRY(take_taps(call, m, &s, k, &r, &taps[k]));
    return amp_resample_back(call, &s, a->grad_output, taps);
}
