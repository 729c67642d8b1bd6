/* bf16 GEMM by instruction set, beside f32 and bf16 of oneDNN (and of MKL, where its library can be loaded).
 *
 *     bench_gemm [--threads N] [--seconds S] [--shapes all|model|m,n,k;m,n,k…] [--clock cpu] [--json FILE]
 *
 * Random data. All candidates of a shape run in turn, round after round, so that each meets the same disturbances; the
 * figures are medians over the rounds. A is f32 for all but "dnnl bf16"; weights are packed beforehand. Each ratio is
 * the median of the ratios within a round, of the fastest f32 candidate's time to the kernel's. */
#define _GNU_SOURCE /* clock_gettime, RTLD_* */
#include <dlfcn.h>
#include <inttypes.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "amp/system.h"
#include "core/memory.h"
#include "cpu/convert.h"
#include "cpu/dnnl_matmul.h"
#include "cpu/kernels.h"
#include "cpu/probe.h"

enum { MAX_CANDIDATES = 16, MAX_ROUNDS = 400 };

typedef struct shape {
    int64_t m, n, k;
} shape;

static const shape model_shapes[] = {{32, 384, 384},   {32, 1536, 384},   {32, 384, 1536},
                                     {2048, 384, 384}, {2048, 1536, 384}, {2048, 384, 1536}};
static const shape other_shapes[] = {{512, 512, 512},  {1024, 1024, 1024}, {2048, 2048, 2048}, {1, 4096, 4096},
                                     {16, 4096, 4096}, {32, 768, 768},     {128, 768, 768},    {128, 3072, 768},
                                     {128, 768, 3072}, {512, 4096, 4096},  {1, 64, 64},        {1, 384, 384},
                                     {4, 384, 1536},   {8, 1536, 384},     {17, 131, 257},     {100, 33, 1000}};

/* Operands of one shape in every form that a candidate wants. */
typedef struct operands {
    shape s;
    float *a, *b, *c; /* b is [N, K], as a linear layer holds it */
    uint16_t *a_half, *b_half, *c_half;
    void *packed, *packed_f32, *packed_dnnl;
} operands;

typedef struct candidate {
    char name[48];
    bool f32;
    void (*run)(const operands *o, void *context);
    void *context;
    double times[MAX_ROUNDS]; /* seconds per product */
    int repeats;
} candidate;

static clockid_t run_clock = CLOCK_MONOTONIC; /* or the thread's CPU time, on a machine that others use too */

static double seconds_of(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *obtain(size_t bytes) {
    void *p = amp_alloc(bytes);
    if (p) return p;
    fprintf(stderr, "bench_gemm: no memory\n");
    exit(1);
}

static void require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "bench_gemm: %s failed: %s\n", what, amp_last_error());
    exit(1);
}

/* ---- Operands ------------------------------------------------------------------------------------------------- */

