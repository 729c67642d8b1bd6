/* Timing of the probes. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "machine/peak.h"

#include <time.h>

#include "amp/system.h"

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

double amp_probe_work(amp_probe probe, int64_t n) {
    float sink;
    return probes[probe].function && amp_isa_usable(probes[probe].isa) ? probes[probe].function(n, &sink) : 0.0;
}

double amp_probe_read(const void *data, size_t bytes) {
#ifdef AMP_HAVE_AVX512
    if (amp_isa_usable(AMP_ISA_AVX512)) return amp_probe_read_avx512(data, bytes);
#endif
#ifdef AMP_HAVE_AVX2
    if (amp_isa_usable(AMP_ISA_AVX2)) return amp_probe_read_avx2(data, bytes);
#endif
    double sum = 0.0;
    for (size_t i = 0; i < bytes / sizeof(double); i++) sum += ((const double *)data)[i];
    return sum;
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
