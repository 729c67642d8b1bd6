/* A step of data-parallel training in so many processes as mpirun starts: what it computes, sends, and waits for.
 *
 *     mpirun -n N bench_distributed [--layers 8] [--width 1024] [--rows 128] [--wire f32|bf16] [--bucket BYTES]
 *                                   [--late] [--steps 12] [--threads 1] [--alpha S --beta S]
 *
 * A chain of linear layers with tanh, in f32; `rows` samples on each rank. "compute" is a forward and a plain backward,
 * "step" the same with amp_data_parallel_backward: medians of steps in turns, rank 0's. "through" is the share of the
 * bytes sent that had arrived when the backward ended. alpha and beta of what carries the bytes are measured with
 * exchanges of 64 bytes and of 1 MiB.
 *
 * One process alone prints what the model of docs/distributed.md makes of its figures, for networks whose alpha
 * (seconds for a message) and beta (seconds for a byte) are assumed, and for --alpha and --beta. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_distributed"
#include "bench_common.h"
#include "distributed/world.h"

enum { MOST_LAYERS = 64, MOST_STEPS = 200, UNCOUNTED = 2, PROBES = 21, SMALL = 64, LARGE = 1 << 20 };

typedef struct options {
    int layers, width, rows, steps, threads;
    int64_t bucket;
    amp_dtype wire;
    bool late;
    double alpha, beta; /* of a third column of the table; 0: there is none */
} options;

typedef struct network {
    amp_parameters *parameters;
    amp_tensor *weights[MOST_LAYERS], *input;
    int layers;
} network;

typedef struct figures {
    double compute, step, backward, waiting; /* seconds of a step */
    double bytes, through, buckets, gradients;
} figures;

/* What carries bytes from one process to another. */
typedef struct wire {
    const char *name;
    double alpha, beta;
} wire;

static const wire assumed[] = {{"25 GbE", 10e-6, 8 / 25e9}, {"200 Gb/s InfiniBand", 2e-6, 8 / 200e9}};
enum { ASSUMED = sizeof assumed / sizeof *assumed };

/* ---- The network ------------------------------------------------------------------------------------------------- */
static void make_network(network *n, const options *o) {
    n->parameters = amp_parameters_create();
    n->layers = o->layers;
    for (int i = 0; i < o->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer %d", i);
        amp_tensor *w = bench_tensor(AMP_F32, 1.0f / (float)o->width, AMP_DIMS(o->width, o->width));
        n->weights[i] = bench_require_tensor(amp_parameters_add(n->parameters, name, w));
    }
    n->input = bench_tensor(AMP_F32, 1, AMP_DIMS(o->rows, o->width));
}

static amp_tensor *loss_of(const network *n) {
    amp_tensor *x = n->input;
    for (int i = 0; i < n->layers; i++) x = amp_tanh(amp_linear(x, n->weights[i]));
    return bench_require_tensor(amp_mean(amp_mul(x, x)));
}

/* Seconds of a step; without a ddp, of what a rank computes by itself. */
static double time_step(const network *n, amp_data_parallel *ddp) {
    amp_scope_here();
    bench_require(amp_distributed_barrier() == AMP_OK, "a barrier");
    const double start = bench_now();
    amp_tensor *loss = loss_of(n);
    bench_require((ddp ? amp_data_parallel_backward(ddp, loss) : amp_backward(loss)) == AMP_OK, "a backward");
    const double seconds = bench_now() - start;
    bench_require(amp_parameters_zero_grad(n->parameters) == AMP_OK, "taking gradients away");
    return seconds;
}

static amp_data_parallel_stats stats_of(const amp_data_parallel *ddp) {
    amp_data_parallel_stats s = {.struct_size = sizeof s};
    bench_require(amp_data_parallel_get_stats(ddp, &s) == AMP_OK, "figures");
    return s;
}

