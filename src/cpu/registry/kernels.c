/* Selection, self-test and quarantine of the rows of kernels.def. */
#include "cpu/registry/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "core/hot.h"
#include "core/lock.h"
#include "core/verbose.h"
#include "machine/isa.h"

/* A row that this build's compiler could not make stays in the table, without a function. */
#define BUILT_REF(function) (amp_kernel_function *)(function)
#ifdef AMP_HAVE_AVX2
#define BUILT_AVX2(function) (amp_kernel_function *)(function)
#else
#define BUILT_AVX2(function) NULL
#endif
#ifdef AMP_HAVE_AVX512
#define BUILT_AVX512(function) (amp_kernel_function *)(function)
#else
#define BUILT_AVX512(function) NULL
#endif
#ifdef AMP_HAVE_AVX512BF16
#define BUILT_AVX512BF16(function) (amp_kernel_function *)(function)
#else
#define BUILT_AVX512BF16(function) NULL
#endif
#ifdef AMP_HAVE_AMX
#define BUILT_AMX(function) (amp_kernel_function *)(function)
#else
#define BUILT_AMX(function) NULL
#endif

static const amp_kernel rows[] = {
#define AMP_KERNEL_FAMILY(name, type, self_test)
#define AMP_KERNEL(family, in, out, isa, function, requirement, predicate)                                             \
    {&#function[4], AMP_KERNEL_##family,   AMP_##in,    AMP_##out,                                                     \
     AMP_ISA_##isa, BUILT_##isa(function), requirement, predicate},
#include "cpu/registry/kernels.def"
};

enum { ROWS = sizeof rows / sizeof *rows };

static const struct {
    const char *name;
    amp_kernel_self_test *self_test;
} families[] = {
#define AMP_KERNEL_FAMILY(name, type, self_test) {#name, self_test},
#define AMP_KERNEL(family, in, out, isa, function, requirement, predicate)
#include "cpu/registry/kernels.def"
};

typedef enum row_test { UNTESTED = 0, PASSED, QUARANTINED } row_test;

static struct {
    pthread_once_t once;
    int first[AMP_KERNEL_FAMILY_COUNT]; /* row of each family */
    atomic_int verbose;                 /* 0: not asked yet; 1: quiet; 2: print */
    atomic_bool printed[ROWS];
    _Atomic(row_test) tests[ROWS];
    char messages[ROWS][AMP_KERNEL_REASON_SIZE]; /* of quarantined rows; written before the state */
    _Atomic(const amp_kernel *) chosen[AMP_KERNEL_FAMILY_COUNT][AMP_DTYPE_COUNT][AMP_DTYPE_COUNT];
    char forced[64]; /* row whose self-test a test wants to fail */
} state = {.once = PTHREAD_ONCE_INIT};

static void initialise(void) {
    for (int i = ROWS - 1; i >= 0; i--) state.first[rows[i].family] = i;
}

static void lock(void) {
    pthread_once(&state.once, initialise);
    amp_lock(AMP_LOCK_KERNELS);
}

static void unlock(void) {
    amp_unlock(AMP_LOCK_KERNELS);
}

static bool row_fits(const amp_kernel *row, amp_kernel_family family, amp_dtype in, amp_dtype out) {
    return row->family == family && row->in == in && row->out == out;
}

static const amp_kernel *reference_of(const amp_kernel *kernel) {
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].isa == AMP_ISA_REF && row_fits(&rows[i], kernel->family, kernel->in, kernel->out)) return &rows[i];
    }
    return NULL;
}

/* ---- Self-tests ----------------------------------------------------------------------------------------------- */

static void run_self_test(const amp_kernel *kernel) {
    const int i = (int)(kernel - rows);
    char *message = state.messages[i];
    const amp_kernel *reference = reference_of(kernel);
    bool passed = false;
    *message = 0;
    if (!strcmp(state.forced, kernel->name))
        snprintf(message, AMP_KERNEL_REASON_SIZE, "a test made it fail");
    else if (!reference)
        snprintf(message, AMP_KERNEL_REASON_SIZE, "it has no reference row to be compared with");
    else if (reference == kernel)
        passed = true; /* beside itself it would show nothing, and slowly */
    else
        passed = families[kernel->family].self_test(kernel, reference, message, AMP_KERNEL_REASON_SIZE);
    if (!passed && amp_verbose("dispatch")) fprintf(stderr, "amp: quarantined %s: %s\n", kernel->name, message);
    atomic_store_explicit(&state.tests[i], passed ? PASSED : QUARANTINED, memory_order_release);
}

