/* Equations and inverses through LU factors: lu_with_info, linalg_lu_factor, (linalg_)lu_solve, linalg_solve,
 * linalg_inv(_ex), linalg_tensorinv, linalg_tensorsolve; and triangular_solve, linalg_solve_triangular. */
#include "amp/ops.h"
#include "call/backend.h"
#include "ops/linalg/linalg.h"
#include "steps/shape_rules.h"

typedef struct lu_job {
    const amp_lapack *lapack;
    amp_stack lu, pivots, b;
    char trans;
    bool pivoted;
    bool invert; /* b becomes the identity first */
} lu_job;

/* ---- LU -------------------------------------------------------------------------------------------------------- */

/* A NaN is no pivot: OpenBLAS's search for the largest element may come back with none. */
static int factorise(const lu_job *job, void *lu, int *pivots) {
    const int m = job->lu.rows, n = job->lu.columns, ld = job->lu.ld;
    if (job->pivoted && job->lapack->content(m, n, lu, ld) != AMP_LAPACK_NAN) {
        return job->lapack->getrf(m, n, lu, ld, pivots);
    }
    for (int i = 0; i < m && i < n; i++) pivots[i] = i + 1;
    return job->lapack->getrf_plain(m, n, lu, ld);
}

static int factorise_one(void *context, int64_t index, amp_lapack_work *work) {
    const lu_job *job = context;
    (void)work;
    return factorise(job, amp_stack_at(&job->lu, index), amp_stack_at(&job->pivots, index));
}

/* Result `info_output` has the status of each matrix; < 0: none has. */
static amp_status factors(amp_call *call, const char *name, const amp_tensor *a, bool pivot, bool check,
                          int info_output) {
    AMP_TRY(amp_linalg_check(call, name, a, false));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t m = amp_matrix_rows(a), n = amp_matrix_columns(a), k = m < n ? m : n;
    lu_job job = {.lapack = amp_lapack_of(a->dtype), .pivoted = pivot};
    amp_linalg_loop loop = {
        .run = factorise_one,
        .context = &job,
        .lapack = job.lapack,
        .batch = &batch,
        .macs = m * n * k / 3,
        .kernel = {.kind = AMP_LINALG_lu, .stacks = {&job.lu, &job.pivots}, .options = {job.pivoted}, .check = check}};
    AMP_TRY(amp_stack_output(call, 0, a->dtype, a->dtype, &batch, m, n, &job.lu));
    AMP_TRY(amp_stack_fill(&job.lu, a));
    AMP_TRY(amp_stack_output(call, 1, AMP_I32, AMP_I32, &batch, k, AMP_VECTOR, &job.pivots));
    AMP_TRY(amp_linalg_infos(call, &batch, info_output, NULL, &loop.infos));
    if (k > 0) AMP_TRY(amp_linalg_run(call, &loop));
    const int64_t bad = check ? amp_linalg_first_failure(call, &batch, loop.infos) : -1;
    if (bad >= 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: %selement %d of the diagonal of U is zero: '%s' is singular",
                        amp_call_name(call), amp_linalg_matrix_name(&batch, bad), (int)loop.infos[bad], name);
    }
    return amp_stack_finish(&job.lu);
}

amp_status amp_op_lu_with_info(amp_call *call) {
    const amp_lu_with_info_args *a = call->args;
    return factors(call, "input", a->input, a->pivot.value, a->check_errors.value, 2);
}

amp_status amp_op_linalg_lu_factor(amp_call *call) {
    const amp_linalg_lu_factor_args *a = call->args;
    return factors(call, "A", a->A, a->pivot.value, true, -1);
}

static int solve_one(void *context, int64_t index, amp_lapack_work *work) {
    const lu_job *job = context;
    (void)work;
    return job->lapack->getrs(job->trans, job->lu.rows, job->b.columns, amp_stack_at(&job->lu, index), job->lu.ld,
                              amp_stack_at(&job->pivots, index), amp_stack_at(&job->b, index), job->b.ld);
}

