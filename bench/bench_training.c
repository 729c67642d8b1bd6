/* Steps of training (forward, backward, AdamW) of five networks, in f32 and within a bf16 region; what the tape and
 * AdamW cost.
 *
 *     bench_training [--only mlp,resnet50,bert,minilm,lstm,layers] [--threads N] [--clock cpu] [--seconds 10] [--json FILE]
 *     bench_training --only NETWORK --precision f32|bf16 [--threads N] [--clock cpu] --serve
 *
 * mlp: 1024-4096-1024 with relu, batch 256; resnet50: 8 images of 224², channels last, cross entropy; bert: BERT-base's
 * encoder, 8 × 128 tokens; minilm: 6 layers of width 384, 12 heads, 32 × 64 tokens; lstm: 2 layers of 512, batch 32, 64
 * steps. All but resnet50 have the mean squared error. layers is bert whose layers are recomputed (amp_checkpoint).
 * Weights, inputs and targets are random. A step ends with gradients taken away; the first two are not counted. Memory
 * is what the process held at most while it stepped, beyond what it held before it made the network; so a table is made
 * of one process for each line. Of libamp's own: "saved", what the forward left alive (without cached casts), and
 * "alive", the most that was alive in a step, as a second thread saw it. With --serve each line of the standard input
 * is answered by the seconds of a step and that memory in bytes, in turns with PyTorch (bench/peers_training.py). */
#define _GNU_SOURCE /* clock_gettime, fork */
#define BENCH_NAME "bench_training"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "networks.h"

enum { PRECISIONS = 2, MAX_STEPS = 400, UNCOUNTED = 2 };

static const char *const precision_names[PRECISIONS] = {"f32", "bf16"};

typedef struct options {
    const char *only, *json;
    int precision; /* −1: both */
    int threads;
    bool serve;
    double seconds;
} options;

/* ---- The networks ----------------------------------------------------------------------------------------------- */

enum { LSTM_WIDTH = 512, LSTM_LAYERS = 2 };

static struct {
    amp_parameters *parameters;
    amp_optimizer *optimizer;
    amp_tensor *input, *target;
    affine mlp[2];
    resnet resnet;
    bert bert;
    amp_tensor *lstm[4 * LSTM_LAYERS], *state[2];
} model;

static void train(amp_tensor *t) {
    char name[32];
    snprintf(name, sizeof name, "parameter %lld", (long long)amp_parameters_count(model.parameters));
    bench_require_tensor(amp_parameters_add(model.parameters, name, t));
}

static void train_affine(affine a) {
    train(a.weight);
    train(a.bias);
}

static amp_tensor *random_input(amp_dims shape) {
    return amp_keep(bench_tensor(AMP_F32, 1.0f, shape));
}

static void make_mlp(void) {
    model.mlp[0] = random_affine(AMP_DEVICE_CPU, 4096, 1024);
    model.mlp[1] = random_affine(AMP_DEVICE_CPU, 1024, 4096);
    for (int i = 0; i < 2; i++) train_affine(model.mlp[i]);
    model.input = random_input(AMP_DIMS(256, 1024));
    model.target = random_input(AMP_DIMS(256, 1024));
}

static amp_tensor *run_mlp(void) {
    amp_tensor *x = amp_relu(amp_linear(model.input, model.mlp[0].weight, model.mlp[0].bias));
    return amp_mse_loss(amp_linear(x, model.mlp[1].weight, model.mlp[1].bias), model.target);
}

static void train_conv(const conv_bn *c) {
    if (!c->window) return;
    train(c->window);
    train_affine(c->norm);
}

static void make_images(void) {
    enum { IMAGES = 8, SIDE = 224 };
    int64_t labels[IMAGES];
    const int64_t count = IMAGES;
    make_resnet(&model.resnet, AMP_DEVICE_CPU);
    model.resnet.training = true;
    train_conv(&model.resnet.first);
    for (int i = 0; i < RESNET_BLOCKS; i++) {
        const conv_bn *const of_block[] = {&model.resnet.blocks[i].narrow, &model.resnet.blocks[i].middle,
                                           &model.resnet.blocks[i].wide, &model.resnet.blocks[i].shortcut};
        for (int k = 0; k < 4; k++) train_conv(of_block[k]);
    }
    train_affine(model.resnet.classifier);
    for (int i = 0; i < IMAGES; i++) labels[i] = (int64_t)(bench_random() % RESNET_CLASSES);
    model.target = amp_keep(bench_require_tensor(amp_from_data(labels, AMP_I64, 1, &count)));
    amp_tensor *pixels = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(IMAGES, SIDE, SIDE, 3));
    model.input = amp_keep(bench_require_tensor(amp_permute(pixels, AMP_DIMS(0, 3, 1, 2))));
}

