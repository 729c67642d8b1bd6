/* oneDNN's convolutions: primitives are made once per shape and kept, scratchpads are ours. */
#define _GNU_SOURCE /* clock_gettime */
#include "cpu/conv_dnnl.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "core/fail.h"
#include "core/memory.h"
#include "core/parallel.h"
#include "cpu/choices.h"
#include "cpu/isa.h"
#include "cpu/strided_copy.h"

enum {
    ENTRIES = 64,             /* shapes that are kept; what comes later is computed by our own kernels */
    FORMATS = 16,             /* of weights */
    DEEP_BYTES = 1536 * 1024, /* least weights of the class … */
    DEEP_PIXELS = 512,        /* … and most pixels */
    ROUNDS = 8,
    SIZE = 7,
    CHANNELS = 512 /* of the measurement: 3×3 from CHANNELS to as many */
};

/* What a primitive depends on; compared as bytes. */
typedef struct key {
    int64_t batch, in, out;
    amp_conv_axis axis[2];
    int64_t bias_dtype; /* -1: none */
    int64_t threads;
} key;

typedef struct entry {
    key key;
    dnnl_primitive_desc_t descriptor; /* NULL: oneDNN has no such primitive */
    dnnl_primitive_t primitive;
    int format; /* of the weights */
    size_t weight_bytes, scratch_bytes;
    const char *name;
} entry;

static struct {
    pthread_mutex_t lock;
    dnnl_engine_t engine;
    entry entries[ENTRIES]; /* never change once they are made */
    int count;
    dnnl_memory_desc_t formats[FORMATS];
    int format_count;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Primitives ----------------------------------------------------------------------------------------------- */

static int find_format(const_dnnl_memory_desc_t d) {
    int i = 0;
    while (i < state.format_count && !dnnl_memory_desc_equal(state.formats[i], d)) i++;
    if (i < state.format_count) return i;
    if (i == FORMATS || dnnl_memory_desc_clone(&state.formats[i], d) != dnnl_success) return -1;
    state.format_count++;
    return i;
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
    return dnnl_convolution_forward_primitive_desc_create(made, state.engine, dnnl_forward_inference,
                                                          dnnl_convolution_direct, d->x, d->w, d->bias, d->y, strides,
                                                          dilations, before, after, d->attributes);
}

static void destroy_descriptors(descriptors *d) {
    const dnnl_memory_desc_t list[] = {d->x, d->w, d->bias, d->y};
    for (int i = 0; i < 4; i++)
        if (list[i]) dnnl_memory_desc_destroy(list[i]);
    if (d->attributes) dnnl_primitive_attr_destroy(d->attributes);
}

/* Fills e for e->key; leaves its descriptor NULL where anything fails. */
static void make_entry(entry *e) {
    descriptors d = {0};
    dnnl_primitive_desc_t made = NULL;
    if (make_descriptor(&e->key, &d, &made) == dnnl_success) {
        const const_dnnl_memory_desc_t weights = dnnl_primitive_desc_query_md(made, dnnl_query_weights_md, 0);
        e->weight_bytes = dnnl_memory_desc_get_size(weights);
        e->scratch_bytes = dnnl_memory_desc_get_size(dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0));
        e->format = find_format(weights);
        dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &e->name); /* lives as long as the descriptor */
        if (e->format >= 0 && dnnl_primitive_create(&e->primitive, made) == dnnl_success)
            e->descriptor = made;
        else
            dnnl_primitive_desc_destroy(made);
    }
    destroy_descriptors(&d);
}

/* NULL: oneDNN has no such convolution, or the table of shapes is full. */
static const entry *entry_of(const key *k) {
    const entry *found = NULL;
    pthread_mutex_lock(&state.lock);
    if (!state.engine && dnnl_engine_create(&state.engine, dnnl_cpu, 0) != dnnl_success) state.engine = NULL;
    for (int i = 0; i < state.count && !found; i++)
        if (memcmp(&state.entries[i].key, k, sizeof *k) == 0) found = &state.entries[i];
    if (!found && state.engine && state.count < ENTRIES) {
        entry *e = &state.entries[state.count++];
        const int previous = amp_parallel_enter_library();
        e->key = *k;
        make_entry(e);
        amp_parallel_leave_library(previous);
        found = e;
    }
    pthread_mutex_unlock(&state.lock);
    return found && found->descriptor ? found : NULL;
}

