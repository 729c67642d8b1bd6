/* Orthogonal factors from Householder reflectors: linalg_qr, qr, geqrf, linalg_householder_product, ormqr. */
#include <string.h>

#include "amp/ops.h"
#include "ops/linalg/linalg.h"

/* LAPACK's block size is at most 64; ormqr also keeps a triangle of 65 × 64. */
enum { BLOCK = 64, TRIANGLE = 65 * BLOCK };

typedef struct qr_job {
    const amp_lapack *lapack;
    amp_stack a, tau, q, c;
    char side, trans;
} qr_job;

/* ---- geqrf ----------------------------------------------------------------------------------------------------- */

static int reflect_one(void *context, int64_t index, amp_lapack_work *work) {
    const qr_job *job = context;
    return job->lapack->geqrf(job->a.rows, job->a.columns, amp_stack_at(&job->a, index), job->a.ld,
                              amp_stack_at(&job->tau, index), work);
}

amp_status amp_op_geqrf(amp_call *call) {
    const amp_geqrf_args *args = call->args;
    const amp_tensor *a = args->input;
    AMP_TRY(amp_linalg_check(call, "input", a, false));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a), k = amp_smaller(m, n);
    qr_job job = {.lapack = amp_lapack_of(a->dtype)};
    const amp_linalg_loop loop = {.run = reflect_one,
                                  .context = &job,
                                  .lapack = job.lapack,
                                  .batch = &batch,
                                  .macs = m * n * k,
                                  .elements = n * BLOCK,
                                  .kernel = {.kind = AMP_LINALG_geqrf, .stacks = {&job.a, &job.tau}}};
    AMP_TRY(amp_stack_output(call, 0, a->dtype, a->dtype, &batch, m, n, &job.a));
    AMP_TRY(amp_stack_fill(&job.a, a));
    AMP_TRY(amp_stack_output(call, 1, a->dtype, a->dtype, &batch, k, AMP_VECTOR, &job.tau));
    if (k > 0) AMP_TRY(amp_linalg_run(call, &loop));
    AMP_TRY(amp_stack_finish(&job.a));
    return amp_stack_finish(&job.tau);
}

/* ---- Q and R --------------------------------------------------------------------------------------------------- */

static void make_q(const qr_job *job, int64_t index, const void *a, const void *tau, amp_lapack_work *work) {
    const size_t size = amp_dtype_size(job->lapack->dtype);
    const int m = job->q.rows, k = (int)amp_smaller(job->a.rows, job->a.columns);
    char *q = amp_stack_at(&job->q, index);
    for (int j = 0; j < k; j++) {
        memcpy(q + (size_t)j * (size_t)job->q.ld * size, (const char *)a + (size_t)j * (size_t)job->a.ld * size,
               (size_t)m * size);
    }
    (void)job->lapack->orgqr(m, job->q.columns, k, q, job->q.ld, tau, work);
}

/* The reflectors' scales lie in the workspace, before what LAPACK takes of it. */
static int factorise_one(void *context, int64_t index, amp_lapack_work *work) {
    const qr_job *job = context;
    const int m = job->a.rows, n = job->a.columns, k = (int)amp_smaller(m, n);
    char *a = amp_stack_at(&job->a, index), *tau = work->elements;
    amp_lapack_work rest = *work;
    rest.elements = tau + (size_t)k * amp_dtype_size(job->lapack->dtype);
    rest.count -= k;
    if (k > 0) (void)job->lapack->geqrf(m, n, a, job->a.ld, tau, &rest);
    if (job->q.view.rank && k > 0) make_q(job, index, a, tau, &rest);
    if (job->q.view.rank && k == 0) {
        job->lapack->identity(job->q.rows, job->q.columns, amp_stack_at(&job->q, index), job->q.ld);
    }
    job->lapack->clear_triangle('L', m, n, a, job->a.ld);
    return 0;
}

typedef enum qr_mode { REDUCED, COMPLETE, ONLY_R } qr_mode;

static amp_status factorise(amp_call *call, const char *name, const amp_tensor *a, qr_mode mode) {
    AMP_TRY(amp_linalg_check(call, name, a, false));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a), k = amp_smaller(m, n),
                  inner = mode == COMPLETE ? m : k;
    qr_job job = {.lapack = amp_lapack_of(a->dtype)};
    const amp_linalg_loop loop = {.run = factorise_one,
                                  .context = &job,
                                  .lapack = job.lapack,
                                  .batch = &batch,
                                  .macs = m * k * (n + inner),
                                  .elements = amp_larger(inner, n) * BLOCK + k,
                                  .kernel = {.kind = AMP_LINALG_qr, .stacks = {&job.a, &job.q}, .room = m}};
    AMP_TRY(amp_stack_copy(call, a, a->dtype, &batch, &job.a));
    if (mode == ONLY_R)
        AMP_TRY(amp_linalg_return_empty(call, 0, a->dtype));
    else
        AMP_TRY(amp_stack_output(call, 0, a->dtype, a->dtype, &batch, m, inner, &job.q));
    if (m > 0) AMP_TRY(amp_linalg_run(call, &loop));
    AMP_TRY(amp_stack_return(call, 1, &job.a, &batch, inner, n));
    return amp_stack_finish(&job.q);
}

amp_status amp_op_qr(amp_call *call) {
    const amp_qr_args *a = call->args;
    return factorise(call, "input", a->input, a->some.value ? REDUCED : COMPLETE);
}

