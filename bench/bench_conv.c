/* Convolutions, layer by layer, beside oneDNN in f32 and bf16.
 *
 *     bench_conv [--threads N] [--batch N] [--seconds S] [--clock cpu] [--epilogue bn_add_relu] [--json FILE] LAYERS…
 *     bench_conv --device cuda [--batch N] [--seconds S] [--json FILE] LAYERS…
 *
 * LAYERS are files of lines "conv|transposed in out size kernel stride padding groups"; # begins a comment. Random
 * data.
 * Behind each candidate stands the kernel that ran; one of ours that is named "dnnl:…" is oneDNN's, called by libamp.
 *
 * Ours are whole calls of the op on channels-last tensors, result included: in f32, and in a bf16 region with bf16
 * activations, the weights f32 tensors that the cache packs once. oneDNN's are bare primitives on memory that is there
 * already, weights packed: "any" in the layouts that it chooses for this layer, "nhwc" in channels-last. All candidates
 * of a layer take turns, as many calls each, one more before them that is not timed, so that each meets the same
 * disturbances and has equally warm caches; figures are medians over the rounds, the spread is from the 10th to the
 * 90th percentile, and each ratio is the median of the ratios within a round. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_conv"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "bench_common.h"
#include "core/memory.h"
#include "cpu/registry/convert.h"
#include "op_cuda.h"

enum { MAX_ROUNDS = 400, MAX_CANDIDATES = 8, MAX_LAYERS = 256 };

typedef struct layer {
    bool transposed;
    int64_t batch, in, out, size, kernel, stride, padding, groups, out_size;
} layer;

typedef struct candidate {
    const char *name;
    char kernel[64]; /* what ran; of ours it may be oneDNN's too: "dnnl:…" */
    bool ours, half;
    void (*run)(void *context);
    void *context;
    double times[MAX_ROUNDS]; /* seconds per call */
} candidate;

/* Random values of either type in fresh memory. */
static void *random_values(int64_t n, bool half) {
    void *p = amp_alloc((size_t)n * (half ? 2 : 4));
    bench_require(p != NULL, "allocation");
    for (int64_t i = 0; i < n; i++) {
        const float x = bench_uniform();
        if (half)
            ((uint16_t *)p)[i] = amp_bf16_from_f32(x);
        else
            ((float *)p)[i] = x;
    }
    return p;
}

/* ---- Ours ----------------------------------------------------------------------------------------------------- */

typedef struct op_call {
    const layer *l;
    amp_tensor *x, *w, *bias;
    amp_tensor *scale, *mean, *variance, *other; /* of a batch_norm and an addition behind it */
} op_call;

static op_call make_op(const layer *l, bool half) {
    const amp_dims image = AMP_DIMS(l->batch, l->size, l->size, l->in);
    const int64_t rows = l->transposed ? l->in : l->out, columns = (l->transposed ? l->out : l->in) / l->groups;
    const amp_dtype dtype = half ? AMP_BF16 : AMP_F32;
    op_call c = {.l = l};
    c.x = amp_permute(bench_tensor(dtype, 1.0f, image), AMP_DIMS(0, 3, 1, 2));
    c.w = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(rows, columns, l->kernel, l->kernel));
    c.bias = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(l->out));
    return c;
}

static void run_op(void *context) {
    const op_call *c = context;
    const amp_dims stride = AMP_DIMS(c->l->stride), padding = AMP_DIMS(c->l->padding);
    const amp_opt_int groups = AMP_SET(c->l->groups);
    amp_tensor *y =
        c->l->transposed
            ? amp_conv_transpose2d(c->x, c->w, c->bias, .stride = stride, .padding = padding, .groups = groups)
            : amp_conv2d(c->x, c->w, c->bias, .stride = stride, .padding = padding, .groups = groups);
    bench_require(y != NULL, "convolution");
    amp_release(y);
}

