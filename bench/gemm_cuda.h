/* amp_linear on a GPU, for bench_gemm --device cuda.
 *
 * First in regions of f16 and bf16 with the cast of the weight cached, and without a region in f32, exact and in TF32,
 * of an f32 input: calls are enqueued many at a time and waited for once, by the host's clock; "enqueue" is the host's
 * share of a call.
 *
 * Then f16 beside cuBLASLt called directly (gemm_cublaslt.h): amp_linear of an f16 input, an f32 weight and bias
 * whose casts are cached, in a region, and the same product of f16 copies by the fastest of the algorithms that
 * cuBLASLt's heuristic names, and by the first of them. The three take turns on one stream, by the device's clock
 * (bench_cuda.h). A ratio is the median of cuBLASLt's time over ours within a round. */
#ifndef AMP_BENCH_GEMM_CUDA_H
#define AMP_BENCH_GEMM_CUDA_H

#include <math.h>

#include "amp/cuda.h"
#include "bench_common.h"
#include "gemm_cublaslt.h"

typedef struct cuda_candidate {
    const char *name;
    amp_dtype dtype; /* of the region; AMP_DTYPE_NONE: none */
    bool tf32;
} cuda_candidate;

static const cuda_candidate cuda_candidates[] = {{"call f16", AMP_F16, false},
                                                 {"call bf16", AMP_BF16, false},
                                                 {"call f32", AMP_DTYPE_NONE, false},
                                                 {"call tf32", AMP_DTYPE_NONE, true}};
enum {
    CUDA_CANDIDATES = sizeof cuda_candidates / sizeof *cuda_candidates,
    CUDA_ROUNDS = 200,
    CUDA_LEAST_ROUNDS = 5,
    CUDA_QUEUED = 20,
    CUDA_MOST_SHAPES = 1024
};

typedef struct cuda_times {
    double call, enqueue; /* seconds */
} cuda_times;

typedef struct cuda_shape {
    int64_t m, n, k;
    const char *list;
} cuda_shape;

/* ---- Calls, by the host's clock --------------------------------------------------------------------------------- */

static void enqueue_linear(amp_tensor *x, amp_tensor *w) {
    for (int i = 0; i < CUDA_QUEUED; i++) {
        amp_tensor *y = amp_linear(x, w);
        bench_require(y != NULL, "linear");
        amp_release(y);
    }
}

static cuda_times time_linear(const cuda_candidate *c, amp_tensor *x, amp_tensor *w) {
    amp_cuda_matmul_set_allow_tf32(c->tf32);
    bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
    const double start = bench_wall();
    if (c->dtype == AMP_DTYPE_NONE) {
        enqueue_linear(x, w);
    } else {
        amp_autocast(AMP_DEVICE_CUDA, .dtype = c->dtype) {
            enqueue_linear(x, w);
        }
    }
    const double enqueued = bench_wall() - start;
    bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
    return (cuda_times){(bench_wall() - start) / CUDA_QUEUED, enqueued / CUDA_QUEUED};
}

static void print_calls(FILE *json, const cuda_shape *s, const cuda_candidate *c, const double *calls,
                        const double *enqueues, int rounds, bool first) {
    const bench_figure t = bench_figure_of(calls, rounds);
    const double host = bench_median(enqueues, rounds), flop = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    printf("  %-12s %11.2f µs ±%4.1f %% %9.2f TFLOP/s, enqueue %7.2f µs\n", c->name, t.median * 1e6,
           50 * (t.high - t.low) / t.median, flop / t.median * 1e-12, host * 1e6);
    if (json)
        fprintf(json,
                "%s\n {\"name\": \"%s\", \"us\": %.3f, \"low_us\": %.3f, \"high_us\": %.3f, \"tflops\": %.4f, "
                "\"enqueue_us\": %.3f}",
                first ? "" : ",", c->name, t.median * 1e6, t.low * 1e6, t.high * 1e6, flop / t.median * 1e-12,
                host * 1e6);
}

