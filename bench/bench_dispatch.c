/* What the way to a kernel costs: one call of a tiny op.
 *
 *     bench_dispatch [--rounds N] [--clock cpu] [--json]
 *     bench_dispatch --device cuda [--rounds N] [--json | --save FILE]      on a GPU: dispatch_cuda.h says what
 *
 *     add            amp_add of two one-element tensors and amp_release of the result, no region
 *     add_disabled   the same in a region that is switched off
 *     add_region     the same in a region (add falls through)
 *     linear_region  amp_linear 1 x 64 x 64, f32 arguments, in a region, its weight's cast cached
 *     gemm           the kernel under it: amp_gemm_bf16 over the packed weight, into memory that is there already
 *     mul            amp_mul of two one-element tensors
 *     mul_no_grad    the same inside of amp_no_grad, once a program has asked for gradients
 *     mul_recorded   the same of a leaf: both arguments are saved, and go with the result
 *
 * One thread, random data. Cases run in turn, round after round, the last two by themselves; figures are medians over
 * the rounds, and differences are medians of the differences within a round. */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_dispatch"
#include "bench_common.h"
#include "core/memory.h"
#include "cpu/registry/gemm.h"

enum { MAX_ROUNDS = 2001, CALLS = 2000, WIDTH = 64 };

#include "dispatch_cuda.h"

typedef struct operands {
    amp_tensor *a, *b; /* one element each */
    amp_tensor *leaf;  /* … */
    amp_tensor *x, *w; /* [1, WIDTH], [WIDTH, WIDTH] */
    void *packed;
    uint16_t *y;
} operands;

typedef struct bench_case {
    const char *name;
    void (*run)(const operands *o);
    double nanoseconds[MAX_ROUNDS]; /* per call */
} bench_case;

/* ---- Operands ------------------------------------------------------------------------------------------------- */
static operands make_operands(void) {
    operands o = {
        .a = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(1)),
        .b = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(1)),
        .leaf = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(1)),
        .x = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(1, WIDTH)),
        .w = bench_tensor(AMP_F32, 1.0f, AMP_DIMS(WIDTH, WIDTH)),
        .packed = amp_alloc(amp_gemm_packed_bytes(WIDTH, WIDTH)),
        .y = amp_alloc(WIDTH * sizeof(uint16_t)),
    };
    bench_require(o.packed && o.y, "memory");
    bench_require(amp_gemm_pack(o.packed, amp_data(o.w), AMP_F32, WIDTH, WIDTH, WIDTH, 1) == AMP_OK, "packing");
    return o;
}

static void free_operands(operands *o) {
    amp_release(o->a);
    amp_release(o->b);
    amp_release(o->leaf);
    amp_release(o->x);
    amp_release(o->w);
    amp_free(o->packed);
    amp_free(o->y);
}

/* ---- Cases ---------------------------------------------------------------------------------------------------- */
static void run_add(const operands *o) {
    for (int i = 0; i < CALLS; i++) amp_release(amp_add(o->a, o->b));
}

static void run_add_disabled(const operands *o) {
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(false)) run_add(o);
}

static void run_add_region(const operands *o) {
    amp_autocast(AMP_DEVICE_CPU) run_add(o);
}

static void run_linear(const operands *o) {
    amp_autocast(AMP_DEVICE_CPU) {
        for (int i = 0; i < CALLS; i++) amp_release(amp_linear(o->x, o->w));
    }
}

static void run_gemm(const operands *o) {
    const amp_gemm g = {
        .m = 1,
        .n = WIDTH,
        .k = WIDTH,
        .batch = 1,
        .a = amp_data(o->x),
        .a_dtype = AMP_F32,
        .a_row_stride = WIDTH,
        .a_column_stride = 1,
        .b = o->packed,
        .c = o->y,
        .c_dtype = AMP_BF16,
        .c_row_stride = WIDTH,
        .alpha = 1.0f,
    };
    for (int i = 0; i < CALLS; i++) bench_require(amp_gemm_bf16(&g, NULL) == AMP_OK, "gemm");
}

static void run_mul(const operands *o) {
    for (int i = 0; i < CALLS; i++) amp_release(amp_mul(o->leaf, o->b));
}

static void run_mul_no_grad(const operands *o) {
    amp_no_grad run_mul(o);
}

/* The cases from MUL_NO_GRAD on run when a leaf requires gradients: from then on every call of the process passes the
 * layer. */
enum { ADD, ADD_DISABLED, ADD_REGION, LINEAR_REGION, GEMM, MUL, MUL_NO_GRAD, MUL_RECORDED, CASES };

