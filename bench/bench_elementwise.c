/* Elementwise ops, reductions, scans, sorting and indexing on 1024 × 1024 random elements, f32 and bf16.
 *
 *     bench_elementwise [--threads N[,N…]] [--seconds S] [--filter TEXT] [--json]   a table, or JSON
 *     bench_elementwise --device cuda [--seconds S] [--filter TEXT] [--json] [--side N]   on the GPU, N × N elements
 *     (4096) bench_elementwise --serve            a worker for bench/peers_elementwise.py, which says what passes
 *     between them
 * Times are medians of single calls by name, results released within them. GB/s counts each operand's elements once;
 * its share is of the bandwidth of memcpy over f32 tensors of this size with as many threads. On the GPU calls are
 * enqueued many at a time, and the share is of the bandwidth of a copy there. */
#define BENCH_NAME "bench_elementwise"
#include <getopt.h>
#include <math.h>
#include <omp.h>

#include "bench_common.h"

enum { MAX_CALLS = 1 << 14, MAX_ARGUMENTS = 6, QUEUED = 20 };
static int64_t side = 1024, elements; /* of a matrix */
enum { F32, BF16, PRECISIONS };

static const char *const precision_names[] = {"f32", "bf16"};

/* Arguments by letter: tensors a b c (matrices of random numbers), p (positive ones), v (a as a vector), w (1024
 * numbers), s (as many in order), i (indices of rows, a matrix), j (1024 of them), x (indices of v), m (a
 * mask); 0 1 2 (integers), k (10), h (a half), t (0.3), d and D (dimension lists 1 and 0), n (none given: an absent
 * option). streams: matrices of elements that are read or written; indices: matrices of i64 or masks of bytes beside
 * them. */
