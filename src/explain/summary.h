/* What follows from the rows of a report: totals, rates, advice. The library and `amp explain FILE` share it. */
#ifndef AMP_EXPLAIN_SUMMARY_H
#define AMP_EXPLAIN_SUMMARY_H

#include <jansson.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds to the report, or replaces in it:
 *     nanoseconds            of all rows
 *     rows: gflops           of the median call (the only one, of one); peak_share: of "peak", where the report has it
 *     totals, labels         per op, and per label where there are any: {op or label, calls, nanoseconds, gflops,
 *                            peak_share}, the slowest first; rates over all calls, where those of all rows are known
 *     refused                each instruction set that could not be used: {isa, reason, kernels}
 *     advice                 {kind, calls, nanoseconds, text}
 * "peak" is {"dtypes": {"f32": operations a second, …}}. False without memory. */
bool amp_explain_complete(json_t *report);

const char *amp_json_text(const json_t *object, const char *key, const char *otherwise);
double amp_json_number(const json_t *object, const char *key);

#ifdef __cplusplus
}
#endif

#endif /* AMP_EXPLAIN_SUMMARY_H */
