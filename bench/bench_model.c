/* The demo's model, bf16 against our own f32, in turns, on random token ids.
 *
 *     bench_model [--model DIR] [--threads N[,N…]] [--seconds S] [--json] [LIST…]     a table, or JSON
 *     bench_model --serve …                                                           a worker for bench/peers.py,
 *                                                                                     which says what passes between
 *                                                                                     them
 * A list has a batch and a number of tokens on each line (bench/model/minilm.txt, which is the default). Times are
 * medians of single passes, each over fresh ids; the first pass of a shape is not counted. The share of the peak is
 * that of the products, which are nearly all of a pass, of the rate of the fastest unit for the type (bench_peak.h),
 * timed between passes. */
#define BENCH_NAME "bench_model"
#include <getopt.h>

#include "bench_peak.h"
#include "minilm.h"

enum { F32, BF16, PRECISIONS, VOCABULARY = 30522, MAX_TOKENS = 1 << 16, MAX_PASSES = 4096 };

static const char *const precision_names[] = {"f32", "bf16"};

typedef struct options {
    const char *model;
    bench_threads threads;
    double seconds; /* for each row */
    bool json, serve;
    char **lists; /* ends with NULL */
} options;

/* Operations of the products of one pass: per token and layer 12 matrices of width², and the scores. */
static double operations(int batch, int tokens) {
    const double width = MINILM_WIDTH, all = (double)batch * tokens;
    return MINILM_LAYERS * all * (24.0 * width * width + 4.0 * tokens * width);
}

static int64_t ids[MAX_TOKENS];
static int lengths[MAX_TOKENS];
static float embeddings[MAX_TOKENS * MINILM_WIDTH / 16];

static void die(void) {
    fprintf(stderr, "bench_model: %s\n", amp_last_error());
    exit(1);
}

static void embed(const minilm *model, int precision, int batch, int tokens) {
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(precision == BF16)) {
        if (minilm_embed(model, ids, lengths, batch, tokens, embeddings) != AMP_OK) die();
    }
}

/* Milliseconds of one pass over fresh ids. */
static double time_pass(const minilm *model, int precision, int batch, int tokens) {
    for (int i = 0; i < batch * tokens; i++) ids[i] = 1000 + (int64_t)(bench_random() % (VOCABULARY - 1000));
    for (int i = 0; i < batch; i++) lengths[i] = tokens;
    const double start = 1e3 * bench_wall();
    embed(model, precision, batch, tokens);
    return 1e3 * bench_wall() - start;
}

/* ---- The worker -------------------------------------------------------------------------------------------------- */

static void answer_check(const minilm *model, int precision) {
    for (int i = 0; i < 32; i++) ids[i] = (1000 + 7919 * i) % VOCABULARY;
    lengths[0] = 16;
    lengths[1] = 9;
    embed(model, precision, 2, 16);
    printf("{\"embedding\": [");
    for (int i = 0; i < 2 * MINILM_WIDTH; i++) printf("%s%.9g", i ? ", " : "", (double)embeddings[i]);
    printf("]}\n");
}

static void answer_run(const minilm *model, int precision, int batch, int tokens, int passes) {
    time_pass(model, precision, batch, tokens);
    printf("{\"ms\": [");
    for (int i = 0; i < passes; i++) printf("%s%.6f", i ? ", " : "", time_pass(model, precision, batch, tokens));
    printf("]}\n");
}

static void serve(const minilm *model) {
    char line[128], command[16], precision_name[16] = "";
    printf("{\"engine\": \"libamp\", \"version\": \"%s\", \"precisions\": [\"f32\", \"bf16\"], \"cpu\": \"%s\", "
           "\"isa\": \"%s\", \"onednn\": \"%s\", \"openmp\": \"%s\"}\n",
           amp_version_string(), amp_cpu()->model, amp_isa_name(amp_isa_best()), amp_onednn_version(),
           amp_openmp_version());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int batch = 0, tokens = 0, passes = 0;
        const int words = sscanf(line, "%15s %15s %d %d %d", command, precision_name, &batch, &tokens, &passes);
        const int precision = strcmp(precision_name, "bf16") == 0 ? BF16 : F32;
        if (words == 2)
            answer_check(model, precision);
        else if (words == 5 && tokens >= 16 && tokens <= MINILM_MAX_TOKENS && batch > 0 && batch * tokens <= MAX_TOKENS)
            answer_run(model, precision, batch, tokens, passes);
        else
            exit(2);
        fflush(stdout);
    }
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

typedef struct row {
    int batch, tokens, threads, passes;
    bench_figure ms[PRECISIONS];
    double share[PRECISIONS]; /* of the peak */
} row;

/* f32 and bf16 take turns, one pass each, for the seconds given or as many passes as there is room for. */
static row measure(const minilm *model, int batch, int tokens, int threads, double seconds) {
    static double times[PRECISIONS][MAX_PASSES], shares[PRECISIONS][MAX_PASSES];
    const amp_probe units[PRECISIONS] = {bench_best_unit(false), bench_best_unit(true)};
    row r = {.batch = batch, .tokens = tokens, .threads = threads};
    if (amp_set_num_threads(threads) != AMP_OK) die();
    for (int p = 0; p < PRECISIONS; p++) time_pass(model, p, batch, tokens);
    const double end = 1e3 * bench_wall() + 1e3 * seconds;
    while (r.passes < MAX_PASSES && (r.passes < 5 || 1e3 * bench_wall() < end)) {
        for (int p = 0; p < PRECISIONS; p++) {
            times[p][r.passes] = time_pass(model, p, batch, tokens);
            const double rate = operations(batch, tokens) / (1e-3 * times[p][r.passes]);
            shares[p][r.passes] = rate / bench_peak_rate(units[p], threads);
        }
        r.passes++;
    }
    for (int p = 0; p < PRECISIONS; p++) {
        r.ms[p] = bench_figure_of(times[p], r.passes);
        r.share[p] = bench_median(shares[p], r.passes);
    }
    return r;
}

