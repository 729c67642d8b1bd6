/* What the linear algebra ops share: batches of matrices laid out for LAPACK, argument checks, and the loop that runs a
 * routine for each. */
#include "ops/linalg/linalg.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/layout.h"
#include "steps/steps.h"

/* ---- Checks ---------------------------------------------------------------------------------------------------- */

amp_status amp_linalg_check(const amp_call *call, const char *name, const amp_tensor *t, bool square) {
    if (!amp_lapack_of(t->dtype)) {
        return amp_fail(AMP_ERROR_DTYPE, "%s: '%s' is %s; expected f32, f64, c64 or c128", amp_call_name(call), name,
                        amp_describe(t));
    }
    if (t->rank < 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected a matrix or a batch of matrices",
                        amp_call_name(call), name, amp_describe(t));
    }
    const int64_t rows = t->shape[t->rank - 2], columns = t->shape[t->rank - 1];
    if (square && rows != columns) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; expected square matrices", amp_call_name(call), name,
                        amp_describe(t));
    }
    if (rows > INT_MAX / 2 || columns > INT_MAX / 2) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s; LAPACK takes at most %d rows or columns",
                        amp_call_name(call), name, amp_describe(t), INT_MAX / 2);
    }
    return AMP_OK;
}

bool amp_linalg_is_vector_side(const amp_tensor *a, const amp_tensor *b) {
    return b->rank == 1 || (b->rank == a->rank - 1 && amp_same_leading(a, b, b->rank));
}

const char *amp_linalg_matrix_name(const amp_batch *batch, int64_t index) {
    static _Thread_local char text[48];
    text[0] = 0;
    if (batch->rank > 0) snprintf(text, sizeof text, "matrix %lld of the batch: ", (long long)index);
    return text;
}

void amp_linalg_step_done(amp_call *call, const amp_call *step) {
    call->note.kernel = step->note.kernel;
}

amp_tensor *amp_linalg_adjoint(amp_tensor *t) {
    amp_tensor *result = t ? amp_clone(amp_transpose(t, -2, -1)) : NULL;
    if (!result || !amp_dtype_is_complex(result->dtype)) return result;
    return amp_steps_on(amp_tensor_device(result))->conjugate(result) == AMP_OK ? result : NULL;
}

amp_tensor amp_matrix_transposed(const amp_tensor *t) {
    amp_tensor view = *t;
    const int r = t->rank - 2, c = t->rank - 1;
    view.shape[r] = t->shape[c];
    view.strides[r] = t->strides[c];
    view.shape[c] = t->shape[r];
    view.strides[c] = t->strides[r];
    return view;
}

amp_tensor amp_vector_as_matrix(const amp_tensor *t) {
    amp_tensor view = *t;
    view.shape[view.rank] = 1;
    view.strides[view.rank] = 1;
    view.rank++;
    return view;
}

/* ---- Batches and stacks ---------------------------------------------------------------------------------------- */

amp_batch amp_batch_of(const amp_tensor *t, int tail) {
    amp_batch batch = {.rank = t->rank - tail, .count = 1};
    for (int d = 0; d < batch.rank; d++) {
        batch.shape[d] = t->shape[d];
        batch.count *= t->shape[d];
    }
    return batch;
}

amp_status amp_batch_broadcast(const amp_call *call, const char *name_a, const amp_batch *a, const char *name_b,
                               const amp_batch *b, amp_batch *both) {
    if (!amp_broadcast_shapes(a->rank, a->shape, b->rank, b->shape, &both->rank, both->shape)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is a batch of shape %s, '%s' one of %s; they do not broadcast",
                        amp_call_name(call), name_a, amp_describe_shape(a->rank, a->shape), name_b,
                        amp_describe_shape(b->rank, b->shape));
    }
    both->count = 1;
    for (int d = 0; d < both->rank; d++) both->count *= both->shape[d];
    return AMP_OK;
}

/* Up to here the calls cost more than the arithmetic. */
enum { SMALL = 32 };

amp_dtype amp_linalg_compute_dtype(amp_dtype dtype, int64_t rows, int64_t columns) {
    if (rows > SMALL || columns > SMALL) return dtype;
    return dtype == AMP_F32 ? AMP_F64 : dtype == AMP_C64 ? AMP_C128 : dtype;
}

/* Byte offset of matrix `index`. */
static int64_t offset_of(const amp_stack *stack, int64_t index) {
    const amp_tensor *v = &stack->view;
    int64_t offset = 0;
    for (int d = v->rank - 3; d >= 0; d--) {
        offset += index % v->shape[d] * v->strides[d];
        index /= v->shape[d];
    }
    return offset * (int64_t)amp_element_sizes[v->dtype];
}