static const struct bench_row {
    const char *name, *op, *arguments;
    double streams, bytes;
} rows[] = {
    {"add", "add", "ab", 3, 0},
    {"mul", "mul", "ab", 3, 0},
    {"div", "div", "ab", 3, 0},
    {"maximum", "maximum", "ab", 3, 0},
    {"add number", "add", "ah", 2, 0},
    {"add row", "add", "aw", 2, 0},
    {"gt", "gt", "ab", 2, 1},
    {"where", "where", "mab", 3, 1},
    {"clamp", "clamp", "ath", 2, 0},
    {"neg", "neg", "a", 2, 0},
    {"abs", "abs", "a", 2, 0},
    {"relu", "relu", "a", 2, 0},
    {"sqrt", "sqrt", "p", 2, 0},
    {"rsqrt", "rsqrt", "p", 2, 0},
    {"exp", "exp", "a", 2, 0},
    {"log", "log", "p", 2, 0},
    {"sin", "sin", "a", 2, 0},
    {"cos", "cos", "a", 2, 0},
    {"tanh", "tanh", "a", 2, 0},
    {"sigmoid", "sigmoid", "a", 2, 0},
    {"erf", "erf", "a", 2, 0},
    {"gelu", "gelu", "a", 2, 0},
    {"silu", "silu", "a", 2, 0},
    {"softplus", "softplus", "a", 2, 0},
    {"leaky_relu", "leaky_relu", "a", 2, 0},
    {"hardswish", "hardswish", "a", 2, 0},
    {"pow 2", "pow", "a2", 2, 0},
    {"pow", "pow", "pb", 3, 0},
    {"floor", "floor", "a", 2, 0},
    {"round", "round", "a", 2, 0},
    {"addcmul", "addcmul", "abc", 4, 0},
    {"addcdiv", "addcdiv", "abp", 4, 0},
    {"lerp", "lerp", "abp", 4, 0},
    {"lerp number", "lerp", "abt", 3, 0},
    {"masked_fill", "masked_fill", "amt", 2, 1},
    {"to bf16 or f32", "to", "a~", 1, 0},
    {"softmax", "softmax", "a1", 2, 0},
    {"log_softmax", "log_softmax", "a1", 2, 0},
    {"layer_norm", "layer_norm", "aS", 2, 0},
    {"rms_norm", "rms_norm", "aS", 2, 0},
    {"sum", "sum", "a", 1, 0},
    {"sum rows", "sum", "ad", 1, 0},
    {"sum columns", "sum", "aD", 1, 0},
    {"mean rows", "mean", "ad", 1, 0},
    {"prod", "prod", "a", 1, 0},
    {"max", "max", "a", 1, 0},
    {"amax rows", "amax", "ad", 1, 0},
    {"amax columns", "amax", "aD", 1, 0},
    {"max with places", "max", "a1", 1, 0},
    {"max of columns", "max", "a0", 1, 0},
    {"argmax", "argmax", "a", 1, 0},
    {"argmax rows", "argmax", "a1", 1, 0},
    {"var", "var", "a", 1, 0},
    {"var rows", "var", "ad", 1, 0},
    {"var columns", "var", "aD", 1, 0},
    {"logsumexp rows", "logsumexp", "ad", 1, 0},
    {"norm", "norm", "a", 1, 0},
    {"cumsum", "cumsum", "v0", 2, 0},
    {"cumsum rows", "cumsum", "a1", 2, 0},
    {"cumsum columns", "cumsum", "a0", 2, 0},
    {"cumprod rows", "cumprod", "p1", 2, 0},
    {"cummax rows", "cummax", "a1", 2, 8},
    {"sort", "sort", "v0", 2, 8},
    {"sort rows", "sort", "a1", 2, 8},
    {"topk", "topk", "vk", 1, 0},
    {"topk rows", "topk", "ak", 1, 0},
    {"searchsorted", "searchsorted", "sa", 1, 8},
    {"gather rows", "gather", "a1i", 2, 8},
    {"gather", "gather", "v0x", 2, 8},
    {"index_select rows", "index_select", "a0j", 2, 0},
    {"index_select columns", "index_select", "a1j", 2, 0},
    {"index_select", "index_select", "v0x", 2, 8},
    {"scatter_add rows", "scatter_add", "a1ib", 4, 8},
    {"scatter_add", "scatter_add", "v0xv", 4, 8},
    {"index_add", "index_add", "a0jb", 4, 0},
    {"clone", "clone", "a", 2, 0},
    {"transpose", "contiguous", "T", 2, 0},
    {"flip", "flip", "ad", 2, 0},
    {"roll", "roll", "akd", 2, 0},
    {"tril", "tril", "a", 1.5, 0},
    {"cat", "cat", "L", 4, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

typedef struct options {
    bench_threads threads;
    double seconds;
    const char *filter;
    bool json, serve, cuda;
    int64_t side; /* 0: the device's */
} options;

static void die(const char *what) {
    fprintf(stderr, "bench_elementwise: %s: %s\n", what, amp_last_error());
    exit(1);
}

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static amp_tensor *operands[PRECISIONS][128]; /* by letter */

static amp_tensor *random_indices(int rank, const int64_t *shape, uint64_t limit) {
    const int64_t n = rank == 2 ? elements : shape[0];
    int64_t *x = malloc((size_t)n * sizeof *x);
    if (!x) exit(1);
    for (int64_t i = 0; i < n; i++) x[i] = (int64_t)(bench_random() % limit);
    amp_tensor *t = amp_from_data(x, AMP_I64, rank, shape);
    free(x);
    if (!t) die("operands");
    return t;
}

static void make_operands(bool cuda) {
    const int64_t matrix[2] = {side, side}, all[1] = {elements}, row[1] = {side};
    amp_tensor **f32 = operands[F32];
    for (const char *letter = "abc"; *letter; letter++)
        f32[(int)*letter] = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(side, side));
    f32['p'] = amp_add_scalar(amp_abs(f32['a']), amp_float(0.01));
    f32['v'] = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(elements));
    f32['w'] = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(side));
    f32['s'] = amp_sort(f32['w']);
    for (int letter = 0; letter < 128; letter++) {
        if (f32[letter]) operands[BF16][letter] = amp_to(f32[letter], AMP_BF16);
    }
    f32['i'] = operands[BF16]['i'] = random_indices(2, matrix, (uint64_t)side);
    f32['j'] = operands[BF16]['j'] = random_indices(1, row, (uint64_t)side);
    f32['x'] = operands[BF16]['x'] = random_indices(1, all, (uint64_t)elements);
    f32['m'] = operands[BF16]['m'] = amp_gt(f32['a'], f32['b']);
    for (int p = 0; cuda && p < PRECISIONS; p++) {
        for (int letter = 0; letter < 128; letter++) {
            amp_tensor **t = &operands[p][letter];
            if (*t) *t = amp_to_device(*t, AMP_DEVICE_CUDA);
        }
    }
    for (int p = 0; p < PRECISIONS; p++) operands[p]['T'] = amp_t(operands[p]['a']);
    if (amp_last_status() != AMP_OK) die("operands");
}

