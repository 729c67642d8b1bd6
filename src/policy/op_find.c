/* Lookup of ops by name. */
#include <string.h>

#include "policy/op_names.h"
#include "policy/user_ops.h"

const amp_op_info *amp_op_find(const char *name) {
    if (!name) return NULL;
    int low = 0, high = amp_op_name_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const int order = strcmp(name, amp_op_names[middle].name);
        if (order == 0) return &amp_op_table[amp_op_names[middle].id];
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return amp_user_op_find(name);
}