static void print_machine(bool json) {
    if (json) {
        printf("{");
        bench_print_machine(stdout);
        printf(", \"rows\": [");
        return;
    }
    printf("%s, best instruction set %s\nlibamp %s, oneDNN %s, %s\n\n", amp_cpu()->model, amp_isa_name(amp_isa_best()),
           amp_version_string(), amp_onednn_version(), amp_openmp_version());
    printf("%-14s%8s%12s%10s%12s%10s%10s%14s%8s\n", "batch", "threads", "f32 ms", "of peak", "bf16 ms", "of peak",
           "speed-up", "bf16 tokens/s", "passes");
}

static void print_row(const row *r, bool json, bool first) {
    const double f32 = r->ms[F32].median, bf16 = r->ms[BF16].median;
    if (json) {
        printf("%s\n {\"batch\": %d, \"tokens\": %d, \"threads\": %d, \"passes\": %d", first ? "" : ",", r->batch,
               r->tokens, r->threads, r->passes);
        for (int p = 0; p < PRECISIONS; p++)
            printf(", \"%s_ms\": %.4f, \"%s_low_ms\": %.4f, \"%s_high_ms\": %.4f, \"%s_peak_share\": %.4f",
                   precision_names[p], r->ms[p].median, precision_names[p], r->ms[p].low, precision_names[p],
                   r->ms[p].high, precision_names[p], r->share[p]);
        printf("}");
        return;
    }
    char shape[32];
    snprintf(shape, sizeof shape, "%d x %d", r->batch, r->tokens);
    printf("%-14s%8d%12.3f%8.0f %%%12.3f%8.0f %%%9.2fx%14.0f%8d\n", shape, r->threads, f32, 100 * r->share[F32], bf16,
           100 * r->share[BF16], f32 / bf16, 1e3 * r->batch * r->tokens / bf16, r->passes);
    fflush(stdout);
}

/* Rows of one list; returns how many there are now. */
static int print_list(const minilm *model, const options *o, const char *path, int threads, int rows) {
    FILE *list = bench_open(path, "r");
    char line[128];
    while (fgets(line, sizeof line, list)) {
        int batch, tokens;
        if (line[0] == '#' || line[strspn(line, " \t\n")] == '\0') continue;
        if (sscanf(line, "%d %d", &batch, &tokens) != 2 || tokens < 1 || tokens > MINILM_MAX_TOKENS || batch < 1 ||
            batch > MAX_TOKENS / 16 || batch * tokens > MAX_TOKENS) {
            fprintf(stderr, "bench_model: %s: '%.*s' is no batch and number of tokens (up to %d, %d in all)\n", path,
                    (int)strcspn(line, "\n"), line, MINILM_MAX_TOKENS, MAX_TOKENS);
            exit(2);
        }
        const row r = measure(model, batch, tokens, threads, o->seconds);
        print_row(&r, o->json, rows++ == 0);
    }
    fclose(list);
    return rows;
}

static void print_table(const minilm *model, const options *o) {
    int rows = 0;
    print_machine(o->json);
    for (int t = 0; t < o->threads.n; t++)
        for (char **path = o->lists; *path; path++) rows = print_list(model, o, *path, o->threads.counts[t], rows);
    if (o->json) printf("\n]}\n");
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static bool parse_options(options *o, int argc, char **argv) {
    enum { MODEL = 256, THREADS, SECONDS, JSON, SERVE };
    static const struct option known[] = {
        {"model", required_argument, NULL, MODEL},     {"threads", required_argument, NULL, THREADS},
        {"seconds", required_argument, NULL, SECONDS}, {"json", no_argument, NULL, JSON},
        {"serve", no_argument, NULL, SERVE},           {NULL, 0, NULL, 0}};
    static char *whole[] = {"bench/model/minilm.txt", NULL};
    *o = (options){
        .model = ".deps/models/all-MiniLM-L6-v2", .threads = {.counts = {1, 2}, .n = 2}, .seconds = 3, .lists = whole};
    bool good = true;
    for (int c; good && (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == MODEL)
            o->model = optarg;
        else if (c == THREADS)
            good = bench_parse_threads(&o->threads, optarg);
        else if (c == SECONDS)
            good = (o->seconds = atof(optarg)) > 0;
        else if (c == JSON)
            o->json = true;
        else if (c == SERVE)
            o->serve = true;
        else
            good = false;
    }
    if (optind < argc) o->lists = argv + optind;
    return good;
}

int main(int argc, char **argv) {
    options o;
    if (!parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_model [--model DIR] [--threads N[,N...]] [--seconds S] [--json] [LIST...]\n      "
                        " bench_model [--model DIR] [--threads N] --serve\n");
        return 2;
    }
    minilm *model = minilm_open(o.model);
    if (!model || amp_set_num_threads(o.threads.counts[0]) != AMP_OK) die();
    if (o.serve)
        serve(model);
    else
        print_table(model, &o);
    minilm_close(model);
    return 0;
}
