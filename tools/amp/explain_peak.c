/* amp explain: what this machine's cores can do at best, all threads of the report at once. */
#include "explain_peak.h"

#include <pthread.h>
#include <string.h>

#include "amp/system.h"
#include "machine/peak.h"

enum { MOST_THREADS = 256, ROUNDS = 8 };
static const double round_microseconds = 1500;

/* All threads begin each unit together: cores that are all busy may run slower than one. */
typedef struct probing {
    pthread_barrier_t barrier;
    double rates[MOST_THREADS][AMP_PROBE_COUNT];
} probing;

typedef struct prober {
    probing *all;
    int index;
} prober;

static void *probe(void *context) {
    const prober *p = context;
    for (int unit = 0; unit < AMP_PROBE_COUNT; unit++) {
        pthread_barrier_wait(&p->all->barrier);
        p->all->rates[p->index][unit] = amp_probe_rate((amp_probe)unit, ROUNDS, round_microseconds);
    }
    return NULL;
}

/* Sums over the threads; false where they cannot all be started. */
static bool probe_all(int threads, double sums[AMP_PROBE_COUNT]) {
    static probing all;
    static prober probers[MOST_THREADS];
    pthread_t ids[MOST_THREADS];
    int started = 0;
    if (pthread_barrier_init(&all.barrier, NULL, (unsigned)threads) != 0) return false;
    for (; started < threads; started++) {
        probers[started] = (prober){.all = &all, .index = started};
        if (pthread_create(&ids[started], NULL, probe, &probers[started]) != 0) return false;
    }
    for (int i = 0; i < started; i++) pthread_join(ids[i], NULL);
    for (int unit = 0; unit < AMP_PROBE_COUNT; unit++) {
        sums[unit] = 0;
        for (int i = 0; i < threads; i++) sums[unit] += all.rates[i][unit];
    }
    return true;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* A report of another machine, or from before there were its cores, has no peak here. */
static bool is_of_here(const json_t *report) {
    const char *model = json_string_value(json_object_get(report, "cpu"));
    const char *isa = json_string_value(json_object_get(report, "isa"));
    return model && isa && strcmp(model, amp_cpu()->model) == 0 && strcmp(isa, amp_isa_name(amp_isa_best())) == 0;
}

static bool has_operations(const json_t *report) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(report, "ops"), i, row) {
        if (json_is_number(json_object_get(row, "operations"))) return true;
    }
    return false;
}

void amp_explain_add_peak(json_t *report) {
    double sums[AMP_PROBE_COUNT];
    int threads = (int)json_integer_value(json_object_get(report, "threads"));
    if (json_object_get(report, "peak") || !is_of_here(report) || !has_operations(report)) return;
    if (threads > amp_cpu()->logical_cpus) threads = amp_cpu()->logical_cpus;
    if (threads < 1 || threads > MOST_THREADS || !probe_all(threads, sums)) return;
    const double f32 = larger(sums[AMP_PROBE_FMA_AVX2], sums[AMP_PROBE_FMA_AVX512]);
    const double bf16 = larger(sums[AMP_PROBE_DOT_AVX512BF16], sums[AMP_PROBE_DOT_AMX]);
    if (f32 <= 0) return;
    json_object_set_new(report, "peak",
                        json_pack("{s:i, s:{s:f, s:f, s:f}}", "threads", threads, "dtypes", "f64", f32 / 2, "f32", f32,
                                  "bf16", larger(f32, bf16)));
}
