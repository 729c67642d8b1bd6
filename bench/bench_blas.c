/* Products as BLAS gives them, two f32 matrices in memory, in every way of libamp_blas.so, beside OpenBLAS and MKL.
 *
 *     bench_blas [--seconds S] [--peers DIR] [--shapes M,N,K;…]
 *
 * One thread, CPU time, random data, all in turns; GFLOP/s of the median round, 2·M·N·K counted once however many
 * products a way makes. Everything that a call needs is in it: looking through the operands, packing, splitting.
 * "again" is the same B once more, from the cache: its checksum is in it. "product" is libamp's bf16 product alone, B
 * packed before. OpenBLAS is the one that is linked; MKL is loaded from DIR/lib. */
#define _GNU_SOURCE /* clock_gettime, RTLD_* */
#define BENCH_NAME "bench_blas"
#include <cblas.h>
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>

#include "bench_common.h"
#include "blas/cache.h"
#include "blas/engine.h"
#include "blas/range.h"
#include "core/memory.h"
#include "cpu/registry/gemm.h"

enum { MAX_ROUNDS = 200, LEAST_ROUNDS = 5 };

typedef struct problem {
    int m, n, k;
    float *a, *b, *c;
    void *packed;
    int repeats; /* a small product takes no time that a clock would see */
} problem;

typedef void sgemm_function(const char *, const char *, const int *, const int *, const int *, const float *,
                            const float *, const int *, const float *, const int *, const float *, float *,
                            const int *);
static sgemm_function *mkl_sgemm;

static void run_openblas(const problem *p) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->m, p->n, p->k, 1, p->a, p->k, p->b, p->n, 0, p->c, p->n);
}

static void run_mkl(const problem *p) {
    const float one = 1, zero = 0;
    if (mkl_sgemm) mkl_sgemm("N", "N", &p->n, &p->m, &p->k, &one, p->b, &p->n, p->a, &p->k, &zero, p->c, &p->n);
}

static void run_way(const problem *p, amp_blas_precision precision, bool everything, size_t cache) {
    const amp_blas_product product = {.m = p->m,
                                      .n = p->n,
                                      .k = p->k,
                                      .alpha = 1,
                                      .c = p->c,
                                      .c_row = p->n,
                                      .a = {.data = p->a, .row = p->k, .column = 1},
                                      .b = {.data = p->b, .row = p->n, .column = 1}};
    const amp_blas_request request = {
        .precision = precision, .everything = everything, .threads = 1, .cache_bytes = cache};
    amp_blas_outcome outcome;
    amp_blas_engine_table()->run(&product, 1, &request, &outcome);
    if (!outcome.way) run_openblas(p); /* as a program would */
}

static void run_default(const problem *p) {
    run_way(p, AMP_BLAS_BF16X3, false, 0);
}
static void run_bf16(const problem *p) {
    run_way(p, AMP_BLAS_BF16, true, 0);
}
static void run_again(const problem *p) {
    run_way(p, AMP_BLAS_BF16, true, (size_t)1 << 30);
}
static void run_bf16x2(const problem *p) {
    run_way(p, AMP_BLAS_BF16X2, true, 0);
}
static void run_bf16x3(const problem *p) {
    run_way(p, AMP_BLAS_BF16X3, true, 0);
}

static void run_product(const problem *p) {
    const amp_gemm g = {.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .batch = 1,
                        .a = p->a,
                        .a_dtype = AMP_F32,
                        .a_row_stride = p->k,
                        .a_column_stride = 1,
                        .b = p->packed,
                        .c = p->c,
                        .c_dtype = AMP_F32,
                        .c_row_stride = p->n,
                        .alpha = 1};
    bench_require(amp_gemm_bf16(&g, NULL) == AMP_OK, "the product");
}

/* Parts of a call, in GB/s of B. */
static void run_pack(const problem *p) {
    bench_require(amp_gemm_pack(p->packed, p->b, AMP_F32, p->n, p->k, 1, p->n) == AMP_OK, "packing");
}
static void run_range(const problem *p) {
    const amp_blas_operand b = {.data = p->b, .row = p->n, .column = 1};
    (void)amp_blas_range_of(&b, p->k, p->n);
}

