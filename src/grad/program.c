/* Before and after a function of the program. */
#include "grad/program.h"

#include "amp/autocast.h"
#include "policy/regions.h"

amp_grad_around amp_grad_look_around(void) {
    return (amp_grad_around){amp_this_thread.scope, amp_autocast_nesting()};
}

amp_status amp_grad_settle(const char *name, const char *role, amp_grad_around before, amp_status status) {
    const int scopes = amp_scope_unwind(before.frame), regions = amp_regions_unwind(before.nesting);
    if (scopes != 0 || regions != 0)
        return amp_fail(AMP_ERROR_INVALID, "%s: %s %s", name, role,
                        scopes > 0    ? "left a scope open"
                        : regions > 0 ? "left a region open"
                                      : "closed a region that it did not open");
    AMP_TRY(amp_pending_error());
    if (status == AMP_OK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: %s returned %d, and no error stands", name, role, (int)status);
}

amp_status amp_grad_begin_results(amp_grad_node *node, amp_tensor **results) {
    for (int i = 0; i < node->result_count; i++) {
        if (!node->results[i].is_present) amp_saved_take(&node->results[i], results[i], false);
        if (!amp_grad_is_possible(results[i])) continue;
        results[i] = amp_tensor_same(node->name, results[i]);
        if (!results[i]) return amp_pending_error();
        AMP_TRY(amp_history_begin(results[i], node, i, NULL, false));
    }
    return AMP_OK;
}
