/* oneDNN's convolutions: primitives are made once per shape and kept, scratchpads are ours.
 *
 * oneDNN blocks a convolution, and so orders its sums, by the number of threads that it is to run on. Here that is
 * always one: the output channels are cut into slices, by the layer alone, which our threads share out. */
#define _GNU_SOURCE /* clock_gettime */
#include "cpu/conv_dnnl.h"

#include <assert.h>
#include <omp.h>
#include <string.h>
#include <time.h>

#include "core/fail.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/choices.h"
#include "cpu/dnnl_engine.h"
#include "cpu/isa.h"
#include "cpu/strided_copy.h"

enum {
    ENTRIES = 256,            /* above, the entry unused for longest goes */
    SLICE = 64,               /* most output channels of one */
    LANES = 16,               /* oneDNN computes whole ones: the last slice is as wide as the others */
    LINE = 64,                /* bytes */
    DEEP_BYTES = 1536 * 1024, /* least weights of the class … */
    DEEP_PIXELS = 512,        /* … and most pixels */
    ROUNDS = 8,
    SIZE = 7,
    CHANNELS = 512 /* of the measurement: 3×3 from CHANNELS to as many */
};

/* What the primitive of a slice depends on; compared as bytes. */
typedef struct key {
    int64_t batch, in, out; /* of the slice */
    amp_conv_axis axis[2];
    int64_t bias_dtype; /* -1: none */
} key;

/* Weights of one description get a number, for the cast cache; never freed, for packed weights rely on it. */
typedef struct format {
    struct format *next;
    int number;
    dnnl_memory_desc_t weights;
} format;

typedef struct entry {
    struct entry *next; /* used less recently */
    key key;
    int users;
    dnnl_primitive_t primitive; /* NULL: oneDNN has none for this layer */
    dnnl_primitive_desc_t descriptor;
    const format *format;
    size_t weight_bytes, scratch_bytes;
    const char *name;
} entry;

/* Under AMP_LOCK_DNNL. */
static struct {
    entry *entries;
    int count;
    format *formats;
} state;

/* A layer, and the slices that compute it. */
typedef struct layer {
    entry *entry;
    int64_t slices, out, pixels;
} layer;

/* ---- Primitives ----------------------------------------------------------------------------------------------- */

static dnnl_status_t check(dnnl_status_t status, const char *what) {
    if (status == dnnl_out_of_memory)
        amp_fail(AMP_ERROR_MEMORY, "conv: oneDNN: no memory to %s", what);
    else if (status != dnnl_success)
        amp_fail(AMP_ERROR_INTERNAL, "conv: oneDNN cannot %s (status %d)", what, (int)status);
    return status;
}

static dnnl_status_t describe(dnnl_memory_desc_t *d, int rank, const dnnl_dims_t dims, amp_dtype dtype,
                              dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(d, rank, dims, dtype == AMP_F32 ? dnnl_f32 : dnnl_bf16, tag);
}

typedef struct descriptors {
    dnnl_memory_desc_t x, w, bias, y;
    dnnl_primitive_attr_t attributes;
} descriptors;