static amp_value value_of(char letter, int precision) {
    static amp_tensor *list[PRECISIONS][2];
    amp_value v = {.kind = AMP_VALUE_SCALAR};
    switch (letter) {
    case '0':
    case '1':
    case '2': v.as.scalar = amp_int(letter - '0'); return v;
    case 'k': v.as.scalar = amp_int(10); return v;
    case 'h': v.as.scalar = amp_float(0.5); return v;
    case 't': v.as.scalar = amp_float(0.3); return v;
    case 'd': return (amp_value){.kind = AMP_VALUE_DIMS, .as.dims = AMP_DIMS(1)};
    case 'D': return (amp_value){.kind = AMP_VALUE_DIMS, .as.dims = AMP_DIMS(0)};
    case 'S': return (amp_value){.kind = AMP_VALUE_DIMS, .as.dims = AMP_DIMS(side)};
    case '~': return (amp_value){.kind = AMP_VALUE_DTYPE, .as.dtype = precision == F32 ? AMP_BF16 : AMP_F32};
    case 'L':
        list[precision][0] = operands[precision]['a'];
        list[precision][1] = operands[precision]['b'];
        return (amp_value){.kind = AMP_VALUE_TENSOR_LIST, .as.list = {.items = list[precision], .count = 2}};
    default: return (amp_value){.kind = AMP_VALUE_TENSOR, .as.tensor = operands[precision][(int)letter]};
    }
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* Nanoseconds of one call of `calls` that follow each other. */
static double time_calls(const struct bench_row *row, int precision, int calls) {
    amp_argument arguments[MAX_ARGUMENTS] = {{0}};
    amp_tensor *outputs[4];
    int count = 0, given = 0;
    for (const char *letter = row->arguments; *letter; letter++) {
        arguments[given++].value = value_of(*letter, precision);
    }
    const double start = bench_wall();
    for (int n = 0; n < calls; n++) {
        if (amp_call_op(row->op, arguments, given, outputs, 4, &count) != AMP_OK) die(row->name);
        for (int i = 0; i < count; i++) amp_release(outputs[i]);
    }
    if (calls > 1 && amp_cuda_synchronize() != AMP_OK) die(row->name);
    return 1e9 * (bench_wall() - start) / calls;
}
static double time_call(const struct bench_row *row, int precision) {
    return time_calls(row, precision, 1);
}

static double times[MAX_CALLS];

/* Bytes per nanosecond that memcpy reads and writes. */
static double copy_bandwidth(int threads, double seconds) {
    const char *from = amp_data(operands[F32]['a']);
    const size_t bytes = (size_t)elements * sizeof(float), part = bytes / (size_t)threads;
    char *to = malloc(bytes);
    if (!to) exit(1);
    memset(to, 1, bytes);
    int n = 0;
    for (const double end = bench_wall() + seconds; n < MAX_CALLS && (n < 20 || bench_wall() < end); n++) {
        const double start = bench_wall();
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int i = 0; i < threads; i++) memcpy(to + (size_t)i * part, from + (size_t)i * part, part);
        times[n] = 1e9 * (bench_wall() - start);
    }
    free(to);
    return 2.0 * (double)bytes / bench_median(times, n);
}

static double bytes_of(const struct bench_row *row, int precision) {
    const double size = precision == F32 ? 4 : 2;
    if (!strcmp(row->op, "to")) return 6.0 * (double)elements;
    return (row->streams * size + row->bytes) * (double)elements;
}

static bench_figure measure(const struct bench_row *row, int precision, int queued, double seconds, int *calls) {
    time_calls(row, precision, queued);
    int n = 0;
    for (const double end = bench_wall() + seconds; n < MAX_CALLS && (n < 5 || bench_wall() < end); n++) {
        times[n] = time_calls(row, precision, queued);
    }
    *calls = n * queued;
    return bench_figure_of(times, n);
}