static float *random_values(int64_t n, uint64_t seed) {
    float *p = obtain((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        p[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f;
    }
    return p;
}

static uint16_t *halves(const float *x, int64_t n) {
    uint16_t *p = obtain((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = amp_bf16_from_f32(x[i]);
    return p;
}

static operands make_operands(shape s) {
    operands o = {.s = s, .a = random_values(s.m * s.k, 1), .b = random_values(s.n * s.k, 2)};
    o.a_half = halves(o.a, s.m * s.k);
    o.b_half = halves(o.b, s.n * s.k);
    o.c = obtain((size_t)(s.m * s.n) * sizeof *o.c);
    o.c_half = obtain((size_t)(s.m * s.n) * sizeof *o.c_half);
    o.packed = obtain(amp_gemm_packed_bytes(s.n, s.k));
    require(amp_gemm_pack(o.packed, o.b, AMP_F32, s.n, s.k, s.k, 1) == AMP_OK, "packing");
    o.packed_f32 = obtain(amp_gemm_f32_packed_bytes(s.n, s.k));
    require(amp_gemm_f32_pack(o.packed_f32, o.b, s.n, s.k, s.k, 1) == AMP_OK, "packing f32");
    o.packed_dnnl = obtain(amp_dnnl_weight_bytes(s.n, s.k));
    require(amp_dnnl_weight_pack(o.packed_dnnl, o.b, s.n, s.k, 1, s.k) == AMP_OK, "packing f32 for oneDNN");
    return o;
}

static void free_operands(operands *o) {
    void *all[] = {o->a, o->b, o->c, o->a_half, o->b_half, o->c_half, o->packed, o->packed_f32, o->packed_dnnl};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) amp_free(all[i]);
}

/* ---- Candidates ----------------------------------------------------------------------------------------------- */

static void run_kernel(const operands *o, void *context) {
    const amp_kernel *kernel = context;
    const bool f32 = kernel->in == AMP_F32;
    const amp_gemm g = {.m = o->s.m,
                        .n = o->s.n,
                        .k = o->s.k,
                        .batch = 1,
                        .a = o->a,
                        .a_dtype = AMP_F32,
                        .a_row_stride = o->s.k,
                        .a_column_stride = 1,
                        .b = f32 ? o->packed_f32 : o->packed,
                        .c = f32 ? (void *)o->c : o->c_half,
                        .c_dtype = f32 ? AMP_F32 : AMP_BF16,
                        .c_row_stride = o->s.n,
                        .alpha = 1.0f};
    require(((amp_gemm_function *)kernel->function)(&g) == AMP_OK, kernel->name);
}

static void run_dnnl_f32(const operands *o, void *context) {
    const bool packed = context != NULL;
    const amp_dnnl_matmul p = {.m = o->s.m,
                               .n = o->s.n,
                               .k = o->s.k,
                               .batch = 1,
                               .a = o->a,
                               .a_row_stride = o->s.k,
                               .a_column_stride = 1,
                               .b = packed ? NULL : o->b,
                               .b_row_stride = 1,
                               .b_column_stride = o->s.k,
                               .packed_b = packed ? o->packed_dnnl : NULL,
                               .c = o->c,
                               .c_row_stride = o->s.n,
                               .alpha = 1.0f};
    require(amp_dnnl_matmul_f32(&p, NULL) == AMP_OK, "oneDNN f32");
}

/* oneDNN bf16 from end to end, weights in the layout that it likes for this very shape. */
typedef struct peer_bf16 {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t a, b, c;
    const char *implementation;
} peer_bf16;

static void run_dnnl_bf16(const operands *o, void *context) {
    const peer_bf16 *d = context;
    (void)o;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, d->a}, {DNNL_ARG_WEIGHTS, d->b}, {DNNL_ARG_DST, d->c}};
    require(dnnl_primitive_execute(d->primitive, d->stream, 3, arguments) == dnnl_success, "oneDNN bf16");
    dnnl_stream_wait(d->stream);
}

static dnnl_memory_desc_t bf16_matrix(int64_t rows, int64_t columns, dnnl_format_tag_t tag) {
    const dnnl_dims_t dims = {rows, columns};
    dnnl_memory_desc_t d;
    require(dnnl_memory_desc_create_with_tag(&d, 2, dims, dnnl_bf16, tag) == dnnl_success, "oneDNN descriptor");
    return d;
}

static void reorder_weights(peer_bf16 *d, const operands *o, const_dnnl_memory_desc_t wanted) {
    const dnnl_memory_desc_t plain = bf16_matrix(o->s.k, o->s.n, dnnl_ba);
    dnnl_memory_t from;
    dnnl_primitive_desc_t descriptor = NULL;
    dnnl_primitive_t reorder = NULL;
    bool ok = dnnl_memory_create(&from, plain, d->engine, o->b_half) == dnnl_success;
    ok = ok && dnnl_memory_create(&d->b, wanted, d->engine, DNNL_MEMORY_ALLOCATE) == dnnl_success;
    ok = ok &&
         dnnl_reorder_primitive_desc_create(&descriptor, plain, d->engine, wanted, d->engine, NULL) == dnnl_success;
    ok = ok && dnnl_primitive_create(&reorder, descriptor) == dnnl_success;
    require(ok, "oneDNN reorder");
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, d->b}};
    require(dnnl_primitive_execute(reorder, d->stream, 2, arguments) == dnnl_success, "oneDNN reorder");
    dnnl_stream_wait(d->stream);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(descriptor);
    dnnl_memory_destroy(from);
    dnnl_memory_desc_destroy(plain);
}

