/* scaled_dot_product_attention in f32 and bf16, through the API, on random data, beside oneDNN's primitives.
 *
 *     bench_attention [--threads N] [--seconds S] [--clock cpu] [--json FILE] LIST…
 *     bench_attention --device cuda [--seconds S] [--json FILE] LIST…
 *     bench_attention [--threads N] [--clock cpu] [--device cuda] --serve
 *
 * A list (bench/attention) has a shape on each line: batch, heads, heads of key and value, rows, keys, depth, and 1
 * where causal. Where it is not, and each head has keys of its own, oneDNN's product, softmax and product run too
 * (bench/attention_peer.h): all heads and rows at once where the scores take at most 64 MB, and so many rows of one
 * head that they stay in L2. All take turns, as many calls each, round after round; figures are medians, ratios those
 * of the ratios within a round, to the faster of the two, or to the peak of the fastest unit for that type
 * (bench_peak.h), which takes its turn too.
 *
 * With --serve, each line "SHAPE f32|bf16" (on a GPU f16 too) on the standard input is answered by the seconds of
 * one call, the mean of a burst, on a GPU by its own clock (bench_cuda.h): bench/peers_attention.py lets it take
 * turns with PyTorch. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_attention"
#include <inttypes.h>
#include <omp.h>

#include "amp/explain.h"
#include "attention_peer.h"
#include "bench_cuda.h"
#include "bench_peak.h"
#include "op_cuda.h"

enum { MAX_ROUNDS = 400, DTYPES = 2, PEERS = 2, WHOLE_BYTES = 64 << 20, BLOCK_SCORES = 256 << 10 };

typedef struct shape {
    int64_t batch, heads, key_heads, rows, keys, depth, causal;
} shape;

static const amp_dtype dtypes[DTYPES] = {AMP_F32, AMP_BF16};

/* ---- One shape -------------------------------------------------------------------------------------------------- */

typedef struct problem {
    shape s;
    amp_tensor *q[DTYPES], *k[DTYPES], *v[DTYPES];
    int repeats[DTYPES];
} problem;

static void run_once(const problem *p, int which) {
    (void)amp_scope_enter();
    bench_require_tensor(amp_scaled_dot_product_attention(p->q[which], p->k[which], p->v[which],
                                                          .is_causal = p->s.causal != 0,
                                                          .enable_gqa = p->s.heads != p->s.key_heads));
    (void)amp_scope_exit();
}

static double time_runs(const problem *p, int which) {
    const double start = bench_now();
    for (int i = 0; i < p->repeats[which]; i++) run_once(p, which);
    return (bench_now() - start) / p->repeats[which];
}

/* As many calls at a time as take a millisecond. */
static void warm_up(problem *p, int which) {
    for (p->repeats[which] = 1;; p->repeats[which] *= 2) {
        if (time_runs(p, which) * p->repeats[which] >= 1e-3 || p->repeats[which] >= 1 << 14) return;
    }
}

static problem make_problem(shape s) {
    problem p = {.s = s};
    const amp_dims queries = AMP_DIMS(s.batch, s.heads, s.rows, s.depth);
    const amp_dims keys = AMP_DIMS(s.batch, s.key_heads, s.keys, s.depth);
    p.q[0] = bench_tensor(AMP_F32, 2.0f, queries);
    p.k[0] = bench_tensor(AMP_F32, 2.0f, keys);
    p.v[0] = bench_tensor(AMP_F32, 2.0f, keys);
    p.q[1] = bench_require_tensor(amp_to(p.q[0], .dtype = AMP_BF16));
    p.k[1] = bench_require_tensor(amp_to(p.k[0], .dtype = AMP_BF16));
    p.v[1] = bench_require_tensor(amp_to(p.v[0], .dtype = AMP_BF16));
    for (int i = 0; i < DTYPES; i++) warm_up(&p, i);
    return p;
}

static bool read_shape(const char *text, shape *s) {
    return sscanf(text, "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64, &s->batch,
                  &s->heads, &s->key_heads, &s->rows, &s->keys, &s->depth, &s->causal) == 7;
}

