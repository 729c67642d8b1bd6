/* scaled_dot_product_attention in f32 and bf16, through the API, on random data.
 *
 *     bench_attention [--threads N] [--seconds S] [--shapes B,H,KV,L,S,D,C;…] [--clock cpu] [--json FILE]
 *     bench_attention [--threads N] [--clock cpu] --serve
 *
 * A shape is batch, heads, heads of key and value, rows, keys, depth, and 1 where causal. Both dtypes take turns, round
 * after round; figures are medians. With --serve, each line "SHAPE f32|bf16" on the standard input is answered by the
 * seconds of one call, the mean of a burst: bench/peers_attention.py lets it take turns with PyTorch. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_attention"
#include <inttypes.h>

#include "bench_common.h"

enum { MAX_ROUNDS = 400, DTYPES = 2 };

typedef struct shape {
    int64_t batch, heads, key_heads, rows, keys, depth, causal;
} shape;

static const char default_shapes[] =
    "1,8,8,128,128,64,0;1,8,8,512,512,64,0;1,8,8,1024,1024,64,0;1,8,8,4096,4096,64,0;1,8,8,1024,1024,64,1;"
    "1,8,8,128,128,128,0;1,8,8,512,512,128,0;1,8,8,1024,1024,128,0;1,8,8,4096,4096,128,0;1,8,8,1024,1024,128,1;"
    "1,32,8,1024,1024,128,1;1,12,12,32,32,32,0;32,12,12,64,64,32,0;1,32,32,1,4096,128,0;1,32,8,1,4096,128,0";

static const amp_dtype dtypes[DTYPES] = {AMP_F32, AMP_BF16};
static void *require(void *p) {
    bench_require(p != NULL, "a call");
    return p;
}

/* ---- One shape -------------------------------------------------------------------------------------------------- */

typedef struct problem {
    shape s;
    amp_tensor *q[DTYPES], *k[DTYPES], *v[DTYPES];
    int repeats[DTYPES];
} problem;

static amp_tensor *random_tensor(int64_t batch, int64_t heads, int64_t rows, int64_t depth) {
    const int64_t sizes[4] = {batch, heads, rows, depth}, n = batch * heads * rows * depth;
    float *x = malloc((size_t)n * sizeof *x);
    bench_require(x != NULL, "allocation");
    for (int64_t i = 0; i < n; i++) x[i] = 2.0f * bench_uniform();
    amp_tensor *t = require(amp_from_data(x, AMP_F32, 4, sizes));
    free(x);
    return t;
}

