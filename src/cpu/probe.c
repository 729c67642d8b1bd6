/* Timing of the probes. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "cpu/probe.h"

#include <stdatomic.h>
#include <time.h>

#include "amp/system.h"
#include "cpu/gemm.h"

static const struct {
    const char *name;
    amp_isa isa;
    amp_probe_function *function;
} probes[AMP_PROBE_COUNT] = {
#ifdef AMP_HAVE_AVX2
    [AMP_PROBE_FMA_AVX2] = {"fma avx2", AMP_ISA_AVX2, amp_probe_fma_avx2},
#endif
#ifdef AMP_HAVE_AVX512
    [AMP_PROBE_FMA_AVX512] = {"fma avx512", AMP_ISA_AVX512, amp_probe_fma_avx512},
#endif
#ifdef AMP_HAVE_AVX512BF16
    [AMP_PROBE_DOT_AVX512BF16] = {"vdpbf16ps", AMP_ISA_AVX512BF16, amp_probe_dot_avx512bf16},
#endif
#ifdef AMP_HAVE_AMX
    [AMP_PROBE_DOT_AMX] = {"tdpbf16ps", AMP_ISA_AMX, amp_probe_dot_amx},
#endif
};

const char *amp_probe_name(amp_probe probe) {
    return probes[probe].name ? probes[probe].name : "not built";
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double amp_probe_rate(amp_probe probe, int rounds, double microseconds) {
    if (!probes[probe].function || !amp_isa_usable(probes[probe].isa)) return 0.0;
    double best = 0.0;
    int64_t n = 64;
    for (int round = 0; round < rounds;) {
        float sink;
        const double start = now(), work = probes[probe].function(n, &sink), seconds = now() - start;
        if (seconds * 1e6 < microseconds * 0.5 && n < (int64_t)1 << 40) {
            n *= 2; /* still finding out how long a round is */
            continue;
        }
        if (work / seconds > best) best = work / seconds;
        round++;
    }
    return best;
}

/* On some CPUs vdpbf16ps runs at half the rate of FMA, on others it does twice the work; nothing but a clock tells.
 * Minima of interleaved runs: the ratio is 2 or 1/2 where it was measured, so noise does not change the answer. */
bool amp_gemm_dot_pays(const void *problem) {
    static _Atomic int answer; /* 0: not asked yet */
    (void)problem;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (!known) {
        double fma = 0.0, dot = 0.0;
        for (int i = 0; i < 4; i++) {
            const double f = amp_probe_rate(AMP_PROBE_FMA_AVX512, 2, 10.0);
            const double d = amp_probe_rate(AMP_PROBE_DOT_AVX512BF16, 2, 10.0);
            if (f > fma) fma = f;
            if (d > dot) dot = d;
        }
        known = dot >= fma ? 1 : -1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known > 0;
}