/* ---- A table ---------------------------------------------------------------------------------------------------- */

/* Multiply-adds count twice; half of them where causality hides half of the scores. */
static double operations(const shape *s) {
    const double scores = (double)s->batch * (double)s->heads * (double)s->rows * (double)s->keys;
    return scores * (double)s->depth * (s->causal ? 2.0 : 4.0);
}

/* ---- oneDNN ----------------------------------------------------------------------------------------------------- */

typedef struct peers {
    attention_peer list[PEERS];
    int count;
} peers;

static void check_peer(const problem *p, int which, const attention_peer *peer) {
    amp_tensor *ours =
        bench_require_tensor(amp_contiguous(amp_scaled_dot_product_attention(p->q[which], p->k[which], p->v[which])));
    const int64_t n = amp_tensor_numel(ours);
    amp_tensor *theirs = amp_from_data(peer->data[PEER_Y], dtypes[which], 1, &n);
    const float *a = amp_data(bench_require_tensor(amp_to(ours, .dtype = AMP_F32)));
    const float *b = amp_data(bench_require_tensor(amp_to(theirs, .dtype = AMP_F32)));
    for (int64_t i = 0; i < n; i++) bench_require(fabsf(a[i] - b[i]) < 0.05f, "oneDNN's result that is ours");
}

static void add_peer(peers *list, const problem *p, int which, int64_t heads, int64_t rows) {
    attention_peer *peer = &list->list[list->count++];
    *peer = (attention_peer){.heads = heads,
                             .rows = rows,
                             .all_heads = p->s.batch * p->s.heads,
                             .all_rows = p->s.rows,
                             .keys = p->s.keys,
                             .depth = p->s.depth,
                             .value = amp_dtype_size(dtypes[which])};
    amp_tensor *const from[] = {p->q[which], p->k[which], p->v[which]};
    for (int i = 0; i < 3; i++) peer->data[i] = (char *)amp_data(from[i]);
    make_attention_peer(peer);
    run_attention_peer(peer);
    check_peer(p, which, peer);
}

static peers make_peers(const problem *p, int which) {
    peers list = {.count = 0};
    const shape *s = &p->s;
    if (s->causal || s->heads != s->key_heads) return list;
    const double whole = (double)(s->batch * s->heads) * (double)(s->rows * s->keys);
    int64_t rows = s->rows;
    while (rows % 2 == 0 && rows * s->keys > BLOCK_SCORES) rows /= 2;
    if (whole * (double)amp_dtype_size(dtypes[which]) <= WHOLE_BYTES)
        add_peer(&list, p, which, s->batch * s->heads, s->rows);
    add_peer(&list, p, which, 1, rows);
    return list;
}

static double time_peer(const attention_peer *peer, int repeats) {
    run_attention_peer(peer); /* what others left of the caches is not its own */
    const double start = bench_now();
    for (int i = 0; i < repeats; i++) run_attention_peer(peer);
    return (bench_now() - start) / repeats;
}

/* ---- The rows of the table -------------------------------------------------------------------------------------- */

typedef struct times {
    double ours[MAX_ROUNDS], theirs[PEERS][MAX_ROUNDS], peak[MAX_ROUNDS]; /* seconds; operations a second */
} times;

static void print_figure(FILE *json, const shape *s, const char *name, const double *seconds, int rounds) {
    const bench_figure f = bench_figure_of(seconds, rounds);
    const double t = f.median, rate = operations(s) / t * 1e-9;
    printf("  %s %10.1f µs %7.1f GFLOP/s", name, t * 1e6, rate);
    if (json)
        fprintf(json, ", \"%s\": {\"us\": %.3f, \"low_us\": %.3f, \"high_us\": %.3f, \"gflops\": %.2f}", name, t * 1e6,
                f.low * 1e6, f.high * 1e6, rate);
}