void *amp_stack_at(const amp_stack *stack, int64_t index) {
    return stack->view.rank ? (char *)amp_tensor_pointer(&stack->view) + offset_of(stack, index) : NULL;
}

static int at_least_one(int64_t n) {
    return n < 1 ? 1 : (int)n;
}

/* (batch…, columns, rows) in memory, seen as (batch…, rows, columns). */
static void set_transposed_view(amp_stack *stack, const amp_tensor *memory, int64_t rows, int64_t columns) {
    *stack = (amp_stack){.view = *memory, .rows = (int)rows, .columns = (int)columns, .ld = at_least_one(rows)};
    amp_tensor *v = &stack->view;
    const int r = v->rank - 2, c = v->rank - 1;
    v->shape[r] = rows;
    v->strides[r] = 1;
    v->shape[c] = columns;
    v->strides[c] = stack->ld;
}

static amp_status check_rank(const amp_call *call, const amp_batch *batch) {
    if (batch->rank + 2 <= AMP_MAX_RANK) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: the result would have %d dimensions; at most %d are possible",
                    amp_call_name(call), batch->rank + 2, AMP_MAX_RANK);
}

/* OpenBLAS's zgemv_n for Haswell and Zen (0.3.21) reads one element beyond its vector, and does not use it. Where that
 * is a row of a matrix, it lies in a column after the last, where memory may end: complex matrices get such a
 * column. */
static bool is_read_beyond(const amp_call *call, amp_dtype dtype) {
    return call->device == AMP_DEVICE_CPU && amp_dtype_is_complex(dtype);
}

amp_status amp_stack_new(const amp_call *call, amp_dtype dtype, const amp_batch *batch, int64_t rows, int64_t columns,
                         amp_stack *stack) {
    int64_t shape[AMP_MAX_RANK];
    AMP_TRY(check_rank(call, batch));
    memcpy(shape, batch->shape, (size_t)batch->rank * sizeof *shape);
    shape[batch->rank] = columns + is_read_beyond(call, dtype);
    shape[batch->rank + 1] = rows;
    const amp_tensor *memory = amp_backend_tensor(call->device, call->op->name, dtype, batch->rank + 2, shape);
    if (!memory) return amp_pending_error();
    set_transposed_view(stack, memory, rows, columns);
    return AMP_OK;
}

amp_status amp_stack_fill(amp_stack *stack, const amp_tensor *t) {
    amp_tensor part = stack->view;
    for (int d = 1; d <= 2; d++) part.shape[part.rank - d] = t->shape[t->rank - d];
    return amp_copy_tensor(&part, t);
}

amp_status amp_stack_copy(const amp_call *call, const amp_tensor *t, amp_dtype compute, const amp_batch *batch,
                          amp_stack *stack) {
    AMP_TRY(amp_stack_new(call, compute, batch, t->shape[t->rank - 2], t->shape[t->rank - 1], stack));
    return amp_stack_fill(stack, t);
}

/* LAPACK can walk the last two dimensions as they are. */
static bool is_column_major(const amp_call *call, const amp_tensor *t, int *ld) {
    if (is_read_beyond(call, t->dtype)) return false;
    const int64_t rows = t->shape[t->rank - 2], columns = t->shape[t->rank - 1];
    const int64_t step = columns > 1 ? t->strides[t->rank - 1] : at_least_one(rows);
    *ld = (int)step;
    return (rows <= 1 || t->strides[t->rank - 2] == 1) && step >= at_least_one(rows) && step <= INT_MAX;
}

/* t's memory, its batch broadcast. */
static void set_direct_view(amp_stack *stack, const amp_tensor *t, const amp_batch *batch, int ld) {
    *stack =
        (amp_stack){.view = *t, .rows = (int)t->shape[t->rank - 2], .columns = (int)t->shape[t->rank - 1], .ld = ld};
    amp_tensor *v = &stack->view;
    v->rank = batch->rank + 2;
    for (int d = 0; d < v->rank; d++) {
        const int from = d - (v->rank - t->rank);
        const bool is_batch = d < batch->rank;
        v->shape[d] = is_batch ? batch->shape[d] : t->shape[from];
        v->strides[d] = from < 0 || (is_batch && t->shape[from] == 1) ? 0 : t->strides[from];
    }
}

