/* amp explain: what this machine can do at best, beside what a recorded run did. */
#ifndef AMP_TOOL_EXPLAIN_PEAK_H
#define AMP_TOOL_EXPLAIN_PEAK_H

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Adds {"peak": {"threads": …, "dtypes": {"f32": operations a second, …}}} to a report of this machine that knows the
 * operations of a row, by running the fastest instructions of each type for some hundredth of a second, on as many
 * threads as the run had. A report that has a peak keeps it. */
void amp_explain_add_peak(json_t *report);

#ifdef __cplusplus
}
#endif

#endif /* AMP_TOOL_EXPLAIN_PEAK_H */
