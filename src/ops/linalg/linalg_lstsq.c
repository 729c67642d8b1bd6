/* Least squares: linalg_lstsq, and lstsq, the seed's form. */
#include <string.h>

#include "amp/ops.h"
#include "call/backend.h"
#include "core/memory.h"
#include "ops/linalg/linalg.h"

typedef struct lstsq_job {
    const amp_lapack *lapack;
    amp_stack a, b, s; /* b: max(m, n) rows; right-hand sides in, solutions out */
    int64_t *ranks;
    double rcond;
    amp_lstsq_driver driver;
} lstsq_job;

/* Infos that LAPACK has not: a matrix holds NaN or infinity; no memory. */
enum { NOT_FINITE = -1000, NO_MEMORY = -1001 };

static bool has_values(amp_lstsq_driver driver) {
    return driver == AMP_GELSD || driver == AMP_GELSS;
}

static int solve_one(void *context, int64_t index, amp_lapack_work *work) {
    const lstsq_job *job = context;
    const amp_lapack *l = job->lapack;
    const int m = job->a.rows, n = job->a.columns;
    void *a = amp_stack_at(&job->a, index), *b = amp_stack_at(&job->b, index);
    int rank = 0;
    if (work->count >= 0 && (l->content(m, n, a, job->a.ld) != AMP_LAPACK_FINITE ||
                             l->content(m, job->b.columns, b, job->b.ld) != AMP_LAPACK_FINITE)) {
        return NOT_FINITE;
    }
    /* gelss writes a right-hand side even where there is none */
    void *spare = job->b.columns == 0 ? amp_alloc_zeroed((size_t)job->b.ld * sizeof(double[2])) : NULL;
    if (job->b.columns == 0 && !spare) return NO_MEMORY;
    const int info = l->lstsq(job->driver, m, n, job->b.columns, a, job->a.ld, spare ? spare : b, job->b.ld,
                              amp_stack_at(&job->s, index), job->rcond, &rank, work);
    amp_free(spare);
    if (work->count >= 0 && job->ranks) job->ranks[index] = rank;
    return info;
}

/* The drivers that look for the rank all do it by singular values there. */
static amp_linalg_kernel kernel_of(const lstsq_job *job) {
    const int64_t m = job->a.rows, n = job->a.columns, k = amp_smaller(m, n), longer = amp_larger(m, n);
    return (amp_linalg_kernel){.kind = AMP_LINALG_lstsq,
                               .stacks = {&job->a, &job->b, &job->s},
                               .options = {job->driver == AMP_GELS ? 'R' : 'V'},
                               .number = job->rcond,
                               .room = k + k * (m + n + job->b.columns) + amp_linalg_svd_room(m, n) + longer,
                               .ranks = job->ranks,
                               .check = true};
}

static amp_status solve(amp_call *call, lstsq_job *job, const amp_batch *batch, const char *name_a,
                        const char *name_b) {
    const int64_t m = job->a.rows, n = job->a.columns, nrhs = job->b.columns;
    amp_linalg_loop loop = {.run = solve_one,
                            .context = job,
                            .lapack = job->lapack,
                            .batch = batch,
                            .macs = m * n * (amp_smaller(m, n) + nrhs) * 4,
                            .asks = true,
                            .reals = 5 * amp_larger(m, n),
                            .integers = n,
                            .kernel = kernel_of(job)};
    AMP_TRY(amp_linalg_infos(call, batch, -1, NULL, &loop.infos));
    if (amp_smaller(m, n) > 0) AMP_TRY(amp_linalg_run(call, &loop));
    const int64_t bad = amp_linalg_first_failure(call, batch, loop.infos);
    if (bad < 0) return AMP_OK;
    if (loop.infos[bad] == NOT_FINITE) {
        return amp_fail(AMP_ERROR_INVALID, "%s: %s'%s' or '%s' holds NaN or infinity", amp_call_name(call),
                        amp_linalg_matrix_name(batch, bad), name_a, name_b);
    }
    if (loop.infos[bad] == NO_MEMORY) {
        return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the solution", amp_call_name(call));
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: %sthe algorithm did not converge, or '%s' has not full rank (info is %d)",
                    amp_call_name(call), amp_linalg_matrix_name(batch, bad), name_a, (int)loop.infos[bad]);
}

/* A and B (m × nrhs) as working copies; B's has room for the longer of right-hand side and solution. */
static amp_status start(amp_call *call, lstsq_job *job, const char *name_a, const amp_tensor *a, const char *name_b,
                        const amp_tensor *b, amp_batch *batch) {
    AMP_TRY(amp_linalg_check(call, name_b, b, false));
    AMP_TRY(amp_call_check_same_dtype(call, name_a, a, name_b, b));
    if (amp_matrix_rows(a) != amp_matrix_rows(b)) {
        return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; they must have as many rows",
                        amp_call_name(call), name_a, amp_describe(a), name_b, amp_describe(b));
    }
    const amp_batch batch_a = amp_batch_of(a, 2), batch_b = amp_batch_of(b, 2);
    AMP_TRY(amp_batch_broadcast(call, name_a, &batch_a, name_b, &batch_b, batch));
    job->lapack = amp_lapack_of(a->dtype);
    AMP_TRY(amp_stack_copy(call, a, a->dtype, batch, &job->a));
    AMP_TRY(amp_stack_new(call, a->dtype, batch, amp_larger(amp_matrix_rows(a), amp_matrix_columns(a)),
                          amp_matrix_columns(b), &job->b));
    const amp_scalar zero = amp_int(0);
    if (amp_matrix_rows(a) < amp_matrix_columns(a)) AMP_TRY(amp_fill_tensor_with(&job->b.view, &zero));
    return amp_stack_fill(&job->b, b);
}

