/* Gradients of convolutions through oneDNN: of images channels last, cut into images or groups of them by the extents
 * alone, each of which is one thread's work. What the groups have of a weight's gradient is f32, and added up in their
 * order.
 *
 * Accumulator: f32, in oneDNN's order.
 * Error bound: that of the sums; a result of bf16 is rounded once. */
#include <string.h>

#include "core/fail.h"
#include "core/layout.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/conv/conv.h"
#include "cpu/cpu_steps.h"
#include "cpu/dnnl/dnnl_cache.h"
#include "cpu/dnnl/dnnl_engine.h"
#include "cpu/product/matmul.h"
#include "machine/isa.h"

enum {
    PIECE_PRODUCTS =
        200000000, /* least products of a group of images: adding its weight's gradient to the others' takes time */
    MOST_PIECES = 8,
    MOST_SUMS = 32 << 20 /* bytes of what all groups have */
};

/* What the primitive of a slice depends on. */
typedef struct key {
    int64_t writes_weight;
    int64_t dtype; /* of images, and of the weight that is read */
    int64_t batch, groups, in, out;
    amp_conv_axis axis[2];
} key;

_Static_assert(sizeof(key) <= AMP_DNNL_KEY_WORDS * sizeof(uint64_t), "a key fits the table of primitives");

/* ---- Primitives --------------------------------------------------------------------------------------------------- */
typedef struct descriptors {
    dnnl_memory_desc_t x, w, y;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t forward; /* oneDNN asks for it, as a hint */
} descriptors;

static dnnl_data_type_t type_of(amp_dtype dtype) {
    return dtype == AMP_F32 ? dnnl_f32 : dnnl_bf16;
}

/* Returns their rank: groups come first where there are several. */
static int weight_extents(const key *k, dnnl_dims_t extents) {
    const int64_t all[] = {k->groups, k->out, k->in, k->axis[0].kernel, k->axis[1].kernel};
    const int first = k->groups == 1;
    memcpy(extents, all + first, (size_t)(5 - first) * sizeof *all);
    return 5 - first;
}

typedef struct geometry {
    dnnl_dims_t strides, dilations, before, after;
} geometry;