/* What --epilogue compares: batch_norm in inference, an addition and relu after the convolution … */
static void make_epilogue(op_call *c, bool half) {
    const layer *l = c->l;
    const amp_dims channels = AMP_DIMS(l->out), image = AMP_DIMS(l->batch, l->out_size, l->out_size, l->out);
    const amp_dtype dtype = half ? AMP_BF16 : AMP_F32;
    c->scale = bench_tensor(AMP_F32, 1.0f, channels);
    c->mean = bench_tensor(AMP_F32, 1.0f, channels);
    c->variance = amp_add_scalar(amp_square(bench_tensor(AMP_F32, 1.0f, channels)), amp_float(0.5));
    c->other = amp_permute(bench_tensor(dtype, 1.0f, image), AMP_DIMS(0, 3, 1, 2));
    bench_require(c->variance && c->other, "tensors of the epilogue");
}

static void run_apart(void *context) {
    const op_call *c = context;
    amp_tensor *y = amp_conv2d(c->x, c->w, .stride = AMP_DIMS(c->l->stride), .padding = AMP_DIMS(c->l->padding),
                               .groups = AMP_SET(c->l->groups));
    amp_tensor *z = amp_batch_norm(y, c->mean, c->variance, c->scale, c->bias);
    bench_require(z && amp_add_(z, c->other) && amp_relu_(z), "convolution, batch_norm, add and relu");
    amp_release(y);
    amp_release(z);
}

/* … or within it. */
static void run_fused(void *context) {
    const op_call *c = context;
    amp_tensor *y = amp_convolution_pointwise_binary(
        c->x, c->other, c->w, c->bias, .stride = AMP_DIMS(c->l->stride), .padding = AMP_DIMS(c->l->padding),
        .groups = AMP_SET(c->l->groups), .attr = "relu", .scale = c->scale);
    bench_require(y != NULL, "fused convolution");
    amp_release(y);
}

/* The kernel of one more run, from the first of its name in the report. */
static void ask_kernel(candidate *c) {
    static const char key[] = "\"kernel\": \"";
    amp_explain_reset();
    amp_explain_begin();
    c->run(c->context);
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    const char *ops = report ? strstr(report, "\"ops\"") : NULL, *at = ops ? strstr(ops, key) : NULL;
    snprintf(c->kernel, sizeof c->kernel, "%.*s", at ? (int)strcspn(at + sizeof key - 1, "\"") : 1,
             at ? at + sizeof key - 1 : "?");
    amp_explain_free(report);
}

static void run_half(void *context, void (*run)(void *context)) {
    bench_require(amp_autocast_enter(&(amp_autocast_args){
                      .struct_size = sizeof(amp_autocast_args), .device = AMP_DEVICE_CPU, .dtype = AMP_BF16}) == AMP_OK,
                  "region");
    run(context);
    (void)amp_autocast_exit(AMP_DEVICE_CPU);
}

static void run_op_half(void *context) {
    run_half(context, run_op);
}
static void run_apart_half(void *context) {
    run_half(context, run_apart);
}
static void run_fused_half(void *context) {
    run_half(context, run_fused);
}

/* ---- oneDNN --------------------------------------------------------------------------------------------------- */

typedef struct peer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t x, w, bias, y;
    void *data[4];
    const char *implementation;
} peer;

static void run_peer(void *context) {
    const peer *p = context;
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, p->x}, {DNNL_ARG_WEIGHTS, p->w}, {DNNL_ARG_BIAS, p->bias}, {DNNL_ARG_DST, p->y}};
    bench_require(dnnl_primitive_execute(p->primitive, p->stream, 4, arguments) == dnnl_success, "oneDNN");
    dnnl_stream_wait(p->stream);
}

static dnnl_memory_desc_t describe(int rank, const dnnl_dims_t dims, bool half, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t d;
    bench_require(dnnl_memory_desc_create_with_tag(&d, rank, dims, half ? dnnl_bf16 : dnnl_f32, tag) == dnnl_success,
                  "oneDNN descriptor");
    return d;
}

