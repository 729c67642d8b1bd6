/* AMP_VERBOSE=topic,topic */
#include "core/verbose.h"

#include <stdio.h>
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

void amp_verbose_check(char *sentence, size_t bytes) {
    static const char *const topics[] = {"", "dispatch", "graph", "calls", "all"};
    const char *debug = getenv("AMP_DEBUG"), *rest = getenv("AMP_VERBOSE");
    snprintf(sentence, bytes, "%s", "");
    if (debug && *debug && strcmp(debug, "0") != 0 && strcmp(debug, "1") != 0) {
        snprintf(sentence, bytes, "AMP_DEBUG is '%.60s'; it must be 0 or 1", debug);
    }
    while (rest && *rest) {
        const size_t n = strcspn(rest, ",");
        size_t i = 0;
        while (i < 5 && (n != strlen(topics[i]) || strncmp(rest, topics[i], n) != 0)) i++;
        if (i == 5) {
            snprintf(sentence, bytes, "AMP_VERBOSE names '%.*s'; the topics are dispatch, graph, calls and all",
                     n < 60 ? (int)n : 60, rest);
        }
        rest += n + (rest[n] == ',');
    }
}