static geometry geometry_of(const key *k) {
    geometry g;
    for (int i = 0; i < 2; i++) {
        const amp_conv_axis *a = &k->axis[i];
        g.strides[i] = a->stride;
        g.dilations[i] = a->dilation - 1;
        g.before[i] = a->pad;
        g.after[i] = (a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1 - a->in - a->pad;
    }
    return g;
}

static dnnl_status_t describe_memory(const key *k, descriptors *d) {
    const dnnl_dims_t x = {k->batch, k->groups * k->in, k->axis[0].in, k->axis[1].in};
    const dnnl_dims_t y = {k->batch, k->groups * k->out, k->axis[0].out, k->axis[1].out};
    dnnl_dims_t w;
    const int rank = weight_extents(k, w);
    const dnnl_data_type_t type = type_of((amp_dtype)k->dtype), sums = k->writes_weight ? dnnl_f32 : type;
    dnnl_status_t s = dnnl_memory_desc_create_with_tag(&d->x, 4, x, type, dnnl_nhwc);
    if (s == dnnl_success) s = dnnl_memory_desc_create_with_tag(&d->y, 4, y, type, dnnl_nhwc);
    if (s == dnnl_success) s = dnnl_memory_desc_create_with_tag(&d->w, rank, w, sums, dnnl_format_tag_any);
    return s;
}

/* The hint's weight is of the images' type. */
static dnnl_status_t describe_forward(const key *k, const geometry *g, descriptors *d) {
    dnnl_memory_desc_t w = NULL;
    dnnl_dims_t extents;
    const int rank = weight_extents(k, extents);
    dnnl_status_t s =
        dnnl_memory_desc_create_with_tag(&w, rank, extents, type_of((amp_dtype)k->dtype), dnnl_format_tag_any);
    if (s == dnnl_success)
        s = dnnl_convolution_forward_primitive_desc_create(&d->forward, amp_dnnl_engine(), dnnl_forward_training,
                                                           dnnl_convolution_direct, d->x, w, NULL, d->y, g->strides,
                                                           g->dilations, g->before, g->after, d->attributes);
    if (w) dnnl_memory_desc_destroy(w);
    return s;
}

static dnnl_status_t make_descriptor(const key *k, descriptors *d, dnnl_primitive_desc_t *made) {
    const geometry g = geometry_of(k);
    dnnl_status_t s = dnnl_primitive_attr_create(&d->attributes);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_scratchpad_mode(d->attributes, dnnl_scratchpad_mode_user);
    if (s == dnnl_success) s = describe_memory(k, d);
    if (s == dnnl_success) s = describe_forward(k, &g, d);
    if (s != dnnl_success) return s;
    if (k->writes_weight)
        return dnnl_convolution_backward_weights_primitive_desc_create(made, amp_dnnl_engine(), dnnl_convolution_direct,
                                                                       d->x, d->w, NULL, d->y, g.strides, g.dilations,
                                                                       g.before, g.after, d->forward, d->attributes);
    return dnnl_convolution_backward_data_primitive_desc_create(made, amp_dnnl_engine(), dnnl_convolution_direct, d->x,
                                                                d->w, d->y, g.strides, g.dilations, g.before, g.after,
                                                                d->forward, d->attributes);
}

static dnnl_status_t describe(const void *words, dnnl_primitive_desc_t *made) {
    descriptors d = {0};
    const dnnl_status_t s = make_descriptor(words, &d, made);
    const dnnl_memory_desc_t list[] = {d.x, d.w, d.y};
    for (int i = 0; i < 3; i++)
        if (list[i]) dnnl_memory_desc_destroy(list[i]);
    if (d.forward) dnnl_primitive_desc_destroy(d.forward);
    if (d.attributes) dnnl_primitive_attr_destroy(d.attributes);
    return s;
}

/* In the order in which runs name x, w, y and the scratchpad. */
static int list_arguments(const void *words, int list[AMP_DNNL_OPERANDS]) {
    const bool weight = ((const key *)words)->writes_weight != 0;
    list[0] = weight ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC;
    list[1] = weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    list[2] = DNNL_ARG_DIFF_DST;
    list[3] = DNNL_ARG_SCRATCHPAD;
    return 4;
}

static bool refuses_loops(const void *words) {
    (void)words;
    return true;
}

static const amp_dnnl_kind gradients = {sizeof(key), describe, list_arguments, refuses_loops};

/* ---- Slices ------------------------------------------------------------------------------------------------------- */
typedef struct work {
    amp_dnnl_primitive *primitive;
    char *x, *w, *y;
    size_t x_step, w_step, y_step; /* from slice to slice; w_step: 0 where all read one weight */
} work;

static amp_dnnl_primitive *primitive_of(const void *context, int64_t slice) {
    (void)slice;
    return ((const work *)context)->primitive;
}

static dnnl_status_t run_slice(const void *context, int64_t slice, const amp_dnnl_operands *o, char *own) {
    const work *w = context;
    const size_t i = (size_t)slice;
    return amp_dnnl_execute(w->primitive, o,
                            (void *[]){w->x + i * w->x_step, w->w + i * w->w_step, w->y + i * w->y_step, own});
}

static key key_of(const amp_conv_back *c) {
    key k;
    memset(&k, 0, sizeof k);
    k.writes_weight = c->writes_weight;
    k.dtype = c->y->dtype;
    k.batch = c->y->shape[0];
    k.groups = c->groups;
    k.out = c->y->shape[1] / c->groups;
    k.in = (c->writes_weight ? c->x->shape[1] : c->w->shape[1] * c->groups) / c->groups;
    memcpy(k.axis, &c->axis[1], sizeof k.axis);
    return k;
}

static double products_of(const key *k) {
    const amp_conv_axis *h = &k->axis[0], *w = &k->axis[1];
    return (double)(k->batch * k->groups * k->in * k->out) * (double)(h->out * h->kernel) *
           (double)(w->out * w->kernel);
}

/* Images of a slice: one where each has its own part of the result; of a weight's gradient groups of even size. */
static int64_t slices_of(const key *k) {
    if (!k->writes_weight) return k->batch < 1 ? 1 : k->batch;
    const int64_t bytes = 4 * k->groups * k->in * k->out * k->axis[0].kernel * k->axis[1].kernel;
    const double most = products_of(k) / PIECE_PRODUCTS, fit = (double)MOST_SUMS / (double)(bytes > 0 ? bytes : 1);
    int64_t count = (int64_t)(most < fit ? most : fit);
    if (count > MOST_PIECES) count = MOST_PIECES;
    if (count > k->batch) count = k->batch;
    for (; count > 1; count--) {
        if (k->batch % count == 0) return count;
    }
    return 1;
}

static size_t image_bytes(const key *k, bool of_y) {
    const amp_conv_axis *h = &k->axis[0], *w = &k->axis[1];
    const int64_t elements = of_y ? k->groups * k->out * h->out * w->out : k->groups * k->in * h->in * w->in;
    return (size_t)(k->batch * elements) * amp_dtype_size((amp_dtype)k->dtype);
}

/* ---- The weight as oneDNN wants it, and back ------------------------------------------------------------------------ */
static dnnl_status_t describe_tensor(dnnl_memory_desc_t *d, const key *k, const amp_tensor *t) {
    dnnl_dims_t extents;
    const int rank = weight_extents(k, extents);
    const int64_t *s = t->strides;
    const int64_t row = t->rank == 4 ? s[2] : 0;
    const dnnl_dims_t all = {s[0] * k->out, s[0], s[1], row, s[t->rank - 1]};
    return dnnl_memory_desc_create_with_strides(d, rank, extents, type_of(t->dtype), all + (5 - rank));
}

/* Between the tensor and the primitive's own form at `own`. */
static dnnl_status_t reorder(const amp_dnnl_primitive *p, const key *k, const amp_tensor *t, void *own) {
    const dnnl_query_t which = k->writes_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    const const_dnnl_memory_desc_t form = dnnl_primitive_desc_query_md(p->descriptor, which, 0);
    dnnl_memory_desc_t plain = NULL;
    dnnl_status_t s = describe_tensor(&plain, k, t);
    void *const memory = (void *)(uintptr_t)amp_tensor_pointer(t);
    const int previous = amp_parallel_enter_library();
    if (s == dnnl_success)
        s = k->writes_weight ? amp_dnnl_reorder(form, own, plain, memory) : amp_dnnl_reorder(plain, memory, form, own);
    amp_parallel_leave_library(previous);
    if (plain) dnnl_memory_desc_destroy(plain);
    return s;
}

/* The groups' sums, into the first's. */
static void add_up(float *sums, int64_t count, int64_t slices) {
    const int threads = amp_parallel_threads(count * slices, AMP_GRAIN_ELEMENTS);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int thread = 0; thread < threads; thread++) {
        const amp_range mine = amp_parallel_part(count, 16, thread, threads);
        for (int64_t i = 1; i < slices; i++)
            for (int64_t j = mine.begin; j < mine.end; j++) sums[j] += sums[i * count + j];
    }
}

