/* The table of choices, their measurements, and the file that keeps them. */
#define _GNU_SOURCE /* clock_gettime, mkdir */
#include "cpu/choices.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "amp/system.h"
#include "core/build.h"
#include "core/fail.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/memory.h"
#include "core/number.h"
#include "cpu/dnnl/dnnl_matmul.h"
#include "cpu/gemm/gemm.h"
#include "machine/peak.h"

/* Operations per second of the two ways; a way that is not there has the rate 0. */
typedef struct rates {
    double yes, no;
} rates;

static rates measure_gemm_dot(void);
static rates measure_gemm_f32(void);
static bool rule_gemm_dot(void);
static bool rule_gemm_f32(void);

static const struct {
    const char *name, *yes, *no;
    rates (*measure)(void);
    bool (*rule)(void);
} choices[AMP_CHOICE_COUNT] = {
    [AMP_CHOICE_GEMM_DOT] = {"gemm_dot", "vdpbf16ps", "up-conversion and FMA", measure_gemm_dot, rule_gemm_dot},
    [AMP_CHOICE_GEMM_F32] = {"gemm_f32", "libamp's packed kernel", "oneDNN", measure_gemm_f32, rule_gemm_f32},
};

/* The names of the kinds of a family begin with its own. */
static const struct {
    const char *prefix, *yes, *no;
} families[AMP_CHOICE_FAMILIES] = {
    [AMP_CHOICE_CONV] = {"conv_", "libamp's kernel", "oneDNN"},
    [AMP_CHOICE_GEMM_F32_KIND] = {"gemm_f32_", "libamp's packed kernel", "oneDNN"},
};

/* What is recorded as slower is not run. A tie, within the noise of a measurement, goes to our own kernels. */
static bool yes_wins(rates r) {
    return r.yes >= 0.97 * r.no;
}

enum { KIND_NAME = 80, SLOTS = 4 * AMP_CHOICE_KINDS };

typedef struct answer {
    bool known, yes;
    amp_choice_origin origin;
    rates rates;
} answer;

/* An answer for a kind of problem, known by its word in the file. */
typedef struct kind_row {
    char name[KIND_NAME];
    amp_choice_family family;
    answer answer;
} kind_row;

typedef enum tune_mode { TUNE_FILE, TUNE_OFF, TUNE_FRESH, TUNE_MEMORY, TUNE_INVALID } tune_mode;

static struct {
    atomic_bool ready; /* the environment and the file have been read */
    tune_mode mode;
    char word[32]; /* AMP_TUNE where it is invalid */
    char path[PATH_MAX];
    answer answers[AMP_CHOICE_COUNT];
    atomic_int quick[AMP_CHOICE_COUNT]; /* 0: not known yet; 1: yes; -1: no */
    kind_row kinds[AMP_CHOICE_KINDS];
    int kind_count;
    /* Answers by the hash of a kind, whose lowest bits say YES or NO; linear probing. */
    _Atomic uint64_t slots[SLOTS];
} state;

/* ---- Measurements --------------------------------------------------------------------------------------------- */
enum { TURNS = 12, LEAST_TURNS = 3 };
static const double enough_seconds = 0.02;

static double best_of(double a, double b) {
    return a > b ? a : b;
}