/* One after the other, round by round, forwards and then backwards; those whose name `only` has, or all. */
static void bench_calls(FILE *json, const cuda_shape *s, amp_tensor *x, amp_tensor *w, const char *only,
                        double seconds) {
    static double calls[CUDA_CANDIDATES][CUDA_ROUNDS], enqueues[CUDA_CANDIDATES][CUDA_ROUNDS];
    const cuda_candidate *list[CUDA_CANDIDATES];
    int count = 0, rounds = 0;
    for (int i = 0; i < CUDA_CANDIDATES; i++)
        if (bench_is_named(cuda_candidates[i].name, only)) list[count++] = &cuda_candidates[i];
    for (int i = 0; i < count; i++) (void)time_linear(list[i], x, w);
    const double end = count ? bench_wall() + seconds : 0;
    for (; rounds < CUDA_ROUNDS && (rounds < CUDA_LEAST_ROUNDS || bench_wall() < end); rounds++) {
        for (int i = 0; i < count; i++) {
            const int c = rounds % 2 ? count - 1 - i : i;
            const cuda_times t = time_linear(list[c], x, w);
            calls[c][rounds] = t.call;
            enqueues[c][rounds] = t.enqueue;
        }
    }
    if (json) fprintf(json, "\"rounds\": %d, \"results\": [", rounds);
    for (int i = 0; i < count; i++) print_calls(json, s, list[i], calls[i], enqueues[i], rounds, i == 0);
    if (json) fprintf(json, "]");
}

/* ---- Beside cuBLASLt, by the device's clock --------------------------------------------------------------------- */
#ifdef AMP_BENCH_CUDA

/* Ratios of all shapes so far: of the fastest algorithm's time and of the first one's over ours. */
static struct {
    cuda_shape shape;
    double over_best, over_first;
} compared[CUDA_MOST_SHAPES];
static int compared_count, different_count; /* different: shapes whose results are not the same */

typedef struct linear_problem {
    amp_tensor *x, *w, *bias; /* f16, f32, f32 */
    amp_tensor *halves[3];    /* x, weight, bias and result of the peer; f16 */
    amp_tensor *y;
    cublaslt_product peer;
} linear_problem;

static amp_tensor *half_of(amp_tensor *t) {
    amp_tensor *half = amp_to(t, AMP_F16);
    bench_require(half != NULL, "a tensor of f16");
    return half;
}

static void run_linear_f16(void *context) {
    const linear_problem *p = context;
    amp_autocast(AMP_DEVICE_CUDA) {
        amp_tensor *y = amp_linear(p->x, p->w, p->bias);
        bench_require(y != NULL, "linear");
        amp_release(y);
    }
}

static double greatest_on_host(amp_tensor *t) {
    return amp_item(amp_to_device(amp_max(amp_abs(t)), AMP_DEVICE_CPU));
}

/* Both results may round differently, no more. */
static bool is_same_result(linear_problem *p) {
    double apart = 0, most = 0;
    amp_scope {
        amp_tensor *ours = NULL;
        amp_autocast(AMP_DEVICE_CUDA) {
            ours = amp_linear(p->x, p->w, p->bias);
        }
        bench_require(ours != NULL, "linear");
        run_cublaslt(&p->peer);
        apart = greatest_on_host(amp_sub(ours, p->y));
        most = greatest_on_host(ours);
        bench_require(amp_last_status() == AMP_OK, "comparing results");
    }
    return most > 0 && apart <= 0.01 * most;
}