static dnnl_status_t run(const amp_conv_back *c, amp_dnnl_primitive *p, const key *k, int64_t slices, char *weights,
                         size_t weight_bytes) {
    const amp_tensor *w = amp_tensor_memory(c->w);
    const work job = {.primitive = p,
                      .x = (char *)(uintptr_t)amp_tensor_pointer(c->x),
                      .y = (char *)(uintptr_t)amp_tensor_pointer(c->y),
                      .w = weights,
                      .x_step = image_bytes(k, false),
                      .y_step = image_bytes(k, true),
                      .w_step = c->writes_weight ? weight_bytes : 0};
    dnnl_status_t s = c->writes_weight ? dnnl_success : reorder(p, k, w, weights);
    if (s == dnnl_success)
        s = amp_dnnl_run_slices(&(amp_dnnl_slices){
            .count = slices, .own_bytes = p->scratch_bytes, .primitive = primitive_of, .run = run_slice, .work = &job});
    if (s != dnnl_success || !c->writes_weight) return s;
    if (slices > 1) add_up((float *)(void *)weights, (int64_t)(weight_bytes / sizeof(float)), slices);
    return reorder(p, k, w, weights);
}

/* ---- The step ------------------------------------------------------------------------------------------------------- */
/* An image as oneDNN takes it: no gaps. */
static bool lies_channels_last(const amp_tensor *t) {
    int64_t dense[AMP_MAX_RANK];
    if (!t) return true;
    if (t->rank != 4 || !t->storage) return false;
    amp_channels_last_strides(t->rank, t->shape, dense);
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] != 1 && t->strides[d] != dense[d]) return false;
    return true;
}