/* Memory of the layout that the primitive wants. Where it pads, the values are random too: they cost the same. */
static dnnl_memory_t make_memory(peer *p, int index, dnnl_primitive_desc_t descriptor, dnnl_query_t what, int which,
                                 bool half) {
    const const_dnnl_memory_desc_t d = dnnl_primitive_desc_query_md(descriptor, what, which);
    dnnl_memory_t memory;
    p->data[index] = random_values((int64_t)(dnnl_memory_desc_get_size(d) / (half ? 2 : 4)), half);
    bench_require(dnnl_memory_create(&memory, d, p->engine, p->data[index]) == dnnl_success, "oneDNN memory");
    return memory;
}

/* False where this oneDNN has no such primitive on this CPU. */
static bool make_peer(peer *p, const layer *l, bool half, dnnl_format_tag_t tag) {
    memset(p, 0, sizeof *p);
    bench_require(dnnl_engine_create(&p->engine, dnnl_cpu, 0) == dnnl_success, "oneDNN engine");
    bench_require(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) == dnnl_success,
                  "oneDNN stream");
    const bool grouped = l->groups > 1;
    const int64_t g = l->groups;
    const dnnl_dims_t x_dims = {l->batch, l->in, l->size, l->size}, b_dims = {l->out};
    const dnnl_dims_t y_dims = {l->batch, l->out, l->out_size, l->out_size};
    const dnnl_dims_t w4 = {l->out, l->in, l->kernel, l->kernel};
    const dnnl_dims_t w5 = {g, l->out / g, l->in / g, l->kernel, l->kernel};
    const dnnl_dims_t strides = {l->stride, l->stride}, none = {0, 0}, pads = {l->padding, l->padding};
    const int64_t reach = l->transposed ? 0 : (l->out_size - 1) * l->stride + l->kernel - l->size - l->padding;
    const dnnl_dims_t after = {l->transposed ? l->padding : reach, l->transposed ? l->padding : reach};
    dnnl_memory_desc_t x = describe(4, x_dims, half, tag), y = describe(4, y_dims, half, tag);
    dnnl_memory_desc_t w = describe(grouped ? 5 : 4, grouped ? w5 : w4, half, dnnl_format_tag_any);
    dnnl_memory_desc_t bias = describe(1, b_dims, false, dnnl_a);
    dnnl_primitive_desc_t d = NULL;
    const dnnl_status_t status =
        l->transposed ? dnnl_deconvolution_forward_primitive_desc_create(&d, p->engine, dnnl_forward_inference,
                                                                         dnnl_deconvolution_direct, x, w, bias, y,
                                                                         strides, none, pads, after, NULL)
                      : dnnl_convolution_forward_primitive_desc_create(&d, p->engine, dnnl_forward_inference,
                                                                       dnnl_convolution_direct, x, w, bias, y, strides,
                                                                       none, pads, after, NULL);
    if (status == dnnl_success) {
        dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, &p->implementation);
        bench_require(dnnl_primitive_create(&p->primitive, d) == dnnl_success, "oneDNN primitive");
        p->x = make_memory(p, 0, d, dnnl_query_src_md, 0, half);
        p->w = make_memory(p, 1, d, dnnl_query_weights_md, 0, half);
        p->bias = make_memory(p, 2, d, dnnl_query_weights_md, 1, false);
        p->y = make_memory(p, 3, d, dnnl_query_dst_md, 0, half);
        dnnl_primitive_desc_destroy(d);
    }
    dnnl_memory_desc_t all[] = {x, y, w, bias};
    for (int i = 0; i < 4; i++) dnnl_memory_desc_destroy(all[i]);
    return status == dnnl_success;
}

static void free_peer(peer *p) {
    dnnl_memory_t all[] = {p->x, p->w, p->bias, p->y};
    for (int i = 0; i < 4; i++) {
        if (all[i]) dnnl_memory_destroy(all[i]);
        amp_free(p->data[i]);
    }
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
}