static void run_once(const problem *p, int which) {
    (void)amp_scope_enter();
    require(amp_scaled_dot_product_attention(p->q[which], p->k[which], p->v[which], .is_causal = p->s.causal != 0,
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
    p.q[0] = random_tensor(s.batch, s.heads, s.rows, s.depth);
    p.k[0] = random_tensor(s.batch, s.key_heads, s.keys, s.depth);
    p.v[0] = random_tensor(s.batch, s.key_heads, s.keys, s.depth);
    p.q[1] = require(amp_to(p.q[0], .dtype = AMP_BF16));
    p.k[1] = require(amp_to(p.k[0], .dtype = AMP_BF16));
    p.v[1] = require(amp_to(p.v[0], .dtype = AMP_BF16));
    for (int i = 0; i < DTYPES; i++) warm_up(&p, i);
    return p;
}

static bool read_shape(const char *text, shape *s, int *used) {
    return sscanf(text, "%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 "%n",
                  &s->batch, &s->heads, &s->key_heads, &s->rows, &s->keys, &s->depth, &s->causal, used) == 7;
}

/* ---- A table ---------------------------------------------------------------------------------------------------- */

/* Multiply-adds count twice; half of them where causality hides half of the scores. */
static double operations(const shape *s) {
    const double scores = (double)s->batch * (double)s->heads * (double)s->rows * (double)s->keys;
    return scores * (double)s->depth * (s->causal ? 2.0 : 4.0);
}

static void bench_shape(FILE *json, shape s, double seconds, bool first) {
    static double times[DTYPES][MAX_ROUNDS];
    (void)amp_scope_enter();
    const problem p = make_problem(s);
    const double end = bench_wall() + seconds;
    int rounds = 0;
    for (; rounds < MAX_ROUNDS && (rounds < 5 || bench_wall() < end); rounds++) {
        for (int i = 0; i < DTYPES; i++) times[i][rounds] = time_runs(&p, i);
    }
    printf("%3" PRId64 " × %2" PRId64 "/%-2" PRId64 " heads, %4" PRId64 " × %4" PRId64 ", depth %3" PRId64 "%s",
           s.batch, s.heads, s.key_heads, s.rows, s.keys, s.depth, s.causal ? ", causal" : "        ");
    if (json) {
        fprintf(json,
                "%s\n{\"shape\": \"%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
                "\", \"rounds\": %d",
                first ? "" : ",", s.batch, s.heads, s.key_heads, s.rows, s.keys, s.depth, s.causal, rounds);
    }
    for (int i = 0; i < DTYPES; i++) {
        const bench_figure f = bench_figure_of(times[i], rounds);
        const double t = f.median, rate = operations(&s) / t * 1e-9;
        printf("  %s %10.1f µs %7.1f GFLOP/s", amp_dtype_name(dtypes[i]), t * 1e6, rate);
        if (json)
            fprintf(json, ", \"%s\": {\"us\": %.3f, \"low_us\": %.3f, \"high_us\": %.3f, \"gflops\": %.2f}",
                    amp_dtype_name(dtypes[i]), t * 1e6, f.low * 1e6, f.high * 1e6, rate);
    }
    printf("\n");
    fflush(stdout);
    if (json) fprintf(json, "}");
    (void)amp_scope_exit();
}

static int bench_all(const char *shapes, double seconds, const char *file) {
    FILE *json = file ? bench_open(file, "w") : NULL;
    printf("%s, %d threads\n", amp_cpu()->model, amp_get_num_threads());
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(json, ", \"threads\": %d, \"shapes\": [", amp_get_num_threads());
    }
    bool first = true;
    for (const char *at = shapes; *at; first = false) {
        shape s;
        int used = 0;
        if (!read_shape(at, &s, &used)) {
            fprintf(stderr, "bench_attention: '%s' is no shape B,H,KV,L,S,D,C\n", at);
            return 2;
        }
        bench_shape(json, s, seconds, first);
        at += used + (at[used] == ';');
    }
    if (json) fprintf(json, "]}\n");
    return json && fclose(json) != 0;
}

/* ---- On request ------------------------------------------------------------------------------------------------- */

static int serve(void) {
    char line[256];
    problem p = {0};
    while (fgets(line, sizeof line, stdin)) {
        shape s;
        int used = 0;
        if (!read_shape(line, &s, &used)) return 2;
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

static int usage(void) {
    fprintf(stderr, "usage: bench_attention [--threads N] [--seconds S] [--shapes B,H,KV,L,S,D,C;…] [--clock cpu] "
                    "[--json FILE | --serve]\n");
    return 2;
}

int main(int argc, char **argv) {
    double seconds = 1.0;
    const char *shapes = default_shapes, *file = NULL;
    bool serving = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--serve")) {
            serving = true;
            continue;
        }
        if (!value) return usage();
        i++;
        if (!strcmp(argv[i - 1], "--threads")) {
            if (amp_set_num_threads(atoi(value)) != AMP_OK) return usage();
        } else if (!strcmp(argv[i - 1], "--seconds")) {
            seconds = atof(value);
        } else if (!strcmp(argv[i - 1], "--shapes")) {
            shapes = value;
        } else if (!strcmp(argv[i - 1], "--clock")) {
            if (!bench_parse_clock(value)) return usage();
        } else if (!strcmp(argv[i - 1], "--json")) {
            file = value;
        } else {
            return usage();
        }
    }
    if (!bench_clock_suits(amp_get_num_threads())) return 2;
    return serving ? serve() : bench_all(shapes, seconds, file);
}