static int factorise_and_solve_one(void *context, int64_t index, amp_lapack_work *work) {
    lu_job *job = context;
    void *b = amp_stack_at(&job->b, index);
    const int info = factorise(job, amp_stack_at(&job->lu, index), work->integers);
    if (job->invert) job->lapack->identity(job->b.rows, job->b.columns, b, job->b.ld);
    (void)job->lapack->getrs(job->trans, job->lu.rows, job->b.columns, amp_stack_at(&job->lu, index), job->lu.ld,
                             work->integers, b, job->b.ld);
    return info;
}

static amp_status check_rows(const amp_call *call, const char *name_b, const amp_tensor *b, const char *name_a,
                             const amp_tensor *a) {
    AMP_TRY(amp_linalg_check(call, name_b, b, false));
    AMP_TRY(amp_linalg_check(call, name_a, a, true));
    AMP_TRY(amp_call_check_same_dtype(call, name_b, b, name_a, a));
    if (amp_matrix_rows(b) == amp_matrix_rows(a)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s: '%s' is %s, '%s' is %s; they must have as many rows", amp_call_name(call),
                    name_b, amp_describe(b), name_a, amp_describe(a));
}

/* What the op calls its arguments. */
typedef struct lu_names {
    const char *b, *lu, *pivots;
} lu_names;

/* A pivot out of range would move memory that is not the matrix's. */
static amp_status check_pivots(const amp_call *call, const lu_names *names, const lu_job *job, const amp_batch *batch) {
    const int n = job->pivots.rows;
    if (call->device == AMP_DEVICE_CUDA) return AMP_OK; /* the kernel tells */
    for (int64_t i = 0; i < batch->count; i++) {
        const int *pivots = amp_stack_at(&job->pivots, i);
        for (int k = 0; k < n; k++) {
            if (pivots[k] >= 1 && pivots[k] <= n) continue;
            return amp_fail(AMP_ERROR_INVALID, "%s: %spivot %d of '%s' is %d; expected 1 to %d", amp_call_name(call),
                            amp_linalg_matrix_name(batch, i), k, names->pivots, pivots[k], n);
        }
    }
    return AMP_OK;
}

static amp_status check_pivots_shape(const amp_call *call, const lu_names *names, const amp_tensor *lu,
                                     const amp_tensor *pivots) {
    if (pivots->dtype == AMP_I32 && pivots->rank == lu->rank - 1 && amp_same_leading(pivots, lu, pivots->rank))
        return AMP_OK;
    return amp_fail(pivots->dtype == AMP_I32 ? AMP_ERROR_INVALID : AMP_ERROR_DTYPE,
                    "%s: '%s' is %s, '%s' is %s; expected i32 and one pivot for each row", amp_call_name(call),
                    names->pivots, amp_describe(pivots), names->lu, amp_describe(lu));
}

static amp_status solve_by_factors(amp_call *call, const lu_names *names, const amp_tensor *b, const amp_tensor *lu,
                                   const amp_tensor *given, bool adjoint) {
    AMP_TRY(check_rows(call, names->b, b, names->lu, lu));
    AMP_TRY(check_pivots_shape(call, names, lu, given));
    const amp_batch batch_b = amp_batch_of(b, 2), batch_lu = amp_batch_of(lu, 2);
    const amp_tensor pivots = amp_vector_as_matrix(given);
    amp_batch batch;
    AMP_TRY(amp_batch_broadcast(call, names->b, &batch_b, names->lu, &batch_lu, &batch));
    const amp_dtype compute = amp_linalg_compute_dtype(b->dtype, amp_matrix_rows(b), amp_matrix_columns(b));
    lu_job job = {.lapack = amp_lapack_of(compute), .trans = adjoint ? 'C' : 'N'};
    const amp_linalg_loop loop = {
        .run = solve_one,
        .context = &job,
        .lapack = job.lapack,
        .batch = &batch,
        .macs = amp_matrix_rows(b) * amp_matrix_rows(b) * amp_matrix_columns(b),
        .kernel = {.kind = AMP_LINALG_lu_solve, .stacks = {&job.lu, &job.pivots, &job.b}, .options = {job.trans}}};
    AMP_TRY(amp_stack_read(call, lu, compute, &batch, &job.lu));
    AMP_TRY(amp_stack_read(call, &pivots, AMP_I32, &batch, &job.pivots));
    AMP_TRY(check_pivots(call, names, &job, &batch));
    AMP_TRY(amp_stack_output(call, 0, b->dtype, compute, &batch, amp_matrix_rows(b), amp_matrix_columns(b), &job.b));
    AMP_TRY(amp_stack_fill(&job.b, b));
    if (amp_tensor_elements(&job.b.view) > 0) AMP_TRY(amp_linalg_run(call, &loop));
    return amp_stack_finish(&job.b);
}

