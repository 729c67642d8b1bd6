/* Planes behind a batch and channels. */
#include "steps/spatial.h"

#include <omp.h>
#include <string.h>

#include "core/layout.h"

/* ---- Geometry ------------------------------------------------------------------------------------------------- */

amp_status amp_spatial_start(const amp_call *call, amp_spatial *s, const amp_tensor *input, int dims) {
    *s = (amp_spatial){.dims = dims, .rank = input->rank, .batch = 1, .in = {1, 1, 1}};
    const int batched = input->rank == dims + 2;
    bool empty = false;
    if (!batched && input->rank != dims + 1) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; expected %d dimensions, or %d with a batch",
                        amp_call_name(call), amp_describe(input), dims + 1, dims + 2);
    }
    for (int d = batched + 1; d < input->rank; d++) empty |= input->shape[d] == 0;
    if (empty) {
        return amp_fail(AMP_ERROR_INVALID, "%s: input is %s; only batch and channels may be empty", amp_call_name(call),
                        amp_describe(input));
    }
    if (batched) s->batch = input->shape[0];
    s->channels = input->shape[batched];
    memcpy(&s->in[AMP_SPATIAL_DIMS - dims], input->shape + batched + 1, (size_t)dims * sizeof *s->in);
    memcpy(s->out, s->in, sizeof s->out);
    s->channels_last = input->rank == dims + 2 && amp_prefers_channels_last(input);
    s->outer = s->channels_last ? s->batch : s->batch * s->channels;
    s->inner = s->channels_last ? s->channels : 1;
    return AMP_OK;
}

void *amp_spatial_table(const amp_call *call, int64_t count, size_t size) {
    int64_t bytes;
    if (__builtin_mul_overflow(count, (int64_t)size, &bytes)) {
        amp_fail(AMP_ERROR_MEMORY, "%s: no memory for a table of %lld entries", amp_call_name(call), (long long)count);
        return NULL;
    }
    amp_tensor *holder = amp_tensor_new(call->op->name, AMP_U8, 1, &bytes);
    return holder ? amp_tensor_pointer(holder) : NULL;
}
