/* softmax, log_softmax and logsumexp over a dimension that is not the last, and max_pool2d: ns per element of the
 * input, medians of rounds in which all take turns. On the CPU.
 *
 *     bench_columns [--rounds N] [--threads N] [--clock wall|cpu] [--only TEXT]     one line each: op dtype shape ns */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_columns"
#include "bench_common.h"

enum { MAX_ROUNDS = 101, MAX_SUBJECTS = 64 };

typedef amp_tensor *run_function(amp_tensor *x, int64_t dim);

static amp_tensor *run_softmax(amp_tensor *x, int64_t dim) {
    return amp_softmax(x, dim);
}
static amp_tensor *run_log_softmax(amp_tensor *x, int64_t dim) {
    return amp_log_softmax(x, dim);
}
static amp_tensor *run_logsumexp(amp_tensor *x, int64_t dim) {
    return amp_logsumexp(x, AMP_DIMS(dim));
}
static amp_tensor *run_max_pool2d(amp_tensor *x, int64_t dim) {
    return dim ? amp_max_pool2d(x, AMP_DIMS(2)) : amp_max_pool2d(x, AMP_DIMS(3), AMP_DIMS(2), AMP_DIMS(1));
}

static const struct {
    const char *name;
    run_function *run;
} ops[] = {{"softmax", run_softmax},
           {"log_softmax", run_log_softmax},
           {"logsumexp", run_logsumexp},
           {"max_pool2d", run_max_pool2d},
           {"max_pool2d channels-last", run_max_pool2d}};
enum { ROW_OPS = 3, OPS = sizeof ops / sizeof *ops };

static const struct {
    int64_t shape[4], dim;
} columns[] = {{{2, 1 << 20}, 0}, {{64, 1 << 14}, 0}, {{4096, 256}, 0},   {{1 << 16, 16}, 0}, {{8, 21, 128, 128}, 1},
               {{32, 64, 64}, 1}, {{512, 256, 8}, 1}, {{4096, 64, 3}, 1}, {{1 << 18, 3}, 0}};
/* Pooling: the window is 3 × 3 with stride 2 and padding 1, or 2 × 2. */
static const struct { int64_t shape[4], dim; } planes[] = {{{1, 64, 112, 112}, 0}, {{8, 64, 56, 56}, 1}};

static amp_tensor *random_input(const int64_t *sizes, amp_dtype dtype) {
    amp_dims shape = AMP_DIMS(sizes[0], sizes[1], sizes[2], sizes[3]);
    shape.count = 0;
    while (shape.count < 4 && sizes[shape.count]) shape.count++;
    return bench_tensor(dtype, 4.0f, shape);
}

typedef struct subject {
    char name[96];
    run_function *run;
    amp_tensor *x;
    int64_t dim;
    double seconds[MAX_ROUNDS];
} subject;

static subject subjects[MAX_SUBJECTS];
static int count;

static void add(int op, const int64_t *shape, int64_t dim, amp_dtype dtype, const char *only) {
    char text[64] = "";
    for (int i = 0; i < 4 && shape[i]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? "x" : "", (long long)shape[i]);
    bench_require(count < MAX_SUBJECTS, "the table");
    subject *s = &subjects[count];
    snprintf(s->name, sizeof s->name, "%s %s %s %s %lld", ops[op].name, amp_dtype_name(dtype), text,
             op < ROW_OPS ? "dim" : "window",
             (long long)(op < ROW_OPS ? dim
                         : dim        ? 2
                                      : 3));
    if (only && !strstr(s->name, only)) return;
    s->run = ops[op].run;
    s->dim = dim;
    s->x = random_input(shape, dtype);
    if (op == OPS - 1) s->x = amp_channels_last(s->x);
    count++;
}

static void run_once(subject *s, int round) {
    bench_require(amp_scope_enter() == AMP_OK, "scope");
    const double begin = bench_now();
    bench_require(s->run(s->x, s->dim) != NULL, s->name);
    const double seconds = bench_now() - begin;
    if (round >= 0) s->seconds[round] = seconds;
    bench_require(amp_scope_exit() == AMP_OK, "scope");
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], name)) return argv[i + 1];
    }
    return otherwise;
}

int main(int argc, char **argv) {
    static const amp_dtype dtypes[] = {AMP_F32, AMP_BF16};
    const int rounds = atoi(option(argc, argv, "--rounds", "9"));
    const char *only = option(argc, argv, "--only", NULL);
    bench_require(rounds > 0 && rounds <= MAX_ROUNDS, "--rounds");
    bench_require(amp_set_num_threads(atoi(option(argc, argv, "--threads", "1"))) == AMP_OK, "--threads");
    if (!strcmp(option(argc, argv, "--clock", "wall"), "cpu")) bench_clock = CLOCK_THREAD_CPUTIME_ID;
    bench_require(amp_scope_enter() == AMP_OK, "scope");
    for (int d = 0; d < 2; d++) {
        for (int op = 0; op < ROW_OPS; op++) {
            for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
                add(op, columns[i].shape, columns[i].dim, dtypes[d], only);
        }
        for (int op = ROW_OPS; op < OPS; op++) {
            for (size_t i = 0; i < sizeof planes / sizeof *planes; i++)
                add(op, planes[i].shape, planes[i].dim, dtypes[d], only);
        }
    }
    for (int round = -1; round < rounds; round++) {
        for (int i = 0; i < count; i++) run_once(&subjects[i], round);
    }
    for (int i = 0; i < count; i++) {
        subject *s = &subjects[i];
        qsort(s->seconds, (size_t)rounds, sizeof *s->seconds, bench_ascending);
        printf("%-52s %8.3f\n", s->name,
               1e9 * bench_percentile_sorted(s->seconds, rounds, 0.5) / (double)amp_tensor_numel(s->x));
    }
    return amp_scope_exit() != AMP_OK;
}
