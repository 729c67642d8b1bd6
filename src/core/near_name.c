/* Nearness of names. */
#include "core/near_name.h"

#include <stdio.h>
#include <string.h>

/* Length of what two names share at their beginnings and ends: a missing or another prefix ("model."), and a letter
 * that is wrong or missing, are the usual mistakes. */
static size_t shared_length(const char *a, size_t a_length, const char *b, size_t b_length) {
    const size_t shorter = a_length < b_length ? a_length : b_length;
    size_t head = 0, tail = 0;
    while (head < shorter && a[head] == b[head]) head++;
    while (tail < shorter - head && a[a_length - 1 - tail] == b[b_length - 1 - tail]) tail++;
    return head + tail;
}

void amp_near_name_offer(amp_near_name *near, const char *name) {
    const size_t a = strlen(near->wanted), b = strlen(name);
    const size_t shared = shared_length(near->wanted, a, name, b);
    const long score = 2 * (long)shared - (a > b ? (long)(a - b) : (long)(b - a));
    if (shared < 3 || (near->nearest && score <= near->score)) return;
    near->nearest = name;
    near->score = score;
}

const char *amp_near_name_hint(const char *nearest) {
    static __thread char hint[224];
    hint[0] = '\0';
    if (nearest) snprintf(hint, sizeof hint, "; did you mean '%.200s'?", nearest);
    return hint;
}