amp_status amp_op_lu_solve(amp_call *call) {
    const amp_lu_solve_args *a = call->args;
    static const lu_names names = {"b", "LU_data", "LU_pivots"};
    return solve_by_factors(call, &names, a->b, a->LU_data, a->LU_pivots, a->adjoint);
}

/* X A = B is A^H X^H = B^H. */
amp_status amp_op_linalg_lu_solve(amp_call *call) {
    const amp_linalg_lu_solve_args *a = call->args;
    static const lu_names names = {"B", "LU", "pivots"};
    if (a->left.value) return solve_by_factors(call, &names, a->B, a->LU, a->pivots, a->adjoint);
    AMP_TRY(amp_linalg_check(call, "B", a->B, false));
    amp_call step = amp_call_step(call);
    const amp_tensor *b = amp_linalg_adjoint(a->B);
    if (!b) return amp_pending_error();
    AMP_TRY(solve_by_factors(&step, &names, b, a->LU, a->pivots, !a->adjoint));
    amp_linalg_step_done(call, &step);
    call->outputs[0] = amp_linalg_adjoint(step.outputs[0]);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

/* ---- Inverses and equations ------------------------------------------------------------------------------------ */

/* A is factorised and B overwritten by the solution; `why` names what a singular matrix prevents. */
static amp_status run_solver(amp_call *call, lu_job *job, const amp_batch *batch, bool check, int info_output,
                             const char *why) {
    const int64_t n = job->lu.rows;
    amp_linalg_loop loop = {.run = factorise_and_solve_one,
                            .context = job,
                            .lapack = job->lapack,
                            .batch = batch,
                            .macs = n * n * (n / 3 + job->b.columns),
                            .integers = n,
                            .kernel = {.kind = AMP_LINALG_solve,
                                       .stacks = {&job->lu, &job->b},
                                       .options = {job->trans, job->invert},
                                       .room = n,
                                       .check = check}};
    AMP_TRY(amp_linalg_infos(call, batch, info_output, NULL, &loop.infos));
    if (n > 0) AMP_TRY(amp_linalg_run(call, &loop));
    const int64_t bad = check ? amp_linalg_first_failure(call, batch, loop.infos) : -1;
    if (bad >= 0) {
        return amp_fail(AMP_ERROR_INVALID, "%s: %s'A' is singular (element %d of the diagonal of its U is zero): %s",
                        amp_call_name(call), amp_linalg_matrix_name(batch, bad), (int)loop.infos[bad], why);
    }
    return amp_stack_finish(&job->b);
}

/* The LU factors solve A^T X^T = I as well, and a column-major X^T is a row-major X. */
static amp_status invert(amp_call *call, const amp_tensor *a, bool check, int info_output) {
    AMP_TRY(amp_linalg_check(call, "A", a, true));
    const amp_batch batch = amp_batch_of(a, 2);
    const int64_t n = amp_matrix_rows(a);
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, n, n);
    lu_job job = {.lapack = amp_lapack_of(compute), .trans = 'T', .pivoted = true, .invert = true};
    AMP_TRY(amp_stack_copy(call, a, compute, &batch, &job.lu));
    AMP_TRY(amp_stack_output_transposed(call, 0, a->dtype, compute, &batch, n, n, &job.b));
    return run_solver(call, &job, &batch, check, info_output, "it has no inverse");
}

