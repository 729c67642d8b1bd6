/* grid_sampler_2d, grid_sampler_3d: input read at the places that a grid names, −1 … 1 from edge to edge. For every run
 * of output elements the places become indices and weights once, and all channels are read with them. */
#include <math.h>
#include <string.h>

#include "amp/ops.h"
#include "call/outputs.h"
#include "core/compute_dtype.h"
#include "cpu/convert/copy.h"
#include "cpu/cpu_steps.h"
#include "cpu/plane/spatial.h"
#include "cpu/registry/kernels.h"
#include "cpu/simd/unroll.h"

enum { MOST_TAPS = 16, RUN = 256 }; /* elements whose taps are found together */

typedef struct sampler {
    const amp_spatial *s;
    int dims, taps;  /* taps of one output element */
    int64_t samples; /* output elements of a plane */
    amp_sampling_mode mode;
    amp_sampling_border border;
    bool align;
    const void *in, *grid;
    void *out;
    const void *zeros; /* a pixel of them, channels last */
    amp_gather_taps_function *gather;
    amp_lines_function *combine;
} sampler;

/* ---- Places, along one dimension ------------------------------------------------------------------------------ */

/* −1 … 1 as a place among the elements of a dimension. */
typedef struct unit_map {
    double factor, shift;
} unit_map;

static unit_map map_of(const sampler *g, int64_t extent) {
    return g->align ? (unit_map){(double)(extent - 1), 0.0} : (unit_map){(double)extent, 1.0};
}

AMP_ALWAYS_INLINE double unnormalised(unit_map m, double x) {
    return ((x + 1.0) * m.factor - m.shift) / 2.0;
}

/* Instead of floor and nearbyint, which are calls where no instruction set beyond x86-64's first is asked for; to
 * 2^51. */
AMP_ALWAYS_INLINE double nearest_whole(double x) {
    return x + 0x1.8p52 - 0x1.8p52;
}

/* Mirrored between low/2 and high/2 as often as it takes. */
static double mirrored(double x, int64_t twice_low, int64_t twice_high) {
    if (twice_low == twice_high) return 0.0;
    const double low = (double)twice_low / 2.0, span = (double)(twice_high - twice_low) / 2.0;
    const double distance = fabs(x - low);
    if (distance < span) return distance + low;
    const double rest = fmod(distance, span);
    return fmod(floor(distance / span), 2.0) == 0.0 ? rest + low : span - rest + low;
}

/* NaN goes, as in PyTorch, to the first element in two dimensions and to the last in three. One choice after the other,
 * so that compilers make vectors of them. */
AMP_ALWAYS_INLINE double clipped(const sampler *g, double x, int64_t extent) {
    const double last = (double)(extent - 1), number = x != x ? g->dims == 2 ? 0.0 : last : x;
    const double least = number > 0.0 ? number : 0.0;
    return least < last ? least : last;
}

AMP_ALWAYS_INLINE double bounded(const sampler *g, amp_sampling_border border, double x, int64_t extent) {
    if (border == AMP_BORDER_ZEROS) return x;
    if (border == AMP_BORDER_MIRROR) x = g->align ? mirrored(x, 0, 2 * (extent - 1)) : mirrored(x, -1, 2 * extent - 1);
    return clipped(g, x, extent);
}

/* Where element x begins in a plane; −1 if it lies outside. Without branches: this is done for every tap. */
AMP_ALWAYS_INLINE int32_t offset_of(int32_t x, int32_t extent, int32_t step) {
    const bool outside = (x < 0) | (x >= extent);
    return (int32_t)((uint32_t)x * (uint32_t)step) | -(int32_t)outside;
}

AMP_ALWAYS_INLINE int32_t clipped_index(int32_t x, int32_t last) {
    const int32_t least = x > 0 ? x : 0;
    return least < last ? least : last;
}

/* Keys's cubic convolution with a = −0.75, at a distance from the tap of up to 1, and of 1 to 2. */
static double cubic_near(double x) {
    return (1.25 * x - 2.25) * x * x + 1.0;
}

static double cubic_far(double x) {
    return ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0;
}

static int taps_along(const sampler *g) {
    return g->mode == AMP_SAMPLE_LINEAR ? 2 : g->mode == AMP_SAMPLE_NEAREST ? 1 : 4;
}

/* The whole number below, and what is left. AMP_SAMPLE_FARTHEST stands for all that lies farther, where nothing is
 * left; NaN and infinities leave NaN. */
typedef struct split {
    int32_t below[RUN];
    double rest[RUN];
} split;

AMP_ALWAYS_INLINE double within_reach(double x) {
    const double least = x > -(double)AMP_SAMPLE_FARTHEST ? x : -(double)AMP_SAMPLE_FARTHEST;
    return least < (double)AMP_SAMPLE_FARTHEST ? least : (double)AMP_SAMPLE_FARTHEST;
}

AMP_ALWAYS_INLINE void split_one(split *s, int64_t i, double x) {
    const double near = within_reach(x), whole = nearest_whole(near), below = whole - (whole > near ? 1.0 : 0.0);
    s->below[i] = (int32_t)below;
    s->rest[i] = (near - below) + (x - x);
}

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

/* Along one dimension: where the taps begin in a plane, −1 for what lies outside; tap k of element i is at k·n + i. */
typedef struct axis {
    double *weight;
    int32_t *offset;
} axis;

/* From one index to the next, in elements of a plane. */
static int32_t step_along(const sampler *g, int d) {
    return (int32_t)(d == 2 ? 1 : d == 1 ? g->s->in[2] : g->s->in[1] * g->s->in[2]);
}

