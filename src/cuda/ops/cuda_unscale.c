/* Unscaling of gradients: one launch for up to AMP_CUDA_TENSORS of them; the flag is never read here. */
#include "amp/cuda.h"
#include "amp/ops.h"
#include "amp/scope.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

typedef struct batch {
    const char *op;
    amp_cuda_scaling a;
} batch;

static amp_status flush(batch *b) {
    const int64_t pieces = b->a.first_piece[b->a.tensors];
    AMP_TRY(amp_cuda_launch_over(b->op, "unscale", &b->a, pieces < 65536 ? pieces : 65536));
    b->a.tensors = 0;
    return AMP_OK;
}

static amp_status append(batch *b, const amp_tensor *t) {
    const int64_t count = amp_tensor_elements(t);
    if (count == 0) return AMP_OK;
    if (b->a.tensors == AMP_CUDA_TENSORS) AMP_TRY(flush(b));
    const int i = b->a.tensors++;
    b->a.data[i] = amp_cuda_address(b->op, t);
    b->a.counts[i] = count;
    b->a.dtypes[i] = t->dtype;
    b->a.first_piece[i + 1] = b->a.first_piece[i] + (count + AMP_CUDA_PIECE - 1) / AMP_CUDA_PIECE;
    return b->a.data[i] ? AMP_OK : amp_pending_error();
}

/* Strided ones by way of a dense copy. */
static amp_status unscale_copy(batch *b, amp_tensor *t) {
    amp_tensor *copy = amp_contiguous(t);
    if (!copy) return amp_pending_error();
    AMP_TRY(append(b, copy));
    AMP_TRY(flush(b));
    return amp_cuda_copy_tensor(t, copy);
}

static amp_status unscale_all(const char *op, amp_tensor *const *grads, int64_t count, amp_tensor *found,
                              const amp_tensor *factor) {
    batch b = {.op = op, .a = {.tensors = 0}};
    b.a.found = amp_cuda_address(op, found);
    if (b.a.found) b.a.factor = amp_cuda_address(op, factor);
    if (!b.a.factor) return amp_pending_error();
    for (int64_t i = 0; i < count; i++) {
        if (amp_tensor_is_dense(grads[i])) AMP_TRY(append(&b, grads[i]));
    }
    AMP_TRY(flush(&b));
    for (int64_t i = 0; i < count; i++) {
        if (!amp_tensor_is_dense(grads[i])) AMP_TRY(unscale_copy(&b, grads[i]));
    }
    return AMP_OK;
}

amp_status amp_cuda_unscale(amp_call *call, const amp_tensor_list *grads, amp_tensor *found, const amp_tensor *factor) {
    return unscale_all(call->op->name, grads->items, grads->count, found, factor);
}
