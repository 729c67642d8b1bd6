/* An op on a GPU, for bench_conv and bench_attention with --device cuda: in regions of f16 and bf16 and, without one,
 * in f32, in turns. Calls are enqueued many at a time and waited for once. */
#ifndef AMP_BENCH_OP_CUDA_H
#define AMP_BENCH_OP_CUDA_H

#include "amp/cuda.h"
#include "bench_common.h"

enum { OP_CUDA_TYPES = 3, OP_CUDA_ROUNDS = 200, OP_CUDA_LEAST_ROUNDS = 5, OP_CUDA_QUEUED = 10 };

static const amp_dtype op_cuda_types[OP_CUDA_TYPES] = {AMP_F16, AMP_BF16, AMP_F32};

static double time_op_cuda(int type, void (*run)(void *context, int type), void *context, int queued) {
    const amp_dtype dtype = op_cuda_types[type];
    bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
    const double start = bench_wall();
    amp_autocast(AMP_DEVICE_CUDA, .dtype = dtype == AMP_F32 ? AMP_DTYPE_NONE : dtype,
                 .enabled = AMP_SET(dtype != AMP_F32)) {
        for (int i = 0; i < queued; i++) run(context, type);
    }
    bench_require(amp_cuda_synchronize() == AMP_OK, "the device");
    return (bench_wall() - start) / queued;
}

/* Times of `run`, which makes one call on inputs of a type and releases its result; ends the line with a figure for
 * each, and writes JSON members. */
static void bench_op_cuda(FILE *json, void (*run)(void *context, int type), void *context, double operations,
                          double seconds) {
    static double times[OP_CUDA_TYPES][OP_CUDA_ROUNDS];
    int rounds = 0;
    for (int t = 0; t < OP_CUDA_TYPES; t++) (void)time_op_cuda(t, run, context, 1);
    const double end = bench_wall() + seconds;
    for (; rounds < OP_CUDA_ROUNDS && (rounds < OP_CUDA_LEAST_ROUNDS || bench_wall() < end); rounds++)
        for (int t = 0; t < OP_CUDA_TYPES; t++) times[t][rounds] = time_op_cuda(t, run, context, OP_CUDA_QUEUED);
    for (int t = 0; t < OP_CUDA_TYPES; t++) {
        const bench_figure f = bench_figure_of(times[t], rounds);
        const char *name = amp_dtype_name(op_cuda_types[t]);
        const double rate = operations / f.median * 1e-12;
        printf("  %s %10.2f µs %7.2f TFLOP/s", name, f.median * 1e6, rate);
        if (json)
            fprintf(json, ", \"%s\": {\"us\": %.3f, \"low_us\": %.3f, \"high_us\": %.3f, \"tflops\": %.4f}", name,
                    f.median * 1e6, f.low * 1e6, f.high * 1e6, rate);
    }
    printf("\n");
    fflush(stdout);
}

#endif /* AMP_BENCH_OP_CUDA_H */
