/* Products by instruction set, bf16 and f32, beside those of oneDNN and MKL, and beside what the machine can do.
 *
 *     bench_gemm [--threads N[,N…]] [--seconds S] [--clock cpu] [--peers DIR] [--only NAME[,NAME…]] [--json FILE]
 *                [--shapes M,N,K;…] [FILE…]
 *     bench_gemm --device cuda [--seconds S] [--only NAME[,NAME…]] [--json FILE] [--shapes M,N,K;…] [FILE…]
 *
 * FILEs (bench/shapes/…) have lines "M N K"; # begins a comment. oneDNN is linked; MKL is loaded where it is found: in
 * DIR/lib, as in a Python environment with the package mkl, or on the loader's path. --only keeps candidates whose name
 * contains one of the words.
 *
 * Random data, weights packed beforehand. A is f32 for ours, and for oneDNN and MKL of the type that their product is
 * of; C is of that type too, but f32 for MKL. "call" is the whole call of amp_linear in a bf16 region, its result
 * allocated and released; the others are bare kernels. "peak …" runs nothing but the instruction; "read weights" reads
 * the packed bf16 weights once, "read weights f32" the packed f32 ones.
 *
 * All candidates of a shape run in turn, round after round, so that each meets the same disturbances. Figures are
 * medians, with the 10th and the 90th percentile; every ratio is the median of the ratios within a round.
 *
 * With --device cuda: amp_linear on the GPU, and beside it cuBLASLt called directly (gemm_cuda.h). */
#define _GNU_SOURCE /* clock_gettime, RTLD_* */
#define BENCH_NAME "bench_gemm"
#include <inttypes.h>
#include <omp.h>

#include "bench_common.h"
#include "core/memory.h"
#include "cpu/registry/convert.h"
#include "cpu/registry/kernels.h"
#include "gemm_cuda.h"
#include "gemm_peers.h"
#include "machine/peak.h"

enum { LONG_FLOP = 1 << 30, MAX_CANDIDATES = 48, MAX_ROUNDS = 400, MAX_SHAPES = 512, LEAST_ROUNDS = 5 };

typedef struct shape {
    int64_t m, n, k;
} shape;

/* Operands of one shape in every form that a candidate wants. */
typedef struct operands {
    gemm_problem g;
    amp_tensor *x, *w;
    void *packed, *packed_f32;
    size_t packed_bytes, packed_f32_bytes;
} operands;

typedef enum candidate_kind { OURS, ONEDNN, MKL, MACHINE } candidate_kind;

typedef struct candidate {
    char name[48];
    candidate_kind kind;
    bool f32;
    int threads;
    void (*run)(const struct candidate *c);
    const void *context; /* of a peer, a kernel */
    const operands *o;
    amp_probe probe;
    double flop;              /* of one run */
    double times[MAX_ROUNDS]; /* seconds per run */
    int repeats;
} candidate;

typedef struct options {
    bench_threads threads;
    double seconds;
    const char *shapes, *json, *peers, *only;
    bool cuda;
} options;

/* ---- Operands ------------------------------------------------------------------------------------------------- */

static void *obtain(size_t bytes) {
    void *p = amp_alloc(bytes);
    bench_require(p != NULL, "allocation");
    return p;
}

