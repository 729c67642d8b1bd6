/* Tensors as dense rows. */
#include "cpu/move/rows.h"

#include <omp.h>

#include "call/backend.h"
#include "core/parallel.h"

/* The dimensions of `mask` last. */
static amp_tensor with_rows_last(const amp_tensor *t, unsigned mask) {
    amp_tensor moved = *t;
    int at = 0;
    for (int last = 0; last < 2; last++) {
        for (int d = 0; d < t->rank; d++) {
            if ((bool)(mask & 1u << d) != (bool)last) continue;
            moved.shape[at] = t->shape[d];
            moved.strides[at++] = t->strides[d];
        }
    }
    return moved;
}

static amp_status describe_rows(const amp_call *call, const amp_tensor *t, unsigned mask, amp_rows *rows) {
    *rows = (amp_rows){.dtype = t->dtype,
                       .count = 1,
                       .length = 1,
                       .size = (int64_t)amp_dtype_size(t->dtype),
                       .target = with_rows_last(t, mask)};
    for (int d = 0; d < t->rank; d++) *(mask & 1u << d ? &rows->length : &rows->count) *= t->shape[d];
    amp_block_prepare();
    rows->data = amp_tensor_pointer(&rows->target);
    if (amp_tensor_is_dense(&rows->target)) return AMP_OK;
    rows->copy = amp_backend_tensor(call->device, call->op->name, t->dtype, t->rank, rows->target.shape);
    if (!rows->copy) return amp_pending_error();
    rows->data = amp_tensor_pointer(rows->copy);
    return AMP_OK;
}

amp_status amp_rows_of(const amp_call *call, const amp_tensor *input, unsigned mask, amp_rows *rows) {
    AMP_TRY(describe_rows(call, input, mask, rows));
    return rows->copy ? amp_copy_tensor(rows->copy, &rows->target) : AMP_OK;
}

amp_status amp_rows_for(const amp_call *call, amp_tensor *out, unsigned mask, amp_rows *rows) {
    return describe_rows(call, out, mask, rows);
}

amp_status amp_rows_finish(amp_rows *rows) {
    return rows->copy ? amp_copy_tensor(&rows->target, rows->copy) : AMP_OK;
}

void amp_rows_run(const amp_rows *rows, int64_t cost, amp_rows_loop *loop, void *context) {
    const int64_t work = rows->count * (rows->length ? rows->length : 1) * cost;
    const int threads = amp_parallel_threads(work, AMP_GRAIN_ELEMENTS);
    if (threads <= 1) {
        loop(context, 0, rows->count);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
        const amp_range part = amp_parallel_part(rows->count, 1, omp_get_thread_num(), omp_get_num_threads());
        if (part.begin < part.end) loop(context, part.begin, part.end);
    }
}
