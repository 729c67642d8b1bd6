/* BERT-base's encoder and ResNet-50, random weights and inputs, in each precision of a device, in turns.
 *
 *     bench_networks [--device cpu|cuda] [--batch 8] [--layers 12] [--tokens 128] [--side 224] [--threads N] [--seconds
 *                    S] [--json FILE]
 *     bench_networks [--device cpu|cuda] [--batch 8] [--layers 12] [--tokens 128] [--side 224] [--threads N] --serve
 *
 * A pass is the whole network, from an input that lies on the device to a result there: in f32 outside of regions, in
 * f16 or bf16 in a region around the f32 weights, whose casts are kept. Figures are medians of passes, of which the
 * first is not counted; on a GPU each is waited for. Each precision's result is compared with that of f32 first. With
 * --serve each line "bert|resnet f32|bf16|f16" on the standard input is answered by the seconds of one pass:
 * bench/peers_networks.py lets it take turns with PyTorch. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_networks"
#include "amp/cuda.h"
#include "networks.h"

enum { NETWORKS = 2, PRECISIONS = 3, MAX_PASSES = 400 };

static const char *const network_names[NETWORKS] = {"bert", "resnet"};

typedef struct options {
    bool cuda, serve;
    int batch, layers, tokens, side, threads;
    double seconds;
    const char *json;
} options;

static const struct {
    const char *name;
    amp_dtype dtype; /* of the region; AMP_DTYPE_NONE: none */
    bool on_cpu;
} precisions[PRECISIONS] = {{"f32", AMP_DTYPE_NONE, true}, {"bf16", AMP_BF16, true}, {"f16", AMP_F16, false}};

static struct {
    amp_device device;
    bert bert;
    resnet resnet;
    amp_tensor *inputs[NETWORKS];
} bench;

static void prepare(const options *o) {
    const amp_dims tokens = AMP_DIMS(o->batch, o->tokens, BERT_WIDTH), image = AMP_DIMS(o->batch, o->side, o->side, 3);
    bench.device = o->cuda ? AMP_DEVICE_CUDA : AMP_DEVICE_CPU;
    amp_scope {
        make_bert(&bench.bert, o->layers, BERT_WIDTH, BERT_HEADS, bench.device);
        make_resnet(&bench.resnet, bench.device);
        bench.inputs[0] = amp_keep(bench_tensor_on(bench.device, AMP_F32, 1.0f, tokens));
        amp_tensor *pixels = bench_tensor_on(bench.device, AMP_F32, 1.0f, image);
        bench.inputs[1] = amp_keep(bench_require_tensor(amp_permute(pixels, AMP_DIMS(0, 3, 1, 2))));
    }
}

static amp_tensor *run_network(int network) {
    return bench_require_tensor(network ? run_resnet(&bench.resnet, bench.inputs[1])
                                        : run_bert(&bench.bert, bench.inputs[0]));
}

static void wait_for_device(void) {
    if (bench.device == AMP_DEVICE_CUDA) bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
}

/* Of one pass, whose result goes with the scope. */
static double time_pass(int network, int precision) {
    wait_for_device();
    const double start = bench_wall();
    amp_scope {
        if (precisions[precision].dtype == AMP_DTYPE_NONE) {
            run_network(network);
        } else {
            amp_autocast(bench.device, .dtype = precisions[precision].dtype) {
                run_network(network);
            }
        }
        wait_for_device();
    }
    return bench_wall() - start;
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

static const float *result_of(int network, int precision, int64_t *count) {
    amp_tensor *y = NULL;
    if (precisions[precision].dtype == AMP_DTYPE_NONE) {
        y = run_network(network);
    } else {
        amp_autocast(bench.device, .dtype = precisions[precision].dtype) {
            y = run_network(network);
        }
    }
    y = bench_require_tensor(amp_contiguous(amp_to(amp_to_device(y, AMP_DEVICE_CPU), AMP_F32)));
    *count = amp_tensor_numel(y);
    return amp_data(y);
}

/* The cosine of a precision's result and that of f32. */
static double check(int network, int precision) {
    double products = 0, squares = 0, exact = 0;
    amp_scope {
        int64_t n = 0;
        const float *a = result_of(network, precision, &n), *b = result_of(network, 0, &n);
        for (int64_t i = 0; i < n; i++) {
            products += (double)a[i] * b[i];
            squares += (double)a[i] * a[i];
            exact += (double)b[i] * b[i];
        }
    }
    const double cosine = products / sqrt(squares * exact);
    bench_require(cosine > 0.99, "the result that f32 has");
    return cosine;
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

static void measure(const options *o, int network, bench_figure figures[PRECISIONS], int *passes) {
    static double times[PRECISIONS][MAX_PASSES];
    const double end = bench_wall() + o->seconds;
    for (*passes = 0; *passes < MAX_PASSES && (*passes < 3 || bench_wall() < end); ++*passes)
        for (int p = 0; p < PRECISIONS; p++)
            if (o->cuda || precisions[p].on_cpu) times[p][*passes] = time_pass(network, p);
    for (int p = 0; p < PRECISIONS; p++)
        if (o->cuda || precisions[p].on_cpu) figures[p] = bench_figure_of(times[p], *passes);
}

static void bench_network(const options *o, int network, FILE *json) {
    double cosines[PRECISIONS];
    bench_figure figures[PRECISIONS];
    int passes;
    for (int p = 0; p < PRECISIONS; p++)
        if (o->cuda || precisions[p].on_cpu) cosines[p] = p ? check(network, p) : 1.0;
    measure(o, network, figures, &passes);
    for (int p = 0; p < PRECISIONS; p++) {
        if (!o->cuda && !precisions[p].on_cpu) continue;
        const double ms = 1e3 * figures[p].median, low = 1e3 * figures[p].low, high = 1e3 * figures[p].high;
        printf("%-10s%-10s%12.3f%12.3f%12.3f%8d%9.2fx%10.6f\n", network_names[network], precisions[p].name, ms, low,
               high, passes, figures[0].median / figures[p].median, cosines[p]);
        if (json)
            fprintf(
                json,
                "%s\n {\"network\": \"%s\", \"precision\": \"%s\", \"ms\": %.4f, \"low_ms\": %.4f, \"high_ms\": %.4f, "
                "\"passes\": %d, \"cosine\": %.6f}",
                network + p ? "," : "", network_names[network], precisions[p].name, ms, low, high, passes, cosines[p]);
    }
    fflush(stdout);
}

static void print_table(const options *o) {
    FILE *json = o->json ? bench_open(o->json, "w") : NULL;
    const char *device = o->cuda ? "cuda" : "cpu";
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(
            json,
            ", \"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"bert_layers\": %d, \"tokens\": %d, \"side\": %d, "
            "\"rows\": [",
            device, amp_get_num_threads(), o->batch, o->layers, o->tokens, o->side);
    }
    printf("%s, %s, on %s, %d threads, batch %d\n", amp_cpu()->model, amp_isa_name(amp_isa_best()), device,
           amp_get_num_threads(), o->batch);
    printf("bert: %d of %d layers, %d tokens; resnet: ResNet-50, %d x %d\n\n", o->layers, BERT_MOST_LAYERS, o->tokens,
           o->side, o->side);
    printf("%-10s%-10s%12s%12s%12s%8s%10s%10s\n", "network", "type", "ms", "10 %", "90 %", "passes", "speed-up",
           "cosine");
    for (int i = 0; i < NETWORKS; i++) bench_network(o, i, json);
    if (!json) return;
    fprintf(json, "\n]}\n");
    fclose(json);
}

/* ---- On request ------------------------------------------------------------------------------------------------- */

static int named(const char *name, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i])) return i;
    exit(2);
}