static uint16_t *halves(const float *x, int64_t n) {
    uint16_t *p = obtain((size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = amp_bf16_from_f32(x[i]);
    return p;
}

static operands make_operands(shape s) {
    operands o = {.x = bench_parameter(AMP_DEVICE_CPU, 1.0f, AMP_DIMS(s.m, s.k)),
                  .w = bench_parameter(AMP_DEVICE_CPU, 1.0f, AMP_DIMS(s.n, s.k))};
    gemm_problem *g = &o.g;
    *g = (gemm_problem){.m = s.m, .n = s.n, .k = s.k, .a = amp_data(o.x), .b = amp_data(o.w)};
    g->a_half = halves(g->a, s.m * s.k);
    g->b_half = halves(g->b, s.n * s.k);
    g->c = obtain((size_t)(s.m * s.n) * sizeof *g->c);
    g->c_half = obtain((size_t)(s.m * s.n) * sizeof *g->c_half);
    o.packed_bytes = amp_gemm_packed_bytes(s.n, s.k);
    o.packed = obtain(o.packed_bytes);
    bench_require(amp_gemm_pack(o.packed, g->b, AMP_F32, s.n, s.k, s.k, 1) == AMP_OK, "packing");
    o.packed_f32_bytes = amp_gemm_f32_packed_bytes(s.n, s.k);
    o.packed_f32 = obtain(o.packed_f32_bytes);
    bench_require(amp_gemm_f32_pack(o.packed_f32, g->b, s.n, s.k, s.k, 1) == AMP_OK, "packing f32");
    return o;
}

static void free_operands(operands *o) {
    void *all[] = {(void *)o->g.a_half, (void *)o->g.b_half, o->g.c, o->g.c_half, o->packed, o->packed_f32};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) amp_free(all[i]);
    amp_release(o->x);
    amp_release(o->w);
}

/* ---- Candidates ----------------------------------------------------------------------------------------------- */

static void run_kernel(const candidate *c) {
    const amp_kernel *kernel = c->context;
    const gemm_problem *p = &c->o->g;
    const amp_gemm g = {.m = p->m,
                        .n = p->n,
                        .k = p->k,
                        .batch = 1,
                        .a = p->a,
                        .a_dtype = AMP_F32,
                        .a_row_stride = p->k,
                        .a_column_stride = 1,
                        .b = c->f32 ? c->o->packed_f32 : c->o->packed,
                        .c = c->f32 ? (void *)p->c : p->c_half,
                        .c_dtype = c->f32 ? AMP_F32 : AMP_BF16,
                        .c_row_stride = p->n,
                        .alpha = 1.0f};
    bench_require(((amp_gemm_function *)kernel->function)(&g) == AMP_OK, kernel->name);
}

static void run_call(const candidate *c) {
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(!c->f32)) {
        amp_tensor *y = amp_linear(c->o->x, c->o->w);
        bench_require(y != NULL, "linear");
        amp_release(y);
    }
}

static void run_peer_dnnl(const candidate *c) {
    run_dnnl(c->context);
}
static void run_peer_mkl(const candidate *c) {
    (c->f32 ? run_mkl_f32 : run_mkl_bf16)(c->context);
}

static volatile double sink;

enum { PEAK_ROUNDS = 1 << 14 };

static void run_peak(const candidate *c) {
#pragma omp parallel num_threads(c->threads) if (c->threads > 1)
    (void)amp_probe_work(c->probe, PEAK_ROUNDS);
}

static void run_read(const candidate *c) {
    const char *data = c->f32 ? c->o->packed_f32 : c->o->packed;
    const size_t bytes = c->f32 ? c->o->packed_f32_bytes : c->o->packed_bytes;
    const size_t part = bytes / (size_t)c->threads / 512 * 512;
#pragma omp parallel num_threads(c->threads) if (c->threads > 1)
    sink = amp_probe_read(data + part * (size_t)omp_get_thread_num(), part);
}

/* What make_candidates fills; peers live as long as the candidates that run them. */
typedef struct field {
    candidate list[MAX_CANDIDATES];
    int count;
    const options *options;
    const operands *o;
    dnnl_peer dnnl[3];
    mkl_peer mkl;
} field;

/* One candidate for each number of threads. */
static void add_candidate(field *f, candidate c) {
    const bool wanted = c.kind == MACHINE || bench_is_named(c.name, f->options->only);
    for (int t = 0; wanted && t < f->options->threads.n && f->count < MAX_CANDIDATES; t++) {
        c.o = f->o;
        c.threads = f->options->threads.counts[t];
        c.flop = 2.0 * (double)f->o->g.m * (double)f->o->g.n * (double)f->o->g.k;
        f->list[f->count++] = c;
    }
}