/* ---- Measurement ---------------------------------------------------------------------------------------------- */

/* The first run is not timed: what the turns of others left of the caches is not the candidate's. */
static double time_runs(candidate *c, int repeats) {
    c->run(c->context);
    const double start = bench_now();
    for (int i = 0; i < repeats; i++) c->run(c->context);
    return (bench_now() - start) / repeats;
}

/* As many calls at a time as take the fastest 500 µs: the same for all, so that all have equally warm caches. */
static int choose_repeats(candidate *list, int count) {
    int repeats = 1;
    for (int i = 0; i < count; i++)
        while (time_runs(&list[i], repeats) * repeats < 5e-4 && repeats < 1 << 16) repeats *= 2;
    return repeats;
}

static int measure(candidate *list, int count, double seconds) {
    const int repeats = choose_repeats(list, count);
    const double end = bench_wall() + seconds;
    int rounds = 0;
    while (rounds < MAX_ROUNDS && (rounds < 5 || bench_wall() < end)) {
        for (int i = 0; i < count; i++) list[i].times[rounds] = time_runs(&list[i], repeats);
        rounds++;
    }
    return rounds;
}

/* How many times faster `a` is than `b`. */
static double ratio(const candidate *a, const candidate *b, int rounds) {
    double ratios[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) ratios[r] = b->times[r] / a->times[r];
    return bench_median(ratios, rounds);
}

static const candidate *fastest(const candidate *list, int count, bool ours, bool half, int rounds) {
    const candidate *best = NULL;
    for (int i = 0; i < count; i++) {
        if (list[i].ours != ours || list[i].half != half) continue;
        if (!best || bench_median(list[i].times, rounds) < bench_median(best->times, rounds)) best = &list[i];
    }
    return best;
}

/* ---- Output --------------------------------------------------------------------------------------------------- */

/* Ratios over all layers, as sums of logarithms. */
typedef struct summary {
    const char *name;
    double logarithms, least;
    int count;
} summary;

static void add_ratio(summary *s, double value) {
    s->least = s->count == 0 || value < s->least ? value : s->least;
    s->logarithms += log(value);
    s->count++;
}

enum { BF16_OVER_PEER, F32_OVER_PEER, BF16_OVER_F32, SUMMARIES };

static const char *const ratio_names[SUMMARIES] = {"bf16/oneDNN bf16", "f32/oneDNN f32", "bf16/f32"};
static const char *const ratio_keys[SUMMARIES] = {"bf16_over_onednn", "f32_over_onednn", "bf16_over_f32"};

/* Classes of layers, over all files. */
enum { FIRST, ONE, ONE_NARROW, ONE_PIXEL, WIDE, DEPTHWISE, DEPTHWISE_STRIDED, TRANSPOSED, ALL, CLASSES };

static struct {
    const char *name;
    summary sums[SUMMARIES];
} classes[CLASSES] = {{.name = "first (3 channels)"},
                      {.name = "1×1"},
                      {.name = "1×1, at most 48 channels in"},
                      {.name = "1×1 of pooled images"},
                      {.name = "larger windows"},
                      {.name = "depthwise"},
                      {.name = "depthwise, stride 2"},
                      {.name = "transposed"},
                      {.name = "all"}};

static int class_of(const layer *l) {
    if (l->transposed) return TRANSPOSED;
    if (l->groups > 1) return l->stride > 1 ? DEPTHWISE_STRIDED : DEPTHWISE;
    if (l->in <= 3) return FIRST;
    if (l->kernel == 1 && l->size == 1) return ONE_PIXEL;
    return l->kernel > 1 ? WIDE : l->in <= 48 ? ONE_NARROW : ONE;
}

static double mean_of(const summary *s) {
    return exp(s->logarithms / s->count);
}

