/* What an eager op costs the host on a GPU, under autocast, for bench_dispatch --device cuda.
 *
 *     add      amp_add of two 64 × 64 tensors of f16
 *     relu     amp_relu of one
 *     linear   amp_linear of one, with an f32 weight 64 × 64 and bias, whose casts are cached
 *
 * in a region of f16, results released within. "host" is the time until a batch of calls is enqueued: kernels of
 * this size are over before the next call comes, so the queue never fills; "waited" has the wait for the device at
 * the end of the batch in it. */
#ifndef AMP_BENCH_DISPATCH_CUDA_H
#define AMP_BENCH_DISPATCH_CUDA_H

#include "amp/cuda.h"
#include "bench_cuda.h"

enum { CUDA_CALLS = 200, CUDA_WIDTH = 64, CUDA_CASES = 3 };

typedef struct cuda_operands {
    amp_tensor *a, *b, *w, *bias;
} cuda_operands;

static amp_tensor *cuda_add(const cuda_operands *o) {
    return amp_add(o->a, o->b);
}
static amp_tensor *cuda_relu(const cuda_operands *o) {
    return amp_relu(o->a);
}
static amp_tensor *cuda_linear(const cuda_operands *o) {
    return amp_linear(o->a, o->w, o->bias);
}

typedef struct cuda_case {
    const char *name;
    amp_tensor *(*run)(const cuda_operands *o);
    double host[MAX_ROUNDS], waited[MAX_ROUNDS]; /* nanoseconds per call */
} cuda_case;

static cuda_case cuda_cases[CUDA_CASES] = {
    {.name = "add", .run = cuda_add}, {.name = "relu", .run = cuda_relu}, {.name = "linear", .run = cuda_linear}};

static void time_cuda_case(cuda_case *c, const cuda_operands *o, int round) {
    bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
    const double start = bench_now();
    amp_autocast(AMP_DEVICE_CUDA) {
        for (int i = 0; i < CUDA_CALLS; i++) amp_release(c->run(o));
    }
    const double enqueued = bench_now() - start;
    bench_require(amp_cuda_synchronize() == AMP_OK, c->name);
    if (round < 0) return; /* it warms up */
    c->host[round] = enqueued / CUDA_CALLS * 1e9;
    c->waited[round] = (bench_now() - start) / CUDA_CALLS * 1e9;
}

static void print_cuda_table(int rounds) {
    printf("libamp %s on cuda beside %s, autocast f16, median of %d rounds of %d calls, ns a "
           "call\n%-10s%10s%10s%10s%10s\n",
           amp_version_string(), amp_cpu()->model, rounds, CUDA_CALLS, "", "host", "10 %", "90 %", "waited");
    for (int i = 0; i < CUDA_CASES; i++) {
        const bench_figure host = bench_figure_of(cuda_cases[i].host, rounds);
        printf("%-10s%10.0f%10.0f%10.0f%10.0f\n", cuda_cases[i].name, host.median, host.low, host.high,
               bench_median(cuda_cases[i].waited, rounds));
    }
}

static void print_cuda_json(FILE *json, int rounds) {
    fprintf(json, "{");
    bench_print_machine(json);
#ifdef AMP_BENCH_CUDA
    fprintf(json, ", ");
    gpu_print(json);
#endif
    fprintf(json, ", \"device\": \"cuda\", \"rounds\": %d, \"calls\": %d, \"nanoseconds\": {", rounds, CUDA_CALLS);
    for (int i = 0; i < CUDA_CASES; i++) {
        const bench_figure host = bench_figure_of(cuda_cases[i].host, rounds);
        fprintf(json, "%s\"%s\": {\"host\": %.1f, \"low\": %.1f, \"high\": %.1f, \"waited\": %.1f}", i ? ", " : "",
                cuda_cases[i].name, host.median, host.low, host.high, bench_median(cuda_cases[i].waited, rounds));
    }
    fprintf(json, "}}\n");
}

/* A bench of its own. JSON goes to a file, beside the table, or to the standard output in its place. */
static int bench_cuda(bool json, const char *path, int rounds) {
    amp_scope {
#ifdef AMP_BENCH_CUDA
        gpu_open(); /* which GPU it is; the calls are timed on libamp's own stream, as it is without a caller's */
        gpu_close();
#endif
        const amp_dims square = AMP_DIMS(CUDA_WIDTH, CUDA_WIDTH);
        const cuda_operands o = {.a = bench_tensor_on(AMP_DEVICE_CUDA, AMP_F16, 1.0f, square),
                                 .b = bench_tensor_on(AMP_DEVICE_CUDA, AMP_F16, 1.0f, square),
                                 .w = bench_parameter(AMP_DEVICE_CUDA, 1.0f, square),
                                 .bias = bench_parameter(AMP_DEVICE_CUDA, 1.0f, AMP_DIMS(CUDA_WIDTH))};
        for (int round = -3; round < rounds; round++)
            for (int i = 0; i < CUDA_CASES; i++) time_cuda_case(&cuda_cases[i], &o, round);
        bench_require(amp_last_status() == AMP_OK, "a case");
        if (!json) print_cuda_table(rounds);
        FILE *file = path ? bench_open(path, "w") : json ? stdout : NULL;
        if (file) print_cuda_json(file, rounds);
        if (path) fclose(file);
    }
    return 0;
}

#endif /* AMP_BENCH_DISPATCH_CUDA_H */
