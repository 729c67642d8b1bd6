/* Bandwidth of every conversion kernel, of the strided copy, and of memcpy beside them: GB read and written a second,
 * one thread, random data, median of rounds in which all take turns.
 *
 *     bench_convert [--json] [--rounds N] */
#define _GNU_SOURCE /* clock_gettime */
#define BENCH_NAME "bench_convert"
#include "bench_common.h"
#include "cpu/convert/strided_copy.h"
#include "cpu/registry/kernels.h"

enum { MAX_SUBJECTS = 64, MAX_ROUNDS = 101 };

static const struct {
    const char *name;
    int64_t elements; /* a square, for the transposes */
} places[] = {{"L1", 64 * 64}, {"L2", 320 * 320}, {"DRAM", 4096 * 4096}};

typedef struct subject {
    char name[64];
    amp_dtype dst, src;
    const amp_kernel *kernel; /* NULL: memcpy, or a copy whose src is transposed */
    bool transposed;
    double seconds[MAX_ROUNDS];
} subject;

static subject subjects[MAX_SUBJECTS];
static int subject_count;

static void add_subject(const char *name, amp_dtype dst, amp_dtype src, const amp_kernel *kernel, bool transposed) {
    subject *s = &subjects[subject_count++];
    snprintf(s->name, sizeof s->name, "%s", name);
    s->dst = dst;
    s->src = src;
    s->kernel = kernel;
    s->transposed = transposed;
}

static void add_subjects(void) {
    add_subject("memcpy", AMP_F32, AMP_F32, NULL, false);
    for (int i = 0; i < amp_kernel_count() && subject_count < MAX_SUBJECTS - 4; i++) {
        const amp_kernel *k = amp_kernel_at(i);
        const bool converts = k->family == AMP_KERNEL_CONVERT;
        if (converts && amp_kernel_usable(k, NULL)) add_subject(k->name, k->out, k->in, k, false);
    }
    add_subject("transpose f32", AMP_F32, AMP_F32, NULL, true);
    add_subject("transpose bf16", AMP_BF16, AMP_BF16, NULL, true);
    add_subject("transpose f32 to bf16", AMP_BF16, AMP_F32, NULL, true);
}

static void run_once(const subject *s, void *dst, const void *src, int64_t n) {
    int64_t side = 1;
    while (side * side < n) side++;
    if (s->kernel) {
        ((amp_convert_function *)s->kernel->function)(dst, src, n);
    } else if (s->transposed) {
        amp_strided_copy(dst, s->dst, (int64_t[]){side, 1}, src, s->src, (int64_t[]){1, side}, 2,
                         (int64_t[]){side, side});
    } else {
        memcpy(dst, src, (size_t)n * amp_dtype_size(s->dst));
    }
}

/* Seconds of one run: so many that together they last 2 ms. */
static double time_subject(const subject *s, void *dst, const void *src, int64_t n) {
    int64_t runs = 1;
    for (;;) {
        const double start = bench_now();
        for (int64_t i = 0; i < runs; i++) {
            run_once(s, dst, src, n);
            __asm__ volatile("" : : "r"(dst) : "memory");
        }
        const double spent = bench_now() - start;
        if (spent > 2e-3) return spent / (double)runs;
        runs = spent > 1e-4 ? (int64_t)((double)runs * 2.5e-3 / spent) + 1 : runs * 8;
    }
}

/* Uniform in ±4. */
static void fill(void *data, amp_dtype dtype, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float value = 4.0f * bench_uniform();
        if (dtype == AMP_F32) ((float *)data)[i] = value;
        if (dtype == AMP_BF16) ((uint16_t *)data)[i] = amp_bf16_from_f32(value);
        if (dtype == AMP_F16) ((uint16_t *)data)[i] = amp_f16_from_f32(value);
    }
}

static double gigabytes(const subject *s, int64_t n) {
    return 1e-9 * (double)n * (double)(amp_dtype_size(s->dst) + amp_dtype_size(s->src));
}

static void measure(int place, int rounds, bool json) {
    const int64_t n = places[place].elements;
    void *src[AMP_DTYPE_COUNT] = {0}, *dst = aligned_alloc(64, (size_t)n * 4);
    const amp_dtype dtypes[] = {AMP_F32, AMP_BF16, AMP_F16};
    for (int i = 0; i < 3; i++) {
        src[dtypes[i]] = aligned_alloc(64, (size_t)n * 4);
        if (!dst || !src[dtypes[i]]) exit(1);
        fill(src[dtypes[i]], dtypes[i], n);
    }
    for (int r = 0; r < rounds; r++) {
        for (int i = 0; i < subject_count; i++)
            subjects[i].seconds[r] = time_subject(&subjects[i], dst, src[subjects[i].src], n);
    }
    for (int i = 0; i < subject_count; i++) {
        const subject *s = &subjects[i];
        const double rate = gigabytes(s, n) / bench_median(s->seconds, rounds);
        const double of_memcpy = rate / (gigabytes(&subjects[0], n) / bench_median(subjects[0].seconds, rounds));
        if (json)
            printf("%s\n  {\"place\": \"%s\", \"elements\": %lld, \"name\": \"%s\", \"gb_per_s\": %.2f, \"of_memcpy\": "
                   "%.3f}",
                   place || i ? "," : "", places[place].name, (long long)n, s->name, rate, of_memcpy);
        else
            printf("%-5s %-40s %8.1f GB/s %7.2f of memcpy\n", places[place].name, s->name, rate, of_memcpy);
    }
    for (int i = 0; i < 3; i++) free(src[dtypes[i]]);
    free(dst);
}

int main(int argc, char **argv) {
    bool json = false;
    int rounds = 21;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) {
            json = true;
            continue;
        }
        if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
            rounds = atoi(argv[++i]);
        else
            rounds = 0;
        if (rounds < 1 || rounds > MAX_ROUNDS) {
            fprintf(stderr, "usage: bench_convert [--json] [--rounds 1..%d]\n", MAX_ROUNDS);
            return 2;
        }
    }
    if (amp_set_num_threads(1) != AMP_OK) return 1;
    bench_clock = CLOCK_THREAD_CPUTIME_ID; /* what others run meanwhile is not ours */
    add_subjects();
    if (json) {
        printf("{");
        bench_print_machine(stdout);
        printf(", \"rounds\": %d, \"results\": [", rounds);
    } else {
        printf("%s, libamp %s, best instruction set %s, one thread, median of %d rounds\n", amp_cpu()->model,
               amp_version_string(), amp_isa_name(amp_isa_best()), rounds);
    }
    for (int place = 0; place < (int)(sizeof places / sizeof *places); place++) measure(place, rounds, json);
    if (json) printf("\n]}\n");
    return 0;
}