static const struct bench_row copy_row = {"copy", "clone", "a", 2, 0};

/* Whether the device has the op. */
static bool is_there(const struct bench_row *row) {
    amp_argument arguments[MAX_ARGUMENTS] = {{0}};
    amp_tensor *outputs[4];
    int count = 0, given = 0;
    for (const char *letter = row->arguments; *letter; letter++) arguments[given++].value = value_of(*letter, F32);
    if (amp_call_op(row->op, arguments, given, outputs, 4, &count) == AMP_OK) {
        for (int i = 0; i < count; i++) amp_release(outputs[i]);
        return true;
    }
    if (amp_last_status() != AMP_ERROR_NOT_IMPLEMENTED) die(row->name);
    amp_clear_error();
    return false;
}

/* ---- The worker -------------------------------------------------------------------------------------------------- */

static const struct bench_row *row_named(const char *name) {
    for (int i = 0; i < ROWS; i++) {
        if (!strcmp(rows[i].name, name)) return &rows[i];
    }
    return NULL;
}

/* "bf16 2 10 NAME" asks for the nanoseconds of ten calls on two threads, "copy 2" for the bandwidth of memcpy. */
static void serve(double seconds) {
    char line[128], word[16], name[64];
    printf("{\"libamp\": \"%s\", \"cpu\": \"%s\", \"isa\": \"%s\", \"elements\": %lld, \"rows\": [",
           amp_version_string(), amp_cpu()->model, amp_isa_name(amp_isa_best()), (long long)elements);
    for (int i = 0; i < ROWS; i++) {
        printf("%s{\"name\": \"%s\", \"f32_bytes\": %.0f, \"bf16_bytes\": %.0f}", i ? ", " : "", rows[i].name,
               bytes_of(&rows[i], F32), bytes_of(&rows[i], BF16));
    }
    printf("]}\n");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int threads = 0, calls = 0;
        const int words = sscanf(line, "%15s %d %d %63[^\n]", word, &threads, &calls, name);
        const struct bench_row *row = words == 4 ? row_named(name) : NULL;
        if (words < 2 || (words != 2 && !row) || calls > MAX_CALLS || amp_set_num_threads(threads) != AMP_OK) exit(2);
        if (words == 2) {
            printf("{\"bytes_per_ns\": %.3f}\n", copy_bandwidth(threads, seconds));
        } else {
            const int precision = !strcmp(word, "bf16") ? BF16 : F32;
            time_call(row, precision);
            printf("{\"ns\": [");
            for (int i = 0; i < calls; i++) printf("%s%.0f", i ? ", " : "", time_call(row, precision));
            printf("]}\n");
        }
        fflush(stdout);
    }
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static void print_figures(const struct bench_row *row, int threads, const bench_figure *ns, const int *calls,
                          double copy, const options *o, bool first) {
    if (o->json) {
        printf("%s\n {\"name\": \"%s\", \"threads\": %d", first ? "" : ",", row->name, threads);
        for (int p = 0; p < PRECISIONS; p++) {
            const double rate = bytes_of(row, p) / ns[p].median;
            printf(", \"%s\": {\"ns\": %.0f, \"low_ns\": %.0f, \"high_ns\": %.0f, \"gb_per_s\": %.2f, \"share\": %.3f, "
                   "\"calls\": %d}",
                   precision_names[p], ns[p].median, ns[p].low, ns[p].high, rate, rate / copy, calls[p]);
        }
        printf("}");
        return;
    }
    printf("%-22s%8d", row->name, threads);
    for (int p = 0; p < PRECISIONS; p++) {
        const double rate = bytes_of(row, p) / ns[p].median;
        printf("%14.1f%9.1f%7.0f %%", ns[p].median * 1e-3, rate, 100 * rate / copy);
    }
    printf("%9.2f\n", ns[BF16].median / ns[F32].median);
    fflush(stdout);
}

