/* Channels last: the order that convolutions like best, made of three ops. */
#include "amp/ops.h"
#include "core/thread.h"

/* 0, 2, 3, 1: channels behind the pixels; or back, 0, 3, 1, 2. */
static amp_dims order(int rank, bool back) {
    amp_dims dims = {.count = rank, .set = AMP_PRESENT};
    for (int i = 1; i < rank; i++) {
        const int behind = i + 1 < rank ? i + 1 : 1;
        if (back) {
            dims.values[behind] = i;
        } else {
            dims.values[i] = behind;
        }
    }
    return dims;
}

static amp_tensor *reordered(amp_tensor *t) {
    amp_tensor *pixels = amp_permute(t, order(t->rank, false));
    amp_tensor *dense = pixels ? amp_contiguous(pixels) : NULL;
    return dense ? amp_permute(dense, order(t->rank, true)) : NULL;
}

static amp_status check(const amp_tensor *t) {
    AMP_TRY(amp_pending_error());
    if (!t) return amp_fail(AMP_ERROR_INVALID, "channels_last: the argument 'tensor' is missing");
    if (!amp_tensor_is_live(t)) {
        return amp_fail(AMP_ERROR_INVALID, "channels_last: the argument 'tensor' was released before");
    }
    if (t->rank == 4 || t->rank == 5) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "channels_last: tensor is %s; expected rank 4 or 5", amp_describe(t));
}

amp_tensor *amp_channels_last(amp_tensor *tensor) {
    if (check(tensor) != AMP_OK) return NULL;
    amp_scope_frame frame;
    amp_scope_push(&frame);
    amp_tensor *result = reordered(tensor);
    if (result) amp_scope_move(result, frame.outer);
    amp_scope_pop(&frame);
    return result;
}