/* Interleaved, so that a slow moment of the machine hits both. */
static rates measure_gemm_dot(void) {
    rates best = {0.0, 0.0};
    for (int i = 0; i < 4; i++) {
        best.no = best_of(best.no, amp_probe_rate(AMP_PROBE_FMA_AVX512, 2, 10.0));
        best.yes = best_of(best.yes, amp_probe_rate(AMP_PROBE_DOT_AVX512BF16, 2, 10.0));
    }
    return best;
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double amp_choice_seconds(void) {
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

/* The first turn makes what is kept: self-tests, primitives, packed forms. */
void amp_choice_time(double (*time)(const void *context, bool yes), const void *context, double operations, double *yes,
                     double *no) {
    double spent = 0.0;
    for (int i = -1; i < TURNS && (i < LEAST_TURNS || spent < enough_seconds); i++) {
        const double a = time(context, true), b = time(context, false);
        if (a <= 0.0 || b <= 0.0) break;
        if (i < 0) continue;
        spent += a + b;
        *yes = best_of(*yes, operations / a);
        *no = best_of(*no, operations / b);
    }
}

/* So small that one thread computes it: other programs of the machine disturb a team more than a thread. */
enum { ROWS = 32, COLUMNS = 64, DEPTH = 128, F32_ROUNDS = 100 };

typedef struct f32_problem {
    float *a, *b, *c;
    void *packed;
} f32_problem;

static void free_problem(f32_problem *p) {
    amp_free(p->a);
    amp_free(p->packed);
}

static bool make_problem(f32_problem *p) {
    const size_t values = ROWS * DEPTH + COLUMNS * DEPTH + ROWS * COLUMNS;
    uint32_t random = 1;
    *p = (f32_problem){
        .a = amp_alloc(values * sizeof(float)),
        .packed = amp_alloc(amp_gemm_f32_packed_bytes(COLUMNS, DEPTH)),
    };
    if (!p->a || !p->packed) return false;
    for (size_t i = 0; i < values; i++) {
        random = random * 1664525u + 1013904223u;
        p->a[i] = (float)(int32_t)random * 0x1p-31f;
    }
    p->b = p->a + ROWS * DEPTH;
    p->c = p->b + COLUMNS * DEPTH;
    return amp_gemm_f32_pack(p->packed, p->b, COLUMNS, DEPTH, DEPTH, 1) == AMP_OK;
}

static bool run_ours(const f32_problem *p) {
    const amp_gemm g = {
        .m = ROWS,
        .n = COLUMNS,
        .k = DEPTH,
        .batch = 1,
        .a = p->a,
        .a_dtype = AMP_F32,
        .a_row_stride = DEPTH,
        .a_column_stride = 1,
        .b = p->packed,
        .c = p->c,
        .c_dtype = AMP_F32,
        .c_row_stride = COLUMNS,
        .alpha = 1.0f,
    };
    return amp_gemm_f32(&g, NULL) == AMP_OK;
}

static bool run_theirs(const f32_problem *p) {
    const amp_dnnl_matmul d = {
        .m = ROWS,
        .n = COLUMNS,
        .k = DEPTH,
        .batch = 1,
        .a = p->a,
        .a_row_stride = DEPTH,
        .a_column_stride = 1,
        .b = p->b,
        .b_row_stride = 1,
        .b_column_stride = DEPTH,
        .packed_b = p->packed,
        .c = p->c,
        .c_row_stride = COLUMNS,
        .alpha = 1.0f,
    };
    return amp_dnnl_matmul_f32(&d, NULL) == AMP_OK;
}

static double rate_of(bool (*run)(const f32_problem *p), const f32_problem *p) {
    const double start = seconds_of(CLOCK_MONOTONIC);
    return run(p) ? 2.0 * ROWS * COLUMNS * DEPTH / (seconds_of(CLOCK_MONOTONIC) - start) : 0.0;
}

/* Whatever goes wrong here (memory) is not the caller's business: it leaves rates of 0, and the rule decides. */
static rates measure_gemm_f32(void) {
    rates best = {0.0, 0.0};
    f32_problem p;
    if (amp_isa_best() == AMP_ISA_REF || amp_pending_error()) return best;
    if (make_problem(&p)) {
        (void)run_ours(&p); /* self-tests, primitives and caches */
        (void)run_theirs(&p);
        for (int i = 0; i < F32_ROUNDS; i++) {
            best.yes = best_of(best.yes, rate_of(run_ours, &p));
            best.no = best_of(best.no, rate_of(run_theirs, &p));
        }
    }
    free_problem(&p);
    amp_clear_error();
    return best;
}

/* ---- Rules ---------------------------------------------------------------------------------------------------- */

/* Where it was measured: twice the rate of FMA on Zen 4 and 5, half of it on the Xeons that have AMX. */
static bool rule_gemm_dot(void) {
    return strstr(amp_cpu()->model, "AMD") != NULL;
}

static bool rule_gemm_f32(void) {
    return amp_isa_best() >= AMP_ISA_AVX2;
}

/* ---- File ----------------------------------------------------------------------------------------------------- */
enum { FORMAT = 2 };

static void find_path(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char about[512];
    state.path[0] = 0;
    if (state.mode == TUNE_OFF || state.mode == TUNE_MEMORY || state.mode == TUNE_INVALID) return;
    const bool has_cache = cache && cache[0] == '/', has_home = home && home[0] == '/';
    if (!has_cache && !has_home) return;
    snprintf(about, sizeof about, "%d;%s;%s;%s;%s;%s;%s", FORMAT, amp_cpu()->model, amp_isa_name(amp_isa_best()),
             amp_version_string(), amp_onednn_version(), __VERSION__, AMP_BUILD_KIND);
    const int length = snprintf(state.path, sizeof state.path, "%s%s/libamp/choices-%016llx", has_cache ? cache : home,
                                has_cache ? "" : "/.cache", (unsigned long long)XXH64(about, strlen(about), 0));
    if (length >= (int)sizeof state.path) state.path[0] = 0;
}

static int choice_named(const char *name) {
    for (int i = 0; i < AMP_CHOICE_COUNT; i++) {
        if (strcmp(choices[i].name, name) == 0) return i;
    }
    return -1;
}

/* A line "name yes_rate no_rate". */
static bool read_line(const char *line, char name[KIND_NAME], rates *r) {
    int used = 0;
    char *rest = NULL, *end = NULL;
    if (sscanf(line, "%79s%n", name, &used) != 1) return false;
    r->yes = amp_read_number(line + used, &rest);
    r->no = amp_read_number(rest, &end);
    return rest != line + used && end != rest;
}

/* The row of that name, added if need be. NULL: there is no family of such names, or no room. */
static kind_row *kind_named(const char *name) {
    for (int i = 0; i < state.kind_count; i++)
        if (strcmp(state.kinds[i].name, name) == 0) return &state.kinds[i];
    for (int f = 0; f < AMP_CHOICE_FAMILIES && state.kind_count < AMP_CHOICE_KINDS; f++) {
        if (strncmp(name, families[f].prefix, strlen(families[f].prefix)) != 0) continue;
        kind_row *row = &state.kinds[state.kind_count++];
        *row = (kind_row){.family = (amp_choice_family)f};
        snprintf(row->name, sizeof row->name, "%s", name);
        return row;
    }
    return NULL;
}

/* Adds what is not known yet. What does not read as a line is skipped, and measured again. */
static void read_file(void) {
    FILE *file = *state.path ? fopen(state.path, "re") : NULL;
    char line[160], name[KIND_NAME];
    rates r;
    while (file && fgets(line, sizeof line, file)) {
        if (!read_line(line, name, &r)) continue;
        if (!(r.yes >= 0.0 && r.no >= 0.0 && r.yes + r.no > 0.0) || isinf(r.yes + r.no)) continue;
        const int i = choice_named(name);
        kind_row *row = i < 0 ? kind_named(name) : NULL;
        answer *a = i >= 0 ? &state.answers[i] : row ? &row->answer : NULL;
        if (a && !a->known) *a = (answer){true, yes_wins(r), AMP_CHOICE_FROM_FILE, r};
    }
    if (file) fclose(file);
}

/* Makes the two folders above the file, .cache and libamp, but no home. */
static void make_folders(void) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", state.path);
    char *const file = strrchr(folder, '/');
    *file = 0;
    char *const last = strrchr(folder, '/');
    *last = 0;
    if (mkdir(folder, 0755) != 0 && errno != EEXIST) return;
    *last = '/';
    (void)mkdir(folder, 0755);
}

static void write_row(FILE *file, const char *name, const answer *a) {
    if (a->known && a->origin != AMP_CHOICE_BY_RULE) fprintf(file, "%s %.0f %.0f\n", name, a->rates.yes, a->rates.no);
}

/* Under a name of its own first: a reader sees the old file or the new one. What other programs wrote meanwhile
 * stays. */
static void write_file(void) {
    char temporary[PATH_MAX + 32];
    if (!*state.path) return;
    make_folders();
    if (state.mode != TUNE_FRESH) read_file();
    snprintf(temporary, sizeof temporary, "%s.%ld", state.path, (long)getpid());
    FILE *file = fopen(temporary, "we");
    if (!file) return;
    fprintf(file, "# libamp: operations per second of two ways each, on %s\n", amp_cpu()->model);
    for (int i = 0; i < AMP_CHOICE_COUNT; i++) write_row(file, choices[i].name, &state.answers[i]);
    for (int i = 0; i < state.kind_count; i++) write_row(file, state.kinds[i].name, &state.kinds[i].answer);
    const bool written = !ferror(file);
    if (fclose(file) != 0 || !written || rename(temporary, state.path) != 0) unlink(temporary);
}

/* ---- Answers -------------------------------------------------------------------------------------------------- */
static tune_mode mode_of(const char *word) {
    static const struct {
        const char *word;
        tune_mode mode;
    } words[] = {{"", TUNE_FILE}, {"off", TUNE_OFF}, {"fresh", TUNE_FRESH}, {"memory", TUNE_MEMORY}};
    for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
        if (strcmp(word, words[i].word) == 0) return words[i].mode;
    }
    return word ? TUNE_INVALID : TUNE_FILE;
}