static void add_ours(field *f) {
    for (int i = 0; i < amp_kernel_count(); i++) {
        const amp_kernel *kernel = amp_kernel_at(i);
        if (kernel->family != AMP_KERNEL_GEMM || kernel->isa == AMP_ISA_REF) continue;
        if (!amp_isa_usable(kernel->isa) || !kernel->function) continue;
        candidate c = {.kind = OURS, .f32 = kernel->in == AMP_F32, .run = run_kernel, .context = kernel};
        snprintf(c.name, sizeof c.name, "%s", kernel->name + strlen("gemm_"));
        add_candidate(f, c);
    }
    add_candidate(f, (candidate){.name = "call bf16", .kind = OURS, .run = run_call});
    add_candidate(f, (candidate){.name = "call f32", .kind = OURS, .f32 = true, .run = run_call});
}

static void add_peers(field *f) {
    static const struct {
        const char *name;
        bool half, packed;
    } kinds[3] = {{"dnnl f32 plain", false, false}, {"dnnl f32", false, true}, {"dnnl bf16", true, true}};
    for (int i = 0; i < 3; i++) {
        if (!make_dnnl(&f->dnnl[i], &f->o->g, kinds[i].half, kinds[i].packed)) continue;
        candidate c = {.kind = ONEDNN, .f32 = !kinds[i].half, .run = run_peer_dnnl, .context = &f->dnnl[i]};
        snprintf(c.name, sizeof c.name, "%s", kinds[i].name);
        add_candidate(f, c);
    }
    if (!mkl.there) return;
    f->mkl = make_mkl(&f->o->g);
    add_candidate(f, (candidate){.name = "mkl f32", .kind = MKL, .f32 = true, .run = run_peer_mkl, .context = &f->mkl});
    add_candidate(f, (candidate){.name = "mkl bf16", .kind = MKL, .run = run_peer_mkl, .context = &f->mkl});
}

static void add_machine(field *f) {
    for (int i = 0; i < AMP_PROBE_COUNT; i++) {
        candidate c = {.kind = MACHINE, .probe = (amp_probe)i, .run = run_peak};
        const double work = amp_probe_work(c.probe, PEAK_ROUNDS);
        if (work == 0.0) continue;
        snprintf(c.name, sizeof c.name, "peak %s", amp_probe_name(c.probe));
        const int first = f->count;
        add_candidate(f, c);
        for (int j = first; j < f->count; j++) f->list[j].flop = work * f->list[j].threads;
    }
    add_candidate(f, (candidate){.name = "read weights", .kind = MACHINE, .run = run_read});
    add_candidate(f, (candidate){.name = "read weights f32", .kind = MACHINE, .f32 = true, .run = run_read});
}

static void free_peers(field *f) {
    for (int i = 0; i < 3; i++) free_dnnl(&f->dnnl[i]);
    if (mkl.there) free_mkl(&f->mkl);
}

/* ---- Measurement ---------------------------------------------------------------------------------------------- */

static void use_threads(int threads) {
    if (omp_get_max_threads() == threads && amp_get_num_threads() == threads) return;
    bench_require(amp_set_num_threads(threads) == AMP_OK, "threads");
    omp_set_num_threads(threads);
    if (mkl.there) mkl.set_threads(threads);
}

static int most_threads(const options *o) {
    int most = 1;
    for (int t = 0; t < o->threads.n; t++)
        if (o->threads.counts[t] > most) most = o->threads.counts[t];
    return most;
}

static double time_runs(candidate *c) {
    use_threads(c->threads);
    if (c->flop < LONG_FLOP) c->run(c); /* brings its data back to where they were before the others ran */
    const double start = bench_now();
    for (int i = 0; i < c->repeats; i++) c->run(c);
    return (bench_now() - start) / c->repeats;
}

/* As many runs at a time as take 200 µs. */
static void warm_up(candidate *c) {
    for (c->repeats = 1; time_runs(c) * c->repeats < 2e-4 && c->repeats < 1 << 16;) c->repeats *= 2;
}

