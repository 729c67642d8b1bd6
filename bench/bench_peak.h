/* What this machine's cores do at best, timed beside what a bench measures. */
#ifndef AMP_BENCH_PEAK_H
#define AMP_BENCH_PEAK_H

#include "bench_common.h"
#include "machine/peak.h"

enum { BENCH_PEAK_ROUNDS = 1 << 13 };

/* Floating point operations a second of `threads` threads that do nothing but this; 0: the CPU does not have it. */
static inline double bench_peak_rate(amp_probe probe, int threads) {
    double work = 0.0;
    const double start = bench_now();
#pragma omp parallel num_threads(threads) reduction(+ : work) if (threads > 1)
    work += amp_probe_work(probe, BENCH_PEAK_ROUNDS);
    return work / (bench_now() - start);
}

/* The unit that is fastest for products of bf16, or of f32. */
static inline amp_probe bench_best_unit(bool bf16) {
    amp_probe best = AMP_PROBE_FMA_AVX2;
    double most = 0.0;
    for (int i = 0; i < (bf16 ? AMP_PROBE_COUNT : AMP_PROBE_FMA_AVX512 + 1); i++) {
        (void)bench_peak_rate((amp_probe)i, 1); /* clocks rise */
        const double rate = bench_peak_rate((amp_probe)i, 1);
        if (rate <= most) continue;
        most = rate;
        best = (amp_probe)i;
    }
    return best;
}

#endif /* AMP_BENCH_PEAK_H */
