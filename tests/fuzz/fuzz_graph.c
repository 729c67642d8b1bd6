/* libFuzzer target: any bytes as a small network in C, which is traced. Its net must give what the ops give one by one:
 * the same bits where it is exact; where passes change it, the same in every run and with any number of threads, and no
 * further from the ops than a slightly other input takes those. For two shapes, in f32 and in a region of bf16. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_STEPS = 16, MOST_WEIGHTS = 256, MOST_ELEMENTS = 1 << 13, MOST_IN_ONE = 1 << 20, INPUTS = 2, CHANNELS = 8 };

typedef struct program {
    const uint8_t *data;
    size_t size;
    amp_tensor *weights[MOST_WEIGHTS]; /* each with the seed that it was asked for by */
    unsigned seeds[MOST_WEIGHTS];
    int weight_count;
} program;

/* What the function knows while it computes. */
typedef struct state {
    program *p;
    size_t at;
    int step, slot;
    amp_tensor *values[INPUTS + MOST_STEPS];
    int value_count;
} state;

static void check(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "%s; the last error: %s\n", what, amp_last_error());
    abort();
}

static unsigned byte(state *s) {
    return s->at < s->p->size ? s->p->data[s->at++] : 0;
}

/* In [-1, 1). */
static float drawn(unsigned *random) {
    *random = *random * 1664525u + 1013904223u;
    return (float)(*random >> 8) / (float)(1 << 23) - 1;
}

static amp_tensor *filled(amp_dims shape, unsigned seed, float low, float high) {
    amp_tensor *t = amp_empty(shape, .dtype = AMP_F32);
    float *data = amp_data_mut(t);
    unsigned random = seed * 2654435761u + 12345;
    for (int64_t i = 0; data && i < amp_tensor_numel(t); i++) data[i] = low + (high - low) * (drawn(&random) + 1) / 2;
    return t;
}

static bool has_shape(const amp_tensor *t, amp_dims shape) {
    if (amp_tensor_rank(t) != shape.count) return false;
    return memcmp(amp_tensor_shape(t), shape.values, (size_t)shape.count * sizeof *shape.values) == 0;
}

/* The step's next weight: for one shape the same each time. */
static amp_tensor *weight_between(state *s, amp_dims shape, float low, float high) {
    program *p = s->p;
    const unsigned seed = (unsigned)(s->step * 8 + s->slot++);
    for (int i = 0; i < p->weight_count; i++) {
        if (p->seeds[i] == seed && has_shape(p->weights[i], shape)) return p->weights[i];
    }
    check(p->weight_count < MOST_WEIGHTS, "too many weights");
    amp_tensor *t = amp_retain(filled(shape, seed, low, high));
    p->weights[p->weight_count] = t;
    p->seeds[p->weight_count++] = seed;
    return t;
}

static amp_tensor *weight(state *s, amp_dims shape) {
    return weight_between(s, shape, -1, 1);
}

static int64_t extent(const amp_tensor *t, int d) {
    return amp_tensor_size(t, d);
}

/* ---- Steps: NULL where one does not apply ------------------------------------------------------------------------ */

static amp_tensor *convolve(state *s, amp_tensor *x) {
    const unsigned how = byte(s);
    if (amp_tensor_rank(x) != 4) return NULL;
    const int64_t in = extent(x, 1), kernel = how & 1 ? 3 : 1, depthwise = how & 2 && kernel == 3;
    amp_tensor *w = weight(s, AMP_DIMS(depthwise ? in : CHANNELS, depthwise ? 1 : in, kernel, kernel));
    amp_tensor *b = how & 4 ? weight(s, AMP_DIMS(depthwise ? in : CHANNELS)) : NULL;
    return amp_conv2d(x, w, b, .stride = AMP_DIMS(how & 8 ? 2 : 1), .padding = AMP_DIMS(kernel / 2),
                      .groups = AMP_SET(depthwise ? in : 1));
}