static amp_tensor *run_images(void) {
    return amp_cross_entropy(run_resnet(&model.resnet, model.input), model.target);
}

static void make_encoder(int layers, int width, int heads, int64_t batch, int64_t tokens) {
    make_bert(&model.bert, layers, width, heads, AMP_DEVICE_CPU);
    for (int i = 0; i < layers; i++) {
        const bert_layer *l = &model.bert.layers[i];
        const affine of_layer[] = {l->query, l->key, l->value, l->output, l->output_norm, l->up, l->down, l->norm};
        for (size_t k = 0; k < sizeof of_layer / sizeof *of_layer; k++) train_affine(of_layer[k]);
    }
    model.input = random_input(AMP_DIMS(batch, tokens, width));
    model.target = random_input(AMP_DIMS(batch, tokens, width));
}

static void make_bert_base(void) {
    make_encoder(BERT_MOST_LAYERS, BERT_WIDTH, BERT_HEADS, 8, 128);
}
static void make_minilm(void) {
    make_encoder(6, 384, 12, 32, 64);
}

static amp_tensor *run_encoder(void) {
    return amp_mse_loss(run_bert(&model.bert, model.input), model.target);
}

static amp_status run_layer(void *layer, amp_tensor *const *inputs, amp_tensor **outputs) {
    outputs[0] = run_bert_layer(&model.bert, layer, inputs[0]);
    return amp_last_status();
}

static amp_tensor *run_recomputed(void) {
    amp_tensor *x = model.input;
    for (int i = 0; i < model.bert.count; i++) {
        amp_tensor *y = NULL;
        bench_require(amp_checkpoint(run_layer, &model.bert.layers[i], &x, 1, &y, 1) == AMP_OK, "a checkpoint");
        x = y;
    }
    return amp_mse_loss(x, model.target);
}

static void make_lstm(void) {
    enum { BATCH = 32, STEPS = 64 };
    const float bound = 1.0f / sqrtf(LSTM_WIDTH);
    const amp_dims matrix = AMP_DIMS(4 * LSTM_WIDTH, LSTM_WIDTH), vector = AMP_DIMS(4 * LSTM_WIDTH);
    for (int i = 0; i < 4 * LSTM_LAYERS; i++) {
        model.lstm[i] = random_parameter(AMP_DEVICE_CPU, bound, 0.0f, i % 4 < 2 ? matrix : vector);
        train(model.lstm[i]);
    }
    for (int i = 0; i < 2; i++)
        model.state[i] = amp_keep(bench_require_tensor(amp_zeros(AMP_DIMS(LSTM_LAYERS, BATCH, LSTM_WIDTH))));
    model.input = random_input(AMP_DIMS(STEPS, BATCH, LSTM_WIDTH));
    model.target = random_input(AMP_DIMS(STEPS, BATCH, LSTM_WIDTH));
}

static amp_tensor *run_lstm(void) {
    amp_tensor *y =
        amp_lstm(model.input, ((amp_tensor_list){model.state, 2, NULL}),
                 ((amp_tensor_list){model.lstm, 4 * LSTM_LAYERS, NULL}), true, LSTM_LAYERS, 0.0, true, false, false);
    return amp_mse_loss(y, model.target);
}

static const struct network {
    const char *name;
    void (*make)(void);
    amp_tensor *(*loss)(void);
} networks[] = {{"mlp", make_mlp, run_mlp},
                {"resnet50", make_images, run_images},
                {"bert", make_bert_base, run_encoder},
                {"minilm", make_minilm, run_encoder},
                {"lstm", make_lstm, run_lstm},
                {"layers", make_bert_base, run_recomputed}};