static void read_setting(void) {
    const char *word = getenv("AMP_TUNE");
    state.mode = mode_of(word);
    snprintf(state.word, sizeof state.word, "%s", state.mode == TUNE_INVALID ? word : "");
    find_path();
    if (state.mode == TUNE_FILE) read_file();
    atomic_store_explicit(&state.ready, true, memory_order_release);
}

/* By a lock of its own: a measurement, which holds the other one, selects kernels, and that asks for the status. */
static void prepare(void) {
    if (atomic_load_explicit(&state.ready, memory_order_acquire)) return;
    amp_lock(AMP_LOCK_TUNING);
    if (!atomic_load_explicit(&state.ready, memory_order_relaxed)) read_setting();
    amp_unlock(AMP_LOCK_TUNING);
}

static answer answer_from(rates r, bool rule) {
    return r.yes + r.no > 0.0 ? (answer){true, yes_wins(r), AMP_CHOICE_MEASURED, r}
                              : (answer){true, rule, AMP_CHOICE_BY_RULE, r};
}

static bool measures(void) {
    return state.mode != TUNE_OFF && state.mode != TUNE_INVALID;
}

static answer answer_of(amp_choice choice) {
    amp_lock(AMP_LOCK_CHOICES);
    prepare();
    answer *a = &state.answers[choice];
    if (!a->known) {
        *a = answer_from(measures() ? choices[choice].measure() : (rates){0.0, 0.0}, choices[choice].rule());
        write_file();
    }
    const answer copy = *a;
    amp_unlock(AMP_LOCK_CHOICES);
    atomic_store_explicit(&state.quick[choice], copy.yes ? 1 : -1, memory_order_relaxed);
    return copy;
}

