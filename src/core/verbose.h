/* AMP_VERBOSE: a comma-separated list of topics that the library may write about on standard error. */
#ifndef AMP_CORE_VERBOSE_H
#define AMP_CORE_VERBOSE_H

#include <stdbool.h>

/* True when AMP_VERBOSE names the topic ("dispatch") or is "all". Reads the environment at every call: not for hot
 * paths. */
bool amp_verbose(const char *topic);

#endif /* AMP_CORE_VERBOSE_H */