enum { NETWORKS = sizeof networks / sizeof *networks };

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* "VmRSS", or "VmHWM", the most that it was, in bytes. */
static double resident(const char *which) {
    char line[128];
    double kib = 0;
    FILE *file = bench_open("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, which, strlen(which))) kib = atof(line + strlen(which) + 1);
    fclose(file);
    return 1024 * kib;
}

/* What was made on the way to the network does not count. */
static void forget_most_resident(void) {
    FILE *file = bench_open("/proc/self/clear_refs", "w");
    fputs("5", file);
    fclose(file);
}

static size_t alive(void) {
    return amp_memory_statistics().live_bytes;
}

static struct {
    pthread_t thread;
    atomic_bool ends;
    size_t most;
} watch;

static void *watch_alive(void *unused) {
    while (!watch.ends) {
        const size_t now = alive();
        if (now > watch.most) watch.most = now;
    }
    return unused;
}

/* ---- A step ----------------------------------------------------------------------------------------------------- */

static void make(const struct network *n) {
    model.parameters = amp_parameters_create();
    bench_require(model.parameters != NULL, "a list");
    amp_scope {
        n->make();
    }
    model.optimizer = amp_adamw(model.parameters, .lr = AMP_SET(1e-5));
    bench_require(model.optimizer != NULL, "an optimizer");
}

static void forward(const struct network *n, int precision, amp_tensor **loss) {
    if (precision == 0) {
        *loss = n->loss();
    } else {
        amp_autocast(AMP_DEVICE_CPU, .dtype = AMP_BF16) {
            *loss = n->loss();
        }
    }
    bench_require_tensor(*loss);
}

static double time_step(const struct network *n, int precision) {
    const double start = bench_now();
    amp_scope {
        amp_tensor *loss = NULL;
        forward(n, precision, &loss);
        bench_require(amp_backward(loss) == AMP_OK, "a backward");
    }
    bench_require(amp_optimizer_step(model.optimizer) == AMP_OK, "a step");
    bench_require(amp_optimizer_zero_grad(model.optimizer) == AMP_OK, "taking gradients away");
    return bench_now() - start;
}

/* What the forward leaves to the backward, and the most that is alive in a step. */
static void watch_step(const struct network *n, int precision, double *saved, double *most) {
    watch.most = 0;
    watch.ends = false;
    bench_require(pthread_create(&watch.thread, NULL, watch_alive, NULL) == 0, "a thread");
    time_step(n, precision);
    watch.ends = true;
    (void)pthread_join(watch.thread, NULL);
    *most = (double)watch.most;
    amp_scope {
        amp_tensor *loss = NULL;
        const size_t before = alive() - amp_cast_cache_statistics().bytes;
        forward(n, precision, &loss);
        *saved = (double)(alive() - amp_cast_cache_statistics().bytes - before);
    }
}

static double loss_of(const struct network *n, int precision) {
    double value = 0;
    amp_scope {
        amp_tensor *loss = NULL;
        forward(n, precision, &loss);
        value = amp_item(loss);
    }
    bench_require(isfinite(value), "a finite loss");
    return value;
}

/* ---- One line, in a process of its own ---------------------------------------------------------------------------- */

typedef struct line {
    bench_figure seconds;
    double memory, saved, alive; /* bytes */
    double first_loss, last_loss;
    int steps;
} line;

static void measure(const struct network *n, int precision, double seconds, line *l) {
    static double times[MAX_STEPS];
    const double before = resident("VmRSS:");
    make(n);
    forget_most_resident();
    l->first_loss = loss_of(n, precision);
    for (int i = 0; i < UNCOUNTED; i++) time_step(n, precision);
    const double end = bench_wall() + seconds;
    for (l->steps = 0; l->steps < MAX_STEPS && (l->steps < 3 || bench_wall() < end); l->steps++)
        times[l->steps] = time_step(n, precision);
    l->seconds = bench_figure_of(times, l->steps);
    l->memory = resident("VmHWM:") - before;
    l->last_loss = loss_of(n, precision);
    watch_step(n, precision, &l->saved, &l->alive);
}

/* Threads do not come along into a child: it sets their number itself. */
static line measure_apart(const struct network *n, int precision, const options *o) {
    line l = {.steps = 0};
    int ends[2], status = 0;
    bench_require(pipe(ends) == 0, "a pipe");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        bench_require(amp_set_num_threads(o->threads) == AMP_OK, "setting the number of threads");
        measure(n, precision, o->seconds, &l);
        _exit(write(ends[1], &l, sizeof l) == (ssize_t)sizeof l ? 0 : 1);
    }
    close(ends[1]);
    const bool came = child > 0 && read(ends[0], &l, sizeof l) == (ssize_t)sizeof l;
    close(ends[0]);
    bench_require(child > 0 && waitpid(child, &status, 0) == child && status == 0 && came, "a process for a network");
    return l;
}

/* ---- What the tape costs ------------------------------------------------------------------------------------------ */

