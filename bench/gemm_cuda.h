/* amp_linear on a GPU, for bench_gemm --device cuda: in regions of f16 and bf16 with the cast of the weight cached, and
 * without a region in f32, exact and in TF32. Calls are enqueued many at a time and waited for once; "enqueue" is the host's
 * share of a call. cuBLASLt called directly is not here. */
#ifndef AMP_BENCH_GEMM_CUDA_H
#define AMP_BENCH_GEMM_CUDA_H

#include "bench_common.h"

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
    CUDA_QUEUED = 20
};

typedef struct cuda_times {
    double call, enqueue; /* seconds */
} cuda_times;

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

static amp_tensor *cuda_operand(int64_t rows, int64_t columns) {
    amp_tensor *host = amp_empty(AMP_DIMS(rows, columns), AMP_F32);
    bench_require(host != NULL, "a tensor");
    bench_fill(amp_data_mut(host), rows * columns);
    amp_tensor *t = amp_to_device(host, AMP_DEVICE_CUDA);
    bench_require(t != NULL && amp_tensor_mark_parameter(t) == AMP_OK, "a tensor on the device");
    amp_release(host);
    return t;
}

/* One after the other, round by round, forwards and then backwards. */
static void bench_cuda_shape(FILE *json, int64_t m, int64_t n, int64_t k, const char *list, double seconds,
                             bool first) {
    static double calls[CUDA_CANDIDATES][CUDA_ROUNDS], enqueues[CUDA_CANDIDATES][CUDA_ROUNDS];
    amp_tensor *x = cuda_operand(m, k), *w = cuda_operand(n, k);
    int rounds = 0;
    for (int i = 0; i < CUDA_CANDIDATES; i++) (void)time_linear(&cuda_candidates[i], x, w);
    const double end = bench_wall() + seconds;
    for (; rounds < CUDA_ROUNDS && (rounds < CUDA_LEAST_ROUNDS || bench_wall() < end); rounds++) {
        for (int i = 0; i < CUDA_CANDIDATES; i++) {
            const int c = rounds % 2 ? CUDA_CANDIDATES - 1 - i : i;
            const cuda_times t = time_linear(&cuda_candidates[c], x, w);
            calls[c][rounds] = t.call;
            enqueues[c][rounds] = t.enqueue;
        }
    }
    printf("\n%lld × %lld × %lld (M × N × K), %d rounds\n", (long long)m, (long long)n, (long long)k, rounds);
    if (json) {
        fprintf(json, "%s\n{\"list\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"rounds\": %d, \"results\": [",
                first ? "" : ",", list, (long long)m, (long long)n, (long long)k, rounds);
    }
    for (int i = 0; i < CUDA_CANDIDATES; i++) {
        const bench_figure t = bench_figure_of(calls[i], rounds);
        const double host = bench_median(enqueues[i], rounds);
        const double flop = 2.0 * (double)m * (double)n * (double)k;
        printf("  %-12s %11.2f µs ±%4.1f %% %9.2f TFLOP/s, enqueue %7.2f µs\n", cuda_candidates[i].name, t.median * 1e6,
               50 * (t.high - t.low) / t.median, flop / t.median * 1e-12, host * 1e6);
        if (!json) continue;
        fprintf(json,
                "%s\n {\"name\": \"%s\", \"us\": %.3f, \"low_us\": %.3f, \"high_us\": %.3f, \"tflops\": %.4f, "
                "\"enqueue_us\": %.3f}",
                i ? "," : "", cuda_candidates[i].name, t.median * 1e6, t.low * 1e6, t.high * 1e6,
                flop / t.median * 1e-12, host * 1e6);
    }
    if (json) fprintf(json, "]}");
    fflush(stdout);
    amp_release(x);
    amp_release(w);
}

#endif /* AMP_BENCH_GEMM_CUDA_H */