/* Forwards, then backwards, so that no candidate always follows the same one. */
static int measure(field *f, double seconds) {
    for (int i = 0; i < f->count; i++) warm_up(&f->list[i]);
    const double end = bench_wall() + seconds;
    int rounds = 0;
    for (; rounds < MAX_ROUNDS && (rounds < LEAST_ROUNDS || bench_wall() < end); rounds++) {
        for (int i = 0; i < f->count; i++) {
            candidate *c = &f->list[rounds % 2 ? f->count - 1 - i : i];
            c->times[rounds] = time_runs(c);
        }
    }
    return rounds;
}

/* How many times the speed of `b` that of `a` is: by operations for a peak, else by runs. */
static double ratio(const candidate *a, const candidate *b, int rounds) {
    double ratios[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) ratios[r] = a->flop / a->times[r] / (b->flop / b->times[r]);
    return bench_median(ratios, rounds);
}

/* ---- Output --------------------------------------------------------------------------------------------------- */

/* GB/s that a thread reads from `bytes` of memory: the best of rounds that take 100 ms together. */
static double read_rate(size_t bytes) {
    float *data = obtain(bytes);
    double best = 0.0, spent = 0.0;
    const int repeats = bytes < (size_t)1 << 22 ? (int)(((size_t)1 << 22) / bytes) : 1;
    bench_fill(data, (int64_t)(bytes / sizeof *data), 1.0f);
    for (int i = 0; i < 5 || spent < 0.1; i++) {
        const double start = bench_now();
        for (int r = 0; r < repeats; r++) sink = amp_probe_read(data, bytes);
        const double seconds = bench_now() - start, rate = (double)bytes * repeats / seconds * 1e-9;
        spent += seconds;
        if (rate > best) best = rate;
    }
    amp_free(data);
    return best;
}

static void print_roofs(FILE *json) {
    const amp_cpu_info *cpu = amp_cpu();
    const size_t sizes[4] = {cpu->cache_bytes[0] / 2, cpu->cache_bytes[1] / 2, cpu->cache_bytes[2] / 4,
                             (size_t)1 << 28};
    static const char *const names[4] = {"L1", "L2", "L3", "DRAM"};
    const char *separator = "";
    if (json) fprintf(json, ", \"peak_gflops\": {");
    for (int i = 0; i < AMP_PROBE_COUNT; i++) {
        const double rate = amp_probe_rate((amp_probe)i, 20, 2000.0) * 1e-9;
        if (rate == 0.0) continue;
        printf("peak of one core: %-10s %8.1f GFLOP/s\n", amp_probe_name((amp_probe)i), rate);
        if (json) fprintf(json, "%s\"%s\": %.2f", separator, amp_probe_name((amp_probe)i), rate);
        separator = ", ";
    }
    if (json) fprintf(json, "}, \"read_gb_per_s\": {");
    separator = "";
    for (int i = 0; i < 4; i++) {
        const size_t bytes = sizes[i] / 512 * 512;
        if (bytes == 0) continue;
        const double rate = read_rate(bytes);
        printf("one core reads from %-4s %8.1f GB/s\n", names[i], rate);
        if (json) fprintf(json, "%s\"%s\": %.2f", separator, names[i], rate);
        separator = ", ";
    }
    if (json) fprintf(json, "}");
}

static void print_header(FILE *json, bool cuda) {
    printf("%s, oneDNN %s, %s, MKL: %s\n", amp_cpu()->model, amp_onednn_version(), amp_openmp_version(),
           mkl.there ? mkl.version : "not found");
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(json, ", \"mkl\": \"%s\"", mkl.there ? mkl.version : "");
    }
    if (cuda && json) fprintf(json, ", \"device\": \"cuda\"");
    if (!cuda) print_roofs(json);
    if (json) fprintf(json, ", \"shapes\": [");
}

static const candidate *find(const field *f, const char *name, int threads) {
    for (int i = 0; i < f->count; i++)
        if (f->list[i].threads == threads && !strcmp(f->list[i].name, name)) return &f->list[i];
    return NULL;
}

