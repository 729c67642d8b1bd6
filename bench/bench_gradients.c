/* Backwards of attention, norms and activations in f32 and bf16, through the tape, on random data.
 *
 *     bench_gradients [--seconds S] [--json FILE]
 *     bench_gradients --list
 *     bench_gradients --serve
 *
 * One thread, its CPU time; figures are medians, beside the bytes that a backward of a norm must move: input and
 * gradient read, another written. --list says what the cases are, a line each: "KIND DTYPE N N N N FLAG", a tab, and
 * the case in words. With --serve, each line of the first part on the standard input is answered by the seconds of one
 * backward, the mean of a burst: bench/peers_gradients.py lets it take turns with PyTorch. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_gradients"
#include "bench_common.h"

enum { MAX_ROUNDS = 400, NUMBERS = 4, LEAVES = 3, TEXT = 96 };

typedef struct problem problem;

/* ---- What is differentiated ------------------------------------------------------------------------------------- */

/* The leaves are `inputs` tensors of the problem's shape and dtype, then `weights` of f32 with a number for each column
 * or channel, which are dimension 1 of all that have weights. */
typedef struct kind {
    const char *name;
    int rank, inputs, weights;
    const char *flag; /* what the problem's says */
    amp_tensor *(*run)(const problem *p, amp_tensor *const *x);
} kind;

struct problem {
    const kind *kind;
    long long n[NUMBERS]; /* the shape; 1 beyond the rank */
    bool flag;
    amp_dtype dtype;
};

static amp_tensor *run_attention(const problem *p, amp_tensor *const *x) {
    return amp_scaled_dot_product_attention(x[0], x[1], x[2], .is_causal = p->flag);
}
static amp_tensor *run_layer_norm(const problem *p, amp_tensor *const *x) {
    return amp_layer_norm(x[0], AMP_DIMS(p->n[1]), .weight = x[1], .bias = x[2]);
}
static amp_tensor *run_rms_norm(const problem *p, amp_tensor *const *x) {
    return amp_rms_norm(x[0], AMP_DIMS(p->n[1]), .weight = x[1]);
}
static amp_tensor *run_batch_norm(const problem *p, amp_tensor *const *x) {
    (void)p;
    return amp_batch_norm(x[0], .weight = x[1], .bias = x[2], .training = true);
}
static amp_tensor *run_group_norm(const problem *p, amp_tensor *const *x) {
    (void)p;
    return amp_group_norm(x[0], 32, .weight = x[1], .bias = x[2]);
}
static amp_tensor *run_softmax(const problem *p, amp_tensor *const *x) {
    (void)p;
    return amp_softmax(x[0], -1);
}
static amp_tensor *run_log_softmax(const problem *p, amp_tensor *const *x) {
    (void)p;
    return amp_log_softmax(x[0], -1);
}
static amp_tensor *run_gelu(const problem *p, amp_tensor *const *x) {
    (void)p;
    return amp_gelu(x[0]);
}

enum { ATTENTION, LAYER_NORM, RMS_NORM, BATCH_NORM, GROUP_NORM, SOFTMAX, LOG_SOFTMAX, GELU, KINDS };

static const char causal[] = "causal", channels_last[] = "channels last";

static const kind kinds[KINDS] = {
    [ATTENTION] = {"attention", 4, 3, 0, causal, run_attention},
    [LAYER_NORM] = {"layer_norm", 2, 1, 2, NULL, run_layer_norm},
    [RMS_NORM] = {"rms_norm", 2, 1, 1, NULL, run_rms_norm},
    [BATCH_NORM] = {"batch_norm", 4, 1, 2, channels_last, run_batch_norm},
    [GROUP_NORM] = {"group_norm", 4, 1, 2, channels_last, run_group_norm},
    [SOFTMAX] = {"softmax", 2, 1, 0, NULL, run_softmax},
    [LOG_SOFTMAX] = {"log_softmax", 2, 1, 0, NULL, run_log_softmax},
    [GELU] = {"gelu", 2, 1, 0, NULL, run_gelu},
};