static linear_problem make_linear(const cuda_shape *s, amp_tensor *x, amp_tensor *w) {
    linear_problem p = {.w = w, .bias = bench_parameter(AMP_DEVICE_CUDA, 1.0f, AMP_DIMS(s->n))};
    p.x = p.halves[0] = half_of(x);
    p.halves[1] = half_of(w);
    p.halves[2] = half_of(p.bias);
    p.y = amp_empty(AMP_DIMS(s->m, s->n), .dtype = AMP_F16, .device = AMP_DEVICE_CUDA);
    bench_require(p.y != NULL, "a result");
    p.peer = (cublaslt_product){.x = gpu_address(p.halves[0]),
                                .w = gpu_address(p.halves[1]),
                                .bias = gpu_address(p.halves[2]),
                                .y = gpu_address(p.y)};
    describe_cublaslt(&p.peer, s->m, s->n, s->k);
    ask_cublaslt(&p.peer);
    return p;
}

enum { LINEAR_OURS, LINEAR_BEST, LINEAR_FIRST, LINEAR_SIDES };

static double time_side(linear_problem *p, int side, int best, int calls) {
    if (side == LINEAR_OURS) return gpu_time(run_linear_f16, p, calls);
    p->peer.chosen = side == LINEAR_BEST ? best : 0;
    return gpu_time(run_cublaslt, &p->peer, calls);
}

static void print_compared(FILE *json, const linear_problem *p, int best, double (*times)[CUDA_ROUNDS], int rounds) {
    static const char *const names[] = {"linear f16", "cuBLASLt", "its first"};
    const double over_best = compared[compared_count].over_best, over_first = compared[compared_count].over_first;
    for (int i = 0; i < LINEAR_SIDES; i++) {
        const bench_figure t = bench_figure_of(times[i], rounds);
        printf("  %-12s %11.2f µs ±%4.1f %%", names[i], t.median * 1e6, 50 * (t.high - t.low) / t.median);
        if (i == LINEAR_BEST) printf("  %.3f× (number %d of %d)", over_best, best + 1, p->peer.count);
        if (i == LINEAR_FIRST) printf("  %.3f×", over_first);
        printf("\n");
    }
    if (json)
        fprintf(json,
                ", \"cublaslt\": {\"algorithms\": %d, \"best\": %d, \"rounds\": %d, \"us\": %.3f, \"best_us\": %.3f, "
                "\"first_us\": %.3f, \"over_best\": %.4f, \"over_first\": %.4f}",
                p->peer.count, best, rounds, bench_median(times[0], rounds) * 1e6, bench_median(times[1], rounds) * 1e6,
                bench_median(times[2], rounds) * 1e6, over_best, over_first);
}

static void compare_linear(FILE *json, linear_problem *p, double seconds) {
    static double times[LINEAR_SIDES][CUDA_ROUNDS], over[LINEAR_SIDES][CUDA_ROUNDS];
    int rounds = 0;
    const int calls = gpu_calls(run_linear_f16, p), best = fastest_cublaslt(&p->peer, calls);
    const double end = bench_wall() + seconds;
    for (; rounds < CUDA_ROUNDS && (rounds < CUDA_LEAST_ROUNDS || bench_wall() < end); rounds++) {
        for (int i = 0; i < LINEAR_SIDES; i++) {
            const int side = rounds % 2 ? LINEAR_SIDES - 1 - i : i;
            times[side][rounds] = time_side(p, side, best, calls);
        }
        for (int i = 0; i < LINEAR_SIDES; i++) over[i][rounds] = times[i][rounds] / times[LINEAR_OURS][rounds];
    }
    compared[compared_count].over_best = bench_median(over[LINEAR_BEST], rounds);
    compared[compared_count].over_first = bench_median(over[LINEAR_FIRST], rounds);
    print_compared(json, p, best, times, rounds);
}

static void bench_beside_cublaslt(FILE *json, const cuda_shape *s, amp_tensor *x, amp_tensor *w, double seconds) {
    if (*cublaslt.missing || compared_count == CUDA_MOST_SHAPES) return;
    amp_scope {
        linear_problem p = make_linear(s, x, w);
        compared[compared_count].shape = *s;
        if (p.peer.count == 0) {
            printf("  cuBLASLt has no algorithm\n");
        } else if (!is_same_result(&p)) {
            printf("  cuBLASLt has ANOTHER RESULT than linear\n");
            different_count++;
        } else {
            compare_linear(json, &p, seconds);
            compared_count++;
        }
        bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
        free_cublaslt(&p.peer);
    }
}