static bench_case cases[CASES] = {
    [ADD] = {.name = "add", .run = run_add},
    [ADD_DISABLED] = {.name = "add_disabled", .run = run_add_disabled},
    [ADD_REGION] = {.name = "add_region", .run = run_add_region},
    [LINEAR_REGION] = {.name = "linear_region", .run = run_linear},
    [GEMM] = {.name = "gemm", .run = run_gemm},
    [MUL] = {.name = "mul", .run = run_mul},
    [MUL_NO_GRAD] = {.name = "mul_no_grad", .run = run_mul_no_grad},
    [MUL_RECORDED] = {.name = "mul_recorded", .run = run_mul},
};

static void measure(const operands *o, int first, int end, int rounds) {
    for (int round = -3; round < rounds; round++) { /* the first ones warm up */
        for (int i = first; i < end; i++) {
            const double start = bench_now();
            cases[i].run(o);
            if (round >= 0) cases[i].nanoseconds[round] = (bench_now() - start) / CALLS * 1e9;
        }
    }
    bench_require(amp_last_status() == AMP_OK, "a case");
}

/* ---- Figures -------------------------------------------------------------------------------------------------- */
/* Median of one case, or of its distance from another (base >= 0). */
static bench_figure figure_of(int which, int base, int rounds) {
    double values[MAX_ROUNDS];
    for (int i = 0; i < rounds; i++) {
        values[i] = cases[which].nanoseconds[i] - (base >= 0 ? cases[base].nanoseconds[i] : 0);
    }
    return bench_figure_of(values, rounds);
}

static const struct {
    const char *name;
    int which, base;
    double target; /* nanoseconds */
} figures[] = {
    {"add", ADD, -1, 150},
    {"disabled region, over add", ADD_DISABLED, ADD, 5},
    {"linear in a region, over the kernel", LINEAR_REGION, GEMM, 150},
    {"mul without gradients, over mul", MUL_NO_GRAD, MUL, 10},
    {"mul recorded, over mul", MUL_RECORDED, MUL, 150},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

static void print_text(int rounds) {
    printf("libamp %s on %s, %s, one thread, median of %d rounds of %d calls\n", amp_version_string(), amp_cpu()->model,
           amp_isa_name(amp_isa_best()), rounds, CALLS);
    for (int i = 0; i < CASES; i++) printf("%-36s %8.1f ns\n", cases[i].name, figure_of(i, -1, rounds).median);
    printf("\n%-36s %11s %9s\n", "figure", "measured", "target");
    for (int i = 0; i < FIGURES; i++) {
        printf("%-36s %8.1f ns %6.0f ns\n", figures[i].name,
               figure_of(figures[i].which, figures[i].base, rounds).median, figures[i].target);
    }
}

static void print_json(int rounds) {
    printf("{");
    bench_print_machine(stdout);
    printf(", \"threads\": 1, \"rounds\": %d, \"calls\": %d, \"nanoseconds\": {", rounds, CALLS);
    for (int i = 0; i < CASES; i++)
        printf("%s\"%s\": %.2f", i ? ", " : "", cases[i].name, figure_of(i, -1, rounds).median);
    printf("}, \"figures\": [");
    for (int i = 0; i < FIGURES; i++) {
        const bench_figure f = figure_of(figures[i].which, figures[i].base, rounds);
        printf("%s{\"name\": \"%s\", \"nanoseconds\": %.2f, \"low\": %.2f, \"high\": %.2f, \"target\": %.0f}",
               i ? ", " : "", figures[i].name, f.median, f.low, f.high, figures[i].target);
    }
    printf("]}\n");
}

static int usage(void) {
    fprintf(stderr,
            "usage: bench_dispatch [--rounds N] [--clock cpu] [--json]     (N from 1 to %d)\n"
            "       bench_dispatch --device cuda [--rounds N] [--json | --save FILE]\n",
            MAX_ROUNDS);
    return 2;
}

static bool parse_option(bool *cuda, const char **file, const char *name, const char *value) {
    if (strcmp(name, "--clock") == 0) return bench_parse_clock(value);
    if (strcmp(name, "--device") == 0) return bench_parse_device(cuda, value);
    if (strcmp(name, "--save") != 0) return false;
    *file = value;
    return true;
}

int main(int argc, char **argv) {
    int rounds = 401;
    bool json = false, cuda = false;
    const char *file = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
            rounds = atoi(argv[++i]);
        } else if (i + 1 < argc && parse_option(&cuda, &file, argv[i], argv[i + 1])) {
            i++;
        } else {
            return usage();
        }
    }
    if (file && (json || !cuda)) return usage();
    if (rounds < 1 || rounds > MAX_ROUNDS) return usage();
    bench_require(amp_set_num_threads(1) == AMP_OK, "one thread");
    if (cuda) return bench_cuda(json, file, rounds);
    operands o = make_operands();
    measure(&o, 0, MUL_NO_GRAD, rounds);
    bench_require(amp_tensor_set_requires_grad(o.leaf, true) == AMP_OK, "a leaf");
    measure(&o, MUL_NO_GRAD, CASES, rounds);
    (json ? print_json : print_text)(rounds);
    free_operands(&o);
    return 0;
}
