/* AMP_VERBOSE: a comma-separated list of topics that the library may write about on standard error. */
#ifndef AMP_CORE_VERBOSE_H
#define AMP_CORE_VERBOSE_H

#include <stdbool.h>
#include <stddef.h>

/* True when AMP_VERBOSE names the topic ("dispatch") or is "all". Reads the environment at every call: not for hot
 * paths. */
bool amp_verbose(const char *topic);

/* The sentence about a value of AMP_VERBOSE or AMP_DEBUG that means nothing; "" where there is none. */
void amp_verbose_check(char *sentence, size_t bytes);

#endif /* AMP_CORE_VERBOSE_H */