static bool row_passed(const amp_kernel *kernel) {
    _Atomic(row_test) *test = &state.tests[kernel - rows];
    if (atomic_load_explicit(test, memory_order_acquire) == UNTESTED) {
        lock();
        if (atomic_load_explicit(test, memory_order_relaxed) == UNTESTED) run_self_test(kernel);
        unlock();
    }
    return atomic_load_explicit(test, memory_order_acquire) == PASSED;
}

/* ---- Selection ------------------------------------------------------------------------------------------------ */

static void say_why(char *reason, const char *format, const char *what) {
    if (reason) snprintf(reason, AMP_KERNEL_REASON_SIZE, format, what);
}

static const char only_where[] = "it runs only where %s";

static bool row_usable(const amp_kernel *kernel, const void *problem, char *reason) {
    say_why(reason, "%s", "");
    if (!amp_isa_usable(kernel->isa)) {
        say_why(reason, "%s", amp_isa_reason(kernel->isa));
        return false;
    }
    if (!kernel->function) {
        say_why(reason, "%s", "libamp was built by a compiler that does not know its instructions");
        return false;
    }
    if (kernel->predicate && !kernel->predicate(problem)) {
        say_why(reason, problem ? only_where : "it runs only where %s, which is not so on this CPU",
                kernel->requirement);
        return false;
    }
    if (!row_passed(kernel)) {
        say_why(reason, "it is quarantined: %s", state.messages[kernel - rows]);
        return false;
    }
    return true;
}

bool amp_kernel_usable(const amp_kernel *kernel, char reason[AMP_KERNEL_REASON_SIZE]) {
    return row_usable(kernel, NULL, reason);
}

static void add_refusal(const amp_kernel *kernel, const char *reason, amp_kernel_refusal *list, int capacity,
                        int *count) {
    if (*count < capacity) {
        list[*count].kernel = kernel;
        memcpy(list[*count].reason, reason, AMP_KERNEL_REASON_SIZE);
    }
    ++*count;
}

int amp_kernel_refusals(amp_kernel_family family, amp_dtype in, amp_dtype out, const void *problem,
                        amp_kernel_refusal *refusals, int capacity) {
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        char reason[AMP_KERNEL_REASON_SIZE];
        if (!row_fits(&rows[i], family, in, out)) continue;
        if (row_usable(&rows[i], problem, reason)) break;
        add_refusal(&rows[i], reason, refusals, capacity, &count);
    }
    return count;
}

int amp_kernel_passed_over(const amp_kernel *ran, amp_kernel_refusal *refusals, int capacity) {
    int count = 0;
    for (int i = 0; i < ROWS && &rows[i] != ran; i++) {
        char reason[AMP_KERNEL_REASON_SIZE];
        if (!row_fits(&rows[i], ran->family, ran->in, ran->out)) continue;
        if (row_usable(&rows[i], NULL, reason)) {
            if (!rows[i].requirement) continue; /* the caller chose the other one */
            say_why(reason, only_where, rows[i].requirement);
        }
        add_refusal(&rows[i], reason, refusals, capacity, &count);
    }
    return count;
}

static const amp_kernel *fail_selection(amp_kernel_family family, amp_dtype in, amp_dtype out) {
    amp_kernel_refusal last = {0};
    const int refused = amp_kernel_refusals(family, in, out, NULL, &last, 1);
    if (refused)
        amp_fail(AMP_ERROR_INTERNAL, "no kernel of family %s from %s to %s can run: %s: %s",
                 amp_kernel_family_name(family), amp_dtype_name(in), amp_dtype_name(out), last.kernel->name,
                 last.reason);
    else
        amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "there is no kernel of family %s from %s to %s",
                 amp_kernel_family_name(family), amp_dtype_name(in), amp_dtype_name(out));
    return NULL;
}

static bool is_verbose(void) {
    int verbose = atomic_load_explicit(&state.verbose, memory_order_relaxed);
    if (!verbose) {
        verbose = amp_verbose("dispatch") ? 2 : 1;
        atomic_store_explicit(&state.verbose, verbose, memory_order_relaxed);
    }
    return verbose == 2;
}