/* Each in f32 and in bf16. attention: batch, heads, rows, depth. */
static const struct {
    int kind;
    long long n[NUMBERS];
    bool flag;
} shapes[] = {
    {ATTENTION, {8, 12, 128, 64}, false},     {ATTENTION, {32, 12, 64, 32}, false},
    {ATTENTION, {1, 12, 1024, 64}, true},     {LAYER_NORM, {4096, 768, 1, 1}, false},
    {RMS_NORM, {4096, 768, 1, 1}, false},     {BATCH_NORM, {8, 64, 112, 112}, false},
    {BATCH_NORM, {8, 64, 112, 112}, true},    {BATCH_NORM, {8, 256, 56, 56}, false},
    {BATCH_NORM, {8, 256, 56, 56}, true},     {GROUP_NORM, {8, 256, 56, 56}, false},
    {GROUP_NORM, {8, 256, 56, 56}, true},     {SOFTMAX, {12288, 128, 1, 1}, false},
    {LOG_SOFTMAX, {128, 30522, 1, 1}, false}, {GELU, {1024, 3072, 1, 1}, false},
};
static const amp_dtype dtypes[] = {AMP_F32, AMP_BF16};

enum { DTYPES = sizeof dtypes / sizeof *dtypes, CASES = DTYPES * (sizeof shapes / sizeof *shapes) };

static problem case_at(int i) {
    problem p = {.kind = &kinds[shapes[i / DTYPES].kind], .flag = shapes[i / DTYPES].flag, .dtype = dtypes[i % DTYPES]};
    memcpy(p.n, shapes[i / DTYPES].n, sizeof p.n);
    return p;
}

/* ---- A case as text --------------------------------------------------------------------------------------------- */

static void write_case(char text[TEXT], const problem *p) {
    snprintf(text, TEXT, "%s %s %lld %lld %lld %lld %d", p->kind->name, amp_dtype_name(p->dtype), p->n[0], p->n[1],
             p->n[2], p->n[3], p->flag);
}

static bool read_case(const char *text, problem *p) {
    char name[16], dtype[8];
    int flag = 0;
    *p = (problem){.kind = NULL};
    if (sscanf(text, "%15s %7s %lld %lld %lld %lld %d", name, dtype, &p->n[0], &p->n[1], &p->n[2], &p->n[3], &flag) !=
        7)
        return false;
    for (int i = 0; i < KINDS; i++)
        if (!strcmp(name, kinds[i].name)) p->kind = &kinds[i];
    p->flag = flag != 0;
    p->dtype = amp_dtype_from_name(dtype);
    return p->kind && p->dtype != AMP_DTYPE_NONE;
}

/* "attention, 12 × 1024 × 64, causal" */
static void write_words(char text[TEXT], const problem *p) {
    int length = snprintf(text, TEXT, "%s, ", p->kind->name);
    const char *between = "";
    for (int i = 0; i < p->kind->rank; i++) {
        if (p->n[i] == 1) continue;
        length += snprintf(text + length, (size_t)(TEXT - length), "%s%lld", between, p->n[i]);
        between = " × ";
    }
    if (p->flag) snprintf(text + length, (size_t)(TEXT - length), ", %s", p->kind->flag);
}

/* ---- A record, and the way back --------------------------------------------------------------------------------- */

/* The result, recorded, its gradient, and whose gradients are wanted. */
typedef struct recorded {
    amp_tensor *out, *gradient, *leaves[LEAVES];
    int count;
} recorded;

static amp_tensor *operand(const problem *p) {
    amp_dims shape = AMP_DIMS(p->n[0], p->n[1], p->n[2], p->n[3]);
    shape.count = p->kind->rank;
    amp_tensor *t = bench_tensor(p->dtype, 2.0f, shape);
    return p->flag && p->kind->flag == channels_last ? bench_require_tensor(amp_channels_last(t)) : t;
}

static recorded record(const problem *p) {
    const kind *k = p->kind;
    recorded r = {.count = k->inputs + k->weights, .gradient = operand(p)};
    for (int i = 0; i < r.count; i++) {
        r.leaves[i] = i < k->inputs ? operand(p) : bench_tensor(AMP_F32, 2.0f, AMP_DIMS(p->n[1]));
        bench_require(amp_tensor_set_requires_grad(r.leaves[i], true) == AMP_OK, "a leaf");
    }
    r.out = bench_require_tensor(k->run(p, r.leaves));
    return r;
}

static void go_back(const recorded *r) {
    (void)amp_scope_enter();
    const amp_tensor_list wanted = {(amp_tensor **)r->leaves, r->count, NULL};
    const amp_tensor_list given =
        amp_grad(AMP_LIST(r->out), wanted, .gradients = AMP_LIST(r->gradient), .retain_graph = true);
    bench_require(given.count == r->count, "a backward");
    (void)amp_scope_exit();
}

