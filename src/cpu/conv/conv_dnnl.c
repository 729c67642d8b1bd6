/* oneDNN's convolutions of bf16, cut into slices by their extents alone, each for one thread; scratchpads are ours.
 * Where oneDNN fails, whatever it says, the layer is not served, and our own kernel computes it. */
#include "cpu/conv/conv_dnnl.h"

#include <assert.h>
#include <string.h>

#include "core/fail.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/convert/strided_copy.h"
#include "cpu/dnnl/dnnl_cache.h"
#include "cpu/dnnl/dnnl_engine.h"
#include "cpu/registry/convert.h"
#include "cpu/registry/kernels.h"

enum {
    SLICE = 64,                /* most output channels of one */
    LANES = 16,                /* oneDNN computes whole ones: the last slice is as wide as the others */
    DEEP_BYTES = 256 * 1024,   /* least weights of a layer that is cut by output channels … */
    DEEP_PIXELS = 1024,        /* … and most pixels */
    PIECES = 64,               /* most slices of pixels */
    PIECE_PRODUCTS = 8000000,  /* least products of one */
    WHOLE_PRODUCTS = 24000000, /* most of a slice: one thread computes it */
    WHOLE_BYTES = 4 << 20      /* of images */
};

/* What the primitive of a slice depends on. */
typedef struct key {
    int64_t batch, groups, in, out; /* of the slice; channels of one group */
    amp_conv_axis axis[2];
    int64_t bias_dtype;    /* -1: none */
    int64_t scaled, added; /* 1: there is a scale, a residual */
} key;

_Static_assert(sizeof(key) <= AMP_DNNL_KEY_WORDS * sizeof(uint64_t), "a key fits the table of primitives");

/* A layer, and the slices that compute it. */
typedef struct layer {
    amp_dnnl_primitive *primitive, *lower; /* lower: NULL, or of the second slice of two unlike ones */
    const key *key;                        /* of the first */
    int64_t slices;
    int64_t out, pixels; /* slices of output channels, which `deep` layers have: of all */
    bool deep;
    int64_t x_step, y_step; /* slices of pixels: from one to the next, in bytes */
} layer;

/* ---- Primitives ----------------------------------------------------------------------------------------------- */

static dnnl_status_t describe(dnnl_memory_desc_t *d, int rank, const dnnl_dims_t dims, amp_dtype dtype,
                              dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(d, rank, dims, dtype == AMP_F32 ? dnnl_f32 : dnnl_bf16, tag);
}

typedef struct descriptors {
    dnnl_memory_desc_t x, w, bias, y;
    dnnl_primitive_attr_t attributes;
} descriptors;

/* With a scale the bias comes after it, not with the sums. */
static bool is_bias_late(const key *k) {
    return k->scaled && k->bias_dtype >= 0;
}

/* Scale, bias, residual, in this order, as far as there are any; their places are those of
 * list_arguments. */
static dnnl_status_t append_operands(dnnl_post_ops_t ops, const key *k, const_dnnl_memory_desc_t y) {
    const dnnl_dims_t channels = {1, k->groups * k->out, 1, 1};
    dnnl_memory_desc_t scale = NULL, bias = NULL;
    dnnl_status_t s = describe(&scale, 4, channels, AMP_F32, dnnl_nhwc);
    if (s == dnnl_success && k->scaled) s = dnnl_post_ops_append_binary(ops, dnnl_binary_mul, scale);
    if (s == dnnl_success && is_bias_late(k)) {
        s = describe(&bias, 4, channels, (amp_dtype)k->bias_dtype, dnnl_nhwc);
        if (s == dnnl_success) s = dnnl_post_ops_append_binary(ops, dnnl_binary_add, bias);
    }
    if (s == dnnl_success && k->added) s = dnnl_post_ops_append_binary(ops, dnnl_binary_add, y);
    if (bias) dnnl_memory_desc_destroy(bias);
    if (scale) dnnl_memory_desc_destroy(scale);
    return s;
}

static dnnl_status_t set_epilogue(dnnl_primitive_attr_t attributes, const key *k, const_dnnl_memory_desc_t y) {
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t s = dnnl_post_ops_create(&ops);
    if (s == dnnl_success) s = append_operands(ops, k, y);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_post_ops(attributes, ops);
    if (ops) dnnl_post_ops_destroy(ops);
    return s;
}

