/* Cholesky factors: cholesky, linalg_cholesky, linalg_cholesky_ex, cholesky_inverse, cholesky_solve. */
#include "amp/ops.h"
#include "ops/linalg/linalg.h"

typedef struct cholesky_job {
    const amp_lapack *lapack;
    amp_stack a, b;
    char uplo;
} cholesky_job;

static int64_t cube(int64_t n) {
    return n * n * n;
}

/* ---- Factors --------------------------------------------------------------------------------------------------- */

static int factorise_one(void *context, int64_t index, amp_lapack_work *work) {
    const cholesky_job *job = context;
    const int n = job->a.rows;
    void *a = amp_stack_at(&job->a, index);
    (void)work;
    job->lapack->clear_triangle(job->uplo == 'U' ? 'L' : 'U', n, n, a, job->a.ld);
    return job->lapack->potrf(job->uplo, n, a, job->a.ld);
}

static amp_status factorise(amp_call *call, const amp_tensor *input, bool upper, bool check, int info_output) {
    AMP_TRY(amp_linalg_check(call, "input", input, true));
    const amp_batch batch = amp_batch_of(input, 2);
    const int64_t n = input->shape[input->rank - 1];
    cholesky_job job = {.lapack = amp_lapack_of(input->dtype), .uplo = upper ? 'U' : 'L'};
    amp_linalg_loop loop = {
        .run = factorise_one,
        .context = &job,
        .lapack = job.lapack,
        .batch = &batch,
        .macs = cube(n) / 6,
        .kernel = {.kind = AMP_LINALG_cholesky, .stacks = {&job.a}, .options = {job.uplo}, .check = check}};
    AMP_TRY(amp_stack_output(call, 0, input->dtype, input->dtype, &batch, n, n, &job.a));
    AMP_TRY(amp_stack_fill(&job.a, input));
    AMP_TRY(amp_linalg_infos(call, &batch, info_output, NULL, &loop.infos));
    if (n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    const int64_t bad = check ? amp_linalg_first_failure(call, &batch, loop.infos) : -1;
    if (bad >= 0) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: %s'input' is not positive-definite: its leading minor of order %d is not positive",
                        amp_call_name(call), amp_linalg_matrix_name(&batch, bad), (int)loop.infos[bad]);
    }
    return amp_stack_finish(&job.a);
}

amp_status amp_op_linalg_cholesky(amp_call *call) {
    const amp_linalg_cholesky_args *a = call->args;
    return factorise(call, a->input, a->upper, true, -1);
}

amp_status amp_op_linalg_cholesky_ex(amp_call *call) {
    const amp_linalg_cholesky_ex_args *a = call->args;
    return factorise(call, a->input, a->upper, a->check_errors, 1);
}

/* ---- With factors ---------------------------------------------------------------------------------------------- */

static int invert_one(void *context, int64_t index, amp_lapack_work *work) {
    const cholesky_job *job = context;
    const int n = job->a.rows;
    void *a = amp_stack_at(&job->a, index);
    (void)work;
    const int info = job->lapack->potri(job->uplo, n, a, job->a.ld);
    job->lapack->mirror(job->uplo, n, a, job->a.ld);
    return info;
}

amp_status amp_op_cholesky_inverse(amp_call *call) {
    const amp_cholesky_inverse_args *args = call->args;
    const amp_tensor *input = args->input;
    AMP_TRY(amp_linalg_check(call, "input", input, true));
    const amp_batch batch = amp_batch_of(input, 2);
    const int64_t n = input->shape[input->rank - 1];
    cholesky_job job = {.lapack = amp_lapack_of(input->dtype), .uplo = args->upper ? 'U' : 'L'};
    amp_linalg_loop loop = {
        .run = invert_one,
        .context = &job,
        .lapack = job.lapack,
        .batch = &batch,
        .macs = cube(n) / 3,
        .kernel = {
            .kind = AMP_LINALG_cholesky_solve, .stacks = {&job.b, &job.a}, .options = {job.uplo, true}, .check = true}};
    AMP_TRY(amp_stack_output(call, 0, input->dtype, input->dtype, &batch, n, n, &job.a));
    if (call->device == AMP_DEVICE_CUDA)
        AMP_TRY(
            amp_stack_read(call, input, input->dtype, &batch, &job.b)); /* there the inverse solves for the identity */
    else
        AMP_TRY(amp_stack_fill(&job.a, input));
    AMP_TRY(amp_linalg_infos(call, &batch, -1, NULL, &loop.infos));
    if (n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    const int64_t bad = amp_linalg_first_failure(call, &batch, loop.infos);
    if (bad >= 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: %selement %d of the factor's diagonal is zero: there is no inverse",
                        amp_call_name(call), amp_linalg_matrix_name(&batch, bad), (int)loop.infos[bad]);
    }
    return amp_stack_finish(&job.a);
}

static int solve_one(void *context, int64_t index, amp_lapack_work *work) {
    const cholesky_job *job = context;
    (void)work;
    return job->lapack->potrs(job->uplo, job->a.rows, job->b.columns, amp_stack_at(&job->a, index), job->a.ld,
                              amp_stack_at(&job->b, index), job->b.ld);
}

amp_status amp_op_cholesky_solve(amp_call *call) {
    const amp_cholesky_solve_args *args = call->args;
    const amp_tensor *b = args->B, *l = args->L;
    AMP_TRY(amp_linalg_check(call, "B", b, false));
    AMP_TRY(amp_linalg_check(call, "L", l, true));
    AMP_TRY(amp_call_check_same_dtype(call, "B", b, "L", l));
    const int64_t n = l->shape[l->rank - 1], columns = b->shape[b->rank - 1];
    if (b->shape[b->rank - 2] != n) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'B' is %s, 'L' is %s; B must have as many rows as L",
                        amp_call_name(call), amp_describe(b), amp_describe(l));
    }
    const amp_batch batch_b = amp_batch_of(b, 2), batch_l = amp_batch_of(l, 2);
    amp_batch batch;
    AMP_TRY(amp_batch_broadcast(call, "B", &batch_b, "L", &batch_l, &batch));
    cholesky_job job = {.lapack = amp_lapack_of(b->dtype), .uplo = args->upper ? 'U' : 'L'};
    const amp_linalg_loop loop = {
        .run = solve_one,
        .context = &job,
        .lapack = job.lapack,
        .batch = &batch,
        .macs = n * n * columns,
        .kernel = {.kind = AMP_LINALG_cholesky_solve, .stacks = {&job.a, &job.b}, .options = {job.uplo}}};
    AMP_TRY(amp_stack_read(call, l, l->dtype, &batch, &job.a));
    AMP_TRY(amp_stack_output(call, 0, b->dtype, b->dtype, &batch, n, columns, &job.b));
    AMP_TRY(amp_stack_fill(&job.b, b));
    if (n > 0 && columns > 0) AMP_TRY(amp_linalg_run(call, &loop));
    return amp_stack_finish(&job.b);
}
