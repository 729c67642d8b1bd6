/* Times, and what the explain report says of them. */
#ifndef EXAMPLES_MEASURING_H
#define EXAMPLES_MEASURING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Seconds by a clock that nobody sets. */
double measuring_now(void);
/* Seconds for which the calling thread had a processor. */
double measuring_own_time(void);
/* These sort the times. */
double measuring_median(double *times, int count);
/* The 75th by the 25th percentile. */
double measuring_spread(double *times, int count);
/* Copies the string that follows `"key": ` in a JSON text, which may be NULL; returns where it ended, NULL if there is
 * none. */
const char *measuring_copy_string(const char *json, const char *key, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* EXAMPLES_MEASURING_H */
