/* Backwards of attention and norms in f32 and bf16, through the tape, on random data.
 *
 *     bench_gradients [--seconds S]
 *     bench_gradients --serve
 *
 * One thread, its CPU time; figures are medians, beside the bytes that a backward of a norm must move: input and gradient read, another
 * written. With --serve, each line "KIND DTYPE N N N N FLAG" on the standard input is answered by the seconds of one backward, the mean
 * of a burst: bench/peers_gradients.py lets it take turns with PyTorch. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_gradients"
#include "bench_common.h"

enum { MAX_ROUNDS = 400, NUMBERS = 4 };

/* attention: batch, heads, rows, depth, and causal; layer_norm, rms_norm: rows, columns; batch_norm, group_norm (32 groups): the shape,
 * and channels last. 16-bit norms have weights in f32. */
typedef struct problem {
    char kind[16], dtype[8];
    long long n[NUMBERS];
    int flag;
} problem;

static const problem problems[] = {
    {"attention", "f32", {8, 12, 128, 64}, 0},     {"attention", "bf16", {8, 12, 128, 64}, 0},
    {"attention", "f32", {32, 12, 64, 32}, 0},     {"attention", "bf16", {32, 12, 64, 32}, 0},
    {"attention", "f32", {1, 12, 1024, 64}, 1},    {"attention", "bf16", {1, 12, 1024, 64}, 1},
    {"layer_norm", "f32", {4096, 768, 1, 1}, 0},   {"layer_norm", "bf16", {4096, 768, 1, 1}, 0},
    {"rms_norm", "f32", {4096, 768, 1, 1}, 0},     {"rms_norm", "bf16", {4096, 768, 1, 1}, 0},
    {"batch_norm", "f32", {8, 64, 112, 112}, 0},   {"batch_norm", "bf16", {8, 64, 112, 112}, 0},
    {"batch_norm", "f32", {8, 64, 112, 112}, 1},   {"batch_norm", "bf16", {8, 64, 112, 112}, 1},
    {"batch_norm", "f32", {8, 256, 56, 56}, 0},    {"batch_norm", "bf16", {8, 256, 56, 56}, 0},
    {"batch_norm", "f32", {8, 256, 56, 56}, 1},    {"batch_norm", "bf16", {8, 256, 56, 56}, 1},
    {"group_norm", "f32", {8, 256, 56, 56}, 0},    {"group_norm", "bf16", {8, 256, 56, 56}, 0},
    {"group_norm", "f32", {8, 256, 56, 56}, 1},    {"group_norm", "bf16", {8, 256, 56, 56}, 1},
    {"softmax", "f32", {12288, 128, 1, 1}, 0},     {"softmax", "bf16", {12288, 128, 1, 1}, 0},
    {"log_softmax", "f32", {128, 30522, 1, 1}, 0}, {"log_softmax", "bf16", {128, 30522, 1, 1}, 0},
    {"gelu", "f32", {1024, 3072, 1, 1}, 0},        {"gelu", "bf16", {1024, 3072, 1, 1}, 0},
};

static void *require(void *p) {
    bench_require(p != NULL, "a call");
    return p;
}

static amp_tensor *random_tensor(const problem *p, const char *dtype, int rank, const int64_t *sizes) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= sizes[d];
    float *x = malloc((size_t)n * sizeof *x);
    if (!x) exit(1);
    for (int64_t i = 0; i < n; i++) x[i] = 2.0f * bench_uniform();
    amp_tensor *t = require(amp_from_data(x, AMP_F32, rank, sizes));
    free(x);
    if (!strcmp(dtype, "bf16")) t = require(amp_to(t, AMP_BF16));
    if (p->flag && rank == 4 && strcmp(p->kind, "attention") != 0)
        t = require(amp_permute(amp_contiguous(amp_permute(t, AMP_DIMS(0, 2, 3, 1))), AMP_DIMS(0, 3, 1, 2)));
    return t;
}

static amp_tensor *leaf(const problem *p, const char *dtype, int rank, const int64_t *sizes) {
    amp_tensor *t = random_tensor(p, dtype, rank, sizes);
    bench_require(amp_tensor_set_requires_grad(t, true) == AMP_OK, "a leaf");
    return t;
}

enum { LEAVES = 3 };

/* The result, recorded, its gradient, and whose gradients are wanted. */
typedef struct recorded {
    amp_tensor *out, *gradient, *leaves[LEAVES];
    int count;
} recorded;

static recorded record_attention(const problem *p) {
    const int64_t sizes[4] = {p->n[0], p->n[1], p->n[2], p->n[3]};
    recorded r = {.count = 3};
    for (int i = 0; i < 3; i++) r.leaves[i] = leaf(p, p->dtype, 4, sizes);
    r.out = amp_scaled_dot_product_attention(r.leaves[0], r.leaves[1], r.leaves[2], .is_causal = p->flag != 0);
    r.gradient = random_tensor(p, p->dtype, 4, sizes);
    return r;
}

