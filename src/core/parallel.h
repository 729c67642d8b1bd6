/* Threads: how many a piece of work is worth, and which part of it each takes.
 *
 *     const int threads = amp_parallel_threads(rows * columns, AMP_GRAIN_ELEMENTS);
 *     #pragma omp parallel num_threads(threads) if (threads > 1)
 *     {
 *         const amp_range part = amp_parallel_part(rows, 1, omp_get_thread_num(), omp_get_num_threads());
 *         ...
 *     }
 *
 * `if (threads > 1)` spares small work the cost of a region. The runtime may give fewer threads than asked for, so the
 * number comes from omp_get_num_threads(). A result must not depend on it: parts are for independent outputs. */
#ifndef AMP_CORE_PARALLEL_H
#define AMP_CORE_PARALLEL_H

#include "amp/system.h"

/* Least work of one thread: elements that stream through, with an operation or two each; and multiply-adds. Each is
 * about 10 µs of one core, so that a second thread is worth its waking where it waits actively (2 to 5 µs), and costs
 * little where it sleeps (10 to 15 µs: OMP_WAIT_POLICY=passive). Measured on an AVX2 EPYC of two cores, the best of 400
 * calls in µs: with one thread, with two that are woken, with two that wait actively; the smallest work of two threads
 * is marked.
 *
 *     linear, bf16, [1, 384] x [384, 384]      147 K   7.2  19.3   9.7
 *                   [1, 384] x [1152, 384]     442 K  22.4  34.2  17.6
 *                   [1, 768] x [768, 768]  →   590 K  27.4  38.7  18.1
 *                   [1, 768] x [3072, 768]     2.4 M 143.3 118.9  62.7
 *     add, f32                                  32 K   4.2  17.3
 *                                          →   128 K  21.7  36.1
 *     layer_norm, f32, rows of 1024              8 K   3.8  14.6
 *                                          →    32 K  15.3  26.9
 */
enum { AMP_GRAIN_ELEMENTS = 64 * 1024, AMP_GRAIN_MACS = 256 * 1024 };

/* Threads for `work` units when each should get at least `grain` of them: 1 up to amp_get_num_threads(); 1 within a
 * parallel region. */
int amp_parallel_threads(int64_t work, int64_t grain);

/* Of what the calling thread starts, from now on, none gets more than so many threads; 0: no limit. Returns the limit
 * before, which is to be set again. */
int amp_parallel_limit(int threads);

/* Writes the sentence about an OMP_NUM_THREADS that is too large, unless there is one already. */
void amp_parallel_check(char *sentence, size_t bytes);

/* [begin, end) */
typedef struct amp_range {
    int64_t begin, end;
} amp_range;

/* Part number `thread` of 0 … n - 1, cut at multiples of `unit`, sizes as even as that allows; may be empty. */
static inline amp_range amp_parallel_part(int64_t n, int64_t unit, int thread, int threads) {
    const amp_range all = {0, n};
    if (threads == 1) return all; /* of a small product the divisions would be felt */
    const int64_t units = n / unit + (n % unit != 0), each = units / threads, more = units % threads;
    const int64_t first = thread * each + (thread < more ? thread : more), count = each + (thread < more);
    const amp_range part = {first * unit < n ? first * unit : n,
                            (first + count) * unit < n ? (first + count) * unit : n};
    return part;
}

/* Before and after a call into a library that takes its number of threads from OpenMP (oneDNN, OpenBLAS): the calling
 * thread's setting becomes amp_get_num_threads(), or 1 within a parallel region; the old one is put back. */
int amp_parallel_enter_library(void);
void amp_parallel_leave_library(int previous);

#endif /* AMP_CORE_PARALLEL_H */