amp_status amp_op_linalg_inv(amp_call *call) {
    const amp_linalg_inv_args *a = call->args;
    return invert(call, a->A, true, -1);
}

amp_status amp_op_linalg_inv_ex(amp_call *call) {
    const amp_linalg_inv_ex_args *a = call->args;
    return invert(call, a->A, a->check_errors, 1);
}

/* The solutions of A X = B as the call's result. */
static amp_status solve(amp_call *call, const amp_tensor *a, const amp_tensor *right) {
    const bool vector = amp_linalg_is_vector_side(a, right);
    const amp_tensor b = vector ? amp_vector_as_matrix(right) : *right;
    AMP_TRY(check_rows(call, "B", &b, "A", a));
    const amp_batch batch_a = amp_batch_of(a, 2), batch_b = amp_batch_of(&b, 2);
    amp_batch batch;
    AMP_TRY(amp_batch_broadcast(call, "B", &batch_b, "A", &batch_a, &batch));
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, amp_matrix_rows(&b), amp_matrix_columns(&b));
    lu_job job = {.lapack = amp_lapack_of(compute), .trans = 'N', .pivoted = true};
    AMP_TRY(amp_stack_copy(call, a, compute, &batch, &job.lu));
    AMP_TRY(amp_stack_output(call, 0, a->dtype, compute, &batch, amp_matrix_rows(&b),
                             vector ? AMP_VECTOR : amp_matrix_columns(&b), &job.b));
    AMP_TRY(amp_stack_fill(&job.b, &b));
    return run_solver(call, &job, &batch, true, -1, "there is no one solution");
}

/* X A = B is A^T X^T = B^T. */
static amp_status solve_right(amp_call *call, amp_tensor *a, amp_tensor *b) {
    AMP_TRY(amp_linalg_check(call, "B", b, false));
    const amp_tensor a_transposed = amp_matrix_transposed(a), b_transposed = amp_matrix_transposed(b);
    amp_call step = amp_call_step(call);
    AMP_TRY(solve(&step, &a_transposed, &b_transposed));
    amp_linalg_step_done(call, &step);
    const amp_tensor x = amp_matrix_transposed(step.outputs[0]);
    amp_tensor *out = amp_call_output(call, 0, x.dtype, x.rank, x.shape);
    return out ? amp_copy_tensor(out, &x) : amp_pending_error();
}

amp_status amp_op_linalg_solve(amp_call *call) {
    const amp_linalg_solve_args *args = call->args;
    AMP_TRY(amp_linalg_check(call, "A", args->A, true));
    if (args->left.value) return solve(call, args->A, args->B);
    if (!amp_linalg_is_vector_side(args->A, args->B)) return solve_right(call, args->A, args->B);
    return amp_fail(AMP_ERROR_INVALID, "%s: 'B' is %s, a vector; with left false it must be matrices",
                    amp_call_name(call), amp_describe(args->B));
}

/* ---- Tensors as matrices --------------------------------------------------------------------------------------- */

static int64_t extent_of(const amp_tensor *t, int from, int to) {
    int64_t n = 1;
    for (int d = from; d < to; d++) n *= t->shape[d];
    return n;
}

static amp_dims dims_of(const int64_t *shape, int count) {
    amp_dims dims = {.count = count, .set = AMP_PRESENT};
    for (int d = 0; d < count; d++) dims.values[d] = shape[d];
    return dims;
}

static amp_status return_reshaped(amp_call *call, amp_tensor *t, amp_dims shape) {
    call->outputs[0] = amp_reshape(t, shape);
    return call->outputs[0] ? AMP_OK : amp_pending_error();
}