static dnnl_status_t execute(const entry *e, void *const data[5]) {
    static const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};
    static const dnnl_query_t queries[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md,
                                           dnnl_query_scratchpad_md, dnnl_query_weights_md};
    const int count = e->key.bias_dtype >= 0 ? 5 : 4;
    dnnl_exec_arg_t list[5];
    dnnl_stream_t stream = NULL;
    dnnl_status_t s = dnnl_stream_create(&stream, state.engine, dnnl_stream_default_flags);
    int made = 0;
    for (; s == dnnl_success && made < count; made += s == dnnl_success) {
        const const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(e->descriptor, queries[made], made == 4);
        list[made].arg = arguments[made];
        s = dnnl_memory_create(&list[made].memory, d, state.engine, data[made]);
    }
    if (s == dnnl_success) s = dnnl_primitive_execute(e->primitive, stream, count, list);
    if (s == dnnl_success) s = dnnl_stream_wait(stream);
    for (int i = 0; i < made; i++) dnnl_memory_destroy(list[i].memory);
    if (stream) dnnl_stream_destroy(stream);
    return s;
}

static amp_status run(const entry *e, const void *x, const void *w, const void *bias, void *y) {
    void *scratch = e->scratch_bytes ? amp_alloc(e->scratch_bytes) : NULL;
    if (e->scratch_bytes && !scratch) return amp_fail(AMP_ERROR_MEMORY, "conv: no memory for oneDNN's scratchpad");
    const int previous = amp_parallel_enter_library();
    const dnnl_status_t s = execute(e, (void *const[]){(void *)x, (void *)w, y, scratch, (void *)bias});
    amp_parallel_leave_library(previous);
    amp_free(scratch);
    return s == dnnl_success ? AMP_OK : amp_fail(AMP_ERROR_INTERNAL, "conv: oneDNN fails with status %d", (int)s);
}

/* ---- Weights -------------------------------------------------------------------------------------------------- */

/* What the builder of the cast cache gets as its convolution. */
typedef struct job {
    amp_conv conv;
    const entry *entry;
} job;

