/* Questions about the arguments of a call, for autocast. */
#include "autocast/eligibility.h"

typedef bool (*tensor_question)(const amp_call *call, const amp_tensor *t);

/* Whether one of the arguments that a policy may cast is such a tensor. */
static bool any_argument(const amp_call *call, tensor_question is_such) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        const bool is_list = arg->kind == AMP_ARG_TENSOR_LIST;
        if ((!is_list && arg->kind != AMP_ARG_TENSOR) || arg->flags & (AMP_ARG_MUTATED | AMP_ARG_UNCAST)) continue;
        amp_tensor *const *items = is_list ? amp_call_tensor_list(call, arg)->items : amp_call_tensor(call, arg);
        const int64_t count = is_list ? amp_call_tensor_list(call, arg)->count : 1;
        for (int64_t k = 0; k < count; k++) {
            if (items[k] && is_such(call, items[k])) return true;
        }
    }
    return false;
}

static bool is_eligible(const amp_call *call, const amp_tensor *t) {
    return amp_autocast_eligible(t, call->device);
}

static bool is_f64(const amp_call *call, const amp_tensor *t) {
    (void)call;
    return t->dtype == AMP_F64;
}

static bool is_elsewhere(const amp_call *call, const amp_tensor *t) {
    return amp_tensor_memory(t)->storage->device != call->device && amp_dtype_is_floating(t->dtype);
}

bool amp_autocast_any_eligible(const amp_call *call) {
    return any_argument(call, is_eligible);
}

const char *amp_autocast_argument_bypass(const amp_call *call) {
    if (any_argument(call, is_f64)) return "an argument is f64";
    return any_argument(call, is_elsewhere) ? "an argument is on another device" : NULL;
}

const char *amp_autocast_form_bypass(const amp_call *call) {
    if (!any_argument(call, is_eligible)) return amp_autocast_argument_bypass(call);
    return call->form == AMP_FORM_INPLACE ? "in-place forms do not autocast" : "out= forms do not autocast";
}

bool amp_autocast_runs_as_it_is(const amp_call *call) {
    return !any_argument(call, is_eligible) || any_argument(call, is_f64);
}