static amp_tensor *batch_norm(state *s, amp_tensor *x) {
    if (amp_tensor_rank(x) < 2) return NULL;
    const amp_dims shape = AMP_DIMS(extent(x, 1));
    amp_tensor *mean = weight(s, shape), *var = weight_between(s, shape, 0.5f, 2);
    return amp_batch_norm(x, mean, var, weight(s, shape), weight(s, shape));
}

static amp_tensor *activate(state *s, amp_tensor *x) {
    switch (byte(s) % 10) {
    case 0: return amp_relu(x);
    case 1: return amp_gelu(x);
    case 2: return amp_sigmoid(x);
    case 3: return amp_hardsigmoid(x);
    case 4: return amp_hardswish(x);
    case 5: return amp_silu(x);
    case 6: return amp_tanh(x);
    case 7: return amp_leaky_relu(x);
    case 8: return amp_gelu(x, .approximate = "tanh");
    default: return amp_clamp(x, .min = amp_int(0), .max = amp_int(6));
    }
}

static bool same_shape(const amp_tensor *a, const amp_tensor *b) {
    return amp_tensor_rank(a) == amp_tensor_rank(b) &&
           memcmp(amp_tensor_shape(a), amp_tensor_shape(b), (size_t)amp_tensor_rank(a) * sizeof(int64_t)) == 0;
}

/* A value of x's shape (x itself, at worst), or weights that are broadcast to it. */
static amp_tensor *partner(state *s, amp_tensor *x) {
    const unsigned how = byte(s);
    if (how % 4 == 0 && amp_tensor_rank(x) == 4) return weight(s, AMP_DIMS(1, extent(x, 1), 1, 1));
    if (how % 4 == 0 && amp_tensor_rank(x) > 0) return weight(s, AMP_DIMS(extent(x, -1)));
    if (how % 4 == 1) return weight(s, AMP_DIMS(1));
    for (int i = 0; i < s->value_count; i++) {
        amp_tensor *v = s->values[(i + (int)(how >> 2)) % s->value_count];
        if (same_shape(v, x)) return v;
    }
    return x;
}

static amp_tensor *add(state *s, amp_tensor *x) {
    return amp_add(x, partner(s, x));
}
static amp_tensor *add_to(state *s, amp_tensor *x) {
    return amp_add(partner(s, x), x);
}
static amp_tensor *sub(state *s, amp_tensor *x) {
    return amp_sub(x, partner(s, x));
}
static amp_tensor *mul(state *s, amp_tensor *x) {
    return amp_mul(x, partner(s, x));
}

static amp_tensor *linear(state *s, amp_tensor *x) {
    const unsigned how = byte(s);
    if (amp_tensor_rank(x) < 2) return NULL;
    const int64_t k = extent(x, -1), n = how & 2 ? CHANNELS : k;
    if (n * k > MOST_IN_ONE) return NULL;
    if (how & 1) return amp_linear(x, weight(s, AMP_DIMS(n, k)), how & 4 ? weight(s, AMP_DIMS(n)) : NULL);
    return amp_matmul(x, weight(s, AMP_DIMS(k, n)));
}

static amp_tensor *gelu_in_pieces(state *s, amp_tensor *x) {
    amp_tensor *e = amp_erf(amp_div_scalar(x, amp_float(byte(s) & 1 ? 1.5 : 1.4142135623730951)));
    return amp_mul_scalar(amp_mul(x, amp_add_scalar(e, amp_int(1))), amp_float(0.5));
}

static amp_tensor *norm_in_pieces(state *s, amp_tensor *x) {
    const int rank = amp_tensor_rank(x), dim = byte(s) & 1 && rank > 1 ? 1 : -1;
    if (rank < 1) return NULL;
    amp_tensor *d = amp_sub(x, amp_mean(x, .dim = AMP_DIMS(dim), .keepdim = true));
    amp_tensor *v = amp_mean(amp_pow_scalar(d, amp_int(2)), .dim = AMP_DIMS(dim), .keepdim = true);
    amp_tensor *n = amp_div(d, amp_sqrt(amp_add_scalar(v, amp_float(1e-2))));
    if (!n) return NULL;
    const amp_dims last = AMP_DIMS(extent(x, -1));
    return amp_add(amp_mul(n, weight(s, last)), weight(s, last));
}