static void print_classes(FILE *json) {
    const char *separator = "";
    printf("\nby class: geometric mean, least\n");
    if (json) fprintf(json, "], \"classes\": [");
    for (int i = 0; i < CLASSES; i++) {
        const summary *s = classes[i].sums;
        const int layers = s[BF16_OVER_F32].count; /* that needs no peer */
        if (layers == 0) continue;
        printf("%s, %d layers", classes[i].name, layers);
        if (json) fprintf(json, "%s\n{\"class\": \"%s\", \"layers\": %d", separator, classes[i].name, layers);
        separator = ",";
        for (int r = 0; r < SUMMARIES; r++) {
            if (s[r].count == 0) continue;
            printf(" | %s %.3f, %.3f", ratio_names[r], mean_of(&s[r]), s[r].least);
            if (json)
                fprintf(json, ", \"%s\": {\"mean\": %.4f, \"least\": %.4f}", ratio_names[r], mean_of(&s[r]),
                        s[r].least);
        }
        printf("\n");
        if (json) fprintf(json, "}");
    }
}

/* Of the multiplications and additions that outputs need. */
static double operations(const layer *l) {
    const double outputs = (double)(l->batch * l->out) * (double)(l->out_size * l->out_size);
    const double meets = l->transposed ? (double)(l->size * l->size) / (double)(l->out_size * l->out_size) : 1.0;
    return 2.0 * outputs * meets * (double)(l->in / l->groups * l->kernel * l->kernel);
}

static void print_shape(FILE *json, const layer *l, bool first) {
    printf("%s%" PRId64 "→%" PRId64 " %" PRId64 "² k%" PRId64 " s%" PRId64 "%s", l->transposed ? "T " : "", l->in,
           l->out, l->size, l->kernel, l->stride, l->groups == l->in && l->in > 1 ? " dw" : "");
    if (json)
        fprintf(json,
                "%s\n{\"transposed\": %s, \"batch\": %" PRId64 ", \"in\": %" PRId64 ", \"out\": %" PRId64
                ", \"size\": %" PRId64 ", \"kernel\": %" PRId64 ", \"stride\": %" PRId64 ", \"padding\": %" PRId64
                ", \"groups\": %" PRId64,
                first ? "" : ",", l->transposed ? "true" : "false", l->batch, l->in, l->out, l->size, l->kernel,
                l->stride, l->padding, l->groups);
}

static void print_layer(FILE *json, const layer *l, const candidate *list, int count, int rounds, summary *sums,
                        bool first) {
    const double flop = operations(l);
    const candidate *f32 = fastest(list, count, true, false, rounds), *half = fastest(list, count, true, true, rounds);
    const candidate *peer_f32 = fastest(list, count, false, false, rounds);
    const candidate *peer_half = fastest(list, count, false, true, rounds);
    const double values[SUMMARIES] = {peer_half ? ratio(half, peer_half, rounds) : NAN,
                                      peer_f32 ? ratio(f32, peer_f32, rounds) : NAN, ratio(half, f32, rounds)};
    print_shape(json, l, first);
    if (json) fprintf(json, ", \"rounds\": %d, \"results\": [", rounds);
    for (int i = 0; i < count; i++) {
        const bench_figure figure = bench_figure_of(list[i].times, rounds);
        const double t = figure.median, low = figure.low, high = figure.high;
        printf(" | %s (%s) %.1f µs %.0f GF ±%.0f%%", list[i].name, list[i].kernel, t * 1e6, flop / t * 1e-9,
               50 * (high - low) / t);
        if (json)
            fprintf(json,
                    "%s{\"name\": \"%s\", \"kernel\": \"%s\", \"us\": %.3f, \"low_us\": %.3f, \"high_us\": %.3f, "
                    "\"gflops\": %.2f}",
                    i ? ", " : "", list[i].name, list[i].kernel, t * 1e6, low * 1e6, high * 1e6, flop / t * 1e-9);
    }
    for (int i = 0; i < SUMMARIES; i++) {
        if (isnan(values[i])) continue;
        add_ratio(&sums[i], values[i]);
        add_ratio(&classes[class_of(l)].sums[i], values[i]);
        add_ratio(&classes[ALL].sums[i], values[i]);
        printf(" | %s %.2f", sums[i].name, values[i]);
    }
    printf("\n");
    if (json) {
        fprintf(json, "]");
        for (int i = 0; i < SUMMARIES; i++)
            if (!isnan(values[i])) fprintf(json, ", \"%s\": %.4f", ratio_keys[i], values[i]);
        fprintf(json, "}");
    }
    fflush(stdout);
}