bool amp_choose(amp_choice choice) {
    const int quick = atomic_load_explicit(&state.quick[choice], memory_order_relaxed);
    return quick ? quick > 0 : answer_of(choice).yes;
}

/* ---- Kinds ---------------------------------------------------------------------------------------------------- */

enum { YES = 1, NO = 2 };

static uint64_t slot_key(const amp_choice_kind *kind) {
    return (XXH64(kind->key, sizeof kind->key, (XXH64_hash_t)kind->family) & ~(uint64_t)3) | 4; /* never 0 */
}

/* The slot that has the key, or is free for it; NULL: all are taken. */
static _Atomic uint64_t *slot_of(uint64_t key) {
    for (unsigned i = 0; i < SLOTS; i++) {
        _Atomic uint64_t *slot = &state.slots[(key / 8 + i) % SLOTS];
        const uint64_t value = atomic_load_explicit(slot, memory_order_relaxed);
        if (value == 0 || (value & ~(uint64_t)3) == key) return slot;
    }
    return NULL;
}

static rates measure_kind(const amp_choice_kind *kind) {
    rates r = {0.0, 0.0};
    if (amp_failed()) return r;
    kind->measure(kind->context, &r.yes, &r.no);
    amp_clear_error();
    return r;
}

/* The measurement selects kernels, which must not ask for a choice under the lock: that one is made before. */
static bool decide(const amp_choice_kind *kind, uint64_t key) {
    char name[KIND_NAME];
    (void)amp_choose(AMP_CHOICE_GEMM_DOT);
    const int prefix = snprintf(name, sizeof name, "%s", families[kind->family].prefix);
    kind->name(kind->key, name + prefix, sizeof name - (size_t)prefix);
    amp_lock(AMP_LOCK_CHOICES);
    prepare();
    kind_row *row = kind_named(name);
    if (row && !row->answer.known) {
        row->answer = answer_from(measures() ? measure_kind(kind) : (rates){0.0, 0.0}, true);
        write_file();
    }
    const bool yes = row ? row->answer.yes : true;
    _Atomic uint64_t *slot = slot_of(key);
    if (slot) atomic_store_explicit(slot, key | (yes ? YES : NO), memory_order_relaxed);
    amp_unlock(AMP_LOCK_CHOICES);
    return yes;
}