/* The fastest peak that this candidate could use. */
static const candidate *roof_of(const field *f, const candidate *c, int rounds) {
    const candidate *best = NULL;
    for (int i = 0; i < f->count; i++) {
        const candidate *p = &f->list[i];
        if (p->kind != MACHINE || p->run != run_peak || p->threads != c->threads) continue;
        const bool avx2 = strstr(c->name, "avx2") != NULL, fma = c->f32 || !strcmp(c->name, "bf16_avx512");
        if (avx2 ? p->probe != AMP_PROBE_FMA_AVX2 : fma && p->probe > AMP_PROBE_FMA_AVX512) continue;
        if (strstr(c->name, "avx512bf16") && p->probe > AMP_PROBE_DOT_AVX512BF16) continue;
        if (!best || ratio(p, best, rounds) > 1.0) best = p;
    }
    return best;
}

static void print_candidate(FILE *json, const field *f, const candidate *c, int rounds) {
    const bench_figure t = bench_figure_of(c->times, rounds);
    const candidate *roof = roof_of(f, c, rounds),
                    *read = find(f, c->f32 ? "read weights f32" : "read weights", c->threads);
    const bool machine = c->kind == MACHINE;
    const double peak = roof && !machine ? ratio(c, roof, rounds) : 0.0,
                 reads = !machine ? ratio(c, read, rounds) : 0.0;
    printf("  %-17s %2d %11.2f µs ±%4.1f %% %9.1f GFLOP/s", c->name, c->threads, t.median * 1e6,
           50 * (t.high - t.low) / t.median, c->flop / t.median * 1e-9);
    if (!machine) printf("  %5.1f %% of peak, %5.1f %% of reading the weights", 100 * peak, 100 * reads);
    printf("\n");
    if (!json) return;
    fprintf(json,
            "%s\n {\"name\": \"%s\", \"kind\": \"%s\", \"f32\": %s, \"threads\": %d, \"us\": %.3f, \"low_us\": %.3f, "
            "\"high_us\": %.3f, \"gflops\": %.3f, \"peak_share\": %.4f, \"read_share\": %.4f, \"over\": {",
            c == f->list ? "" : ",", c->name, (const char *[]){"ours", "onednn", "mkl", "machine"}[c->kind],
            c->f32 ? "true" : "false", c->threads, t.median * 1e6, t.low * 1e6, t.high * 1e6, c->flop / t.median * 1e-9,
            peak, reads);
    for (int i = 0; i < f->count && c->kind == OURS; i++)
        fprintf(json, "%s\"%s/%d\": %.4f", i ? ", " : "", f->list[i].name, f->list[i].threads,
                ratio(c, &f->list[i], rounds));
    fprintf(json, "}}");
}

static void bench_shape(FILE *json, shape s, const char *list, const options *options, bool first) {
    static field f;
    if (options->cuda) {
        bench_cuda_shape(json, &(cuda_shape){s.m, s.n, s.k, list}, options->only, options->seconds, first);
        return;
    }
    operands o = make_operands(s);
    f = (field){.options = options, .o = &o};
    use_threads(most_threads(options)); /* oneDNN cuts a product when its primitive is made */
    add_ours(&f);
    add_peers(&f);
    add_machine(&f);
    const int rounds = measure(&f, options->seconds);
    printf("\n%" PRId64 " × %" PRId64 " × %" PRId64 " (M × N × K), %d rounds\n", s.m, s.n, s.k, rounds);
    if (json)
        fprintf(json,
                "%s\n{\"list\": \"%s\", \"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64
                ", \"rounds\": %d, \"weight_bytes\": %zu, \"onednn_bf16\": \"%s\", \"results\": [",
                first ? "" : ",", list, s.m, s.n, s.k, rounds, o.packed_bytes,
                f.dnnl[2].implementation ? f.dnnl[2].implementation : "");
    for (int i = 0; i < f.count; i++) print_candidate(json, &f, &f.list[i], rounds);
    if (json) fprintf(json, "]}");
    fflush(stdout);
    free_peers(&f);
    free_operands(&o);
}

/* ---- Shapes ----------------------------------------------------------------------------------------------------- */