static void bench_layer(FILE *json, const layer *l, double seconds, summary *sums, bool first) {
    static candidate list[MAX_CANDIDATES];
    peer peers[4];
    const struct {
        const char *name;
        bool half;
        dnnl_format_tag_t tag;
    } kinds[] = {{"dnnl f32 any", false, dnnl_format_tag_any},
                 {"dnnl f32 nhwc", false, dnnl_nhwc},
                 {"dnnl bf16 any", true, dnnl_format_tag_any},
                 {"dnnl bf16 nhwc", true, dnnl_nhwc}};
    bench_require(amp_scope_enter() == AMP_OK, "scope");
    op_call f32 = make_op(l, false), half = make_op(l, true);
    int count = 0;
    list[count++] = (candidate){.name = "f32", .ours = true, .run = run_op, .context = &f32};
    list[count++] = (candidate){.name = "bf16", .ours = true, .half = true, .run = run_op_half, .context = &half};
    for (int i = 0; i < 4; i++) {
        if (!make_peer(&peers[i], l, kinds[i].half, kinds[i].tag)) continue;
        list[count++] =
            (candidate){.name = kinds[i].name, .half = kinds[i].half, .run = run_peer, .context = &peers[i]};
    }
    for (int i = 0; i < count; i++) {
        if (list[i].ours)
            ask_kernel(&list[i]);
        else
            snprintf(list[i].kernel, sizeof list[i].kernel, "%s", ((const peer *)list[i].context)->implementation);
    }
    const int rounds = measure(list, count, seconds);
    print_layer(json, l, list, count, rounds, sums, first);
    for (int i = 0; i < 4; i++) free_peer(&peers[i]);
    (void)amp_scope_exit();
}

/* ---- Epilogues -------------------------------------------------------------------------------------------------- */

/* The convolution alone, with an epilogue of ops of its own, and with the same in its registers: bf16, then f32. */
static void bench_epilogue(FILE *json, const layer *l, double seconds, summary *sums, bool first) {
    static candidate list[6];
    static const char *const names[6] = {"bf16", "bf16 apart", "bf16 fused", "f32", "f32 apart", "f32 fused"};
    static void (*const runs[6])(void *) = {run_op_half, run_apart_half, run_fused_half, run_op, run_apart, run_fused};
    bench_require(amp_scope_enter() == AMP_OK, "scope");
    op_call half = make_op(l, true), f32 = make_op(l, false);
    make_epilogue(&half, true);
    make_epilogue(&f32, false);
    for (int i = 0; i < 6; i++) {
        list[i] = (candidate){.name = names[i], .ours = true, .run = runs[i], .context = i < 3 ? &half : &f32};
        if (i % 3 != 1) ask_kernel(&list[i]);
    }
    const int rounds = measure(list, 6, seconds);
    printf("%" PRId64 "→%" PRId64 " %" PRId64 "² k%" PRId64 " s%" PRId64, l->in, l->out, l->size, l->kernel, l->stride);
    if (json)
        fprintf(json,
                "%s\n{\"batch\": %" PRId64 ", \"in\": %" PRId64 ", \"out\": %" PRId64 ", \"size\": %" PRId64
                ", \"kernel\": %" PRId64 ", \"stride\": %" PRId64 ", \"groups\": %" PRId64 ", \"results\": [",
                first ? "" : ",", l->batch, l->in, l->out, l->size, l->kernel, l->stride, l->groups);
    for (int i = 0; i < 6; i++) {
        const double t = bench_median(list[i].times, rounds) * 1e6;
        printf(" | %s (%s) %.1f µs", list[i].name, list[i].kernel, t);
        if (json) fprintf(json, "%s{\"name\": \"%s\", \"us\": %.3f}", i ? ", " : "", list[i].name, t);
    }
    for (int i = 0; i < 2; i++) {
        const double saved = ratio(&list[3 * i + 2], &list[3 * i + 1], rounds);
        add_ratio(&sums[i], saved);
        printf(" | %s %.2f", sums[i].name, saved);
    }
    printf("\n");
    if (json) fprintf(json, "]}");
    fflush(stdout);
    (void)amp_scope_exit();
}