static double burst(const recorded *r, int repeats) {
    const double start = bench_now();
    for (int i = 0; i < repeats; i++) go_back(r);
    return (bench_now() - start) / repeats;
}

/* Bursts of twenty milliseconds. */
static int repeats_of(const recorded *r) {
    int repeats = 1;
    (void)burst(r, 1);
    while (burst(r, repeats) * repeats < 2e-2) repeats *= 2;
    return repeats;
}

/* ---- Answers ---------------------------------------------------------------------------------------------------- */

static int serve(void) {
    char line[TEXT], last[TEXT] = "";
    problem p;
    recorded r = {0};
    int repeats = 1;
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, last) != 0) {
            if (!read_case(line, &p)) return 2;
            if (r.out) (void)amp_scope_exit();
            (void)amp_scope_enter();
            r = record(&p);
            repeats = repeats_of(&r);
            strcpy(last, line);
        }
        printf("%.9g\n", burst(&r, repeats));
        fflush(stdout);
    }
    return 0;
}

static void list(void) {
    char text[TEXT], words[TEXT];
    for (int i = 0; i < CASES; i++) {
        const problem p = case_at(i);
        write_case(text, &p);
        write_words(words, &p);
        printf("%s\t%s\n", text, words);
    }
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

static bench_figure measure(const problem *p, double seconds_each) {
    static double seconds[MAX_ROUNDS];
    (void)amp_scope_enter();
    const recorded r = record(p);
    const int repeats = repeats_of(&r);
    const double end = bench_wall() + seconds_each;
    int rounds = 0;
    while (rounds < MAX_ROUNDS && (rounds < 3 || bench_wall() < end)) seconds[rounds++] = burst(&r, repeats);
    (void)amp_scope_exit();
    return bench_figure_of(seconds, rounds);
}

/* Of input, gradient, and its gradient; 0 where they are not what bounds it. */
static double moved_bytes(const problem *p) {
    const double elements = (double)(p->n[0] * p->n[1] * p->n[2] * p->n[3]);
    return p->kind->inputs == 1 ? 3.0 * elements * (double)amp_dtype_size(p->dtype) : 0.0;
}

static void print_case(const problem *p, bench_figure f, FILE *json, bool first) {
    char text[TEXT], words[TEXT];
    const double rate = 1e-9 * moved_bytes(p) / f.median;
    write_case(text, p);
    write_words(words, p);
    printf("%10.1f ", 1e6 * f.median);
    if (rate > 0)
        printf("%8.1f", rate);
    else
        printf("%8s", "");
    printf("  %-5s %s\n", amp_dtype_name(p->dtype), words);
    fflush(stdout);
    if (json)
        fprintf(json,
                "%s\n {\"case\": \"%s\", \"words\": \"%s\", \"dtype\": \"%s\", \"us\": %.3f, \"low_us\": %.3f, "
                "\"high_us\": %.3f, \"gb_per_s\": %.2f}",
                first ? "" : ",", text, words, amp_dtype_name(p->dtype), 1e6 * f.median, 1e6 * f.low, 1e6 * f.high,
                rate);
}

static void print_table(double seconds, const char *path) {
    FILE *json = path ? bench_open(path, "w") : NULL;
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(json, ", \"threads\": 1, \"rows\": [");
    }
    printf("%10s %8s  backward of\n", "us", "GB/s");
    for (int i = 0; i < CASES; i++) {
        const problem p = case_at(i);
        print_case(&p, measure(&p, seconds), json, i == 0);
    }
    if (!json) return;
    fprintf(json, "\n]}\n");
    fclose(json);
}

static int usage(void) {
    fprintf(stderr, "usage: bench_gradients [--seconds S] [--json FILE] | --list | --serve\n");
    return 2;
}

int main(int argc, char **argv) {
    double seconds = 1.0;
    const char *json = NULL;
    bench_clock = CLOCK_THREAD_CPUTIME_ID;
    amp_set_num_threads(1);
    if (argc == 2 && !strcmp(argv[1], "--serve")) return serve();
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        list();
        return 0;
    }
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage();
        if (!strcmp(argv[i], "--seconds"))
            seconds = strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--json"))
            json = argv[i + 1];
        else
            return usage();
    }
    print_table(seconds, json);
    return 0;
}
