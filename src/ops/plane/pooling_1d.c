/* Pools of one dimension, made of those of images of one row: adaptive_max_pool1d, max_unpool1d. */
#include "ops/math/compose.h"
#include "steps/row_rules.h"

static amp_status need_rows(const amp_call *call, const amp_tensor *input) {
    if (input->rank == 2 || input->rank == 3) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected [channels, length] or [batch, channels, length]",
                    amp_call_name(call), amp_describe(input));
}

amp_status amp_op_adaptive_max_pool1d(amp_call *call) {
    const amp_adaptive_max_pool1d_args *a = call->args;
    AMP_TRY(need_rows(call, a->input));
    AMP_TRY(amp_check_floating(call, a->input));
    const amp_dims size = AMP_DIMS(1, a->output_size.values[0]);
    amp_tensor *rows = amp_unsqueeze(a->input, -2), *places = NULL;
    amp_tensor *found = rows ? amp_adaptive_max_pool2d(rows, size, a->return_indices, .indices = &places) : NULL;
    call->outputs[0] = found ? amp_squeeze(found, AMP_DIMS(-2)) : NULL;
    call->outputs[1] = places ? amp_squeeze(places, AMP_DIMS(-2)) : NULL;
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* A dimension of extent 1 behind each. */
static amp_dims with_column(const amp_dims *dims, int64_t value) {
    amp_dims wide = *dims;
    if (wide.set && wide.count > 0 && wide.count < AMP_MAX_RANK) wide.values[wide.count++] = value;
    return wide;
}

amp_status amp_op_max_unpool1d(amp_call *call) {
    const amp_max_unpool1d_args *a = call->args;
    AMP_TRY(need_rows(call, a->input));
    AMP_TRY(amp_check_floating(call, a->input));
    amp_tensor *input = amp_unsqueeze(a->input, -1), *indices = input ? amp_unsqueeze(a->indices, -1) : NULL;
    if (!indices) return amp_pending_error();
    amp_tensor *planes = amp_max_unpool2d(input, indices, with_column(&a->kernel_size, 1), with_column(&a->stride, 1),
                                          with_column(&a->padding, 0), with_column(&a->output_size, 1));
    return amp_return(call, planes ? amp_squeeze(planes, AMP_DIMS(-1)) : NULL);
}