/* ---- Layers --------------------------------------------------------------------------------------------------- */

typedef struct cuda_layer {
    op_call calls[OP_CUDA_TYPES];
} cuda_layer;

static void run_cuda_layer(void *context, int type) {
    run_op(&((cuda_layer *)context)->calls[type]);
}

/* On a GPU: activations of the type, weights of f32, whose casts are kept. */
static amp_tensor *moved_to_cuda(amp_tensor *t, amp_dtype dtype) {
    amp_tensor *moved = amp_to(amp_to_device(t, AMP_DEVICE_CUDA), dtype);
    bench_require(moved != NULL, "a tensor on the device");
    return moved;
}

static void bench_layer_cuda(FILE *json, const layer *l, double seconds, summary *sums, bool first) {
    cuda_layer list;
    (void)sums;
    bench_require(amp_scope_enter() == AMP_OK, "scope");
    const op_call host = make_op(l, false);
    amp_tensor *w = moved_to_cuda(host.w, AMP_F32), *bias = moved_to_cuda(host.bias, AMP_F32);
    bench_require(amp_tensor_mark_parameter(w) == AMP_OK && amp_tensor_mark_parameter(bias) == AMP_OK, "parameters");
    for (int t = 0; t < OP_CUDA_TYPES; t++)
        list.calls[t] = (op_call){.l = l, .x = moved_to_cuda(host.x, op_cuda_types[t]), .w = w, .bias = bias};
    print_shape(json, l, first);
    bench_op_cuda(json, run_cuda_layer, &list, operations(l), seconds);
    if (json) fprintf(json, "}");
    (void)amp_scope_exit();
}

static bool read_layer(const char *line, int64_t batch, layer *l) {
    char kind[16];
    *l = (layer){.batch = batch};
    const int fields =
        sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, kind,
               &l->in, &l->out, &l->size, &l->kernel, &l->stride, &l->padding, &l->groups);
    if (fields != 8 || l->groups < 1 || l->stride < 1) return false;
    l->transposed = !strcmp(kind, "transposed");
    l->out_size = l->transposed ? (l->size - 1) * l->stride - 2 * l->padding + l->kernel
                                : (l->size + 2 * l->padding - l->kernel) / l->stride + 1;
    return (l->transposed || !strcmp(kind, "conv")) && l->out_size > 0;
}

static int read_layers(const char *path, int64_t batch, layer *layers) {
    char line[256];
    int count = 0;
    FILE *file = bench_open(path, "r");
    while (fgets(line, sizeof line, file)) {
        if (line[strspn(line, " \t\n")] == '\0' || line[0] == '#') continue;
        bench_require(count < MAX_LAYERS, "a file of at most 256 layers");
        if (read_layer(line, batch, &layers[count++])) continue;
        fprintf(stderr, "bench_conv: %s: not a layer: %s", path, line);
        exit(1);
    }
    fclose(file);
    return count;
}

typedef enum subject { LAYERS, EPILOGUES, LAYERS_ON_CUDA } subject;