static const struct {
    const char *name;
    void (*run)(const problem *p);
    bool of_b; /* GB/s of B instead */
} candidates[] = {{"OpenBLAS", run_openblas, false}, {"MKL", run_mkl, false},       {"default", run_default, false},
                  {"bf16", run_bf16, false},         {"again", run_again, false},   {"product", run_product, false},
                  {"bf16x2", run_bf16x2, false},     {"bf16x3", run_bf16x3, false}, {"pack", run_pack, true},
                  {"range", run_range, true}};

enum { CANDIDATES = sizeof candidates / sizeof *candidates };

static void *obtain(size_t bytes) {
    void *p = amp_alloc(bytes);
    bench_require(p != NULL, "allocation");
    return p;
}

static double seconds_of(int candidate, const problem *p) {
    const double begin = bench_now();
    for (int i = 0; i < p->repeats; i++) candidates[candidate].run(p);
    return (bench_now() - begin) / p->repeats;
}

static void run_shape(problem p, double seconds) {
    static double times[CANDIDATES][MAX_ROUNDS];
    const double flop = 2.0 * p.m * p.n * p.k, bytes = 4.0 * p.n * p.k;
    p.a = obtain((size_t)p.m * (size_t)p.k * 4);
    p.b = obtain((size_t)p.k * (size_t)p.n * 4);
    p.c = obtain((size_t)p.m * (size_t)p.n * 4);
    p.packed = obtain(amp_gemm_packed_bytes(p.n, p.k));
    p.repeats = flop > 1e8 ? 1 : (int)(1e8 / flop);
    bench_fill(p.a, (int64_t)p.m * p.k, 1);
    bench_fill(p.b, (int64_t)p.k * p.n, 1);
    run_pack(&p);
    int rounds = 0;
    for (int c = 0; c < CANDIDATES; c++) (void)seconds_of(c, &p);
    for (const double end = bench_now() + seconds; rounds < MAX_ROUNDS && (rounds < LEAST_ROUNDS || bench_now() < end);
         rounds++)
        for (int c = 0; c < CANDIDATES; c++) times[c][rounds] = seconds_of(c, &p);
    printf("%5d %5d %5d", p.m, p.n, p.k);
    for (int c = 0; c < CANDIDATES; c++) {
        const double rate = (candidates[c].of_b ? bytes : flop) / bench_median(times[c], rounds) * 1e-9;
        printf(" %9.1f", candidates[c].run == run_mkl && !mkl_sgemm ? NAN : rate);
    }
    putchar('\n');
    void *all[] = {p.a, p.b, p.c, p.packed};
    for (int i = 0; i < 4; i++) amp_free(all[i]);
}

static void open_mkl(const char *folder) {
    char path[4096];
    setenv("MKL_THREADING_LAYER", "GNU", 0);
    snprintf(path, sizeof path, "%s/lib/libmkl_rt.so.3", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *symbol = library ? dlsym(library, "sgemm_") : NULL;
    mkl_sgemm = (sgemm_function *)(uintptr_t)symbol;
}

int main(int argc, char **argv) {
    const char *shapes =
        "64,64,64;128,128,128;256,256,256;512,512,512;2048,2048,2048;64,2048,2048;2048,64,2048;2048,2048,64";
    double seconds = 2;
    setenv("OMP_NUM_THREADS", "1", 1);
    bench_clock = CLOCK_PROCESS_CPUTIME_ID;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]);
        if (!strcmp(argv[i], "--peers")) open_mkl(argv[i + 1]);
        if (!strcmp(argv[i], "--shapes")) shapes = argv[i + 1];
    }
    bench_require(amp_set_num_threads(1) == AMP_OK, "one thread");
    openblas_set_num_threads(1);
    printf("%s, %s; OpenBLAS %s\n    M     N     K", amp_cpu()->model, amp_isa_name(amp_isa_best()),
           openblas_get_config());
    for (int c = 0; c < CANDIDATES; c++) printf(" %9s", candidates[c].name);
    putchar('\n');
    for (const char *at = shapes; *at; at += strcspn(at, ";"), at += *at == ';') {
        problem p = {0};
        if (sscanf(at, "%d,%d,%d", &p.m, &p.n, &p.k) != 3) return 2;
        run_shape(p, seconds);
    }
    return 0;
}
