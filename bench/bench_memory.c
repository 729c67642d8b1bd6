/* Memory of the demo's model, f32 and bf16, each in a process of its own: peak resident set, bytes of cached casts, and
 * what a steady loop still asks of the system.
 *
 *     bench_memory [--model DIR] [--json]
 */
#include <amp/amp.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "minilm.h"

enum { F32, BF16, PRECISIONS, BATCH = 32, TOKENS = 64, WARM_PASSES = 2, COUNTED_PASSES = 20 };

static const char *const precision_names[] = {"f32", "bf16"};

/* What a child measures. Peaks are of the whole process, the mapped weights included as far as they were read. */
typedef struct figures {
    long opened_kb;            /* resident once the model is open: the weights are mapped, not yet read */
    long peak_kb;              /* highest resident set */
    size_t cast_bytes;         /* packed weights in the cast cache */
    size_t steady_allocations; /* from the system, during COUNTED_PASSES passes after the first ones */
} figures;

static int64_t ids[BATCH * TOKENS];
static int lengths[BATCH];
static float embeddings[BATCH * MINILM_WIDTH];

static long status_kb(const char *field) {
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, field, strlen(field)) == 0) kb = strtol(line + strlen(field) + 1, NULL, 10);
    }
    if (file) fclose(file);
    return kb;
}

static void pass(const minilm *model, int precision) {
    for (int i = 0; i < BATCH * TOKENS; i++) ids[i] = 1000 + rand() % 29000;
    for (int i = 0; i < BATCH; i++) lengths[i] = TOKENS;
    amp_autocast(AMP_DEVICE_CPU, .enabled = AMP_SET(precision == BF16)) {
        minilm_embed(model, ids, lengths, BATCH, TOKENS, embeddings);
    }
}

static bool measure(const char *folder, int precision, figures *f) {
    minilm *model = minilm_open(folder);
    if (!model) return false;
    f->opened_kb = status_kb("VmRSS");
    for (int i = 0; i < WARM_PASSES; i++) pass(model, precision);
    const size_t before = amp_memory_statistics().system_allocations;
    for (int i = 0; i < COUNTED_PASSES; i++) pass(model, precision);
    f->steady_allocations = amp_memory_statistics().system_allocations - before;
    f->cast_bytes = amp_cast_cache_statistics().bytes;
    f->peak_kb = status_kb("VmHWM");
    minilm_close(model);
    return amp_last_status() == AMP_OK;
}

/* Runs `measure` in a child and brings its figures back through a pipe. */
static bool measure_apart(const char *folder, int precision, figures *f) {
    int ends[2], status = 0;
    if (pipe(ends) != 0) return false;
    const pid_t child = fork();
    if (child == 0) {
        const bool done = measure(folder, precision, f);
        if (!done) fprintf(stderr, "bench_memory: %s\n", amp_last_error());
        _exit(done && write(ends[1], f, sizeof *f) == (ssize_t)sizeof *f ? 0 : 1);
    }
    close(ends[1]);
    const bool read_all = child > 0 && read(ends[0], f, sizeof *f) == (ssize_t)sizeof *f;
    close(ends[0]);
    if (child > 0) waitpid(child, &status, 0);
    return read_all && status == 0;
}

static void print_table(const figures *all) {
    printf("MiniLM %dx%d tokens, %d passes after %d; libamp %s, %s\n\n", BATCH, TOKENS, COUNTED_PASSES, WARM_PASSES,
           amp_version_string(), amp_cpu()->model);
    printf("%-5s %14s %14s %18s %26s\n", "", "opened, MB", "peak, MB", "packed weights, MB",
           "steady system allocations");
    for (int p = 0; p < PRECISIONS; p++) {
        printf("%-5s %14.1f %14.1f %18.1f %26zu\n", precision_names[p], (double)all[p].opened_kb / 1024,
               (double)all[p].peak_kb / 1024, (double)all[p].cast_bytes / (1 << 20), all[p].steady_allocations);
    }
    const double allowed = (double)all[F32].peak_kb / 1024 + (double)all[BF16].cast_bytes / (1 << 20);
    printf("\nbf16 peak %.1f MB; f32 peak + packed bf16 weights %.1f MB\n", (double)all[BF16].peak_kb / 1024, allowed);
}

static void print_json(const figures *all) {
    printf("{\"libamp\": \"%s\", \"cpu\": \"%s\", \"batch\": %d, \"tokens\": %d", amp_version_string(),
           amp_cpu()->model, BATCH, TOKENS);
    for (int p = 0; p < PRECISIONS; p++) {
        printf(", \"%s\": {\"opened_kb\": %ld, \"peak_kb\": %ld, \"cast_bytes\": %zu, \"steady_allocations\": %zu}",
               precision_names[p], all[p].opened_kb, all[p].peak_kb, all[p].cast_bytes, all[p].steady_allocations);
    }
    puts("}");
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"model", required_argument, NULL, 'm'}, {"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
    const char *folder = ".deps/models/all-MiniLM-L6-v2";
    bool json = false;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'm') folder = optarg;
        if (c == 'j') json = true;
        if (c == '?') return 2;
    }
    figures all[PRECISIONS] = {{0}};
    for (int p = 0; p < PRECISIONS; p++) {
        if (!measure_apart(folder, p, &all[p])) return 1;
    }
    if (json) {
        print_json(all);
    } else {
        print_table(all);
    }
    return 0;
}