static void bench_file(FILE *json, const char *path, int64_t batch, double seconds, subject what, bool *first) {
    static void (*const benches[])(FILE *, const layer *, double, summary *, bool) = {bench_layer, bench_epilogue,
                                                                                      bench_layer_cuda};
    const bool epilogue = what == EPILOGUES;
    static layer layers[MAX_LAYERS];
    summary sums[SUMMARIES] = {{.name = ratio_names[0]}, {.name = ratio_names[1]}, {.name = ratio_names[2]}};
    summary fused[SUMMARIES] = {{.name = "bf16 fused/apart"}, {.name = "f32 fused/apart"}};
    const int count = read_layers(path, batch, layers);
    printf("\n%s, batch %" PRId64 "\n", path, batch);
    for (int i = 0; i < count; i++) {
        if (epilogue && layers[i].transposed) continue;
        benches[what](json, &layers[i], seconds, epilogue ? fused : sums, *first);
        *first = false;
    }
    if (epilogue) memcpy(sums, fused, sizeof sums);
    for (int i = 0; i < SUMMARIES; i++)
        if (sums[i].count > 0)
            printf("%s: geometric mean %.3f, least %.3f of %d layers\n", sums[i].name, mean_of(&sums[i]), sums[i].least,
                   sums[i].count);
}

static int usage(void) {
    fprintf(stderr, "usage: bench_conv [--threads N] [--batch N] [--seconds S] [--clock cpu] "
                    "[--epilogue bn_add_relu] [--json FILE] LAYERS…\n"
                    "       bench_conv --device cuda [--batch N] [--seconds S] [--json FILE] LAYERS…\n");
    return 2;
}

int main(int argc, char **argv) {
    double seconds = 0.5;
    int64_t batch = 1;
    const char *file = NULL;
    subject what = LAYERS;
    bool cuda = false;
    int i = 1;
    for (; i < argc && !strncmp(argv[i], "--", 2); i += 2) {
        if (i + 1 >= argc) return usage();
        if (!strcmp(argv[i], "--threads")) {
            if (amp_set_num_threads(atoi(argv[i + 1])) != AMP_OK) return usage();
        } else if (!strcmp(argv[i], "--batch")) {
            batch = atoi(argv[i + 1]);
        } else if (!strcmp(argv[i], "--seconds")) {
            seconds = atof(argv[i + 1]);
        } else if (!strcmp(argv[i], "--clock")) {
            if (!bench_parse_clock(argv[i + 1])) return usage();
        } else if (!strcmp(argv[i], "--epilogue")) {
            if (strcmp(argv[i + 1], "bn_add_relu") != 0) return usage();
            what = EPILOGUES;
        } else if (!strcmp(argv[i], "--device")) {
            if (!bench_parse_device(&cuda, argv[i + 1])) return usage();
        } else if (!strcmp(argv[i], "--json")) {
            file = argv[i + 1];
        } else {
            return usage();
        }
    }
    if (i == argc || batch < 1 || (cuda && what != LAYERS)) return usage();
    if (cuda) what = LAYERS_ON_CUDA;
    if (!bench_clock_suits(amp_get_num_threads())) return 2;
    omp_set_num_threads(amp_get_num_threads());
    FILE *json = file ? bench_open(file, "w") : NULL;
    printf("%s, %d threads, oneDNN %s, %s\n", amp_cpu()->model, amp_get_num_threads(), amp_onednn_version(),
           amp_openmp_version());
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(json, ", \"device\": \"%s\", \"threads\": %d, \"layers\": [", cuda ? "cuda" : "cpu",
                amp_get_num_threads());
    }
    bool first = true;
    for (; i < argc; i++) bench_file(json, argv[i], batch, seconds, what, &first);
    if (!cuda) print_classes(json);
    if (json) {
        fprintf(json, "]}\n");
        fclose(json);
    }
    return 0;
}