static void print_peers(FILE *json, const shape *s, int which, const times *t, int count, int rounds) {
    char name[32];
    double ratios[MAX_ROUNDS];
    int best = 0;
    if (count == 0) return;
    for (int i = 1; i < count; i++)
        if (bench_median(t->theirs[i], rounds) < bench_median(t->theirs[best], rounds)) best = i;
    for (int r = 0; r < rounds; r++) ratios[r] = t->theirs[best][r] / t->ours[r];
    snprintf(name, sizeof name, "oneDNN %s", amp_dtype_name(dtypes[which]));
    print_figure(json, s, name, t->theirs[best], rounds);
    printf(" %s %.2f×", best == count - 1 ? "in blocks" : "at once", bench_median(ratios, rounds));
    if (json) fprintf(json, ", \"%s over onednn\": %.4f", amp_dtype_name(dtypes[which]), bench_median(ratios, rounds));
}

static void print_share(FILE *json, const shape *s, int which, const times *t, int rounds) {
    double shares[MAX_ROUNDS];
    for (int r = 0; r < rounds; r++) shares[r] = operations(s) / t->ours[r] / t->peak[r];
    const double share = bench_median(shares, rounds);
    printf(" %3.0f %% of peak", 100 * share);
    if (json) fprintf(json, ", \"%s peak_share\": %.4f", amp_dtype_name(dtypes[which]), share);
}

static int measure(const problem *p, const peers *theirs, const amp_probe *units, times *t, double seconds) {
    const double end = bench_wall() + seconds;
    int rounds = 0;
    for (; rounds < MAX_ROUNDS && (rounds < 5 || bench_wall() < end); rounds++) {
        for (int i = 0; i < DTYPES; i++) {
            run_once(p, i);
            t[i].ours[rounds] = time_runs(p, i);
            t[i].peak[rounds] = bench_peak_rate(units[i], amp_get_num_threads());
            for (int k = 0; k < theirs[i].count; k++)
                t[i].theirs[k][rounds] = time_peer(&theirs[i].list[k], p->repeats[i]);
        }
    }
    return rounds;
}

static void print_shape(FILE *json, const shape *s, bool first) {
    printf("%3" PRId64 " × %2" PRId64 "/%-2" PRId64 " heads, %4" PRId64 " × %4" PRId64 ", depth %3" PRId64 "%s",
           s->batch, s->heads, s->key_heads, s->rows, s->keys, s->depth, s->causal ? ", causal" : "        ");
    if (json)
        fprintf(json,
                "%s\n{\"shape\": \"%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                "\"",
                first ? "" : ",", s->batch, s->heads, s->key_heads, s->rows, s->keys, s->depth, s->causal);
}

static void bench_shape(FILE *json, shape s, const amp_probe *units, double seconds, bool first) {
    static times t[DTYPES];
    (void)amp_scope_enter();
    const problem p = make_problem(s);
    peers theirs[DTYPES];
    for (int i = 0; i < DTYPES; i++) theirs[i] = make_peers(&p, i);
    const int rounds = measure(&p, theirs, units, t, seconds);
    print_shape(json, &s, first);
    if (json) fprintf(json, ", \"rounds\": %d", rounds);
    for (int i = 0; i < DTYPES; i++) {
        print_figure(json, &s, amp_dtype_name(dtypes[i]), t[i].ours, rounds);
        print_share(json, &s, i, &t[i], rounds);
        print_peers(json, &s, i, &t[i], theirs[i].count, rounds);
        for (int k = 0; k < theirs[i].count; k++) free_attention_peer(&theirs[i].list[k]);
    }
    printf("\n");
    fflush(stdout);
    if (json) fprintf(json, "}");
    (void)amp_scope_exit();
}

/* ---- On a GPU --------------------------------------------------------------------------------------------------- */

typedef struct cuda_problem {
    shape s;
    amp_tensor *q[OP_CUDA_TYPES], *k[OP_CUDA_TYPES], *v[OP_CUDA_TYPES];
} cuda_problem;

static void attend_on_cuda(void *context, int type) {
    const cuda_problem *p = context;
    amp_tensor *y = bench_require_tensor(amp_scaled_dot_product_attention(
        p->q[type], p->k[type], p->v[type], .is_causal = p->s.causal != 0, .enable_gqa = p->s.heads != p->s.key_heads));
    amp_release(y);
}