enum { CALLS = 2000, ROUNDS = 51 };

static double time_calls(amp_tensor *a, amp_tensor *b) {
    const double start = bench_now();
    amp_scope {
        for (int i = 0; i < CALLS; i++) bench_require_tensor(amp_mul(a, b));
    }
    return (bench_now() - start) / CALLS;
}

/* Seconds of a small product alone, and what its record costs besides; both go with their scope. */
static void measure_tape(double *alone, double *record) {
    static double plain[ROUNDS], more[ROUNDS];
    amp_scope {
        amp_tensor *a = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(8)), *b = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(8));
        for (int i = 0; i < ROUNDS; i++) {
            plain[i] = time_calls(a, b);
            bench_require(amp_tensor_set_requires_grad(a, true) == AMP_OK, "a leaf");
            more[i] = time_calls(a, b) - plain[i];
            bench_require(amp_tensor_set_requires_grad(a, false) == AMP_OK, "no leaf");
        }
    }
    *alone = bench_median(plain, ROUNDS);
    *record = bench_median(more, ROUNDS);
}

/* ---- What AdamW reaches of the memory's bandwidth ------------------------------------------------------------------- */

enum { ELEMENTS = 1 << 24, STREAMS = 7, STEP_ROUNDS = 9 };

typedef float lanes __attribute__((vector_size(64)));

/* Four tensors are read and three written, as AdamW does, by a loop that hardly computes, in the widest vectors that
 * there are. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static void add_to_three(lanes *a, lanes *b, lanes *c,
                                                                                      const lanes *more) {
    for (int64_t i = 0; i < ELEMENTS / 16; i++) {
        const lanes x = more[i];
        a[i] += x;
        b[i] += x;
        c[i] += x;
    }
}

/* Bytes a second. */
static double probe(float *const p[4]) {
    const double start = bench_now();
    add_to_three((lanes *)(void *)p[0], (lanes *)(void *)p[1], (lanes *)(void *)p[2], (const lanes *)(void *)p[3]);
    return STREAMS * 4.0 * ELEMENTS / (bench_now() - start);
}

/* On one thread: the loop has no other. */
static void measure_adamw(double *reached, double *probed) {
    static double ours[STEP_ROUNDS], best[STEP_ROUNDS];
    const int threads = amp_get_num_threads();
    bench_require(amp_set_num_threads(1) == AMP_OK, "one thread");
    amp_scope {
        amp_tensor *memory[4];
        float *p[4];
        for (int i = 0; i < 4; i++) {
            memory[i] = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(ELEMENTS));
            p[i] = amp_data_mut(memory[i]);
        }
        amp_parameters *list = amp_parameters_create();
        amp_tensor *t = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(ELEMENTS));
        bench_require(list && amp_parameters_add(list, "all", t), "a parameter");
        amp_optimizer *optimizer = amp_adamw(list, .lr = AMP_SET(1e-5));
        bench_require(optimizer && amp_tensor_set_grad(t, memory[3]) == AMP_OK, "an optimizer");
        bench_require(amp_optimizer_step(optimizer) == AMP_OK, "a step");
        for (int i = 0; i < STEP_ROUNDS; i++) {
            best[i] = probe(p);
            const double start = bench_now();
            bench_require(amp_optimizer_step(optimizer) == AMP_OK, "a step");
            ours[i] = STREAMS * 4.0 * ELEMENTS / (bench_now() - start);
        }
        amp_optimizer_destroy(optimizer);
        amp_parameters_destroy(list);
    }
    bench_require(amp_set_num_threads(threads) == AMP_OK, "the number of threads");
    *reached = bench_median(ours, STEP_ROUNDS);
    *probed = bench_median(best, STEP_ROUNDS);
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

static void print_line(const struct network *n, int precision, const line *l, FILE *json, bool *first) {
    const double ms = 1e3 * l->seconds.median, low = 1e3 * l->seconds.low, high = 1e3 * l->seconds.high;
    printf("%-10s%-10s%12.2f%12.2f%12.2f%8d%12.1f%10.1f%10.1f%12.5f%12.5f\n", n->name, precision_names[precision], ms,
           low, high, l->steps, 1e-6 * l->memory, 1e-6 * l->saved, 1e-6 * l->alive, l->first_loss, l->last_loss);
    fflush(stdout);
    if (json)
        fprintf(json,
                "%s\n {\"network\": \"%s\", \"precision\": \"%s\", \"ms\": %.4f, \"low_ms\": %.4f, \"high_ms\": %.4f, "
                "\"steps\": %d, "
                "\"memory_mb\": %.2f, \"saved_mb\": %.2f, \"alive_mb\": %.2f}",
                *first ? "" : ",", n->name, precision_names[precision], ms, low, high, l->steps, 1e-6 * l->memory,
                1e-6 * l->saved, 1e-6 * l->alive);
    *first = false;
}