bool amp_choose_kind(const amp_choice_kind *kind) {
    const uint64_t key = slot_key(kind);
    const _Atomic uint64_t *slot = slot_of(key);
    const uint64_t value = slot ? atomic_load_explicit(slot, memory_order_relaxed) : 0;
    return value ? (value & 3) == YES : decide(kind, key);
}

bool amp_choice_explain_kind(int index, amp_choice_report *report) {
    amp_lock(AMP_LOCK_CHOICES);
    prepare();
    const bool known = index >= 0 && index < state.kind_count;
    if (known) {
        const kind_row *row = &state.kinds[index];
        *report = (amp_choice_report){row->name,           families[row->family].yes, families[row->family].no,
                                      row->answer.yes,     row->answer.origin,        row->answer.rates.yes,
                                      row->answer.rates.no};
    }
    amp_unlock(AMP_LOCK_CHOICES);
    return known;
}

/* ---- Reports -------------------------------------------------------------------------------------------------- */

amp_choice_report amp_choice_explain(amp_choice choice) {
    const answer a = answer_of(choice);
    return (amp_choice_report){choices[choice].name, choices[choice].yes, choices[choice].no, a.yes, a.origin,
                               a.rates.yes,          a.rates.no};
}

const char *amp_choices_path(void) {
    prepare();
    return state.path;
}

AMP_HOT amp_status amp_choices_status(void) {
    prepare();
    if (state.mode != TUNE_INVALID) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "AMP_TUNE is '%s'; it must be one of off, fresh, memory, or unset", state.word);
}

void amp_choices_forget_for_test(void) {
    amp_lock(AMP_LOCK_CHOICES);
    atomic_store(&state.ready, false);
    memset(state.answers, 0, sizeof state.answers);
    for (int i = 0; i < AMP_CHOICE_COUNT; i++) atomic_store(&state.quick[i], 0);
    for (int i = 0; i < SLOTS; i++) atomic_store(&state.slots[i], 0);
    state.kind_count = 0;
    amp_unlock(AMP_LOCK_CHOICES);
}