amp_status amp_stack_read(const amp_call *call, const amp_tensor *t, amp_dtype compute, const amp_batch *batch,
                          amp_stack *stack) {
    int ld;
    AMP_TRY(check_rank(call, batch));
    if (t->dtype != compute || !is_column_major(call, t, &ld)) return amp_stack_copy(call, t, compute, batch, stack);
    set_direct_view(stack, t, batch, ld);
    return AMP_OK;
}

/* The result's shape: (batch…, rows, columns) or (batch…, rows). */
static amp_tensor *make_output(amp_call *call, int index, amp_dtype dtype, const amp_batch *batch, int64_t rows,
                               int64_t columns) {
    int64_t shape[AMP_MAX_RANK];
    if (check_rank(call, batch) != AMP_OK) return NULL;
    memcpy(shape, batch->shape, (size_t)batch->rank * sizeof *shape);
    shape[batch->rank] = rows;
    shape[batch->rank + 1] = columns;
    return amp_call_output(call, index, dtype, batch->rank + (columns == AMP_VECTOR ? 1 : 2), shape);
}

/* A stack for matrices that shall be in `matrix`. */
static amp_status stack_on(const amp_call *call, const amp_tensor *matrix, amp_dtype compute, const amp_batch *batch,
                           amp_stack *stack) {
    int ld;
    if (matrix->dtype == compute && is_column_major(call, matrix, &ld)) {
        set_direct_view(stack, matrix, batch, ld);
        return AMP_OK;
    }
    AMP_TRY(
        amp_stack_new(call, compute, batch, matrix->shape[matrix->rank - 2], matrix->shape[matrix->rank - 1], stack));
    stack->target = *matrix;
    stack->has_target = true;
    return AMP_OK;
}

amp_status amp_stack_output(amp_call *call, int index, amp_dtype dtype, amp_dtype compute, const amp_batch *batch,
                            int64_t rows, int64_t columns, amp_stack *stack) {
    const amp_tensor *out = make_output(call, index, dtype, batch, rows, columns);
    if (!out) return amp_pending_error();
    const amp_tensor matrix = columns == AMP_VECTOR ? amp_vector_as_matrix(out) : *out;
    return stack_on(call, &matrix, compute, batch, stack);
}

amp_status amp_stack_output_transposed(amp_call *call, int index, amp_dtype dtype, amp_dtype compute,
                                       const amp_batch *batch, int64_t rows, int64_t columns, amp_stack *stack) {
    const amp_tensor *out = make_output(call, index, dtype, batch, rows, columns);
    if (!out) return amp_pending_error();
    const amp_tensor matrix = amp_matrix_transposed(out);
    return stack_on(call, &matrix, compute, batch, stack);
}

amp_status amp_stack_finish(amp_stack *stack) {
    return stack->has_target ? amp_copy_tensor(&stack->target, &stack->view) : AMP_OK;
}

amp_status amp_stack_return(amp_call *call, int index, const amp_stack *stack, const amp_batch *batch, int64_t rows,
                            int64_t columns) {
    amp_tensor part = stack->view;
    part.rank = batch->rank;
    part.shape[part.rank++] = rows;
    if (columns != AMP_VECTOR) part.shape[part.rank++] = columns;
    amp_tensor *out = amp_call_output(call, index, part.dtype, part.rank, part.shape);
    return out ? amp_copy_tensor(out, &part) : amp_pending_error();
}

amp_status amp_linalg_return_empty(amp_call *call, int index, amp_dtype dtype) {
    return amp_call_output(call, index, dtype, 1, (const int64_t[]){0}) ? AMP_OK : amp_pending_error();
}

/* ---- Running --------------------------------------------------------------------------------------------------- */

amp_status amp_linalg_infos(amp_call *call, const amp_batch *batch, int output, amp_tensor **tensor, int32_t **infos) {
    amp_tensor *t = amp_backend_tensor(call->device, call->op->name, AMP_I32, batch->rank, batch->shape);
    if (!t) return amp_pending_error();
    *infos = amp_tensor_pointer(t);
    const amp_scalar zero = amp_int(0);
    AMP_TRY(amp_fill_tensor_with(t, &zero));
    if (output >= 0) call->outputs[output] = t;
    if (tensor) *tensor = t;
    return AMP_OK;
}

int64_t amp_linalg_first_failure(const amp_call *call, const amp_batch *batch, const int32_t *infos) {
    if (call->device == AMP_DEVICE_CUDA) return -1;
    for (int64_t i = 0; i < batch->count; i++) {
        if (infos[i]) return i;
    }
    return -1;
}

amp_status amp_linalg_run(amp_call *call, const amp_linalg_loop *loop) {
    return loop->batch->count == 0 ? AMP_OK : amp_steps_of(call)->linalg_run(call, loop);
}
