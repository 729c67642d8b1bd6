/* The allocator: what a tensor's memory costs by size, and how much is held where shapes change at every pass.
 *
 *     bench_allocator [PASSES] */
#define BENCH_NAME "bench_allocator"
#include "bench_common.h"

enum { ROUNDS = 21, PAIRS = 20000, LAYERS = 3, WIDTH = 768, HEADS = 12, TOKENS = 512, TEXTS = 8 };

static size_t needed, held; /* most bytes in use, and most that were in use or kept */

static amp_tensor *make(int64_t rows, int64_t columns) {
    amp_tensor *t = amp_empty(AMP_DIMS(rows, columns));
    bench_require(t != NULL, "amp_empty");
    return t;
}

static void note(void) {
    const amp_memory_stats s = amp_memory_statistics();
    if (s.live_bytes > needed) needed = s.live_bytes;
    if (s.live_bytes + s.cached_bytes > held) held = s.live_bytes + s.cached_bytes;
}

/* Least time of a tensor made and released, in ns. */
static double pair(int64_t bytes) {
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = bench_now();
        for (int i = 0; i < PAIRS; i++) amp_release(make(1, bytes / 4));
        const double time = (bench_now() - start) / PAIRS;
        if (time < best) best = time;
    }
    return best * 1e9;
}

/* What the layer of an encoder makes without fusion: q, k, v, scores, weights, … */
static void layer(int64_t texts, int64_t tokens) {
    const int64_t rows = texts * tokens;
    amp_scope {
        for (int i = 0; i < 6; i++) make(rows, WIDTH);
        for (int i = 0; i < 2; i++) make(texts * HEADS * tokens, tokens);
        for (int i = 0; i < 2; i++) make(rows, 4 * WIDTH);
        for (int i = 0; i < 2; i++) make(rows, WIDTH);
        note();
    }
}

static void change_shapes(int passes) {
    const size_t before = amp_memory_statistics().system_allocations;
    const double start = bench_now();
    srand(1);
    for (int i = 0; i < passes; i++) {
        const int64_t tokens = 1 + rand() % TOKENS, texts = 1 + rand() % TEXTS;
        amp_scope {
            make(texts * tokens, WIDTH);
            for (int l = 0; l < LAYERS; l++) layer(texts, tokens);
        }
    }
    printf("\n%d passes of %d encoder layers over 1 to %d texts of 1 to %d tokens, of memory alone:\n"
           "needed %.0f MB, held %.0f MB; %.1f us a pass; %zu allocations from the system\n",
           passes, LAYERS, TEXTS, TOKENS, (double)needed / (1 << 20), (double)held / (1 << 20),
           (bench_now() - start) / passes * 1e6, amp_memory_statistics().system_allocations - before);
}

int main(int argc, char **argv) {
    static const int64_t sizes[] = {64, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 16 << 20};
    const int passes = argc > 1 ? atoi(argv[1]) : 3000;
    printf("%-10s %s\n", "bytes", "ns, made and released");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        printf("%-10lld %.1f\n", (long long)sizes[i], pair(sizes[i]));
    }
    change_shapes(passes < 1 ? 1 : passes);
    return 0;
}
