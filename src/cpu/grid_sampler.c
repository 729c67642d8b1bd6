/* grid_sampler_2d, grid_sampler_3d: input read at the places that a grid names, −1 … 1 from edge to edge. For every output
 * line the places become indices and weights once, and all channels are read with them. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/element.h"
#include "cpu/kernels.h"
#include "cpu/spatial.h"

typedef enum interpolation { LINEAR, NEAREST, CUBIC } interpolation;
typedef enum border { ZEROS, EDGE, MIRROR } border;

enum { MOST_TAPS = 16 };

typedef struct sampler {
    const amp_spatial *s;
    int dims, taps; /* taps of one output element */
    interpolation mode;
    border border;
    bool align;
    const void *in, *grid;
    void *out;
    const void *zeros; /* a pixel of them, channels last */
    amp_gather_taps_function *gather;
    amp_lines_function *combine;
} sampler;

/* ---- Places, along one dimension ------------------------------------------------------------------------------ */

static double unnormalised(double x, int64_t extent, bool align) {
    return align ? (x + 1.0) / 2.0 * (double)(extent - 1) : ((x + 1.0) * (double)extent - 1.0) / 2.0;
}

/* Mirrored between low/2 and high/2 as often as it takes. */
static double mirrored(double x, int64_t twice_low, int64_t twice_high) {
    if (twice_low == twice_high) return 0.0;
    const double low = (double)twice_low / 2.0, span = (double)(twice_high - twice_low) / 2.0;
    const double distance = fabs(x - low), rest = fmod(distance, span);
    return fmod(floor(distance / span), 2.0) == 0.0 ? rest + low : span - rest + low;
}

/* NaN goes, as in PyTorch, to the first element in two dimensions and to the last in three. */
static double clipped(const sampler *g, double x, int64_t extent) {
    const double last = (double)(extent - 1);
    if (x != x) return g->dims == 2 ? 0.0 : last;
    return x > 0.0 ? x < last ? x : last : 0.0;
}

static double bounded(const sampler *g, double x, int64_t extent) {
    if (g->border == ZEROS) return x;
    if (g->border == MIRROR) x = g->align ? mirrored(x, 0, 2 * (extent - 1)) : mirrored(x, -1, 2 * extent - 1);
    return clipped(g, x, extent);
}

/* −1 for what lies outside. Beyond any extent, and NaN, is outside. */
static int64_t index_of(double x, int64_t extent) {
    return x >= 0.0 && x < (double)extent ? (int64_t)x : -1;
}

/* Keys's cubic convolution with a = −0.75, at a distance from the tap. */
static double cubic(double x) {
    x = fabs(x);
    if (x <= 1.0) return (1.25 * x - 2.25) * x * x + 1.0;
    return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0;
}

typedef struct place {
    int64_t index[4];
    double weight[4];
} place;

static int taps_along(const sampler *g) {
    return g->mode == LINEAR ? 2 : g->mode == NEAREST ? 1 : 4;
}

static place find_place(const sampler *g, double coordinate, int64_t extent) {
    place p = {{-1, -1, -1, -1}, {0.0}};
    double x = unnormalised(coordinate, extent, g->align);
    if (g->mode == CUBIC) { /* its taps are bounded, not its centre */
        const double below = floor(x), t = x - below;
        for (int k = 0; k < 4; k++) {
            p.index[k] = index_of(bounded(g, below - 1.0 + k, extent), extent);
            p.weight[k] = cubic(t + 1.0 - k);
        }
        return p;
    }
    x = bounded(g, x, extent);
    if (g->mode == NEAREST) {
        p.index[0] = index_of(nearbyint(x), extent);
        p.weight[0] = 1.0;
        return p;
    }
    const double below = floor(x);
    for (int k = 0; k < 2; k++) p.index[k] = index_of(below + k, extent);
    p.weight[1] = x - below;
    p.weight[0] = 1.0 - p.weight[1];
    return p;
}

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

/* Indices into a plane, −1 for a zero, and weights: tap k of element i is at k·n + i. */
typedef struct line_taps {
    void *weight;
    int32_t *index;
} line_taps;

static void gather_f32(const sampler *g, float *out, const float *in, const line_taps *t) {
    g->gather(out, in, t->index, t->weight, g->taps, g->s->out[2]);
}
static void gather_f64(const sampler *g, double *restrict out, const double *in, const line_taps *t) {
    const int64_t n = g->s->out[2];
    for (int k = 0; k < g->taps; k++) {
        const int32_t *index = t->index + k * n;
        const double *weight = (const double *)t->weight + k * n;
        for (int64_t i = 0; i < n; i++) {
            const double x = (index[i] < 0 ? 0.0 : in[index[i]]) * weight[i];
            out[i] = k ? out[i] + x : x;
        }
    }
}

static void combine_f32(const sampler *g, float *out, const float *const *in, const float *weights) {
    g->combine(out, in, weights, g->taps, g->s->inner);
}
static void combine_f64(const sampler *g, double *restrict out, const double *const *in, const double *weights) {
    for (int k = 0; k < g->taps; k++) {
        for (int64_t c = 0; c < g->s->inner; c++) {
            out[c] = k ? out[c] + weights[k] * in[k][c] : weights[0] * in[0][c];
        }
    }
}