/* Of the shapes of one list, or (NULL) of all. */
static double mean_ratio(const char *list, bool first, int *count) {
    double sum = 0;
    *count = 0;
    for (int i = 0; i < compared_count; i++) {
        if (list && strcmp(compared[i].shape.list, list) != 0) continue;
        sum += log(first ? compared[i].over_first : compared[i].over_best);
        ++*count;
    }
    return exp(sum / *count);
}

static void print_mean(FILE *json, const char *name, const char *list, const char *separator) {
    int count;
    const double best = mean_ratio(list, false, &count), first = mean_ratio(list, true, &count);
    if (count == 0) return;
    printf("cuBLASLt's time over linear's, f16, %-12s %3d shapes: %.3f its fastest algorithm, %.3f its first\n", name,
           count, best, first);
    if (json)
        fprintf(json, "%s\"%s\": {\"shapes\": %d, \"over_best\": %.4f, \"over_first\": %.4f}", separator, name, count,
                best, first);
}

/* Geometric means: of all shapes, and of each list. */
static void print_compared_all(FILE *json) {
    printf("\n");
    if (json) fprintf(json, "\"means\": {");
    print_mean(json, "all", NULL, "");
    for (int i = 0; i < compared_count; i++) {
        int j = 0;
        while (strcmp(compared[j].shape.list, compared[i].shape.list) != 0) j++;
        if (j == i) print_mean(json, compared[i].shape.list, compared[i].shape.list, ", ");
    }
    if (json) {
        fprintf(json, "}, ");
        gpu_print(json);
        if (*cublaslt.missing) fprintf(json, ", \"cublaslt_missing\": \"%s\"", cublaslt.missing);
    }
    if (*cublaslt.missing) printf("no cuBLASLt beside it: %s\n", cublaslt.missing);
    if (gpu.late > 0) printf("in %d of %d turns the device did not wait for the host\n", gpu.late, gpu.turns);
}

#endif

/* ---- Both ------------------------------------------------------------------------------------------------------- */

static void cuda_begin(void) {
#ifdef AMP_BENCH_CUDA
    gpu_open();
    open_cublaslt();
#endif
}

/* Ends with members of the JSON object. False: results were wrong. */
static bool cuda_end(FILE *json) {
#ifdef AMP_BENCH_CUDA
    print_compared_all(json);
    close_cublaslt();
    gpu_close();
    return different_count == 0;
#else
    if (json) fprintf(json, "\"means\": {}");
    return true;
#endif
}

static void bench_cuda_shape(FILE *json, const cuda_shape *s, const char *only, double seconds, bool first) {
    amp_tensor *x = bench_parameter(AMP_DEVICE_CUDA, 1.0f, AMP_DIMS(s->m, s->k)),
               *w = bench_parameter(AMP_DEVICE_CUDA, 1.0f, AMP_DIMS(s->n, s->k));
    printf("\n%lld × %lld × %lld (M × N × K)\n", (long long)s->m, (long long)s->n, (long long)s->k);
    if (json)
        fprintf(json, "%s\n{\"list\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, ", first ? "" : ",", s->list,
                (long long)s->m, (long long)s->n, (long long)s->k);
    bench_calls(json, s, x, w, only, seconds);
#ifdef AMP_BENCH_CUDA
    if (bench_is_named("linear f16", only)) bench_beside_cublaslt(json, s, x, w, seconds);
#endif
    if (json) fprintf(json, "}");
    fflush(stdout);
    amp_release(x);
    amp_release(w);
}

#endif /* AMP_BENCH_GEMM_CUDA_H */
