/* What the linear algebra ops share: batches of matrices laid out for LAPACK, argument checks, and the loop that runs a
 * routine for each matrix.
 *
 * Small matrices of single precision may be computed in double precision and rounded once: their time is not in the
 * arithmetic. The last dtype argument of the functions below is the one to compute in.
 *
 * A matrix is one thread's work: LAPACK runs single-threaded, and a batch is spread over libamp's threads. So no result
 * depends on the number of threads. Results are row-major, as all of libamp's. */
#ifndef AMP_CPU_LINALG_H
#define AMP_CPU_LINALG_H

#include "call/outputs.h"
#include "cpu/linalg/lapack.h"
#include "steps/linalg.h"

/* ---- Checks ---------------------------------------------------------------------------------------------------- */

/* Matrices (rank 2 and more) of f32, f64, c64 or c128, square if asked for. */
amp_status amp_linalg_check(const amp_call *call, const char *name, const amp_tensor *t, bool square);

/* In A X = B, B is a vector, or a batch of vectors that fits the batch of A. */
bool amp_linalg_is_vector_side(const amp_tensor *a, const amp_tensor *b);

/* "(matrix 3 of the batch) ", or "" where there is no batch. In a buffer of the thread's. */
const char *amp_linalg_matrix_name(const amp_batch *batch, int64_t index);

/* ---- Steps ----------------------------------------------------------------------------------------------------- */

/* What `explain` shows of a step (amp_call_step) is the call's. */
void amp_linalg_step_done(amp_call *call, const amp_call *step);

/* The singular values, largest first, as a tensor of the call's (batch…, min(m, n)). */
amp_status amp_linalg_singular_values(amp_call *call, const char *name, const amp_tensor *a, amp_tensor **values);

/* ---- Views ----------------------------------------------------------------------------------------------------- */

/* A fresh, dense tensor: the conjugate transpose of each matrix; NULL with an error. */
amp_tensor *amp_linalg_adjoint(amp_tensor *t);

/* The last two dimensions exchanged. */
amp_tensor amp_matrix_transposed(const amp_tensor *t);

/* (…, n) as (…, n, 1). */
amp_tensor amp_vector_as_matrix(const amp_tensor *t);

/* ---- Batches and stacks ---------------------------------------------------------------------------------------- */

/* The dimensions of t before its last `tail`. */
amp_batch amp_batch_of(const amp_tensor *t, int tail);

/* The batch that both broadcast to; an error that names the arguments if there is none. */
amp_status amp_batch_broadcast(const amp_call *call, const char *name_a, const amp_batch *a, const char *name_b,
                               const amp_batch *b, amp_batch *both);

/* The dtype to compute matrices of these extents in. */
amp_dtype amp_linalg_compute_dtype(amp_dtype dtype, int64_t rows, int64_t columns);

/* Uninitialised. */
amp_status amp_stack_new(const amp_call *call, amp_dtype dtype, const amp_batch *batch, int64_t rows, int64_t columns,
                         amp_stack *stack);

/* The upper left part, of t's extents, becomes t, which broadcasts over the batch. */
amp_status amp_stack_fill(amp_stack *stack, const amp_tensor *t);

/* A copy, for a routine that overwrites it. */
amp_status amp_stack_copy(const amp_call *call, const amp_tensor *t, amp_dtype compute, const amp_batch *batch,
                          amp_stack *stack);

/* For reading: t's own memory where its strides are column-major and the dtype is the same, else a copy. Complex
 * matrices on the CPU are always copied, here and below: linalg.c says why. */
amp_status amp_stack_read(const amp_call *call, const amp_tensor *t, amp_dtype compute, const amp_batch *batch,
                          amp_stack *stack);

/* Result number `index`, (batch…, rows, columns), or (batch…, rows) where columns is AMP_VECTOR: its own memory where
 * that is column-major, else memory that amp_stack_finish copies. */
amp_status amp_stack_output(amp_call *call, int index, amp_dtype dtype, amp_dtype compute, const amp_batch *batch,
                            int64_t rows, int64_t columns, amp_stack *stack);

/* The same where the stack holds the transposes: for a result (batch…, rows, columns), its matrices are columns × rows.
 * Without a copy for row-major results. */
amp_status amp_stack_output_transposed(amp_call *call, int index, amp_dtype dtype, amp_dtype compute,
                                       const amp_batch *batch, int64_t rows, int64_t columns, amp_stack *stack);

amp_status amp_stack_finish(amp_stack *stack);

/* The upper left rows × columns of the stack as result number `index`. */
amp_status amp_stack_return(amp_call *call, int index, const amp_stack *stack, const amp_batch *batch, int64_t rows,
                            int64_t columns);

/* An empty result, where an op has nothing to say. */
amp_status amp_linalg_return_empty(amp_call *call, int index, amp_dtype dtype);

amp_status amp_linalg_run(amp_call *call, const amp_linalg_loop *loop);

/* Room for the infos of a batch, all zero. A tensor of the call's; `output` < 0, or the number of the result that it
 * is. */
amp_status amp_linalg_infos(amp_call *call, const amp_batch *batch, int output, amp_tensor **tensor, int32_t **infos);

/* The number of the first matrix whose info is not 0; −1: none, or none that the host can see yet. */
int64_t amp_linalg_first_failure(const amp_call *call, const amp_batch *batch, const int32_t *infos);

#endif /* AMP_CPU_LINALG_H */