/* Returns their rank: groups come first where there are several. */
static int weight_extents(const key *k, dnnl_dims_t extents) {
    const int64_t all[] = {k->groups, k->out, k->in, k->axis[0].kernel, k->axis[1].kernel};
    const int first = k->groups == 1;
    memcpy(extents, all + first, (size_t)(5 - first) * sizeof *all);
    return 5 - first;
}

static dnnl_status_t make_descriptor(const key *k, descriptors *d, dnnl_primitive_desc_t *made) {
    const amp_conv_axis *h = &k->axis[0], *w = &k->axis[1];
    const int64_t in = k->groups * k->in, out = k->groups * k->out;
    const dnnl_dims_t x = {k->batch, in, h->in, w->in}, y = {k->batch, out, h->out, w->out}, bias = {out};
    dnnl_dims_t weights;
    const int rank = weight_extents(k, weights);
    const dnnl_dims_t strides = {h->stride, w->stride}, dilations = {h->dilation - 1, w->dilation - 1};
    const dnnl_dims_t before = {h->pad, w->pad};
    dnnl_dims_t after;
    for (int i = 0; i < 2; i++) {
        const amp_conv_axis *a = &k->axis[i];
        after[i] = (a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1 - a->in - a->pad;
    }
    dnnl_status_t s = dnnl_primitive_attr_create(&d->attributes);
    if (s == dnnl_success) s = dnnl_primitive_attr_set_scratchpad_mode(d->attributes, dnnl_scratchpad_mode_user);
    if (s == dnnl_success) s = describe(&d->x, 4, x, AMP_BF16, dnnl_nhwc);
    if (s == dnnl_success) s = describe(&d->w, rank, weights, AMP_BF16, dnnl_format_tag_any);
    if (s == dnnl_success) s = describe(&d->y, 4, y, AMP_BF16, dnnl_nhwc);
    if (s == dnnl_success && (k->scaled || k->added)) s = set_epilogue(d->attributes, k, d->y);
    if (s == dnnl_success && k->bias_dtype >= 0 && !k->scaled)
        s = describe(&d->bias, 1, bias, (amp_dtype)k->bias_dtype, dnnl_a);
    if (s != dnnl_success) return s;
    return dnnl_convolution_forward_primitive_desc_create(made, amp_dnnl_engine(), dnnl_forward_inference,
                                                          dnnl_convolution_direct, d->x, d->w, d->bias, d->y, strides,
                                                          dilations, before, after, d->attributes);
}

static void destroy_descriptors(descriptors *d) {
    const dnnl_memory_desc_t list[] = {d->x, d->w, d->bias, d->y};
    for (int i = 0; i < 4; i++)
        if (list[i]) dnnl_memory_desc_destroy(list[i]);
    if (d->attributes) dnnl_primitive_attr_destroy(d->attributes);
}

enum { SRC, WEIGHTS, DST, SCRATCHPAD, BIAS, SCALE, RESIDUAL, MEMORIES };

static dnnl_status_t describe_convolution(const void *words, dnnl_primitive_desc_t *descriptor) {
    descriptors d = {0};
    const dnnl_status_t s = make_descriptor(words, &d, descriptor);
    destroy_descriptors(&d);
    return s;
}

/* As DNNL_ARG_…, and as the above; those of the epilogue in the order of append_operands. */
static int list_operands(const key *k, int list[AMP_DNNL_OPERANDS], int which[AMP_DNNL_OPERANDS]) {
    const int plain[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};
    const struct {
        bool there;
        int which;
    } late[] = {{k->scaled, SCALE}, {is_bias_late(k), BIAS}, {k->added, RESIDUAL}};
    int count = 0, place = 0;
    for (int i = 0; i < (k->bias_dtype >= 0 && !is_bias_late(k) ? BIAS + 1 : BIAS); i++) {
        which[count] = i;
        list[count++] = plain[i];
    }
    for (int i = 0; i < 3; i++) {
        if (!late[i].there) continue;
        which[count] = late[i].which;
        list[count++] = DNNL_ARG_ATTR_MULTIPLE_POST_OP(place++) | DNNL_ARG_SRC_1;
    }
    return count;
}

static int list_arguments(const void *words, int list[AMP_DNNL_OPERANDS]) {
    int which[AMP_DNNL_OPERANDS];
    return list_operands(words, list, which);
}

/* Loops for what its kernels lack, such as some epilogue, are not worth their while. */
static bool refuses_loops(const void *words) {
    (void)words;
    return true;
}

static const amp_dnnl_kind convolutions = {sizeof(key), describe_convolution, list_arguments, refuses_loops};

/* ---- Execution ------------------------------------------------------------------------------------------------ */

/* One call's operands. */
typedef struct work {
    const layer *layer;
    char *x, *w, *y;
    char *bias, *scale; /* padded to whole slices */
    char *residual;     /* laid out as y */
    size_t slice_bytes; /* of a thread's own memory, which has its slice of the result and a scratchpad */
    int operands, which[AMP_DNNL_OPERANDS];
} work;

/* A run on the memory of `all`, by the names above. */
static dnnl_status_t execute(const work *w, const amp_dnnl_primitive *p, const amp_dnnl_operands *o,
                             char *const all[MEMORIES]) {
    void *data[AMP_DNNL_OPERANDS];
    for (int i = 0; i < w->operands; i++) data[i] = all[w->which[i]];
    return amp_dnnl_execute(p, o, data);
}

static amp_dnnl_primitive *primitive_of(const void *context, int64_t slice) {
    const layer *l = ((const work *)context)->layer;
    return slice > 0 && l->lower ? l->lower : l->primitive;
}

static dnnl_status_t run_pixels(const void *context, int64_t slice, const amp_dnnl_operands *o, char *own) {
    const work *w = context;
    const layer *l = w->layer;
    char *const residual = w->residual ? w->residual + slice * l->y_step : NULL;
    return execute(w, primitive_of(w, slice), o,
                   (char *const[MEMORIES]){w->x + slice * l->x_step, w->w, w->y + slice * l->y_step, own, w->bias,
                                           w->scale, residual});
}

static dnnl_status_t run_channels(const void *context, int64_t slice, const amp_dnnl_operands *o, char *own) {
    const work *w = context;
    const layer *l = w->layer;
    const key *k = l->key;
    const int64_t first = slice * k->out, width = l->out - first < k->out ? l->out - first : k->out;
    char *const residual = own + w->slice_bytes, *const scratch = residual + (w->residual ? w->slice_bytes : 0);
    char *const data[MEMORIES] = {
        w->x,
        w->w + (size_t)slice * l->primitive->weight_bytes,
        own,
        scratch,
        k->bias_dtype < 0 ? NULL : w->bias + (size_t)first * amp_dtype_size((amp_dtype)k->bias_dtype),
        w->scale ? w->scale + (size_t)first * sizeof(float) : NULL,
        residual};
    const size_t value = sizeof(uint16_t);
    for (int64_t i = 0; w->residual && i < l->pixels; i++) /* beyond `width` it is added to what nobody reads */
        memcpy(residual + (size_t)(i * k->out) * value, w->residual + (size_t)(i * l->out + first) * value,
               (size_t)width * value);
    const dnnl_status_t s = execute(w, l->primitive, o, data);
    if (s != dnnl_success) return s;
    for (int64_t i = 0; i < l->pixels; i++)
        memcpy(w->y + (size_t)(i * l->out + first) * value, own + (size_t)(i * k->out) * value, (size_t)width * value);
    return s;
}

/* A copy of the bias or the scale that is zero beyond the channels. */
static char *pad_channels(char *to, size_t bytes, const char *from, size_t size) {
    return memcpy(memset(to, 0, bytes), from, size);
}

/* Bias and scale as whole slices read them, in `memory`, which is to be freed. */
static dnnl_status_t pad_operands(work *w, const key *k, char **memory) {
    const layer *l = w->layer;
    const size_t value = k->bias_dtype >= 0 ? amp_dtype_size((amp_dtype)k->bias_dtype) : 0;
    const size_t bias = amp_dnnl_lines((size_t)(l->slices * k->out) * value);
    const size_t scale = k->scaled ? amp_dnnl_lines((size_t)(l->slices * k->out) * sizeof(float)) : 0;
    if (bias + scale == 0) return dnnl_success;
    *memory = amp_alloc(bias + scale);
    if (!*memory) return dnnl_out_of_memory;
    if (bias) w->bias = pad_channels(*memory, bias, w->bias, (size_t)l->out * value);
    if (scale) w->scale = pad_channels(*memory + bias, scale, w->scale, (size_t)l->out * sizeof(float));
    return dnnl_success;
}

static dnnl_status_t run(const layer *l, const amp_conv_operands *o, const void *weights, void *y) {
    const key *k = l->key;
    const size_t scratch = l->primitive->scratch_bytes, lower = l->lower ? l->lower->scratch_bytes : 0;
    work w = {.layer = l, .x = o->x.data, .w = (char *)weights, .y = y};
    char *padded = NULL;
    w.bias = o->bias.data;
    w.scale = o->scale.data;
    w.residual = o->residual.data;
    w.operands = list_operands(k, (int[AMP_DNNL_OPERANDS]){0}, w.which);
    w.slice_bytes = l->deep ? amp_dnnl_lines((size_t)(l->pixels * k->out) * sizeof(uint16_t)) : 0;
    dnnl_status_t s = l->deep ? pad_operands(&w, k, &padded) : dnnl_success;
    const amp_dnnl_slices slices = {.count = l->slices,
                                    .own_bytes =
                                        (w.residual ? 2 : 1) * w.slice_bytes + (scratch > lower ? scratch : lower),
                                    .primitive = primitive_of,
                                    .run = l->deep ? run_channels : run_pixels,
                                    .work = &w};
    if (s == dnnl_success) s = amp_dnnl_run_slices(&slices);
    amp_free(padded);
    return s;
}

/* ---- Weights -------------------------------------------------------------------------------------------------- */

/* What the builder of the cast cache gets as its convolution. */
typedef struct job {
    amp_conv conv;
    const layer *layer;
} job;

static amp_status reorder(const layer *l, char *from, char *to) {
    dnnl_dims_t extents;
    const int rank = weight_extents(l->key, extents), previous = amp_parallel_enter_library();
    const const_dnnl_memory_desc_t wanted =
        dnnl_primitive_desc_query_md(l->primitive->descriptor, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t plain = NULL;
    dnnl_status_t s = describe(&plain, rank, extents, AMP_BF16, rank == 4 ? dnnl_oihw : dnnl_goihw);
    if (s == dnnl_success) s = amp_dnnl_reorder(plain, from, wanted, to);
    if (plain) dnnl_memory_desc_destroy(plain);
    amp_parallel_leave_library(previous);
    return s == dnnl_success ? AMP_OK : amp_fail(AMP_ERROR_INTERNAL, "conv: oneDNN cannot pack weights");
}

/* By way of a copy of one slice, which is zero beyond the last output. */
static amp_status pack_slices(const layer *l, const amp_cast_key *source, char *copy, size_t bytes, char *to) {
    const key *k = l->key;
    const int64_t from[] = {source->strides[0], source->strides[1], source->strides[5], source->strides[3],
                            source->strides[4]};
    const int64_t step = k->out * from[1] * (int64_t)amp_dtype_size(source->source_dtype);
    int64_t shape[] = {k->groups, k->out, k->in, k->axis[0].kernel, k->axis[1].kernel}, strides[5];
    amp_dense_strides(5, shape, strides);
    for (int64_t i = 0; i < (l->deep ? l->slices : 1); i++, to += l->primitive->weight_bytes) {
        const int64_t left = l->out - i * k->out;
        if (left < k->out) {
            shape[1] = left > 0 ? left : 0;
            memset(copy, 0, bytes);
        }
        const char *at = (const char *)amp_cast_key_pointer(source) + i * step;
        AMP_TRY(amp_strided_copy_anywhere(copy, source->dtype, strides, at, source->source_dtype, from, 5, shape));
        AMP_TRY(reorder(l, copy, to));
    }
    return AMP_OK;
}

static amp_tensor *build_weights(const amp_cast_key *source, void *context) {
    const layer *l = ((const job *)context)->layer;
    const key *k = l->key;
    const int64_t bytes = (l->deep ? l->slices : 1) * (int64_t)l->primitive->weight_bytes;
    amp_tensor *made = amp_tensor_new("conv: packed weights", AMP_U8, 1, &bytes);
    if (!made) return NULL;
    const size_t of_copy =
        (size_t)(k->groups * k->out * k->in * k->axis[0].kernel * k->axis[1].kernel) * sizeof(uint16_t);
    char *copy = amp_alloc(of_copy);
    const amp_status status = copy ? pack_slices(l, source, copy, of_copy, made->storage->data)
                                   : amp_fail(AMP_ERROR_MEMORY, "conv: no memory to pack weights");
    amp_free(copy);
    if (status == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

/* ---- The layers ------------------------------------------------------------------------------------------------ */

static key key_of(const amp_conv *c, const amp_conv_operands *o) {
    key k;
    memset(&k, 0, sizeof k);
    k.batch = c->batch;
    k.groups = c->groups;
    k.in = c->in_channels;
    k.out = c->out_channels;
    k.axis[0] = c->axis[1];
    k.axis[1] = c->axis[2];
    k.bias_dtype = o->bias.data ? (int64_t)o->bias.dtype : -1;
    k.scaled = o->scale.data != NULL;
    k.added = o->residual.data != NULL;
    return k;
}

static int64_t products_of(const key *k) {
    const amp_conv_axis *h = &k->axis[0], *w = &k->axis[1];
    return k->batch * k->groups * k->in * k->out * h->out * h->kernel * w->out * w->kernel;
}

/* A row of the product for each pixel, as they lie. */
static bool is_plain(const key *k) {
    for (int i = 0; i < 2; i++) {
        const amp_conv_axis *a = &k->axis[i];
        if (a->kernel != 1 || a->stride != 1 || a->pad != 0 || a->in != a->out) return false;
    }
    return true;
}

static bool is_deep(const key *k) {
    return k->groups == 1 && !is_plain(k) && k->batch * k->axis[0].out * k->axis[1].out <= DEEP_PIXELS &&
           k->in * k->out * k->axis[0].kernel * k->axis[1].kernel * 2 >= DEEP_BYTES;
}

/* By output channels, of the same width. */
static void cut_channels(layer *l, key *k) {
    l->deep = true;
    l->slices = (k->out + SLICE - 1) / SLICE;
    l->pixels = k->batch * k->axis[0].out * k->axis[1].out;
    k->out = ((k->out + l->slices - 1) / l->slices + LANES - 1) / LANES * LANES;
}

/* One image into its upper and its lower lines; false where they would not both meet it. */
static bool cut_lines(layer *l, key *k, key *lower) {
    amp_conv_axis *upper = &k->axis[0], *rest = &lower->axis[0];
    const int64_t first = (upper->out + 1) / 2, reach = (upper->kernel - 1) * upper->dilation + 1;
    const int64_t end = (first - 1) * upper->stride - upper->pad + reach, begin = first * upper->stride - upper->pad;
    const int64_t skipped = begin > 0 ? begin : 0;
    if (first == upper->out || end <= 0 || skipped >= upper->in) return false;
    rest->out = upper->out - first;
    rest->in = upper->in - skipped;
    rest->pad = skipped - begin;
    upper->out = first;
    if (end < upper->in) upper->in = end;
    l->slices = 2;
    l->x_step = k->groups * k->in * skipped * k->axis[1].in * (int64_t)sizeof(uint16_t);
    l->y_step = k->groups * k->out * first * k->axis[1].out * (int64_t)sizeof(uint16_t);
    return true;
}

/* Pixels that meet no others into runs of the same length, or two of nearly the same. Returns whether they are
 * unlike. */
static bool cut_runs(layer *l, key *k, key *lower) {
    const int64_t pixels = k->batch * k->axis[0].in * k->axis[1].in, most = products_of(k) / PIECE_PRODUCTS;
    l->slices = most < 2 ? 2 : most < PIECES ? most : PIECES;
    while (pixels % l->slices != 0) l->slices--;
    const bool unlike = l->slices == 1 && pixels > 1;
    if (unlike) l->slices = 2;
    k->axis[0] = lower->axis[0] = (amp_conv_axis){1, 1, 1, 1, 0, 1};
    k->axis[1].in = k->axis[1].out = (pixels + l->slices - 1) / l->slices;
    lower->axis[1].in = lower->axis[1].out = pixels / l->slices;
    return unlike;
}

/* Into images, of one its halves: two threads have something to do. Returns whether there is a second slice, `lower`,
 * unlike the first. */
static bool cut_pixels(layer *l, key *k, key *lower) {
    const bool plain = is_plain(k), single = k->batch == 1;
    bool unlike = false;
    *lower = *k;
    l->slices = k->batch;
    if (plain) unlike = cut_runs(l, k, lower);
    k->batch = lower->batch = 1;
    if (!plain && single && cut_lines(l, k, lower)) return true;
    l->x_step = k->groups * k->in * k->axis[0].in * k->axis[1].in * (int64_t)sizeof(uint16_t);
    l->y_step = k->groups * k->out * k->axis[0].out * k->axis[1].out * (int64_t)sizeof(uint16_t);
    return unlike;
}

/* Into slices that follow from the layer alone; `k` is that of one of them from here on. As cut_pixels. */
static bool cut(layer *l, key *k, key *lower) {
    l->out = k->out;
    if (!is_deep(k)) return cut_pixels(l, k, lower);
    cut_channels(l, k);
    return false;
}

/* False: a slice is more than one thread should be left alone with. */
bool amp_conv_dnnl_cuts(const amp_conv *c) {
    layer l = {0};
    key k = key_of(c, &(amp_conv_operands){0}), lower;
    (void)cut(&l, &k, &lower);
    return l.deep || (products_of(&k) <= WHOLE_PRODUCTS && l.x_step + l.y_step <= WHOLE_BYTES);
}

/* False: oneDNN has no such layer, both of whose slices, if there are two, take one form of the weights. What was taken
 * is given back in any case. */
static bool take_layer(layer *l, key *k, const amp_conv *c, const amp_conv_operands *o) {
    key lower;
    dnnl_status_t s = dnnl_success;
    *k = key_of(c, o);
    l->key = k;
    const bool unlike = cut(l, k, &lower);
    l->primitive = amp_dnnl_take(&convolutions, k, &s);
    if (!l->primitive || !l->primitive->primitive || l->primitive->format < 0) return false;
    if (!unlike) return true;
    l->lower = amp_dnnl_take(&convolutions, &lower, &s);
    return l->lower && l->lower->primitive && l->lower->format == l->primitive->format;
}

/* Of the cast cache: by how oneDNN blocks the weights, and into slices of how many channels. */
static amp_layout layout_of(const layer *l) {
    const int widths = SLICE / LANES + 1, width = l->deep ? (int)(l->key->out / LANES) : 0;
    return (amp_layout){AMP_LAYOUT_CONV_DNNL, l->primitive->format * widths + width};
}

/* Of a result that is dense and bf16, in place: exact, so the bits are those of a relu before rounding. */
static amp_status relu(const amp_conv *c, const amp_conv_plane *y) {
    const int64_t n = c->batch * c->groups * c->out_channels * amp_conv_pixels(c);
    const amp_kernel *kernel = amp_kernel_select(AMP_KERNEL_RELU, AMP_BF16, AMP_BF16);
    if (!kernel) return amp_last_status();
    amp_unary_function *const run_relu = (amp_unary_function *)kernel->function;
    const int threads = amp_parallel_threads(n, AMP_GRAIN_ELEMENTS);
    if (threads == 1) {
        run_relu(y->data, y->data, n);
        return AMP_OK;
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int i = 0; i < threads; i++) {
        const amp_range mine = amp_parallel_part(n, 32, i, threads);
        uint16_t *const at = (uint16_t *)y->data + mine.begin;
        run_relu(at, at, mine.end - mine.begin);
    }
    return AMP_OK;
}

static amp_status compute(amp_call *call, const amp_conv *c, const layer *l, const amp_conv_operands *o,
                          const amp_conv_plane *y, bool *served) {
    const job j = {.conv = *c, .layer = l};
    amp_cast *weights = NULL;
    const amp_status status =
        amp_conv_obtain_weights(call, &j.conv, AMP_BF16, layout_of(l), 0, build_weights, &weights);
    if (status == AMP_ERROR_INTERNAL) amp_clear_error(); /* oneDNN's */
    if (status != AMP_OK) return status == AMP_ERROR_INTERNAL ? AMP_OK : status;
    if (__builtin_expect(amp_this_thread.is_preparing, 0)) {
        *served = true;
        memset(y->data, 0, (size_t)(c->batch * c->groups * c->out_channels * amp_conv_pixels(c)) * sizeof(uint16_t));
    } else {
        *served = run(l, o, weights->memory->data, y->data) == dnnl_success;
    }
    if (*served) call->note.kernel = l->primitive->name;
    amp_cast_release(weights);
    return *served && c->epilogue.activation == AMP_GEMM_RELU ? relu(c, y) : AMP_OK;
}

amp_status amp_conv_dnnl(amp_call *call, const amp_conv *c, const amp_conv_operands *o, const amp_conv_plane *y,
                         bool *served) {
    layer l = {0};
    key k;
    *served = false;
    if (c->epilogue.activation > AMP_GEMM_RELU || !amp_conv_prefers_dnnl(c, o, y)) return AMP_OK;
    const amp_status status = take_layer(&l, &k, c, o) ? compute(call, c, &l, o, y, served) : AMP_OK;
    amp_dnnl_give_back(l.lower);
    amp_dnnl_give_back(l.primitive);
    return status;
}
