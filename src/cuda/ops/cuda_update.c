/* Steps of optimizers: one launch for up to AMP_CUDA_UPDATED parameters. */
#include <string.h>

#include "cuda/args/update_args.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_steps.h"

_Static_assert((int)AMP_CUDA_UPDATE_NUMBERS == (int)AMP_MAX_RANK, "those of amp_update");
_Static_assert((int)AMP_CUDA_UPDATE_STATES == (int)AMP_UPDATE_STATES, "those of amp_update");
_Static_assert(sizeof(amp_cuda_update) <= 4096, "what a launch may have");

static const char *kernel_of(const amp_update *u) {
    static const char *const kernels[AMP_UPDATE_KINDS] = {
        [AMP_UPDATE_SGD] = "update_sgd",           [AMP_UPDATE_ADAM] = "update_adam",
        [AMP_UPDATE_ADAGRAD] = "update_adagrad",   [AMP_UPDATE_RMSPROP] = "update_rmsprop",
        [AMP_UPDATE_ADADELTA] = "update_adadelta", [AMP_UPDATE_NADAM] = "update_nadam",
        [AMP_UPDATE_RADAM] = "update_radam",       [AMP_UPDATE_ADAMAX] = "update_adamax"};
    if (u->kind == AMP_UPDATE_SGD && u->states[0]) return "update_sgd_momentum";
    if (u->kind == AMP_UPDATE_ADAM && u->states[2]) return "update_amsgrad";
    return kernels[u->kind];
}

static amp_status flush(const char *op, const amp_update *u, amp_cuda_update *a) {
    const int64_t pieces = a->first_piece[a->tensors];
    const amp_status status =
        pieces ? amp_cuda_launch_over(op, kernel_of(u), a, pieces < 65536 ? pieces : 65536) : AMP_OK;
    a->tensors = 0;
    return status;
}

/* Whether a launch that writes the others must have ended: a parameter may be a view of another one's memory. */
static bool meets_others(const amp_cuda_update *a, const char *data, int64_t bytes) {
    for (int i = 0; i < a->tensors; i++) {
        const char *other = a->parameters[i];
        if (data < other + a->counts[i] * (int64_t)amp_dtype_size(a->dtypes[i]) && other < data + bytes) return true;
    }
    return false;
}

static amp_status append(const char *op, const amp_update *u, int64_t index, amp_cuda_update *a) {
    const amp_tensor *parameter = u->parameters[index], *gradient = u->gradients[index];
    const int64_t count = amp_tensor_elements(parameter);
    if (count == 0) return AMP_OK;
    void *data = amp_cuda_address(op, parameter);
    const bool full = a->tensors == AMP_CUDA_UPDATED;
    if (full || meets_others(a, data, count * (int64_t)amp_dtype_size(parameter->dtype))) AMP_TRY(flush(op, u, a));
    const int i = a->tensors++;
    a->parameters[i] = data;
    a->gradients[i] = amp_cuda_address(op, gradient);
    for (int k = 0; k < a->state_count; k++) a->states[k][i] = amp_cuda_address(op, u->states[k][index]);
    a->copies[i] = u->copies ? amp_cuda_address(op, u->copies[index]) : NULL;
    a->dtypes[i] = parameter->dtype;
    a->gradient_dtypes[i] = gradient->dtype;
    a->copy_dtypes[i] = u->copies ? u->copies[index]->dtype : parameter->dtype;
    a->counts[i] = count;
    a->first_piece[i + 1] = a->first_piece[i] + (count + AMP_CUDA_PIECE - 1) / AMP_CUDA_PIECE;
    return amp_pending_error();
}

amp_status amp_cuda_update_all(amp_call *call, const amp_update *u) {
    const char *op = call->op->name;
    amp_cuda_update a = {.tensors = 0};
    memcpy(a.numbers, u->numbers, sizeof a.numbers);
    while (a.state_count < AMP_CUDA_UPDATE_STATES && u->states[a.state_count]) a.state_count++;
    for (int64_t i = 0; i < u->count; i++) AMP_TRY(append(op, u, i, &a));
    return a.tensors ? flush(op, u, &a) : AMP_OK;
}
