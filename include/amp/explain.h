/* Explain: what ran, in which type, by which kernel, and why. */
#ifndef AMP_EXPLAIN_H
#define AMP_EXPLAIN_H

#include "amp/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts recording every op call of the process, on all threads, into one report; counts nest. A program that is run
 * with AMP_EXPLAIN=FILE records from its start and writes the JSON report to FILE at its end (`amp explain FILE`
 * prints it), also where SIGINT or SIGTERM ends it, unless it handles them itself; a child that it forks writes none.
 * A report has 4096 rows; shapes beyond share one for each op and way that it ran. Recording costs about a tenth of a
 * microsecond a call, and memory only at the first of its kind. */
AMP_API void amp_explain_begin(void);
AMP_API void amp_explain_end(void);
/* Forgets what was recorded so far. */
AMP_API void amp_explain_reset(void);

/* ---- Labels ------------------------------------------------------------------------------------------------------
 * A name for what this thread calls now: calls under another label are other rows of the report, in its column `label`
 * and its JSON. Labels inside of one another join, "encoder/layer1/attention"; what is longer than AMP_LABEL_BYTES with
 * its end is cut, and so is what is deeper than AMP_LABEL_DEPTH. The name is copied. A new thread has no label. They
 * cost a few dozen nanoseconds, also where nothing records.
 *
 *     amp_label_here("decoder");              // to the end of the block, as amp_scope_here()
 *     amp_label("attention") { … }            // a block, as amp_scope */
enum { AMP_LABEL_BYTES = 128, AMP_LABEL_DEPTH = 32 };

/* Every enter needs an exit, also after an error: name is NULL; an exit too many. From C and C++ use the macros. */
AMP_API amp_status amp_label_enter(const char *name);
AMP_API amp_status amp_label_exit(void);
/* The labels of this thread, joined; "" if there are none. Good until the next enter or exit. */
AMP_API const char *amp_label_path(void);

/* amp_label_enter and amp_label_exit for the macros; not for direct use. */
AMP_API amp_region amp_label_open(const char *name);
AMP_API void amp_label_close(amp_region *region);
#define amp_label_here(name) AMP_REGION_HERE_(amp_label_open(name), amp_label_close)
#define amp_label(name) AMP_REGION_BLOCK_(amp_label_open(name), amp_label_close)

/* ---- The report ------------------------------------------------------------------------------------------------ */
typedef enum amp_explain_format {
    AMP_EXPLAIN_TABLE = 0, /* for people: per region a line for each op and shape, slowest first, then the reasons */
    AMP_EXPLAIN_JSON       /* for programs */
} amp_explain_format;

/* The report so far, as a string that the caller frees with amp_explain_free; NULL with an error. Per label, op, shape
 * and layout of its inputs: calls, time of all of them, of the first, and the median of the others; of products,
 * convolutions, attention and recurrent layers their operations and the rate of them in the median call; the region's
 * dtype, policy, input dtypes, the widest of them once cast, casts made and avoided, bypasses, kernel and instruction
 * set (of an op that is made of others, the kernels of those), the kernels that were refused and why. Besides: the
 * clock's time while it recorded and the sum of all rows, totals per op and per label, each instruction set that could
 * not be used, and advice where the rows prove it. `amp explain` adds each rate's share of what the machine can do,
 * which it probes. The median of more than 129 calls is that of 128 drawn from them. Of calls on CUDA
 * the times are the device's, between a mark before and one behind each (and the host's until the call returned,
 * host_nanoseconds): recording waits for nothing, the report waits for the device. */
AMP_API char *amp_explain_report(amp_explain_format format);
AMP_API void amp_explain_free(char *report);

#ifdef __cplusplus
}
#endif

#endif /* AMP_EXPLAIN_H */