static recorded record_rows(const problem *p) {
    const int64_t sizes[2] = {p->n[0], p->n[1]};
    recorded r = {.count = 1, .leaves = {leaf(p, p->dtype, 2, sizes)}};
    amp_tensor *x = r.leaves[0];
    if (!strcmp(p->kind, "softmax")) r.out = amp_softmax(x, -1);
    if (!strcmp(p->kind, "log_softmax")) r.out = amp_log_softmax(x, -1);
    if (!strcmp(p->kind, "gelu")) r.out = amp_gelu(x);
    r.gradient = random_tensor(p, p->dtype, 2, sizes);
    if (r.out) return r;
    for (int i = 0; i < 2; i++) r.leaves[r.count++] = leaf(p, "f32", 1, sizes + 1);
    if (!strcmp(p->kind, "layer_norm"))
        r.out = amp_layer_norm(x, AMP_DIMS(p->n[1]), .weight = r.leaves[1], .bias = r.leaves[2]);
    else
        r.out = amp_rms_norm(x, AMP_DIMS(p->n[1]), .weight = r.leaves[1]);
    r.count = strcmp(p->kind, "rms_norm") ? 3 : 2;
    return r;
}

static recorded record_channels(const problem *p) {
    const int64_t sizes[4] = {p->n[0], p->n[1], p->n[2], p->n[3]};
    recorded r = {.count = 3, .leaves = {leaf(p, p->dtype, 4, sizes)}};
    for (int i = 1; i < 3; i++) r.leaves[i] = leaf(p, "f32", 1, sizes + 1);
    r.gradient = random_tensor(p, p->dtype, 4, sizes);
    if (!strcmp(p->kind, "batch_norm"))
        r.out = amp_batch_norm(r.leaves[0], .weight = r.leaves[1], .bias = r.leaves[2], .training = true);
    else
        r.out = amp_group_norm(r.leaves[0], 32, .weight = r.leaves[1], .bias = r.leaves[2]);
    return r;
}

static recorded record(const problem *p) {
    const bool has_channels = !strcmp(p->kind, "batch_norm") || !strcmp(p->kind, "group_norm");
    const recorded r = !strcmp(p->kind, "attention") ? record_attention(p)
                       : has_channels                ? record_channels(p)
                                                     : record_rows(p);
    require(r.out);
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

static void serve(void) {
    problem now = {0}, next;
    recorded r = {0};
    int repeats = 1;
    while (scanf("%15s %7s %lld %lld %lld %lld %d", next.kind, next.dtype, &next.n[0], &next.n[1], &next.n[2],
                 &next.n[3], &next.flag) == 7) {
        const bool is_new = strcmp(next.kind, now.kind) || strcmp(next.dtype, now.dtype) ||
                            memcmp(next.n, now.n, sizeof now.n) || next.flag != now.flag;
        if (is_new) {
            if (r.out) (void)amp_scope_exit();
            (void)amp_scope_enter();
            r = record(&next);
            repeats = repeats_of(&r);
        }
        now = next;
        printf("%.9g\n", burst(&r, repeats));
        fflush(stdout);
    }
}

static void print_case(const problem *p, double seconds_each) {
    static double seconds[MAX_ROUNDS];
    (void)amp_scope_enter();
    const recorded r = record(p);
    const int repeats = repeats_of(&r);
    const double end = bench_wall() + seconds_each;
    int rounds = 0;
    while (rounds < MAX_ROUNDS && (rounds < 3 || bench_wall() < end)) seconds[rounds++] = burst(&r, repeats);
    const double median = bench_median(seconds, rounds);
    const double bytes = 3.0 * (double)(p->n[0] * p->n[1] * p->n[2] * p->n[3]) * (strcmp(p->dtype, "f32") ? 2 : 4);
    printf("%-12s %-5s %6lld %6lld %5lld %4lld %2d %10.1f", p->kind, p->dtype, p->n[0], p->n[1], p->n[2], p->n[3],
           p->flag, 1e6 * median);
    if (strcmp(p->kind, "attention") != 0) printf(" %8.1f", 1e-9 * bytes / median);
    printf("\n");
    (void)amp_scope_exit();
}

int main(int argc, char **argv) {
    double seconds = 1.0;
    bench_clock = CLOCK_THREAD_CPUTIME_ID;
    amp_set_num_threads(1);
    if (argc == 2 && !strcmp(argv[1], "--serve")) {
        serve();
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "--seconds")) seconds = strtod(argv[2], NULL);
    if (argc != 1 && argc != 3) {
        fprintf(stderr, "usage: bench_gradients [--seconds S] | --serve\n");
        return 2;
    }
    printf("%-12s %-5s %6s %6s %5s %4s %2s %10s %8s\n", "backward of", "", "", "", "", "", "", "µs", "GB/s");
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) print_case(&problems[i], seconds);
    return 0;
}