amp_status amp_op_linalg_qr(amp_call *call) {
    static const char *const names[] = {[REDUCED] = "reduced", [COMPLETE] = "complete", [ONLY_R] = "r"};
    const amp_linalg_qr_args *a = call->args;
    for (int mode = REDUCED; mode <= ONLY_R; mode++) {
        if (!strcmp(a->mode, names[mode])) return factorise(call, "A", a->A, (qr_mode)mode);
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'mode' is \"%s\"; expected \"reduced\", \"complete\" or \"r\"",
                    amp_call_name(call), a->mode);
}

/* ---- With reflectors ------------------------------------------------------------------------------------------- */

/* tau belongs to the reflectors: same dtype, same batch, at most as many as there are columns. */
static amp_status check_tau(const amp_call *call, const amp_tensor *a, const amp_tensor *tau) {
    AMP_TRY(amp_call_check_same_dtype(call, "input", a, "tau", tau));
    const bool fits = tau->rank == a->rank - 1 && amp_same_leading(tau, a, tau->rank - 1) &&
                      tau->shape[tau->rank - 1] <= amp_smaller(amp_matrix_rows(a), amp_matrix_columns(a));
    if (fits) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'input' is %s, 'tau' is %s; expected the same batch and at most one scale for each column",
                    amp_call_name(call), amp_describe(a), amp_describe(tau));
}

static int multiply_out_one(void *context, int64_t index, amp_lapack_work *work) {
    const qr_job *job = context;
    return job->lapack->orgqr(job->q.rows, job->q.columns, job->tau.rows, amp_stack_at(&job->q, index), job->q.ld,
                              amp_stack_at(&job->tau, index), work);
}

amp_status amp_op_linalg_householder_product(amp_call *call) {
    const amp_linalg_householder_product_args *args = call->args;
    const amp_tensor *a = args->input;
    AMP_TRY(amp_linalg_check(call, "input", a, false));
    AMP_TRY(check_tau(call, a, args->tau));
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a);
    if (m < n) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'input' is %s; expected at least as many rows as columns",
                        amp_call_name(call), amp_describe(a));
    }
    const amp_batch batch = amp_batch_of(a, 2);
    const amp_tensor tau = amp_vector_as_matrix(args->tau);
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, m, n);
    qr_job job = {.lapack = amp_lapack_of(compute)};
    const amp_linalg_loop loop = {.run = multiply_out_one,
                                  .context = &job,
                                  .lapack = job.lapack,
                                  .batch = &batch,
                                  .macs = m * n * amp_matrix_rows(&tau),
                                  .elements = n * BLOCK,
                                  .kernel = {.kind = AMP_LINALG_householder, .stacks = {&job.q, &job.tau}}};
    AMP_TRY(amp_stack_read(call, &tau, compute, &batch, &job.tau));
    AMP_TRY(amp_stack_output(call, 0, a->dtype, compute, &batch, m, n, &job.q));
    AMP_TRY(amp_stack_fill(&job.q, a));
    if (n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    return amp_stack_finish(&job.q);
}

static int multiply_one(void *context, int64_t index, amp_lapack_work *work) {
    const qr_job *job = context;
    return job->lapack->ormqr(job->side, job->trans, job->c.rows, job->c.columns, job->tau.rows,
                              amp_stack_at(&job->a, index), job->a.ld, amp_stack_at(&job->tau, index),
                              amp_stack_at(&job->c, index), job->c.ld, work);
}

static amp_status check_other(const amp_call *call, const amp_tensor *a, const amp_tensor *other, bool left) {
    AMP_TRY(amp_linalg_check(call, "other", other, false));
    AMP_TRY(amp_call_check_same_dtype(call, "input", a, "other", other));
    const bool fits = a->rank == other->rank && amp_same_leading(a, other, a->rank - 2) &&
                      amp_matrix_rows(a) == (left ? amp_matrix_rows(other) : amp_matrix_columns(other));
    if (fits) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID,
                    "%s: 'input' is %s, 'other' is %s; expected the same batch, and other to have as many %s as input "
                    "has rows",
                    amp_call_name(call), amp_describe(a), amp_describe(other), left ? "rows" : "columns");
}

/* The reflectors are copied in any case: LAPACK writes ones on their diagonal while it reads them. */
amp_status amp_op_ormqr(amp_call *call) {
    const amp_ormqr_args *args = call->args;
    const amp_tensor *a = args->input, *other = args->other;
    AMP_TRY(amp_linalg_check(call, "input", a, false));
    AMP_TRY(check_tau(call, a, args->tau));
    AMP_TRY(check_other(call, a, other, args->left.value));
    const amp_batch batch = amp_batch_of(a, 2);
    const amp_tensor tau = amp_vector_as_matrix(args->tau);
    const int64_t m = amp_matrix_rows(other), n = amp_matrix_columns(other);
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, m, n);
    qr_job job = {
        .lapack = amp_lapack_of(compute), .side = args->left.value ? 'L' : 'R', .trans = args->transpose ? 'T' : 'N'};
    const amp_linalg_loop loop = {
        .run = multiply_one,
        .context = &job,
        .lapack = job.lapack,
        .batch = &batch,
        .macs = 2 * m * n * amp_matrix_rows(&tau),
        .elements = amp_larger(m, n) * BLOCK + TRIANGLE,
        .kernel = {.kind = AMP_LINALG_ormqr, .stacks = {&job.a, &job.tau, &job.c}, .options = {job.side, job.trans}}};
    AMP_TRY(amp_stack_copy(call, a, compute, &batch, &job.a));
    AMP_TRY(amp_stack_read(call, &tau, compute, &batch, &job.tau));
    AMP_TRY(amp_stack_output(call, 0, a->dtype, compute, &batch, m, n, &job.c));
    AMP_TRY(amp_stack_fill(&job.c, other));
    if (m > 0 && n > 0 && job.tau.rows > 0) AMP_TRY(amp_linalg_run(call, &loop));
    return amp_stack_finish(&job.c);
}
