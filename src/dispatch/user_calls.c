/* Ops that the program defined: called with their struct, run by their implementation, which sees amp/user.h only. */
#include "dispatch/user_calls.h"

#include <stdarg.h>
#include <stdio.h>

#include "call/outputs.h"
#include "core/thread.h"
#include "policy/regions.h"

/* An implementation that opens what it does not close, or closes what it did not open, is told so; what it left open is
 * closed. */
static void check_balance(const amp_call *call, const amp_scope_frame *frame, int nesting) {
    const int scopes = amp_scope_unwind(frame), regions = amp_regions_unwind(nesting);
    if (scopes > 0) {
        amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s left %d of its scopes open", amp_call_name(call),
                 amp_device_name(call->device), scopes);
    } else if (regions != 0) {
        amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s %s", amp_call_name(call),
                 amp_device_name(call->device),
                 regions > 0 ? "left a region open" : "closed a region that it did not open");
    }
}

static amp_status check_result(const amp_call *call, const amp_tensor *t, int64_t index) {
    if (t && amp_tensor_is_live(t)) return AMP_OK;
    return amp_fail(AMP_ERROR_INTERNAL, "%s: result %lld of the implementation on %s is %s", amp_call_name(call),
                    (long long)index, amp_device_name(call->device), t ? "a tensor that was released" : "NULL");
}

/* What libamp's own ops keep to by themselves. */
static amp_status check_results(const amp_call *call) {
    if (!(call->op->flags & AMP_OP_RETURNS_LIST)) {
        for (int i = 0; i < call->op->output_count; i++) {
            if (call->outputs[i]) AMP_TRY(check_result(call, call->outputs[i], i));
        }
        return AMP_OK;
    }
    if (!call->list.holder) {
        return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s made no list (amp_call_list)",
                        amp_call_name(call), amp_device_name(call->device));
    }
    for (int64_t i = 0; i < call->list.count; i++) AMP_TRY(check_result(call, call->list.items[i], i));
    return AMP_OK;
}

static amp_status run_user(amp_call *call) {
    const amp_scope_frame *frame = amp_this_thread.scope;
    const int nesting = amp_autocast_nesting();
    const amp_status status = amp_user_op_run(call->op, call->device)(call, call->args);
    check_balance(call, frame, nesting);
    if (amp_failed()) return amp_pending_error();
    if (status == AMP_OK) return check_results(call);
    if ((unsigned)status > AMP_ERROR_INTERNAL) {
        return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation on %s returned %d, which is no status",
                        amp_call_name(call), amp_device_name(call->device), (int)status);
    }
    return amp_fail(status, "%s: the implementation on %s failed without saying why", amp_call_name(call),
                    amp_device_name(call->device));
}

amp_backend_op amp_user_row(const amp_call *call) {
    return (amp_backend_op){.run = amp_user_op_run(call->op, call->device) ? run_user : NULL};
}

/* ---- Calling --------------------------------------------------------------------------------------------------- */
static bool returns(const amp_op *op, bool list) {
    if (!op) {
        amp_fail(AMP_ERROR_INVALID, "call_defined: the op is NULL");
    } else if (list != ((op->flags & AMP_OP_RETURNS_LIST) != 0)) {
        amp_fail(AMP_ERROR_INVALID, "%s: call it with amp_call_defined%s: it returns %s", op->name, list ? "" : "_list",
                 list ? "a tensor" : "a list");
    } else {
        return true;
    }
    return false;
}

amp_tensor *amp_call_defined(const amp_op *op, const void *args) {
    return returns(op, false) ? amp_dispatch(op, AMP_FORM_FUNCTION, args, NULL) : NULL;
}

amp_tensor *amp_call_defined_inplace(const amp_op *op, const void *args) {
    return returns(op, false) ? amp_dispatch(op, AMP_FORM_INPLACE, args, NULL) : NULL;
}

amp_tensor *amp_call_defined_out(const amp_op *op, amp_tensor *out, const void *args) {
    return returns(op, false) ? amp_dispatch(op, AMP_FORM_OUT, args, out) : NULL;
}

amp_tensor_list amp_call_defined_list(const amp_op *op, const void *args) {
    return returns(op, true) ? amp_dispatch_list(op, args) : (amp_tensor_list){0};
}

/* ---- Inside an implementation ---------------------------------------------------------------------------------- */
amp_status amp_call_return(amp_call *call, int index, amp_tensor *tensor) {
    if (amp_failed()) return amp_pending_error();
    const char *what = !tensor ? "NULL" : amp_tensor_is_live(tensor) ? "a tensor" : "a tensor that was released";
    if (index < 0 || index >= call->op->output_count || !tensor || !amp_tensor_is_live(tensor)) {
        return amp_fail(AMP_ERROR_INTERNAL, "%s: the implementation returns %s as its result number %d of %d",
                        amp_call_name(call), what, index, call->op->output_count);
    }
    amp_results_take(call, tensor);
    call->outputs[index] = tensor;
    return AMP_OK;
}

amp_device amp_call_device(const amp_call *call) {
    return call->device;
}

void amp_call_set_kernel(amp_call *call, const char *kernel) {
    call->note.kernel = kernel;
}

amp_status amp_call_fail(const amp_call *call, amp_status code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const amp_status status =
        amp_fail_about(code == AMP_OK ? AMP_ERROR_INVALID : code, amp_call_name(call), format, arguments);
    va_end(arguments);
    return status;
}

const char *amp_tensor_text(const amp_tensor *tensor) {
    return tensor ? amp_describe(tensor) : "NULL";
}