static amp_tensor *layer_norm(state *s, amp_tensor *x) {
    if (amp_tensor_rank(x) < 1) return NULL;
    const amp_dims last = AMP_DIMS(extent(x, -1));
    return amp_layer_norm(x, last, weight(s, last), weight(s, last), .eps = AMP_SET(1e-2));
}

static amp_tensor *attention(state *s, amp_tensor *x) {
    const unsigned how = byte(s);
    if (amp_tensor_rank(x) < 3) return NULL;
    amp_tensor *k = partner(s, x), *v = partner(s, x);
    if (!same_shape(k, x) || !same_shape(v, x)) return NULL;
    amp_tensor *scores = amp_matmul(x, amp_transpose(k, -2, -1));
    if (how & 1) scores = amp_div_scalar(scores, amp_float(4));
    if (how & 2) scores = amp_add(scores, weight(s, AMP_DIMS(1)));
    return amp_matmul(amp_softmax(scores, how & 4 ? 0 : -1), v);
}

static amp_tensor *softmax(state *s, amp_tensor *x) {
    return amp_tensor_rank(x) < 1 ? NULL : amp_softmax(x, byte(s) & 1 ? 0 : -1);
}
static amp_tensor *transpose(state *s, amp_tensor *x) {
    const int rank = amp_tensor_rank(x);
    return rank < 2 ? NULL : amp_transpose(x, (int)byte(s) % rank, rank - 1);
}
static amp_tensor *permute(state *s, amp_tensor *x) {
    const bool back = byte(s) & 1;
    if (amp_tensor_rank(x) != 4) return NULL;
    return back ? amp_permute(x, AMP_DIMS(0, 3, 1, 2)) : amp_permute(x, AMP_DIMS(0, 2, 3, 1));
}
static amp_tensor *flatten(state *s, amp_tensor *x) {
    const int rank = amp_tensor_rank(x);
    return rank < 2 ? NULL : amp_flatten(x, .start_dim = (int)byte(s) % rank, .end_dim = AMP_SET(-1));
}
static amp_tensor *cat(state *s, amp_tensor *x) {
    const int dim = amp_tensor_rank(x) > 1;
    amp_tensor *other = partner(s, x);
    if (amp_tensor_rank(x) < 1 || !same_shape(other, x)) return NULL;
    return amp_cat(AMP_LIST(x, other), .dim = dim);
}
static amp_tensor *mean(state *s, amp_tensor *x) {
    const int rank = amp_tensor_rank(x);
    return rank < 1 ? NULL : amp_mean(x, .dim = AMP_DIMS((int)byte(s) % rank), .keepdim = true);
}
static amp_tensor *pool(state *s, amp_tensor *x) {
    const bool most = byte(s) & 1;
    if (amp_tensor_rank(x) != 4 || extent(x, 2) < 2 || extent(x, 3) < 2) return NULL;
    return most ? amp_max_pool2d(x, AMP_DIMS(2)) : amp_avg_pool2d(x, AMP_DIMS(2));
}
static amp_tensor *grow(state *s, amp_tensor *x) {
    (void)s;
    return amp_tensor_rank(x) != 4 ? NULL : amp_interpolate(x, .scale_factor = AMP_FLOATS(2, 2), .mode = "nearest");
}
static amp_tensor *half(state *s, amp_tensor *x) {
    const unsigned which = byte(s);
    if (amp_tensor_rank(x) < 2 || extent(x, 1) < 2) return NULL;
    const amp_tensor_list parts = amp_chunk(x, 2, .dim = 1);
    return parts.count == 2 ? parts.items[which & 1] : NULL;
}
static amp_tensor *slice(state *s, amp_tensor *x) {
    const int rank = amp_tensor_rank(x), dim = rank > 0 ? (int)byte(s) % rank : 0;
    return rank < 1 || extent(x, dim) < 3 ? NULL : amp_narrow(x, dim, 1, extent(x, dim) - 2);
}
static amp_tensor *widen(state *s, amp_tensor *x) {
    (void)s;
    return amp_to(x, AMP_F32);
}
/* A program looks at its sizes and at elements. */
static amp_tensor *look(state *s, amp_tensor *x) {
    const double first = byte(s) & 1 && amp_tensor_numel(s->values[0]) > 0
                             ? amp_item(amp_flatten(amp_narrow(amp_flatten(s->values[0]), 0, 0, 1)))
                             : 0.25;
    return amp_mul_scalar(x, amp_float(first > 0 ? 0.5 : -0.5));
}