static void print_table(const options *o, FILE *json) {
    bool first = true;
    printf("%-10s%-10s%12s%12s%12s%8s%12s%10s%10s%12s%12s\n", "network", "type", "ms a step", "10 %", "90 %", "steps",
           "MB at most", "saved", "alive", "first loss", "last loss");
    for (int i = 0; i < NETWORKS; i++) {
        for (int p = 0; p < PRECISIONS; p++) {
            if (!bench_is_named(networks[i].name, o->only) || (o->precision >= 0 && o->precision != p)) continue;
            const line l = measure_apart(&networks[i], p, o);
            print_line(&networks[i], p, &l, json, &first);
        }
    }
}

static void print_costs(FILE *json) {
    double alone, record, reached, probed;
    measure_tape(&alone, &record);
    measure_adamw(&reached, &probed);
    printf("\nmul of 8 elements: %.0f ns, its record %.0f ns more\n", 1e9 * alone, 1e9 * record);
    printf("AdamW of %d elements, one thread: %.1f GB/s; a loop over as many tensors %.1f GB/s (%.0f %%)\n", ELEMENTS,
           1e-9 * reached, 1e-9 * probed, 100 * reached / probed);
    if (json)
        fprintf(json,
                "\n], \"call_ns\": %.1f, \"record_ns\": %.1f, \"adamw_gb_per_s\": %.2f, \"probed_gb_per_s\": %.2f}\n",
                1e9 * alone, 1e9 * record, 1e-9 * reached, 1e-9 * probed);
}

static void print_all(const options *o) {
    FILE *json = o->json ? bench_open(o->json, "w") : NULL;
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(json, ", \"threads\": %d, \"rows\": [", o->threads);
    }
    printf("%s, %s, %d threads\n\n", amp_cpu()->model, amp_isa_name(amp_isa_best()), o->threads);
    print_table(o, json);
    print_costs(json);
    if (json) fclose(json);
}

/* ---- On request ------------------------------------------------------------------------------------------------- */

static void serve(const options *o) {
    char request[16];
    const struct network *n = NULL;
    for (int i = 0; i < NETWORKS; i++)
        if (o->only && !strcmp(o->only, networks[i].name)) n = &networks[i];
    bench_require(n && o->precision >= 0, "--serve with one network and one precision");
    bench_require(amp_set_num_threads(o->threads) == AMP_OK, "setting the number of threads");
    const double before = resident("VmRSS:");
    make(n);
    forget_most_resident();
    while (fgets(request, sizeof request, stdin)) {
        const double seconds = time_step(n, o->precision);
        printf("%.9g %.0f\n", seconds, resident("VmHWM:") - before);
        fflush(stdout);
    }
}

static bool parse(options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool good = true;
        if (!strcmp(argv[i], "--serve")) {
            o->serve = true;
            continue;
        }
        if (!strcmp(argv[i], "--only"))
            o->only = value;
        else if (!strcmp(argv[i], "--json"))
            o->json = value;
        else if (!strcmp(argv[i], "--threads"))
            good = (o->threads = atoi(value)) > 0;
        else if (!strcmp(argv[i], "--seconds"))
            good = (o->seconds = atof(value)) > 0;
        else if (!strcmp(argv[i], "--clock"))
            good = bench_parse_clock(value);
        else if (!strcmp(argv[i], "--precision"))
            good = (o->precision = !strcmp(value, "bf16") ? 1 : 0) || !strcmp(value, "f32");
        else
            good = false;
        if (!good) return false;
        i++;
    }
    return bench_clock_suits(o->threads);
}

int main(int argc, char **argv) {
    options o = {.precision = -1, .threads = amp_get_num_threads(), .seconds = 10};
    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_training [--only NETWORKS] [--precision f32|bf16] [--threads N] [--clock "
                        "cpu|wall] [--seconds S] "
                        "[--json FILE] [--serve]\n");
        return 2;
    }
    if (o.serve)
        serve(&o);
    else
        print_all(&o);
    return 0;
}