/* False where this oneDNN has no bf16 on this CPU. */
static bool make_dnnl_bf16(peer_bf16 *d, const operands *o) {
    memset(d, 0, sizeof *d);
    require(dnnl_engine_create(&d->engine, dnnl_cpu, 0) == dnnl_success, "oneDNN engine");
    require(dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags) == dnnl_success, "oneDNN stream");
    const dnnl_memory_desc_t a = bf16_matrix(o->s.m, o->s.k, dnnl_ab), c = bf16_matrix(o->s.m, o->s.n, dnnl_ab);
    const dnnl_memory_desc_t b = bf16_matrix(o->s.k, o->s.n, dnnl_format_tag_any);
    dnnl_primitive_desc_t descriptor = NULL;
    const bool made = dnnl_matmul_primitive_desc_create(&descriptor, d->engine, a, b, NULL, c, NULL) == dnnl_success;
    if (made) {
        reorder_weights(d, o, dnnl_primitive_desc_query_md(descriptor, dnnl_query_weights_md, 0));
        dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &d->implementation);
        bool ok = dnnl_primitive_create(&d->primitive, descriptor) == dnnl_success;
        ok = ok && dnnl_memory_create(&d->a, a, d->engine, o->a_half) == dnnl_success;
        ok = ok && dnnl_memory_create(&d->c, c, d->engine, o->c_half) == dnnl_success;
        require(ok, "oneDNN bf16");
        dnnl_primitive_desc_destroy(descriptor);
    }
    dnnl_memory_desc_destroy(a);
    dnnl_memory_desc_destroy(b);
    dnnl_memory_desc_destroy(c);
    return made;
}

static void free_dnnl_bf16(peer_bf16 *d) {
    if (d->primitive) dnnl_primitive_destroy(d->primitive);
    if (d->a) dnnl_memory_destroy(d->a);
    if (d->b) dnnl_memory_destroy(d->b);
    if (d->c) dnnl_memory_destroy(d->c);
    dnnl_stream_destroy(d->stream);
    dnnl_engine_destroy(d->engine);
}

/* MKL by name, as ctypes would find it: rows, no transposition of A, B transposed. */
typedef void (*sgemm_function)(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                               float *, int);

static void run_mkl(const operands *o, void *context) {
    sgemm_function sgemm;
    memcpy(&sgemm, &context, sizeof sgemm);
    const int m = (int)o->s.m, n = (int)o->s.n, k = (int)o->s.k;
    sgemm(101, 111, 112, m, n, k, 1.0f, o->a, k, o->b, k, 0.0f, o->c, n);
}

static void *find_mkl(void) {
    static const char *const names[] = {"libmkl_rt.so", "libmkl_rt.so.2", "libmkl_rt.so.3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) return dlsym(library, "cblas_sgemm");
    }
    return NULL;
}