/* Indices into a plane, −1 for a zero, and weights, in the same order. */
typedef struct run_taps {
    int64_t n, batch, first; /* elements [first, first + n) of a plane */
    void *weight;
    int32_t *index;
    axis axes[3]; /* D, H, W */
} run_taps;

/* Numbers of each kind that the taps of a run take. */
static int64_t tap_count(const sampler *g) {
    return (g->taps + 3 * taps_along(g)) * RUN;
}

static int64_t runs_of(const sampler *g) {
    return (g->samples + RUN - 1) / RUN;
}

/* Run number `row` of all planes, one after the other. */
static run_taps lay_out_taps(const sampler *g, int64_t row, void *scratch) {
    const int64_t first = row % runs_of(g) * RUN, n = g->samples - first < RUN ? g->samples - first : RUN;
    const int64_t each = taps_along(g) * n;
    double *weight = scratch;
    int32_t *index = (int32_t *)(void *)(weight + tap_count(g));
    run_taps t = {.n = n, .batch = row / runs_of(g), .first = first, .weight = weight, .index = index};
    for (int d = 0; d < 3; d++) t.axes[d] = (axis){weight + g->taps * n + d * each, index + g->taps * n + d * each};
    return t;
}

static void gather_f32(const sampler *g, float *out, const float *in, const run_taps *t) {
    g->gather(out, in, t->index, t->weight, g->taps, t->n);
}

static void gather_f64(const sampler *g, double *restrict out, const double *in, const run_taps *t) {
    const int64_t n = t->n;
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
#include "cpu/plane/grid_sampler_body.h"
#define TYPE double
#define NAME(x) x##_f64
#include "cpu/plane/grid_sampler_body.h"
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

static amp_status sample(amp_call *call, const amp_spatial *s, const amp_sampling *r) {
    const int dims = s->dims;
    const amp_dtype dtype = r->input->dtype, compute = amp_compute_dtype(dtype);
    const amp_spatial dense = {.rank = dims + 2};
    sampler g = {.s = s,
                 .dims = dims,
                 .mode = (amp_sampling_mode)r->mode,
                 .border = (amp_sampling_border)r->border,
                 .align = r->align};
    amp_spatial_result result;
    AMP_TRY(amp_spatial_write(call, s, 0, dtype, compute, &result));
    AMP_TRY(amp_spatial_read(call, s, r->input, compute, &g.in));
    AMP_TRY(amp_spatial_read(call, &dense, r->grid, compute, &g.grid));
    g.out = result.data;
    AMP_TRY(find_kernels(call, &g, compute));
    g.taps = 1;
    for (int d = 0; d < dims; d++) g.taps *= taps_along(&g);
    g.samples = s->out[0] * s->out[1] * s->out[2];
    const size_t scratch = (size_t)tap_count(&g) * (sizeof(int32_t) + sizeof(double));
    AMP_TRY(amp_spatial_run(call, s->batch * runs_of(&g), RUN * g.taps * (s->channels + 8), scratch,
                            compute == AMP_F32 ? sample_rows_f32 : sample_rows_f64, &g));
    return amp_spatial_finish(&result);
}

/* With many channels it is faster to read and write whole pixels, the copies included, unless each is read only
 * once. */
static bool wants_pixels(const amp_sampling *r) {
    enum { MANY = 8 };
    const amp_tensor *t = r->input;
    const int64_t channels = t->shape[1], plane = amp_tensor_elements(t) / t->shape[0] / channels;
    const int64_t samples = amp_tensor_elements(r->grid) / t->shape[0] / (t->rank - 2);
    return r->mode != AMP_SAMPLE_NEAREST && channels >= MANY && t->strides[1] != 1 && samples >= plane / 4;
}

static amp_tensor *channels_last(const amp_call *call, const amp_tensor *t) {
    int64_t shape[AMP_MAX_RANK] = {t->shape[0]};
    amp_dims order = {.values = {0, t->rank - 1}, .count = t->rank, .set = AMP_PRESENT};
    for (int d = 2; d < t->rank; d++) shape[d - 1] = t->shape[d];
    for (int d = 2; d < t->rank; d++) order.values[d] = d - 1;
    shape[t->rank - 1] = t->shape[1];
    amp_tensor *memory = amp_tensor_new(call->op->name, t->dtype, t->rank, shape);
    amp_tensor *copy = memory ? amp_permute(memory, order) : NULL;
    return copy && amp_cpu_copy(copy, t) == AMP_OK ? copy : NULL;
}

amp_status amp_cpu_sample_grid(amp_call *call, const amp_spatial *s, const amp_sampling *r) {
    if (amp_tensor_elements(r->input) == 0 || !wants_pixels(r)) return sample(call, s, r);
    amp_sampling pixels = *r;
    amp_spatial last = *s;
    amp_call step = amp_call_step(call);
    pixels.input = channels_last(call, r->input);
    if (!pixels.input) return amp_pending_error();
    AMP_TRY(amp_spatial_start(call, &last, pixels.input, s->dims));
    memcpy(last.out, s->out, sizeof last.out);
    AMP_TRY(sample(&step, &last, &pixels));
    call->note = step.note;
    const amp_tensor *made = step.outputs[0];
    amp_tensor *out = amp_call_output(call, 0, made->dtype, made->rank, made->shape);
    return out ? amp_cpu_copy(out, made) : amp_pending_error();
}