typedef amp_tensor *(*step_function)(state *, amp_tensor *);

static const step_function steps[] = {
    convolve,
    convolve,
    convolve,
    batch_norm,
    batch_norm,
    activate,
    activate,
    activate,
    add,
    add,
    add_to,
    sub,
    mul,
    mul,
    linear,
    linear,
    linear,
    softmax,
    cat,
    permute,
    half,
    gelu_in_pieces,
    layer_norm,
    mean,
    transpose,
    flatten,
    attention,
    pool,
    grow,
    slice,
    widen,
    look,
    norm_in_pieces,
};

/* Outputs: the last value, and one in the middle, which then has a user outside of what is fused. */
static amp_status compute(void *context, amp_tensor *const *inputs, amp_tensor **outputs) {
    state s = {.p = context, .value_count = INPUTS};
    for (int i = 0; i < INPUTS; i++) s.values[i] = inputs[i];
    const unsigned middle = byte(&s);
    for (s.step = 0; s.step < MOST_STEPS && s.at < s.p->size && amp_last_status() == AMP_OK; s.step++) {
        const unsigned which = byte(&s), from = byte(&s);
        s.slot = 0;
        amp_tensor *x = s.values[from < 200 ? s.value_count - 1 : (int)from % s.value_count];
        amp_tensor *y = steps[which % (sizeof steps / sizeof *steps)](&s, x);
        if (y && amp_tensor_numel(y) <= MOST_ELEMENTS) s.values[s.value_count++] = y;
    }
    outputs[0] = s.values[s.value_count - 1];
    outputs[1] = s.values[(int)middle % s.value_count];
    return amp_last_status();
}

/* ---- What must hold ---------------------------------------------------------------------------------------------- */

enum { OUTPUTS = 2 };

typedef struct results {
    amp_status status;
    amp_tensor *of[OUTPUTS]; /* f32 */
} results;

/* By the graph, or by the function itself where it is NULL. */
static results computed(amp_graph *graph, program *p, amp_tensor *const *inputs, bool bf16) {
    results r = {AMP_OK, {NULL, NULL}};
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(bf16)) {
        r.status = graph ? amp_graph_run(graph, inputs, INPUTS, r.of, OUTPUTS) : compute(p, inputs, r.of);
    }
    for (int i = 0; i < OUTPUTS && r.status == AMP_OK; i++) r.of[i] = amp_contiguous(amp_to(r.of[i], AMP_F32));
    amp_clear_error();
    return r;
}

static double size_of(const amp_tensor *t) {
    const float *data = amp_data(t);
    double most = 0;
    for (int64_t i = 0; i < amp_tensor_numel(t); i++) most = fmax(most, fabs((double)data[i]));
    return most;
}

static double distance(amp_tensor *a, amp_tensor *b) {
    const float *at = amp_data(a), *bt = amp_data(b);
    double most = 0;
    check(same_shape(a, b), "another shape");
    for (int64_t i = 0; i < amp_tensor_numel(a); i++) {
        if (at[i] != bt[i] && !(isnan(at[i]) && isnan(bt[i]))) most = fmax(most, fabs((double)at[i] - (double)bt[i]));
        if (isfinite(at[i]) != isfinite(bt[i])) most = INFINITY;
    }
    return most;
}

static void same_bits(const results *a, const results *b, const char *what) {
    check(a->status == b->status, what);
    for (int i = 0; i < OUTPUTS && a->status == AMP_OK; i++) {
        const size_t bytes = (size_t)amp_tensor_numel(a->of[i]) * sizeof(float);
        check(same_shape(a->of[i], b->of[i]) && memcmp(amp_data(a->of[i]), amp_data(b->of[i]), bytes) == 0, what);
    }
}

