/* Lookup of ops by name. */
#include <string.h>

#include "core/near_name.h"
#include "core/thread.h"
#include "generated/op_names.h"
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

bool amp_op_names_one(const char *name, const amp_op_info *op) {
    return strchr(name, '.') || (*op->overload && strncmp(name, op->c_name, strlen(op->c_name)) == 0);
}

/* How PyTorch, and the macros of amp/ops.h, call an op. */
static const char *bare_name(const char *name) {
    static const char *const prefixes[] = {"aten::", "torch.nn.functional.", "torch.", "amp_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) == 0) return name + length;
    }
    return name;
}

const char *amp_op_near(const char *name) {
    const char *bare = bare_name(name);
    const size_t length = strcspn(bare, "."); /* aten::add.Tensor: an overload that is called otherwise here */
    amp_near_name near = {.wanted = bare};
    for (int i = 0; i < amp_op_name_count; i++) {
        const char *known = amp_op_names[i].name;
        if (strlen(known) == length && strncmp(known, bare, length) == 0) return known;
        amp_near_name_offer(&near, known);
    }
    return near.nearest;
}

amp_status amp_op_unknown(const char *what, const char *name) {
    return amp_fail(AMP_ERROR_INVALID, "%s: there is no op '%.80s'%s (`amp info --ops` lists them)", what,
                    name ? name : "NULL", amp_near_name_hint(name ? amp_op_near(name) : NULL));
}