amp_status amp_op_linalg_tensorinv(amp_call *call) {
    const amp_linalg_tensorinv_args *args = call->args;
    amp_tensor *a = args->A;
    const int64_t ind = args->ind.value;
    AMP_TRY(amp_linalg_check(call, "A", a, false));
    if (ind < 1 || ind > a->rank) {
        return amp_fail(AMP_ERROR_INVALID, "%s: 'ind' is %lld; expected 1 to %d, the dimensions of 'A' (%s)",
                        amp_call_name(call), (long long)ind, a->rank, amp_describe(a));
    }
    const int64_t rows = extent_of(a, 0, (int)ind), columns = extent_of(a, (int)ind, a->rank);
    if (rows != columns) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'A' is %s; its first %lld dimensions have %lld elements, the others %lld; these must be "
                        "equal",
                        amp_call_name(call), amp_describe(a), (long long)ind, (long long)rows, (long long)columns);
    }
    amp_dims shape = dims_of(a->shape + ind, a->rank - (int)ind);
    for (int d = 0; d < ind; d++) shape.values[shape.count++] = a->shape[d];
    amp_tensor *matrix = amp_reshape(a, AMP_DIMS(rows, columns));
    amp_call step = amp_call_step(call);
    if (!matrix) return amp_pending_error();
    AMP_TRY(invert(&step, matrix, true, -1));
    amp_linalg_step_done(call, &step);
    return return_reshaped(call, step.outputs[0], shape);
}

/* The dimensions named move to the end, in their order. */
static amp_tensor *moved_to_end(const amp_call *call, amp_tensor *a, const amp_dims *dims) {
    unsigned mask;
    amp_dims order = {.set = AMP_PRESENT};
    if (!dims->set) return a;
    if (amp_wrap_dims(call, "dims", dims, false, a->rank, &mask) != AMP_OK) return NULL;
    for (int d = 0; d < a->rank; d++) {
        if (!(mask & 1u << d)) order.values[order.count++] = d;
    }
    for (int i = 0; i < dims->count; i++) {
        order.values[order.count++] = dims->values[i] < 0 ? dims->values[i] + a->rank : dims->values[i];
    }
    return amp_permute(a, order);
}

amp_status amp_op_linalg_tensorsolve(amp_call *call) {
    const amp_linalg_tensorsolve_args *args = call->args;
    amp_tensor *b = args->B, *a = args->A;
    AMP_TRY(amp_linalg_check(call, "A", a, false));
    a = moved_to_end(call, a, &args->dims);
    if (!a) return amp_pending_error();
    const int64_t n = amp_tensor_elements(b);
    const int from = b->rank < a->rank ? b->rank : a->rank;
    if (extent_of(a, from, a->rank) != n || extent_of(a, 0, from) != n) {
        return amp_fail(AMP_ERROR_INVALID,
                        "%s: 'A' is %s, 'B' is %s; B's dimensions and those that follow them in A must have as many "
                        "elements",
                        amp_call_name(call), amp_describe(a), amp_describe(b));
    }
    amp_tensor *matrix = amp_reshape(a, AMP_DIMS(n, n)), *vector = amp_reshape(b, AMP_DIMS(n));
    if (!matrix || !vector) return amp_pending_error();
    amp_call step = amp_call_step(call);
    AMP_TRY(solve(&step, matrix, vector));
    amp_linalg_step_done(call, &step);
    return return_reshaped(call, step.outputs[0], dims_of(a->shape + from, a->rank - from));
}

/* ---- Triangular matrices --------------------------------------------------------------------------------------- */

typedef struct triangular_job {
    const amp_lapack *lapack;
    amp_stack a, b;
    char uplo, trans, diag;
} triangular_job;

static int solve_triangular_one(void *context, int64_t index, amp_lapack_work *work) {
    const triangular_job *job = context;
    (void)work;
    job->lapack->trsm('L', job->uplo, job->trans, job->diag, job->b.rows, job->b.columns, amp_stack_at(&job->a, index),
                      job->a.ld, amp_stack_at(&job->b, index), job->b.ld);
    return 0;
}