/* What inputs give that are off by some roundings, and how much of it results may be off. Errors do not end where a
 * shift of one size or sign leaves a function flat. */
typedef struct shifted {
    float by, share;
    results given;
} shifted;

enum { SHIFTS = 4 };

static double allowed_at(int output, const results *plain, const shifted *shifts) {
    double most = 0;
    for (int k = 0; k < SHIFTS; k++) {
        const results *given = &shifts[k].given;
        if (given->status != AMP_OK) return INFINITY;
        most = fmax(most, shifts[k].share * distance(given->of[output], plain->of[output]));
    }
    return most;
}

static void near(const results *a, const results *plain, const shifted *shifts, double units, const char *what) {
    check(a->status == plain->status, what);
    for (int i = 0; i < OUTPUTS && a->status == AMP_OK; i++) {
        const double scale = size_of(plain->of[i]);
        if (!(scale < 1e6)) continue; /* anything may come of it */
        check(distance(a->of[i], plain->of[i]) <= allowed_at(i, plain, shifts) + units * (scale + 1), what);
    }
}

static void shift(program *p, amp_tensor *const *inputs, bool bf16, shifted *s) {
    amp_tensor *others[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        others[i] = amp_mul(inputs[i], filled(AMP_DIMS(extent(inputs[i], -1)), 77, 1 - s->by, 1 + s->by));
    s->given = computed(NULL, p, others, bf16);
}

static void check_region(program *p, amp_graph *exact, amp_graph *fused, amp_tensor *const *inputs, bool bf16) {
    const float off = bf16 ? 0x1p-6f : 0x1p-16f;
    shifted shifts[SHIFTS] = {
        {.by = off, .share = 8}, {.by = -off, .share = 8}, {.by = 8 * off, .share = 1}, {.by = -8 * off, .share = 1}};
    const results plain = computed(NULL, p, inputs, bf16);
    for (int k = 0; k < SHIFTS; k++) shift(p, inputs, bf16, &shifts[k]);
    for (int run = 0; run < 2; run++) {
        const results by_net = computed(exact, p, inputs, bf16);
        same_bits(&by_net, &plain, "an exact graph and the ops one by one");
    }
    const results first = computed(fused, p, inputs, bf16), later = computed(fused, p, inputs, bf16);
    same_bits(&first, &later, "the first run and a later one");
    near(&first, &plain, shifts, bf16 ? 0.05 : 1e-4, "a graph and the ops one by one");
    check(amp_set_num_threads(2) == AMP_OK, "threads");
    const results by_two = computed(fused, p, inputs, bf16);
    same_bits(&first, &by_two, "two threads and one");
    check(amp_set_num_threads(1) == AMP_OK, "threads");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    program p = {.data = data + 1, .size = size - 1};
    if (size < 4) return 0;
    (void)amp_set_num_threads(1);
    amp_graph_options options = {.struct_size = sizeof options, .exact = true};
    amp_graph *exact = amp_graph_trace("program", compute, &p, INPUTS, OUTPUTS, &options);
    amp_graph *fused = amp_graph_trace("program", compute, &p, INPUTS, OUTPUTS, NULL);
    check(exact && fused, "no graph");
    for (int64_t side = 4; side < 8; side += 3) {
        amp_scope {
            const amp_dims image = AMP_DIMS(data[0] & 1 ? 2 : 1, CHANNELS, side, 6), rows = AMP_DIMS(2, side, CHANNELS);
            amp_tensor *inputs[INPUTS];
            for (int i = 0; i < INPUTS; i++) inputs[i] = filled(data[0] & 2 ? rows : image, 99u + (unsigned)i, -2, 2);
            check_region(&p, exact, fused, inputs, false);
            check_region(&p, exact, fused, inputs, true);
        }
    }
    amp_graph_release(exact);
    amp_graph_release(fused);
    for (int i = 0; i < p.weight_count; i++) amp_release(p.weights[i]);
    check(amp_last_status() == AMP_OK && amp_memory_statistics().live_tensors == 0, "something is left");
    return 0;
}