static int read_shapes(const char *path, shape *shapes) {
    char line[256];
    int count = 0;
    FILE *file = bench_open(path, "r");
    while (count < MAX_SHAPES && fgets(line, sizeof line, file)) {
        shape *s = &shapes[count];
        if (line[strspn(line, " \t\n")] == '\0' || line[0] == '#') continue;
        const bool read = sscanf(line, "%" SCNd64 " %" SCNd64 " %" SCNd64, &s->m, &s->n, &s->k) == 3;
        if (!read || s->m < 1 || s->n < 1 || s->k < 1) {
            fprintf(stderr, "bench_gemm: %s: no shape M N K: %s", path, line);
            exit(2);
        }
        count++;
    }
    fclose(file);
    return count;
}

static bool bench_text(FILE *json, const options *o, bool *first) {
    for (const char *p = o->shapes; *p; *first = false) {
        shape s;
        int used = 0;
        if (sscanf(p, "%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n", &s.m, &s.n, &s.k, &used) != 3) return false;
        if (s.m < 1 || s.n < 1 || s.k < 1) return false;
        bench_shape(json, s, "given", o, *first);
        p += used + (p[used] == ';');
    }
    return true;
}

/* "shapes/odd.txt" is list "odd". */
static void bench_file(FILE *json, const char *path, const options *o, bool *first) {
    static shape shapes[MAX_SHAPES];
    static char lists[16][64]; /* they stay, for the means at the end */
    static int used;
    char *list = lists[used++ % 16];
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    snprintf(list, sizeof lists[0], "%.*s", (int)strcspn(name, "."), name);
    const int count = read_shapes(path, shapes);
    for (int i = 0; i < count; i++, *first = false) bench_shape(json, shapes[i], list, o, *first);
}

/* ---- Options ---------------------------------------------------------------------------------------------------- */

static int usage(void) {
    fprintf(stderr, "usage: bench_gemm [--threads N[,N...]] [--seconds S] [--clock cpu] [--peers DIR] "
                    "[--only NAME[,NAME...]] [--json FILE] [--shapes M,N,K;...] [--device cuda] [FILE...]\n");
    return 2;
}

static bool parse_option(options *o, const char *name, const char *value) {
    if (!strcmp(name, "--threads")) return bench_parse_threads(&o->threads, value);
    if (!strcmp(name, "--clock")) return bench_parse_clock(value);
    if (!strcmp(name, "--device")) return bench_parse_device(&o->cuda, value);
    if (!strcmp(name, "--seconds")) return (o->seconds = atof(value)) > 0;
    const struct {
        const char *name, **at;
    } texts[] = {{"--peers", &o->peers}, {"--only", &o->only}, {"--json", &o->json}, {"--shapes", &o->shapes}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strcmp(name, texts[i].name) != 0) continue;
        *texts[i].at = value;
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    options o = {.threads = {.counts = {1}, .n = 1}, .seconds = 1.0};
    int i = 1;
    for (; i < argc && !strncmp(argv[i], "--", 2); i += 2)
        if (i + 1 >= argc || !parse_option(&o, argv[i], argv[i + 1])) return usage();
    for (int t = 0; t < o.threads.n; t++)
        if (!bench_clock_suits(o.threads.counts[t])) return 2;
    if (i == argc && !o.shapes) o.shapes = "512,512,512;128,768,768;1,4096,4096";
    bench_require(amp_scope_enter() == AMP_OK, "scope");
    FILE *json = o.json ? bench_open(o.json, "w") : NULL;
    if (!o.cuda) find_mkl(o.peers);
    if (o.cuda) cuda_begin();
    print_header(json, o.cuda);
    bool first = true;
    if (o.shapes && !bench_text(json, &o, &first)) return usage();
    for (; i < argc; i++) bench_file(json, argv[i], &o, &first);
    if (json) fprintf(json, o.cuda ? "], " : "]");
    const bool right = !o.cuda || cuda_end(json);
    if (json) {
        fprintf(json, "}\n");
        fclose(json);
    }
    return amp_scope_exit() == AMP_OK && right ? 0 : 1;
}