static void print_head(const options *o, const double *copies) {
    if (o->json) {
        printf("{");
        bench_print_machine(stdout);
        printf(", \"device\": \"%s\", \"elements\": %lld, \"copy_gb_per_s\": [", o->cuda ? "cuda" : "cpu",
               (long long)elements);
    } else {
        printf("%s%s, best instruction set %s, libamp %s, %lld elements\n", o->cuda ? "a GPU beside " : "",
               amp_cpu()->model, amp_isa_name(amp_isa_best()), amp_version_string(), (long long)elements);
    }
    for (int t = 0; t < o->threads.n; t++) {
        if (o->json)
            printf("%s%.2f", t ? ", " : "", copies[t]);
        else
            printf("%s: %.1f GB/s\n", o->cuda ? "a copy" : "memcpy", copies[t]);
    }
    printf(o->json ? "], \"rows\": [" : "\n%-22s%8s%14s%9s%9s%14s%9s%9s%9s\n", "", "threads", "f32 us", "GB/s", "share",
           "bf16 us", "GB/s", "share", "bf16/f32");
}

static double copy_rate(const options *o, int threads) {
    int calls;
    if (!o->cuda) return copy_bandwidth(threads, o->seconds);
    return bytes_of(&copy_row, F32) / measure(&copy_row, F32, QUEUED, o->seconds, &calls).median;
}

static void print_table(const options *o) {
    double copies[BENCH_MAX_THREAD_COUNTS];
    const int queued = o->cuda ? QUEUED : 1;
    for (int t = 0; t < o->threads.n; t++) copies[t] = copy_rate(o, o->threads.counts[t]);
    print_head(o, copies);
    bool first = true;
    for (int t = 0; t < o->threads.n; t++) {
        if (amp_set_num_threads(o->threads.counts[t]) != AMP_OK) die("threads");
        for (int i = 0; i < ROWS; i++) {
            if (o->filter && !strstr(rows[i].name, o->filter)) continue;
            if (o->cuda && !is_there(&rows[i])) continue;
            bench_figure ns[PRECISIONS];
            int calls[PRECISIONS];
            for (int p = 0; p < PRECISIONS; p++) ns[p] = measure(&rows[i], p, queued, o->seconds, &calls[p]);
            print_figures(&rows[i], o->threads.counts[t], ns, calls, copies[t], o, first);
            first = false;
        }
    }
    if (o->json) printf("\n]}\n");
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static bool parse_options(options *o, int argc, char **argv) {
    enum { THREADS = 256, SECONDS, FILTER, JSON, SERVE, DEVICE, LENGTH };
    static const struct option known[] = {
        {"threads", required_argument, NULL, THREADS}, {"seconds", required_argument, NULL, SECONDS},
        {"filter", required_argument, NULL, FILTER},   {"json", no_argument, NULL, JSON},
        {"serve", no_argument, NULL, SERVE},           {"device", required_argument, NULL, DEVICE},
        {"side", required_argument, NULL, LENGTH},     {NULL, 0, NULL, 0}};
    *o = (options){.threads = {.counts = {1, 2}, .n = 2}, .seconds = 0.2};
    bool good = true;
    for (int c; good && (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == THREADS)
            good = bench_parse_threads(&o->threads, optarg);
        else if (c == SECONDS)
            good = (o->seconds = atof(optarg)) > 0;
        else if (c == FILTER)
            o->filter = optarg;
        else if (c == JSON)
            o->json = true;
        else if (c == SERVE)
            o->serve = true;
        else if (c == DEVICE)
            good = bench_parse_device(&o->cuda, optarg);
        else if (c == LENGTH)
            good = (o->side = atol(optarg)) > 0 && o->side <= 1 << 15;
        else
            good = false;
    }
    if (o->cuda) o->threads = (bench_threads){.counts = {1}, .n = 1};
    return good && optind == argc && !(o->cuda && o->serve);
}

int main(int argc, char **argv) {
    options o;
    if (!parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_elementwise [--threads N[,N...]] [--seconds S] [--filter TEXT] [--json] "
                        "[--serve] [--device cuda] [--side N]\n");
        return 2;
    }
    if (amp_scope_enter() != AMP_OK) die("scope");
    if (o.cuda) side = 4096;
    if (o.side) side = o.side;
    elements = side * side;
    make_operands(o.cuda);
    if (o.serve)
        serve(o.seconds);
    else
        print_table(&o);
    return amp_scope_exit() == AMP_OK ? 0 : 1;
}
