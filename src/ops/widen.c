/* f16 on CPUs that have no f16 arithmetic: compute in f32, round once. */
#include <stddef.h>
#include <string.h>

#include "amp/ops.h"
#include "cpu/product/matmul.h"

static amp_tensor *converted(amp_tensor *t, amp_dtype dtype) {
    const amp_to_args args = {.struct_size = sizeof args, .input = t, .dtype = dtype};
    return amp_to_call(&args);
}

static amp_status widen(amp_call *call, amp_tensor **slot) {
    if (!*slot || (*slot)->dtype != AMP_F16) return AMP_OK;
    AMP_TRY(amp_call_materialize(call, *slot));
    *slot = converted(*slot, AMP_F32);
    return *slot ? AMP_OK : amp_pending_error();
}

/* The caller's array is const: a copy of it, which belongs to the call's frame. */
static amp_status widen_list(amp_call *call, amp_tensor_list *list) {
    AMP_TRY(amp_call_list(call, list->items, list->count));
    amp_tensor **items = call->list.holder->storage->data;
    list->items = call->list.items;
    call->list = (amp_tensor_list){0};
    for (int64_t i = 0; i < list->count; i++) AMP_TRY(widen(call, &items[i]));
    return AMP_OK;
}

static amp_status widen_arguments(amp_call *call, char *args) {
    for (int i = 0; i < call->op->arg_count; i++) {
        const amp_arg_info *arg = &call->op->args[i];
        void *field = args + arg->offset;
        if (arg->kind == AMP_ARG_TENSOR) AMP_TRY(widen(call, field));
        if (arg->kind == AMP_ARG_TENSOR_LIST) AMP_TRY(widen_list(call, field));
    }
    return AMP_OK;
}

amp_status amp_cpu_run_widened(amp_call *call, amp_op_function implementation) {
    amp_tensor *target = call->target;
    const void *args = call->args;
    union {
        char bytes[AMP_MAX_ARGS_BYTES];
        max_align_t align;
    } wide;
    AMP_TRY(amp_call_check_target_dtype(call, AMP_F16));
    memcpy(wide.bytes, args, call->op->args_size);
    AMP_TRY(widen_arguments(call, wide.bytes));
    call->args = &wide;
    call->target = NULL; /* it gets the rounded result */
    const amp_status status = implementation(call);
    call->target = target;
    call->args = args;
    AMP_TRY(status);
    for (int i = 0; i < call->op->output_count; i++) {
        if (!call->outputs[i] || call->outputs[i]->dtype != AMP_F32) continue;
        call->outputs[i] = converted(call->outputs[i], AMP_F16);
        if (!call->outputs[i]) return amp_pending_error();
    }
    return AMP_OK;
}
