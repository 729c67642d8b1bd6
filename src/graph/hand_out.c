/* Handing out the results of a run. */
#include "graph/hand_out.h"

static amp_tensor *own(const amp_scope_frame *frame, amp_tensor *t) {
    if (t && t->scope != frame) t = amp_tensor_same("graph", t);
    if (t) amp_scope_move(t, frame->outer);
    return t;
}

amp_status amp_hand_out(const amp_scope_frame *frame, amp_tensor *const *values, const int *which, int count,
                        amp_tensor **outputs) {
    for (int i = 0; i < count; i++) {
        outputs[i] = own(frame, values[which[i]]);
        if (outputs[i]) continue;
        while (--i >= 0) {
            amp_tensor_drop(outputs[i]);
            outputs[i] = NULL;
        }
        return amp_failed() ? amp_pending_error() : amp_fail(AMP_ERROR_INVALID, "an output was not computed");
    }
    return AMP_OK;
}