/* ---- linalg_lstsq ----------------------------------------------------------------------------------------------- */

static amp_status find_driver(const amp_call *call, const char *name, amp_lstsq_driver *driver) {
    static const char *const names[] = {
        [AMP_GELS] = "gels", [AMP_GELSY] = "gelsy", [AMP_GELSD] = "gelsd", [AMP_GELSS] = "gelss"};
    *driver = AMP_GELSY;
    if (!name) return AMP_OK;
    for (int d = AMP_GELS; d <= AMP_GELSS; d++) {
        *driver = (amp_lstsq_driver)d;
        if (!strcmp(name, names[d])) return AMP_OK;
    }
    return amp_fail(AMP_ERROR_INVALID, "%s: 'driver' is \"%s\"; expected \"gels\", \"gelsy\", \"gelsd\" or \"gelss\"",
                    amp_call_name(call), name);
}

static amp_status make_ranks(amp_call *call, lstsq_job *job, const amp_batch *batch) {
    if (job->driver == AMP_GELS) return amp_linalg_return_empty(call, 2, AMP_I64);
    amp_tensor *ranks = amp_call_output(call, 2, AMP_I64, batch->rank, batch->shape);
    if (!ranks) return amp_pending_error();
    job->ranks = amp_tensor_pointer(ranks);
    const amp_scalar zero = amp_int(0);
    return amp_fill_tensor_with(ranks, &zero);
}

static amp_status make_values(amp_call *call, lstsq_job *job, const amp_batch *batch) {
    const amp_dtype real = job->lapack->real_dtype;
    if (!has_values(job->driver)) return amp_linalg_return_empty(call, 3, real);
    return amp_stack_output(call, 3, real, real, batch, amp_smaller(job->a.rows, job->a.columns), AMP_VECTOR, &job->s);
}

/* Rows n to m of LAPACK's answer hold what is left over, where every matrix has full rank; on a device, which alone
 * knows that, where the driver takes it for granted. */
static bool has_residuals(const amp_call *call, const lstsq_job *job, const amp_batch *batch) {
    if (job->a.rows <= job->a.columns || job->driver == AMP_GELSY) return false;
    if (call->device == AMP_DEVICE_CUDA) return !job->ranks;
    for (int64_t i = 0; job->ranks && i < batch->count; i++) {
        if (job->ranks[i] != job->a.columns) return false;
    }
    return true;
}

static amp_status return_residuals(amp_call *call, const lstsq_job *job, const amp_batch *batch) {
    const amp_dtype real = job->lapack->real_dtype;
    if (!has_residuals(call, job, batch)) return amp_linalg_return_empty(call, 1, real);
    amp_tensor left = job->b.view;
    left.shape[left.rank - 2] = job->a.rows - job->a.columns;
    left.offset += job->a.columns * left.strides[left.rank - 2];
    amp_tensor *view = amp_tensor_view(call->op->name, &left, left.rank, left.shape, left.strides, left.offset);
    amp_tensor *squares = view ? amp_square(amp_abs(view)) : NULL;
    call->outputs[1] = squares ? amp_sum(squares, AMP_DIMS(-2)) : NULL;
    return call->outputs[1] ? AMP_OK : amp_pending_error();
}

amp_status amp_op_linalg_lstsq(amp_call *call) {
    const amp_linalg_lstsq_args *args = call->args;
    const amp_tensor *a = args->A;
    lstsq_job job = {0};
    amp_batch batch;
    AMP_TRY(amp_linalg_check(call, "A", a, false));
    AMP_TRY(find_driver(call, args->driver, &job.driver));
    const bool vector = amp_linalg_is_vector_side(a, args->B);
    const amp_tensor b = vector ? amp_vector_as_matrix(args->B) : *args->B;
    AMP_TRY(start(call, &job, "A", a, "B", &b, &batch));
    const double default_rcond = job.lapack->epsilon * (double)amp_larger(job.a.rows, job.a.columns);
    job.rcond = args->rcond.set ? args->rcond.value : default_rcond;
    AMP_TRY(make_ranks(call, &job, &batch));
    AMP_TRY(make_values(call, &job, &batch));
    AMP_TRY(solve(call, &job, &batch, "A", "B"));
    AMP_TRY(return_residuals(call, &job, &batch));
    return amp_stack_return(call, 0, &job.b, &batch, job.a.columns, vector ? AMP_VECTOR : job.b.columns);
}

/* ---- lstsq ------------------------------------------------------------------------------------------------------ */

/* The solution keeps the rows below it that LAPACK left there, as the seed's did. */
amp_status amp_op_lstsq(amp_call *call) {
    const amp_lstsq_args *args = call->args;
    lstsq_job job = {.driver = AMP_GELS};
    amp_batch batch;
    AMP_TRY(amp_linalg_check(call, "A", args->A, false));
    AMP_TRY(start(call, &job, "A", args->A, "input", args->input, &batch));
    AMP_TRY(solve(call, &job, &batch, "A", "input"));
    AMP_TRY(amp_stack_return(call, 0, &job.b, &batch, job.b.rows, job.b.columns));
    return amp_stack_return(call, 1, &job.a, &batch, job.a.rows, job.a.columns);
}