static dnnl_status_t make_descriptor(const key *k, descriptors *d, dnnl_primitive_desc_t *made) {
    const amp_conv_axis *h = &k->axis[0], *w = &k->axis[1];
    const dnnl_dims_t x = {k->batch, k->in, h->in, w->in}, y = {k->batch, k->out, h->out, w->out};
    const dnnl_dims_t weights = {k->out, k->in, h->kernel, w->kernel}, bias = {k->out};
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
    if (s == dnnl_success) s = describe(&d->w, 4, weights, AMP_BF16, dnnl_format_tag_any);
    if (s == dnnl_success) s = describe(&d->y, 4, y, AMP_BF16, dnnl_nhwc);
    if (s == dnnl_success && k->bias_dtype >= 0) s = describe(&d->bias, 1, bias, (amp_dtype)k->bias_dtype, dnnl_a);
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

/* Under the lock; NULL: no memory. */
static const format *find_format(const_dnnl_memory_desc_t weights) {
    format *f = state.formats;
    while (f && !dnnl_memory_desc_equal(f->weights, weights)) f = f->next;
    if (f) return f;
    f = amp_alloc_zeroed(sizeof *f);
    if (!f || dnnl_memory_desc_clone(&f->weights, weights) != dnnl_success) {
        amp_free(f);
        return NULL;
    }
    f->number = state.formats ? state.formats->number + 1 : 0;
    f->next = state.formats;
    return state.formats = f;
}

static void destroy_entry(entry *e) {
    if (e->primitive) dnnl_primitive_destroy(e->primitive);
    if (e->descriptor) dnnl_primitive_desc_destroy(e->descriptor);
    amp_free(e);
}

/* dnnl_unimplemented if oneDNN has no such convolution. */
static dnnl_status_t make_primitive(entry *e) {
    descriptors d = {0};
    const int limit = amp_parallel_limit(1), previous = amp_parallel_enter_library();
    amp_lock(AMP_LOCK_DNNL_MAKING);
    dnnl_status_t s = make_descriptor(&e->key, &d, &e->descriptor);
    if (s == dnnl_success) s = dnnl_primitive_create(&e->primitive, e->descriptor);
    amp_unlock(AMP_LOCK_DNNL_MAKING);
    amp_parallel_leave_library(previous);
    amp_parallel_limit(limit);
    destroy_descriptors(&d);
    return s;
}

static dnnl_status_t fill_entry(entry *e) {
    const dnnl_status_t s = make_primitive(e);
    if (s != dnnl_success) return s == dnnl_unimplemented ? dnnl_success : s;
    const const_dnnl_memory_desc_t weights = dnnl_primitive_desc_query_md(e->descriptor, dnnl_query_weights_md, 0);
    e->weight_bytes = (dnnl_memory_desc_get_size(weights) + LINE - 1) / LINE * LINE;
    e->scratch_bytes =
        dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(e->descriptor, dnnl_query_scratchpad_md, 0));
    amp_lock(AMP_LOCK_DNNL);
    e->name = amp_dnnl_name(e->descriptor);
    e->format = find_format(weights);
    amp_unlock(AMP_LOCK_DNNL);
    return e->format ? dnnl_success : dnnl_out_of_memory;
}

/* NULL with an error. */
static entry *make_entry(const key *k) {
    entry *e = amp_alloc_zeroed(sizeof *e);
    if (e) e->key = *k;
    if (check(e ? fill_entry(e) : dnnl_out_of_memory, "make a convolution") == dnnl_success) return e;
    if (e) destroy_entry(e);
    return NULL;
}

/* ---- The table ------------------------------------------------------------------------------------------------ */

/* The entry of a key becomes the first of the list. */
static entry *find_entry(const key *k) {
    entry **at = &state.entries;
    while (*at && memcmp(&(*at)->key, k, sizeof *k) != 0) at = &(*at)->next;
    entry *e = *at;
    if (!e) return NULL;
    *at = e->next;
    e->next = state.entries;
    return state.entries = e;
}

static void evict_oldest(void) {
    entry **oldest = NULL;
    for (entry **at = &state.entries; *at; at = &(*at)->next)
        if (!(*at)->users) oldest = at;
    if (!oldest) return;
    entry *e = *oldest;
    *oldest = e->next;
    destroy_entry(e);
    state.count--;
}

