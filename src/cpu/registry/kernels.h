/* The registry of CPU kernels: rows of kernels.def, which of them this machine may run, and why not the others. */
#ifndef AMP_CPU_KERNELS_H
#define AMP_CPU_KERNELS_H

#include "amp/system.h"

/* The function types of the families. */
#include "cpu/registry/attention.h"
#include "cpu/registry/channel.h"
#include "cpu/registry/columns.h"
#include "cpu/registry/convert.h"
#include "cpu/registry/depthwise.h"
#include "cpu/registry/distance.h"
#include "cpu/registry/fft.h"
#include "cpu/registry/formula.h"
#include "cpu/registry/gates.h"
#include "cpu/registry/gemm.h"
#include "cpu/registry/loss.h"
#include "cpu/registry/pool_resample.h"
#include "cpu/registry/random_kernels.h"
#include "cpu/registry/slopes.h"
#include "cpu/registry/update.h"
#include "cpu/registry/vector.h"

typedef enum amp_kernel_family {
#define AMP_KERNEL_FAMILY(name, type, self_test) AMP_KERNEL_##name,
#define AMP_KERNEL(family, in, out, isa, function, requirement, predicate)
#include "cpu/registry/kernels.def"
    AMP_KERNEL_FAMILY_COUNT
} amp_kernel_family;

/* What a row's function is kept as; cast it to the family's type: (amp_convert_function *)kernel->function. */
typedef void amp_kernel_function(void);

typedef struct amp_kernel {
    const char *name; /* its function's name without "amp_": "convert_f32_bf16_avx2" */
    amp_kernel_family family;
    amp_dtype in, out;
    amp_isa isa;
    amp_kernel_function *function; /* NULL: the compiler of this build does not know the instructions */
    const char *requirement;       /* what holds where it runs; NULL: the instruction set is enough */
    bool (*predicate)(const void *problem);
} amp_kernel;

/* Runs `kernel` on inputs of its own, compares with `reference` (the REF row of the same family and dtypes). On a
 * difference writes a sentence and returns false. */
typedef bool amp_kernel_self_test(const amp_kernel *kernel, const amp_kernel *reference, char *message, size_t size);

/* Every row's function and every self-test, so that the files that define them are checked against the table. */
#define AMP_KERNEL_FAMILY(name, type, self_test)                                                                       \
    typedef type amp_kernel_type_##name;                                                                               \
    amp_kernel_self_test self_test;
#define AMP_KERNEL(family, in, out, isa, function, requirement, predicate) amp_kernel_type_##family function;
#include "cpu/registry/kernels.def"

enum { AMP_KERNEL_REASON_SIZE = 256 };

/* The best row of that family and dtypes that this machine runs, self-tested; NULL with an error: there is no such row,
 * none is usable, or AMP_MAX_ISA is nonsense. After the first call one load. Thread-safe. Ask before a parallel region,
 * not inside. */
const amp_kernel *amp_kernel_select(amp_kernel_family family, amp_dtype in, amp_dtype out);
/* The same for one problem, which the rows' predicates judge. */
const amp_kernel *amp_kernel_select_for(amp_kernel_family family, amp_dtype in, amp_dtype out, const void *problem);
/* What a family computes elements of a 16-bit dtype in: the dtype itself where it has rows for it, else f32. */
amp_dtype amp_kernel_dtype(amp_kernel_family family, amp_dtype dtype);
/* amp_kernel_select's function, or NULL with the error. */
static inline amp_kernel_function *amp_kernel_get(amp_kernel_family family, amp_dtype in, amp_dtype out) {
    const amp_kernel *kernel = amp_kernel_select(family, in, out);
    return kernel ? kernel->function : NULL;
}

/* A row that was passed over. */
typedef struct amp_kernel_refusal {
    const amp_kernel *kernel;
    char reason[AMP_KERNEL_REASON_SIZE];
} amp_kernel_refusal;

/* The rows above the selected one, with the reason for each, for the explain report. Writes at most `capacity`, returns
 * how many there are. */
int amp_kernel_refusals(amp_kernel_family family, amp_dtype in, amp_dtype out, const void *problem,
                        amp_kernel_refusal *refusals, int capacity);

/* The same above the row that ran a problem, which is known no more: where the machine can run one of them, the reason
 * is its requirement. */
int amp_kernel_passed_over(const amp_kernel *ran, amp_kernel_refusal *refusals, int capacity);

/* All rows, for tests, benches and reports: those of a family are adjacent. */
int amp_kernel_count(void);
const amp_kernel *amp_kernel_at(int index);
/* The row by its name, with or without "amp_"; NULL. */
const amp_kernel *amp_kernel_find(const char *name);
const char *amp_kernel_family_name(amp_kernel_family family);
/* True when the machine can run the row and its self-test has passed (run now if it has not been); else writes why not.
 * `reason` may be NULL. */
bool amp_kernel_usable(const amp_kernel *kernel, char reason[AMP_KERNEL_REASON_SIZE]);
/* Rows whose self-test failed, for the explain report. As amp_kernel_refusals. */
int amp_kernel_quarantined(amp_kernel_refusal *refusals, int capacity);

/* For tests: behaves from now on as if AMP_MAX_ISA were `max_isa` (NULL: as the environment says), and forgets which
 * kernels were selected. Not while another thread computes. */
void amp_isa_reload_for_test(const char *max_isa);
/* For tests: forgets selections and self-tests. Not while another thread computes. */
void amp_kernels_forget_for_test(void);
/* For tests: the self-test of the row of that name fails; NULL: none does. Forgets as above. */
void amp_kernel_fail_self_test_for_test(const char *name);

#endif /* AMP_CPU_KERNELS_H */