static int make_candidates(candidate *list, const operands *o, peer_bf16 *bf16, void *mkl) {
    int count = 0;
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *kernel = amp_kernel_at(i);
        if (kernel->family != AMP_KERNEL_GEMM || kernel->isa == AMP_ISA_REF) continue;
        if (!amp_isa_usable(kernel->isa) || !kernel->function) continue;
        candidate *c = &list[count++];
        *c = (candidate){.f32 = kernel->in == AMP_F32, .run = run_kernel, .context = (void *)kernel};
        snprintf(c->name, sizeof c->name, "%s", kernel->name + strlen("gemm_"));
    }
    list[count++] = (candidate){.name = "dnnl f32", .f32 = true, .run = run_dnnl_f32};
    list[count++] = (candidate){.name = "dnnl f32 packed", .f32 = true, .run = run_dnnl_f32, .context = o->packed_dnnl};
    if (mkl) list[count++] = (candidate){.name = "mkl f32", .f32 = true, .run = run_mkl, .context = mkl};
    if (make_dnnl_bf16(bf16, o))
        list[count++] = (candidate){.name = "dnnl bf16", .run = run_dnnl_bf16, .context = bf16};
    return count;
}

/* ---- Measurement ---------------------------------------------------------------------------------------------- */

static double time_runs(candidate *c, const operands *o) {
    const double start = seconds_of(run_clock);
    for (int i = 0; i < c->repeats; i++) c->run(o, c->context);
    return (seconds_of(run_clock) - start) / c->repeats;
}

/* As many products at a time as take 200 µs. */
static void warm_up(candidate *c, const operands *o) {
    c->repeats = 1;
    for (;;) {
        const double t = time_runs(c, o) * c->repeats;
        if (t >= 2e-4 || c->repeats >= 1 << 16) return;
        c->repeats *= 2;
    }
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int n) {
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

static int measure(candidate *list, int count, const operands *o, double seconds) {
    const double end = seconds_of(CLOCK_MONOTONIC) + seconds;
    int rounds = 0;
    for (int i = 0; i < count; i++) warm_up(&list[i], o);
    while (rounds < MAX_ROUNDS && (rounds < 5 || seconds_of(CLOCK_MONOTONIC) < end)) {
        for (int i = 0; i < count; i++) list[i].times[rounds] = time_runs(&list[i], o);
        rounds++;
    }
    return rounds;
}

/* Median over the rounds of (fastest f32 candidate) / (this one). */
static double speed_up(const candidate *list, int count, int which, int rounds) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (list[i].f32 && (best < 0 || median(list[i].times, rounds) < median(list[best].times, rounds))) best = i;
    double ratios[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) ratios[r] = list[best].times[r] / list[which].times[r];
    return median(ratios, rounds);
}

/* ---- Output --------------------------------------------------------------------------------------------------- */

static void print_machine(FILE *json, int threads) {
    const amp_cpu_info *cpu = amp_cpu();
    printf("%s, %d threads, oneDNN %s, %s\n", cpu->model, threads, amp_onednn_version(), amp_openmp_version());
    if (json)
        fprintf(json, "{\"cpu\": \"%s\", \"threads\": %d, \"onednn\": \"%s\", \"openmp\": \"%s\", \"peak_gflops\": {",
                cpu->model, threads, amp_onednn_version(), amp_openmp_version());
    const char *separator = "";
    for (int i = 0; i < AMP_PROBE_COUNT; i++) {
        const double rate = amp_probe_rate((amp_probe)i, 20, 2000.0) * 1e-9;
        if (rate == 0.0) continue;
        printf("peak of one core: %-10s %8.1f GFLOP/s\n", amp_probe_name((amp_probe)i), rate);
        if (json) fprintf(json, "%s\"%s\": %.2f", separator, amp_probe_name((amp_probe)i), rate);
        separator = ", ";
    }
    if (json) fprintf(json, "}, \"shapes\": [");
}