/* With the caller among its users; made outside the lock, for that takes long. NULL with an error. */
static entry *take_entry(const key *k) {
    entry *made = NULL;
    amp_lock(AMP_LOCK_DNNL);
    entry *e = find_entry(k);
    if (!e) {
        amp_unlock(AMP_LOCK_DNNL);
        made = make_entry(k);
        if (!made) return NULL;
        amp_lock(AMP_LOCK_DNNL);
        e = find_entry(k); /* another thread may have been faster */
    }
    if (!e) {
        if (state.count >= ENTRIES) evict_oldest();
        state.count++;
        made->next = state.entries;
        state.entries = e = made;
        made = NULL;
    }
    e->users++;
    amp_unlock(AMP_LOCK_DNNL);
    if (made) destroy_entry(made);
    return e;
}

static void give_entry_back(entry *e) {
    amp_lock(AMP_LOCK_DNNL);
    e->users--;
    amp_unlock(AMP_LOCK_DNNL);
}

/* ---- Execution ------------------------------------------------------------------------------------------------ */

enum { SRC, WEIGHTS, DST, SCRATCHPAD, BIAS, MEMORIES };

/* Memory objects of one thread. */
typedef struct operands {
    dnnl_stream_t stream;
    int count;
    dnnl_exec_arg_t list[MEMORIES];
} operands;

static dnnl_status_t make_operands(const entry *e, operands *o) {
    static const struct {
        int argument;
        dnnl_query_t query;
        int index;
    } list[MEMORIES] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                        {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                        {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0},
                        {DNNL_ARG_BIAS, dnnl_query_weights_md, 1}};
    const int count = e->key.bias_dtype >= 0 ? MEMORIES : BIAS;
    dnnl_status_t s = dnnl_stream_create(&o->stream, amp_dnnl_engine(), dnnl_stream_default_flags);
    for (o->count = 0; s == dnnl_success && o->count < count; o->count += s == dnnl_success) {
        const int i = o->count;
        const const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(e->descriptor, list[i].query, list[i].index);
        o->list[i].arg = list[i].argument;
        s = dnnl_memory_create(&o->list[i].memory, d, amp_dnnl_engine(), DNNL_MEMORY_NONE);
    }
    return s;
}

static void destroy_operands(operands *o) {
    for (int i = 0; i < o->count; i++) dnnl_memory_destroy(o->list[i].memory);
    if (o->stream) dnnl_stream_destroy(o->stream);
}

/* One call's operands. */
typedef struct work {
    const layer *layer;
    char *x, *w, *bias, *y; /* the bias is padded to whole slices */
    char *own;              /* own_bytes for each thread: its slice of the result, and a scratchpad */
    size_t slice_bytes, own_bytes;
} work;

static dnnl_status_t run_slice(const work *w, const operands *o, int64_t slice, char *own) {
    const layer *l = w->layer;
    const entry *e = l->entry;
    const int64_t first = slice * e->key.out, width = l->out - first < e->key.out ? l->out - first : e->key.out;
    char *const data[] = {
        w->x, w->w + (size_t)slice * e->weight_bytes, own, own + w->slice_bytes,
        e->key.bias_dtype < 0 ? NULL : w->bias + (size_t)first * amp_dtype_size((amp_dtype)e->key.bias_dtype)};
    for (int i = 0; i < o->count; i++) dnnl_memory_set_data_handle(o->list[i].memory, data[i]);
    dnnl_status_t s = dnnl_primitive_execute(e->primitive, o->stream, o->count, o->list);
    if (s == dnnl_success) s = dnnl_stream_wait(o->stream);
    if (s != dnnl_success) return s;
    const size_t value = sizeof(uint16_t);
    for (int64_t i = 0; i < l->pixels; i++)
        memcpy(w->y + (size_t)(i * l->out + first) * value, own + (size_t)(i * e->key.out) * value,
               (size_t)width * value);
    return s;
}

static dnnl_status_t run_part(const work *w, amp_range part, char *own) {
    operands o = {0};
    dnnl_status_t s = make_operands(w->layer->entry, &o);
    for (int64_t i = part.begin; s == dnnl_success && i < part.end; i++) s = run_slice(w, &o, i, own);
    destroy_operands(&o);
    return s;
}

