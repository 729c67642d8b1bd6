/* Linear algebra: one launch for a batch, a block for each matrix. */
#include "cuda/ops/cuda_linalg.h"

#include <string.h>

#include "cuda/cuda_steps.h"
#include "cuda/ops/cuda_elementwise.h"
#include "cuda/ops/cuda_solver.h"

/* Blocks share no scratch memory, of which there shall not be too much. */
enum { MOST_BLOCKS = 132 * 8 };
static const int64_t most_scratch = (int64_t)1 << 30;

static amp_status set_stack(const char *op, const amp_stack *stack, amp_cuda_stack *s) {
    if (!stack || !stack->view.storage) return AMP_OK;
    const amp_tensor *v = &stack->view;
    s->data = amp_cuda_address(op, v);
    s->rows = stack->rows;
    s->columns = stack->columns;
    s->ld = stack->ld;
    memcpy(s->strides, v->strides, (size_t)(v->rank - 2) * sizeof *s->strides);
    return s->data ? AMP_OK : amp_pending_error();
}

static int64_t blocks_for(int64_t count, int64_t bytes) {
    int64_t blocks = count < MOST_BLOCKS ? count : MOST_BLOCKS;
    if (bytes > 0 && blocks > most_scratch / bytes) blocks = most_scratch / bytes;
    return blocks > 0 ? blocks : 1;
}

#define X(name)                                                                                                        \
    [AMP_LINALG_##                                                                                                     \
        name] = {"matrix_" #name "_f32", "matrix_" #name "_f64", "matrix_" #name "_c64", "matrix_" #name "_c128"},
static const char *const names[AMP_LINALG_KINDS][4] = {AMP_LINALG_KERNELS(X)};
#undef X

int amp_cuda_lapack_number(amp_dtype dtype) {
    return dtype == AMP_F32 ? 0 : dtype == AMP_F64 ? 1 : dtype == AMP_C64 ? 2 : 3;
}

amp_status amp_cuda_conjugate(amp_tensor *t) {
    const amp_operand v = amp_tensor_operand("input", t);
    return amp_cuda_compute(NULL, AMP_FORMULA_conj, &v, 1, AMP_C128, (amp_formula_numbers){0}, t);
}

amp_status amp_cuda_linalg_run(amp_call *call, const amp_linalg_loop *loop) {
    const char *op = call->op->name;
    const amp_linalg_kernel *k = &loop->kernel;
    const amp_dtype dtype = loop->lapack->dtype;
    const char *name = names[k->kind][amp_cuda_lapack_number(dtype)];
    if (!name) return amp_fail(AMP_ERROR_NOT_IMPLEMENTED, "%s: not implemented on cuda yet", amp_call_name(call));
    amp_cuda_matrices a = {.rank = loop->batch->rank,
                           .count = loop->batch->count,
                           .number = k->number,
                           .infos = loop->infos,
                           .ranks = k->ranks,
                           .room = k->room,
                           .check = k->check};
    memcpy(a.shape, loop->batch->shape, (size_t)a.rank * sizeof *a.shape);
    memcpy(a.options, k->options, sizeof a.options);
    for (int i = 0; i < AMP_CUDA_STACKS; i++) AMP_TRY(set_stack(op, k->stacks[i], &a.stacks[i]));
    AMP_TRY(amp_cuda_report_of(op, &a.report));
    bool done = false;
    call->note.kernel = name;
    AMP_TRY(amp_cuda_solver_run(call, loop, &a, &done));
    if (done) return AMP_OK;
    const int64_t blocks = blocks_for(a.count, k->room * (int64_t)amp_dtype_size(dtype)), elements = blocks * k->room;
    amp_tensor *scratch = elements > 0 ? amp_cuda_temporary(call, dtype, 1, &elements) : NULL;
    if (elements > 0) a.scratch = scratch ? amp_cuda_address(op, scratch) : NULL;
    if (elements > 0 && !a.scratch) return amp_pending_error();
    return amp_cuda_launch_over(op, name, &a, blocks);
}