static amp_status copy_coefficient(amp_call *call, const amp_tensor *a, const amp_batch *batch) {
    amp_tensor copy = *a;
    copy.rank = 0;
    for (int d = 0; d < batch->rank; d++) copy.shape[copy.rank++] = batch->shape[d];
    for (int d = a->rank - 2; d < a->rank; d++) copy.shape[copy.rank++] = a->shape[d];
    amp_tensor *out = amp_call_output(call, 1, a->dtype, copy.rank, copy.shape);
    return out ? amp_copy_tensor(out, a) : amp_pending_error();
}

/* Which triangle of A, and how it is read. */
typedef struct triangle {
    const char *name_b, *name_a;
    const amp_tensor *b, *a;
    bool upper, transposed, unit;
} triangle;

static amp_status solve_triangle(amp_call *call, const triangle *t, amp_batch *batch) {
    const amp_tensor *b = t->b, *a = t->a;
    AMP_TRY(check_rows(call, t->name_b, b, t->name_a, a));
    const amp_batch batch_a = amp_batch_of(a, 2), batch_b = amp_batch_of(b, 2);
    AMP_TRY(amp_batch_broadcast(call, t->name_b, &batch_b, t->name_a, &batch_a, batch));
    /* A row-major A is the transpose of a column-major matrix, whose other triangle counts. */
    const bool flip = amp_matrix_columns(a) > 1 && a->strides[a->rank - 1] == 1;
    const amp_tensor read = flip ? amp_matrix_transposed(a) : *a;
    const amp_dtype compute = amp_linalg_compute_dtype(a->dtype, amp_matrix_rows(b), amp_matrix_columns(b));
    triangular_job job = {.lapack = amp_lapack_of(compute),
                          .uplo = t->upper != flip ? 'U' : 'L',
                          .trans = t->transposed != flip ? 'T' : 'N',
                          .diag = t->unit ? 'U' : 'N'};
    const amp_linalg_loop loop = {.run = solve_triangular_one,
                                  .context = &job,
                                  .lapack = job.lapack,
                                  .batch = batch,
                                  .macs = amp_matrix_rows(b) * amp_matrix_rows(b) * amp_matrix_columns(b) / 2,
                                  .kernel = {.kind = AMP_LINALG_triangular,
                                             .stacks = {&job.a, &job.b},
                                             .options = {job.uplo, job.trans, job.diag}}};
    AMP_TRY(amp_stack_read(call, &read, compute, batch, &job.a));
    AMP_TRY(amp_stack_output(call, 0, b->dtype, compute, batch, amp_matrix_rows(b), amp_matrix_columns(b), &job.b));
    AMP_TRY(amp_stack_fill(&job.b, b));
    if (amp_tensor_elements(&job.b.view) > 0) AMP_TRY(amp_linalg_run(call, &loop));
    return amp_stack_finish(&job.b);
}

amp_status amp_op_triangular_solve(amp_call *call) {
    const amp_triangular_solve_args *args = call->args;
    amp_batch batch;
    AMP_TRY(solve_triangle(
        call,
        &(const triangle){"input", "A", args->input, args->A, args->upper.value, args->transpose, args->unitriangular},
        &batch));
    return copy_coefficient(call, args->A, &batch);
}

/* X A = B is A^T X^T = B^T. */
amp_status amp_op_linalg_solve_triangular(amp_call *call) {
    const amp_linalg_solve_triangular_args *args = call->args;
    triangle t = {"B", "input", args->B, args->input, args->upper, false, args->unitriangular};
    amp_batch batch;
    if (args->left.value) return solve_triangle(call, &t, &batch);
    AMP_TRY(amp_linalg_check(call, "B", args->B, false));
    const amp_tensor b = amp_matrix_transposed(args->B);
    amp_call step = amp_call_step(call);
    t.b = &b;
    t.transposed = true;
    AMP_TRY(solve_triangle(&step, &t, &batch));
    amp_linalg_step_done(call, &step);
    const amp_tensor x = amp_matrix_transposed(step.outputs[0]);
    amp_tensor *out = amp_call_output(call, 0, x.dtype, x.rank, x.shape);
    return out ? amp_copy_tensor(out, &x) : amp_pending_error();
}
