/* AMP_VERBOSE=topic,topic */
#include "core/verbose.h"

#include <stdlib.h>
#include <string.h>

bool amp_verbose(const char *topic) {
    const char *p = getenv("AMP_VERBOSE");
    const size_t length = strlen(topic);
    while (p && *p) {
        const size_t n = strcspn(p, ",");
        if ((n == length && !strncmp(p, topic, n)) || (n == 3 && !strncmp(p, "all", 3))) return true;
        p += n;
        if (*p) p++;
    }
    return false;
}