/* oneDNN takes no padding that cuts the image. */
static bool is_padded(const amp_conv_axis *a) {
    const int64_t after = (a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1 - a->in - a->pad;
    return after + a->stride >= 0;
}

/* Whether the weight's gradient is rather made of products of pixels: of kernels of one element where an image is
 * small, or all are few; of a few more with strides where an image is tiny. Measured for ResNet-50's, 1 to 32 images,
 * on Zen 4: in bf16 oneDNN has 0.57 to
 * 0.97 of the product's time above the bounds, 1.04 to 3.9 below; in f32 it has the product's or more, but with strides 0.8 above
 * 64 windows and 1.2 below; 3 × 3 with strides 1.15 to 1.37 at 49 windows. */
static bool is_rather_product(const amp_conv_back *c) {
    enum { SMALL_IMAGE = 256, FEW_PIXELS = 4096 };
    if (!c->writes_weight || c->groups > 1) return false;
    const bool is_f32 = c->y->dtype == AMP_F32, has_strides = c->axis[1].stride * c->axis[2].stride > 1;
    const int64_t windows = c->axis[1].out * c->axis[2].out, taps = c->axis[1].kernel * c->axis[2].kernel;
    if (taps > 1)
        return has_strides && windows <= AMP_CONV_FEW_WINDOWS && taps <= AMP_CONV_FEW_TAPS &&
               c->x->shape[1] >= AMP_CONV_MANY_CHANNELS && c->y->shape[1] >= AMP_CONV_MANY_CHANNELS;
    if (has_strides) return windows <= (is_f32 ? AMP_CONV_FEW_WINDOWS : SMALL_IMAGE);
    return is_f32 || windows <= SMALL_IMAGE || windows * c->y->shape[0] <= FEW_PIXELS;
}

bool amp_cpu_has_convolve_back(const amp_conv_back *c, amp_dtype dtype) {
    const amp_dtype own = c->y->dtype;
    const bool computes = own == AMP_F32 || (own == AMP_BF16 && amp_isa_best() >= AMP_ISA_AVX512BF16);
    const bool stores = dtype == own || (c->writes_weight && dtype == AMP_F32);
    return amp_dnnl_use_now() != AMP_DNNL_NEVER && computes && stores && c->axes == 2 && c->y->shape[0] > 0 &&
           lies_channels_last(c->y) && lies_channels_last(c->writes_weight ? c->x : NULL) && is_padded(&c->axis[1]) &&
           is_padded(&c->axis[2]) && !is_rather_product(c);
}

static amp_status run_with(amp_call *call, const amp_conv_back *c, amp_dnnl_primitive *p, const key *k, int64_t slices,
                           bool *served) {
    const dnnl_query_t which = c->writes_weight ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
    const size_t bytes =
        amp_dnnl_lines(dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(p->descriptor, which, 0)));
    char *weights = amp_alloc(bytes * (size_t)(c->writes_weight ? slices : 1));
    if (!weights) return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a weight as oneDNN has it", amp_call_name(call));
    *served = run(c, p, k, slices, weights, bytes) == dnnl_success;
    if (*served) call->note.kernel = p->name;
    amp_free(weights);
    return AMP_OK;
}

amp_status amp_cpu_convolve_back(amp_call *call, const amp_conv_back *c, bool *served) {
    dnnl_status_t s = dnnl_success;
    key k = key_of(c);
    const int64_t slices = slices_of(&k);
    k.batch /= slices;
    *served = false;
    if (!c->writes_weight) AMP_TRY(amp_cpu_matmul_operand(call, c->w, false));
    amp_dnnl_primitive *p = amp_dnnl_take(&gradients, &k, &s);
    const amp_status status = p && p->primitive ? run_with(call, c, p, &k, slices, served) : AMP_OK;
    amp_dnnl_give_back(p);
    return status;
}