static void serve(void) {
    static const char *const names[PRECISIONS] = {"f32", "bf16", "f16"};
    char line[64], network[16], precision[16];
    while (fgets(line, sizeof line, stdin) && sscanf(line, "%15s %15s", network, precision) == 2) {
        printf("%.9g\n", time_pass(named(network, network_names, NETWORKS), named(precision, names, PRECISIONS)));
        fflush(stdout);
    }
}

static void print_usage(FILE *out) {
    fprintf(out, "usage: bench_networks [--device cpu|cuda] [--batch 8] [--layers 12] [--tokens 128] [--side 224] "
                 "[--threads N]\n"
                 "                      [--seconds 5] [--json FILE] [--serve]\n"
                 "--seconds: of each network, all types in turns; at most 400 passes.\n");
}

static void refuse(const char *name, const char *value, const char *expected) {
    fprintf(stderr, "bench_networks: %s is '%s'; expected %s\n", name, value, expected);
    exit(2);
}

static int count_of(const char *name, const char *value, int most) {
    char *end;
    const long count = strtol(value, &end, 10);
    if (end == value || *end || count < 1 || count > most) {
        char expected[48];
        snprintf(expected, sizeof expected, "a number from 1 to %d", most);
        refuse(name, value, expected);
    }
    return (int)count;
}

static void parse_option(options *o, const char *name, const char *value) {
    const struct {
        const char *name;
        int *count, most;
    } counts[] = {{"--batch", &o->batch, 4096},
                  {"--layers", &o->layers, BERT_MOST_LAYERS},
                  {"--tokens", &o->tokens, 4096},
                  {"--side", &o->side, 4096},
                  {"--threads", &o->threads, 4096}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (strcmp(name, counts[i].name) != 0) continue;
        *counts[i].count = count_of(name, value, counts[i].most);
        return;
    }
    if (!strcmp(name, "--device")) {
        if (!bench_parse_device(&o->cuda, value)) refuse(name, value, "cpu or cuda");
    } else if (!strcmp(name, "--seconds")) {
        o->seconds = atof(value);
        if (!(o->seconds > 0)) refuse(name, value, "a number above 0");
    } else if (!strcmp(name, "--json")) {
        o->json = value;
    } else {
        print_usage(stderr);
        exit(2);
    }
}

static options parse_options(int argc, char **argv) {
    options o = {.batch = 8,
                 .layers = BERT_MOST_LAYERS,
                 .tokens = 128,
                 .side = 224,
                 .threads = amp_get_num_threads(),
                 .seconds = 5};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help")) {
            print_usage(stdout);
            exit(0);
        } else if (!strcmp(argv[i], "--serve")) {
            o.serve = true;
        } else if (i + 1 < argc) {
            parse_option(&o, argv[i], argv[i + 1]);
            i++;
        } else {
            parse_option(&o, argv[i], "");
        }
    }
    return o;
}

int main(int argc, char **argv) {
    const options o = parse_options(argc, argv);
    bench_require(amp_set_num_threads(o.threads) == AMP_OK, "setting the number of threads");
    prepare(&o);
    if (o.serve)
        serve();
    else
        print_table(&o);
    return 0;
}
