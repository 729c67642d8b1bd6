/* Scopes: frames of tensors, innermost first, one stack per thread. */
#include "amp/scope.h"

#include "core/hot.h"
#include "core/memory.h"
#include "core/tensor_impl.h"
#include "core/thread.h"

/* User scopes are frames on the heap, for enter and exit are separate calls. A scope whose frame could not be
 * allocated is only counted, so that its exit finds its enter; the standing error makes every op in it return NULL. */
static __thread int lost_scopes;

static void unlink_tensor(amp_tensor *t) {
    if (!t->scope) return;
    if (t->scope_previous) {
        t->scope_previous->scope_next = t->scope_next;
    } else {
        t->scope->tensors = t->scope_next;
    }
    if (t->scope_next) t->scope_next->scope_previous = t->scope_previous;
    t->scope = NULL;
    t->scope_next = t->scope_previous = NULL;
}

AMP_HOT void amp_scope_move(amp_tensor *t, amp_scope_frame *frame) {
    unlink_tensor(t);
    amp_scope_adopt(t, frame);
}

AMP_HOT void amp_scope_push(amp_scope_frame *frame) {
    frame->tensors = NULL;
    frame->is_users = false;
    frame->outer = amp_this_thread.scope;
    amp_this_thread.scope = frame;
}

AMP_HOT void amp_scope_pop(amp_scope_frame *frame) {
    while (frame->tensors) amp_tensor_drop(frame->tensors);
    amp_this_thread.scope = frame->outer;
}

amp_status amp_scope_enter(void) {
    amp_scope_frame *frame = lost_scopes == 0 ? amp_alloc(sizeof *frame) : NULL;
    if (!frame) {
        lost_scopes++;
        return amp_fail(AMP_ERROR_MEMORY, "scope: no memory for a new scope");
    }
    amp_thread_watch_end();
    amp_scope_push(frame);
    frame->is_users = true;
    return amp_pending_error();
}

amp_status amp_scope_exit(void) {
    if (lost_scopes > 0) {
        lost_scopes--;
        return amp_pending_error();
    }
    amp_scope_frame *frame = amp_this_thread.scope;
    if (!frame) return amp_fail(AMP_ERROR_INVALID, "scope: exit without an open scope on this thread");
    if (!frame->is_users) {
        return amp_fail(AMP_ERROR_INVALID, "scope: exit without an open scope inside the op that is running");
    }
    amp_scope_pop(frame);
    amp_free(frame);
    return amp_pending_error();
}

bool amp_scope_is_here(const amp_scope_frame *frame) {
    const amp_scope_frame *open = amp_this_thread.scope;
    while (open && open != frame) open = open->outer;
    return open != NULL;
}

int amp_scope_unwind(const amp_scope_frame *frame) {
    int count = 0;
    for (; amp_this_thread.scope != frame; count++) {
        amp_scope_frame *left_open = amp_this_thread.scope;
        amp_scope_pop(left_open);
        amp_free(left_open);
    }
    return count;
}

/* The thread ends with scopes open: what is in them goes, as at their end. */
void amp_scopes_end_thread(void) {
    (void)amp_scope_unwind(NULL);
    lost_scopes = 0;
}

amp_region amp_scope_open(void) {
    (void)amp_scope_enter();
    return (amp_region){.device = AMP_DEVICE_CPU};
}

void amp_scope_close(amp_region *region) {
    (void)region;
    (void)amp_scope_exit();
}