static figures measure(const network *n, amp_data_parallel *ddp, int steps) {
    double compute[MOST_STEPS], step[MOST_STEPS], backward[MOST_STEPS], waiting[MOST_STEPS];
    figures f = {0};
    for (int i = -UNCOUNTED; i < steps; i++) {
        const double alone = time_step(n, NULL);
        const amp_data_parallel_stats before = stats_of(ddp);
        const double whole = time_step(n, ddp);
        const amp_data_parallel_stats after = stats_of(ddp);
        if (i < 0) continue;
        compute[i] = alone;
        step[i] = whole;
        backward[i] = after.backward_seconds - before.backward_seconds;
        waiting[i] = after.waiting_seconds - before.waiting_seconds;
        f.bytes += (double)(after.bytes - before.bytes) / steps;
        f.through += (double)(after.bytes_overlapped - before.bytes_overlapped) / steps;
        f.buckets = (double)after.buckets;
    }
    f.compute = bench_median(compute, steps);
    f.step = bench_median(step, steps);
    f.backward = bench_median(backward, steps);
    f.waiting = bench_median(waiting, steps);
    return f;
}

/* ---- The wire ---------------------------------------------------------------------------------------------------- */
static double time_exchange(const amp_world *world, char *from, char *to, size_t bytes) {
    double seconds[PROBES];
    for (int i = 0; i < PROBES; i++) {
        bench_require(amp_distributed_barrier() == AMP_OK, "a barrier");
        const double start = bench_now();
        amp_transfer *t = world->transport->start_exchange(from, to, bytes);
        bench_require(t && world->transport->wait(t), "an exchange");
        seconds[i] = bench_now() - start;
    }
    return bench_median(seconds, PROBES);
}

static wire probe(void) {
    const amp_world *world = NULL;
    wire w = {"here", 0, 0};
    bench_require(amp_world_enter(BENCH_NAME, &world) == AMP_OK, "the group");
    const int others = world->size - 1;
    if (others == 0) return w;
    char *from = calloc((size_t)world->size, LARGE), *to = calloc((size_t)world->size, LARGE);
    if (!from || !to) exit(1);
    w.alpha = time_exchange(world, from, to, SMALL) / others;
    w.beta = (time_exchange(world, from, to, LARGE) / others - w.alpha) / LARGE;
    free(from);
    free(to);
    return w;
}

/* ---- The model --------------------------------------------------------------------------------------------------- */
/* Of one bucket: an exchange and a gather, n − 1 messages each. */
static double seconds_of_bucket(const wire *w, double bytes, int n) {
    return 2 * (n - 1) * w->alpha + 2 * bytes * (n - 1) / n * w->beta;
}

/* All buckets but the last can go while the rest of the backward computes; or none does. `alone`: seconds of a step in
 * which nothing is sent. */
static double modelled(double alone, const figures *f, const wire *w, int n, bool overlaps) {
    const double bucket = seconds_of_bucket(w, f->gradients / f->buckets, n);
    const double hideable = overlaps ? f->backward * (1 - 1 / f->buckets) : 0;
    const double rest = bucket * (f->buckets - 1) - hideable;
    return alone + bucket + (rest > 0 ? rest : 0);
}

static void print_model(const figures *f, const options *o) {
    wire wires[ASSUMED + 1];
    int count = ASSUMED;
    memcpy(wires, assumed, sizeof assumed);
    if (o->alpha > 0) wires[count++] = (wire){"as given", o->alpha, o->beta};
    printf("\nModelled, in ms and as a share of n times the speed of one rank: all that can overlaps; nothing "
           "does\nranks");
    for (int k = 0; k < count; k++) printf(" | %-38s", wires[k].name);
    printf("\n");
    for (int n = 1; n <= 1024; n *= 2) {
        printf("%5d", n);
        for (int k = 0; k < count; k++) {
            const double best = modelled(f->step, f, &wires[k], n, true),
                         worst = modelled(f->step, f, &wires[k], n, false);
            printf(" | %8.1f %5.1f %%    %8.1f %5.1f %%    ", 1e3 * best, 100 * f->step / best, 1e3 * worst,
                   100 * f->step / worst);
        }
        printf("\n");
    }
}