static dnnl_status_t reorder(const entry *e, void *from, void *to) {
    const key *k = &e->key;
    const dnnl_dims_t dims = {k->out, k->in, k->axis[0].kernel, k->axis[1].kernel};
    const const_dnnl_memory_desc_t wanted = dnnl_primitive_desc_query_md(e->descriptor, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t plain = NULL;
    dnnl_memory_t source = NULL, target = NULL;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    dnnl_status_t s = describe(&plain, 4, dims, AMP_BF16, dnnl_oihw);
    if (s == dnnl_success) s = dnnl_stream_create(&stream, state.engine, dnnl_stream_default_flags);
    if (s == dnnl_success) s = dnnl_memory_create(&source, plain, state.engine, from);
    if (s == dnnl_success) s = dnnl_memory_create(&target, wanted, state.engine, to);
    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(&descriptor, plain, state.engine, wanted, state.engine, NULL);
    if (s == dnnl_success) s = dnnl_primitive_create(&primitive, descriptor);
    const dnnl_exec_arg_t list[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
    if (s == dnnl_success) s = dnnl_primitive_execute(primitive, stream, 2, list);
    if (s == dnnl_success) s = dnnl_stream_wait(stream);
    if (primitive) dnnl_primitive_destroy(primitive);
    if (descriptor) dnnl_primitive_desc_destroy(descriptor);
    if (target) dnnl_memory_destroy(target);
    if (source) dnnl_memory_destroy(source);
    if (stream) dnnl_stream_destroy(stream);
    if (plain) dnnl_memory_desc_destroy(plain);
    return s;
}

static amp_tensor *build_weights(const amp_tensor *source, amp_dtype dtype, void *context) {
    const entry *e = ((const job *)context)->entry;
    const key *k = &e->key;
    const int64_t shape[] = {k->out, k->in, k->axis[0].kernel, k->axis[1].kernel}, bytes = (int64_t)e->weight_bytes;
    const int64_t from[] = {source->strides[1], source->strides[5], source->strides[3], source->strides[4]};
    int64_t to[4];
    amp_dense_strides(4, shape, to);
    amp_tensor *made = amp_tensor_new("conv: packed weights", AMP_U8, 1, &bytes);
    if (!made) return NULL;
    void *dense = amp_alloc((size_t)(shape[0] * to[0]) * amp_dtype_size(dtype));
    amp_status status =
        dense ? amp_strided_copy(dense, dtype, to, amp_tensor_pointer(source), source->dtype, from, 4, shape)
              : amp_fail(AMP_ERROR_MEMORY, "conv: no memory to pack weights");
    const int previous = amp_parallel_enter_library();
    if (status == AMP_OK && reorder(e, dense, made->storage->data) != dnnl_success)
        status = amp_fail(AMP_ERROR_INTERNAL, "conv: oneDNN cannot pack weights");
    amp_parallel_leave_library(previous);
    amp_free(dense);
    if (status == AMP_OK) return made;
    amp_tensor_drop(made);
    return NULL;
}

/* ---- The class ------------------------------------------------------------------------------------------------ */

static key key_of(const amp_conv *c, const amp_conv_plane *bias) {
    key k;
    memset(&k, 0, sizeof k);
    k.batch = c->batch;
    k.in = c->in_channels;
    k.out = c->out_channels;
    k.axis[0] = c->axis[1];
    k.axis[1] = c->axis[2];
    k.bias_dtype = bias->data ? (int64_t)bias->dtype : -1;
    k.threads = omp_in_parallel() ? 1 : amp_get_num_threads();
    return k;
}

static bool is_dense(const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *y) {
    const amp_conv_axis *h = &c->axis[1], *w = &c->axis[2];
    return x->dtype == AMP_BF16 && y->dtype == AMP_BF16 && x->axis[2] == c->in_channels &&
           x->axis[1] == x->axis[2] * w->in && (c->batch == 1 || x->batch == x->axis[1] * h->in) &&
           y->axis[2] == c->out_channels && y->axis[1] == y->axis[2] * w->out;
}

bool amp_conv_dnnl_serves(const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *bias,
                          const amp_conv_plane *y) {
    const double weights = 2.0 * (double)c->in_channels * (double)c->out_channels * (double)amp_conv_taps(c);
    const bool products = amp_conv_taps(c) == 1 && c->axis[1].stride == 1 && c->axis[2].stride == 1;
    if (weights < DEEP_BYTES || products || c->groups > 1 || c->axis[0].in > 1 || c->axis[0].kernel > 1 ||
        c->batch * amp_conv_pixels(c) > DEEP_PIXELS || !is_dense(c, x, y) || amp_isa_best() < AMP_ISA_AVX512BF16 ||
        amp_choose(AMP_CHOICE_CONV_DEEP))
        return false;
    const key k = key_of(c, bias);
    return entry_of(&k) != NULL;
}

amp_status amp_conv_dnnl(amp_call *call, const amp_conv *c, const amp_conv_plane *x, const amp_conv_plane *bias,
                         const amp_conv_plane *y) {
    const key k = key_of(c, bias);
    const job j = {.conv = *c, .entry = entry_of(&k)};
    amp_cast *weights = NULL;
    if (!j.entry) return amp_fail(AMP_ERROR_INTERNAL, "conv: oneDNN does not serve this layer");
    AMP_TRY(amp_conv_obtain_weights(call, &j.conv, AMP_BF16, (amp_layout)(AMP_LAYOUT_CONV_DNNL + j.entry->format),
                                    build_weights, &weights));
    call->note.kernel = j.entry->name;
    const amp_status status = run(j.entry, x->data, weights->memory->data, bias->data, y->data);
    amp_cast_release(weights);
    return status;
}

/* ---- Measurement ---------------------------------------------------------------------------------------------- */

typedef struct problem {
    uint16_t *x, *w, *y;
    key key;
    const entry *entry;
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
    return p->entry && run(p->entry, p->x, p->w, NULL, p->y) == AMP_OK;
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
    memset(p, 0, sizeof *p);
    p->key.batch = 1;
    p->key.in = p->key.out = CHANNELS;
    p->key.axis[0] = p->key.axis[1] = (amp_conv_axis){SIZE, SIZE, 3, 1, 1, 1};
    p->key.bias_dtype = -1;
    p->key.threads = 1;
    p->entry = entry_of(&p->key);
    if (!p->entry || p->entry->weight_bytes > 2 * weights) return false;
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
    const int threads = amp_get_num_threads();
    (void)amp_set_num_threads(1);
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
    (void)amp_set_num_threads(threads);
}