/* The first time that a row is selected, with those passed over for it. */
static void print_selection(const amp_kernel *chosen, const void *problem) {
    if (atomic_exchange(&state.printed[chosen - rows], true)) return;
    for (int i = 0; i < ROWS && &rows[i] != chosen; i++) {
        char reason[AMP_KERNEL_REASON_SIZE];
        if (!row_fits(&rows[i], chosen->family, chosen->in, chosen->out)) continue;
        if (!row_usable(&rows[i], problem, reason))
            fprintf(stderr, "amp: dispatch: not %s: %s\n", rows[i].name, reason);
    }
    fprintf(stderr, "amp: dispatch: selected %s\n", chosen->name);
}

static bool in_range(amp_kernel_family family, amp_dtype in, amp_dtype out) {
    return (unsigned)family < AMP_KERNEL_FAMILY_COUNT && (unsigned)in < AMP_DTYPE_COUNT &&
           (unsigned)out < AMP_DTYPE_COUNT;
}

const amp_kernel *amp_kernel_select_for(amp_kernel_family family, amp_dtype in, amp_dtype out, const void *problem) {
    if (amp_isa_status() != AMP_OK) return NULL;
    if (!in_range(family, in, out)) return fail_selection(family, in, out);
    pthread_once(&state.once, initialise);
    for (int i = state.first[family]; i < ROWS && rows[i].family == family; i++) {
        if (!row_fits(&rows[i], family, in, out) || !row_usable(&rows[i], problem, NULL)) continue;
        if (is_verbose()) print_selection(&rows[i], problem);
        return &rows[i];
    }
    return fail_selection(family, in, out);
}

AMP_HOT const amp_kernel *amp_kernel_select(amp_kernel_family family, amp_dtype in, amp_dtype out) {
    if (!in_range(family, in, out)) return fail_selection(family, in, out);
    _Atomic(const amp_kernel *) *slot = &state.chosen[family][in][out];
    const amp_kernel *kernel = atomic_load_explicit(slot, memory_order_acquire);
    if (kernel) return kernel;
    kernel = amp_kernel_select_for(family, in, out, NULL);
    if (kernel) atomic_store_explicit(slot, kernel, memory_order_release);
    return kernel;
}

amp_dtype amp_kernel_dtype(amp_kernel_family family, amp_dtype dtype) {
    pthread_once(&state.once, initialise);
    for (int i = state.first[family]; i < ROWS && rows[i].family == family; i++) {
        if (row_fits(&rows[i], family, dtype, dtype)) return dtype;
    }
    return AMP_F32;
}

/* ---- Reports and seams ---------------------------------------------------------------------------------------- */

int amp_kernel_count(void) {
    return ROWS;
}

const amp_kernel *amp_kernel_at(int index) {
    return index >= 0 && index < ROWS ? &rows[index] : NULL;
}

const amp_kernel *amp_kernel_find(const char *name) {
    if (!strncmp(name, "amp_", 4)) name += 4;
    for (int i = 0; i < ROWS; i++) {
        if (!strcmp(rows[i].name, name)) return &rows[i];
    }
    return NULL;
}

const char *amp_kernel_family_name(amp_kernel_family family) {
    return (unsigned)family < AMP_KERNEL_FAMILY_COUNT ? families[family].name : "?";
}

int amp_kernel_quarantined(amp_kernel_refusal *refusals, int capacity) {
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        if (atomic_load_explicit(&state.tests[i], memory_order_acquire) != QUARANTINED) continue;
        if (count < capacity) {
            refusals[count].kernel = &rows[i];
            snprintf(refusals[count].reason, AMP_KERNEL_REASON_SIZE, "%s", state.messages[i]);
        }
        count++;
    }
    return count;
}

void amp_kernels_forget_for_test(void) {
    lock();
    memset(state.chosen, 0, sizeof state.chosen);
    for (int i = 0; i < ROWS; i++) {
        atomic_store(&state.tests[i], UNTESTED);
        atomic_store(&state.printed[i], false);
    }
    atomic_store(&state.verbose, 0);
    unlock();
}

void amp_kernel_fail_self_test_for_test(const char *name) {
    lock();
    if (name && !strncmp(name, "amp_", 4)) name += 4;
    snprintf(state.forced, sizeof state.forced, "%s", name ? name : "");
    unlock();
    amp_kernels_forget_for_test();
}

void amp_isa_reload_for_test(const char *max_isa) {
    amp_isa_detect_again(max_isa);
    amp_kernels_forget_for_test();
}
