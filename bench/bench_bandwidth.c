/* Elementwise ops of a GPU on tensors that no cache holds, against what its memory can do.
 *
 *     bench_bandwidth [--seconds S] [--elements N] [--json FILE]       N: 134217728, which is 256 MB of f16
 *
 * add, relu and gelu in f32 and f16, and the driver's own copy from device memory to device memory, in turns, by the
 * device's clock (bench_cuda.h). Bytes are those that an op has to read and to write, once; a copy reads and writes
 * its bytes. A share is of the peak: clock and width of the memory's bus, as the driver tells them; beside it stands
 * the share of what the copy reached in the same round. Random data. */
#define _GNU_SOURCE /* clock_gettime, RTLD_* */
#define BENCH_NAME "bench_bandwidth"
#include "bench_common.h"

#include "bench_cuda.h"

#ifdef AMP_BENCH_CUDA

enum { PRECISIONS = 2, OPS = 3, ROWS = PRECISIONS * OPS, MAX_ROUNDS = 400, LEAST_ROUNDS = 5 };

static const amp_dtype dtypes[PRECISIONS] = {AMP_F32, AMP_F16};

typedef struct row {
    const char *name;
    amp_dtype dtype;
    int streams; /* tensors that are read or written */
    const amp_tensor *a, *b;
    amp_tensor *(*run)(const struct row *r);
    int calls;
    double rates[MAX_ROUNDS], of_copy[MAX_ROUNDS]; /* bytes a second; the share */
} row;

static amp_tensor *run_add(const row *r) {
    return amp_add((amp_tensor *)r->a, (amp_tensor *)r->b);
}
static amp_tensor *run_relu(const row *r) {
    return amp_relu((amp_tensor *)r->a);
}
static amp_tensor *run_gelu(const row *r) {
    return amp_gelu((amp_tensor *)r->a);
}

static const struct {
    const char *name;
    int streams;
    amp_tensor *(*run)(const row *r);
} ops[OPS] = {{"add", 3, run_add}, {"relu", 2, run_relu}, {"gelu", 2, run_gelu}};

static row rows[ROWS];
static double copies[MAX_ROUNDS]; /* bytes a second */

static void enqueue_row(void *context) {
    amp_tensor *y = ((row *)context)->run(context);
    bench_require(y != NULL, ((row *)context)->name);
    amp_release(y);
}

typedef struct copy_of {
    CUdeviceptr to, from;
    size_t bytes;
} copy_of;

static void enqueue_copy(void *context) {
    const copy_of *c = context;
    gpu_require(gpu.copy(c->to, c->from, c->bytes, gpu.stream), "a copy");
}

static amp_tensor *random_on_device(int64_t elements) {
    return bench_tensor_on(AMP_DEVICE_CUDA, AMP_F32, 1.0f, AMP_DIMS(elements));
}

/* The tensors of f32 come first: the copy goes from one to the other. */
static copy_of make_rows(int64_t elements) {
    amp_tensor *a = random_on_device(elements), *b = random_on_device(elements), *scratch = random_on_device(elements);
    for (int i = 0; i < ROWS; i++) {
        const amp_dtype dtype = dtypes[i / OPS];
        if (i == OPS) {
            a = amp_to(a, dtype);
            b = amp_to(b, dtype);
            bench_require(a && b, "a tensor of f16");
        }
        rows[i] = (row){.name = ops[i % OPS].name,
                        .dtype = dtype,
                        .streams = ops[i % OPS].streams,
                        .a = a,
                        .b = b,
                        .run = ops[i % OPS].run};
        rows[i].calls = gpu_calls(enqueue_row, &rows[i]);
    }
    const uintptr_t to = (uintptr_t)gpu_address(scratch), from = (uintptr_t)gpu_address((amp_tensor *)rows[0].a);
    return (copy_of){to, from, (size_t)elements * sizeof(float)};
}