#define TYPE float
#define NAME(x) x##_f32
#include "cpu/grid_sampler_body.h"
#define TYPE double
#define NAME(x) x##_f64
#include "cpu/grid_sampler_body.h"

/* ---- Ops ------------------------------------------------------------------------------------------------------ */

typedef struct request {
    amp_tensor *input, *grid;
    int64_t mode, border;
    bool align;
} request;

static amp_status check(const amp_call *call, const request *r, int dims) {
    const amp_tensor *input = r->input, *grid = r->grid;
    const char *name = amp_call_name(call);
    if (!amp_dtype_is_floating(input->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: input is %s; expected a floating dtype", name, amp_describe(input));
    }
    AMP_TRY(amp_call_check_same_dtype(call, "input", input, "grid", grid));
    if (input->rank != dims + 2 || grid->rank != dims + 2 || grid->shape[0] != input->shape[0] ||
        grid->shape[dims + 1] != dims) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s, 'grid' is %s; expected %s", name, amp_describe(input),
                        amp_describe(grid),
                        dims == 2 ? "(N, C, H, W) and (N, H', W', 2)" : "(N, C, D, H, W) and (N, D', H', W', 3)");
    }
    if (r->mode < LINEAR || r->mode > (dims == 2 ? CUBIC : NEAREST)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'interpolation_mode' is %lld; expected %s", name, (long long)r->mode,
                        dims == 2 ? "0 (bilinear), 1 (nearest) or 2 (bicubic)" : "0 (trilinear) or 1 (nearest)");
    }
    if (r->border < ZEROS || r->border > MIRROR) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'padding_mode' is %lld; expected 0 (zeros), 1 (border) or 2 (reflection)", name,
                        (long long)r->border);
    }
    return AMP_OK;
}

static amp_status find_kernels(amp_call *call, sampler *g, amp_dtype compute) {
    const bool pixels = g->s->channels_last;
    const amp_kernel *gather = amp_kernel_select(AMP_KERNEL_GATHER_TAPS, AMP_F32, AMP_F32);
    const amp_kernel *combine = gather ? amp_kernel_select(AMP_KERNEL_COMBINE_LINES, AMP_F32, AMP_F32) : NULL;
    if (!combine) return amp_pending_error();
    g->gather = (amp_gather_taps_function *)gather->function;
    g->combine = (amp_lines_function *)combine->function;
    if (compute == AMP_F32) call->note.kernel = pixels ? combine->name : gather->name;
    if (!pixels) return AMP_OK;
    void *zeros = amp_spatial_table(call, g->s->inner, sizeof(double));
    if (!zeros) return amp_pending_error();
    memset(zeros, 0, (size_t)g->s->inner * sizeof(double));
    g->zeros = zeros;
    return AMP_OK;
}

static amp_status run(amp_call *call, const request *r, int dims) {
    amp_spatial s;
    AMP_TRY(check(call, r, dims));
    AMP_TRY(amp_spatial_start(call, &s, r->input, dims));
    if (s.in[0] * s.in[1] * s.in[2] > INT32_MAX) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; planes may have 2³¹ − 1 elements", amp_call_name(call),
                        amp_describe(r->input));
    }
    for (int d = 0; d < dims; d++) *amp_spatial_out(&s, d) = r->grid->shape[1 + d];
    const amp_dtype dtype = r->input->dtype, compute = amp_compute_dtype(dtype);
    const amp_spatial dense = {.rank = dims + 2};
    sampler g = {.s = &s, .dims = dims, .mode = (interpolation)r->mode, .border = (border)r->border, .align = r->align};
    amp_spatial_result result;
    AMP_TRY(amp_spatial_write(call, &s, 0, dtype, compute, &result));
    AMP_TRY(amp_spatial_read(call, &s, r->input, compute, &g.in));
    AMP_TRY(amp_spatial_read(call, &dense, r->grid, compute, &g.grid));
    g.out = result.data;
    AMP_TRY(find_kernels(call, &g, compute));
    g.taps = 1;
    for (int d = 0; d < dims; d++) g.taps *= taps_along(&g);
    const int64_t rows = s.batch * s.out[0] * s.out[1];
    const size_t scratch = (size_t)(g.taps * s.out[2]) * (sizeof(int32_t) + sizeof(double));
    AMP_TRY(amp_spatial_run(call, rows, s.out[2] * g.taps * (s.channels + 8), scratch,
                            compute == AMP_F32 ? sample_rows_f32 : sample_rows_f64, &g));
    return amp_spatial_finish(&result);
}

#define DEFINE(op, dims)                                                                                               \
    amp_status cpu_##op(amp_call *call) {                                                                              \
        const amp_##op##_args *a = call->args;                                                                         \
        const request r = {a->input, a->grid, a->interpolation_mode, a->padding_mode, a->align_corners};               \
        return run(call, &r, dims);                                                                                    \
    }
DEFINE(grid_sampler_2d, 2)
DEFINE(grid_sampler_3d, 3)
DEFINE(grid_sampler, a->input->rank == 5 ? 3 : 2)
