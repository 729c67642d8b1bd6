/* The explain report for people, printed from its JSON form: the library and `amp explain FILE` share it. */
#ifndef AMP_EXPLAIN_TABLE_H
#define AMP_EXPLAIN_TABLE_H

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A malloc'ed text; NULL without memory. Fields that the JSON lacks are left blank: it may be any file; what follows
 * from its rows is added (summary.h). Rows that took less than `least_share` of the time, 0 to 1, are counted in one
 * line. Lines are `width` columns long at most, 0: 120; what the table has no room for stands below its row. */
char *amp_explain_table(json_t *report, double least_share, int width);

#ifdef __cplusplus
}
#endif

#endif /* AMP_EXPLAIN_TABLE_H */