static int measure(copy_of *copy, int64_t elements, double seconds) {
    const int copy_calls = gpu_calls(enqueue_copy, copy);
    const double end = bench_wall() + seconds;
    int rounds = 0;
    for (; rounds < MAX_ROUNDS && (rounds < LEAST_ROUNDS || bench_wall() < end); rounds++) {
        copies[rounds] = 2.0 * (double)copy->bytes / gpu_time(enqueue_copy, copy, copy_calls);
        for (int i = 0; i < ROWS; i++) {
            row *r = &rows[rounds % 2 ? ROWS - 1 - i : i];
            const double bytes = (double)elements * r->streams * (double)amp_dtype_size(r->dtype);
            r->rates[rounds] = bytes / gpu_time(enqueue_row, r, r->calls);
            r->of_copy[rounds] = r->rates[rounds] / copies[rounds];
        }
    }
    return rounds;
}

static double share_of_peak(double rate) {
    return gpu.peak > 0 ? rate / gpu.peak : 0;
}

static void print_rows(FILE *json, int64_t elements, int rounds) {
    const double copy = bench_median(copies, rounds);
    printf("%s: peak of its memory %.1f GB/s, a copy %.1f GB/s (%.1f %%); %lld elements, %d rounds\n\n", gpu.model,
           gpu.peak * 1e-9, copy * 1e-9, 100 * share_of_peak(copy), (long long)elements, rounds);
    printf("%-8s%-6s%12s%12s%12s\n", "op", "type", "GB/s", "of peak", "of a copy");
    if (json) {
        fprintf(json, "{");
        bench_print_machine(json);
        fprintf(json, ", \"device\": \"cuda\", ");
        gpu_print(json);
        fprintf(json,
                ", \"elements\": %lld, \"rounds\": %d, \"peak_gb_per_s\": %.2f, \"copy_gb_per_s\": %.2f, \"rows\": [",
                (long long)elements, rounds, gpu.peak * 1e-9, copy * 1e-9);
    }
    for (int i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        const double rate = bench_median(r->rates, rounds), of_copy = bench_median(r->of_copy, rounds);
        const char *type = amp_dtype_name(r->dtype);
        printf("%-8s%-6s%12.1f%10.1f %%%10.1f %%\n", r->name, type, rate * 1e-9, 100 * share_of_peak(rate),
               100 * of_copy);
        if (json)
            fprintf(json,
                    "%s\n {\"op\": \"%s\", \"type\": \"%s\", \"gb_per_s\": %.2f, \"of_peak\": %.4f, \"of_copy\": %.4f}",
                    i ? "," : "", r->name, type, rate * 1e-9, share_of_peak(rate), of_copy);
    }
    if (json) fprintf(json, "]}\n");
}

static int run(int64_t elements, double seconds, const char *file) {
    bool cuda;
    bench_require(bench_parse_device(&cuda, "cuda") && amp_scope_enter() == AMP_OK, "the device");
    gpu_open();
    copy_of copy = make_rows(elements);
    const int rounds = measure(&copy, elements, seconds);
    FILE *json = file ? bench_open(file, "w") : NULL;
    print_rows(json, elements, rounds);
    gpu_close();
    if (json) fclose(json);
    return amp_scope_exit() == AMP_OK ? 0 : 1;
}

#else

static int run(int64_t elements, double seconds, const char *file) {
    (void)elements, (void)seconds, (void)file;
    fprintf(stderr, "bench_bandwidth: built without the CUDA toolkit\n");
    return 1;
}

#endif

int main(int argc, char **argv) {
    long long elements = 1LL << 27;
    double seconds = 1.0;
    const char *file = NULL;
    bool good = argc % 2 == 1;
    for (int i = 1; good && i < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds"))
            good = (seconds = atof(argv[i + 1])) > 0;
        else if (!strcmp(argv[i], "--elements"))
            good = (elements = atoll(argv[i + 1])) > 0 && elements <= 1LL << 31;
        else if (!strcmp(argv[i], "--json"))
            file = argv[i + 1];
        else
            good = false;
    }
    if (good) return run(elements, seconds, file);
    fprintf(stderr, "usage: bench_bandwidth [--seconds S] [--elements N] [--json FILE]\n");
    return 2;
}