static dnnl_status_t run_slices(const work *w, int threads) {
    dnnl_status_t failed = dnnl_success;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        const int thread = omp_get_thread_num();
        const amp_range part = amp_parallel_part(w->layer->slices, 1, thread, omp_get_num_threads());
        const dnnl_status_t s = run_part(w, part, w->own + (size_t)thread * w->own_bytes);
        if (s != dnnl_success) {
#pragma omp atomic write
            failed = s;
        }
    }
    return failed;
}

static size_t whole_lines(size_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

static amp_status run(const layer *l, const void *x, const void *weights, const void *bias, void *y) {
    const key *k = &l->entry->key;
    const size_t value = k->bias_dtype < 0 ? 0 : amp_dtype_size((amp_dtype)k->bias_dtype);
    const size_t bias_bytes = whole_lines((size_t)(l->slices * k->out) * value);
    const int threads = amp_parallel_threads(l->slices, 1);
    work w = {.layer = l, .x = (char *)x, .w = (char *)weights, .y = y};
    w.slice_bytes = whole_lines((size_t)(l->pixels * k->out) * sizeof(uint16_t));
    w.own_bytes = w.slice_bytes + whole_lines(l->entry->scratch_bytes);
    w.bias = amp_alloc(bias_bytes + (size_t)threads * w.own_bytes);
    if (!w.bias) return amp_fail(AMP_ERROR_MEMORY, "conv: no memory for oneDNN's scratchpads");
    w.own = w.bias + bias_bytes;
    if (bias) {
        memset(w.bias, 0, bias_bytes);
        memcpy(w.bias, bias, (size_t)l->out * value);
    }
    const int limit = amp_parallel_limit(1), previous = amp_parallel_enter_library();
    const dnnl_status_t s = run_slices(&w, threads);
    amp_parallel_leave_library(previous);
    amp_parallel_limit(limit);
    amp_free(w.bias);
    return check(s, "run a convolution") == dnnl_success ? AMP_OK : amp_last_status();
}

/* ---- Weights -------------------------------------------------------------------------------------------------- */

/* What the builder of the cast cache gets as its convolution. */
typedef struct job {
    amp_conv conv;
    const layer *layer;
} job;

static dnnl_status_t pack_slices(const layer *l, char *from, char *to) {
    const key *k = &l->entry->key;
    const dnnl_dims_t dims = {k->out, k->in, k->axis[0].kernel, k->axis[1].kernel};
    const size_t step = (size_t)(dims[0] * dims[1] * dims[2] * dims[3]) * sizeof(uint16_t);
    const const_dnnl_memory_desc_t wanted =
        dnnl_primitive_desc_query_md(l->entry->descriptor, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t plain = NULL;
    dnnl_status_t s = describe(&plain, 4, dims, AMP_BF16, dnnl_oihw);
    for (int64_t i = 0; s == dnnl_success && i < l->slices; i++)
        s = amp_dnnl_reorder(plain, from + (size_t)i * step, wanted, to + (size_t)i * l->entry->weight_bytes);
    if (plain) dnnl_memory_desc_destroy(plain);
    return s;
}

static amp_tensor *build_weights(const amp_tensor *source, amp_dtype dtype, void *context) {
    const layer *l = ((const job *)context)->layer;
    const key *k = &l->entry->key;
    const int64_t bytes = l->slices * (int64_t)l->entry->weight_bytes;
    const int64_t shape[] = {l->out, k->in, k->axis[0].kernel, k->axis[1].kernel};
    const int64_t from[] = {source->strides[1], source->strides[5], source->strides[3], source->strides[4]};
    int64_t to[4];
    amp_dense_strides(4, shape, to);
    amp_tensor *made = amp_tensor_new("conv: packed weights", AMP_U8, 1, &bytes);
    if (!made) return NULL;
    char *dense = amp_alloc_zeroed((size_t)(l->slices * k->out * to[0]) * amp_dtype_size(dtype));
    amp_status status =
        dense ? amp_strided_copy(dense, dtype, to, amp_tensor_pointer(source), source->dtype, from, 4, shape)
              : amp_fail(AMP_ERROR_MEMORY, "conv: no memory to pack weights");
    const int previous = amp_parallel_enter_library();
    if (status == AMP_OK && check(pack_slices(l, dense, made->storage->data), "pack weights") != dnnl_success)
        status = amp_last_status();
    amp_parallel_leave_library(previous);
    amp_free(dense);
    if (status == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

/* ---- The class ------------------------------------------------------------------------------------------------ */

static bool is_dense(const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *y) {
    const amp_conv_axis *h = &c->axis[1], *w = &c->axis[2];
    return x->dtype == AMP_BF16 && y->dtype == AMP_BF16 && x->axis[2] == c->in_channels &&
           x->axis[1] == x->axis[2] * w->in && (c->batch == 1 || x->batch == x->axis[1] * h->in) &&
           y->axis[2] == c->out_channels && y->axis[1] == y->axis[2] * w->out;
}

static bool is_of_class(const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *y) {
    const double weights = 2.0 * (double)c->in_channels * (double)c->out_channels * (double)amp_conv_taps(c);
    const bool products = amp_conv_taps(c) == 1 && c->axis[1].stride == 1 && c->axis[2].stride == 1;
    return weights >= DEEP_BYTES && !products && c->groups == 1 && c->axis[0].in == 1 && c->axis[0].kernel == 1 &&
           c->batch * amp_conv_pixels(c) <= DEEP_PIXELS && is_dense(c, x, y) && amp_isa_best() >= AMP_ISA_AVX512BF16 &&
           !amp_choose(AMP_CHOICE_CONV_DEEP);
}

/* Slices of the same width, whose primitive is taken; by the layer alone. */
static amp_status take_layer(layer *l, key *k, int64_t out) {
    l->slices = (out + SLICE - 1) / SLICE;
    l->out = out;
    l->pixels = k->batch * k->axis[0].out * k->axis[1].out;
    k->out = ((out + l->slices - 1) / l->slices + LANES - 1) / LANES * LANES;
    l->entry = take_entry(k);
    return l->entry ? AMP_OK : amp_last_status();
}

static key key_of(const amp_conv *c, const amp_conv_plane *bias) {
    key k;
    memset(&k, 0, sizeof k);
    k.batch = c->batch;
    k.in = c->in_channels;
    k.axis[0] = c->axis[1];
    k.axis[1] = c->axis[2];
    k.bias_dtype = bias->data ? (int64_t)bias->dtype : -1;
    return k;
}

static amp_status compute(amp_call *call, const amp_conv *c, const layer *l, const amp_conv_plane *x,
                          const amp_conv_plane *bias, const amp_conv_plane *y) {
    const job j = {.conv = *c, .layer = l};
    const amp_layout layout = (amp_layout)(AMP_LAYOUT_CONV_DNNL + l->entry->format->number);
    amp_cast *weights = NULL;
    AMP_TRY(amp_conv_obtain_weights(call, &j.conv, AMP_BF16, layout, build_weights, &weights));
    call->note.kernel = l->entry->name;
    const amp_status status = run(l, x->data, weights->memory->data, bias->data, y->data);
    amp_cast_release(weights);
    return status;
}

amp_status amp_conv_dnnl(amp_call *call, const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *bias,
                         const amp_conv_plane *y, bool *served) {
    layer l = {0};
    *served = false;
    if (!is_of_class(c, x, y)) return AMP_OK;
    key k = key_of(c, bias);
    AMP_TRY(take_layer(&l, &k, c->out_channels));
    *served = l.entry->primitive != NULL;
    const amp_status status = *served ? compute(call, c, &l, x, bias, y) : AMP_OK;
    give_entry_back(l.entry);
    return status;
}

/* ---- Measurement ---------------------------------------------------------------------------------------------- */

typedef struct problem {
    uint16_t *x, *w, *y;
    layer layer;
} problem;

static bool run_ours(const problem *p) {
    const amp_gemm_window window = {.out = {1, SIZE, SIZE},
                                    .in = {1, SIZE, SIZE},
                                    .taps = {1, 3, 3},
                                    .stride = {1, 1, 1},
                                    .pad = {0, 1, 1},
                                    .dilation = {1, 1, 1},
                                    .channels = CHANNELS,
                                    .run_taps = 3,
                                    .step = {0, SIZE * CHANNELS, CHANNELS}};
    const amp_gemm g = {.m = SIZE * SIZE,
                        .n = CHANNELS,
                        .k = 9 * CHANNELS,
                        .batch = 1,
                        .a = p->x,
                        .a_dtype = AMP_BF16,
                        .a_column_stride = 1,
                        .window = &window,
                        .b = p->w,
                        .c = p->y,
                        .c_dtype = AMP_BF16,
                        .c_row_stride = CHANNELS,
                        .c_line_stride = SIZE * CHANNELS,
                        .alpha = 1};
    return amp_gemm_bf16(&g, NULL) == AMP_OK;
}

static bool run_theirs(const problem *p) {
    return run(&p->layer, p->x, p->w, NULL, p->y) == AMP_OK;
}

static double rate_of(bool (*way)(const problem *p), const problem *p) {
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    const bool ran = way(p);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    const double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    return ran ? 2.0 * SIZE * SIZE * 9 * CHANNELS * CHANNELS / seconds : 0.0;
}

/* The weights are random in either layout; both are blocked without padding, and of one size. */
static bool make_problem(problem *p) {
    const size_t pixels = (size_t)SIZE * SIZE * CHANNELS, weights = (size_t)9 * CHANNELS * CHANNELS;
    uint32_t random = 1;
    key k;
    memset(&k, 0, sizeof k);
    k.batch = 1;
    k.in = CHANNELS;
    k.axis[0] = k.axis[1] = (amp_conv_axis){SIZE, SIZE, 3, 1, 1, 1};
    k.bias_dtype = -1;
    *p = (problem){0};
    if (take_layer(&p->layer, &k, CHANNELS) != AMP_OK || !p->layer.entry->primitive ||
        (size_t)p->layer.slices * p->layer.entry->weight_bytes > 2 * weights)
        return false;
    p->x = amp_alloc((2 * pixels + weights) * sizeof *p->x);
    if (!p->x) return false;
    p->w = p->x + pixels;
    p->y = p->w + weights;
    for (size_t i = 0; i < pixels + weights; i++) { /* -1 … 1, of many magnitudes */
        random = random * 1664525u + 1013904223u;
        p->x[i] = (uint16_t)((random >> 16 & 0x80ffu) | 0x3e00u);
    }
    return true;
}

/* On one thread, by its own clock: other programs of the machine disturb a team more. No result depends on how many run
 * meanwhile. */
void amp_conv_dnnl_measure(double *ours, double *theirs) {
    problem p;
    *ours = *theirs = 0.0;
    if (amp_isa_best() < AMP_ISA_AVX512BF16) return;
    const int limit = amp_parallel_limit(1);
    if (make_problem(&p)) {
        (void)run_ours(&p); /* self-tests, primitives and caches */
        (void)run_theirs(&p);
        for (int i = 0; i < ROUNDS; i++) {
            const double a = rate_of(run_ours, &p), b = rate_of(run_theirs, &p);
            if (a > *ours) *ours = a;
            if (b > *theirs) *theirs = b;
        }
    }
    amp_free(p.x);
    if (p.layer.entry) give_entry_back(p.layer.entry);
    amp_parallel_limit(limit);
}