static void print_shape(FILE *json, const candidate *list, int count, const operands *o, int rounds, bool first) {
    const double flop = 2.0 * (double)o->s.m * (double)o->s.n * (double)o->s.k;
    printf("\n%" PRId64 " × %" PRId64 " × %" PRId64 " (M × N × K), %d rounds\n", o->s.m, o->s.n, o->s.k, rounds);
    if (json)
        fprintf(json, "%s\n{\"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64 ", \"rounds\": %d, \"results\": [",
                first ? "" : ",", o->s.m, o->s.n, o->s.k, rounds);
    for (int i = 0; i < count; i++) {
        const double t = median(list[i].times, rounds), ratio = speed_up(list, count, i, rounds);
        printf("  %-17s %10.2f µs %9.1f GFLOP/s  %5.2f × best f32\n", list[i].name, t * 1e6, flop / t * 1e-9, ratio);
        if (json)
            fprintf(json, "%s{\"name\": \"%s\", \"us\": %.3f, \"gflops\": %.2f, \"over_best_f32\": %.4f}",
                    i ? ", " : "", list[i].name, t * 1e6, flop / t * 1e-9, ratio);
    }
    if (json) fprintf(json, "]}");
    fflush(stdout);
}

static void bench_shape(FILE *json, shape s, double seconds, void *mkl, bool first) {
    static candidate list[MAX_CANDIDATES];
    operands o = make_operands(s);
    peer_bf16 bf16;
    const int count = make_candidates(list, &o, &bf16, mkl);
    const int rounds = measure(list, count, &o, seconds);
    print_shape(json, list, count, &o, rounds, first);
    free_dnnl_bf16(&bf16);
    free_operands(&o);
}

static int usage(void) {
    fprintf(stderr, "usage: bench_gemm [--threads N] [--seconds S] [--shapes all|model|M,N,K;…] [--clock cpu] "
                    "[--json FILE]\n");
    return 2;
}

int main(int argc, char **argv) {
    double seconds = 1.0;
    const char *shapes = "all", *file = NULL;
    for (int i = 1; i < argc; i++) {
        if (i + 1 >= argc) return usage();
        if (!strcmp(argv[i], "--threads")) {
            if (amp_set_num_threads(atoi(argv[++i])) != AMP_OK) return usage();
        } else if (!strcmp(argv[i], "--seconds")) {
            seconds = atof(argv[++i]);
        } else if (!strcmp(argv[i], "--shapes")) {
            shapes = argv[++i];
        } else if (!strcmp(argv[i], "--clock")) {
            if (strcmp(argv[++i], "cpu")) return usage();
            run_clock = CLOCK_THREAD_CPUTIME_ID;
        } else if (!strcmp(argv[i], "--json")) {
            file = argv[++i];
        } else {
            return usage();
        }
    }
    if (run_clock == CLOCK_THREAD_CPUTIME_ID && amp_get_num_threads() > 1) {
        fprintf(stderr, "bench_gemm: --clock cpu counts one thread: it needs --threads 1\n");
        return 2;
    }
    omp_set_num_threads(amp_get_num_threads());
    FILE *json = file ? fopen(file, "w") : NULL;
    if (file && !json) {
        perror(file);
        return 1;
    }
    void *mkl = find_mkl();
    print_machine(json, amp_get_num_threads());
    bool first = true;
    if (!strcmp(shapes, "all") || !strcmp(shapes, "model")) {
        for (size_t i = 0; i < sizeof model_shapes / sizeof *model_shapes; i++, first = false)
            bench_shape(json, model_shapes[i], seconds, mkl, first);
        for (size_t i = 0; shapes[0] == 'a' && i < sizeof other_shapes / sizeof *other_shapes; i++)
            bench_shape(json, other_shapes[i], seconds, mkl, false);
    } else {
        for (const char *p = shapes; *p; first = false) {
            shape s;
            int used = 0;
            if (sscanf(p, "%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n", &s.m, &s.n, &s.k, &used) != 3) return usage();
            if (s.m < 1 || s.n < 1 || s.k < 1) return usage();
            bench_shape(json, s, seconds, mkl, first);
            p += used + (p[used] == ';');
        }
    }
    if (json) {
        fprintf(json, "]}\n");
        fclose(json);
    }
    return 0;
}