/* ---- Command line ------------------------------------------------------------------------------------------------ */
static bool parse_number(options *o, const char *name, const char *text) {
    const struct {
        const char *name;
        int *number;
        int most;
    } rows[] = {{"--layers", &o->layers, MOST_LAYERS},
                {"--width", &o->width, 1 << 16},
                {"--rows", &o->rows, 1 << 20},
                {"--steps", &o->steps, MOST_STEPS},
                {"--threads", &o->threads, 4096}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(name, rows[i].name) != 0) continue;
        *rows[i].number = atoi(text);
        return *rows[i].number >= 1 && *rows[i].number <= rows[i].most;
    }
    return false;
}

static bool parse(options *o, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *text = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(name, "--late")) {
            o->late = true;
            continue;
        }
        i++;
        if (!strcmp(name, "--wire"))
            o->wire = amp_dtype_from_name(text);
        else if (!strcmp(name, "--bucket"))
            o->bucket = atoll(text);
        else if (!strcmp(name, "--alpha"))
            o->alpha = atof(text);
        else if (!strcmp(name, "--beta"))
            o->beta = atof(text);
        else if (!parse_number(o, name, text))
            return false;
    }
    return true;
}

static void print_figures(const options *o, const figures *f, const wire *w) {
    const int n = amp_distributed_size();
    printf("%d ranks, %d layers of %d, %d rows each, %s on the wire, %.1f MB of gradients in %g buckets, %s\n", n,
           o->layers, o->width, o->rows, amp_dtype_name(o->wire), f->gradients / 1e6, f->buckets, amp_cpu()->model);
    printf("compute %.1f ms, step %.1f ms, of that backward %.1f ms and waiting %.1f ms\n", 1e3 * f->compute,
           1e3 * f->step, 1e3 * f->backward, 1e3 * f->waiting);
    printf("sent %.1f MB a step, %.1f %% of it through when the backward ended\n", f->bytes / 1e6,
           f->bytes > 0 ? 100 * f->through / f->bytes : 0);
    if (n == 1) print_model(f, o);
    if (n == 1) return;
    printf("alpha %.3g s, beta %.3g s (%.2f GB/s)\n", w->alpha, w->beta, 1e-9 / w->beta);
    printf(
        "modelled from compute, without copies and sums: %.1f ms if all that can overlaps, %.1f ms if nothing does\n",
        1e3 * modelled(f->compute, f, w, n, true), 1e3 * modelled(f->compute, f, w, n, false));
}

static void run(const options *o) {
    amp_scope_here();
    network n;
    make_network(&n, o);
    amp_data_parallel *ddp = amp_data_parallel_create(n.parameters, .dtype = o->wire, .overlap = AMP_SET(!o->late),
                                                      .bucket_bytes = AMP_SET(o->bucket));
    bench_require(ddp != NULL, "amp_data_parallel_create");
    figures f = measure(&n, ddp, o->steps);
    f.gradients = (double)o->layers * o->width * o->width * (double)amp_dtype_size(o->wire);
    const wire here = probe();
    if (amp_distributed_rank() == 0) print_figures(o, &f, &here);
    amp_data_parallel_destroy(ddp);
    amp_parameters_destroy(n.parameters);
}

int main(int argc, char **argv) {
    options o = {
        .layers = 8, .width = 1024, .rows = 128, .steps = 12, .threads = 1, .bucket = 25 << 20, .wire = AMP_F32};
    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_distributed [--layers N] [--width N] [--rows N] [--wire f32|bf16] [--bucket "
                        "BYTES] [--late] [--steps N] [--threads N] [--alpha S --beta S]\n");
        return 2;
    }
    amp_set_num_threads(o.threads);
    const bool is_launched = amp_distributed_is_launched();
    if (is_launched) bench_require(amp_distributed_init() == AMP_OK, "amp_distributed_init");
    run(&o);
    if (is_launched) bench_require(amp_distributed_end() == AMP_OK, "amp_distributed_end");
    return 0;
}
