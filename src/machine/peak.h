/* What one core can do at best: rates of the instructions that GEMM kernels live on, and of reading memory. */
#ifndef AMP_CPU_PROBE_H
#define AMP_CPU_PROBE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The units of work that can be probed. */
typedef enum amp_probe {
    AMP_PROBE_FMA_AVX2,
    AMP_PROBE_FMA_AVX512,
    AMP_PROBE_DOT_AVX512BF16, /* vdpbf16ps */
    AMP_PROBE_DOT_AMX,        /* tdpbf16ps */
    AMP_PROBE_COUNT
} amp_probe;

const char *amp_probe_name(amp_probe probe);

/* Floating-point operations per second of this thread, best of `rounds` runs of about `microseconds` each; 0 where the
 * machine or the build lacks the instruction. Operands are in registers and change in every run. */
double amp_probe_rate(amp_probe probe, int rounds, double microseconds);

/* Does `n` rounds of the probe's instructions and returns the operations done, or 0: for callers with a clock of their
 * own. */
double amp_probe_work(amp_probe probe, int64_t n);

/* Reads `bytes`, a multiple of 512, from 64-byte aligned memory as fast as this thread can, in so many places at a time
 * as reads fastest here; returns something of what it read. */
double amp_probe_read(const void *data, size_t bytes);

/* What each ISA file provides: `n` rounds of at least eight independent instructions on random-looking operands;
 * returns the operations done, and something to keep the compiler from dropping them in *sink. */
typedef double amp_probe_function(int64_t n, float *sink);
amp_probe_function amp_probe_fma_avx2, amp_probe_fma_avx512, amp_probe_dot_avx512bf16, amp_probe_dot_amx;
double amp_probe_read_avx2(const void *data, size_t bytes);
double amp_probe_read_avx512(const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* AMP_CPU_PROBE_H */