/* Which kernel runs, as explain says. */
static void print_kernel(FILE *json, cuda_problem *p, int type) {
    static const char member[] = "\"kernel\": \"";
    const char *dtype = amp_dtype_name(op_cuda_types[type]);
    amp_explain_reset();
    amp_explain_begin();
    attend_on_cuda(p, type);
    amp_explain_end();
    char *report = amp_explain_report(AMP_EXPLAIN_JSON);
    bench_require(report != NULL, "a report");
    const char *name = strstr(report, member);
    name = name ? name + sizeof member - 1 : "\"";
    const int length = (int)strcspn(name, "\"");
    printf("  %.*s", length, name);
    if (json) fprintf(json, ", \"%s kernel\": \"%.*s\"", dtype, length, name);
    amp_explain_free(report);
}

static cuda_problem make_cuda_problem(shape s) {
    cuda_problem p = {.s = s};
    const amp_dims queries = AMP_DIMS(s.batch, s.heads, s.rows, s.depth);
    const amp_dims keys = AMP_DIMS(s.batch, s.key_heads, s.keys, s.depth);
    for (int t = 0; t < OP_CUDA_TYPES; t++) {
        p.q[t] = bench_tensor_on(AMP_DEVICE_CUDA, op_cuda_types[t], 2.0f, queries);
        p.k[t] = bench_tensor_on(AMP_DEVICE_CUDA, op_cuda_types[t], 2.0f, keys);
        p.v[t] = bench_tensor_on(AMP_DEVICE_CUDA, op_cuda_types[t], 2.0f, keys);
    }
    return p;
}

static void bench_shape_cuda(FILE *json, shape s, const amp_probe *units, double seconds, bool first) {
    (void)units;
    (void)amp_scope_enter();
    cuda_problem p = make_cuda_problem(s);
    print_shape(json, &s, first);
    for (int t = 0; t < OP_CUDA_TYPES; t++) print_kernel(json, &p, t);
    bench_op_cuda(json, attend_on_cuda, &p, operations(&s), seconds);
    if (json) fprintf(json, "}");
    (void)amp_scope_exit();
}

/* ---- Lists ------------------------------------------------------------------------------------------------------ */

typedef struct run {
    void (*shape)(FILE *json, shape s, const amp_probe *units, double seconds, bool first);
    amp_probe units[DTYPES];
    double seconds;
    FILE *json; /* or NULL */
    int shapes; /* so far */
} run;

static bool bench_list(run *r, const char *path) {
    FILE *list = bench_open(path, "r");
    char line[256];
    bool good = true;
    while (good && fgets(line, sizeof line, list)) {
        shape s;
        if (line[0] == '#' || line[strspn(line, " \t\n")] == '\0') continue;
        good = read_shape(line, &s);
        if (good)
            r->shape(r->json, s, r->units, r->seconds, r->shapes++ == 0);
        else
            fprintf(stderr,
                    "bench_attention: %s: '%.*s' is no shape: batch, heads, heads of keys, rows, keys, depth, causal\n",
                    path, (int)strcspn(line, "\n"), line);
    }
    fclose(list);
    return good;
}

static int bench_all(char **lists, double seconds, const char *file, bool cuda) {
    run r = {.shape = cuda ? bench_shape_cuda : bench_shape,
             .units = {bench_best_unit(false), bench_best_unit(true)},
             .seconds = seconds};
    bool good = true;
    r.json = file ? bench_open(file, "w") : NULL;
    if (!cuda)
        printf("%s, %d threads; peaks: f32 %s, bf16 %s\n", amp_cpu()->model, amp_get_num_threads(),
               amp_probe_name(r.units[0]), amp_probe_name(r.units[1]));
    if (r.json) {
        fprintf(r.json, "{");
        bench_print_machine(r.json);
        fprintf(r.json, ", \"device\": \"%s\", \"threads\": %d, \"shapes\": [", cuda ? "cuda" : "cpu",
                amp_get_num_threads());
    }
    for (; good && *lists; lists++) good = bench_list(&r, *lists);
    if (r.json) {
        fprintf(r.json, "]}\n");
        good = fclose(r.json) == 0 && good;
    }
    return good ? 0 : 2;
}

