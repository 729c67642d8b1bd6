/* Random ops: ns per element, one thread unless told otherwise, medians of rounds in which all take turns. `mul` by a
 * number, which is as fast as memory, stands beside them.
 *
 *     bench_random [--rounds N] [--elements N] [--threads N] [--clock wall|cpu] */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_random"
#include "bench_common.h"

enum { MAX_ROUNDS = 101 };

static int64_t elements = 1 << 22;
static amp_tensor *x, *x_bf16, *p;

#define SUBJECTS(X)                                                                                                    \
    X("mul f32", amp_mul_scalar(x, amp_float(2)))                                                                      \
    X("rand f32", amp_rand(AMP_DIMS(elements)))                                                                        \
    X("rand bf16", amp_rand(AMP_DIMS(elements), AMP_BF16))                                                             \
    X("rand f64", amp_rand(AMP_DIMS(elements), AMP_F64))                                                               \
    X("randn f32", amp_randn(AMP_DIMS(elements)))                                                                      \
    X("randn bf16", amp_randn(AMP_DIMS(elements), AMP_BF16))                                                           \
    X("randn f64", amp_randn(AMP_DIMS(elements), AMP_F64))                                                             \
    X("randint i64", amp_randint(1000, AMP_DIMS(elements)))                                                            \
    X("bernoulli f32, of a number", amp_bernoulli(x, AMP_SET(0.3)))                                                    \
    X("bernoulli f32, of a tensor", amp_bernoulli(p))                                                                  \
    X("dropout f32", amp_dropout(x))                                                                                   \
    X("dropout bf16", amp_dropout(x_bf16))                                                                             \
    X("randperm i64", amp_randperm(elements))

#define NAME(name, call) name,
static const char *const names[] = {SUBJECTS(NAME)};
enum { COUNT = sizeof names / sizeof *names };
static double seconds[COUNT][MAX_ROUNDS];

static void run_round(int round) {
    int subject = 0;
    double begin;
#define RUN(name, call)                                                                                                \
    bench_require(amp_scope_enter() == AMP_OK, "scope");                                                               \
    begin = bench_now();                                                                                               \
    bench_require((call) != NULL, name);                                                                               \
    seconds[subject++][round] = bench_now() - begin;                                                                   \
    bench_require(amp_scope_exit() == AMP_OK, "scope");
    SUBJECTS(RUN)
}

static const char *text_option(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], name)) return argv[i + 1];
    }
    return otherwise;
}

static int64_t option(int argc, char **argv, const char *name, int64_t otherwise) {
    const char *text = text_option(argc, argv, name, NULL);
    return text ? atoll(text) : otherwise;
}

int main(int argc, char **argv) {
    const int64_t rounds = option(argc, argv, "--rounds", 15);
    elements = option(argc, argv, "--elements", elements);
    const bool known = bench_parse_clock(text_option(argc, argv, "--clock", "wall"));
    if (rounds < 1 || rounds > MAX_ROUNDS || elements < 1 || !known) {
        fprintf(stderr, "usage: bench_random [--rounds 1 … %d] [--elements N] [--threads N] [--clock wall|cpu]\n",
                MAX_ROUNDS);
        return 2;
    }
    bench_require(amp_set_num_threads((int)option(argc, argv, "--threads", 1)) == AMP_OK, "threads");
    bench_require((x = amp_randn(AMP_DIMS(elements))) && (p = amp_rand(AMP_DIMS(elements))), "data");
    bench_require((x_bf16 = amp_to(x, AMP_BF16)) != NULL, "data");
    run_round(0);
    for (int round = 0; round < rounds; round++) run_round(round);
    for (int i = 0; i < COUNT; i++) {
        printf("%-28s %7.2f ns\n", names[i], bench_median(seconds[i], (int)rounds) / (double)elements * 1e9);
    }
    amp_release(x);
    amp_release(x_bf16);
    amp_release(p);
    return 0;
}