/* ---- On request ------------------------------------------------------------------------------------------------- */

static int serve(void) {
    char line[256];
    problem p = {0};
    while (fgets(line, sizeof line, stdin)) {
        shape s;
        if (!read_shape(line, &s)) return 2;
        if (memcmp(&s, &p.s, sizeof s) != 0) {
            if (p.s.batch) (void)amp_scope_exit();
            (void)amp_scope_enter();
            p = make_problem(s);
        }
        printf("%.9g\n", time_runs(&p, strstr(line, "bf16") != NULL));
        fflush(stdout);
    }
    if (p.s.batch) (void)amp_scope_exit();
    return 0;
}

#ifdef AMP_BENCH_CUDA

typedef struct cuda_request {
    cuda_problem p;
    int type;
} cuda_request;

static void answer_cuda(void *context) {
    cuda_request *r = context;
    attend_on_cuda(&r->p, r->type);
}

static int type_named(const char *name) {
    for (int t = 0; t < OP_CUDA_TYPES; t++)
        if (!strcmp(name, amp_dtype_name(op_cuda_types[t]))) return t;
    return -1;
}

/* Each shape has a scope of its own; the first answer for a type warms up. */
static int serve_cuda(void) {
    char line[256];
    cuda_request r = {0};
    int calls[OP_CUDA_TYPES] = {0};
    gpu_open();
    while (fgets(line, sizeof line, stdin)) {
        shape s;
        char *name = strrchr(line, ' ');
        line[strcspn(line, "\n")] = '\0';
        if (!read_shape(line, &s) || !name || (r.type = type_named(name + 1)) < 0) return 2;
        if (memcmp(&s, &r.p.s, sizeof s) != 0) {
            if (r.p.s.batch) (void)amp_scope_exit();
            (void)amp_scope_enter();
            r.p = make_cuda_problem(s);
            memset(calls, 0, sizeof calls);
        }
        if (!calls[r.type]) calls[r.type] = gpu_calls(answer_cuda, &r);
        printf("%.9g\n", gpu_time(answer_cuda, &r, calls[r.type]));
        fflush(stdout);
    }
    if (r.p.s.batch) (void)amp_scope_exit();
    gpu_close();
    return 0;
}

#else

static int serve_cuda(void) {
    return 2; /* there is no CUDA module without the toolkit either */
}

#endif

static int usage(void) {
    fprintf(stderr, "usage: bench_attention [--threads N] [--seconds S] [--clock cpu] [--json FILE] LIST...\n"
                    "       bench_attention --device cuda [--seconds S] [--json FILE] LIST...\n"
                    "       bench_attention [--threads N] [--clock cpu] [--device cuda] --serve\n");
    return 2;
}

int main(int argc, char **argv) {
    double seconds = 1.0;
    const char *file = NULL;
    bool serving = false, cuda = false;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        const char *value = at + 1 < argc ? argv[at + 1] : NULL;
        if (!strcmp(argv[at], "--serve")) {
            serving = true;
            continue;
        }
        if (!value) return usage();
        at++;
        if (!strcmp(argv[at - 1], "--threads")) {
            if (amp_set_num_threads(atoi(value)) != AMP_OK) return usage();
        } else if (!strcmp(argv[at - 1], "--seconds")) {
            seconds = atof(value);
        } else if (!strcmp(argv[at - 1], "--device")) {
            if (!bench_parse_device(&cuda, value)) return usage();
        } else if (!strcmp(argv[at - 1], "--clock")) {
            if (!bench_parse_clock(value)) return usage();
        } else if (!strcmp(argv[at - 1], "--json")) {
            file = value;
        } else {
            return usage();
        }
    }
    if (serving ? at < argc : at == argc) return usage();
    if (!bench_clock_suits(amp_get_num_threads())) return 2;
    omp_set_num_threads(amp_get_num_threads()); /* oneDNN's */
    if (serving && cuda) return serve_cuda();
    return serving ? serve() : bench_all(argv + at, seconds, file, cuda);
}
